"""Asynchronous sends against confirmed ones, over a network: PERSISTENT messages to our broker, which forces them to the disk.

``bench_async_send.py [ROUNDS [SCALE]]``: both take turns, so many rounds (5), and their medians are compared. SCALE (1) multiplies the numbers
of messages. An asynchronous send counts when its listener has heard of it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))
from measure import make_message, report
from network_brokers import our_broker_with

from pyjms import CompletionListener, ConnectionFactory, Message, MessageProducer, Session

CONFIRMED: Final = 300
ASYNCHRONOUS: Final = 3000
LEAST: Final = 3.0
_numbers = count(1)


class Outcomes(CompletionListener):
    """Counts the messages that were sent."""

    def __init__(self) -> None:
        self.sent = 0

    def on_completion(self, message: Message) -> None:
        """Count it."""
        self.sent += 1

    def on_exception(self, message: Message, exception: Exception) -> None:
        """Say why it was not sent; the count then shows that one is missing."""
        print(exception)


def confirmed(session: Session, producer: MessageProducer, messages: int) -> float:
    """Send so many messages, each confirmed; return how many a second."""
    begin = perf_counter()
    for _ in range(messages):
        producer.send(make_message(session))
    return messages / (perf_counter() - begin)


def asynchronous(session: Session, producer: MessageProducer, messages: int) -> float:
    """Send so many messages asynchronously; return how many a second."""
    outcomes, begin = Outcomes(), perf_counter()
    for _ in range(messages):
        producer.send(make_message(session), outcomes)
    producer.close()  # which waits for the outcomes
    took_s = perf_counter() - begin
    assert outcomes.sent == messages
    return messages / took_s


def compare(url: str, rounds: int, scale: float) -> bool:
    """Report the rate of asynchronous sends against that of confirmed ones."""
    rates: dict[str, list[float]] = {"confirmed": [], "asynchronous": []}
    with ConnectionFactory(url).create_connection() as connection, connection.create_session() as session:
        queue = session.create_queue(f"bench-{next(_numbers)}")
        for _ in range(rounds):
            rates["confirmed"].append(confirmed(session, session.create_producer(queue), int(CONFIRMED * scale)))
            rates["asynchronous"].append(
                asynchronous(session, session.create_producer(queue), int(ASYNCHRONOUS * scale))
            )
    middle = {name: statistics.median(each) for name, each in rates.items()}
    scheme = url.partition(":")[0]
    good = report(
        f"asynchronous sends over {scheme}:// / confirmed ones",
        middle["asynchronous"] / middle["confirmed"],
        least=LEAST,
    )
    print("      " + "; ".join(f"{name}: {rate:,.0f}/s" for name, rate in middle.items()))
    return good


def main() -> int:
    """Run and report."""
    arguments = sys.argv[1:]
    rounds = int(arguments[0]) if arguments else 5
    scale = float(arguments[1]) if len(arguments) > 1 else 1.0
    good = True
    with (
        tempfile.TemporaryDirectory(prefix="pyjms-bench-") as directory,
        our_broker_with(Path(directory), ("stomp", "amqp")) as (ports, _),
    ):
        for scheme, port in ports.items():
            good &= compare(f"{scheme}://127.0.0.1:{port}", rounds, scale)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
