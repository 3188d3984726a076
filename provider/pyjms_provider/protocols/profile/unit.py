"""The open transaction, or branch of a distributed one, of a session of a pyjms client at the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from pyjms.spi.errors import BranchError, ProviderError, RolledBackError
from pyjms.spi.xid import BranchFailure
from pyjms_provider.protocols.profile.commands import BeginBranch, BeginMode, EndBranch, EndMode

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderSession
    from pyjms.spi.replay import StageName
    from pyjms.spi.sessions import ClientTags
    from pyjms.spi.xid import Xid

_SMALL: Final = 256
"""The most messages of a transaction whose commit takes a moment only."""
_MESSAGE_BYTES: Final = 16_384
"""This many bytes take as long to write as a small message does."""


class AcceptedDeliveries(Protocol):
    """The deliveries that were acknowledged in the open transaction or branch."""

    def committed(self) -> None:
        """Give them up: they were committed, or belong to a branch that goes on without the session."""
        ...

    def rolled_back(self) -> None:
        """Have them be unsettled again. Raises as the SPI does."""
        ...


class ServedUnit:
    """The open unit of work of one session. Only the session's executor uses it, except `spoil`."""

    def __init__(self, session: ProviderSession, accepted: AcceptedDeliveries, *, transacted: bool) -> None:
        self.session = session
        self.transacted = transacted
        self.failure: ProviderError | None = None
        """Why the transaction can only be rolled back: something failed in it of which the client was told nothing."""
        self.branch: Xid | None = None
        self.size = 0
        """How many messages the open transaction has sent and acknowledged, plus the number that their bytes amount to."""
        self.is_tagged = False
        """Whether tags were set outside of a transaction, which a send or an acknowledgement writes."""
        self._accepted = accepted

    @property
    def is_open(self) -> bool:
        """Whether acknowledgements may still be rolled back."""
        return self.transacted or self.branch is not None

    @property
    def is_small(self) -> bool:
        """Whether the commit takes a moment only."""
        return self.size <= _SMALL

    def grow(self, messages: int, size: int) -> None:
        """Count `messages` of `size` bytes together that were sent in the transaction, if there is one."""
        if self.transacted:
            self.size += messages + size // _MESSAGE_BYTES

    def spoil(self, error: ProviderError) -> None:
        """Have the unit, if one is open, be rolled back by its commit. Any thread."""
        if self.is_open and self.failure is None:
            self.failure = error

    def tag(self, tags: ClientTags) -> None:
        """Set the tags of a registered client. Raises as the SPI does."""
        self.session.tag(tags)
        # Stays set: the session may be tagged again with each message.
        self.is_tagged = self.is_tagged or not self.is_open

    # Local transactions

    def commit(self) -> None:
        """Commit, or roll back if something failed before. Raises as the SPI does."""
        self._end()
        try:
            self.session.commit()
        except RolledBackError:
            self._accepted.rolled_back()
            raise
        self._settled()

    def prepare(self, xid: Xid) -> bool:
        """Prepare the transaction, or roll back if something failed before. Raises as the SPI does."""
        self._end()
        try:
            is_changed = self.session.prepare(xid)
        except (RolledBackError, BranchError):
            if self.branch is None:  # else the work in the branch goes on
                self._accepted.rolled_back()
            raise
        self._settled()
        return is_changed

    def stage(self, name: StageName, keep_s: int) -> int:
        """Stage the transaction, or roll back if something failed before. Raises as the SPI does."""
        self._end()
        return self.session.stage(name, keep_s=keep_s)

    def _end(self) -> None:
        """Prepare for the transaction's end, successful or not. Raises `RolledBackError` if something has failed in it, with that error as
        its cause.
        """
        # First, as a send of which the client was told nothing may have failed: then the commit must roll back, and say why.
        failure = self.failure
        if failure is None:
            self.size = 0
            return
        self.roll_back()
        raise RolledBackError(
            f"the transaction was rolled back, as something in it had failed: {failure.reason}"
        ) from failure

    def roll_back(self) -> None:
        """Roll back. Raises as the SPI does."""
        self.session.rollback()
        # Only now: a branch in which the session works goes on.
        self.failure = None
        self.size = 0
        self._accepted.rolled_back()

    def _settled(self) -> None:
        self.size = 0
        self._accepted.committed()

    # Branches

    def begin_branch(self, command: BeginBranch) -> None:
        """Work in a branch from now on. Raises as the SPI does."""
        # Without a transaction, its messages would be visible at once.
        if not self.transacted:
            raise BranchError(
                "a session works in branches if it was opened with transacted:true", BranchFailure.PROTOCOL
            )
        if command.timeout_s:
            self.session.xa_set_timeout(command.timeout_s)
        self.session.xa_start(command.xid, join=command.mode is BeginMode.JOIN, resume=command.mode is BeginMode.RESUME)
        self.branch = command.xid

    def end_branch(self, command: EndBranch) -> None:
        """End the work in a branch. Raises as the SPI does."""
        # A send without an answer has failed in the branch, unnoticed by the client, so the branch must not commit.
        failure, self.failure = self.failure, None
        fails = failure is not None or command.mode is EndMode.FAIL
        if self.branch == command.xid:
            self.branch = None
        suspends = command.mode is EndMode.SUSPEND and not fails
        self.session.xa_end(command.xid, suspend=suspends, fail=fails)
        self._settled()  # the deliveries belong to the branch
        if failure is not None:
            raise BranchError(
                f"the branch can only be rolled back, as something in it failed: {failure.reason}",
                BranchFailure.ROLLED_BACK,
            )
