"""Durable subscriptions survive with what they have, and end for good when they are told to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyjms.spi.errors import (
    GoneError,
    InvalidSelectorError,
    ResourceError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.queue.selectors import plain_selector
from tests.provider.keeping.site import NEWS, Site, consume, take_all, text


def subscribe(site: Site, *, selector: str | None = None) -> None:
    """Make a durable subscription and leave it."""
    connection = site.connect("ann")
    try:
        consume(connection.open_session(transacted=False), NEWS, selector, durable_name="all")
    finally:
        connection.close()


def unsubscribe(site: Site) -> None:
    """Delete it."""
    connection = site.connect("ann")
    try:
        connection.open_session(transacted=False).unsubscribe("all")
    finally:
        connection.close()


def received(site: Site, *, selector: str | None = None) -> list[str | None]:
    """Return what the subscription has, and take it."""
    connection = site.connect("ann")
    session = connection.open_session(transacted=False)
    taken = take_all(consume(session, NEWS, selector, durable_name="all"))
    texts = [text(each) for each in taken]
    session.acknowledge(taken)
    connection.close()
    return texts


def test_a_subscription_survives_with_its_messages(site: Site) -> None:
    subscribe(site)
    site.send("before", to=NEWS)
    site.crash()
    site.send("after", to=NEWS)
    assert received(site) == ["before", "after"]
    site.crash()
    assert received(site) == []


def test_its_selector_survives(site: Site) -> None:
    subscribe(site, selector="region = 'EU'")
    site.crash()
    site.send("here", to=NEWS, properties={"region": "EU"})
    site.send("there", to=NEWS, properties={"region": "US"})
    assert received(site, selector="region = 'EU'") == ["here"]


def test_that_of_a_plain_client_survives_too(site: Site) -> None:
    """Whose properties are texts: what it compares with a number counts as one."""
    connection = site.connect("ann")
    selector = plain_selector("cups > 1")
    request = SubscribeRequest(address=NEWS, selector=selector, no_local=False, durable_name="all")
    connection.open_session(transacted=False).subscribe(request, lambda: None)
    connection.close()
    site.send("before", to=NEWS, properties={"cups": "2"})
    site.crash()
    site.send("after", to=NEWS, properties={"cups": "3"})
    site.send("too few", to=NEWS, properties={"cups": "1"})
    connection = site.connect("ann")
    consumer = connection.open_session(transacted=False).subscribe(request, lambda: None)
    assert [text(each) for each in take_all(consumer)] == ["before", "after"]
    connection.close()


def lose_the_selector(site: Site) -> None:
    """Have the selector be one that nobody can read, as that of a newer version may be."""
    site.crash()
    for number, record in site.medium.queues.items():
        if record.subscription is not None:
            site.medium.queues[number] = replace(record, selector_text="region SOUNDS LIKE 'EU'")
    site.crash()


def test_one_with_a_selector_that_cannot_be_read_keeps_its_messages(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Until whoever owns it subscribes anew, or unsubscribes. It gets no others, as nobody can say which it wants."""
    subscribe(site, selector="region = 'EU'")
    for name in ("one", "two"):
        site.send(name, to=NEWS, properties={"region": "EU"})
    lose_the_selector(site)
    assert "PYJMS-BROKER-10 durable subscription 'all' of client 'ann'" in caplog.text
    assert "are kept" in caplog.text
    site.send("three", to=NEWS, properties={"region": "EU"})
    with pytest.raises(InvalidSelectorError):
        received(site, selector="region SOUNDS LIKE 'EU'")
    (subscription,) = site.broker.virtual_host.subscriptions.durable().values()
    assert [each.body for each in subscription.browse()] == ["one", "two"]
    for number, record in site.medium.queues.items():  # the newer version is there again
        if record.subscription is not None:
            site.medium.queues[number] = replace(record, selector_text="region = 'EU'")
    site.crash()
    assert received(site, selector="region = 'EU'") == ["one", "two"]


@pytest.mark.parametrize("ends", [True, False], ids=["unsubscribe", "another selector"])
def test_who_owns_such_a_one_ends_it(site: Site, ends: bool) -> None:
    subscribe(site, selector="region = 'EU'")
    site.send("one", to=NEWS, properties={"region": "EU"})
    lose_the_selector(site)
    if ends:
        unsubscribe(site)
        assert not site.broker.virtual_host.subscriptions.durable()
    else:
        assert received(site, selector="region = 'US'") == []
        site.send("two", to=NEWS, properties={"region": "US"})
        assert received(site, selector="region = 'US'") == ["two"]
    site.crash()
    assert len(site.broker.virtual_host.store) == 0


def test_other_terms_make_another_subscription_for_good(site: Site) -> None:
    subscribe(site)
    site.send("old", to=NEWS)
    subscribe(site, selector="region = 'EU'")
    site.crash()
    assert received(site, selector="region = 'EU'") == []
    assert len(site.medium.queues) == 1


def test_a_deleted_subscription_does_not_come_back(site: Site) -> None:
    subscribe(site)
    site.send("unread", to=NEWS)
    unsubscribe(site)
    site.crash()
    assert not site.medium.queues
    assert not site.medium.messages
    with pytest.raises(UnknownSubscriptionError):
        unsubscribe(site)


def test_a_deletion_that_cannot_be_written_changes_nothing(site: Site) -> None:
    subscribe(site)
    site.trap = _refuse
    with pytest.raises(ResourceError, match="no space"):
        unsubscribe(site)
    site.trap = None
    site.send("still wanted", to=NEWS)
    assert received(site) == ["still wanted"]


def test_a_subscription_that_cannot_be_written_is_not_made(site: Site) -> None:
    site.trap = _refuse
    connection = site.connect("ann")
    with pytest.raises(ResourceError, match="no space"):
        consume(connection.open_session(transacted=False), NEWS, durable_name="all")
    site.trap = None
    connection.close()
    with pytest.raises(UnknownSubscriptionError):
        unsubscribe(site)


def test_a_subscription_that_is_being_made_is_in_use(site: Site) -> None:
    connection = site.connect("ann")
    refused: list[str] = []

    def subscribe_too(point: str, _: Changes) -> None:
        if point == "before define":
            site.trap = None
            with pytest.raises(SubscriptionInUseError) as caught:
                consume(connection.open_session(transacted=False), NEWS, durable_name="all")
            refused.append(caught.value.reason)

    site.trap = subscribe_too
    consume(connection.open_session(transacted=False), NEWS, durable_name="all")
    assert "has a subscriber" in refused[0]


def test_a_message_is_kept_once_and_goes_with_its_last_subscriber(site: Site) -> None:
    for client in ("ann", "bob"):
        connection = site.connect(client)
        consume(connection.open_session(transacted=False), NEWS, durable_name="all")
        connection.close()
    site.send("shared", to=NEWS)
    assert len(site.medium.messages) == 1
    assert received(site) == ["shared"]
    assert len(site.medium.messages) == 1
    site.crash()
    assert received(site) == []
    session = site.connect("bob").open_session(transacted=False)
    delivery = consume(session, NEWS, durable_name="all").poll()
    assert delivery is not None
    assert text(delivery) == "shared"
    session.acknowledge([delivery])
    assert not site.medium.messages


def test_a_topic_without_durable_subscribers_writes_nothing(site: Site) -> None:
    consumer = consume(site.session(), NEWS)
    site.points.clear()
    site.send("passing", to=NEWS)
    assert site.points == []
    assert text(consumer.poll()) == "passing"


def _refuse(point: str, _: Changes) -> None:
    if point.startswith("before"):
        raise ResourceError("no space on the disk")


def test_a_message_that_cannot_be_read_is_passed_over_by_each_subscription(site: Site) -> None:
    for client_id in ("ann", "bob"):
        connection = site.connect(client_id)
        consume(connection.open_session(transacted=False), NEWS, durable_name="all")
        connection.close()
    for body in ("damaged", "whole"):
        site.send(body, to=NEWS)
    site.crash()
    del site.medium.messages[min(site.medium.messages)]
    for client_id in ("ann", "bob"):
        consumer = consume(site.connect(client_id).open_session(transacted=False), NEWS, durable_name="all")
        first = consumer.poll()
        assert first is not None
        with pytest.raises(GoneError, match="set aside"):
            text(first)
        assert [text(each) for each in take_all(consumer)] == ["whole"]
