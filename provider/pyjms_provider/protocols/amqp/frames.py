"""Frames and protocol headers of AMQP as bytes, and back (part 2, 2.2 and 2.3; part 5, 5.3.1)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from pyjms.spi.envelope import fact
from pyjms_provider.amqp import performatives
from pyjms_provider.amqp.codec import NESTING_MAX, as_decode_error
from pyjms_provider.amqp.errors import DecodeError, FramingError

FRAME_SIZE_MIN: Final = 512
"""The largest frame that every peer takes (part 2, 2.7.1)."""
_HEAD: Final = struct.Struct(">IBBH")


class ProtocolId(IntEnum):
    """What a protocol header begins (part 2, 2.2; part 5, 5.2 and 5.3)."""

    AMQP = 0
    TLS = 2
    SASL = 3


@dataclass(frozen=True, slots=True)
class ProtocolHeader:
    """The eight bytes that begin each layer."""

    protocol: int
    version: tuple[int, int, int] = (1, 0, 0)

    def __bytes__(self) -> bytes:
        return b"AMQP" + bytes((self.protocol, *self.version))


class FrameType(IntEnum):
    """The types of frames that the standard defines."""

    AMQP = 0
    SASL = 1


@fact
class Frame:
    """One frame. Without a performative it only tells that the peer is alive (part 2, 2.4.5)."""

    channel: int
    performative: Any
    payload: bytes = b""
    """What comes behind the performative: a part of a message."""


def write_frame(channel: int, performative: bytes, payload: bytes = b"", kind: int = FrameType.AMQP) -> bytes:
    """Return a frame's bytes.

    Args:
        channel: the channel's number; 0 for SASL.
        performative: its bytes, as `performatives.write` returns them; empty: the frame is a sign of life.
        payload: what a transfer carries.
        kind: the frame's type.
    """
    return _HEAD.pack(8 + len(performative) + len(payload), 2, kind, channel) + performative + payload


class FrameDecoder:
    """Takes the bytes of one direction of a connection, in any pieces, and returns protocol headers and frames.

    The owner calls `expect_header` when the next layer begins, and sets the limits when they are agreed upon.
    """

    def __init__(self, frame_size_max: int = FRAME_SIZE_MIN, *, nesting_max: int = NESTING_MAX) -> None:
        self.frame_size_max = frame_size_max
        """The largest frame that is taken, in bytes."""
        self.nesting_max = nesting_max
        """Levels of lists, maps and so on that are taken in a performative."""
        self.kind: int = FrameType.AMQP
        """The type of frames of the present layer."""
        self._data = b""
        self._at = 0
        self._is_header_next = True

    def expect_header(self) -> None:
        """Take the next eight bytes as a protocol header."""
        self._is_header_next = True

    @property
    def pending(self) -> int:
        """How many bytes wait here."""
        return len(self._data) - self._at

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes from the wire."""
        if self._at == len(self._data):
            self._data = bytes(data)
        else:
            self._data = b"".join((self._data[self._at :], data))
        self._at = 0

    def next(self) -> ProtocolHeader | Frame | None:
        """Return what is next; None: more bytes are needed.

        Raises:
            FramingError: the bytes are no frame, or one that is too large.
            DecodeError: a frame's content is no performative.
        """
        data, at = self._data, self._at
        if len(data) - at < 8:
            if self._is_header_next and data[at : at + 4] != b"AMQP"[: len(data) - at]:
                raise FramingError("the connection does not begin with AMQP")
            return None
        if self._is_header_next:
            if data[at : at + 4] != b"AMQP":
                raise FramingError("the connection does not begin with AMQP")
            self._at = at + 8
            self._is_header_next = False
            return ProtocolHeader(data[at + 4], (data[at + 5], data[at + 6], data[at + 7]))
        size, offset, kind, channel = _HEAD.unpack_from(data, at)
        if size > self.frame_size_max:
            raise FramingError(f"a frame has more than the {self.frame_size_max} bytes that are taken here")
        start = at + offset * 4
        end = at + size
        if offset < 2 or start > end:
            raise FramingError(f"a frame of {size} bytes begins its body at byte {offset * 4}")
        if kind != self.kind:
            raise FramingError(f"a frame has the type {kind}, where {self.kind} is due")
        if len(data) < end:
            return None
        self._at = end
        if start == end:
            return Frame(channel, None)
        return self._read_body(data, start, end, channel)

    def _read_body(self, data: bytes, start: int, end: int, channel: int) -> Frame:
        # The performative is read where it stands, among the bytes of other frames: a copy of each frame cost a tenth of its reading.
        try:
            if data[start] != 0:
                raise DecodeError("a frame's body begins with no performative")
            performative, at = performatives.read_composite(data, start, self.nesting_max)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise as_decode_error(error) from None
        if at > end:
            raise DecodeError("a performative is longer than its frame")
        return Frame(channel, performative, data[at:end] if at < end else b"")
