"""The settings of a virtual host."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pyjms_provider.core.policy import QueuePolicies
from pyjms_provider.core.queue.channel_state import Reliability
from pyjms_provider.core.transaction.branches import DEFAULT_TIMEOUT_MS
from pyjms_provider.core.transaction.registered_clients import DEFAULT_CLIENTS_MAX


class ExpiredInTransaction(Enum):
    """The fate of a transaction in which a sent message expires before the commit."""

    ROLLBACK = "rollback"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPolicy:
    """The settings of one host."""

    expired_in_transaction: ExpiredInTransaction = ExpiredInTransaction.ROLLBACK
    reliability: Reliability = Reliability.MEMORY
    """What a host without a reliable store does with PERSISTENT messages: with STRICT it refuses them."""
    branch_timeout_ms: int = DEFAULT_TIMEOUT_MS
    """A branch of a distributed transaction that is not prepared is rolled back after this time; 0: never."""
    transaction_timeout_ms: int = 0
    """A local transaction that is still open is rolled back after this time; 0: never."""
    registered_clients_max: int = DEFAULT_CLIENTS_MAX
    """The most clients that may be registered with persistent sessions."""
    forget_clients_ms: int = 0
    """A registered client that has been without a connection for this time is forgotten, with its tags; 0: never."""
    back_off_ms: int = 0
    """The delay before a message's third delivery, doubled before each further one, where its queue's policy has no delay;
    0: none."""
    persist_all: bool = False
    """Whether every message is PERSISTENT, whatever its sender and its queue's policy say (JMS 1.1 §3.4.12)."""
    keep_transient: bool = False
    """Whether NON_PERSISTENT messages are written as well, without being forced to the disk: so they survive the end of the broker's process."""
    create_on_demand: bool = True
    """Whether network clients create queues by using them; topics come by themselves."""
    queues: QueuePolicies = field(default_factory=QueuePolicies)
    """The policies of queues and subscriptions that have none of their own."""
