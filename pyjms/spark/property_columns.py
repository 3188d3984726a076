"""Properties of many messages by the column: what `pyjms.spark.schema` says of each message, at a fifth of the price.

Messages of one kind have properties of the same names and types, so that a run of them is turned into text property by property.
Whatever is out of the ordinary (text that is no Unicode, a header field that no column can hold) is spelled message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import isfinite
from typing import Any, NamedTuple

from pyjms.spark.schema import TIME_MAX_MS, needs_alias, spelled_properties
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
    """Add the texts and letters of messages whose properties have these names; False: not all have the same types, or a value is unusual."""
    if any(map(needs_alias, names)):
        return False
    width = len(names)
    items: list[str | None] = [None] * (width * len(run))
    typed: list[str] = []
    kinds: list[str] = []
    values = zip(*[envelope.properties.values() for envelope in run], strict=True)
    for place, (name, column) in enumerate(zip(names, values, strict=True)):
        its_kinds = set(map(type, column))
        if len(its_kinds) > 1:
            return False
        (kind,) = its_kinds
        write = _WRITERS.get(kind)
        spelled = None if write is None else write(column)
        if spelled is None:
            return False
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
    correlations = [envelope.correlation_id for envelope in envelopes]
    if bytes in set(map(type, correlations)):
        return False
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
