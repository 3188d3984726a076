"""An error that a hook of the engine raises while a joined block is committed undoes both halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text

from pyjms import ConnectionFactory, Session
from pyjms.joining import joined
from pyjms_provider.broker import stop_broker
from tests.needs.declaring import needing
from tests.provider.postgresql import PostgresqlServer

PATIENCE_MS = 30_000


class Shop:
    """A session that serves orders, the table that it changes, and what others see of both."""

    def __init__(self, store: str) -> None:
        self.engine: Engine = create_engine(store)
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE stock (number INTEGER)"))
            connection.execute(text("INSERT INTO stock VALUES (1000)"))
        shared = f"{store}{'&' if '?' in store else '?'}pyjms_shared=true"
        self._factory = ConnectionFactory(f"vm://hooks?store={quote(shared, safe='')}")
        self._open()

    def _open(self) -> None:
        self._client = self._factory.create_connection()
        self._client.start()
        self.session = self._client.create_session(True, Session.SESSION_TRANSACTED)
        self._orders, self._bills = self.session.create_queue("orders"), self.session.create_queue("bills")
        self._consumer = self.session.create_consumer(self._orders)
        self._producer = self.session.create_producer(self._bills)

    def end(self) -> None:
        self._client.close()
        stop_broker("hooks")
        self.engine.dispose()

    def order(self) -> None:
        self.session.create_producer(self._orders).send(self.session.create_text_message("tea"))
        self.session.commit()

    def serve(self, connection: Connection) -> None:
        """Take an order, take it from stock, send a bill: all within a joined block."""
        with joined(self.session, connection):
            assert self._consumer.receive(PATIENCE_MS) is not None
            connection.execute(text("UPDATE stock SET number = number - 1"))
            self._producer.send(self.session.create_text_message("one tea"))

    @property
    def served(self) -> int:
        """How often something was taken from stock."""
        with self.engine.connect() as connection:
            return 1000 - int(connection.execute(text("SELECT number FROM stock")).scalar_one())

    @property
    def seen(self) -> tuple[int, int]:
        """How many orders, and how many bills, anybody can have."""
        session = self._client.create_session(False, Session.AUTO_ACKNOWLEDGE)
        found = [sum(1 for _ in session.create_browser(queue)) for queue in (self._orders, self._bills)]
        session.close()
        return found[0], found[1]


@pytest.fixture(params=["sqlite", needing("postgresql")])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    if request.param == "sqlite":
        made = Shop(f"sqlite:///{tmp_path / 'shop.db'}")
    else:
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        made = Shop(server.make_store())
    yield made
    made.end()


def raise_at(engine: Engine, part: str) -> Callable[[], None]:
    """Have a hook of the engine raise once, at a statement or at the commit; return what takes it away."""
    name = "commit" if part == "COMMIT" else "before_cursor_execute"
    armed = [True]

    def hook(*args: Any) -> None:
        if armed[0] and (part == "COMMIT" or part in args[2]):
            armed[0] = False
            raise ValueError("a hook")

    event.listen(engine, name, hook)

    def remove() -> None:
        event.remove(engine, name, hook)
        assert not armed[0], "no such statement was executed"

    return remove


@pytest.mark.parametrize(
    "part", ["FROM pyjms_meta", "INSERT INTO pyjms_message", "DELETE FROM pyjms_message", "COMMIT"]
)
def test_what_is_raised_before_the_commit_undoes_both(shop: Shop, part: str) -> None:
    shop.order()
    remove = raise_at(shop.engine, part)
    with shop.engine.connect() as connection:
        with pytest.raises(ValueError, match="a hook"):
            shop.serve(connection)
        remove()
        assert (shop.served, shop.seen) == (0, (1, 0))
        shop.serve(connection)  # the session and the connection go on, and nothing of before is left in either
    assert (shop.served, shop.seen) == (1, (0, 1))
