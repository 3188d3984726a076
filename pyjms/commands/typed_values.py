"""Typed values as they are typed and as JSON shows them: properties, and the bodies of map and stream messages.

In JSON a value stands for itself: true, numbers and texts are Boolean, Int or Long, Double and String. Where that does not
say enough, ``{"type": "short", "value": 7}`` does; bytes are ``{"type": "bytes", "value": BASE64}``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyjms import Message
from pyjms.commands.reporting import CommandError
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short

__all__ = ["from_json", "set_properties", "to_json"]

_TRUTHS: Final = {"true": True, "false": False}


def _boolean(value: Any) -> bool:
    found = _TRUTHS.get(str(value).lower())
    if found is None:
        raise ValueError("true or false is expected")
    return found


def _numeric(kind: Callable[[Any], Any], read: Callable[[Any], Any], wanted: str) -> Callable[[Any], Any]:
    def made(value: Any) -> Any:
        try:
            number = read(value)
        except (ValueError, TypeError):  # Python says it in words of its own
            raise ValueError(f"{wanted} is expected") from None
        return kind(number)

    return made


def _whole(kind: Callable[[int], Any]) -> Callable[[Any], Any]:
    return _numeric(kind, lambda value: int(str(value), 10), "a whole number")


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "boolean": _boolean,
    "byte": _whole(Byte),
    "short": _whole(Short),
    "int": _whole(Int),
    "long": _whole(Long),
    "float": _numeric(Float, float, "a number"),
    "double": _numeric(Double, float, "a number"),
    "char": lambda value: Char(str(value)),
    "string": str,
}
_NAMES: Final = {Byte: "byte", Short: "short", Long: "long", Float: "float", Char: "char"}
_INT_MAX: Final = 2**31


_PROPERTY_TYPES: Final = tuple(name for name in _READERS if name != "char")
"""Properties have no more (JMS 1.1 §3.5.2)."""


def _read(kind: str, value: Any, where: str, known: Sequence[str] = (*_READERS, "bytes")) -> Any:
    reader = _READERS.get(kind)
    if reader is None or kind not in known:
        raise CommandError(f"{where}: there is no type {kind!r}; there are {', '.join(known)}")
    try:
        return reader(value)
    except (ValueError, TypeError) as error:
        raise CommandError(f"{where}: {value!r} is no {kind}: {error}") from error


def set_properties(message: Message, texts: list[str]) -> None:
    """Set the properties that ``NAME=VALUE`` (a text) and ``NAME:TYPE=VALUE`` say. Raises `CommandError`."""
    for text in texts:
        declared, equals, value = text.partition("=")
        name, _, kind = declared.partition(":")
        if not equals or not name:
            raise CommandError(
                f"--property {text!r}: write NAME=VALUE for a text, or NAME:TYPE=VALUE, as in size:int=3"
            )
        message.set_object_property(name, _read(kind or "string", value, f"--property {name}", _PROPERTY_TYPES))


def from_json(value: Any, where: str) -> Any:
    """Return a value of a message for one of JSON. Raises `CommandError`."""
    if isinstance(value, Mapping):
        if set(value) != {"type", "value"}:
            raise CommandError(f'{where}: an object in it is {{"type": …, "value": …}}')
        if value["type"] == "bytes":
            try:
                return base64.b64decode(value["value"], validate=True)
            except (binascii.Error, TypeError, ValueError) as error:
                raise CommandError(f"{where}: bytes are written as base64: {error}") from error
        return _read(str(value["type"]), value["value"], where)
    if isinstance(value, list):
        raise CommandError(f"{where}: messages have no lists within; write a text, or several values")
    return value


def to_json(value: Any) -> Any:
    """Return what JSON shows of a value of a message, so that `from_json` reads the same again."""
    if isinstance(value, (bytes, bytearray)):
        return {"type": "bytes", "value": base64.b64encode(value).decode()}
    name = _NAMES.get(type(value))
    if name is None or (name == "long" and not -_INT_MAX <= value < _INT_MAX):
        return value
    return {"type": name, "value": str(value) if name == "char" else value}
