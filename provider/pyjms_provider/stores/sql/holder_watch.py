"""Looking whether a store is still held while nobody writes: a broker that is idle would else not hear that it has lost its store."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Signal

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock

__all__ = ["BETWEEN_LOOKS_MS", "HolderWatch"]

BETWEEN_LOOKS_MS: Final = 1000
"""How long a broker may serve that has lost its store."""


class HolderWatch:
    """The thread of one store, from `start` to `stop`. It calls `look` with no lock held."""

    def __init__(self, look: Callable[[], None], clock: Clock, *, name: str | None) -> None:
        """`look` may wait for the network, for some seconds."""
        self._look = look
        self._clock = clock
        self._signal = Signal()
        self._is_stopped = False
        self._thread = Thread(target=self._run, name=f"pyjms holder {name}", daemon=True)

    def start(self) -> None:
        """Begin. Once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it, unless this is it. May be repeated."""
        self._is_stopped = True
        self._signal.set()
        if self._thread is not current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped:
            self._clock.wait(self._signal, self._clock.monotonic_ms() + BETWEEN_LOOKS_MS)
            if not self._is_stopped:
                self._look()
