"""Properties of many messages by the column: what `pyjms.spark.schema` says of each message, at a fifth of the price.

Messages of one kind have properties of the same names and types, so that a run of them is turned into text property by property.
Whatever is out of the ordinary (text that is no Unicode, a header field that no column can hold) is spelled message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import isfinite
from operator import attrgetter
from typing import Any, NamedTuple

from pyjms.spark.schema import TIME_MAX_MS, spelled_properties
from pyjms.spi.envelope import Envelope
from pyjms.spi.replay import ReservedMessage
from pyjms.spi.typed_json import is_unicode
from pyjms.spi.typed_values import LETTERS, double_text, float_text
from pyjms.types import Byte, Double, Float, Int, Long, Short

__all__ = ["Run", "property_columns"]


class Run(NamedTuple):
    """Maps of text to text, one after the other, that have the same keys."""

    names: tuple[str, ...]
    maps: int
    items: Sequence[str | None]
    """Those of all maps, map by map; or, if there are as many as `names`, those of each."""


def property_columns(messages: Sequence[ReservedMessage]) -> tuple[list[Run], list[Run]]:
    """Return the columns `properties` and `property_types`. Raises `RowError`."""
    envelopes = [message.envelope for message in messages]
    if not _all_headers_fit(envelopes):
        return _one_by_one(envelopes)
    texts: list[Run] = []
    letters: list[Run] = []
    for shape, found in groupby(envelopes, _shape):
        run = list(found)
        width = len(shape) // 2
        names: tuple[str, ...] = shape[:width]
        kinds: tuple[type, ...] = shape[width:]
        columns = _columns(names, kinds, run)
        if columns is None:
            spelled, types = _one_by_one(run)
            texts += spelled
            letters += types
            continue
        items: list[str | None] = [None] * (width * len(run))
        for place, column in enumerate(columns):
            items[place::width] = column
        texts.append(Run(names, len(run), items))
        typed = [place for place, kind in enumerate(kinds) if kind is not str]
        letters.append(Run(tuple(names[p] for p in typed), len(run), tuple(LETTERS[kinds[p]] for p in typed)))
    return texts, letters


def _one_by_one(envelopes: Sequence[Envelope]) -> tuple[list[Run], list[Run]]:
    spelled, types = spelled_properties(envelopes)
    return [Run(tuple(each), 1, tuple(each.values())) for each in spelled], [
        Run(tuple(each), 1, tuple(each.values())) for each in types
    ]


def _shape(envelope: Envelope) -> tuple[Any, ...]:
    """Return the names of a message's properties, and then their types."""
    properties = envelope.properties
    return *properties, *map(type, properties.values())


def _columns(names: tuple[str, ...], kinds: tuple[type, ...], run: Sequence[Envelope]) -> list[Sequence[str]] | None:
    """Return the texts of the properties of a run, property by property; None: spell them one by one."""
    if not is_unicode("".join(names)):
        return None
    columns: list[Sequence[str]] = []
    values = zip(*[envelope.properties.values() for envelope in run], strict=True)
    for kind, column in zip(kinds, values, strict=True):
        write = _WRITERS.get(kind)
        texts = None if write is None else write(column)
        if texts is None:
            return None
        columns.append(texts)
    return columns


# ------------------------------------------------------------------------------------------------------------ by type


def _strings(column: Sequence[str]) -> Sequence[str] | None:
    joined = "".join(column)
    return column if is_unicode(joined) else None


def _booleans(column: Sequence[bool]) -> Sequence[str]:
    return ["true" if value else "false" for value in column]


def _integers(column: Sequence[int]) -> Sequence[str]:
    return list(map(int.__repr__, column))


def _doubles(column: Sequence[float]) -> Sequence[str]:
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
    """Say whether columns can hold the header fields of all messages, so that none stands among the properties."""
    texts: list[str] = []
    for name in ("correlation_id", "message_id", "jms_type"):
        values = list(map(attrgetter(name), envelopes))
        if any(type(value) is bytes for value in values):
            return False
        texts += filter(None, values)
    texts += _names([envelope.destination for envelope in envelopes])
    texts += _names([envelope.reply_to for envelope in envelopes])
    joined = "".join(texts)
    times = [envelope.timestamp_ms for envelope in envelopes] + [envelope.expiration_ms for envelope in envelopes]
    return is_unicode(joined) and 0 <= min(times, default=0) <= max(times, default=0) <= TIME_MAX_MS


def _names(addresses: Sequence[Any]) -> Iterable[str]:
    different = {id(address): address for address in addresses}  # most messages share theirs, and hashing costs more
    return [address.name for address in different.values() if address is not None]
