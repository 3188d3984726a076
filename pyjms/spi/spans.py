"""Spans of time as all commands take them: ``500ms``, ``30s``, ``5m``, ``2h``, ``1d``. It needs the extra `cli`."""

from __future__ import annotations

import re
from typing import Final

import typer

__all__ = ["span_ms", "span_s"]

_UNITS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60000),
    **dict.fromkeys(("h", "hour", "hours"), 3600000),
    **dict.fromkeys(("d", "day", "days"), 86400000),
}
_SPAN: Final = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*([a-z]*)")


def span_ms(value: str | int) -> int:
    """Return a span in milliseconds, which a default is already. Raises `typer.BadParameter`.

    A number alone is refused, but for 0: it would be seconds to some people and milliseconds to others.
    """
    if isinstance(value, int):
        return value
    text = value.strip()
    match = _SPAN.fullmatch(text.lower())
    if match is not None and not match[2] and float(match[1]) != 0:
        raise typer.BadParameter(f"{text} has no unit; write {text}s for seconds, or {text}ms for milliseconds")
    unit = None if match is None else _UNITS.get(match[2] or "ms")
    if match is None or unit is None:
        raise typer.BadParameter(f"{text!r} is no span of time; write 500ms, 30s, 5m, 2h or 1d")
    return round(float(match[1]) * unit)


def span_s(value: str | float) -> float:
    """Return a span in seconds, which a default is already. Raises `typer.BadParameter` as `span_ms`."""
    return span_ms(value) / 1000 if isinstance(value, str) else value
