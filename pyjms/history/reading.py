"""Histories from directories: the Parquet files, the journals that no Parquet file has replaced yet, and marks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from pyjms.history.events import OPERATIONS, OUTCOMES, Event, History
from pyjms.history.journal import read_journals
from pyjms.spi.errors import MissingProviderError, ProviderError

_NUMBER_LENGTH = len("-000001")


class HistoryError(ProviderError):
    """A directory holds no history, or a file of it cannot be read."""

    code = "PYJMS-HISTORY"


def read(*directories: Path | str) -> History:
    """Return the history in `directories` and the folders below them, which are taken as one.

    A recording in progress may be read: events that it has not written yet are missing, and it counts as cut off.
    Raises `HistoryError` when there is no history, or a file cannot be read; `MissingProviderError` without pyarrow.
    """
    events: list[Event] = []
    cut_off: list[str] = []
    found = False
    for directory in map(Path, directories):
        files = recorded_files(directory)
        # The files are listed first: the other order could find a journal and then the file that has replaced it, and
        # read its events twice.
        journals = _journals(directory, {path.stem for path in files})
        found = found or bool(files or journals)
        events += (event for path in files for event in _checked(path, parquet().read_events(path)))
        for paths in journals.values():
            events += _checked(paths[0], read_journals(paths))
        cut_off += unclosed(directory)
    if not found:
        raise HistoryError(f"there is no recorded history in {', '.join(map(str, directories)) or 'no directory'}")
    return History(events=tuple(events), cut_off=tuple(cut_off))


def recorded_files(directory: Path) -> list[Path]:
    """Return the Parquet files below `directory`, hidden ones too: skipping a recording would look like lost messages."""
    return sorted(path for path in directory.rglob("*.parquet") if path.is_file()) if directory.is_dir() else []


def check_files(paths: Iterable[Path]) -> None:
    """Check the end of each Parquet file, without reading its events. Raises `HistoryError` that names one that is no history."""
    for path in paths:
        try:
            parquet().check_file(path)
        except (OSError, ValueError) as error:
            raise _not_read(path, error) from error


def open_journals(directory: Path, files: Iterable[Path]) -> Iterator[Event]:
    """Yield the events of the journals below `directory` that none of its Parquet `files` has replaced. Raises `HistoryError`.

    files: a listing made before; a file that appears later has the events of its journal.
    """
    for paths in _journals(directory, {path.stem for path in files}).values():
        yield from _checked(paths[0], read_journals(paths))


def unclosed(directory: Path) -> tuple[str, ...]:
    """Return the processes below `directory` whose recordings are open, were cut off, or could not write."""
    return tuple(map(_owner, sorted(directory.rglob("_*.open"))))


def _owner(mark: Path) -> str:
    """Return the process that left a mark. If the disk was full, only the mark's name, `_NODE-PID-ID.open`, tells it."""
    try:
        return str(json.loads(mark.read_bytes())["pid"])
    except (OSError, ValueError, TypeError, LookupError):
        # From the right, as the name of a machine may have hyphens.
        return mark.stem.rsplit("-", 2)[-2] if mark.stem.count("-") > 1 else mark.stem


def _journals(directory: Path, replaced: set[str]) -> dict[str, list[Path]]:
    """Return the journals by recording, each in order, without those that a Parquet file has replaced."""
    found: dict[str, list[Path]] = {}
    for path in sorted(directory.rglob("_*.journal")) if directory.is_dir() else ():
        name = path.stem[1:]
        if name not in replaced:
            # Together by recording: a call may begin in one journal and end in the next.
            found.setdefault(f"{path.parent}/{name[:-_NUMBER_LENGTH]}", []).append(path)
    return found


def _checked(path: Path, events: Iterable[Event]) -> Iterator[Event]:
    try:
        for event in events:
            if event.op not in OPERATIONS or event.ok not in OUTCOMES:
                raise HistoryError(f"{path} is no history: it has an event {event.op!r} that ended {event.ok!r}")
            # Every rule compares times, so one event without would end the check with a TypeError.
            if type(event.t0) is not int:
                raise HistoryError(f"{path} is no history: it has an event {event.op!r} without a time")
            yield event
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise _not_read(path, error) from error


def _not_read(path: Path, error: Exception) -> HistoryError:
    return HistoryError(f"{path} cannot be read as a history: {error}")


def parquet() -> ModuleType:
    """Return `pyjms.history.parquet`. Raises `MissingProviderError` that names what to install."""
    try:
        from pyjms.history import parquet as found
    except ImportError as error:
        raise MissingProviderError(
            f"recorded histories need pyarrow ({error}); install it with: pip install 'pyjms-messaging[history]'"
        ) from error
    return found
