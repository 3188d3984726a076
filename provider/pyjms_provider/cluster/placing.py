"""Placing queues in other shards than a hash of their names gives, and in several, while nobody uses them.

The member that an operator asks writes that the queue is to be placed. Each member then has its clients wait who want to use the queue, and each leader of a
shard that has it *retires* it: deletes it if it is empty and unused, and refuses its name. Once all have, one transaction writes the new shards,
unless a shard has got another leader since. So at no moment do two members use the queue in two shards: what was on its way to a former shard is
refused there, and is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import DestinationInUseError, ProviderError, ResourceError
from pyjms_provider.cluster.errors import ClusterError
from pyjms_provider.cluster.placement import AT_EACH_MEMBER, Placement, spread
from pyjms_provider.core.policy import PolicyError, QueueType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.status import ClusterStatus
    from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
    from pyjms_provider.stores.sql.cluster_placements import PlacementTables, PlacingRow

_NOWHERE: Final = -1
"""No shard is the one that a queue has as long as nobody places it: where it is is always written."""
_KINDS: Final = {"queue": AddressKind.QUEUE, "topic": AddressKind.TOPIC}
_PATIENCE_MS: Final = 10_000
_LOOK_MS: Final = 50
_UNDIVIDED_MS: Final = 5_000
"""For so long a queue that was there before its policy asked for partitions is taken to be there still, and undivided."""
_UNDIVIDED_MAX: Final = 10_000  # bounded, as clients choose the names
_ORDERED: Final = (QueueType.STANDARD, QueueType.PRIORITY)


class Placings:
    """Where queues are, and those that are being placed, as one member knows it. One thread calls `read` and `obey`."""

    def __init__(self, database: PlacementTables, clock: Clock, shards: int, policies: QueuePolicies) -> None:
        """`shards`: how many there are; `policies`: those of all members, which name the queues of dead letters, and divide queues at their first use.

        Raises `ClusterError`: a policy asks for more partitions than there are shards.
        """
        for each in policies.every():
            if each.partitions > shards:
                raise ClusterError(
                    f"a policy of queues has partitions={each.partitions}, and the cluster {shards} shards, of which each has one partition "
                    "of a queue at most: give a smaller number"
                )
        self._policies = policies
        self._divides = any(each.partitions > 1 for each in policies.every())
        self._undivided: dict[str, float] = {}
        """Queues that stay as they are, though their policy asks for partitions, with the time until which that counts."""
        self._database = database
        self._clock = clock
        self.placement = Placement(shards, everywhere=dead_letter_queues(policies))
        """Replaced by `read`; any thread may read it."""
        self._rows: Sequence[PlacingRow] = ()

    def read(self) -> bool:
        """Read the tables; return whether something has changed. Raises `StoreError`."""
        found, self._rows = self._database.placements()
        moved = {(_KINDS[kind], name): shards for (kind, name), shards in found.items()}
        moving = frozenset(each.name for each in self._rows)
        old = self.placement
        if moved == old.moved and moving == old.moving:
            return False
        self.placement = replace(old, moved=MappingProxyType(moved), moving=moving)
        return True

    def partitions_of(self, queue: str) -> int:
        """Return how many partitions a queue is to have that nobody has placed."""
        return self._policies.for_queue(queue).partitions if self._divides else 1

    def is_settled(self, address: Address) -> bool:
        """Return whether it is known where a destination is; see `contracts.Cluster`. Any thread."""
        placement = self.placement
        if address.temporary or address.kind is not AddressKind.QUEUE:
            return True
        return address.name not in placement.moving and not self.is_to_be_divided(address.name)

    def is_to_be_divided(self, queue: str) -> bool:
        """Return whether a queue is to be divided at its first use, which this is as far as is known. Any thread."""
        placement = self.placement
        if not self._divides or queue in placement.everywhere or (AddressKind.QUEUE, queue) in placement.moved:
            return False
        if queue in AT_EACH_MEMBER or self._undivided.get(queue, 0.0) > self._clock.monotonic_ms():
            return False
        return self._policies.for_queue(queue).partitions > 1

    def note_undivided(self, queue: str) -> None:
        """Take a queue as it is: it was used before. Any thread."""
        if len(self._undivided) >= _UNDIVIDED_MAX:
            self._undivided = {}
        self._undivided[queue] = self._clock.monotonic_ms() + _UNDIVIDED_MS

    # As the leader of shards

    def prepare(self, number: int, broker: EmbeddedBroker) -> None:
        """Have a broker that is about to serve a shard refuse the queues that are elsewhere, and policies that partitions cannot have."""
        broker.virtual_host.check_policy = self._check_policy
        for name in self._elsewhere(number):
            try:
                broker.virtual_host.retire_queue(name)
            except DestinationInUseError:
                continue  # its dead letters, which stay; no client is sent here

    def _check_policy(self, name: str, policy: QueuePolicy) -> None:
        if len(self.placement.shards_of(AddressKind.QUEUE, name)) > 1:
            check_partitions(name, policy)

    def obey(self, brokers: Mapping[int, EmbeddedBroker], terms: Mapping[int, int], own: str) -> None:
        """Do this member's part for the queues that are being placed, and admit those whose placing has ended.

        Args:
            brokers: Those of the shards that it leads.
            terms: The numbers of their terms.
            own: Its incarnation.

        Raises:
            StoreError: The rest is done in a later turn.
        """
        moving = {each.name for each in self._rows}
        for number, broker in brokers.items():
            host = broker.virtual_host
            for name in host.retired_queues - moving - self._elsewhere(number):
                host.admit_queue(name)
        for row in self._rows:
            if row.refusal is None:
                self._obey(row, brokers, terms, own)

    def _obey(self, row: PlacingRow, brokers: Mapping[int, EmbeddedBroker], terms: Mapping[int, int], own: str) -> None:
        retired = {number: terms[number] for number in row.old if number in brokers}
        if own in row.members and all(row.terms.get(number) == term for number, term in retired.items()):
            return
        refusal: str | None = None
        for number in retired:
            try:
                _give_up(brokers[number], row, is_kept=number in row.new)
            except ProviderError as error:
                refusal, retired = error.reason, {}
                break
        self._database.note_placing(row, own, retired, refusal)

    def _elsewhere(self, number: int) -> set[str]:
        """Return the names of the placed queues that a shard does not have."""
        moved = self.placement.moved.items()
        return {name for (kind, name), shards in moved if kind is AddressKind.QUEUE and number not in shards}

    # As the member that an operator asks

    def place(
        self,
        name: str,
        shards: Collection[int],
        own: str,
        await_change: Callable[[float, float], bool],
        tell: Callable[[], None],
        *,
        is_first_use: bool = False,
    ) -> None:
        """Place a queue; see `ClusterMember.place_queue`.

        Args:
            name: That of the queue.
            shards: Those of its partitions.
            own: The incarnation of this member.
            await_change: Waits until a time for a change, or some milliseconds; returns False once the time is over.
            tell: Has a turn of this member made now.
            is_first_use: Whether nothing is done if somebody else has placed the queue, or is just placing it.
        """
        moved, _ = self._database.placements()
        hashed = self.placement.hashed(AddressKind.QUEUE, name)
        # Written even if that is where it would be: else its policy would divide it at its next use.
        home = _NOWHERE if self.partitions_of(name) > 1 else hashed
        known, new = moved.get(("queue", name)), tuple(sorted(set(shards)))
        old = known or (hashed,)
        if new == old and (known or home == hashed):
            return
        if is_first_use and known:
            tell()
            return
        row = self._database.begin_placing(name, old, new, own, is_placed=known is not None)
        if row is None and is_first_use:
            tell()
            return
        if row is None:
            raise ResourceError(
                f"queue://{name} is just being placed by somebody else: look where it is, and try again"
            )
        is_done = False
        try:
            tell()
            is_done = self._await(row, home, await_change)
        finally:
            if not is_done:
                self._database.end_placing(row.id, None)
            tell()

    def _await(self, row: PlacingRow, home: int, await_change: Callable[[float, float], bool]) -> bool:
        """Wait until all are ready, and write where the queue is. Raises as `place`."""
        until_ms = self._clock.monotonic_ms() + _PATIENCE_MS
        while True:
            found = self._database.placing(row.id)
            if found is None:
                raise ResourceError(f"queue://{row.name} stays where it is: this member was taken for dead meanwhile")
            known, is_ready = found
            if known.refusal is not None:
                raise DestinationInUseError(f"queue://{row.name} stays where it is: {known.refusal}")
            if is_ready and self._database.end_placing(row.id, home):
                return True
            if not await_change(until_ms, _LOOK_MS):
                missing = sorted(set(row.old) - known.terms.keys())
                whose = f"the leaders of the shards {missing}" if missing else "a member"
                raise ResourceError(
                    f"queue://{row.name} stays where it is: {whose} did not answer within {_PATIENCE_MS} ms"
                )


def _give_up(broker: EmbeddedBroker, row: PlacingRow, *, is_kept: bool) -> None:
    """Have the leader of a former shard retire a queue. `is_kept`: the queue stays in that shard, too.

    Raises:
        DestinationInUseError: The queue is used.
        PolicyError: It cannot be partitioned.
    """
    host = broker.virtual_host
    queue = host.find_queue(row.name)
    default = host.policy.queues.for_queue(row.name)
    if len(row.new) > 1:
        check_partitions(row.name, default if queue is None else queue.policy)
    policies = [each.policy for _, each in host.queues()]
    if any(row.name in (each.dead_letter, each.expiry_queue) for each in (*policies, default)):
        # Each shard puts its own dead letters into a queue of that name: clients may find more of them from now on, never less.
        if not is_kept:
            raise DestinationInUseError("it is a queue of dead letters, which are in all shards")
        if queue is not None and queue.consumer_count:
            raise DestinationInUseError("it has consumers, which would not find the other partitions: close them")
        return
    host.retire_queue(row.name)


def shards_for(queue: str, partitions: int, placement: Placement, status: ClusterStatus) -> tuple[int, ...]:
    """Return the shards for the partitions of a queue, at members as different as possible."""
    leaders = {each.number: each.leader for each in status.shards}
    used = [shard for each in status.placed if each.name != queue for shard in each.shards]
    return spread(placement.hashed(AddressKind.QUEUE, queue), partitions, leaders, used)


def dead_letter_queues(policies: QueuePolicies) -> frozenset[str]:
    """Return the queues into which the leader of each shard puts dead and expired messages by these policies."""
    found = (name for each in policies.every() for name in (each.dead_letter, each.expiry_queue))
    return frozenset(name for name in found if name is not None)


def check_partitions(name: str, policy: QueuePolicy) -> None:
    """Raise `PolicyError` if a queue with that policy cannot be partitioned."""
    if policy.exclusive:
        raise PolicyError(f"queue://{name} is exclusive, and each partition would choose a consumer of its own")
    if policy.type not in _ORDERED:
        raise PolicyError(
            f"queue://{name} has type={policy.type.value}, which needs all messages in one place: it cannot be partitioned"
        )
