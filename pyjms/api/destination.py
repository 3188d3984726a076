"""Destinations of messages: queues, topics, and temporary ones (JMS 1.1 §2.2, §4.4.3, §5.3, §6.5).

Destinations may be shared by threads, and pickled: they are administered objects.
"""

from __future__ import annotations

from abc import abstractmethod

from pyjms.api.names import Interface


class Destination(Interface, declares=True):
    """A queue or a topic."""

    __slots__ = ()


class Queue(Destination, declares=True):
    """A queue: each message goes to one consumer (JMS 1.1 §5.3)."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue_name(self) -> str:
        """The name of the queue in the provider's own syntax; not portable between providers."""

    def to_string(self) -> str:
        """Return the text of ``str(queue)``: its name, unless the provider shows more."""
        return self.queue_name

    def __str__(self) -> str:
        return self.to_string()


class Topic(Destination, declares=True):
    """A topic: each message goes to every subscription (JMS 1.1 §6.5)."""

    __slots__ = ()

    @property
    @abstractmethod
    def topic_name(self) -> str:
        """The name of the topic in the provider's own syntax; not portable between providers."""

    def to_string(self) -> str:
        """Return the text of ``str(topic)``: its name, unless the provider shows more."""
        return self.topic_name

    def __str__(self) -> str:
        return self.to_string()


class TemporaryQueue(Queue, declares=True):
    """A queue that exists as long as the connection that made it; only that connection may consume from it.

    JMS 1.1 §4.4.3, §5.4.
    """

    __slots__ = ()

    @abstractmethod
    def delete(self) -> None:
        """Remove the queue and its messages. Raises `JMSException` while it still has consumers."""


class TemporaryTopic(Topic, declares=True):
    """A topic that exists as long as the connection that made it; only that connection may consume from it.

    JMS 1.1 §4.4.3, §6.6.
    """

    __slots__ = ()

    @abstractmethod
    def delete(self) -> None:
        """Remove the topic. Raises `JMSException` while it still has subscribers."""
