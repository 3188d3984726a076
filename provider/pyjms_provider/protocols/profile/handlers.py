"""The commands of sessions, and those on registered clients, at the broker: each is one call of the SPI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pyjms.spi.replay import StageName
from pyjms.spi.sessions import ClientTags
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import ClientsListed, Counted, Noted, Prepared, Recovered

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConnection, ProviderSession
    from pyjms_provider.protocols.profile.unit import ServedUnit

Handler: TypeAlias = Callable[[Any], Mapping[str, str] | None]
"""Does a command; returns the headers of the answer. Raises as the SPI does."""
Handlers: TypeAlias = Mapping[type[commands.Command], tuple[Handler, bool]]
"""The handler of each command, and whether it may wait for the disk."""


class SessionCommands:
    """The commands on transactions, branches, staged units and tags."""

    def __init__(self, unit_of: Callable[[str], ServedUnit]) -> None:
        """`unit_of`: returns the unit of the session that a command names. Raises `ProviderError`: there is none."""
        self._unit_of = unit_of

    def handlers(self) -> Handlers:
        """Return the handler of each command, and whether it may wait for the disk."""
        return {
            commands.CommitTransaction: (self._commit, True),
            commands.AbortTransaction: (self._abort, False),
            commands.BeginBranch: (self._begin_branch, False),
            commands.EndBranch: (self._end_branch, False),
            commands.PrepareBranch: (self._prepare, True),
            commands.PrepareTransaction: (self._prepare_transaction, True),
            commands.PrepareRenamedBranch: (self._prepare_renamed, True),
            commands.NoteBranch: (self._note, False),
            commands.CommitBranch: (self._commit_branch, True),
            commands.RollbackBranch: (self._roll_back_branch, True),
            commands.RecoverBranches: (self._recover_branches, False),
            commands.ForgetBranch: (self._forget_branch, True),
            commands.StageTransaction: (self._stage, True),
            commands.TagUnit: (self._tag, False),
        }

    def _commit(self, command: commands.CommitTransaction) -> None:
        self._unit_of(command.session).commit()

    def _abort(self, command: commands.AbortTransaction) -> None:
        self._unit_of(command.session).roll_back()

    def _stage(self, command: commands.StageTransaction) -> Mapping[str, str]:
        name = StageName(command.sink, command.epoch, command.partition, command.attempt)
        return Counted(self._unit_of(command.session).stage(name, command.keep_s)).headers()

    def _tag(self, command: commands.TagUnit) -> None:
        tags = ClientTags(
            name=command.client, incarnation=command.incarnation, request=command.request, reply=command.reply
        )
        self._unit_of(command.session).tag(tags)

    def _begin_branch(self, command: commands.BeginBranch) -> None:
        self._unit_of(command.session).begin_branch(command)

    def _end_branch(self, command: commands.EndBranch) -> None:
        self._unit_of(command.session).end_branch(command)

    def _prepare(self, command: commands.PrepareBranch) -> Mapping[str, str]:
        return Prepared(self._session(command.session).xa_prepare(command.xid)).headers()

    def _prepare_renamed(self, command: commands.PrepareRenamedBranch) -> Mapping[str, str]:
        return Prepared(self._session(command.session).xa_prepare_as(command.branch, command.xid)).headers()

    def _note(self, command: commands.NoteBranch) -> Mapping[str, str]:
        return Noted(tuple(self._session(command.session).xa_note(command.xid, command.notes))).headers()

    def _prepare_transaction(self, command: commands.PrepareTransaction) -> Mapping[str, str]:
        return Prepared(self._unit_of(command.session).prepare(command.xid)).headers()

    def _commit_branch(self, command: commands.CommitBranch) -> None:
        self._session(command.session).xa_commit(command.xid, one_phase=command.one_phase)

    def _roll_back_branch(self, command: commands.RollbackBranch) -> None:
        self._session(command.session).xa_rollback(command.xid)

    def _recover_branches(self, command: commands.RecoverBranches) -> Mapping[str, str]:
        return Recovered(tuple(self._session(command.session).xa_recover())).headers()

    def _forget_branch(self, command: commands.ForgetBranch) -> None:
        self._session(command.session).xa_forget(command.xid)

    def _session(self, name: str) -> ProviderSession:
        return self._unit_of(name).session


class RegistrationCommands:
    """The commands on registered clients."""

    def __init__(self, connection: ProviderConnection) -> None:
        self._connection = connection

    def handlers(self) -> Handlers:
        """Return the handler of each command, and whether it may wait for the disk."""
        return {
            commands.RegisterClient: (self._register, True),
            commands.DeregisterClient: (self._deregister, True),
            commands.ListClients: (self._list, False),
        }

    def _register(self, command: commands.RegisterClient) -> Mapping[str, str]:
        return ClientsListed([self._connection.persistent_sessions().register(command.client)]).headers()

    def _deregister(self, command: commands.DeregisterClient) -> None:
        self._connection.persistent_sessions().deregister(command.client)

    def _list(self, _: commands.ListClients) -> Mapping[str, str]:
        return ClientsListed(self._connection.persistent_sessions().clients()).headers()
