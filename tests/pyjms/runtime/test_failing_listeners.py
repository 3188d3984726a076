"""Listeners that raise, in each of the four modes (JMS 1.1 §4.5.2)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from pyjms import Message, Session
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.dispatch import MAXIMUM_ATTEMPTS
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi import Capability
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ProviderSession
from pyjms.testing import Fault, Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    PATIENCE_S,
    Recorder,
    WatchedClock,
    delivery_count,
    drain,
    eventually,
    send_texts,
    take,
    text_of,
    within_patience,
)
from tests.pyjms.runtime.wrapping import Wrapped, raising

BY_THEMSELVES = [Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE]


class Mute(Exception):
    """An exception that cannot say what it is: a branch of its ``__str__`` has no return."""

    def __str__(self) -> Any:
        return dict(enumerate(self.args)).get(0)


def failing(times: int, error: BaseException, text: str = "bad") -> Callable[[Message], None]:
    """Return work that raises for the first deliveries of one message."""
    left = [times]

    def work(message: Message) -> None:
        if text_of(message) == text and left[0]:
            left[0] -= 1
            raise error

    return work


def listen(connect: Connect, mode: int, recorder: Recorder, *texts: str) -> JmsConnection:
    """Start a connection whose session feeds `recorder` with `texts`."""
    connection = connect(started=False)
    session = connection.create_session(mode == Session.SESSION_TRANSACTED, mode)
    queue = session.create_queue("orders")
    session.create_consumer(queue).message_listener = recorder
    send_texts(connect().create_session(), queue, *texts)
    connection.start()
    return connection


class TestByThemselves:
    """AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE."""

    @pytest.mark.realises("BOIL-LSN-1", "BOIL-HDR-7")
    @pytest.mark.parametrize("mode", BY_THEMSELVES)
    @pytest.mark.parametrize(
        "error",
        [RuntimeError("no"), SystemExit(1), KeyboardInterrupt(), AssertionError(), Mute()],
        ids=lambda each: type(each).__name__,
    )
    def test_the_message_comes_again_at_once(self, connect: Connect, mode: int, error: BaseException) -> None:
        recorder = Recorder(failing(2, error))
        listen(connect, mode, recorder, "bad", "next")
        assert recorder.wait_for(4) == ["bad", "bad", "bad", "next"]
        assert recorder.redelivered == [False, True, True, False]
        assert recorder.counts == [1, 2, 3, 1]

    @pytest.mark.realises("BOIL-LSN-1", "BOIL-LSN-5")
    @pytest.mark.parametrize("mode", BY_THEMSELVES)
    def test_after_the_last_attempt_it_is_set_aside(self, connect: Connect, mode: int) -> None:
        recorder = Recorder(failing(1000, RuntimeError("no")))
        connection = listen(connect, mode, recorder, "bad", "next")
        assert recorder.wait_for(MAXIMUM_ATTEMPTS + 1) == ["bad"] * MAXIMUM_ATTEMPTS + ["next"]
        assert recorder.counts == [*range(1, MAXIMUM_ATTEMPTS + 1), 1]
        within_patience(connection.close)
        assert len(recorder.texts) == MAXIMUM_ATTEMPTS + 1
        other = connect().create_session()
        assert "bad" not in drain(other.create_consumer(other.create_queue("orders")))
        letter = take(other.create_consumer(other.create_queue("DLQ")))
        assert text_of(letter) == "bad"
        assert letter.get_string_property("JMS_pyjms_deadReason") == "the listener raised RuntimeError: no"
        assert letter.get_string_property("JMS_pyjms_deadDestination") == "queue://orders"
        assert letter.get_int_property("JMS_pyjms_deadCount") == MAXIMUM_ATTEMPTS

    def test_a_reason_of_any_length_stays_short(self, connect: Connect) -> None:
        recorder = Recorder(failing(1000, RuntimeError("y" * 1_000_000)))
        listen(connect, Session.AUTO_ACKNOWLEDGE, recorder, "bad", "next")
        assert recorder.wait_for(MAXIMUM_ATTEMPTS + 1)[-1] == "next"
        other = connect().create_session()
        reason = take(other.create_consumer(other.create_queue("DLQ"))).get_string_property("JMS_pyjms_deadReason")
        assert reason is not None
        assert reason.startswith("the listener raised RuntimeError: yyy")
        assert len(reason) < 1_100

    @pytest.mark.realises("BOIL-LSN-1")
    def test_success_at_the_last_attempt_counts(self, connect: Connect) -> None:
        recorder = Recorder(failing(MAXIMUM_ATTEMPTS - 1, RuntimeError("no")))
        connection = listen(connect, Session.AUTO_ACKNOWLEDGE, recorder, "bad", "next")
        assert recorder.wait_for(MAXIMUM_ATTEMPTS + 1)[-2:] == ["bad", "next"]
        within_patience(connection.close)
        other = connect().create_session()
        assert drain(other.create_consumer(other.create_queue("orders"))) == []

    @pytest.mark.realises("BOIL-LSN-1")
    def test_a_session_goes_on_after_many_failures(self, connect: Connect) -> None:
        recorder = Recorder(failing(1000, RuntimeError("no")))
        listen(connect, Session.AUTO_ACKNOWLEDGE, recorder, *["bad"] * 5, "good")
        assert recorder.wait_for(5 * MAXIMUM_ATTEMPTS + 1)[-1] == "good"

    @pytest.mark.realises("BOIL-LSN-1")
    def test_failures_of_one_consumer_do_not_starve_the_other(self, connect: Connect) -> None:
        connection, sending = connect(started=False), connect().create_session()
        session = connection.create_session()
        bad_queue, good_queue = session.create_queue("bad"), session.create_queue("good")
        bad, good = Recorder(failing(1000, RuntimeError("no"))), Recorder()
        session.create_consumer(bad_queue).message_listener = bad
        session.create_consumer(good_queue).message_listener = good
        send_texts(sending, bad_queue, "bad", "bad")
        send_texts(sending, good_queue, "one", "two")
        connection.start()
        assert good.wait_for(2) == ["one", "two"]
        assert len(bad.wait_for(2 * MAXIMUM_ATTEMPTS)) == 2 * MAXIMUM_ATTEMPTS

    def test_a_message_that_was_redelivered_before_keeps_its_count(self, connect: Connect) -> None:
        """Attempts of others count: the number is that of deliveries, whoever got them."""
        with connect() as first:
            session = first.create_session(True, Session.SESSION_TRANSACTED)
            queue = session.create_queue("orders")
            send_texts(first.create_session(), queue, "bad")
            consumer = session.create_consumer(queue)
            for number in range(1, 3):
                assert delivery_count(take(consumer)) == number
                session.rollback()
        recorder = Recorder(failing(1000, RuntimeError("no")))
        listen(connect, Session.AUTO_ACKNOWLEDGE, recorder, "next")
        expected = MAXIMUM_ATTEMPTS - 2
        assert recorder.wait_for(expected + 1) == ["bad"] * expected + ["next"]
        assert recorder.counts == [*range(3, MAXIMUM_ATTEMPTS + 1), 1]

    def test_a_provider_without_dead_letters_still_gets_on(self, jms_broker_url: str) -> None:
        """A message must not come for ever only because there is nowhere to keep it aside."""
        with Wrapped(jms_broker_url, remove=Capability.DEAD_LETTERS) as wrapped:
            connection = ConnectionFactory(wrapped.url).create_connection()
            session, recorder = connection.create_session(), Recorder(failing(20, RuntimeError("no")))
            queue = session.create_queue("orders")
            send_texts(connection.create_session(), queue, "bad")
            session.create_consumer(queue).message_listener = recorder
            connection.start()
            recorder.wait_for(MAXIMUM_ATTEMPTS)
            assert "reject" not in wrapped.calls
            within_patience(connection.close)

    @pytest.mark.parametrize("mode", BY_THEMSELVES)
    def test_where_nobody_sets_it_aside_the_pauses_grow(
        self, jms_broker_url: str, virtual_clock: WatchedClock, mode: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """RabbitMQ gives it back at once, and keeps no dead letters unless it is told to: the listener was called thousands of times a second."""
        limits = Capability.DEAD_LETTERS | Capability.REDELIVERY_LIMITS
        unlimited = ConnectionFactory(f"{jms_broker_url}?max_deliveries=0", clock=virtual_clock)
        with unlimited.create_connection(), Wrapped(jms_broker_url, remove=limits) as wrapped:
            monkeypatch.setattr("tests.pyjms.runtime.wrapping._Session.retry", ProviderSession.retry)
            connection = ConnectionFactory(wrapped.url, clock=virtual_clock).create_connection()
            session, recorder = connection.create_session(False, mode), Recorder(failing(10, RuntimeError("no")))
            queue = session.create_queue("orders")
            send_texts(connection.create_session(), queue, "bad", "next")
            session.create_consumer(queue).message_listener = recorder
            connection.start()
            for number, pause_ms in enumerate((100, 200, 400, 800), start=MAXIMUM_ATTEMPTS):
                virtual_clock.await_wait(pause_ms)
                assert recorder.texts == ["bad"] * number
                virtual_clock.advance(pause_ms)
            assert recorder.wait_for(12)[-2:] == ["bad", "next"]  # which it gets at once, as it has come round
            within_patience(connection.close)

    @pytest.mark.parametrize("mode", BY_THEMSELVES)
    def test_the_pauses_grow_where_its_queue_sets_it_aside_nowhere(
        self, jms_broker_url: str, virtual_clock: WatchedClock, mode: int
    ) -> None:
        """A dead letter stays where it is: the listener was called thousands of times a second."""
        connection = ConnectionFactory(jms_broker_url, clock=virtual_clock).create_connection()
        session, recorder = connection.create_session(False, mode), Recorder(failing(11, RuntimeError("no")))
        queue = session.create_queue("DLQ")
        send_texts(connection.create_session(), queue, "bad", "next")
        session.create_consumer(queue).message_listener = recorder
        connection.start()
        for number, pause_ms in enumerate((100, 200, 400, 800), start=MAXIMUM_ATTEMPTS + 1):
            virtual_clock.await_wait(pause_ms)
            assert recorder.texts == ["bad"] * number
            virtual_clock.advance(pause_ms)
        assert recorder.wait_for(13)[-2:] == ["bad", "next"]
        within_patience(connection.close)

    def test_a_higher_limit_needs_no_pause_while_others_are_heard(
        self, jms_broker_url: str, virtual_clock: WatchedClock
    ) -> None:
        with ConnectionFactory(jms_broker_url, clock=virtual_clock).create_connection() as connection:
            session = connection.create_session()
            dead, others = session.create_queue("DLQ"), session.create_queue("others")
            heard: list[str | None] = []

            def work(message: Message) -> None:
                heard.append(text_of(message))
                if text_of(message) == "bad":
                    producer.send(others, sending.create_text_message("good"))
                    raise RuntimeError("no")
                if len(heard) >= 50:
                    enough.set()

            enough, sending = Event(), connection.create_session()
            producer = sending.create_producer(None)
            session.create_consumer(dead).message_listener = work
            session.create_consumer(others).message_listener = work
            send_texts(connection.create_session(), dead, "bad")
            connection.start()
            assert enough.wait(PATIENCE_S)  # nobody moves the clock
            assert heard[:50] == ["bad", "good"] * 25


class TestClient:
    @pytest.mark.realises("BOIL-LSN-2")
    def test_the_next_message_comes(self, connect: Connect) -> None:
        recorder = Recorder(failing(1, RuntimeError("no")))
        connection = listen(connect, Session.CLIENT_ACKNOWLEDGE, recorder, "bad", "next", "last")
        assert recorder.wait_for(3) == ["bad", "next", "last"]
        within_patience(connection.close)
        other = connect().create_session()
        again = other.create_consumer(other.create_queue("orders"))
        first = take(again)
        assert (text_of(first), first.jms_redelivered) == ("bad", True)
        assert drain(again) == ["next", "last"]

    @pytest.mark.realises("BOIL-LSN-2", "BOIL-ACK-5", "BOIL-ACK-6")
    def test_the_client_recovers_by_hand(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        recovered: list[bool] = []

        def work(message: Message) -> None:
            if text_of(message) == "bad" and not recovered:
                raise RuntimeError("no")
            if text_of(message) == "next" and not recovered:
                recovered.append(True)
                session.recover()
            if text_of(message) == "last":
                message.acknowledge()

        recorder = Recorder(work)
        session.create_consumer(queue).message_listener = recorder
        send_texts(connect().create_session(), queue, "bad", "next", "last")
        connection.start()
        assert recorder.wait_for(5) == ["bad", "next", "bad", "next", "last"]
        assert recorder.redelivered == [False, False, True, True, False]
        within_patience(connection.close)
        other = connect().create_session()
        assert drain(other.create_consumer(queue)) == []

    @pytest.mark.realises("BOIL-LSN-2", "BOIL-ACK-3")
    def test_what_was_acknowledged_before_raising_stays_so(self, connect: Connect) -> None:
        def work(message: Message) -> None:
            message.acknowledge()
            raise RuntimeError("no")

        recorder = Recorder(work)
        connection = listen(connect, Session.CLIENT_ACKNOWLEDGE, recorder, "one", "two")
        assert recorder.wait_for(2) == ["one", "two"]
        within_patience(connection.close)
        other = connect().create_session()
        assert drain(other.create_consumer(other.create_queue("orders"))) == []


class TestTransacted:
    @pytest.mark.realises("BOIL-LSN-3")
    def test_the_next_message_comes_and_nothing_is_rolled_back(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        orders, bills = session.create_queue("orders"), session.create_queue("bills")

        def work(message: Message) -> None:
            send_texts(session, bills, f"bill for {text_of(message)}")
            if text_of(message) == "bad":
                raise RuntimeError("no")
            session.commit()

        recorder = Recorder(work)
        session.create_consumer(orders).message_listener = recorder
        other = connect().create_session()
        send_texts(other, orders, "bad", "next")
        connection.start()
        assert recorder.wait_for(2) == ["bad", "next"]
        within_patience(connection.close)
        assert drain(other.create_consumer(bills)) == ["bill for bad", "bill for next"]
        assert drain(other.create_consumer(orders)) == []

    @pytest.mark.realises("BOIL-LSN-3", "BOIL-ACK-9")
    def test_the_client_rolls_back_by_hand(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        orders, bills = session.create_queue("orders"), session.create_queue("bills")
        failed: list[bool] = []

        def work(message: Message) -> None:
            send_texts(session, bills, f"bill for {text_of(message)}")
            if not failed:
                failed.append(True)
                session.rollback()
                raise RuntimeError("no")
            session.commit()

        recorder = Recorder(work)
        session.create_consumer(orders).message_listener = recorder
        other = connect().create_session()
        send_texts(other, orders, "espresso")
        connection.start()
        assert recorder.wait_for(2) == ["espresso", "espresso"]
        assert recorder.redelivered == [False, True]
        within_patience(connection.close)
        assert drain(other.create_consumer(bills)) == ["bill for espresso"]


@pytest.mark.realises("BOIL-LSN-4")
@pytest.mark.parametrize("mode", [*BY_THEMSELVES, Session.CLIENT_ACKNOWLEDGE, Session.SESSION_TRANSACTED])
def test_a_listener_that_raises_is_flagged(connect: Connect, caplog: pytest.LogCaptureFixture, mode: int) -> None:
    error = RuntimeError("no milk")
    with caplog.at_level(logging.WARNING, logger="pyjms.runtime"):
        recorder = Recorder(failing(1, error))
        listen(connect, mode, recorder, "bad", "next")
        assert recorder.wait_for(2)[-1] in ("bad", "next")
        eventually(lambda: caplog.records, "a warning was logged")
    record = caplog.records[0]
    assert record.levelno == logging.WARNING
    assert "PYJMS-LISTENER" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is error


class TestAcknowledgementThatFails:
    """The listener has done its work, but the acknowledgement is refused: the message comes again, and is not lost."""

    @pytest.mark.realises("BOIL-ACK-2", "BOIL-HDR-7")
    def test_the_message_comes_again(self, jms_faults: Faults, connect: Connect) -> None:
        jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
        recorder = Recorder()
        connection = listen(connect, Session.AUTO_ACKNOWLEDGE, recorder, "one", "two")
        texts = recorder.wait_for(3)
        assert sorted(map(str, texts)) == ["one", "one", "two"]
        assert recorder.redelivered.count(True) == 1
        within_patience(connection.close)
        other = connect().create_session()
        assert drain(other.create_consumer(other.create_queue("orders"))) == []

    def test_a_rejection_that_fails_loses_nothing(self, jms_broker_url: str) -> None:
        """The runtime rejects where the provider does not limit redelivery itself."""
        with Wrapped(jms_broker_url, remove=Capability.REDELIVERY_LIMITS) as wrapped:
            wrapped.before["reject"] = raising(ProviderError("no"))
            connection = ConnectionFactory(wrapped.url).create_connection()
            session, recorder = connection.create_session(), Recorder(failing(1000, RuntimeError("no")))
            queue = session.create_queue("orders")
            send_texts(connection.create_session(), queue, "bad", "next")
            session.create_consumer(queue).message_listener = recorder
            connection.start()
            recorder.wait_for(MAXIMUM_ATTEMPTS + 1)
            eventually(lambda: "next" in recorder.texts, "the next message came")
            within_patience(connection.close)
            assert wrapped.calls.count("reject") >= 1
