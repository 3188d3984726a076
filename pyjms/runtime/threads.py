"""The one place of the client's side that starts threads: listeners, exception listeners, connection consumers.

All threads are daemons and named ``pyjms-…``; each ends when what it serves is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread, current_thread

from pyjms.runtime.waiting import Inbox
from pyjms.spi.clock import Clock
from pyjms.spi.errors import ResourceError

_log = logging.getLogger("pyjms.runtime")

_ERRORS_MAX = 7
"""So many unexpected errors may come one after the other; then the thread waits until it is woken, not to run in a circle."""


def start_thread(name: str, work: Callable[[], object]) -> None:
    """Have a new thread do `work`, which raises nothing. Raises `ResourceError` when the system has no more threads for the moment."""
    _start(Thread(target=work, name=name, daemon=True))


def _start(thread: Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        raise ResourceError(f"{error}: raise the limit of threads (ulimit -u), or have fewer sessions") from error


class WorkThread:
    """A thread that is woken, or whose time has come, and then works until there is nothing to do.

    `work` does one piece and says whether it did any. It runs on this thread only: it is the session's own thread of
    JMS 1.1 §4.4.6, which serializes the session's listeners. One that raises does not end the thread: nobody else would do
    the work that follows.
    """

    __slots__ = ("_ended", "_inbox", "_on_error", "_thread", "_work", "until_ms", "wake")

    def __init__(
        self, name: str, clock: Clock, work: Callable[[], bool], on_error: Callable[[Exception], object]
    ) -> None:
        """`on_error` hears of what `work` raises, on the same thread."""
        self._work = work
        self.until_ms: float | None = None
        """Set by the work that is to be called again, at the latest, when the monotonic clock shows this."""
        self._on_error = on_error
        self._inbox = Inbox(clock.wait)
        self._ended = False
        self.wake = self._inbox.wake
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; `wake` may be called before. Raises `ResourceError` when the system has no more threads for the moment."""
        _start(self._thread)

    def is_current(self) -> bool:
        """Say whether the caller runs on this thread."""
        return current_thread() is self._thread

    def end(self) -> None:
        """Let the thread end after its present piece of work, and wait for that unless called on it."""
        self.end_soon()
        if not self.is_current():
            self._thread.join()

    def end_soon(self) -> None:
        """Let the thread end after its present piece of work, without waiting: that piece may be client code."""
        self._ended = True
        self.wake()

    def _run(self) -> None:
        while not self._ended:
            until_ms, self.until_ms = self.until_ms, None
            self._inbox.wait(until_ms)
            errors = 0
            while not self._ended and errors < _ERRORS_MAX:
                try:
                    if not self._work():
                        break
                    errors = 0
                except Exception as error:  # the top of a thread: whatever it was, say so and go on
                    errors += 1
                    _log_at_the_top("an unexpected error on %s", self._thread.name)
                    self._tell(error)

    def _tell(self, error: Exception) -> None:
        try:
            self._on_error(error)
        except Exception:  # the top of a thread: who cannot be told must not end it either
            _log_at_the_top("nobody could be told of an error on %s", self._thread.name)


class EventThread:
    """Runs callbacks one after the other on a thread of its own, started with the first one (JMS 1.1 §4.3.8)."""

    __slots__ = ("_callbacks", "_ended", "_lock", "_name", "_thread")

    def __init__(self, name: str) -> None:
        self._name = name
        self._callbacks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._ended = False

    def call(self, callback: Callable[[], None]) -> None:
        """Have `callback` run soon; dropped after `end`. Never blocks.

        Where the system has no more threads for the moment, it waits for the next call: who reports a lost connection is about
        to make it anew, and must come to that.
        """
        with self._lock:
            if self._ended:
                return
            self._callbacks.put(callback)
            if self._thread is None:
                self._begin()

    def end(self) -> None:
        """Let the thread end after the callbacks that wait; does not wait for it, as a callback may be the caller."""
        with self._lock:
            self._ended = True
            if self._thread is None and not self._callbacks.empty():
                self._begin()
            self._callbacks.put(None)

    def _begin(self) -> None:
        thread = Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            _log.warning("the exception listener hears of %d problems later: %s", self._callbacks.qsize(), error)
            return
        self._thread = thread

    def _run(self) -> None:
        while (callback := self._callbacks.get()) is not None:
            try:
                callback()
            except BaseException:  # an application's callback: its errors are its own, SystemExit too
                _log_at_the_top("an exception listener raised on %s", self._name)


def _log_at_the_top(message: str, name: str) -> None:
    """Log the present error; a filter or handler of the application's logging that raises must not end a thread."""
    with suppress(Exception):
        _log.exception(message, name)
