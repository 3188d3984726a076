"""The properties of a message: typed values under checked names (JMS 1.1 §3.5).

A message either owns its dictionary or shares it with an envelope; then, and while it is read-only, `_settable` is
empty and every setter takes the longer way through `_set`. That one look-up is what the common case pays for names,
read-only messages and copy-on-write together.

A message of a client without JMS may have properties whose names JMS does not know, such as ``content-type``. They stay with the
message when it is sent on, and are hidden here: what is listed can be copied to another message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyjms.api.base import Enumeration
from pyjms.errors import IllegalArgumentException, MessageFormatException, MessageNotWriteableException
from pyjms.messages.conversion import BOOLEAN, BYTE, DOUBLE, FLOAT, INT, LONG, SHORT, STRING, written_type
from pyjms.messages.headers import HeaderFields
from pyjms.messages.java_text import shorten
from pyjms.messages.storing import (
    Store,
    store_boolean,
    store_byte,
    store_double,
    store_float,
    store_int,
    store_long,
    store_property,
    store_short,
    store_string,
)
from pyjms.spi.property_names import SET_BY_PROVIDERS
from pyjms.spi.selector.identifiers import first_bad_character, is_identifier, is_reserved
from pyjms.types import Boxed, Byte, Double, Float, Int, Long, Short, Stored, box

DELIVERY_COUNT = "JMSXDeliveryCount"
"""Read like a property of every received message (JMS 1.1 §3.5.9)."""

CLIENT_JMSX = {"JMSXGroupID": str, "JMSXGroupSeq": int}
"""The JMSX properties that clients set, with the class of their stored value (String, int)."""

PROVIDER_PREFIX = "JMS_pyjms"
"""The names of this project's own provider properties."""

DELIVER_AT = f"{PROVIDER_PREFIX}_deliverAt"

DUPLICATE_ID = f"{PROVIDER_PREFIX}_duplicateId"

CLIENT_SETTABLE = frozenset({DELIVER_AT, DUPLICATE_ID})
"""Those of them that clients may set: when a message is for, and what tells its duplicates."""

KNOWN_NAMES: set[str] = set()
"""Names found to be good, whatever the type of their value; setters look here first."""

_KNOWN_MAX = 4096

_KNOWN_LENGTH_MAX = 128


def check_property_name(name: object) -> str:
    """Return `name` if a client may set a property of that name, and remember it.

    Raises `IllegalArgumentException` for None, "" and what is no text, `MessageFormatException` for all other names.
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
    if text not in CLIENT_JMSX:
        _remember(text)
    return text


def is_client_name(name: str) -> bool:
    """Say whether clients may set `name`, which is an identifier."""
    try:
        _check_reserved(name)
    except MessageFormatException:
        return False
    return True


def is_provider_name(name: str) -> bool:
    """Say whether providers set `name` on messages that they deliver."""
    return name in SET_BY_PROVIDERS or (name.startswith(PROVIDER_PREFIX) and name not in CLIENT_SETTABLE)


def is_shown(name: str) -> bool:
    """Say whether a received message shows `name` as a property: one that clients set, or that providers set.

    Messages of clients without JMS may have other names too, such as ``content-type`` or ``JMSPriority``.
    """
    if name in KNOWN_NAMES:
        return True
    if not is_identifier(name) or not (is_client_name(name) or is_provider_name(name)):
        return False
    if name not in CLIENT_JMSX and is_client_name(name):
        _remember(name)
    return True


def _remember(name: str) -> None:
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
    """How often a received message was delivered; 0: there is no such property."""
    _properties: dict[str, Stored]
    _properties_read_only: bool
    _settable: set[str] | frozenset[str]
    """Names that a setter may use at once: those known to be good, or none."""

    def clear_properties(self) -> None:
        self._properties = {}
        self._properties_read_only = False
        self._settable = KNOWN_NAMES
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
            wanted = CLIENT_JMSX.get(name)
            if is_shown(name) and (wanted is None or value is None or type(value) is wanted):
                yield name
        if self._delivery_count:
            yield DELIVERY_COUNT

    def _get(self, name: str) -> Stored:
        value = self._properties.get(name)
        if value is not None:
            return value if is_shown(name) else None
        return self._delivery_count or None if name == DELIVERY_COUNT else None

    def get_boolean_property(self, name: str) -> bool:
        return BOOLEAN.read(self._get(name), _WHAT, name)

    def get_byte_property(self, name: str) -> Byte:
        return BYTE.read(self._get(name), _WHAT, name)

    def get_short_property(self, name: str) -> Short:
        return SHORT.read(self._get(name), _WHAT, name)

    def get_int_property(self, name: str) -> Int:
        value = self._properties.get(name)
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
        # Programs copy all properties of a received message by this method: those of the provider stay behind.
        if type(name) is str and name not in KNOWN_NAMES and is_provider_name(name):
            if self._properties_read_only:
                self._own_properties()  # which says so
            return
        self._set(name, value, store_property)

    def _set(self, name: str, value: object, store: Store) -> None:
        """Set a property the long way: every check, and the dictionary made this message's own."""
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
        """Take a property off, also off a received message that is sent on; the others stay read-only there. Not of JMS."""
        if name in self._properties:
            self._properties = {each: value for each, value in self._properties.items() if each != name}
            self._settable = NO_NAMES if self._properties_read_only else KNOWN_NAMES
