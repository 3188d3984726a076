"""Queue browsers (5.9)."""

from __future__ import annotations

import pytest

from pyjms import (
    DeliveryMode,
    InvalidDestinationException,
    InvalidSelectorException,
    Queue,
    QueueBrowser,
    QueueSession,
    Session,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Record
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_04 import closed
from pyjms_tck.suite.exchange import INVALID_SELECTOR, NO_DESTINATION, send_numbers, send_texts, take_texts, text_of


def _seen(browser: QueueBrowser) -> list[str | None]:
    """Return the texts that the browser shows, by the methods of java.util.Enumeration."""
    texts = []
    messages = browser.getEnumeration()
    while messages.hasMoreElements():
        texts.append(text_of(messages.nextElement()))
    return texts


@requirement("5.9-a")
def test_5_9_a_browsing_removes_nothing(session: Session, queue: Queue, waits: Waits) -> None:
    send_texts(session, queue, "one", "two", "three")
    with session.createBrowser(queue) as browser:
        assert _seen(browser) == ["one", "two", "three"]
        assert _seen(browser) == ["one", "two", "three"], "a second enumeration shows the same"
    consumer = session.createConsumer(queue)
    received = [consumer.receive(waits.something_ms) for _ in range(3)]
    texts = [text_of(message) for message in received if message is not None]
    assert texts == ["one", "two", "three"], "all messages are there still"
    assert [message.getJMSRedelivered() for message in received if message] == [False] * 3, "browsing is no delivery"


@requirement("5.9-b")
def test_5_9_b_a_browser_shows_the_whole_queue(session: Session, queue: Queue) -> None:
    texts = [f"text {number}" for number in range(25)]
    send_texts(session, queue, *texts)
    assert _seen(session.createBrowser(queue)) == texts
    assert [text_of(message) for message in session.create_browser(queue)] == texts, "as an iterable of Python"


@requirement("5.9-b")
def test_5_9_b_a_browser_of_an_empty_queue_shows_nothing(session: Session, queue: Queue) -> None:
    assert _seen(session.createBrowser(queue)) == []


@requirement("5.9-b")
@needs("SELECTORS")
def test_5_9_b_a_browser_with_a_selector_shows_what_matches(session: Session, queue: Queue) -> None:
    send_numbers(session, queue)
    assert _seen(session.createBrowser(queue, "number <> 2")) == ["1", "3"]
    assert _seen(session.createBrowser(queue, "number > 3")) == [], "nothing matches"


@requirement("5.9-c")
@pytest.mark.parametrize("selector", [None, ""], ids=repr)
def test_5_9_c_browsers_without_selector(
    queue_session: QueueSession, session: Session, queue: Queue, selector: str | None
) -> None:
    send_numbers(session, queue)
    for browser in (
        queue_session.createBrowser(queue),
        queue_session.createBrowser(queue, selector),
        session.createBrowser(queue),
        session.createBrowser(queue, selector),
    ):
        assert isinstance(browser, QueueBrowser)
        assert _seen(browser) == ["1", "2", "3"]


@requirement("5.9-c")
@needs("SELECTORS")
def test_5_9_c_browsers_with_a_selector(queue_session: QueueSession, session: Session, queue: Queue) -> None:
    send_numbers(session, queue)
    browsers = [each.createBrowser(queue, "number = 2") for each in (queue_session, session)]
    assert [_seen(browser) for browser in browsers] == [["2"], ["2"]]


@requirement("5.9-d")
@pytest.mark.parametrize("more", [(), pytest.param(("number > 1",), marks=needs("SELECTORS"))], ids=repr)
def test_5_9_d_a_browser_needs_a_queue(queue_session: QueueSession, session: Session, more: tuple[str, ...]) -> None:
    for each in (queue_session, session):
        with pytest.raises(InvalidDestinationException):
            each.createBrowser(NO_DESTINATION, *more)


@requirement("5.9-e")
@needs("SELECTORS")
def test_5_9_e_a_browser_needs_a_valid_selector(queue_session: QueueSession, session: Session, queue: Queue) -> None:
    for each in (queue_session, session):
        with pytest.raises(InvalidSelectorException):
            each.createBrowser(queue, INVALID_SELECTOR)


@requirement("5.9-f")
def test_5_9_f_a_browser_tells_its_queue(session: Session, queue: Queue) -> None:
    assert session.createBrowser(queue).getQueue().getQueueName() == queue.getQueueName()


@requirement("5.9-g")
@needs("SELECTORS")
def test_5_9_g_a_browser_tells_its_selector(session: Session, queue: Queue) -> None:
    assert session.createBrowser(queue, "number > 1").getMessageSelector() == "number > 1"


@requirement("5.9-g")
def test_5_9_g_a_browser_without_selector_says_so(session: Session, queue: Queue) -> None:
    selectors = [session.createBrowser(queue, *more).getMessageSelector() for more in ((), (None,), ("",))]
    assert selectors == [None, None, None], "no selector, null, and the empty text"


@requirement("5.9-h")
def test_5_9_h_a_browser_shows_messages_in_the_order_of_receiving(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.createProducer(queue)
    for number in range(10):
        producer.send(session.createTextMessage(f"text {number}"), DeliveryMode.NON_PERSISTENT, (number * 7) % 10, 0)
    seen = _seen(session.createBrowser(queue))
    assert len(seen) == 10, "the browser shows all messages"
    assert seen == take_texts(session.createConsumer(queue), waits, 10), "in the order in which they are received"


@requirement("5.9-i")
def test_5_9_i_a_closed_browser_refuses_every_call_and_can_be_closed_again(session: Session, queue: Queue) -> None:
    browser = session.createBrowser(queue)
    browser.close()
    browser.close()
    assert closed.not_refused(closed.browser_calls(browser)) == {}, "calls that do not raise IllegalStateException"


@requirement("5.9-j")
def test_5_9_j_record_whether_a_browser_shows_what_arrives_while_it_enumerates(
    session: Session, queue: Queue, record: Record
) -> None:
    send_texts(session, queue, "one", "two")
    messages = session.createBrowser(queue).getEnumeration()
    first = text_of(messages.nextElement())
    send_texts(session, queue, "three")
    seen = [first]
    while messages.hasMoreElements() and len(seen) < 10:
        seen.append(text_of(messages.nextElement()))
    assert seen[:2] == ["one", "two"], "what was there before is shown"
    record(f"a message that arrives while a browser enumerates is {'shown' if 'three' in seen else 'not shown'}")
