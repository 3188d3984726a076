"""What was sent PERSISTENT survives, what was acknowledged does not come back, and nobody sees what is not written."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from threading import Event, Thread

import pytest

from pyjms.spi.errors import ProviderError, ResourceError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.queue.queue_rules import QueueFullError
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stores.volatile import Crash, VolatileJournal
from tests.provider.keeping.site import ORDERS, Site, consume, take_all, text

PATIENCE_S = 30.0


@pytest.mark.realises("JBM-2.f", "JBM-3.1.b", "JBM-5.2.c", "BOIL-PROD-2")
def test_what_was_sent_persistent_survives_in_order(site: Site) -> None:
    for number in range(5):
        site.send(f"{number}", priority=number % 2)
    site.crash()
    assert site.drain() == [("1", 1), ("3", 1), ("0", 1), ("2", 1), ("4", 1)]


@pytest.mark.realises("BOIL-ORD-3", "BOIL-PROD-6")
def test_what_was_sent_non_persistent_does_not(site: Site) -> None:
    site.send("kept")
    site.send("lost", delivery_mode=1)
    assert site.texts() == ["kept", "lost"]
    site.crash()
    assert site.texts() == ["kept"]


def test_what_was_acknowledged_does_not_come_back(site: Site) -> None:
    for name in "abc":
        site.send(name)
    session = site.session()
    consumer = consume(session)
    first = consumer.poll()
    assert first is not None
    session.acknowledge([first])
    site.crash()
    assert [name for name, _ in site.drain()] == ["b", "c"]
    site.crash()
    assert site.drain() == []


@pytest.mark.realises("JBM-2.f", "JBM-5.3.b")
def test_what_a_client_had_comes_back_flagged(site: Site) -> None:
    site.send("seen")
    delivery = consume(site.session()).poll()
    assert delivery is not None
    assert (text(delivery), delivery.count) == ("seen", 1)
    site.crash()
    assert site.drain() == [("seen", 2)]


def test_one_small_write_covers_many_deliveries(site: Site) -> None:
    for number in range(60):
        site.send(f"{number}")
    site.points.clear()
    taken = take_all(consume(site.session()))
    assert [text(each) for each in taken] == [f"{number}" for number in range(60)]
    assert site.points == ["before write", "after write"]


def test_what_nobody_had_yet_comes_back_without_a_flag(site: Site) -> None:
    for number in range(300):
        site.send(f"{number}")
    first = consume(site.session()).poll()
    assert text(first) == "0"
    site.crash()
    counts = dict(site.drain())
    assert counts["0"] == 2
    assert sum(count > 1 for count in counts.values()) <= 101
    assert counts["299"] == 1


def test_after_an_orderly_stop_nothing_is_flagged_that_was_not_delivered(site: Site) -> None:
    for name in "ab":
        site.send(name)
    assert text(consume(site.session()).poll()) == "a"
    site.restart()
    assert site.drain() == [("a", 2), ("b", 1)]


def test_how_often_a_message_came_back_is_known_after_a_restart(site: Site) -> None:
    site.send("again")
    session = site.session()
    consumer = consume(session)
    for expected in (1, 2, 3):
        delivery = consumer.poll()
        assert delivery is not None
        assert delivery.count == expected
        session.recover([delivery])
    site.restart()
    assert site.drain() == [("again", 4)]


def test_what_no_client_saw_is_not_counted_after_a_restart(site: Site) -> None:
    site.send("ahead")
    session = site.session()
    consumer = consume(session)
    session.recover(take_all(consumer))
    ahead = take_all(consumer)
    assert [(text(each), each.count) for each in ahead] == [("ahead", 2)], "which was written down"
    session.give_back_unseen(ahead)
    site.restart()
    assert site.drain() == [("ahead", 2)], "flagged still, as a client had it once"


def test_what_no_client_saw_is_no_dead_letter_after_a_restart(site: Site) -> None:
    QueueManager(site.broker.virtual_host).create("orders", max_deliveries=2)
    site.send("ahead")
    session = site.session()
    consumer = consume(session)
    session.recover(take_all(consumer))
    for _ in range(3):
        ahead = take_all(consumer)
        assert [text(each) for each in ahead] == ["ahead"]
        session.give_back_unseen(ahead)
    site.restart()
    assert site.drain() == [("ahead", 2)]


def test_a_first_delivery_that_no_client_saw_leaves_no_flag_after_a_restart(site: Site) -> None:
    site.send("ahead")
    session = site.session()
    ahead = take_all(consume(session))
    assert [text(each) for each in ahead] == ["ahead"]
    session.give_back_unseen(ahead)
    site.restart()
    assert site.drain() == [("ahead", 1)]


def test_a_delivery_whose_message_could_not_be_read_is_not_counted_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(memory_bytes=0)
    site.send("far")
    session = site.session()
    consumer = consume(session)
    first = take_all(consumer)
    assert [text(each) for each in first] == ["far"]
    session.recover(first)
    site.send("next")  # which takes the room of the first one
    again = consumer.poll()
    assert again is not None

    def unreadable(*_: object) -> None:
        raise ResourceError("the disk does not answer")

    with monkeypatch.context() as patch, pytest.raises(ResourceError, match="does not answer"):
        patch.setattr(VolatileJournal, "read", unreadable)
        text(again)
    site.restart()
    assert site.drain() == [("far", 2), ("next", 1)]
    site.stop()


@pytest.mark.realises("JBM-3.1.b")
def test_a_message_is_not_seen_before_it_is_written(site: Site) -> None:
    seen: list[list[str]] = []

    def look(point: str, changes: Changes) -> None:
        if changes.messages:
            seen.append([point, *site.texts()])

    site.send("first")
    site.trap = look
    site.send("second")
    assert seen == [["before write", "first"], ["after write", "first"]]
    assert site.texts() == ["first", "second"]


def test_a_send_that_cannot_be_written_raises_and_leaves_nothing(site: Site) -> None:
    site.send("before")
    site.trap = _refuse
    with pytest.raises(ResourceError, match="no space"):
        site.send("refused")
    assert site.texts() == ["before"]
    site.trap = None
    site.send("after")
    site.crash()
    assert [name for name, _ in site.drain()] == ["before", "after"]


def test_an_acknowledgement_that_cannot_be_written_leaves_the_message(site: Site) -> None:
    for name in "ab":
        site.send(name)
    session = site.session()
    consumer = consume(session)
    first = consumer.poll()
    assert text(first) == "a"
    assert first is not None
    site.trap = _refuse
    with pytest.raises(ResourceError, match="no space"):
        session.acknowledge([first])
    site.trap = None
    assert site.drain() == [("a", 2), ("b", 1)]


def test_an_acknowledgement_that_cannot_be_written_settles_no_transient_message_either(site: Site) -> None:
    for number, mode in enumerate((1, 2, 1)):
        site.send(f"{number}", delivery_mode=mode)
    session = site.session()
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["0", "1", "2"]
    site.trap = _refuse
    with pytest.raises(ResourceError, match="no space"):
        session.acknowledge(taken)
    site.trap = None
    session.close()
    assert site.drain() == [("0", 2), ("1", 2), ("2", 2)]


def test_a_delivery_that_cannot_be_noted_is_not_made(site: Site) -> None:
    site.send("shy")
    session = site.session()
    delivery = consume(session).poll()
    assert delivery is not None
    site.trap = _refuse
    with pytest.raises(ResourceError):
        _ = delivery.envelope
    site.trap = None
    session.recover([delivery])
    assert site.drain() == [("shy", 1)]  # nobody has seen it, so it does not count


@pytest.mark.parametrize("point", ["before write", "after write"])
def test_a_crash_while_sending_leaves_all_or_nothing(site: Site, point: str) -> None:
    site.send("before")
    site.trap = _crash_at(point)
    with pytest.raises(Crash):
        site.send("interrupted")
    site.trap = None
    site.start()
    expected = ["before"] if point == "before write" else ["before", "interrupted"]
    assert [name for name, _ in site.drain()] == expected


def test_expired_messages_are_not_kept_for_ever(site: Site) -> None:
    site.send("short", expiration_ms=site.clock.time_ms() + 1000)
    site.send("long")
    site.clock.advance(2000)  # type: ignore[attr-defined]  # it is a VirtualClock
    assert site.drain() == [("long", 1)]
    site.restart()
    assert not site.medium.messages


def test_a_message_that_expires_while_the_broker_is_down_is_not_delivered(site: Site) -> None:
    site.send("short", expiration_ms=site.clock.time_ms() + 1000)
    site.journal.crash()
    site.clock.advance(2000)  # type: ignore[attr-defined]
    site.start()
    assert site.drain() == []


def test_temporary_queues_are_not_kept(site: Site) -> None:
    connection = site.connect()
    temporary = connection.create_temporary(ORDERS.kind)
    site.points.clear()
    site.send("reply", to=temporary)
    assert "before write" not in site.points
    session = connection.open_session(transacted=False)
    assert text(consume(session, temporary).poll()) == "reply"


def test_a_queue_is_kept_with_its_first_message_and_not_before(site: Site) -> None:
    consume(site.session())
    site.send("transient", delivery_mode=1)
    assert not site.medium.queues
    site.points.clear()
    site.send("a")
    site.send("b")
    assert site.points == ["before write", "after write"] * 2
    assert [record.address for record in site.medium.queues.values()] == [ORDERS]
    site.crash()
    assert site.texts() == ["a", "b"]


def test_a_queue_whose_first_message_could_not_be_written_is_kept_with_the_next_one(site: Site) -> None:
    site.trap = _refuse
    with pytest.raises(ResourceError):
        site.send("refused")
    site.trap = None
    assert not site.medium.queues
    site.send("a")
    site.crash()
    assert site.drain() == [("a", 1)]


@pytest.mark.parametrize("commits", [False, True])
def test_a_transaction_keeps_the_queues_that_it_names_first(site: Site, commits: bool) -> None:
    bills = type(ORDERS)(ORDERS.kind, "bills")
    session = site.session(transacted=True)
    for address in (ORDERS, bills):
        site.send("a", session, address)
    assert not site.medium.queues
    session.commit() if commits else session.rollback()
    assert len(site.medium.queues) == (2 if commits else 0)
    site.crash()
    assert [site.texts(address) for address in (ORDERS, bills)] == ([["a"], ["a"]] if commits else [[], []])


def test_a_policy_given_before_the_first_message_stays(site: Site) -> None:
    site.texts()
    QueueManager(site.broker.virtual_host).alter("orders", max_messages=7)
    site.send("a")
    site.crash()
    assert QueueManager(site.broker.virtual_host).report("orders").policy.max_messages == 7


def test_two_that_name_a_new_queue_at_once_get_the_same(site: Site) -> None:
    """Both write its definition with their messages, and it is there once."""
    defining, go_on = Event(), Event()

    def hold_the_first(point: str, changes: Changes) -> None:
        if point == "before write" and changes.definitions and not defining.is_set():
            defining.set()
            assert go_on.wait(PATIENCE_S)

    site.trap = hold_the_first
    slow = Thread(target=site.send, args=("slow",))
    slow.start()
    assert defining.wait(PATIENCE_S)
    site.send("fast")
    go_on.set()
    slow.join(PATIENCE_S)
    assert not slow.is_alive()
    site.crash()
    assert sorted(name for name, _ in site.drain()) == ["fast", "slow"]
    assert len(site.medium.queues) == 1


def test_dead_letters_survive_and_their_origin_is_empty(site: Site) -> None:
    site.send("poison")
    session = site.session()
    delivery = consume(session).poll()
    assert delivery is not None
    session.reject(delivery, "cannot be read")
    site.crash()
    assert site.drain() == []
    dead = next(iter(site.session().browse(type(ORDERS)(ORDERS.kind, "DLQ"), None)))
    assert dead.envelope.body == "poison"
    assert dead.envelope.properties["JMS_pyjms_deadReason"] == "cannot be read"


def test_a_rejection_that_cannot_be_written_changes_nothing(site: Site) -> None:
    site.send("poison")
    session = site.session()
    delivery = consume(session).poll()
    assert delivery is not None
    assert text(delivery) == "poison"
    site.texts(type(ORDERS)(ORDERS.kind, "DLQ"))
    site.trap = _refuse
    with pytest.raises(ProviderError):
        session.reject(delivery, "cannot be read")
    site.trap = None
    assert [name for name, _ in site.drain()] == ["poison"]
    assert site.texts(type(ORDERS)(ORDERS.kind, "DLQ")) == []


def _refuse(point: str, _: Changes) -> None:
    if point.startswith("before"):
        raise ResourceError("no space on the disk")


def _crash_at(chosen: str) -> Callable[[str, Changes], None]:
    def trap(point: str, changes: Changes) -> None:
        if point == chosen and changes.messages:
            raise Crash

    return trap


def test_a_broker_that_is_stopped_waits_for_who_is_acknowledging(site: Site) -> None:
    """Else the message would be on the disk without its delivery, and come again without a flag."""
    site.send("being settled")
    session = site.session()
    delivery = consume(session).poll()
    assert delivery is not None
    assert text(delivery) == "being settled"
    writing, go_on = Event(), Event()

    def hold(point: str, changes: Changes) -> None:
        if point == "before write" and changes.removals:
            writing.set()
            assert go_on.wait(PATIENCE_S)

    site.trap = hold
    settling = Thread(target=session.acknowledge, args=([delivery],))
    settling.start()
    assert writing.wait(PATIENCE_S)
    stopping = Thread(target=site.broker.stop)
    stopping.start()
    before = site.medium.is_clean
    go_on.set()
    for thread in (settling, stopping):
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    site.trap = None
    assert (before, site.medium.is_clean) == (False, True)
    site.start()
    assert site.drain() == []


def dormant(site: Site) -> int:
    """Return of how many messages the queue knows two numbers only."""
    ordering = site.broker.virtual_host.queue("orders").ordering
    assert isinstance(ordering, PriorityQueueEntryList)
    return sum(isinstance(entry, int) for level in ordering._levels for entry in level.entries)


def test_a_backlog_sleeps_on_when_its_first_messages_are_looked_at(site: Site) -> None:
    for number in range(200):
        site.send(str(number))
    site.crash()
    manager = QueueManager(site.broker.virtual_host)
    assert [each.body for each in islice(manager.browse("orders"), 3)] == ["0", "1", "2"]
    assert dormant(site) >= 200 - 64
    assert [each.body for each in manager.browse("orders")] == [*map(str, range(200))]
    assert [name for name, _ in site.drain()] == [*map(str, range(200))]


def test_a_backlog_sleeps_on_while_its_queue_is_paused(site: Site) -> None:
    for number in range(20):
        site.send(str(number))
    site.crash()
    manager = QueueManager(site.broker.virtual_host)
    manager.pause("orders")
    site.send("in the pause")
    assert dormant(site) == 20
    manager.resume("orders")
    manager.alter("orders", max_messages=21)
    with pytest.raises(QueueFullError):
        site.send("too many")
    assert [name for name, _ in site.drain()] == [*map(str, range(20)), "in the pause"]
    site.send("again")
