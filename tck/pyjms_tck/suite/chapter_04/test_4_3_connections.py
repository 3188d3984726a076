"""Connection factories, destinations and connections: set-up, start, stop, close, errors (4.2 and 4.3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    ExceptionListener,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    JMSException,
    Queue,
    Session,
    TextMessage,
    Topic,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, MakeName, Record, RestartBroker, RunBackground
from pyjms_tck.profile import Profile
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_04 import endings
from pyjms_tck.suite.chapter_04.endings import check_receive_ends, check_waits_for_listener
from pyjms_tck.suite.exchange import (
    NO_DESTINATION,
    Collector,
    DurableClient,
    Holding,
    leftovers,
    send_texts,
    take,
    take_texts,
)

THREADS = 4
MESSAGES = 5


@requirement("4.2.1-a")
def test_4_2_1_a_several_threads_send_to_one_queue_object(
    queue: Queue, connect: Connect, session: Session, background: RunBackground, waits: Waits
) -> None:
    texts = [[f"thread {thread}, message {number}" for number in range(MESSAGES)] for thread in range(THREADS)]

    def send(mine: list[str], connection: Connection) -> str:
        send_texts(connection.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, *mine)
        return queue.queue_name

    # A connection for each thread: the queue object is all that the threads share.
    connections = [connect() for _ in range(THREADS)]
    sending = [background(partial(send, mine, connection)) for mine, connection in zip(texts, connections, strict=True)]
    names = {task.result() for task in sending}
    received = take_texts(session.create_consumer(queue), waits, THREADS * MESSAGES)
    assert names == {queue.queue_name}, "each thread reads the same name from the queue"
    assert sorted(map(str, received)) == sorted(text for mine in texts for text in mine), "all messages arrive"


@requirement("4.2.2-a")
def test_4_2_2_a_several_threads_make_connections_with_one_factory(
    factory: ConnectionFactory, queue: Queue, session: Session, background: RunBackground, waits: Waits
) -> None:
    def send(text: str) -> None:
        with factory.create_connection() as connection:
            send_texts(connection.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, text)

    texts = [f"thread {number}" for number in range(THREADS)]
    # All threads are started before the first result is waited for, so that they connect at the same time.
    for task in [background(partial(send, text)) for text in texts]:
        task.result()
    received = take_texts(session.create_consumer(queue), waits, THREADS)
    # Sorted, as order holds within one session only (§4.4.10.1).
    assert sorted(map(str, received)) == texts, "the message of each thread's connection arrives"


@requirement("4.3-a")
def test_4_3_a_several_threads_use_one_connection(
    connection: Connection, make_queue: MakeDestination, background: RunBackground, waits: Waits
) -> None:
    def exchange(queue: Queue) -> list[str | None]:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        send_texts(session, queue, "one", "two", "three")
        return take_texts(session.create_consumer(queue), waits, 3)

    exchanges = [background(partial(exchange, make_queue())) for _ in range(4)]
    results = [task.result() for task in exchanges]
    assert results == [["one", "two", "three"]] * 4, "each thread, with a session and a queue of its own"


@requirement("4.3.1-a")
def test_4_3_1_a_a_new_connection_is_stopped(
    factory: ConnectionFactory, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "early")
    with factory.create_connection() as connection:
        consumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
        assert leftovers(consumer, waits) == [], "a connection that was not started delivers nothing"
        connection.start()
        assert take(consumer, waits).text == "early"


@requirement("4.3.1-b")
def test_4_3_1_b_a_new_connection_with_credentials_is_stopped(
    factory: ConnectionFactory, profile: Profile, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "early")
    # A provider that checks no credentials has to take any.
    with factory.create_connection(profile.user_name or "guest", profile.password or "guest") as connection:
        consumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
        assert leftovers(consumer, waits) == [], "a connection that was not started delivers nothing"
        connection.start()
        assert take(consumer, waits).text == "early"


@requirement("4.3.2-a")
def test_4_3_2_a_a_client_identifier_is_set_and_read(connect: Connect, make_name: MakeName) -> None:
    connection, name = connect(), make_name("client")
    connection.client_id = name
    assert connection.client_id == name


@requirement("4.3.2-b")
@pytest.mark.parametrize("again", ["the same", "another"])
def test_4_3_2_b_a_client_identifier_is_set_once(connect: Connect, make_name: MakeName, again: str) -> None:
    connection, name = connect(), make_name("client")
    connection.client_id = name
    with pytest.raises(IllegalStateException):
        connection.client_id = name if again == "the same" else make_name("client")
    assert connection.client_id == name, "the refused call changes nothing"


@requirement("4.3.2-c")
@pytest.mark.parametrize(
    "use",
    [
        pytest.param(
            lambda connection: connection.create_session(False, Session.AUTO_ACKNOWLEDGE), id="create_session"
        ),
        pytest.param(lambda connection: connection.start(), id="start"),
        pytest.param(lambda connection: connection.stop(), id="stop"),
    ],
)
def test_4_3_2_c_a_client_identifier_is_set_before_any_other_use(
    connect: Connect, make_name: MakeName, use: Callable[[Connection], object]
) -> None:
    connection = connect()
    use(connection)
    with pytest.raises(IllegalStateException):
        connection.client_id = make_name("client")


@requirement("4.3.2-d")
def test_4_3_2_d_a_client_identifier_belongs_to_one_active_connection(connect: Connect, make_name: MakeName) -> None:
    name = make_name("client")
    first, second = connect(client_id=name), connect()
    with pytest.raises(InvalidClientIDException):
        second.client_id = name
    first.close()
    third = connect(client_id=name)
    assert third.client_id == name, "a client identifier is free when its connection is closed"


@requirement("4.3.2-e")
def test_4_3_2_e_subscriptions_of_one_name_belong_to_their_clients(
    durable: DurableClient, connect: Connect, make_name: MakeName, topic: Topic, waits: Waits
) -> None:
    other = connect(started=True, client_id=make_name("client")).create_session(False, Session.AUTO_ACKNOWLEDGE)
    ours = durable.open().create_session(False, Session.AUTO_ACKNOWLEDGE)
    our_subscriber = ours.create_durable_subscriber(topic, durable.name)
    other_subscriber = other.create_durable_subscriber(topic, durable.name)
    try:
        send_texts(ours, topic, "for both")
        assert take(our_subscriber, waits).text == "for both"
        assert take(other_subscriber, waits).text == "for both", "the client with another identifier has its own copy"
    finally:
        # The fixture forgets the subscriptions of its own client alone; this one belongs to another client.
        other_subscriber.close()
        other.unsubscribe(durable.name)
    send_texts(ours, topic, "after the other one unsubscribed")
    assert take(our_subscriber, waits).text == "after the other one unsubscribed"


@requirement("4.3.3-a")
def test_4_3_3_a_start_begins_delivery(connect: Connect, session: Session, queue: Queue, waits: Waits) -> None:
    connection, listener = connect(), Collector()
    connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue).message_listener = listener
    send_texts(session, queue, "first")
    connection.start()
    assert listener.wait_for(1, waits) == ["first"]
    connection.start()
    send_texts(session, queue, "second")
    assert listener.wait_for(2, waits) == ["first", "second"], "a second start does nothing"


@requirement("4.3.3-a", "4.3.4-a")
def test_4_3_3_a_start_resumes_delivery_after_a_stop(
    connect: Connect, session: Session, queue: Queue, waits: Waits
) -> None:
    connection = connect(started=True)
    consumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
    connection.stop()
    send_texts(session, queue, "text")
    connection.start()
    assert take(consumer, waits).text == "text"


@requirement("4.3.3-b")
def test_4_3_3_b_messages_arrive_while_a_started_connection_is_set_up(
    connection: Connection, make_queue: MakeDestination, waits: Waits
) -> None:
    first, second = make_queue(), make_queue()
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    for queue in (first, second):
        send_texts(session, queue, "waiting")
    listener = Collector()
    session.create_consumer(first).message_listener = listener
    assert listener.wait_for(1, waits) == ["waiting"], "the first consumer gets messages before the setup is complete"
    # A second session: the first one belongs to its listener's thread by now (§4.4.6).
    receiving = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(second)
    assert take(receiving, waits).text == "waiting"


@requirement("4.3.3-c")
def test_4_3_3_c_nothing_is_delivered_before_the_start(
    connect: Connect, session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    heard, received = make_queue(), make_queue()
    connection, listener = connect(), Collector()
    consumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(received)
    connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(heard).message_listener = listener
    for queue in (heard, received):
        send_texts(session, queue, "too early")
    assert consumer.receive_no_wait() is None, "receive_no_wait returns nothing before the start"
    assert leftovers(consumer, waits) == [], "receive returns nothing before the start"
    # The wait of `leftovers` was the listener's chance, too.
    assert listener.texts == [], "no listener is called before the start"


@requirement("4.3.3-d")
def test_4_3_3_d_a_connection_sends_before_its_start(
    connect: Connect, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(connect().create_session(False, Session.AUTO_ACKNOWLEDGE), queue, "sent before the start")
    assert take(session.create_consumer(queue), waits).text == "sent before the start"


@requirement("4.3.4-a")
def test_4_3_4_a_start_twice_and_stop_twice_are_as_once(
    connect: Connect, session: Session, queue: Queue, waits: Waits
) -> None:
    connection = connect()
    # A stop before the first start must not count against it.
    connection.stop()
    consumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
    connection.start()
    connection.start()
    send_texts(session, queue, "running")
    assert take(consumer, waits).text == "running"
    connection.stop()
    connection.stop()
    send_texts(session, queue, "halted")
    assert leftovers(consumer, waits) == [], "one stop halts the connection, however often it was started"
    connection.start()
    assert take(consumer, waits).text == "halted", "one start is enough, however often it was stopped"


@requirement("4.3.4-b")
def test_4_3_4_b_stop_suspends_receivers_and_listeners(
    connect: Connect, session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    heard, received = make_queue(), make_queue()
    connection, listener = connect(started=True), Collector()
    consumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(received)
    connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(heard).message_listener = listener
    send_texts(session, heard, "before")
    assert listener.wait_for(1, waits) == ["before"]
    connection.stop()
    for queue in (heard, received):
        send_texts(session, queue, "while stopped")
    assert leftovers(consumer, waits) == [], "a stopped connection lets no receive return a message"
    # The wait of `leftovers` was the listener's chance, too.
    assert listener.texts == ["before"], "a stopped connection calls no listener"
    connection.start()
    assert listener.wait_for(2, waits) == ["before", "while stopped"]
    assert take(consumer, waits).text == "while stopped"


@requirement("4.3.4-b")
def test_4_3_4_b_a_receive_that_waits_goes_on_after_the_next_start(
    connect: Connect, session: Session, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    connection = connect(started=True)
    consumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
    receiving = background(partial(consumer.receive, waits.something_ms))
    waits.pause()
    connection.stop()
    # Sent while the connection is stopped: the receive that waits must not return it before the start (§4.3.4).
    send_texts(session, queue, "text")
    waits.pause()
    assert receiving.is_running, "receive waits while the connection is stopped"
    connection.start()
    message = receiving.result()
    assert isinstance(message, TextMessage), "receive returns the message after the start"
    assert message.text == "text"


@requirement("4.3.4-c")
def test_4_3_4_c_stop_waits_for_a_running_listener(
    connect: Connect, session: Session, make_queue: MakeDestination, background: RunBackground, waits: Waits
) -> None:
    requests, replies = make_queue(), make_queue()
    connection = connect(started=True)
    answering = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    # The listener sends after stop has been called: until it returns it has the full use of its session (§4.3.4).
    with Holding(waits, meanwhile=lambda _: send_texts(answering, replies, "the listener's reply")) as listener:
        answering.create_consumer(requests).message_listener = listener
        send_texts(session, requests, "first", "second")
        check_waits_for_listener(connection.stop, listener, background, waits)
        assert listener.error is None, "the listener has the full use of its session while stop waits"
    # The second message is with the client, perhaps; its listener must not be called.
    waits.pause()
    assert listener.texts == ["first"], "after stop no listener is called"
    assert take(session.create_consumer(replies), waits).text == "the listener's reply"


@requirement("4.3.4-d")
def test_4_3_4_d_a_stopped_connection_sends(connect: Connect, session: Session, queue: Queue, waits: Waits) -> None:
    connection = connect(started=True)
    sending = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    connection.stop()
    send_texts(sending, queue, "sent while stopped")
    assert take(session.create_consumer(queue), waits).text == "sent while stopped"


@requirement("4.3.4-e")
def test_4_3_4_e_a_receive_times_out_on_a_stopped_connection(
    connect: Connect, session: Session, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    # With a message on the queue, a provider that ignores the stop returns that instead of null.
    send_texts(session, queue, "out of reach")
    consumer = connect().create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
    receiving = background(partial(consumer.receive, waits.nothing_ms))
    assert receiving.result() is None, "the timeout goes on although the connection is stopped"


@requirement("4.3.6-a")
@pytest.mark.parametrize("mode", [Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE])
def test_4_3_6_a_a_session_has_the_mode_that_was_asked_for(connection: Connection, mode: int) -> None:
    session = connection.create_session(False, mode)
    assert (session.transacted, session.acknowledge_mode) == (False, mode)


@requirement("4.3.6-a")
@needs("TRANSACTIONS")
@pytest.mark.parametrize("mode", [Session.SESSION_TRANSACTED, Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE])
def test_4_3_6_a_a_transacted_session_ignores_the_mode(connection: Connection, mode: int) -> None:
    session = connection.create_session(True, mode)
    assert (session.transacted, session.acknowledge_mode) == (True, Session.SESSION_TRANSACTED)


@requirement("4.3.7-a")
def test_4_3_7_a_the_version_of_jms_as_text_and_as_numbers(connection: Connection) -> None:
    about = connection.meta_data
    numbers = (about.jms_major_version, about.jms_minor_version)
    assert _numbers_in(about.jms_version) == numbers, f"the numbers in {about.jms_version!r}"
    assert numbers >= (1, 1), "a provider of JMS 1.1 or later"


@requirement("4.3.7-b")
def test_4_3_7_b_the_name_and_the_version_of_the_provider(connection: Connection) -> None:
    about = connection.meta_data
    numbers = (about.provider_major_version, about.provider_minor_version)
    assert about.jms_provider_name, "the provider has a name"
    assert _numbers_in(about.provider_version) == numbers, f"the numbers in {about.provider_version!r}"


def _numbers_in(version: str) -> tuple[int, int]:
    # A version such as "2" has fewer than two numbers, one such as "3.10.7" has more; a missing one is 0.
    major, minor, *_ = [*map(int, re.findall(r"\d+", version)), 0, 0]
    return major, minor


@pytest.fixture
def other(connect: Connect) -> Connection:
    """A started connection for the test to close."""
    return connect(started=True)


@requirement("4.3.5-a")
def test_4_3_5_a_a_running_listener_keeps_the_use_of_its_session(
    other: Connection, session: Session, make_queue: MakeDestination, background: RunBackground, waits: Waits
) -> None:
    requests, replies = make_queue(), make_queue()
    answering = other.createSession(False, Session.CLIENT_ACKNOWLEDGE)

    def answer(message: object) -> None:
        assert isinstance(message, TextMessage)
        send_texts(answering, replies, f"reply to {message.getText()}")
        message.acknowledge()

    with Holding(waits, meanwhile=answer) as listener:
        answering.createConsumer(requests).setMessageListener(listener)
        send_texts(session, requests, "request")
        listener.wait_until_entered()
        closing = background(other.close)
        # The close has begun by the end of this pause, and the listener works only after it.
        waits.pause()
        listener.release()
        closing.result()
        assert listener.error is None, "the listener can send and acknowledge while close waits for it"
    assert take(session.createConsumer(replies), waits).getText() == "reply to request"
    # An acknowledgement that the close had cut off would bring the request back.
    assert leftovers(session.createConsumer(requests), waits) == [], "the listener's acknowledgement counts"


@requirement("4.3.5-b")
def test_4_3_5_b_close_waits_for_a_running_listener(
    other: Connection, session: Session, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    with Holding(waits) as listener:
        other.createSession(False, Session.AUTO_ACKNOWLEDGE).createConsumer(queue).setMessageListener(listener)
        send_texts(session, queue, "text")
        check_waits_for_listener(other.close, listener, background, waits)


@requirement("4.3.5-b", "4.3.5-k")
@pytest.mark.parametrize("timeout", [None, 0, 60_000], ids=["receive()", "receive(0)", "receive(60000)"])
def test_4_3_5_k_close_ends_pending_receives(
    other: Connection, queue: Queue, background: RunBackground, waits: Waits, timeout: int | None
) -> None:
    consumer = other.createSession(False, Session.AUTO_ACKNOWLEDGE).createConsumer(queue)
    check_receive_ends(consumer, other.close, background, waits, timeout)


@requirement("4.3.5-c")
def test_4_3_5_c_close_rolls_back_transactions(
    other: Connection, session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    inbound, outbound = make_queue(), make_queue()
    send_texts(session, inbound, "received in the transaction")
    transacted = other.createSession(True, Session.SESSION_TRANSACTED)
    take(transacted.createConsumer(inbound), waits)
    send_texts(transacted, outbound, "sent in the transaction")
    other.close()
    again = take(session.createConsumer(inbound), waits)
    assert again.getText() == "received in the transaction", "a message of an open transaction comes again"
    assert leftovers(session.createConsumer(outbound), waits) == [], "nothing of an open transaction is sent"


@requirement("4.3.5-d")
def test_4_3_5_d_close_acknowledges_nothing_for_the_client(
    other: Connection, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "acknowledged", "not acknowledged")
    consumer = other.createSession(False, Session.CLIENT_ACKNOWLEDGE).createConsumer(queue)
    # One message is acknowledged: a provider that acknowledges nothing at all would pass without it.
    take(consumer, waits).acknowledge()
    take(consumer, waits)
    other.close()
    again = take(session.createConsumer(queue), waits, "the message that was not acknowledged, again")
    assert again.getText() == "not acknowledged"
    assert again.getJMSRedelivered() is True, "it was delivered before, and says so"


@requirement("4.3.5-e")
def test_4_3_5_e_a_message_of_a_closed_connection_is_not_acknowledged(
    other: Connection, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "text")
    message = take(other.createSession(False, Session.CLIENT_ACKNOWLEDGE).createConsumer(queue), waits)
    other.close()
    with pytest.raises(IllegalStateException):
        message.acknowledge()


@requirement("4.3.5-f")
def test_4_3_5_f_a_closed_connection_refuses_every_call(other: Connection) -> None:
    other.close()
    assert endings.not_refused(endings.connection_calls(other)) == {}, "calls that do not raise IllegalStateException"


@requirement("4.3.5-f", "4.3.5-j", "4.4.1-f")
def test_4_3_5_f_the_sessions_of_a_closed_connection_refuse_every_call(other: Connection, queue: Queue) -> None:
    session = other.createSession(False, Session.AUTO_ACKNOWLEDGE)
    other.close()
    calls = endings.session_calls(session, queue)
    assert endings.not_refused(calls) == {}, "calls that do not raise IllegalStateException"


@requirement("4.3.5-f", "4.3.5-j")
def test_4_3_5_f_the_consumers_of_a_closed_connection_refuse_every_call(other: Connection, queue: Queue) -> None:
    consumer = other.createSession(False, Session.AUTO_ACKNOWLEDGE).createConsumer(queue)
    other.close()
    assert endings.not_refused(endings.consumer_calls(consumer)) == {}, "calls that do not raise IllegalStateException"


@requirement("4.3.5-f", "4.3.5-j")
def test_4_3_5_f_the_producers_of_a_closed_connection_refuse_every_call(
    other: Connection, session: Session, queue: Queue
) -> None:
    producer = other.createSession(False, Session.AUTO_ACKNOWLEDGE).createProducer(queue)
    message = session.createTextMessage("text")
    other.close()
    calls = endings.producer_calls(producer, message)
    assert endings.not_refused(calls) == {}, "calls that do not raise IllegalStateException"


@requirement("4.3.5-j")
@needs("BROWSING")
def test_4_3_5_j_the_browsers_of_a_closed_connection_refuse_every_call(other: Connection, queue: Queue) -> None:
    browser = other.createSession(False, Session.AUTO_ACKNOWLEDGE).createBrowser(queue)
    other.close()
    assert endings.not_refused(endings.browser_calls(browser)) == {}, "calls that do not raise IllegalStateException"


@requirement("4.3.5-g")
def test_4_3_5_g_the_parts_of_a_closed_connection_can_be_closed(other: Connection, queue: Queue) -> None:
    session = other.createSession(False, Session.AUTO_ACKNOWLEDGE)
    parts = (session.createProducer(queue), session.createConsumer(queue), session)
    other.close()
    for part in parts:
        part.close()


@requirement("4.3.5-h")
def test_4_3_5_h_messages_stay_usable(other: Connection, session: Session, queue: Queue, waits: Waits) -> None:
    sending = other.createSession(False, Session.AUTO_ACKNOWLEDGE)
    made = sending.createTextMessage("text")
    made.setStringProperty("word", "value")
    sending.createProducer(queue).send(made)
    received = take(sending.createConsumer(queue), waits)
    other.close()
    for message in (made, received):
        assert (message.getText(), message.getStringProperty("word")) == ("text", "value")
    # A received body is read-only until it is cleared (§3.10).
    received.clearBody()
    received.setText("another text")
    session.createProducer(queue).send(received)
    assert take(session.createConsumer(queue), waits).getText() == "another text", "another session can send it"


@requirement("4.3.5-i")
def test_4_3_5_i_a_connection_can_be_closed_twice(other: Connection) -> None:
    other.close()
    other.close()


@requirement("4.3.5-i")
def test_4_3_5_i_a_connection_that_was_never_used_can_be_closed_twice(connect: Connect) -> None:
    connection = connect()
    connection.close()
    connection.close()


class Told(ExceptionListener):
    """Stores its calls, and counts how many run at the same time."""

    def __init__(self, waits: Waits) -> None:
        self.errors: list[JMSException] = []
        self.most_at_once = 0
        self._waits = waits
        self._running = 0
        self._lock = Lock()

    def onException(self, exception: JMSException) -> None:
        with self._lock:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            self.errors.append(exception)
        self._waits.pause()  # a second call has its chance to begin
        with self._lock:
            self._running -= 1


@requirement("4.3.8-a")
def test_4_3_8_a_the_listener_that_was_set_is_returned(connect: Connect, waits: Waits) -> None:
    connection, listener = connect(), Told(waits)
    connection.setExceptionListener(listener)
    assert connection.getExceptionListener() is listener
    connection.setExceptionListener(None)
    assert connection.getExceptionListener() is None, "null removes the listener"


@requirement("4.3.8-c")
def test_4_3_8_c_a_new_connection_has_no_exception_listener(connect: Connect) -> None:
    assert connect().getExceptionListener() is None


@requirement("4.3.8-d")
def test_4_3_8_d_what_a_call_throws_does_not_go_to_the_listener(
    connection: Connection, make_name: MakeName, waits: Waits
) -> None:
    listener = Told(waits)
    connection.setExceptionListener(listener)
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    with pytest.raises(InvalidDestinationException):
        session.createConsumer(NO_DESTINATION)
    with pytest.raises(IllegalStateException):
        session.commit()
    with pytest.raises(IllegalStateException):
        connection.setClientID(make_name("client"))
    # An exception listener runs on a thread of the provider, so a call would come a moment later.
    waits.pause()
    assert listener.errors == [], "each exception was thrown to the caller, and to nobody else"


@requirement("4.3.8-b", "4.3.8-e")
def test_4_3_8_b_the_listener_is_told_of_a_lost_connection_one_call_at_a_time(
    connect: Connect, queue: Queue, restart_broker: RestartBroker, record: Record, waits: Waits
) -> None:
    connection, listener = connect(started=True), Told(waits)
    connection.setExceptionListener(listener)
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    restart_broker()
    # A client that connects again by itself has no problem to tell of, so a connection that works is right, too.
    waits.until(
        lambda: listener.errors or _works(session, queue),
        "the exception listener was told of the restart, or the connection worked again",
    )
    # A second call, for the same restart, has its chance.
    waits.pause()
    if not listener.errors:
        record("the connection survives a restart of the broker without telling its exception listener")
        return
    record(f"the exception listener is told of a restart of the broker: {type(listener.errors[0]).__name__}")
    strange = [type(error).__name__ for error in listener.errors if not isinstance(error, JMSException)]
    assert strange == [], "the listener gets JMSExceptions only"
    assert listener.most_at_once == 1, "the listener runs for one problem at a time"


def _works(session: Session, queue: Queue) -> bool:
    """Return whether the session sends a message."""
    with suppress(JMSException):
        send_texts(session, queue, "text")
        return True
    return False
