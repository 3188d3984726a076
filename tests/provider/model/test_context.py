"""Context variables in texts: nested, escaped, unknown, cyclic."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_provider.model.attributes import interpolate, interpolate_all, process_variable, refers_only
from pyjms_provider.model.errors import BadVariableError, CyclicVariableError, LongVariableError, UnknownVariableError

VALUES = {"host": "db.example", "port": "5432", "where": "${host}:${port}", "url": "sql://${where}/x", "empty": ""}


@pytest.mark.realises("BJ-CTX-3")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${port}", "5432"),
        ("${url}?a=${port}", "sql://db.example:5432/x?a=5432"),
        ("${empty}", ""),
        ("$${port}", "${port}"),
        ("a$${port}${port}", "a${port}5432"),
        ("$ and } and $$", "$ and } and $$"),
        ("costs $$${port}", "costs $${port}"),
    ],
)
def test_variables_are_replaced(text: str, expected: str) -> None:
    assert interpolate(text, VALUES.get) == expected


@given(st.text())
def test_a_text_without_variables_stays_as_it_is(text: str) -> None:
    if "${" not in text:
        assert interpolate(text, dict[str, str]().get) == text


@given(st.text(alphabet="ab${}", max_size=12))
def test_any_text_is_understood_or_refused(text: str) -> None:
    with suppress(BadVariableError):
        assert isinstance(interpolate(text, {"a": "b", "b": "x"}.get), str)


def test_an_unknown_variable_is_named() -> None:
    with pytest.raises(UnknownVariableError, match="there is no variable 'hots': give it a value in the context"):
        interpolate("${hots}", VALUES.get)


def test_a_cycle_is_named() -> None:
    values = {"a": "1${b}", "b": "${c}", "c": "${b}"}
    with pytest.raises(CyclicVariableError, match="variables lead back to themselves: b → c → b;"):
        interpolate("${a}", values.get)


@pytest.mark.parametrize("text", ["${", "${a", "${}", "x${a${b}}"])
def test_what_is_no_variable_is_refused(text: str) -> None:
    with pytest.raises(BadVariableError, match="that is no variable; write") as caught:
        interpolate(f"hunter2{text}", {"a": "1", "b": "2"}.get)
    assert "hunter2" not in caught.value.reason, "it may be a password"


def test_variables_are_replaced_within_lists_and_maps() -> None:
    given_value = {"a": ["${port}", 1, None], "b": {"c": "${host}"}, "d": ("${port}",)}
    expected = {"a": ["5432", 1, None], "b": {"c": "db.example"}, "d": ["5432"]}
    assert interpolate_all(given_value, VALUES.get) == expected


@pytest.mark.realises("BJ-CTX-4")
def test_the_environment_answers_to_both_spellings() -> None:
    environment = {"HOME": "/home/me", "PYJMS_STOMP_PORT": "61613"}
    assert process_variable("HOME", environment) == "/home/me"
    assert process_variable("pyjms.stomp-port", environment) == "61613"
    assert process_variable("nothing", environment) is None


@pytest.mark.parametrize(("text", "only"), [("${a}", True), ("${a}b", False), ("${a}${b}", False), ("secret", False)])
def test_a_reference_tells_no_secret(text: str, only: bool) -> None:
    assert refers_only(text) is only


def test_values_that_double_are_refused_before_they_are_made() -> None:
    values = {"v0": "x", **{f"v{n}": f"${{v{n - 1}}}${{v{n - 1}}}" for n in range(1, 100)}}
    with pytest.raises(LongVariableError, match="its variables lead to more than 10000 others, or 1000000 characters"):
        interpolate("${v99}", values.get)
    with pytest.raises(LongVariableError):
        interpolate_all(["${long}"] * 20, {"long": "x" * 100_000}.get)
    assert interpolate("${v10}", values.get) == "x" * 1024
