"""The one timer thread of a broker: it removes expired messages that no consumer receives, and rolls back
branches of distributed transactions after their time-out.

The thread starts when the first task arrives, waits by the broker's clock until the next one is due,
and ends with the broker. Times are by the wall clock, which may be set forward while the thread waits, or go on while the
machine sleeps: the thread checks it again every few seconds. When it was put back, all tasks are run once, as periodic tasks
would otherwise not run again until it has caught up.

With a clock that a test moves in steps, due tasks run within each step, on the thread of the test.
"""

from __future__ import annotations

import logging
from heapq import heapify, heappop, heappush
from itertools import count
from threading import Lock, RLock, Thread, current_thread
from typing import Final
from weakref import ReferenceType, ref

from pyjms.spi.clock import Clock, Signal, SteppedClock
from pyjms_provider.core.scheduled import Scheduled

__all__ = ["ScheduledTasks"]

_LOOK_MS: Final = 10_000
"""The longest wait, and so the longest delay of a task when the clock is set forward; also the delay after a fault."""
_PATIENCE_S: Final = 30.0  # how long a step of the clock waits for visits in progress, which may wait for a store
_TRY_S: Final = 0.01
_SPARE: Final = 64  # so many needless visits are not worth removing

_log = logging.getLogger(__name__)


class ScheduledTasks:
    """Calls `run_due` of objects that have something due, at the times for which they asked.

    Of each it notes the next time alone, as `run_due` returns the one after: a queue asks with each of its messages. The
    references are weak: a subscription that has ended is not kept until the last of its messages would have expired.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._lock = Lock()
        self._signal = Signal()
        self._visits: list[tuple[int, int, ReferenceType[Scheduled]]] = []
        self._planned: dict[ReferenceType[Scheduled], int] = {}
        """The next visit of each object, by weak reference; the heap also has later visits that have become needless."""
        self._most = _SPARE
        """With more visits than that, needless ones are removed."""
        self._numbers = count()
        self._thread: Thread | None = None
        self._is_refused = False
        """Whether the last start of the thread failed."""
        self._stopped = False
        self._visiting = RLock()
        """Held during visits: a step of the clock waits for those that the thread has begun. One visit may move the clock."""
        if isinstance(clock, SteppedClock):
            clock.add_due_work(self._run_due)

    def schedule(self, visited: Scheduled, at_ms: int) -> None:
        """Call `visited.run_due` at `at_ms`, in milliseconds since 1970 UTC, if it still exists. Any thread; never blocks.

        If no thread can be started, the log says so, and the next call tries again: the caller's own work is complete,
        such as that of a sender whose message is stored, and must not fail by this.
        """
        # Weak: a subscription that has ended is not kept until the last of its messages expires.
        key = ref(visited)
        refused: RuntimeError | None = None
        with self._lock:
            # Any thread may ask, also while the broker ends.
            if self._stopped:
                return
            planned_ms = self._planned.get(key)
            is_next = False
            # Only an earlier visit is noted; `run_due` returns the later one.
            if planned_ms is None or planned_ms > at_ms:
                self._plan(key, at_ms)
                is_next = self._visits[0][2] == key and self._visits[0][0] == at_ms
            if self._thread is None:  # or it could not be started when the visit was planned
                refused = self._start()
        # Without the lock, and only if the thread would wake too late otherwise: each message with a time comes here.
        if is_next:
            self._signal.set()
        if refused is not None:
            _log.warning("%s: nothing expires or becomes due: %s; it is tried again", self._name, refused)

    def _plan(self, key: ReferenceType[Scheduled], at_ms: int) -> None:
        """Note the next visit. The lock is held."""
        self._planned[key] = at_ms
        heappush(self._visits, (at_ms, next(self._numbers), key))
        # The limit grows with the remaining visits, so that tidying costs each visit a constant part.
        if len(self._visits) > self._most:
            planned = {each: planned_ms for each, planned_ms in self._planned.items() if each() is not None}
            visits = [(planned_ms, next(self._numbers), each) for each, planned_ms in planned.items()]
            heapify(visits)
            most = 2 * len(visits) + _SPARE
            self._planned, self._visits, self._most = planned, visits, most

    def _start(self) -> RuntimeError | None:
        """Start the thread; return the error to log, once, if it cannot be started. The lock is held."""
        # A daemon: no thread of the broker keeps the program alive.
        thread = Thread(target=self._run, name=f"pyjms housekeeping {self._name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            is_known, self._is_refused = self._is_refused, True
            return None if is_known else error
        self._thread = thread
        self._is_refused = False
        return None

    def stop(self) -> None:
        """End the thread and wait for it, unless this is it. May be repeated."""
        with self._lock:
            self._stopped = True
            self._visits.clear()
            self._planned.clear()
            thread = self._thread
        self._signal.set()
        # A visit may stop the broker, on this very thread, which cannot wait for itself.
        if thread is not None and thread is not current_thread():
            thread.join()
        with self._visiting:
            pass  # wait for the visits of a step of the clock, on another thread

    def forget(self) -> None:
        """Stop all visits, in a forked child, which has no other thread and where locks may be held for ever."""
        # New locks: those of the parent may have been held by threads that are not in the child.
        self._lock, self._visiting, self._stopped = Lock(), RLock(), True
        self._visits, self._planned = [], {}

    def _run(self) -> None:
        seen_ms = self._clock.time_ms()
        while True:
            before_ms, seen_ms = seen_ms, self._clock.time_ms()
            # The wall clock was put back: tasks that run every few seconds would wait until it has caught up.
            if seen_ms < before_ms - _LOOK_MS:
                self._visit(seen_ms, is_everybody=True)
            with self._lock:
                is_over = self._stopped
                next_ms = self._visits[0][0] if self._visits else None
            if is_over:
                return
            if next_ms is None:
                self._clock.wait(self._signal, None)
                continue
            # In this order: when time moves between the two readings, the wait ends too early, never too late.
            now_ms = self._clock.monotonic_ms()
            remaining_ms = next_ms - self._clock.time_ms()
            if remaining_ms > 0:
                self._clock.wait(self._signal, now_ms + min(remaining_ms, _LOOK_MS))
            self._visit(self._clock.time_ms())

    def _run_due(self) -> bool:
        """Run all due tasks, as the clock has moved; return False if the thread is in a visit that waits by the clock."""
        left_s = _PATIENCE_S
        # With a limit: a visit that waits by this very clock would never end, and neither would the step of the clock.
        while not self._visiting.acquire(timeout=_TRY_S):
            thread, clock = None if self._thread is None else self._thread.ident, self._clock
            left_s -= _TRY_S
            if left_s <= 0 or (thread is not None and isinstance(clock, SteppedClock) and clock.is_waiting(thread)):
                return False
        try:
            while self._is_due(self._clock.time_ms()):
                self._visit(self._clock.time_ms())
        finally:
            self._visiting.release()
        return True

    def _is_due(self, now_ms: int) -> bool:
        with self._lock:
            return bool(self._visits) and self._visits[0][0] <= now_ms

    def _visit(self, now_ms: int, *, is_everybody: bool = False) -> None:
        """Visit all objects that are due at `now_ms`, or all there are."""
        with self._visiting:
            self._visit_due(now_ms, is_everybody=is_everybody)

    def _visit_due(self, now_ms: int, *, is_everybody: bool) -> None:
        due: dict[Scheduled, None] = {}
        with self._lock:
            while self._visits and (is_everybody or self._visits[0][0] <= now_ms):
                at_ms, _, key = heappop(self._visits)
                if self._planned.get(key) != at_ms:
                    continue  # an earlier visit was requested
                # Removed now, as a later request may be about work that this visit does not see.
                del self._planned[key]
                if (visited := key()) is not None:
                    due[visited] = None
        # Without the lock: a visit takes locks of queues, and asks for further visits.
        for visited in due:
            try:
                again_ms = visited.run_due(now_ms)
            except Exception:
                # The top of a thread: one fault must not stop the visits to all others.
                _log.exception("%s: purging %r failed", self._name, visited)
                again_ms = now_ms + _LOOK_MS  # its work is still due
            if again_ms is not None:
                self.schedule(visited, again_ms)
