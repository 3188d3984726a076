"""What a run over two sites is judged by: the file alone says what must be where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyjms.demo.books import Entry
from pyjms.demo.plan import Plan, make_plan, read_table
from pyjms.demo.sites.chain import WORKS
from pyjms.demo.sites.command import as_data
from pyjms.demo.sites.run import Death, Order, Outcome, Run, judge_orders, make_orders
from pyjms.flows import Status
from tests.tidy.source import ROOT

Written = dict[str, list[Entry]]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file = tmp_path / "orders.csv"
    rows = [f"{number},{'Rome' if number % 20 else ''},{number / 4}" for number in range(1, 61)]
    file.write_text("order,city,price\n" + "\n".join(rows) + "\n")
    return make_plan(read_table(file))


def written_by(plan: Plan, orders: tuple[Order, ...]) -> Written:
    """Return what is written when all goes well."""
    found: Written = {}
    for work in WORKS:
        for order in orders:
            if work.done_for_incomplete if order.missing else work.done_for_complete:
                found.setdefault(work.name, []).extend(order.entries(plan))
    return found


def judged(plan: Plan, spoil: Callable[[Written, dict[str, Status], dict[str, int]], object]) -> Outcome:
    orders = make_orders(plan)
    written = written_by(plan, orders)
    statuses = {each.instance: Status.COMPENSATED if each.missing else Status.COMPLETED for each in orders}
    left_over = {"shop.order in Lisbon": 0}
    spoil(written, statuses, left_over)
    return judge_orders(plan, orders, statuses, written, left_over)


def test_a_small_file_makes_many_orders_of_all_its_records(plan: Plan) -> None:
    orders = make_orders(plan)
    assert [len(each.records) for each in orders] == [3] * 20
    assert [record for each in orders for record in each.records] == list(plan.table.records)
    assert [each.number for each in orders if each.missing] == [7, 14, 20]
    assert orders[6].data(plan) == {"order": 7, "records": [[19, 4.75], [20, 5.0], [21, 5.25]], "missing": [20]}


def test_all_adds_up(plan: Plan) -> None:
    outcome = judged(plan, lambda *_: None)
    assert outcome.adds_up
    assert [(fate.orders, fate.records) for fate in outcome.fates] == [(17, 51), (3, 9)]
    assert {work.name: verdict.found for work, verdict in outcome.works} == {
        **dict.fromkeys(("order", "reserve", "invoice"), 60),
        "deliver": 51,
        **dict.fromkeys(("credit", "release", "cancel"), 9),
    }


@pytest.mark.parametrize(
    "spoil",
    [
        lambda written, _statuses, _left: written["deliver"].pop(),
        lambda written, _statuses, _left: written["invoice"].append(written["invoice"][0]),
        lambda written, _statuses, _left: written["release"].append(written["deliver"][0]),
        lambda written, _statuses, _left: written.update(credit=[Entry(19, 4.76, "7"), *written["credit"][1:]]),
        lambda written, _statuses, _left: written.pop("cancel"),
        lambda _written, statuses, _left: statuses.update({"order-1": Status.COMPENSATED}),
        lambda _written, statuses, _left: statuses.pop("order-2"),
        lambda _written, _statuses, left: left.update({"shop.order in Lisbon": 1}),
    ],
    ids=["lost", "twice", "where it does not belong", "altered", "not undone", "undone", "not ended", "left over"],
)
def test_what_is_wrong_is_noticed(
    plan: Plan, spoil: Callable[[Written, dict[str, Status], dict[str, int]], object]
) -> None:
    assert not judged(plan, spoil).adds_up


def test_the_outcome_as_data_has_what_the_tables_show(plan: Plan, tmp_path: Path) -> None:
    run = Run(plan, tmp_path, kills=1)
    run.deaths.append(Death(site="Oslo", ended=7, away_ms=2_000.4))
    data = json.loads(json.dumps(as_data(run, judged(plan, lambda written, *_: written["deliver"].pop()), 1.5)))
    assert data["input"] == {
        "file": "orders.csv",
        "records": 60,
        "columns": ["order", "city", "price"],
        "amount": "price",
        "orders": 20,
    }
    assert data["killed"] == [{"site": "Oslo", "ended_before": 7, "away_ms": 2000}]
    works = {each["destination"]: each for each in data["works"]}
    assert (works["deliver"]["lost"], works["deliver"]["adds_up"], works["credit"]["found"]) == ([57], False, 9)
    assert [(each["status"], each["found"]) for each in data["orders"]] == [("completed", 17), ("compensated", 3)]
    assert {each["name"]: each["expected"] for each in data["stages"]}["deliver"] == 51
    assert not data["adds_up"]


def test_the_page_of_the_demo_shows_what_the_shipped_records_come_to() -> None:
    plan = make_plan(read_table(ROOT / "pyjms/demo/data/flights.csv.gz"), route=["carrier"], amount="distance")
    orders = make_orders(plan)
    statuses = {each.instance: Status.COMPENSATED if each.missing else Status.COMPLETED for each in orders}
    outcome = judge_orders(plan, orders, statuses, written_by(plan, orders), {})
    page = (ROOT / "docs/tutorial/demo.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in page.splitlines() if line.startswith("│")]
    for work, verdict in outcome.works:
        records, total = f"{verdict.found:,}", f"{int(verdict.found_total):,}"
        assert [work.name, work.company, work.site, records, records, total, total, "ok"] in rows
    completed, compensated = outcome.fates
    assert f"It adds up: {completed.orders} orders completed, {compensated.orders} compensated." in page
    assert f"6,099 records in {len(orders)} orders" in page
