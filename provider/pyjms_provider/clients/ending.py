"""Ending something once: one thread does it, and all others that want it return when it is done."""

from __future__ import annotations

from threading import Lock, get_ident

from pyjms.spi.clock import Signal

__all__ = ["Ending"]


class Ending:
    """Who ends a session or a connection. Any thread.

    A broker that stops writes down, last of all, that it stopped in good order. So its `close` of a session that a client is
    just closing must wait for the client's thread, which gives back the session's messages.
    """

    __slots__ = ("_done", "_lock", "_owner")

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: int | None = None
        self._done = Signal()

    def begin(self) -> bool:
        """Return True to the first caller, which must call `finish`; else wait for that, and return False.

        The first caller's own thread does not wait for itself.
        """
        me = get_ident()
        with self._lock:
            if self._owner is None:
                self._owner = me
                return True
            if self._owner == me:
                return False
        self._done.wait(-1)
        self._done.set()  # for the next one who waits
        return False

    def finish(self) -> None:
        """Let those go on who wait."""
        self._done.set()
