"""Transactions, the order of messages, acknowledgement and recovery (4.4.7, 4.4.10 to 4.4.13)."""

from __future__ import annotations

import pytest

from pyjms import DeliveryMode, IllegalStateException, Queue, Session, Topic
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeDestination, MakeSession
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import Collector, leftovers, send_texts, take, take_texts


@pytest.fixture
def transacted(make_session: MakeSession) -> Session:
    """A transacted session."""
    return make_session(True, Session.SESSION_TRANSACTED)


@requirement("4.4.7-a")
def test_4_4_7_a_commit_sends_and_not_earlier(
    transacted: Session, session: Session, queue: Queue, waits: Waits
) -> None:
    consumer = session.createConsumer(queue)
    send_texts(transacted, queue, "one", "two")
    assert leftovers(consumer, waits) == [], "before the commit nobody sees the messages"
    transacted.commit()
    assert take_texts(consumer, waits, 2) == ["one", "two"]


@requirement("4.4.7-a")
def test_4_4_7_a_commit_sends_to_all_destinations(
    transacted: Session, session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    queues = [make_queue(), make_queue()]
    for queue in queues:
        send_texts(transacted, queue, "text")
    transacted.commit()
    assert [take(session.createConsumer(queue), waits).getText() for queue in queues] == ["text", "text"]


@requirement("4.4.7-a")
def test_4_4_7_a_commit_publishes_and_not_earlier(
    transacted: Session, session: Session, topic: Topic, waits: Waits
) -> None:
    # The subscriber first: a nondurable one gets only messages published while it is active (§6.3).
    subscriber = session.createConsumer(topic)
    send_texts(transacted, topic, "text")
    assert leftovers(subscriber, waits) == [], "before the commit nobody sees the message"
    transacted.commit()
    assert take(subscriber, waits).getText() == "text"


@requirement("4.4.7-a")
def test_4_4_7_a_commit_acknowledges_what_was_received(
    transacted: Session, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "one", "two", "three")
    assert take_texts(transacted.createConsumer(queue), waits, 2) == ["one", "two"]
    transacted.commit()
    # Closed before the queue is looked at: while the session is open, it would hide what the commit left out.
    transacted.close()
    consumer = session.createConsumer(queue)
    assert take(consumer, waits).getText() == "three", "what the transaction received does not come again"
    assert leftovers(consumer, waits) == []


@requirement("4.4.7-b")
def test_4_4_7_b_rollback_discards_what_was_sent(
    transacted: Session, session: Session, queue: Queue, waits: Waits
) -> None:
    consumer = session.createConsumer(queue)
    send_texts(transacted, queue, "discarded")
    transacted.rollback()
    # A second transaction is committed: the rolled back message must not come with it, either.
    send_texts(transacted, queue, "kept")
    transacted.commit()
    assert take(consumer, waits).getText() == "kept", "the message that was rolled back is never delivered"
    assert leftovers(consumer, waits) == []


@requirement("4.4.7-b")
def test_4_4_7_b_rollback_recovers_what_was_received(
    transacted: Session, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "one", "two")
    consumer = transacted.createConsumer(queue)
    assert take_texts(consumer, waits, 2) == ["one", "two"]
    transacted.rollback()
    again = [take(consumer, waits) for _ in range(2)]
    assert [message.getText() for message in again] == ["one", "two"], "both come again, in their order"
    assert [message.getJMSRedelivered() for message in again] == [True, True], "JMSRedelivered says so"
    # Committed, so that the last look shows that the second delivery was settled, and not forgotten.
    transacted.commit()
    assert leftovers(session.createConsumer(queue), waits) == [], "the second transaction acknowledged them"


@requirement("4.4.7-c")
def test_4_4_7_c_each_end_of_a_transaction_begins_the_next(
    transacted: Session, session: Session, queue: Queue, waits: Waits
) -> None:
    consumer = session.createConsumer(queue)
    for number, end in enumerate((transacted.commit, transacted.rollback, transacted.commit, transacted.rollback)):
        send_texts(transacted, queue, f"text {number}")
        end()
    assert take_texts(consumer, waits, 2) == ["text 0", "text 2"], "two transactions were committed, two rolled back"
    # A session that sends without a transaction after its first end would show this message.
    send_texts(transacted, queue, "in the transaction that is open")
    assert leftovers(consumer, waits) == [], "after all these there is a transaction again"


@requirement("4.4.7-d")
@pytest.mark.parametrize("mode", [Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE])
def test_4_4_7_d_commit_needs_a_transacted_session(make_session: MakeSession, mode: int) -> None:
    with pytest.raises(IllegalStateException):
        make_session(False, mode).commit()


@requirement("4.4.7-e")
@pytest.mark.parametrize("mode", [Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE])
def test_4_4_7_e_rollback_needs_a_transacted_session(make_session: MakeSession, mode: int) -> None:
    with pytest.raises(IllegalStateException):
        make_session(False, mode).rollback()


NUMBERS = [f"text {number}" for number in range(30)]


@requirement("4.4.10.1-a")
def test_4_4_10_1_a_a_queue_keeps_the_order_of_a_session(session: Session, queue: Queue, waits: Waits) -> None:
    consumer = session.create_consumer(queue)
    send_texts(session, queue, *NUMBERS)
    assert take_texts(consumer, waits, len(NUMBERS)) == NUMBERS


@requirement("4.4.10.1-a")
def test_4_4_10_1_a_a_queue_without_consumer_keeps_the_order(session: Session, queue: Queue, waits: Waits) -> None:
    # Sent before there is a consumer: brokers deliver what is stored in another way than what just comes.
    send_texts(session, queue, *NUMBERS)
    listener = Collector()
    session.create_consumer(queue).message_listener = listener
    assert listener.wait_for(len(NUMBERS), waits) == NUMBERS


@requirement("4.4.10.1-a")
def test_4_4_10_1_a_a_topic_keeps_the_order_of_a_session(session: Session, topic: Topic, waits: Waits) -> None:
    # The consumer first: a nondurable one gets only messages published while it is active (§6.3).
    consumer = session.create_consumer(topic)
    send_texts(session, topic, *NUMBERS)
    assert take_texts(consumer, waits, len(NUMBERS)) == NUMBERS


@requirement("4.4.10.1-a")
def test_4_4_10_1_a_order_holds_across_the_producers_of_a_session(session: Session, queue: Queue, waits: Waits) -> None:
    producers = [session.create_producer(queue), session.create_producer(queue), session.create_producer(None)]
    for number, text in enumerate(NUMBERS):
        # By turns: order is that of the session, whichever of its producers sends (§4.4.10.1).
        producer = producers[number % 3]
        message = session.create_text_message(text)
        if producer.destination is None:
            producer.send(queue, message)
        else:
            producer.send(message)
    assert take_texts(session.create_consumer(queue), waits, len(NUMBERS)) == NUMBERS


@requirement("4.4.10.2-a")
def test_4_4_10_2_a_order_holds_within_each_delivery_mode(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.create_producer(queue)
    modes = [DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT]
    for number, text in enumerate(NUMBERS):
        producer.send(session.create_text_message(text), modes[number % 2], 4, 0)
    consumer = session.create_consumer(queue)
    received = [take(consumer, waits) for _ in NUMBERS]
    # Each mode by itself: a NON_PERSISTENT message may overtake PERSISTENT ones (§4.4.10.2).
    for number, mode in enumerate(modes):
        texts = [message.text for message in received if message.jms_delivery_mode == mode]
        assert texts == NUMBERS[number::2], f"the order of the {mode.name} messages"


@requirement("4.4.10.2-b")
def test_4_4_10_2_b_a_transaction_keeps_the_order_at_each_destination(
    session: Session, make_session: MakeSession, make_queue: MakeDestination, waits: Waits
) -> None:
    queues = [make_queue(), make_queue()]
    transacted = make_session(True)
    for number, text in enumerate(NUMBERS):
        send_texts(transacted, queues[number % 2], text)
    transacted.commit()
    # Each destination by itself: between two of them there is no order (§4.4.10.2).
    for number, queue in enumerate(queues):
        received = take_texts(session.create_consumer(queue), waits, len(NUMBERS) // 2)
        assert received == NUMBERS[number::2], "the order of one destination's messages in the transaction"


@requirement("4.4.10.2-b")
def test_4_4_10_2_b_order_holds_from_one_transaction_to_the_next(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    transacted = make_session(True)
    for text in NUMBERS:
        send_texts(transacted, queue, text)
        transacted.commit()
    assert take_texts(session.create_consumer(queue), waits, len(NUMBERS)) == NUMBERS


@pytest.fixture
def acknowledging(make_session: MakeSession) -> Session:
    """A session whose client acknowledges."""
    return make_session(False, Session.CLIENT_ACKNOWLEDGE)


@requirement("4.4.11-a")
def test_4_4_11_a_recover_begins_with_the_first_unacknowledged_message(
    session: Session, acknowledging: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "one", "two", "three", "four")
    consumer = acknowledging.createConsumer(queue)
    # Acknowledged while "two" and "three" are not delivered yet, so it covers "one" alone.
    take(consumer, waits).acknowledge()
    assert take_texts(consumer, waits, 2) == ["two", "three"]
    acknowledging.recover()
    assert take_texts(consumer, waits, 3) == ["two", "three", "four"], "what was acknowledged does not come again"


@requirement("4.4.11-a")
def test_4_4_11_a_recover_covers_all_consumers_of_the_session(
    session: Session, acknowledging: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    queues = [make_queue(), make_queue()]
    for queue in queues:
        send_texts(session, queue, "text")
    consumers = [acknowledging.createConsumer(queue) for queue in queues]
    assert [take(consumer, waits).getText() for consumer in consumers] == ["text", "text"]
    acknowledging.recover()
    assert [take(consumer, waits).getText() for consumer in consumers] == ["text", "text"], "both come again"


@requirement("4.4.11-b")
def test_4_4_11_b_what_recover_delivers_again_says_so(
    session: Session, acknowledging: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "one", "two")
    consumer = acknowledging.createConsumer(queue)
    first = take(consumer, waits)
    assert first.getJMSRedelivered() is False, "the first delivery is no redelivery"
    acknowledging.recover()
    received = [(message.getText(), message.getJMSRedelivered()) for message in (take(consumer, waits),)]
    assert received == [("one", True)], "the message comes again, with JMSRedelivered"
    # A provider may have sent this message ahead to the client; it was not delivered for that, and is no redelivery.
    second = take(consumer, waits)
    assert (second.getText(), second.getJMSRedelivered()) == ("two", False), "it was not delivered before"


@requirement("4.4.11-b")
def test_4_4_11_b_a_subscriber_sees_that_a_message_comes_again(
    session: Session, acknowledging: Session, topic: Topic, waits: Waits
) -> None:
    # The consumer first: a nondurable one gets only messages published while it is active (§6.3).
    consumer = acknowledging.createConsumer(topic)
    send_texts(session, topic, "text")
    assert take(consumer, waits).getJMSRedelivered() is False
    acknowledging.recover()
    assert take(consumer, waits).getJMSRedelivered() is True


@requirement("4.4.11-c")
@needs("TRANSACTIONS")
def test_4_4_11_c_a_transacted_session_cannot_recover(make_session: MakeSession) -> None:
    with pytest.raises(IllegalStateException):
        make_session(True).recover()


@requirement("4.4.11-d")
def test_4_4_11_d_acknowledge_does_nothing_in_a_transacted_session(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "text")
    transacted = make_session(True)
    consumer = transacted.createConsumer(queue)
    take(consumer, waits).acknowledge()
    # An acknowledgement that had an effect would have taken the message out of the transaction.
    transacted.rollback()
    again = take(consumer, waits, "the message again, for only commit acknowledges it")
    assert again.getJMSRedelivered() is True
    transacted.commit()
    transacted.close()
    assert leftovers(session.createConsumer(queue), waits) == [], "commit has acknowledged it"


@requirement("4.4.11-e")
def test_4_4_11_e_one_acknowledgement_covers_all_that_the_session_delivered(
    session: Session, acknowledging: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    queues = [make_queue(), make_queue()]
    for queue in queues:
        send_texts(session, queue, "one", "two")
    consumers = [acknowledging.createConsumer(queue) for queue in queues]
    delivered = [take(consumer, waits) for consumer in consumers for _ in range(2)]
    # The first one: a broker that acknowledges up to the named message, or its consumer's alone, leaves others.
    delivered[0].acknowledge()
    # Closing gives back what is not acknowledged, so that the next look can find it.
    acknowledging.close()
    rest = [leftovers(session.createConsumer(queue), waits) for queue in queues]
    assert rest == [[], []], "acknowledging the first message covers the others, of all consumers of the session"


@requirement("4.4.11-e")
def test_4_4_11_e_an_acknowledgement_covers_nothing_that_comes_later(
    session: Session, acknowledging: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "one", "two")
    consumer = acknowledging.createConsumer(queue)
    take(consumer, waits).acknowledge()
    assert take(consumer, waits).getText() == "two"
    # A provider that had sent "two" ahead must not have acknowledged it with "one".
    acknowledging.close()
    assert take(session.createConsumer(queue), waits).getText() == "two", "it was not acknowledged"


@requirement("4.4.11-e")
def test_4_4_11_e_an_acknowledgement_covers_no_other_session(
    session: Session, acknowledging: Session, make_session: MakeSession, make_queue: MakeDestination, waits: Waits
) -> None:
    ours, theirs = make_queue(), make_queue()
    for queue in (ours, theirs):
        send_texts(session, queue, "text")
    # On the same connection: a provider that acknowledges by connection is noticed.
    other = make_session(False, Session.CLIENT_ACKNOWLEDGE)
    take(other.createConsumer(theirs), waits)
    take(acknowledging.createConsumer(ours), waits).acknowledge()
    other.close()
    assert take(session.createConsumer(theirs), waits).getText() == "text", "the other session acknowledged nothing"


@requirement("4.4.11-f")
def test_4_4_11_f_receive_acknowledges_what_it_returns(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "one", "two", "three")
    receiving = make_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = receiving.createConsumer(queue)
    assert take_texts(consumer, waits, 2) == ["one", "two"]
    receiving.recover()
    assert take(consumer, waits).getText() == "three", "recover brings nothing back that receive returned"
    # Closing would bring back what was received without being acknowledged.
    receiving.close()
    assert leftovers(session.createConsumer(queue), waits) == []


@requirement("4.4.11-f")
def test_4_4_11_f_a_listener_acknowledges_by_returning(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "one", "two")
    listening, listener = make_session(False, Session.AUTO_ACKNOWLEDGE), Collector()
    listening.createConsumer(queue).setMessageListener(listener)
    assert listener.wait_for(2, waits) == ["one", "two"]
    listening.close()
    assert leftovers(session.createConsumer(queue), waits) == [], "both were acknowledged when the listener returned"


@requirement("4.4.11-g")
def test_4_4_11_g_lazy_acknowledgements_come_in_the_end(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    texts = [f"text {number}" for number in range(15)]
    send_texts(session, queue, *texts)
    lazy = make_session(False, Session.DUPS_OK_ACKNOWLEDGE)
    assert take_texts(lazy.createConsumer(queue), waits, len(texts)) == texts
    # The session may acknowledge as late as here (§4.4.11), and without a failure nothing may be delivered twice.
    lazy.close()
    assert leftovers(session.createConsumer(queue), waits) == [], "without a failure nothing comes twice"


@requirement("4.4.12-a")
def test_4_4_12_a_an_acknowledged_message_never_comes_again(
    session: Session, acknowledging: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "one", "two", "three")
    consumer = acknowledging.createConsumer(queue)
    take(consumer, waits).acknowledge()
    acknowledging.recover()
    assert take(consumer, waits).getText() == "two", "not after recover"
    consumer.close()
    acknowledging.close()
    again = make_session(False, Session.CLIENT_ACKNOWLEDGE).createConsumer(queue)
    received = take_texts(again, waits, 2)
    # Sorted: "two" was delivered before, and where it comes back is no matter of this section.
    assert sorted(map(str, received)) == ["three", "two"], "not to another session"


@requirement("4.4.13-a")
def test_4_4_13_a_what_is_sent_once_is_consumed_once(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    texts = [f"text {number:02}" for number in range(20)]
    listeners = [Collector() for _ in range(3)]
    # Several consumers compete, as a broker that hands one message to two of them makes a duplicate.
    for listener in listeners:
        make_session().createConsumer(queue).setMessageListener(listener)
    send_texts(session, queue, *texts)
    waits.until(
        lambda: sum(len(listener.messages) for listener in listeners) >= len(texts), "all messages were consumed"
    )
    waits.pause()  # a duplicate has its chance
    consumed = sorted(str(text) for listener in listeners for text in listener.texts)
    assert consumed == texts, "three consumers share the messages of one queue, each of which comes once"
