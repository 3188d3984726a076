"""The interface between a transport and a protocol engine (Broker-J, "AMQP Protocol Engines").

A transport owns the socket. It feeds the engine with the bytes that it reads, pulls bytes when the wire can take them, and keeps the time;
the engine never pushes and never blocks. Work that may wait, such as a write to the disk, goes through `TransportContext.work`.

`ChoosingEngine` serves STOMP and AMQP on one port: the first bytes of a client tell which of them it speaks. `RareLines` limits the log lines that
clients can cause.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Protocol, TypeVar

from pyjms.spi.envelope import fact

_T = TypeVar("_T")


@fact
class Peer:
    """The client at the other end of a connection, as far as the transport knows."""

    address: str
    """For logs: ``127.0.0.1:49152``."""
    listener: str
    """The URL of the listener: ``stomps://127.0.0.1:61614``."""
    is_secure: bool
    """Whether the connection is encrypted."""
    certificate: bytes | None
    """The certificate whose key the client proved to have, in DER form; None: it showed none."""


@fact
class BatchJob:
    """How a job is done together with others of its kind, also of other connections: one forced write serves all."""

    together: Callable[[Sequence[Any]], Sequence[BaseException | None]]
    """Does the parts of several jobs, and returns the error of each, or None. Jobs with an equal function are of one kind."""
    part: Any
    """This job's own part."""
    ended: Callable[[BaseException | None], None]
    """Does the rest of the job in a batch: called with its error or None, before `done`."""


class DeclinedJobError(Exception):
    """Another process has declined a job, without any effect: it is to be done by `TransportContext.work`."""


@fact
class RemoteJob:
    """A job that another process can do, without a thread here that waits for it."""

    start: Callable[[Callable[[BaseException | None], None]], bool]
    """Begins it, and never waits. Returns False if it cannot be begun so: then nothing has happened. Its argument takes the outcome, the
    job's error, `DeclinedJobError` or None, once, on any thread, perhaps before `start` returns. A `ProviderError`
    that `start` raises is the outcome, too.
    """
    ended: Callable[[BaseException | None], None]
    """Does the rest of it, on the connection's thread: called with its error or None."""


class TransportContext(Protocol):
    """What a transport does for the engine of one connection."""

    @property
    def peer(self) -> Peer:
        """The other end."""
        ...

    @property
    def heard_ms(self) -> float:
        """When the last byte of the peer was received, on the monotonic clock. On the connection's thread.

        It is now while the transport itself does not read, because it holds a buffer of bytes that the engine cannot take yet: a peer that
        is not read from is not silent (BJ-IDLE-3).
        """
        ...

    def wake(self) -> None:
        """Have the connection serviced soon (Broker-J `schedule`). Any thread; cheap; several calls before the service count as one."""
        ...

    def work(
        self,
        job: Callable[[], _T],
        done: Callable[[_T | None, BaseException | None], None],
        *,
        brief: bool = False,
        batch: BatchJob | None = None,
        patient: bool = False,
    ) -> None:
        """Run `job`, which may wait, on another thread; then call `done` with its result or its error.

        `brief`: it waits for a local disk at most, once or a few times. Such a job may run on the connection's thread after all, soon, if
        no other one waits and the disk has been quick: two thread switches cost more than a quick disk. `batch`: a brief job may also be
        done there together with others, in this way. `patient`: it may wait for other clients without a limit. Such jobs get only a part of
        the threads.

        Called on the connection's thread, as `done` is. Several jobs of a connection may run at the same time: the engine keeps the order
        where it matters, and limits by `is_reading` how much may wait for them. `done` is called even when the connection has ended
        meanwhile, then after `closed`, which should end the job's waits. Its error is a `ResourceError` if no thread became free for the
        job.
        """
        ...

    def begin(self, job: RemoteJob, done: Callable[[bool], None], *, patient: bool = False) -> bool:
        """Have another process do a job, and call `done` after it, as `work` does, but never before this returns.

        `done` is told whether it was done; False: it was declined. `patient`: as in `work`. Returns False if it cannot be begun. On the
        connection's thread.
        """
        ...

    def do_brief(self, job: Callable[[], None]) -> bool:
        """Run a brief job at once, if no other connection has had any lately and the disk has been quick; return whether it was run.

        If not, pass it to `work`, which may run it together with those of others. An error of `job` is raised here. On the connection's
        thread.
        """
        ...

    @property
    def is_free(self) -> bool:
        """Whether all output of the engine is on its way, and it has no turn to come: then it may `push` more.

        On the connection's thread.
        """
        ...

    def push(self, data: bytes) -> None:
        """Send `data` at once, without a turn, while the connection `is_free`; it is not free again until its next turn, or until the peer
        sends something: so a peer that does not read costs only one such push. On the connection's thread. An error of a layer ends this
        connection, as always.
        """
        ...


class ProtocolEngine(ABC):
    """One connection's half of a protocol. Only its connection's thread calls it (Broker-J: never two at once)."""

    @abstractmethod
    def received(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes from the wire; no more than the transport's buffer, or one WebSocket message, holds. `data` may be kept. Never raises
        because of their content.
        """

    @abstractmethod
    def pull(self, size: int) -> bytes | bytearray | memoryview:
        """Return about `size` bytes for the wire, doing the pending work that makes them; empty: there are none now.

        One frame that is larger than `size` is returned whole. Its consequences (such as messages settled when they are written) happen
        now.
        """

    @property
    @abstractmethod
    def is_reading(self) -> bool:
        """Whether the engine can take more bytes; while it cannot, the transport leaves them in the socket, save for one buffer. If that
        changes outside of the transport's calls, the engine calls `TransportContext.wake`.
        """

    @property
    def knows_peer(self) -> bool:
        """Whether the peer has logged in; before that, the transport holds hardly any unread bytes for it."""
        return True

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the connection is to be closed as soon as all pending output has been written."""

    @abstractmethod
    def next_tick_ms(self) -> int | None:
        """Return when `tick` should be called, on the monotonic clock; None: not at all (Broker-J idle tickers).

        Called after each turn, and after `received` if no tick is due. To be ticked earlier than it has said, the engine wakes the
        transport.
        """

    @abstractmethod
    def tick(self) -> None:
        """Check heart-beats, silence and time-outs."""

    @abstractmethod
    def stop(self, reason: str) -> None:
        """End the connection, because the broker stops or has waited too long: tell the peer, finish what is acknowledged, then be over.
        May be repeated.
        """

    @abstractmethod
    def closed(self, error: BaseException | None) -> None:
        """Clean up: the connection has ended, by the peer or by a failure. The last call, except the results of jobs that still run. Must
        not wait.
        """


_AMQP: Final = b"AMQP"


class ChoosingEngine(ProtocolEngine):
    """An engine that becomes that of the protocol which the client speaks."""

    def __init__(
        self,
        transport: TransportContext,
        make_amqp: Callable[[TransportContext], ProtocolEngine],
        make_stomp: Callable[[TransportContext], ProtocolEngine],
    ) -> None:
        self._transport = transport
        self._make_amqp = make_amqp
        # A client that sends nothing is one of STOMP, whose engine knows how long a login may take.
        self._engine = make_stomp(transport)
        self._first: bytes | None = b""
        """What has come of the first bytes; None: the protocol is known."""

    def received(self, data: bytes | bytearray | memoryview) -> None:
        if self._first is None:
            self._engine.received(data)
            return
        first = self._first + bytes(data)
        if len(first) < len(_AMQP) and _AMQP.startswith(first):
            self._first = first
            return
        if first.startswith(_AMQP):
            self._engine.closed(None)
            self._engine = self._make_amqp(self._transport)
        self._first = None
        self._engine.received(first)

    def pull(self, size: int) -> bytes | bytearray | memoryview:
        return self._engine.pull(size)

    @property
    def is_reading(self) -> bool:
        return self._engine.is_reading

    @property
    def knows_peer(self) -> bool:
        return self._engine.knows_peer

    @property
    def is_over(self) -> bool:
        return self._engine.is_over

    def next_tick_ms(self) -> int | None:
        return self._engine.next_tick_ms()

    def tick(self) -> None:
        self._engine.tick()

    def stop(self, reason: str) -> None:
        self._engine.stop(reason)

    def closed(self, error: BaseException | None) -> None:
        self._engine.closed(error)


_SILENCE_MS: Final = 5_000


class RareLines:
    """Lets one line of a kind through every five seconds, and counts the others. One thread at a time."""

    def __init__(self) -> None:
        self._quiet: dict[Hashable, tuple[float, int]] = {}

    def missed(self, kind: Hashable, now_ms: float) -> str | None:
        """Return the text to append to a line that may be written now: how many were suppressed, or nothing; None: suppress this one.

        now_ms: of the monotonic clock. There are few kinds: each is kept.
        """
        until_ms, missed = self._quiet.get(kind, (now_ms, 0))
        if now_ms < until_ms:
            self._quiet[kind] = (until_ms, missed + 1)
            return None
        self._quiet[kind] = (now_ms + _SILENCE_MS, 0)
        return f" (and {missed} more since the last such line)" if missed else ""
