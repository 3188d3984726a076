"""``pyjms pipeline audit``: the verdict is the exit code, and the page says what the JSON says."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pyjms.history import check
from pyjms.history.events import Event
from pyjms.spark.checker.page import page
from pyjms.spark.checker.reading import table_of
from pyjms.spark.commands import commands
from tests.pyjms.history.model import random_history

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Event, ...]]:
    """A history in which a message changed on its way and others came again, and where it lies."""
    events = list(random_history(56).events)
    place = next(place for place, event in enumerate(events) if event.op == "deliver")
    events[place] = replace(events[place], sha="other")
    folder = tmp_path_factory.mktemp("faulty")
    pq.write_table(table_of(events), folder / "a-1-000001.parquet")
    return folder, tuple(events)


@pytest.mark.timeout(500)  # starting Python's workers takes long on a busy machine
def test_the_command_prints_what_the_reference_finds_and_writes_a_page_of_it(
    plain_spark: SparkSession, faulty: tuple[Path, tuple[Event, ...]], tmp_path: Path
) -> None:
    folder, events = faulty
    result = CliRunner().invoke(
        commands(), ["audit", str(folder), "--json", "--listed", "1000", "--report", str(tmp_path / "r.html")]
    )
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    reference = check(events)
    assert told["counts"] == reference.counts()
    assert told["events"] == len(events)
    assert sorted(each["text"] for each in told["findings"]) == sorted(each.text for each in reference.findings)
    sent = sum(event.op == "send" and event.ok == "ok" for event in events)
    assert sum(row["sends"] for row in told["figures"]["timeline"]) == sent
    again = sum(event.op == "deliver" and event.redelivered is True for event in events)
    assert sum(row["redeliveries"] for row in told["figures"]["timeline"]) == again
    first = [event for event in events if event.op == "deliver" and not event.redelivered]
    assert sum(row["messages"] for row in told["figures"]["latency"]) == len(first)
    assert_same_numbers((tmp_path / "r.html").read_text(encoding="utf-8"), told)


def assert_same_numbers(text: str, told: dict[str, Any]) -> None:
    """The page is well-formed, loads nothing, and shows the numbers of the JSON."""
    root = ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert not [each for each in root.iter() if {"src", "href"} & set(each.attrib)]
    shown = {each.get("data-count"): int(each.text or "") for each in root.iter("td") if each.get("data-count")}
    assert shown == told["counts"]
    assert one(root, "events").text == str(told["events"])
    assert len(one(root, "findings").findall("tbody/tr")) == len(told["findings"])
    rows = [[cell.text for cell in row] for row in one(root, "latency").findall("tbody/tr")]
    wanted = [
        [
            row["destination"],
            str(row["messages"]),
            *(f"{row[name]:.3f}" for name in ("p50_ms", "p90_ms", "p99_ms", "most_ms")),
        ]
        for row in told["figures"]["latency"]
    ]
    assert rows == wanted
    assert json.loads(one(root, "data").text or "") == told
    bars = [each for each in root.iter("title") if (each.text or "").endswith(" redeliveries")]
    assert sum(int((each.text or "0").split()[0]) for each in bars) == sum(
        row["redeliveries"] for row in told["figures"]["timeline"]
    )


def one(root: ET.Element, name: str) -> ET.Element:
    found = [each for each in root.iter() if each.get("id") == name]
    assert len(found) == 1
    return found[0]


def test_a_page_without_findings_is_well_formed_too() -> None:
    figures = {"start_ns": 0, "width_ns": 1, "timeline": [], "latency": []}
    text = page(
        {"verdict": "information", "events": 0, "suspects": 0, "counts": {}, "findings": [], "figures": figures}
    )
    assert "Nothing found" in "".join(ET.fromstring(text.removeprefix("<!DOCTYPE html>\n")).itertext())


def test_a_rule_that_does_not_exist_and_an_empty_directory_are_told(plain_spark: SparkSession, tmp_path: Path) -> None:
    wrong = CliRunner().invoke(commands(), ["audit", str(tmp_path), "--without", "gone"])
    assert (wrong.exit_code, "there is no rule 'gone'" in wrong.output) == (2, True)
    empty = CliRunner().invoke(commands(), ["audit", str(tmp_path)])
    assert (empty.exit_code, "there is no recorded history in" in " ".join(empty.output.split())) == (2, True)
