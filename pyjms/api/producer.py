"""Sending messages (JMS 1.1 §4.6 to §4.8)."""

from __future__ import annotations

from abc import abstractmethod
from enum import IntEnum
from typing import Any, overload

from pyjms.api.base import Closeable
from pyjms.api.destination import Destination, Queue, Topic
from pyjms.api.message import Message
from pyjms.api.names import Interface


class DeliveryMode(IntEnum):
    """The reliability of a message's delivery (JMS 1.1 §4.7)."""

    NON_PERSISTENT = 1
    """At most once: the message may be lost when the provider fails."""
    PERSISTENT = 2
    """Once and only once: the message survives a failure of the provider."""


class CompletionListener(Interface, declares=True):
    """A listener of an application, which hears of the end of each asynchronous send (JMS 2.0 §7.3).

    Its methods are called on a thread of the session's own, for one send at a time, in the order of the sends. They may use the message, which
    the program must not touch before. They must not close their own producer, session or connection, nor commit or roll back their own
    session: these calls raise `IllegalStateException` there. Raising is a programming error, which is logged.
    """

    __slots__ = ()

    @abstractmethod
    def on_completion(self, message: Message) -> None:
        """Handle the success: the message is as safe as after a send without a listener, and has its header fields."""

    @abstractmethod
    def on_exception(self, message: Message, exception: Exception) -> None:
        """Handle the failure: `exception` is the one that a send without a listener would have raised.

        The header fields that a send sets are undefined.
        """


class MessageProducer(Closeable, declares=True):
    """A producer, which sends messages to its own destination, or, if it was made without one, to one given in each call (§4.6).

    Belongs to its session's thread; only `close` may be called from another one. Every method but `close` raises
    `IllegalStateException` once the producer is closed.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def disable_message_id(self) -> bool:
        """A hint that message identifiers are not needed; False at first. The provider may ignore it (§3.4.3)."""

    @disable_message_id.setter
    @abstractmethod
    def disable_message_id(self, value: bool) -> None: ...

    @property
    @abstractmethod
    def disable_message_timestamp(self) -> bool:
        """A hint that time stamps are not needed; False at first. The provider may ignore it (§3.4.4)."""

    @disable_message_timestamp.setter
    @abstractmethod
    def disable_message_timestamp(self, value: bool) -> None: ...

    @property
    @abstractmethod
    def delivery_mode(self) -> int:
        """The `DeliveryMode` of messages sent without one; PERSISTENT at first. Another value: `JMSException`."""

    @delivery_mode.setter
    @abstractmethod
    def delivery_mode(self, delivery_mode: int) -> None: ...

    @property
    @abstractmethod
    def priority(self) -> int:
        """The priority of messages sent without one, 0 (lowest) to 9; 4 at first. Another value: `JMSException`."""

    @priority.setter
    @abstractmethod
    def priority(self, default_priority: int) -> None: ...

    @property
    @abstractmethod
    def time_to_live(self) -> int:
        """The time to live of messages sent without one, in milliseconds from sending; 0, the default: for ever."""

    @time_to_live.setter
    @abstractmethod
    def time_to_live(self, time_to_live: int) -> None: ...

    @property
    @abstractmethod
    def delivery_delay(self) -> int:
        """The time between a send, also in a transaction, and the earliest delivery of the message, in milliseconds; 0 at first (JMS 2.0 §7.9).

        Raises `JMSException` for a negative value, and for any other than 0 when the provider has no delivery delay.
        """

    @delivery_delay.setter
    @abstractmethod
    def delivery_delay(self, delivery_delay: int) -> None: ...

    @property
    @abstractmethod
    def destination(self) -> Destination | None:
        """The destination of this producer; None if each call names one."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the producer, when the asynchronous sends by it are complete. Closing twice does nothing.

        Raises `IllegalStateException` in a `CompletionListener` of a send by this producer.
        """

    @overload
    @abstractmethod
    def send(
        self,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        destination: Destination,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        message: Message,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        *,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        message: Message,
        delivery_mode: int | None,
        priority: int | None,
        time_to_live: int | None,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        destination: Destination,
        message: Message,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        destination: Destination,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        *,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        destination: Destination,
        message: Message,
        delivery_mode: int | None,
        priority: int | None,
        time_to_live: int | None,
        completion_listener: CompletionListener,
    ) -> None: ...

    @abstractmethod
    def send(self, *arguments: Any, **named: Any) -> None:
        """Send `message`, to `destination` if the producer has none of its own.

        `delivery_mode` is a `DeliveryMode`, `priority` 0 to 9, `time_to_live` milliseconds (0: for ever); values
        left out or None are the producer's own. The message gets its header fields (§3.4) and may be used again.

        With a `completion_listener` the send is asynchronous (JMS 2.0 §7.3): it returns without waiting for the provider, and the listener is
        called when the message was sent, or could not be. The program must not touch the message until then. If very many sends are
        incomplete, it waits for some of them. Arguments are checked at once; None as the listener raises `IllegalArgumentException`.

        Raises `UnsupportedOperationException` when a destination is given although the producer has one, or missing
        although it has none; `InvalidDestinationException`; `MessageFormatException`; `JMSException` when the
        provider cannot accept the message.
        """


class QueueSender(MessageProducer, declares=True):
    """A producer for queues (§5.7)."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue(self) -> Queue | None:
        """The queue of this sender; None if each call names one."""

    @overload
    @abstractmethod
    def send(
        self,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        destination: Destination,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        queue: Queue,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        message: Message,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        *,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        message: Message,
        delivery_mode: int | None,
        priority: int | None,
        time_to_live: int | None,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        destination: Destination,
        message: Message,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        destination: Destination,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        *,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        destination: Destination,
        message: Message,
        delivery_mode: int | None,
        priority: int | None,
        time_to_live: int | None,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        queue: Queue,
        message: Message,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        queue: Queue,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        *,
        completion_listener: CompletionListener,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        queue: Queue,
        message: Message,
        delivery_mode: int | None,
        priority: int | None,
        time_to_live: int | None,
        completion_listener: CompletionListener,
    ) -> None: ...

    @abstractmethod
    def send(self, *arguments: Any, **named: Any) -> None:
        """Send a message, as `MessageProducer.send`; the destination may be called `queue`."""


class TopicPublisher(MessageProducer, declares=True):
    """A producer for topics (§6.10)."""

    __slots__ = ()

    @property
    @abstractmethod
    def topic(self) -> Topic | None:
        """The topic of this publisher; None if each call names one."""

    @overload
    @abstractmethod
    def publish(
        self,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    def publish(
        self,
        topic: Topic,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @abstractmethod
    def publish(self, *arguments: Any, **named: Any) -> None:
        """Send a message, as `MessageProducer.send`; the destination is called `topic`."""
