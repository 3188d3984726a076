"""Short ways to connect to a fake broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ConnectRequest, ExpiredMessage, SubscribeRequest
from pyjms.spi.selector import compile_selector
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.stomp.failover import StompFailoverConnection
from pyjms_provider.clients.stomp.foreign.connection import ForeignConnection
from pyjms_provider.clients.stomp.foreign.session import ForeignSession, Subscription
from pyjms_provider.clients.stomp.provider import StompProvider
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker

ORDERS = Address(AddressKind.QUEUE, "orders")
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


def connect(
    url: str,
    events: Events | None = None,
    *,
    clock: Clock | None = None,
    client_id: str | None = None,
    on_expired: Callable[[ExpiredMessage], None] | None = None,
) -> ForeignConnection:
    request = ConnectRequest(
        url=ProviderUrl.parse(url),
        user_name=None,
        password=None,
        client_id=client_id,
        clock=clock or SystemClock(),
        on_expired=on_expired,
    )
    connection = StompProvider().connect(request, events or Events())
    assert isinstance(connection, ForeignConnection)
    connection.start()
    return connection


@contextmanager
def connected(broker: FakeBroker, options: str = QUICKLY, events: Events | None = None) -> Iterator[ForeignConnection]:
    connection = connect(f"{broker.url}?{options}", events)
    try:
        yield connection
    finally:
        connection.close()


def hasten(link: StompFailoverConnection, **limits_ms: int) -> None:
    """Have a connection wait only so long from now on: what came before it may have taken longer on a busy machine."""
    for name, limit_ms in limits_ms.items():
        object.__setattr__(link._settings, name, limit_ms)


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


def consume(
    session: ForeignSession,
    address: Address = ORDERS,
    told: Callable[[], None] | None = None,
    *,
    selector: str | None = None,
    no_local: bool = False,
    durable_name: str | None = None,
) -> Subscription:
    request = SubscribeRequest(
        address=address,
        selector=None if selector is None else compile_selector(selector),
        no_local=no_local,
        durable_name=durable_name,
    )
    consumer = session.subscribe(request, told or Told())
    consumer.set_interested(True)
    return consumer
