"""The simplified API of JMS 2.0: a context is a connection and a session in one, with producers and consumers of its own.

Its methods raise the exceptions of `JMSRuntimeException`, where the objects of JMS 1.1 raise those of `JMSException`. Messages, browsers and
listeners are the same in both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Set as AbstractSet
from typing import Any, Final, Self, TypeVar, overload

from pyjms.api.base import Closeable
from pyjms.api.connection import ConnectionMetaData, ExceptionListenerLike
from pyjms.api.consumer import MessageListenerLike, QueueBrowser
from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.api.names import Interface
from pyjms.api.producer import CompletionListener
from pyjms.api.session import AcknowledgeMode
from pyjms.types import Boxed, Byte, Double, Float, Int, Long, Short

T = TypeVar("T")


class JMSProducer(Interface, declares=True):
    """Sends messages on behalf of a context, with the options, properties and header fields that were set on it (JMS 2.0).

    Each setter is a method that returns the producer, so that calls can be chained, and a property of the same name:
    ``producer.set_priority(7).set_time_to_live(1000).send(queue, "tea")``, ``producer.priority = 7``. A producer is light, and has no
    ``close``. Its settings concern no other producer of the context.
    """

    __slots__ = ()

    @overload
    @abstractmethod
    def send(self, destination: Destination, message: Message) -> Self: ...

    @overload
    @abstractmethod
    def send(self, destination: Destination, body: object) -> Self: ...

    @abstractmethod
    def send(self, *arguments: Any, **named: Any) -> Self:
        """Send a message to `destination`, and return this producer.

        A text is sent as a `TextMessage`, a mapping as a `MapMessage`, bytes as a `BytesMessage`, None as a message without a body, and
        any other object as an `ObjectMessage`. Properties and header fields that were set on this producer override those of a
        message.

        Raises `MessageFormatRuntimeException` for a body that no message can have; `InvalidDestinationRuntimeException`;
        `MessageNotWriteableRuntimeException` when the producer has properties and those of the message are read-only;
        `JMSRuntimeException` when the provider cannot accept the message.
        """

    # ---------------------------------------------------------------------------------------------------- options

    @property
    @abstractmethod
    def disable_message_id(self) -> bool:
        """A hint that message identifiers are not needed; False at first. The provider may ignore it."""

    @abstractmethod
    def set_disable_message_id(self, value: bool) -> Self:
        """Set `disable_message_id`."""

    @property
    @abstractmethod
    def disable_message_timestamp(self) -> bool:
        """A hint that time stamps are not needed; False at first. The provider may ignore it."""

    @abstractmethod
    def set_disable_message_timestamp(self, value: bool) -> Self:
        """Set `disable_message_timestamp`."""

    @property
    @abstractmethod
    def delivery_mode(self) -> int:
        """The `DeliveryMode` of the messages; PERSISTENT at first. Another value: `JMSRuntimeException`."""

    @abstractmethod
    def set_delivery_mode(self, delivery_mode: int) -> Self:
        """Set `delivery_mode`."""

    @property
    @abstractmethod
    def priority(self) -> int:
        """The priority of the messages, 0 (lowest) to 9; 4 at first. Another value: `JMSRuntimeException`."""

    @abstractmethod
    def set_priority(self, priority: int) -> Self:
        """Set `priority`."""

    @property
    @abstractmethod
    def time_to_live(self) -> int:
        """The time to live of the messages, in milliseconds from sending; 0, the default: for ever."""

    @abstractmethod
    def set_time_to_live(self, time_to_live: int) -> Self:
        """Set `time_to_live`."""

    @property
    @abstractmethod
    def delivery_delay(self) -> int:
        """The time from the send before which no consumer gets the message, in milliseconds; 0 at first."""

    @abstractmethod
    def set_delivery_delay(self, delivery_delay: int) -> Self:
        """Set `delivery_delay`."""

    @property
    @abstractmethod
    def async_(self) -> CompletionListener | None:
        """The listener that hears of the end of each send, as it was set; None, the default: a send waits for its end."""

    @abstractmethod
    def set_async(self, completion_listener: CompletionListener | None) -> Self:
        """Set `async_`. With a listener the sends are asynchronous, as `MessageProducer.send` describes."""

    # ------------------------------------------------------------------------------------------------- properties

    @abstractmethod
    def set_property(self, name: str, value: Boxed | float) -> Self:
        """Set property `name` of all messages to a value of any property type, or to None.

        A plain ``int`` is an Int if it fits 32 bits, otherwise a Long; a plain ``float`` is a Double; the classes of `pyjms.types` name
        the other types. Raises `IllegalArgumentException` for a name that is None or empty, `MessageFormatRuntimeException` for a name
        that no client may set, and for a value of another type.
        """

    @abstractmethod
    def clear_properties(self) -> Self:
        """Remove all properties that were set on this producer."""

    @abstractmethod
    def property_exists(self, name: str) -> bool:
        """Return whether a property called `name` was set; its value may be None."""

    # The getters convert by the table of JMS 1.1 §3.5.4; other conversions raise `MessageFormatRuntimeException`, and a text that is no number raises
    # `NumberFormatException`. A property that does not exist reads as None.

    @abstractmethod
    def get_boolean_property(self, name: str) -> bool:
        """Return property `name` as a boolean; one that does not exist is False."""

    @abstractmethod
    def get_byte_property(self, name: str) -> Byte:
        """Return property `name` as a byte; one that does not exist: `NumberFormatException`."""

    @abstractmethod
    def get_short_property(self, name: str) -> Short:
        """Return property `name` as a short; one that does not exist: `NumberFormatException`."""

    @abstractmethod
    def get_int_property(self, name: str) -> Int:
        """Return property `name` as an int; one that does not exist: `NumberFormatException`."""

    @abstractmethod
    def get_long_property(self, name: str) -> Long:
        """Return property `name` as a long; one that does not exist: `NumberFormatException`."""

    @abstractmethod
    def get_float_property(self, name: str) -> Float:
        """Return property `name` as a float; one that does not exist: `NullPointerException`."""

    @abstractmethod
    def get_double_property(self, name: str) -> Double:
        """Return property `name` as a double; one that does not exist: `NullPointerException`."""

    @abstractmethod
    def get_string_property(self, name: str) -> str | None:
        """Return property `name` as a text, or None if it does not exist or is None."""

    @abstractmethod
    def get_object_property(self, name: str) -> Boxed:
        """Return property `name` with its own type, or None if it does not exist or is None."""

    @property
    @abstractmethod
    def property_names(self) -> AbstractSet[str]:
        """The names of the properties that were set, as a read-only set that follows the producer."""

    # ---------------------------------------------------------------------------------------------- header fields

    @property
    @abstractmethod
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        """The correlation identifier of the messages as bytes, or None."""

    @abstractmethod
    def set_jms_correlation_id_as_bytes(self, correlation_id: bytes | None) -> Self:
        """Set `jms_correlation_id_as_bytes` to a copy of `correlation_id`; None: the messages keep theirs."""

    @property
    @abstractmethod
    def jms_correlation_id(self) -> str | None:
        """The correlation identifier of the messages, or None."""

    @abstractmethod
    def set_jms_correlation_id(self, correlation_id: str | None) -> Self:
        """Set `jms_correlation_id`; None: the messages keep theirs."""

    @property
    @abstractmethod
    def jms_type(self) -> str | None:
        """The type of the messages, defined by the application, or None."""

    @abstractmethod
    def set_jms_type(self, type: str | None) -> Self:
        """Set `jms_type`; None: the messages keep theirs."""

    @property
    @abstractmethod
    def jms_reply_to(self) -> Destination | None:
        """The destination for replies to the messages, or None."""

    @abstractmethod
    def set_jms_reply_to(self, reply_to: Destination | None) -> Self:
        """Set `jms_reply_to`; None: the messages keep theirs."""


class JMSConsumer(Closeable, declares=True):
    """A consumer of a context, whose messages it receives by call or through a listener (JMS 2.0).

    Belongs to the thread of its context; only `close` may be called from another one. Every method but `close` raises
    `IllegalStateRuntimeException` once the consumer is closed.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def message_selector(self) -> str | None:
        """The selector that chooses this consumer's messages, or None: all of them."""

    @property
    @abstractmethod
    def message_listener(self) -> MessageListenerLike | None:
        """The listener, as it was set, or None. Setting None removes it.

        While it is set, the methods that receive raise `IllegalStateRuntimeException`.
        """

    @message_listener.setter
    @abstractmethod
    def message_listener(self, listener: MessageListenerLike | None) -> None: ...

    @abstractmethod
    def receive(self, timeout: int = 0) -> Message | None:
        """Return the next message, waiting up to `timeout` milliseconds; 0 (or no argument) waits without limit.

        Returns None when the time is over, or when the consumer or its context is closed meanwhile.
        """

    @abstractmethod
    def receive_no_wait(self) -> Message | None:
        """Return the next message if there is one now, otherwise None."""

    @abstractmethod
    def receive_body(self, c: type[T], timeout: int = 0) -> T | None:
        """Return the body of the next message as a `c`, waiting as `receive`; None where that returns None.

        Raises `MessageFormatRuntimeException` when the body is no `c`, when the message has no body or cannot have one, and for a
        `StreamMessage`. With AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE the consumer then still has the message, which is the next that it
        receives, and is not redelivered; in the other modes the message counts as received.
        """

    @abstractmethod
    def receive_body_no_wait(self, c: type[T]) -> T | None:
        """Return the body of the next message as a `c` if there is one now, otherwise None; else as `receive_body`."""

    @abstractmethod
    def close(self) -> None:
        """End the subscription; a pending `receive` returns None, a running listener is waited for.

        Messages received from this consumer can still be acknowledged. Closing twice does nothing.
        """


class JMSContext(Closeable, declares=True):
    """A connection and a session in one, which makes messages, producers and consumers (JMS 2.0).

    A context and all that it makes belong to one thread at a time; when it has listeners, to its own thread. Only `create_context` and
    `close` may be called from another one. Every method but `close` raises `IllegalStateRuntimeException` once the context is closed.
    """

    __slots__ = ()

    AUTO_ACKNOWLEDGE: Final = AcknowledgeMode.AUTO_ACKNOWLEDGE
    CLIENT_ACKNOWLEDGE: Final = AcknowledgeMode.CLIENT_ACKNOWLEDGE
    DUPS_OK_ACKNOWLEDGE: Final = AcknowledgeMode.DUPS_OK_ACKNOWLEDGE
    SESSION_TRANSACTED: Final = AcknowledgeMode.SESSION_TRANSACTED

    @abstractmethod
    def create_context(self, session_mode: int) -> JMSContext:
        """Return a context with a session of its own on the same connection, which the last of its contexts closes.

        `session_mode` is one of `AcknowledgeMode`; `JMSRuntimeException` for any other.
        """

    @abstractmethod
    def create_producer(self) -> JMSProducer:
        """Return a new producer."""

    # ------------------------------------------------------------------------------------------------- connection

    @property
    @abstractmethod
    def client_id(self) -> str | None:
        """The identifier of the client's durable subscriptions, or None.

        It is set at most once, before anything else is done with the context, and not when the factory has set it:
        `IllegalStateRuntimeException`. Raises `InvalidClientIDRuntimeException` when it is no identifier or in use by another client.
        """

    @client_id.setter
    @abstractmethod
    def client_id(self, client_id: str) -> None: ...

    @property
    @abstractmethod
    def meta_data(self) -> ConnectionMetaData:
        """The facts about the connection's provider."""

    @property
    @abstractmethod
    def exception_listener(self) -> ExceptionListenerLike | None:
        """The listener for problems of the connection, as it was set, or None."""

    @exception_listener.setter
    @abstractmethod
    def exception_listener(self, listener: ExceptionListenerLike | None) -> None: ...

    @property
    @abstractmethod
    def auto_start(self) -> bool:
        """Whether the connection starts when this context makes a consumer; True at first. Setting it starts and stops nothing."""

    @auto_start.setter
    @abstractmethod
    def auto_start(self, auto_start: bool) -> None: ...

    @abstractmethod
    def start(self) -> None:
        """Start, or resume, the delivery of messages to all contexts of the connection. Does nothing where it is started."""

    @abstractmethod
    def stop(self) -> None:
        """Pause delivery to all contexts of the connection; returns when running listeners have returned.

        Does nothing on a stopped connection. Raises `IllegalStateRuntimeException` when a listener of one of the contexts calls.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the context, its consumers and, with the last context of the connection, the connection; pending receives return None.

        Waits for running listeners; a transaction in progress is rolled back. Closing twice does nothing. Raises
        `IllegalStateRuntimeException` when a listener of this context calls it.
        """

    # ------------------------------------------------------------------------- transactions and acknowledgement

    @property
    @abstractmethod
    def transacted(self) -> bool:
        """Whether sends and receives of this context take effect only with `commit`."""

    @property
    @abstractmethod
    def session_mode(self) -> AcknowledgeMode:
        """The mode of the context's session."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction's sends and receives take effect, and begin the next one.

        Raises `TransactionRolledBackRuntimeException` when they were undone instead; `IllegalStateRuntimeException` when the context is
        not transacted; `TransactionInProgressRuntimeException` when XA controls it.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Undo the transaction: its sends are dropped, and received messages are redelivered; then begin the next one.

        Raises `IllegalStateRuntimeException` when the context is not transacted; `TransactionInProgressRuntimeException` when XA
        controls it.
        """

    @abstractmethod
    def recover(self) -> None:
        """Redeliver all unacknowledged messages. Raises `IllegalStateRuntimeException` when the context is transacted."""

    @abstractmethod
    def acknowledge(self) -> None:
        """Acknowledge all messages that the context has delivered so far; does nothing where the mode is not CLIENT_ACKNOWLEDGE."""

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
        """Return a new `ObjectMessage` with a copy of `object`. Raises `MessageFormatRuntimeException` if it has no copy."""

    @abstractmethod
    def create_stream_message(self) -> StreamMessage:
        """Return a new, empty, write-only `StreamMessage`."""

    @abstractmethod
    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a new `TextMessage` with `text`."""

    # ------------------------------------------------------------------------------------- consumers and browsers

    @abstractmethod
    def create_consumer(
        self, destination: Destination, message_selector: str | None = None, no_local: bool = False
    ) -> JMSConsumer:
        """Return a consumer of the messages of `destination` that `message_selector` chooses; None or "": all.

        With `no_local`, a topic's consumer gets no messages published by its own connection; queues ignore it.
        Raises `InvalidDestinationRuntimeException`, `InvalidSelectorRuntimeException`.
        """

    @abstractmethod
    def create_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> JMSConsumer:
        """Return a consumer of the unshared durable subscription `name` of this client, which has one consumer at a time.

        The subscription is created if there is none, and replaced if topic, selector or `no_local` differ. It collects messages while
        it has no consumer. `unsubscribe` ends it.

        Raises `IllegalStateRuntimeException` without a client identifier; `InvalidDestinationRuntimeException` (a temporary topic is
        one); `InvalidSelectorRuntimeException`; `JMSRuntimeException` when the subscription has a consumer already, or is a shared one.
        """

    @abstractmethod
    def create_shared_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None
    ) -> JMSConsumer:
        """Return one more consumer of the shared durable subscription `name` of this client, or of all clients without an identifier.

        The subscription is created if there is none, and replaced if topic or selector differ while it has no consumer. Each
        message goes to one of its consumers. `unsubscribe` ends it.

        Raises `InvalidDestinationRuntimeException`, `InvalidSelectorRuntimeException`; `JMSRuntimeException` when the subscription has
        consumers with another topic or selector, or is an unshared one.
        """

    @abstractmethod
    def create_shared_consumer(
        self, topic: Topic, shared_subscription_name: str, message_selector: str | None = None
    ) -> JMSConsumer:
        """Return one more consumer of the shared subscription of that name, which ends with its last consumer.

        Each message goes to one of the consumers. Raises `InvalidDestinationRuntimeException`, `InvalidSelectorRuntimeException`;
        `JMSRuntimeException` when the subscription has another topic or selector.
        """

    @abstractmethod
    def create_browser(self, queue: Queue, message_selector: str | None = None) -> QueueBrowser:
        """Return a browser of the messages of `queue` that `message_selector` chooses; None or "": all.

        Raises `InvalidDestinationRuntimeException`, `InvalidSelectorRuntimeException`.
        """

    @abstractmethod
    def unsubscribe(self, name: str) -> None:
        """End the durable subscription `name`, shared or not, and drop its messages.

        Raises `InvalidDestinationRuntimeException` when there is none; `JMSRuntimeException` while it has a consumer or messages of it
        are not yet acknowledged.
        """

    # ----------------------------------------------------------------------------------------------- destinations

    @abstractmethod
    def create_queue(self, queue_name: str) -> Queue:
        """Return the queue that the provider calls `queue_name`; the provider decides whether it must exist."""

    @abstractmethod
    def create_topic(self, topic_name: str) -> Topic:
        """Return the topic that the provider calls `topic_name`; the provider decides whether it must exist."""

    @abstractmethod
    def create_temporary_queue(self) -> TemporaryQueue:
        """Return a new queue that exists as long as the connection, or until deleted."""

    @abstractmethod
    def create_temporary_topic(self) -> TemporaryTopic:
        """Return a new topic that exists as long as the connection, or until deleted."""
