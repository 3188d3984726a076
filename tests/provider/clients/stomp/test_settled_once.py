"""After a Ctrl-C at any place of an acknowledgement, or of the end of a transaction, it is said once, however often it is asked for."""

from __future__ import annotations

from collections import Counter

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import InDoubtError, ProviderError, RolledBackError
from pyjms_provider.clients.network.calls import UnansweredError
from pyjms_provider.clients.stomp.foreign.session import ForeignSession
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import FakeBroker
from tests.provider.clients.stomp.world import QUICKLY, Events, Told, connected, consume, hasten
from tests.provider.helpers import make_envelope
from tests.pyjms.runtime.helpers import Call


def received(broker: FakeBroker, session: ForeignSession, number: int = 2) -> list[Delivery]:
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


def answer_commit(broker: FakeBroker, message: str | None = None) -> None:
    receipt = broker.wait_for("COMMIT").headers["receipt"]
    refusal = Frame("ERROR", {"receipt-id": receipt, "message": message or ""})
    broker.push(Frame("RECEIPT", {"receipt-id": receipt}) if message is None else refusal)


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
