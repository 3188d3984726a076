"""How the broker's commands end: errors in one line that say what to do, and exit codes.

0 done, 1 it broke off or a check failed, 2 it cannot be done as asked, 130 Ctrl-C.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from pyjms.spi.errors import ProviderError

__all__ = ["CANNOT_BE_USED", "FAILED", "INTERRUPTED", "errors_told", "note", "printable", "put_json", "show", "stop"]

FAILED: Final = 1
CANNOT_BE_USED: Final = 2
INTERRUPTED: Final = 130
_CONTROLS: Final = re.compile(r"[\x7f-\x9f]")


def note(text: str, *, style: str = "") -> None:
    """Tell people something that is not the result."""
    Console(stderr=True).print(escape(printable(text)), style=style, highlight=False, soft_wrap=True)


def stop(text: str, code: int = CANNOT_BE_USED) -> NoReturn:
    """Say why it ends here."""
    note(text, style="red")
    raise typer.Exit(code)


@contextmanager
def errors_told() -> Iterator[None]:
    """Tell what cannot be used in one line, and end with a code."""
    try:
        yield
    except ModuleNotFoundError as error:
        stop(f"this needs the package {error.name}, which is not installed; install the extra `broker` of pyjms")
    except ProviderError as error:
        stop(" ".join(error.reason.split()))
    except OSError as error:
        stop(str(error) if error.filename is None else f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        stop("stopped", INTERRUPTED)


def put_json(value: Any) -> None:
    """Print a result for programs. Nothing in it steers a terminal."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # JSON itself escapes what is below a blank alone; U+009B begins a command to a terminal as ESC [ does.
    sys.stdout.write(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def printable(text: str) -> str:
    """Return a text as a terminal may show it: characters that could steer it, as names that clients chose have, are spelt out."""
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def show(what: Any) -> None:
    """Print a table, or a text with markup, for people."""
    Console(highlight=False).print(what, soft_wrap=isinstance(what, str))
