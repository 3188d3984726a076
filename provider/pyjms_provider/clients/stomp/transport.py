"""The parts of a physical connection that are STOMP's own: heart-beats, and the write buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.interrupts import deferred
from pyjms_provider.clients.network.io_thread import WritingEndedError
from pyjms_provider.protocols.stomp.packed import FRAME_BYTES, FRAME_MESSAGES_MAX, LENGTH

# A silence of two periods and a second is allowed: brokers round the periods, and machines are slow.
_TOLERANCE: Final = 2
_GRACE_MS: Final = 1000


class HeartBeat:
    """When to send a heart-beat, and when silence means that the other side is gone (STOMP 1.2, "Heart-beating"). Pure.

    Any byte that arrives is a sign of life.
    """

    def __init__(self, offer_ms: int, answer: str, now_ms: float) -> None:
        """`offer_ms`: the period that this side offered for both ways; `answer`: the broker's header, "" for none."""
        sends_ms, wants_ms = _periods(answer)
        self.send_every_ms = max(offer_ms, wants_ms) if offer_ms and wants_ms else 0
        """The longest time between bytes sent, in milliseconds; 0: no limit."""
        self.expect_every_ms = max(offer_ms, sends_ms) if offer_ms and sends_ms else 0
        """The longest time between bytes from the broker, in milliseconds; 0: no limit."""
        self.silence_max_ms = self.expect_every_ms * _TOLERANCE + _GRACE_MS
        """The longest silence of the broker that is tolerated, in milliseconds."""
        self.sent_ms = self.received_ms = now_ms
        """When bytes were last written, and last received."""

    def is_due(self, now_ms: float) -> bool:
        """Return whether a heart-beat is due: after half of the period, so that a slow network has the rest."""
        return self.send_every_ms > 0 and now_ms - self.sent_ms >= self.send_every_ms / 2

    def is_dead(self, now_ms: float) -> bool:
        """Return whether the broker has been silent for too long."""
        return self.expect_every_ms > 0 and now_ms - self.received_ms > self.silence_max_ms

    def wait_ms(self, now_ms: float) -> float | None:
        """Return for how many milliseconds nothing is due; None: for ever."""
        waits = []
        if self.send_every_ms:
            waits.append(self.sent_ms + self.send_every_ms / 2 - now_ms)
        if self.expect_every_ms:
            # `is_dead` compares with `>`: a thread that woke one
            # millisecond earlier would find nothing to do, and spin.
            waits.append(self.received_ms + self.silence_max_ms - now_ms + 1)
        return max(0.0, min(waits)) if waits else None


def _periods(answer: str) -> tuple[int, int]:
    """Return the periods in which the broker sends and wants bytes; 0 and 0 if the header is not a pair of numbers."""
    sends, comma, wants = (part.strip() for part in answer.partition(","))
    # `isdecimal` alone is true for the digits of every script.
    if not (comma and sends.isdecimal() and wants.isdecimal() and sends.isascii() and wants.isascii()):
        return 0, 0
    return int(sends), int(wants)


_CLOCK: Final = SystemClock()
_BATCH: Final = 256 * 1024
_CORKED_MAX: Final = FRAME_BYTES
_ACK_SIZE: Final = 100  # about; it is known when the frame is made
_PARTS_MAX: Final = FRAME_MESSAGES_MAX  # two for each message, so half of a broker's limit


class SentFlag:
    """Whether frames are in the write buffer: a call that fails after that must not send them again."""

    __slots__ = ("is_sent",)

    def __init__(self) -> None:
        self.is_sent = False


class WriteBuffer:
    """The write buffer of one socket: bounded, in order, written by one thread at a time. Any thread.

    The thread that puts data in writes it, if no other one is writing; the I/O thread writes what the socket does not take at once. So a
    send needs no thread switch, and no lock is held during a write.
    """

    def __init__(
        self,
        limit: int,
        wake: Callable[[], None],
        write: Callable[[bytes], int] | None,
        frame: Callable[[bytes], bytes] = bytes,
        timeout_s: Callable[[], float | None] = lambda: 0.0,
    ) -> None:
        """`limit`: the most bytes in the buffer, above which a call waits for room; a single piece may be larger. `frame` wraps a STOMP
        frame for the socket. `timeout_s` returns for how many seconds of real time the calling thread may wait for room; None: it puts its
        data in without waiting.

        `wake` has the I/O thread call `flush`. `write` writes as much as it can without waiting and returns how much; None: only the I/O
        thread may write (TLS: OpenSSL's state bears one thread only).
        """
        self._limit = limit
        self._wake = wake
        self._write_here = write
        self._frame = frame
        self._timeout_s = timeout_s
        self._is_open = False
        """Whether the last frame is open: messages, or acknowledgements, may be added to it."""
        self._gathered: list[bytes] = []
        """The messages of the open frame, each after its length."""
        self._gathered_for = ""
        """Their session. Empty: the open frame has acknowledgements, and no message is added to it."""
        self._gathered_size = 0
        self._ack_head = b""
        """The beginning of an open frame of acknowledgements; else empty."""
        self._ack_first = self._ack_last = 0
        self._lock = Lock()
        self._waiting: set[Signal] = set()
        """The signals of threads that wait for room."""
        self._pending: deque[bytes] = deque()
        """Frames as the socket carries them, all whole but perhaps the first."""
        self._size = 0
        """About how many bytes are not written yet: pending ones, those of the open frame, and those of a write under way."""
        self._is_writing = False
        """Whether some thread is the writer, which goes on until the buffer is empty."""
        self.has_rest = False
        """Whether the I/O thread is the writer, and has something to write."""
        self._is_closed = False

    def put(self, data: bytes, *, corked: bool = False, needs_room: bool = True, sent: SentFlag | None = None) -> None:
        """Put `data` at the end of the buffer and have it written; wait for room, if it `needs_room`.

        `corked`: write it later, with the data that follows, at the next `uncork`, or when much of it has gathered. `sent` is set when the
        data is in the buffer.

        Raises `ResourceError` if there was no room in time, `WritingEndedError`.
        """
        size, batch = len(data), data
        # Read without the lock: the limit is a soft one, and threads that race for the same room all get in.
        if needs_room and self._size and self._size + size > self._limit:
            self._wait_for_room(size)
        with self._lock:
            if self._is_closed:
                raise WritingEndedError
            # Set under the lock, with the entry: if the call fails later,
            # the flag says whether the frames are in the buffer.
            if sent is not None:
                sent.is_sent = True
            # Gathered messages came first: the order on the wire is that of the calls.
            if self._is_open:
                self._seal()
            if corked or self._size or self._write_here is None:
                self._pending.append(data)
                self._size += size
                # The writer looks for more under this lock before it stops (`_drain`), so nothing is left behind.
                if self._is_writing or (corked and self._size < _CORKED_MAX):
                    return
                batch = self._begin()
            else:  # the buffer is empty, so no thread writes
                self._size, self._is_writing = size, True
        # Without the lock: other threads may add to the buffer during the system call.
        self._write(batch)

    def gather(self, session: str, message: bytes, *, corked: bool = True) -> bool:
        """Put a packed message of a session into the open frame, or begin one. If `corked`, the session's next messages join that frame,
        until something else is put in. Return whether it is corked in a buffer that was empty.

        Raises as `put`.
        """
        size = len(message) + LENGTH.size
        if self._size and self._size + size > self._limit:
            self._wait_for_room(size)
        with self._lock:
            if self._is_closed:
                raise WritingEndedError
            is_full = self._gathered_size >= FRAME_BYTES or len(self._gathered) >= _PARTS_MAX
            if self._is_open and (is_full or session != self._gathered_for or size > FRAME_BYTES):
                self._seal()  # a large message has a frame to itself, as frames are limited
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
        """Acknowledge deliveries `first` to `last`, corked: in one frame with acknowledgements that continue the range, until something
        else is put in. Return whether the buffer was empty.

        head: the frame's beginning, up to the ids; one object for each session. Raises as `put`.
        """
        # The head is compared by identity, as each session has one; `_seal` forgets it, so a sealed
        # frame never grows. A longer range takes no more room, so it gets into a full buffer.
        goes_on = head is self._ack_head and first == self._ack_last + 1  # checked again with the lock held
        if self._size + _ACK_SIZE > self._limit and not goes_on:
            self._wait_for_room(_ACK_SIZE)
        with self._lock:
            if head is self._ack_head and first == self._ack_last + 1:
                self._ack_last = last
                return False
            if self._is_closed:
                raise WritingEndedError
            if self._is_open:
                self._seal()
            is_first = not self._size
            self._ack_head, self._ack_first, self._ack_last = head, first, last
            self._gathered_for, self._is_open = "", True
            self._size += _ACK_SIZE
            return is_first

    def _seal(self) -> None:
        """Make a pending frame of the open one. The lock is held."""
        self._is_open = False
        if self._ack_head:
            data, size = b"%b%d-%d\n\n\0" % (self._ack_head, self._ack_first, self._ack_last), _ACK_SIZE
            self._ack_head = b""
        else:
            data, size = self._gathered_frame(), self._gathered_size
            self._gathered, self._gathered_size = [], 0
        data = self._frame(data)
        self._pending.append(data)
        # Until now the size was an estimate.
        self._size += len(data) - size

    def _gathered_frame(self) -> bytes:
        parts, size = self._gathered, self._gathered_size
        head = f"SENDS\nsession:{self._gathered_for}\ncontent-length:{size}\n\n".encode()
        return b"".join((head, *parts, b"\0"))

    def _wait_for_room(self, size: int) -> None:
        """Wait until `size` bytes have room, or the buffer is closed; return at once on a thread that must not wait. Threads that wait for
        the same room all get in. Raises `ResourceError` on a timeout.
        """
        if (timeout_s := self._timeout_s()) is None:
            return
        # In real time: how fast the broker reads does not depend on an application's virtual clock.
        signal, until_ms = Signal(), _CLOCK.monotonic_ms() + timeout_s * 1000
        try:
            with self._lock:
                # Registered before the check: room that is made between the two raises the signal.
                self._waiting.add(signal)
            while not (self._is_closed or self.has_room(size)):
                if (
                    # Checked again after the timeout: room, or the close, may have come at the same moment.
                    not deferred.wait(_CLOCK.wait, signal, until_ms) and not self._is_closed and not self.has_room(size)
                ):
                    raise ResourceError(
                        f"the broker has not read for {timeout_s:.0f} s, and {self._size} bytes wait to be sent: "
                        "see what it is waiting for (full memory or disk), or raise timeout_ms"
                    )
        finally:
            with self._lock:
                self._waiting.discard(signal)

    def uncork(self) -> None:
        """Write corked data, unless some thread is writing already. Any thread."""
        # Called before each wait, mostly with nothing to write: so checked without the lock first.
        if not self._size or self._is_writing:
            return
        with self._lock:
            if not self._size or self._is_writing:
                return
            batch = self._begin()
        self._write(batch)

    def flush(self, write: Callable[[bytes], int]) -> None:
        """Write as much as the socket takes now. Only the I/O thread, when `has_rest`."""
        with self._lock:
            batch = self._take()
        self._drain(write, batch)

    def close(self) -> None:
        """Refuse more data, drop the buffered data, and end all waits for room."""
        with self._lock:
            self._is_closed = True
            self.has_rest = False
            self._pending.clear()
            self._gathered, self._gathered_size = [], 0
            self._ack_head, self._is_open = b"", False
            self._size = 0
            self._wake_waiting()

    def forget(self) -> None:
        """Refuse more data, in a child of this process."""
        self._lock, self._is_closed = Lock(), True

    def _wake_waiting(self) -> None:
        """Wake the threads that wait for room. The lock is held."""
        for signal in self._waiting:
            signal.set()

    def has_room(self, size: int) -> bool:
        """Return whether that many bytes can be put in without a wait. A moment later it may be otherwise."""
        # A piece that is larger than the limit gets into an empty buffer, or it could never be sent.
        return not self._size or self._size + size <= self._limit

    def _begin(self) -> bytes:
        """Become the writer, or make the I/O thread the writer; return the first bytes to write. The lock is held."""
        self._is_writing = True
        self.has_rest = self._write_here is None
        return b"" if self.has_rest else self._take()

    def _write(self, batch: bytes) -> None:
        """Write, as the writer; the I/O thread goes on when the socket takes no more."""
        if self._write_here is None or not self._drain(self._write_here, batch):
            self._wake()

    def _drain(self, write: Callable[[bytes], int], batch: bytes) -> bool:
        """Write until all is written (True) or the socket takes no more (False). The caller is the writer."""
        while True:
            written = write(batch) if batch else 0
            with self._lock:
                # `close` has emptied the buffer and set the size to 0: it must not be counted down once more.
                if self._is_closed:
                    return True
                self._size -= written
                if self._waiting:
                    self._wake_waiting()
                if written < len(batch):
                    # The rest of a frame stays in front. `_is_writing`
                    # stays set: from now on the I/O thread is the writer.
                    self._pending.appendleft(batch[written:])
                    self.has_rest = True
                    return False
                batch = self._take() if self._size else b""
                if not batch:
                    self._is_writing = self.has_rest = False
                    return True

    def _take(self) -> bytes:
        """Return the next bytes to write; empty: there are none. The lock is held."""
        if self._is_open:
            self._seal()
        if self._size <= _BATCH or not self._pending:
            batch = b"".join(self._pending)
            self._pending.clear()
            return batch
        first = self._pending.popleft()
        # A large frame is written as it is: `join` would copy it.
        if not self._pending or len(first) >= _BATCH:
            return first
        pieces, size = [first], len(first)
        while self._pending and size + len(self._pending[0]) <= _BATCH:
            pieces.append(self._pending.popleft())
            size += len(pieces[-1])
        return b"".join(pieces)
