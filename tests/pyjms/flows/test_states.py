"""The states of a workflow's instances, and the resources that are held in each."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from sqlalchemy import create_engine, text

from pyjms import ConnectionFactory
from pyjms.flows import (
    FlowClient,
    FlowDefinitionException,
    FlowEngine,
    FlowStore,
    Status,
    StepRefused,
    StepServer,
    draw,
    read_flow,
    state_of,
    states_of,
)
from pyjms.flows.codec import write_flow_document
from pyjms.flows.instance import Answer, Event, Retry, Suspend, TimeOut, advance, begin
from pyjms.recoverable import Unit
from tests.pyjms.flows.supply import RESOURCES, SUPPLY, order_flow


@pytest.mark.realises("MOM-40", "MOM-42")
def test_each_state_tells_what_is_held_what_changes_and_what_others_see() -> None:
    told = [
        (each.status.value, each.step, each.visible_state, each.waits_for, set(each.holds), set(each.changing))
        for each in states_of(order_flow())
    ]
    everything = {"goods", "money"}
    assert told == [
        ("running", "reserve", "asked", "stock.reserve", set(), {"goods", "shelf"}),
        ("running", "weigh", "reserved", "stock.weigh", {"goods", "shelf"}, set()),
        ("running", "pay", "weigh", "bank.pay", {"goods"}, {"money", "shelf"}),
        ("running", "ship", "paid", "road.ship", set(), everything),
        ("completed", "", "on its way", None, set(), set()),
        ("compensating", "pay", "", "bank.refund", {"goods"}, {"money", "shelf"}),
        ("compensating", "reserve", "", "stock.free", set(), {"goods", "shelf"}),
        ("compensated", "", "", None, set(), set()),
    ]


@pytest.mark.realises("MOM-42")
def test_an_instance_is_always_in_one_of_them() -> None:
    flow, chance = order_flow(), random.Random(7)
    states, seen = set(states_of(flow)), set()
    for _ in range(300):
        instance, ask = begin(flow, "tea", {}, 1_000)
        while not instance.status.is_final:
            state = state_of(flow, instance)
            if instance.status is Status.PARKED:
                assert state.waits_for is None
                kin = [each for each in states if (each.step, each.is_backward) == (state.step, state.is_backward)]
                assert [(each.holds, each.changing) for each in kin] == [(state.holds, state.changing)]
            else:
                assert state in states
            seen.add(state)
            key = "" if ask is None else ask.key
            events: list[Event] = [
                Answer(key=key),
                Answer(key=key),
                Answer(key=key, is_refused=True),
                TimeOut(revision=instance.revision),
                Retry(),
                Retry(skip=True),
                Suspend(reason="wait"),
                Suspend(reason="away", compensate=True),
            ]
            instance, following = advance(flow, instance, chance.choice(events), instance.due_ms)
            ask = following or ask
        assert state_of(flow, instance) in states
        seen.add(state_of(flow, instance))
    assert states <= seen, "each of them is reached"


@pytest.mark.realises("MOM-40")
def test_companies_hold_just_what_the_states_say(factory: ConnectionFactory, store: FlowStore, tmp_path: Path) -> None:
    """Run orders that are refused here and there, and compare at every moment what the companies' database says is held."""
    flow, chance = order_flow(), random.Random(11)
    store.deploy(flow)
    database = create_engine(f"sqlite:///{tmp_path / 'companies.db'}")
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE held (name TEXT PRIMARY KEY)"))

    def work_of(step: str, takes: list[str], releases: list[str]) -> Any:
        def work(data: Mapping[str, Any], unit: Unit) -> None:
            if data["refusing"] == step:
                raise StepRefused("not today")
            for name in releases:
                gone = unit.connection.execute(text("DELETE FROM held WHERE name = :name"), {"name": name})
                assert gone.rowcount == 1
            for name in takes:
                unit.connection.execute(text("INSERT INTO held VALUES (:name)"), {"name": name})

        return work

    servers = []
    for step in flow.steps:
        takes, releases = list(step.takes), list(step.releases)
        servers.append(StepServer(factory, step.queue, work_of(step.name, takes, releases), database=database))
        if step.compensation is not None:
            undo = work_of(f"undo {step.name}", releases, takes)
            servers.append(StepServer(factory, step.compensation, undo, database=database))
    ends = set()
    for number, refusing in enumerate(["", "pay", "ship", "reserve", "weigh"]):
        with factory.create_connection() as jms:
            client = FlowClient(jms.create_session(False, 1))
            client.start("order", {"refusing": refusing}, instance=f"order-{number}")
        moments = 0
        while True:
            done = FlowEngine(factory, store).run(until_idle=True) + chance.choice(servers).serve(timeout_ms=1)
            instance = store.find(f"order-{number}")
            assert instance is not None
            state = state_of(flow, instance)
            with database.connect() as connection:
                held = set(connection.execute(text("SELECT name FROM held")).scalars())
            assert set(state.holds) <= held <= {*state.holds, *state.changing}, (refusing, state)
            moments += 1
            if instance.status.is_final and not done:
                break
        assert moments > 2
        ends.add(instance.status)
    assert ends == {Status.COMPLETED, Status.COMPENSATED}
    database.dispose()


@pytest.mark.parametrize(
    ("step", "changes", "told"),
    [
        ("reserve", {"takes": ["goods", "goods"]}, "takes is .*; write each name once"),
        ("reserve", {"takes": "goods"}, "takes is 'goods'"),
        ("reserve", {"takes": ["two words"]}, "takes is 'two words'; write a letter"),
        ("reserve", {"takes": [f"r{n}" for n in range(21)]}, "20 at most"),
        ("weigh", {"takes": ["scales"]}, r"step 2 \(weigh\): it takes or releases resources and has no compensation"),
        ("weigh", {"releases": ["goods"]}, r"step 2 \(weigh\): it takes or releases"),
        ("pay", {"takes": ["goods"]}, r"step 3 \(pay\): takes 'goods', which reserve holds already"),
        ("pay", {"takes": ["money"], "releases": ["gold"]}, r"step 3 \(pay\): releases 'gold', which no step before"),
        ("ship", {"releases": ["money"]}, "at its end an instance still holds 'goods', which reserve takes"),
    ],
)
def test_resources_that_cannot_be_are_told_with_their_place(step: str, changes: dict[str, Any], told: str) -> None:
    chosen = {**{name: dict(each) for name, each in RESOURCES.items()}, step: changes}
    with pytest.raises(FlowDefinitionException, match=told):
        read_flow({**SUPPLY, "step": [{**each, **chosen.get(each["name"], {})} for each in SUPPLY["step"]]})


def test_a_store_keeps_them_and_a_version_of_before_is_deployed_again(store: FlowStore) -> None:
    store.deploy(order_flow())
    assert store.flow("order") == order_flow()
    plain = read_flow({**SUPPLY, "version": 2})
    store.deploy(plain)
    assert "takes" not in json.loads(write_flow_document(plain))["steps"][0], "documents of earlier stores are equal"
    store.deploy(plain)


@pytest.mark.realises("MOM-40")
def test_the_picture_shows_them() -> None:
    flow = order_flow()
    instance, _ = begin(flow, "tea", {}, 1_000)
    for key in ("tea:reserve", "tea:weigh"):
        instance, _ = advance(flow, instance, Answer(key=key), 1_000)
    shown = [each.text for each in ET.fromstring(draw(flow, instance)).iter("{http://www.w3.org/2000/svg}text")]
    assert "holds goods, shelf" in shown, "of the step that changes nothing"
    assert "holds goods, +money, -shelf" in shown
    assert "running; holds goods; changing money, shelf" in shown
    plain = draw(read_flow(SUPPLY))
    assert "holds" not in plain
