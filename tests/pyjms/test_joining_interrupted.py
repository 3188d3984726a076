"""What is raised while a joined block is committed, by Ctrl-C or a hook of the engine, undoes both halves, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text

from pyjms import ConnectionFactory, Session
from pyjms.joining import joined
from pyjms_provider.broker import stop_broker
from tests.needs.declaring import needing
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.postgresql import PostgresqlServer

PATIENCE_MS = 30_000
FILES = (
    "pyjms/joining.py",
    "pyjms/runtime/acknowledgements.py",
    "pyjms/runtime/settling.py",
    "clients/vm_transactions.py",
    "core/journal/storage_manager.py",
    "core/transaction/unit_of_work.py",
    "sql/joining.py",
)


class Shop:
    """A session that serves orders, the table that it changes, and what others see of both."""

    def __init__(self, store: str) -> None:
        self.engine: Engine = create_engine(store)
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE stock (number INTEGER)"))
            connection.execute(text("INSERT INTO stock VALUES (1000)"))
        shared = f"{store}{'&' if '?' in store else '?'}pyjms_shared=true"
        self._factory = ConnectionFactory(f"vm://interrupted?store={quote(shared, safe='')}")
        self._open()

    def _open(self) -> None:
        self._client = self._factory.create_connection()
        self._client.start()
        self.session = self._client.create_session(True, Session.SESSION_TRANSACTED)
        self._orders, self._bills = self.session.create_queue("orders"), self.session.create_queue("bills")
        self._consumer = self.session.create_consumer(self._orders)
        self._producer = self.session.create_producer(self._bills)

    def restart(self) -> None:
        self.end()
        self._open()

    def end(self) -> None:
        self._client.close()
        stop_broker("interrupted")
        self.engine.dispose()

    def order(self) -> None:
        self.session.create_producer(self._orders).send(self.session.create_text_message("tea"))
        self.session.commit()

    def serve(
        self, connection: Connection, interruption: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Take an order, take it from stock, send a bill: all within a joined block, whose end may be interrupted."""
        with ExitStack() as block:
            block.enter_context(joined(self.session, connection))
            assert self._consumer.receive(PATIENCE_MS) is not None
            connection.execute(text("UPDATE stock SET number = number - 1"))
            self._producer.send(self.session.create_text_message("one tea"))
            with interruption():
                block.pop_all().close()

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


def raise_at(engine: Engine, part: str, error: type[BaseException]) -> Callable[[], None]:
    """Have a hook of the engine raise once, at a statement or at the commit; return what takes it away."""
    name = "commit" if part == "COMMIT" else "before_cursor_execute"
    armed = [True]

    def hook(*args: Any) -> None:
        if armed[0] and (part == "COMMIT" or part in args[2]):
            armed[0] = False
            raise error

    event.listen(engine, name, hook)

    def remove() -> None:
        event.remove(engine, name, hook)
        assert not armed[0], "no such statement was executed"

    return remove


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize(
    "part", ["FROM pyjms_meta", "INSERT INTO pyjms_message", "DELETE FROM pyjms_message", "COMMIT"]
)
def test_what_is_raised_before_the_commit_undoes_both(shop: Shop, part: str, error: type[BaseException]) -> None:
    shop.order()
    remove = raise_at(shop.engine, part, error)
    with shop.engine.connect() as connection:
        with pytest.raises(error):
            shop.serve(connection)
        remove()
        assert (shop.served, shop.seen) == (0, (1, 0))
        shop.serve(connection)  # the session and the connection go on, and nothing of before is left in either
    assert (shop.served, shop.seen) == (1, (0, 1))


def test_who_is_interrupted_at_any_place_has_both_or_neither(tmp_path: Path) -> None:
    """Also in the next block, which must not commit what is left of the interrupted one."""
    shop = Shop(f"sqlite:///{tmp_path / 'shop.db'}")
    attempts = 0

    def attempt(interruption: Interruption) -> None:
        nonlocal attempts
        attempts += 1
        shop.order()
        before, (_, bills) = shop.served, shop.seen
        with shop.engine.connect() as connection:
            with suppress(KeyboardInterrupt):
                shop.serve(connection, interruption)
            if shop.served == before:
                assert shop.seen == (1, bills), interruption.where
                shop.serve(connection)
        assert shop.served == attempts, interruption.where

    assert each_interruption(attempt, *FILES) > 50
    shop.restart()
    assert shop.seen == (0, attempts)  # also what was in doubt, as it was committed
    shop.end()


def test_who_is_interrupted_in_a_block_at_any_place_may_end_the_next_transaction(tmp_path: Path) -> None:
    """Also as it begins: else the session would refuse each commit and each rollback as one within a block that is over."""
    shop = Shop(f"sqlite:///{tmp_path / 'shop.db'}")
    served = 0

    def attempt(interruption: Interruption) -> None:
        nonlocal served
        with shop.engine.connect() as connection:
            with suppress(KeyboardInterrupt), interruption(), joined(shop.session, connection):
                pass
            shop.session.rollback()
            shop.order()
            shop.serve(connection)
        served += 1
        assert (shop.served, shop.seen) == (served, (0, served)), interruption.where

    assert each_interruption(attempt, "pyjms/joining.py", "runtime/settling.py", "contextlib.py") > 30
    shop.end()
