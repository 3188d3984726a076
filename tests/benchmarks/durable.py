"""What the benchmarks of durable stores share: a broker on a fresh file, raw SQLite with the same content, and turns.

An `Act` does one unit of work: one message, or one transaction of many. Two sides take turns, a few acts each, because a
forced write costs what the disk has to do just then, for everybody.
"""

from __future__ import annotations

import gc
import json
import shutil
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Final, TypeAlias
from urllib.parse import quote

from measure import PROPERTIES, REPEATS, TEXT, Comparison, make_message

from pyjms import Connection, ConnectionFactory, DeliveryMode, Session
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl

Act: TypeAlias = Callable[[], object]
Side: TypeAlias = AbstractContextManager[Act]

BURST: Final = 10
"""So many acts make one turn."""

_numbers = count(1)

_INSERT = "INSERT INTO message (queue, properties, body) VALUES (1, ?, ?)"
_FIRST = "SELECT id, properties, body FROM message WHERE queue = 1 ORDER BY id LIMIT ?"


def in_turn(ours: Side, theirs: Side, acts: int, *, each: int = 1) -> tuple[Comparison, Comparison]:
    """Return the rates of both sides, the medians of five rounds of so many acts of `each` messages: by all of a round, and by its median turn.

    All of it has what a side does rarely, such as carrying a log over each few hundred messages. When the disk has a bad moment, one write
    takes as long as a hundred others, and it is chance whose turn that is: then the median turn says more.
    """
    rates: tuple[list[float], list[float]] = ([], [])
    typical: tuple[list[float], list[float]] = ([], [])
    with ours as our_act, theirs as their_act:
        turn = ((0, our_act), (1, their_act))
        for _, act in turn:
            _burst(act)  # tables are made, caches are filled
        for _ in range(REPEATS):
            gc.collect()
            seconds: tuple[list[float], list[float]] = ([], [])
            for number in range(acts // BURST):
                for side, act in turn if number % 2 else reversed(turn):
                    seconds[side].append(_burst(act))
            for side, taken in enumerate(seconds):
                rates[side].append(BURST * each / statistics.mean(taken))
                typical[side].append(BURST * each / statistics.median(taken))
    return _medians(rates), _medians(typical)


def _medians(rates: tuple[list[float], list[float]]) -> Comparison:
    return Comparison(ours=statistics.median(rates[0]), theirs=statistics.median(rates[1]))


def _burst(act: Act) -> float:
    begin = perf_counter()
    for _ in range(BURST):
        act()
    return perf_counter() - begin


@contextmanager
def directory() -> Iterator[Path]:
    """Give a fresh directory on the disk of ``TMPDIR``."""
    path = Path(tempfile.mkdtemp(prefix="pyjms-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def broker(options: str = "") -> Iterator[Connection]:
    """Give a started connection to a broker on a fresh file, which is stopped afterwards."""
    with directory() as path:
        url = f"vm://bench-durable-{next(_numbers)}"
        store = quote(f"sqlite:///{path / 'store.db'}", safe="")
        try:
            with ConnectionFactory(f"{url}?store={store}{options}").create_connection() as connection:
                connection.start()
                yield connection
        finally:
            find_provider("vm").stop_broker(ProviderUrl.parse(url))


def sender(connection: Connection, batch: int = 0) -> Act:
    """Return what sends one message PERSISTENT, or so many in a transaction."""
    session = connection.create_session(batch > 0, Session.AUTO_ACKNOWLEDGE)
    producer = session.create_producer(session.create_queue("q"))
    producer.delivery_mode = DeliveryMode.PERSISTENT

    def send() -> None:
        for _ in range(batch or 1):
            producer.send(make_message(session))
        if batch:
            session.commit()

    return send


def receiver(connection: Connection, batch: int = 0) -> Act:
    """Return what receives and acknowledges one message, or so many in a transaction."""
    session = connection.create_session(batch > 0, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(session.create_queue("q"))

    def receive() -> None:
        for _ in range(batch or 1):
            assert consumer.receive(10_000) is not None
        if batch:
            session.commit()

    return receive


@contextmanager
def sends(batch: int = 0, options: str = "") -> Iterator[Act]:
    """Our sends, to a fresh broker."""
    with broker(options) as connection:
        yield sender(connection, batch)


@contextmanager
def receives(stock: int, batch: int = 0, options: str = "") -> Iterator[Act]:
    """Our receives, from a fresh broker with so many messages."""
    with broker(options) as connection:
        fill = sender(connection, 100)
        for _ in range(-(-stock // 100)):
            fill()
        yield receiver(connection, batch)


@contextmanager
def raw(synchronous: str) -> Iterator[sqlite3.Connection]:
    """Give a connection of the driver to a fresh file with a write-ahead log, in autocommit mode."""
    with directory() as path, closing(sqlite3.connect(path / "raw.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA secure_delete=FAST")  # as ours has it
        connection.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, queue INTEGER, properties TEXT, body TEXT)")
        yield connection


@contextmanager
def raw_sends(batch: int = 1, synchronous: str = "FULL") -> Iterator[Act]:
    """Insert the same content serialised, so many rows a commit."""
    with raw(synchronous) as connection:
        yield lambda: _raw_insert(connection, batch)


@contextmanager
def raw_receives(stock: int, batch: int = 1, synchronous: str = "FULL") -> Iterator[Act]:
    """Read the first rows, make their content again, and delete them, so many a commit."""
    with raw(synchronous) as connection:
        _raw_insert(connection, stock)
        yield lambda: _raw_delete(connection, batch)


def _raw_insert(connection: sqlite3.Connection, rows: int) -> None:
    connection.execute("BEGIN")
    for _ in range(rows):
        connection.execute(_INSERT, (json.dumps(PROPERTIES), TEXT))
    connection.execute("COMMIT")


def _raw_delete(connection: sqlite3.Connection, rows: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    found = connection.execute(_FIRST, (rows,)).fetchall()
    assert len(found) == rows
    for _, properties, _ in found:
        json.loads(properties)
    connection.executemany("DELETE FROM message WHERE id = ?", [row[:1] for row in found])
    connection.execute("COMMIT")
