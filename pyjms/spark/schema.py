"""Messages as rows, without loss. Uses neither Spark nor Arrow.

A row has Arrow's values: moments are microseconds since 1970 UTC. A value that no column can hold (a correlation id of
bytes, half of a surrogate pair, a moment after the year 9999) is stored among the properties, under the JMS name of the
header field and with the letter of its type. A property with such a name, which STOMP clients may send, or whose name
is not valid Unicode, gets an alias.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from math import isfinite
from typing import Any, NamedTuple
from urllib.parse import quote

from pyjms.messages.java_text import shorten
from pyjms.spark.options import RowError, address_text
from pyjms.spi.envelope import Address, BodyKind, Envelope, ObjectBody
from pyjms.spi.replay import ReservedMessage
from pyjms.spi.typed_values import LETTERS, base64_of_text, double_text, float_text, is_unicode, write_map, write_stream
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored

# The columns of ``format("jms")``: names and Spark's types. docs/reference/spark.md says what each holds.

COLUMNS: Mapping[str, str] = {
    "destination": "string",
    "seq": "bigint",
    "message_id": "string",
    "correlation_id": "string",
    "reply_to": "string",
    "type": "string",
    "delivery_mode": "string",
    "priority": "tinyint",
    "timestamp": "timestamp",
    "expiration": "timestamp",
    "redelivered": "boolean",
    "delivery_count": "int",
    "kind": "string",
    "text": "string",
    "bytes": "binary",
    "body": "string",
    "properties": "map<string,string>",
    "property_types": "map<string,string>",
}
SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())

DEDUP_ID = "dedup_id"
"""A column that only the sink has: a broker that detects duplicates drops them by its value."""

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
SINK_COLUMNS: Mapping[str, frozenset[str]] = {
    **{name: _WHOLE if kind in _WHOLE else frozenset({kind}) for name, kind in COLUMNS.items()},
    DEDUP_ID: frozenset({"string"}),
}
"""The columns that the sink accepts, and the types of each."""


ALIAS_PREFIX = "JMS_pyjms_x_"
"""Prefix of a property's alias, as on the wire (docs/reference/stomp.md): the name follows, percent-encoded."""
HEADERS = frozenset(
    {"JMSCorrelationID", "JMSMessageID", "JMSType", "JMSDestination", "JMSReplyTo", "JMSTimestamp", "JMSExpiration"}
)
"""The header fields that are stored among the properties if no column can hold them."""

TIME_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, after which Python has no `datetime`."""
KINDS: Mapping[BodyKind, str] = {kind: kind.name.lower() for kind in BodyKind}
MODES: Mapping[int, str] = {1: "NON_PERSISTENT", 2: "PERSISTENT"}

_TEXTS: Mapping[type, Callable[[Any], str]] = {
    str: str.__str__,
    bool: lambda value: "true" if value else "false",
    Byte: int.__repr__,
    Short: int.__repr__,
    int: int.__repr__,
    Int: int.__repr__,
    Long: int.__repr__,
    Float: float_text,
    float: double_text,
    Double: double_text,
    bytes: lambda value: b64encode(value).decode(),
}
_PLAIN = str


def row_of(message: ReservedMessage, *, with_body: bool = True) -> dict[str, Any]:
    """Return the columns of one message by name."""
    return {name: values[0] for name, values in column_values([message], COLUMNS, with_bodies=with_body).items()}


def column_values(
    messages: Sequence[ReservedMessage], names: Iterable[str], *, with_bodies: bool = True
) -> dict[str, list[Any]]:
    """Return the values of the columns `names`, each for all messages, in order."""
    wanted = list(names)
    envelopes = [message.envelope for message in messages]
    found: dict[str, list[Any]] = {}
    if "properties" in wanted or "property_types" in wanted:
        found["properties"], found["property_types"] = spelled_properties(envelopes)
    if with_bodies and not _BODIES.keys().isdisjoint(wanted):
        found |= _body_columns(envelopes)
    for name in wanted:
        if name in found:
            continue
        if name in _BODIES:
            found[name] = [None] * len(messages)
        elif name in _OF_MESSAGES:
            found[name] = _OF_MESSAGES[name](messages)
        else:
            found[name] = _OF_ENVELOPES[name](envelopes)
    return {name: found[name] for name in wanted}


# ------------------------------------------------------------------------------------------------------ header fields


def _shown(text: str | None) -> str | None:
    return text if text is None or is_unicode(text) else None


def _are_shown(texts: Sequence[str | None]) -> bool:
    """Say whether a column can hold every text: one check of all, as nearly always it can."""
    # One join and one check for the whole column are cheaper than a check of each text.
    return is_unicode("".join([text for text in texts if text is not None]))


def _all_shown(texts: Sequence[str | None]) -> list[str | None]:
    return list(texts if _are_shown(texts) else map(_shown, texts))


def _address(address: Address | None) -> str | None:
    return None if address is None else _shown(address_text(address))


def _addresses(found: Sequence[Address | None]) -> list[str | None]:
    # Identity is safe as a key here: the list keeps all addresses alive.
    known = {id(each): each for each in found}  # most messages share theirs, and hashing costs more
    texts = {key: _address(each) for key, each in known.items()}
    return [texts[id(each)] for each in found]


def _micros(moment_ms: int) -> int | None:
    # 0 means that there is no timestamp or no expiry (JMS 1.1 §3.4.4, §3.4.9); a value out of range goes to the
    # properties.
    return moment_ms * 1000 if 0 < moment_ms <= TIME_MAX_MS else None


# -------------------------------------------------------------------------------------------------------- properties


def spelled_properties(
    envelopes: Sequence[Envelope],
) -> tuple[list[dict[str, str | None]], list[dict[str, str]]]:
    """Return texts and type letters of all properties, and of the header fields that no column can hold."""
    values: list[dict[str, str | None]] = []
    letters: list[dict[str, str]] = []
    for envelope in envelopes:
        texts: dict[str, str | None] = {}
        types: dict[str, str] = {}
        for told, value in envelope.properties.items():
            # `surrogatepass` keeps half of a surrogate pair, which UTF-8 cannot encode otherwise.
            name = (ALIAS_PREFIX + quote(told, safe="", errors="surrogatepass")) if needs_alias(told) else told
            kind = value.__class__
            # The common case first: ASCII strings need neither a letter nor a check for surrogates.
            if kind is _PLAIN and value.isascii():  # type: ignore[union-attr]
                texts[name] = value  # type: ignore[assignment]
                continue
            texts[name], letter = _spell(name, value)
            if letter != "T":
                types[name] = letter
        _add_unfit(envelope, texts, types)
        values.append(texts)
        letters.append(types)
    return values, letters


def needs_alias(name: str) -> bool:
    """Say whether the property `name` would be taken for a header field or an alias, or cannot be written at all."""
    return name in HEADERS or name.startswith(ALIAS_PREFIX) or not (name.isascii() or is_unicode(name))


def _spell(name: str, value: Stored) -> tuple[str | None, str]:
    """Return the text and the letter of a value whose type no JMS client sets, but the wire allows."""
    if value is None:
        return None, "N"
    kind = type(value)
    if kind is Char:
        character = str(value)
        # A Java char may be half of a surrogate pair, which no STRING column holds, so its number is written.
        return (character, "C") if is_unicode(character) else (str(ord(character)), "K")
    write = _TEXTS.get(kind)
    if write is None:
        raise RowError(f"property {shorten(name)} is a {kind.__name__}, which no message has (JMS 1.1 §3.5.1, §3.5.4)")
    if kind is str and not is_unicode(value):  # type: ignore[arg-type]
        return base64_of_text(value), "U"  # type: ignore[arg-type]
    return write(value), LETTERS[kind]


def _add_unfit(envelope: Envelope, texts: dict[str, str | None], types: dict[str, str]) -> None:
    correlation = envelope.correlation_id
    if correlation.__class__ is bytes:
        texts["JMSCorrelationID"], types["JMSCorrelationID"] = b64encode(correlation).decode(), "X"
    for name, text in (
        ("JMSCorrelationID", correlation),
        ("JMSMessageID", envelope.message_id),
        ("JMSType", envelope.jms_type),
    ):
        # Exact classes and `isascii` before `is_unicode`: this runs for each header field of each message.
        if text.__class__ is not bytes and text and not text.isascii() and not is_unicode(text):  # type: ignore[arg-type]
            texts[name], types[name] = base64_of_text(text), "U"  # type: ignore[arg-type]
    for name, address in (("JMSDestination", envelope.destination), ("JMSReplyTo", envelope.reply_to)):
        if address is not None and not address.name.isascii() and not is_unicode(address.name):
            texts[name], types[name] = base64_of_text(address_text(address)), "U"
    for name, moment_ms in (("JMSTimestamp", envelope.timestamp_ms), ("JMSExpiration", envelope.expiration_ms)):
        # 0 is in range: a column that is NULL means the same.
        if not 0 <= moment_ms <= TIME_MAX_MS:
            texts[name], types[name] = str(moment_ms), "J"


# ------------------------------------------------------------------------------------------------------------ bodies


def _text(envelope: Envelope) -> str | None:
    return _shown(envelope.body) if envelope.body_kind is BodyKind.TEXT else None  # type: ignore[arg-type]


def _bytes(envelope: Envelope) -> bytes | None:
    if envelope.body_kind is BodyKind.BYTES:
        return envelope.body  # type: ignore[return-value]
    return envelope.body.data if isinstance(envelope.body, ObjectBody) else None


def _body(envelope: Envelope) -> str | None:
    """Return the typed JSON of a map, of a stream, and of a text that no column can hold: a stream of one value."""
    kind, body = envelope.body_kind, envelope.body
    if kind is BodyKind.TEXT:
        return None if body is None or is_unicode(body) else write_stream((body,))  # type: ignore[arg-type]
    if kind is BodyKind.MAP:
        return write_map(body)  # type: ignore[arg-type]
    if kind is BodyKind.STREAM:
        return write_stream(body)  # type: ignore[arg-type]
    return None


def _body_columns(envelopes: Sequence[Envelope]) -> dict[str, list[Any]]:
    """Return the columns `text`, `bytes` and `body`. Most batches have only texts, which a column can hold."""
    kind = BodyKind.TEXT
    if all(envelope.body_kind is kind for envelope in envelopes):
        texts: list[Any] = [envelope.body for envelope in envelopes]
        # Bodies are joined once to be checked; a text with half of a surrogate pair sends the batch to the slow path.
        if _are_shown(texts):
            return {"text": texts, "bytes": [None] * len(texts), "body": [None] * len(texts)}
    return {name: list(map(write, envelopes)) for name, write in _BODIES.items()}


_BODIES: Mapping[str, Callable[[Envelope], Any]] = {"text": _text, "bytes": _bytes, "body": _body}

_OF_MESSAGES: Mapping[str, Callable[[Sequence[ReservedMessage]], list[Any]]] = {
    "seq": lambda messages: [m.number for m in messages],
    "redelivered": lambda messages: [m.redelivered for m in messages],
    "delivery_count": lambda messages: [m.count for m in messages],
}

_OF_ENVELOPES: Mapping[str, Callable[[Sequence[Envelope]], list[Any]]] = {
    "destination": lambda envelopes: _addresses([e.destination for e in envelopes]),
    "message_id": lambda envelopes: _all_shown([e.message_id for e in envelopes]),
    "correlation_id": lambda envelopes: _all_shown(
        [value if isinstance(value, str) else None for value in ([e.correlation_id for e in envelopes])]
    ),
    "reply_to": lambda envelopes: _addresses([e.reply_to for e in envelopes]),
    "type": lambda envelopes: _all_shown([e.jms_type for e in envelopes]),
    "delivery_mode": lambda envelopes: [MODES[e.delivery_mode] for e in envelopes],
    "priority": lambda envelopes: [e.priority for e in envelopes],
    "timestamp": lambda envelopes: [_micros(e.timestamp_ms) for e in envelopes],
    "expiration": lambda envelopes: [_micros(e.expiration_ms) for e in envelopes],
    "kind": lambda envelopes: [KINDS[e.body_kind] for e in envelopes],
}


# Properties of many messages at once, column by column: the result of `pyjms.spark.schema` at a fifth of the cost.
# Messages of one kind have properties of the same names and types, so that a run of them is turned into text property
# by property. Unusual values (invalid Unicode, a header field that no column can hold) are encoded message by message.


class Run(NamedTuple):
    """Consecutive maps of text to text that have the same keys."""

    names: tuple[str, ...]
    maps: int
    items: Sequence[str | None]
    """The values of all maps, map by map; or, if there are as many as `names`, one value for each name, which all maps
    share.
    """


def property_columns(messages: Sequence[ReservedMessage]) -> tuple[list[Run], list[Run]]:
    """Return the columns `properties` and `property_types`. Raises `RowError`."""
    envelopes = [message.envelope for message in messages]
    # A single header field that no column can hold becomes a property of its message, so the keys of the maps differ.
    if not _all_headers_fit(envelopes):
        return _one_by_one(envelopes)
    texts: list[Run] = []
    letters: list[Run] = []
    # `groupby` makes runs of neighbours and keeps the order of the messages, which the rows must have.
    for names, found in groupby(envelopes, _names_of):
        run = list(found)
        if not _add_run(names, run, texts, letters):
            for _, part in groupby(run, _kinds_of):
                alike = list(part)
                if not _add_run(names, alike, texts, letters):
                    spelled, types = _one_by_one(alike)
                    texts += spelled
                    letters += types
    return texts, letters


def _add_run(names: tuple[str, ...], run: Sequence[Envelope], texts: list[Run], letters: list[Run]) -> bool:
    """Add the texts and letters of messages whose properties have these names; return False if the types differ, or a
    value is unusual.
    """
    if any(map(needs_alias, names)):
        return False
    width = len(names)
    items: list[str | None] = [None] * (width * len(run))
    typed: list[str] = []
    kinds: list[str] = []
    values = zip(*[envelope.properties.values() for envelope in run], strict=True)
    for place, (name, column) in enumerate(zip(names, values, strict=True)):
        # Exact types: `bool` and the integers of JMS are subclasses of `int`, and each has a letter of its own.
        its_kinds = set(map(type, column))
        if len(its_kinds) > 1:
            return False
        (kind,) = its_kinds
        write = _WRITERS.get(kind)
        spelled = None if write is None else write(column)
        if spelled is None:
            return False
        # Filled column by column, with a stride: Arrow wants the items of a map column message by message.
        items[place::width] = spelled
        if kind is not str:
            typed.append(name)
            kinds.append(LETTERS[kind])
    texts.append(Run(names, len(run), items))
    letters.append(Run(tuple(typed), len(run), tuple(kinds)))
    return True


def _one_by_one(envelopes: Sequence[Envelope]) -> tuple[list[Run], list[Run]]:
    spelled, types = spelled_properties(envelopes)
    return [Run(tuple(each), 1, tuple(each.values())) for each in spelled], [
        Run(tuple(each), 1, tuple(each.values())) for each in types
    ]


def _names_of(envelope: Envelope) -> tuple[str, ...]:
    return tuple(envelope.properties)


def _kinds_of(envelope: Envelope) -> tuple[type, ...]:
    return tuple(map(type, envelope.properties.values()))


# ------------------------------------------------------------------------------------------------------------ by type


def _strings(column: Sequence[str]) -> Sequence[str] | None:
    joined = "".join(column)
    # None sends the run to the slow path, which encodes such texts in Base64.
    return column if is_unicode(joined) else None


def _booleans(column: Sequence[bool]) -> Sequence[str]:
    return ["true" if value else "false" for value in column]


def _integers(column: Sequence[int]) -> Sequence[str]:
    return list(map(int.__repr__, column))


def _doubles(column: Sequence[float]) -> Sequence[str]:
    # The typed JSON has its own names for infinities and NaN; `repr` writes the shortest text of all other doubles.
    return list(map(float.__repr__ if all(map(isfinite, column)) else double_text, column))


def _floats(column: Sequence[float]) -> Sequence[str]:
    return list(map(float_text, column))


_WRITERS: dict[type, Callable[[Sequence[Any]], Sequence[str] | None]] = {
    str: _strings,
    bool: _booleans,
    **dict.fromkeys((Byte, Short, int, Int, Long), _integers),
    **dict.fromkeys((float, Double), _doubles),
    Float: _floats,
}


# ------------------------------------------------------------------------------------------------------ header fields


def _all_headers_fit(envelopes: Sequence[Envelope]) -> bool:
    """Say whether columns can hold the header fields of all messages, so that none is stored among the properties."""
    correlations = [envelope.correlation_id for envelope in envelopes]
    if bytes in set(map(type, correlations)):
        return False
    # All texts of a page are checked in one join; the slow path finds the one that does not fit.
    texts: list[Any] = [*correlations, *[envelope.message_id for envelope in envelopes]]
    texts += [envelope.jms_type for envelope in envelopes]
    texts += _names([envelope.destination for envelope in envelopes])
    texts += _names([envelope.reply_to for envelope in envelopes])
    times = [envelope.timestamp_ms for envelope in envelopes] + [envelope.expiration_ms for envelope in envelopes]
    return (
        is_unicode("".join(filter(None, texts))) and 0 <= min(times, default=0) <= max(times, default=0) <= TIME_MAX_MS
    )


def _names(addresses: Sequence[Any]) -> Iterable[str]:
    different = {id(address): address for address in addresses}  # most messages share theirs, and hashing costs more
    return [address.name for address in different.values() if address is not None]
