"""Watching a recording that goes on: each finding is told once, when the files that show it have come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from pyjms.history import Event, Finding, check
from pyjms.spark.checker.audit import LIVE_RULES, watch
from pyjms.spark.checker.reading import table_of
from pyjms.spark.options import OptionError
from tests.pyjms.spark.checker.streams import NS, one_stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.timeout(500)
def test_what_two_files_show_together_is_told_once(plain_spark: SparkSession, tmp_path: Path) -> None:
    recorded, state = tmp_path / "recorded", tmp_path / "state"
    recorded.mkdir()
    order = list(range(1, 41))
    order[4], order[5] = order[5], order[4]
    events = list(one_stream(order, {}, 40))
    late = next(place for place, each in enumerate(events) if each.op == "deliver" and each.dn == 30)
    events[late] = replace(events[late], exp=NS // 10**6 - 60_000)
    sends = [each for each in events if each.op == "send"]
    told: list[Finding] = []

    def step(name: str, its: list[Event]) -> list[Finding]:
        told.clear()
        pq.write_table(table_of(its), recorded / f"{name}-1-000001.parquet")
        query = watch(plain_spark, recorded, told.append, state=state, once=True)
        assert query.awaitTermination(220)
        return list(told)

    assert step("sends", sends) == []
    rest = [each for each in events if each.op != "send"]
    wanted = [each for each in check(events).findings if each.rule in LIVE_RULES]
    assert {each.rule for each in wanted} == {"reordered", "after-expiry"}
    assert sorted(step("rest", rest), key=str) == sorted(wanted, key=str)
    assert len(list((state / "windows").iterdir())) == 1


@pytest.mark.parametrize(
    ("state", "recorded"), [("run", "run"), ("run/s", "run"), ("s", "s/windows/0"), ("old", "run")]
)
def test_a_state_that_would_delete_or_judge_what_is_not_its_own_is_refused(
    plain_spark: SparkSession, tmp_path: Path, state: str, recorded: str
) -> None:
    kept = tmp_path / "old" / "windows" / "0"
    for folder in (kept, tmp_path / recorded):
        folder.mkdir(parents=True)
    with pytest.raises(OptionError, match="name a"):
        watch(plain_spark, f"file://{tmp_path}/{recorded}", lambda _: None, state=tmp_path / state, once=True)
    assert kept.exists()
