"""Filters as selectors: what is chosen is at least what Spark would choose."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pyjms.spark.source import Condition, selector_of
from pyjms.spi.selector import compile_selector

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
MS = int(MOMENT.timestamp() * 1000)


@pytest.mark.parametrize(
    ("operator", "column", "value", "selector"),
    [
        ("=", "type", "it's", "JMSType = 'it''s'"),
        ("IN", "correlation_id", ["a", "b"], "JMSCorrelationID IN ('a', 'b')"),
        ("STARTS", "type", "a_b%", r"JMSType LIKE 'a\_b\%%' ESCAPE '\'"),
        ("IS NOT NULL", "message_id", None, "JMSMessageID IS NOT NULL"),
        ("=", "delivery_mode", "PERSISTENT", "JMSDeliveryMode = 'PERSISTENT'"),
        (">=", "priority", 5, "JMSPriority >= 5"),
        ("IN", "priority", [1, 9], "(JMSPriority = 1 OR JMSPriority = 9)"),
        (">", "timestamp", MOMENT, f"JMSTimestamp >= {MS - 1}"),
        ("<", "timestamp", MOMENT, f"JMSTimestamp <= {MS + 1}"),
        ("=", "timestamp", MOMENT, f"JMSTimestamp BETWEEN {MS - 1} AND {MS + 1}"),
        (">", "type", "a", None),
        ("IS NULL", "type", None, None),
        ("", "type", "a", None),
        ("=", "text", "a", None),
        ("=", "priority", "a", None),
        ("=", "timestamp", MOMENT.replace(tzinfo=None), None),
    ],
)
def test_a_filter_becomes_a_selector_or_is_left_to_spark(
    operator: str, column: str, value: Any, selector: str | None
) -> None:
    assert selector_of([Condition(operator=operator, column=column, value=value)]) == selector
    if selector is not None:
        compile_selector(selector)


def test_all_conditions_hold_together() -> None:
    both = [Condition(operator="=", column="type", value="a"), Condition(operator=">", column="priority", value=3)]
    assert selector_of(both) == "JMSType = 'a' AND JMSPriority > 3"


@pytest.mark.parametrize("column", ["message_id", "priority"])
def test_what_a_selector_has_no_room_for_is_left_to_spark(column: str) -> None:
    values = [f"ID:{each}" for each in range(60_000)] if column == "message_id" else list(range(60_000))
    many = Condition(operator="IN", column=column, value=values)
    few = Condition(operator="=", column="type", value="a")
    assert selector_of([many]) is None
    assert selector_of([many, few, many]) == "JMSType = 'a'"
    halves = [Condition(operator="=", column="type", value=letter * 20_000) for letter in "abcd"]
    selector = selector_of(halves)
    assert selector == f"JMSType = '{'a' * 20_000}'"
    compile_selector(selector)
