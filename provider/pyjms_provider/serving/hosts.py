"""The virtual hosts of a broker to which STOMP clients can connect, and the log of a port that lets in everybody."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ClosedError, ProviderError
from pyjms_provider.clients.vm import VmConnection, VmConsumer, VmSession
from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.core.policy import Overflow
from pyjms_provider.core.queue.dead_letters import returned_to
from pyjms_provider.model.errors import WrongStateError
from pyjms_provider.model.lookup import collect
from pyjms_provider.model.managed import ConfigurationChangeListener, State
from pyjms_provider.model.port import Port
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.cluster_host import ClusterHost
from pyjms_provider.transport.listener import is_reached_from_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address, ConnectionId, Envelope
    from pyjms.spi.provider import (
        ConnectionEvents,
        ProviderConnection,
        ProviderConsumer,
        ProviderSession,
        SubscribeRequest,
    )
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.core.queue.consumer import DirectConsumer
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.protocols.hosts import Sending, ServedHost
    from pyjms_provider.security.contracts import AccessPolicy, Principal


_log = logging.getLogger(__name__)


def log_open_access(port: Port) -> None:
    """Log that a port lets in everybody, if it does; as a warning if other machines can reach it."""
    if not port.lets_in_everybody:
        return
    if is_reached_from_elsewhere(port.chosen.host):
        _log.warning(
            "PYJMS-SECURITY-8 %s lets in everybody who reaches it, from other machines too, and checks no login",
            port.path,
        )
    else:
        _log.info("PYJMS-SECURITY-8 %s lets in everybody on this machine, and checks no login", port.path)


class EmbeddedHost:
    """Implements `ServedHost`."""

    def __init__(
        self, broker: EmbeddedBroker, access: AccessPolicy, port: UUID | None = None, protocol: str = "stomp"
    ) -> None:
        """`port`: the id of the port of the clients; None: no managed port; `protocol`: theirs, for observers."""
        self._broker = broker
        self._access = access
        self._port = port
        self._protocol = protocol

    @property
    def name(self) -> str:
        """The broker's name."""
        return self._broker.name

    @property
    def access(self) -> AccessPolicy:
        """The access policy of the host."""
        return self._access

    @property
    def writes(self) -> bool:
        """Whether there is a store."""
        return self._broker.virtual_host.storage is not None

    @property
    def asks_others(self) -> bool:
        """Return False: all is in this process."""
        return False

    @property
    def persists_all(self) -> bool:
        """Whether NON_PERSISTENT messages are written, too."""
        host = self._broker.virtual_host
        return self.writes and (host.ignored_modes is not None or host.keeps_transient)

    @property
    def creates_on_demand(self) -> bool:
        """Whether clients create queues by using them."""
        return self._broker.virtual_host.policy.create_on_demand

    def waits_briefly(self, envelope: Envelope | None) -> bool:
        """Return whether a send, or a settlement or commit (`envelope` None), waits for a local disk at most."""
        host = self._broker.virtual_host
        if host.storage is None or not host.storage.journal.is_local or host.store.is_pressed:
            return False
        if envelope is None or envelope.destination.temporary or envelope.destination.kind is AddressKind.TOPIC:
            return True
        queue = host.find_queue(envelope.destination.name)
        # A queue that is full and blocks keeps the sender waiting for its consumers, however fast the disk is.
        return queue is not None and not (queue.needs_admission and queue.policy.overflow is Overflow.BLOCK)

    def may_wait_for_room(self, address: Address) -> bool:
        """Return whether a send to that address may have to wait for free capacity, now or in a moment."""
        if address.temporary or address.kind is AddressKind.TOPIC:
            return False
        queue = self._broker.virtual_host.find_queue(address.name)
        # A queue that is not there yet is made by the send, perhaps with a limit.
        return queue is None or (queue.policy.is_limited and queue.policy.overflow is Overflow.BLOCK)

    def send_together(self, sendings: Sequence[Sending]) -> Sequence[ProviderError | None]:
        """Send messages of several sessions; those for queues without special features are one write, up to one that is not."""
        errors: list[ProviderError | None] = [None] * len(sendings)
        shared: list[tuple[int, Queue, Envelope, ConnectionId]] = []
        host = self._broker.virtual_host
        for index, sending in enumerate(sendings):
            envelope = sending.envelope
            try:
                # The sender's rights are asked here: `plain_queue` and the storage manager below know of no users.
                sending.guard.send(envelope)
                queue = host.plain_queue(envelope)
                if queue is None:
                    # It must not overtake earlier ones of its session.
                    self._write_together(shared, errors)
                    sending.session.send(envelope)
                else:
                    shared.append((index, queue, envelope, sending.guard.connection_id))
            except ProviderError as error:
                # One sender's error must not keep the messages of the others back.
                errors[index] = error
        self._write_together(shared, errors)
        return errors

    def _write_together(
        self, shared: list[tuple[int, Queue, Envelope, ConnectionId]], errors: list[ProviderError | None]
    ) -> None:
        """Write messages in one step, and enter the error of each at its place; the list is empty afterwards."""
        storage = self._broker.virtual_host.storage
        if shared and storage is not None:
            found = storage.send_together([(queue, envelope, origin) for _, queue, envelope, origin in shared])
            for (index, *_), why in zip(shared, found, strict=True):
                errors[index] = why
        shared.clear()

    def send_at_once(self, session: ProviderSession, envelope: Envelope) -> None:
        """Send a message without waiting for capacity. Raises `QueueFullError` if the queue is full."""
        assert isinstance(session, VmSession), "it is of a connection of this host"
        session.send_at_once(envelope)

    @property
    def has_remote(self) -> bool:
        """Return False: this process has all of its destinations."""
        return False

    def begin_send(
        self, session: ProviderSession, envelope: Envelope, done: Callable[[BaseException | None], None]
    ) -> bool:
        """Return False: this process sends it."""
        return False

    def begin_acknowledge(
        self, session: ProviderSession, deliveries: Sequence[Delivery], done: Callable[[BaseException | None], None]
    ) -> bool:
        """Return False: this process settles them."""
        return False

    def subscribe(
        self,
        session: ProviderSession,
        requests: Sequence[SubscribeRequest],
        on_ready: Callable[[], None],
        client_id: str | None = None,
    ) -> ProviderConsumer:
        """Return one consumer for all requests, which takes their messages in turn."""
        assert isinstance(session, VmSession), "it is of a connection of this host"
        return session.subscribe_to_all(requests, on_ready, client_id)

    def unsubscribe(self, session: ProviderSession, name: str, client_id: str) -> None:
        """Delete a durable subscription of a client, empty: of none."""
        assert isinstance(session, VmSession), "it is of a connection of this host"
        session.unsubscribe(name, client_id)

    def connect(self, events: ConnectionEvents, *, principal: Principal, address: str) -> ProviderConnection:
        """Return a new connection. Raises `ClosedError` when the broker has stopped."""
        connection = VmConnection(self._broker, events)
        self._broker.describe(
            connection.connection_id,
            user=principal.name,
            address=address,
            protocol=self._protocol,
            principal=principal,
            access=self._access,
            port=self._port,
        )
        return connection

    def hand_over(self, consumer: ProviderConsumer, taker: DirectConsumer) -> None:
        """Deliver messages for `consumer` directly to `taker` when they arrive, as long as the taker accepts them."""
        if isinstance(consumer, VmConsumer):
            consumer.hand_over_to(taker)

    def has(self, address: Address) -> bool:
        """Return whether there is such a destination."""
        return self._broker.virtual_host.has_destination(address)

    def origin_of(self, envelope: Envelope) -> Address | None:
        """Return the address to which an operator's replay would return a message; None: nowhere."""
        return returned_to(envelope)

    def topic_of_subscription(self, client_id: str, name: str) -> Address | None:
        """Return the topic of a durable subscription; None: there is none."""
        found = self._broker.virtual_host.subscriptions.durable().get(SubscriptionKey(client_id, name))
        return None if found is None else found.terms.topic

    def owner_of(self, address: Address) -> ConnectionId | str:
        """Return the owner of a temporary destination; "": none that is still connected."""
        return self._broker.virtual_host.temporaries.owner_of(address) or ""


def running_hosts(root: ManagedObject) -> list[VirtualHost]:
    """Return the virtual hosts of a tree that run, shards of clusters among them, in the order of their names."""
    return [each for each in _hosts_and_shards(root) if each.is_running]


def _hosts_and_shards(root: ManagedObject) -> list[VirtualHost]:
    return [each for each in collect(root, "virtual_host") if isinstance(each, VirtualHost)]


def _all_hosts(root: ManagedObject) -> list[VirtualHost]:
    """Return the virtual hosts for clients: a shard of a cluster serves them only as a part of its host."""
    return [each for each in _hosts_and_shards(root) if each.shard is None]


def check_hosts(port: Port) -> None:
    """Raise `WrongStateError` if there are virtual hosts and all have failed: failover clients would connect here, and find nothing."""
    hosts = _all_hosts(port.root)
    # A port without any virtual host may open: the first one may be created while it is open.
    if hosts and all(each.state is State.ERRORED for each in hosts):
        failed = "; ".join(f"{each.path} is in error" for each in hosts)
        raise WrongStateError(f"{failed}, so {port.path} would serve nobody; start that first, and then the port")


class HostFailures(ConfigurationChangeListener):
    """Closes ports of clients when the last virtual host behind them has failed, for example as another broker has taken its store."""

    def __init__(self, root: ManagedObject) -> None:
        root.add_listener(self, below=True)
        self._look(root)  # one may have failed just before

    def state_changed(self, managed: ManagedObject, old: State, new: State) -> None:
        if isinstance(managed, VirtualHost) and managed.shard is None and new is State.ERRORED:
            self._look(managed.root)

    def _look(self, root: ManagedObject) -> None:
        for port in collect(root, "port"):
            if isinstance(port, Port) and port.is_for_clients:
                with suppress(ClosedError):  # the broker ends, and its ports with it
                    port.configuration_thread.submit(partial(_close_without_hosts, port))


def _close_without_hosts(port: Port) -> None:
    try:
        check_hosts(port)
    except WrongStateError as error:
        port.close_as_failed(error)


class ManagedHosts:
    """Implements `HostDirectory` for a port."""

    def __init__(self, port: Port, default_host: str, synthetic: EmbeddedBroker | None = None) -> None:
        """`synthetic`: a host that is not in the tree, found by its name alone."""
        self._port = port
        self._default = default_host
        self._synthetic = synthetic

    def find(self, name: str) -> ServedHost | None:
        """Return the virtual host of that name, otherwise the default one, or the only one. None if that does not run.

        Clients of other brokers put the machine's name into `host`: that must not be an error. But a client of a host that does
        not run just now must not be connected to another host.
        """
        if self._synthetic is not None and name == self._synthetic.name:
            return EmbeddedHost(self._synthetic, self._port.access(), self._port.id, self._port.type)
        # Read for each connection: virtual hosts are created and deleted while the port is open.
        hosts = {each.name: each for each in _all_hosts(self._port.root)}
        found = hosts.get(name) or hosts.get(self._default)
        if found is None and len(hosts) == 1 and not self._default:
            found = next(iter(hosts.values()))
        if found is None:
            return None
        access, port = self._port.access(), self._port
        membership = found.membership
        if membership is not None:
            return ClusterHost(membership, access, port.id, port.type)
        try:
            return EmbeddedHost(found.embedded, access, port.id, port.type)
        # The host was stopped between the look-up and this call.
        except WrongStateError:
            return None
