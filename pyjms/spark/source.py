"""The streaming source, as Spark calls it: `pyjms.spark.planning` has what it does.

Spark makes a reader in the planner's process, which calls all but `read`, and in others only to pickle it for `read`. So a reader
opens nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyjms.spark.errors import OptionError
from pyjms.spark.options import JmsOptions, Mode, parse_options
from pyjms.spark.planning import GroupPlanner, Limits, Offset, Piece, Planner, source_address

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class PiecePartition(InputPartition):
    """What Spark hands to a task: one piece of a batch."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(None)
        self.piece = piece

    def __repr__(self) -> str:
        return f"PiecePartition({self.piece!r})"


def stream_reader(options: Mapping[str, Any], schema: StructType) -> JmsStreamReader:
    """Return the reader of a stream. Raises `OptionError`."""
    parsed = parse_options(options)
    if parsed.mode in (Mode.BROWSE, Mode.RESERVE):
        raise OptionError(f"mode={parsed.mode.value} is for spark.read; a stream has replay, spool or at-least-once")
    source_address(parsed)
    planner_of(parsed)
    return JmsStreamReader(parsed, schema)


def planner_of(options: JmsOptions) -> Planner:
    """Return the planner of a mode. Raises `OptionError`."""
    if options.mode is Mode.SPOOL:
        from pyjms.spark.spool_planning import SpoolPlanner

        return SpoolPlanner(options)
    if options.mode is Mode.AT_LEAST_ONCE:
        from pyjms.spark.holding import HoldingPlanner

        return HoldingPlanner(options)
    return GroupPlanner(options)


class JmsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. One process calls everything but `read`, one call at a time."""

    def __init__(self, options: JmsOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._made: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    @property
    def _planner(self) -> Planner:
        if self._made is None:
            self._made = planner_of(self._options)
        return self._made

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.messages_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.prepare_available_now()

    def initialOffset(self) -> dict[str, Any]:
        return self._planner.initial().to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._planner.latest(Offset.from_json(start), self._limits(limit)).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        found = None if self._made is None else self._made.reported()
        return None if found is None else found.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        pieces = self._planner.pieces(Offset.from_json(start), Offset.from_json(end))
        return [PiecePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, PiecePartition)
        return partition.piece.rows(self._schema, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        self._planner.commit(Offset.from_json(end))

    def stop(self) -> None:
        if self._made is not None:
            self._made.close()

    def _limits(self, limit: ReadLimit) -> Limits:
        options = self._options
        if isinstance(limit, ReadAllAvailable):
            return Limits(max_messages=None)
        if isinstance(limit, ReadMaxRows):
            return Limits(max_messages=limit.max_rows, max_bytes=options.max_bytes)
        if isinstance(limit, ReadMaxBytes):
            return Limits(max_messages=options.messages_per_batch, max_bytes=limit.max_bytes)
        return Limits(max_messages=options.messages_per_batch, max_bytes=options.max_bytes)
