"""Lists of objects: filtered by a condition, sorted, one page at a time.

The condition is written as a message selector (JMS 1.1 §3.8.1), in which identifiers are the fields of the objects:
``waiting > 100 AND name LIKE 'orders.%'``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms.spi.selector import Selector, compile_selector
from pyjms_provider.management.describing import describe
from pyjms_provider.management.errors import BadRequestError

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["LIMIT_MAX", "ListRequest", "ListedPage", "list_objects"]

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


def list_objects(objects: Iterable[ManagedObject], request: ListRequest) -> ListedPage:
    """Return a page. Raises `BadRequestError`, `InvalidSelectorError`."""
    if not 1 <= request.limit <= LIMIT_MAX:
        raise BadRequestError(f"limit is a number from 1 to {LIMIT_MAX}")
    if request.offset < 0:
        raise BadRequestError("offset is a number from 0")
    selector = None if request.condition is None else compile_selector(request.condition)
    if selector is None and not request.order:
        every = list(objects)  # only those of the page are described
        page = every[request.offset : request.offset + request.limit]
        items = [describe(each, request.fields, actual=request.actual) for each in page]
        return ListedPage(items=items, total=len(every), offset=request.offset)
    needed = _needed(request, selector)
    found: list[tuple[ManagedObject, dict[str, Any]]] = []
    for each in objects:
        keys = describe(each, needed)
        if selector is None or selector.matches(_as_envelope(keys)):
            found.append((each, keys))
    for name in reversed(request.order):
        found.sort(key=lambda pair: _sort_key(pair[1].get(name.removeprefix("-"))), reverse=name.startswith("-"))
    page_of = found[request.offset : request.offset + request.limit]
    items = [describe(each, request.fields, actual=request.actual) for each, _ in page_of]
    return ListedPage(items=items, total=len(found), offset=request.offset)


def _needed(request: ListRequest, selector: Selector | None) -> tuple[str, ...]:
    names = {name.removeprefix("-") for name in request.order}
    return tuple(names | (selector.identifiers if selector is not None else frozenset()))


def _as_envelope(fields: Mapping[str, Any]) -> Envelope:
    properties = {name: value for name, value in fields.items() if isinstance(value, _SCALARS)}
    return Envelope(_NOWHERE, None, 0, 0, 1, 4, None, None, None, properties, BodyKind.NONE, None)


def _sort_key(value: Any) -> tuple[int, Any]:
    """Return what orders values of different kinds: nothing, numbers, texts, others."""
    if value is None:
        return 0, 0
    if isinstance(value, (bool, int, float)):
        return 1, value
    return (2, value) if isinstance(value, str) else (3, str(value))
