"""Collections that Python has no class for: with an order of their own, or for threads that wait."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping, MutableSequence
from functools import cmp_to_key
from typing import Any, Generic, TypeVar

from pyjms.api.enumeration import NoSuchElementException
from pyjms.errors import IndexOutOfBoundsException, UnsupportedOperationException
from pyjms.porting.java.errors import ArrayIndexOutOfBoundsException, EmptyStackException, IllegalStateException
from pyjms.porting.java.functions import comparison, function_of
from pyjms.porting.java.numbers import compared_doubles
from pyjms.types import Long

__all__ = [
    "BlockingQueue",
    "Elements",
    "LinkedSet",
    "PriorityQueue",
    "TreeMap",
    "TreeSet",
    "UnmodifiableList",
    "UnmodifiableMap",
    "added_all_to_set",
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
    "last",
    "merged",
    "polled",
    "popped",
    "pushed",
    "put_if_absent",
    "removed_all",
    "removed_first",
    "removed_if",
    "replace_all",
    "require_element",
    "required",
    "retained_all",
    "sort",
    "sublist",
    "swapped",
    "top_of",
    "vector_element",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class TreeMap(dict[K, V]):
    """java.util.TreeMap: a dictionary whose keys are in order."""

    def __init__(self, given: Any = ()) -> None:
        takes_order = given is not None and not isinstance(given, (dict, tuple))
        super().__init__(() if takes_order else given)
        self._key = cmp_to_key(comparison(given)) if takes_order else cmp_to_key(comparison(None))

    def __iter__(self) -> Iterator[K]:
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

    def _near(self, key: K, *, above: bool, same: bool) -> K | None:
        wanted = self._key(key)
        keys = [(self._key(each), each) for each in self]
        if above:
            found = [each for place, each in keys if place > wanted or (same and place == wanted)]
            return found[0] if found else None
        found = [each for place, each in keys if place < wanted or (same and place == wanted)]
        return found[-1] if found else None

    def firstKey(self) -> K:
        """Return the lowest key."""
        return first(list(self))

    def lastKey(self) -> K:
        """Return the highest key."""
        return last(list(self))

    def firstEntry(self) -> tuple[K, V] | None:
        """Return the lowest entry, or None."""
        return self.items()[0] if self else None

    def lastEntry(self) -> tuple[K, V] | None:
        """Return the highest entry, or None."""
        return self.items()[-1] if self else None

    def floorKey(self, key: K) -> K | None:
        """Return the highest key that is no higher."""
        return self._near(key, above=False, same=True)

    def ceilingKey(self, key: K) -> K | None:
        """Return the lowest key that is no lower."""
        return self._near(key, above=True, same=True)

    def lowerKey(self, key: K) -> K | None:
        """Return the highest key that is lower."""
        return self._near(key, above=False, same=False)

    def higherKey(self, key: K) -> K | None:
        """Return the lowest key that is higher."""
        return self._near(key, above=True, same=False)


class TreeSet(set[T]):
    """java.util.TreeSet: a set whose elements are in order."""

    def __init__(self, given: Any = ()) -> None:
        takes_order = not isinstance(given, Iterable)
        super().__init__(() if takes_order else given)
        self._key = cmp_to_key(comparison(given if takes_order else None))

    def __iter__(self) -> Iterator[T]:
        return iter(sorted(super().copy(), key=self._key))

    def copy(self) -> set[T]:
        """Return the elements, without their order."""
        return set(super().__iter__())

    def first(self) -> T:
        """Return the lowest element."""
        return first(list(self))

    def last(self) -> T:
        """Return the highest element."""
        return last(list(self))


class PriorityQueue(Generic[T]):
    """java.util.PriorityQueue."""

    def __init__(self, order: Any = None) -> None:
        self._key = cmp_to_key(comparison(order))
        self._heap: list[tuple[Any, int, T]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[T]:
        return (each for _, _, each in sorted(self._heap, key=lambda entry: entry[:2]))

    def add(self, value: T) -> bool:
        """Add an element."""
        self._count += 1
        heapq.heappush(self._heap, (self._key(value), self._count, value))
        return True

    def poll(self) -> T | None:
        """Take the lowest element out, or return None."""
        return heapq.heappop(self._heap)[2] if self._heap else None

    def peek(self) -> T | None:
        """Return the lowest element, or None."""
        return self._heap[0][2] if self._heap else None

    def clear(self) -> None:
        """Take all out."""
        self._heap.clear()


class BlockingQueue(Generic[T]):
    """java.util.concurrent.BlockingQueue, and the queues of that package that never wait."""

    def __init__(self, capacity: int = (1 << 31) - 1) -> None:
        self._capacity = capacity
        self._elements: deque[T] = deque()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[T]:
        with self._changed:
            return iter(list(self._elements))

    def __contains__(self, value: object) -> bool:
        return value in list(self)

    def put(self, value: T, seconds: float | None = None) -> bool:
        """Add an element once there is room; return whether there was in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._elements) < self._capacity, seconds):
                return False
            self._elements.append(value)
            self._changed.notify_all()
            return True

    def offer(self, value: T, seconds: float = 0) -> bool:
        """Add an element if there is room."""
        return self.put(value, seconds)

    def add(self, value: T) -> bool:
        """Add an element. Raises `IllegalStateException` where there is no room."""
        if not self.put(value, 0):
            raise IllegalStateException("Queue full")
        return True

    def take(self) -> T:
        """Take the first element out, once there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._elements)
            return self._taken()

    def poll(self, seconds: float = 0) -> T | None:
        """Take the first element out, or return None."""
        with self._changed:
            return self._taken() if self._changed.wait_for(lambda: self._elements, seconds) else None

    def _taken(self) -> T:
        found = self._elements.popleft()
        self._changed.notify_all()
        return found

    def peek(self) -> T | None:
        """Return the first element, or None."""
        with self._changed:
            return self._elements[0] if self._elements else None

    def remove(self, *value: T) -> Any:
        """Take the first element out, which must be there; or a given one, and return whether it was there."""
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

    def drainTo(self, target: list[T]) -> int:
        """Move all elements to a list."""
        with self._changed:
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
    """Return an element of a list by its number. Raises `IndexOutOfBoundsException`."""
    if not 0 <= index < len(elements):
        raise IndexOutOfBoundsException(f"Index {index} out of bounds for length {len(elements)}")
    return elements[index]


def first(elements: list[T]) -> T:
    """Return the first element. Raises `NoSuchElementException`."""
    if not elements:
        raise NoSuchElementException
    return elements[0]


def last(elements: list[T]) -> T:
    """Return the last element. Raises `NoSuchElementException`."""
    if not elements:
        raise NoSuchElementException
    return elements[-1]


def polled(elements: list[T], place: int = 0) -> T | None:
    """Take the first element out, or the last; None where there is none."""
    return elements.pop(place) if elements else None


def removed_first(elements: list[T], place: int = 0) -> T:
    """Take the first element out, or the last. Raises `NoSuchElementException`."""
    if not elements:
        raise NoSuchElementException
    return elements.pop(place)


def popped(elements: list[T]) -> T:
    """Take the top of a stack. Raises `EmptyStackException`."""
    if not elements:
        raise EmptyStackException
    return elements.pop()


def removed_all(elements: Any, more: Iterable[Any]) -> bool:
    """Take all elements out that are among others, and return whether there were any."""
    return removed_if(elements, set(more).__contains__)


def retained_all(elements: Any, more: Iterable[Any]) -> bool:
    """Keep only elements that are among others, and return whether any had to go."""
    kept = set(more)
    return removed_if(elements, lambda each: each not in kept)


def removed_if(elements: Any, asked: Any) -> bool:
    """Take all elements out that a function is true for, and return whether there were any."""
    test, found = function_of(asked), False
    for each in list(elements):
        if test(each):
            found = True
            elements.remove(each)
    return found


def replace_all(elements: MutableSequence[T], change: Any) -> None:
    """Have each element be replaced by what a function makes of it."""
    function = function_of(change)
    elements[:] = [function(each) for each in elements]


def sublist(elements: list[T], start: int, end: int) -> list[T]:
    """Return a part of a list, as a copy."""
    if start < 0:
        raise IndexOutOfBoundsException(f"fromIndex = {start}")
    if end > len(elements):
        raise IndexOutOfBoundsException(f"toIndex = {end}")
    return elements[start:end]


def sort(elements: list[T], order: Any = None) -> None:
    """Sort a list, by its own order or by a Comparator."""
    elements.sort(key=cmp_to_key(comparison(order)))


def frequency(elements: Iterable[T], value: T) -> int:
    """Return how many elements equal a value."""
    return sum(each == value for each in elements)


def put_if_absent(mapping: MutableMapping[K, V], key: K, value: V) -> V | None:
    """Return the value of a key, or put one and return None."""
    old = mapping.get(key)
    if old is None:
        mapping[key] = value
    return old


def merged(mapping: MutableMapping[K, V], key: K, value: V, combine: Any) -> V | None:
    """Put a value, or what a function makes of the old one and it."""
    old = mapping.get(key)
    return _result(mapping, key, value if old is None else function_of(combine)(old, value))


def computed(mapping: MutableMapping[K, V], key: K, compute: Any) -> V | None:
    """Put what a function makes of a key and its value."""
    return _result(mapping, key, function_of(compute)(key, mapping.get(key)))


def computed_if_absent(mapping: MutableMapping[K, V], key: K, compute: Any) -> V | None:
    """Return the value of a key, which a function makes where there is none."""
    old = mapping.get(key)
    return old if old is not None else _result(mapping, key, function_of(compute)(key))


def computed_if_present(mapping: MutableMapping[K, V], key: K, compute: Any) -> V | None:
    """Replace the value of a key, if there is one, by what a function makes of it."""
    old = mapping.get(key)
    return None if old is None else _result(mapping, key, function_of(compute)(key, old))


def _result(mapping: MutableMapping[K, V], key: K, value: V | None) -> V | None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
    return value


class enumeration(Generic[T]):  # noqa: N801  it is written like a function
    """java.util.Enumeration over a collection."""

    def __init__(self, elements: Iterable[T], reason: str | None = None) -> None:
        self._elements = list(elements)
        self._reason = reason

    def hasMoreElements(self) -> bool:
        """Return whether there is another element."""
        return bool(self._elements)

    def nextElement(self) -> T:
        """Return the next element. Raises `NoSuchElementException`."""
        if not self._elements:
            raise NoSuchElementException(self._reason) if self._reason else NoSuchElementException
        return self._elements.pop(0)

    def count(self) -> int:
        """Return how many elements are left."""
        return len(self._elements)


class LinkedSet(set[T]):
    """java.util.LinkedHashSet: a set whose elements have the order in which they came."""

    def __init__(self, given: Iterable[T] = ()) -> None:
        self._order: dict[T, None] = dict.fromkeys(given)
        super().__init__(self._order)

    def __iter__(self) -> Iterator[T]:
        return iter(self._order)

    def add(self, value: T) -> None:
        """Add an element at the end, unless it is there."""
        super().add(value)
        self._order.setdefault(value)

    def remove(self, value: T) -> None:
        """Take an element out."""
        super().remove(value)
        del self._order[value]

    def clear(self) -> None:
        """Take all out."""
        super().clear()
        self._order.clear()


class UnmodifiableList(list[T]):
    """A list that nobody may change: as it is now."""

    def _refuse(self, *arguments: Any, **named: Any) -> Any:
        raise UnsupportedOperationException

    append = extend = insert = pop = remove = clear = sort = reverse = __setitem__ = __delitem__ = _refuse


class UnmodifiableMap(dict[K, V]):
    """A dictionary that nobody may change: as it is now."""

    def _refuse(self, *arguments: Any, **named: Any) -> Any:
        raise UnsupportedOperationException

    pop = update = clear = setdefault = __setitem__ = __delitem__ = _refuse


class Elements(Generic[T]):
    """What an Enumeration has, for loops of Python."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __iter__(self) -> Iterator[T]:
        while self._source.hasMoreElements():
            yield self._source.nextElement()


def added_all_to_set(elements: set[T], more: Iterable[T]) -> bool:
    """Add elements to a set, and return whether any is new."""
    before = len(elements)
    for each in more:
        elements.add(each)
    return len(elements) > before


def each_entry(mapping: MutableMapping[K, V], use: Any) -> None:
    """Call a function with each key and its value."""
    function = function_of(use)
    for key, value in list(mapping.items()):
        function(key, value)


def require_element(value: T | None) -> T:
    """Return an element that must be there. Raises `NoSuchElementException`."""
    if value is None:
        raise NoSuchElementException
    return value


def required(found: Any) -> Any:
    """Return the value of an Optional. Raises `NoSuchElementException`, without a reason."""
    return require_element(found.orElse(None))


def fill(elements: MutableSequence[T], value: T) -> None:
    """Set all elements: ``Arrays.fill``."""
    for place in range(len(elements)):
        elements[place] = value


def swapped(elements: MutableSequence[T], one: int, other: int) -> None:
    """Have two elements change places: ``Collections.swap``."""
    elements[one], elements[other] = element(elements, other), element(elements, one)


def pushed(elements: list[T], value: T) -> T:
    """Put a value on a stack, and return it."""
    elements.append(value)
    return value


def top_of(elements: list[T]) -> T:
    """Return the top of a stack. Raises `EmptyStackException`."""
    if not elements:
        raise EmptyStackException
    return elements[-1]


def vector_element(elements: list[T], index: int) -> T:
    """Return an element of a Vector. Raises `ArrayIndexOutOfBoundsException`."""
    if not 0 <= index < len(elements):
        raise ArrayIndexOutOfBoundsException(f"Array index out of range: {index}")
    return elements[index]


def double_key(number: float) -> Any:
    """Return by what doubles are sorted: NaN last, and -0.0 before 0.0."""
    return cmp_to_key(compared_doubles)(number)


def counted(elements: Iterable[Any]) -> Long:
    """Return how many elements there are: ``Collectors.counting``."""
    return Long(sum(1 for _ in elements))
