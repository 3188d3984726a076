"""Figures of a history for its report: how much passed when, how long messages took, what came again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyjms.spark.checker.expressions import expr, expressions
from pyjms.spark.checker.screening import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["figures_of"]

_MOMENTS = 60
_PERCENTILES = (50, 90, 99)
_NS_PER_MS = 10**6


def figures_of(events: DataFrame) -> dict[str, Any]:
    """Return figures as JSON has them.

    `start_ns` and `width_ns` say when the first of the equally long moments began, and how long each is. `timeline` has a
    row for each moment in which something was done: sends and deliveries that were done for sure, redeliveries, acknowledgements. `latency` has a row for each
    destination: from the call of the send until the client had the message, in milliseconds, of first deliveries.
    """
    span = events.where("op IN ('send', 'deliver', 'ack')").agg(*expressions("min(t0) AS least", "max(t0) AS most"))
    row = span.toArrow().to_pylist()[0]
    if row["least"] is None:
        return {"start_ns": 0, "width_ns": 1, "timeline": [], "latency": []}
    width = (row["most"] - row["least"]) // _MOMENTS + 1
    return {
        "start_ns": row["least"],
        "width_ns": width,
        "timeline": _timeline(events, row["least"], width),
        "latency": _latency(events),
    }


def _timeline(events: DataFrame, start_ns: int, width_ns: int) -> list[dict[str, int]]:
    rows = (
        events.where("op IN ('send', 'deliver', 'ack')")
        .groupBy(expr(f"CAST((t0 - {start_ns}) DIV {width_ns} AS INT) AS moment"))
        .agg(
            *expressions(
                "count_if(op = 'send' AND ok = 'ok') AS sends",
                "count_if(op = 'deliver') AS deliveries",
                "count_if(op = 'deliver' AND redelivered) AS redeliveries",
                "count_if(op = 'ack' AND ok = 'ok') AS acknowledgements",
            )
        )
        .orderBy("moment")
    )
    return list(rows.toArrow().to_pylist())


def _latency(events: DataFrame) -> list[dict[str, Any]]:
    sent = events.where("op = 'send' AND mid IS NOT NULL").selectExpr(f"{MESSAGE} AS k", "t0 AS sent_t0")
    come = events.where("op = 'deliver' AND mid IS NOT NULL AND t1 IS NOT NULL AND NOT coalesce(redelivered, false)")
    both = come.selectExpr(f"{MESSAGE} AS k", "dest", "t1").join(sent, "k")
    points = ", ".join(str(each / 100) for each in _PERCENTILES)
    rows = (
        both.groupBy("dest")
        .agg(
            *expressions(
                "count(*) AS messages",
                f"percentile_approx(t1 - sent_t0, array({points}), 10000) AS points",
                "max(t1 - sent_t0) AS most",
            )
        )
        .orderBy("dest")
    )
    return [
        {
            "destination": row["dest"],
            "messages": row["messages"],
            **{f"p{place}_ms": ns / _NS_PER_MS for place, ns in zip(_PERCENTILES, row["points"], strict=True)},
            "most_ms": row["most"] / _NS_PER_MS,
        }
        for row in rows.toArrow().to_pylist()
    ]
