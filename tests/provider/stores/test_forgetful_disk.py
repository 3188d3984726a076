"""SQLite on a disk that cannot force something, takes it for written, as Linux does, and works again: what is confirmed afterwards survives a loss of power."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pyjms.spi.clock import SystemClock
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import StoreError
from pyjms_provider.stores.sql import open_journal, sqlite_files
from pyjms_provider.stores.sql.sqlite_files import OpenFiles, write_log_again
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.provider.cost import kept
from tests.provider.kill.power import lose_power
from tests.provider.stores.log_lock import index_of
from tests.provider.stores.parts import files_of

ROOT = Path(__file__).parents[3]


def words_and_ids(store: Path, how: str) -> tuple[list[str], list[int]]:
    """Return the errors that the child had, and which messages it was told are kept."""
    disk = store.parent / "disk"
    script = [sys.executable, "-m", "tests.provider.stores.forgetful_disk", str(store), str(disk), how]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True)
    lose_power(store, disk)
    *errors, ids = done.stdout.splitlines()
    return errors, [int(each) for each in ids.split()]


@pytest.mark.parametrize("who", ["thread", "writer", "commit", "other", "last", "stays"])
def test_what_was_carried_over_and_not_forced_is_carried_over_again(tmp_path: Path, who: str) -> None:
    store = tmp_path / "store.db"
    disk = tmp_path / "disk"
    script = [sys.executable, "-m", "tests.provider.stores.forgetful_database", str(store), str(disk), who]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True)
    lose_power(store, disk)
    failures, *kept = [int(each) for each in done.stdout.split()]
    assert failures == 1
    assert sorted(found(store)) == kept


def found(store: Path) -> list[int]:
    journal = open_journal(StoreSettings(url=f"sqlite:///{store}"), "test", SystemClock())
    ids = [int(entry.reference.id) for entry in journal.recover(lambda _: None).entries]
    journal.close(clean=True)
    return ids


@pytest.mark.parametrize("how", ["commit", "joined"])
def test_what_is_confirmed_after_a_failure_survives_a_loss_of_power(tmp_path: Path, how: str) -> None:
    store = tmp_path / "store.db"
    errors, kept = words_and_ids(store, how)
    assert (errors, len(kept)) == ([], 4)
    assert set(found(store)) >= set(kept)


def test_while_the_disk_fails_nothing_is_confirmed(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    errors, kept = words_and_ids(store, "stays")
    assert len(errors) == 2
    for error in errors:
        assert "store.db-wal, and fails still (Input/output error); nothing was written. Look after the disk" in error
        assert error.startswith("StoreError")
    assert set(found(store)) >= set(kept)


def test_a_log_that_is_written_again_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    home = JournalHome(lambda holder: open_journal(StoreSettings(url=f"sqlite:///{path}"), holder, SystemClock()))
    world = World(home)
    world.add(*[world.message(text="x" * 100_000) for _ in range(30)])
    log = Path(f"{path}-wal")
    before = log.read_bytes()
    write_log_again(str(path))
    assert log.read_bytes() == before
    assert len(world.reopen().ids) == 30
    home.close()


def test_a_log_that_cannot_be_mended_before_it_is_closed_is_left_to_who_opens_it_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who closes the last connection would have SQLite carry it over and delete it."""
    path = tmp_path / "store.db"
    world = World(
        JournalHome(lambda holder: open_journal(StoreSettings(url=f"sqlite:///{path}"), holder, SystemClock()))
    )
    sent = world.add(world.message())
    journal: Any = world.journal
    files_of(journal).has_failed = True
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    journal.close(clean=False)
    monkeypatch.undo()
    assert Path(f"{path}-wal").stat().st_size > 0
    assert [message for message, _ in world.reopen().ids] == [sent.reference.id]
    world.journal.close(clean=True)
    assert not Path(f"{path}-wal").exists()


def test_a_log_that_cannot_be_mended_as_the_store_is_opened_is_left_to_who_opens_it_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, log = tmp_path / "store.db", tmp_path / "store.db-wal"
    settings = StoreSettings(url=f"sqlite:///{path}")
    world = World(JournalHome(lambda holder: open_journal(settings, holder, SystemClock())))
    sent = world.add(world.message())
    journal: Any = world.journal
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    files_of(journal).has_failed = True
    journal.close(clean=False)
    before = log.stat().st_size
    for _ in range(2):
        with pytest.raises(StoreError, match="fails still"):
            open_journal(settings, "test", SystemClock())
        assert log.stat().st_size == before
    monkeypatch.undo()
    assert found(path) == [sent.reference.id]


def test_nothing_is_forced_of_what_need_not_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, forced = tmp_path / "store.db", list[str]()
    journal: Any = open_journal(StoreSettings(url=f"sqlite:///{path}"), "test", SystemClock())
    paged = next(files for files in kept(journal, OpenFiles) if files is not files_of(journal))
    paged.has_failed = True
    monkeypatch.setattr(sqlite_files, "write_log_again", forced.append)
    journal.close(clean=True)
    assert forced == []


def test_after_an_unclean_end_all_is_carried_over_again(tmp_path: Path) -> None:
    """An application's connection has kept the log's index, which says how much was carried over, and not whether that was forced."""
    path = tmp_path / "store.db"
    settings = StoreSettings(url=f"sqlite:///{path}?pyjms_shared=true")
    world = World(JournalHome(lambda holder: open_journal(settings, holder, SystemClock())))
    world.add(world.message())
    with closing(sqlite3.connect(path, isolation_level=None)) as reader, closing(sqlite3.connect(path)) as other:
        reader.execute("BEGIN")  # so that the log does not begin anew
        reader.execute("SELECT count(*) FROM pyjms_message").fetchone()
        world.add(world.message())
        _, log, carried = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert 0 < carried < log
        index = index_of(path)
        assert os.pread(index, 4, 96) == carried.to_bytes(4, sys.byteorder)
        world.reopen(clean=False)
        assert os.pread(index, 4, 96) == bytes(4)
    world.journal.close(clean=True)


def test_where_there_is_no_log_nothing_is_written_again(tmp_path: Path) -> None:
    write_log_again(str(tmp_path / "store.db"))
    assert not list(tmp_path.iterdir())


def test_a_failure_is_remembered_until_the_log_was_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    Path(f"{path}-wal").write_bytes(b"x" * 10)
    files = OpenFiles(str(path))
    files.has_failed = True
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(StoreError, match="fails still"):
        files.repair_log()
    assert files.has_failed
    monkeypatch.undo()
    files.repair_log()
    assert not files.has_failed


@pytest.mark.parametrize("fails", [False, True], ids=["works", "fails"])
def test_nobody_carries_over_while_the_log_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """What is behind a hole of the log would be in the database, and after a loss of power what is before it nowhere."""
    path = tmp_path / "store.db"
    home = JournalHome(lambda holder: open_journal(StoreSettings(url=f"sqlite:///{path}"), holder, SystemClock()))
    world = World(home)
    world.add(world.message())
    journal: Any = world.journal
    files = files_of(journal)
    busy: list[int] = []
    answers: list[bool] = []
    asking = Thread(target=lambda: answers.append(files.may_checkpoint()), daemon=True)
    force = os.fsync

    def slowly(descriptor: int) -> None:
        asking.start()
        asking.join(0.05)
        busy.append(other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[0])
        if fails:
            raise OSError(errno.EIO, "Input/output error")
        force(descriptor)

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        files.has_failed = True
        monkeypatch.setattr(os, "fsync", slowly)
        with suppress(StoreError):
            world.add(world.message())
        asking.join(10)
        monkeypatch.undo()
        assert (busy, answers, files.has_failed) == ([1], [not fails], fails)
        world.add(world.message())
        assert other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[0] == 0
    assert len(world.reopen().ids) == 3 - fails
    home.close()


def test_a_log_that_is_a_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    Path(tmp_path / "store.db-wal").mkdir()
    with pytest.raises(
        StoreError, match=r"store\.db-wal, and fails still \(Is a directory\); nothing was written\. Look"
    ):
        write_log_again(str(tmp_path / "store.db"))
