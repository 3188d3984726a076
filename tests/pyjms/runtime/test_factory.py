"""Connection factories and the set-up of a client (JMS 1.1 §2.6, §4.2)."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import pyjms
import pyjms.api.connection
from pyjms import (
    Connection,
    ConnectionFactory,
    IllegalArgumentException,
    InitialContext,
    JMSException,
    Message,
    Queue,
    QueueConnection,
    QueueConnectionFactory,
    Session,
    Topic,
    TopicConnection,
    TopicConnectionFactory,
)
from pyjms.spi import ProviderUrl, find_provider
from pyjms.testing import VirtualClock
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import Call, Recorder, drain, send_texts, take, text_of
from tests.pyjms.runtime.wrapping import Wrapped


def scheme_of(url: str) -> str:
    """Return the scheme."""
    return ProviderUrl.parse(url).scheme


class TestSteps:
    @pytest.mark.realises("BOIL-SETUP-1", "BOIL-CONN-5")
    def test_the_usual_set_up(self, tmp_path: Path, jms_broker_url: str) -> None:
        """Factory, destinations, connection, sessions, producers and consumers, start."""
        settings = tmp_path / "jndi.properties"
        settings.write_text(
            f"connectionfactory.shop = {jms_broker_url}\nqueue.jms/orders = orders\ntopic.jms/prices = prices\n",
            encoding="utf-8",
        )
        context = InitialContext(str(settings))
        factory, queue, topic = context.lookup("shop"), context.lookup("jms/orders"), context.lookup("jms/prices")
        assert isinstance(factory, ConnectionFactory)
        assert isinstance(queue, Queue)
        assert isinstance(topic, Topic)
        with factory.create_connection() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            producer, consumer, subscriber = (
                session.create_producer(queue),
                session.create_consumer(queue),
                session.create_consumer(topic),
            )
            producer.send(session.create_text_message("espresso"))
            send_texts(session, topic, "1.80")
            assert (consumer.receive_no_wait(), subscriber.receive_no_wait()) == (None, None)
            connection.start()
            assert (text_of(take(consumer)), text_of(take(subscriber))) == ("espresso", "1.80")

    @pytest.mark.realises("BOIL-SETUP-1")
    def test_the_usual_set_up_with_a_listener(self, jms_broker_url: str) -> None:
        with ConnectionFactory(jms_broker_url).createConnection() as connection:
            session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
            queue, recorder = session.createQueue("orders"), Recorder()
            session.createConsumer(queue).setMessageListener(recorder)
            session.createProducer(queue).send(session.createTextMessage("espresso"))
            assert recorder.texts == []
            connection.start()
            assert recorder.wait_for(1) == ["espresso"]


class TestKinds:
    @pytest.mark.realises("BOIL-DOM-4", "BOIL-SETUP-1")
    def test_each_factory_makes_its_connections(self, jms_broker_url: str) -> None:
        made: list[tuple[Any, type]] = [
            (ConnectionFactory(jms_broker_url).create_connection(), Connection),
            (QueueConnectionFactory(jms_broker_url).create_connection(), QueueConnection),
            (QueueConnectionFactory(jms_broker_url).createQueueConnection(), QueueConnection),
            (TopicConnectionFactory(jms_broker_url).create_connection(), TopicConnection),
            (TopicConnectionFactory(jms_broker_url).createTopicConnection("user", "password"), TopicConnection),
        ]
        for connection, kind in made:
            assert isinstance(connection, kind)
            assert isinstance(connection, Connection)
            connection.close()

    def test_all_reach_one_broker(self, jms_broker_url: str) -> None:
        with (
            QueueConnectionFactory(jms_broker_url).create_queue_connection() as queues,
            ConnectionFactory(jms_broker_url).create_connection() as common,
        ):
            queues.start()
            session = common.create_session()
            send_texts(session, session.create_queue("orders"), "espresso")
            receiving = queues.create_queue_session(False, 1)
            assert drain(receiving.create_receiver(receiving.create_queue("orders"))) == ["espresso"]


class TestUrl:
    @pytest.mark.parametrize(
        "wrong", ["shop", "vm:shop", "://shop", "vm://shop?store", "vm://shop?a=1&a=2", "vm://[shop"]
    )
    def test_a_malformed_one_is_refused_at_once(self, wrong: str) -> None:
        with pytest.raises(JMSException) as caught:
            ConnectionFactory(wrong)
        assert caught.value.error_code == "PYJMS-URL"
        assert str(caught.value)

    def test_an_unknown_scheme_names_the_known_ones(self) -> None:
        factory = ConnectionFactory("carrier-pigeon://shop")
        with pytest.raises(JMSException, match="carrier-pigeon") as caught:
            factory.create_connection()
        assert caught.value.error_code == "PYJMS-PROVIDER"
        assert "vm://" in str(caught.value)

    @pytest.mark.parametrize("how", ["url", "keyword"])
    def test_an_unknown_option_is_named(self, jms_broker_url: str, how: str) -> None:
        factory = (
            ConnectionFactory(f"{jms_broker_url}?sugar=2")
            if how == "url"
            else ConnectionFactory(jms_broker_url, sugar=2)
        )
        with pytest.raises(JMSException, match="sugar") as caught:
            factory.create_connection()
        assert caught.value.error_code == "PYJMS-URL"

    def test_without_one_the_environment_decides(self, monkeypatch: pytest.MonkeyPatch, jms_broker_url: str) -> None:
        monkeypatch.setenv("PYJMS_URL", f"{jms_broker_url}-environment")
        with ConnectionFactory().create_connection() as first, ConnectionFactory("").create_connection() as second:
            first.start()
            session = second.create_session()
            send_texts(session, session.create_queue("orders"), "espresso")
            receiving = first.create_session()
            assert drain(receiving.create_consumer(receiving.create_queue("orders"))) == ["espresso"]
        find_provider("vm").stop_broker(ProviderUrl.parse(f"{jms_broker_url}-environment"))

    def test_a_url_goes_before_the_environment(self, monkeypatch: pytest.MonkeyPatch, jms_broker_url: str) -> None:
        monkeypatch.setenv("PYJMS_URL", "carrier-pigeon://shop")
        ConnectionFactory(jms_broker_url).create_connection().close()

    def test_without_both_it_is_the_default_broker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PYJMS_URL", raising=False)
        with (
            ConnectionFactory().create_connection() as first,
            ConnectionFactory("vm://default").create_connection() as second,
        ):
            first.client_id = "the same broker"
            with pytest.raises(JMSException):
                second.client_id = "the same broker"

    def test_names_of_brokers_tell_upper_from_lower_case(self, jms_broker_url: str) -> None:
        with (
            ConnectionFactory(jms_broker_url, client_id="shop").create_connection(),
            ConnectionFactory(jms_broker_url.replace("pytest", "PYTEST"), client_id="shop").create_connection(),
        ):
            pass
        find_provider("vm").stop_broker(ProviderUrl.parse(jms_broker_url.replace("pytest", "PYTEST")))


class TestOptions:
    @pytest.mark.realises("BOIL-CONN-3")
    def test_a_keyword_goes_before_the_url(self, wrapped: Wrapped) -> None:
        ConnectionFactory(f"{wrapped.url}?client_id=from-url").create_connection().close()
        ConnectionFactory(f"{wrapped.url}?client_id=from-url", client_id="keyword").create_connection().close()
        assert [request.client_id for request in wrapped.requests] == ["from-url", "keyword"]

    def test_what_the_runtime_takes_the_provider_does_not_see(self, wrapped: Wrapped) -> None:
        ConnectionFactory(
            wrapped.url, client_id="shop", user_name="u", password="p", trusted="a.B", max_unacknowledged=3
        ).create_connection().close()
        (request,) = wrapped.requests
        assert dict(request.url.options) == {}

    def test_credentials_of_the_url(self, wrapped: Wrapped) -> None:
        host = wrapped.url.partition("://")[2]
        ConnectionFactory(f"{scheme_of(wrapped.url)}://shop:p%40ss@{host}").create_connection().close()
        (request,) = wrapped.requests
        assert (request.user_name, request.password) == ("shop", "p@ss")

    @pytest.mark.parametrize("wrong", [5, "a clock", object()])
    def test_a_clock_must_be_one(self, wrong: object) -> None:
        with pytest.raises(IllegalArgumentException, match="clock"):
            ConnectionFactory("vm://shop", clock=wrong)

    @pytest.mark.parametrize("wrong", [-1, "many", 1.5, [1]])
    def test_a_limit_must_be_a_number(self, wrong: object) -> None:
        with pytest.raises(IllegalArgumentException, match="max_unacknowledged"):
            ConnectionFactory("vm://shop", max_unacknowledged=wrong)

    @pytest.mark.parametrize("wrong", [5, [Message], ["shop.Order", 5]])
    def test_trusted_are_names(self, wrong: object) -> None:
        with pytest.raises(IllegalArgumentException, match=r"trusted must name classes, as package\.module\.Class"):
            ConnectionFactory("vm://shop", trusted=wrong)

    @pytest.mark.parametrize("option", ["client_id", "user_name", "password"])
    def test_who_connects_is_told_by_texts(self, option: str) -> None:
        with pytest.raises(IllegalArgumentException, match=f"{option} must be a text, not int") as told:
            ConnectionFactory("vm://shop", **{option: 4711})
        assert "4711" not in str(told.value)

    def test_the_clock_reaches_the_provider(self, wrapped: Wrapped) -> None:
        clock = VirtualClock()
        ConnectionFactory(wrapped.url, clock=clock).create_connection().close()
        assert wrapped.requests[0].clock is clock

    def test_none_is_as_if_left_out(self, wrapped: Wrapped) -> None:
        ConnectionFactory(
            wrapped.url, client_id=None, user_name=None, password=None, trusted=None, clock=None, store=None
        ).create_connection().close()
        (request,) = wrapped.requests
        assert (request.client_id, request.user_name, dict(request.url.options)) == (None, None, {})

    def test_secrets_are_not_shown(self) -> None:
        shown = repr(ConnectionFactory("vm://shop:hunter2@shop?store=postgres://u:hunter2@h/db", password="hunter2"))
        assert "hunter2" not in shown
        assert "shop" in shown


_FACTORIES = (
    ConnectionFactory,
    QueueConnectionFactory,
    TopicConnectionFactory,
    pyjms.XAConnectionFactory,
    pyjms.XAQueueConnectionFactory,
    pyjms.XATopicConnectionFactory,
)


class TestDomains:
    """A cast to a domain's type works with every factory, as with ActiveMQ's, whose factories are of both domains."""

    @pytest.mark.parametrize("kind", _FACTORIES)
    def test_each_factory_is_of_both_domains(self, kind: Any, jms_broker_url: str) -> None:
        factory = kind(jms_broker_url)
        for domain in (ConnectionFactory, QueueConnectionFactory, TopicConnectionFactory):
            assert isinstance(factory, domain)
            assert issubclass(kind, domain)
        with factory.createQueueConnection() as queues, factory.createTopicConnection() as topics:
            assert isinstance(queues, QueueConnection)
            assert isinstance(topics, TopicConnection)

    @pytest.mark.parametrize("kind", _FACTORIES)
    def test_factories_of_xa_are_of_both_domains_and_no_others_are_of_xa(self, kind: Any) -> None:
        domains = _FACTORIES[3:]
        assert [issubclass(kind, each) for each in domains] == [kind in domains] * 3
        if kind in domains:
            assert callable(kind.createXAQueueConnection)
            assert callable(kind.createXATopicConnection)

    def test_a_factory_of_an_application_is_of_the_domain_that_it_implements(self) -> None:
        class Own(pyjms.api.factory.QueueConnectionFactory):
            def create_connection(self, user_name: str | None = None, password: str | None = None) -> Any:
                return None

            def create_queue_connection(self, user_name: str | None = None, password: str | None = None) -> Any:
                return None

        class Below(QueueConnectionFactory):
            """A class of an application's below one of pyjms."""

        assert isinstance(Own(), QueueConnectionFactory)
        assert not isinstance(Own(), TopicConnectionFactory)
        assert isinstance(Below(), Below)
        assert not isinstance(ConnectionFactory(), Below)


@pytest.mark.realises("BOIL-SETUP-2")
class TestPickling:
    @pytest.mark.parametrize("kind", [ConnectionFactory, QueueConnectionFactory, TopicConnectionFactory])
    @pytest.mark.parametrize("way", [lambda each: pickle.loads(pickle.dumps(each)), copy.copy, copy.deepcopy])
    def test_a_factory_comes_back_as_it_was(self, wrapped: Wrapped, kind: Any, way: Any) -> None:
        factory = way(kind(f"{wrapped.url}?client_id=shop", user_name="u", password="p", trusted=("a.B", "c.D")))
        assert type(factory) is kind
        factory.create_connection().close()
        (request,) = wrapped.requests
        assert (request.client_id, request.user_name, request.password) == ("shop", "u", "p")

    def test_an_environments_url_is_that_of_its_making(self, monkeypatch: pytest.MonkeyPatch, wrapped: Wrapped) -> None:
        monkeypatch.setenv("PYJMS_URL", wrapped.url)
        data = pickle.dumps(ConnectionFactory())
        monkeypatch.setenv("PYJMS_URL", "carrier-pigeon://shop")
        pickle.loads(data).create_connection().close()
        assert len(wrapped.requests) == 1

    def test_a_destination_comes_back_equal(self, session: Session) -> None:
        for destination in (session.create_queue("orders"), session.create_topic("prices")):
            again = pickle.loads(pickle.dumps(destination))
            assert again == destination
            assert type(again) is type(destination)
            consumer = session.create_consumer(again)
            send_texts(session, destination, "espresso")
            assert drain(consumer) == ["espresso"]


@pytest.mark.realises("BOIL-CONC-1")
def test_one_factory_serves_many_threads_at_once(jms_broker_url: str) -> None:
    factory = ConnectionFactory(jms_broker_url)

    def work(number: int) -> str | None:
        with factory.create_connection() as connection:
            connection.start()
            session = connection.create_session()
            queue = session.create_queue(f"orders-{number}")
            send_texts(session, queue, str(number))
            return text_of(take(session.create_consumer(queue)))

    calls = [Call(work, number) for number in range(12)]
    assert [call.result() for call in calls] == [str(number) for number in range(12)]


class TestBrokerLife:
    def test_closing_the_last_connection_loses_nothing(self, connect: Connect) -> None:
        with connect("shop") as connection:
            session = connection.create_session()
            send_texts(session, session.create_queue("orders"), "espresso")
            session.create_durable_subscriber(session.create_topic("prices"), "all").close()
            send_texts(session, session.create_topic("prices"), "1.80")
        session = connect("shop").create_session()
        assert drain(session.create_consumer(session.create_queue("orders"))) == ["espresso"]
        assert drain(session.create_durable_subscriber(session.create_topic("prices"), "all")) == ["1.80"]

    def test_a_stopped_broker_starts_anew(self, jms_broker_url: str, connect: Connect) -> None:
        session = connect().create_session()
        send_texts(session, session.create_queue("orders"), "espresso")
        find_provider("vm").stop_broker(ProviderUrl.parse(jms_broker_url))
        with ConnectionFactory(jms_broker_url).create_connection() as again:
            again.start()
            receiving = again.create_session()
            assert drain(receiving.create_consumer(receiving.create_queue("orders"))) == []

    def test_stopping_one_that_does_not_run_is_no_error(self, jms_broker_url: str) -> None:
        for _ in range(2):
            find_provider("vm").stop_broker(ProviderUrl.parse(f"{jms_broker_url}-never"))


def test_messages_are_interfaces(session: Session) -> None:
    assert isinstance(session.create_message(), Message)
