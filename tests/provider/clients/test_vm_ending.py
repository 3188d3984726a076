"""Sessions, connections and brokers of ``vm://`` that end, in every state and from any thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.spi.errors import (
    ClosedError,
    ConnectionLostError,
)
from pyjms_provider.clients.vm import VmConnection, VmConsumer, VmSession
from pyjms_provider.core.host.message_mover import OnExpired
from pyjms_provider.core.message.message_state import MessageState
from tests.provider.clients.world import World, consume, drain, news, poll
from tests.provider.helpers import NEWS, ORDERS, RecordedEvents, make_envelope, text_of

PATIENCE_S = 30.0

# CloseOnce


def calls_on(connection: VmConnection, session: VmSession, delivery: Delivery) -> list[object]:
    return [
        connection.start,
        connection.stop,
        lambda: connection.set_client_id("x"),
        lambda: connection.open_session(transacted=False),
        lambda: connection.create_temporary(AddressKind.QUEUE),
        lambda: connection.delete_temporary(ORDERS),
        *session_calls(session, delivery),
    ]


def session_calls(session: VmSession, delivery: Delivery) -> list[object]:
    return [
        lambda: session.send(make_envelope()),
        lambda: consume(session),
        lambda: session.acknowledge([delivery]),
        lambda: session.recover([delivery]),
        lambda: session.reject(delivery, "late"),
        lambda: session.adopt([delivery]),
        session.commit,
        session.rollback,
        lambda: session.browse(ORDERS, None),
        lambda: session.unsubscribe("all"),
    ]


@pytest.mark.realises("BOIL-CONN-15", "BOIL-SESS-7")
@pytest.mark.parametrize("transacted", [True, False])
@pytest.mark.parametrize("how", ["session", "connection", "broker"])
def test_whatever_is_closed_says_so(world: World, how: str, transacted: bool) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=transacted)
    consumer = consume(session)
    connection.open_session(transacted=False).send(make_envelope("a"))
    delivery = poll(consumer)
    if how == "session":
        session.close()
        calls = session_calls(session, delivery)
    else:
        connection.close() if how == "connection" else world.stop()
        calls = calls_on(connection, session, delivery)
    for call in calls:
        assert callable(call)
        with pytest.raises(ClosedError):
            call()
    assert consumer.poll() is None
    consumer.set_interested(True)
    for end in (consumer, session, connection):
        end.close()
        end.close()


def test_a_stopped_broker_tells_each_connection_once(world: World) -> None:
    first, second, third = RecordedEvents(), RecordedEvents(), RecordedEvents()
    world.connect(events=first)
    world.connect(events=second)
    world.connect(events=third).close()
    world.stop()
    world.stop()
    assert [type(error) for error in first.errors + second.errors] == [ConnectionLostError] * 2
    assert not third.errors


def test_a_non_durable_subscription_may_end_with_messages_unsettled(world: World) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=False)
    consumer = consume(session, NEWS)
    for text in "abc":
        session.send(news(text))
    first, second = poll(consumer), poll(consumer)
    consumer.close()
    assert len(connection.broker.virtual_host.store) == 2, "c went with the subscription"
    session.acknowledge([first])
    session.recover([second])
    assert len(connection.broker.virtual_host.store) == 0


def test_sessions_end_in_any_state(world: World) -> None:
    """Unsettled, settled in an open transaction, adopted, with a closed consumer, with a deleted subscription."""
    connection = world.connect(client_id="shop")
    for transacted in [True, False]:
        session = connection.open_session(transacted=transacted)
        sender = connection.open_session(transacted=False)
        for text in "abcd":
            sender.send(make_envelope(text))
        sender.send(news("e"))
        consumer, subscriber = consume(session), consume(session, NEWS)
        sender.send(news("f"))
        session.acknowledge([poll(consumer)])
        kept = poll(consumer)
        poll(subscriber)
        consumer.close()
        other = connection.open_session(transacted=not transacted)
        other.adopt([kept])
        session.close()
        other.close()
        rest = connection.open_session(transacted=False)
        assert drain(rest, consume(rest)) == (list("abcd") if transacted else list("bcd"))
        assert len(connection.broker.virtual_host.store) == 0


def test_closing_from_another_thread_loses_nothing(world: World) -> None:
    """Sessions that poll are closed at any moment: what they did not settle comes back, once."""
    sender = world.connect().open_session(transacted=False)
    total = 300
    for number in range(total):
        sender.send(make_envelope(str(number)))
    settled: list[str] = []
    for _ in range(30):
        connection = world.connect()
        session = connection.open_session(transacted=False)
        consumer = consume(session)
        thread = Thread(target=_poll_until_closed, args=(session, consumer, settled))
        thread.start()
        while len(settled) < 1 and thread.is_alive():
            pass
        connection.close()
        thread.join()
    connection = world.connect()
    last = connection.open_session(transacted=False)
    settled += drain(last, consume(last))
    assert sorted(settled, key=int) == [str(number) for number in range(total)]
    assert connection.broker.virtual_host.queue("orders").count(MessageState.DELIVERED) == 0


def _poll_until_closed(session: VmSession, consumer: VmConsumer, settled: list[str]) -> None:
    try:
        while (delivery := consumer.poll()) is not None:
            session.acknowledge([delivery])
            settled.append(text_of(delivery))
    except ClosedError:
        return


@pytest.mark.parametrize("how", ["session", "connection", "broker"])
def test_a_second_close_waits_for_what_the_first_one_gives_back(
    world: World, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=False)
    begun, go_on = Event(), Event()
    order: list[str] = []
    shut_down = VmSession._shut_down

    def slowly(ending: VmSession) -> None:
        begun.set()
        assert go_on.wait(10)
        shut_down(ending)
        order.append("given back")

    def close() -> None:
        {"session": session.close, "connection": connection.close, "broker": world.stop}[how]()
        order.append("closed")

    monkeypatch.setattr(VmSession, "_shut_down", slowly)
    first = Thread(target=session.close if how == "session" else connection.close)
    first.start()
    assert begun.wait(10)
    second = Thread(target=close)
    second.start()
    second.join(0.05)
    go_on.set()
    first.join(10)
    second.join(10)
    assert order == ["given back", "closed"]


def test_an_end_that_fails_lets_others_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(ending: VmSession) -> None:
        raise ClosedError("on purpose")

    session = world.connect().open_session(transacted=False)
    monkeypatch.setattr(VmSession, "_shut_down", fail)
    with pytest.raises(ClosedError):
        session.close()
    session.close()
    others = [Thread(target=session.close) for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join(10)
        assert not other.is_alive()


def test_a_temporary_destination_that_is_made_while_its_connection_closes_goes_with_it(world: World) -> None:
    connection = world.connect()
    temporaries = connection.broker.virtual_host.temporaries
    create = temporaries.create
    closing = Thread(target=connection.close)

    def create_late(kind: AddressKind, owner: ConnectionId) -> Address:
        is_kept_open = connection._lock.locked()
        closing.start()
        if not is_kept_open:
            closing.join(PATIENCE_S)
        return create(kind, owner)

    temporaries.create = create_late  # type: ignore[method-assign]
    address = connection.create_temporary(AddressKind.QUEUE)
    closing.join(PATIENCE_S)
    assert temporaries.owner_of(address) is None


def test_a_broker_that_stops_ends_a_connection_that_is_just_being_made(world: World) -> None:
    broker = world.connect().broker
    attach, events = broker.attach, RecordedEvents()
    stopping = Thread(target=broker.stop)

    def attach_late(
        lose: Callable[[ConnectionLostError], None], handle: VmConnection, on_expired: OnExpired | None
    ) -> ConnectionId:
        connection_id = attach(lose, handle, on_expired)
        stopping.start()
        if not handle._lock.locked():
            stopping.join(PATIENCE_S)
        return connection_id

    broker.attach = attach_late  # type: ignore[method-assign, assignment]
    connection = VmConnection(broker, events)
    stopping.join(PATIENCE_S)
    assert not stopping.is_alive()
    assert len(events.errors) == 1
    with pytest.raises(ClosedError):
        connection.open_session(transacted=False)
    assert not broker.clients()
