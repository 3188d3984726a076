"""Tasks of which one runs at a time, and which a seed chooses: the code that runs in them is the product's own.

A task gives the turn away where its host would wait: for a signal or a time of the simulated clock, for a thread that ends, for an answer from the
network. Whoever gives it away chooses the next one. Time moves on when nobody can run.

A host that is paused gets no turns, though its clock goes on. The tasks of a host that is killed end where they stand.

A task runs on a thread of a pool, as starting a thread takes longer than most tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from random import Random
from threading import Lock, Thread
from typing import Any, Final

from pyjms.spi.clock import Signal

_NEVER: Final = float("inf")
START_MS: Final = 1_700_000_000_000
_READY: Final = -1
_RUNNING: Final = 0


class KilledError(BaseException):
    """Ends a task whose host was killed. No `Exception`, so that no code survives by catching it."""


class Waiting:
    """Tasks that wait for the same change."""

    def __init__(self) -> None:
        self._signals: list[Signal] = []

    def wait(self, scheduler: Scheduler, until_ms: float | None = None) -> None:
        """Give the turn away until somebody tells of a change, or the time has come."""
        signal = Signal()
        self._signals.append(signal)
        scheduler.wait(signal, until_ms)

    def tell(self) -> None:
        """Tell of a change."""
        signals, self._signals = self._signals, []
        for signal in signals:
            signal.set()


class Host:
    """A machine with one process of the product, or with the database's server."""

    def __init__(self, name: str, *, ahead_ms: int = 0) -> None:
        """`ahead_ms`: by how much its clock on the wall is ahead."""
        self.name = name
        self.ahead_ms = ahead_ms
        self.is_dead = False
        self.is_paused = False
        self.is_cut = False
        """Whether it does not reach the database."""
        self.slow_ms = 0
        """How much longer each statement, and each call over a link, takes."""
        self.reached = Waiting()
        """The tasks that wait until it reaches the database again."""
        self.late: list[tuple[float, int, Task, int]] = []
        """Times that have come, or will, for its tasks while it is paused."""

    def reconnect(self) -> None:
        """Let it reach the database."""
        self.is_cut = False
        self.reached.tell()


class _Worker(Thread):
    """A thread that runs one task after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.baton = Lock()
        self.baton.acquire()
        self.task: Task | None = None

    def run(self) -> None:
        while True:
            self.baton.acquire()
            if self.task is None:
                return
            self.task.run(self)


_idle: list[_Worker] = []
_present: Task | None = None
"""The task that has the turn."""


def end_threads() -> None:
    """End the threads on which tasks have run."""
    while _idle:
        worker = _idle.pop()
        worker.task = None
        worker.baton.release()
        worker.join()


def present_task() -> Task:
    """Return the task that has the turn."""
    assert _present is not None, "the product runs in tasks only"
    return _present


class Task:
    """A thread of a host. It is made, started and joined as `threading.Thread` is, by another task."""

    baton: Lock

    def __init__(
        self,
        *,
        target: Callable[..., object],
        args: Sequence[Any] = (),
        name: str = "",
        daemon: bool | None = None,
        host: Host | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        """`host`, `scheduler`: None: those of the task which makes it."""
        self.name = name
        self.host: Host = host or present_task().host
        self.scheduler: Scheduler = scheduler or present_task().scheduler
        self.is_over = False
        self.signal: Signal | None = None
        self.waits = _RUNNING
        """The number of its present wait, or `_READY`, or `_RUNNING`."""
        self.number = 0
        """Which task of its world it is."""
        self._joining = Waiting()
        self._act = target
        self._arguments = args

    def start(self) -> None:
        """Let it take part."""
        if self.host.is_dead:
            self.is_over = True
            return
        worker = _idle.pop() if _idle else None
        if worker is None:
            worker = _Worker()
            worker.start()
        worker.task, self.baton = self, worker.baton
        self.scheduler.enter(self)

    def run(self, worker: _Worker) -> None:
        """Run the thread's function, on the first turn."""
        try:
            if not self.host.is_dead:
                self._act(*self._arguments)
        except KilledError:
            pass
        except BaseException as error:
            self.scheduler.fail(error)
        finally:
            self.is_over = True
            self._joining.tell()
            _idle.append(worker)
            self.scheduler.leave(self)

    def raised(self) -> None:
        """Let it go on, as the signal is raised that it waits for."""
        if self.waits != _READY:
            self.scheduler.make_ready(self)

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for so many seconds of simulated time."""
        scheduler = self.scheduler
        if not self.is_over:
            self._joining.wait(scheduler, None if timeout is None else scheduler.now_ms + timeout * 1000)


_number = attrgetter("number")


class _Ring:
    """Lets the tasks go on that wait for a signal."""

    __slots__ = ("tasks",)

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def __call__(self) -> None:
        for task in self.tasks:
            task.raised()


class Scheduler:
    """The turns of all tasks of one world, and its time."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = 0.0
        self.tasks: dict[Task, None] = {}
        self.turns = 0
        self.failure: BaseException | None = None
        self.closing: dict[object, Task] = {}
        """What tasks are closing at this moment."""
        self._ready: list[Task] = []
        """The tasks that could go on, unless their hosts are paused."""
        self._times: list[tuple[float, int, Task, int]] = []
        """A heap of the times at which waits end, each with the number of that wait."""
        self._numbers = count(1)
        """Of tasks and waits."""
        self._dying: deque[Task] = deque()
        """The tasks of dead hosts: they end before anybody else goes on."""
        self._root: Task | None = None
        self._end = Lock()

    def play(self, act: Callable[[], None]) -> None:
        """Run a function as the first task, and return when all tasks have ended. Raises what the function raises, or else what another task has."""
        self._root = root = Task(target=act, name="root", host=Host("root"), scheduler=self)
        self._end.acquire()
        root.start()
        self._resume(self._choose())
        self._end.acquire()
        if self.failure is not None:
            raise self.failure

    def fail(self, error: BaseException) -> None:
        """Note an error that ends the world: its first task raises it."""
        if self.failure is None:
            self.failure = error

    # Hosts

    def kill(self, host: Host) -> None:
        """Have the tasks of a host end."""
        host.is_dead, host.is_paused = True, False
        host.late.clear()
        self._dying.extend(task for task in self.tasks if task.host is host)

    def unpause(self, host: Host) -> None:
        """Let the tasks of a host go on."""
        host.is_paused = False
        for each in host.late:
            heappush(self._times, each)
        host.late.clear()

    # The present task

    def sleep(self, ms: float) -> None:
        """Give the turn away, for so many milliseconds at least."""
        self.wait(None, self.now_ms + ms)

    def wait(self, signal: Signal | None, until_ms: float | None) -> bool:
        """Give the turn away until the signal is raised, or the time has come; return whether it was raised."""
        task = present_task()
        if task.host.is_dead:
            raise KilledError
        if signal is None:
            self._give_turn(task, until_ms)
            return False
        while not signal.wait(0):
            ring = signal.ring
            if ring is None:
                ring = signal.ring = _Ring()
            assert isinstance(ring, _Ring), "no task waits in a system call"
            ring.tasks.append(task)
            try:
                self._give_turn(task, until_ms)
            finally:
                ring.tasks.remove(task)
                if not ring.tasks:
                    signal.ring = None
            # Another task that waits for it may have lowered it again.
            if until_ms is not None and until_ms <= self.now_ms:
                return signal.wait(0)
        return True

    def _give_turn(self, task: Task, until_ms: float | None) -> None:
        """Raises `KilledError`; at the first task, what has ended the world."""
        if until_ms is None or until_ms > self.now_ms:
            number = task.waits = next(self._numbers)
            if until_ms is not None:
                heappush(self._times, (until_ms, number, task, number))
        else:
            self.make_ready(task)
        chosen = self._choose()
        if chosen is not task:
            self._resume(chosen)
            task.baton.acquire()
        if task.host.is_dead:
            raise KilledError
        if task is self._root and self.failure is not None:
            raise self.failure

    def make_ready(self, task: Task) -> None:
        """Let a task go on when it is chosen."""
        task.waits = _READY
        self._ready.append(task)

    def enter(self, task: Task) -> None:
        """Let a task take part."""
        task.number = next(self._numbers)
        self.tasks[task] = None
        self.make_ready(task)

    def leave(self, task: Task) -> None:
        """Pass the turn on, as a task has ended."""
        del self.tasks[task]
        if not self.tasks:
            self._resume(None)
        else:
            self._resume(self._choose())

    def end_others(self) -> None:
        """Let the tasks of dead hosts end; all hosts but that of the caller are dead."""
        task = present_task()
        while len(self.tasks) > 1:
            self.make_ready(task)
            self._resume(self._begun(next(each for each in self.tasks if each is not task)))
            task.baton.acquire()

    def _resume(self, task: Task | None) -> None:
        global _present  # noqa: PLW0603 the tasks of one world run at a time
        _present = task
        if task is None:
            self._end.release()
        else:
            task.baton.release()

    def _begun(self, task: Task) -> Task:
        if task.waits == _READY:
            self._ready.remove(task)
        task.waits = _RUNNING
        return task

    def _choose(self) -> Task:
        self.turns += 1
        root = self._root
        if self.failure is not None and root is not None and not root.is_over:
            return self._begun(root)
        while self._dying:
            task = self._dying.popleft()
            if not task.is_over:
                return self._begun(task)
        while True:
            if self._times and self._times[0][0] <= self.now_ms:
                self._note_times()
            ready = [task for task in self._ready if not task.host.is_paused]
            if len(ready) > 1:
                # The product may have raised their signals in the order of a set, which no seed decides.
                ready.sort(key=_number)
                return self._begun(ready[int(self.random.random() * len(ready))])
            if ready:
                return self._begun(ready[0])
            self._note_times()
            assert self._times, "all tasks wait for each other"
            self.now_ms = self._times[0][0]

    def _note_times(self) -> None:
        """Make those tasks ready whose time has come; leave the next time of a task that may go on at the top of the heap."""
        times, now_ms = self._times, self.now_ms
        while times:
            until_ms, _, task, number = times[0]
            if task.waits != number:
                heappop(times)
            elif task.host.is_paused:
                task.host.late.append(heappop(times))
            elif until_ms <= now_ms:
                heappop(times)
                self.make_ready(task)
            else:
                return


class SimulatedClock:
    """The clock of a host. Implements `pyjms.spi.clock.Clock`."""

    def __init__(self, scheduler: Scheduler, host: Host) -> None:
        self._scheduler = scheduler
        self._host = host

    def time_ms(self) -> int:
        """Return the time on the host's wall."""
        return START_MS + int(self._scheduler.now_ms) + self._host.ahead_ms

    def monotonic_ms(self) -> float:
        """Return the time since the world began."""
        return self._scheduler.now_ms

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        """Give the turn away."""
        return self._scheduler.wait(signal, until_ms)


class Mutex:
    """A lock that a task waits for by giving its turn away."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting = Waiting()
        self.is_taken = False

    def __enter__(self) -> None:
        while self.is_taken:
            self._waiting.wait(self._scheduler)
        self.is_taken = True

    def __exit__(self, *_: object) -> None:
        self.is_taken = False
        self._waiting.tell()


class KeyedMutex:
    """A mutex for each key, in place of the product's `KeyedLock`, which is held during writes."""

    def __init__(self) -> None:
        self._scheduler = present_task().scheduler
        self._mutexes: dict[Hashable, Mutex] = {}

    def of(self, key: Hashable) -> Mutex:
        """Return the mutex of a key."""
        return self._mutexes.setdefault(key, Mutex(self._scheduler))
