"""Sessions: the unit of work of one thread (JMS 1.1 §4.4), and those of one domain (§5.7, §6.9)."""

from __future__ import annotations

from abc import abstractmethod
from enum import IntEnum
from typing import Any, Final

from pyjms.api.base import Closeable
from pyjms.api.consumer import MessageConsumer, MessageListenerLike, QueueBrowser, QueueReceiver, TopicSubscriber
from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.api.names import Interface
from pyjms.api.producer import MessageProducer, QueueSender, TopicPublisher


class AcknowledgeMode(IntEnum):
    """The acknowledgement of a session's messages: by which side, and when (JMS 1.1 §4.4.11)."""

    SESSION_TRANSACTED = 0
    """By `Session.commit`. The value of `Session.acknowledge_mode` of a transacted session."""
    AUTO_ACKNOWLEDGE = 1
    """By the session, after each `receive` and each return of a listener."""
    CLIENT_ACKNOWLEDGE = 2
    """By the client, with `Message.acknowledge`: all messages that the session has delivered so far."""
    DUPS_OK_ACKNOWLEDGE = 3
    """By the session, lazily: messages may be delivered twice after a failure."""


class Runnable(Interface, declares=True):
    """java.lang.Runnable: an object to run on a thread."""

    __slots__ = ()

    @abstractmethod
    def run(self) -> None:
        """Do the work."""


class Session(Runnable, Closeable, declares=True):
    """Makes messages, producers and consumers, keeps the order of its messages, and holds its transaction (§4.4).

    A session and all that it makes belong to one thread at a time; when it has listeners, to its own thread. Only
    `close` may be called from another one. Every method but `close` raises `IllegalStateException` once the session is
    closed, except those that make messages.
    """

    __slots__ = ()

    AUTO_ACKNOWLEDGE: Final = AcknowledgeMode.AUTO_ACKNOWLEDGE
    CLIENT_ACKNOWLEDGE: Final = AcknowledgeMode.CLIENT_ACKNOWLEDGE
    DUPS_OK_ACKNOWLEDGE: Final = AcknowledgeMode.DUPS_OK_ACKNOWLEDGE
    SESSION_TRANSACTED: Final = AcknowledgeMode.SESSION_TRANSACTED

    # ------------------------------------------------------------------------------------------------- messages

    @abstractmethod
    def create_bytes_message(self) -> BytesMessage:
        """Return a new, empty, write-only `BytesMessage`."""

    @abstractmethod
    def create_map_message(self) -> MapMessage:
        """Return a new, empty `MapMessage`."""

    @abstractmethod
    def create_message(self) -> Message:
        """Return a new message without a body."""

    @abstractmethod
    def create_object_message(self, object: Any = None) -> ObjectMessage:
        """Return a new `ObjectMessage` with a copy of `object`. Raises `MessageFormatException` if it has no copy."""

    @abstractmethod
    def create_stream_message(self) -> StreamMessage:
        """Return a new, empty, write-only `StreamMessage`."""

    @abstractmethod
    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a new `TextMessage` with `text`."""

    # -------------------------------------------------------------------------- transactions and acknowledgement

    @property
    @abstractmethod
    def transacted(self) -> bool:
        """Whether sends and receives of this session take effect only with `commit`."""

    @property
    @abstractmethod
    def acknowledge_mode(self) -> AcknowledgeMode:
        """The mode; SESSION_TRANSACTED for a transacted session, which has no other."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction's sends and receives take effect, and begin the next one (§4.4.7).

        Raises `TransactionRolledBackException` when they were undone instead; `IllegalStateException` when the session
        is not transacted; `TransactionInProgressException` when XA controls it.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Undo the transaction: its sends are dropped, and received messages are redelivered; then begin the next one (§4.4.7).

        Raises `IllegalStateException` when the session is not transacted; `TransactionInProgressException` when XA
        controls it.
        """

    @abstractmethod
    def recover(self) -> None:
        """Redeliver the messages not yet acknowledged, from the first one on and marked as redelivered (§4.4.11).

        Raises `IllegalStateException` when the session is transacted.
        """

    @abstractmethod
    def close(self) -> None:
        """End the session, its producers and its consumers; a transaction in progress is rolled back (§4.4.1).

        Waits for a running listener; a pending `receive` returns None. Closing twice does nothing.
        """

    # ----------------------------------------------------------------------------- for application servers (§8.2)

    @property
    @abstractmethod
    def message_listener(self) -> MessageListenerLike | None:
        """The listener that `run` calls, or None; once set, the session cannot receive in another way (§8.2.1)."""

    @message_listener.setter
    @abstractmethod
    def message_listener(self, listener: MessageListenerLike | None) -> None: ...

    @abstractmethod
    def run(self) -> None:
        """Deliver the messages that a `ConnectionConsumer` loaded into this session to its listener (§8.2.1)."""

    # ------------------------------------------------------------------------------------ producers and consumers

    @abstractmethod
    def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Return a producer for `destination`; None: each `send` names its own (§4.6).

        Raises `InvalidDestinationException`.
        """

    @abstractmethod
    def create_consumer(
        self, destination: Destination, message_selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """Return a consumer of the messages of `destination` that `message_selector` chooses; None or "": all (§4.5).

        With `no_local`, a topic's consumer gets no messages published by its own connection; queues ignore it.
        Raises `InvalidDestinationException`, `InvalidSelectorException`.
        """

    @abstractmethod
    def create_durable_subscriber(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> TopicSubscriber:
        """Return a subscriber of the durable subscription `name` of this connection's client identifier (§6.11.1).

        The subscription is created if there is none, and replaced if topic, selector or `no_local` differ. It collects
        messages while it has no subscriber; it has at most one at a time. `unsubscribe` ends it.

        Raises `IllegalStateException` without a client identifier and in the queue domain;
        `InvalidDestinationException` (a temporary topic is one); `InvalidSelectorException`; `JMSException` when the
        subscription has a subscriber already.
        """

    @abstractmethod
    def create_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """Return a consumer of the unshared durable subscription `name`, as `create_durable_subscriber` (JMS 2.0 §8.3.3).

        Raises the same exceptions, and `JMSException` when `name` is a shared durable subscription of this client identifier.
        """

    @abstractmethod
    def create_shared_consumer(
        self, topic: Topic, shared_subscription_name: str, message_selector: str | None = None
    ) -> MessageConsumer:
        """Return a consumer of a shared non-durable subscription, which is created if there is none (JMS 2.0 §8.3.2).

        All consumers of one name and client identifier, or of one name without an identifier, divide its messages; it ends with the last
        of them. Durable subscriptions have names of their own.

        Raises `InvalidDestinationException`; `InvalidSelectorException`; `IllegalStateException` in the queue domain; `JMSException` when
        the subscription has consumers, and another topic or selector.
        """

    @abstractmethod
    def create_shared_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None
    ) -> MessageConsumer:
        """Return a consumer of a shared durable subscription, which is created if there is none (JMS 2.0 §8.3.4).

        It has any number of consumers, which divide its messages, and collects messages while it has none, until `unsubscribe`. It belongs
        to the client identifier, or without one to all connections that have none. One without consumers is replaced if topic or
        selector differ.

        Raises `InvalidDestinationException` (a temporary topic is one); `InvalidSelectorException`; `IllegalStateException` in the queue
        domain; `JMSException` when it has consumers, and another topic or selector, and when `name` is an unshared durable subscription.
        """

    @abstractmethod
    def create_browser(self, queue: Queue, message_selector: str | None = None) -> QueueBrowser:
        """Return a browser of the messages of `queue` that `message_selector` chooses; None or "": all (§5.9).

        Raises `InvalidDestinationException`, `InvalidSelectorException`; `IllegalStateException` in the topic domain.
        """

    @abstractmethod
    def unsubscribe(self, name: str) -> None:
        """End the durable subscription `name` of this connection's client identifier, if it has one, and drop its messages (§6.3).

        Raises `InvalidDestinationException` when there is none; `JMSException` while it has a subscriber or messages
        of it are not yet acknowledged; `IllegalStateException` in the queue domain.
        """

    # ----------------------------------------------------------------------------------------------- destinations

    @abstractmethod
    def create_queue(self, queue_name: str) -> Queue:
        """Return the queue that the provider calls `queue_name`; the provider decides whether it must exist (§4.4.4).

        Raises `IllegalStateException` in the topic domain.
        """

    @abstractmethod
    def create_topic(self, topic_name: str) -> Topic:
        """Return the topic that the provider calls `topic_name`; the provider decides whether it must exist (§4.4.4).

        Raises `IllegalStateException` in the queue domain.
        """

    @abstractmethod
    def create_temporary_queue(self) -> TemporaryQueue:
        """Return a new queue that exists as long as the connection, or until deleted (§4.4.3).

        Raises `IllegalStateException` in the topic domain.
        """

    @abstractmethod
    def create_temporary_topic(self) -> TemporaryTopic:
        """Return a new topic that exists as long as the connection, or until deleted (§4.4.3).

        Raises `IllegalStateException` in the queue domain.
        """


class QueueSession(Session, declares=True):
    """A session of the point-to-point domain (§5.7).

    `create_durable_consumer`, `create_durable_subscriber`, `create_shared_consumer`, `create_shared_durable_consumer`,
    `create_temporary_topic`, `create_topic` and `unsubscribe` raise `IllegalStateException`.
    """

    __slots__ = ()

    @abstractmethod
    def create_receiver(self, queue: Queue, message_selector: str | None = None) -> QueueReceiver:
        """Return a receiver of the messages of `queue` that `message_selector` chooses; None or "": all (§5.8).

        Raises `InvalidDestinationException`, `InvalidSelectorException`.
        """

    @abstractmethod
    def create_sender(self, queue: Queue | None = None) -> QueueSender:
        """Return a sender to `queue`; None: each `send` names its own. Raises `InvalidDestinationException`."""


class TopicSession(Session, declares=True):
    """A session of the publish/subscribe domain (§6.9).

    `create_browser`, `create_queue` and `create_temporary_queue` raise `IllegalStateException`.
    """

    __slots__ = ()

    @abstractmethod
    def create_subscriber(
        self, topic: Topic, message_selector: str | None = None, no_local: bool = False
    ) -> TopicSubscriber:
        """Return a subscriber that gets messages published while it is open, as `Session.create_consumer` (§6.11).

        Raises `InvalidDestinationException`, `InvalidSelectorException`.
        """

    @abstractmethod
    def create_publisher(self, topic: Topic | None = None) -> TopicPublisher:
        """Return a publisher to `topic`; None: each `publish` names its own. Raises `InvalidDestinationException`."""
