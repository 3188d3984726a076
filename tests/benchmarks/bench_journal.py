"""The journal alone against raw `sqlite3` with one table: what safety, groups and decoding cost above the database."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Barrier, Thread
from time import perf_counter
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parent))
from measure import PROPERTIES, TEXT, compare, report

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms_provider.core.journal import Changes, Journal, NewMessage, QueueNumber, QueueRecord, Removal
from pyjms_provider.core.reference import MessageReference, ReferenceId
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.codec import decode, encode
from pyjms_provider.stores.sql import open_journal

SINGLE, GROUPS, GROUP, THREADS, BACKLOG = 500, 50, 100, 16, 100_000
ENVELOPE = Envelope(
    Address(AddressKind.QUEUE, "bench"),
    MessageId("ID:bench-1234-5678-1"),
    1_700_000_000_000,
    0,
    2,
    4,
    None,
    None,
    None,
    PROPERTIES,  # type: ignore[arg-type]  # plain stored values
    BodyKind.TEXT,
    TEXT,
)
PAYLOAD = encode(ENVELOPE)
_ids = count(1)
_T = TypeVar("_T")


class Ours:
    """An open journal with one queue."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.queue: QueueNumber = journal.define_queue(QueueRecord(number=QueueNumber(0), address=ENVELOPE.destination))

    def message(self) -> NewMessage:
        """Make a message with an id of its own."""
        reference = MessageReference(ReferenceId(next(_ids)), None, 0, 4, reliable=True)
        return NewMessage(reference, ENVELOPE, (self.queue,))

    def add(self, number: int) -> list[NewMessage]:
        """Add messages in one write."""
        messages = [self.message() for _ in range(number)]
        self.journal.write(Changes(messages=messages), force=True)
        return messages

    def take(self, messages: list[NewMessage], *, force: bool) -> None:
        """Read messages and remove them in one write."""
        self.journal.read([message.reference.id for message in messages])
        removals = [Removal(self.queue, message.reference) for message in messages]
        self.journal.write(Changes(removals=removals), force=force)


class Theirs:
    """One table, one connection, one insert or delete of an encoded message after the other."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute(f"PRAGMA synchronous={synchronous}")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, priority INTEGER, body BLOB)"
        )

    def add(self, number: int) -> list[int]:
        """Add messages in one commit."""
        ids = [next(_ids) for _ in range(number)]
        self.connection.execute("BEGIN")
        for each in ids:
            self.connection.execute("INSERT INTO message VALUES (?, ?, ?)", (each, 4, PAYLOAD))
        self.connection.execute("COMMIT")
        return ids

    def take(self, ids: list[int]) -> None:
        """Read messages and remove them in one commit."""
        self.connection.execute("BEGIN")
        for each in ids:
            self.connection.execute("SELECT body FROM message WHERE id = ?", (each,)).fetchone()
            self.connection.execute("DELETE FROM message WHERE id = ?", (each,))
        self.connection.execute("COMMIT")


@contextmanager
def ours() -> Iterator[Ours]:
    """Open a fresh journal."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        journal = open_journal(StoreSettings(url=f"sqlite:///{directory}/ours.db"), "bench", SystemClock())
        list(journal.recover(lambda _: None).entries)
        yield Ours(journal)
        journal.close(clean=True)


@contextmanager
def theirs(synchronous: str = "FULL") -> Iterator[Theirs]:
    """Open a fresh database."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        database = Theirs(Path(directory) / "theirs.db", synchronous)
        yield database
        database.connection.close()


def rate(number: int, work: Callable[[], object]) -> float:
    """Return how many of `number` were done a second."""
    begin = perf_counter()
    work()
    return number / (perf_counter() - begin)


def each(work: Callable[[_T], None], items: list[_T]) -> None:
    """Do `work` with one after the other."""
    for item in items:
        work(item)


def our_sends(times: int, group: int) -> float:
    """Return messages a second, `group` in each forced write."""
    with ours() as side:
        return rate(times * group, lambda: [side.add(group) for _ in range(times)])


def their_sends(times: int, group: int) -> float:
    """Return messages a second, `group` in each forced commit."""
    with theirs() as side:
        return rate(times * group, lambda: [side.add(group) for _ in range(times)])


def our_takes(times: int, group: int, *, force: bool) -> float:
    """Return messages a second, read and removed `group` by `group`."""
    with ours() as side:
        batches = [side.add(group) for _ in range(times)]

        def work() -> None:
            for batch in batches:
                side.take(batch, force=force)

        return rate(times * group, work)


def their_takes(times: int, group: int, synchronous: str) -> float:
    """Return the same through one connection."""
    with theirs(synchronous) as side:
        batches = [side.add(group) for _ in range(times)]
        return rate(times * group, lambda: each(side.take, batches))


def from_threads() -> float:
    """Return messages a second when 16 threads send one by one, forced."""
    with ours() as side:
        start = Barrier(THREADS + 1)

        def work() -> None:
            start.wait()
            for _ in range(SINGLE // 4):
                side.add(1)

        threads = [Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        start.wait()
        return rate(THREADS * (SINGLE // 4), lambda: each(Thread.join, threads))


def recovery() -> tuple[float, float]:
    """Return entries a second that a backlog is opened with, after a clean close, and after a death."""
    rates = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        settings = StoreSettings(url=f"sqlite:///{directory}/ours.db")
        journal = open_journal(settings, "bench", SystemClock())
        list(journal.recover(lambda _: None).entries)
        side = Ours(journal)
        for _ in range(BACKLOG // 1000):
            side.add(1000)
        for clean in (True, False):
            journal.close(clean=clean)
            begin = perf_counter()
            journal = open_journal(settings, "bench", SystemClock())
            found = sum(1 for _ in journal.recover(lambda _: None).entries)
            rates.append(found / (perf_counter() - begin))
        journal.close(clean=True)
    return rates[0], rates[1]


def microseconds(work: Callable[[], object], times: int = 20_000) -> float:
    """Return what one call costs."""
    return 1e6 / rate(times, lambda: [work() for _ in range(times)])


def main() -> int:
    """Run and report."""
    good = True
    lines: list[tuple[str, Callable[[], float], Callable[[], float], float]] = [
        ("send one by one, forced / sqlite3", lambda: our_sends(SINGLE, 1), lambda: their_sends(SINGLE, 1), 0.6),
        (
            "send 100 a write, forced / sqlite3",
            lambda: our_sends(GROUPS, GROUP),
            lambda: their_sends(GROUPS, GROUP),
            0.5,
        ),
        (
            "take 100 a write, forced / sqlite3",
            lambda: our_takes(GROUPS, GROUP, force=True),
            lambda: their_takes(GROUPS, GROUP, "FULL"),
            0.5,
        ),
        (
            "take one by one, not forced / sqlite3 NORMAL",
            lambda: our_takes(SINGLE, 1, force=False),
            lambda: their_takes(SINGLE, 1, "NORMAL"),
            0.5,
        ),
        ("16 threads / one thread, forced", from_threads, lambda: our_sends(SINGLE, 1), 4),
    ]
    for what, our, their, least in lines:
        result = compare(our, their)
        detail = f"{result.ours:,.0f} a second against {result.theirs:,.0f}"
        good &= report(what, result.ratio, least=least, detail=detail)
    good &= report("encode a message, µs", microseconds(lambda: encode(ENVELOPE)), most=6)
    good &= report("decode a message, µs", microseconds(lambda: decode(PAYLOAD)), most=8)
    clean, unclean = recovery()
    good &= report("entries found a second after a clean close", clean, least=100_000)
    good &= report("entries found a second after a death", unclean, least=50_000)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
