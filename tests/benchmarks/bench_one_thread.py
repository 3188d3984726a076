"""Send then receive in one thread, against `queue.Queue` carrying the same content copied."""

from __future__ import annotations

import sys
from pathlib import Path
from queue import Queue
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))
from measure import PROPERTIES, TEXT, compare, make_message, report

from pyjms import ConnectionFactory, DeliveryMode, Session

MESSAGES = 10_000


def ours() -> float:
    """Return messages a second: made, sent NON_PERSISTENT, received with AUTO_ACKNOWLEDGE, one after the other."""
    with ConnectionFactory("vm://bench-one-thread").create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("q")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        connection.start()
        begin = perf_counter()
        for _ in range(MESSAGES):
            producer.send(make_message(session))
            consumer.receive()
        return MESSAGES / (perf_counter() - begin)


def theirs() -> float:
    """Return messages a second through `queue.Queue`, text and dict copied."""
    queue: Queue[tuple[str, dict[str, object]]] = Queue()
    begin = perf_counter()
    for _ in range(MESSAGES):
        queue.put((TEXT, dict(PROPERTIES)))
        queue.get()
    return MESSAGES / (perf_counter() - begin)


def main() -> int:
    """Run and report."""
    result = compare(ours, theirs)
    detail = f"{1e6 / result.ours:.1f} µs a message against {1e6 / result.theirs:.1f} µs"
    good = report("one thread, send and receive / queue.Queue", result.ratio, least=0.07, detail=detail)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
