"""Interfaces of a session and its connection for the lower modules of the runtime, of which both are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pyjms.api.destination import Destination
from pyjms.api.message import Message
from pyjms.api.producer import CompletionListener
from pyjms.runtime.completions import AsyncSends
from pyjms.runtime.machines import UnackedMessages
from pyjms.runtime.temporaries import Temporaries
from pyjms.runtime.waiting import DeliveryGate, Inbox
from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, ConnectionId, MessageId
from pyjms.spi.errors import ConnectionLostError, ProviderError
from pyjms.spi.provider import ProviderSession
from pyjms.spi.sessions import PersistentSessions


class ConnectionContract(Protocol):
    """A connection, as sessions, consumers and connection consumers see it."""

    clock: Clock
    capabilities: Capability
    consumer_priority: int
    connection_id: ConnectionId
    lost: ConnectionLostError | None
    max_unacknowledged: int
    temporaries: Temporaries
    trusted: frozenset[str]

    @property
    def configured_client_id(self) -> str | None:
        """The client id, without a check."""
        ...

    @property
    def resource_manager(self) -> tuple[str, str]:
        """The resource manager that keeps the branches of distributed transactions."""
        ...

    @property
    def is_started(self) -> bool:
        """Whether messages may be delivered now."""
        ...

    def require(self, capability: Capability, what: str) -> None:
        """Raise JMSException when the provider lacks `capability`."""
        ...

    def persistent_sessions(self) -> PersistentSessions:
        """Return the registered clients of the provider. Raises `ProviderError`."""
        ...

    def check_not_lost(self) -> None:
        """Raise JMSException when the connection is lost for good."""
        ...

    def report(self, error: ProviderError) -> None:
        """Call the exception listener."""
        ...

    def next_number(self) -> int:
        """Return a number that is unique in this connection."""
        ...

    def start(self) -> None:
        """Begin to deliver messages."""
        ...

    def stop(self) -> None:
        """Deliver no messages until `start`."""
        ...

    def close(self) -> None:
        """Close the connection and all objects that it made."""
        ...

    def destination_of(self, address: Address) -> Destination:
        """Return the API's object for an address."""
        ...

    def forget_session(self, session: Any) -> None:
        """Remove a closed session."""
        ...

    def forget_consumer(self, consumer: Any) -> None:
        """Remove a closed connection consumer."""
        ...

    def poison(self) -> None:
        """Give up the connection."""
        ...


class SessionContract(Protocol):
    """A session, as its producers, consumers, browsers and its dispatcher see it."""

    async_sends: AsyncSends
    clock: Clock
    gate: DeliveryGate
    has_listeners: bool
    is_closed: bool
    unacked: UnackedMessages
    provider_session: ProviderSession
    refuses_sends: bool
    settles_at_once: bool
    settles_by_itself: bool
    gives_back_at_any_time: bool

    @property
    def connection(self) -> ConnectionContract:
        """The connection that made it."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether `close` has begun."""
        ...

    @property
    def trusted(self) -> frozenset[str]:
        """The classes that object messages from other processes may hold."""
        ...

    def check_open(self) -> None:
        """Raise IllegalStateException when it is closed."""
        ...

    def acknowledge(self, message: Message) -> None:
        """Acknowledge all messages that it has delivered so far."""
        ...

    def destination_of(self, address: Address) -> Destination:
        """Return the API's object for an address."""
        ...

    def next_message_id(self) -> MessageId:
        """Return a unique message id."""
        ...

    def make_inbox(self) -> Inbox:
        """Return the inbox in which a consumer waits for messages."""
        ...

    def take(self, consumer: Any, *, or_enter: bool = False) -> Message | None:
        """Take the next message of `consumer`."""
        ...

    def keep(self, consumer: Any) -> None:
        """Leave the message that `consumer` took last to its next receive."""
        ...

    def listen(self, consumer: Any, callback: Callable[[Message], Any] | None) -> None:
        """Set the callable for the messages of `consumer`."""
        ...

    def wake_listener(self, consumer: Any) -> None:
        """Have the session's thread poll `consumer`."""
        ...

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Release deliveries for redelivery."""
        ...

    def close_consumer(self, consumer: Any) -> None:
        """Close one consumer."""
        ...

    def wait_for_sends(self, producer: Any) -> None:
        """Wait until the asynchronous sends by `producer` are complete."""
        ...

    def forget_producer(self, producer: Any) -> None:
        """Remove a closed producer."""
        ...

    def forget_browser(self, browser: Any) -> None:
        """Remove a closed browser."""
        ...

    def poison(self) -> None:
        """Give up the connection."""
        ...


class ContextContract(Protocol):
    """A context, as its producers see it."""

    def check_open(self) -> None:
        """Raise `IllegalStateRuntimeException` when it is closed."""
        ...

    def require_delivery_delay(self) -> None:
        """Raise JMSException when the provider has no delivery delay."""
        ...

    def send(
        self, destination: Destination, message: Message, options: Any, listener: CompletionListener | None
    ) -> None:
        """Send with the options of one producer; asynchronously, if it has a listener."""
        ...
