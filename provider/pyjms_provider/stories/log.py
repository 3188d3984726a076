"""The story log of one broker: a thread fetches what was told, and writes it down; who sends and receives never waits for it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.clock import Signal
from pyjms_provider.core.message.trace_events import StoryBuffer
from pyjms_provider.stories.records import LineWriter, line_of
from pyjms_provider.stories.segments import SegmentWriter
from pyjms_provider.stories.settings import StoryLevel

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.core.message.trace_events import Told
    from pyjms_provider.stories.settings import StorySettings

_log = logging.getLogger(__name__)
_MOST: Final = 50_000
"""So many steps wait in memory at most: some 15 MB."""
_PAUSE_MS: Final = 250
"""So long steps are gathered before they are written."""
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
        """Start to write. `who` describes a connection by its id, None: it has gone; it must not wait."""
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
        """Keep in mind who a connection was that has gone: its last steps may not be written yet."""
        with self._lock:
            self._gone[connection_id] = facts
            while len(self._gone) > _GONE_MAX:
                self._gone.popitem(last=False)

    def flush(self) -> None:
        """Return when all that was told before is written, or it took too long."""
        done: Future[None] = Future()
        with self._lock:
            if self._is_closed:
                return
            self._flushes.append(done)
        self._some.set()
        self._urgent.set()
        with suppress(TimeoutError):
            done.result(_PATIENCE_S)

    def close(self) -> None:
        """Write what is left, and end. May be repeated."""
        self.buffer.end()
        with self._lock:
            self._is_closed = True
        self._some.set()
        self._urgent.set()
        self._thread.join(_PATIENCE_S)

    def _hear(self, waiting: int) -> None:
        (self._some if waiting == 1 else self._urgent).set()

    def _run(self) -> None:
        clock = self._clock
        while True:
            with self._lock:
                flushes, self._flushes = self._flushes, []
                is_closed = self._is_closed
            wrote = self._write_all()
            for done in flushes:
                done.set_result(None)
            if is_closed and not wrote:
                break
            if flushes or is_closed:
                continue
            # What comes meanwhile is written together: a file is not called for each step.
            clock.wait(
                self._some if not wrote else self._urgent, None if not wrote else clock.monotonic_ms() + _PAUSE_MS
            )
        self._try(lambda: self._files.end({"ended": True, "at_ms": clock.time_ms()}))

    def _write_all(self) -> bool:
        """Write what there is; return whether there was anything."""
        told = self.buffer.fetch()
        for begin in range(0, len(told), _CHUNK):
            chunk = told[begin : begin + _CHUNK]
            if not self._try(lambda chunk=chunk: self._write(chunk)):  # type: ignore[misc]
                self._lost += len(chunk)
        return bool(told)

    def _write(self, told: list[Told]) -> None:
        writer = LineWriter()
        lines = [writer.line(each) for each in told]
        if self._files.begin(self._clock.time_ms(), sum(map(len, lines))):
            self._known.clear()
        missing, self.buffer.lost = self.buffer.lost + self._lost, 0
        if missing:
            lines.insert(0, line_of({"missing": missing, "at_ms": told[0][1]}))
        self._lost = 0
        self._files.write([*self._described(writer), *lines])

    def _described(self, writer: LineWriter) -> list[str]:
        """Return lines about connections that this file does not know yet."""
        found: list[str] = []
        for connection_id in writer.connections:
            if connection_id in self._known:
                continue
            with self._lock:
                facts = self._gone.get(connection_id)
            facts = facts or self._who(connection_id)
            if facts is not None:
                self._known.add(connection_id)
                found.append(line_of({"connection": connection_id, **facts}))
        return found

    def _try(self, act: Callable[[], None]) -> bool:
        """Do something with files; tell of the first failure in a row. What cannot be written is lost, and noted as missing."""
        try:
            act()
        except OSError as error:
            self._files.close()
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
