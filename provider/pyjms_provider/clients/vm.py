"""The provider of ``vm://NAME``: the broker in this process, reached by plain calls.

The first connection to a name starts the broker; it runs, with all its messages, until `stop_broker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.spi.errors import ClosedError, ConnectionLostError, ProviderError
from pyjms.spi.provider import (
    ConnectionEvents,
    ConnectRequest,
    Provider,
    ProviderConnection,
    ProviderInfo,
)
from pyjms.spi.replay import (
    GroupRequest,
    OpenGroup,
    ReaderGroup,
    ReaderGroups,
    ReservedMessage,
    StagedUnit,
    StageName,
    Stages,
)
from pyjms.spi.url import ProviderUrl
from pyjms.spi.version import installed_version
from pyjms_provider.broker import EmbeddedBroker, find_broker, stop_broker
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.vm_session import VmSession
from pyjms_provider.core.host.message_mover import OnExpired
from pyjms_provider.core.transaction.branches import NEEDS_STORE
from pyjms_provider.forks import forget_in_children
from pyjms_provider.settings import read_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.core.transaction.reader_groups import GroupTable
    from pyjms_provider.core.transaction.stages import StageTable

# What the embedded broker says of itself.


@cache  # the version is looked up on the disk
def embedded_broker_info() -> ProviderInfo:
    """Return the name and the version of the broker, and the properties that it sets."""
    return ProviderInfo(
        name="pyjms embedded broker",
        version=installed_version(),
        jmsx_property_names=("JMSXDeliveryCount", "JMSXGroupID", "JMSXGroupSeq"),
    )


# Reader groups and staged units of a broker in this process, as one connection sees them.


class VmReaderGroups(ReaderGroups):
    """The groups of a host. `check_open` raises `ClosedError` when the connection is closed."""

    def __init__(
        self,
        groups: GroupTable,
        check_open: Callable[[], None],
        client_id: Callable[[], str | None],
    ) -> None:
        self._groups = groups
        self._check_open = check_open
        self._client_id = client_id

    def open(self, request: GroupRequest) -> OpenGroup:
        self._check_open()
        return self._groups.open(request, self._client_id())

    def reserve(self, opened: OpenGroup, *, after: int, max_messages: int, max_bytes: int | None, wait_ms: int) -> int:
        self._check_open()
        return self._groups.reserve(
            opened, after=after, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms
        )

    def read(self, name: str, generation: str, *, after: int, upto: int) -> Sequence[ReservedMessage]:
        self._check_open()
        return self._groups.read(name, generation, after=after, upto=upto)

    def acknowledge(self, opened: OpenGroup, upto: int) -> None:
        self._check_open()
        self._groups.acknowledge(opened, upto)

    def release(self, name: str) -> int:
        self._check_open()
        return self._groups.release(name)

    def groups(self) -> Sequence[ReaderGroup]:
        self._check_open()
        return self._groups.groups()


class VmStages(Stages):
    """The staged units of a host. `check_open` as in `VmReaderGroups`."""

    def __init__(self, stages: StageTable, check_open: Callable[[], None]) -> None:
        self._stages = stages
        self._check_open = check_open

    def promote(self, sink: str, epoch: int, units: Sequence[StageName]) -> bool:
        self._check_open()
        return self._stages.promote(sink, epoch, units)

    def discard(self, units: Sequence[StageName]) -> None:
        self._check_open()
        self._stages.discard(units)

    def marker(self, sink: str) -> int | None:
        self._check_open()
        return self._stages.marker(sink)

    def units(self, sink: str | None = None) -> Sequence[StagedUnit]:
        self._check_open()
        return self._stages.units(sink)


_WITHOUT_STORE = ~(Capability.XA | Capability.SHARED_TRANSACTIONS)


class VmProvider(Provider):
    """Connects to brokers in this process."""

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> VmConnection:
        name, settings = read_url(request.url)
        while True:
            broker = find_broker(name, request.clock, settings, request.on_expired)
            try:
                connection = VmConnection(broker, events, request.on_expired)
            except ClosedError:
                continue  # it was stopped at this moment, and is no longer registered
            break
        if request.client_id is not None:
            try:
                connection.set_client_id(request.client_id)
            except ProviderError:
                connection.close()
                raise
        return connection

    def stop_broker(self, url: ProviderUrl) -> None:
        stop_broker(read_url(url)[0])


class VmConnection(ProviderConnection):
    """One client's connection to a broker in this process."""

    def __init__(self, broker: EmbeddedBroker, events: ConnectionEvents, on_expired: OnExpired | None = None) -> None:
        self.broker = broker
        self._host = broker.virtual_host
        self._events = events
        self._lock = Lock()
        self._closed = False
        self._lost: ConnectionLostError | None = None
        """Why it cannot be used in this process, which was forked from the broker's."""
        self._ending = CloseOnce()
        self._started = False
        self._client_id: str | None = None
        self._sessions: dict[VmSession, None] = {}
        self._numbers = count(1)
        with self._lock:  # whoever ends it at this moment waits until it has its id
            self._connection_id = broker.attach(self._lose, self, on_expired)
        forget_in_children(self)

    @property
    def connection_id(self) -> ConnectionId:
        return self._connection_id

    @property
    def capabilities(self) -> Capability:
        if not self._host.branches.are_kept:
            return _WITHOUT_STORE
        storage = self._host.storage
        return ~Capability.NONE if storage is not None and storage.journal.can_join else ~Capability.SHARED_TRANSACTIONS

    @property
    def info(self) -> ProviderInfo:
        return embedded_broker_info()

    @property
    def resource_manager(self) -> str:
        return self.broker.run_id

    def advice(self, capability: Capability) -> str:
        return NEEDS_STORE if capability is Capability.XA else ""

    @property
    def client_id(self) -> str | None:
        """The client id, if one was set."""
        return self._client_id

    def set_client_id(self, client_id: str) -> None:
        with self._lock:
            self._check_open()
            self._host.take_client_id(client_id, self._connection_id)
            self._client_id = client_id

    def open_session(self, *, transacted: bool) -> VmSession:
        with self._lock:
            self._check_open()
            name = f"{self._connection_id}/{next(self._numbers)}"
            session = VmSession(self, name, transacted=transacted, is_delivering=self._started)
            self._sessions[session] = None
        return session

    def start(self) -> None:
        self._set_started(True)

    def stop(self) -> None:
        self._set_started(False)

    def _set_started(self, started: bool) -> None:
        with self._lock:
            self._check_open()
            self._started = started
            sessions = list(self._sessions)
        for session in sessions:
            session.set_delivering(started)

    def create_temporary(self, kind: AddressKind) -> Address:
        with self._lock:  # whoever closes it at this moment finds the destination
            self._check_open()
            return self._host.temporaries.create(kind, self._connection_id)

    def delete_temporary(self, address: Address) -> None:
        self._check_open()
        self._host.temporaries.delete(address, self._connection_id)

    def reader_groups(self) -> VmReaderGroups:
        return VmReaderGroups(self._host.pipelines.groups, self._check_open, lambda: self._client_id)

    def stages(self) -> VmStages:
        return VmStages(self._host.pipelines.stages, self._check_open)

    def close(self) -> None:
        self._ending.do(self._shut_down)

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            sessions = list(self._sessions)
        for session in sessions:
            session.close()
        self._host.end_connection(self._connection_id, self._client_id)
        self.broker.detach(self._connection_id)

    def forget(self) -> None:
        """Be lost, in a child of this process, as the broker is not there: what is here of it is a copy."""
        error = self.broker.refusal
        self._lock, self._closed, self._lost, self._ending = Lock(), True, error, CloseOnce.ended()
        for session in self._sessions:
            session.forget_broker(error)
        self._sessions = {}

    def discard(self, session: VmSession) -> None:
        """Let go of a session that has closed."""
        with self._lock:
            self._sessions.pop(session, None)

    def _lose(self, error: ConnectionLostError) -> None:
        """End because the broker stops, and tell the client."""
        with self._lock:
            was_open = not self._closed
        self.close()
        if was_open:
            self._events.on_exception(error)

    def _check_open(self) -> None:
        if self._closed:
            if self._lost is not None:
                raise self._lost
            raise ClosedError(f"the connection to vm://{self.broker.name} is closed")
