"""After a Ctrl-C at any place of an acknowledgement, or of the end of a transaction, it is said once, however often it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import InDoubtError, ProviderError, RolledBackError
from pyjms_provider.clients.stomp.connection import StompConnection
from pyjms_provider.clients.stomp.epoch import Epoch, Question, UnansweredError
from pyjms_provider.clients.stomp.link import Link
from pyjms_provider.clients.stomp.options import Endpoint
from pyjms_provider.clients.stomp.session import StompSession
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.world import QUICKLY, Events, Told, connected, consume, hasten
from tests.provider.helpers import make_envelope, text_of
from tests.provider.interruptions import Interruption, each_interruption
from tests.pyjms.runtime.helpers import Call

FILES = tuple(
    f"clients/stomp/{name}.py" for name in ("session", "epoch", "transactions", "held_message", "wire", "outbox")
)


def received(broker: FakeBroker, session: StompSession, number: int = 2) -> list[Delivery]:
    told = Told()
    consumer = consume(session, told=told)
    for ack in range(number):
        broker.deliver(consumer.id, f"a{ack}")
    deliveries: list[Delivery] = []
    while len(deliveries) < number:
        told.wait(len(deliveries) + 1)
        while (delivery := consumer.poll()) is not None:
            deliveries.append(delivery)
    return deliveries


def settled(broker: FakeBroker, command: str = "ACK") -> Counter[tuple[str, str]]:
    """Return how often each message was settled on the newest connection, by transaction."""
    return Counter((each.headers["id"], each.headers.get("transaction", "")) for each in broker.of_newest(command))


@pytest.mark.parametrize("confirm", ["yes", "no"])
@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_what_was_interrupted_is_settled_once(confirm: str, command: str) -> None:
    def settle(session: StompSession, deliveries: Sequence[Delivery]) -> None:
        if command == "ACK":
            session.acknowledge(deliveries)
        else:
            session.reject(deliveries[0], "no use")

    def attempt(interruption: Interruption) -> None:
        with FakeBroker() as broker, connected(broker, f"{QUICKLY}&confirm_acknowledge={confirm}") as connection:
            session = connection.open_session(transacted=False)
            deliveries = received(broker, session, 2 if command == "ACK" else 1)
            epoch = connection.link.current()
            with suppress(KeyboardInterrupt), interruption():
                settle(session, deliveries)
            settle(session, deliveries)
            connection.flush()
            if connection.link.current() is epoch:  # else they are the broker's again
                assert set(settled(broker, command).values()) == {1}, interruption.where
                assert len(settled(broker, command)) == len(deliveries), interruption.where

    assert each_interruption(attempt, *FILES) > 10


@pytest.mark.parametrize("confirm", ["yes", "no"])
@pytest.mark.parametrize("ends", ["acknowledge", "commit"])
def test_what_was_interrupted_is_counted_off_once(confirm: str, ends: str) -> None:
    """Else a consumer that is closed ends at the broker before the last of its messages is settled, which comes again."""

    def attempt(interruption: Interruption) -> None:
        with FakeBroker() as broker, connected(broker, f"{QUICKLY}&confirm_acknowledge={confirm}") as connection:
            session = connection.open_session(transacted=ends == "commit")
            deliveries = received(broker, session, 3)
            (consumer,) = session._subscriptions
            epoch = connection.link.current()
            if ends == "commit":
                session.acknowledge(deliveries[:2])
            for _ in range(2):
                with suppress(KeyboardInterrupt, RolledBackError, InDoubtError), interruption():
                    if ends == "commit":
                        session.commit()
                    else:
                        session.acknowledge(deliveries[:2])
            if connection.link.current() is epoch:
                assert consumer._unsettled == 1, interruption.where

    assert each_interruption(attempt, "clients/stomp/subscription.py", *FILES) > 10


def test_what_an_interrupted_recover_gave_back_is_given_back_once() -> None:
    def attempt(interruption: Interruption) -> None:
        with FakeBroker() as broker, connected(broker) as connection:
            session = connection.open_session(transacted=False)
            deliveries = received(broker, session, 2)
            (consumer,) = session._subscriptions
            with suppress(KeyboardInterrupt), interruption():
                session.recover(deliveries)
            session.recover(deliveries)
            assert [consumer.poll() is not None for _ in range(3)] == [True, True, False], interruption.where
            assert consumer._unsettled == 2, interruption.where

    assert each_interruption(attempt, "clients/stomp/subscription.py", *FILES) > 3


@pytest.mark.parametrize("waits", [False, True], ids=["connected again", "not yet"])
def test_what_was_said_when_the_interrupt_ended_the_connection_is_settled_again_and_not_delivered(
    *, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call returned, and the client got them again: also where it waited for the connection itself."""
    events, told, may_connect = Events(), Told(), Event()
    connect = Link._connect

    def connect_then(link: Link, endpoint: Endpoint) -> Epoch:
        assert may_connect.wait(PATIENCE_S)
        return connect(link, endpoint)

    with FakeBroker(unanswered={"ACK"}) as broker, connected(broker, events=events) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "7", "work")
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None

        def be_interrupted(*_: object) -> bool:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(connection.link.current().wire, "wait", be_interrupted)
            session.acknowledge([delivery])
        broker.wait_for("ACK")
        monkeypatch.setattr(Link, "_connect", connect_then)
        broker.cut()
        events.wait_for(1)
        if waits:
            second = Call(session.acknowledge, [delivery])
            assert second.is_blocked()
            may_connect.set()
            second.result()
        else:
            may_connect.set()
            connection.link.current()
            session.acknowledge([delivery])
        broker.unanswered.clear()
        broker.deliver(consumer.id, "7", "work", redelivered="true")
        broker.deliver(consumer.id, "8", "next")
        told.wait(3)
        again = consumer.poll()
        assert again is not None
        assert text_of(again) == "next"
        assert broker.wait_for("ACK", 2).headers["id"] == "7"


def test_what_is_received_again_after_an_interrupted_acknowledgement_is_not_settled_again() -> None:
    def attempt(interruption: Interruption) -> None:
        with FakeBroker() as broker, connected(broker) as connection:
            session = connection.open_session(transacted=False)
            deliveries = received(broker, session)
            epoch = connection.link.current()
            with suppress(KeyboardInterrupt), interruption():
                session.acknowledge(deliveries)
            session.recover(deliveries)
            session.acknowledge(deliveries)
            if connection.link.current() is epoch:
                assert set(settled(broker).values()) == {1}, interruption.where

    assert each_interruption(attempt, *FILES) > 10


def test_rabbitmq_is_not_given_back_what_it_was_told_is_acknowledged() -> None:
    def attempt(interruption: Interruption) -> None:
        with FakeBroker(server="RabbitMQ/3.10.8") as broker, connected(broker) as connection:
            session = connection.open_session(transacted=False)
            deliveries = received(broker, session)
            epoch = connection.link.current()
            with suppress(KeyboardInterrupt), interruption():
                session.acknowledge(deliveries)
            session.close()
            if connection.link.current() is epoch:
                both = [*broker.of("ACK"), *broker.of("NACK")]
                assert len(both) == len({each.headers["id"] for each in both}) == 2, interruption.where

    assert each_interruption(attempt, *FILES) > 10


def test_what_the_broker_answers_late_is_not_said_again() -> None:
    with FakeBroker(unanswered={"ACK"}) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        deliveries = received(broker, session)
        hasten(connection.link, timeout_ms=1)
        with pytest.raises(UnansweredError):
            session.acknowledge(deliveries)
        hasten(connection.link, timeout_ms=10_000)
        session.acknowledge(deliveries)
        assert set(settled(broker).values()) == {1}


def test_what_the_broker_refuses_may_be_said_again() -> None:
    with FakeBroker(refused={"ACK": "not now"}) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        deliveries = received(broker, session, 1)
        for _ in range(2):
            with pytest.raises(ProviderError, match="not now"):
                session.acknowledge(deliveries)
        assert settled(broker) == {("a0", ""): 2}


def test_what_a_refused_commit_acknowledged_is_said_again_in_the_next_transaction() -> None:
    with FakeBroker(refused={"COMMIT": "disk full"}) as broker, connected(broker) as connection:
        session, told = connection.open_session(transacted=True), Told()
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "a0")
        told.wait(1)
        delivery = consumer.poll()
        assert delivery is not None
        session.acknowledge([delivery])
        with pytest.raises(RolledBackError, match="disk full"):
            session.commit()
        session.rollback()
        session.recover([delivery])
        broker.refused.clear()
        again = consumer.poll()
        assert again is not None
        session.acknowledge([again])
        session.commit()
        assert [each for each, _ in settled(broker)] == ["a0", "a0"]
        consumer.close()
        connection.flush()
        assert len(broker.of("UNSUBSCRIBE")) == 1


def test_no_commit_follows_the_abort_of_a_session_that_is_closed_meanwhile() -> None:
    closing: list[Call[None]] = []

    def close(_: int, frame: Frame) -> None:
        if frame.command == "ABORT" and frame.headers["transaction"] == "flush" and not closing:
            closing.append(Call(session.close))
            closing[0].is_blocked()

    with FakeBroker(on_frame=close) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        with pytest.raises(ProviderError):
            session.commit()
        closing[0].result()
        assert broker.of("COMMIT") == []


def ends() -> dict[str, Callable[[StompSession], None]]:
    return {"commit": StompSession.commit, "rollback": StompSession.rollback}


@pytest.mark.parametrize("then", list(ends()))
@pytest.mark.parametrize("first", list(ends()))
def test_a_transaction_whose_end_was_interrupted_ends_once(first: str, then: str) -> None:
    """And all that was said in it is in it."""

    def attempt(interruption: Interruption) -> None:
        with FakeBroker() as broker, connected(broker) as connection:
            session = connection.open_session(transacted=True)
            deliveries = received(broker, session)
            session.send(make_envelope("reply"))
            is_acknowledged = False
            epoch = connection.link.current()
            with suppress(KeyboardInterrupt), interruption():
                session.acknowledge(deliveries)
                is_acknowledged = True
                ends()[first](session)
            is_rolled_back = False
            if first == then == "commit" and not is_acknowledged:
                session.acknowledge(deliveries)
            try:
                ends()[then](session)
            except (RolledBackError, InDoubtError):
                is_rolled_back = True
            if connection.link.current() is not epoch:
                return
            connection.flush()
            over = [name_of(each) for each in (*broker.of("COMMIT"), *broker.of("ABORT")) if name_of(each) != "flush"]
            used = {name_of(each) for each in (*broker.of("SEND"), *broker.of("ACK"))}
            assert sorted(over) == sorted(used), interruption.where
            assert set(settled(broker).values()) <= {1}, interruption.where
            if first == then == "commit":
                assert not is_rolled_back, interruption.where
                assert len(broker.of("COMMIT")) == 1, interruption.where
                assert len(broker.of("ACK")) == 2, interruption.where
            session.send(make_envelope("more"))
            session.commit()
            connection.flush()
            assert len(broker.of("SEND")) == 2, interruption.where

    assert each_interruption(attempt, *FILES) > 10


def name_of(frame: Frame) -> str:
    return frame.headers["transaction"]


def interrupt_commit(connection: StompConnection, session: StompSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a commit, and be interrupted while its answer is waited for."""
    epoch = connection.link.current()
    wait = epoch.wire.wait

    def interrupted(*arguments: object) -> bool:
        if session._transaction is None or not session._transaction.has_ended:
            return wait(*arguments)  # type: ignore[arg-type]
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(epoch.wire, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.commit()


def answer_commit(broker: FakeBroker, message: str | None = None) -> None:
    receipt = broker.wait_for("COMMIT").headers["receipt"]
    refusal = Frame("ERROR", {"receipt-id": receipt, "message": message or ""})
    broker.push(Frame("RECEIPT", {"receipt-id": receipt}) if message is None else refusal)


def test_a_commit_that_is_refused_after_its_interrupt_is_told_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeBroker(unanswered={"COMMIT"}) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        interrupt_commit(connection, session, monkeypatch)
        answer_commit(broker, "disk full")
        with pytest.raises(RolledBackError, match="disk full"):
            session.commit()
        assert len(broker.of("COMMIT")) == 1


def test_a_commit_in_doubt_is_told_by_the_next_one_if_the_telling_was_interrupted() -> None:
    """It returned, as if nothing had been open."""

    def attempt(interruption: Interruption) -> None:
        with FakeBroker(unanswered={"COMMIT"}) as broker, connected(broker) as connection:
            session = connection.open_session(transacted=True)
            session.send(make_envelope("a"))
            hasten(connection.link, timeout_ms=30)
            try:
                with suppress(InDoubtError, RolledBackError), interruption():
                    session.commit()
            except KeyboardInterrupt:
                with pytest.raises((InDoubtError, RolledBackError)):
                    session.commit()
                    pytest.fail(f"{interruption.where}: nobody was told")

    assert each_interruption(attempt, *FILES[:3]) > 10


def test_a_commit_that_the_broker_does_not_know_the_end_of_is_no_rollback() -> None:
    def answer(_: int, frame: Frame) -> None:
        if frame.command == "COMMIT":
            headers = {"receipt-id": frame.headers["receipt"], "code": "PYJMS-IN-DOUBT", "message": "the disk is away"}
            broker.push(Frame("ERROR", headers))

    with FakeBroker(unanswered={"COMMIT"}, on_frame=answer) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        with pytest.raises(InDoubtError, match="the disk is away"):
            session.commit()


def test_an_error_about_something_else_is_no_refusal_of_an_interrupted_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events()
    with FakeBroker(unanswered={"COMMIT"}) as broker, connected(broker, QUICKLY, events) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        interrupt_commit(connection, session, monkeypatch)
        broker.wait_for("COMMIT")
        broker.push(Frame("ERROR", {"receipt-id": "another", "message": "no such queue"}))
        events.wait_for(1)
        answer_commit(broker)
        session.commit()


def test_a_commit_that_was_not_answered_in_time_tells_its_refusal_to_the_connection() -> None:
    events = Events()
    with FakeBroker(unanswered={"COMMIT"}) as broker, connected(broker, QUICKLY, events) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("a"))
        broker.on_frame = lambda _, frame: hasten(connection.link, timeout_ms=1) if frame.command == "ABORT" else None
        with pytest.raises(InDoubtError):
            session.commit()
        hasten(connection.link, timeout_ms=10_000)
        assert connection.link.current()._answers == {}
        answer_commit(broker, "disk full")
        (error,) = events.wait_for(1)
        assert "disk full" in error.reason


@pytest.mark.parametrize("is_refused", [False, True], ids=["done", "refused"])
def test_who_sends_on_after_an_interrupted_commit_lets_go_of_what_it_settled(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Events()
    with FakeBroker(unanswered={"COMMIT"}) as broker, connected(broker, QUICKLY, events) as connection:
        session = connection.open_session(transacted=True)
        deliveries = received(broker, session)
        session.acknowledge(deliveries)
        interrupt_commit(connection, session, monkeypatch)
        answer_commit(broker, "disk full" if is_refused else None)
        connection.flush()  # by then that is here
        broker.unanswered.clear()
        session.send(make_envelope("more"))
        assert len(session._held) == (2 if is_refused else 0)
        assert [error.reason for error in events.errors] == ["the broker refused it: disk full"] * is_refused
        session.commit()
        assert len(broker.of("COMMIT")) == 2
        assert connection.link.current()._answers == {}


def test_a_question_whose_frame_was_not_written_is_not_waited_for() -> None:
    def attempt(interruption: Interruption) -> None:
        with FakeBroker() as broker, connected(broker) as connection:
            epoch = connection.link.current()
            question = Question(epoch, "commit")
            with suppress(KeyboardInterrupt), interruption():
                epoch.ask_once(question, Frame("BEGIN", {"transaction": "t"}))
            if not question.is_said:
                assert epoch._answers == {}, interruption.where

    assert each_interruption(attempt, "clients/stomp/wire.py", "clients/stomp/outbox.py") > 10
