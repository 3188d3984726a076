"""The data types of the wire: frames, heart-beats and versions (STOMP 1.2, "STOMP Frames").

A frame's headers are unescaped, and of a repeated one the first counts (STOMP 1.2, "Repeated Header Entries"). `Frame.pairs` has them as
received.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Version(Enum):
    """The versions of STOMP, in order."""

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
    """One frame. Its holder may add headers to it; a decoded one is not shared."""

    command: str
    headers: dict[str, str]
    """By name; the first of repeated headers."""
    body: bytes | bytearray | memoryview = b""
    """Decoders make `bytes`."""
    repeated: tuple[tuple[str, str], ...] = ()
    """All headers in order, if any is repeated; else empty."""
    tail: str = ""
    """Unparsed header lines after all others: each is escaped as in STOMP 1.2 and ends with LF.

    The profile header and the message's properties; only a decoder that is `lazy` leaves them here.
    """

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The headers in the order of the wire, with repeated ones; without those in `tail`."""
        return self.repeated or tuple(self.headers.items())

    @property
    def receipt(self) -> str | None:
        """The receipt that it asks for."""
        return self.headers.get("receipt")

    @property
    def head_bytes(self) -> int:
        """About how much memory its headers take."""
        return sum(map(len, self.headers.values())) + len(self.headers) * _HEADER_SIZE + len(self.tail)

    def __repr__(self) -> str:
        """Show command, headers and the length of the body; no password."""
        shown = " ".join(f"{name}={'…' if name in _SECRET else value!r}" for name, value in self.pairs)
        return f"<{self.command} {shown} {len(self.body)} bytes>"
