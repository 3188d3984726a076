"""Where destinations are in a cluster."""

from __future__ import annotations

from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.cluster.placement import FrontPlace, Placement, ShardPlace, spread
from pyjms_provider.cluster.placing import dead_letter_queues
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy

names = st.text(min_size=1, max_size=40)
kinds = st.sampled_from(AddressKind)


@given(kinds, names, st.integers(1, 256))
def test_a_destination_is_in_one_of_the_shards(kind: AddressKind, name: str, shards: int) -> None:
    assert 0 <= Placement(shards).shard_of(kind, name) < shards


def test_the_hash_is_the_same_in_all_versions() -> None:
    placement = Placement(8)
    found = [placement.shard_of(AddressKind.QUEUE, name) for name in ("orders", "billing", "mail", "ä", "\ud800")]
    assert found == [5, 3, 3, 6, 6]
    assert placement.shard_of(AddressKind.TOPIC, "orders") == 4


def test_many_names_are_spread_over_all_shards() -> None:
    counts = [0] * 8
    for number in range(8_000):
        counts[Placement(8).shard_of(AddressKind.QUEUE, f"queue.{number}")] += 1
    assert min(counts) > 800
    assert max(counts) < 1_200


@given(names)
def test_a_moved_destination_is_where_it_was_moved_to(name: str) -> None:
    placement = Placement(8, MappingProxyType({(AddressKind.QUEUE, name): (5,)}))
    assert placement.place_of(Address(AddressKind.QUEUE, name)) == ShardPlace(5)
    assert placement.shard_of(AddressKind.TOPIC, name) == Placement(8).shard_of(AddressKind.TOPIC, name)


@given(names, st.integers(2, 8))
def test_a_partitioned_queue_is_in_several_shards_and_a_group_in_one(name: str, partitions: int) -> None:
    leaders: dict[int, str | None] = {number: "left" if number < 4 else "right" for number in range(8)}
    first = Placement(8).hashed(AddressKind.QUEUE, name)
    shards = spread(first, partitions, leaders)
    assert len(set(shards)) == partitions
    assert first in shards
    assert shards == tuple(sorted(shards))
    led = [leaders[each] for each in shards]
    assert abs(led.count("left") - led.count("right")) <= 1, "at members as different as possible"
    placement = Placement(8, MappingProxyType({(AddressKind.QUEUE, name): shards}))
    assert placement.places_of(Address(AddressKind.QUEUE, name)) == [ShardPlace(each) for each in shards]
    assert placement.partition_of(shards, "group") == Placement(8).partition_of(shards, "group")


def test_partitions_come_where_other_queues_have_none() -> None:
    leaders: dict[int, str | None] = dict.fromkeys(range(4), "alone")
    assert spread(0, 2, leaders) == (0, 1)
    assert spread(0, 2, leaders, used=[1, 2]) == (0, 3)


def test_a_temporary_destination_is_at_the_front_of_its_connection() -> None:
    address = Address(AddressKind.QUEUE, "my-shop-0a1b2c3d4e5f-17-2", temporary=True)
    assert Placement(8).place_of(address) == FrontPlace("0a1b2c3d4e5f")
    assert Placement(8).place_of(Address(AddressKind.QUEUE, "of another form", temporary=True)) == FrontPlace("")


def test_a_queue_of_dead_letters_is_in_all_shards_until_it_is_placed() -> None:
    policies = QueuePolicies(patterns=(("orders.*", QueuePolicy(expiry_queue="late")),))
    everywhere = dead_letter_queues(policies)
    assert everywhere == {"DLQ", "late"}
    placement = Placement(4, everywhere=everywhere)
    assert placement.shards_of(AddressKind.QUEUE, "DLQ") == (0, 1, 2, 3)
    assert len(placement.shards_of(AddressKind.TOPIC, "DLQ")) == 1
    placed = Placement(4, MappingProxyType({(AddressKind.QUEUE, "DLQ"): (2,)}), everywhere=everywhere)
    assert placed.shards_of(AddressKind.QUEUE, "DLQ") == (2,)
