"""Who reads a socket: its I/O thread or, while it waits, a thread of the application's.

A thread that waits for an answer would sleep until the I/O thread had read it: a change of threads for each answer, which
costs more than all the rest. So a thread that waits polls the socket itself, and does with what comes what the I/O thread
would do. One thread reads at a time; the I/O thread is told to look away meanwhile, and gets the socket back at the latest
two ticks after the last thread has read, or at once if somebody else waits for what may come.

What a reader finds wrong is the I/O thread's to deal with, which also keeps the time and ends the connection.
"""

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

__all__ = ["TICK_S", "Reading", "Watch"]

TICK_S: Final = 0.004
_LONGEST_POLL_MS: Final = 1e8
_END_S: Final = 5.0
_IN: Final = getattr(select, "POLLIN", 0)


class Watch:
    """What the I/O thread sleeps on: its socket, and a bell. `look` may be called by any thread, also while it sleeps."""

    def __init__(self, fileno: int, bell: int) -> None:
        self._fileno = fileno
        self._bell = bell
        self._lock = Lock()
        self._reads, self._writes = True, False
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._selector = selectors.DefaultSelector() if self._epoll is None else None
        if self._epoll is not None:
            self._epoll.register(bell, select.EPOLLIN)
            self._epoll.register(fileno, select.EPOLLIN)
        if self._selector is not None:  # `look` is not called then
            self._selector.register(bell, selectors.EVENT_READ)
            self._selector.register(fileno, selectors.EVENT_READ)

    def look(self, reads: bool) -> None:
        """Say whether to look for what can be read."""
        self._set(reads, self._writes)

    def want_writing(self, writes: bool) -> None:
        """Say whether to look for room to write."""
        if writes != self._writes:
            self._set(self._reads, writes)

    def _set(self, reads: bool, writes: bool) -> None:
        with self._lock:
            self._reads, self._writes = reads, writes
            if self._epoll is not None and not self._epoll.closed:
                mask = (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if writes else 0)
                self._epoll.modify(self._fileno, mask)
            elif self._selector is not None:
                self._selector.modify(self._fileno, selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0))

    def wait(self, timeout_s: float | None) -> tuple[bool, bool]:
        """Return whether the bell rings, and whether the socket can be read, or has ended."""
        if self._epoll is not None:
            found = dict(self._epoll.poll(timeout_s))
            return self._bell in found, bool(found.get(self._fileno, 0) & ~select.EPOLLOUT)
        assert self._selector is not None
        ready = {key.fd: mask for key, mask in self._selector.select(timeout_s)}
        return self._bell in ready, bool(ready.get(self._fileno, 0) & selectors.EVENT_READ)

    def close(self) -> None:
        """Let go of what it sleeps on."""
        with self._lock:
            if self._epoll is not None:
                self._epoll.close()
        if self._selector is not None:
            self._selector.close()


class Reading:
    """The right to read one socket. Any thread."""

    def __init__(
        self,
        *,
        is_shared: bool,
        wake: Callable[[], None],
        look: Callable[[bool], None],
    ) -> None:
        """`is_shared`: whether the socket's kind allows it; `wake` has the I/O thread look at what has changed; `look` tells
        it whether to look at the socket, at once, also while it sleeps.
        """
        self._wake = wake
        self._look = look
        self._right = Lock()
        self._lock = Lock()
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._poll = select.poll() if is_shared and hasattr(select, "epoll") else None
        self._fileno = -1
        self._read: Callable[[], None] = _nothing
        self._is_over = False
        self.reader: int | None = None
        """The thread that reads, and so must not wait for what it alone can read."""
        self._waiting: set[Signal] = set()
        self._uses = self._seen_uses = 0
        self._is_lent = False
        self.is_ticking = False
        """Whether the I/O thread looks every `TICK_S` if the socket is still used."""
        self.trouble: Exception | None = None
        """What went wrong while a thread of the application's read: the I/O thread raises it."""

    def begin(self, fileno: int, read: Callable[[], None]) -> None:
        """Let threads read from now on: `read` reads what there is, and may raise what ends the connection."""
        self._fileno, self._read = fileno, read
        if self._poll is not None:
            self._poll.register(fileno, _IN)
            self._poll.register(self._bell.fileno(), _IN)

    # Threads that wait

    def wait(self, clock: Clock, signal: Signal, until_ms: float | None, is_alone: Callable[[], bool]) -> bool:
        """Wait as `clock.wait` does, and read meanwhile, if nobody else does.

        `is_alone`: whether nobody will miss what comes after the wait, until the next one or the next tick.
        """
        if signal.wait(0):
            return True
        if self._may_read(clock) and self._right.acquire(blocking=False):
            try:
                ended = self._read_until(clock, signal, until_ms)
                self._give_back(is_alone)
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

    def _may_read(self, clock: Clock) -> bool:
        # A virtual or frozen clock ends waits by itself, which no system call hears of.
        is_real = isinstance(clock, SystemClock) and clock.is_real
        is_there = self._poll is not None and not self._is_over and self.trouble is None and self._fileno >= 0
        return is_there and is_real and self.reader != get_ident()

    def _read_until(self, clock: Clock, signal: Signal, until_ms: float | None) -> bool | None:
        """Read until the signal comes (True), or that time (False); None: there is nothing to read any more."""
        self._lend()
        self.reader = get_ident()
        signal.ring = self._ring
        assert self._poll is not None
        poll = self._poll.poll
        try:
            while not self._is_over:
                if signal.wait(0):
                    return True
                if until_ms is None:
                    ready = poll()
                else:
                    remaining_ms = min(until_ms - clock.monotonic_ms(), _LONGEST_POLL_MS)
                    ready = poll(remaining_ms) if remaining_ms > 0 else []
                    if not ready and remaining_ms < _LONGEST_POLL_MS:
                        return signal.wait(0)
                for fileno, _ in ready:
                    if fileno != self._fileno:
                        with suppress(BlockingIOError):
                            self._bell.recv(4096)
                    elif not self._read_here():
                        return None
            return None
        finally:
            signal.ring = None

    def _read_here(self) -> bool:
        """Read; return False if that is the end of the connection, which is the I/O thread's affair."""
        try:
            self._read()
        except Exception as error:
            self.trouble = error
        if self.trouble is not None:
            self._wake()
        return self.trouble is None

    def _lend(self) -> None:
        with self._lock:
            self._uses += 1
            is_new, self.is_ticking = not self.is_ticking, True
            if not self._is_lent:
                self._is_lent = True
                self._look(False)
        if is_new:
            self._wake()

    def _give_back(self, is_alone: Callable[[], bool]) -> None:
        self.reader = None
        keeps = self.trouble is None and is_alone()
        with self._lock:
            if not keeps or self._waiting:
                self._is_lent = False
                self._look(True)

    def _ring(self) -> None:
        """Have the reader look at its signal."""
        if (
            self.reader != get_ident() or deferred.pending
        ):  # the handler of a signal runs in the reader's thread, while that polls
            with suppress(OSError):  # full: it is awake already; closed: it has ended
                self._ringer.send(b"x")

    def keep_ticking(self) -> None:
        """Have the I/O thread look again within `TICK_S`, or soon after."""
        with self._lock:
            self._uses += 1
            is_new, self.is_ticking = not self.is_ticking, True
        if is_new:
            self._wake()

    # The I/O thread

    def try_read(self) -> None:
        """Read, unless another thread does so at this moment. Raises what `read` does."""
        if self._right.acquire(blocking=False):
            self.reader = get_ident()
            try:
                self._read()
            finally:
                self.reader = None
                self._right.release()

    def tick(self) -> None:
        """Take the socket back if no thread has read since the last tick."""
        with self._lock:
            is_used = self._uses != self._seen_uses or self.reader is not None
            self._seen_uses = self._uses
            if not is_used:
                self.is_ticking = False
                if self._is_lent:
                    self._is_lent = False
                    self._look(True)

    def end(self) -> None:
        """Let no thread read any more; return when none does, or after `_END_S`: who has not come back from what it was told by then
        finds that all is over, or that the socket is closed.
        """
        self._is_over = True
        self._ring()
        is_mine = self._right.acquire(timeout=_END_S)
        try:
            self._bell.close()
            self._ringer.close()
        finally:
            if is_mine:
                self._right.release()

    def forget(self) -> None:
        """Let no thread read, in a child of this process."""
        self._right, self._lock, self._is_over = Lock(), Lock(), True


def _nothing() -> None:
    return
