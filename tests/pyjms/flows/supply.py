"""A supply chain as a workflow, whose companies are dictionaries; what the tests share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyjms.flows import Flow, read_flow

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
