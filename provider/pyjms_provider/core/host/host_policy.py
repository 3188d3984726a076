"""What an owner of a virtual host may choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pyjms_provider.core.policy import QueuePolicies
from pyjms_provider.core.queue.channel_state import Reliability
from pyjms_provider.core.transaction.branches import DEFAULT_TIMEOUT_MS


class ExpiredInTransaction(Enum):
    """What becomes of a transaction when a message sent in it expires before the commit."""

    ROLLBACK = "rollback"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPolicy:
    """The choices of one host."""

    expired_in_transaction: ExpiredInTransaction = ExpiredInTransaction.ROLLBACK
    reliability: Reliability = Reliability.MEMORY
    """MEMORY: PERSISTENT messages are accepted and kept as long as the process lives; STRICT: they are refused."""
    branch_timeout_ms: int = DEFAULT_TIMEOUT_MS
    """After which a branch of a distributed transaction that is not prepared is rolled back; 0: never."""
    transaction_timeout_ms: int = 0
    """After which a local transaction that is still open is rolled back; 0: never."""
    back_off_ms: int = 0
    """How long a message stays away before its third delivery, doubled before each further one, where its queue's policy has no delay;
    0: not at all."""
    queues: QueuePolicies = field(default_factory=QueuePolicies)
    """The policies of queues and subscriptions that have none of their own."""
