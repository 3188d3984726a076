"""The command ``pyjms``."""

from __future__ import annotations

import pytest

from pyjms.spi.words import installed_version
from tests.pyjms.demo.command_line import runner


def test_the_version_is_that_of_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner(monkeypatch, capsys)("--version") == (0, f"pyjms {installed_version()}\n", "")


def test_help_lists_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = runner(monkeypatch, capsys)("--help")
    assert code == 0
    assert "demo" in out
