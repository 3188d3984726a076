"""The planners of ``mode=spool`` and ``mode=at-least-once``.

A spool gives exactly-once delivery from any message system, by a folder that driver and executors share. At-least-once
stores nothing on a disk: the messages stay unacknowledged at the driver until their batch is committed.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pyjms.spark.options import AckOn, DataLossError, Duplicates, JmsOptions, OptionError, SpoolError, old_checkpoint
from pyjms.spark.planning import WAIT_MS, Limits, Offset, Piece, Planner, Range, Receiver, between, cut, processors
from pyjms.spark.spool import Marks, Seen
from pyjms.spi.clock import SystemClock
from pyjms.spi.delivery import Delivery
from pyjms.spi.replay import ReservedMessage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyjms.spark.spool import SpoolFolder


_LEAST_IN_PARTITION = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolPiece:
    """A range of a spool."""

    folder: str
    span: Range

    def rows(self, schema: StructType, options: JmsOptions) -> Iterator[Any]:
        """Yield the range. Raises `SpoolError` when the spool lacks it."""
        from pyjms.spark.spool import batches_between

        return as_rows(batches_between(Path(self.folder), self.span.after, self.span.upto), schema)


def as_rows(batches: Iterator[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the columns of `schema` of batches that have all columns."""
    import pyarrow as pa

    from pyjms.spark.arrow import arrow_schema

    wanted = arrow_schema(schema)
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch.column(name) for name in wanted.names], schema=wanted)


def numbered(deliveries: Sequence[Delivery], after: int) -> list[ReservedMessage]:
    """Return deliveries with the numbers from ``after + 1`` on."""
    return [
        ReservedMessage(number=number, envelope=each.envelope, count=each.count, redelivered=each.redelivered)
        for number, each in enumerate(deliveries, after + 1)
    ]


def full_batch(messages: Sequence[ReservedMessage], *, with_bodies: bool) -> pa.RecordBatch:
    """Return messages as a record batch of all columns."""
    from pyjms.spark.arrow import full_schema, record_batch

    return record_batch(messages, full_schema(), with_bodies=with_bodies)


class SpoolPlanner(Planner):
    """Receives messages, writes and synchronises them, and only then acknowledges them."""

    def __init__(self, options: JmsOptions) -> None:
        if options.spool_dir is None:
            raise OptionError(
                "mode=spool needs spoolDir: a folder that the driver and all executors see, and that outlives both; without one, use "
                "mode=at-least-once"
            )
        if options.reader_group is None:
            raise OptionError(
                "option readerGroup is missing: give the query a name of its own, by which its spool is found again"
            )
        self._options = options
        self._name = options.reader_group
        # A group's name may have slashes, or be the name of a parent folder: its spool is one folder directly below
        # `spoolDir`.
        name = quote(options.reader_group, safe="")
        self._path = Path(options.spool_dir) / (name if name.strip(".") else name.replace(".", "%2E"))
        self._receiver = Receiver(options)
        self._opened: SpoolFolder | None = None
        self._seen = Seen()

    def _folder(self) -> SpoolFolder:
        if self._opened is None:
            from pyjms.spark.spool import SpoolFolder

            # Opened at first use: the folder takes a lock, and Spark also creates planners that only check options or
            # are pickled.
            self._opened = SpoolFolder(self._path, SystemClock())
            # A copy: the folder's set is the result of recovery, and this one changes with every acknowledgement.
            self._seen = Seen(set(self._opened.suspects))
        return self._opened

    def _offset(self, seq: int, begins_after: int | None = None) -> Offset:
        generation = self._folder().marks.generation
        return Offset(group=self._name, generation=generation, seq=seq, begins_after=begins_after)

    def initial(self) -> Offset:
        return self._offset(self._folder().marks.low)

    def prepare_available_now(self) -> None:
        self._receiver.end_with_present_messages()

    def latest(self, start: Offset, limits: Limits) -> Offset:
        folder = self._folder()
        after = self._position_of(start)
        is_known = after == start.seq and self._is_ours(start)
        # Spark has the batch before `start` in its commit log when it asks for the next one (decision 0170).
        if is_known and self._options.ack_on is AckOn.PROGRESS:
            self._done(start.seq)
        # Nothing new is received while messages wait in the spool: those of a crashed driver are batched first.
        if folder.high == after:
            self._receive(limits)
        high = folder.high
        if limits.max_messages is not None:
            # More messages may have been spooled before a crash than one batch may have; only their numbers are known
            # here, not their bytes.
            high = min(high, after + limits.max_messages)
        if high <= after:
            return start
        return self._offset(high, None if is_known else after)

    def _is_ours(self, offset: Offset) -> bool:
        return offset.group == self._name and offset.generation == self._folder().marks.generation

    def _position_of(self, start: Offset) -> int:
        folder = self._folder()
        if self._is_ours(start) and folder.marks.low <= start.seq <= folder.high:
            return start.seq
        if self._is_ours(start) and start.seq < folder.marks.low:
            raise old_checkpoint(start.seq, f"the spool {self._path}", folder.marks.low)
        self._lose(start)
        if self._is_ours(start):
            # The numbers up to the checkpoint's position would be given out again. Spark has them marked as done when
            # it plans the next batch, or after a crash before that, and this would remove new messages.
            folder.save(replace(folder.marks, generation=uuid.uuid4().hex))
        return folder.marks.low

    def _lose(self, place: Offset) -> None:
        folder = self._folder()
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"the checkpoint is at message {place.seq}, and the spool {self._path} has {folder.marks.low + 1} to {folder.high}"
                f"{'' if self._is_ours(place) else ' of another generation'}: the spool is an old copy, or was replaced. Start "
                "the query with failOnDataLoss=false to go on with what the spool has"
            )

    def _receive(self, limits: Limits) -> None:
        """Receive, spool and acknowledge."""
        deliveries = self._receiver.receive(limits, WAIT_MS)
        # Messages that were redelivered after a crash are already in the spool: they are only acknowledged.
        fresh = [each for each in deliveries if not self._seen.is_repeated(each.envelope.message_id)]
        if self._options.duplicates is Duplicates.REFUSE and any(each.envelope.message_id is None for each in fresh):
            raise SpoolError(
                "a message has no JMSMessageID, so that the spool would not know it if it came again after a crash: let its sender "
                "set ids (setDisableMessageID(false)), or read with duplicates=allow"
            )
        # Without this a batch of only repeated messages would write an empty frame and synchronise the disk for it.
        if fresh:
            self._write(fresh)
        ids = [each.envelope.message_id for each in deliveries]
        # Between the write and the acknowledgement: if the acknowledgement is lost, the ids are stored and the messages
        # recognised.
        self._seen.spooled(ids)
        # Repeated deliveries are acknowledged with the others; otherwise the broker would redeliver them after each
        # reconnection.
        if deliveries and self._receiver.acknowledge(deliveries):
            self._seen.settled(ids)

    def _write(self, fresh: Sequence[Delivery]) -> None:
        folder = self._folder()
        folder.append(full_batch(numbered(fresh, folder.high), with_bodies=self._options.with_bodies))

    def reported(self) -> Offset | None:
        return None if self._opened is None else self._offset(self._opened.high)

    def pieces(self, start: Offset, end: Offset) -> Sequence[Piece]:
        wanted = self._available(start, end)
        # The path is resolved here, since workers may have another working directory.
        spans = cut(wanted, self._options.partitions, processors=processors(), least=_LEAST_IN_PARTITION)
        return [SpoolPiece(folder=str(self._path.resolve()), span=span) for span in spans]

    def _available(self, start: Offset, end: Offset) -> Range:
        """Return the part of a batch that the spool has. A restarted query begins here, with a batch that the
        checkpoint has and that no output reports as done. Raises `DataLossError`. If the loss is allowed, `latest`
        continues with all that the spool has.
        """
        wanted, folder = between(start, end), self._folder()
        if self._is_ours(end) and wanted and wanted.after < folder.marks.low:
            raise old_checkpoint(wanted.after, f"the spool {self._path}", folder.marks.low)
        if wanted and not (self._is_ours(end) and wanted.upto <= folder.high):
            self._lose(end)
            return Range(after=wanted.after, upto=wanted.after)
        return wanted

    def commit(self, end: Offset) -> None:
        if self._is_ours(end):
            self._done(end.seq)

    def _done(self, upto: int) -> None:
        folder = self._folder()
        marks = folder.marks
        if upto <= marks.low:
            return
        # Ids whose acknowledgement is unknown are stored in the marks, as the segment that has them may be deleted.
        folder.save(
            Marks(generation=marks.generation, low=upto, settled=folder.high, unsettled=frozenset(self._seen.ids))
        )
        # After the marks are safe: a crash before leaves one segment too many; the other order would lose ids that only
        # the segment has.
        folder.trim()

    def close(self) -> None:
        self._receiver.disconnect()
        if self._opened is not None:
            self._opened.close()
            self._opened = None


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeldPiece:
    """A piece that contains its messages."""

    data: bytes

    def rows(self, schema: StructType, options: JmsOptions) -> Iterator[Any]:
        """Yield them."""
        from pyjms.spark.spool import batches_of

        return as_rows(iter(batches_of(self.data)), schema)


class HoldingPlanner(Planner):
    """Holds the messages of unfinished batches in memory."""

    def __init__(self, options: JmsOptions) -> None:
        if options.reader_group is None:
            raise OptionError("option readerGroup is missing: give the query a name of its own")
        self._options = options
        self._name = options.reader_group
        self._receiver = Receiver(options)
        # A new generation for each driver: messages that an earlier one held were released when its connection ended.
        self._generation = uuid.uuid4().hex
        self._held: deque[tuple[int, Delivery]] = deque()
        """Each with the connection count of its receiver at that time; their numbers begin with ``_base + 1``."""
        self._base = 0
        self._is_placed = False

    @property
    def _high(self) -> int:
        return self._base + len(self._held)

    def _offset(self, seq: int) -> Offset:
        return Offset(group=self._name, generation=self._generation, seq=seq)

    def initial(self) -> Offset:
        return self._offset(0)

    def prepare_available_now(self) -> None:
        self._receiver.end_with_present_messages()

    def latest(self, start: Offset, limits: Limits) -> Offset:
        # A new driver continues the checkpoint's numbers: lower ones would make empty batches.
        if not self._is_placed:
            self._continue_from(start.seq)
        if self._options.ack_on is AckOn.PROGRESS:
            self._done(start.seq)
        if self._high == start.seq:
            self._receive(limits)
        high = self._high
        if limits.max_messages is not None:
            high = min(high, start.seq + limits.max_messages)
        return start if high <= start.seq else self._offset(high)

    def _continue_from(self, seq: int) -> None:
        """Continue the numbers of an earlier driver."""
        _log.warning(
            "mode=at-least-once: after a crash the rows of one batch come twice; mode=replay or mode=spool would not"
        )
        self._base = seq
        self._is_placed = True

    def _receive(self, limits: Limits) -> None:
        deliveries = self._receiver.receive(limits, WAIT_MS)
        # Each with the connection count at its receipt: a later connection cannot acknowledge it.
        self._held.extend((self._receiver.life, each) for each in deliveries)

    def reported(self) -> Offset | None:
        return self._offset(self._high) if self._is_placed else None

    def pieces(self, start: Offset, end: Offset) -> Sequence[Piece]:
        if end.generation != self._generation:
            _log.warning(
                "messages %s to %s were under way when the driver died; they are delivered again",
                start.seq + 1,
                end.seq,
            )
            return []
        # A deque has no slices.
        held = [delivery for _, delivery in self._held]
        spans = cut(between(start, end), self._options.partitions, processors=processors(), least=_LEAST_IN_PARTITION)
        base = self._base
        return [self._piece(held[span.after - base : span.upto - base], span.after) for span in spans]

    def _piece(self, deliveries: Sequence[Delivery], after: int) -> HeldPiece:
        from pyjms.spark.spool import batch_bytes

        return HeldPiece(batch_bytes(full_batch(numbered(deliveries, after), with_bodies=self._options.with_bodies)))

    def commit(self, end: Offset) -> None:
        if end.generation == self._generation:
            self._done(end.seq)

    def _done(self, upto: int) -> None:
        # The bounds are needed: Spark may repeat `commit`, with a number below the base.
        taken = [self._held.popleft() for _ in range(max(0, min(upto - self._base, len(self._held))))]
        # Moved before the acknowledgement, which may fail: numbers and held messages match in any case.
        self._base += len(taken)
        # The broker redelivers the others: they cannot be settled, and the log says how many rows may be duplicated.
        mine = [delivery for life, delivery in taken if life == self._receiver.life]
        settled = not mine or self._receiver.acknowledge(mine)
        lost = len(taken) - (len(mine) if settled else 0)
        if lost:
            _log.warning(
                "%d rows may come twice: the connection was lost before their messages were acknowledged", lost
            )

    def close(self) -> None:
        self._receiver.disconnect()
