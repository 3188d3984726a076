"""kombu by pyjms against its own transports: `memory://` in one process, RabbitMQ by py-amqp on the network.

Everything above the transport is the same code. On the network messages are PERSISTENT, each send waits until the broker has it on the
disk, and each message is acknowledged by itself. RabbitMQ forces no acknowledgement to the disk.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

import kombu

sys.path.insert(0, str(Path(__file__).parent))
from measure import PROPERTIES, TEXT, compare, report
from network_brokers import TunedRabbitMq, our_broker

import pyjms.kombu  # noqa: F401 - makes the transport known

IN_MEMORY = 3_000
ON_THE_NETWORK = 500
CONFIRMED = {"confirm_publish": True}


class Received:
    """Consumes so many messages, and acknowledges each."""

    def __init__(self, connection: kombu.Connection, name: str, prefetch: int) -> None:
        self._connection = connection
        self._count = 0
        channel = connection.channel()
        channel.basic_qos(0, prefetch, False)
        queue = kombu.Queue(name, kombu.Exchange(""), routing_key=name)
        self._consumer = kombu.Consumer(channel, [queue], on_message=self._on_message)

    def _on_message(self, message: kombu.Message) -> None:
        _ = message.payload
        message.ack()
        self._count += 1

    def all(self, wanted: int) -> None:
        with self._consumer:
            while self._count < wanted:
                self._connection.drain_events()


def publish(connection: kombu.Connection, name: str, messages: int) -> None:
    producer = kombu.Producer(connection.channel())
    for _ in range(messages):
        producer.publish(TEXT, routing_key=name, headers=dict(PROPERTIES))


def between_threads(url: str) -> float:
    """Return messages a second from a thread to another one, in one process."""
    name = uuid.uuid4().hex
    with kombu.Connection(url, transport_options={"polling_interval": 0.0005}) as connection:
        kombu.Queue(name, kombu.Exchange(""), routing_key=name)(connection.channel()).declare()
        thread = Thread(target=Received(connection, name, 0).all, args=(IN_MEMORY,))
        thread.start()
        begin = perf_counter()
        publish(connection, name, IN_MEMORY)
        thread.join()
        return IN_MEMORY / (perf_counter() - begin)


def sent_and_received(url: str, prefetch: int) -> tuple[float, float]:
    """Return how many messages a second are sent, and then received."""
    name = uuid.uuid4().hex
    options: dict[str, Any] = CONFIRMED if url.startswith("amqp") else {}
    with kombu.Connection(url, transport_options=options) as connection:
        kombu.Queue(name, kombu.Exchange(""), routing_key=name)(connection.channel()).declare()
        begin = perf_counter()
        publish(connection, name, ON_THE_NETWORK)
        sent = perf_counter()
        Received(connection, name, prefetch).all(ON_THE_NETWORK)
        return ON_THE_NETWORK / (sent - begin), ON_THE_NETWORK / (perf_counter() - sent)


def _part(url: str, prefetch: int, which: int) -> Callable[[], float]:
    return lambda: sent_and_received(url, prefetch)[which]


def main() -> int:
    """Run and report."""
    result = compare(partial(between_threads, "pyjms+vm://bench-kombu"), partial(between_threads, "memory://"))
    detail = f"{result.ours:,.0f} against {result.theirs:,.0f} messages/s"
    good = report("kombu in one process, pyjms+vm:// / memory://", result.ratio, detail=detail, least=0.15)
    with tempfile.TemporaryDirectory(prefix="pyjms-bench-") as directory:
        ours_in = Path(directory, "ours")
        ours_in.mkdir()
        rabbitmq = TunedRabbitMq(Path(directory, "rabbitmq"))
        try:
            rabbitmq.start()
            with our_broker(ours_in) as (port, _):
                ours, theirs = (
                    f"pyjms+stomp://127.0.0.1:{port}",
                    f"amqp://guest:guest@127.0.0.1:{rabbitmq.ports['amqp']}//",
                )
                rows = [
                    ("sending, confirmed", ours, 0, 0, 0.5),
                    ("receiving, each acknowledgement on the disk", ours, 10, 1, 0.05),
                    ("receiving", f"{ours}?confirm_acknowledge=no", 10, 1, 0.1),
                    (
                        "receiving, prefetch_messages=10",
                        f"{ours}?confirm_acknowledge=no&prefetch_messages=10",
                        10,
                        1,
                        0.1,
                    ),
                ]
                for what, url, prefetch, which, least in rows:
                    result = compare(_part(url, prefetch, which), _part(theirs, prefetch, which))
                    detail = f"{result.ours:,.0f} against {result.theirs:,.0f} messages/s"
                    good &= report(f"kombu {what}, pyjms+stomp:// / amqp://", result.ratio, detail=detail, least=least)
        finally:
            rabbitmq.kill()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
