"""Failures by name: a provider around another one that fails when told to.

Within ``with Faults("vm://shop") as faults:`` connect by ``ConnectionFactory(faults.url)``; after ``faults.inject(Fault.SEND_REFUSED)`` the next
send raises ResourceAllocationException.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from itertools import count
from threading import Lock

from pyjms.api.base import Closeable
from pyjms.spi.delegating import DelegatingConnection, DelegatingConsumer, DelegatingSession
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import (
    AccessDeniedError,
    ConnectionLostError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
)
from pyjms.spi.provider import (
    ConnectionEvents,
    ConnectRequest,
    Provider,
    ProviderConnection,
    ProviderConsumer,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.registry import find_provider, register_provider
from pyjms.spi.url import ProviderUrl

__all__ = ["Fault", "Faults"]


class Fault(Enum):
    """What can be made to fail; each names the call that fails and what the client sees."""

    CONNECT_REFUSED = "create_connection raises ResourceAllocationException"
    LOGIN_REFUSED = "create_connection raises JMSSecurityException"
    SEND_REFUSED = "send raises ResourceAllocationException; the message was not taken"
    ACKNOWLEDGE_REFUSED = "an acknowledgement raises JMSException; nothing was acknowledged"
    COMMIT_ROLLED_BACK = "commit raises TransactionRolledBackException; the transaction was rolled back"
    COMMIT_IN_DOUBT = "commit raises JMSException; the transaction was committed, but the client cannot know"
    COMMIT_IN_DOUBT_ROLLED_BACK = "commit raises JMSException; the transaction was rolled back, but nobody says so"
    CONNECTION_DROPS_ON_SEND = "the connection drops at a send, before the message was taken"
    CONNECTION_DROPS_ON_COMMIT = "the connection drops at a commit, before it took effect"


_numbers = count(1)


class Faults(Closeable):
    """A message system that fails on demand: connect to `url` in place of the one given. Any thread."""

    def __init__(self, url: str) -> None:
        """`url`: the message system to stand before; it is reached as it would be without faults."""
        self._inner = ProviderUrl.parse(url)
        # Each has a scheme of its own: several may stand before the same message system, and the
        # factory finds its own by it.
        self._scheme = f"faulty{next(_numbers)}"
        self.url = self._scheme + url[len(self._inner.scheme) :]
        self._lock = Lock()
        self._armed: dict[Fault, int] = {}
        self._connections: list[_Connection] = []
        register_provider(self._scheme, _Provider(self, self._inner.scheme))

    def close(self) -> None:
        """Make `url` unknown again. Connections that are open stay so."""
        register_provider(self._scheme, None)

    def inject(self, fault: Fault, times: int = 1) -> None:
        """Let the next `times` calls that `fault` concerns fail."""
        with self._lock:
            self._armed[fault] = self._armed.get(fault, 0) + times

    def drop_connections(self) -> None:
        """Cut every open connection: its exception listener is told, its calls raise JMSException."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.drop()

    def due(self, fault: Fault) -> bool:
        """Say whether `fault` is to happen now, and count it off."""
        with self._lock:
            left = self._armed.get(fault, 0)
            if left:
                self._armed[fault] = left - 1
            return left > 0

    def opened(self, connection: _Connection) -> None:
        """Remember a connection for `drop_connections`."""
        with self._lock:
            self._connections.append(connection)

    def gone(self, connection: _Connection) -> None:
        """Forget a connection that was closed or dropped."""
        with self._lock:
            # A connection that has dropped is closed as well, so it may come here twice.
            if connection in self._connections:
                self._connections.remove(connection)


class _Provider(Provider):
    def __init__(self, faults: Faults, inner_scheme: str) -> None:
        self._faults = faults
        self._inner_scheme = inner_scheme

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        if self._faults.due(Fault.CONNECT_REFUSED):
            raise ResourceError("injected: there is no broker to connect to")
        if self._faults.due(Fault.LOGIN_REFUSED):
            raise AccessDeniedError("injected: the credentials are refused")
        url = replace(request.url, scheme=self._inner_scheme)
        inner = find_provider(self._inner_scheme).connect(replace(request, url=url), events)
        connection = _Connection(self._faults, inner, events)
        self._faults.opened(connection)
        return connection

    def check_url(self, url: ProviderUrl) -> None:
        find_provider(self._inner_scheme).check_url(replace(url, scheme=self._inner_scheme))

    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        return find_provider(self._inner_scheme).login_places(replace(url, scheme=self._inner_scheme))

    def stop_broker(self, url: ProviderUrl) -> None:
        find_provider(self._inner_scheme).stop_broker(replace(url, scheme=self._inner_scheme))


class _Connection(DelegatingConnection):
    def __init__(self, faults: Faults, inner: ProviderConnection, events: ConnectionEvents) -> None:
        super().__init__(inner)
        self._faults = faults
        self._events = events
        self._lock = Lock()
        self._lost: ConnectionLostError | None = None
        self._closed = False

    def drop(self) -> None:
        """Lose the connection, as a cut cable does: once, however often it is cut."""
        with self._lock:
            if self._lost is not None or self._closed:
                return
            self._lost = ConnectionLostError("injected: the connection dropped")
        # The lock is released: the close and the exception listener may come back to this connection.
        self._faults.gone(self)
        self._inner.close()
        self._events.on_exception(self._lost)

    @property
    def inner(self) -> ProviderConnection:
        """The connection that does the work. Raises ConnectionLostError after `drop`."""
        self.check_alive()
        return self._inner

    def check_alive(self) -> None:
        """Raise ConnectionLostError after `drop`."""
        if self._lost is not None:
            raise ConnectionLostError(self._lost.reason)

    def open_session(self, *, transacted: bool) -> ProviderSession:
        return _Session(self._faults, self, self.inner.open_session(transacted=transacted))

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._faults.gone(self)
        self._inner.close()


class _Session(DelegatingSession):
    def __init__(self, faults: Faults, connection: _Connection, inner: ProviderSession) -> None:
        super().__init__(inner)
        self._faults = faults
        self._connection = connection

    @property
    def inner(self) -> ProviderSession:
        self._connection.check_alive()
        return self._inner

    def _check(self, fault: Fault, error: ProviderError) -> None:
        self._connection.check_alive()
        # A connection that has dropped says so, and uses up no fault.
        if self._faults.due(fault):
            raise error

    def _check_drop(self, fault: Fault) -> None:
        if self._faults.due(fault):
            self._connection.drop()
        self._connection.check_alive()

    def send(self, envelope: Envelope) -> None:
        self._check_drop(Fault.CONNECTION_DROPS_ON_SEND)
        self._check(Fault.SEND_REFUSED, ResourceError("injected: the broker takes no more messages"))
        self._inner.send(envelope)

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        self._check_drop(Fault.CONNECTION_DROPS_ON_SEND)
        self._check(Fault.SEND_REFUSED, ResourceError("injected: the broker takes no more messages"))
        self._inner.send_async(envelope, done)

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        return _Consumer(self._connection, self.inner.subscribe(request, on_ready))

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._check(Fault.ACKNOWLEDGE_REFUSED, ProviderError("injected: the acknowledgement is refused"))
        self._inner.acknowledge(deliveries)

    def commit(self) -> None:
        self._check_drop(Fault.CONNECTION_DROPS_ON_COMMIT)
        if self._faults.due(Fault.COMMIT_ROLLED_BACK):
            self._inner.rollback()
            raise RolledBackError("injected: the broker rolled the transaction back")
        if self._faults.due(Fault.COMMIT_IN_DOUBT_ROLLED_BACK):
            self._inner.rollback()
            raise InDoubtError("injected: no answer to the commit; its outcome is not known")
        # The commit takes effect before it is called in doubt: this is the case in which a client
        # must not send again blindly.
        self._inner.commit()
        if self._faults.due(Fault.COMMIT_IN_DOUBT):
            raise InDoubtError("injected: no answer to the commit; its outcome is not known")


class _Consumer(DelegatingConsumer):
    def __init__(self, connection: _Connection, inner: ProviderConsumer) -> None:
        super().__init__(inner)
        self._connection = connection

    @property
    def inner(self) -> ProviderConsumer:
        self._connection.check_alive()
        return self._inner
