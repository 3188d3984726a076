"""The errors of the SPI: each names the JMS exception that stands for it, and says where a selector is wrong."""

from __future__ import annotations

import inspect
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyjms
from pyjms.spi import errors
from pyjms.spi.errors import InvalidSelectorError, ProviderError

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ProviderError)]


def test_all_are_public() -> None:
    assert {kind.__name__ for kind in CLASSES} == set(errors.__all__)


@pytest.mark.parametrize("kind", CLASSES)
def test_each_names_an_exception_of_jms(kind: type[ProviderError]) -> None:
    assert issubclass(getattr(pyjms, kind.jms_name), pyjms.JMSException)


def test_each_has_a_code_of_its_own() -> None:
    assert len({kind.code for kind in CLASSES}) == len(CLASSES)
    assert all(kind.code.startswith("PYJMS-") for kind in CLASSES)


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind is not InvalidSelectorError])
def test_the_reason_is_what_is_shown(kind: type[ProviderError]) -> None:
    error = kind("because")
    assert (error.reason, str(error)) == ("because", "because")


def test_an_invalid_selector_is_shown_with_a_caret() -> None:
    error = InvalidSelectorError("a value is missing", "price > AND x = 1", 8)
    assert error.reason == "a value is missing\n  price > AND x = 1\n          ^"
    assert (error.problem, error.selector, error.position) == ("a value is missing", "price > AND x = 1", 8)


def test_only_the_neighbourhood_of_the_error_is_shown() -> None:
    error = InvalidSelectorError("wrong", "a" * 100 + "!" + "b" * 100, 100)
    _, line, caret = error.reason.split("\n")
    assert line == "  …" + "a" * 30 + "!" + "b" * 29 + "…"
    assert line[len(caret) - 1] == "!"


@given(st.data(), st.text(max_size=200))
def test_the_caret_stands_under_the_position(data: st.DataObject, selector: str) -> None:
    position = data.draw(st.integers(0, len(selector)))
    error = InvalidSelectorError("wrong", selector, position)
    lines = error.reason.split("\n")
    assert len(lines) == 3
    assert lines[2].strip() == "^"
    shown = lines[1][len(lines[2]) - 1 :][:1]
    expected = selector[position : position + 1]
    assert shown == (" " if expected.isspace() else expected)
    assert len(lines[1]) <= 64


@pytest.mark.parametrize("kind", CLASSES)
def test_errors_travel_between_processes(kind: type[ProviderError]) -> None:
    """A test runner with workers, and a linked exception that is logged elsewhere, pickle them."""
    error = kind("wrong", "x >", 3) if kind is InvalidSelectorError else kind("wrong")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert copy.reason == error.reason
    assert vars(copy) == vars(error)
