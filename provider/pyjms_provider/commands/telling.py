"""How the broker's commands end: errors as one line with the remedy, and exit codes.

0 done, 1 it broke off or a check failed, 2 it cannot be done as asked, 130 Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias

import typer

from pyjms.spi.arguments import VARIABLE
from pyjms.spi.errors import ProviderError
from pyjms.spi.terminal import CANNOT_BE_USED, INTERRUPTED, is_of_writing, note, on_one_line, results


def stop(text: str, code: int = CANNOT_BE_USED) -> NoReturn:
    """Print the reason, and end the process."""
    note(text, style="red")
    raise typer.Exit(code)


@contextmanager
def errors_told() -> Iterator[None]:
    """Print an error of the environment or the input as one line, and end with its exit code."""
    try:
        yield
    # The commands import what they need late, so a missing package shows here.
    except ModuleNotFoundError as error:
        stop(f"this needs the package {error.name}; install it with: pip install 'pyjms-messaging[broker]'")
    except ProviderError as error:
        stop(on_one_line(error.reason))
    except OSError as error:
        if is_of_writing(error):
            raise  # reported at the end of the process, for all commands
        stop(str(error) if error.filename is None else f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        stop("stopped", INTERRUPTED)


def show(what: Any) -> None:
    """Print a table, or a text with markup."""
    results().print(what, soft_wrap=isinstance(what, str))


AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help=f"A file whose first line is the password; else it comes from {VARIABLE}, or is asked for.",
        metavar="FILE",
        show_default=False,
    ),
]
