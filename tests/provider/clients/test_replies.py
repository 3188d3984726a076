"""What becomes of a unit of work that answers a requester who is gone, or who may not be answered: the unit goes on without that
answer, in this process and over STOMP, in a transaction and in a branch of a distributed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final
from urllib.parse import quote

import pytest

from pyjms import (
    DeliveryMode,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    ResourceAllocationException,
    Session,
    TransactionRolledBackException,
    XAConnectionFactory,
    XAException,
    XAResource,
)
from pyjms_provider.broker import stop_broker
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.xa.coordinator import BranchId

PATIENCE_MS: Final = 10_000
MODES: Final = [DeliveryMode.NON_PERSISTENT, DeliveryMode.PERSISTENT]
_numbers = count(1)


@contextmanager
def served(store: Path, protocol: str = "stomp") -> Iterator[str]:
    """Give the URL of a broker on a socket, where nobody may write to the queue `private`."""
    with ServedBroker.open() as opened:
        top = opened.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        deny = {"effect": "deny", "who": "*", "operations": ["write"], "kind": "queue", "name": "private"}
        top.create_child("access_control", {"name": "access", "rules": [deny, {"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        host: Any = node.create_child("virtual_host", {"name": "broker", "store_url": f"sqlite:///{store}"})
        host.create_child("queue", {"name": "narrow", "max_messages": 1, "overflow": "reject"})
        port = {"name": protocol, "type": protocol, "host": "127.0.0.1", "transports": ["tcp"], "port": 0}
        top.create_child("port", port | {"authentication_providers": ["anonymous"], "access_control": "access"})
        yield f"{protocol}://127.0.0.1:{opened.addresses()[0].rpartition(':')[2]}"


@contextmanager
def embedded(store: Path) -> Iterator[str]:
    """Give the URL of a broker in this process."""
    url = f"vm://replies?store={quote(f'sqlite:///{store}', safe='')}&synchronous=off"
    with XAConnectionFactory(url).create_connection():
        QueueManager.of("replies").create("narrow", QueuePolicy(max_messages=1, overflow=Overflow.REJECT))
        yield url
    stop_broker("replies")


@pytest.fixture(params=[embedded, served, partial(served, protocol="amqp")], ids=["vm", "stomp", "amqp"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with request.param(tmp_path / "broker.db") as opened:
        yield opened


@pytest.fixture
def stomp_url(tmp_path: Path) -> Iterator[str]:
    with served(tmp_path / "broker.db") as opened:
        yield opened


@dataclass
class Server:
    """Takes requests and answers them, each in a unit of work."""

    session: Session
    begin: Callable[[], None]
    commit: Callable[[], None]
    told: SimpleQueue[JMSException]
    """What its exception listener heard."""

    def __post_init__(self) -> None:
        self.requests = self.session.create_consumer(self.session.create_queue("requests"))
        self.producer = self.session.create_producer(None)
        self.book = self.session.create_producer(self.session.create_queue("book"))

    def take(self) -> Any:
        """Take a request."""
        message = self.requests.receive(PATIENCE_MS)
        assert message is not None, "there is no request"
        return message

    def answer(self, to: Any, mode: int) -> None:
        """Send an answer."""
        self.producer.send(to, self.session.create_text_message("answer"), mode, 4, 0)

    def note(self, text: str) -> None:
        """Send what others than the requester are to know."""
        self.book.send(self.session.create_text_message(text))


class Shop:
    """A server, requesters with a connection each, and who looks what is in the queues."""

    def __init__(self, url: str, unit: str, opened: ExitStack) -> None:
        self._opened = opened
        self._factory = XAConnectionFactory(url)
        told: SimpleQueue[JMSException] = SimpleQueue()
        if unit == "transaction":
            connection = self._connect()
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            self.server = Server(session, lambda: None, session.commit, told)
        else:
            connection = opened.enter_context(self._factory.create_xa_connection())
            connection.start()
            self.server = _in_branches(connection.create_xa_session(), told)
        connection.exception_listener = told.put
        self._session = self._connect().create_session()

    def _connect(self) -> Any:
        connection = self._opened.enter_context(self._factory.create_connection())
        connection.start()
        return connection

    def requester(self) -> tuple[Any, Session]:
        """Return the connection of a new requester, and its session."""
        connection = self._connect()
        return connection, connection.create_session()

    def ask(self, session: Session, to: Any) -> None:
        """Send a request that is to be answered there."""
        message = session.create_text_message("request")
        message.jms_reply_to = to
        session.create_producer(session.create_queue("requests")).send(message)

    def wait_until_gone(self, destination: Any) -> None:
        """Return when the broker has heard that the one who made a temporary destination has left."""
        message = self._session.create_text_message("is anybody there?")
        with self._session.create_producer(destination) as producer, pytest.raises(InvalidDestinationException):
            while True:  # until the test takes too long; each is answered
                producer.send(message)

    def queue(self, name: str) -> Any:
        """Return a queue, as everybody may name it."""
        return self._session.create_queue(name)

    def texts(self, name: str) -> list[str]:
        """Return what is in a queue."""
        with self._session.create_browser(self.queue(name)) as browser:
            return [message.text for message in browser]


def _in_branches(session: Any, told: SimpleQueue[JMSException]) -> Server:
    """Return a server, each of whose units is a branch that is prepared and committed."""
    resource, names = session.xa_resource, (BranchId(f"t{number}", "broker") for number in _numbers)
    branch = [next(names)]

    def begin() -> None:
        branch[0] = next(names)
        resource.start(branch[0], XAResource.TMNOFLAGS)

    def commit() -> None:
        resource.end(branch[0], XAResource.TMSUCCESS)
        if resource.prepare(branch[0]) == XAResource.XA_OK:
            resource.commit(branch[0], False)

    return Server(session.session, begin, commit, told)


@pytest.fixture(params=["transaction", "branch"])
def unit(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def shop(url: str, unit: str) -> Iterator[Shop]:
    with ExitStack() as opened:
        yield Shop(url, unit, opened)


@pytest.fixture
def remote_shop(stomp_url: str, unit: str) -> Iterator[Shop]:
    with ExitStack() as opened:
        yield Shop(stomp_url, unit, opened)


def take_request(shop: Shop, kind: str) -> tuple[Any, Any, Any]:
    """Have a requester ask, and the request taken in a new unit; return his connection, his temporary destination, and what the request calls that."""
    connection, session = shop.requester()
    destination = session.create_temporary_queue() if kind == "queue" else session.create_temporary_topic()
    shop.ask(session, destination)
    shop.server.begin()
    return connection, destination, shop.server.take().jms_reply_to


def leave_by_closing(connection: Any, _: Any) -> None:
    connection.close()


def leave_by_deleting(_: Any, destination: Any) -> None:
    destination.delete()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("leave", [leave_by_closing, leave_by_deleting])
@pytest.mark.parametrize("kind", ["queue", "topic"])
class TestARequesterThatIsGone:
    def test_is_told_to_who_answers_and_the_unit_goes_on(
        self, shop: Shop, kind: str, leave: Callable[[Any, Any], None], mode: int
    ) -> None:
        server = shop.server
        connection, destination, wanted_at = take_request(shop, kind)
        leave(connection, destination)
        shop.wait_until_gone(wanted_at)
        with pytest.raises(InvalidDestinationException) as caught:
            server.answer(wanted_at, mode)
        assert caught.value.error_code == "PYJMS-DESTINATION"
        server.note("nobody to answer")
        server.commit()
        assert (shop.texts("requests"), shop.texts("book")) == ([], ["nobody to answer"])

    def test_before_the_commit_the_answer_goes_with_its_destination(
        self, shop: Shop, kind: str, leave: Callable[[Any, Any], None], mode: int
    ) -> None:
        server = shop.server
        connection, destination, wanted_at = take_request(shop, kind)
        server.answer(wanted_at, mode)
        server.note("answered")
        leave(connection, destination)
        shop.wait_until_gone(wanted_at)
        server.commit()
        assert (shop.texts("requests"), shop.texts("book")) == ([], ["answered"])


def answer_one(shop: Shop, mode: int) -> Any:
    """Have a requester served that asks a second time and goes; that request is taken in a new unit. Return where its answer would go."""
    connection, session = shop.requester()
    destination, server = session.create_temporary_queue(), shop.server
    answers = session.create_consumer(destination)
    for _ in range(2):
        shop.ask(session, destination)
    server.begin()
    server.answer(server.take().jms_reply_to, mode)
    server.commit()
    assert answers.receive(PATIENCE_MS) is not None
    server.begin()
    gone = server.take().jms_reply_to
    connection.close()
    shop.wait_until_gone(gone)
    return gone


def test_one_that_has_gone_since_its_last_answer_is_told_too(shop: Shop) -> None:
    gone = answer_one(shop, DeliveryMode.PERSISTENT)
    with pytest.raises(InvalidDestinationException):
        shop.server.answer(gone, DeliveryMode.PERSISTENT)
    shop.server.note("nobody to answer")
    shop.server.commit()
    assert (shop.texts("requests"), shop.texts("book")) == ([], ["nobody to answer"])


def test_over_a_network_a_non_persistent_answer_to_it_is_told_of_to_the_exception_listener_and_the_next_one_by_send(
    remote_shop: Shop,
) -> None:
    server = remote_shop.server
    gone = answer_one(remote_shop, DeliveryMode.NON_PERSISTENT)
    server.answer(gone, DeliveryMode.NON_PERSISTENT)
    server.note("unanswered")
    server.commit()
    assert server.told.get(timeout=PATIENCE_MS / 1000).error_code == "PYJMS-DESTINATION"
    assert (remote_shop.texts("requests"), remote_shop.texts("book")) == ([], ["unanswered"])
    server.begin()
    with pytest.raises(InvalidDestinationException):
        server.answer(gone, DeliveryMode.NON_PERSISTENT)
    server.note("nobody to answer")
    server.commit()
    assert remote_shop.texts("book") == ["unanswered", "nobody to answer"]


@pytest.mark.parametrize("mode", MODES)
def test_a_destination_of_the_servers_own_that_was_deleted_is_told_of_each_time(shop: Shop, mode: int) -> None:
    server = shop.server
    server.begin()
    own = server.session.create_temporary_queue()
    server.answer(own, mode)
    server.commit()
    server.begin()
    own.delete()
    with pytest.raises(InvalidDestinationException):
        server.answer(own, mode)
    server.note("deleted")
    server.commit()
    assert shop.texts("book") == ["deleted"]


@pytest.mark.parametrize("mode", MODES)
def test_a_queue_without_room_is_told_to_who_answers_and_the_unit_goes_on(shop: Shop, mode: int) -> None:
    _, session = shop.requester()
    session.create_producer(shop.queue("narrow")).send(session.create_text_message("x"))
    shop.ask(session, shop.queue("narrow"))
    server = shop.server
    server.begin()
    request = server.take()
    with pytest.raises(ResourceAllocationException) as caught:
        server.answer(request.jms_reply_to, mode)
    assert caught.value.error_code == "PYJMS-QUEUE-FULL"
    server.note("no room")
    server.commit()
    assert (shop.texts("requests"), shop.texts("book"), shop.texts("narrow")) == ([], ["no room"], ["x"])


@pytest.mark.parametrize("mode", MODES)
def test_a_requester_names_a_queue_that_the_server_may_not_write_to_and_holds_nobody_up(
    remote_shop: Shop, mode: int
) -> None:
    _, session = remote_shop.requester()
    remote_shop.ask(session, remote_shop.queue("private"))
    server = remote_shop.server
    server.begin()
    request = server.take()
    with pytest.raises(JMSSecurityException):
        server.answer(request.jms_reply_to, mode)
    server.note("not allowed")
    server.commit()
    assert (remote_shop.texts("requests"), remote_shop.texts("book")) == ([], ["not allowed"])


def test_a_queue_that_has_filled_since_it_took_an_answer_is_told_of_by_send_the_second_time(
    remote_shop: Shop, unit: str
) -> None:
    _, session = remote_shop.requester()
    shop, server, narrow = remote_shop, remote_shop.server, remote_shop.queue("narrow")
    shop.ask(session, narrow)
    server.begin()
    server.answer(server.take().jms_reply_to, DeliveryMode.PERSISTENT)
    server.commit()
    shop.ask(session, narrow)
    server.begin()
    server.answer(server.take().jms_reply_to, DeliveryMode.PERSISTENT)  # to a queue it is not asked for each message
    with pytest.raises(
        TransactionRolledBackException if unit == "transaction" else XAException, match="narrow is full"
    ):
        server.commit()
    assert server.told.get(timeout=PATIENCE_MS / 1000).error_code == "PYJMS-QUEUE-FULL"
    server.begin()
    with pytest.raises(ResourceAllocationException):
        server.answer(narrow, DeliveryMode.PERSISTENT)
    server.note("no room")
    server.commit()
    assert shop.texts("book") == ["no room"]
