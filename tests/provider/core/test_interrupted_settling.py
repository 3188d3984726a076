"""The main thread is interrupted at each place where a message is settled, and settles it again: nothing is left of it, not even its room."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import ConnectionId
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.queue.consumer import ConsumerSession
from pyjms_provider.core.queue.entry import ReceiverId
from pyjms_provider.core.queue.limits import RoomRequest
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork
from tests.provider.core.test_paging import LIMIT, Paper
from tests.provider.helpers import HookedLock, Reader, entry_of
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.policy_world import PolicyWorld, address, pulled

FILES = (
    "core/channel/channel_state.py",
    "core/queue/exclusive_consumer.py",
    "core/queue/message_groups.py",
    "core/queue/expiry.py",
    "core/queue/last_values.py",
    "core/queue/limits.py",
    "core/queue/queue.py",
    "core/queue/queue_rules.py",
    "core/queue/settling_queue.py",
    "core/store/store.py",
    "core/transaction/unit_of_work.py",
    "stores/memory.py",
)
MANY = 3
POLICIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "limited": {"max_messages": MANY, "overflow": "block"},
    "last values": {"type": "last_value", "key": "n"},
    "groups": {"groups": True},
}
OBEYING = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


class Full:
    """A queue with a few messages, all of them pulled, and a sender that waits for room where that is limited."""

    def __init__(self, policy: dict[str, Any]) -> None:
        self.world = PolicyWorld(**policy)
        for number in range(MANY):
            self.world.send(properties={"n": number, "JMSXGroupID": "a"}, ttl_ms=1000 * (number % 2))
        self.reader: Reader = self.world.reader()
        self.deliveries = [pulled(self.reader) for _ in range(MANY)]
        self.waiting = RoomRequest(Signal(), 0)
        self.has_room = self.world.queue.claim_room(self.waiting, or_wait=True)

    def check(self, where: str | None) -> None:
        """Fail unless the queue is empty, and knows it."""
        queue = self.world.queue
        assert not any(map(queue.has_messages, MessageState)), where
        assert len(self.world.store) == 0, where
        if queue._rules is not None:
            assert not queue._rules._marks, where
            assert not queue._rules.taken_room, where
        assert self.has_room or self.waiting.signal.wait(0), f"{where}: nobody told the sender"


@OBEYING
def test_an_acknowledgement(policy: dict[str, Any]) -> None:
    def attempt(interruption: Interruption) -> None:
        full = Full(policy)
        with suppress(KeyboardInterrupt), interruption():
            for delivery in full.deliveries:
                full.reader.settle(delivery)
        for delivery in full.deliveries:
            full.reader.settle(delivery)
        full.check(interruption.where)

    assert each_interruption(attempt, *FILES) > 5


@OBEYING
def test_a_commit(policy: dict[str, Any]) -> None:
    """Of which nothing was written: there is no journal."""

    def attempt(interruption: Interruption) -> None:
        full = Full(policy)
        unit = UnitOfWork(UnitId("unit"), full.reader.session)
        received = [(entry_of(delivery), delivery.count) for delivery in full.deliveries]
        full.world.queue.settle_in(unit, received, full.reader.session)
        with suppress(KeyboardInterrupt), interruption():
            unit.commit(0)
        if unit.go_on():
            unit.commit(0)
        full.check(interruption.where)

    assert each_interruption(attempt, *FILES) > 5


@pytest.mark.parametrize("how", ["one", "several", "removed"])
@pytest.mark.parametrize("is_paged", [False, True])
def test_a_store_that_pages(is_paged: bool, how: str) -> None:
    """It counted a message for ever that nobody had any more."""

    def attempt(interruption: Interruption) -> None:
        paper = Paper()
        reference = paper.come("x" * LIMIT, holders=1)
        if is_paged:
            paper.store.publish(reference)
            paper.store.relieve()

        def let_go() -> None:
            if how == "several":
                paper.store.release_all([reference])
            elif how == "one":
                paper.store.release(reference)
            else:
                paper.store.remove(reference)

        with suppress(KeyboardInterrupt), interruption():
            let_go()
        if reference.holders:
            let_go()
        paper.check([])
        assert paper.store.bytes_in_memory == 0, interruption.where

    assert each_interruption(attempt, "core/store/paging.py") > 1


def test_a_message_that_is_dropped() -> None:
    """Its room was free, and the sender that waited for it slept on."""

    def attempt(interruption: Interruption) -> None:
        world = PolicyWorld(max_messages=1, overflow="block")
        world.send("message")
        (entry,) = world.queue.waiting_entries()
        waiting = RoomRequest(Signal(), 0)
        assert not world.queue.claim_room(waiting, or_wait=True)
        with suppress(KeyboardInterrupt), interruption():
            world.host.office.delete([entry])
        world.host.office.delete([entry])
        assert waiting.signal.wait(0), f"{interruption.where}: nobody told the sender"

    assert each_interruption(attempt, *FILES, "core/channel/asynchronous_channel.py", "core/queue/policed_queue.py") > 3


@pytest.mark.parametrize("is_transacted", [False, True])
def test_another_subscription_keeps_its_message(is_transacted: bool) -> None:
    """Whoever is interrupted lets go of it once, for itself."""

    def attempt(interruption: Interruption) -> None:
        world = PolicyWorld()
        mine, other = world.subscribe("topic://news"), world.subscribe("topic://news")
        world.send("news", to="topic://news")
        session = ConsumerSession(ReceiverId("mine"), is_delivering=True)
        reader = Reader("mine", session, mine, None, priority=0, acquires=True)
        delivery = pulled(reader)
        unit = UnitOfWork(UnitId("unit"), reader.session)
        if is_transacted:
            mine.settle_in(unit, [(entry_of(delivery), delivery.count)], reader.session)
        with suppress(KeyboardInterrupt), interruption():
            if is_transacted:
                unit.commit(0)
            else:
                reader.settle(delivery)
        if not is_transacted:
            reader.settle(delivery)
        elif unit.go_on():
            unit.commit(0)
        assert [envelope.body for envelope in other.browse()] == ["news"], interruption.where
        assert len(world.store) == 1, interruption.where
        other.close()
        assert len(world.store) == 0, interruption.where

    assert each_interruption(attempt, *FILES) > 3


class Two:
    """A message of two subscriptions, one of which has pulled its copy, and settles it when the test says so."""

    def __init__(self, ttl_ms: int = 0) -> None:
        self.world = PolicyWorld()
        self.mine, self._other = (self._subscriber(name) for name in ("mine", "other"))
        self.envelope = self.world.send("news", to="topic://news", ttl_ms=ttl_ms)
        self._delivery = pulled(self._other)

    def _subscriber(self, name: str) -> Reader:
        session = ConsumerSession(ReceiverId(name), is_delivering=True)
        return Reader(name, session, self.world.subscribe("topic://news"), None, priority=0, acquires=True)

    @property
    def queue(self) -> Queue:
        """The queue of the subscription whose thread is interrupted."""
        return self.mine.consumer.queue

    def settle_other(self) -> None:
        """Settle the other one's copy, on another thread."""
        thread = Thread(target=lambda: self._other.settle(self._delivery))
        thread.start()
        thread.join()


def test_another_subscription_that_settles_its_message_meanwhile_leaves_nothing_in_memory() -> None:
    """On another thread, between the queue and the store: whoever is interrupted lets go for itself all the same."""

    def attempt(interruption: Interruption) -> None:
        two = Two()
        delivery = pulled(two.mine)
        HookedLock(two.queue, two.settle_other)
        with suppress(KeyboardInterrupt), interruption():
            two.mine.settle(delivery)
        two.mine.settle(delivery)
        assert len(two.world.store) == 0, interruption.where

    assert each_interruption(attempt, *FILES) > 3


class Meanwhile:
    """Is told, in place of a journal, what leaves a queue; something else happens then, once."""

    def __init__(self, queue: Queue, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act
        queue.kept = self  # type: ignore[assignment]

    def note_removed(self, _: MessageReference) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()

    def note_returned(self, _: object) -> None:
        """Nothing happens."""


def give_back_expired(two: Two) -> Callable[[], object]:
    """Have somebody told of it, so that it is let go of when that is done."""
    two.world.host.expiries.add(ConnectionId("watcher"), lambda _: None)
    delivery = pulled(two.mine)
    two.world.clock.now_ms += 20
    return lambda: two.mine.give_back(delivery)


def test_another_subscription_that_settles_meanwhile_what_expires_in_this_one() -> None:
    """Nothing of it stays in memory."""

    def attempt(interruption: Interruption) -> None:
        two = Two(ttl_ms=10)
        leave = give_back_expired(two)
        Meanwhile(two.queue, two.settle_other)
        with suppress(KeyboardInterrupt), interruption():
            leave()
        leave()
        two.settle_other()
        two.world.pass_time(20)
        assert len(two.world.store) == 0, interruption.where

    assert each_interruption(attempt, "core/channel/asynchronous_channel.py", "core/host/message_mover.py") > 3


def test_another_subscription_that_settles_meanwhile_what_is_deleted() -> None:
    """Nothing of it stays in memory."""

    def attempt(interruption: Interruption) -> None:
        two = Two()
        [entry] = two.queue.waiting_entries()
        HookedLock(two.queue, two.settle_other)
        with suppress(KeyboardInterrupt), interruption():
            two.world.host.office.delete([entry])
        two.world.host.office.delete([entry])
        assert len(two.world.store) == 0, interruption.where

    assert (
        each_interruption(
            attempt, "core/host/message_mover.py", "core/queue/policed_queue.py", "core/journal/storage_manager.py"
        )
        > 3
    )


def test_another_subscription_that_settles_meanwhile_what_is_moved() -> None:
    """Nothing of it stays in memory but the message that came in its place."""

    def attempt(interruption: Interruption) -> None:
        two = Two()
        [entry] = two.queue.waiting_entries()
        moved = replace(two.envelope, destination=address("orders"))
        HookedLock(two.world.queue, two.settle_other)
        with suppress(KeyboardInterrupt), interruption():
            two.world.host.office.move(entry, moved, "orders", Happening.MOVED, 0)
        two.settle_other()
        kept = [*two.world.texts(), *(str(each.body) for each in two.queue.browse())]
        assert (kept, len(two.world.store)) == (["news"], 1), interruption.where

    assert each_interruption(attempt, "core/host/message_mover.py") > 3


def test_a_send_that_was_interrupted_leaves_nothing_in_memory() -> None:
    """Or the message is in its queue."""

    def attempt(interruption: Interruption) -> None:
        world = PolicyWorld()
        with suppress(KeyboardInterrupt), interruption():
            world.send("message")
        assert len(world.store) == len(world.texts()), interruption.where

    assert each_interruption(attempt, *FILES, "core/host/virtual_host.py", "core/message/reference.py") > 3


@pytest.mark.parametrize("is_transacted", [False, True])
def test_what_was_sent_by_one_who_was_interrupted_expires(is_transacted: bool) -> None:
    """The housekeeper is asked to come, though nobody asks for what expires later."""

    def attempt(interruption: Interruption) -> None:
        world = PolicyWorld()
        unit = world.unit() if is_transacted else None
        with suppress(KeyboardInterrupt), interruption():
            world.send(ttl_ms=5, unit=unit)
        if unit is not None:
            unit.rollback()
        world.send(ttl_ms=10)
        world.pass_time(20)
        assert not any(map(world.queue.has_messages, MessageState)), interruption.where

    assert each_interruption(attempt, *FILES, "core/host/virtual_host.py", "core/queue/policed_queue.py") > 3
