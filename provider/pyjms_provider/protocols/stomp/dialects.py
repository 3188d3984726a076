"""The STOMP dialects of brokers, as data: how destinations, consumers and messages are written for each.

Four dialects: our own broker's, which a standard client sees as ActiveMQ Classic's, ActiveMQ Classic's, ActiveMQ Artemis's and RabbitMQ's.
The facts were read from the brokers' sources.

Destinations are written in three ways: paths such as ``/queue/orders`` (pyjms, ActiveMQ Classic); paths with percent-encoded names
(RabbitMQ); the bare name, with its kind in a header of its own (Artemis).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from urllib.parse import quote, unquote

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError
from pyjms_provider.protocols import classic
from pyjms_provider.protocols.profile.paths import EXACT_PATHS, DestinationNaming, Paths, check_name
from pyjms_provider.protocols.stomp.errors import StompError

_QUEUE, _TOPIC = AddressKind.QUEUE, AddressKind.TOPIC
_TYPES = {_QUEUE: "ANYCAST", _TOPIC: "MULTICAST"}


class _EncodedPaths(Paths):
    def _encode(self, name: str) -> str:
        return quote(name, safe=".*#:$", errors="surrogatepass")

    def _decode(self, text: str) -> str:
        # Only escapes can express half of a surrogate pair, which a name may contain and UTF-8 cannot.
        return unquote(text, errors="surrogatepass" if "%" in text else "strict")


class _BareNames(DestinationNaming):
    def headers_for(self, address: Address, *, subscribing: bool = False) -> dict[str, str]:
        header = "subscription-type" if subscribing else "destination-type"
        return {"destination": self._name(address), header: _TYPES[address.kind]}

    def read(self, headers: Mapping[str, str], assumed: Address | None = None) -> Address:
        name = headers.get("destination")
        if not name:
            raise DestinationError("the frame has no destination: write the name of an address")
        kind = headers.get("destination-type") or headers.get("subscription-type")
        # A MESSAGE of Artemis may lack the kind: it is that of the subscription.
        if kind is None and assumed is not None:
            if assumed.name == name:
                return assumed
            return Address(assumed.kind, name)
        return Address(_TOPIC if kind == "MULTICAST" else _QUEUE, name)

    def write_reply_to(self, address: Address) -> str:
        return self._name(address)

    def read_reply_to(self, text: str) -> Address | None:
        return Address(_QUEUE, text) if text else None

    def _name(self, address: Address) -> str:
        check_name(address.name)
        return address.name


PATHS: DestinationNaming = Paths({",": "joins destinations", "?": "begins options"})
ENCODED_PATHS: DestinationNaming = _EncodedPaths({})
BARE_NAMES: DestinationNaming = _BareNames()


class NackMeaning(Enum):
    """What the broker does with a message after NACK."""

    RETRIES = "it counts as a failed attempt: delivered again, and a dead letter when that happened too often"
    REJECTS = "a dead letter at once"
    SETTLES = "the same as ACK: it is gone"
    REQUEUES = "back to its queue; with `requeue:false` discarded, or a dead letter where the queue has such"


class ForeignBody(Enum):
    """How the body of a message without the profile is recognized as text or bytes."""

    BY_LENGTH_OR_TYPE = "`amq-msg-type` decides, else bytes if there is a content-length"
    BY_LENGTH = "bytes if there is a content-length"
    BY_CONTENT_TYPE = "text if the content-type says so, else bytes"


class PrefetchUnit(Enum):
    """The unit of the prefetch header."""

    MESSAGES = "messages"
    BYTES = "bytes"


class ClientCumulation(Enum):
    """The messages that an ACK of a subscription with `ack:client` covers."""

    SUBSCRIPTION = "all earlier messages of its subscription"
    CONNECTION = "all earlier messages of the connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The properties of one broker."""

    name: str
    """The name in ``?dialect=``."""
    title: str
    server_prefix: str
    """The beginning of the header `server` in its CONNECTED."""
    capabilities: Capability
    """The capabilities of a connection to it, native or with the client's help."""
    destinations: DestinationNaming
    foreign_body: ForeignBody
    nack: NackMeaning
    prefetch_header: str
    prefetch_unit: PrefetchUnit = PrefetchUnit.MESSAGES
    selector_header: str | None = "selector"
    """None: it has no selectors, and ignores the header."""
    selector_prefix: str = ""
    """The text that the client puts before a selector."""
    selector_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The broker's identifiers in selectors, by the JMS one."""
    no_local: tuple[str, str] | None = None
    """The header of SUBSCRIBE; None: the client filters out its own messages."""
    durable_name_header: str | None = None
    """The header of SUBSCRIBE and UNSUBSCRIBE that names a durable subscription of the client id; None: see
    `durable_headers`."""
    durable_headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Other headers that both need for a durable subscription; then a header has client id and name in one."""
    ends_inactive_durable: bool = True
    """Whether UNSUBSCRIBE ends a durable subscription without a consumer."""
    browser: tuple[str, str] | None = None
    """The header of SUBSCRIBE for a browser; None: it has no browsers."""
    expiry_header: str = "expires"
    expiry_is_relative: bool = False
    """Whether it counts milliseconds from now, and not from 1970."""
    delay_header: str | None = None
    """The header of SEND with the delivery time; None: it delays no messages."""
    delay_is_relative: bool = False
    """Whether it counts milliseconds from now, and not from 1970."""
    delays_if_configured: bool = False
    """Whether its configuration, which it does not tell, decides if it delays messages."""
    reasons: Mapping[Capability, str] = field(default_factory=lambda: MappingProxyType({}))
    """Why it lacks a capability, or what the operator can do about it."""
    foreign_id_headers: tuple[str, ...] = ("message-id",)
    """The headers of MESSAGE with the JMSMessageID of a message without the profile: the first one present."""
    client_cumulation: ClientCumulation = ClientCumulation.SUBSCRIPTION
    unsubscribe_returns_unsettled: bool = True
    """Whether UNSUBSCRIBE returns unsettled messages; if not, they must be returned by NACK first."""
    transacts_sends: bool = True
    """Whether sends of a transaction become visible together."""
    transacts_acknowledgements: bool = True
    translates_temporaries: bool = False
    """Whether other connections see a temporary destination under a name that the broker made."""
    preserves_headers: bool = False
    """Whether priority, expiry, reply-to and the rest are delivered unchanged; then they are written once only."""
    header_line_max: int | None = None
    """The longest header line that it takes, in bytes; None: limited by the frame only."""
    error_names_receipt: bool = True
    """Whether ERROR names the receipt that will not come; if not, it fails all that are awaited."""
    writes_non_persistent: bool = True
    """Whether SEND may have `persistent:false`; RabbitMQ makes the queue exclusive by it. Absent means the same."""
    lost_properties: frozenset[str] = frozenset()
    """Properties that it consumes and does not deliver: the profile carries them a second time."""
    minimum_heartbeat_ms: int = 0
    """The shortest heart-beat period that it agrees to."""
    temporaries: bool = True
    """Whether it knows `/temp-queue/` for SUBSCRIBE; if not, the client makes unique names."""


_EVERYWHERE = (
    Capability.TOPICS
    | Capability.DURABLE_SUBSCRIPTIONS
    | Capability.TEMPORARY_DESTINATIONS
    | Capability.NO_LOCAL
    | Capability.CONNECTION_CONSUMERS
    | Capability.EXPIRATION
)

BEST_EFFORT = "transactions=best-effort in the URL allows them, with what docs/how-to/stomp.md says of a crash"

PYJMS = Dialect(
    name="pyjms",
    title="pyjms broker",
    server_prefix="pyjms/",
    capabilities=_EVERYWHERE
    | Capability.TRANSACTIONS
    | Capability.XA
    | Capability.SELECTORS
    | Capability.BROWSING
    | Capability.PRIORITIES
    | Capability.REDELIVERY_COUNT
    | Capability.DEAD_LETTERS
    | Capability.REDELIVERY_LIMITS,
    destinations=EXACT_PATHS,
    foreign_body=ForeignBody.BY_LENGTH_OR_TYPE,
    nack=NackMeaning.RETRIES,
    prefetch_header="prefetch-count",
    no_local=("no-local", "true"),
    durable_name_header="durable-subscription-name",
    browser=("browser", "true"),
    preserves_headers=True,
)

CLASSIC = Dialect(
    name="activemq",
    title="ActiveMQ Classic",
    server_prefix="ActiveMQ/",
    capabilities=_EVERYWHERE
    | Capability.TRANSACTIONS
    | Capability.SELECTORS
    | Capability.BROWSING
    | Capability.DEAD_LETTERS,  # it applies priorities only if a queue's policy says so
    destinations=PATHS,
    foreign_body=ForeignBody.BY_LENGTH_OR_TYPE,
    nack=NackMeaning.REJECTS,
    prefetch_header="activemq.prefetchSize",
    no_local=("activemq.noLocal", "true"),
    durable_name_header="activemq.subscriptionName",
    browser=("browser", "true"),
    translates_temporaries=True,
    delay_header="AMQ_SCHEDULED_DELAY",
    delay_is_relative=True,
    delays_if_configured=True,
    reasons=classic.REASONS,
    header_line_max=10 * 1024,
    lost_properties=frozenset({"JMSXGroupID", "JMSXGroupSeq"}),
)

ARTEMIS = Dialect(
    name="artemis",
    title="ActiveMQ Artemis",
    server_prefix="ActiveMQ-Artemis/",
    capabilities=_EVERYWHERE
    | Capability.SELECTORS
    | Capability.PRIORITIES
    | Capability.DEAD_LETTERS
    | Capability.DELIVERY_DELAY,
    destinations=BARE_NAMES,
    foreign_body=ForeignBody.BY_LENGTH,
    nack=NackMeaning.SETTLES,
    prefetch_header="consumer-window-size",
    prefetch_unit=PrefetchUnit.BYTES,
    selector_prefix="convert_string_expressions:",
    selector_names=MappingProxyType(
        {
            "JMSPriority": "AMQPriority",
            "JMSTimestamp": "AMQTimestamp",
            "JMSDeliveryMode": "AMQDurable",
            "JMSExpiration": "AMQExpiration",
            "JMSMessageID": "AMQUserID",
        }
    ),
    no_local=("no-local", "true"),
    durable_name_header="durable-subscription-name",
    delay_header="AMQ_SCHEDULED_TIME",
    reasons=MappingProxyType(
        {
            Capability.SHARED_SUBSCRIPTIONS: (
                "over STOMP it lets consumers of other topics and selectors into a subscription; amqp:// reaches its shared subscriptions"
            ),
            Capability.TRANSACTIONS: BEST_EFFORT,
        }
    ),
    foreign_id_headers=("amqMessageId", "message-id"),
    transacts_acknowledgements=False,
    minimum_heartbeat_ms=500,
    temporaries=False,
)

RABBITMQ = Dialect(
    name="rabbitmq",
    title="RabbitMQ",
    server_prefix="RabbitMQ/",
    capabilities=_EVERYWHERE,
    destinations=ENCODED_PATHS,
    foreign_body=ForeignBody.BY_CONTENT_TYPE,
    nack=NackMeaning.REQUEUES,
    prefetch_header="prefetch-count",
    selector_header=None,
    durable_headers=MappingProxyType({"durable": "true", "auto-delete": "false"}),
    ends_inactive_durable=False,
    expiry_header="expiration",
    expiry_is_relative=True,
    reasons=MappingProxyType(
        {
            Capability.SHARED_SUBSCRIPTIONS: "it lets consumers of other topics into a subscription",
            Capability.DELIVERY_DELAY: "it delays messages only with a plug-in, in exchanges that the operator makes",
            Capability.TRANSACTIONS: BEST_EFFORT,
        }
    ),
    foreign_id_headers=("amqp-message-id", "message-id"),
    client_cumulation=ClientCumulation.CONNECTION,
    unsubscribe_returns_unsettled=False,
    transacts_sends=False,
    transacts_acknowledgements=False,
    error_names_receipt=False,
    writes_non_persistent=False,
    minimum_heartbeat_ms=1000,
    temporaries=False,
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {dialect.name: dialect for dialect in (PYJMS, CLASSIC, ARTEMIS, RABBITMQ)}
)


class UnknownDialectError(StompError):
    """There is no dialect of that name, or none is known for that server."""


def dialect_named(name: str) -> Dialect:
    """Return the dialect that ``?dialect=`` names. Raises `UnknownDialectError`."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise UnknownDialectError(f"there is no dialect {name!r}; choose one of {', '.join(DIALECTS)}") from None


def dialect_of_server(server: str | None) -> Dialect:
    """Return the dialect of the broker whose CONNECTED has this `server` header; None: there was none.

    Raises `UnknownDialectError`: a wrong guess would lose messages.
    """
    for dialect in DIALECTS.values():
        if server is not None and server.startswith(dialect.server_prefix):
            return dialect
    shown = "hides its name" if server is None else f"calls itself {server[:60]!r}"
    raise UnknownDialectError(
        f"the server {shown}, so its dialect is not known: name it in the URL, as ?dialect={'|'.join(DIALECTS)}"
    )
