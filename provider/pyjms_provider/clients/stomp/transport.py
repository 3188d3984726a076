"""One connection to one broker, from CONNECT to its end: when to read, what waits to be written, heart-beats, and the frames between.

stomp.py makes the socket, in `sockets`. Against what it would do from there on this module guards; docs/decisions says why:

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
import select
import selectors
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from threading import Lock, Thread, current_thread, get_ident
from typing import Final, Protocol

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import ProviderError, ResourceError
from pyjms.spi.interrupts import deferred
from pyjms.spi.words import said_by_system
from pyjms_provider.clients.stomp.options import Endpoint, StompSettings
from pyjms_provider.clients.stomp.sockets import connect
from pyjms_provider.forks import let_go
from pyjms_provider.protocols.stomp.codec import FrameDecoder, Limits, encode
from pyjms_provider.protocols.stomp.errors import EncodingError, StompError
from pyjms_provider.protocols.stomp.frames import Frame, Heartbeat, Version
from pyjms_provider.protocols.stomp.packed import FRAME_BYTES, FRAME_MESSAGES_MAX, LENGTH, PACKED_HEADER

# When to send a heart-beat, and when silence means that the other side is gone (STOMP 1.2, "Heart-beating").
#
# A pure machine: it is told the time. Any byte, of whatever frame, is a sign of life, and a silence of two periods and a
# second is borne: brokers round periods, and machines are slow.

_TOLERANCE = 2
_GRACE_MS = 1000


class HeartBeat:
    """The heart-beats of one connection. One thread at a time."""

    def __init__(self, offer_ms: int, answer: str, now_ms: float) -> None:
        """`offer_ms`: the period that this side offered for both ways; `answer`: the broker's header, "" for none."""
        sends_ms, wants_ms = _parse(answer)
        self.send_every_ms = max(offer_ms, wants_ms) if offer_ms and wants_ms else 0
        """At least so often something must be sent; 0: never."""
        self.expect_every_ms = max(offer_ms, sends_ms) if offer_ms and sends_ms else 0
        """So often the broker sends something; 0: it need not."""
        self._sent_ms = self._received_ms = now_ms

    def sent(self, now_ms: float) -> None:
        """Note that bytes were written."""
        self._sent_ms = now_ms

    def received(self, now_ms: float) -> None:
        """Note that bytes came, whatever they are."""
        self._received_ms = now_ms

    def is_due(self, now_ms: float) -> bool:
        """Say whether a heart-beat is to be sent now: after half of the period, so that a slow network has the rest."""
        return self.send_every_ms > 0 and now_ms - self._sent_ms >= self.send_every_ms / 2

    def is_dead(self, now_ms: float) -> bool:
        """Say whether the broker has been silent for too long."""
        return self.expect_every_ms > 0 and now_ms - self._received_ms > self.patience_ms

    @property
    def patience_ms(self) -> int:
        """The silence, in milliseconds, that is borne."""
        return self.expect_every_ms * _TOLERANCE + _GRACE_MS

    def wait_ms(self, now_ms: float) -> float | None:
        """Return how long nothing needs to be done; None: for ever."""
        waits = []
        if self.send_every_ms:
            waits.append(self._sent_ms + self.send_every_ms / 2 - now_ms)
        if self.expect_every_ms:
            waits.append(self._received_ms + self.patience_ms - now_ms + 1)
        return max(0.0, min(waits)) if waits else None


def _parse(answer: str) -> tuple[int, int]:
    """Return what the broker sends and wants; a header that is no pair of numbers stands for none."""
    sends, comma, wants = (part.strip() for part in answer.partition(","))
    if not (comma and sends.isdecimal() and wants.isdecimal() and sends.isascii() and wants.isascii()):
        return 0, 0
    return int(sends), int(wants)


# Who reads a socket: its I/O thread or, while it waits, a thread of the application's.
#
# A thread that waits for an answer would sleep until the I/O thread had read it: a change of threads for each answer, which
# costs more than all the rest. So a thread that waits polls the socket itself, and does with what comes what the I/O thread
# would do. One thread reads at a time; the I/O thread is told to look away meanwhile, and gets the socket back at the latest
# two ticks after the last thread has read, or at once if somebody else waits for what may come.
#
# What a reader finds wrong is the I/O thread's to deal with, which also keeps the time and ends the connection.

TICK_S: Final = 0.004
_LONGEST_POLL_MS: Final = 1e8
_END_S: Final = 5.0
_IN: Final = getattr(select, "POLLIN", 0)


class Poller:
    """What the I/O thread sleeps on: its socket, and a bell. `look` may be called by any thread, also while it sleeps."""

    def __init__(self, fileno: int, bell: int) -> None:
        self._fileno = fileno
        self._bell = bell
        self._lock = Lock()
        self._reads, self._writes = True, False
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._selector = selectors.DefaultSelector() if self._epoll is None else None
        if self._epoll is not None:
            self._epoll.register(bell, select.EPOLLIN)
            self._epoll.register(fileno, select.EPOLLIN)
        if self._selector is not None:  # `look` is not called then
            self._selector.register(bell, selectors.EVENT_READ)
            self._selector.register(fileno, selectors.EVENT_READ)

    def look(self, reads: bool) -> None:
        """Say whether to look for what can be read."""
        self._set(reads, self._writes)

    def want_writing(self, writes: bool) -> None:
        """Say whether to look for room to write."""
        if writes != self._writes:
            self._set(self._reads, writes)

    def _set(self, reads: bool, writes: bool) -> None:
        with self._lock:
            self._reads, self._writes = reads, writes
            if self._epoll is not None and not self._epoll.closed:
                mask = (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if writes else 0)
                self._epoll.modify(self._fileno, mask)
            elif self._selector is not None:
                self._selector.modify(self._fileno, selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0))

    def wait(self, timeout_s: float | None) -> tuple[bool, bool]:
        """Return whether the bell rings, and whether the socket can be read, or has ended."""
        if self._epoll is not None:
            found = dict(self._epoll.poll(timeout_s))
            return self._bell in found, bool(found.get(self._fileno, 0) & ~select.EPOLLOUT)
        assert self._selector is not None
        ready = {key.fd: mask for key, mask in self._selector.select(timeout_s)}
        return self._bell in ready, bool(ready.get(self._fileno, 0) & selectors.EVENT_READ)

    def close(self) -> None:
        """Let go of what it sleeps on."""
        with self._lock:
            if self._epoll is not None:
                self._epoll.close()
        if self._selector is not None:
            self._selector.close()


class SocketReader:
    """The right to read one socket. Any thread."""

    def __init__(
        self,
        *,
        is_shared: bool,
        wake: Callable[[], None],
        look: Callable[[bool], None],
    ) -> None:
        """`is_shared`: whether the socket's kind allows it; `wake` has the I/O thread look at what has changed; `look` tells
        it whether to look at the socket, at once, also while it sleeps.
        """
        self._wake = wake
        self._look = look
        self._right = Lock()
        self._lock = Lock()
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._poll = select.poll() if is_shared and hasattr(select, "epoll") else None
        self._fileno = -1
        self._read: Callable[[], None] = _nothing
        self._is_over = False
        self.reader: int | None = None
        """The thread that reads, and so must not wait for what it alone can read."""
        self._waiting: set[Signal] = set()
        self._uses = self._seen_uses = 0
        self._is_lent = False
        self.is_ticking = False
        """Whether the I/O thread looks every `TICK_S` if the socket is still used."""
        self.trouble: Exception | None = None
        """What went wrong while a thread of the application's read: the I/O thread raises it."""

    def begin(self, fileno: int, read: Callable[[], None]) -> None:
        """Let threads read from now on: `read` reads what there is, and may raise what ends the connection."""
        self._fileno, self._read = fileno, read
        if self._poll is not None:
            self._poll.register(fileno, _IN)
            self._poll.register(self._bell.fileno(), _IN)

    # Threads that wait

    def wait(self, clock: Clock, signal: Signal, until_ms: float | None, is_alone: Callable[[], bool]) -> bool:
        """Wait as `clock.wait` does, and read meanwhile, if nobody else does.

        `is_alone`: whether nobody will miss what comes after the wait, until the next one or the next tick.
        """
        if signal.wait(0):
            return True
        if self._may_read(clock) and self._right.acquire(blocking=False):
            try:
                ended = self._read_until(clock, signal, until_ms)
                self._give_back(is_alone)
            finally:
                self.reader = None
                self._right.release()
            if ended is not None:
                return ended
        try:
            self._waiting.add(signal)
            return clock.wait(signal, until_ms)
        finally:
            self._waiting.discard(signal)

    def _may_read(self, clock: Clock) -> bool:
        # A virtual or frozen clock ends waits by itself, which no system call hears of.
        is_real = isinstance(clock, SystemClock) and clock.is_real
        is_there = self._poll is not None and not self._is_over and self.trouble is None and self._fileno >= 0
        return is_there and is_real and self.reader != get_ident()

    def _read_until(self, clock: Clock, signal: Signal, until_ms: float | None) -> bool | None:
        """Read until the signal comes (True), or that time (False); None: there is nothing to read any more."""
        self._lend()
        self.reader = get_ident()
        signal.ring = self._ring
        assert self._poll is not None
        poll = self._poll.poll
        try:
            while not self._is_over:
                if signal.wait(0):
                    return True
                if until_ms is None:
                    ready = poll()
                else:
                    remaining_ms = min(until_ms - clock.monotonic_ms(), _LONGEST_POLL_MS)
                    ready = poll(remaining_ms) if remaining_ms > 0 else []
                    if not ready and remaining_ms < _LONGEST_POLL_MS:
                        return signal.wait(0)
                for fileno, _ in ready:
                    if fileno != self._fileno:
                        with suppress(BlockingIOError):
                            self._bell.recv(4096)
                    elif not self._read_here():
                        return None
            return None
        finally:
            signal.ring = None

    def _read_here(self) -> bool:
        """Read; return False if that is the end of the connection, which is the I/O thread's affair."""
        try:
            self._read()
        except Exception as error:
            self.trouble = error
        if self.trouble is not None:
            self._wake()
        return self.trouble is None

    def _lend(self) -> None:
        with self._lock:
            self._uses += 1
            is_new, self.is_ticking = not self.is_ticking, True
            if not self._is_lent:
                self._is_lent = True
                self._look(False)
        if is_new:
            self._wake()

    def _give_back(self, is_alone: Callable[[], bool]) -> None:
        self.reader = None
        keeps = self.trouble is None and is_alone()
        with self._lock:
            if not keeps or self._waiting:
                self._is_lent = False
                self._look(True)

    def _ring(self) -> None:
        """Have the reader look at its signal."""
        if (
            self.reader != get_ident() or deferred.pending
        ):  # the handler of a signal runs in the reader's thread, while that polls
            with suppress(OSError):  # full: it is awake already; closed: it has ended
                self._ringer.send(b"x")

    def keep_polling(self) -> None:
        """Have the I/O thread look again within `TICK_S`, or soon after."""
        with self._lock:
            self._uses += 1
            is_new, self.is_ticking = not self.is_ticking, True
        if is_new:
            self._wake()

    # The I/O thread

    def try_read(self) -> None:
        """Read, unless another thread does so at this moment. Raises what `read` does."""
        if self._right.acquire(blocking=False):
            self.reader = get_ident()
            try:
                self._read()
            finally:
                self.reader = None
                self._right.release()

    def tick(self) -> None:
        """Take the socket back if no thread has read since the last tick."""
        with self._lock:
            is_used = self._uses != self._seen_uses or self.reader is not None
            self._seen_uses = self._uses
            if not is_used:
                self.is_ticking = False
                if self._is_lent:
                    self._is_lent = False
                    self._look(True)

    def end(self) -> None:
        """Let no thread read any more; return when none does, or after `_END_S`: who has not come back from what it was told by then
        finds that all is over, or that the socket is closed.
        """
        self._is_over = True
        self._ring()
        is_mine = self._right.acquire(timeout=_END_S)
        try:
            self._bell.close()
            self._ringer.close()
        finally:
            if is_mine:
                self._right.release()

    def forget(self) -> None:
        """Let no thread read, in a child of this process."""
        self._right, self._lock, self._is_over = Lock(), Lock(), True


def _nothing() -> None:
    return


# What waits to be written to one socket: bounded, in order, written by one thread at a time.
#
# Who puts something in writes it, if nobody else is writing and the socket takes it at once; the rest is the I/O thread's. So
# a send costs no change of threads, and nobody holds a lock while bytes are written.

_CLOCK: Final = SystemClock()
_BATCH = 256 * 1024
_CORKED_MAX = FRAME_BYTES
_ACK_SIZE = 100  # about; it is known when the frame is made
_PARTS_MAX = FRAME_MESSAGES_MAX  # two of a message, so half of what a broker takes


class WriteBufferClosedError(Exception):
    """The connection has ended; what was put in last may or may not have been written."""


class SentFlag:
    """Whether frames are on their way for certain: a call that fails later must not send them again."""

    __slots__ = ("is_sent",)

    def __init__(self) -> None:
        self.is_sent = False


class WriteBuffer:
    """The bytes on their way to one socket. Any thread."""

    def __init__(
        self,
        limit: int,
        wake: Callable[[], None],
        write: Callable[[bytes], int] | None,
        frame: Callable[[bytes], bytes] = bytes,
        patience_s: Callable[[], float | None] = lambda: 0.0,
    ) -> None:
        """`frame` makes of a frame of STOMP what the socket carries; `patience_s`: for how many seconds of real time the calling thread
        may wait for room; None: it gets in without. `limit`: more bytes than that wait before they get in; a single piece may be
        larger.

        `wake` has the I/O thread call `flush`. `write` writes what it can without waiting and returns how much that was;
        None: only the I/O thread may write (TLS: one owner, or OpenSSL's state is trampled).
        """
        self._limit = limit
        self._wake = wake
        self._write_here = write
        self._frame = frame
        self._patience_s = patience_s
        self._is_open = False
        """Whether what was put in last is a frame to which more may be added: of messages, or of acknowledgements."""
        self._gathered: list[bytes] = []
        """Its messages, each behind its length."""
        self._gathered_for = ""
        """Whose they are: a session. Empty: it is one of acknowledgements, to which no message is added."""
        self._gathered_size = 0
        self._ack_head = b""
        """How it begins, if it is one of acknowledgements; else empty."""
        self._ack_first = self._ack_last = 0
        self._lock = Lock()
        self._waiting: set[Signal] = set()
        """Of threads that wait for room."""
        self._pending: deque[bytes] = deque()
        """Whole frames, or what is left of one, as the socket carries them."""
        self._size = 0
        """How many bytes are not written yet, about: of what is pending, of the open frame, and of what is just being written."""
        self._is_writing = False
        """Whether somebody is the writer, who goes on until nothing is left."""
        self._is_handed_over = False
        """Whether that is the I/O thread."""
        self._is_closed = False

    @property
    def has_rest(self) -> bool:
        """Whether the I/O thread has something to write."""
        return self._is_handed_over

    def put(self, data: bytes, *, corked: bool = False, needs_room: bool = True, said: SentFlag | None = None) -> None:
        """Have `data` written after all that came before; wait for room, if it `needs_room`.

        `corked`: not yet, but together with what comes, or when `uncork` is called, or when there is much of it. `said` is told as soon as that is certain.

        Raises `ResourceError` when there was none, `WriteBufferClosedError`.
        """
        size, batch = len(data), data
        if needs_room and self._size and self._size + size > self._limit:
            self._wait_for_room(size)
        with self._lock:
            self._check_open()
            if said is not None:
                said.is_sent = True
            if self._is_open:
                self._seal()
            if corked or self._size or self._write_here is None:
                self._pending.append(data)
                self._size += size
                if self._is_writing or (corked and self._size < _CORKED_MAX):
                    return
                batch = self._begin()
            else:  # nobody writes, as there is nothing
                self._size, self._is_writing = size, True
        self._write(batch)

    def gather(self, session: str, message: bytes, *, corked: bool = True) -> bool:
        """Have a packed message of a session sent as `put` does, if it is corked in one frame with those that come after it, up to
        the first thing that is none of them. Return whether nothing waited before.

        Raises as `put`.
        """
        size = len(message) + LENGTH.size
        if self._size and self._size + size > self._limit:
            self._wait_for_room(size)
        with self._lock:
            self._check_open()
            is_full = self._gathered_size >= FRAME_BYTES or len(self._gathered) >= _PARTS_MAX
            if self._is_open and (is_full or session != self._gathered_for or size > FRAME_BYTES):
                self._seal()  # a large message has a frame to itself, as there is a limit to frames
            is_first = not self._size
            self._gathered_for, self._is_open = session, True
            self._gathered += LENGTH.pack(len(message)), message
            self._gathered_size += size
            self._size += size
            if self._is_writing or (corked and self._size < _CORKED_MAX):
                return is_first
            batch = self._begin()
        self._write(batch)
        return False

    def acknowledge(self, head: bytes, first: int, last: int) -> bool:
        """Have deliveries acknowledged as `put` does with what is corked: in one frame with those that come right after them, up to the
        first thing that is none of them. Return whether nothing waited before.

        head: the frame's beginning, up to the ids; one object for each session. Raises as `put`.
        """
        goes_on = head is self._ack_head and first == self._ack_last + 1  # asked once more with the lock held
        if self._size + _ACK_SIZE > self._limit and not goes_on:
            self._wait_for_room(_ACK_SIZE)
        with self._lock:
            if head is self._ack_head and first == self._ack_last + 1:
                self._ack_last = last
                return False
            self._check_open()
            if self._is_open:
                self._seal()
            is_first = not self._size
            self._ack_head, self._ack_first, self._ack_last = head, first, last
            self._gathered_for, self._is_open = "", True
            self._size += _ACK_SIZE
            return is_first

    def _check_open(self) -> None:
        if self._is_closed:
            raise WriteBufferClosedError

    def _seal(self) -> None:
        """Make a frame of what is open. The lock is held."""
        self._is_open = False
        if self._ack_head:
            data, size = b"%b%d-%d\n\n\0" % (self._ack_head, self._ack_first, self._ack_last), _ACK_SIZE
            self._ack_head = b""
        else:
            data, size = self._gathered_frame(), self._gathered_size
            self._gathered, self._gathered_size = [], 0
        data = self._frame(data)
        self._pending.append(data)
        self._size += len(data) - size

    def _gathered_frame(self) -> bytes:
        parts, size = self._gathered, self._gathered_size
        head = f"SENDS\nsession:{self._gathered_for}\ncontent-length:{size}\n\n".encode()
        return b"".join((head, *parts, b"\0"))

    def _wait_for_room(self, size: int) -> None:
        """Wait until so much gets in, if the thread is one that may wait, or until the outbox is closed. Threads that wait for the same room all
        get in. Raises `ResourceError` when there was none.
        """
        if (patience_s := self._patience_s()) is None:
            return
        signal, until_ms = Signal(), _CLOCK.monotonic_ms() + patience_s * 1000
        try:
            with self._lock:
                self._waiting.add(signal)
            while not (self._is_closed or self._has_room(size)):
                if (
                    not deferred.wait(_CLOCK.wait, signal, until_ms)
                    and not self._is_closed
                    and not self._has_room(size)
                ):
                    raise ResourceError(
                        f"the broker has not read for {patience_s:.0f} s, and {self._size} bytes wait to be sent: "
                        "see what it is waiting for (full memory or disk), or raise timeout_ms"
                    )
        finally:
            with self._lock:
                self._waiting.discard(signal)

    def uncork(self) -> None:
        """Have written what was put in and nobody writes yet. Any thread."""
        if not self._size or self._is_writing:
            return
        with self._lock:
            if not self._size or self._is_writing:
                return
            batch = self._begin()
        self._write(batch)

    def flush(self, write: Callable[[bytes], int]) -> None:
        """Write what the socket takes now. Only the I/O thread, when `has_rest`."""
        with self._lock:
            batch = self._take()
        self._drain(write, batch)

    def close(self) -> None:
        """Let nobody wait any longer, and take nothing more."""
        with self._lock:
            self._is_closed = True
            self._is_handed_over = False
            self._pending.clear()
            self._gathered, self._gathered_size = [], 0
            self._ack_head, self._is_open = b"", False
            self._size = 0
            self._wake_waiting()

    def forget(self) -> None:
        """Take nothing more, in a child of this process."""
        self._lock, self._is_closed = Lock(), True

    def _wake_waiting(self) -> None:
        """Have those that wait for room look again. The lock is held."""
        for signal in self._waiting:
            signal.set()

    def _has_room(self, size: int) -> bool:
        return not self._size or self._size + size <= self._limit

    def _begin(self) -> bytes:
        """Become the writer, or have the I/O thread be it; return what is to be written first. The lock is held."""
        self._is_writing = True
        self._is_handed_over = self._write_here is None
        return b"" if self._is_handed_over else self._take()

    def _write(self, batch: bytes) -> None:
        """Write, as the one who has become the writer; leave to the I/O thread what the socket does not take."""
        if self._write_here is None or not self._drain(self._write_here, batch):
            self._wake()

    def _drain(self, write: Callable[[bytes], int], batch: bytes) -> bool:
        """Write until all is written (True) or the socket takes no more (False). The caller is the writer."""
        while True:
            written = write(batch) if batch else 0
            with self._lock:
                if self._is_closed:
                    return True
                self._size -= written
                if self._waiting:
                    self._wake_waiting()
                if written < len(batch):
                    self._pending.appendleft(batch[written:])
                    self._is_handed_over = True
                    return False
                batch = self._take() if self._size else b""
                if not batch:
                    self._is_writing = self._is_handed_over = False
                    return True

    def _take(self) -> bytes:
        """Return what is to be written next; nothing: there is nothing. The lock is held."""
        if self._is_open:
            self._seal()
        if self._size <= _BATCH or not self._pending:
            batch = b"".join(self._pending)
            self._pending.clear()
            return batch
        first = self._pending.popleft()
        if not self._pending or len(first) >= _BATCH:
            return first
        pieces, size = [first], len(first)
        while self._pending and size + len(self._pending[0]) <= _BATCH:
            pieces.append(self._pending.popleft())
            size += len(pieces[-1])
        return b"".join(pieces)


_log = logging.getLogger("pyjms.stomp")
_UNWRITTEN_BYTES_MAX = 4 * 1024 * 1024
_HEADERS_MAX = 16 * 1024 * 1024
_VERSION = Version.V1_2
_BEAT = b"\n"
_AT_ONCE = 2
_receipt = re.compile(rb"RECEIPT\nreceipt-id:([A-Za-z0-9.\-]{1,100}+)\n\n\0").fullmatch


class TransportEndedError(Exception):
    """The connection has ended; what was sent last may or may not have arrived."""


class UnsentError(TransportEndedError):
    """The connection had ended before anything of what was to be sent was written."""


class RefusedError(Exception):
    """The broker answered CONNECT with ERROR."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.headers.get("message", "no reason given"))
        self.frame = frame


class TransportEvents(Protocol):
    """What a transport tells. All calls come from its I/O thread and must not wait."""

    def on_frame(self, frame: Frame) -> None:
        """A frame came after CONNECTED: MESSAGE, RECEIPT or ERROR."""
        ...

    def on_end(self, reason: str) -> None:
        """The connection has ended, by whichever side; called once, and last."""
        ...


class Transport:
    """One connection. `send` may be called by any thread."""

    def __init__(self, endpoint: Endpoint, settings: StompSettings, events: TransportEvents) -> None:
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
        self._outbox = WriteBuffer(
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
            self._watch = Poller(self._channel.fileno(), self._wake_reader.fileno())
            taken.callback(self._watch.close)
            self._reading = SocketReader(
                is_shared=self._channel.is_lendable,
                wake=self._wake,
                look=self._watch.look,
            )
            # the first to go: the number of a closed socket may be another one's soon
            taken.callback(self._reading.end)
            self._taken = taken.pop_all()

    def open(self, headers: dict[str, str]) -> Frame:
        """Send CONNECT and return CONNECTED.

        Raises `RefusedError`, `ResourceError` when there is no answer in time, `TransportEndedError` when the other side hung up.
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
            raise TransportEndedError(self._reason)
        if answer.command != "CONNECTED":
            self.close()
            raise RefusedError(answer)
        if answer.headers.get("version") != _VERSION.value:
            self.close()
            raise ResourceError(f"{self.endpoint} speaks STOMP {answer.headers.get('version', '1.0')}; this needs 1.2")
        return answer

    def send(self, *frames: Frame, needs_room: bool = True, said: SentFlag | None = None) -> None:
        """Have `frames` written, one after the other. Returns before they are.

        needs_room: False for what is small, and said a few times at most before the broker has read it: it gets in though much
        waits to be written. Raises `ProviderError` for a frame that cannot be written (nothing of it is), `ResourceError` when the broker does not
        read, `TransportEndedError`.
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
        self._reading.keep_polling()

    def send_message_soon(self, session: str, message: bytes, *, waits: bool) -> None:
        """Have a packed message written as `send_soon` does, in one frame with those of the same session that come after it."""
        self._in_a_row += 1
        corked = waits or self._in_a_row > _AT_ONCE
        try:
            if self._outbox.gather(session, message, corked=corked) and corked:
                self._reading.keep_polling()
        except (WriteBufferClosedError, OSError) as error:
            raise self._ended(error) from error

    def acknowledge_soon(self, head: bytes, first: int, last: int) -> None:
        """Have deliveries acknowledged as `send_soon` does that waits; see `WriteBuffer.acknowledge`."""
        try:
            if self._outbox.acknowledge(head, first, last):
                self._reading.keep_polling()
        except WriteBufferClosedError as error:
            raise self._ended(error) from error

    def _put(self, data: bytes, *, corked: bool = False, needs_room: bool = True, said: SentFlag | None = None) -> None:
        try:
            self._outbox.put(data, corked=corked, needs_room=needs_room, said=said)
        except (WriteBufferClosedError, OSError) as error:
            raise self._ended(error) from error

    def _ended(self, error: Exception) -> TransportEndedError:
        """Return what is told of an error of the outbox: what finds it closed never gets in; of an error of the socket nobody knows."""
        self._wake()
        kind = UnsentError if isinstance(error, WriteBufferClosedError) else TransportEndedError
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
        """Wait as `clock.wait` does, for something that this connection brings; see `SocketReader.wait`."""
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
        except WriteBufferClosedError:
            pass  # another thread closes the connection just now, and a heart-beat came too late for it
        except (OSError, StompError, TransportEndedError) as error:
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
                raise TransportEndedError("the broker closed the connection")
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
            raise TransportEndedError(
                f"the broker was silent for {self._beats.patience_ms} ms, in spite of heart-beats"
            )
        if self._beats.is_due(now):
            self._outbox.put(self._channel.frame(_BEAT))
            self._beats.sent(now)

    def _wake(self) -> None:
        with suppress(OSError):  # full: it is awake already; closed: it has ended
            self._wake_writer.send(b"x")
