"""Message listeners, and what happens when they raise (4.5.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms import Message, MessageListener, Queue, Session
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeSession, Record
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.exchange import Collector, leftovers, send_texts, take, text_of

_OFTEN = 12
"""More often than brokers give a message to a listener that raises, if they limit that; not so often that pauses between make it long."""


class ListenerError(Exception):
    """What the listeners of these tests raise."""


class Failing(MessageListener):
    """A listener that raises for the text ``bad`` in its first `failures` calls with it, then takes it, too."""

    def __init__(self, failures: int) -> None:
        self.calls: list[tuple[str | None, bool]] = []
        self._failures = failures

    def on_message(self, message: Message) -> None:
        text = text_of(message)
        self.calls.append((text, message.jms_redelivered))
        if text == "bad" and self.count("bad") <= self._failures:
            raise ListenerError("raised by a listener of the conformance suite, on purpose")

    def count(self, text: str) -> int:
        """Return how often a message came."""
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
    consumer.message_listener = None
    send_texts(sending, queue, "to receive")
    assert take(consumer, waits).text == "to receive"
    assert listener.texts == ["to the listener"], "a listener that was removed gets nothing more"


# ------------------------------------------------------------------------------------------ listeners that raise


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
    listening.close()
    assert listener.calls == [("bad", False), ("good", False)], "after the failure comes the next message"
    assert leftovers(session.create_consumer(queue), waits) == [], "the commit acknowledged both"


class _FailingThen(Failing):
    """A listener that raises for the first ``bad``, and does something when a certain text comes for the first time."""

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
    listening, listener = make_session(), Failing(failures=10**9)
    listening.create_consumer(queue).message_listener = listener
    send_texts(session, queue, "bad", "good")
    waits.until(lambda: listener.count("good") == 1, "the next message came, the one that fails out of its way")
    waits.pause()
    listening.close()
    assert leftovers(session.create_consumer(queue), waits) == [], "the message that fails is no longer on the queue"
