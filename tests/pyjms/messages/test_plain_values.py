"""Plain values of the standard library need no trust; no pickle makes their classes run code, or take more than its bytes are worth."""

from __future__ import annotations

import gc
import pickle
import re
import sys
import tracemalloc
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path, PosixPath, PurePosixPath, PureWindowsPath
from pickletools import optimize
from textwrap import fill
from types import FrameType, SimpleNamespace
from typing import Any
from uuid import UUID, SafeUUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyjms.errors import MessageFormatException
from pyjms.messages.unpickling import PLAIN_CLASSES, TrustingUnpickler
from tests.pyjms.messages.support import from_elsewhere

PROTO = b"\x80\x05"
MERSENNE = sys.hash_info.modulus
HERE = __name__


class Items(list[Any]):
    """Trusted in some tests: a class that takes all elements of what it is given."""


class Text(str):
    """Trusted in some tests: a text with methods of its own."""

    __slots__ = ()


class Call:
    """Trusted in some tests: its instances can be called."""

    def __call__(self, *arguments: Any) -> int:
        return len(arguments)


class Stamp(datetime):
    """Not trusted: a class below a plain one."""


class Colour(Enum):
    """Not trusted."""

    RED = 1


VALUES: dict[str, list[Any]] = {
    "complex": [1 + 2j, complex("-inf"), -0j],
    "range": [range(0), range(3, 10**30, 7), range(5, -(2**64), -1)],
    "OrderedDict": [OrderedDict(), OrderedDict([("b", 1), ("a", OrderedDict(c=[2]))])],
    "deque": [deque(), deque("abc"), deque([1, [2]], maxlen=5), deque(maxlen=0)],
    "date": [date.min, date.max, date(2024, 2, 29)],
    "datetime": [
        datetime.min,  # noqa: DTZ901
        datetime.max,  # noqa: DTZ901
        datetime(2024, 2, 29, 23, 59, 59, 999_999, fold=1),  # noqa: DTZ001
        datetime(2024, 2, 29, tzinfo=UTC),
        datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=-3.5), "NST")),
    ],
    "time": [time.min, time.max, time(12, 30, fold=1), time(12, 30, tzinfo=UTC)],
    "timedelta": [timedelta.min, timedelta.max, timedelta(-3, 4, 5), timedelta()],
    "timezone": [UTC, timezone.min, timezone.max, timezone(timedelta(seconds=1), "odd")],
    "Decimal": [
        Decimal("-12.50"),
        Decimal("NaN"),
        Decimal("-sNaN7"),
        Decimal("Infinity"),
        Decimal("1E-999999"),
        Decimal("9" * 4_300),
    ],
    "Fraction": [Fraction(1, 3), Fraction(-7), Fraction(), Fraction(2**2_000, 3**1_000)],
    "PurePosixPath": [PurePosixPath("/orders/17"), PurePosixPath(), PurePosixPath("a", "b.txt")],
    "PureWindowsPath": [PureWindowsPath(r"c:\orders\17"), PureWindowsPath(r"\\host\share\x")],
    "UUID": [
        UUID(int=0),
        UUID(int=2**128 - 1),
        UUID(int=17, is_safe=SafeUUID.safe),
        UUID(int=17, is_safe=SafeUUID.unsafe),
    ],
}
EVERY = [value for values in VALUES.values() for value in values]


def load(data: bytes, *trusted: str) -> Any:
    return TrustingUnpickler(data, frozenset(trusted)).load()


def named(module: str, name: str) -> bytes:
    """Return the operation that finds a class."""
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def plain(name: str) -> bytes:
    return next(named(*place) for place in PLAIN_CLASSES if place[1] == name)


def value(given: Any) -> bytes:
    """Return the operations that push `given`."""
    return optimize(pickle.dumps(given, 3))[2:-1]  # without frames and places of the memo


def refused(data: bytes, *trusted: str, match: str = "") -> None:
    """Have the pickle decoded, and show that it is refused without running anything, or taking memory."""
    size = (4 << 20) + 250 * len(data)
    # What is measured is the memory of the whole process: another test's thread may take some meanwhile, but not each time.
    for is_last in (False, False, True):
        message, error = from_elsewhere(PROTO + data, *trusted), None
        with measured() as peaks, watched() as events:
            try:
                _ = message.object
            except MessageFormatException as raised:
                error = raised
        assert error is not None
        assert re.search(match, str(error)), error
        assert events == []
        if peaks[0] < size:
            break
        assert not is_last, peaks


# --------------------------------------------------------------------------------------------------------- what is carried


def test_there_are_values_of_all_classes() -> None:
    assert VALUES.keys() == {name for _, name in PLAIN_CLASSES}


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("given", EVERY, ids=lambda given: type(given).__name__)
def test_a_plain_value_needs_no_trust(given: Any, protocol: int) -> None:
    data = pickle.dumps(given, protocol)
    decoded = from_elsewhere(data).object
    assert (type(decoded), repr(decoded)) == (type(given), repr(given))
    assert repr(decoded) == repr(pickle.loads(data))
    if isinstance(given, datetime | time):
        assert decoded.fold == given.fold
    if isinstance(given, UUID):
        assert decoded.is_safe is given.is_safe


def test_plain_values_hold_each_other() -> None:
    given = {
        "orders": OrderedDict((UUID(int=number), deque([Decimal(number), date.min])) for number in range(3)),
        (Fraction(1, 3), PurePosixPath("a")): {range(3), UTC, timedelta(1), 1j},
        Decimal(5): datetime(2024, 2, 29, tzinfo=UTC),
    }
    assert from_elsewhere(pickle.dumps(given, 5)).object == given


def test_one_value_in_two_places_stays_one() -> None:
    each = [UUID(int=7), OrderedDict(a=1), deque([1])]
    decoded = load(pickle.dumps([each, each, *each], 5))
    assert decoded[0] is decoded[1]
    assert all(left is right for left, right in zip(decoded[0], decoded[2:], strict=True))
    loop: deque[Any] = deque()
    loop.append(loop)
    again = load(pickle.dumps(loop, 5))
    assert again[0] is again


def test_fractions_of_each_version_of_python_are_decoded() -> None:
    assert load(PROTO + plain("Fraction") + value("-1/3") + b"\x85R.") == Fraction(-1, 3)
    assert load(PROTO + plain("Fraction") + value("12") + b"\x85R.") == 12
    assert load(PROTO + plain("Fraction") + value(-1) + value(3) + b"\x86R.") == Fraction(-1, 3)


def test_paths_of_each_version_of_python_are_decoded() -> None:
    for module in ("pathlib", "pathlib._local"):
        assert load(PROTO + named(module, "PurePosixPath") + value("a") + b"\x85R.") == PurePosixPath("a")


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(
        st.datetimes(timezones=st.none() | st.just(UTC)),
        st.dates(),
        st.times(),
        st.timedeltas(),
        st.decimals(allow_nan=False),
        st.fractions(),
        st.uuids(),
        st.complex_numbers(allow_nan=False),
        st.builds(range, st.integers(), st.integers(), st.integers(1)),
        st.lists(st.integers()).map(deque),
        st.lists(st.text(st.characters(codec="utf-8"))).map(lambda parts: PurePosixPath(*parts)),
    )
)
def test_any_plain_value_is_what_it_was(given: Any) -> None:
    decoded = load(pickle.dumps(given, 5))
    assert (type(decoded), decoded) == (type(given), given)


# ------------------------------------------------------------------------------------------------------- what stays refused


@pytest.mark.parametrize(
    "given",
    [
        Counter("a"),
        defaultdict(list),
        PosixPath("a"),
        SafeUUID.safe,
        Stamp(2024, 2, 29, tzinfo=UTC),
        Colour.RED,
        SimpleNamespace(),
        slice(1),
        print,
        datetime.now,
        Decimal.from_float,
    ],
    ids=lambda given: type(given).__name__,
)
def test_all_other_classes_need_trust(given: Any) -> None:
    with pytest.raises(MessageFormatException, match="not trusted"):
        _ = from_elsewhere(pickle.dumps(given, 5)).object


@pytest.mark.parametrize(
    "place",
    [
        ("datetime", "datetime.now"),
        ("datetime", "datetime.fromisoformat"),
        ("datetime", "tzinfo"),
        ("datetime", "sys"),
        ("datetime.datetime", "now"),
        ("", "datetime.datetime"),
        ("decimal", "Decimal.from_float"),
        ("decimal", "getcontext"),
        ("decimal", "Context"),
        ("fractions", "Fraction.from_float"),
        ("uuid", "uuid1"),
        ("uuid", "os.system"),
        ("pathlib", "Path"),
        ("pathlib", "PurePath"),
        ("pathlib", "os.system"),
        ("pathlib._local", "Path"),
        ("collections", "namedtuple"),
        ("collections", "deque.extend"),
        ("builtins", "range.count"),
        ("builtins", "eval"),
        ("builtins", "list"),
        ("_decimal", "Decimal"),
    ],
)
@pytest.mark.parametrize("how", ["GLOBAL", "STACK_GLOBAL"])
def test_no_way_leads_to_anything_else_of_their_modules(place: tuple[str, str], how: str) -> None:
    operation = named(*place) if how == "GLOBAL" else value(place[0]) + value(place[1]) + b"\x93"
    with pytest.raises(MessageFormatException, match="not trusted"):
        load(PROTO + operation + b")R.")


WRONG: dict[str, list[Any]] = {
    "complex": [(), (1,), (1, 2), ("1+2j",), (1.0, "2"), (1.0, 2.0, 3.0), (True, 1.0)],
    "range": [(), (3,), (1, 2), (0, 1, 0), (0, True, 1), (0, 1.0, 1), ("0", 1, 1), (0, 10**2_000, 1)],
    "OrderedDict": [([("a", 1)],), ({"a": 1},), (range(10**12),), ((),)],
    "deque": [
        ([1],),
        (range(10**12),),
        (range(10**12), 5),
        ((), None),
        ((), -1),
        ((), True),
        ((), 10**30),
        ((1,), 5),
        ((), 1, 2),
    ],
    "date": [
        (),
        (2024, 2, 29),
        (b"",),
        (b"\x07\xe8\x02\x1e",),
        (b"\x07\xe8\x0d\x01",),
        (b"\x07\xe8\x00\x01",),
        (b"\xff\xff\x01\x01",),
        (b"\x00\x00\x01\x01",),
        (b"\x07\xe8\x01\xff",),
        (bytearray(b"\x07\xe8\x01\x01"),),
        ("\x07\xe8\x01\x01",),
        (b"\x07\xe8\x01\x01", None),
    ],
    "datetime": [
        (),
        (2024, 2, 29),
        (b"\x07\xe8\x02\x1e" + bytes(6),),
        (b"\x07\xe8\x02\x01\x18" + bytes(5),),
        (b"\x07\xe8\x02\x01\x00\x3c" + bytes(4),),
        (b"\x07\xe8\x02\x01\x00\x00\x3c" + bytes(3),),
        (b"\x07\xe8\x02\x01\x00\x00\x00\xff\xff\xff",),
        (b"\x07\xe8\x02\x01" + bytes(5),),
        (b"\x07\xe8\x02\x01" + bytes(6), "UTC"),
        (b"\x07\xe8\x02\x01" + bytes(6), timedelta()),
        (b"\x07\xe8\x02\x01" + bytes(6), None, 1),
    ],
    "time": [
        (),
        (12, 30),
        (b"\x18" + bytes(5),),
        (b"\x00\x3c" + bytes(4),),
        (bytes(3) + b"\xff\xff\xff",),
        (bytes(6), 5),
        (bytes(5),),
    ],
    "timedelta": [
        (),
        (1,),
        (1.5, 0, 0),
        (10**9, 0, 0),
        (10**10_000, 0, 0),
        (0, 0, 10**30),
        ("1", 0, 0),
        (True, 0, 0),
        (0, 0, 0, 0),
    ],
    "timezone": [
        (),
        (5,),
        (timedelta(days=1),),
        (timedelta(days=-1),),
        (timedelta(), 5),
        (timedelta(), "x", 1),
        (UTC,),
    ],
    "Decimal": [
        (),
        (5,),
        (1.5,),
        ((0, (1, 2), 3),),
        ("abc",),
        ("9" * 4_301,),
        ("1e1000000",),
        ("1e999999999999",),
        ("0e-1000000",),
        ("1", None),
        ([0, [1], 2],),
    ],
    "Fraction": [
        (),
        ("1e999999999",),
        ("1e-999999999",),
        ("0.5",),
        ("1_0",),
        (" 1",),
        ("1/0",),
        ("\N{ARABIC-INDIC DIGIT ONE}",),
        ("1/" + "9" * 2_800,),
        (1, 0),
        (1.5,),
        (True, 2),
        (Decimal(1),),
        (2**4_096, 1),
        (1, 2, 3),
    ],
    "PurePosixPath": [(5,), (b"a",), (PurePosixPath("a"),), ("a", None), ("a" * 32_768,), ("a" * 1_000,) * 33],
    "PureWindowsPath": [(5,), (["a"],), ("\\" * 40_000,)],
    "UUID": [("00000000-0000-0000-0000-000000000011",), (None,), (5,)],
}
PAIRS = [(name, args) for name, all_args in WRONG.items() for args in all_args]


@pytest.mark.parametrize(("name", "args"), PAIRS, ids=[f"{name} {number}" for number, (name, _) in enumerate(PAIRS)])
def test_a_class_is_not_called_with_what_it_does_not_pickle(name: str, args: tuple[Any, ...]) -> None:
    for operations in (value(args) + b"R.", value(args) + b"\x81.", value(args) + b"}\x92."):
        refused(plain(name) + operations)
    pushed = b"".join(map(value, args))
    if len(pushed) < 100_000:
        refused(b"(" + plain(name) + pushed + b"o.")
        refused(b"(" + pushed + b"i" + plain(name)[1:] + b".")


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(b")}\x92.", id="NEWOBJ_EX"),
        pytest.param(b")" + value({"fold": 1}) + b"\x92.", id="NEWOBJ_EX with names"),
        pytest.param(b"]R.", id="REDUCE with a list"),
        pytest.param(b"NR.", id="REDUCE with None"),
        pytest.param(b"}R.", id="REDUCE with a dictionary"),
        pytest.param(value(range(10**12)) + b"R.", id="REDUCE with a range"),
        pytest.param(value(range(10**12)) + b"\x81.", id="NEWOBJ with a range"),
        pytest.param(value({"int": 5}) + b"b.", id="BUILD on the class"),
        pytest.param(b"K\x01a.", id="APPEND to the class"),
        pytest.param(b"(K\x01e.", id="APPENDS to the class"),
        pytest.param(b"(K\x01\x90.", id="ADDITEMS to the class"),
        pytest.param(b"K\x01K\x02s.", id="SETITEM of the class"),
        pytest.param(b"(K\x01K\x02u.", id="SETITEMS of the class"),
    ],
)
def test_no_operation_reaches_the_class_itself(name: str, how: bytes) -> None:
    refused(plain(name) + how)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(
    "state",
    [
        {"int": 5},
        {"__setstate__": 1},
        {"__class__": 1, "keys": 2},
        (None, {"_numerator": 10**50, "_parts": 5, "int": 7, "__dict__": {}}),
        ({"x": 1}, {"_hash": 5}),
        range(10**12),
        5,
    ],
    ids=str,
)
def test_nothing_changes_a_value_that_was_made(name: str, state: Any) -> None:
    refused(value(VALUES[name][-1]) + value(state) + b"b.", match="no more to it than its value")


@pytest.mark.parametrize("name", [name for name in VALUES if name not in ("OrderedDict", "deque")])
@pytest.mark.parametrize("operations", [b"K\x01a.", b"(K\x01e.", b"(K\x01\x90.", b"K\x01K\x02s.", b"(K\x01K\x02u."])
def test_nothing_is_added_to_a_value_that_holds_nothing(name: str, operations: bytes) -> None:
    refused(value(VALUES[name][-1]) + operations)


def test_items_of_a_deque_cannot_be_set() -> None:
    """It takes a time that grows with the deque."""
    with pytest.raises(MessageFormatException, match="not pickled so"):
        load(pickle.dumps(deque([1, 2]), 4)[:-1] + b"K\x00K\x05s.")


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        {"int": -1},
        {"int": 2**128},
        {"int": True},
        {"int": 1.0},
        {"int": 1, "is_safe": 1},
        {"int": 1, "is_safe": None},
        {"int": 1, "x": 2},
        [("int", 1)],
    ],
)
def test_a_uuid_has_a_number(state: Any) -> None:
    refused(plain("UUID") + b")\x81" + value(state) + b"b.")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(plain("UUID") + b")\x81.", id="alone"),
        pytest.param(b"]" + plain("UUID") + b")\x81a.", id="in a list"),
        pytest.param(b"}" + plain("UUID") + b")\x81K\x01s.", id="as a key"),
        pytest.param(
            b"]" + plain("UUID") + b")\x81\x94a" + value({"int": 1}) + b"0.", id="with a number that is not set"
        ),
    ],
)
def test_a_uuid_without_a_number_is_refused(data: bytes) -> None:
    refused(data)


def test_a_number_is_set_once_so_that_no_key_changes() -> None:
    twice = plain("UUID") + b")\x81" + value({"int": 1}) + b"b" + value({"int": 2}) + b"b."
    with pytest.raises(MessageFormatException, match="no more to it"):
        load(PROTO + twice)


@pytest.mark.parametrize("name", ["Decimal", "Fraction", "PurePosixPath"])
def test_an_argument_of_a_trusted_class_is_none_of_a_plain_one(name: str) -> None:
    text = named(HERE, "Text") + value("1") + b"\x85\x81"
    with pytest.raises(MessageFormatException, match="something else"):
        load(PROTO + plain(name) + text + b"\x85R.", f"{HERE}.Text")


@pytest.mark.parametrize(
    "trusted", ["collections.*", "builtins.*", "datetime.datetime", "uuid.UUID", "fractions.Fraction"]
)
def test_trust_does_not_lift_the_checks(trusted: str) -> None:
    for name, args in PAIRS:
        with pytest.raises(MessageFormatException):
            message = from_elsewhere(PROTO + plain(name) + value(args) + b"R.", trusted)
            _ = message.object


# ----------------------------------------------------------------------------------------------- what it costs


_RANGE = plain("range") + value((0, 10**12, 1)) + b"R"


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(named(HERE, "Items") + _RANGE + b"\x85R.", id="REDUCE"),
        pytest.param(named(HERE, "Items") + _RANGE + b"R.", id="REDUCE, in place of arguments"),
        pytest.param(named(HERE, "Items") + _RANGE + b"\x81.", id="NEWOBJ, in place of arguments"),
        pytest.param(named(HERE, "Items") + _RANGE + b"\x85}\x92.", id="NEWOBJ_EX"),
        pytest.param(named(HERE, "Items") + b")}" + value("x") + _RANGE + b"s\x92.", id="NEWOBJ_EX, by name"),
        pytest.param(b"(" + named(HERE, "Items") + _RANGE + b"o.", id="OBJ"),
        pytest.param(b"(" + _RANGE + b"i" + named(HERE, "Items")[1:] + b".", id="INST"),
        pytest.param(named(HERE, "Call") + b")\x81" + _RANGE + b"R.", id="REDUCE of an instance"),
    ],
)
def test_a_range_is_not_unrolled_by_a_trusted_class(operations: bytes) -> None:
    refused(operations, f"{HERE}.*")


def test_a_short_range_may_be_given_to_a_trusted_class() -> None:
    short = plain("range") + value((0, 3, 1)) + b"R"
    assert load(PROTO + named(HERE, "Items") + short + b"\x85R.", f"{HERE}.*") == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("Decimal", ("9" * 4_300,)),
        ("Fraction", (2**4_096 - 1, 2**4_095 + 1)),
        ("Fraction", ("9" * 1_200 + "/" + "7" * 1_200,)),
        ("range", (0, 2**4_096 - 1, 2**2_048)),
        ("PurePosixPath", ("a/" * 16_000,)),
        ("PureWindowsPath", tuple(f"{number:1000}" for number in range(32))),
    ],
    ids=["Decimal", "Fraction", "text of a Fraction", "range", "path", "parts of a path"],
)
def test_a_long_argument_that_is_named_again_and_again_is_paid_for(name: str, args: tuple[Any, ...]) -> None:
    again = plain(name) + b"q\x000" + value(args) + b"q\x010(" + b"h\x00h\x01R" * 100_000 + b"l."
    with bounded(64 << 20), pytest.raises(MessageFormatException, match="too often"):
        _ = from_elsewhere(PROTO + again).object


@pytest.mark.parametrize(
    ("make", "size"),
    [
        pytest.param(lambda: plain("OrderedDict") + b"q\x000(" + b"h\x00)R" * 50_000 + b"l.", 0, id="OrderedDict"),
        pytest.param(lambda: plain("deque") + b"q\x000(" + b"h\x00)R" * 50_000 + b"l.", 0, id="deque"),
        pytest.param(lambda: plain("PurePosixPath") + b"q\x000(" + b"h\x00)R" * 50_000 + b"l.", 0, id="path"),
        pytest.param(
            lambda: plain("UUID") + b"q\x000" + value({"int": 5}) + b"q\x010(" + b"h\x00)\x81h\x01b" * 50_000 + b"l.",
            0,
            id="UUID",
        ),
        pytest.param(
            lambda: plain("Fraction") + b"q\x000" + value((1, 3)) + b"q\x010(" + b"h\x00h\x01R" * 50_000 + b"l.",
            0,
            id="Fraction",
        ),
        pytest.param(
            lambda: plain("Decimal") + b"q\x000" + value(("1E+5",)) + b"q\x010(" + b"h\x00h\x01R" * 50_000 + b"l.",
            0,
            id="Decimal",
        ),
    ],
)
def test_a_byte_becomes_no_more_memory_than_of_other_objects(make: Callable[[], bytes], size: int) -> None:
    data = PROTO + make()
    with bounded(250 * len(data) + size):
        assert len(from_elsewhere(data).object) == 50_000


def alike(hashed: int, count: int) -> list[Any]:
    """Return fractions that hash alike."""
    return [Fraction(hashed * number % MERSENNE + MERSENNE * number, number) for number in range(2, count + 2)]


LONG = Decimal("9" * 4_300)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([UUID(int=MERSENNE * number + 5) for number in range(20_000)], id="UUID"),
        pytest.param(alike(5, 5_000), id="fractions"),
        pytest.param([*alike(5, 500), *[5] * 30_000], id="a small number, again and again"),
        pytest.param([LONG, *alike(hash(LONG), 3_000)], id="behind a long one"),
    ],
)
def test_keys_that_were_chosen_to_hash_alike_are_refused(keys: list[Any]) -> None:
    with pytest.raises(MessageFormatException, match="too often"):
        load(PROTO + b"\x8f(" + b"".join(map(value, keys)) + b"\x90.")


def test_long_keys_that_are_equal_are_paid_for() -> None:
    path = plain("PurePosixPath") + value("a/" * 10_000) + b"\x85R"
    twice = path + b"q\x00" + path + b"q\x01"
    with pytest.raises(MessageFormatException, match="too often"):
        load(PROTO + b"\x8f(" + twice + b"h\x00h\x01" * 2_000 + b"\x90.")


def test_the_keys_of_that_test_hash_alike() -> None:
    assert {hash(key) for key in [5, *alike(5, 50), UUID(int=MERSENNE * 7 + 5)]} == {5}
    assert {hash(key) for key in [LONG, *alike(hash(LONG), 50)]} == {hash(LONG)}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("wrap", [lambda key: key, lambda key: (key,)], ids=["key", "tuple"])
def test_a_decimal_is_not_compared_with_a_vast_number(is_first: bool, wrap: Callable[[Any], Any]) -> None:
    """It would make a Decimal of the number, which takes time by the square of its length."""
    vast = 5 + MERSENNE * 2**400_000
    keys = [wrap(Decimal(5)), wrap(vast)]
    pushed = b"".join(map(value, keys if is_first else keys[::-1]))
    with pytest.raises(MessageFormatException, match="number of more than 16384 bits"):
        load(PROTO + b"\x8f(" + pushed + b"\x90.")


def test_numbers_of_usual_size_are_keys_beside_decimals() -> None:
    keys = {Decimal("1.50"): 1, 2**4_096: 2, (Decimal(3), 2**8_192): 3, Fraction(1, 3): 4}
    assert load(pickle.dumps(keys, 5)) == keys


# -------------------------------------------------------------------------------------------------- arbitrary programs


SMALL = st.one_of(
    st.just(b"N"),
    st.just(b")"),
    st.just(b"]"),
    st.just(b"}"),
    st.just(b"("),
    st.just(b"\x8f"),
    st.sampled_from([plain(name) for name in VALUES]),
    st.sampled_from([value(each) for each in EVERY if len(repr(each)) < 200]),
    st.sampled_from(
        [value(each) for each in ("a", "1/3", "1e9", b"\x07\xe8\x02\x01", bytes(10), 0, -1, 2**70, 1.5, {"int": 5})]
    ),
    st.sampled_from([bytes([code]) for code in b"R\x81\x92obsuaed\x85\x86\x87tl\x90\x91\x940212"]),
    st.sampled_from([b"h\x00", b"h\x01", b"h\x02"]),
)
CLASSES = [type(values[0]) for values in VALUES.values()]
ALLOWED = {type(each) for each in EVERY} | {
    type(None),
    tuple,
    list,
    dict,
    set,
    frozenset,
    int,
    float,
    str,
    bytes,
    bool,
}


@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SMALL, max_size=40).map(b"".join))
def test_whatever_a_pickle_does_it_gives_plain_values_or_is_refused(operations: bytes) -> None:
    message, found = from_elsewhere(PROTO + operations + b"."), None
    with watched() as events, suppress(MessageFormatException):
        found = message.object
    assert events == []
    seen, left = set[int](), [found]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        assert type(each) in ALLOWED or each in CLASSES, type(each)
        if isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset | deque):
            left += each


# --------------------------------------------------------------------------------------------------- how it is watched


_RUN_ANYTHING = {
    "exec",
    "eval",
    "compile",
    "open",
    "__import__",
    "system",
    "popen",
    "fork_exec",
    "posix_spawn",
    "create_dynamic",
}
_MAY_RUN = {
    *("pickle", "_compat_pickle", "copyreg", "importlib", "<frozen importlib._bootstrap>", "<frozen importlib"),
    *(
        "fractions",
        "numbers",
        "uuid",
        "enum",
        "pathlib",
        "posixpath",
        "<frozen posixpath>",
        "ntpath",
        "fnmatch",
        "abc",
        "<frozen abc>",
    ),
    *("re", "functools", "types", "operator", "typing", "_collections_abc", "<frozen _collections_abc>", "collections"),
    *("support", "contextlib", "test_plain_values"),
}


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collect the calls meanwhile of functions that run something, and of those that are none of decoding's."""
    events: list[str] = []

    def hear(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in _RUN_ANYTHING:
            events.append(called.__qualname__)
        elif event == "call":
            path = Path(frame.f_code.co_filename)
            names = {path.stem, path.parent.name, frame.f_code.co_filename}
            if not names & _MAY_RUN and "pyjms" not in path.parts and "<string>" not in names:
                events.append(f"{frame.f_code.co_filename}: {frame.f_code.co_qualname}")

    before = sys.getprofile()
    gc.disable()  # which others have calls at
    sys.setprofile(hear)
    try:
        yield events
    finally:
        sys.setprofile(before)
        gc.enable()


@contextmanager
def measured() -> Iterator[list[int]]:
    """Yield a list that has, in the end, how many bytes were in use at a time by all threads."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        yield peaks
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@contextmanager
def bounded(size: int) -> Iterator[None]:
    """Fail if more than `size` bytes are in use at a time meanwhile."""
    with measured() as peaks:
        yield
    assert peaks[0] < size, peaks


def test_the_watch_hears_what_must_not_happen() -> None:
    with watched() as events:
        compile("1", "here", "eval")
        with Path(__file__).open("rb"):
            pass
        fill("text")
    assert {"compile", "open"} <= set(events)
    assert any(event.endswith("textwrap.py: fill") for event in events)
