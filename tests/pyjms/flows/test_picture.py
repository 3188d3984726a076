"""Pictures: well-formed, and they show where an instance stands."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pyjms.flows import draw
from pyjms.flows.instance import Event, TimeOut
from tests.pyjms.flows.supply import supply_flow
from tests.pyjms.flows.test_instance import OVERDUE, done, refused, run

SVG = "{http://www.w3.org/2000/svg}"


def marks(picture: str) -> list[tuple[str, str]]:
    """Return the mark of each box with its name."""
    groups = ET.fromstring(picture).iter(f"{SVG}g")
    return [(group.get("class", ""), group.findtext(f"{SVG}text") or "") for group in groups if group.get("class")]


@pytest.mark.realises("MOM-53")
def test_a_definition_is_drawn_with_its_steps_and_compensations() -> None:
    picture = draw(supply_flow())
    texts = [each.text for each in ET.fromstring(picture).iter(f"{SVG}text")]
    assert {"reserve", "weigh", "pay", "ship", "undo reserve", "undo pay"} <= set(texts)
    assert marks(picture) == []


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([], [("now", "reserve")]),
        ([done("reserve")], [("done", "reserve"), ("now", "weigh")]),
        ([done("reserve"), OVERDUE], [("done", "reserve"), ("parked", "weigh")]),
        ([done("reserve"), refused("weigh")], [("done", "reserve"), ("now", "undo reserve")]),
        ([done("reserve"), refused("weigh"), done("reserve:undo")], [("done", "reserve"), ("undone", "undo reserve")]),
        (
            [done("reserve"), refused("weigh"), refused("reserve:undo")],
            [("done", "reserve"), ("parked", "undo reserve")],
        ),
    ],
)
def test_an_instance_is_drawn_where_it_stands(events: list[Event | TimeOut], shown: list[tuple[str, str]]) -> None:
    instance, _ = run(supply_flow(), *events)
    assert marks(draw(supply_flow(), instance)) == shown


def test_names_do_not_break_the_picture() -> None:
    flow = supply_flow(title="<b>&", step=[{"name": "a", "queue": "<q>&" * 20, "compensation": '"u"'}])
    assert "<b>" not in draw(flow)
    ET.fromstring(draw(flow))
