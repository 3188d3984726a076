"""A queue or a subscription is there, as it was, until its end is written; then it is gone, also if nobody knows (decision 0137)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    DestinationError,
    DestinationInUseError,
    InDoubtError,
    ResourceError,
    UnknownSubscriptionError,
)
from pyjms.spi.xid import Xid
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.channel import ChannelClosedError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.journal.queue_journal import QueueJournal
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.queue_manager import QueueExistsError, QueueManager
from tests.provider.keeping.site import NEWS, ORDERS, consume, take_all, text
from tests.provider.keeping.test_doubts import come_again, lost_at
from tests.provider.keeping.test_subscriptions import received, subscribe, unsubscribe
from tests.provider.simulation.site import SimulatedSite as Site

BILLS = Address(AddressKind.QUEUE, "bills")
POINTS = pytest.mark.parametrize("point", ["before drop", "after drop"])
FATES = pytest.mark.parametrize(
    "fate", [InDoubtError("nobody answered"), RuntimeError("unforeseen")], ids=["doubt", "unforeseen"]
)
ENDS = pytest.mark.parametrize("end", ["restart", "crash"])


@pytest.fixture
def site() -> Site:
    return Site()


def destroy(site: Site) -> None:
    QueueManager(site.broker.virtual_host).destroy(ORDERS.name)


def fail(site: Site, point: str, error: BaseException, meanwhile: Callable[[], None] | None = None) -> None:
    """Have the next write of an end fail there, after something was done."""

    def trap(at: str, _: Changes) -> None:
        if at == point:
            site.trap = None
            if meanwhile is not None:
                meanwhile()
            raise error

    site.trap = trap


def test_a_queue_whose_end_is_refused_is_meanwhile_as_it_was(site: Site) -> None:
    """What is sent, acknowledged or received while the store thinks about it is written as ever (JMS 1.1 §4.7)."""
    for name in ("acknowledged", "seen"):
        site.send(name)
    session = site.session()
    consumer = consume(session)

    def work() -> None:
        taken = take_all(consumer)
        assert [text(each) for each in taken] == ["acknowledged", "seen"]
        session.acknowledge(taken[:1])
        site.send("sent")
        assert site.texts() == ["sent"]

    fail(site, "before drop", ResourceError("the database is locked"), work)
    with pytest.raises(ResourceError, match="locked"):
        site.broker.virtual_host.destroy_queue(ORDERS.name)
    site.crash()
    assert site.drain() == [("seen", 2), ("sent", 2)]  # the delivery mark covers it


@POINTS
@FATES
@ENDS
def test_a_queue_whose_end_is_in_doubt_is_gone(site: Site, point: str, fate: BaseException, end: str) -> None:
    """So what is sent afterwards is sent to another queue, which the store keeps."""
    site.send("old", properties={"JMS_pyjms_duplicateId": "7"})
    fail(site, point, fate)
    with pytest.raises(type(fate)):
        destroy(site)
    assert QueueManager(site.broker.virtual_host).names() == []
    for name in ("new", "newer"):
        site.send(name, properties={"JMS_pyjms_duplicateId": name})
    assert site.texts() == ["new", "newer"]
    getattr(site, end)()
    site.send("new", properties={"JMS_pyjms_duplicateId": "new"})
    assert [name for name, _ in site.drain()] == ["new", "newer"]
    assert len(site.medium.queues) == 1
    assert not site.medium.messages


@POINTS
@FATES
def test_a_queue_whose_end_is_in_doubt_does_not_come_back_after_a_stop(
    site: Site, point: str, fate: BaseException
) -> None:
    site.send("old")
    fail(site, point, fate)
    with pytest.raises(type(fate)):
        destroy(site)
    site.restart()
    assert not site.medium.queues
    assert not site.medium.messages


def test_what_arrives_while_a_queue_ends_goes_with_it(site: Site) -> None:
    for at in ("before drop", "after drop"):
        site.send("old")
        sent: list[str] = []

        def trap(point: str, _: Changes, at: str = at, sent: list[str] = sent) -> None:
            if point == at:
                site.trap = None
                site.send("late")
                sent.extend(site.texts())

        site.trap = trap
        destroy(site)
        assert sent == ["old", "late"]
        assert site.texts() == []
        site.crash()
        assert site.texts() == []


@pytest.mark.parametrize("error", [ResourceError("the database is locked"), None], ids=["refused", "written"])
def test_a_subscription_gets_what_is_published_until_its_end_is_written(
    site: Site, error: ResourceError | None
) -> None:
    subscribe(site)
    texts: list[str] = []

    def trap(at: str, _: Changes) -> None:
        if at == "before drop":
            site.trap = None
            site.send("meanwhile", to=NEWS)
            subscription = site.broker.virtual_host.subscriptions.find("topic://news#ann/all")
            assert subscription is not None
            texts.extend(str(each.body) for each in subscription.browse())
            if error is not None:
                raise error

    site.trap = trap
    if error is None:
        unsubscribe(site)
    else:
        with pytest.raises(ResourceError, match="locked"):
            unsubscribe(site)
    assert texts == ["meanwhile"]
    site.send("afterwards", to=NEWS)
    if error is not None:
        site.crash()
    assert received(site) == (["meanwhile", "afterwards"] if error else [])


@POINTS
@FATES
@ENDS
def test_a_subscription_whose_end_is_in_doubt_is_gone(site: Site, point: str, fate: BaseException, end: str) -> None:
    subscribe(site)
    site.send("old", to=NEWS)
    fail(site, point, fate)
    with pytest.raises(type(fate)):
        unsubscribe(site)
    with pytest.raises(UnknownSubscriptionError):
        unsubscribe(site)
    subscribe(site)
    site.send("new", to=NEWS)
    getattr(site, end)()
    assert received(site) == ["new"]
    assert len(site.medium.queues) == 1


@ENDS
@FATES
@pytest.mark.parametrize("point", ["before write", "after write"])
def test_other_terms_whose_write_is_in_doubt_are_those_of_the_subscription(
    site: Site, point: str, fate: BaseException, end: str
) -> None:
    """JMS 1.1 §6.11.1: the old one has ended, and what comes from then on is for the other one, which anybody may have."""
    subscribe(site)
    site.send("old", to=NEWS)
    fail(site, point, fate)
    with pytest.raises(type(fate)):
        subscribe(site, selector="region = 'EU'")
    for region in ("EU", "US"):
        site.send(region, to=NEWS, properties={"region": region})
    getattr(site, end)()
    assert received(site, selector="region = 'EU'") == ["EU"]
    assert len(site.medium.queues) == 1
    assert len(site.broker.virtual_host.store) == 0


@ENDS
def test_other_terms_that_are_refused_leave_the_subscription_as_it_was(site: Site, end: str) -> None:
    """It had ended, with its messages, and the other one was not there."""
    subscribe(site)
    site.send("old", to=NEWS)
    fail(site, "before write", ResourceError("no space"))
    with pytest.raises(ResourceError, match="no space"):
        subscribe(site, selector="region = 'EU'")
    site.send("new", to=NEWS)
    getattr(site, end)()
    assert received(site) == ["old", "new"]


@ENDS
def test_messages_of_other_terms_that_cannot_be_removed_go_later(site: Site, end: str) -> None:
    subscribe(site)
    site.send("old", to=NEWS)
    fail(site, "before drop", ResourceError("no space"))
    subscribe(site, selector="region = 'EU'")
    assert site.trap is None
    getattr(site, end)()
    assert received(site, selector="region = 'EU'") == []
    assert (len(site.medium.queues), len(site.broker.virtual_host.store)) == (1, 0)


@ENDS
@pytest.mark.parametrize("transacted", [False, True])
def test_an_id_that_was_written_after_its_queue_has_ended_is_not_remembered(
    site: Site, end: str, transacted: bool
) -> None:
    """Also if the next queue of its name is there already: its message is in none, and must not be refused there as a duplicate."""
    named = {"JMS_pyjms_duplicateId": "7"}
    site.send("old")
    session = site.session(transacted=transacted)

    def trap(at: str, changes: Changes) -> None:
        if at == "before write" and changes.duplicates:
            site.trap = None
            site.broker.virtual_host.destroy_queue(ORDERS.name)
            site.broker.virtual_host.create_queue(ORDERS.name, None)

    site.trap = trap
    with nullcontext() if transacted else pytest.raises(ChannelClosedError):
        site.send("lost", session, properties=named)
        if transacted:
            session.commit()  # it was sent before the end, and went with its queue
    getattr(site, end)()
    for name in ("again", "a double"):
        site.send(name, properties=named)
    assert site.texts() == ["again"]


def test_a_queue_that_was_never_written_ends_without_a_trace(site: Site) -> None:
    site.send("transient", delivery_mode=1)
    fail(site, "before drop", InDoubtError("nobody answered"))
    with pytest.raises(InDoubtError):
        destroy(site)
    assert take_all(consume(site.session())) == []
    site.crash()
    assert not site.medium.queues


@pytest.mark.parametrize("transacted", [False, True], ids=["alone", "transacted"])
def test_who_writes_a_queue_that_has_just_ended_does_not_bring_it_back(site: Site, transacted: bool) -> None:
    """Its first message was on its way when its end was written."""
    site.texts()  # names it
    for point in ("after drop", "before write"):
        session = site.session(transacted=transacted)

        def send(session: VmSession = session) -> None:
            site.send("first", session)
            if transacted:
                session.commit()

        def trap(at: str, changes: Changes, point: str = point, send: Callable[[], None] = send) -> None:
            if at == point and (changes.definitions or at == "after drop"):
                site.trap = None
                send() if at == "after drop" else site.broker.virtual_host.destroy_queue(ORDERS.name)

        site.trap = trap
        if point == "after drop":
            destroy(site)
        else:
            with suppress(DestinationError):
                send()
        assert QueueManager(site.broker.virtual_host).names() == []
    site.send("another")
    assert len(site.medium.queues) == 1
    site.crash()
    assert site.drain() == [("another", 1)]


@pytest.mark.parametrize("prepares", [False, True], ids=["commit", "prepare"])
def test_a_queue_may_end_at_any_moment_of_a_commit(site: Site, prepares: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other queues get what the transaction sends, whenever somebody looks how the ended one is kept."""
    places = 0
    left: int | None = None

    def look(queue: Queue) -> QueueJournal | None:
        nonlocal left
        if queue is ending and left is not None:
            left -= 1
            if left < 0:  # what another thread does there
                queue.journal = None
        kept: QueueJournal | None = vars(queue)["journal"]
        return kept

    ending: Queue | None = None
    monkeypatch.setattr(
        Queue, "journal", property(look, lambda queue, kept: vars(queue).update(journal=kept)), raising=False
    )
    while left is None or left < 0:
        name, xid = f"queue {places}", Xid(1, b"%d" % places, b"")
        address = Address(AddressKind.QUEUE, name)
        site.send("order", to=address)
        session = site.session(transacted=True)
        if prepares:
            session.xa_start(xid)
        session.acknowledge(take_all(consume(session, address)))
        site.send(name, session, BILLS)
        ending, left = site.broker.virtual_host.find_queue(name), places
        if prepares:
            session.xa_end(xid)
            session.xa_prepare(xid)
        else:
            session.commit()
        if left < 0:
            places += 1
        ending = None
        if prepares:
            session.xa_commit(xid, one_phase=False)
        session.close()
    assert places > prepares
    assert site.texts(BILLS) == [f"queue {place}" for place in range(places + 1)]


# Making and altering

WRITTEN = pytest.mark.parametrize("point", ["before define", "after define"])


def policies(site: Site) -> list[str | None]:
    """Return what type the queue has: now, after the next write and a crash."""
    types: list[str | None] = []
    for _ in range(2):
        queue = site.broker.virtual_host.find_queue(ORDERS.name)
        types.append(None if queue is None else queue.policy.type.value)
        site.send("another", to=BILLS)
        site.crash()
    return types


def test_an_alteration_that_is_refused_changes_nothing_whatever_comes_meanwhile(site: Site) -> None:
    manager = QueueManager(site.broker.virtual_host)
    manager.create(ORDERS.name)
    fail(site, "before define", ResourceError("the database is locked"), lambda: site.send("meanwhile"))
    with pytest.raises(ResourceError, match="locked"):
        manager.alter(ORDERS.name, type="last_value", key="k")
    assert policies(site) == ["standard", "standard"]


@pytest.mark.parametrize("is_own", [False, True])
def test_an_alteration_that_is_written_and_can_no_longer_be_obeyed_is_taken_back(site: Site, is_own: bool) -> None:
    manager = QueueManager(site.broker.virtual_host)
    manager.create(ORDERS.name, QueuePolicy().altered(type="sorted", key="k") if is_own else None)

    def trap(at: str, _: Changes) -> None:
        if at == "before define":
            site.trap = None
            site.send("meanwhile", properties={"k": "v"})

    site.trap = trap
    with pytest.raises(DestinationInUseError, match="1 message and"):
        manager.alter(ORDERS.name, type="last_value", key="k")
    assert policies(site) == ["sorted" if is_own else "standard"] * 2
    (record,) = [each for each in site.medium.queues.values() if each.address == ORDERS]
    assert (record.policy is not None) is is_own


@WRITTEN
@FATES
def test_an_alteration_in_doubt_is_taken_back(site: Site, point: str, fate: BaseException) -> None:
    manager = QueueManager(site.broker.virtual_host)
    manager.create(ORDERS.name)
    fail(site, point, fate)
    with pytest.raises(type(fate)):
        manager.alter(ORDERS.name, type="last_value", key="k")
    assert policies(site) == ["standard", "standard"]


@WRITTEN
@FATES
def test_a_queue_whose_making_is_in_doubt_is_there(site: Site, point: str, fate: BaseException) -> None:
    manager = QueueManager(site.broker.virtual_host)
    fail(site, point, fate)
    with pytest.raises(type(fate)):
        manager.create(ORDERS.name, type="sorted", key="k")
    with pytest.raises(QueueExistsError):
        manager.create(ORDERS.name)
    assert policies(site) == ["sorted", "sorted"]


@WRITTEN
@pytest.mark.parametrize("error", [None, InDoubtError("nobody answered")], ids=["written", "doubt"])
def test_a_queue_that_a_sender_makes_while_it_is_made_by_name_is_the_senders(
    site: Site, point: str, error: InDoubtError | None
) -> None:
    manager = QueueManager(site.broker.virtual_host)

    def trap(at: str, _: Changes) -> None:
        if at == point:
            site.trap = None
            site.send("first")
            if error is not None:
                raise error

    site.trap = trap
    with pytest.raises(QueueExistsError if error is None else InDoubtError):
        manager.create(ORDERS.name, type="sorted", key="k")
    assert policies(site) == ["standard", "standard"]
    assert site.drain() == [("first", 1)]


@WRITTEN
@FATES
def test_a_subscription_whose_making_is_in_doubt_is_not_there(site: Site, point: str, fate: BaseException) -> None:
    """So nothing is kept for whom nobody has told that there is one."""
    fail(site, point, fate)
    with pytest.raises(type(fate)):
        subscribe(site)
    with pytest.raises(UnknownSubscriptionError):
        unsubscribe(site)
    site.restart()
    assert not site.medium.queues
    subscribe(site)
    site.send("wanted", to=NEWS)
    site.crash()
    assert received(site) == ["wanted"]


# What is in doubt when a queue ends

ASKED = pytest.mark.parametrize("point", ["before write", "after write"])


def in_doubt(site: Site, point: str, work: Callable[[], object], ending: str) -> None:
    """Do something whose write is not answered, destroy a queue, and have the store asked."""
    site.trap = lost_at(point)
    with pytest.raises(InDoubtError):
        work()
    site.trap = None
    site.broker.virtual_host.destroy_queue(ending)
    come_again(site)


@pytest.mark.parametrize(
    ("point", "ending", "expected"),
    [
        ("before write", ORDERS, ([], [])),
        ("before write", BILLS, (["order"], [])),
        ("after write", ORDERS, ([], ["order"])),
        ("after write", BILLS, ([], [])),
    ],
)
def test_a_move_in_doubt_is_judged_by_the_queue_that_is_left(
    site: Site, point: str, ending: Address, expected: tuple[list[str], list[str]]
) -> None:
    manager = QueueManager(site.broker.virtual_host)
    manager.create(BILLS.name)
    site.send("order")
    in_doubt(site, point, lambda: manager.move(ORDERS.name, BILLS.name), ending.name)
    assert len(site.broker.virtual_host.store) == sum(map(len, expected))  # neither forgotten nor counted for ever
    for _ in range(2):
        assert (site.texts(), site.texts(BILLS)) == expected
        site.crash()


@ASKED
@pytest.mark.parametrize("ending", [ORDERS, BILLS], ids=["first", "second"])
def test_a_commit_in_doubt_is_judged_by_the_queues_that_are_left(site: Site, point: str, ending: Address) -> None:
    letters = Address(AddressKind.QUEUE, "letters")
    site.send("order")
    site.send("bill", to=BILLS)
    site.send("first letter", to=letters)
    session = site.session(transacted=True)
    for address in (ORDERS, BILLS):
        taken = take_all(consume(session, address))
        assert len(taken) == 1
        assert text(taken[0]) in {"order", "bill"}
        session.acknowledge(taken)
    site.send("letter", session, letters)
    in_doubt(site, point, session.commit, ending.name)
    left = BILLS if ending is ORDERS else ORDERS
    for _ in range(2):
        assert len(site.texts(left)) == (point == "before write")
        assert site.texts(letters) == ["first letter", "letter"][: 1 + (point == "after write")]
        assert site.texts(ending) == []
        site.crash()


@ASKED
def test_a_commit_in_doubt_is_not_judged_by_a_subscription_that_has_ended(site: Site, point: str) -> None:
    subscribe(site)
    site.send("order")
    session = site.session(transacted=True)
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["order"]
    session.acknowledge(taken)
    site.send("news", session, NEWS)
    site.trap = lost_at(point)
    with pytest.raises(InDoubtError):
        session.commit()
    site.trap = None
    unsubscribe(site)
    come_again(site)
    for _ in range(2):
        assert site.texts() == (["order"] if point == "before write" else [])
        site.crash()


@ASKED
def test_nothing_is_left_of_what_was_in_doubt_in_queues_that_have_all_ended(site: Site, point: str) -> None:
    site.send("order")
    site.send("bill", to=BILLS)
    session = site.session()
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["order"]
    in_doubt(site, point, lambda: session.acknowledge(taken), ORDERS.name)
    assert len(site.broker.virtual_host.store) == 1
    assert site.broker.virtual_host.storage is not None
    assert site.broker.virtual_host.storage.in_doubt_writes.settle()
    site.restart()
    assert (site.drain(), site.drain(BILLS)) == ([], [("bill", 1)])
