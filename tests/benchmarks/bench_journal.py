"""The journal alone against raw `sqlite3` with one table: what safety, groups and decoding cost above the database."""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from threading import Barrier, Thread
from time import perf_counter
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parent))
from measure import PROPERTIES, TEXT, compare, report

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms_provider.core.journal.journal import Changes, Journal, NewMessage, QueueNumber, QueueRecord, Removal
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
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


class Backlog:
    """A journal that was closed with many messages in it."""

    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/ours.db"
        self.settings = StoreSettings(url=f"sqlite:///{self.path}")
        journal = self.open()
        side = Ours(journal)
        for _ in range(BACKLOG // 1000):
            side.add(1000)
        journal.close(clean=True)

    def open(self) -> Journal:
        """Open the journal, and read all entries."""
        journal = open_journal(self.settings, "bench", SystemClock())
        deque(journal.recover(lambda _: None).entries, 0)
        return journal

    def ours(self, *, clean: bool) -> float:
        """Return entries a second, from opening to the last one; then close as the next opening is to find it."""

        def work() -> None:
            opened.append(self.open())

        opened: list[Journal] = []
        result = rate(BACKLOG, work)
        opened[0].close(clean=clean)
        return result

    def theirs(self) -> float:
        """Return rows a second, without their bodies, from the same file."""
        with closing(sqlite3.connect(self.path)) as connection:
            query = "SELECT id, queue, priority, expiration, deliveries, length(payload) FROM pyjms_message ORDER BY id"
            return rate(BACKLOG, lambda: deque(connection.execute(query), 0))


def calls(work: Callable[[], object], times: int = 20_000) -> float:
    """Return how often a second `work` can be called."""

    def repeat() -> None:
        for _ in range(times):
            work()

    return rate(times, repeat)


def recovery() -> bool:
    """Compare finding a backlog again with reading its rows."""
    good = True
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        backlog = Backlog(directory)
        for clean, least in ((True, 0.3), (False, 0.15)):
            backlog.ours(clean=clean)
            result = compare(lambda clean=clean: backlog.ours(clean=clean), backlog.theirs)  # type: ignore[misc]  # a bound default
            what = f"open {BACKLOG:,} messages after a {'clean close' if clean else 'death'} / sqlite3 rows"
            good &= report(
                what, result.ratio, least=least, detail=f"{result.ours:,.0f} a second against {result.theirs:,.0f}"
            )
    return good


def codec() -> bool:
    """Compare messages as bytes with the same fields as JSON."""
    fields = [ENVELOPE.destination.name, ENVELOPE.message_id, ENVELOPE.timestamp_ms, PROPERTIES, TEXT]
    text = json.dumps(fields)
    good = True
    for what, our, their, least in (
        ("encode a message / json", lambda: encode(ENVELOPE), lambda: json.dumps(fields), 2),
        ("decode a message / json", lambda: decode(PAYLOAD), lambda: json.loads(text), 0.8),
    ):
        result = compare(lambda our=our: calls(our), lambda their=their: calls(their))  # type: ignore[misc]  # bound defaults
        detail = f"{1e6 / result.ours:.1f} µs against {1e6 / result.theirs:.1f}"
        good &= report(what, result.ratio, least=least, detail=detail)
    return good


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
            "read, decode and take one by one, not forced / sqlite3 NORMAL",
            lambda: our_takes(SINGLE, 1, force=False),
            lambda: their_takes(SINGLE, 1, "NORMAL"),
            0.3,
        ),
        ("16 threads / one thread, forced", from_threads, lambda: our_sends(SINGLE, 1), 4),
    ]
    for what, our, their, least in lines:
        result = compare(our, their)
        detail = f"{result.ours:,.0f} a second against {result.theirs:,.0f}"
        good &= report(what, result.ratio, least=least, detail=detail)
    good &= codec()
    good &= recovery()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
