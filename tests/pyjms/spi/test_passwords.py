"""Where commands find a password."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import typer

from pyjms.spi.arguments import VARIABLE, NoPasswordError, read_password


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))


def test_a_file_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "other")
    file = tmp_path / "password"
    file.write_text("secret\nnot this\n")
    assert read_password("ann", file) == "secret"
    assert read_password("ann", None) == "other"


@pytest.mark.parametrize("content", ["", "\nsecret"])
def test_a_file_without_a_password_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "password"
    file.write_text(content)
    with pytest.raises(NoPasswordError, match="write the password in its first line"):
        read_password("ann", file)


def test_where_nobody_can_be_asked_it_says_what_to_do() -> None:
    with pytest.raises(NoPasswordError, match=f"no password for ann: set {VARIABLE}, or name a --password-file"):
        read_password("ann", None)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_person_is_asked_and_types_a_new_one_twice(monkeypatch: pytest.MonkeyPatch, is_new: bool) -> None:
    asked: list[tuple[str, object]] = []

    def prompt(text: str, *, confirmation_prompt: bool, **how: object) -> str:
        asked.append((text, confirmation_prompt))
        assert how == {"hide_input": True, "err": True}
        return "secret"

    monkeypatch.setattr("sys.stdin", _Terminal())
    monkeypatch.setattr(typer, "prompt", prompt)
    assert read_password("ann", None, is_new=is_new) == "secret"
    assert asked == [("Password of ann", is_new)]
