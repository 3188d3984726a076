"""Messages that a provider cannot take back at once: they are lost sight of nowhere (JMS 1.1 §4.4.11, §4.5.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from pyjms import JMSException, Message, MessageConsumer, Session
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.runtime.machines import DUPS_OK_BATCH
from pyjms.runtime.session import JmsSession
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ResourceError
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    Interrupted,
    Recorder,
    drain,
    eventually,
    left_over,
    send_texts,
    take,
    take_texts,
    text_of,
)
from tests.pyjms.runtime.server_pool import Pool, feeding
from tests.pyjms.runtime.test_exception_listener import Problems
from tests.pyjms.runtime.wrapping import Wrapped, raising

BY_THEMSELVES = [Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE]


@pytest.fixture
def failing_connection(wrapped: Wrapped) -> Iterator[JmsConnection]:
    """A started connection to it."""
    with ConnectionFactory(wrapped.url).create_connection() as connection:
        connection.start()
        yield connection
        wrapped.before.clear()


def full(times: int = 1) -> ResourceError:
    """Return what a full disk says."""
    return ResourceError(f"the disk is full, {times} times")


def consumer_of(session: JmsSession, connect: Connect, *texts: str) -> MessageConsumer:
    """Return a consumer of a queue to which another session has sent these."""
    queue = session.create_queue("orders")
    send_texts(connect().create_session(), queue, *texts)
    return session.create_consumer(queue)


def left_in_orders(connect: Connect) -> list[str | None]:
    """Return what another client finds there in the end."""
    session = connect().create_session()
    return drain(session.create_consumer(session.create_queue("orders")))


def find_full(wrapped: Wrapped, asked: str, call: Callable[[], object]) -> None:
    """Make a call that fails, as the disk is full when the provider is `asked`."""
    wrapped.before[asked] = raising(full())
    with pytest.raises(JMSException, match="full"):
        call()


class TestListenersThatRaise:
    @pytest.mark.parametrize("mode", BY_THEMSELVES)
    @pytest.mark.parametrize("times", [1, 2])
    def test_the_message_comes_again(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect, mode: int, times: int
    ) -> None:
        """Twice: neither could the provider be asked to try the message again, nor to take it back."""
        session = failing_connection.create_session(False, mode)
        queue = session.create_queue("orders")

        def raise_once(message: Message) -> None:
            if text_of(message) == "bad" and not message.jms_redelivered:
                wrapped.before["recover"] = raising(full(), times)
                raise ValueError("once")

        recorder = Recorder(raise_once)
        session.create_consumer(queue).message_listener = recorder
        sending = connect().create_session()
        send_texts(sending, queue, "bad")
        recorder.wait_for(1)
        # As many as DUPS_OK settles at once, so that what failed would be settled with them.
        others = [str(number) for number in range(2 * DUPS_OK_BATCH)]
        send_texts(sending, queue, *others)
        texts = recorder.wait_for(len(others) + 2)
        assert sorted(map(str, texts)) == sorted(["bad", "bad", *others])
        failing_connection.close()
        assert drain(connect().create_session().create_consumer(queue)) == []


class TestByHand:
    @pytest.mark.parametrize("mode", [Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE])
    def test_recover_can_be_called_again(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect, mode: int
    ) -> None:
        session = failing_connection.create_session(False, mode)
        consumer = consumer_of(session, connect, "one", "two")
        assert take_texts(consumer, 2) == ["one", "two"]
        find_full(wrapped, "recover", session.recover)
        session.recover()
        assert take_texts(consumer, 2) == ["one", "two"]

    def test_after_a_recover_that_failed_the_client_still_has_its_messages(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect
    ) -> None:
        session = failing_connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        message = take(consumer_of(session, connect, "one"))
        find_full(wrapped, "recover", session.recover)
        message.acknowledge()
        session.close()
        assert left_in_orders(connect) == []

    @pytest.mark.parametrize("call", ["rollback", "recover"])
    def test_rollback_can_be_called_again(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect, call: str
    ) -> None:
        session = failing_connection.create_session(True, Session.SESSION_TRANSACTED)
        consumer, bills = consumer_of(session, connect, "one"), session.create_queue("bills")
        take(consumer)
        send_texts(session, bills, "bill for one")
        find_full(wrapped, call, session.rollback)
        session.rollback()
        assert take_texts(consumer, 1) == ["one"]
        session.commit()
        assert drain(connect().create_session().create_consumer(bills)) == []

    @pytest.mark.parametrize("call", ["rollback", "recover"])
    def test_rollback_of_what_failed_can_be_called_again(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect, call: str
    ) -> None:
        """It came when the session was closed."""
        session = failing_connection.create_session(True, Session.SESSION_TRANSACTED)
        session.failure = "it could not be served"
        consumer = consumer_of(session, connect, "one", "two")
        take_texts(consumer, 2)
        find_full(wrapped, call, session.rollback)
        session.rollback()
        assert take_texts(consumer, 2) == ["one", "two"]

    def test_rollback_of_what_failed_gives_back_what_no_client_has_seen(
        self, failing_connection: JmsConnection, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A receive was interrupted that had taken it."""
        session = failing_connection.create_session(True, Session.SESSION_TRANSACTED)
        session.failure = "it could not be served"
        consumer = consumer_of(session, connect, "one", "two")
        assert take_texts(consumer, 1) == ["one"]
        fail = raising(Interrupted())
        with monkeypatch.context() as patch, pytest.raises(JMSException):
            patch.setattr("pyjms.runtime.session.thaw", lambda *_: fail())
            consumer.receive_no_wait()
        session.rollback()
        assert take_texts(consumer, 2) == ["one", "two"]

    def test_a_commit_after_a_rollback_that_failed_halfway_settles_nothing(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect
    ) -> None:
        """What was sent in answer is gone: the message must not be."""
        session = failing_connection.create_session(True, Session.SESSION_TRANSACTED)
        take(consumer_of(session, connect, "one"))
        find_full(wrapped, "recover", session.rollback)
        session.commit()
        session.close()
        assert left_in_orders(connect) == ["one"]

    @pytest.mark.parametrize("mode", BY_THEMSELVES)
    def test_a_receive_that_failed_gives_back_before_the_next_one(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect, mode: int
    ) -> None:
        session = failing_connection.create_session(False, mode)
        texts = [str(number) for number in range(DUPS_OK_BATCH)]
        consumer = consumer_of(session, connect, *texts)
        wrapped.before["acknowledge"] = raising(full())
        find_full(wrapped, "recover", lambda: take_texts(consumer, DUPS_OK_BATCH))
        assert text_of(take(consumer)) == ("0" if mode == Session.AUTO_ACKNOWLEDGE else texts[-1])


class TestServerSessions:
    @pytest.mark.parametrize("at", ["the pool", "the start"])
    def test_what_a_consumer_could_not_give_back_comes_later(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect, at: str
    ) -> None:
        problems, recorder, sending = Problems(), Recorder(), connect().create_session()
        failing_connection.exception_listener = problems
        queue = sending.create_queue("orders")
        pool = Pool(failing_connection, feeding(recorder))
        server_session, left = pool.free.queue[0], [True]

        def fail_once() -> None:
            if left:
                left.clear()
                wrapped.before["recover"] = raising(full())
                if at == "the start":
                    pool.free.put(server_session)
                raise RuntimeError("no thread")

        if at == "the pool":
            pool.hook = fail_once
        else:
            pool.each(fail_once)
        failing_connection.create_connection_consumer(queue, None, pool, 2)
        send_texts(sending, queue, "one", "two")
        told = [str(each) for each in problems.wait_for(2)]
        assert any("RuntimeError: no thread" in each for each in told)
        assert any("full" in each for each in told)
        if at == "the start":
            session = server_session.session
            assert isinstance(session, JmsSession)
            eventually(lambda: session.unacked.pending_release, "the release of what the session holds is pending")
            session.recover()
        failing_connection.stop()
        failing_connection.start()
        assert recorder.wait_for(2) == ["one", "two"]
        pool.join()


class TestUnexpected:
    """A provider raises what it must not raise: nothing is lost sight of."""

    @pytest.mark.parametrize("call", ["acknowledge", "recover"])
    @pytest.mark.parametrize("then", ["acknowledge", "recover"])
    def test_what_the_client_has_it_may_acknowledge_or_recover(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect, call: str, then: str
    ) -> None:
        session = failing_connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        send_texts(connect().create_session(), queue, "one", "two")
        consumer = session.create_consumer(queue)
        message = [take(consumer), take(consumer)][-1]
        calls = {"acknowledge": message.acknowledge, "recover": session.recover}
        wrapped.before[call] = raising(Interrupted())
        with pytest.raises(Interrupted):
            calls[call]()
        calls[then]()
        assert drain(consumer) == ([] if then == "acknowledge" else ["one", "two"])
        session.close()
        assert left_over(connect) == ([] if then == "acknowledge" else ["one", "two"])

    @pytest.mark.parametrize("at", ["acknowledge", "commit", "rollback", "recover"])
    @pytest.mark.parametrize("then", ["commit", "rollback"])
    def test_a_transaction_can_be_ended_again(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect, at: str, then: str
    ) -> None:
        session = failing_connection.create_session(True, Session.SESSION_TRANSACTED)
        queue, bills = session.create_queue("orders"), session.create_queue("bills")
        send_texts(connect().create_session(), queue, "one")
        consumer = session.create_consumer(queue)
        take(consumer)
        send_texts(session, bills, "bill for one")
        wrapped.before[at] = raising(Interrupted())
        with pytest.raises(Interrupted):
            session.commit() if at in ("acknowledge", "commit") else session.rollback()
        session.commit() if then == "commit" else session.rollback()
        comes_again = then == "rollback" or at in ("rollback", "recover")
        assert drain(consumer) == (["one"] if comes_again else [])
        failing_connection.close()
        is_sent = then == "commit" and at != "recover"  # that is, when it was rolled back already
        is_settled = is_sent and at != "rollback"  # nobody knows then whether it was, so it must come again
        assert left_over(connect, "bills") == (["bill for one"] if is_sent else [])
        assert left_over(connect) == ([] if is_settled else ["one"])

    def test_a_commit_that_is_repeated_acknowledges_nothing_twice(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Some message systems take that for an error, and end the connection."""
        session = failing_connection.create_session(True, Session.SESSION_TRANSACTED)
        queue = session.create_queue("orders")
        send_texts(connect().create_session(), queue, "one", "two")
        consumer = session.create_consumer(queue)
        acknowledged: list[object] = []
        acknowledge = session.provider_session.acknowledge

        def note(deliveries: Sequence[Delivery]) -> None:
            acknowledged.extend(deliveries)
            acknowledge(deliveries)

        monkeypatch.setattr(session.provider_session, "acknowledge", note)
        take(consumer)
        wrapped.before["commit"] = raising(Interrupted())
        with pytest.raises(Interrupted):
            session.commit()
        take(consumer)
        session.commit()
        assert len(acknowledged) == 2
        session.rollback()
        assert drain(consumer) == []
