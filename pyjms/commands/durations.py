"""Spans and moments as they are typed: ``500`` or ``500ms``, ``30s``, ``5m``, ``2h``, ``1d``; ``2030-01-31T12:00``."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import typer

__all__ = ["moment_ms", "span_ms"]

_UNITS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN: Final = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)(ms|s|m|h|d|)")


def span_ms(value: str | int) -> int:
    """Return a span in milliseconds, which a default is already. Raises `typer.BadParameter`."""
    text = str(value).strip()
    match = _SPAN.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no span of time; write milliseconds, or 30s, 5m, 2h, 1d")
    return round(float(match[1]) * _UNITS[match[2]])


def moment_ms(text: str) -> int:
    """Return a moment in milliseconds since 1970 UTC; without a zone it is a local time. Raises `typer.BadParameter`."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise typer.BadParameter(
            f"{text!r} is no moment; write 2030-01-31T12:00, with Z or +01:00 after it for a zone"
        ) from error
