"""A message as text for a database, and back: for requests in the client's log, and replies at the server. Pure."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pyjms.messages.base import JmsMessage
from pyjms.messages.freeze import convert, freeze, thaw
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, Body, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.spi.typed_values import read_map, read_stream, write_map, write_stream
from pyjms.types import Stored

if TYPE_CHECKING:
    from pyjms.api.message import Message
    from pyjms.messages.base import MessageContext

_NOWHERE = Address(AddressKind.QUEUE, "nowhere")


def envelope_of(message: Message) -> Envelope:
    """Return the application's content of `message`, without a destination."""
    own = message if isinstance(message, JmsMessage) else convert(message)
    # A later send sets destination, times and id; mode and priority are JMS's defaults until then.
    return freeze(own, _NOWHERE, None, 0, 0, 2, 4)


def message_of(
    envelope: Envelope,
    context: MessageContext,
    *,
    correlation_id: str,
    reply_to: Address | None,
    properties: Mapping[str, Stored],
) -> Message:
    """Return `envelope` as a message that can be sent, with these header fields and with `properties` added."""
    names = dict(envelope.properties) | dict(properties)
    complete = replace(envelope, correlation_id=correlation_id, reply_to=reply_to, properties=names)
    return thaw(Delivery(complete, 1, False, None), context)


def write_message(envelope: Envelope) -> str:
    """Return JSON from which `read_message` makes an equal envelope."""
    reply_to = envelope.reply_to
    correlation = envelope.correlation_id
    return json.dumps(
        {
            "kind": envelope.body_kind.name,
            "body": _body_text(envelope.body_kind, envelope.body),
            # Typed text: JSON alone does not tell a Java long from an int.
            "properties": write_map(envelope.properties),
            "type": envelope.jms_type,
            # A correlation id of bytes is not stored: the caller sets its own when the message is sent.
            "correlation": correlation if isinstance(correlation, str) else None,
            "reply_to": None if reply_to is None else [reply_to.kind.name, reply_to.name, reply_to.temporary],
        }
    )


def read_message(text: str) -> Envelope:
    """Return the envelope. Raises `ValueError`, `KeyError`, `TypeError` for a text that `write_message` did not write."""
    values = json.loads(text)
    kind = BodyKind[values["kind"]]
    reply_to = values["reply_to"]
    return Envelope(
        _NOWHERE,
        cast("MessageId | None", None),
        0,
        0,
        2,
        4,
        values["correlation"],
        None if reply_to is None else Address(AddressKind[reply_to[0]], reply_to[1], reply_to[2]),
        values["type"],
        read_map(values["properties"]),
        kind,
        _body(kind, values["body"]),
    )


def _body_text(kind: BodyKind, body: Any) -> str | None:
    if body is None or kind is BodyKind.TEXT:
        return cast("str | None", body)
    if kind is BodyKind.MAP:
        return write_map(body)
    if kind is BodyKind.STREAM:
        return write_stream(body)
    return b64encode(body.data if kind is BodyKind.OBJECT else body).decode()


def _body(kind: BodyKind, text: str | None) -> Body:
    if text is None or kind is BodyKind.TEXT:
        return text
    if kind is BodyKind.MAP:
        return read_map(text)
    if kind is BodyKind.STREAM:
        return read_stream(text)
    data = b64decode(text)
    return ObjectBody(data, local=False) if kind is BodyKind.OBJECT else data
