"""Messages through Spark, `local[2]`, 1 KiB with ten properties: against ready Arrow batches, and against plain transactions.

Reading: ranges of a reader group, against a Python data source that yields the same rows as Arrow batches from its memory. Writing: rows
staged and promoted, against the same messages sent by one client in transactions of 1,000. `PYJMS_BENCH_MESSAGES` sets the number.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import PROPERTIES, TEXT, make_message
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyjms import ConnectionFactory, Session
from pyjms.spark.arrow import full_schema, record_batch
from pyjms.spark.schema import SCHEMA
from pyjms.spark.session import make_session
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.replay import ReservedMessage
from tests.pyjms.spark.served import ServedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MESSAGES = int(os.environ.get("PYJMS_BENCH_MESSAGES", "20000"))
ROUNDS = 3
PARTS = 2
BATCH = min(5_000, MESSAGES // PARTS)
READ_FLOOR, WRITE_FLOOR = 0.5, 0.3


class ReadyReader(DataSourceReader):
    """Yields one Arrow batch again and again."""

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        batch = _ready_batch()
        for _ in range(MESSAGES // PARTS // BATCH):
            yield batch


def _ready_batch() -> Any:
    properties: Any = PROPERTIES
    envelope = Envelope(
        Address(AddressKind.QUEUE, "bench"), MessageId("ID:broker-35024e5239ef-1:1:1"), 1_767_323_045_678, 0, 2, 4, None,
        None, None, properties, BodyKind.TEXT, TEXT,
    )  # fmt: skip
    rows = [ReservedMessage(number=n, envelope=envelope, count=1, redelivered=False) for n in range(BATCH)]
    return record_batch(rows, full_schema())


class ReadySource(DataSource):
    """The peer of the source."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> ReadyReader:
        return ReadyReader()


def rate(action: Callable[[], object]) -> float:
    """Return messages a second."""
    begun = time.perf_counter()
    action()
    return MESSAGES / (time.perf_counter() - begun)


def drink(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def send(url: str, queue: str) -> None:
    connection = ConnectionFactory(url).create_connection()
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    producer = session.create_producer(session.create_queue(queue))
    for number in range(1, MESSAGES + 1):
        producer.send(make_message(session))
        if number % 1000 == 0:
            session.commit()
    session.commit()
    connection.close()


def stream_rate(spark: SparkSession, url: str, folder: Path) -> float:
    rows = spark.readStream.format("jms").options(
        url=url, destination="queue:stream", readerGroup="stream", partitions=PARTS, maxMessagesPerBatch=MESSAGES
    )
    query = (
        rows.load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    read = sum(progress["numInputRows"] for progress in query.recentProgress)
    spent_ms = sum(progress["durationMs"]["triggerExecution"] for progress in query.recentProgress)
    return float(read / spent_ms * 1000)


def main() -> int:
    """Measure, print, and return 1 when a floor is missed."""
    print(f"{MESSAGES} messages of 1 KiB with ten properties, local[2], broker with SQLite", flush=True)
    with tempfile.TemporaryDirectory() as folder, ServedBroker(Path(folder), durable=True) as broker:
        spark = make_session("bench", master="local[2]", settings={"spark.driver.memory": "2g"})
        spark.dataSource.register(ReadySource)
        missed = measure_reading(spark, broker.url) + measure_writing(spark, broker.url)
        print(
            f"read: a whole stream, availableNow {stream_rate(spark, broker.url, Path(folder) / 'checkpoint'):8.0f}/s"
        )
        spark.stop()
    return int(missed > 0)


def measure_reading(spark: SparkSession, url: str) -> int:
    """Print what reading costs, and return how many floors were missed."""
    send(url, "bench")
    options = {
        "url": url,
        "destination": "queue:bench",
        "mode": "reserve",
        "jobId": "b",
        "partitions": str(PARTS),
    }
    ours = spark.read.format("jms").options(**options).load()
    tuples = spark.read.format("jms").options(**options, arrow="false").load()
    ready = spark.read.format("ready").load()
    for rows in (ours, ready):
        drink(rows)  # the first time reserves, and starts Spark's workers
    pairs = [(rate(lambda: drink(ours)), rate(lambda: drink(ready))) for _ in range(ROUNDS)]
    read, peer = (statistics.median(values) for values in zip(*pairs, strict=True))
    print(
        f"read: ranges of a group, Arrow {read:8.0f}/s; ready Arrow batches {peer:8.0f}/s; ratio {read / peer:.2f}",
        flush=True,
    )
    by_tuples = rate(lambda: drink(tuples))
    print(f"read: ranges of a group, tuples {by_tuples:7.0f}/s; ratio to Arrow {by_tuples / read:.2f}", flush=True)
    return int(read / peer < READ_FLOOR)


def measure_writing(spark: SparkSession, url: str) -> int:
    """Print what writing costs, and return how many floors were missed."""
    out = spark.read.format("ready").load().select("text", "properties", "property_types").repartition(PARTS).cache()
    out.count()

    def write() -> None:
        out.write.format("jms").options(url=url, destination="queue:written").mode("append").save()

    pairs = [(rate(write), rate(lambda: send(url, "stream"))) for _ in range(ROUNDS)]
    written, sent = (statistics.median(values) for values in zip(*pairs, strict=True))
    print(
        f"write: staged and promoted {written:8.0f}/s; one client, transactions of 1,000 {sent:8.0f}/s; "
        f"ratio {written / sent:.2f}",
        flush=True,
    )
    return int(written / sent < WRITE_FLOOR)


if __name__ == "__main__":
    sys.exit(main())
