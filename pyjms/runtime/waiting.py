"""The one place where the client's side waits.

For messages (`Inbox`), until a time (`Deadline`), for deliveries to end (`DeliveryGate`), for another thread that closes (`CloseOnce`), and
between attempts that fail (`Rest`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock, get_ident
from typing import Final

from pyjms.errors import JMSException
from pyjms.spi.back_off import BackOff, Delays
from pyjms.spi.clock import Clock, Signal
from pyjms.spi.interrupts import deferred


class Deadline:
    """The moment when a call gives up, on the injected clock's monotonic scale."""

    __slots__ = ("until_ms",)

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        """`timeout_ms` is 0 for never (JMS 1.1 §4.5.1)."""
        self.until_ms = clock.monotonic_ms() + timeout_ms if timeout_ms else None


_log = logging.getLogger("pyjms.runtime")

_BACK_OFF: Final = BackOff(first_ms=100, most_ms=1000, jitter=0.0)

_SILENCE_MS: Final = 60_000  # so long the same is not said again

_DIFFERENT: Final = 8  # so many problems are remembered


class Rest:
    """The failures of one consumer, one after the other, and the pauses after them."""

    __slots__ = ("_clock", "_delays", "_said", "until_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._delays = Delays(_BACK_OFF, float)
        self.until_ms: float | None = None
        """When the pause ends, by the monotonic clock; None: there is none."""
        self._said: dict[str, float] = {}
        """What the log has heard, and when it may hear it again."""

    @property
    def lasts(self) -> bool:
        """Whether there is a pause now."""
        return self.until_ms is not None and self._clock.monotonic_ms() < self.until_ms

    def earlier(self, than_ms: float | None) -> float | None:
        """Return when the pause ends, or the other time if that comes first."""
        return than_ms if self.until_ms is None or (than_ms is not None and than_ms < self.until_ms) else self.until_ms

    def begin(self) -> None:
        """Hear of a failure: the pause is twice as long as the one before, up to a second."""
        self.until_ms = self._clock.monotonic_ms() + self._delays.next_ms()

    def tell(self, problem: str, error: Exception) -> None:
        """Warn of a failure, unless the log has heard of the same one in the last minute. Raises nothing, whatever the application's logging does."""
        text = f"{problem}: {error}"
        now_ms = self._clock.monotonic_ms()
        if self._said.get(text, now_ms) > now_ms:
            return
        if len(self._said) >= _DIFFERENT:
            self._said = {}
        self._said[text] = now_ms + _SILENCE_MS
        with suppress(Exception):
            _log.warning("%s", text)

    def end(self) -> None:
        """Hear that it worked; the log hears it, too, if it has heard of failures. Raises nothing."""
        if self.until_ms is not None:
            self._delays.reset()
            self.until_ms = None
        if self._said:
            self._said = {}
            with suppress(Exception):
                _log.warning("a consumer that had failed gets its messages again")


class Inbox:
    """Where one thread waits for work. Its members are those of others, as the wait is a hot path."""

    __slots__ = ("wait", "wake")

    def __init__(self, wait: Callable[[Signal, float | None], bool]) -> None:
        """`wait`: `Clock.wait`, or a provider's in its place (`ProviderSession.waiter`)."""
        signal = Signal()
        self.wake = signal.set
        """The `on_ready` of the SPI: any thread, cheap, never blocking."""
        self.wait: Callable[[float | None], bool] = partial(wait, signal)
        """Return True when woken, False when the clock reached that time (None: never)."""


class DeliveryGate:
    """Through it pass all messages of a session, so that `stop` and `close` can shut it (JMS 1.1 §4.3.4, §4.3.5).

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
        """Let messages through, or no more of them; what passed before goes on. The caller holds `lock`."""
        assert self.lock.locked()
        self.is_open = is_open
        self._tell_change()

    def wait_until_open(self, is_over: Callable[[], bool]) -> None:
        """Wait until messages may pass, or until `is_over` says, at a change of the gate, that they never will."""
        self._wait_for(lambda: self.is_open or is_over())

    def enter(self, consumer: object) -> None:
        """Register the calling thread as running a listener of `consumer`. The caller holds `lock`."""
        assert self.lock.locked()
        self._busy[get_ident()] = consumer

    def leave(self) -> None:
        """Take the calling thread's registration back."""
        with self.lock:
            self._busy.pop(get_ident(), None)
            if self._waiting:
                self._tell_change()

    def end_receive(self) -> None:
        """Have the calling thread be the receiver no longer, if it is. The caller holds `lock`."""
        if self.receiver == get_ident():
            self.receiver = self.receives_for = None
            if self._waiting:
                self._tell_change()

    def runs_listener_here(self) -> bool:
        """Say whether the calling thread runs a listener of this session."""
        return get_ident() in self._busy

    def runs_listener_elsewhere(self) -> bool:
        """Say whether another thread runs a listener of this session. The caller holds `lock`."""
        assert self.lock.locked()
        me = get_ident()
        return any(thread != me for thread in self._busy)

    def wait_until_quiet(self, *, listeners_only: bool = False, consumer: object = None) -> None:
        """Wait until no other thread is busy: with `consumer` if given, in a listener only if asked.

        A blocked ``receive`` ends because who shuts down wakes it; a listener ends when it returns, for which JMS 1.1
        §4.3.4 makes us wait.
        """
        me = get_ident()

        def is_quiet() -> bool:
            others = [busy_with for thread, busy_with in self._busy.items() if thread != me]
            if not listeners_only and self.receiver not in (None, me):
                others.append(self.receives_for)
            return not any(consumer is None or busy_with is consumer for busy_with in others)

        self._wait_for(is_quiet)

    def _wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until `is_so` says so, which is asked under the lock at each change.

        Without a `threading.Condition`: one whose wait is interrupted lets go of a lock that it does not have (decision 0104).
        """
        signal = Signal()
        try:
            while True:
                with self.lock:
                    if is_so():
                        return
                    self._waiting.add(signal)
                deferred.wait(_wait_for, signal, None)
        finally:
            self._waiting.discard(signal)  # one call, and without the lock, for which an interrupted thread would wait

    def _tell_change(self) -> None:
        """Have those look who wait. The lock is held."""
        for signal in tuple(self._waiting):
            signal.set()


def _wait_for(signal: Signal, _: float | None) -> bool:
    return signal.wait(-1)


class CloseOnce:
    """The close of an object: one thread does it, other threads that close wait until it is done.

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
        except JMSException:
            self._is_done = True
            raise
        finally:
            with self._lock:
                self._thread = None
                waiting, self._waiting = self._waiting, set()
            for signal in waiting:
                signal.set()
