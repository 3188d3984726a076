"""Connections: credentials, client identifier, start and stop, meta data (JMS 1.1 §4.3)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from sys import getrefcount
from threading import Barrier, Event

import pytest

from pyjms import (
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    JMSSecurityException,
    Message,
    ResourceAllocationException,
    Session,
)
from pyjms.messages.destinations import JmsQueue
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ConnectionLostError, ProviderError
from pyjms.testing import Fault, Faults
from pyjms_provider.clients.vm import VmConnection
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    PATIENCE_S,
    Call,
    Recorder,
    drain,
    eventually,
    holding,
    send_texts,
    take,
    take_texts,
    text_of,
    within_patience,
)
from tests.pyjms.runtime.wrapping import Wrapped, raising


class TestCredentials:
    @pytest.mark.realises("BOIL-CONN-1", "BOIL-EXC-3")
    def test_they_are_refused_when_the_connection_is_made(
        self, jms_faults: Faults, jms_connection_factory: ConnectionFactory
    ) -> None:
        jms_faults.inject(Fault.LOGIN_REFUSED)
        with pytest.raises(JMSSecurityException):
            jms_connection_factory.create_connection("nobody", "wrong")
        jms_connection_factory.create_connection("somebody", "right").close()

    @pytest.mark.realises("BOIL-CONN-1", "BOIL-EXC-11")
    def test_a_broker_that_cannot_be_reached_is_a_lack_of_resources(
        self, jms_faults: Faults, jms_connection_factory: ConnectionFactory
    ) -> None:
        jms_faults.inject(Fault.CONNECT_REFUSED)
        with pytest.raises(ResourceAllocationException):
            jms_connection_factory.create_connection()

    @pytest.mark.realises("BOIL-CONN-1")
    @pytest.mark.parametrize(
        ("configured", "given", "expected"),
        [
            ({}, (), (None, None)),
            ({"user_name": "shop", "password": "secret"}, (), ("shop", "secret")),
            ({"user_name": "shop", "password": "secret"}, ("till", "other"), ("till", "other")),
            ({}, ("till", "other"), ("till", "other")),
            ({"user_name": "shop", "password": "secret"}, ("till",), ("till", None)),
        ],
    )
    @pytest.mark.parametrize("method", ["create_connection", "create_queue_connection", "create_topic_connection"])
    def test_the_call_goes_before_the_factory(
        self,
        wrapped: Wrapped,
        method: str,
        configured: dict[str, str],
        given: tuple[str, ...],
        expected: tuple[str | None, str | None],
    ) -> None:
        getattr(ConnectionFactory(wrapped.url, **configured), method)(*given).close()
        (request,) = wrapped.requests
        assert (request.user_name, request.password) == expected

    def test_a_password_is_not_shown(self, wrapped: Wrapped) -> None:
        factory = ConnectionFactory(wrapped.url, user_name="shop", password="hunter2")
        factory.create_connection().close()
        assert "hunter2" not in repr(wrapped.requests[0]) + repr(factory)


class TestClientId:
    @pytest.mark.realises("BOIL-CONN-4")
    def test_it_is_none_at_first(self, connect: Connect) -> None:
        connection = connect(started=False)
        assert connection.client_id is None
        connection.client_id = "shop"
        assert connection.getClientID() == "shop"

    @pytest.mark.realises("BOIL-CONN-3", "BOIL-CONN-4")
    def test_one_from_the_factory_stays(self, jms_broker_url: str) -> None:
        with ConnectionFactory(jms_broker_url, client_id="shop").create_connection() as connection:
            assert connection.client_id == "shop"
            with pytest.raises(IllegalStateException):
                connection.client_id = "other"
            with pytest.raises(IllegalStateException):
                connection.setClientID("shop")
            assert connection.client_id == "shop"

    @pytest.mark.realises("BOIL-CONN-4")
    def test_it_is_set_once(self, connect: Connect) -> None:
        connection = connect("shop", started=False)
        for again in ("shop", "other"):
            with pytest.raises(IllegalStateException):
                connection.client_id = again
        assert connection.client_id == "shop"

    @pytest.mark.realises("BOIL-CONN-4")
    @pytest.mark.parametrize(
        "action",
        [
            lambda connection: connection.start(),
            lambda connection: connection.stop(),
            lambda connection: connection.create_session(),
            lambda connection: connection.create_session().close(),
            lambda connection: setattr(connection, "exception_listener", None),
        ],
        ids=["start", "stop", "create_session", "closed_session", "exception_listener"],
    )
    def test_it_comes_before_any_other_action(
        self, connect: Connect, action: Callable[[JmsConnection], object]
    ) -> None:
        connection = connect(started=False)
        action(connection)
        with pytest.raises(IllegalStateException):
            connection.client_id = "shop"
        assert connection.client_id is None

    @pytest.mark.realises("BOIL-CONN-4")
    def test_looking_is_no_action(self, connect: Connect) -> None:
        connection = connect(started=False)
        assert connection.client_id is None
        assert connection.meta_data.jms_version == "2.0"
        assert connection.exception_listener is None
        connection.client_id = "shop"
        assert connection.client_id == "shop"

    @pytest.mark.realises("BOIL-EXC-4")
    def test_two_connections_cannot_share_one(self, connect: Connect, jms_broker_url: str) -> None:
        connect("shop", started=False)
        second = connect(started=False)
        with pytest.raises(InvalidClientIDException):
            second.client_id = "shop"
        with pytest.raises(InvalidClientIDException):
            ConnectionFactory(jms_broker_url, client_id="shop").create_connection()
        assert second.client_id is None

    @pytest.mark.realises("BOIL-EXC-4")
    def test_after_a_refusal_another_one_may_be_set(self, connect: Connect) -> None:
        connect("shop", started=False)
        second = connect(started=False)
        with pytest.raises(InvalidClientIDException):
            second.client_id = "shop"
        second.client_id = "till"
        assert second.client_id == "till"

    def test_a_loss_is_heard_while_it_is_set(self, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
        connection = connect(started=False)

        def lose(provider: VmConnection, client_id: str) -> None:
            Call(lambda: connection.on_exception(ConnectionLostError(f"lost as {client_id}"))).result()
            raise ConnectionLostError("lost")

        monkeypatch.setattr(VmConnection, "set_client_id", lose)
        with pytest.raises(JMSException):
            connection.client_id = "shop"
        assert connection.client_id is None

    def test_it_is_free_again_when_the_connection_closes(self, connect: Connect) -> None:
        connect("shop").close()
        assert connect("shop").client_id == "shop"

    def test_two_brokers_do_not_share_identifiers(self, connect: Connect, jms_broker_url: str) -> None:
        connect("shop")
        with ConnectionFactory(f"{jms_broker_url}-other", client_id="shop").create_connection() as other:
            assert other.client_id == "shop"

    @pytest.mark.realises("BOIL-EXC-4")
    @pytest.mark.parametrize("wrong", ["", None, 7, b"shop"])
    def test_what_is_none_is_refused(self, connect: Connect, wrong: object) -> None:
        connection = connect(started=False)
        with pytest.raises(InvalidClientIDException):
            connection.client_id = wrong  # type: ignore[assignment]
        connection.client_id = "shop"
        assert connection.client_id == "shop"

    @pytest.mark.realises("BOIL-CONC-1", "BOIL-EXC-4")
    def test_of_many_that_want_one_at_once_one_gets_it(self, connect: Connect) -> None:
        connections = [connect(started=False) for _ in range(8)]
        together = Barrier(len(connections), timeout=PATIENCE_S)

        def claim(connection: JmsConnection) -> bool:
            together.wait()
            try:
                connection.client_id = "shop"
            except InvalidClientIDException:
                return False
            return True

        calls = [Call(claim, connection) for connection in connections]
        assert sum(call.result() for call in calls) == 1
        assert sorted(str(connection.client_id) for connection in connections) == ["None"] * 7 + ["shop"]


class TestStartAndStop:
    @pytest.mark.realises("BOIL-CONN-5", "BOIL-PROD-7")
    def test_nothing_is_delivered_before_the_start(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session()
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        send_texts(session, queue, "espresso")
        assert consumer.receive_no_wait() is None
        connection.start()
        assert text_of(take(consumer)) == "espresso"

    @pytest.mark.realises("BOIL-CONN-5")
    def test_no_listener_is_called_before_the_start(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session()
        queue, recorder = session.create_queue("orders"), Recorder()
        session.create_consumer(queue).message_listener = recorder
        send_texts(connect().create_session(), queue, "espresso")
        assert recorder.texts == []
        connection.start()
        assert recorder.wait_for(1) == ["espresso"]

    @pytest.mark.realises("BOIL-CONN-6", "BOIL-PROD-7")
    def test_a_stopped_connection_sends_but_does_not_deliver(self, connect: Connect) -> None:
        connection, other = connect(), connect()
        session = connection.create_session()
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        connection.stop()
        send_texts(session, queue, "espresso")
        assert consumer.receive_no_wait() is None
        assert text_of(take(other.create_session().create_consumer(queue))) == "espresso"
        send_texts(session, queue, "latte")
        connection.start()
        assert text_of(take(consumer)) == "latte"

    @pytest.mark.realises("BOIL-CONN-6")
    def test_listeners_get_nothing_while_stopped(self, connect: Connect) -> None:
        connection, recorder = connect(started=False), Recorder()
        session = connection.create_session()
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = recorder
        connection.start()
        sending = connect().create_session()
        send_texts(sending, queue, "one")
        recorder.wait_for(1)
        connection.stop()
        send_texts(sending, queue, "two", "three")
        assert recorder.texts == ["one"]
        connection.start()
        assert recorder.wait_for(3) == ["one", "two", "three"]

    @pytest.mark.realises("BOIL-CONN-7")
    def test_twice_is_once(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session()
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        connection.stop()
        connection.stop()
        connection.start()
        connection.start()
        send_texts(session, queue, "one", "two")
        assert text_of(take(consumer)) == "one"
        connection.stop()
        connection.stop()
        assert consumer.receive_no_wait() is None
        connection.start()
        assert text_of(take(consumer)) == "two"

    @pytest.mark.realises("BOIL-CONN-5")
    def test_a_session_made_after_the_start_delivers(self, connect: Connect) -> None:
        connection = connect()
        session = connection.create_session()
        queue = session.create_queue("orders")
        send_texts(session, queue, "espresso")
        assert text_of(take(connection.create_session().create_consumer(queue))) == "espresso"

    @pytest.mark.realises("BOIL-CONN-6")
    def test_a_session_made_while_stopped_does_not(self, connect: Connect) -> None:
        connection = connect()
        connection.stop()
        session = connection.create_session()
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        send_texts(session, queue, "espresso")
        assert consumer.receive_no_wait() is None

    @pytest.mark.realises("BOIL-CONN-6")
    def test_only_the_stopped_connection_stops(self, connect: Connect) -> None:
        stopped, going = connect(), connect()
        stopped.stop()
        session = going.create_session()
        queue = session.create_queue("orders")
        send_texts(session, queue, "espresso")
        assert text_of(take(session.create_consumer(queue))) == "espresso"

    @pytest.mark.realises("BOIL-CONN-6")
    def test_what_was_received_can_be_settled_while_stopped(self, connect: Connect) -> None:
        connection = connect()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        orders, bills = session.create_queue("orders"), session.create_queue("bills")
        other = connect().create_session()
        send_texts(other, orders, "espresso")
        take(session.create_consumer(orders))
        connection.stop()
        send_texts(session, bills, "bill")
        session.commit()
        assert text_of(take(other.create_consumer(bills))) == "bill"
        connection.close()
        assert other.create_consumer(orders).receive_no_wait() is None


class TestThreads:
    @pytest.mark.realises("BOIL-CONC-1")
    def test_start_and_stop_at_once_leave_one_state(self, wrapped: Wrapped, latch: Callable[[], Event]) -> None:
        """Sessions made before and after must agree on whether the connection is started."""
        connection = ConnectionFactory(wrapped.url).create_connection()
        session = connection.create_session()
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", "two")
        before = session.create_consumer(queue)
        release, reached = latch(), Event()
        wrapped.before["start"] = holding(reached, release)
        starting = Call(connection.start)
        assert reached.wait(PATIENCE_S)
        stopping = Call(connection.stop)
        stopping.is_blocked()
        release.set()
        starting.result()
        stopping.result()
        del wrapped.before["start"]
        after = connection.create_session().create_consumer(queue)
        got = [before.receive_no_wait() is not None, after.receive_no_wait() is not None]
        assert got in ([True, True], [False, False])
        connection.start()
        assert len(drain(before)) + len(drain(after)) == 2 - sum(got)
        connection.close()

    @pytest.mark.realises("BOIL-CONC-1")
    def test_a_stop_that_is_late_beneath_does_not_stop_what_was_started_since(
        self, wrapped: Wrapped, latch: Callable[[], Event]
    ) -> None:
        connection = ConnectionFactory(wrapped.url).create_connection()
        session = connection.create_session()
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        connection.start()
        release, reached = latch(), Event()
        wrapped.before["stop"] = holding(reached, release)
        stopping = Call(connection.stop)
        assert reached.wait(PATIENCE_S)
        connection.start()
        release.set()
        stopping.result()
        send_texts(session, queue, "espresso")
        assert text_of(consumer.receive_no_wait()) == "espresso"
        connection.close()

    @pytest.mark.realises("BOIL-CONC-1")
    def test_many_threads_make_sessions_of_one_connection(self, connection: JmsConnection) -> None:
        together = Barrier(8, timeout=PATIENCE_S)

        def work(number: int) -> list[str | None]:
            together.wait()
            got: list[str | None] = []
            for turn in range(10):
                with connection.create_session() as session:
                    queue = session.create_queue(f"orders-{number}")
                    send_texts(session, queue, f"{number}-{turn}")
                    got += take_texts(session.create_consumer(queue), 1)
            return got

        calls = [Call(work, number) for number in range(8)]
        for number, call in enumerate(calls):
            assert call.result() == [f"{number}-{turn}" for turn in range(10)]

    @pytest.mark.realises("BOIL-CONC-1")
    def test_one_factory_and_one_destination_serve_many_threads(
        self, jms_connection_factory: ConnectionFactory, session: Session
    ) -> None:
        queue = session.create_queue("orders")
        together = Barrier(8, timeout=PATIENCE_S)

        def work(number: int) -> None:
            together.wait()
            with jms_connection_factory.create_connection() as connection:
                send_texts(connection.create_session(), queue, *(f"{number}-{turn}" for turn in range(20)))

        for call in [Call(work, number) for number in range(8)]:
            call.result()
        got = drain(session.create_consumer(queue))
        assert sorted(map(str, got)) == sorted(f"{number}-{turn}" for number in range(8) for turn in range(20))

    @pytest.mark.realises("BOIL-CONC-1", "BOIL-CONN-15")
    def test_many_may_close_at_once(self, connect: Connect) -> None:
        connection = connect()
        sessions = [connection.create_session() for _ in range(4)]
        together = Barrier(8, timeout=PATIENCE_S)

        def close(thing: JmsConnection | Session) -> None:
            together.wait()
            thing.close()

        for call in [Call(close, thing) for thing in [*sessions, *[connection] * 4]]:
            call.result()
        for session in sessions:
            with pytest.raises(IllegalStateException):
                session.create_message()

    @pytest.mark.realises("BOIL-CONN-11")
    def test_each_closer_returns_when_all_is_closed(self, wrapped: Wrapped, latch: Callable[[], Event]) -> None:
        connection = ConnectionFactory(wrapped.url).create_connection()
        release, reached = latch(), Event()
        wrapped.before["close"] = holding(reached, release)
        first = Call(connection.close)
        assert reached.wait(PATIENCE_S)
        second = Call(connection.close)
        assert second.is_blocked(), "the connection is still closing"
        release.set()
        first.result()
        second.result()


class TestTrouble:
    @pytest.mark.realises("BOIL-CONN-5")
    def test_a_start_that_fails_beneath_has_had_no_effect(self, wrapped: Wrapped) -> None:
        with ConnectionFactory(wrapped.url).create_connection() as connection:
            early = connection.create_session()
            queue = early.create_queue("orders")
            send_texts(early, queue, "espresso")
            wrapped.before["start"] = raising(ProviderError("the broker does not answer"))
            with pytest.raises(JMSException, match="does not answer"):
                connection.start()
            late = connection.create_session()
            assert [late.gate.is_open, early.gate.is_open] == [False, False]
            connection.start()
            assert [late.gate.is_open, early.gate.is_open] == [True, True]
            wrapped.before["start"] = raising(ProviderError("the broker does not answer"))
            with pytest.raises(JMSException, match="does not answer"):
                connection.start()
            assert take_texts(early.create_consumer(queue), 1) == ["espresso"]

    @pytest.mark.realises("BOIL-CONN-12")
    @pytest.mark.parametrize("error", [ProviderError("the broker does not read"), OverflowError("no")])
    def test_waits_that_cannot_be_ended_beneath_keep_nothing_from_closing(
        self, monkeypatch: pytest.MonkeyPatch, connection: JmsConnection, error: Exception
    ) -> None:
        session = connection.create_session()
        receiving = Call(session.create_consumer(session.create_queue("orders")).receive)
        assert receiving.is_blocked()

        def fail() -> None:
            monkeypatch.undo()
            raise error

        monkeypatch.setattr(session.provider_session, "end_waits", fail)
        with suppress(OverflowError):
            session.close()
        assert receiving.result() is None

    @pytest.mark.realises("BOIL-CONN-12")
    @pytest.mark.parametrize("failing", ["session.close", "close"])
    def test_a_close_that_fails_beneath_still_closes(self, wrapped: Wrapped, failing: str) -> None:
        connection = ConnectionFactory(wrapped.url, client_id="shop").create_connection()
        sessions = [connection.create_session() for _ in range(2)]
        wrapped.before[failing] = raising(ProviderError("the cable is cut"))
        with pytest.raises(JMSException, match="cable"):
            connection.close()
        assert "close" in wrapped.calls
        for session in sessions:
            with pytest.raises(IllegalStateException, match="closed"):
                session.create_message()
        with pytest.raises(IllegalStateException, match="closed"):
            connection.create_session()
        connection.close()

    def test_a_session_that_comes_while_the_connection_closes_is_closed_too(
        self, connect: Connect, latch: Callable[[], Event]
    ) -> None:
        connection, release, running = connect(started=False), latch(), Event()
        session = connection.create_session()
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = holding(running, release)
        connection.start()
        send_texts(connect().create_session(), queue, "espresso")
        assert running.wait(PATIENCE_S)
        closing = Call(connection.close)
        assert closing.is_blocked()
        late: Session | None = None
        waiting: Call[Message | None] | None = None
        try:
            late = connection.create_session()
        except IllegalStateException:
            pass  # to refuse it is as good
        else:
            waiting = Call(late.create_consumer(late.create_queue("other")).receive)
            waiting.is_blocked()
        release.set()
        closing.result()
        if late is not None and waiting is not None:
            assert waiting.result() is None
            with pytest.raises(IllegalStateException, match="closed"):
                late.create_message()

    def test_a_session_that_is_being_opened_does_not_survive_the_close(
        self, wrapped: Wrapped, latch: Callable[[], Event]
    ) -> None:
        connection = ConnectionFactory(wrapped.url).create_connection()
        reached, release = Event(), latch()
        wrapped.before["open_session"] = holding(reached, release)
        opening = Call(connection.create_session)
        assert reached.wait(PATIENCE_S)
        closing = Call(connection.close)
        closing.is_blocked()
        release.set()
        closing.result()
        with pytest.raises(IllegalStateException):
            opening.result().create_message()

    def test_a_connection_that_is_lost_can_be_closed(self, jms_faults: Faults, connect: Connect) -> None:
        connection = connect()
        session = connection.create_session()
        consumer = session.create_consumer(session.create_queue("orders"))
        jms_faults.drop_connections()
        with pytest.raises(JMSException):
            connection.create_session()
        with pytest.raises(JMSException):
            consumer.receive_no_wait()
        consumer.close()
        session.close()
        connection.close()

    def test_a_lost_connection_lets_its_client_id_go(self, jms_faults: Faults, connect: Connect) -> None:
        connect("shop")
        jms_faults.drop_connections()
        eventually(lambda: connect("shop").client_id == "shop", "the client id is free")


@pytest.mark.realises("BOIL-CONN-16")
class TestMetaData:
    def test_versions(self, connection: JmsConnection) -> None:
        data = connection.meta_data
        assert (data.jms_version, data.jms_major_version, data.jms_minor_version) == ("2.0", 2, 0)
        major, minor, *_ = data.provider_version.split(".")
        assert (data.provider_major_version, data.provider_minor_version) == (int(major), int(minor))
        assert data.jms_provider_name

    def test_java_names(self, connection: JmsConnection) -> None:
        data = connection.getMetaData()
        assert data.getJMSVersion() == "2.0"
        assert data.getProviderMajorVersion() == data.provider_major_version
        assert data.getJMSProviderName() == data.jms_provider_name

    def test_the_names_of_properties(self, connection: JmsConnection) -> None:
        names = list(connection.meta_data.jmsx_property_names)
        assert {"JMSXGroupID", "JMSXGroupSeq", "JMSXDeliveryCount"} <= set(names)
        assert all(name.startswith("JMSX") for name in names)
        assert len(set(names)) == len(names)
        enumeration = connection.getMetaData().getJMSXPropertyNames()
        again = []
        while enumeration.hasMoreElements():
            again.append(enumeration.nextElement())
        assert again == names

    def test_it_can_be_read_before_the_start(self, connect: Connect) -> None:
        assert within_patience(lambda: connect(started=False).meta_data.jms_major_version) == 2


@pytest.mark.parametrize(("number", "length", "kept_max"), [(3000, 10, 1025), (10, 5000, 1)])
def test_what_others_name_as_reply_destinations_is_not_kept_for_ever(
    connection: JmsConnection, number: int, length: int, kept_max: int
) -> None:
    """A server that runs for months answers to a queue of each client's own."""
    addresses = [Address(AddressKind.QUEUE, f"{n:0{length}}") for n in range(number)]
    alone = [getrefcount(each) for each in addresses]
    for address in addresses:
        assert connection.destination_of(address) == JmsQueue(address.name)
    held = [getrefcount(each) for each in addresses]
    assert sum(now > before for now, before in zip(held, alone, strict=True)) <= kept_max
