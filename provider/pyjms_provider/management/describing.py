"""Descriptions of objects, of lists of them, and of the model itself, as JSON.

The condition of a list is written as a message selector (JMS 1.1 §3.8.1), in which identifiers are the fields of the objects:
``waiting > 100 AND name LIKE 'orders.%'``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from heapq import nlargest, nsmallest
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms.spi.selector import Selector, compile_selector
from pyjms.spi.selector.nodes import And, Comparison, Identifier, String
from pyjms_provider.management.errors import BadRequestError
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import AttributeDeclaration, declarations
from pyjms_provider.model.errors import UnknownObjectError, WrongStateError
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.model.managed import OFFSET_MAX, PageRequest, State
from pyjms_provider.model.operations import OperationDeclaration, Statistic, operations_of, statistics_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.model.lookup import Siblings
    from pyjms_provider.model.managed import ChildSource, ManagedObject


FACTS: Final = frozenset(
    {
        "name",
        "type",
        "names",
        "id",
        "category",
        "state",
        "desired_state",
        "error",
        "life_time",
        "created_by",
        "created_at_ms",
        "updated_by",
        "updated_at_ms",
        "model_version",
    }
)
"""The fields that are neither attributes nor statistics."""


def known_fields(category: str) -> frozenset[str]:
    """Return all fields that objects of a category may have, in any of its types."""
    return _known_fields(category, tree.types_of(category))


@cache
def _known_fields(category: str, types: tuple[str, ...]) -> frozenset[str]:
    found = set(FACTS)
    for name in types:
        kind = tree.class_of(category, name)[1]
        found |= {*declarations(kind.attributes_class), *statistics_of(kind)}
    return frozenset(found)


def describe(managed: ManagedObject, fields: Sequence[str] | None = None, *, actual: bool = False) -> dict[str, Any]:
    """Return an object as JSON. `fields`: only these, costly statistics too; None: all cheap ones.

    `actual`: attributes as they were given, with their variables, instead of the effective ones. Values that an object
    cannot compute while it does not run are None. Raises `UnknownObjectError` for one that no longer exists.
    """
    found: dict[str, Any] = {}
    if fields is None or not FACTS.isdisjoint(fields):
        found = {"name": managed.name, "type": managed.type, "names": list(managed.names), **managed.facts()}
        if found["state"] == State.DELETED.value:
            raise UnknownObjectError(f"{managed.path} has gone")
        if fields is not None:
            found = {name: value for name, value in found.items() if name in fields}
    if fields is None or not declarations(managed.attributes_class).keys().isdisjoint(fields):
        found |= managed.attribute_values(fields, actual=actual)
    return found | _statistics(managed, fields)


def _statistics(managed: ManagedObject, fields: Sequence[str] | None) -> dict[str, Any]:
    try:
        return managed.statistic_values(fields)
    except (UnknownObjectError, WrongStateError):
        # Only an object that does not run may lack its statistics: the error of another one is passed on.
        if managed.state in {State.ACTIVE, State.DELETED}:
            raise
    return {
        name: None
        for name, each in statistics_of(type(managed)).items()
        if (not each.is_costly if fields is None else name in fields)
    }


def describe_model() -> dict[str, Any]:
    """Return all categories from the broker down, in the order of the tree's table."""
    return {"categories": [_category(shape) for shape in tree.TREE.values() if shape.category != tree.ROOT]}


def _category(shape: tree.CategoryShape) -> dict[str, Any]:
    category = shape.category
    kinds: dict[type[ManagedObject], list[str]] = {}
    for name in tree.types_of(category):
        kinds.setdefault(tree.class_of(category, name)[1], []).append(name)
    return {
        "category": category,
        "parent": None if category == "broker" else shape.parent,
        "summary": shape.summary,
        "address": [] if category == "broker" else list(names_needed(category)),
        "is_observed": shape.is_observed,
        "is_only_child": shape.is_only_child,
        "default_type": shape.default_type,
        "kinds": [_kind(kind, types) for kind, types in kinds.items()],
    }


def _kind(kind: type[ManagedObject], types: list[str]) -> dict[str, Any]:
    return {
        "types": types,
        "attributes": [_attribute(each) for each in declarations(kind.attributes_class).values()],
        "statistics": [_statistic(each) for each in statistics_of(kind).values()],
        "operations": [_operation(each) for each in operations_of(kind).values()],
    }


def _attribute(declared: AttributeDeclaration) -> dict[str, Any]:
    facts = {each.name: getattr(declared, each.name) for each in fields(declared)}
    allowed = None if declared.allowed is None else list(declared.allowed)
    return {**facts, "allowed": allowed, "schema": _lean(declared.schema)}


def _statistic(declared: Statistic[Any]) -> dict[str, Any]:
    return {
        "name": declared.name,
        "description": declared.description,
        "unit": declared.unit,
        "kind": declared.kind.value,
        "is_costly": declared.is_costly,
        "schema": _lean(declared.schema),
    }


def _operation(declared: OperationDeclaration) -> dict[str, Any]:
    return {
        "name": declared.name,
        "description": declared.description,
        "needs": declared.needs.value,
        "changes": declared.changes,
        "is_long": declared.is_long,
        "parameters": _lean(declared.parameters),
    }


def _lean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with only those definitions that it refers to, directly or through others."""
    lean = {name: value for name, value in schema.items() if name != "$defs"}
    definitions = schema.get("$defs", {})
    needed: dict[str, Any] = {}
    waiting: list[Any] = [lean]
    while waiting:
        text = json.dumps(waiting.pop())
        for name, definition in definitions.items():
            if name not in needed and f'"#/$defs/{name}"' in text:
                needed[name] = definition
                waiting.append(definition)
    return {**lean, "$defs": needed} if needed else lean


LIMIT_MAX: Final = 1000
_NOWHERE: Final = Address(AddressKind.QUEUE, "objects")
_SCALARS: Final = (bool, int, float, str)
_Row = tuple[Any, ...]
"""The siblings, the name, and then the values that are needed, in their order."""
_FIRST: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """A request for a page of objects."""

    fields: tuple[str, ...] | None = None
    """None: all cheap ones."""
    actual: bool = False
    condition: str | None = None
    order: tuple[str, ...] = ()
    """Names of fields; with ``-`` before it, descending."""
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPage:
    """One page."""

    items: Sequence[Mapping[str, Any]]
    total: int
    """The number of all objects that match."""
    offset: int


def list_objects(category: str, found: Sequence[Siblings], request: ListRequest) -> ListedPage:
    """Return a page of those objects. Raises `BadRequestError`, `InvalidSelectorError`.

    Of all objects only the fields of the condition and the order are read; the others only of those on the page.
    """
    selector, needed = _read(category, request)
    rows = [row for group in found for row in _rows(group, needed)]
    if selector is not None:
        rows = _chosen(rows, needed, selector)
    items: list[Mapping[str, Any]] = []
    page = [(group, name) for group, name, *_ in _page(rows, needed, request)]
    for each in _found(page, request):
        with suppress(UnknownObjectError):  # it no longer exists
            if each is not None:
                items.append(describe(each, request.fields, actual=request.actual))
    return ListedPage(items=items, total=len(rows), offset=request.offset)


def _found(page: Sequence[tuple[Siblings, str]], request: ListRequest) -> Iterator[ManagedObject | None]:
    """Yield the objects of a page, in their order: those of one parent are looked up together."""
    names: dict[int, list[str]] = {}
    for group, name in page:
        names.setdefault(id(group), []).append(name)
    groups = {id(group): group for group, _ in page}
    found = {key: groups[key].find_all(each, request.fields, actual=request.actual) for key, each in names.items()}
    for group, name in page:
        yield found[id(group)].get(name)


def page_of_source(category: str, source: ChildSource, request: ListRequest) -> ListedPage | None:
    """Return a page that the source finds by itself; None: it cannot. Raises as `list_objects`."""
    selector, _ = _read(category, request)
    equal = {} if selector is None else _equalities(selector)
    # A source finds pages by equal values and one order; `list_objects` does all else.
    if equal is None or len(request.order) > 1:
        return None
    order = request.order[0] if request.order else "name"
    page = source.page(PageRequest(equal=equal, order=order, offset=request.offset, limit=request.limit))
    if page is None:
        return None
    items = [describe(each, request.fields, actual=request.actual) for each in page.children]
    return ListedPage(items=items, total=page.total, offset=request.offset)


def _read(category: str, request: ListRequest) -> tuple[Selector | None, tuple[str, ...]]:
    """Return the condition, and the fields that it and the order need. Raises as `list_objects`."""
    if not 1 <= request.limit <= LIMIT_MAX:
        raise BadRequestError(f"limit is a number from 1 to {LIMIT_MAX}")
    if not 0 <= request.offset <= OFFSET_MAX:
        raise BadRequestError(f"offset is a number from 0 to {OFFSET_MAX}")
    selector = None if request.condition is None else compile_selector(request.condition)
    needed = _needed(request, selector)
    check_fields(category, {*needed, *(request.fields or ())})
    return selector, needed


def _equalities(selector: Selector) -> dict[str, str] | None:
    """Return the fields and texts of ``name = 'text' AND …``; None: the condition is another one."""
    found: dict[str, str] = {}
    for term in selector.root.terms if isinstance(selector.root, And) else (selector.root,):
        match term:
            # A second condition on the same field is no equality that one lookup could answer.
            case Comparison(operator="=", left=Identifier(name=name), right=String(value=value)) if name not in found:
                found[name] = value
            case _:
                return None
    return found


def _rows(group: Siblings, needed: Sequence[str]) -> Iterable[_Row]:
    """Return siblings with the values needed of each, by column where possible, without making objects."""
    names, source = group.names, group.source
    if all(name == "name" or (source is not None and source.has_column(name)) for name in needed):
        known = {} if source is None else source.columns([name for name in needed if name != "name"])
        columns = [names if name == "name" else map(known[name].get, names) for name in needed]
        return zip(repeat(group), names, *columns)
    return _described(group, needed)


def _described(group: Siblings, needed: Sequence[str]) -> Iterator[_Row]:
    for name in group.names:
        each = group.find(name)
        with suppress(UnknownObjectError):
            if each is not None:
                values = describe(each, needed)
                yield group, name, *map(values.get, needed)


def _chosen(rows: list[_Row], needed: Sequence[str], selector: Selector) -> list[_Row]:
    """Return the rows for which a condition is true."""
    fields: dict[str, Any] = {}
    # One envelope shows each row in turn: making one for each would take longer than all conditions do.
    envelope = Envelope(_NOWHERE, None, 0, 0, 1, 4, None, None, None, fields, BodyKind.NONE, None)
    chosen: list[_Row] = []
    for row in rows:
        fields.clear()
        # Lists, maps and null are no values of a selector: such a field counts as a property that was never set.
        values = zip(needed, row[_FIRST:], strict=True)
        fields.update((name, value) for name, value in values if isinstance(value, _SCALARS))
        if selector.matches(envelope):
            chosen.append(row)
    return chosen


def _page(rows: list[_Row], needed: Sequence[str], request: ListRequest) -> Sequence[_Row]:
    end = request.offset + request.limit
    if len(request.order) == 1:
        name = request.order[0].removeprefix("-")
        key = _key(rows, _FIRST + needed.index(name))
        few = nlargest if request.order[0].startswith("-") else nsmallest
        # A page needs the first rows only; to sort all 10,000 for each page
        # would cost more. These functions are stable, like `sort`.
        return few(end, rows, key=key)[request.offset :]
    rows = list(rows)
    # The last field first: each sort is stable, so rows that are equal in
    # an earlier field keep the order of the later ones.
    for word in reversed(request.order):
        key = _key(rows, _FIRST + needed.index(word.removeprefix("-")))
        rows.sort(key=key, reverse=word.startswith("-"))
    return rows[request.offset : end]


def _key(rows: list[_Row], at: int) -> Callable[[_Row], Any]:
    """Return the sort key of rows: the value itself, if all are of one kind that can be compared."""
    kinds = {type(row[at]) for row in rows}
    if kinds <= {int, bool} or kinds == {str}:
        return itemgetter(at)
    return lambda row: _sort_key(row[at])


def check_fields(category: str, names: Iterable[str]) -> None:
    """Refuse fields that no object of the category has. Raises `BadRequestError`."""
    unknown = sorted(set(names) - known_fields(category))
    if unknown:
        close = get_close_matches(unknown[0], known_fields(category), n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has: {', '.join(sorted(known_fields(category)))}"
        raise BadRequestError(f"a {category} has no field {unknown[0][:80]!r}; {hint}")


def _needed(request: ListRequest, selector: Selector | None) -> tuple[str, ...]:
    names = {name.removeprefix("-") for name in request.order}
    return tuple(names | (selector.identifiers if selector is not None else frozenset()))


def _sort_key(value: Any) -> tuple[int, Any]:
    """Return a sort key for values of different kinds: nothing, numbers, texts, others."""
    if value is None:
        return 0, 0
    if isinstance(value, (bool, int, float)):
        return 1, value
    return (2, value) if isinstance(value, str) else (3, str(value))
