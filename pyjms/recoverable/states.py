"""The four states of a request, and how they are told apart (lecture, "Client recovery"). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyjms.recoverable.client_log import LogEntry


class State(Enum):
    """How far the last request has come; the value says what the client does then."""

    A = "resubmit the request: its transaction did not commit"
    B = "wait for the reply: the server's transaction did not commit"
    C = "process the reply again: its transaction did not commit"
    D = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """What the queue manager keeps for a client: of its last committed transactions, the ids and the request's number."""

    session: str
    """Names the registration; the log has the same."""
    incarnation: int
    """Grows each time the client registers again, so that a predecessor that still lives is found out."""
    request_number: int = 0
    request_id: str = ""
    reply_number: int = 0
    """The number of the request whose reply was dequeued last."""
    reply_id: str = ""


def judge(entry: LogEntry, register: Register, *, reply_is_there: bool) -> State:
    """Compare the client's log with the register.

    A log that was lost knows no request; the register alone tells B, C and D apart then, and A cannot have left a trace.
    """
    if entry.request_id and entry.request_id != register.request_id:
        return State.A
    if register.reply_number == register.request_number and (
        not entry.request_id or entry.reply_id == register.reply_id
    ):
        return State.D
    return State.C if reply_is_there else State.B
