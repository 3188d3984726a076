"""A write that nobody has answered is settled while the broker runs, and what a client had comes again flagged, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Never

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import BranchError, InDoubtError, ResourceError, TooLateError
from pyjms.spi.xid import Xid
from pyjms.testing import VirtualClock
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.journal.in_doubt_writes import RETRY_MS, InDoubtWrites
from pyjms_provider.core.journal.journal import Changes, JoinedTransaction
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.store import NotInMemoryError, PagingMessageStore
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stores.volatile import VolatileJournal
from tests.provider.keeping.site import BILLS, NEWS, ORDERS, consume, take_all, text, work
from tests.provider.simulation.site import SimulatedSite as Site
from tests.pyjms.runtime.helpers import Call

LETTERS = Address(AddressKind.QUEUE, "DLQ")
POINTS = pytest.mark.parametrize("point", ["before write", "after write"])


@pytest.fixture
def site() -> Site:
    return Site()


def lost_at(point: str) -> Callable[[str, Changes], None]:
    """Return what loses the answer to the next write that adds or removes messages, made or not; then the store is away."""
    is_away = False

    def lose(at: str, changes: Changes) -> None:
        nonlocal is_away
        if is_away:
            raise ResourceError("nobody answers")
        if at == point and (changes.messages or changes.removals):
            is_away = True
            raise InDoubtError("the connection to the database broke during the commit")

    return lose


def commit_in_doubt(site: Site, point: str) -> VmSession:
    site.send("order")
    session = work(site)
    site.texts(BILLS)
    site.trap = lost_at(point)
    with pytest.raises(InDoubtError, match="broke during the commit"):
        session.commit()
    return session


def come_again(site: Site) -> None:
    """Let the store answer again, and so much time go by that it is asked."""
    site.trap = None
    assert isinstance(site.clock, VirtualClock)
    site.clock.advance(RETRY_MS)
    site.tend()


@POINTS
@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
def test_a_commit_in_doubt_is_settled_when_the_store_answers(site: Site, point: str, is_closed: bool) -> None:
    session = commit_in_doubt(site, point)
    if is_closed:
        session.close()
    assert isinstance(site.clock, VirtualClock)
    site.clock.advance(RETRY_MS)
    site.tend()  # nobody can tell yet
    assert (site.texts(), site.texts(BILLS)) == ([], [])
    come_again(site)
    expected = ([("order", 2)], []) if point == "before write" else ([], [("bill", 1)])
    assert (site.drain(), site.drain(BILLS)) == expected
    site.restart()
    assert (site.drain(), site.drain(BILLS)) == ([], [])


@POINTS
def test_the_session_goes_on_after_a_commit_in_doubt(site: Site, point: str) -> None:
    session = commit_in_doubt(site, point)
    come_again(site)
    site.send("second bill", session, BILLS)
    session.commit()
    assert [found for found, _ in site.drain(BILLS)] == ["bill", "second bill"][point == "before write" :]


@POINTS
@pytest.mark.parametrize("end", ["restart", "crash"])
def test_a_commit_in_doubt_leaves_all_or_nothing_at_the_next_start(site: Site, point: str, end: str) -> None:
    commit_in_doubt(site, point)
    site.trap = None
    getattr(site, end)()
    found = (site.drain(), site.drain(BILLS))
    assert found == (([("order", 2)], []) if point == "before write" else ([], [("bill", 1)]))


def test_what_is_in_doubt_when_the_broker_stops_comes_again_flagged(site: Site) -> None:
    """The store cannot be asked then, so it is not closed as if all were settled."""
    commit_in_doubt(site, "before write")
    site.broker.stop()
    site.trap = None
    site.start()
    assert site.drain() == [("order", 2)]


@POINTS
@pytest.mark.parametrize("end", [come_again, lambda site: site.restart()], ids=["settled", "stopped"])
def test_an_acknowledgement_in_doubt_comes_again_flagged_or_not_at_all(
    site: Site, point: str, end: Callable[[Site], None]
) -> None:
    site.send("order")
    session = site.session()
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["order"]
    site.trap = lost_at(point)
    with pytest.raises(InDoubtError):
        session.acknowledge(taken)
    site.trap = None
    assert site.texts() == []  # it may be gone, so nobody else gets it
    end(site)
    assert site.drain() == ([("order", 2)] if point == "before write" else [])


@POINTS
def test_an_acknowledgement_in_doubt_that_is_made_again_settles(site: Site, point: str) -> None:
    """The store was asked a second later, and what it did not have came again though the client had it by then."""
    site.send("order")
    session = site.session()
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["order"]
    site.trap = lost_at(point)
    with pytest.raises(InDoubtError, match="broke during the commit"):
        session.acknowledge(taken)
    with pytest.raises(InDoubtError, match="does not answer"):
        session.acknowledge(taken)
    site.trap = None
    session.acknowledge(taken)
    come_again(site)
    assert site.drain() == []
    assert len(site.broker.virtual_host.store) == 0
    site.crash()
    assert site.drain() == []


@pytest.mark.parametrize("asks_first", [False, True], ids=["acknowledges first", "asks first"])
def test_who_asks_and_who_acknowledges_again_do_so_one_after_the_other(
    site: Site, monkeypatch: pytest.MonkeyPatch, *, asks_first: bool
) -> None:
    """Else who asks finds it there, and gives it back when it has gone: it came again, and at the next start it did not."""
    site.send("order")
    session = site.session()
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["order"]
    site.trap = lost_at("before write")
    with pytest.raises(InDoubtError):
        session.acknowledge(taken)
    site.trap = None
    ask, acknowledge = partial(come_again, site), partial(session.acknowledge, taken)
    first, second = (ask, acknowledge) if asks_first else (acknowledge, ask)
    name = "holds" if asks_first else "write"
    done = getattr(site.journal, name)
    others: list[Call[None]] = []

    def begin_the_other(*arguments: Any, **named: Any) -> Any:
        found = done(*arguments, **named)
        if not others:
            others.append(Call(second))
            assert others[0].is_blocked()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(site.journal, name, begin_the_other)
        first()
    if asks_first:
        with pytest.raises(TooLateError):
            others[0].result()
    else:
        others[0].result()
    assert site.drain() == ([("order", 2)] if asks_first else [])
    site.crash()
    assert site.drain() == []


@POINTS
@pytest.mark.parametrize("end", [come_again, lambda site: site.crash()], ids=["settled", "died"])
def test_a_dead_letter_in_doubt_is_in_one_place(site: Site, point: str, end: Callable[[Site], None]) -> None:
    site.send("order")
    session = site.session()
    delivery = consume(session).poll()
    assert delivery is not None
    assert text(delivery) == "order"
    site.texts(LETTERS)
    site.trap = lost_at(point)
    with pytest.raises(InDoubtError):
        session.reject(delivery, "it makes no sense")
    site.trap = None
    end(site)
    assert (site.drain(), site.drain(LETTERS)) == (
        ([("order", 2)], []) if point == "before write" else ([], [("order", 1)])
    )
    site.restart()
    assert (site.drain(), site.drain(LETTERS)) == ([], [])


def test_what_cannot_be_read_when_it_is_to_come_back_comes_when_the_store_answers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue that counts bytes reads what comes back, and a database that was not reached for a write is not reached for that."""
    QueueManager(site.broker.virtual_host).create(ORDERS.name, max_bytes=10**6)
    for order in ("first", "second"):
        site.send(order)
    session = site.session()
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["first", "second"]

    def is_away(*_: object) -> Never:
        raise ResourceError("nobody answers")

    site.trap = is_away
    with monkeypatch.context() as patch:
        patch.setattr(site.journal, "read", is_away)
        with pytest.raises(ResourceError, match="nobody answers"):
            session.acknowledge(taken)
    come_again(site)
    assert site.drain() == [("first", 2), ("second", 2)]


@pytest.mark.parametrize("mode", [1, 2], ids=["kept nowhere", "kept"])
@pytest.mark.parametrize("end", [come_again, lambda site: site.restart()], ids=["answers", "stops"])
def test_what_is_to_be_set_aside_and_cannot_be_read_comes_back(
    monkeypatch: pytest.MonkeyPatch, mode: int, end: Callable[[Site], None]
) -> None:
    """Neither can its queue read it to have it again, which sorts by what is in it; and so it is with the next one."""
    site = Site()
    QueueManager(site.broker.virtual_host).create(ORDERS.name, type="sorted", key="n", max_deliveries=1)
    for order in ("first", "second"):
        site.send(order, delivery_mode=mode, properties={"n": order})
    session = site.session()
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["first", "second"]

    def is_away(*_: object) -> Never:
        raise ResourceError("nobody answers")

    def is_on_disk(_: object, reference: MessageReference) -> Never:
        raise NotInMemoryError(reference)

    with monkeypatch.context() as patch:
        patch.setattr(PagingMessageStore, "retrieve", is_on_disk)
        patch.setattr(site.journal, "read", is_away)
        session.recover(taken)
        assert site.broker.virtual_host.find_queue(LETTERS.name) is None, "nothing was set aside"
        site.clock.advance(RETRY_MS)  # type: ignore[attr-defined]  # it is a VirtualClock
        site.tend()
    end(site)
    if end is come_again:
        assert site.drain() == [("first", 2), ("second", 2)]
    else:  # it was delivered too often, which the next start sees, too
        assert [letter for letter, _ in site.drain(LETTERS)] == (["first", "second"] if mode == 2 else [])
    site.stop()


def acknowledge_in_doubt(site: Site, point: str, *addresses: Address) -> VmSession:
    """Receive what is in these queues, and acknowledge it together."""
    session = site.session()
    taken = [delivery for address in addresses for delivery in take_all(consume(session, address))]
    assert all(map(text, taken))
    site.trap = lost_at(point)
    with pytest.raises(InDoubtError):
        session.acknowledge(taken)
    site.trap = None
    return session


def test_a_doubt_ends_with_its_queue_and_others_are_settled(site: Site) -> None:
    site.send("order")
    site.send("bill", to=BILLS)
    for address in (ORDERS, BILLS):
        acknowledge_in_doubt(site, "before write", address).close()
    QueueManager(site.broker.virtual_host).destroy(ORDERS.name)
    come_again(site)
    assert site.drain(BILLS) == [("bill", 2)]
    site.restart()
    assert (site.drain(), site.drain(BILLS)) == ([], [])


@POINTS
def test_an_acknowledgement_is_judged_by_the_queue_that_is_there(site: Site, point: str) -> None:
    """The one that was destroyed has none of its messages in the store in any case."""
    site.send("order")
    site.send("bill", to=BILLS)
    acknowledge_in_doubt(site, point, ORDERS, BILLS).close()
    QueueManager(site.broker.virtual_host).destroy(ORDERS.name)
    come_again(site)
    assert site.drain(BILLS) == ([("bill", 2)] if point == "before write" else [])
    assert site.texts() == []


@POINTS
@pytest.mark.parametrize("gone", ["orders", "bills", "all"])
def test_a_unit_is_judged_by_the_queues_that_are_there(site: Site, point: str, gone: str) -> None:
    commit_in_doubt(site, point)
    site.trap = None
    for address in (ORDERS, BILLS):
        if gone in {address.name, "all"}:
            assert site.broker.virtual_host.destroy_queue(address.name)
    come_again(site)
    is_written = point == "after write"
    assert site.texts() == ([] if is_written or gone != "bills" else ["order"])
    assert site.texts(BILLS) == (["bill"] if is_written and gone == "orders" else [])
    site.restart()
    assert site.drain() == ([] if is_written or gone != "bills" else [("order", 2)])
    assert site.drain(BILLS) == ([("bill", 1)] if is_written and gone == "orders" else [])


@pytest.mark.parametrize(
    "policy",
    [{"type": "sorted", "key": "k"}, {"type": "last_value", "key": "k"}, {"groups": True}],
    ids=["sorted", "last value", "groups"],
)
def test_a_move_in_doubt_comes_to_a_queue_that_reads_its_messages(site: Site, policy: dict[str, Any]) -> None:
    """They have left memory, as who moved them has let go of them."""
    manager = QueueManager(site.broker.virtual_host)
    manager.create(BILLS.name, **policy)
    site.send("order", properties={"k": 1})
    site.trap = lost_at("after write")
    with suppress(InDoubtError):
        manager.move(ORDERS.name, BILLS.name)
    come_again(site)
    assert (site.texts(), site.texts(BILLS)) == ([], ["order"])
    assert len(site.broker.virtual_host.store) == 1
    site.restart()
    assert site.drain(BILLS) == [("order", 1)]
    assert len(site.broker.virtual_host.store) == 0


def test_a_doubt_that_cannot_be_settled_keeps_nothing_from_others(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What it holds comes at the next start, flagged, as the store is not closed as clean."""
    site.send("order")
    site.send("bill", to=BILLS)
    for address in (ORDERS, BILLS):
        acknowledge_in_doubt(site, "before write", address).close()
    reinstate = Queue.reinstate

    def fail_once(queue: Queue, entry: QueueEntry) -> None:
        if queue.name == str(ORDERS):
            raise ArithmeticError("a fault of the broker's")
        reinstate(queue, entry)

    with monkeypatch.context() as patch:
        patch.setattr(Queue, "reinstate", fail_once)
        come_again(site)
    assert "PYJMS-BROKER-18" in caplog.text
    assert site.drain(BILLS) == [("bill", 2)]
    site.restart()
    assert site.drain() == [("order", 2)]


def test_a_stop_that_fails_lets_go_of_the_store(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can stop the broker again."""
    site.send("order")
    session = site.session()
    assert text(consume(session).poll()) == "order"

    def fail(_: object) -> Never:
        raise ArithmeticError("a fault of the broker's")

    with monkeypatch.context() as patch:
        patch.setattr(InDoubtWrites, "settle", fail)
        with pytest.raises(ArithmeticError):
            site.broker.stop()
    site.start()
    assert site.drain() == [("order", 2)]


@POINTS
@pytest.mark.parametrize("to", [ORDERS, NEWS], ids=["queue", "topic"])
@pytest.mark.parametrize("transacted", [False, True], ids=["alone", "transacted"])
@pytest.mark.parametrize("is_named", [False, True], ids=["plain", "named"])
def test_a_send_in_doubt_is_withdrawn(site: Site, point: str, to: Address, transacted: bool, is_named: bool) -> None:
    """So it does not appear at a later start, and can be sent again, also by the same duplicate id."""
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

    site.trap = lost_at(point)
    with pytest.raises(InDoubtError):
        send()
    site.trap = None
    send()
    site.crash()
    assert len(site.medium.messages) == 1
    consumer = consume(site.connect("ann").open_session(transacted=False), to, durable_name=durable)
    assert [text(each) for each in take_all(consumer)] == ["order"]


@POINTS
def test_a_branch_that_is_committed_at_once_and_in_doubt_is_settled(site: Site, point: str) -> None:
    site.send("order")
    session, xid = site.session(transacted=True), Xid(1, b"1", b"")
    session.xa_start(xid)
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["order"]
    session.acknowledge(taken)
    site.send("bill", session, BILLS)
    session.xa_end(xid)
    site.trap = lost_at(point)
    with pytest.raises(BranchError, match="not known"):
        session.xa_commit(xid, one_phase=True)
    come_again(site)
    expected = ([("order", 2)], []) if point == "before write" else ([], [("bill", 1)])
    assert (site.drain(), site.drain(BILLS)) == expected


class _LostConnection(JoinedTransaction):
    """An application's transaction whose commit is not answered."""

    may_be_committed = True

    def write(self, changes: Changes, *, force: bool) -> None:
        raise InDoubtError("the connection to the database broke while the transaction was committed")

    def commit(self) -> None:
        raise AssertionError("there is something to write")


def test_a_store_is_not_closed_as_clean_after_an_applications_commit_in_doubt(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody here knows when the application's connection has ended, so its messages come again, if at all, at the next start."""
    monkeypatch.setattr(VolatileJournal, "join", lambda *_: _LostConnection())
    site.send("order")
    session = work(site)
    with pytest.raises(InDoubtError, match="broke while"):
        session.commit_with(object())
    come_again(site)
    assert (site.texts(), site.texts(BILLS)) == ([], [])
    site.restart()
    assert (site.drain(), site.drain(BILLS)) == ([("order", 2)], [])
