"""Passwords from a file, from the environment, or as typed; never from the command line, which others can see.

The commands of pyjms and those of the bundled broker use it. It needs the extra `cli`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import typer

from pyjms.spi.errors import ProviderError

__all__ = ["VARIABLE", "NoPasswordError", "read_password"]

VARIABLE: Final = "PYJMS_PASSWORD"


class NoPasswordError(ProviderError):
    """There is no password, and nobody to be asked for it."""

    code = "PYJMS-PASSWORD"


def read_password(user: str, file: Path | None, *, is_new: bool = False) -> str:
    """Return a user's password: from a file's first line, from the environment, or as it is typed; a new one is typed twice.

    Raises `NoPasswordError`, and what reading the file raises.
    """
    if file is not None:
        lines = file.read_text(encoding="utf-8").splitlines()
        if not lines or not lines[0]:
            raise NoPasswordError(f"{file} is empty; write the password in its first line")
        return lines[0]
    found = os.environ.get(VARIABLE)
    if found:
        return found
    if not sys.stdin.isatty():
        raise NoPasswordError(f"no password for {user}: set {VARIABLE}, or name a --password-file")
    return str(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=is_new, err=True))
