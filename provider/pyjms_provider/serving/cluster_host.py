"""A virtual host that several brokers serve, as the ports of one of them see it."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError, ProviderError
from pyjms.spi.provider import ProviderConsumer
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.cluster.partitions import TurnsConsumer
from pyjms_provider.clients.cluster.session import ClusterSession
from pyjms_provider.clients.network.failover import ConnectionInterruptedError
from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.core.policy import Overflow
from pyjms_provider.core.queue.dead_letters import returned_to
from pyjms_provider.protocols.engine import DeclinedJobError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import ConnectionId, Envelope
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection, ProviderSession, SubscribeRequest
    from pyjms_provider.core.host.host_policy import HostPolicy
    from pyjms_provider.core.queue.consumer import DirectConsumer
    from pyjms_provider.model.clustered import Membership
    from pyjms_provider.protocols.hosts import Sending
    from pyjms_provider.security.contracts import AccessPolicy, Principal


_log = logging.getLogger(__name__)


class _ServedEvents:
    """Implements `ConnectionEvents` for a client of a port, whose connection goes on when a shard gets another leader."""

    def __init__(self, events: ConnectionEvents) -> None:
        self._events = events

    def on_exception(self, error: ProviderError) -> None:
        """Tell the port of what ends the connection."""
        if isinstance(error, ConnectionInterruptedError):
            _log.info("a client waits for the next leader of a shard: %s", error.reason)
        else:
            self._events.on_exception(error)


class ClusterHost:
    """Implements `ServedHost`."""

    def __init__(
        self, membership: Membership, access: AccessPolicy, port: UUID | None = None, protocol: str = "stomp"
    ) -> None:
        """`port`: the id of the port of the clients; None: no managed port; `protocol`: theirs, for observers."""
        self._membership = membership
        self._member = membership.member
        self._known = membership.known
        self._access = access
        self._port = port
        self._protocol = protocol

    @property
    def name(self) -> str:
        """The name of the virtual host."""
        return self._member.name

    @property
    def access(self) -> AccessPolicy:
        """The access policy of the host."""
        return self._access

    @property
    def writes(self) -> bool:
        """Whether settling and committing may wait: all shards have a store."""
        return True

    @property
    def asks_others(self) -> bool:
        """Return True: another member may lead what a call is about, and its link may lead back to this process's own port."""
        return True

    @property
    def _policy(self) -> HostPolicy:
        return self._member.settings.broker.policy

    @property
    def persists_all(self) -> bool:
        """Whether NON_PERSISTENT messages are written, too."""
        return self._policy.persist_all or self._policy.keep_transient

    @property
    def creates_on_demand(self) -> bool:
        """Whether clients create queues by using them."""
        return self._policy.create_on_demand

    def waits_briefly(self, envelope: Envelope | None) -> bool:
        """Return False: a send, a settlement and a commit wait for a database, and perhaps for another member."""
        return False

    def may_wait_for_room(self, address: Address) -> bool:
        """Return whether a send to that address may have to wait for free capacity, now or in a moment."""
        if address.temporary or address.kind is AddressKind.TOPIC:
            return False
        broker = self._known.broker_of(address)
        queue = None if broker is None else broker.virtual_host.find_queue(address.name)
        # A queue of another member, and one that is not there yet, may have a limit.
        return queue is None or (queue.policy.is_limited and queue.policy.overflow is Overflow.BLOCK)

    def send_together(self, sendings: Sequence[Sending]) -> Sequence[ProviderError | None]:
        """Send messages of several sessions one by one, as they are for several shards."""
        errors: list[ProviderError | None] = []
        for sending in sendings:
            try:
                sending.guard.send(sending.envelope)
                sending.session.send(sending.envelope)
            except ProviderError as error:
                # One sender's error must not keep the messages of the others back.
                errors.append(error)
            else:
                errors.append(None)
        return errors

    def send_at_once(self, session: ProviderSession, envelope: Envelope) -> None:
        """Send a message without waiting for capacity. Raises `QueueFullError` if the queue is full."""
        assert isinstance(session, ClusterSession), "it is of a connection of this host"
        session.send_at_once(envelope)

    @property
    def has_remote(self) -> bool:
        """Whether other processes have some of its destinations: other members do."""
        return True

    def begin_send(
        self, session: ProviderSession, envelope: Envelope, done: Callable[[BaseException | None], None]
    ) -> bool:
        """Have the member that leads the shard send a message, if that is another one; return whether it was asked."""
        assert isinstance(session, ClusterSession), "it is of a connection of this host"

        def sent(error: ProviderError | None) -> None:
            # Its queue may just have been placed elsewhere: a send that waits for that finds it, or raises the error.
            done(DeclinedJobError() if isinstance(error, DestinationError) else error)

        return session.begin_send(envelope, sent)

    def begin_acknowledge(
        self, session: ProviderSession, deliveries: Sequence[Delivery], done: Callable[[BaseException | None], None]
    ) -> bool:
        """Have the member that leads the shard settle messages, if that is another one; return whether it was asked."""
        assert isinstance(session, ClusterSession), "it is of a connection of this host"
        return session.begin_acknowledge(deliveries, done)

    def subscribe(
        self,
        session: ProviderSession,
        requests: Sequence[SubscribeRequest],
        on_ready: Callable[[], None],
        client_id: str | None = None,
    ) -> ProviderConsumer:
        """Return one consumer for all requests, which takes their messages in turn."""
        assert isinstance(session, ClusterSession), "it is of a connection of this host"
        consumers: list[ProviderConsumer] = []
        with ExitStack() as undo:
            for request in requests:
                consumer = session.subscribe(request, on_ready, client_id)
                undo.callback(consumer.close)
                consumers.append(consumer)
            undo.pop_all()
        return consumers[0] if len(consumers) == 1 else TurnsConsumer(consumers)

    def unsubscribe(self, session: ProviderSession, name: str, client_id: str) -> None:
        """Delete a durable subscription of a client, empty: of none."""
        assert isinstance(session, ClusterSession), "it is of a connection of this host"
        session.unsubscribe(name, client_id)

    def connect(self, events: ConnectionEvents, *, principal: Principal, address: str) -> ProviderConnection:
        """Return a new connection. Raises `ClosedError` when the member has stopped."""
        front = self._member.front
        connection = ClusterConnection(self._member, _ServedEvents(events), front.clock)
        front.describe(
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
        """Do nothing: what a shard delivers passes through the session of the cluster, which knows when its leader changes."""

    def has(self, address: Address) -> bool:
        """Return whether there is such a destination; may ask another member (`KnownDestinations.has`). Raises `ResourceError`."""
        return self._known.has(address)

    def origin_of(self, envelope: Envelope) -> Address | None:
        """Return the address to which an operator's replay would return a message; None: nowhere."""
        return returned_to(envelope)

    def topic_of_subscription(self, client_id: str, name: str) -> Address | None:
        """Return the topic of a durable subscription; None: there is none. Waits for the database. Raises `ResourceError`."""
        topic = self._member.subscriptions.topic_of(SubscriptionKey(client_id, name))
        return None if topic is None else Address(AddressKind.TOPIC, topic)

    def owner_of(self, address: Address) -> ConnectionId | str:
        """Return the owner of a temporary destination; "": none that is connected to this member."""
        return self._member.front.virtual_host.temporaries.owner_of(address) or ""
