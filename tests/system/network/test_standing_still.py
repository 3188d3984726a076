"""A broker that stands still, as one that was stopped or whose machine swaps: nobody waits for it for ever, and when it goes on,
what it had not answered is told as what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread

import pytest

from pyjms import Connection, ConnectionFactory, DeliveryMode, JMSException, Session, TextMessage
from pyjms_provider.serving.served_broker import ServedBroker
from tests.system.network.proxy import Proxy
from tests.system.network.served import anonymous_broker, port_of

_LIMIT_MS = 700
_SHORT_MS = 60
_PATIENCE_S = 15.0


class Client:
    """One with a transacted session, a consumer and a browser, who has received a message."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        connection.start()
        self.session = connection.create_session(True, Session.SESSION_TRANSACTED)
        self.queue = self.session.create_queue(name)
        self.producer = self.session.create_producer(self.queue)
        self.plain = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self.confirmed = self.plain.create_producer(self.queue)
        self.producer.send(self.session.create_text_message("a"))
        self.session.commit()
        self.consumer = self.session.create_consumer(self.queue)
        assert self.consumer.receive(10_000) is not None
        self.producer.send(self.session.create_text_message("b"))

    def browse(self) -> None:
        with self.plain.create_browser(self.queue) as browser:
            list(browser)


def send_confirmed(client: Client) -> None:
    client.confirmed.send(client.plain.create_text_message("c"), DeliveryMode.PERSISTENT, 4, 0)


def end_a_transaction_of_many(client: Client) -> None:
    for _ in range(50):
        client.producer.send(client.session.create_text_message("x" * 1_000))
    client.session.commit()


ACTS: dict[str, Callable[[Client], object]] = {
    "commit": lambda client: client.session.commit(),
    "commit many": end_a_transaction_of_many,
    "roll back": lambda client: client.session.rollback(),
    "receive_no_wait": lambda client: client.consumer.receive_no_wait(),
    "receive": lambda client: client.consumer.receive(_SHORT_MS),
    "send": send_confirmed,
    "browse": Client.browse,
    "close the consumer": lambda client: client.consumer.close(),
    "close the session": lambda client: client.session.close(),
    "stop": lambda client: client.connection.stop(),
    "close the connection": lambda client: client.connection.close(),
    "open a session": lambda client: client.connection.create_session(True, Session.SESSION_TRANSACTED),
    "temporary queue": lambda client: client.session.create_temporary_queue(),
}


_ASK = ("commit", "commit many", "send", "browse", "open a session", "temporary queue")


@pytest.fixture
def broker() -> Iterator[ServedBroker]:
    with anonymous_broker() as broker:
        yield broker


def test_no_call_waits_for_ever_and_what_was_not_answered_is_told(broker: ServedBroker) -> None:
    limits = f"timeout_ms={_LIMIT_MS}&connect_timeout_ms={_LIMIT_MS}&heart_beat_ms=0"
    outcomes: dict[str, type[JMSException] | None] = {}
    with Proxy(("127.0.0.1", port_of(broker))) as proxy, ExitStack() as stack:
        factory = ConnectionFactory(f"stomp://127.0.0.1:{proxy.port}?{limits}")
        clients = {name: Client(stack.enter_context(factory.create_connection()), name) for name in ACTS}

        def act(name: str, client: Client) -> None:
            try:
                ACTS[name](client)
                outcomes[name] = None
            except JMSException as error:
                outcomes[name] = type(error)
            client.connection.close()

        threads = [Thread(target=act, args=each, name=each[0]) for each in clients.items()]
        with proxy.frozen():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(_PATIENCE_S)
            assert not [thread.name for thread in threads if thread.is_alive()]
    assert not [name for name in _ASK if outcomes[name] is None], "none of these is known to have been done"
    in_doubt = {name: outcomes[name] for name in ("commit", "commit many", "send")}
    assert set(in_doubt.values()) == {JMSException}, f"nobody knows whether they were done: {in_doubt}"
    with ConnectionFactory(f"stomp://127.0.0.1:{port_of(broker)}").create_connection() as connection:
        Client(connection, "afterwards")


def test_a_message_whose_acknowledgement_was_not_answered_reaches_its_receiver(broker: ServedBroker) -> None:
    with Proxy(("127.0.0.1", port_of(broker))) as proxy:
        url = f"stomp://127.0.0.1:{proxy.port}?timeout_ms=1500&heart_beat_ms=0"
        with ConnectionFactory(url).create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            queue = session.create_queue("q")
            producer, consumer = session.create_producer(queue), session.create_consumer(queue)
            for text in "abc":
                producer.send(session.create_text_message(text))
            found = [consumer.receive(10_000)]
            with proxy.frozen():
                found.append(consumer.receive(10_000))
            found.append(consumer.receive(10_000))
        assert [message.text for message in found if isinstance(message, TextMessage)] == ["a", "b", "c"]
