"""Receive, change tables and send as one step: never one without the others, whatever fails between two statements."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text

from pyjms import ConnectionFactory, IllegalStateException, JMSException, Session, TransactionRolledBackException
from pyjms.joining import joined
from pyjms_provider.broker import stop_broker

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE stock (item TEXT PRIMARY KEY, number INTEGER)"))
        connection.execute(text("INSERT INTO stock VALUES ('tea', 5)"))
    yield engine
    engine.dispose()


@pytest.fixture
def factory(tmp_path: Path) -> Iterator[ConnectionFactory]:
    url = f"vm://joined?store={quote(f'sqlite:///{tmp_path}/shop.db?pyjms_shared=true', safe='')}"
    yield ConnectionFactory(url)
    stop_broker("joined")


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


def test_all_of_it_is_true_afterwards(factory: ConnectionFactory, database: Engine) -> None:
    order(factory)
    with factory.create_connection() as client, database.connect() as connection:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with joined(session, connection):
            serve(session, connection)
            assert waiting(factory, "bills") == 0
    assert (stock(database), waiting(factory, "orders"), waiting(factory, "bills")) == (4, 0, 1)


def test_an_error_in_the_block_undoes_both(factory: ConnectionFactory, database: Engine) -> None:
    order(factory)
    with factory.create_connection() as client, database.connect() as connection:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(KeyError), joined(session, connection):
            serve(session, connection)
            raise KeyError("the application's own")
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


def test_another_database_is_refused(factory: ConnectionFactory, tmp_path: Path) -> None:
    elsewhere = create_engine(f"sqlite:///{tmp_path / 'elsewhere.db'}")
    with factory.create_connection() as client, elsewhere.connect() as connection:
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(JMSException, match="does not lead to the broker's store"), joined(session, connection):
            connection.execute(text("CREATE TABLE other (id INTEGER)"))
    elsewhere.dispose()


def test_a_broker_without_a_store_says_what_to_do(database: Engine) -> None:
    with ConnectionFactory("vm://no-store").create_connection() as client, database.connect() as connection:
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        with pytest.raises(JMSException, match="shared with an application"), joined(session, connection):
            connection.execute(text("UPDATE stock SET number = 0"))
    assert stock(database) == 5


def test_a_session_that_is_not_transacted_is_refused(factory: ConnectionFactory, database: Engine) -> None:
    with factory.create_connection() as client, database.connect() as connection:
        session = client.create_session(False, Session.AUTO_ACKNOWLEDGE)
        with pytest.raises(IllegalStateException, match=r"create_session\(True"), joined(session, connection):
            pass


# A process is killed between every two statements.

STATEMENTS = 8
CHILD = """
import os, signal, sys
from sqlalchemy import create_engine, event, text
from pyjms import ConnectionFactory, Session
from pyjms.joining import joined
from tests.pyjms.test_joining import serve

path, url, fatal = sys.argv[1], sys.argv[2], int(sys.argv[3])
engine = create_engine(f"sqlite:///{path}")
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
    count()
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fatal", range(1, STATEMENTS))
def test_a_death_between_any_two_statements_leaves_all_or_nothing(database: Engine, tmp_path: Path, fatal: int) -> None:
    path = tmp_path / "shop.db"
    url = f"vm://joined?store={quote(f'sqlite:///{path}?pyjms_shared=true', safe='')}"
    order(ConnectionFactory(url))
    stop_broker("joined")
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), url, str(fatal)],
        cwd=ROOT,
        timeout=PATIENCE_S,
        capture_output=True,
        check=False,
    )
    assert child.returncode in (0, -signal.SIGKILL), child.stderr.decode()
    factory = ConnectionFactory(url)
    found = (stock(database), waiting(factory, "orders"), waiting(factory, "bills"))
    assert found in {(5, 1, 0), (4, 0, 1)}
    if child.returncode == 0:
        assert found == (4, 0, 1)
    stop_broker("joined")
