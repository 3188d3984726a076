"""A queue and the consumers that pull: the contract between them, settling, giving back, order, expiry, threads."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError
from pyjms_provider.core.channel import ChannelClosedError, UnreliableChannelError
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.channel_state import Reliability
from pyjms_provider.core.queue.consumer import Consumer, ConsumerList
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.store import NotAtOnceError
from tests.provider.cost import is_kept, steps_of
from tests.provider.helpers import QueueWorld, Reader, entry_of, holders, text_of


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


def counts(queue: Queue) -> dict[str, int]:
    return {state.name: queue.count(state) for state in MessageState if queue.count(state)}


def pulled(reader: Reader) -> Delivery:
    delivery = reader.pull()
    assert delivery is not None
    return delivery


# The three calls


@pytest.mark.realises("QCM-8", "QCM-9", "QCM-10", "QCM-2")
def test_interest_wake_up_and_pull_are_the_whole_contract(world: QueueWorld) -> None:
    reader = world.reader()
    world.queue.set_notify_work_desired(reader.consumer, True)
    world.send("a")
    assert reader.wake_ups == 1, "Consumer.notify_work reached the client"
    delivery = world.queue.deliver_single_message(reader.consumer)
    assert text_of(delivery) == "a"
    assert world.queue.deliver_single_message(reader.consumer) is None


@pytest.mark.parametrize("is_woken", [True, False])
def test_who_may_not_wait_is_told_of_a_long_search_and_stays_as_it_was(world: QueueWorld, is_woken: bool) -> None:
    for _ in range(5_000):
        world.send()
    reader = world.reader(selector="colour = 'blue'", interested=is_woken)
    place = reader.consumer.place
    with pytest.raises(NotAtOnceError):
        world.queue.deliver_single_message(reader.consumer, or_wait=True, at_once=True)
    assert reader.consumer.place is place
    assert world.queue.deliver_single_message(reader.consumer, or_wait=True) is None
    assert reader.consumer.place is ConsumerList.INTERESTED
    assert world.queue.deliver_single_message(reader.consumer, or_wait=True, at_once=True) is None
    world.send("found", properties={"colour": "blue"})
    assert text_of(world.queue.deliver_single_message(reader.consumer, or_wait=True, at_once=True)) == "found"


@pytest.mark.realises("QCM-7", "QCM-6")
def test_a_wake_up_may_come_from_any_thread_and_only_passes_on(world: QueueWorld) -> None:
    """From a sender, from a consumer that gives back, from a clock's thread; the pull is the session's own."""
    reader = world.reader(interested=True)
    thread = Thread(target=world.send)
    thread.start()
    thread.join()
    assert reader.wake_ups == 1
    assert world.queue.count(MessageState.DELIVERED) == 0, "nothing was pulled for it"
    delivery = pulled(reader)
    assert reader.pull() is None
    other = world.reader("other", interested=True)
    thread = Thread(target=reader.give_back, args=(delivery,))
    thread.start()
    thread.join()
    assert reader.wake_ups + other.wake_ups == 2


def test_no_lock_is_held_while_a_consumer_is_woken(world: QueueWorld) -> None:
    seen: list[int] = []
    session = world.session()
    target = session.add_target(lambda: seen.append(world.queue.count(MessageState.NEW)))
    consumer = Consumer(world.queue, target)
    session.add_consumer(consumer)
    consumer.set_interested(True)
    world.send()
    unit = world.unit()
    assert consumer.pull() is not None
    assert consumer.pull() is None
    world.send(unit=unit)
    unit.commit(0)
    assert seen == [1, 1]


@pytest.mark.realises("QCM-1")
def test_a_target_reads_several_queues_through_a_consumer_each(world: QueueWorld) -> None:
    other = world.make_queue("queue://other")
    reader = world.reader()
    second = Consumer(other, reader.target)
    reader.session.add_consumer(second)
    for text in "ab":
        world.send(text)
        world.send(text.upper(), queue=other)
    texts = [text_of(reader.target.pull()) for _ in range(4)]
    assert sorted(texts) == ["A", "B", "a", "b"]
    assert texts[0].lower() == texts[1].lower(), "each queue in its turn"
    assert reader.target.pull() is None
    reader.session.remove_target(reader.target)
    assert second.place is ConsumerList.REMOVED
    assert other.count(MessageState.DELIVERED) == 2
    reader.session.close()
    assert other.count(MessageState.NEW) == world.queue.count(MessageState.NEW) == 2


# Settling and giving back


def test_a_settled_message_is_gone(world: QueueWorld) -> None:
    reader = world.reader()
    reference = world.send()
    delivery = pulled(reader)
    assert counts(world.queue) == {"DELIVERED": 1}
    assert reader.settle(delivery)
    assert not reader.settle(delivery)
    assert counts(world.queue) == {}
    assert holders(world.store, reference) == 0


def test_only_the_session_that_pulled_a_message_can_settle_it(world: QueueWorld) -> None:
    reader, stranger = world.reader("reader"), world.reader("stranger")
    world.send()
    delivery = pulled(reader)
    assert not stranger.settle(delivery)
    stranger.give_back(delivery)
    assert counts(world.queue) == {"DELIVERED": 1}
    assert entry_of(delivery).outstanding == {"reader"}


def test_a_message_given_back_is_new_again_and_redelivered(world: QueueWorld) -> None:
    reader = world.reader()
    for text in "abc":
        world.send(text)
    first = pulled(reader)
    reader.give_back(first)
    assert counts(world.queue) == {"NEW": 3}
    again = pulled(reader)
    assert (text_of(again), again.count, again.redelivered, entry_of(again).redelivered) == ("a", 2, True, True)
    assert not reader.settle(first), "that delivery is over"


def test_giving_back_wakes_somebody(world: QueueWorld) -> None:
    reader, other = world.reader("reader"), world.reader("other", interested=True)
    world.reader("absent")
    for text in "ab":
        world.send(text)
    assert other.texts() == ["a", "b"]
    for text in "cd":
        world.send(text)
    deliveries = [pulled(reader), pulled(reader)]
    assert other.pull() is None
    before = other.wake_ups
    reader.give_back(*deliveries)
    assert other.wake_ups == before + 1
    assert other.texts() == ["c", "d"]


def test_a_closing_session_gives_all_back_in_order(world: QueueWorld) -> None:
    reader, other = world.reader("reader"), world.reader("other")
    for text in "abcd":
        world.send(text)
    assert [text_of(pulled(reader)) for _ in range(2)] == ["a", "b"]
    assert text_of(pulled(other)) == "c"
    reader.session.close()
    reader.session.close()
    assert world.texts() == ["a", "b", "d"]
    assert reader.pull() is None


def test_a_closed_session_takes_no_consumers(world: QueueWorld) -> None:
    session = world.session()
    target = session.add_target(lambda: None)
    consumer = Consumer(world.queue, target)
    session.close()
    with pytest.raises(ClosedError):
        session.add_consumer(consumer)
    with pytest.raises(ClosedError):
        session.add_target(lambda: None)
    with pytest.raises(ClosedError):
        session.take_queue(world.queue)
    with pytest.raises(ClosedError):
        world.queue.add_consumer(consumer)
    assert world.queue.consumer_count == 0


def test_an_heir_settles_what_was_handed_over(world: QueueWorld) -> None:
    reader, heir = world.reader("reader"), world.reader("heir")
    world.send()
    delivery = pulled(reader)
    entry = entry_of(delivery)
    assert world.queue.change_holder(entry, delivery.count, reader.session, heir.session)
    assert not world.queue.change_holder(entry, delivery.count, reader.session, heir.session)
    assert not reader.settle(delivery)
    assert heir.settle(delivery)


def test_a_session_forgets_queues_that_it_no_longer_needs(world: QueueWorld) -> None:
    session = world.session()
    queues = [world.make_queue(f"queue://{number}") for number in range(10)]
    for number, queue in enumerate(queues):
        reader = world.reader(session=session, queue=queue)
        world.send(queue=queue)
        delivery = pulled(reader)
        if number % 2:
            reader.settle(delivery)
        session.remove_target(reader.target)
    assert [queue for queue in queues if is_kept(session, queue)] == queues[::2]


# Order


def test_a_session_forgets_a_queue_with_its_last_consumer_there(world: QueueWorld) -> None:
    session = world.session()
    other = world.make_queue("queue://other")
    here = [world.reader(session=session) for _ in range(20)]
    there = [world.reader(session=session, queue=other) for _ in range(20)]
    session.take_queue(other)

    assert is_kept(session, other)
    for reader in [*here[1:], *there]:
        session.remove_target(reader.target)
        session.remove_target(reader.target)
    assert is_kept(session, world.queue)
    assert not is_kept(session, other)
    session.remove_target(here[0].target)
    assert not is_kept(session, world.queue)


def steps_of_closing(others: int) -> int:
    """Return what it costs to close 10 consumers of a session that has so many others at other queues."""
    world = QueueWorld()
    session = world.session()
    for number in range(others):
        world.reader(session=session, queue=world.make_queue(f"queue://{number}"))
    readers = [world.reader(session=session) for _ in range(10)]

    def close() -> None:
        for reader in readers:
            session.remove_target(reader.target)

    return steps_of(close)


def test_to_close_a_consumer_costs_the_same_however_many_others_its_session_has() -> None:
    assert steps_of_closing(500) == steps_of_closing(1)


def steps_of_leaving(held: int) -> int:
    """Return what 20 sessions cost that take a message each, of which every second one is settled, and leave while another one holds so many."""
    world = QueueWorld()
    holder = world.reader("holder")
    texts = [str(number) for number in range(held)]
    for text in [*texts, *"abcdefghijklmnopqrst"]:
        world.send(text)
    assert holder.texts(held) == texts
    left: list[Reader] = []

    def leave() -> None:
        for _ in range(10):
            settling, closing = world.reader(), world.reader()
            left.extend((settling, closing))
            delivery = pulled(settling)
            settling.session.remove_target(settling.target)
            assert world.queue.held_count(settling.session)
            assert settling.settle(delivery)
            settling.session.close()
            delivery = pulled(closing)
            entry = entry_of(delivery)
            assert world.queue.change_holder(entry, delivery.count, closing.session, holder.session)
            assert not world.queue.held_count(closing.session)
            closing.session.close()

    steps = steps_of(leave)
    assert is_kept(world.queue, holder.session)
    assert not any(is_kept(world.queue, reader.session) for reader in left), "no others are kept"
    holder.session.close()
    assert world.texts() == [*texts, *"bdfhjlnprt"]
    assert not is_kept(world.queue, holder.session)
    return steps


def test_who_leaves_looks_once_at_the_much_that_others_hold() -> None:
    steps = steps_of_leaving(1_100) - steps_of_leaving(100)
    assert steps / 1_000 < 6, "one look at each, not twenty"


@pytest.mark.realises("JBM-9.1.1", "JBM-9.4", "BOIL-ORD-1", "BOIL-ORD-2")
def test_messages_of_one_thread_keep_their_order_within_a_priority(world: QueueWorld) -> None:
    reader = world.reader()
    for number in range(100):
        world.send(f"{number % 10}-{number:03}", priority=number % 10)
    texts = reader.texts()
    assert [text[0] for text in texts] == sorted((text[0] for text in texts), reverse=True)
    for priority in "0123456789":
        numbers = [text for text in texts if text[0] == priority]
        assert numbers == sorted(numbers)


@pytest.mark.realises("JBM-9.1.2")
def test_threads_that_send_one_after_the_other_keep_their_order(world: QueueWorld) -> None:
    for number in range(20):
        thread = Thread(target=world.send, args=(str(number),))
        thread.start()
        thread.join()
    assert world.reader().texts() == [str(number) for number in range(20)]


@pytest.mark.realises("JBM-9.1.3")
def test_threads_that_send_at_the_same_time_each_keep_their_own_order(world: QueueWorld) -> None:
    """Between them any order is right, so none is asked for."""
    start = Barrier(3)

    def send(name: str) -> None:
        start.wait()
        for number in range(200):
            world.send(f"{name}{number:03}")

    threads = [Thread(target=send, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = world.reader().texts()
    assert len(texts) == 600
    for name in "abc":
        own = [text for text in texts if text[0] == name]
        assert own == sorted(own)


@pytest.mark.realises("JBM-9.3", "BOIL-ORD-4")
def test_both_reliability_classes_keep_their_order(world: QueueWorld) -> None:
    """Between the classes nothing is promised. Here both share one order, which is more than that."""
    for number in range(20):
        world.send(f"{number:02}", persistent=number % 3 == 0)
    texts = world.reader().texts()
    for reliable in [True, False]:
        own = [text for text in texts if (int(text) % 3 == 0) is reliable]
        assert own == sorted(own)


@pytest.mark.realises("JBM-9.5")
def test_redelivery_need_not_keep_the_order(world: QueueWorld) -> None:
    """What is given back after later messages were taken comes after them."""
    reader = world.reader()
    for text in "ab":
        world.send(text)
    first, second = pulled(reader), pulled(reader)
    reader.settle(second)
    reader.give_back(first)
    assert reader.texts() == ["a"]


@pytest.mark.realises("JBM-10")
def test_references_are_ordered_by_priority_then_age(world: QueueWorld) -> None:
    low, high, later = world.send(priority=1), world.send(priority=8), world.send(priority=8)
    assert sorted([low, later, high]) == [high, later, low]
    assert high < later <= low
    assert low > high
    assert low == low  # noqa: PLR0124 - equality is identity
    assert high != later
    assert "priority=8" in repr(high)


# Reliability


@pytest.mark.realises("JBM-2.1.b", "JBM-2.1.a", "JBM-3.1.a", "JBM-7.1", "BOIL-PROD-2")
def test_a_strict_channel_without_persistence_refuses_reliable_messages() -> None:
    world = QueueWorld(reliability=Reliability.STRICT)
    assert not world.queue.is_reliable
    assert not world.store.is_reliable
    world.send("volatile")
    with pytest.raises(UnreliableChannelError, match="would lose the PERSISTENT message"):
        world.send("safe", persistent=True)
    assert world.texts() == ["volatile"]


def test_the_owner_of_a_broker_in_memory_may_accept_them_all_the_same() -> None:
    world = QueueWorld(reliability=Reliability.MEMORY)
    assert not world.queue.is_reliable, "it does not claim to be"
    world.send("safe", persistent=True)
    assert world.texts() == ["safe"]


# Selectors


def test_a_selector_does_not_keep_the_lock_over_a_long_backlog(world: QueueWorld) -> None:
    for number in range(2_000):
        world.send(properties={"n": number})
    reader = world.reader(selector="n = 1999")
    cursor = reader.consumer.cursor
    assert cursor is not None
    original = cursor.matches
    assert original is not None
    acquired: list[int] = []

    class CountingLock:
        def __enter__(self) -> None:
            acquired.append(1)

        def __exit__(self, *_: object) -> None:
            return

    world.queue.lock = CountingLock()  # type: ignore[assignment]
    assert reader.pull() is not None
    assert len(acquired) >= 2_000 // 256


def test_polling_does_not_evaluate_a_backlog_again(world: QueueWorld) -> None:
    for _ in range(500):
        world.send(properties={"n": 1})
    readers = [world.reader(str(number), selector="n = 2") for number in range(10)]
    cursor = readers[0].consumer.cursor
    assert cursor is not None
    original = cursor.matches
    assert original is not None
    evaluated: list[None] = []

    def matches(entry: object) -> bool:
        evaluated.append(None)
        return original(entry)  # type: ignore[arg-type]

    cursor.matches = matches
    for _ in range(3):
        for reader in readers:
            assert reader.pull() is None
    assert len(evaluated) == 500


# Expiry


@pytest.mark.realises("JBM-5.2.3.c")
def test_an_expired_message_is_removed_when_its_turn_comes(world: QueueWorld) -> None:
    reader = world.reader()
    reference = world.send("short", expiration_ms=1_010)
    world.send("long")
    world.clock.now_ms = 1_010
    assert world.texts() == ["long"]
    assert reader.texts() == ["long"]
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.2.3.c", "JBM-5.3.3.a")
@pytest.mark.parametrize("delivered", [True, False])
def test_the_housekeeper_removes_expired_messages_whether_delivered_or_not(world: QueueWorld, delivered: bool) -> None:
    reader = world.reader()
    reference = world.send("short", expiration_ms=1_010)
    assert world.due == [1_010]
    delivery = reader.pull() if delivered else None
    assert world.queue.run_due(1_009) == 1_010
    assert world.queue.run_due(1_010) is None
    assert counts(world.queue) == {}
    assert holders(world.store, reference) == 0
    if delivery is not None:
        assert not reader.settle(delivery), "nothing is left to settle"
        reader.give_back(delivery)
        assert counts(world.queue) == {}


def test_a_message_that_expires_in_the_clients_hands_does_not_come_back(world: QueueWorld) -> None:
    reader = world.reader()
    reference = world.send(expiration_ms=1_010)
    delivery = pulled(reader)
    world.clock.now_ms = 1_010
    reader.give_back(delivery)
    assert counts(world.queue) == {}
    assert holders(world.store, reference) == 0


def test_the_housekeeper_is_asked_once_for_the_next_expiry(world: QueueWorld) -> None:
    for expiration_ms in [2_000, 3_000, 1_500, 1_800]:
        world.send(expiration_ms=expiration_ms)
    assert world.due == [2_000, 1_500]
    assert world.queue.run_due(1_600) == 1_800


def test_settled_messages_that_would_expire_late_do_not_pile_up(world: QueueWorld) -> None:
    reader = world.reader()
    for _ in range(5_000):
        world.send(expiration_ms=10**12)
        reader.settle(pulled(reader))
    assert len(world.queue.times.expiry) < 200
    assert len(world.due) == 1


def test_a_browsing_consumer_passes_expired_messages_by(world: QueueWorld) -> None:
    browser = world.reader(acquires=False)
    world.send("short", expiration_ms=1_010)
    world.send("long")
    world.clock.now_ms = 1_010
    assert browser.texts() == ["long"]
    assert world.queue.count(MessageState.NEW) == 2
    looking = world.queue.open_browser(None)
    assert text_of(looking.next()) == "long"
    assert looking.next() is None


# Closing


def test_a_closed_queue_lets_go_of_everything_but_what_clients_hold(world: QueueWorld) -> None:
    reader = world.reader(interested=True)
    references = [world.send(str(number)) for number in range(4)]
    settled, returned = pulled(reader), pulled(reader)
    unit = world.unit()
    references.append(world.send(unit=unit))
    world.queue.close()
    world.queue.close()
    assert world.queue.is_closed
    assert not world.queue.accept(references[0])
    assert [holders(world.store, reference) for reference in references] == [1, 1, 0, 0, 0]
    assert reader.pull() is None
    reader.settle(settled)
    reader.give_back(returned)
    unit.commit(0)
    assert len(world.store) == 0
    for use in (world.send, world.reader, lambda: world.send(unit=world.unit())):
        with pytest.raises(ChannelClosedError, match="queue://orders no longer exists"):
            use()
