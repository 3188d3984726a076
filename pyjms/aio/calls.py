"""Calls that may wait: made on a thread, and awaited on the event loop.

A cancelled task stops waiting at once, as usual in asyncio. Its calls that have not begun are not made; a call that has begun continues, and
its result is undone, such as a consumer that no task gets.

A listener that is a coroutine is called by the session's own thread, which serves it until it is done. JMS 1.1 §4.4.6: the session belongs
to that thread while a listener runs. So it makes the calls of the session that the listener awaits, such as a commit or a send; calls of other
tasks wait until it is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from inspect import isawaitable
from queue import Empty, SimpleQueue
from threading import Lock, current_thread
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar
from weakref import finalize

from pyjms.errors import IllegalStateException, JMSException
from pyjms.runtime.error_mapping import mapped_errors
from pyjms.runtime.waiting import start_thread

_log = logging.getLogger("pyjms.runtime")

_Result = TypeVar("_Result")
_Work: TypeAlias = Callable[[], object]


class Call(Generic[_Result]):
    """A call that some thread makes, once, and that a task awaits."""

    __slots__ = ("_claim", "_context", "_end", "_function", "_leftover", "_loop", "_post", "_undo", "future")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        function: Callable[[], _Result],
        undo: Callable[[_Result], object] | None,
        post: Callable[[_Work], object],
    ) -> None:
        """`undo` is called with the result if no task gets it; `post` makes a thread call it."""
        self._loop = loop
        self._function = function
        self._context = copy_context()  # of the task: a tracer finds its span there
        self._undo = undo
        self._post = post
        self._claim = Lock()
        """Taken once: by the thread that makes the call, or by the task that was cancelled."""
        self._end = Lock()
        """Taken once: by the thread that is about to deliver the result, or by the task that was cancelled."""
        self._leftover: _Work | None = None
        """The function that undoes the result."""
        self.future: asyncio.Future[_Result] = loop.create_future()

    def run(self) -> None:
        """Make the call, unless its task was cancelled before. On the thread that may wait."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            result = self._context.run(self._function)
        except Exception as error:  # the awaiting task raises the call's error
            self._tell(partial(self._fail, error))
            return
        # Set before `_end` is taken: a task that is cancelled after that finds the function.
        if self._undo is not None:
            self._leftover = partial(self._undo, result)
        # The task may have been cancelled during the call: then no task gets the result, and
        # this thread undoes it.
        is_delivered = self._end.acquire(blocking=False) and self._tell(partial(self._succeed, result))
        if not is_delivered and self._leftover is not None:
            self._leftover()

    def _tell(self, end: Callable[[], None]) -> bool:
        """Make the event loop end the call; return False if the loop was closed, so that no task waits."""
        try:
            self._loop.call_soon_threadsafe(end)
        except RuntimeError:
            return False
        return True

    async def result(self) -> _Result:
        """Return the result of the call, or raise its error."""
        try:
            return await self.future
        except asyncio.CancelledError:
            # With the first lock the call is never made, with the second its own thread undoes it: the task has to only
            # without both.
            is_early = self._claim.acquire(blocking=False) or self._end.acquire(blocking=False)
            if not is_early and self._leftover is not None:
                self._post(self._leftover)  # here, so that it is done before the task's next call
            raise

    def _succeed(self, result: _Result) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, StopIteration):  # no future accepts it
            error = RuntimeError(f"a call raised {error!r}")
        if not self.future.done():
            self.future.set_exception(error)


async def call_on_thread(
    name: str, function: Callable[[], _Result], undo: Callable[[_Result], object] | None = None
) -> _Result:
    """Make a call on a thread of its own, as it must wait for no other one. Raises the call's error.

    `undo` is called with the result if the task is cancelled meanwhile.
    """

    def post(work: _Work) -> None:
        with mapped_errors:
            start_thread(name, work)

    call = Call(asyncio.get_running_loop(), function, undo, post)
    post(call.run)
    return await call.result()


class SessionThread:
    """Makes the calls of one session, one after the other, in the order in which tasks made them (JMS 1.1 §4.4.6).

    A listener's calls are made by the thread that serves the listener, to which the session belongs meanwhile.
    """

    __slots__ = ("__weakref__", "_is_ended", "_lock", "_loop", "_work")

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        """Start. Raises JMSException when no thread can be started."""
        self._loop: Final = loop
        self._lock = Lock()
        self._is_ended = False
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        with mapped_errors:
            start_thread(name, partial(_do_all, self._work))
        finalize(self, self._work.put, None).atexit = False  # for a session that was never closed

    async def call(
        self, function: Callable[[], _Result], *, undo: Callable[[_Result], object] | None = None
    ) -> _Result:
        """Make a call after the earlier ones. Raises the call's error; IllegalStateException on another event loop.

        `undo` is called with the result if the task is cancelled meanwhile.
        """
        self.check_loop()
        call = Call(self._loop, function, undo, self.post)
        self.enqueue(call.run)
        return await call.result()

    def enqueue(self, work: _Work) -> None:
        """Have the present task's work done after the earlier calls. On the event loop."""
        # The session belongs to the listener's thread until the listener returns: the session's own thread
        # would wait for it, and it for this call.
        served = current_work(self)
        if served is not None:
            served.put(work)
        elif not self.post(work):
            work()  # of a closed session, which refuses all calls at once

    @property
    def serves_here(self) -> bool:
        """Whether the present task is a listener's of this session."""
        return current_work(self) is not None

    def check_loop(self) -> None:
        """Raise IllegalStateException unless the session's event loop is the running one."""
        if asyncio.get_running_loop() is not self._loop:
            raise IllegalStateException("this connection belongs to another event loop: make one in each")

    def post(self, work: _Work) -> bool:
        """Queue work after earlier work; return False when the session is closed. Any thread; never waits."""
        # Under the lock no work is queued behind the None that ends the thread: its task would wait for ever.
        with self._lock:
            if self._is_ended:
                return False
            self._work.put(work)
        return True

    def end(self) -> None:
        """Let the thread end after the queued work. Any thread; never waits; may be repeated."""
        with self._lock:
            if not self._is_ended:
                self._is_ended = True
                self._work.put(None)


def _do_all(work: SimpleQueue[_Work | None]) -> None:
    while (piece := work.get()) is not None:
        try:
            piece()
        except Exception:  # the top of a thread: the calls that follow must not wait for ever
            with suppress(Exception):  # the application's logging
                _log.exception("an unexpected error on %s", current_thread().name)
        del piece  # it refers to its session, which could not be collected otherwise


_LOOK_S: Final = 1.0
"""The interval at which a thread that waits for a coroutine checks whether the event loop still exists."""


class _Served:
    """One call of a listener."""

    __slots__ = ("is_cancelled", "is_over", "owner", "work")

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.work: SimpleQueue[_Work | None] = SimpleQueue()
        self.is_cancelled = False
        """Whether the coroutine was cancelled with all tasks, as the event loop ends."""
        self.is_over = False
        """Set and read on the event loop: a task that outlives the listener uses the session's thread."""


_served: ContextVar[_Served | None] = ContextVar("pyjms_aio_served", default=None)


def current_work(owner: object) -> SimpleQueue[_Work | None] | None:
    """Return the queue in which the present task requests work of `owner`, of the thread that serves it; None outside its listeners."""
    served = _served.get()
    if served is None or served.owner is not owner or served.is_over:
        return None
    return served.work


class Listening:
    """Calls a listener on the event loop from another thread, and waits for its end."""

    __slots__ = ("_if_ended", "_listener", "_loop", "_owner")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Callable[[Any], Awaitable[object] | object],
        owner: object,
        if_ended: Callable[[], object],
    ) -> None:
        """`owner`: its calls are made by the thread that waits; see `current_work`. `if_ended` is called when the event loop has ended."""
        self._loop = loop
        self._listener = listener
        self._owner = owner
        self._if_ended = if_ended

    def __call__(self, argument: object) -> None:
        """Call the listener, and return when it is done. Raises its error; JMSException when the event loop has ended."""
        served = _Served(self._owner)
        coroutine = self._run(served, argument)
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        # The event loop is closed. For a coroutine that is neither awaited nor closed Python would print a warning.
        except RuntimeError:
            coroutine.close()
            raise self._ended() from None
        # None ends the loop below, in which this thread waits while the coroutine runs.
        future.add_done_callback(lambda _: served.work.put(None))
        while (work := self._next(served.work)) is not None:
            work()
        if served.is_cancelled:
            raise self._ended()
        future.result()

    async def _run(self, served: _Served, argument: object) -> None:
        _served.set(served)  # of this task, and of those that it begins
        try:
            result = self._listener(argument)
            if isawaitable(result):
                await result
        finally:
            # A listener may catch the cancellation and return: its message is not acknowledged even
            # then, as the event loop is ending.
            task = asyncio.current_task()
            served.is_cancelled = task is not None and task.cancelling() > 0
            # The flag is set on the event loop before the thread is woken: no task adds a call that the
            # thread would not make.
            served.is_over = True

    def _next(self, work: SimpleQueue[_Work | None]) -> _Work | None:
        while True:
            try:
                return work.get(timeout=_LOOK_S)
            except Empty:
                if self._loop.is_closed():
                    raise self._ended() from None

    def _ended(self) -> JMSException:
        self._if_ended()
        return JMSException("the event loop of the listener has ended: close the connection before that")


class Closing:
    """The base of objects that the end of an ``async with`` closes."""

    __slots__ = ()

    async def close(self) -> None:
        """Release the resources of this object. Closing twice does nothing."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Closes(Protocol):
    async def close(self) -> None: ...


_Made = TypeVar("_Made", bound=_Closes)


class Opening(Generic[_Made]):
    """The result of the `create_…` methods: ``await`` makes the object; so does ``async with``, which also closes it."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Awaitable[_Made]]) -> None:
        """`make` is called by each ``await``, and makes one object."""
        self._make = make
        self._made: _Made | None = None

    def __await__(self) -> Generator[Any, None, _Made]:
        return self._make().__await__()

    async def __aenter__(self) -> _Made:
        self._made = made = await self._make()
        return made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.close()
