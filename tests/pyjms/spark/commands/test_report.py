"""``pyjms pipeline report``: its figures are those that can be counted by hand, in JSON, in the table and on the page."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pyjms.history import Event
from pyjms.spark.checker.reading import table_of
from pyjms.spark.commands import commands
from pyjms.spark.commands.report import _show
from pyjms.spark.report import destination_cells, page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S = 10**9
START_S = 1_790_000_000
ORDERS, PRICES = "queue://orders", "topic://prices"
NOTHING = {"start_ns": 0, "width_ns": 1, "timeline": [], "destinations": [], "reasons": [], "reasons_left": 0}


def event(op: str, second: float, mid: str | None = None, dest: str | None = ORDERS, **more: Any) -> Event:
    """An event that takes a hundredth of a second."""
    t0 = START_S * S + round(second * S)
    given = {"ok": "ok", "t1": t0 + S // 100, "conn": "c", "sess": "s", "consumer": "r", **more}
    return Event(run="run", node="n", pid="1", op=op, t0=t0, mid=mid, dest=dest, **given)


def history() -> list[Event]:
    """Five orders sent for sure, one rolled back; one consumed, one rejected at its second delivery."""
    return [
        *(event("send", number, f"ID:{number}") for number in range(4)),
        event("send", 4, "ID:4", tx="t1"),
        event("commit", 5, dest=None, tx="t1"),
        event("send", 4, "ID:5", tx="t2"),
        event("rollback", 5, dest=None, tx="t2"),
        event("send", 4, "ID:6", ok="fail"),
        event("deliver", 4.5, "ID:0", redelivered=False),
        event("ack", 4.6, "ID:0"),
        event("deliver", 6, "ID:1", redelivered=False),
        event("deliver", 7, "ID:1", redelivered=True),
        event("ack", 8, "ID:1", note='{"rejected": "too cold"}'),
        event("deliver", 9, "ID:2", redelivered=False),
        event("ack", 9.5, "ID:2", tx="t3"),  # nobody has seen it committed
        event("send", 1, "ID:p", PRICES),
        event("deliver", 1.5, "ID:p", PRICES, redelivered=False),
        event("ack", 1.6, "ID:p", PRICES),
        event("browse", 9, "ID:3"),
    ]


def write_archive(folder: Path) -> None:
    dead = {
        "JMS_pyjms_deadKind": "deliveries",
        "JMS_pyjms_deadReason": "delivered 5 times",
        "JMS_pyjms_deadDestination": ORDERS,
    }
    rows = [
        ("queue:orders", 1, False, {"cups": "1"}),
        ("queue:orders", 2, True, {}),
        ("queue:dead", 3, True, dead),
        ("queue:dead", 3, True, dead),
        ("queue:route.undeliverable", 4, False, {"pyjms_undeliverable_reason": "no rule wants it"}),
    ]
    table = pa.table(
        {
            "destination": [row[0] for row in rows],
            "timestamp": pa.array([(START_S + row[1]) * 10**6 for row in rows], pa.timestamp("us", "UTC")),
            "redelivered": [row[2] for row in rows],
            "properties": pa.array([list(row[3].items()) for row in rows], pa.map_(pa.string(), pa.string())),
        }
    )
    folder.mkdir()
    pq.write_table(table, folder / "part-0.parquet")


@pytest.mark.timeout(500)  # starting Python's workers takes long on a busy machine
def test_the_figures_are_those_that_can_be_counted_by_hand(plain_spark: SparkSession, tmp_path: Path) -> None:
    recorded, archived = tmp_path / "recorded", tmp_path / "archived"
    recorded.mkdir()
    pq.write_table(table_of(history()), recorded / "a-1-000001.parquet")
    write_archive(archived)
    asked = ["report", str(recorded), "--archive", str(archived), "--report", str(tmp_path / "r.html"), "--json"]
    result = CliRunner().invoke(commands(), asked, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["events"], told["messages"]) == (len(history()), 5)
    rows = {row["destination"]: row for row in told["figures"]["destinations"]}
    orders = rows["queue:orders"]
    counts = (
        "sent",
        "delivered",
        "redelivered",
        "acknowledged",
        "rejected",
        "expired",
        "archived",
        "archived_redelivered",
    )
    assert [orders[name] for name in counts] == [5, 4, 1, 1, 1, 0, 2, 1]
    assert (orders["depth"], orders["most_depth"]) == (3, 4)
    seconds = 9.01 - 0.01
    assert orders["sent_per_second"] == pytest.approx(5 / seconds)
    latency = orders["latency"]
    assert (latency["messages"], latency["p50_ms"], latency["most_ms"]) == (3, 5010.0, 7010.0)
    prices = rows["topic:prices"]
    assert (prices["sent"], prices["delivered"], prices["depth"], prices["latency"]["p99_ms"]) == (1, 1, None, 510.0)
    assert [tuple(row.values()) for row in told["figures"]["reasons"]] == [
        ("queue:orders", "deliveries", "delivered 5 times", 2),
        ("queue:orders", "rejected", "too cold", 1),
        ("queue:route.undeliverable", "undeliverable", "no rule wants it", 1),
    ]
    assert_same_numbers((tmp_path / "r.html").read_text(encoding="utf-8"), told)
    tried = CliRunner().invoke(commands(), ["report", str(recorded), "--dry-run", "--json"], catch_exceptions=False)
    assert json.loads(tried.stdout) == {
        "histories": [str(recorded)], "archives": [], "events": len(history()), "messages": 0
    }  # fmt: skip
    nothing = CliRunner().invoke(commands(), ["report", str(tmp_path / "none")])
    assert (nothing.exit_code, "there is no recorded history in" in " ".join(nothing.output.split())) == (2, True)


def assert_same_numbers(text: str, told: dict[str, Any]) -> None:
    """The page is well-formed, loads nothing, and shows the numbers of the JSON."""
    root = ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert not [each for each in root.iter() if {"src", "href"} & set(each.attrib)]
    found = {each.get("id"): each for each in root.iter() if each.get("id")}
    rows = [tuple(cell.text or "" for cell in row) for row in found["destinations"].findall("tbody/tr")]
    assert rows == [destination_cells(row) for row in told["figures"]["destinations"]]
    assert len(found["reasons"].findall("tbody/tr")) == len(told["figures"]["reasons"])
    assert json.loads(found["data"].text or "") == told
    assert "Depth of queue:orders" in "".join(root.itertext())


def test_a_report_on_nothing_is_well_formed_too(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"histories": ["a"], "archives": [], "events": 0, "messages": 0, "figures": NOTHING}
    assert "Nothing." in "".join(ET.fromstring(page(data).removeprefix("<!DOCTYPE html>\n")).itertext())
    _show(data)
    assert "destination" in capsys.readouterr().out


def test_a_report_needs_something_to_read() -> None:
    result = CliRunner().invoke(commands(), ["report"])
    assert (result.exit_code, "name a directory" in result.output) == (2, True)
