"""The report of an audit as one HTML page: no script, nothing from the network, readable in light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from pyjms.history.events import Event
from pyjms.history.rules import RULES
from pyjms.history.story import describe
from pyjms.spark.checker.expressions import expr, expressions
from pyjms.spark.checker.screening import MESSAGE
from pyjms.spark.plots import Axis, bars, clock, document, keys, scale, section, table
from pyjms.spi.words import counted, rounded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Figures of a history for its report: throughput over time, latency, and redeliveries.

_MOMENTS = 60
_PERCENTILES = (50, 90, 99)
_NS_PER_MS = 10**6


def figures_of(events: DataFrame) -> dict[str, Any]:
    """Return figures as JSON has them.

    `start_ns` and `width_ns` are the start of the first of the equally long moments, and their length. `timeline` has a
    row for each moment with events: sends and deliveries that certainly took effect, redeliveries, acknowledgements.
    `latency` has a row for each destination: from the call of the send until the client had the message, in
    milliseconds, of first deliveries.
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


_NS_PER_S = 10**9


def page(data: Mapping[str, Any]) -> str:
    """Return the page for what ``pyjms pipeline audit --json`` prints; it holds the same data, for programs."""
    figures = data["figures"]
    axis = Axis(figures)
    shades = (("k-one", "50 %"), ("k-two", "90 %"), ("k-three", "99 %"))
    parts = [
        _summary(data),
        section("Findings over time", _findings_chart(data["findings"], axis)),
        section("Throughput, messages a second", _throughput(figures, axis), keys(("k-one", "sent"), ("k-two", "delivered"))),
        section("Redeliveries", _redeliveries(figures, axis)),
        section("From send to delivery", bars(figures["latency"]), keys(*shades)),
        _latency_table(figures),
        "<h2>Findings</h2>",
        _findings_table(data),
    ]  # fmt: skip
    return document(f"History audit: {data['verdict']}", parts, data)


def _summary(data: Mapping[str, Any]) -> str:
    verdict = data["verdict"]
    name = verdict if data["counts"] else "good"
    words = {"good": "Nothing found", "information": "Good", "warning": "Warnings", "violation": "Violations"}[name]
    rows = "".join(
        f'<tr><td class="{RULES[rule].verdict.value}">{escape(RULES[rule].verdict.value)}</td><td>{escape(rule)}</td>'
        f'<td>{escape(RULES[rule].statement)}</td><td class="number" data-count="{escape(rule)}">{number}</td></tr>'
        for rule, number in data["counts"].items()
    )
    table = f"<table><thead><tr><th>Verdict</th><th>Rule</th><th>What is found</th><th class='number'>Number</th></tr></thead><tbody>{rows}</tbody></table>"
    return (
        f'<h1>History audit: <span class="verdict {name}">{words}</span></h1>'
        f'<p class="faint"><span id="events">{data["events"]}</span> events, judged by the rules of JMS 1.1; '
        f"{counted(data['suspects'], 'message was', 'messages were')} looked at one by one.</p>{table if rows else ''}"
    )


def _throughput(figures: Mapping[str, Any], axis: Axis) -> str:
    seconds = axis.width_ns / _NS_PER_S
    rates = {name: [0.0] * axis.moments for name in ("sends", "deliveries")}
    for row in figures["timeline"]:
        for name, values in rates.items():
            values[row["moment"]] = row[name] / seconds
    most = max(max(values) for values in rates.values())
    body = axis.line(rates["sends"], most, "one") + axis.line(rates["deliveries"], most, "two")
    return axis.chart(body, scale(most), "messages sent and delivered a second, over time")


def _redeliveries(figures: Mapping[str, Any], axis: Axis) -> str:
    most = max((row["redeliveries"] for row in figures["timeline"]), default=0)
    body = axis.columns(((row["moment"], row["redeliveries"]) for row in figures["timeline"]), most, "redeliveries")
    return axis.chart(body, scale(most), "messages delivered again, over time")


def _findings_chart(findings: Sequence[Mapping[str, Any]], axis: Axis) -> str:
    shown = [each for each in findings if each["events"]]
    rules = list(dict.fromkeys(each["rule"] for each in shown))
    rows = dict(zip(rules, axis.rows(len(rules)), strict=True))
    body = "".join(
        f'<circle class="{each["verdict"]}" cx="{axis.x_at(each["events"][0]["t0"]):.1f}" cy="{rows[each["rule"]]:.1f}" r="4">'
        f"<title>{escape(each['text'])}</title></circle>"
        for each in shown
    )
    names = "".join(axis.note(y, rule) for rule, y in rows.items())
    return axis.chart(names + body, [(y, "") for y in rows.values()], "findings, by rule and time")


def _latency_table(figures: Mapping[str, Any]) -> str:
    heads = ("Destination", "Messages", "50 % ms", "90 % ms", "99 % ms", "Longest ms")
    return table(
        "latency",
        heads,
        (
            (
                str(row["destination"]),
                str(row["messages"]),
                *(rounded(row[name]) for name in ("p50_ms", "p90_ms", "p99_ms", "most_ms")),
            )
            for row in figures["latency"]
        ),
    )


def _findings_table(data: Mapping[str, Any]) -> str:
    shown, total = len(data["findings"]), sum(data["counts"].values())
    if not shown:
        return "<p>None.</p>"
    note = f'<p class="faint">{shown} of {total} are listed.</p>' if shown < total else ""
    rows = "".join(
        f'<tr><td class="{each["verdict"]}">{each["verdict"]}</td><td>{escape(each["rule"])}</td><td>'
        f"{escape(each['text'])}{_section_of(each)}<details><summary>{counted(len(each['events']), 'event')}</summary><ol>"
        + "".join(f"<li>{_event(Event(**event))}</li>" for event in each["events"])
        + "</ol></details></td></tr>"
        for each in data["findings"]
    )
    head = "<thead><tr><th>Verdict</th><th>Rule</th><th>What, and the events that show it</th></tr></thead>"
    return f'{note}<table id="findings">{head}<tbody>{rows}</tbody></table>'


def _section_of(found: Mapping[str, Any]) -> str:
    return f' <span class="faint">(JMS 1.1 §{escape(found["section"])})</span>' if found["section"] else ""


def _event(event: Event) -> str:
    fraction = f"{event.t0 % _NS_PER_S // 1000:06d}"
    return f"{clock(event.t0 // _NS_PER_S * _NS_PER_S)}.{fraction} {escape(event.node)} {escape(event.pid)}: {escape(describe(event))}"
