"""Rows as messages: the messages that the sink makes of rows. `pyjms.spark.schema` has the other direction and the
format of values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from pyjms.messages.java_text import shorten
from pyjms.spark.options import OptionError, RowError, parse_address
from pyjms.spark.schema import ALIAS_PREFIX, DEDUP_ID, HEADERS, KINDS, MODES, SINK_COLUMNS
from pyjms.spi.envelope import Address, Body, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.spi.typed_values import READERS, read_map, read_stream
from pyjms.types import Stored

ARTEMIS_DUPLICATE = "_AMQ_DUPL_ID"
"""The property by which ActiveMQ Artemis detects duplicates."""

_KINDS = {text: kind for kind, text in KINDS.items()}
_MODES = {text: mode for mode, text in MODES.items()}
_PERSISTENT, _PRIORITY = 2, 4
_LONG_MAX = 2**63 - 1


def check_sink_columns(columns: Iterable[tuple[str, str]]) -> None:
    """Raise `RowError` for columns that the sink does not accept; each column is a name and Spark's name of its type."""
    for name, kind in columns:
        allowed = SINK_COLUMNS.get(name)
        if allowed is None:
            raise RowError(
                f"column {name!r} says nothing to a message: drop it, or put it into the map column properties; the sink takes "
                f"{', '.join(SINK_COLUMNS)}"
            )
        if kind not in allowed:
            raise RowError(f"column {name!r} is {kind}: cast it to {' or '.join(sorted(allowed))}")


class EnvelopeMaker:
    """Makes the messages of one write attempt, with the ids and time stamps of a producer (JMS 1.1 §3.4)."""

    def __init__(
        self,
        *,
        destination: Address | None,
        next_id: Callable[[], MessageId],
        now_ms: Callable[[], int],
        keeps_headers: bool = False,
    ) -> None:
        self._destination = destination
        self._next_id = next_id
        self._now_ms = now_ms
        self._keeps = keeps_headers

    def envelopes(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> Iterator[Envelope]:
        """Yield one message for each row of a table given by columns. Raises `RowError`, which names the row."""
        for values in zip(*columns, strict=True):
            # A dict for each row, since the error below shows the row by the names of its columns.
            row = dict(zip(names, values, strict=True))
            try:
                made = self.envelope(row)
            except RowError as error:
                raise RowError(f"{error.reason}; the row has {row_told(row)}") from error
            yield made

    def envelope(self, row: Mapping[str, Any]) -> Envelope:
        """Return the message of one row. Raises `RowError`."""
        if not self._keeps:
            return envelope_of(row, self._destination, (self._next_id(), self._now_ms()))
        kept = envelope_of(row, self._destination)
        if "message_id" in row and "timestamp" in row:
            return kept  # where these columns are NULL the message lacks the field, or has it among its properties
        return replace(
            kept,
            message_id=self._next_id() if "message_id" not in row and kept.message_id is None else kept.message_id,
            timestamp_ms=self._now_ms() if "timestamp" not in row and not kept.timestamp_ms else kept.timestamp_ms,
        )


def row_told(row: Mapping[str, Any]) -> str:
    """Return a description by which a person finds a row: its non-null columns, each shortened, identifying columns
    first.
    """
    # `sorted` is stable: identifying columns come first, the others in the order of the table.
    names = sorted(row, key=_TELLING.__contains__, reverse=True)
    filled = [(name, row[name]) for name in names if row[name] is not None]
    return ", ".join(f"{name}={_cut(value)}" for name, value in filled[:_TOLD_MOST]) or "nothing in any column"


def _cut(value: Any) -> str:
    # Cut before `repr`: a body of megabytes would be escaped in full for sixty characters.
    told = repr(value[:_TOLD_LONGEST] if isinstance(value, (str, bytes)) else value)
    return told if len(told) <= _TOLD_LONGEST else f"{told[:_TOLD_LONGEST]}…"


_TELLING = frozenset({"seq", "message_id", "correlation_id", DEDUP_ID})
_TOLD_MOST, _TOLD_LONGEST = 8, 60


def envelope_of(
    row: Mapping[str, Any], destination: Address | None = None, stamp: tuple[MessageId | None, int] | None = None
) -> Envelope:
    """Return the message of a row.

    destination: where all rows go; None: where their column says. stamp: JMSMessageID and JMSTimestamp in milliseconds;
    None: those of the row. Raises `RowError`.
    """
    properties, unfit = _properties(row.get("properties"), row.get("property_types"))
    kind, body = _body(row)
    if stamp is None:
        message_id = unfit.get("JMSMessageID", row.get("message_id"))
        stamp = (
            None if message_id is None else MessageId(message_id),
            _timestamp(unfit.get("JMSTimestamp"), row.get("timestamp")),
        )
    return Envelope(
        _destination(unfit.get("JMSDestination", row.get("destination")), destination),
        *stamp,
        _expiration(unfit.get("JMSExpiration"), row.get("expiration")),
        _mode(row.get("delivery_mode")),
        _priority(row.get("priority")),
        unfit.get("JMSCorrelationID", row.get("correlation_id")),
        _reply_to(unfit.get("JMSReplyTo", row.get("reply_to"))),
        unfit.get("JMSType", row.get("type")),
        _with_duplicate_id(properties, row.get(DEDUP_ID)),
        kind,
        body,
    )


def _destination(text: Any, given: Address | None) -> Address:
    if given is not None:
        return given
    if text is None:
        raise RowError(
            "a row names no destination: fill the column destination, or give the option destination=queue:NAME"
        )
    return _address(text, "destination")


def _reply_to(text: Any) -> Address | None:
    return None if text is None else _address(text, "reply_to")


def _address(text: str, column: str) -> Address:
    try:
        return parse_address(text, column)
    except OptionError as error:
        raise RowError(f"column {error.reason}") from None


def _timestamp(unfit_ms: Any, micros: int | None) -> int:
    if unfit_ms is not None:
        return int(unfit_ms)
    if micros is not None and micros < 0:
        raise RowError("column timestamp has a moment before 1970, where JMSTimestamp begins (JMS 1.1 §3.4.4)")
    return 0 if micros is None else micros // 1000


def _expiration(unfit_ms: Any, micros: int | None) -> int:
    """Return JMSExpiration in milliseconds."""
    if unfit_ms is not None:
        return int(unfit_ms)
    # An expiration long past must not become 0, which means that the message never expires (JMS 1.1 §3.4.9).
    return 0 if micros is None else max(1, micros // 1000)


def _mode(text: str | None) -> int:
    if text is None:
        return _PERSISTENT
    mode = _MODES.get(text)
    if mode is None:
        raise RowError(f"column delivery_mode has {shorten(text)}: write PERSISTENT or NON_PERSISTENT")
    return mode


def _priority(value: int | None) -> int:
    if value is None:
        return _PRIORITY
    if not 0 <= value <= 9:
        raise RowError(f"column priority has {value}: JMS has 0 to 9 (JMS 1.1 §3.4.10)")
    return value


# -------------------------------------------------------------------------------------------------------- properties


def _pairs(value: Any) -> Iterable[tuple[str, Any]]:
    if value is None:
        return ()
    return value.items() if isinstance(value, Mapping) else value


def _properties(texts: Any, types: Any) -> tuple[dict[str, Stored], dict[str, Any]]:
    """Return the properties, and the header fields that are stored among them because no column can hold them."""
    letters = dict(_pairs(types))
    # Most rows have strings alone; without letters nothing can stand for a header field either.
    if not letters:
        return {_name(name): text for name, text in _pairs(texts) if text is not None}, {}
    properties: dict[str, Stored] = {}
    unfit: dict[str, Any] = {}
    for name, text in _pairs(texts):
        letter = letters.get(name, "T")
        # A string of such a name is an ordinary property; only another letter marks a header field.
        if name in HEADERS and letter != "T":
            if text is None or letter not in tuple(_HEADER_LETTERS.get(name, "U")):
                raise RowError(
                    f"column property_types has {letter!r} for {name}, a header field that stands among the properties: write U (a text in "
                    "Base64), J (a moment in milliseconds), or X (a JMSCorrelationID of bytes), and a text"
                )
            unfit[name] = _value(name, text, letter)
        elif letter == "N":
            properties[_name(name)] = None
        elif letter not in _PROPERTY_LETTERS:
            raise RowError(f"column property_types has {letter!r} for {shorten(name)}: properties have {_LETTERS_TOLD}")
        elif text is not None:
            properties[_name(name)] = text if letter == "T" else _value(name, text, letter)
    return properties, unfit


_HEADER_LETTERS: Mapping[str, str] = {"JMSTimestamp": "J", "JMSExpiration": "J", "JMSCorrelationID": "UX"}
_PROPERTY_LETTERS = READERS.keys() - {"X"}
"""A property is never bytes (JMS 1.1 §3.5.1); the message system would reject it without naming the row."""
_LETTERS_TOLD = "Z B S I J F D (Java's types), T (String) or N (null)"


def _value(name: str, text: Any, letter: str) -> Any:
    try:
        return READERS[letter](text)
    except (KeyError, ValueError, TypeError) as error:
        raise RowError(
            f"column properties has {shorten(str(text))} for {shorten(name)}, which is no {letter!r}: {error}"
        ) from None


def _name(name: str) -> str:
    """Return the name of the property that a row calls `name`. Any name from the wire is accepted: the reader of a
    message did not choose it.
    """
    if not name.startswith(ALIAS_PREFIX):
        return name
    try:
        return unquote(name[len(ALIAS_PREFIX) :], errors="surrogatepass")
    except ValueError:
        raise RowError(
            f"column properties has the name {shorten(name)}: what follows {ALIAS_PREFIX} is no UTF-8, percent-encoded"
        ) from None


def _with_duplicate_id(properties: dict[str, Stored], dedup_id: str | None) -> dict[str, Stored]:
    if dedup_id is not None:
        properties[ARTEMIS_DUPLICATE] = dedup_id
    return properties


# ------------------------------------------------------------------------------------------------------------ bodies


def _body(row: Mapping[str, Any]) -> tuple[BodyKind, Body]:
    text, data, body, told = row.get("text"), row.get("bytes"), row.get("body"), row.get("kind")
    if (text is not None) + (data is not None) + (body is not None) > 1:
        raise RowError(
            "a row fills more than one of text, bytes and body: a message has one body, so leave the others NULL"
        )
    if told is None:
        if text is not None:
            return BodyKind.TEXT, text
        if data is not None:
            return BodyKind.BYTES, data
        raise RowError(
            "a row has no text and no bytes, and no kind that says what else it is: fill one of them, or set kind to map or stream "
            "(with body), to text (a text that is null) or to none (a message without body)"
        )
    kind = _KINDS.get(told)
    if kind is None:
        raise RowError(f"column kind has {shorten(told)}: write {', '.join(_KINDS)}")
    if _FILLED[kind].isdisjoint(_filled(text, data, body)):
        return kind, _empty(kind)
    try:
        return kind, _read(kind, text, data, body)
    # The column may have any JSON, nested to any depth, so any exception of the JSON reader is an error of the row.
    except (ValueError, TypeError, KeyError, RecursionError, IndexError):
        raise RowError(
            f"column body has no typed JSON of a {told} message: {shorten(str(body))}; docs/reference/spark.md shows how to write it"
        ) from None


def _filled(text: Any, data: Any, body: Any) -> frozenset[str]:
    filled = {name for name, value in (("text", text), ("bytes", data), ("body", body)) if value is not None}
    return frozenset(filled or {"nothing"})


def _empty(kind: BodyKind) -> Body:
    raise RowError(
        f"a {KINDS[kind]} message has its body in {' or '.join(sorted(_FILLED[kind] - {'nothing'})) or 'no column'}"
    )


_FILLED: Mapping[BodyKind, frozenset[str]] = {
    BodyKind.NONE: frozenset({"nothing"}),
    BodyKind.TEXT: frozenset({"text", "body", "nothing"}),
    BodyKind.BYTES: frozenset({"bytes"}),
    BodyKind.MAP: frozenset({"body"}),
    BodyKind.STREAM: frozenset({"body"}),
    BodyKind.OBJECT: frozenset({"bytes", "nothing"}),
}
"""Which columns hold the body of each kind."""


def _read(kind: BodyKind, text: Any, data: Any, body: Any) -> Body:
    if kind is BodyKind.MAP:
        return read_map(body)
    if kind is BodyKind.STREAM:
        return read_stream(body)
    if kind is BodyKind.OBJECT:
        # Not local: the bytes come from outside, so they are unpickled only for classes that the application trusts.
        return None if data is None else ObjectBody(data, local=False)
    if kind is BodyKind.TEXT and body is not None:
        # A text with half of a surrogate pair is a stream of one value (docs/reference/spark.md).
        (text,) = read_stream(body)
        if not isinstance(text, str):
            raise ValueError("no text")
    found: Body = data if kind is BodyKind.BYTES else text
    return found
