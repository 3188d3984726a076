"""How messages are shown: cut to what somebody can read, so that neither a message nor a page of them takes more than an answer may.

Who looks at a queue holds up nobody: a message may be as long as a client may send it, and a page has many.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from pyjms.spi.envelope import Envelope, ObjectBody
from pyjms.types import Byte, Char, Float, Long, Short, Stored
from pyjms_provider.core.queue.dead_letters import DEAD_PREFIX
from pyjms_provider.model.messages import LetterView, MessageBody, MessageView, TypedValue

__all__ = ["Showing", "view_value"]

_V = TypeVar("_V")
_M = TypeVar("_M")

_LONGEST: Final = 100_000
"""So many characters, or bytes, of a body are shown, and of all the rest of a message."""
_LONGEST_BY_ITSELF: Final = 1_000
_LONGEST_PAGE: Final = 4_000_000
_EACH: Final = 40
"""What a value takes in an answer beside its characters."""
_EXACT: Final = 2**53
"""Programs that read the numbers of JSON as doubles, as browsers do, alter those beyond."""
_TYPES: Final[tuple[tuple[str, type], ...]] = (("byte", Byte), ("short", Short), ("long", Long), ("float", Float))


class Showing:
    """One answer with messages."""

    def __init__(self, *, with_bodies: bool = True) -> None:
        self._with_bodies = with_bodies
        self._taken = 0

    @property
    def is_full(self) -> bool:
        """Whether the answer is so long that no more messages belong into it."""
        return self._taken >= _LONGEST_PAGE

    def page(self, found: Iterable[_M], view: Callable[[_M], _V], offset: int, limit: int) -> tuple[list[_V], bool]:
        """Return the messages from `offset` on as `view` shows them, `limit` or fewer, and whether there are more.

        One by one, so that one whole message at a time is in memory.
        """
        shown: list[_V] = []
        for message in islice(found, offset, None):
            if len(shown) == limit or self.is_full:
                return shown, True
            shown.append(view(message))
        return shown, False

    def counted(self, message: tuple[Envelope, int]) -> MessageView:
        """Return a message, with how often it was delivered, as it is shown."""
        envelope, delivery_count = message
        return self.message(envelope, delivery_count)

    def message(self, envelope: Envelope, delivery_count: int | None = None) -> MessageView:
        """Return a message as it is shown."""
        cutter = _Cutter(0 if self.is_full else _LONGEST)
        correlation = envelope.correlation_id
        destination = str(envelope.destination)
        reply_to = None if envelope.reply_to is None else str(envelope.reply_to)
        view = MessageView(
            id=envelope.message_id,
            destination=destination,
            timestamp_ms=envelope.timestamp_ms,
            expiration_ms=envelope.expiration_ms,
            delivery_mode="PERSISTENT" if envelope.delivery_mode == 2 else "NON_PERSISTENT",
            priority=envelope.priority,
            correlation_id=cutter.header(correlation.hex() if isinstance(correlation, bytes) else correlation),
            reply_to=reply_to,
            type=cutter.header(envelope.jms_type),
            properties=cutter.values(envelope.properties),
            is_whole=cutter.is_whole,
            body=self._body(envelope) if self._with_bodies and not self.is_full else None,
            delivery_count=delivery_count,
        )
        # These are whole: what is named by them could not be found by less.
        self._taken += (
            cutter.taken + sum(len(each or "") for each in (envelope.message_id, destination, reply_to)) + _EACH
        )
        return view

    def letter(self, envelope: Envelope) -> LetterView:
        """Return a dead letter as it is shown."""
        said = {name.removeprefix(DEAD_PREFIX): value for name, value in envelope.properties.items()}

        def text(name: str) -> str | None:
            value = said.get(name)
            return cutter.header(value) if isinstance(value, str) else None

        def number(name: str) -> int | None:
            value = said.get(name)
            return int(value) if isinstance(value, int) else None

        cutter = _Cutter(0 if self.is_full else _LONGEST)
        view = LetterView(
            message=self.message(envelope),
            kind=text("Kind"),
            reason=text("Reason"),
            came_from=text("Destination"),
            subscription=text("Subscription"),
            deliveries=number("Count"),
            consumer=text("Consumer"),
            at_ms=number("Time"),
        )
        self._taken += cutter.taken
        return view

    def _body(self, envelope: Envelope) -> MessageBody:
        body, kind, cutter = envelope.body, envelope.body_kind.name.lower(), _Cutter()
        shown: dict[str, Any] = {}
        size = 0 if body is None else len(body.data if isinstance(body, ObjectBody) else body)
        if isinstance(body, str):
            shown["text"] = cutter.text(body)
        elif isinstance(body, (bytes, ObjectBody)):
            shown["base64"] = cutter.data(body if isinstance(body, bytes) else body.data)
        elif isinstance(body, Mapping):
            shown["map"] = cutter.values(body)
        elif body is not None:
            shown["stream"] = cutter.stream(body)
        self._taken += cutter.taken
        return MessageBody(kind=kind, size=size, is_whole=cutter.is_whole, **shown)


def view_value(value: Stored) -> TypedValue:
    """Return the beginning of a value as it is shown by itself, where one of many is asked for in passing."""
    return _Cutter(_LONGEST_BY_ITSELF).value(value)


class _Cutter:
    """Shows what belongs together, until that is so long that the rest is left out."""

    def __init__(self, longest: int = _LONGEST) -> None:
        self._longest = longest
        self.taken = 0
        self.is_whole = True

    def text(self, value: str) -> str:
        return value[: self._take(len(value))]

    def header(self, value: str | None) -> str | None:
        return None if value is None else self.text(value) or (None if value else "")

    def data(self, value: bytes) -> str:
        return base64.b64encode(value[: self._take(len(value))]).decode()

    def values(self, values: Mapping[str, Stored]) -> dict[str, TypedValue]:
        shown: dict[str, TypedValue] = {}
        for name, value in values.items():
            if self.taken + len(name) + _EACH > self._longest:
                self.is_whole = False
                break
            self.taken += len(name)
            shown[name] = self.value(value)
        return shown

    def stream(self, values: Iterable[Stored]) -> list[TypedValue]:
        shown: list[TypedValue] = []
        for value in values:
            if self.taken + _EACH > self._longest:
                self.is_whole = False
                break
            shown.append(self.value(value))
        return shown

    def value(self, value: Stored) -> TypedValue:
        """Return a value of a property, a map or a stream."""
        self.taken += _EACH
        if value is None:
            return TypedValue(type="null", value=None)
        if isinstance(value, bytes):
            return TypedValue(type="bytes", value=self.data(value))
        if isinstance(value, bool):
            return TypedValue(type="boolean", value=value)
        if isinstance(value, Char):
            return TypedValue(type="char", value=str(value))
        if isinstance(value, str):
            return TypedValue(type="string", value=self.text(value))
        plain = "int" if isinstance(value, int) else "double"
        return TypedValue(
            type=next((name for name, kind in _TYPES if isinstance(value, kind)), plain), value=_number(value)
        )

    def _take(self, wanted: int) -> int:
        """Return how much of something may still be shown."""
        given = min(wanted, max(0, self._longest - self.taken))
        self.taken += given
        if given < wanted:
            self.is_whole = False
        return given


def _number(value: Any) -> int | float | str:
    if isinstance(value, int):
        return int(value) if -_EXACT <= value <= _EXACT else str(int(value))
    number = float(value)
    return number if number - number == 0 else str(number)  # JSON has neither infinity nor NaN
