"""Threads, locks and counters of java.lang and java.util.concurrent."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Generic, TypeVar

from pyjms.porting.java.errors import IllegalStateException
from pyjms.porting.java.numbers import as_int, as_long

__all__ = [
    "AtomicBoolean",
    "AtomicNumber",
    "AtomicReference",
    "CountDownLatch",
    "ExecutorService",
    "Thread",
    "notify_all",
    "run",
    "synchronized",
    "wait",
]

T = TypeVar("T")

_UNNAMED = count()
_MONITOR = "_java_monitor"
_MONITORS: dict[int, tuple[Any, threading.Condition]] = {}
"""The monitors of objects without attributes, such as lists, and of classes; each keeps its object."""


def _monitor(holder: Any) -> threading.Condition:
    """Return the lock of an object; ``setdefault`` of a dictionary is one step for all threads."""
    attributes = getattr(holder, "__dict__", None)
    made = threading.Condition(threading.RLock())
    if isinstance(attributes, dict):
        return attributes.setdefault(_MONITOR, made)  # type: ignore[no-any-return]
    return _MONITORS.setdefault(id(holder), (holder, made))[1]


@contextmanager
def synchronized(holder: Any) -> Iterator[None]:
    """Hold the lock that belongs to an object, as a ``synchronized`` block does."""
    with _monitor(holder):
        yield


def wait(holder: Any, timeout_ms: int = 0) -> None:
    """Wait until `notify_all` is called for the same object, whose lock this thread holds; 0: without end."""
    _monitor(holder).wait(timeout_ms / 1000 if timeout_ms else None)


def notify_all(holder: Any) -> None:
    """Wake all who wait for an object; ``notify`` wakes all, too: who waits in a loop, as it must, sees no difference."""
    _monitor(holder).notify_all()


def run(work: Any) -> Any:
    """Call ``run`` or ``call`` of an object, or a function."""
    for name in ("run", "call"):
        method = getattr(work, name, None)
        if method is not None:
            return method()
    return work()


class Thread:
    """java.lang.Thread, around a thread of Python's; `work` has `run`, or is a function."""

    def __init__(self, work: Any = None, name: str | None = None) -> None:
        if isinstance(work, str):
            work, name = None, work
        self.__work = work
        self.__thread = threading.Thread(target=self.__run, name=name or f"Thread-{next(_UNNAMED)}")

    def __run(self) -> None:
        self.run()

    def run(self) -> None:
        """Do the work; classes that extend Thread define it anew."""
        if self.__work is not None:
            run(self.__work)

    def start(self) -> None:
        """Begin."""
        self.__thread.start()

    def join(self, timeout_ms: int = 0) -> None:
        """Wait until the work is done; 0: without end."""
        if self.__thread.ident is not None:
            self.__thread.join(timeout_ms / 1000 if timeout_ms else None)

    def isAlive(self) -> bool:
        """Return whether it was started and is not done."""
        return self.__thread.is_alive()

    def getName(self) -> str:
        """Return its name."""
        return self.__thread.name

    def setName(self, name: str) -> None:
        """Set its name."""
        self.__thread.name = name

    def setDaemon(self, daemon: bool) -> None:
        """Say that it does not keep the program alive."""
        self.__thread.daemon = daemon


class CountDownLatch:
    """java.util.concurrent.CountDownLatch."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._changed = threading.Condition()

    def countDown(self) -> None:
        """Count down by one, unless it is zero already."""
        with self._changed:
            self._count = max(0, self._count - 1)
            if not self._count:
                self._changed.notify_all()

    def getCount(self) -> int:
        """Return the count."""
        return self._count

    def await_(self, seconds: float | None = None) -> bool:
        """Wait until the count is zero, and return whether it is; None: without end."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, seconds)


class AtomicReference(Generic[T]):
    """java.util.concurrent.atomic.AtomicReference."""

    def __init__(self, value: T = None) -> None:  # type: ignore[assignment]
        self._value = value
        self._lock = threading.Lock()

    def get(self) -> T:
        """Return the value."""
        return self._value

    def set(self, value: T) -> None:
        """Set the value."""
        self._value = value

    def getAndSet(self, value: T) -> T:
        """Set the value, and return the one before."""
        with self._lock:
            old, self._value = self._value, value
            return old

    def toString(self) -> str:
        """Return the text of the value."""
        from pyjms.porting.java.strings import text

        return text(self._value)


class AtomicBoolean(AtomicReference[bool]):
    """java.util.concurrent.atomic.AtomicBoolean."""

    def __init__(self, value: bool = False) -> None:
        super().__init__(value)

    def compareAndSet(self, expected: bool, value: bool) -> bool:
        """Set the value if it is `expected`, and return whether it was."""
        with self._lock:
            if self._value is not expected:
                return False
            self._value = value
            return True


class AtomicNumber(AtomicReference[int]):
    """AtomicInteger, and with 64 bits AtomicLong."""

    def __init__(self, value: int = 0, bits: int = 32) -> None:
        super().__init__(value)
        self._cut: Callable[[int], int] = as_int if bits == 32 else as_long

    def addAndGet(self, by: int) -> int:
        """Add, and return the sum."""
        with self._lock:
            self._value = self._cut(self._value + by)
            return self._value

    def getAndAdd(self, by: int) -> int:
        """Add, and return what was before."""
        return self._cut(self.addAndGet(by) - by)

    def incrementAndGet(self) -> int:
        """Add one, and return the sum."""
        return self.addAndGet(1)

    def decrementAndGet(self) -> int:
        """Take one away, and return the rest."""
        return self.addAndGet(-1)

    def getAndIncrement(self) -> int:
        """Add one, and return what was before."""
        return self.getAndAdd(1)

    def getAndDecrement(self) -> int:
        """Take one away, and return what was before."""
        return self.getAndAdd(-1)

    def compareAndSet(self, expected: int, value: int) -> bool:
        """Set the value if it is `expected`, and return whether it was."""
        with self._lock:
            if self._value != expected:
                return False
            self._value = value
            return True


class ExecutorService:
    """java.util.concurrent.ExecutorService with a fixed number of threads: ``execute``, ``submit`` without its result."""

    def __init__(self, threads: int) -> None:
        self._most = threads
        self._changed = threading.Condition()
        self._waiting: deque[Any] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def execute(self, work: Any) -> None:
        """Have a thread do the work, in the order of the calls."""
        with self._changed:
            if self._closed:
                raise IllegalStateException("RejectedExecutionException: the executor was shut down")
            self._waiting.append(work)
            if len(self._waiting) > self._idle and len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name=f"pool-thread-{len(self._threads) + 1}")
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._idle -= 1
                if not self._waiting:
                    return
                work = self._waiting.popleft()
            try:
                run(work)
            except Exception as error:
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))

    def shutdown(self) -> None:
        """Take no more work, and end when all is done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def isShutdown(self) -> bool:
        """Return whether `shutdown` was called."""
        return self._closed

    def awaitTermination(self, seconds: float) -> bool:
        """Wait until all is done after `shutdown`, at most so long, and return whether it is."""
        for thread in self._threads:
            thread.join(seconds / max(1, len(self._threads)))
        return self._closed and not any(thread.is_alive() for thread in self._threads)
