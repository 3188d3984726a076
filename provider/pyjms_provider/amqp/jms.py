"""JMS messages as AMQP messages, and back, as Apache Qpid JMS maps them (its package `provider.amqp`), so that each reads the other's.

What is pyjms's own, as Java has no such thing:

- Pickled objects have a content type of their own.
- Values of AMQP that JMS lacks (unsigned numbers, symbols, time stamps, UUIDs) become the nearest type of JMS.
- A map or a list from a client that knows no JMS is a map or a stream message, where its values allow it.
- Half of a surrogate pair is no UTF-8, and is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from pyjms.spi.envelope import Address, AddressKind, Body, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored
from pyjms_provider.amqp import codec, performatives
from pyjms_provider.amqp.codec import (
    NAMES,
    NULL,
    Array,
    Decimal,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from pyjms_provider.amqp.errors import EncodeError
from pyjms_provider.amqp.message import (
    DATA,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    Message,
    write_annotations,
    write_application_properties,
    write_section,
)
from pyjms_provider.amqp.performatives import UINT_MAX, Header, Properties

PERSISTENT: Final = 2
NON_PERSISTENT: Final = 1
PRIORITY_DEFAULT: Final = 4
PRIORITY_MAX: Final = 9

MESSAGE_TYPE: Final = "x-opt-jms-msg-type"
DESTINATION_TYPE: Final = "x-opt-jms-dest"
REPLY_TO_TYPE: Final = "x-opt-jms-reply-to"
DELIVERY_TIME: Final = "x-opt-delivery-time"
"""When a message may be delivered, in milliseconds since 1970."""
_OLD_DESTINATION_TYPE: Final = "x-opt-to-type"
_OLD_REPLY_TO_TYPE: Final = "x-opt-reply-type"

BYTES_TYPE: Final = "application/octet-stream"
JAVA_OBJECT_TYPE: Final = "application/x-java-serialized-object"
OBJECT_TYPE: Final = "application/vnd.pyjms.object+pickle"
"""What an object message of pyjms holds; receivers unpickle it by the rules of trust of `ConnectionFactory`."""
_JAVA_NULL: Final = b"\xac\xed\x00\x05\x70"
"""The serialised null of Java: an object message without an object."""

_KINDS: Final[Mapping[BodyKind, int]] = {
    BodyKind.NONE: 0,
    BodyKind.OBJECT: 1,
    BodyKind.MAP: 2,
    BodyKind.BYTES: 3,
    BodyKind.STREAM: 4,
    BodyKind.TEXT: 5,
}
_KINDS_BACK: Final = {number: kind for kind, number in _KINDS.items()}
_ADDRESS_KINDS: Final[Mapping[tuple[AddressKind, bool], int]] = {
    (AddressKind.QUEUE, False): 0,
    (AddressKind.TOPIC, False): 1,
    (AddressKind.QUEUE, True): 2,
    (AddressKind.TOPIC, True): 3,
}
_ADDRESS_KINDS_BACK: Final = {number: kind for kind, number in _ADDRESS_KINDS.items()}

GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
USER_ID: Final = "JMSXUserID"
DELIVERY_COUNT: Final = "JMSXDeliveryCount"
REPLY_TO_GROUP_ID: Final = "JMS_AMQP_REPLY_TO_GROUP_ID"
CONTENT_TYPE: Final = "JMS_AMQP_ContentType"
"""A content type that says more than the kind of the body, of a client that knows no JMS."""
CONTENT_ENCODING: Final = "JMS_AMQP_ContentEncoding"
_IN_PROPERTIES: Final = frozenset(
    {GROUP_ID, GROUP_SEQUENCE, USER_ID, DELIVERY_COUNT, REPLY_TO_GROUP_ID, CONTENT_TYPE, CONTENT_ENCODING}
)

# --------------------------------------------------------------------------------------------------------- identifiers

_UUID: Final = "ID:AMQP_UUID:"
_ULONG: Final = "ID:AMQP_ULONG:"
_BINARY: Final = "ID:AMQP_BINARY:"
_STRING: Final = "ID:AMQP_STRING:"
_NO_PREFIX: Final = "ID:AMQP_NO_PREFIX:"
_ENCODED: Final = (_UUID, _ULONG, _BINARY, _STRING, _NO_PREFIX)


def message_id_of(value: Any) -> str | None:
    """Return the JMSMessageID for a message id of AMQP: always with ``ID:``; None: there is none."""
    if isinstance(value, str):
        if not value.startswith("ID:"):
            return _NO_PREFIX + value
        return _STRING + value if value.startswith(_ENCODED) else value
    return None if value is None else _encoded(value)


def correlation_id_of(value: Any) -> str | bytes | None:
    """Return the JMSCorrelationID for a correlation id of AMQP. Bytes stay bytes, and strings need no prefix."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _STRING + value if value.startswith(_ENCODED) else str(value)
    return _encoded(value)


def _encoded(value: Any) -> str:
    if isinstance(value, UUID):
        return f"{_UUID}{value}"
    if isinstance(value, bytes):
        return f"{_BINARY}{value.hex().upper()}"
    return f"{_ULONG}{int(value)}"


def amqp_id_of(text: str | bytes | None) -> Any:
    """Return the id of AMQP for a JMSMessageID or JMSCorrelationID: the type that it came in, so that replies match at the requester."""
    if not isinstance(text, str) or not text.startswith(_ENCODED):
        return text
    for prefix, read in _ID_READERS:
        if text.startswith(prefix):
            try:
                return read(text[len(prefix) :])
            except ValueError:
                return text  # an application's own text that only begins so
    return text


_ID_READERS: Final[tuple[tuple[str, Callable[[str], Any]], ...]] = (
    (_UUID, UUID),
    (_ULONG, lambda text: ULong(int(text))),
    (_BINARY, bytes.fromhex),
    (_STRING, str),
    (_NO_PREFIX, str),
)

# ------------------------------------------------------------------------------------------------------------- sending


def write_message(
    envelope: Envelope, *, now_ms: int, delivery_count: int = 0, delivery_annotations: bytes = b""
) -> bytes:
    """Return the sections that carry an envelope.

    Args:
        envelope: the message.
        now_ms: the time in milliseconds since 1970, for the time to live.
        delivery_count: failed deliveries before this one.
        delivery_annotations: their section.

    Raises:
        EncodeError: a value has no form in AMQP, as half of a surrogate pair has none.
    """
    try:
        header = write_header(envelope, now_ms=now_ms, delivery_count=delivery_count)
        return b"".join((header, delivery_annotations, _annotations(envelope), *_bare(envelope)))
    except (UnicodeEncodeError, struct.error) as error:
        raise EncodeError(f"AMQP cannot say what is in a message: {error}") from None


def write_header(envelope: Envelope, *, now_ms: int, delivery_count: int = 0) -> bytes:
    """Return the header section of an envelope, which is all that changes from delivery to delivery."""
    expiration = envelope.expiration_ms
    is_durable = envelope.delivery_mode == PERSISTENT
    if not expiration and not delivery_count:
        known = _HEADERS.get((is_durable, envelope.priority))
        if known is not None:
            return known
    ttl = min(max(expiration - now_ms, 1), UINT_MAX) if expiration else None
    return performatives.write(Header(is_durable, envelope.priority, ttl, False, delivery_count))


_HEADERS: Final[Mapping[tuple[bool, int], bytes]] = {
    (is_durable, priority): performatives.write(Header(is_durable, priority))
    for is_durable in (False, True)
    for priority in range(PRIORITY_MAX + 1)
}
"""The headers of messages that never expire, at their first delivery."""


def _annotations(envelope: Envelope) -> bytes:
    destination, reply_to = envelope.destination, envelope.reply_to
    kinds = (
        _KINDS[envelope.body_kind],
        _ADDRESS_KINDS[destination.kind, destination.temporary],
        None if reply_to is None else _ADDRESS_KINDS[reply_to.kind, reply_to.temporary],
    )
    if envelope.deliver_at_ms:
        return write_annotations({**_annotations_of(*kinds), DELIVERY_TIME: Long(envelope.deliver_at_ms)})
    return _written_annotations(*kinds)


def _annotations_of(kind: int, destination: int, reply_to: int | None) -> dict[str, Any]:
    annotations = {MESSAGE_TYPE: Byte(kind), DESTINATION_TYPE: Byte(destination)}
    if reply_to is not None:
        annotations[REPLY_TO_TYPE] = Byte(reply_to)
    return annotations


@cache  # as many as there are kinds
def _written_annotations(kind: int, destination: int, reply_to: int | None) -> bytes:
    return write_annotations(_annotations_of(kind, destination, reply_to))


def _bare(envelope: Envelope) -> tuple[bytes, ...]:
    content_type, body = _BODIES[envelope.body_kind](envelope.body)
    given = envelope.properties
    if not given:
        return _write_properties(envelope, content_type), body
    if _IN_PROPERTIES.isdisjoint(given):
        return _write_properties(envelope, content_type), write_application_properties(given), body
    own = {name: value for name, value in given.items() if name not in _IN_PROPERTIES}
    properties = _write_given_properties(envelope, content_type)
    return (properties, write_application_properties(own), body) if own else (properties, body)


def _write_properties(envelope: Envelope, content_type: str | None) -> bytes:
    """Write the properties of a message whose JMS properties all go into the application properties.

    As `performatives.write` does, without a record and its checks: a quarter of the time of a message.
    """
    created = envelope.timestamp_ms
    if not created:  # the fields would end before
        return _write_given_properties(envelope, content_type)
    message_id, correlation_id = envelope.message_id, envelope.correlation_id
    reply_to, expiration = envelope.reply_to, envelope.expiration_ms
    fields = b"".join(
        (
            NULL if message_id is None else codec.write_value(amqp_id_of(message_id)),
            NULL,
            NAMES[envelope.destination.name],
            NULL if envelope.jms_type is None else codec.write_string(envelope.jms_type),
            NULL if reply_to is None else NAMES[reply_to.name],
            NULL if correlation_id is None else codec.write_value(amqp_id_of(correlation_id)),
            NULL if content_type is None else codec.write_symbol(content_type),
            NULL,
            codec.write_timestamp(expiration) if expiration else NULL,
            codec.write_timestamp(created),
        )
    )
    return write_section(PROPERTIES, codec.write_compound(0xC0, 10, fields))


def _write_given_properties(envelope: Envelope, content_type: str | None) -> bytes:
    given = envelope.properties
    user = given.get(USER_ID)
    sequence = given.get(GROUP_SEQUENCE)
    properties = Properties(
        message_id=amqp_id_of(envelope.message_id),
        user_id=user.encode() if isinstance(user, str) else None,
        to=envelope.destination.name,
        subject=envelope.jms_type,
        reply_to=None if envelope.reply_to is None else envelope.reply_to.name,
        correlation_id=amqp_id_of(envelope.correlation_id),
        content_type=_text(given.get(CONTENT_TYPE)) or content_type,
        content_encoding=_text(given.get(CONTENT_ENCODING)),
        absolute_expiry_time=envelope.expiration_ms or None,
        creation_time=envelope.timestamp_ms or None,
        group_id=_text(given.get(GROUP_ID)),
        # JMS counts in 32 bits with a sign, AMQP without one.
        group_sequence=sequence & UINT_MAX if isinstance(sequence, int) else None,
        reply_to_group_id=_text(given.get(REPLY_TO_GROUP_ID)),
    )
    return performatives.write(properties)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _write_value(value: Any) -> bytes:
    return write_section(VALUE, codec.write_value(value))


def _write_data(data: bytes) -> bytes:
    return write_section(DATA, codec.write_binary(data))


def _write_object(body: ObjectBody | None) -> tuple[str, bytes]:
    if body is None:
        return JAVA_OBJECT_TYPE, _write_data(_JAVA_NULL)
    return OBJECT_TYPE, _write_data(body.data)


_BODIES: Final[Mapping[BodyKind, Callable[[Any], tuple[str | None, bytes]]]] = {
    BodyKind.NONE: lambda _: (None, _write_value(None)),
    BodyKind.TEXT: lambda text: (None, _write_value(text)),
    BodyKind.BYTES: lambda data: (BYTES_TYPE, _write_data(data)),
    BodyKind.MAP: lambda entries: (None, write_section(VALUE, codec.write_named(entries))),
    BodyKind.STREAM: lambda values: (None, write_section(SEQUENCE, codec.write_value(list(values)))),
    BodyKind.OBJECT: _write_object,
}

# ----------------------------------------------------------------------------------------------------------- receiving


def read_message(
    message: Message,
    *,
    now_ms: int,
    destination: Address | None,
    address: Callable[[str], tuple[str, AddressKind | None]] = lambda name: (name, None),
) -> Envelope:
    """Return the envelope for a message.

    Args:
        message: as it came.
        now_ms: the time in milliseconds since 1970, for messages that have a time to live alone.
        destination: where the link takes it from or to; its kind holds where the message does not say its own.
        address: takes the peer's prefixes off a name, and returns the kind that they say.

    Raises:
        DecodeError: a section is not what its definition says.
    """
    # By position: keywords take three times as long.
    return Envelope(*read_fields(message, now_ms=now_ms, destination=destination, address=address))


def read_fields(
    message: Message,
    *,
    now_ms: int,
    destination: Address | None,
    address: Callable[[str], tuple[str, AddressKind | None]],
) -> tuple[Any, ...]:
    """Return the fields of the envelope, in their order. As `read_message`."""
    header, properties, annotations = message.header, message.properties, message.message_annotations
    to = _address(properties.to, annotations, DESTINATION_TYPE, _OLD_DESTINATION_TYPE, destination, address)
    kind, body = _read_body(message, annotations, properties.content_type)
    expiration = properties.absolute_expiry_time or 0
    if not expiration and header.ttl:
        expiration = now_ms + header.ttl
    message_id = message_id_of(properties.message_id)
    reply_to = properties.reply_to
    if reply_to is not None:
        reply_to = _address(reply_to, annotations, REPLY_TO_TYPE, _OLD_REPLY_TO_TYPE, destination, address)
    return (
        to or destination or Address(AddressKind.QUEUE, ""),
        None if message_id is None else MessageId(message_id),
        properties.creation_time or 0,
        expiration,
        PERSISTENT if header.durable else NON_PERSISTENT,
        min(header.priority, PRIORITY_MAX),
        correlation_id_of(properties.correlation_id),
        reply_to,
        properties.subject,
        _read_properties(message, properties, kind),
        kind,
        body,
        _delivery_time(annotations) if DELIVERY_TIME in annotations else 0,
    )


def _delivery_time(annotations: Mapping[str, Any]) -> int:
    value = annotations[DELIVERY_TIME]
    return int(value) if isinstance(value, int) and 0 < value < 2**63 else 0


def _address(
    name: Any,
    annotations: Mapping[str, Any],
    key: str,
    old_key: str,
    default: Address | None,
    strip: Callable[[str], tuple[str, AddressKind | None]],
) -> Address | None:
    if not isinstance(name, str) or not name:
        return None
    plain, said = strip(name)
    number = annotations.get(key)
    kind = _ADDRESS_KINDS_BACK.get(number) if isinstance(number, int) else None
    if kind is None and isinstance(old := annotations.get(old_key), str):
        words = {word.strip() for word in old.split(",")}
        kind = (AddressKind.TOPIC if "topic" in words else AddressKind.QUEUE), "temporary" in words
    if kind is None:
        kind = said if said is not None else default.kind if default else AddressKind.QUEUE, False
    if default is not None and plain == default.name and kind == (default.kind, default.temporary):
        return default
    return Address(kind[0], plain, kind[1])


def _read_properties(message: Message, properties: Properties, kind: BodyKind) -> Mapping[str, Stored]:
    read: dict[str, Stored] | None = message.named_properties(_STORED_READERS)
    if read is None:
        given = message.application_properties.items()
        read = {str(name): stored_of(value) for name, value in given if isinstance(name, str)}
    if properties.group_id is not None:
        read[GROUP_ID] = properties.group_id
    if properties.group_sequence is not None:
        number = properties.group_sequence
        read[GROUP_SEQUENCE] = number if number < 2**31 else number - 2**32
    if properties.user_id is not None:
        read[USER_ID] = properties.user_id.decode("utf-8", "replace")
    if properties.reply_to_group_id is not None:
        read[REPLY_TO_GROUP_ID] = properties.reply_to_group_id
    if properties.content_encoding is not None:
        read[CONTENT_ENCODING] = str(properties.content_encoding)
    content_type = properties.content_type
    # The kind of the body says the same as the content types of Qpid JMS and pyjms, but for an object of Java that stays bytes.
    is_told = content_type in _TOLD or (content_type == JAVA_OBJECT_TYPE and kind is _OBJECT)
    if not is_told:
        read[CONTENT_TYPE] = str(content_type)
    return MappingProxyType(read) if read else _NOTHING


_NOTHING: Final[Mapping[str, Stored]] = MappingProxyType({})
_TOLD: Final = frozenset({None, BYTES_TYPE, OBJECT_TYPE})
_PROPERTY_TYPES: Final = frozenset({bool, Byte, Short, int, Long, Float, float, str, type(None)})
_STORED_READERS: Final = {
    code: codec.READERS[code]
    for code in (0x40, 0x41, 0x42, 0x51, 0x54, 0x55, 0x56, 0x61, 0x71, 0x72, 0x81, 0x82, 0xA1, 0xB1)
}
"""Of the types of AMQP whose values are stored as they are: `_PROPERTY_TYPES` and no other class."""


def stored_of(value: Any) -> Stored:
    """Return the value of JMS that is nearest to a value of AMQP; text for those that have no like."""
    kind = type(value)
    if kind in _PROPERTY_TYPES or kind is bytes or kind is Char:
        return value  # type: ignore[no-any-return]
    convert = _NEAREST.get(kind)
    return str(value) if convert is None else convert(value)


_NEAREST: Final[Mapping[type, Callable[[Any], Stored]]] = {
    Int: int,
    Double: float,
    UByte: lambda value: Short(int(value)),
    UShort: int,
    UInt: lambda value: Long(int(value)),
    ULong: lambda value: Long(int(value)) if value < 2**63 else str(int(value)),
    Timestamp: lambda value: Long(int(value)),
    Symbol: str.__str__,
    UUID: str,
    Decimal: lambda value: value.data.hex(),
}
_SIMPLE: Final = frozenset({*_PROPERTY_TYPES, *_NEAREST, bytes, Char})


def _read_body(message: Message, annotations: Mapping[str, Any], content_type: str | None) -> tuple[BodyKind, Body]:
    number = annotations.get(MESSAGE_TYPE)
    asked = _KINDS_BACK.get(number) if isinstance(number, int) else None
    section, body = message.body_kind, message.body
    if asked is _TEXT and (body is None or isinstance(body, str)):
        return asked, body
    if asked is _NONE:
        return asked, None
    if asked is _BYTES and (section == DATA or body is None or isinstance(body, bytes)):
        return asked, body or b""
    if asked is _STREAM and (body is None or _is_stream(body)):
        return asked, _stream(body or [])
    if asked is _MAP and (body is None or _is_map(body)):
        return asked, _map(body or {})
    if asked is _OBJECT and body is None:
        return asked, None
    return _read_foreign_body(section, body, content_type)


# Before Python 3.12, a member of an enumeration that is named through its class costs as much as a call.
_NONE, _OBJECT, _MAP, _BYTES, _STREAM, _TEXT = (
    BodyKind.NONE,
    BodyKind.OBJECT,
    BodyKind.MAP,
    BodyKind.BYTES,
    BodyKind.STREAM,
    BodyKind.TEXT,
)


def _read_foreign_body(section: int | None, body: Any, content_type: str | None) -> tuple[BodyKind, Body]:
    """Return the body of a sender that knows no JMS, by its section and its content type."""
    if section == DATA:
        if content_type == OBJECT_TYPE:
            return BodyKind.OBJECT, ObjectBody(body, local=False)
        if content_type == JAVA_OBJECT_TYPE and body == _JAVA_NULL:
            return BodyKind.OBJECT, None
        charset = _charset(content_type)
        if charset is not None:
            try:
                return BodyKind.TEXT, body.decode(charset)
            except (UnicodeDecodeError, LookupError):
                return BodyKind.BYTES, body
        return BodyKind.BYTES, body
    if body is None:
        return (BodyKind.NONE, None) if section is None else (BodyKind.TEXT, None)
    if isinstance(body, str):
        return BodyKind.TEXT, str.__str__(body)
    if isinstance(body, bytes):
        return BodyKind.BYTES, body
    if _is_map(body):
        return BodyKind.MAP, _map(body)
    if _is_stream(body):
        return BodyKind.STREAM, _stream(body)
    if type(body) in _SIMPLE:
        return BodyKind.STREAM, (stored_of(body),)
    return BodyKind.BYTES, codec.write_value(body)


def _is_map(body: Any) -> bool:
    return isinstance(body, dict) and all(
        isinstance(key, str) and type(value) in _SIMPLE for key, value in body.items()
    )


def _is_stream(body: Any) -> bool:
    items = body.items if isinstance(body, Array) else body
    return isinstance(items, list | tuple) and all(type(value) in _SIMPLE for value in items)


def _map(body: dict[str, Any]) -> Mapping[str, Stored]:
    return MappingProxyType({str(key): stored_of(value) for key, value in body.items()})


def _stream(body: Any) -> tuple[Stored, ...]:
    return tuple(stored_of(value) for value in (body.items if isinstance(body, Array) else body))


_TEXTUAL: Final = frozenset(
    {
        "application/json",
        "application/xml",
        "application/xml-dtd",
        "application/javascript",
        "application/ecmascript",
    }
)


def _charset(content_type: str | None) -> str | None:
    """Return the charset of a textual content type; None: it is not textual."""
    if not content_type:
        return None
    media, *parameters = [part.strip() for part in content_type.split(";")]
    media = media.lower()
    if not (media.startswith("text/") or media in _TEXTUAL or media.endswith(("+xml", "+json"))):
        return None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'") or None
    return "utf-8"
