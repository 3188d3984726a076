"""Orders and bookings go through while broker, engine, companies and desk are killed: all is done once, or undone once."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
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
from tests.provider.commands.served import PYJMS, environment
from tests.system.work.worker import open_database
from tests.tidy.source import ROOT

KILLS = int(os.environ.get("PYJMS_WORK_KILLS", "6"))
ORDERS = 4 + KILLS
REQUESTS = 4 + 2 * KILLS
PATIENCE_S = 120
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
    """The processes, each of which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.folder = folder
        self.url = f"stomp://127.0.0.1:{port}"
        self.store_url = f"sqlite:///{folder / 'flows.db'}"
        (folder / "order.toml").write_text(DEFINITION)
        worker = (sys.executable, "-m", "tests.system.work.worker")
        broker = ("broker", "run", "--listen", self.url, "--anonymous", "--store", f"sqlite:///{folder / 'broker.db'}")
        engine = ("flow", "run", self.url, str(folder / "order.toml"), "--store", self.store_url)
        self._commands: dict[str, tuple[str, ...]] = {
            "broker": (*PYJMS, *broker),
            "companies": (*worker, "companies", self.url, str(folder)),
            "engine": (*PYJMS, *engine),
            "desk": (*worker, "desk", self.url, str(folder), str(REQUESTS)),
        }
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._commands[name],
                cwd=ROOT,
                env=environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "provider")])),
                stdout=subprocess.PIPE if name == "broker" else log,
                stderr=log,
                text=True,
            )
        if name == "broker":
            out = self._running[name].stdout
            assert out is not None
            assert out.readline().startswith("listening"), self.log(name)

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def supervise(self) -> None:
        """Start the engine again that ended because there was no broker when it began; the others go on by themselves."""
        if self.has_ended("engine"):
            self._running.pop("engine").communicate()
            self.start("engine")

    def has_ended(self, name: str) -> bool:
        return self._running[name].poll() is not None

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-4000:]

    def end(self) -> None:
        for name in list(self._running):
            self.kill(name)


@pytest.fixture
def cast(tmp_path: Path) -> Iterator[Cast]:
    cast = Cast(tmp_path)
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


@pytest.mark.timeout(600)
@pytest.mark.realises("MOM-15", "MOM-17", "MOM-43", "MOM-54")
def test_whoever_is_killed_all_is_done_once_or_undone(cast: Cast) -> None:
    seed = random.randrange(10**9)
    chance, pause = random.Random(seed), threading.Event()
    for name in ("broker", "companies", "engine", "desk"):
        cast.start(name)
    begin_orders(cast.url)
    for _ in range(KILLS):
        pause.wait(chance.uniform(0.3, 2.5))
        victim = chance.choice(("broker", "companies", "engine", "desk"))
        cast.kill(victim)
        cast.start(victim)
    store = open_store(cast.store_url)
    deadline = time.monotonic() + PATIENCE_S
    while not all_ended(store, cast):
        assert time.monotonic() < deadline, f"seed {seed}\n" + "\n".join(map(cast.log, ("engine", "companies", "desk")))
        cast.supervise()
        pause.wait(0.2)
    ended = {each.id: each.status for each in store.instances(limit=ORDERS)}
    store.close()
    wanted: Counter[str] = Counter()
    for number in range(ORDERS):
        assert ended[f"order-{number}"] is (Status.COMPENSATED if number % 2 else Status.COMPLETED), seed
        steps = ("take", "pay", "refund", "give back") if number % 2 else ("take", "pay", "ship")
        wanted.update(f"{number} {each}" for each in steps)
    assert works(cast.folder / "a.db") + works(cast.folder / "b.db") + works(cast.folder / "c.db") == wanted, seed
    numbers = [str(number) for number in range(1, REQUESTS + 1)]
    assert works(cast.folder / "bookings.db") == Counter(f"booking {number}" for number in numbers), seed
    assert (cast.folder / "paper").read_text().split() == numbers, seed
