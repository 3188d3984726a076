"""A virtual host whose queues have policies, with a clock by hand and a housekeeper that comes when the test says so."""

from __future__ import annotations

from typing import Any

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.core.host.admission import SendTimeout
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.host.virtual_host import VirtualHost
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from pyjms_provider.core.queue.consumer import ConsumerSession
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.scheduled import Scheduled
from pyjms_provider.core.store import MemoryMessageStore
from pyjms_provider.core.topic import Subscription
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork
from pyjms_provider.queue_manager import QueueManager
from tests.provider.helpers import CONNECTION, HandClock, Reader, make_envelope


class PolicyWorld:
    """One queue, ``orders``, with the policy that the test gives it, and all others by the host's policies."""

    def __init__(self, policies: QueuePolicies | None = None, **choices: Any) -> None:
        self.clock = HandClock()
        self.visits: dict[Scheduled, int] = {}
        self.store = MemoryMessageStore("test")
        policy = HostPolicy(queues=policies or QueuePolicies())
        self.host = VirtualHost("test", self.store, self.clock, policy=policy, schedule=self._ask)
        self.manager = QueueManager(self.host)
        self.manager.create("orders", QueuePolicy.from_mapping(choices) if choices else None)

    def _ask(self, channel: Scheduled, at_ms: int) -> None:
        self.visits[channel] = min(at_ms, self.visits.get(channel, at_ms))

    @property
    def queue(self) -> Queue:
        return self.host.queue("orders")

    def unit(self) -> UnitOfWork:
        return UnitOfWork(UnitId("unit"), ConsumerSession(ReceiverId("sender"), is_delivering=True))

    def send(
        self,
        text: str = "",
        to: str = "orders",
        *,
        unit: UnitOfWork | None = None,
        patience: SendTimeout | None = None,
        ttl_ms: int = 0,
        **rest: Any,
    ) -> Envelope:
        expiration_ms = self.clock.time_ms() + ttl_ms if ttl_ms else 0
        envelope = make_envelope(text, destination=address(to), expiration_ms=expiration_ms, **rest)
        self.host.route(envelope, CONNECTION, unit, patience)
        return envelope

    def reader(
        self,
        name: str = "reader",
        *,
        queue: str = "orders",
        selector: str | None = None,
        priority: int = 0,
        acquires: bool = True,
        interested: bool = False,
    ) -> Reader:
        session = ConsumerSession(ReceiverId(name), is_delivering=True)
        reader = Reader(name, session, self.host.queue(queue), selector, priority=priority, acquires=acquires)
        if interested:
            reader.consumer.set_interested(True)
        return reader

    def subscribe(self, topic: str, durable_name: str | None = None) -> Subscription:
        """Return a new subscription of a topic."""
        request = SubscribeRequest(address=address(topic), selector=None, no_local=False, durable_name=durable_name)
        return self.host.subscriptions.subscribe(request, CONNECTION, "client", self)

    def texts(self, name: str = "orders") -> list[str]:
        """Return the messages that a browser sees."""
        return [str(envelope.body) for envelope in self.host.queue(name).browse()]

    def letters(self, name: str = "DLQ") -> list[Envelope]:
        """Return the messages of a queue, whole."""
        return list(self.host.queue(name).browse())

    def pass_time(self, milliseconds: int) -> None:
        """Move the clock, and let the housekeeper come to whoever has asked for it by then."""
        self.clock.now_ms += milliseconds
        while due := [channel for channel, at_ms in self.visits.items() if at_ms <= self.clock.time_ms()]:
            self._visit(due)

    def set_clock(self, ahead_ms: int) -> None:
        """Set the clock on the wall, and let the housekeeper come to all, as it does where that was put back."""
        self.clock.ahead_ms = ahead_ms
        self._visit(list(self.visits))

    def _visit(self, channels: list[Scheduled]) -> None:
        for channel in channels:
            del self.visits[channel]
            again_ms = channel.run_due(self.clock.time_ms())
            if again_ms is not None:
                self._ask(channel, again_ms)


def address(name: str) -> Address:
    """Return a queue's address, or that of a topic after ``topic://``."""
    kind = AddressKind.TOPIC if name.startswith("topic://") else AddressKind.QUEUE
    return Address(kind, name.removeprefix("topic://"))


def pulled(reader: Reader) -> Delivery:
    """Return the next message, which must be there."""
    delivery = reader.pull()
    assert delivery is not None, f"{reader.name} found nothing"
    return delivery
