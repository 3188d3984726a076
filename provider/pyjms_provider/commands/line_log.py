"""Log records as lines for people."""

from __future__ import annotations

import logging
from types import TracebackType

from pyjms.spi.terminal import printable


class LineFormatter(logging.Formatter):
    """Begins a line for each record, and none for what is in it: names that clients chose could look like lines of their own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the record without its traceback, in one line."""
        return printable(super().formatMessage(record)).replace("\n", "\\n")

    def formatException(
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """Return a traceback, whose lines are set back."""
        return "    " + printable(super().formatException(ei)).replace("\n", "\n    ")
