"""What the network benchmarks share: the workloads, and the processes that play them.

Each client runs in a process of its own, and the broker in another one. A client is made in the process that uses it. Times are
`perf_counter`, which all processes of a machine share.
"""

from __future__ import annotations

import multiprocessing
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection as Pipe
from time import perf_counter, process_time
from typing import Any, Final

import psutil

__all__ = [
    "BATCH",
    "Backlog",
    "Client",
    "Figures",
    "Peer",
    "backlog",
    "confirmed",
    "pipelined",
    "round_trips",
    "transacted",
]

BATCH: Final = 100
_PATIENCE_S: Final = 180


class Client(ABC):
    """One client of one broker, tuned as its documentation says. Used by one process, for one workload."""

    @abstractmethod
    def send(self, queue: str) -> None:
        """Send one message that may be lost, without waiting for an answer."""

    @abstractmethod
    def flush(self) -> None:
        """Return when the broker has read all that was sent."""

    @abstractmethod
    def send_confirmed(self, queue: str) -> None:
        """Send one message, and return when the broker says that it is on the disk."""

    @abstractmethod
    def send_batch(self, queue: str) -> None:
        """Send `BATCH` durable messages in a transaction, and commit it."""

    @abstractmethod
    def consume(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        """Receive so many messages as cheaply as it goes; call `ready` once subscribed."""

    @abstractmethod
    def receive_acknowledged(self, queue: str, count: int) -> None:
        """Receive so many, and acknowledge each by itself, without waiting for the broker each time."""

    @abstractmethod
    def receive_batches(self, queue: str, count: int) -> None:
        """Receive so many in transactions of `BATCH`."""

    @abstractmethod
    def request(self, queue: str, count: int) -> list[float]:
        """Send so many requests, one after the other; return the seconds until each reply."""

    @abstractmethod
    def reply(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        """Answer so many requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A broker with a client: how to connect, which process to ask for its time, and how a queue is made."""

    name: str
    connect: Callable[[], Client]
    process: psutil.Process
    make_queue: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one workload took."""

    rate: float
    """Messages, or round trips, a second."""
    broker_us: float
    """Processor time of the broker for each."""
    client_us: float
    """Processor time of the clients for each."""


class _Side:
    """`act(ready)` in another process, forked."""

    def __init__(self, act: Callable[[Callable[[], None]], Any]) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(target=_play, args=(act, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def _next(self) -> Any:
        if not self._pipe.poll(_PATIENCE_S):
            self._process.kill()
            raise TimeoutError(f"a client has said nothing for {_PATIENCE_S} s")
        return self._pipe.recv()  # EOFError if it has failed; it has said why

    def ready(self) -> None:
        """Return when it is ready."""
        self._next()

    def result(self) -> tuple[Any, float]:
        """Return what `act` has returned, and the processor's seconds of the process."""
        said = self._next()
        while said is None:
            said = self._next()
        self._process.join()
        return said[0], said[1]


def _play(act: Callable[[Callable[[], None]], Any], pipe: Pipe) -> None:
    begin = process_time()
    value = act(partial(pipe.send, None))
    pipe.send((value, process_time() - begin))


def _seconds(process: psutil.Process) -> float:
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def _resident(process: psutil.Process) -> int:
    return int(sum(each.memory_info().rss for each in (process, *process.children(recursive=True))))


def _timed(peer: Peer, count: int, act: Callable[[Client], Any]) -> Figures:
    """Have a fresh client do `act`, which is about so many messages."""

    def play(ready: Callable[[], None]) -> tuple[float, float]:
        client = peer.connect()
        begin, begin_s = perf_counter(), process_time()  # after the connection, which is dear and made once
        act(client)
        return perf_counter() - begin, process_time() - begin_s

    before = _seconds(peer.process)
    (took, client_s), _ = _Side(play).result()
    return Figures(
        rate=count / took,
        broker_us=(_seconds(peer.process) - before) / count * 1e6,
        client_us=client_s / count * 1e6,
    )


def _times(count: int, act: Callable[[], None]) -> None:
    for _ in range(count):
        act()


def pipelined(peer: Peer, count: int) -> Figures:
    """Send messages that may be lost from one process to another: W1."""
    queue = peer.make_queue()

    def receive(ready: Callable[[], None]) -> float:
        peer.connect().consume(queue, count, ready)
        return perf_counter()

    def send(ready: Callable[[], None]) -> float:
        client = peer.connect()
        begin = perf_counter()
        for _ in range(count):
            client.send(queue)
        client.flush()
        return begin

    receiver = _Side(receive)
    receiver.ready()
    before = _seconds(peer.process)
    begin, sender_s = _Side(send).result()
    end, receiver_s = receiver.result()
    return Figures(
        rate=count / (end - begin),
        broker_us=(_seconds(peer.process) - before) / count * 1e6,
        client_us=(sender_s + receiver_s) / count * 1e6,
    )


def confirmed(peer: Peer, count: int) -> tuple[Figures, Figures]:
    """Send durable messages, each one confirmed; then receive and acknowledge each: W2."""
    queue = peer.make_queue()
    sent = _timed(peer, count, lambda client: _times(count, partial(client.send_confirmed, queue)))
    return sent, _timed(peer, count, lambda client: client.receive_acknowledged(queue, count))


def transacted(peer: Peer, count: int) -> tuple[Figures, Figures]:
    """Send in transactions, and receive in transactions: W3."""
    queue = peer.make_queue()
    sent = _timed(peer, count, lambda client: _times(count // BATCH, partial(client.send_batch, queue)))
    return sent, _timed(peer, count, lambda client: client.receive_batches(queue, count))


def round_trips(peer: Peer, count: int) -> tuple[float, float]:
    """Return the 50th and the 99th percentile of a request with its reply, in microseconds: W4."""
    queue = peer.make_queue()
    first = count // 10
    replier = _Side(lambda ready: peer.connect().reply(queue, first + count, ready))
    replier.ready()
    took, _ = _Side(lambda ready: peer.connect().request(queue, first + count)).result()
    replier.result()
    found = statistics.quantiles(took[first:], n=100)
    return found[49] * 1e6, found[98] * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What a queue full of messages takes."""

    send: float
    """Messages a second."""
    drain: float
    """Messages a second."""
    memory: float
    """Bytes of the broker's memory for each message."""


def backlog(peer: Peer, count: int) -> Backlog:
    """Send messages that nobody takes, and then take them: W5."""
    queue = peer.make_queue()

    def fill(client: Client) -> None:
        _times(count, partial(client.send, queue))
        client.flush()

    before = _resident(peer.process)
    sent = _timed(peer, count, fill)
    memory = (_resident(peer.process) - before) / count
    drained = _timed(peer, count, lambda client: client.consume(queue, count, lambda: None))
    return Backlog(send=sent.rate, drain=drained.rate, memory=memory)
