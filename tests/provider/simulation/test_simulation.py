"""Seeds by the thousand: every promise holds in each, and a seed that breaks one can be played again.

``PYJMS_SIMULATION_SEEDS=2000`` says how many seeds are played, ``PYJMS_SIMULATION_SEED=17`` plays one.
"""

from __future__ import annotations

import os

import pytest

from pyjms_provider.core.journal import Changes, Journal
from pyjms_provider.core.keeping import Keeper
from pyjms_provider.core.kept_queue import KeptQueue
from pyjms_provider.core.unit_of_work import UnitOfWork
from tests.provider.simulation.oracle import ViolationError
from tests.provider.simulation.world import World

SEEDS = int(os.environ.get("PYJMS_SIMULATION_SEEDS", "2000"))
GROUPS = 20


def play(seed: int) -> World:
    """Play one seed. Raises `ViolationError` that tells how to play it again."""
    world = World(seed)
    try:
        world.run()
    except ViolationError as violation:
        steps = "\n".join(world.log)
        raise ViolationError(
            f"seed {seed}: {violation}\nPYJMS_SIMULATION_SEED={seed} plays it again\n{steps}"
        ) from None
    finally:
        world.site.stop()
    return world


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_promise_holds(group: int) -> None:
    chosen = os.environ.get("PYJMS_SIMULATION_SEED")
    seeds = [int(chosen)] if chosen else range(group, SEEDS, GROUPS)
    for seed in seeds:
        play(seed)


def test_a_seed_plays_the_same_again() -> None:
    assert play(4711).log == play(4711).log


def _seeds_until_found(most: int = 300) -> str:
    for seed in range(most):
        try:
            play(seed)
        except ViolationError as violation:
            return str(violation)
    return "nothing was found"


def test_a_delivery_that_is_not_noted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptQueue, "knows", lambda *_: True)
    assert "redelivered without flag" in _seeds_until_found()


def test_an_acknowledgement_that_is_not_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Keeper, "write_settled", lambda *_: None)
    assert "duplicated" in _seeds_until_found()


def test_a_send_that_is_not_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Keeper, "send_to_queue", lambda _, queue, reference, *__: queue.take_over(reference))
    assert "lost" in _seeds_until_found()


def test_a_message_that_is_visible_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = UnitOfWork._write

    def publish_first(unit: UnitOfWork, journal: Journal, changes: Changes, *, force: bool) -> None:
        for entry in unit._sent:
            entry.queue.commit([entry])
        commit(unit, journal, changes, force=force)

    monkeypatch.setattr(UnitOfWork, "_write", publish_first)
    assert _seeds_until_found() != "nothing was found"
