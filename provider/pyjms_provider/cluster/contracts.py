"""How the connections of clients see the cluster: its member implements it, and `clients.cluster` uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms.spi.replay import StageName
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.placement import Place, Placement
    from pyjms_provider.core.journal.journal import SubscriptionKey


class DecisionLog(Protocol):
    """The outcomes of transactions over several shards. All methods wait for the database, and raise `ResourceError`."""

    def new_id(self) -> str:
        """Return the id of a new transaction, which names its coordinator: ``INCARNATION:NUMBER``."""
        ...

    def commit(self, transaction: str, shards: Sequence[int]) -> bool:
        """Write that a transaction is committed; return False if another member has written that it is rolled back.

        Args:
            transaction: Its id.
            shards: The shards that have prepared a part of it.

        Raises:
            InDoubtError: It is unknown whether that was written. The member finds out by itself, and the shards are told.
            ResourceError: It was not written.
        """
        ...

    def roll_back(self, transaction: str, shards: Sequence[int]) -> None:
        """Have a transaction rolled back in shards that may have prepared a part, and could not be told. Does not wait."""
        ...

    def forget(self, transaction: str) -> None:
        """Remove the decision: all shards have applied it. Does not wait; if the member dies before, the row stays until it is found to be of no use."""
        ...


@dataclass(frozen=True, slots=True)
class Promotion:
    """An epoch of a sink that is promoted in all shards."""

    sink: str
    epoch: int
    units: tuple[StageName, ...]
    """In their order by name."""


class PromotionLog(Protocol):
    """The promotions under way, at most one for each sink. All methods wait for the database, and raise `ResourceError`."""

    def begin(self, promotion: Promotion) -> Promotion:
        """Write that a promotion begins; return it, or the one of its sink that is under way: nothing is written then."""
        ...

    def find(self, sink: str) -> Promotion | None:
        """Return the promotion of a sink that is under way; None: there is none."""
        ...

    def end(self, promotion: Promotion) -> None:
        """Remove a promotion that all shards have done. May be repeated."""
        ...


class SubscriptionRegistry(Protocol):
    """The topics of the durable subscriptions of the whole cluster. All methods wait for the database, and raise `ResourceError`."""

    def topic_of(self, key: SubscriptionKey) -> str | None:
        """Return the topic under which a subscription was last entered; None: it never was, or is deleted. It may be gone at its shard."""
        ...

    def enter(self, key: SubscriptionKey, topic: str) -> None:
        """Enter a subscription, before it is made at the shard of its topic."""
        ...

    def remove(self, key: SubscriptionKey) -> None:
        """Remove a subscription, after it was deleted at the shard of its topic."""
        ...


class Cluster(Protocol):
    """The cluster, as one of its members sees it. Any thread."""

    @property
    def name(self) -> str:
        """The name of the virtual host."""
        ...

    @property
    def front(self) -> EmbeddedBroker:
        """The broker in memory that has this member's connections and their temporary destinations."""
        ...

    @property
    def placement(self) -> Placement:
        """The present placement; another object after each change."""
        ...

    @property
    def decisions(self) -> DecisionLog:
        """The outcomes of transactions over several shards."""
        ...

    @property
    def subscriptions(self) -> SubscriptionRegistry:
        """The topics of durable subscriptions."""
        ...

    @property
    def promotions(self) -> PromotionLog:
        """The promotions of staged units under way."""
        ...

    def connect(self, place: Place, events: ConnectionEvents) -> ProviderConnection:
        """Open a connection to a place: in this process if this member leads it, else over a link.

        A connection in this process is lost (`ConnectionLostError` at `events`) when another member becomes the leader: the caller connects
        again, which waits while no member leads. A link finds the next leader by itself, and reports `ConnectionInterruptedError`.

        Raises:
            ResourceError: No member has become the leader in time, or the cluster cannot be reached.
            DestinationError: The place is the front of a member that has ended.
            ClosedError: This member is stopping.
        """
        ...
