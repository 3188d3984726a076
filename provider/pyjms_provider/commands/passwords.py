"""The option of commands that names a file with a password."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from pyjms.spi.passwords import VARIABLE

PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help=f"A file whose first line is the password; else it comes from {VARIABLE}, or is asked for.",
        metavar="FILE",
        show_default=False,
    ),
]
