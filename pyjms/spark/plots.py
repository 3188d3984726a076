"""HTML pages with plots, shared by the reports on Spark: no script, nothing from the network, readable in light and
dark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

WIDTH, HEIGHT, _LEFT, _BOTTOM = 860, 180, 64, 24
SHADES = {"p50_ms": "one", "p90_ms": "two", "p99_ms": "three"}
"""Percentiles in milliseconds, and the colour of each."""
_NS_PER_S = 10**9
_DESTINATIONS = 40  # nobody reads more bars than that; the table has all

_STYLE = "\n" + files("pyjms.spark").joinpath("plots.css").read_text(encoding="utf-8")


def document(title: str, parts: Iterable[str], data: Mapping[str, Any]) -> str:
    """Return the page with `data` embedded as JSON, for programs."""
    # `</script>` in a text of the data would end the element; JSON reads the escape as the same character.
    held = json.dumps(data).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + f'\n<script type="application/json" id="data">{held}</script>\n</body>\n</html>\n'
    )


def section(title: str, chart: str, keys: str = "") -> str:
    """Return a headline, a legend, and a chart."""
    return f"<h2>{escape(title)}{keys}</h2><figure>{chart}</figure>"


def keys(*named: tuple[str, str]) -> str:
    """Return a legend: each entry is a class (``k-one`` to ``k-three``) and a text."""
    return "".join(f'<span class="key {name} faint">{escape(text)}</span>' for name, text in named)


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """Return a table of texts; all columns but the first `texts` hold numbers."""
    kinds = ["" if place < texts else ' class="number"' for place in range(len(heads))]
    head = "".join(f"<th{kind}>{escape(text)}</th>" for kind, text in zip(kinds, heads, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(text)}</td>" for kind, text in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


class Axis:
    """The time below a chart: `figures` has `start_ns`, `width_ns` and a `timeline` of rows with a `moment`."""

    def __init__(self, figures: Mapping[str, Any]) -> None:
        self.start_ns: int = figures["start_ns"]
        self.width_ns: int = figures["width_ns"]
        self.moments: int = max((row["moment"] for row in figures["timeline"]), default=0) + 1

    def x(self, moment: float) -> float:
        """Return the x coordinate of a moment."""
        return _LEFT + (WIDTH - _LEFT - 8) * moment / self.moments

    def x_at(self, ns: int) -> float:
        """Return the x coordinate of a time, limited to the chart."""
        # The axis spans sends, deliveries and acknowledgements; a finding may be of something before or after them.
        return self.x(min(max((ns - self.start_ns) / self.width_ns, 0), self.moments))

    def line(self, values: Sequence[float], most: float, shade: str) -> str:
        """Return a line through a value for each moment; `shade`: ``one`` or ``two``."""
        points = " ".join(f"{self.x(place + 0.5):.1f},{y_of(value, most):.1f}" for place, value in enumerate(values))
        return f'<polyline class="line-{shade}" points="{points}"/>'

    def columns(self, values: Iterable[tuple[int, int]], most: float, what: str) -> str:
        """Return a column for each moment that has a number."""
        width = max(self.x(1) - self.x(0) - 2, 1)
        return "".join(
            f'<rect class="two" x="{self.x(moment) + 1:.1f}" y="{y_of(value, most):.1f}" '
            f'width="{width:.1f}" height="{HEIGHT - _BOTTOM - y_of(value, most):.1f}">'
            f"<title>{value} {escape(what)}</title></rect>"
            for moment, value in values
            if value
        )

    def chart(self, body: str, labels: Sequence[tuple[float, str]], title: str) -> str:
        """Return a chart; `labels` are at its left, each with its height."""
        bottom = HEIGHT - _BOTTOM
        lines = "".join(
            f'<line class="axis" x1="{_LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
            for y, text in labels
        )
        end = self.start_ns + self.width_ns * self.moments
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{lines}{body}'
            f'<text x="{_LEFT}" y="{bottom + 18}">{clock(self.start_ns)}</text>'
            f'<text x="{WIDTH - 4}" y="{bottom + 18}" text-anchor="end">{clock(end)}</text></svg>'
        )

    def rows(self, number: int) -> list[float]:
        """Return the heights of `number` rows, one below the other."""
        step = (HEIGHT - _BOTTOM - 10) / max(number, 1)
        return [10 + step * (place + 0.5) for place in range(number)]

    def note(self, y: float, text: str) -> str:
        """Return a text that starts above the line at `y`, as it may be wider than the margin."""
        return f'<text x="{_LEFT + 4}" y="{y - 6:.1f}">{escape(text)}</text>'


def y_of(value: float, most: float) -> float:
    """Return the height of a value where `most` is at the top."""
    # The maximum of a chart without values is 0.
    return 10 + (HEIGHT - _BOTTOM - 10) * (1 - value / (most or 1))


def scale(most: float) -> list[tuple[float, str]]:
    """Return labels from 0 to `most`."""
    return [(y_of(part * most, most), f"{part * most:,.4g}") for part in (0.0, 0.5, 1.0)]


def clock(ns: int) -> str:
    """Return a time in UTC, to the second."""
    return f"{datetime.fromtimestamp(ns / _NS_PER_S, UTC):%Y-%m-%d %H:%M:%S}"


def bars(latency: Iterable[Mapping[str, Any]]) -> str:
    """Return percentiles of each destination as bars, the slowest first."""
    rows = sorted(latency, key=lambda row: -row["p99_ms"])[:_DESTINATIONS]
    most = max((row["p99_ms"] for row in rows), default=0) or 1
    left, height = 220, 22 * len(rows) + 26
    drawn = []
    for place, row in enumerate(rows):
        y = 22 * place + 6
        name = escape(str(row["destination"])[-34:])
        drawn.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{name}</text>')
        # The longest bar first: the shorter ones are drawn over it.
        for part in ("p99_ms", "p90_ms", "p50_ms"):
            width = (WIDTH - left - 20) * row[part] / most
            drawn.append(
                f'<rect class="{SHADES[part]}" x="{left}" y="{y}" width="{max(width, 1):.1f}" height="16">'
                f"<title>{row[part]:.3f} ms</title></rect>"
            )
    end = f'<text x="{WIDTH - 20}" y="{height - 8}" text-anchor="end">{most:,.3f} ms</text>'
    label = "latency percentiles by destination"
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(drawn)}{end}</svg>'
