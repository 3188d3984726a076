"""The story log of one broker: a thread takes events from a buffer and writes them; senders and receivers never wait for it."""

from __future__ import annotations

import json
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.clock import Signal
from pyjms_provider.core.message.trace_events import FACTS, Happening, StoryBuffer
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession
from pyjms_provider.stories.settings import DAY_MS, StoryLevel

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.core.message.trace_events import Told
    from pyjms_provider.stories.settings import StorySettings


_log = logging.getLogger(__name__)
_MOST: Final = 50_000
"""The most steps that wait in memory: some 15 MB."""
_PAUSE_MS: Final = 250
"""The time for which steps are gathered before they are written."""
_CHUNK: Final = 2_000
_GONE_MAX: Final = 1_000
_PATIENCE_S: Final = 10.0


class StoryLog:
    """Safe to use from any thread."""

    def __init__(
        self,
        name: str,
        run_id: str,
        clock: Clock,
        settings: StorySettings,
        who: Callable[[str], Mapping[str, Any] | None],
    ) -> None:
        """Start to write. `who` describes a connection by its id, None: it has ended; it must not wait."""
        self.settings = settings
        self._name = name
        self._clock = clock
        self._who = who
        self._files = SegmentWriter(name, run_id, settings)
        self._some, self._urgent = Signal(), Signal()
        self.buffer = StoryBuffer(
            clock,
            everything=settings.level is StoryLevel.ALL,
            properties=settings.properties,
            most=_MOST,
            on_some=self._hear,
        )
        self._lock = Lock()
        self._flushes: list[Future[None]] = []
        self._gone: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._known: set[str] = set()
        self._lost = 0
        self._is_failing = False
        self._is_closed = False
        self._thread = Thread(target=self._run, name=f"pyjms stories {name}", daemon=True)
        self._thread.start()

    def remember(self, connection_id: str, facts: Mapping[str, Any]) -> None:
        """Remember the description of a connection that has ended: its last steps may not be written yet."""
        # Called by threads that close connections, while the log's thread looks facts up.
        with self._lock:
            self._gone[connection_id] = facts
            while len(self._gone) > _GONE_MAX:
                # A bound: connections that open and close by thousands must not fill memory.
                self._gone.popitem(last=False)

    def flush(self) -> None:
        """Return when all earlier events are written, or after a time limit."""
        done: Future[None] = Future()
        with self._lock:
            # Under the lock: the thread reads this flag together with the list,
            # so no future is added that it never sees.
            if self._is_closed:
                return
            self._flushes.append(done)
        self._some.set()
        self._urgent.set()
        # A query is answered with the contents of the disk, even if the disk hangs.
        with suppress(TimeoutError):
            done.result(_PATIENCE_S)

    def close(self) -> None:
        """Write the remaining events, and end. May be repeated."""
        # First: nothing may be recorded behind the last line.
        self.buffer.end()
        with self._lock:
            self._is_closed = True
        self._some.set()
        self._urgent.set()
        self._thread.join(_PATIENCE_S)

    def _hear(self, waiting: int) -> None:
        # The first event ends the thread's sleep; a buffer that is half full ends its pause as well.
        (self._some if waiting == 1 else self._urgent).set()

    def _run(self) -> None:
        clock = self._clock
        while True:
            with self._lock:
                # Taken before the events are fetched: all events before a `flush` are then in this round.
                flushes, self._flushes = self._flushes, []
                is_closed = self._is_closed
            wrote = self._write_all()
            for done in flushes:
                done.set_result(None)
            # One more round after the close: events may have arrived between the last fetch and the flag.
            if is_closed and not wrote:
                break
            if flushes or is_closed:
                continue
            # Events of the meantime are written together: the file is not called for each step.
            clock.wait(
                self._some if not wrote else self._urgent, None if not wrote else clock.monotonic_ms() + _PAUSE_MS
            )
        self._try(lambda: self._files.end({"ended": True, "at_ms": clock.time_ms()}))

    def _write_all(self) -> bool:
        """Write all waiting events; return whether there were any."""
        events = self.buffer.fetch()
        # In parts, so that a file ends near its limit, and one error loses a part alone.
        for begin in range(0, len(events), _CHUNK):
            chunk = events[begin : begin + _CHUNK]
            if not self._try(lambda chunk=chunk: self._write(chunk)):  # type: ignore[misc]
                self._lost += len(chunk)
        return bool(events)

    def _write(self, events: list[Told]) -> None:
        writer = LineWriter()
        lines = [writer.line(each) for each in events]
        # A new file must be readable alone, as older ones are deleted: it describes its connections again.
        if self._files.begin(self._clock.time_ms(), sum(map(len, lines))):
            self._known.clear()
        self._lost, self.buffer.lost = self._lost + self.buffer.lost, 0
        if self._lost:
            # Separately: a write that fails leaves the count to the next one, and none is reported twice.
            self._files.write([line_of({"missing": self._lost, "at_ms": events[0][1]})])
            self._lost = 0
        self._files.write([*self._described(writer), *lines])

    def _described(self, writer: LineWriter) -> list[str]:
        """Return lines about connections that are not described in this file yet."""
        found: list[str] = []
        for connection_id in writer.connections:
            if connection_id in self._known:
                continue
            with self._lock:
                facts = self._gone.get(connection_id)
            # Ended connections first: the broker knows only those that are open.
            facts = facts or self._who(connection_id)
            if facts is not None:
                # Only when facts were found, so that a later line may still describe the connection.
                self._known.add(connection_id)
                found.append(line_of({"connection": connection_id, **facts}))
        return found

    def _try(self, act: Callable[[], None]) -> bool:
        """Run `act`; log the first failure in a row. Events that cannot be written are lost, and counted as missing."""
        try:
            act()
        except OSError as error:
            # The next attempt begins a new file: a failed write may have left half a line in this one.
            self._files.close()
            # Once in a row: a full disk would otherwise fill the broker's own log as well.
            if not self._is_failing:
                self._is_failing = True
                _log.error(
                    "PYJMS-STORY-1 broker %s cannot write the stories of messages in %s, and goes on without: %s",
                    self._name,
                    self.settings.directory,
                    error,
                )
            return False
        if self._is_failing:
            self._is_failing = False
            _log.warning("PYJMS-STORY-2 broker %s writes the stories of messages again", self._name)
        return True


_WORDS: Final = {happening: f'"{happening.value}"' for happening in Happening}
_FACTS: Final = {happening: tuple((name, f'"{name}":') for name in names) for happening, names in FACTS.items()}
_DELIVERED: Final = Happening.DELIVERED
_ACKNOWLEDGED: Final = Happening.ACKNOWLEDGED
_NUMBERS: Final = frozenset({"expiration_ms", "delivery"})


class LineWriter:
    """Formats the events of one write as lines. Belongs to one thread."""

    def __init__(self) -> None:
        self.connections: set[str] = set()
        """The connections that the lines name."""
        self._known: dict[object, str] = {}
        """The text of sessions, consumers, connections and places in a line: there are few of them for many lines."""

    def line(self, event: Told) -> str:
        """Return the line, with its end."""
        number, at_ms, happening, where, facts = event
        known = self._known
        # Most lines are deliveries and acknowledgements, so these are made without a loop.
        if happening is _DELIVERED or happening is _ACKNOWLEDGED:
            # most lines are these, so they are made without a loop
            place = known.get(where) or self._word("where", where)
            holder = facts[0] if happening is _ACKNOWLEDGED else facts[1]
            if holder is not None:
                session = known.get(holder) or self._word("session", holder)
                if happening is _ACKNOWLEDGED:
                    return f'[{number},{at_ms},"acknowledged",{place},{{"session":{session}}}]\n'
                if facts[2] is not None:
                    consumer = known.get(facts[2]) or self._word("consumer", facts[2])
                    facts_text = f'"delivery":{facts[0]},"session":{session},"consumer":{consumer}'
                    return f'[{number},{at_ms},"delivered",{place},{{{facts_text}}}]\n'
        parts: list[str] = []
        for (name, label), value in zip(_FACTS[happening], facts, strict=False):
            if not value:
                continue
            if name == "message_id":
                parts.append(label + quoted(value))
            elif name in _NUMBERS:
                parts.append(f"{label}{value}")
            elif value is True:
                parts.append(label + "true")
            elif name == "properties":
                # Properties may have values that JSON does not know; `default=str`
                # keeps those from ending the thread's write.
                parts.append(label + json.dumps(dict(value), default=str))
            elif name == "correlation_id":
                parts.append(label + quoted(correlation_text(value)))
            else:
                parts.append(label + (known.get(value) or self._word(name, value)))
        place = known.get(where) or self._word("where", where)
        return f"[{number},{at_ms},{_WORDS[happening]},{place},{{{','.join(parts)}}}]\n"

    def _word(self, name: str, value: Any) -> str:
        """Return the text of a name in a line, and collect the connection that it names."""
        if isinstance(value, Consumer):
            word = str(value.number)
        else:
            text = value.receiver_id if isinstance(value, ConsumerSession) else value
            word = quoted(text)
            if name == "connection":
                self.connections.add(text)
            elif name == "session":
                self.connections.add(text.rpartition("/")[0])
        # There are too many reasons and transactions to remember each of them.
        if name not in {"reason", "transaction"}:
            self._known[value] = word
        return word


def line_of(facts: Mapping[str, Any]) -> str:
    """Return a line of facts about many messages, with its end."""
    return json.dumps(facts, separators=(",", ":"), default=str) + "\n"


def correlation_text(value: str | bytes) -> str:
    """Return a correlation id as stories show it: a native one as hexadecimal digits."""
    return value if isinstance(value, str) else value.hex()


def read_line(line: bytes) -> list[Any] | dict[str, Any] | None:
    """Return the contents of a line; None: it is torn, or damaged."""
    try:
        found = json.loads(line)
    # The last line of a broker that died is torn; all lines before it are good.
    except ValueError:
        return None
    if isinstance(found, dict):
        return found
    is_whole = isinstance(found, list) and len(found) == 5 and isinstance(found[4], dict)
    return found if is_whole else None


def searched(text: str) -> bytes:
    """Return the form of a text in a line, as bytes."""
    # ASCII with escapes, like the lines: so a search in bytes needs no decoding.
    return quoted(text).encode("ascii")


_NAME: Final = re.compile(r"([0-9]{13})-([0-9a-f]{1,32})-([0-9]{6})\.story")
_PARTS: Final = 8
"""The total is divided among so many files, as files are deleted as a whole."""
_SMALLEST: Final = 16_384
_LONGEST_MS: Final = DAY_MS
FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Segment:
    """One file."""

    begun_ms: int
    run_id: str
    number: int
    path: Path


def segments_in(directory: Path) -> list[Segment]:
    """Return the files of a story log, oldest first; none if there is no such directory. Raises `OSError`."""
    try:
        paths = list(directory.iterdir())
    except FileNotFoundError:
        return []
    return sorted(
        Segment(begun_ms=int(match[1]), run_id=match[2], number=int(match[3]), path=path)
        for path in paths
        # Other files in the directory are the operator's, and are neither read nor deleted.
        if (match := _NAME.fullmatch(path.name))
    )


class SegmentWriter:
    """Writes the files of one run of a broker. Belongs to one thread; every call may raise `OSError`."""

    def __init__(self, name: str, run_id: str, settings: StorySettings) -> None:
        self._name = name
        self._run_id = run_id
        self._settings = settings
        self._limit = max(_SMALLEST, settings.total_bytes // _PARTS)
        self._file: FileIO | None = None
        self._size = 0
        self._begun_ms = 0
        self._number = 0

    def begin(self, now_ms: int, more: int) -> bool:
        """Open a file with room for `more` bytes, if the present one has none; return whether it is a new one."""
        is_open = self._file is not None
        # A new file at least once a day: files are deleted as a whole, and their age must be known.
        if is_open and self._size + more <= self._limit and now_ms - self._begun_ms < _LONGEST_MS:
            return False
        self.close()
        directory = self._settings.directory
        # Made each time: an operator may have removed it while the broker runs. Properties of messages are private.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = segments_in(directory)
        # Even when the clock was put back, the order of the names is the order of the files.
        self._begun_ms = max(now_ms, there[-1].begun_ms + 1) if there else now_ms
        # Before the new file is made, so that the total stays within its limit.
        self._prune(there, now_ms)
        self._number += 1
        path = directory / f"{self._begun_ms:013d}-{self._run_id}-{self._number:06d}.story"
        # O_EXCL: a file of that name would be another run's.
        self._file = FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600), "a")
        self._size = 0
        try:
            self.write([line_of({"pyjms_story": FORMAT, "broker": self._name, "run": self._run_id, "at_ms": now_ms})])
        except OSError:
            # Otherwise a full disk would be filled with names of empty files.
            path.unlink()
            raise
        return True

    def write(self, lines: Iterable[str]) -> None:
        """Add lines to the open file, in one call to the system."""
        assert self._file is not None
        data = "".join(lines).encode("ascii")
        view = memoryview(data)
        # An unbuffered file may take only a part at once.
        while view:
            view = view[self._file.write(view) or 0 :]
        self._size += len(data)

    def close(self) -> None:
        """Close the open file. May be repeated."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def end(self, facts: dict[str, Any]) -> None:
        """Write the last line of a run that ends in order."""
        if self._file is not None:
            self.write([line_of(facts)])
        self.close()

    def _prune(self, there: list[Segment], now_ms: int) -> None:
        """Remove files that are too old, or too many."""
        oldest_ms = now_ms - self._settings.days * DAY_MS
        # An operator may delete a file meanwhile.
        sizes = [each.path.stat().st_size if each.path.exists() else 0 for each in there]
        # The file that is about to be written counts as full.
        total = sum(sizes) + self._limit
        for number, each in enumerate(there):
            # A file ends when the next one begins: its age is that of its last line.
            ended_ms = there[number + 1].begun_ms if number + 1 < len(there) else now_ms
            if total <= self._settings.total_bytes and ended_ms >= oldest_ms:
                break
            total -= sizes[number]
            each.path.unlink(missing_ok=True)
