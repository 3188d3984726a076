"""Columns, written in SQL. The one module of the checker that imports PySpark when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyspark.sql.functions
from pyspark.sql.functions import expr

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["arrow_function", "expr", "expressions"]


def expressions(*texts: str) -> list[Column]:
    """Return a column for each text."""
    return [expr(text) for text in texts]


def arrow_function(function: Callable[[pa.Array], pa.Array], returns: str) -> Callable[..., Column]:
    """Return a function of columns, done by Python; `returns` is its type, as Spark writes types.

    PySpark 4.3 needs pandas for `mapInArrow` and the like, but not for these.
    """
    make = cast("Any", pyspark.sql.functions).arrow_udf  # its stub is missing
    return cast("Callable[..., Column]", make(function, returnType=returns))
