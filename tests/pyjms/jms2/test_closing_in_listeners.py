"""What a message listener may close or stop, and what it may not (JMS 2.0 §6.1.8, §6.2.15)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from pyjms import Connection, IllegalStateException, Message, MessageConsumer, Session
from tests.pyjms.jms2.conftest import Connect
from tests.pyjms.runtime.helpers import PATIENCE_S, Call, send_texts, take_texts, text_of
from tests.pyjms.runtime.server_pool import Pool

OWN: dict[str, Callable[[Connection, Session], object]] = {
    "session.close": lambda connection, session: session.close(),
    "connection.close": lambda connection, session: connection.close(),
    "connection.stop": lambda connection, session: connection.stop(),
}
EACH_CALL = pytest.mark.parametrize("call", OWN.values(), ids=OWN)


class Caller:
    """A listener that makes a call for the first message, and keeps what it raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.texts: list[str | None] = []
        self.errors: list[Exception] = []
        self.second = Event()
        self.called = Event()

    def on_message(self, message: Message) -> None:
        self.texts.append(text_of(message))
        if len(self.texts) > 1:
            self.second.set()
            return
        try:
            self._call()
        except Exception as error:
            self.errors.append(error)
        self.called.set()

    def await_refusal(self) -> None:
        """Return when the call was refused with exactly the exception of JMS, and the next message was delivered."""
        assert self.second.wait(PATIENCE_S)
        assert [type(each) for each in self.errors] == [IllegalStateException]
        assert self.texts[:2] == ["first", "second"]


@EACH_CALL
@pytest.mark.parametrize("mode", [1, 2, 3, 0])
def test_it_may_not_close_what_it_belongs_to(
    connect: Connect, name: str, call: Callable[[Connection, Session], object], mode: int
) -> None:
    connection = connect()
    session = connection.create_session(mode)
    queue = session.create_queue(name)
    listener = Caller(lambda: call(connection, session))
    session.create_consumer(queue).message_listener = listener.on_message
    send_texts(connection.create_session(), queue, "first", "second")
    listener.await_refusal()


@EACH_CALL
def test_nor_may_the_listener_of_a_session_of_an_application_server(
    connect: Connect, name: str, call: Callable[[Connection, Session], object]
) -> None:
    connection = connect()
    callers: list[Caller] = []

    def make(session: Session) -> Callable[[Message], object]:
        callers.append(Caller(lambda: call(connection, session)))
        return callers[0].on_message

    pool = Pool(connection, make)
    session = connection.create_session()
    topic = session.create_topic(name)
    connection.create_shared_connection_consumer(topic, name, None, pool, 1)
    send_texts(session, topic, "first", "second")
    callers[0].await_refusal()
    pool.join()


def test_it_may_close_its_own_consumer(connect: Connect, name: str) -> None:
    connection = connect()
    session = connection.create_session()
    queue = session.create_queue(name)
    consumer = session.create_consumer(queue)
    listener = Caller(consumer.close)
    consumer.message_listener = listener.on_message
    send_texts(connection.create_session(), queue, "first", "second")
    assert listener.called.wait(PATIENCE_S)
    assert listener.errors == []
    session.close()
    other = connect().create_session()
    assert text_of(other.create_consumer(queue).receive(10_000)) == "second"
    assert listener.texts == ["first"]


def test_it_may_close_and_stop_what_belongs_to_others(connect: Connect, name: str) -> None:
    connection, other, third = connect(), connect(), connect()
    beside = connection.create_session()
    session = connection.create_session()
    queue = session.create_queue(name)
    consumer: MessageConsumer = beside.create_consumer(queue, "FALSE")

    def end_others() -> None:
        consumer.close()
        beside.close()
        third.stop()
        other.close()

    listener = Caller(end_others)
    session.create_consumer(queue).message_listener = listener.on_message
    send_texts(connection.create_session(), queue, "first", "second")
    assert listener.second.wait(PATIENCE_S)
    assert listener.errors == []
    closed: Any = (beside, other)
    for each in closed:
        with pytest.raises(IllegalStateException):
            _ = each.transacted if each is beside else each.client_id


@pytest.mark.parametrize("mode", [1, 2, 3, 0])
def test_it_sends_while_its_session_is_being_closed(connect: Connect, name: str, mode: int) -> None:
    connection = connect()
    session = connection.create_session(mode)
    queue, replies = session.create_queue(name), session.create_queue(f"{name}-replies")
    producer = session.create_producer(replies)
    producer.send(session.create_text_message("before"))
    entered, go_on, raised = Event(), Event(), list[Exception]()

    def on_message(_: Message) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        try:
            producer.send(session.create_text_message("reply"))
            if mode == 0:
                session.commit()
        except Exception as error:
            raised.append(error)

    session.create_consumer(queue).message_listener = on_message
    send_texts(connection.create_session(), queue, "order")
    assert entered.wait(PATIENCE_S)
    closing = Call(session.close)
    assert closing.is_blocked()
    go_on.set()
    closing.result()
    assert raised == []
    other = connect().create_session()
    assert take_texts(other.create_consumer(replies), 2) == ["before", "reply"]
