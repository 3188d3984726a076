"""Passwords from a file, from the environment, or as typed; never from the command line, which others can see."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from pyjms_provider.commands.telling import stop

__all__ = ["VARIABLE", "PasswordFile", "read_password"]

VARIABLE: Final = "PYJMS_PASSWORD"
PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help=f"A file whose first line is the password; else it comes from {VARIABLE}, or is asked for.",
        metavar="FILE",
        show_default=False,
    ),
]


def read_password(user: str, file: Path | None, *, is_new: bool) -> str:
    """Return a user's password; a new one is typed twice."""
    if file is not None:
        lines = file.read_text(encoding="utf-8").splitlines()
        return lines[0] if lines and lines[0] else stop(f"{file} is empty; write the password in its first line")
    found = os.environ.get(VARIABLE)
    if found:
        return found
    if not sys.stdin.isatty():
        stop(f"no password for {user}: set {VARIABLE}, or name a --password-file")
    return str(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=is_new, err=True))
