"""The rule that says which member should lead which shard. Pure: each member computes it from the same rows.

Shards without a leader go to the members with the fewest, one after the other in the order of their numbers; of two members with as many
to the one whose name comes first. A member hands a shard over if another one has at least two fewer, and it is the one with the most: so each
move brings the counts nearer to each other, and after the last one they differ by one at most.

A shard that an operator has *pinned* to a member goes to that one, whatever the counts, as long as it lives and is not leaving; meanwhile the other
shards are spread by the same rule.

A shard *follows* its consumers: if all of them are clients of one member, it is as if it were pinned there. Only as many follow to a member as it would
lead anyway, so that the counts still differ by one at most; those that are there already come first, so that nothing moves to and fro.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

NO_PINS: Final[Mapping[int, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A living member."""

    incarnation: str
    name: str
    is_leaving: bool = False
    """It takes no shards, and hands over all that it has."""


def shards_to_take(
    own: str,
    members: Collection[Candidate],
    leaders: Mapping[int, str | None],
    pinned: Mapping[int, str] = NO_PINS,
) -> Sequence[int]:
    """Return the shards without a leader that a member should lead.

    Args:
        own: The incarnation of the member.
        members: The living members.
        leaders: The incarnation of the leader of each shard; None: it has none.
        pinned: The names of the members that shards are pinned to.
    """
    counts = _counts(members, leaders)
    targets = _targets(members, pinned)
    names = {each.incarnation: each.name for each in members}
    taken: list[int] = []
    if not counts:
        return taken
    for number in sorted(number for number, leader in leaders.items() if leader is None):
        chosen = targets.get(number) or min(counts, key=lambda each: (counts[each], names[each]))
        counts[chosen] += 1
        if chosen == own:
            taken.append(number)
    return taken


def shards_to_hand_over(
    own: str,
    members: Collection[Candidate],
    leaders: Mapping[int, str | None],
    moving: Collection[int] = (),
    pinned: Mapping[int, str] = NO_PINS,
) -> Sequence[int]:
    """Return the shards that a member should hand over: all if it is leaving, else one at most.

    Args:
        own: The incarnation of the member.
        members: The living members.
        leaders: The incarnation of the leader of each shard; None: it has none.
        moving: The shards that are just being taken over: while there are any, no other shard is handed over.
        pinned: The names of the members that shards are pinned to.
    """
    led = sorted(number for number, leader in leaders.items() if leader == own)
    if any(each.incarnation == own and each.is_leaving for each in members):
        return led
    counts = _counts(members, leaders)
    if own not in counts or moving:
        return []
    # Shards of a leaving member come to those with the fewest first.
    if any(each.is_leaving and each.incarnation in leaders.values() for each in members):
        return []
    targets = _targets(members, pinned)
    elsewhere = [number for number in led if targets.get(number, own) != own]
    if elsewhere:
        return elsewhere[:1]
    if any(leader not in (None, targets.get(number, leader)) for number, leader in leaders.items()):
        return []  # another member hands a pinned one over first
    names = {each.incarnation: each.name for each in members}
    free = {leader for number, leader in leaders.items() if leader in counts and number not in targets}
    fullest = min(free, key=lambda each: (-counts[each or ""], names[each or ""]), default=None)
    if fullest != own or counts[own] - min(counts.values()) < 2:
        return []
    return [number for number in led if number not in targets][-1:]


def with_following(
    members: Collection[Candidate],
    leaders: Mapping[int, str | None],
    pinned: Mapping[int, str],
    consumers: Mapping[int, str],
) -> Mapping[int, str]:
    """Return the names of the members to which shards are pinned, or follow their consumers.

    Args:
        members: The living members.
        leaders: The incarnation of the leader of each shard; None: it has none.
        pinned: The names of the members that shards are pinned to.
        consumers: By shard, the name of the member whose clients, alone, have consumed there for some time.
    """
    names = {each.name: each.incarnation for each in members if not each.is_leaving}
    found = {number: name for number, name in pinned.items() if name in names}
    if not names:
        return found
    most = len(leaders) // len(names)
    free = {name: most - list(found.values()).count(name) for name in names}
    wanted = [
        number for number, name in consumers.items() if number in leaders and number not in found and name in names
    ]
    # Those that are there first: they stay, whatever else is wanted.
    for number in sorted(wanted, key=lambda each: (leaders[each] != names[consumers[each]], each)):
        name = consumers[number]
        if free[name] > 0:
            free[name] -= 1
            found[number] = name
    return found


def _targets(members: Collection[Candidate], pinned: Mapping[int, str]) -> dict[int, str]:
    """Return the incarnations that shards are pinned to, where these may get some."""
    living = {each.name: each.incarnation for each in members if not each.is_leaving}
    return {number: living[name] for number, name in pinned.items() if name in living}


def _counts(members: Collection[Candidate], leaders: Mapping[int, str | None]) -> dict[str, int]:
    """Return how many shards each member leads that may get some."""
    counts = {each.incarnation: 0 for each in members if not each.is_leaving}
    for leader in leaders.values():
        if leader in counts:
            counts[leader] += 1
    return counts
