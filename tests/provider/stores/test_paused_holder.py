"""A broker whose process was stopped while a stand-by broker took its store over hands out nothing of it when it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from urllib.parse import quote

import pytest

from pyjms import ConnectionFactory, Session, TextMessage
from pyjms.spi.clock import SystemClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.stores.sql.database import LEASE_S
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.paused_holder import EACH, QUEUES
from tests.system.network.raw import Raw

ROOT = Path(__file__).parents[3]
LONG_S = 30
ROUNDS = 3


class Holder:
    """The process."""

    def __init__(self, kind: str, url: str) -> None:
        self._url = url
        self._clock = SystemClock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.provider.stores.paused_holder", kind, url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = self._read().split()
        assert self.ready[:1] == ["ready"]
        self._stopped_ms = 0.0

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def go_on(self) -> None:
        """Say that it may do the next thing."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """Stop it, and return when it is."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)
        self._stopped_ms = self._clock.monotonic_ms()

    def resume(self) -> None:
        """Have it go on, when it was stopped for so long that it must know that it knows nothing."""
        Event().wait(max(0.0, self._stopped_ms + 1000 * LEASE_S - self._clock.monotonic_ms()) / 1000)
        self._process.send_signal(signal.SIGCONT)

    def rest(self) -> list[str]:
        """Return what it says until it ends."""
        assert self._process.stdout is not None
        return self._process.stdout.read().splitlines()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=LONG_S)


@pytest.fixture
def start_holder() -> Iterator[Callable[[str, str], Holder]]:
    holders: list[Holder] = []

    def start(kind: str, url: str) -> Holder:
        holders.append(Holder(kind, url))
        return holders[-1]

    yield start
    for holder in holders:
        holder.kill()


def end_session(postgresql: PostgresqlServer, url: str) -> None:
    """End the server's process that has a store's lock."""
    holder = postgresql.holder(url)  # others may have theirs: the server serves several tests
    with postgresql.connect() as administrator:
        ended = administrator.execute("SELECT pg_terminate_backend(%s, 10000)", (holder,)).fetchall()
    assert ended == [(True,)]


def take_over(url: str) -> list[str]:
    """Open the store, and receive and acknowledge all that is in it."""
    found: list[str] = []
    with ConnectionFactory(f"vm://second?store={quote(url, safe='')}").create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        for name in QUEUES:
            with session.create_consumer(session.create_queue(name)) as consumer:
                while (message := consumer.receive_no_wait()) is not None:
                    assert isinstance(message, TextMessage)
                    found.append(message.text or "")
                    message.acknowledge()
    stop_broker("second")
    return found


ALL = [f"{name} {number}" for name in QUEUES for number in range(1, EACH)]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_who_waits_listens_asks_or_browses_is_handed_nothing_that_another_broker_has_had(
    postgresql: PostgresqlServer, start_holder: Callable[[str, str], Holder], number: int
) -> None:
    url = postgresql.make_store()
    holder = start_holder("embedded", url)
    holder.stop()
    end_session(postgresql, url)
    assert take_over(url) == ALL
    holder.go_on()
    holder.resume()
    assert holder.rest() == ["done"]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_client_elsewhere_is_sent_nothing_that_another_broker_has_had(
    postgresql: PostgresqlServer, start_holder: Callable[[str, str], Holder], number: int
) -> None:
    url = postgresql.make_store()
    holder = start_holder("served", url)
    port = int(holder.ready[1])
    with Raw(port) as plain, Raw(port) as browsing:
        holder.stop()
        end_session(postgresql, url)
        assert take_over(url) == ALL
        plain.say("SUBSCRIBE\nid:1\ndestination:/queue/pulled\nack:client-individual\n\n")
        browsing.say("SUBSCRIBE\nid:1\ndestination:/queue/browsed\nbrowser:true\n\n")
        holder.resume()
        first = plain.socket.recv(65536) + browsing.socket.recv(65536)
        holder.go_on()
        assert b"MESSAGE" not in first + plain.rest() + browsing.rest()
        holder.go_on()
