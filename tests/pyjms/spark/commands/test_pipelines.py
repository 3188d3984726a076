"""``pyjms pipeline archive``, ``replay`` and ``route``, with a broker beside: all that was sent comes back as it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from pyjms import ConnectionFactory, Message, Session
from pyjms.spark import pipelines, release
from pyjms.spark.arrow import full_schema, record_batch
from pyjms.spark.commands import commands
from pyjms.spark.connecting import close_links
from pyjms.spark.routed import RulesText, decider_of
from pyjms.spi.envelope import Address, AddressKind, MessageId
from pyjms.spi.replay import ReservedMessage
from tests.provider.helpers import make_envelope
from tests.pyjms.spark.messages_of import look as look_at_texts
from tests.pyjms.spark.served import ServedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = """
undeliverable = "queue:nobody"
[[rule]]
name = "northern"
selector = "region = 'north'"
to = ["queue:north"]
[[rule]]
name = "everything that has a region"
selector = "region IS NOT NULL"
to = ["all"]
[targets.all]
queue = "all"
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path / "broker") as broker:
        yield broker
        close_links()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands(), arguments, catch_exceptions=False)


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def send(url: str, queue: str, number: int) -> None:
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(True, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue(queue))
        producer.time_to_live = 3_600_000
        for each in range(number):
            message = session.create_map_message()
            message.set_long("number", each)
            message.set_int_property("cups", each)
            message.set_float_property("ratio", 0.1)
            message.jms_type = "order"
            if each % 3 != 2:
                message.set_string_property("region", ("north", "south")[each % 3])
            producer.send(message)
        session.commit()


def fact(message: Message) -> tuple[Any, ...]:
    names = sorted(name for name in message.property_names if not str(name).startswith("JMS"))
    values = tuple((name, message.get_object_property(str(name))) for name in names)
    return message.jms_message_id, message.jms_type, message.get_long("number"), values  # type: ignore[attr-defined]


def look(url: str, queue: str) -> list[tuple[Any, ...]]:
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        connection.start()
        return [fact(each) for each in session.create_browser(session.create_queue(queue)).enumeration]


def end(url: str, queue: str) -> set[bool]:
    """Return whether messages of a queue expire."""
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        connection.start()
        return {each.jms_expiration > 0 for each in session.create_browser(session.create_queue(queue)).enumeration}


def metrics(folder: Path, pipeline: str) -> list[tuple[int, ...]]:
    """Return what was told of each batch: its number, messages in and out, and what was left."""
    told = [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()]
    mine = [each for each in told if each["pipeline"] == pipeline]
    assert all(each["seconds"] > 0 for each in mine)
    assert all((each["lag_seconds"] is None) == (pipeline == "replay") for each in mine)
    assert all(each["lag_seconds"] is None or 0 <= each["lag_seconds"] < 600 for each in mine)
    return [(each["batch"], each["messages_in"], each["messages_out"], each["left"]) for each in mine]


@pytest.mark.requires("spark")
@pytest.mark.timeout(300)
def test_messages_go_into_files_by_rules_and_back_with_all_their_types(
    spark: SparkSession, broker: ServedBroker, tmp_path: Path
) -> None:
    send(broker.url, "orders", 30)
    sent = look(broker.url, "orders")
    assert end(broker.url, "orders") == {True}
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    counted = told(run("route", str(rules), broker.url, "queue:orders", "--dry-run", "--json"))
    assert counted == {"queue:all": 20, "queue:nobody": 10, "queue:north": 10}
    archived = ("archive", broker.url, "queue:orders", str(tmp_path / "archive"), "--once", "--json")
    assert told(run(*archived, "--dry-run")) == {"archived": 0, "waiting": 30}
    assert told(run(*archived, "--metrics", str(tmp_path / "m.jsonl"), "--batch", "20")) == {"archived": 30}
    assert told(run(*archived)) == {"archived": 0}
    assert metrics(tmp_path, "archive") == [(0, 20, 20, 10), (1, 10, 10, 0)]
    replayed = ("replay", str(tmp_path / "archive"), broker.url, "--job", "again", "--json")
    assert told(run(*replayed, "--dry-run", "--where", "properties['cups'] = '7'")) == {"chosen": 1}
    told_to = ("--metrics", str(tmp_path / "m.jsonl"))
    assert told(run(*replayed, "--rate", "20", *told_to)) == {"replayed": 30}
    assert told(run(*replayed, "--rate", "20", *told_to)) == {"replayed": 0}, "what a job has sent it sends once"
    assert metrics(tmp_path, "replay") == [(0, 20, 20, 10), (1, 10, 10, 0), (0, 20, 0, 10), (1, 10, 0, 0)]
    assert look(broker.url, "orders") == sent
    assert end(broker.url, "orders") == {False}, "most would be over"
    routed = ("route", str(rules), broker.url, "queue:orders", "--once", "--json")
    assert told(run(*routed, "--checkpoint", str(tmp_path / "route"), *told_to)) == {"routed": 30}
    assert metrics(tmp_path, "route") == [(0, 30, 40, 0)]
    assert look(broker.url, "orders") == []
    assert sorted(look(broker.url, "north")) == sorted(each for each in sent if ("region", "north") in each[3])
    assert len(look(broker.url, "all")) == 20
    assert len(look(broker.url, "nobody")) == 10
    send(broker.url, "orders", 3)
    assert told(run(*routed, "--checkpoint", str(tmp_path / "a new one"))) == {"routed": 3}
    assert (look(broker.url, "orders"), len(look(broker.url, "all"))) == ([], 22), (
        "its epochs begin anew, and are no repetitions"
    )


@pytest.mark.requires("spark")
@pytest.mark.timeout(300)
def test_an_archive_whose_checkpoint_is_lost_is_refused_and_a_new_folder_has_what_came_since(
    spark: SparkSession, broker: ServedBroker, tmp_path: Path
) -> None:
    archived = ("archive", broker.url, "queue:orders", "--once", "--json")
    send(broker.url, "orders", 2)
    assert told(run(*archived, str(tmp_path / "first"))) == {"archived": 2}
    shutil.rmtree(tmp_path / "first-checkpoint")
    send(broker.url, "orders", 3)
    refused = run(*archived, str(tmp_path / "first"))
    assert (refused.exit_code, "into a new folder with a new checkpoint" in refused.output) == (1, True), refused.output
    assert len(look(broker.url, "orders")) == 3
    assert told(run(*archived, str(tmp_path / "second"))) == {"archived": 3}
    assert release("archive", url=broker.url) == 0
    send(broker.url, "orders", 1)
    refused = run(*archived, str(tmp_path / "second"))
    assert (refused.exit_code, "--no-fail-on-data-loss" in refused.output) == (1, True), refused.output
    assert told(run(*archived, str(tmp_path / "second"), "--no-fail-on-data-loss")) == {"archived": 1}
    assert told(run(*archived, str(tmp_path / "second"))) == {"archived": 0}
    shutil.copytree(tmp_path / "second", tmp_path / "copy [2]")
    shutil.move(tmp_path / "second", tmp_path / "cold" / "orders")
    for place in ("copy [2]", "cold/orders"):
        counted = run("replay", str(tmp_path / place), broker.url, "--job", "again", "--dry-run", "--json")
        assert told(counted) == {"chosen": 4}


@pytest.fixture
def twins(tmp_path: Path) -> str:
    """Give an archive of three generations of a group, each with the numbers 1 and 2; their files are in no order."""
    day = tmp_path / "twins" / "day=2023-11-14"
    day.mkdir(parents=True)
    for file, generation in enumerate("bca"):
        found = [
            ReservedMessage(number=number, envelope=envelope, count=1, redelivered=False)
            for number in (2, 1)
            for envelope in [
                replace(
                    make_envelope(f"{generation}{number}"),
                    message_id=MessageId(f"ID:{generation}{number}"),
                    timestamp_ms=1,
                )
            ]
        ]
        pq.write_table(pa.Table.from_batches([record_batch(found, full_schema())]), day / f"part-{file}.parquet")
    return str(tmp_path / "twins")


@pytest.mark.requires("spark")
@pytest.mark.timeout(300)
def test_a_replay_counts_what_it_sends_and_keeps_to_what_it_was_begun_with(
    spark: SparkSession, broker: ServedBroker, twins: str
) -> None:
    replayed = ("replay", twins, broker.url, "--to", "queue:again", "--json")
    mistaken = run(*replayed, "--job", "j", "--where", "text = 'typo'")
    assert (told(mistaken), "the job j is not used up" in mistaken.stderr) == ({"replayed": 0}, True), mistaken.output
    assert told(run(*replayed, "--job", " j")) == {"replayed": 6}, "blanks around a name do not count"
    again = run(*replayed, "--job", "j")
    assert (told(again), "had sent 6 of 6 messages before: nothing was sent" in again.stderr) == ({"replayed": 0}, True)
    for other in (("--where", "seq < 2"), ("--rate", "4"), ("--to", "queue:elsewhere")):
        refused = run(*replayed, "--job", "j", *other)
        assert (refused.exit_code, "give what is to be sent now a job of a new name" in refused.output) == (2, True)
    assert look_at_texts(broker.url, "again") == ["a1", "b1", "c1", "a2", "b2", "c2"], "ties have an order of their own"
    portions = pipelines.replay(spark, twins, url=broker.url, job="slow", destination="queue:slow", per_second=4)
    assert next(portions).messages == 4
    del portions
    rest = run("replay", twins, broker.url, "--to", "queue:slow", "--job", "slow", "--rate", "4", "--json")
    assert (told(rest), "replayed 2 of 6 messages, and 4 before" in rest.stderr) == ({"replayed": 2}, True), rest.output
    assert look_at_texts(broker.url, "slow") == ["a1", "b1", "c1", "a2", "b2", "c2"]


@pytest.mark.requires("spark")
@pytest.mark.timeout(300)
def test_a_replay_by_portions_keeps_moments_that_are_no_local_times_of_their_own(
    spark: SparkSession, broker: ServedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(spark.sparkContext.environment, "TZ", "Europe/Berlin")
    moments = [1_761_438_600_123, 1_761_442_200_123, 253_402_300_799_999]  # half past two, again, and the year 10000
    found = [
        ReservedMessage(
            number=number, envelope=replace(make_envelope(), timestamp_ms=moment), count=1, redelivered=False
        )
        for number, moment in enumerate(moments, 1)
    ]
    day = tmp_path / "autumn" / "day=2025-10-26"
    day.mkdir(parents=True)
    pq.write_table(pa.Table.from_batches([record_batch(found, full_schema())]), day / "part-0.parquet")
    told_of = pipelines.replay(
        spark, str(day.parent), url=broker.url, job="autumn", destination="queue:autumn", per_second=2
    )
    assert [each.messages for each in told_of] == [2, 3]
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        seen = [message.jms_timestamp for message in session.create_browser(session.create_queue("autumn"))]
    assert seen == moments


@pytest.mark.parametrize("rules", ["", "[[rule]]", "nonsense"])
def test_rules_that_are_wrong_are_told_before_anything_starts(tmp_path: Path, rules: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(rules)
    result = run("route", str(path), "stomp://127.0.0.1:1", "queue:orders")
    assert (result.exit_code, "rules.toml" in result.output) == (2, True), result.output


def test_a_target_at_another_broker_is_refused() -> None:
    with pytest.raises(ValueError, match="a job on Spark writes to the broker that it reads from"):
        decider_of(RulesText(RULES + 'url = "stomp://there:61613"\n', "rules.toml"))


def test_a_message_whose_transformer_fails_says_so_and_goes_aside() -> None:
    place = Address(AddressKind.QUEUE, "aside")
    decide = decider_of(RulesText(RULES.replace('undeliverable = "queue:nobody"', ""), "rules.toml"))
    made = decide(make_envelope("tea"), place)
    assert [each.destination for each in made] == [place]
    assert made[0].properties["pyjms_undeliverable_reason"] == "no rule wants it"
