"""Request and reply over a temporary destination (JMS 1.1 §5.10, §6.12)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Generic, TypeVar

from pyjms.api.base import Closeable
from pyjms.api.consumer import MessageConsumer
from pyjms.api.destination import Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.message import Message
from pyjms.api.session import QueueSession, Session, TopicSession
from pyjms.errors import IllegalStateException, InvalidDestinationException, JMSException
from pyjms.messages.destinations import address_of
from pyjms.runtime.checks import check_implementation
from pyjms.runtime.producer import check_message
from pyjms.spi.interrupts import defers_signals

_Temporary = TypeVar("_Temporary", bound=TemporaryQueue | TemporaryTopic)


class QueueRequestor(Closeable, declares=True):
    """Sends a request to a queue and waits for its one reply. The session must not be transacted."""

    def __init__(self, session: QueueSession, queue: Queue) -> None:
        """Make a requestor, or nothing. Raises InvalidDestinationException, IllegalStateException for a transacted session,
        JMSException for one that is no QueueSession.
        """
        address_of(queue)
        if not isinstance(session, QueueSession):
            raise _wrong_session("QueueRequestor", "Queue", session)
        check_implementation(session)
        _check_not_transacted(session)
        self._session = session
        # If the temporary queue cannot be made, the sender is closed again.
        with ExitStack() as undoing:
            self._sender = undoing.enter_context(session.create_sender(queue))
            self._replies = _Replies(session.create_temporary_queue, session.create_receiver)
            undoing.pop_all()

    @defers_signals()
    def request(self, message: Message) -> Message | None:
        """Send `message` with the temporary queue as its JMSReplyTo; return the reply, or None if the session closes.

        After a request that was interrupted, or failed, that is another queue: the first one's reply is discarded.
        """
        check_message(message)
        message.jms_reply_to = self._replies.destination()
        return self._replies.receive_after(partial(self._sender.send, message))

    @defers_signals()
    def close(self) -> None:
        """Delete the temporary queue and close the session, as JMS 1.1 asks."""
        try:
            self._replies.close()
        finally:
            self._session.close()


class TopicRequestor(Closeable, declares=True):
    """Publishes a request to a topic and waits for the first reply. The session must not be transacted."""

    def __init__(self, session: TopicSession, topic: Topic) -> None:
        """Make a requestor, or nothing. Raises InvalidDestinationException, IllegalStateException for a transacted session,
        JMSException for one that is no TopicSession.
        """
        address_of(topic)
        if not isinstance(session, TopicSession):
            raise _wrong_session("TopicRequestor", "Topic", session)
        check_implementation(session)
        _check_not_transacted(session)
        self._session = session
        with ExitStack() as undoing:
            self._publisher = undoing.enter_context(session.create_publisher(topic))
            self._replies = _Replies(session.create_temporary_topic, session.create_subscriber)
            undoing.pop_all()

    @defers_signals()
    def request(self, message: Message) -> Message | None:
        """Publish `message` with the temporary topic as its JMSReplyTo; return the reply, or None if the session closes.

        After a request that was interrupted, or failed, that is another topic: the first one's reply is discarded.
        """
        check_message(message)
        message.jms_reply_to = self._replies.destination()
        return self._replies.receive_after(partial(self._publisher.publish, message))

    @defers_signals()
    def close(self) -> None:
        """Delete the temporary topic and close the session, as JMS 1.1 asks."""
        try:
            self._replies.close()
        finally:
            self._session.close()


class _Replies(Generic[_Temporary]):
    """The temporary destination for replies: a new one after each request that failed or was interrupted, as its reply may still arrive."""

    def __init__(self, make: Callable[[], _Temporary], consume: Callable[[_Temporary], MessageConsumer]) -> None:
        self._make = make
        self._consume = consume
        self._is_stale = False
        self._destination = make()
        try:
            self._consumer = consume(self._destination)
        except Exception:
            _delete(self._destination)
            raise

    def destination(self) -> _Temporary:
        """Return the destination for the next reply."""
        # The reply to an earlier request may still arrive, and must not be taken for the next one's.
        if self._is_stale:
            # The consumer is closed first, as a destination with consumers cannot be deleted (§5.3).
            self._consumer.close()
            with suppress(JMSException):  # then it ends with its connection
                self._destination.delete()
            self._destination = self._make()
            self._consumer = self._consume(self._destination)
            self._is_stale = False
        return self._destination

    def receive_after(self, send: Callable[[], None]) -> Message | None:
        """Send a request; return its reply, or None if the session closes."""
        # The mark is set before the send: a request that is interrupted after it was sent may still be answered.
        self._is_stale = True  # until the reply is there
        send()
        reply = self._consumer.receive()
        self._is_stale = False
        return reply

    def close(self) -> None:
        """Delete the destination. May be repeated."""
        self._consumer.close()
        _delete(self._destination)


def _wrong_session(requestor: str, domain: str, session: object) -> JMSException:
    return JMSException(
        f"{requestor} needs a {domain}Session, not {type(session).__name__}: make one with create_{domain.lower()}_session() of a "
        f"{domain}Connection, or send with a JMSReplyTo and receive the reply by the common interfaces"
    )


def _delete(destination: TemporaryQueue | TemporaryTopic) -> None:
    """Delete a reply destination, which may no longer exist: it ends with its connection, or an earlier close deleted it."""
    with suppress(IllegalStateException, InvalidDestinationException):
        destination.delete()


def _check_not_transacted(session: Session) -> None:
    if session.transacted:
        raise IllegalStateException("a requestor needs a session without transactions: its request would never be sent")
