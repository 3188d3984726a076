"""A recording: where the events of this process go, and the thread that writes them.

Two ways of recording, one interface:

- *Buffered* (`BufferedLog`): the caller's thread appends a tuple; a thread of the recording writes a Parquet file every
  second while there is something, and sooner when the buffer is full. Who dies without closing loses the last second.
- *Synchronous* (`SynchronousLog`): the caller's thread hands a line of the journal to the operating system before its
  call goes on. Nothing is lost when the process is killed; the thread turns full journals into Parquet files.

A recording never disturbs who is recorded: when it cannot write, it says so in the log, keeps the mark of a recording
that was cut off, and the client goes on.
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
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from pyjms.history.check import check
from pyjms.history.events import CRASH, EXPIRE, OK
from pyjms.history.findings import Report
from pyjms.history.journal import JournalFile
from pyjms.history.missing import parquet
from pyjms.history.reading import read
from pyjms.history.rows import OK_AT, T1_AT, Call, Digests, Row, Scope, rows_of
from pyjms.history.stamps import Ticker
from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.envelope import Address

__all__ = ["BUFFER_EVENTS", "INTERVAL_S", "Recording", "record", "recording_at"]

INTERVAL_S = 1.0
"""So much a buffered recording loses at most when its process is killed."""
BUFFER_EVENTS = 20_000
"""So many events are kept in memory at most; who appends one more writes them."""

_log = logging.getLogger("pyjms.history")


class _Files:
    """The names and the writing of one recording's files."""

    def __init__(self, directory: Path, run: str) -> None:
        self.directory = directory
        self.run = run
        self.node = platform.node() or "localhost"
        self._name = f"{self.node}-{os.getpid()}-{os.urandom(4).hex()}"
        self._numbers = count(1)
        self._mark = directory / f"_{self._name}.open"
        self._parquet = parquet()
        self.is_broken = False

    def next_name(self) -> str:
        """Return a name for the next file."""
        return f"{self._name}-{next(self._numbers):06d}"

    def journal(self, name: str) -> JournalFile:
        """Begin a journal."""
        return JournalFile(self.directory / f"_{name}.journal", self.run, self.node)

    def write(self, name: str, rows: list[Row]) -> None:
        """Write a Parquet file."""
        self._parquet.write_rows(self.directory / f"{name}.parquet", rows, self.run, self.node)

    def mark(self) -> None:
        """Leave a mark that stays if the process dies: a buffered recording then lacks its last moments."""
        self._mark.write_text(json.dumps({"run": self.run, "node": self.node, "pid": str(os.getpid())}))

    def unmark(self) -> None:
        """Take the mark away: all is written. It stays when something could not be written."""
        if not self.is_broken:
            self._mark.unlink(missing_ok=True)

    def fail(self, error: OSError) -> None:
        """Say that events are missing, once."""
        if not self.is_broken:
            self.is_broken = True
            _log.error(
                "the recording in %s lacks events from now on, as it cannot be written: %s", self.directory, error
            )


class _Log(ABC):
    """How events get to the files."""

    @abstractmethod
    def begin(self, call: Call) -> object:
        """Note a call that begins; return what `end` wants."""

    @abstractmethod
    def end(self, begun: object, ok: str, t1: int) -> None:
        """Note how it ended."""

    @abstractmethod
    def put(self, call: Call, ok: str, t1: int) -> None:
        """Note what has begun and ended."""

    @abstractmethod
    def open(self) -> None:
        """Get ready for events."""

    @abstractmethod
    def flush(self) -> None:
        """Write all that has ended to Parquet."""

    @abstractmethod
    def seal(self) -> None:
        """Write everything; nothing comes until `open`."""


class BufferedLog(_Log):
    """Events wait in memory for the writer."""

    def __init__(self, files: _Files, wake: Flag) -> None:
        self._files = files
        self._wake = wake
        self._digests = Digests()
        self._buffer: deque[tuple[Call, str, int]] = deque()
        self._turn = Lock()
        """Held by the one thread that writes; another that finds the buffer full waits for it, and so is slowed down."""

    def begin(self, call: Call) -> Call:
        return call

    def end(self, begun: object, ok: str, t1: int) -> None:
        assert isinstance(begun, Call)
        self.put(begun, ok, t1)

    def put(self, call: Call, ok: str, t1: int) -> None:
        buffer = self._buffer
        buffer.append((call, ok, t1))
        if not self._wake.is_set():
            self._wake.set()
        if len(buffer) >= BUFFER_EVENTS:
            self.flush()

    def open(self) -> None:
        self._files.mark()

    def flush(self) -> None:
        with self._turn:
            while self._buffer:
                self._write()

    def _write(self) -> None:
        rows: list[Row] = []
        for _ in range(min(len(self._buffer), BUFFER_EVENTS)):
            rows += rows_of(self._digests, *self._buffer.popleft())
        if not rows:
            return
        try:
            self._files.write(self._files.next_name(), rows)
        except OSError as error:
            self._files.fail(error)

    def seal(self) -> None:
        self.flush()
        self._files.unmark()


class SynchronousLog(_Log):
    """Events go to the journal at once, and wait in memory for the Parquet file that replaces it."""

    def __init__(self, files: _Files, wake: Flag) -> None:
        self._files = files
        self._wake = wake
        self._digests = Digests()
        self._lock = Lock()
        self._sealing = Lock()
        self._serials = count(1)
        self._name = ""
        self._journal: JournalFile | None = None
        self._pending: dict[int, list[Row]] = {}
        self._rows: list[Row] = []

    def begin(self, call: Call) -> int:
        with self._lock:
            serial, rows = next(self._serials), rows_of(self._digests, call)
            self._pending[serial] = rows
            if self._journal is not None:
                self._try(lambda journal: journal.begin(serial, rows))
            return serial

    def end(self, begun: object, ok: str, t1: int) -> None:
        assert isinstance(begun, int)
        with self._lock:
            rows = self._pending.pop(begun)
            for row in rows:
                row[OK_AT], row[T1_AT] = ok, t1
            self._rows += rows
            self._try(lambda journal: journal.end(begun, ok, t1))
            is_full = len(self._rows) >= BUFFER_EVENTS
        if is_full:
            self._wake.set()

    def put(self, call: Call, ok: str, t1: int) -> None:
        with self._lock:
            serial, rows = next(self._serials), rows_of(self._digests, call, ok, t1)
            self._rows += rows
            self._try(lambda journal: journal.begin(serial, rows))
            is_full = len(self._rows) >= BUFFER_EVENTS
        if is_full:
            self._wake.set()

    def _try(self, write: Callable[[JournalFile], None]) -> None:
        journal = self._journal
        if journal is None:
            return
        try:
            write(journal)
        except OSError as error:
            self._files.fail(error)
            self._files.mark()

    def open(self) -> None:
        with self._lock:
            if self._journal is None:
                self._next_journal()

    def flush(self) -> None:
        self._turn_over(self._next_journal)

    def seal(self) -> None:
        self._turn_over(self._no_journal)

    def _turn_over(self, change: Callable[[], None]) -> None:
        """Exchange the journal, and replace the old one by a Parquet file. A reader prefers the file to the journal."""
        with self._sealing:
            with self._lock:
                name, journal, rows = self._name, self._journal, self._rows
                if journal is None:
                    return
                self._rows = []
                change()
            journal.close()
            if rows:
                try:
                    self._files.write(name, rows)
                except OSError as error:
                    self._files.fail(error)
                    return  # the journal stays, and is read in place of the file
            journal.path.unlink(missing_ok=True)

    def _next_journal(self) -> None:
        self._name = self._files.next_name()
        self._journal = self._files.journal(self._name)
        for serial, rows in self._pending.items():
            self._journal.begin(serial, rows)

    def _no_journal(self) -> None:
        if self._pending:
            self._next_journal()  # calls of other threads are under way still
        else:
            self._journal = None


class Recording:
    """What one process records in one directory, as long as anybody uses it. Any thread.

    As a context manager it is in use until the end of the block; each recorded connection uses it until closed.
    """

    def __init__(
        self, directory: Path | str, *, run: str | None = None, synchronous: bool = False, clock: Clock | None = None
    ) -> None:
        """Make the directory if need be.

        `run` names the run, else the directory's name does. `synchronous`: see the module. `clock` stamps what does not
        come from a connection; the default is the system's. Raises `MissingProviderError` without pyarrow.
        """
        self.directory = Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.ticker = Ticker()
        self.pid = str(os.getpid())
        self.is_synchronous = synchronous
        self._files = _Files(self.directory, run or self.directory.name)
        self._now = self.ticker.reader(clock or SystemClock())
        self._events = Flag()
        self._end = Flag()
        self._lock = Lock()
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
        """Begin to use it."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            self._end.clear()
            self.log.open()
            self._thread = Thread(target=self._run, name=f"pyjms-history-{self.directory.name}", daemon=True)
            self._thread.start()
            atexit.register(self._seal)

    def release(self) -> None:
        """End one use; the last one writes everything and ends the thread."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            thread, self._thread = self._thread, None
        if thread is not None:
            self._end.set()
            self._events.set()
            thread.join()
        self._seal()
        atexit.unregister(self._seal)

    def flush(self) -> None:
        """Write all that has happened so far to Parquet files."""
        if self._is_ours():
            self.log.flush()

    def _seal(self) -> None:
        if self._is_ours():
            self.log.seal()

    def _is_ours(self) -> bool:
        """Say whether this is no child that was forked: the files, and what waits to be written, are its parent's."""
        return str(os.getpid()) == self.pid

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                self._events.wait()
                self._events.clear()
                if not self.is_synchronous:
                    self._end.wait(INTERVAL_S)  # let more come, for one file
                self.log.flush()
        except Exception:  # the top of a thread
            _log.exception("the recording in %s ends because of an unexpected error", self.directory)

    # What no connection sees

    def broker_died(self, since_ns: int | None = None) -> None:
        """Note that the broker died, or was killed, and is no more. `since_ns`: when it may have happened at the earliest."""
        self._note(CRASH, Scope("", None), since_ns)

    def process_died(self, pid: int, since_ns: int | None = None) -> None:
        """Note that a client's process died, and that the broker knows: what it held is given back by now."""
        self._note(CRASH, Scope(str(pid), None), since_ns)

    def expired(self, message_id: str, destination: Address) -> None:
        """Note that a message is known to have expired, for instance from a broker's event."""
        scope = Scope(self.pid, None, dest=str(destination))
        self._note(EXPIRE, scope, None, message_id)

    def _note(self, op: str, scope: Scope, since_ns: int | None, message_id: str | None = None) -> None:
        now_ns = self._now()
        with self:
            self.log.put(Call(op, scope, now_ns if since_ns is None else since_ns, None, message_id), OK, now_ns)

    def now_ns(self) -> int:
        """Return the time that events are stamped with, for `since_ns`."""
        return self._now()

    def check(self, *, complete: bool = False) -> Report:
        """Judge all that lies in the directory, of this and of other processes, up to now; see `pyjms.history.check`.

        This recording does not count as cut off by being open.
        """
        self.flush()
        history = read(self.directory)
        others = tuple(pid for pid in history.cut_off if pid != self.pid)
        return check(replace(history, cut_off=others), complete=complete)


_lock = Lock()
_shared: dict[tuple[int, Path, bool], Recording] = {}


def record(
    directory: Path | str, *, run: str | None = None, synchronous: bool = False, clock: Clock | None = None
) -> Recording:
    """Return a recording into `directory`, for ``ConnectionFactory(url, record=…)``; use it in a ``with`` statement.

    run: the name of the run in each event; the default is the directory's name.
    synchronous: hand each event to the operating system before the call goes on: for processes that are killed.
    clock: what stamps events that come from no connection.

    Raises `MissingProviderError` if the extra `history` is not installed.
    """
    return Recording(directory, run=run, synchronous=synchronous, clock=clock)


def recording_at(directory: str, *, synchronous: bool) -> Recording:
    """Return the recording that all factories of this process with ``record=directory`` share."""
    key = (os.getpid(), Path(directory).absolute(), synchronous)
    with _lock:
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = Recording(key[1], synchronous=synchronous)
        return found
