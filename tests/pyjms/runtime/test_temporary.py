"""Temporary destinations: owner, uniqueness, deletion (JMS 1.1 §4.4.3, §5.4, §6.6)."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pyjms import (
    InvalidDestinationException,
    JMSException,
    Session,
    TemporaryQueue,
    TemporaryTopic,
)
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi.errors import ResourceError
from pyjms.testing import Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import Call, Recorder, drain, send_texts, take, take_texts, text_of
from tests.pyjms.runtime.wrapping import Wrapped, raising

KINDS = ["queue", "topic"]


def make(session: Session, kind: str) -> TemporaryQueue | TemporaryTopic:
    """Make a temporary destination of one kind."""
    return session.create_temporary_queue() if kind == "queue" else session.create_temporary_topic()


def name_of(destination: TemporaryQueue | TemporaryTopic) -> str:
    """Return its name."""
    return destination.queue_name if isinstance(destination, TemporaryQueue) else destination.topic_name


def as_others_see_it(session: Session, destination: TemporaryQueue | TemporaryTopic, other: Session) -> Any:
    """Return the destination as `other` gets it: as the JMSReplyTo of a message."""
    message = session.create_message()
    message.jms_reply_to = destination
    queue = session.create_queue("introductions")
    with session.create_producer(queue) as producer, other.create_consumer(queue) as consumer:
        producer.send(message)
        return take(consumer).jms_reply_to


@pytest.mark.realises("BOIL-TEMP-1")
@pytest.mark.parametrize("kind", KINDS)
class TestOwner:
    def test_each_is_unique(self, connect: Connect, kind: str) -> None:
        sessions = [connect().create_session() for _ in range(3)]
        made = [make(session, kind) for session in sessions for _ in range(10)]
        assert len({name_of(each) for each in made}) == 30
        assert len({str(each) for each in made}) == 30
        assert len(set(made)) == 30

    def test_all_sessions_of_the_connection_may_consume(self, connection: JmsConnection, kind: str) -> None:
        first, second = connection.create_session(), connection.create_session()
        temporary = make(first, kind)
        consumer = second.create_consumer(temporary)
        send_texts(first, temporary, "espresso")
        assert take_texts(consumer, 1) == ["espresso"]

    def test_no_other_connection_may_consume(self, connect: Connect, kind: str) -> None:
        mine, other = connect().create_session(), connect().create_session()
        temporary = make(mine, kind)
        with pytest.raises(InvalidDestinationException):
            other.create_consumer(temporary)
        seen = as_others_see_it(mine, temporary, other)
        assert seen == temporary
        with pytest.raises(InvalidDestinationException):
            other.create_consumer(seen)

    def test_everybody_may_send(self, connect: Connect, kind: str) -> None:
        mine, other = connect().create_session(), connect().create_session()
        temporary = make(mine, kind)
        consumer = mine.create_consumer(temporary)
        seen = as_others_see_it(mine, temporary, other)
        send_texts(other, seen, "espresso")
        message = take(consumer)
        assert text_of(message) == "espresso"
        assert message.jms_destination == temporary

    def test_no_other_connection_may_delete(self, connect: Connect, kind: str) -> None:
        mine, other = connect().create_session(), connect().create_session()
        temporary = make(mine, kind)
        seen = as_others_see_it(mine, temporary, other)
        with pytest.raises(JMSException):
            seen.delete()
        consumer = mine.create_consumer(temporary)
        send_texts(mine, temporary, "espresso")
        assert take_texts(consumer, 1) == ["espresso"]

    def test_a_name_alone_does_not_lead_to_it(self, connect: Connect, kind: str) -> None:
        """An ordinary destination of the same name is another one."""
        mine, other = connect().create_session(), connect().create_session()
        temporary = make(mine, kind)
        name = name_of(temporary)
        namesake = other.create_queue(name) if kind == "queue" else other.create_topic(name)
        assert namesake != temporary
        consumer = mine.create_consumer(temporary)
        with contextlib.suppress(JMSException):  # to refuse such a name is as good
            send_texts(other, namesake, "espresso")
        assert drain(consumer) == []


@pytest.mark.realises("BOIL-TEMP-2")
@pytest.mark.parametrize("kind", KINDS)
class TestCopies:
    @pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
    def test_it_cannot_be_copied(self, session: Session, kind: str, way: Callable[[object], object]) -> None:
        temporary = make(session, kind)
        with pytest.raises((TypeError, JMSException)):
            way(temporary)


@pytest.mark.realises("BOIL-TEMP-2")
@pytest.mark.parametrize("kind", KINDS)
class TestDeleting:
    def test_what_is_deleted_is_gone(self, session: Session, kind: str) -> None:
        temporary = make(session, kind)
        temporary.delete()
        for use in (
            lambda: send_texts(session, temporary, "espresso"),
            lambda: session.create_consumer(temporary),
            temporary.delete,
        ):
            with pytest.raises(InvalidDestinationException):
                use()

    def test_while_it_is_consumed_it_cannot_be(self, connection: JmsConnection, kind: str) -> None:
        first, second = connection.create_session(), connection.create_session()
        temporary = make(first, kind)
        consumer = second.create_consumer(temporary)
        with pytest.raises(JMSException):
            temporary.delete()
        send_texts(first, temporary, "espresso")
        assert take_texts(consumer, 1) == ["espresso"]
        consumer.close()
        temporary.delete()
        with pytest.raises(InvalidDestinationException):
            send_texts(first, temporary, "late")

    def test_the_close_of_a_consumers_session_frees_it(self, connection: JmsConnection, kind: str) -> None:
        first, second = connection.create_session(), connection.create_session()
        temporary = make(first, kind)
        second.create_consumer(temporary).message_listener = Recorder()
        second.close()
        temporary.delete()
        with pytest.raises(InvalidDestinationException):
            send_texts(first, temporary, "late")

    def test_it_outlives_the_session_that_made_it(self, connection: JmsConnection, kind: str) -> None:
        first, second = connection.create_session(), connection.create_session()
        temporary = make(first, kind)
        first.close()
        consumer = second.create_consumer(temporary)
        send_texts(second, temporary, "espresso")
        assert take_texts(consumer, 1) == ["espresso"]

    def test_the_close_of_its_connection_deletes_it(self, connect: Connect, kind: str) -> None:
        owner, other = connect(), connect().create_session()
        mine = owner.create_session()
        temporary = make(mine, kind)
        seen = as_others_see_it(mine, temporary, other)
        producer = other.create_producer(seen)
        producer.send(other.create_text_message("in time"))
        owner.close()
        with pytest.raises(InvalidDestinationException):
            producer.send(other.create_text_message("late"))

    def test_the_loss_of_its_connection_deletes_it(self, jms_faults: Faults, connect: Connect, kind: str) -> None:
        mine, other = connect().create_session(), connect().create_session()
        seen = as_others_see_it(mine, make(mine, kind), other)
        jms_faults.drop_connections()
        again = connect().create_session()
        with pytest.raises(InvalidDestinationException):
            send_texts(again, seen, "late")

    def test_what_nobody_holds_is_deleted(self, connect: Connect, kind: str) -> None:
        """At the latest when the connection makes its next one."""
        mine, other = connect().create_session(), connect().create_session()
        seen = as_others_see_it(mine, make(mine, kind), other)
        gc.collect()
        make(mine, kind)
        with pytest.raises(InvalidDestinationException):
            send_texts(other, seen, "late")

    def test_a_consumer_keeps_it_alive(self, connect: Connect, kind: str) -> None:
        mine, other = connect().create_session(), connect().create_session()
        temporary = make(mine, kind)
        seen = as_others_see_it(mine, temporary, other)
        consumer = mine.create_consumer(temporary)
        del temporary
        gc.collect()
        make(mine, kind)
        send_texts(other, seen, "espresso")
        assert take_texts(consumer, 1) == ["espresso"]
        consumer.close()
        del consumer
        gc.collect()
        make(mine, kind)
        with pytest.raises(InvalidDestinationException):
            send_texts(other, seen, "late")

    def test_a_producer_keeps_it_alive(self, session: Session, kind: str) -> None:
        producer = session.create_producer(make(session, kind))
        gc.collect()
        make(session, kind)
        producer.send(session.create_text_message("espresso"))
        assert producer.destination is not None

    def test_what_was_deleted_and_dropped_is_no_trouble(self, session: Session, kind: str) -> None:
        for _ in range(5):
            make(session, kind).delete()
            gc.collect()
        assert name_of(make(session, kind))


@pytest.mark.realises("BOIL-TEMP-1")
def test_messages_of_a_deleted_queue_are_gone(session: Session) -> None:
    temporary = session.create_temporary_queue()
    send_texts(session, temporary, "espresso")
    temporary.delete()
    assert drain(session.create_consumer(session.create_temporary_queue())) == []


@pytest.mark.realises("BOIL-TEMP-1", "BOIL-CONC-1")
def test_many_threads_make_and_delete_them(connection: JmsConnection) -> None:
    def work() -> set[str]:
        with connection.create_session() as session:
            names = set()
            for _ in range(25):
                queue = session.create_temporary_queue()
                names.add(queue.queue_name)
                send_texts(session, queue, "espresso")
                with session.create_consumer(queue) as consumer:
                    assert take_texts(consumer, 1) == ["espresso"]
                queue.delete()
            return names

    names = [call.result() for call in [Call(work) for _ in range(6)]]
    assert len(set().union(*names)) == 150


def test_a_received_reply_address_of_ones_own_is_the_destination(session: Session) -> None:
    queue = session.create_temporary_queue()
    seen = as_others_see_it(session, queue, session)
    assert seen == queue
    assert hash(seen) == hash(queue)
    consumer = session.create_consumer(seen)
    send_texts(session, queue, "espresso")
    assert take_texts(consumer, 1) == ["espresso"]


@pytest.mark.realises("BOIL-SESS-1")
def test_names_from_strings(session: Session) -> None:
    """A provider's own names become destinations; equal names are equal destinations."""
    assert session.create_queue("orders") == session.create_queue("orders")
    assert len({session.create_queue("orders"), session.create_topic("orders")}) == 2
    assert session.create_topic("prices").getTopicName() == "prices"
    assert session.create_queue("orders").getQueueName() == "orders"
    assert "orders" in str(session.create_queue("orders"))


@pytest.mark.parametrize("wrong", ["", None, 5, b"orders"])
@pytest.mark.parametrize("method", ["create_queue", "create_topic"])
def test_what_is_no_name_is_refused(session: Session, method: str, wrong: object) -> None:
    with pytest.raises(InvalidDestinationException):
        getattr(session, method)(wrong)


@pytest.mark.realises("BOIL-TEMP-1")
def test_what_nobody_holds_is_deleted_later_when_the_provider_cannot_now(wrapped: Wrapped) -> None:
    with ConnectionFactory(wrapped.url).create_connection() as connection:
        session = connection.create_session()
        session.create_temporary_queue()
        gc.collect()
        wrapped.before["delete_temporary"] = raising(ResourceError("there is no connection"))
        kept = session.create_temporary_queue()
        assert wrapped.calls.count("delete_temporary") == 1
        session.create_temporary_queue()
        assert wrapped.calls.count("delete_temporary") == 2
        assert kept.queue_name
