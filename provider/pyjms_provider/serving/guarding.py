"""A connection to a virtual host whose calls are checked: for protocols that packages bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

from pyjms.spi.capability import Capability
from pyjms.spi.delegating import DelegatingConnection, DelegatingSession
from pyjms.spi.errors import CapabilityError, ProviderError

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address, AddressKind, Envelope
    from pyjms.spi.provider import ProviderConnection, ProviderConsumer, ProviderSession, SubscribeRequest
    from pyjms.spi.replay import StageName
    from pyjms.spi.selector import Selector
    from pyjms_provider.protocols.hosts import Guard

# Their calls name branches, groups and units of other users, which access control knows nothing of.
_WITHHELD = Capability.XA | Capability.REPLAY | Capability.STAGE | Capability.SHARED_TRANSACTIONS


def _withheld(what: str) -> CapabilityError:
    return CapabilityError(f"ports of this type have no {what}; a pyjms client at a STOMP port has")


class GuardedConnection(DelegatingConnection):
    """A client's connection, with the rights of its user."""

    def __init__(self, inner: ProviderConnection, guard: Guard) -> None:
        super().__init__(inner)
        self._guard = guard
        self._client_id = ""

    @property
    def capabilities(self) -> Capability:
        return self._inner.capabilities & ~_WITHHELD

    def set_client_id(self, client_id: str) -> None:
        self.inner.set_client_id(client_id)
        self._client_id = client_id

    def open_session(self, *, transacted: bool) -> ProviderSession:
        return _GuardedSession(self.inner.open_session(transacted=transacted), self._guard, lambda: self._client_id)

    def create_temporary(self, kind: AddressKind) -> Address:
        address = self.inner.create_temporary(kind)
        # Made first, since the check needs the address that the broker gives it.
        try:
            self._guard.create(address)
        except ProviderError:
            self.inner.delete_temporary(address)
            raise
        return address

    def reader_groups(self) -> NoReturn:
        raise _withheld("reader groups")

    def stages(self) -> NoReturn:
        raise _withheld("staged units")


class _GuardedSession(DelegatingSession):
    """A session with the rights of its connection's user."""

    def __init__(self, inner: ProviderSession, guard: Guard, client_id: Callable[[], str]) -> None:
        super().__init__(inner)
        self._guard = guard
        self._client_id = client_id

    def send(self, envelope: Envelope) -> None:
        self._guard.send(envelope)
        self.inner.send(envelope)

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        self._guard.send(envelope)
        self.inner.send_async(envelope, done)

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        self._guard.read(request.address)
        if request.durable_name is not None:
            self._guard.subscribe(self._client_id(), request.durable_name)
        return self.inner.subscribe(request, on_ready)

    def unsubscribe(self, name: str) -> None:
        self._guard.subscribe(self._client_id(), name)
        self.inner.unsubscribe(name)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        self._guard.browse(address)
        return self.inner.browse(address, selector)

    def has_destination(self, address: Address) -> bool | None:
        self._guard.look(address)
        return self.inner.has_destination(address)

    def commit_with(self, transaction: object) -> NoReturn:
        raise _withheld("shared transactions")

    def stage(self, name: StageName, *, keep_s: int) -> NoReturn:
        raise _withheld("staged units")

    def prepare(self, xid: object) -> NoReturn:
        raise _withheld("distributed transactions")

    def xa_start(self, xid: object, *, join: bool = False, resume: bool = False) -> NoReturn:
        raise _withheld("distributed transactions")

    def xa_end(self, xid: object, *, suspend: bool = False, fail: bool = False) -> NoReturn:
        raise _withheld("distributed transactions")

    def xa_prepare(self, xid: object) -> NoReturn:
        raise _withheld("distributed transactions")

    def xa_prepare_as(self, xid: object, name: object) -> NoReturn:
        raise _withheld("distributed transactions")

    def xa_note(self, xid: object, notes: object = ()) -> NoReturn:
        raise _withheld("distributed transactions")

    def xa_commit(self, xid: object, *, one_phase: bool = False) -> NoReturn:
        raise _withheld("distributed transactions")

    def xa_rollback(self, xid: object) -> NoReturn:
        raise _withheld("distributed transactions")

    def xa_recover(self) -> NoReturn:
        raise _withheld("distributed transactions")

    def xa_forget(self, xid: object) -> NoReturn:
        raise _withheld("distributed transactions")
