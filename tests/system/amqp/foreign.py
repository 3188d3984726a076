"""AMQP clients that others wrote, as programs of `tests/peers`; all have the actions that `tests/peers/proton/program.py` explains."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.needs.declaring import use
from tests.peers.building import SOURCES, go_program, node_program

__all__ = ["CLIENTS", "PATIENCE_S", "Foreign", "Line"]

Line = dict[str, Any]
"""What a program prints of one message."""
CLIENTS = ("proton", "rhea", "go-amqp")
PATIENCE_S = 60.0


class Foreign:
    """A client, and the broker that it uses."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url

    def do(self, action: str, *arguments: str | int) -> list[Line]:
        """Run an action to its end, and return what it printed."""
        done = subprocess.run(
            [*self._program(), self._url, action, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def drain(self, address: str) -> list[Line]:
        """Take all that is there."""
        return [line for line in self.do("drain", address) if "drained" not in line]

    @contextmanager
    def doing(self, action: str, *arguments: str | int) -> Iterator[Iterator[Line]]:
        """Start an action, and give the lines that it prints; its process is killed at the end, whatever it does then."""
        command = [*self._program(), self._url, action, *map(str, arguments)]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ) as process:
            assert process.stdout is not None
            try:
                yield map(json.loads, process.stdout)
            finally:
                process.kill()
                process.wait()

    def _program(self) -> list[str]:
        use(self.name)
        if self.name in {"azure", "proton"}:
            return [sys.executable, str(SOURCES / self.name / "program.py")]
        if self.name == "rhea":
            return ["node", str(node_program("rhea", "program.js"))]
        return [str(go_program("go_amqp"))]
