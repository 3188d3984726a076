"""The journal of a synchronous recording: lines of JSON, each handed to the operating system before the call continues.

Data handed to the operating system survives the death of the process. A journal holds the events since the last Parquet
file; lines are

- ``{"run": …, "node": …, "columns": […]}``, the first;
- ``[serial, [row], …]``, a call that began, or a delivery;
``[serial, ok, t1]``, the outcome of that call.

A call without an end is `unknown`. A line that was cut short, by the death of the process or a full disk, is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pyjms.history.events import COLUMNS, Event
from pyjms.history.rows import OK_AT, ROW, T1_AT, Row, column

# Made once: json.dumps with options makes an encoder for each call.
_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


class JournalFile:
    """One journal being written; the caller ensures that one thread writes at a time."""

    __slots__ = ("_descriptor", "_is_torn", "path")

    def __init__(self, path: Path, run: str, node: str) -> None:
        """Begin a file. Raises `OSError` when that fails; then no file is left."""
        self.path = path
        self._is_torn = False
        # A descriptor and not a Python file: a buffer in this process would be lost when it is killed.
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._write({"run": run, "node": node, "columns": ROW})
        except OSError:
            self.close()
            self.remove()
            raise

    def begin(self, serial: int, rows: Sequence[Row]) -> None:
        """Write the begin of a call, or an event that is over."""
        self._write([serial, *rows])

    def end(self, serial: int, ok: str, t1: int) -> None:
        """Write the end of a call."""
        self._write([serial, ok, t1])

    def close(self) -> None:
        """Close the file, and leave it as it is."""
        with suppress(OSError):
            os.close(self._descriptor)

    def remove(self) -> None:
        """Remove the file, which is no longer needed. One that cannot be removed does no harm."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _write(self, line: object) -> None:
        text = _encode(line) + "\n"
        rest = memoryview((f"\n{text}" if self._is_torn else text).encode("ascii"))
        self._is_torn = True  # until all of it is written: a torn line must not spoil the next
        while rest:
            # A write may take only a part, as on a disk that is nearly full.
            rest = rest[os.write(self._descriptor, rest) :]
        self._is_torn = False


def read_journals(paths: Iterable[Path]) -> Iterator[Event]:
    """Yield the events of one recording's journals, given in order; a call may begin in one and end in the next."""
    calls: dict[int, tuple[dict[str, object], list[Row]]] = {}
    for path in paths:
        head: dict[str, object] = {}
        for line in path.read_bytes().split(b"\n"):
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # cut short
            if isinstance(entry, dict):
                head = entry
            elif isinstance(entry[1], list):
                # A call under way is begun again in the next journal, with the same rows: the first entry counts.
                calls.setdefault(entry[0], (head, entry[1:]))
            elif entry[0] in calls:
                for row in calls[entry[0]][1]:
                    row[OK_AT], row[T1_AT] = entry[1:]
    # Serials are given under the log's lock, so they are the order in which the calls began.
    for serial in sorted(calls):
        head, rows = calls[serial]
        yield from (_event(head, row) for row in rows)


def _event(head: dict[str, object], row: Row) -> Event:
    columns = head["columns"]
    assert isinstance(columns, list)
    values: dict[str, object] = {"run": head["run"], "node": head["node"], **dict(zip(columns, row, strict=True))}
    return Event(*(column(values.get(name)) for name in COLUMNS))  # type: ignore[arg-type]
