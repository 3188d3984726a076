"""Arguments of connection consumers, and the listener of a session itself (JMS 1.1 §8.2)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Session,
)
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi import Capability
from tests.pyjms.runtime.closed_world import Pool as EmptyPool
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import Recorder, within_patience
from tests.pyjms.runtime.server_pool import Pool, feeding
from tests.pyjms.runtime.wrapping import Wrapped


class TestArguments:
    @pytest.mark.realises("BOIL-EXC-5")
    @pytest.mark.parametrize("wrong", [None, "orders", 5])
    def test_destinations(self, connect: Connect, wrong: Any) -> None:
        connection = connect("server")
        pool = Pool(connection, feeding(Recorder()))
        with pytest.raises(InvalidDestinationException):
            connection.create_connection_consumer(wrong, None, pool, 1)
        with pytest.raises(InvalidDestinationException):
            connection.create_durable_connection_consumer(wrong, "all", None, pool, 1)

    @pytest.mark.parametrize("wrong", [0, -1, "one", None, 1.5, True])
    def test_numbers_of_messages(self, connection: JmsConnection, session: Session, wrong: Any) -> None:
        pool = Pool(connection, feeding(Recorder()))
        with pytest.raises(JMSException, match="is no number of messages a server session can load"):
            connection.create_connection_consumer(session.create_queue("orders"), None, pool, wrong)

    @pytest.mark.parametrize("wrong", [None, 5, "pool"])
    def test_pools(self, connection: JmsConnection, session: Session, wrong: Any) -> None:
        with pytest.raises(JMSException, match=f"needs a ServerSessionPool, not {type(wrong).__name__}"):
            connection.create_connection_consumer(session.create_queue("orders"), None, wrong, 1)

    @pytest.mark.realises("BOIL-PUB-3")
    def test_a_durable_one_needs_a_client_identifier(self, connection: JmsConnection, session: Session) -> None:
        pool = Pool(connection, feeding(Recorder()))
        with pytest.raises(IllegalStateException, match="client_id"):
            connection.create_durable_connection_consumer(session.create_topic("prices"), "all", None, pool, 1)

    @pytest.mark.realises("BOIL-PUB-8")
    def test_a_durable_one_takes_no_temporary_topic(self, connect: Connect) -> None:
        connection = connect("server")
        pool = Pool(connection, feeding(Recorder()))
        temporary = connection.create_session().create_temporary_topic()
        with pytest.raises(InvalidDestinationException):
            connection.create_durable_connection_consumer(temporary, "all", None, pool, 1)

    def test_a_provider_without_them_is_named(self, jms_broker_url: str) -> None:
        with (
            Wrapped(jms_broker_url, remove=Capability.CONNECTION_CONSUMERS) as wrapped,
            ConnectionFactory(wrapped.url).create_connection() as connection,
        ):
            queue = connection.create_session().create_queue("orders")
            with pytest.raises(JMSException, match="CONNECTION_CONSUMERS"):
                connection.create_connection_consumer(queue, None, EmptyPool(), 1)


class TestSessionListener:
    """The listener of a session itself, which only `run` feeds (§8.2.1)."""

    def test_it_is_shown(self, session: Session) -> None:
        recorder = Recorder()
        assert session.message_listener is None
        session.message_listener = recorder
        assert session.getMessageListener() is recorder
        session.setMessageListener(None)
        assert session.message_listener is None

    @pytest.mark.realises("BOIL-SESS-8")
    def test_with_it_the_session_has_no_other_way_to_receive(self, session: Session) -> None:
        consumer = session.create_consumer(session.create_queue("orders"))
        session.message_listener = Recorder()
        for use in (
            consumer.receive_no_wait,
            lambda: within_patience(consumer.receive, 1),
            lambda: setattr(consumer, "message_listener", Recorder()),
        ):
            with pytest.raises(IllegalStateException):
                use()

    def test_with_a_consumers_listener_it_is_refused(self, session: Session) -> None:
        session.create_consumer(session.create_queue("orders")).message_listener = Recorder()
        with pytest.raises(IllegalStateException):
            session.message_listener = Recorder()

    def test_run_with_nothing_loaded_returns(self, session: Session) -> None:
        session.message_listener = recorder = Recorder()
        within_patience(session.run)
        assert recorder.messages == []
