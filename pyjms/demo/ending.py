"""How the demo ends: exit codes, and errors in one line."""

from __future__ import annotations

from typing import Final

import typer

from pyjms.spi import terminal

DOES_NOT_ADD_UP: Final = 1
BROKE_OFF: Final = terminal.FAILED
INSTALL: Final = "pip install 'pyjms-messaging[broker,stomp]'"
"""The packages that two sites need."""


def failure(error: Exception, code: int) -> typer.Exit:
    """Report an error; return the exception that ends the process."""
    complain(str(error))
    return typer.Exit(code)


def complain(text: str) -> None:
    """Print an error."""
    terminal.complain("pyjms demo", text)
