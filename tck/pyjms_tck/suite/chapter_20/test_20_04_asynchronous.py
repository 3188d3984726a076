"""Asynchronous sends (20.4)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pyjms import (
    Connection,
    DeliveryMode,
    IllegalArgumentException,
    IllegalStateException,
    InvalidDestinationException,
    Message,
    MessageFormatException,
    Queue,
    Session,
    UnsupportedOperationException,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_20.listening import Completions
from pyjms_tck.suite.exchange import NO_DESTINATION, leftovers, take, take_texts

HOUR_MS = 3_600_000
long_too = pytest.mark.parametrize("more", [(), (DeliveryMode.NON_PERSISTENT, 3, HOUR_MS)], ids=["short", "long"])
NO_MESSAGE: Any = None
NO_LISTENER: Any = None


@requirement("20.4-a")
def test_20_4_a_a_completed_send_is_told_and_arrives(session: Session, queue: Queue, waits: Waits) -> None:
    told = Completions()
    message = session.create_text_message("text")
    session.create_producer(queue).send(message, told)
    assert told.wait_for(1, waits) == [message]
    assert told.completed[0] is message, "the very message that was sent"
    assert told.failed == []
    assert take(session.create_consumer(queue), waits).text == "text"


@requirement("20.4-b")
def test_20_4_b_an_asynchronous_send_uses_its_values(session: Session, queue: Queue, waits: Waits) -> None:
    told = Completions()
    session.create_producer(queue).send(
        session.create_text_message("text"), DeliveryMode.NON_PERSISTENT, 3, HOUR_MS, told
    )
    told.wait_for(1, waits)
    received = take(session.create_consumer(queue), waits)
    facts = (received.jms_delivery_mode, received.jms_priority, received.jms_expiration - received.jms_timestamp)
    assert facts == (DeliveryMode.NON_PERSISTENT, 3, HOUR_MS)


@requirement("20.4-c")
@long_too
def test_20_4_c_an_asynchronous_send_goes_to_the_given_destination(
    session: Any, queue: Queue, waits: Waits, more: tuple[int, ...]
) -> None:
    told = Completions()
    session.create_producer(None).send(queue, session.create_text_message("text"), *more, told)
    told.wait_for(1, waits)
    assert take(session.create_consumer(queue), waits).text == "text"


@requirement("20.4-d")
@long_too
@pytest.mark.parametrize("is_bound", [True, False], ids=["own", "given"])
def test_20_4_d_an_asynchronous_send_needs_a_message(
    session: Session, queue: Queue, is_bound: bool, more: tuple[int, ...]
) -> None:
    told = Completions()
    producer: Any = session.create_producer(queue if is_bound else None)
    with pytest.raises(MessageFormatException):
        producer.send(*(() if is_bound else (queue,)), NO_MESSAGE, *more, told)
    assert (told.completed, told.failed) == ([], [])


@requirement("20.4-e")
@long_too
def test_20_4_e_an_asynchronous_send_needs_a_destination(session: Any, more: tuple[int, ...]) -> None:
    told = Completions()
    with pytest.raises(InvalidDestinationException):
        session.create_producer(None).send(NO_DESTINATION, session.create_text_message("text"), *more, told)
    assert (told.completed, told.failed) == ([], [])


@requirement("20.4-f")
@long_too
def test_20_4_f_an_asynchronous_send_fits_its_producer(
    session: Any, make_queue: MakeDestination, waits: Waits, more: tuple[int, ...]
) -> None:
    own, other = make_queue(), make_queue()
    told = Completions()
    with pytest.raises(UnsupportedOperationException):
        session.create_producer(own).send(other, session.create_text_message("text"), *more, told)
    with pytest.raises(UnsupportedOperationException):
        session.create_producer(None).send(session.create_text_message("text"), *more, told)
    assert leftovers(session.create_consumer(other), waits) == []
    assert (told.completed, told.failed) == ([], [])


@requirement("20.4-g")
@long_too
@pytest.mark.parametrize("is_bound", [True, False], ids=["own", "given"])
def test_20_4_g_an_asynchronous_send_needs_a_listener(
    session: Session, queue: Queue, is_bound: bool, more: tuple[int, ...]
) -> None:
    producer: Any = session.create_producer(queue if is_bound else None)
    destination = () if is_bound else (queue,)
    with pytest.raises(IllegalArgumentException):
        producer.send(*destination, session.create_text_message("text"), *more, completion_listener=NO_LISTENER)


@requirement("20.4-h")
def test_20_4_h_callbacks_come_in_order_on_another_thread(session: Session, queue: Queue, waits: Waits) -> None:
    busy, pause = threading.Lock(), threading.Event()
    overlaps: list[Message] = []

    def alone(message: Message) -> None:
        if not busy.acquire(blocking=False):
            overlaps.append(message)
            return
        pause.wait(0.002)  # long enough for another one to come
        busy.release()

    told = Completions(alone)
    producers = [session.create_producer(queue) for _ in range(2)]
    sent = [session.create_text_message(f"text {number}") for number in range(20)]
    for number, message in enumerate(sent):
        producers[number % 2].send(message, told)
    told.wait_for(len(sent), waits)
    assert all(one is other for one, other in zip(told.completed, sent, strict=True)), "in the order of the sends"
    assert overlaps == []
    assert threading.get_ident() not in told.threads
    texts = [message.text for message in sent]
    assert take_texts(session.create_consumer(queue), waits, len(sent)) == texts


@requirement("20.4-h")
def test_20_4_h_synchronous_sends_keep_the_order_with_asynchronous_ones(
    session: Session, queue: Queue, waits: Waits
) -> None:
    told = Completions()
    producer = session.create_producer(queue)
    for number in range(10):
        message = session.create_text_message(str(number))
        if number % 3:
            producer.send(message, told)
        else:
            producer.send(message)
    assert take_texts(session.create_consumer(queue), waits, 10) == [str(number) for number in range(10)]


@requirement("20.4-i")
@pytest.mark.parametrize(
    "what",
    [
        pytest.param("commit", marks=needs("TRANSACTIONS")),
        pytest.param("rollback", marks=needs("TRANSACTIONS")),
        "producer",
        "session",
        "connection",
    ],
)
def test_20_4_i_ends_wait_for_the_callbacks(connect: Connect, queue: Queue, what: str) -> None:
    connection = connect(started=True)
    session = connection.create_session(what in ("commit", "rollback"), Session.AUTO_ACKNOWLEDGE)
    producer = session.create_producer(queue)
    pause = threading.Event()
    told = Completions(lambda _: pause.wait(0.02))
    for number in range(5):
        producer.send(session.create_text_message(str(number)), told)
    end = {
        "commit": session.commit,
        "rollback": session.rollback,
        "producer": producer.close,
        "session": session.close,
        "connection": connection.close,
    }
    end[what]()
    assert len(told.completed) + len(told.failed) == 5, "all callbacks came before the end returned"


@requirement("20.4-j")
def test_20_4_j_header_fields_are_set_when_the_listener_is_called(session: Session, queue: Queue, waits: Waits) -> None:
    seen: list[tuple[Any, ...]] = []
    told = Completions(
        lambda message: seen.append(
            (message.jms_destination, message.jms_delivery_mode, message.jms_priority, bool(message.jms_message_id))
        )
    )
    session.create_producer(queue).send(
        session.create_text_message("text"), DeliveryMode.NON_PERSISTENT, 7, HOUR_MS, told
    )
    told.wait_for(1, waits)
    assert seen == [(queue, DeliveryMode.NON_PERSISTENT, 7, True)]


@requirement("20.4-k")
@pytest.mark.parametrize("what", ["producer", "session", "connection"])
def test_20_4_k_a_callback_must_not_close_what_waits_for_it(
    connection: Connection, queue: Queue, waits: Waits, what: str
) -> None:
    session = connection.create_session()
    producer = session.create_producer(queue)
    closing = {"producer": producer, "session": session, "connection": connection}[what]
    told = Completions(lambda _: closing.close())
    producer.send(session.create_text_message("text"), told)
    told.wait_for(1, waits)
    assert [type(error) for error in told.raised] == [IllegalStateException]
    told = Completions()
    producer.send(session.create_text_message("still open"), told)
    told.wait_for(1, waits)


@requirement("20.4-m")
def test_20_4_m_the_session_stays_usable_meanwhile(session: Session, queue: Queue, waits: Waits) -> None:
    release = threading.Event()
    told = Completions(lambda _: release.wait(3 * waits.something_ms / 1000))
    producer = session.create_producer(queue)
    producer.send(session.create_text_message("asynchronous"), told)
    producer.send(session.create_text_message("synchronous"))
    assert take_texts(session.create_consumer(queue), waits, 2) == ["asynchronous", "synchronous"]
    assert told.completed == [], "the callback still runs"
    release.set()
    told.wait_for(1, waits)


@requirement("20.4-k")
@needs("TRANSACTIONS")
@pytest.mark.parametrize("what", ["commit", "rollback"])
def test_20_4_k_a_callback_must_not_end_the_transaction(
    connection: Connection, queue: Queue, waits: Waits, what: str
) -> None:
    session = connection.create_session(Session.SESSION_TRANSACTED)
    told = Completions(lambda _: getattr(session, what)())
    session.create_producer(queue).send(session.create_text_message("text"), told)
    told.wait_for(1, waits)
    assert [type(error) for error in told.raised] == [IllegalStateException]
    session.rollback()
