"""Envelopes into frames."""

from __future__ import annotations

from pyjms.spi.envelope import Address, BodyKind, Envelope
from pyjms.spi.errors import ResourceError
from pyjms_provider.protocols.stomp.dialects import Dialect
from pyjms_provider.protocols.stomp.escapes import escape
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.header_lines import split_lines
from pyjms_provider.protocols.stomp.profile.bodies import BYTES_TYPE, WireBody, write_body
from pyjms_provider.protocols.stomp.profile.header import VERSION, address_text, quoted_id, split_parts
from pyjms_provider.protocols.stomp.profile.names import ALIAS_PREFIX, quoted
from pyjms_provider.protocols.stomp.profile.properties import (
    WireProperties,
    plain_properties,
    travels,
    write_properties,
)

__all__ = ["AS_WRITTEN", "expanded", "to_frame"]

AS_WRITTEN = "\0persistent"
"""The property that has the header `persistent` of a plain client's non-persistent message. No header and no JMS property has this name."""
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

    `profile` False writes for a plain client: all that only pyjms understands is left out, so types of properties are
    lost, and those that cannot be headers of that name. Headers that `from_frame` has kept come out as they were. `now_ms` (since 1970) is used where expiry is relative; `connection_id` goes into
    the profile header where the client itself leaves out what its own connection sent.

    In STOMP 1.2 the profile header and the properties are in `Frame.tail`: headers may be added to the frame, and
    still stand before them. Raises `DestinationError` for a destination that the broker cannot have, `ResourceError` for a
    property that is larger than it takes, `ProfileError` for an envelope that breaks its own rules.
    """
    body = write_body(envelope.body_kind, envelope.body)
    headers = dialect.destinations.headers_for(envelope.destination)
    _write_standard(headers, envelope, dialect, version, now_ms)
    _write_body_headers(headers, body, envelope, dialect, with_length=profile and dialect.preserves_headers)
    properties = envelope.properties
    if profile and version is Version.V1_2 and type(properties) is WireProperties and dialect.preserves_headers:
        fields = _profile_fields(envelope, dialect, version, body, properties.types, connection_id)
        lines = "".join([f"{name}:{value}\n" for name, value in split_parts(fields)])
        return Frame(command, headers, body.data, tail=lines + properties.lines)
    if not profile:
        _write_kept(headers, envelope, version)
        return Frame(command, headers, body.data)
    pairs, types = write_properties(properties, version)
    fields = _profile_fields(envelope, dialect, version, body, types, connection_id)
    again = [(ALIAS_PREFIX + name, text) for name, text in pairs if name in dialect.lost_properties]
    pairs = [*split_parts(fields), *pairs, *again]
    if dialect.header_line_max is not None:
        _check_lines([*headers.items(), *pairs], dialect)
    if version is not Version.V1_2:
        for name, value in pairs:
            headers.setdefault(name, value)
        return Frame(command, headers, body.data)
    return Frame(command, headers, body.data, tail=_lines(pairs))


def _write_kept(headers: dict[str, str], envelope: Envelope, version: Version) -> None:
    """Write properties for a plain client, and header fields as the sender wrote them."""
    properties = envelope.properties
    if envelope.delivery_mode != _PERSISTENT:
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
    if "content-type" in kept and envelope.body_kind not in _PLAIN_BODIES:
        del kept["content-type"]  # it says how this body is written
    headers |= kept


def expanded(frame: Frame) -> Frame:
    """Return `frame` with all its headers in `Frame.headers`, for those who write frames by other means."""
    if not frame.tail:
        return frame
    headers = dict(frame.headers)
    for name, value in split_lines(frame.tail, Version.V1_2):
        headers.setdefault(name, value)
    return Frame(frame.command, headers, frame.body)


def _lines(pairs: list[tuple[str, str]]) -> str:
    joined = "\0".join(map("\x01".join, pairs))
    count = len(pairs)
    if "\\" in joined or ":" in joined or "\n" in joined or "\r" in joined or joined.count("\x01") != count:
        return "".join([f"{escape(name, Version.V1_2)}:{escape(value, Version.V1_2)}\n" for name, value in pairs])
    return joined.replace("\x01", ":").replace("\0", "\n") + "\n"


def _write_standard(
    headers: dict[str, str], envelope: Envelope, dialect: Dialect, version: Version, now_ms: int
) -> None:
    """Write the header fields as plain STOMP clients know them."""
    headers["persistent"] = "true" if envelope.delivery_mode == _PERSISTENT else "false"
    headers["priority"] = str(envelope.priority)
    expires_ms = envelope.expiration_ms
    if not dialect.expiry_is_relative:
        headers[dialect.expiry_header] = str(expires_ms)
    elif expires_ms:
        headers[dialect.expiry_header] = str(max(0, expires_ms - now_ms))
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
        # ActiveMQ would pass a text on without the length that its NUL needs: it gets such a text as bytes.
        if envelope.body_kind is BodyKind.TEXT and body.content_type != BYTES_TYPE and dialect.preserves_headers:
            headers["amq-msg-type"] = "text"


def _profile_fields(
    envelope: Envelope, dialect: Dialect, version: Version, body: WireBody, types: str, connection_id: str | None
) -> str:
    fields = [f"{VERSION};k={body.kind}"]
    if envelope.message_id is not None:
        fields.append("i=" + quoted_id(envelope.message_id))
    correlation_id, jms_type = envelope.correlation_id, envelope.jms_type
    if type(correlation_id) is bytes:
        fields.append("cb=" + correlation_id.hex())
    elif correlation_id is not None and not (dialect.preserves_headers and travels(correlation_id, version)):  # type: ignore[arg-type]
        fields.append("c=" + quoted(correlation_id))  # type: ignore[arg-type]
    if jms_type is not None and not (dialect.preserves_headers and travels(jms_type, version)):
        fields.append("ty=" + quoted(jms_type))
    if not dialect.preserves_headers:
        fields += _fields_that_brokers_change(envelope)
    if connection_id is not None:
        fields.append("o=" + quoted(connection_id))
    if types:
        fields.append("p=" + types)
    return ";".join(fields)


def _fields_that_brokers_change(envelope: Envelope) -> list[str]:
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
            continue  # four bytes a character, at most
        size = len(escape(name, Version.V1_2).encode()) + 1 + len(escape(value, Version.V1_2).encode())
        if size > limit:
            raise ResourceError(
                f"property or header {name[:60]!r} takes {size} bytes, and {dialect.title} takes header lines of "
                f"{limit} bytes at most: put it into the body"
            )
