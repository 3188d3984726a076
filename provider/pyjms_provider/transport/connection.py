"""One connection: what the loop tells of its socket, turned into the work cycle of its engine (BJ-TCP-3 … 6).

All runs on the loop's thread, in turns that are short: one read of at most the buffer's size, or one write of about that
size. A connection with more to write waits for its next turn, after the others.

What must stay true:

- While bytes wait to be written, nothing is read and nothing more is pulled (BJ-TCP-4): so a peer that does not read
  costs one buffer and one frame. While the engine does not read, nothing is fed to it either.
- Reading is stopped when as many bytes have come that cannot be fed as a read buffer holds, not before: so a peer that reads
  nothing, and is to say now and then that it lives, is heard, and missed when it does not; and a pause costs two system calls.
- The end is bounded: who does not accept the rest, or does not hang up, is cut off after `closing_timeout_ms`. So long, too, jobs that
  wait for other clients go on for a peer that sends nothing more: most such peers have gone, and nothing else would tell.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from pyjms.spi.clock import Clock
from pyjms.spi.fast_paths import FAST_PATHS
from pyjms_provider.protocols.engine import BatchJob, Peer, ProtocolEngine
from pyjms_provider.transport.layers import HELD_FOR_STRANGERS, Bytes, Layer, LayerError
from pyjms_provider.transport.reports import RareReports, Report
from pyjms_provider.transport.scheduler import Alarm, Scheduler, Timers
from pyjms_provider.transport.settings import ListenerSettings
from pyjms_provider.transport.workers import WorkerPool

if TYPE_CHECKING:
    from pyjms_provider.transport.scheduler import Alarmed


class State(Enum):
    """What a connection is at."""

    SHAKING = "the handshakes of TLS and WebSocket go on; there is no engine"
    OPEN = "bytes go to and from the engine"
    CLOSING = "all is said; waiting for the peer to hang up"
    ENDED = "the socket is closed"


class Event(Enum):
    """What brings a connection to another state."""

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
"""Which state follows, of those that may."""


_JOINED_BYTES: Final = 4 * 2**10


class PendingInput(deque[bytes]):
    """Bytes that were read and cannot be fed yet, in their order; small pieces are joined."""

    def add(self, data: bytes) -> None:
        """Hold `data`, too."""
        # A `bytes` object takes some forty bytes besides its content: heart-beats of one byte would each cost that.
        if self and len(self[-1]) + len(data) <= _JOINED_BYTES:
            self[-1] += data
        else:
            self.append(data)

    def has(self, size: int) -> bool:
        """Return whether it is `size` bytes or more."""
        return sum(map(len, self)) >= size


class Deadlines:
    """Those of one connection; `math.inf`: there is none. On the loop."""

    __slots__ = ("_alarm", "_now_ms", "_timers", "armed_ms", "leaves_ms", "over_ms", "stalls_ms")

    def __init__(self, timers: Timers, now_ms: Callable[[], float], who: Alarmed) -> None:
        self._timers = timers
        self._now_ms = now_ms
        self._alarm = Alarm(who)
        self.armed_ms = math.inf
        """When the alarm goes off."""
        self.over_ms = math.inf
        """When its handshake, or its end, must be over."""
        self.stalls_ms = math.inf
        """When the peer must have taken any of what waits for it."""
        self.leaves_ms = math.inf
        """When jobs end that wait for other clients, as the peer sends nothing more."""

    def limit(self, timeout_ms: int) -> None:
        """Have it over after so long, unless it must be earlier."""
        self.over_ms = min(self.over_ms, self._now_ms() + timeout_ms)
        self.arm(self.over_ms)

    def await_taking(self, timeout_ms: int) -> None:
        """Give the peer so long to take any of what waits for it."""
        self.stalls_ms = self._now_ms() + timeout_ms
        self.arm(self.stalls_ms)

    def await_leaving(self, timeout_ms: int) -> None:
        """Give jobs so long that wait for other clients, however many come one after the other."""
        # Not moved by a later job: a chain of them must not keep the connection open for ever.
        if self.leaves_ms == math.inf:
            self.leaves_ms = self._now_ms() + timeout_ms
            self.arm(self.leaves_ms)

    def arm(self, at_ms: float) -> None:
        """Set the alarm, unless it goes off by then."""
        if at_ms < self.armed_ms:
            self.armed_ms = self._timers.arm(at_ms, self._alarm, self.armed_ms)

    def arm_next(self) -> None:
        """Set the alarm for the first of them."""
        self.arm(min(self.over_ms, self.stalls_ms, self.leaves_ms))

    def went_off(self, due_ms: float) -> bool:
        """Note that the alarm has gone off; return whether it is the one that was set last."""
        # An alarm is never disarmed: one that a nearer one has replaced still
        # goes off. To arm again for each of these would leave ever more.
        is_last = due_ms == self.armed_ms
        if is_last:
            self.armed_ms = math.inf
        return is_last

    def end(self) -> None:
        """Have nobody called any more."""
        # The heap keeps the alarm until its time, and must not keep the connection in memory as long.
        self._alarm.who = None


_T = TypeVar("_T")


class Direction(Enum):
    """Which way bytes go."""

    IN = "in"
    OUT = "out"


Trace = Callable[[str, Direction, bytes], None]
"""Told of what engines are fed and what they say, with the peer's address. The bytes hold passwords."""


class Home(Protocol):
    """What a connection needs of its listener."""

    settings: ListenerSettings
    clock: Clock
    scheduler: Scheduler
    timers: Timers
    workers: WorkerPool
    reports: RareReports
    buffer: memoryview
    """What is read into; shared, for its content is taken out at once."""
    trace: Trace | None
    bytes_in: int
    bytes_out: int

    def url_of(self, *, is_secure: bool) -> str:
        """Return the URL that clients with, or without, TLS use."""
        ...

    def make_layer(self, first: bytes) -> tuple[Layer | None, bool]:
        """Choose by the first bytes what stands below the engine, and whether that is TLS."""
        ...

    def make_engine(self, connection: Connection) -> ProtocolEngine:
        """Make the engine."""
        ...

    def ended(self, connection: Connection) -> None:
        """Forget the connection."""
        ...


_LONG_READ_MS: Final = 1  # after less than that it costs more to go on later than to go on


def _nothing() -> None:
    """Have the turn of a connection that has ended."""


# An enumeration's member is looked up in a dozen steps, and these two for every read.
_OPEN: Final = State.OPEN
_CLOSING: Final = State.CLOSING


class Connection(asyncio.BufferedProtocol):
    """The `TransportContext` of one engine. What asyncio calls, and `turn`, run on the loop; `wake` may come from anywhere."""

    def __init__(self, home: Home, address: str) -> None:
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
        # Bound once, as each turn is scheduled by it, and exchanged when the connection ends.
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
        # A peer that is not read cannot be heard: that is no silence of its own (BJ-IDLE-3).
        return self._now_ms() if self._is_paused else self._heard_ms

    def wake(self) -> None:
        # Any thread, without a lock: two threads that race give the connection one turn too many.
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
            # Counted down before `done`, after which `wake` lets the connection end if this was its last job.
            self._jobs -= 1
            self._patient_jobs -= patient
            self._try(cast("Callable[[object, BaseException | None], None]", done), result, error)
            self.wake()

        self._home.workers.submit(job, finished, brief=brief, batch=batch, patient=patient)

    def do_brief(self, job: Callable[[], None]) -> bool:
        return FAST_PATHS and self._home.workers.do_alone(self, job)

    @property
    def is_free(self) -> bool:
        # Bytes that are pushed now must not overtake what waits for a turn,
        # nor be a second push without a turn between (decision 0610).
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
        """Begin. With a limit of 0 asyncio says `pause_writing` as soon as the system does not take everything."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._is_made = True
        # The listener has closed between `accept` and now.
        if self._is_unwanted:
            self.abort()
            return
        if self._settings.plain_and_tls:  # the peer's first byte will tell which
            self._deadlines.limit(self._settings.handshake_timeout_ms)
        else:
            self._try(self._choose, b"")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to read to."""
        return self._home.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read: one read phase, between two write phases (BJ-TCP-3)."""
        home = self._home
        # Copied: all connections of the listener read into one buffer.
        data = bytes(home.buffer[:nbytes])
        home.bytes_in += nbytes
        self._heard_ms = self._now_ms()
        self._has_pushed = False
        if self._state is _CLOSING:
            return  # read so that the peer's system gets our last words, and does not see a reset instead
        try:
            self._read(data)
            if nbytes == len(home.buffer) and self._now_ms() >= self._heard_ms + _LONG_READ_MS:
                self._let_others_read()
        except Exception as error:
            self._fail(error)

    def eof_received(self) -> bool:
        """Hear that the peer sends nothing more; what it has asked for is still answered, if it does not wait too long for others."""
        self._is_eof = True
        if self._state is not _OPEN:
            return False
        self.wake()
        # A false value would have asyncio close the transport, with answers still to come.
        return True

    def pause_writing(self) -> None:
        """Hear that the system takes no more."""
        self._is_blocked = True
        self._await_taking()

    def resume_writing(self) -> None:
        """Hear that all has gone out."""
        self._is_blocked = False
        self._deadlines.stalls_ms = math.inf
        # The peer has taken all: the limit was for the end of a connection, and this one goes on.
        if self._state is _OPEN and not self._is_ending():
            self._deadlines.over_ms = math.inf
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End. The engine hears of it last, but for the results of its jobs."""
        if self._state is State.ENDED:
            return
        self._move(Event.LOST)
        self._pending_input.clear()
        if self._layer is not None:
            self._layer.let_go()
        # After the state has changed: what the engine calls in return finds that all is over.
        if self._engine is not None:
            self._try(self._engine.closed, self._error or exc)
        self._home.ended(self)
        Report.DISCONNECTED.log("%s", self._address)
        # Nothing of it is in memory longer than its last job: clients that come and go would fill that until it is looked through.
        self._deadlines.end()
        self._turn = _nothing
        self._engine = None

    # --------------------------------------------------------------------------------------------- what the loop calls

    def turn(self) -> None:
        """Have one turn of work. On the loop."""
        # Lowered before the work: a wake-up that comes during it brings another turn.
        self._is_awake = False
        self._try(self._cycle)

    def alarm(self, due_ms: float) -> None:
        """Look after time. On the loop."""
        deadlines = self._deadlines
        if not deadlines.went_off(due_ms) or self._state is State.ENDED:
            return
        now_ms = self._now_ms()
        # `_has_taken` also begins the next period, so it is asked only when this one is over.
        if now_ms >= deadlines.over_ms or (now_ms >= deadlines.stalls_ms and not self._has_taken()):
            self._too_late()
            return
        if now_ms >= deadlines.leaves_ms:
            deadlines.leaves_ms = math.inf
            self._try(self._end_waits)
        self._try(self._tick, now_ms)
        deadlines.arm_next()

    def stop(self, reason: str) -> None:
        """Let the engine say its last. On the loop."""
        if self._state is State.SHAKING:
            self.abort()
        if self._state is _OPEN:
            self._try(self._the_engine().stop, reason)
            self._try(self._cycle)

    def abort(self) -> None:
        """Close the socket, whatever there is still to say. On the loop."""
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
        self._deadlines.over_ms = math.inf
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
        # After the engine was made: a first frame may come in the same read as the end of the handshake.
        for chunk in chunks:
            self._pending_input.add(chunk)
        self._is_eof = self._is_eof or layer.is_over
        if layer.held > HELD_FOR_STRANGERS:
            self._bound_stranger(layer)

    def _bound_stranger(self, layer: Layer) -> None:
        """Limit the input of a client that has not logged in; the rest waits in the socket."""
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
                engine.received(data)  # nothing is in the way: the cycle below in a third of its steps
                self._write()
                # While an alarm is set, it looks after time; `_balance` has to set the first one, or to end.
                if self._deadlines.armed_ms == math.inf or engine.is_over or self._is_eof:
                    self._balance()
                return
            self._pending_input.add(data)
        else:
            self._unwrap(data)
        # An engine that was pulled dry, and not woken since, has nothing to write first.
        self._cycle(write_first=self._is_awake or self._has_more)
        if self._layer is not None and self._state is _OPEN:
            self._answer(self._layer)

    def _answer(self, layer: Layer) -> None:
        """Send what a layer says by itself, such as pongs; read no more pings of a peer that does not read those."""
        said = layer.pending()
        self._send(said)
        # Else a peer could have ever more pongs kept for it.
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
        """Write, read, write (BJ-TCP-3), then see what is to come."""
        if self._state is not _OPEN:
            if self._state is State.SHAKING:
                self._shake()
            return
        if write_first:
            self._write()
        if self._pending_input and self._feed():
            self._write()
        if self._state is _OPEN:  # writing may have found the peer gone
            self._balance()

    def _shake(self) -> None:
        if self._layer is not None:
            self._send(self._layer.pending())
        if self._is_eof:
            self._finish()

    def _feed(self) -> bool:
        """Give the engine what was read, for as long as it takes it; return whether any was."""
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
        """Pull about a buffer's size, and send it at once; a connection with more has another turn (BJ-PE-6, 7)."""
        if self._is_blocked:
            return
        engine = self._engine
        assert engine is not None, "there is an engine while the connection is open"
        # The connection has its turn, after which it may push again.
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
        # The other connections come first (BJ-PE-7); bytes that are left bring another turn.
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
                self._unsent += len(data)  # a layer's answer is not what the peer has taken less of
            self._transport.write(data)

    def _await_taking(self) -> None:
        """Give the peer its time to take any of what waits for it."""
        if self._settings.stalled_timeout_ms is not None:
            self._unsent = self._transport.get_write_buffer_size()
            self._deadlines.await_taking(self._settings.stalled_timeout_ms)

    def _has_taken(self) -> bool:
        """Return whether the peer has taken any byte in its time; then it has as long again, as it may just be slow."""
        # Read first, as `_await_taking` notes the present size in its place.
        unsent = self._unsent
        self._await_taking()
        return self._unsent < unsent

    def _balance(self) -> None:
        """Stop or go on reading; end, if all is said; set the alarm."""
        engine = self._engine
        assert engine is not None, "there is an engine while the connection is open"
        if engine.is_over or (self._is_eof and self._is_ending()):
            if not self._is_blocked and not self._has_more:
                self._finish()
                return
            # All is said but what the peer does not take: it gets a limited time for that.
            self._deadlines.limit(self._settings.closing_timeout_ms)
        if self._is_eof and not self._patient_jobs:
            self._deadlines.leaves_ms = math.inf
        elif self._is_eof:
            self._deadlines.await_leaving(self._settings.closing_timeout_ms)
        # Not earlier: a pause and its end are two system calls, and the end of a peer that is not read goes unnoticed.
        if self._pending_input and self._pending_input.has(self._settings.read_buffer_bytes):
            self._pause()
        elif self._is_paused and not (self._is_blocked or self._has_more) and engine.is_reading:
            self._is_paused = False
            # The silence is counted from now: the peer could not be heard before.
            self._heard_ms = self._now_ms()
            if not self._transport.is_closing():  # writing may have found the peer gone
                self._transport.resume_reading()
        due_ms = engine.next_tick_ms()
        if due_ms is not None and due_ms < self._deadlines.armed_ms:
            # Not now: an engine that is never content would keep the loop busy.
            self._deadlines.arm(max(due_ms, self._now_ms() + 1))

    def _end_waits(self) -> None:
        """A peer that sends nothing more has waited long enough for others: end what it waits for, and the connection."""
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

    def _let_others_read(self) -> None:
        """Read no more before the others had their turn."""
        if self._state is _OPEN:
            # libuv, under uvloop, reads up to 32 times in a row from a
            # peer that sends faster than it is read (decision 0600).
            self._pause()
            self.wake()

    def _is_ending(self) -> bool:
        """Whether the connection is to be closed as soon as all is said."""
        if self._the_engine().is_over:
            return True
        return self._is_eof and not self._pending_input and not self._jobs

    # ----------------------------------------------------------------------------------------------------------- the end

    def _finish(self) -> None:
        """Say farewell, then wait until the peer hangs up: a socket that is closed with bytes unread sends a reset, which
        may overtake our last words.
        """
        self._move(Event.FINISHED)
        if self._layer is not None:
            self._layer.finish()
            self._send(self._layer.pending())
        if self._transport.is_closing():
            return
        # Not the time of the handshake any more, but that of the end.
        self._deadlines.over_ms = math.inf
        self._deadlines.limit(self._settings.closing_timeout_ms)
        # The peer has hung up already, so that nothing unread can bring a reset.
        if self._is_eof:
            self._transport.close()
            return
        try:
            self._transport.write_eof()
        except OSError:  # the peer has reset the connection, which the loop has not yet told
            self.abort()
            return
        # Read on, or the peer's end of the stream would never be seen.
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _try(self, step: Callable[..., object], *arguments: object) -> None:
        """Call what may reach an engine. If that, or this class, is at fault, one connection ends; the others go on."""
        try:
            step(*arguments)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        Report.ENGINE_FAILED.log("%s", self._address, error=error)
        self._error = self._error or error
        self.abort()

    def _too_late(self) -> None:
        """A deadline is over. Who was told everything and does not hang up is hung up on without a word."""
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
