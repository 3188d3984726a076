"""One who makes, alters or destroys the queue ``orders`` while another does."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from typing import Any

from pyjms.spi.errors import ProviderError
from pyjms_provider.core.host.virtual_host import KeyedLock, VirtualHost

ORDERS = "orders"


class _WatchedTurn:
    """A turn that tells that somebody waits for it."""

    def __init__(self, turn: Lock) -> None:
        self.is_waiting = False
        self._turn = turn

    def __enter__(self) -> None:
        if not self._turn.acquire(blocking=False):
            self.is_waiting = True
            self._turn.acquire()

    def __exit__(self, *_: object) -> None:
        self._turn.release()


class _WatchedTurns(KeyedLock):
    def __init__(self) -> None:
        super().__init__()
        self.watched: dict[str, Any] = {}

    def of(self, name: str) -> Any:
        return self.watched.get(name) or super().of(name)


class Rival:
    """Calls something on a thread of its own while another call is under way, which may keep it waiting."""

    def __init__(self, host: VirtualHost, work: Callable[[], object]) -> None:
        self.error: ProviderError | None = None
        self._host = host
        self._work = work
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._work()
        except ProviderError as error:
            self.error = error

    def begin(self) -> None:
        """Return when it has ended, or waits for its turn."""
        turns = _WatchedTurns()
        turns.watched[ORDERS] = turn = _WatchedTurn(self._host._turns.of(ORDERS))
        self._host._turns = turns  # for the rival: the other one has its turn already, or needs none
        self._thread.start()
        for _ in range(10_000):
            self._thread.join(0.001)
            if turn.is_waiting or not self._thread.is_alive():
                return
        raise AssertionError("it neither ends nor waits for its turn")

    def wait(self) -> ProviderError | None:
        """Return how it ended."""
        self._thread.join(10)
        assert not self._thread.is_alive(), "it waits for ever"
        return self.error
