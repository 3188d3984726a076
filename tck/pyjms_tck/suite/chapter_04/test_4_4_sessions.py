"""Sessions: what they keep, how they close, and what they create (4.4 to 4.4.2)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import (
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    Queue,
    Session,
    Topic,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, MakeSession, RunBackground
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_04 import closed
from pyjms_tck.suite.chapter_04.ending import check_receive_ends, check_waits_for_listener
from pyjms_tck.suite.exchange import (
    INVALID_SELECTOR,
    NO_DESTINATION,
    Holding,
    leftovers,
    send_numbers,
    send_texts,
    take,
    take_texts,
)
from pyjms_tck.suite.modes import in_each_mode

# --------------------------------------------------------------------------------------------------------- 4.4


@requirement("4.4-a")
def test_4_4_a_a_session_keeps_what_is_not_acknowledged(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "one", "two", "three")
    keeping = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    consumer = keeping.create_consumer(queue)
    assert take_texts(consumer, waits, 3) == ["one", "two", "three"]
    keeping.recover()
    assert take_texts(consumer, waits, 3) == ["one", "two", "three"], "nothing was acknowledged, so all comes again"


@requirement("4.4-b")
@pytest.mark.parametrize("transacted", [False, pytest.param(True, marks=needs("TRANSACTIONS"))])
def test_4_4_b_a_session_tells_whether_it_is_transacted(make_session: MakeSession, transacted: bool) -> None:
    assert make_session(transacted).transacted is transacted


@requirement("4.4-c")
@in_each_mode
def test_4_4_c_a_session_tells_its_acknowledgement_mode(
    make_session: MakeSession, transacted: bool, asked: int, mode: int
) -> None:
    assert make_session(transacted, asked).acknowledge_mode == mode


# ------------------------------------------------------------------------------------------------------- 4.4.1


@requirement("4.4.1-a")
@pytest.mark.parametrize("timeout", [None, 60_000], ids=["receive()", "receive(60000)"])
def test_4_4_1_a_session_close_ends_a_pending_receive(
    session: Session, queue: Queue, background: RunBackground, waits: Waits, timeout: int | None
) -> None:
    consumer = session.create_consumer(queue)
    check_receive_ends(consumer, session.close, background, waits, timeout)


@requirement("4.4.1-a")
def test_4_4_1_a_session_close_waits_for_a_running_listener(
    session: Session, make_session: MakeSession, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    listening = make_session()
    with Holding(waits) as listener:
        listening.create_consumer(queue).message_listener = listener
        send_texts(session, queue, "first", "second")
        check_waits_for_listener(listening.close, listener, background, waits)
    waits.pause()
    assert listener.texts == ["first"], "after close no listener is called"


@requirement("4.4.1-b")
def test_4_4_1_b_session_close_rolls_back_its_transaction(
    session: Session, make_session: MakeSession, make_queue: MakeDestination, waits: Waits
) -> None:
    inbound, outbound = make_queue(), make_queue()
    send_texts(session, inbound, "received in the transaction")
    transacted = make_session(True)
    take(transacted.create_consumer(inbound), waits)
    send_texts(transacted, outbound, "sent in the transaction")
    transacted.close()
    again = take(session.create_consumer(inbound), waits)
    assert again.text == "received in the transaction", "a message of an open transaction comes again"
    assert leftovers(session.create_consumer(outbound), waits) == [], "nothing of an open transaction is sent"


@requirement("4.4.1-c")
def test_4_4_1_c_a_closed_session_refuses_every_call(session: Session, queue: Queue) -> None:
    session.close()
    calls = closed.session_calls(session, queue)
    assert closed.not_refused(calls) == {}, "calls that do not raise IllegalStateException"


@requirement("4.4.1-c", "4.4.1-e")
def test_4_4_1_c_the_consumers_of_a_closed_session_refuse_every_call(session: Session, queue: Queue) -> None:
    consumer = session.create_consumer(queue)
    session.close()
    assert closed.not_refused(closed.consumer_calls(consumer)) == {}, "calls that do not raise IllegalStateException"
    consumer.close()  # which is no error


@requirement("4.4.1-c", "4.4.1-e")
def test_4_4_1_c_the_producers_of_a_closed_session_refuse_every_call(session: Session, queue: Queue) -> None:
    producer, message = session.create_producer(queue), session.create_text_message("text")
    session.close()
    calls = closed.producer_calls(producer, message)
    assert closed.not_refused(calls) == {}, "calls that do not raise IllegalStateException"
    producer.close()  # which is no error


@requirement("4.4.1-e")
@needs("BROWSING")
def test_4_4_1_e_the_browsers_of_a_closed_session_refuse_every_call(session: Session, queue: Queue) -> None:
    browser = session.create_browser(queue)
    session.close()
    assert closed.not_refused(closed.browser_calls(browser)) == {}, "calls that do not raise IllegalStateException"
    browser.close()  # which is no error


@requirement("4.4.1-c")
def test_4_4_1_c_the_messages_of_a_closed_session_stay_usable_but_for_acknowledge(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "text")
    closing = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    message = take(closing.create_consumer(queue), waits)
    closing.close()
    assert message.text == "text", "a received message can be read when its session is closed"
    with pytest.raises(IllegalStateException):
        message.acknowledge()


@requirement("4.4.1-d")
def test_4_4_1_d_a_session_can_be_closed_twice(session: Session) -> None:
    session.close()
    session.close()


@requirement("4.4.1-f")
def test_4_4_1_f_closing_a_connection_frees_what_its_sessions_received(
    connect: Connect, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "text")
    other = connect(started=True)
    take(other.create_session(False, Session.CLIENT_ACKNOWLEDGE).create_consumer(queue), waits)
    other.close()
    again = take(session.create_consumer(queue), waits, "the message that the closed session had received")
    assert again.text == "text"


# ------------------------------------------------------------------------------------------------------- 4.4.2


@requirement("4.4.2-a")
def test_4_4_2_a_a_session_has_several_producers_and_consumers(
    session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    queues = [make_queue() for _ in range(3)]
    producers = [session.create_producer(queue) for queue in queues]
    consumers = [session.create_consumer(queue) for queue in queues]
    for number, producer in enumerate(producers):
        producer.send(session.create_text_message(f"text {number}"))
    assert [take(consumer, waits).text for consumer in consumers] == ["text 0", "text 1", "text 2"]


@requirement("4.4.2-b")
def test_4_4_2_b_a_producer_is_made_for_a_destination_or_for_none(session: Session, queue: Queue, waits: Waits) -> None:
    bound, free = session.create_producer(queue), session.create_producer(None)
    bound.send(session.create_text_message("through its own destination"))
    free.send(queue, session.create_text_message("through the given destination"))
    received = take_texts(session.create_consumer(queue), waits, 2)
    assert received == ["through its own destination", "through the given destination"]


@requirement("4.4.2-c")
@pytest.mark.parametrize("arguments", [(), (None,), ("",), (None, False), (None, True)], ids=repr)
def test_4_4_2_c_a_consumer_without_selector_gets_everything(
    session: Session, queue: Queue, waits: Waits, arguments: tuple[str | None, bool]
) -> None:
    consumer = session.create_consumer(queue, *arguments)
    send_texts(session, queue, "one", "two")
    assert take_texts(consumer, waits, 2) == ["one", "two"], "no_local has no effect on queues"


@requirement("4.4.2-c")
@needs("SELECTORS")
@pytest.mark.parametrize("more", [(), (False,), (True,)], ids=repr)
def test_4_4_2_c_a_consumer_has_the_given_selector(
    session: Session, queue: Queue, waits: Waits, more: tuple[bool, ...]
) -> None:
    consumer = session.create_consumer(queue, "number = 2", *more)
    send_numbers(session, queue)
    assert take_texts(consumer, waits, 1) == ["2"], "the selector chooses among the messages"
    assert leftovers(consumer, waits) == [], "the others are not for this consumer"


@requirement("4.4.2-c")
@needs("NO_LOCAL")
@pytest.mark.parametrize("no_local", [False, True])
def test_4_4_2_c_a_consumer_of_a_topic_has_the_given_no_local(
    session: Session, connect: Connect, topic: Topic, waits: Waits, no_local: bool
) -> None:
    consumer = session.create_consumer(topic, None, no_local)
    send_texts(session, topic, "of its own connection")
    send_texts(connect().create_session(False, Session.AUTO_ACKNOWLEDGE), topic, "of another connection")
    expected = ["of another connection"] if no_local else ["of its own connection", "of another connection"]
    assert take_texts(consumer, waits, len(expected)) == expected


@requirement("4.4.2-d")
@pytest.mark.parametrize("more", [(), pytest.param(("number = 2",), marks=needs("SELECTORS")), (None, False)], ids=repr)
def test_4_4_2_d_a_consumer_needs_a_destination(session: Session, more: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidDestinationException):
        session.create_consumer(NO_DESTINATION, *more)


@requirement("4.4.2-e")
@pytest.mark.parametrize("more", [(), (False,)], ids=repr)
def test_4_4_2_e_a_consumer_needs_a_valid_selector(session: Session, queue: Queue, more: tuple[bool, ...]) -> None:
    with pytest.raises(InvalidSelectorException):
        session.create_consumer(queue, INVALID_SELECTOR, *more)
