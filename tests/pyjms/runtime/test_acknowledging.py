"""The acknowledgement modes of sessions without transactions, and recover (JMS 1.1 §4.4.11 to §4.4.13)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

import pytest

from pyjms import IllegalStateException, JMSException, Message, ResourceAllocationException, Session
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.runtime.machines import DUPS_OK_BATCH
from pyjms.spi.errors import InDoubtError
from pyjms.testing import Fault, Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    Recorder,
    await_event,
    delivery_count,
    holding,
    left_over,
    send_texts,
    take,
    take_texts,
    text_of,
    within_patience,
)
from tests.pyjms.runtime.wrapping import Wrapped, raising

AUTO, CLIENT, DUPS_OK = Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE


class TestModes:
    @pytest.mark.parametrize("mode", [AUTO, CLIENT, DUPS_OK])
    def test_a_session_says_its_mode(self, connection: JmsConnection, mode: int) -> None:
        session = connection.create_session(False, mode)
        assert (session.transacted, session.acknowledge_mode) == (False, mode)
        assert (session.getTransacted(), session.getAcknowledgeMode()) == (False, mode)

    @pytest.mark.parametrize("mode", [0, AUTO, CLIENT, DUPS_OK, 99, -1])
    def test_with_a_transaction_the_mode_is_ignored(self, connection: JmsConnection, mode: int) -> None:
        session = connection.create_session(True, mode)
        assert (session.transacted, session.acknowledge_mode) == (True, Session.SESSION_TRANSACTED)

    @pytest.mark.parametrize("mode", [0, 4, -1, 99, "AUTO_ACKNOWLEDGE", None, []])
    def test_other_modes_are_refused(self, connection: JmsConnection, mode: Any) -> None:
        with pytest.raises(JMSException, match="AUTO_ACKNOWLEDGE"):
            connection.create_session(False, mode)

    def test_without_arguments_it_is_auto(self, connection: JmsConnection) -> None:
        assert connection.create_session().acknowledge_mode == AUTO


class TestAuto:
    @pytest.mark.realises("BOIL-ACK-2", "BOIL-ACK-7")
    def test_what_was_received_never_comes_again(self, connect: Connect) -> None:
        connection = connect()
        session = connection.create_session(False, AUTO)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two", "three")
        consumer = session.create_consumer(queue)
        assert take_texts(consumer, 2) == ["one", "two"]
        session.recover()
        assert take_texts(consumer, 1) == ["three"]
        connection.close()
        assert left_over(connect) == []

    @pytest.mark.realises("BOIL-ACK-2")
    def test_acknowledging_by_hand_changes_nothing(self, connect: Connect) -> None:
        session = connect().create_session(False, AUTO)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        consumer = session.create_consumer(queue)
        take(consumer).acknowledge()
        session.close()
        assert left_over(connect) == ["two"]

    @pytest.mark.realises("BOIL-ACK-2")
    def test_a_listener_that_returns_has_acknowledged(self, connect: Connect) -> None:
        connection, recorder = connect(started=False), Recorder()
        session = connection.create_session(False, AUTO)
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = recorder
        send_texts(connect().create_session(), queue, "one", "two")
        connection.start()
        recorder.wait_for(2)
        within_patience(connection.close)
        assert left_over(connect) == []

    @pytest.mark.realises("BOIL-ACK-2")
    def test_while_the_listener_runs_it_has_not(
        self, jms_faults: Faults, connect: Connect, latch: Callable[[], Event]
    ) -> None:
        """When the client dies in its listener, the message comes again."""
        connection, release, running = connect(started=False), latch(), Event()
        session = connection.create_session(False, AUTO)
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = holding(running, release)
        connection.start()
        survivor_url = jms_faults.url
        send_texts(connect().create_session(), queue, "espresso")
        await_event(running)
        jms_faults.drop_connections()
        with ConnectionFactory(survivor_url).create_connection() as survivor:
            survivor.start()
            again = take(survivor.create_session().create_consumer(queue))
        assert (text_of(again), again.jms_redelivered) == ("espresso", True)
        release.set()

    @pytest.mark.realises("BOIL-ACK-2", "BOIL-ACK-5")
    def test_when_the_acknowledgement_is_refused_the_message_is_not_lost(
        self, jms_faults: Faults, connect: Connect
    ) -> None:
        session = connect().create_session(False, AUTO)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        consumer = session.create_consumer(queue)
        jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
        with pytest.raises(JMSException):
            consumer.receive_no_wait()
        session.recover()
        again = take(consumer)
        assert (text_of(again), again.jms_redelivered) == ("one", True)
        assert take_texts(consumer, 1) == ["two"]
        session.close()
        assert left_over(connect) == []

    @pytest.mark.realises("BOIL-ACK-5")
    def test_recover_in_a_listener_brings_its_message_again(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session(False, AUTO)
        queue = session.create_queue("orders")

        def work(message: Message) -> None:
            if not message.jms_redelivered:
                session.recover()

        recorder = Recorder(work)
        session.create_consumer(queue).message_listener = recorder
        send_texts(connect().create_session(), queue, "one", "two")
        connection.start()
        assert recorder.wait_for(4) == ["one", "one", "two", "two"]
        assert recorder.redelivered == [False, True, False, True]
        within_patience(connection.close)
        assert left_over(connect) == []


class TestClient:
    @pytest.mark.realises("BOIL-ACK-3", "BOIL-SESS-4")
    def test_without_an_acknowledgement_all_come_again(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        assert take_texts(session.create_consumer(queue), 2) == ["one", "two"]
        assert left_over(connect) == []
        session.close()
        assert left_over(connect) == ["one", "two"]

    @pytest.mark.realises("BOIL-ACK-3")
    @pytest.mark.parametrize("which", [0, 1, 2])
    def test_one_acknowledgement_covers_all_that_was_delivered(self, connect: Connect, which: int) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two", "three", "four")
        consumer = session.create_consumer(queue)
        messages = [take(consumer) for _ in range(3)]
        messages[which].acknowledge()
        session.close()
        assert left_over(connect) == ["four"]

    @pytest.mark.realises("BOIL-ACK-3")
    def test_it_covers_all_consumers_of_the_session(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        first, second = session.create_queue("first"), session.create_queue("second")
        topic = session.create_topic("prices")
        subscriber = session.create_consumer(topic)
        send_texts(session, first, "one")
        send_texts(session, second, "two")
        send_texts(session, topic, "three")
        message = take(session.create_consumer(first))
        take(session.create_consumer(second))
        take(subscriber)
        message.acknowledge()
        session.recover()
        assert subscriber.receive_no_wait() is None
        session.close()
        assert left_over(connect, "first") + left_over(connect, "second") == []

    @pytest.mark.realises("BOIL-ACK-3")
    def test_it_does_not_cover_other_sessions(self, connect: Connect) -> None:
        connection = connect()
        first, second = connection.create_session(False, CLIENT), connection.create_session(False, CLIENT)
        queue = first.create_queue("orders")
        send_texts(first, queue, "one", "two")
        message = take(first.create_consumer(queue))
        take(second.create_consumer(queue))
        message.acknowledge()
        connection.close()
        assert left_over(connect) == ["two"]

    @pytest.mark.realises("BOIL-ACK-3")
    def test_it_does_not_cover_what_comes_later(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        consumer = session.create_consumer(queue)
        message = take(consumer)
        message.acknowledge()
        take(consumer)
        session.recover()
        assert take_texts(consumer, 1) == ["two"]
        message.acknowledge()  # it is an old one, but covers all the same
        session.close()
        assert left_over(connect) == []

    @pytest.mark.realises("BOIL-ACK-3")
    def test_it_covers_the_messages_of_a_closed_consumer(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        with session.create_consumer(queue) as consumer:
            take(consumer)
        take(session.create_consumer(queue)).acknowledge()
        session.close()
        assert left_over(connect) == []

    def test_acknowledging_twice_is_no_error(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one")
        message = take(session.create_consumer(queue))
        message.acknowledge()
        message.acknowledge()
        session.close()
        assert left_over(connect) == []

    def test_a_message_that_was_not_received_cannot_acknowledge(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one")
        take(session.create_consumer(queue))
        session.create_text_message("mine").acknowledge()
        session.close()
        assert left_over(connect) == ["one"]

    @pytest.mark.realises("BOIL-ACK-3")
    def test_a_refused_acknowledgement_can_be_tried_again(self, jms_faults: Faults, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        consumer = session.create_consumer(queue)
        message = take(consumer)
        jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
        with pytest.raises(JMSException):
            message.acknowledge()
        take(consumer)
        message.acknowledge()
        session.close()
        assert left_over(connect) == []

    @pytest.mark.realises("BOIL-ACK-5")
    def test_after_a_refused_acknowledgement_recover_brings_all_again(
        self, jms_faults: Faults, connect: Connect
    ) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        consumer = session.create_consumer(queue)
        first = take(consumer)
        jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
        with pytest.raises(JMSException):
            first.acknowledge()
        take(consumer)
        session.recover()
        assert take_texts(consumer, 2) == ["one", "two"]

    @pytest.mark.realises("BOIL-ACK-3")
    def test_a_listener_acknowledges_when_it_wants(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session(False, CLIENT)
        queue = session.create_queue("orders")
        recorder = Recorder(lambda message: message.acknowledge() if text_of(message) == "two" else None)
        session.create_consumer(queue).message_listener = recorder
        send_texts(connect().create_session(), queue, "one", "two", "three")
        connection.start()
        recorder.wait_for(3)
        within_patience(connection.close)
        assert left_over(connect) == ["three"]


class TestRecover:
    @pytest.mark.realises("BOIL-ACK-5", "BOIL-ACK-6", "BOIL-HDR-7")
    def test_it_starts_again_at_the_first_unacknowledged_message(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "zero", "one", "two", "three")
        consumer = session.create_consumer(queue)
        take(consumer).acknowledge()
        first = [take(consumer) for _ in range(2)]
        assert [message.jms_redelivered for message in first] == [False, False]
        session.recover()
        again = [take(consumer) for _ in range(3)]
        assert [text_of(message) for message in again] == ["one", "two", "three"]
        assert [message.jms_redelivered for message in again] == [True, True, False]
        assert [delivery_count(message) for message in again] == [2, 2, 1]
        session.recover()
        assert [delivery_count(take(consumer)) for _ in range(3)] == [3, 3, 2]

    @pytest.mark.realises("BOIL-ACK-5")
    def test_a_new_message_of_higher_priority_may_come_first(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        consumer = session.create_consumer(queue)
        take_texts(consumer, 2)
        send_texts(session, queue, "urgent", priority=9)
        session.recover()
        assert take_texts(consumer, 3) == ["urgent", "one", "two"]

    @pytest.mark.realises("BOIL-ACK-5")
    def test_it_covers_all_consumers(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        consumers = [session.create_consumer(session.create_queue(name)) for name in ("first", "second")]
        send_texts(session, session.create_queue("first"), "one")
        send_texts(session, session.create_queue("second"), "two")
        assert [take_texts(consumer, 1) for consumer in consumers] == [["one"], ["two"]]
        session.recover()
        assert [take_texts(consumer, 1) for consumer in consumers] == [["one"], ["two"]]

    @pytest.mark.realises("BOIL-ACK-5", "BOIL-PUB-12")
    @pytest.mark.parametrize("mode", [1, 2])
    def test_a_subscriber_recovers_while_it_lives(self, connect: Connect, mode: int) -> None:
        session = connect().create_session(False, CLIENT)
        topic = session.create_topic("prices")
        subscriber = session.create_consumer(topic)
        send_texts(session, topic, "one", "two", delivery_mode=mode)
        assert take_texts(subscriber, 2) == ["one", "two"]
        session.recover()
        again = [take(subscriber) for _ in range(2)]
        assert [(text_of(message), message.jms_redelivered) for message in again] == [("one", True), ("two", True)]

    @pytest.mark.parametrize("mode", [AUTO, CLIENT, DUPS_OK])
    def test_with_nothing_to_recover_it_does_nothing(self, connect: Connect, mode: int) -> None:
        session = connect().create_session(False, mode)
        queue = session.create_queue("orders")
        session.recover()
        send_texts(session, queue, "one")
        session.recover()
        message = take(session.create_consumer(queue))
        assert (text_of(message), message.jms_redelivered) == ("one", False)

    @pytest.mark.realises("BOIL-ACK-9", "BOIL-EXC-2")
    def test_a_transacted_session_has_none(self, connection: JmsConnection) -> None:
        with pytest.raises(IllegalStateException, match="rollback"):
            connection.create_session(True, Session.SESSION_TRANSACTED).recover()

    @pytest.mark.realises("BOIL-ACK-5")
    def test_in_a_listener_of_a_client_session(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session(False, CLIENT)
        queue, recovered = session.create_queue("orders"), list[bool]()

        def work(message: Message) -> None:
            if text_of(message) == "two" and not recovered:
                recovered.append(True)
                session.recover()

        recorder = Recorder(work)
        session.create_consumer(queue).message_listener = recorder
        send_texts(connect().create_session(), queue, "one", "two", "three")
        connection.start()
        assert recorder.wait_for(5) == ["one", "two", "one", "two", "three"]
        assert recorder.redelivered == [False, False, True, True, False]

    def test_messages_of_a_closed_consumer_go_to_the_next_one(self, connect: Connect) -> None:
        session = connect().create_session(False, CLIENT)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one")
        with session.create_consumer(queue) as consumer:
            take(consumer)
        session.recover()
        again = take(session.create_consumer(queue))
        assert (text_of(again), again.jms_redelivered) == ("one", True)


class TestOverrun:
    """An administrator's limit of what a client may pile up (§4.4.11)."""

    @pytest.mark.realises("BOIL-ACK-4", "BOIL-EXC-11")
    @pytest.mark.parametrize("transacted", [False, True])
    def test_a_receive_beyond_the_limit_is_refused(self, jms_broker_url: str, transacted: bool) -> None:
        with ConnectionFactory(jms_broker_url, max_unacknowledged=2).create_connection() as connection:
            connection.start()
            session = connection.create_session(transacted, CLIENT)
            queue = session.create_queue("orders")
            send_texts(connection.create_session(), queue, "one", "two", "three")
            consumer = session.create_consumer(queue)
            last = [take(consumer) for _ in range(2)][-1]
            for receive in (consumer.receive_no_wait, lambda: within_patience(consumer.receive, 1000)):
                with pytest.raises(ResourceAllocationException, match="max_unacknowledged"):
                    receive()
            if transacted:
                session.commit()
            else:
                last.acknowledge()
            assert take_texts(consumer, 1) == ["three"]

    @pytest.mark.realises("BOIL-ACK-4")
    def test_a_listener_waits_for_the_acknowledgement(self, jms_broker_url: str) -> None:
        with ConnectionFactory(jms_broker_url, max_unacknowledged=2).create_connection() as connection:
            session = connection.create_session(False, CLIENT)
            queue, recorder = session.create_queue("orders"), Recorder()
            session.create_consumer(queue).message_listener = recorder
            send_texts(connection.create_session(), queue, "one", "two", "three")
            connection.start()
            assert recorder.wait_for(2) == ["one", "two"]
            assert len(recorder.messages) == 2
            recorder.messages[-1].acknowledge()
            assert recorder.wait_for(3) == ["one", "two", "three"]

    @pytest.mark.realises("BOIL-ACK-4")
    @pytest.mark.parametrize("mode", [AUTO, DUPS_OK])
    def test_sessions_that_acknowledge_by_themselves_have_no_limit(self, jms_broker_url: str, mode: int) -> None:
        with ConnectionFactory(f"{jms_broker_url}?max_unacknowledged=2").create_connection() as connection:
            connection.start()
            session = connection.create_session(False, mode)
            queue = session.create_queue("orders")
            send_texts(session, queue, "one", "two", "three")
            assert take_texts(session.create_consumer(queue), 3) == ["one", "two", "three"]


class TestInDoubt:
    """Nobody knows whether the provider has settled it: whoever would not get it now might never get it (JMS 1.1 §4.4.11)."""

    @pytest.mark.parametrize(("mode", "number"), [(AUTO, 1), (DUPS_OK, DUPS_OK_BATCH)])
    @pytest.mark.parametrize("receive", ["receive", "receive_no_wait"])
    def test_a_message_whose_acknowledgement_is_in_doubt_is_received(
        self, wrapped: Wrapped, connect: Connect, mode: int, number: int, receive: str
    ) -> None:
        with ConnectionFactory(wrapped.url).create_connection() as connection:
            session = connection.create_session(False, mode)
            queue, names = session.create_queue("orders"), [f"{each}" for each in range(number)]
            send_texts(session, queue, *names)
            consumer = session.create_consumer(queue)
            connection.start()
            wrapped.before["acknowledge"] = raising(InDoubtError("the database went in mid-commit"))
            take_one = partial(within_patience, consumer.receive) if receive == "receive" else consumer.receive_no_wait
            assert [text_of(take_one()) for _ in names] == names
        assert left_over(connect) == names  # it was not settled: then they come again
