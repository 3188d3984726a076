"""The configuration thread of a broker, or of a virtual host: every change below it is made there, so none needs a lock.

Calls from the thread itself run at once; others wait for their turn, until a time limit or the end of the thread.
While a configuration thread waits for another one, it runs the calls that configuration threads make to it, so that two that
call each other cannot deadlock. Such a call sees the object as it is published, in the middle of the other change.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread, current_thread
from typing import Any, Final, TypeVar

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.errors import ClosedError, ResourceError
from pyjms_provider.model.errors import ConfigurationTimeoutError

_T = TypeVar("_T")

_log = logging.getLogger(__name__)
_PATIENCE_MS: Final = 60_000


class Call(Future[_T]):
    """A call that is queued for a configuration thread."""

    def __init__(self, job: Callable[[], _T], *, is_crossing: bool) -> None:
        super().__init__()
        self._job = job
        self.is_crossing = is_crossing
        """Whether another configuration thread waits for it."""
        self._lock = Lock()
        self._is_begun = False

    def run(self) -> None:
        """Run the call, unless it was withdrawn. Its error goes to its caller."""
        if not self._begin():
            return
        try:
            result = self._job()
        # SystemExit too: it would end the configuration thread, and every later call would wait for ever.
        except (Exception, SystemExit) as error:
            self.set_exception(error)
        else:
            self.set_result(result)

    def withdraw(self, error: BaseException) -> bool:
        """Fail the call with `error`; return False if it has begun already."""
        if not self._begin():
            return False
        self.set_exception(error)
        return True

    def _begin(self) -> bool:
        """Return True once: to the thread that makes the call, or to the caller that gives up, never to both."""
        with self._lock:
            was_begun, self._is_begun = self._is_begun, True
        return not was_begun


class ConfigurationThread:
    """One thread that makes changes, one after the other. It starts with the first call, and ends with `stop`."""

    def __init__(self, name: str, clock: Clock, *, patience_ms: int = _PATIENCE_MS) -> None:
        """`patience_ms`: how long a caller waits for a change."""
        self._name = name
        self._clock = clock
        self._patience_ms = patience_ms
        self._lock = Lock()
        self._calls: deque[Call[Any]] = deque()
        self._signal = Signal()
        self._thread: Thread | None = None
        self._is_stopped = False

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return self._thread is current_thread()

    def call(self, job: Callable[[], _T], *, however_long: bool = False) -> _T:
        """Run `job` on this thread, wait for it, and return its result or raise its error.

        `however_long`: wait without a time limit, as opening a large store may take long. Raises `ClosedError` when
        the thread has ended; `ConfigurationTimeoutError` when the job did not begin in time; `ResourceError` as `submit`.
        """
        return job() if self.is_current else self.wait_for(self.submit(job), however_long=however_long)

    def submit(self, job: Callable[[], _T]) -> Call[_T]:
        """Queue `job` after the jobs submitted before, without waiting.

        Raises `ClosedError`, and `ResourceError` if no thread can be started: then nothing is changed, and the next call tries again.
        """
        call = Call(job, is_crossing=_running() is not None)
        with self._lock:
            if self._is_stopped:
                raise ClosedError(f"{self._name} has ended, so nothing there can be changed any more")
            if self._thread is None:
                self._start()
            self._calls.append(call)
        # Outside the lock, which the thread takes as soon as it is woken.
        self._signal.set()
        return call

    def _start(self) -> None:
        """Start the thread. The lock is held. Raises `ResourceError`."""
        thread = Thread(target=self._run, name=f"pyjms configuration {self._name}", daemon=True)
        # Before the start: the first job may ask which thread it is on.
        _threads[thread] = self
        self._thread = thread
        try:
            thread.start()
        except RuntimeError as error:
            self._thread = None
            del _threads[thread]
            raise ResourceError(
                f"{self._name} cannot be changed now: {error}; end some threads, and try again"
            ) from error

    def wait_for(self, call: Call[_T], *, however_long: bool = False) -> _T:
        """Wait for a submitted call, and return its result. Raises as `call`."""
        own = _running()
        # The thread's own signal: a crossing call wakes it as well, not only the end of the call that it waits for.
        signal = Signal() if own is None else own._signal  # noqa: SLF001 - of the same class
        call.add_done_callback(lambda _: signal.set())
        until_ms = None if however_long else self._clock.monotonic_ms() + self._patience_ms
        while not call.done():
            # Two configuration threads that call each other would wait for ever otherwise.
            if own is not None and own._serve_crossing():  # noqa: SLF001
                continue
            if not self._clock.wait(signal, until_ms) and not call.done():
                self._give_up(call)
        if own is not None:
            own._signal.set()  # noqa: SLF001 - what came meanwhile is its own again
        return call.result()

    def _give_up(self, call: Call[Any]) -> None:
        late = ConfigurationTimeoutError(
            f"{self._name} did not come to the change within {self._patience_ms} ms; it was left undone: try again"
        )
        # The call may have begun just now; what it does cannot be taken back, and the caller must know that.
        if not call.withdraw(late):
            raise ConfigurationTimeoutError(
                f"{self._name} has been at the change for {self._patience_ms} ms, and goes on; look later what came of it"
            )

    def _serve_crossing(self) -> bool:
        """Run one call that another configuration thread waits for; return whether there was one."""
        with self._lock:
            found = next((call for call in self._calls if call.is_crossing), None)
            if found is not None:
                self._calls.remove(found)
        if found is None:
            return False
        found.run()
        return True

    def stop(self) -> None:
        """End the thread and wait for it, unless this is it; calls that wait fail with `ClosedError`. May be repeated."""
        with self._lock:
            self._is_stopped = True
            left = list(self._calls)
            self._calls.clear()
            thread = self._thread
        # Without the lock: the waiters are woken here, and one of them may call at once.
        for call in left:
            call.withdraw(ClosedError(f"{self._name} has ended before the change was made"))
        self._signal.set()
        # A job on this thread may stop it, as when a virtual host deletes itself; joining itself would fail.
        if thread is not None and not self.is_current:
            thread.join()

    def _run(self) -> None:
        try:
            while (call := self._next()) is not None:
                call.run()
                # The call holds references to its objects, and the next call may come much later.
                del call
        finally:
            _threads.pop(current_thread(), None)

    def _next(self) -> Call[Any] | None:
        while True:
            with self._lock:
                if self._calls:
                    return self._calls.popleft()
                if self._is_stopped:
                    return None
            # Without the lock, which `submit` takes to add a call. A signal that came meanwhile ends the wait at once.
            self._clock.wait(self._signal, None)


_threads: Final[dict[Thread, ConfigurationThread]] = {}


def _running() -> ConfigurationThread | None:
    """Return the configuration thread that the caller runs on."""
    return _threads.get(current_thread())
