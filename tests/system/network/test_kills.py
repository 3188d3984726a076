"""The broker is killed under load, without a moment's notice, and started again: what it had promised, it keeps.

``PYJMS_NETWORK_KILLS=50`` says how often; the default is 3.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from pyjms.history import record
from tests.ports import free_port
from tests.provider.commands.served import BrokerProcess
from tests.system.network.crowd import Crowd

KILLS = int(os.environ.get("PYJMS_NETWORK_KILLS", "3"))


class Mortal:
    """A broker on SQLite that dies and comes back at the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._process = self._start()

    def _start(self) -> BrokerProcess:
        listen = f"stomp://127.0.0.1:{self.port}"
        process = BrokerProcess(self._folder, "--listen", listen, "--anonymous", "--store", "sqlite:///kept.db")
        process.announced("stomp")
        return process

    def die_and_rise(self, after_s: float) -> None:
        """Die so much later, at a moment that nobody has chosen."""
        Event().wait(after_s)
        self._process.end(signal.SIGKILL)
        self._process = self._start()

    def end(self) -> None:
        self._process.end()


@pytest.mark.timeout(60 if KILLS <= 3 else 7200)
def test_a_broker_that_is_killed_under_load_keeps_its_promises(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    broker, random = Mortal(folder), Random(7)
    try:
        with record(tmp_path / "history") as recording:
            crowd = Crowd(broker.port, recording)
            for _ in range(KILLS):
                dying = Thread(target=broker.die_and_rise, args=(random.uniform(0.05, 0.6),))
                dying.start()
                while dying.is_alive():
                    crowd.work()
                crowd.check_that_all_receive()
            assert len(crowd.heard.errors) >= KILLS
            crowd.drain()
            crowd.close()
            report = recording.check(complete=True)
            assert report.events > 100
            assert report.violations == (), str(report)
    finally:
        broker.end()
