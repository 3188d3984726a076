"""One connection to one broker, from CONNECT to its end.

stomp.py makes the socket, in `connecting`. Against what it would do from there on this module guards; docs/decisions says why:

- bodies are never decoded, and no content-length is made up;
- names and values of headers are escaped and refused by our encoder, what comes in is taken apart by our decoder;
- callbacks run on the I/O thread, so they only put away what they are given, and whatever they raise is logged;
- a broker that is silent after CONNECT ends the attempt after `connect_timeout_ms`;
- writes wait for room, with a limit.

One thread owns the socket and its end: it reads, it writes what a caller could not write at once, and it closes.
"""

from __future__ import annotations

import logging
import re
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from threading import Thread, current_thread, get_ident
from typing import Protocol

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import ProviderError, ResourceError
from pyjms.spi.words import said_by_system
from pyjms_provider.clients.stomp.connecting import connect
from pyjms_provider.clients.stomp.heart_beat import HeartBeat
from pyjms_provider.clients.stomp.options import Endpoint, StompSettings
from pyjms_provider.clients.stomp.outbox import Outbox, OutboxClosedError, Said
from pyjms_provider.clients.stomp.reading import TICK_S, Reading, Watch
from pyjms_provider.forks import let_go
from pyjms_provider.protocols.stomp.codec import FrameDecoder, Limits, encode
from pyjms_provider.protocols.stomp.errors import EncodingError, StompError
from pyjms_provider.protocols.stomp.frames import Frame, Heartbeat, Version
from pyjms_provider.protocols.stomp.packed import PACKED_HEADER

__all__ = ["RefusedError", "UnsentError", "Wire", "WireEndedError", "WireEvents"]

_log = logging.getLogger("pyjms.stomp")

_UNWRITTEN_BYTES_MAX = 4 * 1024 * 1024
_HEADERS_MAX = 16 * 1024 * 1024
_VERSION = Version.V1_2
_BEAT = b"\n"
_AT_ONCE = 2
_receipt = re.compile(rb"RECEIPT\nreceipt-id:([A-Za-z0-9.\-]{1,100}+)\n\n\0").fullmatch


class WireEndedError(Exception):
    """The connection has ended; what was sent last may or may not have arrived."""


class UnsentError(WireEndedError):
    """The connection had ended before anything of what was to be sent was written."""


class RefusedError(Exception):
    """The broker answered CONNECT with ERROR."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.headers.get("message", "no reason given"))
        self.frame = frame


class WireEvents(Protocol):
    """What a wire tells. All calls come from its I/O thread and must not wait."""

    def on_frame(self, frame: Frame) -> None:
        """A frame came after CONNECTED: MESSAGE, RECEIPT or ERROR."""
        ...

    def on_end(self, reason: str) -> None:
        """The connection has ended, by whichever side; called once, and last."""
        ...


class Wire:
    """One connection. `send` may be called by any thread."""

    def __init__(self, endpoint: Endpoint, settings: StompSettings, events: WireEvents) -> None:
        """Connect the socket. Raises `ResourceError`; `open` goes on."""
        self.endpoint = endpoint
        self.connected: Frame | None = None
        """CONNECTED, once it came."""
        self._settings = settings
        self._events = events
        self._clock = SystemClock()  # heart-beats are about the world outside, not about an application's time
        try:
            self._acquire()
        except OSError as error:  # the process may open no more for the moment, say
            raise ResourceError(f"no connection to {endpoint}: {said_by_system(error)}") from error
        self._outbox = Outbox(
            _UNWRITTEN_BYTES_MAX,
            self._wake,
            self._channel.write if self._channel.is_shared else None,
            self._channel.frame,
            self._patience_for_room_s,
        )
        limits = Limits(header_line_max=_HEADERS_MAX, header_size_max=_HEADERS_MAX, body_max=settings.frame_bytes_max)
        self._decoder = FrameDecoder(limits)
        self._beats = HeartBeat(0, "", 0.0)
        self._answered = Signal()
        self._in_a_row = 0
        """How many frames that may wait were sent since somebody waited, or the I/O thread looked."""
        self._chores: deque[Callable[[], None]] = deque()
        self.is_closing = False
        """Whether it ends now, or has ended: nothing is taken any more, and `on_end` is called soon or was."""
        self.was_interrupted = False
        """Whether it ends because a signal interrupted a call in its midst, and not through the network or the broker."""
        self._reason = ""
        self._io_thread = 0
        self._thread = Thread(target=self._run, name=f"pyjms-stomp-{endpoint.host}", daemon=True)

    def _acquire(self) -> None:
        """Take of the system what the connection needs: all of it, or nothing. Raises `OSError`, `ResourceError`."""
        with ExitStack() as taken:
            self._channel = connect(self.endpoint, self._settings)
            taken.callback(self._channel.close)
            self._wake_reader, self._wake_writer = socket.socketpair()
            taken.callback(self._wake_writer.close)
            taken.callback(self._wake_reader.close)
            self._wake_reader.setblocking(False)
            self._wake_writer.setblocking(False)
            self._watch = Watch(self._channel.fileno(), self._wake_reader.fileno())
            taken.callback(self._watch.close)
            self._reading = Reading(
                is_shared=self._channel.is_lendable,
                wake=self._wake,
                look=self._watch.look,
            )
            # the first to go: the number of a closed socket may be another one's soon
            taken.callback(self._reading.end)
            self._taken = taken.pop_all()

    def open(self, headers: dict[str, str]) -> Frame:
        """Send CONNECT and return CONNECTED.

        Raises `RefusedError`, `ResourceError` when there is no answer in time, `WireEndedError` when the other side hung up.
        """
        period = self._settings.heart_beat_ms
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no more threads for the moment
            self._taken.close()
            raise ResourceError(f"no connection to {self.endpoint}: {error}") from error
        self.send(Frame("CONNECT", {"accept-version": _VERSION.value, "heart-beat": f"{period},{period}", **headers}))
        answered = self._answered.wait(self._settings.connect_timeout_ms / 1000)
        answer = self.connected
        if not answered or answer is None:
            self.close()
            if not answered:
                raise ResourceError(
                    f"{self.endpoint} accepted the connection and did not answer CONNECT for "
                    f"{self._settings.connect_timeout_ms} ms: does it speak STOMP there?"
                )
            raise WireEndedError(self._reason)
        if answer.command != "CONNECTED":
            self.close()
            raise RefusedError(answer)
        if answer.headers.get("version") != _VERSION.value:
            self.close()
            raise ResourceError(f"{self.endpoint} speaks STOMP {answer.headers.get('version', '1.0')}; this needs 1.2")
        return answer

    def send(self, *frames: Frame, needs_room: bool = True, said: Said | None = None) -> None:
        """Have `frames` written, one after the other. Returns before they are.

        needs_room: False for what is small, and said a few times at most before the broker has read it: it gets in though much
        waits to be written. Raises `ProviderError` for a frame that cannot be written (nothing of it is), `ResourceError` when the broker does not
        read, `WireEndedError`.
        """
        self._put(self._channel.frame(self._encoded(frames)), needs_room=needs_room, said=said)

    def _encoded(self, frames: Sequence[Frame]) -> bytes:
        try:
            return b"".join([frame.prepared() or encode(frame, _VERSION) for frame in frames])
        except EncodingError as error:
            raise ProviderError(f"the message cannot be sent over STOMP: {error.reason}") from error

    def send_soon(self, *frames: Frame, waits: bool) -> None:
        """Have `frames` written with what comes after them: with the next that cannot wait, when there is much of it, when a
        thread waits, or after some milliseconds. The first ones after a pause are written at once, unless `waits`.

        Raises as `send`.
        """
        self._in_a_row += 1
        if not waits and self._in_a_row <= _AT_ONCE:
            self.send(*frames)
            return
        data = self._channel.frame(self._encoded(frames))
        self._put(data, corked=True)
        self._reading.keep_ticking()

    def send_message_soon(self, session: str, message: bytes, *, waits: bool) -> None:
        """Have a packed message written as `send_soon` does, in one frame with those of the same session that come after it."""
        self._in_a_row += 1
        corked = waits or self._in_a_row > _AT_ONCE
        try:
            if self._outbox.gather(session, message, corked=corked) and corked:
                self._reading.keep_ticking()
        except (OutboxClosedError, OSError) as error:
            raise self._ended(error) from error

    def acknowledge_soon(self, head: bytes, first: int, last: int) -> None:
        """Have deliveries acknowledged as `send_soon` does that waits; see `Outbox.acknowledge`."""
        try:
            if self._outbox.acknowledge(head, first, last):
                self._reading.keep_ticking()
        except OutboxClosedError as error:
            raise self._ended(error) from error

    def _put(self, data: bytes, *, corked: bool = False, needs_room: bool = True, said: Said | None = None) -> None:
        try:
            self._outbox.put(data, corked=corked, needs_room=needs_room, said=said)
        except (OutboxClosedError, OSError) as error:
            raise self._ended(error) from error

    def _ended(self, error: Exception) -> WireEndedError:
        """Return what is told of an error of the outbox: what finds it closed never gets in; of an error of the socket nobody knows."""
        self._wake()
        kind = UnsentError if isinstance(error, OutboxClosedError) else WireEndedError
        return kind(self._reason or str(error) or "it was closed")

    def _patience_for_room_s(self) -> float | None:
        # The I/O thread makes the room itself, and who reads for it must not hold up the reading. What is said there answers
        # what came (credit, what goes back, a pong), so there is little of it, and nobody would say it again.
        return None if self.is_own_thread() else self._settings.timeout_ms / 1000

    def close(self) -> None:
        """End the connection; its thread ends soon. Any thread; may be repeated."""
        self.is_closing = True
        self._outbox.close()
        self._wake()

    def forget(self) -> None:
        """Be over, in a child of this process: what it said there would be its parent's word, and its end the parent's."""
        self.is_closing = True
        self._outbox.forget()
        self._reading.forget()
        for each in (self._channel, self._wake_writer):
            let_go(each.fileno())

    def abort(self) -> None:
        """End the connection, as a thread was interrupted in the midst of a call: what of it was written is not known."""
        self.was_interrupted = True
        self._reason = "a signal interrupted a call that used it"
        self.close()

    def is_own_thread(self) -> bool:
        """Say whether the caller is the one who reads, and so must not wait for what it alone can read."""
        me = get_ident()
        return me in (self._reading.reader, self._io_thread)

    def wait(self, clock: Clock, signal: Signal, until_ms: float | None, is_alone: Callable[[], bool]) -> bool:
        """Wait as `clock.wait` does, for something that this connection brings; see `Reading.wait`."""
        self._in_a_row = 0
        try:
            self._outbox.uncork()
        except OSError:
            self._wake()  # the I/O thread finds out why
        return self._reading.wait(clock, signal, until_ms, is_alone)

    def call_soon(self, chore: Callable[[], None]) -> None:
        """Have the I/O thread do `chore`, which neither waits nor raises; nobody does it once the connection has ended.

        This takes no lock: what the garbage collector ends may call it, on whichever thread that runs, whatever lock it holds.
        """
        self._chores.append(chore)
        self._wake()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end, unless it is the caller's."""
        if self._thread is not current_thread() and self._thread.ident is not None:
            self._thread.join(timeout_s)

    # The I/O thread

    def _run(self) -> None:
        self._io_thread = get_ident()
        try:
            self._serve()
        except OutboxClosedError:
            pass  # another thread closes the connection just now, and a heart-beat came too late for it
        except (OSError, StompError, WireEndedError) as error:
            self._reason = str(error) or type(error).__name__
        except Exception as error:  # the top of a thread
            _log.exception("PYJMS-STOMP the connection to %s ends because of an error of pyjms", self.endpoint)
            self._reason = f"{type(error).__name__}: {error}"
        self.is_closing = True
        self._outbox.close()
        try:
            self._taken.close()
        finally:  # else nobody would make it anew
            self._answered.set()
            self._events.on_end(self._reason or "it was closed")

    def _serve(self) -> None:
        reading, watch = self._reading, self._watch
        self._read()  # TLS may have read ahead while it shook hands
        reading.begin(self._channel.fileno(), self._read)
        while not self.is_closing:
            watch.want_writing(self._outbox.has_rest)
            is_woken, is_readable = watch.wait(self._patience_s())
            if is_woken:
                with suppress(BlockingIOError):
                    self._wake_reader.recv(4096)
            if reading.trouble is not None:
                raise reading.trouble
            if is_readable:
                reading.try_read()
            while self._chores:
                self._chores.popleft()()
            self._in_a_row = 0
            self._outbox.uncork()
            if self._outbox.has_rest:
                self._outbox.flush(self._channel.write)
                self._beats.sent(self._clock.monotonic_ms())
            if reading.is_ticking and not (is_woken or is_readable):
                reading.tick()
            self._keep_time()

    def _patience_s(self) -> float | None:
        """Return how long the thread may sleep; None: until it is woken."""
        if self._reading.is_ticking:
            return TICK_S
        wait_ms = self._beats.wait_ms(self._clock.monotonic_ms())
        return None if wait_ms is None else wait_ms / 1000

    def _read(self) -> None:
        while (data := self._channel.read()) is not None:
            if not data:
                raise WireEndedError("the broker closed the connection")
            self._beats.received(self._clock.monotonic_ms())
            decoder = self._decoder
            receipt = _receipt(data)
            if receipt is not None and decoder.lazy and decoder.is_between_frames:  # as most answers come
                self._take(Frame("RECEIPT", {"receipt-id": receipt[1].decode()}))
            else:
                decoder.put(data)
                while (event := decoder.next_event()) is not None:
                    if not isinstance(event, Heartbeat):
                        self._take(event)
            if not self._channel.has_more:
                return
            for answer in self._channel.answers():
                self._outbox.put(answer)

    def _take(self, frame: Frame) -> None:
        if self.connected is None:
            self.connected = frame
            if frame.command == "CONNECTED":
                now = self._clock.monotonic_ms()
                self._beats = HeartBeat(self._settings.heart_beat_ms, frame.headers.get("heart-beat", ""), now)
                if "pyjms-profile" in frame.headers:  # then properties stand last, and can wait until somebody asks
                    self._decoder.version, self._decoder.lazy = _VERSION, True
                    self._channel.is_hasty, self._channel.is_one_stream = False, True
                if PACKED_HEADER in frame.headers:  # then what were headers is in the body
                    limits = self._decoder.limits
                    self._decoder.limits = replace(limits, body_max=limits.body_max + limits.header_size_max)
            self._answered.set()
            return
        try:
            self._events.on_frame(frame)
        except Exception:  # an error here would end the connection of everybody else
            _log.exception("PYJMS-STOMP a frame was not understood: %r", frame)

    def _keep_time(self) -> None:
        now = self._clock.monotonic_ms()
        if self._beats.is_dead(now):
            raise WireEndedError(f"the broker was silent for {self._beats.patience_ms} ms, in spite of heart-beats")
        if self._beats.is_due(now):
            self._outbox.put(self._channel.frame(_BEAT))
            self._beats.sent(now)

    def _wake(self) -> None:
        with suppress(OSError):  # full: it is awake already; closed: it has ended
            self._wake_writer.send(b"x")
