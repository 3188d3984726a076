"""The transport with an engine that only echoes, against servers of asyncio and uvloop that do nothing else.

Also measured, for decision 0600: whether two loops in one process do more than one, and what waking costs.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import cast

sys.path.insert(0, str(Path(__file__).parent))
import psutil
import uvloop
from measure import compare, report

from pyjms_provider.protocols.engine import ProtocolEngine, TransportContext
from pyjms_provider.transport.service import EventLoop, NetworkService
from pyjms_provider.transport.settings import ListenerSettings

FRAME = b"x" * 300
ROUND_TRIPS = 8_000
FRAMES = 400_000
BATCH = 100
WAKES = 200_000
LOOPS: dict[EventLoop, Callable[[], asyncio.AbstractEventLoop]] = {
    EventLoop.ASYNCIO: asyncio.SelectorEventLoop,
    EventLoop.UVLOOP: uvloop.new_event_loop,
}


class Echo(ProtocolEngine):
    """The least that an engine can do."""

    is_reading = True
    is_over = False

    def __init__(self, conduit: TransportContext) -> None:
        self._out: list[bytes] = []

    def received(self, data: bytes | bytearray | memoryview) -> None:
        self._out.append(cast("bytes", data))

    def pull(self, size: int) -> bytes:
        return self._out.pop(0) if self._out else b""

    def next_tick_ms(self) -> int | None:
        return None

    def tick(self) -> None:
        return

    def stop(self, reason: str) -> None:
        return

    def closed(self, error: BaseException | None) -> None:
        return


class RawEcho(asyncio.Protocol):
    """The least that a server of asyncio can do."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def _serve_ours(kind: EventLoop, pipe: Pipe) -> None:
    with NetworkService("bench", event_loop=kind) as service:
        pipe.send(service.open(ListenerSettings(), Echo).port)
        pipe.recv()


def _serve_raw(kind: EventLoop, pipe: Pipe) -> None:
    loop = LOOPS[kind]()

    async def serve() -> None:
        server = await loop.create_server(RawEcho, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)
        server.close()

    loop.run_until_complete(serve())


def _serve_two(kind: EventLoop, pipe: Pipe) -> None:
    with NetworkService("one", event_loop=kind) as one, NetworkService("two", event_loop=kind) as two:
        pipe.send([service.open(ListenerSettings(), Echo).port for service in (one, two)])
        pipe.recv()


@contextmanager
def server(serve: Callable[[EventLoop, Pipe], None], kind: EventLoop) -> Iterator[tuple[list[int], psutil.Process]]:
    """Run `serve` in another process; yield its ports, and the process."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(kind, theirs))
    process.start()
    ports = ours.recv()
    try:
        yield ports if isinstance(ports, list) else [ports], psutil.Process(process.pid)
    finally:
        ours.send("end")
        process.join()


def _connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def round_trips_per_second(port: int) -> float:
    """Return how often a frame goes there and back."""
    with _connect(port) as client:
        begin = perf_counter()
        for _ in range(ROUND_TRIPS):
            client.sendall(FRAME)
            client.recv(4_096)
        return ROUND_TRIPS / (perf_counter() - begin)


def frames_per_second(*ports: int) -> float:
    """Return how many frames a second come back when they are sent a hundred at a time, over a connection for each port."""
    clients = [_connect(port) for port in ports]
    batch = FRAME * BATCH
    begin = perf_counter()
    for _ in range(FRAMES // BATCH // len(clients)):
        for client in clients:
            client.sendall(batch)
        for client in clients:
            left = len(batch)
            while left:
                left -= len(client.recv(left))
    seconds = perf_counter() - begin
    for client in clients:
        client.close()
    return FRAMES / seconds


def processor_us_per_batch(process: psutil.Process, *ports: int) -> float:
    """Return what a hundred frames cost the server. Other load on the machine changes this less than it does a rate."""
    before = process.cpu_times()
    frames_per_second(*ports)
    after = process.cpu_times()
    seconds: float = after.user + after.system - before.user - before.system
    return seconds * 1e6 / (FRAMES / BATCH)


def wakes_per_second(threads: int) -> float:
    """Return how many wakes so many threads get rid of."""

    conduits: list[TransportContext] = []

    class Silent(Echo):
        def __init__(self, conduit: TransportContext) -> None:
            super().__init__(conduit)
            conduits.append(conduit)

        def received(self, data: bytes | bytearray | memoryview) -> None:
            super().received(b"!")

    with NetworkService("bench") as service:
        listener = service.open(ListenerSettings(), Silent)
        clients = [_connect(listener.port) for _ in range(20)]
        for client in clients:
            client.sendall(b"?")
            client.recv(1)

        def storm() -> None:
            for number in range(WAKES // threads):
                conduits[number % len(conduits)].wake()

        storms = [Thread(target=storm) for _ in range(threads)]
        begin = perf_counter()
        for thread in storms:
            thread.start()
        for thread in storms:
            thread.join()
        seconds = perf_counter() - begin
        for client in clients:
            client.close()
        return WAKES / seconds


def main() -> int:
    """Run and report."""
    good = True
    for kind in LOOPS:
        with (
            server(_serve_ours, kind) as (ours, our_process),
            server(_serve_raw, kind) as (raw, _),
            server(_serve_two, kind) as (two, two_process),
        ):
            result = compare(lambda: round_trips_per_second(ours[0]), lambda: round_trips_per_second(raw[0]))
            detail = f"{result.ours:,.0f}/s, plain {kind.value} {result.theirs:,.0f}/s"
            good &= report(f"{kind.value}: echo round trips, ours / plain", result.ratio, least=0.5, detail=detail)
            result = compare(lambda: frames_per_second(ours[0]), lambda: frames_per_second(raw[0]))
            detail = f"{result.ours:,.0f}/s, plain {kind.value} {result.theirs:,.0f}/s"
            good &= report(f"{kind.value}: frames in batches, ours / plain", result.ratio, least=0.5, detail=detail)
            result = compare(
                lambda: processor_us_per_batch(our_process, ours[0], ours[0]),
                lambda: processor_us_per_batch(two_process, *two),
            )
            detail = f"100 frames over two connections: one loop {result.ours:.1f} µs, two loops {result.theirs:.1f} µs"
            good &= report(f"{kind.value}: processor time, one loop / two", result.ratio, most=1.5, detail=detail)
    for threads in (1, 4):
        rate = statistics.median(wakes_per_second(threads) for _ in range(3))
        good &= report(f"wakes a second from {threads} threads", rate, least=100_000)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
