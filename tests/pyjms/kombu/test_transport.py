"""URLs, credentials, and what becomes of a connection: refused, lost, made anew, forked."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any, NoReturn

import billiard
import pytest
from kombu import Connection, Consumer, Queue
from kombu.exceptions import OperationalError
from kombu.message import Message

from pyjms.kombu import Transport
from pyjms.spi.errors import AccessDeniedError, ConnectionLostError, ResourceError, UrlError
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, Provider
from pyjms.spi.registry import register_provider
from pyjms_provider.broker import stop_broker
from pyjms_provider.clients.vm import VmConnection
from tests.ports import free_port
from tests.system.network.served import anonymous_broker, port_of

LONG_S = 10


class Probe(Provider):
    """Refuses everybody, and remembers what they asked for."""

    def __init__(self) -> None:
        self.asked: list[ConnectRequest] = []
        self.knows = {"prefetch_messages", "connect_timeout_ms", "dialect"}

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> NoReturn:
        unknown = set(request.url.options) - self.knows
        if unknown:
            raise UrlError(f"unknown: {unknown}")
        self.asked.append(request)
        raise AccessDeniedError("nobody comes in")


@pytest.fixture
def probe() -> Iterator[Probe]:
    provider = Probe()
    register_provider("probe", provider)
    yield provider
    register_provider("probe", None)


def ask(probe: Probe, connection: Connection) -> ConnectRequest:
    """Return what a connection asks its provider for."""
    with pytest.raises(AccessDeniedError):
        connection.connect()
    return probe.asked[-1]


# URLs


@pytest.mark.parametrize(
    "connection",
    [
        Connection("pyjms+probe://me:se%40cret@host:1/?dialect=activemq"),
        Connection("pyjms+probe://host:1/?dialect=activemq", userid="me", password="se@cret"),
        Connection("probe://me:se%40cret@host:1/?dialect=activemq", transport="pyjms.kombu:Transport"),
        Connection("probe://me:se%40cret@host:1/?dialect=activemq", transport=Transport),
    ],
    ids=["in the URL", "beside it", "transport by its path", "transport as a class"],
)
def test_credentials_are_used_and_not_shown(probe: Probe, connection: Connection) -> None:
    for each in (connection, connection.clone(), pickle.loads(pickle.dumps(connection))):
        request = ask(probe, each)
        assert (request.user_name, request.password) == ("me", "se@cret")
        assert (request.url.host, request.url.port, request.url.options["dialect"]) == ("host", 1, "activemq")
        told = {**each.info(), "password": None}
        for text in (repr(each), each.as_uri(), repr(told), str(told)):
            assert "cret" not in text
        assert each.as_uri() == "pyjms+probe://me:**@host:1/?dialect=**"
        assert each.as_uri(include_password=True) == "pyjms+probe://me:se%40cret@host:1/?dialect=activemq"


@pytest.mark.parametrize("url", ["probe://host", "probe://host?x=a@b/c", "probe://host/path@x", "probe+ws://h:1"])
def test_a_url_without_credentials_stays_as_it_is(url: str) -> None:
    connection = Connection(f"pyjms+{url}")
    assert connection.as_uri(include_password=True) == f"pyjms+{url}"
    assert connection.info()["hostname"] == f"pyjms+{url}"


def test_a_wrong_url_says_what_is_wrong() -> None:
    with pytest.raises(UrlError, match="it lacks SCHEME://"):
        Connection("shop", transport="pyjms").connect()
    with pytest.raises(UrlError, match="once"):
        Connection("pyjms+vm://shop?once=1").connect()


def test_nothing_is_fetched_ahead_unless_the_url_says_so(probe: Probe) -> None:
    connection = Connection("pyjms+probe://host", connect_timeout=4)
    assert dict(ask(probe, connection).url.options) == {"prefetch_messages": "1", "connect_timeout_ms": "4000"}
    chosen = Connection("pyjms+probe://host?prefetch_messages=20&connect_timeout_ms=1")
    assert dict(ask(probe, chosen).url.options) == {"prefetch_messages": "20", "connect_timeout_ms": "1"}
    probe.knows = {"dialect"}
    assert dict(ask(probe, Connection("pyjms+probe://host?dialect=artemis")).url.options) == {"dialect": "artemis"}


# Connections that fail


def test_who_is_refused_does_not_try_again(probe: Probe) -> None:
    with pytest.raises(AccessDeniedError):
        Connection("pyjms+probe://host").ensure_connection(max_retries=3)
    assert len(probe.asked) == 1


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_nobody_there(protocol: str) -> None:
    connection = Connection(f"pyjms+{protocol}://127.0.0.1:{free_port()}")
    with pytest.raises(OperationalError, match="see whether the broker runs") as raised:
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
    assert isinstance(raised.value.__cause__, ResourceError)
    assert issubclass(ResourceError, connection.connection_errors)


def waiting(connection: Connection) -> tuple[Thread, list[BaseException]]:
    """Return a thread that waits for messages, and where its error comes."""
    errors: list[BaseException] = []
    begun = Event()

    def wait() -> None:
        try:
            begun.set()
            connection.drain_events(timeout=LONG_S)
        except connection.connection_errors as error:
            errors.append(error)

    thread = Thread(target=wait, daemon=True)
    thread.start()
    assert begun.wait(LONG_S)
    return thread, errors


def consume(connection: Connection, queue: str = "orders") -> list[object]:
    got: list[object] = []
    Consumer(connection.channel(), [Queue(queue)], callbacks=[lambda body, message: got.append(body)]).consume()
    return got


def test_a_broker_that_stops_ends_the_wait(connection: Connection, host: str) -> None:
    consume(connection)
    thread, errors = waiting(connection)
    stop_broker(host)
    thread.join(LONG_S)
    assert [type(error) for error in errors] == [ConnectionLostError]


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_a_broker_on_the_network_that_goes_ends_the_wait(protocol: str) -> None:
    with anonymous_broker(name=protocol, type=protocol) as broker:
        connection = Connection(f"pyjms+{protocol}://127.0.0.1:{port_of(broker)}")
        consume(connection)
        thread, errors = waiting(connection)
    thread.join(LONG_S)
    assert [type(error) for error in errors] == [ConnectionLostError]
    connection.release()


def test_a_connection_that_closes_ends_the_wait(connection: Connection) -> None:
    consume(connection)
    thread, errors = waiting(connection)
    connection.transport.close_connection(None)
    thread.join(LONG_S)
    assert len(errors) == 1


def test_a_loss_is_told_before_anything_is_made_anew(connection: Connection, host: str) -> None:
    got = consume(connection)
    stop_broker(host)
    # Were it made anew here, the consumers, who do not know, would wait for ever (celery #8030).
    with pytest.raises(ConnectionLostError):
        connection.drain_events(timeout=LONG_S)
    assert not connection.connected
    connection.ensure_connection()
    assert connection.connected
    with pytest.raises(ConnectionLostError, match="so must be channels and consumers"):
        connection.drain_events(timeout=LONG_S)
    again = consume(connection)
    connection.Producer().publish(1, routing_key="orders")
    connection.drain_events(timeout=LONG_S)
    assert (got, again) == ([], [1])


def test_a_publisher_that_retries_is_connected_anew(connection: Connection, host: str) -> None:
    producer = connection.Producer()
    producer.publish(1, routing_key="orders")
    stop_broker(host)
    producer.publish(2, routing_key="orders", retry=True, retry_policy={"max_retries": 1, "interval_start": 0})
    assert connection.default_channel.basic_get("orders").decode() == 2


# What a broker on the network has sent ahead


@pytest.fixture(params=["stomp", "amqp"])
def two(request: pytest.FixtureRequest) -> Iterator[tuple[Connection, Connection]]:
    """Two connections to a broker on the network."""
    with anonymous_broker(name=request.param, type=request.param) as broker:
        url = f"pyjms+{request.param}://127.0.0.1:{port_of(broker)}"
        with Connection(url) as first, Connection(url) as second:
            yield first, second


def test_who_waits_no_more_is_sent_nothing(two: tuple[Connection, Connection]) -> None:
    busy, idle = two
    consume(busy)
    with pytest.raises(TimeoutError):
        busy.drain_events(timeout=0.05)
    got = consume(idle)
    idle.Producer().publish(1, routing_key="orders")
    idle.drain_events(timeout=LONG_S)
    assert got == [1]


def test_who_has_no_room_lets_others_have_what_was_sent_ahead(two: tuple[Connection, Connection]) -> None:
    busy, idle = two
    for number in (1, 2):
        idle.Producer().publish(number, routing_key="orders")
    channel = busy.channel()
    channel.basic_qos(0, 1, False)
    Consumer(channel, [Queue("orders")], on_message=lambda message: None).consume()
    busy.drain_events(timeout=LONG_S)
    got = consume(idle)
    idle.drain_events(timeout=LONG_S)
    assert got == [2]


# Threads and processes


def test_an_acknowledgement_on_another_thread_makes_room(connection: Connection) -> None:
    connection.Producer().publish(1, routing_key="orders")
    connection.Producer().publish(2, routing_key="orders")
    channel = connection.channel()
    got: list[Message] = []
    channel.basic_qos(0, 1, False)
    Consumer(channel, [Queue("orders")], on_message=got.append).consume()
    connection.drain_events(timeout=LONG_S)
    thread, errors = waiting(connection)
    got[0].ack()
    thread.join(LONG_S)
    assert ([message.decode() for message in got], errors) == ([1, 2], [])


def test_threads_may_share_a_connection(connect: Callable[[], Connection]) -> None:
    connection, reader = connect(), connect()
    connection.connect()
    channel = connection.default_channel

    def publish(number: int) -> None:
        producer = connection.Producer(channel)
        for count in range(50):
            producer.publish([number, count], routing_key="orders")

    threads = [Thread(target=publish, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    got = consume(reader)
    for _ in range(200):
        reader.drain_events(timeout=LONG_S)
    for number in range(4):
        assert [each for each in got if each[0] == number] == [[number, count] for count in range(50)]  # type: ignore[index]


def in_a_child(work: Callable[[], object]) -> str:
    """Return how it ends in a process that is forked from this one."""
    receives, sends = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of Python 3.12: there are other threads, as in Celery's workers
        child = os.fork()
    if child == 0:
        try:
            work()
            os.write(sends, b"done")
        except BaseException as error:  # its text is what the parent is told
            os.write(sends, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(sends)
    os.waitpid(child, 0)
    with os.fdopen(receives) as told:
        return told.read()


def test_a_broker_of_one_process_is_refused_in_a_child(connection: Connection, host: str) -> None:
    connection.connect()
    told = in_a_child(lambda: Connection(f"pyjms+vm://{host}").connect())
    assert told.startswith(f"UrlError: vm://{host} lives in the process that this one was forked from")
    assert "--pool=threads" in told


def test_a_broker_of_one_process_is_refused_in_a_worker_s_pool() -> None:
    """Its processes are forked before the worker connects."""

    def run(told: Any) -> None:
        try:
            Connection("pyjms+vm://nobody-s").connect()
        except UrlError as error:
            told.send(str(error))

    receives, sends = billiard.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = billiard.get_context("fork").Process(target=run, args=(sends,))
        child.start()
    child.join(LONG_S)
    assert receives.poll(0)
    assert "--pool=threads" in receives.recv()


def test_a_child_leaves_its_parent_s_connection_alone(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a child said by the socket that it shares, the broker would take for its parent's word."""
    got = consume(connection)

    def refuse(_: object) -> NoReturn:
        raise AssertionError("the child has closed it")

    def collect() -> None:
        monkeypatch.setattr(VmConnection, "close", refuse)
        connection.collect()

    assert in_a_child(collect) == "done"
    connection.Producer().publish(1, routing_key="orders")
    connection.drain_events(timeout=LONG_S)
    assert got == [1]
