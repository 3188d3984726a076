"""Queues and the point-to-point domain: connections, sessions, senders, receivers, browsers, requestors (5.1 to 5.11)."""

from __future__ import annotations

from functools import partial

import pytest

from pyjms import (
    BytesMessage,
    Connection,
    ConnectionFactory,
    DeliveryMode,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    MapMessage,
    Message,
    ObjectMessage,
    Queue,
    QueueBrowser,
    QueueConnection,
    QueueReceiver,
    QueueRequestor,
    QueueSender,
    QueueSession,
    Session,
    StreamMessage,
    TemporaryQueue,
    TextMessage,
    UnsupportedOperationException,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, Record, RunBackground
from pyjms_tck.profile import Profile
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_04 import endings
from pyjms_tck.suite.exchange import (
    INVALID_SELECTOR,
    NO_DESTINATION,
    Collector,
    in_each_mode,
    leftovers,
    send_numbers,
    send_texts,
    sent_as,
    take,
    take_texts,
    text_of,
)


@requirement("5.1-a")
def test_5_1_a_the_common_interfaces_receive_what_the_queue_interfaces_send(
    queue_session: QueueSession, session: Session, queue: Queue, waits: Waits
) -> None:
    sender = queue_session.createSender(queue)
    sender.send(queue_session.createTextMessage("from a queue sender"))
    assert take(session.createConsumer(queue), waits).getText() == "from a queue sender"


@requirement("5.1-a")
def test_5_1_a_the_queue_interfaces_receive_what_the_common_interfaces_send(
    queue_session: QueueSession, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "from a producer")
    assert take(queue_session.createReceiver(queue), waits).getText() == "from a producer"


@requirement("5.1-a")
def test_5_1_a_a_queue_session_has_the_common_methods(queue_session: QueueSession, queue: Queue, waits: Waits) -> None:
    consumer = queue_session.createConsumer(queue)
    queue_session.createProducer(queue).send(queue_session.createTextMessage("text"))
    assert take(consumer, waits).getText() == "text"


@requirement("5.1-b")
def test_5_1_b_a_queue_holds_messages_of_all_types(session: Session, queue: Queue, waits: Waits) -> None:
    messages: list[Message] = [
        session.createTextMessage("text"),
        session.createBytesMessage(),
        session.createMapMessage(),
        session.createStreamMessage(),
        session.createObjectMessage([1, 2]),
        session.createMessage(),
    ]
    producer = session.createProducer(queue)
    for message in messages:
        producer.send(message)
    consumer = session.createConsumer(queue)
    received = [consumer.receive(waits.something_ms) for _ in messages]
    # In the order of sending; `Message` comes last, as each of the others is one, too.
    kinds = [TextMessage, BytesMessage, MapMessage, StreamMessage, ObjectMessage, Message]
    wrong = [
        f"{type(message).__name__} is no {kind.__name__}"
        for message, kind in zip(received, kinds, strict=True)
        if not isinstance(message, kind)
    ]
    assert wrong == [], "each message arrives, in order, with the type that it was sent with"


@requirement("5.3-a")
def test_5_3_a_a_queue_tells_its_name(make_queue: MakeDestination, session: Session) -> None:
    queue: Queue = make_queue()
    assert isinstance(queue.getQueueName(), str)
    assert queue.getQueueName(), "the name of a queue is not empty"
    # A provider that gives all queues one name would pass the other checks.
    assert make_queue().getQueueName() != queue.getQueueName(), "another queue has another name"
    assert session.createQueue(queue.getQueueName()).getQueueName() == queue.getQueueName()


@requirement("5.3-b")
def test_5_3_b_a_queue_has_a_readable_form(queue: Queue) -> None:
    assert queue.getQueueName() in queue.toString(), "the readable form shows the name"
    assert str(queue) == queue.toString()


@requirement("5.4-a")
def test_5_4_a_a_temporary_queue_is_for_its_connection(
    queue_session: QueueSession, session: Session, connect: Connect, waits: Waits
) -> None:
    temporary = queue_session.createTemporaryQueue()
    assert isinstance(temporary, TemporaryQueue)
    with pytest.raises(JMSException):
        session.createConsumer(temporary)
    # Anybody may send to it: a reply comes from another connection (§4.4.3).
    send_texts(connect().createSession(False, Session.AUTO_ACKNOWLEDGE), temporary, "from another connection")
    assert take(queue_session.createReceiver(temporary), waits).getText() == "from another connection"


@requirement("5.4-b")
def test_5_4_b_a_deleted_temporary_queue_is_gone(queue_session: QueueSession) -> None:
    temporary = queue_session.createTemporaryQueue()
    temporary.delete()
    with pytest.raises(JMSException):
        queue_session.createReceiver(temporary)


@requirement("5.4-b")
def test_5_4_b_a_temporary_queue_that_has_a_receiver_is_not_deleted(queue_session: QueueSession, waits: Waits) -> None:
    temporary = queue_session.createTemporaryQueue()
    receiver = queue_session.createReceiver(temporary)
    with pytest.raises(JMSException):
        temporary.delete()
    send_texts(queue_session, temporary, "still there")
    assert take(receiver, waits).getText() == "still there"
    # Without a receiver the same call must work: the refusal was for the receiver's sake.
    receiver.close()
    temporary.delete()


@requirement("5.5-a")
def test_5_5_a_a_new_queue_connection_is_stopped(
    factory: ConnectionFactory, session: Session, queue: Queue, waits: Waits
) -> None:
    with factory.createQueueConnection() as connection:
        _starts_stopped(connection, session, queue, waits)


@requirement("5.5-b")
def test_5_5_b_a_new_queue_connection_with_credentials_is_stopped(
    factory: ConnectionFactory, profile: Profile, session: Session, queue: Queue, waits: Waits
) -> None:
    user_name, password = profile.user_name or "guest", profile.password or "guest"
    with factory.createQueueConnection(user_name, password) as connection:
        _starts_stopped(connection, session, queue, waits)


def _starts_stopped(connection: QueueConnection, session: Session, queue: Queue, waits: Waits) -> None:
    assert isinstance(connection, QueueConnection)
    # The message is there before the receiver, so only the stopped connection can keep it back.
    send_texts(session, queue, "early")
    receiver = connection.createQueueSession(False, Session.AUTO_ACKNOWLEDGE).createReceiver(queue)
    assert leftovers(receiver, waits) == [], "a connection that was not started delivers nothing"
    connection.start()
    assert take_texts(receiver, waits, 1) == ["early"]


@requirement("5.6-a")
@in_each_mode
def test_5_6_a_a_queue_session_has_the_mode_that_was_asked_for(
    queue_connection: QueueConnection, transacted: bool, asked: int, mode: int
) -> None:
    session = queue_connection.createQueueSession(transacted, asked)
    assert isinstance(session, QueueSession)
    assert (session.getTransacted(), session.getAcknowledgeMode()) == (transacted, mode)


HOUR_MS = 3_600_000
OPTIONS = (DeliveryMode.NON_PERSISTENT, 8, HOUR_MS)


@requirement("5.7-a")
@pytest.mark.parametrize("end", ["session", "connection"])
def test_5_7_a_what_was_not_acknowledged_stays_on_its_queue(
    queue_connection: QueueConnection, session: Session, queue: Queue, waits: Waits, end: str
) -> None:
    send_texts(session, queue, "one", "two")
    receiving = queue_connection.create_queue_session(False, Session.CLIENT_ACKNOWLEDGE)
    assert take_texts(receiving.create_receiver(queue), waits, 2) == ["one", "two"]
    # Either end must requeue unacknowledged messages.
    (receiving if end == "session" else queue_connection).close()
    consumer = session.create_consumer(queue)
    again = [(message.text, message.jms_redelivered) for message in (take(consumer, waits), take(consumer, waits))]
    assert again == [("one", True), ("two", True)], "both come again, in their order, marked as redelivered"


@requirement("5.7-b")
def test_5_7_b_a_queue_session_makes_queues_from_their_names(
    queue_session: QueueSession, queue: Queue, waits: Waits
) -> None:
    made = queue_session.create_queue(queue.queue_name)
    assert isinstance(made, Queue)
    assert made.queue_name == queue.queue_name
    send_texts(queue_session, made, "text")
    assert take(queue_session.create_receiver(queue), waits).text == "text"


@requirement("5.7-c")
def test_5_7_c_a_receiver_gets_the_messages_of_its_queue(
    queue_session: QueueSession, make_queue: MakeDestination, waits: Waits
) -> None:
    ours, other = make_queue(), make_queue()
    receiver = queue_session.create_receiver(ours)
    assert isinstance(receiver, QueueReceiver)
    # The other queue's message is sent first: a receiver that gets everything would show it first.
    send_texts(queue_session, other, "for the other queue")
    send_texts(queue_session, ours, "for our queue")
    assert take(receiver, waits).text == "for our queue"
    assert leftovers(receiver, waits) == []


@requirement("5.7-c")
@needs("SELECTORS")
def test_5_7_c_a_receiver_has_the_given_selector(queue_session: QueueSession, queue: Queue, waits: Waits) -> None:
    receiver = queue_session.create_receiver(queue, "number > 1")
    assert receiver.message_selector == "number > 1"
    send_numbers(queue_session, queue)
    assert take_texts(receiver, waits, 2) == ["2", "3"]
    assert leftovers(receiver, waits) == [], "the selector leaves the others out"


@requirement("5.7-d")
@pytest.mark.parametrize("more", [(), pytest.param(("number > 1",), marks=needs("SELECTORS"))], ids=repr)
def test_5_7_d_a_receiver_needs_a_queue(queue_session: QueueSession, more: tuple[str, ...]) -> None:
    with pytest.raises(InvalidDestinationException):
        queue_session.create_receiver(NO_DESTINATION, *more)


@requirement("5.7-e")
def test_5_7_e_a_receiver_needs_a_valid_selector(queue_session: QueueSession, queue: Queue) -> None:
    with pytest.raises(InvalidSelectorException):
        queue_session.create_receiver(queue, INVALID_SELECTOR)


@requirement("5.7-f")
def test_5_7_f_a_sender_is_made_for_a_queue_or_for_none(queue_session: QueueSession, queue: Queue) -> None:
    sender = queue_session.create_sender(queue)
    assert isinstance(sender, QueueSender)
    assert sender.queue is not None, "the sender has the queue that it was made for"
    assert sender.queue.queue_name == queue.queue_name
    assert queue_session.create_sender(None).queue is None, "a sender without queue"


@requirement("5.7-g")
@needs("TEMPORARY_DESTINATIONS")
def test_5_7_g_a_sender_needs_a_queue_that_exists(queue_session: QueueSession) -> None:
    # A deleted temporary queue is the one queue that no broker creates again at first use.
    deleted = queue_session.create_temporary_queue()
    deleted.delete()
    # Both calls: a provider may ask the broker when the sender is made, or when it sends.
    with pytest.raises(InvalidDestinationException):
        queue_session.create_sender(deleted).send(queue_session.create_text_message("text"))


@requirement("5.7-h")
def test_5_7_h_a_temporary_queue_lives_as_long_as_its_connection(
    queue_connection: QueueConnection, waits: Waits
) -> None:
    session = queue_connection.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)
    temporary = session.create_temporary_queue()
    assert isinstance(temporary, TemporaryQueue)
    send_texts(session, temporary, "text")
    # The session is closed with a message in the queue: neither may go with it.
    session.close()
    other = queue_connection.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)
    assert take(other.create_receiver(temporary), waits).text == "text", "it outlives the session that made it"


@requirement("5.7-i")
def test_5_7_i_a_sender_tells_its_queue(queue_session: QueueSession, queue: Queue) -> None:
    sender = queue_session.create_sender(queue)
    assert sender.queue is not None, "the queue of the sender"
    assert sender.queue.queue_name == queue.queue_name


@requirement("5.7-j")
def test_5_7_j_a_sender_sends_to_its_queue(queue_session: QueueSession, queue: Queue, waits: Waits) -> None:
    sender, receiver = queue_session.create_sender(queue), queue_session.create_receiver(queue)
    sender.send(queue_session.create_text_message("with the defaults"))
    assert sent_as(take(receiver, waits)) == ("with the defaults", DeliveryMode.PERSISTENT, 4, None)
    sender.send(queue_session.create_text_message("with options"), *OPTIONS)
    assert sent_as(take(receiver, waits)) == ("with options", *OPTIONS)


@requirement("5.7-k")
def test_5_7_k_a_sender_without_queue_sends_to_the_given_one(
    queue_session: QueueSession, make_queue: MakeDestination, waits: Waits
) -> None:
    sender = queue_session.create_sender(None)
    for queue in (make_queue(), make_queue()):
        sender.send(queue, queue_session.create_text_message("with the defaults"))
        sender.send(queue, queue_session.create_text_message("with options"), *OPTIONS)
        receiver = queue_session.create_receiver(queue)
        # By text, not in order: the second message has a higher priority and another mode, and may overtake.
        received = {facts[0]: facts[1:] for facts in (sent_as(take(receiver, waits)), sent_as(take(receiver, waits)))}
        assert received == {"with the defaults": (DeliveryMode.PERSISTENT, 4, None), "with options": OPTIONS}


@requirement("5.7-l")
@pytest.mark.parametrize("more", [(), OPTIONS], ids=["send(message)", "send(message, mode, priority, time)"])
def test_5_7_l_a_sender_without_queue_needs_one(queue_session: QueueSession, more: tuple[int, ...]) -> None:
    sender, message = queue_session.create_sender(None), queue_session.create_text_message("text")
    with pytest.raises(UnsupportedOperationException):
        sender.send(message, *more)


@requirement("5.8-a")
def test_5_8_a_what_a_selector_leaves_out_stays_on_the_queue(
    queue_session: QueueSession, queue: Queue, waits: Waits
) -> None:
    send_numbers(queue_session, queue)
    receiver = queue_session.create_receiver(queue, "number = 2")
    assert take(receiver, waits).text == "2"
    # Closed before the next look: a provider that sent the others ahead must give them back.
    receiver.close()
    assert take_texts(queue_session.create_receiver(queue), waits, 2) == ["1", "3"], "the others are there still"


@requirement("5.8-b")
def test_5_8_b_a_receiver_reads_in_the_order_of_the_producer(
    queue_session: QueueSession, queue: Queue, waits: Waits
) -> None:
    texts = [f"text {number}" for number in range(20)]
    send_texts(queue_session, queue, *texts)
    receiver = queue_session.create_receiver(queue)
    assert take_texts(receiver, waits, 10) == texts[:10]
    # In the middle: a message prefetched to this receiver must return to its old place.
    receiver.close()
    assert take_texts(queue_session.create_receiver(queue), waits, 10) == texts[10:], "the next receiver goes on"


@requirement("5.8-c")
def test_5_8_c_a_receiver_tells_its_queue(queue_session: QueueSession, queue: Queue) -> None:
    assert queue_session.create_receiver(queue).queue.queue_name == queue.queue_name


@requirement("5.11-a")
def test_5_11_a_a_queue_holds_messages_while_nobody_consumes(connect: Connect, queue: Queue, waits: Waits) -> None:
    # The connection is closed: the messages wait in the broker, not in the client that sent them.
    with connect() as sending:
        send_texts(sending.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, "one", "two")
    session = connect(started=True).create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(queue)
    assert take(consumer, waits).text == "one", "a consumer that comes later gets what was sent before"
    consumer.close()
    send_texts(session, queue, "three")
    listener = Collector()
    session.create_consumer(queue).message_listener = listener
    assert listener.wait_for(2, waits) == ["two", "three"], "so does the next one"


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
    # A browser that takes messages and gives them back would leave its mark.
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
        # All ten priorities in a mixed order: the order of sending would be another one.
        producer.send(session.createTextMessage(f"text {number}"), DeliveryMode.NON_PERSISTENT, (number * 7) % 10, 0)
    seen = _seen(session.createBrowser(queue))
    assert len(seen) == 10, "the browser shows all messages"
    # Compared with the received order: how strictly a provider heeds priorities is its own matter (§3.4.10).
    assert seen == take_texts(session.createConsumer(queue), waits, 10), "in the order in which they are received"


@requirement("5.9-i")
def test_5_9_i_a_closed_browser_refuses_every_call_and_can_be_closed_again(session: Session, queue: Queue) -> None:
    browser = session.createBrowser(queue)
    browser.close()
    browser.close()
    assert endings.not_refused(endings.browser_calls(browser)) == {}, "calls that do not raise IllegalStateException"


@requirement("5.9-j")
def test_5_9_j_record_whether_a_browser_shows_what_arrives_while_it_enumerates(
    session: Session, queue: Queue, record: Record
) -> None:
    send_texts(session, queue, "one", "two")
    messages = session.createBrowser(queue).getEnumeration()
    first = text_of(messages.nextElement())
    send_texts(session, queue, "three")
    seen = [first]
    # An enumeration without end fails the test, and does not hang it.
    while messages.hasMoreElements() and len(seen) < 10:
        seen.append(text_of(messages.nextElement()))
    assert seen[:2] == ["one", "two"], "what was there before is shown"
    record(f"a message that arrives while a browser enumerates is {'shown' if 'three' in seen else 'not shown'}")


@pytest.fixture
def other(connect: Connect) -> Connection:
    """The connection of the replying client."""
    return connect(started=True)


@requirement("5.10-a", "5.10-b")
def test_5_10_a_a_request_returns_its_reply(
    queue_session: QueueSession, other: Connection, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    requestor = QueueRequestor(queue_session, queue)
    replying = other.create_session(False, Session.AUTO_ACKNOWLEDGE)
    requests = replying.create_consumer(queue)
    # Twice: the requestor must still have its temporary queue, and the second reply must not be the first one.
    for number in (1, 2):
        # `request` waits for the reply, which this thread sends.
        asking = background(partial(requestor.request, queue_session.create_text_message(f"request {number}")))
        request = take(requests, waits, "the request")
        assert request.text == f"request {number}"
        assert isinstance(request.jms_reply_to, TemporaryQueue), "JMSReplyTo is a temporary queue"
        with replying.create_producer(request.jms_reply_to) as producer:
            producer.send(replying.create_text_message(f"reply {number}"))
        reply = asking.result()
        assert isinstance(reply, TextMessage), "request returns the reply"
        assert reply.text == f"reply {number}"


@requirement("5.10-b")
@needs("TRANSACTIONS")
def test_5_10_b_a_requestor_is_of_no_use_to_a_transacted_session(
    queue_connection: QueueConnection, queue: Queue
) -> None:
    session = queue_connection.create_queue_session(True, Session.SESSION_TRANSACTED)
    with pytest.raises(JMSException):
        QueueRequestor(session, queue)


@requirement("5.10-c")
def test_5_10_c_a_requestor_needs_a_queue(queue_session: QueueSession) -> None:
    with pytest.raises(InvalidDestinationException):
        QueueRequestor(queue_session, NO_DESTINATION)


@requirement("5.10-d")
def test_5_10_d_closing_a_requestor_closes_its_session(queue_session: QueueSession, queue: Queue) -> None:
    requestor, message = QueueRequestor(queue_session, queue), queue_session.create_text_message("request")
    requestor.close()
    with pytest.raises(IllegalStateException):
        queue_session.create_text_message()
    with pytest.raises(JMSException):
        requestor.request(message)
