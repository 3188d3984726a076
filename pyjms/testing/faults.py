"""Failures by name: a provider around another one that fails when told to.

Within ``with Faults("vm://shop") as faults:`` connect by ``ConnectionFactory(faults.url)``; after ``faults.inject(Fault.SEND_REFUSED)`` the next
send raises ResourceAllocationException.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import count
from threading import Lock
from typing import Literal

from pyjms.api.base import Closeable
from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock, Signal
from pyjms.spi.delivery import Delivery, Elsewhere
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
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
    ProviderInfo,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.registry import find_provider, register_provider
from pyjms.spi.replay import ReaderGroups, StageName, Stages
from pyjms.spi.selector import Selector
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid

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

    def stop_broker(self, url: ProviderUrl) -> None:
        find_provider(self._inner_scheme).stop_broker(replace(url, scheme=self._inner_scheme))


class _Connection(ProviderConnection):
    def __init__(self, faults: Faults, inner: ProviderConnection, events: ConnectionEvents) -> None:
        self._faults = faults
        self._inner = inner
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
        self._faults.gone(self)
        self._inner.close()
        self._events.on_exception(self._lost)

    def alive(self) -> ProviderConnection:
        """Return the inner connection. Raises ConnectionLostError after `drop`."""
        if self._lost is not None:
            raise ConnectionLostError(self._lost.reason)
        return self._inner

    @property
    def connection_id(self) -> ConnectionId:
        return self._inner.connection_id

    @property
    def capabilities(self) -> Capability:
        return self._inner.capabilities

    @property
    def info(self) -> ProviderInfo:
        return self._inner.info

    @property
    def state(self) -> str:
        return self._inner.state

    @property
    def resource_manager(self) -> str:
        return self._inner.resource_manager

    def advice(self, capability: Capability) -> str:
        return self._inner.advice(capability)

    def set_client_id(self, client_id: str) -> None:
        self.alive().set_client_id(client_id)

    def open_session(self, *, transacted: bool) -> ProviderSession:
        return _Session(self._faults, self, self.alive().open_session(transacted=transacted))

    def start(self) -> None:
        self.alive().start()

    def stop(self) -> None:
        self.alive().stop()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._faults.gone(self)
        self._inner.close()

    def abort(self) -> bool:
        return self._inner.abort()

    def create_temporary(self, kind: AddressKind) -> Address:
        return self.alive().create_temporary(kind)

    def delete_temporary(self, address: Address) -> None:
        self.alive().delete_temporary(address)

    def reader_groups(self) -> ReaderGroups:
        return self.alive().reader_groups()

    def stages(self) -> Stages:
        return self.alive().stages()


class _Session(ProviderSession):
    def __init__(self, faults: Faults, connection: _Connection, inner: ProviderSession) -> None:
        self._faults = faults
        self._connection = connection
        self._inner = inner

    def _check(self, fault: Fault, error: ProviderError) -> None:
        self._connection.alive()
        if self._faults.due(fault):
            raise error

    def _check_drop(self, fault: Fault) -> None:
        if self._faults.due(fault):
            self._connection.drop()
        self._connection.alive()

    def send(self, envelope: Envelope) -> None:
        self._check_drop(Fault.CONNECTION_DROPS_ON_SEND)
        self._check(Fault.SEND_REFUSED, ResourceError("injected: the broker takes no more messages"))
        self._inner.send(envelope)

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        self._connection.alive()
        return _Consumer(self._connection, self._inner.subscribe(request, on_ready))

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._check(Fault.ACKNOWLEDGE_REFUSED, ProviderError("injected: the acknowledgement is refused"))
        self._inner.acknowledge(deliveries)

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._connection.alive()
        self._inner.recover(deliveries)

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._connection.alive()
        self._inner.give_back_unseen(deliveries)

    def may_wait(self, envelope: Envelope) -> bool:
        return self._inner.may_wait(envelope)

    def retry(self, delivery: Delivery, reason: str) -> None:
        self._connection.alive()
        self._inner.retry(delivery, reason)

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        self._connection.alive()
        self._inner.retry_all(deliveries, reason)

    def end_waits(self) -> None:
        self._inner.end_waits()

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        return self._inner.waiter(clock)

    def reject(self, delivery: Delivery, reason: str) -> None:
        self._connection.alive()
        self._inner.reject(delivery, reason)

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self._connection.alive()
        self._inner.adopt(deliveries)

    def commit(self) -> None:
        self._check_drop(Fault.CONNECTION_DROPS_ON_COMMIT)
        if self._faults.due(Fault.COMMIT_ROLLED_BACK):
            self._inner.rollback()
            raise RolledBackError("injected: the broker rolled the transaction back")
        if self._faults.due(Fault.COMMIT_IN_DOUBT_ROLLED_BACK):
            self._inner.rollback()
            raise InDoubtError("injected: no answer to the commit; its outcome is not known")
        self._inner.commit()
        if self._faults.due(Fault.COMMIT_IN_DOUBT):
            raise InDoubtError("injected: no answer to the commit; its outcome is not known")

    def commit_with(self, transaction: object) -> None:
        self._connection.alive()
        self._inner.commit_with(transaction)

    def stage(self, name: StageName, *, keep_s: int) -> int:
        self._connection.alive()
        return self._inner.stage(name, keep_s=keep_s)

    def rollback(self) -> None:
        self._connection.alive()
        self._inner.rollback()

    def has_destination(self, address: Address) -> bool | None:
        self._connection.alive()
        return self._inner.has_destination(address)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        self._connection.alive()
        return self._inner.browse(address, selector)

    def unsubscribe(self, name: str) -> None:
        self._connection.alive()
        self._inner.unsubscribe(name)

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        self._connection.alive()
        self._inner.xa_start(xid, join=join, resume=resume)

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        self._connection.alive()
        self._inner.xa_end(xid, suspend=suspend, fail=fail)

    def xa_prepare(self, xid: Xid) -> bool:
        self._connection.alive()
        return self._inner.xa_prepare(xid)

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self._connection.alive()
        self._inner.xa_commit(xid, one_phase=one_phase)

    def xa_rollback(self, xid: Xid) -> None:
        self._connection.alive()
        self._inner.xa_rollback(xid)

    def xa_recover(self) -> Sequence[Xid]:
        self._connection.alive()
        return self._inner.xa_recover()

    def xa_forget(self, xid: Xid) -> None:
        self._connection.alive()
        self._inner.xa_forget(xid)

    def xa_set_timeout(self, seconds: int) -> bool:
        return self._inner.xa_set_timeout(seconds)

    def xa_get_timeout(self) -> int:
        return self._inner.xa_get_timeout()

    def close(self) -> None:
        self._inner.close()


class _Consumer(ProviderConsumer):
    def __init__(self, connection: _Connection, inner: ProviderConsumer) -> None:
        self._connection = connection
        self._inner = inner

    def poll(self) -> Delivery | None:
        self._connection.alive()
        return self._inner.poll()

    def poll_or_wait(self) -> Delivery | None:
        self._connection.alive()
        return self._inner.poll_or_wait()

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        self._connection.alive()
        return self._inner.poll_at_once()

    def take_unreturned(self) -> Delivery | None:
        return self._inner.take_unreturned()

    def catch_up(self) -> None:
        self._connection.alive()
        self._inner.catch_up()

    def set_interested(self, interested: bool) -> None:
        self._inner.set_interested(interested)

    def close(self) -> None:
        self._inner.close()
