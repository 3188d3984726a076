"""Taking back what a call has made when a signal's handler raises at its end, so that the program does not get it."""

from __future__ import annotations

from contextlib import suppress

from pyjms.api.closing import Closeable
from pyjms.api.destination import TemporaryQueue, TemporaryTopic
from pyjms.errors import JMSException

__all__ = ["close_made", "delete_made"]


def close_made(made: Closeable) -> None:
    """Close a connection, session, consumer, producer or browser that the program does not get."""
    with suppress(JMSException):  # the interrupt is what the program hears of
        made.close()


def delete_made(made: TemporaryQueue | TemporaryTopic) -> None:
    """Delete a temporary destination that the program does not get."""
    with suppress(JMSException):  # as above; it ends with its connection
        made.delete()
