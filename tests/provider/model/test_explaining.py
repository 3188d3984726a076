"""A queue says what a selector makes of its messages, and which clause decides."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.spi.errors import InvalidSelectorError
from pyjms_provider.model.managed import ManagedObject
from tests.provider.model.world import Folder


@pytest.fixture
def queue(folder: Folder) -> ManagedObject:
    made = folder.host().create_child("queue", {"name": "explained"})
    for number, properties in enumerate(({"region": "north", "amount": 5}, {"region": "south"})):
        made.invoke("publish", {"message": {"text": str(number), "properties": properties}})
    return made


def told(queue: ManagedObject, selector: str, **arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = queue.invoke("explain", {"selector": selector, **arguments})
    return found


def test_each_clause_has_its_value_and_the_values_that_it_read(queue: ManagedObject) -> None:
    first, second = told(queue, "region = 'north' AND amount > 10")
    assert (first["matches"], second["matches"]) == (False, False)
    region, amount = first["explanation"]["clauses"]
    assert (region["text"], region["value"], region["decides"]) == ("region = 'north'", True, False)
    assert (amount["text"], amount["value"], amount["decides"]) == ("amount > 10", False, True)
    assert amount["reads"] == {"amount": {"type": "int", "value": 5}}
    region, amount = second["explanation"]["clauses"]
    assert (region["decides"], amount["decides"]) == (True, False)
    assert (amount["value"], amount["reads"]) == (None, {"amount": {"type": "null", "value": None}})


def test_only_the_wanted_messages_are_explained(queue: ManagedObject) -> None:
    ids = [each["message_id"] for each in told(queue, "amount = 5")]
    assert [each["message_id"] for each in told(queue, "amount = 5", message_ids=ids[1:])] == ids[1:]
    assert [each["message_id"] for each in told(queue, "amount = 5", limit=1)] == ids[:1]
    assert told(queue, "amount = 5")[0]["matches"]


def test_a_wrong_selector_is_refused(queue: ManagedObject) -> None:
    with pytest.raises(InvalidSelectorError):
        told(queue, "region = = 1")
