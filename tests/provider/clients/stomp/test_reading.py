"""A thread that waits reads the socket itself, and loses nothing of what belongs to others."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, get_ident

import pytest

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.url import ProviderUrl
from pyjms.testing import VirtualClock
from pyjms_provider.clients.stomp.options import read_url
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker, Silent


class Threads(Silent):
    """Notes which thread was told of each frame; frame `n` raises the signal of that name."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.signals: dict[str, Signal] = {}
        self.came = Event()
        self.ended = Event()
        self.reason = ""
        self.fault: BaseException | None = None

    def on_message(self, physical: object, frame: Frame) -> None:
        self.told.append(get_ident())
        if self.fault is not None:
            raise self.fault
        if frame.headers.get("n") in self.signals:
            self.signals[frame.headers["n"]].set()
        self.came.set()

    def on_ended(self, physical: object, reason: str) -> None:
        self.reason = reason
        self.ended.set()


@contextmanager
def a_wire(broker: FakeBroker, clock: Clock | None = None) -> Iterator[tuple[PhysicalConnection, Threads]]:
    settings, threads = read_url(ProviderUrl.parse(broker.url)), Threads()
    wire = PhysicalConnection(1, settings.endpoints[0], settings, clock or SystemClock(), threads)
    wire.open({})
    come_back(wire)
    try:
        yield wire, threads
    finally:
        wire.close()
        wire.join(PATIENCE_S)


def come_back(wire: PhysicalConnection) -> None:
    """Return when the I/O thread lets others read, and is through with what it reads: who waits before that leaves it to that thread."""
    pause = Event()
    while wire._reader._fileno < 0 and not pause.wait(0.001):
        pass
    with wire._reader._right:
        pass


def wait(wire: PhysicalConnection, signal: Signal, *, patience_s: float = PATIENCE_S) -> bool:
    return wire.wait(signal, SystemClock().monotonic_ms() + patience_s * 1000)


def when_read_for(signal: Signal, do: Callable[[], object]) -> Thread:
    """Have another thread `do` something as soon as a thread that reads waits for `signal`."""

    def look_and_do() -> None:
        pause = Event()
        while signal.ring is None and not pause.wait(0.001):
            pass
        do()

    thread = Thread(target=look_and_do, daemon=True)
    thread.start()
    return thread


def test_who_waits_for_a_frame_reads_it_on_its_own_thread() -> None:
    with FakeBroker() as broker, a_wire(broker) as (wire, threads):
        threads.signals = {"1": Signal()}
        broker.push(Frame("MESSAGE", {"n": "0"}))
        assert threads.came.wait(PATIENCE_S)
        come_back(wire)
        pusher = when_read_for(threads.signals["1"], lambda: broker.push(Frame("MESSAGE", {"n": "1"})))
        assert wait(wire, threads.signals["1"])
        pusher.join()
        assert threads.told[0] != get_ident()
        assert threads.told[1] == get_ident()


@pytest.mark.parametrize("alone", [True, False])
def test_what_comes_after_the_wait_is_read_by_the_thread_of_the_connection(alone: bool) -> None:
    with FakeBroker() as broker, a_wire(broker) as (wire, threads):
        threads.alone = alone
        assert not wait(wire, Signal(), patience_s=0.01)
        broker.push(Frame("MESSAGE", {"n": "1"}))
        assert threads.came.wait(PATIENCE_S)
        assert get_ident() not in threads.told


def test_a_signal_that_another_thread_raises_ends_the_wait() -> None:
    with FakeBroker() as broker, a_wire(broker) as (wire, _):
        signal = Signal()
        raiser = when_read_for(signal, signal.set)
        assert wait(wire, signal)
        raiser.join()
        signal.set()
        assert wait(wire, signal, patience_s=0)
        assert not wait(wire, signal, patience_s=0)


def test_one_thread_reads_for_all_that_wait() -> None:
    with FakeBroker() as broker, a_wire(broker) as (wire, threads):
        threads.signals = {"1": Signal(), "2": Signal(), "3": Signal()}
        ended: list[bool] = []
        waiting = [Thread(target=lambda s=s: ended.append(wait(wire, s))) for s in threads.signals.values()]
        for thread in waiting:
            thread.start()
        for number in threads.signals:
            broker.push(Frame("MESSAGE", {"n": number}))
        for thread in waiting:
            thread.join(PATIENCE_S)
        assert ended == [True, True, True]


def test_the_end_of_the_connection_is_told_by_its_own_thread_also_when_another_one_read_it() -> None:
    with FakeBroker() as broker, a_wire(broker) as (wire, threads):
        signal = Signal()
        threads.on_ended = lambda physical, reason: (signal.set(), threads.ended.set())  # type: ignore[assignment, func-returns-value]
        when_read_for(signal, lambda: broker.push_bytes(b"MESSAGE\nname:\\t\n\n\0"))
        assert wait(wire, signal)
        assert threads.ended.wait(PATIENCE_S)


def test_a_wait_in_virtual_time_ends_with_that_time() -> None:
    clock = VirtualClock()
    with FakeBroker() as broker, a_wire(broker, clock) as (wire, threads):
        ended: list[bool] = []
        until_ms = clock.monotonic_ms() + 60_000
        waiting = Thread(target=lambda: ended.append(wire.wait(Signal(), until_ms)))
        waiting.start()
        broker.push(Frame("MESSAGE", {"n": "1"}))
        assert threads.came.wait(PATIENCE_S)
        assert threads.told != [waiting.ident]
        clock.advance(61_000)
        waiting.join(PATIENCE_S)
        assert ended == [False]


def test_a_system_without_epoll_has_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "epoll")
    with FakeBroker() as broker, a_wire(broker) as (wire, threads):
        threads.signals = {"1": Signal()}
        broker.push(Frame("MESSAGE", {"n": "1"}))
        assert wait(wire, threads.signals["1"])
        assert get_ident() not in threads.told
