"""The services of one connection to a broker in this process: reader groups, staged units and registered clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyjms.spi.errors import ProviderError
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
from pyjms.spi.sessions import PersistentSessions, RegisteredClient

if TYPE_CHECKING:
    from pyjms.spi.envelope import ConnectionId
    from pyjms_provider.core.transaction.reader_groups import GroupTable
    from pyjms_provider.core.transaction.registered_clients import ClientUser, RegisteredClients
    from pyjms_provider.core.transaction.stages import StageTable


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


class VmPersistentSessions(PersistentSessions):
    """The registered clients of a host. `check_open` as in `VmReaderGroups`; `user` returns the connection's user."""

    def __init__(
        self,
        clients: RegisteredClients,
        connection: ConnectionId,
        check_open: Callable[[], None],
        user: Callable[[], ClientUser],
    ) -> None:
        self._clients = clients
        self._connection = connection
        self._check_open = check_open
        self._user = user

    def register(self, name: str) -> RegisteredClient:
        self._check_open()
        registered = self._clients.register(name, self._user(), self._connection)
        try:
            self._check_open()
        except ProviderError:
            # The connection has ended meanwhile, perhaps before the client was noted as connected by it.
            self._clients.end_connection(self._connection)
            raise
        return registered

    def deregister(self, name: str) -> None:
        self._check_open()
        self._clients.deregister(name, self._user())

    def clients(self) -> Sequence[RegisteredClient]:
        self._check_open()
        return self._clients.reports(self._user())
