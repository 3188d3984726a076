"""What is done in place of a program that ends, or that does not get what a call has made.

A provider's threads keep a Java program alive; those of pyjms are daemons. A ported program that sets a listener, calls ``start()`` and comes
to the end of its main function would end at once without a word: so there is a warning. It is for whoever may not have meant it: a main thread
that an exception ended says so by itself, at a prompt somebody is present, and a child that was forked has no listeners of its own.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from contextlib import suppress
from functools import cache
from typing import Protocol
from weakref import WeakValueDictionary

from pyjms.api.base import Closeable
from pyjms.api.destination import TemporaryQueue, TemporaryTopic
from pyjms.errors import JMSException

_log = logging.getLogger("pyjms.runtime")


class Listening(Protocol):
    """What may be listening: a connection."""

    @property
    def is_listening(self) -> bool:
        """Whether it is started, open, and has listeners. Takes no lock: at the end of a program others may hold any."""


_started: WeakValueDictionary[tuple[int, int], Listening] = WeakValueDictionary()

"""Connections that were started, by process and identity. Its references are listed in one step, whatever other threads do."""


def note_start(connection: Listening) -> None:
    """Look at `connection` when the program ends. Any thread; once or several times."""
    _started[os.getpid(), id(connection)] = connection
    _be_called()


@cache
def _be_called() -> None:
    atexit.register(_warn)  # later than an embedded broker, and so called earlier: that one's end is the connection's


def _warn() -> None:
    process = os.getpid()
    listening = [
        connection
        for reference in _started.valuerefs()
        if reference.key[0] == process and (connection := reference()) is not None and connection.is_listening
    ]
    _started.clear()  # two threads that both start the first connection may have registered this twice
    if listening and getattr(sys, "last_value", None) is None and not hasattr(sys, "ps1"):
        _log.warning(
            "PYJMS-ENDED the program ends while %d connection(s) with listeners are open: threads of pyjms keep no program alive. To go on "
            "listening, have the main thread wait, as by threading.Event().wait(); otherwise close connections before the end, so that "
            "listeners finish what they do",
            len(listening),
        )


def close_made(made: Closeable) -> None:
    """Close a connection, session, consumer, producer or browser that the program does not get."""
    with suppress(JMSException):  # the interrupt is what the program hears of
        made.close()


def delete_made(made: TemporaryQueue | TemporaryTopic) -> None:
    """Delete a temporary destination that the program does not get."""
    with suppress(JMSException):  # as above; it ends with its connection
        made.delete()
