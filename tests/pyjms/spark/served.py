"""A broker in a process of its own, which Spark's many processes reach by STOMP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self

ANY_PORT = "stomp://127.0.0.1:0"
_SECONDS = 30.0


class ServedBroker:
    """The broker; with a store it may be killed and started again on the same port. Use it with ``with``."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self._folder = folder
        self._store = f"sqlite:///{folder}/broker.db" if durable else None
        self._process: subprocess.Popen[str] | None = None
        self.url = ANY_PORT
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [str(Path(sys.executable).with_name("pyjms")), "broker", "run", "--listen", self.url, "--anonymous"]
        if self._store is not None:
            command += ["--store", self._store]
        with (self._folder / "broker.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening "), (self._folder / "broker.log").read_text()
        self.url = line.split()[1]

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def is_dead(self) -> bool:
        """Say whether it is gone."""
        assert self._process is not None
        return self._process.poll() is not None

    def wait(self) -> None:
        """Wait until it is dead, by whatever has killed it."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.wait(_SECONDS)
        self._process.stdout.close()

    def kill(self) -> None:
        """Kill it without a warning."""
        assert self._process is not None
        self._process.kill()
        self.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
