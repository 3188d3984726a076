"""The sink as Spark calls it, without Spark: under which name a table or a batch is written, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pyjms.spark.connecting import close_links, link_of
from pyjms.spark.options import JmsOptions, OptionError, Repeated, parse_address
from pyjms.spark.sink import JmsBatchWriter, JmsStreamWriter, batch_writer
from pyjms.spi.errors import StageError
from tests.pyjms.spark.messages_of import look

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Task:
    """What Spark tells a task."""

    properties: dict[str, str]

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def partitionId(self) -> int:
        return 0


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    task = Task({})
    monkeypatch.setattr("pyjms.spark.sink.TaskContext.get", lambda: task)
    return task


@pytest.fixture
def options(jms_broker_url: str) -> Iterator[JmsOptions]:
    yield JmsOptions(url=jms_broker_url, destination=parse_address("queue:out"), sink_id="sink", epoch=0)
    close_links()


def write(options: JmsOptions, *texts: str) -> None:
    """Write a table of these rows, or the same as a batch of a stream."""
    rows = iter([pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.string())})])
    if options.epoch is None:
        stream = JmsStreamWriter(options)
        stream.commit([stream.write(rows)], 0)
    else:
        table = JmsBatchWriter(options)
        table.commit([table.write(rows)])


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_query_with_a_new_checkpoint_writes_its_first_epoch_though_the_old_one_had(
    options: JmsOptions, task: Task, jms_broker_url: str, is_stream: bool
) -> None:
    chosen = JmsOptions(url=options.url, destination=options.destination, sink_id="sink") if is_stream else options
    for query, text in (("first", "a"), ("first", "a"), ("second", "b"), ("second", "b")):
        task.properties = {QUERY: query, BATCH: "0"}
        write(chosen, text)
    assert look(jms_broker_url, "out") == ["a", "b"]


def test_outside_of_a_query_the_sink_has_the_name_that_it_was_given(
    options: JmsOptions, task: Task, jms_broker_url: str
) -> None:
    write(options, "a")
    write(options, "a")
    assert look(jms_broker_url, "out") == ["a"]


@pytest.mark.parametrize("is_stream", [True, False])
def test_other_rows_under_the_number_of_the_last_epoch_are_refused(
    options: JmsOptions, task: Task, jms_broker_url: str, is_stream: bool
) -> None:
    chosen = replace(options, epoch=None) if is_stream else options
    task.properties = {QUERY: "q", BATCH: "0"}
    write(chosen, "a", "b")
    write(chosen, "b", "a")  # the same rows, cut in another way
    for other in (["a"], ["a", "c"], ["a", "b", "b"]):
        with pytest.raises(StageError, match=r"with other rows.*start it with a new checkpoint"):
            write(chosen, *other)
    write(chosen)  # of an epoch that comes again without rows nothing is lost
    write(replace(chosen, repeated=Repeated.TRUST), "a", "computed anew")
    assert look(jms_broker_url, "out") == ["a", "b"]


def test_what_an_epoch_was_made_of_is_known_of_each_that_follows(
    options: JmsOptions, task: Task, jms_broker_url: str
) -> None:
    for epoch, text in enumerate("abc"):
        write(replace(options, epoch=epoch), text)
        write(replace(options, epoch=epoch), text)
        with pytest.raises(StageError, match="with other rows"):
            write(replace(options, epoch=epoch), "x")
    assert look(jms_broker_url, "out") == ["a", "b", "c"]


def test_a_jobs_table_is_not_taken_for_another_one(options: JmsOptions, task: Task, jms_broker_url: str) -> None:
    job = replace(options, sink_id=None, epoch=None, job_id="nightly")
    for text in "aa":
        table = JmsBatchWriter(job)
        table.commit([table.write(iter([pa.RecordBatch.from_pydict({"text": [text]})]))])
    other = JmsBatchWriter(job)
    with pytest.raises(StageError, match="a new jobId"):
        other.commit([other.write(iter([pa.RecordBatch.from_pydict({"text": ["b"]})]))])
    assert look(jms_broker_url, "out") == ["a"]


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_repetition_ends_what_the_run_before_it_staged_and_its_tasks_not_each_others(
    options: JmsOptions, task: Task, jms_broker_url: str, is_stream: bool
) -> None:
    chosen = replace(options, epoch=None) if is_stream else options

    def staged(run: str) -> int:
        task.properties = {QUERY: "q", BATCH: "0", "spark.jobGroup.id": run}
        tables = JmsStreamWriter(chosen) if is_stream else JmsBatchWriter(chosen)
        for text in "abc":
            tables.write(iter([pa.RecordBatch.from_pydict({"text": [text]})]))
        return len(link_of(chosen).connection().stages().units())

    assert [staged("first"), staged("second")] == [3, 3]


def test_a_name_that_is_too_long_with_that_of_its_query_is_refused(options: JmsOptions, task: Task) -> None:
    task.properties = {QUERY: "q" * 36}
    longest = JmsOptions(url=options.url, destination=options.destination, sink_id="s" * 163, epoch=0)
    write(longest, "a")
    with pytest.raises(OptionError, match="has 163 characters at most"):
        write(JmsOptions(url=options.url, destination=options.destination, sink_id="s" * 164, epoch=0), "a")


def test_a_table_is_not_written_under_a_sinks_name_without_a_number() -> None:
    given = {"url": "stomp://127.0.0.1:1", "destination": "queue:out", "sinkId": "nightly"}
    schema = StructType().add("text", "string")
    with pytest.raises(OptionError, match="sinkId of a table needs epoch"):
        batch_writer(given, schema, overwrite=False)
    batch_writer({**given, "epoch": "0"}, schema, overwrite=False)
    batch_writer({"url": given["url"], "destination": "queue:out"}, schema, overwrite=False)
