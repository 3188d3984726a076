"""The five bodies as bytes, and back (JMS 1.1 §3.11).

Text is UTF-8, bytes are bytes; maps and streams are JSON that a person can read: ``[["name","T","espresso"],…]`` and
``["T","espresso"],…``. Objects are bytes in the form that the content-type names; nothing here ever decodes one.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pyjms.spi.envelope import Body, BodyKind, ObjectBody
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.profile.values import (
    LETTERS,
    READERS,
    base64_of_text,
    double_text,
    float_text,
    text_of_base64,
)

__all__ = ["BYTES_TYPE", "OBJECT_TYPE", "WireBody", "read_body", "write_body"]

TEXT_TYPE = "text/plain;charset=utf-8"
BYTES_TYPE = "application/octet-stream"
MAP_TYPE = "application/vnd.pyjms.map+json"
STREAM_TYPE = "application/vnd.pyjms.stream+json"
OBJECT_TYPE = "application/vnd.pyjms.object+pickle"
"""What an ObjectMessage of pyjms holds; receivers decode it by the rules of trust of `ConnectionFactory`."""

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_NOT_JSON = frozenset({"NaN", "Infinity", "-Infinity"})


class WireBody(NamedTuple):
    """A body as a frame has it."""

    kind: str
    """As the profile header says."""
    content_type: str | None
    data: bytes
    is_text: bool
    """Whether those who do not know the profile may read it as text; then it has no NUL."""


def write_body(kind: BodyKind, body: Body) -> WireBody:
    """Return the body of an envelope. Raises `ProfileError` for a body that is not of its kind."""
    try:
        return _WRITERS[kind](body)
    except (KeyError, TypeError, AttributeError) as error:
        raise ProfileError(f"a {kind.name.lower()} body is a {type(body).__name__}: {error}") from error


def _write_nothing(_: Any) -> WireBody:
    return WireBody("msg", None, b"", is_text=True)


def _write_text(text: str | None) -> WireBody:
    if text is None:
        return WireBody("text0", None, b"", is_text=True)
    try:
        return WireBody("text", TEXT_TYPE, text.encode(), is_text="\0" not in text)
    except UnicodeEncodeError:  # half of a surrogate pair is no UTF-8: others get it as bytes
        return WireBody("text", BYTES_TYPE, text.encode("utf-8", "surrogatepass"), is_text=False)


def _write_bytes(data: bytes) -> WireBody:
    return WireBody("bytes", BYTES_TYPE, data, is_text=False)


def _write_object(body: ObjectBody | None) -> WireBody:
    if body is None:
        return WireBody("object0", None, b"", is_text=True)
    return WireBody("object", OBJECT_TYPE, body.data, is_text=False)


def _write_map(entries: Mapping[str, Stored]) -> WireBody:
    try:
        data = _dumps([[name, *_typed(value)] for name, value in entries.items()]).encode()
    except UnicodeEncodeError:
        data = _dumps([_spelled_out(name, value) for name, value in entries.items()]).encode()
    return WireBody("map", MAP_TYPE, data, is_text=True)


def _write_stream(values: tuple[Stored, ...]) -> WireBody:
    try:
        data = _dumps([_typed(value) for value in values]).encode()
    except UnicodeEncodeError:
        data = _dumps([_typed_spelled_out(value) for value in values]).encode()
    return WireBody("stream", STREAM_TYPE, data, is_text=True)


_WRITERS: Mapping[BodyKind, Callable[[Any], WireBody]] = {
    BodyKind.NONE: _write_nothing,
    BodyKind.TEXT: _write_text,
    BodyKind.BYTES: _write_bytes,
    BodyKind.MAP: _write_map,
    BodyKind.STREAM: _write_stream,
    BodyKind.OBJECT: _write_object,
}


def _number_or_text(text: str) -> object:
    return text if text in _NOT_JSON else float(text)


_JSON: Mapping[type, Callable[[Any], object]] = {
    bool: bool,
    Byte: int,
    Short: int,
    int: int,
    Int: int,
    Long: int.__repr__,  # readers of JSON elsewhere make a double of a number
    Float: lambda value: _number_or_text(float_text(value)),
    float: lambda value: _number_or_text(double_text(value)),
    Double: lambda value: _number_or_text(double_text(value)),
    Char: str.__str__,
    str: str.__str__,
    bytes: lambda value: b64encode(value).decode(),
    type(None): lambda value: value,
}


def _typed(value: Stored) -> list[object]:
    kind = type(value)
    return [LETTERS[kind], _JSON[kind](value)]


def _typed_spelled_out(value: Stored) -> list[object]:
    """Return `value` so that no half of a surrogate pair is in it."""
    if type(value) is Char:
        return ["K", ord(value)]
    if type(value) is str and not _is_unicode(value):
        return ["U", base64_of_text(value)]
    return _typed(value)


def _spelled_out(name: str, value: Stored) -> list[object]:
    if _is_unicode(name):
        return [name, *_typed_spelled_out(value)]
    return [base64_of_text(name), *_typed_spelled_out(value), "U"]


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_body(kind: str, content_type: str | None, data: bytes) -> tuple[BodyKind, Body]:
    """Return kind and body of an envelope; `kind` is the profile header's.

    An object in a form that nobody here knows is BYTES. Raises `ProfileError` for a body that is not of its kind.
    """
    reader = _READERS.get(kind)
    if reader is None:
        raise ProfileError(f"the kind of body {kind[:20]!r} is not known")
    if kind == "object" and content_type != OBJECT_TYPE:
        return BodyKind.BYTES, data
    try:
        return reader(data)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ProfileError(f"the body is none of kind {kind}") from error


def _read_text(data: bytes) -> tuple[BodyKind, Body]:
    try:
        return BodyKind.TEXT, data.decode()
    except UnicodeDecodeError:
        return BodyKind.TEXT, data.decode("utf-8", "surrogatepass")


def _read_map(data: bytes) -> tuple[BodyKind, Body]:
    entries: dict[str, Stored] = {}
    for entry in _list(json.loads(data.decode())):
        name, letter, value, *spelled = _list(entry)
        if spelled not in ([], ["U"]) or type(name) is not str:
            raise ValueError("no entry of a map")
        entries[text_of_base64(name) if spelled else name] = _read_value(letter, value)
    return BodyKind.MAP, entries


def _read_stream(data: bytes) -> tuple[BodyKind, Body]:
    values = []
    for element in _list(json.loads(data.decode())):
        letter, value = _list(element)
        values.append(_read_value(letter, value))
    return BodyKind.STREAM, tuple(values)


_READERS: Mapping[str, Callable[[bytes], tuple[BodyKind, Body]]] = {
    "msg": lambda _: (BodyKind.NONE, None),
    "text": _read_text,
    "text0": lambda _: (BodyKind.TEXT, None),
    "bytes": lambda data: (BodyKind.BYTES, data),
    "map": _read_map,
    "stream": _read_stream,
    "object": lambda data: (BodyKind.OBJECT, ObjectBody(data, local=False)),
    "object0": lambda _: (BodyKind.OBJECT, None),
}


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise ValueError("no list")
    return value


def _read_value(letter: str, value: object) -> Stored:
    """Return the stored value that stands as `value` in JSON. Raises `ValueError`, `KeyError`, `TypeError`."""
    if letter == "N" and value is None:
        return None
    if letter == "Z":
        if type(value) is not bool:
            raise ValueError("a boolean is true or false")
        return value
    if type(value) is str:
        if letter in _NUMBERS_ONLY or (letter in _FLOATS and value not in _NOT_JSON):
            raise ValueError("a number is not quoted")
        return READERS[letter](value)
    if letter in _NUMBERS_ONLY and type(value) is int:
        return READERS[letter](str(value))
    if letter in _FLOATS and type(value) in (int, float):
        return Float(value) if letter == "F" else float(value)  # type: ignore[arg-type]
    raise ValueError("no value of its type")


_NUMBERS_ONLY = frozenset("BSIK")
_FLOATS = frozenset("FD")
