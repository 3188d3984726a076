"""Messages as management shows and takes them: headers, typed properties, and bodies that JSON can hold."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored
from pyjms_provider.core.dead_letters import DEAD_PREFIX
from pyjms_provider.model.errors import InvalidArgumentsError, Problem

__all__ = [
    "LetterView",
    "MessageBody",
    "MessageView",
    "NewMessage",
    "TypedValue",
    "to_envelope",
    "view_letter",
    "view_message",
    "view_value",
]

_LONGEST: Final = 100_000
_TYPES: Final[Mapping[str, type]] = {
    "boolean": bool,
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": Long,
    "float": Float,
    "double": Double,
    "char": Char,
    "string": str,
}


class _Shown(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TypedValue(_Shown):
    """A value with its Java type: boolean, byte, short, int, long, float, double, char, string, bytes, null."""

    type: str
    value: Any
    """Bytes are in base64."""


class MessageBody(_Shown):
    """A body. Long ones are cut; `size` is of the whole: characters of a text, bytes, or the number of values."""

    kind: str
    size: int
    is_whole: bool
    text: str | None = None
    base64: str | None = None
    """Of bytes, and of the pickled form of an object, which is never unpickled here."""
    map: dict[str, TypedValue] | None = None
    stream: list[TypedValue] | None = None


class MessageView(_Shown):
    """A message that waits in a queue."""

    id: str | None
    destination: str
    timestamp_ms: int
    expiration_ms: int
    delivery_mode: str
    priority: int
    correlation_id: str | None
    reply_to: str | None
    type: str | None
    properties: dict[str, TypedValue]
    body: MessageBody | None
    """None: it was not asked for."""


class LetterView(_Shown):
    """A dead letter, with why it is there."""

    message: MessageView
    kind: str | None
    """``rejected``, ``deliveries`` or ``expired``; None: the message is no dead letter."""
    reason: str | None
    came_from: str | None
    subscription: str | None
    deliveries: int | None
    consumer: str | None
    at_ms: int | None


class NewMessage(_Shown):
    """A message that an operator sends."""

    text: str | None = None
    base64: str | None = None
    """In place of a text: a body of bytes."""
    properties: dict[str, bool | int | float | str | TypedValue] = Field(default_factory=dict)
    """A plain number is an int, or a long if it is too large; a plain fraction is a double."""
    correlation_id: str | None = None
    type: str | None = None
    priority: Annotated[int, Field(ge=0, le=9)] = 4
    persistent: bool = True
    time_to_live_ms: Annotated[int, Field(ge=0)] = 0
    """0: for ever."""


def view_value(value: Stored) -> TypedValue:
    """Return a value of a property, a map or a stream as it is shown."""
    if value is None:
        return TypedValue(type="null", value=None)
    if isinstance(value, bytes):
        return TypedValue(type="bytes", value=base64.b64encode(value).decode())
    if isinstance(value, bool):
        return TypedValue(type="boolean", value=value)
    for name in ("byte", "short", "long", "float", "char"):
        if isinstance(value, _TYPES[name]):
            return TypedValue(type=name, value=str(value) if name == "char" else _plain_number(value))
    if isinstance(value, str):
        return TypedValue(type="string", value=str(value))
    return TypedValue(type="int" if isinstance(value, int) else "double", value=_plain_number(value))


def _plain_number(value: Any) -> int | float | str:
    if isinstance(value, int):
        return int(value)
    number = float(value)
    return number if number - number == 0 else str(number)  # JSON has neither infinity nor NaN


def view_message(envelope: Envelope, *, with_body: bool = True) -> MessageView:
    """Return a message as it is shown."""
    correlation = envelope.correlation_id
    return MessageView(
        id=envelope.message_id,
        destination=str(envelope.destination),
        timestamp_ms=envelope.timestamp_ms,
        expiration_ms=envelope.expiration_ms,
        delivery_mode="PERSISTENT" if envelope.delivery_mode == 2 else "NON_PERSISTENT",
        priority=envelope.priority,
        correlation_id=correlation.hex() if isinstance(correlation, bytes) else correlation,
        reply_to=None if envelope.reply_to is None else str(envelope.reply_to),
        type=envelope.jms_type,
        properties={name: view_value(value) for name, value in envelope.properties.items()},
        body=_body(envelope) if with_body else None,
    )


def _body(envelope: Envelope) -> MessageBody:
    body, kind = envelope.body, envelope.body_kind.name.lower()
    if isinstance(body, str):
        return MessageBody(kind=kind, size=len(body), is_whole=len(body) <= _LONGEST, text=body[:_LONGEST])
    if isinstance(body, (bytes, ObjectBody)):
        data = body if isinstance(body, bytes) else body.data
        shown = base64.b64encode(data[:_LONGEST]).decode()
        return MessageBody(kind=kind, size=len(data), is_whole=len(data) <= _LONGEST, base64=shown)
    if isinstance(body, Mapping):
        values = {name: view_value(value) for name, value in body.items()}
        return MessageBody(kind=kind, size=len(values), is_whole=True, map=values)
    if isinstance(body, tuple):
        return MessageBody(kind=kind, size=len(body), is_whole=True, stream=[view_value(value) for value in body])
    return MessageBody(kind=kind, size=0, is_whole=True)


def view_letter(envelope: Envelope, *, with_body: bool = True) -> LetterView:
    """Return a dead letter as it is shown."""
    said = {name.removeprefix(DEAD_PREFIX): value for name, value in envelope.properties.items()}

    def text(name: str) -> str | None:
        value = said.get(name)
        return value if isinstance(value, str) else None

    def number(name: str) -> int | None:
        value = said.get(name)
        return int(value) if isinstance(value, int) else None

    return LetterView(
        message=view_message(envelope, with_body=with_body),
        kind=text("Kind"),
        reason=text("Reason"),
        came_from=text("Destination"),
        subscription=text("Subscription"),
        deliveries=number("Count"),
        consumer=text("Consumer"),
        at_ms=number("Time"),
    )


def to_envelope(message: NewMessage, queue: str, message_id: str, now_ms: int, where: str) -> Envelope:
    """Return what is sent for a new message. Raises `InvalidArgumentsError`."""
    if message.text is not None and message.base64 is not None:
        raise _wrong(where, "message", "has a text and bytes; give one of them")
    try:
        data = None if message.base64 is None else base64.b64decode(message.base64, validate=True)
    except ValueError:
        raise _wrong(where, "message.base64", "is no base64") from None
    body: str | bytes | None = message.text if data is None else data
    kind = BodyKind.BYTES if data is not None else BodyKind.NONE if body is None else BodyKind.TEXT
    return Envelope(
        destination=Address(AddressKind.QUEUE, queue),
        message_id=MessageId(message_id),
        timestamp_ms=now_ms,
        expiration_ms=now_ms + message.time_to_live_ms if message.time_to_live_ms else 0,
        delivery_mode=2 if message.persistent else 1,
        priority=message.priority,
        correlation_id=message.correlation_id,
        reply_to=None,
        jms_type=message.type,
        properties={name: _stored(name, value, where) for name, value in message.properties.items()},
        body_kind=kind,
        body=body,
    )


def _stored(name: str, value: Any, where: str) -> Stored:
    if not name.isidentifier() or name.startswith("JMSX") or (name.startswith("JMS") and not name.startswith("JMS_")):
        raise _wrong(where, f"message.properties.{name}", "is no name of a property (JMS 1.1 §3.5.1)")
    if not isinstance(value, TypedValue):
        if isinstance(value, int) and not isinstance(value, bool) and not -(2**31) <= value < 2**31:
            value = TypedValue(type="long", value=value)
        else:
            return value  # type: ignore[no-any-return]  # boolean, int, double or String as they are
    kind = _TYPES.get(value.type)
    if kind is None:
        raise _wrong(where, f"message.properties.{name}", f"has no type {value.type!r}; there are: {', '.join(_TYPES)}")
    try:
        made = kind(value.value)
    except (TypeError, ValueError) as error:
        raise _wrong(where, f"message.properties.{name}", str(error)) from error
    if isinstance(made, Double):
        return float(made)
    return int(made) if isinstance(made, Int) else made


def _wrong(where: str, name: str, text: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(f"publish of {where}", (Problem(name=name, text=text),))
