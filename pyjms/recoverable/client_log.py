"""The client's log: what it is about to do, on persistent storage, written just before each commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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
