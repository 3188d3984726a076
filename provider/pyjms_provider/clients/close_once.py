"""Close something once: one thread does it, and all others that want it return when it is done."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Self

from pyjms.spi.errors import ProviderError


class CloseOnce:
    """Lets one thread end a session or a connection. Any thread.

    The lock guards nothing: it is the right to end the session or the connection.
    """

    __slots__ = ("_is_begun", "_is_done", "_right")

    def __init__(self) -> None:
        # Reentrant, as a session that ends removes itself from its connection, perhaps in the midst of the
        # connection's close. Entered by `with`, it is released whatever interrupts its thread (decision 0104).
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
                # The broker minded, and the object is closed all the same;
                # any other error leaves the close to the next caller.
                self._is_done = True
                raise
            finally:
                self._is_begun = False
