"""The forwarder and both brokers are killed at every point between two commits: each message is at the other site exactly once.

``PYJMS_FORWARD_KILLS=150`` says how often; the default is 6: two of a broker, and four of the forwarder, where it hurts most.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path
from random import Random

import pytest

from pyjms import ConnectionFactory, Session
from tests.pyjms.forwarding.sites import until
from tests.system.forwarding.worker import POINTS
from tests.system.network.test_kills import Mortal

KILLS = int(os.environ.get("PYJMS_FORWARD_KILLS", "6"))
WORKER = Path(__file__).parent / "worker.py"
ROUND = 12
CI = [
    ("there", "here commit"),
    ("here", "there committed"),
    *(("forwarder", point) for point in POINTS if point.startswith(("there commit", "here commit"))),
]


class Worker:
    """The forwarder's process."""

    def __init__(self, here: str, there: str, point: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), here, there, point],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def await_point(self, point: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == f"at {point}"

    def go_on(self, point: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{point}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def url(broker: Mortal) -> str:
    return f"stomp://127.0.0.1:{broker.port}?reconnect=no&timeout_ms=5000"


def put(broker: Mortal, numbers: count[int], many: int) -> None:
    with ConnectionFactory(url(broker)).create_connection() as connection:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        with session.create_producer(session.create_queue("orders")) as producer:
            for _ in range(many):
                producer.send(session.create_text_message(str(next(numbers))))
        session.commit()


def texts(broker: Mortal, queue: str) -> list[str]:
    with ConnectionFactory(url(broker)).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        connection.start()
        with session.create_browser(session.create_queue(queue)) as browser:
            return [message.text for message in browser]  # type: ignore[attr-defined]  # texts are all that is there


@pytest.mark.realises("MOM-36")
@pytest.mark.timeout(180 if len(CI) >= KILLS else 7200)
def test_each_message_is_at_the_other_site_once_whoever_is_killed(tmp_path: Path) -> None:
    random, numbers = Random(5), count()
    plan = (
        CI[:KILLS]
        if len(CI) >= KILLS
        else [(random.choice(["forwarder", "here", "there"]), random.choice(POINTS)) for _ in range(KILLS)]
    )
    sites = {}
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        sites[name] = Mortal(tmp_path / name)
    here, there = sites["here"], sites["there"]
    worker = Worker(url(here), url(there), plan[0][1])
    try:
        for number, (victim, point) in enumerate(plan):
            put(here, numbers, ROUND)
            following = plan[number + 1][1] if number + 1 < len(plan) else ""
            worker.await_point(point)
            if victim == "forwarder":
                worker.kill()
                worker = Worker(url(here), url(there), following)
            else:
                sites[victim].die_and_rise(0)
                worker.go_on(following)
        sent = [str(each) for each in range(next(numbers))]
        until(lambda: len(texts(there, "inbox")) >= len(sent) and not texts(here, "orders"))
        assert texts(there, "inbox") == sent
        assert texts(here, "orders.undeliverable") == []
    finally:
        worker.kill()
        here.end()
        there.end()
