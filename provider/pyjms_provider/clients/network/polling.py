"""Who reads a socket: its I/O thread, or an application's thread while it waits."""

from __future__ import annotations

import select
import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, get_ident
from typing import Final

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.interrupts import deferred
from pyjms_provider.forks import let_go


class Wakeup:
    """A pair of sockets that ends another thread's system call."""

    def __init__(self) -> None:
        """Raises `OSError` when the process may open no more files."""
        self._reader, self._writer = socket.socketpair()
        # A full pair must not block the thread that signals; it may be the handler of a signal.
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.fileno = self._reader.fileno()
        """The file descriptor to poll."""

    def set(self) -> None:
        """End the call. Any thread, and signal handlers: never blocks, and takes no lock."""
        with suppress(OSError):  # full: a wakeup is pending already; closed: the connection has ended
            self._writer.send(b"x")

    def clear(self) -> None:
        """Consume pending wakeups; call this before reading the state that has changed."""
        with suppress(BlockingIOError):
            self._reader.recv(4096)

    def close(self) -> None:
        """Close both ends."""
        self._writer.close()
        self._reader.close()

    def forget(self) -> None:
        """Release the pair, in a child of this process."""
        let_go(self._writer.fileno())


class Poller:
    """The poll of the I/O thread: its socket and its wakeup. Any thread may call `poll_reads`, also during the poll."""

    def __init__(self, fileno: int, wakeup: int) -> None:
        self._fileno = fileno
        self._wakeup = wakeup
        self._lock = Lock()
        self._reads, self._writes = True, False
        # epoll(7): another thread may change the set while this one sleeps on it, and the change counts at once.
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._selector = selectors.DefaultSelector() if self._epoll is None else None
        if self._epoll is not None:
            self._epoll.register(wakeup, select.EPOLLIN)
            self._epoll.register(fileno, select.EPOLLIN)
        if self._selector is not None:  # the socket is not shared then, so that this thread always reads
            self._selector.register(wakeup, selectors.EVENT_READ)
            self._selector.register(fileno, selectors.EVENT_READ)

    def poll_reads(self, reads: bool) -> None:
        """Set whether to poll for data."""
        self._set(reads=reads)

    def poll_writes(self, writes: bool) -> None:
        """Set whether to poll for room to write."""
        if writes != self._writes:
            self._set(writes=writes)

    def _set(self, *, reads: bool | None = None, writes: bool | None = None) -> None:
        # `close` takes the lock, too: the set cannot be closed between the check and the change. The other flag is read under it
        # as well: an application's thread changes one while the I/O thread changes the other.
        with self._lock:
            reads = self._reads = self._reads if reads is None else reads
            writes = self._writes = self._writes if writes is None else writes
            if self._epoll is not None and not self._epoll.closed:
                mask = (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if writes else 0)
                self._epoll.modify(self._fileno, mask)
            elif self._selector is not None:
                self._selector.modify(self._fileno, selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0))

    def wait(self, timeout_s: float | None) -> tuple[bool, bool]:
        """Return whether it was woken, and whether the socket can be read, or has ended."""
        if self._epoll is not None:
            found = dict(self._epoll.poll(timeout_s))
            # EPOLLHUP and EPOLLERR count as readable: the read finds the cause.
            return self._wakeup in found, bool(found.get(self._fileno, 0) & ~select.EPOLLOUT)
        assert self._selector is not None
        ready = {key.fd: mask for key, mask in self._selector.select(timeout_s)}
        return self._wakeup in ready, bool(ready.get(self._fileno, 0) & selectors.EVENT_READ)

    def close(self) -> None:
        """Close the epoll or selector."""
        with self._lock:  # another thread's `poll_reads` then finds it closed
            if self._epoll is not None:
                self._epoll.close()
        if self._selector is not None:
            self._selector.close()


# Corked frames, and a socket that no thread reads any more, wait for two ticks at most (decision 0603).
TICK_S: Final = 0.004
# poll(2) takes an int of milliseconds: a longer wait is made of several.
_LONGEST_POLL_MS: Final = 1e8
_END_S: Final = 5.0
# `select` has no POLLIN on Windows, where the socket is never shared.
_IN: Final = getattr(select, "POLLIN", 0)


class SocketReader:
    """Lets one thread at a time read a socket: its I/O thread, or an application's thread while it waits. Any thread.

    A thread that waits for an answer polls the socket itself, and handles all that arrives as the I/O thread would (decision 0603). The I/O
    thread does not poll the socket meanwhile. It gets the socket back two ticks after the last read at the latest, or at once if another
    thread waits for a message.
    """

    def __init__(self, *, is_shared: bool, wake: Callable[[], None], poll_reads: Callable[[bool], None]) -> None:
        """`is_shared`: whether applications' threads may read this kind of socket; `wake` wakes the I/O thread; `poll_reads` switches its
        poll of the socket on or off, at once, also during the poll.
        """
        self._wake = wake
        self._poll_reads = poll_reads
        # Two locks: the right is held as long as a thread reads, the lock of the flags only while they change.
        self._right = Lock()
        self._lock = Lock()
        self._wakeup = Wakeup()
        # Without epoll the I/O thread cannot be told to leave the socket alone while it sleeps, so it always reads.
        self._poll = select.poll() if is_shared and hasattr(select, "epoll") else None
        self._fileno = -1
        self._read: Callable[[], None] = _nothing
        self._is_lendable = False
        """Whether applications' threads may read: reading has begun, and neither ended nor failed."""
        self.reader: int | None = None
        """The thread that reads now; it must not wait for data that only it can read."""
        self._waiting: set[Signal] = set()
        self._uses = self._seen_uses = 0
        self._is_lent = False
        self.is_ticking = False
        """Whether the I/O thread looks every `TICK_S` if the socket is still used."""
        self.failure: Exception | None = None
        """The error of a read by an application's thread: the I/O thread raises it, as only that ends the connection."""

    def begin(self, fileno: int, read: Callable[[], None]) -> None:
        """Let threads read from now on: `read` handles the data that is there, and raises an error to end the connection."""
        self._fileno, self._read = fileno, read
        if self._poll is not None:
            self._poll.register(fileno, _IN)
            self._poll.register(self._wakeup.fileno, _IN)
            self._is_lendable = True

    # Threads that wait

    def wait(self, clock: Clock, signal: Signal, until_ms: float | None, is_only_waiter: Callable[[], bool]) -> bool:
        """Wait as `clock.wait` does, and read meanwhile, if no other thread does.

        `is_only_waiter`: whether no other thread waits for messages, so that this one may keep the socket until its next wait, or the next tick.
        """
        # The answer may be there already: then the wait costs no system call and no tick.
        if signal.wait(0):
            return True
        if (
            self._is_lendable
            # A virtual or frozen clock ends waits by itself, and cannot wake a thread from a system call.
            and isinstance(clock, SystemClock)
            and clock.is_real
            and self.reader != get_ident()
            and self._right.acquire(blocking=False)
        ):
            try:
                ended = self._read_until(clock, signal, until_ms)
                self.reader = None
                # Kept for the next wait if possible: giving it back to the I/O thread is a system call each time.
                if not self._is_lendable or not is_only_waiter() or self._waiting:
                    with self._lock:
                        self._take_back()
            finally:
                self.reader = None
                self._right.release()
            if ended is not None:
                return ended
        try:
            self._waiting.add(signal)
            return clock.wait(signal, until_ms)
        finally:
            self._waiting.discard(signal)

    def _read_until(self, clock: Clock, signal: Signal, until_ms: float | None) -> bool | None:
        """Read until the signal is set (True) or the time is over (False); None: there is nothing to read any more."""
        with self._lock:
            self._uses += 1
            is_new, self.is_ticking = not self.is_ticking, True
            if not self._is_lent:
                self._is_lent = True
                self._poll_reads(False)
        # The I/O thread may sleep without a time limit: it is woken once, so that it begins to tick.
        if is_new:
            self._wake()
        self.reader = get_ident()
        # First the ring, then the check of the flag: a flag that is set between the two ends the poll.
        signal.ring = self._ring
        assert self._poll is not None
        poll = self._poll.poll
        try:
            while self._is_lendable:
                if signal.wait(0):
                    return True
                if until_ms is None:
                    ready = poll()
                else:
                    remaining_ms = min(until_ms - clock.monotonic_ms(), _LONGEST_POLL_MS)
                    ready = poll(remaining_ms) if remaining_ms > 0 else []
                    if not ready and remaining_ms < _LONGEST_POLL_MS:
                        # A signal that was raised together with the end of the time still counts.
                        return signal.wait(0)
                for fileno, _ in ready:
                    if fileno != self._fileno:
                        self._wakeup.clear()
                        continue
                    try:
                        self._read()
                    except Exception as error:
                        # The I/O thread raises it, since it alone ends the
                        # connection; this thread then waits for that end.
                        self.failure = error
                    if self.failure is not None:
                        self._is_lendable = False
                        self._wake()
                        return None
            return None
        finally:
            signal.ring = None

    def _ring(self) -> None:
        """Wake the reader, so that it checks its signal."""
        # The reader needs no wakeup for a signal that it sets itself, but it does for a deferred one: that handler runs in the
        # reader's thread, during its poll.
        if self.reader != get_ident() or deferred.pending:
            self._wakeup.set()

    def keep_polling(self) -> None:
        """Have the I/O thread tick, so that it looks again within about `TICK_S`."""
        with self._lock:
            self._uses += 1
            is_new, self.is_ticking = not self.is_ticking, True
        if is_new:
            self._wake()

    def _take_back(self) -> None:
        """Have the I/O thread poll the socket again. The lock is held."""
        if self._is_lent:
            self._is_lent = False
            self._poll_reads(True)

    # The I/O thread

    def try_read(self) -> None:
        """Read, unless another thread does so at this moment. Raises the error of `read`."""
        if self._right.acquire(blocking=False):
            self.reader = get_ident()
            try:
                self._read()
            finally:
                self.reader = None
                self._right.release()

    def tick(self) -> None:
        """Give the socket back to the I/O thread if no other thread has read since the last tick."""
        with self._lock:
            # A thread that has polled since before the last tick has not counted again, so the present reader is checked, too.
            is_used = self._uses != self._seen_uses or self.reader is not None
            self._seen_uses = self._uses
            if not is_used:
                self.is_ticking = False
                self._take_back()

    def end(self) -> None:
        """End all reads; return when no thread reads any more, or after `_END_S`. A reader that is still in a listener by then finds the
        flag down, or the socket closed.
        """
        # The flag first, then the wakeup: the reader that wakes must find the flag down.
        self._is_lendable = False
        self._ring()
        is_mine = self._right.acquire(timeout=_END_S)
        try:
            self._wakeup.close()
        finally:
            # After a timeout another thread holds the right, and this one must not release it.
            if is_mine:
                self._right.release()

    def forget(self) -> None:
        """End all reads, in a child of this process."""
        # A thread of the parent may have held the locks at the fork; in the child they would stay locked.
        self._right, self._lock, self._is_lendable = Lock(), Lock(), False


def _nothing() -> None:
    return
