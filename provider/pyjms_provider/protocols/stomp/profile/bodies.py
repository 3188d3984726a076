"""The five bodies as bytes, and back (JMS 1.1 §3.11).

Text is UTF-8, bytes are bytes; maps and streams are JSON that a person can read: ``[["name","T","espresso"],…]`` and
``["T","espresso"],…``. Objects are bytes in the form that the content-type names; nothing here ever decodes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pyjms.spi.envelope import Body, BodyKind, ObjectBody
from pyjms.spi.typed_json import read_map, read_stream, write_map, write_stream
from pyjms.types import Stored
from pyjms_provider.protocols.stomp.errors import ProfileError

__all__ = ["BYTES_TYPE", "MAP_TYPE", "OBJECT_TYPE", "STREAM_TYPE", "TEXT_TYPE", "WireBody", "read_body", "write_body"]

TEXT_TYPE = "text/plain;charset=utf-8"
BYTES_TYPE = "application/octet-stream"
MAP_TYPE = "application/vnd.pyjms.map+json"
STREAM_TYPE = "application/vnd.pyjms.stream+json"
OBJECT_TYPE = "application/vnd.pyjms.object+pickle"
"""What an ObjectMessage of pyjms holds; receivers decode it by the rules of trust of `ConnectionFactory`."""


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
    return WireBody("map", MAP_TYPE, write_map(entries).encode(), is_text=True)


def _write_stream(values: tuple[Stored, ...]) -> WireBody:
    return WireBody("stream", STREAM_TYPE, write_stream(values).encode(), is_text=True)


_WRITERS: Mapping[BodyKind, Callable[[Any], WireBody]] = {
    BodyKind.NONE: _write_nothing,
    BodyKind.TEXT: _write_text,
    BodyKind.BYTES: _write_bytes,
    BodyKind.MAP: _write_map,
    BodyKind.STREAM: _write_stream,
    BodyKind.OBJECT: _write_object,
}


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


_READERS: Mapping[str, Callable[[bytes], tuple[BodyKind, Body]]] = {
    "msg": lambda _: (BodyKind.NONE, None),
    "text": _read_text,
    "text0": lambda _: (BodyKind.TEXT, None),
    "bytes": lambda data: (BodyKind.BYTES, data),
    "map": lambda data: (BodyKind.MAP, read_map(data.decode())),
    "stream": lambda data: (BodyKind.STREAM, read_stream(data.decode())),
    "object": lambda data: (BodyKind.OBJECT, ObjectBody(data, local=False)),
    "object0": lambda _: (BodyKind.OBJECT, None),
}
