"""Consumers and browsers for asyncio: any number of tasks wait for messages, and no thread does (JMS 1.1 §4.5, §5.9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from pyjms.aio.calls import Closing, Listening, SessionThread
from pyjms.aio.sessions import AwaitedSession, Receive, Wakeup, keep
from pyjms.api.consumer import QueueBrowser as Browser
from pyjms.api.destination import Queue
from pyjms.api.message import Message
from pyjms.errors import JMSException
from pyjms.runtime.checks import message_callback
from pyjms.runtime.consumer import JmsMessageConsumer

MessageListenerLike: TypeAlias = Callable[[Message], Awaitable[object] | object]
"""A coroutine function, or a function, of one message, or an object with such an `on_message`."""


class MessageConsumer(Closing):
    """A consumer of one destination, whose messages `receive`, ``async for`` or a listener gets."""

    def __init__(
        self,
        sync: JmsMessageConsumer,
        session: AwaitedSession,
        thread: SessionThread,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Made by a session."""
        self._sync = sync
        self._session = session
        self._thread = thread
        self._loop = loop
        self._listener: MessageListenerLike | None = None
        self._waiting: Receive | None = None
        assert isinstance(sync.inbox, Wakeup)
        # No thread sleeps on this inbox: the provider's wake-up is passed to the waiting receive.
        sync.inbox.answer = self._look

    @property
    def message_selector(self) -> str | None:
        """The selector's text, or None."""
        return self._sync.message_selector

    @property
    def message_listener(self) -> MessageListenerLike | None:
        """The listener, as it was set, or None."""
        # The runtime's consumer is asked first, as it refuses when it is closed.
        return None if self._sync.message_listener is None else self._listener

    async def set_message_listener(self, listener: MessageListenerLike | None) -> None:
        """Set the listener, which is called on the event loop with each message, one at a time in each session (§4.5.2); None: no listener.

        A coroutine function is awaited: the message is acknowledged when it is done, and redelivered if it raises, or is cancelled
        with the loop's other tasks. Raises IllegalArgumentException for an object that cannot be called; IllegalStateException while a receive
        of the session waits, and for another consumer's listener while the first one's may run.
        """
        called = None if listener is None else self._called(listener)
        if called is not None:
            self._session.check_receives_nothing()  # nor is a message in transit to a task, which the listener would get, too
        await self._thread.call(lambda: setattr(self._sync, "message_listener", called))
        self._listener = listener

    async def receive(self, timeout: int = 0) -> Message | None:  # noqa: ASYNC109 - as JMS has it
        """Return the next message, or None when `timeout` milliseconds passed (0: never) or the consumer was closed.

        If the task is cancelled, as by ``asyncio.timeout``, no message is lost: one that has arrived is returned by the next call.
        Raises IllegalStateException while another receive of the session waits.
        """
        try:
            is_over = timeout < 0
        except TypeError as error:
            raise JMSException(f"{timeout!r} is no timeout: use milliseconds, or 0 for no limit") from error
        if is_over:
            return await self.receive_no_wait()
        self._thread.check_loop()
        with self._session.receiving():
            self._waiting = Receive(self._sync, self._session, self._thread, self._loop, timeout)
            try:
                return await self._waiting.result()
            finally:
                self._waiting = None

    async def receive_no_wait(self) -> Message | None:
        """Return the next message if there is one now. Raises IllegalStateException while a receive of the session waits."""
        self._thread.check_loop()
        with self._session.receiving():
            return await self._thread.call(self._sync.receive_no_wait, undo=lambda _: keep(self._session, self._sync))

    def check_receives_nothing(self) -> None:
        """Raise IllegalStateException while a receive of the session waits."""
        self._session.check_receives_nothing()

    async def __aiter__(self) -> AsyncIterator[Message]:
        message = await self.receive()
        while message is not None:
            yield message
            # A receive of a closed consumer would raise, and the loop is to end.
            message = None if self._sync.is_ending else await self.receive()

    async def close(self) -> None:
        """Close; a waiting receive returns None, and a running listener of this consumer is waited for. May be repeated."""
        await self._thread.call(self._sync.close)

    def _called(self, listener: MessageListenerLike) -> Listening:
        # Without its event loop no listener can run any more: the session then stops letting messages through.
        return Listening(
            self._loop, message_callback(listener, awaits=True), self._thread, self._session.pause_delivery
        )

    def _look(self) -> None:
        """Have the waiting receive check for a message. Any thread; never blocks."""
        # The attribute is read once, as the event loop clears it meanwhile.
        waiting = self._waiting
        if waiting is not None:
            self._thread.post(waiting.look)


class QueueBrowser(Closing):
    """A browser; each ``async for`` browses the queue from its head again, and removes nothing."""

    def __init__(self, sync: Browser, thread: SessionThread) -> None:
        """Made by a session."""
        self._sync = sync
        self._thread = thread

    @property
    def queue(self) -> Queue:
        """The queue."""
        return self._sync.queue

    @property
    def message_selector(self) -> str | None:
        """The selector's text, or None."""
        return self._sync.message_selector

    async def __aiter__(self) -> AsyncIterator[Message]:
        messages = self._sync.enumeration
        while (message := await self._thread.call(lambda: next(messages, None))) is not None:
            yield message

    async def close(self) -> None:
        """End it. Closing twice does nothing."""
        self._sync.close()
