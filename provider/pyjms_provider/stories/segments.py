"""The files of a story log: each is written once, from its beginning to its end, and the oldest go first.

Nothing is forced to the disk: what the process has handed to the system survives the process, not the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.stories.records import line_of
from pyjms_provider.stories.settings import DAY_MS

if TYPE_CHECKING:
    from pyjms_provider.stories.settings import StorySettings

_NAME: Final = re.compile(r"([0-9]{13})-([0-9a-f]{1,32})-([0-9]{6})\.story")
_PARTS: Final = 8
"""The total is divided into so many files, as a whole file goes at a time."""
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
        """Make sure that a file is open that takes so many bytes more; return whether it is a new one."""
        is_open = self._file is not None
        if is_open and self._size + more <= self._limit and now_ms - self._begun_ms < _LONGEST_MS:
            return False
        self.close()
        directory = self._settings.directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = segments_in(directory)
        # Also when the clock was set back, the order of the names is the order of the files.
        self._begun_ms = max(now_ms, there[-1].begun_ms + 1) if there else now_ms
        self._prune(there, now_ms)
        self._number += 1
        path = directory / f"{self._begun_ms:013d}-{self._run_id}-{self._number:06d}.story"
        self._file = FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600), "a")
        self._size = 0
        try:
            self.write([line_of({"pyjms_story": FORMAT, "broker": self._name, "run": self._run_id, "at_ms": now_ms})])
        except OSError:
            path.unlink()  # else a full disk would be filled with names
            raise
        return True

    def write(self, lines: Iterable[str]) -> None:
        """Add lines to the open file, in one call to the system."""
        assert self._file is not None
        data = "".join(lines).encode("ascii")
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]
        self._size += len(data)

    def close(self) -> None:
        """Let go of the open file. May be repeated."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def end(self, facts: dict[str, Any]) -> None:
        """Write the last line of a run that ends in an orderly way."""
        if self._file is not None:
            self.write([line_of(facts)])
        self.close()

    def _prune(self, there: list[Segment], now_ms: int) -> None:
        """Remove files that are too old, or too many."""
        oldest_ms = now_ms - self._settings.days * DAY_MS
        sizes = [each.path.stat().st_size if each.path.exists() else 0 for each in there]
        total = sum(sizes) + self._limit
        for number, each in enumerate(there):
            ended_ms = there[number + 1].begun_ms if number + 1 < len(there) else now_ms
            if total <= self._settings.total_bytes and ended_ms >= oldest_ms:
                break
            total -= sizes[number]
            each.path.unlink(missing_ok=True)
