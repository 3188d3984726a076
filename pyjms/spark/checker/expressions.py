"""Columns, written in SQL. The one module of the checker that imports PySpark when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyspark.sql.functions
from pyspark.sql.functions import expr

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["arrow_function", "expr", "expressions", "kept", "small"]

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
    """Compute rows now, and keep them until nobody refers to them.

    Unlike `cache`, Spark forgets how they came about: else it compares whole plans with each other for each query that
    follows, which for plans of a hundred steps takes longer than all of the work.
    """
    return rows.localCheckpoint(eager=True)


def small(rows: DataFrame, number: int) -> DataFrame:
    """Tell Spark to send rows to all, if they are so few; of rows that were `kept` it does not know."""
    return rows.hint("broadcast") if number <= _FEW else rows
