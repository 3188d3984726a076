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
    """What an application gives to a consumer to be called with each message (JMS 1.1 §4.5.2)."""

    __slots__ = ()

    @abstractmethod
    def on_message(self, message: Message) -> None:
        """Take one message.

        Called on the session's own thread, one message of the session at a time. Raising is a programming error: in
        the modes AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE the message comes again at once (§4.5.2).
        """


MessageListenerLike: TypeAlias = MessageListener | Callable[[Message], object]
"""What is taken for a listener: an object, or a plain callable of one message."""


class MessageConsumer(Closeable, declares=True):
    """Receives the messages of one destination, by call or through a listener (JMS 1.1 §4.5).

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
        session or its connection is closed meanwhile. The time goes on while the connection is stopped. Raises
        `IllegalStateException` when a listener is set.
        """

    @abstractmethod
    def receive_no_wait(self) -> Message | None:
        """Return the next message if there is one now, else None."""

    @abstractmethod
    def close(self) -> None:
        """End the subscription; a pending `receive` returns None, a running listener is waited for.

        Messages received from this consumer can still be acknowledged. Closing twice does nothing.
        """


class QueueBrowser(Closeable, declares=True):
    """Shows the messages of a queue; they stay where they are. Iterating over the browser starts at the front."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The queue that is browsed."""

    @property
    @abstractmethod
    def message_selector(self) -> str | None:
        """The selector that chooses the messages shown, or None: all of them (§3.8)."""

    @property
    @abstractmethod
    def enumeration(self) -> Enumeration[Message]:
        """A new enumeration of the messages in the order in which they would be received.

        Messages that come or go meanwhile may or may not be shown.
        """

    @abstractmethod
    def close(self) -> None:
        """End browsing. Closing twice does nothing."""

    def __iter__(self) -> Iterator[Message]:
        return self.enumeration


class QueueReceiver(MessageConsumer, declares=True):
    """A consumer of a queue (§5.8)."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The queue whose messages it receives."""


class TopicSubscriber(MessageConsumer, declares=True):
    """A consumer of a topic (§6.11)."""

    __slots__ = ()

    @property
    @abstractmethod
    def topic(self) -> Topic:
        """The topic it subscribes to."""

    @property
    @abstractmethod
    def no_local(self) -> bool:
        """Whether it leaves out what its own connection published."""
