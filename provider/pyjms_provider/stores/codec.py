"""The binary format of stored messages: compact, with a version and a checksum, and without pickle.

The first byte is the version of the format. In version 1 it is followed by the CRC-32 of the rest (4 bytes, big-endian) and by
one MessagePack array: the fields of `Envelope`, an address as two of them. Values whose class MessagePack does not have are
extension types, numbered below. The delivery time is written as a property: the array has no field for it.

Decoding treats every message as foreign: an object body is decoded with `local` False.

pyjms clients and the broker also exchange messages in this format (`protocols.stomp.packed`). `decode` trusts data with a valid
checksum; `admit` also validates the fields, as the data is a client's. Both keep the bytes in the message, so that it need not be
encoded again. `decode_plain` reads the array alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields as fields_of
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeVar
from zlib import crc32

from msgspec import Meta, MsgspecError, ValidationError
from msgspec.msgpack import Decoder, Encoder, Ext

from pyjms.spi.envelope import DELIVER_AT, Address, AddressKind, Body, BodyKind, Envelope, ObjectBody
from pyjms.spi.fast_paths import FAST_PATHS
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored
from pyjms_provider.stores.errors import CodecError

VERSION = 1
_HEAD = struct.Struct(">BI")
HEAD_SIZE: Final = _HEAD.size
"""Bytes before the array."""

_BYTE, _SHORT, _LONG, _FLOAT, _CHAR, _TEXT, _PAIRS = range(1, 8)
_E = TypeVar("_E", bound=Envelope)
_B, _H, _Q, _F = (struct.Struct(f">{code}") for code in "bhqf")

_OUT: dict[type, Callable[[Any], object]] = {
    Byte: lambda value: Ext(_BYTE, _B.pack(value)),
    Short: lambda value: Ext(_SHORT, _H.pack(value)),
    Long: lambda value: Ext(_LONG, _Q.pack(value)),
    Float: lambda value: Ext(_FLOAT, _F.pack(value)),
    Char: lambda value: Ext(_CHAR, value.encode("utf-16-be", "surrogatepass")),
    Int: int.__index__,  # values of these two classes are stored as plain numbers
    Double: float.__float__,
}


def _enc_hook(value: object) -> object:
    # By exact type: Byte, Short and Long are all integers, and only the class decides which extension type a value gets.
    known = _OUT.get(type(value))
    if known is not None:
        return known(value)
    if isinstance(value, Mapping):
        # `items` is cheap for some mappings in which each look-up by name would cost a call.
        return dict(value.items())
    raise TypeError(f"values of {type(value).__name__} cannot be stored; pyjms.types lists those that can")


def _pairs(data: memoryview) -> dict[object, object]:
    flat = _nested.decode(data)
    return dict(zip(flat[::2], flat[1::2], strict=True))


_IN: dict[int, Callable[[memoryview], object]] = {
    _BYTE: lambda data: Byte(_B.unpack(data)[0]),
    _SHORT: lambda data: Short(_H.unpack(data)[0]),
    _LONG: lambda data: Long(_Q.unpack(data)[0]),
    _FLOAT: lambda data: Float(_F.unpack(data)[0]),
    _CHAR: lambda data: Char(str(data, "utf-16-be", "surrogatepass")),
    _TEXT: lambda data: str(data, "utf-8", "surrogatepass"),
    _PAIRS: _pairs,
}


def _ext_hook(code: int, data: memoryview) -> object:
    known = _IN.get(code)
    if known is None:
        raise ValueError(f"extension type {code} is not known")
    return known(data)


_encoder = Encoder(enc_hook=_enc_hook)
_nested = Decoder(list[Any], ext_hook=_ext_hook)
# destination: kind and name, message id, timestamp, expiration, delivery mode, priority, correlation id,
# reply to: kind and name, type, properties, kind of body, body
_Fields = tuple[int, Any, Any, int, int, int, int, Any, int, Any, Any, Any, int, Any]
_decoder = Decoder(_Fields, ext_hook=_ext_hook)
# The same for messages without extension types in headers and properties: msgspec checks the types itself.
_plain_decoder = Decoder(
    tuple[
        int,
        str,
        str | None,
        int,
        int,
        int,
        int,
        Any,
        int,
        str | None,
        str | None,
        dict[str, bool | int | float | str | None],
        int,
        Any,
    ],
    ext_hook=_ext_hook,
)

# The same for messages of clients: only defined kinds, modes and priorities are accepted, and Java's ranges of numbers.
_INT = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_TIME = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_strict_decoder = Decoder(
    tuple[
        Literal[1, 2, 5, 6],
        str,
        str | None,
        _TIME,
        _TIME,
        Literal[1, 2],
        Literal[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        Any,
        Literal[0, 1, 2, 5, 6],
        str | None,
        str | None,
        dict[str, bool | _INT | float | str | None],
        Literal[0, 1, 2, 3, 4, 5],
        Any,
    ],
    ext_hook=_ext_hook,
)

_TEMPORARY = 4
"""The flag of a temporary destination, added to the kind of its address."""


@lru_cache(maxsize=1024)
def _address(kind: int, name: object) -> Address:
    if not isinstance(name, str):
        raise TypeError("an address without a name")
    return Address(AddressKind(kind & ~_TEMPORARY), name, bool(kind & _TEMPORARY))


class PackedEnvelope(Envelope):
    """A message that keeps its encoded form, which stores and connections use as it is.

    Once `forget` has dropped the properties and the body, they are decoded again on first access. A copy with other fields
    (`dataclasses.replace`) has no bytes. Safe to use from any thread.
    """

    __slots__ = ("data",)

    data: bytes
    """The bytes as `encode` returns them. Not set in a copy."""

    def __getattr__(self, name: str) -> Any:
        """Decode the properties and the body again."""
        # Python calls this only for attributes that are not set, such as these two after `forget`.
        if name not in _LARGE:
            raise AttributeError(name)
        whole = decode_plain(memoryview(self.data)[HEAD_SIZE:])
        # Two threads may do so at once: they set equal values, so no lock is needed.
        self.properties, self.body = whole.properties, whole.body  # type: ignore[misc]  # as the constructor does
        return getattr(whole, name)

    def forget(self) -> None:
        """Drop the properties and the body, which can be decoded again."""
        # Deleted, so that `__getattr__` is called for them; None would be a valid body.
        del self.properties, self.body

    @property
    def memory_bytes(self) -> int:
        """About how much memory the message takes beside the object itself."""
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return _plain(self) == _plain(other) if isinstance(other, Envelope) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as that of an envelope


_LARGE: Final = frozenset({"properties", "body"})
_NAMES: Final = tuple([each.name for each in fields_of(Envelope)])


def _plain(envelope: Envelope) -> tuple[object, ...]:
    return tuple([getattr(envelope, name) for name in _NAMES])


def encode(envelope: Envelope) -> bytes:
    """Return `envelope` as bytes. Raises `CodecError` for a value of a type that messages may not contain."""
    if type(envelope) is PackedEnvelope and (known := _kept(envelope)) is not None:
        return known
    data = encode_array(envelope)
    # The checksum detects damage that the file system and SQLite do not, before a wrong message is delivered.
    return _HEAD.pack(VERSION, crc32(data)) + data


def encode_plain(envelope: Envelope) -> bytes:
    """Return the array of `envelope` alone, without version and checksum, for data that is not stored. Raises `CodecError`."""
    if FAST_PATHS and type(envelope) is PackedEnvelope and (known := _kept(envelope)) is not None:
        return known[HEAD_SIZE:]
    return encode_array(envelope)


def _kept(envelope: PackedEnvelope) -> bytes | None:
    """Return the bytes from which a message was decoded; None: it is a copy."""
    return getattr(envelope, "data", None)


def encode_array(envelope: Envelope) -> bytes:
    """Return the array of `envelope`, encoded anew. Raises `CodecError`."""
    destination, reply_to, body = envelope.destination, envelope.reply_to, envelope.body
    properties, deliver_at_ms = envelope.properties, envelope.deliver_at_ms
    if deliver_at_ms:
        properties = {**properties, DELIVER_AT: Long(deliver_at_ms)}
    fields = (
        destination.kind + _TEMPORARY * destination.temporary,
        destination.name,
        envelope.message_id,
        envelope.timestamp_ms,
        envelope.expiration_ms,
        envelope.delivery_mode,
        envelope.priority,
        envelope.correlation_id,
        0 if reply_to is None else reply_to.kind + _TEMPORARY * reply_to.temporary,
        None if reply_to is None else reply_to.name,
        envelope.jms_type,
        properties,
        # The sum is a plain int, which msgspec encodes in a fraction of the time of an enum's value.
        envelope.body_kind + 0,
        body.data if isinstance(body, ObjectBody) else body,
    )
    try:
        try:
            data = _encoder.encode(fields)
        except UnicodeEncodeError:
            # JMS strings, like Java's, may contain lone surrogates, which MessagePack's strings may not.
            data = _encoder.encode([_spelled_out(field) for field in fields])
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise CodecError(f"message {envelope.message_id} cannot be stored: {error}") from error
    return data


def _spelled_out(value: object) -> object:
    """Return `value` with all strings that are not valid Unicode replaced by extension types."""
    if type(value) is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            return Ext(_TEXT, value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, Mapping):
        return Ext(_PAIRS, _encoder.encode([_spelled_out(part) for pair in value.items() for part in pair]))
    elif type(value) is tuple:
        return [_spelled_out(part) for part in value]
    return value


def decode(data: bytes) -> PackedEnvelope:
    """Decode `data`, an output of `encode`, which the message keeps. Raises `CodecError` for anything else."""
    rest = _checked(data)
    envelope = _read(rest, _plain_decoder, PackedEnvelope)
    # The bytes are kept, so that sending the message on needs no encoding.
    envelope.data = data
    return envelope


def admit(data: bytes) -> PackedEnvelope:
    """Decode and validate `data`, sent by a client; the message keeps it. Raises `CodecError` for what no client may send."""
    rest = _checked(data)
    envelope = _read(rest, _strict_decoder, PackedEnvelope)
    envelope.data = data
    # Only a long message can have so many properties, so short ones are not counted.
    if len(data) > _LONG_MESSAGE and len(envelope.properties) > _PROPERTIES_MAX:
        raise CodecError(f"a message has more than {_PROPERTIES_MAX} properties")
    return envelope


_LONG_MESSAGE: Final = 64 * 1024
_PROPERTIES_MAX: Final = 20_000


def _checked(data: bytes) -> memoryview:
    """Return the array, after a check of the version and the checksum. Raises `CodecError`."""
    if len(data) < HEAD_SIZE:
        raise CodecError(f"{len(data)} bytes are too few for a message")
    # The version before the checksum: another version may compute it otherwise.
    version, checksum = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CodecError(f"format {version} is not known, but format {VERSION} only: a newer pyjms may have written it")
    # A view, as a copy of a large body would cost as much as decoding it.
    rest = memoryview(data)[HEAD_SIZE:]
    if crc32(rest) != checksum:
        raise CodecError("the checksum is wrong: the stored message was changed")
    return rest


def decode_plain(rest: bytes | memoryview) -> Envelope:
    """Decode an output of `encode_plain`. Raises `CodecError` for anything else."""
    return _read(rest, _plain_decoder, Envelope)


def _read(rest: bytes | memoryview, decoder: Decoder[Any], kind: type[_E]) -> _E:
    try:
        try:
            fields = decoder.decode(rest)
        except ValidationError:
            # Headers or properties with extension types fit no declared type: they are
            # decoded without one, and checked in Python.
            fields = _decoder.decode(rest)
            _check_headers(fields)
            if decoder is _strict_decoder:
                _check_ranges(fields)
        if decoder is _strict_decoder:
            _check_name(fields[1])
            if fields[8]:
                _check_name(fields[9])
        # Inside the `try`: the checks of addresses and bodies raise TypeError and ValueError.
        envelope = _make_envelope(fields, kind)
        if decoder is _strict_decoder and fields[12] in _WITH_VALUES:
            body: Any = envelope.body
            _check_integers(body if type(body) is tuple else body.values())
    except (MsgspecError, KeyError, TypeError, ValueError, struct.error, RecursionError) as error:
        raise CodecError(f"the stored message does not follow its format: {error}") from error
    return envelope


def _check_headers(fields: _Fields) -> None:
    if not (type(fields[2]) in _TEXT_OR_NONE and type(fields[10]) in _TEXT_OR_NONE):
        raise TypeError("a header field has a value of a wrong type")
    _typed_map(fields[11], _PROPERTY_TYPES)


def _check_ranges(fields: _Fields) -> None:
    """Check in Python what the strict decoder checks, for messages that it cannot decode."""
    is_known = fields[0] in _ADDRESS_KINDS and (not fields[8] or fields[8] in _ADDRESS_KINDS)
    if not (is_known and fields[5] in (1, 2) and 0 <= fields[6] <= 9 and 0 <= fields[12] < len(_KINDS)):
        raise ValueError("a kind, a delivery mode or a priority that there is not")
    if not (0 <= fields[3] < _TIME_END and 0 <= fields[4] < _TIME_END):
        raise ValueError("a time that is none")
    _check_integers(fields[11].values())


def _check_integers(values: Iterable[object]) -> None:
    for value in values:
        # The exact type: values of the subclasses come from extension types of a fixed size, so they are in range.
        if type(value) is int and not -_INT_END <= value < _INT_END:
            raise ValueError("an int of more than 32 bits")


@lru_cache(maxsize=1024)
def _check_name(name: object) -> None:
    """Check that the name of a destination can be sent in the headers of a plain STOMP frame. Raises `CodecError`, `TypeError`."""
    if not isinstance(name, str):
        raise TypeError("the name of a destination is no text")
    # Cached: a client mostly sends to a few destinations.
    try:
        name.encode()
        is_text = True
    except UnicodeEncodeError:
        is_text = False
    if not name or len(name) > _NAME_MAX or "\0" in name or not is_text:
        raise CodecError(
            f"a destination, and that of JMSReplyTo, has a name of 1 to {_NAME_MAX} characters, none of them NUL or half of a "
            f"surrogate pair; this one is {name[:40]!a}"
        )


_ADDRESS_KINDS: Final = frozenset({1, 2, 5, 6})
_TIME_END: Final = 2**63
_INT_END: Final = 2**31
_NAME_MAX: Final = 16 * 1024
_WITH_VALUES: Final = (BodyKind.MAP, BodyKind.STREAM)


def _make_envelope(fields: _Fields, kind_of_envelope: type[_E]) -> _E:
    (
        kind, name, message_id, timestamp_ms, expiration_ms, delivery_mode, priority, correlation_id,
        reply_kind, reply_name, jms_type, properties, body_kind, body,
    ) = fields  # fmt: skip
    # All decoders leave this field open: it is text or bytes.
    if correlation_id is not None and type(correlation_id) not in _CORRELATION:
        raise TypeError("a correlation id that is none")
    deliver_at_ms = 0
    # Another value than a time stays a property, which the broker refuses.
    if DELIVER_AT in properties and type(properties[DELIVER_AT]) in _TIME_TYPES and properties[DELIVER_AT] >= 0:
        deliver_at_ms = int(properties.pop(DELIVER_AT))
    return kind_of_envelope(
        _address(kind, name),
        message_id,
        timestamp_ms,
        expiration_ms,
        delivery_mode,
        priority,
        correlation_id,
        _address(reply_kind, reply_name) if reply_kind else None,
        jms_type,
        properties,
        _KINDS[body_kind],
        _BODIES[body_kind](body),
        deliver_at_ms,
    )


_TEXT_OR_NONE = frozenset({str, type(None)})
_CORRELATION = frozenset({str, bytes})
_PROPERTY_TYPES = frozenset({bool, int, float, str, Byte, Short, Long, Float, Char, type(None)})
_VALUE_TYPES = _PROPERTY_TYPES | {bytes}
_TIME_TYPES = frozenset({int, Byte, Short, Long})
_NAME_TYPES = frozenset({str})
_KINDS = tuple(BodyKind)


def _typed_map(value: Any, types: frozenset[type]) -> Mapping[str, Stored]:
    # Two passes in C over the whole map, where a loop over the items would cost more than decoding them.
    if type(value) is dict and _NAME_TYPES.issuperset(map(type, value)) and types.issuperset(map(type, value.values())):
        return value
    raise TypeError("properties or a map body with a name or a value of a wrong type")


def _nothing(body: Any) -> Body:
    if body is None:
        return None
    raise TypeError("a body where none belongs")


def _text(body: Any) -> Body:
    if type(body) in _TEXT_OR_NONE:
        text: str | None = body
        return text
    raise TypeError("a text body that is none")


def _bytes(body: Any) -> Body:
    if type(body) is bytes:
        return body
    raise TypeError("a bytes body that is none")


def _map(body: Any) -> Body:
    return _typed_map(body, _VALUE_TYPES)


def _stream(body: Any) -> Body:
    if type(body) is list and _VALUE_TYPES.issuperset(map(type, body)):
        # Immutable, as several consumers may read one envelope.
        return tuple(body)
    raise TypeError("a stream body that is none")


def _object(body: Any) -> Body:
    if body is None or type(body) is bytes:
        # Not local: the bytes may be from another process, whose pickles this one must not trust.
        return None if body is None else ObjectBody(body, local=False)
    raise TypeError("an object body that is none")


_BODIES: Mapping[int, Callable[[Any], Body]] = dict(enumerate((_nothing, _text, _bytes, _map, _stream, _object)))
"""By `BodyKind`: a function that checks the stored body, and returns it in the envelope's form."""
