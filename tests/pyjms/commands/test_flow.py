"""``pyjms flow``: definitions are checked, an order goes through, and a person decides what is parked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pyjms import ConnectionFactory
from pyjms.commands.flow import commands
from pyjms.flows import StepRefused, StepServer
from pyjms.flows.store import open_store
from pyjms_provider.broker import stop_broker

URL = "vm://flow-commands"
ORDER = """
name = "order"
[[step]]
name = "reserve"
queue = "stock.reserve"
compensation = "stock.free"
[[step]]
name = "pay"
queue = "bank.pay"
"""


@pytest.fixture
def order(tmp_path: Path) -> Path:
    path = tmp_path / "order.toml"
    path.write_text(ORDER)
    return path


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'flows.db'}"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands(), arguments, catch_exceptions=False)


def serve(queue: str, work: Any = lambda _data, _unit: {}) -> int:
    return StepServer(ConnectionFactory(URL), queue, work).serve(timeout_ms=1)


def refuse(_data: object, _unit: object) -> None:
    raise StepRefused("the card has expired")


@pytest.mark.parametrize("command", [("list",), ("show", "tea")])
def test_who_looks_where_no_store_is_makes_none(store: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    """An empty list would say that there are no workflows, of a database that nobody has named."""
    looked = run(*command, "--store", store)
    assert (looked.exit_code, "flows.db; name the database" in looked.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_an_order_is_begun_parked_tried_again_and_shown(order: Path, store: str, tmp_path: Path) -> None:
    try:
        with ConnectionFactory(URL).create_connection():
            engine = ("run", URL, str(order), "--store", store, "--until-idle")
            assert run("start", URL, "order", '{"item": "tea"}', "--id", "tea").stdout == "tea\n"
            assert run(*engine).exit_code == 0
            serve("stock.reserve")
            run(*engine)
            serve("bank.pay", refuse)
            run(*engine)
            serve("stock.free", refuse)
            run(*engine)
            parked = json.loads(run("list", "--store", store, "--status", "parked", "--json").stdout)
            assert [(each["id"], each["position"]) for each in parked] == [("tea", 0)]
            picture = tmp_path / "tea.svg"
            shown = run("show", "tea", "--store", store, "--picture", str(picture))
            assert "the compensation of reserve was refused: the card has expired" in shown.stdout
            assert "undo reserve" in picture.read_text()
            assert run("retry", URL, "tea").exit_code == 0
            run(*engine)
            assert serve("stock.free") == 1
            run(*engine)
            listed = run("list", "--store", store)
            assert ("compensated" in listed.stdout, listed.stderr) == (True, "1 instance\n")
            assert run("list", "--store", store, "--status", "parked").stdout == ""
    finally:
        stop_broker("flow-commands")


def test_an_order_is_cancelled_by_a_person(order: Path, store: str) -> None:
    try:
        with ConnectionFactory(URL).create_connection():
            engine = ("run", URL, str(order), "--store", store, "--until-idle")
            run("start", URL, "order", "--id", "tea")
            run(*engine)
            serve("stock.reserve")
            run(*engine)
            assert run("park", URL, "tea", "--reason", "wait").exit_code == 0
            run(*engine)
            assert json.loads(run("show", "tea", "--store", store, "--json").stdout)["status"] == "parked"
            run("park", URL, "tea", "--cancel", "--reason", "the customer left")
            run(*engine)
            assert json.loads(run("show", "tea", "--store", store, "--json").stdout)["status"] == "compensating"
    finally:
        stop_broker("flow-commands")


def test_a_definition_is_checked_and_drawn(order: Path, tmp_path: Path) -> None:
    picture = tmp_path / "order.svg"
    checked = run("check", str(order), "--picture", str(picture))
    assert checked.exit_code == 0
    assert "stock.free" in checked.stdout
    assert picture.read_text().startswith("<svg")
    assert json.loads(run("check", str(order), "--json").stdout)["steps"][1]["name"] == "pay"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (("check", "ORDER"), 1, "queue is None"),
        (("check", "missing.toml"), 2, "missing.toml"),
        (("start", URL, "order", "[]"), 2, "no JSON object"),
        (("start", URL, "order", "{"), 2, "no JSON"),
        (("start", URL, "order", "[" * 100_000), 2, "no JSON"),
        (("check", "DEEP"), 1, "nested too deeply"),
        (("show", "nobody", "--store", "STORE"), 2, "there is no instance nobody"),
        (("list", "--store", "nonsense"), 1, "cannot be opened"),
    ],
)
def test_what_is_wrong_is_told(order: Path, arguments: tuple[str, ...], exit_code: int, told: str) -> None:
    order.write_text('name = "order"\n[[step]]\nname = "a"\n')
    deep = order.with_name("deep.toml")
    deep.write_text("name = " + "[" * 100_000)
    kept = f"sqlite:///{order.with_name('kept.db')}"
    open_store(kept).close()
    files = {"ORDER": str(order), "DEEP": str(deep), "STORE": kept}
    result = run(*(files.get(each, each) for each in arguments))
    assert (result.exit_code, told in " ".join(result.output.split())) == (exit_code, True), result.output


@pytest.mark.parametrize("name", ["check", "run", "start", "list", "show", "retry", "park"])
def test_help_teaches_by_example(name: str) -> None:
    assert f"pyjms flow {name}" in run(name, "--help").stdout


@pytest.mark.realises("MOM-40", "MOM-42")
def test_states_and_what_is_held_in_them_are_shown(tmp_path: Path, store: str) -> None:
    file = tmp_path / "order.toml"
    file.write_text(
        ORDER.replace('"stock.free"', '"stock.free"\ntakes = ["goods"]')
        + 'compensation = "bank.refund"\nreleases = ["goods"]\n'
    )
    shown = run("check", str(file)).stdout
    assert "States of its instances" in shown
    states = json.loads(run("check", str(file), "--json").stdout)["states"]
    assert [(each["status"], each["step"], each["holds"], each["changing"]) for each in states] == [
        ("running", "reserve", [], ["goods"]),
        ("running", "pay", [], ["goods"]),
        ("completed", "", [], []),
        ("compensating", "pay", [], ["goods"]),
        ("compensating", "reserve", [], ["goods"]),
        ("compensated", "", [], []),
    ]
    try:
        run("run", URL, str(file), "--store", store, "--until-idle")
        run("start", URL, "order", "--id", "tea")
        run("run", URL, "--store", store, "--until-idle")
        assert "takes or releases: goods" in run("show", "tea", "--store", store).stdout
    finally:
        stop_broker(URL.removeprefix("vm://"))
