"""Sessions: what they keep, how they close, what they create, and how threads and listeners share them (4.4)."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import Any

import pytest

from pyjms import (
    BytesMessage,
    Connection,
    Destination,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    MapMessage,
    Message,
    MessageEOFException,
    ObjectMessage,
    Queue,
    Session,
    StreamMessage,
    TemporaryQueue,
    TemporaryTopic,
    TextMessage,
    Topic,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, MakeSession, Record, RunBackground
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_03.test_3_12_implementations import foreign
from pyjms_tck.suite.chapter_04 import endings
from pyjms_tck.suite.chapter_04.endings import check_receive_ends, check_waits_for_listener
from pyjms_tck.suite.exchange import (
    INVALID_SELECTOR,
    NO_DESTINATION,
    Collector,
    Holding,
    in_each_mode,
    leftovers,
    send_numbers,
    send_texts,
    take,
    take_texts,
)


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
    # The second message may be with the client; its listener must not be called.
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
    calls = endings.session_calls(session, queue)
    assert endings.not_refused(calls) == {}, "calls that do not raise IllegalStateException"


@requirement("4.4.1-c", "4.4.1-e")
def test_4_4_1_c_the_consumers_of_a_closed_session_refuse_every_call(session: Session, queue: Queue) -> None:
    consumer = session.create_consumer(queue)
    session.close()
    assert endings.not_refused(endings.consumer_calls(consumer)) == {}, "calls that do not raise IllegalStateException"
    consumer.close()  # which is no error


@requirement("4.4.1-c", "4.4.1-e")
def test_4_4_1_c_the_producers_of_a_closed_session_refuse_every_call(session: Session, queue: Queue) -> None:
    producer, message = session.create_producer(queue), session.create_text_message("text")
    session.close()
    calls = endings.producer_calls(producer, message)
    assert endings.not_refused(calls) == {}, "calls that do not raise IllegalStateException"
    producer.close()  # which is no error


@requirement("4.4.1-e")
@needs("BROWSING")
def test_4_4_1_e_the_browsers_of_a_closed_session_refuse_every_call(session: Session, queue: Queue) -> None:
    browser = session.create_browser(queue)
    session.close()
    assert endings.not_refused(endings.browser_calls(browser)) == {}, "calls that do not raise IllegalStateException"
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
    # A consumer that gets "2" first may still get the others: only the wait shows that it does not.
    assert leftovers(consumer, waits) == [], "the others are not for this consumer"


@requirement("4.4.2-c")
@needs("NO_LOCAL")
@pytest.mark.parametrize("no_local", [False, True])
def test_4_4_2_c_a_consumer_of_a_topic_has_the_given_no_local(
    session: Session, connect: Connect, topic: Topic, waits: Waits, no_local: bool
) -> None:
    # The consumer first: a nondurable one gets only messages published while it is active (§6.3).
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


@requirement("4.4.3-a")
def test_4_4_3_a_a_temporary_queue_carries_messages(session: Session, waits: Waits) -> None:
    temporary = session.createTemporaryQueue()
    assert isinstance(temporary, TemporaryQueue)
    assert temporary.getQueueName(), "a temporary queue has a name"
    send_texts(session, temporary, "one", "two")
    assert take_texts(session.createConsumer(temporary), waits, 2) == ["one", "two"]


@requirement("4.4.3-b")
@needs("TOPICS")
def test_4_4_3_b_a_temporary_topic_carries_messages(session: Session, waits: Waits) -> None:
    temporary = session.createTemporaryTopic()
    assert isinstance(temporary, TemporaryTopic)
    assert temporary.getTopicName(), "a temporary topic has a name"
    # Both consumers first: they get only messages published while they are active (§6.3).
    consumers = [session.createConsumer(temporary) for _ in range(2)]
    send_texts(session, temporary, "to all")
    assert [take(consumer, waits).getText() for consumer in consumers] == ["to all", "to all"]


@requirement("4.4.3-c")
@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=needs("TOPICS"))])
def test_4_4_3_c_other_connections_cannot_consume_from_a_temporary_destination(
    session: Session, connect: Connect, queue: Queue, waits: Waits, kind: str
) -> None:
    temporary = _temporary(session, kind)
    other = connect(started=True).createSession(False, Session.AUTO_ACKNOWLEDGE)
    with pytest.raises(JMSException):
        other.createConsumer(temporary)
    # A client of another connection gets to know the destination by
    # JMSReplyTo: a destination from the wire must be refused, too.
    request = session.createTextMessage("request")
    request.setJMSReplyTo(temporary)
    session.createProducer(queue).send(request)
    reply_to = take(other.createConsumer(queue), waits).getJMSReplyTo()
    assert reply_to is not None, "the request names the temporary destination"
    with pytest.raises(JMSException):
        other.createConsumer(reply_to)
    answers = session.createConsumer(temporary)
    send_texts(other, reply_to, "reply")
    assert take(answers, waits).getText() == "reply", "every connection can send to it"


@requirement("4.4.3-d")
@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=needs("TOPICS"))])
def test_4_4_3_d_all_sessions_of_the_connection_can_consume(
    session: Session, make_session: MakeSession, waits: Waits, kind: str
) -> None:
    temporary = _temporary(session, kind)
    consumer = make_session().createConsumer(temporary)
    send_texts(session, temporary, "text")
    assert take(consumer, waits).getText() == "text"


@requirement("4.4.3-e")
@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=needs("TOPICS"))])
def test_4_4_3_e_every_temporary_destination_is_unique(
    session: Session, connect: Connect, waits: Waits, kind: str
) -> None:
    other = connect().createSession(False, Session.AUTO_ACKNOWLEDGE)
    names = [_name(_temporary(each, kind)) for each in (session, session, other, other)]
    assert len(set(names)) == 4, f"four temporary destinations with four names, not {names}"
    first, second = _temporary(session, kind), _temporary(session, kind)
    # Two names may still stand for one destination in the broker, so a message is sent as well.
    consumer = session.createConsumer(second)
    send_texts(session, first, "to the first")
    assert leftovers(consumer, waits) == [], "what is sent to one does not reach another"


@requirement("4.4.3-f")
@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=needs("TOPICS"))])
def test_4_4_3_f_temporary_destinations_end_with_their_connection(
    session: Session, connect: Connect, waits: Waits, kind: str
) -> None:
    owner: Connection = connect(started=True)
    temporary = _temporary(owner.createSession(False, Session.AUTO_ACKNOWLEDGE), kind)
    # It works before the close: a provider that always refuses other connections would pass without this.
    send_texts(session, temporary, "while its connection is open")
    owner.close()
    # A broker may take a moment to delete the remains of a connection.
    waits.until(
        lambda: _is_gone(session, temporary), "sending to the temporary destination of a closed connection failed"
    )


def _temporary(session: Session, kind: str) -> TemporaryQueue | TemporaryTopic:
    return session.createTemporaryQueue() if kind == "queue" else session.createTemporaryTopic()


def _name(temporary: TemporaryQueue | TemporaryTopic) -> str:
    return temporary.getQueueName() if isinstance(temporary, TemporaryQueue) else temporary.getTopicName()


def _is_gone(session: Session, temporary: Destination) -> bool:
    with suppress(JMSException):
        send_texts(session, temporary, "too late")
        return False
    return True


@requirement("4.4.4-a")
def test_4_4_4_a_a_queue_is_made_from_its_name(session: Session, queue: Queue, waits: Waits) -> None:
    made = session.createQueue(queue.getQueueName())
    assert isinstance(made, Queue)
    assert made.getQueueName() == queue.getQueueName()
    send_texts(session, made, "text")
    assert take(session.createConsumer(queue), waits).getText() == "text", "both objects stand for one queue"


@requirement("4.4.4-b")
def test_4_4_4_b_a_topic_is_made_from_its_name(session: Session, topic: Topic, waits: Waits) -> None:
    made = session.createTopic(topic.getTopicName())
    assert isinstance(made, Topic)
    assert made.getTopicName() == topic.getTopicName()
    # The consumer first: a nondurable one gets only messages published while it is active (§6.3).
    consumer = session.createConsumer(topic)
    send_texts(session, made, "text")
    assert take(consumer, waits).getText() == "text", "both objects stand for one topic"


@requirement("4.4.5-a")
def test_4_4_5_a_messages_of_all_types_are_new_and_empty(session: Session) -> None:
    text, mapping, thing = session.createTextMessage(), session.createMapMessage(), session.createObjectMessage()
    assert isinstance(text, TextMessage)
    assert text.getText() is None, "a new text message has no text"
    assert isinstance(mapping, MapMessage)
    assert list(mapping.getMapNames()) == [], "a new map message has no entries"
    assert isinstance(thing, ObjectMessage)
    assert thing.getObject() is None, "a new object message has no object"
    stream, content, plain = session.createStreamMessage(), session.createBytesMessage(), session.createMessage()
    assert isinstance(plain, Message)
    assert isinstance(stream, StreamMessage)
    # A new stream is write-only: `reset` makes it readable (§3.11).
    stream.reset()
    with pytest.raises(MessageEOFException):
        stream.readObject()
    assert isinstance(content, BytesMessage)
    content.reset()
    assert content.getBodyLength() == 0, "a new bytes message has no bytes"


@requirement("4.4.5-a")
def test_4_4_5_a_each_call_makes_another_message(session: Session) -> None:
    makers = (
        session.createMessage,
        session.createTextMessage,
        session.createBytesMessage,
        session.createMapMessage,
        session.createStreamMessage,
        session.createObjectMessage,
    )
    for make in makers:
        first, second = make(), make()
        first.setStringProperty("word", "of the first")
        assert second.propertyExists("word") is False, f"{make.__name__} returns a new message each time"


@requirement("4.4.5-b")
def test_4_4_5_b_messages_are_made_with_a_body(session: Session) -> None:
    assert session.createTextMessage("text").getText() == "text"
    assert session.createObjectMessage([1, "two"]).getObject() == [1, "two"]


@requirement("4.4.5-c")
def test_4_4_5_c_a_session_sends_messages_that_another_one_made(
    session: Session, connect: Connect, queue: Queue, waits: Waits
) -> None:
    other = connect().createSession(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.createConsumer(queue)
    session.createProducer(queue).send(other.createTextMessage("made by another connection"))
    received = take(consumer, waits)
    assert received.getText() == "made by another connection"
    # As it came, with its header fields: send assigns them again (§3.4.11).
    other.createProducer(queue).send(received)
    assert take(consumer, waits).getText() == "made by another connection", "a received message can be sent on"


@requirement("4.4.5-c")
def test_4_4_5_c_a_session_sends_messages_of_another_make(session: Session, queue: Queue, waits: Waits) -> None:
    message = foreign(session.createTextMessage("of another make"))
    message.setStringProperty("word", "value")
    session.createProducer(queue).send(message)
    received = take(session.createConsumer(queue), waits)
    assert (received.getText(), received.getStringProperty("word")) == ("of another make", "value")


@requirement("4.4.6-a")
def test_4_4_6_a_another_thread_closes_a_session_that_is_in_use(
    session: Session, make_session: MakeSession, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    consumer = session.create_consumer(queue)
    receiving = background(consumer.receive)
    # The receive waits by the end of this pause; `close` is the one call that another thread may make (§4.4.6).
    waits.pause()
    background(session.close).result()
    assert receiving.result() is None, "the receive of the other thread returns null"
    send_texts(make_session(), queue, "text")
    # Another session gets the message: the receive that was ended must not have taken it.
    collector = Collector()
    make_session().create_consumer(queue).message_listener = collector
    assert collector.wait_for(1, waits) == ["text"], "the closed session took no message with it"


@requirement("4.4.6-b")
def test_4_4_6_b_listeners_set_up_on_a_stopped_connection_are_all_called(
    connect: Connect, session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    # Stopped: on a started one, a second listener would be set while the
    # first one may run, which §4.4.6 calls an error.
    connection = connect()
    listening = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queues = [make_queue() for _ in range(3)]
    listeners = [Collector() for _ in queues]
    for number, (queue, listener) in enumerate(zip(queues, listeners, strict=True)):
        send_texts(session, queue, f"text {number}")
        listening.create_consumer(queue).message_listener = listener
    connection.start()
    assert [listener.wait_for(1, waits) for listener in listeners] == [["text 0"], ["text 1"], ["text 2"]]


@requirement("4.4.6-c")
def test_4_4_6_c_record_whether_a_session_with_a_listener_receives(
    session: Session, make_queue: MakeDestination, record: Record
) -> None:
    receiver = session.create_consumer(make_queue())
    session.create_consumer(make_queue()).message_listener = Collector()
    try:
        # Without waiting: a provider that does not refuse the call would keep the test for as long.
        receiver.receive_no_wait()
    except JMSException as error:
        record(f"receive on a session that has a message listener throws {type(error).__name__}")
    else:
        record("receive on a session that has a message listener is not refused")


@requirement("4.4.9-a")
def test_4_4_9_a_a_slow_subscriber_does_not_hold_up_another(
    session: Session, make_session: MakeSession, topic: Topic, waits: Waits
) -> None:
    texts = [f"text {number}" for number in range(5)]
    with Holding(waits) as slow:
        quick = Collector()
        # A session for each: the listeners of one session run one after the other (§4.4.14).
        make_session().create_consumer(topic).message_listener = slow
        make_session().create_consumer(topic).message_listener = quick
        send_texts(session, topic, *texts)
        # The slow subscriber is in its first call from here on; the quick one must get everything meanwhile.
        slow.wait_until_entered()
        assert quick.wait_for(len(texts), waits) == texts, "one gets everything while the other is busy"
        assert slow.texts == ["text 0"]
        slow.release()
        waits.until(lambda: len(slow.texts) >= len(texts), "the slow subscriber had everything, too")
        assert slow.texts == texts


@requirement("4.4.9-b")
def test_4_4_9_b_record_how_two_receivers_share_a_queue(
    session: Session, connect: Connect, queue: Queue, record: Record, waits: Waits
) -> None:
    connection: Connection = connect(started=True)
    listeners = [Collector(), Collector()]
    for listener in listeners:
        connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue).message_listener = listener
    send_texts(session, queue, *(f"text {number}" for number in range(20)))
    waits.until(lambda: sum(len(listener.texts) for listener in listeners) >= 20, "20 messages had been received")
    is_shared = all(listener.texts for listener in listeners)
    record(f"of two listeners on one queue, {'each got some' if is_shared else 'one got all'} of 20 messages")


class Overlapping(Collector):
    """A listener that counts how many calls run at the same time, in all listeners that share its counter."""

    # One lock for all listeners, as they share the counter.
    lock = Lock()

    def __init__(self, waits: Waits, running: list[int]) -> None:
        super().__init__(self._stay)
        self._waits = waits
        self._running = running
        self.most_at_once = 0

    def _stay(self, message: Message) -> None:
        with self.lock:
            self._running[0] += 1
            self.most_at_once = max(self.most_at_once, self._running[0])
        self._waits.pause()  # another call has its chance to begin
        with self.lock:
            self._running[0] -= 1


@requirement("4.4.14-a")
def test_4_4_14_a_the_listeners_of_a_session_run_one_after_the_other(
    connect: Connect, session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    # Stopped until both queues have messages, so that both listeners have work at the same moment.
    connection = connect()
    listening = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queues = [make_queue(), make_queue()]
    running = [0]
    listeners = [Overlapping(waits, running) for _ in queues]
    for queue, listener in zip(queues, listeners, strict=True):
        send_texts(session, queue, "one", "two")
        listening.create_consumer(queue).message_listener = listener
    connection.start()
    for listener in listeners:
        assert listener.wait_for(2, waits) == ["one", "two"]
    most = max(listener.most_at_once for listener in listeners)
    assert most == 1, "how many listeners of the session ran at the same time"
