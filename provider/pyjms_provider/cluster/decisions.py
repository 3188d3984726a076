"""Transactions over several shards: the log of decisions, and the resolver, which settles branches that nobody else does.

Presumed abort: a transaction without a decision whose coordinator has died is rolled back. The rows of members say who has died.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Signal
from pyjms.spi.errors import BranchError, InDoubtError, ProviderError
from pyjms.spi.xid import BranchFailure
from pyjms_provider.cluster.branch_names import branch_of, coordinator_of, transaction_of
from pyjms_provider.core.transaction.branches import BranchState
from pyjms_provider.stores.errors import StoreError, UncertainWriteError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.xid import Xid
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.contracts import ControlTables
    from pyjms_provider.stores.sql.cluster import DecisionRow

_log = logging.getLogger(__name__)
_SETTLE_MS: Final = 10_000
"""How long a commit whose outcome is unknown waits for the database."""
_RETRY_MS: Final = 100
_PATIENCE_MS: Final = 1_000
"""How old a branch is at least when the resolver settles it: younger ones are their coordinator's."""
_LATE_MS: Final = 60_000
"""How long a decision to roll back is kept for shards without such a branch: one may still be prepared there."""
_SWEEP_MS: Final = 5_000
"""How often decisions are looked for that all shards have applied."""
_PREPARED: Final = (
    BranchState.PREPARED,
    BranchState.HEURISTICALLY_COMMITTED,
    BranchState.HEURISTICALLY_ROLLED_BACK,
)
_HEURISTIC: Final = (BranchFailure.HEURISTICALLY_COMMITTED, BranchFailure.HEURISTICALLY_ROLLED_BACK)


class ClusterDecisions:
    """Implements `contracts.DecisionLog`."""

    def __init__(self, database: ControlTables, clock: Clock, incarnation: Callable[[], str]) -> None:
        """`incarnation` returns that of this member, and raises `ResourceError` if it has none."""
        self._database = database
        self._clock = clock
        self._incarnation = incarnation
        self._numbers = count(1)
        self._lock = Lock()
        self._closing = Signal()
        self._to_roll_back: dict[str, tuple[int, ...]] = {}
        self._to_forget: set[str] = set()

    def new_id(self) -> str:
        """Return the id of a new transaction."""
        return f"{self._incarnation()}:{next(self._numbers)}"

    def commit(self, transaction: str, shards: Sequence[int]) -> bool:
        """Write that a transaction is committed; return False if it is, or will be, rolled back."""
        until_ms = self._clock.monotonic_ms() + _SETTLE_MS
        may_be_written = False
        while True:
            try:
                found = self._database.decide_commit(transaction, shards, coordinator_of(transaction))
            except StoreError as error:
                # Once it may be written, no other error says that it is not.
                may_be_written = may_be_written or isinstance(error, UncertainWriteError)
                if not may_be_written:
                    raise
                why = error.reason
            else:
                if found is not None:
                    return found
                if not may_be_written:
                    return False
                why = "the other members took this one for dead meanwhile"
                until_ms = 0.0
            if self._clock.monotonic_ms() >= until_ms or self._closing.is_raised:
                with self._lock:
                    self._to_roll_back[transaction] = tuple(shards)
                raise InDoubtError(f"it is not known whether the transaction was committed: {why}")
            if self._clock.wait(self._closing, self._clock.monotonic_ms() + _RETRY_MS):
                self._closing.set()  # the wait has lowered it

    def roll_back(self, transaction: str, shards: Sequence[int]) -> None:
        """Have a transaction rolled back in shards that may have prepared a part of it. Does not wait."""
        with self._lock:
            self._to_roll_back[transaction] = tuple(shards)

    def forget(self, transaction: str) -> None:
        """Remove the decision. Does not wait."""
        with self._lock:
            self._to_forget.add(transaction)

    def close(self) -> None:
        """End all waits."""
        self._closing.set()

    def flush(self) -> None:
        """Write what was to be written without a wait. Raises `StoreError`: then the rest is written by the next call."""
        with self._lock:
            to_roll_back, to_forget = dict(self._to_roll_back), frozenset(self._to_forget)
        for transaction, shards in to_roll_back.items():
            self._database.decide_rollback(transaction, shards)
            with self._lock:
                self._to_roll_back.pop(transaction, None)
        if to_forget:
            self._database.forget(to_forget)
            with self._lock:
                self._to_forget -= to_forget


class Resolver:
    """Settles the prepared branches of the shards that this member leads. One thread at a time."""

    def __init__(self, database: ControlTables, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._swept_ms = float("-inf")

    def settle(self, brokers: Mapping[int, EmbeddedBroker], own: str) -> None:
        """Settle what can be settled now, by the decisions. Raises `StoreError`.

        Args:
            brokers: Those of the shards that this member leads.
            own: Its incarnation, read before the brokers.
        """
        branches = [(number, xid) for number, broker in brokers.items() for xid in self._old_branches(broker)]
        now_ms = self._clock.monotonic_ms()
        if not branches and now_ms - self._swept_ms < _SWEEP_MS:
            return
        self._swept_ms = now_ms
        named = [(number, xid, transaction_of(xid) or "") for number, xid in branches]
        rows = {row.transaction: row for row in self._database.decisions({each for *_, each in named}, brokers)}
        unknown = {each for *_, each in named if each not in rows}
        living = self._database.living({coordinator_of(each) for each in unknown}) if unknown else set()
        for number, xid, transaction in named:
            row = rows.get(transaction)
            if row is not None:
                self._decide(number, brokers[number], xid, transaction, commit=row.committed)
            elif coordinator_of(transaction) not in living:
                # Another member may write the same; a coordinator that was taken for dead writes nothing any more.
                is_committed = self._database.roll_back_branch(transaction, number, own)
                if is_committed is None:
                    continue  # the branch that was found is a former leader's
                self._decide(number, brokers[number], xid, transaction, commit=is_committed)
        self._sweep(brokers, rows.values())

    def _old_branches(self, broker: EmbeddedBroker) -> Sequence[Xid]:
        now_ms = self._clock.time_ms()
        return [
            report.xid
            for report in broker.virtual_host.branches.reports()
            if report.state in _PREPARED
            and transaction_of(report.xid) is not None
            and (report.prepared_ms is None or now_ms - report.prepared_ms >= _PATIENCE_MS)
        ]

    def _decide(self, number: int, broker: EmbeddedBroker, xid: Xid, transaction: str, *, commit: bool) -> None:
        branches = broker.virtual_host.branches
        try:
            if commit:
                branches.commit(xid)
            else:
                branches.rollback(xid)
        except BranchError as error:
            if error.failure in _HEURISTIC:
                self._acknowledge(broker, xid, error, commit=commit)
            elif error.failure is not BranchFailure.UNKNOWN:
                _log.info("%s settles branch %s later: %s", broker.name, xid, error.reason)
                return
        except ProviderError as error:
            _log.info("%s settles branch %s later: %s", broker.name, xid, error.reason)
            return
        _log.info("%s has %s branch %s", broker.name, "committed" if commit else "rolled back", xid)
        self._database.note_applied(transaction, number)

    def _acknowledge(self, broker: EmbeddedBroker, xid: Xid, error: BranchError, *, commit: bool) -> None:
        """Forget a branch that an operator has settled; report it if the other shards have the opposite."""
        was_committed = error.failure is BranchFailure.HEURISTICALLY_COMMITTED
        if was_committed is not commit:
            _log.error(
                "PYJMS-CLUSTER-4 an operator has %s branch %s of %s, and the other shards have the opposite",
                "committed" if was_committed else "rolled back",
                xid,
                broker.name,
            )
        with suppress(ProviderError):
            broker.virtual_host.branches.forget(xid)

    def _sweep(self, brokers: Mapping[int, EmbeddedBroker], rows: Iterable[DecisionRow]) -> None:
        """Take shards off decisions about which they have no branch any more: their coordinator has told them."""
        for row in rows:
            if row.age_ms < (_PATIENCE_MS if row.committed else _LATE_MS):
                continue
            for number in row.shards & brokers.keys():
                broker = brokers[number]
                # Looked up after the row was read: the branch was prepared before that was written.
                if (
                    broker.virtual_host.branches.find(branch_of(row.transaction, number)) is None
                    and not broker.has_stopped
                ):
                    self._database.note_applied(row.transaction, number)
