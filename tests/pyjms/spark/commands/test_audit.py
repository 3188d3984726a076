"""``pyjms pipeline audit``: the verdict is the exit code, and the page says what the JSON says."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pyjms.history import check, read
from pyjms.history.command import commands as history_commands
from pyjms.history.events import Event
from pyjms.spark.checker import judging
from pyjms.spark.checker.audit import audit
from pyjms.spark.checker.judging import check_place_of_findings, write_findings
from pyjms.spark.checker.page import page
from pyjms.spark.checker.reading import read_history, table_of
from pyjms.spark.commands import commands
from pyjms.spark.options import OptionError
from pyjms.spi.words import rounded
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
        commands(), ["audit", str(folder), "--json", "--limit", "1000", "--report", str(tmp_path / "r.html")]
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
            *(rounded(row[name]) for name in ("p50_ms", "p90_ms", "p99_ms", "most_ms")),
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


def put(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def damage(kind: str, folder: Path) -> None:
    """Write a history with a fault into `folder`."""
    table = table_of(random_history(3).events)
    put(folder / "a-1-000001.parquet", table)
    other = folder / "a-1-000002.parquet"
    if kind == "no bytes":
        other.write_bytes(b"")
    elif kind == "torn":
        other.write_bytes((folder / "a-1-000001.parquet").read_bytes()[:500])
    elif kind == "another type":
        place = table.schema.get_field_index("t0")
        put(other, table.set_column(place, "t0", table.column("t0").cast(pa.string())))
    elif kind == "no times":
        put(other, pa.Table.from_pylist([{**row, "t0": None} for row in table.to_pylist()], schema=table.schema))
    else:
        put(other, pa.table({"x": [1]}))


@pytest.mark.parametrize("kind", ["no bytes", "torn", "another type", "no times", "foreign"])
def test_a_damaged_file_is_named_by_both_checkers(plain_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    damage(kind, tmp_path)
    pure = CliRunner().invoke(history_commands(), ["check", str(tmp_path)])
    spark = CliRunner().invoke(commands(), ["audit", str(tmp_path)])
    assert (pure.exit_code, spark.exit_code) == (2, 2), (pure.output, spark.output)
    name = "a-1-000002.parquet cannot be read as a history"
    assert (name in pure.output, name in spark.output) == (True, True), (pure.output, spark.output)
    url = CliRunner().invoke(commands(), ["audit", f"file://{tmp_path}"])
    assert (url.exit_code, "a-1-000002.parquet" in url.output, len(url.output.splitlines())) == (2, True, 1), url.output


def test_no_recording_is_passed_over_for_the_name_of_its_file_or_folder(
    plain_spark: SparkSession, tmp_path: Path
) -> None:
    whole = random_history(3).events
    parts = [whole[place::4] for place in range(4)]
    places = ("run[1]/a-1-000001.parquet", "brace{a,b}/a*-1.parquet", ".old/a-1-000003.parquet", "_a-1-000004.parquet")
    for place, events in zip(places, parts, strict=True):
        put(tmp_path / place, table_of(events))
    (tmp_path / "folder.parquet").mkdir()
    recorded = read_history(plain_spark, [tmp_path])
    assert recorded.events.count() == len(whole)
    assert sorted(read(tmp_path).events, key=repr) == sorted(whole, key=repr)
    assert read_history(plain_spark, [tmp_path / "run[1]"]).events.count() == len(parts[0])


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("nowhere", "there is no recorded history in file://"),
        ("empty", "there is no recorded history in file://"),
        ("hidden", "_a-1-000001.parquet cannot be read as a history: Spark passes over names"),
        ("folder", ".old/a-1-000001.parquet cannot be read as a history: Spark passes over names"),
        ("silent", "there are no events in file://"),
        ("h*dden", "Spark passes over names"),
    ],
)
def test_a_url_without_a_history_is_told_in_one_line(
    plain_spark: SparkSession, tmp_path: Path, place: str, told: str
) -> None:
    table = table_of(random_history(3).events)
    put(tmp_path / "hidden/_a-1-000001.parquet", table)
    put(tmp_path / "folder/.old/a-1-000001.parquet", table)
    put(tmp_path / "silent/a-1-000001.parquet", table_of([]))
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(commands(), ["audit", f"file://{tmp_path}/{place}"])
    assert (result.exit_code, told in result.output, len(result.output.splitlines())) == (2, True, 1), result.output


def names(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


@pytest.mark.requires("spark")
@pytest.mark.parametrize("url", ["", "file://"])
@pytest.mark.parametrize(
    "place", ["home/run", "home", "home/run/findings", "thesis", "other", "torn", "home/run/a-1-000001.parquet"]
)
def test_findings_are_written_nowhere_where_something_would_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, url: str
) -> None:
    monkeypatch.setattr("pyjms.spark.commands.audit.make_session", lambda *_, **__: pytest.fail("it starts"))
    put(tmp_path / "home/run/a-1-000001.parquet", table_of(random_history(3).events))
    put(tmp_path / "other/part-00000-x.snappy.parquet", pa.table({"h": [""], "x": [1]}))
    put(tmp_path / "thesis/chapter/1.txt", pa.table({"x": [1]}))
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/part-00000.parquet").write_bytes(b"PAR1")
    before = names(tmp_path)
    asked = ["audit", str(tmp_path / "home/run"), "--findings", f"{url}{tmp_path}/{place}"]
    result = CliRunner().invoke(commands(), asked)
    assert (result.exit_code, "name a" in result.output, len(result.output.splitlines())) == (2, True, 1), result.output
    assert names(tmp_path) == before


def test_findings_give_way_to_those_of_the_next_audit_and_to_nothing_else(
    plain_spark: SparkSession, faulty: tuple[Path, tuple[Event, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = check(faulty[1]).findings
    place = f"file://{tmp_path}/findings"
    first = audit(read_history(plain_spark, [faulty[0]])).findings
    for _ in range(2):
        write_findings(first, place, [faulty[0]])
        assert plain_spark.read.parquet(place).count() == len(found)
    monkeypatch.setattr(judging, "local_path", lambda _: None)  # as a place that only Spark reaches
    check_place_of_findings(place, ["hdfs://elsewhere"], None)
    write_findings(first, place, [faulty[0]])
    for name, told in (("more.txt", "'more.txt'"), ("part-1.parquet", "part-0")):
        put(tmp_path / "findings" / name, pa.table({"x": [1]}))
        before = names(tmp_path)
        with pytest.raises(OptionError, match=f"{told}.* in it, and all that is there would be deleted"):
            write_findings(first, place, [faulty[0]])
        assert names(tmp_path) == before
        (tmp_path / "findings" / name).unlink()
    with pytest.raises(OptionError, match="is, has or lies in the history"):
        write_findings(first, str(faulty[0]), [f"file://{faulty[0].parent}/f*"])
