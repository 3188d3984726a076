"""The index of messages that can expire."""

from __future__ import annotations

import pytest

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.queue.scheduled_messages import ExpiryIndex, is_expired


def entry(number: int, expiration_ms: int) -> QueueEntry:
    reference = MessageReference(ReferenceId(number), None, expiration_ms, 4, False)
    return QueueEntry(None, reference, MessageState.NEW)  # type: ignore[arg-type] # an index asks no queue


@pytest.mark.parametrize(("expiration_ms", "expired"), [(0, False), (99, True), (100, True), (101, False)])
def test_a_message_expires_at_its_time_and_zero_means_never(expiration_ms: int, expired: bool) -> None:
    assert is_expired(entry(1, expiration_ms).reference, 100) is expired


def test_it_finds_the_expired_in_order_and_plans_the_next_visit() -> None:
    index = ExpiryIndex()
    entries = {ms: entry(ms, ms) for ms in [300, 100, 200]}
    assert [index.add(each) for each in entries.values()] == [True, True, False]
    assert index.due_ms == 100
    assert index.take_expired(200, 1000) == [entries[100], entries[200]]
    assert index.due_ms == 300
    assert index.take_expired(300, 1000) == [entries[300]]
    assert index.due_ms is None


def test_what_has_left_the_channel_is_passed_over() -> None:
    index = ExpiryIndex()
    first, second = entry(1, 100), entry(2, 100)
    index.add(first)
    index.add(second)
    first.state = MessageState.ABSENT
    index.forget_one()
    assert index.take_expired(100, 1000) == [second]


def test_it_does_not_keep_many_that_have_left() -> None:
    index = ExpiryIndex()
    stays = entry(0, 10**12)
    index.add(stays)
    for number in range(1, 10_000):
        gone = entry(number, 10**12)
        index.add(gone)
        gone.state = MessageState.ABSENT
        index.forget_one()
    assert len(index) < 200
    assert index.take_expired(10**12, 1000) == [stays]
