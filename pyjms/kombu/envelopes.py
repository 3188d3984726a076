"""Conversion of kombu's messages to JMS, and back.

The body is unchanged: a text is a TextMessage, bytes are a BytesMessage. A header whose name and value fit a JMS
property becomes one, so that selectors and consoles see it. All other data are JSON in the property `kombu`, and in
further, numbered ones if it is long. A message without them is another program's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kombu.utils.json import dumps, loads

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, Body, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.spi.selector.lexical import is_reserved
from pyjms.types import Stored

ROUTING_KEY: Final = "kombu_routing_key"
"""The property by which the consumers of bound queues select messages of a topic."""
_REST: Final = "kombu"
_TYPE: Final = "content_type"
_ENCODING: Final = "content_encoding"
_OWN: Final = re.compile(rf"{_REST}(_\d+)?|{ROUTING_KEY}|{_TYPE}|{_ENCODING}")
_NAME: Final = re.compile(r"(?!JMS)[A-Za-z_$][A-Za-z0-9_$]{0,63}|JMSXGroupID")
_SECTIONS: Final = ("headers", "properties", "delivery_info")
_TEXT_MAX: Final = 1000
"""The maximum length, in characters, of a text in a property of its own."""
_PART_MAX: Final = 4000
"""The maximum length of a part of the JSON: ActiveMQ accepts 10 KiB for each header of a frame, and a colon takes two
bytes there.
"""
_PRIORITY_MAX: Final = 9
_TIME_MAX_MS: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A received message in kombu's format."""

    body: bytes
    content_type: str | None
    content_encoding: str | None
    headers: dict[str, Any]
    properties: dict[str, Any]
    delivery_info: dict[str, Any]


class Outgoing:
    """A message of kombu to be sent, perhaps to several destinations."""

    def __init__(self, message: Mapping[str, Any], exchange: str, routing_key: str) -> None:
        properties = dict(message["properties"] or {})
        body = message["body"]
        self._body: Body = body if isinstance(body, str) else bytes(body)
        self._kind = BodyKind.TEXT if isinstance(body, str) else BodyKind.BYTES
        self._routing_key = routing_key
        # Programs write the mode as a number or by its name; kombu's default is persistent.
        self._is_lasting = str(properties.get("delivery_mode")) not in {"1", "transient"}
        self._priority = _priority_of(properties)
        self._time_to_live_ms = _time_to_live_of(properties)
        self._correlation_id = _pop_text(properties, "correlation_id")
        reply_to = _pop_text(properties, "reply_to")
        self._reply_to = None if reply_to is None else Address(AddressKind.QUEUE, reply_to)
        self._properties: dict[str, Stored] = {}
        rest: dict[str, Any] = {}
        for name, value in (message.get("headers") or {}).items():
            if _can_be_property(name, value):
                self._properties[name] = value
            else:
                rest[name] = value
        for name, key in ((_TYPE, "content-type"), (_ENCODING, "content-encoding")):
            if message.get(key) is not None:
                self._properties[name] = str(message[key])
        # The place of publishing overrides: a received message that is published again may have its old one.
        info = {**(properties.pop("delivery_info", None) or {}), "exchange": exchange, "routing_key": routing_key}
        # kombu's own JSON: it encodes dates, UUIDs and decimals, which the standard library's refuses.
        text = dumps(dict(zip(_SECTIONS, (rest, properties, info), strict=True)))
        for number, start in enumerate(range(0, len(text), _PART_MAX)):
            self._properties[f"{_REST}_{number}" if number else _REST] = text[start : start + _PART_MAX]

    def envelope(self, destination: Address, message_id: MessageId, now_ms: int) -> Envelope:
        """Return the message for a destination. A topic delivers it to present subscribers only, so it need not be
        stored.
        """
        is_to_topic = destination.kind is AddressKind.TOPIC
        return Envelope(
            destination,
            message_id,
            now_ms,
            0 if self._time_to_live_ms is None else now_ms + self._time_to_live_ms,
            # A topic delivers the message to present subscribers only, so it need not be stored.
            2 if self._is_lasting and not is_to_topic else 1,
            self._priority,
            self._correlation_id,
            self._reply_to,
            None,
            {**self._properties, ROUTING_KEY: self._routing_key} if is_to_topic else self._properties,
            self._kind,
            self._body,
        )


def parts_of(delivery: Delivery, queue: str) -> Parts:
    """Return a message received from `queue`, of any sender, in kombu's format."""
    envelope = delivery.envelope
    found = envelope.properties
    body, content_type, content_encoding = _body_of(envelope)
    rest: Mapping[str, Any] = {}
    if (written := _json_data_of(found)) is not None:  # it is kombu's own, with a content type or without
        rest, content_type, content_encoding = written, None, None
    headers = {name: _plain(value) for name, value in found.items() if _is_header(name)}
    properties = {"priority": envelope.priority, "delivery_mode": envelope.delivery_mode, **rest.get("properties", {})}
    if isinstance(envelope.correlation_id, str):
        # A text that is too long for a header of JMS is in the JSON, and takes precedence.
        properties.setdefault("correlation_id", envelope.correlation_id)
    if envelope.reply_to is not None:
        properties.setdefault("reply_to", envelope.reply_to.name)
    return Parts(
        body=body,
        content_type=_text_or(found.get(_TYPE), content_type),
        content_encoding=_text_or(found.get(_ENCODING), content_encoding),
        headers={**headers, **rest.get("headers", {})},
        properties=properties,
        delivery_info={
            "exchange": "",
            "routing_key": queue,
            "priority": properties["priority"],
            **rest.get("delivery_info", {}),
            # After the sender's values: only this broker knows about this delivery.
            "redelivered": delivery.redelivered,
            "delivery_count": delivery.count,
        },
    )


# Cached, as a program uses the same few header names in all messages.
@lru_cache(maxsize=1024)
def _can_be_name(name: str) -> bool:
    """Whether a JMS property may have this name, and this module does not use it."""
    return bool(_NAME.fullmatch(name)) and not _OWN.fullmatch(name) and not is_reserved(name)


@lru_cache(maxsize=1024)
def _is_header(name: str) -> bool:
    """Whether a property is a header, and not set by JMS, a broker or this module."""
    return not _OWN.fullmatch(name) and (name == "JMSXGroupID" or not name.startswith("JMS"))


def _can_be_property(name: object, value: object) -> bool:
    """Whether a header is unchanged after travelling as a JMS property, at any broker."""
    if not isinstance(name, str) or not _can_be_name(name):
        return False
    # Exact types: a subclass, such as an enum's member, would return as a plain text.
    if type(value) is str:
        return len(value) <= _TEXT_MAX
    # A Java int, which every broker preserves. JMSXGroupID is a String (JMS 1.1 §3.5.9).
    return type(value) is bool or (type(value) is int and -(2**31) <= value < 2**31 and name != "JMSXGroupID")


def _pop_text(properties: dict[str, Any], name: str) -> str | None:
    """Remove and return a property that a JMS header can hold."""
    value = properties.get(name)
    if type(value) is str and value and len(value) <= _TEXT_MAX:
        return str(properties.pop(name))
    return None


def _priority_of(properties: Mapping[str, Any]) -> int:
    """Return the priority: higher is sooner, as in RabbitMQ; 0 if there is none."""
    try:
        # JMS has priorities 0 to 9, RabbitMQ up to 255.
        return min(max(int(properties.get("priority") or 0), 0), _PRIORITY_MAX)
    except (TypeError, ValueError):
        return 0


def _time_to_live_of(properties: Mapping[str, Any]) -> int | None:
    """Return the message's time to live in milliseconds; None: unlimited. AMQP's `expiration` is a number of
    milliseconds, as text.
    """
    given = properties.get("expiration")
    if given is None:
        return None
    try:
        # At least 1: AMQP's 0 expires at once, where 0 means never in JMS.
        return min(max(int(given), 1), _TIME_MAX_MS)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{given!r} is no expiration: it is a number of milliseconds") from error


def _json_data_of(found: Mapping[str, Stored]) -> Mapping[str, Any] | None:
    """Return the JSON data; None if there is none, or it was written by another program, which may have written
    anything.
    """
    if _REST not in found:
        return None
    texts = [found[_REST]]
    while (part := found.get(f"{_REST}_{len(texts)}")) is not None:
        texts.append(part)
    try:
        rest = loads("".join(map(str, texts)))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    # Another program may have a property of this name; then all data in it are that program's.
    is_ours = isinstance(rest, dict) and all(isinstance(rest.get(name), dict) for name in _SECTIONS)
    return rest if is_ours else None


def _body_of(envelope: Envelope) -> tuple[bytes, str | None, str | None]:
    """Return a body as bytes, with its default content type and encoding."""
    body = envelope.body
    if isinstance(body, str) or body is None:
        # A Java text may have half of a surrogate pair, which plain UTF-8 refuses.
        return (body or "").encode("utf-8", "surrogatepass"), "text/plain", "utf-8"
    if isinstance(body, bytes):
        return body, "application/octet-stream", "binary"
    if isinstance(body, ObjectBody):  # kombu cannot read it, and refuses content types without a decoder
        return body.data, "application/vnd.pyjms.object+pickle", "binary"
    values: Any = (
        [_plain(each) for each in body]
        if isinstance(body, tuple)
        else ({name: _plain(value) for name, value in body.items()})
    )
    return dumps(values).encode(), "application/json", "utf-8"


def _plain(value: Stored) -> Any:
    """Return a JMS value as a plain Python value."""
    if type(value) is str:
        return value
    # bool comes first, as it is an int in Python.
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _text_or(value: Stored, otherwise: str | None) -> str | None:
    return otherwise if value is None else str(value)
