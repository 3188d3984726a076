"""Simulated links between members: calls that are delayed, and lost with their connection.

A call runs at the member that leads, in a task of that host, whatever becomes of the caller meanwhile. A link that is lost is not made again by
itself: its client connects again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import (
    BranchError,
    ConnectionLostError,
    InDoubtError,
    ProviderError,
    ResourceError,
    TooLateError,
)
from pyjms.spi.provider import ProviderConnection, ProviderConsumer, ProviderSession
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.vm import VmConnection, VmConsumer, VmSession
from tests.provider.simulation.cluster.cooperative import Host, Scheduler, Task, Waiting

if TYPE_CHECKING:
    from pyjms.spi.capability import Capability
    from pyjms.spi.clock import Clock
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import ConnectionId, Envelope
    from pyjms.spi.provider import ConnectionEvents, ProviderInfo, SubscribeRequest
    from pyjms_provider.cluster.links import LinkRequest
    from pyjms_provider.cluster.settings import LinkSettings, LinkTls

_Result = TypeVar("_Result")
Find = Callable[[str], EmbeddedBroker | None]
_CONNECT_MS: Final = 300
_PATIENCE_MS: Final = 2_000
"""A link without an answer for that long is lost: the heart-beats of its host have not come."""
_NOTICE_MS: Final = 300


@dataclass(eq=False)
class WatchedConsumer:
    """A consumer at a leader."""

    is_of_subscription: bool
    """Whether it is the consumer of a subscription that is not durable."""
    heard: set[str] = field(default_factory=set)
    """The messages that it was given."""


class Network:
    """All link ports and links."""

    def __init__(
        self, scheduler: Scheduler, handed_out: Callable[[EmbeddedBroker, Delivery, WatchedConsumer], None]
    ) -> None:
        """`handed_out` is told of each delivery, when the leader makes it."""
        self.scheduler = scheduler
        self.handed_out = handed_out
        self.ports: dict[str, tuple[Host, Find]] = {}
        self.links: list[LinkConnection] = []
        self._cut: set[frozenset[str]] = set()
        """The pairs of hosts that do not reach each other."""
        self.changed = Waiting()
        """The tasks that wait for two hosts to reach each other, or for the end of a link."""
        self._last_port = 0

    def is_cut(self, one: Host, other: Host) -> bool:
        """Return whether two hosts do not reach each other."""
        return frozenset((one.name, other.name)) in self._cut

    def cut(self, one: str, other: str) -> None:
        """Let two hosts not reach each other."""
        self._cut.add(frozenset((one, other)))

    def mend(self, name: str | None = None) -> None:
        """Let a host, or all, reach the others."""
        self._cut = {pair for pair in self._cut if name is not None and name not in pair}
        self.changed.tell()

    def open_port(self, host: Host, find: Find) -> int:
        """Open a link port."""
        self._last_port += 1
        self.ports[f"127.0.0.1:{self._last_port}"] = (host, find)
        return self._last_port

    def close_port(self, port: int) -> None:
        """Close a link port, and its links."""
        host, _ = self.ports.pop(f"127.0.0.1:{port}")
        self.lose_all(lambda link: link.server is host)

    def lose_all(self, is_meant: Callable[[LinkConnection], bool]) -> None:
        """Lose links."""
        for link in list(self.links):
            if is_meant(link):
                link.lose("its connection was lost")


@dataclass(eq=False)
class _Call:
    act: Callable[[], Any]
    done: Signal = field(default_factory=Signal)
    is_begun: bool = False
    is_lost: bool = False
    result: Any = None
    error: ProviderError | None = None


class OpenPort:
    """Implements `cluster.links.LinkPort`."""

    def __init__(self, network: Network, port: int) -> None:
        self._network = network
        self.port = port

    def reload_certificates(self, tls: LinkTls) -> None:
        """Do nothing: it has none."""

    def close(self) -> None:
        """Close it."""
        with suppress(KeyError):
            self._network.close_port(self.port)


class SimulatedLinks:
    """The links of one host. Implements `cluster.links.Links`."""

    def __init__(self, network: Network, host: Host) -> None:
        self._network = network
        self._host = host

    def listen(self, settings: LinkSettings, find: Find, secret: str, clock: Clock) -> OpenPort:
        """Open a port."""
        return OpenPort(self._network, self._network.open_port(self._host, find))

    def connect_here(self, broker: EmbeddedBroker, events: ConnectionEvents) -> ProviderConnection:
        """Connect within the process."""
        return LocalConnection(self._network, broker, events)

    def consuming(self, broker: EmbeddedBroker) -> set[str | None]:
        """Return nobody: shards follow no consumers here."""
        return set()

    def connect(
        self, request: LinkRequest, clock: Clock, events: ConnectionEvents
    ) -> tuple[ProviderConnection, LinkConnection]:
        """Open a link."""
        network, scheduler = self._network, self._network.scheduler
        for address in request.addresses:
            scheduler.sleep(scheduler.random.choice((0, 1, 5)))
            host, find = network.ports.get(address, (None, None))
            if host is None or find is None or host.is_dead:
                continue
            if host.is_paused or network.is_cut(self._host, host):
                scheduler.sleep(_CONNECT_MS)
                continue
            broker = find(request.broker)
            if broker is None:
                continue
            with suppress(ProviderError):  # it is just being stopped
                link = LinkConnection(network, self._host, host, broker, events)
                network.links.append(link)
                return link, link
        raise ResourceError(f"no link port has {request.broker} now")


class LocalConnection(VmConnection):
    """A connection within the process, whose deliveries are told."""

    def __init__(self, network: Network, broker: EmbeddedBroker, events: ConnectionEvents) -> None:
        super().__init__(broker, events)
        self._network = network

    def open_session(self, *, transacted: bool) -> VmSession:
        """Open a session whose consumers tell of deliveries."""
        session = super().open_session(transacted=transacted)
        subscribe = session.subscribe

        def attach(request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
            consumer = subscribe(request, on_ready)
            assert isinstance(consumer, VmConsumer)
            poll = consumer.poll
            watched = WatchedConsumer(request.address.kind is AddressKind.TOPIC and request.durable_name is None)

            def told() -> Delivery | None:
                delivery = poll()
                if delivery is not None:
                    _ = delivery.envelope  # it may have to be written first that it is delivered
                    self._network.handed_out(self.broker, delivery, watched)
                return delivery

            consumer.poll = told  # type: ignore[method-assign]
            return consumer

        session.subscribe = attach  # type: ignore[method-assign, assignment]
        return session


class _ServerEvents:
    """Ends a link when the broker behind it ends."""

    def __init__(self) -> None:
        self.link: LinkConnection | None = None

    def on_exception(self, error: ProviderError) -> None:
        """Lose the link if the broker's connection is lost."""
        if isinstance(error, ConnectionLostError) and self.link is not None:
            self.link.lose(error.reason)


class LinkConnection(ProviderConnection):
    """A connection to a broker of another member. Implements `cluster.links.Link` as well."""

    def __init__(
        self, network: Network, client: Host, server: Host, broker: EmbeddedBroker, events: ConnectionEvents
    ) -> None:
        self._network = network
        self._scheduler = network.scheduler
        self.client = client
        self.server = server
        self._events = events
        self._is_over = False
        self._queue: deque[_Call] = deque()
        self._more = Signal()
        there = _ServerEvents()
        self._there = LocalConnection(network, broker, there)
        there.link = self
        self.address = next((each for each, (host, _) in network.ports.items() if host is server), "")
        Task(target=self._serve, name=f"link {client.name} {server.name}", host=server).start()

    # The network

    @property
    def is_over(self) -> bool:
        """Whether it is lost or closed."""
        return self._is_over

    @property
    def is_connected(self) -> bool:
        """Whether it is there: it is never connected again."""
        return not self._is_over

    def add(self, addresses: Sequence[str]) -> None:
        """Do nothing: it connects to no other port."""

    def redirect(self, address: str) -> None:
        """End if another member leads."""
        if address != self.address:
            self.lose("another member leads")

    def lose(self, why: str) -> None:
        """Lose it, with all calls under way."""
        if self._end() and not self.client.is_dead:
            error = ConnectionLostError(f"the link to {self.server.name} was lost: {why}")
            Task(target=self._events.on_exception, args=(error,), name="link lost", host=self.client).start()

    def _end(self) -> bool:
        if self._is_over:
            return False
        self._is_over = True
        self._network.links.remove(self)
        self._network.changed.tell()
        self._more.set()
        for call in self._queue:
            call.is_lost = True
            call.done.set()
        self._queue.clear()
        return True

    def _serve(self) -> None:
        scheduler = self._scheduler
        while not self._is_over:
            if not self._queue:
                scheduler.wait(self._more, None)
                continue
            call = self._queue[0]
            self._delay()
            self._answer(call)
        scheduler.sleep(scheduler.random.random() * _NOTICE_MS)
        self._there.close()

    def _answer(self, call: _Call) -> None:
        """Do what was asked for, unless the link is lost."""
        if self._is_over:
            return
        call.is_begun = True
        try:
            call.result = call.act()
        except ProviderError as error:
            call.error = error
        if call in self._queue:
            self._queue.popleft()
            call.done.set()

    def _delay(self) -> None:
        scheduler = self._scheduler
        slow_ms = self.client.slow_ms + self.server.slow_ms
        if slow_ms:
            scheduler.sleep(scheduler.random.random() * slow_ms)
        elif scheduler.random.random() < 0.1:
            scheduler.sleep(scheduler.random.choice((0, 1, 10)))
        until_ms = scheduler.now_ms + _PATIENCE_MS
        while self._network.is_cut(self.client, self.server) and not self._is_over:
            if scheduler.now_ms >= until_ms:
                self.lose("it has been silent for too long")
            else:
                self._network.changed.wait(scheduler, until_ms)

    def call(self, act: Callable[[], _Result], lost: Callable[[str], ProviderError] = ConnectionLostError) -> _Result:
        """Have something done at the other end; raise `lost` if the link is lost after that may have begun."""
        if self._is_over:
            raise ConnectionLostError("the link was lost before")
        call = _Call(act)
        self._queue.append(call)
        self._more.set()
        scheduler = self._scheduler
        if not scheduler.wait(call.done, scheduler.now_ms + _PATIENCE_MS) and not call.done.is_raised:
            self.lose("it does not answer")
        else:
            self._delay()
        if call.is_lost or self._is_over:
            # What has not begun never begins, as the server takes nothing from a link that is over.
            raise lost("the link was lost during the call") if call.is_begun else ConnectionLostError("it was lost")
        if call.error is not None:
            raise call.error
        result: _Result = call.result
        return result

    # The SPI

    @property
    def connection_id(self) -> ConnectionId:
        return self._there.connection_id

    @property
    def capabilities(self) -> Capability:
        return self._there.capabilities

    @property
    def info(self) -> ProviderInfo:
        return self._there.info

    def set_client_id(self, client_id: str) -> None:
        self.call(lambda: self._there.set_client_id(client_id))

    def open_session(self, *, transacted: bool) -> ProviderSession:
        return LinkSession(self, self.call(lambda: self._there.open_session(transacted=transacted)))

    def start(self) -> None:
        self.call(self._there.start)

    def stop(self) -> None:
        self.call(self._there.stop)

    def close(self) -> None:
        """Close it; nothing is told."""
        self._end()


class LinkSession(ProviderSession):
    """A session over a link."""

    def __init__(self, link: LinkConnection, there: VmSession) -> None:
        self._link = link
        self._there = there

    def send(self, envelope: Envelope) -> None:
        lost = ConnectionLostError if self._there._transacted else InDoubtError
        self._link.call(lambda: self._there.send(envelope), lost)

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        # Its clients look by themselves.
        return LinkConsumer(self._link, self._link.call(lambda: self._there.subscribe(request, lambda: None)))

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        lost = TooLateError if self._there._transacted else InDoubtError
        self._link.call(lambda: self._there.acknowledge(deliveries), lost)

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._link.call(lambda: self._there.recover(deliveries))

    def commit(self) -> None:
        self._link.call(self._there.commit, InDoubtError)

    def rollback(self) -> None:
        self._link.call(self._there.rollback)

    def prepare(self, xid: Xid) -> bool:
        return self._link.call(lambda: self._there.prepare(xid), InDoubtError)

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self._link.call(lambda: self._there.xa_commit(xid, one_phase=one_phase), _unreachable)

    def xa_rollback(self, xid: Xid) -> None:
        self._link.call(lambda: self._there.xa_rollback(xid), _unreachable)

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        self._link.call(lambda: self._there.xa_start(xid, join=join, resume=resume))

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        self._link.call(lambda: self._there.xa_end(xid, suspend=suspend, fail=fail))

    def xa_prepare(self, xid: Xid) -> bool:
        return self._link.call(lambda: self._there.xa_prepare(xid), _unreachable)

    def xa_prepare_as(self, xid: Xid, name: Xid) -> bool:
        return self._link.call(lambda: self._there.xa_prepare_as(xid, name), _unreachable)

    def xa_note(self, xid: Xid, notes: Collection[str] = ()) -> Collection[str]:
        return self._link.call(lambda: self._there.xa_note(xid, notes), _unreachable)

    def xa_recover(self) -> Sequence[Xid]:
        return self._link.call(self._there.xa_recover)

    def close(self) -> None:
        self._link.call(self._there.close)


def _unreachable(why: str) -> ProviderError:
    return BranchError(why, BranchFailure.UNREACHABLE)


class LinkConsumer(ProviderConsumer):
    """A consumer over a link."""

    def __init__(self, link: LinkConnection, there: ProviderConsumer) -> None:
        self._link = link
        self._there = there

    def poll(self) -> Delivery | None:
        return self._link.call(self._there.poll)

    def set_interested(self, interested: bool) -> None:
        """Do nothing: its clients look by themselves."""

    def close(self) -> None:
        self._link.call(self._there.close)
