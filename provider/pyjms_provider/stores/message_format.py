"""Messages as stores keep them: in the form of `codec`, and those of AMQP clients with the sections that the client wrote.

The second form has the version 2 in its first byte, the CRC-32 of the rest, and a MessagePack array: the fields that the sections do not say,
and the sections. So a receiver of AMQP gets the bare message of the sender also after a restart.
"""

from __future__ import annotations

import struct
from typing import Any, Final
from zlib import crc32

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder

from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms_provider.amqp.envelope import AmqpEnvelope, read_envelope
from pyjms_provider.amqp.errors import AmqpError
from pyjms_provider.stores import codec
from pyjms_provider.stores.errors import CodecError

_VERSION: Final = 2
_HEAD: Final = struct.Struct(">BI")
_TEMPORARY: Final = 4
"""The flag of a temporary destination, added to the kind of its address."""
# Destination: kind and name, message id, time stamp, expiration, delivery time, sections
_encoder: Final = Encoder()
_decoder: Final = Decoder(tuple[int, str, str | None, int, int, int, bytes])


def encode(envelope: Envelope) -> bytes:
    """Return a message as a store keeps it. Raises `CodecError` for a value of a type that messages may not contain."""
    if type(envelope) is codec.PackedEnvelope:
        return codec.encode(envelope)
    if type(envelope) is not AmqpEnvelope or envelope.sections is None:
        # As `codec.encode` does, without its call: most messages that are stored come here.
        array = codec.encode_array(envelope)
        return _HEAD.pack(codec.VERSION, crc32(array)) + array
    destination = envelope.destination
    fields = (
        destination.kind + _TEMPORARY * destination.temporary,
        destination.name,
        envelope.message_id,
        envelope.timestamp_ms,
        envelope.expiration_ms,
        envelope.deliver_at_ms,
        envelope.sections,
    )
    data = _encoder.encode(fields)
    return _HEAD.pack(_VERSION, crc32(data)) + data


def decode(data: bytes) -> codec.PackedEnvelope | AmqpEnvelope:
    """Return the message that `encode` has written. Raises `CodecError` for anything else."""
    if data[:1] != bytes((_VERSION,)):
        return codec.decode(data)
    rest = memoryview(data)[_HEAD.size :]
    if len(data) < _HEAD.size or crc32(rest) != _HEAD.unpack_from(data)[1]:
        raise CodecError("the checksum is wrong: the stored message was changed")
    try:
        kind, name, message_id, timestamp_ms, expiration_ms, deliver_at_ms, sections = _decoder.decode(rest)
        destination = Address(AddressKind(kind & ~_TEMPORARY), name, bool(kind & _TEMPORARY))
        envelope: Any = read_envelope(sections, now_ms=0, destination=destination)
    except (MsgspecError, ValueError, AmqpError) as error:
        raise CodecError(f"the stored message does not follow its format: {error}") from error
    # Not shared yet.
    envelope.message_id, envelope.timestamp_ms = message_id, timestamp_ms
    envelope.expiration_ms, envelope.deliver_at_ms = expiration_ms, deliver_at_ms
    return envelope  # type: ignore[no-any-return]
