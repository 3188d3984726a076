"""Receive, change tables and send as one step: never one without the others, whatever fails between two statements."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, insert, select, text
from sqlalchemy.orm import Session as OrmSession

from pyjms import (
    ConnectionFactory,
    IllegalArgumentException,
    IllegalStateException,
    JMSException,
    Session,
    TransactionRolledBackException,
    joining,
)
from pyjms.joining import joined
from pyjms_provider.broker import stop_broker
from pyjms_provider.stores.sql import schema as t
from tests.needs.declaring import needing
from tests.provider.postgresql import PostgresqlServer

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


@pytest.fixture(params=["sqlite", needing("postgresql")])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """What returns the URL of a new database."""
    if request.param == "sqlite":
        return lambda name: f"sqlite:///{tmp_path / name}.db"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return lambda _: server.make_store()


@pytest.fixture
def store(make_store: Callable[[str], str]) -> str:
    return make_store("shop")


@pytest.fixture
def database(store: str) -> Iterator[Engine]:
    engine = create_engine(store)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE stock (item TEXT PRIMARY KEY, number INTEGER)"))
        connection.execute(text("INSERT INTO stock VALUES ('tea', 5)"))
    yield engine
    engine.dispose()


@pytest.fixture
def factory(store: str) -> Iterator[ConnectionFactory]:
    yield ConnectionFactory(broker_url(store))
    for name in ("joined", "elsewhere"):
        stop_broker(name)


def broker_url(store: str, broker: str = "joined") -> str:
    shared = f"{store}{'&' if '?' in store else '?'}pyjms_shared=true"
    return f"vm://{broker}?stand_by=wait&store={quote(shared, safe='')}"


def stock(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT number FROM stock WHERE item = 'tea'")).scalar_one())


def order(factory: ConnectionFactory) -> None:
    with factory.create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_producer(session.create_queue("orders")).send(session.create_text_message("tea"))


def waiting(factory: ConnectionFactory, name: str) -> int:
    with factory.create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        return sum(1 for _ in session.create_browser(session.create_queue(name)))


def serve(session: Session, connection: Connection) -> None:
    """Take an order, take it from stock, send a bill."""
    consumer = session.create_consumer(session.create_queue("orders"))
    message = consumer.receive(1000)
    assert message is not None
    connection.execute(text("UPDATE stock SET number = number - 1 WHERE item = 'tea'"))
    session.create_producer(session.create_queue("bills")).send(session.create_text_message("one tea"))
    consumer.close()


@contextmanager
def served(factory: ConnectionFactory, database: Engine) -> Iterator[tuple[Session, Connection]]:
    """Have an order served in a transaction that ends with the block, of this session and this connection."""
    order(factory)
    with factory.create_connection() as client, database.connect() as connection:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with joined(session, connection):
            serve(session, connection)
            yield session, connection


@pytest.mark.realises("MOM-9")
def test_all_of_it_is_true_afterwards(factory: ConnectionFactory, database: Engine) -> None:
    with served(factory, database):
        assert waiting(factory, "bills") == 0
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (4, 0, 1)


@pytest.mark.realises("MOM-9")
def test_an_error_in_the_block_undoes_both(factory: ConnectionFactory, database: Engine) -> None:
    order(factory)
    with factory.create_connection() as client, database.connect() as connection:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(KeyError), joined(session, connection):
            serve(session, connection)
            raise KeyError("the application's own")
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (5, 1, 0)


def commit(session: Session, _: Connection) -> None:
    session.commit()


def commit_elsewhere(session: Session, _: Connection) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(session.commit).result(PATIENCE_S)


def roll_back(session: Session, _: Connection) -> None:
    session.rollback()


def join_again(session: Session, connection: Connection) -> None:
    with joined(session, connection):
        pytest.fail("its end would commit what the outer block has done so far")


ends_of_the_session = pytest.mark.parametrize("end", [commit, commit_elsewhere, roll_back, join_again])


@ends_of_the_session
def test_nothing_but_the_block_ends_the_transaction_of_the_session(
    factory: ConnectionFactory, database: Engine, end: Callable[[Session, Connection], None]
) -> None:
    with served(factory, database) as (session, connection):
        with pytest.raises(IllegalStateException, match="within joined"):
            end(session, connection)
        assert (waiting(factory, "orders"), waiting(factory, "bills")) == (0, 0)
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (4, 0, 1)


@ends_of_the_session
def test_who_does_not_catch_the_refusal_of_another_end_has_done_nothing(
    factory: ConnectionFactory, database: Engine, end: Callable[[Session, Connection], None]
) -> None:
    with (
        pytest.raises(IllegalStateException, match="within joined"),
        served(factory, database) as (session, connection),
    ):
        end(session, connection)
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (5, 1, 0)


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize(("end", "left"), [(Connection.commit, 4), (Connection.rollback, 5)])
def test_a_block_that_ends_the_transaction_of_the_tables_says_so_and_the_messages_come_again(
    factory: ConnectionFactory, database: Engine, end: Callable[[Connection], None], left: int, *, goes_on: bool
) -> None:
    """What is done after it, too, is rolled back: else it would be committed with messages whose other half may be undone."""
    order(factory)
    with factory.create_connection() as client, database.connect() as connection:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with (
            pytest.raises(IllegalStateException, match="has ended the transaction"),
            joined(session, connection),
        ):
            serve(session, connection)
            end(connection)
            if goes_on:
                connection.execute(text("UPDATE stock SET number = 100 WHERE item = 'tea'"))
        assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (left, 1, 0)
        with joined(session, connection):  # both go on
            serve(session, connection)
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (left - 1, 0, 1)


def test_another_session_that_is_joined_to_the_same_transaction_ends_it(
    factory: ConnectionFactory, database: Engine
) -> None:
    with (
        pytest.raises(IllegalStateException, match="has ended the transaction"),
        served(factory, database) as (_, connection),
        factory.create_connection() as client,
        joined(client.create_session(True, Session.SESSION_TRANSACTED), connection),
    ):
        pass
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (4, 1, 0)


class Away:
    """A connection whose database goes away before the rollback."""

    def __init__(self, inner: Connection) -> None:
        self._inner = inner

    @property
    def connection(self) -> Any:
        return self._inner.connection

    def begin(self) -> Any:
        return self._inner.begin()

    def get_transaction(self) -> Any:
        return self._inner.get_transaction()

    def in_transaction(self) -> bool:
        return self._inner.in_transaction()

    def rollback(self) -> None:
        self._inner.rollback()
        raise OSError("the server has closed the connection")


def test_messages_are_rolled_back_also_where_the_tables_cannot_be(factory: ConnectionFactory, database: Engine) -> None:
    """Else the session's next transaction would commit them, without the tables."""
    order(factory)
    with factory.create_connection() as client, database.connect() as connection:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(OSError, match="has closed the connection"), joined(session, Away(connection)):
            serve(session, connection)
            raise KeyError("the application's own")
        session.commit()
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (5, 1, 0)


def test_a_commit_that_the_database_refuses_undoes_both(factory: ConnectionFactory, database: Engine) -> None:
    order(factory)
    with factory.create_connection() as client, database.connect() as connection:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)

        @event.listens_for(connection, "commit")
        def refuse(_: object) -> None:
            connection.exec_driver_sql("this is no SQL")

        with pytest.raises(TransactionRolledBackException), joined(session, connection):
            serve(session, connection)
        event.remove(connection, "commit", refuse)
        with joined(session, connection):  # the session goes on
            serve(session, connection)
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (4, 0, 1)


def test_what_was_sent_to_a_queue_that_nobody_had_named_is_there_after_a_restart(
    factory: ConnectionFactory, database: Engine
) -> None:
    """Even on SQLite, where nobody else can write while the application's transaction has the lock."""
    with factory.create_connection() as client, database.connect() as connection:
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with joined(session, connection):
            connection.execute(text("UPDATE stock SET number = 8 WHERE item = 'tea'"))
            for name in ("new", "newer"):
                queue = session.create_queue(name)
                session.create_consumer(queue).close()
                session.create_producer(queue).send(session.create_text_message(name))
    stop_broker("joined")
    assert (stock(database), waiting(factory, "new"), waiting(factory, "newer")) == (8, 1, 1)


def test_a_transaction_of_the_application_that_is_open_already_is_joined(
    factory: ConnectionFactory, database: Engine
) -> None:
    order(factory)
    with factory.create_connection() as client, database.connect() as connection:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        connection.begin()
        with joined(session, connection):
            serve(session, connection)
            connection.execute(text("UPDATE stock SET number = 100 WHERE item = 'tea'"))
    assert stock(database) == 100


def test_a_block_without_messages_commits_the_tables(factory: ConnectionFactory, database: Engine) -> None:
    with factory.create_connection() as client, database.connect() as connection:
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with joined(session, connection):
            connection.execute(text("UPDATE stock SET number = 7 WHERE item = 'tea'"))
    assert stock(database) == 7


def test_another_database_is_refused(factory: ConnectionFactory, make_store: Callable[[str], str]) -> None:
    elsewhere = create_engine(make_store("elsewhere"))
    with factory.create_connection() as client, elsewhere.connect() as connection:
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(JMSException, match="does not lead to the broker's store"), joined(session, connection):
            connection.execute(text("CREATE TABLE other (id INTEGER)"))
    elsewhere.dispose()


def test_another_store_is_refused_that_was_opened_equally_often(
    factory: ConnectionFactory, make_store: Callable[[str], str]
) -> None:
    other = make_store("other")
    elsewhere = create_engine(other)
    factory_there = ConnectionFactory(broker_url(other, "elsewhere"))
    with (
        factory_there.create_connection(),
        factory.create_connection() as client,
        elsewhere.connect() as connection,
    ):
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(JMSException, match="leads to another store"), joined(session, connection):
            session.create_producer(session.create_queue("orders")).send(session.create_text_message("tea"))
    with elsewhere.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM pyjms_message")).scalar_one() == 0
    elsewhere.dispose()


def test_a_copy_of_the_store_is_refused(
    factory: ConnectionFactory, database: Engine, make_store: Callable[[str], str]
) -> None:
    copy = create_engine(make_store("copy"))
    with factory.create_connection() as client, copy.connect() as connection:
        with database.connect() as original:
            row = original.execute(select(t.META)).mappings().one()
        t.SCHEMA.create_all(connection)
        connection.execute(insert(t.META).values(**row))
        connection.commit()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(JMSException, match="leads to another store"), joined(session, connection):
            session.create_producer(session.create_queue("orders")).send(session.create_text_message("tea"))
        assert connection.execute(text("SELECT count(*) FROM pyjms_message")).scalar_one() == 0
    copy.dispose()


@pytest.mark.parametrize("of", ["connection", "engine"])
def test_a_connection_that_commits_each_statement_is_refused_before_the_block(
    factory: ConnectionFactory, database: Engine, store: str, of: str
) -> None:
    engine = create_engine(store, **({"isolation_level": "AUTOCOMMIT"} if of == "engine" else {}))
    with factory.create_connection() as client, engine.connect() as connection:
        if of == "connection":
            connection.execution_options(isolation_level="AUTOCOMMIT")
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(IllegalStateException, match="AUTOCOMMIT"), joined(session, connection):
            connection.execute(text("UPDATE stock SET number = 0"))
    engine.dispose()
    assert stock(database) == 5


def test_a_connection_whose_transactions_are_begun_by_hand_is_joined(
    factory: ConnectionFactory, database: Engine
) -> None:
    """As SQLAlchemy's manual advises for SQLite: the driver begins nothing by itself."""
    if database.dialect.name == "sqlite":
        event.listen(database, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
        event.listen(database, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        database.dispose()
    with served(factory, database):
        pass
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (4, 0, 1)


def test_a_broker_without_a_store_says_what_to_do(database: Engine) -> None:
    with ConnectionFactory("vm://no-store").create_connection() as client, database.connect() as connection:
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(JMSException, match="shared with an application"), joined(session, connection):
            pytest.fail("the block would be for nothing")
        assert not connection.in_transaction()


def test_a_session_that_is_not_transacted_is_refused(factory: ConnectionFactory, database: Engine) -> None:
    with factory.create_connection() as client, database.connect() as connection:
        session = client.create_session(False, Session.AUTO_ACKNOWLEDGE)
        with pytest.raises(IllegalStateException, match=r"create_session\(True"), joined(session, connection):
            pass


@pytest.mark.parametrize("given", ["engine", "orm session", "driver's"])
def test_what_is_no_connection_is_refused_before_the_block(
    factory: ConnectionFactory, database: Engine, given: str
) -> None:
    with (
        factory.create_connection() as client,
        OrmSession(database) as orm,
        database.connect() as connection,
    ):
        driver: Any = connection.connection.driver_connection
        wrong: Any = {"engine": database, "orm session": orm, "driver's": driver}[given]
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with (
            pytest.raises(
                IllegalArgumentException, match=r"pass session\.connection\(\), of an engine engine\.connect\(\)"
            ),
            joined(session, wrong),
        ):
            pytest.fail("the block would be for nothing")
        assert not orm.in_transaction()
        session.commit()


def test_the_connection_of_an_orm_session_is_joined(factory: ConnectionFactory, database: Engine) -> None:
    order(factory)
    with factory.create_connection() as client, OrmSession(database) as orm:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with (
            pytest.raises(IllegalStateException, match="has ended the transaction"),
            joined(session, orm.connection()),
        ):
            serve(session, orm.connection())
            orm.rollback()
        with joined(session, orm.connection()):
            serve(session, orm.connection())
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (4, 0, 1)


# A process is killed between every two statements.

STATEMENTS = 10  # on SQLite; PostgreSQL needs one less
CHILD = """
import os, signal, sys
from sqlalchemy import create_engine, event, text
from pyjms import ConnectionFactory, Session
from pyjms.joining import joined
from tests.pyjms.test_joining import serve

store, url, fatal = sys.argv[1], sys.argv[2], int(sys.argv[3])
engine = create_engine(store)
passed = 0

def count(*_):
    global passed
    passed += 1
    if passed == fatal:
        os.kill(os.getpid(), signal.SIGKILL)

event.listen(engine, "before_cursor_execute", count)
event.listen(engine, "commit", count)
with ConnectionFactory(url).create_connection() as client, engine.connect() as connection:
    client.start()
    session = client.create_session(True, Session.SESSION_TRANSACTED)
    with joined(session, connection):
        serve(session, connection)
    while True:
        count()
"""


@pytest.mark.realises("MOM-9")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fatal", range(1, STATEMENTS + 1))
def test_a_death_between_any_two_statements_leaves_all_or_nothing(database: Engine, store: str, fatal: int) -> None:
    url = broker_url(store)
    order(ConnectionFactory(url))
    stop_broker("joined")
    child = subprocess.run(
        [sys.executable, "-c", CHILD, store, url, str(fatal)],
        cwd=ROOT,
        timeout=PATIENCE_S,
        capture_output=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    factory = ConnectionFactory(url)
    found = (stock(database), waiting(factory, "orders"), waiting(factory, "bills"))
    assert found in {(5, 1, 0), (4, 0, 1)}
    if fatal == STATEMENTS:  # after the block
        assert found == (4, 0, 1)
    stop_broker("joined")


def test_an_interrupt_just_before_the_commit_rolls_both_back(factory: ConnectionFactory, database: Engine) -> None:
    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != joining.__file__ or frame.f_code.co_name != "joined":
            return interrupt
        lines, first = inspect.getsourcelines(frame.f_code)
        if event == "line" and "session.commit_with" in lines[frame.f_lineno - first]:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    order(factory)
    order(factory)
    with factory.create_connection() as client:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        traced = sys.gettrace()
        try:
            with pytest.raises(KeyboardInterrupt), database.connect() as connection:
                sys.settrace(interrupt)
                with joined(session, connection):
                    serve(session, connection)
        finally:
            sys.settrace(traced)
        assert (stock(database), waiting(factory, "bills")) == (5, 0)
        with database.connect() as connection, joined(session, connection):
            serve(session, connection)
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (4, 1, 1)
