"""`JmsMessage`: a message with header fields and properties and, in the classes of `bodies`, a body (JMS 1.1 §3).

Header fields can be set at any time; `send` sets most of them (§3.4.11). Properties are typed values under checked names (§3.5).

Freezing shares properties and body with the envelope instead of copying them. From then on the message does not own
them: its next write copies first, so that an envelope never changes. A received message shares its envelope's parts
and is read-only until `clear_properties` or `clear_body`, which are independent of each other (§3.5.7, §3.11.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Final, NoReturn, Protocol, TypeAlias, TypeVar, get_origin

from pyjms.api.base import Enumeration
from pyjms.api.destination import Destination
from pyjms.api.message import Message
from pyjms.errors import IllegalArgumentException, MessageFormatException, MessageNotWriteableException
from pyjms.messages.conversion import (
    BOOLEAN,
    BYTE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    Store,
    copy_bytes,
    store_boolean,
    store_byte,
    store_double,
    store_float,
    store_int,
    store_long,
    store_property,
    store_short,
    store_string,
    written_type,
)
from pyjms.messages.destinations import address_of
from pyjms.messages.java_text import shorten
from pyjms.spi.envelope import DELIVER_AT, SET_BY_PROVIDERS, Address, Body, BodyKind
from pyjms.spi.selector.lexical import first_bad_character, is_identifier, is_reserved
from pyjms.types import Boxed, Byte, Double, Float, Int, Long, Short, Stored, box

T = TypeVar("T")

TrustedClasses: TypeAlias = AbstractSet[str]
"""Classes whose instances may be unpickled: ``package.module.Class``, or ``package.module.*`` for those of a module."""


class MessageContext(Protocol):
    """The interface of the session for the messages that it delivered."""

    @property
    def trusted(self) -> TrustedClasses:
        """The classes that object messages from other processes may hold."""
        ...

    def acknowledge(self, message: Message) -> None:
        """Carry out ``message.acknowledge()`` (JMS 1.1 §3.6, §4.4.11)."""
        ...

    def destination_of(self, address: Address) -> Destination:
        """Return the API's object for `address`."""
        ...


class HeaderFields(Message):
    """Header fields in slots, checked loosely when they are set."""

    __slots__ = (
        "_context",
        "_correlation_id",
        "_delivery_mode",
        "_delivery_time",
        "_destination",
        "_expiration",
        "_message_id",
        "_priority",
        "_redelivered",
        "_reply_to",
        "_timestamp",
        "_type",
    )
    _context: MessageContext | None
    _correlation_id: str | bytes | None
    _delivery_mode: int
    _delivery_time: int
    _destination: Destination | Address | None
    _expiration: int
    _message_id: str | None
    _priority: int
    _redelivered: bool
    _reply_to: Destination | Address | None
    _timestamp: int
    _type: str | None

    @property
    def jms_message_id(self) -> str | None:
        return self._message_id

    @jms_message_id.setter
    def jms_message_id(self, id: str | None) -> None:
        self._message_id = _text(id, "JMSMessageID")

    @property
    def jms_timestamp(self) -> int:
        return self._timestamp

    @jms_timestamp.setter
    def jms_timestamp(self, timestamp: int) -> None:
        self._timestamp = _number(timestamp, "JMSTimestamp")

    @property
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        value = self._correlation_id
        # Half of a surrogate pair is text to Java, and must read back as it was set.
        return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value

    @jms_correlation_id_as_bytes.setter
    def jms_correlation_id_as_bytes(self, correlation_id: bytes | None) -> None:
        self._correlation_id = (
            None if correlation_id is None else copy_bytes(correlation_id, "header field", "JMSCorrelationID")
        )

    @property
    def jms_correlation_id(self) -> str | None:
        value = self._correlation_id
        # bytes that are no UTF-8 are from a native client: shown, never an error for the reader of the field
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value

    @jms_correlation_id.setter
    def jms_correlation_id(self, correlation_id: str | None) -> None:
        self._correlation_id = _text(correlation_id, "JMSCorrelationID")

    @property
    def jms_reply_to(self) -> Destination | None:
        if isinstance(self._reply_to, Address):
            self._reply_to = self._found(self._reply_to)
        return self._reply_to

    @jms_reply_to.setter
    def jms_reply_to(self, reply_to: Destination | None) -> None:
        if reply_to is not None:
            address_of(reply_to)  # now, rather than at send
        self._reply_to = reply_to

    @property
    def jms_destination(self) -> Destination | None:
        if isinstance(self._destination, Address):
            self._destination = self._found(self._destination)
        return self._destination

    @jms_destination.setter
    def jms_destination(self, destination: Destination | None) -> None:
        if destination is not None and not isinstance(destination, Destination):
            raise MessageFormatException(
                f"JMSDestination takes a Destination or None, not {type(destination).__name__}"
            )
        self._destination = destination

    @property
    def jms_delivery_mode(self) -> int:
        return self._delivery_mode

    @jms_delivery_mode.setter
    def jms_delivery_mode(self, delivery_mode: int) -> None:
        self._delivery_mode = _number(delivery_mode, "JMSDeliveryMode")

    @property
    def jms_redelivered(self) -> bool:
        return self._redelivered

    @jms_redelivered.setter
    def jms_redelivered(self, redelivered: bool) -> None:
        if not isinstance(redelivered, bool):
            raise MessageFormatException(f"JMSRedelivered takes a bool, not {type(redelivered).__name__}")
        self._redelivered = redelivered

    @property
    def jms_type(self) -> str | None:
        return self._type

    @jms_type.setter
    def jms_type(self, type: str | None) -> None:
        self._type = _text(type, "JMSType")

    @property
    def jms_expiration(self) -> int:
        return self._expiration

    @jms_expiration.setter
    def jms_expiration(self, expiration: int) -> None:
        self._expiration = _number(expiration, "JMSExpiration")

    @property
    def jms_priority(self) -> int:
        return self._priority

    @jms_priority.setter
    def jms_priority(self, priority: int) -> None:
        self._priority = _number(priority, "JMSPriority")

    @property
    def jms_delivery_time(self) -> int:
        return self._delivery_time

    @jms_delivery_time.setter
    def jms_delivery_time(self, delivery_time: int) -> None:
        self._delivery_time = _number(delivery_time, "JMSDeliveryTime")

    def mark_sent(
        self,
        destination: Destination | None,
        message_id: str | None,
        timestamp_ms: int,
        expiration_ms: int,
        delivery_mode: int,
        priority: int,
        delivery_time_ms: int,
    ) -> None:
        """Set the values that a send used, once it has returned (JMS 1.1 §3.4.11). For the runtime: nothing is checked."""
        self._destination = destination
        self._message_id = message_id
        self._timestamp = timestamp_ms
        self._expiration = expiration_ms
        self._delivery_mode = delivery_mode
        self._priority = priority
        self._delivery_time = delivery_time_ms

    def _found(self, address: Address) -> Destination:
        assert self._context is not None, "only received messages have addresses"
        return self._context.destination_of(address)


def _text(value: str | None, field: str) -> str | None:
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise MessageFormatException(f"{field} takes a str or None, not {type(value).__name__}")


def _number(value: int, field: str) -> int:
    if type(value) is int and -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise MessageFormatException(f"{field} takes an int, not {type(value).__name__}")
    # The plain number is kept: a subclass may have methods of its own, which would run unexpectedly.
    number = int.__int__(value)
    if not Long.minimum <= number <= Long.maximum:
        raise MessageFormatException(f"{field} takes an int of at most 64 bits")
    return number


DELIVERY_COUNT = "JMSXDeliveryCount"
"""Read like a property of every received message (JMS 1.1 §3.5.9)."""

CLIENT_JMSX = {"JMSXGroupID": str, "JMSXGroupSeq": int}
"""The JMSX properties that clients set, with the class of their stored value (String, int)."""

PROVIDER_PREFIX = "JMS_pyjms"
"""The prefix of this project's own provider properties."""

DUPLICATE_ID = f"{PROVIDER_PREFIX}_duplicateId"

CLIENT_SETTABLE = frozenset({DELIVER_AT, DUPLICATE_ID})
"""Those of them that clients may set: the time of delivery, and the id for duplicate detection."""

KNOWN_NAMES: set[str] = set()
"""Valid names, for values of any type; setters look here first."""

_KNOWN_MAX = 4096

_KNOWN_LENGTH_MAX = 128


def check_property_name(name: object) -> str:
    """Return `name` if a client may set a property of that name, and remember it.

    Raises `IllegalArgumentException` for None, "" and values that are no text, `MessageFormatException` for all other names.
    """
    if not isinstance(name, str) or not name:
        raise IllegalArgumentException(
            "a property needs a name" if name is None or name == "" else f"a name is a str, not {type(name).__name__}"
        )
    text = str.__str__(name)
    bad = first_bad_character(text)
    if bad is not None:
        raise MessageFormatException(
            f"{shorten(text)} is no property name, because of {text[bad]!r}: it must be an identifier, a letter, _ or $ "
            "followed by letters, digits, _ or $ (JMS 1.1 §3.5.1)"
        )
    if is_reserved(text):
        raise MessageFormatException(
            f"{text!r} is a reserved word of selectors, so no property name (JMS 1.1 §3.8.1.1)"
        )
    if text.startswith("JMS"):
        _check_reserved(text)
    # JMSXGroupID and JMSXGroupSeq have a type each: unknown to the short way, they take the long one, which checks it.
    if text not in CLIENT_JMSX:
        _remember(text)
    return text


def is_client_name(name: str) -> bool:
    """Return whether clients may set `name`, which is an identifier."""
    try:
        _check_reserved(name)
    except MessageFormatException:
        return False
    return True


def is_provider_name(name: str) -> bool:
    """Return whether providers set `name` on messages that they deliver."""
    return name in SET_BY_PROVIDERS or (name.startswith(PROVIDER_PREFIX) and name not in CLIENT_SETTABLE)


def is_shown(name: str) -> bool:
    """Return whether a received message shows `name` as a property: one that clients set, or that providers set.

    Messages of clients without JMS may have other names too, such as ``content-type`` or ``JMSPriority``.
    """
    # Most names were checked before, by a setter or in an earlier message.
    if name in KNOWN_NAMES:
        return True
    if not is_identifier(name) or not (is_client_name(name) or is_provider_name(name)):
        return False
    if name not in CLIENT_JMSX and is_client_name(name):
        _remember(name)
    return True


def _remember(name: str) -> None:
    # Senders choose the names in received messages, so the set is bounded in number and length.
    if len(name) <= _KNOWN_LENGTH_MAX:
        if len(KNOWN_NAMES) >= _KNOWN_MAX:
            KNOWN_NAMES.clear()
        KNOWN_NAMES.add(name)


def _check_reserved(name: str) -> None:
    if not name.startswith("JMS") or name in CLIENT_JMSX or name in CLIENT_SETTABLE:
        return
    if name in SET_BY_PROVIDERS:
        raise MessageFormatException(f"{name} is set by the provider, not by clients (JMS 1.1 §3.5.9)")
    if name.startswith("JMSX"):
        allowed = " and ".join(CLIENT_JMSX)
        raise MessageFormatException(f"{name!r}: of the JMSX names clients set {allowed} only (JMS 1.1 §3.5.9)")
    if not name.startswith("JMS_"):
        raise MessageFormatException(f"{name!r}: names that begin with JMS are reserved (JMS 1.1 §3.8.1.1)")
    if name.startswith(PROVIDER_PREFIX):
        raise MessageFormatException(f"{name!r}: {PROVIDER_PREFIX}… is set by the provider only (JMS 1.1 §3.5.10)")


NO_NAMES: Final[frozenset[str]] = frozenset()
"""The value of `_settable` of a message that does not own its properties, or may not write them."""

_WHAT = "property"

_new_int = int.__new__
"""Makes an Int or Long of a number that is known to be in range."""


class Properties(HeaderFields):
    """The second layer of `base.JmsMessage`: properties over header fields."""

    __slots__ = ("_delivery_count", "_properties", "_properties_read_only", "_settable")
    _delivery_count: int
    """The delivery count of a received message; 0: there is no such property."""
    _properties: dict[str, Stored]
    _properties_read_only: bool
    _settable: set[str] | frozenset[str]
    """Names that a setter may use without a check: those known to be valid, or none."""

    def clear_properties(self) -> None:
        self._properties = {}
        self._properties_read_only = False
        self._settable = KNOWN_NAMES
        # JMSXDeliveryCount is a property, too (§3.5.9), so it is cleared with the others.
        self._delivery_count = 0

    def property_exists(self, name: str) -> bool:
        if name in self._properties and is_shown(name):
            return True
        return name == DELIVERY_COUNT and self._delivery_count > 0

    @property
    def property_names(self) -> Enumeration[str]:
        return Enumeration(tuple(self._names()))

    def _names(self) -> Iterator[str]:
        for name, value in self._properties.items():
            # A client without JMS may have set a JMSX name with another type: a program that copies the
            # listed properties would get an error.
            wanted = CLIENT_JMSX.get(name)
            if is_shown(name) and (wanted is None or value is None or type(value) is wanted):
                yield name
        if self._delivery_count:
            yield DELIVERY_COUNT

    def _get(self, name: str) -> Stored:
        value = self._properties.get(name)
        if value is not None:
            return value if is_shown(name) else None
        # The count belongs to the delivery, and the properties to the envelope, which is shared: so
        # it is kept beside them (decision 0202).
        return self._delivery_count or None if name == DELIVERY_COUNT else None

    def get_boolean_property(self, name: str) -> bool:
        return BOOLEAN.read(self._get(name), _WHAT, name)

    def get_byte_property(self, name: str) -> Byte:
        return BYTE.read(self._get(name), _WHAT, name)

    def get_short_property(self, name: str) -> Short:
        return SHORT.read(self._get(name), _WHAT, name)

    def get_int_property(self, name: str) -> Int:
        value = self._properties.get(name)
        # A known name is shown, and a plain int is a Java int, so this short way returns what the table would.
        if type(value) is int and name in KNOWN_NAMES:
            return _new_int(Int, value)
        return INT.read(self._get(name), _WHAT, name)

    def get_long_property(self, name: str) -> Long:
        return LONG.read(self._get(name), _WHAT, name)

    def get_float_property(self, name: str) -> Float:
        return FLOAT.read(self._get(name), _WHAT, name)

    def get_double_property(self, name: str) -> Double:
        return DOUBLE.read(self._get(name), _WHAT, name)

    def get_string_property(self, name: str) -> str | None:
        value = self._properties.get(name)
        return value if type(value) is str and name in KNOWN_NAMES else STRING.read(self._get(name), _WHAT, name)

    def get_object_property(self, name: str) -> Boxed:
        return box(self._get(name))

    def set_boolean_property(self, name: str, value: bool) -> None:
        if type(value) is bool and type(name) is str and name in self._settable:
            self._properties[name] = value
        else:
            self._set(name, value, store_boolean)

    def set_byte_property(self, name: str, value: int) -> None:
        self._set(name, value, store_byte)

    def set_short_property(self, name: str, value: int) -> None:
        self._set(name, value, store_short)

    def set_int_property(self, name: str, value: int) -> None:
        if type(value) is int and -0x80000000 <= value <= 0x7FFFFFFF and type(name) is str and name in self._settable:
            self._properties[name] = value
        else:
            self._set(name, value, store_int)

    def set_long_property(self, name: str, value: int) -> None:
        if (
            type(value) is int
            and -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF
            and type(name) is str
            and name in self._settable
        ):
            self._properties[name] = _new_int(Long, value)
        else:
            self._set(name, value, store_long)

    def set_float_property(self, name: str, value: float) -> None:
        self._set(name, value, store_float)

    def set_double_property(self, name: str, value: float) -> None:
        if type(value) is float and type(name) is str and name in self._settable:
            self._properties[name] = value
        else:
            self._set(name, value, store_double)

    def set_string_property(self, name: str, value: str | None) -> None:
        if type(value) is str and type(name) is str and name in self._settable:
            self._properties[name] = value
        else:
            self._set(name, value, store_string)

    def set_object_property(self, name: str, value: Boxed | float) -> None:
        # Programs copy all properties of a received message by this method: those of the provider are not copied.
        if type(name) is str and name not in KNOWN_NAMES and is_provider_name(name):
            if self._properties_read_only:
                self._own_properties()  # which raises the error
            return
        self._set(name, value, store_property)

    def _set(self, name: str, value: object, store: Store) -> None:
        """Set a property without the fast path: with every check, and a dictionary of this message's own."""
        # Any other set means that an envelope shares the dictionary, or that the message is read-only.
        if self._settable is not KNOWN_NAMES:
            self._own_properties()
        if type(name) is not str or name not in KNOWN_NAMES:
            name = check_property_name(name)
        stored = store(value, _WHAT, name)
        wanted = CLIENT_JMSX.get(name)
        if wanted is not None and stored is not None and type(stored) is not wanted:
            kind = "String" if wanted is str else "int"
            raise MessageFormatException(f"{name} is of type {kind}, not {written_type(stored)} (JMS 1.1 §3.5.9)")
        self._properties[name] = stored

    def _own_properties(self) -> None:
        """Copy a shared dictionary. Raises `MessageNotWriteableException` on a read-only message."""
        if self._properties_read_only:
            raise MessageNotWriteableException(
                "the properties of a received message are read-only until clear_properties() (JMS 1.1 §3.5.3)"
            )
        self._properties = dict(self._properties)
        self._settable = KNOWN_NAMES

    def drop_property(self, name: str) -> None:
        """Remove a property, even from a received message that is sent on; the others stay read-only there. Not part of JMS."""
        if name in self._properties:
            # The dictionary is replaced, as the present one may be an envelope's.
            self._properties = {each: value for each, value in self._properties.items() if each != name}
            self._settable = NO_NAMES if self._properties_read_only else KNOWN_NAMES


def body_class(given: object) -> type:
    """Return the class that a caller of `get_body` gave, also for ``dict[str, object]`` and the like. Raises `IllegalArgumentException`."""
    kind = object if given is Any else get_origin(given) or given
    if not isinstance(kind, type):
        raise IllegalArgumentException(f"a body is asked for by a class, such as str, bytes or dict, not by {given!r}")
    return kind


def _is_instance(value: object, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that is for type checkers only
        return False


_OF_THE_BODY: Final = frozenset({"content-type", "content-encoding"})
"""Headers of clients without JMS that describe the body, and are removed with it; messages do not show them (`property_names.is_shown`)."""


class JmsMessage(Properties):
    """A message without a body, and the base of those that have one. Not for several threads at a time."""

    __slots__ = ("_body", "_body_owned", "_body_read_only")

    kind: ClassVar[BodyKind] = BodyKind.NONE
    """The kind of body of this class."""
    _body: Any
    """The body, in the form of envelopes unless the class says otherwise."""
    _body_owned: bool
    """Whether `_body` may be changed in place: neither read-only nor shared with an envelope."""
    _body_read_only: bool

    def __init__(self) -> None:
        self._context = None
        self._destination = None
        self._message_id = None
        self._timestamp = 0
        self._expiration = 0
        self._delivery_time = 0
        self._delivery_mode = 2
        self._priority = 4
        self._correlation_id = None
        self._reply_to = None
        self._redelivered = False
        self._type = None
        self._delivery_count = 0
        self._properties = {}
        self._properties_read_only = False
        # All messages share this one set: a name that any of them has found valid is known to all.
        self._settable = KNOWN_NAMES
        self._body = None
        self._body_owned = True
        self._body_read_only = False

    def get_body(self, c: type[T]) -> T | None:
        kind = body_class(c)
        body = self._whole_body()
        if body is not None and not _is_instance(body, kind):
            raise MessageFormatException(
                f"the body of {type(self).__name__} is of {type(body).__name__}, not of {kind.__name__} (JMS 2.0 §3.10)"
            )
        return body  # type: ignore[no-any-return]  # an object of that class, or None

    def is_body_assignable_to(self, c: type[Any]) -> bool:
        kind = body_class(c)
        try:
            body = self._whole_body()
        except MessageFormatException:  # of a stream, or an object that cannot be decoded
            return False
        return body is None or _is_instance(body, kind)

    def _whole_body(self) -> Any:
        """Return the body as one object; None: there is none. Raises `MessageFormatException`."""
        return None

    def acknowledge(self) -> None:
        if self._context is not None:  # otherwise it was never received, and needs no acknowledgement
            self._context.acknowledge(self)

    def clear_body(self) -> None:
        self._body_read_only = False
        self._body_owned = True
        self._body = None
        if not _OF_THE_BODY.isdisjoint(self._properties):
            for name in _OF_THE_BODY:
                self.drop_property(name)

    def frozen_body(self) -> Body:
        """Return the body in the form of envelopes; this message will not change it any more."""
        self._body_owned = False
        return self._body  # type: ignore[no-any-return]

    def received_body(self, body: Any) -> None:
        """Take over the body of an envelope, read-only."""
        self._body = body

    def _check_body_writeable(self) -> None:
        if self._body_read_only:
            raise MessageNotWriteableException(
                "the body of a received message is read-only until clear_body() (JMS 1.1 §3.11.2)"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._message_id or 'not sent'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a message cannot be copied or pickled: send it, or create another one")
