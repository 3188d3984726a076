"""Every change of a message's state is told, with who and why (JBoss Messaging Core §5, §6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms import Session
from pyjms.testing import VirtualClock
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.trace_events import FACTS, STATE_AFTER, Happening
from pyjms_provider.core.policy import QueuePolicies
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stories.reading import in_words
from tests.provider.stories.teller import NAME, Teller, send


@pytest.mark.realises("JBM-5.1.2", "JBM-5.1.3.a")
def test_a_message_in_transactions_is_followed_from_its_send_to_its_end(teller: Teller) -> None:
    session = teller.session(transacted=True)
    message = send(session)
    session.commit()
    consumer = session.create_consumer(session.create_queue("orders"))
    assert consumer.receive(5000) is not None
    session.rollback()
    assert consumer.receive(5000) is not None
    session.commit()
    story = teller.story(message)
    assert [(each.what, each.state) for each in story.events] == [
        ("sent", "NOT_COMMITTED"),
        ("committed", "NEW"),
        ("delivered", "DELIVERED"),
        ("returned", "NEW"),
        ("delivered", "DELIVERED"),
        ("acknowledged_in_transaction", "DELIVERED"),
        ("acknowledged", "ABSENT"),
    ]
    assert story.events[4].facts["delivery"] == 2
    assert story.events[4].facts["consumer"] == 1
    assert story.places == {}


def test_a_step_names_consumer_session_connection_and_its_client(teller: Teller) -> None:
    connection = teller.connect(client_id="till-4")
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    session.create_consumer(session.create_queue("other"))
    consumer = session.create_consumer(session.create_queue("orders"))
    message = send(session)
    assert consumer.receive(5000) is not None
    connection.close()  # who it was is known of a connection that has gone, too
    taken = teller.story(message).events[1]
    assert (taken.facts["consumer"], taken.facts["client_id"]) == (2, "till-4")
    assert taken.where == "queue://orders"
    assert "consumer 2 of session 1 of connection" in in_words(taken)
    assert "till-4" in in_words(taken)


def test_a_message_rolled_back_by_its_sender_never_was(teller: Teller) -> None:
    session = teller.session(transacted=True)
    message = send(session)
    session.rollback()
    assert teller.steps(message) == ["sent", "rolled_back"]


def test_each_subscription_has_its_own_part_of_the_story(teller: Teller) -> None:
    session = teller.session()
    topic = session.create_topic("news")
    first, second = session.create_consumer(topic), session.create_consumer(topic)
    message = session.create_text_message("one")
    session.create_producer(topic).send(message)
    assert first.receive(5000) is not None
    story = teller.story(message)
    assert len({each.where for each in story.events if each.what == "accepted"}) == 2
    assert list(story.places.values()) == ["NEW"]
    second.close()
    assert teller.story(message).events[-1].what == "closed"


def test_a_message_that_no_subscription_wants_leaves_a_trace(teller: Teller) -> None:
    session = teller.session()
    topic = session.create_topic("news")
    session.create_consumer(topic, "colour = 'red'")
    message = session.create_text_message("one")
    session.create_producer(topic).send(message)
    assert teller.steps(message) == ["unwanted"]


@pytest.mark.parametrize("level", ["all", "ends"])
def test_dead_letters_and_their_way_back_are_one_story(teller: Teller, level: str) -> None:
    session = teller.session(transacted=True, level=level, options="&max_deliveries=1")
    message = send(session)
    session.commit()
    consumer = session.create_consumer(session.create_queue("orders"))
    assert consumer.receive(5000) is not None
    session.rollback()
    assert teller.queues.replay("DLQ").returned == 1
    told = {"dead", "replayed"}
    assert [each for each in teller.steps(message) if each in told] == ["dead", "replayed"]
    dead = next(each for each in teller.story(message).events if each.what == "dead")
    assert (dead.facts["target"], dead.facts["delivery"]) == ("DLQ", 1)
    assert "it was delivered once, and given back" in in_words(dead)
    if level == "all":
        assert teller.story(message).places == {"queue://orders": "NEW"}


@pytest.mark.parametrize("level", ["all", "ends"])
def test_what_operators_do_is_told(teller: Teller, level: str) -> None:
    session = teller.session(level=level)
    moved, purged = send(session), send(session, "bulk")
    assert teller.queues.move("orders", "elsewhere") == 1
    assert teller.queues.purge("bulk") == 1
    assert "moved" in teller.steps(moved)
    assert teller.steps(purged)[-1] == "deleted"


@pytest.mark.parametrize("level", ["all", "ends"])
def test_expiry_is_told(teller: Teller, level: str) -> None:
    clock = VirtualClock()
    session = teller.session(level=level, clock=clock)
    producer = session.create_producer(session.create_queue("orders"))
    producer.time_to_live = 1000
    message = session.create_text_message("one")
    producer.send(message)
    clock.advance(2000)
    assert session.create_consumer(session.create_queue("orders")).receive_no_wait() is None
    assert teller.steps(message)[-1] == "expired"


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        ("&max_messages=1&overflow=ring", "overflowed"),
        ("&type=last_value&key=sku", "superseded"),
    ],
)
@pytest.mark.parametrize("level", ["all", "ends"])
def test_what_the_policy_of_a_queue_drops_is_told(teller: Teller, options: str, ends: str, level: str) -> None:
    session = teller.session(options=options, level=level)
    first = send(session, properties={"sku": "a"})
    send(session, properties={"sku": "a"})
    assert teller.steps(first)[-1] == ends


@pytest.mark.parametrize("level", ["all", "ends"])
def test_what_does_not_come_in_is_told(teller: Teller, level: str) -> None:
    session = teller.session(options="&duplicate_count=10&max_messages=1&overflow=reject", level=level)
    send(session, properties={"JMS_pyjms_duplicateId": "7"})
    again = send(session, properties={"JMS_pyjms_duplicateId": "7"})
    assert teller.steps(again) == ["duplicate"]
    with pytest.raises(Exception, match="is full"):
        send(session, jms_correlation_id="too-much")
    (refused,) = teller.found(correlation_id="too-much").stories
    assert [each.what for each in refused.events] == ["refused"]
    assert "is full" in in_words(refused.events[0])


def test_paging_is_told(teller: Teller, tmp_path: Path) -> None:
    session = teller.session(options=f"&store=sqlite:///{tmp_path}/store.db&memory=1MB")
    messages = [send(session, text="x" * 100_000) for _ in range(15)]
    send(session)
    paged = [each for each in messages if "paged_out" in teller.steps(each)]
    assert paged
    consumer = session.create_consumer(session.create_queue("orders"))
    for _ in messages:
        assert consumer.receive(5000) is not None
    assert {"paged_out", "paged_in", "acknowledged"} <= set(teller.steps(paged[-1]))


def test_what_is_consumed_is_nothing_to_tell_when_only_ends_are_wanted(teller: Teller) -> None:
    session = teller.session(level="ends")
    message = send(session)
    assert session.create_consumer(session.create_queue("orders")).receive(5000) is not None
    assert teller.found(message_id=message.jms_message_id).stories == ()


def test_every_happening_has_its_facts_its_state_and_its_words() -> None:
    assert set(FACTS) == set(STATE_AFTER) == set(Happening)
    left = {each for each, state in STATE_AFTER.items() if state is MessageState.ABSENT}
    assert all("message_id" in FACTS[each] for each in left - {Happening.ACKNOWLEDGED})


def test_a_broker_without_stories_has_nothing_on_the_way(teller: Teller) -> None:
    QueueManager.start(f"vm://{NAME}", QueuePolicies())
    assert teller.broker.stories is None
    assert teller.broker.virtual_host.trace is None
