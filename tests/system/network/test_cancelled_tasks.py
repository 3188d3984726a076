"""Tasks that are cancelled at random in `receive`, `send`, `commit` and `acknowledge`, while their broker is stopped, or killed, and started again.

What a send or a commit has said to be done is received by somebody, what was settled for certain does not come again, and nothing hangs.
``PYJMS_CANCELLED=50`` says how many restarts; the default is 2.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from pyjms import JMSException, TextMessage
from pyjms.aio import Connection, ConnectionFactory, Session
from tests.ports import free_port
from tests.provider.commands.served import PATIENCE_S, BrokerProcess

RESTARTS = int(os.environ.get("PYJMS_CANCELLED", "2"))
_FINAL_MS = 500
_MOMENTS_S = (0.0, 0.0002, 0.001, 0.005, 0.02, 0.1)
_BETWEEN_S = (0.3, 1.0)

_Result = TypeVar("_Result")


class Work:
    """What tasks do with one queue, and what they were told."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.is_over = False
        self.sent: set[str] = set()
        """For certain."""
        self.came: set[str] = set()
        self.settled: set[str] = set()
        """For certain."""
        self.came_again: list[str] = []
        """Though they were settled for certain."""
        self.cancelled = 0

    async def cut(self, call: Coroutine[Any, Any, _Result], likely: float) -> _Result:
        """Await a call in a task, and perhaps cancel that at a random moment."""
        task = asyncio.ensure_future(call)
        if self.random.random() < likely:
            await asyncio.wait([task], timeout=self.random.choice(_MOMENTS_S))
            self.cancelled += task.cancel()
        return await task

    async def send(self, connection: Connection, name: str, *, transacted: bool) -> None:
        session = await connection.create_session(transacted)
        producer = await session.create_producer(session.create_queue("q"))
        number = 0
        while not self.is_over:
            texts: set[str] = set()
            try:
                for _ in range(self.random.randrange(1, 4) if transacted else 1):
                    number += 1
                    text = f"{name}-{number}"
                    try:
                        await self.cut(producer.send(session.create_text_message(text)), 0.3)
                        texts.add(text)
                    except asyncio.CancelledError:
                        pass  # it may be sent, or not
                if transacted:
                    await self.cut(session.commit(), 0.3)
            except (asyncio.CancelledError, JMSException):
                continue
            self.sent |= texts

    async def receive(self, connection: Connection, mode: int) -> None:
        """Receive until all is over and nothing is left."""
        session = await connection.create_session(mode == Session.SESSION_TRANSACTED, mode or Session.AUTO_ACKNOWLEDGE)
        consumer = await session.create_consumer(session.create_queue("q"))
        while True:
            is_last = self.is_over
            likely = 0.0 if is_last else 0.6
            text = ""
            try:
                message = await self.cut(consumer.receive(_FINAL_MS), likely)
                if message is None:
                    if is_last:
                        return
                    continue
                assert isinstance(message, TextMessage)
                text = str(message.text)
                self.note(text)
                if mode == Session.SESSION_TRANSACTED:
                    await self.cut(session.commit(), likely)
                elif mode == Session.CLIENT_ACKNOWLEDGE:
                    await self.cut(session.acknowledge(message), likely)
                else:
                    continue
            except (asyncio.CancelledError, JMSException):
                continue  # what came may be settled, or come again
            self.settled.add(text)

    def note(self, text: str) -> None:
        if text in self.settled:
            self.came_again.append(text)
        self.came.add(text)


@pytest.mark.timeout(300 if RESTARTS <= 10 else 7200)
@pytest.mark.parametrize(("protocol", "seed"), [("stomp", 1), ("stomp", 2), ("amqp", 3)])
def test_nothing_is_lost_and_nothing_hangs(tmp_path: Path, protocol: str, seed: int) -> None:
    address = f"{protocol}://127.0.0.1:{free_port()}"
    arguments = ("--listen", address, "--anonymous", "--store", f"sqlite:///{tmp_path}/x.db")
    work = Work(seed)
    url = f"{address}?reconnect_delay_max_ms=200"

    async def run() -> None:
        broker = await asyncio.to_thread(_started, tmp_path, arguments)
        try:
            async with (
                ConnectionFactory(url).create_connection() as sending,
                ConnectionFactory(url).create_connection() as receiving,
            ):
                await receiving.start()
                senders = [work.send(sending, str(each), transacted=each % 2 == 0) for each in range(4)]
                modes = (Session.SESSION_TRANSACTED, Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE) * 2
                tasks = [asyncio.ensure_future(each) for each in senders]
                tasks += [asyncio.ensure_future(work.receive(receiving, each)) for each in modes]
                for _ in range(RESTARTS):
                    await asyncio.wait(tasks, timeout=work.random.uniform(*_BETWEEN_S))
                    await asyncio.to_thread(broker.end, work.random.choice((signal.SIGTERM, signal.SIGKILL)))
                    broker = await asyncio.to_thread(_started, tmp_path, arguments)
                work.is_over = True
                async with asyncio.timeout(PATIENCE_S):
                    await asyncio.gather(*tasks)
        finally:
            await asyncio.to_thread(broker.end)

    asyncio.run(run())
    assert work.sent
    assert work.cancelled
    assert sorted(work.sent - work.came) == []
    assert work.came_again == []


def _started(folder: Path, arguments: tuple[str, ...]) -> BrokerProcess:
    broker = BrokerProcess(folder, *arguments)
    broker.announced(arguments[1].partition("://")[0])
    return broker
