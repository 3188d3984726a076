"""A message that is sent twice with one id of its producer's arrives once."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.spi.errors import ProviderError, ResourceError
from pyjms_provider.core.host import admission as duplicates
from pyjms_provider.core.host.admission import DuplicateClaim
from pyjms_provider.core.queue.queue_rules import QueueFullError
from pyjms_provider.core.transaction.unit_of_work import UnitOfWork
from tests.provider.helpers import make_envelope
from tests.provider.policy_world import PolicyWorld, address


def send(
    world: PolicyWorld, identity: Any, text: str = "", *, to: str = "orders", unit: UnitOfWork | None = None
) -> None:
    world.send(text, to, unit=unit, properties={"JMS_pyjms_duplicateId": identity})


def claimed(world: PolicyWorld, identity: str, unit: UnitOfWork) -> DuplicateClaim:
    """Let a message of a transaction in, and return its claim of the id."""
    envelope = make_envelope(destination=address("orders"), properties={"JMS_pyjms_duplicateId": identity})
    permit = world.host.admission.admit(world.queue, envelope, None, unit)
    assert permit is not None
    assert permit.duplicate is not None
    return permit.duplicate


def test_the_second_message_with_an_id_is_accepted_and_dropped() -> None:
    world = PolicyWorld()
    for text in ("first", "again"):
        send(world, "a", text)
    send(world, "b", "other")
    assert world.texts() == ["first", "other"]
    assert len(world.store) == 2


def test_ids_are_forgotten_after_the_window_and_beyond_its_number() -> None:
    world = PolicyWorld(duplicate_window_ms=100, duplicate_count=2)
    for identity in "abc":
        send(world, identity, identity)
    send(world, "a", "a2")
    send(world, "c", "c2")
    assert world.texts() == ["a", "b", "c", "a2"]
    world.pass_time(100)
    send(world, "c", "c3")
    assert world.texts()[-1] == "c3"


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
def test_a_clock_that_is_set_makes_the_window_neither_shorter_nor_longer(hours: int) -> None:
    world = PolicyWorld(duplicate_window_ms=100)
    send(world, "a", "a")
    world.set_clock(hours * 3_600_000)
    world.pass_time(99)
    send(world, "a", "again")
    assert world.texts() == ["a"]
    world.pass_time(1)
    send(world, "a", "late")
    assert world.texts() == ["a", "late"]


def test_each_destination_has_a_window_of_its_own() -> None:
    world = PolicyWorld()
    subscription = world.subscribe("topic://orders")
    for to in ("orders", "bulk", "topic://orders", "topic://orders"):
        send(world, "a", to, to=to)
    assert (world.texts(), world.texts("bulk"), len(subscription.browse())) == (["orders"], ["bulk"], 1)


def test_an_id_counts_from_the_commit_on_and_not_after_a_rollback() -> None:
    world = PolicyWorld()
    unit = world.unit()
    send(world, "a", "first", unit=unit)
    with pytest.raises(ResourceError, match="in a transaction that has not ended"):
        send(world, "a", "other")
    unit.rollback()
    unit = world.unit()
    send(world, "a", "second", unit=unit)
    unit.commit(0)
    send(world, "a", "third")
    send(world, "a", "fourth", unit=world.unit())
    assert world.texts() == ["second"]


def test_a_unit_that_has_ended_takes_no_ids() -> None:
    world = PolicyWorld()
    unit = world.unit()
    unit.rollback()
    send(world, "a", unit=unit)
    send(world, "a", "arrives")
    assert world.texts() == ["arrives"]


def test_a_message_that_was_refused_may_be_sent_again() -> None:
    world = PolicyWorld(max_messages=1)
    world.send("x")
    with pytest.raises(QueueFullError):
        send(world, "a")
    world.manager.purge("orders")
    send(world, "a", "arrives")
    assert world.texts() == ["arrives"]


def test_a_queue_that_looks_for_no_duplicates_takes_all() -> None:
    world = PolicyWorld(duplicate_count=0)
    for _ in range(2):
        send(world, "a", "x")
    assert world.texts() == ["x", "x"]


def test_an_id_is_a_text() -> None:
    world = PolicyWorld()
    with pytest.raises(ProviderError, match="string property"):
        send(world, 5)
    assert len(world.store) == 0


def test_a_queue_that_was_destroyed_remembers_nothing() -> None:
    world = PolicyWorld()
    send(world, "a", "first")
    world.manager.destroy("orders")
    send(world, "a", "second")
    assert world.texts() == ["second"]


def test_who_sent_to_a_queue_that_was_destroyed_says_nothing_of_what_a_journal_may_forget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next queue of the name has ids that its window does not know."""
    monkeypatch.setattr(duplicates, "_FORGOTTEN_TOGETHER", 1)
    world = PolicyWorld()
    controller, unit = world.host.admission, world.unit()
    claim = claimed(world, "a", unit)
    assert controller.mark(claim, None).forgets_below > 0
    controller.forget(claim.address)
    send(world, "b")
    assert controller.mark(claim, None).forgets_below == 0


def test_an_id_is_marked_once_more_until_it_has_arrived() -> None:
    """Who decides about a branch may be interrupted, and decide again."""
    world = PolicyWorld()
    controller, unit = world.host.admission, world.unit()
    claim = claimed(world, "a", unit)
    first, second = controller.mark(claim, None), controller.mark(claim, None)
    assert first.serial < second.serial
    claim.end(arrived=True)
    assert controller.mark(claim, None) == second
