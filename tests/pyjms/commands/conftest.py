"""What the tests of the commands share."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tests.pyjms.demo.command_line import Run, runner

Type: TypeAlias = Callable[[bytes], None]


@pytest.fixture
def run_pyjms(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``pyjms ARGUMENTS``; gives exit code, output and errors."""
    return runner(monkeypatch, capsys)


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Type:
    """Puts bytes into standard input."""

    def put(text: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    return put


@pytest.fixture
def documents(run_pyjms: Run) -> Callable[..., list[dict[str, Any]]]:
    """Runs a command with ``--json`` that must succeed, and gives the document of each line."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        code, out, err = run_pyjms(*arguments, "--json")
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    return run
