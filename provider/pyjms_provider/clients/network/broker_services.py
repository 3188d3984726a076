"""What a connection to the pyjms broker offers beside sessions: reader groups, staged units and registered clients, by commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

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
from pyjms.spi.sessions import PersistentSessions, RegisteredClient, check_client_name
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import (
    ClientsListed,
    Counted,
    GroupOpened,
    GroupsListed,
    MarkerRead,
    Promoted,
    Reserved,
    UnitsListed,
)

if TYPE_CHECKING:
    from pyjms_provider.protocols.profile.commands import Command


class CommandedConnection(Protocol):
    """What the services use of their connection."""

    def ask(self, command: Command) -> Mapping[str, str]:
        """Send a command, and return the headers of its answer. Raises `ProviderError`; `ResourceError`: the connection was lost."""
        ...

    def ask_until_answered(self, command: Command) -> Mapping[str, str]:
        """Do the same for an idempotent command: if the connection is lost, send it again on the next one."""
        ...

    def read_page(
        self, name: str, generation: str, *, after: int, upto: int
    ) -> tuple[Sequence[ReservedMessage], Mapping[str, str]]:
        """Return the messages that READ has the broker send, and the headers of its answer. Raises `ProviderError`."""
        ...


class NetworkReaderGroups(ReaderGroups):
    """The reader groups of the broker."""

    def __init__(self, connection: CommandedConnection) -> None:
        self._connection = connection

    def open(self, request: GroupRequest) -> OpenGroup:
        command = commands.OpenReaderGroup(
            group=request.name,
            address=request.address,
            subscription=request.subscription,
            selector=request.selector or None,
        )
        # A repeated request makes the broker fence off the previous opening: this client's own, whose answer was lost.
        return GroupOpened.read(self._connection.ask_until_answered(command)).opened

    def reserve(self, opened: OpenGroup, *, after: int, max_messages: int, max_bytes: int | None, wait_ms: int) -> int:
        command = commands.ReserveMessages(
            group=opened.group.name,
            generation=opened.group.generation,
            fence=opened.fence,
            after=after,
            max_messages=max_messages,
            max_bytes=max_bytes,
            wait_ms=max(0, wait_ms),
        )
        return Reserved.read(self._connection.ask_until_answered(command)).high

    def read(self, name: str, generation: str, *, after: int, upto: int) -> Sequence[ReservedMessage]:
        found, answer = self._connection.read_page(name, generation, after=after, upto=upto)
        counted = Counted.read(answer).messages
        if len(found) != counted:
            raise ProviderError(f"the broker sent {len(found)} messages in place of {counted}; read again")
        return found

    def acknowledge(self, opened: OpenGroup, upto: int) -> None:
        group = opened.group
        self._connection.ask_until_answered(
            commands.AcknowledgeGroup(group=group.name, generation=group.generation, fence=opened.fence, upto=upto)
        )

    def release(self, name: str) -> int:
        return Counted.read(self._connection.ask(commands.ReleaseGroup(group=name))).messages

    def groups(self) -> Sequence[ReaderGroup]:
        return GroupsListed.read(self._connection.ask_until_answered(commands.ListGroups())).groups


class NetworkPersistentSessions(PersistentSessions):
    """The registered clients of the broker."""

    def __init__(self, connection: CommandedConnection) -> None:
        self._connection = connection

    def register(self, name: str) -> RegisteredClient:
        check_client_name(name)
        # A repeated request supersedes the previous registration: this client's own, whose answer was lost.
        return ClientsListed.read(self._connection.ask_until_answered(commands.RegisterClient(client=name))).only()

    def deregister(self, name: str) -> None:
        check_client_name(name)
        self._connection.ask(commands.DeregisterClient(client=name))

    def clients(self) -> Sequence[RegisteredClient]:
        return ClientsListed.read(self._connection.ask_until_answered(commands.ListClients())).clients


class NetworkStages(Stages):
    """The staged units of the broker."""

    def __init__(self, connection: CommandedConnection) -> None:
        self._connection = connection

    def promote(self, sink: str, epoch: int, units: Sequence[StageName]) -> bool:
        # After a lost connection False may mean that the request without an answer has done it: it is done in any case.
        command = commands.PromoteEpoch(sink=sink, epoch=epoch, units=tuple(units))
        return Promoted.read(self._connection.ask_until_answered(command)).is_new

    def discard(self, units: Sequence[StageName]) -> None:
        self._connection.ask_until_answered(commands.DiscardUnits(units=tuple(units)))

    def marker(self, sink: str) -> int | None:
        return MarkerRead.read(self._connection.ask_until_answered(commands.ReadMarker(sink=sink))).epoch

    def units(self, sink: str | None = None) -> Sequence[StagedUnit]:
        return UnitsListed.read(self._connection.ask_until_answered(commands.ListUnits(sink=sink))).units
