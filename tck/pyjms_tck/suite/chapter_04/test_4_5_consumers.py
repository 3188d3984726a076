"""Consumers and their receives (4.5, 4.5.1)."""

from __future__ import annotations

from functools import partial

import pytest

from pyjms import Queue, Session, TextMessage
from pyjms.spi.clock import SystemClock
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeSession, RunBackground
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_04 import closed
from pyjms_tck.suite.chapter_04.ending import check_receive_ends, check_waits_for_listener
from pyjms_tck.suite.exchange import Holding, send_texts, take, take_texts

CLOCK = SystemClock()


@requirement("4.5-a")
def test_4_5_a_a_consumer_tells_its_selector(session: Session, queue: Queue) -> None:
    assert session.create_consumer(queue, "number > 1").message_selector == "number > 1"


@requirement("4.5-a")
@pytest.mark.parametrize("selector", [None, ""], ids=repr)
def test_4_5_a_a_consumer_without_selector_says_so(session: Session, queue: Queue, selector: str | None) -> None:
    consumer = session.create_consumer(queue, selector)
    assert consumer.message_selector is None, "null and the empty text are no selector"
    assert session.create_consumer(queue).message_selector is None


@requirement("4.5-b")
@pytest.mark.parametrize("timeout", [None, 60_000], ids=["receive()", "receive(60000)"])
def test_4_5_b_consumer_close_ends_a_pending_receive(
    session: Session, queue: Queue, background: RunBackground, waits: Waits, timeout: int | None
) -> None:
    consumer = session.create_consumer(queue)
    check_receive_ends(consumer, consumer.close, background, waits, timeout)


@requirement("4.5-b")
def test_4_5_b_consumer_close_waits_for_a_running_listener(
    session: Session, make_session: MakeSession, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    consumer = make_session().create_consumer(queue)
    with Holding(waits) as listener:
        consumer.message_listener = listener
        send_texts(session, queue, "first", "second")
        check_waits_for_listener(consumer.close, listener, background, waits)
    assert take(session.create_consumer(queue), waits).text == "second", "the closed consumer takes no more messages"
    assert listener.texts == ["first"]


@requirement("4.5-b")
def test_4_5_b_a_closed_consumer_refuses_every_call_and_can_be_closed_again(session: Session, queue: Queue) -> None:
    consumer = session.create_consumer(queue)
    consumer.close()
    consumer.close()
    assert closed.not_refused(closed.consumer_calls(consumer)) == {}, "calls that do not raise IllegalStateException"


@requirement("4.5-b")
def test_4_5_b_a_closed_consumer_takes_nothing_with_it(session: Session, queue: Queue, waits: Waits) -> None:
    consumer = session.create_consumer(queue)
    send_texts(session, queue, "one", "two", "three")
    assert take(consumer, waits).text == "one"
    consumer.close()
    assert take_texts(session.create_consumer(queue), waits, 2) == ["two", "three"], "for the next consumer, in order"


# ------------------------------------------------------------------------------------------------------- 4.5.1


@requirement("4.5.1-a")
def test_4_5_1_a_receive_returns_the_next_message(session: Session, queue: Queue, background: RunBackground) -> None:
    send_texts(session, queue, "one", "two")
    consumer = session.create_consumer(queue)
    received = background(lambda: [consumer.receive(), consumer.receive()]).result()
    assert [message.text for message in received if isinstance(message, TextMessage)] == ["one", "two"]


@requirement("4.5.1-a", "4.5.1-b")
@pytest.mark.parametrize("timeout", [None, 0], ids=["receive()", "receive(0)"])
def test_4_5_1_a_receive_waits_as_long_as_it_takes(
    session: Session,
    make_session: MakeSession,
    queue: Queue,
    background: RunBackground,
    waits: Waits,
    timeout: int | None,
) -> None:
    consumer = session.create_consumer(queue)
    receiving = background(consumer.receive if timeout is None else partial(consumer.receive, timeout))
    waits.pause()
    assert receiving.is_running, "receive waits while there is no message"
    send_texts(make_session(), queue, "text")
    message = receiving.result()
    assert isinstance(message, TextMessage), "receive returns the message that it waited for"
    assert message.text == "text"


@requirement("4.5.1-b")
def test_4_5_1_b_receive_returns_a_message_within_the_timeout(
    session: Session, make_session: MakeSession, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    consumer = session.create_consumer(queue)
    receiving = background(partial(consumer.receive, waits.something_ms))
    waits.pause()
    send_texts(make_session(), queue, "text")
    message = receiving.result()
    assert isinstance(message, TextMessage), "receive returns the message as soon as it is there"
    assert message.text == "text"


@requirement("4.5.1-b")
def test_4_5_1_b_receive_returns_null_after_the_timeout(
    session: Session, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    consumer = session.create_consumer(queue)
    began_ms = CLOCK.monotonic_ms()
    assert background(partial(consumer.receive, waits.nothing_ms)).result() is None, "there is no message"
    waited_ms = CLOCK.monotonic_ms() - began_ms
    assert waited_ms >= waits.nothing_ms - 20, f"receive waits for {waits.nothing_ms} ms"
    assert waited_ms < waits.something_ms, f"receive does not wait much longer than {waits.nothing_ms} ms"


@requirement("4.5.1-c")
def test_4_5_1_c_receive_no_wait_returns_a_message_that_is_there(session: Session, queue: Queue, waits: Waits) -> None:
    send_texts(session, queue, "one", "two")
    consumer = session.create_consumer(queue)
    assert take(consumer, waits).text == "one"
    found: list[TextMessage] = []

    def look() -> bool:
        message = consumer.receive_no_wait()
        if isinstance(message, TextMessage):
            found.append(message)
        return bool(found)

    waits.until(look, "receive_no_wait returned a message that is on its queue")
    assert found[0].text == "two"


@requirement("4.5.1-c")
def test_4_5_1_c_receive_no_wait_returns_null_at_once(
    session: Session, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    consumer = session.create_consumer(queue)
    at_once_s = max(1.0, 4 * waits.nothing_ms / 1000)  # the broker may be asked
    assert background(consumer.receive_no_wait).result(at_once_s) is None, "there is no message"
