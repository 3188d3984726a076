"""Looking at a queue from asyncio (JMS 1.1 §5.9)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pyjms.aio.calls import SessionThread
from pyjms.aio.contexts import Closing
from pyjms.api.consumer import QueueBrowser as Browser
from pyjms.api.destination import Queue
from pyjms.api.message import Message


class QueueBrowser(Closing):
    """Each ``async for`` browses the queue from its head again, and removes nothing."""

    def __init__(self, beneath: Browser, thread: SessionThread) -> None:
        """Made by a session."""
        self._beneath = beneath
        self._thread = thread

    @property
    def queue(self) -> Queue:
        """The queue."""
        return self._beneath.queue

    @property
    def message_selector(self) -> str | None:
        """The selector's text, or None."""
        return self._beneath.message_selector

    async def __aiter__(self) -> AsyncIterator[Message]:
        messages = self._beneath.enumeration
        while (message := await self._thread.call(lambda: next(messages, None))) is not None:
            yield message

    async def close(self) -> None:
        """End it. Closing twice does nothing."""
        self._beneath.close()
