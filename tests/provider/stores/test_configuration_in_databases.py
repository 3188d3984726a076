"""Configuration stores in databases: whose they are, damage, and connections that are lost."""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import InDoubtError, UrlError
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.configuration_contract import ObjectRecord
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    HeldStoreError,
    LostStoreError,
    NewerStoreError,
    UnsupportedStoreError,
)
from pyjms_provider.stores.sql import configuration as store_module
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.sql.configuration import SqlConfigurationStore
from pyjms_provider.stores.testing.configuration_suite import ADMIN, BROKER, PORT, USERS, record
from tests.provider.postgresql import PostgresqlServer


def test_a_database_of_a_newer_pyjms_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    store = SqlConfigurationStore(url)
    store.open("test")
    store.close()
    engine = create_engine(url)
    for change, error, says in (
        ("UPDATE pyjmsconf_meta SET version = 2", NewerStoreError, "has version 2"),
        ("UPDATE pyjmsconf_meta SET version = 1, product = 'x'", ForeignStoreError, "is a store of 'x'"),
        ("DELETE FROM pyjmsconf_meta", DamagedStoreError, "has lost its row"),
    ):
        with engine.begin() as connection:
            connection.execute(text(change))
        with pytest.raises(error, match=says):
            SqlConfigurationStore(url).open("test")
    engine.dispose()


def test_a_damaged_file_is_not_to_be_salvaged_as_messages_are(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    store = SqlConfigurationStore(url)
    store.open("test")
    store.close()
    os.truncate(tmp_path / "a.db", 4096)
    with pytest.raises(DamagedStoreError, match=r"is damaged: .*malformed\. Put a backup in its place$"):
        SqlConfigurationStore(url).open("test")
    (tmp_path / "a.db").write_bytes(b"no database" * 1000)
    with pytest.raises(DamagedStoreError, match=r"is no database of SQLite"):
        SqlConfigurationStore(url).open("test")


def test_a_configuration_and_messages_are_not_kept_in_one_file(tmp_path: Path) -> None:
    """Each would carry SQLite's log over without knowing what the disk failed to keep of the other's."""
    url = f"sqlite:///{tmp_path}/a.db"
    store = SqlConfigurationStore(url)
    store.open("test")
    store.update([BROKER])
    for way in (url, f"{url}?pyjms_shared=true"):
        with pytest.raises(
            ForeignStoreError, match=r"a\.db has the configuration of a broker.*sqlite3 .*NEW-FILE; then remove"
        ):
            open_journal(StoreSettings(url=way), "test", SystemClock())
    store.update([USERS])
    store.close()
    assert found_in(url) == [BROKER, USERS]


def test_a_file_that_has_both_is_parted_as_its_error_says(tmp_path: Path) -> None:
    """With the module in place of SQLite's shell, which need not be installed."""
    path, configuration, new = (tmp_path / name for name in ("it's a shop.db", "a.db", "new.db"))
    store = SqlConfigurationStore(f"sqlite:///{configuration}")
    store.open("test")
    store.update([BROKER, USERS])
    store.close()
    ours = StoreSettings(url=f"sqlite:///{path}")
    open_journal(ours, "test", SystemClock()).close(clean=True)
    with closing(sqlite3.connect(configuration)) as one, closing(sqlite3.connect(path)) as both:
        both.executescript("\n".join(one.iterdump()))  # as a pyjms that allowed it could have left it
    with pytest.raises(ForeignStoreError) as raised:
        open_journal(ours, "test", SystemClock())
    copy, _, remove = raised.value.reason.partition("copy the configuration: ")[2].partition("; then remove it here: ")
    assert shlex.split(copy) == ["sqlite3", str(path), ".dump 'pyjmsconf_%'", "|", "sqlite3", "NEW-FILE"]
    program, file, statements = shlex.split(remove)
    assert (program, file) == ("sqlite3", str(path))
    with closing(sqlite3.connect(path)) as both, closing(sqlite3.connect(new)) as parted:
        dump = [line for line in both.iterdump() if "pyjmsconf_" in line]
        parted.executescript("\n".join(dump))
        both.executescript(statements)
    assert found_in(f"sqlite:///{new}") == [BROKER, USERS]
    open_journal(ours, "test", SystemClock()).close(clean=True)


def test_the_log_of_a_store_of_messages_is_left_to_it(tmp_path: Path) -> None:
    """It may have to be mended first; who closes the last connection would have it carried over."""
    url, log = f"sqlite:///{tmp_path}/a.db", tmp_path / "a.db-wal"
    journal = open_journal(StoreSettings(url=url), "test", SystemClock())
    kept = log.read_bytes()
    journal.close(clean=False)
    log.write_bytes(kept)
    with pytest.raises(
        ForeignStoreError, match=r"has the messages of a broker.*copy it: sqlite3 .*pyjmsconf_%.* NEW-F"
    ):
        SqlConfigurationStore(url).open("test")
    assert log.read_bytes() == kept
    open_journal(StoreSettings(url=url), "test", SystemClock()).close(clean=True)


def test_a_file_that_is_named_wrongly_is_refused_before_anything_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UrlError, match=r"three slashes .*write sqlite:///data/a\.db$"):
        SqlConfigurationStore("sqlite://data/a.db").open("test")
    assert list(tmp_path.iterdir()) == []


def test_what_is_removed_cannot_be_read_in_the_file(tmp_path: Path) -> None:
    store = SqlConfigurationStore(f"sqlite:///{tmp_path}/a.db")
    store.open("test")
    users = [record(f"u{number}", "user", USERS, password=f"sealed {number} " + "x" * 3000) for number in range(9)]
    store.update([BROKER, USERS, *users])
    assert b"sealed 8" in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    store.update([], [each.id for each in users])
    store.close()
    assert b"sealed" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_a_row_that_is_not_understood_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    store = SqlConfigurationStore(url)
    store.open("test")
    store.update([BROKER])
    store.close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE pyjmsconf_object SET attributes = '{'"))
    engine.dispose()
    with pytest.raises(DamagedStoreError, match="row 1 of pyjmsconf_object is not understood"):
        SqlConfigurationStore(url).open("test")


def test_who_has_lost_its_lock_writes_nothing(postgresql: PostgresqlServer) -> None:
    url = postgresql.make_store()
    lost, other = SqlConfigurationStore(url), SqlConfigurationStore(url)
    lost.open("first")
    lost.update([BROKER])
    with postgresql.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1883917635"
        )
    other.open("second")
    with pytest.raises(LostStoreError, match="has been opened by another broker meanwhile; nothing was changed there"):
        lost.update([PORT])
    other.update([USERS])
    lost.close()
    other.close()


def test_a_database_whose_holder_is_just_making_its_tables_is_held(postgresql: PostgresqlServer) -> None:
    url = postgresql.make_store()
    with postgresql.connect() as connection:
        connection.execute(f"SET search_path = {url.rpartition('%3D')[2]}".encode())
        connection.execute("SELECT pg_advisory_lock(1883917635, hashtext(current_schema()))")
        with pytest.raises(HeldStoreError, match="is held by another broker; stop that first"):
            SqlConfigurationStore(url).open("second")


@dataclass
class Cut:
    """How PostgreSQL's connection is lost at the next commits."""

    left: int = 0
    is_written: bool = True
    then: Callable[[], None] = lambda: None


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Cut:
    cut, real = Cut(), psycopg.Connection.commit

    def commit(connection: psycopg.Connection[Any]) -> None:
        if cut.left:
            cut.left -= 1
            if cut.is_written:
                real(connection)
            connection.close()
            cut.then()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        real(connection)

    monkeypatch.setattr(psycopg.Connection, "commit", commit)
    return cut


def found_in(url: str) -> list[ObjectRecord]:
    store = SqlConfigurationStore(url)
    try:
        return list(store.open("test"))
    finally:
        store.close()


@pytest.mark.parametrize("is_written", [True, False])
def test_a_change_that_was_not_answered_is_repeated(postgresql: PostgresqlServer, cut: Cut, is_written: bool) -> None:
    url = postgresql.make_store()
    store = SqlConfigurationStore(url)
    store.open("test")
    store.update([BROKER, USERS])
    cut.left, cut.is_written = 2, is_written
    store.update([PORT], [USERS.id])
    store.close()
    assert found_in(url) == [BROKER, PORT]


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("then", ["another change", "the end"])
def test_a_change_in_doubt_is_taken_back(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch, cut: Cut, is_written: bool, then: str
) -> None:
    """The model has taken it back, and who starts again must find what ran."""
    monkeypatch.setattr(store_module, "SETTLE_MS", 0)
    url = postgresql.make_store()
    store = SqlConfigurationStore(url)
    store.open("test")
    store.update([BROKER, USERS, ADMIN])
    for records, removed in (([PORT, replace(BROKER, is_stopped=True)], []), ([], [USERS.id, ADMIN.id])):
        cut.left, cut.is_written = 2, is_written
        with pytest.raises(InDoubtError, match="not known whether the change is kept; the broker goes on without it"):
            store.update(records, removed)
    changed = replace(USERS, updated_by="them")
    if then == "another change":
        store.update([changed])
    store.close()
    assert found_in(url) == [BROKER, changed if then == "another change" else USERS, ADMIN]


def test_a_change_that_was_cut_off_as_another_broker_came_is_in_doubt(postgresql: PostgresqlServer, cut: Cut) -> None:
    url = postgresql.make_store()
    lost, other = SqlConfigurationStore(url), SqlConfigurationStore(url)
    lost.open("first")

    def take_over() -> None:
        with postgresql.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1883917635"
            )
        other.open("second")

    cut.left, cut.then = 1, take_over
    with pytest.raises(InDoubtError):
        lost.update([PORT])
    with pytest.raises(LostStoreError):
        lost.update([BROKER])
    lost.close()
    other.close()
    assert found_in(url) == [PORT]


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "sqlite:///:memory:"])
def test_databases_that_cannot_keep_it_are_refused(url: str) -> None:
    with pytest.raises(UnsupportedStoreError):
        SqlConfigurationStore(url).open("test")


def test_a_database_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(DamagedStoreError):
        SqlConfigurationStore(f"sqlite:///{tmp_path}/a.db").open("test")
