"""More messages than fit in memory: the newest go to the disk, all come back, in order and whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from pyjms.spi.envelope import Address, AddressKind, Envelope, MessageId
from pyjms.spi.errors import GoneError, ResourceError
from pyjms.spi.replay import GroupRequest
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.core.store import PagingMessageStore
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stores.volatile import VolatileJournal
from tests.provider.keeping.site import ORDERS, Site, consume, take_all, text

LIMIT = 50_000
BODY = "x" * 1000


@pytest.fixture
def small() -> Iterator[Site]:
    site = Site(memory_bytes=LIMIT)
    yield site
    site.stop()


def store_of(site: Site) -> PagingMessageStore:
    store = site.broker.virtual_host.store
    assert isinstance(store, PagingMessageStore)
    return store


def fill(site: Site, number: int, *, delivery_mode: int) -> list[str]:
    """Send so many messages of over 1,600 bytes each; return their texts."""
    session = site.session()
    texts = [f"{index} {BODY}" for index in range(number)]
    for index, body in enumerate(texts):
        site.send(body, session, delivery_mode=delivery_mode, properties={"even": index % 2 == 0})
    return texts


@pytest.mark.realises("JBM-3.d", "JBM-3.1.c", "BJ-MSG-4", "BJ-MSG-5")
@pytest.mark.parametrize("delivery_mode", [1, 2], ids=["transient", "persistent"])
def test_a_backlog_beyond_memory_comes_back_in_order(small: Site, delivery_mode: int) -> None:
    texts = fill(small, 300, delivery_mode=delivery_mode)
    assert store_of(small).bytes_in_memory <= LIMIT
    assert store_of(small).count_in_memory < 40
    assert len(store_of(small)) == 300
    session, got = small.session(), []
    consumer = consume(session)
    while (delivery := consumer.poll()) is not None:
        got.append(text(delivery))
        session.acknowledge([delivery])
        assert store_of(small).bytes_in_memory <= LIMIT
    assert got == texts
    assert (len(store_of(small)), store_of(small).bytes_in_memory) == (0, 0)


@pytest.mark.realises("BJ-MSG-4")
def test_the_oldest_stay_in_memory_as_they_are_wanted_first(small: Site) -> None:
    fill(small, 100, delivery_mode=1)
    small.journal.crash()  # from here on nothing can be read
    consumer = consume(small.session())
    assert [(text(consumer.poll()) or "")[:2] for _ in range(10)] == [f"{number} " for number in range(10)]


@pytest.mark.parametrize("delivery_mode", [1, 2], ids=["transient", "persistent"])
def test_selectors_see_what_is_on_the_disk(small: Site, delivery_mode: int) -> None:
    texts = fill(small, 200, delivery_mode=delivery_mode)
    taken = take_all(consume(small.session(), selector="even"))
    assert [text(each) for each in taken] == texts[::2]


@pytest.mark.realises("JBM-3.d", "BJ-MSG-4")
@pytest.mark.parametrize("delivery_mode", [1, 2], ids=["transient", "persistent"])
def test_what_goes_from_queue_to_queue_does_not_crowd_memory(small: Site, delivery_mode: int) -> None:
    """Nobody sends or receives meanwhile, who would make room."""
    texts = fill(small, 100, delivery_mode=delivery_mode)
    manager = QueueManager(small.broker.virtual_host)
    assert manager.copy("orders", "copies") == 100
    assert store_of(small).bytes_in_memory <= LIMIT + 5_000  # one more
    assert manager.move("orders", "moved") == 100
    assert store_of(small).bytes_in_memory <= LIMIT
    for queue in ("copies", "moved"):
        assert [name for name, _ in small.drain(Address(AddressKind.QUEUE, queue))] == texts


def test_browsers_see_what_is_on_the_disk(small: Site) -> None:
    texts = fill(small, 200, delivery_mode=1)
    assert small.texts() == texts


@pytest.mark.realises("BJ-MSG-4")
def test_a_recovered_backlog_is_read_when_it_is_wanted(small: Site) -> None:
    texts = fill(small, 200, delivery_mode=2)
    small.crash()
    assert store_of(small).count_in_memory == 0
    assert [name for name, _ in small.drain()] == texts


def test_what_is_given_back_comes_again_although_it_left_memory(small: Site) -> None:
    session = small.session()
    small.send("first")
    delivery = consume(session).poll()
    assert delivery is not None
    fill(small, 100, delivery_mode=2)
    session.recover([delivery])
    again = consume(small.session()).poll()
    assert again is not None
    assert (text(again), again.count) == ("first", 2)


def test_a_disk_that_is_full_refuses_senders_and_loses_nothing(small: Site) -> None:
    fill(small, 20, delivery_mode=1)

    def refuse(point: str, _: Changes) -> None:
        if point == "before page out":
            raise ResourceError("no space on the disk")

    small.trap = refuse
    with pytest.raises(ResourceError, match="no space"):
        fill(small, 100, delivery_mode=1)
    small.trap = None
    assert len(small.drain()) >= 20


def damage(site: Site, index: int) -> None:
    """Lose a message, as a journal does that finds it damaged and sets it aside."""
    del site.medium.messages[sorted(site.medium.messages)[index]]


def test_a_message_that_cannot_be_read_blocks_nobody(small: Site) -> None:
    texts = fill(small, 100, delivery_mode=2)
    small.crash()
    damage(small, 50)
    session, got = small.session(), []
    consumer = consume(session)
    while (delivery := consumer.poll()) is not None:
        got.append(text(delivery))
        session.acknowledge([delivery])
    assert got == [each for each in texts if each != texts[50]]
    assert len(store_of(small)) == 0


def test_who_meets_a_message_that_cannot_be_read_is_told(small: Site) -> None:
    texts = fill(small, 10, delivery_mode=2)
    small.crash()
    damage(small, 0)
    session = small.session()
    consumer = consume(session)
    unreadable = consumer.poll()
    assert unreadable is not None
    with pytest.raises(ResourceError, match="set aside"):
        text(unreadable)
    session.recover([unreadable])
    assert [text(each) for each in take_all(consumer)] == texts[1:]


def test_a_message_that_could_not_be_read_is_not_taken_back_from_who_has_it_by_then(
    small: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had failed to read it asked again, and a third one got it, too."""
    small.send("once")
    small.crash()
    first = consume(small.session()).poll()
    assert first is not None

    def fail(journal: VolatileJournal, ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        raise ResourceError("the disk did not answer for a moment")

    with monkeypatch.context() as patch:
        patch.setattr(VolatileJournal, "read", fail)
        with pytest.raises(ResourceError, match="did not answer"):
            text(first)
    second = consume(small.session()).poll()
    assert text(second) == "once"
    with pytest.raises(GoneError):
        text(first)
    assert consume(small.session()).poll() is None


def test_a_damaged_message_does_not_stop_a_selector(small: Site) -> None:
    texts = fill(small, 100, delivery_mode=2)
    small.crash()
    damage(small, 50)
    taken = take_all(consume(small.session(), selector="even"))
    assert [text(each) for each in taken] == [each for each in texts[::2] if each != texts[50]]


def test_ids_do_not_come_again_after_a_restart(site: Site) -> None:
    site.send("one", message_id=MessageId("ID:1"))
    first = max(site.medium.messages)
    site.crash()
    site.send("two")
    assert max(site.medium.messages) > first
    assert len(site.medium.messages) == 2


def test_what_cannot_be_read_any_more_when_it_is_to_come_back_is_let_go(
    small: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    QueueManager(small.broker.virtual_host).create("orders", type="sorted", key="even")
    small.send("a")
    session = small.session()
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == ["a"]

    def damage(point: str, changes: Changes) -> None:
        if point == "before write" and changes.removals:
            monkeypatch.setattr(VolatileJournal, "read", lambda *_: {})
            raise ResourceError("the disk is full")

    small.trap = damage
    with pytest.raises(ResourceError, match="the disk is full"):
        session.acknowledge(taken)
    small.trap = None
    monkeypatch.undo()
    assert small.texts() == []
    assert len(store_of(small)) == 0


def test_a_reader_group_gives_back_what_it_had_taken_when_the_disk_failed(
    small: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = fill(small, 200, delivery_mode=2)
    small.crash()
    groups = small.connect().reader_groups()
    opened = groups.open(GroupRequest(name="g", address=ORDERS, selector="even"))
    read, reads = VolatileJournal.read, count()

    def fail_late(journal: VolatileJournal, ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        if next(reads) == 3:
            raise ResourceError("the disk does not answer")
        return read(journal, ids)

    with monkeypatch.context() as patch:
        patch.setattr(VolatileJournal, "read", fail_late)
        with pytest.raises(ResourceError, match="does not answer"):
            groups.reserve(opened, after=0, max_messages=100, max_bytes=None, wait_ms=0)
    seen: list[str] = []
    while groups.reserve(opened, after=len(seen), max_messages=10, max_bytes=None, wait_ms=0) > len(seen):
        page = groups.read("g", opened.group.generation, after=len(seen), upto=len(seen) + 1)
        seen += [str(message.envelope.body) for message in page]
        assert {message.count for message in page} == {1}
    assert seen == texts[::2]
