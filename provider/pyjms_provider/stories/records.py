"""What was told, as lines of text, and back.

A line is a JSON array: the number of the message in its store, milliseconds since 1970 UTC, what happened, where, and facts by
name. It begins with the number, so that all lines of one message are found without reading the others. Lines that are JSON objects
say what holds for many: which broker wrote, who a connection was, what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.core.message.trace_events import FACTS, Happening
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession

if TYPE_CHECKING:
    from pyjms_provider.core.message.trace_events import Told

_WORDS: Final = {happening: f'"{happening.value}"' for happening in Happening}
_FACTS: Final = {happening: tuple((name, f'"{name}":') for name in names) for happening, names in FACTS.items()}
_DELIVERED: Final = Happening.DELIVERED
_ACKNOWLEDGED: Final = Happening.ACKNOWLEDGED
_NUMBERS: Final = frozenset({"expiration_ms", "delivery"})


class LineWriter:
    """Makes lines of what was told together. Belongs to one thread."""

    def __init__(self) -> None:
        self.connections: set[str] = set()
        """The connections that the lines name."""
        self._known: dict[object, str] = {}
        """What sessions, consumers, connections and places are in a line: there are few of them for many lines."""

    def line(self, told: Told) -> str:
        """Return the line, with its end."""
        number, at_ms, happening, where, facts = told
        known = self._known
        if happening is _DELIVERED or happening is _ACKNOWLEDGED:
            # most lines are these, so they are made without a loop
            place = known.get(where) or self._word("where", where)
            holder = facts[0] if happening is _ACKNOWLEDGED else facts[1]
            if holder is not None:
                session = known.get(holder) or self._word("session", holder)
                if happening is _ACKNOWLEDGED:
                    return f'[{number},{at_ms},"acknowledged",{place},{{"session":{session}}}]\n'
                if facts[2] is not None:
                    consumer = known.get(facts[2]) or self._word("consumer", facts[2])
                    said = f'"delivery":{facts[0]},"session":{session},"consumer":{consumer}'
                    return f'[{number},{at_ms},"delivered",{place},{{{said}}}]\n'
        parts: list[str] = []
        for (name, label), value in zip(_FACTS[happening], facts, strict=False):
            if not value:
                continue
            if name == "message_id":
                parts.append(label + quoted(value))
            elif name in _NUMBERS:
                parts.append(f"{label}{value}")
            elif value is True:
                parts.append(label + "true")
            elif name == "properties":
                parts.append(label + json.dumps(dict(value), default=str))
            elif name == "correlation_id":
                parts.append(label + quoted(correlation_text(value)))
            else:
                parts.append(label + (known.get(value) or self._word(name, value)))
        place = known.get(where) or self._word("where", where)
        return f"[{number},{at_ms},{_WORDS[happening]},{place},{{{','.join(parts)}}}]\n"

    def _word(self, name: str, value: Any) -> str:
        """Return how a name stands in a line, and take note of the connection that it means."""
        if isinstance(value, Consumer):
            word = str(value.number)
        else:
            text = value.receiver_id if isinstance(value, ConsumerSession) else value
            word = quoted(text)
            if name == "connection":
                self.connections.add(text)
            elif name == "session":
                self.connections.add(text.rpartition("/")[0])
        if name not in {"reason", "transaction"}:  # of these there are many
            self._known[value] = word
        return word


def line_of(facts: Mapping[str, Any]) -> str:
    """Return a line that holds for many messages, with its end."""
    return json.dumps(facts, separators=(",", ":"), default=str) + "\n"


def correlation_text(value: str | bytes) -> str:
    """Return a correlation id as stories show it: a native one as hexadecimal digits."""
    return value if isinstance(value, str) else value.hex()


def read_line(line: bytes) -> list[Any] | dict[str, Any] | None:
    """Return what a line holds; None: it is torn, or damaged."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if isinstance(found, dict):
        return found
    is_whole = isinstance(found, list) and len(found) == 5 and isinstance(found[4], dict)
    return found if is_whole else None


def searched(text: str) -> bytes:
    """Return how a text stands in a line."""
    return quoted(text).encode("ascii")
