"""What the tests of the demo share."""

from __future__ import annotations

import pytest

from tests.pyjms.demo.command_line import Run, runner


@pytest.fixture
def run_pyjms(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``pyjms ARGUMENTS``; gives exit code, output and errors."""
    return runner(monkeypatch, capsys)
