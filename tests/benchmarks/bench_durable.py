"""A durable broker against raw SQLite, one thread against sixteen, and the durable queues that one would take instead.

In each line both sides are equally durable: what is said to be written has been forced to the disk, or on neither side.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))
from durable import Act, Side, broker, directory, in_turn, raw_receives, raw_sends, receives, sender, sends
from huey.storage import SqliteStorage
from litequeue import LiteQueue
from measure import PROPERTIES, REPEATS, TEXT, compare, report
from persistqueue import SQLiteAckQueue

ACTS: Final = 1000
BATCH: Final = 100
BATCHES: Final = 20
STOCK: Final = (REPEATS + 1) * ACTS
STOCK_FOR_BATCHES: Final = (REPEATS * BATCHES + 10) * BATCH
THREADS: Final = 16
EACH: Final = 500
"""So many messages of each thread make a round: the first hundred are slower, as threads begin and statements are prepared."""
FORCED: Final = "&acknowledge=forced"


def make_record() -> dict[str, object]:
    """Make the message of all benchmarks as a dictionary, for those that know no messages; as ours, each time anew."""
    return {"text": TEXT, "properties": {**PROPERTIES}}


def one_thread() -> float:
    """Return messages a second, sent PERSISTENT."""
    with broker() as connection:
        return _rate(sender(connection), EACH * 4)


def many_threads() -> float:
    """Return messages a second, sent by all threads together, each with a session of its own."""
    with broker() as connection, ThreadPoolExecutor(THREADS) as pool:
        sender(connection)()
        acts = [sender(connection) for _ in range(THREADS)]
        begin = perf_counter()
        for sent in [pool.submit(_rate, act, EACH) for act in acts]:
            sent.result()
        return THREADS * EACH / (perf_counter() - begin)


def without_disk() -> float:
    """Return messages a second of one thread where nothing is forced: what an interpreter can send, from however many threads."""
    with broker("&synchronous=off") as connection:
        return _rate(sender(connection), EACH * 4)


def _rate(act: Act, times: int) -> float:
    begin = perf_counter()
    for _ in range(times):
        act()
    return times / (perf_counter() - begin)


# Peers: what puts the record in, and, if `stock` is given, what takes one out for good.


@contextmanager
def persist_queue(synchronous: str, stock: int = 0) -> Iterator[Act]:
    """It has two connections, both with SQLite's default, and commits put, get and ack."""
    with directory() as path, closing(SQLiteAckQueue(str(path), auto_commit=True, multithreading=True)) as queue:
        put = _fill((queue._putter, queue._getter), lambda: queue.put(make_record()), stock, synchronous)
        yield (lambda: queue.ack(queue.get())) if stock else put


@contextmanager
def lite_queue(synchronous: str, stock: int = 0) -> Iterator[Act]:
    """It commits put, pop and done."""
    with directory() as path:
        queue = LiteQueue(str(path / "lite.db"))

        def take() -> None:
            message = queue.pop()
            json.loads(message.data)
            queue.done(message.message_id)

        put = _fill((queue.conn,), lambda: queue.put(json.dumps(make_record())), stock, synchronous)
        yield take if stock else put
        queue.close()


@contextmanager
def huey_storage(synchronous: str, stock: int = 0) -> Iterator[Act]:
    """It commits put and take. Taking deletes, so that a record is lost whose taker dies: there is no acknowledgement."""
    with directory() as path, closing(SqliteStorage(filename=str(path / "huey.db"))) as storage:
        put = _fill((storage.conn,), lambda: storage.enqueue(json.dumps(make_record()).encode()), stock, synchronous)
        yield (lambda: json.loads(storage.dequeue())) if stock else put


def _fill(connections: tuple[object, ...], put: Act, stock: int, synchronous: str) -> Act:
    """Put in the stock without forcing it to the disk, and only then set how far a commit goes; return `put`."""
    for level, times in (("OFF", stock), (synchronous, 0)):
        for connection in connections:
            connection.execute(f"PRAGMA synchronous={level}")  # type: ignore[attr-defined]
        for _ in range(times):
            put()
    return put


PEERS: Final[dict[str, Callable[..., Side]]] = {
    "persist-queue": persist_queue,
    "litequeue": lite_queue,
    "huey": huey_storage,
}


def judge(what: str, least: float, ours: Side, theirs: Side, acts: int = ACTS, each: int = 1) -> bool:
    """Have both sides take turns, and report."""
    result, typical = in_turn(ours, theirs, acts, each=each)
    detail = f"{result.ours:,.0f}/s against {result.theirs:,.0f}/s; median turns {typical.ratio:.2f}"
    return report(what, result.ratio, least=least, detail=detail)


def against_sqlite() -> bool:
    """Compare with raw SQLite, one by one and in transactions."""
    good = judge("PERSISTENT sends one by one / sqlite3", 0.5, sends(), raw_sends())
    many = f"in transactions of {BATCH}"
    good &= judge(f"sends {many} / sqlite3", 0.4, sends(BATCH), raw_sends(BATCH), BATCHES, BATCH)
    good &= judge(
        f"receive and acknowledge {many}, forced / sqlite3",
        0.4,
        receives(STOCK_FOR_BATCHES, BATCH, FORCED),
        raw_receives(STOCK_FOR_BATCHES, BATCH),
        BATCHES,
        BATCH,
    )
    for options, synchronous in ((FORCED, "FULL"), ("", "NORMAL")):
        what = f"receive and acknowledge one by one / sqlite3, both {synchronous}"
        good &= judge(what, 0.5, receives(STOCK, 0, options), raw_receives(STOCK, 1, synchronous))
    return good


def against_peers() -> bool:
    """Compare with queues in files, both sides forcing every write."""
    good = True
    for name, peer in PEERS.items():
        good &= judge(f"PERSISTENT sends / {name}", 1, sends(), peer("FULL"))
        good &= judge(f"receive and acknowledge / {name}", 1, receives(STOCK, 0, FORCED), peer("FULL", STOCK))
    return good


def of_many_threads() -> bool:
    """Compare with one thread. Where the disk is so quick that the interpreter is the limit: with half of that limit."""
    threads = compare(many_threads, one_thread)
    limit = median(without_disk() for _ in range(REPEATS)) / threads.theirs
    detail = (
        f"{threads.ours:,.0f}/s against {threads.theirs:,.0f}/s; without the disk one could send {limit:.2f} times that"
    )
    return report(
        f"PERSISTENT sends of {THREADS} threads / of one", threads.ratio, least=min(4, limit / 2), detail=detail
    )


def main() -> int:
    """Run and report."""
    good = against_sqlite()
    good &= of_many_threads()
    good &= against_peers()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
