"""All that a package needs to extend the broker: the contracts, and the types that they speak of, in one place.

``docs/provider-authors/broker-plugins.md`` is the guide. `pyjms_provider.model.plugins` lists the groups of entry points.
"""

from __future__ import annotations

from pyjms_provider.core.queue_types import QueueTypePlugin, Rank
from pyjms_provider.model.attributes import Attributes, attribute
from pyjms_provider.model.configured import ConfiguredObject, Startable, Stoppable
from pyjms_provider.model.contracts import OpenPort
from pyjms_provider.model.managed import ChildSource, ManagedObject
from pyjms_provider.model.operations import StatisticKind, operation, statistic
from pyjms_provider.model.plugins import Category, ModelPlugin, Specialisation
from pyjms_provider.model.port_type import PortServices, PortType
from pyjms_provider.protocols.engine import Peer, ProtocolEngine, TransportContext
from pyjms_provider.security.contracts import (
    AccessPolicy,
    Authenticator,
    CertificateCredentials,
    Credentials,
    Operation,
    PasswordCredentials,
    Principal,
    Target,
    TargetKind,
    TokenCredentials,
    wrong_credentials,
)
from pyjms_provider.security.plugins import AccessControlType, AuthenticationType
from pyjms_provider.security.settings import setting

__all__ = [
    "AccessControlType",
    "AccessPolicy",
    "Attributes",
    "AuthenticationType",
    "Authenticator",
    "Category",
    "CertificateCredentials",
    "ChildSource",
    "ConfiguredObject",
    "Credentials",
    "ManagedObject",
    "ModelPlugin",
    "OpenPort",
    "Operation",
    "PasswordCredentials",
    "Peer",
    "PortServices",
    "PortType",
    "Principal",
    "ProtocolEngine",
    "QueueTypePlugin",
    "Rank",
    "Specialisation",
    "Startable",
    "StatisticKind",
    "Stoppable",
    "Target",
    "TargetKind",
    "TokenCredentials",
    "TransportContext",
    "attribute",
    "operation",
    "setting",
    "statistic",
    "wrong_credentials",
]
