"""The write-ahead log of a store that forces its writes has its length from the beginning."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from pyjms.spi.clock import SystemClock
from pyjms_provider.settings import StoreSettings, Synchronous
from pyjms_provider.stores.sql import open_journal

LOG = 4_000_000


def lengths(path: Path, synchronous: Synchronous = Synchronous.FULL) -> tuple[int, int]:
    """Return how long the log and the database are when the store is open."""
    settings = StoreSettings(url=f"sqlite:///{path}", synchronous=synchronous)
    journal = open_journal(settings, "log", SystemClock())
    try:
        list(journal.recover(lambda _: None).entries)
        return Path(f"{path}-wal").stat().st_size, path.stat().st_size
    finally:
        journal.close(clean=True)


def test_the_log_is_long_and_the_database_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log, _ = lengths(path)
    assert log >= LOG
    log, size = lengths(path)
    assert log >= LOG
    assert size < LOG / 10
    with closing(sqlite3.connect(path)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert "pyjms_message" in names
    assert "pyjms_scratch" not in names


def test_a_store_that_forces_nothing_has_a_log_of_what_was_written(tmp_path: Path) -> None:
    assert lengths(tmp_path / "store.db", Synchronous.NORMAL)[0] < LOG / 10


class Usage(NamedTuple):
    """What is left of a disk."""

    free: int


def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(50_000_000))
    assert lengths(tmp_path / "store.db")[0] < LOG / 10
