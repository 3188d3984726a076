"""A broker on a volatile journal, worked with at the level of the SPI, that can crash and come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyjms.spi.clock import Clock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ConnectionLostError, ProviderError
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms.spi.selector import selector_or_none
from pyjms.testing import VirtualClock
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.vm import VmConnection, VmSession
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.settings import Acknowledge, BrokerSettings, StoreSettings
from pyjms_provider.stores.volatile import Medium, VolatileJournal
from tests.provider.helpers import make_envelope

ORDERS = Address(AddressKind.QUEUE, "orders")
BILLS = Address(AddressKind.QUEUE, "bills")
NEWS = Address(AddressKind.TOPIC, "news")


class _Events:
    def on_exception(self, error: ProviderError) -> None:
        assert isinstance(error, ConnectionLostError), error


class _UnaidedClock(VirtualClock):
    """Leaves what is due to the test that moves it, which interrupts that or counts what is written meanwhile."""

    def add_due_work(self, run_due: Callable[[], bool]) -> None:
        """Call nobody."""


class Site:
    """Where a broker runs again and again on one medium."""

    def __init__(
        self,
        *,
        memory_bytes: int = 10**9,
        policy: HostPolicy | None = None,
        acknowledge: Acknowledge = Acknowledge.WRITTEN,
    ) -> None:
        self.medium = self.make_medium()
        self.policy = policy or HostPolicy()
        self.clock: Clock = _UnaidedClock()
        self.memory_bytes = memory_bytes
        self.acknowledge = acknowledge
        self.trap: Callable[[str, Changes], None] | None = None
        """Called at the points of the journal; it may raise."""
        self.points: list[str] = []
        self._runs: list[tuple[EmbeddedBroker, VolatileJournal]] = []
        self.start()

    @property
    def broker(self) -> EmbeddedBroker:
        """The broker that runs now."""
        return self._runs[-1][0]

    @property
    def journal(self) -> VolatileJournal:
        """Its journal."""
        return self._runs[-1][1]

    def start(self) -> None:
        """Open the medium with a new broker."""
        journal = self.make_journal()
        store = StoreSettings(url="volatile", memory_bytes=self.memory_bytes, acknowledge=self.acknowledge)
        settings = BrokerSettings(store=store, policy=self.policy)
        self._runs.append((EmbeddedBroker("site", self.clock, settings, journal=journal), journal))

    def make_medium(self) -> Medium:
        """Return what keeps what is written."""
        return Medium()

    def make_journal(self) -> VolatileJournal:
        """Open the medium."""
        return VolatileJournal(self.medium, self._tap)

    def crash(self) -> None:
        """Let the process die, and another one take its place."""
        self.journal.crash()
        self.start()

    def restart(self) -> None:
        """Stop in an orderly way and start again."""
        self.broker.stop()
        self.start()

    def stop(self) -> None:
        """End all brokers that have run here."""
        self.trap = None
        for broker, _ in self._runs:
            broker.stop()

    def _tap(self, point: str, changes: Changes) -> None:
        self.points.append(point)
        if self.trap is not None:
            self.trap(point, changes)

    # Clients

    def connect(self, client_id: str | None = None) -> VmConnection:
        """Return a started connection."""
        connection = VmConnection(self.broker, _Events())
        if client_id is not None:
            connection.set_client_id(client_id)
        connection.start()
        return connection

    def session(self, *, transacted: bool = False) -> VmSession:
        """Return a session of a connection of its own."""
        return self.connect().open_session(transacted=transacted)

    def send(self, text: str, session: VmSession | None = None, to: Address = ORDERS, **fields: Any) -> None:
        """Send a PERSISTENT message."""
        session = session or self.session()
        mode = fields.pop("delivery_mode", 2)
        session.send(replace(make_envelope(text, destination=to), delivery_mode=mode, **fields))

    def drain(self, address: Address = ORDERS) -> list[tuple[str, int]]:
        """Take and acknowledge all that is there; return the texts and how often each was delivered."""
        session = self.session()
        taken = take_all(consume(session, address))
        found = [(str(each.envelope.body), each.count) for each in taken]
        session.acknowledge(taken)
        session.close()
        return found

    def texts(self, address: Address = ORDERS) -> list[str]:
        """Return the texts of what is there, without taking it."""
        return [str(each.envelope.body) for each in self.session().browse(address, None)]


def consume(
    session: VmSession,
    address: Address = ORDERS,
    selector: str | None = None,
    durable_name: str | None = None,
    *,
    shared_name: str | None = None,
    is_shared: bool = False,
) -> ProviderConsumer:
    """Subscribe without being told of messages."""
    request = SubscribeRequest(
        address=address,
        selector=selector_or_none(selector),
        no_local=False,
        durable_name=durable_name,
        shared_name=shared_name,
        is_shared=is_shared,
    )
    return session.subscribe(request, lambda: None)


def take_all(consumer: ProviderConsumer) -> list[Delivery]:
    """Poll until there is nothing."""
    found: list[Delivery] = []
    while (delivery := consumer.poll()) is not None:
        found.append(delivery)
    return found


def text(delivery: Delivery | None) -> str | None:
    """Return the text of a delivery."""
    return None if delivery is None else str(delivery.envelope.body)


def work(site: Site) -> VmSession:
    """Receive an order and send a bill, in one transaction that is not committed."""
    session = site.session(transacted=True)
    delivery = consume(session).poll()
    assert delivery is not None
    assert text(delivery) == "order"
    session.acknowledge([delivery])
    site.send("bill", session, BILLS)
    return session
