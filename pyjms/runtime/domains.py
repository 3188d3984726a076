"""The queue and the topic domain: the common objects under their older names (JMS 1.1 §5, §6).

Methods of the other domain, which they inherit, raise IllegalStateException (§1.4.2, §4.11).
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyjms.api.connection import ConnectionConsumer, QueueConnection, ServerSessionPool, TopicConnection
from pyjms.api.destination import Queue, Topic
from pyjms.api.session import AcknowledgeMode, QueueSession, TopicSession
from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.consumer import JmsQueueReceiver, JmsTopicSubscriber
from pyjms.runtime.producer import JmsQueueSender, JmsTopicPublisher
from pyjms.runtime.session import JmsSession


def _wrong_domain(method: str, domain: str) -> NoReturn:
    raise IllegalStateException(f"{method} is not for the {domain} domain: use a Session of a common Connection")


class JmsQueueSession(JmsSession, QueueSession):
    """A session that knows queues only."""

    def create_receiver(self, queue: Queue, message_selector: str | None = None) -> JmsQueueReceiver:
        self.check_open()
        if not isinstance(queue, Queue):
            raise InvalidDestinationException("a receiver needs a queue")
        return self.create_consumer(queue, message_selector)  # type: ignore[return-value]  # as `create_durable_subscriber`

    def create_sender(self, queue: Queue | None = None) -> JmsQueueSender:
        self.check_open()
        return self._add_producer(JmsQueueSender, queue)

    def create_durable_subscriber(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> NoReturn:
        _wrong_domain("create_durable_subscriber", "queue")

    def create_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> NoReturn:
        _wrong_domain("create_durable_consumer", "queue")

    def create_shared_consumer(
        self, topic: Topic, shared_subscription_name: str, message_selector: str | None = None
    ) -> NoReturn:
        _wrong_domain("create_shared_consumer", "queue")

    def create_shared_durable_consumer(self, topic: Topic, name: str, message_selector: str | None = None) -> NoReturn:
        _wrong_domain("create_shared_durable_consumer", "queue")

    def create_temporary_topic(self) -> NoReturn:
        _wrong_domain("create_temporary_topic", "queue")

    def create_topic(self, topic_name: str) -> NoReturn:
        _wrong_domain("create_topic", "queue")

    def unsubscribe(self, name: str) -> NoReturn:
        _wrong_domain("unsubscribe", "queue")


class JmsTopicSession(JmsSession, TopicSession):
    """A session that knows topics only."""

    def create_subscriber(
        self, topic: Topic, message_selector: str | None = None, no_local: bool = False
    ) -> JmsTopicSubscriber:
        self.check_open()
        if not isinstance(topic, Topic):
            raise InvalidDestinationException("a subscriber needs a topic")
        return self.create_consumer(topic, message_selector, no_local)  # type: ignore[return-value]  # as there

    def create_publisher(self, topic: Topic | None = None) -> JmsTopicPublisher:
        self.check_open()
        return self._add_producer(JmsTopicPublisher, topic)

    def create_browser(self, queue: Queue, message_selector: str | None = None) -> NoReturn:
        _wrong_domain("create_browser", "topic")

    def create_queue(self, queue_name: str) -> NoReturn:
        _wrong_domain("create_queue", "topic")

    def create_temporary_queue(self) -> NoReturn:
        _wrong_domain("create_temporary_queue", "topic")


class JmsQueueConnection(JmsConnection, QueueConnection):
    """A connection for queues only."""

    session_type = JmsQueueSession

    def create_queue_session(
        self, transacted: bool = False, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> JmsQueueSession:
        return self.open_session(JmsQueueSession, transacted, acknowledge_mode)

    def create_connection_consumer(self, *arguments: Any, **named: Any) -> ConnectionConsumer:
        if "queue" in named:
            named["destination"] = named.pop("queue")
        return super().create_connection_consumer(*arguments, **named)

    def create_durable_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> NoReturn:
        _wrong_domain("create_durable_connection_consumer", "queue")

    def create_shared_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> NoReturn:
        _wrong_domain("create_shared_connection_consumer", "queue")

    def create_shared_durable_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> NoReturn:
        _wrong_domain("create_shared_durable_connection_consumer", "queue")


class JmsTopicConnection(JmsConnection, TopicConnection):
    """A connection for topics only."""

    session_type = JmsTopicSession

    def create_topic_session(
        self, transacted: bool = False, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> JmsTopicSession:
        return self.open_session(JmsTopicSession, transacted, acknowledge_mode)

    def create_connection_consumer(self, *arguments: Any, **named: Any) -> ConnectionConsumer:
        if "topic" in named:
            named["destination"] = named.pop("topic")
        return super().create_connection_consumer(*arguments, **named)
