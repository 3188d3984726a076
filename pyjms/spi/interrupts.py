"""Signals during a call of pyjms in the main thread: their handlers run when the call ends.

Python runs a signal's handler in the main thread, between any two of its instructions. A handler that raises, as that of Ctrl-C does,
would interrupt a call half way. So a handler is deferred while a call of pyjms runs in the main thread: the call ends first, and a
call that waits is woken. Then, at the boundary of the outermost call, the handler runs, and its exception is raised there.

A second signal, `STUCK_AFTER_S` or more after the first, finds a stuck call: it waits for a disk, or a database, that does not
answer. Its handler runs at once, in the middle of the call. If it raises, the connection of the call is poisoned: its owner gives
it up as after a lost connection, since the progress of the call is unknown. `Poisoned` replaces it then.

Commands that end in order read their signals as bytes from a socket (`signals_as_bytes`). A handler that sets an event, or stops work, is
not safe there: it runs in the main thread, which may be about to wait for this very event, or hold a lock that the handler
takes. Python's own handler, in C, runs at once, and only writes the signal's number into the socket. The reader of it may wait and lock.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from _signal import getsignal  # type: ignore[import-not-found]  # `signal` makes an enum member of each answer
from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import FrameType
from typing import Any, Final, NoReturn, ParamSpec, Protocol, TypeVar, runtime_checkable

from pyjms.spi.capability import Capability
from pyjms.spi.clock import Signal
from pyjms.spi.errors import ConnectionLostError, ProviderError
from pyjms.spi.provider import ProviderConnection

__all__ = [
    "DEFAULT_SIGNALS",
    "ENDING",
    "REASON",
    "STUCK_AFTER_S",
    "DeferredSignals",
    "Poisonable",
    "Poisoned",
    "close_later",
    "defer_signals",
    "deferred",
    "defers_signals",
    "getsignal",
    "signals_as_bytes",
    "signals_deferred",
]


_P = ParamSpec("_P")
_R = TypeVar("_R")

STUCK_AFTER_S: Final = 0.1
"""A call that runs this long after a signal, in seconds, is stuck: the next signal interrupts it."""
DEFAULT_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGUSR1") if hasattr(signal, name)
)
"""Ctrl-C, the end of a server, time limits of tests and of tasks."""
_NO_THREAD: Final = -1


@runtime_checkable
class Poisonable(Protocol):
    """An object with a connection, or the connection itself: found as ``self`` of the interrupted call."""

    def poison(self) -> None:
        """Give up the connection. Called by the handler of a signal: takes no lock, and never waits."""
        ...


class _Handler:
    """Replaces a handler of the program, which it calls: at once, or when the main thread leaves its call of pyjms."""

    __slots__ = ("_signals", "original")

    def __init__(self, signals: DeferredSignals, original: Callable[[int, FrameType | None], Any]) -> None:
        self._signals = signals
        self.original = original

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._signals.defers(self.original, number, frame):
            return
        # A second signal in a stuck call: an exception of the handler cuts the call half way, so the
        # connection is given up.
        if self._signals.depth:
            with _poisoning(frame):
                self._signals.run_handlers()
                # The first signal's handler has waited longer, and has run before this one.
                self.original(number, frame)
        elif self.original is not signal.default_int_handler or not _cancels_main_task(number, frame):
            self.original(number, frame)


class DeferredSignals:
    """The main thread's present call of pyjms, and the signals deferred until its end. One object for the process.

    Public methods on a hot path use its fields directly: a function call costs more than all their work.
    """

    __slots__ = ("_since_s", "depth", "first", "first_found", "found", "main", "numbers", "pending", "wake")

    def __init__(self) -> None:
        self.main = threading.main_thread().ident or _NO_THREAD
        """The identifier of the main thread."""
        self.depth = 0
        """The depth of nested calls of pyjms in the main thread; 0: handlers run at once."""
        self.pending: tuple[tuple[Callable[[int, FrameType | None], Any], int, FrameType | None], ...] = ()
        """The handlers that wait for the end of the call, with their arguments, in the order of the signals."""
        self.numbers: tuple[int, ...] = DEFAULT_SIGNALS
        """The signals that are deferred."""
        self.found: tuple[object, ...] = ()
        """Their handlers at the last check: a difference shows that the program has changed its handlers."""
        self.first = DEFAULT_SIGNALS[0]
        """The signal whose handler the hottest calls check: checking all would cost them as much as the rest of the guard."""
        self.first_found: object = None
        """Its handler at the last check."""
        self.wake: Callable[[], object] | None = None
        """Ends the present wait of the main thread, if a signal may end it. Any function that does not block."""
        self._since_s = 0.0

    def choose(self, numbers: tuple[int, ...]) -> None:
        """Defer these signals from now on; restore the handlers of all others. The main thread."""
        for number in numbers:
            getsignal(number)  # raises for a number that is no signal, before anything has changed
        for number in set(self.numbers) - set(numbers):
            found = getsignal(number)
            if isinstance(found, _Handler):
                signal.signal(number, found.original)
        self.numbers = numbers
        self.first = (*numbers, *DEFAULT_SIGNALS)[0]
        self.refresh()

    def refresh(self) -> None:
        """Wrap each handler of the program that is a Python function. The main thread."""
        # An event loop that runs in this thread has a handler of its own, which raises nothing, and removes it at its end.
        if not _runs_loop():
            for number in self.numbers:
                found = getsignal(number)
                if callable(found) and not isinstance(found, _Handler):
                    try:
                        signal.signal(number, _Handler(self, found))
                    except ValueError:  # this is the main thread of a sub-interpreter, which gets no signals
                        self.main = _NO_THREAD
                        return
        self.found = tuple(map(getsignal, self.numbers))
        self.first_found = getsignal(self.first)

    def defers(self, handler: Callable[[int, FrameType | None], Any], number: int, frame: FrameType | None) -> bool:
        """Return whether a handler has to wait for the end of a call, and end that call's wait."""
        if not self.depth:
            return False
        now_s = time.perf_counter()
        # The time counts from the first signal: with each later one the call would get another tenth of a second.
        if self.pending and now_s - self._since_s >= STUCK_AFTER_S:
            return False
        if not self.pending:
            self._since_s = now_s
        self.pending += ((handler, number, frame),)
        if self.wake is not None:
            self.wake()
        return True

    def run_handlers(self, undo: Callable[[], object] | None = None) -> None:
        """Run the deferred handlers, at the end of the outermost call. Raises their exception, after a call of `undo`."""
        is_over = False
        self.depth += 1  # signals meanwhile are deferred, except while a handler runs
        try:
            while self.pending:
                (handler, number, frame), *rest = self.pending
                self.pending = tuple(rest)
                # A handler does not count as part of the call: it is the application's own code, and a
                # signal may end it.
                self.depth -= 1
                try:
                    handler(number, frame)
                finally:
                    self.depth += 1
            is_over = True
        finally:
            if not is_over:
                self.pending = ()  # one interrupt is enough for the program
                if undo is not None:
                    undo()
            self.depth -= 1

    def wait(self, wait: Callable[[Signal, float | None], bool], wake_up: Signal, until_ms: float | None) -> bool:
        """Wait by `wait`, which is `Clock.wait` or an equivalent; in the main thread a signal ends the wait, and its handler runs here.

        For a call that waits for other threads and has nothing half done. When this returns True, it must check its condition again, as
        a handler that raises nothing may have woken it. Raises the handler's exception.
        """
        if threading.get_ident() != self.main:
            return wait(wake_up, until_ms)
        before, self.wake = self.wake, wake_up.set
        try:
            # A signal before `wake` was set has woken nothing, so it is checked here.
            is_woken = bool(self.pending) or wait(wake_up, until_ms)
            if self.pending:
                self.run_handlers()
            return is_woken
        finally:
            self.wake = before

    @contextmanager
    def running_application_code(self) -> Iterator[None]:
        """Run handlers at once within the block: the application's own code runs there, such as a listener."""
        if threading.get_ident() != self.main or not self.depth:
            yield
            return
        # The handlers of signals before this block run first: nothing of the call is half done here.
        depth, self.depth = self.depth, 0
        try:
            self.run_handlers()
            yield
        finally:
            self.depth = depth

    def forget(self) -> None:
        """Reset in a forked child, whose main thread is the one that has forked it."""
        # The object is reset in place, as other modules hold it.
        self.__init__()  # type: ignore[misc]


deferred: Final = DeferredSignals()
"""The signals of this process."""


def defer_signals(*numbers: int) -> None:
    """Choose the signals whose handlers are deferred while the main thread is inside a call of pyjms.

    Only handlers that are Python functions are deferred; one that is set later is found by the next call (by the next `send`, or `receive` that
    does not wait, if it is for the first signal of `numbers`). Without arguments none is
    deferred: a handler that raises in the middle of a call may then leave its connection unusable.

    Args:
        numbers: signals, such as `signal.SIGINT`; at first those of `DEFAULT_SIGNALS`.

    Raises:
        TypeError, ValueError: one of `numbers` is no signal; nothing has changed.
        ValueError: the caller is not the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ValueError(
            "defer_signals() may be called by the main thread alone, as may all that sets handlers of signals"
        )
    deferred.choose(tuple(numbers))


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Have signals wait for the end of the block if it runs in the main thread: for a program that calls a provider itself."""
    if threading.get_ident() != deferred.main:
        yield
        return
    if tuple(map(getsignal, deferred.numbers)) != deferred.found:
        deferred.refresh()
    deferred.depth += 1
    try:
        yield
    finally:
        deferred.depth -= 1
        if deferred.pending and not deferred.depth:
            deferred.run_handlers()


def defers_signals(
    undo: Callable[[Any], object] | None = None,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator for public methods: while one runs in the main thread, signals are deferred until its end.

    Args:
        undo: called with the method's result when a handler raises, so that the program does not get it.
    """

    def decorate(method: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(method)
        def call(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
            if threading.get_ident() != deferred.main:
                return method(*arguments, **keywords)
            if tuple(map(getsignal, deferred.numbers)) != deferred.found:
                deferred.refresh()
            deferred.depth += 1
            # The list is empty where the method has raised: there is nothing to undo then.
            made: list[_R] = []
            try:
                made.append(method(*arguments, **keywords))
            finally:
                deferred.depth -= 1
                if deferred.pending and not deferred.depth:
                    deferred.run_handlers(partial(undo, made[0]) if made and undo is not None else None)
            return made[0]

        return call

    return decorate


def _runs_loop() -> bool:
    """Return whether an event loop runs in this thread, without importing asyncio."""
    events = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None  # noqa: SLF001 - the public function raises where none runs


def _cancels_main_task(number: int, frame: FrameType | None) -> bool:
    """Have Ctrl-C cancel the main task of `asyncio.run`, and return True; return False where none runs.

    `asyncio.run` sets a handler of its own for that only if it finds Python's own. It found ours.
    """
    runners = sys.modules.get("asyncio.runners")
    while frame is not None and runners is not None:
        if frame.f_code is runners.Runner.run.__code__:
            runner, task = frame.f_locals.get("self"), frame.f_locals.get("task")
            if runner is None or task is None:
                return False
            runner._on_sigint(number, frame, task)  # noqa: SLF001 - its task and its count of interrupts are private
            return True
        frame = frame.f_back
    return False


@contextmanager
def _poisoning(frame: FrameType | None) -> Iterator[None]:
    """Poison the connection of the call in `frame` if the block, which is the handler of a signal, raises."""
    has_raised = True
    try:
        yield
        has_raised = False
    finally:
        while has_raised and frame is not None:
            # The innermost frame of pyjms whose object has a connection is that of the interrupted call.
            owner = frame.f_locals.get("self")
            if frame.f_globals.get("__name__", "").startswith("pyjms.") and isinstance(owner, Poisonable):
                owner.poison()
                break
            frame = frame.f_back


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=deferred.forget)


_log = logging.getLogger("pyjms.spi")

REASON: Final = (
    "a second signal interrupted a call that did not answer, so this connection was given up: what that call did is not known, "
    "unacknowledged messages come again, and the program has to make another connection"
)


class Poisoned:
    """Raises `ConnectionLostError` for each call of the SPI except those that end something: nothing is left to end.

    One object stands for the connection, its sessions and its consumers alike.
    """

    def __init__(self, error: ConnectionLostError, connection: ProviderConnection) -> None:
        self._error = error
        self.connection_id = connection.connection_id
        self.capabilities = connection.capabilities
        self.info = connection.info
        self.resource_manager = connection.resource_manager
        self.state = "lost"

    def advice(self, _: Capability) -> str:
        """Return no advice."""
        return ""

    def close(self) -> None:
        """Do nothing: `close_later` does it."""

    def end_waits(self) -> None:
        """Do nothing: the close ends them."""

    def set_interested(self, _: bool) -> None:
        """Do nothing: no message will arrive."""

    def take_unreturned(self) -> None:
        """Return nothing."""

    def __getattr__(self, name: str) -> Any:
        # Python itself looks such names up, as `copy` and `pickle` do, and must find none rather
        # than a call that refuses.
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ConnectionLostError(self._error.reason) from self._error


def close_later(connection: ProviderConnection, before: Callable[[], object]) -> None:
    """Call `before` and close the provider's connection, in another thread: the close waits as long as the interrupted call would have."""
    # A signal's handler calls this, and `Thread.start` takes locks that the interrupted thread may hold.
    start_new_thread(_close, (connection, before))


def _close(connection: ProviderConnection, before: Callable[[], object]) -> None:
    before()
    try:
        connection.close()
    except ProviderError as error:
        _log.warning(
            "%s a connection whose call a signal had interrupted could not be closed: %s", error.code, error.reason
        )


ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask a command to end: Ctrl-C, and that of a supervisor."""


@contextmanager
def signals_as_bytes(numbers: Iterable[int], to: socket.socket, *, put_back: bool) -> Iterator[None]:
    """Write each signal's number to `to` as a byte, and give `numbers` no other effect. Called on the main thread.

    Signals that are not among `numbers` are written, too, and keep their effect. `to` belongs to the caller, who closes it afterwards:
    then the reader at its other end reaches the end. `put_back`: the former handlers are restored at the end; without it `numbers`
    stay without effect, also during the closing work that follows.
    """
    to.setblocking(False)
    handlers = {number: signal.signal(number, _nothing) for number in numbers}
    before = signal.set_wakeup_fd(to.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        if put_back:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _nothing(*_: object) -> None:
    """Handle a signal without effect: any handler makes Python write its number."""
