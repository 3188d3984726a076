"""A simulated PostgreSQL: sessions with advisory locks, the control tables of a cluster, and the stores of its shards.

A statement is made at one moment. Before and after it the caller may be interrupted, paused, cut off, or killed; what is on its way then is
made or not, now or later, as long as its session lasts. A session lasts until the server ends it, the server is restarted, or its host is killed;
a host that is cut off, or paused, keeps its sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.replay import StageName
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.stores.errors import (
    StoreError,
    TakenNameError,
    UnavailableStoreError,
    UncertainWriteError,
)
from pyjms_provider.stores.sql.cluster import (
    FORMATS,
    ClusterFacts,
    ClusterView,
    DecisionRow,
    Formats,
    MemberRow,
    ShardRow,
)
from pyjms_provider.stores.volatile import Medium
from tests.provider.simulation.cluster.cooperative import (
    START_MS,
    Host,
    KilledError,
    Scheduler,
    Task,
)

_Result = TypeVar("_Result")
_CONNECT_MS: Final = 500
_NONE: Final = ""
"""The application name of sessions that nobody ends."""


class LostSessionError(Exception):
    """A session has ended, or does not answer."""


@dataclass(eq=False, slots=True)
class Session:
    """A connection to the server."""

    host: Host
    application: str
    is_short: bool = False
    """Whether it makes some statements on control tables, and nothing else."""
    is_ended: bool = False


@dataclass(eq=False, slots=True)
class Request:
    """A statement on its way."""

    session: Session
    act: Callable[[], Any]
    is_made: bool = False
    result: Any = None
    error: Exception | None = None

    def make(self) -> None:
        """Make it, unless its session has ended, or it was made."""
        if self.is_made or self.session.is_ended:
            return
        self.is_made = True
        try:
            self.result = self.act()
        except StoreError as error:
            self.error = error


@dataclass
class Store:
    """The store of a shard: what is written, and the session that holds its lock."""

    number: int
    note: Callable[[str], None]
    medium: Medium = field(default_factory=Medium)
    holder: Session | None = None
    epoch: int = 0
    """Grows with each opening."""
    written: set[int] = field(default_factory=set)
    """The numbers of the commits that were made."""

    def try_lock(self, session: Session) -> bool:
        """Take the advisory lock if it is free."""
        if self.holder is None:
            self.holder = session
        return self.holder is session

    def apply(self, session: Session, number: int, batch: Sequence[Changes]) -> None:
        """Commit on the session that holds the lock: no other one writes."""
        assert self.holder is session, "a session without the lock has written"
        for changes in batch:
            if changes.prepared is not None or changes.outcomes:
                what = f"prepared {changes.prepared.xid}" if changes.prepared else f"ended {changes.outcomes}"
                self.note(f"shard {self.number}: {what}, by {session.host.name}")
            self.medium.apply(changes)
        self.written.add(number)


@dataclass
class _Member:
    name: str
    run_id: str
    address: str
    version: str
    lease_ms: int
    joined_ms: float
    heartbeat_ms: float
    is_leaving: bool = False


@dataclass
class _Shard:
    leader: str | None = None
    since_ms: float = 0.0
    terms: int = 0
    restoring: bool = False
    pinned: str | None = None


@dataclass
class _Decision:
    committed: bool
    shards: list[int]
    at_ms: float


class Server:
    """The server's process."""

    def __init__(self, scheduler: Scheduler, shards: int, note: Callable[[str], None]) -> None:
        """`note` writes into the trace."""
        self.scheduler = scheduler
        self.note = note
        self.host = Host("database")
        self.is_up = True
        self.started_ms = -1.0
        self.torn = 0.0
        """The chance of a statement that its connection is lost before it, or after it."""
        self.sessions: dict[Session, None] = {}
        self.locks: dict[str, Session] = {}
        """The advisory locks of members, by incarnation."""
        self.listening: list[tuple[Session, Signal]] = []
        self.requests: dict[Request, None] = {}
        self.members: dict[str, _Member] = {}
        self.shards = {number: _Shard() for number in range(shards)}
        self.decisions: dict[str, _Decision] = {}
        self.subscriptions: dict[tuple[str, str], str] = {}
        """The topics of durable subscriptions, by client id and name."""
        self.stores = {number: Store(number, note) for number in range(shards)}
        self.ended_by_others = 0
        """How many sessions were ended as their member was taken for dead."""

    # Sessions

    def connect(self, host: Host, application: str, *, is_short: bool = False) -> Session:
        """Open a session. Raises `LostSessionError`."""
        self._travel(host, _CONNECT_MS)
        if not self.is_up:
            raise LostSessionError("the server is not there")
        session = Session(host, application, is_short)
        self.sessions[session] = None
        return session

    def execute(self, session: Session, act: Callable[[], _Result], limit_ms: float) -> _Result:
        """Have the server do something at one moment, and return its result. Raises `LostSessionError`, and `StoreError` as `act`."""
        random = self.scheduler.random
        host = session.host
        request = Request(session, act)
        self.requests[request] = None
        try:
            if host.is_cut and random.random() < 0.3:
                self._make_late(request)
            self._travel(host, limit_ms)
            if self.torn and random.random() < self.torn:
                self.end(session)
            request.make()
            if self.torn and random.random() < self.torn:
                self.end(session)
            self._travel(host, limit_ms)
        finally:
            del self.requests[request]
        if session.is_ended or not request.is_made:
            raise LostSessionError("the connection was lost")
        if request.error is not None:
            raise request.error
        result: _Result = request.result
        return result

    def _travel(self, host: Host, limit_ms: float) -> None:
        """Let others have their turns while something is on its way. Raises `LostSessionError` if it does not arrive in time."""
        random = self.scheduler.random
        if host.slow_ms:
            self.scheduler.sleep(random.random() * host.slow_ms)
        elif random.random() < 0.1:
            self.scheduler.sleep(random.choice((0, 0, 1, 5)))
        elif host.is_dead:
            raise KilledError
        if host.is_cut:
            self._reach(host, limit_ms)

    def _reach(self, host: Host, limit_ms: float | None) -> None:
        until_ms = None if limit_ms is None else self.scheduler.now_ms + limit_ms
        while host.is_cut:
            if until_ms is not None and self.scheduler.now_ms >= until_ms:
                raise LostSessionError("the server does not answer")
            host.reached.wait(self.scheduler, until_ms)

    def _make_late(self, request: Request) -> None:
        """Have the server make a request some time later, though its sender may have given it up."""
        late_ms = self.scheduler.random.random() * 3_000

        def make() -> None:
            self.scheduler.sleep(late_ms)
            request.make()

        Task(target=make, name="late statement", host=self.host).start()

    def interrupted(self, host: Host) -> None:
        """Decide which statements of a host that stops at this moment are made, as they have reached the server."""
        for request in self.requests:
            if request.session.host is host and not host.is_cut and self.scheduler.random.random() < 0.5:
                request.make()

    def end(self, session: Session) -> None:
        """End a session, with its locks and its commit under way. May be repeated."""
        if session.is_ended:
            return
        session.is_ended = True
        del self.sessions[session]
        if session.is_short:
            return  # it has no locks, and does not listen
        self.locks = {incarnation: each for incarnation, each in self.locks.items() if each is not session}
        for store in self.stores.values():
            if store.holder is session:
                store.holder = None
        for listener, signal in self.listening:
            if listener is session:
                signal.set()
        self.listening = [each for each in self.listening if each[0] is not session]

    def end_of(self, host: Host) -> None:
        """End all sessions of a process that has died."""
        for session in list(self.sessions):
            if session.host is host:
                self.end(session)

    def stop(self) -> None:
        """End all sessions at once, as a crash does."""
        self.is_up = False
        for session in list(self.sessions):
            self.end(session)

    def start(self) -> None:
        """Take sessions again."""
        self.is_up = True
        self.started_ms = self.scheduler.now_ms

    def notify(self) -> None:
        """Tell all that listen."""
        for _, signal in self.listening:
            signal.set()

    # What several statements have in common

    def is_alive(self, incarnation: str) -> bool:
        """Return what `_IS_ALIVE` of the tables in PostgreSQL says of a member."""
        member = self.members[incarnation]
        if self.scheduler.now_ms - max(member.heartbeat_ms, self.started_ms) > member.lease_ms:
            return False
        has_sessions = any(each.application == incarnation for each in self.sessions)
        return incarnation in self.locks or has_sessions or member.heartbeat_ms < self.started_ms

    def bury(self, incarnation: str) -> None:
        """End the sessions of a member, and delete it."""
        self.end_sessions(incarnation)
        self.forget_member(incarnation)

    def end_sessions(self, incarnation: str) -> None:
        """End the sessions of a member that may write."""
        for session in list(self.sessions):
            if session.application == incarnation:
                self.ended_by_others += 1
                self.end(session)

    def forget_member(self, incarnation: str) -> None:
        """Delete a member; its shards have no leader."""
        self.note(f"deleted {incarnation}")
        self.members.pop(incarnation, None)
        for shard in self.shards.values():
            if shard.leader == incarnation:
                shard.leader, shard.since_ms, shard.restoring = None, self.scheduler.now_ms, False


class SimulatedMemberLock:
    """The session that holds the lock of an incarnation. Implements `contracts.HeldMembership`."""

    def __init__(self, server: Server, session: Session) -> None:
        self._server = server
        self._session = session
        self._signal = Signal()
        server.listening.append((session, self._signal))

    def await_changes(self, timeout_s: float) -> bool:
        """Wait for a change."""
        scheduler = self._server.scheduler
        found = scheduler.wait(self._signal, scheduler.now_ms + timeout_s * 1000)
        self._server._reach(self._session.host, None)
        if self._session.is_ended:
            raise UnavailableStoreError("the connection was lost")
        return found

    def release(self) -> None:
        """End the session."""
        if not self._session.host.is_cut:
            self._server.end(self._session)


class SimulatedTables:
    """The control tables, as one host reaches them. Implements `contracts.ControlTables` as `ClusterDatabase` does."""

    def __init__(self, server: Server, host: Host, answer_ms: float) -> None:
        self._server = server
        self._host = host
        self._answer_ms = answer_ms

    def _run(self, *acts: Callable[[], Any]) -> list[Any]:
        """Have statements made on one session, each by itself; return their results."""
        try:
            session = self._server.connect(self._host, _NONE, is_short=True)
        except LostSessionError as error:
            raise UnavailableStoreError(str(error)) from error
        try:
            return [self._server.execute(session, act, self._answer_ms) for act in acts]
        except LostSessionError as error:
            raise UncertainWriteError(str(error)) from error
        finally:
            if not self._host.is_dead:
                self._server.end(session)

    @property
    def formats(self) -> Formats:
        """Return those of this version."""
        return FORMATS

    def raise_format(self) -> bool:
        """Do nothing: it is the newest."""
        return False

    def store_url(self, shard: int, incarnation: str) -> str:
        """Return a URL that `SimulatedStores` opens."""
        return f"simulated://{shard}/{incarnation}"

    def close(self) -> None:
        """Do nothing: there are no idle connections."""

    def clock_error_ms(self) -> float:
        """Return by how much the host's clock is ahead."""
        self._run(lambda: None)
        return float(self._host.ahead_ms)

    def prepare(self, *, shards: int | None, default_shards: int, virtual_host: str) -> ClusterFacts:
        """Return the facts."""
        self._run(lambda: None)
        return ClusterFacts(shards=len(self._server.shards), virtual_host=virtual_host, secret="secret")

    def hold(self, incarnation: str) -> SimulatedMemberLock | None:
        """Take the lock of an incarnation."""
        server = self._server

        def lock() -> bool:
            return server.locks.setdefault(incarnation, session) is session

        def name() -> None:
            session.application = incarnation

        try:
            session = server.connect(self._host, _NONE)
            if not server.execute(session, lock, self._answer_ms):
                server.end(session)
                return None
            server.execute(session, name, self._answer_ms)
        except LostSessionError as error:
            raise UnavailableStoreError(str(error)) from error
        return SimulatedMemberLock(server, session)

    def join(
        self,
        name: str,
        incarnation: str,
        *,
        run_id: str,
        address: str,
        version: str,
        lease_ms: int,
        replaces: str | None,
    ) -> None:
        """Enter a member."""
        server = self._server

        def enter() -> None:
            old = next((key for key, each in server.members.items() if each.name == name), None)
            if old is not None:
                if server.is_alive(old) and old != replaces:
                    raise TakenNameError(f"a member {name} is alive")
                server.bury(old)
            now_ms = server.scheduler.now_ms
            server.note(f"{name} joins as {incarnation}")
            server.members[incarnation] = _Member(name, run_id, address, version, lease_ms, now_ms, now_ms)
            server.notify()

        self._run(enter)

    def beat(self, incarnation: str) -> bool:
        """Write a heartbeat."""

        def write() -> bool:
            found = self._server.members.get(incarnation)
            if found is not None:
                found.heartbeat_ms = self._server.scheduler.now_ms
            return found is not None

        return bool(self._run(write)[0])

    def view(self) -> ClusterView:
        """Read all rows, in three statements."""
        members, shards, undecided = self._run(self._members, self._shards, lambda: len(self._server.decisions))
        return ClusterView(members=members, shards=shards, undecided=undecided)

    def _members(self) -> list[MemberRow]:
        server = self._server
        now_ms = server.scheduler.now_ms
        rows = [
            MemberRow(
                name=each.name,
                incarnation=incarnation,
                run_id=each.run_id,
                address=each.address,
                version=each.version,
                joined_ms=START_MS + int(each.joined_ms),
                heartbeat_age_ms=int(now_ms - each.heartbeat_ms),
                is_leaving=each.is_leaving,
                is_alive=server.is_alive(incarnation),
                beats_here=each.heartbeat_ms >= server.started_ms,
                format=FORMATS.newest,
            )
            for incarnation, each in server.members.items()
        ]
        return sorted(rows, key=lambda row: row.name)

    def _shards(self) -> list[ShardRow]:
        now_ms = self._server.scheduler.now_ms
        return [
            ShardRow(
                number=number,
                leader=each.leader,
                since_ms=START_MS + int(each.since_ms),
                age_ms=int(now_ms - each.since_ms),
                terms=each.terms,
                restoring=each.restoring,
                pinned=each.pinned,
                consumers=None,
            )
            for number, each in self._server.shards.items()
        ]

    def announce_leaving(self, incarnation: str) -> None:
        """Mark a member."""

        def mark() -> None:
            found = self._server.members.get(incarnation)
            if found is not None:
                found.is_leaving = True
            self._server.notify()

        self._run(mark)

    def leave(self, incarnation: str) -> None:
        """Delete a member that has stopped."""

        def delete() -> None:
            self._server.forget_member(incarnation)
            self._server.notify()

        self._run(delete)

    def bury(self, incarnation: str) -> bool:
        """End the sessions of a member that is not alive, and delete it. Sessions end at once, rows with the commit."""
        server = self._server

        def end_sessions() -> bool:
            if incarnation not in server.members or server.is_alive(incarnation):
                return False
            server.end_sessions(incarnation)
            return True

        def delete() -> None:
            server.bury(incarnation)
            server.notify()

        # The row is locked between the two, so that no heartbeat can come: the delete need not look again.
        return bool(self._run(end_sessions)[0]) and self._run(delete) == [None]

    def end_sessions(self, incarnation: str) -> None:
        """End the sessions of a member that may write."""
        self._run(lambda: self._server.end_sessions(incarnation))

    def end_sessions_of_the_dead(self) -> None:
        """End the sessions of members that are deleted."""
        server = self._server

        def end() -> None:
            for session in list(server.sessions):
                if session.application != _NONE and session.application not in server.members:
                    server.end(session)

        self._run(end)

    def claim(self, shards: Collection[int], incarnation: str) -> list[int]:
        """Become the leader of shards that have none."""
        server = self._server

        def claim() -> list[int]:
            if incarnation not in server.members:
                return []
            got = [number for number in sorted(shards) if server.shards[number].leader is None]
            for number in got:
                shard = server.shards[number]
                shard.leader, shard.since_ms, shard.restoring = incarnation, server.scheduler.now_ms, True
                server.note(f"shard {number} is {self._host.name}'s")
                shard.terms += 1
            server.notify()
            return got

        found: list[int] = self._run(claim)[0]
        return found

    def confirm(self, shard: int, incarnation: str) -> bool:
        """Write that a shard is led."""
        return self._change(shard, incarnation, lambda row: setattr(row, "restoring", False))

    def release(self, shard: int, incarnation: str) -> bool:
        """Write that a shard has no leader."""

        def clear(row: _Shard) -> None:
            row.leader, row.restoring, row.since_ms = None, False, self._server.scheduler.now_ms

        return self._change(shard, incarnation, clear)

    def _change(self, shard: int, incarnation: str, change: Callable[[_Shard], None]) -> bool:
        def write() -> bool:
            row = self._server.shards[shard]
            is_own = row.leader == incarnation
            if is_own:
                change(row)
            self._server.notify()
            return is_own

        return bool(self._run(write)[0])

    def note_consumers(self, shard: int, incarnation: str, member: str | None) -> None:
        """Refuse it: its links tell of no consumers."""
        raise NotImplementedError

    def pin(self, shard: int, member: str | None) -> None:
        """Have a member lead a shard."""

        def write() -> None:
            self._server.shards[shard].pinned = member
            self._server.notify()

        self._run(write)

    # Decisions

    def decide_commit(self, transaction: str, shards: Sequence[int], incarnation: str) -> bool | None:
        """Write that a transaction is committed, if its coordinator's row is there."""

        def insert() -> bool:
            if not self.has_row(incarnation):
                return False
            return self._insert(transaction, shards, is_committed=True)

        def decide() -> bool | None:
            if insert():
                return True
            return None

        def find() -> bool | None:
            found = self._server.decisions.get(transaction)
            return None if found is None else found.committed

        inserted, found = self._run(decide, find)
        return True if inserted else found

    def has_row(self, incarnation: str) -> bool:
        """Return whether a member is not deleted."""
        return incarnation in self._server.members

    def decide_rollback(self, transaction: str, shards: Sequence[int]) -> bool:
        """Write that a transaction is rolled back, unless a decision is there; return whether it is committed."""

        def insert() -> bool:
            return self._insert(transaction, shards, is_committed=False)

        def find() -> bool:
            found = self._server.decisions.get(transaction)
            return found is not None and found.committed

        return bool(self._run(insert, find)[1])

    def roll_back_branch(self, transaction: str, shard: int, leader: str) -> bool | None:
        """Write that a transaction is rolled back, if that member leads a shard."""

        def insert() -> None:
            if self.is_led_by(shard, leader):
                self._insert(transaction, [shard], is_committed=False)

        def find() -> bool | None:
            found = self._server.decisions.get(transaction)
            return None if found is None else found.committed

        found: bool | None = self._run(insert, find)[1]
        return found

    def is_led_by(self, shard: int, leader: str) -> bool:
        """Return whether a member leads a shard."""
        return self._server.shards[shard].leader == leader

    def _insert(self, transaction: str, shards: Sequence[int], *, is_committed: bool) -> bool:
        if transaction in self._server.decisions:
            return False
        self._server.note(f"decided {transaction}: {'commit' if is_committed else 'roll back'} in {list(shards)}")
        self._server.decisions[transaction] = _Decision(is_committed, list(shards), self._server.scheduler.now_ms)
        return True

    def forget(self, transactions: Collection[str]) -> None:
        """Delete decisions."""

        def delete() -> None:
            for each in sorted(transactions):
                self._server.note(f"forgotten {each}")
                self._server.decisions.pop(each, None)

        self._run(delete)

    def decisions(self, transactions: Collection[str], shards: Collection[int]) -> list[DecisionRow]:
        """Return decisions."""

        def read() -> list[DecisionRow]:
            now_ms = self._server.scheduler.now_ms
            return [
                DecisionRow(
                    transaction=key,
                    committed=each.committed,
                    shards=frozenset(each.shards),
                    age_ms=int(now_ms - each.at_ms),
                )
                for key, each in self._server.decisions.items()
                if key in transactions or not set(shards).isdisjoint(each.shards)
            ]

        found: list[DecisionRow] = self._run(read)[0]
        return found

    def living(self, incarnations: Collection[str]) -> set[str]:
        """Return those that are not deleted."""
        found: set[str] = self._run(lambda: {each for each in incarnations if each in self._server.members})[0]
        return found

    def note_applied(self, transaction: str, shard: int) -> None:
        """Take a shard off a decision."""

        def write() -> None:
            found = self._server.decisions.get(transaction)
            if found is not None:
                found.shards = [each for each in found.shards if each != shard]
                self._server.note(f"applied {transaction} in {shard}, by {self._host.name}")
                if not found.shards:
                    del self._server.decisions[transaction]

        self._run(write)

    # Durable subscriptions

    def topic_of(self, client_id: str, name: str) -> str | None:
        """Return the topic of a durable subscription."""
        found: str | None = self._run(lambda: self._server.subscriptions.get((client_id, name)))[0]
        return found

    def enter_subscription(self, client_id: str, name: str, topic: str) -> None:
        """Write the topic of a durable subscription."""
        self._run(lambda: self._server.subscriptions.update({(client_id, name): topic}))

    # What the simulation does not use

    def begin_promotion(self, sink: str, epoch: int, units: Sequence[StageName]) -> tuple[int, tuple[StageName, ...]]:
        """Refuse it."""
        raise NotImplementedError

    def promotion_of(self, sink: str) -> tuple[int, tuple[StageName, ...]] | None:
        """Refuse it."""
        raise NotImplementedError

    def end_promotion(self, sink: str, epoch: int) -> None:
        """Refuse it."""
        raise NotImplementedError

    def remove_subscription(self, client_id: str, name: str) -> None:
        """Refuse it."""
        raise NotImplementedError


class SimulatedPlacements:
    """The tables of placed queues: there are none. Stands for `PlacementTables`."""

    def __init__(self, tables: SimulatedTables) -> None:
        self._tables = tables

    def placements(self) -> tuple[dict[tuple[str, str], tuple[int, ...]], list[object]]:
        """Return that no queue was placed."""
        self._tables._run(lambda: None)
        return {}, []
