"""Columns, written in SQL. The only module of the checker that imports PySpark at its own import."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyspark.sql.functions
from pyspark.sql.functions import expr

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["arrow_function", "cut_into", "expr", "expressions", "kept", "small", "union_of"]

_FEW = 200_000


def expressions(*texts: str) -> list[Column]:
    """Return a column for each text."""
    return [expr(text) for text in texts]


def arrow_function(function: Callable[[pa.Array], pa.Array], returns: str) -> Callable[..., Column]:
    """Return a function of columns, done by Python; `returns` is its type, as Spark writes types.

    PySpark 4.3 needs pandas for `mapInArrow` and the like, but not for these.
    """
    make = cast("Any", pyspark.sql.functions).arrow_udf  # its stub is missing
    return cast("Callable[..., Column]", make(function, returnType=returns))


def kept(rows: DataFrame) -> DataFrame:
    """Compute rows now, and store them until they are no longer referenced.

    Unlike `cache`, this makes Spark forget the plan of the rows: otherwise it compares whole plans with each other for
    each query that follows, which for plans of a hundred steps takes longer than all of the work.
    """
    return rows.localCheckpoint(eager=True)


def small(rows: DataFrame, number: int) -> DataFrame:
    """Tell Spark to broadcast rows, if they are few enough; for rows from `kept` it does not know their number."""
    # Checkpointed rows have no size in Spark's statistics, so it would shuffle both sides for a handful of rows.
    return rows.hint("broadcast") if number <= _FEW else rows


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all, whose columns have the same names."""
    return reduce(lambda one, two: one.unionByName(two), frames)


@contextmanager
def cut_into(session: SparkSession, parts: int) -> Iterator[None]:
    """Make Spark use `parts` partitions for sorting and grouping meanwhile, without looking for a better plan after
    each step: the amounts are known.

    It also does without the small table before each large one in a grouping, as the groups are many: that is much of
    the code of a step, which takes long to compile.
    """
    settings = {
        "spark.sql.shuffle.partitions": str(parts),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    }
    # The session may be the user's own: its settings come back even if the audit fails.
    before = {name: session.conf.get(name) or "" for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)
