"""What pipelines tell to programs that watch them, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyjms.spark.commands.running import BatchDone, batch_done, metering
from pyjms.spark.options import OptionError
from tests.ports import free_port

DONE = BatchDone(
    pipeline="route", name="orders", batch=7, messages_in=100, messages_out=120, seconds=1.5, ended_ms=1_790_000_000_250,
    lag_seconds=0.25, left=40,
)  # fmt: skip
PROGRESS: dict[str, Any] = {
    "batchId": 7,
    "numInputRows": 100,
    "timestamp": "2026-09-21T14:13:18.750Z",
    "durationMs": {"triggerExecution": 1500},
    "observedMetrics": {"newest": {"newest_ms": 1_790_000_000_000}},
    "sources": [{"endOffset": '{"v":1,"group":"orders","gen":"g","seq":60}', "latestOffset": '{"seq":100}'}],
}


def numbers(text: str) -> dict[str, float]:
    """Return what Prometheus reads."""
    return {
        sample.name.removeprefix("pyjms_pipeline_"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels == {"pipeline": "route", "name": "orders"} and not sample.name.endswith("_created")
    }


TWICE = {
    "messages_in_total": 200, "messages_out_total": 240, "batches_total": 2, "last_batch_seconds": 1.5,
    "last_batch_time_seconds": 1_790_000_000.25, "lag_seconds": 0.25, "left": 40,
}  # fmt: skip


def test_a_report_of_spark_becomes_what_is_told() -> None:
    assert batch_done("route", "orders", PROGRESS, 120) == DONE


def test_what_spark_does_not_say_is_not_guessed() -> None:
    silent = PROGRESS | {"observedMetrics": {}, "sources": [{"endOffset": None, "latestOffset": None}]}
    told = batch_done("archive", "orders", silent)
    assert (told.messages_out, told.lag_seconds, told.left) == (100, None, None)
    empty = PROGRESS | {"observedMetrics": {"newest": {"newest_ms": None}}}
    assert batch_done("archive", "orders", empty).lag_seconds is None


def test_each_batch_is_a_line_after_those_of_earlier_runs(tmp_path: Path) -> None:
    for _ in range(2):
        with metering(str(tmp_path / "m.jsonl")) as meter:
            meter.hear(DONE)
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert [BatchDone(**line) for line in lines] == [DONE, DONE]


def test_the_file_for_prometheus_is_whole_after_each_batch(tmp_path: Path) -> None:
    with metering(str(tmp_path / "m.prom")) as meter:
        meter.hear(DONE)
        assert numbers((tmp_path / "m.prom").read_text())["batches_total"] == 1
        meter.hear(DONE)
    assert numbers((tmp_path / "m.prom").read_text()) == TWICE
    assert [each.name for each in tmp_path.iterdir()] == ["m.prom"]


def test_prometheus_may_ask_a_port_as_long_as_the_pipeline_runs() -> None:
    place = f"127.0.0.1:{free_port()}"
    with metering(place) as meter:
        meter.hear(DONE)
        meter.hear(DONE)
        with urlopen(f"http://{place}/metrics", timeout=30) as answer:
            assert numbers(answer.read().decode()) == TWICE
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://{place}/metrics", timeout=30)


def test_nobody_need_ask(tmp_path: Path) -> None:
    with metering(None) as meter:
        meter.hear(DONE)
    with pytest.raises(OptionError, match="missing"), metering(str(tmp_path / "missing" / "m.jsonl")):
        raise AssertionError("the file cannot be written")


def test_a_port_that_none_is_says_so() -> None:
    with pytest.raises(OptionError, match="a port is a number up to 65535"), metering("127.0.0.1:99999"):
        pass
