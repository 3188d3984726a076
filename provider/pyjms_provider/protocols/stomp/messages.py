"""Conversion between JMS messages and frames, without loss, and readable by clients that know plain STOMP alone.

One header, ``JMS_pyjms``, has what plain headers cannot express: the kind of body, JMSMessageID, the types of properties.
docs/reference/stomp.md specifies it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from pyjms.spi.envelope import DELIVER_AT, Address, AddressKind, Body, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.spi.errors import ResourceError
from pyjms.spi.typed_values import read_map, read_stream, write_map, write_stream
from pyjms.types import Stored
from pyjms_provider.protocols.stomp.codec import PROFILE_HEADER, escape, split_lines
from pyjms_provider.protocols.stomp.dialects import Dialect, ForeignBody
from pyjms_provider.protocols.stomp.errors import FrameError, ProfileError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.message_properties import (
    ALIAS_PREFIX,
    SET_BY_PROTOCOL,
    WireProperties,
    is_of_profile,
    is_reserved,
    plain_properties,
    quoted,
    read_properties,
    travels,
    unquoted,
    write_properties,
)

VERSION = "1"
# Below the 10 KiB that ActiveMQ Classic takes as one header line.
_PART_MAX = 8 * 1024
"""The longest header value, in characters, all of them ASCII."""
_PARTS_MAX = 10_000
_plain_id = re.compile(r"ID:[A-Za-z0-9_.\-:]*").fullmatch
_LETTERS = {
    (AddressKind.QUEUE, False): "q",
    (AddressKind.TOPIC, False): "t",
    (AddressKind.QUEUE, True): "Q",
    (AddressKind.TOPIC, True): "T",
}
_ADDRESSES = {letter: kind for kind, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class ProfileHeader:
    """The fields of the profile header, percent-decoded on access."""

    fields: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def text(self, key: str) -> str | None:
        """Return a field, or None. Raises `ProfileError`."""
        value = self.fields.get(key)
        if value is None or "%" not in value:
            return value
        if value.count("%") == value.count("%3A"):  # message ids have colons, and no other escapes
            return value.replace("%3A", ":")
        try:
            return unquoted(value)
        except ValueError as error:
            raise ProfileError(f"field {key!r} of {PROFILE_HEADER} is not percent-encoded UTF-8") from error

    def number(self, key: str, least: int, most: int) -> int | None:
        """Return a field, or None. Raises `ProfileError` if it is not a number from `least` to `most`."""
        value = self.fields.get(key)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= 19 and least <= int(value) <= most):
            raise ProfileError(f"field {key!r} of {PROFILE_HEADER} is no number from {least} to {most}")
        return int(value)

    def address(self, key: str) -> Address | None:
        """Return a field, or None. Raises `ProfileError`."""
        value = self.fields.get(key)
        return None if value is None else read_address(value)


def parse(text: str) -> ProfileHeader:
    """Return the parsed header. Raises `ProfileError`; unknown fields are ignored."""
    version, *pairs = text.split(";")
    if version != VERSION:
        raise ProfileError(f"version {version[:9]!r} of the pyjms profile is not known: {VERSION} is")
    try:
        return ProfileHeader(dict([pair.split("=", 1) for pair in pairs]))
    except ValueError:
        raise ProfileError(f"{PROFILE_HEADER} has a field without '='") from None


def split_parts(text: str) -> list[tuple[str, str]]:
    """Return the headers that carry `text`: one, or several if it is long."""
    if len(text) <= _PART_MAX:
        return [(PROFILE_HEADER, text)]
    parts = [text[at : at + _PART_MAX] for at in range(0, len(text), _PART_MAX)]
    return [
        (PROFILE_HEADER if number == 0 else f"{PROFILE_HEADER}_{number}", part) for number, part in enumerate(parts)
    ]


def join_parts(first: str, headers: Mapping[str, str]) -> str:
    """Return the text of all parts; `first` is the value of the profile header, `headers` has the others."""
    parts = [first]
    # Bounded, as an untrusted client may have written the headers.
    while len(parts) < _PARTS_MAX and (part := headers.get(f"{PROFILE_HEADER}_{len(parts)}")) is not None:
        parts.append(part)
    return "".join(parts)


def quoted_id(text: str) -> str:
    """Return a JMSMessageID as `quoted` does, faster for ordinary ones."""
    return text.replace(":", "%3A") if _plain_id(text) else quoted(text)


def address_text(address: Address) -> str:
    """Return for instance ``q/orders``: q and t are queues and topics, Q and T temporary ones."""
    return f"{_LETTERS[address.kind, address.temporary]}/{quote(address.name, safe='/._-$', errors='surrogatepass')}"


def read_address(text: str) -> Address:
    """Return the destination that `address_text` wrote. Raises `ProfileError`."""
    kind = _ADDRESSES.get(text[:1])
    if kind is None or text[1:2] != "/" or len(text) == 2:
        raise ProfileError(f"{text[:40]!r} is no destination of the profile: write q/NAME, t/NAME, Q/NAME or T/NAME")
    try:
        return Address(kind[0], unquoted(text[2:]), kind[1])
    except ValueError as error:
        raise ProfileError("the name of a destination is not percent-encoded UTF-8") from error


TEXT_TYPE = "text/plain;charset=utf-8"
BYTES_TYPE = "application/octet-stream"
MAP_TYPE = "application/vnd.pyjms.map+json"
STREAM_TYPE = "application/vnd.pyjms.stream+json"
OBJECT_TYPE = "application/vnd.pyjms.object+pickle"
"""The content-type of a pyjms ObjectMessage; receivers decode it by the trust rules of `ConnectionFactory`."""


class WireBody(NamedTuple):
    """The body of a frame."""

    kind: str
    """The kind in the profile header."""
    content_type: str | None
    data: bytes
    is_text: bool
    """Whether clients that do not know the profile may read it as text; then it has no NUL."""


def write_body(kind: BodyKind, body: Body) -> WireBody:
    """Return the body of an envelope. Raises `ProfileError` for a body that is not of its kind."""
    try:
        return _WRITERS[kind](body)
    except (KeyError, TypeError, AttributeError) as error:
        raise ProfileError(f"a {kind.name.lower()} body is a {type(body).__name__}: {error}") from error


def _write_nothing(_: Any) -> WireBody:
    return WireBody("msg", None, b"", is_text=True)


def _write_text(text: str | None) -> WireBody:
    if text is None:
        return WireBody("text0", None, b"", is_text=True)
    try:
        return WireBody("text", TEXT_TYPE, text.encode(), is_text="\0" not in text)
    except UnicodeEncodeError:  # half of a surrogate pair is not UTF-8: other clients get bytes
        return WireBody("text", BYTES_TYPE, text.encode("utf-8", "surrogatepass"), is_text=False)


def _write_bytes(data: bytes) -> WireBody:
    return WireBody("bytes", BYTES_TYPE, data, is_text=False)


def _write_object(body: ObjectBody | None) -> WireBody:
    if body is None:
        return WireBody("object0", None, b"", is_text=True)
    return WireBody("object", OBJECT_TYPE, body.data, is_text=False)


def _write_map(entries: Mapping[str, Stored]) -> WireBody:
    return WireBody("map", MAP_TYPE, write_map(entries).encode(), is_text=True)


def _write_stream(values: tuple[Stored, ...]) -> WireBody:
    return WireBody("stream", STREAM_TYPE, write_stream(values).encode(), is_text=True)


_WRITERS: Mapping[BodyKind, Callable[[Any], WireBody]] = {
    BodyKind.NONE: _write_nothing,
    BodyKind.TEXT: _write_text,
    BodyKind.BYTES: _write_bytes,
    BodyKind.MAP: _write_map,
    BodyKind.STREAM: _write_stream,
    BodyKind.OBJECT: _write_object,
}


def read_body(kind: str, content_type: str | None, data: bytes) -> tuple[BodyKind, Body]:
    """Return kind and body of an envelope; `kind` is the profile header's.

    An object of an unknown content-type becomes BYTES. Raises `ProfileError` for a body that is not of its kind.
    """
    reader = _READERS.get(kind)
    if reader is None:
        raise ProfileError(f"the kind of body {kind[:20]!r} is not known")
    if kind == "object" and content_type != OBJECT_TYPE:
        return BodyKind.BYTES, data
    try:
        return reader(data)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        # JSON that is nested too deeply raises RecursionError.
        raise ProfileError(f"the body is none of kind {kind}") from error


def _read_text(data: bytes) -> tuple[BodyKind, Body]:
    try:
        return BodyKind.TEXT, data.decode()
    except UnicodeDecodeError:
        return BodyKind.TEXT, data.decode("utf-8", "surrogatepass")


_READERS: Mapping[str, Callable[[bytes], tuple[BodyKind, Body]]] = {
    "msg": lambda _: (BodyKind.NONE, None),
    "text": _read_text,
    "text0": lambda _: (BodyKind.TEXT, None),
    "bytes": lambda data: (BodyKind.BYTES, data),
    "map": lambda data: (BodyKind.MAP, read_map(data.decode())),
    "stream": lambda data: (BodyKind.STREAM, read_stream(data.decode())),
    "object": lambda data: (BodyKind.OBJECT, ObjectBody(data, local=False)),
    "object0": lambda _: (BodyKind.OBJECT, None),
}


AS_WRITTEN = "\0persistent"
"""The property with the header `persistent` of a standard client's non-persistent message; neither a header nor a JMS property can have
this name.
"""
_PERSISTENT = 2
_PLAIN_BODIES = (BodyKind.TEXT, BodyKind.BYTES)


def to_frame(
    envelope: Envelope,
    dialect: Dialect,
    *,
    command: str = "SEND",
    version: Version = Version.V1_2,
    profile: bool = True,
    now_ms: int = 0,
    connection_id: str | None = None,
) -> Frame:
    """Return the frame that carries `envelope` to a broker that speaks `dialect`, or from ours.

    `profile` False writes for a standard client, without everything that only pyjms understands: types of properties are lost, and so are
    properties whose names cannot be headers. Headers that `from_frame` has kept are written unchanged. `now_ms` (since 1970) is used where
    expiry or the delivery time is relative; `connection_id` goes into the profile header where the client itself must filter out messages of its own connection.

    In STOMP 1.2 the profile header and the properties are in `Frame.tail`: headers that are added to the frame are still written before
    them. Raises `DestinationError` for a destination that the broker cannot have, `ResourceError` for a property that is larger than it
    takes, `ProfileError` for an envelope that breaks its own rules.
    """
    body = write_body(envelope.body_kind, envelope.body)
    headers = dialect.destinations.headers_for(envelope.destination)
    _write_standard(headers, envelope, dialect, version, now_ms)
    _write_body_headers(headers, body, envelope, dialect, with_length=profile and dialect.preserves_headers)
    properties = envelope.properties
    # The lines of unparsed properties are written as they were received.
    if profile and version is Version.V1_2 and type(properties) is WireProperties and dialect.preserves_headers:
        fields = _profile_fields(envelope, dialect, version, body, properties.types, connection_id)
        lines = "".join([f"{name}:{value}\n" for name, value in split_parts(fields)])
        return Frame(command, headers, body.data, tail=lines + properties.lines)
    if not profile:
        _write_kept(headers, envelope, version)
        return Frame(command, headers, body.data)
    pairs, types = write_properties(properties, version)
    fields = _profile_fields(envelope, dialect, version, body, types, connection_id)
    # Such a broker consumes these properties itself: they travel a second time under another name.
    again = [(ALIAS_PREFIX + name, text) for name, text in pairs if name in dialect.lost_properties]
    pairs = [*split_parts(fields), *pairs, *again]
    if dialect.header_line_max is not None:
        _check_lines([*headers.items(), *pairs], dialect)
    # The tail is escaped as in STOMP 1.2: in other versions its lines become ordinary headers.
    if version is not Version.V1_2:
        for name, value in pairs:
            headers.setdefault(name, value)
        return Frame(command, headers, body.data)
    return Frame(command, headers, body.data, tail=_lines(pairs))


def _write_kept(headers: dict[str, str], envelope: Envelope, version: Version) -> None:
    """Write properties for a standard client, and header fields as the sender wrote them."""
    properties = envelope.properties
    if envelope.delivery_mode != _PERSISTENT:
        # A standard client's own spelling of `persistent` is written unchanged.
        as_written = properties.get(AS_WRITTEN)
        if type(as_written) is str and travels(as_written, version):
            headers["persistent"] = as_written
        else:
            del headers["persistent"]
    if envelope.reply_to is None:
        reply_to = properties.get("reply-to")
        if type(reply_to) is str and travels(reply_to, version):
            headers["reply-to"] = reply_to
    elif not travels(headers["reply-to"], version):
        del headers["reply-to"]
    kept = plain_properties(properties, version)
    if envelope.deliver_at_ms:
        kept[DELIVER_AT] = str(envelope.deliver_at_ms)
    if "content-type" in kept and envelope.body_kind not in _PLAIN_BODIES:
        del kept["content-type"]  # the header is about the body as it is written here
    headers |= kept


def expanded(frame: Frame) -> Frame:
    """Return `frame` with all its headers in `Frame.headers`, for callers that write frames by other means."""
    if not frame.tail:
        return frame
    headers = dict(frame.headers)
    for name, value in split_lines(frame.tail, Version.V1_2):
        headers.setdefault(name, value)
    return Frame(frame.command, headers, frame.body)


def _lines(pairs: list[tuple[str, str]]) -> str:
    joined = "\0".join(map("\x01".join, pairs))
    count = len(pairs)
    # The counts show a separator that is also in a name or a value; only ordinary lines are joined in one go.
    if "\\" in joined or ":" in joined or "\n" in joined or "\r" in joined or joined.count("\x01") != count:
        return "".join([f"{escape(name, Version.V1_2)}:{escape(value, Version.V1_2)}\n" for name, value in pairs])
    return joined.replace("\x01", ":").replace("\0", "\n") + "\n"


def _write_standard(
    headers: dict[str, str], envelope: Envelope, dialect: Dialect, version: Version, now_ms: int
) -> None:
    """Write the header fields that plain STOMP clients know."""
    headers["persistent"] = "true" if envelope.delivery_mode == _PERSISTENT else "false"
    headers["priority"] = str(envelope.priority)
    expires_ms = envelope.expiration_ms
    if not dialect.expiry_is_relative:
        headers[dialect.expiry_header] = str(expires_ms)
    elif expires_ms:
        # For RabbitMQ, 0 means that the message expires at once, and no header that it never does.
        headers[dialect.expiry_header] = str(max(0, expires_ms - now_ms))
    deliver_at_ms = envelope.deliver_at_ms
    if dialect.delay_header is not None and deliver_at_ms > now_ms:
        headers[dialect.delay_header] = str(deliver_at_ms - now_ms if dialect.delay_is_relative else deliver_at_ms)
    if envelope.timestamp_ms:
        headers["timestamp"] = str(envelope.timestamp_ms)
    correlation_id = envelope.correlation_id
    if type(correlation_id) is str and travels(correlation_id, version):
        headers["correlation-id"] = correlation_id
    if envelope.reply_to is not None:
        headers["reply-to"] = dialect.destinations.write_reply_to(envelope.reply_to)
    jms_type = envelope.jms_type
    if jms_type is not None and travels(jms_type, version):
        headers["type"] = jms_type


def _write_body_headers(
    headers: dict[str, str], body: WireBody, envelope: Envelope, dialect: Dialect, *, with_length: bool
) -> None:
    if body.content_type is not None:
        headers["content-type"] = body.content_type
    # A text without content-length is a TextMessage for Java's clients (ActiveMQ Classic and Artemis).
    if with_length or not body.is_text:
        headers["content-length"] = str(len(body.data))
        # ActiveMQ would pass a text on without the length that its NUL needs, so it gets such a text as bytes.
        if envelope.body_kind is BodyKind.TEXT and body.content_type != BYTES_TYPE and dialect.preserves_headers:
            headers["amq-msg-type"] = "text"


def _profile_fields(
    envelope: Envelope, dialect: Dialect, version: Version, body: WireBody, types: str, connection_id: str | None
) -> str:
    fields = [f"{VERSION};k={body.kind}"]
    if envelope.message_id is not None:
        fields.append("i=" + quoted_id(envelope.message_id))
    correlation_id, jms_type = envelope.correlation_id, envelope.jms_type
    # A correlation id may be bytes (JMS 1.1 §3.4.5), which a header carries as hexadecimal digits.
    if type(correlation_id) is bytes:
        fields.append("cb=" + correlation_id.hex())
    elif correlation_id is not None and not (dialect.preserves_headers and travels(correlation_id, version)):  # type: ignore[arg-type]
        fields.append("c=" + quoted(correlation_id))  # type: ignore[arg-type]
    if jms_type is not None and not (dialect.preserves_headers and travels(jms_type, version)):
        fields.append("ty=" + quoted(jms_type))
    if not dialect.preserves_headers:
        fields += _fields_that_brokers_change(envelope)
    if envelope.deliver_at_ms:
        fields.append(f"da={envelope.deliver_at_ms}")
    if connection_id is not None:
        fields.append("o=" + quoted(connection_id))
    if types:
        fields.append("p=" + types)
    return ";".join(fields)


def _fields_that_brokers_change(envelope: Envelope) -> list[str]:
    # Foreign brokers change these headers or drop them. Our broker ignores these fields: otherwise a client could name a queue in
    # them without a check (decision 0150).
    fields = [
        f"t={envelope.timestamp_ms}",
        f"x={envelope.expiration_ms}",
        f"dm={envelope.delivery_mode}",
        f"pr={envelope.priority}",
        f"to={address_text(envelope.destination)}",
    ]
    reply_to: Address | None = envelope.reply_to
    if reply_to is not None:
        fields.append(f"rt={address_text(reply_to)}")
    return fields


def _check_lines(pairs: list[tuple[str, str]], dialect: Dialect) -> None:
    limit = dialect.header_line_max
    assert limit is not None
    for name, value in pairs:
        if len(name) + len(value) < limit // 4:
            continue  # a character has at most four bytes
        # In bytes and with the escapes, as the line is written.
        size = len(escape(name, Version.V1_2).encode()) + 1 + len(escape(value, Version.V1_2).encode())
        if size > limit:
            raise ResourceError(
                f"property or header {name[:60]!r} takes {size} bytes, and {dialect.title} takes header lines of "
                f"{limit} bytes at most: put it into the body"
            )


_log = logging.getLogger(__name__)

_LONG_MAX = 2**63 - 1
_PRIORITY_DEFAULT = 4
_PREFIX = f"{PROFILE_HEADER}:"
_MORE_PREFIX = f"{PROFILE_HEADER}_1:"
_NON_PERSISTENT = 1


def from_frame(
    frame: Frame, dialect: Dialect, assumed: Address | None = None, *, keeps_headers: bool = False
) -> Envelope:
    """Return the message of a SEND or MESSAGE; `assumed` is the destination of its subscription, if that is known.

    The properties of a lazily decoded frame are parsed on access. `keeps_headers`: in a message without the profile header, every header
    that the protocol does not set becomes a property, whatever its name, so that `to_frame` can write it again. Raises `DestinationError`
    when the frame names no destination.
    """
    tail = frame.tail
    # A profile header in several parts is rare, and takes the long way.
    if tail.startswith(_PREFIX) and not tail.startswith(_MORE_PREFIX, tail.index("\n") + 1):
        first, _, lines = tail[len(_PREFIX) :].partition("\n")
        try:
            header = parse(first)
            properties = WireProperties(lines, header.fields.get("p", ""))
            return _read(frame, dialect, header, properties, assumed)
        except ProfileError as error:
            _log_fault(error)
            return _read_foreign(frame, dialect, assumed, keeps_headers=keeps_headers)
    headers = frame.headers
    first_part = headers.get(PROFILE_HEADER)
    if tail:
        headers = _all_headers(frame)
        first_part = headers.get(PROFILE_HEADER)
    if first_part is None:
        return _read_foreign(frame, dialect, assumed, keeps_headers=keeps_headers)
    try:
        header = parse(join_parts(first_part, headers))
        read = read_properties(headers.items(), header.fields.get("p", ""))
        return _read(frame, dialect, header, read, assumed)
    except ProfileError as error:
        _log_fault(error)
        return _read_foreign(frame, dialect, assumed, keeps_headers=keeps_headers)


def sender_of(frame: Frame) -> str | None:
    """Return the connection that sent a message, if its profile header names one, for no-local at the client."""
    text = frame.headers.get(PROFILE_HEADER) or _all_headers(frame).get(PROFILE_HEADER)
    try:
        return None if text is None else parse(text).text("o")
    except ProfileError:
        return None


def _log_fault(error: ProfileError) -> None:
    _log.warning("a message is taken as one of a foreign client, as its %s header is wrong: %s", PROFILE_HEADER, error)


def _all_headers(frame: Frame) -> dict[str, str]:
    headers = dict(frame.headers)
    if frame.tail:
        try:
            pairs = split_lines(frame.tail, Version.V1_2)
        except FrameError as error:  # a decoder would have refused it
            _log.warning("the properties of a message are lost: %s", error.reason)
            return headers
        for name, value in pairs:
            # The first one counts, as with all repeated headers.
            headers.setdefault(name, value)
    return headers


def _read(
    frame: Frame,
    dialect: Dialect,
    header: ProfileHeader,
    properties: Mapping[str, object],
    assumed: Address | None,
) -> Envelope:
    headers, fields = frame.headers, header.fields
    body_kind, body = read_body(fields.get("k", ""), headers.get("content-type"), bytes(frame.body))
    message_id = header.text("i")
    correlation_id: str | bytes | None = headers.get("correlation-id")
    exact = dialect.preserves_headers
    deliver_at_ms = header.number("da", 0, _LONG_MAX) or 0
    if "cb" in fields:
        correlation_id = _bytes_of_hex(fields["cb"])
    elif "c" in fields or not exact:
        correlation_id = header.text("c")
    jms_type = header.text("ty") if "ty" in fields or not exact else headers.get("type")
    if exact:  # the plain headers have the rest, and a sender cannot contradict them
        reply_to = headers.get("reply-to")
        return Envelope(
            dialect.destinations.read(headers, assumed),
            None if message_id is None else MessageId(message_id),
            _number(headers.get("timestamp")),
            0 if headers.get(dialect.expiry_header) == "0" else _expiry(headers, dialect),
            _PERSISTENT if headers.get("persistent") == "true" else _NON_PERSISTENT,
            _priority(headers),
            correlation_id,
            None if reply_to is None else dialect.destinations.read_reply_to(reply_to),
            jms_type,
            properties,  # type: ignore[arg-type]
            body_kind,
            body,
            deliver_at_ms,
        )
    timestamp_ms = header.number("t", 0, _LONG_MAX)
    expiration_ms = header.number("x", 0, _LONG_MAX)
    delivery_mode = header.number("dm", _NON_PERSISTENT, _PERSISTENT)
    priority = header.number("pr", 0, 9)
    return Envelope(
        header.address("to") or dialect.destinations.read(headers, assumed),
        None if message_id is None else MessageId(message_id),
        _number(headers.get("timestamp")) if timestamp_ms is None else timestamp_ms,
        _expiry(headers, dialect) if expiration_ms is None else expiration_ms,
        _delivery_mode(headers) if delivery_mode is None else delivery_mode,
        _priority(headers) if priority is None else priority,
        correlation_id,
        _reply_to(headers, dialect, header.address("rt")),
        jms_type,
        properties,  # type: ignore[arg-type]
        body_kind,
        body,
        deliver_at_ms,
    )


def _read_foreign(frame: Frame, dialect: Dialect, assumed: Address | None, *, keeps_headers: bool) -> Envelope:
    headers = frame.headers
    reply_to = _reply_to(headers, dialect, None)
    if keeps_headers:
        properties = _kept_headers(headers if not frame.tail else _all_headers(frame), reply_to)
    else:
        properties = {name: value for name, value in _all_headers(frame).items() if not is_reserved(name)}
    body_kind, body = _foreign_body(headers, bytes(frame.body), dialect)
    message_id = _foreign_id(headers, dialect) if frame.command == "MESSAGE" else None
    return Envelope(
        dialect.destinations.read(headers, assumed),
        None if message_id is None else MessageId(message_id),
        _number(headers.get("timestamp")),
        _expiry(headers, dialect),
        _delivery_mode(headers),
        _priority(headers),
        headers.get("correlation-id"),
        reply_to,
        headers.get("type"),
        properties,
        body_kind,
        body,
    )


def _kept_headers(headers: Mapping[str, str], reply_to: Address | None) -> dict[str, str]:
    kept = {name: value for name, value in headers.items() if name not in SET_BY_PROTOCOL and not is_of_profile(name)}
    if reply_to is None and "reply-to" in headers:
        kept["reply-to"] = headers["reply-to"]  # not an address here, but perhaps to the receiver
    persistent = headers.get("persistent")
    if persistent is not None and persistent != "true":
        kept[AS_WRITTEN] = persistent
    return kept


def _foreign_id(headers: Mapping[str, str], dialect: Dialect) -> str | None:
    for name in dialect.foreign_id_headers:
        text = headers.get(name)
        if text:
            return text if text.startswith("ID:") else f"ID:{text}"  # JMS 1.1 §3.4.3
    return None


def _foreign_body(headers: Mapping[str, str], data: bytes, dialect: Dialect) -> tuple[BodyKind, Body]:
    if dialect.foreign_body is ForeignBody.BY_CONTENT_TYPE:
        content_type = headers.get("content-type", "")
        is_text = content_type.startswith("text/") or "json" in content_type or "xml" in content_type
    else:
        is_text = "content-length" not in headers
        if dialect.foreign_body is ForeignBody.BY_LENGTH_OR_TYPE:
            is_text = {"text": True, "bytes": False}.get(headers.get("amq-msg-type", ""), is_text)
    if is_text:
        try:
            return BodyKind.TEXT, data.decode()
        except UnicodeDecodeError:
            return BodyKind.BYTES, data  # rather than replace undecodable bytes
    return BodyKind.BYTES, data


def _bytes_of_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ProfileError("the correlation id is not written in hexadecimal") from None


def _number(text: str | None) -> int:
    """Return a foreign number, or 0 for anything else: foreign senders may write any text."""
    if text is not None and text.isascii() and text.isdigit() and len(text) <= 19:
        number = int(text)
        # 19 digits may exceed a Java long.
        return min(number, _LONG_MAX)
    return 0


def _expiry(headers: Mapping[str, str], dialect: Dialect) -> int:
    # A relative time counts from the arrival at the broker, which the receiver does not know.
    return 0 if dialect.expiry_is_relative else _number(headers.get(dialect.expiry_header))


def _delivery_mode(headers: Mapping[str, str]) -> int:
    return _PERSISTENT if headers.get("persistent") == "true" else _NON_PERSISTENT


def _priority(headers: Mapping[str, str]) -> int:
    text = headers.get("priority")
    return int(text) if text is not None and len(text) == 1 and "0" <= text <= "9" else _PRIORITY_DEFAULT


def _reply_to(headers: Mapping[str, str], dialect: Dialect, named: Address | None) -> Address | None:
    text = headers.get("reply-to")
    is_local = named is not None and named.temporary and not named.name.startswith("/remote-temp-")
    # The sender's own name of its temporary destination means nothing here: the header has the broker's name.
    if named is not None and not (is_local and dialect.translates_temporaries and text is not None):
        return named
    return None if text is None else dialect.destinations.read_reply_to(text)
