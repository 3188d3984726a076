"""The thread that owns a client's socket, and its end: it reads, it writes what a caller could not write at once, and it closes.

`BasePhysicalConnection` is what the connections over it have in common, whatever their protocol.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from threading import Thread, current_thread, get_ident
from typing import Protocol

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.words import said_by_system
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, UnansweredError
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.polling import TICK_S, Poller, SocketReader, Wakeup
from pyjms_provider.clients.network.sockets import ClientSocket
from pyjms_provider.forks import let_go

_log = logging.getLogger("pyjms.network")


class WritingEndedError(Exception):
    """The connection has ended; the data put in last may or may not have been written."""


class IoWork(Protocol):
    """What an I/O thread does for its connection. All is called on that thread, but `read` also on one that reads in its place."""

    is_closing: bool
    """Whether the connection is ending, or has ended."""

    @property
    def has_rest(self) -> bool:
        """Whether something is to be written that the socket did not take before."""
        ...

    def read(self) -> None:
        """Handle the data that is there. Raises `OSError`, `ConnectionLostInCallError`, or an error of the protocol, to end the connection."""
        ...

    def write(self) -> None:
        """Write what there is, as far as the socket takes it. Called in every round, so that a tick is the longest delay."""
        ...

    def wait_ms(self) -> float | None:
        """Return for how many milliseconds no sign of life is due, of this side or of the other; None: for ever."""
        ...

    def keep_time(self) -> None:
        """Send a sign of life if one is due. Raises `ConnectionLostInCallError` if the other side is silent for too long."""
        ...

    def stop_writing(self) -> None:
        """Take nothing more to be written. Before the socket closes: a later send then learns that nothing of it was written."""
        ...

    def on_io_ended(self, reason: str) -> None:
        """The socket is closed; ``""``: because this side wanted it. The last call."""
        ...


class IoThread:
    """The I/O thread of one connection, and its socket. Any thread."""

    def __init__(
        self,
        work: IoWork,
        endpoint: Endpoint,
        connect: Callable[[], ClientSocket],
        *,
        protocol: str,
        faults: tuple[type[Exception], ...],
    ) -> None:
        """Connect the socket. Raises `ResourceError`; `start` goes on.

        Args:
            work: what it does for the connection.
            endpoint: the broker's address.
            connect: opens the socket; raises `ResourceError`, `OSError`.
            protocol: its name, for the thread's name and the code of log records.
            faults: the errors of the protocol that end the connection, beside those of the socket.
        """
        self.endpoint = endpoint
        self.ident = 0
        """The thread's identifier; 0: it has not begun."""
        self._work = work
        self._faults: tuple[type[Exception], ...] = (OSError, ConnectionLostInCallError, *faults)
        self._code = f"PYJMS-{protocol.upper()}"
        self._chores: deque[Callable[[], None]] = deque()
        try:
            self._acquire(connect)
        except OSError as error:  # the process may open no more for the moment, say
            raise ResourceError(f"no connection to {endpoint}: {said_by_system(error)}") from error
        self._thread = Thread(target=self._run, name=f"pyjms-io-{protocol}-{endpoint.host}", daemon=True)

    def _acquire(self, connect: Callable[[], ClientSocket]) -> None:
        """Acquire the resources of the connection: all, or none. Raises `OSError`, `ResourceError`."""
        with ExitStack() as acquired:
            self.socket = connect()
            acquired.callback(self.socket.close)
            self.wakeup = Wakeup()
            acquired.callback(self.wakeup.close)
            self._poller = Poller(self.socket.fileno(), self.wakeup.fileno)
            acquired.callback(self._poller.close)
            self.reader = SocketReader(
                is_shared=self.socket.is_lendable, wake=self.wakeup.set, poll_reads=self._poller.poll_reads
            )
            # Ends first: after the close of the socket its number may soon be another file's, and must not be polled.
            acquired.callback(self.reader.end)
            # Taken out of the stack only now: if a step above fails, the stack closes what the earlier ones acquired.
            self.acquired = acquired.pop_all()

    def start(self) -> None:
        """Start the thread. Raises `ResourceError`: the system has no more of them for the moment."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self.acquired.close()
            raise ResourceError(f"no connection to {self.endpoint}: {error}") from error

    def wait(self, clock: Clock, signal: Signal, until_ms: float | None, is_only_waiter: Callable[[], bool]) -> bool:
        """Wait as the clock does, for a signal that this connection sets; see `SocketReader.wait`."""
        return self.reader.wait(clock, signal, until_ms, is_only_waiter)

    def is_own_thread(self) -> bool:
        """Return whether the caller is the thread that reads, and so must not wait for data that only it can read."""
        return get_ident() in (self.reader.reader, self.ident)

    def call_soon(self, chore: Callable[[], None]) -> None:
        """Have the thread call `chore`, which neither waits nor raises; it is dropped once the connection has ended.

        Takes no lock: the garbage collector may run finalizers that call this on any thread, under any lock.
        """
        # First the entry, then the wakeup: the I/O thread reads the list after it has cleared the wakeup.
        self._chores.append(chore)
        self.wakeup.set()

    @contextmanager
    def browsing(self, end: Callable[[], None]) -> Iterator[None]:
        """Browse a queue, and call `end` after it; if the iterator is dropped half way, the I/O thread calls it."""
        chore = end
        try:
            yield
        except GeneratorExit:
            # The garbage collector may close the iterator, on any thread
            # and while that holds any lock: so the I/O thread ends it.
            chore = partial(self.call_soon, end)
            raise
        finally:
            chore()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end, unless it is the caller's."""
        # A thread that was never started has no ident, and cannot be joined.
        if self._thread is not current_thread() and self._thread.ident is not None:
            self._thread.join(timeout_s)

    def forget(self) -> None:
        """Release the socket, in a child of this process, and write nothing: it is the parent's."""
        self.reader.forget()
        let_go(self.socket.fileno())
        self.wakeup.forget()

    # The thread

    def _run(self) -> None:
        self.ident = get_ident()
        work, reason = self._work, ""
        try:
            self._serve()
        except WritingEndedError:
            pass  # another thread closes the connection just now, and a sign of life came too late for it
        except self._faults as error:
            reason = str(error) or type(error).__name__
        except Exception as error:  # the top of a thread
            _log.exception("%s the connection to %s ends because of an error of pyjms", self._code, self.endpoint)
            reason = f"{type(error).__name__}: {error}"
        work.is_closing = True
        work.stop_writing()
        try:
            self.acquired.close()
        finally:
            # Whatever the close raises: without this the connection would never be replaced.
            work.on_io_ended(reason)

    def _serve(self) -> None:
        work, reader, poller, wakeup = self._work, self.reader, self._poller, self.wakeup
        work.read()  # TLS may have read ahead during the handshake
        reader.begin(self.socket.fileno(), work.read)
        while not work.is_closing:
            poller.poll_writes(work.has_rest)
            is_woken, is_readable = poller.wait(self._sleep_s())
            if is_woken:
                # Cleared before the state is read: a change after that ends the next wait.
                wakeup.clear()
            if reader.failure is not None:
                raise reader.failure
            if is_readable:
                reader.try_read()
            while self._chores:
                self._chores.popleft()()
            work.write()
            # Only a wait that has lasted its whole time is a tick: a
            # wake-up may follow the last use of the socket at once.
            if reader.is_ticking and not (is_woken or is_readable):
                reader.tick()
            work.keep_time()

    def _sleep_s(self) -> float | None:
        """Return how long the thread may sleep; None: until it is woken."""
        if self.reader.is_ticking:
            return TICK_S
        wait_ms = self._work.wait_ms()
        return None if wait_ms is None else wait_ms / 1000


class BasePhysicalConnection(ABC):
    """One connection to one broker: its socket with the thread, its end with a reason, and calls that may get no answer. Any thread.

    A subclass speaks the protocol, and is the `IoWork` of the thread.
    """

    def __init__(self, number: int, endpoint: Endpoint, clock: Clock, io: IoThread) -> None:
        self.number = number
        """Grows by one with each connection of the failover connection."""
        self.endpoint = endpoint
        self.is_closing = False
        """Whether it is ending, or has ended: it takes nothing any more, and `on_ended` was or will soon be called."""
        self.has_ended = False
        """Whether it has ended: no answer is awaited any more, and `reason` says why."""
        self.reason = ""
        self.was_interrupted = False
        """Whether it ends by `abort`, and not through the network or the broker."""
        self._farewell = ""
        """The broker's reason, if it has announced the end."""
        self._is_silent = False
        """Whether the wait of a call has timed out, and nothing has been received since."""
        self._clock = clock
        # Signs of life go by real time: the broker knows nothing of an application's virtual clock.
        self._system_clock = SystemClock()
        self._io = io
        self._socket, self._wakeup, self._reader = io.socket, io.wakeup, io.reader

    def is_own_thread(self) -> bool:
        """Return whether the caller is the thread that reads, and so must not wait for data that only it can read."""
        return self._io.is_own_thread()

    def call_soon(self, chore: Callable[[], None]) -> None:
        """Have the I/O thread call `chore`; see `IoThread.call_soon`."""
        self._io.call_soon(chore)

    def browsing(self, end: Callable[[], None]) -> AbstractContextManager[None]:
        """Browse a queue, and call `end` after it; see `IoThread.browsing`."""
        return self._io.browsing(end)

    def unanswered(self, what: str, limit_ms: float) -> UnansweredError:
        """Return the error for a call that got no answer in time; until something is received, the broker counts as silent."""
        self._is_silent = True
        return UnansweredError(
            f"the broker has not answered {what} for {limit_ms} ms, so it is not known whether it did it: "
            "look what holds it up, or raise timeout_ms"
        )

    def close(self) -> None:
        """End the connection; its thread ends soon. Any thread; may be repeated."""
        # The flag first: the I/O thread that is woken must find it.
        self.is_closing = True
        self.stop_writing()
        self._wakeup.set()

    def abort(self, why: str) -> None:
        """End the connection on this side; of calls under way it is not known how much was written."""
        self.was_interrupted = True
        self.reason = why
        self.close()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end, unless it is the caller's."""
        self._io.join(timeout_s)

    @abstractmethod
    def stop_writing(self) -> None:
        """Take nothing more to be written. Before the socket closes: a later send then learns that nothing of it was written."""
