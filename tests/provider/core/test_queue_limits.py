"""Limits in messages and bytes, and what happens to those that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import DELIVER_AT
from pyjms.spi.errors import ClosedError, ProviderError
from pyjms.testing import VirtualClock
from pyjms.types import Long
from pyjms_provider.core.channel import ChannelClosedError
from pyjms_provider.core.host.admission import AdmissionController, SendTimeout
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.queue_rules import QueueFullError
from pyjms_provider.core.store import approximate_size
from pyjms_provider.core.transaction.unit_of_work import UnitOfWork
from tests.provider.helpers import entry_of, make_envelope
from tests.provider.policy_world import PolicyWorld, pulled

SIZE = approximate_size(make_envelope("a"))


class Sender:
    """Sends on a thread of its own, and says how it ended."""

    def __init__(self, world: PolicyWorld, text: str, unit: UnitOfWork | None = None) -> None:
        self.patience = SendTimeout()
        self.error: ProviderError | None = None
        self._world = world
        self._text = text
        self._unit = unit
        self._thread = Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        try:
            self._world.send(self._text, unit=self._unit, patience=self.patience)
        except ProviderError as error:
            self.error = error

    def wait(self) -> ProviderError | None:
        self._thread.join(10)
        assert not self._thread.is_alive(), f"{self._text} is still being sent"
        return self.error


def blocking(timeout_ms: int = 0) -> tuple[PolicyWorld, VirtualClock]:
    world = PolicyWorld()
    world.host.clock = clock = VirtualClock()
    world.host.admission = AdmissionController(clock, world.host.trace)
    world.manager.alter("orders", max_messages=1, overflow="block", block_timeout_ms=timeout_ms)
    return world, clock


class ScriptedClock(VirtualClock):
    """Does the next step whenever somebody would sleep, on his own thread."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__()
        self.steps = list(steps)

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        assert self.steps, "he sleeps once more"
        self.steps.pop(0)()
        assert signal.wait(0), "nobody wakes him"
        return True


def wait_until_blocked(world: PolicyWorld, senders: int = 1) -> None:
    room = world.queue.rules.room  # type: ignore[union-attr]  # the queue has limits
    assert room is not None
    never = Event()
    for _ in range(10_000):
        if room.waiting_count == senders:
            return
        never.wait(0.001)
    raise AssertionError(f"{room.waiting_count} senders wait, not {senders}")


# Reject


def test_a_full_queue_refuses_messages() -> None:
    world = PolicyWorld(max_messages=2)
    for text in "ab":
        world.send(text)
    with pytest.raises(QueueFullError, match="orders is full: its limit is 2 messages; receive messages from it"):
        world.send("c")
    assert QueueFullError.jms_name == "ResourceAllocationException"
    assert len(world.store) == 2, "nothing is left of what was refused"
    reader = world.reader()
    held = pulled(reader)
    with pytest.raises(QueueFullError):
        world.send("c")
    reader.settle(held)
    world.send("c")
    assert world.texts() == ["b", "c"]


def test_bytes_are_limited_too() -> None:
    size = approximate_size(make_envelope("x" * 100))
    world = PolicyWorld(max_bytes=2 * size)
    world.send("x" * 100)
    world.send("y" * 100)
    assert world.manager.report("orders").size == 2 * size
    with pytest.raises(QueueFullError, match=f"its limit is {2 * size} bytes"):
        world.send("")
    world.manager.purge("orders")
    world.send("z" * 10_000)
    assert len(world.texts()) == 1, "an empty queue takes any message"


def test_a_transaction_takes_room_when_it_sends_and_gives_it_back_when_it_rolls_back() -> None:
    world = PolicyWorld(max_messages=2)
    unit = world.unit()
    world.send("a", unit=unit)
    world.send("b", unit=unit)
    with pytest.raises(QueueFullError):
        world.send("c", unit=unit)
    with pytest.raises(QueueFullError):
        world.send("c")
    unit.rollback()
    other = world.unit()
    for text in "de":
        world.send(text, unit=other)
    other.commit(0)
    assert world.texts() == ["d", "e"]
    reader, unit = world.reader(), world.unit()
    delivery = pulled(reader)
    unit = type(unit)(unit.unit_id, reader.session)
    entry = delivery.tag
    assert world.queue.settle_in(unit, [(entry, delivery.count)], reader.session)  # type: ignore[list-item]
    with pytest.raises(QueueFullError):
        world.send("f")
    unit.commit(0)
    world.send("f")


def test_expired_and_purged_messages_make_room() -> None:
    world = PolicyWorld(max_messages=1)
    world.send("a", ttl_ms=10)
    world.pass_time(10)
    world.send("b")
    assert world.manager.purge("orders") == 1
    world.send("c")
    assert world.texts() == ["c"]


def test_limits_may_be_altered_while_messages_are_there() -> None:
    world = PolicyWorld()
    for text in "abc":
        world.send(text)
    world.manager.alter("orders", max_messages=3)
    with pytest.raises(QueueFullError):
        world.send("d")
    world.manager.alter("orders", max_messages=4)
    world.send("d")
    world.manager.alter("orders", max_messages=0)
    world.send("e")
    assert len(world.texts()) == 5


def send_as_soon_as_one_is_in(monkeypatch: pytest.MonkeyPatch, send: Callable[[], object]) -> None:
    """Have `send` called once, when a queue has taken a message over and its sender has not returned."""
    enqueue = Queue.enqueue

    def take_over_and_send(queue: Queue, *what: Any) -> bool:
        monkeypatch.undo()
        taken = enqueue(queue, *what)
        send()
        return taken

    monkeypatch.setattr(Queue, "enqueue", take_over_and_send)


@pytest.mark.parametrize("limits", [{"max_messages": 2}, {"max_bytes": 2 * SIZE}])
@pytest.mark.parametrize("transacted", [False, True])
def test_a_message_takes_its_room_once(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], transacted: bool
) -> None:
    world = PolicyWorld(**limits)
    unit = world.unit() if transacted else None
    send_as_soon_as_one_is_in(monkeypatch, lambda: world.send("b", unit=unit))
    world.send("a", unit=unit)
    with pytest.raises(QueueFullError):
        world.send("c")
    if unit is not None:
        unit.rollback()
        for text in "de":
            world.send(text)
    assert world.texts() == (["d", "e"] if transacted else ["a", "b"])


# Ring


def later(world: PolicyWorld, milliseconds: int = 1_000) -> dict[str, Any]:
    """Return what a send takes for a message that is to be delivered later."""
    return {"properties": {DELIVER_AT: Long(world.clock.now_ms + milliseconds)}}


def test_a_ring_drops_the_oldest_that_nobody_holds() -> None:
    world = PolicyWorld(max_messages=3, overflow="ring")
    reader = world.reader()
    world.send("held")
    held = pulled(reader)
    for text in "abcd":
        world.send(text)
    assert world.texts() == ["c", "d"]
    reader.give_back(held)
    assert world.texts() == ["held", "c", "d"]
    world.send("e")
    assert world.texts() == ["c", "d", "e"]
    assert len(world.store) == 3


def test_a_ring_drops_what_is_needed_least() -> None:
    world = PolicyWorld(max_messages=2, overflow="ring")
    for text, priority in (("low1", 1), ("high", 9), ("low2", 1), ("middle", 4)):
        world.send(text, priority=priority)
    assert world.texts() == ["high", "middle"]
    world.send("low3", priority=0)
    assert world.texts() == ["high", "middle"], "even if it is what has just come"


def test_a_ring_that_is_full_of_held_messages_grows() -> None:
    world = PolicyWorld(max_messages=1, overflow="ring")
    reader = world.reader()
    world.send("a")
    pulled(reader)
    world.send("b")
    world.send("c")
    assert (world.texts(), world.queue.count(MessageState.DELIVERED)) == ([], 1)


def test_a_ring_is_closed_by_the_commit() -> None:
    world = PolicyWorld(max_messages=2, overflow="ring")
    world.send("a")
    unit = world.unit()
    for text in "bcd":
        world.send(text, unit=unit)
    assert world.texts() == ["a"]
    unit.commit(0)
    assert world.texts() == ["c", "d"]


def test_a_sorted_ring_keeps_the_first() -> None:
    world = PolicyWorld(max_messages=2, overflow="ring", type="sorted", key="n")
    for number in (3, 1, 2):
        world.send(str(number), properties={"n": number})
    assert world.texts() == ["1", "2"]


def test_a_ring_counts_out_what_waits_for_its_time() -> None:
    world = PolicyWorld(max_messages=3, overflow="ring")
    for text in "abcde":
        world.send(text, **later(world))
    assert world.queue.delayed_count == 3, "a limit holds for them, too"
    world.send("f")
    assert (world.texts(), world.queue.delayed_count) == (["f"], 2), "the newest one was dropped"
    world.send("g", priority=9)
    world.send("h", **later(world, 500), priority=9)
    world.send("i", **later(world, 500))
    assert (world.texts(), world.queue.delayed_count) == (["g"], 2)
    world.pass_time(1_000)
    assert world.texts() == ["g", "h", "i"]
    assert len(world.store) == 3


def test_a_ring_counts_out_what_was_given_back_and_is_kept_away() -> None:
    world = PolicyWorld(max_messages=3, overflow="ring", redelivery_delay_ms=1_000)
    reader = world.reader()
    for text in "abc":
        world.send(text)
    for held in [pulled(reader) for _ in range(3)]:
        reader.give_back(held)
    world.send("d")
    world.send("e")
    assert (world.texts(), world.queue.delayed_count) == (["d", "e"], 1)
    world.pass_time(1_000)
    assert world.texts() == ["c", "d", "e"]


def test_a_sorted_ring_drops_what_it_has_before_what_comes_later() -> None:
    world = PolicyWorld(max_messages=2, overflow="ring", type="sorted", key="n")
    world.send("later", properties={"n": 9, **later(world)["properties"]})
    for number in (3, 1):
        world.send(str(number), properties={"n": number})
    assert (world.texts(), world.queue.delayed_count) == (["1"], 1)


def test_a_ring_that_becomes_smaller_drops_at_once() -> None:
    world = PolicyWorld(max_messages=6, overflow="ring")
    for text in "abcd":
        world.send(text)
    world.send("later", **later(world))
    world.manager.alter("orders", max_messages=2)
    assert (world.texts(), world.queue.delayed_count, len(world.store)) == (["d"], 1, 2)


def test_a_limit_in_bytes_counts_what_was_there_before_it() -> None:
    world = PolicyWorld()
    for text in "abc":
        world.send(text)
    world.manager.alter("orders", max_bytes=3 * SIZE, overflow="reject")
    assert world.queue.size == 3 * SIZE
    with pytest.raises(QueueFullError):
        world.send("d")
    world.manager.alter("orders", max_bytes=2 * SIZE, overflow="ring")
    assert world.texts() == ["b", "c"]


def test_subscribers_lose_the_oldest_and_publishers_go_on() -> None:
    ring = QueuePolicy.from_mapping({"max_messages": 2, "overflow": "ring"})
    world = PolicyWorld(QueuePolicies(patterns=(("topic://news.*", ring),)))
    topic = world.host.topic("news.eu")
    assert topic.policy is ring
    subscription = world.subscribe("topic://news.eu")
    for text in "abc":
        world.send(text, "topic://news.eu")
    assert [envelope.body for envelope in subscription.browse()] == ["b", "c"]


# Block


def test_senders_wait_for_room_and_get_it_in_their_order() -> None:
    world, _ = blocking()
    world.send("a")
    first = Sender(world, "b")
    wait_until_blocked(world, 1)
    second = Sender(world, "c")
    wait_until_blocked(world, 2)
    reader = world.reader()
    reader.settle(pulled(reader))
    assert first.wait() is None
    assert world.texts() == ["b"]
    reader.settle(pulled(reader))
    assert second.wait() is None
    assert world.texts() == ["c"]


def test_a_wait_for_room_ends_in_time() -> None:
    world, clock = blocking(timeout_ms=500)
    world.send("a")
    sender = Sender(world, "b")
    clock.await_wait(500)
    clock.advance(500)
    error = sender.wait()
    assert isinstance(error, QueueFullError)
    assert "there was no room within 500 ms" in str(error)
    assert world.texts() == ["a"]
    assert len(world.store) == 1


def test_a_wait_for_room_ends_when_the_session_closes() -> None:
    world, _ = blocking()
    world.send("a")
    sender = Sender(world, "b")
    wait_until_blocked(world)
    sender.patience.end()
    assert isinstance(sender.wait(), ClosedError)


def test_a_wait_for_room_ends_when_the_queue_is_altered_or_destroyed() -> None:
    world, _ = blocking()
    world.send("a")
    sender = Sender(world, "b")
    wait_until_blocked(world)
    world.manager.alter("orders", overflow="reject")
    assert isinstance(sender.wait(), QueueFullError)
    world.manager.alter("orders", overflow="block")
    sender = Sender(world, "c")
    wait_until_blocked(world)
    world.manager.alter("orders", max_messages=2)
    assert sender.wait() is None
    sender = Sender(world, "d")
    wait_until_blocked(world)
    world.manager.destroy("orders")
    assert isinstance(sender.wait(), ChannelClosedError)


def test_who_waits_for_room_does_so_in_the_limits_that_took_the_place_of_lifted_ones() -> None:
    world, _ = blocking()
    world.send("a")
    reader = world.reader()

    def lift_and_limit_again() -> None:
        world.manager.alter("orders", max_messages=0, overflow="reject")
        world.manager.alter("orders", max_messages=1, overflow="block")

    clock = ScriptedClock(lift_and_limit_again, lift_and_limit_again, lambda: reader.settle(pulled(reader)))
    world.host.admission = AdmissionController(clock, world.host.trace)
    world.send("b", patience=SendTimeout())
    assert world.texts() == ["b"]
    assert clock.steps == []


@pytest.mark.parametrize("limits", [{"max_messages": 2}, {"max_bytes": 2 * SIZE, "max_messages": 0}])
def test_a_transaction_does_not_wait_for_room_that_only_its_own_end_makes(limits: dict[str, int]) -> None:
    world, _ = blocking()
    world.manager.alter("orders", **limits)
    world.send("x")
    unit = world.unit()
    world.send("a", unit=unit)
    sender = Sender(world, "b", unit)
    wait_until_blocked(world)
    reader = world.reader()
    reader.settle(pulled(reader))
    assert sender.wait() is None, "what others have sent may go, so it waits for that"
    error = Sender(world, "c", unit).wait()
    assert isinstance(error, QueueFullError)
    assert "this transaction alone takes that" in str(error)
    unit.commit(0)
    assert world.texts() == ["a", "b"]
    wait_until_blocked(world, 0)


def test_nor_for_the_room_of_what_it_has_received() -> None:
    world, _ = blocking()
    world.send("a")
    reader, unit = world.reader(), world.unit()
    delivery = pulled(reader)
    assert world.queue.settle_in(unit, [(entry_of(delivery), delivery.count)], reader.session)
    assert isinstance(Sender(world, "b", unit).wait(), QueueFullError)


def test_but_what_has_expired_in_it_takes_no_room_any_more() -> None:
    world, _ = blocking()
    unit = world.unit()
    world.send("a", unit=unit, ttl_ms=10)
    world.pass_time(10)
    world.send("x")
    sender = Sender(world, "b", unit)
    wait_until_blocked(world)
    reader = world.reader()
    reader.settle(pulled(reader))
    assert sender.wait() is None


def test_a_sender_without_patience_does_not_wait() -> None:
    world, _ = blocking()
    world.send("a")
    with pytest.raises(QueueFullError):
        world.send("b")


def test_a_wait_that_is_given_up_lets_the_next_one_in() -> None:
    world, _ = blocking()
    world.send("a")
    first = Sender(world, "b")
    wait_until_blocked(world, 1)
    second = Sender(world, "c")
    wait_until_blocked(world, 2)
    first.patience.end()
    assert isinstance(first.wait(), ClosedError)
    reader = world.reader()
    reader.settle(pulled(reader))
    assert second.wait() is None
    assert world.texts() == ["c"]
