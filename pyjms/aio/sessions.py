"""Sessions of the runtime whose receives wait on an event loop, not on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyjms.api.message import Message
from pyjms.errors import IllegalStateException
from pyjms.runtime.session import JmsSession
from pyjms.runtime.waiting import Inbox
from pyjms.runtime.xa import JmsXASession
from pyjms.spi.clock import Clock


class Wakeup(Inbox):
    """The inbox of a consumer for which no thread waits: a wake-up is passed on to the task that polls. Any thread; never blocks."""

    __slots__ = ("answer",)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock.wait)
        self.answer: Callable[[], object] = _nobody_answers
        self.wake = self._ring

    def _ring(self) -> None:
        self.answer()


def _nobody_answers() -> None:
    """Nobody waits."""


class AwaitedSession(JmsSession):
    """A session of the common interfaces."""

    is_receiving = False
    """Whether a task is in a receive. Of the event loop alone."""

    def make_inbox(self) -> Inbox:
        return Wakeup(self.clock)

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Enter it around a receive, until its task has the message. Raises IllegalStateException while another task is in one."""
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

    def acknowledge(self, message: Message) -> None:
        if _runs_loop_here():  # it would wait for the disk, or for a broker, and come between the session's calls
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
