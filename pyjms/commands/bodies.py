"""Bodies: from an argument, a file or standard input into messages, and from messages into files and JSON."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pyjms import (
    BytesMessage,
    DeliveryMode,
    Destination,
    JMSException,
    MapMessage,
    Message,
    MessageEOFException,
    ObjectMessage,
    Queue,
    Session,
    StreamMessage,
    TextMessage,
    Topic,
)
from pyjms.commands.connecting import CommandError
from pyjms.spi.terminal import escaped, printable
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


# Typed values on the command line and in JSON: properties, and the bodies of map and stream messages. In JSON true,
# numbers and texts are Boolean, Int or Long, Double and String. Other types are written ``{"type": "short", "value":
# 7}``; bytes are ``{"type": "bytes", "value": BASE64}``.

_TRUTHS: Final = {"true": True, "false": False}


def _boolean(value: Any) -> bool:
    found = _TRUTHS.get(str(value).lower())
    if found is None:
        raise ValueError("true or false is expected")
    return found


def _numeric(kind: Callable[[Any], Any], read: Callable[[Any], Any], wanted: str) -> Callable[[Any], Any]:
    def made(value: Any) -> Any:
        try:
            # The type itself checks ranges, and its errors name them; only errors of parsing get another text.
            number = read(value)
        except (ValueError, TypeError):  # Python's own text would not suit a user
            raise ValueError(f"{wanted} is expected") from None
        return kind(number)

    return made


def _whole(kind: Callable[[int], Any]) -> Callable[[Any], Any]:
    # By way of text: int(3.7) would truncate a JSON number, while int('3.7') refuses it.
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
"""The types of properties (JMS 1.1 §3.5.2)."""


def _typed_value(kind: str, value: Any, where: str, known: Sequence[str] = (*_READERS, "bytes")) -> Any:
    reader = _READERS.get(kind)
    if reader is None or kind not in known:
        raise CommandError(f"{where}: there is no type {kind!r}; there are {', '.join(known)}")
    try:
        return reader(value)
    except (ValueError, TypeError) as error:
        raise CommandError(f"{where}: {value!r} is no {kind}: {error}") from error


def set_properties(message: Message, texts: list[str]) -> None:
    """Set properties from ``NAME=VALUE`` (a text) and ``NAME:TYPE=VALUE``. Raises `CommandError`."""
    for text in texts:
        declared, equals, value = text.partition("=")
        name, _, kind = declared.partition(":")
        if not equals or not name:
            raise CommandError(
                f"--property {text!r}: write NAME=VALUE for a text, or NAME:TYPE=VALUE, as in size:int=3"
            )
        message.set_object_property(name, _typed_value(kind or "string", value, f"--property {name}", _PROPERTY_TYPES))


def from_json(value: Any, where: str) -> Any:
    """Return the message value of a JSON value. Raises `CommandError`."""
    if isinstance(value, Mapping):
        if set(value) != {"type", "value"}:
            raise CommandError(f'{where}: an object in it is {{"type": …, "value": …}}')
        if value["type"] == "bytes":
            try:
                # Without validate, Python skips characters that are no base64, and a mistake would become other bytes.
                return base64.b64decode(value["value"], validate=True)
            except (binascii.Error, TypeError, ValueError) as error:
                raise CommandError(f"{where}: bytes are written as base64: {error}") from error
        return _typed_value(str(value["type"]), value["value"], where)
    if isinstance(value, list):
        raise CommandError(f"{where}: messages have no lists within; write a text, or several values")
    return value


def to_json(value: Any) -> Any:
    """Return the JSON value of a message value, from which `from_json` reads the same again."""
    if isinstance(value, (bytes, bytearray)):
        return {"type": "bytes", "value": base64.b64encode(value).decode()}
    name = _NAMES.get(type(value))
    # A number beyond 32 bits is read as a Long without a type.
    if name is None or (name == "long" and not -_INT_MAX <= value < _INT_MAX):
        return value
    return {"type": name, "value": str(value) if name == "char" else value}


_STANDARD_INPUT: Final = "-"
_CHUNK: Final = 1 << 16


class BodyType(Enum):
    """The kinds of body that a user can write."""

    TEXT = "text"
    BYTES = "bytes"
    MAP = "map"
    STREAM = "stream"


def read_bodies(argument: str | None, file: Path | None, *, lines: bool) -> Iterator[bytes]:
    """Yield the bodies: one, or with `lines` each line as it arrives, without its end. Raises `CommandError`."""
    if argument is not None and file is not None:
        raise CommandError("the body is an argument or comes from --file; give one of them")
    if file is None and argument != _STANDARD_INPUT:
        if lines and argument is None:
            raise CommandError("--lines needs lines: give --file PATH, or - for standard input")
        # Python decodes arguments this way: bytes that are no UTF-8 are restored as typed.
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
        # Only the end of the line: strip would also remove blanks of the body.
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
    # JSON that is nested too deeply raises RecursionError, which is no ValueError.
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
    """Return the kind of a message's body: ``text``, …, ``object``, or ``none``."""
    kinds = (
        (TextMessage, "text"),
        (BytesMessage, "bytes"),
        (MapMessage, "map"),
        (StreamMessage, "stream"),
        (ObjectMessage, "object"),
    )
    return next((name for kind, name in kinds if isinstance(message, kind)), "none")


def body_to_json(message: Message) -> Any:
    """Return the body as JSON; bytes as base64; nothing for objects, which are not decoded."""
    if isinstance(message, TextMessage):
        return message.text
    if isinstance(message, BytesMessage):
        return base64.b64encode(_bytes(message)).decode()
    if isinstance(message, MapMessage):
        return {str(name): to_json(message.get_object(name)) for name in message.map_names}
    return _values(message) if isinstance(message, StreamMessage) else None


def body_bytes(message: Message) -> bytes:
    """Return the body as bytes for a file: text as UTF-8, maps and streams as JSON."""
    if isinstance(message, TextMessage):
        # A text of Java may hold half of a surrogate pair, which plain UTF-8 refuses.
        return (message.text or "").encode("utf-8", "surrogatepass")
    if isinstance(message, BytesMessage):
        return _bytes(message)
    if isinstance(message, (MapMessage, StreamMessage)):
        return json.dumps(body_to_json(message), ensure_ascii=False).encode()
    if isinstance(message, ObjectMessage):
        raise JMSException("an object message has a body that only a program can read; leave it to one")
    return b""


def _bytes(message: BytesMessage) -> bytes:
    # Back to the start, as an earlier call may have read a part.
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


# Messages for people and for programs.

_SHORT: Final = 60


def destination_text(destination: Destination | None) -> str | None:
    """Return a destination in the notation of commands: ``queue:NAME`` or ``topic:NAME``."""
    if isinstance(destination, Queue):
        return f"queue:{destination.queue_name}"
    return f"topic:{destination.topic_name}" if isinstance(destination, Topic) else None


def message_to_json(message: Message) -> dict[str, Any]:
    """Return all of a message: header fields under their JMS names, properties, body."""
    mode = message.jms_delivery_mode
    return {
        "JMSMessageID": message.jms_message_id,
        "JMSDestination": destination_text(message.jms_destination),
        "JMSTimestamp": message.jms_timestamp,
        "JMSExpiration": message.jms_expiration,
        "JMSDeliveryTime": message.jms_delivery_time,
        "JMSDeliveryMode": DeliveryMode(mode).name if mode in {1, 2} else mode,
        "JMSPriority": message.jms_priority,
        "JMSRedelivered": message.jms_redelivered,
        "JMSCorrelationID": message.jms_correlation_id,
        "JMSReplyTo": destination_text(message.jms_reply_to),
        "JMSType": message.jms_type,
        "properties": _properties(message),
        "body_type": type_of(message),
        "body": body_to_json(message),
    }


def _named(message: Message) -> list[str]:
    # Properties that JMS defines would fill the line; the full view shows them.
    return [name for name in map(str, message.property_names) if not name.startswith("JMSX")]


def _properties(message: Message) -> dict[str, Any]:
    return {str(name): to_json(message.get_object_property(name)) for name in message.property_names}


def text_of(value: Any) -> str:
    """Return a value as text: a string unchanged, "" for None, and JSON for others."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def one_line(value: Any, most: int = _SHORT) -> str:
    """Return a value on one line, shortened."""
    line = " ".join(printable(text_of(value)).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def time_text(moment_ms: int) -> str:
    """Return a time for people, in UTC; "" for 0."""
    return f"{datetime.fromtimestamp(moment_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}" if moment_ms else ""


def message_table() -> Table:
    """Return an empty table of messages; `add_message` adds a row.

    In a narrow terminal, long cells wrap: a truncated id would be useless.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("#", "sent (UTC)", "id", "priority", "type", "properties", "body"):
        table.add_column(title, no_wrap=title not in {"id", "properties", "body"}, overflow="fold")
    return table


def add_message(table: Table, message: Message) -> None:
    """Add a message to a table, with its row number."""
    named = ", ".join(f"{name}={message.get_string_property(name)}" for name in _named(message))
    table.add_row(
        str(table.row_count + 1),
        time_text(message.jms_timestamp),
        escaped(text_of(message.jms_message_id)),
        str(message.jms_priority),
        type_of(message),
        escaped(one_line(named, 40)),
        escaped(one_line(body_to_json(message))),
    )


def show_message(console: Console, message: Message) -> None:
    """Print a whole message for people."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    data = message_to_json(message)
    properties, body = data.pop("properties"), data.pop("body")
    data["JMSTimestamp"] = time_text(message.jms_timestamp)
    data["JMSExpiration"] = time_text(message.jms_expiration) or "never"
    data["JMSDeliveryTime"] = time_text(message.jms_delivery_time)
    for name, value in {**data, **properties}.items():
        if value is not None and value != "":
            table.add_row(f"[cyan]{escaped(name)}[/]", escaped(text_of(value)))
    console.print(table)
    console.print(escaped(text_of(body)), soft_wrap=True)
    console.print()
