"""Reader groups against a transacted consumer, and staged epochs against plain transactions, at a broker in this process."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from measure import PROPERTIES, TEXT, compare, report

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.provider import ConnectRequest, SubscribeRequest
from pyjms.spi.registry import find_provider
from pyjms.spi.replay import GroupRequest, StageName
from pyjms.spi.url import ProviderUrl

if TYPE_CHECKING:
    from pyjms.spi.errors import ProviderError
    from pyjms.spi.provider import ProviderConnection

MESSAGES = 10_000
BATCH = 1_000
QUEUE = Address(AddressKind.QUEUE, "q")
MESSAGE = Envelope(
    destination=QUEUE,
    message_id=MessageId("ID:bench"),
    timestamp_ms=1,
    expiration_ms=0,
    delivery_mode=2,
    priority=4,
    correlation_id=None,
    reply_to=None,
    jms_type=None,
    properties=MappingProxyType(PROPERTIES),  # type: ignore[arg-type]  # values that messages have
    body_kind=BodyKind.TEXT,
    body=TEXT,
)
_epochs = count(1)


class _Events:
    def on_exception(self, error: ProviderError) -> None:
        raise error


def connect() -> ProviderConnection:
    """Connect to the one broker of this benchmark, which keeps messages in memory."""
    url = ProviderUrl.parse("vm://bench-pipelines")
    request = ConnectRequest(url=url, user_name=None, password=None, client_id=None, clock=SystemClock())
    connection = find_provider("vm").connect(request, _Events())
    connection.start()
    return connection


def fill(connection: ProviderConnection) -> None:
    """Send in plain transactions."""
    session = connection.open_session(transacted=True)
    for number in range(1, MESSAGES + 1):
        session.send(MESSAGE)
        if number % BATCH == 0:
            session.commit()
    session.close()


def by_group() -> float:
    """Return messages a second: reserved, read and acknowledged by the thousand."""
    connection = connect()
    fill(connection)
    groups = connection.reader_groups()
    begin = perf_counter()
    opened = groups.open(GroupRequest(name="bench", address=QUEUE))
    low = opened.group.low
    for after in range(low, low + MESSAGES, BATCH):
        high = groups.reserve(opened, after=after, max_messages=BATCH, max_bytes=None, wait_ms=0)
        groups.read("bench", opened.group.generation, after=after, upto=high)
        groups.acknowledge(opened, high)
    rate = MESSAGES / (perf_counter() - begin)
    connection.close()
    return rate


def by_consumer() -> float:
    """Return messages a second: polled and acknowledged in transactions of a thousand."""
    connection = connect()
    fill(connection)
    session = connection.open_session(transacted=True)
    request = SubscribeRequest(address=QUEUE, selector=None, no_local=False, durable_name=None)
    consumer = session.subscribe(request, lambda: None)
    begin = perf_counter()
    for number in range(1, MESSAGES + 1):
        delivery = consumer.poll()
        assert delivery is not None
        session.acknowledge([delivery])
        if number % BATCH == 0:
            session.commit()
    rate = MESSAGES / (perf_counter() - begin)
    connection.close()
    return rate


def drained(connection: ProviderConnection) -> None:
    """Empty the queue, outside of what is measured."""
    session = connection.open_session(transacted=False)
    request = SubscribeRequest(address=QUEUE, selector=None, no_local=False, durable_name=None)
    consumer = session.subscribe(request, lambda: None)
    while (delivery := consumer.poll()) is not None:
        session.acknowledge([delivery])
    connection.close()


def staged() -> float:
    """Return messages a second: sent, staged by the thousand, and promoted as one epoch."""
    connection = connect()
    session, epoch = connection.open_session(transacted=True), next(_epochs)
    units: list[StageName] = []
    begin = perf_counter()
    for number in range(1, MESSAGES + 1):
        session.send(MESSAGE)
        if number % BATCH == 0:
            units.append(StageName("bench", epoch, len(units), "first"))
            session.stage(units[-1], keep_s=60)
    connection.stages().promote("bench", epoch, units)
    rate = MESSAGES / (perf_counter() - begin)
    drained(connection)
    return rate


def plain() -> float:
    """Return messages a second, sent in plain transactions."""
    connection = connect()
    begin = perf_counter()
    fill(connection)
    rate = MESSAGES / (perf_counter() - begin)
    drained(connection)
    return rate


def main() -> int:
    """Run and report."""
    pairs = (
        ("reserve, read and acknowledge / transacted consumer", by_group, by_consumer),
        ("stage and promote / plain transactions", staged, plain),
    )
    results = []
    for what, ours, theirs in pairs:
        result = compare(ours, theirs)
        detail = f"{result.ours:,.0f} and {result.theirs:,.0f} messages/s"
        results.append(report(what, result.ratio, least=0.3, detail=detail))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
