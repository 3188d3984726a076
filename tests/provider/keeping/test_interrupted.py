"""A thread that is interrupted while it writes, as by Ctrl-C in a notebook, leaves a doubt like any other: nothing is lost, or comes unflagged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.xid import Xid
from pyjms.testing import VirtualClock
from pyjms_provider.clients.vm_session import VmSession
from pyjms_provider.core.journal.in_doubt_writes import RETRY_MS
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.queue_manager import QueueManager
from tests.provider.keeping.site import NEWS, ORDERS, consume, take_all, text
from tests.provider.simulation.site import SimulatedSite as Site

BILLS = Address(AddressKind.QUEUE, "bills")
LETTERS = Address(AddressKind.QUEUE, "DLQ")
POINTS = pytest.mark.parametrize("point", ["before write", "after write"])


@pytest.fixture
def site() -> Site:
    return Site()


def interrupt_at(site: Site, point: str, action: Callable[[], object]) -> None:
    """Interrupt a thread once while it writes that something is added, removed, or decided."""

    def interrupt(at: str, changes: Changes) -> None:
        if at == point and (changes.messages or changes.removals or changes.outcomes):
            site.trap = None
            raise KeyboardInterrupt

    site.trap = interrupt
    with pytest.raises(KeyboardInterrupt):
        action()


def come_again(site: Site) -> None:
    """Let so much time go by that the store is asked."""
    assert isinstance(site.clock, VirtualClock)
    site.clock.advance(RETRY_MS)
    site.tend()


ENDS = pytest.mark.parametrize("end", [come_again, lambda site: site.restart()], ids=["goes on", "stops"])


def receive(site: Site, *texts: str, transacted: bool = False) -> tuple[VmSession, list[Delivery]]:
    """Send orders, and receive them all."""
    for order in texts:
        site.send(order)
    session = site.session(transacted=transacted)
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == list(texts)
    return session, taken


@POINTS
@ENDS
@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
def test_a_commit(site: Site, point: str, end: Callable[[Site], None], is_closed: bool) -> None:
    session, taken = receive(site, "order", transacted=True)
    session.acknowledge(taken)
    site.send("bill", session, BILLS)
    interrupt_at(site, point, session.commit)
    session.rollback()
    if is_closed:
        session.close()
    end(site)
    expected = ([("order", 2)], []) if point == "before write" else ([], [("bill", 1)])
    assert (site.drain(), site.drain(BILLS)) == expected


@POINTS
@ENDS
def test_an_acknowledgement(site: Site, point: str, end: Callable[[Site], None]) -> None:
    session, taken = receive(site, "first", "second")
    interrupt_at(site, point, lambda: session.acknowledge(taken))
    session.close()
    end(site)
    assert site.drain() == ([("first", 2), ("second", 2)] if point == "before write" else [])


@POINTS
@pytest.mark.parametrize("to", [ORDERS, NEWS], ids=["queue", "topic"])
@pytest.mark.parametrize("transacted", [False, True], ids=["alone", "transacted"])
@pytest.mark.parametrize("is_named", [False, True], ids=["plain", "named"])
def test_a_send(site: Site, point: str, to: Address, transacted: bool, is_named: bool) -> None:
    """It is withdrawn, and nothing of it is counted."""
    QueueManager(site.broker.virtual_host).create(ORDERS.name, max_messages=1)
    durable = "all" if to is NEWS else None
    subscriber = site.connect("ann")
    consume(subscriber.open_session(transacted=False), to, durable_name=durable)
    subscriber.close()
    session = site.session(transacted=transacted)
    properties = {"JMS_pyjms_duplicateId": "7"} if is_named else {}

    def send() -> None:
        site.send("order", session, to, properties=properties)
        if transacted:
            session.commit()

    interrupt_at(site, point, send)
    assert len(site.broker.virtual_host.store) == 0
    send()
    assert len(site.broker.virtual_host.store) == 1
    site.crash()
    assert len(site.medium.messages) == 1
    consumer = consume(site.connect("ann").open_session(transacted=False), to, durable_name=durable)
    assert [text(each) for each in take_all(consumer)] == ["order"]


@POINTS
@ENDS
def test_a_move(site: Site, point: str, end: Callable[[Site], None]) -> None:
    site.send("order")
    site.texts(BILLS)
    manager = QueueManager(site.broker.virtual_host)
    interrupt_at(site, point, lambda: manager.move(ORDERS.name, BILLS.name))
    end(site)
    assert len(site.broker.virtual_host.store) == 1
    expected = (["order"], []) if point == "before write" else ([], ["order"])
    assert ([name for name, _ in site.drain()], [name for name, _ in site.drain(BILLS)]) == expected
    assert len(site.broker.virtual_host.store) == 0


@POINTS
@ENDS
def test_dead_letters(site: Site, point: str, end: Callable[[Site], None]) -> None:
    """The thread gives back several messages, and is interrupted with the first."""
    QueueManager(site.broker.virtual_host).create(ORDERS.name, max_deliveries=1)
    site.texts(LETTERS)
    session, taken = receive(site, "first", "second", "third")
    interrupt_at(site, point, lambda: session.recover(taken))
    session.close()
    end(site)
    letters, orders = site.drain(LETTERS), site.drain()
    assert sorted(name for name, _ in letters + orders) == ["first", "second", "third"]
    assert all(count > 1 for _, count in orders), "they come flagged"
    assert len(site.broker.virtual_host.store) == 0


@POINTS
def test_a_branch_that_is_being_prepared(site: Site, point: str) -> None:
    """Nothing was promised, so it is rolled back."""
    session, xid = _work_in_branch(site)
    interrupt_at(site, point, lambda: session.xa_prepare(xid))
    assert list(site.broker.virtual_host.branches.recover()) == []
    session.close()
    assert site.texts() == ["order"]
    site.restart()
    assert (site.drain(), site.drain(BILLS)) == ([("order", 2)], [])


@POINTS
def test_a_branch_that_is_committed_at_once(site: Site, point: str) -> None:
    session, xid = _work_in_branch(site)
    interrupt_at(site, point, lambda: session.xa_commit(xid, one_phase=True))
    session.close()
    come_again(site)
    expected = ([("order", 2)], []) if point == "before write" else ([], [("bill", 1)])
    assert (site.drain(), site.drain(BILLS)) == expected


@POINTS
def test_a_decision_can_be_made_again(site: Site, point: str) -> None:
    session, xid = _work_in_branch(site)
    session.xa_prepare(xid)
    interrupt_at(site, point, lambda: session.xa_commit(xid, one_phase=False))
    assert list(session.xa_recover()) == [xid]
    session.xa_commit(xid, one_phase=False)
    assert (site.drain(), site.drain(BILLS)) == ([], [("bill", 1)])


def _work_in_branch(site: Site) -> tuple[VmSession, Xid]:
    site.send("order")
    session, xid = site.session(transacted=True), Xid(1, b"1", b"")
    session.xa_start(xid)
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["order"]
    session.acknowledge(taken)
    site.send("bill", session, BILLS)
    session.xa_end(xid)
    return session, xid
