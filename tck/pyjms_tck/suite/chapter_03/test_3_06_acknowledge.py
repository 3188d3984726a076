"""JMS 1.1 §3.6: acknowledging through a message. What each mode covers is in chapter 4."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import IllegalStateException, MessageConsumer, Queue, Session
from pyjms_tck.checks import expect, expect_error
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeSession
from pyjms_tck.requirements import needs, requirement


def _texts(consumer: MessageConsumer, count: int, waits: Waits) -> list[Any]:
    messages: list[Any] = [consumer.receive(waits.something_ms) for _ in range(count)]
    assert None not in messages, f"expected {count} messages, saw {count - messages.count(None)}"
    return messages


@requirement("3.6-a")
def test_3_6_a_acknowledge_covers_what_the_session_received(
    make_session: MakeSession, session: Session, queue: Queue, waits: Waits
) -> None:
    producer = session.create_producer(queue)
    for text in ("1", "2", "3"):
        producer.send(session.create_text_message(text))
    client = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    _texts(client.create_consumer(queue), 3, waits)[1].acknowledge()
    client.close()
    producer.send(session.create_text_message("4"))
    seen = _texts(session.create_consumer(queue), 1, waits)[0]
    expect("the next message after three were received and the second acknowledged", seen.text, "4")


@requirement("3.6-a")
@pytest.mark.parametrize(
    ("transacted", "mode"),
    [
        pytest.param(True, Session.SESSION_TRANSACTED, marks=needs("TRANSACTIONS"), id="transacted"),
        pytest.param(False, Session.AUTO_ACKNOWLEDGE, id="auto"),
        pytest.param(False, Session.DUPS_OK_ACKNOWLEDGE, id="dups-ok"),
    ],
)
def test_3_6_a_acknowledge_has_no_effect_in_other_modes(
    make_session: MakeSession, queue: Queue, waits: Waits, transacted: bool, mode: int
) -> None:
    session = make_session(transacted, mode)
    producer = session.create_producer(queue)
    producer.send(session.create_text_message("1"))
    if transacted:
        session.commit()
    consumer = session.create_consumer(queue)
    _texts(consumer, 1, waits)[0].acknowledge()
    if transacted:
        session.rollback()
        seen = _texts(consumer, 1, waits)[0]
        expect("a message that was acknowledged in a transaction, after the rollback", seen.text, "1")


@requirement("3.6-b")
def test_3_6_b_acknowledge_fails_when_the_session_is_closed(
    make_session: MakeSession, session: Session, queue: Queue, waits: Waits
) -> None:
    session.create_producer(queue).send(session.create_message())
    client = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    message = _texts(client.create_consumer(queue), 1, waits)[0]
    client.close()
    expect_error("acknowledge of a message whose session is closed", IllegalStateException, message.acknowledge)
