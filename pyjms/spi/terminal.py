"""What commands write: to people, of whom nothing may steer their terminal, and to programs. And with what code they end.

All commands use it, those of pyjms, of the bundled broker and of the conformance suite: names, bodies and the texts of errors come
from clients, files and brokers, which may put escape sequences into them. So nothing that was not written here is shown but
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

# rich takes a third of a command's time to import: only what is shown to people pays for it.

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
"""It broke off, a check failed, or there was nothing to do it with."""
CANNOT_BE_USED: Final = 2
"""What was asked for cannot be done: options, URL, credentials, a file."""
INTERRUPTED: Final = 130
"""Ctrl-C."""

_WIDEST: Final = 10_000
"""Columns of what is no terminal: a row stays on one line."""
_OF_WRITING: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_CONTROLS: Final = re.compile(r"[\x7f-\x9f]")


def printable(text: str) -> str:
    """Return a text as a terminal may show it: characters that could steer it are spelt out, save for the ends of lines and tabs."""
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def escaped(text: str) -> str:
    """Return a text for rich's markup, as a terminal may show it: no character steers it, and no bracket is markup.

    A console that shows it has `emoji=False`: else a queue `key:x` is shown as one with the picture of a key. Of backslashes
    before a bracket, and at the end, rich may show one too few or too many; `rich.text.Text` of a `printable` text is exact.
    """
    from rich.markup import escape

    return escape(printable(text))


def results() -> Console:
    """Return what prints results for people.

    In a pipe or a file tables are as wide as they need to be, so that who looks for a name there finds it, unless `COLUMNS` says otherwise.
    """
    from rich.console import Console
    from rich.table import Table

    class Wide(Console):
        """Prints for a pipe or a file."""

        def print(self, *objects: Any, **options: Any) -> None:
            """Print; of tables no blanks behind the last word: `less` would show empty lines for them."""
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
    """Return an empty table without lines, of which nothing is cut off: where it is too narrow, cells go on beneath.

    `whole`: the headings of columns that are not broken at all; their cells are short.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading in whole)
    return table


def note(text: str, *, style: str = "") -> None:
    """Tell people something that is not the result, on standard error."""
    from rich.console import Console
    from rich.text import Text

    # A `Text` is no markup: brackets in it are shown as they are.
    Console(stderr=True).print(Text(printable(text), style), soft_wrap=True)


def complain(who: str, text: str) -> None:
    """Tell people on standard error why a command ends; `who`: its words, as ``pyjms send``."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True).print(Text.assemble((f"{who}:", "red"), f" {printable(text)}"), soft_wrap=True)


def put_json(value: Any, *, is_line: bool = False) -> None:
    """Print a result for programs: one document, or one of several lines, each at once. Nothing in it steers a terminal."""
    text = json.dumps(value, indent=None if is_line else 2, ensure_ascii=False)
    # JSON itself escapes what is below a blank alone; U+009B begins a command to a terminal as ESC [ does.
    sys.stdout.write(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
    if is_line:
        sys.stdout.flush()


def is_of_writing(error: OSError) -> bool:
    """Whether a write to what is open has failed: the disk is full, or the reader has gone. What could not be opened has a name."""
    return error.filename is None and error.errno in _OF_WRITING


def flush_error() -> OSError | None:
    """Write what standard output still has to; return why that fails, or None."""
    if sys.stdout is None:  # the command was started with it closed: whoever did so wants no result
        return None
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def end_output(error: OSError) -> None:
    """Say why a result was not written, and let go of what is left of it.

    Nothing is said where its reader has gone, as `head` does: that one has seen enough.
    """
    # Python flushes standard output at its end, and would report the same error once more, with a traceback.
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        complain(
            "pyjms", f"the result could not be written: {error.strerror}; make room there, or have it go elsewhere"
        )
