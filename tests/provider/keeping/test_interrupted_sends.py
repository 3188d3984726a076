"""The main thread is interrupted at each place of a send that takes steps: its message has arrived, for good and once, or it has not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pyjms_provider.clients.vm_session import VmSession
from pyjms_provider.core.host.sent_headers import DELIVER_AT
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.duplicates import DUPLICATE_ID
from pyjms_provider.core.queue.policy import Overflow, QueuePolicy
from pyjms_provider.queue_manager import QueueManager
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.site import NEWS, ORDERS, consume, take_all, text
from tests.provider.keeping.test_interrupted import come_again
from tests.provider.keeping.test_interrupted_in_queues import FILES, LATER, OBEYING, POLICIES, sweep
from tests.provider.simulation.site import SimulatedSite as Site

STEPS = (
    *FILES,
    "core/host/admission.py",
    "core/queue/burying_queue.py",
    "core/host/sent_headers.py",
    "core/host/doorkeeper.py",
    "core/queue/duplicates.py",
    "core/journal/durable_send.py",
    "core/journal/work_under_way.py",
    "core/queue/limits.py",
    "core/queue/policed_queue.py",
    "core/queue/queue_rules.py",
    "core/topic/topic.py",
    "core/host/virtual_host.py",
)
LIMITED = {
    "limited": QueuePolicy(max_messages=100, max_bytes=100_000),
    "blocking": QueuePolicy(max_messages=100, overflow=Overflow.BLOCK),
}
NAMED = {DUPLICATE_ID: "7"}


@LATER
@pytest.mark.parametrize("policy", LIMITED.values(), ids=LIMITED)
def test_to_a_queue_that_is_limited(policy: QueuePolicy, goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        site.send("a")
        session = site.session()
        return session, lambda: site.send("b", session)

    sweep(prepare, [("a",), ("a", "b")], goes_on=goes_on, policy=policy, files=STEPS)


@LATER
def test_the_first_message_of_a_queue(goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        session = site.session()
        return session, lambda: site.send("a", session)

    sweep(prepare, [(), ("a",)], goes_on=goes_on, files=STEPS)


@LATER
def test_a_message_for_later(goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        site.send("a")
        session = site.session()
        later = {DELIVER_AT: site.clock.time_ms() + 100}
        return session, lambda: site.send("b", session, properties=later)

    sweep(prepare, [("a",), ("a", "b")], goes_on=goes_on, files=STEPS)


@pytest.mark.parametrize("delivery_mode", [1, 2], ids=["NON_PERSISTENT", "PERSISTENT"])
@pytest.mark.parametrize("transacted", [False, True], ids=["alone", "transacted"])
@pytest.mark.parametrize("stops", [False, True], ids=["goes on", "stops"])
def test_one_with_a_duplicate_id_that_is_sent_again(stops: bool, transacted: bool, delivery_mode: int) -> None:
    """It has arrived once then: neither twice, nor is the second one refused, or dropped beside none."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        site.send("a")
        session = site.session(transacted=transacted)
        with suppress(KeyboardInterrupt), interruption():
            site.send("b", session, properties=NAMED, delivery_mode=delivery_mode)
        if transacted:
            session.rollback()
        if stops:
            site.restart()
            session = site.session(transacted=transacted)
        site.send("b", session, properties=NAMED, delivery_mode=delivery_mode)
        if transacted:
            session.commit()
        is_lost = stops and not transacted and delivery_mode == 1 and interruption.where is None
        assert is_lost or site.texts() == ["a", "b"], interruption.where
        site.stop()

    assert each_interruption(attempt, *STEPS) > 5


@OBEYING
def test_one_in_a_transaction(policy: QueuePolicy | None) -> None:
    """It is in it, or not; nothing stays in the queue that belongs to none."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        if policy is not None:
            QueueManager(site.broker.virtual_host).create(ORDERS.name, policy)
        site.send("a")
        session = site.session(transacted=True)
        site.send("b", session)
        is_interrupted = True
        with suppress(KeyboardInterrupt), interruption():
            site.send("c", session)
            is_interrupted = False
        session.commit()
        found = site.texts()
        assert found == ["a", "b", "c"] or (is_interrupted and found == ["a", "b"]), interruption.where
        site.drain()
        queue = site.broker.virtual_host.queue(ORDERS.name)
        assert queue.count(MessageState.NOT_COMMITTED) == 0, interruption.where
        assert queue._rules is None or not queue._rules.taken_room, interruption.where
        site.stop()

    assert each_interruption(attempt, *STEPS) > 5


@pytest.mark.parametrize("policy", [POLICIES["ring"], *LIMITED.values()], ids=["ring", *LIMITED])
def test_room_is_not_lost(policy: QueuePolicy) -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        QueueManager(site.broker.virtual_host).create(ORDERS.name, policy)
        with suppress(KeyboardInterrupt), interruption():
            site.send("a")
        site.drain()
        rules = site.broker.virtual_host.queue(ORDERS.name)._rules
        assert rules is not None
        assert rules.room is not None
        assert (rules.room.messages, rules.room.size, rules.room._claims, rules.room._claimed_size) == (0, 0, set(), 0)
        site.stop()

    assert each_interruption(attempt, *STEPS) > 5


@pytest.mark.parametrize("properties", [{}, NAMED], ids=["plain", "named"])
@pytest.mark.parametrize("stops", [False, True], ids=["goes on", "stops"])
def test_to_durable_subscriptions(stops: bool, properties: dict[str, str]) -> None:
    """All have it, or none has; sent again with its id, all have it once."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        for name in ("ann", "bob"):
            subscriber = site.connect(name)
            consume(subscriber.open_session(transacted=False), NEWS, durable_name="all")
            subscriber.close()
        session = site.session()
        is_interrupted = True
        with suppress(KeyboardInterrupt), interruption():
            site.send("a", session, NEWS, properties=properties)
            is_interrupted = False
        session.close()
        if properties:
            site.send("a", site.session(), NEWS, properties=properties)
        if stops:
            site.restart()
        come_again(site)
        found = []
        for name in ("ann", "bob"):
            consumer = consume(site.connect(name).open_session(transacted=False), NEWS, durable_name="all")
            found.append([text(each) for each in take_all(consumer)])
        assert found == [["a"], ["a"]] or (is_interrupted and not properties and found == [[], []]), interruption.where
        site.stop()

    assert each_interruption(attempt, *STEPS) > 5


def test_a_rollback() -> None:
    """What was sent is in the queue no more, not even as something that nobody has committed."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = site.session(transacted=True)
        for name in ("a", "b"):
            site.send(name, session)
        with suppress(KeyboardInterrupt), interruption():
            session.rollback()
        session.rollback()
        assert site.broker.virtual_host.queue(ORDERS.name).count(MessageState.NOT_COMMITTED) == 0, interruption.where
        site.send("c", session)
        session.commit()
        assert site.texts() == ["c"], interruption.where
        site.stop()

    assert each_interruption(attempt, *FILES, "clients/vm_transactions.py", "core/transaction/unit_of_work.py") > 5
