"""The client's log: what it is about to do, on persistent storage, written just before each commit. Pure.

The four states of a request are told apart by the log and the register at the broker (lecture, "Client recovery").
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from pyjms.errors import IllegalStateException, JMSException


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """All that a client needs to go on after a crash. There is one request at a time, so there is one entry a client."""

    client: str
    session: str
    """Names the registration at the broker."""
    registered: bool = False
    """Whether the registration is known to be committed."""
    number: int = 0
    """The number of the last request; 0: none yet."""
    request_id: str = ""
    """The id of the transaction that enqueued it."""
    request: str = ""
    """JSON: the request, as `write_message` in `stored_message` writes it, with its priority and time to live."""
    attempted: bool = False
    """Whether the processing of its reply has begun."""
    device_state: str | None = None
    """The device's state before that."""
    reply_id: str = ""
    """The id of the transaction that dequeued the reply; "": it was never about to commit."""
    notes: str = ""
    """What the application remembers with the request, as JSON: what it read, or is about to do."""


class ClientLog(Protocol):
    """Where entries are kept. `write` returns when the entry is safe."""

    def read(self, client: str) -> LogEntry | None:
        """Return the client's entry, or None. Raises `ClientLogException`."""
        ...

    def write(self, entry: LogEntry) -> None:
        """Put the entry in the place of the client's last one. Raises `ClientLogException`."""
        ...

    def close(self) -> None:
        """Close what the log has open. May be repeated."""
        ...


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
    # The log is written before the commit, so an id that the register lacks is that of a request which was never
    # committed.
    if entry.request_id and entry.request_id != register.request_id:
        return State.A
    # A log that was lost has no ids to compare; then the numbers in the register alone decide between B, C and D.
    if register.reply_number == register.request_number and (
        not entry.request_id or entry.reply_id == register.reply_id
    ):
        return State.D
    return State.C if reply_is_there else State.B


class RecoveryNeededException(IllegalStateException):
    """An earlier request is not settled, or it is not known whether it is: call `RecoverableRequestor.recover` first."""


class SessionTakenException(JMSException):
    """Another program has registered under the same name since; there can be one at a time."""


class ClientLogException(JMSException):
    """The client's log and the register at the broker do not belong together, or the log cannot be read."""
