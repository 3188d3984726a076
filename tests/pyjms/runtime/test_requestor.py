"""Requests and replies over temporary destinations (JMS 1.1 §5.10, §6.14)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from pyjms import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Message,
    MessageFormatException,
    QueueConnection,
    QueueRequestor,
    Session,
    TemporaryQueue,
    TemporaryTopic,
    TopicConnection,
    TopicRequestor,
)
from pyjms.runtime.factory import ConnectionFactory, QueueConnectionFactory, TopicConnectionFactory
from pyjms.spi.errors import ProviderError
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    Call,
    WatchedClock,
    drain,
    send_texts,
    take,
    text_of,
    within_patience,
)
from tests.pyjms.runtime.wrapping import Wrapped, raising

KINDS = ["queue", "topic"]


class Client:
    """A session of one domain, its requestor, and the destination of its requests."""

    def __init__(self, kind: str, connection: Any) -> None:
        self.connection = connection
        make = connection.create_queue_session if kind == "queue" else connection.create_topic_session
        self.session: Any = make(False, Session.AUTO_ACKNOWLEDGE)
        self.destination: Any = getattr(self.session, f"create_{kind}")("quotes")
        requestor: Any = QueueRequestor if kind == "queue" else TopicRequestor
        self.requestor = requestor(self.session, self.destination)

    def ask(self, text: str) -> Message | None:
        """Send a request and wait for its reply."""
        reply: Message | None = self.requestor.request(self.session.create_text_message(text))
        return reply


@pytest.fixture
def queues(jms_connection_factory: ConnectionFactory) -> Iterator[QueueConnection]:
    """A started queue connection."""
    with jms_connection_factory.create_queue_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture
def topics(jms_connection_factory: ConnectionFactory) -> Iterator[TopicConnection]:
    """A started topic connection."""
    with jms_connection_factory.create_topic_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, queues: QueueConnection, topics: TopicConnection) -> Client:
    """A client of either domain."""
    return Client(request.param, queues if request.param == "queue" else topics)


def serve(connect: Connect, destination: Any, replies: int = 1) -> list[Message]:
    """Answer each request by a listener of another connection; return the list of the requests."""
    session, requests = connect().create_session(), list[Message]()
    producer = session.create_producer(None)

    def answer(message: Message) -> None:
        requests.append(message)
        for number in range(replies):
            reply = session.create_text_message(f"{text_of(message)}! {number}")
            reply.jms_correlation_id = message.jms_message_id
            reply_to = message.jms_reply_to
            assert reply_to is not None
            with suppress(InvalidDestinationException):  # whoever has asked waits no more
                producer.send(reply_to, reply)

    session.create_consumer(destination).message_listener = answer
    return requests


@pytest.mark.realises("BOIL-PTP-5", "BOIL-PUB-14", "BOIL-TEMP-1")
def test_a_request_brings_its_reply(connect: Connect, client: Client) -> None:
    requests = serve(connect, client.destination)
    for text in ("espresso", "latte", "mocha"):
        reply = within_patience(client.ask, text)
        assert text_of(reply) == f"{text}! 0"
        assert reply is not None
        assert reply.jms_correlation_id == requests[-1].jms_message_id
    reply_to = {request.jms_reply_to for request in requests}
    assert len(reply_to) == 1
    assert isinstance(reply_to.pop(), (TemporaryQueue, TemporaryTopic))


@pytest.mark.realises("BOIL-PTP-5", "BOIL-PUB-14")
def test_the_requests_reply_address_is_the_requestors_own(connect: Connect, client: Client) -> None:
    requests = serve(connect, client.destination)
    question = client.session.create_text_message("espresso")
    question.jms_reply_to = client.session.create_queue("mine") if hasattr(client.session, "create_sender") else None
    within_patience(client.requestor.request, question)
    assert isinstance(requests[0].jms_reply_to, (TemporaryQueue, TemporaryTopic))
    assert question.jms_reply_to == requests[0].jms_reply_to


@pytest.mark.parametrize("wrong", [None, "espresso"])
def test_what_is_no_message_is_refused_as_a_producer_does(client: Client, wrong: Any) -> None:
    with pytest.raises(MessageFormatException, match="is no JMS message: make one with"):
        client.requestor.request(wrong)


def test_two_clients_do_not_get_each_others_replies(
    connect: Connect, jms_connection_factory: ConnectionFactory
) -> None:
    connections = [jms_connection_factory.create_queue_connection() for _ in range(4)]
    clients = [Client("queue", connection) for connection in connections]
    serve(connect, clients[0].destination)

    def ask_often(client: Client, number: int) -> list[str | None]:
        return [text_of(client.ask(f"{number}-{turn}")) for turn in range(20)]

    for connection in connections:
        connection.start()
    calls = [Call(ask_often, client, number) for number, client in enumerate(clients)]
    for number, call in enumerate(calls):
        assert call.result() == [f"{number}-{turn}! 0" for turn in range(20)]
    for connection in connections:
        connection.close()


def test_who_asks_before_there_is_a_server_waits(
    virtual_clock: WatchedClock, connect: Connect, queues: QueueConnection
) -> None:
    client = Client("queue", queues)
    asking = Call(client.ask, "espresso")
    virtual_clock.await_blocked(asking)
    serve(connect, client.destination)
    assert text_of(asking.result()) == "espresso! 0"


@pytest.mark.realises("BOIL-PTP-5", "BOIL-PUB-14")
def test_closing_it_closes_the_session_and_deletes_the_reply_address(connect: Connect, client: Client) -> None:
    requests = serve(connect, client.destination)
    within_patience(client.ask, "espresso")
    client.requestor.close()
    with pytest.raises(IllegalStateException):
        client.session.create_message()
    session = connect().create_session()
    reply_to = requests[0].jms_reply_to
    assert reply_to is not None
    with pytest.raises(InvalidDestinationException):
        send_texts(session, reply_to, "late")
    with pytest.raises(IllegalStateException):
        within_patience(client.requestor.request, session.create_text_message("late"))


@pytest.mark.parametrize("kind", KINDS)
def test_closing_it_closes_the_session_though_its_reply_address_stays(wrapped: Wrapped, kind: str) -> None:
    factory: Any = QueueConnectionFactory if kind == "queue" else TopicConnectionFactory
    create = f"create_{kind}_connection"
    with getattr(factory(wrapped.url), create)() as connection:
        client = Client(kind, connection)
        wrapped.before["delete_temporary"] = raising(ProviderError("somebody else consumes it"))
        with pytest.raises(JMSException, match="somebody else"):
            client.requestor.close()
        with pytest.raises(IllegalStateException):
            client.session.create_message()


def test_it_can_be_closed_in_any_order(client: Client) -> None:
    client.session.close()
    client.requestor.close()
    client.requestor.close()
    client.connection.close()
    client.requestor.close()


def test_closing_it_while_it_waits(virtual_clock: WatchedClock, client: Client) -> None:
    asking = Call(client.ask, "espresso")
    virtual_clock.await_blocked(asking)
    within_patience(client.requestor.close)
    assert asking.result() is None
    with pytest.raises(IllegalStateException):
        client.session.create_message()


@pytest.mark.realises("BOIL-EXC-5")
@pytest.mark.parametrize("wrong", [None, "quotes", 5])
def test_it_needs_a_destination(client: Client, wrong: Any) -> None:
    with pytest.raises(InvalidDestinationException):
        type(client.requestor)(client.session, wrong)


def test_it_needs_an_open_session(client: Client) -> None:
    client.session.close()
    with pytest.raises(JMSException):
        type(client.requestor)(client.session, client.destination)


@pytest.mark.parametrize("kind", KINDS)
def test_a_transacted_session_is_refused_rather_than_waited_for(
    jms_connection_factory: ConnectionFactory, kind: str
) -> None:
    """Its request would never be sent: the session must not be transacted, and nothing may hang."""
    connection: Any = getattr(jms_connection_factory, f"create_{kind}_connection")()
    session = connection.create_session(True, 0)
    requestor: Any = QueueRequestor if kind == "queue" else TopicRequestor
    try:
        with pytest.raises(JMSException):
            within_patience(
                lambda: requestor(session, getattr(session, f"create_{kind}")("quotes")).request(
                    session.create_message()
                )
            )
    finally:
        connection.close()


def test_a_refused_requestor_leaves_nothing_behind(connect: Connect, queues: QueueConnection) -> None:
    """A wrong destination is found before a reply queue and its consumer are made."""
    session = queues.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)
    with pytest.raises(InvalidDestinationException):
        QueueRequestor(session, session.create_queue("x").queue_name)  # type: ignore[arg-type]
    queue = session.create_queue("orders")
    send_texts(session, queue, "espresso")
    assert drain(session.create_receiver(queue)) == ["espresso"]


def made_temporary(wrapped: Wrapped) -> list[str]:
    """Return the calls that made, and deleted, temporary destinations."""
    return [call for call in wrapped.calls if call in ("create_temporary", "delete_temporary")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", ["common", "other domain", "none"])
def test_it_says_which_session_it_needs(wrapped: Wrapped, kind: str, given: str) -> None:
    requestor: Any = QueueRequestor if kind == "queue" else TopicRequestor
    with ExitStack() as closing:
        common = closing.enter_context(ConnectionFactory(wrapped.url).create_connection()).create_session()
        queues = closing.enter_context(QueueConnectionFactory(wrapped.url).create_queue_connection())
        topics = closing.enter_context(TopicConnectionFactory(wrapped.url).create_topic_connection())
        others = {"queue": topics.create_topic_session, "topic": queues.create_queue_session}
        session: Any = {"common": common, "other domain": others[kind](), "none": None}[given]
        destination = getattr(common, f"create_{kind}")("quotes")
        with pytest.raises(JMSException, match=rf"needs a {kind.title()}Session.*create_{kind}_session"):
            requestor(session, destination)
        assert made_temporary(wrapped) == []
        assert "subscribe" not in wrapped.calls


@pytest.mark.parametrize("kind", KINDS)
def test_it_refuses_a_destination_of_the_other_domain_first(wrapped: Wrapped, kind: str) -> None:
    factory: Any = QueueConnectionFactory if kind == "queue" else TopicConnectionFactory
    requestor: Any = QueueRequestor if kind == "queue" else TopicRequestor
    with ConnectionFactory(wrapped.url).create_connection() as other:
        common = other.create_session()
        wrong = common.create_topic("quotes") if kind == "queue" else common.create_queue("quotes")
        with getattr(factory(wrapped.url), f"create_{kind}_connection")() as connection:
            session = getattr(connection, f"create_{kind}_session")()
            with pytest.raises(InvalidDestinationException):
                requestor(session, wrong)
            assert made_temporary(wrapped) == []


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_cannot_be_made_leaves_no_temporary_destination(jms_broker_url: str, kind: str) -> None:
    factory: Any = QueueConnectionFactory if kind == "queue" else TopicConnectionFactory
    with (
        Wrapped(jms_broker_url) as wrapped,
        getattr(factory(wrapped.url), f"create_{kind}_connection")() as connection,
    ):
        wrapped.before["subscribe"] = raising(ProviderError("too many consumers"))
        with pytest.raises(JMSException, match="too many"):
            Client(kind, connection)
        assert made_temporary(wrapped) == ["create_temporary", "delete_temporary"]


def test_only_the_first_reply_of_a_topic_counts(connect: Connect, topics: TopicConnection) -> None:
    client = Client("topic", topics)
    serve(connect, client.destination)
    assert text_of(within_patience(client.ask, "espresso")) == "espresso! 0"


@pytest.mark.realises("BOIL-TEMP-1")
def test_by_hand_over_a_temporary_queue(connect: Connect) -> None:
    """The way of most programs: a consumer of its own, replies told apart by correlation."""
    session = connect().create_session()
    quotes, replies = session.create_queue("quotes"), session.create_temporary_queue()
    serve(connect, quotes)
    with session.create_producer(quotes) as producer, session.create_consumer(replies) as consumer:
        ids = []
        for text in ("espresso", "latte"):
            question = session.create_text_message(text)
            question.jms_reply_to = replies
            producer.send(question)
            ids.append(question.jms_message_id)
        got = [take(consumer) for _ in range(2)]
    assert [(reply.jms_correlation_id, text_of(reply)) for reply in got] == [
        (ids[0], "espresso! 0"),
        (ids[1], "latte! 0"),
    ]
