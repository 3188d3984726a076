"""Whether a condition of Spark SQL chooses the same messages each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyjms.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["check_condition"]

_CLOCKS = frozenset({"CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now"})
"""How Spark calls what looks at the clock. It takes these for deterministic, as they are within one query."""
_MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
"""Texts that Spark's casts to dates and timestamps take for moments of the clock."""


def check_condition(rows: DataFrame, where: str) -> None:
    """Look whether `where`, by which `rows` were chosen, would choose the same ones tomorrow. Raises `OptionError`."""
    frame: Any = rows
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 -- PySpark shows plans as texts alone
    patterns = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # noqa: SLF001
    for each in _expressions(plan, (patterns.CURRENT_LIKE(), patterns.CAST())):
        kind = str(each.getClass().getSimpleName())
        if kind in _CLOCKS or not each.deterministic() or (kind == "Cast" and _is_moment(each)):
            raise OptionError(
                f"the condition {where!r} has another result each time, by {each.sql()}, and a job that is started again must choose the same messages: "
                "write the values themselves, such as day = '2026-01-31'"
            )


def _is_moment(cast: Any) -> bool:
    words = str(cast.child().toString()).split()
    return (
        str(cast.dataType().typeName()).startswith(("date", "timestamp"))
        and words[:1] != []
        and words[0].lower() in _MOMENTS
    )


def _expressions(plan: Any, patterns: Sequence[Any]) -> Iterator[Any]:
    """Yield the expressions of a plan that may differ, the innermost first, so that the first one that does is the reason."""
    for each in _each(plan.expressions()):
        yield from _inside(each, patterns)
    for each in _each(plan.children()):
        yield from _expressions(each, patterns)


def _inside(expression: Any, patterns: Sequence[Any]) -> Iterator[Any]:
    if expression.deterministic() and not any(map(expression.containsPattern, patterns)):
        return  # each look at the JVM takes its time, and a list may have thousands of values
    for each in _each(expression.children()):
        yield from _inside(each, patterns)
    yield expression


def _each(found: Any) -> Iterator[Any]:
    return (found.apply(place) for place in range(found.size()))
