"""A supply chain as a workflow, whose companies are dictionaries; what the tests share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyjms.flows import Flow, FlowStore, Instance, read_flow
from pyjms.flows.instance import Answer, Event, TimeOut, advance, begin

SUPPLY: Mapping[str, Any] = {
    "name": "order",
    "version": 1,
    "title": "An order of three companies",
    "initial_state": "asked",
    "step": [
        {
            "name": "reserve",
            "queue": "stock.reserve",
            "compensation": "stock.free",
            "state": "reserved",
            "timeout_s": 10,
            "retries": 1,
        },
        {"name": "weigh", "queue": "stock.weigh", "timeout_s": 10, "retries": 0, "on_timeout": "park"},
        {
            "name": "pay",
            "queue": "bank.pay",
            "compensation": "bank.refund",
            "state": "paid",
            "timeout_s": 10,
            "retries": 2,
        },
        {"name": "ship", "queue": "road.ship", "state": "on its way", "timeout_s": 10, "retries": 0},
    ],
}


def supply_flow(**changes: Any) -> Flow:
    return read_flow({**SUPPLY, **changes})


RESOURCES: Mapping[str, Mapping[str, list[str]]] = {
    "reserve": {"takes": ["goods", "shelf"]},
    "pay": {"takes": ["money"], "releases": ["shelf"]},
    "ship": {"releases": ["goods", "money"]},
}


def order_flow(**changes: Any) -> Flow:
    """Return the supply chain, whose steps take and release resources."""
    steps = [{**step, **RESOURCES.get(step["name"], {})} for step in SUPPLY["step"]]
    return read_flow({**SUPPLY, "step": steps, **changes})


SUPPLY_FLOW = supply_flow()


def parked(name: str) -> tuple[Event, ...]:
    """Return what has an instance parked at its second step."""
    return Answer(key=f"{name}:reserve"), TimeOut(revision=0)


def keep(store: FlowStore, name: str, *events: Event, at_ms: int = 1_000, flow: Flow = SUPPLY_FLOW) -> Instance:
    """Keep an instance to which these have happened."""
    instance, _ = begin(flow, name, {"item": "tea"}, at_ms)
    for event in events:
        seen = TimeOut(revision=instance.revision) if isinstance(event, TimeOut) else event
        instance, _ = advance(flow, instance, seen, instance.due_ms if isinstance(event, TimeOut) else at_ms)
    assert store.add(instance)
    return instance
