from __future__ import annotations

import dis
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pyjms.spi.selector import compile_selector
from pyjms.spi.selector.parse import DEPTH_MAX
from pyjms.types import Byte, Double, Float, Int, Long, Short, Stored
from tests.pyjms.spi.selector.support import envelope, evaluate
from tests.pyjms.spi.selector.test_parse import by_nesting


class Counted(Mapping[str, Stored]):
    """Properties that count how often each is read."""

    def __init__(self, values: dict[str, Stored]) -> None:
        self.values_by_name = values
        self.reads: Counter[str] = Counter()

    def __getitem__(self, name: str) -> Stored:
        self.reads[name] += 1
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("a = 2 AND b = 1", "a"),
        ("a = 1 OR b = 1", "a"),
        ("a = 1 AND b = 1", "ab"),
        ("a = 1 AND a < 5 AND NOT a IS NULL", "a"),
        ("a BETWEEN 0 AND 5 AND (a = 2 OR a = 1)", "a"),
        ("a * a + a = a + a", "a"),
        ("a BETWEEN a AND a", "a"),
        # Whether the first term has read b cannot be known: b is read in advance.
        ("(a = 2 AND b = 1) OR b = 1", "ab"),
        ("(a = 1 AND b = 2) OR b = 1", "ab"),
        ("JMSPriority = 4", ""),
    ],
)
def test_a_property_is_read_when_it_is_needed_and_once(text: str, reads: str) -> None:
    properties = Counted({"a": 1, "b": 1})
    compile_selector(text).matches(envelope(properties))
    assert properties.reads == Counter(reads)


def test_properties_are_left_alone_by_selectors_on_header_fields() -> None:
    class Sealed:
        priority, jms_type = 4, "x"

        @property
        def properties(self) -> Any:
            raise AssertionError

    selector: Any = compile_selector("JMSPriority = 4 AND JMSType LIKE 'x%'")
    assert selector.matches(Sealed())


@pytest.mark.parametrize("kind", [Byte, Short, int, Int, Long, Float, float, Double])
def test_every_class_of_number_is_a_number(kind: Any) -> None:
    for text in ("a = 2", "a <> 1", "a > 1", "a >= 2.0", "a < 2147483648", "a BETWEEN 1 AND 3", "a + 0 = 2", "-a = -2"):
        assert evaluate(text, {"a": kind(2)}) is True
        assert evaluate(f"NOT ({text})", {"a": kind(2)}) is False


@pytest.mark.parametrize(
    "text", ["a = 1", "a >= 0", "a <> 5", "a BETWEEN 0 AND 1", "a = 1.0", "a = 9223372036854775807"]
)
def test_a_boolean_is_no_number_although_python_takes_it_for_one(text: str) -> None:
    assert evaluate(text, {"a": True}) is False
    assert evaluate(text, {"a": False}) is False


@pytest.mark.parametrize("value", [0, 1, 1.0, "TRUE", "", Byte(1)])
def test_a_number_or_a_string_is_no_boolean(value: Stored) -> None:
    assert evaluate("a", {"a": value}) is None
    assert evaluate("a = TRUE", {"a": value}) is False
    assert evaluate("a <> TRUE", {"a": value}) is False


@pytest.mark.parametrize(
    ("literal", "value", "equal"),
    [
        ("16777217", Float(16777216), True),
        ("16777217", 16777216.0, False),
        ("16777216f", 16777217, True),
        ("16777216f", Long(16777217), True),
        ("16777216f", 16777217.0, False),
        ("9007199254740993", 9007199254740992.0, True),
        ("9007199254740993", Long(9007199254740992), False),
        ("9007199254740992.0", Long(9007199254740993), True),
        ("9007199254740992f", Long(9007199254740993), True),
    ],
)
def test_large_literals_are_promoted_before_they_are_compared(literal: str, value: Stored, equal: bool) -> None:
    assert evaluate(f"a = {literal}", {"a": value}) is equal
    assert evaluate(f"a <> {literal}", {"a": value}) is not equal
    assert evaluate(f"a BETWEEN {literal} AND {literal}", {"a": value}) is equal
    assert evaluate(f"a NOT BETWEEN {literal} AND {literal}", {"a": value}) is not equal
    assert evaluate(f"{literal} = a", {"a": value}) is equal


def test_the_result_is_a_bool() -> None:
    for text in ("a", "a = 1", "s LIKE '%x_'", "s IN ('x')", "a AND b", "a OR s = 'x'", "NOT a", "a + 1 = 2", "TRUE"):
        for value in (None, True, 1, "x"):
            assert type(compile_selector(text).matches(envelope({"a": value, "s": value}))) is bool


def test_names_and_literals_are_constants_never_code() -> None:
    text = "s = '\"); raise SystemExit #' AND __import__ = 1 AND lambda = 2 AND None_ = 3 AND envelope = 4"
    names = {"__import__": 1, "lambda": 2, "None_": 3, "envelope": 4}
    selector = compile_selector(text)
    assert selector.matches(envelope({"s": '"); raise SystemExit #', **names}))
    matches: Any = selector.matches
    used = {instruction.argval for instruction in dis.get_instructions(matches) if "GLOBAL" in instruction.opname}
    assert used <= {"type", "NUMBERS", "str", "int"}


@by_nesting
def test_the_deepest_selector_can_be_compiled_and_explained(before: str, middle: str, after: str, levels: int) -> None:
    times = (DEPTH_MAX - 2) // levels
    end = " > 1" if "*" in before else ""
    selector = compile_selector(f"{before * times}{middle}{after * times}{end}")
    for subject in (envelope({"a": True, "c": True}), envelope({"a": 1})):
        assert selector.explain(subject).value is selector.evaluate(subject)


def test_a_chain_of_two_thousand_terms_is_compiled() -> None:
    wide = " OR ".join(f"a = {number}" for number in range(2000))
    assert evaluate(wide, {"a": 1999}) is True
    assert evaluate(wide, {"a": 2000}) is False
    assert evaluate(f"NOT ({wide})", {"a": 2000}) is True
    assert evaluate(wide) is None
    assert evaluate(" + ".join(["a"] * 2000) + " = 4000", {"a": 2}) is True
    assert evaluate(f"s IN ({', '.join(repr(str(number)) for number in range(5000))})", {"s": "4999"}) is True
