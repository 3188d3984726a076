"""The rule that spreads shards over members, as each member computes it: no database, no threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pyjms_provider.cluster.assignment import (
    Candidate,
    shards_to_hand_over,
    shards_to_take,
    with_following,
)

_LIVING = st.lists(
    st.builds(
        Candidate,
        incarnation=st.uuids().map(str),
        name=st.text("abcdef", min_size=1, max_size=3),
        is_leaving=st.booleans(),
    ),
    min_size=1,
    max_size=6,
    unique_by=(lambda each: each.incarnation, lambda each: each.name),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Candidate], dict[int, str | None]]:
    """Draw living members, and shards with and without leaders."""
    members = draw(_LIVING)
    leader = st.none() | st.sampled_from([each.incarnation for each in members])
    return members, dict(enumerate(draw(st.lists(leader, min_size=1, max_size=20))))


def take_all(members: Sequence[Candidate], leaders: dict[int, str | None]) -> None:
    """Have each member take its shards, all from what they saw before anyone did."""
    taken = {each.incarnation: shards_to_take(each.incarnation, members, leaders) for each in members}
    for member, numbers in taken.items():
        for number in numbers:
            assert leaders[number] is None, "two members want the same one, or one that is led"
            leaders[number] = member


def settle(members: Sequence[Candidate], leaders: dict[int, str | None]) -> int:
    """Make turns until nothing happens; return how many shards were handed over."""
    moves = 0
    while True:
        take_all(members, leaders)
        given_up = [number for each in members for number in shards_to_hand_over(each.incarnation, members, leaders)]
        if not given_up:
            return moves
        moves += len(given_up)
        for number in given_up:
            leaders[number] = None
        assert moves <= 2 * len(leaders), "they play ping-pong"
        if all(each.is_leaving for each in members):
            return moves


def spread_of(members: Sequence[Candidate], leaders: dict[int, str | None]) -> int:
    led = [list(leaders.values()).count(each.incarnation) for each in members if not each.is_leaving]
    return max(led) - min(led)


@given(clusters())
def test_each_shard_without_a_leader_is_taken_by_one_member(
    cluster: tuple[list[Candidate], dict[int, str | None]],
) -> None:
    members, leaders = cluster
    take_all(members, leaders)
    assert all(each.is_leaving for each in members) or None not in leaders.values()


@given(clusters())
def test_in_the_end_all_shards_are_led_and_the_members_have_as_many(
    cluster: tuple[list[Candidate], dict[int, str | None]],
) -> None:
    members, leaders = cluster
    settle(members, leaders)
    leaving = {each.incarnation for each in members if each.is_leaving}
    assert not leaving & set(leaders.values())
    if len(leaving) < len(members):
        assert None not in leaders.values()
        assert spread_of(members, leaders) <= 1


@given(clusters(), st.data())
def test_only_as_many_move_as_a_change_needs(
    cluster: tuple[list[Candidate], dict[int, str | None]], data: st.DataObject
) -> None:
    members, leaders = ([replace(each, is_leaving=False) for each in cluster[0]], cluster[1])
    settle(members, leaders)
    assert settle(members, leaders) == 0, "what is settled stays"
    joined = Candidate(incarnation="new", name="new")
    moves = settle([*members, joined], leaders)
    assert moves == list(leaders.values()).count("new")
    assert moves in {len(leaders) // (len(members) + 1), -(-len(leaders) // (len(members) + 1))}
    dead = data.draw(st.sampled_from(members))
    others = [each for each in (*members, joined) if each is not dead]
    for number, leader in leaders.items():
        if leader == dead.incarnation:
            leaders[number] = None
    assert settle(others, leaders) <= len(others)


@given(clusters())
def test_nobody_hands_over_for_equal_counts_while_a_shard_moves(
    cluster: tuple[list[Candidate], dict[int, str | None]],
) -> None:
    members, leaders = cluster
    for each in members:
        found = shards_to_hand_over(each.incarnation, members, leaders, [0])
        assert each.is_leaving or not found


@given(clusters())
def test_one_shard_at_a_time_moves_for_equal_counts(
    cluster: tuple[list[Candidate], dict[int, str | None]],
) -> None:
    members, leaders = cluster
    found = [
        number
        for each in members
        if not each.is_leaving
        for number in shards_to_hand_over(each.incarnation, members, leaders)
    ]
    assert len(found) <= 1


@given(clusters(), st.data())
def test_a_pinned_shard_goes_to_its_member_and_the_others_are_spread(
    cluster: tuple[list[Candidate], dict[int, str | None]], data: st.DataObject
) -> None:
    members, leaders = ([replace(each, is_leaving=False) for each in cluster[0]], cluster[1])
    names = st.sampled_from([*(each.name for each in members), "gone"])
    pinned = data.draw(st.dictionaries(st.sampled_from(sorted(leaders)), names))
    moves = 0
    while True:
        taken = {each.incarnation: shards_to_take(each.incarnation, members, leaders, pinned) for each in members}
        for member, numbers in taken.items():
            leaders.update(dict.fromkeys(numbers, member))
        given_up = [
            number for each in members for number in shards_to_hand_over(each.incarnation, members, leaders, (), pinned)
        ]
        if not given_up:
            break
        moves += len(given_up)
        assert moves <= 2 * len(leaders), "they play ping-pong"
        leaders.update(dict.fromkeys(given_up, None))
    assert None not in leaders.values()
    incarnations = {each.name: each.incarnation for each in members}
    assert all(leaders[number] == incarnations[name] for number, name in pinned.items() if name in incarnations)
    if not pinned.keys() - {number for number, name in pinned.items() if name == "gone"}:
        assert spread_of(members, leaders) <= 1


@st.composite
def consumed(draw: st.DrawFn) -> tuple[list[Candidate], dict[int, str | None], dict[int, str], dict[int, str]]:
    """Draw living members that stay, shards, those that are pinned, and those whose consumers are at one member."""
    members, leaders = draw(clusters())
    members = [replace(each, is_leaving=False) for each in members]
    names = st.sampled_from([*(each.name for each in members), "gone"])
    numbers = st.sampled_from(sorted(leaders))
    return members, leaders, draw(st.dictionaries(numbers, names, max_size=2)), draw(st.dictionaries(numbers, names))


@given(consumed())
def test_leaders_follow_their_consumers_and_come_to_rest(
    cluster: tuple[list[Candidate], dict[int, str | None], dict[int, str], dict[int, str]],
) -> None:
    members, leaders, pinned, consumers = cluster
    moves = 0
    while True:
        wanted = with_following(members, leaders, pinned, consumers)
        taken = {each.incarnation: shards_to_take(each.incarnation, members, leaders, wanted) for each in members}
        for member, numbers in taken.items():
            leaders.update(dict.fromkeys(numbers, member))
        wanted = with_following(members, leaders, pinned, consumers)
        given_up = [
            number for each in members for number in shards_to_hand_over(each.incarnation, members, leaders, (), wanted)
        ]
        if not given_up:
            break
        moves += len(given_up)
        assert moves <= 3 * len(leaders), "they play ping-pong"
        leaders.update(dict.fromkeys(given_up, None))
    names = {each.incarnation: each.name for each in members}
    there = {number: names[leader] for number, leader in leaders.items() if leader is not None}
    assert len(there) == len(leaders)
    followed = with_following(members, leaders, pinned, consumers)
    assert all(there[number] == name for number, name in followed.items())
    if not any(name in names.values() for name in pinned.values()):
        assert spread_of(members, leaders) <= 1
        share = len(leaders) // len(members)
        for name in names.values():
            of_name = [number for number, each in consumers.items() if each == name]
            met = [number for number in of_name if there[number] == name]
            assert len(met) >= min(len(of_name), share), "as many follow as the member leads anyway"


@given(consumed(), st.randoms())
def test_each_member_computes_the_same_whatever_the_order_of_its_rows(
    cluster: tuple[list[Candidate], dict[int, str | None], dict[int, str], dict[int, str]], random: Random
) -> None:
    members, leaders, pinned, consumers = cluster
    others, numbers = list(members), list(leaders)
    random.shuffle(others)
    random.shuffle(numbers)
    found = with_following(
        others,
        {each: leaders[each] for each in numbers},
        {each: pinned[each] for each in numbers if each in pinned},
        {each: consumers[each] for each in numbers if each in consumers},
    )
    assert found == with_following(members, leaders, pinned, consumers)
