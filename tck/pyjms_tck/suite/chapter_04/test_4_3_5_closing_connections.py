"""Closing connections: what close waits for, what it undoes, and what it leaves (4.3.5)."""

from __future__ import annotations

import pytest

from pyjms import Connection, IllegalStateException, Queue, Session, TextMessage
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, RunBackground
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_04 import closed
from pyjms_tck.suite.chapter_04.ending import check_receive_ends, check_waits_for_listener
from pyjms_tck.suite.exchange import Holding, leftovers, send_texts, take


@pytest.fixture
def other(connect: Connect) -> Connection:
    """A started connection to be closed by the test."""
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
        waits.pause()
        listener.release()
        closing.result()
        assert listener.error is None, "the listener can send and acknowledge while close waits for it"
    assert take(session.createConsumer(replies), waits).getText() == "reply to request"
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


# -------------------------------------------------------------------------------- calls on what close has closed


@requirement("4.3.5-f")
def test_4_3_5_f_a_closed_connection_refuses_every_call(other: Connection) -> None:
    other.close()
    assert closed.not_refused(closed.connection_calls(other)) == {}, "calls that do not raise IllegalStateException"


@requirement("4.3.5-f", "4.3.5-j", "4.4.1-f")
def test_4_3_5_f_the_sessions_of_a_closed_connection_refuse_every_call(other: Connection, queue: Queue) -> None:
    session = other.createSession(False, Session.AUTO_ACKNOWLEDGE)
    other.close()
    calls = closed.session_calls(session, queue)
    assert closed.not_refused(calls) == {}, "calls that do not raise IllegalStateException"


@requirement("4.3.5-f", "4.3.5-j")
def test_4_3_5_f_the_consumers_of_a_closed_connection_refuse_every_call(other: Connection, queue: Queue) -> None:
    consumer = other.createSession(False, Session.AUTO_ACKNOWLEDGE).createConsumer(queue)
    other.close()
    assert closed.not_refused(closed.consumer_calls(consumer)) == {}, "calls that do not raise IllegalStateException"


@requirement("4.3.5-f", "4.3.5-j")
def test_4_3_5_f_the_producers_of_a_closed_connection_refuse_every_call(
    other: Connection, session: Session, queue: Queue
) -> None:
    producer = other.createSession(False, Session.AUTO_ACKNOWLEDGE).createProducer(queue)
    message = session.createTextMessage("text")
    other.close()
    calls = closed.producer_calls(producer, message)
    assert closed.not_refused(calls) == {}, "calls that do not raise IllegalStateException"


@requirement("4.3.5-j")
@needs("BROWSING")
def test_4_3_5_j_the_browsers_of_a_closed_connection_refuse_every_call(other: Connection, queue: Queue) -> None:
    browser = other.createSession(False, Session.AUTO_ACKNOWLEDGE).createBrowser(queue)
    other.close()
    assert closed.not_refused(closed.browser_calls(browser)) == {}, "calls that do not raise IllegalStateException"


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
