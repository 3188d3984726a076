"""What the benchmarks of durable stores share: a broker on a fresh file, and raw SQLite with the same content."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter
from urllib.parse import quote

from measure import PROPERTIES, TEXT, make_message

from pyjms import Connection, ConnectionFactory, DeliveryMode, Session
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl

_numbers = count(1)

INSERT = "INSERT INTO message (queue, properties, body) VALUES (1, ?, ?)"
FIRST = "SELECT id, properties, body FROM message WHERE queue = 1 ORDER BY id LIMIT ?"


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


@contextmanager
def raw(synchronous: str) -> Iterator[sqlite3.Connection]:
    """Give a connection of the driver to a fresh file with a write-ahead log, in autocommit mode."""
    with directory() as path, closing(sqlite3.connect(path / "raw.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, queue INTEGER, properties TEXT, body TEXT)")
        yield connection


def rate(work: Callable[[], None], times: int) -> float:
    """Return how often a second."""
    begin = perf_counter()
    work()
    return times / (perf_counter() - begin)


def send(connection: Connection, messages: int, batch: int = 0) -> None:
    """Send PERSISTENT, one at a time, or so many in a transaction."""
    with closing(connection.create_session(batch > 0, Session.AUTO_ACKNOWLEDGE)) as session:
        producer = session.create_producer(session.create_queue("q"))
        producer.delivery_mode = DeliveryMode.PERSISTENT
        for number in range(messages):
            producer.send(make_message(session))
            if batch and number % batch == batch - 1:
                session.commit()


def receive(connection: Connection, messages: int, batch: int = 0) -> None:
    """Receive and acknowledge one at a time, or so many in a transaction."""
    with closing(connection.create_session(batch > 0, Session.AUTO_ACKNOWLEDGE)) as session:
        consumer = session.create_consumer(session.create_queue("q"))
        for number in range(messages):
            assert consumer.receive(10_000) is not None
            if batch and number % batch == batch - 1:
                session.commit()


def raw_send(connection: sqlite3.Connection, messages: int, batch: int = 1) -> None:
    """Insert the same content serialised, so many rows a commit."""
    for number in range(messages):
        if number % batch == 0:
            connection.execute("BEGIN")
        connection.execute(INSERT, (json.dumps(PROPERTIES), TEXT))
        if number % batch == batch - 1:
            connection.execute("COMMIT")


def raw_receive(connection: sqlite3.Connection, messages: int, batch: int = 1) -> None:
    """Read the first rows, make their content again, and delete them, so many a commit."""
    for _ in range(messages // batch):
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute(FIRST, (batch,)).fetchall()
        for _, properties, _ in rows:
            json.loads(properties)
        connection.executemany("DELETE FROM message WHERE id = ?", [row[:1] for row in rows])
        connection.execute("COMMIT")
