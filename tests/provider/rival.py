"""One who makes, alters or destroys a queue while another does."""

from __future__ import annotations

from collections.abc import Callable

from pyjms.spi.errors import ProviderError
from tests.pyjms.runtime.helpers import Call


class Rival:
    """Calls something on a thread of its own while another call is under way, which may keep it waiting."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._call: Call[ProviderError | None] | None = None

    def _run(self) -> ProviderError | None:
        try:
            self._work()
        except ProviderError as error:
            return error
        return None

    def begin(self) -> None:
        """Return when it has ended, or waits for its turn."""
        self._call = Call(self._run)
        self._call.is_blocked()

    def wait(self) -> ProviderError | None:
        """Return how it ended."""
        assert self._call is not None
        return self._call.result()
