from __future__ import annotations

from typing import Any

import pytest

from pyjms.spi.selector import compile_selector
from pyjms.spi.selector.headers import ATTRIBUTES, FUNCTIONS, REFUSED, read
from pyjms.types import Long
from tests.pyjms.spi.selector.support import envelope


@pytest.mark.parametrize(
    ("name", "fields", "value"),
    [
        ("JMSDeliveryMode", {"delivery_mode": 2}, "PERSISTENT"),
        ("JMSDeliveryMode", {"delivery_mode": 1}, "NON_PERSISTENT"),
        ("JMSDeliveryMode", {"delivery_mode": 3}, None),
        ("JMSPriority", {"priority": 9}, 9),
        ("JMSMessageID", {"message_id": "ID:7"}, "ID:7"),
        ("JMSMessageID", {"message_id": None}, None),
        ("JMSTimestamp", {"timestamp_ms": 0}, 0),
        ("JMSTimestamp", {"timestamp_ms": 1_311_704_463_521}, 1_311_704_463_521),
        ("JMSCorrelationID", {"correlation_id": "x"}, "x"),
        ("JMSCorrelationID", {"correlation_id": None}, None),
        ("JMSCorrelationID", {"correlation_id": b"x"}, None),
        ("JMSType", {"jms_type": "car"}, "car"),
        ("JMSType", {"jms_type": None}, None),
    ],
)
def test_header_fields_are_read_with_the_type_that_selectors_see(name: str, fields: dict[str, Any], value: Any) -> None:
    subject = envelope({name: "a property cannot hide a header field"}, **fields)
    assert read(subject, name) == value
    literal = f"'{value}'" if isinstance(value, str) else value
    assert compile_selector(f"{name} IS NULL" if value is None else f"{name} = {literal}").matches(subject)


def test_the_fields_are_those_of_the_specification() -> None:
    readable = {*ATTRIBUTES, *FUNCTIONS}
    assert readable == {
        "JMSDeliveryMode", "JMSPriority", "JMSMessageID", "JMSTimestamp", "JMSCorrelationID", "JMSType",
    }  # fmt: skip
    assert readable | REFUSED == readable | {
        "JMSDestination",
        "JMSDeliveryTime",
        "JMSReplyTo",
        "JMSExpiration",
        "JMSRedelivered",
    }


@pytest.mark.parametrize("name", ["JMSXGroupID", "JMS_acme_region", "JMSFoo", "jmstype"])
def test_other_names_are_properties(name: str) -> None:
    assert read(envelope({name: "x"}), name) == "x"
    assert compile_selector(f"{name} = 'x'").matches(envelope({name: "x"}))
    assert compile_selector(f"{name} IS NULL").matches(envelope())


def test_a_timestamp_is_a_long_in_sums() -> None:
    subject = envelope({"limit": Long(2_000_000_000_000)}, timestamp_ms=1_999_999_999_000)
    assert compile_selector("JMSTimestamp + 1000 = limit").matches(subject)
    assert compile_selector("-JMSTimestamp < 0").matches(subject)
