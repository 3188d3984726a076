"""One producer thread and one consumer thread, against kombu's `memory://` with the same content."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from threading import Thread
from time import perf_counter

import kombu

sys.path.insert(0, str(Path(__file__).parent))
from measure import PROPERTIES, TEXT, compare, make_message, report

from pyjms import ConnectionFactory, DeliveryMode, Session

MESSAGES = 5_000


def ours() -> float:
    """Return messages a second from the first send to the last receive."""
    name = uuid.uuid4().hex
    with ConnectionFactory("vm://bench-two-threads").create_connection() as connection:
        connection.start()
        receiving = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = receiving.create_consumer(receiving.create_queue(name))

        def receive() -> None:
            for _ in range(MESSAGES):
                consumer.receive()

        thread = Thread(target=receive)
        thread.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue(name))
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        begin = perf_counter()
        for _ in range(MESSAGES):
            producer.send(make_message(session))
        thread.join()
        return MESSAGES / (perf_counter() - begin)


def theirs() -> float:
    """Return messages a second through kombu, whose consumer polls without a pause of its own."""
    name = uuid.uuid4().hex
    with kombu.Connection("memory://", transport_options={"polling_interval": 0.0005}) as connection:
        connection.connect()
        connection.transport.polling_interval = 0.0005
        queue = kombu.Queue(name, kombu.Exchange(name, "direct"), routing_key=name)
        queue(connection.channel()).declare()

        def receive() -> None:
            received = 0

            def on_message(message: kombu.Message) -> None:
                nonlocal received
                _ = message.payload
                message.ack()
                received += 1

            with kombu.Consumer(connection.channel(), [queue], on_message=on_message):
                while received < MESSAGES:
                    connection.drain_events()

        thread = Thread(target=receive)
        thread.start()
        producer = kombu.Producer(connection.channel())
        begin = perf_counter()
        for _ in range(MESSAGES):
            producer.publish(TEXT, routing_key=name, exchange=queue.exchange, headers=dict(PROPERTIES))
        thread.join()
        return MESSAGES / (perf_counter() - begin)


def main() -> int:
    """Run and report."""
    result = compare(ours, theirs)
    detail = f"{result.ours:,.0f} against {result.theirs:,.0f} messages/s"
    good = report("two threads, producer to consumer / kombu memory://", result.ratio, least=1.5, detail=detail)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
