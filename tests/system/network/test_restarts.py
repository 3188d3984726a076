"""A broker that is stopped in order and started again, and one that dies while another stands by: clients keep their
connections, and miss nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Condition, Event
from typing import TypeAlias

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    Destination,
    JMSException,
    Message,
    MessageConsumer,
    Session,
    TextMessage,
)
from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_tck.background import Background
from tests.ports import free_port
from tests.provider.commands.served import BrokerProcess

_RESTARTS = 2
_BETWEEN = 20
"""So many messages come to everybody between two restarts."""
_PATIENCE_S = 90.0
_WAIT_MS = 100
_PAUSE_S = 0.002

PROTOCOLS = pytest.mark.parametrize("protocol", ["stomp", "amqp"])

Work: TypeAlias = Callable[[], None]


class Tally:
    """What came to whom."""

    def __init__(self, *names: str) -> None:
        self._changed = Condition()
        self._came: dict[str, set[str]] = {name: set() for name in names}

    def add(self, name: str, message: Message) -> None:
        assert isinstance(message, TextMessage)
        with self._changed:
            self._came[name].add(message.text or "")
            self._changed.notify_all()

    def grow(self, number: int) -> None:
        """Wait until so many more came to each than now to anybody."""
        with self._changed:
            least = max(map(len, self._came.values())) + number
        self.until(lambda came: len(came) >= least)

    def until(self, condition: Callable[[set[str]], bool]) -> None:
        """Wait until what came to each fulfils `condition`."""
        with self._changed:
            found = self._changed.wait_for(lambda: all(map(condition, self._came.values())), _PATIENCE_S)
            assert found, {name: len(came) for name, came in self._came.items()}


class Clients:
    """One connection with a listener, a durable subscriber that acknowledges, and one who receives in transactions; another that sends."""

    def __init__(self, connection: Connection, sending: Connection) -> None:
        self.tally = Tally("listener", "durable", "transacted")
        self.is_enough, self.is_over = Event(), Event()
        self.sent: list[str] = []
        self.failures: set[str | None] = set()
        """Of sends."""
        self._connection, self._sending = connection, sending

    def begin(self) -> Iterator[Work]:
        """Make the consumers; yield what is to be done on threads until it is over."""
        listening = self._connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        first = listening.create_queue("first")
        listening.create_consumer(first).message_listener = lambda message: self.tally.add("listener", message)
        durable = self._connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        topic = durable.create_topic("news")
        subscriber = durable.create_durable_subscriber(topic, "reader")
        transacted = self._connection.create_session(True, Session.SESSION_TRANSACTED)
        second = transacted.create_queue("second")
        taker = transacted.create_consumer(second)
        self._connection.start()
        yield lambda: self._receive("durable", subscriber, lambda message: message.acknowledge())
        yield lambda: self._receive("transacted", taker, lambda _: transacted.commit())
        yield lambda: self._send(first, second, topic)

    def _receive(self, name: str, consumer: MessageConsumer, done: Callable[[Message], None]) -> None:
        while not self.is_over.is_set():
            message = consumer.receive(_WAIT_MS)  # which never fails
            if message is not None:
                with suppress(JMSException):  # in doubt, or too late: it may come again
                    done(message)
                self.tally.add(name, message)

    def _send(self, *destinations: Destination) -> None:
        session = self._sending.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(None)
        while not self.is_enough.wait(_PAUSE_S):
            text = str(len(self.sent))
            for destination in destinations:
                while not self._is_sent(partial(producer.send, destination, session.create_text_message(text))):
                    pass
            self.sent.append(text)

    def _is_sent(self, send: Work) -> bool:
        try:
            send()
        except JMSException as error:
            self.failures.add(error.error_code)
            return False
        return True


@PROTOCOLS
@pytest.mark.timeout(300)  # a busy machine starts a broker slowly
def test_clients_keep_their_connections_and_miss_nothing_when_a_broker_is_restarted(
    protocol: str, tmp_path: Path
) -> None:
    options = ("--anonymous", "--store", "sqlite:///broker.db")
    with ExitStack() as made:
        url = f"{protocol}://127.0.0.1:{free_port()}"  # which nobody else is given while the broker is away
        broker = BrokerProcess(tmp_path, "--listen", url, *options)
        made.callback(broker.end)
        assert broker.announced(protocol) == [url]
        with working(f"{url}?reconnect_delay_max_ms=100") as clients:
            for _ in range(_RESTARTS):
                clients.tally.grow(_BETWEEN)
                assert broker.end() == 0
                broker = BrokerProcess(tmp_path, "--listen", url, *options)
                made.callback(broker.end)
                assert broker.announced(protocol) == [url]


@PROTOCOLS
@pytest.mark.timeout(300)  # a busy machine starts a broker slowly
def test_clients_go_on_with_the_broker_that_stood_by_when_the_other_one_dies(protocol: str, tmp_path: Path) -> None:
    ports = [free_port() for _ in range(2)]
    urls = [f"{protocol}://127.0.0.1:{port}" for port in ports]
    folders = [configured(tmp_path / str(port), port, f"sqlite:///{tmp_path}/shop.db", protocol) for port in ports]
    with ExitStack() as made:

        def start(number: int) -> BrokerProcess:
            broker = BrokerProcess(folders[number], "broker.toml")
            made.callback(broker.end, signal.SIGKILL)
            return broker

        brokers = [start(0)]
        assert brokers[0].announced(protocol) == urls[:1]
        brokers.append(start(1))
        with working(f"{urls[0]}?failover=127.0.0.1:{ports[1]}&reconnect_delay_max_ms=100") as clients:
            for active in (0, 1):
                waiting = brokers[1 - active]
                clients.tally.grow(_BETWEEN)
                waiting.await_log("PYJMS-STORE-5 waiting to take over")
                brokers[active].end(signal.SIGKILL)
                assert waiting.announced(protocol) == [urls[1 - active]]
                brokers[active] = start(active)


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_broker_that_stands_by_ends_in_order(ending: signal.Signals, code: int, tmp_path: Path) -> None:
    store_url = f"sqlite:///{tmp_path}/shop.db"
    folders = [configured(tmp_path / name, 0, store_url) for name in ("serving", "waiting")]
    with ExitStack() as made:
        brokers = []
        for folder, says in zip(folders, ("PYJMS-NET-2", "PYJMS-STORE-5 waiting to take over"), strict=True):
            # A shell that runs the tests in the background has them ignore Ctrl-C, and a process inherits that.
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                brokers.append(BrokerProcess(folder, "broker.toml"))
            finally:
                signal.signal(signal.SIGINT, before)
            made.callback(brokers[-1].end, signal.SIGKILL)
            brokers[-1].await_log(says)
        serving, waiting = brokers
        assert waiting.end(ending) == code
        assert "ERROR" not in waiting.log
        assert (
            "INFO pyjms_provider.model.configured PYJMS-MODEL-2 virtual_host shop/shop could not be opened"
            in waiting.log
        )
        assert serving.end() == 0


@contextmanager
def working(url: str) -> Iterator[Clients]:
    """Have clients at work meanwhile; afterwards they must have missed nothing, and have been told of each of `_RESTARTS`."""
    told: list[str | None] = []
    factory = ConnectionFactory(url)
    with ExitStack() as made:
        connection, sending = (made.enter_context(factory.create_connection()) for _ in range(2))
        connection.client_id = "reader"
        connection.exception_listener = lambda error: told.append(error.error_code)
        clients = Clients(connection, sending)
        for event in (clients.is_enough, clients.is_over):
            made.callback(event.set)
        receivers_and_sender = [Background(work, _PATIENCE_S) for work in clients.begin()]
        yield clients
        clients.tally.grow(_BETWEEN)
        clients.is_enough.set()
        receivers_and_sender.pop().result()
        clients.tally.until(lambda came: came == set(clients.sent))
        clients.is_over.set()
        for each in receivers_and_sender:
            each.result()
        assert told == ["PYJMS-INTERRUPTED"] * _RESTARTS
        assert connection.state == sending.state == "connected"
        assert clients.failures <= {"PYJMS-IN-DOUBT"}


def configured(folder: Path, port: int, store_url: str, protocol: str = "stomp") -> Path:
    """Write the configuration of a broker that waits for a store, and return its folder."""
    folder.mkdir()
    with ServedBroker.open(
        TomlConfigurationStore(folder / "broker.toml"), context={"pyjms.work_dir": str(folder)}
    ) as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "who", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "shop", "type": "json"})
        node.create_child("virtual_host", {"name": "shop", "store_url": store_url, "stand_by": "wait"})
        chosen = {"transports": ["tcp"], "authentication_providers": ["who"], "access_control": "access"}
        top.create_child("port", {"name": protocol, "type": protocol, "host": "127.0.0.1", "port": port, **chosen})
    return folder
