"""What a transport and a protocol expect of each other (Broker-J, "AMQP Protocol Engines").

A transport owns the socket. It feeds the engine with what it read, pulls what the engine has to say when the wire can
take it, and looks after time; the engine never pushes and never blocks. Whatever may wait, such as a write to the
disk, goes through `TransportContext.work`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from pyjms.spi.envelope import fact

_T = TypeVar("_T")


@fact
class Peer:
    """Who is at the other end of a connection, as far as the transport knows."""

    address: str
    """For logs and for people: ``127.0.0.1:49152``."""
    listener: str
    """The URL that it came in by: ``stomps://127.0.0.1:61614``."""
    is_secure: bool
    """Whether the connection is encrypted."""
    certificate: bytes | None
    """The certificate that the client proved to own, in DER form; None: it showed none."""


@fact
class BatchJob:
    """How a job is done together with others of its kind, of whichever connections: one forced write serves them all."""

    together: Callable[[Sequence[Any]], Sequence[BaseException | None]]
    """Does the parts of several jobs, and returns of each how it ended. Jobs with an equal function are of one kind."""
    part: Any
    """What is this job's own."""
    ended: Callable[[BaseException | None], None]
    """Hears how it ended, before `done` is called, in place of what the job itself would have done."""


class TransportContext(Protocol):
    """What a transport does for the engine of one connection."""

    @property
    def peer(self) -> Peer:
        """The other end."""
        ...

    @property
    def heard_ms(self) -> float:
        """When the peer was last heard, on the monotonic clock; any byte counts. On the connection's thread.

        It is now while the transport itself does not listen, because it holds a buffer of bytes that the engine cannot take yet: a
        peer that cannot be heard is not silent (BJ-IDLE-3).
        """
        ...

    def wake(self) -> None:
        """Have the connection serviced soon (Broker-J `schedule`). Any thread; cheap; calls before it is are one."""
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

        `brief`: it waits for a local disk at most, once or a few times. Such a job may run on the connection's thread after
        all, soon, if no other one waits and the disk has been quick: two changes of threads cost more than a quick disk.
        `batch`: a brief job may also be done there together with others, in this way.
        `patient`: it may wait for what other clients do, for as long as they please. Such jobs get a part of the threads only.

        Called on the connection's thread, as `done` is. Several jobs of a connection may run at the same time: the engine
        keeps what must be in order in order, and says by `is_reading` how much may wait for them. `done` is called even
        when the connection has ended meanwhile, then after `closed`, which should end what the job waits for. Its error
        is a `ResourceError` if no thread came free for the job.
        """
        ...

    def do_brief(self, job: Callable[[], None]) -> bool:
        """Run a brief job at once, if no other connection has any of late and the disk has been quick; return whether it was run.

        If not, `work` runs it, perhaps together with those of others. What `job` raises is raised here. On the connection's thread.
        """
        ...

    @property
    def is_free(self) -> bool:
        """Whether all that the engine has said is on its way, and it has no turn to come: what it says now it may `push`.

        On the connection's thread.
        """
        ...

    def push(self, data: bytes) -> None:
        """Send `data` at once, without a turn, while the connection `is_free`; it is not free again until its next turn, or until
        the peer says something. So whoever does not read costs one such push more. On the connection's thread. What a layer raises ends this
        connection, as ever.
        """
        ...


class ProtocolEngine(ABC):
    """One connection's half of a protocol. Only its connection's thread calls it (Broker-J: never two at once)."""

    @abstractmethod
    def received(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes from the wire; no more than the transport's buffer, or one WebSocket message, holds. `data` may be
        kept. Never raises for what the bytes say.
        """

    @abstractmethod
    def pull(self, size: int) -> bytes | bytearray | memoryview:
        """Return about `size` bytes for the wire, doing the pending work that makes them; nothing: there is none now.

        One frame that is larger than `size` comes whole. What happens because of it (messages settled when they were
        written, say) happens now.
        """

    @property
    @abstractmethod
    def is_reading(self) -> bool:
        """Whether the engine can take more bytes; while it cannot, the transport leaves them in the socket, save for one
        buffer. Who can again, outside of the transport's calls, says so by `TransportContext.wake`.
        """

    @property
    def knows_peer(self) -> bool:
        """Whether the peer has logged in; as long as it has not, hardly anything is held for it that the engine has not got yet."""
        return True

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the connection is to be closed as soon as what there is to pull has been written."""

    @abstractmethod
    def next_tick_ms(self) -> int | None:
        """Return when `tick` wants to be called, on the monotonic clock; None: not at all (Broker-J idle tickers).

        Asked after each turn, and after `received` if no call is due. Who wants an earlier one than it has said wakes the transport.
        """

    @abstractmethod
    def tick(self) -> None:
        """Look after time: heart-beats, silence, time-outs."""

    @abstractmethod
    def stop(self, reason: str) -> None:
        """Hear that the broker stops, or has waited for this peer long enough: tell the peer, finish what is acknowledged, then be over. May be repeated."""

    @abstractmethod
    def closed(self, error: BaseException | None) -> None:
        """Hear that the connection has ended, by the peer or by a failure; called once, and last, but for the results of
        jobs that still run. Must not wait.
        """
