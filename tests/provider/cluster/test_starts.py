"""Members that start while their database cannot be reached."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import ClosedError
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.settings import ClusterSettings
from pyjms_provider.serving.cluster_links import ClusterLinks, start_member
from pyjms_provider.settings import BrokerSettings, StoreSettings
from pyjms_provider.stores.errors import UnavailableStoreError, UncertainWriteError
from pyjms_provider.stores.opening import cluster_database, placement_tables
from tests.ports import free_port
from tests.provider.cluster.world import LONG_MS, ClusterWorld, wait_until
from tests.provider.commands.served import BrokerProcess

NEVER = "postgresql+psycopg://postgres@127.0.0.1:{}/postgres"


def settings(world: ClusterWorld, wait_ms: int, url: str | None = None) -> ClusterSettings:
    return world.settings("first", broker=BrokerSettings(store=StoreSettings(url=url or world.url, wait_ms=wait_ms)))


class Unreached:
    """Tables at whose n-th call of a method, from 0, the database cannot be reached, or is lost before it answers."""

    def __init__(self, tables: Any, method: str, number: int, *, is_done: bool) -> None:
        self._tables = tables
        self._method = method
        self._left = number
        self._is_done = is_done

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tables, name)
        return self._call if name == self._method else found

    def _call(self, *arguments: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left != -1:
            return getattr(self._tables, self._method)(*arguments, **named)
        if self._is_done:
            getattr(self._tables, self._method)(*arguments, **named)
            raise UncertainWriteError("the connection was lost before the database answered")
        raise UnavailableStoreError("the database cannot be reached")


def start(world: ClusterWorld, wait_ms: int, method: str, number: int, *, is_done: bool = False) -> ClusterMember:
    clock, given = SystemClock(), settings(world, wait_ms)
    database = cluster_database(world.url, "shop", clock, answer_ms=given.lease_ms / 2)
    tables: Any = tuple(
        Unreached(each, method, number, is_done=is_done) for each in (database, placement_tables(database))
    )
    member = ClusterMember(given, clock, ClusterLinks("shop", None), tables)
    world.members.append(member)
    return member


STEPS = [("clock_error_ms", 0), ("prepare", 0), ("placements", 0), ("clock_error_ms", 1), ("hold", 0), ("join", 0)]


class TestWaiting:
    @pytest.mark.parametrize(("method", "number"), STEPS)
    def test_the_database_may_be_lost_at_each_step(
        self, world: ClusterWorld, caplog: pytest.LogCaptureFixture, method: str, number: int
    ) -> None:
        member = start(world, LONG_MS, method, number)
        assert member.await_leaders(LONG_MS)
        assert "PYJMS-CLUSTER-2 member first does not reach its cluster" in caplog.text

    @pytest.mark.parametrize(("method", "number"), STEPS)
    def test_without_a_wait_the_start_fails(self, world: ClusterWorld, method: str, number: int) -> None:
        with pytest.raises(UnavailableStoreError):
            start(world, 0, method, number)

    def test_the_answer_to_joining_may_be_lost(self, world: ClusterWorld) -> None:
        member = start(world, LONG_MS, "join", 0, is_done=True)
        assert member.await_leaders(LONG_MS)
        wait_until(lambda: [each.name for each in member.status().members] == ["first"])


class TestCancelling:
    def test_the_wait_ends(self, world: ClusterWorld, caplog: pytest.LogCaptureFixture) -> None:
        cancelled, ended = Signal(), Event()

        def run() -> None:
            with pytest.raises(ClosedError, match="the start of member first was cancelled"):
                start_member(settings(world, 600_000, NEVER.format(free_port())), SystemClock(), cancelled=cancelled)
            ended.set()

        Thread(target=run).start()
        wait_until(lambda: "PYJMS-CLUSTER-2" in caplog.text)
        cancelled.set()
        assert ended.wait(LONG_MS / 1000)

    def test_a_broker_that_waits_ends_by_its_signal(self, tmp_path: Path) -> None:
        host = {"store_url": NEVER.format(free_port()), "store_wait_ms": 600_000, "cluster": "shop"}
        lines = [
            'version = 1\n[broker]\nname = "broker"',
            '[[virtual_host_node]]\nname = "shop"\ntype = "memory"\n[virtual_host_node.host]',
            *(f"{key} = {json.dumps(value)}" for key, value in host.items()),
        ]
        (tmp_path / "broker.toml").write_text("\n".join(lines) + "\n")
        broker = BrokerProcess(tmp_path, "broker.toml")
        try:
            broker.await_log("PYJMS-CLUSTER-2")
        finally:
            assert broker.end() == 0
        assert "Traceback" not in broker.log
