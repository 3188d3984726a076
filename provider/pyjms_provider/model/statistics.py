"""Statistics: what is read from an object and never set, declared where it is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Self, TypeVar, get_type_hints, overload

from pydantic import TypeAdapter

_T = TypeVar("_T")


class StatisticKind(Enum):
    """How a statistic moves."""

    GAUGE = "gauge"
    """It goes up and down, or is a text or a time."""
    COUNTER = "counter"
    """It grows as long as the object lives."""
    RATE = "rate"
    """So many a second, lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticDeclaration:
    """What there is to know of a statistic."""

    name: str
    description: str
    unit: str | None
    kind: StatisticKind
    is_costly: bool
    """It takes long for a large object, so lists leave it out unless it is asked for by name."""
    schema: Mapping[str, Any]


class Statistic(Generic[_T]):
    """A property of a managed object that is a statistic."""

    def __init__(
        self, compute: Callable[[Any], _T], description: str, unit: str | None, kind: StatisticKind, is_costly: bool
    ) -> None:
        self.compute = compute
        self.description = description
        self.unit = unit
        self.kind = kind
        self.is_costly = is_costly
        self.__doc__ = description

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type) -> _T: ...

    def __get__(self, owner: object | None, kind: type) -> Self | _T:
        """Compute it."""
        return self if owner is None else self.compute(owner)


def statistic(
    description: str,
    *,
    unit: str | None = None,
    kind: StatisticKind = StatisticKind.GAUGE,
    costly: bool = False,
) -> Callable[[Callable[[Any], _T]], Statistic[_T]]:
    """Declare the method below as a statistic: a property that any thread may read at any time."""

    def declare(compute: Callable[[Any], _T]) -> Statistic[_T]:
        return Statistic(compute, description, unit, kind, costly)

    return declare


def statistics_of(category: type) -> Mapping[str, StatisticDeclaration]:
    """Return the statistics of a class of managed objects by name, in the order of declaration, inherited ones first."""
    found = _known.get(category)
    if found is None:
        # Of a tuple: Python adds to a class when another thread asks for its annotations.
        found = _known[category] = {
            name: _declaration(name, each)
            for base in reversed(category.__mro__)
            for name, each in tuple(vars(base).items())
            if isinstance(each, Statistic) and getattr(category, name) is each
        }
    return found


_known: Final[dict[type, Mapping[str, StatisticDeclaration]]] = {}


def _declaration(name: str, found: Statistic[Any]) -> StatisticDeclaration:
    hint = get_type_hints(found.compute, include_extras=True)["return"]
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    return StatisticDeclaration(
        name=name,
        description=found.description,
        unit=found.unit,
        kind=found.kind,
        is_costly=found.is_costly,
        schema=adapter.json_schema(mode="serialization"),
    )
