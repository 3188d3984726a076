"""The main thread is interrupted at each place at which a message leaves its queue for another one: it is in one of the two, at once and after the next start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.testing import VirtualClock
from pyjms_provider.clients.vm_session import VmSession
from pyjms_provider.core.queue.policy import QueuePolicy
from pyjms_provider.queue_manager import QueueManager
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.site import BILLS, NEWS, ORDERS, consume, take_all
from tests.provider.keeping.test_interrupted import come_again, receive
from tests.provider.keeping.test_interrupted_anywhere import interrupt
from tests.provider.keeping.test_interrupted_in_queues import ALL, FILES, LATER, POLICIES
from tests.provider.simulation.site import SimulatedSite as Site

LETTERS = Address(AddressKind.QUEUE, "DLQ")
LEAVING = (
    *FILES,
    "clients/vm_session.py",
    "core/queue/burying_queue.py",
    "core/host/message_mover.py",
    "core/queue/dead_letters.py",
    "core/queue/expiry.py",
    "core/host/expiry_watch.py",
    "core/journal/storage_manager.py",
    "core/queue/limits.py",
    "core/queue/policed_queue.py",
    "core/queue/queue_rules.py",
    "core/queue/restorable_queue.py",
    "core/host/virtual_host.py",
    "provider/pyjms_provider/queue_manager.py",
)
MODES = pytest.mark.parametrize("delivery_mode", [1, 2], ids=["NON_PERSISTENT", "PERSISTENT"])
STOPS_ONCE = pytest.mark.parametrize(
    ("policy", "goes_on"),
    [*((each, True) for each in POLICIES.values()), (None, False)],
    ids=[*POLICIES, "plain, and the broker stops"],
)

Prepare = Callable[[Site], tuple[VmSession, Callable[[], object]]]


def sweep(
    prepare: Prepare,
    policy: QueuePolicy | None,
    *,
    other: Address = LETTERS,
    goes_on: bool = True,
    are_copied: bool = False,
    least: int = 30,
) -> None:
    """Interrupt what `prepare` returns at each place; then all of `ALL` are in the one queue or the `other`, or in both, and nothing stays behind."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        QueueManager(site.broker.virtual_host).create(ORDERS.name, policy or QueuePolicy())
        site.texts(other)
        session, act = prepare(site)
        interrupt(interruption, act)
        session.close()
        if not goes_on:
            site.restart()
        come_again(site)
        orders, elsewhere = [[name for name, _ in site.drain(each)] for each in (ORDERS, other)]
        found = elsewhere if are_copied else [*orders, *elsewhere]
        if are_copied:
            assert orders == list(ALL), interruption.where
            assert tuple(found) == ALL[: len(found)], interruption.where
        else:
            assert sorted(found) == list(ALL), interruption.where
        if interruption.where is None:
            assert sorted(elsewhere) == list(ALL)
        assert len(site.broker.virtual_host.store) == 0, interruption.where
        rules = site.broker.virtual_host.queue(ORDERS.name)._rules
        assert rules is None or not rules.taken_room, interruption.where
        site.restart()
        come_again(site)
        assert (site.drain(), site.drain(other)) == ([], []), interruption.where
        site.stop()

    assert each_interruption(attempt, *LEAVING) > least


def send_all(site: Site, delivery_mode: int = 2) -> None:
    for name in ALL:
        site.send(name, delivery_mode=delivery_mode)


@STOPS_ONCE
def test_messages_are_moved(policy: QueuePolicy | None, goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        send_all(site)
        manager = QueueManager(site.broker.virtual_host)
        return site.session(), lambda: manager.move(ORDERS.name, BILLS.name)

    sweep(prepare, policy, other=BILLS, goes_on=goes_on)


def test_messages_are_moved_that_no_journal_has() -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        send_all(site, 1)
        manager = QueueManager(site.broker.virtual_host)
        return site.session(), lambda: manager.move(ORDERS.name, BILLS.name)

    sweep(prepare, None, other=BILLS)


@MODES
def test_messages_are_copied(delivery_mode: int) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        send_all(site, delivery_mode)
        manager = QueueManager(site.broker.virtual_host)
        return site.session(), lambda: manager.copy(ORDERS.name, BILLS.name)

    sweep(prepare, None, other=BILLS, are_copied=True)


@STOPS_ONCE
def test_messages_are_rejected(policy: QueuePolicy | None, goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        session, taken = receive(site, *ALL)

        def reject() -> None:
            for each in taken:
                session.reject(each, "it is bad")

        return session, reject

    sweep(prepare, policy, goes_on=goes_on)


@STOPS_ONCE
def test_messages_die(policy: QueuePolicy | None, goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        session, taken = receive(site, *ALL)
        return session, lambda: session.recover(taken)

    sweep(prepare, (policy or QueuePolicy()).altered(max_deliveries=1), goes_on=goes_on)


@LATER
def test_messages_expire(goes_on: bool) -> None:
    """While a client has them, which gives them back."""

    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        assert isinstance(site.clock, VirtualClock)
        at_ms = site.clock.time_ms() + 10
        for name in ALL:
            site.send(name, expiration_ms=at_ms)
        session = site.session()
        taken = take_all(consume(session))
        site.clock.advance(20)
        return session, lambda: session.recover(taken)

    sweep(prepare, QueuePolicy(expiry_queue=LETTERS.name), goes_on=goes_on)


def test_messages_expire_and_go_nowhere() -> None:
    """But somebody is told of it, and of none twice."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        assert isinstance(site.clock, VirtualClock)
        told: list[object] = []
        site.broker.virtual_host.expiries.add(ConnectionId("watcher"), told.append)
        at_ms = site.clock.time_ms() + 10
        for name in ALL:
            site.send(name, expiration_ms=at_ms)
        session = site.session()
        taken = take_all(consume(session))
        site.clock.advance(20)
        interrupt(interruption, lambda: session.recover(taken))
        session.close()
        come_again(site)
        assert len(told) <= len(ALL), interruption.where
        assert interruption.where or len(told) == len(ALL)
        assert len(site.broker.virtual_host.store) == 0, interruption.where
        site.restart()
        assert (site.drain(), len(site.medium.messages)) == ([], 0), interruption.where
        site.stop()

    assert each_interruption(attempt, *LEAVING) > 30


def test_messages_come_back() -> None:
    """From the queue of dead letters, one of them to a subscription."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        ann = site.connect("ann")
        session = ann.open_session(transacted=False)
        reader = consume(session, NEWS, durable_name="all")
        site.send("news", to=NEWS)
        for each in take_all(reader):
            session.reject(each, "it is bad")
        session, taken = receive(site, "order")
        session.reject(taken[0], "it is bad")
        manager = QueueManager(site.broker.virtual_host)
        interrupt(interruption, manager.replay)
        come_again(site)
        again = manager.replay()
        assert again.left == 0, interruption.where
        news = take_all(reader)
        assert [each.envelope.body for each in news] == ["news"], interruption.where
        assert [name for name, _ in site.drain()] == ["order"], interruption.where
        site.restart()
        assert (site.drain(), site.drain(LETTERS)) == ([], []), interruption.where
        again_there = take_all(consume(site.connect("ann").open_session(transacted=False), NEWS, durable_name="all"))
        assert [each.envelope.body for each in again_there] == ["news"], interruption.where
        site.stop()

    assert each_interruption(attempt, *LEAVING) > 30
