"""`JmsMapMessage`: a body of named, typed values (JMS 1.1 §3.11, §3.11.3)."""

from __future__ import annotations

from pyjms.api.base import Enumeration
from pyjms.api.message import MapMessage
from pyjms.errors import IllegalArgumentException
from pyjms.messages.base import JmsMessage
from pyjms.messages.conversion import BOOLEAN, BYTE, BYTES, CHAR, DOUBLE, FLOAT, INT, LONG, SHORT, STRING
from pyjms.messages.storing import (
    Store,
    copy_slice,
    store_boolean,
    store_byte,
    store_bytes,
    store_char,
    store_double,
    store_float,
    store_int,
    store_long,
    store_object,
    store_short,
    store_string,
)
from pyjms.spi.envelope import BodyKind
from pyjms.types import Boxed, Byte, Char, Double, Float, Int, Long, Short, Stored, box

_WHAT = "map entry"


class JmsMapMessage(JmsMessage, MapMessage):
    """A message whose body is a map of names to values. Any text that is not empty is a name."""

    __slots__ = ()
    kind = BodyKind.MAP
    _body: dict[str, Stored]

    def __init__(self) -> None:
        JmsMessage.__init__(self)
        self._body = {}

    def clear_body(self) -> None:
        super().clear_body()
        self._body = {}

    def get_boolean(self, name: str) -> bool:
        return BOOLEAN.read(self._body.get(name), _WHAT, name)

    def get_byte(self, name: str) -> Byte:
        return BYTE.read(self._body.get(name), _WHAT, name)

    def get_short(self, name: str) -> Short:
        return SHORT.read(self._body.get(name), _WHAT, name)

    def get_char(self, name: str) -> Char:
        return CHAR.read(self._body.get(name), _WHAT, name)

    def get_int(self, name: str) -> Int:
        return INT.read(self._body.get(name), _WHAT, name)

    def get_long(self, name: str) -> Long:
        return LONG.read(self._body.get(name), _WHAT, name)

    def get_float(self, name: str) -> Float:
        return FLOAT.read(self._body.get(name), _WHAT, name)

    def get_double(self, name: str) -> Double:
        return DOUBLE.read(self._body.get(name), _WHAT, name)

    def get_string(self, name: str) -> str | None:
        return STRING.read(self._body.get(name), _WHAT, name)

    def get_bytes(self, name: str) -> bytes | None:
        return BYTES.read(self._body.get(name), _WHAT, name)

    def get_object(self, name: str) -> Boxed:
        return box(self._body.get(name))

    @property
    def map_names(self) -> Enumeration[str]:
        return Enumeration(tuple(self._body))

    def item_exists(self, name: str) -> bool:
        return name in self._body

    def set_boolean(self, name: str, value: bool) -> None:
        self._set_entry(name, value, store_boolean)

    def set_byte(self, name: str, value: int) -> None:
        self._set_entry(name, value, store_byte)

    def set_short(self, name: str, value: int) -> None:
        self._set_entry(name, value, store_short)

    def set_char(self, name: str, value: str) -> None:
        self._set_entry(name, value, store_char)

    def set_int(self, name: str, value: int) -> None:
        self._set_entry(name, value, store_int)

    def set_long(self, name: str, value: int) -> None:
        self._set_entry(name, value, store_long)

    def set_float(self, name: str, value: float) -> None:
        self._set_entry(name, value, store_float)

    def set_double(self, name: str, value: float) -> None:
        self._set_entry(name, value, store_double)

    def set_string(self, name: str, value: str | None) -> None:
        self._set_entry(name, value, store_string)

    def set_bytes(
        self, name: str, value: bytes | bytearray | memoryview | None, offset: int = 0, length: int | None = None
    ) -> None:
        if value is None or (offset == 0 and length is None):
            self._set_entry(name, value, store_bytes)
        else:
            self._set_entry(name, copy_slice(value, offset, length, _WHAT, name), store_bytes)

    def set_object(self, name: str, value: Boxed | float | bytearray) -> None:
        self._set_entry(name, value, store_object)

    def _set_entry(self, name: str, value: object, store: Store) -> None:
        if not self._body_owned:
            self._check_body_writeable()
            self._body = dict(self._body)
            self._body_owned = True
        if type(name) is not str or not name:
            name = _checked_name(name)
        self._body[name] = store(value, _WHAT, name)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise IllegalArgumentException(
            "a map entry needs a name" if name is None or name == "" else f"a name is a str, not {type(name).__name__}"
        )
    return str.__str__(name)
