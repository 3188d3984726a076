"""Memory of queued messages, and of one message with many subscribers; cost of a publish by their number."""

from __future__ import annotations

import gc
import statistics
import sys
from pathlib import Path
from time import perf_counter

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from measure import REPEATS, TEXT, make_message, report

from pyjms import ConnectionFactory, DeliveryMode, MessageConsumer, Session, TextMessage

QUEUED = 100_000
SUBSCRIBERS = 1_000


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def bytes_per_message() -> float:
    """Return the growth of the process for each of `QUEUED` messages, each with a text of its own."""
    with ConnectionFactory("vm://bench-memory").create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("q"))
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        producer.send(make_message(session))
        before = resident_bytes()
        for number in range(QUEUED):
            producer.send(make_message(session, f"{number:024d}{TEXT[24:]}"))
        return (resident_bytes() - before) / QUEUED


def fan_out(subscribers: int) -> tuple[float, int]:
    """Return the microseconds of one publish, and how many bodies `subscribers` copies of a 1 MiB message hold."""
    with ConnectionFactory(f"vm://bench-fan-out-{subscribers}").create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        topic = session.create_topic("t")
        consumers = [session.create_consumer(topic) for _ in range(subscribers)]
        publisher = session.create_producer(topic)
        publisher.delivery_mode = DeliveryMode.NON_PERSISTENT
        connection.start()
        publisher.send(make_message(session))
        times = []
        for _ in range(REPEATS * 4):
            message = make_message(session)
            begin = perf_counter()
            publisher.send(message)
            times.append(perf_counter() - begin)
        while consumers[0].receive_no_wait() is not None:
            for consumer in consumers[1:]:
                consumer.receive_no_wait()
        publisher.send(session.create_text_message("x" * 2**20))
        bodies = {id(_text(consumer)) for consumer in consumers}
        return statistics.median(times) * 1e6, len(bodies)


def _text(consumer: MessageConsumer) -> str | None:
    message = consumer.receive_no_wait()
    assert isinstance(message, TextMessage)
    return message.text


def main() -> int:
    """Run and report."""
    size = bytes_per_message()
    good = report("KiB of memory for a queued message", size / 1024, most=2.2, detail=f"{QUEUED:,} messages")
    few, _ = fan_out(SUBSCRIBERS // 10)
    many, bodies = fan_out(SUBSCRIBERS)
    good &= report(f"bodies in memory for {SUBSCRIBERS:,} subscribers", bodies, most=1)
    detail = f"{few:.0f} µs with {SUBSCRIBERS // 10}, {many:.0f} µs with {SUBSCRIBERS:,}"
    good &= report("publish, 10 times the subscribers / once", many / few, most=15, detail=detail)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
