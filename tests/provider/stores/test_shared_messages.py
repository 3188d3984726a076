"""A message in several queues is one row of the store, which goes with the last of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, text

from pyjms import Connection, ConnectionFactory, Session, TextMessage
from pyjms_provider.broker import stop_broker
from tests.provider.postgresql import PostgresqlServer

_numbers = count(1)
_SUBSCRIBERS = ("ann", "bob", "cid")
_PATIENCE_MS = 20_000


class Shop:
    """A broker with a store, and the rows there."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = f"shared-{next(_numbers)}"

    def connect(self) -> Connection:
        made = ConnectionFactory(f"vm://{self._name}?store={quote(self._url, safe='')}").create_connection()
        made.client_id = "us"
        made.start()
        return made

    def stop(self) -> None:
        stop_broker(self._name)

    def rows(self) -> int:
        """Stop the broker, and return how many messages its store has."""
        self.stop()
        engine = create_engine(self._url)
        with engine.connect() as connection:
            found = connection.execute(text("SELECT count(*) FROM pyjms_message")).scalar_one()
        engine.dispose()
        return int(found)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.requires("postgresql"))])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    if request.param == "sqlite":
        shop = Shop(f"sqlite:///{tmp_path / 'store.db'}")
    else:
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        shop = Shop(server.make_store())
    yield shop
    shop.stop()


@pytest.mark.realises("BJ-MSG-2", "BJ-MSG-3")
def test_a_message_of_several_subscriptions_is_kept_once_until_the_last_of_them_has_settled_it(shop: Shop) -> None:
    with shop.connect() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        news = session.create_topic("news")
        for name in _SUBSCRIBERS:
            session.create_durable_subscriber(news, name)
        session.create_producer(news).send(session.create_text_message("fresh"))
    for name in _SUBSCRIBERS:
        assert shop.rows() == 1, f"before {name} has settled it"
        with shop.connect() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            received = session.create_durable_subscriber(session.create_topic("news"), name).receive(_PATIENCE_MS)
            assert isinstance(received, TextMessage)
            assert received.text == "fresh"
    assert shop.rows() == 0


@pytest.mark.realises("BJ-MSG-3")
def test_a_message_goes_with_the_last_subscription_that_is_deleted(shop: Shop) -> None:
    with shop.connect() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        news = session.create_topic("news")
        for name in _SUBSCRIBERS:
            session.create_durable_subscriber(news, name).close()
        session.create_producer(news).send(session.create_text_message("fresh"))
    for name in _SUBSCRIBERS:
        assert shop.rows() == 1
        with shop.connect() as connection:
            connection.create_session(False, Session.AUTO_ACKNOWLEDGE).unsubscribe(name)
    assert shop.rows() == 0
