"""The sink, streaming and batch, in Spark's interfaces: `pyjms.spark.writing` does the work.

Only the messages that `write` returns get from a task to `commit`, which runs in another process on a new writer.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pyjms.spark.connecting import MessageIds
from pyjms.spark.jobs import QUERY_ID, name_in_query
from pyjms.spark.messages import EnvelopeMaker, check_sink_columns
from pyjms.spark.options import Headers, JmsOptions, OptionError, Repeated, parse_options
from pyjms.spark.writing import RowSum, Written, abandon, attempt_of, finish, write_partition
from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Envelope
from pyjms.spi.provider import ProviderConnection
from pyjms.spi.replay import StageName

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_RUN_ID = "spark.jobGroup.id"
"""Spark runs a query's jobs in a group named by the id of the run."""
_BATCH_ID = "streaming.sql.batchId"
_SINK_MAX = 200


class JmsCommitMessage(WriterCommitMessage):
    """The result of a task, for the writer that commits."""

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
    parsed = _checked(options, schema)
    if parsed.sink_id is not None and parsed.epoch is None:
        raise OptionError(
            "sinkId of a table needs epoch: of each sink one table of a number is written, and another one under the same name and number "
            "would be taken for its repetition. Number the tables, or give jobId, a name for this one"
        )
    return JmsBatchWriter(parsed)


def _checked(options: Mapping[str, Any], schema: StructType) -> JmsOptions:
    parsed = parse_options(options)
    # Checked before any task runs: each of them would fail four times before the user sees the reason.
    check_sink_columns([(field.name, field.dataType.simpleString()) for field in schema.fields])
    if parsed.destination is None and "destination" not in schema.names:
        raise OptionError(
            "option destination is missing, and the rows have no column destination: write queue:NAME or topic:NAME"
        )
    return parsed


def _name_of(sink_id: str | None) -> str | None:
    """Return the sink's name in a task; None if there is none."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_ID)
    if sink_id is None or query is None:
        return sink_id or query
    name = name_in_query(sink_id, query)
    # The provider's limit includes the query's id, which the user does not see: the error says how many characters
    # remain.
    if len(name) > _SINK_MAX:
        raise OptionError(f"option sinkId of a query has {_SINK_MAX - len(query) - 1} characters at most")
    return name


def _write(
    options: JmsOptions,
    sink: str,
    epoch: int,
    batches: Iterator[pa.RecordBatch],
    run: str | None,
    *,
    may_come_again: bool = True,
) -> JmsCommitMessage:
    # None outside of a task, as on the driver and in tests: such a write has one partition.
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    name = StageName(sink=sink, epoch=epoch, partition=partition, attempt=attempt_of(run))
    # Digests cost a `repr` for each row; a table with a generated name is never written again, so there is nothing to
    # compare.
    seen = RowSum() if may_come_again and options.repeated is Repeated.COMPARE else None
    written = write_partition(name, lambda connection: _envelopes(options, connection, batches, seen), options)
    return JmsCommitMessage(written if seen is None else replace(written, content=seen.content))


def _envelopes(
    options: JmsOptions, connection: ProviderConnection, batches: Iterator[pa.RecordBatch], seen: RowSum | None
) -> Iterator[Envelope]:
    from pyjms.spark.arrow import column_lists

    # Created in the task: message ids begin with the connection's id, so that two workers never make the same one.
    maker = EnvelopeMaker(
        destination=options.destination,
        next_id=MessageIds(connection).next,
        now_ms=SystemClock().time_ms,
        keeps_headers=options.headers is Headers.KEEP,
    )
    for batch in batches:
        columns = list(column_lists(batch))
        if seen is not None:
            seen.add(batch.schema.names, columns)
        yield from maker.envelopes(batch.schema.names, columns)


def _written(messages: Iterable[WriterCommitMessage | None]) -> list[Written]:
    return [message.written for message in messages if isinstance(message, JmsCommitMessage)]


class JmsStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each once."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        sink, epoch = self._place()
        context = TaskContext.get()
        run = None if context is None else context.getLocalProperty(_RUN_ID)
        return _write(self._options, sink, epoch, iterator, run)

    def _place(self) -> tuple[str, int]:
        """Return sink and epoch. Spark does not promise to supply them, so a missing one is an error, never guessed."""
        context = TaskContext.get()
        sink = _name_of(self._options.sink_id)
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
            # The sink's name comes from the tasks, as `commit` runs on a writer without a task context and does not
            # know the query.
            finish(written[0].name.sink, batchId, written, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abandon(_written(messages), self._options)


class JmsBatchWriter(DataSourceArrowWriter):
    """Writes one table: all of it becomes visible together, or nothing. Spark uses one writer for the whole table."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        # Generated here and pickled to all tasks: so units of this writer have the same run, and another writer's units
        # differ.
        self._run = uuid.uuid4().hex
        # The prefix keeps names of jobs and of sinks apart, which share one name space at the broker.
        self._job = f"job:{options.job_id or self._run}"
        self._epoch = options.epoch or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        sink = self._job if self._options.sink_id is None else _name_of(self._options.sink_id)
        assert sink is not None
        may_come_again = self._options.job_id is not None or self._options.sink_id is not None
        return _write(self._options, sink, self._epoch, iterator, self._run, may_come_again=may_come_again)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = _written(messages)
        if written:  # only tasks know the query for which they write
            finish(written[0].name.sink, self._epoch, written, self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abandon(_written(messages), self._options)
