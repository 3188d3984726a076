"""The interface that a provider implements, and all values that pass between the API and a message system."""

from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock, Signal, SteppedClock, SystemClock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, Body, BodyKind, ConnectionId, Envelope, MessageId, ObjectBody
from pyjms.spi.provider import (
    ConnectionEvents,
    ConnectRequest,
    ExpiredMessage,
    Provider,
    ProviderConnection,
    ProviderConsumer,
    ProviderInfo,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.registry import find_provider, known_schemes, register_provider
from pyjms.spi.replay import (
    GroupRequest,
    OpenGroup,
    ReaderGroup,
    ReaderGroups,
    ReservedMessage,
    StagedUnit,
    StageName,
    Stages,
)
from pyjms.spi.sessions import ClientTags, PersistentSessions, RegisteredClient
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import BranchFailure, Xid

__all__ = [
    "Address",
    "AddressKind",
    "Body",
    "BodyKind",
    "BranchFailure",
    "Capability",
    "ClientTags",
    "Clock",
    "ConnectRequest",
    "ConnectionEvents",
    "ConnectionId",
    "Delivery",
    "Envelope",
    "ExpiredMessage",
    "GroupRequest",
    "MessageId",
    "ObjectBody",
    "OpenGroup",
    "PersistentSessions",
    "Provider",
    "ProviderConnection",
    "ProviderConsumer",
    "ProviderInfo",
    "ProviderSession",
    "ProviderUrl",
    "ReaderGroup",
    "ReaderGroups",
    "RegisteredClient",
    "ReservedMessage",
    "Signal",
    "StageName",
    "StagedUnit",
    "Stages",
    "SteppedClock",
    "SubscribeRequest",
    "SystemClock",
    "Xid",
    "find_provider",
    "known_schemes",
    "register_provider",
]
