"""A provider around the bundled one, where a test can get in between: a hook before, or in place of, any call.

with Wrapped(url) as wrapped:
    wrapped.before["start"] = latch.wait       # runs before the inner provider's call
    connection = ConnectionFactory(wrapped.url).create_connection()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from types import TracebackType
from typing import Any, Self

from pyjms.spi import (
    Address,
    AddressKind,
    Capability,
    ConnectionEvents,
    ConnectionId,
    ConnectRequest,
    Delivery,
    Envelope,
    Provider,
    ProviderConnection,
    ProviderConsumer,
    ProviderInfo,
    ProviderSession,
    ProviderUrl,
    SubscribeRequest,
    Xid,
    find_provider,
    register_provider,
)
from pyjms.spi.clock import Clock, Signal
from pyjms.spi.selector import Selector

_numbers = count(1)


class Wrapped:
    """Stands before the message system of a URL. `before` maps the name of an SPI call to what is done before it."""

    def __init__(self, url: str, add: Capability = Capability.NONE, remove: Capability = Capability.NONE) -> None:
        inner = ProviderUrl.parse(url)
        self._scheme = f"wrapped{next(_numbers)}"
        self.url = self._scheme + url[len(inner.scheme) :]
        self.before: dict[str, Callable[[], object]] = {}
        self.calls: list[str] = []
        self.requests: list[ConnectRequest] = []
        self.subscribed: list[SubscribeRequest] = []
        self.events: list[ConnectionEvents] = []
        self.xa_answers: dict[str, Any] = {}
        self.change = (add, remove)
        register_provider(self._scheme, _Provider(self, inner.scheme))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        register_provider(self._scheme, None)

    def passing(self, call: str) -> None:
        """Note `call` and run its hook."""
        self.calls.append(call)
        hook = self.before.get(call)
        if hook is not None:
            hook()


def raising(error: BaseException, times: int = 1) -> Callable[[], None]:
    """Return a hook that raises `error` the first `times` times."""
    left = [times]

    def fail() -> None:
        if left[0]:
            left[0] -= 1
            raise error

    return fail


class _Provider(Provider):
    def __init__(self, wrapped: Wrapped, inner_scheme: str) -> None:
        self._wrapped = wrapped
        self._inner_scheme = inner_scheme

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        self._wrapped.requests.append(request)
        self._wrapped.events.append(events)
        self._wrapped.passing("connect")
        url = replace(request.url, scheme=self._inner_scheme)
        inner = find_provider(self._inner_scheme).connect(replace(request, url=url), events)
        return _Connection(self._wrapped, inner)


class _Connection(ProviderConnection):
    def __init__(self, wrapped: Wrapped, inner: ProviderConnection) -> None:
        self._wrapped = wrapped
        self._inner = inner

    @property
    def connection_id(self) -> ConnectionId:
        return self._inner.connection_id

    @property
    def capabilities(self) -> Capability:
        add, remove = self._wrapped.change
        return (self._inner.capabilities | add) & ~remove

    @property
    def info(self) -> ProviderInfo:
        return self._inner.info

    def set_client_id(self, client_id: str) -> None:
        self._wrapped.passing("set_client_id")
        self._inner.set_client_id(client_id)

    def open_session(self, *, transacted: bool) -> ProviderSession:
        self._wrapped.passing("open_session")
        return _Session(self._wrapped, self._inner.open_session(transacted=transacted))

    def start(self) -> None:
        self._wrapped.passing("start")
        self._inner.start()

    def stop(self) -> None:
        self._wrapped.passing("stop")
        self._inner.stop()

    def close(self) -> None:
        self._wrapped.passing("close")
        self._inner.close()

    def create_temporary(self, kind: AddressKind) -> Address:
        self._wrapped.passing("create_temporary")
        return self._inner.create_temporary(kind)

    def delete_temporary(self, address: Address) -> None:
        self._wrapped.passing("delete_temporary")
        self._inner.delete_temporary(address)


class _Session(ProviderSession):
    def __init__(self, wrapped: Wrapped, inner: ProviderSession) -> None:
        self._wrapped = wrapped
        self._inner = inner
        self._acknowledged: list[Delivery] = []

    def send(self, envelope: Envelope) -> None:
        self._wrapped.passing("send")
        self._inner.send(envelope)

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        self._wrapped.subscribed.append(request)
        self._wrapped.passing("subscribe")
        return _Consumer(self._wrapped, self._inner.subscribe(request, on_ready))

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._wrapped.passing("acknowledge")
        self._inner.acknowledge(deliveries)
        self._acknowledged.extend(deliveries)

    def end_waits(self) -> None:
        self._inner.end_waits()

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        return self._inner.waiter(clock)

    def retry(self, delivery: Delivery, reason: str) -> None:
        self._wrapped.passing("recover")
        self._inner.retry(delivery, reason)

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._wrapped.passing("recover")
        self._inner.recover(deliveries)

    def reject(self, delivery: Delivery, reason: str) -> None:
        self._wrapped.passing("reject")
        self._inner.reject(delivery, reason)

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self._wrapped.passing("adopt")
        self._inner.adopt(deliveries)

    def commit(self) -> None:
        self._wrapped.passing("commit")
        self._inner.commit()

    def commit_with(self, transaction: object) -> None:
        self._wrapped.passing("commit_with")
        self._inner.commit_with(transaction)

    def rollback(self) -> None:
        self._wrapped.passing("rollback")
        self._inner.rollback()

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        self._wrapped.passing("browse")
        return self._inner.browse(address, selector)

    def unsubscribe(self, name: str) -> None:
        self._wrapped.passing("unsubscribe")
        self._inner.unsubscribe(name)

    def close(self) -> None:
        self._wrapped.passing("session.close")
        self._inner.close()

    # XA, as far as the tests go: calls are noted, work is committed or rolled back as that of a local transaction.
    # Brokers with XA of their own are tested in tests/provider/xa.

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        self._wrapped.passing(f"xa_start {xid.branch_qualifier.decode()} join={join} resume={resume}")

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        self._wrapped.passing(f"xa_end {xid.branch_qualifier.decode()} suspend={suspend} fail={fail}")

    def xa_prepare(self, xid: Xid) -> bool:
        self._wrapped.passing("xa_prepare")
        return bool(self._wrapped.xa_answers.get("prepare", True))

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self._wrapped.passing(f"xa_commit one_phase={one_phase}")
        self._inner.commit()

    def xa_rollback(self, xid: Xid) -> None:
        self._wrapped.passing("xa_rollback")
        self._inner.rollback()
        self._inner.recover(self._acknowledged)

    def xa_recover(self) -> Sequence[Xid]:
        self._wrapped.passing("xa_recover")
        found: Sequence[Xid] = self._wrapped.xa_answers.get("recover", ())
        return found

    def xa_forget(self, xid: Xid) -> None:
        self._wrapped.passing("xa_forget")


class _Consumer(ProviderConsumer):
    def __init__(self, wrapped: Wrapped, inner: ProviderConsumer) -> None:
        self._wrapped = wrapped
        self._inner = inner

    def poll(self) -> Delivery | None:
        self._wrapped.passing("poll")
        return self._inner.poll()

    def set_interested(self, interested: bool) -> None:
        self._wrapped.passing(f"set_interested {interested}")
        self._inner.set_interested(interested)

    def close(self) -> None:
        self._wrapped.passing("consumer.close")
        self._inner.close()
