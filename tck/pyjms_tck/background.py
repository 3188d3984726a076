"""Threads of conformance tests: their results and errors are returned to the test, which never waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, TypeVar

__all__ = ["Background"]

_Result = TypeVar("_Result")


class Background(Generic[_Result]):
    """One call that runs on its own thread from the construction on."""

    def __init__(self, work: Callable[[], _Result], patience_s: float) -> None:
        """patience_s: the default time limit of `result`, in seconds."""
        self._work = work
        self._patience_s = patience_s
        self._ended = Event()
        self._results: list[_Result] = []
        self._error: BaseException | None = None
        # A daemon: a provider that blocks it for ever must not block the suite.
        self._thread = Thread(target=self._run, name="pyjms-tck-background", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:  # passed to the test, which decides
            self._error = error
        finally:
            self._ended.set()

    @property
    def is_running(self) -> bool:
        """Whether the call has neither returned nor raised."""
        return not self._ended.is_set()

    def result(self, timeout_s: float | None = None) -> _Result:
        """Return what the call returned, or raise what it raised. Raises AssertionError when it takes too long."""
        patience_s = self._patience_s if timeout_s is None else timeout_s
        assert self._ended.wait(patience_s), f"the call on another thread has not returned after {patience_s} s"
        if self._error is not None:
            raise self._error
        return self._results[0]
