"""A child process with a file system of its own, in which the disk is full or read-only; run by `test_sqlite_disk.py`.

It mounts a file system that nobody else sees (`unshare`), and which goes with the process; root is not needed. Prints
``done`` when all was as it should be.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.testing import VirtualClock
from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import StoreError, UnusableStoreError
from pyjms_provider.stores.sql import SqlJournal, open_journal
from pyjms_provider.stores.sql.salvage import salvage
from pyjms_provider.stores.sql.sqlite import BELIEVED_MS
from pyjms_provider.stores.sql.sqlite_files import Checkpoints
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World

SIZE_MB = 4


def mount(directory: Path, *options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(directory)], check=True)


def opened(directory: Path, holder: str = "small disk") -> SqlJournal:
    settings = StoreSettings(url=f"sqlite:///{directory / 'store.db'}", keep_free_bytes=0)
    return open_journal(settings, holder, SystemClock())


def send_until_full(world: World) -> list[int]:
    """Return the ids of what was written before the disk was full."""
    written: list[int] = []
    with pytest.raises(ResourceError, match="full"):
        for _ in range(10_000):
            sent = world.add(world.message(text="x" * 5000)).reference.id
            written.append(sent)
    return written


def full(directory: Path) -> None:
    mount(directory, "-o", f"size={SIZE_MB}m")
    ballast = directory / "ballast"
    ballast.write_bytes(b"x" * (SIZE_MB * 2**20 // 2))  # so much room is made that the log can be carried over
    world = World(JournalHome(lambda holder: opened(directory, holder)))
    written = send_until_full(world)
    assert len(written) > 10, written
    assert sorted(world.bodies(*written)) == written
    written += send_until_full(world)
    ballast.unlink()
    written.append(world.add(world.message()).reference.id)
    assert sorted(world.bodies(*written)) == written
    assert [message for message, _ in world.reopen().ids] == written
    written += send_until_full(world)  # full again: now it is closed, and opened, without room
    world.journal.close(clean=False)


def kept_free(directory: Path) -> None:
    """Before the disk is full messages are refused, and those that are there can be acknowledged, which makes room for others."""
    mount(directory, "-o", f"size={3 * SIZE_MB}m")
    # The database becomes megabytes longer at once when the log is carried over: not at a moment of a thread's, as this disk is small for that.
    Checkpoints._run = lambda _: None  # type: ignore[method-assign, assignment]
    kept, clock, told = SIZE_MB * 2**20, VirtualClock(), list[str]()
    _tell_to(told)
    settings = StoreSettings(url=f"sqlite:///{directory / 'store.db'}", keep_free_bytes=kept)
    world = World(JournalHome(lambda holder: open_journal(settings, holder, clock)))
    written: list[MessageReference] = []
    with pytest.raises(ResourceError, match="kept for acknowledging"):
        while True:
            clock.advance(1)
            written.append(world.add(world.message(text="x" * 5000)).reference)
    assert len(written) > 200, written
    assert kept // 3 < shutil.disk_usage(directory).free < kept
    (directory / "somebody else's").write_bytes(b"x" * (shutil.disk_usage(directory).free - kept // 3))
    for reference in written:
        clock.advance(1)
        world.remove((world.queue, reference))
    clock.advance(BELIEVED_MS)
    sent = world.add(world.message(text="x" * 5000)).reference  # where the others were
    assert world.reopen().ids == [(sent.id, world.queue)]
    world.journal.close(clean=True)
    assert [text.partition(" ")[0] for text in told] == ["PYJMS-STORE-7"] * 2, told


def _tell_to(told: list[str]) -> None:
    """Have what the store logs told to a list."""

    class ToList(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    log = logging.getLogger("pyjms.store")
    log.addHandler(ToList())
    log.setLevel(logging.INFO)


def read_only(directory: Path) -> None:
    mount(directory)
    world = World(JournalHome(lambda holder: opened(directory, holder)))
    sent = world.add(world.message()).reference
    world.journal.close(clean=True)
    remount = ("mount", "-o", "remount,{}", str(directory))
    subprocess.run([part.format("ro") for part in remount], check=True)
    with pytest.raises(UnusableStoreError, match="writable by this user"):
        opened(directory)
    subprocess.run([part.format("rw") for part in remount], check=True)
    assert world.reopen().ids == [(sent.id, world.queue)]
    world.journal.close(clean=True)


def salvaged(directory: Path) -> None:
    """Whatever room there is for it, what is said to be saved is there: SQLite itself does not tell who closes a file that it did not fit."""
    mount(directory, "-o", f"size={4 * SIZE_MB}m")
    world = World(JournalHome(lambda holder: opened(directory, holder)))
    written = [world.add(world.message(text="x" * 5000)).reference.id for _ in range(100)]
    world.journal.close(clean=True)
    small = directory / "small"
    small.mkdir()
    outcomes = []
    for size_kb in range(1000, 4200, 200):
        mount(small, "-o", f"size={size_kb}k")
        try:
            salvage(directory / "store.db", small / "store.db", SystemClock())
        except StoreError as error:
            assert list(small.iterdir()) == []
            outcomes.append("refused" if "is full" in error.reason else error.reason)
        else:
            with closing(sqlite3.connect(small / "store.db")) as connection:
                assert [number for (number,) in connection.execute("SELECT id FROM pyjms_message")] == written
            outcomes.append("saved")
        subprocess.run(["umount", str(small)], check=True)
    assert {"refused", "saved"} == set(outcomes), outcomes


if __name__ == "__main__":
    {"salvaged": salvaged, "full": full, "kept_free": kept_free, "read_only": read_only}[sys.argv[1]](Path(sys.argv[2]))
    print("done")  # noqa: T201 - the parent reads it
