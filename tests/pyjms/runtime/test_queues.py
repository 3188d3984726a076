"""Queues, their browsers and selectors (JMS 1.1 §5; §3.8 as consumers see it)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest

from pyjms import (
    BytesMessage,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    MapMessage,
    Message,
    NoSuchElementException,
    ObjectMessage,
    Session,
    StreamMessage,
    TextMessage,
)
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from tests.pyjms.runtime.closed_world import Pool
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    Call,
    Recorder,
    WatchedClock,
    drain,
    send_texts,
    take,
    take_texts,
    text_of,
    within_patience,
)


class TestQueue:
    @pytest.mark.realises("BOIL-PTP-1", "BOIL-SESS-1")
    def test_it_holds_a_mixture_of_messages(self, session: Session) -> None:
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        makers: list[tuple[Callable[[], Message], type[Message]]] = [
            (session.create_message, Message),
            (session.create_text_message, TextMessage),
            (session.create_bytes_message, BytesMessage),
            (session.create_map_message, MapMessage),
            (session.create_stream_message, StreamMessage),
            (session.create_object_message, ObjectMessage),
        ]
        for make, _ in makers:
            producer.send(make())
        consumer = session.create_consumer(queue)
        bodies = {each for _, each in makers[1:]}
        for _, kind in makers:
            message = take(consumer)
            assert isinstance(message, kind)
            assert {each for each in bodies if isinstance(message, each)} == {kind} - {Message}

    @pytest.mark.realises("BOIL-PTP-1")
    def test_messages_wait_for_the_first_consumer(self, connect: Connect) -> None:
        with connect() as connection:
            session = connection.create_session()
            send_texts(session, session.create_queue("orders"), "one", "two")
        session = connect().create_session()
        assert drain(session.create_consumer(session.create_queue("orders"))) == ["one", "two"]

    @pytest.mark.realises("BOIL-PTP-2")
    def test_it_comes_into_being_with_its_first_use(self, session: Session) -> None:
        """JMS has no way to create one; a name is enough here."""
        consumer = session.create_consumer(session.create_queue("never heard of"))
        send_texts(session, session.create_queue("never heard of"), "one")
        assert drain(consumer) == ["one"]
        assert list(session.create_browser(session.create_queue("nor of this"))) == []

    @pytest.mark.realises("BOIL-PTP-3", "BOIL-SESS-4", "BOIL-HDR-7")
    @pytest.mark.parametrize("closes", ["session", "connection"])
    def test_what_a_session_leaves_unacknowledged_is_redelivered(self, connect: Connect, closes: str) -> None:
        connection, other = connect(), connect().create_session()
        session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        send_texts(other, queue, "one", "two", "three")
        assert take_texts(session.create_consumer(queue), 2) == ["one", "two"]
        (session if closes == "session" else connection).close()
        consumer = other.create_consumer(queue)
        messages = [take(consumer) for _ in range(3)]
        assert [text_of(message) for message in messages] == ["one", "two", "three"]
        assert [message.jms_redelivered for message in messages] == [True, True, False]

    def test_names_tell_upper_from_lower_case(self, session: Session) -> None:
        send_texts(session, session.create_queue("Orders"), "one")
        assert drain(session.create_consumer(session.create_queue("orders"))) == []

    def test_a_queue_and_a_topic_of_one_name_are_two(self, session: Session) -> None:
        queue, topic = session.create_queue("same"), session.create_topic("same")
        from_queue, from_topic = session.create_consumer(queue), session.create_consumer(topic)
        send_texts(session, queue, "queued")
        send_texts(session, topic, "published")
        assert (drain(from_queue), drain(from_topic)) == (["queued"], ["published"])


@pytest.mark.realises("BOIL-PTP-4")
class TestBrowser:
    def test_it_looks_without_removing(self, session: Session) -> None:
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two", "three")
        browser = session.create_browser(queue)
        for _ in range(2):
            assert [text_of(message) for message in browser] == ["one", "two", "three"]
        consumer = session.create_consumer(queue)
        messages = [take(consumer) for _ in range(3)]
        assert not any(message.jms_redelivered for message in messages)
        assert list(browser) == []

    def test_in_the_order_of_receiving(self, session: Session) -> None:
        queue = session.create_queue("orders")
        for priority in (4, 9, 0):
            send_texts(session, queue, f"p{priority}", priority=priority)
        assert [text_of(message) for message in session.create_browser(queue)] == ["p9", "p4", "p0"]

    def test_the_enumeration_is_javas_too(self, session: Session) -> None:
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        enumeration = session.createBrowser(queue).getEnumeration()
        got = []
        while enumeration.hasMoreElements():
            got.append(text_of(enumeration.nextElement()))
        assert got == ["one", "two"]
        with pytest.raises(NoSuchElementException):
            enumeration.nextElement()

    def test_it_says_what_it_browses(self, session: Session) -> None:
        queue = session.create_queue("orders")
        browser = session.create_browser(queue, "cups > 1")
        assert (browser.queue, browser.message_selector) == (queue, "cups > 1")
        assert (browser.getQueue(), browser.getMessageSelector()) == (queue, "cups > 1")
        assert session.create_browser(queue).message_selector is None

    def test_messages_may_come_and_go_meanwhile(self, session: Session) -> None:
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two", "three")
        enumeration = session.create_browser(queue).enumeration
        assert text_of(enumeration.next_element()) == "one"
        consumer = session.create_consumer(queue)
        assert drain(consumer) == ["one", "two", "three"]
        send_texts(session, queue, "four")
        rest = [text_of(message) for message in enumeration]
        assert set(rest) <= {"two", "three", "four"}
        assert drain(consumer) == ["four"]

    def test_it_needs_no_started_connection(self, connect: Connect) -> None:
        """What is browsed is not delivered (§4.3.3 speaks of delivery)."""
        session = connect(started=False).create_session()
        queue = session.create_queue("orders")
        send_texts(session, queue, "one")
        assert [text_of(message) for message in session.create_browser(queue)] == ["one"]

    def test_messages_in_the_hands_of_others_are_not_shown(self, connect: Connect) -> None:
        session = connect().create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        take(session.create_consumer(queue))
        other = connect().create_session()
        assert [text_of(message) for message in other.create_browser(queue)] == ["two"]

    def test_uncommitted_and_expired_messages_are_not_shown(
        self, virtual_clock: WatchedClock, connect: Connect
    ) -> None:
        connection = connect()
        session, transacted = connection.create_session(), connection.create_session(True, 0)
        queue = session.create_queue("orders")
        send_texts(transacted, queue, "uncommitted")
        send_texts(session, queue, "short", time_to_live=100)
        send_texts(session, queue, "long", time_to_live=1000)
        virtual_clock.advance(101)
        assert [text_of(message) for message in session.create_browser(queue)] == ["long"]

    def test_what_it_shows_is_read_only_and_nobodys_copy(self, session: Session) -> None:
        queue = session.create_queue("orders")
        send_texts(session, queue, "one")
        shown = next(iter(session.create_browser(queue)))
        shown.clear_body()
        shown.acknowledge()
        assert take_texts(session.create_consumer(queue), 1) == ["one"]

    @pytest.mark.realises("BOIL-ACK-3")
    def test_what_was_only_looked_at_acknowledges_nothing(self, connection: JmsConnection, session: Session) -> None:
        queue = session.create_queue("orders")
        send_texts(session, queue, "received", "browsed")
        client = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        assert take_texts(client.create_consumer(queue), 1) == ["received"]
        for shown in client.create_browser(queue):
            shown.acknowledge()
        client.close()
        assert take_texts(session.create_consumer(queue), 2) == ["received", "browsed"]
        with pytest.raises(IllegalStateException):
            shown.acknowledge()

    def test_many_browsers_at_once(self, session: Session) -> None:
        queue = session.create_queue("orders")
        send_texts(session, queue, *map(str, range(20)))
        first, second = session.create_browser(queue), session.create_browser(queue)
        pairs = zip(first, second, strict=True)
        assert [(text_of(a), text_of(b)) for a, b in pairs] == [(str(n), str(n)) for n in range(20)]

    @pytest.mark.realises("BOIL-EXC-5")
    @pytest.mark.parametrize("wrong", [None, "orders", 5])
    def test_it_needs_a_queue(self, session: Session, wrong: object) -> None:
        with pytest.raises(InvalidDestinationException):
            session.create_browser(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidDestinationException):
            session.create_browser(session.create_topic("prices"))  # type: ignore[arg-type]


def with_cups(session: Session, *cups: int) -> list[Message]:
    """Return messages with a property."""
    messages: list[Message] = []
    for number in cups:
        message = session.create_text_message(f"{number} cups")
        message.set_int_property("cups", number)
        messages.append(message)
    return messages


class TestSelectors:
    def test_the_rest_stays_on_the_queue(self, session: Session) -> None:
        queue = session.create_queue("orders")
        with session.create_producer(queue) as producer:
            for message in with_cups(session, 1, 2, 3):
                producer.send(message)
        assert drain(session.create_consumer(queue, "cups > 1")) == ["2 cups", "3 cups"]
        assert drain(session.create_consumer(queue)) == ["1 cups"]

    def test_a_browser_has_one_too(self, session: Session) -> None:
        queue = session.create_queue("orders")
        with session.create_producer(queue) as producer:
            for message in with_cups(session, 1, 2, 3):
                producer.send(message)
        assert [text_of(message) for message in session.create_browser(queue, "cups <> 2")] == ["1 cups", "3 cups"]

    def test_two_consumers_divide_a_queue(self, connect: Connect) -> None:
        recorders, sending = [Recorder(), Recorder()], connect().create_session()
        for recorder, selector in zip(recorders, ("cups < 5", "cups >= 5"), strict=True):
            session = connect().create_session()
            session.create_consumer(session.create_queue("orders"), selector).message_listener = recorder
        with sending.create_producer(sending.create_queue("orders")) as producer:
            for message in with_cups(sending, *range(10)):
                producer.send(message)
        assert recorders[0].wait_for(5) == [f"{number} cups" for number in range(5)]
        assert recorders[1].wait_for(5) == [f"{number} cups" for number in range(5, 10)]

    def test_a_blocked_receive_waits_for_its_kind(self, virtual_clock: WatchedClock, connect: Connect) -> None:
        session, sending = connect().create_session(), connect().create_session()
        queue = session.create_queue("orders")
        waiting = Call(session.create_consumer(queue, "cups = 2").receive)
        virtual_clock.await_blocked(waiting)
        one, two = with_cups(sending, 1, 2)
        with sending.create_producer(queue) as producer:
            producer.send(one)
            assert waiting.is_blocked()
            producer.send(two)
        assert text_of(waiting.result()) == "2 cups"

    @pytest.mark.parametrize("nothing", [None, ""])
    def test_no_selector_takes_all(self, session: Session, nothing: str | None) -> None:
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue, nothing)
        assert consumer.message_selector is None
        send_texts(session, queue, "one")
        assert drain(consumer) == ["one"]

    def test_a_consumer_says_its_selector(self, session: Session) -> None:
        consumer = session.create_consumer(session.create_queue("orders"), " cups > 1 ")
        assert consumer.message_selector == " cups > 1 "
        assert consumer.getMessageSelector() == " cups > 1 "

    def test_headers_are_selected_as_the_send_set_them(self, session: Session) -> None:
        queue = session.create_queue("orders")
        for mode, priority in ((1, 3), (2, 8)):
            send_texts(session, queue, f"{mode} {priority}", delivery_mode=mode, priority=priority)
        persistent = session.create_consumer(queue, "JMSDeliveryMode = 'PERSISTENT' AND JMSPriority = 8")
        assert drain(persistent) == ["2 8"]
        assert drain(session.create_consumer(queue, "JMSMessageID IS NOT NULL")) == ["1 3"]

    @pytest.mark.realises("BOIL-EXC-6")
    @pytest.mark.parametrize("wrong", ["cups >", "cups > > 1", "'open", "cups = 1 AND", "(cups = 1"])
    def test_a_wrong_one_is_refused_when_the_consumer_is_made(
        self, connect: Connect, jms_connection_factory: ConnectionFactory, wrong: str
    ) -> None:
        connection = connect("shop")
        session = connection.create_session()
        queue, topic = session.create_queue("orders"), session.create_topic("prices")
        with (
            jms_connection_factory.create_queue_connection() as queues,
            jms_connection_factory.create_topic_connection() as topics,
        ):
            queue_session, topic_session = queues.create_queue_session(), topics.create_topic_session()
            makers: list[Callable[[], object]] = [
                lambda: session.create_consumer(queue, wrong),
                lambda: session.create_consumer(topic, wrong),
                lambda: session.create_browser(queue, wrong),
                lambda: session.create_durable_subscriber(topic, "all", wrong),
                lambda: queue_session.create_receiver(queue, wrong),
                lambda: topic_session.create_subscriber(topic, wrong),
                lambda: connection.create_connection_consumer(queue, wrong, Pool(), 1),
                lambda: connection.create_durable_connection_consumer(topic, "all", wrong, Pool(), 1),
            ]
            for make in makers:
                with pytest.raises(InvalidSelectorException) as caught:
                    make()
                lines = str(caught.value).splitlines()
                assert wrong in lines[-2]
                assert lines[-1].strip() == "^"
                assert len(lines[-1]) <= len(lines[-2]) + 1

    @pytest.mark.realises("BOIL-EXC-6")
    @pytest.mark.parametrize("make", ["create_consumer", "create_browser"])
    @pytest.mark.parametrize("wrong", [5, b"cups > 1", object(), True, False, b""])
    def test_what_is_no_text_is_refused(self, session: Session, wrong: object, make: str) -> None:
        """False among them: `no_local` in the place of the selector would have been no selector at all."""
        with pytest.raises(InvalidSelectorException) as caught:
            getattr(session, make)(session.create_queue("orders"), wrong)
        assert str(caught.value) == f"a selector is a str, or None for none, not {type(wrong).__name__}"


class TestConsumer:
    @pytest.mark.realises("BOIL-EXC-5")
    @pytest.mark.parametrize("wrong", [None, "orders", 5])
    def test_it_needs_a_destination(self, session: Session, wrong: object) -> None:
        with pytest.raises(InvalidDestinationException):
            session.create_consumer(wrong)  # type: ignore[arg-type]

    def test_keywords_and_java_names(self, session: Session) -> None:
        queue = session.create_queue("orders")
        assert session.create_consumer(destination=queue, message_selector="a = 1").message_selector == "a = 1"
        assert session.createConsumer(queue, "a = 1", False).getMessageSelector() == "a = 1"
        with pytest.raises(TypeError):
            session.create_consumer(queue, None, False, 4)  # type: ignore[call-arg]

    def test_leaving_the_block_frees_its_share(self, session: Session) -> None:
        queue = session.create_queue("orders")
        with session.create_consumer(queue):
            pass
        send_texts(session, queue, "one")
        assert drain(session.create_consumer(queue)) == ["one"]

    def test_a_consumer_that_nobody_reads_keeps_nothing_from_the_other(
        self, connection: JmsConnection, connect: Connect
    ) -> None:
        """No message is set aside for a consumer that does not ask for one."""
        idle, reading = connection.create_session(), connect().create_session()
        queue = idle.create_queue("orders")
        idle.create_consumer(queue)
        send_texts(reading, queue, *map(str, range(20)))
        assert drain(reading.create_consumer(queue)) == [str(number) for number in range(20)]

    def test_a_busy_listener_keeps_nothing_from_the_other(self, connect: Connect, latch: Callable[[], Event]) -> None:
        release, busy, other = latch(), Recorder(), connect().create_session()
        session = connect().create_session()
        queue = session.create_queue("orders")
        busy = Recorder(lambda message: release.wait(10))
        session.create_consumer(queue).message_listener = busy
        send_texts(other, queue, "first")
        busy.wait_for(1)
        send_texts(other, queue, *map(str, range(10)))
        consumer = other.create_consumer(queue)
        assert within_patience(take_texts, consumer, 10) == [str(number) for number in range(10)]


@pytest.mark.parametrize("priority", [0, 4, 9])
def test_an_enumeration_ends_at_the_message_that_was_the_last_when_it_began(session: Session, priority: int) -> None:
    """Else a browser of a queue that is filled as fast as it looks never comes to an end."""
    queue = session.create_queue("orders")
    producer = session.create_producer(queue)
    producer.priority = priority
    for number in range(3):
        producer.send(session.create_text_message(f"{number}"))
    seen = []
    browser = session.create_browser(queue)
    for message in browser:
        seen.append(text_of(message))
        assert len(seen) <= 3
        producer.send(session.create_text_message("later"))
    assert seen == ["0", "1", "2"]
    assert len(list(browser)) == 6
