"""What judges the deaths in `make soak-spark` can tell: a message that a pipeline loses or repeats is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyjms.spi import Address, AddressKind, ConnectRequest, GroupRequest, SystemClock, find_provider
from pyjms.spi.url import ProviderUrl
from tests.pyjms.spark.killing import judged
from tests.pyjms.spark.messages_of import fill, take
from tests.pyjms.spark.served import ServedBroker

NUMBER = 6


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


class Events:
    def on_exception(self, error: Exception) -> None: ...


def pipe(url: str, *, without: int | None = None, twice: int | None = None) -> None:
    """Move messages from ``orders`` to ``out`` as a pipeline does, with their ids; and lose one, or send one twice."""
    request = ConnectRequest(
        url=ProviderUrl.parse(url), user_name=None, password=None, client_id=None, clock=SystemClock()
    )
    connection = find_provider("stomp").connect(request, Events())
    groups = connection.reader_groups()
    opened = groups.open(GroupRequest(name="g", address=Address(AddressKind.QUEUE, "orders")))
    after = opened.group.low
    high = groups.reserve(opened, after=after, max_messages=100, max_bytes=None, wait_ms=0)
    session = connection.open_session(transacted=True)
    for message in groups.read("g", opened.group.generation, after=after, upto=high):
        moved = replace(message.envelope, destination=Address(AddressKind.QUEUE, "out"))
        place = message.number - after
        for _ in range(0 if place == without else 2 if place == twice else 1):
            session.send(moved)
    session.commit()
    groups.acknowledge(opened, high)
    connection.close()


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ({}, {"moved": NUMBER}),
        ({"without": 2}, {"moved": NUMBER - 1, "lost": 1}),
        ({"twice": 3}, {"moved": NUMBER, "delivered-after-ack": 1, "redelivered-without-flag": 1}),
    ],
)
def test_what_a_pipeline_loses_or_repeats_is_found(
    broker: ServedBroker, tmp_path: Path, fault: dict[str, int], found: dict[str, int]
) -> None:
    recorded = f"{broker.url}?record={tmp_path}"
    fill(recorded, NUMBER)
    pipe(broker.url, **fault)
    take(recorded, "out", NUMBER + 1)
    assert judged(tmp_path) == found
