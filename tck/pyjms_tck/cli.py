"""The command ``pyjms-tck``. Judging needs the extra `tck`; listing requirements and comparing reports do not."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process."""
    from pyjms_tck.command import app

    app()
