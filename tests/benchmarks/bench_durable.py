"""A durable broker against raw SQLite, one thread against sixteen, and the durable queues that one would take instead.

In each line both sides are equally durable: what is said to be written has been forced to the disk, or on neither side.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from durable import broker, directory, rate, raw, raw_receive, raw_send, receive, send
from huey.storage import SqliteStorage
from litequeue import LiteQueue
from measure import PROPERTIES, TEXT, Comparison, compare, report
from persistqueue import SQLiteAckQueue

SINGLE = 300
BATCH = 100
IN_BATCHES = 3_000
THREADS = 16
EACH = 60
FORCED = "&acknowledge=forced"
RECORD = {"text": TEXT, "properties": PROPERTIES}


def our_sends(messages: int, batch: int = 0, options: str = "") -> float:
    """Return messages a second."""
    with broker(options) as connection:
        send(connection, BATCH, batch)  # the first ones make the tables and warm caches, on both sides
        return rate(partial(send, connection, messages, batch), messages)


def our_receives(messages: int, batch: int = 0, options: str = "") -> float:
    """Return messages a second, received and acknowledged."""
    with broker(options) as connection:
        send(connection, messages + BATCH, BATCH)
        receive(connection, BATCH, batch)
        return rate(partial(receive, connection, messages, batch), messages)


def raw_sends(messages: int, batch: int = 1) -> float:
    """Return rows a second."""
    with raw("FULL") as connection:
        raw_send(connection, BATCH, batch)
        return rate(partial(raw_send, connection, messages, batch), messages)


def raw_receives(messages: int, batch: int = 1, synchronous: str = "FULL") -> float:
    """Return rows a second."""
    with raw(synchronous) as connection:
        raw_send(connection, messages + BATCH, BATCH)
        raw_receive(connection, BATCH, batch)
        return rate(partial(raw_receive, connection, messages, batch), messages)


def many_threads() -> float:
    """Return messages a second, sent by all threads together, each with a session of its own."""
    with broker() as connection, ThreadPoolExecutor(THREADS) as pool:
        send(connection, BATCH)
        begin = perf_counter()
        for sent in [pool.submit(send, connection, EACH) for _ in range(THREADS)]:
            sent.result()
        return THREADS * EACH / (perf_counter() - begin)


class Peer(NamedTuple):
    """A queue in a file: how to put the record in, and how to take one out for good."""

    put: Callable[[], object]
    take: Callable[[], object]


@contextmanager
def persist_queue(synchronous: str) -> Iterator[Peer]:
    """It has two connections, both with SQLite's default, and commits put, get and ack."""
    with directory() as path, closing(SQLiteAckQueue(str(path), auto_commit=True, multithreading=True)) as queue:
        for connection in (queue._putter, queue._getter):
            connection.execute(f"PRAGMA synchronous={synchronous}")
        yield Peer(put=lambda: queue.put(RECORD), take=lambda: queue.ack(queue.get()))


@contextmanager
def lite_queue(synchronous: str) -> Iterator[Peer]:
    """It commits put, pop and done."""
    with directory() as path:
        queue = LiteQueue(str(path / "lite.db"))
        queue.conn.execute(f"PRAGMA synchronous={synchronous}")

        def take() -> None:
            message = queue.pop()
            json.loads(message.data)
            queue.done(message.message_id)

        yield Peer(put=lambda: queue.put(json.dumps(RECORD)), take=take)
        queue.close()


@contextmanager
def huey_storage(synchronous: str) -> Iterator[Peer]:
    """It commits put and take. Taking deletes, so that a record is lost whose taker dies: there is no acknowledgement."""
    with directory() as path, closing(SqliteStorage(filename=str(path / "huey.db"))) as storage:
        storage.conn.execute(f"PRAGMA synchronous={synchronous}")
        yield Peer(put=lambda: storage.enqueue(json.dumps(RECORD).encode()), take=lambda: json.loads(storage.dequeue()))


def peer_rate(peer: Callable[[str], AbstractContextManager[Peer]], synchronous: str, *, sends: bool) -> float:
    """Return messages a second that a peer takes in, or gives out."""
    with peer(synchronous) as queue:
        for _ in range(BATCH if sends else SINGLE + BATCH):
            queue.put()
        act = queue.put if sends else queue.take
        for _ in range(0 if sends else BATCH):
            act()

        def work() -> None:
            for _ in range(SINGLE):
                act()

        return rate(work, SINGLE)


def detail(result: Comparison) -> str:
    """Tell the rates."""
    return f"{result.ours:,.0f}/s against {result.theirs:,.0f}/s"


def judge(what: str, least: float, ours: Callable[[], float], theirs: Callable[[], float]) -> bool:
    """Compare two rates and report."""
    result = compare(ours, theirs)
    return report(what, result.ratio, least=least, detail=detail(result))


def main() -> int:
    """Run and report."""
    good = judge("PERSISTENT sends one by one / sqlite3", 0.5, partial(our_sends, SINGLE), partial(raw_sends, SINGLE))
    good &= judge(
        f"sends in transactions of {BATCH} / sqlite3",
        0.4,
        partial(our_sends, IN_BATCHES, BATCH),
        partial(raw_sends, IN_BATCHES, BATCH),
    )
    good &= judge(
        f"receive and acknowledge in transactions of {BATCH}, forced / sqlite3",
        0.4,
        partial(our_receives, IN_BATCHES, BATCH, FORCED),
        partial(raw_receives, IN_BATCHES, BATCH),
    )
    for options, synchronous in ((FORCED, "FULL"), ("", "NORMAL")):
        good &= judge(
            f"receive and acknowledge one by one / sqlite3, {synchronous}",
            0.5,
            partial(our_receives, SINGLE, 0, options),
            partial(raw_receives, SINGLE, 1, synchronous),
        )
    good &= judge(f"PERSISTENT sends of {THREADS} threads / of one", 4, many_threads, partial(our_sends, SINGLE))
    for name, peer in (("persist-queue", persist_queue), ("litequeue", lite_queue), ("huey", huey_storage)):
        for synchronous, options in (("FULL", FORCED), ("NORMAL", "&synchronous=normal")):
            good &= judge(
                f"PERSISTENT sends / {name}, both {synchronous}",
                1,
                partial(our_sends, SINGLE, 0, options),
                partial(peer_rate, peer, synchronous, sends=True),
            )
            good &= judge(
                f"receive and acknowledge / {name}, both {synchronous}",
                1,
                partial(our_receives, SINGLE, 0, options),
                partial(peer_rate, peer, synchronous, sends=False),
            )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
