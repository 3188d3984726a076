"""Functions as values, comparators, Optional and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cmp_to_key, reduce
from itertools import count, islice
from typing import Any, Generic, TypeVar

from pyjms.api.enumeration import NoSuchElementException
from pyjms.errors import NullPointerException

__all__ = [
    "Optional",
    "Stream",
    "by_key",
    "comparing",
    "function_of",
    "grouped",
    "implementing",
    "joined",
    "joining",
    "natural",
    "require_non_null",
    "reversed_order",
    "then_comparing",
    "to_map",
]

T = TypeVar("T")

_METHODS = (
    "apply",
    "test",
    "accept",
    "get",
    "compare",
    "applyAsInt",
    "applyAsLong",
    "applyAsDouble",
    "getAsInt",
    "run",
    "call",
)


def function_of(given: Any) -> Callable[..., Any]:
    """Return a function: itself, or the one method of an object that implements an interface of Java's."""
    if callable(given):
        return given  # type: ignore[no-any-return]
    return next(getattr(given, name) for name in _METHODS if hasattr(given, name))  # type: ignore[no-any-return]


def implementing(kind: type, method: str, function: Callable[..., Any]) -> Any:
    """Return an object that implements an interface of the program by a function."""
    return type(kind.__name__, (kind,), {method: staticmethod(function)})()


def require_non_null(value: T | None, reason: str | None = None) -> T:
    """Return an object that must be there. Raises `NullPointerException`."""
    if value is None:
        raise NullPointerException(reason) if reason is not None else NullPointerException
    return value


def natural(one: Any, other: Any) -> int:
    """Return which of two values comes first in their own order."""
    own = getattr(one, "compareTo", None)
    if own is not None:
        return own(other)  # type: ignore[no-any-return]
    if one is None or other is None:
        raise NullPointerException
    return int(one > other) - int(one < other)


def comparison(order: Any) -> Callable[[Any, Any], int]:
    """Return the function of a Comparator; None: the order of the values themselves."""
    return natural if order is None else function_of(order)


def comparing(key: Any, order: Any = None) -> Callable[[Any, Any], int]:
    """Return a Comparator of what a function takes from values."""
    function, compare = function_of(key), comparison(order)
    return lambda one, other: compare(function(one), function(other))


def then_comparing(order: Any, more: Any) -> Callable[[Any, Any], int]:
    """Return a Comparator that asks a second one where the first finds no difference."""
    first, second = comparison(order), comparison(more)
    return lambda one, other: first(one, other) or second(one, other)


def reversed_order(order: Any = None) -> Callable[[Any, Any], int]:
    """Return a Comparator the other way round."""
    compare = comparison(order)
    return lambda one, other: compare(other, one)


def by_key(place: int) -> Callable[[Any, Any], int]:
    """Return a Comparator of the keys (0) or values (1) of entries."""
    return lambda one, other: natural(one[place], other[place])


class Optional(Generic[T]):
    """java.util.Optional."""

    def __init__(self, value: T | None = None) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Optional) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def isPresent(self) -> bool:
        """Return whether there is a value."""
        return self._value is not None

    def isEmpty(self) -> bool:
        """Return whether there is none."""
        return self._value is None

    def get(self) -> T:
        """Return the value. Raises `NoSuchElementException`."""
        if self._value is None:
            raise NoSuchElementException("No value present")
        return self._value

    def orElse(self, other: T) -> T:
        """Return the value, or another one."""
        return other if self._value is None else self._value

    def orElseGet(self, other: Any) -> T:
        """Return the value, or what a function makes."""
        return function_of(other)() if self._value is None else self._value

    def orElseThrow(self, error: Any) -> T:
        """Return the value, or raise what a function makes."""
        if self._value is None:
            made: BaseException = function_of(error)()
            raise made
        return self._value

    def ifPresent(self, use: Any) -> None:
        """Call a function with the value, if there is one."""
        if self._value is not None:
            function_of(use)(self._value)

    def map(self, change: Any) -> Optional[Any]:
        """Return what a function makes of the value."""
        return Optional(None if self._value is None else function_of(change)(self._value))

    def filter(self, asked: Any) -> Optional[T]:
        """Return it if a function is true for the value, else one without value."""
        return self if self._value is None or function_of(asked)(self._value) else Optional()

    def toString(self) -> str:
        """Return such as ``Optional[x]``."""
        from pyjms.porting.java.strings import text

        return "Optional.empty" if self._value is None else f"Optional[{text(self._value)}]"


class Stream(Generic[T]):
    """java.util.stream.Stream, and those of numbers."""

    def __init__(self, elements: Iterable[T]) -> None:
        self._elements = elements

    def __iter__(self) -> Iterator[T]:
        return iter(self._elements)

    def filter(self, asked: Any) -> Stream[T]:
        """Keep what a function is true for."""
        return Stream(filter(function_of(asked), self._elements))

    def map(self, change: Any) -> Stream[Any]:
        """Have what a function makes of each."""
        return Stream(map(function_of(change), self._elements))

    def flatMap(self, change: Any) -> Stream[Any]:
        """Have all elements of the streams that a function makes of each."""
        function = function_of(change)
        return Stream(inner for each in self._elements for inner in function(each))

    def peek(self, use: Any) -> Stream[T]:
        """Call a function with each on its way."""
        function = function_of(use)

        def passed() -> Iterator[T]:
            for each in self._elements:
                function(each)
                yield each

        return Stream(passed())

    def distinct(self) -> Stream[T]:
        """Leave out what came before."""
        return Stream(dict.fromkeys(self._elements))

    def sorted(self, order: Any = None) -> Stream[T]:
        """Put them in order."""
        return Stream(sorted(self._elements, key=cmp_to_key(comparison(order))))

    def limit(self, most: int) -> Stream[T]:
        """Take the first ones."""
        return Stream(islice(self._elements, most))

    def skip(self, number: int) -> Stream[T]:
        """Leave out the first ones."""
        return Stream(islice(self._elements, number, None))

    def forEach(self, use: Any) -> None:
        """Call a function with each."""
        function = function_of(use)
        for each in self._elements:
            function(each)

    def toList(self) -> list[T]:
        """Return a list."""
        return list(self._elements)

    def count(self) -> int:
        """Return how many there are."""
        return sum(1 for _ in self._elements)

    def sum(self) -> Any:
        """Return the sum."""
        return sum(self._elements)

    def average(self) -> Optional[float]:
        """Return the average, if there are any."""
        found: list[Any] = list(self._elements)
        return Optional(sum(found) / len(found)) if found else Optional()

    def anyMatch(self, asked: Any) -> bool:
        """Return whether a function is true for one."""
        return any(map(function_of(asked), self._elements))

    def allMatch(self, asked: Any) -> bool:
        """Return whether a function is true for all."""
        return all(map(function_of(asked), self._elements))

    def noneMatch(self, asked: Any) -> bool:
        """Return whether a function is true for none."""
        return not self.anyMatch(asked)

    def findFirst(self) -> Optional[T]:
        """Return the first, if there is one."""
        return Optional(next(iter(self._elements), None))

    def reduce(self, start: Any, combine: Any) -> Any:
        """Return what a function makes of all, beginning with `start`."""
        return reduce(function_of(combine), self._elements, start)

    def reduced(self, combine: Any) -> Optional[Any]:
        """Return what a function makes of all, if there are any."""
        found = list(self._elements)
        return Optional(reduce(function_of(combine), found)) if found else Optional()

    def max(self, order: Any = None) -> Optional[T]:
        """Return the greatest, if there are any; of equal ones the last."""
        found = sorted(self._elements, key=cmp_to_key(comparison(order)))
        return Optional(found[-1] if found else None)

    def min(self, order: Any = None) -> Optional[T]:
        """Return the smallest, if there are any."""
        return Optional(min(self._elements, key=cmp_to_key(comparison(order)), default=None))

    def collect(self, collector: Callable[[Iterable[T]], Any]) -> Any:
        """Return what a collector makes of all."""
        return collector(self._elements)

    @staticmethod
    def iterate(start: Any, change: Any) -> Stream[Any]:
        """Return an endless stream of what a function makes again and again."""
        function = function_of(change)

        def made() -> Iterator[Any]:
            value = start
            while True:
                yield value
                value = function(value)

        return Stream(made())

    @staticmethod
    def generate(make: Any) -> Stream[Any]:
        """Return an endless stream of what a function makes."""
        function = function_of(make)
        return Stream(function() for _ in count())


def joined(elements: Iterable[str], separator: str = "", before: str = "", after: str = "") -> str:
    """Return texts one after the other."""
    return before + separator.join(elements) + after


def joining(separator: str = "", before: str = "", after: str = "") -> Callable[[Iterable[str]], str]:
    """Return the collector that joins texts."""
    return lambda elements: joined(elements, separator, before, after)


def grouped(key: Any, collector: Callable[[Iterable[Any]], Any] = list) -> Callable[[Iterable[Any]], dict[Any, Any]]:
    """Return the collector that puts elements into groups by what a function says: ``Collectors.groupingBy``."""
    function = function_of(key)

    def collect(elements: Iterable[Any]) -> dict[Any, Any]:
        groups: dict[Any, list[Any]] = {}
        for each in elements:
            groups.setdefault(function(each), []).append(each)
        return {name: collector(group) for name, group in groups.items()}

    return collect


def to_map(key: Any, value: Any) -> Callable[[Iterable[Any]], dict[Any, Any]]:
    """Return the collector that makes a map: ``Collectors.toMap``."""
    first, second = function_of(key), function_of(value)
    return lambda elements: {first(each): second(each) for each in elements}
