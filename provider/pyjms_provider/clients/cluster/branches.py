"""The branches of distributed transactions (XA) over shards: one branch in each shard that took part, all with the coordinator's xid.

The *home* of a branch is the shard that a hash of its xid gives: each branch begins there, so that its name is known to the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar
from weakref import WeakKeyDictionary

from pyjms.spi.errors import BranchError, CapabilityError, ProviderError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.cluster.branch_names import FORMAT
from pyjms_provider.cluster.placement import ShardPlace

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderSession
    from pyjms_provider.clients.cluster.shard_connection import ShardConnection
    from pyjms_provider.cluster.contracts import Cluster

_Result = TypeVar("_Result")
_SETTLED = (BranchFailure.HEURISTICALLY_COMMITTED, BranchFailure.HEURISTICALLY_ROLLED_BACK)


class BranchPart(Protocol):
    """The part of a session at one shard."""

    shard: ShardConnection
    session: ProviderSession | None
    term: int
    is_doomed: bool
    branch: Xid | None
    suspended: set[Xid]

    def ready(self) -> ProviderSession:
        """Return the session at the shard."""
        ...


class BranchSession(Protocol):
    """A session that works in branches, or settles them."""

    def part_at(self, number: int) -> BranchPart:
        """Return the part at a shard."""
        ...

    def parts(self) -> Sequence[BranchPart]:
        """Return the parts of the session."""
        ...


class _BranchPlaces:
    """The shards of the branches that connections of this process have worked in. Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shards: dict[Xid, set[int]] = {}

    def add(self, xid: Xid, shard: int) -> None:
        with self._lock:
            self._shards.setdefault(xid, set()).add(shard)

    def shards(self, xid: Xid) -> list[int] | None:
        with self._lock:
            found = self._shards.get(xid)
            return None if found is None else sorted(found)

    def replace(self, xid: Xid, shards: Iterable[int]) -> None:
        with self._lock:
            self._shards[xid] = set(shards)
            if not self._shards[xid]:
                del self._shards[xid]


_places: WeakKeyDictionary[Cluster, _BranchPlaces] = WeakKeyDictionary()
_places_lock = Lock()


class ClusterBranches:
    """The XA calls of the sessions of one cluster. Any thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        with _places_lock:
            # Shared by the connections of the process: a transaction manager may prepare through another one than the work's.
            self._places = _places.setdefault(cluster, _BranchPlaces())

    # Work in a branch

    def start(self, xid: Xid, session: BranchSession, *, join: bool, resume: bool, timeout_s: int) -> None:
        """Begin, join or resume work in a branch, at its home, and where the session has suspended it. Raises `BranchError`."""
        if join and resume:
            raise BranchError("a session joins a branch or resumes it, not both", BranchFailure.INVALID)
        if xid.format_id == FORMAT:
            raise BranchError(f"the format {FORMAT} is the cluster's own", BranchFailure.INVALID)
        suspended = [part for part in session.parts() if xid in part.suspended] if resume else []
        for part in suspended or [session.part_at(self._home(xid))]:
            inner = part.ready()
            if timeout_s:
                inner.xa_set_timeout(timeout_s)
            try:
                inner.xa_start(xid, join=join, resume=resume)
            except BranchError as error:
                if join and error.failure is BranchFailure.UNKNOWN:
                    self._join_elsewhere(xid, session)
                raise
            part.branch = xid
            part.suspended.discard(xid)
            self._note(xid, part)

    def _join_elsewhere(self, xid: Xid, session: BranchSession) -> None:
        """Raise `BranchError` if a branch that its home does not know, any more, is there in another shard."""
        for shard in self._places.shards(xid) or ():
            if shard != self._home(xid):
                inner = session.part_at(shard).ready()
                inner.xa_start(xid, join=True)
                inner.xa_end(xid, fail=True)
                raise _lost_part(xid)

    def work(self, xid: Xid, part: BranchPart, timeout_s: int) -> None:
        """Begin work in a branch at a further shard. Raises `BranchError`, `CapabilityError`."""
        if not isinstance(part.shard.place, ShardPlace):
            raise CapabilityError(
                "a distributed transaction of a cluster cannot contain messages of temporary destinations: use a queue, or a local transaction"
            )
        inner = part.ready()
        if timeout_s:
            inner.xa_set_timeout(timeout_s)
        if part.shard.place.number in (self._places.shards(xid) or ()):
            # Not a new one: if the part that was begun there is lost, the whole branch is.
            _join(xid, inner)
        else:
            try:
                inner.xa_start(xid)
            except BranchError as error:
                if error.failure is not BranchFailure.DUPLICATE:
                    raise
                inner.xa_start(xid, join=True)  # another session works in it there
        part.branch = xid
        self._note(xid, part)

    def end(self, xid: Xid, session: BranchSession, *, suspend: bool, fail: bool) -> None:
        """End or suspend the session's work in a branch, at all shards. Raises `BranchError`; it has ended then."""
        parts = [part for part in session.parts() if part.branch == xid or xid in part.suspended]
        if not parts:
            session.part_at(self._home(xid)).ready().xa_end(xid, suspend=suspend, fail=fail)
            return
        lost = any(part.is_doomed or not part.shard.is_current(part.term) for part in parts)
        found: ProviderError | None = None
        for part in parts:
            if part.branch == xid:
                part.branch = None
            part.suspended.discard(xid)
            if suspend and not lost:
                part.suspended.add(xid)
            if part.is_doomed or part.session is None:
                part.is_doomed = False
                continue
            try:
                part.session.xa_end(xid, suspend=suspend and not lost, fail=fail or lost)
            except ProviderError as error:
                found = found or error
        if lost:
            raise BranchError(
                f"branch {xid} was rolled back, as another member became the leader of a destination in it",
                BranchFailure.ROLLED_BACK,
            )
        if found is not None:
            raise found

    # Its outcome

    def prepare(self, xid: Xid, session: BranchSession) -> bool:
        """Prepare a branch at all its shards; return False if it changed nothing at any. Raises `BranchError`."""
        prepared: list[int] = []
        shards = self._shards(xid)
        begun = self._places.shards(xid) or (self._home(xid),)
        is_known = False
        unknown: list[int] = []
        for shard in shards:
            try:
                changes = self._call(session, shard, lambda inner: inner.xa_prepare(xid))
            except BranchError as error:
                if error.failure is BranchFailure.UNKNOWN:
                    unknown.append(shard)
                    continue
                # The coordinator rolls the branch back, and finds it at this shard.
                for each in shards:
                    if each != shard:
                        with suppress(BranchError):
                            self._call(session, each, lambda inner: inner.xa_rollback(xid))
                raise
            is_known = True
            if changes:
                prepared.append(shard)
        if not is_known:
            self._raise_unknown(xid)
        if any(shard in begun for shard in unknown):
            self._places.replace(xid, ())
            for shard in prepared:
                self._call(session, shard, lambda inner: inner.xa_rollback(xid))
            raise _lost_part(xid)
        self._places.replace(xid, prepared)
        return bool(prepared)

    def commit(self, xid: Xid, session: BranchSession, *, one_phase: bool) -> None:
        """Commit a branch at all its shards. Raises `BranchError`: a prepared branch may then be committed again."""
        if one_phase:
            shards = self._shards(xid)
            if len(shards) == 1:
                self._call(session, shards[0], lambda inner: inner.xa_commit(xid, one_phase=True))
                self._places.replace(xid, ())
                return
            if not self.prepare(xid, session):
                return
        self._decide(xid, session, lambda inner: inner.xa_commit(xid))

    def rollback(self, xid: Xid, session: BranchSession) -> None:
        """Roll a branch back at all its shards. Raises `BranchError`."""
        self._decide(xid, session, lambda inner: inner.xa_rollback(xid))

    def forget(self, xid: Xid, session: BranchSession) -> None:
        """Forget a branch that an operator has settled, at all shards. Raises `BranchError`."""
        self._decide(xid, session, lambda inner: inner.xa_forget(xid))

    def recover(self, session: BranchSession) -> Sequence[Xid]:
        """Return the branches in doubt of all shards, without those of the cluster's own transactions."""
        found: dict[Xid, None] = {}
        for shard in range(self._cluster.placement.shards):
            for xid in self._call(session, shard, lambda inner: inner.xa_recover()):
                if xid.format_id != FORMAT:
                    found[xid] = None
        return list(found)

    def _decide(self, xid: Xid, session: BranchSession, act: Callable[[ProviderSession], None]) -> None:
        """Settle a branch at all its shards, also if some fail; raise the first error: that of an operator's decision last."""
        errors: list[BranchError] = []
        left: list[int] = []
        is_known = False
        for shard in self._shards(xid):
            try:
                self._call(session, shard, act)
            except BranchError as error:
                if error.failure is BranchFailure.UNKNOWN:
                    continue  # it took no part, or has settled its part
                errors.append(error)
                left.append(shard)
            is_known = True
        if not is_known:
            self._places.replace(xid, ())
            self._raise_unknown(xid)
        self._places.replace(xid, left)
        if errors:
            raise min(errors, key=lambda error: error.failure in _SETTLED)

    def _call(self, session: BranchSession, shard: int, act: Callable[[ProviderSession], _Result]) -> _Result:
        """Make a call at one shard. Raises `BranchError`."""
        part = session.part_at(shard)
        try:
            return act(part.ready())
        except BranchError:
            raise
        except ProviderError as error:
            raise BranchError(f"shard {shard} does not answer: {error.reason}", BranchFailure.UNREACHABLE) from error

    def _shards(self, xid: Xid) -> Sequence[int]:
        """Return the shards that a branch may be in: those that this process knows of, or all."""
        return self._places.shards(xid) or range(self._cluster.placement.shards)

    def _home(self, xid: Xid) -> int:
        return self._cluster.placement.shard_of_branch(str(xid))

    def _note(self, xid: Xid, part: BranchPart) -> None:
        assert isinstance(part.shard.place, ShardPlace), "branches are in shards"
        self._places.add(xid, part.shard.place.number)

    @staticmethod
    def _raise_unknown(xid: Xid) -> NoReturn:
        raise BranchError(f"there is no branch {xid}", BranchFailure.UNKNOWN)


def _join(xid: Xid, session: ProviderSession) -> None:
    try:
        session.xa_start(xid, join=True)
    except BranchError as error:
        raise _lost_part(xid) if error.failure is BranchFailure.UNKNOWN else error from error


def _lost_part(xid: Xid) -> BranchError:
    return BranchError(
        f"branch {xid} is rolled back, as another member became the leader of a destination in it before it was prepared",
        BranchFailure.ROLLED_BACK,
    )
