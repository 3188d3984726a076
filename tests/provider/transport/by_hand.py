"""A connection on a socket, a loop and threads that the test moves by hand."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from pyjms.testing import VirtualClock
from pyjms_provider.protocols.engine import BatchJob, ProtocolEngine
from pyjms_provider.transport.connection import Connection, Direction
from pyjms_provider.transport.layers import Bytes, Layer
from pyjms_provider.transport.reports import RareReports
from pyjms_provider.transport.scheduler import Alarm
from pyjms_provider.transport.settings import ListenerSettings
from tests.provider.transport.world import EchoEngine

GRAIN_MS = 20


class Diary(EchoEngine):
    """Writes down who calls it, and does as the test says."""

    def __init__(self, conduit: Any) -> None:
        super().__init__(conduit)
        self.diary: list[str] = []
        self.reads = True
        self.over = False
        self.replies: list[bytes] = []
        self.fails_in = ""

    def _note(self, what: str) -> None:
        self.diary.append(what)
        if what.partition(" ")[0] == self.fails_in:
            raise RuntimeError("a fault of the engine")

    def received(self, data: bytes | bytearray | memoryview) -> None:
        self._note(f"received {bytes(data).decode()}")

    def pull(self, size: int) -> bytes:
        self._note("pull")
        return self.replies.pop(0) if self.replies else b""

    @property
    def is_reading(self) -> bool:
        return self.reads

    @property
    def is_over(self) -> bool:
        return self.over

    def tick(self) -> None:
        self._note("tick")
        self.tick_ms = None

    def stop(self, reason: str) -> None:
        self._note("stop")

    def closed(self, error: BaseException | None) -> None:
        self.diary.append(f"closed {type(error).__name__}")


class Transport:
    """A socket whose system takes what the test lets it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.takes_all = True
        self.unsent = 0
        self.calls: list[str] = []
        self.protocol: Connection

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))
        if self.takes_all:
            return
        is_first, self.unsent = not self.unsent, self.unsent + len(data)
        if is_first:
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.calls.append(name)


class PassingLayer(Layer):
    """A layer that changes nothing."""

    is_open = True
    is_over = False

    def received(self, data: bytes) -> Sequence[bytes]:
        return [data]

    def wrap(self, chunks: Sequence[Bytes]) -> Bytes:
        return b"".join(chunks)

    def pending(self) -> bytes:
        return b""

    def finish(self) -> None:
        pass


class AnsweringLayer(PassingLayer):
    """A layer that answers what it is given by itself, as WebSocket does pings."""

    def __init__(self) -> None:
        self._said = b""

    def received(self, data: bytes) -> Sequence[bytes]:
        self._said = b"an answer"
        return []

    def pending(self) -> bytes:
        said, self._said = self._said, b""
        return said


class World:
    """All that a connection needs, by hand."""

    def __init__(self, settings: ListenerSettings | None = None) -> None:
        self.settings = settings or ListenerSettings()
        self.clock = VirtualClock()
        self.scheduler = self
        self.timers = self
        self.workers = self
        self.reports = RareReports(self.clock)
        self.buffer = memoryview(bytearray(4096))
        self.traced: list[tuple[Direction, bytes]] = []
        self.trace: Any = None
        self.bytes_in = self.bytes_out = 0
        self.steps: list[Callable[[], None]] = []
        self.alarms: list[float] = []
        self.armed: list[Alarm] = []
        self.jobs: list[tuple[Callable[[], object], Callable[[object, BaseException | None], None]]] = []
        self.has_ended = False
        self.layer: Layer | None = None
        self.transport = Transport()
        self.connection = Connection(cast("Any", self), "127.0.0.1:1")
        self.transport.protocol = self.connection
        self.engine: Diary

    def begin(self) -> World:
        self.connection.connection_made(cast("asyncio.Transport", self.transport))
        self.run()
        if self.layer is None:
            self.engine.diary.clear()
        return self

    def url_of(self, *, is_secure: bool) -> str:
        return "stomps://here" if is_secure else "stomp://here"

    def make_layer(self, first: bytes) -> tuple[Layer | None, bool]:
        return self.layer, False

    def make_engine(self, connection: Connection) -> ProtocolEngine:
        self.engine = Diary(connection)
        return self.engine

    def ended(self, connection: Connection) -> None:
        self.has_ended = True

    def add(self, step: Callable[[], None]) -> None:
        self.steps.append(step)

    def arm(self, at_ms: float, alarm: Alarm, armed_ms: float = math.inf) -> float:
        due_ms = math.ceil(at_ms / GRAIN_MS) * GRAIN_MS
        if due_ms < armed_ms:
            self.alarms.append(due_ms)
            self.armed.append(alarm)
        return min(due_ms, armed_ms)

    def ring(self) -> None:
        """Let all alarms go off whose time has come, as timers do."""
        now_ms = self.clock.monotonic_ms()
        due = sorted(at_ms for at_ms in self.alarms if at_ms <= now_ms)
        self.alarms = [at_ms for at_ms in self.alarms if at_ms > now_ms]
        for at_ms in due:
            self.connection.alarm(at_ms)

    def submit(
        self,
        job: Callable[[], object],
        finished: Callable[[object, BaseException | None], None],
        *,
        brief: bool = False,
        batch: BatchJob | None = None,
        patient: bool = False,
    ) -> None:
        self.jobs.append((job, finished))

    def run(self) -> None:
        """Do what is scheduled now, one turn of it."""
        steps, self.steps = self.steps, []
        for step in steps:
            step()

    def read(self, data: bytes) -> None:
        self.buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))
