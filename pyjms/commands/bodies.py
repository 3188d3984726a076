"""Bodies: from an argument, a file or standard input into messages, and from messages into files and JSON."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO, Final

from pyjms import (
    BytesMessage,
    JMSException,
    MapMessage,
    Message,
    MessageEOFException,
    ObjectMessage,
    Session,
    StreamMessage,
    TextMessage,
)
from pyjms.commands.reporting import CommandError
from pyjms.commands.typed_values import from_json, to_json

__all__ = ["BodyType", "body_bytes", "body_to_json", "make_message", "read_bodies", "type_of"]

_STANDARD_INPUT: Final = "-"
_CHUNK: Final = 1 << 16


class BodyType(Enum):
    """The kinds of body that can be typed."""

    TEXT = "text"
    BYTES = "bytes"
    MAP = "map"
    STREAM = "stream"


def read_bodies(argument: str | None, file: Path | None, *, lines: bool) -> Iterator[bytes]:
    """Yield the bodies: one, or with `lines` each line, as it comes and without its end. Raises `CommandError`."""
    if argument is not None and file is not None:
        raise CommandError("the body is an argument or comes from --file; give one of them")
    if file is None and argument != _STANDARD_INPUT:
        if lines and argument is None:
            raise CommandError("--lines needs lines: give --file PATH, or - for standard input")
        text = (argument or "").encode("utf-8", "surrogateescape")
        yield from text.splitlines() if lines else (text,)
        return
    if file is None or str(file) == _STANDARD_INPUT:
        yield from _read(sys.stdin.buffer, lines=lines)
        return
    with file.open("rb") as opened:
        yield from _read(opened, lines=lines)


def _read(source: BinaryIO, *, lines: bool) -> Iterator[bytes]:
    if not lines:
        yield source.read()
        return
    for line in source:
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def make_message(session: Session, kind: BodyType, body: bytes) -> Message:
    """Return a message with that body. Raises `CommandError`."""
    if kind is BodyType.BYTES:
        made = session.create_bytes_message()
        made.write_bytes(body)
        return made
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"the body is no UTF-8 text ({error}); send it with --type bytes") from error
    if kind is BodyType.TEXT:
        return session.create_text_message(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"the body of a {kind.value} message is written as JSON: {error}") from error
    return _map(session, value) if kind is BodyType.MAP else _stream(session, value)


def _map(session: Session, value: Any) -> MapMessage:
    if not isinstance(value, dict):
        raise CommandError('the body of a map message is a JSON object: {"colour": "red", "size": 3}')
    made = session.create_map_message()
    for name, inner in value.items():
        made.set_object(name, from_json(inner, f"{name!r} of the map"))
    return made


def _stream(session: Session, value: Any) -> StreamMessage:
    if not isinstance(value, list):
        raise CommandError('the body of a stream message is a JSON list: ["red", 3]')
    made = session.create_stream_message()
    for number, inner in enumerate(value, 1):
        made.write_object(from_json(inner, f"value {number} of the stream"))
    return made


def type_of(message: Message) -> str:
    """Return what kind of body a message has: ``text``, …, ``object``, or ``none``."""
    kinds = (
        (TextMessage, "text"),
        (BytesMessage, "bytes"),
        (MapMessage, "map"),
        (StreamMessage, "stream"),
        (ObjectMessage, "object"),
    )
    return next((name for kind, name in kinds if isinstance(message, kind)), "none")


def body_to_json(message: Message) -> Any:
    """Return the body as JSON has it; of bytes, their base64; of objects, which are not decoded, nothing."""
    if isinstance(message, TextMessage):
        return message.text
    if isinstance(message, BytesMessage):
        return base64.b64encode(_bytes(message)).decode()
    if isinstance(message, MapMessage):
        return {str(name): to_json(message.get_object(name)) for name in message.map_names}
    return _values(message) if isinstance(message, StreamMessage) else None


def body_bytes(message: Message) -> bytes:
    """Return the body as a file has it: text as UTF-8, maps and streams as JSON."""
    if isinstance(message, TextMessage):
        return (message.text or "").encode("utf-8", "surrogatepass")
    if isinstance(message, BytesMessage):
        return _bytes(message)
    if isinstance(message, (MapMessage, StreamMessage)):
        return json.dumps(body_to_json(message), ensure_ascii=False).encode()
    if isinstance(message, ObjectMessage):
        raise JMSException("an object message has a body that only a program can read; leave it to one")
    return b""


def _bytes(message: BytesMessage) -> bytes:
    message.reset()
    found = bytearray()
    chunk = bytearray(_CHUNK)
    while (count := message.read_bytes(chunk)) > 0:
        found += chunk[:count]
    return bytes(found)


def _values(message: StreamMessage) -> list[Any]:
    message.reset()
    found: list[Any] = []
    try:
        while True:
            found.append(to_json(message.read_object()))
    except MessageEOFException:
        return found
