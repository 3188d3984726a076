"""DUPS_OK, which acknowledges lazily, and acknowledgements that are refused (JMS 1.1 §4.4.11)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pyjms import JMSException, Message, Session
from pyjms.messages.base import JmsMessage, MessageContext
from pyjms.runtime.factory import ConnectionFactory
from pyjms.runtime.machines import DUPS_OK_BATCH
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import GoneError
from pyjms.testing import Fault, Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    Recorder,
    drain,
    left_over,
    send_texts,
    take,
    take_texts,
    text_of,
    within_patience,
)
from tests.pyjms.runtime.wrapping import Wrapped

AUTO, DUPS_OK = Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE


class TestDupsOk:
    @pytest.mark.realises("BOIL-ACK-1")
    def test_it_acknowledges_in_batches(self, jms_faults: Faults, jms_broker_url: str, connect: Connect) -> None:
        """A client that dies leaves duplicates, but fewer than a batch."""
        connection = connect()
        session = connection.create_session(False, DUPS_OK)
        queue = session.create_queue("orders")
        texts = [str(number) for number in range(DUPS_OK_BATCH + 5)]
        send_texts(session, queue, *texts)
        assert take_texts(session.create_consumer(queue), len(texts)) == texts
        jms_faults.drop_connections()
        with ConnectionFactory(jms_broker_url).create_connection() as other:
            other.start()
            again = other.create_session().create_consumer(queue)
            got = []
            while (message := again.receive_no_wait()) is not None:
                assert message.jms_redelivered
                got.append(text_of(message))
        assert got == texts[DUPS_OK_BATCH:]

    @pytest.mark.realises("BOIL-ACK-1", "BOIL-ACK-8")
    @pytest.mark.parametrize("closes", ["session", "connection"])
    def test_an_orderly_close_leaves_no_duplicates(self, connect: Connect, closes: str) -> None:
        """Duplicates are the price of failures (§4.4.11), and there was none."""
        connection = connect()
        session = connection.create_session(False, DUPS_OK)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two", "three")
        assert take_texts(session.create_consumer(queue), 2) == ["one", "two"]
        (session if closes == "session" else connection).close()
        assert left_over(connect) == ["three"]

    @pytest.mark.realises("BOIL-ACK-1")
    def test_listeners_acknowledge_lazily_too(self, connect: Connect) -> None:
        connection, recorder = connect(started=False), Recorder()
        session = connection.create_session(False, DUPS_OK)
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = recorder
        texts = [str(number) for number in range(DUPS_OK_BATCH + 5)]
        send_texts(connect().create_session(), queue, *texts)
        connection.start()
        assert recorder.wait_for(len(texts)) == texts
        within_patience(connection.close)
        assert left_over(connect) == []

    @pytest.mark.realises("BOIL-ACK-1", "BOIL-PUB-4")
    @pytest.mark.parametrize("by", ["the session", "another session", "a change of its terms"])
    def test_a_closed_subscriber_keeps_no_subscription_in_use(self, connect: Connect, by: str) -> None:
        """Its client cannot settle what it had: in this mode the session does (§4.4.11)."""
        connection = connect("shop")
        session = connection.create_session(False, DUPS_OK)
        topic = session.create_topic("prices")
        subscriber = session.create_durable_subscriber(topic, "all")
        send_texts(session, topic, "one", "two")
        assert take_texts(subscriber, 2) == ["one", "two"]
        subscriber.close()
        if by == "a change of its terms":
            session.create_durable_subscriber(topic, "all", "cups > 1")
        else:
            (session if by == "the session" else connection.create_session()).unsubscribe("all")

    @pytest.mark.realises("BOIL-ACK-1")
    def test_what_a_listener_has_in_hand_is_not_settled_by_a_close(self, connect: Connect) -> None:
        connection = connect("shop")
        session = connection.create_session(False, DUPS_OK)
        topic = session.create_topic("prices")
        subscriber = session.create_durable_subscriber(topic, "all")
        refused: list[JMSException] = []

        def work(message: Message) -> None:
            if text_of(message) == "two":
                subscriber.close()
                try:
                    session.unsubscribe("all")
                except JMSException as error:
                    refused.append(error)
                raise ValueError("not this one")

        recorder = Recorder(work)
        subscriber.message_listener = recorder
        send_texts(connect().create_session(), topic, "one", "two")
        recorder.wait_for(2)
        within_patience(connection.stop)
        assert "has 1 message," in str(refused[0])
        connection.start()
        again = connection.create_session().create_durable_subscriber(topic, "all")
        message = take(again)
        assert (text_of(message), message.jms_redelivered) == ("two", True)
        assert drain(again) == []

    @pytest.mark.realises("BOIL-ACK-1", "BOIL-ACK-5")
    def test_a_refused_settlement_at_a_close_loses_nothing(self, jms_faults: Faults, connect: Connect) -> None:
        session = connect().create_session(False, DUPS_OK)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one")
        consumer = session.create_consumer(queue)
        assert take_texts(consumer, 1) == ["one"]
        jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
        consumer.close()
        session.recover()
        assert take_texts(session.create_consumer(queue), 1) == ["one"]

    @pytest.mark.realises("BOIL-ACK-1", "BOIL-ACK-5")
    def test_a_refused_batch_loses_nothing(self, jms_faults: Faults, connect: Connect) -> None:
        session = connect().create_session(False, DUPS_OK)
        queue = session.create_queue("orders")
        texts = [str(number) for number in range(DUPS_OK_BATCH)]
        send_texts(session, queue, *texts)
        consumer = session.create_consumer(queue)
        assert take_texts(consumer, DUPS_OK_BATCH - 1) == texts[:-1]
        jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
        got: list[str | None] = []
        try:
            got.append(text_of(consumer.receive_no_wait()))
        except JMSException:
            session.recover()
        got += drain(consumer)
        assert texts[-1] in got


class TestClosedInMidReceive:
    """Another thread closes while a receive has a delivery in hand: what the client does not get must not be settled."""

    @pytest.mark.realises("BOIL-ACK-1", "BOIL-ACK-8")
    @pytest.mark.parametrize("closes", ["consumer", "session", "connection"])
    @pytest.mark.parametrize("mode", [AUTO, DUPS_OK, Session.CLIENT_ACKNOWLEDGE])
    def test_a_message_that_is_not_read_yet_comes_again(
        self, connect: Connect, monkeypatch: pytest.MonkeyPatch, mode: int, closes: str
    ) -> None:
        """A provider may read a message from a disk only now, and find it gone if it was settled or given back."""
        connection = connect()
        session = connection.create_session(False, mode)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one")
        consumer = session.create_consumer(queue)
        closers: dict[str, Callable[[], None]] = {
            "consumer": consumer.close,
            "session": session.close,
            "connection": connection.close,
        }

        def close_and_fail(delivery: Delivery, context: MessageContext) -> JmsMessage:
            within_patience(closers[closes])
            raise GoneError("the message cannot be had")

        monkeypatch.setattr("pyjms.runtime.session.thaw", close_and_fail)
        assert consumer.receive(20_000) is None
        monkeypatch.undo()
        connection.close()
        assert left_over(connect) == ["one"]

    @pytest.mark.realises("BOIL-ACK-1")
    def test_a_batch_that_a_close_breaks_off_withholds_no_message(self, wrapped: Wrapped, connect: Connect) -> None:
        """Some of it may be settled, the one in hand among them."""
        connection = ConnectionFactory(wrapped.url).create_connection()
        connection.start()
        session = connection.create_session(False, DUPS_OK)
        queue = session.create_queue("orders")
        texts = [str(number) for number in range(DUPS_OK_BATCH)]
        send_texts(session, queue, *texts)
        consumer = session.create_consumer(queue)
        assert take_texts(consumer, DUPS_OK_BATCH - 1) == texts[:-1]

        def close() -> None:
            wrapped.before.clear()
            within_patience(session.close)

        wrapped.before["acknowledge"] = close
        assert text_of(consumer.receive(20_000)) == texts[-1]
        connection.close()


class TestRefused:
    """A receive that raises has not delivered its message: without a recover, too, no acknowledgement may cover it."""

    @pytest.mark.realises("BOIL-ACK-1", "BOIL-ACK-2")
    @pytest.mark.parametrize("mode", [AUTO, DUPS_OK])
    def test_no_message_is_skipped(self, jms_faults: Faults, connect: Connect, mode: int) -> None:
        session = connect().create_session(False, mode)
        queue = session.create_queue("orders")
        texts = [str(number) for number in range(DUPS_OK_BATCH + 5)]
        send_texts(session, queue, *texts)
        consumer, got = session.create_consumer(queue), list[str | None]()
        jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
        for _ in range(3 * len(texts)):
            with suppress(JMSException):
                message = consumer.receive_no_wait()
                if message is not None:
                    got.append(text_of(message))
        session.close()
        assert set(got + left_over(connect)) == set(texts), "some were acknowledged that the client never got"

    @pytest.mark.realises("BOIL-ACK-2")
    def test_nor_when_a_listener_comes_next(self, jms_faults: Faults, connect: Connect) -> None:
        connection, recorder = connect(), Recorder()
        session = connection.create_session(False, AUTO)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        consumer = session.create_consumer(queue)
        jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
        with pytest.raises(JMSException):
            consumer.receive_no_wait()
        consumer.message_listener = recorder
        recorder.wait_for(1)
        within_patience(connection.close)
        assert set(recorder.texts + left_over(connect)) == {"one", "two"}

    @pytest.mark.realises("BOIL-ACK-1", "BOIL-ACK-8")
    def test_a_refused_batch_of_a_listener_is_settled_later(self, jms_faults: Faults, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session(False, DUPS_OK)
        queue, recorder = session.create_queue("orders"), Recorder()
        session.create_consumer(queue).message_listener = recorder
        texts = [str(number) for number in range(DUPS_OK_BATCH)]
        send_texts(connect().create_session(), queue, *texts)
        jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
        connection.start()
        recorder.wait_for(DUPS_OK_BATCH)
        within_patience(connection.close)
        assert left_over(connect) == [], "an orderly end leaves no duplicates"
