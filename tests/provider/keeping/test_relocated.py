"""A message that is moved, or set aside, is not lost with a queue that is destroyed meanwhile: it goes into the next one of that name."""

from __future__ import annotations

import logging

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.queue_manager import QueueManager, Replay
from tests.provider.keeping.site import BILLS, NEWS, ORDERS, consume, take_all
from tests.provider.keeping.test_subscriptions import received, subscribe, unsubscribe
from tests.provider.simulation.site import SimulatedSite as Site

LETTERS = Address(AddressKind.QUEUE, "DLQ")
ENDS = pytest.mark.parametrize("end", ["restart", "crash"])
POINTS = pytest.mark.parametrize("point", ["before write", "after write"])


@pytest.fixture
def site() -> Site:
    return Site()


def manager(site: Site) -> QueueManager:
    return QueueManager(site.broker.virtual_host)


def reject(site: Site) -> None:
    session = site.session()
    (delivery,) = take_all(consume(session))
    session.reject(delivery, "it is bad")


def destroy_letters(site: Site, point: str, failure: ProviderError | None = None) -> None:
    """Have the queue of dead letters destroyed when the next letter is written; `failure`: of the write after that."""

    def trap(at: str, changes: Changes) -> None:
        if at != point or not (changes.messages and changes.removals):
            return
        site.trap = None
        site.broker.virtual_host.destroy_queue(LETTERS.name)
        if failure is not None:
            site.trap = fail

    def fail(at: str, changes: Changes) -> None:
        if at == "before write" and changes.messages:
            assert failure is not None
            raise failure

    site.trap = trap


@ENDS
@pytest.mark.parametrize("is_made_again", [False, True])
def test_what_is_moved_after_its_target_was_destroyed_is_kept(site: Site, end: str, is_made_again: bool) -> None:
    for number in range(4):
        site.send(str(number))

    def go_on(done: int) -> bool:
        if done == 1:
            manager(site).destroy(BILLS.name)
            if is_made_again:
                manager(site).create(BILLS.name, max_messages=100)
        return True

    assert manager(site).move(ORDERS.name, BILLS.name, go_on=go_on) == 4
    for _ in range(2):
        assert (site.texts(), site.texts(BILLS)) == ([], ["1", "2", "3"])
        getattr(site, end)()


@ENDS
@POINTS
@pytest.mark.parametrize("is_new", [False, True])
def test_a_dead_letter_is_kept_when_its_queue_is_destroyed_at_that_moment(
    site: Site, end: str, point: str, is_new: bool
) -> None:
    if not is_new:
        site.send("older", to=LETTERS)
    site.send("order")
    destroy_letters(site, point)
    reject(site)
    for _ in range(2):
        assert (site.texts(), site.texts(LETTERS)) == ([], ["order"])
        getattr(site, end)()
    assert len(site.medium.messages) == 1
    assert [record.address for record in site.medium.queues.values()] == [ORDERS, LETTERS]


@POINTS
@pytest.mark.parametrize(
    "failure", [ResourceError("the disk is full"), InDoubtError("nobody answers")], ids=["refused", "doubt"]
)
def test_a_dead_letter_that_cannot_be_written_again_is_there_and_told_of(
    site: Site, point: str, failure: ProviderError, caplog: pytest.LogCaptureFixture
) -> None:
    site.send("order")
    destroy_letters(site, point, failure)
    with caplog.at_level(logging.ERROR):
        reject(site)
    site.trap = None
    assert (
        f"could not be written, and is lost if the broker ends before somebody receives it: {failure.reason}"
        in caplog.text
    )
    assert "PYJMS-BROKER-26" in caplog.text
    assert site.drain(LETTERS) == [("order", 1)]
    site.restart()
    assert (site.texts(), site.texts(LETTERS), site.medium.messages) == ([], [], {})


@ENDS
def test_a_letter_of_a_subscription_that_has_just_ended_stays_where_it_is(
    site: Site, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter_of_a_subscription(site)
    host, ours = site.broker.virtual_host, manager(site)
    subscription = host.subscriptions.find("topic://news#ann/all")
    monkeypatch.setattr(ours, "_origin", lambda *_: subscription)
    unsubscribe(site)
    assert ours.replay() == Replay(returned=0, left=1)
    assert ours.names() == [LETTERS.name]
    for _ in range(2):
        assert site.texts(LETTERS) == ["news"]
        getattr(site, end)()


@POINTS
def test_a_letter_that_is_back_goes_with_a_subscription_that_ends(site: Site, point: str) -> None:
    letter_of_a_subscription(site)

    def trap(at: str, changes: Changes) -> None:
        if at == point and changes.messages:
            site.trap = None
            unsubscribe(site)

    site.trap = trap
    assert manager(site).replay() == Replay(returned=1, left=0)
    assert manager(site).names() == [LETTERS.name]
    site.restart()
    assert (site.texts(LETTERS), received(site)) == ([], [])


def letter_of_a_subscription(site: Site) -> None:
    subscribe(site)
    site.send("news", to=NEWS)
    connection = site.connect("ann")
    session = connection.open_session(transacted=False)
    (delivery,) = take_all(consume(session, NEWS, durable_name="all"))
    session.reject(delivery, "it is bad")
    connection.close()
    assert received(site) == []


def test_a_letter_goes_to_no_subscription_if_two_are_called_as_it_says(site: Site) -> None:
    for client_id, name in (("a", "b/c"), ("a/b", "c")):
        connection = site.connect(client_id)
        consume(connection.open_session(transacted=False), NEWS, durable_name=name)
        connection.close()
    site.send("news", to=NEWS)
    connection = site.connect("a/b")
    session = connection.open_session(transacted=False)
    (delivery,) = take_all(consume(session, NEWS, durable_name="c"))
    session.reject(delivery, "it is bad")
    assert manager(site).replay() == Replay(returned=0, left=1)
    connection.close()
    other = site.connect("a")
    other.open_session(transacted=False).unsubscribe("b/c")
    assert manager(site).replay() == Replay(returned=1, left=0)
