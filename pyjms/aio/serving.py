"""Listeners that are coroutines: the session's own thread calls one, and serves it until it is done.

JMS 1.1 §4.4.6: that thread has the session while a listener runs. So it makes the calls of the session that the listener awaits, be it a
commit or a send; those of other tasks do not get in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from inspect import isawaitable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from pyjms.errors import JMSException

_Work: TypeAlias = Callable[[], object]

_LOOK_S: Final = 1.0
"""So often a thread that waits for a coroutine looks whether the event loop is there still."""


class _Served:
    """One call of a listener."""

    __slots__ = ("is_cancelled", "is_over", "owner", "work")

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.work: SimpleQueue[_Work | None] = SimpleQueue()
        self.is_cancelled = False
        """Whether the coroutine was cancelled with all tasks, as the event loop ends."""
        self.is_over = False
        """Set on the event loop, where it is also read: a task that outlives the listener asks the session's thread."""


_served: ContextVar[_Served | None] = ContextVar("pyjms_aio_served", default=None)


def current_work(owner: object) -> SimpleQueue[_Work | None] | None:
    """Return where the present task is to ask for work of `owner`: of the thread that serves it; None if it is in none of its listeners."""
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
        """`owner`: whose calls are made by the thread that waits; see `current_work`. `if_ended` is called when the event loop has ended."""
        self._loop = loop
        self._listener = listener
        self._owner = owner
        self._if_ended = if_ended

    def __call__(self, argument: object) -> None:
        """Return when the listener is done. Raises what it raises; JMSException when the event loop has ended."""
        served = _Served(self._owner)
        coroutine = self._run(served, argument)
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise self._ended() from None
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
            task = asyncio.current_task()
            served.is_cancelled = task is not None and task.cancelling() > 0
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
