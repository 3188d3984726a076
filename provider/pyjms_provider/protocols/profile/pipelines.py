"""The commands of data pipelines at the broker: reader groups and staged units.

Access rights: any use of a group, and its end, need READ on the group's source. Staged messages were sent with WRITE. Only the writers of a
sink know its name, so a client that names a sink may promote and discard its units; the list of all units needs OBSERVE on the virtual
host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import AccessDeniedError, GroupError
from pyjms.spi.replay import GroupRequest, OpenGroup, ReaderGroup
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import (
    Counted,
    GroupOpened,
    GroupsListed,
    MarkerRead,
    Promoted,
    Reserved,
    UnitsListed,
)
from pyjms_provider.protocols.profile.handlers import Handlers

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConnection
    from pyjms.spi.replay import ReservedMessage
    from pyjms_provider.protocols.hosts import Guard

LONG_VERBS: Final[frozenset[type[commands.Command]]] = frozenset({commands.ReserveMessages, commands.ReadGroup})
"""Commands that take long even without a disk."""
PIPELINE_COMMANDS: Final = frozenset(
    kind.COMMAND
    for kind in commands.COMMANDS
    if kind in commands.PIPELINE_VERBS and kind is not commands.StageTransaction
)
"""Commands that belong to no session."""


class ServedPipelines:
    """The groups and units of one connection. Any thread: threads that look a group up at once find the same."""

    def __init__(self, connection: ProviderConnection, guard: Guard, client_id: Callable[[], str]) -> None:
        """`client_id`: returns the client identifier of the connection; empty: it has none."""
        self._connection = connection
        self._guard = guard
        self._client_id = client_id
        self._known: dict[str, ReaderGroup] = {}

    def handlers(self) -> Handlers:
        """Return the handler of each command but READ, and whether it may wait for the disk."""
        return {
            commands.OpenReaderGroup: (self._open, True),
            commands.ReserveMessages: (self._reserve, True),
            commands.AcknowledgeGroup: (self._acknowledge, True),
            commands.ReleaseGroup: (self._release, True),
            commands.ListGroups: (self._list_groups, False),
            commands.PromoteEpoch: (self._promote, True),
            commands.DiscardUnits: (self._discard, True),
            commands.ReadMarker: (self._read_marker, False),
            commands.ListUnits: (self._list_units, False),
        }

    # Reader groups

    def _open(self, command: commands.OpenReaderGroup) -> Mapping[str, str]:
        self._guard.read(command.address)
        if command.subscription is not None:
            self._guard.subscribe(self._client_id(), command.subscription)
        request = GroupRequest(
            name=command.group, address=command.address, subscription=command.subscription, selector=command.selector
        )
        return GroupOpened(self._connection.reader_groups().open(request)).headers()

    def _reserve(self, command: commands.ReserveMessages) -> Mapping[str, str]:
        high = self._connection.reader_groups().reserve(
            self._opened(command.group, command.generation, command.fence),
            after=command.after,
            max_messages=command.max_messages,
            max_bytes=command.max_bytes,
            wait_ms=command.wait_ms,
        )
        return Reserved(high).headers()

    def read(self, command: commands.ReadGroup) -> Sequence[ReservedMessage]:
        """Return the page that READ asks for. May wait; raises `ProviderError`."""
        self._group(command.group, command.generation)
        return self._connection.reader_groups().read(
            command.group, command.generation, after=command.after, upto=command.upto
        )

    def _acknowledge(self, command: commands.AcknowledgeGroup) -> None:
        opened = self._opened(command.group, command.generation, command.fence)
        self._connection.reader_groups().acknowledge(opened, command.upto)

    def _release(self, command: commands.ReleaseGroup) -> Mapping[str, str]:
        # Looked up again, since RELEASE names no generation.
        self._known.pop(command.group, None)
        # For the check only: ending a group needs the right to read it.
        self._group(command.group, None)
        return Counted(self._connection.reader_groups().release(command.group)).headers()

    def _list_groups(self, _: commands.ListGroups) -> Mapping[str, str]:
        visible: list[ReaderGroup] = []
        for group in self._connection.reader_groups().groups():
            # A group that the user may not read is left out of the list.
            with suppress(AccessDeniedError):
                self._guard.read(group.address)
                visible.append(group)
        return GroupsListed(visible).headers()

    def _opened(self, name: str, generation: str, fence: int) -> OpenGroup:
        return OpenGroup(group=self._group(name, generation), fence=fence)

    def _group(self, name: str, generation: str | None) -> ReaderGroup:
        """Return a group that the user may read, perhaps from the cache. Raises `AccessDeniedError`; `GroupError` if it does not exist."""
        group = self._known.get(name)
        # Cached, since each command would have to list all groups; a released group has another generation.
        if group is None or group.generation != generation:
            found = [each for each in self._connection.reader_groups().groups() if each.name == name]
            if not found:
                raise GroupError(f"there is no reader group {name!r}: it was never opened, or was released")
            (group,) = found
            if generation not in {None, group.generation}:
                raise GroupError(
                    f"reader group {name!r} is a new one: the one with these numbers is gone; open it again"
                )
            self._known[name] = group
        self._guard.read(group.address)
        return group

    # Staged units

    def _promote(self, command: commands.PromoteEpoch) -> Mapping[str, str]:
        return Promoted(self._connection.stages().promote(command.sink, command.epoch, command.units)).headers()

    def _discard(self, command: commands.DiscardUnits) -> None:
        self._connection.stages().discard(command.units)

    def _read_marker(self, command: commands.ReadMarker) -> Mapping[str, str]:
        return MarkerRead(self._connection.stages().marker(command.sink)).headers()

    def _list_units(self, command: commands.ListUnits) -> Mapping[str, str]:
        if command.sink is None:
            self._guard.observe()
        return UnitsListed(self._connection.stages().units(command.sink)).headers()
