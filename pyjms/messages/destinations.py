"""Destinations as applications hold them: names of queues and topics, and the temporary ones of a connection.

They are values: two of them are equal when their addresses are, and any thread may use them. Queues and topics are
administered objects and can be pickled; a temporary destination belongs to its connection and cannot (JMS 1.1 §4.4.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.interrupts import defers_signals


class JmsDestination(Destination):
    """A destination with its address; two are one destination when their addresses are equal."""

    __slots__ = ("_address",)

    def __init__(self, address: Address) -> None:
        self._address = address

    @property
    def address(self) -> Address:
        """The destination in the form of the SPI."""
        return self._address

    def to_string(self) -> str:
        """Return for instance ``queue://orders``."""
        return str(self._address)

    def __str__(self) -> str:
        return str(self._address)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._address}>"

    def __eq__(self, other: object) -> bool:
        return self._address == other._address if isinstance(other, JmsDestination) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._address)


class JmsQueue(JmsDestination, Queue):
    """The queue called `queue_name`."""

    __slots__ = ()

    def __init__(self, queue_name: str) -> None:
        super().__init__(Address(AddressKind.QUEUE, _checked(queue_name, "queue")))

    @property
    def queue_name(self) -> str:
        return self._address.name

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._address.name,)


class JmsTopic(JmsDestination, Topic):
    """The topic called `topic_name`."""

    __slots__ = ()

    def __init__(self, topic_name: str) -> None:
        super().__init__(Address(AddressKind.TOPIC, _checked(topic_name, "topic")))

    @property
    def topic_name(self) -> str:
        return self._address.name

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._address.name,)


class _Temporary(JmsDestination):
    """The base of temporary destinations. `delete` is the connection's function for deleting them, if there is one."""

    # A weak reference shows the connection that the program has dropped the object, so that it deletes the destination.
    __slots__ = ("__weakref__", "_delete")

    def __init__(self, address: Address, delete: Callable[[Address], None] | None = None) -> None:
        super().__init__(address)
        self._delete = delete

    @defers_signals()
    def delete(self) -> None:
        """Remove the destination. Raises `JMSException` while it has consumers, or when another connection made it."""
        if self._delete is None:
            raise IllegalStateException(f"{self._address} can only be deleted through the connection that made it")
        self._delete(self._address)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._address} belongs to its connection: a temporary destination cannot be copied or pickled"
        )


class JmsTemporaryQueue(_Temporary, TemporaryQueue):
    """A queue of one connection."""

    __slots__ = ()

    @property
    def queue_name(self) -> str:
        return self._address.name


class JmsTemporaryTopic(_Temporary, TemporaryTopic):
    """A topic of one connection."""

    __slots__ = ()

    @property
    def topic_name(self) -> str:
        return self._address.name


_OWN_CLASSES = frozenset({JmsQueue, JmsTemporaryQueue, JmsTemporaryTopic, JmsTopic})
"""Looked up before `isinstance`, which asks an abstract base class and is on the path of every reply."""


def address_of(destination: Destination | None) -> Address:
    """Return the address of a destination of any implementation; that of a foreign one follows from its name.

    Raises `InvalidDestinationException` for None, for an object that is no destination, and for one without a name.
    """
    if destination.__class__ in _OWN_CLASSES or isinstance(destination, JmsDestination):
        return destination._address  # noqa: SLF001 - one of ours
    # A foreign object that is both a queue and a topic does not say which is meant (decision 0202).
    if isinstance(destination, Queue) and not isinstance(destination, Topic):
        name = _checked(destination.queue_name, "queue")
        return Address(AddressKind.QUEUE, name, isinstance(destination, TemporaryQueue))
    if isinstance(destination, Topic) and not isinstance(destination, Queue):
        name = _checked(destination.topic_name, "topic")
        return Address(AddressKind.TOPIC, name, isinstance(destination, TemporaryTopic))
    raise InvalidDestinationException(
        "a destination is needed, not None"
        if destination is None
        else f"{type(destination).__name__} is neither a Queue nor a Topic: make one with session.create_queue(name)"
    )


def _checked(name: object, kind: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidDestinationException(
            f"a {kind} needs a name that is not empty"
            if isinstance(name, str)
            else f"the name of a {kind} is a str, not {type(name).__name__}"
        )
    return str.__str__(name)
