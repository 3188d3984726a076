"""Moments at which clients break: listeners that wait for others, interrupts, lost brokers, limits of numbers, leaks."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from threading import Event, Lock, main_thread
from typing import Any

import pytest
from freezegun import freeze_time

from pyjms import IllegalStateException, JMSException, Message, QueueRequestor, Session
from pyjms.runtime import consumer as consumer_module
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi import SystemClock
from pyjms.testing import Fault, Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    PATIENCE_S,
    Call,
    Interrupted,
    Recorder,
    WatchedClock,
    await_event,
    drain,
    eventually,
    holding,
    send_texts,
    take,
    take_texts,
    text_of,
    within_patience,
)
from tests.pyjms.runtime.server_pool import Pool, feeding
from tests.pyjms.runtime.wrapping import Wrapped

LONGEST = 2**63 - 1


class TestListenersThatWait:
    """A listener that waits for a message in another session of its connection must not hold up the close."""

    @pytest.mark.realises("BOIL-CONN-9", "BOIL-CONN-10", "BOIL-CONN-11")
    @pytest.mark.parametrize("first", ["listening", "receiving"])
    @pytest.mark.parametrize("timeout", [(), (3_600_000,)], ids=["for ever", "for an hour"])
    def test_in_a_receive(self, connect: Connect, first: str, timeout: tuple[int, ...]) -> None:
        connection, got, inside = connect(started=False), list[object](), Event()
        sessions = [connection.create_session() for _ in range(2)]
        listening, receiving = sessions if first == "listening" else reversed(sessions)
        replies = receiving.create_consumer(receiving.create_queue("replies"))

        def work(message: Message) -> None:
            inside.set()
            got.append(replies.receive(*timeout))

        queue = listening.create_queue("orders")
        listening.create_consumer(queue).message_listener = work
        connection.start()
        send_texts(connect().create_session(), queue, "espresso")
        await_event(inside)
        within_patience(connection.close)
        assert got == [None]

    @pytest.mark.realises("BOIL-CONN-9", "BOIL-CONN-11")
    def test_in_a_request(self, jms_connection_factory: ConnectionFactory, connect: Connect) -> None:
        connection, got, inside = jms_connection_factory.create_queue_connection(), list[object](), Event()
        listening, asking = connection.create_queue_session(), connection.create_queue_session()
        requestor = QueueRequestor(asking, asking.create_queue("nobody answers"))

        def work(message: Message) -> None:
            inside.set()
            got.append(requestor.request(asking.create_text_message("how much?")))

        queue = listening.create_queue("orders")
        listening.create_receiver(queue).message_listener = work
        connection.start()
        send_texts(connect().create_session(), queue, "espresso")
        await_event(inside)
        within_patience(connection.close)
        assert got == [None]

    @pytest.mark.realises("BOIL-CONN-8", "BOIL-CONN-6")
    def test_with_a_timeout_in_a_stop(self, virtual_clock: WatchedClock, connect: Connect) -> None:
        connection, inside = connect(started=False), Event()
        listening, receiving = connection.create_session(), connection.create_session()
        replies = receiving.create_consumer(receiving.create_queue("replies"))

        def work(message: Message) -> None:
            inside.set()
            replies.receive(1000)

        recorder = Recorder(work)
        queue = listening.create_queue("orders")
        listening.create_consumer(queue).message_listener = recorder
        connection.start()
        send_texts(connect().create_session(), queue, "espresso")
        await_event(inside)
        virtual_clock.await_wait(1000)
        stopping = Call(connection.stop)
        assert stopping.is_blocked()
        virtual_clock.advance(1000)
        stopping.result()

    @pytest.mark.realises("BOIL-SESS-6")
    def test_two_connections_whose_listeners_wait_for_each_other(self, connect: Connect) -> None:
        """Each listener waits for what the other connection never sends; both connections close."""
        connections = [connect(started=False) for _ in range(2)]
        inside, sending = [Event(), Event()], connect().create_session()
        for number, connection in enumerate(connections):
            listening, receiving = connection.create_session(), connection.create_session()
            other = receiving.create_consumer(receiving.create_queue(f"from-{1 - number}"))

            def work(message: Message, other: Any = other, number: int = number) -> None:
                inside[number].set()
                other.receive()

            queue = listening.create_queue(f"orders-{number}")
            listening.create_consumer(queue).message_listener = work
            connection.start()
            send_texts(sending, queue, "espresso")
        for event in inside:
            await_event(event)
        for connection in connections:
            within_patience(connection.close)


class TestInterrupts:
    @pytest.fixture
    def interrupt(self) -> Iterator[Callable[[], None]]:
        """Interrupt the main thread as Ctrl-C does, once, at whatever it waits for."""
        armed, lock = [True], Lock()

        def handle(*_: object) -> None:
            if armed:
                armed.clear()
                raise Interrupted

        def send() -> None:
            pause = Event()
            while armed:  # a signal just before the wait does not end it
                with lock:
                    if armed:
                        signal.pthread_kill(main_thread().ident or 0, signal.SIGUSR1)
                pause.wait(0.01)

        before = signal.signal(signal.SIGUSR1, handle)
        yield send
        armed.clear()
        with lock:
            signal.signal(signal.SIGUSR1, before)

    def test_an_interrupted_receive_leaves_the_session_usable(
        self, virtual_clock: WatchedClock, session: Session, connect: Connect, interrupt: Callable[[], None]
    ) -> None:
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)

        def wait_and_interrupt() -> None:
            virtual_clock.await_thread(main_thread())
            interrupt()

        interrupting = Call(wait_and_interrupt)
        with pytest.raises(Interrupted):
            consumer.receive()
        interrupting.result()
        send_texts(connect().create_session(), queue, "one", "two")
        assert take_texts(consumer, 2) == ["one", "two"]
        waiting = Call(consumer.receive)
        virtual_clock.await_blocked(waiting)
        within_patience(session.close)
        assert waiting.result() is None

    def test_an_interrupt_just_before_the_wait_leaves_no_trace(
        self, session: Session, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)

        def interrupt(*_: object) -> None:
            monkeypatch.undo()
            raise Interrupted

        monkeypatch.setattr(consumer_module.JmsMessageConsumer, "_wait", interrupt)
        with pytest.raises(Interrupted):
            consumer.receive(1000)
        sending = Call(send_texts, connect().create_session(), queue, "espresso")
        assert text_of(consumer.receive(10_000)) == "espresso"
        sending.result()
        within_patience(session.close)

    @pytest.mark.realises("BOIL-CONN-12")
    def test_who_is_interrupted_in_the_close_of_a_session_may_close_the_connection(self, wrapped: Wrapped) -> None:
        """As the handler of a signal does."""
        connection = ConnectionFactory(wrapped.url).create_connection()
        session, other = connection.create_session(), connection.create_session()

        def handle() -> None:
            wrapped.before.clear()
            connection.close()

        wrapped.before["session.close"] = handle
        within_patience(session.close)
        assert wrapped.calls.count("session.close") == 2
        for each in (session, other, connection):
            with pytest.raises(IllegalStateException, match="closed"):
                each.create_message() if isinstance(each, Session) else each.create_session()

    def test_an_interrupted_close_can_be_repeated(
        self, connect: Connect, latch: Callable[[], Event], interrupt: Callable[[], None]
    ) -> None:
        """Who gives up waiting for a listener that hangs can close again when it has ended."""
        connection, release, running = connect(started=False), latch(), Event()
        session = connection.create_session(True, 0)
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = holding(running, release)
        connection.start()
        other = connect().create_session()
        send_texts(other, queue, "espresso")
        await_event(running)

        def wait_and_interrupt() -> None:
            eventually(lambda: session.is_closing, "the close has begun")
            interrupt()

        interrupting = Call(wait_and_interrupt)
        with pytest.raises(Interrupted):
            connection.close()
        interrupting.result()
        release.set()
        within_patience(connection.close)
        again = take(other.create_consumer(queue))
        assert (text_of(again), again.jms_redelivered) == ("espresso", True)
        with pytest.raises(IllegalStateException):
            session.create_message()


class TestNumbers:
    def test_the_longest_timeout(self, session: Session) -> None:
        """Java programs write Long.MAX_VALUE."""
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        waiting = Call(consumer.receive, LONGEST)
        assert waiting.is_blocked()
        within_patience(session.close)
        assert waiting.result() is None

    def test_a_real_timeout_is_not_too_short(self, session: Session) -> None:
        clock = SystemClock()
        consumer = session.create_consumer(session.create_queue("orders"))
        begun = clock.monotonic_ms()
        assert consumer.receive(30) is None
        assert clock.monotonic_ms() - begun >= 29

    def test_in_frozen_time_a_timeout_still_ends(self, jms_broker_url: str) -> None:
        with freeze_time("2026-05-17"), ConnectionFactory(jms_broker_url).create_connection() as connection:
            connection.start()
            session = connection.create_session()
            queue = session.create_queue("orders")
            consumer = session.create_consumer(queue)
            assert within_patience(consumer.receive, 20) is None
            waiting = Call(consumer.receive, 5000)
            assert waiting.is_blocked()
            send_texts(connection.create_session(), queue, "espresso")
            assert text_of(waiting.result()) == "espresso"

    @pytest.mark.realises("BOIL-HDR-9")
    def test_the_longest_life(self, session: Session) -> None:
        """Its end lies beyond what a long can say; the message is refused, or lives as long as a long can say."""
        queue = session.create_queue("orders")
        message = session.create_text_message("espresso")
        try:
            session.create_producer(queue).send(message, 2, 4, LONGEST)
        except JMSException:
            assert drain(session.create_consumer(queue)) == []
        else:
            received = take(session.create_consumer(queue))
            assert 0 < received.jms_expiration <= LONGEST
            assert received.jms_expiration == message.jms_expiration

    def test_lives_that_no_long_can_say(self, session: Session) -> None:
        queue = session.create_queue("orders")
        with pytest.raises(JMSException):
            session.create_producer(queue).send(session.create_message(), 2, 4, LONGEST + 1)
        with pytest.raises(JMSException):
            session.create_producer(queue).time_to_live = LONGEST + 1


class TestLostBrokers:
    @pytest.mark.parametrize("busy", [False, True])
    def test_a_listeners_connection_closes(
        self, connect: Connect, stop_broker: Callable[[], None], latch: Callable[[], Event], busy: bool
    ) -> None:
        connection, release, running = connect(started=False), latch(), Event()
        session = connection.create_session()
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = holding(running, release)
        connection.start()
        if busy:
            send_texts(connect().create_session(), queue, "espresso")
            await_event(running)
        within_patience(stop_broker)
        closing = Call(connection.close)
        if busy:
            assert closing.is_blocked()
            release.set()
        closing.result()

    @pytest.mark.parametrize("how", ["stopped", "dropped"])
    def test_every_call_that_needs_it_raises(
        self, jms_faults: Faults, connect: Connect, stop_broker: Callable[[], None], how: str
    ) -> None:
        connection = connect("shop")
        session, transacted = connection.create_session(False, 2), connection.create_session(True, 0)
        queue, topic = session.create_queue("orders"), session.create_topic("prices")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        send_texts(session, queue, "espresso")
        message, browser = take(consumer), session.create_browser(queue)
        temporary = session.create_temporary_queue()
        if how == "stopped":
            stop_broker()
        else:
            jms_faults.drop_connections()
        calls: list[Callable[[], object]] = [
            lambda: producer.send(session.create_message()),
            lambda: transacted.create_producer(queue).send(transacted.create_message()),
            consumer.receive_no_wait,
            lambda: within_patience(consumer.receive),
            lambda: within_patience(consumer.receive, 60_000),
            message.acknowledge,
            session.recover,
            lambda: list(browser),
            lambda: session.create_consumer(queue),
            lambda: session.create_consumer(topic),
            lambda: session.create_durable_subscriber(topic, "all"),
            lambda: session.unsubscribe("all"),
            session.create_temporary_queue,
            session.create_temporary_topic,
            temporary.delete,
            connection.create_session,
            connection.start,
            connection.stop,
            transacted.commit,
            transacted.rollback,
        ]
        for call in calls:
            with pytest.raises(JMSException):
                call()
        for thing in (consumer, producer, browser, transacted, session, connection):
            within_patience(thing.close)

    @pytest.mark.realises("BOIL-CONN-9")
    def test_who_waits_and_who_listens_on_a_stopped_connection(self, jms_faults: Faults, connect: Connect) -> None:
        connection = connect(started=False)
        receiving = connection.create_session()
        waiting = Call(receiving.create_consumer(receiving.create_queue("orders")).receive)
        assert waiting.is_blocked()
        jms_faults.drop_connections()
        with pytest.raises(JMSException):
            waiting.result()

    def test_a_listener_in_the_middle_of_a_transaction(self, jms_faults: Faults, connect: Connect) -> None:
        connection, raised = connect(started=False), list[Exception]()
        session = connection.create_session(True, 0)
        queue = session.create_queue("orders")

        def work(message: Message) -> None:
            try:
                session.commit()
            except JMSException as error:
                raised.append(error)
                raise

        recorder = Recorder(work)
        session.create_consumer(queue).message_listener = recorder
        send_texts(connect().create_session(), queue, "espresso")
        jms_faults.inject(Fault.CONNECTION_DROPS_ON_COMMIT)
        connection.start()
        recorder.wait_for(1)
        eventually(lambda: raised, "the commit was refused")
        within_patience(connection.close)
        other = connect().create_session()
        again = take(other.create_consumer(queue))
        assert (text_of(again), again.jms_redelivered) == ("espresso", True)


def client_threads() -> set[threading.Thread]:
    """Return the client's threads that live."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("pyjms-")}


class TestLeaks:
    @pytest.mark.realises("BOIL-CONN-12")
    def test_a_closed_connection_leaves_no_thread(self, jms_faults: Faults, connect: Connect) -> None:
        before = set(threading.enumerate())
        connection, told, recorder = connect(), Event(), Recorder()
        connection.exception_listener = lambda exception: told.set()
        session = connection.create_session()
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = recorder
        connection.create_connection_consumer(
            session.create_queue("other"), None, Pool(connection, feeding(Recorder())), 1
        )
        send_texts(connection.create_session(), queue, "espresso")
        recorder.wait_for(1)
        jms_faults.drop_connections()
        await_event(told)
        within_patience(connection.close)
        eventually(lambda: not client_threads() - before, "no thread is left")

    @pytest.mark.realises("BOIL-SESS-6", "BOIL-CONN-12")
    def test_a_connection_keeps_nothing_of_what_was_closed(self, connection: JmsConnection) -> None:
        def use() -> list[weakref.ref[Any]]:
            session = connection.create_session()
            queue = session.create_queue("orders")
            with session.create_consumer(queue) as consumer, session.create_producer(queue) as producer:
                producer.send(session.create_text_message("espresso"))
                take(consumer)
            session.create_consumer(session.create_queue("other")).message_listener = Recorder()
            session.close()
            return [weakref.ref(session)]

        references = [reference for _ in range(20) for reference in use()]
        gc.collect()
        assert [reference() for reference in references] == [None] * 20

    def test_a_closed_session_cannot_be_kept_alive_by_its_messages_alone(self, connection: JmsConnection) -> None:
        """A message keeps what it needs to refuse acknowledge, not what its session held."""
        session = connection.create_session(False, 2)
        queue = session.create_queue("orders")
        send_texts(session, queue, "espresso")
        recorder = Recorder()
        with session.create_consumer(queue) as consumer:
            message = take(consumer)
        listening = session.create_consumer(session.create_queue("other"))
        listening.message_listener = recorder
        reference = weakref.ref(recorder)
        session.close()
        del session, listening, recorder, consumer
        gc.collect()
        assert text_of(message) == "espresso"
        with pytest.raises(IllegalStateException):
            message.acknowledge()
        assert reference() is None, "the listener of a closed session is still held"


@pytest.mark.realises("BOIL-PTP-4")
def test_browsing_while_others_take_and_send(connect: Connect) -> None:
    sending, browsing, receiving = (connect().create_session() for _ in range(3))
    queue = sending.create_queue("orders")
    send_texts(sending, queue, *map(str, range(300)))
    browser, consumer = browsing.create_browser(queue), receiving.create_consumer(queue)
    begun, stop = Event(), Event()

    def browse() -> None:
        while not stop.is_set():
            begun.set()
            numbers = [int(str(text_of(message))) for message in browser]
            assert numbers == sorted(numbers)
            assert len(set(numbers)) == len(numbers)

    looking = Call(browse)
    await_event(begun)
    taken = take_texts(consumer, 300)
    send_texts(sending, queue, *map(str, range(300, 400)))
    taken += take_texts(consumer, 100)
    stop.set()
    looking.result()
    assert taken == [str(number) for number in range(400)]


@pytest.mark.realises("BOIL-PUB-1", "BOIL-PUB-2")
def test_a_subscription_begins_and_ends_in_one_moment(connect: Connect) -> None:
    """While publishers publish, what a subscriber gets has no gap: all between its making and its close."""
    publishing, session = connect().create_session(), connect().create_session()
    topic, stop = session.create_topic("prices"), Event()

    def publish() -> int:
        number = 0
        with publishing.create_producer(topic) as producer:
            while not stop.is_set():
                producer.send(publishing.create_text_message(str(number)))
                number += 1
        return number

    calls = Call(publish)
    for _ in range(20):
        with session.create_consumer(topic) as subscriber:
            got = [int(str(text)) for text in take_texts(subscriber, 30)]
        assert got == list(range(got[0], got[0] + len(got)))
    last = session.create_consumer(topic)
    stop.set()
    total = calls.result()
    rest = [int(str(text)) for text in drain(last)]
    assert rest == list(range(total - len(rest), total))


@pytest.mark.realises("BOIL-CONN-11")
def test_a_close_from_the_thread_that_runs_another_connections_listener(connect: Connect) -> None:
    ended, other = Event(), connect()
    connection = connect(started=False)
    session = connection.create_session()
    queue = session.create_queue("orders")
    waiting_session = other.create_session()
    waiting = Call(waiting_session.create_consumer(waiting_session.create_queue("other")).receive)

    def work(message: Message) -> None:
        other.close()
        ended.set()

    session.create_consumer(queue).message_listener = work
    connection.start()
    assert waiting.is_blocked()
    send_texts(connect().create_session(), queue, "espresso")
    assert ended.wait(PATIENCE_S)
    assert waiting.result() is None
