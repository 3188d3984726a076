"""Messages as people and programs see them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyjms import DeliveryMode, Destination, Message, Queue, Topic
from pyjms.commands.bodies import body_to_json, type_of
from pyjms.commands.typed_values import to_json
from pyjms.spi.terminal import escaped, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "add_message",
    "destination_text",
    "message_table",
    "message_to_json",
    "one_line",
    "show_message",
    "text_of",
    "time_text",
]

_SHORT: Final = 60


def destination_text(destination: Destination | None) -> str | None:
    """Return a destination as commands take it: ``queue:NAME`` or ``topic:NAME``."""
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
    return [name for name in map(str, message.property_names) if not name.startswith("JMSX")]


def _properties(message: Message) -> dict[str, Any]:
    return {str(name): to_json(message.get_object_property(name)) for name in message.property_names}


def text_of(value: Any) -> str:
    """Return a value as text: that of a string is its own, that of None is none, and others are JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def one_line(value: Any, most: int = _SHORT) -> str:
    """Return a value on one line, shortened."""
    line = " ".join(printable(text_of(value)).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def time_text(moment_ms: int) -> str:
    """Return a moment for people, in UTC; 0 is none."""
    return f"{datetime.fromtimestamp(moment_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}" if moment_ms else ""


def message_table() -> Table:
    """Return an empty table of messages; `add_message` adds a line.

    Where it is too narrow, long cells go on beneath: an id that is cut off names no message.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("#", "sent (UTC)", "id", "priority", "type", "properties", "body"):
        table.add_column(title, no_wrap=title not in {"id", "properties", "body"}, overflow="fold")
    return table


def add_message(table: Table, message: Message) -> None:
    """Add a message to a table, with its number there."""
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
    """Print all of a message for people."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    data = message_to_json(message)
    properties, body = data.pop("properties"), data.pop("body")
    data["JMSTimestamp"] = time_text(message.jms_timestamp)
    data["JMSExpiration"] = time_text(message.jms_expiration) or "never"
    for name, value in {**data, **properties}.items():
        if value is not None and value != "":
            table.add_row(f"[cyan]{escaped(name)}[/]", escaped(text_of(value)))
    console.print(table)
    console.print(escaped(text_of(body)), soft_wrap=True)
    console.print()
