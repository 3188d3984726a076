"""What is shown and printed of a run."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pyjms.demo.screen import number, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("vm://demo", "vm://demo"),
        ("stomp://ada:secret@host:61613", "stomp://ada:***@host:61613"),
        ("stomp://ada@host:61613", "stomp://ada@host:61613"),
        ("vm://demo on postgresql://ada:secret@host/db", "vm://demo on postgresql://ada:***@host/db"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_whole_sums_are_shown_whole() -> None:
    assert [number(Fraction(3)), number(Fraction(5, 2))] == [3, 2.5]
