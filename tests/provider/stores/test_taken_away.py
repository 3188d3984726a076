"""Files of SQLite that are taken away since somebody looked last: what others have in their place stays whole."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import pytest
from sqlalchemy import create_engine, text

from pyjms.spi.errors import ResourceError
from pyjms.testing import VirtualClock
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import LostStoreError
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.sql.sqlite import CHECK_MS
from pyjms_provider.stores.sql.sqlite_files import PAGES, OpenFiles
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.provider.stores.parts import checkpoints_of, files_of

PATIENCE_S = 30
LONG = "x" * 3000
OTHER_PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    print(*(value for row in connection.execute(statement) for value in row))
connection.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def clock() -> VirtualClock:
    """While it stands still nobody looks at the files again."""
    return VirtualClock()


@pytest.fixture
def world(path: Path, clock: VirtualClock) -> Iterator[World]:
    settings = StoreSettings(url=f"sqlite:///{path}?pyjms_shared=true")
    home = JournalHome(lambda holder: open_journal(settings, holder, clock))
    yield World(home)
    home.close()


def another(path: Path, *statements: str) -> list[str]:
    """Have another process run statements, and return their rows as text."""
    script = [sys.executable, "-c", OTHER_PROGRAM, str(path), *statements]
    return subprocess.run(script, capture_output=True, text=True, check=True).stdout.splitlines()


def send(world: World, count: int) -> None:
    for _ in range(count):
        world.add(world.message(text=LONG))


def take_log_away(path: Path) -> None:
    """Open the file in this process by other ways than SQLite, which frees all locks; the next program that closes it deletes its log."""
    path.open("rb").close()
    another(path, "SELECT count(*) FROM pyjms_message")
    assert not Path(f"{path}-wal").exists()


def test_what_a_log_has_that_was_taken_away_is_not_carried_over_into_what_others_wrote_since(
    path: Path, clock: VirtualClock, world: World
) -> None:
    another(path, "CREATE TABLE stock (name BLOB)")
    send(world, 20)
    take_log_away(path)
    send(world, 7)
    another(path, *["INSERT INTO stock VALUES (randomblob(3000))"] * 30)
    clock.advance(CHECK_MS)
    with pytest.raises(LostStoreError, match=r"store\.db-wal was deleted"):
        send(world, 1)
    world.journal.close(clean=False)
    checks = "PRAGMA integrity_check", "SELECT count(*) FROM stock", "SELECT count(*) FROM pyjms_message"
    assert another(path, *checks) == ["ok", "30", "20"]


def test_a_store_that_is_closed_before_anybody_looks_again_carries_nothing_over_either(
    path: Path, world: World
) -> None:
    another(path, "CREATE TABLE stock (name BLOB)")
    send(world, 20)
    take_log_away(path)
    another(path, *["INSERT INTO stock VALUES (randomblob(3000))"] * 30)
    world.journal.close(clean=True)
    assert another(path, "PRAGMA integrity_check", "SELECT count(*) FROM stock") == ["ok", "30"]


def have_carried_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the thread begin, as if much had been written."""
    monkeypatch.setattr(OpenFiles, "log_pages", lambda _: PAGES)
    with closing(sqlite3.connect(":memory:")) as nobody:
        checkpoints_of(world.journal).wrote(100, nobody.cursor())


def test_a_file_that_takes_the_place_of_the_database_is_not_given_its_log(
    path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(logging.getLogger("pyjms.store"), "debug", lambda text, *values: told.put(text % values))
    send(world, 20)
    backup = path.with_suffix(".backup")
    another(path, f"VACUUM INTO '{backup}'")
    before = backup.read_bytes()
    send(world, 20)
    shutil.copy(backup, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)
    have_carried_over(world, monkeypatch)
    assert "is another file than the one that was opened" in told.get(timeout=PATIENCE_S)
    assert path.read_bytes() == before


def test_who_writes_carries_nothing_over_after_the_log_was_taken_away(
    path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(world, 20)
    take_log_away(path)
    send(world, 7)
    another(path, "CREATE TABLE stock (name BLOB)", *["INSERT INTO stock VALUES (randomblob(3000))"] * 30)
    told: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(logging.getLogger("pyjms.store"), "debug", lambda text, *values: told.put(text % values))
    have_carried_over(world, monkeypatch)
    assert "was not carried over" in told.get(timeout=PATIENCE_S)  # from here on it is for who writes
    monkeypatch.undo()
    send(world, 1)
    assert another(path, "PRAGMA integrity_check", "SELECT count(*) FROM stock") == ["ok", "30"]


def test_the_log_of_another_program_is_not_written_again(path: Path, world: World) -> None:
    send(world, 20)
    take_log_away(path)
    send(world, 7)
    log = Path(f"{path}-wal")
    log.write_bytes(b"another's")
    before = log.stat().st_mtime_ns
    files_of(world.journal).has_failed = True
    with pytest.raises(LostStoreError, match=r"store\.db-wal was deleted or replaced"):
        send(world, 1)
    world.journal.close(clean=False)
    assert (log.read_bytes(), log.stat().st_mtime_ns) == (b"another's", before)
    log.unlink()


def test_nothing_joins_a_transaction_after_the_log_was_taken_away(path: Path, world: World) -> None:
    """An application's commit takes much longer than a look, and would confirm what nobody finds."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE stock (name BLOB)"))
        connection.commit()
        send(world, 20)
        log = Path(f"{path}-wal")
        log.rename(path.with_suffix(".away"))
        connection.execute(text("INSERT INTO stock VALUES (1)"))
        with pytest.raises(ResourceError, match=r"could not be written.*store\.db-wal was deleted or replaced"):
            world.journal.join(connection).write(Changes(messages=[world.message()]), force=True)
        assert connection.execute(text("SELECT count(*) FROM stock")).scalar_one() == 0
    path.with_suffix(".away").rename(log)
    engine.dispose()
