"""Threads, locks and counters of java.lang and java.util.concurrent."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Generic, TypeVar

from pyjms.errors import IllegalArgumentException
from pyjms.porting.java.collections import function_of
from pyjms.porting.java.errors import (
    CancellationException,
    ExecutionException,
    IllegalMonitorStateException,
    IllegalThreadStateException,
    InterruptedException,
    RejectedExecutionException,
    TimeoutException,
)
from pyjms.porting.java.numbers import as_int, as_long
from pyjms.spi.clock import SystemClock

__all__ = [
    "AtomicBoolean",
    "AtomicNumber",
    "AtomicReference",
    "Condition",
    "CountDownLatch",
    "ExecutorService",
    "Future",
    "Lock",
    "Semaphore",
    "Thread",
    "ThreadLocal",
    "Timer",
    "add_shutdown_hook",
    "current_thread",
    "notify_all",
    "run",
    "sleep",
    "synchronized",
    "wait",
    "was_interrupted",
]

_T = TypeVar("_T")

_UNNAMED = count()
_CLOCK = SystemClock()


def _monotonic() -> float:
    return _CLOCK.monotonic_ms() / 1000


_MONITOR = "_java_monitor"
_MONITORS: dict[int, tuple[Any, threading.Condition]] = {}
"""The monitors of objects without attributes, such as lists, and of classes; each keeps its object."""


def _monitor(holder: Any) -> threading.Condition:
    """Return the lock of an object; a dictionary's ``setdefault`` is atomic for threads."""
    attributes = getattr(holder, "__dict__", None)
    # A thread that holds a Java monitor may enter it again.
    made = threading.Condition(threading.RLock())
    if isinstance(attributes, dict):
        # Made in any case and then offered: two threads may be first at once, and both must get the same lock.
        return attributes.setdefault(_MONITOR, made)  # type: ignore[no-any-return]
    # The table keeps the object alive: otherwise its id could be reused.
    return _MONITORS.setdefault(id(holder), (holder, made))[1]


@contextmanager
def synchronized(holder: Any) -> Iterator[None]:
    """Hold an object's lock, as a ``synchronized`` block does."""
    with _monitor(holder):
        yield


def wait(holder: Any, timeout_ms: int = 0) -> None:
    """Wait until `notify_all` is called for the same object, whose lock this thread holds; 0: without a limit."""
    try:
        _monitor(holder).wait(timeout_ms / 1000 if timeout_ms else None)
    except RuntimeError:
        raise IllegalMonitorStateException("current thread is not owner") from None


def notify_all(holder: Any) -> None:
    """Wake all threads that wait for an object; ``notify`` does, too: Java's programs must wait in a loop in any case."""
    try:
        # `notify` wakes all, too: Java may choose any thread, and programs must wait in a loop for spurious wake-ups.
        _monitor(holder).notify_all()
    except RuntimeError:
        raise IllegalMonitorStateException("current thread is not owner") from None


def run(work: Any) -> Any:
    """Call ``run``, ``call`` or ``get`` of an object, or a function."""
    for name in ("run", "call", "get", "initialValue"):
        method = getattr(work, name, None)
        if method is not None:
            return method()
    return work()


_INTERRUPTED = "_java_interrupted"


def _interrupts(thread: threading.Thread) -> threading.Event:
    """Return the event that means that a thread was interrupted."""
    return thread.__dict__.setdefault(_INTERRUPTED, threading.Event())  # type: ignore[no-any-return]


def sleep(ms: int) -> None:
    """Sleep, until the thread is interrupted. Raises `InterruptedException`."""
    if ms < 0:
        raise IllegalArgumentException("timeout value is negative")
    interrupted = _interrupts(threading.current_thread())
    # An event in place of `time.sleep`, which cannot be interrupted.
    if interrupted.wait(ms / 1000):
        # Java clears the status when it throws InterruptedException.
        interrupted.clear()
        raise InterruptedException("sleep interrupted")


def current_thread() -> Thread:
    """Return the current thread."""
    return Thread.of(threading.current_thread())


def was_interrupted() -> bool:
    """Return whether this thread was interrupted, and clear the status."""
    interrupted = _interrupts(threading.current_thread())
    found = interrupted.is_set()
    interrupted.clear()
    return found


class Thread:
    """java.lang.Thread, around a Python thread; `work` has `run`, or is a function."""

    def __init__(self, work: Any = None, name: str | None = None) -> None:
        # `new Thread(name)` has the name as its only argument.
        if isinstance(work, str):
            work, name = None, work
        self.__work = work
        self.__thread = threading.Thread(target=self.__run, name=name or f"Thread-{next(_UNNAMED)}")

    @classmethod
    def of(cls, thread: threading.Thread) -> Thread:
        """Return the object of a running thread."""
        made = Thread()
        # A wrapper for a running thread, such as the main one: the inner threads are compared.
        made.__thread = thread
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thread) and self.__thread is other.__thread

    def __hash__(self) -> int:
        return hash(self.__thread)

    def interrupt(self) -> None:
        """Interrupt its `sleep`, the present one or the next."""
        _interrupts(self.__thread).set()

    def isInterrupted(self) -> bool:
        """Return whether it was interrupted."""
        return _interrupts(self.__thread).is_set()

    def isDaemon(self) -> bool:
        """Return whether it does not keep the program alive."""
        return self.__thread.daemon

    def getId(self) -> int:
        """Return its number."""
        # The main thread has the id 1 in the JDK.
        return 1 if self.__thread is threading.main_thread() else self.__thread.ident or 0

    def setPriority(self, priority: int) -> None:
        """Do nothing: Python's threads have no priority."""

    def __run(self) -> None:
        self.run()

    def run(self) -> None:
        """Do the work; subclasses of Thread override it."""
        if self.__work is not None:
            run(self.__work)

    def start(self) -> None:
        """Start it."""
        try:
            self.__thread.start()
        except RuntimeError:
            raise IllegalThreadStateException from None

    def join(self, timeout_ms: int = 0) -> None:
        """Wait until the work is done; 0: without a limit."""
        # Java's `join` returns at once for a thread that was not started; Python's raises.
        if self.__thread.ident is not None:
            self.__thread.join(timeout_ms / 1000 if timeout_ms else None)

    def isAlive(self) -> bool:
        """Return whether it was started and is not done."""
        return self.__thread.is_alive()

    def getName(self) -> str:
        """Return its name."""
        return "main" if self.__thread is threading.main_thread() else self.__thread.name

    def setName(self, name: str) -> None:
        """Set its name."""
        self.__thread.name = name

    def setDaemon(self, daemon: bool) -> None:
        """Set whether it is a daemon, which does not keep the program alive."""
        self.__thread.daemon = daemon


class CountDownLatch:
    """java.util.concurrent.CountDownLatch."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._changed = threading.Condition()

    def countDown(self) -> None:
        """Count down by one, unless it is zero already."""
        with self._changed:
            # Below zero Java's latch stays at zero.
            self._count = max(0, self._count - 1)
            if not self._count:
                self._changed.notify_all()

    def getCount(self) -> int:
        """Return the count."""
        return self._count

    def await_(self, seconds: float | None = None) -> bool:
        """Wait until the count is zero, and return whether it is; None: without a limit."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, seconds)


class AtomicReference(Generic[_T]):
    """java.util.concurrent.atomic.AtomicReference."""

    def __init__(self, value: _T = None) -> None:  # type: ignore[assignment]
        self._value = value
        self._lock = threading.Lock()

    def get(self) -> _T:
        """Return the value."""
        return self._value

    def set(self, value: _T) -> None:
        """Set the value."""
        self._value = value

    def getAndSet(self, value: _T) -> _T:
        """Set the value, and return the one before."""
        with self._lock:
            old, self._value = self._value, value
            return old

    def compareAndSet(self, expected: _T, value: _T) -> bool:
        """Set the value if it is `expected`, and return whether it was."""
        with self._lock:
            if not self._is(expected):
                return False
            self._value = value
            return True

    def _is(self, expected: _T) -> bool:
        # References are compared by identity, as in Java; numbers override this.
        return self._value is expected

    def toString(self) -> str:
        """Return the text of the value."""
        from pyjms.porting.java.strings import text

        return text(self._value)


class AtomicBoolean(AtomicReference[bool]):
    """java.util.concurrent.atomic.AtomicBoolean."""

    def __init__(self, value: bool = False) -> None:
        super().__init__(value)


class AtomicNumber(AtomicReference[int]):
    """AtomicInteger, and with 64 bits AtomicLong."""

    def __init__(self, value: int = 0, bits: int = 32) -> None:
        super().__init__(value)
        # Java's counters wrap around at 32 or 64 bits.
        self._cut: Callable[[int], int] = as_int if bits == 32 else as_long

    def addAndGet(self, by: int) -> int:
        """Add, and return the sum."""
        with self._lock:
            self._value = self._cut(self._value + by)
            return self._value

    def getAndAdd(self, by: int) -> int:
        """Add, and return the former value."""
        # Computed from the sum, as `addAndGet` holds the lock; wrapping undoes an overflow.
        return self._cut(self.addAndGet(by) - by)

    def incrementAndGet(self) -> int:
        """Add one, and return the sum."""
        return self.addAndGet(1)

    def decrementAndGet(self) -> int:
        """Subtract one, and return the result."""
        return self.addAndGet(-1)

    def getAndIncrement(self) -> int:
        """Add one, and return the former value."""
        return self.getAndAdd(1)

    def getAndDecrement(self) -> int:
        """Subtract one, and return the former value."""
        return self.getAndAdd(-1)

    def _is(self, expected: int) -> bool:
        # Python's integers beyond 256 are different objects with one value.
        return self._value == expected

    def update(self, change: Any) -> int:
        """Set a function's result for the value, and return it."""
        with self._lock:
            self._value = self._cut(function_of(change)(self._value))
            return self._value

    def accumulate(self, other: int, combine: Any) -> int:
        """Set a function's result for the value and another one, and return it."""
        return self.update(lambda value: function_of(combine)(value, other))


class Future(Generic[_T]):
    """java.util.concurrent.Future, and CompletableFuture: the result of work."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_done = False
        self._is_cancelled = False
        self._value: _T | None = None
        self._error: BaseException | None = None

    def complete(self, value: _T | None) -> bool:
        """Set the value, unless there is one, and return whether it was set."""
        return self._finish(value, None)

    def fail(self, error: BaseException) -> bool:
        """Set the error."""
        return self._finish(None, error)

    def _finish(self, value: _T | None, error: BaseException | None) -> bool:
        with self._changed:
            # Under the lock, so that of a value, an error and a cancellation only the first counts.
            if self._is_done:
                return False
            self._is_done, self._value, self._error = True, value, error
            self._changed.notify_all()
            return True

    def get(self, seconds: float | None = None) -> _T | None:
        """Wait for the value and return it. Raises `ExecutionException`, `TimeoutException` or `CancellationException`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_done, seconds):
                raise TimeoutException
            # A cancelled future is done as well, so this is checked before its value.
            if self._is_cancelled:
                raise CancellationException
            if self._error is not None:
                # The error of the work is the cause, as in Java, and not raised itself.
                raise ExecutionException(self._error)
            return self._value

    def wait(self) -> None:
        """Wait until the work is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_done)

    def isDone(self) -> bool:
        """Return whether the work is done."""
        return self._is_done

    def isCancelled(self) -> bool:
        """Return whether it was cancelled before it was done."""
        return self._is_cancelled

    def cancel(self, interrupt: bool = False) -> bool:
        """Cancel the work, unless it is done; started work continues."""
        with self._changed:
            if self._is_done:
                return False
            self._is_done = self._is_cancelled = True
            self._changed.notify_all()
            return True


class ExecutorService:
    """java.util.concurrent.ExecutorService with a fixed number of threads, also ScheduledExecutorService."""

    def __init__(self, threads: int) -> None:
        self._most = threads
        self._changed = threading.Condition()
        self._waiting: deque[Any] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False
        self._stopped = threading.Event()
        self._pool = next(_POOLS)

    def execute(self, work: Any) -> None:
        """Do the work on a thread, in the order of the calls."""
        with self._changed:
            if self._closed:
                raise RejectedExecutionException("the executor was shut down")
            self._waiting.append(work)
            if len(self._waiting) > self._idle and len(self._threads) < self._most:
                name = f"pool-{self._pool}-thread-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._work, name=name)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def submit(self, work: Any) -> Future[Any]:
        """Do the work on a thread, and return its future."""
        future: Future[Any] = Future()

        def done() -> None:
            if not future.isDone():
                try:
                    future.complete(run(work))
                except Exception as error:
                    future.fail(error)

        self.execute(done)
        return future

    def invokeAll(self, works: Any) -> list[Future[Any]]:
        """Do all work, and return the futures when it is done."""
        futures = [self.submit(each) for each in works]
        for each in futures:
            each.wait()
        return futures

    def schedule(self, work: Any, seconds: float, again: float | None = None, rate: bool = False) -> Future[Any]:
        """Do work after a delay, once or periodically: after each end, or at a rate."""
        future: Future[Any] = Future()

        def done() -> None:
            wait_s = seconds
            # The event ends the pause at once on `shutdownNow`; a cancelled future ends it at its next time.
            while not self._stopped.wait(max(0.0, wait_s)) and not future.isDone():
                begun = _monotonic()
                try:
                    value = run(work)
                except Exception as error:
                    # A periodic task that raises is not run again, as in ScheduledExecutorService.
                    future.fail(error)
                    return
                if again is None:
                    future.complete(value)
                    return
                # By default `shutdown` ends periodic tasks, and lets delayed ones run once.
                if self._closed:
                    return
                # At a fixed rate the work's duration counts for the pause; otherwise it does not.
                wait_s = again - (_monotonic() - begun if rate else 0)

        thread = threading.Thread(target=done, name=f"pool-{self._pool}-scheduled")
        self._threads.append(thread)
        thread.start()
        return future

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                # Queued work is done even after `shutdown`: only an empty queue ends the thread.
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._idle -= 1
                if not self._waiting:
                    return
                work = self._waiting.popleft()
            try:
                run(work)
            except Exception as error:
                # The thread continues with the next work: Java shows the error and replaces the thread.
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))

    def shutdown(self) -> None:
        """Accept no more work, and end when all is done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def shutdownNow(self) -> list[Any]:
        """Accept no more work, interrupt running work, and return the work not started."""
        with self._changed:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        self._stopped.set()
        # Interrupts only end a `sleep`: Python cannot stop a thread that computes.
        for thread in self._threads:
            _interrupts(thread).set()
        return left

    def isShutdown(self) -> bool:
        """Return whether `shutdown` was called."""
        return self._closed

    def isTerminated(self) -> bool:
        """Return whether it was shut down, and all is done."""
        return self._closed and not any(thread.is_alive() for thread in self._threads)

    def awaitTermination(self, seconds: float) -> bool:
        """Wait until all is done after `shutdown`, at most `seconds`, and return whether it is."""
        end = _monotonic() + seconds
        for thread in self._threads:
            # `Long.MAX_VALUE` is a usual time-out in Java, which Python's `join` refuses.
            thread.join(max(0.0, min(end - _monotonic(), threading.TIMEOUT_MAX)))
        return self.isTerminated()


_POOLS = count(1)


class Lock:
    """java.util.concurrent.locks.ReentrantLock, with one condition."""

    def __init__(self, fair: bool = False) -> None:
        self._lock = threading.RLock()

    def lock(self) -> None:
        """Take the lock."""
        self._lock.acquire()

    def unlock(self) -> None:
        """Release the lock. Raises `IllegalMonitorStateException`."""
        try:
            self._lock.release()
        except RuntimeError:
            raise IllegalMonitorStateException from None

    def tryLock(self, seconds: float = 0) -> bool:
        """Take the lock, if that is possible in time."""
        return self._lock.acquire(timeout=seconds) if seconds > 0 else self._lock.acquire(blocking=False)

    def newCondition(self) -> Condition:
        """Return a condition of this lock."""
        return Condition(threading.Condition(self._lock))


class Condition:
    """java.util.concurrent.locks.Condition."""

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition

    def await_(self, seconds: float | None = None) -> bool:
        """Wait for a signal."""
        return self._condition.wait(seconds)

    def signal(self) -> None:
        """Wake one waiting thread."""
        self._condition.notify()

    def signalAll(self) -> None:
        """Wake all waiting threads."""
        self._condition.notify_all()


class Semaphore:
    """java.util.concurrent.Semaphore."""

    def __init__(self, permits: int) -> None:
        self._permits = permits
        self._changed = threading.Condition()

    def acquire(self, permits: int = 1) -> None:
        """Take permits, once there are enough."""
        self.tryAcquire(None, permits)

    def tryAcquire(self, seconds: float | None = 0, permits: int = 1) -> bool:
        """Take permits, if there are enough in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._permits >= permits, seconds):
                return False
            self._permits -= permits
            return True

    def release(self, permits: int = 1) -> None:
        """Release permits."""
        with self._changed:
            self._permits += permits
            self._changed.notify_all()

    def availablePermits(self) -> int:
        """Return the number of permits."""
        return self._permits


class Timer:
    """java.util.Timer: delayed tasks, on one thread each."""

    def __init__(self, daemon: bool = False) -> None:
        # Tasks of a timer have a thread each here, so one that takes long does not delay the others.
        self._executor = ExecutorService(1)

    def schedule(self, task: Any, delay_ms: int, period_ms: int | None = None) -> None:
        """Run a task after a delay, and perhaps periodically."""
        self._executor.schedule(task, delay_ms / 1000, None if period_ms is None else period_ms / 1000)

    def cancel(self) -> None:
        """Cancel all tasks."""
        self._executor.shutdownNow()


class ThreadLocal(Generic[_T]):
    """java.lang.ThreadLocal."""

    def __init__(self, initial: Any = None) -> None:
        self._initial = initial
        self._values = threading.local()

    def get(self) -> _T | None:
        """Return this thread's value."""
        if not hasattr(self._values, "value"):
            self._values.value = None if self._initial is None else run(self._initial)
        return self._values.value  # type: ignore[no-any-return]

    def set(self, value: _T) -> None:
        """Set this thread's value."""
        self._values.value = value

    def remove(self) -> None:
        """Clear this thread's value."""
        # The attributes of a `threading.local` are those of the present thread alone.
        self._values.__dict__.clear()


def add_shutdown_hook(thread: Thread) -> None:
    """Run a thread when the program ends, also by SIGTERM: ``Runtime.addShutdownHook``."""
    import atexit
    import signal

    atexit.register(thread.run)
    # A handler of the program stays; without one, SIGTERM ends Python without running `atexit`.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
