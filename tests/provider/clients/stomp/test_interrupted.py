"""After a Ctrl-C at any place of a send or of a wait the connection goes on, or ends and is made anew: nothing stands still."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import ConnectionLostError, ResourceError
from pyjms_provider.clients.stomp.link import LinkState
from pyjms_provider.clients.stomp.outbox import Outbox, OutboxClosedError
from pyjms_provider.clients.stomp.reading import Reading
from pyjms_provider.clients.stomp.wire import Wire, WireEndedError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.stores.codec import encode
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.profiled.peer import Peer, linked
from tests.provider.clients.stomp.test_reading import a_wire, come_back, wait
from tests.provider.clients.stomp.world import QUICKLY, connected
from tests.provider.helpers import make_envelope
from tests.provider.interruptions import Interruption, each_interruption

HEAD = b"ACK\nsession:s1\nids:"
MESSAGE = encode(make_envelope("a"))


def acts() -> dict[str, Callable[[Outbox], object]]:
    return {
        "put": lambda outbox: outbox.put(b"-new-"),
        "put what is corked": lambda outbox: outbox.put(b"-new-", corked=True),
        "put much that is corked": lambda outbox: outbox.put(b"-new-" * 10_000, corked=True),
        "gather": lambda outbox: outbox.gather("s1", MESSAGE),
        "gather for another session": lambda outbox: outbox.gather("s2", MESSAGE),
        "gather, and write": lambda outbox: outbox.gather("s1", MESSAGE, corked=False),
        "acknowledge": lambda outbox: outbox.acknowledge(HEAD, 1, 1),
        "uncork": lambda outbox: outbox.uncork(),
    }


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", list(acts()))
def test_an_outbox_goes_on_after_an_interrupt_or_says_that_it_has_ended(name: str, *, shared: bool) -> None:
    def attempt(interruption: Interruption) -> None:
        written: list[bytes] = []
        ends: list[int] = []

        def write(data: bytes) -> int:
            written.append(data)
            return len(data)

        outbox = Outbox(10**6, lambda: None, write if shared else None, bytes, lambda: 0.0, lambda: ends.append(1))
        outbox.gather("s1", MESSAGE)
        with suppress(KeyboardInterrupt), interruption():
            acts()[name](outbox)
        if ends:
            with pytest.raises(OutboxClosedError):
                outbox.put(b"-last-")
            return
        outbox.put(b"-last-")
        if outbox.has_rest:
            outbox.flush(write)
        all_of_it = b"".join(written)
        assert all_of_it.endswith(b"-last-"), interruption.where
        assert all_of_it.count(b"\0") >= 1, interruption.where
        assert all_of_it.startswith(b"SENDS\nsession:s1\n"), interruption.where

    assert each_interruption(attempt, "clients/stomp/outbox.py") > 3


def test_who_waits_for_room_and_is_interrupted_leaves_nothing_behind() -> None:
    def attempt(interruption: Interruption) -> None:
        outbox = Outbox(10, lambda: None, None, patience_s=lambda: 0.0001)
        outbox.put(b"-first-of-it-")
        with suppress(KeyboardInterrupt, ResourceError), interruption():
            outbox.put(b"-new-")
        assert outbox._waiting == set(), interruption.where
        written: list[bytes] = []
        outbox.flush(lambda data: written.append(data) or len(data))  # type: ignore[func-returns-value]
        assert written == [b"-first-of-it-"]
        outbox.put(b"-last-")
        outbox.flush(lambda data: written.append(data) or len(data))  # type: ignore[func-returns-value]
        assert written[-1] == b"-last-", interruption.where

    assert each_interruption(attempt, "clients/stomp/outbox.py", "spi/clock.py") > 10


def go_on(broker: FakeBroker, wire: Wire, threads: Any) -> None:
    """Have the connection bring one more message, or have ended and said so."""
    threads.signals = {"last": Signal()}
    with suppress(WireEndedError):
        wire.send(Frame("ASK", {}))

    def answer() -> None:
        broker.wait_for("ASK")
        with suppress(OSError):
            broker.push(Frame("MESSAGE", {"n": "last"}))

    answering = Thread(target=answer, daemon=True)
    clock = SystemClock()
    if not wire.is_closing:
        answering.start()
        while not threads.ended.is_set():
            if wire.wait(clock, threads.signals["last"], clock.monotonic_ms() + 20, lambda: True):
                answering.join(PATIENCE_S)
                return
    assert threads.ended.wait(PATIENCE_S)
    assert "interrupted" in threads.reason


def when_read(wire: Wire, is_over: Event, do: Callable[[], object]) -> None:
    """Do something when a thread of the application's reads, or nobody is going to any more: so all places come by each time."""
    while wire._reading.reader in (None, wire._io_thread) and not is_over.wait(0.0005):
        pass
    with suppress(OSError):  # the connection has ended, as it may
        do()


FILES = ("clients/stomp/reading.py", "clients/stomp/wire.py", "clients/stomp/outbox.py")


@pytest.mark.parametrize("alone", [True, False])
def test_a_connection_goes_on_or_ends_after_an_interrupt_of_a_thread_that_reads(*, alone: bool) -> None:
    def attempt(interruption: Interruption) -> None:
        with FakeBroker() as broker, a_wire(broker) as (wire, threads):
            threads.signals, is_over = {"1": Signal()}, Event()
            push = partial(broker.push, Frame("MESSAGE", {"n": "1"}))
            pushing = Thread(target=when_read, args=(wire, is_over, push), daemon=True)
            pushing.start()
            with suppress(KeyboardInterrupt), interruption():
                wait(wire, threads.signals["1"], alone=alone)
            is_over.set()
            pushing.join(PATIENCE_S)
            others = [Thread(target=go_on, args=(broker, wire, threads), daemon=True)]
            others[0].start()
            others[0].join(PATIENCE_S / 2)
            assert not others[0].is_alive(), interruption.where
            assert wire._reading.reader in (None, wire._io_thread), interruption.where
            assert not wire._reading._waiting, interruption.where
        assert threads.ended.wait(PATIENCE_S), interruption.where

    assert each_interruption(attempt, *FILES) > 20


def test_what_may_wait_is_written_after_an_interrupt_though_nobody_waits() -> None:
    def attempt(interruption: Interruption) -> None:
        with FakeBroker() as broker, a_wire(broker) as (wire, threads):
            with suppress(KeyboardInterrupt), interruption():
                wire.send_soon(Frame("FIRST", {}), waits=True)
            try:
                wire.send_soon(Frame("SECOND", {}), waits=True)
            except WireEndedError:
                assert threads.ended.wait(PATIENCE_S), interruption.where
                return
            while not (broker.of("SECOND") or threads.ended.wait(0.001)):
                assert wire._thread.is_alive(), interruption.where

    assert each_interruption(attempt, *FILES) > 10


def test_a_broker_hears_the_next_send_after_an_interrupt_of_one() -> None:
    """From the session to the socket; a connection that ended is made anew meanwhile."""

    def attempt(interruption: Interruption) -> None:
        with Peer() as peer, linked(peer) as connection:
            session, wire, is_over = connection.open_session(transacted=False), connection.link.newest.wire, Event()
            come_back(wire)
            peer.before_answer = lambda number, frame: when_read(wire, is_over, int)
            with suppress(KeyboardInterrupt), interruption():
                session.send(make_envelope("first", persistent=True))
            is_over.set()
            session.send(make_envelope("second", persistent=True))
            assert connection.state == "connected"

    assert each_interruption(attempt, "clients/stomp/reading.py", "clients/stomp/outbox.py") > 30


def test_an_end_does_not_wait_for_a_reader_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.clients.stomp.reading._END_S", 0.01)
    reading = Reading(is_shared=True, wake=lambda: None, look=lambda _: None)
    is_taken, may_end = Event(), Event()

    def take() -> None:
        with reading._right:
            is_taken.set()
            may_end.wait(PATIENCE_S)

    reader = Thread(target=take, daemon=True)
    reader.start()
    assert is_taken.wait(PATIENCE_S)
    reading.end()
    may_end.set()
    reader.join(PATIENCE_S)


def test_the_end_is_told_though_not_all_could_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    with FakeBroker() as broker, a_wire(broker) as (wire, threads):

        def refuse() -> None:
            raise RuntimeError("cannot be closed")

        wire._taken.callback(refuse)
        wire.close()
        assert threads.ended.wait(PATIENCE_S)


def test_calls_that_waited_for_a_connection_in_vain_leave_nothing_behind() -> None:
    with FakeBroker() as broker, connected(broker, "timeout_ms=1&reconnect_delay_ms=60000") as connection:
        link = connection.link
        broker.stop()
        while link.state is LinkState.CONNECTED:
            assert link._epoch.wire._thread is not None
        for _ in range(3):
            with pytest.raises(ResourceError, match="there has been no connection"):
                link.current()
        assert link._waiting == set()


def test_a_call_waits_for_the_healing_of_a_connection_that_takes_nothing_any_more() -> None:
    with FakeBroker() as broker, connected(broker, QUICKLY) as connection:
        old = connection.link.current()
        old.wire.close()
        assert connection.link.current() is not old
        assert broker.connection_count == 2


def test_an_interrupt_while_a_connection_is_reopened_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeBroker() as broker, connected(broker, QUICKLY) as connection:

        def interrupt() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(connection.link, "_connect_anywhere", interrupt)
        with pytest.raises(KeyboardInterrupt):
            connection.set_client_id("me")
        with pytest.raises(ConnectionLostError, match="make a new connection"):
            connection.link.current()


def test_an_interrupt_in_log_in_closes_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Event()
    with FakeBroker() as broker:
        made: list[Wire] = []

        def interrupt(wire: Wire, headers: dict[str, str]) -> Frame:
            made.append(wire)
            wire._thread.start()
            raise KeyboardInterrupt

        monkeypatch.setattr(Wire, "open", interrupt)
        with pytest.raises(KeyboardInterrupt), connected(broker, QUICKLY):
            ended.set()
        made[0].join(PATIENCE_S)
        assert not made[0]._thread.is_alive()
        assert not ended.is_set()
