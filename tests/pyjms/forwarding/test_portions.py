"""What does not get into one transaction: more messages than a queue has room for, and two of one identity."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.forwarding.settings import AdaptiveBatchSize
from pyjms.spi import Envelope
from pyjms.spi.errors import ProviderError, ResourceError, RolledBackError
from pyjms.spi.routes import RouteState
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.queue_manager import QueueManager
from tests.pyjms.forwarding.conftest import SiteOf
from tests.pyjms.forwarding.sites import Client, queue_at, route, running, statistics_when, until

SOURCE = queue_at("vm://here", "orders")
TARGET = queue_at("vm://there", "inbox")

pytestmark = pytest.mark.realises("MOM-36")


def texts(number: int) -> list[str]:
    return [str(each) for each in range(number)]


def put_some(client: Client, number: int) -> None:
    for text in texts(number):
        client.put("orders", text)


def copy_orders() -> None:
    """Have each message in the queue once more, with its id."""
    manager = QueueManager.of("here")
    manager.create("copies")
    manager.copy("orders", "copies")
    manager.move("copies", "orders")


def put_without_ids(client: Client, number: int, **properties: str) -> None:
    session = client.session
    with session.create_producer(session.create_queue("orders")) as producer:
        producer.disable_message_id = True
        for text in texts(number):
            message = session.create_text_message(text)
            for name, value in properties.items():
                message.set_string_property(name, value)
            producer.send(message)


def test_a_portion_is_halved_down_to_one_and_doubled() -> None:
    portion = AdaptiveBatchSize()
    assert portion.failed(100)
    assert portion.most == 50
    portion.succeeded()
    assert portion.most == 100
    assert portion.failed(2)
    assert not portion.failed(1)
    assert portion.most == 1


def test_a_target_with_less_room_than_a_batch_gets_what_it_has_room_for(here: Client, there: Client) -> None:
    QueueManager.of("there").create("inbox", max_messages=7)
    put_some(here, 40)
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.state is RouteState.AWAY)
        assert there.texts("inbox") == texts(7)
        assert [there.take("inbox").text for _ in range(40)] == texts(40)
        seen = statistics_when(thread, lambda each: each.forwarded == 40)
    assert (seen.sent, seen.undeliverable) == (40, 0)
    assert there.texts("inbox") == here.texts("orders") == []


def test_a_target_that_lets_senders_wait_gets_what_it_has_room_for(here: Client, there: Client) -> None:
    QueueManager.of("there").create("inbox", max_messages=7, overflow="block")
    put_some(here, 40)
    with running(route(SOURCE), TARGET) as thread:
        assert [there.take("inbox").text for _ in range(40)] == texts(40)
        seen = statistics_when(thread, lambda each: each.forwarded == 40)
    assert (seen.sent, seen.failures) == (40, 0)


def test_a_queue_here_with_less_room_than_a_batch_gets_what_it_has_room_for(here: Client, there: Client) -> None:
    QueueManager.of("here").create("copies", max_messages=7)
    put_some(here, 40)
    with running(route(SOURCE), TARGET, queue_at("vm://here", "copies")) as thread:
        statistics_when(thread, lambda each: each.state is RouteState.AWAY)
        assert here.texts("copies") == texts(7)
        assert [here.take("copies").text for _ in range(40)] == texts(40)
        seen = statistics_when(thread, lambda each: each.forwarded == 40)
    assert (seen.sent, seen.expired, seen.undeliverable) == (80, 0, 0)
    assert there.texts("inbox") == texts(40)
    assert here.texts("orders") == []


def test_so_does_the_queue_of_what_cannot_be_delivered(here: Client, there: Client, monkeypatch: Any) -> None:
    def send(session: VmSession, envelope: Envelope) -> None:
        if envelope.destination.name == "inbox":
            raise ProviderError("it is poisoned")
        true_send(session, envelope)

    true_send = VmSession.send
    monkeypatch.setattr(VmSession, "send", send)
    QueueManager.of("here").create("orders.undeliverable", max_messages=7)
    put_some(here, 20)
    with running(route(SOURCE), TARGET) as thread:
        assert [here.take("orders.undeliverable").text for _ in range(20)] == texts(20)
        seen = statistics_when(thread, lambda each: each.undeliverable == 20)
    assert seen.forwarded == 0


def test_a_target_that_says_only_at_the_commit_that_it_is_full_gets_everything_in_the_end(
    here: Client, there: Client, monkeypatch: Any
) -> None:
    def send(session: VmSession, envelope: Envelope) -> None:
        try:
            true_send(session, envelope)
        except ResourceError as error:
            full[session] = error

    def commit(session: VmSession) -> None:
        if (error := full.pop(session, None)) is not None:
            session.rollback()
            raise RolledBackError("something in it had failed") from error
        true_commit(session)

    full: dict[VmSession, ResourceError] = {}
    true_send, true_commit = VmSession.send, VmSession.commit
    monkeypatch.setattr(VmSession, "send", send)
    monkeypatch.setattr(VmSession, "commit", commit)
    QueueManager.of("there").create("inbox", max_messages=2)
    put_some(here, 5)
    with running(route(SOURCE, attempts=2), TARGET) as thread:
        statistics_when(thread, lambda each: each.failures > 5)
        assert there.texts("inbox") == texts(2)
        assert [there.take("inbox").text for _ in range(5)] == texts(5)
        seen = statistics_when(thread, lambda each: each.forwarded == 5)
    assert seen.undeliverable == 0


def test_and_the_queue_in_which_messages_are_given_ids(here: Client, there: Client) -> None:
    QueueManager.of("here").create("orders.r1.named", max_messages=7)
    put_without_ids(here, 40)
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.forwarded == 40)
    assert there.texts("inbox") == texts(40)


def test_a_copy_of_a_message_in_the_same_batch_is_a_duplicate_and_holds_nothing_up(here: Client, there: Client) -> None:
    here.put("orders", "one")
    copy_orders()
    here.put("orders", "two")
    with running(route(SOURCE), TARGET) as thread:
        seen = statistics_when(thread, lambda each: each.forwarded == 3)
    assert there.texts("inbox") == ["one", "two"]
    assert (seen.failures, here.texts("orders")) == (0, [])


def test_a_target_that_finds_no_duplicates_gets_copies_however_its_session_ends(
    here: Client, there: Client, monkeypatch: Any
) -> None:
    monkeypatch.setattr("pyjms.forwarding.sites.duplicate_property_of", lambda name: None)
    QueueManager.of("there").create("inbox", max_messages=1)
    here.put("orders", "one")
    copy_orders()
    here.put("orders", "two")
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.failures > 0)
        assert [there.take("inbox").text for _ in range(3)] == ["one", "one", "two"]
        statistics_when(thread, lambda each: each.forwarded == 3)


def test_copies_that_the_source_hands_out_again_are_not_sent_again(
    here: Client, there: Client, site_of: SiteOf, monkeypatch: Any
) -> None:
    def commit(session: VmSession) -> None:
        if site_of(session) == "here" and failures:
            raise failures.pop()
        true_commit(session)

    true_commit, failures = VmSession.commit, [ProviderError("not now")]
    monkeypatch.setattr("pyjms.forwarding.sites.duplicate_property_of", lambda name: None)
    here.put("orders", "one")
    copy_orders()
    monkeypatch.setattr(VmSession, "commit", commit)
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.forwarded == 2)
    assert failures == []
    assert there.texts("inbox") == ["one", "one"]


def test_a_commit_that_fails_however_often_makes_no_dead_letters(
    here: Client, there: Client, site_of: SiteOf, monkeypatch: Any
) -> None:
    def commit(session: VmSession) -> None:
        if site_of(session) == "here" and failures:
            session.rollback()
            raise failures.pop()
        true_commit(session)

    true_commit, failures = VmSession.commit, [RolledBackError("not now") for _ in range(25)]
    put_some(here, 3)
    monkeypatch.setattr(VmSession, "commit", commit)
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.forwarded == 3)
    assert failures == []
    assert there.texts("inbox") == texts(3)
    assert here.texts("DLQ") == here.texts("orders") == []


def test_a_sender_s_duplicate_id_means_nothing_where_messages_are_given_ids(here: Client, there: Client) -> None:
    QueueManager.of("here").create("orders", duplicate_count=0)
    put_without_ids(here, 3, JMS_pyjms_duplicateId="D")
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.forwarded == 3)
    assert there.texts("inbox") == texts(3)


def test_what_is_taken_and_has_no_room_is_there_when_the_route_has_stopped(here: Client, there: Client) -> None:
    QueueManager.of("there").create("inbox", max_messages=7)
    put_some(here, 20)
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.state is RouteState.AWAY)
    until(lambda: len(here.texts("orders")) == 20)
    assert there.take("inbox").text == "0"
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.state is RouteState.AWAY)
        got = [there.take("inbox").text for _ in range(19)]
    assert got == texts(20)[1:]
