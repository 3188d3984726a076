"""The server's unit: whatever fails between two of its steps, work is done once and the reply comes once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError

from pyjms import (
    ConnectionFactory,
    Destination,
    JMSException,
    Message,
    MessageFormatException,
    ResourceAllocationException,
    TextMessage,
)
from pyjms.recoverable import RecoverableServer, Unit
from pyjms.recoverable.requestor import CLIENT, NUMBER
from pyjms.recoverable.server import Pauses, Work
from pyjms.recoverable.sql_logs import SqlReplies
from pyjms.runtime.session import JmsSession
from pyjms.testing import VirtualClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.serving.served_broker import ServedBroker
from tests.pyjms.runtime.helpers import within_patience


class Died(BaseException):
    """The server's process died here."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE sold (item TEXT)"))
    yield engine
    engine.dispose()


def sold(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT item FROM sold")).scalars())


def sell(request: Message, unit: Unit) -> Message:
    assert isinstance(request, TextMessage)
    if unit.connection is not None:
        unit.connection.execute(text("INSERT INTO sold VALUES (:item)"), {"item": request.text})
    return unit.session.create_text_message(f"sold: {request.text}")


def ask(factory: ConnectionFactory, *items: str, reply_to: str | None = "answers") -> None:
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        target: Destination | None = session.create_queue(reply_to) if reply_to else None
        producer = session.create_producer(session.create_queue("orders"))
        for item in items:
            message = session.create_text_message(item)
            message.jms_reply_to = target
            message.jms_correlation_id = f"order of {item}"
            producer.send(message)


def answers(factory: ConnectionFactory) -> list[tuple[str | None, str | None]]:
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        connection.start()
        consumer = session.create_consumer(session.create_queue("answers"))
        return [(each.jms_correlation_id, each.text) for each in iter(consumer.receive_no_wait, None)]  # type: ignore[attr-defined]


def serve(factory: ConnectionFactory, work: Work = sell, requests: int | None = None, **options: Any) -> int:
    return RecoverableServer(factory, "orders", work, **options).serve(requests=requests, timeout_ms=1)


@pytest.mark.realises("MOM-17")
def test_requests_are_answered_under_their_correlation_ids(factory: ConnectionFactory) -> None:
    ask(factory, "tea", "milk")
    assert serve(factory) == 2
    assert answers(factory) == [("order of tea", "sold: tea"), ("order of milk", "sold: milk")]


def test_a_request_without_a_place_for_the_reply_is_worked_on_all_the_same(
    factory: ConnectionFactory, database: Engine
) -> None:
    ask(factory, "tea", reply_to=None)
    assert serve(factory, database=database) == 1
    assert sold(database) == ["tea"]


@pytest.mark.parametrize("error", [ValueError("no"), MessageFormatException("no such field")])
def test_work_that_fails_is_rolled_back_and_tried_again(
    factory: ConnectionFactory, database: Engine, error: Exception
) -> None:
    failures = [error]

    def fail_once(request: Message, unit: Unit) -> Message:
        reply = sell(request, unit)
        if failures:
            raise failures.pop()
        return reply

    ask(factory, "tea")
    assert serve(factory, fail_once, database=database) == 1
    assert sold(database) == ["tea"]
    assert answers(factory) == [("order of tea", "sold: tea")]


@pytest.mark.realises("MOM-17")
def test_a_server_that_dies_between_its_two_commits_does_the_work_once(
    factory: ConnectionFactory, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(factory, "tea")
    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(JmsSession, "commit", dying)
        serve(factory, database=database)
    assert sold(database) == ["tea"]
    assert answers(factory) == []
    assert serve(factory, database=database) == 1
    assert sold(database) == ["tea"]
    assert answers(factory) == [("order of tea", "sold: tea")]


def dying(_: object) -> None:
    raise Died


@pytest.mark.parametrize("after", [False, True])
def test_a_shared_database_commits_all_at_once(tmp_path: Path, database: Engine, after: bool) -> None:
    url = f"vm://served?store={quote(f'sqlite:///{tmp_path}/shop.db?pyjms_shared=true', safe='')}"
    factory = ConnectionFactory(url)

    def die(request: Message, unit: Unit) -> Message:
        if after:
            sell(request, unit)
        raise Died

    try:
        ask(factory, "tea")
        with pytest.raises(Died):
            serve(factory, die, database=database, shared=True)
        assert sold(database) == []
        assert serve(factory, database=database, shared=True) == 1
        assert sold(database) == ["tea"]
        assert answers(factory) == [("order of tea", "sold: tea")]
    finally:
        stop_broker("served")


def test_a_server_is_stopped_by_another_thread(factory: ConnectionFactory) -> None:
    waits = threading.Event()
    server = RecoverableServer(factory, "orders", stopped_by(waits))
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(server.serve()))
    thread.start()
    ask(factory, "tea")
    assert waits.wait(30)
    server.stop()
    thread.join(30)
    assert counts in ([0], [1])


def test_a_server_that_is_stopped_while_it_connects_waits_for_no_request(
    factory: ConnectionFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, server = ConnectionFactory.create_connection, RecoverableServer(factory, "orders", sell)

    def connect_and_stop(*arguments: Any) -> Any:
        connection = original(*arguments)
        server.stop()
        return connection

    monkeypatch.setattr(ConnectionFactory, "create_connection", connect_and_stop)
    assert within_patience(server.serve) == 0


def stopped_by(waits: threading.Event) -> Callable[[Message, Unit], None]:
    return lambda _request, _unit: waits.set()


def test_a_server_that_loses_its_broker_connects_again(
    factory: ConnectionFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[object] = []
    commit = JmsSession.commit

    def lost_once(session: JmsSession) -> None:
        commits.append(session)
        if len(commits) == 1:
            raise JMSException("the connection was lost")
        commit(session)

    monkeypatch.setattr(JmsSession, "commit", lost_once)
    ask(factory, "tea")
    assert RecoverableServer(factory, "orders", sell).serve(requests=1) == 1
    assert len(set(map(id, commits))) == 2
    assert answers(factory) == [("order of tea", "sold: tea")]


def test_what_is_wrong_from_the_start_is_raised(factory: ConnectionFactory) -> None:
    with pytest.raises(JMSException, match="expected a value"):
        serve(factory, selector="price >")


def test_old_replies_can_be_forgotten(database: Engine) -> None:
    clock = VirtualClock()
    replies = SqlReplies(database, clock)
    with database.begin() as connection:
        replies.keep(connection, "old", "")
        clock.advance(60)
        replies.keep(connection, "new", "reply")
        assert replies.forget(connection, clock.time_ms()) == 1
        assert [replies.find(connection, key) for key in ("old", "new")] == [None, "reply"]


def test_a_server_may_be_started_before_its_broker(
    factory: ConnectionFactory, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(factory, "tea")
    original, attempts = ConnectionFactory.create_connection, [2]

    def connect(*arguments: Any) -> Any:
        attempts[0] -= 1
        if attempts[0] >= 0:
            raise ResourceAllocationException("nobody is there")
        return original(*arguments)

    monkeypatch.setattr(ConnectionFactory, "create_connection", connect)
    assert serve(factory, database=database, requests=1) == 1
    assert sold(database) == ["tea"]


def read_all(factory: ConnectionFactory, queue: str) -> list[Message]:
    """Take out what is there."""
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        connection.start()
        consumer = session.create_consumer(session.create_queue(queue))
        return list(iter(consumer.receive_no_wait, None))


def ask_and_die(factory: ConnectionFactory) -> None:
    """Ask for an answer to a temporary queue, which ends with the connection."""
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        message = session.create_text_message("cake")
        message.jms_reply_to = session.create_temporary_queue()
        session.create_producer(session.create_queue("orders")).send(message)


def ask_with_a_number_that_is_none(factory: ConnectionFactory) -> None:
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        message = session.create_text_message("cake")
        message.set_string_property(CLIENT, "desk")
        message.set_boolean_property(NUMBER, True)
        session.create_producer(session.create_queue("orders")).send(message)


@pytest.fixture(params=["vm", "stomp", "amqp"])
def site(request: pytest.FixtureRequest, factory: ConnectionFactory) -> Iterator[ConnectionFactory]:
    """Brokers of which one says at the send, and one at the commit, that a reply is refused."""
    if request.param == "vm":
        yield factory
        return
    with ServedBroker.open() as served:
        served.broker.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        served.broker.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = served.broker.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        node.create_child("virtual_host", {"name": "broker"})
        port = {"name": "port", "type": request.param, "host": "127.0.0.1", "transports": ["tcp"], "port": 0}
        served.broker.create_child(
            "port", port | {"authentication_providers": ["anonymous"], "access_control": "access"}
        )
        yield ConnectionFactory(f"{request.param}://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}")


@pytest.mark.parametrize("poison", [ask_and_die, ask_with_a_number_that_is_none])
@pytest.mark.parametrize("has_database", [False, True])
def test_a_request_that_cannot_be_served_is_a_dead_letter_in_the_end(
    site: ConnectionFactory, database: Engine, poison: Callable[[ConnectionFactory], None], has_database: bool
) -> None:
    poison(site)
    ask(site, "tea")
    server = RecoverableServer(site, "orders", sell, database=database if has_database else None)
    assert server.serve(requests=1, timeout_ms=30_000) == 1, "those behind it get their turn"
    assert answers(site) == [("order of tea", "sold: tea")]
    (dead,) = read_all(site, "DLQ")
    assert isinstance(dead, TextMessage)
    assert dead.text == "cake"
    if has_database:
        assert sold(database).count("cake") == (poison is ask_and_die), "its work is done once, as ever"


@pytest.mark.parametrize("comes_room", [True, False])
def test_a_reply_that_finds_no_room_is_tried_again_after_a_pause(
    database: Engine, monkeypatch: pytest.MonkeyPatch, comes_room: bool
) -> None:
    factory = ConnectionFactory("vm://narrow?max_messages=2")  # so that the second answer finds no room
    pauses: list[int] = []

    def pause(_: Pauses) -> None:
        pauses.append(1)
        if comes_room:
            assert len(answers(factory)) == 2

    monkeypatch.setattr(Pauses, "wait", pause)
    try:
        for item in ("tea", "milk", "cake"):
            ask(factory, item)
            serve(factory, database=database)
        assert sold(database) == ["tea", "milk", "cake"]
        (found,) = answers(factory)[-1:]
        if comes_room:
            assert (len(pauses), found) == (1, ("order of cake", "sold: cake"))
        else:
            assert len(pauses) == 7, "and then the next one has its turn"
            (dead,) = read_all(factory, "DLQ")
            assert dead.jms_correlation_id == "order of cake"
    finally:
        stop_broker("narrow")


class AwayDatabase:
    """An engine whose server is away for so many attempts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.attempts_to_fail = 0

    def connect(self) -> Any:
        if self.attempts_to_fail:
            self.attempts_to_fail -= 1
            raise OperationalError("connect", None, ConnectionRefusedError("nobody there"))
        return self._engine.connect()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def test_a_database_that_is_away_is_waited_for_and_costs_no_request(
    factory: ConnectionFactory, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[int] = []
    monkeypatch.setattr(Pauses, "wait", lambda _: pauses.append(1))
    away = AwayDatabase(database)
    server = RecoverableServer(factory, "orders", sell, database=away)
    away.attempts_to_fail = 20
    ask(factory, "tea", "milk")
    assert server.serve(timeout_ms=1) == 2
    assert len(pauses) == 20
    assert sold(database) == ["tea", "milk"]
    assert len(answers(factory)) == 2
    assert read_all(factory, "DLQ") == []


def test_who_waits_for_a_database_can_be_stopped(factory: ConnectionFactory, database: Engine) -> None:
    away = AwayDatabase(database)
    server = RecoverableServer(factory, "orders", sell, database=away)
    away.attempts_to_fail = 1_000_000
    ask(factory, "tea")
    thread = threading.Thread(target=server.serve)
    thread.start()
    while away.attempts_to_fail > 1_000_000 - 3:
        thread.join(0.01)
    server.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert away.attempts_to_fail > 999_900, "it did not rest"


def test_a_refused_reply_in_a_shared_transaction_counts_too(tmp_path: Path, database: Engine) -> None:
    url = f"vm://served?store={quote(f'sqlite:///{tmp_path}/shop.db?pyjms_shared=true', safe='')}"
    factory = ConnectionFactory(url)
    try:
        ask_and_die(factory)
        ask(factory, "tea")
        assert serve(factory, database=database, shared=True, requests=1) == 1
        assert sold(database) == ["tea"]
        assert len(read_all(factory, "DLQ")) == 1
    finally:
        stop_broker("served")
