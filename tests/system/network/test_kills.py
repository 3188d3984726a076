"""The broker is killed under load, without a moment's notice, and started again, or stopped for a while: what it had
promised, it keeps.

``PYJMS_NETWORK_KILLS=50`` says how often; the default is 3. ``PYJMS_NETWORK_SEED`` chooses other moments.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from threading import Condition, Event, Thread

import pytest

from pyjms import ConnectionFactory, JMSException, Session, TextMessage
from pyjms.history import record
from pyjms_tck.background import Background
from tests.ports import free_port
from tests.provider.commands.served import PATIENCE_S, BrokerProcess
from tests.system.network.crowd import Crowd

_log = logging.getLogger(__name__)
KILLS = int(os.environ.get("PYJMS_NETWORK_KILLS", "3"))
_CONFIRMED_KILLS = 3
_BETWEEN = 200
"""So many messages are confirmed both ways between two kills, at least."""
_FINAL_MS = 1_000
SEED = int(os.environ.get("PYJMS_NETWORK_SEED", "7"))


class Mortal:
    """A broker on SQLite that dies and comes back at the same port."""

    def __init__(self, folder: Path, protocol: str) -> None:
        self._folder = folder
        self._protocol = protocol
        self.port = free_port()
        self._process = self._start()
        self._changing = Thread()

    def _start(self) -> BrokerProcess:
        listen = f"{self._protocol}://127.0.0.1:{self.port}"
        process = BrokerProcess(self._folder, "--listen", listen, "--anonymous", "--store", "sqlite:///kept.db")
        process.announced(self._protocol)
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

    def die_and_rise(self) -> None:
        """Die at once, and come back."""
        self._process.end(signal.SIGKILL)
        self._process = self._start()

    def _die_and_rise(self, after_s: float) -> None:
        Event().wait(after_s)
        self.die_and_rise()

    def _faint(self, after_s: float) -> None:
        Event().wait(after_s)
        self._process.process.send_signal(signal.SIGSTOP)
        Event().wait(after_s)
        self._process.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        if self.is_changing:
            self._changing.join()
        self._process.end()


class Ledger:
    """What one client has sent, another one received, and what the broker has confirmed of both."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.sent: set[str] = set()
        """For certain."""
        self.came: set[str] = set()
        self.acknowledged: set[str] = set()
        """For certain."""
        self.came_again: list[str] = []
        """Though they were acknowledged for certain."""
        self.is_over = False

    def send(self, session: Session) -> None:
        """Send until it is over."""
        producer = session.create_producer(session.create_queue("orders"))
        for number in count():
            if self.is_over:
                return
            with suppress(JMSException):  # in doubt: it may come, or not
                producer.send(session.create_text_message(str(number)))
                with self._changed:
                    self.sent.add(str(number))
                    self._changed.notify_all()

    def receive(self, session: Session) -> None:
        """Receive, and acknowledge each message, until it is over and nothing is left."""
        consumer = session.create_consumer(session.create_queue("orders"))
        while (message := consumer.receive(_FINAL_MS)) is not None or not self.is_over:
            if message is None:
                continue
            assert isinstance(message, TextMessage)
            text = str(message.text)
            if text in self.acknowledged:
                self.came_again.append(text)
            self.came.add(text)
            with suppress(JMSException):  # in doubt, or too late: it may come again
                message.acknowledge()
                with self._changed:
                    self.acknowledged.add(text)
                    self._changed.notify_all()

    def grow(self) -> None:
        """Wait until so many more messages were confirmed both ways."""
        with self._changed:
            sent, acknowledged = len(self.sent) + _BETWEEN, len(self.acknowledged) + _BETWEEN
            assert self._changed.wait_for(
                lambda: len(self.sent) >= sent and len(self.acknowledged) >= acknowledged, PATIENCE_S
            )


@pytest.mark.timeout(300)  # a busy machine starts a broker slowly
def test_what_was_confirmed_over_amqp_is_kept_and_what_was_acknowledged_does_not_come_again(tmp_path: Path) -> None:
    broker, ledger = Mortal(tmp_path, "amqp"), Ledger()
    factory = ConnectionFactory(f"amqp://127.0.0.1:{broker.port}?reconnect_delay_max_ms=100")
    try:
        with factory.create_connection() as sending, factory.create_connection() as receiving:
            receiving.start()
            work = (
                Background(partial(ledger.send, sending.create_session(False, Session.AUTO_ACKNOWLEDGE)), PATIENCE_S),
                Background(
                    partial(ledger.receive, receiving.create_session(False, Session.CLIENT_ACKNOWLEDGE)), PATIENCE_S
                ),
            )
            for _ in range(_CONFIRMED_KILLS):
                ledger.grow()
                broker.die_and_rise()
            ledger.grow()
            ledger.is_over = True
            for each in work:
                each.result()
    finally:
        broker.end()
    assert ledger.sent - ledger.came == set()
    assert ledger.came_again == []


@pytest.mark.timeout(300 if KILLS <= 3 else 7200)  # a busy machine starts a broker slowly
@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_a_broker_that_is_killed_and_stopped_under_load_keeps_its_promises(protocol: str, tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    broker, random = Mortal(folder, protocol), Random(SEED)
    try:
        with record(tmp_path / "history") as recording:
            crowd = Crowd(broker.port, recording, protocol)
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
