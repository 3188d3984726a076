"""Consumers: their receives, their listeners, and what happens when a listener raises (4.5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from pyjms import Message, MessageListener, Queue, Session, TextMessage
from pyjms.spi.clock import SystemClock
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeSession, Record, RunBackground
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_04 import endings
from pyjms_tck.suite.chapter_04.endings import check_receive_ends, check_waits_for_listener
from pyjms_tck.suite.exchange import Collector, Holding, leftovers, send_texts, take, take_texts, text_of

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
    # A session of its own: with a listener, a session belongs to the thread that calls the listener (§4.4.6).
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
    assert endings.not_refused(endings.consumer_calls(consumer)) == {}, "calls that do not raise IllegalStateException"


@requirement("4.5-b")
def test_4_5_b_a_closed_consumer_takes_nothing_with_it(session: Session, queue: Queue, waits: Waits) -> None:
    consumer = session.create_consumer(queue)
    send_texts(session, queue, "one", "two", "three")
    assert take(consumer, waits).text == "one"
    # A provider that sends ahead has the other two at the client by now; closing must give them back.
    consumer.close()
    assert take_texts(session.create_consumer(queue), waits, 2) == ["two", "three"], "for the next consumer, in order"


@requirement("4.5.1-a")
def test_4_5_1_a_receive_returns_the_next_message(session: Session, queue: Queue, background: RunBackground) -> None:
    send_texts(session, queue, "one", "two")
    consumer = session.create_consumer(queue)
    # On another thread, as a receive without a timeout would hang the test where it returns nothing.
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
    # Nothing is sent before the receive waits: the test is about a message that comes later.
    waits.pause()
    assert receiving.is_running, "receive waits while there is no message"
    # By another session: the consumer's own one is in use by the thread that receives (§4.4.6).
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
    # The upper limit is a wide one: a busy machine may come late, and JMS sets no limit.
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

    # Asked again and again: a broker that pushes, such as ActiveMQ, may
    # have sent the message without its having arrived.
    waits.until(look, "receive_no_wait returned a message that is on its queue")
    assert found[0].text == "two"


@requirement("4.5.1-c")
def test_4_5_1_c_receive_no_wait_returns_null_at_once(
    session: Session, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    consumer = session.create_consumer(queue)
    at_once_s = max(1.0, 4 * waits.nothing_ms / 1000)  # the broker may be asked
    assert background(consumer.receive_no_wait).result(at_once_s) is None, "there is no message"


_OFTEN = 12
"""More often than brokers give a message to a listener that raises, if they limit that; few enough that pauses in
between do not take long.
"""


class ListenerError(Exception):
    """The exception that the listeners of these tests raise."""


class Failing(MessageListener):
    """A listener that raises for the text ``bad`` in its first `failures` calls with it, then accepts it."""

    def __init__(self, failures: int) -> None:
        self.calls: list[tuple[str | None, bool]] = []
        self._failures = failures

    def on_message(self, message: Message) -> None:
        text = text_of(message)
        self.calls.append((text, message.jms_redelivered))
        if text == "bad" and self.count("bad") <= self._failures:
            raise ListenerError("raised by a listener of the conformance suite, on purpose")

    def count(self, text: str) -> int:
        """Return how often a message was delivered."""
        return [called for called, _ in self.calls].count(text)


@requirement("4.5.2-a")
def test_4_5_2_a_a_listener_gets_the_messages_of_its_consumer(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    listener = Collector()
    send_texts(session, queue, "there before")
    make_session().create_consumer(queue).message_listener = listener
    assert listener.wait_for(1, waits) == ["there before"]
    send_texts(session, queue, "later", "and later")
    assert listener.wait_for(3, waits) == ["there before", "later", "and later"]


@requirement("4.5.2-a")
def test_4_5_2_a_a_plain_callable_is_a_listener(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    texts: list[str | None] = []
    make_session().create_consumer(queue).message_listener = lambda message: texts.append(text_of(message))
    send_texts(session, queue, "text")
    waits.until(lambda: texts, "the callable was called")
    assert texts == ["text"]


@requirement("4.5.2-b")
def test_4_5_2_b_a_consumer_returns_its_listener(session: Session, queue: Queue) -> None:
    consumer, listener = session.create_consumer(queue), Collector()
    assert consumer.message_listener is None, "a new consumer has no listener"
    consumer.message_listener = listener
    assert consumer.message_listener is listener
    consumer.message_listener = None
    assert consumer.message_listener is None, "null removes the listener"


@requirement("4.5.2-b")
def test_4_5_2_b_a_consumer_without_its_listener_receives_again(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    consumer, listener = session.create_consumer(queue), Collector()
    consumer.message_listener = listener
    sending = make_session()
    send_texts(sending, queue, "to the listener")
    assert listener.wait_for(1, waits) == ["to the listener"]
    # A provider that sends ahead must deliver later messages to `receive`, not to the former listener.
    consumer.message_listener = None
    send_texts(sending, queue, "to receive")
    assert take(consumer, waits).text == "to receive"
    assert listener.texts == ["to the listener"], "a listener that was removed gets nothing more"


@requirement("4.5.2-c")
@pytest.mark.parametrize("mode", [Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE])
def test_4_5_2_c_the_message_of_a_listener_that_raises_comes_again(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits, mode: int
) -> None:
    listener = Failing(failures=1)
    make_session(False, mode).create_consumer(queue).message_listener = listener
    send_texts(session, queue, "bad", "good")
    waits.until(lambda: listener.count("bad") == 2, "the message came again after its listener had raised")
    waits.until(lambda: listener.count("good") == 1, "the next message came")
    redelivered = [flag for text, flag in listener.calls if text == "bad"]
    assert redelivered == [False, True], "the second delivery has JMSRedelivered set"


@requirement("4.5.2-d")
def test_4_5_2_d_record_how_often_a_message_comes_whose_listener_raises(
    session: Session, make_session: MakeSession, queue: Queue, record: Record, waits: Waits
) -> None:
    listener = Failing(failures=_OFTEN)
    make_session().create_consumer(queue).message_listener = listener
    send_texts(session, queue, "bad", "good")
    waits.until(lambda: listener.count("good"), "the next message came in the end")
    # A provider that brings the failed message back later than the next one has its chance.
    waits.pause()
    texts = [text for text, _ in listener.calls]
    times = "until the listener took it" if listener.count("bad") > _OFTEN else f"{listener.count('bad')} times in all"
    order = "before" if texts.index("good") == len(texts) - 1 else "not always before"
    record(f"a message whose listener raises is delivered {times}, {order} the next message")


@requirement("4.5.2-e")
def test_4_5_2_e_a_client_that_acknowledges_recovers_what_its_listener_refused(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    listening = make_session(False, Session.CLIENT_ACKNOWLEDGE)
    # `recover` is called by the listener, as the session belongs to the listener's thread (§4.4.6).
    listener = _FailingThen("good", listening.recover)
    listening.create_consumer(queue).message_listener = listener
    send_texts(session, queue, "bad", "good")
    waits.until(lambda: len(listener.calls) >= 4, "both messages came again after the session was recovered")
    assert listener.calls[:2] == [("bad", False), ("good", False)], "after the failure comes the next message"
    assert listener.calls[2:4] == [("bad", True), ("good", True)], "recover brings back both"


@requirement("4.5.2-f")
def test_4_5_2_f_a_listener_that_raises_does_not_roll_back_its_transaction(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    listening = make_session(True)
    listener = _FailingThen("good", listening.commit)
    listening.create_consumer(queue).message_listener = listener
    send_texts(session, queue, "bad", "good")
    waits.until(lambda: listener.is_done, "the listener had committed after the second message")
    # Closed before the queue is looked at: messages that the commit left out would be requeued now.
    listening.close()
    assert listener.calls == [("bad", False), ("good", False)], "after the failure comes the next message"
    assert leftovers(session.create_consumer(queue), waits) == [], "the commit acknowledged both"


class _FailingThen(Failing):
    """A listener that raises for the first ``bad``, and acts when a certain text arrives for the first time."""

    def __init__(self, text: str, then: Callable[[], object]) -> None:
        super().__init__(failures=1)
        self.is_done = False
        self._text = text
        self._then = then

    def on_message(self, message: Message) -> None:
        super().on_message(message)
        if text_of(message) == self._text and self.count(self._text) == 1:
            self._then()
            self.is_done = True


@requirement("4.5.2-h")
def test_4_5_2_h_a_message_whose_listener_always_raises_is_set_aside(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    # More failures than fit into the test: a quick broker was through with 10,000 before the test looked.
    listening, listener = make_session(), Failing(failures=10**9)
    listening.create_consumer(queue).message_listener = listener
    send_texts(session, queue, "bad", "good")
    # JMS names no number of deliveries (§4.5.2), so the test waits for the next message, not for a count.
    waits.until(lambda: listener.count("good") == 1, "the next message came, the one that fails out of its way")
    waits.pause()
    listening.close()
    assert leftovers(session.create_consumer(queue), waits) == [], "the message that fails is no longer on the queue"
