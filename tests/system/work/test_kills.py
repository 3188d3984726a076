"""Orders and bookings go through while broker, engine, companies and desk are killed: all is done once, or undone once.

``PYJMS_WORK_KILLS=250`` says how often; the default is 4. What all clients asked for and got is recorded, and judged too.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from pyjms import ConnectionFactory, Session
from pyjms.flows import FlowClient, FlowStore, Status
from pyjms.flows.store import open_store
from pyjms.history import record
from pyjms.recoverable import PersistentSession
from tests.ports import free_port
from tests.system.nursery import BROKER, FLOW, Child
from tests.system.work.worker import STEPS, open_database

KILLS = int(os.environ.get("PYJMS_WORK_KILLS", "4"))
ORDERS = 4 + KILLS // 2
REQUESTS = 4 + KILLS
PATIENCE_S = 120 + KILLS
WORKER = "tests.system.work.worker:main"
NAMES = ("broker", "companies", "engine", "desk")
QUEUES = (*STEPS, "bookings", "pyjms.flows", "pyjms.flows.bad", "pyjms.registered.desk", "pyjms.replies.desk", "DLQ")
DEFINITION = """
name = "order"
[[step]]
name = "take"
queue = "a.take"
compensation = "a.give"
timeout_s = 600
[[step]]
name = "pay"
queue = "b.pay"
compensation = "b.refund"
timeout_s = 600
[[step]]
name = "ship"
queue = "c.ship"
timeout_s = 600
"""


class Cast:
    """The processes, each of which can be killed and started again, and the history of all that they ask of the broker."""

    def __init__(self, folder: Path, protocol: str) -> None:
        listen = f"{protocol}://127.0.0.1:{free_port()}"
        history = folder / "history"
        self.folder = folder
        self.recording = record(history, synchronous=True)
        self.url = f"{listen}?record={history}&record_synchronously=true"
        self.store_url = f"sqlite:///{folder / 'flows.db'}"
        (folder / "order.toml").write_text(DEFINITION)
        store = f"sqlite:///{folder / 'broker.db'}"
        self._commands: dict[str, tuple[str, ...]] = {
            "broker": (BROKER, "run", "--listen", listen, "--anonymous", "--store", store),
            "companies": (WORKER, "companies", self.url, str(folder)),
            "engine": (FLOW, "run", self.url, str(folder / "order.toml"), "--store", self.store_url),
            "desk": (WORKER, "desk", self.url, str(folder), str(REQUESTS)),
            "transacted": (WORKER, "till", self.url, str(REQUESTS), "transacted"),
            "alone": (WORKER, "till", self.url, str(REQUESTS), "alone"),
        }
        self._running: dict[str, Child] = {}
        self._deaths: list[tuple[int, int]] = []

    def start(self, name: str) -> None:
        child = Child(*self._commands[name], folder=self.folder, log=self.folder / f"{name}.log")
        self._running[name] = child
        if name == "broker":
            assert child.read_line().startswith("listening"), self.log(name)

    def kill(self, name: str) -> None:
        child, since_ns = self._running.pop(name), self.recording.now_ns()
        child.kill()
        if name == "broker":
            self.recording.broker_died(since_ns)
        else:
            self._deaths.append((child.pid, since_ns))

    def has_ended(self, name: str) -> bool:
        return self._running[name].has_ended()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-4000:]

    def end(self) -> None:
        for name in list(self._running):
            self.kill(name)

    def judge(self) -> None:
        """Have the history judged, once all queues were looked at, so that it shows what is left."""
        with ConnectionFactory(self.url).create_connection() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            connection.start()
            for queue in QUEUES:
                with session.create_browser(session.create_queue(queue)) as browser:
                    list(browser)
        for pid, since_ns in self._deaths:  # the broker knows by now
            self.recording.process_died(pid, since_ns)
        report = self.recording.check()
        assert report.events > 10 * (ORDERS + REQUESTS)
        assert [each.text for each in report.violations] == []


@pytest.fixture(params=["stomp", "amqp"])
def cast(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cast]:
    cast = Cast(tmp_path, request.param)
    yield cast
    cast.end()


def begin_orders(url: str) -> None:
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(True, Session.AUTO_ACKNOWLEDGE)
        client = FlowClient(session)
        for number in range(ORDERS):
            client.start("order", {"order": number, "refused": number % 2 == 1}, instance=f"order-{number}")
        session.commit()


def works(path: Path) -> Counter[str]:
    engine = open_database(path)
    with engine.connect() as connection:
        found = Counter(connection.execute(text("SELECT what FROM works")).scalars())
    engine.dispose()
    return found


def all_ended(store: FlowStore, cast: Cast) -> bool:
    return sum(each.status.is_final for each in store.instances(limit=ORDERS)) == ORDERS and cast.has_ended("desk")


@pytest.mark.timeout(600 if KILLS <= 10 else 14_400)
@pytest.mark.xdist_group("forked")  # what they are forked from is made once for both tests of kills
@pytest.mark.realises("MOM-15", "MOM-17", "MOM-43", "MOM-54")
def test_whoever_is_killed_all_is_done_once_or_undone(cast: Cast) -> None:
    seed = random.randrange(10**9)
    chance, pause = random.Random(seed), threading.Event()
    for name in NAMES:
        cast.start(name)
    begin_orders(cast.url)
    for _ in range(KILLS):
        pause.wait(chance.uniform(0.1, 1.2))
        victim = chance.choice(NAMES)
        cast.kill(victim)
        cast.start(victim)
    store = open_store(cast.store_url)
    deadline = time.monotonic() + PATIENCE_S
    while not all_ended(store, cast):
        assert time.monotonic() < deadline, f"seed {seed}\n" + "\n".join(map(cast.log, ("engine", "companies", "desk")))
        pause.wait(0.2)
    ended = {each.id: each.status for each in store.instances(limit=ORDERS)}
    store.close()
    cast.judge()
    wanted: Counter[str] = Counter()
    for number in range(ORDERS):
        assert ended[f"order-{number}"] is (Status.COMPENSATED if number % 2 else Status.COMPLETED), seed
        steps = ("take", "pay", "refund", "give back") if number % 2 else ("take", "pay", "ship")
        wanted.update(f"{number} {each}" for each in steps)
    assert works(cast.folder / "a.db") + works(cast.folder / "b.db") + works(cast.folder / "c.db") == wanted, seed
    numbers = [str(number) for number in range(1, REQUESTS + 1)]
    assert works(cast.folder / "bookings.db") == Counter(f"booking {number}" for number in numbers), seed
    assert (cast.folder / "paper").read_text().split() == numbers, seed


@pytest.mark.timeout(600 if KILLS <= 10 else 14_400)
@pytest.mark.xdist_group("forked")
@pytest.mark.realises("MOM-23", "MOM-35")
@pytest.mark.parametrize("till", ["transacted", "alone"])
def test_a_client_without_a_log_goes_on_from_what_the_queue_manager_tells_it(cast: Cast, till: str) -> None:
    """Client and broker are killed; the tags alone say which request was enqueued, and which reply was dequeued."""
    seed = random.randrange(10**9)
    chance, pause = random.Random(seed), threading.Event()
    for name in ("broker", "companies", till):
        cast.start(name)
    while not works(cast.folder / "bookings.db"):
        pause.wait(0.05)
    victims = ["broker", till, *(chance.choice(["broker", till]) for _ in range(KILLS - 2))]
    for victim in chance.sample(victims, len(victims)):
        pause.wait(chance.uniform(0.05, 0.8))
        cast.kill(victim)
        cast.start(victim)
    deadline = time.monotonic() + PATIENCE_S
    while not cast.has_ended(till):
        assert time.monotonic() < deadline, f"seed {seed}\n" + "\n".join(map(cast.log, ("companies", till)))
        pause.wait(0.05)
    numbers = [str(number) for number in range(1, REQUESTS + 1)]
    assert works(cast.folder / "bookings.db") == Counter(f"booking till {number}" for number in numbers), seed
    assert "did not come" not in cast.log(till), seed
    with ConnectionFactory(cast.url).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        connection.start()
        for queue, wanted in (("till.replies", []), ("till.taken", numbers if till == "transacted" else [])):
            with session.create_browser(session.create_queue(queue)) as browser:
                assert [message.text for message in browser] == wanted, (seed, queue)  # type: ignore[attr-defined]
        known = PersistentSession(session, "till")
        assert (known.last_request, known.last_reply) == (numbers[-1], numbers[-1]), seed
