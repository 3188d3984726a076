"""TopicRequestor: a request and its reply (6.14)."""

from __future__ import annotations

from functools import partial

import pytest

from pyjms import (
    Connection,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Session,
    TemporaryTopic,
    TextMessage,
    Topic,
    TopicConnection,
    TopicRequestor,
    TopicSession,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, RunBackground
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import NO_DESTINATION, take


@pytest.fixture
def other(connect: Connect) -> Connection:
    """The connection of who replies."""
    return connect(started=True)


@requirement("6.14-a", "6.14-b")
def test_6_14_a_a_request_returns_its_reply(
    topic_session: TopicSession, other: Connection, topic: Topic, background: RunBackground, waits: Waits
) -> None:
    requestor = TopicRequestor(topic_session, topic)
    replying = other.createSession(False, Session.AUTO_ACKNOWLEDGE)
    requests = replying.createConsumer(topic)
    for number in (1, 2):
        asking = background(partial(requestor.request, topic_session.createTextMessage(f"request {number}")))
        request = take(requests, waits, "the request")
        assert request.getText() == f"request {number}"
        assert isinstance(request.getJMSReplyTo(), TemporaryTopic), "JMSReplyTo is a temporary topic"
        with replying.createProducer(request.getJMSReplyTo()) as producer:
            producer.send(replying.createTextMessage(f"reply {number}"))
        reply = asking.result()
        assert isinstance(reply, TextMessage), "request returns the reply"
        assert reply.getText() == f"reply {number}"


@requirement("6.14-b")
@needs("TRANSACTIONS")
def test_6_14_b_a_requestor_is_of_no_use_to_a_transacted_session(
    topic_connection: TopicConnection, topic: Topic
) -> None:
    session = topic_connection.createTopicSession(True, Session.SESSION_TRANSACTED)
    with pytest.raises(JMSException):
        TopicRequestor(session, topic)


@requirement("6.14-c")
@needs("TOPICS")
def test_6_14_c_a_requestor_needs_a_topic(topic_session: TopicSession) -> None:
    with pytest.raises(InvalidDestinationException):
        TopicRequestor(topic_session, NO_DESTINATION)


@requirement("6.14-d")
def test_6_14_d_closing_a_requestor_closes_its_session(topic_session: TopicSession, topic: Topic) -> None:
    requestor, message = TopicRequestor(topic_session, topic), topic_session.createTextMessage("request")
    requestor.close()
    with pytest.raises(IllegalStateException):
        topic_session.createTextMessage()
    with pytest.raises(JMSException):
        requestor.request(message)
