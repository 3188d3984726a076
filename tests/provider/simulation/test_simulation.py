"""Seeds by the thousand: every promise holds in each, and a seed that breaks one can be played again.

``PYJMS_SIMULATION_SEEDS=2000`` says how many seeds are played, ``PYJMS_SIMULATION_SEED=17`` has each test play that one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import pytest

from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.host import admission
from pyjms_provider.core.host.admission import AdmissionController
from pyjms_provider.core.host.restoring import BranchesInDoubt
from pyjms_provider.core.journal.in_doubt_writes import InDoubtWrites
from pyjms_provider.core.journal.journal import Changes, Journal
from pyjms_provider.core.journal.queue_journal import QueueJournal
from pyjms_provider.core.journal.storage_manager import StorageManager
from pyjms_provider.core.queue import entry_list as ordering
from pyjms_provider.core.queue import recovery
from pyjms_provider.core.queue.dead_letters import DeadLetterPolicy
from pyjms_provider.core.queue.queue_rules import Capacity
from pyjms_provider.core.transaction.branches import Branches
from pyjms_provider.core.transaction.unit_of_work import TimeLimit, UnitChanges, UnitOfWork
from pyjms_provider.stores.volatile import VolatileJournal
from tests.provider.simulation.oracle import Rules, ViolationError
from tests.provider.simulation.power import PoweredJournal
from tests.provider.simulation.world import World

SEEDS = int(os.environ.get("PYJMS_SIMULATION_SEEDS", "1000"))
GROUPS = 20


def play(
    seed: int,
    *,
    loses_power: bool = False,
    loses_answers: bool = False,
    chosen: tuple[dict[str, Any], Rules] | None = None,
) -> World:
    """Play one seed. Raises `ViolationError` that tells how to play it again."""
    world = World(seed, loses_power=loses_power, loses_answers=loses_answers, chosen=chosen)
    try:
        world.run()
    except ViolationError as violation:
        steps = "\n".join(world.log)
        raise ViolationError(
            f"seed {seed}: {violation}\nPYJMS_SIMULATION_SEED={seed} pytest -n 0 '{_this_test()}' plays it again\n{steps}"
        ) from None
    finally:
        world.site.stop()
    return world


def _this_test() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def _seeds(every: Sequence[int]) -> Sequence[int]:
    chosen = os.environ.get("PYJMS_SIMULATION_SEED")
    return [int(chosen)] if chosen else every


@pytest.mark.timeout(600)
@pytest.mark.parametrize("loses_power", [False, True], ids=["process", "power"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_promise_holds(group: int, loses_power: bool) -> None:
    """Whether the process dies alone, or its machine loses power with it; every other store does not always answer."""
    for seed in _seeds(range(group, SEEDS, GROUPS)):
        play(seed, loses_power=loses_power, loses_answers=seed % 2 == 1)


def test_a_seed_plays_the_same_again() -> None:
    assert play(4711).log == play(4711).log


@pytest.mark.parametrize("seed", [2058, 2377, 2480, 2516, 2771, 10738])
def test_what_other_seeds_have_found_stays_mended(seed: int) -> None:
    play(seed)


def test_messages_that_are_dormant_as_soon_as_they_can_be_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "BACKLOG", 0)
    for seed in _seeds(range(9000, 9200)):
        play(seed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", range(4))
def test_values_that_are_given_back_and_delayed_are_not_lost(group: int) -> None:
    """Chosen here and not by the seed, so that all others play what they have played."""
    policy = {"type": "last_value", "key": "key", "redelivery_delay_ms": 100, "redelivery_multiplier": 2.0}
    for seed in _seeds(range(group, 400, 4)):
        play(seed, chosen=(policy, Rules(last_value=True, delay_ms=100)))


def _seeds_until_found(
    first: int = 0, most: int = 300, *, loses_power: bool = False, loses_answers: bool = False
) -> str:
    for seed in range(first, first + most):
        try:
            play(seed, loses_power=loses_power, loses_answers=loses_answers)
        except ViolationError as violation:
            return str(violation)
    return "nothing was found"


def test_a_delivery_that_is_not_noted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueueJournal, "is_covered", lambda *_: True)
    assert "redelivered without flag" in _seeds_until_found()


def test_an_acknowledgement_that_is_not_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StorageManager, "write_settled", lambda *_: None)
    assert "duplicated" in _seeds_until_found()


def test_what_is_found_says_how_it_is_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StorageManager, "write_settled", lambda *_: None)
    seed = re.match(r"seed (\d+): ", found := _seeds_until_found())
    assert seed is not None
    here = f"{__file__.rpartition('/')[2]}::{test_what_is_found_says_how_it_is_played_again.__name__}"
    assert re.search(rf"\nPYJMS_SIMULATION_SEED={seed[1]} pytest -n 0 '\S*{re.escape(here)}' plays it again\n", found)
    monkeypatch.setenv("PYJMS_SIMULATION_SEED", seed[1])
    with pytest.raises(ViolationError, match=f"^seed {seed[1]}: "):
        test_every_promise_holds(0, loses_power=False)


def test_a_send_that_is_not_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        StorageManager, "send", lambda storage, queue, *message: queue.enqueue(storage._store.store(*message[:2]))
    )
    assert "lost" in _seeds_until_found()


def test_a_message_that_is_visible_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = UnitOfWork._write

    def publish_first(unit: UnitOfWork, journal: Journal, written: UnitChanges, *, force: bool) -> None:
        for entry in unit._sent:
            entry.queue.commit([entry])
        commit(unit, journal, written, force=force)

    monkeypatch.setattr(UnitOfWork, "_write", publish_first)
    assert _seeds_until_found() != "nothing was found"


def test_a_prepared_branch_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Branches, "restore", lambda *_: None)
    found = _seeds_until_found()
    assert "was prepared, and is gone" in found or "lost" in found


def test_a_prepared_branch_that_lets_go_of_what_it_received_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BranchesInDoubt, "holds", lambda *_: False)
    monkeypatch.setattr(BranchesInDoubt, "found", lambda *_: None)
    found = _seeds_until_found(first=40)
    assert "two holders" in found or "duplicated" in found


def test_an_id_that_is_not_remembered_over_a_restart_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdmissionController, "restore", lambda *_: None)
    found = _seeds_until_found()
    assert "two holders" in found or "duplicated" in found


def test_an_id_that_is_not_held_for_a_branch_in_doubt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdmissionController, "claim_again", lambda *_: None)
    found = _seeds_until_found(first=600, most=100)  # it is rare
    assert "two holders" in found or "duplicated" in found


def test_a_message_that_comes_again_too_early_after_a_restart_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "redelivery_delay_ms", lambda *_: 0)
    assert "too early" in _seeds_until_found()


def test_a_scheduled_message_that_comes_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "with_delivery_time", lambda envelope: envelope)
    assert "too early" in _seeds_until_found()


def test_a_queue_that_holds_more_than_it_may_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Capacity, "claim", lambda *_: True)
    assert "overfull" in _seeds_until_found()


def test_a_queue_that_refuses_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Capacity, "claim", lambda *_: False)
    assert "refused" in _seeds_until_found()


def test_an_expired_message_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeadLetterPolicy, "moves_expired", False)
    assert "lost" in _seeds_until_found()


def test_a_transaction_that_may_stay_open_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimeLimit, "run_due", lambda *_: None)
    assert "late" in _seeds_until_found()


def test_a_late_transaction_that_keeps_what_it_sent_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VmSession, "_time_out", lambda session, _: session._receiving.give_back_all())
    assert _seeds_until_found() != "nothing was found"


def test_a_ring_that_drops_what_it_has_room_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Capacity, "is_exceeded", True)
    assert "lost" in _seeds_until_found()


def test_a_write_in_doubt_that_nobody_settles_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InDoubtWrites, "_ask", lambda _: None)
    assert "lost" in _seeds_until_found(loses_answers=True)


def test_a_write_in_doubt_that_is_settled_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VolatileJournal, "holds", lambda *_: True)
    found = _seeds_until_found(loses_answers=True)
    assert re.search("uncommitted visible|duplicated|lost", found)


def test_a_store_that_is_closed_as_clean_while_something_is_in_doubt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InDoubtWrites, "settle", lambda _: True)
    assert "redelivered without flag" in _seeds_until_found(loses_answers=True)


def test_a_send_in_doubt_that_is_not_withdrawn_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Changes, "withdrawal", lambda _: Changes())
    assert "uncommitted visible" in _seeds_until_found(loses_answers=True)


@pytest.mark.parametrize(
    ("what", "found"),
    [("messages", "lost|gone"), ("marks", "redelivered without flag"), ("removals", "lost|duplicated")],
)
def test_what_is_not_forced_and_should_be_is_found(monkeypatch: pytest.MonkeyPatch, what: str, found: str) -> None:
    write = PoweredJournal.write

    def force_others(journal: PoweredJournal, changes: Changes, *, force: bool) -> None:
        write(journal, changes, force=force and not getattr(changes, what))

    monkeypatch.setattr(PoweredJournal, "write", force_others)
    assert re.search(found, _seeds_until_found(most=1000, loses_power=True))
