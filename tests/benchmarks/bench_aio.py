"""Calls that a task awaits, against the same calls handed to threads by hand, and against a call of an executor that does nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))
from measure import compare, make_message, report

from pyjms import ConnectionFactory, DeliveryMode, Session, aio

MESSAGES: Final = 3_000
TOGETHER: Final = 100


async def _rate(act: Callable[[], Awaitable[object]]) -> float:
    await act()
    begin = perf_counter()
    for _ in range(MESSAGES):
        await act()
    return MESSAGES / (perf_counter() - begin)


@asynccontextmanager
async def _connected() -> AsyncIterator[tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]]:
    """Give what sends a message, and what receives one."""
    async with aio.ConnectionFactory("vm://bench-aio").create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        queue = session.create_queue("q")
        producer, consumer = await session.create_producer(queue), await session.create_consumer(queue)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        beneath = session._sync
        yield lambda: producer.send(make_message(beneath)), consumer.receive


async def _ours() -> float:
    async with _connected() as (send, receive):

        async def act() -> None:
            await send()
            await receive()

        return await _rate(act)


async def _together() -> float:
    async with _connected() as (send, receive):
        begin = perf_counter()
        for _ in range(MESSAGES // TOGETHER):
            await asyncio.gather(*(send() for _ in range(TOGETHER)))
            for _ in range(TOGETHER):
                await receive()
        return MESSAGES / (perf_counter() - begin)


async def _by_hand() -> float:
    """Hand each call to a thread, as who has no `pyjms.aio` does."""
    with ConnectionFactory("vm://bench-aio").create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("q")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT

        async def act() -> None:
            await asyncio.to_thread(producer.send, make_message(session))
            await asyncio.to_thread(consumer.receive)

        return await _rate(act)


async def _nothing() -> float:
    """Two changes of threads and back, for nothing."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:

        async def act() -> None:
            await loop.run_in_executor(pool, int)
            await loop.run_in_executor(pool, int)

        return await _rate(act)


def main() -> int:
    """Run and report."""
    good = True
    for what, ours, name, theirs, least in (
        ("awaited, send and receive", _ours, "asyncio.to_thread", _by_hand, 1.0),
        ("awaited, send and receive", _ours, "an executor that does nothing", _nothing, 0.5),
        (f"awaited, {TOGETHER} sends together, then received", _together, "one by one", _ours, 1.0),
    ):
        result = compare(lambda run=ours: asyncio.run(run()), lambda run=theirs: asyncio.run(run()))  # type: ignore[misc]
        detail = f"{1e6 / result.ours:.1f} µs a message against {1e6 / result.theirs:.1f} µs"
        good &= report(f"{what} / {name}", result.ratio, least=least, detail=detail)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
