from __future__ import annotations

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from threading import Barrier
from typing import Any

import pytest

from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector import Selector, compile_selector, is_same_text, selector_or_none
from pyjms.spi.selector.selector import _CACHE_SIZE, _CACHED_LENGTH_MAX, _cached
from tests.pyjms.spi.selector.support import envelope, error_of

TEXT = "region = 'EU' AND price > 10"


@pytest.mark.parametrize("text", [None, ""])
def test_no_text_is_no_selector(text: str | None) -> None:
    assert selector_or_none(text) is None


def test_other_text_is_a_selector() -> None:
    assert selector_or_none(TEXT) == compile_selector(TEXT)
    with pytest.raises(InvalidSelectorError):
        selector_or_none(" ")


def test_the_empty_text_compiles_to_a_selector_of_everything() -> None:
    selector = compile_selector("")
    assert selector.matches(envelope())
    assert selector.evaluate(envelope()) is True
    assert selector.identifiers == frozenset()


def test_only_true_matches() -> None:
    selector = compile_selector("price > 10")
    for properties, value in (({"price": 11}, True), ({"price": 9}, False), ({}, None)):
        assert selector.evaluate(envelope(properties)) is value
        assert selector.matches(envelope(properties)) is (value is True)


def test_it_names_its_text_and_its_identifiers() -> None:
    selector = compile_selector("a = 1 AND (b LIKE 'x' OR JMSType IS NULL) AND a <> c")
    assert selector.text == "a = 1 AND (b LIKE 'x' OR JMSType IS NULL) AND a <> c"
    assert selector.identifiers == {"a", "b", "c", "JMSType"}
    assert repr(compile_selector("a = 'x'")) == "compile_selector(\"a = 'x'\")"


def test_it_cannot_be_changed() -> None:
    selector: Any = compile_selector(TEXT)
    for name in ("text", "matches", "identifiers"):
        with pytest.raises(FrozenInstanceError):
            setattr(selector, name, None)
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        selector.other = 1


def test_selectors_of_one_text_are_equal() -> None:
    first = compile_selector(TEXT)
    _cached.cache_clear()
    second = compile_selector(TEXT)
    assert first is not second
    assert first == second
    assert hash(first) == hash(second)
    assert first != compile_selector(f"{TEXT} ")


def test_copies_and_pickles_are_equal() -> None:
    selector = compile_selector(TEXT)
    for again in (copy.copy(selector), copy.deepcopy(selector), pickle.loads(pickle.dumps(selector))):
        assert again == selector
        assert again.matches(envelope({"region": "EU", "price": 11}))


def test_compiled_selectors_are_kept() -> None:
    assert compile_selector(TEXT) is compile_selector(TEXT)


def test_the_cache_is_bounded_and_long_selectors_are_not_kept() -> None:
    assert _cached.cache_info().maxsize == _CACHE_SIZE
    long = "a = 1" + " " * _CACHED_LENGTH_MAX
    assert compile_selector(long) == compile_selector(long)
    assert compile_selector(long) is not compile_selector(long)


def test_a_wrong_selector_is_wrong_each_time() -> None:
    assert str(error_of("a =")) == str(error_of("a ="))


def test_threads_may_compile_and_match_at_the_same_time() -> None:
    _cached.cache_clear()
    count = 8
    barrier = Barrier(count)

    def work(thread: int) -> list[Selector]:
        barrier.wait()
        own = compile_selector(f"a = {thread}")
        assert own.matches(envelope({"a": thread}))
        found = [compile_selector(f"b BETWEEN {number} AND {number + 1}") for number in range(20)]
        assert all(selector.matches(envelope({"b": number})) for number, selector in enumerate(found))
        return found

    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(work, range(count)))
    assert all(result == results[0] for result in results)


def test_with_too_little_stack_left_it_says_so() -> None:
    frames_left = 100

    def dive() -> None:
        if _depth() < sys.getrecursionlimit() - frames_left:
            dive()
        else:
            compile_selector("a AND (b OR " * 40 + "c" + ")" * 40)

    _cached.cache_clear()
    compile_selector("a")  # The parser itself is there.
    with pytest.raises(InvalidSelectorError, match="too little stack is left"):
        dive()


def _depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (None, None, True),
        (None, "a = 1", False),
        ("a = 1", "a=1", True),
        ("a = 1", " a\t=\n1 ", True),
        ("a IN ('x', 'y y')", "a IN('x','y y')", True),
        ("a = 'x  y'", "a = 'x y'", False),
        ("a = 'it''s'", "a='it''s'", True),
        ("a > -1 AND b <= 2", "a >- 1 AND b<=2", True),
        ("a = 1", "a = 2", False),
        ("a = 1", "A = 1", False),
        ("ab = 1", "a = 1", False),
        ("NOT a", "NOTa", False),
    ],
)
def test_white_space_between_words_makes_no_difference(one: str | None, other: str | None, is_same: bool) -> None:
    assert is_same_text(one, other) is is_same
    assert is_same_text(other, one) is is_same
