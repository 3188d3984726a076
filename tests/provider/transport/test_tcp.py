"""Real sockets on loopback, on both kinds of event loop."""

from __future__ import annotations

import resource
import selectors
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event, Thread
from typing import ClassVar

import pytest

from pyjms_provider.protocols.engine import Peer, TransportContext
from pyjms_provider.transport.connection import Direction
from pyjms_provider.transport.service import NetworkService
from pyjms_provider.transport.settings import ListenerSettings
from tests.provider.transport.world import (
    PATIENCE_S,
    AmplifyingEngine,
    EchoEngine,
    Engines,
    FloodEngine,
    Net,
    connect,
    read_exactly,
    read_to_end,
    send_until_full,
)

MIB = 1 << 20


@pytest.mark.realises("BJ-NET-1", "BJ-NET-2", "BJ-NET-3", "BJ-PE-1", "BJ-PE-2", "BJ-TLS-3")
def test_bytes_go_to_the_engine_and_come_back(net: Net) -> None:
    listener = net.service.open(ListenerSettings(), Engines())
    with connect(listener) as client:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"


def test_the_engine_knows_its_peer(net: Net) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener) as client:
        host, port = client.getsockname()
        assert engines.next().conduit.peer == Peer(
            address=f"{host}:{port}", listener=listener.url, is_secure=False, certificate=None
        )


def test_much_goes_through_whole(net: Net) -> None:
    listener = net.service.open(ListenerSettings(), Engines())
    data = bytes(range(256)) * 4096 * 8
    with connect(listener) as client:
        sender = Thread(target=client.sendall, args=(data,))
        sender.start()
        assert read_exactly(client, len(data)) == data
        sender.join(PATIENCE_S)
    assert net.on_loop(lambda: listener.statistics.bytes_in) == len(data)


def test_a_frame_larger_than_all_buffers_goes_through(net: Net) -> None:
    class Large(EchoEngine):
        def pull(self, size: int) -> bytes:
            data = bytes(self.out)
            self.out.clear()
            return data

    engines = Engines(Large)
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener) as client:
        engine = engines.next()
        engine.out += b"z" * (64 * MIB)
        engine.conduit.wake()
        assert len(read_exactly(client, 64 * MIB)) == 64 * MIB


@pytest.mark.realises("BJ-TCP-4", "BJ-PE-6")
def test_a_peer_that_never_reads_costs_a_bounded_amount_of_memory(net: Net) -> None:
    engines = Engines(FloodEngine)
    listener = net.service.open(ListenerSettings(), engines)
    others = net.service.open(ListenerSettings(), Engines())
    with connect(listener), connect(others) as neighbour:
        engine = engines.next()
        pulled = -1
        while pulled != engine.pulled:  # the system's buffers are filled, in as many turns as it takes
            pulled = engine.pulled
            for _ in range(20):
                neighbour.sendall(b"hello")
                assert read_exactly(neighbour, 5) == b"hello"
        connection = next(iter(listener._connections))
        waiting = net.on_loop(connection._transport.get_write_buffer_size)
        assert 0 < waiting <= listener.settings.write_buffer_bytes + FloodEngine.frame


@pytest.mark.realises("BJ-TCP-4")
def test_a_peer_that_sends_and_never_reads_is_not_read_from_for_ever(net: Net) -> None:
    engines = Engines(AmplifyingEngine)
    settings = ListenerSettings()
    listener = net.service.open(settings, engines)
    with connect(listener) as client:
        engine = engines.next()
        before, heard = -1, 0
        while heard != before:  # on a busy machine the loop may have had no turn for a moment
            send_until_full(client)
            before, heard = heard, net.on_loop(lambda: engine.heard)
        waiting = net.on_loop(lambda: len(engine.out))
        assert waiting <= 10 * 2 * settings.read_buffer_bytes


def test_an_engine_that_does_not_read_stops_its_peer(net: Net) -> None:
    class Deaf(EchoEngine):
        most = 0

    engines = Engines(Deaf)
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener) as client:
        engine = engines.next()
        sent = send_until_full(client)
        assert engine.heard == 0
        assert listener.bytes_in < 2 * listener.settings.read_buffer_bytes, "what is less than a buffer, and then one"
        Deaf.most = 1 << 60
        engine.conduit.wake()
        assert len(read_exactly(client, sent)) == sent


@pytest.mark.realises("BJ-PE-7")
def test_floods_do_not_delay_others(net: Net) -> None:
    floods = net.service.open(ListenerSettings(), Engines(FloodEngine))
    sent: SimpleQueue[int] = SimpleQueue()  # what floods had sent when a round began, and when the other one was heard

    class PoliteEngine(EchoEngine):
        def received(self, data: bytes | bytearray | memoryview) -> None:
            sent.put(floods.bytes_out)
            super().received(data)

    listener = net.service.open(ListenerSettings(), Engines(PoliteEngine))
    stop = Event()

    def drink(client: socket.socket) -> None:
        while not stop.is_set():
            client.recv(MIB)

    clients = [connect(floods) for _ in range(3)]
    drinkers = [Thread(target=drink, args=(client,)) for client in clients]
    for drinker in drinkers:
        drinker.start()
    try:
        with connect(listener) as polite:
            assert read_exactly(clients[0], 1) == b"x"  # they are flooding
            # A turn of the loop is under way when the bytes come, and they are read in the next, or in one of the next few
            # where the system hands them over late; a flood has one share of each.
            share = floods.settings.write_buffer_bytes + FloodEngine.frame
            for _ in range(50):
                with held(net, lambda: sent.put(floods.bytes_out)):
                    polite.sendall(b"hello")  # they are there when the loop goes on
                assert read_exactly(polite, 5) == b"hello"
                before, heard = sent.get_nowait(), sent.get_nowait()
                assert heard - before <= 10 * 3 * share
    finally:
        stop.set()
        for drinker in drinkers:
            drinker.join(PATIENCE_S)
        for client in clients:
            client.close()


@contextmanager
def held(net: Net, note: Callable[[], None]) -> Iterator[None]:
    """Hold up the loop meanwhile; it notes something first."""
    began, go_on = Event(), Event()

    def hold_up() -> None:
        note()
        began.set()
        go_on.wait(PATIENCE_S)

    holding = Thread(target=net.on_loop, args=(hold_up,))
    holding.start()
    assert began.wait(PATIENCE_S)
    try:
        yield
    finally:
        go_on.set()
        holding.join(PATIENCE_S)


class ListeningEngine(EchoEngine):
    """Notes who was heard, in order, takes its time for it, and says nothing."""

    order: ClassVar[list[Peer]] = []
    take_time: ClassVar[Callable[[], None]]

    def received(self, data: bytes | bytearray | memoryview) -> None:
        self.order.append(self.conduit.peer)
        type(self).take_time()
        self.heard += len(data)
        self.events.put("received")


@pytest.mark.realises("BJ-TCP-5")
def test_who_sends_without_end_is_read_once_before_the_others_are(net: Net) -> None:
    size = 1024
    engines = Engines(ListeningEngine)
    ListeningEngine.take_time = lambda: net.clock.advance(1)
    listener = net.service.open(ListenerSettings(read_buffer_bytes=size), engines)
    with connect(listener) as flooding, connect(listener) as other:
        flooded, quiet = engines.next(), engines.next()
        with held(net, ListeningEngine.order.clear):
            flooding.sendall(b"x" * size * 30)  # all of it, and then the other one's, is there when the loop looks
            other.sendall(b"x")
        quiet.events.get(timeout=PATIENCE_S)
        assert ListeningEngine.order.index(quiet.conduit.peer) <= 1
        while flooded.heard < size * 30:
            flooded.events.get(timeout=PATIENCE_S)


def test_an_engine_is_woken_from_any_thread(net: Net) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener) as client:
        engine = engines.next()
        engine.out += b"news"
        engine.conduit.wake()
        assert read_exactly(client, 4) == b"news"


@pytest.mark.realises("BJ-TCP-5")
def test_storms_of_wakes_from_many_threads_lose_nothing(net: Net) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(), engines)
    clients = [connect(listener) for _ in range(5)]
    made = [engines.next() for _ in clients]
    storms, each = 4, 300

    def storm() -> None:
        for _ in range(each):
            for engine in made:
                engine.out += b"."
                engine.conduit.wake()

    threads = [Thread(target=storm) for _ in range(storms)]
    for thread in threads:
        thread.start()
    for client in clients:
        read_exactly(client, 1)
    for thread in threads:
        thread.join(PATIENCE_S)
    for engine in made:
        engine.out += b"!"
        engine.conduit.wake()
    for client in clients:
        while b"!" not in client.recv(65_536):
            pass
        client.close()


@pytest.mark.realises("BJ-TCP-6")
def test_an_engine_is_called_on_the_loops_thread_only(net: Net) -> None:
    seen: SimpleQueue[bool] = SimpleQueue()

    class Watchful(EchoEngine):
        def __init__(self, conduit: TransportContext) -> None:
            super().__init__(conduit)
            seen.put(net.service.scheduler.is_here())
            self.tick_ms = 100

        def received(self, data: bytes | bytearray | memoryview) -> None:
            super().received(data)
            seen.put(net.service.scheduler.is_here())
            self.conduit.work(lambda: 1, lambda *_: seen.put(net.service.scheduler.is_here()))

        def tick(self) -> None:
            super().tick()
            seen.put(net.service.scheduler.is_here())

        def closed(self, error: BaseException | None) -> None:
            seen.put(net.service.scheduler.is_here())

    listener = net.service.open(ListenerSettings(), Engines(Watchful))
    with connect(listener) as client:
        client.sendall(b"hello")
        read_exactly(client, 5)
        net.advance(100)
        assert [seen.get(timeout=PATIENCE_S) for _ in range(4)] == [True] * 4
    assert seen.get(timeout=PATIENCE_S)


# ----------------------------------------------------------------------------------------------------------------- the end


def test_an_engine_that_ends_has_its_last_word(net: Net) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener) as client:
        client.sendall(b"quit")
        assert read_to_end(client) == b"quit"
    assert engines.next().ends.get(timeout=PATIENCE_S) is None


def test_last_words_reach_a_peer_that_still_sends(net: Net) -> None:
    class Refuse(EchoEngine):
        def received(self, data: bytes | bytearray | memoryview) -> None:
            if not self.is_ending:
                self.out += b"ERROR"
            self.is_ending = True

    listener = net.service.open(ListenerSettings(), Engines(Refuse))
    for _ in range(20):
        with connect(listener) as client:
            client.sendall(b"x" * 300_000)  # with a plain close, what was not read would turn the farewell into a reset
            assert read_exactly(client, 5) == b"ERROR"


def test_a_peer_that_has_sent_all_gets_all_answers(net: Net) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener) as client:
        client.sendall(b"x" * MIB)
        client.shutdown(socket.SHUT_WR)
        assert len(read_to_end(client)) == MIB
    assert engines.next().ends.get(timeout=PATIENCE_S) is None


def test_a_reset_is_told_to_the_engine(net: Net) -> None:
    engines = Engines()
    listener = net.service.open(ListenerSettings(), engines)
    client = connect(listener)
    engine = engines.next()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert isinstance(engine.ends.get(timeout=PATIENCE_S), ConnectionError)
    assert net.on_loop(lambda: listener.connection_count) == 0


def test_a_peer_that_never_reads_its_last_words_is_cut_off(net: Net) -> None:
    class LongFarewell(FloodEngine):
        left = 100 * MIB

        def pull(self, size: int) -> bytes:
            self.left -= self.frame
            return super().pull(size) if self.left > 0 else b""

        @property
        def is_over(self) -> bool:
            return True

    engines = Engines(LongFarewell)
    settings = ListenerSettings()
    listener = net.service.open(settings, engines)
    with connect(listener):
        engine = engines.next()
        net.advance(settings.closing_timeout_ms)
        assert isinstance(engine.ends.get(timeout=PATIENCE_S), TimeoutError)


@pytest.mark.realises("BJ-IDLE-3", "BJ-IDLE-4")
def test_an_engine_ends_who_is_silent(net: Net) -> None:
    class Strict(EchoEngine):
        def next_tick_ms(self) -> int | None:
            return int(self.conduit.heard_ms) + 1_000

        def tick(self) -> None:
            self.is_ending = True

    engines = Engines(Strict)
    listener = net.service.open(ListenerSettings(), engines)
    with connect(listener) as client:
        net.clock.await_wait(1_000)
        net.clock.advance(600)
        client.sendall(b"\n")
        read_exactly(client, 1)
        net.clock.advance(400)  # the first alarm; the peer was heard meanwhile
        client.sendall(b"\n")
        read_exactly(client, 1)
        net.advance(1_000)
        assert read_to_end(client) == b""
    assert engines.next().ends.get(timeout=PATIENCE_S) is None


def test_a_thousand_connections_live_on_one_thread(net: Net) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)), hard))
    engines = Engines()
    listener = net.service.open(ListenerSettings(), engines)
    clients = []
    try:
        clients = [connect(listener) for _ in range(1_000)]
        for client in clients:
            client.sendall(b"hello")
        with selectors.DefaultSelector() as selector:
            for client in clients:
                selector.register(client, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(PATIENCE_S):
                    selector.unregister(key.fileobj)
        assert all(read_exactly(client, 5) == b"hello" for client in clients)
        assert listener.connection_count == 1_000
        assert listener.statistics.accepted == 1_000
        closing = listener.begin_close(PATIENCE_S)
        for client in clients:
            assert read_to_end(client) == b"bye"
            client.close()
        closing.result(PATIENCE_S)
        assert listener.connection_count == 0
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_trace_sees_what_engines_hear_and_say() -> None:
    seen: SimpleQueue[tuple[str, Direction, bytes]] = SimpleQueue()
    with NetworkService("test", trace=lambda *what: seen.put(what)) as service:
        listener = service.open(ListenerSettings(), Engines())
        with connect(listener) as client:
            client.sendall(b"hello")
            read_exactly(client, 5)
            address = ":".join(map(str, client.getsockname()))
        assert seen.get(timeout=PATIENCE_S) == (address, Direction.IN, b"hello")
        assert seen.get(timeout=PATIENCE_S) == (address, Direction.OUT, b"hello")
