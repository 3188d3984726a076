"""Reader groups at ``vm://``: what they number, hold, read again, settle and give back; with a store, over restarts."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    ClosedError,
    DestinationError,
    FencedError,
    GroupError,
    InvalidSelectorError,
    SubscriptionInUseError,
)
from pyjms.spi.replay import GroupRequest, OpenGroup, ReaderGroups, ReservedMessage
from pyjms_provider.core.queue.cursor import Cursor
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.queue.search import waiting_entries
from pyjms_provider.core.transaction.reader_groups import Group
from pyjms_provider.queue_manager import QueueManager
from tests.provider.clients.world import World, consume, drain, news, poll
from tests.provider.cost import kept
from tests.provider.helpers import NEWS, ORDERS, HandClock, make_envelope


class Reader:
    """One group of a broker, which may have a store."""

    def __init__(self, world: World, options: str) -> None:
        self.world = world
        self.options = options
        self.connection = world.connect(options, client_id="spark")
        self.groups: ReaderGroups = self.connection.reader_groups()

    def restart(self) -> None:
        self.world.stop()
        self.connection = self.world.connect(self.options, client_id="spark")
        self.groups = self.connection.reader_groups()

    def open(
        self,
        address: Address = ORDERS,
        *,
        name: str = "g",
        selector: str | None = None,
        subscription: str | None = None,
    ) -> OpenGroup:
        request = GroupRequest(name=name, address=address, subscription=subscription, selector=selector)
        return self.groups.open(request)

    def send(self, *texts: str, persistent: bool = True, priority: int = 4, expiration_ms: int = 0) -> None:
        session = self.connection.open_session(transacted=False)
        for text in texts:
            session.send(
                make_envelope(
                    text,
                    persistent=persistent,
                    priority=priority,
                    expiration_ms=expiration_ms,
                    properties={"t": text[:1]},
                )
            )
        session.close()

    def reserve(self, opened: OpenGroup, after: int, most: int = 100, *, max_bytes: int | None = None) -> int:
        return self.groups.reserve(opened, after=after, max_messages=most, max_bytes=max_bytes, wait_ms=0)

    def read(self, opened: OpenGroup, after: int, upto: int) -> list[ReservedMessage]:
        group = opened.group
        found: list[ReservedMessage] = []
        while after + len(found) < upto:
            found += self.groups.read(group.name, group.generation, after=after + len(found), upto=upto)
        return found

    def texts(self, opened: OpenGroup, after: int, upto: int) -> list[object]:
        return [message.envelope.body for message in self.read(opened, after, upto)]

    def drain(self) -> list[str]:
        session = self.connection.open_session(transacted=False)
        try:
            return drain(session, consume(session))
        finally:
            session.close()


@pytest.fixture(params=["memory", "sqlite"])
def reader(world: World, request: pytest.FixtureRequest, tmp_path: Path) -> Reader:
    return Reader(world, "" if request.param == "memory" else f"?store=sqlite:///{tmp_path}/jms.db&synchronous=off")


@pytest.fixture
def durable(world: World, tmp_path: Path) -> Reader:
    return Reader(world, f"?store=sqlite:///{tmp_path}/jms.db&synchronous=off")


# Reserving and reading


def test_messages_are_numbered_from_1_and_can_be_read_again_and_again(reader: Reader) -> None:
    opened = reader.open()
    reader.send("a", "b", "c")
    assert (opened.group.low, opened.group.high) == (0, 0)
    assert reader.reserve(opened, 0) == 3
    first = reader.read(opened, 0, 3)
    assert [(each.number, each.envelope.body, each.count, each.redelivered) for each in first] == [
        (1, "a", 1, False),
        (2, "b", 1, False),
        (3, "c", 1, False),
    ]
    assert reader.read(opened, 0, 3) == first
    assert reader.texts(opened, 1, 2) == ["b"]
    assert reader.read(opened, 3, 3) == []


def test_what_a_group_holds_no_other_consumer_and_no_browser_gets(reader: Reader) -> None:
    opened = reader.open()
    reader.send("a", "b", "c")
    assert reader.reserve(opened, 0, 2) == 2
    session = reader.connection.open_session(transacted=False)
    assert [delivery.envelope.body for delivery in session.browse(ORDERS, None)] == ["c"]
    assert reader.drain() == ["c"]
    assert reader.texts(opened, 0, 2) == ["a", "b"]


def test_a_group_gets_nothing_that_a_consumer_holds(reader: Reader) -> None:
    opened = reader.open()
    reader.send("a", "b")
    session = reader.connection.open_session(transacted=False)
    held = poll(consume(session))
    assert reader.reserve(opened, 0) == 1
    assert reader.texts(opened, 0, 1) == ["b"]
    session.recover([held])
    assert reader.reserve(opened, 1) == 2
    (again,) = reader.read(opened, 1, 2)
    assert (again.envelope.body, again.count, again.redelivered) == ("a", 2, True)


def test_reserving_again_returns_what_is_there_already(reader: Reader) -> None:
    opened = reader.open()
    reader.send(*"abcde")
    assert reader.reserve(opened, 0, 3) == 3
    assert reader.reserve(opened, 0, 3) == 3
    assert reader.reserve(opened, 0, 2) == 2
    assert reader.reserve(opened, 2, 3) == 5
    assert reader.reserve(opened, 5, 3) == 5
    assert reader.texts(opened, 0, 5) == [*"abcde"]


def test_a_limit_of_bytes_lets_one_message_pass_at_least(reader: Reader) -> None:
    opened = reader.open()
    reader.send("x" * 1000, "y" * 1000, "z" * 1000)
    assert reader.reserve(opened, 0, max_bytes=10) == 1
    assert reader.reserve(opened, 0, max_bytes=2500) == 2
    assert reader.reserve(opened, 0, max_bytes=2500) == 2
    assert reader.reserve(opened, 0, max_bytes=1500) == 1
    assert reader.reserve(opened, 2, max_bytes=2500) == 3
    reader.groups.release("g")
    assert [text[0] for text in reader.drain()] == ["x", "y", "z"]


def test_numbers_follow_priorities_and_delays_are_respected(reader: Reader) -> None:
    opened = reader.open()
    reader.send("low", priority=1)
    reader.send("high", priority=8)
    session = reader.connection.open_session(transacted=False)
    session.send(make_envelope("later", persistent=True, properties={"JMS_pyjms_deliverAt": 5_000}))
    assert reader.reserve(opened, 0) == 2
    assert reader.texts(opened, 0, 2) == ["high", "low"]


def test_a_selector_leaves_the_others_to_others(reader: Reader) -> None:
    opened = reader.open(selector="t <> 'b'")
    reader.send("a", "b", "c")
    assert reader.reserve(opened, 0) == 2
    assert reader.texts(opened, 0, 2) == ["a", "c"]
    assert reader.drain() == ["b"]
    with pytest.raises(InvalidSelectorError):
        reader.open(name="other", selector="t <>")


def test_what_expires_after_it_was_reserved_stays_and_what_expired_before_is_left_out(
    reader: Reader, world: World
) -> None:
    assert isinstance(world.clock, HandClock)
    opened = reader.open()
    reader.send("early", expiration_ms=1_500)
    reader.send("kept", expiration_ms=3_000)
    world.clock.now_ms = 2_000
    assert reader.reserve(opened, 0) == 1
    world.clock.now_ms = 4_000
    reader.connection.broker.virtual_host.queue("orders").run_due(4_000)
    assert reader.texts(opened, 0, 1) == ["kept"]
    assert reader.groups.release("g") == 1
    assert reader.drain() == []


def test_a_page_is_bounded_and_the_next_one_goes_on(reader: Reader) -> None:
    opened = reader.open()
    reader.send(*(f"{number}" for number in range(1500)), "m" * 900_000, "n" * 900_000)
    assert reader.reserve(opened, 0, 5000) == 1502
    group = opened.group
    page = reader.groups.read(group.name, group.generation, after=0, upto=1502)
    assert len(page) == 1000
    page = reader.groups.read(group.name, group.generation, after=1000, upto=1502)
    assert [page[-1].number, len(page)] == [1501, 501]
    assert [each.number for each in reader.read(opened, 0, 1502)] == list(range(1, 1503))


def test_reserve_waits_for_a_message_and_ends_when_its_time_is_over(world: World) -> None:
    connection = world.connect(clock=SystemClock())
    groups = connection.reader_groups()
    opened = groups.open(GroupRequest(name="g", address=ORDERS))
    assert groups.reserve(opened, after=0, max_messages=5, max_bytes=None, wait_ms=20) == 0
    session = connection.open_session(transacted=False)
    found: list[int] = []

    def reserve() -> None:
        found.append(groups.reserve(opened, after=0, max_messages=5, max_bytes=None, wait_ms=10**6))

    thread = Thread(target=reserve)
    thread.start()
    session.send(make_envelope("a"))
    thread.join(10)
    assert found == [1]


# Acknowledging


def test_acknowledging_is_cumulative_and_may_be_repeated(reader: Reader) -> None:
    opened = reader.open()
    reader.send("a", "b", "c", persistent=False)
    reader.reserve(opened, 0)
    reader.groups.acknowledge(opened, 2)
    reader.groups.acknowledge(opened, 2)
    reader.groups.acknowledge(opened, 1)
    (group,) = reader.groups.groups()
    assert (group.low, group.high) == (2, 3)
    with pytest.raises(GroupError, match="acknowledged"):
        reader.groups.read("g", opened.group.generation, after=1, upto=3)
    assert reader.texts(opened, 2, 3) == ["c"]
    with pytest.raises(GroupError, match="has reserved 3"):
        reader.groups.acknowledge(opened, 4)
    assert reader.groups.release("g") == 1
    assert reader.drain() == ["c"]


def test_what_was_never_reserved_can_be_neither_read_nor_gone_on_from(reader: Reader) -> None:
    opened = reader.open()
    reader.send("a", "b")
    reader.reserve(opened, 0)
    with pytest.raises(GroupError, match="cannot be read"):
        reader.groups.read("g", opened.group.generation, after=0, upto=3)
    with pytest.raises(GroupError, match="cannot go on after number 3"):
        reader.reserve(opened, 3)
    reader.groups.acknowledge(opened, 1)
    with pytest.raises(GroupError, match="cannot go on after number 0"):
        reader.reserve(opened, 0)


# Releasing, fencing, generations


def test_a_released_group_gives_all_back_to_its_place_marked_redelivered(reader: Reader) -> None:
    opened = reader.open()
    reader.send("a", "b", "c")
    reader.reserve(opened, 0, 2)
    assert reader.groups.release("g") == 2
    session = reader.connection.open_session(transacted=False)
    consumer = consume(session)
    found = [poll(consumer) for _ in "abc"]
    assert [(each.envelope.body, each.redelivered) for each in found] == [("a", True), ("b", True), ("c", False)]
    assert reader.groups.groups() == []
    with pytest.raises(GroupError, match="no reader group 'g'"):
        reader.groups.release("g")
    with pytest.raises(GroupError, match="no reader group 'g'"):
        reader.reserve(opened, 0)


def test_a_new_group_of_the_name_has_another_generation(reader: Reader) -> None:
    first = reader.open()
    reader.send("a")
    reader.reserve(first, 0)
    reader.groups.release("g")
    second = reader.open()
    assert second.group.generation != first.group.generation
    for call in (
        lambda: reader.groups.read("g", first.group.generation, after=0, upto=1),
        lambda: reader.reserve(first, 0),
        lambda: reader.groups.acknowledge(first, 0),
    ):
        with pytest.raises(GroupError):
            call()


def test_who_opened_it_first_is_fenced_and_may_still_read(reader: Reader) -> None:
    first = reader.open()
    reader.send("a", "b")
    reader.reserve(first, 0)
    second = reader.open()
    assert second.fence > first.fence
    assert (second.group.low, second.group.high) == (0, 2)
    with pytest.raises(FencedError, match="opened by somebody else"):
        reader.reserve(first, 0)
    with pytest.raises(FencedError):
        reader.groups.acknowledge(first, 1)
    assert reader.texts(first, 0, 2) == ["a", "b"]
    reader.groups.acknowledge(second, 2)


def test_a_lost_connection_leaves_the_group_as_it_is(reader: Reader) -> None:
    opened = reader.open()
    reader.send("a")
    reader.reserve(opened, 0)
    reader.connection.close()
    with pytest.raises(ClosedError):
        reader.groups.groups()
    reader.connection = reader.world.connect(reader.options)
    reader.groups = reader.connection.reader_groups()
    assert reader.texts(opened, 0, 1) == ["a"]
    reader.groups.acknowledge(opened, 1)


def test_a_group_that_reads_something_else_is_not_opened(reader: Reader) -> None:
    reader.open()
    for request in (
        GroupRequest(name="g", address=Address(AddressKind.QUEUE, "others")),
        GroupRequest(name="g", address=ORDERS, selector="a = 1"),
    ):
        with pytest.raises(GroupError, match=r"reads queue://orders.*ask for the same"):
            reader.groups.open(request)
    temporary = reader.connection.create_temporary(AddressKind.QUEUE)
    with pytest.raises(DestinationError, match="temporary"):
        reader.open(temporary, name="other")
    with pytest.raises(DestinationError, match="no subscriptions"):
        reader.open(name="other", subscription="s")
    with pytest.raises(GroupError, match="1 to 200"):
        reader.open(name="")
    with pytest.raises(GroupError, match="1 to 200"):
        reader.open(name="x" * 201)


def test_a_group_goes_with_its_queue_and_a_new_one_begins_anew(reader: Reader) -> None:
    opened = reader.open()
    reader.send("a", "b")
    reader.reserve(opened, 0)
    reader.connection.broker.virtual_host.destroy_queue("orders")
    assert reader.groups.groups() == []
    with pytest.raises(GroupError):
        reader.groups.read("g", opened.group.generation, after=0, upto=1)
    again = reader.open()
    assert again.group.generation != opened.group.generation
    assert reader.reserve(again, 0) == 0
    assert len(reader.connection.broker.virtual_host.store) == 0


def test_two_may_find_at_once_that_a_group_went_with_its_queue(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    reader.open(selector="n > 0")
    host = reader.connection.broker.virtual_host
    (group,) = host.pipelines.groups.all()
    host.destroy_queue("orders")
    others = ["one who comes between the first one's look and his deed"]

    def is_gone(_: Group) -> bool:
        if others:
            others.pop()
            assert not reader.groups.groups()
        return True

    monkeypatch.setattr(Group, "is_gone", property(is_gone))
    assert not reader.groups.groups()
    assert group.is_ended


def test_deleting_messages_by_hand_leaves_those_that_are_held(reader: Reader) -> None:
    opened = reader.open()
    reader.send("a", "b")
    reader.reserve(opened, 0, 1)
    host = reader.connection.broker.virtual_host
    assert host.mover.delete(waiting_entries(host.queue("orders"))) == 1
    assert reader.texts(opened, 0, 1) == ["a"]


# Topics


def test_a_durable_subscription_is_made_for_a_group_and_collects_from_then_on(reader: Reader) -> None:
    opened = reader.open(NEWS, subscription="s", selector="JMSType IS NULL")
    session = reader.connection.open_session(transacted=False)
    session.send(news("a"))
    session.send(news("b", persistent=True))
    assert reader.reserve(opened, 0) == 2
    assert reader.texts(opened, 0, 2) == ["a", "b"]
    (group,) = reader.groups.groups()
    assert (group.subscription, group.client_id, group.selector) == ("s", "spark", "JMSType IS NULL")
    with pytest.raises(SubscriptionInUseError):
        consume(session, NEWS, durable_name="s")
    with pytest.raises(SubscriptionInUseError):
        session.unsubscribe("s")
    reader.groups.release("g")
    consumer = consume(session, NEWS, selector="JMSType IS NULL", durable_name="s")
    assert drain(session, consumer) == ["a", "b"]


def test_a_subscription_with_other_terms_is_left_alone(reader: Reader) -> None:
    session = reader.connection.open_session(transacted=False)
    consume(session, NEWS, durable_name="s").close()
    session.send(news("kept", persistent=True))
    with pytest.raises(GroupError, match=r"reads topic://news.*delete it first"):
        reader.open(NEWS, subscription="s", selector="a = 1")
    opened = reader.open(NEWS, subscription="s")
    assert reader.reserve(opened, 0) == 1
    with pytest.raises(GroupError, match="name the durable subscription"):
        reader.open(NEWS, name="other")


def test_two_groups_hold_the_same_transient_message_of_two_subscriptions(durable: Reader) -> None:
    first = durable.open(NEWS, name="one", subscription="one")
    second = durable.open(NEWS, name="two", subscription="two")
    session = durable.connection.open_session(transacted=False)
    session.send(news("a"))
    session.send(news("b", persistent=True))
    assert (durable.reserve(first, 0), durable.reserve(second, 0)) == (2, 2)
    durable.groups.acknowledge(first, 1)
    durable.restart()
    assert durable.texts(second, 0, 2) == ["a", "b"]
    assert durable.texts(first, 1, 2) == ["b"]
    durable.groups.release("two")
    session = durable.connection.open_session(transacted=False)
    assert drain(session, consume(session, NEWS, durable_name="two")) == ["a", "b"]


# Restarts


@pytest.mark.parametrize("persistent", [True, False])
def test_a_group_outlives_the_broker_with_what_it_holds(durable: Reader, persistent: bool) -> None:
    opened = durable.open(selector="t <> 'x'")
    durable.send("a", "x", "b", "c", "d", persistent=persistent)
    durable.reserve(opened, 0, 3)
    durable.groups.acknowledge(opened, 1)
    durable.restart()
    (group,) = durable.groups.groups()
    assert (group.low, group.high, group.generation) == (1, 3, opened.group.generation)
    assert durable.texts(opened, 1, 3) == ["b", "c"]
    assert [each.count for each in durable.read(opened, 1, 3)] == [1, 1]
    assert durable.drain() == (["x", "d"] if persistent else [])
    again = durable.open(selector="t <> 'x'")
    assert again.fence == opened.fence + 1
    with pytest.raises(FencedError):
        durable.groups.acknowledge(opened, 2)
    durable.groups.acknowledge(again, 2)
    assert durable.groups.release("g") == 1
    durable.restart()
    assert durable.groups.groups() == []
    session = durable.connection.open_session(transacted=False)
    returned = poll(consume(session))
    assert (returned.envelope.body, returned.redelivered, returned.count) == ("c", True, 2)


def test_nothing_of_a_group_stays_in_the_store_when_all_is_acknowledged(durable: Reader) -> None:
    opened = durable.open()
    durable.send("a", "b")
    durable.send("c", persistent=False)
    durable.groups.acknowledge(opened, durable.reserve(opened, 0))
    durable.restart()
    (group,) = durable.groups.groups()
    assert (group.low, group.high) == (3, 3)
    assert durable.drain() == []
    assert len(durable.connection.broker.virtual_host.store) == 0


def test_a_subscription_that_a_group_reads_is_the_groups_after_a_restart(durable: Reader) -> None:
    opened = durable.open(NEWS, subscription="s")
    durable.restart()
    session = durable.connection.open_session(transacted=False)
    with pytest.raises(SubscriptionInUseError):
        consume(session, NEWS, durable_name="s")
    session.send(news("a"))
    assert durable.reserve(opened, 0) == 1


def test_messages_that_left_memory_are_read_from_the_store(world: World, tmp_path: Path) -> None:
    reader = Reader(world, f"?store=sqlite:///{tmp_path}/jms.db&synchronous=off&memory=1000000")
    opened = reader.open()
    for number in range(40):
        reader.send(f"{number:02}" + "x" * 100_000, persistent=number % 2 == 0)
    assert reader.reserve(opened, 0) == 40
    assert [str(text)[:2] for text in reader.texts(opened, 0, 40)] == [f"{number:02}" for number in range(40)]


def test_matching_messages_are_found_without_looking_at_the_others_again(reader: Reader) -> None:
    opened = reader.open(selector="t = 'z'")
    reader.send(*"abc")
    queue = reader.connection.broker.virtual_host.queue("orders")
    assert reader.reserve(opened, 0) == 0
    ordering = queue.ordering
    assert isinstance(ordering, PriorityQueueEntryList)
    (cursor,) = kept(ordering, Cursor)
    assert cursor.passed[4] == max(entry.sequence for entry in waiting_entries(queue))
    reader.groups.release("g")
    assert not kept(ordering, Cursor)


def test_what_a_group_holds_of_an_exclusive_queue_holds_back_the_rest_from_others(durable: Reader) -> None:
    QueueManager.of(durable.world.name).create("orders", exclusive=True)
    durable.send("a", "b", "c", "d", "e")
    opened = durable.open()
    assert durable.reserve(opened, 0, 2) == 2
    assert durable.drain() == []
    durable.restart()
    opened = durable.open()
    assert durable.drain() == []
    assert durable.reserve(opened, 2, 1) == 3, "the group itself goes on"
    durable.groups.acknowledge(opened, 2)
    assert durable.drain() == []
    durable.groups.acknowledge(opened, 3)
    assert durable.drain() == ["d", "e"]
