"""Messages as management shows and takes them: headers, typed properties, and bodies that JSON can hold."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored
from pyjms_provider.model.errors import InvalidArgumentsError, Problem
from pyjms_provider.model.property_names import CLIENT_JMSX, why_not_settable

__all__ = [
    "LetterView",
    "MessageBody",
    "MessageView",
    "NewMessage",
    "TypedValue",
    "to_envelope",
]

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
    """Bytes are in base64; longs beyond 2^53 are strings, as are infinity and NaN: JSON's numbers would not hold them."""


class MessageBody(_Shown):
    """A body. Of one that is too long the first 100,000 characters or bytes are shown; `size` is of the whole: characters of a text, bytes, or
    the number of values.
    """

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
    is_whole: bool
    """False: headers and properties are too long to be shown; what is beyond 100,000 characters is cut, or left out."""
    body: MessageBody | None
    """None: it was not asked for, or those of other messages were too long for one answer already."""
    delivery_count: int | None = None
    """How often it was delivered; None: it is a dead letter, which says that itself."""


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
    """A plain number is an int, or a long if it is too large; a plain fraction is a double. Names are those that clients may set."""
    correlation_id: str | None = None
    type: str | None = None
    priority: Annotated[int, Field(ge=0, le=9)] = 4
    persistent: bool = True
    time_to_live_ms: Annotated[int, Field(ge=0, le=Long.maximum)] = 0
    """0: for ever."""


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
        expiration_ms=min(now_ms + message.time_to_live_ms, Long.maximum) if message.time_to_live_ms else 0,
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
    why_not = why_not_settable(name)
    if why_not:
        raise _wrong(where, f"message.properties.{name}", why_not)
    stored = _typed(name, value, where)
    wanted = CLIENT_JMSX.get(name)
    if wanted is not None and type(stored) is not wanted[1]:
        raise _wrong(where, f"message.properties.{name}", f"is of type {wanted[0]} (JMS 1.1 §3.5.9)")
    return stored


def _typed(name: str, value: Any, where: str) -> Stored:
    if not isinstance(value, TypedValue):
        if isinstance(value, int) and not isinstance(value, bool) and not -(2**31) <= value < 2**31:
            value = TypedValue(type="long", value=value)
        else:
            return value  # type: ignore[no-any-return]  # boolean, int, double or String as they are
    kind = _TYPES.get(value.type)
    if kind is None:
        raise _wrong(where, f"message.properties.{name}", f"has no type {value.type!r}; there are: {', '.join(_TYPES)}")
    try:
        # As it is shown: JSON has neither infinity nor NaN, so they are texts.
        made = kind(float(value.value)) if kind is Float and isinstance(value.value, str) else kind(value.value)
    except (TypeError, ValueError) as error:
        raise _wrong(where, f"message.properties.{name}", str(error)) from error
    if isinstance(made, Double):
        return float(made)
    return int(made) if isinstance(made, Int) else made


def _wrong(where: str, name: str, text: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(f"publish of {where}", (Problem(name=name, text=text),))
