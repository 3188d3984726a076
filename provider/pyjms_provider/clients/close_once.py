"""CloseOnce something once: one thread does it, and all others that want it return when it is done."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Self

from pyjms.spi.errors import ProviderError


class CloseOnce:
    """Who ends a session or a connection. Any thread.

    A broker that stops writes down, last of all, that it stopped in good order. So its `close` of a session that a client is
    just closing must wait for the client's thread, which gives back the session's messages.

    Who ends it holds a lock, entered by `with`, which a thread lets go of whatever interrupts it (decision 0104): it guards nothing, but is the right to end.
    """

    __slots__ = ("_is_begun", "_is_done", "_right")

    def __init__(self) -> None:
        self._right = RLock()
        self._is_begun = False
        self._is_done = False

    @classmethod
    def ended(cls) -> Self:
        """Return one that is over, as nobody is left who could do anything."""
        made = cls()
        made._is_done = True
        return made

    def do(self, end: Callable[[], None]) -> None:
        """Call `end`, or wait for the thread that does; in that very thread return at once.

        Raises what `end` raises. After a `ProviderError` it has ended. If the thread is interrupted, the next one that comes, or waits, calls its
        own `end`: so that must be something that may be repeated.
        """
        if self._is_done:
            return
        with self._right:
            if self._is_done or self._is_begun:
                return
            try:
                self._is_begun = True
                end()
                self._is_done = True
            except ProviderError:
                self._is_done = True
                raise
            finally:
                self._is_begun = False
