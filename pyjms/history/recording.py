"""A recording: the files for the events of this process, and the thread that writes them.

Two ways of recording, one interface:

- *Buffered* (`BufferedLog`): the caller's thread appends a tuple; a thread of the recording writes a Parquet file every
  second while there are events, and sooner when the buffer is full. A process that dies without closing loses the last second.
- *Synchronous* (`SynchronousLog`): the caller's thread hands a line of the journal to the operating system before its
  call goes on. Nothing is lost when the process is killed; the thread turns full journals into Parquet files.

A recording never disturbs the recorded client: when it cannot write, it says so in the log, keeps the mark of a recording
that was cut off, and the client continues.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import platform
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from pyjms.history.check import check
from pyjms.history.events import CLOCK, COMMIT, CRASH, EXPIRE, OK, ROLLBACK
from pyjms.history.findings import Report
from pyjms.history.journal import JournalFile
from pyjms.history.reading import parquet, read
from pyjms.history.rows import OK_AT, T1_AT, Call, Digests, Row, Scope, branch_name, rows_of
from pyjms.history.stamps import NS_PER_MS, Ticker
from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.envelope import Address
from pyjms.spi.provider import ExpiredMessage
from pyjms.spi.xid import Xid

INTERVAL_S = 1.0
"""The time span of events that a buffered recording loses at most when its process is killed."""
BUFFER_EVENTS = 20_000
"""The most events in memory; a caller that appends one more writes them."""

_log = logging.getLogger("pyjms.history")


class _Files:
    """The names of one recording's files, and writing them."""

    def __init__(self, directory: Path, run: str) -> None:
        self.directory = directory
        self.run = run
        self.node = platform.node() or "localhost"
        # Random digits too: a process may record twice into one directory, and process ids are reused.
        self._name = f"{self.node}-{os.getpid()}-{os.urandom(4).hex()}"
        self._numbers = count(1)
        # Spark and other readers of folders of Parquet files skip names with an underscore.
        self._mark = directory / f"_{self._name}.open"
        # Imported here, so that missing pyarrow is reported when the recording is made, and not by the thread that
        # writes.
        self._parquet = parquet()
        self.is_broken = False
        self.owes_mark = False
        self._untold = iter((None,))  # exhausted by the first failure: `next` on it is atomic

    def next_name(self) -> str:
        """Return a name for the next file."""
        return f"{self._name}-{next(self._numbers):06d}"

    def journal(self, name: str) -> JournalFile:
        """Begin a journal."""
        return JournalFile(self.directory / f"_{name}.journal", self.run, self.node)

    def write(self, name: str, rows: list[Row]) -> None:
        """Write a Parquet file."""
        self._parquet.write_rows(self.directory / f"{name}.parquet", rows, self.run, self.node)
        if self.owes_mark:
            self.mark()

    def mark(self) -> None:
        """Write a mark that stays if the process dies: a buffered recording then lacks its last moments.

        If that fails, it is tried again with each later write. On a full disk with room for its name alone, the name suffices.
        """
        # Set first and cleared once the file exists: opening it may fail on a full disk, and each later write then
        # tries again.
        self.owes_mark = True
        with suppress(OSError), self._mark.open("w") as file:
            self.owes_mark = False
            file.write(json.dumps({"run": self.run, "node": self.node, "pid": str(os.getpid())}))

    def unmark(self) -> None:
        """Remove the mark: all events are written. It stays when some could not be written."""
        # A recording that lacks events keeps its mark for ever: the checker then reports no violation, only warnings.
        if not self.is_broken:
            self.owes_mark = False
            with suppress(OSError):
                self._mark.unlink(missing_ok=True)

    def fail(self, error: Exception) -> None:
        """Log once that events are missing, and write the mark, at once or as soon as the disk has room for it."""
        # Set before the mark: a seal on another thread must not remove the mark that this failure needs.
        self.is_broken = True
        is_first = next(self._untold, self) is None
        if is_first or self.owes_mark:
            self.mark()
        if is_first:
            _log.error(
                "the recording in %s lacks events from now on, as it cannot be written: %s",
                self.directory,
                error,
                exc_info=None if isinstance(error, OSError) else error,
            )


class _Log(ABC):
    """The way of events to the files."""

    @abstractmethod
    def begin(self, call: Call) -> object:
        """Record the begin of a call; return the argument for `end`."""

    @abstractmethod
    def end(self, begun: object, ok: str, t1: int) -> None:
        """Record the end of a call."""

    @abstractmethod
    def put(self, call: Call, ok: str, t1: int) -> None:
        """Record a call that has begun and ended."""

    @abstractmethod
    def open(self) -> None:
        """Prepare for events."""

    @abstractmethod
    def flush(self) -> None:
        """Write all events that have ended to Parquet."""

    @abstractmethod
    def seal(self) -> None:
        """Write everything; no events follow until `open`."""


class BufferedLog(_Log):
    """A log whose events wait in memory for the writer."""

    def __init__(self, files: _Files, wake: Flag) -> None:
        self._files = files
        self._wake = wake
        self._digests = Digests()
        self._buffer: deque[tuple[Call, str, int]] = deque()
        self._turn = Lock()
        """Held by the one thread that writes; another one that finds the buffer full waits for it, and so is slowed down."""

    def begin(self, call: Call) -> Call:
        return call

    def end(self, begun: object, ok: str, t1: int) -> None:
        assert isinstance(begun, Call)
        self.put(begun, ok, t1)

    def put(self, call: Call, ok: str, t1: int) -> None:
        buffer = self._buffer
        # No lock: a deque appends atomically, and this runs in the client's thread for each message.
        buffer.append((call, ok, t1))
        # Reading the flag is cheaper than setting it, which takes a lock.
        if not self._wake.is_set():
            self._wake.set()
        # The client that fills the buffer writes it: memory stays bounded when the disk is slower than the clients.
        if len(buffer) >= BUFFER_EVENTS:
            self.flush()

    def open(self) -> None:
        self._files.mark()

    def flush(self) -> None:
        error: Exception | None = None
        with self._turn:
            while self._buffer:
                # The failure is reported after the lock is released: that writes a file and a log line.
                error = self._write() or error
        if error is not None:
            self._files.fail(error)

    def _write(self) -> Exception | None:
        # One buffer's worth for a file at most, counted first: clients go on appending meanwhile.
        calls = [self._buffer.popleft() for _ in range(min(len(self._buffer), BUFFER_EVENTS))]
        try:
            rows = [row for call in calls for row in rows_of(self._digests, *call)]
            self._files.write(self._files.next_name(), rows)
        except Exception as error:  # the recorded client continues after any failure of the recording
            return error
        return None

    def seal(self) -> None:
        self.flush()
        self._files.unmark()


class SynchronousLog(_Log):
    """A log whose events go to the journal at once, and wait in memory for the Parquet file that replaces it."""

    def __init__(self, files: _Files, wake: Flag) -> None:
        self._files = files
        self._wake = wake
        self._digests = Digests()
        self._lock = Lock()
        # Two locks: clients need only the first, and must not wait while a Parquet file is written under the second.
        self._sealing = Lock()
        self._serials = count(1)
        self._is_open = False
        self._name = ""
        self._journal: JournalFile | None = None
        """None while sealed, and while none can be opened: then each event tries again."""
        self._pending: dict[int, list[Row]] = {}
        self._rows: list[Row] = []
        self._is_whole = True
        """Whether `_rows` has all ended events of the journal, so that a Parquet file of them may replace it."""

    def begin(self, call: Call) -> int:
        with self._lock:
            # The rows are made under the lock: they number the events of a session, and share the cache of digests.
            serial, rows = next(self._serials), rows_of(self._digests, call)
            # Calls in progress are kept, for the next journal: a journal that is replaced must not take their begins
            # with it.
            self._pending[serial] = rows
            error = self._try(lambda journal: journal.begin(serial, rows))
        if error is not None:
            self._files.fail(error)
        return serial

    def end(self, begun: object, ok: str, t1: int) -> None:
        assert isinstance(begun, int)
        with self._lock:
            rows = self._pending.pop(begun)
            for row in rows:
                row[OK_AT], row[T1_AT] = ok, t1
            self._rows += rows
            error = self._try(lambda journal: journal.end(begun, ok, t1))
            is_full = len(self._rows) >= BUFFER_EVENTS
        self._after(error, is_full)

    def put(self, call: Call, ok: str, t1: int) -> None:
        with self._lock:
            serial, rows = next(self._serials), rows_of(self._digests, call, ok, t1)
            self._rows += rows
            error = self._try(lambda journal: journal.begin(serial, rows))
            is_full = len(self._rows) >= BUFFER_EVENTS
        self._after(error, is_full)

    def _after(self, error: OSError | None, is_full: bool) -> None:
        if error is not None:
            self._files.fail(error)
        if is_full:
            self._wake.set()

    def _try(self, write: Callable[[JournalFile], None]) -> OSError | None:
        if not self._is_open:
            return None
        try:
            if self._journal is None:
                self._name, self._journal = self._next_journal()
            write(self._journal)
        except OSError as error:
            return error
        if self._files.owes_mark:
            self._files.mark()
        return None

    def open(self) -> None:
        error: OSError | None = None
        with self._lock:
            self._is_open = True
            if self._journal is None:
                error = self._try(lambda _: None)
        if error is not None:
            self._files.fail(error)

    def flush(self) -> None:
        self._turn_over(is_last=False)

    def seal(self) -> None:
        self._turn_over(is_last=True)

    def _turn_over(self, *, is_last: bool) -> None:
        """Begin a new journal, and replace the old one by a Parquet file. A reader prefers the file to the journal."""
        with self._sealing:
            with self._lock:
                if not self._is_open:
                    return
                name, journal, rows, is_whole = self._name, self._journal, self._rows, self._is_whole
                # The exchange happens under the lock, so that each event is in the old journal or in the new one, and
                # in the rows of the same.
                is_changed = self._change(is_last=is_last)
                if is_changed or journal is None:
                    self._rows, self._is_whole = [], True
                # No new journal could be opened, and the rows in memory are dropped, since the old journal holds them;
                # it can no longer be replaced.
                elif len(rows) >= BUFFER_EVENTS:
                    self._rows, self._is_whole = [], False
            if journal is None:
                self._write_rows(self._files.next_name(), rows)
            elif is_changed:
                journal.close()
                # The Parquet file appears whole, by a rename, before the journal goes: a death in between leaves both,
                # and readers prefer the file.
                if is_whole and self._write_rows(name, rows, journal):
                    journal.remove()

    def _change(self, *, is_last: bool) -> bool:
        """Begin the next journal, or none. If that fails, the old one continues and stays, and nothing is lost."""
        if is_last and not self._pending:  # otherwise calls of other threads are still in progress
            self._is_open = False
            self._journal = None
            return True
        try:
            self._name, self._journal = self._next_journal()
        except OSError:
            return False
        return True

    def _write_rows(self, name: str, rows: list[Row], journal: JournalFile | None = None) -> bool:
        """Write a Parquet file; return whether its events are safe."""
        if not rows:
            return True
        try:
            self._files.write(name, rows)
        except Exception as error:  # the recorded client continues after any failure of the recording
            if journal is None:
                self._files.fail(error)
            elif not self._files.is_broken:  # it stays, and is read in place of the file
                _log.warning("%s stays, as no Parquet file can be written in its place: %s", journal.path, error)
            return False
        return True

    def _next_journal(self) -> tuple[str, JournalFile]:
        name = self._files.next_name()
        journal = self._files.journal(name)
        try:
            # Calls in progress begin again in the new journal, as the old one is about to be removed.
            for serial, rows in self._pending.items():
                journal.begin(serial, rows)
        except OSError:
            journal.close()
            journal.remove()
            raise
        return name, journal


class Recording:
    """The recording of one process in one directory, as long as it is in use. Any thread.

    As a context manager it is in use until the end of the block; each recorded connection uses it until closed.
    """

    def __init__(
        self, directory: Path | str, *, run: str | None = None, synchronous: bool = False, clock: Clock | None = None
    ) -> None:
        """Make the directory if need be; if that fails, nothing can be written until it exists.

        `run` names the run, otherwise the directory's name does. `synchronous`: see the module. `clock` stamps events that do not
        come from a connection; the default is the system's. Raises `MissingProviderError` without pyarrow.
        """
        self.directory = Path(directory).absolute()
        self.ticker = Ticker(self._set_back)
        # Remembered, to tell this process from a forked child that inherits the object.
        self.pid = str(os.getpid())
        self.is_synchronous = synchronous
        self._files = _Files(self.directory, run or self.directory.name)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._files.fail(error)
        self._now = self.ticker.reader(clock or SystemClock())
        self._events = Flag()
        self._end = Flag()
        self._lock = Lock()
        """Held by a thread that opens or closes a connection, while it begins or ends the recording: other threads wait, and
        find it ended or begun, never half. The writing thread and recorded calls do not take it."""
        self._users = 0
        self._thread: Thread | None = None
        self.log: _Log = (SynchronousLog if synchronous else BufferedLog)(self._files, self._events)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self.flush()

    def acquire(self) -> None:
        """Begin a use."""
        with self._lock:
            # The first user opens the log before its thread starts, and under the lock: a second connection waits until
            # both are there.
            if not self._users:
                self._end.clear()
                self.log.open()
                self._thread = Thread(target=self._run, name=f"pyjms-history-{self.directory.name}", daemon=True)
                self._thread.start()
                # A program that ends without closing its connections still writes its events.
                atexit.register(self._seal)
            self._users += 1

    def release(self) -> None:
        """End one use; the last one writes everything and ends the thread."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if self._thread is not None:
                # Set before the wake-up: the thread would otherwise write and wait again.
                self._end.set()
                self._events.set()
                # Before the seal: the thread must not open another file after the mark was removed. It never takes
                # this lock.
                self._thread.join()
                self._thread = None
            self._seal()
            # The interpreter would otherwise keep each recording alive until its end.
            atexit.unregister(self._seal)

    def flush(self) -> None:
        """Write all events so far to Parquet files."""
        if self._is_ours():
            self.log.flush()

    def _seal(self) -> None:
        if self._is_ours():
            self.log.seal()

    def _is_ours(self) -> bool:
        """Return whether this is no forked child: the files, and the events to be written, belong to the parent."""
        return str(os.getpid()) == self.pid

    def _run(self) -> None:
        while not self._end.is_set():
            self._events.wait()
            self._events.clear()
            if not self.is_synchronous:
                self._end.wait(INTERVAL_S)  # let more come, for one file
            self._write()

    def _write(self) -> None:
        try:
            self.log.flush()
            # Once for each file: clocks that drift apart slowly must not add up to an apparent step.
            self.ticker.steps.look()
        except Exception as error:  # the top of a thread
            self._files.fail(error)

    def _set_back(self, now_ns: int, by_ns: int) -> None:
        """Record that the machine's clock was put back: later events may seem to be earlier than they are."""
        self.log.put(Call(CLOCK, Scope(self.pid, None), now_ns, None, None, {"back_ns": by_ns}), OK, now_ns)

    # Events without a connection

    def broker_died(self, since_ns: int | None = None) -> None:
        """Record that the broker died, or was killed, and has ended. `since_ns`: the earliest possible time."""
        self._note(CRASH, Scope("", None), since_ns)

    def process_died(self, pid: int, since_ns: int | None = None) -> None:
        """Record that a client's process died, and that the broker knows: its messages are released by now."""
        self._note(CRASH, Scope(str(pid), None), since_ns)

    def expired(self, message_id: str, destination: Address) -> None:
        """Record that a message is known to have expired: for a broker that does not report it by itself."""
        scope = Scope(self.pid, None, dest=str(destination))
        self._note(EXPIRE, scope, None, message_id)

    def record_expired(self, expired: ExpiredMessage) -> None:
        """Record a message that a provider reports as expired. Passed in `ConnectRequest` by connections that use this recording."""
        scope = Scope(self.pid, None, dest=str(expired.destination), sub=expired.subscription)
        began_ns = expired.at_ms * NS_PER_MS
        # Providers report the millisecond, so it happened some time within it.
        self.log.put(Call(EXPIRE, scope, began_ns, None, expired), OK, began_ns + NS_PER_MS - 1)

    def branch_ended(self, xid: Xid, *, committed: bool, since_ns: int | None = None) -> None:
        """Record the outcome of a branch of a distributed transaction for which no call was answered.

        After a death a coordinator scans for branches, and settles those it finds by its log: those calls are recorded like others. All other
        branches have ended: committed if its log has decided so, otherwise rolled back, as no other process may commit them. The checker
        believes this, so that a provider that has forgotten a prepared branch is found by the lost messages.
        """
        scope = Scope(self.pid, None)
        self._note(COMMIT if committed else ROLLBACK, scope, since_ns, tx=branch_name(xid))

    def _note(
        self, op: str, scope: Scope, since_ns: int | None, message_id: str | None = None, tx: str | None = None
    ) -> None:
        now_ns = self._now()
        with self:
            self.log.put(Call(op, scope, now_ns if since_ns is None else since_ns, tx, message_id), OK, now_ns)

    def now_ns(self) -> int:
        """Return the present time of the stamps of events, for `since_ns`."""
        return self._now()

    def check(self, *, complete: bool = False) -> Report:
        """Judge all events in the directory, of this and of other processes, up to now; see `pyjms.history.check`.

        This recording does not count as cut off by being open.
        """
        self.flush()
        history = read(self.directory)
        # The own mark exists only because the recording is open; all of its events were flushed just now.
        others = tuple(pid for pid in history.cut_off if pid != self.pid)
        return check(replace(history, cut_off=others), complete=complete)


_lock = Lock()
_shared: dict[tuple[int, Path, bool], Recording] = {}


def record(
    directory: Path | str, *, run: str | None = None, synchronous: bool = False, clock: Clock | None = None
) -> Recording:
    """Return a recording into `directory`, for ``ConnectionFactory(url, record=…)``; use it in a ``with`` statement.

    run: the name of the run in each event; the default is the directory's name.
    synchronous: hand each event to the operating system before the call continues: for processes that are killed.
    clock: stamps events that come from no connection.

    Raises `MissingProviderError` if the extra `history` is not installed.
    """
    return Recording(directory, run=run, synchronous=synchronous, clock=clock)


def recording_at(directory: str, *, synchronous: bool) -> Recording:
    """Return the recording that all factories of this process with ``record=directory`` share."""
    # With the process id: a forked child must not continue with the files and the lock of its parent.
    key = (os.getpid(), Path(directory).absolute(), synchronous)
    with _lock:
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = Recording(key[1], synchronous=synchronous)
        return found
