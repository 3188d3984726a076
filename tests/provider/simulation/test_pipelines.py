"""Pipelines by the hundred seeds: each message comes through once, whatever dies, and a seed that breaks that can be played again.

``PYJMS_PIPELINE_SEEDS=20000`` says how many seeds are played, ``PYJMS_PIPELINE_SEED=17`` plays one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from pyjms.spi.errors import ProviderError
from pyjms.spi.replay import StageName
from pyjms_provider.core.transaction.reader_groups import Group
from pyjms_provider.core.transaction.stages import StageTable
from tests.provider.simulation.oracle import ViolationError
from tests.provider.simulation.pipeline_world import PipelineWorld

SEEDS = int(os.environ.get("PYJMS_PIPELINE_SEEDS", "100"))


def play(seed: int) -> PipelineWorld:
    """Play one seed. Raises `ViolationError` that tells how to play it again."""
    world = PipelineWorld(seed)
    try:
        world.run()
    except ViolationError as violation:
        steps = "\n".join(world.log)
        raise ViolationError(f"seed {seed}: {violation}\nPYJMS_PIPELINE_SEED={seed} plays it again\n{steps}") from None
    finally:
        world.site.stop()
    return world


@pytest.mark.timeout(3600)
def test_each_message_comes_through_once_whatever_dies() -> None:
    chosen = os.environ.get("PYJMS_PIPELINE_SEED")
    seeds = [int(chosen)] if chosen else range(SEEDS)
    epochs = sum(play(seed).checkpoint.epoch for seed in seeds)
    assert epochs > 2 * len(seeds)


def test_a_seed_plays_the_same_again() -> None:
    assert play(17).log == play(17).log


def _found(most: int = 60) -> str:
    for seed in range(most):
        try:
            play(seed)
        except (ViolationError, ProviderError) as violation:
            return str(violation)
    return "nothing was found"


def test_a_group_that_forgets_what_it_holds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "restore", lambda *_: None)
    assert _found() != "nothing was found"


def test_a_marker_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StageTable, "restore_marker", lambda *_: None)
    assert "duplicated" in _found()


def test_a_promotion_in_doubt_that_is_not_finished_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    promote = StageTable.promote

    def forgetful(table: StageTable, sink: str, epoch: int, units: Sequence[StageName]) -> bool:
        known = table._sinks.get(sink)
        if known is not None:
            known.doubtful = None
        return promote(table, sink, epoch, units)

    monkeypatch.setattr(StageTable, "promote", forgetful)
    assert "duplicated" in _found()


def test_an_acknowledgement_in_doubt_that_is_not_finished_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "doubtful", property(lambda _: 0, lambda *_: None), raising=False)
    assert _found() != "nothing was found"
