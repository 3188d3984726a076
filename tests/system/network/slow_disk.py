"""A disk below a served broker that answers when the test says so, or late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Event, current_thread
from types import TracebackType
from typing import Any, Self

import pytest

from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.stores.sql.database import Database
from pyjms_provider.stores.sql.journal import SqlJournal

PATIENCE_S = 20.0


class Gate:
    """Lets through who comes as long as it is open."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._is_open = True
        self.passed = 0
        """How many have come."""

    def __enter__(self) -> Self:
        """Shut it."""
        self._is_open = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until so many have come, let through or not."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.passed >= count, PATIENCE_S), f"{self.passed} of {count} came"

    def come(self) -> None:
        """Wait until it is open."""
        with self._changed:
            self.passed += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._is_open, PATIENCE_S)


class SlowDisk:
    """What stands between a journal and its database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._late = Event()
        self.is_local = database.is_local
        self.delay_s = 0.0
        """How long each write takes."""
        self.threads: list[str] = []
        """Who wrote."""
        self.writes = Gate()
        self.reads = Gate()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def _write(self) -> None:
        self.threads.append(current_thread().name)
        self.writes.come()
        if self.delay_s:
            self._late.wait(self.delay_s)

    def commit(self, batch: Any, *, force: bool) -> None:
        """Write in a while."""
        if batch.steps(self._database):
            self._write()
        self._database.commit(batch, force=force)

    def add_messages(self, rows: Any) -> None:
        """Write in a while."""
        self._write()
        self._database.add_messages(rows)

    def fetch(self, ids: Any) -> Any:
        """Read in a while."""
        self.reads.come()
        return self._database.fetch(ids)


@contextmanager
def slow_disk(served: ServedBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    """Put a slow disk below the virtual host of `served`."""
    node = next(iter(served.broker.children("virtual_host_node")))
    host = next(iter(node.children("virtual_host")))
    assert isinstance(host, VirtualHost)
    keeper = host.embedded.virtual_host.storage
    assert keeper is not None
    journal = keeper.journal
    assert isinstance(journal, SqlJournal)
    disk = SlowDisk(journal._database)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "_database", disk)
        yield disk
