"""Words of texts for people."""

from __future__ import annotations

import pytest

from pyjms.spi.words import counted, plain_words, said_by_system


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (2000, "2,000 messages")]
)
def test_one_of_something_is_no_plural(number: int, text: str) -> None:
    assert counted(number, "message") == text


def test_what_the_system_says_is_told_without_its_number() -> None:
    assert said_by_system(ConnectionRefusedError(111, "Connection refused")) == "Connection refused"
    assert said_by_system(OSError("[Errno -2] Name or service not known")) == "Name or service not known"
    assert said_by_system(TimeoutError()) == "TimeoutError"


def test_a_plural_of_its_own() -> None:
    assert (counted(1, "branch", "branches"), counted(3, "branch", "branches")) == ("1 branch", "3 branches")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Value error, 'foo' is not one of 'text', 'map'.", "'foo' is not one of 'text', 'map'."),
        ("Input should be a valid integer, unable to parse string as an integer", "should be a whole number"),
        ("Input should be a valid integer, got a number with a fractional part", "should be a whole number"),
        ("Input should be a valid number, unable to parse string as a number", "should be a number"),
        ("Input should be a valid boolean, unable to interpret input", "should be true or false"),
        ("Input should be a valid string", "should be a text"),
        ("Input should be a valid list", "should be a list"),
        ("Input should be a valid dictionary", "should be an object, of names and their values"),
        (
            "Input should be a valid dictionary or instance of RouteTarget",
            "should be an object, of names and their values",
        ),
        ("Input should be less than or equal to 9", "should be less than or equal to 9"),
        ("'abc' is no span of time", "'abc' is no span of time"),
    ],
)
def test_what_pydantic_says_is_told_in_plain_words(theirs: str, ours: str) -> None:
    assert plain_words(theirs) == ours
