"""The temporary destinations of a virtual host, which belong to the connections that have made them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.spi.errors import DestinationError, DestinationInUseError
from pyjms.spi.words import counted
from pyjms_provider.core.queue.queue import Queue

if TYPE_CHECKING:
    from pyjms_provider.core.topic import Topic


class ForeignTemporaryError(DestinationError):
    """The temporary destination belongs to another connection, which alone may consume from it."""


class TemporaryEndedError(DestinationError):
    """A message for a temporary destination that has ended, so that no client will ever receive it."""


@dataclass(slots=True)
class _Temporary:
    """A temporary destination and the connection that may consume from it."""

    channel: Queue | Topic
    address: Address
    owner: ConnectionId


class TemporaryDestinations:
    """The temporary destinations of a host. Safe to use from any thread. The table is guarded by the host's lock; a look-up takes none."""

    def __init__(
        self, lock: Lock, make: Callable[[Address], Queue | Topic], on_ended: Callable[[Address], None]
    ) -> None:
        """`lock`: the host's. `make` is called with it held; `on_ended` without, for each destination that has ended."""
        self._lock = lock
        self._make = make
        self._on_ended = on_ended
        self._numbers = count(1)
        self._by_name: dict[str, _Temporary] = {}
        self._by_owner: defaultdict[ConnectionId, dict[str, _Temporary]] = defaultdict(dict)
        """The destinations of each connection that has some."""

    def create(self, kind: AddressKind, owner: ConnectionId) -> Address:
        """Make a destination that only connection `owner` may consume from."""
        with self._lock:
            address = Address(kind, f"{owner}-{next(self._numbers)}", temporary=True)
            made = _Temporary(self._make(address), address, owner)
            self._by_owner[owner][address.name] = made
            self._by_name[address.name] = made
        return address

    def owner_of(self, address: Address) -> ConnectionId | None:
        """Return the connection that made a destination; None: there is no such destination."""
        found = self._by_name.get(address.name)
        # Compared whole: an address that names a topic must not find the queue of that name.
        return None if found is None or found.address != address else found.owner

    def named(self, address: Address, owner: ConnectionId) -> Queue | Topic | None:
        """Return the destination of connection `owner` with the name and kind of `address`; None: there is none."""
        found = self._by_name.get(address.name)
        is_own = found is not None and found.owner == owner and found.address.kind is address.kind
        return found.channel if found is not None and is_own else None

    def check_free(self, name: str) -> None:
        """Raise `DestinationError` if a temporary destination has that name, as the two would be confused."""
        found = self._by_name.get(name)
        if found is not None:
            raise DestinationError(
                f"{found.address} belongs to a connection, which alone may consume from it (JMS 1.1 §4.4.3), and nothing else has "
                "its name: send to the JMSReplyTo of a message that names it, or use a queue that all may read"
            )

    def find(self, name: str) -> Queue | Topic | None:
        """Return the destination `name`; None: it has ended."""
        found = self._by_name.get(name)
        return None if found is None else found.channel

    def channel_of(self, address: Address) -> Queue | Topic:
        """Return the destination for messages to `address`. Raises `TemporaryEndedError`."""
        found = self._by_name.get(address.name)
        if found is None or found.address.kind is not address.kind:
            raise TemporaryEndedError(_ended(address))
        return found.channel

    def owned(self, address: Address, owner: ConnectionId) -> Queue | Topic:
        """Return the destination that connection `owner` wants to consume from. Raises `DestinationError`."""
        if not address.temporary:
            raise DestinationError(f"{address} is no temporary destination")
        found = self._by_name.get(address.name)
        if found is None or found.address.kind is not address.kind:
            raise DestinationError(_ended(address))
        if found.owner != owner:
            raise ForeignTemporaryError(f"{address} belongs to another connection, which alone may consume from it")
        return found.channel

    def delete(self, address: Address, owner: ConnectionId) -> None:
        """Delete a destination with its messages. Raises `DestinationInUseError`, `DestinationError`."""
        channel = self.owned(address, owner)
        users = channel.consumer_count if isinstance(channel, Queue) else len(channel.subscriptions)
        if users:
            raise DestinationInUseError(
                f"{address} has {counted(users, 'consumer')}; close what receives there, then delete it"
            )
        with self._lock:
            self._by_name.pop(address.name, None)
            others = self._by_owner.get(owner, {})
            others.pop(address.name, None)
            if not others:
                self._by_owner.pop(owner, None)
        # Without the lock: the callback takes that of the admission controller, and `close` the channel's.
        self._on_ended(address)
        channel.close()

    def end_connection(self, owner: ConnectionId) -> None:
        """Delete the destinations of a closed connection, with their messages. May be repeated."""
        with self._lock:
            # The table keeps them until all are closed, so that a call that is repeated after an error finds the rest.
            ended = list(self._by_owner.get(owner, {}).values())
        for each in ended:
            each.channel.close()
            self._on_ended(each.address)
        with self._lock:
            for each in ended:
                self._by_name.pop(each.address.name, None)
            self._by_owner.pop(owner, None)

    def channels(self) -> list[Queue | Topic]:
        """Return all destinations. The lock is held."""
        return [each.channel for each in self._by_name.values()]


def _ended(address: Address) -> str:
    return f"{address} no longer exists: it was deleted, or its connection was closed"
