"""The open transaction, or branch, of one session at the pyjms broker, which commands of the pyjms profile end.

Both protocols use it: their sessions send and acknowledge in the unit, and say how a command reaches the broker (`CommandChannel`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

from pyjms.spi.errors import (
    BranchError,
    CapabilityError,
    InDoubtError,
    ProviderError,
    RolledBackError,
)
from pyjms.spi.sessions import check_tags
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.network.calls import (
    ConnectionLostInCallError,
    NotSentError,
    UnansweredError,
    lost_while_ended,
)
from pyjms_provider.clients.network.failover import Physical
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import Counted, Noted, Prepared, Recovered

if TYPE_CHECKING:
    from pyjms.spi.replay import StageName
    from pyjms.spi.sessions import ClientTags

_log = logging.getLogger("pyjms.network")

BranchCommand: TypeAlias = (
    commands.EndBranch
    | commands.PrepareBranch
    | commands.PrepareTransaction
    | commands.PrepareRenamedBranch
    | commands.CommitBranch
    | commands.RollbackBranch
    | commands.ForgetBranch
)
Headers: TypeAlias = "Mapping[str, str]"

_END_MODES: Final = {
    commands.BeginMode.NEW: commands.EndMode.FAIL,
    commands.BeginMode.JOIN: commands.EndMode.SUCCESS,
    commands.BeginMode.RESUME: commands.EndMode.SUSPEND,
}


class RepeatableRequest(Protocol):
    """A request that must not be done twice: a call whose wait timed out may wait for its answer again."""

    def is_same(self, physical: Any, what: object) -> bool:
        """Return whether it is the request `what` on `physical`."""
        ...


_P = TypeVar("_P", bound=Physical)
_R = TypeVar("_R", bound=RepeatableRequest)


class CommandChannel(Protocol[_P, _R]):
    """How the commands of one session reach the broker. `ask` and `ask_once` raise the broker's error, `ConnectionLostInCallError`,
    `UnansweredError`.
    """

    def check_open(self) -> None:
        """Raise `ClosedError` or `ConnectionLostError` if the session is over."""
        ...

    def current(self) -> _P:
        """Return the present physical connection; wait for it while it is being replaced."""
        ...

    def ask(self, physical: _P, command: commands.Command, late: Callable[[], None] | None = None) -> Headers:
        """Send a command behind all that the session has sent, and return the headers of its answer.

        `late` is called if the broker has done it after the wait for its answer has ended.
        """
        ...

    def tell(self, physical: _P, command: commands.Command) -> None:
        """Send a command that has no answer: if it fails, the open transaction does. Raises `ConnectionLostInCallError`, `ProviderError`."""
        ...

    def request(self, physical: _P, command: BranchCommand) -> _R:
        """Return a request for a command that must not be done twice; it is not sent yet."""
        ...

    def ask_once(self, request: _R, command: BranchCommand) -> Headers:
        """Send the command of a request, or wait for its answer again if it was sent already."""
        ...

    def take_back(self, physical: _P, command: commands.Command) -> None:
        """Have the broker undo what it may have done for a call that was not answered in time; its refusal is dropped."""
        ...


class _BranchRequests(Generic[_P, _R]):
    """The branch requests of one session, each done once even if the call is repeated (decision 0603). Any thread: a transaction manager may
    decide several branches through one session.
    """

    def __init__(self, channel: CommandChannel[_P, _R]) -> None:
        self._channel = channel
        self._unanswered: dict[tuple[Xid, type[BranchCommand]], _R] = {}
        """The last request of each kind about a branch, if its answer was not received."""

    def request(self, physical: _P, command: BranchCommand) -> Headers:
        """Send a command that changes a branch; return its answer. If the last call of its kind about the branch sent
        the same command and got no answer, wait for that answer: the command is done once, also with other threads. Raises
        as `CommandChannel.ask_once`.
        """
        request = self._unanswered.get(_about(command))
        if request is None or not request.is_same(physical, command):
            request = self._unanswered[_about(command)] = self._channel.request(physical, command)
        return self._await(request, command)

    def await_again(self, command: BranchCommand) -> Headers:
        """Wait again for the answer to a command that had none. Raises as `CommandChannel.ask_once`."""
        request = self._unanswered.get(_about(command))
        if request is None:
            raise ConnectionLostInCallError("no answer came before")
        return self._await(request, command)

    def _await(self, request: _R, command: BranchCommand) -> Headers:
        try:
            answer = self._channel.ask_once(request, command)
        except UnansweredError:
            # The request is kept: if the call is made again, it waits for this answer.
            # A second END or PREPARE would be refused with XAER_PROTO (decision 0603).
            raise
        except (ConnectionLostInCallError, ProviderError):
            # No answer comes on another connection. A refused command had no effect, and may be sent again.
            self._unanswered.pop(_about(command), None)
            raise
        self._unanswered.pop(_about(command), None)
        return answer

    def forget(self, xid: Xid) -> None:
        """Drop the requests about a branch, so that none answers for a later one of the same name."""
        for about in [*self._unanswered]:
            if xid in about:
                self._unanswered.pop(about, None)

    def clear(self) -> None:
        """Drop all requests, as the connection is lost: no answer comes any more."""
        self._unanswered.clear()


def _about(command: BranchCommand) -> tuple[Xid, type[BranchCommand]]:
    return command.xid, type(command)


def unreachable(error: ConnectionLostInCallError | UnansweredError) -> BranchError:
    """Return XA's error for a branch whose outcome is not known."""
    reason = (
        error.reason
        if isinstance(error, UnansweredError)
        else f"the connection was lost ({error}): it is not known what became of the branch"
    )
    return BranchError(reason, BranchFailure.UNREACHABLE)


class SessionUnit(Generic[_P, _R]):
    """The open transaction or branch of one session, and the calls that end it."""

    def __init__(
        self,
        channel: CommandChannel[_P, _R],
        session: str,
        *,
        transacted: bool,
        default_timeout_s: Callable[[], int],
        can_prepare: Callable[[], bool],
    ) -> None:
        """`default_timeout_s`: the broker's default time limit of branches; `can_prepare`: whether it can prepare the open transaction."""
        self._channel = channel
        self._session = session
        self.transacted = transacted
        self._default_timeout_s = default_timeout_s
        self._can_prepare = can_prepare
        self.physical: _P | None = None
        """The physical connection on which the open transaction, or the branch, has begun: all its commands must go there."""
        self.is_doomed = False
        """Whether the transaction has acknowledged a message of a lost connection, which comes again."""
        self._is_ending = False
        """Whether the broker is being asked to commit, prepare or stage the transaction, or a signal interrupted that call."""
        self._branch_requests = _BranchRequests(channel)
        self._unknown: set[Xid] = set()
        """Branches that the session's transactions were to become, where no answer said whether they have."""
        self._timeout_s = 0
        self.request_tag: ClientTags | None = None
        """Outside of transactions, the tag that the next send stores."""
        self.reply_tag: ClientTags | None = None
        """The tag that the next acknowledgement stores."""

    def enter(self, physical: _P) -> _P:
        """Return the physical connection of the open transaction; one begins on `physical` if there is none."""
        if self.physical is None:
            self.physical = physical
        return self.physical

    def _leave(self) -> None:
        """Forget the transaction, which has ended."""
        self.physical = None
        self.is_doomed = self._is_ending = False

    def interrupted(self) -> None:
        """Drop the requests of the physical connection, which has ended. The unit stays: its end tells what became of it."""
        self._branch_requests.clear()

    # Local transactions

    def commit(self) -> None:
        """Commit the open transaction. Raises as `ProviderSession.commit`."""
        self._check_transacted()
        physical = self.physical
        self._check(physical)
        # Nothing was sent or acknowledged: the broker knows of no transaction.
        if physical is None:
            return
        try:
            self._end(physical, commands.CommitTransaction(session=self._session), "committed")
        except BranchError:
            self._is_ending = False  # the session works in a branch, which goes on
            raise
        except ProviderError:
            self._leave()
            raise
        self._leave()

    def _check(self, physical: _P | None) -> None:
        """Raise `RolledBackError` or `InDoubtError` if the open transaction, which began in `physical`, cannot be committed or staged."""
        if self._is_ending:
            self._leave()
            raise InDoubtError("a signal interrupted the end of the transaction: it is not known whether that was done")
        if self.is_doomed or (physical is not None and physical.has_ended):
            self.rollback()
            raise RolledBackError("the transaction was rolled back, as the connection was lost in it")

    def _end(self, physical: _P, command: commands.Command, how: str) -> Headers:
        """Ask the broker to end the open transaction; return its answer. Raises the broker's error, `RolledBackError`, `InDoubtError`."""
        # Set before anything is written: if a signal ends this
        # call, the next one must not take the transaction for open.
        self._is_ending = True
        try:
            answer = self._channel.ask(physical, command)
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise lost_while_ended(error, how) from error
        self._is_ending = False
        return answer

    def prepare(self, xid: Xid) -> bool:
        """Prepare the open transaction as branch `xid`; return whether it needs a commit. Raises as `ProviderSession.prepare`."""
        self._check_transacted()
        if not self._can_prepare():
            raise CapabilityError(
                "the broker cannot prepare the transaction of a session: it has no XA, or is an older one"
            )
        command = commands.PrepareTransaction(session=self._session, xid=xid)
        ask = partial(self._branch_requests.await_again, command)
        if xid not in self._unknown:
            physical = self.physical
            self._check(physical)
            if physical is None:
                return False
            self._is_ending = True
            self._unknown.add(xid)
            ask = partial(self._branch_requests.request, physical, command)
        try:
            answer = ask()
        except (ConnectionLostInCallError, UnansweredError) as error:
            if isinstance(error, NotSentError):
                self._unknown.discard(xid)
            self._prepared()
            raise lost_while_ended(error, "prepared") from error
        except ProviderError as error:
            self._unknown.discard(xid)
            if isinstance(error, BranchError) and error.failure is not BranchFailure.DUPLICATE:
                self._is_ending = False  # the session works in a branch, which goes on
            else:
                self._prepared()
            raise
        self._unknown.discard(xid)
        self._prepared()
        return Prepared.read(answer).needs_commit

    def _prepared(self) -> None:
        """Forget the transaction that was to be prepared, if no other one has begun since an earlier call."""
        if self._is_ending:
            self._leave()

    def stage(self, name: StageName, *, keep_s: int) -> int:
        """Stage the open transaction. Raises as `ProviderSession.stage`."""
        self._check_transacted()
        physical = self.enter(self.physical or self._channel.current())
        self._check(physical)
        command = commands.StageTransaction(
            session=self._session,
            sink=name.sink,
            epoch=name.epoch,
            partition=name.partition,
            attempt=name.attempt,
            keep_s=keep_s,
        )
        try:
            staged = Counted.read(self._end(physical, command, "staged")).messages
        except (RolledBackError, InDoubtError):
            self._leave()
            raise
        except ProviderError:  # the transaction is unchanged
            self._is_ending = False
            raise
        self._leave()
        return staged

    def rollback(self) -> None:
        """Roll the open transaction back; a lost connection is no error, as the broker has done it then. Raises as `ProviderSession.rollback`."""
        self._check_transacted()
        physical = self.physical
        if physical is not None and not self._is_ending:
            try:
                self._channel.ask(physical, commands.AbortTransaction(session=self._session))
            except ConnectionLostInCallError:
                _log.debug("the connection ended before the broker had heard that the transaction is rolled back")
        self._leave()

    def _check_transacted(self) -> None:
        self._channel.check_open()
        if not self.transacted:
            raise CapabilityError("the session is not transacted")

    # Tags of registered clients

    def tag(self, tags: ClientTags) -> None:
        """Store tags with the next send, the next acknowledgement, or the commit. Raises as `ProviderSession.tag`."""
        self._channel.check_open()
        check_tags(tags)
        if self.transacted:
            # Not answered, as an acknowledgement in a transaction: if it is refused, the commit raises the error.
            physical = self.enter(self.physical or self._channel.current())
            try:
                self._channel.tell(physical, self.tagging(tags))
            except ConnectionLostInCallError:
                _log.debug("the connection ended before the broker had heard of a tag")
            return
        if tags.request is not None:
            self.request_tag = replace(tags, reply=None)
        if tags.reply is not None:
            self.reply_tag = replace(tags, request=None)

    def tagging(self, tags: ClientTags) -> commands.TagUnit:
        """Return the command that stores tags with what the session does next."""
        return commands.TagUnit(
            session=self._session,
            client=tags.name,
            incarnation=tags.incarnation,
            request=tags.request,
            reply=tags.reply,
        )

    # Distributed transactions

    def xa_start(self, xid: Xid, *, join: bool, resume: bool) -> None:
        """Begin to work in a branch. Raises as `ProviderSession.xa_start`."""
        if join and resume:
            raise BranchError("a session joins a branch or resumes it, not both", BranchFailure.INVALID)
        mode = commands.BeginMode.JOIN if join else commands.BeginMode.RESUME if resume else commands.BeginMode.NEW
        self._channel.check_open()
        physical = self._channel.current()
        command = commands.BeginBranch(session=self._session, xid=xid, mode=mode, timeout_s=self._timeout_s)
        # A request about an earlier branch of this name must not answer for the new one.
        self._branch_requests.forget(xid)
        self._unknown.discard(xid)
        try:
            self._channel.ask(physical, command, late=lambda: self._started_late(physical, command))
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise unreachable(error) from error
        self.physical, self.is_doomed = physical, False

    def _started_late(self, physical: _P, command: commands.BeginBranch) -> None:
        """Leave a branch that a call which timed out has started or joined; a new one ends, any other is left as it was. Any thread."""
        mode = _END_MODES[command.mode]
        self._channel.take_back(physical, commands.EndBranch(session=self._session, xid=command.xid, mode=mode))
        if command.mode is commands.BeginMode.NEW:
            self._channel.take_back(physical, commands.RollbackBranch(session=self._session, xid=command.xid))

    def xa_end(self, xid: Xid, *, suspend: bool, fail: bool) -> None:
        """End the work in a branch. Raises as `ProviderSession.xa_end`."""
        if suspend and fail:
            raise BranchError("work is suspended or has failed, not both", BranchFailure.INVALID)
        if self.physical is not None and self.physical.has_ended:
            # On the next connection the broker knows of no work in the branch that could end.
            raise BranchError(
                "the branch can only be rolled back, as the connection was lost in it", BranchFailure.ROLLED_BACK
            )
        # It stays doomed until the broker has answered: a call without an answer may be repeated.
        fails = fail or self.is_doomed
        mode = commands.EndMode.FAIL if fails else commands.EndMode.SUSPEND if suspend else commands.EndMode.SUCCESS
        try:
            self._branch(commands.EndBranch(session=self._session, xid=xid, mode=mode))
        except BranchError as error:
            if error.failure is not BranchFailure.UNREACHABLE:
                self.physical, self.is_doomed = None, False
            raise
        self.physical, self.is_doomed = None, False

    def xa_prepare(self, xid: Xid) -> bool:
        """Prepare a branch; return whether it needs a commit. Raises as `ProviderSession.xa_prepare`."""
        return Prepared.read(self._branch(commands.PrepareBranch(session=self._session, xid=xid))).needs_commit

    def xa_prepare_as(self, xid: Xid, name: Xid) -> bool:
        """Prepare a branch under another name. Raises as `ProviderSession.xa_prepare_as`."""
        command = commands.PrepareRenamedBranch(session=self._session, xid=name, branch=xid)
        return Prepared.read(self._branch(command)).needs_commit

    def xa_note(self, xid: Xid, notes: Collection[str]) -> Collection[str]:
        """Add notes to a branch, and return all of them. Raises as `ProviderSession.xa_note`."""
        command = commands.NoteBranch(session=self._session, xid=xid, notes=tuple(sorted(notes)))
        return Noted.read(self._asked(command)).notes

    def xa_commit(self, xid: Xid, *, one_phase: bool) -> None:
        """Commit a branch. Raises as `ProviderSession.xa_commit`."""
        self._branch(commands.CommitBranch(session=self._session, xid=xid, one_phase=one_phase))
        self._unknown.discard(xid)

    def xa_rollback(self, xid: Xid) -> None:
        """Roll a branch back. Raises as `ProviderSession.xa_rollback`."""
        self._branch(commands.RollbackBranch(session=self._session, xid=xid))
        self._unknown.discard(xid)

    def xa_recover(self) -> Sequence[Xid]:
        """Return the branches in doubt. Raises as `ProviderSession.xa_recover`."""
        return Recovered.read(self._asked(commands.RecoverBranches(session=self._session))).xids

    def _asked(self, command: commands.Command) -> Headers:
        """Send a command about branches that may be done twice, and return its answer. Raises `BranchError`, `ProviderError`."""
        self._channel.check_open()
        try:
            return self._channel.ask(self._channel.current(), command)
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise unreachable(error) from error

    def xa_forget(self, xid: Xid) -> None:
        """Forget a branch that was completed heuristically. Raises as `ProviderSession.xa_forget`."""
        self._branch(commands.ForgetBranch(session=self._session, xid=xid))

    def xa_set_timeout(self, seconds: int) -> None:
        """Set the time limit of branches that begin from now on; 0: the broker's default."""
        self._timeout_s = seconds

    def xa_get_timeout(self) -> int:
        """Return the time limit of branches that begin from now on."""
        return self._timeout_s or self._default_timeout_s()

    def _branch(self, command: BranchCommand) -> Headers:
        """Send a command that changes a branch, and return its answer; see `_BranchRequests.request`. Raises `BranchError`, `ProviderError`."""
        self._channel.check_open()
        try:
            return self._branch_requests.request(self._channel.current(), command)
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise unreachable(error) from error
