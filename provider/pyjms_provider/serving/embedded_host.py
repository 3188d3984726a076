"""An embedded broker as a virtual host that STOMP clients can connect to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ProviderError
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.clients.vm_consumer import VmConsumer
from pyjms_provider.clients.vm_session import VmSession
from pyjms_provider.core.queue.dead_letters import DEAD_DESTINATION, origin_of
from pyjms_provider.core.queue.policy import Overflow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from pyjms.spi.envelope import Address, ConnectionId, Envelope
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection, ProviderConsumer, ProviderSession
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.core.queue.consumer import DirectTaker
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.protocols.stomp.server.hosts import Sending
    from pyjms_provider.security.contracts import AccessPolicy, Principal

__all__ = ["EmbeddedHost"]


class EmbeddedHost:
    """Implements `ServedHost`."""

    def __init__(self, broker: EmbeddedBroker, access: AccessPolicy, port: UUID | None = None) -> None:
        """`port`: the id of the port by which clients come; None: by none that is managed."""
        self._broker = broker
        self._access = access
        self._port = port

    @property
    def name(self) -> str:
        """The broker's name."""
        return self._broker.name

    @property
    def access(self) -> AccessPolicy:
        """Who may do what here."""
        return self._access

    @property
    def writes(self) -> bool:
        """Whether there is a store."""
        return self._broker.virtual_host.storage is not None

    def waits_briefly(self, envelope: Envelope | None) -> bool:
        """Say whether what is done with a message, or settling and committing (None), waits for a local disk at most."""
        host = self._broker.virtual_host
        if host.storage is None or not host.storage.journal.is_local or host.store.is_pressed:
            return False
        if envelope is None or envelope.destination.temporary or envelope.destination.kind is AddressKind.TOPIC:
            return True
        queue = host.find_queue(envelope.destination.name)
        return queue is not None and not (queue.needs_admission and queue.policy.overflow is Overflow.BLOCK)

    def may_lack_room(self, address: Address) -> bool:
        """Say whether a send there may have to wait until others have made room, now or in a moment."""
        if address.temporary or address.kind is AddressKind.TOPIC:
            return False
        queue = self._broker.virtual_host.find_queue(address.name)
        return queue is None or (queue.policy.is_limited and queue.policy.overflow is Overflow.BLOCK)

    def send_together(self, sendings: Sequence[Sending]) -> Sequence[ProviderError | None]:
        """Send messages of several sessions; those of queues with nothing special to them are one write."""
        errors: list[ProviderError | None] = [None] * len(sendings)
        shared: list[tuple[int, Queue, Envelope, ConnectionId]] = []
        host = self._broker.virtual_host
        for index, sending in enumerate(sendings):
            envelope = sending.envelope
            try:
                sending.guard.send(envelope)
                queue = host.plain_queue(envelope)
                if queue is None:
                    sending.session.send(envelope)
                else:
                    shared.append((index, queue, envelope, sending.guard.connection_id))
            except ProviderError as error:
                errors[index] = error
        if shared and host.storage is not None:
            found = host.storage.send_together([(queue, envelope, origin) for _, queue, envelope, origin in shared])
            for (index, *_), why in zip(shared, found, strict=True):
                errors[index] = why
        return errors

    def send_at_once(self, session: ProviderSession, envelope: Envelope) -> None:
        """Send a message, and wait for no room. Raises `QueueFullError` where there is none."""
        assert isinstance(session, VmSession), "it is of a connection of this host"
        session.send_at_once(envelope)

    def connect(self, events: ConnectionEvents, *, principal: Principal, address: str) -> ProviderConnection:
        """Return a new connection. Raises `ClosedError` when the broker has stopped."""
        connection = VmConnection(self._broker, events)
        self._broker.describe(
            connection.connection_id,
            user=principal.name,
            address=address,
            protocol="stomp",
            principal=principal,
            access=self._access,
            port=self._port,
        )
        return connection

    def hand_over(self, consumer: ProviderConsumer, taker: DirectTaker) -> None:
        """Have messages for `consumer` handed to `taker` where they come in, as long as it says so."""
        if isinstance(consumer, VmConsumer):
            consumer.hand_over_to(taker)

    def has(self, address: Address) -> bool:
        """Say whether there is such a destination."""
        return self._broker.virtual_host.has_destination(address)

    def origin_of(self, envelope: Envelope) -> Address | None:
        """Return where an operator's replay would return a message to; None: nowhere."""
        if DEAD_DESTINATION not in envelope.properties:
            return None
        origin = origin_of(envelope.properties)
        return None if origin is None or origin[0].temporary else origin[0]

    def owner_of(self, address: Address) -> ConnectionId | str:
        """Return who made a temporary destination; "": nobody that is still here."""
        return self._broker.virtual_host.temporaries.owner_of(address) or ""
