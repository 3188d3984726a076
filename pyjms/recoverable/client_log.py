"""The client's log: its intent, on persistent storage, written just before each commit. Pure.

The four states of a request are distinguished by the log and the register at the broker (lecture, "Client recovery").
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from pyjms.errors import IllegalStateException, JMSException


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """The state that a client needs to continue after a crash. There is one request at a time, so there is one entry
    per client.
    """

    client: str
    session: str
    """The name of the registration at the broker."""
    registered: bool = False
    """Whether the registration is known to be committed."""
    number: int = 0
    """The number of the last request; 0: none yet."""
    request_id: str = ""
    """The id of the transaction that enqueued it."""
    request: str = ""
    """The request as JSON of `write_message` in `stored_message`, with its priority and time to live."""
    attempted: bool = False
    """Whether the processing of its reply has begun."""
    device_state: str | None = None
    """The device's state before that."""
    reply_id: str = ""
    """The id of the transaction that dequeued the reply; "": no commit of one was attempted."""
    notes: str = ""
    """The application's notes on the request, as JSON: what it read, or is about to do."""


class ClientLog(Protocol):
    """The storage of entries. `write` returns when the entry is safe."""

    def read(self, client: str) -> LogEntry | None:
        """Return the client's entry, or None. Raises `ClientLogException`."""
        ...

    def write(self, entry: LogEntry) -> None:
        """Replace the client's last entry. Raises `ClientLogException`."""
        ...

    def close(self) -> None:
        """Close the log's resources. May be repeated."""
        ...


class State(Enum):
    """The progress of the last request; the value says what the client does then."""

    A = "resubmit the request: its transaction did not commit"
    B = "wait for the reply: the server's transaction did not commit"
    C = "process the reply again: its transaction did not commit"
    D = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """The queue manager's record of a client: of its last committed transactions, the ids and the request's number."""

    session: str
    """The name of the registration; the log has the same."""
    incarnation: int
    """Grows with each registration of the client, so that a predecessor that is still alive is detected."""
    request_number: int = 0
    request_id: str = ""
    reply_number: int = 0
    """The number of the request whose reply was dequeued last."""
    reply_id: str = ""


def judge(entry: LogEntry, register: Register, *, reply_is_there: bool) -> State:
    """Compare the client's log with the register.

    A lost log has no request; then the register alone distinguishes B, C and D, and A cannot have left a trace.
    """
    # The log is written before the commit, so an id that the register lacks belongs to a request that was never
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
    """An earlier request is open or in doubt: call `RecoverableRequestor.recover` first."""


class SessionTakenException(JMSException):
    """Another program has registered under the same name since; only one may at a time."""


class ClientLogException(JMSException):
    """The client's log and the register at the broker do not belong together, or the log cannot be read."""
