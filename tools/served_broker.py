"""Brokers in processes of their own, for a conformance run: with one user, and restarted by the run's profile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from pyjms_provider.commands.rest_client import RestClient
from tests.ports import free_port
from tests.provider.commands.served import PYJMS

__all__ = ["served_broker", "served_cluster"]

_USER, _PASSWORD = "judge", "conformance"
_HOST = ("shop", "shop")


@contextmanager
def served_broker(folder: Path, *store: str, scheme: str = "stomp") -> Iterator[int]:
    """Run `pyjms broker run` with one user, and yield its port. `store`: more options; `scheme`: the protocol of the port."""
    with _Served(folder) as served:
        port = served.run("broker", f"{scheme}://127.0.0.1", *store)
        served.write_facts()
        yield port


@contextmanager
def served_cluster(folder: Path, store: str, *, scheme: str = "stomp") -> Iterator[int]:
    """Run two members of a cluster with one user, of which the second leads all shards; yield the port of the first.

    Args:
        folder: An empty folder.
        store: The URL of the cluster's database.
        scheme: The protocol of the port.
    """
    cluster = ("--name", _HOST[0], "--cluster", "conformance", "--store", store)
    with _Served(folder) as served:
        port = served.run("right", "http://127.0.0.1", *cluster, "--member", "right")
        with RestClient(f"http://127.0.0.1:{port}", user=(_USER, _PASSWORD)) as client:
            operations = client.category("virtual_host").operations

            def call(operation: str, **arguments: Any) -> Any:
                return client.call("virtual_host", _HOST, operations[operation], arguments, lambda *_: None)

            for shard in call("cluster_status")["shards"]:
                call("move_leader", shard=shard["number"], member="right")
        # Once all shards are pinned: it leads none of them, not for a moment.
        port = served.run("left", f"{scheme}://127.0.0.1", *cluster, "--member", "left")
        served.write_facts()
        yield port


class _Served:
    """Brokers with one user, in the order of their start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._users = folder / "users.json"
        self._facts = folder / "brokers.json"
        self._commands: list[Sequence[str]] = []
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        subprocess.run(
            [*PYJMS, "broker", "user", "add", str(self._users), _USER],
            env={**os.environ, "PYJMS_PASSWORD": _PASSWORD},
            check=True,
            capture_output=True,
        )
        return self

    def run(self, name: str, listen: str, *options: str) -> int:
        """Start a broker, and return its port. `name`: that of its log."""
        port = free_port()
        command = [*PYJMS, "broker", "run", "--listen", f"{listen}:{port}", "--users", str(self._users), *options]
        file = self._folder / f"{name}.log"
        with file.open("wb") as log:
            started = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.PIPE, stderr=log, text=True)
        self._commands.append(command)
        self._started.append(started)
        assert started.stdout is not None
        if not started.stdout.readline().startswith("listening"):
            raise RuntimeError(file.read_text())
        return port

    def write_facts(self) -> None:
        """Tell the profile what runs."""
        pairs = zip(self._commands, self._started, strict=True)
        self._facts.write_text(json.dumps([{"command": command, "pid": each.pid} for command, each in pairs]))
        os.environ["PYJMS_CONFORMANCE_BROKER"] = str(self._facts)

    def __exit__(self, *_: object) -> None:
        os.environ.pop("PYJMS_CONFORMANCE_BROKER", None)
        running = [each.pid for each in self._started]
        if self._facts.exists():
            running = [each["pid"] for each in json.loads(self._facts.read_text())]
        for pid in reversed(running):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for started in self._started:
            assert started.stdout is not None
            started.stdout.close()
            started.wait(30)
