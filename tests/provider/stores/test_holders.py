"""One holder at a time: who it is, how death frees the store, how a stand-by broker takes over; on both databases."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread, Timer

import pytest

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import ClosedError, ProviderError
from pyjms.testing import VirtualClock
from pyjms_provider.settings import StandBy, StoreSettings
from pyjms_provider.stores.errors import HeldStoreError, LostStoreError, UnusableStoreError
from pyjms_provider.stores.file_lock import FileLock
from pyjms_provider.stores.sql import SqlJournal, open_journal
from pyjms_provider.stores.sql.sqlite import CHECK_MS
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.needs.declaring import needing

ROOT = Path(__file__).parents[3]
LONG_S = 30
KILLS = 4


@pytest.fixture(params=["sqlite", needing("postgresql")])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    made: str = request.getfixturevalue("postgresql").make_store()
    return made


def opened(url: str, holder: str = "first") -> SqlJournal:
    return open_journal(StoreSettings(url=url), holder, SystemClock())


class Child:
    """A process that writes to a store."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.provider.stores.writer_process", url],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        assert self.output.readline() == "ready\n"

    def kill_after(self, lines: int) -> list[str]:
        """Kill the process when it has said so much; return all that it said."""
        said = [self.output.readline() for _ in range(lines)]
        self.process.kill()
        said += self.output.readlines()
        self.output.close()
        self.process.wait(LONG_S)
        return [line for line in said if line.endswith("\n")]


@pytest.fixture
def start_child() -> Iterator[Callable[[str], Child]]:
    children: list[Child] = []

    def start(url: str) -> Child:
        children.append(Child(url))
        return children[-1]

    yield start
    for child in children:
        child.process.kill()
        child.process.wait(LONG_S)


def wait_until_free(url: str) -> SqlJournal:
    """Open a store whose holder was killed: PostgreSQL notices that a moment later."""
    settings, cancelled = StoreSettings(url=url, stand_by=StandBy.WAIT), Signal()
    alarm = Timer(LONG_S, cancelled.set)
    alarm.start()
    try:
        return open_journal(settings, "next", SystemClock(), cancelled=cancelled)
    finally:
        alarm.cancel()


def test_the_holder_is_named_with_its_process(url: str, start_child: Callable[[str], Child]) -> None:
    child = start_child(url)
    with pytest.raises(HeldStoreError, match=rf"held by broker 'writer', process {child.process.pid} .*stand_by=wait"):
        opened(url)
    child.kill_after(0)
    wait_until_free(url).close(clean=True)


def test_what_a_killed_process_had_written_is_there_and_nothing_else(
    url: str, start_child: Callable[[str], Child]
) -> None:
    chance = random.Random()
    expected: set[int] = set()
    for _ in range(KILLS):
        said = start_child(url).kill_after(chance.randrange(60))
        added = {int(line[2:]) for line in said if line.startswith("+")}
        removed = {int(line[2:]) for line in said if line.startswith("-")}
        cut = {int(line[2:]) for line in said if line.startswith("?")} - removed
        expected |= added - removed
        journal = wait_until_free(url)
        recovery = journal.recover(lambda _: None)
        entries = list(recovery.entries)
        found = {int(entry.reference.id) for entry in entries}
        in_queues = [(int(entry.reference.id), entry.queue) for entry in entries]
        bodies = {
            int(number): each.body for number, each in journal.read([entry.reference.id for entry in entries]).items()
        }
        journal.close(clean=False)
        lost, unknown = expected - found - cut, found - expected
        assert not lost
        # At most the one that was being written is there without having been announced.
        assert unknown <= {max(added, default=max(expected, default=0)) + 1}
        assert bodies == {number: f"message {number}" for number in found}
        queues = [record.number for record in recovery.queues]
        assert in_queues == [
            (number, queue) for number in sorted(found) for queue in (queues if number % 3 == 0 else queues[:1])
        ]
        expected = found


def test_a_stand_by_waits_and_takes_over(url: str) -> None:
    first = World(JournalHome(lambda _: opened(url)))
    sent = first.add(first.message()).reference
    settings = StoreSettings(url=url, stand_by=StandBy.WAIT)
    found: list[int] = []
    waiting, has_taken_over = Event(), Event()

    class Watched(SystemClock):
        def wait(self, signal: Signal, until_ms: float | None) -> bool:
            waiting.set()
            return super().wait(signal, until_ms)

    def stand_by() -> None:
        journal = open_journal(settings, "second", Watched())
        found.extend(entry.reference.id for entry in journal.recover(lambda _: None).entries)
        journal.close(clean=True)
        has_taken_over.set()

    thread = Thread(target=stand_by)
    thread.start()
    assert waiting.wait(LONG_S)
    assert not has_taken_over.is_set()
    first.add(first.message())
    first.journal.close(clean=False)
    assert has_taken_over.wait(LONG_S)
    thread.join(LONG_S)
    assert found == [sent.id, sent.id + 1]


def test_a_stand_by_can_be_told_to_give_up(url: str) -> None:
    holder = opened(url)
    cancelled = Signal()
    cancelled.set()
    with pytest.raises(ClosedError, match="cancelled"):
        open_journal(StoreSettings(url=url, stand_by=StandBy.WAIT), "second", SystemClock(), cancelled=cancelled)
    holder.close(clean=True)
    opened(url).close(clean=True)


def test_a_store_that_was_replaced_is_lost_and_that_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lost: list[ProviderError] = []
    settings, clock = StoreSettings(url=f"sqlite:///{path}"), VirtualClock()
    world = World(JournalHome(lambda holder: open_journal(settings, holder, clock, on_lost=lost.append)))
    path.rename(tmp_path / "away.db")
    path.write_bytes((tmp_path / "away.db").read_bytes())
    clock.advance(CHECK_MS)
    for _ in range(2):
        with pytest.raises(LostStoreError, match="another file"):
            world.add(world.message())
    assert [type(error) for error in lost] == [LostStoreError]
    world.journal.close(clean=True)


def test_a_store_whose_lock_was_deleted_is_lost_to_its_first_holder(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    settings, clock = StoreSettings(url=f"sqlite:///{path}"), VirtualClock()
    first = World(JournalHome(lambda holder: open_journal(settings, holder, clock)))
    first.add(first.message())
    path.with_suffix(".db.lock").unlink()
    second = opened(settings.url, "second")
    clock.advance(CHECK_MS)
    with pytest.raises(LostStoreError, match=r"store\.db\.lock was deleted or replaced"):
        first.add(first.message())
    second.close(clean=True)
    first.journal.close(clean=True)


def test_a_lock_that_is_deleted_before_it_is_taken_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db.lock"
    take = fcntl.flock
    taken: list[int] = []

    def take_late(file: int, how: int) -> None:
        if not taken:
            path.unlink()
        taken.append(file)
        take(file, how)

    monkeypatch.setattr(fcntl, "flock", take_late)
    lock = FileLock(str(path), "first")
    lock.acquire()
    assert len(taken) == 2
    with pytest.raises(HeldStoreError, match="held by first"):
        FileLock(str(path), "second").acquire()
    lock.release()


def test_a_file_system_that_has_no_locks_is_not_taken_for_a_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a stand-by broker waits for ever for the end of nobody."""

    def refuse(_: int, __: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    settings = StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}", stand_by=StandBy.WAIT)
    with pytest.raises(
        UnusableStoreError, match=r"store\.db\.lock cannot be locked: No locks available\. Keep the store on a"
    ):
        open_journal(settings, "first", SystemClock())


def test_a_child_of_the_holder_does_not_keep_the_store(url: str) -> None:
    program = f"""
import os, sys
from pyjms.spi.clock import SystemClock
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import open_journal
journal = open_journal(StoreSettings(url={url!r}), "parent", SystemClock())
child = os.fork()
if child:
    os._exit(0)
print(os.getpid(), flush=True)
os.close(1)
sys.stdin.read()
os._exit(0)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.wait(LONG_S)
        os.kill(child, 0)  # it lives
        wait_until_free(url).close(clean=True)
