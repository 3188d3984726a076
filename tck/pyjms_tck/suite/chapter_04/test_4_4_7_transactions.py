"""Transactions of a session: commit, rollback, and what is seen of both by others (4.4.7)."""

from __future__ import annotations

import pytest

from pyjms import IllegalStateException, Queue, Session, Topic
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeDestination, MakeSession
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.exchange import leftovers, send_texts, take, take_texts


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
