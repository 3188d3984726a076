"""How commands end: errors in one line, with their exit codes, and who reads the output.

Results go to standard output; progress, notes and errors to standard error, so that a result can be piped on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

import typer

from pyjms import (
    IllegalArgumentException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    JMSSecurityException,
    MessageFormatException,
    UnsupportedOperationException,
)
from pyjms.spi.passwords import NoPasswordError
from pyjms.spi.terminal import CANNOT_BE_USED, FAILED, INTERRUPTED, complain, is_of_writing, on_one_line, results

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_UNUSABLE_CODES: Final = frozenset({"PYJMS-URL", "PYJMS-PROVIDER", "PYJMS-CAPABILITY"})
"""Errors that are plain `JMSException` for programs, and that trying again does not help."""
_UNUSABLE: Final = (
    IllegalArgumentException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSSecurityException,
    MessageFormatException,
    UnsupportedOperationException,
)


class CommandError(Exception):
    """What was asked for cannot be done; the text says what to do."""


@contextmanager
def errors_told(command: str) -> Iterator[None]:
    """Tell an error in one line, and end the process with its code."""
    try:
        yield
    except OSError as error:
        if is_of_writing(error):
            raise  # told where the process ends, for all commands
        _end(command, _text(error), CANNOT_BE_USED, error)
    except (CommandError, NoPasswordError, *_UNUSABLE) as error:
        _end(command, _text(error), CANNOT_BE_USED, error)
    except JMSException as error:
        _end(command, _text(error), CANNOT_BE_USED if error.error_code in _UNUSABLE_CODES else FAILED, error)
    except KeyboardInterrupt as error:
        _end(command, "stopped; what was not acknowledged or committed stays with the broker", INTERRUPTED, error)


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return on_one_line(str(error)) or type(error).__name__


def _end(command: str, text: str, code: int, cause: BaseException) -> NoReturn:
    complain(f"pyjms {command}", text)
    raise typer.Exit(code) from cause


def tables() -> Console:
    """Return what prints tables for people."""
    return results()


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Progress]:
    """Show how far long work is, where a person looks on; the one task is number 0, and `total` None is unknown."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bars.add_task(what, total=total)
        yield bars
