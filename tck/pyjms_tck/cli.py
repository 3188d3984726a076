"""The command ``pyjms-tck``. It needs the extra `tck`, which brings pytest, rich and typer."""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["main"]

MISSING_EXTRA = (
    "The command pyjms-tck needs the packages pytest, rich and typer, which are not all installed ({missing} is missing). "
    "Install them with: pip install 'pyjms[tck]'"
)


def main() -> None:
    """Run the command line of this process."""
    try:
        for package in ("pytest", "rich", "typer"):
            import_module(package)  # all three here, so that one text names the cure
    except ModuleNotFoundError as error:
        sys.exit(MISSING_EXTRA.format(missing=error.name))
    from pyjms_tck.command import app

    app()
