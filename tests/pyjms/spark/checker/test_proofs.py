"""The first answer after each moment: few questions and many are found in two ways, which say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms.spark.checker.gathering import _first_after, _first_by_sorting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(500)  # starting Spark takes long on a busy machine
def test_both_ways_find_the_first_answer_after_each_moment(plain_spark: SparkSession) -> None:
    questions = plain_spark.createDataFrame([(1, 10), (1, 20), (1, 30), (2, 10)], "line BIGINT, t BIGINT")
    rows = [(1, 10, 1), (1, 20, 3), (1, 20, 2), (1, 25, 1), (2, 5, 1), (3, 11, 1)]
    answers = plain_spark.createDataFrame(rows, "line BIGINT, t0 BIGINT, n BIGINT")
    expected = {(1, 10): (20, 2), (1, 20): (25, 1)}
    for first in (_first_after, _first_by_sorting):
        found = first(questions, answers).select("line", "t", "proof").toArrow().to_pylist()
        assert {(row["line"], row["t"]): tuple(row["proof"].values()) for row in found} == expected
