"""Durable subscriptions (JMS 1.1 §6.3, §6.11.1)."""

from __future__ import annotations

import pytest

from pyjms import (
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    Session,
    TopicSubscriber,
)
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    Recorder,
    WatchedClock,
    drain,
    send_texts,
    take,
    take_texts,
    text_of,
    within_patience,
)

CLIENT = Session.CLIENT_ACKNOWLEDGE


@pytest.fixture
def shop(connect: Connect) -> JmsConnection:
    """A connection with a client identifier."""
    return connect("shop")


@pytest.fixture
def publisher(connect: Connect) -> Session:
    """A session of somebody else."""
    return connect().create_session()


def subscribe(connection: JmsConnection, name: str = "all", selector: str | None = None) -> TopicSubscriber:
    """Subscribe in a session of its own."""
    session = connection.create_session()
    return session.create_durable_subscriber(session.create_topic("prices"), name, selector)


@pytest.mark.realises("BOIL-PUB-3", "BOIL-PUB-4")
class TestKeeping:
    def test_it_gathers_while_nobody_subscribes(
        self, connect: Connect, shop: JmsConnection, publisher: Session
    ) -> None:
        topic = publisher.create_topic("prices")
        send_texts(publisher, topic, "too early")
        subscriber = subscribe(shop)
        send_texts(publisher, topic, "one")
        assert drain(subscriber) == ["one"]
        shop.close()
        send_texts(publisher, topic, "two", "three")
        assert drain(subscribe(connect("shop"))) == ["two", "three"]

    @pytest.mark.parametrize("closes", ["subscriber", "session", "connection"])
    def test_a_later_subscriber_goes_on_where_the_last_one_stopped(
        self, connect: Connect, shop: JmsConnection, publisher: Session, closes: str
    ) -> None:
        session = shop.create_session(False, CLIENT)
        topic = session.create_topic("prices")
        subscriber = session.create_durable_subscriber(topic, "all")
        send_texts(publisher, topic, "one", "two", "three")
        take(subscriber).acknowledge()
        take(subscriber)
        if closes == "subscriber":
            subscriber.close()
        session.close()
        if closes == "connection":
            shop.close()
            shop = connect("shop")
        send_texts(publisher, topic, "four")
        again = subscribe(shop)
        messages = [take(again) for _ in range(3)]
        assert [text_of(message) for message in messages] == ["two", "three", "four"]
        assert [message.jms_redelivered for message in messages] == [True, False, False]

    def test_one_may_be_made_by_a_connection_that_is_not_started(self, connect: Connect, publisher: Session) -> None:
        connection = connect("shop", started=False)
        subscriber = subscribe(connection)
        send_texts(publisher, publisher.create_topic("prices"), "one")
        assert drain(subscriber) == []
        connection.start()
        assert drain(subscriber) == ["one"]

    def test_a_rolled_back_message_comes_again(self, shop: JmsConnection, publisher: Session) -> None:
        session = shop.create_session(True, 0)
        topic = session.create_topic("prices")
        subscriber = session.create_durable_subscriber(topic, "all")
        send_texts(publisher, topic, "one")
        take(subscriber)
        session.close()
        again = take(subscribe(shop))
        assert (text_of(again), again.jms_redelivered) == ("one", True)

    def test_listeners_may_serve_it(self, shop: JmsConnection, publisher: Session) -> None:
        recorder = Recorder()
        subscribe(shop).message_listener = recorder
        send_texts(publisher, publisher.create_topic("prices"), "one", "two")
        assert recorder.wait_for(2) == ["one", "two"]

    def test_expired_messages_are_not_kept(
        self, virtual_clock: WatchedClock, connect: Connect, shop: JmsConnection, publisher: Session
    ) -> None:
        topic = publisher.create_topic("prices")
        subscribe(shop).close()
        send_texts(publisher, topic, "short", time_to_live=1000)
        send_texts(publisher, topic, "long", time_to_live=5000)
        virtual_clock.advance(1001)
        assert drain(subscribe(shop)) == ["long"]

    def test_it_has_a_selector(self, shop: JmsConnection, publisher: Session) -> None:
        topic = publisher.create_topic("prices")
        subscribe(shop, selector="JMSPriority > 4").close()
        send_texts(publisher, topic, "low", priority=4)
        send_texts(publisher, topic, "high", priority=5)
        subscriber = subscribe(shop, selector="JMSPriority > 4")
        assert subscriber.message_selector == "JMSPriority > 4"
        assert drain(subscriber) == ["high"]

    def test_it_has_no_local(self, connect: Connect, shop: JmsConnection, publisher: Session) -> None:
        session = shop.create_session()
        topic = session.create_topic("prices")
        subscriber = session.create_durable_subscriber(topic, "all", None, True)
        assert subscriber.no_local is True
        send_texts(session, topic, "mine")
        send_texts(publisher, topic, "other")
        assert drain(subscriber) == ["other"]


@pytest.mark.realises("BOIL-PUB-3")
class TestIdentity:
    def test_names_are_those_of_one_client(self, connect: Connect, publisher: Session) -> None:
        subscribers = [subscribe(connect(client_id), "all") for client_id in ("shop", "till")]
        send_texts(publisher, publisher.create_topic("prices"), "one")
        assert [drain(each) for each in subscribers] == [["one"], ["one"]]

    def test_a_client_has_several(self, shop: JmsConnection, publisher: Session) -> None:
        subscribers = [subscribe(shop, name) for name in ("first", "second")]
        send_texts(publisher, publisher.create_topic("prices"), "one")
        assert [drain(each) for each in subscribers] == [["one"], ["one"]]

    def test_a_client_identifier_is_needed(self, connect: Connect) -> None:
        session = connect().create_session()
        with pytest.raises(IllegalStateException, match="client_id"):
            session.create_durable_subscriber(session.create_topic("prices"), "all")
        with pytest.raises(InvalidDestinationException, match="without a client id"):
            session.unsubscribe("all")

    @pytest.mark.realises("BOIL-CONN-3")
    def test_one_from_the_factory_will_do(self, jms_broker_url: str) -> None:
        for _ in range(2):
            with ConnectionFactory(jms_broker_url, client_id="shop").create_connection() as connection:
                connection.start()
                subscriber = subscribe(connection)
                drain(subscriber)

    @pytest.mark.parametrize("wrong", ["", None, 5])
    def test_a_name_is_needed(self, shop: JmsConnection, wrong: str) -> None:
        session = shop.create_session()
        with pytest.raises(JMSException):
            session.create_durable_subscriber(session.create_topic("prices"), wrong)
        with pytest.raises(JMSException):
            session.unsubscribe(wrong)

    @pytest.mark.realises("BOIL-EXC-5")
    @pytest.mark.parametrize("wrong", [None, "prices", 5])
    def test_a_topic_is_needed(self, shop: JmsConnection, wrong: object) -> None:
        with pytest.raises(InvalidDestinationException):
            shop.create_session().create_durable_subscriber(wrong, "all")  # type: ignore[arg-type]

    @pytest.mark.realises("BOIL-EXC-5")
    def test_a_queue_will_not_do(self, shop: JmsConnection) -> None:
        session = shop.create_session()
        with pytest.raises(InvalidDestinationException):
            session.create_durable_subscriber(session.create_queue("orders"), "all")  # type: ignore[arg-type]

    @pytest.mark.realises("BOIL-EXC-6")
    def test_a_wrong_selector_makes_no_subscription(self, shop: JmsConnection) -> None:
        with pytest.raises(InvalidSelectorException):
            subscribe(shop, selector="price >")
        with pytest.raises(InvalidDestinationException):
            shop.create_session().unsubscribe("all")


@pytest.mark.realises("BOIL-PUB-5")
class TestOneSubscriber:
    @pytest.mark.parametrize("same_session", [True, False])
    def test_there_is_one_at_a_time(self, shop: JmsConnection, publisher: Session, same_session: bool) -> None:
        session = shop.create_session()
        topic = session.create_topic("prices")
        first = session.create_durable_subscriber(topic, "all")
        other = session if same_session else shop.create_session()
        with pytest.raises(JMSException):
            other.create_durable_subscriber(topic, "all")
        send_texts(publisher, topic, "one")
        assert drain(first) == ["one"]
        first.close()
        second = other.create_durable_subscriber(topic, "all")
        send_texts(publisher, topic, "two")
        assert drain(second) == ["two"]

    def test_a_changed_one_is_refused_too(self, shop: JmsConnection, publisher: Session) -> None:
        first = subscribe(shop)
        with pytest.raises(JMSException):
            subscribe(shop, selector="JMSPriority > 4")
        send_texts(publisher, publisher.create_topic("prices"), "one")
        assert drain(first) == ["one"]


@pytest.mark.realises("BOIL-PUB-6")
class TestChanging:
    def test_another_topic(self, shop: JmsConnection, publisher: Session) -> None:
        session = shop.create_session()
        prices, news = session.create_topic("prices"), session.create_topic("news")
        session.create_durable_subscriber(prices, "all").close()
        send_texts(publisher, prices, "old")
        subscriber = session.create_durable_subscriber(news, "all")
        send_texts(publisher, prices, "price")
        send_texts(publisher, news, "news")
        assert drain(subscriber) == ["news"]

    @pytest.mark.parametrize(
        ("before", "after"),
        [(None, "JMSPriority > 4"), ("JMSPriority > 4", None), ("JMSPriority > 4", "JMSPriority > 5")],
    )
    def test_another_selector(
        self, shop: JmsConnection, publisher: Session, before: str | None, after: str | None
    ) -> None:
        topic = publisher.create_topic("prices")
        subscribe(shop, selector=before).close()
        send_texts(publisher, topic, "old", priority=9)
        subscriber = subscribe(shop, selector=after)
        send_texts(publisher, topic, "new", priority=9)
        assert drain(subscriber) == ["new"]

    @pytest.mark.parametrize("before", [True, False])
    def test_another_no_local(self, shop: JmsConnection, publisher: Session, before: bool) -> None:
        session = shop.create_session()
        topic = session.create_topic("prices")
        session.create_durable_subscriber(topic, "all", None, before).close()
        send_texts(publisher, topic, "old")
        subscriber = session.create_durable_subscriber(topic, "all", None, not before)
        send_texts(publisher, topic, "new")
        assert drain(subscriber) == ["new"]

    def test_the_same_again_changes_nothing(self, shop: JmsConnection, publisher: Session) -> None:
        topic = publisher.create_topic("prices")
        subscribe(shop, selector="JMSPriority > 4").close()
        send_texts(publisher, topic, "old", priority=9)
        assert drain(subscribe(shop, selector="JMSPriority > 4")) == ["old"]

    def test_nor_does_white_space_in_its_selector(self, shop: JmsConnection, publisher: Session) -> None:
        topic = publisher.create_topic("prices")
        subscribe(shop, selector="JMSPriority>4").close()
        send_texts(publisher, topic, "old", priority=9)
        subscriber = subscribe(shop, selector=" JMSPriority  >\n4 ")
        assert drain(subscriber) == ["old"]

    def test_no_selector_has_two_spellings(self, shop: JmsConnection, publisher: Session) -> None:
        subscribe(shop, selector=None).close()
        send_texts(publisher, publisher.create_topic("prices"), "old")
        assert drain(subscribe(shop, selector="")) == ["old"]

    @pytest.mark.realises("BOIL-PUB-7")
    def test_while_a_message_is_not_acknowledged_it_cannot_be(self, shop: JmsConnection, publisher: Session) -> None:
        session = shop.create_session(False, CLIENT)
        topic = session.create_topic("prices")
        subscriber = session.create_durable_subscriber(topic, "all")
        send_texts(publisher, topic, "one")
        message = take(subscriber)
        subscriber.close()
        with pytest.raises(JMSException):
            subscribe(shop, selector="JMSPriority > 4")
        message.acknowledge()
        subscribe(shop, selector="JMSPriority > 4").close()


@pytest.mark.realises("BOIL-PUB-7", "BOIL-PUB-11")
class TestUnsubscribing:
    def test_it_ends_the_subscription(self, shop: JmsConnection, publisher: Session) -> None:
        topic = publisher.create_topic("prices")
        subscribe(shop).close()
        send_texts(publisher, topic, "one")
        session = shop.create_session()
        session.unsubscribe("all")
        send_texts(publisher, topic, "two")
        assert drain(subscribe(shop)) == []
        with pytest.raises(JMSException):
            session.unsubscribe("all")  # it has a subscriber again

    @pytest.mark.realises("BOIL-EXC-5")
    def test_an_unknown_name_is_an_error(self, connect: Connect, shop: JmsConnection) -> None:
        subscribe(connect("till"), "of the till").close()
        for name in ("nothing", "of the till"):
            with pytest.raises(InvalidDestinationException):
                shop.create_session().unsubscribe(name)

    def test_twice_is_an_error(self, shop: JmsConnection) -> None:
        subscribe(shop).close()
        session = shop.create_session()
        session.unsubscribe("all")
        with pytest.raises(InvalidDestinationException):
            session.unsubscribe("all")

    def test_with_an_active_subscriber_it_is_refused(self, shop: JmsConnection, publisher: Session) -> None:
        subscriber = subscribe(shop)
        with pytest.raises(JMSException):
            shop.create_session().unsubscribe("all")
        send_texts(publisher, publisher.create_topic("prices"), "one")
        assert drain(subscriber) == ["one"]

    @pytest.mark.parametrize("transacted", [False, True])
    def test_with_messages_that_are_not_settled_it_is_refused(
        self, shop: JmsConnection, publisher: Session, transacted: bool
    ) -> None:
        session = shop.create_session(transacted, CLIENT)
        topic = session.create_topic("prices")
        subscriber = session.create_durable_subscriber(topic, "all")
        send_texts(publisher, topic, "one")
        message = take(subscriber)
        subscriber.close()
        other = shop.create_session()
        with pytest.raises(JMSException):
            other.unsubscribe("all")
        if transacted:
            session.commit()
        else:
            message.acknowledge()
        other.unsubscribe("all")

    def test_a_session_may_delete_the_subscription_of_another_one(self, connect: Connect, shop: JmsConnection) -> None:
        subscribe(shop).close()
        shop.close()
        session = connect("shop").create_session()
        session.unsubscribe("all")
        with pytest.raises(InvalidDestinationException):  # it is gone
            session.unsubscribe("all")

    def test_while_a_listener_runs_it_is_refused(self, shop: JmsConnection, publisher: Session) -> None:
        session, refused = shop.create_session(), list[type]()

        def work(message: object) -> None:
            try:
                session.unsubscribe("all")
            except JMSException as error:
                refused.append(type(error))

        recorder = Recorder(work)
        session.create_durable_subscriber(session.create_topic("prices"), "all").message_listener = recorder
        send_texts(publisher, publisher.create_topic("prices"), "one")
        recorder.wait_for(1)
        within_patience(shop.close)
        assert refused == [JMSException]


@pytest.mark.realises("BOIL-PUB-8", "BOIL-EXC-5")
def test_a_temporary_topic_has_none(shop: JmsConnection) -> None:
    session = shop.create_session()
    temporary = session.create_temporary_topic()
    with pytest.raises(InvalidDestinationException, match="temporary"):
        session.create_durable_subscriber(temporary, "all")
    with pytest.raises(InvalidDestinationException):
        session.unsubscribe("all")


@pytest.mark.realises("BOIL-PUB-4", "BOIL-PUB-10")
def test_durable_and_other_subscribers_have_their_own_copies(shop: JmsConnection, publisher: Session) -> None:
    topic = publisher.create_topic("prices")
    durable, plain = subscribe(shop), shop.create_session().create_consumer(topic)
    send_texts(publisher, topic, "one", "two")
    assert take_texts(plain, 2) == ["one", "two"]
    durable.close()
    assert take_texts(subscribe(shop), 2) == ["one", "two"]
