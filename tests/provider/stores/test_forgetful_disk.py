"""SQLite on a disk that cannot force something, takes it for written, as Linux does, and works again: what is confirmed afterwards survives a loss of power."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyjms.spi.clock import SystemClock
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import StoreError
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.sql.sqlite_files import OpenFiles, write_log_again
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.provider.kill.power import lose_power

ROOT = Path(__file__).parents[3]


def words_and_ids(store: Path, how: str) -> tuple[list[str], list[int]]:
    """Return the errors that the child had, and which messages it was told are kept."""
    disk = store.parent / "disk"
    script = [sys.executable, "-m", "tests.provider.stores.forgetful_disk", str(store), str(disk), how]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True)
    lose_power(store, disk)
    *errors, ids = done.stdout.splitlines()
    return errors, [int(each) for each in ids.split()]


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
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        files.write_log_again()
    assert files.has_failed
    monkeypatch.undo()
    files.write_log_again()
    assert not files.has_failed


def test_a_log_that_is_a_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    Path(tmp_path / "store.db-wal").mkdir()
    with pytest.raises(
        StoreError, match=r"store\.db-wal, and fails still \(Is a directory\); nothing was written\. Look"
    ):
        write_log_again(str(tmp_path / "store.db"))
