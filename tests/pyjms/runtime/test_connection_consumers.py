"""Connection consumers with the session pools of an application server (JMS 1.1 §8.2)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest

from pyjms import (
    IllegalArgumentException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Message,
    ServerSession,
    Session,
)
from pyjms.messages.destinations import JmsQueue, JmsTopic
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi import Capability
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    PATIENCE_S,
    Call,
    Recorder,
    await_event,
    drain,
    eventually,
    holding,
    send_texts,
    take,
    text_of,
    within_patience,
)
from tests.pyjms.runtime.server_pool import Pool, feeding
from tests.pyjms.runtime.wrapping import Wrapped

AUTO, CLIENT, DUPS_OK = Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE


@pytest.fixture
def sending(connect: Connect) -> Session:
    """A session of somebody else."""
    return connect().create_session()


def left_over(session: Session) -> list[str | None]:
    """Return what is on the queue."""
    return drain(session.create_consumer(session.create_queue("orders")))


class Timed(ServerSession):
    """A class with fields named as in Java, one of which hides a method."""

    def __init__(self, session: Session, started: object = 12.5) -> None:
        self.session = session  # type: ignore[misc]
        if started is not None:
            self.start = started  # type: ignore[assignment, method-assign]

    def getSession(self) -> Session:
        return self.session

    def start(self) -> None:
        Thread(target=self.session.run, daemon=True).start()


class TestDelivery:
    def test_a_server_session_with_a_field_named_as_its_getter(self, connect: Connect, sending: Session) -> None:
        connection, recorder = connect(), Recorder()
        queue = sending.create_queue("orders")
        pool: Any = Pool(connection, feeding(recorder))
        pool.get_server_session = lambda: Timed(pool.sessions[0], None)
        connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "espresso")
        assert recorder.wait_for(1) == ["espresso"]

    @pytest.mark.parametrize("number", [1, 3])
    @pytest.mark.parametrize("max_messages", [1, 4, 100])
    def test_all_messages_come_once(self, connect: Connect, sending: Session, number: int, max_messages: int) -> None:
        connection, recorder = connect(), Recorder()
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder), number)
        consumer = connection.create_connection_consumer(queue, None, pool, max_messages)
        assert consumer.server_session_pool is pool
        assert consumer.getServerSessionPool() is pool
        texts = [str(each) for each in range(100)]
        send_texts(sending, queue, *texts)
        assert Counter(recorder.wait_for(100)) == Counter(texts)
        pool.join()
        consumer.close()
        connection.close()
        assert left_over(sending) == []

    def test_one_session_keeps_the_order(self, connect: Connect, sending: Session) -> None:
        connection, recorder = connect(), Recorder()
        queue = sending.create_queue("orders")
        connection.create_connection_consumer(queue, None, Pool(connection, feeding(recorder)), 7)
        texts = [str(each) for each in range(60)]
        send_texts(sending, queue, *texts)
        assert recorder.wait_for(60) == texts

    def test_no_more_than_asked_for_at_a_time(self, connect: Connect, sending: Session) -> None:
        connection, sizes = connect(started=False), list[int]()
        queue = sending.create_queue("orders")
        recorder = Recorder()
        pool = Pool(connection, feeding(recorder))
        connection.create_connection_consumer(queue, None, pool, 4)
        send_texts(sending, queue, *map(str, range(10)))
        session: Any = pool.sessions[0]
        run = session.run

        def counted() -> None:
            before = len(recorder.texts)
            run()
            sizes.append(len(recorder.texts) - before)

        session.run = counted
        connection.start()
        recorder.wait_for(10)
        pool.join()
        assert sum(sizes) == 10
        assert max(sizes) <= 4

    def test_nothing_before_the_start(self, connect: Connect, sending: Session) -> None:
        connection, recorder = connect(started=False), Recorder()
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder))
        connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "espresso")
        assert pool.taken == 0
        connection.start()
        assert recorder.wait_for(1) == ["espresso"]

    def test_messages_that_were_there_before(self, connect: Connect, sending: Session) -> None:
        connection, recorder = connect(), Recorder()
        queue = sending.create_queue("orders")
        send_texts(sending, queue, "one", "two")
        connection.create_connection_consumer(queue, None, Pool(connection, feeding(recorder)), 1)
        assert recorder.wait_for(2) == ["one", "two"]

    def test_a_selector(self, connect: Connect, sending: Session) -> None:
        connection, recorder = connect(), Recorder()
        queue = sending.create_queue("orders")
        connection.create_connection_consumer(queue, "JMSPriority > 4", Pool(connection, feeding(recorder)), 1)
        send_texts(sending, queue, "low", priority=1)
        send_texts(sending, queue, "high", priority=9)
        assert recorder.wait_for(1) == ["high"]
        assert left_over(sending) == ["low"]

    def test_a_topic(self, connect: Connect, sending: Session) -> None:
        connection, recorder = connect(), Recorder()
        topic = sending.create_topic("prices")
        connection.create_connection_consumer(topic, None, Pool(connection, feeding(recorder)), 2)
        send_texts(sending, topic, "one", "two")
        assert recorder.wait_for(2) == ["one", "two"]

    def test_a_durable_subscription(self, connect: Connect, sending: Session) -> None:
        topic, recorder = sending.create_topic("prices"), Recorder()
        connection = connect("server")
        consumer = connection.create_durable_connection_consumer(
            topic, "all", None, Pool(connection, feeding(Recorder())), 1
        )
        with pytest.raises(JMSException):
            connection.create_session().create_durable_subscriber(topic, "all")
        consumer.close()
        send_texts(sending, topic, "kept")
        connection.create_durable_connection_consumer(topic, "all", None, Pool(connection, feeding(recorder)), 1)
        send_texts(sending, topic, "new")
        assert recorder.wait_for(2) == ["kept", "new"]

    @pytest.mark.realises("BOIL-DOM-4")
    @pytest.mark.parametrize("domain", ["queue", "topic"])
    def test_in_the_domains(self, jms_connection_factory: ConnectionFactory, sending: Session, domain: str) -> None:
        recorder = Recorder()
        with getattr(jms_connection_factory, f"create_{domain}_connection")() as connection:
            connection.start()
            pool = Pool(connection, feeding(recorder))
            destination: Any = getattr(sending, f"create_{domain}")("orders")
            connection.create_connection_consumer(
                **{domain: destination}, message_selector=None, session_pool=pool, max_messages=1
            )
            send_texts(sending, destination, "espresso")
            assert recorder.wait_for(1) == ["espresso"]


class TestRefused:
    @pytest.mark.parametrize("how", ["class", "hidden"])
    def test_a_pool_that_cannot_be_asked(self, connect: Connect, sending: Session, how: str) -> None:
        connection, queue = connect(), sending.create_queue("orders")
        pool: Any = Pool
        if how == "hidden":
            pool = Pool(connection, feeding(Recorder()))
            pool.get_server_session = 5
        with pytest.raises(
            (JMSException, IllegalArgumentException), match=r"give an object|hides the method"
        ) as raised:
            connection.create_connection_consumer(queue, None, pool, 1)
        assert "Pool" in str(raised.value)

    @pytest.mark.parametrize(
        ("make", "reason"),
        [
            (lambda session: None, r"getServerSession\(\) returned None"),
            (lambda session: Timed, "returned the class Timed, not an object of it"),
            (Timed, r"Timed has a field start, which hides the method start\(\) of ServerSession: .* _start"),
        ],
        ids=["None", "class", "hidden method"],
    )
    def test_a_server_session_that_cannot_be_started_is_told_and_nothing_is_lost(
        self, connect: Connect, sending: Session, make: Callable[[Session], Any], reason: str
    ) -> None:
        connection = connect()
        queue = sending.create_queue("orders")
        pool: Any = Pool(connection, feeding(Recorder()))
        pool.get_server_session = lambda: make(pool.sessions[0])
        heard: list[JMSException] = []
        is_heard = Event()

        def hear(error: JMSException) -> None:
            heard.append(error)
            is_heard.set()

        connection.exception_listener = hear
        connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "kept")
        await_event(is_heard)
        connection.close()
        assert re.search(reason, str(heard[0]))
        assert left_over(sending) == ["kept"]

    @pytest.mark.realises("BOIL-PUB-4")
    @pytest.mark.parametrize("wrong", ["", None, 5, b"all"])
    def test_a_durable_one_needs_a_name(self, connect: Connect, sending: Session, wrong: Any) -> None:
        """Without one it would be a plain subscriber, and what is published while it is closed would be lost."""
        connection, topic = connect("server"), sending.create_topic("prices")
        pool = Pool(connection, feeding(Recorder()))
        with pytest.raises(JMSException, match="subscription name"):
            connection.create_durable_connection_consumer(topic, wrong, None, pool, 1)

    def test_a_temporary_topic_has_no_durable_one(self, connect: Connect) -> None:
        connection = connect("server")
        topic, pool = connection.create_session().create_temporary_topic(), Pool(connection, feeding(Recorder()))
        with pytest.raises(InvalidDestinationException, match="temporary"):
            connection.create_durable_connection_consumer(topic, "all", None, pool, 1)

    def test_a_durable_one_needs_a_client_id(self, connect: Connect, sending: Session) -> None:
        connection, topic = connect(), sending.create_topic("prices")
        pool = Pool(connection, feeding(Recorder()))
        with pytest.raises(IllegalStateException, match=r"connection consumer.*client_id"):
            connection.create_durable_connection_consumer(topic, "all", None, pool, 1)

    @pytest.mark.parametrize("lacking", [Capability.TOPICS, Capability.SELECTORS])
    def test_what_the_provider_lacks_is_named(self, jms_broker_url: str, lacking: Capability) -> None:
        with Wrapped(jms_broker_url, remove=lacking) as wrapped:
            connection = ConnectionFactory(wrapped.url).create_connection()
            pool = Pool(connection, feeding(Recorder()))
            with pytest.raises(JMSException, match=lacking.name):
                connection.create_connection_consumer(JmsTopic("prices"), "cups > 1", pool, 1)
            within_patience(connection.close)

    @pytest.mark.parametrize("wrong", ["selector", "destination", "name in use"])
    def test_nothing_stays_open_at_the_provider(self, wrapped: Wrapped, wrong: str) -> None:
        connection = ConnectionFactory(wrapped.url, client_id="server").create_connection()
        session, pool = connection.create_session(), Pool(connection, feeding(Recorder()))
        topic = session.create_topic("prices")
        session.create_durable_subscriber(topic, "all")
        wrapped.calls.clear()
        with pytest.raises(JMSException):
            if wrong == "selector":
                connection.create_connection_consumer(topic, "cups >", pool, 1)
            elif wrong == "destination":
                connection.create_connection_consumer(None, None, pool, 1)  # type: ignore[arg-type]
            else:
                connection.create_durable_connection_consumer(topic, "all", None, pool, 1)
        assert wrapped.calls.count("open_session") == wrapped.calls.count("session.close")
        within_patience(connection.close)

    def test_its_priority_is_that_of_the_connection(self, wrapped: Wrapped) -> None:
        connection = ConnectionFactory(wrapped.url, consumer_priority=3).create_connection()
        connection.create_connection_consumer(JmsQueue("orders"), None, Pool(connection, feeding(Recorder())), 1)
        assert [request.priority for request in wrapped.subscribed] == [3]
        within_patience(connection.close)


class TestModes:
    @pytest.mark.realises("BOIL-LSN-1", "BOIL-HDR-7")
    @pytest.mark.parametrize("mode", [AUTO, DUPS_OK])
    def test_a_listener_that_raises_gets_it_again(self, connect: Connect, sending: Session, mode: int) -> None:
        left = [2]

        def work(message: Message) -> None:
            if text_of(message) == "bad" and left[0]:
                left[0] -= 1
                raise RuntimeError("no")

        connection, recorder = connect(), Recorder(work)
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder), mode=mode)
        connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "bad", "next")
        assert Counter(recorder.wait_for(4)) == Counter(["bad", "bad", "bad", "next"])
        assert sorted(recorder.counts) == [1, 1, 2, 3]
        pool.join()
        connection.close()
        assert left_over(sending) == []

    @pytest.mark.realises("BOIL-ACK-3")
    def test_client_acknowledge(self, connect: Connect, sending: Session) -> None:
        connection = connect()
        recorder = Recorder(lambda message: message.acknowledge() if text_of(message) == "two" else None)
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder), mode=CLIENT)
        connection.create_connection_consumer(queue, None, pool, 3)
        send_texts(sending, queue, "one", "two", "three")
        recorder.wait_for(3)
        pool.join()
        connection.close()
        assert left_over(sending) == ["three"]

    @pytest.mark.realises("BOIL-TX-1", "BOIL-TX-2", "BOIL-ACK-9")
    def test_transacted(self, connect: Connect, sending: Session) -> None:
        connection, rolled_back = connect(), list[bool]()
        orders, bills = sending.create_queue("orders"), sending.create_queue("bills")

        def make(session: Session) -> Callable[[Message], None]:
            def work(message: Message) -> None:
                send_texts(session, bills, f"bill for {text_of(message)}")
                if text_of(message) == "bad" and not rolled_back:
                    rolled_back.append(True)
                    session.rollback()
                else:
                    session.commit()

            return work

        pool = Pool(connection, make, number=2, transacted=True, mode=0)
        connection.create_connection_consumer(orders, None, pool, 1)
        send_texts(sending, orders, "good", "bad", "better")
        consumer = sending.create_consumer(bills)
        got = [text_of(take(consumer)) for _ in range(3)]
        assert Counter(got) == Counter(f"bill for {each}" for each in ("good", "bad", "better"))
        pool.join()
        connection.close()
        assert drain(consumer) == []
        assert left_over(sending) == []

    @pytest.mark.realises("BOIL-CONN-13", "BOIL-TX-2")
    def test_what_is_not_committed_is_rolled_back_at_the_close(self, connect: Connect, sending: Session) -> None:
        connection, recorder = connect(), Recorder()
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder), transacted=True, mode=0)
        connection.create_connection_consumer(queue, None, pool, 5)
        send_texts(sending, queue, "one", "two")
        recorder.wait_for(2)
        pool.join()
        within_patience(connection.close)
        consumer = sending.create_consumer(queue)
        messages = [take(consumer) for _ in range(2)]
        assert [(text_of(each), each.jms_redelivered) for each in messages] == [("one", True), ("two", True)]


class TestStopping:
    @pytest.mark.realises("BOIL-CONN-6", "BOIL-CONN-8")
    def test_stop_waits_for_the_listener_and_holds_the_rest(
        self, connect: Connect, sending: Session, latch: Callable[[], Event]
    ) -> None:
        connection, release, running = connect(), latch(), Event()

        def work(message: Message) -> None:
            running.set()
            release.wait(PATIENCE_S)

        recorder = Recorder(work)
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder))
        send_texts(sending, queue, "one", "two", "three")
        connection.create_connection_consumer(queue, None, pool, 3)
        await_event(running)
        stopping = Call(connection.stop)
        assert stopping.is_blocked()
        release.set()
        stopping.result()
        got = len(recorder.texts)
        Event().wait(0.05)
        assert len(recorder.texts) == got == 1, "messages came while the connection was stopped"
        connection.start()
        assert Counter(recorder.wait_for(3)) == Counter(["one", "two", "three"])

    @pytest.mark.realises("BOIL-CONN-6", "BOIL-CONN-8")
    def test_a_pool_that_was_slow_delivers_nothing_while_stopped(
        self, connect: Connect, sending: Session, latch: Callable[[], Event]
    ) -> None:
        connection, recorder, release, asked = connect(), Recorder(), latch(), Event()
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder))
        pool.hook = holding(asked, release)
        connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "espresso")
        await_event(asked)
        stopping = Call(connection.stop)
        stopping.is_blocked()
        release.set()
        stopping.result()
        Event().wait(0.05)
        assert recorder.texts == []
        connection.start()
        assert recorder.wait_for(1) == ["espresso"]
        pool.join()
        connection.close()
        assert left_over(sending) == []


class TestClosing:
    @pytest.mark.realises("BOIL-CONN-12")
    def test_the_rest_stays_on_the_queue(self, connect: Connect, sending: Session) -> None:
        connection, recorder = connect(), Recorder()
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder))
        consumer = connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "one")
        recorder.wait_for(1)
        pool.join()
        within_patience(consumer.close)
        send_texts(sending, queue, "two")
        assert left_over(sending) == ["two"]
        assert recorder.texts == ["one"]

    @pytest.mark.parametrize("closes", ["consumer", "connection"])
    def test_while_the_pool_blocks(
        self, connect: Connect, sending: Session, latch: Callable[[], Event], closes: str
    ) -> None:
        connection, recorder, release, asked = connect(), Recorder(), latch(), Event()
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder))
        pool.hook = holding(asked, release)
        consumer = connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "espresso")
        await_event(asked)
        within_patience((consumer if closes == "consumer" else connection).close)
        again = take(sending.create_consumer(queue))
        assert (text_of(again), again.jms_redelivered) == ("espresso", True)
        release.set()
        pool.join()
        assert recorder.texts == []

    @pytest.mark.realises("BOIL-CONN-11")
    def test_the_connection_waits_for_a_session_that_runs(
        self, connect: Connect, sending: Session, latch: Callable[[], Event]
    ) -> None:
        connection, release, running, returned = connect(), latch(), Event(), Event()

        def work(message: Message) -> None:
            running.set()
            release.wait(PATIENCE_S)
            returned.set()

        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(work))
        connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "espresso")
        await_event(running)
        closing = Call(connection.close)
        assert closing.is_blocked()
        release.set()
        closing.result()
        assert returned.is_set()
        pool.join()
        assert left_over(sending) == []

    @pytest.mark.realises("BOIL-CONN-11")
    def test_the_listener_of_a_run_cannot_wait_for_itself(self, connect: Connect, sending: Session) -> None:
        connection, raised = connect(), list[type]()

        def make(session: Session) -> Callable[[Message], None]:
            def work(message: Message) -> None:
                for action in (connection.stop, connection.close, session.close):
                    try:
                        action()
                    except JMSException as error:
                        raised.append(type(error))

            return work

        queue = sending.create_queue("orders")
        pool = Pool(connection, make)
        connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "espresso")
        eventually(lambda: len(raised) == 3, "the listener has tried")
        assert raised == [IllegalStateException] * 3
        pool.join()

    @pytest.mark.realises("BOIL-ACK-8")
    def test_a_close_in_the_middle_of_a_run_gives_the_rest_back(
        self, connect: Connect, sending: Session, latch: Callable[[], Event]
    ) -> None:
        connection, release, running = connect(), latch(), Event()

        def work(message: Message) -> None:
            running.set()
            release.wait(PATIENCE_S)

        recorder = Recorder(work)
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder))
        send_texts(sending, queue, "one", "two", "three")
        connection.create_connection_consumer(queue, None, pool, 3)
        await_event(running)
        closing = Call(connection.close)
        assert closing.is_blocked()
        release.set()
        closing.result()
        pool.join()
        assert recorder.texts == ["one"]
        assert left_over(sending) == ["two", "three"]
