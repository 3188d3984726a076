"""Running ``pyjms ARGUMENTS`` inside the test's process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeAlias

import pytest

from pyjms import cli

Run: TypeAlias = Callable[..., tuple[int, str, str]]


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs ``pyjms`` with the arguments given to it, and returns exit code, output and errors."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pyjms", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        code = end.value.code
        return (code if isinstance(code, int) else 0), out, err

    return run
