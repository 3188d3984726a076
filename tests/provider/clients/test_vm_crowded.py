"""Consumers with selectors of a queue whose messages do not fit into memory together, while somebody else is to have the first of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pyjms import Connection, ConnectionFactory, DeliveryMode, MessageConsumer, Session
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.stores.sql.sqlite import SqliteDatabase
from tests.pyjms.runtime.helpers import Call, within_patience

URL = "vm://crowded"
MANY = 700
"""Messages of 2 KiB, of which a megabyte of memory holds less than half."""

Connect: TypeAlias = Callable[..., Connection]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    made: list[Connection] = []

    def make(options: str = "") -> Connection:
        store = f"?store=sqlite:///{tmp_path}/jms.db&synchronous=off&memory=1000000{options}"
        made.append(ConnectionFactory(URL + (store if not made else options.replace("&", "?"))).create_connection())
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.close()
    find_provider("vm").stop_broker(ProviderUrl.parse(URL))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the database was asked for bodies."""
    counted = [0]
    fetch = SqliteDatabase.fetch

    def counting(self: SqliteDatabase, ids: list[int]) -> object:
        counted[0] += 1
        return fetch(self, ids)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteDatabase, "fetch", counting)
    return counted


def fill(connection: Connection, last: str) -> None:
    """Send messages of group ``a``, and then one of group `last`."""
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    producer = session.create_producer(session.create_queue("orders"))
    producer.delivery_mode = DeliveryMode.PERSISTENT
    for number in range(MANY):
        message = session.create_text_message(f"{number:06}" + "x" * 2000)
        message.set_string_property("JMSXGroupID", last if number == MANY - 1 else "a")
        message.set_int_property("colour", 1)
        producer.send(message)
    session.commit()


def consumer(connection: Connection, selector: str | None, mode: int = Session.AUTO_ACKNOWLEDGE) -> MessageConsumer:
    session = connection.create_session(False, mode)
    return session.create_consumer(session.create_queue("orders"), selector)


def taken(consumer: MessageConsumer) -> int | None:
    """Return the number of the message that is there now."""
    message = within_patience(consumer.receive_no_wait)
    return None if message is None else int(message.text[:6])  # type: ignore[attr-defined]


def test_a_group_of_somebody_else_is_passed_over_though_it_fills_memory(connect: Connect, reads: list[int]) -> None:
    connection = connect("&groups=true")
    fill(connection, "b")
    first = consumer(connection, None)
    assert taken(first) == 0
    other = consumer(connection, "colour = 1")
    reads[0] = 0
    assert taken(other) == MANY - 1
    assert taken(other) is None
    assert reads[0] <= MANY // 16
    reads[0] = 0
    assert [taken(other) for _ in range(10)] == [None] * 10
    assert reads[0] == 0
    first.close()
    assert [taken(other) for _ in range(MANY)] == [*range(1, MANY - 1), None, None]


def test_what_depends_on_somebody_who_has_not_looked_yet_is_given_up_until_that_has_gone(
    connect: Connect, reads: list[int]
) -> None:
    connection, important = connect(), connect("&consumer_priority=5")
    rival = consumer(important, "colour = 2 OR colour = 1")
    rival.provider.set_interested(True)  # type: ignore[attr-defined]  # it waits, is woken, and does not look
    low = consumer(connection, "colour = 1")
    fill(connection, "a")
    reads[0] = 0
    assert taken(low) is None  # within patience: it does not read again and again for ever
    receiving = Call(low.receive, 60_000)
    assert receiving.is_blocked()
    rival.close()
    message: Any = receiving.result()
    assert int(message.text[:6]) == 0
    assert reads[0] > MANY // 65 * 2  # it did not fit into memory, or this tests nothing
    assert [taken(low) for _ in range(MANY)] == [*range(1, MANY), None]


def test_messages_that_come_back_are_found_though_memory_holds_one_of_them(connect: Connect) -> None:
    connection = connect()
    sender = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    producer = sender.create_producer(sender.create_queue("orders"))
    for number, colour in enumerate(("blue", "blue", "red")):
        message = sender.create_text_message(f"{number:06}" + "x" * 600_000)
        message.set_string_property("colour", colour)
        producer.send(message)
    sessions = [connection.create_session(True, Session.SESSION_TRANSACTED) for _ in range(2)]
    red, either = (
        session.create_consumer(session.create_queue("orders"), selector)
        for session, selector in zip(sessions, ("colour = 'red'", None), strict=True)
    )
    assert taken(red) == 2
    assert [taken(either) for _ in range(2)] == [0, 1]
    for session in sessions:
        session.rollback()
    assert taken(red) == 2
    assert [taken(either) for _ in range(3)] == [0, 1, None]
