"""A temporary destination belongs to its own connection, whatever name others use for it (JMS 1.1 §4.4.3)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    Message,
    Queue,
    Session,
    TemporaryQueue,
    TemporaryTopic,
    TextMessage,
    Topic,
)
from pyjms_provider.broker import stop_broker
from pyjms_provider.queue_manager import QueueManager
from tests.provider.protocols.stomp.server.bench import Bench
from tests.system.network.proxy import Proxy
from tests.system.network.served import anonymous_broker, port_of

_numbers = count(1)


@pytest.fixture(params=["vm", "stomp", "amqp"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "vm":
        name = f"temporaries-{next(_numbers)}"
        yield f"vm://{name}"
        stop_broker(name)
        return
    with anonymous_broker(name=request.param, type=request.param) as broker:
        yield f"{request.param}://127.0.0.1:{port_of(broker)}"


@pytest.fixture
def own(url: str) -> Iterator[Connection]:
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture
def other(url: str) -> Iterator[Connection]:
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        yield connection


def session_of(connection: Connection) -> Session:
    return connection.create_session(False, Session.AUTO_ACKNOWLEDGE)


def send(session: Session, to: Queue | Topic, text: str) -> None:
    session.create_producer(to).send(session.create_text_message(text))


def text_of(message: Message | None) -> str | None:
    assert message is None or isinstance(message, TextMessage)
    return None if message is None else message.text


def guessed(session: Session, destination: TemporaryQueue | TemporaryTopic, how: str) -> Queue | Topic:
    """Return what another connection makes of the name."""
    if isinstance(destination, TemporaryQueue):
        return session.create_queue(destination.queue_name) if how == "name" else destination
    return session.create_topic(destination.topic_name) if how == "name" else destination


@pytest.mark.parametrize("how", ["name", "object"])
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_another_connection_that_guesses_its_name_gets_nothing(
    own: Connection, other: Connection, kind: str, how: str
) -> None:
    session, guesser = session_of(own), session_of(other)
    temporary = session.create_temporary_queue() if kind == "queue" else session.create_temporary_topic()
    consumer = session.create_consumer(temporary)
    wanted = guessed(guesser, temporary, how)
    with pytest.raises(InvalidDestinationException):
        guesser.create_consumer(wanted)
    if isinstance(wanted, Queue):
        with pytest.raises((InvalidDestinationException, JMSSecurityException)):
            list(guesser.create_browser(wanted))
    send(session, temporary, "for its owner")
    assert text_of(consumer.receive(5000)) == "for its owner"


def test_a_message_sent_to_the_mere_name_is_not_lost(own: Connection, other: Connection, url: str) -> None:
    temporary = session_of(own).create_temporary_queue()
    guesser = session_of(other)
    consumer = session_of(own).create_consumer(temporary)
    named = guesser.create_queue(temporary.queue_name)
    if url.startswith("amqp"):  # the name is all that clients of AMQP without JMS say in `reply-to`
        send(guesser, named, "for its owner")
        assert text_of(consumer.receive(5000)) == "for its owner"
    else:
        with pytest.raises(InvalidDestinationException, match="JMSReplyTo"):
            send(guesser, named, "lost")
    send(guesser, temporary, "an answer")
    assert text_of(consumer.receive(5000)) == "an answer"


def test_its_own_connection_may_name_it(own: Connection) -> None:
    session = session_of(own)
    queue, topic = session.create_temporary_queue(), session.create_temporary_topic()
    named = session.create_queue(queue.queue_name)
    send(session, queue, "one")
    assert [text_of(each) for each in session.create_browser(named)] == ["one"]
    consumer = session.create_consumer(named)
    assert text_of(consumer.receive(5000)) == "one"
    with pytest.raises(JMSException):  # it has a consumer
        queue.delete()
    consumer.close()
    queue.delete()
    subscriber = session.create_consumer(session.create_topic(topic.topic_name))
    send(session, topic, "news")
    assert text_of(subscriber.receive(5000)) == "news"


def test_an_operator_may_browse_it() -> None:
    with ConnectionFactory("vm://temporaries-managed").create_connection() as connection:
        session = session_of(connection)
        temporary = session.create_temporary_queue()
        send(session, temporary, "one")
        manager = QueueManager.of("temporaries-managed")
        assert [each.body for each in manager.browse(temporary.queue_name)] == ["one"]
        assert manager.names() == []
    stop_broker("temporaries-managed")


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_it_is_its_own_connections_after_a_reconnect_too(protocol: str) -> None:
    with (
        anonymous_broker(name=protocol, type=protocol) as broker,
        Proxy(("127.0.0.1", port_of(broker)), protocol=protocol) as proxy,
    ):
        reconnecting = f"{protocol}://127.0.0.1:{proxy.port}?reconnect_delay_ms=1"
        with (
            ConnectionFactory(reconnecting).create_connection() as own,
            ConnectionFactory(f"{protocol}://127.0.0.1:{port_of(broker)}").create_connection() as other,
        ):
            own.start()
            other.start()
            session, guesser = session_of(own), session_of(other)
            temporary, requests = session.create_temporary_queue(), session.create_queue("requests")
            consumer = session.create_consumer(temporary)
            proxy.cut_all()
            session.create_temporary_queue()  # comes back when the connection has been made anew
            request = session.create_text_message("request")
            request.jms_reply_to = temporary
            session.create_producer(requests).send(request)
            received = guesser.create_consumer(requests).receive(10_000)
            assert received is not None
            answers = received.jms_reply_to
            assert isinstance(answers, TemporaryQueue)
            for wanted in (answers, guesser.create_queue(answers.queue_name)):
                with pytest.raises(InvalidDestinationException):
                    guesser.create_consumer(wanted)
            send(guesser, answers, "answer")
            assert text_of(consumer.receive(10_000)) == "answer"
            consumer.close()
            send(guesser, answers, "by its name")
            named = session.create_consumer(session.create_queue(temporary.queue_name))
            assert text_of(named.receive(10_000)) == "by its name"


@pytest.mark.parametrize("prefix", ["/queue/", "/temp-queue/"])
@pytest.mark.parametrize("headers", [{}, {"browser": "true"}], ids=["consumer", "browser"])
def test_a_plain_stomp_client_that_guesses_its_name_gets_nothing(prefix: str, headers: dict[str, str]) -> None:
    bench = Bench()
    with ConnectionFactory(f"vm://{bench.broker.name}").create_connection() as own:
        own.start()
        session = session_of(own)
        temporary = session.create_temporary_queue()
        consumer = session.create_consumer(temporary)
        plain = bench.connect()
        plain.send("SUBSCRIBE", id="s", destination=prefix + temporary.queue_name, ack="auto", **headers)
        plain.settle()
        send(session, temporary, "for its owner")
        frames = plain.all()
        assert [frame.command for frame in frames] == ["ERROR"]
        assert text_of(consumer.receive(5000)) == "for its owner"
    bench.close()
