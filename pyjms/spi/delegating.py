"""Connections, sessions and consumers of a provider that pass each call on to those of another one: for layers between the two sides of the SPI.

A subclass overrides the calls that it watches or changes. The recorder (`pyjms.history`) and the injected faults (`pyjms.testing`) use it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock, Signal
from pyjms.spi.delivery import Delivery, Elsewhere
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import (
    ProviderConnection,
    ProviderConsumer,
    ProviderInfo,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.replay import ReaderGroups, StageName, Stages
from pyjms.spi.selector import Selector
from pyjms.spi.sessions import ClientTags, PersistentSessions
from pyjms.spi.xid import Xid


class DelegatingConnection(ProviderConnection):
    """A connection that passes calls on: queries and calls that end something to `_inner`, all others to `inner`, which may refuse them."""

    def __init__(self, inner: ProviderConnection) -> None:
        self._inner = inner

    @property
    def inner(self) -> ProviderConnection:
        """The connection that does the work."""
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
        self.inner.set_client_id(client_id)

    def open_session(self, *, transacted: bool) -> ProviderSession:
        return self.inner.open_session(transacted=transacted)

    def start(self) -> None:
        self.inner.start()

    def stop(self) -> None:
        self.inner.stop()

    def close(self) -> None:
        self._inner.close()

    def abort(self) -> bool:
        return self._inner.abort()

    def create_temporary(self, kind: AddressKind) -> Address:
        return self.inner.create_temporary(kind)

    def delete_temporary(self, address: Address) -> None:
        self.inner.delete_temporary(address)

    def reader_groups(self) -> ReaderGroups:
        return self.inner.reader_groups()

    def stages(self) -> Stages:
        return self.inner.stages()

    def persistent_sessions(self) -> PersistentSessions:
        return self.inner.persistent_sessions()


class DelegatingSession(ProviderSession):
    """A session that passes calls on, as `DelegatingConnection` does."""

    def __init__(self, inner: ProviderSession) -> None:
        self._inner = inner

    @property
    def inner(self) -> ProviderSession:
        """The session that does the work."""
        return self._inner

    def send(self, envelope: Envelope) -> None:
        self.inner.send(envelope)

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        self.inner.send_async(envelope, done)

    def may_wait(self, envelope: Envelope) -> bool:
        return self._inner.may_wait(envelope)

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        return self.inner.subscribe(request, on_ready)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.inner.acknowledge(deliveries)

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self.inner.recover(deliveries)

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self.inner.give_back_unseen(deliveries)

    def retry(self, delivery: Delivery, reason: str) -> None:
        self.inner.retry(delivery, reason)

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        self.inner.retry_all(deliveries, reason)

    def reject(self, delivery: Delivery, reason: str) -> None:
        self.inner.reject(delivery, reason)

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self.inner.adopt(deliveries)

    def end_waits(self) -> None:
        self._inner.end_waits()

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        return self._inner.waiter(clock)

    def close(self) -> None:
        self._inner.close()

    def commit(self) -> None:
        self.inner.commit()

    def prepare(self, xid: Xid) -> bool:
        return self.inner.prepare(xid)

    def commit_with(self, transaction: object) -> None:
        self.inner.commit_with(transaction)

    def rollback(self) -> None:
        self.inner.rollback()

    def stage(self, name: StageName, *, keep_s: int) -> int:
        return self.inner.stage(name, keep_s=keep_s)

    def tag(self, tags: ClientTags) -> None:
        self.inner.tag(tags)

    def has_destination(self, address: Address) -> bool | None:
        return self.inner.has_destination(address)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        return self.inner.browse(address, selector)

    def unsubscribe(self, name: str) -> None:
        self.inner.unsubscribe(name)

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        self.inner.xa_start(xid, join=join, resume=resume)

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        self.inner.xa_end(xid, suspend=suspend, fail=fail)

    def xa_prepare(self, xid: Xid) -> bool:
        return self.inner.xa_prepare(xid)

    def xa_prepare_as(self, xid: Xid, name: Xid) -> bool:
        return self.inner.xa_prepare_as(xid, name)

    def xa_note(self, xid: Xid, notes: Collection[str] = ()) -> Collection[str]:
        return self.inner.xa_note(xid, notes)

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self.inner.xa_commit(xid, one_phase=one_phase)

    def xa_rollback(self, xid: Xid) -> None:
        self.inner.xa_rollback(xid)

    def xa_recover(self) -> Sequence[Xid]:
        return self.inner.xa_recover()

    def xa_forget(self, xid: Xid) -> None:
        self.inner.xa_forget(xid)

    def xa_set_timeout(self, seconds: int) -> bool:
        return self._inner.xa_set_timeout(seconds)

    def xa_get_timeout(self) -> int:
        return self._inner.xa_get_timeout()


class DelegatingConsumer(ProviderConsumer):
    """A consumer that passes calls on, as `DelegatingConnection` does."""

    def __init__(self, inner: ProviderConsumer) -> None:
        self._inner = inner

    @property
    def inner(self) -> ProviderConsumer:
        """The consumer that does the work."""
        return self._inner

    def poll(self) -> Delivery | None:
        return self.inner.poll()

    # Not the defaults of `ProviderConsumer`, which would take the lock of `inner` twice where its own take it once.

    def poll_or_wait(self) -> Delivery | None:
        return self.inner.poll_or_wait()

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        return self.inner.poll_at_once()

    def take_unreturned(self) -> Delivery | None:
        return self._inner.take_unreturned()

    def catch_up(self) -> None:
        self.inner.catch_up()

    def set_interested(self, interested: bool) -> None:
        self._inner.set_interested(interested)

    def close(self) -> None:
        self._inner.close()
