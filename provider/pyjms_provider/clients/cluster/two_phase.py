"""The commit of a transaction that has parts at several shards (two-phase commit, with presumed abort)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pyjms.spi.errors import ClosedError, ConnectionLostError, InDoubtError, ProviderError, RolledBackError
from pyjms_provider.cluster.branch_names import branch_of
from pyjms_provider.cluster.placement import ShardPlace

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderSession
    from pyjms.spi.xid import Xid
    from pyjms_provider.clients.cluster.shard_connection import ShardConnection
    from pyjms_provider.cluster.contracts import DecisionLog

_log = logging.getLogger("pyjms.cluster")


class Participant(Protocol):
    """A part of a session with a part of the transaction."""

    shard: ShardConnection
    session: ProviderSession | None
    term: int


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
            _commit_one(shards[0])
        elif shards:
            _commit_shards(decisions, shards)
    except ProviderError:
        for part in fronts:  # their work must not become part of the next transaction
            with suppress(ProviderError):
                _session_of(part).rollback()
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


def _commit_one(part: Participant) -> None:
    try:
        _session_of(part).commit()
    except (ClosedError, ConnectionLostError) as error:
        part.shard.lose(part.term, error)
        raise RolledBackError(
            f"the transaction was rolled back, as another member became the leader: {error.reason}"
        ) from error


def _session_of(part: Participant) -> ProviderSession:
    assert part.session is not None, "it has a part of the transaction"
    return part.session


def _commit_shards(decisions: DecisionLog, parts: Sequence[Participant]) -> None:
    transaction = decisions.new_id()
    prepared: list[Participant] = []
    for index, part in enumerate(parts):
        try:
            if _session_of(part).prepare(branch_of(transaction, _number(part))):
                prepared.append(part)
        except ProviderError as error:
            _roll_back(decisions, transaction, prepared, [part])
            for later in parts[index + 1 :]:
                with suppress(ProviderError):
                    _session_of(later).rollback()
            raise RolledBackError(
                f"the transaction was rolled back, as a part of it could not be prepared: {error.reason}"
            ) from (error.__cause__ or error if isinstance(error, RolledBackError) else error)
    if not prepared:
        return
    try:
        is_committed = decisions.commit(transaction, [_number(part) for part in prepared])
    except InDoubtError:
        raise  # the log settles it
    except ProviderError as error:
        _roll_back(decisions, transaction, prepared, [])
        raise RolledBackError(
            f"the transaction was rolled back, as its commit could not be written: {error.reason}"
        ) from error
    if not is_committed:
        _roll_back(decisions, transaction, prepared, [])
        raise RolledBackError("the transaction was rolled back, as the other members took this one for dead")
    if _decide(transaction, prepared, commit=True):
        decisions.forget(transaction)


def _roll_back(
    decisions: DecisionLog, transaction: str, prepared: Sequence[Participant], unsure: Sequence[Participant]
) -> None:
    """Roll back parts that are prepared, and `unsure` ones that may be."""
    if not _decide(transaction, prepared, commit=False) or unsure:
        decisions.roll_back(transaction, [_number(part) for part in (*prepared, *unsure)])


def _decide(transaction: str, parts: Sequence[Participant], *, commit: bool) -> bool:
    """Tell parts the decision; return whether all have applied it. The members settle the others."""
    are_all = True
    for part in parts:
        xid = branch_of(transaction, _number(part))
        settle = partial(_settle, xid, commit=commit)
        try:
            try:
                settle(_session_of(part))
            except (ClosedError, ConnectionLostError):
                if not part.shard.is_led_for(part.term):
                    raise
                # The client closes at this moment.
                part.shard.act_apart(settle)
        except ProviderError as error:
            _log.info("shard %d settles its part of %s later: %s", _number(part), transaction, error.reason)
            are_all = False
    return are_all


def _settle(xid: Xid, session: ProviderSession, *, commit: bool) -> None:
    if commit:
        session.xa_commit(xid)
    else:
        session.xa_rollback(xid)


def _number(part: Participant) -> int:
    place = part.shard.place
    assert isinstance(place, ShardPlace), "fronts are committed afterwards"
    return place.number
