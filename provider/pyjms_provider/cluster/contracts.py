"""How the connections of clients see the cluster, and what a member needs of its database.

`ClusterMember` implements `Cluster` for `clients.cluster`. `stores.sql.cluster` implements `ControlTables` for the member.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms.spi.replay import StageName
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.placement import Place, Placement
    from pyjms_provider.core.journal.journal import SubscriptionKey
    from pyjms_provider.stores.sql.cluster import ClusterFacts, ClusterView, DecisionRow, Formats


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

    def is_settled(self, address: Address) -> bool:
        """Return whether it is known where a destination is: it is not just being placed, nor to be divided at its first use. Never waits."""
        ...

    def await_placed(self, queue: str) -> None:
        """Wait while a queue is being placed, or for a moment if this member does not know of that yet; divide it if its policy asks for that at its first
        use.

        Raises:
            ResourceError: It takes too long.
        """
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


class HeldMembership(Protocol):
    """The connection that holds the advisory lock of an incarnation, and is told of changes. One thread at a time."""

    def await_changes(self, timeout_s: float) -> bool:
        """Wait for a change of the tables; return whether there was one. Raises `StoreError` when the connection is lost."""
        ...

    def release(self) -> None:
        """Release the lock, and close the connection. May be repeated."""
        ...


class ControlTables(Protocol):
    """The control tables of a cluster: `ClusterDatabase` says what each method does. All wait for the database, and raise `StoreError`."""

    @property
    def formats(self) -> Formats:
        """Those that its member can work with."""
        ...

    def raise_format(self) -> bool:
        """Have the cluster be of the newest format that its member knows, if all members know that; return whether it became so."""
        ...

    def store_url(self, shard: int, incarnation: str) -> str:
        """Return the URL of the store of a shard, whose sessions can be found by the incarnation that uses it. Does not wait."""
        ...

    def close(self) -> None:
        """Close all idle connections."""
        ...

    def clock_error_ms(self) -> float:
        """Return by how much this machine's clock is ahead of the database's, in milliseconds."""
        ...

    def prepare(self, *, shards: int | None, default_shards: int, virtual_host: str) -> ClusterFacts:
        """Make what is missing, and return the facts of the cluster. Raises `WrongClusterError`, `NewerStoreError`."""
        ...

    def hold(self, incarnation: str) -> HeldMembership | None:
        """Open a connection with the lock of an incarnation; None: another session still holds that."""
        ...

    def join(
        self,
        name: str,
        incarnation: str,
        *,
        run_id: str,
        address: str,
        version: str,
        lease_ms: int,
        replaces: str | None,
    ) -> None:
        """Enter a member, which holds its lock already. Raises `TakenNameError`."""
        ...

    def beat(self, incarnation: str) -> bool:
        """Write a heartbeat; return False if the incarnation was taken for dead."""
        ...

    def view(self) -> ClusterView:
        """Return all members and shards."""
        ...

    def announce_leaving(self, incarnation: str) -> None:
        """Write that a member hands its shards over, as it stops."""
        ...

    def leave(self, incarnation: str) -> None:
        """Delete a member that has stopped."""
        ...

    def bury(self, incarnation: str) -> bool:
        """End the sessions of a member that has died or is silent, and delete it; return False if it is alive, or gone already."""
        ...

    def end_sessions(self, incarnation: str) -> None:
        """End all sessions of an incarnation that may write."""
        ...

    def end_sessions_of_the_dead(self) -> None:
        """End all sessions of incarnations that are deleted."""
        ...

    def claim(self, shards: Collection[int], incarnation: str) -> list[int]:
        """Make a living member the leader of shards that have none; return those that it got."""
        ...

    def confirm(self, shard: int, incarnation: str) -> bool:
        """Write that the leader of a shard has opened it; return False if it is no longer the leader."""
        ...

    def release(self, shard: int, incarnation: str) -> bool:
        """Write that a shard has no leader any more; return False if it has another one, or none already."""
        ...

    def pin(self, shard: int, member: str | None) -> None:
        """Write that a member is to lead a shard, whenever it can; None: any member."""
        ...

    def note_consumers(self, shard: int, incarnation: str, member: str | None) -> None:
        """Write whose clients, alone, consume from a shard; None: those of no or of several members."""
        ...

    def decide_commit(self, transaction: str, shards: Sequence[int], incarnation: str) -> bool | None:
        """Write that a transaction of a living incarnation is committed, unless a decision is there; return that, None: the incarnation is dead."""
        ...

    def decide_rollback(self, transaction: str, shards: Sequence[int]) -> bool:
        """Write that a transaction is rolled back, unless a decision is there; return whether it is committed."""
        ...

    def roll_back_branch(self, transaction: str, shard: int, leader: str) -> bool | None:
        """Do as `decide_rollback` for the leader of a shard with a branch of it; None: that incarnation leads the shard no more, and there is no decision."""
        ...

    def forget(self, transactions: Collection[str]) -> None:
        """Delete decisions that all shards have applied."""
        ...

    def decisions(self, transactions: Collection[str], shards: Collection[int]) -> list[DecisionRow]:
        """Return the decisions about transactions, and those that one of the shards may not have applied."""
        ...

    def living(self, incarnations: Collection[str]) -> set[str]:
        """Return those of the incarnations that are not deleted."""
        ...

    def note_applied(self, transaction: str, shard: int) -> None:
        """Write that a shard has applied a decision; after the last one the decision is deleted."""
        ...

    def begin_promotion(self, sink: str, epoch: int, units: Sequence[StageName]) -> tuple[int, tuple[StageName, ...]]:
        """Write the epoch and the units of a promotion, unless one of its sink is there; return those of the one that is."""
        ...

    def promotion_of(self, sink: str) -> tuple[int, tuple[StageName, ...]] | None:
        """Return the epoch and the units of the promotion of a sink; None: there is none."""
        ...

    def end_promotion(self, sink: str, epoch: int) -> None:
        """Delete a promotion; nothing happens if another one of its sink is there."""
        ...

    def topic_of(self, client_id: str, name: str) -> str | None:
        """Return the topic of a subscription; None: there is none."""
        ...

    def enter_subscription(self, client_id: str, name: str, topic: str) -> None:
        """Enter a subscription, or change its topic."""
        ...

    def remove_subscription(self, client_id: str, name: str) -> None:
        """Remove a subscription; nothing happens if there is none."""
        ...
