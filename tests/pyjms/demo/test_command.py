"""``pyjms demo``: its options, its output, its exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyjms.demo import command
from pyjms.demo.process import Process
from pyjms.demo.workers import StepMakers
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from tests.pyjms.demo.command_line import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.csv"
    rows = [f"{number},{'Rome' if number % 3 else 'Oslo'},{number}.5" for number in range(1, 31)]
    path.write_text("order,city,price\n" + "\n".join(rows) + "\n")
    return path


def data_of(run: Run, *arguments: str) -> dict[str, Any]:
    code, out, _ = run("demo", "--one-site", "--json", *arguments)
    assert code == 0
    data: dict[str, Any] = json.loads(out)
    return data


def test_the_shipped_records_add_up(run_pyjms: Run, jms_broker_url: str) -> None:
    data = data_of(run_pyjms, "--limit", "200", "--url", jms_broker_url)
    assert data["input"]["records"] == 200
    assert (data["input"]["route"], data["input"]["amount"]) == (["carrier"], "distance")
    assert data["adds_up"]
    assert data["nothing_lost"]
    assert data["nothing_twice"]
    assert sum(lane["found"] for lane in data["lanes"]) == 200
    assert sum(lane["found_total"] for lane in data["lanes"]) == data["input"]["total"]


def test_a_file_of_the_user_adds_up(run_pyjms: Run, file: Path, jms_broker_url: str) -> None:
    data = data_of(run_pyjms, str(file), "--failure-rate", "0.5", "--seed", "7", "--url", jms_broker_url)
    assert data["input"] == {
        "file": "orders.csv",
        "records": 30,
        "columns": ["order", "city", "price"],
        "route": ["city"],
        "amount": "price",
        "total": 480,
    }
    assert data["settings"] == {"url": jms_broker_url, "store": None, "workers": 3, "seed": 7, "failure_rate": 0.5}
    stages = {stage["name"]: stage for stage in data["stages"]}
    assert stages["check"]["done"] == 30
    check = stages["check"]
    assert check["rolled_back"] + check["crashed"] == check["redelivered"] + check["set_aside"] > 0
    assert [lane["destination"] for lane in data["lanes"]] == ["Rome", "Oslo", "everything else"]


def test_columns_can_be_chosen(run_pyjms: Run, file: Path, jms_broker_url: str) -> None:
    options = ("--route", "city", "--route", "order", "--amount", "order", "--lanes", "2", "--url", jms_broker_url)
    data = data_of(run_pyjms, str(file), *options)
    assert [lane["selector"] for lane in data["lanes"][:2]] == [
        "city = 'Oslo' AND order = '12'",
        "city = 'Oslo' AND order = '15'",
    ]
    assert data["input"]["total"] == sum(range(1, 31))


def test_a_person_sees_tables(run_pyjms: Run, file: Path, jms_broker_url: str) -> None:
    code, out, _ = run_pyjms("demo", "--one-site", str(file), "--url", jms_broker_url)
    assert code == 0
    assert "orders.csv: 30 records, routed by city, adding up price" in out
    assert "What went where" in out
    assert "It adds up: 30 records, 480 price. Nothing lost, nothing twice." in out


class Losing(StepMakers):
    """Nothing reaches the lanes."""

    def send_on(self, producer: Any, message: Any, **properties: Any) -> None:
        if "lane" not in properties:
            super().send_on(producer, message, **properties)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_does_not_add_up_is_an_error(
    run_pyjms: Run, file: Path, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(command, "Process", lambda plan, settings: Process(plan, settings, Losing))
    code, out, _ = run_pyjms("demo", "--one-site", str(file), "--url", jms_broker_url, *options)
    assert code == 1
    if options:
        assert json.loads(out)["nothing_lost"] is False
    else:
        assert "all lanes: 30 lost (records 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)" in out
        assert "It does not add up" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("no-such-file.csv",), "There is no file no-such-file.csv."),
        (("FILE", "--route", "town"), "has no column 'town'"),
        (("FILE", "--amount", "city"), "cannot be added up"),
        (("FILE", "--url", "nowhere://x"), "nowhere"),
        (("FILE", "--url", "not a url"), "not a url"),
        (("FILE", "--failure-rate", "1"), "failure-rate"),
        (("FILE", "--workers", "0"), "workers"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(
    run_pyjms: Run, file: Path, arguments: tuple[str, ...], reason: str
) -> None:
    code, out, err = run_pyjms(
        "demo", "--one-site", *(str(file) if argument == "FILE" else argument for argument in arguments)
    )
    assert code == 2
    assert reason in err
    assert "Traceback" not in out + err


@pytest.fixture
def store(tmp_path: Path, jms_broker_url: str) -> Iterator[tuple[str, ...]]:
    """The options for a broker that keeps its messages in a file."""
    name = f"{jms_broker_url}-kept"
    yield ("--url", f"{name}?synchronous=off", "--store", f"sqlite:///{tmp_path / 'demo.db'}")
    find_provider("vm").stop_broker(ProviderUrl.parse(name))


def test_a_run_on_a_store_adds_up_and_the_next_one_begins_anew(
    run_pyjms: Run, file: Path, store: tuple[str, ...]
) -> None:
    for _ in range(2):
        data = data_of(run_pyjms, str(file), *store)
        assert (data["adds_up"], data["resumed"]) == (True, False)
        assert {stage["before"] for stage in data["stages"]} == {0}


def test_a_person_sees_how_far_a_run_was_that_goes_on(
    run_pyjms: Run, file: Path, store: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_self: Process) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Process, "_audit", interrupted)
        code, _, err = run_pyjms("demo", "--one-site", str(file), *store)
    assert code == 130
    assert "Start it again with the same options, and it goes on" in err
    code, out, _ = run_pyjms("demo", "--one-site", str(file), *store)
    assert code == 0
    assert "orders.csv: 30 records, routed by city, adding up price, through" in out
    assert (
        "Going on with the run that was broken off. Done before: load 30, check 30, look up 30, dispatch 30, ledger 30, "
        "board 30\n"
    ) in out
    assert "before" in out
    assert "It adds up: 30 records" in out


def test_a_run_over_other_records_must_be_finished_first(
    run_pyjms: Run, file: Path, store: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Process, "_audit", lambda _self: None)
        assert run_pyjms("demo", str(file), *store)[0] == 1
    code, _, err = run_pyjms("demo", "--one-site", str(file), *store, "--lanes", "1")
    assert code == 2
    assert "a run that is not finished: orders.csv: 30 records, routed by city, adding up price" in err


@pytest.mark.parametrize(
    ("url", "reason"),
    [("stomp://host", "is for the embedded broker"), ("vm://demo?store=sqlite:///a.db", "names a store already")],
)
def test_a_store_is_the_embedded_brokers_and_named_once(run_pyjms: Run, file: Path, url: str, reason: str) -> None:
    code, _, err = run_pyjms("demo", "--one-site", str(file), "--url", url, "--store", "sqlite:///b.db")
    assert code == 2
    assert reason in err


def test_an_interrupt_ends_cleanly(
    run_pyjms: Run, file: Path, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_self: Process, _watch: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Process, "run", interrupted)
    code, _, err = run_pyjms("demo", "--one-site", str(file), "--url", jms_broker_url)
    assert code == 130
    assert "Stopped" in err
