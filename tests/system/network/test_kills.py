"""The broker is killed under load, without a moment's notice, and started again, or stopped for a while: what it had
promised, it keeps.

``PYJMS_NETWORK_KILLS=50`` says how often; the default is 3.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from pyjms.history import record
from tests.ports import free_port
from tests.provider.commands.served import BrokerProcess
from tests.system.network.crowd import Crowd

_log = logging.getLogger(__name__)
KILLS = int(os.environ.get("PYJMS_NETWORK_KILLS", "3"))


class Mortal:
    """A broker on SQLite that dies and comes back at the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._process = self._start()
        self._changing = Thread()

    def _start(self) -> BrokerProcess:
        listen = f"stomp://127.0.0.1:{self.port}"
        process = BrokerProcess(self._folder, "--listen", listen, "--anonymous", "--store", "sqlite:///kept.db")
        process.announced("stomp")
        return process

    def begin_to_die(self, after_s: float) -> None:
        """Die so much later, at a moment that nobody has chosen, and come back."""
        self._begin(self._die_and_rise, after_s)

    def begin_to_faint(self, after_s: float) -> None:
        """Stand still so much later, for as long (SIGSTOP)."""
        self._begin(self._faint, after_s)

    @property
    def is_changing(self) -> bool:
        """Whether it has not yet come back."""
        return self._changing.is_alive()

    def _begin(self, change: Callable[[float], None], after_s: float) -> None:
        self._changing = Thread(target=change, args=(after_s,))
        self._changing.start()

    def _die_and_rise(self, after_s: float) -> None:
        Event().wait(after_s)
        self._process.end(signal.SIGKILL)
        self._process = self._start()

    def _faint(self, after_s: float) -> None:
        Event().wait(after_s)
        self._process.process.send_signal(signal.SIGSTOP)
        Event().wait(after_s)
        self._process.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        if self.is_changing:
            self._changing.join()
        self._process.end()


@pytest.mark.timeout(300 if KILLS <= 3 else 7200)  # a busy machine starts a broker slowly
def test_a_broker_that_is_killed_and_stopped_under_load_keeps_its_promises(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    broker, random = Mortal(folder), Random(7)
    try:
        with record(tmp_path / "history") as recording:
            crowd = Crowd(broker.port, recording)
            for _ in range(KILLS):
                for change in (broker.begin_to_die, broker.begin_to_faint):
                    change(random.uniform(0.05, 0.6))
                    while broker.is_changing:
                        crowd.work()
                    crowd.check_that_all_receive()
            assert len(crowd.heard.errors) >= KILLS
            crowd.drain()
            crowd.close()
            report = recording.check(complete=True)
            assert report.events > 100
            _log.info("%d kills, %d losses told, %d events judged", KILLS, len(crowd.heard.errors), report.events)
            assert report.violations == (), str(report)
    finally:
        broker.end()
