"""Connections: creation, client identifier, start, stop, sessions, metadata (4.3 to 4.3.4, 4.3.6, 4.3.7)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    IllegalStateException,
    InvalidClientIDException,
    Queue,
    Session,
    TextMessage,
    Topic,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, MakeName, RunBackground
from pyjms_tck.profile import Profile
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_04.ending import check_waits_for_listener
from pyjms_tck.suite.exchange import Collector, Holding, leftovers, send_texts, take, take_texts
from pyjms_tck.suite.subscriptions import DurableClient

# ------------------------------------------------------------------------------------------------- 4.3, 4.3.1


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
    with factory.create_connection(profile.user_name or "guest", profile.password or "guest") as connection:
        consumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
        assert leftovers(consumer, waits) == [], "a connection that was not started delivers nothing"
        connection.start()
        assert take(consumer, waits).text == "early"


# ------------------------------------------------------------------------------------------------------- 4.3.2


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
        other_subscriber.close()
        other.unsubscribe(durable.name)
    send_texts(ours, topic, "after the other one unsubscribed")
    assert take(our_subscriber, waits).text == "after the other one unsubscribed"


# ------------------------------------------------------------------------------------------------ 4.3.3, 4.3.4


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
    with Holding(waits, meanwhile=lambda _: send_texts(answering, replies, "the listener's reply")) as listener:
        answering.create_consumer(requests).message_listener = listener
        send_texts(session, requests, "first", "second")
        check_waits_for_listener(connection.stop, listener, background, waits)
        assert listener.error is None, "the listener has the full use of its session while stop waits"
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
    send_texts(session, queue, "out of reach")
    consumer = connect().create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
    receiving = background(partial(consumer.receive, waits.nothing_ms))
    assert receiving.result() is None, "the timeout goes on although the connection is stopped"


# ------------------------------------------------------------------------------------------------ 4.3.6, 4.3.7


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
    major, minor, *_ = [*map(int, re.findall(r"\d+", version)), 0, 0]
    return major, minor
