"""Failures by name: each makes the client see what its value says, and leaves the broker as it says."""

from __future__ import annotations

import re
from threading import Event
from typing import TYPE_CHECKING

import pytest

from pyjms import (
    ConnectionFactory,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
    ResourceAllocationException,
    Session,
    TransactionRolledBackException,
)
from pyjms.spi.errors import MissingProviderError
from pyjms.spi.registry import find_provider, known_schemes
from pyjms.spi.url import ProviderUrl
from pyjms.testing import Fault, Faults, VirtualClock
from pyjms_tck.spi.environment import PATIENCE_S, Threads
from tests.tidy.source import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms import Connection, Message

QUEUE = "orders"


def texts(factory: ConnectionFactory) -> list[tuple[str, bool]]:
    """Take all that is in the queue; return text and redelivery mark of each message."""
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue(QUEUE))
        found = []
        while (message := consumer.receive_no_wait()) is not None:
            found.append((message.text, message.jms_redelivered))  # type: ignore[attr-defined]
        return found


def send(session: Session, *bodies: str) -> None:
    producer = session.create_producer(session.create_queue(QUEUE))
    for body in bodies:
        producer.send(session.create_text_message(body))


def receive(session: Session) -> Message:
    message = session.create_consumer(session.create_queue(QUEUE)).receive(10_000)
    assert message is not None
    return message


@pytest.fixture
def transacted(jms_connection: Connection) -> Session:
    """A session that has received the message "in" and sent the message "out"."""
    first = jms_connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    send(first, "in")
    session = jms_connection.create_session(True, Session.SESSION_TRANSACTED)
    receive(session)
    send(session, "out")
    return session


class Listener:
    """An exception listener that gathers."""

    def __init__(self, connection: Connection) -> None:
        self.told: list[JMSException] = []
        self._first = Event()
        connection.exception_listener = self

    def __call__(self, error: JMSException) -> None:
        self.told.append(error)
        self._first.set()

    def wait(self) -> None:
        assert self._first.wait(PATIENCE_S)


def test_connect_refused(jms_faults: Faults, jms_connection_factory: ConnectionFactory) -> None:
    jms_faults.inject(Fault.CONNECT_REFUSED)
    with pytest.raises(ResourceAllocationException, match="injected"):
        jms_connection_factory.create_connection()
    jms_connection_factory.create_connection().close()


def test_login_refused(jms_faults: Faults, jms_connection_factory: ConnectionFactory) -> None:
    jms_faults.inject(Fault.LOGIN_REFUSED)
    with pytest.raises(JMSSecurityException, match="injected"):
        jms_connection_factory.create_connection("ann", "secret")
    jms_connection_factory.create_connection().close()


def test_send_refused(jms_faults: Faults, jms_session: Session, jms_connection_factory: ConnectionFactory) -> None:
    jms_faults.inject(Fault.SEND_REFUSED, times=2)
    for _ in range(2):
        with pytest.raises(ResourceAllocationException, match="injected"):
            send(jms_session, "refused")
    send(jms_session, "taken")
    assert texts(jms_connection_factory) == [("taken", False)]


def test_acknowledge_refused(jms_faults: Faults, jms_connection: Connection) -> None:
    session = jms_connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    send(session, "first")
    consumer = session.create_consumer(session.create_queue(QUEUE))
    message = consumer.receive(10_000)
    assert message is not None
    jms_faults.inject(Fault.ACKNOWLEDGE_REFUSED)
    with pytest.raises(JMSException, match="injected"):
        message.acknowledge()
    session.recover()
    again = consumer.receive(10_000)
    assert again is not None
    assert again.jms_redelivered
    again.acknowledge()
    session.recover()
    assert consumer.receive_no_wait() is None


def test_commit_rolled_back(jms_faults: Faults, transacted: Session, jms_connection_factory: ConnectionFactory) -> None:
    jms_faults.inject(Fault.COMMIT_ROLLED_BACK)
    with pytest.raises(TransactionRolledBackException, match="injected"):
        transacted.commit()
    assert texts(jms_connection_factory) == [("in", True)]
    transacted.commit()  # the next transaction has begun


def test_commit_in_doubt(jms_faults: Faults, transacted: Session, jms_connection_factory: ConnectionFactory) -> None:
    jms_faults.inject(Fault.COMMIT_IN_DOUBT)
    with pytest.raises(JMSException, match="injected") as caught:
        transacted.commit()
    assert caught.value.error_code == "PYJMS-IN-DOUBT"
    assert not isinstance(caught.value, TransactionRolledBackException)
    assert texts(jms_connection_factory) == [("out", False)]


def test_commit_in_doubt_rolled_back(
    jms_faults: Faults, transacted: Session, jms_connection_factory: ConnectionFactory
) -> None:
    jms_faults.inject(Fault.COMMIT_IN_DOUBT_ROLLED_BACK)
    with pytest.raises(JMSException, match="injected") as caught:
        transacted.commit()
    assert caught.value.error_code == "PYJMS-IN-DOUBT"
    transacted.close()
    assert texts(jms_connection_factory) == [("in", True)]


def test_connection_drops_on_send(
    jms_faults: Faults, jms_connection: Connection, jms_connection_factory: ConnectionFactory
) -> None:
    listener = Listener(jms_connection)
    session = jms_connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    send(session, "before")
    jms_faults.inject(Fault.CONNECTION_DROPS_ON_SEND)
    for _ in range(2):
        with pytest.raises(JMSException, match="dropped") as caught:
            send(session, "lost")
        assert caught.value.error_code == "PYJMS-LOST"
    listener.wait()
    jms_connection.close()
    assert texts(jms_connection_factory) == [("before", False)]
    assert [error.error_code for error in listener.told] == ["PYJMS-LOST"]


def test_connection_drops_on_commit(
    jms_faults: Faults, jms_connection: Connection, transacted: Session, jms_connection_factory: ConnectionFactory
) -> None:
    listener = Listener(jms_connection)
    jms_faults.inject(Fault.CONNECTION_DROPS_ON_COMMIT)
    with pytest.raises(JMSException, match="dropped") as caught:
        transacted.commit()
    assert caught.value.error_code == "PYJMS-LOST"
    listener.wait()
    assert texts(jms_connection_factory) == [("in", True)]
    assert len(listener.told) == 1


def test_every_fault_has_its_test() -> None:
    tested = {name.removeprefix("test_").upper() for name in globals() if name.startswith("test_")}
    assert {fault.name for fault in Fault} <= tested


@pytest.mark.realises("BOIL-CONN-17")
def test_a_drop_tells_the_exception_listener_once(jms_faults: Faults, jms_connection: Connection) -> None:
    listener = Listener(jms_connection)
    jms_faults.drop_connections()
    jms_faults.drop_connections()
    jms_faults.inject(Fault.CONNECTION_DROPS_ON_SEND)
    session_calls: list[Callable[[], object]] = [jms_connection.create_session, jms_connection.start]
    for call in session_calls:
        with pytest.raises(JMSException, match="dropped"):
            call()
    listener.wait()
    jms_connection.close()
    assert len(listener.told) == 1
    assert listener.told[0].linked_exception is not None


def test_a_drop_ends_a_receive_that_blocks(
    jms_faults: Faults, jms_connection: Connection, jms_session: Session, virtual_clock: VirtualClock
) -> None:
    consumer = jms_session.create_consumer(jms_session.create_queue(QUEUE))
    errors: list[BaseException] = []

    def block() -> None:
        with pytest.raises(JMSException, match="dropped") as caught:
            consumer.receive(60_000)
        errors.append(caught.value)

    with Threads() as threads:
        threads.start(block)
        virtual_clock.await_wait(60_000)
        jms_faults.drop_connections()
    assert len(errors) == 1


def test_a_drop_gives_back_what_was_not_acknowledged(
    jms_faults: Faults, jms_connection: Connection, jms_connection_factory: ConnectionFactory
) -> None:
    session = jms_connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    send(session, "first", "second")
    message = receive(session)
    jms_faults.drop_connections()
    with pytest.raises(JMSException):
        message.acknowledge()
    assert texts(jms_connection_factory) == [("first", True), ("second", False)]


def test_a_drop_ends_the_work_of_listeners_and_close_still_works(
    jms_faults: Faults, jms_connection: Connection, jms_connection_factory: ConnectionFactory
) -> None:
    session = jms_connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    got, told = list[str](), Listener(jms_connection)
    arrived = Event()

    def listen(message: Message) -> None:
        got.append(message.text)  # type: ignore[attr-defined]
        arrived.set()

    session.create_consumer(session.create_queue(QUEUE)).message_listener = listen
    with jms_connection_factory.create_connection() as other:
        send(other.create_session(False, Session.AUTO_ACKNOWLEDGE), "heard")
    assert arrived.wait(PATIENCE_S)
    jms_faults.drop_connections()
    told.wait()
    jms_connection.close()
    with jms_connection_factory.create_connection() as other:
        send(other.create_session(False, Session.AUTO_ACKNOWLEDGE), "unheard")
    assert got == ["heard"]
    assert texts(jms_connection_factory) == [("unheard", False)]


def test_what_is_closed_cannot_drop(jms_faults: Faults, jms_connection_factory: ConnectionFactory) -> None:
    connection = jms_connection_factory.create_connection()
    listener = Listener(connection)
    connection.close()
    jms_faults.drop_connections()
    assert listener.told == []
    with pytest.raises(IllegalStateException):
        connection.start()


def test_other_connections_of_the_broker_are_left_alone(jms_faults: Faults, jms_broker_url: str) -> None:
    with ConnectionFactory(jms_broker_url).create_connection() as untouched:
        jms_faults.inject(Fault.SEND_REFUSED)
        jms_faults.drop_connections()
        send(untouched.create_session(False, Session.AUTO_ACKNOWLEDGE), "safe")


def test_the_url_is_known_inside_the_block_only(jms_broker_url: str) -> None:
    with Faults(jms_broker_url) as injected:
        scheme = ProviderUrl.parse(injected.url).scheme
        assert scheme in known_schemes()
        assert injected.url.endswith(jms_broker_url.removeprefix("vm"))
    assert scheme not in known_schemes()
    with pytest.raises(MissingProviderError):
        find_provider(scheme)


def test_two_stand_side_by_side(jms_broker_url: str) -> None:
    with Faults(jms_broker_url) as one, Faults(jms_broker_url) as other:
        one.inject(Fault.CONNECT_REFUSED)
        ConnectionFactory(other.url).create_connection().close()
        with pytest.raises(ResourceAllocationException):
            ConnectionFactory(one.url).create_connection()


def test_the_broker_behind_can_be_stopped(jms_faults: Faults, jms_connection: Connection) -> None:
    url = ProviderUrl.parse(jms_faults.url)
    find_provider(url.scheme).stop_broker(url)
    with pytest.raises(JMSException):
        jms_connection.create_session()


def test_the_guide_lists_each_fault_with_what_it_does() -> None:
    page = (ROOT / "docs" / "how-to" / "testing.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", page, re.MULTILINE))
    assert {name: text.replace("`", "") for name, text in rows.items()} == {fault.name: fault.value for fault in Fault}
