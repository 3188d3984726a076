"""What the recorder notes of each call, and that it changes nothing of what passes through it."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from threading import Event as Flag
from threading import Semaphore
from typing import TYPE_CHECKING, Any

import pytest

from pyjms import (
    CompletionListener,
    ConnectionFactory,
    DeliveryMode,
    IllegalArgumentException,
    JMSException,
    Message,
    ResourceAllocationException,
    Session,
    TextMessage,
)
from pyjms.history import Recording, Verdict, check, read, record, recorder
from pyjms.history.events import note_of
from pyjms.history.facts import is_queue
from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.spi.errors import InDoubtError, ResourceError
from pyjms.spi.provider import (
    ConnectRequest,
    ExpiredMessage,
    Provider,
    ProviderConnection,
    ProviderConsumer,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms.testing import Fault, Faults, VirtualClock
from pyjms.types import Long
from pyjms_provider.broker import running_broker
from pyjms_provider.clients.vm import VmConsumer
from pyjms_provider.core.queue.pager import StoredDelivery
from tests.provider.helpers import make_envelope
from tests.pyjms.runtime.held_sends import HeldSends
from tests.pyjms.runtime.server_pool import Pool
from tests.pyjms.runtime.wrapping import Wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyjms.history import Event
    from pyjms.spi.envelope import Envelope

URL = "vm://recorder"
PATIENCE_MS = 10_000


@pytest.fixture(params=[False, True], ids=["buffered", "synchronous"])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Recording]:
    with record(tmp_path / "history", run="r1", synchronous=request.param) as made:
        yield made
    find_provider("vm").stop_broker(ProviderUrl.parse(URL))


def events(recording: Recording) -> list[Event]:
    recording.flush()
    return sorted(read(recording.directory).events, key=lambda event: event.t0)


def of(found: list[Event], op: str) -> list[Event]:
    return [event for event in found if event.op == op]


def test_a_message_is_followed_from_its_send_to_its_acknowledgement(recording: Recording) -> None:
    with ConnectionFactory(URL, record=recording).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        producer.priority, producer.delivery_mode = 7, DeliveryMode.NON_PERSISTENT
        for text in ("one", "two"):
            producer.send(session.create_text_message(text))
        consumer = session.create_consumer(queue)
        assert [consumer.receive(PATIENCE_MS).text for _ in range(2)] == ["one", "two"]  # type: ignore[union-attr]
        consumer.close()
    found = events(recording)
    sends, deliveries, acks = (of(found, op) for op in ("send", "deliver", "ack"))
    assert [(each.dest, each.sn, each.prio, each.mode, each.ok) for each in sends] == [
        ("queue://orders", 1, 7, 1, "ok"),
        ("queue://orders", 2, 7, 1, "ok"),
    ]
    assert [each.mid for each in deliveries] == [each.mid for each in sends] == [each.mid for each in acks]
    assert [each.sha for each in deliveries] == [each.sha for each in sends]
    assert sends[0].sha != sends[1].sha
    assert [(each.dn, each.count, each.redelivered) for each in deliveries] == [(1, 1, False), (2, 1, False)]
    assert [(each.consumer, each.dn) for each in acks] == [(each.consumer, each.dn) for each in deliveries]
    assert all(each.t1 is not None and each.t0 <= each.t1 for each in found)
    assert [each.op for each in found if each.sess] == [
        *("send", "send", "subscribe", "deliver", "ack", "deliver", "ack", "close", "close")
    ]
    assert [each.n for each in found if each.sess] == list(range(1, 10))
    assert {(each.run, each.node != "", each.pid) for each in found} == {("r1", True, recording.pid)}


def test_transactions_have_names_and_ends(recording: Recording) -> None:
    with ConnectionFactory(URL, record=recording).create_connection() as connection:
        connection.start()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        queue = session.create_queue("orders")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        producer.send(session.create_text_message("dropped"))
        session.rollback()
        producer.send(session.create_text_message("kept"))
        session.commit()
        assert consumer.receive(PATIENCE_MS)
        session.rollback()
        assert consumer.receive(PATIENCE_MS)
        session.commit()
    found = events(recording)
    one, two, three, four = (each.tx for each in of(found, "begin_tx"))
    assert [each.tx for each in of(found, "send")] == [one, two]
    assert [each.tx for each in of(found, "rollback")] == [one, three]
    assert [each.tx for each in of(found, "commit")] == [two, four]
    assert [(each.tx, each.redelivered) for each in of(found, "deliver")] == [(three, False), (four, True)]
    assert [each.tx for each in of(found, "ack")] == [four]
    assert [each.dn for each in of(found, "recover")] == [1]
    assert not check(found).findings


def unreadable_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what the provider's consumers beneath the recorder take be messages that cannot be read."""

    def unreadable() -> Envelope:
        raise ResourceError("the message was set aside")

    poll = VmConsumer.poll

    def poll_unreadable(consumer: VmConsumer) -> StoredDelivery | None:
        if (given := poll(consumer)) is None:
            return None
        return StoredDelivery(unreadable, lambda: None, given.count, given.redelivered, given.tag)

    monkeypatch.setattr(VmConsumer, "poll", poll_unreadable)


def test_a_message_that_cannot_be_had_is_no_delivery(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    with ConnectionFactory(URL, record=recording).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        session.create_producer(queue).send(session.create_text_message("one"))
        consumer = session.create_consumer(queue)
        unreadable_deliveries(monkeypatch)
        with pytest.raises(ResourceAllocationException):
            consumer.receive_no_wait()
    assert of(events(recording), "deliver") == []


def test_after_a_message_that_cannot_be_had_the_next_one_comes(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer failed for ever: it asked for that one again and again, of which there was nothing more to be had."""
    with ConnectionFactory(URL, record=recording).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        producer.send(session.create_text_message("one"))
        producer.send(session.create_text_message("two"))
        consumer = session.create_consumer(queue)
        with monkeypatch.context() as patch:
            unreadable_deliveries(patch)
            with pytest.raises(ResourceAllocationException, match="set aside"):
                consumer.receive_no_wait()
        message = consumer.receive_no_wait()
    assert isinstance(message, TextMessage)
    assert message.text == "two"
    assert [each.dn for each in of(events(recording), "deliver")] == [1]


def test_subscriptions_selectors_and_browsers_are_noted(recording: Recording) -> None:
    with ConnectionFactory(URL, record=recording, client_id="shop").create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        topic, queue = session.create_topic("prices"), session.create_queue("orders")
        durable = session.create_durable_subscriber(topic, "news")
        plain = session.create_consumer(topic, "cups > 2 AND JMSType = 'tea'", True)
        message = session.create_text_message("x")
        message.set_int_property("cups", 3)
        message.jms_type = "tea"
        session.create_producer(topic).send(message)
        assert durable.receive(PATIENCE_MS)
        assert plain.receive_no_wait() is None  # its own connection's
        durable.close()
        session.unsubscribe("news")
        picky = session.create_consumer(queue, "cups > 2")
        session.create_producer(queue).send(message)
        list(session.create_browser(queue))
        list(session.create_browser(queue, "cups > 5"))
        assert picky.receive(PATIENCE_MS)
    found = events(recording)
    first, second, third = of(found, "subscribe")
    assert (first.sub, json.loads(str(first.note))) == ("shop/news", {"durable": True})
    assert second.sub == second.consumer
    assert json.loads(str(second.note)) == {
        "durable": False,
        "no_local": True,
        "selector": "cups > 2 AND JMSType = 'tea'",
    }
    assert third.sub is None
    assert is_queue(third.dest)
    assert [each.sub for each in of(found, "unsubscribe")] == ["shop/news"]
    seen, end, other_end = of(found, "browse")
    assert (seen.mid, seen.consumer) == (of(found, "send")[1].mid, end.consumer)
    assert json.loads(str(end.note)) == {"seen": 1, "selector": None}
    assert json.loads(str(other_end.note)) == {"seen": 0, "selector": "cups > 5"}
    read_by_selector = json.loads(str(of(found, "deliver")[1].note))
    assert read_by_selector == {"selector": "cups > 2", "headers": {}, "properties": {"cups": ["int", "3"]}}
    assert not check(found).violations


def test_what_fails_is_told_from_what_is_not_known(recording: Recording) -> None:
    with Faults(URL) as faults:
        factory = ConnectionFactory(faults.url, record=recording)
        with factory.create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            producer = session.create_producer(session.create_queue("orders"))
            for fault in (Fault.SEND_REFUSED, Fault.COMMIT_ROLLED_BACK, Fault.COMMIT_IN_DOUBT):
                faults.inject(fault)
                with pytest.raises(JMSException):
                    producer.send(session.create_text_message("x"))
                    session.commit()
            connection.exception_listener = lambda _: None
            faults.drop_connections()
            with pytest.raises(JMSException):
                producer.send(session.create_text_message("x"))
    found = events(recording)
    assert [each.ok for each in of(found, "send")] == ["fail", "ok", "ok", "unknown"]
    assert [each.ok for each in of(found, "commit")] == ["fail", "unknown"]
    assert [json.loads(str(each.note)) for each in of(found, "crash")] == [
        {"error": "ConnectionLostError", "lost": True}
    ]
    assert not check(found).findings


class Outcomes(CompletionListener):
    """Says when an outcome was told."""

    def __init__(self) -> None:
        self.told = Semaphore(0)

    def on_completion(self, message: Message) -> None:
        self.told.release()

    def on_exception(self, message: Message, exception: Exception) -> None:
        self.told.release()


def test_an_asynchronous_send_ends_with_its_outcome(recording: Recording) -> None:
    outcomes = Outcomes()
    with HeldSends(URL) as held:
        factory = ConnectionFactory(held.url, record=recording)
        with factory.create_connection() as connection:
            connection.start()
            session = connection.create_session(True)
            queue = session.create_queue("orders")
            producer = session.create_producer(queue)
            for _ in range(3):
                producer.send(session.create_text_message("x"), outcomes)
            first, second, third = held.take(3)
            first(None)
            second(ResourceError("the queue is full"))
            third(InDoubtError("the connection was lost"))
            session.rollback()
            assert all(outcomes.told.acquire(timeout=PATIENCE_MS / 1000) for _ in range(3))
            producer.send(session.create_text_message("y"), outcomes)
            held.complete()
            session.commit()
            receiver = connection.create_session()
            consumer = receiver.create_consumer(queue)
            assert consumer.receive(PATIENCE_MS) is not None
            consumer.close()
    found = events(recording)
    sends = of(found, "send")
    assert [(each.sn, each.ok) for each in sends] == [(1, "ok"), (2, "fail"), (3, "unknown"), (4, "ok")]
    assert all(each.t1 is not None and each.t0 <= each.t1 for each in sends)
    assert sends[1].t0 <= (sends[0].t1 or 0)  # the second one began before the first one's outcome was known
    assert not check(found).findings


def test_an_asynchronous_send_that_is_refused_at_once_has_failed(recording: Recording) -> None:
    outcomes = Outcomes()
    with Faults(URL) as faults, ConnectionFactory(faults.url, record=recording).create_connection() as connection:
        session = connection.create_session()
        faults.inject(Fault.SEND_REFUSED)
        session.create_producer(session.create_queue("orders")).send(session.create_text_message("x"), outcomes)
        assert outcomes.told.acquire(timeout=PATIENCE_MS / 1000)
    assert [each.ok for each in of(events(recording), "send")] == ["fail"]


def test_listeners_that_fail_and_messages_that_are_rejected_break_no_rule(recording: Recording) -> None:
    done = Flag()

    def listen(message: Any) -> None:
        if message.text == "bad":
            raise ValueError(message.text)
        done.set()

    with ConnectionFactory(URL, record=recording).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        sending = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = listen
        connection.start()
        for text in ("bad", "good"):
            sending.create_producer(queue).send(session.create_text_message(text))
        assert done.wait(10)
    with ConnectionFactory(URL, record=recording).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        assert len(list(session.create_browser(session.create_queue("DLQ")))) == 1
    report = recording.check(complete=True)
    assert "the listener raised ValueError: bad" in str([event.note for event in events(recording)])
    assert report.verdict is Verdict.INFORMATION
    assert report.counts() == {"moved": 1}


def test_messages_that_a_server_session_takes_over_break_no_rule(recording: Recording) -> None:
    with ConnectionFactory(URL, record=recording).create_connection() as connection:
        got: list[str] = []
        done = Flag()

        def listen(message: Any) -> None:
            got.append(message.text)
            if len(got) == 3:
                done.set()

        pool = Pool(connection, lambda _: listen)
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        for number in range(3):
            session.create_producer(queue).send(session.create_text_message(str(number)))
        consumer = connection.create_connection_consumer(queue, None, pool, 2)
        connection.start()
        assert done.wait(10)
        consumer.close()
    found = events(recording)
    assert {"adopted"} == {key for each in of(found, "recover") for key in json.loads(str(each.note))}
    assert len(of(found, "ack")) == 3
    assert not check(found, complete=True).findings


def test_the_consumers_of_a_shared_subscription_are_told_from_others_and_break_no_rule(recording: Recording) -> None:
    request = ConnectRequest(
        url=ProviderUrl.parse(URL), user_name=None, password=None, client_id=None, clock=SystemClock()
    )
    connection = recorder.RecordedProvider(find_provider("vm"), recording).connect(request, NoEvents())
    connection.start()
    sessions = [connection.open_session(transacted=False) for _ in range(2)]
    topic = Address(AddressKind.TOPIC, "news")
    for shared in (
        {"durable_name": None, "shared_name": "desk"},
        {"durable_name": "desk", "is_shared": True},
    ):
        terms = SubscribeRequest(address=topic, selector=None, no_local=False, **shared)
        consumers = [session.subscribe(terms, lambda: None) for session in sessions]
        for number in range(4):
            sessions[0].send(make_envelope(str(number), destination=topic))
            delivery = consumers[number % 2].poll()
            assert delivery is not None
            sessions[number % 2].acknowledge([delivery])
        for consumer in consumers:
            consumer.close()
    sessions[0].unsubscribe("desk")
    connection.close()
    found = events(recording)
    assert [(each.sub, note_of(each)) for each in of(found, "subscribe")] == [
        *[("#/desk", {"durable": False, "shared": True})] * 2,
        *[("/desk", {"durable": True, "shared": True})] * 2,
    ]
    assert not check(found, complete=True).findings


def test_what_is_sent_for_later_is_noted(recording: Recording) -> None:
    request = ConnectRequest(
        url=ProviderUrl.parse(URL), user_name=None, password=None, client_id=None, clock=SystemClock()
    )
    connection = recorder.RecordedProvider(find_provider("vm"), recording).connect(request, NoEvents())
    session = connection.open_session(transacted=False)
    session.send(make_envelope("at once"))
    session.send(replace(make_envelope("later"), deliver_at_ms=2**50))
    session.send(make_envelope("later, by a property", properties={"JMS_pyjms_deliverAt": Long(2**50)}))
    connection.close()
    assert [note_of(each) for each in of(events(recording), "send")] == [{}, {"scheduled": True}, {"scheduled": True}]


def test_times_follow_a_clock_that_is_moved_by_hand(recording: Recording) -> None:
    clock = VirtualClock()
    with ConnectionFactory("vm://recorder-virtual", record=recording, clock=clock).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("orders"))
        producer.send(session.create_text_message("x"))
        clock.advance(60_000)
        producer.send(session.create_text_message("y"))
    find_provider("vm").stop_broker(ProviderUrl.parse("vm://recorder-virtual"))
    first, second = of(events(recording), "send")
    assert first.t0 < (first.t1 or 0) < second.t0
    assert 60 * 10**9 <= second.t0 - first.t0 < 61 * 10**9


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Semaphore:
    """Return what is released for each expiry that a recording has noted."""
    noted, note = Semaphore(0), Recording.record_expired

    def hear(made: Recording, expired: ExpiredMessage) -> None:
        note(made, expired)
        noted.release()

    monkeypatch.setattr(Recording, "record_expired", hear)
    return noted


def await_all(heard: Semaphore, number: int) -> None:
    assert all(heard.acquire(timeout=PATIENCE_MS / 1000) for _ in range(number))


@pytest.mark.parametrize("store", ["", "?store=sqlite:///{}/shop.db"])
def test_expiries_are_noted_once_whoever_sent_and_however_many_are_recorded(
    recording: Recording, heard: Semaphore, tmp_path: Path, store: str
) -> None:
    clock = VirtualClock()
    url = "vm://recorder-expiring" + store.format(tmp_path)
    factory = ConnectionFactory(url, record=recording, clock=clock)
    with (
        ConnectionFactory(url, clock=clock).create_connection() as unheard,
        factory.create_connection(),
        factory.create_connection() as connection,
    ):
        for each in (unheard, connection):
            session = each.create_session(False, Session.AUTO_ACKNOWLEDGE)
            producer = session.create_producer(session.create_queue("orders"))
            producer.time_to_live = 1000
            producer.send(session.create_text_message("x"))
        before_ms = clock.time_ms()
        clock.advance(2000)
        await_all(heard, 2)
    find_provider("vm").stop_broker(ProviderUrl.parse(url))
    found = of(events(recording), "expire")
    assert len({each.mid for each in found}) == len(found) == 2
    (sent,) = of(events(recording), "send")
    assert sent.mid in {each.mid for each in found}
    assert {(each.dest, each.sub, each.ok, each.conn) for each in found} == {("queue://orders", None, "ok", None)}
    assert {(each.t0, each.exp) for each in found} == {((before_ms + 2000) * 10**6, before_ms + 1000)}
    assert not of(events(recording), "deliver")


def test_what_expired_while_the_broker_was_down_is_noted_when_it_is_started(
    recording: Recording, heard: Semaphore, tmp_path: Path
) -> None:
    clock = VirtualClock()
    url = f"vm://recorder-late?store=sqlite:///{tmp_path}/late.db"
    factory = ConnectionFactory(url, record=recording, clock=clock)
    with factory.create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("orders"))
        producer.time_to_live = 1000
        producer.send(session.create_text_message("x"))
    find_provider("vm").stop_broker(ProviderUrl.parse(url))
    clock.advance(5000)
    with factory.create_connection():
        await_all(heard, 1)
    find_provider("vm").stop_broker(ProviderUrl.parse(url))
    assert [each.mid for each in of(events(recording), "expire")] == [
        each.mid for each in of(events(recording), "send")
    ]


def test_a_recorder_around_another_one_hears_as_well(recording: Recording, heard: Semaphore, tmp_path: Path) -> None:
    clock = VirtualClock()
    with record(tmp_path / "other") as other:
        inner = recorder.RecordedProvider(find_provider("vm"), recording)
        request = ConnectRequest(
            url=ProviderUrl.parse("vm://recorder-twice"), user_name=None, password=None, client_id=None, clock=clock
        )
        connection = recorder.RecordedProvider(inner, other).connect(request, NoEvents())
        broker = running_broker("recorder-twice")
        assert broker is not None
        broker.virtual_host.route(make_envelope("x", expiration_ms=clock.time_ms() + 10), ConnectionId("c"), None)
        clock.advance(10)
        await_all(heard, 2)
        connection.close()
        for each in (recording, other):
            assert len(of(events(each), "expire")) == 1
    find_provider("vm").stop_broker(request.url)


def test_expiries_are_heard_of_through_whatever_stands_before_the_provider(
    recording: Recording, heard: Semaphore
) -> None:
    clock = VirtualClock()
    with (
        Wrapped("vm://recorder-before") as wrapped,
        Faults(wrapped.url) as faults,
        ConnectionFactory(faults.url, record=recording, clock=clock).create_connection() as connection,
    ):
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("orders"))
        producer.time_to_live = 1000
        producer.send(session.create_text_message("x"))
        clock.advance(1000)
        await_all(heard, 1)
    find_provider("vm").stop_broker(ProviderUrl.parse("vm://recorder-before"))


class NoEvents:
    """Hears of nothing."""

    def on_exception(self, error: Exception) -> None: ...


def test_a_url_is_enough_to_record(tmp_path: Path) -> None:
    for synchronous in ("true", "false"):
        directory = tmp_path / synchronous
        url = f"{URL}?record={directory}&record_synchronously={synchronous}"
        with ConnectionFactory(url).create_connection() as connection:
            connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        assert {event.op for event in read(directory).events} == {"close"}
        assert not read(directory).cut_off
    find_provider("vm").stop_broker(ProviderUrl.parse(URL))


@pytest.mark.parametrize("value", ["yes", 1, ""])
def test_synchronously_is_true_or_false(value: object) -> None:
    with pytest.raises(IllegalArgumentException, match="record_synchronously must be true or false"):
        ConnectionFactory(URL, record="x", record_synchronously=value)


def test_stopping_a_broker_is_noted(recording: Recording) -> None:
    with ConnectionFactory(URL, record=recording).create_connection():
        recorder.RecordedProvider(find_provider("vm"), recording).stop_broker(ProviderUrl.parse(URL))
    found = of(events(recording), "crash")
    assert {(each.conn is None, each.pid) for each in found} == {(False, recording.pid), (True, "")}


@pytest.mark.parametrize(
    ("contract", "name"),
    [
        (contract, name)
        for contract in (Provider, ProviderConnection, ProviderSession, ProviderConsumer)
        for name, member in vars(contract).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ],
)
def test_every_call_of_the_spi_is_passed_on(contract: type, name: str) -> None:
    wrappers = [
        each for each in vars(recorder).values() if inspect.isclass(each) and each.__module__ == recorder.__name__
    ]
    wrapper = next(each for each in wrappers if issubclass(each, contract))
    defining = next(base for base in wrapper.__mro__ if name in vars(base))
    assert defining is not contract
