"""The command ``pyjms-tck``. What judges needs the extra `tck`; what lists requirements and compares reports does not."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process."""
    from pyjms_tck.command import app

    app()
