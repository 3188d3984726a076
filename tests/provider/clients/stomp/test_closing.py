"""What is closed at other brokers ends, whatever the broker says to it, and whether it says anything."""

from __future__ import annotations

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import AccessDeniedError, ProviderError, ResourceError
from pyjms_provider.clients.stomp.foreign.session import ForeignSession, Subscription
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.world import ORDERS, QUICKLY, Told, connect, connected, consume, hasten
from tests.provider.cost import kept
from tests.provider.helpers import make_envelope

CLASSIC, RABBITMQ = "ActiveMQ/5.17.2", "RabbitMQ/3.10.8"
GONE = {"UNSUBSCRIBE": "No subscription matched."}
"""What ActiveMQ says of a consumer that it has ended by itself, as it does to slow ones."""


def received(broker: FakeBroker, session: ForeignSession) -> Delivery:
    told = Told()
    consumer = consume(session, told=told)
    broker.deliver(consumer.id, "T_s2@@x@@1")
    told.wait()
    delivery = consumer.poll()
    assert delivery is not None
    return delivery


def test_a_connection_closes_though_a_consumer_cannot_be_ended(caplog: pytest.LogCaptureFixture) -> None:
    with FakeBroker(refused=GONE) as broker:
        connection = connect(f"{broker.url}?{QUICKLY}")
        consumers = [consume(connection.open_session(transacted=False)) for _ in range(2)]
        connection.close()
        assert connection.state == "closed"
        assert [frame.headers["id"] for frame in broker.of("UNSUBSCRIBE")] == [each.id for each in consumers]
        assert len(broker.of("DISCONNECT")) == 1
    assert "No subscription matched" in caplog.text


def test_what_is_settled_is_settled_though_its_consumer_cannot_be_ended(caplog: pytest.LogCaptureFixture) -> None:
    with FakeBroker(refused=GONE) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        delivery = received(broker, session)
        held = delivery.tag
        held.subscription.close()  # type: ignore[attr-defined]
        session.acknowledge([delivery])
        broker.wait_for("UNSUBSCRIBE")
    assert "No subscription matched" in caplog.text


def test_a_browser_tells_why_it_was_refused_and_not_that_it_could_not_be_ended() -> None:
    refused = {"SUBSCRIBE": "User x is not authorized to read", **GONE}
    with FakeBroker(refused=refused) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        with pytest.raises(AccessDeniedError, match="not authorized"):
            next(session.browse(ORDERS, None))


@pytest.mark.parametrize("server", [CLASSIC, RABBITMQ])
def test_sessions_with_transactions_or_messages_wait_once_for_a_broker_that_stands_still(
    monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    waited: list[str] = []
    ask = PhysicalConnection.request

    def note(physical: PhysicalConnection, *frames: Frame, **options: object) -> Frame:
        waited.append(frames[-1].command)
        return ask(physical, *frames, **options)  # type: ignore[arg-type]

    with FakeBroker(server) as broker:
        connection = connect(f"{broker.url}?{QUICKLY}&transactions=best-effort")
        for _ in range(3):
            connection.open_session(transacted=True).send(make_envelope("x"))
            received(broker, connection.open_session(transacted=False))
        broker.unanswered |= {"ABORT", "UNSUBSCRIBE", "NACK", "DISCONNECT"}
        hasten(connection.link, timeout_ms=50, connect_timeout_ms=int(PATIENCE_S * 1000))
        monkeypatch.setattr(PhysicalConnection, "request", note)
        connection.close()
        assert waited == ["ABORT"]
        broker.wait_for("ABORT", 3)
        if server == RABBITMQ:
            broker.wait_for("NACK", 3)


def test_a_commit_that_a_silent_broker_does_not_answer_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    ask = PhysicalConnection.request

    def note(physical: PhysicalConnection, *frames: Frame, **options: object) -> Frame:
        waited.append(frames[-1].command)
        return ask(physical, *frames, **options)  # type: ignore[arg-type]

    with FakeBroker() as broker, connected(broker) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("x"))
        broker.unanswered |= {"ABORT"}
        hasten(connection.link, timeout_ms=50)
        monkeypatch.setattr(PhysicalConnection, "request", note)
        with pytest.raises(ProviderError, match="rolled back"):
            session.commit()
        assert waited == ["ABORT"], "of the flush"


@pytest.mark.parametrize("server", [CLASSIC, RABBITMQ])
def test_a_consumer_whose_making_is_answered_too_late_is_ended_and_what_it_got_goes_back(server: str) -> None:
    with FakeBroker(server) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        broker.unanswered |= {"SUBSCRIBE", "UNSUBSCRIBE"}
        hasten(connection.link, timeout_ms=50)
        with pytest.raises(ResourceError, match="not answered SUBSCRIBE for 50 ms"):
            consume(session)
        hasten(connection.link, timeout_ms=int(PATIENCE_S * 1000))
        ended = broker.wait_for("UNSUBSCRIBE")
        assert ended.headers["id"] == broker.of("SUBSCRIBE")[-1].headers["id"]
        broker.deliver(ended.headers["id"], "T_s2@@x@@1")
        broker.push(Frame("RECEIPT", {"receipt-id": ended.headers["receipt"]}))
        if server == RABBITMQ:
            assert broker.wait_for("NACK").headers["id"] == "T_janitor@@x@@1"
        broker.unanswered.clear()
        connection.flush()
        assert not kept(connection, Subscription)
