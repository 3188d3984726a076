"""What the tests of the transport share: engines that echo, flood, stall or fail, clients, and waiting for either."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeVar

from pyjms.spi.clock import Clock
from pyjms.testing import VirtualClock
from pyjms_provider.protocols.engine import ProtocolEngine, TransportContext
from pyjms_provider.transport.listener import Listener
from pyjms_provider.transport.service import EventLoop, NetworkService

PATIENCE_S = 20.0
_T = TypeVar("_T")


class EchoEngine(ProtocolEngine):
    """Says what it hears; ``quit`` ends the connection. It reads while less than `most` bytes wait to be said."""

    most = 1 << 20

    def __init__(self, conduit: TransportContext) -> None:
        self.conduit = conduit
        self.out = bytearray()
        self.pulled = 0
        self.heard = 0
        self.is_ending = False
        self.tick_ms: int | None = None
        self.ticks: SimpleQueue[float] = SimpleQueue()
        self.events: SimpleQueue[str] = SimpleQueue()
        self.ends: SimpleQueue[BaseException | None] = SimpleQueue()

    def received(self, data: bytes | bytearray | memoryview) -> None:
        self.heard += len(data)
        self.out += data
        self.events.put(f"received {len(data)}")
        if b"quit" in bytes(data):
            self.is_ending = True

    def pull(self, size: int) -> bytes | bytearray | memoryview:
        data = bytes(self.out[:size])
        del self.out[:size]
        self.pulled += len(data)
        return data

    @property
    def is_reading(self) -> bool:
        return len(self.out) < self.most

    @property
    def is_over(self) -> bool:
        return self.is_ending and not self.out

    def next_tick_ms(self) -> int | None:
        return self.tick_ms

    def tick(self) -> None:
        self.tick_ms = None
        self.ticks.put(self.conduit.heard_ms)

    def stop(self, reason: str) -> None:
        if not self.is_ending:
            self.out += b"bye"
        self.is_ending = True

    def closed(self, error: BaseException | None) -> None:
        self.ends.put(error)


class FloodEngine(EchoEngine):
    """Has always more to say, in frames of `frame` bytes."""

    frame = 10_000

    def pull(self, size: int) -> bytes:
        self.pulled += self.frame
        return b"x" * self.frame


class AmplifyingEngine(EchoEngine):
    """Answers with ten times what it hears, and reads whatever waits."""

    most = 1 << 60

    def received(self, data: bytes | bytearray | memoryview) -> None:
        super().received(bytes(data) * 10)


class Engines:
    """Makes engines and keeps them."""

    def __init__(self, kind: type[EchoEngine] = EchoEngine) -> None:
        self._kind = kind
        self._new: SimpleQueue[EchoEngine] = SimpleQueue()

    def __call__(self, conduit: TransportContext) -> EchoEngine:
        engine = self._kind(conduit)
        self._new.put(engine)
        return engine

    @property
    def none_is_new(self) -> bool:
        """Whether `next` has returned all that were made."""
        return self._new.empty()

    def next(self) -> EchoEngine:
        """Return the next engine that was made."""
        return self._new.get(timeout=PATIENCE_S)


class Net:
    """A running service on one event loop, with a clock by hand."""

    def __init__(self, service: NetworkService, clock: VirtualClock) -> None:
        self.service = service
        self.clock = clock

    def on_loop(self, function: Callable[[], _T]) -> _T:
        """Call `function` on the loop, after all that is due there now."""

        async def call() -> _T:
            return function()

        return self.service.run(call()).result(PATIENCE_S)

    def advance(self, milliseconds: int) -> None:
        """Move time, once the network waits for something within it."""
        self.clock.await_wait(milliseconds, PATIENCE_S)
        self.clock.advance(milliseconds)

    def connect(self, listener: Listener) -> socket.socket:
        return connect(listener)


@contextmanager
def running(event_loop: EventLoop = EventLoop.BEST, clock: Clock | None = None) -> Iterator[Net]:
    virtual = VirtualClock()
    service = NetworkService("test", clock=clock or virtual, event_loop=event_loop)
    with service:
        yield Net(service, virtual)


def connect(listener: Listener) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def read_exactly(client: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        got = client.recv(size - len(data))
        assert got, f"the connection ended after {len(data)} of {size} bytes"
        data += got
    return bytes(data)


def read_to_end(client: socket.socket) -> bytes:
    data = bytearray()
    while got := client.recv(65_536):
        data += got
    return bytes(data)


def send_until_full(client: socket.socket, chunk: bytes = b"y" * 65_536, patience_s: float = 0.2) -> int:
    """Send until the other side has taken nothing for a moment; return how many bytes it took."""
    client.settimeout(patience_s)
    sent = 0
    try:
        while True:
            sent += client.send(chunk)
    except TimeoutError:
        return sent
    finally:
        client.settimeout(PATIENCE_S)


def is_cut_off(client: socket.socket) -> bool:
    """Wait for the end of the connection, in whatever way it comes; return False if bytes come instead."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
