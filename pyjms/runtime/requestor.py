"""Request and reply over a temporary destination (JMS 1.1 §5.10, §6.12)."""

from __future__ import annotations

from contextlib import ExitStack, suppress

from pyjms.api.closing import Closeable
from pyjms.api.destination import Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.domains import QueueSession, TopicSession
from pyjms.api.message import Message
from pyjms.api.session import Session
from pyjms.errors import IllegalStateException, InvalidDestinationException, JMSException
from pyjms.messages.destinations import address_of
from pyjms.runtime.producer import check_message

__all__ = ["QueueRequestor", "TopicRequestor"]


class QueueRequestor(Closeable, declares=True):
    """Sends a request to a queue and waits for its one reply. The session must not be transacted."""

    def __init__(self, session: QueueSession, queue: Queue) -> None:
        """Make a requestor, or nothing. Raises InvalidDestinationException, IllegalStateException for a transacted session,
        JMSException for one that is no QueueSession.
        """
        address_of(queue)
        if not isinstance(session, QueueSession):
            raise _wrong_session("QueueRequestor", "Queue", session)
        _check_not_transacted(session)
        self._session = session
        self._is_stale = False
        """Whether a reply may come yet for which no request waits any more."""
        with ExitStack() as undoing:
            self._sender = undoing.enter_context(session.create_sender(queue))
            self._reply_queue = session.create_temporary_queue()
            undoing.callback(_delete, self._reply_queue)
            self._receiver = session.create_receiver(self._reply_queue)
            undoing.pop_all()

    def request(self, message: Message) -> Message | None:
        """Send `message` with the temporary queue as its JMSReplyTo; return the reply, or None if the session closes.

        After a request that was interrupted, or failed, that is another queue: the first one's reply is nobody's.
        """
        check_message(message)
        if self._is_stale:
            self._renew()
        message.jms_reply_to = self._reply_queue
        try:
            self._sender.send(message)
            return self._receiver.receive()
        except BaseException:
            self._is_stale = True
            raise

    def _renew(self) -> None:
        """Wait at another temporary queue from now on. Each step may be repeated, as it may be interrupted."""
        self._receiver.close()
        with suppress(JMSException):  # then it goes with its connection
            self._reply_queue.delete()
        self._reply_queue = self._session.create_temporary_queue()
        self._receiver = self._session.create_receiver(self._reply_queue)
        self._is_stale = False

    def close(self) -> None:
        """Delete the temporary queue and close the session, as JMS 1.1 asks."""
        try:
            self._receiver.close()
            _delete(self._reply_queue)
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
        _check_not_transacted(session)
        self._session = session
        self._is_stale = False
        """Whether a reply may come yet for which no request waits any more."""
        with ExitStack() as undoing:
            self._publisher = undoing.enter_context(session.create_publisher(topic))
            self._reply_topic = session.create_temporary_topic()
            undoing.callback(_delete, self._reply_topic)
            self._subscriber = session.create_subscriber(self._reply_topic)
            undoing.pop_all()

    def request(self, message: Message) -> Message | None:
        """Publish `message` with the temporary topic as its JMSReplyTo; return the reply, or None if the session closes.

        After a request that was interrupted, or failed, that is another topic: the first one's reply is nobody's.
        """
        check_message(message)
        if self._is_stale:
            self._renew()
        message.jms_reply_to = self._reply_topic
        try:
            self._publisher.publish(message)
            return self._subscriber.receive()
        except BaseException:
            self._is_stale = True
            raise

    def _renew(self) -> None:
        """Wait at another temporary topic from now on. Each step may be repeated, as it may be interrupted."""
        self._subscriber.close()
        with suppress(JMSException):  # then it goes with its connection
            self._reply_topic.delete()
        self._reply_topic = self._session.create_temporary_topic()
        self._subscriber = self._session.create_subscriber(self._reply_topic)
        self._is_stale = False

    def close(self) -> None:
        """Delete the temporary topic and close the session, as JMS 1.1 asks."""
        try:
            self._subscriber.close()
            _delete(self._reply_topic)
        finally:
            self._session.close()


def _wrong_session(requestor: str, domain: str, session: object) -> JMSException:
    return JMSException(
        f"{requestor} needs a {domain}Session, not {type(session).__name__}: make one with create_{domain.lower()}_session() of a "
        f"{domain}Connection, or send with a JMSReplyTo and receive the reply by the common interfaces"
    )


def _delete(destination: TemporaryQueue | TemporaryTopic) -> None:
    """Delete a reply destination, which may be gone already: with its connection, or by an earlier close."""
    with suppress(IllegalStateException, InvalidDestinationException):
        destination.delete()


def _check_not_transacted(session: Session) -> None:
    if session.transacted:
        raise IllegalStateException("a requestor needs a session without transactions: its request would never be sent")
