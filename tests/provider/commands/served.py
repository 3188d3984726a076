"""A broker that runs as a user runs it: a process of its own, on free ports, ended by its id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event

__all__ = ["PATIENCE_S", "PYJMS", "BrokerProcess", "environment"]

PYJMS = (sys.executable, "-c", "from pyjms.cli import main; main()")

PATIENCE_S = 60.0
"""How long a test waits for another process, which a busy machine starts slowly."""


def environment(**variables: str) -> dict[str, str]:
    """Return the variables for a command: nobody's own settings are among them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYJMS_")}
    return {**kept, "COLUMNS": "200", "TERM": "dumb", **variables}


class BrokerProcess:
    """`pyjms broker run ARGUMENTS`."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        log_folder: Path | None = None,
    ) -> None:
        self._log = (log_folder or folder) / "broker.log"
        self._errors = self._log.open("wb")
        self.process = subprocess.Popen(
            [*PYJMS, "broker", "run", *arguments],
            cwd=folder,
            env=environment(PYTHONFAULTHANDLER="1", **(variables or {})),
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    @property
    def log(self) -> str:
        """What it wrote to standard error."""
        return self._log.read_text()

    def await_log(self, text: str) -> None:
        """Return when it has written `text` to standard error."""
        pause = Event()
        for _ in range(int(PATIENCE_S / 0.01)):
            if text in self.log:
                return
            pause.wait(0.01)
        raise AssertionError(f"it did not write {text!r}:\n{self.log}")

    def announced(self, *schemes: str) -> list[str]:
        """Return where it listens, for each scheme, once it has said so for all."""
        found: dict[str, str] = {}
        assert self.process.stdout is not None
        while set(schemes) - set(found):
            line = self.process.stdout.readline()
            assert line, f"it ended:\n{self.log}"
            word, _, url = line.strip().partition(" ")
            assert word == "listening", line
            found[url.partition("://")[0]] = url
        return [found[scheme] for scheme in schemes]

    def await_end(self) -> int:
        """Return its exit code, once it has ended by itself."""
        try:
            return self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # it writes where its threads are
            self.process.wait(timeout=10)
            raise AssertionError(f"the broker did not end:\n{self.log[-10_000:]}") from None

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it, and return its exit code. May be repeated."""
        if self._errors.closed:
            return self.process.returncode
        try:
            self.process.send_signal(number)  # does nothing to one that has ended
            return self.await_end()
        finally:
            self.process.kill()
            self.process.communicate()
            self._errors.close()
