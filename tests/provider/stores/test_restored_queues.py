"""A queue is after a restart what it was before, whatever its order: on a store that finds messages many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest

from pyjms import Connection, ConnectionFactory, Message, Session
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms.testing import VirtualClock
from pyjms_provider.queue_manager import QueueManager

NAME = "vm://restored"
DELAY_MS = 1000


class Site:
    """A broker on a SQLite file that is stopped and started. Its clock stands still, so that no delay ends."""

    def __init__(self, path: Path) -> None:
        url = f"{NAME}?store={quote(f'sqlite:///{path}', safe='')}"
        self._factory = ConnectionFactory(url, clock=VirtualClock())
        self.connection = self._connect()

    def _connect(self) -> Connection:
        connection = self._factory.create_connection()
        connection.start()
        return connection

    @property
    def manager(self) -> QueueManager:
        return QueueManager.of("restored")

    def stop(self) -> None:
        self.connection.close()
        find_provider("vm").stop_broker(ProviderUrl.parse(NAME))

    def restart(self) -> None:
        self.stop()
        self.connection = self._connect()

    def send(self, random: Random, number: int) -> None:
        session = self.connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        message = session.create_text_message(str(number))
        message.set_int_property("key", random.randrange(3))
        lives_ms = random.choice([0, 0, 0, 10**9])  # what there is more to know of is found in another way
        session.create_producer(session.create_queue("orders")).send(
            message, priority=random.choice([0, 4, 4, 5, 9]), time_to_live=lives_ms
        )
        session.close()

    def receive(self, *, gives_back: bool) -> None:
        session = self.connection.create_session(True, Session.SESSION_TRANSACTED)
        consumer = session.create_consumer(session.create_queue("orders"))
        found: Message | None = consumer.receive_no_wait()
        if found is not None and gives_back:
            session.rollback()
        else:
            session.commit()
        session.close()

    def picture(self) -> tuple[list[str], list[str]]:
        """Return what may be received now, in order, and what is delayed: in any order, as delays begin anew."""
        found = [str(each.body) for each in self.manager.browse("orders")]
        available = len(found) - self.manager.report("orders").delayed
        return found[:available], sorted(found[available:])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "store.db")
    yield made
    made.stop()


CHOICES: list[dict[str, Any]] = [
    {},
    {"type": "priority", "priorities": 1},
    {"type": "priority", "priorities": 2},
    {"type": "sorted", "key": "key"},
    {"type": "last_value", "key": "key"},
    {"groups": True},
]


@pytest.mark.parametrize("delay_ms", [0, DELAY_MS], ids=["at once", "delayed"])
@pytest.mark.parametrize("choices", CHOICES, ids=lambda choices: "-".join(map(str, choices.values())) or "standard")
def test_a_queue_is_after_a_restart_what_it_was_before(site: Site, choices: dict[str, Any], delay_ms: int) -> None:
    site.manager.create("orders", redelivery_delay_ms=delay_ms, max_deliveries=0, **choices)
    random = Random(17)
    for number in range(60):
        if random.random() < 0.7:
            site.send(random, number)
        else:
            site.receive(gives_back=random.random() < 0.6)
        if number % 12 == 11:
            before = site.picture()
            site.restart()
            assert site.picture() == before
    assert site.picture()[0]
