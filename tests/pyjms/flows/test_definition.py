"""Definitions are data, and what is wrong with one is told with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms.flows import FlowDefinitionException, read_flow, read_flow_file
from tests.pyjms.flows.supply import SUPPLY, supply_flow

TOML = """
name = "order"
[[step]]
name = "reserve"
queue = "stock.reserve"
compensation = "stock.free"
"""


@pytest.mark.realises("MOM-53")
def test_a_definition_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "order.toml"
    path.write_text(TOML)
    flow = read_flow_file(path)
    assert (flow.name, flow.version, flow.steps[0].compensation, flow.steps[0].state) == (
        "order",
        1,
        "stock.free",
        "reserve",
    )


@pytest.mark.realises("MOM-42")
def test_it_names_the_states_that_others_may_see() -> None:
    assert supply_flow().states() == ("asked", "reserved", "weigh", "paid", "on its way")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, "there is no step"),
        ({**SUPPLY, "name": "1st"}, "name is '1st'; write a letter"),
        ({**SUPPLY, "version": 0}, "version is 0; write a number from 1"),
        ({**SUPPLY, "version": True}, "version is True"),
        ({**SUPPLY, "steps": []}, "'steps' is not known"),
        ({**SUPPLY, "step": [{"name": "a", "queue": "q"}, {"name": "a", "queue": "q"}]}, "two steps are named 'a'"),
        ({**SUPPLY, "step": ["a"]}, "step 1: a table"),
        ({**SUPPLY, "step": [{"name": "a"}]}, r"step 1 \(a\): queue is None"),
        (
            {**SUPPLY, "step": [{"name": "a", "queue": "q", "undo": "r"}]},
            "step 1: 'undo' is not known; there are backoff_s",
        ),
        ({**SUPPLY, "step": [{"name": "a", "queue": "q", "timeout_s": 0}]}, "timeout_s is 0"),
        ({**SUPPLY, "step": [{"name": "a", "queue": "q", "on_timeout": "wait"}]}, "'compensate' or 'park'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(content: dict[str, Any], told: str) -> None:
    with pytest.raises(FlowDefinitionException, match=told):
        read_flow(content)


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "order.toml"
    path.write_text("name = ")
    with pytest.raises(FlowDefinitionException, match="no TOML"):
        read_flow_file(path)
