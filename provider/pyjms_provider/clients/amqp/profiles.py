"""In what the brokers differ that speak AMQP 1.0: one profile each, chosen by what `open` says of product and version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.amqp.capabilities import (
    CONFIRMED_SETTLEMENT,
    DELAYED_DELIVERY,
    NON_PERSISTENT_IN_MEMORY,
    SHARED_SUBSCRIPTIONS,
)
from pyjms_provider.amqp.performatives import Open
from pyjms_provider.protocols import classic

_QUEUES: Final = Capability.SELECTORS | Capability.BROWSING | Capability.TEMPORARY_DESTINATIONS | Capability.EXPIRATION
_TOPICS: Final = Capability.TOPICS | Capability.DURABLE_SUBSCRIPTIONS | Capability.NO_LOCAL
_JMS: Final = _QUEUES | _TOPICS | Capability.TRANSACTIONS | Capability.CONNECTION_CONSUMERS


_TERMINI: Final = {
    (AddressKind.QUEUE, False): "queue",
    (AddressKind.TOPIC, False): "topic",
    (AddressKind.QUEUE, True): "temporary-queue",
    (AddressKind.TOPIC, True): "temporary-topic",
}


def capability_of(address: Address) -> str:
    """Return the capability that says of which kind a terminus is: without it a broker chooses, and a message to a queue may vanish."""
    return _TERMINI[address.kind, address.temporary]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProfile:
    """What is known of one kind of broker."""

    name: str
    capabilities: Capability
    """What it can do; what `open` offers is added."""
    is_tested: bool = True
    """Whether it was tried with such a broker; else the profile follows its documentation."""
    keeps_released: bool = False
    """Whether later messages may overtake one that is released: then none is released before the link ends."""
    confirms: bool = False
    """Whether it tells that it has settled a delivery (`CONFIRMED_SETTLEMENT`)."""
    posts_non_persistent: bool = False
    """Whether a NON_PERSISTENT message to a destination that has taken one is sent without a wait for its outcome
    (`NON_PERSISTENT_IN_MEMORY`)."""
    queue_prefix: str = ""
    """What the name of a queue begins with in addresses."""
    topic_prefix: str = ""
    """The same for topics."""
    quotes_names: bool = False
    """Whether names are percent-encoded in addresses."""
    delays_if_configured: bool = False
    """Whether its configuration, which it does not tell, decides if it delays messages: what it offers says nothing of it."""
    added_properties: frozenset[str] = frozenset()
    """Properties that it gives to messages, which are none of the application."""
    reasons: Mapping[Capability, str] = field(default_factory=lambda: MappingProxyType({}))
    """Why it lacks a capability, or what the operator can do about it."""

    def to_broker(self, address: Address) -> str:
        """Return the broker's address of a destination."""
        if address.temporary:
            return address.name
        name = quote(address.name, safe="") if self.quotes_names else address.name
        return (self.queue_prefix if address.kind is AddressKind.QUEUE else self.topic_prefix) + name

    def from_broker(self, name: str) -> tuple[str, AddressKind | None]:
        """Return the destination's name in an address of the broker, and its kind where the address says it."""
        for prefix, kind in ((self.queue_prefix, AddressKind.QUEUE), (self.topic_prefix, AddressKind.TOPIC)):
            if prefix and name.startswith(prefix):
                plain = name[len(prefix) :]
                return (unquote(plain) if self.quotes_names else plain), kind
        return name, None


PYJMS: Final = BrokerProfile(
    name="pyjms broker",
    capabilities=_JMS | Capability.PRIORITIES | Capability.REDELIVERY_COUNT | Capability.DEAD_LETTERS,
)
ARTEMIS: Final = BrokerProfile(
    name="ActiveMQ Artemis",
    capabilities=_JMS | Capability.PRIORITIES | Capability.REDELIVERY_COUNT | Capability.DEAD_LETTERS,
    # It hands a message that has just been sent to a consumer with credit, though a released one is back in the queue.
    keeps_released=True,
)
CLASSIC: Final = BrokerProfile(
    name="ActiveMQ Classic",
    capabilities=_JMS | Capability.DEAD_LETTERS,
    keeps_released=True,  # it sends one to the same link again, behind later ones
    delays_if_configured=True,
    # Of a message that was delayed. With it a message that is sent on is not delayed again.
    added_properties=frozenset({"scheduledJobId"}),
    reasons=classic.REASONS,
)
BROKER_J: Final = BrokerProfile(
    name="Qpid Broker-J",
    capabilities=_JMS,
    # Its exchange that every virtual host has: a topic of a plain name would need an exchange of that name.
    topic_prefix="amq.topic/",
    delays_if_configured=True,
    reasons=MappingProxyType(
        {
            Capability.DELIVERY_DELAY: (
                "its queues delay messages if holdOnPublishEnabled is true for them, which it tells no client: then write "
                "delivery_delay=yes in the URL"
            )
        }
    ),
)
RABBITMQ: Final = BrokerProfile(
    name="RabbitMQ",
    capabilities=Capability.EXPIRATION | Capability.DEAD_LETTERS,
    is_tested=False,
    queue_prefix="/queues/",
    topic_prefix="/exchanges/amq.topic/",
    quotes_names=True,
)
SERVICE_BUS: Final = BrokerProfile(
    name="Azure Service Bus",
    capabilities=Capability.EXPIRATION | Capability.DEAD_LETTERS,
    is_tested=False,
)
UNKNOWN: Final = BrokerProfile(
    name="AMQP broker", capabilities=_QUEUES | _TOPICS | Capability.TRANSACTIONS, is_tested=False
)

_BY_PRODUCT: Final[tuple[tuple[str, BrokerProfile], ...]] = (
    ("pyjms", PYJMS),
    ("artemis", ARTEMIS),
    ("activemq", CLASSIC),
    ("qpid", BROKER_J),
    ("rabbitmq", RABBITMQ),
    ("servicebus", SERVICE_BUS),
)
_OFFERED: Final[Mapping[str, Capability]] = {
    SHARED_SUBSCRIPTIONS: Capability.SHARED_SUBSCRIPTIONS,
    DELAYED_DELIVERY: Capability.DELIVERY_DELAY,
}


def profile_of(opened: Open, host: str, *, is_told_to_delay: bool = False) -> BrokerProfile:
    """Return the profile of the broker that has sent `opened`.

    Args:
        opened: the broker's open.
        host: the host of the URL: Azure names itself nowhere else.
        is_told_to_delay: whether the URL says that the broker is configured to delay messages.
    """
    properties: Mapping[str, Any] = opened.properties or {}
    said = str(properties.get("product", "")).lower()
    if not said and host.lower().endswith((".servicebus.windows.net", ".servicebus.chinacloudapi.cn")):
        said = "servicebus"
    found = next((profile for words, profile in _BY_PRODUCT if words in said), UNKNOWN)
    offered = set(opened.offered_capabilities)
    capabilities = found.capabilities
    for name, capability in _OFFERED.items():
        if name in offered:
            capabilities |= capability
    if found.delays_if_configured:
        capabilities &= ~Capability.DELIVERY_DELAY
        if is_told_to_delay:
            capabilities |= Capability.DELIVERY_DELAY
    return replace(
        found,
        capabilities=capabilities,
        confirms=CONFIRMED_SETTLEMENT in offered,
        posts_non_persistent=NON_PERSISTENT_IN_MEMORY in offered,
        queue_prefix=str(properties.get("queue-prefix") or found.queue_prefix),
        topic_prefix=str(properties.get("topic-prefix") or found.topic_prefix),
    )
