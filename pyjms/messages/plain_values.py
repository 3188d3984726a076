"""Values of the standard library that an object of unknown origin may hold without its receiver trusting a class.

A pickle says with which arguments a class is to be called. For these classes nobody calls it so: each has a function here
that takes what the class itself pickles, checks type and range of each argument, and makes the value. Nothing is iterated
over, no size is believed, and what making a value costs beyond the usual is paid out of the pickle's `HashBudget`, as the
same long argument may be named again and again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from pyjms.errors import MessageFormatException

if TYPE_CHECKING:
    from pyjms.messages.hash_budget import HashBudget

BITS_MAX: Final = 4_096
"""The parts of fractions and ranges are no larger: what is done with two of them takes time by the square of that."""

DIGITS_MAX: Final = 4_300
"""The text of a Decimal is no longer; Python has the same limit for the text of a whole number."""

EXPONENT_MAX: Final = 999_999
"""The exponent of a Decimal is no larger, as in Python's default context: its receiver may want the whole number."""

PATH_MAX: Final = 32_767
"""A path is no longer; no system takes a longer one."""

_IN_PYTHON: Final = 10
"""What hashing and comparing costs that is written in Python."""

_FRACTION = re.compile(r"-?[0-9]+(?:/[0-9]+)?", re.ASCII)
_FRACTION_MAX: Final = 2 * (BITS_MAX // 3)

Build: TypeAlias = Callable[[Any, tuple[Any, ...], "HashBudget"], Any]
"""Makes a value of a class out of the arguments in a pickle, or raises."""


def _refuse(kind: type) -> NoReturn:
    raise MessageFormatException(
        f"the object holds a {kind.__name__} that is made of something else than {kind.__name__} pickles, or of too much"
    )


def _are(args: tuple[Any, ...], *kinds: type) -> bool:
    """Tell whether `args` are of exactly these classes: an instance of a class below could have methods of its own."""
    return len(args) == len(kinds) and all(type(arg) is kind for arg, kind in zip(args, kinds, strict=True))


def _bits(*numbers: int) -> int:
    return sum(number.bit_length() for number in numbers)


def _date(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    if not _are(args, bytes) or len(args[0]) != 4:
        _refuse(kind)
    year, year_low, month, day = args[0]
    return kind(year << 8 | year_low, month, day)  # which checks all of them, as unpickling does not


def _time(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    packed, tzinfo = _packed(kind, args, 6)
    hour, minute, second, *micros = packed
    return kind(hour & 0x7F, minute, second, int.from_bytes(micros), tzinfo, fold=hour >> 7)


def _datetime(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    packed, tzinfo = _packed(kind, args, 10)
    year, year_low, month, day, hour, minute, second, *micros = packed
    return kind(
        *(year << 8 | year_low, month & 0x7F, day, hour, minute, second, int.from_bytes(micros), tzinfo),
        fold=month >> 7,
    )


def _packed(kind: Any, args: tuple[Any, ...], size: int) -> tuple[bytes, Any]:
    """Return the packed fields and the time zone, which the class checks: a `timezone`, or of a class that is trusted."""
    if not 1 <= len(args) <= 2 or type(args[0]) is not bytes or len(args[0]) != size:
        _refuse(kind)
    return args[0], args[1] if len(args) == 2 else None


def _timedelta(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
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
    """Make a Fraction of two numbers, as Python 3.12 pickles it, or of a text without an exponent, as 3.11 does."""
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
    """Make an empty one: what it holds is added as to any other dictionary."""
    if args:
        _refuse(kind)
    return kind()


def _deque(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    """Make an empty one: what it holds is added as to a list."""
    if not args:
        return kind()
    if not _are(args, tuple, int) or args[0] != ():
        _refuse(kind)
    return kind((), args[1])


def _path(kind: Any, args: tuple[Any, ...], budget: HashBudget) -> Any:
    if not _are(args, *[str] * len(args)) or len(args) + sum(map(len, args)) > PATH_MAX:
        _refuse(kind)
    length = sum(map(len, args))
    return _made(kind, args, budget, price=2 * length + 20 * len(args), weight=length + _IN_PYTHON)


def make_uuid(kind: Any, args: tuple[Any, ...], _: HashBudget) -> Any:
    """Make one without its number, which `set_uuid` gives to it: as pickled, it comes later."""
    if args:
        _refuse(kind)
    return kind.__new__(kind)


def set_uuid(value: Any, state: Any, budget: HashBudget) -> None:
    """Give its number to a UUID that was made without one."""
    kind = type(value)
    if type(state) is not dict or not {"int"} <= state.keys() <= {"int", "is_safe"}:
        _refuse(kind)
    number, is_safe = state["int"], state.get("is_safe", 0)
    if type(number) is not int or not 0 <= number < 1 << 128 or type(is_safe) is not int or is_safe not in (0, -1):
        _refuse(kind)
    value.__setstate__(state)
    budget.know(value, _IN_PYTHON)


def _made(kind: Any, args: tuple[Any, ...], budget: HashBudget, *, price: int, weight: int) -> Any:
    """Make a value for `price`; hashing it, or comparing it with another one, will cost `weight`."""
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
"""How each class is made, by its module and name."""


def plain_class(module: str, name: str) -> tuple[type, Build] | None:
    """Return the class and what makes its values; None for a class that needs trust."""
    if module == "pathlib._local":  # where Python 3.13 has what others find in pathlib
        module = "pathlib"
    build = PLAIN_CLASSES.get((module, name))
    return None if build is None else (getattr(import_module(module), name), build)
