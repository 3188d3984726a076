"""Options as Spark hands them over: typed, or refused with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.spark.connecting import read_credentials
from pyjms.spark.jobs import promoted
from pyjms.spark.options import AckOn, DataLossError, Mode, OptionError, address_text, parse_address, parse_options
from pyjms.spark.planning import Offset, Range, between, cut

URL = "stomp://127.0.0.1:61613"


def test_names_come_in_any_case_and_sparks_own_are_passed_over() -> None:
    options = parse_options(
        {
            "URL": URL,
            "destination": "queue:orders",
            "READERGROUP": "g",
            "ackon": "commit",
            "mode": "Replay",
            "failOnDataLoss": "FALSE",
            "body": "none",
            "stageTimeout": "90m",
            "checkpointlocation": "/tmp",
            "__partition_columns": "[]",
        }
    )
    assert (options.reader_group, options.ack_on, options.mode) == ("g", AckOn.COMMIT, Mode.REPLAY)
    assert (options.fail_on_data_loss, options.with_bodies, options.stage_timeout_s) == (False, False, 5400)
    assert options.messages_per_batch == 10_000


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "option url is missing"),
        ({"url": "orders"}, "option url: .* no provider URL"),
        ({"url": "vm://shop"}, "pyjms broker run --listen"),
        (
            {"url": "stomp://host?prefech_messages=5"},
            "has no option 'prefech_messages'; its options are: .*prefetch_messages",
        ),
        ({"url": "stomp://host?prefetch_messages=many"}, "prefetch_messages"),
        ({"url": "stopm://host"}, "no provider is installed for stopm://"),
        ({"url": "stomp://me:secret@host"}, "holds a password"),
        ({"url": URL, "password": "secret"}, "credentials=file:PATH"),
        ({"url": URL, "credentials": "secret"}, "the place of a secret, not the secret"),
        ({"url": URL, "redergroup": "g"}, "did you mean readerGroup"),
        ({"url": URL, "colour": "red"}, "option colour is not known; docs/reference/spark.md"),
        ({"url": URL, "destination": "ques:orders"}, "write queue:NAME, topic:NAME, or the name of a queue"),
        ({"url": URL, "mode": "fast"}, "write one of replay, spool"),
        ({"url": URL, "maxMessagesPerBatch": "0"}, "maxMessagesPerBatch='0': write a whole number from 1 on"),
        ({"url": URL, "failOnDataLoss": "no"}, "write true or false"),
        ({"url": URL, "body": "half"}, "write full, or none"),
        ({"url": URL, "stageTimeout": "soon"}, "write a time such as"),
        ({"url": URL, "readerGroup": ""}, "a name has 1 to 200"),
        ({"url": URL, "selector": ""}, "option selector is empty"),
        ({"url": URL, "subscription": "s", "destination": "queue:q"}, "give destination=topic:NAME"),
        ({"url": URL, "subscription": "s", "destination": "topic:t"}, "needs clientId"),
        ({"url": URL, "epoch": "3"}, "option epoch goes with sinkId"),
        ({"url": URL, "epoch": "x", "sinkId": "s"}, "write a whole number from 0 on"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_write(given: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told) as caught:
        parse_options(given)
    assert "me:secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["queue:orders", "topic:a:b", "temp-queue:x", "temp-topic:y"])
def test_destinations_are_read_as_they_are_written(text: str) -> None:
    assert address_text(parse_address(text)) == text


def test_credentials_come_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text("me\ns:cret\n", encoding="utf-8")
    monkeypatch.setenv("JMS_LOGIN", "me:s:cret")
    assert read_credentials(None) == (None, None)
    assert read_credentials(f"file:{file}") == ("me", "s:cret")
    assert read_credentials("env:JMS_LOGIN") == ("me", "s:cret")
    file.write_text("me", encoding="utf-8")
    for place, told in (
        (f"file:{file}", "the password in the second"),
        ("file:/nowhere", "on every machine"),
        ("env:JMS_NOTHING", "spark.executorEnv.JMS_NOTHING"),
    ):
        with pytest.raises(OptionError, match=told):
            read_credentials(place)


def test_an_offset_is_read_as_it_was_written() -> None:
    offset = Offset(group="g", generation="a", seq=5)
    assert offset.to_json() == {"v": 1, "group": "g", "gen": "a", "seq": 5}
    assert Offset.from_json(offset.to_json()) == offset
    later = Offset(group="g", generation="b", seq=9, begins_after=7)
    assert Offset.from_json(later.to_json()) == later
    assert between(offset, later) == Range(after=7, upto=9)
    with pytest.raises(DataLossError, match="written in version 2"):
        Offset.from_json({**offset.to_json(), "v": 2})
    with pytest.raises(DataLossError, match="a checkpoint of its own"):
        Offset.from_json({"position": 1})


def test_a_range_is_cut_into_equal_parts_without_a_gap() -> None:
    whole = Range(after=10, upto=20)
    assert cut(whole, 3, processors=8, least=1000) == [
        Range(after=10, upto=13), Range(after=13, upto=16), Range(after=16, upto=20),
    ]  # fmt: skip
    assert cut(whole, None, processors=8, least=1000) == [whole]
    assert len(cut(whole, None, processors=2, least=1)) == 2
    assert len(cut(whole, 40, processors=2, least=1)) == 10
    assert cut(Range(after=4, upto=4), 3, processors=2, least=1) == []


def test_the_name_of_a_job_leaves_room_for_what_the_broker_calls_it() -> None:
    assert parse_options({"url": "stomp://there", "jobId": "j" * 196}).job_id == "j" * 196
    with pytest.raises(OptionError, match="the name of a job has 1 to 196"):
        parse_options({"url": "stomp://there", "jobId": "j" * 197})


def test_who_asks_after_a_sink_without_a_name_is_told() -> None:
    with pytest.raises(OptionError, match="option sinkId has 0 characters"):
        promoted("", url="stomp://127.0.0.1:1")
