"""The commit of a transaction that has parts at several shards (two-phase commit, with presumed abort)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pyjms.spi.errors import (
    BranchError,
    InDoubtError,
    ProviderError,
    RolledBackError,
)
from pyjms.spi.xid import BranchFailure
from pyjms_provider.cluster.branch_names import branch_of
from pyjms_provider.cluster.placement import ShardPlace
from pyjms_provider.repeatable import LOST

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderSession
    from pyjms.spi.xid import Xid
    from pyjms_provider.clients.cluster.shard_connection import ShardConnection
    from pyjms_provider.cluster.contracts import DecisionLog

_log = logging.getLogger("pyjms.cluster")


class Participant(Protocol):
    """A part of the transaction, at one session, which stays the same: another one would know nothing of it."""

    @property
    def shard(self) -> ShardConnection:
        """The connection to its shard."""
        ...

    @property
    def session(self) -> ProviderSession | None:
        """The session at the shard."""
        ...

    @property
    def term(self) -> int:
        """The number of the session's term."""
        ...


def commit_together(decisions: DecisionLog, parts: Sequence[Participant]) -> None:
    """Commit the transaction in all parts, or in none.

    Parts at fronts, which have temporary destinations in memory, are committed once the others are: what is in them is lost with its
    member in any case.

    Args:
        decisions: Where the decision is written.
        parts: The parts; at most one for each place. None has been lost so far.

    Raises:
        RolledBackError: The transaction was rolled back.
        InDoubtError: It is unknown whether it was committed.
    """
    shards = [part for part in parts if isinstance(part.shard.place, ShardPlace)]
    fronts = [part for part in parts if part not in shards]
    try:
        if len(shards) == 1:
            commit_alone(shards[0])
        elif shards:
            _commit_shards(decisions, shards)
    except ProviderError:
        _roll_back_unprepared(fronts)
        raise
    failed: ProviderError | None = None
    for part in fronts:
        try:
            _session_of(part).commit()
        except ProviderError as error:
            failed = error
    if failed is None:
        return
    if not shards and len(fronts) == 1:
        raise failed
    raise InDoubtError(
        f"the transaction was committed, but what it did at temporary destinations was rolled back: {failed.reason}"
    ) from failed


def commit_alone(part: Participant, check_open: Callable[[], None] | None = None) -> None:
    """Commit the transaction in its only part.

    Args:
        part: The part.
        check_open: Raises an error if the session was lost as the client has closed it.

    Raises:
        RolledBackError: The transaction was rolled back.
        InDoubtError: It is unknown whether it was committed.
    """
    try:
        _session_of(part).commit()
    except (RolledBackError, InDoubtError):
        raise
    except LOST as error:
        if check_open is not None:
            check_open()
        part.shard.lose(part.term, error)
        raise RolledBackError(
            f"the transaction was rolled back, as another member became the leader: {error.reason}"
        ) from error
    except ProviderError as error:
        _roll_back_unprepared([part])
        raise InDoubtError(f"it is not known whether the transaction was committed: {error.reason}") from error


def _session_of(part: Participant) -> ProviderSession:
    assert part.session is not None, "it has a part of the transaction"
    return part.session


def _commit_shards(decisions: DecisionLog, parts: Sequence[Participant]) -> None:
    try:
        transaction = decisions.new_id()
    except ProviderError as error:
        _roll_back_unprepared(parts)
        raise RolledBackError(
            f"the transaction was rolled back, as it has parts at several shards, and this member cannot coordinate it now: {error.reason}"
        ) from error
    prepared: list[Participant] = []
    for index, part in enumerate(parts):
        try:
            if _session_of(part).prepare(branch_of(transaction, _number(part))):
                prepared.append(part)
        except Exception as error:
            roll_back_prepared(decisions, transaction, prepared, [part])
            # This one as well: it may have been refused before its transaction was touched.
            _roll_back_unprepared(parts[index:])
            if not isinstance(error, ProviderError):
                raise
            raise RolledBackError(
                f"the transaction was rolled back, as a part of it could not be prepared: {error.reason}"
            ) from (error.__cause__ or error if isinstance(error, RolledBackError) else error)
    commit_prepared(decisions, transaction, prepared)


def commit_prepared(decisions: DecisionLog, transaction: str, prepared: Sequence[Participant]) -> None:
    """Write the decision to commit a transaction, and tell its prepared parts, the branches `branch_of` names.

    Raises:
        RolledBackError: It was rolled back instead.
        InDoubtError: It is unknown whether the decision was written; the log settles it.
    """
    if not prepared:
        return
    try:
        is_committed = decisions.commit(transaction, [_number(part) for part in prepared])
    except InDoubtError:
        raise  # the log settles it
    except ProviderError as error:
        roll_back_prepared(decisions, transaction, prepared, [])
        raise RolledBackError(
            f"the transaction was rolled back, as its commit could not be written: {error.reason}"
        ) from error
    except Exception as error:
        # Rolled back unless it was written.
        decisions.roll_back(transaction, [_number(part) for part in prepared])
        raise InDoubtError(f"it is not known whether the transaction was committed: {error}") from error
    if not is_committed:
        roll_back_prepared(decisions, transaction, prepared, [])
        raise RolledBackError("the transaction was rolled back, as the other members took this one for dead")
    if _apply(transaction, prepared):
        decisions.forget(transaction)


def _roll_back_unprepared(parts: Sequence[Participant]) -> None:
    """Roll back parts, so that their work does not become part of the next transaction."""
    for part in parts:
        with suppress(ProviderError):
            _session_of(part).rollback()


def roll_back_prepared(
    decisions: DecisionLog, transaction: str, prepared: Sequence[Participant], unsure: Sequence[Participant]
) -> None:
    """Roll back parts that are prepared, and `unsure` ones that may be."""
    are_told = [_tell(transaction, part, commit=False) for part in prepared]
    if not all(are_told) or unsure:
        decisions.roll_back(transaction, [_number(part) for part in (*prepared, *unsure)])


def _apply(transaction: str, parts: Sequence[Participant]) -> bool:
    """Have all parts commit, also at a leader that comes only now: what the client does next there must follow. Return whether they have."""
    left = [part for part in parts if not _tell(transaction, part, commit=True)]
    are_all = True
    for part in left:
        try:
            part.shard.act_at_next_leader(_settling(transaction, part, commit=True))
        except ProviderError as error:
            _log.info("shard %d commits its part of %s later: %s", _number(part), transaction, error.reason)
            are_all = False
    return are_all


def _tell(transaction: str, part: Participant, *, commit: bool) -> bool:
    """Tell a part the decision; return whether it has applied it. If not, the members settle it."""
    settle = _settling(transaction, part, commit=commit)
    try:
        try:
            settle(_session_of(part))
        except LOST:
            if not part.shard.is_led_for(part.term):
                raise
            # The client closes at this moment.
            part.shard.act_apart(settle)
    except ProviderError as error:
        _log.info("shard %d has not settled its part of %s: %s", _number(part), transaction, error.reason)
        return False
    return True


def _settling(transaction: str, part: Participant, *, commit: bool) -> Callable[[ProviderSession], None]:
    return partial(_settle, branch_of(transaction, _number(part)), commit=commit)


def _settle(xid: Xid, session: ProviderSession, *, commit: bool) -> None:
    if not commit:
        session.xa_rollback(xid)
        return
    try:
        session.xa_commit(xid)
    except BranchError as error:
        # Another call, or the leader itself by the decision, has committed it.
        if error.failure is not BranchFailure.UNKNOWN:
            raise


def _number(part: Participant) -> int:
    place = part.shard.place
    assert isinstance(place, ShardPlace), "fronts are committed afterwards"
    return place.number
