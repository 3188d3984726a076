"""The command ``pyjms``."""

from __future__ import annotations

import sys
from importlib.metadata import version

import pytest

from pyjms import cli
from tests.pyjms.demo.command_line import runner


def test_the_version_is_that_of_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner(monkeypatch, capsys)("--version") == (0, f"pyjms {version('pyjms')}\n", "")


def test_help_lists_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = runner(monkeypatch, capsys)("--help")
    assert code == 0
    assert "demo" in out


@pytest.mark.parametrize("package", ["rich", "typer"])
def test_a_missing_extra_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=rf"{package} is missing.*pip install 'pyjms\[cli\]'"):
        cli.main()
