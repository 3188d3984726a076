from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from pyjms import Session
from pyjms.forwarding import Guarantee, OutgoingMessage, RouteThread, Transfer, UndeliverableError, to_all
from pyjms.spi import Envelope
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ConnectionLostError, InDoubtError, ProviderError
from pyjms.spi.routes import RouteState
from pyjms.types import Long
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.policy import QueueType
from pyjms_provider.queue_manager import QueueManager
from tests.pyjms.forwarding.conftest import SiteOf
from tests.pyjms.forwarding.sites import Client, queue_at, route, running, statistics_when, until

SOURCE = queue_at("vm://here", "orders")
TARGET = queue_at("vm://there", "inbox")

pytestmark = pytest.mark.realises("MOM-36")


def test_messages_go_to_the_other_site_in_their_order(here: Client, there: Client) -> None:
    for number in range(250):
        here.put("orders", str(number))
    with running(route(SOURCE, batch=40), TARGET) as thread:
        seen = statistics_when(thread, lambda each: each.forwarded == 250)
    assert there.texts("inbox") == [str(number) for number in range(250)]
    assert here.texts("orders") == []
    assert (seen.sent, seen.undeliverable, seen.failures) == (250, 0, 0)
    assert seen.guarantee == "once only"


@pytest.mark.realises("MOM-32")
def test_by_priority_if_the_queue_here_is_one_of_priorities(here: Client, there: Client) -> None:
    QueueManager.of("here").create("orders", type=QueueType.PRIORITY)
    for priority in (1, 9, 4):
        here.put("orders", str(priority), priority=priority)
    with running(route(SOURCE, batch=1), TARGET) as thread:
        statistics_when(thread, lambda each: each.forwarded == 3)
    assert [message.text for message in there.look("inbox")] == ["9", "4", "1"]


@pytest.mark.realises("MOM-37")
def test_several_targets_get_each_message_once(here: Client, there: Client) -> None:
    targets = (TARGET, queue_at("vm://there", "audit"), queue_at("vm://here", "copies"))
    for number in range(10):
        here.put("orders", str(number))
    with running(route(SOURCE), *targets) as thread:
        seen = statistics_when(thread, lambda each: each.forwarded == 10)
    wanted = [str(number) for number in range(10)]
    assert there.texts("inbox") == there.texts("audit") == here.texts("copies") == wanted
    assert seen.sent == 30


def test_types_properties_and_headers_are_kept(here: Client, there: Client) -> None:
    session = here.session
    message = session.create_map_message()
    message.set_long("amount", 7)
    message.set_bytes("raw", b"\x00\xff")
    message.set_short_property("size", 3)
    message.jms_type = "order"
    message.jms_correlation_id = "c-1"
    message.jms_reply_to = session.create_queue("answers")
    with session.create_producer(session.create_queue("orders")) as producer:
        producer.send(message)
    with running(route(SOURCE), TARGET):
        got = there.take("inbox")
    assert isinstance(got.get_object("amount"), Long)
    assert got.get_bytes("raw") == b"\x00\xff"
    assert got.get_object_property("size") == 3
    assert (got.jms_type, got.jms_correlation_id, got.jms_reply_to.queue_name) == ("order", "c-1", "answers")
    assert got.jms_message_id == got.get_string_property("pyjms_origin_id") == message.jms_message_id
    assert got.get_long_property("pyjms_origin_timestamp") == message.jms_timestamp == got.jms_timestamp
    assert got.get_string_property("pyjms_origin_destination") == "queue://orders"
    assert got.get_int_property("pyjms_forward_hops") == 1


def test_a_temporary_reply_destination_means_nothing_elsewhere_and_becomes_a_property(
    here: Client, there: Client
) -> None:
    message = here.session.create_text_message("?")
    message.jms_reply_to = here.session.create_temporary_queue()
    with here.session.create_producer(here.session.create_queue("orders")) as producer:
        producer.send(message)
    with running(route(SOURCE), TARGET):
        got = there.take("inbox")
    assert got.jms_reply_to is None
    assert got.get_string_property("pyjms_origin_reply_to").startswith("temp-queue://")


def test_what_is_moved_twice_after_a_lost_commit_is_there_once(
    here: Client, there: Client, site_of: SiteOf, monkeypatch: Any
) -> None:
    for number in range(5):
        here.put("orders", str(number))
    true_commit, lost = VmSession.commit, ["there", "here", "here"]

    def commit(session: VmSession) -> None:
        broker = site_of(session)
        if lost and broker == lost[0]:
            lost.pop(0)
            if broker == "there":
                true_commit(session)  # it is there, and nobody is told
            raise InDoubtError("the answer was lost")
        true_commit(session)

    monkeypatch.setattr(VmSession, "commit", commit)
    with running(route(SOURCE), TARGET) as thread:
        seen = statistics_when(thread, lambda each: each.forwarded == 5)
    assert lost == []
    assert there.texts("inbox") == [str(number) for number in range(5)]
    assert seen.failures == 3


def test_the_target_itself_drops_what_another_forwarder_has_brought(
    here: Client, there: Client, site_of: SiteOf, monkeypatch: Any
) -> None:
    """The process that knew what had arrived is dead: the one that comes after it knows nothing."""
    true_commit = VmSession.commit

    def commit(session: VmSession) -> None:
        if site_of(session) == "here":
            raise ConnectionLostError("gone")
        true_commit(session)

    here.put("orders", "one")
    with monkeypatch.context() as broken:
        broken.setattr(VmSession, "commit", commit)
        with running(route(SOURCE), TARGET) as thread:
            statistics_when(thread, lambda each: each.failures > 0)
    assert (here.texts("orders"), there.texts("inbox")) == (["one"], ["one"])
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.forwarded == 1)
    assert (here.texts("orders"), there.texts("inbox")) == ([], ["one"])


def test_messages_without_an_id_are_given_one_and_keep_their_order(here: Client, there: Client) -> None:
    session = here.session
    with session.create_producer(session.create_queue("orders")) as producer:
        for number in range(9):
            producer.disable_message_id = 3 <= number < 6
            producer.send(session.create_text_message(str(number)))
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.forwarded == 9)
    assert there.texts("inbox") == [str(number) for number in range(9)]
    assert all(message.jms_message_id for message in there.look("inbox"))
    assert here.texts("orders.r1.named") == []


def test_what_a_dead_forwarder_gave_an_id_goes_first(here: Client, there: Client) -> None:
    here.put("orders.r1.named", "before")
    here.put("orders", "after")
    with running(route(SOURCE), TARGET) as thread:
        statistics_when(thread, lambda each: each.forwarded == 2)
    assert there.texts("inbox") == ["before", "after"]


def test_messages_that_go_round_in_a_circle_are_set_aside(here: Client, there: Client) -> None:
    here.put("orders", "round and round")
    back = route(queue_at("vm://there", "inbox"), name="back", hops_max=4)
    with running(route(SOURCE, hops_max=4), TARGET), running(back, SOURCE) as thread:
        got = here.take("orders.undeliverable")
        thread.stop()
    assert got.get_string_property("pyjms_undeliverable_route") == "r1"
    assert "come through 4 routes" in got.get_string_property("pyjms_undeliverable_reason")


def test_a_message_that_a_target_refuses_is_set_aside_and_the_others_go_on(
    here: Client, there: Client, monkeypatch: Any
) -> None:
    true_send = VmSession.send

    def send(session: VmSession, envelope: Envelope) -> None:
        if envelope.destination.name == "inbox" and "poison" in envelope.properties:
            raise ProviderError("it is poisoned")
        true_send(session, envelope)

    monkeypatch.setattr(VmSession, "send", send)
    here.put("orders", "good 1")
    here.put("orders", "bad", poison=True)
    here.put("orders", "good 2")
    audit = queue_at("vm://there", "audit")
    with running(route(SOURCE), TARGET, audit, queue_at("vm://here", "copies")) as thread:
        seen = statistics_when(thread, lambda each: each.forwarded == 2)
    assert there.texts("inbox") == ["good 1", "good 2"]
    assert there.texts("audit") == here.texts("copies") == ["good 1", "bad", "good 2"]
    (bad,) = here.look("orders.undeliverable")
    assert bad.text == "bad"
    assert bad.get_string_property("pyjms_undeliverable_reason") == "it is poisoned"
    assert bad.get_string_property("pyjms_undeliverable_target") == "inbox at vm://there"
    assert seen.undeliverable == 1


def test_what_a_queue_of_this_site_refuses_is_set_aside_too(here: Client, monkeypatch: Any) -> None:
    true_send = VmSession.send

    def send(session: VmSession, envelope: Envelope) -> None:
        if envelope.destination.name == "copies" and "poison" in envelope.properties:
            raise ProviderError("it is poisoned")
        true_send(session, envelope)

    monkeypatch.setattr(VmSession, "send", send)
    here.put("orders", "bad", poison=True)
    here.put("orders", "good")
    with running(route(SOURCE), queue_at("vm://here", "copies")) as thread:
        statistics_when(thread, lambda each: each.forwarded == 1)
    assert (here.texts("copies"), here.texts("orders.undeliverable")) == (["good"], ["bad"])


def test_without_a_queue_for_it_a_refused_message_keeps_its_place(here: Client, there: Client) -> None:
    is_repaired = Event()

    def plan(envelope: Envelope) -> list[OutgoingMessage]:
        if "poison" in envelope.properties and not is_repaired.is_set():
            raise UndeliverableError("it is poisoned")
        return [OutgoingMessage(TARGET, envelope)]

    here.put("orders", "bad", poison=True)
    here.put("orders", "good")
    with running(route(SOURCE, undeliverable=None), TARGET, plan=plan) as thread:
        seen = statistics_when(thread, lambda each: each.failures > 2)
        assert seen.forwarded == 0
        is_repaired.set()
        statistics_when(thread, lambda each: each.forwarded == 2)
    assert sorted(there.texts("inbox")) == ["bad", "good"]


def test_a_route_that_must_deliver_once_only_refuses_a_target_that_finds_no_duplicates(
    here: Client, there: Client, monkeypatch: Any
) -> None:
    monkeypatch.setattr("pyjms.forwarding.transfer.duplicate_property_of", lambda name: None)
    here.put("orders", "stays")
    with running(route(SOURCE, require=Guarantee.ONCE_ONLY), TARGET) as thread:
        seen = statistics_when(thread, lambda each: each.state is RouteState.FAILED)
    assert "finds no duplicates" in str(seen.last_error)
    assert (here.texts("orders"), there.texts("inbox")) == (["stays"], [])
    with running(route(SOURCE), TARGET) as thread:
        seen = statistics_when(thread, lambda each: each.forwarded == 1)
    assert seen.guarantee == "at least once"


def test_a_wrong_url_ends_the_route_with_the_reason(here: Client) -> None:
    here.put("orders", "stays")
    with running(route(SOURCE), queue_at("nowhere://there", "inbox")) as thread:
        seen = statistics_when(thread, lambda each: each.state is RouteState.FAILED)
    assert "no provider is installed for nowhere://" in str(seen.last_error)
    assert here.texts("orders") == ["stays"]


def test_a_paused_route_gives_back_what_it_has_taken_and_goes_on_when_told(here: Client, there: Client) -> None:
    with running(route(SOURCE), TARGET) as thread:
        thread.pause()
        statistics_when(thread, lambda each: each.state is RouteState.PAUSED)
        here.put("orders", "later")
        assert there.texts("inbox") == []
        assert here.take("orders").text == "later"
        thread.resume()
        statistics_when(thread, lambda each: each.state is RouteState.RUNNING)
        here.put("orders", "later still")
        statistics_when(thread, lambda each: each.forwarded == 1)


def test_a_message_that_has_expired_goes_nowhere(here: Client, there: Client) -> None:
    session = here.session
    away = queue_at("stomp://127.0.0.1:1?reconnect=no", "inbox")
    with session.create_producer(session.create_queue("orders")) as producer:
        producer.send(session.create_text_message("short"), time_to_live=50)
    with running(route(SOURCE), away) as thread:
        statistics_when(thread, lambda each: each.waiting == 1 and each.failures > 0)
        until(lambda: here.session is not None and not here.texts("orders"))


def test_while_a_site_is_away_nothing_loses_its_place(here: Client, there: Client) -> None:
    for number in range(5):
        here.put("orders", str(number))
    away = queue_at("stomp://127.0.0.1:1?reconnect=no", "inbox")
    with running(route(SOURCE, batch=3), away) as thread:
        seen = statistics_when(thread, lambda each: each.failures >= 3)
        assert (seen.state, seen.waiting) == (RouteState.AWAY, 3)
        assert "127.0.0.1:1" in str(seen.last_error)
    got = here.look("orders")
    assert [message.text for message in got] == [str(number) for number in range(5)]
    assert not any(message.jms_redelivered for message in got)


def test_the_session_modes_of_clients_do_not_matter(here: Client, there: Client) -> None:
    other = here.connection.create_session(True, Session.SESSION_TRANSACTED)
    with other.create_producer(other.create_queue("orders")) as producer:
        producer.send(other.create_text_message("in a transaction"))
        with running(route(SOURCE), TARGET) as thread:
            assert there.texts("inbox") == []
            other.commit()
            statistics_when(thread, lambda each: each.forwarded == 1)


def test_a_target_elsewhere_that_is_added_while_it_runs_gets_messages_without_an_id_too(
    here: Client, there: Client
) -> None:
    targets = [queue_at("vm://here", "copies")]
    transfer = Transfer(route(SOURCE), to_all(targets), lambda: targets, SystemClock())
    thread = RouteThread(transfer)
    try:
        here.put("orders", "one")
        statistics_when(thread, lambda each: each.forwarded == 1)
        targets.append(TARGET)
        here.put("orders", "two")
        statistics_when(thread, lambda each: each.forwarded == 2)
        session = here.session
        with session.create_producer(session.create_queue("orders")) as producer:
            producer.disable_message_id = True
            producer.send(session.create_text_message("three"))
        statistics_when(thread, lambda each: each.forwarded == 3)
    finally:
        thread.stop()
    assert here.texts("copies") == ["one", "two", "three"]
    assert there.texts("inbox") == ["two", "three"]
