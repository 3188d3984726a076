"""One at a time, without a lock: who works may wait for the disk, and others wait for him."""

from __future__ import annotations

from collections import deque
from threading import Lock
from weakref import WeakValueDictionary

from pyjms.spi.clock import Signal

__all__ = ["Turn", "Turns"]


class Turn:
    """The right to change something whose changes are written: used as ``with turn:``, in the order of asking.

    Who has it waits for nothing but the disk, so that all others get it.
    """

    __slots__ = ("__weakref__", "_is_taken", "_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_taken = False
        self._waiting: deque[Signal] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            signal = Signal()
            self._waiting.append(signal)
        try:
            signal.wait(-1)  # it is handed over, so that nobody overtakes
        except BaseException:
            self._give_up(signal)
            raise

    def _give_up(self, signal: Signal) -> None:
        """Wait no longer, as the thread was interrupted; what it was handed at that moment goes to the next one."""
        with self._lock:
            if signal in self._waiting:
                self._waiting.remove(signal)
                return
        self.leave()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Hand it on."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False

    def try_enter(self) -> bool:
        """Have it, if it is free now, until `leave`."""
        with self._lock:
            was_taken, self._is_taken = self._is_taken, True
        return not was_taken


class Turns:
    """Turns by the name of what is changed; each is there while somebody has it, or waits for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._turns: WeakValueDictionary[str, Turn] = WeakValueDictionary()

    def of(self, name: str) -> Turn:
        """Return the turn of that name, for ``with turns.of(name):``."""
        with self._lock:
            return self._turns.setdefault(name, Turn())
