"""The planner of ``mode=at-least-once``: any message system, and nothing on a disk.

Messages stay unacknowledged until their batch is done; the driver has them in memory and hands them to the tasks. When it dies the
message system delivers them again: a batch that was under way is then repeated empty, and its messages come in a later one.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyjms.spark.errors import OptionError
from pyjms.spark.options import AckOn, JmsOptions
from pyjms.spark.planning import WAIT_MS, Limits, Offset, Piece, Planner, Receiver, between, cut, processors
from pyjms.spark.spool_planning import as_rows, full_batch, numbered
from pyjms.spi.delivery import Delivery

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)
_LEAST_IN_PARTITION = 1_000


@dataclass(frozen=True, slots=True)
class HeldPiece:
    """The messages themselves."""

    data: bytes

    def rows(self, schema: StructType, options: JmsOptions) -> Iterator[Any]:
        """Yield them."""
        from pyjms.spark.spool_files import batches_of

        return as_rows(iter(batches_of(self.data)), schema)


class HoldingPlanner(Planner):
    """Holds the messages of the batches that are under way."""

    def __init__(self, options: JmsOptions) -> None:
        if options.reader_group is None:
            raise OptionError("option readerGroup is missing: give the query a name of its own")
        self._options = options
        self._name = options.reader_group
        self._receiver = Receiver(options)
        self._generation = uuid.uuid4().hex
        self._held: deque[tuple[int, Delivery]] = deque()
        """Each with the life of the receiver that it came in; their numbers begin with ``_base + 1``."""
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
        self._receiver.end_with_what_is_there()

    def latest(self, start: Offset, limits: Limits) -> Offset:
        if not self._is_placed:
            self._go_on_from(start.seq)
        if self._options.ack_on is AckOn.PROGRESS:
            self._done(start.seq)
        if self._high == start.seq:
            self._receive(limits)
        high = self._high
        if limits.max_messages is not None:
            high = min(high, start.seq + limits.max_messages)
        return start if high <= start.seq else self._offset(high)

    def _go_on_from(self, seq: int) -> None:
        """Number on where an earlier driver was."""
        _log.warning(
            "mode=at-least-once: after a crash the rows of one batch come twice; mode=replay or mode=spool would not"
        )
        self._base = seq
        self._is_placed = True

    def _receive(self, limits: Limits) -> None:
        deliveries = self._receiver.receive(limits, WAIT_MS)
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
        held = [delivery for _, delivery in self._held]
        spans = cut(between(start, end), self._options.partitions, processors=processors(), least=_LEAST_IN_PARTITION)
        base = self._base
        return [self._piece(held[span.after - base : span.upto - base], span.after) for span in spans]

    def _piece(self, deliveries: Sequence[Delivery], after: int) -> HeldPiece:
        from pyjms.spark.spool_files import batch_bytes

        return HeldPiece(batch_bytes(full_batch(numbered(deliveries, after), with_bodies=self._options.with_bodies)))

    def commit(self, end: Offset) -> None:
        if end.generation == self._generation:
            self._done(end.seq)

    def _done(self, upto: int) -> None:
        taken = [self._held.popleft() for _ in range(max(0, min(upto - self._base, len(self._held))))]
        self._base += len(taken)
        mine = [delivery for life, delivery in taken if life == self._receiver.life]
        settled = not mine or self._receiver.acknowledge(mine)
        lost = len(taken) - (len(mine) if settled else 0)
        if lost:
            _log.warning(
                "%d rows may come twice: the connection was lost before their messages were acknowledged", lost
            )

    def close(self) -> None:
        self._receiver.forget()
