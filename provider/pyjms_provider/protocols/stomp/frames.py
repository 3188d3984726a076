"""The facts of the wire: frames, heart-beats and versions (STOMP 1.2, "STOMP Frames").

A frame's headers are what both sides mean by them: unescaped, and of a repeated one the first (STOMP 1.2, "Repeated
Header Entries"). `Frame.pairs` has them as they came.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Version(Enum):
    """The versions of STOMP; the order is theirs."""

    V1_0 = "1.0"
    V1_1 = "1.1"
    V1_2 = "1.2"

    __hash__ = object.__hash__


class Heartbeat(Enum):
    """Line ends between frames (STOMP 1.2, "Heart-beating"); a run of them is one event."""

    HEARTBEAT = "\n"


HEARTBEAT = Heartbeat.HEARTBEAT

_SECRET = frozenset({"passcode"})
_HEADER_SIZE = 128


@dataclass(slots=True)
class Frame:
    """One frame. Whoever holds one may add headers to it, but a decoded one is shared by nobody else."""

    command: str
    headers: dict[str, str]
    """By name; of repeated headers the first."""
    body: bytes | bytearray | memoryview = b""
    """Decoders make `bytes`."""
    repeated: tuple[tuple[str, str], ...] = ()
    """All headers in their order, if any stood twice; else empty."""
    tail: str = ""
    """Header lines that nobody has taken apart, after all others: each is escaped as in STOMP 1.2 and ends with LF.

    The profile header and the message's properties; only a decoder that is `lazy` leaves them here.
    """

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The headers in the order of the wire, repeated ones too; without those of `tail`."""
        return self.repeated or tuple(self.headers.items())

    @property
    def receipt(self) -> str | None:
        """The receipt that is asked for."""
        return self.headers.get("receipt")

    @property
    def head_bytes(self) -> int:
        """About how much memory its headers take."""
        return sum(map(len, self.headers.values())) + len(self.headers) * _HEADER_SIZE + len(self.tail)

    def prepared(self) -> bytes | None:
        """Return its bytes in STOMP 1.2, if they are made already; None: its fields say all."""
        return None

    def __repr__(self) -> str:
        """Show command, headers and the length of the body; no password."""
        shown = " ".join(f"{name}={'…' if name in _SECRET else value!r}" for name, value in self.pairs)
        return f"<{self.command} {shown} {len(self.body)} bytes>"
