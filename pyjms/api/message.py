"""Messages: header fields, typed properties, and the five kinds of body (JMS 1.1 §3).

Values of properties and bodies have the classes of `pyjms.types` when they are read, and are checked against the
range of the method's type when they are written: `MessageFormatException` says which value did not fit. Header fields
are plain values. A message belongs to one thread at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final, TypeVar

from pyjms.api.base import Enumeration
from pyjms.api.destination import Destination
from pyjms.api.names import Interface
from pyjms.errors import UnsupportedOperationException
from pyjms.types import Boxed, Byte, Char, Double, Float, Int, Long, Short

T = TypeVar("T")


class Message(Interface, declares=True):
    """A message: header fields, properties, and in the interfaces below a body (JMS 1.1 §3.1).

    A received message is read-only until `clear_properties` or `clear_body`; writing before that raises
    `MessageNotWriteableException`. Applications may implement this interface themselves; a provider accepts such a
    message, too (§3.12).
    """

    __slots__ = ()

    DEFAULT_DELIVERY_MODE: Final = 2
    """`DeliveryMode.PERSISTENT`."""
    DEFAULT_PRIORITY: Final = 4
    """The default priority of producers."""
    DEFAULT_TIME_TO_LIVE: Final = 0
    """Milliseconds; 0: a message never expires."""
    DEFAULT_DELIVERY_DELAY: Final = 0
    """Milliseconds; 0: a message is delivered at once."""

    @property
    @abstractmethod
    def jms_message_id(self) -> str | None:
        """The identifier that `send` gave to the message, starting with ``ID:``; None before, or if disabled (§3.4.3).

        Setting it is for providers: `send` sets another value.
        """

    @jms_message_id.setter
    @abstractmethod
    def jms_message_id(self, id: str | None) -> None: ...

    @property
    @abstractmethod
    def jms_timestamp(self) -> int:
        """The time when the message was handed over to be sent, in milliseconds since 1970 UTC; 0 if disabled (§3.4.4).

        Setting it is for providers: `send` sets another value.
        """

    @jms_timestamp.setter
    @abstractmethod
    def jms_timestamp(self, timestamp: int) -> None: ...

    @property
    @abstractmethod
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        """The correlation identifier as the bytes that some providers use, or None (§3.4.5)."""

    @jms_correlation_id_as_bytes.setter
    @abstractmethod
    def jms_correlation_id_as_bytes(self, correlation_id: bytes | None) -> None: ...

    @property
    @abstractmethod
    def jms_correlation_id(self) -> str | None:
        """The link to another message, such as the identifier of the request, or None (§3.4.5)."""

    @jms_correlation_id.setter
    @abstractmethod
    def jms_correlation_id(self, correlation_id: str | None) -> None: ...

    @property
    @abstractmethod
    def jms_reply_to(self) -> Destination | None:
        """The destination for a reply, or None (§3.4.6)."""

    @jms_reply_to.setter
    @abstractmethod
    def jms_reply_to(self, reply_to: Destination | None) -> None: ...

    @property
    @abstractmethod
    def jms_destination(self) -> Destination | None:
        """The destination to which the message was sent; None before (§3.4.1).

        Setting it is for providers: `send` sets another value.
        """

    @jms_destination.setter
    @abstractmethod
    def jms_destination(self, destination: Destination | None) -> None: ...

    @property
    @abstractmethod
    def jms_delivery_mode(self) -> int:
        """The `DeliveryMode` with which the message was sent (§3.4.2).

        Setting it is for providers: `send` sets another value.
        """

    @jms_delivery_mode.setter
    @abstractmethod
    def jms_delivery_mode(self, delivery_mode: int) -> None: ...

    @property
    @abstractmethod
    def jms_redelivered(self) -> bool:
        """Whether the message may have been delivered before without being acknowledged (§3.4.7).

        Setting it is for providers: each delivery sets another value.
        """

    @jms_redelivered.setter
    @abstractmethod
    def jms_redelivered(self, redelivered: bool) -> None: ...

    @property
    @abstractmethod
    def jms_type(self) -> str | None:
        """The type of the message, defined by the application, or None (§3.4.8)."""

    @jms_type.setter
    @abstractmethod
    def jms_type(self, type: str | None) -> None: ...

    @property
    @abstractmethod
    def jms_expiration(self) -> int:
        """The time when the message expires, in milliseconds since 1970 UTC; 0: never (§3.4.9).

        Setting it is for providers: `send` sets another value.
        """

    @jms_expiration.setter
    @abstractmethod
    def jms_expiration(self, expiration: int) -> None: ...

    @property
    @abstractmethod
    def jms_priority(self) -> int:
        """The priority with which the message was sent, 0 (lowest) to 9 (§3.4.10).

        Setting it is for providers: `send` sets another value.
        """

    @jms_priority.setter
    @abstractmethod
    def jms_priority(self, priority: int) -> None: ...

    # The members of JMS 2.0 are not abstract: an application's own class of messages may have been written for JMS 1.1.

    @property
    def jms_delivery_time(self) -> int:
        """The earliest time of delivery, in milliseconds since 1970 UTC: the time of the send plus the delivery delay (JMS 2.0 §3.4.13).

        Setting it is for providers: `send` sets another value. An application's own class of messages may lack this header field: then
        reading raises `UnsupportedOperationException`, and setting does nothing.
        """
        raise UnsupportedOperationException(f"{type(self).__name__} has no JMSDeliveryTime: it is a message of JMS 1.1")

    @jms_delivery_time.setter
    def jms_delivery_time(self, delivery_time: int) -> None:
        """Set nothing: the class has no such header field."""

    @abstractmethod
    def clear_properties(self) -> None:
        """Remove all properties; they can be written again. Header fields and body stay (§3.5.7)."""

    @abstractmethod
    def property_exists(self, name: str) -> bool:
        """Return whether there is a property called `name`; its value may be None."""

    # The getters convert by the table of §3.5.4; other conversions raise `MessageFormatException`, and a
    # text that is no number raises `NumberFormatException`. A property that does not exist reads as None, so the getters of
    # numbers raise `NumberFormatException` for it, and that of booleans gives False.

    @abstractmethod
    def get_boolean_property(self, name: str) -> bool:
        """Return property `name` as a boolean; one that does not exist is False (§3.5.4)."""

    @abstractmethod
    def get_byte_property(self, name: str) -> Byte:
        """Return property `name` as a byte; one that does not exist: `NumberFormatException` (§3.5.4)."""

    @abstractmethod
    def get_short_property(self, name: str) -> Short:
        """Return property `name` as a short; one that does not exist: `NumberFormatException` (§3.5.4)."""

    @abstractmethod
    def get_int_property(self, name: str) -> Int:
        """Return property `name` as an int; one that does not exist: `NumberFormatException` (§3.5.4)."""

    @abstractmethod
    def get_long_property(self, name: str) -> Long:
        """Return property `name` as a long; one that does not exist: `NumberFormatException` (§3.5.4)."""

    @abstractmethod
    def get_float_property(self, name: str) -> Float:
        """Return property `name` as a float; one that does not exist: `NullPointerException` (§3.5.4)."""

    @abstractmethod
    def get_double_property(self, name: str) -> Double:
        """Return property `name` as a double; one that does not exist: `NullPointerException` (§3.5.4)."""

    @abstractmethod
    def get_string_property(self, name: str) -> str | None:
        """Return property `name` as a text, or None if it does not exist or is None (§3.5.4)."""

    @abstractmethod
    def get_object_property(self, name: str) -> Boxed:
        """Return property `name` with its own type, or None if it does not exist or is None (§3.5.5)."""

    @property
    @abstractmethod
    def property_names(self) -> Enumeration[str]:
        """A new enumeration of the names of the properties; header fields are not among them (§3.5.6)."""

    # The setters raise `MessageNotWriteableException` on a received message, `IllegalArgumentException` for a name that is
    # None, empty or no text, `MessageFormatException` for a name that no client may set, and for a value of another type or
    # out of range.

    @abstractmethod
    def set_boolean_property(self, name: str, value: bool) -> None:
        """Set property `name` to a boolean (§3.5)."""

    @abstractmethod
    def set_byte_property(self, name: str, value: int) -> None:
        """Set property `name` to a byte (§3.5)."""

    @abstractmethod
    def set_short_property(self, name: str, value: int) -> None:
        """Set property `name` to a short (§3.5)."""

    @abstractmethod
    def set_int_property(self, name: str, value: int) -> None:
        """Set property `name` to an int (§3.5)."""

    @abstractmethod
    def set_long_property(self, name: str, value: int) -> None:
        """Set property `name` to a long (§3.5)."""

    @abstractmethod
    def set_float_property(self, name: str, value: float) -> None:
        """Set property `name` to a float (§3.5)."""

    @abstractmethod
    def set_double_property(self, name: str, value: float) -> None:
        """Set property `name` to a double (§3.5)."""

    @abstractmethod
    def set_string_property(self, name: str, value: str | None) -> None:
        """Set property `name` to a text, or to None (§3.5)."""

    @abstractmethod
    def set_object_property(self, name: str, value: Boxed | float) -> None:
        """Set property `name` to a value of any property type, or to None (§3.5.5).

        A plain ``int`` is an Int if it fits 32 bits, otherwise a Long; a plain ``float`` is a Double.
        """

    @abstractmethod
    def acknowledge(self) -> None:
        """Acknowledge all messages that this message's session has delivered so far (§3.6, §4.4.11).

        Does nothing where the mode is not CLIENT_ACKNOWLEDGE, nor on a message that was only browsed. Raises
        `IllegalStateException` on a closed session.
        """

    @abstractmethod
    def clear_body(self) -> None:
        """Empty the body, which can then be written; header fields and properties stay (§3.11.1)."""

    def get_body(self, c: type[T]) -> T | None:
        """Return the body as an object of the class `c`; None if there is no body (JMS 2.0 §3.10).

        `c` is ``str`` for a text, ``bytes`` for bytes, ``dict`` or ``Mapping`` for a map, the class of the object for an object, or one of
        their base classes. A BytesMessage is reset before and after. A text or an object that is None is no body; any class is allowed then.

        Raises `MessageFormatException` for another class, for a StreamMessage, and for an object that cannot be decoded;
        `IllegalArgumentException` when `c` is no class; `UnsupportedOperationException` on an application's own class of messages without
        this method.
        """
        raise UnsupportedOperationException(f"{type(self).__name__} has no getBody: it is a message of JMS 1.1")

    def is_body_assignable_to(self, c: type[Any]) -> bool:
        """Return whether `get_body` would return the body for the class `c`: True without a body, False for a StreamMessage (JMS 2.0 §3.10)."""
        raise UnsupportedOperationException(
            f"{type(self).__name__} has no isBodyAssignableTo: it is a message of JMS 1.1"
        )


class TextMessage(Message, declares=True):
    """A message whose body is a text (JMS 1.1 §3.11)."""

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str | None:
        """The text, or None. Writing it on a received message raises `MessageNotWriteableException`."""

    @text.setter
    @abstractmethod
    def text(self, string: str | None) -> None: ...


class ObjectMessage(Message, declares=True):
    """A message whose body is one Python object, copied as it is written and as it is read (JMS 1.1 §3.11)."""

    __slots__ = ()

    @property
    @abstractmethod
    def object(self) -> Any:
        """A copy of the object, or None.

        Reading raises `MessageFormatException` when the object cannot be decoded or is not trusted; writing raises it
        when the object cannot be pickled, and `MessageNotWriteableException` on a received message.
        """

    @object.setter
    @abstractmethod
    def object(self, object: Any) -> None: ...


class MapMessage(Message, declares=True):
    """A message whose body is a set of named, typed values (JMS 1.1 §3.11, conversions §3.11.3).

    Getters raise `MessageFormatException` for conversions outside the table; a name that does not exist reads as None,
    so that the getters of numbers raise `NumberFormatException` or `NullPointerException` for it. Setters raise
    `MessageNotWriteableException` on a received message, `IllegalArgumentException` for a name that is None or empty.
    """

    __slots__ = ()

    @abstractmethod
    def get_boolean(self, name: str) -> bool:
        """Return the value of `name` as a boolean."""

    @abstractmethod
    def get_byte(self, name: str) -> Byte:
        """Return the value of `name` as a byte."""

    @abstractmethod
    def get_short(self, name: str) -> Short:
        """Return the value of `name` as a short."""

    @abstractmethod
    def get_char(self, name: str) -> Char:
        """Return the value of `name` as a char."""

    @abstractmethod
    def get_int(self, name: str) -> Int:
        """Return the value of `name` as an int."""

    @abstractmethod
    def get_long(self, name: str) -> Long:
        """Return the value of `name` as a long."""

    @abstractmethod
    def get_float(self, name: str) -> Float:
        """Return the value of `name` as a float."""

    @abstractmethod
    def get_double(self, name: str) -> Double:
        """Return the value of `name` as a double."""

    @abstractmethod
    def get_string(self, name: str) -> str | None:
        """Return the value of `name` as a text, or None."""

    @abstractmethod
    def get_bytes(self, name: str) -> bytes | None:
        """Return the bytes of `name`, or None."""

    @abstractmethod
    def get_object(self, name: str) -> Boxed:
        """Return the value of `name` with its own type, or None."""

    @property
    @abstractmethod
    def map_names(self) -> Enumeration[str]:
        """A new enumeration of the names in the map."""

    @abstractmethod
    def set_boolean(self, name: str, value: bool) -> None:
        """Set `name` to a boolean."""

    @abstractmethod
    def set_byte(self, name: str, value: int) -> None:
        """Set `name` to a byte."""

    @abstractmethod
    def set_short(self, name: str, value: int) -> None:
        """Set `name` to a short."""

    @abstractmethod
    def set_char(self, name: str, value: str) -> None:
        """Set `name` to a char."""

    @abstractmethod
    def set_int(self, name: str, value: int) -> None:
        """Set `name` to an int."""

    @abstractmethod
    def set_long(self, name: str, value: int) -> None:
        """Set `name` to a long."""

    @abstractmethod
    def set_float(self, name: str, value: float) -> None:
        """Set `name` to a float."""

    @abstractmethod
    def set_double(self, name: str, value: float) -> None:
        """Set `name` to a double."""

    @abstractmethod
    def set_string(self, name: str, value: str | None) -> None:
        """Set `name` to a text, or to None."""

    @abstractmethod
    def set_bytes(
        self, name: str, value: bytes | bytearray | memoryview | None, offset: int = 0, length: int | None = None
    ) -> None:
        """Set `name` to a copy of `length` bytes of `value` from `offset` on; None: to the end."""

    @abstractmethod
    def set_object(self, name: str, value: Boxed | float | bytearray) -> None:
        """Set `name` to a value of any type that a map allows; plain numbers as in `set_object_property`."""

    @abstractmethod
    def item_exists(self, name: str) -> bool:
        """Return whether the map has `name`; its value may be None."""


class _SequenceMessage(Message, declares=True):
    """The base of `BytesMessage` and `StreamMessage`: values written one after the other, then read in turn.

    A new message is write-only and a received one read-only; `reset` turns a written message into a read-only one,
    `clear_body` any message into a write-only one. The wrong direction raises `MessageNotReadableException` or
    `MessageNotWriteableException`, and reading beyond the end raises `MessageEOFException`.
    """

    __slots__ = ()

    @abstractmethod
    def read_boolean(self) -> bool:
        """Read a boolean."""

    @abstractmethod
    def read_byte(self) -> Byte:
        """Read a byte."""

    @abstractmethod
    def read_short(self) -> Short:
        """Read a short."""

    @abstractmethod
    def read_char(self) -> Char:
        """Read a char."""

    @abstractmethod
    def read_int(self) -> Int:
        """Read an int."""

    @abstractmethod
    def read_long(self) -> Long:
        """Read a long."""

    @abstractmethod
    def read_float(self) -> Float:
        """Read a float."""

    @abstractmethod
    def read_double(self) -> Double:
        """Read a double."""

    @abstractmethod
    def write_boolean(self, value: bool) -> None:
        """Write a boolean."""

    @abstractmethod
    def write_byte(self, value: int) -> None:
        """Write a byte."""

    @abstractmethod
    def write_short(self, value: int) -> None:
        """Write a short."""

    @abstractmethod
    def write_char(self, value: str) -> None:
        """Write a char."""

    @abstractmethod
    def write_int(self, value: int) -> None:
        """Write an int."""

    @abstractmethod
    def write_long(self, value: int) -> None:
        """Write a long."""

    @abstractmethod
    def write_float(self, value: float) -> None:
        """Write a float."""

    @abstractmethod
    def write_double(self, value: float) -> None:
        """Write a double."""

    @abstractmethod
    def write_bytes(self, value: bytes | bytearray | memoryview, offset: int = 0, length: int | None = None) -> None:
        """Write `length` bytes of `value` from `offset` on; None: to the end."""

    @abstractmethod
    def write_object(self, value: Boxed | float | bytearray) -> None:
        """Write a value as the method of its own type would; plain numbers as in `Message.set_object_property`.

        Raises `MessageFormatException` for a value of any other type.
        """

    @abstractmethod
    def reset(self) -> None:
        """Make the body read-only and start reading at its beginning."""


class BytesMessage(_SequenceMessage, declares=True):
    """A message whose body is a sequence of untyped bytes, numbers big-endian (JMS 1.1 §3.11).

    `write_object` of None raises `NullPointerException`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def body_length(self) -> int:
        """The length of the body in bytes. Raises `MessageNotReadableException` while the message is write-only."""

    @abstractmethod
    def read_unsigned_byte(self) -> Int:
        """Read a byte as a number from 0 to 255."""

    @abstractmethod
    def read_unsigned_short(self) -> Int:
        """Read two bytes as a number from 0 to 65535."""

    @abstractmethod
    def read_utf(self) -> str:
        """Read a text of at most 65535 bytes in Java's modified UTF-8, preceded by its length."""

    @abstractmethod
    def read_bytes(self, value: bytearray, length: int | None = None) -> int:
        """Fill the front of `value` with up to `length` bytes (None: as many as it holds) and return how many.

        Returns -1 at the end. A `length` below 0 or above that of `value` raises `IndexOutOfBoundsException` and reads
        nothing.
        """

    @abstractmethod
    def write_utf(self, value: str) -> None:
        """Write a text in Java's modified UTF-8, preceded by its length; above 65535 bytes: `JMSException`."""


class StreamMessage(_SequenceMessage, declares=True):
    """A message whose body is a sequence of typed values (JMS 1.1 §3.11, conversions §3.11.3).

    A read that cannot convert raises `MessageFormatException` or `NumberFormatException` and leaves the value to be
    read again as another type.
    """

    __slots__ = ()

    @abstractmethod
    def read_string(self) -> str | None:
        """Read a text, or None."""

    @abstractmethod
    def read_bytes(self, value: bytearray) -> int:
        """Fill the front of `value` with the next bytes of a bytes field and return how many.

        A field longer than `value` takes several calls. Returns -1 when the field is at its end, or is None. Until then
        every other read raises `MessageFormatException`.
        """

    @abstractmethod
    def read_object(self) -> Boxed:
        """Read a value with its own type, or None."""

    @abstractmethod
    def write_string(self, value: str | None) -> None:
        """Write a text, or None."""
