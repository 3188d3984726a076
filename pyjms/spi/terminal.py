"""The output of commands: for people, without control sequences for their terminal, and for programs; and exit codes.

All commands use it, those of pyjms, of the bundled broker and of the conformance suite: names, bodies and the texts of errors come
from clients, files and brokers, which may put escape sequences into them. So all foreign text is shown
through `escaped`, or as JSON. It needs the extra `cli`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# rich takes a third of a command's time to import: only output for people pays for it.

from pyjms.spi.words import on_one_line

__all__ = [
    "CANNOT_BE_USED",
    "FAILED",
    "INTERRUPTED",
    "complain",
    "end_output",
    "escaped",
    "flush_error",
    "is_of_writing",
    "listing",
    "note",
    "on_one_line",
    "printable",
    "put_json",
    "results",
]

FAILED: Final = 1
"""The command was interrupted, a check failed, or a resource was missing."""
CANNOT_BE_USED: Final = 2
"""The request cannot be executed: options, URL, credentials, a file."""
INTERRUPTED: Final = 130
"""Ctrl-C."""

_WIDEST: Final = 10_000
"""The width of output that is no terminal: a row stays on one line."""
_OF_WRITING: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_CONTROLS: Final = re.compile(r"[\x7f-\x9f]")


def printable(text: str) -> str:
    """Return a text that is safe for a terminal: control characters are spelt out, except line ends and tabs."""
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def escaped(text: str) -> str:
    """Return a text for rich's markup that is safe for a terminal: no control characters, and no bracket is markup.

    A console that shows it has `emoji=False`: otherwise a queue `key:x` is shown with the picture of a key. Of backslashes
    before a bracket, and at the end, rich may show one too few or too many; `rich.text.Text` of a `printable` text is exact.
    """
    from rich.markup import escape

    return escape(printable(text))


def results() -> Console:
    """Return the console for results for people.

    In a pipe or a file tables are as wide as they need to be, so that names in them can be searched for, unless `COLUMNS` is set.
    """
    from rich.console import Console
    from rich.table import Table

    class Wide(Console):
        """A console for a pipe or a file."""

        def print(self, *objects: Any, **options: Any) -> None:
            """Print; without blanks at the ends of table lines, for which `less` would show empty lines."""
            if not isinstance(objects[0] if objects else None, Table):
                super().print(*objects, **options)
                return
            with self.capture() as captured:
                super().print(*objects, **options)
            self.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().removesuffix("\n").split("\n")))

    console = Console(highlight=False, emoji=False)
    if console.is_terminal or os.environ.get("COLUMNS"):
        return console
    # In a pipe rich would take 80 columns for the width, and fold the cells.
    return Wide(width=_WIDEST, highlight=False, emoji=False)


def listing(*headings: str, whole: Collection[str] = ()) -> Table:
    """Return an empty table without lines, in which nothing is cut off: where it is too narrow, cells are wrapped.

    `whole`: the headings of columns that are never wrapped; their cells are short.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading in whole)
    return table


def note(text: str, *, style: str = "") -> None:
    """Print a text for people that is not the result, on standard error."""
    from rich.console import Console
    from rich.text import Text

    # A `Text` has no markup: brackets in it are shown as they are.
    Console(stderr=True).print(Text(printable(text), style), soft_wrap=True)


def complain(who: str, text: str) -> None:
    """Print on standard error why a command ends; `who`: the command's words, as ``pyjms send``."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True).print(Text.assemble((f"{who}:", "red"), f" {printable(text)}"), soft_wrap=True)


def put_json(value: Any, *, is_line: bool = False) -> None:
    """Print a result for programs: one document, or one line of several, each at once. It contains no control characters."""
    text = json.dumps(value, indent=None if is_line else 2, ensure_ascii=False)
    # JSON itself escapes only characters below a blank; U+009B begins a command to a terminal as ESC [ does.
    sys.stdout.write(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
    if is_line:
        sys.stdout.flush()


def is_of_writing(error: OSError) -> bool:
    """Return whether a write to an open file has failed: the disk is full, or the reader is gone. An error of opening has a file name."""
    return error.filename is None and error.errno in _OF_WRITING


def flush_error() -> OSError | None:
    """Write the buffered standard output; return why that fails, or None."""
    if sys.stdout is None:  # the command was started with it closed: no result is wanted
        return None
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def end_output(error: OSError) -> None:
    """Report why a result was not written, and drop the rest of it.

    Nothing is reported if its reader has gone, as with `head`: it needs no more.
    """
    # Python flushes standard output at its end, and would report the same error again, with a traceback.
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        complain(
            "pyjms", f"the result could not be written: {error.strerror}; make room there, or have it go elsewhere"
        )
