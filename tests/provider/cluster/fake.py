"""A cluster in one process, without PostgreSQL: shards that are brokers on SQLite files, and leaders that a test moves.

Shards of even numbers are reached in this process, unless a test says otherwise, the others over a native STOMP link. What the members write to the database is in memory,
and fails when a test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from socket import socket
from threading import Condition
from typing import Final

from pyjms.spi.clock import Clock
from pyjms.spi.envelope import Address
from pyjms.spi.errors import ClosedError, DestinationError, ProviderError, ResourceError, UrlError
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, Provider, ProviderConnection
from pyjms.spi.url import ProviderUrl
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.stomp.provider import StompProvider
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.cluster.branch_names import FORMAT
from pyjms_provider.cluster.contracts import Cluster, Promotion
from pyjms_provider.cluster.placement import FrontPlace, Place, Placement, ShardPlace
from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.settings import BrokerSettings, StoreSettings
from tests.system.network.served import stored_broker

SHARDS: Final = 4
_LEADER_S: Final = 20.0
# Without heart-beats: a test moves the clock by more than their period.
_LINK: Final = "reconnect_delay_ms=5&reconnect_delay_max_ms=50&timeout_ms=20000&heart_beat_ms=0"


class Decisions:
    """The decision log, in memory."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.rows: dict[str, bool] = {}
        """By transaction: whether it is committed."""
        self.left: list[tuple[str, tuple[int, ...]]] = []
        """What is to be rolled back in shards that could not be told."""
        self.forgotten: list[str] = []
        self.fails_before: ProviderError | None = None
        """Is raised by the next commit, which writes nothing."""
        self.fails_after: ProviderError | None = None
        """Is raised by the next commit once the row is there."""
        self.before_commit: Callable[[], None] = lambda: None
        self.after_commit: Callable[[], None] = lambda: None

    def new_id(self) -> str:
        """Return the id of a new transaction."""
        return f"incarnation:{next(self._numbers)}"

    def commit(self, transaction: str, shards: Sequence[int]) -> bool:
        """Write the decision, or fail as the test says."""
        self.before_commit()
        error, self.fails_before = self.fails_before, None
        if error is not None:
            raise error
        is_committed = self.rows.setdefault(transaction, True)
        error, self.fails_after = self.fails_after, None
        if error is not None:
            raise error
        self.after_commit()
        return is_committed

    def roll_back(self, transaction: str, shards: Sequence[int]) -> None:
        """Note what is to be rolled back."""
        self.left.append((transaction, tuple(shards)))

    def forget(self, transaction: str) -> None:
        """Remove the row."""
        self.forgotten.append(transaction)
        self.rows.pop(transaction, None)


class Subscriptions:
    """The registry of durable subscriptions, in memory."""

    def __init__(self) -> None:
        self.topics: dict[SubscriptionKey, str] = {}

    def topic_of(self, key: SubscriptionKey) -> str | None:
        """Return the topic."""
        return self.topics.get(key)

    def enter(self, key: SubscriptionKey, topic: str) -> None:
        """Enter a subscription."""
        self.topics[key] = topic

    def remove(self, key: SubscriptionKey) -> None:
        """Remove a subscription."""
        self.topics.pop(key, None)


class Promotions:
    """The promotion log, in memory."""

    def __init__(self) -> None:
        self.present: dict[str, Promotion] = {}

    def begin(self, promotion: Promotion) -> Promotion:
        """Enter a promotion, unless there is one of its sink."""
        return self.present.setdefault(promotion.sink, promotion)

    def find(self, sink: str) -> Promotion | None:
        """Return the promotion of a sink."""
        return self.present.get(sink)

    def end(self, promotion: Promotion) -> None:
        """Remove a promotion."""
        if self.present.get(promotion.sink) == promotion:
            del self.present[promotion.sink]


@dataclass
class _Shard:
    number: int
    store: str
    broker: EmbeddedBroker | None = None
    """Of a shard that is led in this process."""
    served: ExitStack | None = None
    """Of a shard behind a link."""
    port: int = field(default=0)


class FakeCluster:
    """The cluster as one of its members sees it: implements `Cluster`."""

    def __init__(self, folder: Path, clock: Clock, led: Collection[int] = range(0, SHARDS, 2)) -> None:
        """`led`: the shards that are led in this process."""
        self._clock = clock
        self._led = led
        self.name = "books"
        self.placement = Placement(SHARDS)
        self.place: Callable[[str], None] = _unplaced
        """Is called while a client waits until a queue is placed."""
        self.decisions = Decisions()
        self.subscriptions = Subscriptions()
        self.promotions = Promotions()
        self.front = EmbeddedBroker("front", clock)
        self._changed = Condition()
        self._is_stopped = False
        self._shards = [_Shard(number, f"sqlite:///{folder}/shard{number}.db") for number in range(SHARDS)]
        for shard in self._shards:
            self._lead(shard)

    # What a test does

    def broker(self, number: int) -> EmbeddedBroker:
        """Return the broker of a shard that is led in this process."""
        found = self._shards[number].broker
        assert found is not None, "it is behind a link, or has no leader"
        return found

    def depose(self, number: int) -> None:
        """Leave a shard without a leader."""
        shard = self._shards[number]
        with self._changed:
            broker, shard.broker = shard.broker, None
            served, shard.served = shard.served, None
        if broker is not None:
            broker.stop()
        if served is not None:
            served.close()

    def lead(self, number: int) -> None:
        """Give a shard a leader again, which reads its store."""
        self._lead(self._shards[number])

    def move(self, number: int) -> None:
        """Have another member become the leader of a shard."""
        self.depose(number)
        self.lead(number)

    def settle(self) -> None:
        """Do as the members do with the parts that their coordinator left: by the row, or else rolled back."""
        for number in range(SHARDS):
            connection = self.connect(ShardPlace(number), _Deaf())
            session = connection.open_session(transacted=True)
            for xid in session.xa_recover():
                if xid.format_id != FORMAT:
                    continue
                if self.decisions.rows.setdefault(xid.global_transaction_id.decode(), False):
                    session.xa_commit(xid)
                else:
                    session.xa_rollback(xid)
            connection.close()

    def in_doubt(self) -> int:
        """Return how many parts of transactions are prepared in all shards."""
        found = 0
        for number in range(SHARDS):
            connection = self.connect(ShardPlace(number), _Deaf())
            found += sum(xid.format_id == FORMAT for xid in connection.open_session(transacted=True).xa_recover())
            connection.close()
        return found

    def stop_front(self) -> None:
        """End all connections of clients, and let new ones begin."""
        front, self.front = self.front, EmbeddedBroker("front", self._clock)
        front.stop()

    def stop(self) -> None:
        """End all of it."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self.front.stop()
        for number in range(SHARDS):
            self.depose(number)

    def _lead(self, shard: _Shard) -> None:
        if shard.number in self._led:
            settings = BrokerSettings(store=StoreSettings(url=shard.store))
            broker, served = EmbeddedBroker(f"shard{shard.number}", self._clock, settings), None
        else:
            shard.port = shard.port or _free_port()
            broker, served = None, ExitStack()
            served.enter_context(stored_broker(shard.store, self._clock, {"port": shard.port}))
        with self._changed:
            shard.broker, shard.served = broker, served
            self._changed.notify_all()

    # Cluster

    def is_settled(self, address: Address) -> bool:
        """Return whether nobody is placing it just now."""
        return address.name not in self.placement.moving

    def await_placed(self, queue: str) -> None:
        """Have the test place a queue that a shard has refused."""
        self.place(queue)

    def connect(self, place: Place, events: ConnectionEvents) -> ProviderConnection:
        """Connect to the leader of a shard, or wait for one."""
        if isinstance(place, FrontPlace):
            if place.run_id != self.front.run_id:
                raise DestinationError("the member of that destination has ended")
            return VmConnection(self.front, events)
        shard = self._shards[place.number]
        while True:
            with self._changed:
                is_led = self._changed.wait_for(lambda: self._is_stopped or shard.broker or shard.served, _LEADER_S)
                broker = shard.broker
            if self._is_stopped:
                raise ClosedError("this member is stopping")
            if not is_led:
                raise ResourceError("no member leads the shard")
            if broker is None:
                url = ProviderUrl.parse(f"stomp://127.0.0.1:{shard.port}?{_LINK}")
                request = ConnectRequest(url=url, user_name=None, password=None, client_id=None, clock=self._clock)
                return StompProvider().connect(request, events)
            with suppress(ClosedError):  # it was stopped meanwhile
                return VmConnection(broker, events)


def _unplaced(queue: str) -> None:
    raise ResourceError(f"{queue} is not being placed")


class ClusterProvider(Provider):
    """Connects as a port of a cluster's member does for its clients."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        check_options(request.url)
        connection = ClusterConnection(self._cluster, events, request.clock, request.on_expired)
        if request.client_id is not None:
            try:
                connection.set_client_id(request.client_id)
            except ProviderError:
                connection.close()
                raise
        return connection

    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        return ()


class FakeClusterProvider(ClusterProvider):
    """Connects to a fake cluster."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster)
        self.cluster = cluster

    def stop_broker(self, url: ProviderUrl) -> None:
        self.cluster.stop_front()


def check_options(url: ProviderUrl) -> None:
    """Raise `UrlError` for an option: there is none."""
    if url.options:
        raise UrlError("the URL of this cluster has no options")


class _Deaf:
    def on_exception(self, error: ProviderError) -> None:
        """Ignore it: what the test asks for fails by itself."""


def _free_port() -> int:
    with socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
