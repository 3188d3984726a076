"""How the demo ends: exit codes, and errors in one line."""

from __future__ import annotations

from typing import Final

import typer
from rich.console import Console
from rich.markup import escape

__all__ = ["BROKE_OFF", "CANNOT_BE_USED", "DOES_NOT_ADD_UP", "INSTALL", "INTERRUPTED", "complain", "failure"]

DOES_NOT_ADD_UP: Final = 1
BROKE_OFF: Final = 1
CANNOT_BE_USED: Final = 2
INTERRUPTED: Final = 130
INSTALL: Final = "pip install 'pyjms[cli,broker,stomp]'"
"""What two sites need."""


def failure(error: Exception, code: int) -> typer.Exit:
    """Tell an error; return what ends the process."""
    complain(str(error))
    return typer.Exit(code)


def complain(text: str) -> None:
    """Tell what went wrong."""
    Console(stderr=True).print(f"[red]pyjms demo:[/] {escape(text)}", highlight=False, soft_wrap=True)
