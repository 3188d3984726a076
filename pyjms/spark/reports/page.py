"""A report as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pyjms.spark.plots import Axis, bars, document, keys, scale, section, table
from pyjms.spi.words import rounded

__all__ = ["DESTINATION_HEADS", "REASON_HEADS", "destination_cells", "page", "reason_cells"]

_NS_PER_S = 10**9
_CHARTS = 12  # charts of depth: more than that nobody looks at; the table has all
_SHADES = (("k-one", "50 %"), ("k-two", "90 %"), ("k-three", "99 %"))

DESTINATION_HEADS = (
    "Destination", "Sent", "Per s", "Most per s", "Delivered", "Again", "Depth", "Most deep", "50 % ms", "90 % ms", "99 % ms", "Archived",
)  # fmt: skip
REASON_HEADS = ("Destination", "Kind", "Reason", "Messages")


def destination_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what tables show of a destination, as `DESTINATION_HEADS` calls it."""
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
    """Return what tables show of a reason, as `REASON_HEADS` calls it."""
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
    """Return which two counts the chart shows: of histories if there are any."""
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
    """Return a chart for each of the queues that were deepest."""
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
        values.append(known.get(moment, values[-1] if values else 0))
    most = destination["most_depth"]
    return axis.chart(axis.line(values, most, "one"), scale(most), "messages in the queue, over time")


def _reasons(figures: Mapping[str, Any]) -> str:
    if not figures["reasons"]:
        return "<p>Nothing.</p>"
    left = f'<p class="faint">And {figures["reasons_left"]} for other reasons.</p>' if figures["reasons_left"] else ""
    return table("reasons", REASON_HEADS, map(reason_cells, figures["reasons"]), texts=3) + left
