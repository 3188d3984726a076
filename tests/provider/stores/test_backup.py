"""A copy of an SQLite store that is made while the broker works is a store: with what had been sent, and nothing torn."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

from pyjms import Connection, ConnectionFactory, DeliveryMode
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from tests.provider.kill.site import drained

PATIENCE_S = 30
BEFORE = 300


def send_on(connection: Connection, sent: list[int], enough: Event, end: Event) -> None:
    """Send numbers PERSISTENT until the end; tell when there are enough for a copy to have something to miss."""
    with connection.create_session() as session:
        producer = session.create_producer(session.create_queue("copied"))
        producer.delivery_mode = DeliveryMode.PERSISTENT
        while not end.is_set():
            producer.send(session.create_text_message(str(len(sent))))
            sent.append(len(sent))
            if len(sent) == BEFORE:
                enough.set()


def test_a_copy_made_while_the_broker_is_busy_is_a_store(tmp_path: Path) -> None:
    path, copy = tmp_path / "shop.db", tmp_path / "copy.db"
    url = f"vm://busy?store=sqlite:///{path}"
    sent: list[int] = []
    enough, end = Event(), Event()
    with ConnectionFactory(url).create_connection() as connection:
        sender = Thread(target=send_on, args=(connection, sent, enough, end))
        sender.start()
        try:
            assert enough.wait(PATIENCE_S)
            least = len(sent)
            with closing(sqlite3.connect(path)) as reader:
                reader.execute("VACUUM INTO ?", (str(copy),))
            most = len(sent) + 1  # one may be written, and not yet counted
        finally:
            end.set()
            sender.join(PATIENCE_S)
    find_provider("vm").stop_broker(ProviderUrl.parse(url))
    texts = [text for text, _ in drained(f"vm://restored?store=sqlite:///{copy}", "copied")]
    assert texts == [str(number) for number in range(len(texts))]
    assert least <= len(texts) <= most
