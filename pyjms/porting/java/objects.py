"""Casts, comparisons, elements and fields: cases in which Java raises, or has a value, and Python does not."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar
from uuid import UUID

from pyjms.api.base import NoSuchElementException
from pyjms.errors import IllegalArgumentException, IndexOutOfBoundsException, NullPointerException
from pyjms.porting.java.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    IllegalStateException,
    NegativeArraySizeException,
    class_cast,
    java_class_name,
)
from pyjms.porting.java.numbers import as_int
from pyjms.porting.java.strings import hash_of_text
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short

__all__ = [
    "Class",
    "Enum",
    "Iterator",
    "Object",
    "added",
    "added_all",
    "added_to_set",
    "all_equal",
    "array_index",
    "array_of",
    "at",
    "boxed",
    "call",
    "cast",
    "cast_box",
    "cast_bytes",
    "check_index",
    "class_name",
    "class_of",
    "compared",
    "copy_elements",
    "equals",
    "hash_code",
    "hash_of",
    "index_in",
    "insert_index",
    "is_box",
    "known",
    "loaded_properties",
    "made",
    "parse_uuid",
    "positive_bound",
    "put",
    "put_in_place",
    "random_bytes",
    "range_of",
    "removed",
    "replaced",
    "step",
    "stored",
    "throwing",
    "tied_properties",
    "to_int_exact",
    "tokens",
    "uuid_of_bytes",
    "with_cause",
]

_T = TypeVar("_T")
_K = TypeVar("_K")


def cast(kind: type[_T], value: Any) -> _T:
    """Return `value`, which must be None or of that class. Raises `ClassCastException`."""
    if value is not None and not isinstance(value, kind):
        raise class_cast(class_name(value), _CASTS.get(kind) or java_class_name(kind))
    return value  # type: ignore[return-value]  # callers have asked, or take None as Java does


def equals(one: object, other: object) -> bool:
    """Return ``one.equals(other)``. Raises `NullPointerException` where `one` is None."""
    if one is None:
        raise NullPointerException("equals() of null")
    own: Any = getattr(one, "equals", None)
    if own is not None:
        return bool(own(other))
    if isinstance(one, (int, float, str)) and isinstance(other, (int, float, str)):
        # In Java an Integer never equals a Long of the same value; in Python 1 == 1.0 == True.
        return class_name(one) == class_name(other) and one == other
    return one is other if isinstance(one, Iterator) else one == other


class Object:
    """java.lang.Object, which programs create as a lock."""


def known(value: _T | None) -> _T:
    """Return a non-null object. Raises `NullPointerException`."""
    if value is None:
        raise NullPointerException("null")
    return value


def boxed(kind: Callable[[Any], _T], value: Any) -> _T | None:
    """Return a number as the class of its Java type, or None."""
    return None if value is None else kind(value)


def is_box(name: str, value: object) -> bool:
    """Return whether a value is an object of a class such as ``java.lang.Integer``."""
    return value is not None and class_name(value) == name


def cast_box(name: str, value: Any) -> Any:
    """Return a value cast to a class such as ``java.lang.Integer``. Raises `ClassCastException`."""
    if value is not None and class_name(value) != name:
        raise class_cast(class_name(value), name)
    return value


def cast_bytes(value: Any) -> Any:
    """Return a value cast to ``byte[]``. Raises `ClassCastException`."""
    if value is not None and not isinstance(value, (bytes, bytearray)):
        raise class_cast(class_name(value), "[B")
    return value


def added(elements: MutableSequence[_T], value: _T) -> bool:
    """Add an element at the end, and return true: ``List.add``."""
    elements.append(value)
    return True


def added_all(elements: MutableSequence[_T], more: Iterable[_T]) -> bool:
    """Add elements at the end, and return whether there were any."""
    before = len(elements)
    elements.extend(list(more))
    return len(elements) > before


def added_to_set(elements: MutableSet[_T], value: _T) -> bool:
    """Add an element, and return whether it is new: ``Set.add``."""
    if value in elements:
        return False
    elements.add(value)
    return True


def copy_elements(source: Any, first: int, target: Any, place: int, count: int) -> None:
    """``System.arraycopy``."""
    # All checks come first, since Java changes nothing if one of them fails.
    for what, array, start in (("source", source, first), ("destination", target, place)):
        if start < 0:
            raise ArrayIndexOutOfBoundsException(
                f"arraycopy: {what} index {start} out of bounds for length {len(array)}"
            )
        # A Python slice would silently copy less, or grow the target.
        if start + count > len(array):
            raise ArrayIndexOutOfBoundsException(
                f"arraycopy: last {what} index {start + count} out of bounds for length {len(array)}"
            )
    if count < 0:
        raise ArrayIndexOutOfBoundsException(f"arraycopy: length {count} is negative")
    target[place : place + count] = source[first : first + count]


def check_index(index: int, length: int) -> int:
    """Return `index`. Raises `IndexOutOfBoundsException` if it is not below `length`, or negative."""
    if not 0 <= index < length:
        raise IndexOutOfBoundsException(f"Index {index} out of bounds for length {length}")
    return index


def at(elements: Sequence[_T], index: int) -> _T:
    """Return an element of an array. Raises `ArrayIndexOutOfBoundsException`, also for a number below zero."""
    return elements[array_index(index, len(elements))]


def array_index(index: int, length: int) -> int:
    """Return `index`. Raises `ArrayIndexOutOfBoundsException` if an array of `length` elements has no such index."""
    if not 0 <= index < length:
        raise ArrayIndexOutOfBoundsException(f"Index {index} out of bounds for length {length}")
    return index


def insert_index(index: int, length: int) -> int:
    """Return `index`. Raises `IndexOutOfBoundsException` if nothing can be inserted there in a list of `length`
    elements.
    """
    if not 0 <= index <= length:
        raise IndexOutOfBoundsException(f"Index: {index}, Size: {length}")
    return index


def stored(elements: MutableSequence[_T], index: int, value: _T) -> _T:
    """Store an element of an array, and return it: an assignment as an expression."""
    elements[array_index(index, len(elements))] = value
    return value


def replaced(elements: MutableSequence[_T], index: int, value: _T) -> _T:
    """Return the element that `value` replaces: ``List.set``."""
    old = elements[check_index(index, len(elements))]
    elements[index] = value
    return old


def removed(elements: MutableSequence[_T], value: _T) -> bool:
    """Remove the first element that equals `value`, and return whether there was one."""
    if value in elements:
        elements.remove(value)
        return True
    return False


def index_in(elements: Sequence[_T], value: _T) -> int:
    """Return the index of the first element that equals `value`, or -1: ``List.indexOf``."""
    return elements.index(value) if value in elements else -1


def compared(one: int, other: int) -> int:
    """Return ``Integer.compare(one, other)``."""
    return (one > other) - (one < other)


def put(mapping: MutableMapping[_K, _T], key: _K, value: _T) -> _T | None:
    """Return the value that `value` replaces, or None: java.util.Map.put."""
    old = mapping.get(key)
    mapping[key] = value
    return old


def step(holder: object, field: str, by: int, bits: int) -> int:
    """Add to a field, and return its new value: ``++field``."""
    half = 1 << (bits - 1)
    value: int = (getattr(holder, field) + by + half & (1 << bits) - 1) - half
    setattr(holder, field, value)
    return value


def call(function: Any, method: str, *arguments: Any) -> Any:
    """Call an object's only method, or a lambda, which is a function."""
    own = getattr(function, method, None)
    return own(*arguments) if own is not None else function(*arguments)


def throwing(error: BaseException) -> NoReturn:
    """Raise an exception, where an expression is expected."""
    raise error


def array_of(default: _T, length: int, *more: int) -> list[Any]:
    """Return ``new _T[length]…``, filled with the default value of elements."""
    if length < 0:
        raise NegativeArraySizeException(str(length))
    # a new list for each row: `*` would put the same one everywhere
    return [array_of(default, *more) for _ in range(length)] if more else [default] * length


_NAMES = {
    list: "java.util.ArrayList",
    dict: "java.util.HashMap",
    set: "java.util.HashSet",
    bytes: "[B",
    bytearray: "[B",
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
        # A plain `int` has no Java type; its size is the only hint.
        return "java.lang.Integer" if -(1 << 31) <= int(value) < 1 << 31 else "java.lang.Long"  # type: ignore[call-overload]
    return _NAMES.get(kind) or java_class_name(kind)


_CASTS: dict[type, str] = {list: "java.util.List", dict: "java.util.Map", set: "java.util.Set"}
"""The Java class of a cast to a Python class."""


class Class:
    """java.lang.Class: only its name. There is one object for each name."""

    _known: ClassVar[dict[str, Class]] = {}
    _name: str

    def __new__(cls, name: str) -> Class:  # noqa: PYI034  it may be there already
        found = cls._known.get(name)
        if found is None:
            # `setdefault` is one step: two threads get the same object, as `==` between classes compares identities.
            found = cls._known.setdefault(name, super().__new__(cls))
            found._name = name  # noqa: SLF001  it is of this class
        return found

    def getName(self) -> str:
        """Return the full name."""
        return self._name

    def getSimpleName(self) -> str:
        """Return the name without package and enclosing classes."""
        return self._name.rpartition(".")[2].rpartition("$")[2]

    def getPackageName(self) -> str:
        """Return the package."""
        return self._name.rpartition(".")[0]

    def toString(self) -> str:
        """Return such as ``class java.lang.String``."""
        return f"class {self._name}"


def class_of(value: object) -> Class:
    """Return ``value.getClass()``. Raises `NullPointerException`."""
    return Class(class_name(known(value)))


def hash_code(value: Any) -> int:
    """Return ``value.hashCode()``, as in Java for texts, numbers and collections of these."""
    own = getattr(value, "hashCode", None)
    if own is not None:
        return int(own())
    if isinstance(value, bool):
        # The numbers of Boolean.hashCode in the JDK, since programs print and store hash codes.
        return 1231 if value else 1237
    if isinstance(value, Char):
        return ord(value)
    if isinstance(value, str):
        return hash_of_text(value)
    if isinstance(value, int):
        number = int(value) & 0xFFFF_FFFF_FFFF_FFFF
        # Long folds its upper half into the lower one (JDK, Long.hashCode).
        return as_int(int(value)) if not isinstance(value, Long) else as_int(number ^ number >> 32)
    if isinstance(value, float):
        # All NaN have the bits of the canonical one in Double.doubleToLongBits.
        bits = int.from_bytes(struct.pack(">d", math.nan if math.isnan(value) else value), "big")
        return as_int(bits ^ bits >> 32)
    if isinstance(value, (list, tuple)):
        return hash_of(*value)
    return as_int(hash(known(value)))


def hash_of(*values: Any) -> int:
    """Return ``Objects.hash(values)``."""
    made = 1
    for each in values:
        made = as_int(made * 31 + (0 if each is None else hash_code(each)))
    return made


def all_equal(one: object, other: object) -> bool:
    """Return ``Objects.equals(one, other)``."""
    return one is other or (one is not None and equals(one, other))


def range_of(elements: Sequence[_T], start: int, end: int, default: _T) -> list[_T]:
    """Return ``Arrays.copyOfRange``: a part of an array, padded where it has no such elements."""
    if start > end:
        raise IllegalArgumentException(f"{start} > {end}")
    # The start may be the length itself: the part is then padded with defaults.
    array_index(start, len(elements) + 1)
    found = elements[start:end]
    more = end - start - len(found)
    return found + type(found)(more) if isinstance(found, (bytes, bytearray)) else [*found, *[default] * more]  # type: ignore[return-value]


def to_int_exact(number: int, bits: int = 32) -> int:
    """Return a number that must fit. Raises `ArithmeticException`."""
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ArithmeticException("integer overflow" if bits == 32 else "long overflow")
    return number


def tied_properties(defaults: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """Return a value of java.util.Properties, where only a text counts."""
    found = defaults.get(key)
    return found if isinstance(found, str) else default


def loaded_properties(target: MutableMapping[str, str], source: Any) -> None:
    """Read a file of properties."""
    lines: list[str] = []
    # Streams of properties are Latin-1 (java.util.Properties.load); a reader has decoded them already.
    reader = source.reader("ISO-8859-1") if hasattr(source, "reader") else source
    for read in reader.lines():
        line = read.lstrip(" \t\f")
        # An odd number of backslashes at the end continues the line; an even one is backslashes.
        if lines and lines[-1].endswith("\\") and (len(lines[-1]) - len(lines[-1].rstrip("\\"))) % 2:
            lines[-1] = lines[-1][:-1] + line
        elif line and line[0] not in "#!":
            lines.append(line)
    for line in lines:
        match = _PROPERTY.match(line)
        assert match is not None, "the pattern matches every text"
        # Escapes are read after the split, as an escaped `=` belongs to the key.
        target[_unescaped(match[1])] = _unescaped(line[match.end() :])


_PROPERTY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(value: str) -> str:
    return re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.))",
        lambda match: chr(int(match[1], 16)) if match[1] else _LETTERS.get(match[2], match[2]),
        value,
    )


class Iterator(Generic[_T]):
    """java.util.Iterator over a list, or over a copy of another collection: also of a map's keys, values or entries."""

    def __init__(self, elements: Iterable[_T], mapping: MutableMapping[Any, Any] | None = None) -> None:
        self._elements: Any = elements
        self._mapping = mapping  # the map whose keys, values or entries they are
        # Python's sets and maps must not change during iteration, so they are copied.
        self._list = elements if isinstance(elements, list) else list(elements)
        self._next = 0
        self._may_remove = False

    def hasNext(self) -> bool:
        """Return whether there is another element."""
        return self._next < len(self._list)

    def next(self) -> _T:
        """Return the next element. Raises `NoSuchElementException`."""
        if self._next >= len(self._list):
            raise NoSuchElementException
        self._next += 1
        self._may_remove = True
        return self._list[self._next - 1]

    def remove(self) -> None:
        """Remove the element that `next` returned from the collection."""
        if not self._may_remove:
            raise IllegalStateException
        self._may_remove = False
        if self._elements is self._list:
            self._next -= 1
            self._list.pop(self._next)
            return
        found: Any = self._list[self._next - 1]
        if self._mapping is None:
            self._elements.remove(found)
        else:
            # The element may be a key, an entry or a value, depending on the view.
            keys = (key for key, value in self._mapping.items() if found in (key, (key, value)) or found is value)
            self._mapping.pop(next(keys))


def tokens(value: str, separators: str) -> list[str]:
    """Return the tokens of java.util.StringTokenizer."""
    return [each for each in re.split(f"[{re.escape(separators)}]", value) if each]


def parse_uuid(value: str) -> str:
    """Return ``UUID.fromString``. Raises `IllegalArgumentException`."""
    parts = value.split("-")
    if len(parts) != 5 or not all(re.fullmatch("[0-9a-fA-F]+", each) for each in parts):
        raise IllegalArgumentException(f"Invalid UUID string: {value}")
    # Java takes parts of other lengths, too: it fills them up, or keeps their lowest digits.
    widths = (8, 4, 4, 4, 12)
    return "-".join(each.lower().rjust(width, "0")[-width:] for each, width in zip(parts, widths, strict=True))


def uuid_of_bytes(value: bytes | bytearray) -> str:
    """Return ``UUID.nameUUIDFromBytes``."""
    # Java hashes the bytes alone; Python's uuid3 puts a namespace in front.
    digest = hashlib.md5(bytes(value), usedforsecurity=False).digest()
    return str(UUID(bytes=digest, version=3))


def random_bytes(source: Any, target: bytearray) -> None:
    """Fill an array with random bytes: ``Random.nextBytes``."""
    target[:] = source.randbytes(len(target))


def positive_bound(bound: int) -> int:
    """Return the bound of a random number. Raises `IllegalArgumentException`."""
    if bound <= 0:
        raise IllegalArgumentException("bound must be positive")
    return bound


def put_in_place(value: _T | None, other: _T) -> _T:
    """Return a value, or another one if it is None."""
    return other if value is None else value


E = TypeVar("E", bound=BaseException)


def with_cause(error: E, cause: BaseException | None) -> E:
    """Return an exception with a cause: ``initCause``."""
    error.__cause__ = cause
    return error


def made(kind: type[_T], initialize: Callable[..., None], *arguments: Any) -> _T:
    """Return an object made by one of several constructors with the same number of parameters."""
    # Without `__init__`, which is another one of the constructors.
    created = kind.__new__(kind)
    initialize(created, *arguments)
    return created


# Enums: classes with a fixed number of objects.


class Enum:
    """java.lang.Enum: each object is one of the class's constants, in the order of their creation."""

    _constants: ClassVar[list[Any]]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        # Only the enum itself has a list: a constant with a body is a subclass, and joins its enum's.
        if Enum in cls.__bases__:
            cls._constants = []

    def __init__(self, name: str) -> None:
        self.__name = name
        self.__ordinal = len(self._constants)
        self._constants.append(self)

    def name(self) -> str:
        """Return the declared name."""
        return self.__name

    def ordinal(self) -> int:
        """Return its position among the constants, from 0."""
        return self.__ordinal

    def toString(self) -> str:
        """Return the name, unless the class overrides this."""
        return self.__name

    def compareTo(self, other: Enum) -> int:
        """Return the difference of the places."""
        return self.__ordinal - other.__ordinal

    def __lt__(self, other: Enum) -> bool:
        return self.__ordinal < other.__ordinal

    def __reduce__(self) -> tuple[object, ...]:
        # A constant is pickled by its name: a copy would not be the same object.
        return _constant, (next(each for each in type(self).__mro__ if Enum in each.__bases__), self.__name)

    @classmethod
    def values(cls) -> list[Self]:
        """Return all constants."""
        return list(cls._constants)

    @classmethod
    def valueOf(cls, name: str | None) -> Self:
        """Return the constant of a name. Raises `IllegalArgumentException`."""
        if name is None:
            raise NullPointerException("Name is null")
        for each in cls._constants:
            if each.name() == name:
                return each  # type: ignore[no-any-return]
        # The JDK writes the canonical name, with dots between nested classes.
        raise IllegalArgumentException(f"No enum constant {java_class_name(cls).replace('$', '.')}.{name}")


def _constant(kind: type[Enum], name: str) -> Enum:
    return kind.valueOf(name)
