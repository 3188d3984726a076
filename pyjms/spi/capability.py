"""The optional features of a provider: one `Flag`, declared by the provider, read by the runtime and by tests.

A capability that is missing is refused by name (`CapabilityError`) before the provider is asked; it is never silently
ignored.
"""

from __future__ import annotations

from enum import Flag, auto

__all__ = ["Capability"]


class Capability(Flag):
    """Optional features of JMS and of this SPI. Sending, consuming and acknowledging are not optional."""

    NONE = 0
    TOPICS = auto()
    """Publish/subscribe: topics and their non-durable subscriptions (JMS 1.1 §6)."""
    DURABLE_SUBSCRIPTIONS = auto()
    """Durable subscriptions and `unsubscribe` (§6.3)."""
    TRANSACTIONS = auto()
    """Sessions whose sends and acknowledgements become one atomic unit (§4.4.7)."""
    XA = auto()
    """The XA calls of `ProviderSession` (§8)."""
    SELECTORS = auto()
    """Selectors are applied by the provider (§3.8)."""
    BROWSING = auto()
    """Queue browsers that leave the queue as it is (§5.9)."""
    TEMPORARY_DESTINATIONS = auto()
    """Temporary queues and topics (§4.4.3)."""
    NO_LOCAL = auto()
    """Subscriptions that leave out messages published by their own connection (§6.11)."""
    CONNECTION_CONSUMERS = auto()
    """`ProviderSession.adopt`: one session settles what another one received (§8.2)."""
    PRIORITIES = auto()
    """Messages of higher priority overtake others (§3.4.10)."""
    EXPIRATION = auto()
    """Expired messages are not delivered (§3.4.9)."""
    REDELIVERY_COUNT = auto()
    """Deliveries carry an exact `JMSXDeliveryCount` (§3.5.9)."""
    DEAD_LETTERS = auto()
    """`ProviderSession.reject` keeps the message as a dead letter, with the reason."""
    REDELIVERY_LIMITS = auto()
    """The provider itself limits the redelivery of messages (`ProviderSession.retry`)."""
    EMBEDDED_BROKER = auto()
    """The broker lives in this process and `Provider.stop_broker` ends it."""
    SHARED_TRANSACTIONS = auto()
    """`ProviderSession.commit_with`: messages and the application's tables are in one database, and commit together."""
    REPLAY = auto()
    """Reader groups: messages that are reserved, read again and again, and acknowledged by number (`ReaderGroups`)."""
    STAGE = auto()
    """Units that are staged under a name and promoted by the epoch (`ProviderSession.stage`, `Stages`)."""
    PERSISTENT_SESSIONS = auto()
    """The tags of a registered client's last committed request and reply are kept (`PersistentSessions`, `ProviderSession.tag`)."""
    SHARED_SUBSCRIPTIONS = auto()
    """Several consumers, of any connections, divide the messages of one subscription (JMS 2.0 §8.3.2, §8.3.4): `SubscribeRequest.shared_name`,
    and with `DURABLE_SUBSCRIPTIONS` `SubscribeRequest.is_shared`.
    """
    DELIVERY_DELAY = auto()
    """No consumer gets a message before its delivery time, `Envelope.deliver_at_ms` (JMS 2.0 §7.9)."""
