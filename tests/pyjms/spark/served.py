"""A broker in a process of its own, which Spark's many processes reach by STOMP, and by AMQP where a test asks for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

_SECONDS = 30.0


class ServedBroker:
    """The broker; with a store it may be killed and started again on the same port. Use it with ``with``."""

    def __init__(self, folder: Path, *, durable: bool = False, protocols: Sequence[str] = ("stomp",)) -> None:
        self._folder = folder
        self._store = f"sqlite:///{folder}/broker.db" if durable else None
        self._process: subprocess.Popen[str] | None = None
        self.urls = {protocol: f"{protocol}://127.0.0.1:0" for protocol in protocols}
        """Where it listens, by protocol."""
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        """Where it listens with the first of its protocols."""
        return next(iter(self.urls.values()))

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [str(Path(sys.executable).with_name("pyjms")), "broker", "run", "--anonymous"]
        command += [word for url in self.urls.values() for word in ("--listen", url)]
        if self._store is not None:
            command += ["--store", self._store]
        with (self._folder / "broker.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        for _ in self.urls:
            line = self._process.stdout.readline()
            assert line.startswith("listening "), (self._folder / "broker.log").read_text()
            url = line.split()[1]
            self.urls[url.partition("://")[0]] = url

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
