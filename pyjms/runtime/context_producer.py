"""The producer of a context: options, properties and header fields for all that it sends (JMS 2.0 §7.4 to §7.6, §7.10)."""

# The properties get their setters from the methods `set_…` (pyjms.api.names), which mypy does not know.
# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

from pyjms.api.context import JMSProducer
from pyjms.api.destination import Destination
from pyjms.api.message import Message
from pyjms.api.producer import CompletionListener, DeliveryMode
from pyjms.errors import (
    IllegalArgumentException,
    JMSException,
    MessageFormatException,
    UnsupportedOperationException,
)
from pyjms.messages.base import JmsMessage
from pyjms.messages.bodies import JmsBytesMessage, JmsMapMessage, JmsObjectMessage, JmsTextMessage
from pyjms.runtime.checks import completion_callbacks
from pyjms.runtime.error_mapping import runtime_errors, to_runtime
from pyjms.runtime.producer import check_delivery_delay, check_delivery_mode, check_priority, check_time_to_live
from pyjms.types import Boxed, Byte, Double, Float, Int, Long, Short

if TYPE_CHECKING:
    from pyjms.runtime.contracts import ContextContract


@dataclass(frozen=True, slots=True)
class SendOptions:
    """The options with which a producer sends."""

    delivery_mode: int = DeliveryMode.PERSISTENT
    priority: int = Message.DEFAULT_PRIORITY
    time_to_live: int = Message.DEFAULT_TIME_TO_LIVE
    delivery_delay: int = Message.DEFAULT_DELIVERY_DELAY
    disable_message_id: bool = False
    disable_message_timestamp: bool = False


DEFAULT_OPTIONS = SendOptions()
"""Those of a producer on which no option was set. All of them share this one object, by which the context knows it."""


class PropertyNames(AbstractSet[str]):
    """The names of a producer's properties: a read-only set that follows the producer."""

    __slots__ = ("_message",)

    def __init__(self, message: JmsMessage) -> None:
        self._message = message

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._message.property_exists(name)

    def __iter__(self) -> Iterator[str]:
        return self._message.property_names

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self)})"

    @classmethod
    def _from_iterable(cls, names: Any) -> set[str]:  # type: ignore[override]  # what `&` and the like return is no view
        return set(names)

    def _refuse(self, *_: object) -> NoReturn:
        raise UnsupportedOperationException(
            "this set is read-only: call set_property() or clear_properties() on the producer"
        )

    add = discard = remove = clear = pop = update = _refuse


class ProducerSettings(JMSProducer):
    """The settings of a producer: all of it but `send`."""

    __slots__ = ("_has_properties", "_is_bytes", "_is_set", "_listener", "_options", "_settings", "context")

    def __init__(self, context: ContextContract) -> None:
        self.context = context
        self._options = DEFAULT_OPTIONS
        self._listener: CompletionListener | None = None
        self._settings = JmsMessage()
        """Holds the properties and header fields, checked and converted as those of any message."""
        self._is_set = False
        """Whether a property or a header field was ever set: otherwise a send need not ask for each of them."""
        self._has_properties = False
        self._is_bytes = False
        """Whether the correlation identifier was set as bytes."""

    def prepared(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Message, SendOptions]:
        """Return destination, message and options of a `send` with these arguments. The message has the properties and header fields.

        Raises `MessageFormatException`, `MessageNotWriteableException`.
        """
        destination, content = arguments if len(arguments) == 2 and not named else _sort_arguments(arguments, named)
        message = content if isinstance(content, Message) else _message_of(content)
        if self._is_set:
            self._apply_to(message)
        return destination, message, self._options

    def _apply_to(self, message: Message) -> None:
        """Set this producer's properties and header fields on `message`. Raises `MessageNotWriteableException`."""
        settings = self._settings
        if self._has_properties:
            for name in settings.property_names:
                message.set_object_property(name, settings.get_object_property(name))
        if settings.jms_type is not None:
            message.jms_type = settings.jms_type
        if settings.jms_reply_to is not None:
            message.jms_reply_to = settings.jms_reply_to
        if settings.jms_correlation_id is not None:
            if self._is_bytes:
                message.jms_correlation_id_as_bytes = settings.jms_correlation_id_as_bytes
            else:
                message.jms_correlation_id = settings.jms_correlation_id

    # Options

    def _read(self) -> SendOptions:
        self.context.check_open()
        return self._options

    def _set(self, **options: Any) -> Self:
        self._options = replace(self._options, **options)
        return self

    @property
    def disable_message_id(self) -> bool:
        return self._read().disable_message_id

    def set_disable_message_id(self, value: bool) -> Self:
        self.context.check_open()
        return self._set(disable_message_id=bool(value))

    @property
    def disable_message_timestamp(self) -> bool:
        return self._read().disable_message_timestamp

    def set_disable_message_timestamp(self, value: bool) -> Self:
        self.context.check_open()
        return self._set(disable_message_timestamp=bool(value))

    @property
    def delivery_mode(self) -> int:
        return self._read().delivery_mode

    def set_delivery_mode(self, delivery_mode: int) -> Self:
        self.context.check_open()
        with runtime_errors:
            return self._set(delivery_mode=DeliveryMode(check_delivery_mode(delivery_mode)))

    @property
    def priority(self) -> int:
        return self._read().priority

    def set_priority(self, priority: int) -> Self:
        self.context.check_open()
        with runtime_errors:
            return self._set(priority=check_priority(priority))

    @property
    def time_to_live(self) -> int:
        return self._read().time_to_live

    def set_time_to_live(self, time_to_live: int) -> Self:
        self.context.check_open()
        with runtime_errors:
            return self._set(time_to_live=check_time_to_live(time_to_live))

    @property
    def delivery_delay(self) -> int:
        return self._read().delivery_delay

    def set_delivery_delay(self, delivery_delay: int) -> Self:
        self.context.check_open()
        with runtime_errors:
            delay = check_delivery_delay(delivery_delay)
            if delay:
                self.context.require_delivery_delay()
            return self._set(delivery_delay=delay)

    @property
    def async_(self) -> CompletionListener | None:
        self.context.check_open()
        return self._listener

    def set_async(self, completion_listener: CompletionListener | None) -> Self:
        self.context.check_open()
        # The call is made for its checks: an object without the two methods is refused here.
        if completion_listener is not None:
            completion_callbacks(completion_listener)
        self._listener = completion_listener
        return self

    # Properties

    def _checked(self) -> JmsMessage:
        self.context.check_open()
        return self._settings

    def set_property(self, name: str, value: Boxed | float) -> Self:
        with runtime_errors:
            self._checked().set_object_property(name, value)
        self._has_properties = self._is_set = True
        return self

    def clear_properties(self) -> Self:
        self._checked().clear_properties()
        self._has_properties = False
        return self

    def property_exists(self, name: str) -> bool:
        return self._checked().property_exists(name)

    def get_boolean_property(self, name: str) -> bool:
        with runtime_errors:
            return self._checked().get_boolean_property(name)

    def get_byte_property(self, name: str) -> Byte:
        with runtime_errors:
            return self._checked().get_byte_property(name)

    def get_short_property(self, name: str) -> Short:
        with runtime_errors:
            return self._checked().get_short_property(name)

    def get_int_property(self, name: str) -> Int:
        with runtime_errors:
            return self._checked().get_int_property(name)

    def get_long_property(self, name: str) -> Long:
        with runtime_errors:
            return self._checked().get_long_property(name)

    def get_float_property(self, name: str) -> Float:
        with runtime_errors:
            return self._checked().get_float_property(name)

    def get_double_property(self, name: str) -> Double:
        with runtime_errors:
            return self._checked().get_double_property(name)

    def get_string_property(self, name: str) -> str | None:
        with runtime_errors:
            return self._checked().get_string_property(name)

    def get_object_property(self, name: str) -> Boxed:
        return self._checked().get_object_property(name)

    @property
    def property_names(self) -> AbstractSet[str]:
        return PropertyNames(self._checked())

    # Header fields

    def _written(self) -> JmsMessage:
        self._is_set = True
        return self._checked()

    @property
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        return self._checked().jms_correlation_id_as_bytes

    def set_jms_correlation_id_as_bytes(self, correlation_id: bytes | None) -> Self:
        with runtime_errors:
            self._written().jms_correlation_id_as_bytes = correlation_id
        self._is_bytes = True
        return self

    @property
    def jms_correlation_id(self) -> str | None:
        return self._checked().jms_correlation_id

    def set_jms_correlation_id(self, correlation_id: str | None) -> Self:
        with runtime_errors:
            self._written().jms_correlation_id = correlation_id
        self._is_bytes = False
        return self

    @property
    def jms_type(self) -> str | None:
        return self._checked().jms_type

    def set_jms_type(self, type: str | None) -> Self:
        with runtime_errors:
            self._written().jms_type = type
        return self

    @property
    def jms_reply_to(self) -> Destination | None:
        return self._checked().jms_reply_to

    def set_jms_reply_to(self, reply_to: Destination | None) -> Self:
        with runtime_errors:
            self._written().jms_reply_to = reply_to
        return self


class JmsProducer(ProducerSettings):
    """A producer that sends through its context's only `MessageProducer`, which gets its options before."""

    __slots__ = ()

    def send(self, *arguments: Any, **named: Any) -> Self:
        """Send a message, or a new one with the given body."""
        try:
            self.context.send(*self.prepared(arguments, named), self._listener)
        except JMSException as error:
            raise to_runtime(error) from error
        return self


def _sort_arguments(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    """Return the destination, and the message or the body. Raises `MessageFormatException` for a message that is none."""
    given = dict(zip(("destination", "body"), arguments, strict=False))
    if len(arguments) > 2 or given.keys() & named.keys() or (len(arguments) == 2 and "message" in named):
        raise TypeError("send() takes (destination, message) or (destination, body)")
    given |= named
    if unknown := given.keys() - {"destination", "message", "body"}:
        raise TypeError(f"send() got an unexpected keyword argument {min(unknown)!r}")
    if "destination" not in given or ("message" in given) is ("body" in given):
        raise TypeError("send() takes (destination, message) or (destination, body)")
    if "message" in given and not isinstance(given["message"], Message):
        raise MessageFormatException(f"{type(given['message']).__name__} is no JMS message")
    return given["destination"], given.get("message", given.get("body"))


def _message_of(body: object) -> JmsMessage:
    """Return a new message with `body`, of the type for such a body. Raises `MessageFormatException`."""
    if body is None:
        return JmsMessage()
    if isinstance(body, str):
        return JmsTextMessage(body)
    if isinstance(body, (bytes, bytearray, memoryview)):
        of_bytes = JmsBytesMessage()
        of_bytes.write_bytes(body)
        return of_bytes
    if isinstance(body, Mapping):
        return _map_of(body)
    of_object = JmsObjectMessage()
    of_object.object = body
    return of_object


def _map_of(body: Mapping[Any, Any]) -> JmsMapMessage:
    message = JmsMapMessage()
    for name, value in body.items():
        try:
            message.set_object(name, value)
        except IllegalArgumentException as error:  # a name that is no text, or empty: the map is no body
            raise MessageFormatException(f"{name!r} is no name of a map's entry") from error
    return message
