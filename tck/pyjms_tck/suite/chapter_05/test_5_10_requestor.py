"""QueueRequestor: a request and its reply (5.10)."""

from __future__ import annotations

from functools import partial

import pytest

from pyjms import (
    Connection,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Queue,
    QueueConnection,
    QueueRequestor,
    QueueSession,
    Session,
    TemporaryQueue,
    TextMessage,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, RunBackground
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import NO_DESTINATION, take


@pytest.fixture
def other(connect: Connect) -> Connection:
    """The connection of who replies."""
    return connect(started=True)


@requirement("5.10-a", "5.10-b")
def test_5_10_a_a_request_returns_its_reply(
    queue_session: QueueSession, other: Connection, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    requestor = QueueRequestor(queue_session, queue)
    replying = other.create_session(False, Session.AUTO_ACKNOWLEDGE)
    requests = replying.create_consumer(queue)
    for number in (1, 2):
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
