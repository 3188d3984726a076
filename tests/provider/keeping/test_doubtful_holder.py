"""While nobody knows whether the store is still this broker's, what is kept in it is handed out to nobody before that is found out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from pyjms.spi.errors import ResourceError
from pyjms.spi.replay import GroupRequest
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stores.volatile import VolatileJournal
from tests.provider.keeping.site import BILLS, ORDERS, Site, consume, take_all, text


class DoubtfulJournal(VolatileJournal):
    """It is held until it `is_doubtful`; what asks it then finds out, or fails if it `is_away`."""

    is_doubtful = False
    is_away = False
    asked = 0

    @property
    def is_held(self) -> bool:  # type: ignore[override]  # as of a journal that may be lost
        return not self.is_doubtful

    def confirm(self) -> None:
        if self.is_away:
            raise ResourceError("the server cannot be reached")
        self.asked += 1
        self.is_doubtful = False


class DoubtfulSite(Site):
    """Has such a journal."""

    def make_journal(self) -> VolatileJournal:
        return DoubtfulJournal(self.medium, self._tap)

    def doubt(self, *, is_away: bool = False) -> DoubtfulJournal:
        """Have it be in doubt whether the store is held."""
        journal = self.journal
        assert isinstance(journal, DoubtfulJournal)
        journal.is_doubtful, journal.is_away, journal.asked = True, is_away, 0
        return journal


@pytest.fixture
def site() -> Iterator[DoubtfulSite]:
    made = DoubtfulSite()
    yield made
    made.stop()


def refuse(_: str, __: Changes) -> None:
    raise ResourceError("the server cannot be reached")


def test_who_receives_waits_for_a_write(site: DoubtfulSite) -> None:
    consumer = consume(site.session())
    for name in ("one", "two", "three"):
        site.send(name)
    assert text(consumer.poll()) == "one", "its mark covers the others"
    site.doubt()
    site.points.clear()
    assert text(consumer.poll()) == "two"
    assert site.points == ["before write", "after write"]
    site.trap = refuse
    delivery = consumer.poll()
    assert delivery is not None
    with pytest.raises(ResourceError):
        text(delivery)
    site.trap = None
    assert text(consumer.poll()) == "three", "it has stayed where it was"


def test_who_browses_has_it_found_out(site: DoubtfulSite) -> None:
    for name in ("one", "two"):
        site.send(name)
    journal = site.doubt()
    assert site.texts() == ["one", "two"]
    assert journal.asked == 1
    site.doubt(is_away=True)
    with pytest.raises(ResourceError):
        site.texts()


def test_who_browses_what_nobody_keeps_need_not_wait(site: DoubtfulSite) -> None:
    site.send("one", delivery_mode=1)
    journal = site.doubt(is_away=True)
    assert site.texts() == ["one"]
    assert journal.asked == 0


def test_who_reads_a_board_has_it_found_out(site: DoubtfulSite) -> None:
    QueueManager(site.broker.virtual_host).create(BILLS.name, non_destructive=True)
    for name in ("one", "two"):
        site.send(name, to=BILLS)
    journal = site.doubt()
    assert [text(each) for each in take_all(consume(site.session(), BILLS))] == ["one", "two"]
    assert journal.asked == 1


def test_who_reads_what_a_group_holds_has_it_found_out(site: DoubtfulSite) -> None:
    groups = site.connect().reader_groups()
    site.send("one")
    opened = groups.open(GroupRequest(name="batches", address=ORDERS))
    groups.reserve(opened, after=0, max_messages=1, max_bytes=None, wait_ms=0)
    journal = site.doubt()
    read = partial(groups.read, "batches", opened.group.generation, after=0, upto=1)
    assert [each.number for each in read()] == [1]
    assert journal.asked == 1
    site.doubt(is_away=True)
    with pytest.raises(ResourceError):
        read()
