"""Asynchronous sends: overloads, callbacks and their order, waits for them, failures (JMS 2.0 §7.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Condition, Event, get_ident
from typing import Any

import pytest

from pyjms import (
    CompletionListener,
    Connection,
    ConnectionFactory,
    DeliveryMode,
    IllegalArgumentException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Message,
    MessageFormatException,
    MessageProducer,
    ResourceAllocationException,
    Session,
    TransactionRolledBackException,
    UnsupportedOperationException,
    XAConnectionFactory,
    XAException,
    XAResource,
)
from pyjms.runtime.completions import INCOMPLETE_MAX
from pyjms.spi import ProviderUrl, find_provider
from pyjms.spi.errors import AccessDeniedError, ConnectionLostError, InDoubtError, ResourceError
from pyjms.testing import Fault, Faults
from tests.pyjms.messages.foreign import JavaTextMessage
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.held_sends import HeldSends
from tests.pyjms.runtime.helpers import PATIENCE_S, Call, await_event, drain, take_texts, text_of, within_patience
from tests.pyjms.runtime.test_xa import Branch


class Outcomes(CompletionListener):
    """A completion listener that keeps what it hears, then does `action`."""

    def __init__(self, action: Callable[[Message], object] | None = None) -> None:
        self._action = action
        self._changed = Condition()
        self.heard: list[tuple[Message, Exception | None]] = []
        self.threads: list[int] = []
        self.raised: list[Exception] = []

    def on_completion(self, message: Message) -> None:
        self._hear(message, None)

    def on_exception(self, message: Message, exception: Exception) -> None:
        self._hear(message, exception)

    def _hear(self, message: Message, exception: Exception | None) -> None:
        self.threads.append(get_ident())
        try:
            if self._action is not None:
                self._action(message)
        except Exception as error:
            self.raised.append(error)
        with self._changed:
            self.heard.append((message, exception))
            self._changed.notify_all()

    def wait(self, number: int = 1) -> list[tuple[Message, Exception | None]]:
        """Return the outcomes when there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.heard) >= number, PATIENCE_S), "no outcome was told"
            return list(self.heard)

    def texts(self, number: int) -> list[str | None]:
        """Return the texts of the messages, in order, when there are so many."""
        return [text_of(message) for message, _ in self.wait(number)]


@pytest.fixture
def held(jms_broker_url: str) -> Iterator[HeldSends]:
    with HeldSends(jms_broker_url) as held:
        yield held


@pytest.fixture
def held_connection(held: HeldSends) -> Iterator[Connection]:
    connection = ConnectionFactory(held.url).create_connection()
    yield connection
    held.complete(len(held.held))
    connection.close()


def producer_of(session: Session) -> MessageProducer:
    return session.create_producer(session.create_queue("orders"))


def send(producer: MessageProducer, session: Session, text: str, listener: CompletionListener) -> None:
    producer.send(session.create_text_message(text), listener)


class TestOverloads:
    NUMBERS = (DeliveryMode.NON_PERSISTENT, 7, 60_000)

    @pytest.mark.parametrize("given", [(), NUMBERS])
    @pytest.mark.parametrize("own", [True, False])
    @pytest.mark.parametrize("named", [True, False])
    def test_the_message_arrives_and_the_listener_hears_of_it(
        self, session: Session, given: tuple[int, ...], own: bool, named: bool
    ) -> None:
        queue, listener = session.create_queue("orders"), Outcomes()
        producer: Any = session.create_producer(queue if own else None)
        message = session.create_text_message("espresso")
        first: tuple[Any, ...] = (message,) if own else (queue, message)
        if named:
            producer.send(*first, *given, completion_listener=listener)
        else:
            producer.send(*first, *given, listener)
        assert listener.wait() == [(message, None)]
        assert (message.jms_delivery_mode, message.jms_priority) == (given[:2] if given else (2, 4))
        assert (message.jms_expiration > 0) is bool(given)
        assert message.jms_destination == queue
        assert message.jms_message_id is not None
        assert message.jms_timestamp > 0

    def test_the_java_names(self, session: Session) -> None:
        heard, done = [], Event()

        class Java(CompletionListener):
            def onCompletion(self, message: Message) -> None:
                heard.append(message)
                done.set()

            def onException(self, message: Message, exception: Exception) -> None: ...

        message = session.createTextMessage("espresso")
        session.createProducer(session.createQueue("orders")).send(message, Java())
        await_event(done)
        assert heard == [message]

    def test_any_object_with_both_methods_is_a_listener(self, session: Session) -> None:
        done = Event()

        class Own:
            def on_completion(self, message: Message) -> None:
                done.set()

            def on_exception(self, message: Message, exception: Exception) -> None: ...

        producer_of(session).send(session.create_message(), Own())  # type: ignore[call-overload]
        await_event(done)

    @pytest.mark.parametrize("given", [(), NUMBERS])
    @pytest.mark.parametrize("own", [True, False])
    @pytest.mark.parametrize("named", [True, False])
    def test_a_null_listener_is_refused(self, session: Session, given: Any, own: bool, named: bool) -> None:
        queue, none = session.create_queue("orders"), None
        producer: Any = session.create_producer(queue if own else None)
        first = (session.create_message(),) if own else (queue, session.create_message())
        with pytest.raises(IllegalArgumentException):
            if named:
                producer.send(*first, *given, completion_listener=none)
            else:
                producer.send(*first, *given, none)

    @pytest.mark.parametrize("listener", [print, Outcomes, object()], ids=["function", "class", "object"])
    def test_what_is_no_listener_is_refused(self, session: Session, listener: Any) -> None:
        with pytest.raises(IllegalArgumentException, match="completion listener"):
            producer_of(session).send(session.create_message(), listener)

    def test_a_listener_whose_method_takes_too_few_arguments_is_refused(self, session: Session) -> None:
        class Wrong(Outcomes):
            def on_exception(self, message: Message) -> None:  # type: ignore[override]
                ...

        with pytest.raises(IllegalArgumentException, match="a message and an exception"):
            producer_of(session).send(session.create_message(), Wrong())

    @pytest.mark.parametrize("given", [(), NUMBERS])
    def test_errors_of_arguments_are_raised_by_the_send(self, session: Session, given: Any) -> None:
        queue, listener, message = session.create_queue("orders"), Outcomes(), session.create_message()
        own: Any = session.create_producer(queue)
        other: Any = session.create_producer(None)
        with pytest.raises(MessageFormatException):
            own.send("no message", *given, listener)
        with pytest.raises(MessageFormatException):
            own.send(None, *given, listener)
        with pytest.raises(UnsupportedOperationException):
            own.send(queue, message, *given, listener)
        with pytest.raises(InvalidDestinationException):
            other.send(None, message, *given, listener)
        with pytest.raises(UnsupportedOperationException):
            other.send(message, *given, listener)
        with pytest.raises(MessageFormatException):
            other.send(queue, None, *given, listener)
        with pytest.raises(JMSException):
            own.send(message, 3, 4, 0, listener)
        session.close()
        assert listener.heard == []

    def test_a_closed_producer_refuses(self, session: Session) -> None:
        producer = producer_of(session)
        producer.close()
        with pytest.raises(IllegalStateException):
            producer.send(session.create_message(), Outcomes())

    def test_two_listeners_are_refused(self, session: Session) -> None:
        producer: Any = producer_of(session)
        with pytest.raises(TypeError, match="multiple values"):
            producer.send(session.create_message(), Outcomes(), completion_listener=Outcomes())


class TestCallbacks:
    def test_they_come_in_the_order_of_the_sends_on_one_other_thread(
        self, held: HeldSends, held_connection: Connection
    ) -> None:
        session, listener = held_connection.create_session(), Outcomes()
        producers = [producer_of(session), producer_of(session)]
        for number in range(6):
            send(producers[number % 2], session, str(number), listener)
        for done in reversed(held.take(6)):
            assert listener.heard == []
            done(None)
        assert listener.texts(6) == [*"012345"]
        assert len(set(listener.threads)) == 1
        assert get_ident() not in listener.threads

    def test_one_runs_at_a_time(self, session: Session) -> None:
        running: list[Message] = []
        together: list[Message] = []

        def note(message: Message) -> None:
            running.append(message)
            together.extend(running[1:])
            running.remove(message)

        listeners = [Outcomes(note), Outcomes(note)]
        producer = producer_of(session)
        for number in range(50):
            producer.send(session.create_message(), listeners[number % 2])
        assert [len(each.wait(25)) for each in listeners] == [25, 25]
        assert together == []

    def test_the_header_fields_are_set_when_the_listener_is_called(
        self, held: HeldSends, held_connection: Connection
    ) -> None:
        session = held_connection.create_session()
        seen: list[str | None] = []
        listener = Outcomes(lambda message: seen.append(message.jms_message_id))
        producer_of(session).send(session.create_message(), listener)
        held.complete()
        (message, _), *_ = listener.wait()
        assert seen == [message.jms_message_id]
        assert seen != [None]

    def test_a_message_of_another_class_gets_its_header_fields(self, session: Session) -> None:
        listener, message = Outcomes(), JavaTextMessage()
        producer_of(session).send(message, listener)
        assert listener.wait() == [(message, None)]
        assert str(message.getJMSMessageID()).startswith("ID:")

    def test_one_that_raises_is_logged_and_the_next_ones_come(
        self, session: Session, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Raising(Outcomes):
            def on_completion(self, message: Message) -> None:
                super().on_completion(message)
                raise SystemExit("an error of the application")

        listener, producer = Raising(), producer_of(session)
        with caplog.at_level(logging.WARNING, "pyjms.runtime"):
            for text in "ab":
                send(producer, session, text, listener)
            assert listener.texts(2) == ["a", "b"]
            session.close()
        assert caplog.text.count("PYJMS-COMPLETION") == 2

    def test_it_may_send(self, session: Session) -> None:
        producer, second = producer_of(session), Outcomes()
        first = Outcomes(lambda message: send(producer, session, "second", second))
        send(producer, session, "first", first)
        assert first.texts(1) + second.texts(1) == ["first", "second"]

    def test_its_thread_ends_with_the_session(self, session: Session) -> None:
        listener = Outcomes()
        send(producer_of(session), session, "espresso", listener)
        session.close()
        # The close has waited for the listener.
        assert [text_of(message) for message, _ in listener.heard] == ["espresso"]

    def test_messages_keep_their_order_with_those_of_other_sends(self, connect: Connect) -> None:
        connection = connect()
        session, listener = connection.create_session(), Outcomes()
        producer, consumer = producer_of(session), session.create_consumer(session.create_queue("orders"))
        connection.start()
        for number in range(10):
            message = session.create_text_message(str(number))
            if number % 3:
                producer.send(message, listener)
            else:
                producer.send(message)
        assert take_texts(consumer, 10) == [*"0123456789"]


class TestFailures:
    def test_an_error_of_the_provider_goes_to_the_listener(self, jms_broker_url: str) -> None:
        with Faults(jms_broker_url) as faults, ConnectionFactory(faults.url).create_connection() as connection:
            session, listener = connection.create_session(), Outcomes()
            producer = producer_of(session)
            faults.inject(Fault.SEND_REFUSED)
            for text in "ab":
                send(producer, session, text, listener)
            (first, refused), (second, none) = listener.wait(2)
            assert [text_of(first), text_of(second), none] == ["a", "b", None]
            assert type(refused) is ResourceAllocationException

    def test_each_error_is_that_of_a_send_that_waits(self, held: HeldSends, held_connection: Connection) -> None:
        session, listener = held_connection.create_session(), Outcomes()
        producer = producer_of(session)
        for text in "abc":
            send(producer, session, text, listener)
        first, second, third = held.take(3)
        third(ResourceError("the queue is full"))
        second(AccessDeniedError("not for you"))
        first(InDoubtError("who knows"))
        outcomes = listener.wait(3)
        assert [type(error).__name__ for _, error in outcomes] == [
            "JMSException",
            "JMSSecurityException",
            "ResourceAllocationException",
        ]
        assert listener.texts(3) == ["a", "b", "c"]

    def test_a_lost_connection_fails_all_that_are_incomplete(
        self, held: HeldSends, held_connection: Connection
    ) -> None:
        session, listener = held_connection.create_session(), Outcomes()
        producer = producer_of(session)
        for text in "abc":
            send(producer, session, text, listener)
        dones = held.take(3)
        dones[0](None)
        held.events[0].on_exception(ConnectionLostError("the cable was cut"))
        assert listener.texts(3) == ["a", "b", "c"]
        assert [type(error) for _, error in listener.heard] == [type(None), JMSException, JMSException]
        dones[1](None)  # too late: an outcome is told once
        assert len(listener.heard) == 3

    def test_what_the_provider_never_tells_has_failed_when_the_session_is_closed(self, held: HeldSends) -> None:
        connection = ConnectionFactory(held.url).create_connection()
        session, listener = connection.create_session(), Outcomes()
        send(producer_of(session), session, "espresso", listener)
        closing = Call(session.close)
        assert closing.is_blocked()
        held.complete(error=ResourceError("no answer"))
        closing.result()
        assert [type(error) for _, error in listener.heard] == [ResourceAllocationException]
        connection.close()

    def test_an_interrupted_send_tells_no_listener(self, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with ConnectionFactory(jms_broker_url).create_connection() as connection:
            session, listener = connection.create_session(), Outcomes()
            producer: Any = producer_of(session)

            def interrupted(*_: object) -> None:
                raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                patch.setattr(session.provider_session, "send_async", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    send(producer, session, "first", listener)
            send(producer, session, "second", listener)
            session.close()
            assert [text_of(message) for message, _ in listener.heard] == ["second"]


class TestWaiting:
    @pytest.mark.parametrize("what", ["producer", "session", "connection"])
    def test_a_close_waits_for_incomplete_sends_and_their_listeners(self, held: HeldSends, what: str) -> None:
        connection = ConnectionFactory(held.url).create_connection()
        session, release = connection.create_session(), Event()
        producer, listener = producer_of(session), Outcomes(lambda _: release.wait(PATIENCE_S))
        send(producer, session, "espresso", listener)
        closed = {"producer": producer, "session": session, "connection": connection}[what]
        closing = Call(closed.close)
        assert closing.is_blocked()
        held.complete()
        assert closing.is_blocked()
        release.set()
        closing.result()
        assert len(listener.heard) == 1
        connection.close()

    @pytest.mark.parametrize("what", ["commit", "rollback"])
    def test_the_end_of_a_transaction_waits(self, held: HeldSends, held_connection: Connection, what: str) -> None:
        session, listener = held_connection.create_session(True), Outcomes()
        send(producer_of(session), session, "espresso", listener)
        ending = Call(getattr(session, what))
        assert ending.is_blocked()
        held.complete()
        ending.result()
        assert len(listener.heard) == 1

    def test_a_producer_waits_for_its_own_sends_only(self, held: HeldSends, held_connection: Connection) -> None:
        session, listener = held_connection.create_session(), Outcomes()
        first, second = producer_of(session), producer_of(session)
        send(first, session, "first", listener)
        send(second, session, "second", listener)
        closing = Call(first.close)
        held.complete()
        closing.result()
        assert listener.texts(1) == ["first"]

    def test_very_many_sends_wait_for_some_to_complete(self, held: HeldSends, held_connection: Connection) -> None:
        session, listener = held_connection.create_session(), Outcomes()
        producer = producer_of(session)
        for _ in range(INCOMPLETE_MAX):
            producer.send(session.create_message(), listener)
        sending = Call(producer.send, session.create_message(), listener)
        assert sending.is_blocked()
        held.complete(INCOMPLETE_MAX // 2)
        sending.result()
        assert len(held.held) == INCOMPLETE_MAX // 2 + 1

    def test_a_send_that_waits_ends_when_the_connection_is_lost(
        self, held: HeldSends, held_connection: Connection
    ) -> None:
        session, listener = held_connection.create_session(), Outcomes()
        producer = producer_of(session)
        for _ in range(INCOMPLETE_MAX):
            producer.send(session.create_message(), listener)
        sending = Call(producer.send, session.create_message(), listener)
        assert sending.is_blocked()
        held.events[0].on_exception(ConnectionLostError("the cable was cut"))
        sending.result()
        listener.wait(INCOMPLETE_MAX)


class TestForbiddenInAListener:
    @pytest.mark.parametrize("what", ["producer", "session", "connection"])
    def test_a_close_of_its_own(self, connect: Connect, what: str) -> None:
        connection = connect()
        session = connection.create_session()
        producer = producer_of(session)
        closed = {"producer": producer, "session": session, "connection": connection}[what]
        listener = Outcomes(lambda _: closed.close())
        send(producer, session, "espresso", listener)
        listener.wait()
        assert [type(error) for error in listener.raised] == [IllegalStateException]
        producer.send(session.create_message())  # nothing was closed
        within_patience(closed.close)

    @pytest.mark.parametrize("what", ["commit", "rollback"])
    def test_the_end_of_a_transaction(self, connect: Connect, what: str) -> None:
        session = connect().create_session(True)
        listener = Outcomes(lambda _: getattr(session, what)())
        send(producer_of(session), session, "espresso", listener)
        session.commit()
        assert [type(error) for error in listener.raised] == [IllegalStateException]

    def test_another_producer_may_be_closed(self, held: HeldSends, held_connection: Connection) -> None:
        session = held_connection.create_session()
        first, second, later = producer_of(session), producer_of(session), Outcomes()
        listener = Outcomes(lambda _: second.close())
        send(first, session, "first", listener)
        send(second, session, "second", later)
        held.complete(2)
        listener.wait()
        assert listener.raised == []
        assert later.texts(1) == ["second"]
        with pytest.raises(IllegalStateException):
            second.send(session.create_message())

    def test_another_session_may_be_closed(self, connect: Connect) -> None:
        connection = connect()
        session, other = connection.create_session(), connection.create_session()
        listener = Outcomes(lambda _: other.close())
        send(producer_of(session), session, "espresso", listener)
        listener.wait()
        assert listener.raised == []
        with pytest.raises(IllegalStateException):
            other.create_message()


class TestTransactions:
    def test_the_messages_arrive_with_the_commit(self, connect: Connect) -> None:
        connection = connect()
        session, reader, listener = connection.create_session(True), connection.create_session(), Outcomes()
        consumer = reader.create_consumer(reader.create_queue("orders"))
        connection.start()
        producer = producer_of(session)
        for text in "abc":
            send(producer, session, text, listener)
        assert listener.texts(3) == ["a", "b", "c"]
        assert consumer.receive_no_wait() is None
        session.commit()
        assert take_texts(consumer, 3) == ["a", "b", "c"]

    def test_a_commit_after_a_failure_rolls_back(self, held: HeldSends, held_connection: Connection) -> None:
        session, listener = held_connection.create_session(True), Outcomes()
        producer = producer_of(session)
        for text in "ab":
            send(producer, session, text, listener)
        held.complete()
        held.complete(error=ResourceError("the queue is full"))
        with pytest.raises(TransactionRolledBackException, match="the queue is full"):
            session.commit()
        # The next transaction is not concerned.
        producer.send(session.create_text_message("c"))
        session.commit()
        reader = held_connection.create_session()
        held_connection.start()
        assert drain(reader.create_consumer(reader.create_queue("orders"))) == ["c"]

    def test_a_rollback_forgets_a_failure(self, held: HeldSends, held_connection: Connection) -> None:
        session, listener = held_connection.create_session(True), Outcomes()
        producer = producer_of(session)
        send(producer, session, "a", listener)
        held.complete(error=ResourceError("the queue is full"))
        session.rollback()
        producer.send(session.create_text_message("b"))
        session.commit()


class TestDistributedTransactions:
    @pytest.fixture
    def held(self, tmp_path: Path) -> Iterator[HeldSends]:
        """A broker with a store, as others keep no branches."""
        url = f"vm://{tmp_path.name}?store=sqlite:///{tmp_path}/shop.db"
        with HeldSends(url) as held:
            yield held
        find_provider("vm").stop_broker(ProviderUrl.parse(url))

    def test_the_end_of_the_work_waits_and_a_failure_fails_the_branch(self, held: HeldSends) -> None:
        with XAConnectionFactory(held.url).create_xa_connection() as connection:
            session, listener = connection.create_xa_session(), Outcomes()
            resource, branch = session.xa_resource, Branch("1")
            producer = producer_of(session)
            resource.start(branch, XAResource.TMNOFLAGS)
            send(producer, session, "espresso", listener)
            ending = Call(resource.end, branch, XAResource.TMSUCCESS)
            assert ending.is_blocked()
            held.complete(error=ResourceError("the queue is full"))
            with pytest.raises(XAException) as raised:
                ending.result()
            assert raised.value.error_code == XAException.XA_RBROLLBACK
            resource.rollback(branch)

    def test_the_messages_arrive_with_the_commit(self, held: HeldSends) -> None:
        with XAConnectionFactory(held.url).create_xa_connection() as connection:
            session, listener = connection.create_xa_session(), Outcomes()
            resource, branch = session.xa_resource, Branch("1")
            resource.start(branch, XAResource.TMNOFLAGS)
            send(producer_of(session), session, "espresso", listener)
            held.complete()
            resource.end(branch, XAResource.TMSUCCESS)
            resource.commit(branch, True)
            reader = connection.create_session()
            connection.start()
            assert take_texts(reader.create_consumer(reader.create_queue("orders")), 1) == ["espresso"]
