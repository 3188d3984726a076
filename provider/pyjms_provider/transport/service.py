"""The network of a broker: one thread with an event loop, which runs all its listeners.

The loop is uvloop's if that is installed (`pip install 'pyjms-messaging[fast]'`), and asyncio's otherwise. Decision 0600 explains why
there is one loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from enum import Enum
from importlib.metadata import version
from importlib.util import find_spec
from socket import socket
from threading import Lock, Thread, current_thread
from typing import Any, Final, Self, TypeVar

from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.errors import ClosedError, ProviderError, ResourceError
from pyjms_provider.forks import forget_in_children
from pyjms_provider.transport.connection import Trace
from pyjms_provider.transport.listener import EngineFactory, Listener, bind
from pyjms_provider.transport.reports import RareReports, Report
from pyjms_provider.transport.scheduler import Scheduler, Timers
from pyjms_provider.transport.settings import ListenerKind, ListenerSettings
from pyjms_provider.transport.workers import WorkerPool, WorkerSettings

_T = TypeVar("_T")

_START_S: Final = 30.0
_GRACE_S: Final = 5.0


class EventLoop(Enum):
    """The implementation of the event loop."""

    BEST = "best"
    """uvloop's if it is installed, otherwise asyncio's."""
    UVLOOP = "uvloop"
    ASYNCIO = "asyncio"


class NetworkService:
    """The owner of the loop's thread. `start`, `open` and `stop` may be called from any thread; it can be started once.

    As a context manager it is started at the beginning and stopped at the end.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock | None = None,
        workers: WorkerSettings | None = None,
        event_loop: EventLoop = EventLoop.BEST,
        trace: Trace | None = None,
    ) -> None:
        """`name`: that of the broker, for the names of threads and the log.

        `clock`: the clock for heart-beats and all timeouts of connections. `trace`, for support cases, is called on the loop's
        thread with all bytes that engines receive and send; these include passwords, so it is off by default.
        """
        self.clock: Clock = clock or SystemClock()
        self.trace = trace
        self._name = name
        self._worker_settings = workers or WorkerSettings()
        self._event_loop = event_loop
        self._lock = Lock()
        self._thread: Thread | None = None
        self._started: Future[None] = Future()
        self._stopped: Future[None] | None = None
        self._listeners: dict[Listener, Future[None] | None] = {}
        # Set on the loop's thread before `_started` is done.
        self.scheduler: Scheduler
        self.timers: Timers
        self.workers: WorkerPool
        self._loop: asyncio.AbstractEventLoop
        forget_in_children(self)

    # ------------------------------------------------------------------------------------------------- public interface

    def start(self) -> None:
        """Start the thread, and wait until its loop runs. May be repeated until `stop`.

        Raises `ResourceError` if the configured loop is not installed, or the system has no thread or file for it, and
        `ClosedError` after `stop`.
        """
        with self._lock:
            if self._stopped is not None:
                raise ClosedError(f"the network of {self._name} is stopped and not started again; make a new one")
            if self._thread is None:
                thread = Thread(target=self._run, name=f"pyjms network {self._name}", daemon=True)
                try:
                    # Stored in `_thread` only after the start, so that the call can
                    # be repeated if the system has refused a thread.
                    thread.start()
                except RuntimeError as error:
                    raise self._refused(error) from error
                self._thread = thread
        self._started.result(_START_S)

    def open(self, settings: ListenerSettings, make_engine: EngineFactory) -> Listener:
        """Open a listener with `settings`; `make_engine` is called on the loop's thread for each connection.

        The engine may send immediately; the `peer` of its transport context is known. Raises `ResourceError` if the address is
        not available, `ListenerSettingsError` if a file is unusable, `ClosedError` if the service does not run.
        """
        self._must_run()
        if settings.kind is ListenerKind.WEB_SOCKET and find_spec("websockets") is None:
            raise ResourceError("WebSockets need the library websockets; pip install 'pyjms-messaging[broker]'")
        listening = bind(settings)
        try:
            # On the loop's own thread a wait for the loop would never end.
            if self.scheduler.is_here():
                return self._open(settings, make_engine, listening)
            return self.run(self._open_there(settings, make_engine, listening)).result()
        except Exception:
            listening.close()
            raise

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The open listeners."""
        return tuple(listener for listener, closing in list(self._listeners.items()) if closing is None)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine on the loop, so that other servers of asyncio, such as that for REST, share its thread.

        Any thread; never blocks. Coroutines that still run when the service stops are cancelled. A coroutine must not keep the
        loop busy, as all connections would wait for it. Raises `ClosedError` if the service does not run.
        """
        try:
            with self._lock:  # so that it is scheduled before the stop of the loop, or not at all
                self._must_run()
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except Exception:
            coroutine.close()
            raise

    def close(self, listener: Listener, graceful_s: float) -> None:
        """Close a listener, and wait for it; see `Listener.close`."""
        self._must_not_wait_here()
        self.begin_close(listener, graceful_s).result()

    def begin_close(self, listener: Listener, graceful_s: float = _GRACE_S) -> Future[None]:
        """Begin to close a listener; see `Listener.begin_close`."""
        with self._lock:
            # A second caller gets the future of the first one, also while that close is running.
            closing = self._listeners.get(listener)
            if closing is not None:
                return closing
            if listener not in self._listeners or self._stopped is not None:
                ended: Future[None] = Future()
                ended.set_result(None)
                return self._stopped or ended
            closing = asyncio.run_coroutine_threadsafe(self._close(listener, graceful_s), self._loop)
            self._listeners[listener] = closing
            return closing

    def cut(self) -> None:
        """Close all listeners and end their connections without a word to their clients, as the death of the process does; wait for it."""
        self._must_not_wait_here()
        self.run(self._cut()).result()

    def stop(self, graceful_s: float = _GRACE_S) -> None:
        """Close all listeners as `Listener.begin_close` does, cancel other coroutines, and end the threads.

        Takes little longer than `graceful_s`, independently of peers and jobs. May be repeated; not on the loop's thread.
        """
        self._must_not_wait_here()
        with self._lock:
            thread = self._thread
            is_first = self._stopped is None
            if self._stopped is None:
                self._stopped = Future()
            # Only the first caller ends the threads; the others wait for it.
            stopped = self._stopped
        if not is_first:
            stopped.result()
            return
        try:
            if thread is not None and self._started.exception(_START_S) is None:
                asyncio.run_coroutine_threadsafe(self._end(graceful_s), self._loop).result()
                # Only after `_end` has returned, which needs the loop.
                self._loop.call_soon_threadsafe(self._loop.stop)
                thread.join()
                self.workers.join()
        finally:
            stopped.set_result(None)

    def forget(self) -> None:
        """Mark the service as stopped in a child process: the threads exist only in the parent, so a wait for them would never end."""
        self._lock, self._listeners, self._stopped = Lock(), {}, Future()
        self._stopped.set_result(None)

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop it."""
        self.stop()

    # ------------------------------------------------------------------------------------------------------ on the loop

    async def _open_there(self, settings: ListenerSettings, make_engine: EngineFactory, listening: socket) -> Listener:
        return self._open(settings, make_engine, listening)

    def _open(self, settings: ListenerSettings, make_engine: EngineFactory, listening: socket) -> Listener:
        listener = Listener(settings, self, make_engine, listening)
        listener.start()
        self._listeners[listener] = None
        return listener

    async def _cut(self) -> None:
        for listener in list(self._listeners):
            listener.cut()

    async def _close(self, listener: Listener, graceful_s: float) -> None:
        try:
            await listener.stop(graceful_s)
        finally:
            self._listeners.pop(listener, None)

    async def _end(self, graceful_s: float) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + graceful_s
        await asyncio.gather(*(listener.stop(graceful_s) for listener in list(self._listeners)))
        self._listeners.clear()
        # After the listeners: the jobs of their connections end with these, or are abandoned at the time limit.
        await self.workers.stop(max(0.1, until_s - loop.time()))
        others = asyncio.all_tasks() - {asyncio.current_task()}
        # Other servers of asyncio on this loop, such as that for REST.
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=max(0.1, until_s - loop.time()))
        await loop.shutdown_asyncgens()

    # -------------------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            loop, description = self._make_loop()
        except (ProviderError, OSError) as error:
            self._started.set_exception(error if isinstance(error, ProviderError) else self._refused(error))
            return
        self._loop = loop
        loop.set_exception_handler(self._loop_failed)
        asyncio.set_event_loop(loop)
        self.scheduler = Scheduler(loop)
        try:
            self.timers = Timers(self._name, self.clock, self.scheduler)
        except RuntimeError as error:
            loop.close()
            self._started.set_exception(self._refused(error))
            return
        self.workers = WorkerPool(self._name, self._worker_settings, loop, self.scheduler, RareReports(self.clock))
        Report.STARTED.log("%s, on %s", self._name, description)
        # Called by the loop, so that `start` returns when it runs, and not just before.
        loop.call_soon(self._started.set_result, None)
        try:
            loop.run_forever()
        finally:
            # Before the loop is closed, as the timer's thread schedules calls on it.
            self.timers.stop()
            asyncio.set_event_loop(None)
            loop.close()

    def _refused(self, error: Exception) -> ResourceError:
        return ResourceError(
            f"the network of {self._name} cannot start: {error}; end other threads and close files, or raise their limits, and try again"
        )

    def _make_loop(self) -> tuple[asyncio.AbstractEventLoop, str]:
        has_uvloop = find_spec("uvloop") is not None
        if self._event_loop is EventLoop.UVLOOP and not has_uvloop:
            raise ResourceError(
                "uvloop is not installed; pip install 'pyjms-messaging[fast]', or use the event loop of asyncio"
            )
        if has_uvloop and self._event_loop is not EventLoop.ASYNCIO:
            import uvloop

            return uvloop.new_event_loop(), f"uvloop {version('uvloop')}"
        return (
            asyncio.SelectorEventLoop(),
            "the event loop of asyncio (pip install 'pyjms-messaging[fast]' has a faster one)",
        )

    def _loop_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        Report.LOOP_FAILED.log("%s", context.get("message", ""), error=context.get("exception"))

    def _must_run(self) -> None:
        if self._thread is None or self._stopped is not None:
            raise ClosedError(f"the network of {self._name} does not run; call start() first, and not after stop()")

    def _must_not_wait_here(self) -> None:
        """Raise an error if the caller is on the loop's thread, where a wait for the loop would never end."""
        if current_thread() is self._thread:
            raise ClosedError("this would wait for itself on the network's thread; use another thread, or begin_close")
