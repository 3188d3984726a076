"""Frames into envelopes: by the profile where a message has it, by the broker's own rules where not.

A bad profile header is never trusted and never fatal: it is logged, and the message is a foreign one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyjms.spi.envelope import Address, Body, BodyKind, Envelope, MessageId
from pyjms_provider.protocols.stomp.dialects import Dialect, ForeignBody
from pyjms_provider.protocols.stomp.errors import FrameError, ProfileError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.header_lines import PROFILE_HEADER, split_lines
from pyjms_provider.protocols.stomp.profile.bodies import read_body
from pyjms_provider.protocols.stomp.profile.header import ProfileHeader, join_parts, parse
from pyjms_provider.protocols.stomp.profile.names import SET_BY_PROTOCOL, is_of_profile, is_reserved
from pyjms_provider.protocols.stomp.profile.properties import WireProperties, read_properties
from pyjms_provider.protocols.stomp.profile.writing import AS_WRITTEN

__all__ = ["from_frame", "sender_of"]

_log = logging.getLogger(__name__)

_LONG_MAX = 2**63 - 1
_PRIORITY_DEFAULT = 4
_PREFIX = f"{PROFILE_HEADER}:"
_MORE_PREFIX = f"{PROFILE_HEADER}_1:"
_NON_PERSISTENT, _PERSISTENT = 1, 2


def from_frame(
    frame: Frame, dialect: Dialect, assumed: Address | None = None, *, keeps_headers: bool = False
) -> Envelope:
    """Return the message of a SEND or MESSAGE; `assumed` is the destination of its subscription, where one is known.

    The properties of a lazily decoded frame stay lines until they are asked for. `keeps_headers`: of a message without
    the profile header every header that the protocol does not set becomes a property, whatever its name, so that
    `to_frame` can write it again. Raises `DestinationError` when the frame names no destination.
    """
    tail = frame.tail
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
    """Return the connection that sent a message, if its profile header names one: for no-local at the client."""
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
    if "cb" in fields:
        correlation_id = _bytes_of_hex(fields["cb"])
    elif "c" in fields or not exact:
        correlation_id = header.text("c")
    jms_type = header.text("ty") if "ty" in fields or not exact else headers.get("type")
    if exact:  # the plain headers say the rest, and a sender cannot say two things
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
        kept["reply-to"] = headers["reply-to"]  # it means something to the receiver
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
            return BodyKind.BYTES, data  # rather than replace what cannot be read
    return BodyKind.BYTES, data


def _bytes_of_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ProfileError("the correlation id is not written in hexadecimal") from None


def _number(text: str | None) -> int:
    """Return a foreign number, or 0 for what is none: others may write there what they like."""
    if text is not None and text.isascii() and text.isdigit() and len(text) <= 19:
        number = int(text)
        return min(number, _LONG_MAX)
    return 0


def _expiry(headers: Mapping[str, str], dialect: Dialect) -> int:
    return 0 if dialect.expiry_is_relative else _number(headers.get(dialect.expiry_header))


def _delivery_mode(headers: Mapping[str, str]) -> int:
    return _PERSISTENT if headers.get("persistent") == "true" else _NON_PERSISTENT


def _priority(headers: Mapping[str, str]) -> int:
    text = headers.get("priority")
    return int(text) if text is not None and len(text) == 1 and "0" <= text <= "9" else _PRIORITY_DEFAULT


def _reply_to(headers: Mapping[str, str], dialect: Dialect, named: Address | None) -> Address | None:
    text = headers.get("reply-to")
    is_local = named is not None and named.temporary and not named.name.startswith("/remote-temp-")
    if named is not None and not (is_local and dialect.translates_temporaries and text is not None):
        return named
    return None if text is None else dialect.destinations.read_reply_to(text)
