"""Messages come as soon as their consumer is restored, though others still are: they are settled where they came.

What is not settled there the broker holds as delivered, for as long as the new connection lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from pyjms.spi.delivery import Delivery
from pyjms_provider.clients.network.failover import FailoverState
from pyjms_provider.clients.stomp.foreign.connection import ForeignConnection
from pyjms_provider.clients.stomp.foreign.session import ForeignSession, Subscription
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from pyjms_provider.clients.stomp.native.consumer import NativeConsumer
from pyjms_provider.clients.stomp.native.session import NativeSession
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.native.peer import Peer, consumer_of, linked
from tests.provider.clients.stomp.world import QUICKLY, Events, Told, connected, consume
from tests.provider.cost import is_kept
from tests.provider.helpers import make_envelope, text_of


def answer(broker: FakeBroker, frame: Frame) -> None:
    broker.push(Frame("RECEIPT", {"receipt-id": frame.headers["receipt"]}))


def found(delivery: Delivery | None) -> Delivery:
    assert delivery is not None
    return delivery


# The pyjms broker


@contextmanager
def half_restored(peer: Peer, connection: NativeConnection) -> Iterator[None]:
    """Lose the connection; in the block all consumers have credit on the next one, which has not been started."""
    peer.unanswered.add("START")
    peer.cut()
    started = peer.wait_for("START", 2)
    assert connection.state == FailoverState.RECONNECTING.value
    yield
    assert connection.state == FailoverState.RECONNECTING.value
    answer(peer, started)
    assert connection.link.current().number == 2


SETTLED: dict[str, Callable[[NativeSession, Delivery], None]] = {
    "ACK": lambda session, delivery: session.acknowledge([delivery]),
    "RETURN": lambda session, delivery: session.recover([delivery]),
    "RETRY": lambda session, delivery: session.retry(delivery, "x"),
    "REJECT": lambda session, delivery: session.reject(delivery, "x"),
}


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("command", SETTLED)
def test_a_message_that_comes_while_all_is_restored_is_settled(command: str, persistent: bool) -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        with half_restored(peer, connection):
            peer.deliver_to(consumer, 7, make_envelope("x", persistent=persistent))
            told.wait()
            SETTLED[command](session, found(consumer.poll()))
            assert peer.wait_for(command).headers["ids"] in {"7", "7-7"}


def test_what_was_read_ahead_then_goes_back_unseen() -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        with half_restored(peer, connection):
            peer.deliver_to(consumer, 7)
            told.wait()
            session.give_back_unseen([found(consumer.poll())])
            returned = peer.wait_for("RETURN").headers
            assert (returned["ids"], returned["unseen"]) == ("7", "true")


def test_a_transaction_with_a_message_that_comes_while_all_is_restored_is_committed() -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        consumer = consumer_of(session, told)
        with half_restored(peer, connection):
            peer.deliver_to(consumer, 7)
            told.wait()
            session.acknowledge([found(consumer.poll())])
            session.commit()
            assert [frame.command for _, frame in peer.frames if frame.command in {"ACK", "COMMIT"}] == [
                "ACK",
                "COMMIT",
            ]


def test_a_session_adopts_such_a_message_when_the_broker_knows_it_again() -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session, other = (connection.open_session(transacted=False) for _ in range(2))
        consumer = consumer_of(session, told)

        def hold_up(number: int, frame: Frame) -> None:
            if (number, frame.command) == (1, "SUBSCRIBE"):
                peer.unanswered.add("SESSION")

        peer.before_answer = hold_up
        peer.cut()
        opened = peer.wait_for("SESSION", 4)
        peer.deliver_to(consumer, 7)
        told.wait()
        delivery = found(consumer.poll())
        adopting = Thread(target=lambda: other.adopt([delivery]))
        adopting.start()
        answer(peer, opened)
        adopting.join(PATIENCE_S)
        commands = [frame.command for _, frame in peer.frames]
        assert commands.index("ADOPT") > max(at for at, command in enumerate(commands) if command == "START")
        other.acknowledge([delivery])
        assert peer.wait_for("ACK").headers["session"] == other.name


def test_waits_at_the_broker_are_ended_while_all_is_restored() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        with half_restored(peer, connection):
            session.end_waits()
            assert peer.wait_for("INTERRUPT").headers["session"] == session.name


def test_who_makes_something_on_a_connection_that_was_lost_does_not_undo_that_it_is_on_the_next() -> None:
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer: NativeConsumer = consumer_of(session, told)
        lost = connection.link.current()
        peer.cut()
        peer.wait_for("START", 2)
        healed = connection.link.current()
        peer.deliver_to(consumer, 7)
        told.wait()
        session.enter(lost)  # as by a thread whose SESSION or SUBSCRIBE was answered before the loss
        consumer.begin(lost)
        assert session.physical is healed
        assert consumer.is_in(healed)
        assert text_of(consumer.poll()) == "m7"


# Other brokers


class Half:
    """Two consumers, of which the second waits for the answer to its SUBSCRIBE on the connection of `number`."""

    def __init__(self, broker: FakeBroker, connection: ForeignConnection, *, transacted: bool = False) -> None:
        self.broker = broker
        self.connection = connection
        self.told = Told()
        self.session: ForeignSession = connection.open_session(transacted=transacted)
        self.consumer: Subscription = consume(self.session, told=self.told)
        other = consume(connection.open_session(transacted=False))
        broker.on_frame = self._hold_up
        broker.cut()
        self._asked = broker.wait_for("SUBSCRIBE", 4)
        assert self._asked.headers["id"] == other.id
        assert connection.state == FailoverState.RECONNECTING.value

    def _hold_up(self, number: int, frame: Frame) -> None:
        if (number, frame.command) == (1, "SUBSCRIBE"):
            held_up = frame.headers["id"] != self.consumer.id
            (self.broker.unanswered.add if held_up else self.broker.unanswered.discard)("SUBSCRIBE")

    def received(self) -> Delivery:
        self.broker.deliver(self.consumer.id, "7", "x")
        self.told.wait()
        return found(self.consumer.poll())

    def go_on(self) -> None:
        assert self.connection.state == FailoverState.RECONNECTING.value
        answer(self.broker, self._asked)
        self.connection.link.current()

    def do(self, act: Callable[[], None]) -> None:
        """Do something that waits until all is restored."""
        thread = Thread(target=act)
        thread.start()
        self.go_on()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


def test_at_other_brokers_a_message_that_comes_while_all_is_restored_is_acknowledged(broker: FakeBroker) -> None:
    with connected(broker) as connection:
        half = Half(broker, connection)
        delivery = half.received()
        half.do(lambda: half.session.acknowledge([delivery]))
        assert broker.wait_for("ACK").headers["id"] == "7"


def test_at_other_brokers_one_that_is_recovered_comes_again(broker: FakeBroker) -> None:
    with connected(broker) as connection:
        half = Half(broker, connection)
        half.session.recover([half.received()])
        again = found(half.consumer.poll())
        assert (again.count, again.redelivered) == (2, True)
        half.go_on()


def test_at_other_brokers_a_consumer_that_closes_while_all_is_restored_ends_there_too(broker: FakeBroker) -> None:
    with connected(broker) as connection:
        half = Half(broker, connection)
        half.consumer.close()
        assert broker.wait_for("UNSUBSCRIBE").headers["id"] == half.consumer.id
        half.go_on()


def test_at_other_brokers_a_client_that_holds_all_is_pushed_more_while_all_is_restored(broker: FakeBroker) -> None:
    with connected(broker, f"{QUICKLY}&prefetch_messages=1") as connection:
        half = Half(broker, connection)
        half.received()
        assert half.consumer.poll() is None
        assert broker.wait_for("SUBSCRIBE", 5).headers["id"].startswith(f"{half.consumer.id}.")
        half.go_on()


def test_at_other_brokers_what_came_by_a_connection_that_was_never_restored_is_not_kept(broker: FakeBroker) -> None:
    with connected(broker) as connection:
        half = Half(broker, connection)
        half.session.recover([half.received()])
        broker.unanswered.clear()
        broker.cut()
        broker.wait_for("SUBSCRIBE", 6)
        assert connection.link.current().number == 3
        assert half.consumer.poll() is None


@pytest.mark.parametrize("reason", ["User x is not authorized to read", "Invalid destination"])
def test_at_other_brokers_a_consumer_that_is_refused_does_not_keep_the_others_from_healing(
    broker: FakeBroker, reason: str
) -> None:
    events, told = Events(), Told()
    with connected(broker, events=events) as connection:
        session = connection.open_session(transacted=False)
        refused, other = consume(session), consume(session, told=told)

        def refuse(number: int, frame: Frame) -> None:
            is_meant = frame.command == "SUBSCRIBE" and frame.headers["id"] == refused.id
            broker.refused = {"SUBSCRIBE": reason} if is_meant else {}

        broker.on_frame = refuse
        broker.cut()
        _, told_of = events.wait_for(2)
        assert "could not be made anew" in told_of.reason
        assert reason in told_of.reason
        assert connection.link.current().number == 2
        broker.deliver(other.id, "7", "x")
        told.wait()
        assert text_of(other.poll()) == "x"
        refused.close()
        assert broker.of("UNSUBSCRIBE") == []


# Consumers that are closed while they are made anew


def said_of(consumer: Subscription, broker: FakeBroker) -> list[str]:
    """Return what came on the newest connection that names the consumer, in order."""
    newest = broker.connection_count - 1
    named = [
        frame for number, frame in list(broker.frames) if number == newest and frame.headers.get("id") == consumer.id
    ]
    return [frame.command for frame in named]


@pytest.mark.parametrize("server", ["ActiveMQ/5.17.2", "RabbitMQ/3.10.8"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_consumer_that_is_closed_before_it_is_made_anew_is_not_there(
    monkeypatch: pytest.MonkeyPatch, moment: str, server: str
) -> None:
    with FakeBroker(server=server) as broker, connected(broker) as connection:
        consumer = consume(connection.open_session(transacted=False))
        begin = consumer.begin_physical

        def close_meanwhile(number: int) -> bool:
            if moment == "before":
                consumer.close()
            begun = begin(number)
            if moment == "after":
                consumer.close()
            return begun

        monkeypatch.setattr(consumer, "begin_physical", close_meanwhile)
        broker.cut()
        broker.wait_for("CONNECT", 2)
        connection.link.current()
        connection.flush()
        assert said_of(consumer, broker) == ([] if moment == "before" else ["SUBSCRIBE", "UNSUBSCRIBE"])
        assert not is_kept(connection, consumer)


@pytest.mark.parametrize("server", ["ActiveMQ/5.17.2", "RabbitMQ/3.10.8"])
def test_a_consumer_that_is_closed_while_it_is_made_anew_does_not_stay(server: str) -> None:
    with FakeBroker(server=server) as broker, connected(broker) as connection:
        consumer = consume(connection.open_session(transacted=False))

        def close(number: int, frame: Frame) -> None:
            if number == 1 and frame.command == "SUBSCRIBE" and frame.headers["id"] == consumer.id:
                consumer.close()
                broker.deliver(consumer.id, "a1")

        broker.on_frame = close
        broker.cut()
        broker.wait_for("CONNECT", 2)
        connection.link.current()
        connection.flush()
        assert said_of(consumer, broker) == ["SUBSCRIBE", "UNSUBSCRIBE"]
        if server.startswith("RabbitMQ"):  # which does not take back by itself what it pushed
            assert broker.wait_for("NACK").headers["id"].endswith("a1")
        assert not is_kept(connection, consumer)


def test_a_consumer_that_is_refused_and_closed_while_it_is_made_anew_is_forgotten() -> None:
    with FakeBroker() as broker, connected(broker) as connection:
        consumer = consume(connection.open_session(transacted=False))

        def close(number: int, frame: Frame) -> None:
            if number == 1 and frame.command == "SUBSCRIBE" and frame.headers["id"] == consumer.id:
                consumer.close()
                receipt = frame.headers.pop("receipt")
                headers = {"receipt-id": receipt, "message": "User is not authorized to read from: queue://orders"}
                broker.push(Frame("ERROR", headers))

        broker.on_frame = close
        broker.cut()
        broker.wait_for("CONNECT", 2)
        connection.link.current()
        assert not is_kept(connection, consumer)


def test_a_session_that_is_closed_while_its_consumers_are_made_anew_does_not_cost_the_connection() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer_of(session)

        def close(number: int, frame: Frame) -> None:
            if number == 1 and frame.command == "SUBSCRIBE":
                session._closed = True  # by a call on another thread, whose CLOSE came before this SUBSCRIBE
                receipt = frame.headers.pop("receipt")
                peer.push(Frame("ERROR", {"receipt-id": receipt, "code": "PYJMS-CLOSED", "message": "no session"}))

        peer.before_answer = close
        peer.cut()
        peer.wait_for("START", 2)
        assert connection.link.current().number == 2
