"""Names with half of a surrogate pair: what has one could be shown in no list, and would hide all others there."""

from __future__ import annotations

import pytest

from pyjms import ConnectionFactory, InvalidClientIDException, InvalidDestinationException, JMSException, Session

HALF = "half \ud800 of a pair"
ADVICE = "half of a surrogate pair at 5.*choose another name"


def test_no_queue_topic_subscription_or_client_gets_one() -> None:
    with ConnectionFactory("vm://names").create_connection() as connection:
        with pytest.raises(InvalidClientIDException, match=ADVICE):
            connection.client_id = HALF
        connection.client_id = "a whole one: \U0001f600"
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        for destination in (session.create_queue(HALF), session.create_topic(HALF)):
            with pytest.raises(InvalidDestinationException, match=ADVICE):
                session.create_producer(destination).send(session.create_text_message("x"))
            with pytest.raises(InvalidDestinationException, match=ADVICE):
                session.create_consumer(destination)
        with pytest.raises(JMSException, match=ADVICE):
            session.create_durable_subscriber(session.create_topic("news"), HALF)


def test_they_may_be_of_any_other_characters() -> None:
    with ConnectionFactory("vm://names").create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("\U0001f600 \uffff \n é")
        session.create_producer(queue).send(session.create_text_message("x"))
        connection.start()
        assert session.create_consumer(queue).receive_no_wait() is not None
