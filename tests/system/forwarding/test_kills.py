"""The forwarder and both brokers are killed at every point between two commits: each message is at exactly one site, and at the end at
the other one, once. Histories of both sites are recorded, and judged.

``PYJMS_FORWARD_KILLS=250`` says how often; the default is 10: at each point the forwarder, and each broker twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Literal
from urllib.parse import quote

import pytest

from pyjms import ConnectionFactory, Session
from pyjms.history import Recording, read, record
from pyjms_provider.broker import stop_broker
from pyjms_provider.queue_manager import QueueManager
from tests.ports import free_port
from tests.pyjms.forwarding.sites import until
from tests.system.following import astray
from tests.system.forwarding.worker import POINTS
from tests.system.nursery import BROKER, Child

KILLS = int(os.environ.get("PYJMS_FORWARD_KILLS", "10"))
WORKER = "tests.system.forwarding.worker:main"
ROUND = 12
SiteName = Literal["here", "there"]
CI = [
    *(("forwarder", point) for point in POINTS),
    ("there", "here commit"),
    ("here", "there committed"),
    ("there", "there commit"),
    ("here", "here commit"),
]


class Site:
    """A broker on SQLite that dies and comes back at the same port, with the history of its clients."""

    def __init__(self, folder: Path, name: SiteName, protocol: str) -> None:
        self.name = name
        self._folder = folder / name
        self._folder.mkdir()
        self._listen = f"{protocol}://127.0.0.1:{free_port()}"
        self.url = f"{self._listen}?reconnect=no&timeout_ms=5000"
        self._make_queues()
        self.recording: Recording = record(folder / "history" / name, run=name, synchronous=True)
        self._broker = self._start()

    def _make_queues(self) -> None:
        """Have the store keep queues with one consumer at a time and no limit of deliveries.

        What dies often gives back often: else a message that comes for the third time would be overtaken while it stays away.
        """
        name = f"kills-{self.name}"
        url = f"vm://{name}?store={quote(f'sqlite:///{self._folder}/kept.db', safe='')}"
        try:
            with ConnectionFactory(url).create_connection():
                for queue in ("orders", "inbox"):
                    QueueManager.of(name).create(queue, exclusive=True, max_deliveries=0)
        finally:
            stop_broker(name)

    def _start(self) -> Child:
        options = ("run", "--listen", self._listen, "--anonymous", "--store", "sqlite:///kept.db")
        child = Child(BROKER, *options, folder=self._folder, log=self._folder / "log")
        assert child.read_line() == f"listening {self._listen}", (self._folder / "log").read_text()
        return child

    def die_and_rise(self) -> None:
        """Die, and come back at the same port."""
        began_ns = self.recording.now_ns()
        self._broker.kill()
        self.recording.broker_died(began_ns)
        self._broker = self._start()

    def end(self) -> None:
        self._broker.kill()

    def put(self, numbers: count[int], many: int) -> None:
        """Send messages to be forwarded."""
        with ConnectionFactory(self.url, record=self.recording).create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            with session.create_producer(session.create_queue("orders")) as producer:
                for _ in range(many):
                    producer.send(session.create_text_message(str(next(numbers))))
            session.commit()

    def texts(self, queue: str, *, recorded: bool = False) -> list[str]:
        """Look at a queue."""
        factory = ConnectionFactory(self.url, record=self.recording) if recorded else ConnectionFactory(self.url)
        with factory.create_connection() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            connection.start()
            with session.create_browser(session.create_queue(queue)) as browser:
                return [message.text for message in browser]  # type: ignore[attr-defined]  # texts are all that is there

    def drain(self, queue: str) -> list[str]:
        """Take all messages of a queue."""
        taken: list[str] = []
        with ConnectionFactory(self.url, record=self.recording).create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            connection.start()
            with session.create_consumer(session.create_queue(queue)) as consumer:
                while message := consumer.receive(10_000 if not taken else 5_000):
                    taken.append(message.text)  # type: ignore[attr-defined]  # texts are all that is there
                session.commit()
        return taken


@pytest.fixture
def start_site(tmp_path: Path) -> Iterator[Callable[[SiteName, str], Site]]:
    sites: list[Site] = []

    def start(name: SiteName, protocol: str) -> Site:
        sites.append(Site(tmp_path, name, protocol))
        return sites[-1]

    yield start
    for each in sites:
        each.end()


class Forwarder:
    """The forwarder's process, one after the other."""

    def __init__(self, folder: Path, here: Site, there: Site, point: str) -> None:
        self._folder = folder
        self._sites = (here, there)
        self.pids: set[str] = set()
        self._dead: tuple[int, list[int]] | None = None
        self._start(point)

    def _start(self, point: str) -> None:
        urls = (site.url for site in self._sites)
        folder = self._folder
        self._child = Child(WORKER, *urls, point, str(folder / "history"), folder=folder, log=folder / "forwarder.log")
        self.pids.add(str(self._child.pid))

    def await_point(self, point: str) -> None:
        """Wait until it stops where it was told to. What a dead one held has come to this one."""
        assert self._child.read_line() == f"at {point}", (self._folder / "forwarder.log").read_text()
        if self._dead is not None:
            pid, since = self._dead
            for site, since_ns in zip(self._sites, since, strict=True):
                site.recording.process_died(pid, since_ns)
            self._dead = None

    def go_on(self, point: str) -> None:
        self._child.write_line(point)

    def die_and_rise(self, point: str) -> None:
        self._dead = self._child.pid, [site.recording.now_ns() for site in self._sites]
        self._child.kill()
        self._start(point)

    def end(self) -> None:
        self._child.kill()


@pytest.mark.xdist_group("forked")
@pytest.mark.realises("MOM-36")
@pytest.mark.timeout(400 if len(CI) >= KILLS else 14_400)
@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_each_message_is_at_exactly_one_site_whoever_is_killed(
    tmp_path: Path, protocol: str, start_site: Callable[[SiteName, str], Site]
) -> None:
    random, numbers = Random(5), count()
    victims = ["forwarder", "here", "there"]
    plan = CI[:KILLS] if len(CI) >= KILLS else [(random.choice(victims), random.choice(POINTS)) for _ in range(KILLS)]
    here, there = start_site("here", protocol), start_site("there", protocol)
    forwarder = Forwarder(tmp_path, here, there, plan[0][1])
    try:
        for number, (victim, point) in enumerate(plan):
            here.put(numbers, ROUND)
            following = plan[number + 1][1] if number + 1 < len(plan) else ""
            forwarder.await_point(point)
            if victim == "forwarder":
                forwarder.die_and_rise(following)
            else:
                (here if victim == "here" else there).die_and_rise()
                forwarder.go_on(following)
        sent = [str(each) for each in range(next(numbers))]
        until(lambda: len(there.texts("inbox")) >= len(sent) and not here.texts("orders"))
    finally:
        forwarder.end()
    assert here.texts("orders", recorded=True) == []
    assert here.texts("orders.undeliverable") == []
    assert there.drain("inbox") == sent
    judge(tmp_path / "history", {here.name: here, there.name: there}, forwarder.pids, len(sent))


def judge(folder: Path, sites: dict[SiteName, Site], forwarders: set[str], sent: int) -> None:
    """Judge the history of each site by itself, and both together."""
    for site in sites.values():
        report = site.recording.check(complete=True)
        assert report.events > sent
        assert [each.text for each in report.violations] == [], site.name
    at_here, at_there = (read(folder / name).events for name in ("here", "there"))
    assert astray(at_here, at_there, "queue://orders", "queue://inbox", forwarders) == []
