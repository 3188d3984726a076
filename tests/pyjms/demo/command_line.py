"""Running ``pyjms ARGUMENTS`` inside the test's process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        with _logging_of_its_own(), pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        code = end.value.code
        return (code if isinstance(code, int) else 0), out, err

    return run


@contextmanager
def _logging_of_its_own() -> Iterator[None]:
    """Give a command, which has a process of its own elsewhere, loggers to which nobody has added a handler; then give back those that were there."""
    loggers = [logging.getLogger(name) for name in ("pyjms", "pyjms_provider", "pyjms.store")]
    handlers = [list(logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.handlers.clear()
    try:
        yield
    finally:
        for logger, before in zip(loggers, handlers, strict=True):
            logger.handlers[:] = before
