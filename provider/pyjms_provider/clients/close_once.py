"""Close something once: one thread does it, and all others that ask for it return when it is done."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Self

from pyjms.spi.errors import ProviderError


class CloseOnce:
    """Runs the close of a session or a connection once. Any thread.

    The lock guards no data: its owner is the thread that closes.
    """

    __slots__ = ("_is_begun", "_is_done", "_right")

    def __init__(self) -> None:
        # Reentrant, as a session that closes removes itself from its connection, perhaps during the connection's close. Entered
        # by `with`, it is released even if its thread is interrupted (decision 0104).
        self._right = RLock()
        self._is_begun = False
        self._is_done = False

    @classmethod
    def ended(cls) -> Self:
        """Return an instance that is closed already, for a forked child, in which no thread could close."""
        made = cls()
        made._is_done = True
        return made

    def do(self, end: Callable[[], None]) -> None:
        """Call `end`, or wait for the thread that is calling it; a nested call by that same thread returns at once.

        Raises what `end` raises. After a `ProviderError` it counts as closed. If the thread is interrupted, the next caller, or one that
        waits, calls its own `end`: so `end` must be repeatable.
        """
        if self._is_done:
            return
        # Waits for a thread that is closing: a broker that stops records a clean stop last
        # of all, and until then the client's thread must have given the messages back.
        with self._right:
            # Begun and not done, with the lock held: this very thread is in `end`.
            if self._is_done or self._is_begun:
                return
            try:
                self._is_begun = True
                end()
                self._is_done = True
            except ProviderError:
                # The broker refused, and the object is closed all the same; any other error leaves the close to the next caller.
                self._is_done = True
                raise
            finally:
                self._is_begun = False
