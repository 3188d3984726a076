"""Many messages in one frame: the pages of reader groups, for readers that have `msgspec`.

A frame for each message costs the broker and the reader several times as much as the message itself. A packed page is one MESSAGE whose
body has, for each message, how many bytes it takes, how often it was handed out, and its bytes as stores keep them, with their checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from pyjms.spi.replay import ReservedMessage
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.stores.codec import decode, encode

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope

__all__ = ["PACKED_TYPE", "pack", "unpack"]

PACKED_TYPE = "application/vnd.pyjms.page"

_HEAD = Struct(">II")
_COUNT_MAX = 0xFFFF_FFFF


def pack(messages: Sequence[ReservedMessage]) -> bytes:
    """Return the body of a packed page. Raises `CodecError` for a value that no message may have."""
    parts: list[bytes] = []
    for message in messages:
        data = encode(message.envelope)
        parts += _HEAD.pack(len(data), min(message.count, _COUNT_MAX)), data
    return b"".join(parts)


def unpack(body: bytes, first: int, received: Callable[[Envelope], Envelope]) -> list[ReservedMessage]:
    """Return the messages of a packed page, of which the first has that number; `received` sees each envelope.

    Raises `ProfileError`, `CodecError`.
    """
    found: list[ReservedMessage] = []
    at, end = 0, len(body)
    while at < end:
        if end - at < _HEAD.size:
            raise ProfileError("a packed page ends within a message")
        size, times = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        if end - at < size:
            raise ProfileError("a packed page ends within a message")
        envelope = received(decode(body[at : at + size]))
        found.append(ReservedMessage(first + len(found), envelope, times, times > 1))
        at += size
    return found
