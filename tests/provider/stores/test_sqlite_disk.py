"""SQLite on a real disk that is full, read-only, cut short or damaged."""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.testing import VirtualClock
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    LostStoreError,
    StoreError,
    UnavailableStoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.sql.sqlite import CHECK_MS
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.needs.table import own_mounts

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def home(path: Path) -> JournalHome:
    return JournalHome(lambda holder: open_journal(StoreSettings(url=f"sqlite:///{path}"), holder, SystemClock()))


def test_a_file_with_two_names_is_refused_as_two_brokers_could_have_it(path: Path, home: JournalHome) -> None:
    World(home).journal.close(clean=True)
    other = path.with_suffix(".other")
    other.hardlink_to(path)
    with pytest.raises(UnusableStoreError, match=r"hard link.*Delete the other name"):
        home.open()
    other.unlink()
    home.open().close(clean=True)


@pytest.mark.requires("unshare")
@pytest.mark.parametrize("kind", ["full", "kept_free", "read_only", "salvaged"])
def test_a_disk_without_room_or_leave_refuses_by_name_and_the_journal_goes_on_afterwards(
    tmp_path: Path, kind: str
) -> None:
    namespace = own_mounts()
    assert namespace is not None
    script = [sys.executable, "-m", "tests.provider.stores.small_disk", kind, str(tmp_path)]
    done = subprocess.run([*namespace, *script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.parametrize("how", ["add", "write", "joined"])
@pytest.mark.parametrize(("then", "there"), [("", [1, 2]), ("and another", [1, 3])])
def test_what_a_disk_could_not_force_is_in_doubt(
    path: Path, home: JournalHome, how: str, then: str, there: list[int]
) -> None:
    """The log has it, so that it is there after a death; who sent it must not hear that it is not, and withdraws it."""
    script = [sys.executable, "-m", "tests.provider.stores.bad_disk", str(path), how, *([then] if then else [])]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("InDoubtError\n", "")
    journal = home.open()
    assert [entry.reference.id for entry in journal.recover(lambda _: None).entries] == there
    journal.close(clean=True)


def test_a_file_that_is_no_database_is_refused(path: Path, home: JournalHome) -> None:
    path.write_text("Dear diary, " * 1000)
    with pytest.raises(DamagedStoreError, match=r"is no database of SQLite.*Name another file.*backup") as caught:
        home.open()
    assert "salvage" not in caught.value.reason, "which could read nothing of it"
    assert path.read_text().startswith("Dear diary")


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = StoreSettings(url=f"sqlite:///{tmp_path / 'nowhere' / 'store.db'}")
    with pytest.raises(UnusableStoreError, match=r"nowhere.*directory must exist"):
        open_journal(settings, "test", SystemClock())


@pytest.mark.parametrize("clean", [True, False])
def test_a_file_that_was_cut_short_is_refused(path: Path, home: JournalHome, clean: bool) -> None:
    world = World(home)
    world.add(*[world.message() for _ in range(200)])
    world.journal.close(clean=clean)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DamagedStoreError, match=r"backup.*salvage"):
        home.open()


@pytest.mark.parametrize("clean", [True, False])
def test_pages_that_were_overwritten_are_found_at_the_opening(path: Path, home: JournalHome, clean: bool) -> None:
    world = World(home)
    world.add(*[world.message() for _ in range(200)])
    world.journal.close(clean=clean)
    with path.open("r+b") as file:
        file.seek(4096 * 12)
        file.write(b"\xff" * 4096 * 4)
    with pytest.raises(DamagedStoreError, match=r"damaged.*backup.*salvage"):
        home.open()


def test_a_page_that_says_it_has_fewer_rows_is_found_after_a_clean_end(path: Path, home: JournalHome) -> None:
    """Whoever reads it finds nothing wrong, and the other messages not at all."""
    world = World(home)
    world.add(*[world.message() for _ in range(200)])
    world.journal.close(clean=True)
    damaged = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'pyjms_message'").fetchone()
    (leaf,) = struct.unpack_from(">I", damaged, (root - 1) * 4096 + 8)  # the right-most one below the root
    at = (leaf - 1) * 4096 + 3
    (rows,) = struct.unpack_from(">H", damaged, at)
    assert rows > 1
    struct.pack_into(">H", damaged, at, rows - 1)
    path.write_bytes(damaged)
    with closing(sqlite3.connect(path)) as connection:
        assert len(connection.execute("SELECT id FROM pyjms_message").fetchall()) == 199
    with pytest.raises(DamagedStoreError, match=r"damaged.*backup.*salvage"):
        home.open()


@pytest.mark.parametrize(
    ("name", "damaged"), [("client_id", "clieot_id"), ("priority", "prioritx"), ("pyjms_branch", "pyjms_brancx")]
)
def test_a_name_in_the_schema_that_has_another_letter_is_damage(
    path: Path, home: JournalHome, name: str, damaged: str
) -> None:
    """SQLite finds nothing wrong with it."""
    World(home).journal.close(clean=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ?, ?), name = replace(name, ?, ?), tbl_name = replace(tbl_name, ?, ?)",
            (name, damaged) * 3,
        )
    with pytest.raises(DamagedStoreError, match=r"is damaged: no such .*backup.*salvage"):
        World(home)
    home.close()


def test_a_message_with_flipped_bytes_is_set_aside_and_the_others_are_read(
    path: Path, home: JournalHome, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(home)
    messages = [world.message(text=f"MARKER{number}") for number in range(5)]
    world.add(*messages)
    world.journal.close(clean=False)
    whole = path.read_bytes()
    assert b"MARKER3" in whole
    path.write_bytes(whole.replace(b"MARKER3", b"MARKED3"))
    ids = [message.reference.id for message in messages]
    assert [message for message, _ in world.reopen().ids] == ids
    with caplog.at_level(logging.ERROR):
        found = world.bodies(*ids)
    assert list(found.values()) == ["MARKER0", "MARKER1", "MARKER2", "MARKER4"]
    assert "PYJMS-STORE-1" in caplog.text
    assert "checksum" in caplog.text
    assert [message for message, _ in world.reopen().ids] == [each for each in ids if each != ids[3]]
    world.journal.close(clean=True)
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT id, reason, payload, queues FROM pyjms_set_aside").fetchall()
        (queue,) = connection.execute("SELECT name FROM pyjms_queue WHERE number = ?", (world.queue,)).fetchone()
    connection.close()
    assert [(number, b"MARKED3" in payload) for number, _, payload, _ in rows] == [(ids[3], True)]
    assert rows[0][3] == f"queue://{queue}"
    assert f"in queue://{queue} cannot" in caplog.text
    assert "checksum" in rows[0][1]


def test_a_store_that_is_locked_by_another_program_refuses_and_goes_on_when_it_is_free(
    path: Path, home: JournalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyjms_provider.stores.sql.sqlite.BUSY_MS", 20)
    world = World(home)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    message = world.message()
    with pytest.raises(StoreError, match=r"locked by another program"):
        world.add(message)
    assert world.bodies(message.reference.id) == {}
    other.execute("ROLLBACK")
    other.close()
    world.add(message)
    assert world.reopen().ids == [(message.reference.id, world.queue)]
    home.close()


def test_a_file_that_is_gone_is_not_written_until_it_is_back(path: Path) -> None:
    clock = VirtualClock()
    home = JournalHome(lambda holder: open_journal(StoreSettings(url=f"sqlite:///{path}"), holder, clock))
    world = World(home)
    message = world.message()
    away = path.with_suffix(".away")
    path.rename(away)
    clock.advance(CHECK_MS)
    with pytest.raises(StoreError, match=r"put the same file back"):
        world.add(message)
    away.rename(path)
    world.add(message)
    assert world.reopen().ids == [(message.reference.id, world.queue)]
    home.close()


def test_reading_while_the_file_is_away_leaves_the_log_alone(path: Path, home: JournalHome) -> None:
    world = World(home)
    messages = [world.message() for _ in range(3)]
    world.add(*messages)
    ids = [message.reference.id for message in messages]
    away, log = path.with_suffix(".away"), Path(f"{path}-wal")
    length = log.stat().st_size
    path.rename(away)
    with pytest.raises(UnavailableStoreError, match=r"put the same file back"):
        world.journal.read(ids)
    assert not path.exists()
    assert log.stat().st_size == length
    away.rename(path)
    assert len(world.bodies(*ids)) == len(ids)
    world.add(world.message())
    assert len(world.reopen().ids) == len(ids) + 1
    home.close()


def test_reading_while_another_file_is_there_does_not_open_it(path: Path, home: JournalHome) -> None:
    world = World(home)
    message = world.message()
    world.add(message)
    path.rename(path.with_suffix(".away"))
    path.touch()
    with pytest.raises(LostStoreError, match=r"another file"):
        world.journal.read([message.reference.id])
    assert path.stat().st_size == 0
    world.journal.close(clean=True)


OTHER_PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
connection.close()
"""


def test_locks_of_the_application_on_the_same_file_are_kept_so_that_no_other_program_takes_the_log_away(
    path: Path, home: JournalHome
) -> None:
    home.open().close(clean=True)
    application = sqlite3.connect(path)
    application.execute("SELECT count(*) FROM sqlite_master").fetchone()
    world = World(home)
    before = world.add(world.message()).reference
    subprocess.run([sys.executable, "-c", OTHER_PROGRAM, str(path)], check=True)
    assert Path(f"{path}-wal").exists()
    after = world.add(world.message()).reference
    assert world.reopen().ids == [(before.id, world.queue), (after.id, world.queue)]
    application.close()
    home.close()


@pytest.mark.parametrize("change", [Path.unlink, Path.touch], ids=["deleted", "replaced"])
def test_a_store_whose_log_was_taken_away_is_lost(path: Path, change: Callable[[Path], None]) -> None:
    clock = VirtualClock()
    world = World(JournalHome(lambda holder: open_journal(StoreSettings(url=f"sqlite:///{path}"), holder, clock)))
    world.add(world.message())
    log = Path(f"{path}-wal")
    log.rename(path.with_suffix(".away"))
    log.touch()
    change(log)
    clock.advance(CHECK_MS)
    with pytest.raises(LostStoreError, match=r"store\.db-wal was deleted or replaced.*start the broker again"):
        world.add(world.message())
    world.journal.close(clean=True)


def damage(path: Path, message: int, column: str, value: str) -> None:
    """Have an expression of SQL in a column, whatever it may hold."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'BLOB NOT NULL', 'BLOB') WHERE name = 'pyjms_message'"
        )
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE pyjms_message SET {column} = {value} WHERE id = ?", (message,))


@pytest.mark.parametrize("is_open", [True, False], ids=["while_open", "before_opening"])
@pytest.mark.parametrize("value", ["'text'", "CAST(x'ff00fe' AS TEXT)", "7", "1.5", "NULL"])
def test_a_payload_of_another_type_is_set_aside_and_the_others_are_read(
    path: Path, home: JournalHome, value: str, is_open: bool
) -> None:
    world = World(home)
    messages = [world.message(text=str(number)) for number in range(3)]
    world.add(*messages)
    ids = [message.reference.id for message in messages]
    if not is_open:
        world.journal.close(clean=True)
    damage(path, ids[1], "payload", value)
    if not is_open:
        world.reopen()
    assert list(world.bodies(*ids).values()) == ["0", "2"]
    assert [message for message, _ in world.reopen().ids] == [ids[0], ids[2]]
    home.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT id FROM pyjms_set_aside").fetchall() == [(ids[1],)]


def test_a_payload_that_one_bit_calls_text_is_read_as_it_is(path: Path, home: JournalHome) -> None:
    world = World(home)
    message = world.message(text="whole")
    world.add(message)
    world.journal.close(clean=True)
    damage(path, message.reference.id, "payload", "CAST(payload AS TEXT)")
    world.reopen()
    assert list(world.bodies(message.reference.id).values()) == ["whole"]
    home.close()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("priority", "'high'"),
        ("priority", "CAST(x'ff' AS TEXT)"),
        ("priority", "x'01'"),
        ("priority", "1.5"),
        ("priority", "10"),
        ("priority", "-1"),
        ("queue", "1.5"),
        ("queue", "'orders'"),
    ],
)
def test_a_row_that_cannot_be_understood_is_set_aside_and_the_others_are_found(
    path: Path, home: JournalHome, caplog: pytest.LogCaptureFixture, column: str, value: str
) -> None:
    world = World(home)
    good, bad = world.message(), world.message(world.queue, world.other)
    world.add(good, bad)
    world.journal.close(clean=False)
    connection = sqlite3.connect(path, isolation_level=None)
    damage(path, bad.reference.id, column, value)
    with caplog.at_level(logging.ERROR):
        assert world.reopen().ids == [(good.reference.id, world.queue)]
    assert "PYJMS-STORE-1" in caplog.text
    assert world.reopen().ids == [(good.reference.id, world.queue)]
    names = [name for (name,) in connection.execute("SELECT name FROM pyjms_queue ORDER BY number")]
    places = "; ".join(f"queue://{name}" for name in names)
    assert len(names) == 2
    assert connection.execute("SELECT id, queues FROM pyjms_set_aside").fetchall() == [(bad.reference.id, places)]
    assert connection.execute("SELECT * FROM pyjms_entry").fetchall() == []
    connection.close()
    home.close()
