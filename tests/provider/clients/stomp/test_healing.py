"""A connection that is lost comes back by itself, and says so; what belonged to it is settled in its spirit."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pkgutil import resolve_name
from threading import Event, Thread

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    AccessDeniedError,
    ClosedError,
    ConnectionLostError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
)
from pyjms.spi.provider import ConnectRequest, SubscribeRequest
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid
from pyjms.testing import VirtualClock
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.failover import ConnectionInterruptedError
from pyjms_provider.clients.stomp.failover import StompFailoverConnection
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.clients.stomp.provider import StompProvider
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.native.peer import Peer, linked
from tests.provider.clients.stomp.world import QUICKLY, Events, Told, connect, connected, consume, hasten
from tests.provider.helpers import make_envelope, text_of
from tests.pyjms.runtime.helpers import eventually


def test_a_lost_connection_is_made_anew_with_its_consumers_and_told_once() -> None:
    events, told = Events(), Told()
    with FakeBroker() as broker, connected(broker, events=events) as connection:
        consumer = consume(connection.open_session(transacted=False), told=told)
        broker.cut()
        broker.wait_for("SUBSCRIBE", 2)
        connection.link.current()
        assert connection.state == "connected"
        broker.deliver(consumer.id, "1", "after")
        told.wait()
        assert text_of(consumer.poll()) == "after"
        assert [type(error) for error in events.errors] == [ConnectionInterruptedError]
        assert "being made anew" in events.errors[0].reason


def request_of(broker: FakeBroker) -> ConnectRequest:
    url = ProviderUrl.parse(f"{broker.url}?{QUICKLY}")
    return ConnectRequest(url=url, user_name=None, password=None, client_id=None, clock=SystemClock())


def end_before_it_is_used(monkeypatch: pytest.MonkeyPatch, broker: FakeBroker, number: int) -> None:
    """Have the connection of that number, from 1, end after the broker's CONNECTED and before anybody hears of it."""
    attempt = StompFailoverConnection.connect

    def connect(link: StompFailoverConnection, endpoint: Endpoint) -> PhysicalConnection:
        physical = attempt(link, endpoint)
        if physical.number == number:
            broker.cut()
            physical.join(PATIENCE_S)
            assert physical.has_ended
        return physical

    monkeypatch.setattr(StompFailoverConnection, "connect", connect)


@pytest.mark.parametrize("kind", [FakeBroker, Peer])
def test_a_broker_that_says_why_it_ends_the_connection_is_quoted_once(kind: type[FakeBroker]) -> None:
    events = Events()
    with kind() as broker:
        connection = StompProvider().connect(request_of(broker), events)
        broker.push(Frame("ERROR", {"code": "PYJMS-LOST", "message": "x"}, b"the broker closes this port"))
        broker.cut()
        (error,) = events.wait_for(1)
        connection.open_session(transacted=False)
        assert [type(each) for each in events.errors] == [ConnectionInterruptedError]
        assert "the broker closes this port" in error.reason
        connection.close()


@pytest.mark.parametrize("kind", [FakeBroker, Peer])
def test_a_connection_that_ends_as_soon_as_it_is_made_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, kind: type[FakeBroker]
) -> None:
    with kind() as broker:
        end_before_it_is_used(monkeypatch, broker, 1)
        events = Events()
        connection = StompProvider().connect(request_of(broker), events)
        connection.start()
        session = connection.open_session(transacted=False)
        session.send(make_envelope("works", persistent=True))
        broker.wait_for("SEND")
        assert connection.link.physical_number == 2
        assert [type(error) for error in events.errors] == [ConnectionInterruptedError]
        connection.close()


def test_a_connection_that_ends_as_soon_as_it_has_its_client_id_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events()
    with FakeBroker() as broker, connected(broker, events=events) as connection:
        end_before_it_is_used(monkeypatch, broker, 2)
        connection.set_client_id("desk")
        connection.open_session(transacted=False).send(make_envelope("works", persistent=True))
        assert connection.link.physical_number == 3
        assert len(events.errors) == 1


@pytest.mark.parametrize("dead", [0, 1, 2])
def test_the_list_of_places_holds_for_life_whichever_of_them_is_dead(dead: int) -> None:
    brokers = [FakeBroker() for _ in range(3)]
    for broker in brokers:
        broker.__enter__()
    try:
        brokers[dead].stop()
        places = ",".join(f"127.0.0.1:{broker.port}" for broker in brokers[1:])
        events = Events()
        connection = connect(f"{brokers[0].url}?failover={places}&{QUICKLY}", events)
        for losses in (1, 2, 3):
            (alive,) = [each for each in brokers if each.port == connection.link.current().endpoint.port]
            alive.cut()
            events.wait_for(losses)
            connection.link.current()
        assert len(events.errors) == 3
        connection.close()
    finally:
        for broker in brokers:
            broker.stop()


@pytest.mark.parametrize("command", ["SUBSCRIBE", "SEND", "ACK", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT"])
def test_a_cut_at_any_step_leaves_a_connection_that_works(command: str) -> None:
    events = Events()
    with FakeBroker() as broker, connected(broker, events=events) as connection:
        broker.cut_before = (command, 1)
        session = connection.open_session(transacted=command in {"BEGIN", "COMMIT", "ABORT"})
        consumer = consume(session)
        steps: list[Callable[[], None]] = [lambda: session.send(make_envelope("x", persistent=True))]
        if command == "ACK":
            told = Told()
            consumer = consume(session, told=told)
            broker.deliver(consumer.id, "1")
            told.wait()
            delivery = consumer.poll()
            assert delivery is not None
            steps = [lambda: session.acknowledge([delivery])]
        if command == "COMMIT":
            steps.append(session.commit)
        if command == "ABORT":
            steps.append(session.rollback)
        if command == "UNSUBSCRIBE":
            steps = [consumer.close]
        for step in steps:
            with suppress(InDoubtError, ResourceError, RolledBackError):  # all say that something was lost
                step()
        events.wait_for(1)
        other = connection.open_session(transacted=False)
        other.send(make_envelope("works", persistent=True))
        told = Told()
        again = consume(other, told=told)
        broker.deliver(again.id, "9", "too")
        told.wait()
        assert text_of(again.poll()) == "too"
        assert len(events.errors) == 1


def test_a_message_whose_receipt_never_came_is_in_doubt() -> None:
    with FakeBroker(cut_before=("SEND", 1)) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        with pytest.raises(InDoubtError, match="not known whether it arrived"):
            session.send(make_envelope("x", persistent=True))


def test_a_commit_without_an_answer_is_in_doubt_and_one_that_was_not_sent_is_rolled_back() -> None:
    with FakeBroker(cut_before=("COMMIT", 1)) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("x"))
        with pytest.raises(InDoubtError):
            session.commit()
        session.send(make_envelope("y"))
        broker.wait_for("SEND", 2)
        broker.cut()
        broker.wait_for("CONNECT", 3)
        with pytest.raises(RolledBackError):
            session.commit()
        session.send(make_envelope("z"))
        session.commit()


def test_what_was_being_processed_comes_again_marked_and_a_late_acknowledgement_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, told = Events(), Told()
    with FakeBroker() as broker, connected(broker, events=events) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "7", "work")
        told.wait()
        first = consumer.poll()
        assert first is not None
        assert (first.count, first.redelivered) == (1, False)
        broker.cut()
        events.wait_for(1)
        connection.link.current()
        session.acknowledge([first])
        assert broker.of("ACK") == []
        assert "PYJMS-EPOCH" in caplog.text
        broker.deliver(consumer.id, "7", "work")  # the broker does not mark it
        told.wait(2)
        again = consumer.poll()
        assert again is not None
        assert (again.count, again.redelivered) == (2, True)


def test_an_acknowledgement_whose_answer_was_lost_is_repeated_and_not_delivered_again() -> None:
    told = Told()
    with FakeBroker(cut_before=("ACK", 1)) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "17", "once")
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        session.acknowledge([delivery])
        broker.wait_for("SUBSCRIBE", 2)
        connection.link.current()
        broker.deliver(consumer.id, "17", "once", redelivered="true")
        broker.deliver(consumer.id, "18", "next")
        told.wait(3)
        assert text_of(consumer.poll()) == "next"
        assert broker.wait_for("ACK", 2).headers["id"] == "17"


def test_messages_of_a_lost_connection_that_were_not_polled_are_forgotten() -> None:
    told = Told()
    with FakeBroker() as broker, connected(broker) as connection:
        consumer = consume(connection.open_session(transacted=False), told=told)
        broker.deliver(consumer.id, "1", "old")
        told.wait()
        broker.cut()
        broker.wait_for("SUBSCRIBE", 2)
        connection.link.current()
        assert consumer.poll() is None


def test_a_send_waits_for_the_connection_to_come_back() -> None:
    with FakeBroker() as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        broker.unanswered.add("CONNECT")
        broker.cut()
        broker.wait_for("CONNECT", 2)
        sender = Thread(target=lambda: session.send(make_envelope("late", persistent=True)))
        sender.start()
        broker.unanswered.clear()
        broker.cut()
        broker.wait_for("SEND")
        sender.join(PATIENCE_S)
        assert not sender.is_alive()


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    "call", ["send", "send without a wait", "subscribe", "send in a transaction", "work in a branch"]
)
def test_the_end_of_a_sessions_waits_ends_its_wait_for_a_connection_and_no_other(call: str, native: bool) -> None:
    if not native and call == "work in a branch":
        return  # other brokers have none
    envelope = make_envelope("late", persistent=True)
    request = SubscribeRequest(address=envelope.destination, selector=None, no_local=False, durable_name=None)
    done: list[object] = []
    with Peer() if native else FakeBroker() as broker, (linked if native else connected)(broker) as connection:
        session = connection.open_session(transacted="in" in call.split())
        other = connection.open_session(transacted=False)
        calls: dict[str, Callable[[], object]] = {
            "send": lambda: session.send(envelope),
            "send without a wait": lambda: session.send_async(envelope, done.append),
            "subscribe": lambda: session.subscribe(request, lambda: None),
            "send in a transaction": lambda: session.send(envelope),
            "work in a branch": lambda: session.xa_start(Xid(1, b"global", b"branch")),
        }
        broker.unanswered.add("SESSION" if native else "CONNECT")  # so that it is not made anew
        broker.cut()
        eventually(lambda: connection.state == "reconnecting", "the loss is known")
        errors: list[ProviderError] = []

        def run() -> None:
            try:
                calls[call]()
            except ProviderError as error:
                errors.append(error)

        waiting = Thread(target=run)
        going_on = Thread(target=lambda: other.send(envelope))
        waiting.start()
        going_on.start()
        eventually(lambda: len(connection.link._waiting) == 2, "both wait")
        session.end_waits()
        waiting.join(PATIENCE_S)
        assert [type(error) for error in errors] == [ClosedError]
        with pytest.raises(ClosedError):  # a later one as well
            calls[call]()
        assert not done
        broker.unanswered.clear()
        broker.cut()
        broker.wait_for("SEND")
        going_on.join(PATIENCE_S)
        assert not going_on.is_alive()


def test_without_reconnect_the_first_loss_is_for_good() -> None:
    events = Events()
    with FakeBroker() as broker:
        connection = connect(f"{broker.url}?reconnect=no", events)
        session = connection.open_session(transacted=False)
        consumer = consume(session)
        broker.cut()
        (error,) = events.wait_for(1)
        assert isinstance(error, ConnectionLostError)
        assert connection.state == "lost"
        for call in (consumer.poll, lambda: session.send(make_envelope("x")), connection.start):
            with pytest.raises(ConnectionLostError):
                call()
        session.close()
        connection.close()


def test_so_many_rounds_and_then_the_connection_is_given_up() -> None:
    events = Events()
    with FakeBroker() as broker:
        connection = connect(f"{broker.url}?{QUICKLY}&reconnect_attempts=2", events)
        broker.stop()
        errors = events.wait_for(2)
        assert [type(error) for error in errors] == [ConnectionInterruptedError, ConnectionLostError]
        assert "2 rounds" in errors[1].reason
        connection.close()


def test_a_refused_login_ends_the_attempts() -> None:
    events = Events()
    with FakeBroker() as broker:
        connection = connect(f"{broker.url}?{QUICKLY}", events)
        broker.unanswered.add("CONNECT")
        broker.on_frame = lambda number, frame: broker.push(
            Frame("ERROR", {"message": "User name or password is invalid"})
        )
        broker.cut()
        assert isinstance(events.wait_for(2)[1], ConnectionLostError)
        connection.close()


def test_a_login_that_is_to_be_tried_later_is_tried_again() -> None:
    with FakeBroker() as broker:
        connection = connect(f"{broker.url}?{QUICKLY}")
        busy = {"code": "PYJMS-ACCESS-BUSY", "kind": "PYJMS-ACCESS", "message": "try again in some seconds"}
        broker.unanswered.add("CONNECT")
        broker.on_frame = lambda number, frame: (
            broker.push(Frame("ERROR", busy)) if frame.command == "CONNECT" else None
        )
        broker.cut()
        broker.wait_for("CONNECT", 4)
        assert connection.state == "reconnecting"
        connection.close()


def test_waits_between_rounds_follow_the_clock() -> None:
    clock, events = VirtualClock(), Events()
    with FakeBroker() as broker:
        connection = connect(f"{broker.url}?reconnect_delay_ms=60000&reconnect_delay_max_ms=60000", events, clock=clock)
        broker.cut_before = ("CONNECT", 2)
        broker.cut()
        clock.await_wait(60_000)
        assert connection.state == "reconnecting"
        clock.advance(60_000)
        broker.wait_for("CONNECT", 3)
        connection.link.current()
        connection.close()


def test_a_connection_that_was_made_anew_and_ends_at_once_is_like_an_attempt_that_failed() -> None:
    clock, events = VirtualClock(), Events()
    with FakeBroker() as broker:
        url = f"{broker.url}?reconnect_delay_ms=60000&reconnect_delay_max_ms=600000"
        connection = connect(url, events, clock=clock)

        def lose(number: int) -> None:
            assert connection.link.current().number == number
            broker.cut()
            events.wait_for(number)

        lose(1)
        lose(2)
        clock.await_wait(60_000)  # up to a half of each wait is taken off
        assert broker.connection_count == 2
        clock.advance(60_000)
        lose(3)
        clock.await_wait(120_000)
        clock.advance(59_000)
        clock.await_wait(61_000)
        assert broker.connection_count == 3
        clock.advance(61_000)
        assert connection.link.current().number == 4
        clock.advance(5_000)  # it has lasted
        lose(4)
        lose(5)
        clock.await_wait(60_000)
        connection.close()
        assert broker.connection_count == 5


def test_a_connection_that_an_interrupt_ends_is_made_anew_at_once_each_time() -> None:
    """Several Ctrl-Cs in a row say nothing about the broker; nor do they about one that drops its clients."""
    clock, events = VirtualClock(), Events()
    with FakeBroker() as broker:
        url = f"{broker.url}?reconnect_delay_ms=60000&reconnect_delay_max_ms=600000"
        connection = connect(url, events, clock=clock)
        for number in range(1, 6):
            connection.link.current().abort("a test ends it")
            events.wait_for(number)
            broker.wait_for("CONNECT", number + 1)
        connection.link.current()
        broker.cut()
        clock.await_wait(60_000)
        connection.close()


@pytest.mark.parametrize("what", ["socket.socketpair", "select.epoll", "thread"])
def test_a_process_that_lacks_something_for_a_moment_heals_when_it_has_that_again(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    events, attempts = Events(), count(1)

    class Scarce(Thread):
        def start(self) -> None:
            if next(attempts) <= 4:  # the first is the one that is to heal
                raise RuntimeError("can't start new thread")
            super().start()

    def lack() -> object:
        if next(attempts) <= 4:
            raise OSError(errno.EMFILE, "Too many open files")
        return make()

    with FakeBroker() as broker, connected(broker, events=events) as connection:
        session = connection.open_session(transacted=False)
        if what == "thread":
            for module in ("network.failover", "network.io_thread"):
                monkeypatch.setattr(f"pyjms_provider.clients.{module}.Thread", Scarce)
        else:
            make: Callable[[], object] = resolve_name(what)
            monkeypatch.setattr(what, lack)
        broker.cut()
        events.wait_for(1)
        session.send(make_envelope("works", persistent=True))
        broker.wait_for("SEND")
        assert next(attempts) > 5
        assert [type(each) for each in events.errors] == [ConnectionInterruptedError]
        monkeypatch.undo()


def test_closing_ends_the_attempts_to_connect() -> None:
    events = Events()
    broker = FakeBroker()
    with broker:
        connection = connect(f"{broker.url}?{QUICKLY}", events)
    events.wait_for(1)
    connection.close()
    assert connection.state == "closed"
    with pytest.raises(ClosedError):
        connection.open_session(transacted=False)


def test_closing_ends_a_send_that_waits_for_a_receipt() -> None:
    with FakeBroker(unanswered={"SEND", "DISCONNECT"}) as broker:
        connection = connect(f"{broker.url}?{QUICKLY}")
        session = connection.open_session(transacted=False)
        hasten(connection.link, connect_timeout_ms=50)
        raised: list[BaseException] = []
        done = Event()

        def send() -> None:
            try:
                session.send(make_envelope("x", persistent=True))
            except ProviderError as error:
                raised.append(error)
            done.set()

        sender = Thread(target=send)
        sender.start()
        broker.wait_for("SEND")
        connection.close()
        assert done.wait(PATIENCE_S)
        assert isinstance(raised[0], (ClosedError, InDoubtError))
        sender.join()


def test_a_receipt_that_does_not_come_in_time_is_told() -> None:
    with FakeBroker(unanswered={"SEND"}) as broker, connected(broker, "timeout_ms=50") as connection:
        session = connection.open_session(transacted=False)
        with pytest.raises(InDoubtError, match="has not answered SEND for 50 ms"):
            session.send(make_envelope("x", persistent=True))


def test_a_client_that_holds_a_message_for_long_keeps_its_connection() -> None:
    told = Told()
    with FakeBroker(heart_beat="1000,20") as broker, connected(broker, f"{QUICKLY}&heart_beat_ms=20") as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "1", "an hour of work")
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        broker.wait_for_beats(10)  # this thread, which is the listener's, does nothing meanwhile
        session.acknowledge([delivery])
        assert broker.wait_for("ACK").headers["id"] == "1"
        assert broker.connection_count == 1


def test_temporary_destinations_of_a_lost_connection_are_told_to_be_gone() -> None:
    events = Events()

    def answer(number: int, frame: Frame) -> None:
        if frame.command == "SEND":
            broker.deliver("probe", "1", message_id="ID:host-1:1:-1:1:1")

    with FakeBroker(on_frame=answer) as broker, connected(broker, events=events) as connection:
        address = connection.create_temporary(AddressKind.QUEUE)
        assert address == Address(AddressKind.QUEUE, "/remote-temp-queue/ID:host-1:1:1", temporary=True)
        assert connection.create_temporary(AddressKind.TOPIC).name == "/remote-temp-topic/ID:host-1:1:2"
        consumer = consume(connection.open_session(transacted=False), address)
        broker.cut()
        events.wait_for(1)
        connection.link.current()
        with pytest.raises(ProviderError, match="went with the connection"):
            consumer.poll()


def test_a_temporary_destination_that_was_answered_too_late_is_counted() -> None:
    def answer(number: int, frame: Frame) -> None:
        if frame.command == "SEND":
            broker.deliver("probe", "1", message_id="ID:host-1:1:-1:1:1")

    with FakeBroker(on_frame=answer, unanswered={"SEND"}) as broker, connected(broker) as connection:

        def fail(command: str) -> None:
            hasten(connection.link, timeout_ms=50)
            with pytest.raises(ResourceError, match=f"not answered {command} for 50 ms"):
                connection.create_temporary(AddressKind.QUEUE)
            hasten(connection.link, timeout_ms=int(PATIENCE_S * 1000))
            broker.unanswered.clear()

        fail("SEND")
        probe = broker.of("SUBSCRIBE")[0].headers["id"]
        assert broker.wait_for("UNSUBSCRIBE").headers["id"] == probe, "which else takes what is sent there"
        assert connection.create_temporary(AddressKind.QUEUE).name == "/remote-temp-queue/ID:host-1:1:2"
        broker.unanswered.add("UNSUBSCRIBE")
        fail("UNSUBSCRIBE")
        assert connection.create_temporary(AddressKind.QUEUE).name == "/remote-temp-queue/ID:host-1:1:4"


def test_a_wrong_password_is_told_at_once() -> None:
    with FakeBroker(unanswered={"CONNECT"}) as broker:
        broker.on_frame = lambda number, frame: broker.push(Frame("ERROR", {"message": "Access refused for user 'x'"}))
        with pytest.raises(AccessDeniedError, match="Access refused"):
            connect(broker.url)


def test_a_broker_that_hides_its_name_needs_a_dialect() -> None:
    with FakeBroker(server=None) as broker:
        with pytest.raises(ProviderError, match=r"\?dialect="):
            connect(broker.url)
        connect(f"{broker.url}?dialect=artemis").close()


def test_no_place_answers_and_each_is_told() -> None:
    with FakeBroker() as broker:
        port = broker.port
    with pytest.raises(ResourceError, match=rf"127.0.0.1:{port}.*localhost:{port}"):
        connect(f"stomp://127.0.0.1:{port}?failover=localhost:{port}")


@pytest.mark.parametrize("what", ["consumer", "session", "connection"])
def test_a_client_that_closes_when_it_is_told_does_not_wait_for_itself(what: str) -> None:
    closed = Event()
    with FakeBroker() as broker:
        connection = connect(f"{broker.url}?{QUICKLY}")
        session = connection.open_session(transacted=False)

        def on_ready() -> None:
            closes = {"consumer": consumer.close, "session": session.close, "connection": connection.close}
            closes[what]()
            closed.set()

        consumer = consume(session, told=on_ready)
        broker.deliver(consumer.id, "1")
        assert closed.wait(PATIENCE_S / 2)
        broker.wait_for("UNSUBSCRIBE")
        connection.close()


def test_settling_while_another_thread_closes_the_session_says_so() -> None:
    told = Told()
    with FakeBroker() as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "1")
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        broker.refused["ACK"] = "No subscription matched."

        def close(number: int, frame: Frame) -> None:
            if frame.command == "ACK":
                session._closed = True  # as another thread does in this moment

        broker.on_frame = close
        with pytest.raises(ClosedError):
            session.acknowledge([delivery])
        session._closed = False


@pytest.mark.parametrize("kind", [FakeBroker, Peer])
def test_a_loss_that_nobody_can_be_told_of_is_healed_all_the_same(kind: type[FakeBroker]) -> None:
    class Deaf(Events):
        def on_exception(self, error: ProviderError) -> None:
            super().on_exception(error)
            raise RuntimeError("can't start new thread")

    events = Deaf()
    with kind() as broker:
        connection = StompProvider().connect(request_of(broker), events)
        connection.open_session(transacted=False)
        broker.cut()
        events.wait_for(1)
        connection.open_session(transacted=False).send(make_envelope("works", persistent=True))
        broker.wait_for("SEND")
        connection.close()
