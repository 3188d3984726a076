"""Contract tests: reader groups and staged units, for providers with `Capability.REPLAY` and `Capability.STAGE`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import FencedError, GroupError, StageError
from pyjms.spi.replay import GroupRequest, OpenGroup, ReservedMessage, StageName
from pyjms_tck.requirements import needs, needs_offered
from pyjms_tck.spi.environment import Environment, Threads

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderConnection
    from pyjms.spi.replay import ReaderGroups, Stages


class Reading(NamedTuple):
    """A reader group of a queue."""

    environment: Environment
    connection: ProviderConnection
    groups: ReaderGroups
    name: str
    queue: Address

    def open(self, **fields: Any) -> OpenGroup:
        """Open the group, or take it over."""
        return self.groups.open(GroupRequest(**{"name": self.name, "address": self.queue, **fields}))

    def send(self, *texts: str, **fields: Any) -> None:
        """Send to the queue."""
        self.environment.put(self.queue, *texts, **fields)

    def reserve(self, opened: OpenGroup, after: int = 0, most: int = 100, **limits: Any) -> int:
        """Reserve the messages that are available now."""
        return self.groups.reserve(
            opened, after=after, max_messages=most, **{"max_bytes": None, "wait_ms": 0, **limits}
        )

    def read(self, opened: OpenGroup, after: int, upto: int) -> list[ReservedMessage]:
        """Return messages, page by page."""
        found: list[ReservedMessage] = []
        while after + len(found) < upto:
            page = self.groups.read(self.name, opened.group.generation, after=after + len(found), upto=upto)
            assert page, "a page has one message at least"
            found += page
        return found

    def texts(self, opened: OpenGroup, after: int, upto: int) -> list[Any]:
        """Return their bodies."""
        return [message.envelope.body for message in self.read(opened, after, upto)]

    def others_get(self) -> list[tuple[Any, bool]]:
        """Return text and mark of the messages that another consumer receives."""
        return self.environment.drain(self.queue)


def open_reading(environment: Environment) -> Reading | None:
    """Return a group that is not open yet; None from a provider that does not declare REPLAY."""
    connection = environment.connect()
    if Capability.REPLAY not in connection.capabilities:
        return None
    return Reading(environment, connection, connection.reader_groups(), environment.name("group"), environment.queue())


@pytest.fixture
def reading(environment: Environment) -> Iterator[Reading | None]:
    opened = open_reading(environment)
    yield opened
    if opened is not None:
        with suppress(GroupError):
            # On a new connection, as the test may have closed its own. A group would hold its messages for ever.
            environment.connect().reader_groups().release(opened.name)


@needs_offered("REPLAY")
def test_what_is_reserved_is_numbered_from_1_and_read_the_same_each_time(reading: Reading) -> None:
    opened = reading.open()
    reading.send("low", priority=2)
    reading.send("a", "b")
    assert (opened.group.low, opened.group.high, reading.reserve(opened)) == (0, 0, 3)
    first = reading.read(opened, 0, 3)
    assert [(each.number, each.envelope.body, each.redelivered) for each in first] == [
        (1, "a", False),
        (2, "b", False),
        (3, "low", False),
    ]
    assert reading.texts(opened, 1, 2) == ["b"]
    again = reading.read(opened, 0, 3)
    assert [(each.number, each.envelope.message_id, each.count) for each in again] == [
        (each.number, each.envelope.message_id, each.count) for each in first
    ]


@needs_offered("REPLAY")
def test_nobody_else_gets_what_a_group_holds(reading: Reading) -> None:
    opened = reading.open()
    reading.send("a", "b", "c")
    assert reading.reserve(opened, most=2) == 2
    assert reading.others_get() == [("c", False)]
    reading.connection.close()
    assert reading.others_get() == []


@needs_offered("REPLAY")
def test_a_reservation_goes_no_further_than_it_may_and_begins_where_it_is_told(reading: Reading) -> None:
    opened = reading.open()
    reading.send(*"abcde")
    assert [reading.reserve(opened, most=3), reading.reserve(opened, most=3), reading.reserve(opened, most=2)] == [
        3,
        3,
        2,
    ]
    assert reading.reserve(opened, 2, most=2) == 4
    assert reading.texts(opened, 0, 4) == [*"abcd"]
    with pytest.raises(GroupError):
        reading.reserve(opened, 5)


@needs_offered("REPLAY")
def test_a_limit_of_bytes_lets_one_message_pass_at_least(reading: Reading) -> None:
    opened = reading.open()
    reading.send("x" * 100_000, "y" * 100_000, "z" * 100_000)
    # Otherwise a message larger than the limit would block its group for ever.
    assert reading.reserve(opened, max_bytes=1) == 1
    assert reading.reserve(opened, max_bytes=250_000) == 2


@needs_offered("REPLAY")
def test_a_reservation_waits_for_a_message_and_not_for_ever(reading: Reading) -> None:
    opened = reading.open()
    found: list[int] = []
    with Threads() as threads:
        threads.start(lambda: found.append(reading.reserve(opened, wait_ms=1000)))
        reading.send("a")
        reading.environment.clock.advance(2000)
    # Both are right: the message and the end of the wait come nearly at once, in either order.
    assert found in ([1], [0])
    assert reading.reserve(opened) == 1


@needs_offered("REPLAY")
def test_acknowledging_is_cumulative_and_may_be_repeated(reading: Reading) -> None:
    opened = reading.open()
    reading.send("a", "b", "c", delivery_mode=2)
    reading.reserve(opened)
    for upto in (2, 2, 1):
        reading.groups.acknowledge(opened, upto)
    (group,) = [each for each in reading.groups.groups() if each.name == reading.name]
    assert (group.low, group.high) == (2, 3)
    with pytest.raises(GroupError):
        reading.groups.read(reading.name, opened.group.generation, after=1, upto=3)
    with pytest.raises(GroupError):
        reading.groups.acknowledge(opened, 4)
    assert reading.texts(opened, 2, 3) == ["c"]


@needs_offered("REPLAY")
def test_what_is_released_comes_back_in_its_place_marked_and_what_was_acknowledged_does_not(
    reading: Reading,
) -> None:
    opened = reading.open()
    reading.send("a", "b", "c", "d")
    reading.reserve(opened, most=3)
    reading.groups.acknowledge(opened, 1)
    assert reading.groups.release(reading.name) == 2
    assert reading.others_get() == [("b", True), ("c", True), ("d", False)]
    with pytest.raises(GroupError):
        reading.groups.release(reading.name)


@needs_offered("REPLAY")
def test_who_opens_a_group_fences_who_had_it_open(reading: Reading) -> None:
    first = reading.open()
    reading.send("a", "b")
    reading.reserve(first, most=1)
    second = reading.open()
    assert second.fence > first.fence == 1
    assert (second.group.generation, second.group.high) == (first.group.generation, 1)
    with pytest.raises(FencedError):
        reading.reserve(first, 1)
    with pytest.raises(FencedError):
        reading.groups.acknowledge(first, 1)
    # Reading is not fenced, as it changes nothing.
    assert reading.texts(first, 0, 1) == ["a"]
    reading.groups.acknowledge(second, 1)


@needs_offered("REPLAY")
def test_numbers_of_a_released_group_mean_nothing_to_the_next_one(reading: Reading) -> None:
    first = reading.open()
    reading.send("a")
    reading.reserve(first)
    reading.groups.release(reading.name)
    second = reading.open()
    # The new group has the old name and begins at 1 again: only the generation distinguishes their numbers.
    assert (second.group.generation != first.group.generation, second.group.high) == (True, 0)
    assert reading.reserve(second) == 1
    with pytest.raises(GroupError):
        reading.groups.read(reading.name, first.group.generation, after=0, upto=1)
    with pytest.raises(GroupError):
        reading.groups.acknowledge(first, 1)


@needs_offered("REPLAY")
def test_a_group_reads_what_it_was_made_for(reading: Reading) -> None:
    reading.open()
    with pytest.raises(GroupError):
        reading.open(address=reading.environment.queue())
    with pytest.raises(GroupError):
        reading.groups.read(reading.environment.name("group"), "none", after=0, upto=1)


@needs_offered("REPLAY", "SELECTORS")
def test_a_selector_leaves_the_other_messages_to_others(reading: Reading) -> None:
    opened = reading.open(selector="JMSPriority > 4")
    reading.send("a", "b")
    reading.send("c", priority=6)
    assert reading.reserve(opened) == 1
    assert reading.texts(opened, 0, 1) == ["c"]
    assert reading.others_get() == [("a", False), ("b", False)]


@needs("REPLAY", "DURABLE_SUBSCRIPTIONS")
def test_a_group_reads_a_durable_subscription(environment: Environment) -> None:
    connection = environment.connect(client_id=environment.name("reader"))
    if Capability.REPLAY not in connection.capabilities:
        return
    groups, topic, name = connection.reader_groups(), environment.topic(), environment.name("group")
    opened = groups.open(GroupRequest(name=name, address=topic, subscription="lines"))
    environment.put(topic, "a", "b")
    upto = groups.reserve(opened, after=0, max_messages=10, max_bytes=None, wait_ms=0)
    page = groups.read(name, opened.group.generation, after=0, upto=upto)
    groups.acknowledge(opened, upto)
    groups.release(name)
    connection.open_session(transacted=False).unsubscribe("lines")
    assert [message.envelope.body for message in page] == ["a", "b"]


class Sink(NamedTuple):
    """A sink of one queue."""

    environment: Environment
    connection: ProviderConnection
    stages: Stages
    name: str
    queue: Address

    def unit(self, epoch: int, partition: int = 0, attempt: str = "first") -> StageName:
        """Return the name of one of its units."""
        return StageName(self.name, epoch, partition, attempt)

    def stage(self, unit: StageName, *texts: str, **fields: Any) -> int:
        """Send in a transaction, and stage it."""
        session = self.environment.session(transacted=True)
        self.environment.send(session, self.queue, *texts, **fields)
        staged = session.stage(unit, keep_s=60)
        session.close()
        return staged

    def seen(self) -> list[Any]:
        """Return the messages that a consumer receives."""
        reading = Reading(self.environment, self.connection, None, "", self.queue)  # type: ignore[arg-type]  # no group
        return [text for text, _ in reading.others_get()]


def open_sink(environment: Environment) -> Sink | None:
    """Return a sink; None from a provider that does not declare STAGE."""
    connection = environment.connect()
    if Capability.STAGE not in connection.capabilities:
        return None
    return Sink(environment, connection, connection.stages(), environment.name("sink"), environment.queue())


@pytest.fixture
def sink(environment: Environment) -> Iterator[Sink | None]:
    opened = open_sink(environment)
    yield opened
    if opened is not None:
        stages = environment.connect().stages()
        # Units staged by a failed test would stay in the broker.
        stages.discard([unit.name for unit in stages.units(opened.name)])


@needs_offered("STAGE")
def test_a_staged_unit_is_seen_when_its_epoch_is_promoted_and_once(sink: Sink) -> None:
    assert sink.stage(sink.unit(1, 0), "a", "b", delivery_mode=2) == 2
    assert sink.stage(sink.unit(1, 1), "c") == 1
    # A staged unit outlives the connection that staged it.
    sink.connection.close()
    assert sink.seen() == []
    stages = sink.environment.connect().stages()
    assert [(unit.name, unit.messages) for unit in stages.units(sink.name)] == [
        (sink.unit(1, 0), 2),
        (sink.unit(1, 1), 1),
    ]
    assert stages.marker(sink.name) is None
    # Twice: a driver that does not know whether its promotion arrived repeats it.
    promotions = [stages.promote(sink.name, 1, [sink.unit(1, 0), sink.unit(1, 1)]) for _ in range(2)]
    assert promotions == [True, False]
    assert (stages.marker(sink.name), sink.seen(), list(stages.units(sink.name))) == (1, ["a", "b", "c"], [])


@needs_offered("STAGE")
def test_other_units_up_to_the_epoch_are_discarded_and_later_ones_stay(sink: Sink) -> None:
    for unit, text in (
        (sink.unit(1, attempt="dead"), "dead"),
        (sink.unit(2, attempt="lost"), "lost"),
        (sink.unit(2), "good"),
        (sink.unit(3), "next"),
    ):
        sink.stage(unit, text)
    assert sink.stages.promote(sink.name, 2, [sink.unit(2)])
    assert sink.seen() == ["good"]
    assert [unit.name for unit in sink.stages.units(sink.name)] == [sink.unit(3)]


@needs_offered("STAGE")
def test_an_epoch_is_promoted_as_a_whole_or_not_at_all(sink: Sink) -> None:
    sink.stage(sink.unit(1), "a")
    sink.stage(sink.unit(2), "b")
    for wrong in (sink.unit(1, 7), sink.unit(2), StageName(sink.environment.name("sink"), 1, 0, "first")):
        with pytest.raises(StageError):
            sink.stages.promote(sink.name, 1, [sink.unit(1), wrong])
    assert (sink.seen(), sink.stages.marker(sink.name)) == ([], None)
    assert sink.stages.promote(sink.name, 1, [sink.unit(1)])
    assert sink.seen() == ["a"]


@needs_offered("STAGE")
def test_an_epoch_without_units_moves_the_marker_and_is_over(sink: Sink) -> None:
    assert sink.stages.promote(sink.name, 4, [])
    assert sink.stages.marker(sink.name) == 4
    assert not sink.stages.promote(sink.name, 3, [])
    with pytest.raises(StageError):
        sink.stage(sink.unit(4), "late")
    assert sink.seen() == []


@needs_offered("STAGE")
def test_a_name_is_given_once(sink: Sink) -> None:
    sink.stage(sink.unit(1), "a")
    with pytest.raises(StageError):
        sink.stage(sink.unit(1), "b")
    sink.stages.promote(sink.name, 1, [sink.unit(1)])
    assert sink.seen() == ["a"]


@needs_offered("STAGE")
def test_discarding_may_be_repeated_and_leaves_alone_what_was_promoted(sink: Sink) -> None:
    sink.stage(sink.unit(1), "a")
    sink.stage(sink.unit(1, 1), "b")
    for _ in range(2):
        sink.stages.discard([sink.unit(1, 1), sink.unit(9)])
    assert [unit.name for unit in sink.stages.units(sink.name)] == [sink.unit(1)]
    sink.stages.promote(sink.name, 1, [sink.unit(1)])
    sink.stages.discard([sink.unit(1)])
    assert sink.seen() == ["a"]


@needs_offered("STAGE")
def test_a_unit_that_has_received_cannot_be_staged(sink: Sink) -> None:
    sink.environment.put(sink.queue, "a")
    session = sink.environment.session(transacted=True)
    receiver = sink.environment.receiver(session, sink.queue)
    session.acknowledge([receiver.take()])
    with pytest.raises(StageError):
        session.stage(sink.unit(1), keep_s=60)
