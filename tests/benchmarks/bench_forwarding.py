"""Forwarding between two brokers, against a plain loop that receives, sends and commits in transactions of the same size.

The plain loop is what one writes without forwarding: it may double messages when it dies between its two commits. Both brokers
keep their messages in SQLite.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parent))
from measure import compare, make_message, report

from pyjms import ConnectionFactory, Session
from pyjms.forwarding import RouteSettings, RouteThread, Site, Target, Transfer, to_all
from pyjms.spi import Address, AddressKind, SystemClock
from pyjms_provider.broker import stop_all_brokers

MESSAGES = 1_500
BATCH = 100
LEAST = 0.5


class Sites:
    """Two brokers, and a client at each."""

    def __init__(self, folder: str) -> None:
        self.urls = [f"vm://bench-{name}?store={quote(f'sqlite:///{folder}/{name}.db')}" for name in ("here", "there")]
        self.connections = [ConnectionFactory(url).create_connection() for url in self.urls]
        for connection in self.connections:
            connection.start()

    def fill(self) -> None:
        """Put messages into the source."""
        session = self.connections[0].create_session(True, Session.SESSION_TRANSACTED)
        producer = session.create_producer(session.create_queue("orders"))
        for number in range(MESSAGES):
            producer.send(make_message(session))
            if number % BATCH == BATCH - 1:
                session.commit()
        session.commit()
        session.close()

    def empty(self) -> None:
        """Take them from the target, all of them."""
        session = self.connections[1].create_session(True, Session.SESSION_TRANSACTED)
        consumer = session.create_consumer(session.create_queue("inbox"))
        for _ in range(MESSAGES):
            assert consumer.receive(10_000) is not None
        assert consumer.receive_no_wait() is None
        session.commit()
        session.close()

    def forwarded_per_second(self) -> float:
        """Return the rate of a route."""
        self.fill()
        queue = Address(AddressKind.QUEUE, "orders")
        target = Target(site=Site(url=self.urls[1]), address=Address(AddressKind.QUEUE, "inbox"))
        settings = RouteSettings(name="bench", source=Target(site=Site(url=self.urls[0]), address=queue), batch=BATCH)
        begin = perf_counter()
        route = RouteThread(Transfer(settings, to_all([target]), lambda: [target], SystemClock()))
        while route.statistics().forwarded < MESSAGES:
            assert not route.wait(0.002), route.statistics()
        rate = MESSAGES / (perf_counter() - begin)
        route.stop()
        self.empty()
        return rate

    def looped_per_second(self) -> float:
        """Return the rate of the plain loop."""
        self.fill()
        begin = perf_counter()
        taking = self.connections[0].create_session(True, Session.SESSION_TRANSACTED)
        giving = self.connections[1].create_session(True, Session.SESSION_TRANSACTED)
        consumer = taking.create_consumer(taking.create_queue("orders"))
        producer = giving.create_producer(giving.create_queue("inbox"))
        for number in range(MESSAGES):
            message = consumer.receive(10_000)
            assert message is not None
            producer.send(message)
            if number % BATCH == BATCH - 1:
                giving.commit()
                taking.commit()
        rate = MESSAGES / (perf_counter() - begin)
        taking.close()
        giving.close()
        self.empty()
        return rate


def main() -> int:
    """Run and report."""
    with tempfile.TemporaryDirectory() as folder:
        sites = Sites(folder)
        result = compare(sites.forwarded_per_second, sites.looped_per_second)
        for connection in sites.connections:
            connection.close()
        stop_all_brokers()
    detail = f"{result.ours:,.0f} messages a second forwarded, {result.theirs:,.0f} by a plain transacted loop"
    return 0 if report("forwarding / plain loop", result.ratio, least=LEAST, detail=detail) else 1


if __name__ == "__main__":
    sys.exit(main())
