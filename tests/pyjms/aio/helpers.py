"""What the tests for asyncio share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any

from pyjms.aio import MessageConsumer, MessageProducer, Session
from pyjms.api.message import Message, TextMessage

LIMIT_S = 60
"""So long a test may take: a wait without an end is to fail, and to show where it waits."""
SOON_MS = 30_000
"""How long something may take that must come."""


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Have pytest run a test that is a coroutine function, on an event loop of its own."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(LIMIT_S):
                await test(*arguments, **named)

        asyncio.run(limited())

    return run


async def sent(session: Session, producer: MessageProducer, *texts: str) -> None:
    """Send texts, one after the other."""
    for text in texts:
        await producer.send(session.create_text_message(text))


async def texts(consumer: MessageConsumer, count: int) -> list[str]:
    """Receive so many texts."""
    return [text_of(await consumer.receive(SOON_MS)) for _ in range(count)]


def text_of(message: Message | None) -> str:
    """Return the text of a message that must be there."""
    assert isinstance(message, TextMessage), message
    return str(message.text)


class _Turn:
    def __await__(self) -> Generator[None, None, None]:
        yield


async def turn() -> None:
    """Let the event loop's other tasks have their turn."""
    await _Turn()


async def until_it_waits(session: Session) -> None:
    """Return when all that tasks have asked of the session before was done, or waits for a message."""
    await turn()  # so that a new task comes to its first call
    await session.create_producer()
