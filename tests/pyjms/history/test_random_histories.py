"""Random correct histories raise no false alarm; faults planted into them are found, with the fewest events that show them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.history import RULES, Verdict, check
from pyjms.history.events import OPERATIONS
from pyjms.history.facts import Facts, Options
from tests.pyjms.history.model import random_history
from tests.pyjms.history.plants import PLANTS
from tests.pyjms.history.soak import false_alarms

if TYPE_CHECKING:
    from pyjms.history import Event, Finding
    from tests.pyjms.history.plants import Plant, Planted

SEEDS = 300
_ALIKE = {"reordered": {"reordered", "reordered-shared"}}
# What a planted fault cannot show alone: it counts messages, or needs no fault at all.
_NOT_PLANTED = {"unaccounted", "moved", "without-id", "cut-off", "clock-stepped", "reordered-shared"}


def test_correct_histories_raise_no_false_alarm() -> None:
    alarms = {seed: found for seed in range(SEEDS) if (found := false_alarms(random_history(seed)))}
    assert not alarms


def test_correct_histories_have_everything_in_them() -> None:
    operations: Counter[str] = Counter()
    features: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = random_history(seed)
        operations.update(event.op for event in history.events)
        features += history.features
    assert set(operations) == OPERATIONS - {"clock"}
    wanted = {"committed", "consumer", "crashed", "cut", "delivered", "durable", "killed", "redelivered", "rejected"}
    assert {name for name, number in features.items() if number >= 10} >= wanted


def test_one_seed_gives_one_history() -> None:
    assert random_history(7).events == random_history(7).events
    assert random_history(7).events != random_history(8).events


def test_every_rule_has_a_fault_that_shows_it() -> None:
    assert set(PLANTS) == set(RULES) - _NOT_PLANTED


@pytest.mark.parametrize(("rule", "plant"), [(rule, plant) for rule, plants in PLANTS.items() for plant in plants])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(min_value=0, max_value=10**6), chance=st.randoms(use_true_random=False))
def test_a_planted_fault_is_found_with_the_fewest_events_that_show_it(
    rule: str, plant: Plant, seed: int, chance: Random
) -> None:
    events, mid = planted(plant, seed, chance)
    found = named(check(events).findings, rule, mid)
    assert found, f"seed {seed}: {check(events)}"
    for finding in found:
        assert named(check(finding.events).findings, finding.rule, mid), f"seed {seed}: {finding} does not show itself"
        for left_out in finding.events:
            fewer = [event for event in finding.events if event is not left_out]
            assert not named(check(fewer).findings, finding.rule, mid), f"seed {seed}: {left_out} is not needed"


def planted(plant: Plant, seed: int, chance: Random) -> Planted:
    """Plant the fault into the first history from `seed` on that has a place for it."""
    while True:
        history = random_history(seed)
        found = plant(history, Facts(history.events, Options()), chance)
        if found is not None:
            return found
        seed += 1


def named(findings: tuple[Finding, ...], rule: str, mid: str) -> list[Finding]:
    return [each for each in findings if each.rule in _ALIKE.get(rule, {rule}) and each.mid == mid]


def test_findings_of_a_planted_history_come_worst_first() -> None:
    events: list[Event] = []
    for seed in range(30):
        history = random_history(seed)
        events += history.events
    ranks = [each.verdict.rank for each in check(events).findings]
    assert ranks == sorted(ranks, reverse=True)
    assert Verdict.INFORMATION.rank == 0
