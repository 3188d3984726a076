from __future__ import annotations

from typing import Any, NoReturn

import pytest

from pyjms.spi.words import REASON_MAX, reason_of


class Nothing(Exception):
    def __str__(self) -> Any:
        return dict(enumerate(self.args)).get(0)  # a common slip: None where there is no text


class Raising(Exception):
    def __str__(self) -> NoReturn:
        raise KeyError("no text")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such order"), "ValueError: no such order"),
        (ValueError(), "ValueError"),
        (Nothing(), "Nothing"),
        (Raising(), "Raising"),
        (SystemExit(3), "SystemExit: 3"),
        (OSError("caf\udce9\0"), "OSError: caf\\udce9\\0"),
    ],
)
def test_the_reason_says_class_and_text(error: BaseException, reason: str) -> None:
    assert reason_of(error) == reason


def test_the_reason_is_short() -> None:
    reason = reason_of(ValueError("x" * 1_000_000))
    assert reason == "ValueError: " + "x" * (REASON_MAX - len("ValueError: "))
    assert len(reason_of(type("N" * 5_000, (Exception,), {})("text"))) == REASON_MAX
