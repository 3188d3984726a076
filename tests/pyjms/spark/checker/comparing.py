"""Runs many histories through both checkers, on Spark all at once, each as a run of its own."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from pyjms.history import Event, Finding, check
from pyjms.history.facts import Facts, Options
from pyjms.spark.checker.audit import FEW, audit, finding_of
from pyjms.spark.checker.reading import read_history, table_of
from pyjms.spark.checker.screening import BLOCK
from tests.pyjms.history.model import random_history
from tests.pyjms.history.plants import PLANTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["differences", "histories", "main"]

_ALL = 10**9


def histories(seeds: Sequence[int]) -> dict[str, tuple[Event, ...]]:
    """Return a correct history for each seed, and those that come from it with one fault each, by name."""
    found: dict[str, tuple[Event, ...]] = {}
    for seed in seeds:
        history = random_history(seed)
        found[f"{seed}"] = history.events
        chance = Random(seed)
        for rule, plants in PLANTS.items():
            for plant in plants:
                planted = plant(history, Facts(history.events, Options()), chance)
                if planted is not None:
                    found[f"{seed} {rule} {plant.__name__}"] = tuple(planted[0])
    return found


def differences(
    spark: SparkSession,
    folder: Path,
    found: Mapping[str, Sequence[Event]],
    *,
    complete: bool = False,
    block: int = BLOCK,
    few: int = FEW,
) -> list[str]:
    """Return what only one of the checkers says, of which history. `few`: as for `audit`."""
    events = [replace(event, run=name) for name, its in found.items() for event in its]
    pq.write_table(table_of(events), folder / "all-1-000001.parquet")
    result = audit(read_history(spark, [folder], by_run=True), complete=complete, listed=_ALL, block=block, few=few)
    on_spark: dict[str, Counter[Finding]] = {name: Counter() for name in found}
    for row in result.findings.toArrow().to_pylist():
        on_spark[row["h"]][finding_of(row)] += 1
    assert result.counts == Counter(each.rule for told in on_spark.values() for each in told.elements())
    told = []
    for name, its in found.items():
        reference = Counter(check([replace(event, run=name) for event in its], complete=complete).findings)
        told += [f"{name}: only the reference: {each}" for each in reference - on_spark[name]]
        told += [f"{name}: only Spark: {each}" for each in on_spark[name] - reference]
    return told


def main(arguments: list[str]) -> int:
    """Compare many: ``python -m tests.pyjms.spark.checker.comparing [NUMBER OF SEEDS [FIRST SEED]]``."""
    from tempfile import TemporaryDirectory

    from pyjms.spark.session import make_session

    number = int(arguments[0]) if arguments else 1000
    first = int(arguments[1]) if len(arguments) > 1 else 0
    failures, compared = [], 0
    with TemporaryDirectory() as place:
        session = make_session("compare", settings={"spark.driver.memory": "4g", "spark.local.dir": place})
        for start in range(first, first + number, 100):
            folder = Path(place) / str(start)
            folder.mkdir()
            found = histories(range(start, min(start + 100, first + number)))
            if start % 500 == 100:  # where all clocks are one, less is looked at
                found = {name: its for name, its in found.items() if len({event.node for event in its}) == 1}
            compared += len(found)
            failures += differences(session, folder, found, complete=start % 200 == 0, few=FEW if start % 300 else 0)
        session.stop()
    sys.stdout.write("\n".join([*failures, f"{compared} histories, {len(failures)} differences", ""]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
