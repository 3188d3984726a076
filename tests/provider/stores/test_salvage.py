"""A damaged store becomes a whole one, with what can be read."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pyjms import Connection, ConnectionFactory, XAConnectionFactory, XAResource
from pyjms.recoverable import PersistentSession
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms.testing import VirtualClock
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    HeldStoreError,
    NewerStoreError,
    StoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.sql.salvage import SALVAGED, SalvageResult, salvage
from tests.provider.kill.site import drained
from tests.provider.xa.coordinator import BranchId

PAGE = 4096
SENT = 60


@contextmanager
def broker(path: Path) -> Iterator[Connection]:
    url = f"vm://salvage?store=sqlite:///{path}&synchronous=off"
    try:
        with ConnectionFactory(url).create_connection() as connection:
            connection.start()
            yield connection
    finally:
        find_provider("vm").stop_broker(ProviderUrl.parse(url))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with sixty messages of half a page in one queue."""
    path = tmp_path / "shop.db"
    with broker(path) as connection, connection.create_session(True) as session:
        for number in range(SENT):
            session.create_producer(session.create_queue("orders")).send(
                session.create_text_message(f"<{number}>" + "x" * 2000)
            )
        session.commit()
    return path


def damage(path: Path, *markers: str) -> None:
    """Overwrite the pages where these texts are."""
    whole = bytearray(path.read_bytes())
    for marker in markers:
        page = whole.index(marker.encode()) // PAGE
        whole[page * PAGE : (page + 1) * PAGE] = b"\xff" * PAGE
    path.write_bytes(whole)


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def save(path: Path) -> tuple[SalvageResult, Path]:
    new = path.with_name("new.db")
    return salvage(path, new, VirtualClock()), new


def orders(path: Path, queue: str = "orders") -> dict[int, bool]:
    """Return the numbers of the messages in a queue, and whether they are flagged."""
    found = drained(f"vm://salvaged?store=sqlite:///{path}", queue)
    return {int(text[1:].partition(">")[0]): is_flagged for text, is_flagged in found}


def test_messages_of_whole_pages_are_saved_and_come_flagged(store: Path) -> None:
    damage(store, "<7>", "<30>")
    with pytest.raises(Exception, match=r"pyjms broker salvage"), broker(store):
        pass
    salvaged, new = save(store)
    found = orders(new)
    lost = set(range(SENT)) - found.keys()
    assert {7, 30} <= lost
    assert len(lost) <= 4
    assert list(found) == sorted(found)
    assert all(found.values())
    assert salvaged.messages == len(found)
    (messages,) = [table for table in salvaged.tables if table.name == "pyjms_message"]
    assert messages.unread == len(lost)
    assert not messages.is_whole
    assert not salvaged.made_queues


def test_of_a_file_that_was_cut_short_the_first_part_is_saved(store: Path) -> None:
    os.truncate(store, store.stat().st_size * 2 // 3)
    salvaged, new = save(store)
    found = orders(new)
    assert list(found) == list(range(len(found)))
    assert SENT // 2 < len(found) < SENT
    assert any(table.lacks_ends for table in salvaged.tables)


def test_a_whole_store_is_copied(store: Path) -> None:
    salvaged, new = save(store)
    assert list(orders(new)) == list(range(SENT))
    assert all(table.is_whole for table in salvaged.tables)
    assert list(orders(store)) == list(range(SENT))


def test_registered_clients_are_saved_with_their_tags(store: Path) -> None:
    with broker(store) as connection, connection.create_session(True, 0) as session:
        PersistentSession(session, "desk").tag_request("7")
        session.commit()
    _, new = save(store)
    with broker(new) as connection, connection.create_session(True, 0) as session:
        assert PersistentSession(session, "desk").last_request == "7"


def test_messages_whose_queue_is_lost_are_in_one_that_is_made(store: Path) -> None:
    change(store, "UPDATE pyjms_meta SET next_queue = 1", "DELETE FROM pyjms_queue")
    salvaged, new = save(store)
    assert salvaged.made_queues == [f"{SALVAGED}.1"]
    assert list(orders(new, f"{SALVAGED}.1")) == list(range(SENT))
    with broker(new) as connection, connection.create_session() as session:
        another = session.create_queue("another")
        session.create_producer(another).send(session.create_text_message())
        assert session.create_consumer(another).receive(0) is not None


def test_messages_of_which_no_place_is_known_are_in_a_queue_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "topic.db"
    with broker(path), ConnectionFactory("vm://salvage").create_connection() as connection:
        connection.client_id = "reader"
        session = connection.create_session()
        topic = session.create_topic("news")
        for name in ("one", "two"):
            session.create_durable_subscriber(topic, name)
        session.create_producer(topic).send(session.create_text_message("<1>"))
    change(path, "DELETE FROM pyjms_entry")
    salvaged, new = save(path)
    assert salvaged.made_queues == [SALVAGED]
    assert orders(new, SALVAGED) == {1: True}


def test_a_prepared_branch_is_saved_and_one_that_is_lost_leaves_its_messages_aside(tmp_path: Path) -> None:
    path = tmp_path / "xa.db"
    url = f"vm://salvage-xa?store=sqlite:///{path}"
    branch = BranchId("one", "broker")
    with XAConnectionFactory(url).create_xa_connection() as connection:
        session = connection.create_xa_session()
        resource = session.xa_resource
        resource.start(branch, XAResource.TMNOFLAGS)
        session.create_producer(session.create_queue("orders")).send(session.create_text_message("<1>"))
        resource.end(branch, XAResource.TMSUCCESS)
        resource.prepare(branch)
    find_provider("vm").stop_broker(ProviderUrl.parse(url))
    salvaged, new = save(path)
    assert (salvaged.messages, salvaged.set_aside) == (1, 0)
    with XAConnectionFactory(f"vm://saved-xa?store=sqlite:///{new}").create_xa_connection() as connection:
        resource = connection.create_xa_session().xa_resource
        (found,) = resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)
        resource.commit(found, False)
    find_provider("vm").stop_broker(ProviderUrl.parse("vm://saved-xa"))
    assert orders(new) == {1: False}, "nobody can have seen it before"
    new.unlink()
    change(path, "DELETE FROM pyjms_branch")
    salvaged, new = save(path)
    assert (salvaged.messages, salvaged.set_aside) == (0, 1)
    with closing(sqlite3.connect(new)) as connection:
        ((reason,),) = connection.execute("SELECT reason FROM pyjms_set_aside").fetchall()
    assert "prepared" in reason


OLD_DUPLICATE = (
    "CREATE TABLE pyjms_duplicate (kind SMALLINT, name TEXT, temporary BOOLEAN, duplicate_id TEXT, until_ms BIGINT,"
    " PRIMARY KEY (kind, name, temporary, duplicate_id)) WITHOUT ROWID"
)
PIPELINES = ("pyjms_group", "pyjms_reserved", "pyjms_stage", "pyjms_stage_marker")
CLIENTS = ("pyjms_client", "pyjms_branch_client")
UNSHARED = "ALTER TABLE pyjms_queue DROP COLUMN shared"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_noted", [True, False])
def test_an_older_store_keeps_what_it_has_and_becomes_a_present_one(store: Path, version: int, is_noted: bool) -> None:
    """Its ids of producers had no serial, and SQLite took the name of a column that there is not for a text: one id was kept."""
    until_ms = 2**61
    change(
        store,
        "DROP TABLE pyjms_duplicate",
        OLD_DUPLICATE,
        *(f"INSERT INTO pyjms_duplicate VALUES (0, 'orders', 0, 'id-{n}', {until_ms - n})" for n in range(5)),
        *(f"DROP TABLE {name}" for name in (*CLIENTS, *(PIPELINES if version == 1 else ()))),
        UNSHARED,
        f"UPDATE pyjms_meta SET version = {version}" if is_noted else "DELETE FROM pyjms_meta",
    )
    salvaged, new = save(store)
    assert {table.name: table.saved for table in salvaged.tables}["pyjms_duplicate"] == 5
    assert all(table.is_whole for table in salvaged.tables)
    with closing(sqlite3.connect(new)) as connection:
        kept = connection.execute(
            "SELECT duplicate_id, until_ms, serial FROM pyjms_duplicate ORDER BY serial"
        ).fetchall()
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        made = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE sql IS NOT NULL")}
    assert kept == [(f"id-{n}", until_ms - n, 5 - n) for n in (4, 3, 2, 1, 0)]
    assert {*PIPELINES, *CLIENTS, "pyjms_message_branch", "pyjms_stage_name"} <= made
    assert list(orders(new)) == list(range(SENT))


@pytest.mark.parametrize("damages", ["its version", "its version and its ids", "its ids", "all that tells its version"])
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_a_store_whose_version_or_ids_of_producers_are_lost_is_saved(store: Path, version: int, damages: str) -> None:
    """Another broker opens it then, and notes ids anew."""
    change(
        store,
        f"UPDATE pyjms_meta SET version = {0 if 'its version' in damages else version}",
        *(f"DROP TABLE {name}" for name in PIPELINES if version == 1),
        *(f"DROP TABLE {name}" for name in CLIENTS if version < 4),
        *([UNSHARED] if version < 5 else []),
        *(["DROP TABLE pyjms_duplicate"] if version < 3 or damages != "its version" else []),
        *([OLD_DUPLICATE] if version < 3 and damages == "its version" else []),
        *(["DELETE FROM pyjms_meta"] if damages == "all that tells its version" else []),
    )
    _, new = save(store)
    assert list(orders(new)) == list(range(SENT))
    with closing(sqlite3.connect(new)) as connection:
        assert connection.execute("SELECT serial FROM pyjms_duplicate").fetchall() == []
        assert connection.execute("SELECT count(*) FROM pyjms_stage").fetchall() == [(0,)]


def test_a_store_whose_version_is_damaged_is_not_opened_and_what_to_do_is_told(store: Path) -> None:
    change(store, "UPDATE pyjms_meta SET version = 0")
    with pytest.raises(Exception, match=r"says that it has schema 0, .*pyjms broker salvage"), broker(store):
        pass


def test_a_column_that_is_missing_is_an_error_and_no_text(store: Path) -> None:
    change(store, "ALTER TABLE pyjms_set_aside DROP COLUMN reason")
    with pytest.raises(StoreError, match="no such column: reason"):
        save(store)


def test_rows_that_are_read_and_cannot_be_kept_are_told(store: Path) -> None:
    """Another has the key of one, and one lacks a value; that one was read twice is no loss."""
    change(
        store,
        "DROP TABLE pyjms_mark",
        "CREATE TABLE pyjms_mark (queue, priority, message)",
        "INSERT INTO pyjms_mark VALUES (1, 4, 10), (1, 4, 20), (1, 5, NULL), (1, 6, 30), (1, 6, 30)",
    )
    salvaged, _ = save(store)
    (marks,) = [table for table in salvaged.tables if table.name == "pyjms_mark"]
    assert (marks.saved, marks.refused, marks.is_whole) == (2, 2, False)
    assert all(table.is_whole for table in salvaged.tables if table is not marks)


def make_foreign(path: Path) -> None:
    path.unlink()
    change(path, "CREATE TABLE other (a)")


def make_newer(path: Path) -> None:
    change(path, "UPDATE pyjms_meta SET version = 99")


def make_unreadable(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1000)


@pytest.mark.parametrize(
    ("prepare", "error", "text"),
    [
        (make_foreign, ForeignStoreError, "no table pyjms_meta"),
        (make_newer, NewerStoreError, "schema 99"),
        (make_unreadable, DamagedStoreError, "nothing of"),
        (Path.unlink, UnusableStoreError, "there is no file"),
        (lambda path: path.with_name("new.db").touch(), UnusableStoreError, "is there already"),
    ],
    ids=["foreign", "newer", "unreadable", "missing", "there"],
)
def test_what_cannot_be_saved_is_refused_by_name_and_leaves_nothing(
    store: Path, prepare: Callable[[Path], object], error: type[Exception], text: str
) -> None:
    prepare(store)
    there = store.with_name("new.db").exists()
    with pytest.raises(error, match=text):
        save(store)
    assert store.with_name("new.db").exists() == there


def test_the_new_store_is_there_when_it_is_whole_and_not_before(store: Path) -> None:
    """Who is killed meanwhile leaves nothing that a broker would open, and is no hindrance to the next attempt."""
    new = store.with_name("new.db")
    store.with_name("new.db.part").write_text("of somebody who was killed")
    seen: list[bool] = []
    salvage(store, new, VirtualClock(), lambda *_: seen.append(new.exists()))
    assert seen
    assert not any(seen)
    assert list(orders(new)) == list(range(SENT))
    assert not list(store.parent.glob("new.db.part*"))


def test_a_store_that_a_broker_works_with_is_refused(store: Path) -> None:
    with broker(store), pytest.raises(HeldStoreError, match=r"; stop that first$"):
        save(store)
    assert len(orders(store)) == SENT
