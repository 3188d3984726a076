"""``format("jms")`` on Spark, with a broker beside it: all types, restarts, deaths, competition, and what users are told."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from pyjms import ConnectionFactory, Session
from pyjms.spark import acknowledge, groups, promote
from pyjms.spark.connecting import close_links
from pyjms.spark.schema import COLUMNS
from tests.pyjms.spark.killing import BROKER, judged
from tests.pyjms.spark.messages_of import fill, look, take
from tests.pyjms.spark.planting import MYSELF, POINTS, PlantedSource, plant, struck
from tests.pyjms.spark.served import ServedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.requires("spark"), pytest.mark.timeout(300)]

FEW = (
    ("reserved", MYSELF),
    ("read", MYSELF),
    ("staged", BROKER),
    ("promoted", MYSELF),
    ("acknowledged", BROKER),
)
"""Who dies where, in the suite: the process of Spark's that comes there, or the broker. `make soak-spark` has all of both."""
DEATHS = tuple(product(POINTS, (MYSELF, BROKER))) if "PYJMS_SPARK_KILLS" in os.environ else FEW
SLOW, STARTS = "Python worker failed to connect back", 8
"""Spark gives a Python process ten seconds to start, which a busy machine does not."""
MOVED = ["message_id", "timestamp", "text", "properties", "property_types"]
"""With their ids, so that the checker of histories knows the messages again."""
BODY = ["destination", "type", "kind", "text", "bytes", "body", "properties", "property_types", "priority"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("broker"), protocols=("stomp", "amqp")) as broker:
        yield broker
        close_links()


@pytest.fixture(autouse=True)
def empty_queues(broker: ServedBroker) -> Iterator[None]:
    """Leave no message to the next test."""
    yield
    for queue in ("orders", "out"):
        drain(broker.url, queue)


def stream(spark: SparkSession, url: str, group: str, *, form: str = "jms", **options: Any) -> DataFrame:
    given = {"url": url, "destination": "queue:orders", "readerGroup": group, "partitions": 2, **options}
    return spark.readStream.format(form).options(**given).load()


def run(
    rows: DataFrame,
    url: str,
    checkpoint: Path,
    *,
    form: str = "jms",
    meanwhile: Callable[[], None] = lambda: None,
    **options: Any,
) -> None:
    """Write what is there now to the queue ``out``, and end. Raises what the query raised."""
    given = {"url": url, "destination": "queue:out", "checkpointLocation": str(checkpoint), **options}
    writer = rows.writeStream.format(form).options(**given).trigger(availableNow=True)
    for attempt in range(STARTS):
        if (
            form != "jms"
        ):  # a registered source is found by the JVM thread's session, which a busy machine may have replaced
            rows.sparkSession.createDataFrame([], "a int")
        query = writer.start()
        try:
            while not query.awaitTermination(1):
                meanwhile()
        except PySparkException as error:
            if SLOW not in str(error) or attempt + 1 == STARTS:
                raise
        else:
            return
        finally:
            query.stop()


def send_all_types(session: Session) -> None:
    producer = session.create_producer(session.create_queue("orders"))
    text = session.create_text_message("espresso")
    text.set_int_property("cups", 2)
    text.set_float_property("ratio", 0.1)
    text.set_long_property("far", 2**53 + 1)
    text.set_boolean_property("hot", True)
    text.jms_type = "order"
    data = session.create_bytes_message()
    data.write_bytes(b"\0\xff")
    entries = session.create_map_message()
    entries.set_long("n", 2**60)
    entries.set_char("c", "x")
    entries.set_bytes("raw", b"\0")
    values = session.create_stream_message()
    values.write_double(0.25)
    values.write_string("é")
    for number, message in enumerate((text, data, entries, values, session.create_message())):
        producer.send(message, 2, number, 0)


def kinds_of(url: str, queue: str) -> list[tuple[Any, ...]]:
    """Return what a client sees of all messages."""
    connection = ConnectionFactory(url).create_connection()
    try:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        found = []
        for message in session.create_browser(session.create_queue(queue)):
            properties = {name: message.get_object_property(name) for name in message.property_names}
            typed = sorted((name, type(value).__name__, value) for name, value in properties.items())
            body = message.frozen_body()  # type: ignore[attr-defined]
            found.append((type(message).__name__, message.jms_priority, message.jms_type, typed, body))
        return found
    finally:
        connection.close()


def test_all_types_go_through_a_stream_and_back_without_loss(
    spark: SparkSession, broker: ServedBroker, tmp_path: Path
) -> None:
    connection = ConnectionFactory(broker.url).create_connection()
    send_all_types(connection.create_session(False, Session.AUTO_ACKNOWLEDGE))
    connection.close()
    sent = kinds_of(broker.url, "orders")
    assert len(sent) == 5
    rows = stream(spark, broker.url, "types")
    assert rows.columns == list(COLUMNS)
    run(rows.select(*BODY), broker.url, tmp_path)
    assert Counter(map(repr, kinds_of(broker.url, "out"))) == Counter(map(repr, sent))
    drain(broker.url, "out")
    run(rows.select(*BODY), broker.url, tmp_path)  # nothing new: nothing is written, nothing comes again
    assert look(broker.url, "orders") == look(broker.url, "out") == []


def drain(url: str, queue: str) -> None:
    connection = ConnectionFactory(url).create_connection()
    connection.start()
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(session.create_queue(queue))
    while consumer.receive_no_wait() is not None:
        pass
    connection.close()


@pytest.fixture(params=["stomp", "amqp"])
def mortal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServedBroker]:
    """A broker that outlives its death by its store."""
    with ServedBroker(tmp_path / "mortal", durable=True, protocols=(request.param,)) as broker:
        yield broker
        close_links()


@pytest.mark.timeout(600)
def test_processes_and_the_broker_die_at_each_point_and_each_message_comes_once(
    spark: SparkSession, mortal: ServedBroker, tmp_path: Path
) -> None:
    plants, history = tmp_path / "plants", tmp_path / "history"
    plants.mkdir()
    spark.dataSource.register(PlantedSource)
    recorded = f"{mortal.url}?record={history}"
    texts: list[str] = []
    taken: list[str] = []

    def meanwhile() -> None:
        if mortal.is_dead():
            mortal.wait()
            mortal.start()

    for number, (point, victim) in enumerate(DEATHS):
        texts += fill(recorded, 8, first=number * 100)
        taken += take(recorded, "orders", 1)  # a consumer competes with the stream
        plant(plants, point, str(mortal.pid) if victim == BROKER else victim)
        for attempt in range(3):
            rows = stream(
                spark, mortal.url, "deaths", form="planted-jms", plants=str(plants), partitions=1 + (number + attempt) % 3,
                maxMessagesPerBatch=5,
            )  # fmt: skip
            try:
                run(rows.select(*MOVED), mortal.url, tmp_path / "checkpoint", form="planted-jms", meanwhile=meanwhile,
                    plants=str(plants), headers="keep")  # fmt: skip
            except PySparkException:
                assert struck(plants, point), point
            else:
                break
        meanwhile()
        assert struck(plants, point), point
    came = take(recorded, "out", len(texts) + 1)
    assert Counter(came + taken) == Counter(texts)
    look(recorded, "orders")
    assert judged(history) == {"moved": len(came)}


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_a_spool_and_at_least_once_serve_brokers_that_repeat_nothing(
    spark: SparkSession, broker: ServedBroker, protocol: str, tmp_path: Path
) -> None:
    dialect = "?dialect=activemq" if protocol == "stomp" else ""
    plain = f"{broker.urls[protocol]}{dialect}"  # as our broker is for who does not know it: no group, no staged unit
    texts = []
    for mode in ("spool", "at-least-once"):
        texts += fill(broker.url, 10, first=1000 * len(mode))
        assert spark.read.format("jms").options(url=plain, destination="queue:orders").load().count() == 10
        rows = stream(spark, plain, mode, mode=mode, spoolDir=str(tmp_path / "spool"), maxMessagesPerBatch=6)
        run(rows.select("text"), plain, tmp_path / mode)
    assert Counter(look(broker.url, "out")) == Counter(texts)


def test_a_job_holds_what_it_reads_until_it_says_that_its_output_is_safe(
    spark: SparkSession, broker: ServedBroker
) -> None:
    texts = fill(broker.url, 10)
    reader = spark.read.format("jms").option("url", broker.url).option("destination", "queue:orders")
    looked = reader.load()
    assert looked.count() == 10
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = reader.option("pushdown", "true").schema("text string, priority tinyint").load()
        assert pushed.where("priority = 9").count() == 0
        assert pushed.where("priority = 4 AND text LIKE 'order%'").count() == 10
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    held = reader.options(mode="reserve", jobId="night", pushdown="false").schema("seq bigint, text string").load()
    assert held.count() == 10
    assert [row.text for row in held.orderBy("seq").collect()] == texts  # planned anew, and the same
    assert [(group.name, group.high - group.low) for group in groups(url=broker.url) if group.name == "night"] == [
        ("night", 10)
    ]
    assert take(broker.url, "orders", 1) == []  # nobody else gets what is held
    held.selectExpr("text", "'queue:out' AS destination").write.format("jms").option("url", broker.url).option(
        "jobId", "night"
    ).mode("append").save()
    held.selectExpr("text", "'queue:out' AS destination").write.format("jms").option("url", broker.url).option(
        "jobId", "night"
    ).mode("append").save()  # the same job again writes nothing
    plain = spark.createDataFrame([(text,) for text in texts], "text string")
    for _ in range(2):
        promote(plain, 3, sink_id="by-hand", url=broker.url, destination="queue:out")
    assert acknowledge("night", url=broker.url) == 10
    assert acknowledge("night", url=broker.url) == 0
    assert Counter(look(broker.url, "out")) == Counter(texts * 2)
    assert look(broker.url, "orders") == []


def test_a_row_whose_time_is_over_keeps_no_other_one_back(spark: SparkSession, broker: ServedBroker) -> None:
    rows = spark.createDataFrame([("late", 2020), ("in time", 9999)], "text string, year int")
    rows = rows.selectExpr("text", "make_timestamp(year, 1, 1, 0, 0, 0) AS expiration")
    rows.write.format("jms").options(url=broker.url, destination="queue:out").mode("append").save()
    assert look(broker.url, "out") == ["in time"]


def test_what_is_wrong_is_told_in_words(spark: SparkSession, broker: ServedBroker, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("a", 1)], "text string, colour int")
    with pytest.raises(Exception, match="column 'colour' says nothing to a message"):
        rows.write.format("jms").option("url", broker.url).option("destination", "queue:out").mode("append").save()
    with pytest.raises(Exception, match=r"write mode.*append"):
        rows.select("text").write.format("jms").option("url", broker.url).option("destination", "queue:out").mode(
            "overwrite"
        ).save()
    nameless = spark.readStream.format("jms").options(url=broker.url, destination="queue:orders").load()
    with pytest.raises(Exception, match="option readerGroup is missing"):
        run(nameless.select("text"), broker.url, tmp_path)
