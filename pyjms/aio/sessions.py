"""Sessions of the runtime whose receives wait on an event loop, while the session's thread is free for other calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Protocol

from pyjms.aio.calls import SessionThread
from pyjms.api.message import Message
from pyjms.errors import IllegalStateException
from pyjms.runtime.consumer import JmsMessageConsumer
from pyjms.runtime.context import JmsContext
from pyjms.runtime.error_mapping import mapped_errors
from pyjms.runtime.session import JmsSession
from pyjms.runtime.waiting import Inbox, start_thread
from pyjms.runtime.xa import JmsXAContext, JmsXASession
from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import ProviderError


class Wakeup(Inbox):
    """The inbox of a consumer without a waiting thread: a wake-up is passed on to the polling task. Any thread; never blocks."""

    __slots__ = ("answer",)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock.wait)
        # The provider's consumer may wake this inbox before the asyncio consumer has been made.
        self.answer: Callable[[], object] = _nobody_answers
        self.wake = self._ring

    def _ring(self) -> None:
        self.answer()


def _nobody_answers() -> None:
    """Do nothing: no task waits."""


class AwaitedSession(JmsSession):
    """A session of the common interfaces."""

    is_receiving = False
    """Whether a task is in a receive. Used on the event loop only."""

    def make_inbox(self) -> Inbox:
        return Wakeup(self.clock)

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Enter a receive, until its task has the message. Raises IllegalStateException while another task is in one."""
        self.check_receives_nothing()
        self.is_receiving = True
        try:
            yield
        finally:
            self.is_receiving = False

    def check_receives_nothing(self) -> None:
        """Raise IllegalStateException while a task is in a receive."""
        if self.is_receiving:
            # JMS 1.1 §4.4.6: a session is a single-threaded context
            raise IllegalStateException("another task waits in a receive of this session: use a session a task")

    def acknowledge(self, message: Message | None = None) -> None:
        if _runs_loop_here():  # it would wait for the disk, or for a broker, and run between the session's calls
            raise IllegalStateException(
                "message.acknowledge() would keep the event loop waiting: await session.acknowledge(message)"
            )
        super().acknowledge(message)


def _runs_loop_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class AwaitedXASession(AwaitedSession, JmsXASession):
    """A session that a transaction manager controls."""


class AwaitedContext(JmsContext):
    """A context whose receives wait on an event loop."""

    session_type: type[JmsSession] = AwaitedSession

    @property
    def session(self) -> AwaitedSession | None:
        """The session, if there is one yet."""
        assert self._session is None or isinstance(self._session, AwaitedSession)
        return self._session

    def name_of_thread(self) -> str:
        """Return a name for the thread that makes the session's calls."""
        return f"pyjms-aio-context-{self._connection.connection_id}:{self._connection.next_number()}"

    def check_receives_nothing(self) -> None:
        """Raise IllegalStateException while a task is in a receive."""
        session = self.session
        if session is not None:
            session.check_receives_nothing()

    def require_topics(self) -> None:
        """Raise JMSException when the provider has no topics."""
        self._connection.require(Capability.TOPICS, "topics")


class AwaitedXAContext(AwaitedContext, JmsXAContext):
    """A context that a transaction manager controls."""

    session_type: type[JmsXASession] = AwaitedXASession


class Receive:
    """One call of `receive`, from its first check to its end."""

    __slots__ = (
        "_consumer",
        "_context",
        "_has_looked",
        "_has_taken",
        "_is_over",
        "_loop",
        "_session",
        "_thread",
        "_timeout_ms",
        "future",
    )

    def __init__(
        self,
        consumer: JmsMessageConsumer,
        session: JmsSession,
        thread: SessionThread,
        loop: asyncio.AbstractEventLoop,
        timeout_ms: int,
    ) -> None:
        """`timeout_ms`: 0 for never."""
        self._consumer = consumer
        self._context = copy_context()
        self._session = session
        self._thread = thread
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._has_looked = False
        self._has_taken = False
        self._is_over = False
        self.future: asyncio.Future[Message | None] = loop.create_future()

    async def result(self) -> Message | None:
        """Return the message; None: the time is over, or the consumer was closed. Raises the error of the check for one."""
        timer = None
        if self._timeout_ms:
            timer = _timer(self._session.clock, self._loop, self._timeout_ms, self._expire_soon)
        try:
            if not self._thread.post(self.look):
                self.look()  # of a closed session, which refuses it at once
            message = await self.future
        except asyncio.CancelledError:
            self._thread.post(self._abandon)  # here, so that it is done before the task's next call
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return message

    def look(self) -> None:
        """Check for a message: at first, and when the consumer was woken. On the session's thread."""
        # A task that was cancelled has posted `_abandon`, which runs after this check: a message
        # taken now would belong to no task until then.
        if self._is_over or self.future.cancelled():
            return
        message = None
        try:
            # The first check raises on a closed consumer; a receive that has begun to wait returns None.
            if self._has_looked and self._consumer.is_ending:
                self._end(None)
                return
            self._has_looked = True
            # The check runs in the context of the task, where a tracer finds the present span.
            message = self._context.run(self._consumer.receive_or_enlist)
        except Exception as error:  # any error is passed to the task that awaits the receive
            self._fail(error)
            return
        if message is not None:
            self._end(message)

    def _expire_soon(self) -> None:
        self._thread.post(self._expire)

    def _expire(self) -> None:
        if not self._is_over:
            self._end(None)

    def _abandon(self) -> None:
        # The message was in transit to the task when that was cancelled: the next receive begins with it.
        if self._has_taken:
            keep(self._session, self._consumer)
        else:
            self._expire()

    def _end(self, message: Message | None) -> None:
        self._is_over = True
        self._has_taken = message is not None
        self._tell(partial(self._succeed, message), message)
        if message is None:
            self._wait_no_more()

    def _fail(self, error: Exception) -> None:
        self._is_over = True
        self._tell(partial(self._raise, error), None)
        self._wait_no_more()

    def _wait_no_more(self) -> None:
        with suppress(ProviderError):  # a receive that has ended may still be woken
            self._consumer.end_wait()

    def _tell(self, end: Callable[[], None], message: Message | None) -> None:
        try:
            self._loop.call_soon_threadsafe(end)
        except RuntimeError:  # the event loop was closed
            if message is not None:
                keep(self._session, self._consumer)

    # On the event loop

    def _succeed(self, message: Message | None) -> None:
        if not self.future.done():
            self.future.set_result(message)

    def _raise(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def keep(session: JmsSession, consumer: JmsMessageConsumer) -> None:
    """Leave a message that was taken, and that no task gets, to the consumer's next receive, or its listener. On the session's thread."""
    session.keep(consumer)


class _Timer(Protocol):
    def cancel(self) -> None: ...


def _timer(clock: Clock, loop: asyncio.AbstractEventLoop, timeout_ms: int, ring: Callable[[], None]) -> _Timer:
    """Call `ring` when that time has passed by the clock."""
    # The event loop's own timer goes by the machine's clock alone.
    if isinstance(clock, SystemClock) and clock.is_real:
        return loop.call_later(timeout_ms / 1000, ring)
    return _ClockTimer(clock, timeout_ms, ring)


class _ClockTimer:
    """A timer by a clock that is frozen, or moved by a test, which the event loop cannot use."""

    __slots__ = ("_clock", "_ring", "_signal", "_until_ms")

    def __init__(self, clock: Clock, timeout_ms: int, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._signal = Signal()
        self._until_ms = clock.monotonic_ms() + timeout_ms
        with mapped_errors:
            start_thread("pyjms-aio-timer", self._wait)

    def _wait(self) -> None:
        if not self._clock.wait(self._signal, self._until_ms):
            self._ring()

    def cancel(self) -> None:
        """Cancel the call of `ring`."""
        self._signal.set()
