"""The branches of distributed transactions (XA) over shards: one branch in each shard that took part, all with the coordinator's xid.

The *home* of a branch is the shard that a hash of its xid gives: each branch begins there, so that its name is known to the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar
from weakref import WeakKeyDictionary

from pyjms.spi.errors import BranchError, CapabilityError, InDoubtError, ProviderError, RolledBackError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.cluster.two_phase import Participant, commit_prepared, roll_back_prepared
from pyjms_provider.cluster.branch_names import FORMAT, branch_of
from pyjms_provider.cluster.placement import ShardPlace

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderSession
    from pyjms_provider.clients.cluster.shard_connection import ShardConnection
    from pyjms_provider.cluster.contracts import Cluster, DecisionLog

_Result = TypeVar("_Result")
_SETTLED = (BranchFailure.HEURISTICALLY_COMMITTED, BranchFailure.HEURISTICALLY_ROLLED_BACK)
_ROLLED_BACK = (BranchFailure.ROLLED_BACK, BranchFailure.TIMED_OUT)
_UNTOUCHED = (BranchFailure.PROTOCOL, BranchFailure.UNREACHABLE)
"""After these errors of its first part, nothing is known against the others of a branch that is to be prepared."""


class BranchPart(Protocol):
    """The part of a session at one shard."""

    shard: ShardConnection
    session: ProviderSession | None
    term: int
    is_doomed: bool
    branch: Xid | None
    suspended: set[Xid]
    notes: dict[Xid, str]

    def unit(self) -> Participant:
        """Return the part as it is now."""
        ...

    def ready(self) -> ProviderSession:
        """Return the session at the shard."""
        ...

    def repeat(self, act: Callable[[ProviderSession], None]) -> None:
        """Make a call of that session, again while the shard's leader changes."""
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
    """The shards of the branches that connections of this process have worked in, or have prepared. Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._begun: dict[Xid, set[int]] = {}
        self._left: dict[Xid, tuple[int, ...]] = {}

    def add(self, xid: Xid, shard: int) -> None:
        """Note that work in a branch has begun at a shard."""
        with self._lock:
            self._begun.setdefault(xid, set()).add(shard)

    def begun(self, xid: Xid) -> list[int] | None:
        """Return the shards of the work in a branch that is not prepared; None: there is none here."""
        with self._lock:
            found = self._begun.get(xid)
            return None if found is None else sorted(found)

    def left(self, xid: Xid) -> Sequence[int] | None:
        """Return the shards that a decision about a branch must reach; None: they are not known here."""
        with self._lock:
            return self._left.get(xid)

    def leave(self, xid: Xid, shards: Sequence[int]) -> None:
        """Note at which shards a branch whose work has ended is left to be settled; at none: it is over."""
        with self._lock:
            self._begun.pop(xid, None)
            if shards:
                self._left[xid] = tuple(shards)
            else:
                self._left.pop(xid, None)


@dataclass(frozen=True, slots=True)
class _Begun:
    """Where a branch was begun."""

    shards: Sequence[int]
    """The shards to ask, its home first."""
    expected: Collection[int]
    """Those that must know it."""
    is_lost: bool = False
    """Whether a shard has had another leader since a part was begun there."""

    def misses(self, unknown: Iterable[int]) -> bool:
        """Return whether a part is lost, if these shards do not know the branch."""
        return self.is_lost or any(shard in self.expected for shard in unknown)


class _OwnTransaction:
    """A branch that becomes a transaction of the cluster's own, to be committed by its decision. One thread."""

    def __init__(self, xid: Xid, session: BranchSession, decisions: DecisionLog) -> None:
        self._xid = xid
        self._session = session
        self._decisions = decisions
        self._name = ""
        self._unsure: list[Participant] = []
        self.prepared: list[Participant] = []
        """The parts that have changed something."""
        self.unknown: list[int] = []
        """The shards that did not know the branch."""
        self.is_known = False
        """Whether a shard knew it."""

    def prepare(self, shard: int) -> None:
        """Prepare the part at a shard, if there is one. Raises `ProviderError`."""
        self._name = self._name or self._decisions.new_id()
        name = branch_of(self._name, shard)
        try:
            changes = _call(self._session, shard, lambda inner: inner.xa_prepare_as(self._xid, name))
        except Exception as error:
            failure = error.failure if isinstance(error, BranchError) else None
            if failure is BranchFailure.UNKNOWN:
                self.unknown.append(shard)
                return
            if failure not in (*_ROLLED_BACK, BranchFailure.PROTOCOL):
                self._unsure.append(self._session.part_at(shard).unit())
            raise
        self.is_known = True
        if changes:
            self.prepared.append(self._session.part_at(shard).unit())

    def check_complete(self, begun: _Begun) -> None:
        """Raise `BranchError` if a part is lost."""
        if self.is_known and begun.misses(self.unknown):
            raise _lost_part(self._xid)

    def roll_back(self) -> None:
        """Roll back what is prepared, or may be."""
        roll_back_prepared(self._decisions, self._name, self.prepared, self._unsure)

    def commit(self) -> None:
        """Commit all parts, or none. Raises `BranchError`."""
        try:
            commit_prepared(self._decisions, self._name, self.prepared)
        except RolledBackError as error:
            raise BranchError(error.reason, BranchFailure.ROLLED_BACK) from error
        except InDoubtError as error:
            raise BranchError(error.reason, BranchFailure.UNREACHABLE) from error


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

        def begin(inner: ProviderSession) -> None:
            if timeout_s:
                inner.xa_set_timeout(timeout_s)
            inner.xa_start(xid, join=join, resume=resume)

        suspended = [part for part in session.parts() if xid in part.suspended] if resume else []
        for part in suspended or [session.part_at(self._home(xid))]:
            try:
                part.repeat(begin)
            except BranchError as error:
                if join and error.failure is BranchFailure.UNKNOWN:
                    self._join_elsewhere(xid, session)
                raise
            part.branch = xid
            part.suspended.discard(xid)
            self._note(xid, part)

    def _join_elsewhere(self, xid: Xid, session: BranchSession) -> None:
        """Raise `BranchError` if a branch that its home does not know, any more, is there in another shard."""
        if self._places.left(xid):  # its home had changed nothing
            raise BranchError(
                f"branch {xid} is prepared, so that no further work belongs to it", BranchFailure.PROTOCOL
            )
        for shard in self._places.begun(xid) or ():
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
        if part.shard.place.number in (self._places.begun(xid) or ()):
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
        timed_out: BranchError | None = None
        if not (lost or suspend or fail):
            try:
                self._note_parts(xid, session, parts)
            except ProviderError as error:
                lost = True
                if isinstance(error, BranchError) and error.failure is BranchFailure.TIMED_OUT:
                    timed_out = error
        found: ProviderError | None = None
        for part in parts:
            if part.branch == xid:
                part.branch = None
            part.suspended.discard(xid)
            if suspend and not lost:
                part.suspended.add(xid)
            else:
                part.notes.pop(xid, None)
            part.is_doomed = False
            if part.session is None or not part.shard.is_current(part.term):
                continue
            try:
                part.session.xa_end(xid, suspend=suspend and not lost, fail=fail or lost)
            except ProviderError as error:
                found = found or error
        if lost:
            raise timed_out or BranchError(
                f"branch {xid} was rolled back, as another member became the leader of a destination in it",
                BranchFailure.ROLLED_BACK,
            )
        if found is not None:
            raise found

    def _note_parts(self, xid: Xid, session: BranchSession, parts: Iterable[BranchPart]) -> None:
        """Note at the home of a branch where else the session has worked in it. Raises `ProviderError`: the home has lost the branch."""
        home = session.part_at(self._home(xid))
        notes = [part.notes[xid] for part in parts if part is not home]
        if notes:
            home.ready().xa_note(xid, notes)

    # Its outcome

    def prepare(self, xid: Xid, session: BranchSession) -> bool:
        """Prepare a branch at all its shards; return False if it changed nothing at any. Raises `BranchError`."""
        begun = self._begun(xid, session)
        prepared: list[int] = []
        unknown: list[int] = []
        is_known = False
        for shard in begun.shards:
            try:
                changes = _call(session, shard, lambda inner: inner.xa_prepare(xid))
            except BranchError as error:
                if error.failure is BranchFailure.UNKNOWN:
                    unknown.append(shard)
                    continue
                if not is_known and error.failure in _UNTOUCHED:
                    raise  # it may be prepared already, at all shards
                # The caller must not take it for prepared: the other parts are rolled back.
                self._undo(xid, session, begun.shards)
                raise _rolled_back(xid, error) from error
            is_known = True
            if changes:
                prepared.append(shard)
        if not is_known:
            self._raise_unknown(xid)
        if begun.misses(unknown):
            self._places.leave(xid, ())
            for shard in prepared:
                _call(session, shard, lambda inner: inner.xa_rollback(xid))
            raise _lost_part(xid)
        self._places.leave(xid, prepared)
        return bool(prepared)

    def commit(self, xid: Xid, session: BranchSession, *, one_phase: bool) -> None:
        """Commit a branch at all its shards. Raises `BranchError`: a prepared branch may then be committed again."""
        if not one_phase:
            self._decide(xid, session, lambda inner: inner.xa_commit(xid), self._left(xid))
            return
        left = self._places.left(xid)
        if left is not None and len(left) == 1:  # an earlier call had no answer from the last one
            self._commit_alone(xid, session, left[0])
            return
        try:
            begun = self._begun(xid, session)
        except BranchError as error:
            if error.failure is BranchFailure.UNREACHABLE:
                # The coordinator need not ask again, and its messages would be kept from others.
                self._undo(xid, session, self._places.begun(xid) or ())
            raise
        self._commit_in_one_phase(xid, session, begun)

    def _commit_alone(self, xid: Xid, session: BranchSession, shard: int) -> None:
        """Commit a branch in one phase at the only shard where it may have changed something. Raises `BranchError`."""
        try:
            _call(session, shard, lambda inner: inner.xa_commit(xid, one_phase=True))
        except BranchError as error:
            if error.failure in (*_ROLLED_BACK, BranchFailure.UNKNOWN):
                self._places.leave(xid, ())
            raise
        self._places.leave(xid, ())

    def _commit_in_one_phase(self, xid: Xid, session: BranchSession, begun: _Begun) -> None:
        """Commit a branch in one phase at all its shards. Raises `BranchError`.

        The last shard commits its part alone if no other part has changed anything. Otherwise the branch becomes a transaction of the
        cluster's own, whose decision is written: its parts get other names as they are prepared, so that no rollback of the branch reaches
        one without the others, and the members settle those that do not answer.
        """
        *others, last = begun.shards
        unit = _OwnTransaction(xid, session, self._cluster.decisions)
        try:
            for shard in others:
                unit.prepare(shard)
            is_alone = not unit.prepared and not begun.misses(unit.unknown)
            if not is_alone:
                unit.prepare(last)
                unit.check_complete(begun)
        except Exception as error:
            if not unit.is_known and isinstance(error, BranchError) and error.failure is BranchFailure.PROTOCOL:
                raise
            unit.roll_back()
            self._undo(xid, session, begun.shards)
            self._places.leave(xid, ())
            if not isinstance(error, ProviderError):
                raise
            raise _rolled_back(xid, error) from error
        if is_alone:
            if others:
                self._places.leave(xid, [last])  # the other parts have ended
            try:
                self._commit_alone(xid, session, last)
            except BranchError as error:
                raise _lost_part(xid) if error.failure is BranchFailure.UNKNOWN and unit.is_known else error from error
            return
        self._places.leave(xid, ())
        if not unit.is_known:
            self._raise_unknown(xid)
        unit.commit()

    def _undo(self, xid: Xid, session: BranchSession, shards: Iterable[int]) -> None:
        """Roll a branch back at shards that answer; elsewhere its time limit does it."""
        for shard in shards:
            with suppress(ProviderError):
                _call(session, shard, lambda inner: inner.xa_rollback(xid))

    def rollback(self, xid: Xid, session: BranchSession) -> None:
        """Roll a branch back at all its shards. Raises `BranchError`."""
        shards = self._places.left(xid)
        if shards is None:
            try:
                shards = self._begun(xid, session).shards
            except BranchError:  # it may be prepared, or its home does not answer
                shards = self._all(xid)
        self._decide(xid, session, lambda inner: inner.xa_rollback(xid), shards)

    def forget(self, xid: Xid, session: BranchSession) -> None:
        """Forget a branch that an operator has settled, at all shards. Raises `BranchError`."""
        self._decide(xid, session, lambda inner: inner.xa_forget(xid), self._left(xid))

    def recover(self, session: BranchSession) -> Sequence[Xid]:
        """Return the branches in doubt of all shards, without those of the cluster's own transactions."""
        found: dict[Xid, None] = {}
        for shard in range(self._cluster.placement.shards):
            for xid in _call(session, shard, lambda inner: inner.xa_recover()):
                if xid.format_id != FORMAT:
                    found[xid] = None
        return list(found)

    def _decide(
        self, xid: Xid, session: BranchSession, act: Callable[[ProviderSession], None], shards: Iterable[int]
    ) -> None:
        """Settle a branch at shards, also if some fail; raise the first error: that of an operator's decision last."""
        errors: list[BranchError] = []
        left: list[int] = []
        is_known = False
        for shard in shards:
            try:
                _call(session, shard, act)
            except BranchError as error:
                if error.failure is BranchFailure.UNKNOWN:
                    continue  # it took no part, or has settled its part
                errors.append(error)
                left.append(shard)
            is_known = True
        if not is_known:
            self._places.leave(xid, ())
            self._raise_unknown(xid)
        self._places.leave(xid, left)
        if errors:
            raise min(errors, key=lambda error: error.failure in _SETTLED)

    def _begun(self, xid: Xid, session: BranchSession) -> _Begun:
        """Return in which shards a branch was begun, by sessions at any member, as its home has noted it. Raises `BranchError`."""
        home = self._home(xid)
        try:
            notes = _call(session, home, lambda inner: inner.xa_note(xid))
        except BranchError as error:
            if error.failure is not BranchFailure.UNKNOWN:
                raise
            # It is over, or its home has lost its part, and nobody else's may be committed.
            return _Begun(self._all(xid), frozenset((home,)))
        noted = [_read_note(note) for note in notes]
        shards = {shard for shard, _ in noted}
        return _Begun((home, *sorted(shards)), frozenset((home, *shards)), is_lost=len(set(noted)) > len(shards))

    def _left(self, xid: Xid) -> Sequence[int]:
        """Return the shards that a decision about a branch must reach: those that this process knows of, or all."""
        return self._places.left(xid) or self._all(xid)

    def _all(self, xid: Xid) -> Sequence[int]:
        """Return all shards, the home of a branch first."""
        home = self._home(xid)
        return (home, *(shard for shard in range(self._cluster.placement.shards) if shard != home))

    def _home(self, xid: Xid) -> int:
        return self._cluster.placement.shard_of_branch(str(xid))

    def _note(self, xid: Xid, part: BranchPart) -> None:
        assert isinstance(part.shard.place, ShardPlace), "branches are in shards"
        number = part.shard.place.number
        # With the leader: a part that another session begins at the next one is no sign that this one is still there.
        part.notes.setdefault(xid, f"{number} {part.shard.resource_manager()}")
        self._places.add(xid, number)

    @staticmethod
    def _raise_unknown(xid: Xid) -> NoReturn:
        raise BranchError(f"there is no branch {xid}", BranchFailure.UNKNOWN)


def _call(session: BranchSession, shard: int, act: Callable[[ProviderSession], _Result]) -> _Result:
    """Make a call at one shard. Raises `BranchError`."""
    part = session.part_at(shard)
    try:
        return act(part.ready())
    except BranchError:
        raise
    except ProviderError as error:
        raise BranchError(f"shard {shard} does not answer: {error.reason}", BranchFailure.UNREACHABLE) from error


def _read_note(note: str) -> tuple[int, str]:
    """Return the shard of a part of a branch, and its leader."""
    shard, _, leader = note.partition(" ")
    return int(shard), leader


def _rolled_back(xid: Xid, error: ProviderError) -> BranchError:
    """Return the error of a call that has rolled a branch back because of `error`."""
    if isinstance(error, BranchError) and error.failure in _ROLLED_BACK:
        return BranchError(error.reason, error.failure)
    return BranchError(
        f"branch {xid} was rolled back, as a part of it could not be prepared: {error.reason}",
        BranchFailure.ROLLED_BACK,
    )


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
