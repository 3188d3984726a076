"""Functions as values, comparators, Optional, streams, and collections that Python lacks."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence
from functools import cmp_to_key, reduce
from itertools import count, islice
from typing import Any, Generic, TypeVar

from pyjms.api.base import NoSuchElementException
from pyjms.errors import IndexOutOfBoundsException, NullPointerException, UnsupportedOperationException
from pyjms.porting.java.errors import ArrayIndexOutOfBoundsException, EmptyStackException, IllegalStateException
from pyjms.porting.java.numbers import compared_doubles
from pyjms.types import Long

__all__ = [
    "BlockingQueue",
    "Elements",
    "LinkedSet",
    "Optional",
    "PriorityQueue",
    "Stream",
    "TreeMap",
    "TreeSet",
    "UnmodifiableList",
    "UnmodifiableMap",
    "added_all_to_set",
    "by_key",
    "comparing",
    "computed",
    "computed_if_absent",
    "computed_if_present",
    "counted",
    "double_key",
    "each_entry",
    "element",
    "enumeration",
    "fill",
    "first",
    "frequency",
    "function_of",
    "grouped",
    "implementing",
    "joined",
    "joining",
    "last",
    "merged",
    "natural",
    "polled",
    "popped",
    "pushed",
    "put_if_absent",
    "removed_all",
    "removed_first",
    "removed_if",
    "replace_all",
    "require_element",
    "require_non_null",
    "required",
    "retained_all",
    "reversed_order",
    "sort",
    "sublist",
    "swapped",
    "then_comparing",
    "to_map",
    "top_of",
    "vector_element",
]

_T = TypeVar("_T")

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
    """Return a function: itself, or the method of an object that implements a functional interface of Java."""
    # Lambdas and method references are functions of Python already; only objects of classes have a named method.
    if callable(given):
        return given  # type: ignore[no-any-return]
    return next(getattr(given, name) for name in _METHODS if hasattr(given, name))  # type: ignore[no-any-return]


def implementing(kind: type, method: str, function: Callable[..., Any]) -> Any:
    """Return an object that implements an interface of the program with a function."""
    # A class is made for each call: default methods of the interface are inherited, and the function gets no `self`.
    return type(kind.__name__, (kind,), {method: staticmethod(function)})()


def require_non_null(value: _T | None, reason: str | None = None) -> _T:
    """Return a non-null object. Raises `NullPointerException`."""
    if value is None:
        raise NullPointerException(reason) if reason is not None else NullPointerException
    return value


def natural(one: Any, other: Any) -> int:
    """Compare two values by their natural order."""
    # First, as a class of the program may define only this and none of Python's comparisons.
    own = getattr(one, "compareTo", None)
    if own is not None:
        return own(other)  # type: ignore[no-any-return]
    if one is None or other is None:
        raise NullPointerException
    return int(one > other) - int(one < other)


def comparison(order: Any) -> Callable[[Any, Any], int]:
    """Return the function of a Comparator; None: the natural order."""
    return natural if order is None else function_of(order)


def comparing(key: Any, order: Any = None) -> Callable[[Any, Any], int]:
    """Return a Comparator of the keys that a function extracts."""
    function, compare = function_of(key), comparison(order)
    return lambda one, other: compare(function(one), function(other))


def then_comparing(order: Any, more: Any) -> Callable[[Any, Any], int]:
    """Return a Comparator that uses a second one for equal values."""
    first, second = comparison(order), comparison(more)
    # 0 means equal, which is false in Python.
    return lambda one, other: first(one, other) or second(one, other)


def reversed_order(order: Any = None) -> Callable[[Any, Any], int]:
    """Return the reverse of a Comparator."""
    compare = comparison(order)
    return lambda one, other: compare(other, one)


def by_key(place: int) -> Callable[[Any, Any], int]:
    """Return a Comparator of the keys (0) or values (1) of entries."""
    return lambda one, other: natural(one[place], other[place])


class Optional(Generic[_T]):
    """java.util.Optional."""

    def __init__(self, value: _T | None = None) -> None:
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

    def get(self) -> _T:
        """Return the value. Raises `NoSuchElementException`."""
        if self._value is None:
            raise NoSuchElementException("No value present")
        return self._value

    def orElse(self, other: _T) -> _T:
        """Return the value, or another one."""
        return other if self._value is None else self._value

    def orElseGet(self, other: Any) -> _T:
        """Return the value, or what a function makes."""
        return function_of(other)() if self._value is None else self._value

    def orElseThrow(self, error: Any) -> _T:
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

    def filter(self, asked: Any) -> Optional[_T]:
        """Return it if a function is true for the value, otherwise one without value."""
        return self if self._value is None or function_of(asked)(self._value) else Optional()

    def toString(self) -> str:
        """Return such as ``Optional[x]``."""
        from pyjms.porting.java.strings import text

        return "Optional.empty" if self._value is None else f"Optional[{text(self._value)}]"


class Stream(Generic[_T]):
    """java.util.stream.Stream, and those of numbers."""

    def __init__(self, elements: Iterable[_T]) -> None:
        self._elements = elements

    def __iter__(self) -> Iterator[_T]:
        return iter(self._elements)

    def filter(self, asked: Any) -> Stream[_T]:
        """Keep the elements for which a function is true."""
        return Stream(filter(function_of(asked), self._elements))

    def map(self, change: Any) -> Stream[Any]:
        """Replace each element by a function's result."""
        return Stream(map(function_of(change), self._elements))

    def flatMap(self, change: Any) -> Stream[Any]:
        """Replace each element by the elements of the stream that a function returns."""
        function = function_of(change)
        return Stream(inner for each in self._elements for inner in function(each))

    def peek(self, use: Any) -> Stream[_T]:
        """Call a function with each element that passes."""
        function = function_of(use)

        def passed() -> Iterator[_T]:
            for each in self._elements:
                function(each)
                yield each

        return Stream(passed())

    def distinct(self) -> Stream[_T]:
        """Leave out duplicates."""
        # A dict keeps the order of arrival, which `distinct` promises for ordered streams.
        return Stream(dict.fromkeys(self._elements))

    def sorted(self, order: Any = None) -> Stream[_T]:
        """Put them in order."""
        return Stream(sorted(self._elements, key=cmp_to_key(comparison(order))))

    def limit(self, most: int) -> Stream[_T]:
        """Take the first ones."""
        return Stream(islice(self._elements, most))

    def skip(self, number: int) -> Stream[_T]:
        """Leave out the first ones."""
        return Stream(islice(self._elements, number, None))

    def forEach(self, use: Any) -> None:
        """Call a function with each."""
        function = function_of(use)
        for each in self._elements:
            function(each)

    def toList(self) -> list[_T]:
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

    def findFirst(self) -> Optional[_T]:
        """Return the first, if there is one."""
        return Optional(next(iter(self._elements), None))

    def reduce(self, start: Any, combine: Any) -> Any:
        """Return the reduction of all elements, starting with `start`."""
        return reduce(function_of(combine), self._elements, start)

    def reduced(self, combine: Any) -> Optional[Any]:
        """Return the reduction of all elements, if there are any."""
        found = list(self._elements)
        return Optional(reduce(function_of(combine), found)) if found else Optional()

    def max(self, order: Any = None) -> Optional[_T]:
        """Return the greatest, if there are any; of equal ones the last."""
        # Python's `max` returns the first of equal ones, Java's the last.
        found = sorted(self._elements, key=cmp_to_key(comparison(order)))
        return Optional(found[-1] if found else None)

    def min(self, order: Any = None) -> Optional[_T]:
        """Return the smallest, if there are any."""
        return Optional(min(self._elements, key=cmp_to_key(comparison(order)), default=None))

    def collect(self, collector: Callable[[Iterable[_T]], Any]) -> Any:
        """Return a collector's result for all elements."""
        return collector(self._elements)

    @staticmethod
    def iterate(start: Any, change: Any) -> Stream[Any]:
        """Return an endless stream of repeated applications of a function."""
        function = function_of(change)

        def made() -> Iterator[Any]:
            value = start
            while True:
                yield value
                value = function(value)

        return Stream(made())

    @staticmethod
    def generate(make: Any) -> Stream[Any]:
        """Return an endless stream of a function's results."""
        function = function_of(make)
        return Stream(function() for _ in count())


def joined(elements: Iterable[str], separator: str = "", before: str = "", after: str = "") -> str:
    """Return texts joined."""
    return before + separator.join(elements) + after


def joining(separator: str = "", before: str = "", after: str = "") -> Callable[[Iterable[str]], str]:
    """Return the collector that joins texts."""
    return lambda elements: joined(elements, separator, before, after)


def grouped(key: Any, collector: Callable[[Iterable[Any]], Any] = list) -> Callable[[Iterable[Any]], dict[Any, Any]]:
    """Return the collector that groups elements by a function's result: ``Collectors.groupingBy``."""
    function = function_of(key)

    def collect(elements: Iterable[Any]) -> dict[Any, Any]:
        groups: dict[Any, list[Any]] = {}
        for each in elements:
            groups.setdefault(function(each), []).append(each)
        # The collectors run when all groups are complete: each of them takes a whole iterable.
        return {name: collector(group) for name, group in groups.items()}

    return collect


def to_map(key: Any, value: Any) -> Callable[[Iterable[Any]], dict[Any, Any]]:
    """Return the collector that makes a map: ``Collectors.toMap``."""
    first, second = function_of(key), function_of(value)
    return lambda elements: {first(each): second(each) for each in elements}


_K = TypeVar("_K")
_V = TypeVar("_V")


class TreeMap(dict[_K, _V]):
    """java.util.TreeMap: a dictionary with sorted keys."""

    def __init__(self, given: Any = ()) -> None:
        # The argument of `new TreeMap(…)` is a Comparator or another map.
        takes_order = given is not None and not isinstance(given, (dict, tuple))
        super().__init__(() if takes_order else given)
        self._key = cmp_to_key(comparison(given)) if takes_order else cmp_to_key(comparison(None))

    def __iter__(self) -> Iterator[_K]:
        return iter(sorted(super().keys(), key=self._key))

    def keys(self) -> Any:
        """Return the keys in their order."""
        return list(self)

    def values(self) -> Any:
        """Return the values in the order of their keys."""
        return [self[each] for each in self]

    def items(self) -> Any:
        """Return the entries in the order of their keys."""
        return [(each, self[each]) for each in self]

    def _near(self, key: _K, *, above: bool, same: bool) -> _K | None:
        wanted = self._key(key)
        keys = [(self._key(each), each) for each in self]
        if above:
            found = [each for place, each in keys if place > wanted or (same and place == wanted)]
            return found[0] if found else None
        found = [each for place, each in keys if place < wanted or (same and place == wanted)]
        return found[-1] if found else None

    def firstKey(self) -> _K:
        """Return the lowest key."""
        return first(list(self))

    def lastKey(self) -> _K:
        """Return the highest key."""
        return last(list(self))

    def firstEntry(self) -> tuple[_K, _V] | None:
        """Return the lowest entry, or None."""
        return self.items()[0] if self else None

    def lastEntry(self) -> tuple[_K, _V] | None:
        """Return the highest entry, or None."""
        return self.items()[-1] if self else None

    def floorKey(self, key: _K) -> _K | None:
        """Return the highest key that is not above `key`."""
        return self._near(key, above=False, same=True)

    def ceilingKey(self, key: _K) -> _K | None:
        """Return the lowest key that is not below `key`."""
        return self._near(key, above=True, same=True)

    def lowerKey(self, key: _K) -> _K | None:
        """Return the highest key that is lower."""
        return self._near(key, above=False, same=False)

    def higherKey(self, key: _K) -> _K | None:
        """Return the lowest key that is higher."""
        return self._near(key, above=True, same=False)


class TreeSet(set[_T]):
    """java.util.TreeSet: a sorted set."""

    def __init__(self, given: Any = ()) -> None:
        takes_order = not isinstance(given, Iterable)
        super().__init__(() if takes_order else given)
        self._key = cmp_to_key(comparison(given if takes_order else None))

    def __iter__(self) -> Iterator[_T]:
        return iter(sorted(super().copy(), key=self._key))

    def copy(self) -> set[_T]:
        """Return the elements, unsorted."""
        return set(super().__iter__())

    def first(self) -> _T:
        """Return the lowest element."""
        return first(list(self))

    def last(self) -> _T:
        """Return the highest element."""
        return last(list(self))


class PriorityQueue(Generic[_T]):
    """java.util.PriorityQueue."""

    def __init__(self, order: Any = None) -> None:
        self._key = cmp_to_key(comparison(order))
        self._heap: list[tuple[Any, int, _T]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[_T]:
        return (each for _, _, each in sorted(self._heap, key=lambda entry: entry[:2]))

    def add(self, value: _T) -> bool:
        """Add an element."""
        self._count += 1
        # The count keeps equal elements in their order, and values from being compared.
        heapq.heappush(self._heap, (self._key(value), self._count, value))
        return True

    def poll(self) -> _T | None:
        """Take the lowest element out, or return None."""
        return heapq.heappop(self._heap)[2] if self._heap else None

    def peek(self) -> _T | None:
        """Return the lowest element, or None."""
        return self._heap[0][2] if self._heap else None

    def clear(self) -> None:
        """Take all out."""
        self._heap.clear()


class BlockingQueue(Generic[_T]):
    """java.util.concurrent.BlockingQueue, and the non-blocking queues of that package."""

    def __init__(self, capacity: int = (1 << 31) - 1) -> None:
        self._capacity = capacity
        self._elements: deque[_T] = deque()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[_T]:
        with self._changed:
            # A copy under the lock: Java's iterators of these queues are weakly consistent and never fail.
            return iter(list(self._elements))

    def __contains__(self, value: object) -> bool:
        return value in list(self)

    def put(self, value: _T, seconds: float | None = None) -> bool:
        """Add an element once there is room; return whether there was in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._elements) < self._capacity, seconds):
                return False
            self._elements.append(value)
            # All, since producers and consumers wait for one condition.
            self._changed.notify_all()
            return True

    def offer(self, value: _T, seconds: float = 0) -> bool:
        """Add an element if there is room."""
        return self.put(value, seconds)

    def add(self, value: _T) -> bool:
        """Add an element. Raises `IllegalStateException` where there is no room."""
        if not self.put(value, 0):
            raise IllegalStateException("Queue full")
        return True

    def take(self) -> _T:
        """Take the first element out, once there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._elements)
            return self._taken()

    def poll(self, seconds: float = 0) -> _T | None:
        """Take the first element out, or return None."""
        with self._changed:
            return self._taken() if self._changed.wait_for(lambda: self._elements, seconds) else None

    def _taken(self) -> _T:
        found = self._elements.popleft()
        self._changed.notify_all()
        return found

    def peek(self) -> _T | None:
        """Return the first element, or None."""
        with self._changed:
            return self._elements[0] if self._elements else None

    def remove(self, *value: _T) -> Any:
        """Take out the first element, which must exist; or a given one, and return whether it existed."""
        with self._changed:
            if not value:
                if not self._elements:
                    raise NoSuchElementException
                return self._taken()
            if value[0] not in self._elements:
                return False
            self._elements.remove(value[0])
            self._changed.notify_all()
            return True

    def remainingCapacity(self) -> int:
        """Return how much room there is."""
        return self._capacity - len(self._elements)

    def drainTo(self, target: list[_T]) -> int:
        """Move all elements to a list."""
        with self._changed:
            # The condition's lock may be entered again, so `clear` is called while it is held.
            found = list(self._elements)
            self.clear()
            target.extend(found)
            return len(found)

    def clear(self) -> None:
        """Take all out."""
        with self._changed:
            self._elements.clear()
            self._changed.notify_all()


def element(elements: Any, index: int) -> Any:
    """Return an element of a list by its index. Raises `IndexOutOfBoundsException`."""
    if not 0 <= index < len(elements):
        raise IndexOutOfBoundsException(f"Index {index} out of bounds for length {len(elements)}")
    return elements[index]


def first(elements: list[_T]) -> _T:
    """Return the first element. Raises `NoSuchElementException`."""
    if not elements:
        raise NoSuchElementException
    return elements[0]


def last(elements: list[_T]) -> _T:
    """Return the last element. Raises `NoSuchElementException`."""
    if not elements:
        raise NoSuchElementException
    return elements[-1]


def polled(elements: list[_T], place: int = 0) -> _T | None:
    """Take out the first element, or the last; None if there is none."""
    return elements.pop(place) if elements else None


def removed_first(elements: list[_T], place: int = 0) -> _T:
    """Take the first element out, or the last. Raises `NoSuchElementException`."""
    if not elements:
        raise NoSuchElementException
    return elements.pop(place)


def popped(elements: list[_T]) -> _T:
    """Take the top of a stack. Raises `EmptyStackException`."""
    if not elements:
        raise EmptyStackException
    return elements.pop()


def removed_all(elements: Any, more: Iterable[Any]) -> bool:
    """Remove all elements that are among others, and return whether there were any."""
    return removed_if(elements, set(more).__contains__)


def retained_all(elements: Any, more: Iterable[Any]) -> bool:
    """Keep only elements that are among others, and return whether any were removed."""
    kept = set(more)
    return removed_if(elements, lambda each: each not in kept)


def removed_if(elements: Any, asked: Any) -> bool:
    """Remove all elements for which a function is true, and return whether there were any."""
    test, found = function_of(asked), False
    # a copy, as the collection changes meanwhile
    for each in list(elements):
        if test(each):
            found = True
            elements.remove(each)
    return found


def replace_all(elements: MutableSequence[_T], change: Any) -> None:
    """Replace each element by a function's result."""
    function = function_of(change)
    elements[:] = [function(each) for each in elements]


def sublist(elements: list[_T], start: int, end: int) -> list[_T]:
    """Return a part of a list, as a copy."""
    if start < 0:
        raise IndexOutOfBoundsException(f"fromIndex = {start}")
    if end > len(elements):
        raise IndexOutOfBoundsException(f"toIndex = {end}")
    return elements[start:end]


def sort(elements: list[_T], order: Any = None) -> None:
    """Sort a list, by its own order or by a Comparator."""
    elements.sort(key=cmp_to_key(comparison(order)))


def frequency(elements: Iterable[_T], value: _T) -> int:
    """Return how many elements equal a value."""
    return sum(each == value for each in elements)


def put_if_absent(mapping: MutableMapping[_K, _V], key: _K, value: _V) -> _V | None:
    """Return the value of a key, or put one and return None."""
    old = mapping.get(key)
    # A key with the value null counts as absent in Java.
    if old is None:
        mapping[key] = value
    return old


def merged(mapping: MutableMapping[_K, _V], key: _K, value: _V, combine: Any) -> _V | None:
    """Put a value, or a function's result for the old one and it."""
    old = mapping.get(key)
    return _result(mapping, key, value if old is None else function_of(combine)(old, value))


def computed(mapping: MutableMapping[_K, _V], key: _K, compute: Any) -> _V | None:
    """Put a function's result for a key and its value."""
    return _result(mapping, key, function_of(compute)(key, mapping.get(key)))


def computed_if_absent(mapping: MutableMapping[_K, _V], key: _K, compute: Any) -> _V | None:
    """Return the value of a key; a function makes a missing one."""
    old = mapping.get(key)
    return old if old is not None else _result(mapping, key, function_of(compute)(key))


def computed_if_present(mapping: MutableMapping[_K, _V], key: _K, compute: Any) -> _V | None:
    """Replace an existing value of a key by a function's result."""
    old = mapping.get(key)
    return None if old is None else _result(mapping, key, function_of(compute)(key, old))


def _result(mapping: MutableMapping[_K, _V], key: _K, value: _V | None) -> _V | None:
    # A function that returns null removes the key (Map.compute, Map.merge).
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
    return value


class enumeration(Generic[_T]):  # noqa: N801  it is written like a function
    """java.util.Enumeration over a collection."""

    def __init__(self, elements: Iterable[_T], reason: str | None = None) -> None:
        self._elements = list(elements)
        self._reason = reason

    def hasMoreElements(self) -> bool:
        """Return whether there is another element."""
        return bool(self._elements)

    def nextElement(self) -> _T:
        """Return the next element. Raises `NoSuchElementException`."""
        if not self._elements:
            raise NoSuchElementException(self._reason) if self._reason else NoSuchElementException
        return self._elements.pop(0)

    def count(self) -> int:
        """Return how many elements are left."""
        return len(self._elements)


class LinkedSet(set[_T]):
    """java.util.LinkedHashSet: a set in insertion order."""

    def __init__(self, given: Iterable[_T] = ()) -> None:
        self._order: dict[_T, None] = dict.fromkeys(given)
        # The set gives membership and equality, the dict the order.
        super().__init__(self._order)

    def __iter__(self) -> Iterator[_T]:
        return iter(self._order)

    def add(self, value: _T) -> None:
        """Add an element at the end, unless it is there."""
        super().add(value)
        self._order.setdefault(value)

    def remove(self, value: _T) -> None:
        """Take an element out."""
        super().remove(value)
        del self._order[value]

    def clear(self) -> None:
        """Take all out."""
        super().clear()
        self._order.clear()


class UnmodifiableList(list[_T]):
    """An unmodifiable copy of a list."""

    def _refuse(self, *arguments: Any, **named: Any) -> Any:
        raise UnsupportedOperationException

    # One refusal under the names of all modifying methods; reading methods are the list's own.
    append = extend = insert = pop = remove = clear = sort = reverse = __setitem__ = __delitem__ = _refuse


class UnmodifiableMap(dict[_K, _V]):
    """An unmodifiable copy of a dictionary."""

    def _refuse(self, *arguments: Any, **named: Any) -> Any:
        raise UnsupportedOperationException

    pop = update = clear = setdefault = __setitem__ = __delitem__ = _refuse


class Elements(Generic[_T]):
    """Iterates over an Enumeration, for Python's loops."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __iter__(self) -> Iterator[_T]:
        while self._source.hasMoreElements():
            yield self._source.nextElement()


def added_all_to_set(elements: set[_T], more: Iterable[_T]) -> bool:
    """Add elements to a set, and return whether any is new."""
    before = len(elements)
    for each in more:
        elements.add(each)
    return len(elements) > before


def each_entry(mapping: MutableMapping[_K, _V], use: Any) -> None:
    """Call a function with each key and its value."""
    function = function_of(use)
    # A copy: the function may change the map, as a ConcurrentHashMap allows.
    for key, value in list(mapping.items()):
        function(key, value)


def require_element(value: _T | None) -> _T:
    """Return a non-null element. Raises `NoSuchElementException`."""
    if value is None:
        raise NoSuchElementException
    return value


def required(found: Any) -> Any:
    """Return the value of an Optional. Raises `NoSuchElementException`, without a reason."""
    return require_element(found.orElse(None))


def fill(elements: MutableSequence[_T], value: _T) -> None:
    """Set all elements: ``Arrays.fill``."""
    for place in range(len(elements)):
        elements[place] = value


def swapped(elements: MutableSequence[_T], one: int, other: int) -> None:
    """Swap two elements: ``Collections.swap``."""
    elements[one], elements[other] = element(elements, other), element(elements, one)


def pushed(elements: list[_T], value: _T) -> _T:
    """Put a value on a stack, and return it."""
    elements.append(value)
    return value


def top_of(elements: list[_T]) -> _T:
    """Return the top of a stack. Raises `EmptyStackException`."""
    if not elements:
        raise EmptyStackException
    return elements[-1]


def vector_element(elements: list[_T], index: int) -> _T:
    """Return an element of a Vector. Raises `ArrayIndexOutOfBoundsException`."""
    if not 0 <= index < len(elements):
        raise ArrayIndexOutOfBoundsException(f"Array index out of range: {index}")
    return elements[index]


def double_key(number: float) -> Any:
    """Return a sort key for doubles: NaN last, and -0.0 before 0.0."""
    return cmp_to_key(compared_doubles)(number)


def counted(elements: Iterable[Any]) -> Long:
    """Return the number of elements: ``Collectors.counting``."""
    return Long(sum(1 for _ in elements))
