"""The main thread is interrupted at each place at which it subscribes, or ends a subscription: nothing stays that nobody has, and whoever tries again may."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pyjms.spi.errors import SubscriptionInUseError, UnknownSubscriptionError
from pyjms_provider.clients.vm_session import VmSession
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.site import NEWS, ORDERS, consume, take_all, text
from tests.provider.keeping.test_interrupted_anywhere import interrupt
from tests.provider.simulation.site import SimulatedSite as Site

FILES = (
    "clients/vm_consumer.py",
    "clients/vm_session.py",
    "core/queue/consumer.py",
    "core/host/host_subscriptions.py",
    "core/journal/storage_manager.py",
    "core/queue/queue.py",
    "core/topic/topic.py",
    "core/host/virtual_host.py",
    "core/journal/durable_ddl.py",
    "<string>",  # the hashes of data classes, which are Python's own
)
OTHER = "JMSPriority > 0"
LATER = pytest.mark.parametrize("goes_on", [True, False], ids=["goes on", "stops"])


def ann(site: Site) -> VmSession:
    """Return a session of the only client that has durable subscriptions."""
    return site.connect("ann").open_session(transacted=False)


def end(session: VmSession) -> None:
    """Close its connection, so that another one may have its name."""
    session._connection.close()


def test_to_a_topic() -> None:
    """Its messages are for nobody."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = site.session()
        interrupt(interruption, lambda: consume(session, NEWS))
        site.send("news", to=NEWS)
        found = len(site.broker.virtual_host.topic(NEWS.name).subscriptions), len(site.broker.virtual_host.store)
        assert found == ((0, 0) if interruption.where else (1, 1)), interruption.where
        consumer = consume(session, NEWS)
        site.send("more", to=NEWS)
        assert text(consumer.poll()) == "more", interruption.where
        session.close()
        assert len(site.broker.virtual_host.store) == 0, interruption.where
        site.stop()

    assert each_interruption(attempt, *FILES) > 10


@pytest.mark.parametrize("selector", [None, OTHER], ids=["plain", "selected"])
def test_to_a_queue(selector: str | None) -> None:
    """Nobody is chosen who does not know of it."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = site.session()
        interrupt(interruption, lambda: consume(session, selector=selector))
        queue = site.broker.virtual_host.queue(ORDERS.name)
        assert queue.consumer_count == (0 if interruption.where else 1), interruption.where
        consumer = consume(session, selector=selector)
        site.send("order")
        assert text(consumer.poll()) == "order", interruption.where
        site.stop()

    assert each_interruption(attempt, *FILES) > 10


def has_one(site: Site, interruption: Interruption, selector: str | None, *, goes_on: bool) -> list[str | None]:
    """Subscribe again, durably, which only one can at a time; return what was there, and find that it gets what comes then, and once."""
    if not goes_on:
        site.restart()
    session = ann(site)
    consumer = consume(session, NEWS, selector, durable_name="all")
    before = [text(each) for each in take_all(consumer)]
    site.send("last", to=NEWS)
    taken = take_all(consumer)
    assert [text(each) for each in taken] == ["last"], interruption.where
    end(session)
    assert len(site.broker.virtual_host.topic(NEWS.name).subscriptions) == 1, interruption.where
    site.restart()
    session = ann(site)
    taken = take_all(consume(session, NEWS, selector, durable_name="all"))
    assert [text(each) for each in taken] == [*before, "last"], interruption.where
    session.acknowledge(taken)
    end(session)
    session = ann(site)
    session.unsubscribe("all")
    assert len(site.broker.virtual_host.store) == 0, interruption.where
    site.stop()
    return before


@LATER
def test_durably(goes_on: bool) -> None:
    """The next one has the subscription, be it new or not."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = ann(site)
        interrupt(interruption, lambda: consume(session, NEWS, durable_name="all"))
        if interruption.where and goes_on:
            consume(session, NEWS, durable_name="all").close()
        end(session)
        assert has_one(site, interruption, None, goes_on=goes_on) == []

    assert each_interruption(attempt, *FILES) > 10


@LATER
@pytest.mark.parametrize("selector", [None, OTHER], ids=["the same", "another one"])
def test_durably_once_more(selector: str | None, goes_on: bool) -> None:
    """With the same terms all is there that was published; with others it begins anew."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = ann(site)
        consume(session, NEWS, durable_name="all").close()
        site.send("news", to=NEWS)
        interrupt(interruption, lambda: consume(session, NEWS, selector, durable_name="all"))
        if interruption.where and goes_on:
            consume(session, NEWS, selector, durable_name="all").close()
        end(session)
        before = has_one(site, interruption, selector, goes_on=goes_on)
        assert before == (["news"] if selector is None else []), interruption.where

    assert each_interruption(attempt, *FILES) > 10


@pytest.mark.parametrize("by_session", [False, True], ids=["the consumer", "its session"])
def test_who_closes_once_more_leaves_it_to_the_next_subscriber(by_session: bool) -> None:
    """Who has the subscription by then, so that nobody may delete it."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = ann(site)
        consumer = consume(session, NEWS, durable_name="all")
        interrupt(interruption, consumer.close)
        other = session._connection.open_session(transacted=False)
        try:
            later = consume(other, NEWS, durable_name="all")
        except SubscriptionInUseError:
            consumer.close()
            later = consume(other, NEWS, durable_name="all")
        (session if by_session else consumer).close()
        site.send("news", to=NEWS)
        with pytest.raises(SubscriptionInUseError):
            other.unsubscribe("all")
        assert text(later.poll()) == "news", interruption.where
        site.stop()

    assert each_interruption(attempt, *FILES) > 10


@LATER
def test_no_more(goes_on: bool) -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site()
        session = ann(site)
        consume(session, NEWS, durable_name="all").close()
        site.send("news", to=NEWS)
        interrupt(interruption, lambda: session.unsubscribe("all"))
        if not goes_on:
            site.restart()
            session = ann(site)
        with suppress(UnknownSubscriptionError):
            session.unsubscribe("all")
        assert site.broker.virtual_host.topic(NEWS.name).subscriptions == [], interruption.where
        assert len(site.broker.virtual_host.store) == 0, interruption.where
        consumer = consume(session, NEWS, durable_name="all")
        site.send("last", to=NEWS)
        assert text(consumer.poll()) == "last", interruption.where
        site.stop()

    assert each_interruption(attempt, *FILES) > 10
