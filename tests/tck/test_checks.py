"""The comparisons of conformance tests: what is the same value in JMS, and what a failure tells."""

from __future__ import annotations

import pytest

from pyjms_tck.checks import CheckError, Checks, Raised, attempt, expect, expect_error, is_same

NAN = float("nan")


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [(None, None), (True, True), (1, 1), (1.5, 1.5), (NAN, NAN), (-0.0, -0.0), ("a", "a"), (bytearray(b"a"), b"a")],
)
def test_the_same_value_is_the_same(seen: object, wanted: object) -> None:
    assert is_same(seen, wanted)


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (1, True),
        (True, 1),
        (0, None),
        ("", None),
        (1.0, 1),
        (1, 1.0),
        (0.0, -0.0),
        (0.0, NAN),
        ("a", b"a"),
        (b"", None),
        (b"a", bytearray(b"b")),
        ([1], [2]),
    ],
)
def test_values_that_python_takes_for_equal_differ_where_jms_tells_them_apart(seen: object, wanted: object) -> None:
    assert not is_same(seen, wanted)


def test_a_failure_says_what_was_looked_at_expected_and_seen() -> None:
    with pytest.raises(CheckError) as failed:
        expect("the text, as received", "seen", "wanted")
    assert str(failed.value) == "the text, as received: expected 'wanted' (str), saw 'seen' (str)"
    assert failed.value.expected == "the text, as received: 'wanted' (str)"
    assert failed.value.seen == "'seen' (str)"


def test_an_expected_error_passes_and_any_other_outcome_fails() -> None:
    expect_error("int of a word", ValueError, int, "word")
    with pytest.raises(CheckError, match="int of 7: expected ValueError, saw that it returned 7"):
        expect_error("int of 7", ValueError, int, "7")
    with pytest.raises(CheckError, match="int of nothing: expected ValueError, saw TypeError: "):
        expect_error("int of nothing", ValueError, int, None)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(CheckError) as failed, Checks() as check:
        check.same("one", 1, 1)
        check.same("two", 2, 3)
        check.fails("three", ValueError, int, "3")
        check.gives("four", 4, int, "word")
    assert str(failed.value).splitlines() == [
        "3 of 4 checks failed:",
        "two: expected 3 (int), saw 2 (int)",
        "three: expected ValueError, saw that it returned 3",
        "four: expected 4 (int), saw ValueError: invalid literal for int() with base 10: 'word'",
    ]
    assert len(failed.value.expected.splitlines()) == len(failed.value.seen.splitlines()) == 3


def test_many_problems_are_cut_and_counted() -> None:
    with pytest.raises(CheckError, match="and 30 more") as failed, Checks() as check:
        for number in range(50):
            check.same(f"number {number}", number, -1)
    assert len(str(failed.value).splitlines()) == 22


def test_one_problem_stands_for_itself() -> None:
    with pytest.raises(CheckError, match=r"^two: expected 3 \(int\), saw 2 \(int\)$"), Checks() as check:
        check.same("one", 1, 1)
        check.same("two", 2, 3)


def test_checks_that_check_nothing_fail() -> None:
    with pytest.raises(AssertionError, match="nothing was checked"), Checks():
        pass


def test_an_error_of_the_test_itself_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), Checks() as check:
        check.same("one", 1, 2)
        check.same("two", 1 // 0, 2)


def test_an_attempt_gives_the_result_or_what_was_raised() -> None:
    assert attempt(int, "7") == 7
    raised = attempt(int, "word")
    assert isinstance(raised, Raised)
    assert isinstance(raised.error, ValueError)
