"""What is written for a queue or a subscription while that ends is forgotten while the broker runs (decision 0137)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest

from pyjms.spi.errors import DestinationError, ResourceError
from pyjms.spi.xid import Xid
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.topic import Subscription, Topic
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.stores.volatile import VolatileJournal
from tests.provider.keeping.site import NEWS, ORDERS, Site, consume, take_all
from tests.pyjms.runtime.helpers import PATIENCE_S, Call

XID = Xid(1, b"late", b"1")


def once(site: Site, point: str, act: Callable[[], object]) -> None:
    """Do something the next time when the journal is at that point, with messages if it writes."""

    def trap(at: str, changes: Changes) -> None:
        if at == point and (changes.messages or "drop" in at):
            site.trap = None
            act()

    site.trap = trap


def left(site: Site) -> tuple[int, int]:
    """Return how many messages and entries the store has, when a next write has come by."""
    site.send("next")
    assert len(site.drain()) == 1
    site.send("last", delivery_mode=1)
    assert len(site.drain()) == 1
    return len(site.medium.messages), len(site.medium.entries)


def destroy(site: Site) -> None:
    QueueManager(site.broker.virtual_host).destroy(ORDERS.name)


def keep(site: Site, *names: str) -> None:
    """Make durable subscriptions, and leave them."""
    for name in names:
        connection = site.connect(name)
        consume(connection.open_session(transacted=False), NEWS, durable_name=name)
        connection.close()


def unsubscribe(site: Site, name: str = "ending") -> None:
    connection = site.connect(name)
    connection.open_session(transacted=False).unsubscribe(name)
    connection.close()


def receive_all(site: Site, name: str) -> int:
    """Take what a durable subscription has; return how many messages that were."""
    connection = site.connect(name)
    session = connection.open_session(transacted=False)
    taken = take_all(consume(session, NEWS, durable_name=name))
    session.acknowledge(taken)
    connection.close()
    return len(taken)


@pytest.mark.parametrize("others", [(), ("other",)], ids=["alone", "shared"])
def test_a_message_that_is_being_published_while_a_subscription_ends(site: Site, others: tuple[str, ...]) -> None:
    keep(site, "ending", *others)
    once(site, "before write", lambda: unsubscribe(site))
    site.send("news", to=NEWS)
    assert [receive_all(site, name) for name in others] == [1 for _ in others]
    assert left(site) == (0, 0)


def test_a_message_that_is_published_while_the_end_of_a_subscription_is_written(site: Site) -> None:
    keep(site, "ending")
    once(site, "after drop", lambda: site.send("news", to=NEWS))
    unsubscribe(site)
    assert left(site) == (0, 0)


@pytest.mark.parametrize("others", [(), ("other",)], ids=["alone", "shared"])
def test_a_message_that_is_being_published_while_a_new_subscription_is_undone(
    site: Site, monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    keep(site, *others)
    is_writing, is_undone = Event(), Event()
    published: list[Call[None]] = []
    add = Topic.add_subscription

    def add_and_fail(topic: Topic, subscription: Subscription) -> None:
        add(topic, subscription)
        published.append(Call(lambda: site.send("news", to=NEWS)))
        assert is_writing.wait(PATIENCE_S)
        raise ResourceError("it is undone")

    def write() -> None:
        is_writing.set()
        assert is_undone.wait(PATIENCE_S)

    connection = site.connect("undone")
    with monkeypatch.context() as patched:
        patched.setattr(Topic, "add_subscription", add_and_fail)
        once(site, "before write", write)
        with pytest.raises(ResourceError):
            consume(connection.open_session(transacted=False), NEWS, durable_name="undone")
    is_undone.set()
    published[0].result()
    assert [receive_all(site, name) for name in others] == [1 for _ in others]
    assert left(site) == (0, 0)


def test_a_message_that_is_sent_while_a_queue_ends(site: Site) -> None:
    site.send("before")
    once(site, "before write", lambda: destroy(site))
    with pytest.raises(DestinationError):
        site.send("late")
    once(site, "after drop", lambda: site.send("later"))
    site.send("before")
    destroy(site)
    assert left(site) == (0, 0)


@pytest.mark.parametrize("point", ["before write", "after write", "after drop"])
@pytest.mark.parametrize("others", [(), ("other",)], ids=["alone", "shared"])
@pytest.mark.parametrize("prepares", [False, True], ids=["commit", "branch"])
def test_a_transaction_that_is_committed_while_a_subscription_ends(
    site: Site, point: str, others: tuple[str, ...], *, prepares: bool
) -> None:
    keep(site, "ending", *others)
    site.send("before", to=NEWS)
    session = site.session(transacted=True)

    def commit() -> None:
        if not prepares:
            session.commit()
            return
        session.xa_end(XID)
        assert session.xa_prepare(XID)
        session.xa_commit(XID)

    if prepares:
        session.xa_start(XID)
    site.send("late", session, to=NEWS)
    if point == "after drop":
        once(site, point, commit)
        unsubscribe(site)
    else:
        once(site, point, lambda: unsubscribe(site))
        commit()
    assert [receive_all(site, name) for name in others] == [2 for _ in others]
    assert left(site) == (0, 0)


def test_what_was_there_before_goes_with_the_queue_and_is_not_named_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        site.send(f"{number}", priority=number % 3)
    session = site.session()
    consumer = consume(session)
    session.recover(take_all(consumer)[::2])
    session.close()
    noted: list[Changes] = []
    note = VolatileJournal.note

    def listen(journal: VolatileJournal, changes: Changes) -> None:
        noted.append(changes)
        note(journal, changes)

    monkeypatch.setattr(VolatileJournal, "note", listen)
    destroy(site)
    assert [each for changes in noted for each in changes.removals] == []
    assert left(site) == (0, 0)
