"""What waits to be written to one socket: bounded, in order, written by one thread at a time.

Who puts something in writes it, if nobody else is writing and the socket takes it at once; the rest is the I/O thread's. So
a send costs no change of threads, and nobody holds a lock while bytes are written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.interrupts import deferred
from pyjms_provider.protocols.stomp.packed import FRAME_BYTES, FRAME_MESSAGES_MAX, LENGTH

__all__ = ["Outbox", "OutboxClosedError", "Said"]

_CLOCK: Final = SystemClock()
_BATCH = 256 * 1024
_CORKED_MAX = FRAME_BYTES
_ACK_SIZE = 100  # about; it is known when the frame is made
_PARTS_MAX = FRAME_MESSAGES_MAX  # two of a message, so half of what a broker takes


class OutboxClosedError(Exception):
    """The connection has ended; what was put in last may or may not have been written."""


class Said:
    """Whether frames are on their way for certain: a call that fails later must not send them again."""

    __slots__ = ("is_said",)

    def __init__(self) -> None:
        self.is_said = False


class Outbox:
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

    def put(self, data: bytes, *, corked: bool = False, needs_room: bool = True, said: Said | None = None) -> None:
        """Have `data` written after all that came before; wait for room, if it `needs_room`.

        `corked`: not yet, but together with what comes, or when `uncork` is called, or when there is much of it. `said` is told as soon as that is certain.

        Raises `ResourceError` when there was none, `OutboxClosedError`.
        """
        size, batch = len(data), data
        if needs_room and self._size and self._size + size > self._limit:
            self._wait_for_room(size)
        with self._lock:
            self._check_open()
            if said is not None:
                said.is_said = True
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
            raise OutboxClosedError

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
