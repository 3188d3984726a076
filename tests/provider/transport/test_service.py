from __future__ import annotations

import asyncio
import contextlib
import threading
from queue import SimpleQueue
from threading import Barrier, Event, Thread, get_ident

import pytest

from pyjms.spi.errors import ClosedError, ResourceError
from pyjms_provider.protocols.engine import TransportContext
from pyjms_provider.transport import service as module
from pyjms_provider.transport.service import EventLoop, NetworkService
from pyjms_provider.transport.settings import ListenerKind, ListenerSettings
from tests.provider.transport.world import PATIENCE_S, EchoEngine, Engines, FloodEngine, Net, connect, read_exactly


def network_threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith(("pyjms network", "pyjms worker"))
    ]


class NotingEngine(EchoEngine):
    """Notes the threads that give it input and take its output."""

    def __init__(self, conduit: TransportContext) -> None:
        super().__init__(conduit)
        self.threads: set[int] = set()

    def received(self, data: bytes | bytearray | memoryview) -> None:
        self.threads.add(get_ident())
        super().received(data)

    def pull(self, size: int) -> bytes | bytearray | memoryview:
        self.threads.add(get_ident())
        return super().pull(size)


@pytest.mark.realises("BJ-TCP-1", "BJ-TCP-2")
def test_the_thread_that_selects_does_the_work_of_all_connections_of_all_ports(net: Net) -> None:
    made = [Engines(NotingEngine), Engines(NotingEngine)]
    listeners = [net.service.open(ListenerSettings(), engines) for engines in made]
    selecting = net.on_loop(get_ident)
    with contextlib.ExitStack() as clients:
        pairs = [
            (clients.enter_context(connect(listener)), engines.next())
            for listener, engines in zip(listeners, made, strict=True)
            for _ in range(5)
        ]
        for _ in range(20):
            for client, _ in pairs:
                client.sendall(b"hello")
            for client, _ in pairs:
                assert read_exactly(client, 5) == b"hello"
        for _, engine in pairs:
            assert isinstance(engine, NotingEngine)
            assert engine.threads == {selecting}
    assert selecting != get_ident()


@pytest.mark.realises("BJ-TCP-1")
def test_sockets_that_take_or_give_nothing_hold_up_no_other(net: Net) -> None:
    floods = net.service.open(ListenerSettings(), Engines(FloodEngine))
    listener = net.service.open(ListenerSettings(), Engines())
    with connect(floods), connect(listener), connect(listener) as client:  # two clients neither read nor write
        stalled_for, before = 0, -1
        for _ in range(20_000):
            client.sendall(b"hello")
            assert read_exactly(client, 5) == b"hello"
            written = floods.bytes_out
            stalled_for = stalled_for + 1 if written == before else 0
            before = written
            if stalled_for == 50:
                break
        assert stalled_for == 50, "the system takes no more for the one that does not read, and the others are served"


@pytest.mark.realises("BJ-TCP-1")
def test_jobs_that_wait_run_on_several_other_threads_while_the_sockets_are_served(net: Net) -> None:
    all_inside, goes_on = Barrier(4), Event()
    told: SimpleQueue[tuple[int, int]] = SimpleQueue()

    class WaitingEngine(EchoEngine):
        def received(self, data: bytes | bytearray | memoryview) -> None:
            self.conduit.work(self._wait, lambda where, _: told.put((where or 0, get_ident())))

        @staticmethod
        def _wait() -> int:
            all_inside.wait(PATIENCE_S)
            assert goes_on.wait(PATIENCE_S)
            return get_ident()

    waiting = net.service.open(ListenerSettings(), Engines(WaitingEngine))
    listener = net.service.open(ListenerSettings(), Engines())
    with contextlib.ExitStack() as clients:
        for _ in range(3):
            clients.enter_context(connect(waiting)).sendall(b"x")
        all_inside.wait(PATIENCE_S)  # they wait at the same time
        client = clients.enter_context(connect(listener))
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"
        goes_on.set()
        ends = [told.get(timeout=PATIENCE_S) for _ in range(3)]
    selecting = net.on_loop(get_ident)
    assert {told_on for _, told_on in ends} == {selecting}
    assert len({done_on for done_on, _ in ends} - {selecting}) == 3


def test_all_threads_end_with_the_service() -> None:
    with NetworkService("test") as service, connect(service.open(ListenerSettings(), Engines())):
        assert network_threads()
        service.stop(graceful_s=0.05)
    assert not network_threads()


@pytest.mark.parametrize("event_loop", list(EventLoop))
def test_the_log_says_which_loop_is_used(event_loop: EventLoop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with NetworkService("test", event_loop=event_loop):
        pass
    expected = "the event loop of asyncio" if event_loop is EventLoop.ASYNCIO else "on uvloop"
    assert "PYJMS-NET-1 network started: test, " in caplog.text
    assert expected in caplog.text


def test_without_uvloop_the_loop_of_asyncio_serves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    caplog.set_level("INFO")
    with NetworkService("test"):
        pass
    assert "pip install 'pyjms-messaging[fast]'" in caplog.text
    service = NetworkService("test", event_loop=EventLoop.UVLOOP)
    with pytest.raises(ResourceError, match=r"pip install 'pyjms-messaging\[fast\]'"):
        service.start()
    service.stop()


def test_other_servers_live_on_the_same_loop(net: Net) -> None:
    async def serve() -> int:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(4))
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"rest")
        got = await reader.readexactly(4)
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return len(got)

    assert net.service.run(serve()).result(PATIENCE_S) == 4


def test_what_still_runs_is_cancelled_when_the_service_stops() -> None:
    begun, cancelled = Event(), Event()

    async def never() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    service = NetworkService("test")
    service.start()
    future = service.run(never())
    assert begun.wait(PATIENCE_S)
    service.stop()
    assert cancelled.is_set()
    assert future.cancelled()


def test_a_port_can_be_opened_and_closed_on_the_loop_itself(net: Net) -> None:
    listener = net.on_loop(lambda: net.service.open(ListenerSettings(), Engines()))
    with connect(listener) as client:
        client.sendall(b"hello")
        read_exactly(client, 5)
    closing = net.on_loop(listener.begin_close)
    closing.result(PATIENCE_S)
    with pytest.raises(ConnectionRefusedError):
        connect(listener)


@pytest.mark.parametrize("wait", ["stop", "close"])
def test_who_would_wait_for_himself_is_told_so(net: Net, wait: str) -> None:
    listener = net.service.open(ListenerSettings(), Engines())
    call = net.service.stop if wait == "stop" else listener.close
    with pytest.raises(ClosedError, match="use another thread"):
        net.on_loop(call)
    with connect(listener) as client:
        client.sendall(b"hello")
        read_exactly(client, 5)


def test_nothing_is_opened_before_the_start_or_after_the_stop() -> None:
    service = NetworkService("test")
    with pytest.raises(ClosedError, match=r"start\(\)"):
        service.open(ListenerSettings(), Engines())
    service.start()
    service.start()
    service.stop()
    for call in (service.start, lambda: service.open(ListenerSettings(), Engines())):
        with pytest.raises(ClosedError):
            call()
    with pytest.raises(ClosedError):
        service.run(asyncio.Event().wait())


def test_stopping_is_for_any_thread_any_number_of_times() -> None:
    service = NetworkService("test")
    service.start()
    listener = service.open(ListenerSettings(), Engines())
    threads = [Thread(target=service.stop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    service.stop()
    listener.close()
    assert not network_threads()


def test_a_service_that_was_never_started_can_be_stopped() -> None:
    service = NetworkService("test")
    service.stop()
    service.stop()


def test_waking_a_connection_after_the_stop_does_nothing() -> None:
    engines = Engines()
    service = NetworkService("test")
    service.start()
    with connect(service.open(ListenerSettings(), engines)):
        engine = engines.next()
        service.stop(graceful_s=0.05)
        engine.ends.get(timeout=PATIENCE_S)
        engine.conduit.wake()
        service.scheduler.add(lambda: None)


def test_opening_while_another_thread_stops_ends_one_way_or_the_other() -> None:
    for _ in range(20):
        service = NetworkService("test")
        service.start()
        stopper = Thread(target=service.stop)
        stopper.start()
        with contextlib.suppress(ClosedError):
            service.open(ListenerSettings(), Engines())
        stopper.join(PATIENCE_S)
        assert not stopper.is_alive()


def test_a_missing_library_is_named(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(ResourceError, match=r"pip install 'pyjms-messaging\[broker\]'"):
        net.service.open(ListenerSettings(kind=ListenerKind.WEB_SOCKET), Engines())


@pytest.mark.parametrize("refused", ["pyjms network timer", "pyjms network"])
def test_a_network_for_which_the_system_has_no_thread_says_so(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Thread.start

    def refuse(thread: Thread) -> None:
        if thread.name.startswith(refused):
            raise RuntimeError("can't start new thread")
        start(thread)

    service = NetworkService("test")
    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", refuse)
        with pytest.raises(ResourceError, match="the network of test cannot start: can't start new thread"):
            service.start()
    service.stop()
    assert not network_threads()


def test_a_network_for_which_the_system_has_no_file_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_none() -> None:
        raise OSError(24, "Too many open files")

    service = NetworkService("test", event_loop=EventLoop.ASYNCIO)
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "SelectorEventLoop", open_none)
        with pytest.raises(ResourceError, match="Too many open files; end other threads"):
            service.start()
    service.stop()
    assert not network_threads()
