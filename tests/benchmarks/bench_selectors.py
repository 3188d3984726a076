"""Selector evaluations a second, and their independence of the number of consumers that share a text."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))
from measure import REPEATS, compare, report

from pyjms import ConnectionFactory, DeliveryMode, Session
from pyjms.messages.bodies import JmsTextMessage
from pyjms.messages.freeze import freeze
from pyjms.spi import Address, AddressKind, Envelope, MessageId
from pyjms.spi.selector import compile_selector

SELECTOR = "region = 'EU' AND price BETWEEN 10 AND 20 AND name LIKE 'a%'"
EVALUATIONS = 200_000
BACKLOG = 20_000


def envelope() -> Envelope:
    """Return a message that the selector wants, so that every clause is evaluated."""
    message = JmsTextMessage("x")
    message.set_string_property("region", "EU")
    message.set_double_property("price", 12.5)
    message.set_string_property("name", "apple")
    return freeze(message, Address(AddressKind.QUEUE, "q"), MessageId("ID:1"), 1, 0, 1, 4)


def evaluations_per_second() -> float:
    """Return the median rate of `Selector.matches`."""
    matches, subject = compile_selector(SELECTOR).matches, envelope()
    assert matches(subject)
    rates = []
    for _ in range(REPEATS):
        begin = perf_counter()
        for _ in range(EVALUATIONS):
            matches(subject)
        rates.append(EVALUATIONS / (perf_counter() - begin))
    return statistics.median(rates)


def microseconds_per_message(consumers: int) -> float:
    """Return the cost of `consumers` looking once through a backlog that their common selector does not want."""
    with ConnectionFactory("vm://bench-selectors").create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_temporary_queue()
        producer = session.create_producer(queue)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        message = session.create_text_message("x")
        message.set_string_property("region", "EU")
        message.set_double_property("price", 99.0)
        for _ in range(BACKLOG):
            producer.send(message)
        waiting = [session.create_consumer(queue, SELECTOR) for _ in range(consumers)]
        connection.start()
        begin = perf_counter()
        for consumer in waiting:
            assert consumer.receive_no_wait() is None
        return (perf_counter() - begin) / BACKLOG * 1e6


def main() -> int:
    """Run and report."""
    good = report("selector evaluations a second", evaluations_per_second(), least=400_000)
    result = compare(lambda: microseconds_per_message(50), lambda: microseconds_per_message(1))
    detail = f"{result.theirs:.2f} µs a message with 1 consumer, {result.ours:.2f} µs with 50 that share the text"
    good &= report("selector cost, 50 consumers / 1", result.ratio, most=1.5, detail=detail)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
