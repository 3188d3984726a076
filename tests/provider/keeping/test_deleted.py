"""Who deletes messages by hand hears whether it is done: if it could not be written they are there, and if nobody knows, the store is asked."""

from __future__ import annotations

import pytest

from pyjms.spi.errors import InDoubtError, ResourceError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.policy import QueuePolicy, QueueType
from pyjms_provider.queue_manager import AT_ONCE, QueueManager
from pyjms_provider.stores.volatile import VolatileJournal
from tests.provider.keeping.site import Site

ALL = ["a", "b", "t", "c"]


def manager(site: Site) -> QueueManager:
    return QueueManager(site.broker.virtual_host)


def fill(site: Site) -> None:
    for name in ALL:
        site.send(name, delivery_mode=1 if name == "t" else 2)


def refuse(point: str, changes: Changes) -> None:
    if point.startswith("before") and changes.removals:
        raise ResourceError("no space on the disk")


def test_what_could_not_be_deleted_is_there_for_whoever_comes(site: Site) -> None:
    """It was gone here, and there again after a kill."""
    fill(site)
    site.trap = refuse
    with pytest.raises(ResourceError, match="no space"):
        manager(site).purge("orders")
    assert site.texts() == ALL
    site.trap = None
    site.send("d")
    site.crash()
    assert site.drain() == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


def test_a_queue_is_emptied_when_the_store_can_be_written_again(site: Site) -> None:
    fill(site)
    site.trap = refuse
    with pytest.raises(ResourceError):
        manager(site).purge("orders")
    site.trap = None
    assert manager(site).purge("orders") == len(ALL)
    assert len(site.broker.virtual_host.store) == 0
    site.crash()
    assert site.drain() == []


def test_a_message_that_need_not_survive_waits_for_no_store(site: Site) -> None:
    site.send("t", delivery_mode=1)
    site.points.clear()
    assert manager(site).purge("orders") == 1
    assert (site.texts(), site.points) == ([], [])


@pytest.mark.parametrize("is_written", [True, False])
def test_nobody_gets_what_may_be_deleted_until_the_store_answers(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    fill(site)
    write = VolatileJournal.write

    def unanswered(journal: VolatileJournal, changes: Changes, *, force: bool) -> None:
        if is_written:
            write(journal, changes, force=force)
        raise InDoubtError("nobody answered")

    with monkeypatch.context() as patch, pytest.raises(InDoubtError, match="nobody answered"):
        patch.setattr(VolatileJournal, "write", unanswered)
        manager(site).purge("orders")
    assert site.texts() == []
    storage = site.broker.virtual_host.storage
    assert storage is not None
    assert storage.in_doubt_writes.settle()
    there = [] if is_written else ALL
    assert site.texts() == there
    assert len(site.broker.virtual_host.store) == len(there)
    site.crash()
    assert site.texts() == [name for name in there if name != "t"]


def _overtaken(site: Site) -> None:
    """Have the store refuse what is deleted beyond the first run."""
    refused = [False]

    def trap(point: str, changes: Changes) -> None:
        if point.startswith("before") and changes.removals:
            if refused[0]:
                refuse(point, changes)
            refused[0] = True

    site.trap = trap


def test_what_was_deleted_before_stays_so(site: Site) -> None:
    """Many are deleted in runs, so that none is too much for a disk that is nearly full."""
    for number in range(AT_ONCE + 2):
        site.send(str(number))
    _overtaken(site)
    with pytest.raises(ResourceError, match="no space"):
        manager(site).purge("orders")
    left = [str(AT_ONCE), str(AT_ONCE + 1)]
    assert site.texts() == left
    site.trap = None
    site.crash()
    assert site.texts() == left


def test_an_old_value_that_was_not_deleted_is_superseded_as_before(site: Site) -> None:
    policy = QueuePolicy(type=QueueType.LAST_VALUE, key="stock")
    manager(site).create("orders", policy)
    site.send("old", properties={"stock": "A"})
    site.trap = refuse
    with pytest.raises(ResourceError):
        manager(site).purge("orders")
    site.trap = None
    site.send("new", properties={"stock": "A"})
    assert site.texts() == ["new"]
    site.crash()
    assert site.texts() == ["new"]
