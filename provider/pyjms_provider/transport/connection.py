"""One connection: translates the loop's events of its socket into the work cycle of its engine (BJ-TCP-3 … 6).

Everything runs on the loop's thread, in short turns: one read of at most the buffer's size, or one write of about that
size. A connection with more to write waits for its next turn, after the others.

Invariants:

- While bytes wait to be written, the engine is not fed and nothing more is pulled (BJ-TCP-4): so a peer that does not read
  costs one buffer and one frame. While the engine does not read, it is not fed either.
- Reading is paused only when the bytes that cannot be fed exceed a read buffer: so heart-beats of a peer that does not read still
  arrive, and their absence is noticed. Besides, a pause costs two system calls.
- Closing is bounded: a peer that does not accept the rest, or does not close its side, is disconnected after `closing_timeout_ms`. After
  a peer has closed its side, jobs that wait for other clients also end after that time: most such peers are dead, without any other sign.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from pyjms.spi.clock import Clock
from pyjms.spi.errors import ProviderError
from pyjms.spi.fast_paths import FAST_PATHS
from pyjms_provider.protocols.engine import BatchJob, DeclinedJobError, Peer, ProtocolEngine, RemoteJob
from pyjms_provider.transport.layers import HELD_FOR_STRANGERS, Bytes, Layer, LayerError
from pyjms_provider.transport.reports import RareReports, Report
from pyjms_provider.transport.scheduler import Alarm, Scheduler, Timers
from pyjms_provider.transport.settings import ListenerSettings
from pyjms_provider.transport.workers import WorkerPool

if TYPE_CHECKING:
    from pyjms_provider.transport.scheduler import Alarmed


class State(Enum):
    """The state of a connection."""

    SHAKING = "the handshakes of TLS and WebSocket go on; there is no engine"
    OPEN = "bytes go to and from the engine"
    CLOSING = "all is said; waiting for the peer to hang up"
    ENDED = "the socket is closed"


class Event(Enum):
    """An event that changes the state of a connection."""

    OPENED = "the handshakes are done"
    FINISHED = "there is nothing more to say"
    LOST = "the socket was closed"


NEXT: Final = MappingProxyType(
    {
        (State.SHAKING, Event.OPENED): State.OPEN,
        (State.SHAKING, Event.FINISHED): State.CLOSING,
        (State.OPEN, Event.FINISHED): State.CLOSING,
        (State.SHAKING, Event.LOST): State.ENDED,
        (State.OPEN, Event.LOST): State.ENDED,
        (State.CLOSING, Event.LOST): State.ENDED,
    }
)
"""The state transitions; all others are errors."""


_JOINED_BYTES: Final = 4 * 2**10


class PendingInput(deque[bytes]):
    """A queue of bytes that were read, but cannot be fed yet; small pieces are joined."""

    def add(self, data: bytes) -> None:
        """Append `data`."""
        # A `bytes` object takes some forty bytes besides its content, so heart-beats of one byte are joined.
        if self and len(self[-1]) + len(data) <= _JOINED_BYTES:
            self[-1] += data
        else:
            self.append(data)

    def has(self, size: int) -> bool:
        """Return whether `size` bytes or more are pending."""
        return sum(map(len, self)) >= size


class Deadlines:
    """The deadlines of one connection; `math.inf`: none. On the loop."""

    __slots__ = ("_alarm", "_now_ms", "_timers", "armed_ms", "limit_ms", "stalls_ms", "waits_end_ms")

    def __init__(self, timers: Timers, now_ms: Callable[[], float], target: Alarmed) -> None:
        self._timers = timers
        self._now_ms = now_ms
        self._alarm = Alarm(target)
        self.armed_ms = math.inf
        """The time of the next alarm."""
        self.limit_ms = math.inf
        """The deadline of the handshake, or of the close."""
        self.stalls_ms = math.inf
        """The time by which the peer must have accepted some of the bytes that wait for it."""
        self.waits_end_ms = math.inf
        """The time at which jobs that wait for other clients are ended, after the peer has closed its side."""

    def limit(self, timeout_ms: int) -> None:
        """Set the deadline of the handshake or close, unless there is an earlier one."""
        self.limit_ms = min(self.limit_ms, self._now_ms() + timeout_ms)
        self.arm(self.limit_ms)

    def expect_progress(self, timeout_ms: int) -> None:
        """Set the deadline for the peer to accept some of the waiting bytes."""
        self.stalls_ms = self._now_ms() + timeout_ms
        self.arm(self.stalls_ms)

    def limit_waits(self, timeout_ms: int) -> None:
        """Set the deadline for all jobs that wait for other clients, unless it is set."""
        # Not moved by a later job: a chain of jobs must not keep the connection open for ever.
        if self.waits_end_ms == math.inf:
            self.waits_end_ms = self._now_ms() + timeout_ms
            self.arm(self.waits_end_ms)

    def arm(self, at_ms: float) -> None:
        """Set the alarm, unless an earlier one is set."""
        if at_ms < self.armed_ms:
            self.armed_ms = self._timers.arm(at_ms, self._alarm, self.armed_ms)

    def arm_next(self) -> None:
        """Set the alarm for the first deadline."""
        self.arm(min(self.limit_ms, self.stalls_ms, self.waits_end_ms))

    def clear_alarm(self, due_ms: float) -> bool:
        """Return whether the alarm of `due_ms` is the one that was set last, and clear it."""
        # Alarms are never cancelled: one that was replaced by an earlier one still goes off.
        # If each of these set an alarm again, their number would grow.
        is_last = due_ms == self.armed_ms
        if is_last:
            self.armed_ms = math.inf
        return is_last

    def end(self) -> None:
        """Disable all alarms."""
        # The heap keeps the alarm until its time, but must not keep the connection in memory.
        self._alarm.target = None


_T = TypeVar("_T")


class Direction(Enum):
    """The direction of traced bytes."""

    IN = "in"
    OUT = "out"


Trace = Callable[[str, Direction, bytes], None]
"""Called with the peer's address and all bytes that engines receive and send. The bytes may contain passwords."""


class ListenerContext(Protocol):
    """The part of the listener that a connection needs."""

    settings: ListenerSettings
    clock: Clock
    scheduler: Scheduler
    timers: Timers
    workers: WorkerPool
    reports: RareReports
    buffer: memoryview
    """The read buffer, shared by all connections, as its content is copied immediately."""
    trace: Trace | None
    bytes_in: int
    bytes_out: int

    def url_of(self, *, is_secure: bool) -> str:
        """Return the URL for clients with, or without, TLS."""
        ...

    def make_layer(self, first: bytes) -> tuple[Layer | None, bool]:
        """Choose the layer below the engine by the first bytes; return it, and whether the connection uses TLS."""
        ...

    def make_engine(self, connection: Connection) -> ProtocolEngine:
        """Create the engine of a connection."""
        ...

    def ended(self, connection: Connection) -> None:
        """Remove an ended connection."""
        ...


_LONG_READ_MS: Final = 1  # a turn of less than that is cheaper than another turn later


def _nothing() -> None:
    """Do nothing: the turn of an ended connection."""


# Looking up a member of an enumeration takes a dozen steps, and these two are needed for every read.
_OPEN: Final = State.OPEN
_CLOSING: Final = State.CLOSING


class Connection(asyncio.BufferedProtocol):
    """The `TransportContext` of one engine. All methods are called on the loop, except `wake`, which any thread may call."""

    def __init__(self, home: ListenerContext, address: str) -> None:
        self._home = home
        self._settings = home.settings
        self._share = home.settings.write_buffer_bytes
        self._address = address
        self._state = State.SHAKING
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._layer: Layer | None = None
        self._is_unwanted = False
        self._is_made = False
        self._is_secure = False
        self._is_chosen = False
        self._engine: ProtocolEngine | None = None
        self._peer: Peer | None = None
        # Bound once, as it is scheduled for each turn, and replaced when the connection ends.
        self._turn = self.turn
        self._deadlines = Deadlines(home.timers, home.clock.monotonic_ms, self)
        self._is_awake = False
        self._is_blocked = False
        self._is_paused = False
        self._has_more = False
        self._has_pushed = False
        self._is_eof = False
        self._jobs = 0
        self._patient_jobs = 0
        self._pending_input = PendingInput()
        self._unsent = 0
        self._now_ms = home.clock.monotonic_ms
        self._heard_ms = self._now_ms()
        self._error: BaseException | None = None

    # ------------------------------------------------------------------------------------------- what engines call

    @property
    def peer(self) -> Peer:
        assert self._peer is not None, "an engine is made when the peer is known"
        return self._peer

    @property
    def heard_ms(self) -> float:
        # While reading is paused, nothing can be received: that does not count as the peer's silence (BJ-IDLE-3).
        return self._now_ms() if self._is_paused else self._heard_ms

    def wake(self) -> None:
        # Without a lock: two threads in a race only give the connection one turn too many.
        if not self._is_awake:
            self._is_awake = True
            self._home.scheduler.add(self._turn)

    def work(
        self,
        job: Callable[[], _T],
        done: Callable[[_T | None, BaseException | None], None],
        *,
        brief: bool = False,
        batch: BatchJob | None = None,
        patient: bool = False,
    ) -> None:
        self._jobs += 1
        self._patient_jobs += patient

        def finished(result: object, error: BaseException | None) -> None:
            # Decremented before `done`, as the following `wake` ends the connection if this was its last job.
            self._jobs -= 1
            self._patient_jobs -= patient
            self._try(cast("Callable[[object, BaseException | None], None]", done), result, error)
            self.wake()

        self._home.workers.submit(job, finished, brief=brief, batch=batch, patient=patient)

    def begin(self, job: RemoteJob, done: Callable[[bool], None], *, patient: bool = False) -> bool:
        def finished(error: BaseException | None) -> None:
            # As in `work`.
            self._jobs -= 1
            self._patient_jobs -= patient
            is_done = not isinstance(error, DeclinedJobError)
            if is_done:
                self._try(job.ended, error)
            self._try(done, is_done)
            self.wake()

        def tell(error: BaseException | None) -> None:
            add(partial(finished, error))

        add = self._home.scheduler.add
        self._jobs += 1
        self._patient_jobs += patient
        is_begun = False
        try:
            is_begun = job.start(tell)
        except ProviderError as error:
            is_begun = True
            tell(error)
        finally:
            if not is_begun:
                self._jobs -= 1
                self._patient_jobs -= patient
        return is_begun

    def do_brief(self, job: Callable[[], None]) -> bool:
        return FAST_PATHS and self._home.workers.do_alone(self, job)

    @property
    def is_free(self) -> bool:
        # Pushed bytes must not overtake bytes that wait for a turn, and there
        # must be a turn between two pushes (decision 0610).
        busy = self._is_awake or self._is_blocked or self._has_more or self._has_pushed
        return not busy and self._state is _OPEN and not self._transport.is_closing()

    def push(self, data: bytes) -> None:
        self._has_pushed = True
        home = self._home
        if self._layer is None and home.trace is None:
            home.bytes_out += len(data)
            self._transport.write(data)
        else:
            self._try(self._send_chunks, [data])

    # -------------------------------------------------------------------------------------------- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin. With a limit of 0 asyncio calls `pause_writing` as soon as the system does not accept everything."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._is_made = True
        # The listener was closed between `accept` and now.
        if self._is_unwanted:
            self.abort()
            return
        if self._settings.plain_and_tls:  # the peer's first byte decides
            self._deadlines.limit(self._settings.handshake_timeout_ms)
        else:
            self._try(self._choose, b"")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the read buffer."""
        return self._home.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Process read bytes: one read phase, between two write phases (BJ-TCP-3)."""
        home = self._home
        # Copied: all connections of the listener read into one buffer.
        data = bytes(home.buffer[:nbytes])
        home.bytes_in += nbytes
        self._heard_ms = self._now_ms()
        self._has_pushed = False
        if self._state is _CLOSING:
            return  # read and discarded: unread bytes would cause a reset, which may overtake the last bytes sent
        try:
            self._read(data)
            if nbytes == len(home.buffer) and self._now_ms() >= self._heard_ms + _LONG_READ_MS:
                self._yield_to_others()
        except Exception as error:
            self._fail(error)

    def eof_received(self) -> bool:
        """Handle the close of the peer's side; its requests are still answered, unless they wait too long for other clients."""
        self._is_eof = True
        if self._state is not _OPEN:
            return False
        self.wake()
        # On a false value asyncio would close the transport, while answers are still outstanding.
        return True

    def pause_writing(self) -> None:
        """Stop writing: the system's buffer is full."""
        self._is_blocked = True
        self._expect_progress()

    def resume_writing(self) -> None:
        """Write again: the system has accepted all bytes."""
        self._is_blocked = False
        self._deadlines.stalls_ms = math.inf
        # The peer has accepted everything, and the connection goes on: remove the deadline of a close.
        if self._state is _OPEN and not self._is_ending():
            self._deadlines.limit_ms = math.inf
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection. The engine gets this as its last event, except for the results of its jobs."""
        if self._state is State.ENDED:
            return
        self._move(Event.LOST)
        self._pending_input.clear()
        if self._layer is not None:
            self._layer.drop_input()
        # After the change of the state: calls by the engine must find the connection ended.
        if self._engine is not None:
            self._try(self._engine.closed, self._error or exc)
        self._home.ended(self)
        Report.DISCONNECTED.log("%s", self._address)
        # References are cleared, so that the memory is freed after the last job, and not only by the next garbage collection:
        # short connections would fill it.
        self._deadlines.end()
        self._turn = _nothing
        self._engine = None

    # --------------------------------------------------------------------------------------------- what the loop calls

    def turn(self) -> None:
        """Do one turn of work. On the loop."""
        # Cleared before the work: a wake-up during it causes another turn.
        self._is_awake = False
        self._try(self._cycle)

    def alarm(self, due_ms: float) -> None:
        """Check the deadlines, and let the engine tick. On the loop."""
        deadlines = self._deadlines
        if not deadlines.clear_alarm(due_ms) or self._state is State.ENDED:
            return
        now_ms = self._now_ms()
        # `_has_progressed` also starts the next period, so it is called only when this one is over.
        if now_ms >= deadlines.limit_ms or (now_ms >= deadlines.stalls_ms and not self._has_progressed()):
            self._time_out()
            return
        if now_ms >= deadlines.waits_end_ms:
            deadlines.waits_end_ms = math.inf
            self._try(self._end_waits)
        self._try(self._tick, now_ms)
        deadlines.arm_next()

    def stop(self, reason: str) -> None:
        """Ask the engine to end the connection in an orderly way. On the loop."""
        if self._state is State.SHAKING:
            self.abort()
        if self._state is _OPEN:
            self._try(self._the_engine().stop, reason)
            self._try(self._cycle)

    def abort(self) -> None:
        """Close the socket immediately, without sending pending bytes. On the loop."""
        self._is_unwanted = True
        if self._is_made:
            self._transport.abort()

    # ------------------------------------------------------------------------------------------------------- handshake

    def _choose(self, first: bytes) -> None:
        self._is_chosen = True
        self._layer, self._is_secure = self._home.make_layer(first)
        if self._layer is None:
            self._open(None)
        else:
            self._deadlines.limit(self._settings.handshake_timeout_ms)

    def _open(self, certificate: bytes | None) -> None:
        home = self._home
        self._deadlines.limit_ms = math.inf
        self._peer = Peer(
            address=self._address,
            listener=home.url_of(is_secure=self._is_secure),
            is_secure=self._is_secure,
            certificate=certificate,
        )
        self._engine = home.make_engine(self)
        self._move(Event.OPENED)
        Report.CONNECTED.log("%s by %s", self._address, self._peer.listener)
        self.wake()

    def _unwrap(self, data: bytes) -> None:
        if not self._is_chosen:
            self._choose(data)
        layer = self._layer
        if layer is None:
            self._pending_input.add(data)
            return
        try:
            chunks = layer.received(data)
        except LayerError as error:
            self._refuse(error)
            return
        if self._engine is None and layer.is_open:
            self._open(layer.certificate)
        # After the engine was created: the first frame may be in the same read as the end of the handshake.
        for chunk in chunks:
            self._pending_input.add(chunk)
        self._is_eof = self._is_eof or layer.is_over
        if layer.held > HELD_FOR_STRANGERS:
            self._limit_unauthenticated(layer)

    def _limit_unauthenticated(self, layer: Layer) -> None:
        """Limit the pending input of a client that has not logged in; the rest waits in the socket."""
        engine = self._engine
        if engine is None or (engine.is_reading and not engine.knows_peer):
            self._refuse(layer.refuse_more())
        elif not engine.knows_peer:
            self._pause()

    def _refuse(self, error: LayerError) -> None:
        self._home.reports.log(Report.HANDSHAKE_FAILED, "%s: %s", self._address, error)
        self._error = error
        self._pending_input.clear()
        self._finish()

    # ---------------------------------------------------------------------------------------------------- the work cycle

    def _read(self, data: bytes) -> None:
        engine = self._engine
        if self._layer is None and engine is not None:
            waits = self._pending_input or self._is_awake or self._has_more or self._is_blocked
            if not waits and self._home.trace is None and engine.is_reading:
                engine.received(data)  # nothing is pending: the cycle below in a third of its steps
                self._write()
                # If an alarm is set, it checks the deadlines; `_balance` sets the first one, or ends the connection.
                if self._deadlines.armed_ms == math.inf or engine.is_over or self._is_eof:
                    self._balance()
                return
            self._pending_input.add(data)
        else:
            self._unwrap(data)
        # If the last pull returned nothing, and the engine was not woken since, there is nothing to write first.
        self._cycle(write_first=self._is_awake or self._has_more)
        if self._layer is not None and self._state is _OPEN:
            self._answer(self._layer)

    def _answer(self, layer: Layer) -> None:
        """Send the layer's own output, such as pongs; stop reading from a peer that does not read them."""
        said = layer.pending()
        self._send(said)
        # Otherwise the pongs for a peer that does not read could fill the memory.
        if said and self._is_blocked:
            self._pause()

    def _tick(self, now_ms: float) -> None:
        if self._state is _OPEN:
            engine = self._the_engine()
            due_ms = engine.next_tick_ms()
            if due_ms is not None and due_ms <= now_ms:
                engine.tick()
        self._cycle()

    def _cycle(self, *, write_first: bool = True) -> None:
        """Write, read, write (BJ-TCP-3), then update the state of reading and the alarm."""
        if self._state is not _OPEN:
            if self._state is State.SHAKING:
                self._shake()
            return
        if write_first:
            self._write()
        if self._pending_input and self._feed():
            self._write()
        if self._state is _OPEN:  # writing may have ended the connection
            self._balance()

    def _shake(self) -> None:
        if self._layer is not None:
            self._send(self._layer.pending())
        if self._is_eof:
            self._finish()

    def _feed(self) -> bool:
        """Feed pending input to the engine while it reads; return whether there was any."""
        engine = self._engine
        assert engine is not None, "there is an engine while the connection is open"
        pending_input = self._pending_input
        trace = self._home.trace
        is_fed = False
        while pending_input and not (self._is_blocked or self._has_more) and engine.is_reading:
            data = pending_input.popleft()
            if trace is not None:
                trace(self._address, Direction.IN, data)
            engine.received(data)
            is_fed = True
        return is_fed

    def _write(self) -> None:
        """Pull about a buffer's size, and send it immediately; a connection with more gets another turn (BJ-PE-6, 7)."""
        if self._is_blocked:
            return
        engine = self._engine
        assert engine is not None, "there is an engine while the connection is open"
        # This is a turn, after which the engine may push again.
        self._has_pushed = False
        pull = engine.pull
        chunks: list[Bytes] = []
        room = self._share
        while room > 0:
            data = pull(room)
            if not data:
                break
            chunks.append(data)
            room -= len(data)
        self._has_more = room <= 0
        # If there may be more bytes, they are sent in another turn, after the other connections (BJ-PE-7).
        if room <= 0:
            self.wake()
        if chunks:
            self._send_chunks(chunks)
        if self._layer is not None:
            self._send(self._layer.pending())

    def _send_chunks(self, chunks: list[Bytes]) -> None:
        if self._home.trace is not None:
            for chunk in chunks:
                self._home.trace(self._address, Direction.OUT, bytes(chunk))
        if self._layer is not None:
            self._send(self._layer.wrap(chunks))
        else:
            self._send(chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def _send(self, data: Bytes) -> None:
        if data:
            self._home.bytes_out += len(data)
            if self._is_blocked:
                self._unsent += len(data)  # so that `_has_progressed` does not count these new bytes as not accepted
            self._transport.write(data)

    def _expect_progress(self) -> None:
        """Set the deadline for the peer to accept some of the waiting bytes, if one is configured."""
        if self._settings.stalled_timeout_ms is not None:
            self._unsent = self._transport.get_write_buffer_size()
            self._deadlines.expect_progress(self._settings.stalled_timeout_ms)

    def _has_progressed(self) -> bool:
        """Return whether the peer has accepted any byte since the last check, and start the next period: it may just be slow."""
        # Read first, as `_expect_progress` replaces it by the present size.
        unsent = self._unsent
        self._expect_progress()
        return self._unsent < unsent

    def _balance(self) -> None:
        """Pause or resume reading; close the connection if everything is sent; set the alarm."""
        engine = self._engine
        assert engine is not None, "there is an engine while the connection is open"
        if engine.is_over or (self._is_eof and self._is_ending()):
            if not self._is_blocked and not self._has_more:
                self._finish()
                return
            # Everything is pulled, but the peer must still accept bytes: it gets a limited time for that.
            self._deadlines.limit(self._settings.closing_timeout_ms)
        if self._is_eof and not self._patient_jobs:
            self._deadlines.waits_end_ms = math.inf
        elif self._is_eof:
            self._deadlines.limit_waits(self._settings.closing_timeout_ms)
        # Not earlier: pausing and resuming are two system calls, and during a pause the loss of the peer is not noticed.
        if self._pending_input and self._pending_input.has(self._settings.read_buffer_bytes):
            self._pause()
        elif self._is_paused and not (self._is_blocked or self._has_more) and engine.is_reading:
            self._is_paused = False
            # Its silence counts from now: during the pause nothing could be received.
            self._heard_ms = self._now_ms()
            if not self._transport.is_closing():  # writing may have failed
                self._transport.resume_reading()
        due_ms = engine.next_tick_ms()
        if due_ms is not None and due_ms < self._deadlines.armed_ms:
            # Not immediately: an engine that always asks for a tick would keep the loop busy.
            self._deadlines.arm(max(due_ms, self._now_ms() + 1))

    def _end_waits(self) -> None:
        """End the connection of a peer that has closed its side, as its jobs have waited long enough for other clients."""
        if self._state is _OPEN:
            waited_ms = self._settings.closing_timeout_ms
            self._the_engine().stop(
                f"you closed your side, and what you had asked for waited for other clients {waited_ms} ms longer: "
                "keep the connection open until the answer is there"
            )

    def _pause(self) -> None:
        if self._state is _OPEN and not self._is_paused and not self._is_eof and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _yield_to_others(self) -> None:
        """Pause reading until the other connections have had their turn."""
        if self._state is _OPEN:
            # libuv, under uvloop, reads up to 32 times in a row from a
            # peer that sends faster than it is read (decision 0600).
            self._pause()
            self.wake()

    def _is_ending(self) -> bool:
        """Return whether the connection is to be closed as soon as everything is sent."""
        if self._the_engine().is_over:
            return True
        return self._is_eof and not self._pending_input and not self._jobs

    # ----------------------------------------------------------------------------------------------------------- the end

    def _finish(self) -> None:
        """Close the writing side, then wait until the peer closes its side: closing a socket with unread bytes sends a reset,
        which may overtake the last bytes sent.
        """
        self._move(Event.FINISHED)
        if self._layer is not None:
            self._layer.finish()
            self._send(self._layer.pending())
        if self._transport.is_closing():
            return
        # The deadline of the close replaces that of the handshake.
        self._deadlines.limit_ms = math.inf
        self._deadlines.limit(self._settings.closing_timeout_ms)
        # The peer has closed its side, so there are no unread bytes that would cause a reset.
        if self._is_eof:
            self._transport.close()
            return
        try:
            self._transport.write_eof()
        except OSError:  # the peer has reset the connection, and the loop has not reported it yet
            self.abort()
            return
        # Resume reading, as otherwise the close of the peer's side would not be noticed.
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _try(self, step: Callable[..., object], *arguments: object) -> None:
        """Call `step`, which may call the engine. After an error only this connection ends."""
        try:
            step(*arguments)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        Report.ENGINE_FAILED.log("%s", self._address, error=error)
        self._error = self._error or error
        self.abort()

    def _time_out(self) -> None:
        """Abort the connection after a deadline. A peer that got everything, but does not close its side, is not logged."""
        if self._state is State.SHAKING:
            self._home.reports.log(Report.HANDSHAKE_SLOW, "%s", self._address)
            self._error = TimeoutError("the handshake took too long")
        elif self._is_blocked or self._state is _OPEN:
            self._home.reports.log(Report.PEER_STALLED, "%s", self._address)
            self._error = TimeoutError("the peer took no bytes")
        self.abort()

    # ------------------------------------------------------------------------------------------------------------ helpers

    def _the_engine(self) -> ProtocolEngine:
        assert self._engine is not None, "there is an engine while the connection is open"
        return self._engine

    def _move(self, event: Event) -> None:
        self._state = NEXT[self._state, event]
