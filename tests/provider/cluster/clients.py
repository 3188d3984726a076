"""Clients of a fake cluster."""

from __future__ import annotations

from threading import Event

from pyjms.spi.clock import Clock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.provider import ProviderConsumer, ProviderSession, SubscribeRequest
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.cluster.session import ClusterSession
from pyjms_tck.spi.environment import envelope
from tests.provider.clients.stomp.world import Events
from tests.provider.cluster.fake import SHARDS, FakeCluster

PATIENCE_S = 20.0


def in_shard(cluster: FakeCluster, number: int, kind: AddressKind = AddressKind.QUEUE) -> Address:
    """Return a destination that is in that shard."""
    names = (f"d{each}" for each in range(10_000))
    return Address(kind, next(name for name in names if cluster.placement.shard_of(kind, name) == number))


class Client:
    """A connection with a queue in each shard."""

    def __init__(self, cluster: FakeCluster, clock: Clock) -> None:
        self.cluster = cluster
        self.events = Events()
        self.clock = clock
        self.connection = self.connect()
        self.queues = [in_shard(cluster, number) for number in range(SHARDS)]

    def connect(self) -> ClusterConnection:
        """Return a started connection."""
        connection = ClusterConnection(self.cluster, self.events, self.clock)
        connection.start()
        return connection

    def session(self, *, transacted: bool = False) -> ClusterSession:
        """Return a session."""
        return self.connection.open_session(transacted=transacted)

    def send(self, *texts: str, session: ProviderSession | None = None, to: int = 0) -> None:
        """Send PERSISTENT messages to the queue of a shard."""
        session = session or self.session()
        for text in texts:
            session.send(envelope(self.queues[to], text, delivery_mode=2))

    def left(self, number: int) -> list[tuple[str, bool]]:
        """Take all that is in the queue of a shard, as another client."""
        connection = self.connect()
        session = connection.open_session(transacted=False)
        consumer, _ = consume(session, self.queues[number])
        consumer.catch_up()
        found = []
        while (delivery := consumer.poll()) is not None:
            found.append((str(delivery.envelope.body), delivery.redelivered))
            session.acknowledge([delivery])
            consumer.catch_up()
        connection.close()
        return found

    def all_left(self) -> list[list[str]]:
        """Return the texts in the queues of all shards."""
        return [[text for text, _ in self.left(number)] for number in range(SHARDS)]


def consume(session: ProviderSession, address: Address) -> tuple[ProviderConsumer, Event]:
    """Return a consumer, and what is set when it may have a message."""
    ready = Event()
    request = SubscribeRequest(address=address, selector=None, no_local=False, durable_name=None)
    return session.subscribe(request, ready.set), ready


def take(consumer: ProviderConsumer, ready: Event) -> Delivery:
    """Wait for a message."""
    while True:
        ready.clear()
        delivery = consumer.poll_or_wait()
        if delivery is not None:
            return delivery
        assert ready.wait(PATIENCE_S), "no message came"
