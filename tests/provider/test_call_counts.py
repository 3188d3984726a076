"""A send and a receive take no more Python calls than they did: the cost of the hot paths, which no clock blurs.

The counts are of the calling thread, and of many rounds the cheapest one counts: a thread that also helps others does more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyjms import ConnectionFactory, DeliveryMode, Message, Session
from tests.provider.commands.served import BrokerProcess

ROUNDS = 50
PATIENCE_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many Python calls each step may take, that of the API's method among them; a receive acknowledges, as its session is
    AUTO_ACKNOWLEDGE.
    """

    send: int
    receive: int
    persistent_send: int
    persistent_receive: int


LIMITS = {
    "vm": Limits(send=16, receive=17, persistent_send=16, persistent_receive=17),
    "sqlite": Limits(send=22, receive=20, persistent_send=29, persistent_receive=45),
    # A NON_PERSISTENT send is written by another thread or by this one, and a receive finds the message there or waits for it.
    "stomp": Limits(send=28, receive=60, persistent_send=45, persistent_receive=64),
}


def calls_of(step: Callable[[], object]) -> int:
    """Return how many Python functions this thread calls during `step`, `step` itself left out."""
    count = 0

    def on_event(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(on_event)
    try:
        step()
    finally:
        sys.setprofile(None)
    return count - 1


@contextmanager
def url_of(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a broker of this kind."""
    if kind != "stomp":
        yield f"vm://calls-{kind}" + (f"?store=sqlite:///{folder}/calls.db" if kind == "sqlite" else "")
        return
    broker = BrokerProcess(folder, "--listen", "stomp://127.0.0.1:0", "--anonymous")
    try:
        yield broker.announced("stomp")[0]
    finally:
        broker.end()


@pytest.mark.parametrize("kind", LIMITS)
def test_a_send_and_a_receive_take_no_more_calls(kind: str, tmp_path: Path) -> None:
    least: dict[str, int] = {}
    with url_of(kind, tmp_path) as url, ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("calls")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        connection.start()
        received: list[Message | None] = []
        for mode, prefix in ((DeliveryMode.NON_PERSISTENT, ""), (DeliveryMode.PERSISTENT, "persistent_")):
            producer.delivery_mode = mode
            for _ in range(ROUNDS):
                message = session.create_text_message("espresso")
                send = calls_of(lambda message=message: producer.send(message))  # type: ignore[misc]
                receive = calls_of(lambda: received.append(consumer.receive(PATIENCE_MS)))
                for step, count in ((f"{prefix}send", send), (f"{prefix}receive", receive)):
                    least[step] = min(count, least.get(step, count))
        assert len(received) == 2 * ROUNDS
        assert None not in received
    limits = LIMITS[kind]
    assert {step: count for step, count in least.items() if count > getattr(limits, step)} == {}
