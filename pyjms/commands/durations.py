"""Moments as they are typed: ``2030-01-31T12:00``."""

from __future__ import annotations

from datetime import datetime

import typer

__all__ = ["moment_ms"]


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
