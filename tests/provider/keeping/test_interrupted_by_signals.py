"""Signals interrupt the main thread at any moment while it works with a broker, as Ctrl-C does: nobody waits for ever."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.clients.vm_session import VmSession
from pyjms_provider.settings import BrokerSettings, StoreSettings
from tests.provider.helpers import make_envelope
from tests.provider.keeping.site import BILLS, ORDERS, consume, take_all
from tests.pyjms.runtime.helpers import Call

INTERRUPTS = 300


class Signals:
    """A timer whose signal interrupts the main thread, but only where it is to."""

    def __init__(self) -> None:
        self.is_armed = False

    def __call__(self, *_: object) -> None:
        if self.is_armed:
            raise KeyboardInterrupt


@pytest.fixture
def signals() -> Iterator[Signals]:
    """Give a handler of the timer, and put back what was there."""
    signals = Signals()
    before = signal.signal(signal.SIGALRM, signals)
    timer = signal.setitimer(signal.ITIMER_REAL, 0)
    yield signals
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, *timer)


class Ears:
    def on_exception(self, error: BaseException) -> None:
        """Hear that the broker stops."""


def open_session(broker: EmbeddedBroker) -> VmSession:
    connection = VmConnection(broker, Ears())
    connection.start()
    return connection.open_session(transacted=False)


def send(session: VmSession, to: Address) -> None:
    session.send(replace(make_envelope("text", destination=to), delivery_mode=2))


# Python cannot raise what comes in the callback of a weak reference, and tells of it only.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("is_alone", [True, False])
def test_others_go_on_and_the_broker_stops(tmp_path: Path, signals: Signals, is_alone: bool) -> None:
    random = Random(20)
    settings = BrokerSettings(store=StoreSettings(url=f"sqlite:///{tmp_path}/store.db"))
    broker = EmbeddedBroker("shop", SystemClock(), settings)
    is_over = Event()

    def send_on() -> int:
        session, sent = open_session(broker), 0
        while not is_over.is_set():
            send(session, BILLS)
            sent += 1
        return sent

    others = [] if is_alone else [Call(send_on), Call(send_on)]
    session = open_session(broker)
    consumer = consume(session)
    interrupts = 0
    while interrupts < INTERRUPTS:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.random() * 0.0008 + 1e-6)
            signals.is_armed = True
            try:
                send(session, ORDERS)
                taken: list[Delivery] = take_all(consumer)
                session.acknowledge(taken)
            finally:
                signals.is_armed = False
        except KeyboardInterrupt:
            interrupts += 1
            if interrupts % 20 == 0:  # else it takes long
                Call(lambda: send(open_session(broker), BILLS)).result()
    signal.setitimer(signal.ITIMER_REAL, 0)
    is_over.set()
    assert all(other.result() > 0 for other in others)
    Call(broker.stop).result()
