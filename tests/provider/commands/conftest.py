"""What the tests of the broker's commands share."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.provider.commands.served import BrokerProcess
from tests.pyjms.demo.command_line import Run, runner

PASSWORD = "correct horse battery"


@pytest.fixture
def run_pyjms(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``pyjms ARGUMENTS`` where nobody is to be asked; gives exit code, output and errors."""
    for name in ("PYJMS_PASSWORD", "PYJMS_USER", "PYJMS_TOKEN", "PYJMS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return runner(monkeypatch, capsys)


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch, run_pyjms: Run) -> str:
    """The password that commands find in the environment."""
    monkeypatch.setenv("PYJMS_PASSWORD", PASSWORD)
    return PASSWORD


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts `pyjms broker run ARGUMENTS` in the test's folder, and ends what the test left running."""
    with ExitStack() as ends:  # each is ended, also when the end of another one fails

        def start(*arguments: str, **options: Any) -> BrokerProcess:
            broker = BrokerProcess(tmp_path, *arguments, **options)
            ends.callback(broker.end)
            return broker

        yield start
