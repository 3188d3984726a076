"""The temporary destinations of one virtual host: of each, the connection that alone may consume from it (JMS 1.1 §4.4.3)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.spi.errors import DestinationError, DestinationInUseError, ProviderError
from pyjms.spi.words import counted
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.topic.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Lock

# Which names clients may give to what they make at a broker.


def check_name(name: str, what: str, error: type[ProviderError]) -> None:
    """Raise `error` for a name with half of a surrogate pair, which Java's strings may have.

    UTF-8 has no such thing, so no list, measurement or page that is to show the name could be written: one queue would hide all others.
    """
    try:
        name.encode()
    except UnicodeEncodeError as found:
        raise error(
            f"{what} {name!r} has half of a surrogate pair at {found.start}, which cannot be written: choose another name"
        ) from None


class TemporaryEndedError(DestinationError):
    """A message goes to a temporary destination that has ended, so nobody will ever receive it."""


@dataclass(slots=True)
class _Temporary:
    """A temporary destination and the connection that may consume from it."""

    channel: Queue | Topic
    address: Address
    owner: ConnectionId


class TemporaryDestinations:
    """Safe to use from any thread. Its table is guarded by the host's lock; looking up takes none."""

    def __init__(
        self, lock: Lock, make: Callable[[Address], Queue | Topic], on_ended: Callable[[Address], None]
    ) -> None:
        """`lock`: the host's. `make` is called with it held; `on_ended` without, for each that has ended."""
        self._lock = lock
        self._make = make
        self._on_ended = on_ended
        self._numbers = count(1)
        self._by_name: dict[str, _Temporary] = {}
        self._by_owner: defaultdict[ConnectionId, dict[str, _Temporary]] = defaultdict(dict)
        """The same for each connection that has some."""

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
        return None if found is None or found.address != address else found.owner

    def named(self, address: Address, owner: ConnectionId) -> Queue | Topic | None:
        """Return the destination of connection `owner` that has the name and kind of `address`; None: there is none."""
        found = self._by_name.get(address.name)
        is_own = found is not None and found.owner == owner and found.address.kind is address.kind
        return found.channel if found is not None and is_own else None

    def check_free(self, name: str) -> None:
        """Raise `DestinationError` if a temporary destination has that name, which others would take for another one's."""
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
        """Return where a message to `address` goes. Raises `TemporaryEndedError`."""
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
            raise DestinationError(f"{address} belongs to another connection, which alone may consume from it")
        return found.channel

    def delete(self, address: Address, owner: ConnectionId) -> None:
        """Delete it with its messages. Raises `DestinationInUseError`, `DestinationError`."""
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
        self._on_ended(address)
        channel.close()

    def end_connection(self, owner: ConnectionId) -> None:
        """Delete those of a connection that has closed, with their messages. May be repeated."""
        with self._lock:
            ended = list(self._by_owner.get(owner, {}).values())
        for each in ended:
            each.channel.close()
            self._on_ended(each.address)
        with self._lock:
            for each in ended:
                self._by_name.pop(each.address.name, None)
            self._by_owner.pop(owner, None)

    def channels(self) -> list[Queue | Topic]:
        """Return all of them. The lock is held."""
        return [each.channel for each in self._by_name.values()]


def _ended(address: Address) -> str:
    return f"{address} no longer exists: it was deleted, or its connection was closed"
