"""A back-up of a running cluster by `pg_dump`, and the cluster that it becomes, beside the first one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.cluster.branch_names import branch_of
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.placement import ShardPlace
from tests.provider.cluster.test_decisions import in_doubt
from tests.provider.cluster.test_members import balanced
from tests.provider.cluster.world import LONG_MS, SHARDS, ClusterWorld, wait_until
from tests.provider.helpers import RecordedEvents, make_envelope

ORDERS = Address(AddressKind.QUEUE, "orders")


@pytest.fixture
def restored(world: ClusterWorld) -> Iterator[ClusterWorld]:
    """Another database of the same server, without anything."""
    other = ClusterWorld(world.server)
    with world.server.connect() as connection:
        connection.execute(f"DROP DATABASE {other.database}".encode())
    yield other
    other.close()


class Sender:
    """Sends to all shards, one message after the other, until it is stopped; knows what was confirmed."""

    def __init__(self, member: ClusterMember) -> None:
        self._sessions = [
            member.connect(ShardPlace(shard), RecordedEvents()).open_session(transacted=False)
            for shard in range(SHARDS)
        ]
        self._ends = Event()
        self.confirmed: list[tuple[int, str]] = []
        self.some = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ends.is_set():
            shard = number % SHARDS
            self._sessions[shard].send(make_envelope(str(number), destination=ORDERS, persistent=True))
            self.confirmed.append((shard, str(number)))
            number += 1
            if number >= 5 * SHARDS:
                self.some.set()

    def end(self) -> None:
        self._ends.set()
        self._thread.join()


def bodies(members: list[ClusterMember]) -> dict[int, list[object]]:
    """Return what is in the queue of each shard."""
    brokers = {number: broker for each in members for number, broker in each.brokers().items()}
    queues = {number: broker.virtual_host.find_queue(ORDERS.name) for number, broker in brokers.items()}
    return {number: [] if queue is None else [each.body for each in queue.browse()] for number, queue in queues.items()}


def test_a_back_up_of_a_running_cluster_has_all_that_was_confirmed_before(
    world: ClusterWorld, restored: ClusterWorld, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.dump"
    file.touch()
    # Their rows are in the dump, and must not count as alive for so long in the database that it becomes.
    first, second = (world.start(name, lease_ms=LONG_MS) for name in ("first", "second"))
    wait_until(lambda: balanced(first, second))
    transactions = {outcome: first.decisions.new_id() for outcome in ("decided", "undecided")}
    for transaction in transactions.values():
        for shard in (0, 1):
            unit = first.connect(ShardPlace(shard), RecordedEvents()).open_session(transacted=True)
            unit.send(make_envelope(transaction, destination=ORDERS, persistent=True))
            assert unit.prepare(branch_of(transaction, shard))
    sender = Sender(second)
    assert sender.some.wait(30)
    before = list(sender.confirmed)
    world.server.back_up(world.database, file, "--exclude-table=*.pyjms_paged")
    sender.end()

    world.server.restore(file, restored.database)
    # As if the dump had been made between this decision and its execution, which takes milliseconds.
    decided = transactions["decided"]
    restored.execute(f"INSERT INTO shop.pyjms_decision VALUES ('{decided}', true, '{{0,1}}', now())")
    third, fourth = restored.start("first"), restored.start("second")
    wait_until(lambda: balanced(third, fourth))
    members = [third, fourth]
    wait_until(lambda: not any(in_doubt(each, shard) for each in members for shard in each.brokers()))
    wait_until(lambda: restored.execute("SELECT * FROM shop.pyjms_decision") == [])
    found = bodies(members)
    for shard in range(SHARDS):
        texts = [text for text in found[shard] if text not in transactions.values()]
        sent = [text for at, text in sender.confirmed if at == shard]
        assert texts == sent[: len(texts)], "in order, and without a gap"
        assert set(texts) >= {text for at, text in before if at == shard}, "nothing confirmed before is lost"
        outcomes = [text for text in found[shard] if text in transactions.values()]
        assert outcomes == ([decided] if shard in (0, 1) else [])

    # The first cluster goes on, and neither touches the other.
    wait_until(lambda: not any(each.trouble for each in (first, second, third, fourth)))
    assert [in_doubt(each, shard) for each in (first, second) for shard in (0, 1) if shard in each.brokers()] == [2, 2]
    assert {each.address for each in third.status().members} == {third.address, fourth.address}
    assert {each.address for each in first.status().members} == {first.address, second.address}
