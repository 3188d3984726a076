"""What an owner may choose for a queue, how it is written down, and what is refused with a remedy."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyjms_provider.core.policy import Overflow, PolicyError, QueuePolicies, QueuePolicy, QueueType


def test_the_default_is_a_standard_queue_where_a_listener_may_fail_seven_times_and_a_message_come_ten_times() -> None:
    policy = QueuePolicy()
    assert (policy.type, policy.is_limited, policy.changes_messages) == (QueueType.STANDARD, False, False)
    assert (policy.max_deliveries, policy.max_failures) == (10, 7)
    assert (policy.dead_letter, policy.expiry_queue) == ("DLQ", None)


@pytest.mark.parametrize(
    "policy",
    [
        QueuePolicy(),
        QueuePolicy(type=QueueType.LAST_VALUE, key="symbol", non_destructive=True, max_messages=5),
        QueuePolicy(max_bytes=10, overflow=Overflow.BLOCK, block_timeout_ms=3, redelivery_multiplier=1.5),
        QueuePolicy(delivery_mode=1, priority=9, time_to_live_ms=0, expiry_queue="late", paused=True),
    ],
)
def test_a_policy_survives_being_written_down(policy: QueuePolicy) -> None:
    assert QueuePolicy.from_json(policy.to_json()) == policy


def test_json_has_every_field_and_may_leave_fields_out() -> None:
    assert json.loads(QueuePolicy().to_json()).keys() == {field.name for field in fields(QueuePolicy)}
    assert QueuePolicy.from_json('{"type": "priority", "priorities": 2}') == QueuePolicy(
        type=QueueType.PRIORITY, priorities=2
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"type": "fifo"},
            "type is 'fifo'; no package brings the queue type 'fifo': install it, or choose one of standard, priority, last_value, sorted",
        ),
        ({"type": 1}, "type is 1; give a QueueType"),
        ({"overflow": "spill"}, "overflow is 'spill'; give one of reject, block, ring, flow_to_disk"),
        ({"colour": 1}, "has no colour; it has: block_timeout_ms,"),
        ({"max_messages": -1}, "max_messages is -1; give a number from 0 to"),
        ({"max_messages": "5"}, "max_messages is '5'; give a whole number"),
        ({"max_messages": True}, "max_messages is True; give a whole number"),
        ({"max_messages": None}, "max_messages is None; give a whole number"),
        ({"max_bytes": "10 apples"}, "max_bytes is '10 apples'; give a number of bytes, as 200MB or 1GiB"),
        ({"max_bytes": "9999999999GB"}, "max_bytes is 9999999999000000000; give a number from 0 to"),
        ({"redelivery_multiplier": "2"}, "give a number"),
        ({"redelivery_multiplier": 0.5}, "give a number from 1"),
        ({"priority": 10}, "priority is 10; give a number from 0 to 9"),
        ({"delivery_mode": 0}, "delivery_mode is 0; give a number from 1 to 2"),
        ({"paused": 1}, "paused is 1; give true or false"),
        ({"dead_letter": None}, "dead_letter is None; give a name"),
        ({"expiry_queue": ""}, "expiry_queue is ''; give a name"),
        ({"type": "sorted"}, "type=sorted needs key: give the name of a property"),
        ({"key": "x"}, "type=standard has no key: leave key out"),
        ({"priorities": 2}, "make it type=priority"),
        ({"overflow": "ring"}, "overflow=ring without a limit does nothing: give max_messages or max_bytes"),
        ({"max_messages": 1, "block_timeout_ms": 1}, "block_timeout_ms is for overflow=block"),
        ({"exclusive": True, "groups": True}, "leave one of them out"),
        ({"exclusive": True, "partitions": 2}, "leave one of them out"),
        ({"type": "last_value", "key": "k", "partitions": 2}, "type=last_value needs all messages in one place"),
        ({"partitions": 257}, "give a number from 1 to 256"),
        ({"non_destructive": True, "groups": True}, "leave exclusive and groups out"),
        ({"non_destructive": True, "type": "sorted", "key": "x"}, "leave one of them out"),
        ({"redelivery_delay_ms": 5, "max_redelivery_delay_ms": 4}, "raise it, or give 0"),
        ({"min_time_to_live_ms": 5, "max_time_to_live_ms": 4}, "raise it, or give 0"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field_and_a_remedy(values: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError) as raised:
        QueuePolicy.from_mapping(values)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("text", "count"), [("10", 10), ("10MB", 10_000_000), ("10 kB", 10_000), ("2GiB", 2**31), ("0", 0)]
)
def test_a_limit_in_bytes_may_be_given_as_text_with_a_unit(text: str, count: int) -> None:
    assert QueuePolicy.from_mapping({"max_bytes": text}).max_bytes == count


@pytest.mark.parametrize("text", ["", "{", "[]", "1"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match=r"write for instance \{\}"):
        QueuePolicy.from_json(text)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(json.loads(QueuePolicy().to_json()))),
        st.one_of(st.none(), st.booleans(), st.integers(-3, 12), st.floats(), st.text(max_size=3)),
        max_size=4,
    )
)
def test_any_values_make_a_policy_or_a_policy_error(values: dict[str, Any]) -> None:
    try:
        policy = QueuePolicy.from_mapping(values)
    except PolicyError:
        return
    assert QueuePolicy.from_json(policy.to_json()) == policy


def test_the_first_pattern_that_matches_counts() -> None:
    first, second, third = (QueuePolicy(max_messages=number) for number in (1, 2, 3))
    ring = QueuePolicy(max_messages=4, overflow=Overflow.RING)
    policies = QueuePolicies(
        default=third, patterns=(("orders.eu.*", first), ("orders.*", second), ("topic://news.*", ring))
    )
    assert [policies.for_queue(name) for name in ("orders.eu.1", "orders.us", "Orders.us", "news.x")] == [
        first,
        second,
        third,
        third,
    ]
    assert policies.for_subscription("news.x") is ring
    assert policies.for_subscription("orders.eu.1") == QueuePolicy()


def test_the_queue_that_takes_what_has_expired_for_all_drops_what_expires_there() -> None:
    policies = QueuePolicies(
        default=QueuePolicy(expiry_queue="late"), patterns=(("l*", QueuePolicy(expiry_queue="last")),)
    )
    assert [policies.for_queue(name).expiry_queue for name in ("orders", "late", "last")] == ["late", "last", None]
    with pytest.raises(PolicyError, match="expiry_queue is 'late', the queue itself"):
        QueuePolicies(patterns=(("late", QueuePolicy(expiry_queue="late")),))


@pytest.mark.parametrize("overflow", [Overflow.REJECT, Overflow.BLOCK])
def test_one_slow_subscriber_cannot_be_made_to_stop_all_publishers(overflow: Overflow) -> None:
    policy = QueuePolicy(max_messages=1, overflow=overflow)
    with pytest.raises(PolicyError, match="give ring or flow_to_disk"):
        QueuePolicies(patterns=(("topic://*", policy),))
    with pytest.raises(PolicyError, match="subscriptions: "):
        QueuePolicies(subscriptions=policy)
