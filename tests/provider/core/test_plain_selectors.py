"""Plain clients' texts count as numbers and booleans where their selectors compare them with such."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector import compile_selector
from pyjms.types import Stored
from pyjms_provider.core.queue.selectors import plain_selector
from tests.provider.helpers import QueueWorld, make_envelope


def chooses(selector: str, **properties: Stored) -> bool:
    made = plain_selector(selector)
    assert made is not None
    return made.matches(make_envelope(properties=properties))


@pytest.mark.parametrize(
    ("selector", "value", "chosen"),
    [
        ("cups > 1", "2", True),
        ("cups > 1", "1", False),
        ("cups = 2", "2.0", True),
        ("NOT cups = 2", "3", True),
        ("cups <> 2", "2", False),
        ("1 < cups", "2", True),
        ("cups + 1 = 3", "2", True),
        ("-cups = -2", "2", True),
        ("cups BETWEEN 1 AND 3", "2", True),
        ("cups NOT BETWEEN 1 AND 3", "2", False),
        ("cups = '2'", "2", True),
        ("cups = '2'", "2.0", False),
        ("cups > 1", "many", False),
        ("cups", "true", True),
        ("cups = FALSE", "false", True),
        ("cups <> TRUE", "yes", False),
        ("cups LIKE '2%'", "23", True),
        ("cups IN ('1', '2')", "2", True),
        ("cups > 1 AND cups < 5 OR cups = 9", "4", True),
        ("convert_string_expressions:cups > 1", "2", True),
    ],
)
def test_a_text_is_compared_as_what_the_literal_is(selector: str, value: str, chosen: bool) -> None:
    assert chooses(selector, cups=value) is chosen


def test_what_is_typed_is_compared_as_jms_says() -> None:
    assert chooses("cups > 1", cups=2)
    assert not chooses("cups > 1")
    assert chooses("JMSPriority = 4")


def test_no_selector_is_none_and_a_wrong_one_is_told() -> None:
    assert plain_selector(None) is None
    assert plain_selector("") is None
    with pytest.raises(InvalidSelectorError):
        plain_selector("cups >")


def test_it_is_never_taken_for_the_selector_of_a_jms_client() -> None:
    assert plain_selector("cups > 1") != compile_selector("cups > 1")
    assert plain_selector("colour = 'red'") == compile_selector("colour = 'red'")


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
def test_a_number_in_a_text_is_compared_as_the_number(value: int, limit: int, operator: str) -> None:
    text = f"n {operator} {limit}"
    assert chooses(text, n=str(value)) is compile_selector(text).matches(make_envelope(properties={"n": value}))


@pytest.mark.parametrize("text", ["cups = {}", "{} = cups AND jar IS NULL"])
def test_many_that_wait_for_numbers_get_what_they_wait_for(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not found by a value, as it is another one that the message says."""
    monkeypatch.setattr("tests.provider.helpers.compile_selector", plain_selector)
    world = QueueWorld()
    early = [world.reader(selector=text.format(number), interested=True) for number in range(10)]
    for number in range(20):
        world.send(str(number), properties={"cups": f"{number}"})
    assert [reader.texts() for reader in early] == [[str(number)] for number in range(10)]
    late = [world.reader(selector=text.format(number)) for number in range(10, 20)]
    assert [reader.texts() for reader in late] == [[str(number)] for number in range(10, 20)]
