"""Pipelines that read a topic, by a durable subscription."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from pyjms.spark.commands import commands
from pyjms.spark.connecting import close_links
from tests.pyjms.spark.messages_of import look, session_of
from tests.pyjms.spark.served import ServedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOWHERE = "stomp://127.0.0.1:1"
NAMED = ("--client-id", "shop", "--subscription", "routed")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path / "broker") as broker:
        yield broker
        close_links()


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nselector = "TRUE"\nto = ["queue:all"]\n')
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands(), arguments, catch_exceptions=False)


def publish(url: str, *texts: str) -> None:
    with session_of(url) as session:
        producer = session.create_producer(session.create_topic("prices"))
        for text in texts:
            producer.send(session.create_text_message(text))


@pytest.mark.requires("spark")
@pytest.mark.timeout(300)
def test_a_route_reads_a_topic_by_a_durable_subscription(
    plain_spark: SparkSession, broker: ServedBroker, tmp_path: Path, rules: str
) -> None:
    def routed() -> Any:
        given = ("--once", "--json", "--checkpoint", str(tmp_path / "route"))
        result = run("route", rules, broker.url, "topic:prices", *NAMED, *given)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert routed() == {"routed": 0}, "this makes the subscription"
    publish(broker.url, "tea 5", "milk 1")
    assert routed() == {"routed": 2}
    assert look(broker.url, "all") == ["tea 5", "milk 1"]


@pytest.mark.requires("spark")
@pytest.mark.timeout(300)
def test_an_archive_has_what_comes_to_a_durable_subscription(
    plain_spark: SparkSession, broker: ServedBroker, tmp_path: Path
) -> None:
    def archived() -> Any:
        result = run("archive", broker.url, "topic:prices", str(tmp_path / "archive"), *NAMED, "--once", "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert archived() == {"archived": 0}
    publish(broker.url, "tea 5", "milk 1")
    assert archived() == {"archived": 2}


@pytest.mark.requires("java")  # without one, that is told first
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("topic:t",), "a topic keeps no messages: give --subscription and --client-id"),
        (("topic:t", "--subscription", "s"), "--subscription goes with --client-id"),
        (("topic:t", "--client-id", "c"), "--client-id goes with --subscription"),
        (("queue:q", *NAMED), "a queue has no subscriptions: leave --subscription and --client-id out"),
        (("topic:t", *NAMED, "--dry-run"), "--dry-run looks at a queue"),
    ],
)
def test_what_no_pipeline_can_read_is_told_before_spark_starts(rules: str, given: tuple[str, ...], told: str) -> None:
    for result in (run("route", rules, NOWHERE, *given), run("archive", NOWHERE, given[0], "archived", *given[1:])):
        assert (result.exit_code, told in " ".join(result.output.split())) == (2, True), result.output
