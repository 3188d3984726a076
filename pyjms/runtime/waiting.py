"""The one place where the client's side waits and starts threads.

A thread waits for messages (`Inbox`), for deliveries to end (`DeliveryGate`), for another thread that closes
(`CloseOnce`), and between attempts that fail (`Rest`). Threads serve listeners and connection consumers (`WorkThread`) and exception
listeners (`EventThread`): all are daemons and named ``pyjms-…``; each ends when what it serves is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread, current_thread, get_ident
from typing import Final

from pyjms.errors import JMSException
from pyjms.spi.clock import BackOff, Clock, Delays, Signal
from pyjms.spi.errors import ResourceError
from pyjms.spi.interrupts import deferred

_log = logging.getLogger("pyjms.runtime")

_BACK_OFF: Final = BackOff(first_ms=100, most_ms=1000, jitter=0.0)

_SILENCE_MS: Final = 60_000  # the same problem is not logged again for this time

_DIFFERENT: Final = 8  # the most problems remembered


class Rest:
    """The successive failures of one consumer, and the pauses after them."""

    __slots__ = ("_clock", "_delays", "_logged", "until_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # `float()` is 0.0: these pauses have no random part.
        self._delays = Delays(_BACK_OFF, float)
        self.until_ms: float | None = None
        """When the pause ends, by the monotonic clock; None: there is none."""
        self._logged: dict[str, float] = {}
        """The problems logged, with the time from which on each may be logged again."""

    @property
    def lasts(self) -> bool:
        """Whether there is a pause now."""
        return self.until_ms is not None and self._clock.monotonic_ms() < self.until_ms

    def earlier(self, than_ms: float | None) -> float | None:
        """Return the end of the pause, or the other time if that is earlier."""
        return than_ms if self.until_ms is None or (than_ms is not None and than_ms < self.until_ms) else self.until_ms

    def begin(self) -> None:
        """Begin the pause after a failure: twice as long as the one before, up to a second."""
        self.until_ms = self._clock.monotonic_ms() + self._delays.next_ms()

    def tell(self, problem: str, error: Exception) -> None:
        """Log a warning of a failure, unless the same one was logged in the last minute. Raises nothing, even if the application's logging does."""
        text = f"{problem}: {error}"
        now_ms = self._clock.monotonic_ms()
        if self._logged.get(text, now_ms) > now_ms:
            return
        # Texts of errors may hold ids, so that each is a new one: the memory of them needs a limit.
        if len(self._logged) >= _DIFFERENT:
            self._logged = {}
        self._logged[text] = now_ms + _SILENCE_MS
        with suppress(Exception):
            _log.warning("%s", text)

    def end(self) -> None:
        """End the failures, after a success; it is logged if failures were. Raises nothing."""
        if self.until_ms is not None:
            self._delays.reset()
            self.until_ms = None
        if self._logged:
            self._logged = {}
            with suppress(Exception):
                _log.warning("a consumer that had failed gets its messages again")


class Inbox:
    """The place where one thread waits for work. Its members are those of other objects, as the wait is a hot path."""

    __slots__ = ("wait", "wake")

    def __init__(self, wait: Callable[[Signal, float | None], bool]) -> None:
        """`wait`: `Clock.wait`, or a provider's in its place (`ProviderSession.waiter`)."""
        signal = Signal()
        self.wake = signal.set
        """The `on_ready` of the SPI: any thread, cheap, never blocking."""
        self.wait: Callable[[float | None], bool] = partial(wait, signal)
        """Return True when woken, False when the clock reached that time (None: never)."""


class DeliveryGate:
    """The gate that all messages of a session pass, so that `stop` and `close` can shut it (JMS 1.1 §4.3.4, §4.3.5).

    A thread polls its provider under `lock` and only while `is_open`. A thread that runs a listener is registered between
    `enter` and `leave`, one that blocks in ``receive`` is the `receiver`; `wait_until_quiet` waits for such threads. No
    client code runs under `lock`.
    """

    __slots__ = ("_busy", "_waiting", "is_open", "lock", "receiver", "receives_for")

    def __init__(self) -> None:
        self.lock = Lock()
        self.is_open = False
        self._waiting: set[Signal] = set()
        self._busy: dict[int, object] = {}  # thread that runs a listener → its consumer
        self.receiver: int | None = None
        """The thread that blocks in ``receive``, if any: at most one (JMS 1.1 §4.4.6). Guarded by `lock`."""
        self.receives_for: object = None
        """The consumer that it blocks for."""

    def set_open(self, is_open: bool) -> None:
        """Let messages through, or stop doing so; messages that have passed are not affected. The caller holds `lock`."""
        assert self.lock.locked()
        self.is_open = is_open
        self._wake_waiting()

    def wait_until_open(self, is_over: Callable[[], bool]) -> None:
        """Wait until messages may pass, or until `is_over` returns, at a change of the gate, that they never will."""
        self._wait_for(lambda: self.is_open or is_over())

    def enter(self, consumer: object) -> None:
        """Register the calling thread as running a listener of `consumer`. The caller holds `lock`."""
        assert self.lock.locked()
        self._busy[get_ident()] = consumer

    def leave(self) -> None:
        """Remove the calling thread's registration."""
        with self.lock:
            self._busy.pop(get_ident(), None)
            if self._waiting:
                self._wake_waiting()

    def end_receive(self) -> None:
        """End the calling thread's registration as the receiver, if it is. The caller holds `lock`."""
        if self.receiver == get_ident():
            self.receiver = self.receives_for = None
            if self._waiting:
                self._wake_waiting()

    def runs_listener_here(self) -> bool:
        """Return whether the calling thread runs a listener of this session."""
        # The lock is not needed: a thread's own number is entered and removed by that thread alone.
        return get_ident() in self._busy

    def runs_listener_elsewhere(self) -> bool:
        """Return whether another thread runs a listener of this session. The caller holds `lock`."""
        assert self.lock.locked()
        me = get_ident()
        return any(thread != me for thread in self._busy)

    def wait_until_quiet(self, *, listeners_only: bool = False, consumer: object = None) -> None:
        """Wait until no other thread is busy: with `consumer` if given, in a listener only if asked.

        A blocked ``receive`` ends as the closing thread wakes it; a listener ends when it returns, and JMS 1.1
        §4.3.4 requires the wait for that.
        """
        me = get_ident()

        def is_quiet() -> bool:
            others = [busy_with for thread, busy_with in self._busy.items() if thread != me]
            if not listeners_only and self.receiver not in (None, me):
                others.append(self.receives_for)
            return not any(consumer is None or busy_with is consumer for busy_with in others)

        self._wait_for(is_quiet)

    def _wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until `is_so` returns True; it is called under the lock at each change."""
        # No `threading.Condition` waits here: one whose wait is interrupted releases a lock that it
        # does not have (decision 0104).
        signal = Signal()
        try:
            while True:
                with self.lock:
                    if is_so():
                        return
                    # The signal is registered in the same hold of the lock that found it not so: any later change
                    # raises it.
                    self._waiting.add(signal)
                deferred.wait(_wait_for, signal, None)
        finally:
            self._waiting.discard(signal)  # without the lock, for which an interrupted thread would wait

    def _wake_waiting(self) -> None:
        """Wake the waiting threads to check again. The lock is held."""
        # The tuple is a copy, as a thread whose wait ends takes its signal out without the lock.
        for signal in tuple(self._waiting):
            signal.set()


def _wait_for(signal: Signal, _: float | None) -> bool:
    return signal.wait(-1)


class CloseOnce:
    """The close of an object: one thread does it, other closing threads wait until it is done.

    A close that fails with a `JMSException` is done. After any other exception the next call does it again.
    """

    __slots__ = ("_is_done", "_lock", "_thread", "_waiting")

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread: int | None = None
        """The thread that closes."""
        self._is_done = False
        self._waiting: set[Signal] = set()

    def do(self, work: Callable[[], None]) -> None:
        """Do `work`, or wait for the thread that does it; in that very thread return at once.

        In the main thread a signal ends the wait, and its handler runs there.
        """
        me, signal = get_ident(), Signal()
        while True:
            with self._lock:
                # The closing thread gets here again when a listener's or signal's code closes the same
                # object: it must not wait for itself.
                if self._is_done or self._thread == me:
                    return
                if self._thread is None:
                    self._thread = me
                    break
                self._waiting.add(signal)
            deferred.wait(_wait_for, signal, None)
        try:
            work()
            self._is_done = True
        # A JMSException is an answer: the object is closed as far as it can be. An interrupt leaves
        # the close to the next call.
        except JMSException:
            self._is_done = True
            raise
        finally:
            with self._lock:
                self._thread = None
                waiting, self._waiting = self._waiting, set()
            for signal in waiting:
                signal.set()


_ERRORS_MAX = 7
"""The most unexpected errors in a row; then the thread waits until it is woken, instead of looping."""


def start_thread(name: str, work: Callable[[], object]) -> None:
    """Run `work`, which raises nothing, on a new thread. Raises `ResourceError` when no thread can be started for the moment."""
    _start(Thread(target=work, name=name, daemon=True))


def _start(thread: Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        raise ResourceError(f"{error}: raise the limit of threads (ulimit -u), or have fewer sessions") from error


class WorkThread:
    """A thread that is woken, or whose time is reached, and then works until there is nothing to do.

    `work` does one piece and returns whether it did any. It runs on this thread only: it is the session's own thread of
    JMS 1.1 §4.4.6, which serializes the session's listeners. An error of `work` does not end the thread: the following work
    would not be done.
    """

    __slots__ = ("_ended", "_inbox", "_on_error", "_thread", "_work", "until_ms", "wake")

    def __init__(
        self, name: str, clock: Clock, work: Callable[[], bool], on_error: Callable[[Exception], object]
    ) -> None:
        """`on_error` is called with the errors of `work`, on the same thread."""
        self._work = work
        self.until_ms: float | None = None
        """Set by work that is to be called again, at the latest, when the monotonic clock shows this."""
        self._on_error = on_error
        self._inbox = Inbox(clock.wait)
        self._ended = False
        self.wake = self._inbox.wake
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start; `wake` may be called before. Raises `ResourceError` when no thread can be started for the moment."""
        _start(self._thread)

    def is_current(self) -> bool:
        """Return whether the caller runs on this thread."""
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
            # The time is cleared before the work, which sets a new one if it is to be called again.
            until_ms, self.until_ms = self.until_ms, None
            self._inbox.wait(until_ms)
            errors = 0
            while not self._ended and errors < _ERRORS_MAX:
                try:
                    if not self._work():
                        break
                    errors = 0
                except Exception as error:  # the top of a thread: report any error and continue
                    errors += 1
                    _log_at_the_top("an unexpected error on %s", self._thread.name)
                    self._tell(error)

    def _tell(self, error: Exception) -> None:
        try:
            self._on_error(error)
        except Exception:  # the top of a thread: a failing report must not end it either
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
        """Run `callback` soon; dropped after `end`. Never blocks. If no thread can be started, it waits for the next call."""
        with self._lock:
            if self._ended:
                return
            self._callbacks.put(callback)
            if self._thread is None:
                self._begin()

    def end(self) -> None:
        """Let the thread end after the queued callbacks; does not wait for it, as a callback may be the caller."""
        with self._lock:
            self._ended = True
            # Callbacks for which no thread could be started get another attempt.
            if self._thread is None and not self._callbacks.empty():
                self._begin()
            self._callbacks.put(None)

    def _begin(self) -> None:
        thread = Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        # The callback waits for the next call: the thread that reports a lost connection is about
        # to reconnect, and must not be stopped.
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
