"""One who makes, alters or destroys the queue ``orders`` while another does."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

from pyjms.spi.errors import ProviderError
from pyjms_provider.core.virtual_host import VirtualHost


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
        turn = self._host._turns.of("orders")
        self._thread.start()
        for _ in range(10_000):
            self._thread.join(0.001)
            if turn._waiting or not self._thread.is_alive():
                return
        raise AssertionError("it neither ends nor waits for its turn")

    def wait(self) -> ProviderError | None:
        """Return how it ended."""
        self._thread.join(10)
        assert not self._thread.is_alive(), "it waits for ever"
        return self.error
