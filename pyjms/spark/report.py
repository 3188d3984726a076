"""The report of ``pyjms pipeline report``: figures of each destination, and one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyjms.spark.archives import read_archive
from pyjms.spark.checker.expressions import expr, expressions
from pyjms.spark.checker.reading import read_history
from pyjms.spark.plots import Axis, bars, document, keys, scale, section, table
from pyjms.spark.routed import REASON
from pyjms.spi.words import rounded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# The traffic of each destination, counted by Spark from recorded histories and archives. | figure | from histories |
# from archives | |---|---|---| | throughput | calls that were done for sure, when they ended | JMSTimestamp of what is
# there | | depth | of queues: what was sent or committed, less what was acknowledged, since the recording began | none
# | | latency | from the call of the send until a client had the message for the first time | none | | redelivery |
# deliveries with JMSRedelivered | messages with JMSRedelivered | | dead letters | rejections, with their reason | what
# the broker, or the rules of a route, wrote on them |

COUNTS = ("sent", "delivered", "redelivered", "acknowledged", "rejected", "expired", "archived", "archived_redelivered")
"""The counts of each destination and moment."""
PERCENTILES = (50, 90, 99)
_MOMENTS = 60
_REASONS = 100
_NS_PER_MS = 10**6
_NS_PER_S = 10**9
_NAME = "regexp_replace(dest, '^([a-z-]+)://', '$1:')"
"""Destinations in the notation of Spark's columns, ``queue:orders``; histories have ``queue://orders``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The inputs of a report; either may be missing."""

    events: DataFrame | None
    messages: DataFrame | None


def read_sources(
    session: SparkSession, histories: Sequence[str | Path], archives: Sequence[str], *, form: str = "parquet"
) -> Source:
    """Return recorded histories and archives, as lazy tables. Raises `HistoryError` for directories without a history."""
    events = read_history(session, histories).events if histories else None
    messages: DataFrame | None = None
    for directory in archives:
        found = read_archive(session, directory, form=form)
        messages = found if messages is None else messages.unionByName(found, allowMissingColumns=True)
    return Source(events=events, messages=messages)


def figures_of(source: Source, told: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the figures as JSON has them. `told` is called at each step.

    `start_ns`, `width_ns`: the start of the first of equally long moments, and their length. `timeline`: a row for each
    destination and moment in which something happened. `destinations`: a row for each. `reasons`: why messages were
    dead-lettered, the most frequent first, at most 100; `reasons_left`: how many messages were dead-lettered for other
    reasons.
    """
    # Kept in memory, as it is read twice: for the span of time, and for the counts of each moment.
    happened = _happened(source).where("at IS NOT NULL").persist()
    try:
        told("counting what happened when")
        row = happened.agg(*expressions("min(at) AS least", "max(at) AS most")).toArrow().to_pylist()[0]
        if row["least"] is None:
            return {"start_ns": 0, "width_ns": 1, "timeline": [], "destinations": [], "reasons": [], "reasons_left": 0}
        start_ns, width_ns = row["least"], (row["most"] - row["least"]) // _MOMENTS + 1
        timeline = _timeline(happened, start_ns, width_ns)
    finally:
        happened.unpersist()
    told("measuring how long messages took")
    latency = {} if source.events is None else _latency(source.events)
    told("counting why messages were set aside")
    reasons = _reason_counts(source)
    _add_depths(timeline)
    # At least a second: a source with a single moment would have an infinite rate.
    seconds = max((row["most"] - row["least"]) / _NS_PER_S, 1.0)
    return {
        "start_ns": start_ns,
        "width_ns": width_ns,
        "timeline": timeline,
        "destinations": _destinations(timeline, latency, seconds, width_ns / _NS_PER_S),
        "reasons": reasons[:_REASONS],
        "reasons_left": sum(each["messages"] for each in reasons[_REASONS:]),
    }


# ----------------------------------------------------------------------------------------------- what happened, when


def _happened(source: Source) -> DataFrame:
    """Return a row for each counted event: destination, moment, and the counts to which it adds."""
    found = None
    if source.events is not None:
        found = _events_that_count(source.events)
    if source.messages is not None:
        archived = source.messages.selectExpr(
            "destination AS name",
            "unix_micros(timestamp) * 1000 AS at",
            *_marked(archived="1L", archived_redelivered="CAST(coalesce(redelivered, false) AS BIGINT)"),
        )
        found = archived if found is None else found.unionByName(archived)
    assert found is not None, "a report has one source at least"
    return found


def _marked(**given: str) -> list[str]:
    return [f"{given.get(name, '0L')} AS {name}" for name in COUNTS]


def _events_that_count(events: DataFrame) -> DataFrame:
    """Sends and acknowledgements count when they took effect for certain: in a transaction, at its commit."""
    commits = events.where("op = 'commit' AND ok = 'ok'").selectExpr("run AS c_run", "tx AS c_tx", "t1 AS c_t1")
    wanted = events.where("op IN ('send', 'ack', 'deliver', 'expire') AND dest IS NOT NULL")
    # A transaction's name is unique only within its run.
    both = wanted.join(commits, expr("run = c_run AND tx = c_tx"), "left")
    done = "ok = 'ok' AND (tx IS NULL OR c_t1 IS NOT NULL)"
    rejected = "get_json_object(note, '$.rejected') IS NOT NULL"
    return both.selectExpr(
        f"{_NAME} AS name",
        "CASE WHEN op IN ('send', 'ack') AND tx IS NOT NULL THEN c_t1 ELSE coalesce(t1, t0) END AS at",
        *_marked(
            sent=f"CAST(op = 'send' AND {done} AS BIGINT)",
            delivered="CAST(op = 'deliver' AS BIGINT)",
            redelivered="CAST(op = 'deliver' AND coalesce(redelivered, false) AS BIGINT)",
            acknowledged=f"CAST(op = 'ack' AND {done} AND NOT ({rejected}) AS BIGINT)",
            rejected=f"CAST(op = 'ack' AND {done} AND {rejected} AS BIGINT)",
            expired="CAST(op = 'expire' AS BIGINT)",
        ),
    )


def _timeline(happened: DataFrame, start_ns: int, width_ns: int) -> list[dict[str, Any]]:
    rows = (
        happened.groupBy("name", expr(f"CAST((at - {start_ns}) DIV {width_ns} AS INT) AS moment"))
        .agg(*expressions(*(f"sum({name}) AS {name}" for name in COUNTS)))
        .orderBy("name", "moment")
    )
    return [
        {"destination": row["name"], **{name: value for name, value in row.items() if name != "name"}}
        for row in rows.toArrow().to_pylist()
    ]


def _add_depths(timeline: list[dict[str, Any]]) -> None:
    """Add to each row the depth of its queue at the end of the moment, or None for topics."""
    depths: dict[str, int] = {}
    for row in timeline:
        name = row["destination"]
        # A topic's message is acknowledged once for each subscription, so the difference has no meaning.
        if "queue:" not in (name or ""):
            row["depth"] = None
            continue
        change = row["sent"] - row["acknowledged"] - row["rejected"] - row["expired"]
        # A recording may begin with messages in the queue, whose acknowledgements have no send.
        depths[name] = max(0, depths.get(name, 0) + change)
        row["depth"] = depths[name]


# ---------------------------------------------------------------------------------------------- of each destination


def _destinations(
    timeline: Sequence[dict[str, Any]], latency: dict[str, dict[str, Any]], seconds: float, width_s: float
) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in timeline:
        found.setdefault(row["destination"], []).append(row)
    return [
        {
            "destination": name,
            **(totals := {count: sum(row[count] for row in rows) for count in COUNTS}),
            "sent_per_second": max(totals["sent"], totals["archived"]) / seconds,
            "most_per_second": max(max(row["sent"], row["archived"]) for row in rows) / max(width_s, 1e-9),
            "depth": rows[-1]["depth"],
            "most_depth": max((row["depth"] for row in rows if row["depth"] is not None), default=None),
            "latency": latency.get(name),
        }
        for name, rows in found.items()
    ]


def _latency(events: DataFrame) -> dict[str, dict[str, Any]]:
    sent = events.where("op = 'send' AND mid IS NOT NULL").selectExpr("mid", "t0 AS sent_t0")
    # First deliveries only: a redelivery would measure how long the application took to fail.
    come = events.where("op = 'deliver' AND mid IS NOT NULL AND t1 IS NOT NULL AND NOT coalesce(redelivered, false)")
    points = ", ".join(str(each / 100) for each in PERCENTILES)
    rows = (
        come.selectExpr("mid", f"{_NAME} AS name", "t1")
        .join(sent, "mid")
        .groupBy("name")
        .agg(
            *expressions(
                "count(*) AS messages",
                f"percentile_approx(t1 - sent_t0, array({points}), 10000) AS points",
                "max(t1 - sent_t0) AS most",
            )
        )
    )
    return {
        row["name"]: {
            "messages": row["messages"],
            **{f"p{place}_ms": ns / _NS_PER_MS for place, ns in zip(PERCENTILES, row["points"], strict=True)},
            "most_ms": row["most"] / _NS_PER_MS,
        }
        for row in rows.toArrow().to_pylist()
    }


def _reason_counts(source: Source) -> list[dict[str, Any]]:
    parts = []
    if source.events is not None:
        parts.append(
            source.events.where(
                "op = 'ack' AND ok = 'ok' AND get_json_object(note, '$.rejected') IS NOT NULL"
            ).selectExpr(
                f"{_NAME} AS destination", "'rejected' AS kind", "get_json_object(note, '$.rejected') AS reason"
            )
        )
    if source.messages is not None:
        dead = source.messages.where("properties['JMS_pyjms_deadKind'] IS NOT NULL")
        origin = _NAME.replace("dest,", "properties['JMS_pyjms_deadDestination'],")
        parts.append(
            dead.selectExpr(
                f"{origin} AS destination",
                "properties['JMS_pyjms_deadKind'] AS kind",
                "properties['JMS_pyjms_deadReason'] AS reason",
            )
        )
        unwanted = source.messages.where(f"properties['{REASON}'] IS NOT NULL")
        parts.append(unwanted.selectExpr("destination", "'undeliverable' AS kind", f"properties['{REASON}'] AS reason"))
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part)
    # Counted by Spark, as a dead-letter queue may have millions of messages with a few reasons.
    counted = rows.groupBy("destination", "kind", "reason").agg(*expressions("count(*) AS messages"))
    # The names order equal counts, so that two reports of the same source are the same.
    return list(counted.orderBy(expr("-messages"), "destination", "kind", "reason").toArrow().to_pylist())


_CHARTS = 12  # charts of depth: nobody looks at more; the table has all
_SHADES = (("k-one", "50 %"), ("k-two", "90 %"), ("k-three", "99 %"))

DESTINATION_HEADS = (
    "Destination", "Sent", "Per s", "Most per s", "Delivered", "Again", "Depth", "Most deep", "50 % ms", "90 % ms", "99 % ms", "Archived",
)  # fmt: skip
REASON_HEADS = ("Destination", "Kind", "Reason", "Messages")


def destination_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a destination in tables, in the order of `DESTINATION_HEADS`."""
    latency = row["latency"] or {}
    return (
        str(row["destination"]),
        f"{row['sent']:,}",
        rounded(row["sent_per_second"]),
        rounded(row["most_per_second"]),
        f"{row['delivered']:,}",
        f"{row['redelivered'] + row['archived_redelivered']:,}",
        "" if row["depth"] is None else f"{row['depth']:,}",
        "" if row["most_depth"] is None else f"{row['most_depth']:,}",
        *(rounded(latency[name]) if latency else "" for name in ("p50_ms", "p90_ms", "p99_ms")),
        f"{row['archived']:,}",
    )


def reason_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a reason in tables, in the order of `REASON_HEADS`."""
    return str(row["destination"] or ""), row["kind"], row["reason"] or "", f"{row['messages']:,}"


def page(data: Mapping[str, Any]) -> str:
    """Return the page for what ``pyjms pipeline report --json`` prints; it holds the same data, for programs."""
    figures = data["figures"]
    axis = Axis(figures)
    latency = [
        {"destination": row["destination"], **row["latency"]} for row in figures["destinations"] if row["latency"]
    ]
    parts = [
        _head(data),
        table("destinations", DESTINATION_HEADS, map(destination_cells, figures["destinations"])),
        section("Throughput, messages a second", _throughput(figures, axis), _lines(figures)),
        section("Delivered again", _again(figures, axis)),
        *(section(f"Depth of {name}", chart) for name, chart in _depths(figures, axis)),
    ]
    if latency:
        parts.append(section("From send to delivery", bars(latency), keys(*_SHADES)))
    parts += ["<h2>Set aside</h2>", _reasons(figures)]
    return document("Pipeline report", parts, data)


def _head(data: Mapping[str, Any]) -> str:
    texts = [f"{data['events']} recorded events"] if data["histories"] else []
    texts += [f"{data['messages']} archived messages"] if data["archives"] else []
    places = escape(", ".join((*data["histories"], *data["archives"])))
    return f'<h1>Pipeline report</h1><p class="faint">{" and ".join(texts)} from {places}. Times are UTC.</p>'


def _per_moment(figures: Mapping[str, Any], axis: Axis, *counts: str) -> list[int]:
    values = [0] * axis.moments
    for row in figures["timeline"]:
        values[row["moment"]] += sum(row[count] for count in counts)
    return values


def _shown(figures: Mapping[str, Any]) -> Sequence[str]:
    """Return the two counts that the chart shows: of histories if there are any."""
    is_recorded = any(row["sent"] or row["delivered"] for row in figures["timeline"])
    return ("sent", "delivered") if is_recorded else ("archived", "archived_redelivered")


def _lines(figures: Mapping[str, Any]) -> str:
    first, second = _shown(figures)
    return keys(("k-one", first.replace("_", ", ")), ("k-two", second.replace("_", ", ")))


def _throughput(figures: Mapping[str, Any], axis: Axis) -> str:
    seconds = axis.width_ns / _NS_PER_S
    lines = [[value / seconds for value in _per_moment(figures, axis, count)] for count in _shown(figures)]
    most = max(max(line) for line in lines)
    body = "".join(axis.line(line, most, shade) for line, shade in zip(lines, ("one", "two"), strict=True))
    return axis.chart(body, scale(most), "messages a second, over time")


def _again(figures: Mapping[str, Any], axis: Axis) -> str:
    values = _per_moment(figures, axis, "redelivered", "archived_redelivered")
    most = max(values)
    return axis.chart(axis.columns(enumerate(values), most, "again"), scale(most), "messages again, over time")


def _depths(figures: Mapping[str, Any], axis: Axis) -> list[tuple[str, str]]:
    """Return a chart for each of the deepest queues."""
    deep = sorted(
        (row for row in figures["destinations"] if row["most_depth"]), key=lambda row: -int(row["most_depth"])
    )
    return [(row["destination"], _depth(figures, axis, row)) for row in deep[:_CHARTS]]


def _depth(figures: Mapping[str, Any], axis: Axis, destination: Mapping[str, Any]) -> str:
    known = {
        row["moment"]: row["depth"] for row in figures["timeline"] if row["destination"] == destination["destination"]
    }
    values: list[float] = []
    for moment in range(axis.moments):
        # The timeline has only the moments in which something happened; in between the depth stays.
        values.append(known.get(moment, values[-1] if values else 0))
    most = destination["most_depth"]
    return axis.chart(axis.line(values, most, "one"), scale(most), "messages in the queue, over time")


def _reasons(figures: Mapping[str, Any]) -> str:
    if not figures["reasons"]:
        return "<p>Nothing.</p>"
    left = f'<p class="faint">And {figures["reasons_left"]} for other reasons.</p>' if figures["reasons_left"] else ""
    return table("reasons", REASON_HEADS, map(reason_cells, figures["reasons"]), texts=3) + left
