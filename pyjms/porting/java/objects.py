"""Casts, comparisons, elements and fields: where Python goes on, and Java raises, or has a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, MutableSequence, MutableSet, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from pyjms.api.enumeration import NoSuchElementException
from pyjms.errors import IndexOutOfBoundsException, NullPointerException
from pyjms.porting.java.errors import ClassCastException, NotPorted, java_class_name
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short

__all__ = [
    "Iterator",
    "Object",
    "added",
    "added_all",
    "added_to_set",
    "array_of",
    "at",
    "boxed",
    "call",
    "cast",
    "cast_box",
    "cast_bytes",
    "check_index",
    "class_name",
    "class_text",
    "compared",
    "copy_elements",
    "equals",
    "index_in",
    "is_box",
    "known",
    "put",
    "removed",
    "replaced",
    "simple_name",
    "step",
    "stored",
    "throwing",
]

T = TypeVar("T")
K = TypeVar("K")


def cast(kind: type[T], value: Any) -> T:
    """Return `value`, which must be None or of that class. Raises `ClassCastException`."""
    if value is not None and not isinstance(value, kind):
        raise ClassCastException(f"class {class_name(value)} cannot be cast to class {java_class_name(kind)}")
    return value  # type: ignore[return-value]  # callers have asked, or take None as Java does


def equals(one: object, other: object) -> bool:
    """Return ``one.equals(other)``. Raises `NullPointerException` where `one` is None."""
    if one is None:
        raise NullPointerException("equals() of null")
    own: Any = getattr(one, "equals", None)
    if own is not None:
        return bool(own(other))
    if isinstance(one, (int, float, str)) and isinstance(other, (int, float, str)):
        return class_name(one) == class_name(other) and one == other
    return one is other if isinstance(one, Iterator) else one == other


class Object:
    """java.lang.Object, as programs make it to hold a lock."""


def known(value: T | None) -> T:
    """Return an object that must be there. Raises `NullPointerException`."""
    if value is None:
        raise NullPointerException("null")
    return value


def boxed(kind: Callable[[Any], T], value: Any) -> T | None:
    """Return a number as the class that says its type in Java, or None."""
    return None if value is None else kind(value)


def is_box(name: str, value: object) -> bool:
    """Return whether a value is an object of a class such as ``java.lang.Integer``."""
    return value is not None and class_name(value) == name


def cast_box(name: str, value: Any) -> Any:
    """Return a value cast to a class such as ``java.lang.Integer``. Raises `ClassCastException`."""
    if value is not None and class_name(value) != name:
        raise ClassCastException(f"class {class_name(value)} cannot be cast to class {name}")
    return value


def cast_bytes(value: Any) -> Any:
    """Return a value cast to ``byte[]``. Raises `ClassCastException`."""
    if value is not None and not isinstance(value, (bytes, bytearray)):
        raise ClassCastException(f"class {class_name(value)} cannot be cast to class [B")
    return value


def added(elements: MutableSequence[T], value: T) -> bool:
    """Add an element at the end, and return true: ``List.add``."""
    elements.append(value)
    return True


def added_all(elements: MutableSequence[T], more: Iterable[T]) -> bool:
    """Add elements at the end, and return whether there were any."""
    before = len(elements)
    elements.extend(list(more))
    return len(elements) > before


def added_to_set(elements: MutableSet[T], value: T) -> bool:
    """Add an element, and return whether it is new: ``Set.add``."""
    if value in elements:
        return False
    elements.add(value)
    return True


def copy_elements(source: Any, first: int, target: Any, place: int, count: int) -> None:
    """Do what ``System.arraycopy`` does."""
    if min(first, place, count) < 0 or first + count > len(source) or place + count > len(target):
        raise IndexOutOfBoundsException("arraycopy")
    target[place : place + count] = source[first : first + count]


def check_index(index: int, length: int) -> int:
    """Return `index`. Raises `IndexOutOfBoundsException` where it is none of `length` elements."""
    if not 0 <= index < length:
        raise IndexOutOfBoundsException(f"Index {index} out of bounds for length {length}")
    return index


def at(elements: Sequence[T], index: int) -> T:
    """Return an element by its number, which may not be negative."""
    return elements[check_index(index, len(elements))]


def stored(elements: MutableSequence[T], index: int, value: T) -> T:
    """Store an element, and return it: an assignment as an expression."""
    elements[check_index(index, len(elements))] = value
    return value


def replaced(elements: MutableSequence[T], index: int, value: T) -> T:
    """Return the element that `value` takes the place of: ``List.set``."""
    old = at(elements, index)
    elements[index] = value
    return old


def removed(elements: MutableSequence[T], value: T) -> bool:
    """Take the first element that equals `value` out, and return whether there was one."""
    if value in elements:
        elements.remove(value)
        return True
    return False


def index_in(elements: Sequence[T], value: T) -> int:
    """Return the number of the first element that equals `value`, or -1: ``List.indexOf``."""
    return elements.index(value) if value in elements else -1


def compared(one: int, other: int) -> int:
    """Return ``Integer.compare(one, other)``."""
    return (one > other) - (one < other)


def put(mapping: MutableMapping[K, T], key: K, value: T) -> T | None:
    """Return the value that `value` takes the place of, or None: what a map of Java puts."""
    old = mapping.get(key)
    mapping[key] = value
    return old


def step(holder: object, field: str, by: int, bits: int) -> int:
    """Add to a field, and return what it is then: ``++field``."""
    half = 1 << (bits - 1)
    value: int = (getattr(holder, field) + by + half & (1 << bits) - 1) - half
    setattr(holder, field, value)
    return value


def call(function: Any, method: str, *arguments: Any) -> Any:
    """Call an object by its one method, or a lambda, which is a function."""
    own = getattr(function, method, None)
    return own(*arguments) if own is not None else function(*arguments)


def throwing(error: BaseException) -> NoReturn:
    """Raise an exception, where an expression is expected."""
    raise error


def array_of(default: T, length: int, *more: int) -> list[Any]:
    """Return ``new T[length]…``, filled with the value that elements have at first."""
    if length < 0:
        raise IndexOutOfBoundsException(f"NegativeArraySizeException: {length}")
    return [array_of(default, *more) for _ in range(length)] if more else [default] * length


_NAMES = {
    str: "java.lang.String",
    bool: "java.lang.Boolean",
    float: "java.lang.Double",
    Byte: "java.lang.Byte",
    Char: "java.lang.Character",
    Double: "java.lang.Double",
    Float: "java.lang.Float",
    Int: "java.lang.Integer",
    Long: "java.lang.Long",
    Short: "java.lang.Short",
}


def class_name(value: object) -> str:
    """Return ``value.getClass().getName()``."""
    kind = type(value)
    if kind is int:
        return "java.lang.Integer" if -(1 << 31) <= int(value) < 1 << 31 else "java.lang.Long"  # type: ignore[call-overload]
    return _NAMES.get(kind) or java_class_name(kind)


def class_text(value: object) -> str:
    """Return the text of ``value.getClass()``."""
    return f"class {class_name(value)}"


def simple_name(value: object) -> str:
    """Return ``value.getClass().getSimpleName()``."""
    return class_name(value).rpartition(".")[2].rpartition("$")[2]


class Iterator(Generic[T]):
    """java.util.Iterator over a list, or over a copy of another collection."""

    def __init__(self, elements: Iterable[T]) -> None:
        self._list = elements if isinstance(elements, list) else list(elements)
        self._is_whole = isinstance(elements, list)
        self._next = 0

    def hasNext(self) -> bool:
        """Return whether there is another element."""
        return self._next < len(self._list)

    def next(self) -> T:
        """Return the next element. Raises `NoSuchElementException`."""
        if self._next >= len(self._list):
            raise NoSuchElementException("the iterator has no more elements")
        self._next += 1
        return self._list[self._next - 1]

    def remove(self) -> None:
        """Take the element that `next` returned out of the collection."""
        if not self._is_whole:
            raise NotPorted("Iterator.remove() of a collection that is no list")
        self._next -= 1
        self._list.pop(self._next)
