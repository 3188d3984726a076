"""What sessions use of their connection, and consumers of both."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyjms.spi.capability import Capability
    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.errors import ProviderError
    from pyjms.spi.provider import ProviderConsumer, ProviderSession
    from pyjms_provider.clients.amqp.commands import CommandLink
    from pyjms_provider.clients.amqp.links import ClientLink, SendingLink
    from pyjms_provider.clients.amqp.options import AmqpSettings
    from pyjms_provider.clients.amqp.physical_connection import PhysicalConnection
    from pyjms_provider.clients.amqp.profiles import BrokerProfile
    from pyjms_provider.clients.network.failover import FailoverConnection
    from pyjms_provider.protocols.amqp.session import Session


class ClientConnection(Protocol):
    """What sessions and consumers use of an `AmqpConnection`."""

    settings: AmqpSettings
    clock: Clock
    profile: BrokerProfile
    is_started: bool
    lock: Lock

    @property
    def failover(self) -> FailoverConnection[PhysicalConnection]:
        """The physical connections, one after the other."""
        ...

    @property
    def client_id(self) -> str | None:
        """The client id; None: it has none."""
        ...

    @property
    def confirms(self) -> bool:
        """Whether the broker tells that it has settled a delivery, and the client waits for it."""
        ...

    @property
    def can_confirm_by_transaction(self) -> bool:
        """Whether an acknowledgement can have a transaction of its own."""
        ...

    @property
    def capabilities(self) -> Capability:
        """What the broker can do."""
        ...

    def advice(self, capability: Capability) -> str:
        """Return what the operator can do to give the connection a capability."""
        ...

    @property
    def has_commands(self) -> bool:
        """Whether the broker takes the commands of pyjms clients."""
        ...

    @property
    def can_find(self) -> bool:
        """Whether the broker can be asked if a destination exists."""
        ...

    @property
    def can_prepare(self) -> bool:
        """Whether the broker can prepare the open transaction of a session."""
        ...

    @property
    def transaction_timeout_s(self) -> int:
        """The broker's default time limit of branches."""
        ...

    def on_present(self, do: Callable[[PhysicalConnection], Any], check: Callable[[], None] | None = None) -> Any:
        """Do something idempotent on the present physical connection; repeat it if that is lost meanwhile."""
        ...

    def to_broker(self, address: Address) -> str:
        """Return the broker's address of a destination."""
        ...

    def outgoing(self, envelope: Envelope) -> Envelope:
        """Return a message with the broker's addresses."""
        ...

    def received(self, envelope: Envelope) -> Envelope:
        """Return a message with the client's names of own temporary destinations, and the properties of its sender alone."""
        ...

    def owns(self, address: Address) -> bool:
        """Return whether a temporary destination is this connection's own."""
        ...

    def reserve(self, durable_name: str) -> None:
        """Take a durable subscription for a consumer."""
        ...

    def release(self, durable_name: str) -> None:
        """Free a durable subscription."""
        ...

    def remember(self, consumer: ProviderConsumer) -> None:
        """Note an open consumer."""
        ...

    def forget_consumer(self, consumer: ProviderConsumer) -> None:
        """Remove a consumer that closes."""
        ...

    def take_number(self, consumer: ProviderConsumer) -> int:
        """Return the lowest number that no other open consumer of the same shared subscription has."""
        ...

    def forget_session(self, session: ProviderSession) -> None:
        """Remove a session that closes."""
        ...

    def linger(self, physical: PhysicalConnection, session: Session) -> None:
        """End a session of AMQP only when nothing on it is unsettled."""
        ...

    def end_lingering(self, physical: PhysicalConnection) -> None:
        """End the sessions that wait for that, and have nothing unsettled any more."""
        ...

    def report(self, error: ProviderError) -> None:
        """Tell the client of an error that no call waits for."""
        ...


class TransactedSession(Protocol):
    """What the transactions of a session use of it."""

    connection: ClientConnection

    def check_open(self) -> None:
        """Raise `ClosedError` or `ConnectionLostError` if it is over."""
        ...

    def present(self) -> PhysicalConnection:
        """Return the present physical connection; wait for it while it is being replaced, unless the session's waits have ended."""
        ...

    def amqp_session(self, physical: PhysicalConnection) -> Session:
        """Return the session of AMQP on a physical connection."""
        ...

    def commands(self, physical: PhysicalConnection) -> CommandLink:
        """Return the link for commands to the pyjms broker."""
        ...

    def present_sender(self, address: Address) -> SendingLink:
        """Return the link for a destination on the present connection."""
        ...

    def sender(self, physical: PhysicalConnection, address: Address) -> SendingLink:
        """Return the link for a destination."""
        ...

    def accept(self, live: Sequence[Any], state_in: Callable[[Session], Any]) -> None:
        """Accept messages in a transaction; `state_in` returns the state for those of a session of AMQP."""
        ...


class ClientSession(Protocol):
    """What consumers use of an `AmqpSession`."""

    connection: ClientConnection

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        ...

    def present(self) -> PhysicalConnection:
        """Return the present physical connection; wait for it while it is being replaced, unless the session's waits have ended."""
        ...

    def amqp_session(self, physical: PhysicalConnection) -> Session:
        """Return the session of AMQP on a physical connection."""
        ...

    def hold(self, tag: Any) -> None:
        """Note a message that is delivered; the lock is held."""
        ...

    def let_go(self, tags: Sequence[Any]) -> None:
        """Forget messages that are settled, or go back; the lock is held."""
        ...

    def commands(self, physical: PhysicalConnection) -> CommandLink:
        """Return the link for commands to the pyjms broker."""
        ...

    def keep_link(self, link: ClientLink, consumer: Any) -> None:
        """End the link of a closed consumer when its messages are settled."""
        ...

    def forget(self, consumer: Any) -> None:
        """Remove a consumer that closes."""
        ...
