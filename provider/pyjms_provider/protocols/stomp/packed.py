"""Many messages in one frame: the pages of reader groups, for readers that have `msgspec`.

A frame for each message costs the broker and the reader several times as much as the message itself. A packed page is one MESSAGE whose
body has the version of that form, and for each message how many bytes it takes, how often it was handed out, and the array that stores keep of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from pyjms.spi.replay import ReservedMessage
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.stores.codec import VERSION, decode_plain, encode_plain

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope

__all__ = ["pack", "unpack"]

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
    """Return the messages of a packed page, of which the first has that number; `received` sees each envelope.

    Raises `ProfileError`, `CodecError`.
    """
    found: list[ReservedMessage] = []
    if body[:1] != bytes([VERSION]):
        raise ProfileError("a packed page is of another version: use one version of pyjms on both sides")
    at, end = 1, len(body)
    while at < end:
        if end - at < _HEAD.size:
            raise ProfileError("a packed page ends within a message")
        size, times = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        if end - at < size:
            raise ProfileError("a packed page ends within a message")
        envelope = received(decode_plain(body[at : at + size]))
        found.append(ReservedMessage(first + len(found), envelope, times, times > 1))
        at += size
    return found
