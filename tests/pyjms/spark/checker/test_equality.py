"""The checker on Spark says what the reference says: of correct histories, of each fault, and of a skewed one, in one job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pyjms.history import RULES, Event, check
from pyjms.history.facts import Facts, Options
from pyjms.spark.checker.audit import FEW
from pyjms.spark.checker.screening import BLOCK
from tests.pyjms.history.model import random_history
from tests.pyjms.history.plants import PLANTS
from tests.pyjms.spark.checker.comparing import differences, histories
from tests.pyjms.spark.checker.streams import one_stream
from tests.sampling import sample

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SEEDS = range(40, 48)  # among them, each fault finds a place
OF_TWO_NODES = (52, 56)
WAYS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "judged here": (FEW, 16, OF_TWO_NODES),
    "judged on the executors": (0, 16, OF_TWO_NODES),
    "one clock, and consumers in one block": (FEW, BLOCK, ()),
}


@pytest.mark.timeout(500)  # starting Python's workers takes long on a busy machine
@pytest.mark.parametrize("way", sample(list(WAYS), 1, "ways of the checker"))
def test_both_checkers_find_the_same_in_correct_and_in_faulty_histories(
    plain_spark: SparkSession, tmp_path: Path, way: str
) -> None:
    few, block, more = WAYS[way]
    found = histories(SEEDS)
    assert {event.node for events in histories(more).values() for event in events} == ({"a", "b"} if more else set())
    if few == 0:
        found = one_of_each(found)
    found |= histories(more)
    found["nameless"] = nameless()
    found["skewed"] = skewed()
    told = {each.rule for events in found.values() for each in check(events).findings}
    assert set(PLANTS) <= told
    assert told <= set(RULES)
    assert {each.rule for each in check(found["skewed"]).findings} == {"reordered", "priority"}
    assert differences(plain_spark, tmp_path, found, block=block, few=few) == []


def one_of_each(found: dict[str, tuple[Event, ...]]) -> dict[str, tuple[Event, ...]]:
    """Return the first correct history, and the first with each fault."""
    names = {name.partition(" ")[2]: name for name in reversed(found)}
    return {name: found[name] for name in names.values()}


def skewed() -> tuple[Event, ...]:
    """A history whose one consumer has many more deliveries than a task may sort here; what is late comes blocks later."""
    order = list(range(1, 401))
    order.remove(7)
    order.insert(380, 7)
    order.remove(150)
    order.insert(165, 150)  # as the first of its block
    return one_stream(order, {161: 9}, 400)


def nameless() -> tuple[Event, ...]:
    """A history in which half of the messages have no ids, and one of these comes after its consumer was closed."""
    events = list(random_history(3).events)
    facts = Facts(events, Options())
    hidden = set(list(facts.sends)[::2])
    events = [replace(event, mid=None) if event.mid in hidden else event for event in events]
    deliver = next(event for event in events if event.op == "deliver" and event.mid is None)
    end = max(event.t1 or event.t0 for event in events)
    closed = replace(deliver, op="close", t0=end + 1, t1=end + 2, consumer=deliver.consumer, dn=None, note=None)
    late = replace(deliver, t0=end + 3, t1=end + 4, dn=1000, exp=1)
    return (*events, closed, late)
