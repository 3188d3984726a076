"""Which destinations there are at all shards, for the access rules of clients: creating one by its first use needs a right of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.spi.errors import DestinationError
from pyjms_provider.cluster.contracts import Cluster
from pyjms_provider.cluster.placement import OWN_FRONT, FrontPlace, ShardPlace
from pyjms_provider.repeatable import REPEATED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address
    from pyjms.spi.errors import ProviderError
    from pyjms.spi.provider import ProviderConnection, ProviderSession
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.placement import Place
    from pyjms_provider.cluster.settings import ClusterSettings, LinkTls
    from pyjms_provider.cluster.status import ClusterStatus

_KNOWN_MS: Final = 5_000
"""For so long a destination that another member has is taken to be there still."""
_KNOWN_MAX: Final = 10_000  # bounded, as clients choose the names


class JoinedCluster(Cluster, Protocol):
    """A cluster, and what its member in this process tells the broker about itself. Nothing waits but `await_leaders`, `move_leader` and `stop`."""

    @property
    def settings(self) -> ClusterSettings:
        """The settings of the member."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the member serves nothing at the moment; None: it serves."""
        ...

    def brokers(self) -> Mapping[int, EmbeddedBroker]:
        """Return the brokers of the shards that the member leads now, by number."""
        ...

    def front_of_leader(self, shard: int) -> FrontPlace | None:
        """Return the front of the member that serves a shard; None: none does."""
        ...

    def fronts(self) -> Mapping[str, FrontPlace]:
        """Return the fronts of the living members, by the member's name."""
        ...

    def status(self) -> ClusterStatus:
        """Return the state of the cluster as the member last saw it."""
        ...

    def move_leader(self, shard: int, member: str | None) -> None:
        """Have a member lead a shard, or any again. Waits for the database. Raises `DestinationError`, `ResourceError`."""
        ...

    def place_queue(self, name: str, shards: Collection[int]) -> None:
        """Place a queue in these shards. Waits for the database, and for other members. Raises `DestinationInUseError`, `ResourceError`."""
        ...

    def reload_certificates(self, tls: LinkTls) -> None:
        """Use renewed certificates for new links. Raises `ListenerSettingsError`: then nothing changes."""
        ...

    def await_leaders(self, timeout_ms: int) -> bool:
        """Wait until all shards are led; return False if that takes longer."""
        ...

    def stop(self, *, program_ends: bool = False) -> None:
        """Hand all shards over, and leave the cluster. May be repeated."""
        ...


class _Events:
    def on_exception(self, error: ProviderError) -> None:
        """Ignore it: the next call on the connection raises it."""


class KnownDestinations:
    """The destinations of a cluster, as one of its members knows them. Any thread."""

    def __init__(self, cluster: JoinedCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = Lock()
        self._seen: dict[Address, float] = {}
        """Destinations at other members, by the time until which they count."""
        self._idle: dict[Place, list[tuple[ProviderConnection, ProviderSession]]] = {}
        self._is_closed = False

    def broker_of(self, address: Address) -> EmbeddedBroker | None:
        """Return the broker of a destination if this member has it, and all of it. Never waits."""
        places = self._cluster.placement.places_of(address)
        return self._broker_at(places[0]) if len(places) == 1 else None

    def _broker_at(self, place: Place) -> EmbeddedBroker | None:
        if isinstance(place, ShardPlace):
            return self._cluster.brokers().get(place.number)
        front = self._cluster.front
        return front if place == OWN_FRONT or place.run_id == front.run_id else None

    def has(self, address: Address) -> bool:
        """Return whether a destination is there. Asks its member, and waits for the answer, unless the caller is on an event loop: there a
        destination that is not known counts as missing. Raises `ResourceError` if its member cannot be asked.
        """
        elsewhere: list[Place] = []
        for place in self._cluster.placement.places_of(address):
            here = self._broker_at(place)
            if here is None:
                elsewhere.append(place)
            elif here.virtual_host.has_destination(address):
                return True
        if not elsewhere:
            return False
        if self._seen.get(address, 0.0) > self._clock.monotonic_ms():
            return True
        return not _is_on_loop() and any(self._ask(place, address) for place in elsewhere)

    def _ask(self, place: Place, address: Address) -> bool:
        try:
            found = self._asked(place, address)
        except DestinationError:
            return False  # it was at the front of a member that has ended
        if found and isinstance(place, ShardPlace):
            with self._lock:
                if len(self._seen) >= _KNOWN_MAX:
                    self._seen.clear()
                self._seen[address] = self._clock.monotonic_ms() + _KNOWN_MS
        return found

    def _asked(self, place: Place, address: Address) -> bool:
        while True:
            # A connection may be an old one, to a member that has ended since, or be lost meanwhile.
            with suppress(_StaleError), self._session(place) as session, _stale_if_lost():
                return session.has_destination(address) is not False

    @contextmanager
    def _session(self, place: Place) -> Iterator[ProviderSession]:
        """Give a session at a place, for this thread alone; one that has failed is closed."""
        with self._lock:
            idle = self._idle.get(place)
            pair = idle.pop() if idle else None
        if pair is None:
            connection = self._cluster.connect(place, _Events())
            with _stale_if_lost():
                pair = connection, connection.open_session(transacted=False)
        is_kept = False
        try:
            yield pair[1]
            # Fronts come and go with their members, so connections to them are not kept.
            is_kept = not isinstance(place, FrontPlace)
        finally:
            with self._lock:
                is_kept = is_kept and not self._is_closed
                if is_kept:
                    self._idle.setdefault(place, []).append(pair)
            if not is_kept:
                pair[0].close()

    def close(self) -> None:
        """Close its connections. May be repeated."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, {}
        for pairs in idle.values():
            for connection, _ in pairs:
                connection.close()


class _StaleError(Exception):
    """A connection has ended: the next one is to be asked."""


@contextmanager
def _stale_if_lost() -> Iterator[None]:
    try:
        yield
    except REPEATED as error:
        raise _StaleError from error


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
