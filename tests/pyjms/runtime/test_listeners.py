"""Message listeners that behave: set, exchanged, removed, serialized, in turn (JMS 1.1 §4.4.6, §4.4.14, §4.5.2)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from threading import Event, Lock, current_thread, get_ident
from typing import Any
from unittest.mock import Mock

import pytest

from pyjms import (
    ExceptionListener,
    IllegalArgumentException,
    IllegalStateException,
    JMSException,
    Message,
    MessageListener,
    Session,
)
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.consumer import JmsMessageConsumer
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
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


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class Listeners:
    """What programs offer as listeners, of messages and of exceptions."""

    class OfJava(MessageListener, ExceptionListener):
        def onMessage(self, message: Message) -> None: ...

        def onException(self, exception: JMSException) -> None: ...

    class Plain:
        def on_message(self, message: Message) -> None: ...

        def on_exception(self, exception: JMSException) -> None: ...

    class Called:
        def __call__(self, argument: object) -> None: ...

    class Without:
        def on_message(self) -> None: ...

        on_exception = on_message

    class Awaited:
        async def on_message(self, message: Message) -> None: ...

        on_exception = on_message

    class Awaiting:
        async def __call__(self, argument: object) -> None: ...

    class Early:
        """Calling this class takes no argument."""

    class Hidden(OfJava):
        def __init__(self) -> None:
            self.on_message = self.on_exception = 5  # type: ignore[assignment]

    class Job:
        def __init__(self, message: Message) -> None: ...

    @classmethod
    def of_class(cls, message: Message) -> None: ...

    @staticmethod
    async def coroutine(argument: object) -> None: ...

    @staticmethod
    def generator(argument: object) -> Iterator[object]:
        yield argument

    @staticmethod
    async def async_generator(argument: object) -> AsyncIterator[object]:
        yield argument


class TestSetting:
    def test_the_listener_is_shown_as_it_was_given(self, session: Session) -> None:
        consumer = session.create_consumer(session.create_queue("orders"))
        assert consumer.message_listener is None
        recorder = Recorder()
        consumer.message_listener = recorder
        assert consumer.message_listener is recorder
        assert consumer.getMessageListener() is recorder
        consumer.setMessageListener(None)
        assert consumer.message_listener is None

    def test_a_plain_callable_will_do(self, connect: Connect) -> None:
        connection, got, seen = connect(started=False), list[str | None](), Event()
        session = connection.create_session()
        queue = session.create_queue("orders")
        send_texts(session, queue, "espresso")

        def listen(message: Message) -> None:
            got.append(text_of(message))
            seen.set()

        session.create_consumer(queue).message_listener = listen
        connection.start()
        await_event(seen)
        assert got == ["espresso"]

    def test_the_java_name_will_do(self, connect: Connect) -> None:
        connection, got, seen = connect(started=False), list[str | None](), Event()

        class Listener(MessageListener):
            def onMessage(self, message: Message) -> None:  # type: ignore[override,unused-ignore]
                got.append(text_of(message))
                seen.set()

        session = connection.create_session()
        queue = session.create_queue("orders")
        send_texts(session, queue, "espresso")
        session.create_consumer(queue).setMessageListener(Listener())
        connection.start()
        await_event(seen)
        assert got == ["espresso"]

    @pytest.mark.parametrize("wrong", [5, "listener", object(), [print]])
    def test_what_cannot_listen_is_refused(self, session: Session, wrong: Any) -> None:
        consumer = session.create_consumer(session.create_queue("orders"))
        with pytest.raises(IllegalArgumentException, match="on_message"):
            consumer.message_listener = wrong
        assert consumer.message_listener is None
        assert consumer.receive_no_wait() is None

    @pytest.mark.parametrize("place", ["consumer", "session", "connection"])
    @pytest.mark.parametrize(
        ("wrong", "reason"),
        [
            pytest.param(
                Listeners.OfJava, r"OfJava is the class of a .* listener: give an object of it, OfJava\(", id="class"
            ),
            pytest.param(Listeners.Plain, "Plain is the class of a", id="class of a plain object"),
            pytest.param(Listeners.Called, "Called is the class of a", id="class of callable objects"),
            pytest.param(Listeners.OfJava.onMessage, "missing a required argument", id="method of a class"),
            pytest.param(lambda: None, "cannot be called with one", id="no argument"),
            pytest.param(lambda one, two: None, "cannot be called with one", id="two arguments"),
            pytest.param(lambda *, message: None, "cannot be called with one", id="by keyword alone"),
            pytest.param(Listeners.Early, "cannot be called with one", id="class without arguments"),
            pytest.param(
                Listeners.Without(), r"Without.on_\w+ is no .* listener: it cannot", id="method without argument"
            ),
            pytest.param(
                Listeners.coroutine, r"coroutine function, and nobody would await it\. Use pyjms\.aio", id="coroutine"
            ),
            pytest.param(Listeners.Awaited(), "coroutine function", id="method that is a coroutine"),
            pytest.param(Listeners.Awaiting(), "coroutine function", id="callable object that is a coroutine"),
            pytest.param(Listeners.generator, "yields, so that a call of it runs nothing", id="generator"),
            pytest.param(Listeners.async_generator, "yields", id="asynchronous generator"),
            pytest.param(
                Listeners.Hidden(), r"has a field on_\w+, which hides the method on_\w+\(\) of", id="hidden method"
            ),
        ],
    )
    def test_what_cannot_be_called_with_one_argument_is_refused(
        self, connect: Connect, place: str, wrong: Any, reason: str
    ) -> None:
        connection = connect(started=False)
        session = connection.create_session()
        consumer = session.create_consumer(session.create_queue("orders"))
        holder: Any = {"consumer": consumer, "session": session, "connection": connection}[place]
        name = "exception_listener" if place == "connection" else "message_listener"
        with pytest.raises(IllegalArgumentException, match=reason):
            setattr(holder, name, wrong)
        assert getattr(holder, name) is None

    @pytest.mark.parametrize(
        "right",
        [
            print,
            [].append,
            partial(print, "got"),
            Listeners.Called(),
            Listeners.of_class,
            lambda message, more=None: None,
            lambda *all: None,
            Listeners.Job,
            Mock(),
        ],
    )
    def test_what_can_be_called_with_one_argument_listens(self, session: Session, right: Any) -> None:
        consumer = session.create_consumer(session.create_queue("orders"))
        consumer.message_listener = right
        assert consumer.message_listener is right

    @pytest.mark.realises("BOIL-SESS-8", "BOIL-EXC-2")
    @pytest.mark.parametrize("how", ["receive", "receive_timeout", "receive_no_wait"])
    @pytest.mark.parametrize("which", ["same", "other"])
    def test_a_session_with_a_listener_cannot_receive(self, session: Session, how: str, which: str) -> None:
        queue = session.create_queue("orders")
        consumer, other = session.create_consumer(queue), session.create_consumer(queue)
        consumer.message_listener = lambda message: None
        receiver = consumer if which == "same" else other
        call: Callable[[], object] = {
            "receive": receiver.receive,
            "receive_timeout": lambda: receiver.receive(1),
            "receive_no_wait": receiver.receive_no_wait,
        }[how]
        with pytest.raises(IllegalStateException, match="listener"):
            within_patience(call)

    @pytest.mark.realises("BOIL-SESS-8")
    @pytest.mark.parametrize("how", ["remove", "close"])
    def test_without_the_listener_it_can_again(self, connect: Connect, how: str) -> None:
        connection = connect(started=False)
        session = connection.create_session()
        queue = session.create_queue("orders")
        listening, receiving = session.create_consumer(queue), session.create_consumer(queue)
        listening.message_listener = lambda message: None
        if how == "remove":
            listening.message_listener = None
        else:
            listening.close()
        connection.start()
        send_texts(session, queue, "espresso")
        assert text_of(take(receiving)) == "espresso"

    @pytest.mark.realises("BOIL-SESS-8")
    def test_another_session_of_the_connection_may_receive(self, connection: JmsConnection) -> None:
        listening, receiving = connection.create_session(), connection.create_session()
        listening.create_consumer(listening.create_queue("other")).message_listener = lambda message: None
        queue = receiving.create_queue("orders")
        send_texts(receiving, queue, "espresso")
        assert text_of(take(receiving.create_consumer(queue))) == "espresso"

    @pytest.mark.realises("BOIL-SESS-9")
    def test_a_second_listener_of_a_running_session_is_let_through_with_one_warning(
        self, connection: JmsConnection, caplog: pytest.LogCaptureFixture
    ) -> None:
        session = connection.create_session()
        running, most = [0], [0]

        class Counted(Recorder):
            def on_message(self, message: Message) -> None:
                running[0] += 1
                most[0] = max(most[0], running[0])
                super().on_message(message)
                running[0] -= 1

        recorders = [Counted() for _ in range(3)]
        queues = [session.create_queue(f"orders {number}") for number in range(3)]
        for queue, recorder in zip(queues, recorders, strict=True):
            session.create_consumer(queue).message_listener = recorder
        for queue in queues:
            send_texts(connection.create_session(), queue, *map(str, range(20)))
        for recorder in recorders:
            assert recorder.wait_for(20) == [str(number) for number in range(20)]
        assert most == [1]
        warnings = [each.getMessage() for each in caplog.records if "PYJMS-LISTENER-2" in each.getMessage()]
        assert len(warnings) == 1

    @pytest.mark.realises("BOIL-SESS-9")
    def test_a_second_listener_on_a_stopped_connection_is_as_jms_asks(
        self, connection: JmsConnection, caplog: pytest.LogCaptureFixture
    ) -> None:
        session = connection.create_session()
        session.create_consumer(session.create_queue("first")).message_listener = Recorder()
        connection.stop()
        second = session.create_consumer(session.create_queue("second"))
        second.message_listener = recorder = Recorder()
        connection.start()
        send_texts(connection.create_session(), session.create_queue("second"), "espresso")
        assert recorder.wait_for(1) == ["espresso"]
        assert "PYJMS-LISTENER-2" not in caplog.text

    @pytest.mark.realises("BOIL-SESS-9")
    def test_a_listener_may_set_the_second_one(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session()
        second = session.create_consumer(session.create_queue("second"))
        later = Recorder()
        first = Recorder(lambda message: setattr(second, "message_listener", later))
        session.create_consumer(session.create_queue("first")).message_listener = first
        connection.start()
        sending = connect().create_session()
        send_texts(sending, session.create_queue("first"), "one")
        send_texts(sending, session.create_queue("second"), "two")
        assert later.wait_for(1) == ["two"]
        assert first.texts == ["one"]

    def test_messages_that_were_there_before_come_too(self, connection: JmsConnection) -> None:
        session, sending, recorder = connection.create_session(), connection.create_session(), Recorder()
        queue = session.create_queue("orders")
        send_texts(sending, queue, "one", "two", "three")
        session.create_consumer(queue).message_listener = recorder
        assert recorder.wait_for(3) == ["one", "two", "three"]


class SlowCallback:
    """Stands in for a consumer's callback, and makes its reader or its setter wait for the other one, a moment at most."""

    def __init__(self, slow: str) -> None:
        self._slow = slow
        self._values: dict[int, Any] = {}
        self.armed = False
        self.reading = Event()
        self.changed = Event()

    def __get__(self, consumer: Any, owner: type | None = None) -> Any:
        if self.armed and current_thread().name.startswith("pyjms-session"):
            self.reading.set()
            if self._slow == "to read":
                self.changed.wait(0.2)
        return self._values.get(id(consumer))

    def __set__(self, consumer: Any, value: Any) -> None:
        if self.armed and self._slow == "to set" and value is not None:
            self.reading.wait(0.2)
        self._values[id(consumer)] = value


class TestExchanging:
    def test_the_new_listener_gets_what_comes_next(self, connection: JmsConnection) -> None:
        session, sending = connection.create_session(), connection.create_session()
        queue, first, second = session.create_queue("orders"), Recorder(), Recorder()
        consumer = session.create_consumer(queue)
        consumer.message_listener = first
        send_texts(sending, queue, "one")
        first.wait_for(1)
        consumer.message_listener = second
        send_texts(sending, queue, "two")
        assert second.wait_for(1) == ["two"]
        assert first.texts == ["one"]

    def test_a_listener_may_exchange_itself(self, connection: JmsConnection) -> None:
        session, sending = connection.create_session(), connection.create_session()
        queue, second = session.create_queue("orders"), Recorder()
        consumer = session.create_consumer(queue)
        first = Recorder(lambda message: setattr(consumer, "message_listener", second))
        send_texts(sending, queue, "one", "two", "three")
        consumer.message_listener = first
        assert second.wait_for(2) == ["two", "three"]
        assert first.texts == ["one"]

    def test_a_listener_may_remove_itself(self, connection: JmsConnection) -> None:
        session, sending = connection.create_session(), connection.create_session()
        queue, removed = session.create_queue("orders"), Event()
        consumer = session.create_consumer(queue)

        def listen(message: Message) -> None:
            consumer.message_listener = None
            removed.set()

        send_texts(sending, queue, "one", "two")
        consumer.message_listener = listen
        await_event(removed)
        assert text_of(take(consumer)) == "two"

    def test_without_a_listener_messages_stay_on_the_queue(self, connection: JmsConnection, connect: Connect) -> None:
        session, sending = connection.create_session(), connection.create_session()
        queue, recorder = session.create_queue("orders"), Recorder()
        consumer = session.create_consumer(queue)
        consumer.message_listener = recorder
        send_texts(sending, queue, "one")
        recorder.wait_for(1)
        consumer.message_listener = None
        send_texts(sending, queue, "two")
        assert text_of(take(connect().create_session().create_consumer(queue))) == "two"
        assert recorder.texts == ["one"]

    @pytest.mark.realises("BOIL-ACK-2")
    @pytest.mark.parametrize("slow", ["to read", "to set"])
    def test_no_message_is_acknowledged_that_no_listener_got(
        self, connection: JmsConnection, connect: Connect, monkeypatch: pytest.MonkeyPatch, slow: str
    ) -> None:
        """The session's thread and who sets a listener are made to meet at the worst moment."""
        meeting = SlowCallback(slow)
        monkeypatch.setattr(JmsMessageConsumer, "callback", meeting)
        session, sending = connection.create_session(), connect().create_session()
        queue, recorder = session.create_queue("orders"), Recorder()
        consumer = session.create_consumer(queue)
        send_texts(sending, queue, "espresso")
        meeting.armed = True
        consumer.message_listener = recorder
        if slow == "to read":
            await_event(meeting.reading)
            consumer.message_listener = None
        meeting.changed.set()
        meeting.armed = False
        if slow == "to set":
            assert recorder.wait_for(1) == ["espresso"]
        within_patience(session.close)
        assert [*recorder.texts, *drain(sending.create_consumer(queue))] == ["espresso"]

    @pytest.mark.realises("BOIL-ACK-2")
    @pytest.mark.parametrize("turn", range(4))
    def test_no_message_is_lost_while_listeners_come_and_go(
        self, connection: JmsConnection, connect: Connect, quick_switches: None, turn: int
    ) -> None:
        session, sending = connection.create_session(), connect().create_session()
        queue = session.create_queue("orders")
        consumer, recorder, number = session.create_consumer(queue), Recorder(), 2000
        send_texts(sending, queue, *map(str, range(number)))
        for _ in range(1000):
            consumer.message_listener = recorder
            consumer.message_listener = None
        within_patience(session.close)
        rest = drain(sending.create_consumer(queue))
        counted = Counter([*recorder.texts, *rest])
        assert set(counted) == {str(each) for each in range(number)}, "some were lost"
        assert set(counted.values()) == {1}, "some came twice"

    def test_exchanging_keeps_the_order(self, connection: JmsConnection, connect: Connect) -> None:
        session, sending = connection.create_session(), connect().create_session()
        queue, lock = session.create_queue("orders"), Lock()
        got: list[str | None] = []

        def make() -> Callable[[Message], None]:
            def listen(message: Message) -> None:
                with lock:
                    got.append(text_of(message))

            return listen

        consumer = session.create_consumer(queue)
        with sending.create_producer(queue) as producer:
            for each in range(300):
                consumer.message_listener = make()
                producer.send(sending.create_text_message(str(each)))
        eventually(lambda: len(got) == 300, "all messages came")
        assert got == [str(each) for each in range(300)]


class TestTurns:
    @pytest.mark.realises("BOIL-SESS-5", "BOIL-CONC-2")
    def test_the_listeners_of_a_session_never_run_at_once(self, connect: Connect) -> None:
        connection, sending = connect(started=False), connect().create_session()
        session = connection.create_session()
        inside, overlaps, threads = Lock(), list[str](), set[int]()

        def listen(message: Message) -> None:
            if not inside.acquire(blocking=False):
                overlaps.append(str(text_of(message)))
                return
            threads.add(get_ident())
            Event().wait(0.001)
            inside.release()

        recorders = [Recorder(listen) for _ in range(3)]
        for number, recorder in enumerate(recorders):
            queue = session.create_queue(f"orders-{number}")
            session.create_consumer(queue).message_listener = recorder
            send_texts(sending, queue, *(str(each) for each in range(20)))
        connection.start()
        for recorder in recorders:
            assert recorder.wait_for(20) == [str(each) for each in range(20)]
        assert overlaps == []
        assert len(threads) == 1
        assert get_ident() not in threads

    @pytest.mark.realises("BOIL-SESS-5")
    def test_two_sessions_run_side_by_side(self, connect: Connect, latch: Callable[[], Event]) -> None:
        connection, sending = connect(started=False), connect().create_session()
        release, blocked = latch(), Event()
        slow, quick = connection.create_session(), connection.create_session()
        slow_queue, quick_queue = slow.create_queue("slow"), slow.create_queue("quick")
        slow.create_consumer(slow_queue).message_listener = holding(blocked, release)
        recorder = Recorder()
        quick.create_consumer(quick_queue).message_listener = recorder
        connection.start()
        send_texts(sending, slow_queue, "one")
        await_event(blocked)
        send_texts(sending, quick_queue, "two")
        assert recorder.wait_for(1) == ["two"]

    @pytest.mark.realises("QCM-20")
    def test_no_consumer_starves(self, connect: Connect) -> None:
        """With messages waiting for each, the consumers of a session are served in turn."""
        connection, sending = connect(started=False), connect().create_session()
        session, served = connection.create_session(), list[int]()

        def note(number: int) -> Callable[[Message], object]:
            return lambda message: served.append(number)

        recorders = [Recorder(note(number)) for number in range(3)]
        for number, recorder in enumerate(recorders):
            queue = session.create_queue(f"orders-{number}")
            session.create_consumer(queue).message_listener = recorder
            send_texts(sending, queue, *(str(each) for each in range(30)))
        connection.start()
        for recorder in recorders:
            recorder.wait_for(30)
        eventually(lambda: len(served) == 90, "the last one has been noted, too")
        for start in range(0, 90, 3):
            assert sorted(served[start : start + 3]) == [0, 1, 2]

    def test_those_alone_are_asked_that_were_woken(self, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
        """Else each message costs more, the more listeners a session has."""
        connection, sending = connect(started=False), connect().create_session()
        session, asked = connection.create_session(), Counter[int]()
        recorders = [Recorder() for _ in range(20)]
        for number, recorder in enumerate(recorders):
            consumer = session.create_consumer(session.create_queue(f"orders-{number}"))
            assert isinstance(consumer, JmsMessageConsumer)

            def poll(number: int = number, before: Callable[[], Any] = consumer.provider.poll) -> Any:
                asked[number] += 1
                return before()

            monkeypatch.setattr(consumer.provider, "poll", poll)
            consumer.message_listener = recorder
        connection.start()
        for each in range(50):
            send_texts(sending, session.create_queue("orders-7"), str(each))
            recorders[7].wait_for(each + 1)
        del asked[7]
        assert max(asked.values()) <= 3, "when they were started"
        send_texts(sending, session.create_queue("orders-8"), "another")
        recorders[8].wait_for(1)

    def test_threads_are_named_and_end_with_their_session(self, connect: Connect) -> None:
        connection, threads = connect(started=False), list[Any]()
        session = connection.create_session()
        queue = session.create_queue("orders")
        recorder = Recorder(lambda message: threads.append(current_thread()))
        session.create_consumer(queue).message_listener = recorder
        connection.start()
        send_texts(connect().create_session(), queue, "espresso")
        recorder.wait_for(1)
        eventually(lambda: threads, "the thread is known")
        (thread,) = threads
        assert thread.name.startswith("pyjms-")
        assert thread.daemon
        assert thread.is_alive()
        within_patience(session.close)
        assert not thread.is_alive()


class TestControl:
    """With its first listener, a session belongs to its own thread (§4.4.6)."""

    @pytest.mark.realises("BOIL-CONC-2")
    @pytest.mark.parametrize("method", ["commit", "rollback"])
    def test_others_cannot_end_its_transaction(self, connection: JmsConnection, method: str) -> None:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        session.create_consumer(session.create_queue("orders")).message_listener = lambda message: None
        with pytest.raises(IllegalStateException, match="listener"):
            getattr(session, method)()

    @pytest.mark.realises("BOIL-CONC-2")
    def test_others_cannot_recover_it(self, connection: JmsConnection) -> None:
        session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        session.create_consumer(session.create_queue("orders")).message_listener = lambda message: None
        with pytest.raises(IllegalStateException, match="listener"):
            session.recover()

    def test_while_the_connection_is_stopped_they_can(self, connection: JmsConnection) -> None:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        queue, recorder = session.create_queue("orders"), Recorder()
        session.create_consumer(queue).message_listener = recorder
        send_texts(connection.create_session(), queue, "espresso")
        recorder.wait_for(1)
        within_patience(connection.stop)
        session.rollback()
        connection.start()
        assert recorder.wait_for(2) == ["espresso", "espresso"]
        assert recorder.redelivered == [False, True]

    @pytest.mark.realises("BOIL-CONC-3", "BOIL-SESS-6")
    def test_closing_from_outside_is_allowed(self, connection: JmsConnection) -> None:
        session = connection.create_session()
        session.create_consumer(session.create_queue("orders")).message_listener = lambda message: None
        within_patience(session.close)
        with pytest.raises(IllegalStateException):
            session.create_message()

    def test_closing_a_consumer_from_outside_is_allowed(self, connection: JmsConnection, connect: Connect) -> None:
        session, recorder = connection.create_session(), Recorder()
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        consumer.message_listener = recorder
        sending = connect().create_session()
        send_texts(sending, queue, "one")
        recorder.wait_for(1)
        within_patience(consumer.close)
        send_texts(sending, queue, "two")
        assert text_of(take(sending.create_consumer(queue))) == "two"
        assert recorder.texts == ["one"]

    def test_a_thread_that_closes_while_listeners_run_gets_through(self, connect: Connect) -> None:
        for _ in range(20):
            connection, sending = connect(started=False), connect().create_session()
            session, recorder = connection.create_session(), Recorder()
            queue = session.create_temporary_queue()
            consumer = session.create_consumer(queue)
            consumer.message_listener = recorder
            connection.start()
            sender = Call(send_texts, sending, queue, *map(str, range(50)))
            recorder.wait_for(5)
            within_patience(consumer.close)
            sender.result()
            got = len(recorder.texts)
            within_patience(connection.close)
            assert recorder.texts == [str(each) for each in range(got)]
