"""A disk that is nearly full takes no more messages, and lets those that are there go."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import create_engine

from pyjms import (
    Connection,
    ConnectionFactory,
    DeliveryMode,
    ResourceAllocationException,
    Session,
    TransactionRolledBackException,
)
from pyjms.joining import joined
from pyjms.spi import SystemClock
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms.testing import VirtualClock
from pyjms_provider.stores.sql.sqlite import BELIEVED_MS, CHECK_MS

URL = "vm://room"


class Disk(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes are left on any disk."""
    left = [10**9]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(10**9, 10**9 - left[0], left[0]))
    return left


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The store's clock: what was seen of the disk is believed until it has advanced."""
    clock = VirtualClock()
    monkeypatch.setattr(SystemClock, "monotonic_ms", lambda _: clock.monotonic_ms())
    return clock


@pytest.fixture
def connection(tmp_path: Path, free: list[int], clock: VirtualClock) -> Iterator[Connection]:
    with ConnectionFactory(f"{URL}?store=sqlite:///{tmp_path}/jms.db&keep_free=1MB").create_connection() as connection:
        connection.start()
        yield connection
    find_provider("vm").stop_broker(ProviderUrl.parse(URL))


def send(session: Session, *texts: str, mode: int = DeliveryMode.PERSISTENT) -> None:
    producer = session.create_producer(session.create_queue("orders"))
    producer.delivery_mode = mode
    for text in texts:
        producer.send(session.create_text_message(text))


def received(session: Session) -> list[Any]:
    consumer = session.create_consumer(session.create_queue("orders"))
    return [message.text for message in iter(consumer.receive_no_wait, None)]  # type: ignore[attr-defined]


def test_messages_are_refused_and_those_that_are_there_acknowledged(
    connection: Connection, free: list[int], clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    session = connection.create_session()
    send(session, "one", "two")
    free[0] = 999_999
    clock.advance(BELIEVED_MS)
    with caplog.at_level(logging.INFO, "pyjms.store"):
        with pytest.raises(ResourceAllocationException, match=r"less than 1 MB are left.*keep_free.*Make room"):
            send(session, "three")
        send(session, "need not survive", mode=DeliveryMode.NON_PERSISTENT)
        assert received(session) == ["one", "two", "need not survive"]
        free[0] = 1_000_000
        clock.advance(BELIEVED_MS)
        send(session, "four")
    assert [record.levelname for record in caplog.records if "PYJMS-STORE-7" in record.message] == ["WARNING", "INFO"]
    assert received(session) == ["four"]


def test_a_transaction_that_sends_is_rolled_back_and_one_that_receives_is_committed(
    connection: Connection, free: list[int], clock: VirtualClock
) -> None:
    send(connection.create_session(), "one")
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    free[0] = 0
    clock.advance(BELIEVED_MS)
    assert received(session) == ["one"]
    send(session, "two")
    with pytest.raises(TransactionRolledBackException, match="keep_free"):
        session.commit()
    assert received(session) == ["one"]
    session.commit()
    session.rollback()
    assert received(session) == []


def test_a_transaction_that_an_application_joins_sends_nothing_either(
    connection: Connection, free: list[int], tmp_path: Path
) -> None:
    send(connection.create_session(), "one")
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    free[0] = 0
    engine = create_engine(f"sqlite:///{tmp_path}/jms.db")
    with (
        engine.connect() as database,
        pytest.raises(TransactionRolledBackException, match="keep_free"),
        joined(session, database),
    ):
        assert received(session) == ["one"]
        send(session, "two")
    with engine.connect() as database, joined(session, database):
        assert received(session) == ["one"]
    engine.dispose()
    assert received(connection.create_session()) == []


def test_what_was_seen_is_believed_for_a_while(connection: Connection, free: list[int], clock: VirtualClock) -> None:
    session = connection.create_session()
    send(session, "one")
    free[0] = 0
    clock.advance(BELIEVED_MS - 1)
    send(session, "two")
    clock.advance(CHECK_MS)  # who looks at the files looks at this, too
    with pytest.raises(ResourceAllocationException):
        send(session, "three")


def test_who_keeps_nothing_free_does_not_look(tmp_path: Path, free: list[int]) -> None:
    free[0] = 0
    with ConnectionFactory(f"{URL}?store=sqlite:///{tmp_path}/jms.db&keep_free=0").create_connection() as connection:
        connection.start()
        session = connection.create_session()
        send(session, "one")
        assert received(session) == ["one"]
    find_provider("vm").stop_broker(ProviderUrl.parse(URL))


def test_a_transaction_that_the_disk_has_no_room_for_is_refused_before_it_fills_it(
    tmp_path: Path, free: list[int], clock: VirtualClock
) -> None:
    """Of what has left memory; SQLite would have it in its log first, and then in the database."""
    url = f"{URL}?store=sqlite:///{tmp_path}/jms.db&keep_free=1MB&memory=100kB"
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        texts = [f"{number}{'x' * 50_000}" for number in range(20)]
        send(session, *texts)
        free[0] = 2_500_000
        with pytest.raises(TransactionRolledBackException, match="no room for a transaction of 1 MB"):
            session.commit()
        send(session, *texts)
        free[0] = 3_500_000
        session.commit()
        assert received(session) == texts
        session.commit()
    find_provider("vm").stop_broker(ProviderUrl.parse(URL))
