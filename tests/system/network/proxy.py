"""A relay on the loopback interface that breaks connections when and where a test wants it."""

from __future__ import annotations

import re
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from random import Random
from threading import Condition, Event, Thread
from types import TracebackType
from typing import Final, Protocol, Self

PATIENCE_S = 20.0
_DELAY_S = 0.002
_LATE_S = 1.0
_OVERTAKING = 3
"""So many frames of other connections overtake what is late."""


_LINE_END = 10
_AMQP_HEAD = 8
"""Bytes that say how long a frame of AMQP is; a protocol header has no more."""


class Way(Enum):
    """Which way bytes go."""

    UP = "to the broker"
    DOWN = "to the client"


class Place(Enum):
    """Where in a frame the connection is cut."""

    BEFORE = "nothing of the frame has passed"
    WITHIN = "half of it has passed"
    AFTER = "all of it has passed"
    LATE = (
        "it arrives when the client has begun another connection, which so overtakes it; on the way to the broker only"
    )


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut the connection that carries the `frame`th frame from now on, counted over all connections."""

    way: Way
    frame: int
    place: Place

    def __str__(self) -> str:
        """Say it for people."""
        return f"cut at frame {self.frame} {self.way.value}: {self.place.value}"


class FrameEnds(Protocol):
    """Tells where the frames of one way end, in whatever pieces they come."""

    def of(self, data: bytes) -> list[int]:
        """Return the indices of the last bytes of those frames that end in `data`, which comes next."""
        ...


class StompFrameEnds:
    """Frames of STOMP; heart-beats are none."""

    def __init__(self) -> None:
        self._head = b""
        self._left: int | None = None
        """Bytes of a body that are to come with the NUL behind it; None: not in such a body."""

    def of(self, data: bytes) -> list[int]:
        found, at = [], 0
        while at < len(data):
            if self._left is not None:
                passed = min(self._left, len(data) - at)
                at += passed
                self._left -= passed
                if not self._left:
                    found.append(at - 1)
                    self._left = None
                continue
            if not self._head and data[at] == _LINE_END:  # a heart-beat
                at += 1
                continue
            head = self._head + data[at:]
            end, nul = head.find(b"\n\n"), head.find(b"\0")
            length = re.search(rb"\ncontent-length:(\d+)\n", head[: end + 1]) if end >= 0 else None
            if length is not None and (nul < 0 or end < nul):
                at += end + 2 - len(self._head)
                self._left = int(length[1]) + 1
            elif nul >= 0:
                at += nul + 1 - len(self._head)
                found.append(at - 1)
            else:
                self._head = head
                return found
            self._head = b""
        return found


class AmqpFrameEnds:
    """Frames of AMQP and its protocol headers; empty frames, which are its heart-beats, are none."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        """Bytes of a frame that are to come."""

    def of(self, data: bytes) -> list[int]:
        found, at = [], 0
        while at < len(data):
            if not self._left:
                new = data[at : at + _AMQP_HEAD - len(self._head)]
                self._head += new
                at += len(new)
                if len(self._head) < _AMQP_HEAD:
                    break
                is_header = self._head.startswith(b"AMQP")
                self._left = 0 if is_header else int.from_bytes(self._head[:4], "big") - _AMQP_HEAD
                self._head = b""
                if is_header:
                    found.append(at - 1)
            else:
                passed = min(self._left, len(data) - at)
                at += passed
                self._left -= passed
                if not self._left:
                    found.append(at - 1)
        return found


class NoFrameEnds:
    """Of a protocol that is only passed on."""

    def of(self, data: bytes) -> list[int]:
        return []


_FRAME_ENDS: Final[dict[str, Callable[[], FrameEnds]]] = {
    "stomp": StompFrameEnds,
    "amqp": AmqpFrameEnds,
    "any": NoFrameEnds,
}


class Proxy:
    """Listens, and passes on to `target`, where `protocol` is spoken."""

    def __init__(self, target: tuple[str, int], seed: int = 0, protocol: str = "stomp") -> None:
        self.target = target
        self._frame_ends = _FRAME_ENDS[protocol]
        self.rechunks = False
        """Whether bytes are passed on in small pieces of random sizes, with delays between some."""
        self.delay_s = 0.0
        """How much later all that arrives is passed on."""
        self.refuses = False
        """Whether new connections are ended at once."""
        self._random = Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._changed = Condition()
        self._cuts: deque[Cut] = deque()
        self._seen = {Way.UP: 0, Way.DOWN: 0}
        self._sockets: set[socket.socket] = set()
        self._frames_up = 0
        self._kept: set[socket.socket] = set()
        """Those on which something arrives late."""
        self._over = Event()
        self._flows = Event()
        self._flows.set()
        self.cut_count = 0
        Thread(target=self._accept, name="proxy", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._flows.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def arm(self, cuts: Iterable[Cut]) -> None:
        """Make these cuts, one after the other; the frames of each are counted from the one before."""
        with self._changed:
            self._cuts = deque(cuts)
            self._seen = dict.fromkeys(Way, 0)

    @property
    def is_armed(self) -> bool:
        """Whether there is a cut that has not been made."""
        return bool(self._cuts)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Pass on nothing meanwhile, and end nothing, as a broker does that is stopped (SIGSTOP)."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def cut_all(self) -> None:
        """Cut all connections."""
        for each in list(self._sockets):
            _end(each)

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self.refuses:
                    raise ConnectionRefusedError
                broker = socket.create_connection(self.target)
            except OSError:  # the broker is not there: neither is this
                _end(client)
                client.close()
                continue
            for each in (client, broker):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets |= {client, broker}
            for way, source, sink in ((Way.UP, client, broker), (Way.DOWN, broker, client)):
                Thread(target=self._relay, args=(way, source, sink), name=f"proxy {way.name}", daemon=True).start()

    def _relay(self, way: Way, source: socket.socket, sink: socket.socket) -> None:
        ends = self._frame_ends()
        try:
            while data := source.recv(65536):
                self._flows.wait()
                if self.delay_s:
                    self._over.wait(self.delay_s)
                passed, cut = self._judge(way, data, ends.of(data))
                self._pass_on(sink, data[:passed])
                if cut is not None and cut.place is Place.LATE:
                    self._pass_on_late(source, sink, data[passed:])
                if cut is not None:
                    break
        except OSError:
            pass  # one side has gone: so does the other
        finally:
            for each in (source, sink):
                if each not in self._kept:
                    _end(each)
            self._sockets -= {source}
            if source not in self._kept:
                source.close()

    def _pass_on_late(self, source: socket.socket, sink: socket.socket, data: bytes) -> None:
        """Let the client find its connection lost, and the broker hear the rest of it behind what the next one says."""
        self._kept.add(sink)
        try:
            _end(source)
            with self._changed:
                limit = self._frames_up + _OVERTAKING
                self._changed.wait_for(lambda: self._frames_up >= limit or self._over.is_set(), _LATE_S)
            sink.sendall(data)
        finally:
            _end(sink)
            self._kept.discard(sink)
            sink.close()

    def _judge(self, way: Way, data: bytes, ends: list[int]) -> tuple[int, Cut | None]:
        """Return how many bytes pass, and which cut is made then; frames end at `ends`."""
        with self._changed:
            if way is Way.UP:
                self._frames_up += len(ends)
                self._changed.notify_all()
            if not self._cuts or self._cuts[0].way is not way:
                return len(data), None
            cut, begin = self._cuts[0], 0
            for end in ends:
                self._seen[way] += 1
                if self._seen[way] == cut.frame:
                    self._cuts.popleft()
                    self._seen = dict.fromkeys(Way, 0)
                    self.cut_count += 1
                    self._changed.notify_all()
                    passed = {Place.WITHIN: (begin + end) // 2, Place.AFTER: end + 1}
                    return passed.get(cut.place, begin), cut
                begin = end + 1
            return len(data), None

    def _pass_on(self, sink: socket.socket, data: bytes) -> None:
        if not self.rechunks:
            sink.sendall(data)
            return
        while data:
            size = self._random.choice([1, 2, 7, 100, 1_000, 10_000])
            sink.sendall(data[:size])
            data = data[size:]
            if self._random.random() < 0.05:
                self._over.wait(_DELAY_S)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
