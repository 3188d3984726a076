"""A message goes to a consumer that waits where it comes in, if nothing is in the way; else it takes all steps."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.delivery import Delivery
from pyjms_provider.core.journal.journal import QueueNumber
from pyjms_provider.core.journal.queue_journal import QueueJournal
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.core.queue.consumer import Consumer
from pyjms_provider.core.queue.statistics import Step, tracing
from pyjms_provider.stores.volatile import Medium, VolatileJournal
from tests.provider.helpers import QueueWorld, Reader, make_envelope, text_of


class Taker:
    """Takes what it is handed, as long as it has credit."""

    def __init__(self, reader: Reader, credit: int = 1000) -> None:
        self.credit = credit
        self.queue = reader.consumer.queue
        self.taken: list[Delivery] = []
        reader.target.direct = self

    def may_take(self) -> bool:
        assert self.queue.lock.locked()
        takes = self.credit > 0
        self.credit -= takes
        return takes

    def take(self, delivery: Delivery) -> None:
        assert not self.queue.lock.locked()
        self.taken.append(delivery)

    @property
    def texts(self) -> list[str]:
        return [text_of(each) for each in self.taken]


def entry_of(delivery: Delivery) -> QueueEntry:
    assert isinstance(delivery.tag, QueueEntry)
    return delivery.tag


def test_who_waits_is_handed_the_message_without_being_woken() -> None:
    world = QueueWorld()
    reader = world.reader(interested=True)
    taker = Taker(reader)
    steps: list[Step] = []
    with tracing(lambda step, _: steps.append(step)):
        world.send("a")
    assert steps == [Step.ARRIVED, Step.HANDED_OVER]
    (delivery,) = taker.taken
    assert (text_of(delivery), delivery.count, delivery.redelivered) == ("a", 1, False)
    assert world.queue.count(MessageState.DELIVERED) == 1
    assert world.queue.settle(entry_of(delivery), 1, reader.session)
    assert not len(world.store)


@pytest.mark.realises("QCM-13")
def test_who_takes_none_now_is_woken_as_ever() -> None:
    world = QueueWorld()
    reader = world.reader(interested=True)
    taker = Taker(reader, credit=1)
    world.send("a")
    world.send("b")
    assert taker.texts == ["a"]
    assert text_of(reader.pull()) == "b"


def test_nobody_is_handed_a_message_before_one_that_waits() -> None:
    world = QueueWorld()
    reader = world.reader(interested=True)
    taker = Taker(reader, credit=0)
    world.send("a")
    taker.credit = 10
    world.send("b")
    assert taker.texts == []
    assert [text_of(reader.pull()) for _ in range(2)] == ["a", "b"]


def test_consumers_are_handed_messages_in_turn() -> None:
    world = QueueWorld()
    takers = [Taker(world.reader(str(number), interested=True)) for number in range(3)]
    for number in range(9):
        world.send(str(number))
    assert [taker.texts for taker in takers] == [["0", "3", "6"], ["1", "4", "7"], ["2", "5", "8"]]


def test_who_has_been_handed_one_waits_behind_those_that_pull() -> None:
    world = QueueWorld()
    taker = Taker(world.reader("taker", interested=True))
    puller = world.reader("puller", interested=True)
    for text in "abc":
        world.send(text)
        delivery = puller.pull()
        assert (delivery is None) == (text != "b")
        assert puller.pull() is None
    assert taker.texts == ["a", "c"]


@pytest.mark.parametrize(
    "obstacle",
    ["not interested", "stopped", "selector", "priority", "looks", "receiver", "expired", "policy", "delayed"],
)
def test_with_anything_in_the_way_a_message_takes_all_steps(obstacle: str) -> None:
    world = QueueWorld()
    if obstacle == "policy":
        world.queue.alter(QueuePolicy(groups=True))
    reader = world.reader(selector="TRUE" if obstacle == "selector" else None, interested=obstacle != "not interested")
    taker = Taker(reader)
    if obstacle == "stopped":
        reader.session.set_delivering(False)
    if obstacle == "priority":
        world.reader("other", priority=1)
    if obstacle == "looks":
        world.reader("looks", acquires=False)
    if obstacle == "receiver":
        world.queue.add_receiver(_Indifferent())  # type: ignore[arg-type]  # it accepts nothing
    if obstacle == "delayed":
        reference = world.store.store(make_envelope("later"), None)
        reference.deliver_at_ms = world.clock.time_ms() + 1000
        world.queue.enqueue(reference)
    else:
        world.send("a", expiration_ms=1 if obstacle == "expired" else 0)
    assert taker.texts == []
    if obstacle == "not interested":
        reader.consumer.set_interested(True)
    if obstacle == "stopped":
        reader.session.set_delivering(True)
    pulled = reader.consumer.pull()
    assert (pulled is None) == (obstacle in {"expired", "delayed"})


class _Indifferent:
    receiver_id = "indifferent"

    def accept(self, _: object) -> bool:
        return False


def test_what_was_handed_over_comes_back_to_its_place() -> None:
    world = QueueWorld()
    reader = world.reader(interested=True)
    taker = Taker(reader, credit=2)
    for text in "abcd":
        world.send(text)
    assert taker.texts == ["a", "b"]
    world.queue.give_back([(entry_of(each), each.count) for each in reversed(taker.taken)], reader.session)
    found = [reader.consumer.pull() for _ in range(4)]
    assert [text_of(each) for each in found] == ["a", "b", "c", "d"]
    assert [each.redelivered for each in found if each is not None] == [True, True, False, False]


def test_what_was_handed_over_comes_back_with_its_session() -> None:
    world = QueueWorld()
    reader = world.reader(interested=True)
    taker = Taker(reader)
    world.send("a", priority=9)
    world.send("b")
    assert taker.texts == ["a", "b"]
    reader.session.close()
    assert world.texts() == ["a", "b"]


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["send", "credit", "pull", "settle", "give back", "close", "open"]), st.integers(0, 2)
        ),
        max_size=60,
    )
)
def test_whatever_happens_each_message_is_with_one_consumer_or_in_the_queue(steps: list[tuple[str, int]]) -> None:
    world = QueueWorld()
    readers = {number: world.reader(str(number), interested=True) for number in range(2)}
    takers = {number: Taker(reader, credit=0) for number, reader in readers.items()}
    held: list[tuple[int, Delivery]] = []
    sent, settled, first_seen = 0, Counter[str](), list[int]()

    def note(number: int, delivery: Delivery) -> None:
        held.append((number, delivery))
        if delivery.count == 1:
            first_seen.append(int(text_of(delivery)))

    for what, number in steps:
        reader, taker = readers.get(number % 2), takers.get(number % 2)
        if what == "send":
            world.send(str(sent))
            sent += 1
        elif what == "credit" and taker is not None:
            taker.credit += number
        elif what == "pull" and reader is not None:
            delivery = reader.consumer.pull()
            if delivery is not None:
                note(number % 2, delivery)
        elif what in {"settle", "give back"} and held:
            owner, delivery = held.pop(number % len(held))
            session = readers[owner].session
            if what == "settle":
                assert world.queue.settle(entry_of(delivery), delivery.count, session)
                settled[text_of(delivery)] += 1
            else:
                world.queue.give_back([(entry_of(delivery), delivery.count)], session)
        elif what == "close" and reader is not None:
            reader.session.close()
            held = [each for each in held if each[0] != number % 2]
            del readers[number % 2], takers[number % 2]
        elif what == "open" and reader is None:
            readers[number % 2] = world.reader(str(number), interested=True)
            takers[number % 2] = Taker(readers[number % 2], credit=0)
        for owner, each in takers.items():
            for delivery in each.taken:
                note(owner, delivery)
            each.taken.clear()
    here = Counter(world.texts()) + Counter(text_of(delivery) for _, delivery in held) + settled
    assert here == Counter(map(str, range(sent)))
    assert first_seen == sorted(first_seen), "nothing overtakes what has not been seen"


def test_a_consumer_that_nobody_hands_anything_to_says_so() -> None:
    world = QueueWorld()
    reader = world.reader(interested=True)
    taker = Taker(reader)
    extra = Consumer(world.queue, reader.target)
    reader.session.add_consumer(extra)
    world.send("a")
    assert taker.texts == ["a"], "one that is not interested is in nobody's way"


def test_a_kept_message_is_handed_to_nobody_before_a_mark_covers_it() -> None:
    world = QueueWorld()
    kept = world.queue.journal = QueueJournal(VolatileJournal(Medium(), holder="test"), world.clock, QueueNumber(1))
    reader = world.reader(interested=True)
    taker = Taker(reader)
    for text in "ab":
        reference = world.store.store(make_envelope(text), None)
        reference.journaled = True
        world.queue.enqueue(reference)
        if text == "a":
            assert taker.texts == [], "after a crash it would come again without its flag"
            kept.cover(reference, 1)
            assert text_of(reader.consumer.pull()) == "a"
            assert reader.consumer.pull() is None  # now it waits again
    assert taker.texts == ["b"]
