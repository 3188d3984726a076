"""The first answer after each moment: it is looked for in several ways, which say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms.spark.checker import gathering as nearby
from pyjms.spark.checker.expressions import expr
from pyjms.spark.checker.gathering import Window, _answers, _around, _first_after, _first_by_sorting, first_answers
from pyjms.spark.checker.reading import EVENT_SCHEMA, table_of
from tests.pyjms.spark.checker.streams import NS, one_stream

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


@pytest.mark.timeout(500)
def test_a_window_holds_the_first_answer_unless_too_much_happened_in_it(
    plain_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = plain_spark.createDataFrame(table_of(one_stream([1, 2, 3], {}, 3)), EVENT_SCHEMA).selectExpr(
        "'' AS h", "*"
    )
    line = events.where("conn = 'c'").select(expr("xxhash64(h, conn)")).first()[0]  # type: ignore[index]
    moments = (NS + 10_000, NS + 10_009, NS + 20_000)
    windows = [Window(h="", conn="c", line=line, t=t, until=t + 4) for t in moments]
    first = first_answers(events, {("", "c", t) for t in moments})
    assert sorted((t, row["t0"]) for (_, _, t), row in first.items()) == [
        (NS + 10_000, NS + 10_005),
        (NS + 10_009, NS + 10_013),
    ]
    assert {each: row["t0"] for each, row in _answers(_around(events, {0}, windows), windows).items()} == {
        ("", "c", NS + 10_009): NS + 10_013
    }
    monkeypatch.setattr(nearby, "_MOST_ROWS", 0)
    assert _around(events, {0}, windows) == []
