"""Seeds of a cluster by the hundred: every promise holds in each, and a seed that breaks one can be played again.

``PYJMS_SIMULATED_CLUSTER_SEEDS=20000`` says how many seeds are played, ``PYJMS_SIMULATED_CLUSTER_SEED=17`` has each test play that one.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from pyjms.spi.errors import BranchError
from pyjms.spi.provider import ProviderSession
from pyjms.spi.xid import Xid
from pyjms_provider.clients.cluster import two_phase
from pyjms_provider.clients.cluster.branches import ClusterBranches
from pyjms_provider.clients.cluster.session import SessionPart
from pyjms_provider.cluster.decisions import Resolver
from pyjms_provider.cluster.membership import Membership
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.journal.journal import Recovery
from pyjms_provider.core.journal.queue_journal import QueueJournal
from pyjms_provider.stores.volatile import VolatileJournal
from tests.provider.simulation.cluster.cooperative import end_threads
from tests.provider.simulation.cluster.database import Server, SimulatedTables
from tests.provider.simulation.cluster.oracle import ViolationError
from tests.provider.simulation.cluster.world import World

SEEDS = int(os.environ.get("PYJMS_SIMULATED_CLUSTER_SEEDS", "2000"))
GROUPS = 20
_COLLECT = 20
_AGAIN = range(20, 26)


@pytest.fixture(autouse=True)
def collection_now_and_then() -> Iterator[None]:
    """Have garbage collected between seeds: it takes a fifth of the time otherwise. End the threads that have run their tasks."""
    gc.collect()
    gc.disable()
    gc.freeze()  # so that no collection looks at all that was imported
    yield
    gc.unfreeze()
    gc.enable()
    end_threads()


def play(seed: int, faults: Mapping[str, float] | None = None) -> World:
    """Play one seed. Raises `ViolationError` that tells how to play it again."""
    world = World(seed, faults=faults)
    try:
        world.run()
    except Exception as error:
        what = str(error) if isinstance(error, ViolationError) else repr(error)
        steps = "\n".join(world.log)
        raise ViolationError(
            f"seed {seed}: {what}\nPYJMS_SIMULATED_CLUSTER_SEED={seed} pytest -n 0 '{_this_test()}' plays it again\n{steps}"
        ) from (None if isinstance(error, ViolationError) else error)
    finally:
        if seed % _COLLECT == 0:
            gc.collect()
    return world


def _this_test() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def _seeds(every: Sequence[int]) -> Sequence[int]:
    chosen = os.environ.get("PYJMS_SIMULATED_CLUSTER_SEED")
    return [int(chosen)] if chosen else every


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_promise_holds(group: int) -> None:
    taken_over = ended = 0
    for seed in _seeds(range(group, SEEDS, GROUPS)):
        world = play(seed)
        taken_over += sum(each.terms > 1 for each in world.server.shards.values())
        ended += world.server.ended_by_others
    if "PYJMS_SIMULATED_CLUSTER_SEED" not in os.environ:
        assert taken_over, "some shards had several leaders"
        assert ended, "some sessions of silent members were ended"


def test_a_seed_plays_the_same_again() -> None:
    assert play(4711).log == play(4711).log


def test_a_seed_plays_the_same_in_another_process() -> None:
    program = f"import {World.__module__} as it; [print(*world.log, sep=chr(10)) for seed in {_AGAIN} if (world := it.World(seed)).run() is None]"
    hashes = str(int(os.environ.get("PYTHONHASHSEED", "0").replace("random", "0")) + 1)
    played = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hashes},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert played.stdout.splitlines() == [line for seed in _AGAIN for line in play(seed).log]


@pytest.mark.parametrize("seed", [42, 204, 2213])
def test_what_other_seeds_have_found_stays_mended(seed: int) -> None:
    play(seed)


# Faults that are planted, and must be found.


def _found(most: int = 200, **faults: float) -> str:
    """Return what the first seed finds that finds something; `faults`: as in `World`, None of them: as in all other seeds."""
    for seed in range(most):
        try:
            play(seed, faults or None)
        except ViolationError as violation:
            return str(violation).partition("\n")[0]
    return "nothing was found"


def test_a_member_that_does_not_look_at_its_lease_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_covered(journal: QueueJournal, reference: object, count: int) -> bool:
        return count == 1 and reference.id <= journal._marks[reference.priority]  # type: ignore[attr-defined]

    monkeypatch.setattr(QueueJournal, "is_covered", is_covered)
    assert "two leaders" in _found(cut_off=3, pause=3, mend=2)


def test_a_lease_that_outlives_the_heartbeats_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Membership, "held_until_s", lambda *_: float("inf"))
    assert "two leaders" in _found(cut_off=3, pause=3, mend=2)


def test_a_decision_of_a_deleted_coordinator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = SimulatedTables.decide_commit

    def decide_late(tables: SimulatedTables, transaction: str, shards: Sequence[int], incarnation: str) -> bool | None:
        tables._server.scheduler.sleep(300)  # so that more members are paused before it
        return decide(tables, transaction, shards, incarnation)

    monkeypatch.setattr(SimulatedTables, "decide_commit", decide_late)
    monkeypatch.setattr(SimulatedTables, "has_row", lambda *_: True)
    assert re.search("torn|lost|uncommitted", _found(pause=4, nothing=10, mend=1))


def test_a_resolver_that_commits_by_default_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    roll_back = SimulatedTables.roll_back_branch

    def commit(tables: SimulatedTables, transaction: str, shard: int, leader: str) -> bool:
        roll_back(tables, transaction, shard, leader)
        return True

    monkeypatch.setattr(SimulatedTables, "roll_back_branch", commit)
    assert re.search("torn|phantom|uncommitted|lost", _found())


def test_a_resolver_that_anticipates_living_coordinators_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It rolls back without a decision what the coordinator may still commit."""
    monkeypatch.setattr(SimulatedTables, "living", lambda *_: set())
    monkeypatch.setattr(SimulatedTables, "roll_back_branch", lambda *_: False)
    assert re.search("torn|lost|duplicated", _found(pause=4, slow=4, mend=4))


def test_a_decision_that_is_forgotten_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator takes for granted that all shards have heard it."""

    def tell_once(transaction: str, parts: Sequence[two_phase.Participant]) -> bool:
        for part in parts:
            two_phase._tell(transaction, part, commit=True)
        return True

    monkeypatch.setattr(two_phase, "_apply", tell_once)
    assert re.search("torn|lost|not in time", _found())


def test_branches_that_nobody_settles_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resolver, "settle", lambda *_: None)
    assert "not in time: all branches are settled" in _found()


def test_dead_members_that_nobody_deletes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "is_alive", lambda *_: True)
    assert re.search("not in time|cannot start", _found())


def test_a_part_whose_session_is_replaced_during_the_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class PresentPart:
        """Is at the session that the part has when it is asked."""

        def __init__(self, part: SessionPart) -> None:
            self._part = part
            self.shard = part.shard

        @staticmethod
        def of(part: SessionPart) -> PresentPart:
            return PresentPart(part)

        @property
        def session(self) -> ProviderSession | None:
            return self._part.session

        @property
        def term(self) -> int:
            return self._part.term

        def ready(self) -> ProviderSession:
            assert self._part.session is not None, "it has a part of the transaction"
            return self._part.session

    monkeypatch.setattr(SessionPart, "unit", PresentPart.of)
    assert re.search("torn|lost", _found(lose_links=3, slow=3, nothing=1))


def test_a_consumer_that_the_next_leader_does_not_know_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionPart, "restore", lambda *_: None)
    assert "not delivered" in _found()


def test_messages_of_a_durable_subscription_that_the_next_leader_does_not_have_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recover = VolatileJournal.recover

    def recover_queues(journal: VolatileJournal, progress: Callable[[int], None]) -> Recovery:
        found = recover(journal, progress)
        queues = {each.number for each in found.queues if each.subscription is None}
        return replace(found, entries=(each for each in found.entries if each.queue in queues))

    monkeypatch.setattr(VolatileJournal, "recover", recover_queues)
    assert re.search("lost: .* of t|torn", _found())


def test_messages_that_are_not_persistent_and_end_with_their_leader_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.provider.simulation.cluster.world.POLICY", HostPolicy())
    assert "lost" in _found()


def test_a_branch_that_is_committed_at_one_shard_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = ClusterBranches._left
    monkeypatch.setattr(ClusterBranches, "_left", lambda *arguments: shards(*arguments)[:1])
    assert re.search("torn|lost|duplicated|not in time: the coordinator settles", _found())


def test_a_branch_that_is_prepared_though_its_work_at_a_shard_was_lost_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def prepare(branches: ClusterBranches, xid: Xid, session: Any) -> bool:
        changes = False
        for shard in branches._all(xid):
            with suppress(BranchError):
                changes |= session.part_at(shard).ready().xa_prepare(xid)
        return changes

    monkeypatch.setattr(ClusterBranches, "prepare", prepare)
    assert re.search("torn|lost|duplicated", _found())


def test_what_is_found_says_how_it_is_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resolver, "settle", lambda *_: None)
    with pytest.raises(ViolationError) as found:
        for seed in range(200):
            play(seed)
    match = re.match(r"seed (\d+): ", str(found.value))
    assert match is not None
    here = f"{__file__.rpartition('/')[2]}::{test_what_is_found_says_how_it_is_played_again.__name__}"
    assert re.search(
        rf"\nPYJMS_SIMULATED_CLUSTER_SEED={match[1]} pytest -n 0 '\S*{re.escape(here)}' plays it again\n",
        str(found.value),
    )
    monkeypatch.setenv("PYJMS_SIMULATED_CLUSTER_SEED", match[1])
    with pytest.raises(ViolationError, match=f"^seed {match[1]}: "):
        test_every_promise_holds(0)
