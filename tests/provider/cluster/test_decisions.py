"""Transactions over several shards: what is written, and how branches are settled that nobody else settles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InDoubtError
from pyjms_provider.cluster.branch_names import branch_of
from pyjms_provider.cluster.decisions import ClusterDecisions
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.placement import ShardPlace
from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.stores.errors import StoreError, UnavailableStoreError, UncertainWriteError
from pyjms_provider.stores.sql.cluster import ClusterDatabase
from tests.provider.cluster.world import LONG_MS, ClusterWorld, counts, wait_until
from tests.provider.helpers import HandClock, RecordedEvents, make_envelope

DEAD = "0123456789abcdef"
ORDERS = Address(AddressKind.QUEUE, "orders")


def prepare(member: ClusterMember, transaction: str, *shards: int) -> None:
    """Send a message in each shard, all in one transaction, and prepare its parts."""
    for shard in shards:
        session = member.connect(ShardPlace(shard), RecordedEvents()).open_session(transacted=True)
        session.send(make_envelope(transaction, destination=ORDERS, persistent=True))
        assert session.prepare(branch_of(transaction, shard))


def in_doubt(member: ClusterMember, shard: int) -> int:
    return len(member.brokers()[shard].virtual_host.branches.reports())


def arrived(member: ClusterMember, shard: int) -> list[object]:
    """Return the texts of the messages that consumers of the shard get."""
    queue = member.brokers()[shard].virtual_host.find_queue("orders")
    return [] if queue is None else [each.body for each in queue.browse()]


def decisions(world: ClusterWorld) -> list[tuple[Any, ...]]:
    return world.execute("SELECT transaction, committed, shards FROM shop.pyjms_decision ORDER BY transaction")


@pytest.fixture
def member(world: ClusterWorld) -> ClusterMember:
    started = world.start("first", shards=2)
    assert started.await_leaders(LONG_MS)
    wait_until(lambda: len(started.brokers()) == 2)
    return started


class TestResolver:
    def test_what_is_decided_is_committed_where_it_was_not(self, world: ClusterWorld, member: ClusterMember) -> None:
        prepare(member, f"{DEAD}:1", 0, 1)
        world.execute(f"INSERT INTO shop.pyjms_decision VALUES ('{DEAD}:1', true, '{{0,1}}', now())")
        wait_until(lambda: decisions(world) == [])
        assert [arrived(member, shard) for shard in (0, 1)] == [[f"{DEAD}:1"]] * 2
        assert [in_doubt(member, shard) for shard in (0, 1)] == [0, 0]

    def test_what_a_dead_coordinator_has_not_decided_is_rolled_back(
        self, world: ClusterWorld, member: ClusterMember
    ) -> None:
        prepare(member, f"{DEAD}:1", 0, 1)
        wait_until(lambda: not in_doubt(member, 0) and not in_doubt(member, 1) and decisions(world) == [])
        assert [arrived(member, shard) for shard in (0, 1)] == [[], []]

    def test_a_former_leader_decides_nothing(self, world: ClusterWorld, member: ClusterMember) -> None:
        database = ClusterDatabase(world.url, "shop", SystemClock(), answer_ms=LONG_MS)
        own = member.incarnation
        assert own is not None
        try:
            # It may be committed, and its decision deleted, since the former leader has looked.
            assert database.roll_back_branch(f"{DEAD}:1", 0, DEAD) is None
            assert decisions(world) == []
            assert database.roll_back_branch(f"{DEAD}:2", 0, own) is False
            assert database.roll_back_branch(f"{DEAD}:2", 0, DEAD) is False
            world.execute(f"INSERT INTO shop.pyjms_decision VALUES ('{DEAD}:3', true, '{{0,1}}', now())")
            assert database.roll_back_branch(f"{DEAD}:3", 0, own) is True
        finally:
            database.close()

    def test_a_living_coordinator_is_not_anticipated(self, world: ClusterWorld, member: ClusterMember) -> None:
        waiting, decided = member.decisions.new_id(), f"{DEAD}:1"
        prepare(member, waiting, 0)
        prepare(member, decided, 0)
        wait_until(lambda: in_doubt(member, 0) == 1)
        [left] = member.brokers()[0].virtual_host.branches.reports()
        assert left.xid == branch_of(waiting, 0)
        assert member.decisions.commit(waiting, [0])
        wait_until(lambda: decisions(world) == [])
        assert arrived(member, 0) == [waiting]

    def test_a_coordinator_has_parts_rolled_back(self, world: ClusterWorld, member: ClusterMember) -> None:
        transaction = member.decisions.new_id()
        prepare(member, transaction, 0)
        member.decisions.roll_back(transaction, [0, 1])
        wait_until(lambda: in_doubt(member, 0) == 0)
        assert arrived(member, 0) == []
        # A part of it may still be prepared at the other shard.
        wait_until(lambda: decisions(world) == [(transaction, False, [1])])
        prepare(member, transaction, 1)
        wait_until(lambda: decisions(world) == [])
        assert in_doubt(member, 1) == 0

    def test_what_an_operator_has_settled_is_forgotten(
        self, world: ClusterWorld, member: ClusterMember, caplog: pytest.LogCaptureFixture
    ) -> None:
        transaction = member.decisions.new_id()
        prepare(member, transaction, 0, 1)
        branches = member.brokers()[0].virtual_host.branches
        branches.settle_heuristically(branch_of(transaction, 0), commit=False)
        assert member.decisions.commit(transaction, [0, 1])
        wait_until(lambda: decisions(world) == [])
        assert in_doubt(member, 0) == 0
        assert arrived(member, 1) == [transaction]
        assert "PYJMS-CLUSTER-4" in caplog.text

    def test_a_decision_that_all_shards_have_applied_is_deleted(
        self, world: ClusterWorld, member: ClusterMember
    ) -> None:
        world.execute(
            f"INSERT INTO shop.pyjms_decision VALUES ('{DEAD}:1', true, '{{0,1}}', now() - interval '1 minute')"
        )
        wait_until(lambda: decisions(world) == [])

    def test_branches_of_other_coordinators_are_left_alone(self, world: ClusterWorld, member: ClusterMember) -> None:
        transaction = f"{DEAD}:1"
        session = member.connect(ShardPlace(0), RecordedEvents()).open_session(transacted=True)
        session.send(make_envelope("xa", destination=ORDERS, persistent=True))
        ours = branch_of(transaction, 0)
        session.prepare(type(ours)(1, ours.global_transaction_id, ours.branch_qualifier))
        prepare(member, transaction, 0)
        wait_until(lambda: in_doubt(member, 0) == 1)
        [left] = member.brokers()[0].virtual_host.branches.reports()
        assert left.xid.format_id == 1

    def test_who_takes_a_shard_over_settles_its_branches(self, world: ClusterWorld, member: ClusterMember) -> None:
        killed = world.start_process("killed", shards=2)
        wait_until(lambda: counts(member) == [1, 1])
        [there], incarnation = killed.ask("led"), killed.ask("incarnation")
        prepare(member, f"{incarnation}:1", there)
        prepare(member, f"{incarnation}:2", there)
        world.execute(f"INSERT INTO shop.pyjms_decision VALUES ('{incarnation}:2', true, '{{{there}}}', now())")
        killed.kill()
        wait_until(lambda: there in member.brokers() and in_doubt(member, there) == 0)
        assert arrived(member, there) == [f"{incarnation}:2"]
        wait_until(lambda: decisions(world) == [])


class TestLog:
    def test_a_decision_is_written_once(self, world: ClusterWorld, member: ClusterMember) -> None:
        log = member.decisions
        first, second = log.new_id(), log.new_id()
        assert first.partition(":")[0] == member.incarnation
        assert first != second
        assert log.commit(first, [0, 1])
        assert log.commit(first, [0, 1]), "it is committed, whoever asks"
        log.forget(first)
        world.execute(f"INSERT INTO shop.pyjms_decision VALUES ('{second}', false, '{{0}}', now())")
        assert not log.commit(second, [0, 1])

    def test_a_decision_that_the_shards_apply_at_once_was_written(
        self, world: ClusterWorld, member: ClusterMember
    ) -> None:
        """It looked for the row again, which was deleted by then, and told the client that the transaction was rolled back."""
        world.execute(
            "CREATE FUNCTION shop.apply() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN DELETE FROM shop.pyjms_decision WHERE transaction = NEW.transaction; RETURN NULL; END'"
        )
        world.execute(
            "CREATE TRIGGER applies AFTER INSERT ON shop.pyjms_decision FOR EACH ROW EXECUTE FUNCTION shop.apply()"
        )
        assert member.decisions.commit(member.decisions.new_id(), [0, 1])
        assert decisions(world) == []

    def test_a_member_that_was_taken_for_dead_commits_nothing(self, world: ClusterWorld, member: ClusterMember) -> None:
        transaction = member.decisions.new_id()
        world.execute("UPDATE shop.pyjms_member SET incarnation = 'another'")
        assert not member.decisions.commit(transaction, [0])
        assert decisions(world) == []


class TestSubscriptions:
    def test_topics_are_entered_changed_and_removed(self, member: ClusterMember) -> None:
        registry, key = member.subscriptions, SubscriptionKey("desk", "news")
        assert registry.topic_of(key) is None
        registry.enter(key, "news")
        registry.enter(key, "sports")
        assert registry.topic_of(key) == "sports"
        assert registry.topic_of(SubscriptionKey("", "news")) is None
        registry.remove(key)
        registry.remove(key)
        assert registry.topic_of(key) is None


class Answers:
    """A database that answers commits as the test says."""

    def __init__(self, *answers: bool | StoreError | None) -> None:
        self.answers = list(answers)
        self.rolled_back: list[tuple[str, Sequence[int]]] = []

    def decide_commit(self, transaction: str, shards: Sequence[int], incarnation: str) -> bool | None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def decide_rollback(self, transaction: str, shards: Sequence[int]) -> bool:
        self.rolled_back.append((transaction, shards))
        return False


class SteppingClock(HandClock):
    """Each wait moves it to its end."""

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        assert until_ms is not None
        self.now_ms = int(until_ms)
        return False


def log_over(database: Answers) -> ClusterDecisions:
    return ClusterDecisions(cast("ClusterDatabase", database), SteppingClock(), lambda: DEAD)


_LOST = UncertainWriteError("the connection was lost")
_DOWN = UnavailableStoreError("it does not answer")
_FULL = StoreError("the disk is full")


class TestUncertainty:
    @pytest.mark.parametrize("answer", [True, False])
    def test_the_log_asks_until_it_knows(self, answer: bool) -> None:
        assert log_over(Answers(_LOST, _DOWN, _FULL, _LOST, answer)).commit("t:1", [0]) is answer

    def test_what_was_certainly_not_written_is_an_error(self) -> None:
        for error in (_DOWN, _FULL):
            with pytest.raises(type(error)):
                log_over(Answers(error)).commit("t:1", [0])

    @pytest.mark.parametrize("then", [_DOWN, _FULL, None])
    def test_what_stays_unknown_is_in_doubt_and_rolled_back_unless_it_was_written(
        self, then: StoreError | None
    ) -> None:
        database = Answers(_LOST, then)
        log = log_over(database)
        with pytest.raises(InDoubtError):
            log.commit("t:1", [0, 1])
        log.flush()
        log.flush()
        assert database.rolled_back == [("t:1", (0, 1))]

    def test_the_end_of_the_member_ends_the_wait(self) -> None:
        log = log_over(Answers(_LOST))
        log.close()
        with pytest.raises(InDoubtError):
            log.commit("t:1", [0])
