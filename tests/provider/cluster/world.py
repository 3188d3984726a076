"""Members of a cluster in this process and in others, over one database of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.settings import ClusterSettings, LinkSettings
from pyjms_provider.serving.cluster_links import start_member
from pyjms_provider.settings import BrokerSettings, StoreSettings
from tests.provider.postgresql import PostgresqlServer

ROOT = Path(__file__).parents[3]
SHARDS = 4
LEASE_MS = 2_000
LONG_MS = 30_000

_databases = count(1)


class ClusterWorld:
    """One database, and the members that the test starts."""

    def __init__(self, server: PostgresqlServer) -> None:
        self.server = server
        self.database = f"cluster_{next(_databases)}"
        with server.connect() as connection:
            connection.execute(f"CREATE DATABASE {self.database}".encode())
        self.url = server.make_store().replace("/postgres?", f"/{self.database}?").partition("?")[0]
        self.members: list[ClusterMember] = []
        self.processes: list[MemberProcess] = []

    def settings(self, member: str, **changes: Any) -> ClusterSettings:
        values: dict[str, Any] = {
            "name": "shop",
            "member": member,
            "virtual_host": "shop",
            "shards": SHARDS,
            "lease_ms": LEASE_MS,
            "link": LinkSettings(),
            "broker": BrokerSettings(store=StoreSettings(url=self.url)),
        }
        return ClusterSettings(**{**values, **changes})

    def start(self, member: str, *, clock: Clock | None = None, **changes: Any) -> ClusterMember:
        """Start a member in this process."""
        started = start_member(self.settings(member, **changes), clock or SystemClock())
        self.members.append(started)
        return started

    def start_process(self, member: str, *, shards: int = SHARDS, lease_ms: int = LEASE_MS) -> MemberProcess:
        """Start a member in another process, and return when it has joined."""
        process = MemberProcess(self.url, member, shards, lease_ms)
        self.processes.append(process)
        process.read("joined")
        return process

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute a statement in the database; return its rows."""
        with self.server.connect(self.database) as connection:
            found = connection.execute(statement.encode())
            return [] if found.description is None else found.fetchall()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for member in self.members:
            member.stop()
        with self.server.connect() as connection:
            connection.execute(f"DROP DATABASE {self.database} WITH (FORCE)".encode())


class MemberProcess:
    """A member in a process of its own."""

    def __init__(self, url: str, member: str, shards: int, lease_ms: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.provider.cluster.member_process", url, member, str(shards), str(lease_ms)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self, expected: str) -> Any:
        """Return what the process says after the expected word."""
        assert self._process.stdout is not None
        word, _, rest = self._process.stdout.readline().partition(" ")
        assert word.strip() == expected, (word, rest)
        return json.loads(rest or "null")

    def ask(self, request: str) -> Any:
        """Make a request, and return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        return self.read(request.partition(" ")[0])

    def kill(self) -> None:
        """Kill it, as a loss of power would. May be repeated."""
        self._process.kill()
        self._process.send_signal(signal.SIGCONT)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def freeze(self) -> None:
        """Stop it, and return when it is stopped."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)


def leaders(member: ClusterMember) -> dict[int, str | None]:
    """Return the leader of each shard, as a member sees it; None also while it is being opened."""
    return {each.number: None if each.restoring else each.leader for each in member.status().shards}


def counts(member: ClusterMember) -> list[int]:
    """Return how many shards the members lead that serve them, the fewest first."""
    found = [name for name in leaders(member).values() if name is not None]
    return sorted(found.count(each.name) for each in member.status().members)


def wait_until(is_so: Callable[[], bool], what: str = "") -> None:
    """Return when a condition holds, which a member's thread brings about."""
    clock, never = SystemClock(), Signal()
    until_ms = clock.monotonic_ms() + LONG_MS
    while not is_so():
        assert clock.monotonic_ms() < until_ms, what or "it has not come about"
        clock.wait(never, clock.monotonic_ms() + 10)
