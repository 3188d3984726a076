"""A clock that was set back puts in doubt what is found in its own history, as the reference has it, and in no other one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from pyjms.history import Verdict, check, read
from pyjms.history.events import CLOCK
from pyjms.spark.checker.audit import audit
from pyjms.spark.checker.reading import read_history, table_of
from tests.pyjms.history.test_stamps import stepped_history

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.timeout(500)  # starting Spark takes long on a busy machine
def test_both_checkers_say_the_same_of_clocks_that_were_set_back(plain_spark: SparkSession, tmp_path: Path) -> None:
    stepped = [replace(each, run="stepped") for each in stepped_history()]
    whole = [replace(each, run="whole", mid="ID:2", node="b") for each in stepped_history() if each.op != CLOCK]
    pq.write_table(table_of([*stepped, *whole]), tmp_path / "all-1-000001.parquet")
    together = audit(read_history(plain_spark, [tmp_path]))
    reference = check(read(tmp_path))
    assert sorted(map(str, together.report.findings)) == sorted(map(str, reference.findings))
    assert together.counts == reference.counts()
    assert (together.verdict, together.counts["clock-stepped"]) == (Verdict.WARNING, 1)
    apart = audit(read_history(plain_spark, [tmp_path], by_run=True), without=["clock-stepped"])
    verdicts = {each.mid: each.verdict for each in apart.report.findings if each.rule == "before-send"}
    assert verdicts == {"ID:1": Verdict.WARNING, "ID:2": Verdict.VIOLATION}
    assert "clock-stepped" not in apart.counts
