"""A client's connection to the cluster: a connection at the front of its member, and one at each shard that it uses."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ClosedError, ConnectionLostError, ProviderError, UnknownSubscriptionError
from pyjms.spi.provider import ConnectionEvents, ProviderConnection
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.cluster.branches import ClusterBranches
from pyjms_provider.clients.cluster.persistent_sessions import ClusterPersistentSessions
from pyjms_provider.clients.cluster.reader_groups import ClusterReaderGroups
from pyjms_provider.clients.cluster.session import ClusterSession
from pyjms_provider.clients.cluster.shard_connection import ShardConnection
from pyjms_provider.clients.cluster.stages import ClusterStages
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.cluster.placement import OWN_FRONT, FrontPlace, Place, ShardPlace
from pyjms_provider.core.journal.journal import SubscriptionKey

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address, ConnectionId
    from pyjms.spi.provider import ProviderInfo
    from pyjms_provider.cluster.contracts import Cluster
    from pyjms_provider.cluster.placement import Placement
    from pyjms_provider.core.host.message_mover import OnExpired

_TOPIC: Final = AddressKind.TOPIC
_LACKING: Final = Capability.SHARED_TRANSACTIONS
_WHY: Final = {
    Capability.SHARED_TRANSACTIONS: "the destinations of a cluster may be in several stores, which no transaction of the application is in",
}


class ClusterConnection(ProviderConnection):
    """One client's connection to a virtual host that several members serve. Safe to use from any thread."""

    def __init__(
        self, cluster: Cluster, events: ConnectionEvents, clock: Clock, on_expired: OnExpired | None = None
    ) -> None:
        """Connect at the front of this process's member.

        Args:
            cluster: The cluster, as its member sees it.
            events: Is told of problems.
            clock: For waits.
            on_expired: As in `ConnectRequest`, for temporary destinations.

        Raises:
            ClosedError: The member has stopped.
        """
        self.cluster = cluster
        self.branches = ClusterBranches(cluster)
        """The XA calls of its sessions."""
        self._persistent_sessions = ClusterPersistentSessions(self)
        self._stages = ClusterStages(self, lambda: cluster.promotions)
        self._reader_groups = ClusterReaderGroups(self, self._enter_subscription_of_group)
        self._events = events
        self._clock = clock
        self._lock = Lock()
        self._closed = False
        self._close_once = CloseOnce()
        self._is_started = False
        self._client_id: str | None = None
        self._sessions: dict[ClusterSession, None] = {}
        self._shards: dict[tuple[Place, bool], ShardConnection] = {}
        """By place, and whether the connection there has the client id."""
        # Last: the front may be stopping, and report that at once.
        self.front: VmConnection = VmConnection(cluster.front, self, on_expired)
        # The one connection that may consume from its temporary destinations.
        self._own_front = ShardConnection(cluster, FrontPlace(cluster.front.run_id), self, clock, None)
        self._own_front.begin(self.front)

    @property
    def connection_id(self) -> ConnectionId:
        return self.front.connection_id

    @property
    def capabilities(self) -> Capability:
        return ~_LACKING

    @property
    def info(self) -> ProviderInfo:
        return self.front.info

    @property
    def resource_manager(self) -> str:
        return f"cluster {self.cluster.name}"

    def advice(self, capability: Capability) -> str:
        return _WHY.get(capability, "")

    @property
    def is_started(self) -> bool:
        """Whether messages may be delivered."""
        return self._is_started

    @property
    def client_id(self) -> str | None:
        """The client id, if one was set."""
        return self._client_id

    def set_client_id(self, client_id: str) -> None:
        self._check_open()
        # The shard that the client id's hash gives decides: of two connections one gets it.
        home = ShardPlace(self.cluster.placement.shard_of_client(client_id))
        self.shard(home).claim(client_id)
        with self._lock:
            self._client_id = client_id
            shards = dict(self._shards)
            # The present connections have the client id from here on.
            self._shards = {(place, True): shard for (place, _), shard in shards.items()}
        for (place, _), shard in shards.items():
            if place != home:
                shard.identify(client_id)
        self.front.set_client_id(client_id)

    # Shards

    def shard(self, place: Place, client_id: str | None = None) -> ShardConnection:
        """Return the connection to a place; it connects when it is first used.

        Args:
            place: A shard, or the front of a member.
            client_id: "": a connection without the client id, for subscriptions of no client; None: the usual one.
        """
        if place in (self._own_front.place, OWN_FRONT):
            return self._own_front
        has_id = self._client_id is not None and client_id != ""
        found = self._shards.get((place, has_id))
        if found is None:
            with self._lock:
                self._check_open()
                found = self._shards.get((place, has_id))
                if found is None:
                    own_id = self._client_id if has_id else None
                    found = self._shards[place, has_id] = ShardConnection(
                        self.cluster, place, self, self._clock, own_id
                    )
        return found

    def key_of(self, name: str, client_id: str | None) -> SubscriptionKey:
        """Return the identity of a durable subscription of this connection; `client_id` "": of no client."""
        return SubscriptionKey((self._client_id or "") if client_id is None else client_id, name)

    def enter_subscription(self, session: ClusterSession, name: str, topic: str, client_id: str | None) -> None:
        """Enter a durable subscription that is about to be made; delete the one of that name that is in another shard.

        Raises:
            SubscriptionInUseError: That one has a consumer.
        """
        key = self.key_of(name, client_id)
        registry, placement = self.cluster.subscriptions, self.cluster.placement
        old = registry.topic_of(key)
        if old == topic:
            return
        if old is not None and placement.shard_of(_TOPIC, old) != placement.shard_of(_TOPIC, topic):
            with suppress(UnknownSubscriptionError):
                session.unsubscribe_from(old, name, client_id)
        registry.enter(key, topic)

    def _enter_subscription_of_group(self, name: str, topic: str) -> None:
        session = self.open_session(transacted=False)
        try:
            self.enter_subscription(session, name, topic, None)
        finally:
            session.close()

    # The SPI

    def open_session(self, *, transacted: bool) -> ClusterSession:
        session = ClusterSession(self, transacted=transacted)
        with self._lock:
            self._check_open()
            self._sessions[session] = None
        return session

    def start(self) -> None:
        self._set_started(started=True)

    def stop(self) -> None:
        self._set_started(started=False)

    def _set_started(self, *, started: bool) -> None:
        with self._lock:
            self._check_open()
            self._is_started = started
            shards = [self._own_front, *self._shards.values()]
        for shard in shards:
            shard.set_started(started=started)

    def create_temporary(self, kind: AddressKind) -> Address:
        return self.front.create_temporary(kind)

    def delete_temporary(self, address: Address) -> None:
        self.front.delete_temporary(address)

    def on_exception(self, error: ProviderError) -> None:
        """Tell the client of a problem; close if the front is lost, as its member stops. Implements `ConnectionEvents`."""
        if isinstance(error, ConnectionLostError):
            with self._lock:
                was_open = not self._closed
            self.close()
            if not was_open:
                return
        self._events.on_exception(error)

    @property
    def placement(self) -> Placement:
        """The present placement."""
        return self.cluster.placement

    def settled_placement(self, address: Address) -> Placement:
        """Return the placement, once it is known where a destination is. Raises `ResourceError`."""
        while not self.cluster.is_settled(address):
            self._check_open()
            self.cluster.await_placed(address.name)
        return self.cluster.placement

    def reader_groups(self) -> ClusterReaderGroups:
        self._check_open()
        return self._reader_groups

    def stages(self) -> ClusterStages:
        self._check_open()
        return self._stages

    def persistent_sessions(self) -> ClusterPersistentSessions:
        self._check_open()
        return self._persistent_sessions

    def home_of_sink(self, sink: str) -> ShardPlace:
        """Return the shard of the marker of a sink of staged units."""
        return ShardPlace(self.cluster.placement.shard_of_sink(sink))

    def discard(self, session: ClusterSession) -> None:
        """Remove a session that has closed."""
        with self._lock:
            self._sessions.pop(session, None)

    def close(self) -> None:
        self._close_once.do(self._shut_down)

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            sessions, shards = list(self._sessions), list(self._shards.values())
        for session in sessions:
            session.close()
        for shard in (*shards, self._own_front):
            shard.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the connection to {self.cluster.name} is closed")
