"""The report of an audit as one HTML page: no script, nothing from the network, readable in light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from pyjms.history.events import Event
from pyjms.history.rules import RULES
from pyjms.history.story import describe

__all__ = ["page"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 860, 180, 64, 24
_NS_PER_S = 10**9
_DESTINATIONS = 40  # more bars than that nobody reads; the table has all
_SHADES = {"p50_ms": "one", "p90_ms": "two", "p99_ms": "three"}

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --faint: #667; --line: #d5d9e0; --panel: #f6f7f9;
  --one: #1f6feb; --two: #bf5b00; --three: #8a63d2; --violation: #c62828; --warning: #a86400; --information: #0b7285;
  --good: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171c; --text: #e4e7ec; --faint: #9aa3b2; --line: #343b46;
  --panel: #1d222a; --one: #6cb0ff; --two: #ffa657; --three: #c3a6ff; --violation: #ff7b72; --warning: #e3b341;
  --information: #56c8d8; --good: #56d364; } }
body { background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 60rem; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; } .faint { color: var(--faint); }
.verdict { font-weight: 600; } .violation { color: var(--violation); } .warning { color: var(--warning); }
.information { color: var(--information); } .good { color: var(--good); }
figure { margin: 0; overflow-x: auto; } svg { background: var(--panel); border-radius: 6px; display: block; height: auto;
  width: 100%; } svg text { fill: var(--faint); font: 11px system-ui, sans-serif; }
.axis { stroke: var(--line); } .one { fill: var(--one); } .two { fill: var(--two); } .three { fill: var(--three); }
.line-one { fill: none; stroke: var(--one); stroke-width: 1.8; } .line-two { fill: none; stroke: var(--two);
  stroke-width: 1.8; stroke-dasharray: 5 3; }
circle.violation { fill: var(--violation); } circle.warning { fill: var(--warning); }
circle.information { fill: var(--information); }
table { border-collapse: collapse; font-size: .9rem; width: 100%; } th, td { border-bottom: 1px solid var(--line);
  padding: .35rem .5rem; text-align: left; vertical-align: top; } td.number, th.number { text-align: right; }
td { overflow-wrap: anywhere; } td.violation, td.warning, td.information { white-space: nowrap; } details ol { color: var(--faint); margin: .3rem 0 0; padding-left: 1.2rem; }
.key::before { border-radius: 2px; content: ""; display: inline-block; height: .7em; margin: 0 .35em 0 1em;
  width: .7em; } .key.k-one::before { background: var(--one); } .key.k-two::before { background: var(--two); }
.key.k-three::before { background: var(--three); }
"""


def page(data: Mapping[str, Any]) -> str:
    """Return the page for what ``pyjms pipeline audit --json`` prints; it holds the same data, for programs."""
    figures = data["figures"]
    parts = [
        _summary(data),
        _section("Findings over time", _findings_chart(data["findings"], figures)),
        _section("Throughput, messages a second", _throughput(figures), _keys(("k-one", "sent"), ("k-two", "delivered"))),
        _section("Redeliveries", _redeliveries(figures)),
        _section("From send to delivery", _latency(figures), _keys(("k-one", "50 %"), ("k-two", "90 %"), ("k-three", "99 %"))),
        _latency_table(figures),
        "<h2>Findings</h2>",
        _findings_table(data),
    ]  # fmt: skip
    held = json.dumps(data).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>History audit: {escape(data['verdict'])}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + f'\n<script type="application/json" id="data">{held}</script>\n</body>\n</html>\n'
    )


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
        f"{data['suspects']} messages were looked at one by one.</p>{table if rows else ''}"
    )


def _section(title: str, chart: str, keys: str = "") -> str:
    return f"<h2>{escape(title)}{keys}</h2><figure>{chart}</figure>"


def _keys(*keys: tuple[str, str]) -> str:
    return "".join(f'<span class="key {name} faint">{escape(text)}</span>' for name, text in keys)


# Charts over time


def _chart(figures: Mapping[str, Any], body: str, labels: Sequence[tuple[float, str]], title: str) -> str:
    bottom = _HEIGHT - _BOTTOM
    lines = "".join(
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
        for y, text in labels
    )
    begin, end = figures["start_ns"], figures["start_ns"] + figures["width_ns"] * _moments(figures)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">{lines}{body}'
        f'<text x="{_LEFT}" y="{bottom + 18}">{_clock(begin)}</text>'
        f'<text x="{_WIDTH - 4}" y="{bottom + 18}" text-anchor="end">{_clock(end)}</text></svg>'
    )


def _moments(figures: Mapping[str, Any]) -> int:
    return max((row["moment"] for row in figures["timeline"]), default=0) + 1


def _x(figures: Mapping[str, Any], moment: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - 8) * moment / _moments(figures)


def _y(value: float, most: float) -> float:
    return 10 + (_HEIGHT - _BOTTOM - 10) * (1 - value / (most or 1))


def _scale(most: float) -> list[tuple[float, str]]:
    return [(_y(part * most, most), f"{part * most:,.4g}") for part in (0.0, 0.5, 1.0)]


def _throughput(figures: Mapping[str, Any]) -> str:
    seconds = figures["width_ns"] / _NS_PER_S
    rates = {name: [0.0] * _moments(figures) for name in ("sends", "deliveries")}
    for row in figures["timeline"]:
        for name, values in rates.items():
            values[row["moment"]] = row[name] / seconds
    most = max(max(values) for values in rates.values())
    body = "".join(
        f'<polyline class="line-{line}" points="{_points(figures, rates[name], most)}"/>'
        for line, name in (("one", "sends"), ("two", "deliveries"))
    )
    return _chart(figures, body, _scale(most), "messages sent and delivered a second, over time")


def _points(figures: Mapping[str, Any], values: Sequence[float], most: float) -> str:
    return " ".join(f"{_x(figures, place + 0.5):.1f},{_y(value, most):.1f}" for place, value in enumerate(values))


def _redeliveries(figures: Mapping[str, Any]) -> str:
    most = max((row["redeliveries"] for row in figures["timeline"]), default=0)
    width = max(_x(figures, 1) - _x(figures, 0) - 2, 1)
    body = "".join(
        f'<rect class="two" x="{_x(figures, row["moment"]) + 1:.1f}" y="{_y(row["redeliveries"], most):.1f}" '
        f'width="{width:.1f}" height="{_HEIGHT - _BOTTOM - _y(row["redeliveries"], most):.1f}">'
        f"<title>{row['redeliveries']} redeliveries</title></rect>"
        for row in figures["timeline"]
        if row["redeliveries"]
    )
    return _chart(figures, body, _scale(most), "messages delivered again, over time")


def _findings_chart(findings: Sequence[Mapping[str, Any]], figures: Mapping[str, Any]) -> str:
    rules = list(dict.fromkeys(each["rule"] for each in findings if each["events"]))
    step = (_HEIGHT - _BOTTOM - 10) / max(len(rules), 1)
    rows = {rule: 10 + step * (place + 0.5) for place, rule in enumerate(rules)}
    body = "".join(
        f'<circle class="{each["verdict"]}" cx="{_at(figures, each):.1f}" cy="{rows[each["rule"]]:.1f}" r="4">'
        f"<title>{escape(each['text'])}</title></circle>"
        for each in findings
        if each["events"]
    )
    names = "".join(
        f'<text x="{_LEFT + 4}" y="{y - 6:.1f}">{escape(rule)}</text>' for rule, y in rows.items()
    )  # over its line, as names are longer than the margin
    return _chart(figures, names + body, [(y, "") for y in rows.values()], "findings, by rule and time")


def _at(figures: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    moment = (found["events"][0]["t0"] - figures["start_ns"]) / figures["width_ns"]
    return _x(figures, min(max(moment, 0), _moments(figures)))


def _clock(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns / _NS_PER_S, UTC):%Y-%m-%d %H:%M:%S}"


# Latency


def _latency(figures: Mapping[str, Any]) -> str:
    rows = sorted(figures["latency"], key=lambda row: -row["p99_ms"])[:_DESTINATIONS]
    most = max((row["p99_ms"] for row in rows), default=0) or 1
    left, height = 220, 22 * len(rows) + 26
    bars = []
    for place, row in enumerate(rows):
        y = 22 * place + 6
        bars.append(
            f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(str(row["destination"])[-34:])}</text>'
        )
        for name in ("p99_ms", "p90_ms", "p50_ms"):
            width = (_WIDTH - left - 20) * row[name] / most
            bars.append(
                f'<rect class="{_SHADES[name]}" x="{left}" y="{y}" width="{max(width, 1):.1f}" height="16">'
                f"<title>{row[name]:.3f} ms</title></rect>"
            )
    end = f'<text x="{_WIDTH - 20}" y="{height - 8}" text-anchor="end">{most:,.3f} ms</text>'
    label = "latency percentiles by destination"
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{"".join(bars)}{end}</svg>'


def _latency_table(figures: Mapping[str, Any]) -> str:
    heads = ("Destination", "Messages", "50 % ms", "90 % ms", "99 % ms", "Longest ms")
    rows = "".join(
        f'<tr><td>{escape(str(row["destination"]))}</td><td class="number">{row["messages"]}</td>'
        + "".join(f'<td class="number">{row[name]:.3f}</td>' for name in ("p50_ms", "p90_ms", "p99_ms", "most_ms"))
        + "</tr>"
        for row in figures["latency"]
    )
    names = "".join(f"<th{' class=number' if place else ''}>{name}</th>" for place, name in enumerate(heads))
    names = names.replace("class=number", 'class="number"')
    return f'<table id="latency"><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>'


def _findings_table(data: Mapping[str, Any]) -> str:
    shown, total = len(data["findings"]), sum(data["counts"].values())
    if not shown:
        return "<p>None.</p>"
    note = f'<p class="faint">{shown} of {total} are listed.</p>' if shown < total else ""
    rows = "".join(
        f'<tr><td class="{each["verdict"]}">{each["verdict"]}</td><td>{escape(each["rule"])}</td><td>'
        f"{escape(each['text'])}{_section_of(each)}<details><summary>{len(each['events'])} events</summary><ol>"
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
    return f"{_clock(event.t0 // _NS_PER_S * _NS_PER_S)}.{fraction} {escape(event.node)} {escape(event.pid)}: {escape(describe(event))}"
