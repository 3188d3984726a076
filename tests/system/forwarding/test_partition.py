"""Two sites that hear nothing of each other for longer than every timeout: nothing is lost, nothing doubled."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event

import pytest

from pyjms.spi.routes import RouteStatistics
from pyjms_provider.serving.served_broker import ServedBroker
from tests.pyjms.forwarding.sites import Client, queue_at, route, running, statistics_when
from tests.system.network.proxy import Proxy
from tests.system.network.served import anonymous_broker

pytestmark = pytest.mark.realises("MOM-36")
QUICK = "timeout_ms=300&connect_timeout_ms=300&reconnect=no"
SILENCE = {"stomp": "heart_beat_ms=200", "amqp": "idle_timeout_ms=400"}


class Border(Proxy):
    """A relay that can be closed: what is sent stays on its way, and arrives when it is open again."""

    def __init__(self, target: tuple[str, int], protocol: str) -> None:
        self.is_open = Event()
        self.is_open.set()
        super().__init__(target, protocol=protocol)

    def _pass_on(self, sink: socket.socket, data: bytes) -> None:
        while not self.is_open.wait(0.05):
            if self._over.is_set():
                return
        super()._pass_on(sink, data)


def port_of(broker: ServedBroker) -> int:
    (address,) = broker.addresses()
    return int(address.rpartition(":")[2])


@contextmanager
def client(protocol: str, port: int) -> Iterator[Client]:
    made = Client(f"{protocol}://127.0.0.1:{port}")
    try:
        yield made
    finally:
        made.close()


@pytest.mark.timeout(240)  # who only waits hears of a silence after 21 s: our broker's heart-beats come each 10 s
@pytest.mark.parametrize("side", ["the target", "the source"])
@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_a_partition_longer_than_every_timeout_loses_and_doubles_nothing(protocol: str, side: str) -> None:
    with (
        anonymous_broker(name=protocol, type=protocol) as here,
        anonymous_broker(name=protocol, type=protocol) as there,
    ):
        away = there if side == "the target" else here
        with (
            Border(("127.0.0.1", port_of(away)), protocol) as border,
            client(protocol, port_of(here)) as a,
            client(protocol, port_of(there)) as b,
        ):
            ports = {"here": port_of(here), "there": port_of(there)}
            ports["there" if side == "the target" else "here"] = border.port
            options = f"{QUICK}&{SILENCE[protocol]}"
            source = queue_at(f"{protocol}://127.0.0.1:{ports['here']}?{options}", "orders")
            target = queue_at(f"{protocol}://127.0.0.1:{ports['there']}?{options}", "inbox")
            with running(route(source, batch=5), target) as thread:
                for number in range(3):
                    for each in range(20):
                        a.put("orders", str(number * 20 + each))
                    failures = thread.statistics().failures
                    border.is_open.clear()
                    a.put("orders", f"in the dark {number}")
                    statistics_when(thread, partial(has_failed, failures + 3))
                    border.is_open.set()
                statistics_when(thread, lambda seen: seen.state.value == "running")
                got = [b.take("inbox").text for _ in range(63)]
            assert len(set(got)) == 63
            assert got == sorted(got, key=order)
            assert (a.texts("orders"), b.texts("inbox")) == ([], [])


def order(text: str) -> float:
    """Return the place of a message among all that were sent."""
    return int(text.rpartition(" ")[2]) * 20 + 19.5 if text.startswith("in") else int(text)


def has_failed(so_often: int, seen: RouteStatistics) -> bool:
    """Whether a route has tried something in vain so often."""
    return seen.failures >= so_often
