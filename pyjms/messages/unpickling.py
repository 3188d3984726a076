"""A decoder for pickles of unknown origin: it builds plain values and instances of trusted classes, and does nothing else.

Its time and memory depend on the contents of the pickle, not on lengths that it claims: no length is
believed, and keys are hashed within a budget (`HashBudget`). A trusted class is responsible for its use of the arguments.

Plain values are those of Python's own types, and some of the standard library. A pickle gives the arguments for a call of a class.
Classes of the standard library are never called so: each has a function here that accepts the arguments which the class itself pickles,
checks type and range of each, and makes the value. Nothing is iterated over, no size is believed, and costs beyond the usual are
charged to the budget, as the same long argument may be used again and again.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from io import BytesIO
from struct import unpack
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

from pyjms.errors import MessageFormatException
from pyjms.messages.base import TrustedClasses
from pyjms.messages.java_text import shorten

_CLASS_NAME_MAX = 200
"""The most characters of a class's name in an error: it is there to be copied into ``trusted=``."""

_MEMO_MAX = 2**32
"""The indices of the memo are below this, as four bytes hold them: larger ones could be chosen to hash alike."""

_MAKES = (
    *(pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.FROZENSET),
    *(pickle.REDUCE, pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.INST, pickle.OBJ),
)
"""The operations that make a tuple or a frozenset, or an instance of a trusted class that derives from one."""

_Operation = Callable[[Any], None]
_dispatch: dict[int, _Operation] = pickle._Unpickler.dispatch  # noqa: SLF001


def _weighing(make: _Operation) -> _Operation:
    """Return `make`, which pushes an object, wrapped so that the object is weighed if it can hold nested keys."""

    def make_and_weigh(unpickler: TrustingUnpickler) -> None:
        # A tuple is weighed when it is made: the next operation may hash it already.
        make(unpickler)
        made = unpickler.stack[-1]
        if isinstance(made, NESTING):
            unpickler.budget.weigh(made)

    return make_and_weigh


def _not_pickled_so(kind: type) -> MessageFormatException:
    return MessageFormatException(f"the object would make a {kind.__name__} in a way in which none is pickled")


class TrustingUnpickler(pickle._Unpickler):  # noqa: SLF001  the one whose operations can be replaced
    """Decodes a pickle of unknown origin.

    Globals are classes, plain or trusted ones, under their own names: neither functions nor names that a module merely imports.
    Two operations that would reach beyond new instances are refused: BUILD on a class, which would change the class
    itself, and the extension registry, which identifies objects by number.
    """

    append: Callable[[Any], None]
    memo: dict[int, Any]
    metastack: list[list[Any]]
    read: Callable[[int], bytes]
    readline: Callable[[], bytes]
    stack: list[Any]
    dispatch: ClassVar[dict[int, _Operation]] = dict(_dispatch)

    def __init__(self, data: bytes, trusted: TrustedClasses) -> None:
        super().__init__(BytesIO(data))
        self._trusted = trusted
        self.budget = HashBudget(len(data))
        self._plain: dict[type, Build] = {}
        """The plain classes that the pickle has named."""
        self._bare_uuids: dict[int, Any] = {}
        """UUIDs that have no number yet, by their id."""

    def load(self) -> Any:
        loaded = super().load()
        if self._bare_uuids:
            raise MessageFormatException("the object holds a UUID without a number")
        return loaded

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (plain := plain_class(module_name, global_name)) is not None:
            self._plain[plain[0]] = plain[1]
            return plain[0]
        name = f"{module_name}.{global_name}"
        if name not in self._trusted and f"{module_name}.*" not in self._trusted:
            raise MessageFormatException(
                f"the object holds an instance of {shorten(name, _CLASS_NAME_MAX)}, a class that is not trusted: if its sender may make "
                f"such objects here, add it to the trusted= option of the ConnectionFactory"
            )
        # The module is imported only now that the name is trusted: an import runs code.
        found: Any = import_module(module_name)
        # A nested class has dots in its name; the objects on the way need not be classes, so the result is checked.
        for part in global_name.split("."):
            found = getattr(found, part)
        # A class that the module only imports has another module's name: trust in one module must
        # not extend to others.
        if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module_name, global_name):
            raise MessageFormatException(
                f"{shorten(name, _CLASS_NAME_MAX)} is no class of that module: trusted= lets an object hold instances of classes only"
            )
        return found

    # What calls: a plain class is never called with what the pickle says, and no other one with what has more elements than bytes.

    def load_reduce(self) -> None:
        args = self._checked_arguments(self.stack[-1])
        if (build := self._build_of(self.stack[-2])) is None:
            _dispatch[pickle.REDUCE[0]](self)
            return
        # A function replaces the call, as it checks more than the class would.
        del self.stack[-1]
        self.stack[-1] = build(self.stack[-1], args, self.budget)

    def load_newobj(self) -> None:
        args = self._checked_arguments(self.stack[-1])
        if (build := self._build_of(self.stack[-2])) is None:
            _dispatch[pickle.NEWOBJ[0]](self)
            return
        del self.stack[-1]
        kind = self.stack[-1]
        # Of the plain classes UUIDs alone are pickled by NEWOBJ.
        if build is not make_uuid:
            raise _not_pickled_so(kind)
        made = self.stack[-1] = build(kind, args, self.budget)
        self._bare_uuids[id(made)] = made

    def load_newobj_ex(self) -> None:
        kind, args, keywords = self.stack[-3:]
        if self._build_of(kind) is not None:
            raise _not_pickled_so(kind)
        self._checked_arguments(args)
        # A range among the keyword arguments would be iterated over by a class below `list` as well.
        self._checked_arguments(tuple(keywords.values()))
        _dispatch[pickle.NEWOBJ_EX[0]](self)

    def _instantiate(self, klass: Any, args: Any) -> None:
        # INST and OBJ, of the protocols 0 and 1, use this; no plain class is pickled by them.
        if self._build_of(klass) is not None:
            raise _not_pickled_so(klass)
        self._checked_arguments(tuple(args))
        super()._instantiate(klass, args)  # type: ignore[misc]  # typeshed does not have it

    def load_build(self) -> None:
        made, state = self.stack[-2:]
        if isinstance(made, type):
            raise MessageFormatException("the object would change a class, which no decoded object may")
        # A plain value is complete when it is made; the one exception is a UUID, whose number follows by BUILD.
        if type(made) not in self._plain:
            _dispatch[pickle.BUILD[0]](self)
            return
        if self._bare_uuids.pop(id(made), None) is None:
            raise MessageFormatException(
                f"the object would change a {type(made).__name__}, which has no more to it than its value"
            )
        set_uuid(made, state, self.budget)
        del self.stack[-1]

    def _build_of(self, kind: Any) -> Build | None:
        return self._plain.get(kind) if isinstance(kind, type) else None

    def _checked_arguments(self, args: Any) -> tuple[Any, ...]:
        """Return the arguments of a call. A range among them is charged."""
        if not isinstance(args, tuple):
            raise MessageFormatException("the object would call a class with arguments that are no tuple")
        for arg in args:
            # A range of a few bytes may have any number of elements, all of which a class below `list` would take.
            if type(arg) is range:
                self.budget.spend(max(0, -((arg.start - arg.stop) // arg.step)))
        return args

    # Operations that add to an object, by calling its methods.

    def load_append(self) -> None:
        self._check_holder(self.stack[-2])
        _dispatch[pickle.APPEND[0]](self)

    def load_appends(self) -> None:
        self._check_holder(self.metastack[-1][-1])
        _dispatch[pickle.APPENDS[0]](self)

    def _check_holder(self, holder: Any) -> None:
        if isinstance(holder, type):
            raise MessageFormatException("the object would add to a class, which no decoded object may")

    def refuse_extension(self) -> NoReturn:
        """Refuse an operation that names an object by its number in ``copyreg``."""
        raise MessageFormatException("the object uses the extension registry of copyreg, which is not trusted")

    def load_bytearray8(self) -> None:
        (length,) = unpack("<Q", self.read(8))
        data = self.read(length)  # at most the existing bytes; the original allocates the claimed length
        if len(data) < length:
            raise MessageFormatException("the object is cut off")
        self.append(bytearray(data))

    def load_put(self) -> None:
        place = int(self.readline()[:-1])
        if not 0 <= place < _MEMO_MAX:
            raise MessageFormatException("the object has a place in its memo that no pickle has")
        self.memo[place] = self.stack[-1]

    # Operations that hash: the keys are on the stack, their holder below them.

    def load_setitem(self) -> None:
        self._check_items(self.stack[-3])
        # The key is charged before the dictionary hashes it: that happens in C, and may block
        # all threads without end.
        self.budget.pay(self.stack[-3], self.stack[-2:-1])
        _dispatch[pickle.SETITEM[0]](self)

    def load_setitems(self) -> None:
        self._check_items(self.metastack[-1][-1])
        self.budget.pay(self.metastack[-1][-1], self.stack[::2])
        _dispatch[pickle.SETITEMS[0]](self)

    def load_additems(self) -> None:
        self._check_holder(self.metastack[-1][-1])
        self.budget.pay(self.metastack[-1][-1], self.stack)
        _dispatch[pickle.ADDITEMS[0]](self)

    def load_dict(self) -> None:
        # The dictionary does not exist yet: the list of its items, which the last mark began, is used instead.
        self.budget.pay(self.stack, self.stack[::2])
        _dispatch[pickle.DICT[0]](self)

    def load_frozenset(self) -> None:
        self.budget.pay(self.stack, self.stack)
        _dispatch[pickle.FROZENSET[0]](self)

    def _check_items(self, holder: Any) -> None:
        self._check_holder(holder)
        # An OrderedDict is the only plain value whose items are set one by one.
        if type(holder) in self._plain and not isinstance(holder, dict):
            raise MessageFormatException(
                f"the object would set items of a {type(holder).__name__}, which is not pickled so"
            )

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.NEWOBJ[0]] = load_newobj
    dispatch[pickle.NEWOBJ_EX[0]] = load_newobj_ex
    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.APPEND[0]] = load_append
    dispatch[pickle.APPENDS[0]] = load_appends
    dispatch[pickle.EXT1[0]] = refuse_extension
    dispatch[pickle.EXT2[0]] = refuse_extension
    dispatch[pickle.EXT4[0]] = refuse_extension
    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8
    dispatch[pickle.PUT[0]] = load_put
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.ADDITEMS[0]] = load_additems
    dispatch[pickle.DICT[0]] = load_dict
    dispatch[pickle.FROZENSET[0]] = load_frozenset
    for _makes in _MAKES:
        dispatch[_makes[0]] = _weighing(dispatch[_makes[0]])


BITS_MAX: Final = 4_096
"""The largest parts of fractions and ranges, in bits: operations on two of them take time by the square of that."""

DIGITS_MAX: Final = 4_300
"""The longest text of a Decimal; Python has the same limit for the text of a whole number."""

EXPONENT_MAX: Final = 999_999
"""The largest exponent of a Decimal, as in Python's default context: its receiver may compute the whole number."""

PATH_MAX: Final = 32_767
"""The longest path; no system allows a longer one."""

_IN_PYTHON: Final = 10
"""The cost of hashing and comparing in Python code."""

# The pattern has no exponent: Python would multiply 1e999999999 out, and fill the memory (decision 0203).
_FRACTION = re.compile(r"-?[0-9]+(?:/[0-9]+)?", re.ASCII)
_FRACTION_MAX: Final = 2 * (BITS_MAX // 3)

Build: TypeAlias = Callable[[Any, tuple[Any, ...], "HashBudget"], Any]
"""Makes a value of a class out of the arguments in a pickle, or raises."""


def _refuse(kind: type) -> NoReturn:
    raise MessageFormatException(
        f"the object holds a {kind.__name__} that is made of something else than {kind.__name__} pickles, or of too much"
    )


def _are(args: tuple[Any, ...], *kinds: type) -> bool:
    """Return whether `args` are of exactly these classes: an instance of a subclass could have methods of its own."""
    return len(args) == len(kinds) and all(type(arg) is kind for arg, kind in zip(args, kinds, strict=True))


def _bits(*numbers: int) -> int:
    return sum(number.bit_length() for number in numbers)


def _date(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    if not _are(args, bytes) or len(args[0]) != 4:
        _refuse(kind)
    year, year_low, month, day = args[0]
    return kind(year << 8 | year_low, month, day)  # the call checks all of them, as unpickling does not


def _time(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    packed, tzinfo = _packed(kind, args, 6)
    # The highest bit of the hour is `fold` (PEP 495).
    hour, minute, second, *micros = packed
    return kind(hour & 0x7F, minute, second, int.from_bytes(micros), tzinfo, fold=hour >> 7)


def _datetime(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    packed, tzinfo = _packed(kind, args, 10)
    # The highest bit of the month is `fold` (PEP 495).
    year, year_low, month, day, hour, minute, second, *micros = packed
    return kind(
        *(year << 8 | year_low, month & 0x7F, day, hour, minute, second, int.from_bytes(micros), tzinfo),
        fold=month >> 7,
    )


def _packed(kind: Any, args: tuple[Any, ...], size: int) -> tuple[bytes, Any]:
    """Return the packed fields and the time zone, which the class checks: a `timezone`, or an instance of a trusted class."""
    if not 1 <= len(args) <= 2 or type(args[0]) is not bytes or len(args[0]) != size:
        _refuse(kind)
    return args[0], args[1] if len(args) == 2 else None


def _timedelta(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    # A timedelta computes with whole numbers of any length before it refuses them.
    if not _are(args, int, int, int) or _bits(*args) > 3 * 64:
        _refuse(kind)
    return kind(*args)


def _timezone(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    timedelta = import_module("datetime").timedelta
    if not (_are(args, timedelta) or _are(args, timedelta, str)):
        _refuse(kind)
    return kind(*args)


def _decimal(kind: Any, args: tuple[Any, ...], budget: HashBudget) -> Any:
    if not _are(args, str) or len(args[0]) > DIGITS_MAX:
        _refuse(kind)
    budget.see_decimal()
    value = _made(kind, args, budget, price=len(args[0]) >> 3, weight=len(args[0]) >> 1)
    if value.is_finite() and abs(value.adjusted()) > EXPONENT_MAX:
        _refuse(kind)
    return value


def _fraction(kind: Any, args: tuple[Any, ...], budget: HashBudget) -> Any:
    """Make a Fraction of two numbers, as pickled by Python 3.12, or of a text without an exponent, as by 3.11."""
    if _are(args, str) and len(args[0]) <= _FRACTION_MAX and _FRACTION.fullmatch(args[0]):
        budget.spend(len(args[0]) >> 2)
        args = tuple(map(int, args[0].split("/")))
    if not (_are(args, int) or _are(args, int, int)) or any(part.bit_length() > BITS_MAX for part in args):
        _refuse(kind)
    bits = _bits(*args)
    return _made(kind, args, budget, price=bits >> 4, weight=(bits >> 6) + _IN_PYTHON)


def _range(kind: Any, args: tuple[Any, ...], budget: HashBudget) -> Any:
    if not _are(args, int, int, int) or any(part.bit_length() > BITS_MAX for part in args):
        _refuse(kind)
    bits = _bits(*args)
    return _made(kind, args, budget, price=bits >> 4, weight=bits >> 6)


def _complex(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    if not _are(args, float, float):
        _refuse(kind)
    return kind(*args)


def _ordered_dict(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    """Make an empty OrderedDict: its items are added as to any other dictionary."""
    if args:
        _refuse(kind)
    return kind()


def _deque(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    """Make an empty deque: its elements are added as to a list."""
    if not args:
        return kind()
    # With elements among its arguments a deque would take all elements of a range of a few bytes (decision 0203).
    if not _are(args, tuple, int) or args[0] != ():
        _refuse(kind)
    return kind((), args[1])


def _path(kind: Any, args: tuple[Any, ...], budget: HashBudget) -> Any:
    if not _are(args, *[str] * len(args)) or len(args) + sum(map(len, args)) > PATH_MAX:
        _refuse(kind)
    length = sum(map(len, args))
    return _made(kind, args, budget, price=2 * length + 20 * len(args), weight=length + _IN_PYTHON)


def make_uuid(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    """Make a UUID without its number, which `set_uuid` adds: in a pickle it follows later."""
    if args:
        _refuse(kind)
    return kind.__new__(kind)


def set_uuid(value: Any, state: Any, budget: HashBudget) -> None:
    """Set the number of a UUID that was made without one."""
    kind = type(value)
    if type(state) is not dict or not {"int"} <= state.keys() <= {"int", "is_safe"}:
        _refuse(kind)
    number, is_safe = state["int"], state.get("is_safe", 0)
    if type(number) is not int or not 0 <= number < 1 << 128 or type(is_safe) is not int or is_safe not in (0, -1):
        _refuse(kind)
    value.__setstate__(state)
    budget.know(value, _IN_PYTHON)


def _made(kind: Any, args: tuple[Any, ...], budget: HashBudget, *, price: int, weight: int) -> Any:
    """Make a value for `price`; hashing or comparing it will cost `weight`."""
    budget.spend(price)
    value = kind(*args)
    budget.know(value, weight)
    return value


PLAIN_CLASSES: Final[Mapping[tuple[str, str], Build]] = {
    ("builtins", "complex"): _complex,
    ("builtins", "range"): _range,
    ("collections", "OrderedDict"): _ordered_dict,
    ("collections", "deque"): _deque,
    ("datetime", "date"): _date,
    ("datetime", "datetime"): _datetime,
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): _timedelta,
    ("datetime", "timezone"): _timezone,
    ("decimal", "Decimal"): _decimal,
    ("fractions", "Fraction"): _fraction,
    ("pathlib", "PurePosixPath"): _path,
    ("pathlib", "PureWindowsPath"): _path,
    ("uuid", "UUID"): make_uuid,
}
"""The function that makes each class's values, by module and name."""


def plain_class(module: str, name: str) -> tuple[type, Build] | None:
    """Return the class and the function that makes its values; None for a class that needs trust."""
    if module == "pathlib._local":  # the place of these classes in Python 3.13
        module = "pathlib"
    build = PLAIN_CLASSES.get((module, name))
    return None if build is None else (getattr(import_module(module), name), build)


DEPTH_MAX = 1_000
"""The greatest nesting of tuples: hashing them takes some 80 bytes of stack a level, on any thread that does it.
Pickling them recurses too, and ends there by default in Python 3.11."""

_COST_MIN = 4_000_000
_COST_A_BYTE = 10
"""The budget: an object without shared parts costs less than one for each byte of its pickle."""

_WHOLE_MAX = 16_384
"""A whole number of more bits is no key beside a Decimal, which makes a Decimal of it to compare the two: in time by their square."""

_FLAT_MAX = 16
"""A tuple without nested ones, and not longer than this, is weighed again at each occurrence: most are such."""

_OWN_HASH = 2**60
"""Whole numbers below it differ in their hashes; so do texts and bytes for a sender, whose hashes are salted."""

NESTING = (tuple, frozenset)
"""The types that can be keys and hold other keys."""

_Whole: TypeAlias = tuple[Any, ...] | frozenset[Any]


class HashBudget:
    """The cost of each tuple and frozenset of one pickle, and the remaining budget. One thread."""

    __slots__ = ("_alike", "_has_decimal", "_has_large", "_known", "_left", "_most")

    def __init__(self, size: int) -> None:
        """`size`: of the pickle, in bytes."""
        self._most = self._left = _COST_MIN + _COST_A_BYTE * size
        self._has_decimal = self._has_large = False
        # Both keep references to their objects: another object could otherwise get the same id.
        self._known: dict[int, tuple[object, int, int]] = {}
        self._alike: dict[int, tuple[object, dict[int, tuple[int, int]]]] = {}

    def weigh(self, whole: _Whole) -> tuple[int, int]:
        """Return the depth of `whole`, and its cost: its parts, counted at each occurrence.

        Raises `MessageFormatException` for one whose hashing would overflow the stack or take too long.
        """
        depth, cost = 1, 1
        for part in whole:
            if isinstance(part, NESTING):
                part_depth, part_cost = self._weight(part)
                depth = max(depth, part_depth + 1)
                cost += part_cost
            else:
                cost += self._cost_of(part)
        if depth > DEPTH_MAX:
            raise MessageFormatException(f"the object holds tuples in tuples, more than {DEPTH_MAX} deep")
        if cost > self._most:
            raise MessageFormatException(_TOO_MUCH)
        if depth > 1 or len(whole) > _FLAT_MAX:
            self._known[id(whole)] = whole, depth, cost
        return depth, cost

    def pay(self, holder: object, keys: Iterable[Any]) -> None:
        """Pay for `keys`, which `holder` gets: for the hash of each, and for comparing it with those that hash alike.

        Raises `MessageFormatException` when the budget is used up, and `TypeError` for a key without a hash.
        """
        for key in keys:
            kind = type(key)
            if kind is str or kind is bytes:
                self.spend(_cost(key))
            elif kind is int and -_OWN_HASH < key < _OWN_HASH:
                self.spend(1)
                if id(holder) in self._alike:  # others may have been chosen to hash like it
                    self.spend(self._comparing(holder, hash(key), 1))
            else:
                cost = self._weight(key)[1] if isinstance(key, NESTING) else self._cost_of(key)
                self.spend(cost)
                self.spend(self._comparing(holder, hash(key), cost))

    def _weight(self, whole: _Whole) -> tuple[int, int]:
        known = self._known.get(id(whole))
        return self.weigh(whole) if known is None else known[1:]

    def know(self, value: object, weight: int) -> None:
        """Set the cost of hashing or comparing `value`, which is no tuple, to `weight`."""
        if weight > 1:
            self._known[id(value)] = value, 1, weight

    def spend(self, cost: int) -> None:
        """Subtract `cost` from the budget. Raises `MessageFormatException` when it is used up."""
        self._left -= cost
        if self._left < 0:
            raise MessageFormatException(_TOO_MUCH)

    def _cost_of(self, value: object) -> int:
        known = self._known.get(id(value))
        if known is not None:
            return known[2]
        if type(value) is int and value.bit_length() > _WHOLE_MAX:
            self._has_large = True
            self._check_decimals()
        return _cost(value)

    def see_decimal(self) -> None:
        """Note that the object holds a Decimal. Raises `MessageFormatException` if it also has a very large number among its keys."""
        self._has_decimal = True
        self._check_decimals()

    def _check_decimals(self) -> None:
        if self._has_large and self._has_decimal:
            raise MessageFormatException(
                f"the object holds a Decimal, and a number of more than {_WHOLE_MAX} bits as a key or in a tuple: comparing the two "
                "could take too long"
            )

    def _comparing(self, holder: object, hashed: int, cost: int) -> int:
        """Return the cost of comparing a key of this cost with the earlier keys of the same hash in `holder`."""
        # The id is the key, as the holder may be a dictionary or a set, which have no hash.
        held = self._alike.get(id(holder))
        if held is None:
            held = self._alike[id(holder)] = holder, {}
        alike = held[1]
        number, costs = alike.get(hashed, (0, 0))
        alike[hashed] = number + 1, costs + cost
        return number * cost + costs


_TOO_MUCH = "the object's keys, its tuples or its values hold the same parts too often: hashing or making them would take too long"


def _cost(value: object) -> int:
    """Return the cost of hashing `value` and comparing it once; 1 is about the cost of a small value."""
    if type(value) is int:
        size = value.bit_length() >> 10
        return 1 + size + min(size, _WHOLE_MAX >> 10) ** 2  # a Decimal converts it for a comparison
    if type(value) is str or type(value) is bytes:
        return 1 + (len(value) >> 8)
    return 1
