"""Many messages in one frame, in the form of stores: SENDS, MESSAGES, and the pages of reader groups.

A frame for each message costs both sides several times as much as the message itself. SENDS has for each message its length, and its bytes
as a store would keep them; MESSAGES also the delivery count, and whether a client may have seen it. A packed page is one MESSAGE: its body
has the version of that form, and for each message its length, its delivery count, and its array as stores keep it, without version and
checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.spi.replay import ReservedMessage
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.stores.codec import HEAD_SIZE, VERSION, PackedEnvelope, admit, decode_plain, encode, encode_plain
from pyjms_provider.stores.errors import CodecError

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Envelope

PACKED_HEADER: Final = "pyjms-packed"
PACKED_VERSION: Final = str(VERSION)
FRAME_BYTES: Final = 32 * 1024
"""A frame of this size gets no further message."""
FRAME_MESSAGES_MAX: Final = 1000
LENGTH: Final = Struct(">I")
_LENGTH_SIZE: Final = LENGTH.size
_DELIVERY: Final = Struct(">IIB")
_HEAD = Struct(">II")
_COUNT_MAX = 0xFFFF_FFFF


def pack(messages: Sequence[ReservedMessage]) -> bytes:
    """Return the body of a packed page. Raises `CodecError` for a value that no message may have."""
    parts: list[bytes] = [bytes([VERSION])]
    for message in messages:
        data = encode_plain(message.envelope)
        parts += _HEAD.pack(len(data), min(message.count, _COUNT_MAX)), data
    return b"".join(parts)


def unpack(body: bytes, first: int, received: Callable[[Envelope], Envelope]) -> list[ReservedMessage]:
    """Return the messages of a packed page, numbered from `first`; `received` converts each envelope.

    Raises `ProfileError`, `CodecError`.
    """
    found: list[ReservedMessage] = []
    if body[:1] != bytes([VERSION]):
        raise ProfileError("a packed page is of another version: use one version of pyjms on both sides")
    # A view, so that no message is copied before it is decoded.
    view = memoryview(body)
    at, end = 1, len(body)
    while at < end:
        if end - at < _HEAD.size:
            raise ProfileError("a packed page ends within a message")
        size, times = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        if end - at < size:
            raise ProfileError("a packed page ends within a message")
        envelope = received(decode_plain(view[at : at + size]))
        found.append(ReservedMessage(first + len(found), envelope, times, times > 1))
        at += size
    return found


def sends_of(session: str, message: bytes) -> Frame:
    """Return the SENDS of one message, in the form of stores."""
    headers = {"session": session, "content-length": str(_LENGTH_SIZE + len(message))}
    return Frame("SENDS", headers, LENGTH.pack(len(message)) + message)


def read_sends(body: bytes) -> list[PackedEnvelope]:
    """Return the messages of a client's SENDS. Raises `ProfileError`; then none of them may be sent."""
    found: list[PackedEnvelope] = []
    at, end = 0, len(body)
    try:
        while at < end:
            # A truncated length counts as longer than the rest, which is refused below.
            (size,) = LENGTH.unpack_from(body, at) if at + _LENGTH_SIZE <= end else (end,)
            begin = at + _LENGTH_SIZE
            # Mostly a confirmed send, which has one message.
            if not at and begin + size == end:
                return [admit(body[begin:])]
            at = begin + size
            if at > end:
                raise ProfileError("SENDS ends within a message")
            # Limited, as the event loop reads a frame in one go (decision 0150).
            if len(found) == FRAME_MESSAGES_MAX:
                raise ProfileError(f"SENDS has more than {FRAME_MESSAGES_MAX} messages")
            found.append(admit(body[begin:at]))
    except CodecError as error:
        raise ProfileError(f"message {len(found) + 1} of SENDS cannot be taken: {error.reason}") from None
    if not found:
        raise ProfileError("SENDS has no message")
    return found


def pack_delivery(delivery: Delivery, parts: list[bytes]) -> int:
    """Add a delivery to the body of a MESSAGES; return its size in bytes. Raises `CodecError` for a value that no message may have."""
    data = encode(delivery.envelope)
    size = len(data)
    parts += _DELIVERY.pack(size, min(delivery.count, _COUNT_MAX), delivery.redelivered), data
    return size


def pack_one(delivery: Delivery) -> bytes:
    """Return the body of a MESSAGES of one delivery. Raises as `pack_delivery`."""
    data, count = encode(delivery.envelope), delivery.count
    count = min(count, _COUNT_MAX)
    return _DELIVERY.pack(len(data), count, delivery.redelivered) + data


class Arrived(NamedTuple):
    """A delivery as received, whose message has not been decoded."""

    number: int
    times: int
    redelivered: bool
    message: bytes
    """The input of `decode_plain`."""


def unpack_deliveries(body: bytes, first: int) -> list[Arrived]:
    """Return the deliveries of a MESSAGES, numbered from `first`. Raises `ProfileError`."""
    found: list[Arrived] = []
    at, end = 0, len(body)
    while at < end:
        size, count, redelivered = _DELIVERY.unpack_from(body, at) if at + _DELIVERY.size <= end else (end, 0, 0)
        begin = at + _DELIVERY.size
        at = begin + size
        if at > end or size < HEAD_SIZE:
            raise ProfileError("MESSAGES ends within a message")
        # Version and checksum are left out: CONNECTED has settled the version, and the broker has verified the checksum.
        found.append(Arrived(first + len(found), count, redelivered != 0, body[begin + HEAD_SIZE : at]))
    return found
