"""The sink, streaming and batch, as Spark calls it: `pyjms.spark.writing` has what it does.

Nothing but the messages that `write` returns gets from a task to `commit`, which runs in another process on a writer that was made anew.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pyjms.spark.connecting import MessageIds
from pyjms.spark.errors import OptionError
from pyjms.spark.messages import EnvelopeMaker, check_sink_columns
from pyjms.spark.options import Headers, JmsOptions, parse_options
from pyjms.spark.ways import abandon, finish, write_partition
from pyjms.spark.writing import Written
from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Envelope
from pyjms.spi.provider import ProviderConnection
from pyjms.spi.replay import StageName

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["JmsBatchWriter", "JmsCommitMessage", "JmsStreamWriter", "batch_writer", "stream_writer"]

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


class JmsCommitMessage(WriterCommitMessage):
    """What a task tells the one that commits."""

    def __init__(self, written: Written) -> None:
        self.written = written


def stream_writer(options: Mapping[str, Any], schema: StructType) -> JmsStreamWriter:
    """Return the writer of a stream. Raises `OptionError`, `RowError`."""
    return JmsStreamWriter(_checked(options, schema))


def batch_writer(options: Mapping[str, Any], schema: StructType, *, overwrite: bool) -> JmsBatchWriter:
    """Return the writer of a table. Raises `OptionError`, `RowError`."""
    if overwrite:
        raise OptionError(
            'mode("overwrite") would mean to empty a destination first, which this sink never does: write mode("append")'
        )
    return JmsBatchWriter(_checked(options, schema))


def _checked(options: Mapping[str, Any], schema: StructType) -> JmsOptions:
    parsed = parse_options(options)
    check_sink_columns([(field.name, field.dataType.simpleString()) for field in schema.fields])
    if parsed.destination is None and "destination" not in schema.names:
        raise OptionError(
            "option destination is missing, and the rows have no column destination: write queue:NAME or topic:NAME"
        )
    return parsed


def _write(options: JmsOptions, sink: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> JmsCommitMessage:
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    name = StageName(sink=sink, epoch=epoch, partition=partition, attempt=uuid.uuid4().hex)
    return JmsCommitMessage(write_partition(name, lambda connection: _envelopes(options, connection, batches), options))


def _envelopes(
    options: JmsOptions, connection: ProviderConnection, batches: Iterator[pa.RecordBatch]
) -> Iterator[Envelope]:
    from pyjms.spark.arrow import column_lists

    maker = EnvelopeMaker(
        destination=options.destination,
        next_id=MessageIds(connection).next,
        now_ms=SystemClock().time_ms,
        keeps_headers=options.headers is Headers.KEEP,
    )
    for batch in batches:
        yield from maker.envelopes(batch.schema.names, list(column_lists(batch)))


def _written(messages: Iterable[WriterCommitMessage | None]) -> list[Written]:
    return [message.written for message in messages if isinstance(message, JmsCommitMessage)]


class JmsStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each once."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        sink, epoch = self._place()
        return _write(self._options, sink, epoch, iterator)

    def _place(self) -> tuple[str, int]:
        """Return sink and epoch. Spark does not promise to tell them, so that what is missing is an error, never a guess."""
        context = TaskContext.get()
        sink = self._options.sink_id or (None if context is None else context.getLocalProperty(_QUERY_ID))
        epoch = None if context is None else context.getLocalProperty(_BATCH_ID)
        if sink is None:
            raise OptionError(
                "Spark does not tell the id of this query: give the sink a name of its own with option sinkId"
            )
        if epoch is None:
            raise OptionError(
                "Spark does not tell the id of this batch, without which rows could be written twice: write with "
                "foreachBatch and pyjms.spark.promote instead"
            )
        return sink, int(epoch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = _written(messages)
        if written:
            finish(written[0].name.sink, batchId, written, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abandon(_written(messages), self._options)


class JmsBatchWriter(DataSourceArrowWriter):
    """Writes one table: all of it becomes visible together, or nothing. Spark uses one and the same writer all along."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        if options.sink_id is not None:
            self._sink, self._epoch = options.sink_id, options.epoch or 0
        else:
            self._sink, self._epoch = f"job:{options.job_id or uuid.uuid4().hex}", 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, self._sink, self._epoch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        finish(self._sink, self._epoch, _written(messages), self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abandon(_written(messages), self._options)
