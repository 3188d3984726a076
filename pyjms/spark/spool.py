"""A spool on disk: the frames of a segment, the marks beside them, and the ids of spooled messages.

A spool numbers the messages of a message system that cannot repeat them. They are written and synchronised first, and
then acknowledged: after a crash in between they are redelivered, and recognised by JMSMessageID. So the spool stores
the ids of exactly those messages whose acknowledgement is not known to have arrived: a small set.
"""

from __future__ import annotations

import json
import os
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from pyjms.spark.options import SpoolError
from pyjms.spi.clock import Clock, Signal

_HEAD = struct.Struct(">4sIQII")
_MAGIC = b"PJS1"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Messages that were written together."""

    first: int
    count: int
    data: bytes
    """One Arrow record batch as an IPC stream."""

    @property
    def last(self) -> int:
        """The number of its last message."""
        return self.first + self.count - 1


def pack(frame: Frame) -> bytes:
    """Return a frame in the format of a segment."""
    # The checksum covers numbers and length, too: a frame with a damaged head must not pass for messages of other
    # numbers.
    rest = struct.pack(">QII", frame.first, frame.count, len(frame.data))
    return (
        _HEAD.pack(_MAGIC, zlib.crc32(frame.data, zlib.crc32(rest)), frame.first, frame.count, len(frame.data))
        + frame.data
    )


def frames_of(segment: bytes) -> Iterator[tuple[Frame, int]]:
    """Yield the frames of a segment, each with the offset of its end; the remains of a write that a crash interrupted
    are ignored.
    """
    place = 0
    while len(segment) - place >= _HEAD.size:
        magic, check, first, count, length = _HEAD.unpack_from(segment, place)
        data = segment[place + _HEAD.size : place + _HEAD.size + length]
        rest = struct.pack(">QII", first, count, length)
        # The system may write the pages of a frame in any order, so even a frame of full length may be damaged.
        if magic != _MAGIC or len(data) < length or zlib.crc32(data, zlib.crc32(rest)) != check:
            return
        place += _HEAD.size + length
        yield Frame(first=first, count=count, data=data), place


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The state that a spool stores beside its segments."""

    generation: str
    low: int = 0
    """Messages up to this number are done; their segments may have been deleted."""
    settled: int = 0
    """Messages up to this number were acknowledged, except those that `unsettled` names."""
    unsettled: frozenset[str] = frozenset()

    def to_json(self) -> str:
        """Return them in the form of a file."""
        told = {
            "v": VERSION,
            "generation": self.generation,
            "low": self.low,
            "settled": self.settled,
            # JSON has no sets; sorting makes equal marks equal files.
            "unsettled": sorted(self.unsettled),
        }
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str) -> Marks:
        """Read the result of `to_json`. Raises `SpoolError`."""
        try:
            told = json.loads(text)
            if told["v"] != VERSION:
                raise SpoolError(
                    f"the spool is of version {told['v']}, and this is {VERSION}: run the pyjms that wrote it"
                )
            return cls(
                generation=str(told["generation"]),
                low=int(told["low"]),
                settled=int(told["settled"]),
                unsettled=frozenset(map(str, told["unsettled"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SpoolError(
                f"the file marks.json of the spool is damaged ({error}); restore it, or begin with an empty folder"
            ) from error


@dataclass(slots=True)
class Seen:
    """The spooled messages that may be redelivered. For one thread."""

    ids: set[str] = field(default_factory=set)

    def is_repeated(self, message_id: str | None) -> bool:
        """Say whether a received message is already spooled."""
        return message_id in self.ids

    def spooled(self, ids: Iterable[str | None]) -> None:
        """Add messages that are safe on the disk and not acknowledged yet."""
        self.ids.update(each for each in ids if each is not None)

    def settled(self, ids: Iterable[str | None]) -> None:
        """Remove messages whose acknowledgement has arrived: they are not redelivered."""
        self.ids.difference_update(each for each in ids if each is not None)


SEGMENT_BYTES = 64 * 1024 * 1024
_SUFFIX = ".spool"
_MARKS = "marks.json"
_LOCK_MS = 10_000
_LOCK_PAUSE_MS = 100


def batch_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a record batch as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def batches_of(data: bytes) -> list[pa.RecordBatch]:
    """Return the record batches that `batch_bytes` encoded."""
    with pa.ipc.open_stream(data) as reader:
        return list(reader)


def batches_between(folder: Path, after: int, upto: int) -> Iterator[pa.RecordBatch]:
    """Yield the messages from ``after + 1`` to `upto`. Raises `SpoolError` when the spool lacks some."""
    place = after
    for path in _segments(folder, after):
        if place >= upto:
            break
        for frame, _ in frames_of(path.read_bytes()):
            if frame.last <= place or place >= upto:
                continue
            # Numbers have no holes: a gap means that a file is missing, and the error below names the numbers.
            if frame.first > place + 1:
                break
            for batch in batches_of(frame.data):
                yield batch.slice(place + 1 - frame.first, min(upto, frame.last) - place)
            place = min(upto, frame.last)
    if place < upto:
        raise SpoolError(
            f"{folder} lacks the messages from {place + 1} to {upto}: driver and executors must see one and the same spoolDir, and "
            "nobody else may change it"
        )


def _segments(folder: Path, after: int = -1) -> list[Path]:
    """Return the segments in order, starting with the one that may hold ``after + 1``."""
    # Names are padded to twenty digits, so the order of texts is the order of numbers.
    found = sorted(folder.glob(f"*{_SUFFIX}"))
    # The last segment that starts at or before the number may hold it: names have the first number, and no length.
    begin = max((number for number, path in enumerate(found) if int(path.stem) <= after + 1), default=0)
    return found[begin:]


class SpoolFolder:
    """The writer's side of a spool. For one thread."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._segment: BinaryIO | None = None
        folder.mkdir(parents=True, exist_ok=True)
        # Before the marks are read: another planner could still change them, and both would assign the same numbers.
        self._lock = _lock(folder, clock)
        marks = folder / _MARKS
        if marks.exists():
            self.marks = Marks.from_json(marks.read_text(encoding="utf-8"))
        else:
            self.marks = Marks(generation=uuid.uuid4().hex)
            self.save(self.marks)
        self.high = self.marks.low
        self.suspects: set[str] = set(self.marks.unsettled)
        """The ids of messages whose acknowledgement is not known to have arrived."""
        self._recover()

    def _recover(self) -> None:
        paths = _segments(self._folder)
        for number, path in enumerate(paths):
            content = path.read_bytes()
            end = 0
            for frame, place in frames_of(content):
                end = place
                self.high = max(self.high, frame.last)
                # Messages up to the mark were acknowledged; the few that were not are named in the marks.
                if frame.last > self.marks.settled:
                    self._suspect(frame)
            if end < len(content):
                # Only the newest segment can be cut by a crash: a newer one begins after
                # the last frame before it is synchronised.
                if number < len(paths) - 1:
                    raise SpoolError(f"{path} is damaged at byte {end}: restore it, or begin with an empty folder")
                os.truncate(path, end)  # the writer died before this was safe, so none of it was acknowledged

    def _suspect(self, frame: Frame) -> None:
        for batch in batches_of(frame.data):
            numbers, ids = batch.column("seq").to_pylist(), batch.column("message_id").to_pylist()
            self.suspects.update(
                each for number, each in zip(numbers, ids, strict=True) if each and number > self.marks.settled
            )

    def append(self, batch: pa.RecordBatch) -> None:
        """Write messages, whose numbers follow `high`; they are safe when this returns."""
        frame = Frame(first=self.high + 1, count=batch.num_rows, data=batch_bytes(batch))
        segment = self._segment
        if segment is None or segment.tell() >= SEGMENT_BYTES:
            segment = self._begin_segment(frame.first)
        segment.write(pack(frame))
        segment.flush()
        # The acknowledgement follows, after which the broker forgets the messages:
        # `flush` alone leaves them in the system's cache.
        os.fsync(segment.fileno())
        self.high = frame.last

    def _begin_segment(self, first: int) -> BinaryIO:
        self._end_segment()
        self._segment = (self._folder / f"{first:020d}{_SUFFIX}").open("ab")
        # fsync(2): a file's data may be safe and its directory entry lost, until the folder is synchronised, too.
        _sync_folder(self._folder)
        return self._segment

    def _end_segment(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def save(self, marks: Marks) -> None:
        """Write the marks, atomically."""
        beside = self._folder / f"{_MARKS}.new"
        with beside.open("w", encoding="utf-8") as file:
            file.write(marks.to_json())
            file.flush()
            os.fsync(file.fileno())
        # Synchronised before it is renamed: otherwise, after a power cut, a renamed file could be empty.
        beside.replace(self._folder / _MARKS)
        _sync_folder(self._folder)
        # Set last: if a write fails, memory matches the disk, and the same call may be repeated.
        self.marks = marks

    def trim(self) -> None:
        """Delete the segments whose messages are all done, according to the saved marks."""
        if self._segment is not None and self.marks.low >= self.high:
            # If every message is done, the open segment is closed, too, and can be deleted: an idle spool takes no
            # room.
            self._end_segment()
        paths = _segments(self._folder)
        for number, path in enumerate(paths):
            is_open = self._segment is not None and number == len(paths) - 1
            # A segment's last number is known from the name of the next one, so that no file has to be read.
            last = int(paths[number + 1].stem) - 1 if number + 1 < len(paths) else self.high
            if not is_open and last <= self.marks.low:
                path.unlink()

    def close(self) -> None:
        """Release the lock, so that another planner can write."""
        self._end_segment()
        self._lock.close()


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _lock(folder: Path, clock: Clock) -> BinaryIO:
    """Lock the folder; a process that was just killed may hold the lock a moment longer. Raises `SpoolError`."""
    import fcntl

    file = (folder / "lock").open("ab")
    until_ms = clock.monotonic_ms() + _LOCK_MS
    while True:
        try:
            # `flock` and not a file that exists: the system releases it when a killed driver ends.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if clock.monotonic_ms() >= until_ms:
                file.close()
                raise SpoolError(
                    f"{folder} is in use by another query: give each query a readerGroup of its own, and let one run at a time"
                ) from None
            # A planner that was just killed may take a moment to end, so the lock is tried again.
            clock.wait(Signal(), clock.monotonic_ms() + _LOCK_PAUSE_MS)
        else:
            return file
