"""Short ways to connect to a peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ConnectRequest, SubscribeRequest
from pyjms.spi.selector import compile_selector
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.amqp.connection import AmqpConnection
from pyjms_provider.clients.amqp.consumer import AmqpConsumer
from pyjms_provider.clients.amqp.provider import AmqpProvider
from pyjms_provider.clients.amqp.session import AmqpSession
from tests.provider.clients.amqp.peer import PATIENCE_S, Peer

ORDERS = Address(AddressKind.QUEUE, "orders")
NEWS = Address(AddressKind.TOPIC, "news")
QUICKLY = "reconnect_delay_ms=1&reconnect_delay_max_ms=20&timeout_ms=10000"


class Events:
    """What the connection told, and a way to wait for it."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.errors: list[ProviderError] = []

    def on_exception(self, error: ProviderError) -> None:
        with self._changed:
            self.errors.append(error)
            self._changed.notify_all()

    def wait_for(self, number: int) -> list[ProviderError]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.errors) >= number, PATIENCE_S), self.errors
            return list(self.errors)


class Told:
    """An `on_ready` that can be waited for."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._number = 0

    def __call__(self) -> None:
        with self._changed:
            self._number += 1
            self._changed.notify_all()

    def wait(self, number: int = 1) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._number >= number, PATIENCE_S), "on_ready was not called"


def connect(
    url: str,
    events: Events | None = None,
    *,
    clock: Clock | None = None,
    client_id: str | None = None,
    user_name: str | None = None,
    password: str | None = None,
) -> AmqpConnection:
    request = ConnectRequest(
        url=ProviderUrl.parse(url),
        user_name=user_name,
        password=password,
        client_id=client_id,
        clock=clock or SystemClock(),
    )
    connection = AmqpProvider().connect(request, events or Events())
    connection.start()
    return connection


@contextmanager
def connected(
    peer: Peer, options: str = QUICKLY, events: Events | None = None, client_id: str | None = None
) -> Iterator[AmqpConnection]:
    connection = connect(f"{peer.url}?{options}", events, client_id=client_id)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def session_at(peer: Peer, options: str = QUICKLY, *, transacted: bool = False) -> Iterator[AmqpSession]:
    with connected(peer, options) as connection:
        yield connection.open_session(transacted=transacted)


def consume(
    session: AmqpSession,
    address: Address = ORDERS,
    told: Callable[[], None] = lambda: None,
    *,
    selector: str | None = None,
    no_local: bool = False,
    durable_name: str | None = None,
    priority: int = 0,
) -> AmqpConsumer:
    request = SubscribeRequest(
        address=address,
        selector=None if selector is None else compile_selector(selector),
        no_local=no_local,
        durable_name=durable_name,
        priority=priority,
    )
    return session.subscribe(request, told)


def message(
    body: str,
    destination: Address = ORDERS,
    *,
    delivery_mode: int = 2,
    reply_to: Address | None = None,
    expiration_ms: int = 0,
) -> Envelope:
    return Envelope(
        destination=destination,
        message_id=MessageId(f"ID:{body[:40]}"),
        timestamp_ms=1,
        expiration_ms=expiration_ms,
        delivery_mode=delivery_mode,
        priority=4,
        correlation_id=None,
        reply_to=reply_to,
        jms_type=None,
        properties={},
        body_kind=BodyKind.TEXT,
        body=body,
    )


def receive(consumer: AmqpConsumer) -> Delivery:
    """Return the next message; wait for it as a blocked receive does."""
    clock = SystemClock()
    wait = consumer.session.connection.failover.wait
    signal, until_ms = Signal(), clock.monotonic_ms() + PATIENCE_S * 1000
    consumer._on_ready = signal.set
    while (delivery := consumer.poll_or_wait()) is None:
        assert wait(signal, until_ms), "no message came"
    return delivery


def bodies(consumer: AmqpConsumer, number: int) -> list[object]:
    return [receive(consumer).envelope.body for _ in range(number)]
