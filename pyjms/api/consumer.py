"""Receiving messages (JMS 1.1 §4.5), and browsing a queue (§5.9)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TypeAlias

from pyjms.api.base import Closeable, Enumeration
from pyjms.api.destination import Queue, Topic
from pyjms.api.message import Message
from pyjms.api.names import Interface


class MessageListener(Interface, declares=True):
    """A listener of an application, which is called with each message (JMS 1.1 §4.5.2)."""

    __slots__ = ()

    @abstractmethod
    def on_message(self, message: Message) -> None:
        """Handle one message.

        Called on the session's own thread, one message of the session at a time. Raising is a programming error: in
        the modes AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE the message is redelivered at once (§4.5.2).
        """


MessageListenerLike: TypeAlias = MessageListener | Callable[[Message], object]
"""The accepted listeners: an object, or a plain callable of one message."""


class MessageConsumer(Closeable, declares=True):
    """A consumer of one destination, whose messages it receives by call or through a listener (JMS 1.1 §4.5).

    Belongs to its session's thread; only `close` may be called from another one. Every method but `close` raises
    `IllegalStateException` once the consumer is closed.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def message_selector(self) -> str | None:
        """The selector that chooses this consumer's messages, or None: all of them (§3.8)."""

    @property
    @abstractmethod
    def message_listener(self) -> MessageListenerLike | None:
        """The listener, as it was set, or None. Set it before the connection starts; None removes it.

        While it is set, `receive` raises `IllegalStateException`.
        """

    @message_listener.setter
    @abstractmethod
    def message_listener(self, listener: MessageListenerLike | None) -> None: ...

    @abstractmethod
    def receive(self, timeout: int = 0) -> Message | None:
        """Return the next message, waiting up to `timeout` milliseconds; 0 (or no argument) waits without limit.

        Below 0 it does not wait, as `receive_no_wait`. Returns None when the time is over or when the consumer, its
        session or its connection is closed meanwhile. The time continues while the connection is stopped. Raises
        `IllegalStateException` when a listener is set.
        """

    @abstractmethod
    def receive_no_wait(self) -> Message | None:
        """Return the next message if there is one now, otherwise None."""

    @abstractmethod
    def close(self) -> None:
        """End the subscription; a pending `receive` returns None, a running listener is waited for.

        Messages received from this consumer can still be acknowledged. Closing twice does nothing.
        """


class QueueBrowser(Closeable, declares=True):
    """A browser, which shows the messages of a queue without removing them. Iterating over the browser starts at the front."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The browsed queue."""

    @property
    @abstractmethod
    def message_selector(self) -> str | None:
        """The selector that chooses the messages to show, or None: all of them (§3.8)."""

    @property
    @abstractmethod
    def enumeration(self) -> Enumeration[Message]:
        """A new enumeration of the messages in the order of their delivery.

        Messages that arrive or leave meanwhile may or may not be shown.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop browsing. Closing twice does nothing."""

    def __iter__(self) -> Iterator[Message]:
        return self.enumeration


class QueueReceiver(MessageConsumer, declares=True):
    """A consumer of a queue (§5.8)."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The queue from which it receives."""


class TopicSubscriber(MessageConsumer, declares=True):
    """A consumer of a topic (§6.11)."""

    __slots__ = ()

    @property
    @abstractmethod
    def topic(self) -> Topic:
        """The topic to which it subscribes."""

    @property
    @abstractmethod
    def no_local(self) -> bool:
        """Whether it excludes messages published by its own connection."""
