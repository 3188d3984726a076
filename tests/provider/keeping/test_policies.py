"""What of a queue's policy survives a restart: the policy itself, times, ids of producers, dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ProviderError, ResourceError
from pyjms.testing import VirtualClock
from pyjms.types import Long
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.channel import ChannelClosedError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.core.queue.queue_rules import QueueFullError
from pyjms_provider.queue_manager import QueueExistsError, QueueManager, Replay
from tests.provider.helpers import HandClock
from tests.provider.keeping.site import ORDERS, Site, consume, take_all
from tests.provider.rival import Rival
from tests.provider.simulation.site import SimulatedSite

DLQ = Address(AddressKind.QUEUE, "DLQ")
LATE = Address(AddressKind.QUEUE, "late")


def manager(site: Site) -> QueueManager:
    return QueueManager(site.broker.virtual_host)


def now_ms(site: Site) -> int:
    return site.clock.time_ms()


def advance(site: Site, milliseconds: int) -> None:
    assert isinstance(site.clock, VirtualClock)
    site.clock.advance(milliseconds)
    for name in manager(site).names():
        site.broker.virtual_host.queue(name).run_due(now_ms(site))


def give_back(site: Site) -> None:
    session = site.session()
    session.recover(take_all(consume(session)))
    session.close()


def test_a_policy_of_its_own_survives_and_the_brokers_is_not_written_down(site: Site) -> None:
    manager(site).create("bulk", max_messages=5, overflow="ring")
    manager(site).alter("bulk", max_messages=2)
    site.send("a")
    site.crash()
    assert manager(site).report("bulk").policy == QueuePolicy.from_mapping({"max_messages": 2, "overflow": "ring"})
    assert [record.policy for record in site.medium.queues.values() if record.address == ORDERS] == [None]
    bulk = Address(AddressKind.QUEUE, "bulk")
    for text in "abc":
        site.send(text, to=bulk)
    site.crash()
    assert site.texts(bulk) == ["b", "c"], "what was displaced does not come back"


@pytest.mark.parametrize("delivery_mode", [1, 2], ids=["transient", "persistent"])
def test_the_time_of_a_message_that_is_moved_or_copied_is_kept(site: Site, delivery_mode: int) -> None:
    later = {"JMS_pyjms_deliverAt": Long(now_ms(site) + 60)}
    site.send("later", delivery_mode=delivery_mode, properties=later)
    assert manager(site).copy("orders", "copies") == 1
    assert manager(site).move("orders", "moved") == 1
    if delivery_mode == 2:
        site.crash()
    names = ("copies", "moved")
    assert [site.drain(Address(AddressKind.QUEUE, name)) for name in names] == [[], []]
    advance(site, 60)
    assert [site.texts(Address(AddressKind.QUEUE, name)) for name in names] == [["later"], ["later"]]


def test_a_policy_that_cannot_be_written_is_not_obeyed(site: Site) -> None:
    manager(site).create("bulk")
    journal = site.journal

    def refuse(_: object) -> Any:
        raise ResourceError("no")

    journal.define_queue = refuse  # type: ignore[assignment, method-assign]
    with pytest.raises(ResourceError):
        manager(site).alter("bulk", paused=True)
    assert not manager(site).report("bulk").policy.paused
    with pytest.raises(ResourceError):
        manager(site).create("other")
    assert manager(site).names() == ["bulk"]


def while_it_is_written(site: Site, work: Callable[[], object]) -> Rival:
    """Return one who does `work` when the next alteration is about to be written."""
    rival = Rival(work)

    def meanwhile(point: str, _: Changes) -> None:
        if point == "before define":
            site.trap = None
            rival.begin()

    site.trap = meanwhile
    return rival


def test_alterations_at_the_same_time_are_all_kept(site: Site) -> None:
    manager(site).create("orders")
    rival = while_it_is_written(site, lambda: manager(site).pause("orders"))
    manager(site).alter("orders", max_messages=5)
    assert rival.wait() is None
    wanted = QueuePolicy(paused=True, max_messages=5)
    assert manager(site).report("orders").policy == wanted
    site.crash()
    assert manager(site).report("orders").policy == wanted


def test_an_alteration_that_cannot_be_written_takes_no_other_one_back(site: Site) -> None:
    manager(site).create("orders")
    rival = while_it_is_written(site, lambda: manager(site).pause("orders"))
    meanwhile = site.trap
    assert meanwhile is not None

    def fail(point: str, changes: Changes) -> None:
        meanwhile(point, changes)
        if point == "before define":
            raise ResourceError("no")

    site.trap = fail
    with pytest.raises(ResourceError):
        manager(site).alter("orders", max_messages=5)
    assert rival.wait() is None
    assert manager(site).report("orders").policy == QueuePolicy(paused=True)
    site.crash()
    assert manager(site).report("orders").policy == QueuePolicy(paused=True)


def test_a_queue_that_is_destroyed_while_it_is_altered_does_not_come_back(site: Site) -> None:
    manager(site).create("orders")
    rival = while_it_is_written(site, lambda: manager(site).destroy("orders"))
    manager(site).alter("orders", max_messages=5)
    assert rival.wait() is None
    site.crash()
    assert manager(site).names() == []


def test_a_queue_that_two_create_has_the_policy_that_is_kept(site: Site) -> None:
    rival = while_it_is_written(site, lambda: manager(site).create("orders", max_messages=7))
    manager(site).create("orders", max_messages=5)
    assert isinstance(rival.wait(), QueueExistsError)
    assert manager(site).report("orders").policy.max_messages == 5
    site.crash()
    assert manager(site).report("orders").policy.max_messages == 5


def test_a_policy_that_is_not_understood_does_not_keep_the_broker_from_starting(site: Site) -> None:
    manager(site).create("bulk", paused=True)
    site.broker.stop()
    for number, record in site.medium.queues.items():
        object.__setattr__(record, "policy", '{"paused": "perhaps"}')
        site.medium.queues[number] = record
    site.start()
    assert not manager(site).report("bulk").policy.paused


def test_a_destroyed_queue_does_not_come_back(site: Site) -> None:
    site.send("a")
    manager(site).destroy("orders")
    site.crash()
    assert manager(site).names() == []
    assert site.texts() == []


@pytest.mark.parametrize(
    "choices", [{"type": "sorted", "key": "n"}, {"type": "last_value", "key": "n"}, {"groups": True}]
)
def test_queues_of_all_types_are_restored(site: Site, choices: dict[str, Any]) -> None:
    manager(site).create("orders", **choices)
    for number in (3, 1, 2, 1):
        site.send(f"{number}", properties={"n": number, "JMSXGroupID": "g"})
    before = site.texts()
    site.crash()
    assert site.texts() == before
    site.send("new", properties={"n": 2, "JMSXGroupID": "g"})
    expected = {"sorted": ["1", "1", "2", "new", "3"], "last_value": ["3", "1", "new"]}
    assert site.texts() == expected.get(str(choices.get("type")), ["3", "1", "2", "1", "new"])


def send_eur(site: Site, text: str, priority: int = 4) -> None:
    site.send(text, priority=priority, properties={"symbol": "EUR"})


def hold_one(site: Site) -> tuple[VmSession, Delivery]:
    """Receive a message, and leave it at that."""
    session = site.session()
    (delivery,) = take_all(consume(session))
    assert delivery.envelope.body is not None
    return session, delivery


@pytest.mark.parametrize("delay_ms", [0, 500])
def test_an_old_value_that_was_held_does_not_replace_the_newer_one_after_a_crash(site: Site, delay_ms: int) -> None:
    manager(site).create("orders", type="last_value", key="symbol", redelivery_delay_ms=delay_ms)
    send_eur(site, "old")
    hold_one(site)
    send_eur(site, "new", priority=5)  # of the first one's priority, it might have been seen, too
    site.crash()
    assert site.texts() == ["new"]
    advance(site, 500)
    assert site.texts() == ["new"]
    site.restart()
    assert len(site.medium.messages) == 1


def test_an_old_value_that_is_delayed_over_a_crash_goes_with_the_newer_one(site: Site) -> None:
    """Also if that is gone when the delay ends."""
    manager(site).create("orders", type="last_value", key="symbol", redelivery_delay_ms=500)
    send_eur(site, "old")
    session, delivery = hold_one(site)
    session.recover([delivery])
    site.crash()
    assert manager(site).report("orders").delayed == 1
    send_eur(site, "new")
    assert site.drain() == [("new", 1)]
    advance(site, 500)
    assert site.texts() == []


def test_an_old_value_whose_acknowledgement_cannot_be_written_does_not_replace_the_newer_one(site: Site) -> None:
    manager(site).create("orders", type="last_value", key="symbol")
    send_eur(site, "old")
    session, delivery = hold_one(site)
    send_eur(site, "new")
    site.trap = _refuse_removals
    with pytest.raises(ResourceError):
        session.acknowledge([delivery])
    site.trap = None
    assert site.texts() == ["new"]


def test_an_old_value_whose_delivery_cannot_be_noted_does_not_come_back(site: Site) -> None:
    manager(site).create("orders", type="last_value", key="symbol")
    send_eur(site, "old")
    (delivery,) = take_all(consume(site.session()))
    send_eur(site, "new")
    site.trap = _refuse_all
    with pytest.raises(ResourceError):
        _ = delivery.envelope
    site.trap = None
    assert site.texts() == ["new"]


def consume_the_newer_value_while_the_old_one_is_held(site: Site) -> None:
    manager(site).create("orders", type="last_value", key="symbol")
    send_eur(site, "old")
    hold_one(site)
    send_eur(site, "new")
    assert site.drain() == [("new", 1)]


def test_an_old_value_that_was_held_goes_at_an_orderly_stop_if_the_newer_one_was_consumed(site: Site) -> None:
    consume_the_newer_value_while_the_old_one_is_held(site)
    site.restart()
    assert site.texts() == []


def test_an_old_value_that_was_held_comes_again_flagged_after_a_crash_if_the_newer_one_was_consumed(site: Site) -> None:
    """It is a limit, which docs/how-to/durable.md and `LastValues` tell of with its reason."""
    consume_the_newer_value_while_the_old_one_is_held(site)
    site.crash()
    assert site.drain() == [("old", 2)]


def _refuse_removals(point: str, changes: Changes) -> None:
    if point == "before write" and changes.removals:
        raise ResourceError("the disk is full")


def _refuse_all(point: str, _: Changes) -> None:
    if point == "before write":
        raise ResourceError("the disk is full")


def test_limits_count_what_was_restored(site: Site) -> None:
    manager(site).create("orders", max_messages=2)
    for text in "ab":
        site.send(text)
    site.crash()
    with pytest.raises(ResourceError):
        site.send("c")
    assert site.drain() == [("a", 1), ("b", 1)]
    site.send("c")


@pytest.mark.parametrize("transacted", [False, True])
def test_a_kept_message_takes_its_room_once_and_gives_it_back(site: Site, transacted: bool) -> None:
    manager(site).create("orders", max_messages=2)
    session = site.session(transacted=transacted)
    queue = site.broker.virtual_host.queue("orders")
    enqueue = queue.enqueue

    def take_over_and_send(*what: Any) -> bool:
        queue.enqueue = enqueue  # type: ignore[method-assign]
        taken = enqueue(*what)
        site.send("b", session)
        return taken

    def fail(point: str, _: Changes) -> None:
        if point == "before write":
            raise ResourceError("no")

    for _ in range(3):
        site.trap = fail
        with pytest.raises(ProviderError):
            site.send("a", session)
            session.commit()
    site.trap = None
    queue.enqueue = take_over_and_send  # type: ignore[assignment, method-assign]
    site.send("a", session)
    with pytest.raises(QueueFullError):
        site.send("c", session)
    if transacted:
        session.commit()
    assert sorted(site.texts()) == ["a", "b"]


def test_a_scheduled_message_waits_for_its_time_over_a_restart(site: Site) -> None:
    site.send("later", properties={"JMS_pyjms_deliverAt": Long(now_ms(site) + 500)})
    site.send("now")
    site.crash()
    assert site.texts() == ["now"]
    advance(site, 500)
    assert site.texts() == ["now", "later"]


def test_a_redelivery_delay_is_kept_over_a_restart(site: Site) -> None:
    """When it was given back is not written down, so the whole delay counts from the start: never less."""
    manager(site).create("orders", redelivery_delay_ms=500, redelivery_multiplier=2.0)
    for text in "abc":
        site.send(text)
    session = site.session()
    consumer = consume(session)
    for _ in range(2):
        (first, *others) = take_all(consumer)
        session.acknowledge(others)
        session.recover([first])
        advance(site, 500)
    assert (site.texts(), manager(site).report("orders").delayed) == ([], 1)
    site.send("new")
    for begin_anew in (site.restart, site.crash):
        begin_anew()
        assert site.texts() == ["new"]
        advance(site, 999)
        assert site.texts() == ["new"], "the second delay is twice the first one"
    advance(site, 1)
    assert site.texts() == ["a", "new"], "in its old place"


def test_what_was_not_given_back_is_not_delayed_by_a_restart(site: Site) -> None:
    manager(site).create("orders", redelivery_delay_ms=500)
    site.send("a")
    site.restart()
    assert site.texts() == ["a"]


def test_a_message_that_a_client_has_is_not_set_aside_as_expired(site: Site) -> None:
    """It may be consumed yet: to be processed and set aside would be once too often."""
    manager(site).create("orders", expiry_queue="late")
    for text in "ab":
        site.send(text, expiration_ms=now_ms(site) + 500)
    session = site.session()
    consumed, returned = take_all(consume(session))
    advance(site, 500)
    assert site.texts(LATE) == []
    session.acknowledge([consumed])
    session.recover([returned])
    assert (site.texts(), site.texts(LATE)) == ([], ["b"])
    site.crash()
    assert (site.texts(), site.texts(LATE)) == ([], ["b"])


@pytest.fixture
def alone() -> Iterator[SimulatedSite]:
    """A site whose housekeeper comes when the test says so."""
    made = SimulatedSite()
    yield made
    made.stop()


def let_pass(site: SimulatedSite, milliseconds: int) -> None:
    assert isinstance(site.clock, VirtualClock)
    site.clock.advance(milliseconds)
    site.tend()


def test_what_expires_while_its_transaction_is_written_is_set_aside_too(alone: SimulatedSite) -> None:
    manager(alone).create("orders", expiry_queue="late")
    session = alone.session(transacted=True)
    alone.send("a", session, expiration_ms=now_ms(alone) + 500)

    def let_time_pass(point: str, changes: Changes) -> None:
        if point == "before write" and changes.messages:
            alone.trap = None
            let_pass(alone, 500)

    alone.trap = let_time_pass
    session.commit()
    alone.tend()
    assert (alone.texts(), alone.texts(LATE)) == ([], ["a"])


def test_an_expired_message_that_cannot_be_set_aside_is_tried_again_later(alone: SimulatedSite) -> None:
    manager(alone).create("orders", expiry_queue="late")
    alone.send("a", expiration_ms=now_ms(alone) + 500)
    alone.trap = _refuse_messages
    let_pass(alone, 500)
    alone.trap = None
    assert alone.texts(LATE) == []
    let_pass(alone, 999)
    assert alone.texts(LATE) == [], "a disk that is full is not asked all the time"
    let_pass(alone, 1)
    assert (alone.texts(), alone.texts(LATE)) == ([], ["a"])


def test_a_message_that_cannot_become_a_dead_letter_is_not_out_of_reach(site: Site) -> None:
    manager(site).create("orders", max_deliveries=1)
    for mode in (1, 2):
        site.send(f"{mode}", delivery_mode=mode)
    session = site.session()
    taken = take_all(consume(session))
    assert [each.envelope.body for each in taken] == ["1", "2"]
    site.trap = _refuse_messages
    session.recover(taken)
    site.trap = None
    assert sorted(site.texts() + site.texts(DLQ)) == ["1", "2"]
    give_back(site)
    assert (site.texts(), sorted(site.texts(DLQ))) == ([], ["1", "2"])


def _refuse_messages(point: str, changes: Changes) -> None:
    if point == "before write" and changes.messages:
        raise ResourceError("the disk is full")


def test_ids_of_producers_survive(site: Site) -> None:
    def send(text: str, identity: str, *, transacted: bool = False, mode: int = 2) -> None:
        session = site.session(transacted=transacted)
        site.send(text, session, properties={"JMS_pyjms_duplicateId": identity}, delivery_mode=mode)
        if transacted:
            session.commit()

    send("a", "1")
    send("b", "2", transacted=True)
    send("c", "3", mode=1)
    site.crash()
    send("a again", "1")
    send("b again", "2")
    send("c again", "3")
    assert site.texts() == ["a", "b", "c again"], "what was lost may be sent again"
    advance(site, 300_000)
    send("a late", "1")
    assert site.texts()[-1] == "a late"


@pytest.mark.parametrize("ahead_ms", [0, -86_400_000, -999_999_999_000])
def test_ids_are_remembered_by_who_starts_with_a_clock_that_was_put_back_and_no_longer_than_the_window(
    site: Site, ahead_ms: int
) -> None:
    def send(text: str) -> None:
        site.send(text, properties={"JMS_pyjms_duplicateId": "1"})

    clock = site.clock = HandClock(site.clock.time_ms())
    site.restart()
    send("a")
    clock.ahead_ms = ahead_ms
    site.crash()
    send("again")
    assert site.texts() == ["a"]
    clock.now_ms += 300_000
    send("late")
    assert site.texts() == ["a", "late"]


def test_ids_of_producers_go_with_their_queue(site: Site) -> None:
    site.send("a", properties={"JMS_pyjms_duplicateId": "1"})
    manager(site).destroy("orders")
    site.crash()
    site.send("a again", properties={"JMS_pyjms_duplicateId": "1"})
    assert site.texts() == ["a again"]


def test_an_id_that_was_written_when_its_queue_was_destroyed_is_not_remembered(site: Site) -> None:
    manager(site).create("orders")

    def destroy(point: str, changes: Changes) -> None:
        if point == "before write" and changes.duplicates:
            site.trap = None
            manager(site).destroy("orders")

    site.trap = destroy
    with pytest.raises(ChannelClosedError):
        site.send("a", properties={"JMS_pyjms_duplicateId": "1"})
    site.crash()
    site.send("a again", properties={"JMS_pyjms_duplicateId": "1"})
    assert site.texts() == ["a again"]


def test_an_id_whose_message_was_not_written_is_not_remembered(site: Site) -> None:
    def fail(point: str, changes: Changes) -> None:
        if point == "before write" and changes.duplicates:
            raise ResourceError("no")

    site.trap = fail
    with pytest.raises(ResourceError):
        site.send("a", properties={"JMS_pyjms_duplicateId": "1"})
    site.trap = None
    site.send("b", properties={"JMS_pyjms_duplicateId": "1"})
    assert site.texts() == ["b"]


def test_a_dead_letter_is_in_one_queue_at_any_moment(site: Site) -> None:
    manager(site).create("orders", max_deliveries=1)
    site.send("a")
    site.points.clear()
    give_back(site)
    assert site.points.count("before write") == site.points.count("after write")
    site.crash()
    assert (site.texts(), site.texts(DLQ)) == ([], ["a"])
    assert manager(site).replay() == Replay(returned=1, left=0)
    site.crash()
    assert (site.texts(), site.texts(DLQ)) == (["a"], [])


def test_a_dead_letter_that_cannot_be_written_comes_again(site: Site) -> None:
    manager(site).create("orders", max_deliveries=1)
    site.send("a")
    site.session().browse(DLQ, None)

    def fail(point: str, changes: Changes) -> None:
        if point == "before write" and changes.messages:
            raise ResourceError("the disk is full")

    site.trap = fail
    give_back(site)
    assert site.texts() == ["a"]
    site.trap = None
    give_back(site)
    assert (site.texts(), site.texts(DLQ)) == ([], ["a"])


def test_a_message_that_ends_the_broker_each_time_is_set_aside_in_the_end(site: Site) -> None:
    manager(site).create("orders", max_deliveries=3)
    site.send("deadly")
    for _ in range(3):
        (delivery,) = take_all(consume(site.session()))
        assert delivery.envelope.body == "deadly"
        site.crash()
    assert take_all(consume(site.session())) == []
    (letter,) = list(manager(site).browse("DLQ"))
    assert letter.properties["JMS_pyjms_deadReason"] == "it was delivered 3 times, and given back"


@pytest.mark.parametrize("end", [Site.restart, Site.crash])
def test_moved_and_purged_messages_stay_so(site: Site, end: Callable[[Site], None]) -> None:
    for number in range(4):
        site.send(f"{number}", properties={"n": number})
    assert manager(site).move("orders", "bulk", "n = 1") == 1
    assert manager(site).copy("orders", "copies", "n = 2") == 1
    assert manager(site).purge("orders", "n = 3") == 1
    end(site)
    names = ("orders", "bulk", "copies")
    assert [site.texts(Address(AddressKind.QUEUE, name)) for name in names] == [["0", "2"], ["1"], ["2"]]
