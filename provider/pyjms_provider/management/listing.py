"""Lists of objects: filtered by a condition, sorted, one page at a time.

The condition is written as a message selector (JMS 1.1 §3.8.1), in which identifiers are the fields of the objects:
``waiting > 100 AND name LIKE 'orders.%'``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms.spi.selector import Selector, compile_selector
from pyjms_provider.management.describing import describe, known_fields
from pyjms_provider.management.errors import BadRequestError
from pyjms_provider.model import tree
from pyjms_provider.model.errors import UnknownObjectError
from pyjms_provider.model.statistics import statistics_of

if TYPE_CHECKING:
    from pyjms_provider.model.lookup import Place

__all__ = ["LIMIT_MAX", "ListRequest", "ListedPage", "check_fields", "list_objects"]

LIMIT_MAX: Final = 1000
_NOWHERE: Final = Address(AddressKind.QUEUE, "objects")
_SCALARS: Final = (bool, int, float, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """What somebody wants to see of many objects."""

    fields: tuple[str, ...] | None = None
    """None: all that cost little."""
    actual: bool = False
    condition: str | None = None
    order: tuple[str, ...] = ()
    """Names of fields; with ``-`` before it, downwards."""
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPage:
    """One page."""

    items: Sequence[Mapping[str, Any]]
    total: int
    """How many objects match."""
    offset: int


def list_objects(category: str, found: Sequence[Place], request: ListRequest) -> ListedPage:
    """Return a page of what is at those places. Raises `BadRequestError`, `InvalidSelectorError`."""
    if not 1 <= request.limit <= LIMIT_MAX:
        raise BadRequestError(f"limit is a number from 1 to {LIMIT_MAX}")
    selector = None if request.condition is None else compile_selector(request.condition)
    needed = _needed(request, selector)
    check_fields(category, {*needed, *(request.fields or ())})
    if needed:
        rows = [
            row for row in _rows(category, found, needed) if selector is None or selector.matches(_envelope(row[1]))
        ]
        for name in reversed(request.order):
            rows.sort(key=lambda row: _sort_key(row[1].get(name.removeprefix("-"))), reverse=name.startswith("-"))
        found = [place for place, _ in rows]
    elif selector is not None and not selector.matches(_envelope({})):
        found = []
    items: list[Mapping[str, Any]] = []
    for place in found[request.offset : request.offset + request.limit]:
        each = place.find()
        with suppress(UnknownObjectError):  # it has gone meanwhile
            if each is not None:
                items.append(describe(each, request.fields, actual=request.actual))
    return ListedPage(items=items, total=len(found), offset=request.offset)


def _rows(category: str, found: Sequence[Place], needed: Sequence[str]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield what conditions and orders look at, without making objects where that can be had by the column."""
    measured = {name for kind in tree.types_of(category) for name in statistics_of(tree.class_of(category, kind)[1])}
    columns = [name for name in needed if name != "name"]
    for parent, places in groupby(found, key=lambda place: place.parent):
        source = parent.sources().get(category)
        if source is not None and measured.issuperset(columns):
            values = [(name, source.column(name)) for name in columns]
            for place in places:
                yield place, {"name": place.name, **{name: column.get(place.name) for name, column in values}}
            continue
        for place in places:
            each = place.find()
            with suppress(UnknownObjectError):
                if each is not None:
                    yield place, describe(each, needed)


def check_fields(category: str, names: Iterable[str]) -> None:
    """Refuse fields that no object of the category has. Raises `BadRequestError`."""
    unknown = sorted(set(names) - known_fields(category))
    if unknown:
        close = get_close_matches(unknown[0], known_fields(category), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise BadRequestError(f"a {category} has no field {unknown[0][:80]!r}{hint}")


def _needed(request: ListRequest, selector: Selector | None) -> tuple[str, ...]:
    names = {name.removeprefix("-") for name in request.order}
    return tuple(names | (selector.identifiers if selector is not None else frozenset()))


def _envelope(fields: Mapping[str, Any]) -> Envelope:
    properties = {name: value for name, value in fields.items() if isinstance(value, _SCALARS)}
    return Envelope(_NOWHERE, None, 0, 0, 1, 4, None, None, None, properties, BodyKind.NONE, None)


def _sort_key(value: Any) -> tuple[int, Any]:
    """Return what orders values of different kinds: nothing, numbers, texts, others."""
    if value is None:
        return 0, 0
    if isinstance(value, (bool, int, float)):
        return 1, value
    return (2, value) if isinstance(value, str) else (3, str(value))
