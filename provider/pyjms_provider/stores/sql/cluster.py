"""The control tables of a cluster, in a schema of its own: members, leaders of shards, decisions, subscriptions, placed destinations.

A member is alive as long as its row has a recent heartbeat, and the server has a session of it: that which holds the advisory lock of its
incarnation, or one of the stores that it leads. When the server itself was started again since that heartbeat, all sessions are gone: then
members have the time of their lease to come back. A row that is deleted never comes back: that is the one sign that an incarnation has died, and its decisions are refused from then on.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Final

import psycopg
from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    any_,
    bindparam,
    case,
    cast,
    column,
    delete,
    event,
    exists,
    extract,
    func,
    insert,
    inspect,
    literal,
    literal_column,
    not_,
    or_,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pyjms.spi.replay import StageName
from pyjms_provider.stores.errors import (
    NewerStoreError,
    TakenNameError,
    UnavailableStoreError,
    UncertainWriteError,
    UnsupportedStoreError,
    UnusableStoreError,
    WrongClusterError,
)
from pyjms_provider.stores.sql.postgresql import AnswerTimeout, understand, was_refused
from pyjms_provider.stores.sql.postgresql_connections import (
    as_json,
    as_text,
    ask_after_pauses,
    make_engine,
    with_options,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, PoolProxiedConnection, Select, Update

    from pyjms.spi.clock import Clock


@dataclass(frozen=True, slots=True)
class Formats:
    """The formats of a cluster that a version of pyjms can work with. A format covers all that members share: the control tables, the schema of the
    shards' stores, and what they ask each other over links without looking at the other's capabilities.
    """

    oldest: int
    newest: int


FORMATS: Final = Formats(oldest=1, newest=1)
"""Those of this version. Raise `newest` with each change that a member of the version before could not work with."""
STORE_SCHEMAS: Final = {1: 5}
"""The version of the shards' stores (`schema.VERSION`) in each format."""
TABLES = MetaData()
# The tables are in the schema of the cluster: each connection translates the missing name of the schema.

CLUSTER = Table(
    "pyjms_cluster",
    TABLES,
    Column("one", SmallInteger, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("shards", Integer, nullable=False),
    Column("virtual_host", Text, nullable=False),
    Column("secret", Text, nullable=False),
)
"""One row, number 1. `format`: see `Formats`."""

MEMBER = Table(
    "pyjms_member",
    TABLES,
    Column("incarnation", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("lock_key", BigInteger, nullable=False),
    Column("application", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("format", Integer, nullable=False),
    Column("lease_ms", Integer, nullable=False),
    Column("joined", DateTime(timezone=True), nullable=False),
    Column("heartbeat", DateTime(timezone=True), nullable=False),
    Column("leaving", Boolean, nullable=False),
)
"""`application`: the application name of its sessions, by which they are ended when it is taken for dead. `format`: the newest that it knows."""

SHARD = Table(
    "pyjms_shard",
    TABLES,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("leader", Text),
    Column("since", DateTime(timezone=True), nullable=False),
    Column("terms", Integer, nullable=False),
    Column("restoring", Boolean, nullable=False),
    Column("pinned", Text),
    Column("consumers", Text),
)
"""`leader`: an incarnation; it says which member should hold the lock of the shard's store, which decides. `pinned`: the name of the member that an
operator wants to lead it; `consumers`: the name of the member whose clients, alone, have consumed from it for some time."""

DECISION = Table(
    "pyjms_decision",
    TABLES,
    Column("transaction", Text, primary_key=True),
    Column("committed", Boolean, nullable=False),
    Column("shards", ARRAY(Integer), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
)
"""`shards`: those that may not have applied it."""

SUBSCRIPTION = Table(
    "pyjms_subscription",
    TABLES,
    Column("client_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("topic", Text, nullable=False),
    PrimaryKeyConstraint("client_id", "name"),
)

PROMOTION = Table(
    "pyjms_promotion",
    TABLES,
    Column("sink", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("units", JSON, nullable=False),
)
"""The promotions of staged units that not all shards may have done; `units`: partition and attempt of each."""

PLACEMENT = Table(
    "pyjms_placement",
    TABLES,
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("shard", Integer, nullable=False),
    PrimaryKeyConstraint("kind", "name", "shard"),
)
"""The shards of the destinations that were placed, one row for each partition; `kind` is queue or topic."""

PLACING = Table(
    "pyjms_placing",
    TABLES,
    Column("name", Text, primary_key=True),
    Column("id", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("old", ARRAY(Integer), nullable=False),
    Column("new", ARRAY(Integer), nullable=False),
    Column("members", ARRAY(Text), nullable=False),
    Column("terms", JSON, nullable=False),
    Column("refusal", Text),
)
"""The queues that are being placed. `by`: the incarnation that wants it. `members`: the incarnations that know it, and use the queue no more until the
row is gone. `terms`: by shard, the term in which its leader has retired the queue. `refusal`: why it cannot be placed."""

_LOCK_CLASS: Final = 0x706A6D63
"""The first half of the key of the lock under which members join: the letters pjmc. The second half is a hash of the cluster's name."""
_LOCKS = table("pg_locks", *map(column, ("locktype", "database", "classid", "objid", "objsubid", "granted")))
_DATABASES = table("pg_database", column("oid"), column("datname"))
_SESSIONS = table(
    "pg_stat_activity", *map(column, ("pid", "datname", "application_name", "backend_type", "backend_start"))
)
_CONNECTIONS_MAX: Final = 4
"""The most connections for statements at the same time: a server has a hundred, for all its clients."""
_JOIN: Final = "pyjms-cluster"
"""The application name of sessions that nobody ends: they hold nothing."""


def lock_key(incarnation: str) -> int:
    """Return the key of the advisory lock of an incarnation, which is 16 hexadecimal digits."""
    return int.from_bytes(bytes.fromhex(incarnation), signed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What is constant in the life of a cluster."""

    shards: int
    virtual_host: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A member, as the database has it."""

    name: str
    incarnation: str
    run_id: str
    address: str
    version: str
    format: int
    """The newest format that it knows."""
    joined_ms: int
    heartbeat_age_ms: int
    is_leaving: bool
    is_alive: bool
    beats_here: bool
    """Whether it has written a heartbeat since the server started. Otherwise its row may have come with a copy of another server's data, and its address
    lead to the members of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRow:
    """A shard, as the database has it."""

    number: int
    leader: str | None
    """The incarnation of its leader."""
    since_ms: int
    """When it got or lost its leader."""
    age_ms: int
    """How long ago that was."""
    terms: int
    restoring: bool
    pinned: str | None
    """The name of the member that an operator wants to lead it."""
    consumers: str | None
    """The name of the member whose clients, alone, have consumed from it for some time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """All members and shards at one moment."""

    members: Sequence[MemberRow] = ()
    shards: Sequence[ShardRow] = ()
    undecided: int = 0
    format: int = FORMATS.newest
    """That of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision about a transaction over several shards."""

    transaction: str
    committed: bool
    shards: frozenset[int]
    age_ms: int


class MemberLock:
    """The connection that holds the advisory lock of an incarnation, and is told of changes. One thread at a time."""

    def __init__(self, lent: PoolProxiedConnection, where: str) -> None:
        self._lent = lent
        self._connection: Any = lent.driver_connection
        self._where = where

    def await_changes(self, timeout_s: float) -> bool:
        """Wait for a change of the tables; return whether there was one. Raises `StoreError` when the connection is lost."""
        try:
            return any(True for _ in self._connection.notifies(timeout=timeout_s, stop_after=1))
        except psycopg.Error as error:
            raise understand(error, self._where) from error

    def release(self) -> None:
        """Release the lock, and close the connection. May be repeated."""
        with suppress(psycopg.Error):
            if not self._connection.closed:
                self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._lent.invalidate()


class ClusterDatabase:
    """The control tables of one cluster. Safe to use from any thread; all methods wait for the database, and raise `StoreError`."""

    def __init__(self, url: str, name: str, clock: Clock, *, answer_ms: float) -> None:
        """Open no connection yet.

        Args:
            url: The database's URL.
            name: The cluster's name, and its schema's.
            clock: For timeouts.
            answer_ms: How long the server may take for an answer.

        Raises:
            UnsupportedStoreError: The URL is none of PostgreSQL.
        """
        self._name = name
        self._clock = clock
        self._url = _checked(url)
        self._where = self._url.set(password=None, query={}).render_as_string()
        self._channel = f"pyjms_{name}"
        self._timeout = AnswerTimeout(clock, answer_ms)
        self.formats = FORMATS
        """Those that its member can work with."""
        # The schema itself may not be there yet.
        own = with_options(
            self._url,
            # A member that is stopped within a transaction must not keep its locks.
            f"-csearch_path={name},pg_catalog -capplication_name={_JOIN} -cidle_in_transaction_session_timeout=4000",
        )
        if "connect_timeout" not in own.query:
            own = own.update_query_dict({"connect_timeout": str(max(2, round(answer_ms / 1000)))})
        engine = make_engine(own, self._timeout, pings=False)
        ask_after_pauses(engine, clock)
        event.listen(engine, "connect", lambda connection, _: setattr(connection, "limit_ms", answer_ms))
        self._engine: Engine = engine.execution_options(schema_translate_map={None: name})
        self._turns = BoundedSemaphore(_CONNECTIONS_MAX)

    # Sessions

    def application_of(self, incarnation: str) -> str:
        """Return the application name of all sessions of an incarnation that may write."""
        return f"pyjms/{self._name}/{incarnation}"

    def store_url(self, shard: int, incarnation: str) -> str:
        """Return the URL of the store of a shard, whose sessions can be found by the incarnation that uses it."""
        options = f"-csearch_path={self.schema_of(shard)} -capplication_name={self.application_of(incarnation)}"
        return with_options(self._url, options).render_as_string(hide_password=False)

    def schema_of(self, shard: int) -> str:
        """Return the schema of a shard's store."""
        return f"{self._name}_{shard}"

    def close(self) -> None:
        """Close all idle connections."""
        self._engine.dispose()

    @contextmanager
    def _statements(self) -> Iterator[Connection]:
        """Provide a connection on which each statement is committed by itself."""
        with self._turn(), self._connected() as connection, self._translated(writes=True):
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with (
            self._turn(),
            self._connected() as connection,
            self._translated(writes=True),
            connection.execution_options(isolation_level="READ COMMITTED").begin(),
        ):
            yield connection

    def _connected(self) -> Connection:
        with self._translated():
            return self._engine.connect()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._turns.acquire(timeout=self._timeout.limit_ms / 1000):
            raise UnavailableStoreError(
                f"{self._where} was not asked: {_CONNECTIONS_MAX} other threads wait for its answer"
            )
        try:
            yield
        finally:
            self._turns.release()

    @contextmanager
    def _translated(self, *, writes: bool = False) -> Iterator[None]:
        """Translate errors; with `writes`, a lost connection leaves unknown whether something was written."""
        try:
            yield
        except (psycopg.Error, SQLAlchemyError) as error:
            found = understand(error, self._where)
            cause = error.orig if isinstance(error, DBAPIError) else error
            if writes and isinstance(cause, Exception) and not was_refused(cause):
                raise UncertainWriteError(found.reason) from error
            raise found from error

    # Joining

    def clock_error_ms(self) -> float:
        """Return by how much this machine's clock is ahead of the database's, in milliseconds; the way there and back is allowed for."""
        with self._statements() as connection:
            connection.scalar(select(literal(1)))  # the connection is open from here on
            before_ms = self._clock.time_ms()
            there = connection.scalar(select(_milliseconds(func.clock_timestamp())))
            after_ms = self._clock.time_ms()
        found_ms = float(there or before_ms)
        return min(max(found_ms, before_ms), after_ms) - found_ms

    def prepare(self, *, shards: int | None, default_shards: int, virtual_host: str) -> ClusterFacts:
        """Make the schemas and tables that are missing, and return the facts of the cluster.

        Args:
            shards: How many the caller expects; None: any number.
            default_shards: How many a new cluster gets if the caller expects none.
            virtual_host: The name of the host that the caller serves.

        Raises:
            WrongClusterError: The cluster has other shards, serves another host, or has a format that is not known here any more.
            NewerStoreError: The cluster has a format that is not known here yet.
        """
        with self._transaction() as connection:
            self._lock_joining(connection)
            if not inspect(connection).has_table(CLUSTER.name, schema=self._name):
                self._make(connection, shards or default_shards, virtual_host)
            row = connection.execute(select(CLUSTER)).one()
            self._check_format(connection, row.format)
            self._check(row, shards, virtual_host)
            self._make_shards(connection, row.shards)
        return ClusterFacts(shards=row.shards, virtual_host=row.virtual_host, secret=row.secret)

    def _check(self, row: Any, shards: int | None, virtual_host: str) -> None:
        if shards is not None and row.shards != shards:
            raise WrongClusterError(
                f"cluster {self._name} has {row.shards} shards, and not {shards}, for as long as it exists: configure {row.shards}"
            )
        if row.virtual_host != virtual_host:
            raise WrongClusterError(
                f"cluster {self._name} serves the virtual host {row.virtual_host!r}, and not {virtual_host!r}: "
                "give each virtual host a cluster of its own"
            )

    def _make(self, connection: Connection, shards: int, virtual_host: str) -> None:
        if not inspect(connection).has_schema(self._name):
            connection.execute(text(f'CREATE SCHEMA "{self._name}"'))
        TABLES.create_all(connection)
        connection.execute(
            insert(CLUSTER).values(
                one=1,
                format=self.formats.newest,
                shards=shards,
                virtual_host=virtual_host,
                secret=secrets.token_hex(32),
            )
        )

    @contextmanager
    def adopting(self, shards: int, virtual_host: str) -> Iterator[Connection]:
        """Make a new cluster, whose shards have empty schemas, in a transaction that the caller adds to; no member joins meanwhile.

        Raises:
            UnusableStoreError: The cluster exists already, or its schemas are in use.
        """
        with self._transaction() as connection:
            self._lock_joining(connection)
            there = inspect(connection)
            used = [CLUSTER.name] if there.has_table(CLUSTER.name, schema=self._name) else []
            used += [name for number in range(shards) for name in there.get_table_names(schema=self.schema_of(number))]
            if used:
                raise UnusableStoreError(
                    f"there is a cluster {self._name} in {self._where} already: a store is taken into a new one; choose another name"
                )
            self._make(connection, shards, virtual_host)
            self._make_shards(connection, shards)
            yield connection

    def _check_format(self, connection: Connection, found: int) -> None:
        """Raise an error if a member with these formats cannot work in the cluster. The lock under which members join is held."""
        oldest, newest = self.formats.oldest, self.formats.newest
        if found > newest:
            others = connection.execute(select(MEMBER.c.name, MEMBER.c.version).order_by(MEMBER.c.name)).all()
            named = ", ".join(f"{each.name} {each.version}" for each in others) or "none at the moment"
            raise NewerStoreError(
                f"cluster {self._name} has format {found}, and this pyjms knows the formats up to {newest}: "
                f"use the version of pyjms of its other members ({named}), or a newer one"
            )
        if found < oldest:
            raise WrongClusterError(
                f"cluster {self._name} has format {found}, and this pyjms knows the formats from {oldest} on: "
                "update all members to a version of pyjms that knows both first"
            )

    def raise_format(self) -> bool:
        """Have the cluster be of the newest format that its member knows, if all members know that; return whether it became so."""
        newest = self.formats.newest
        with self._transaction() as connection:
            self._lock_joining(connection)
            if connection.scalar(select(func.count()).select_from(MEMBER).where(MEMBER.c.format < newest)):
                return False
            done = connection.execute(update(CLUSTER).where(CLUSTER.c.format < newest).values(format=newest))
            self._notify(connection)
        return done.rowcount > 0

    def _make_shards(self, connection: Connection, shards: int) -> None:
        there = set(inspect(connection).get_schema_names())
        for number in range(shards):
            if self.schema_of(number) not in there:
                connection.execute(text(f'CREATE SCHEMA "{self.schema_of(number)}"'))
        row = postgresql_insert(SHARD).values(
            number=bindparam("shard"), since=func.clock_timestamp(), terms=0, restoring=False
        )
        if connection.scalar(select(func.count()).select_from(SHARD)) != shards:
            connection.execute(row.on_conflict_do_nothing(), [{"shard": number} for number in range(shards)])

    def _lock_joining(self, connection: Connection) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK_CLASS, func.hashtext(self._name))))

    def hold(self, incarnation: str) -> MemberLock | None:
        """Open a connection with the lock of an incarnation; None: another session still holds that."""
        with self._translated():
            lent = self._engine.raw_connection()
            try:
                connection: Any = lent.driver_connection
                got = connection.execute("SELECT pg_try_advisory_lock(%s)", (lock_key(incarnation),)).fetchone()[0]
                if not got:
                    lent.invalidate()
                    return None
                connection.execute(
                    "SELECT set_config('application_name', %s, false)", (self.application_of(incarnation),)
                )
                connection.execute(f"LISTEN {self._channel}")
            except Exception:
                lent.invalidate()
                raise
        return MemberLock(lent, self._where)

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
        """Enter a member, which holds its lock already.

        Args:
            name: Its name.
            incarnation: The id of its start.
            run_id: The id of the run of its front.
            address: That of its link port.
            version: Of pyjms.
            lease_ms: How old its last heartbeat may become.
            replaces: The last incarnation of this very process, which is taken for dead; None: there was none.

        Raises:
            TakenNameError: Another member of that name is alive.
            WrongClusterError, NewerStoreError: The cluster has a format with which the member cannot work, as `prepare`.
        """
        with self._transaction() as connection:
            self._lock_joining(connection)
            # Again: this process may have been no member for a while, in which the others have raised the format.
            self._check_format(connection, connection.execute(select(CLUSTER.c.format)).scalar_one())
            old = connection.execute(
                select(MEMBER.c.incarnation, _IS_ALIVE.label("is_alive")).where(MEMBER.c.name == name)
            ).first()
            if old is not None:
                if old.is_alive and old.incarnation != replaces:
                    raise TakenNameError(
                        f"cluster {self._name} has a member {name} that is alive: give each member a name of its own"
                    )
                self._bury(connection, old.incarnation)
            connection.execute(
                insert(MEMBER).values(
                    incarnation=incarnation,
                    name=name,
                    lock_key=lock_key(incarnation),
                    application=self.application_of(incarnation),
                    run_id=run_id,
                    address=address,
                    version=version,
                    format=self.formats.newest,
                    lease_ms=lease_ms,
                    joined=func.clock_timestamp(),
                    heartbeat=func.clock_timestamp(),
                    leaving=False,
                )
            )
            self._notify(connection)

    # Members and shards

    def beat(self, incarnation: str) -> bool:
        """Write a heartbeat; return False if the incarnation was taken for dead."""
        with self._statements() as connection:
            # Not forced: a heartbeat that a crash of the server takes away is as old as the crash.
            unforced = func.set_config("synchronous_commit", "off", True).is_not(None)
            done = connection.execute(
                update(MEMBER)
                .where(MEMBER.c.incarnation == incarnation, unforced)
                .values(heartbeat=func.clock_timestamp())
            )
        return done.rowcount > 0

    def view(self) -> ClusterView:
        """Return all members and shards."""
        members, shards, found_format, undecided = self.read_once(_VIEW)
        return ClusterView(
            members=[MemberRow(**each) for each in members],
            shards=[ShardRow(**each) for each in shards],
            undecided=undecided,
            format=found_format,
        )

    def read_once(self, query: str) -> Sequence[Any]:
        """Return the only row of a query that `as_text` has made, in one round trip: each member asks for the rows four times a second."""
        with self._statements() as connection:
            return connection.exec_driver_sql(query).one()

    def announce_leaving(self, incarnation: str) -> None:
        """Write that a member hands its shards over, as it stops."""
        with self._transaction() as connection:
            connection.execute(update(MEMBER).where(MEMBER.c.incarnation == incarnation).values(leaving=True))
            self._notify(connection)

    def leave(self, incarnation: str) -> None:
        """Delete a member that has stopped; what it may still lead has no leader."""
        with self._transaction() as connection:
            self._forget_member(connection, incarnation)
            self._notify(connection)

    def bury(self, incarnation: str) -> bool:
        """End the sessions of a member that has died or is silent, and delete it; return False if it is alive, or gone already."""
        with self._transaction() as connection:
            found = connection.scalar(
                select(not_(_IS_ALIVE)).where(MEMBER.c.incarnation == incarnation).with_for_update()
            )
            if not found:
                return False
            self._bury(connection, incarnation)
            self._notify(connection)
        return True

    def _bury(self, connection: Connection, incarnation: str) -> None:
        connection.execute(_END_SESSIONS.where(_SESSIONS.c.application_name == self.application_of(incarnation)))
        self._forget_member(connection, incarnation)

    def _forget_member(self, connection: Connection, incarnation: str) -> None:
        connection.execute(delete(MEMBER).where(MEMBER.c.incarnation == incarnation))
        connection.execute(delete(PLACING).where(PLACING.c.by == incarnation))
        connection.execute(
            update(SHARD)
            .where(SHARD.c.leader == incarnation)
            .values(leader=None, since=func.clock_timestamp(), restoring=False)
        )

    def end_sessions(self, incarnation: str) -> None:
        """End all sessions of a member that may write, as the server does when its process dies."""
        with self._statements() as connection:
            connection.execute(_END_SESSIONS.where(_SESSIONS.c.application_name == self.application_of(incarnation)))

    def remove(self) -> None:
        """Drop the cluster with the stores of all its shards. No member runs any more."""
        own = re.compile(rf"{re.escape(self._name)}(_[0-9]+)?")
        with self._transaction() as connection:
            for schema in filter(own.fullmatch, inspect(connection).get_schema_names()):
                connection.execute(text(f'DROP SCHEMA "{schema}" CASCADE'))

    def end_sessions_of_the_dead(self) -> None:
        """End all sessions of incarnations that are deleted: they may hold the lock of a shard's store."""
        prefix = self.application_of("")
        living = select(MEMBER.c.application)
        with self._statements() as connection:
            connection.execute(
                _END_SESSIONS.where(
                    _SESSIONS.c.application_name.startswith(prefix, autoescape=True),
                    _SESSIONS.c.application_name.not_in(living),
                )
            )

    def claim(self, shards: Collection[int], incarnation: str) -> list[int]:
        """Make a living member the leader of shards that have none; return those that it got."""
        own = select(MEMBER.c.name).where(MEMBER.c.incarnation == incarnation)
        # Locked, so that the member is deleted before or after: a dead one leads nothing.
        living = own.with_for_update(read=True, key_share=True).cte("living")
        return self._change_shards(
            update(SHARD)
            .where(SHARD.c.number == any_(_numbers(shards)), SHARD.c.leader.is_(None), exists(select(living)))
            .values(leader=incarnation, since=func.clock_timestamp(), terms=SHARD.c.terms + 1, restoring=True)
        )

    def confirm(self, shard: int, incarnation: str) -> bool:
        """Write that the leader of a shard has opened it; return False if it is no longer the leader."""
        return self._change_shard(shard, incarnation, restoring=False)

    def release(self, shard: int, incarnation: str) -> bool:
        """Write that a shard has no leader any more; return False if it has another one, or none already."""
        return self._change_shard(shard, incarnation, leader=None, restoring=False, since=func.clock_timestamp())

    def pin(self, shard: int, member: str | None) -> None:
        """Write that a member is to lead a shard, whenever it can; None: any member."""
        self._change_shards(update(SHARD).where(SHARD.c.number == shard).values(pinned=member))

    def note_consumers(self, shard: int, incarnation: str, member: str | None) -> None:
        """Write whose clients, alone, consume from a shard; None: those of no or of several members."""
        self._change_shard(shard, incarnation, consumers=member)

    def _change_shard(self, shard: int, incarnation: str, **values: object) -> bool:
        led = update(SHARD).where(SHARD.c.number == shard, SHARD.c.leader == incarnation)
        return bool(self._change_shards(led.values(**values)))

    def _change_shards(self, change: Update) -> list[int]:
        """Change shards, and tell all members if there were some; return their numbers. One statement, as clients wait meanwhile."""
        done = change.returning(SHARD.c.number).cte("done")
        with self._statements() as connection:
            return sorted(connection.scalars(select(done.c.number, func.pg_notify(self._channel, ""))))

    def _notify(self, connection: Connection) -> None:
        connection.execute(select(func.pg_notify(self._channel, "")))

    # Decisions

    def decide_commit(self, transaction: str, shards: Sequence[int], incarnation: str) -> bool | None:
        """Write that a transaction of a living incarnation is committed, unless a decision is there.

        Returns:
            Whether it is committed; None: there is no decision, as the incarnation is dead.

        Raises:
            UncertainWriteError: It may have been written.
        """
        # The row is locked, so that the member is deleted before or after: from then on nothing of it is committed.
        alive = (
            select(
                literal(transaction),
                literal(True),
                cast(list(shards), ARRAY(Integer)),
                func.clock_timestamp(),
            )
            .where(MEMBER.c.incarnation == incarnation)
            .with_for_update(read=True, key_share=True)
        )
        into = ["transaction", "committed", "shards", "at"]
        # What was written is returned: the shards may have applied it, and deleted the row, before another statement looks for it.
        decide = postgresql_insert(DECISION).from_select(into, alive).on_conflict_do_nothing()
        with self._statements() as connection:
            if connection.scalar(decide.returning(DECISION.c.committed)):
                return True
            found: bool | None = connection.scalar(
                select(DECISION.c.committed).where(DECISION.c.transaction == transaction)
            )
        return found

    def decide_rollback(self, transaction: str, shards: Sequence[int]) -> bool:
        """Write that a transaction is rolled back, unless a decision is there; return whether it is committed."""
        with self._statements() as connection:
            connection.execute(
                postgresql_insert(DECISION)
                .values(transaction=transaction, committed=False, shards=list(shards), at=func.clock_timestamp())
                .on_conflict_do_nothing()
            )
            found = connection.scalar(select(DECISION.c.committed).where(DECISION.c.transaction == transaction))
        return bool(found)

    def roll_back_branch(self, transaction: str, shard: int, leader: str) -> bool | None:
        """Write that a transaction is rolled back, as the leader of a shard has a prepared branch of it, unless a decision is there.

        A former leader, which was stopped meanwhile, writes nothing: the branch may be committed by now, and the decision deleted.

        Returns:
            Whether it is committed; None: there is no decision, as another member leads the shard.
        """
        # The row of the shard is locked, so that another member claims it before or after.
        is_led = (
            select(literal(transaction), literal(False), cast([shard], ARRAY(Integer)), func.clock_timestamp())
            .where(SHARD.c.number == shard, SHARD.c.leader == leader)
            .with_for_update(read=True)
        )
        into = ["transaction", "committed", "shards", "at"]
        with self._statements() as connection:
            connection.execute(postgresql_insert(DECISION).from_select(into, is_led).on_conflict_do_nothing())
            found: bool | None = connection.scalar(
                select(DECISION.c.committed).where(DECISION.c.transaction == transaction)
            )
        return found

    def forget(self, transactions: Collection[str]) -> None:
        """Delete decisions that all shards have applied."""
        with self._statements() as connection:
            connection.execute(delete(DECISION).where(DECISION.c.transaction == any_(_texts(transactions))))

    def decisions(self, transactions: Collection[str], shards: Collection[int]) -> list[DecisionRow]:
        """Return the decisions about transactions, and those that one of the shards may not have applied."""
        with self._statements() as connection:
            rows = connection.execute(
                select(
                    DECISION.c.transaction,
                    DECISION.c.committed,
                    DECISION.c.shards,
                    _milliseconds_since(DECISION.c.at).label("age_ms"),
                ).where(
                    or_(
                        DECISION.c.transaction == any_(_texts(transactions)),
                        DECISION.c.shards.overlap(_numbers(shards)),
                    )
                )
            ).all()
        return [
            DecisionRow(
                transaction=row.transaction,
                committed=row.committed,
                shards=frozenset(row.shards),
                age_ms=row.age_ms,
            )
            for row in rows
        ]

    def living(self, incarnations: Collection[str]) -> set[str]:
        """Return those of the incarnations that are not deleted."""
        with self._statements() as connection:
            return set(
                connection.scalars(
                    select(MEMBER.c.incarnation).where(MEMBER.c.incarnation == any_(_texts(incarnations)))
                )
            )

    def note_applied(self, transaction: str, shard: int) -> None:
        """Write that a shard has applied a decision; after the last one the decision is deleted."""
        with self._transaction() as connection:
            connection.execute(
                update(DECISION)
                .where(DECISION.c.transaction == transaction)
                .values(shards=func.array_remove(DECISION.c.shards, shard))
            )
            connection.execute(
                delete(DECISION).where(DECISION.c.transaction == transaction, func.cardinality(DECISION.c.shards) == 0)
            )

    # Promotions of staged units

    def begin_promotion(self, sink: str, epoch: int, units: Sequence[StageName]) -> tuple[int, tuple[StageName, ...]]:
        """Write the epoch and the units of a promotion, unless one of its sink is there; return those of the one that is."""
        chosen = [[name.partition, name.attempt] for name in units]
        row = postgresql_insert(PROMOTION).values(sink=sink, epoch=epoch, units=chosen)
        while True:
            with self._statements() as connection:
                connection.execute(row.on_conflict_do_nothing())
            found = self.promotion_of(sink)
            if found is not None:  # else another member has just finished one
                return found

    def promotion_of(self, sink: str) -> tuple[int, tuple[StageName, ...]] | None:
        """Return the epoch and the units of the promotion of a sink; None: there is none."""
        with self._statements() as connection:
            row = connection.execute(
                select(PROMOTION.c.epoch, PROMOTION.c.units).where(PROMOTION.c.sink == sink)
            ).first()
        return None if row is None else (row.epoch, tuple(StageName(sink, row.epoch, *each) for each in row.units))

    def end_promotion(self, sink: str, epoch: int) -> None:
        """Delete a promotion; nothing happens if another one of its sink is there."""
        with self._statements() as connection:
            connection.execute(delete(PROMOTION).where(PROMOTION.c.sink == sink, PROMOTION.c.epoch == epoch))

    # Subscriptions

    def topic_of(self, client_id: str, name: str) -> str | None:
        """Return the topic of a subscription; None: there is none."""
        with self._statements() as connection:
            found: str | None = connection.scalar(select(SUBSCRIPTION.c.topic).where(*_of(client_id, name)))
        return found

    def enter_subscription(self, client_id: str, name: str, topic: str) -> None:
        """Enter a subscription, or change its topic."""
        row = postgresql_insert(SUBSCRIPTION).values(client_id=client_id, name=name, topic=topic)
        with self._statements() as connection:
            connection.execute(row.on_conflict_do_update(index_elements=["client_id", "name"], set_={"topic": topic}))

    def remove_subscription(self, client_id: str, name: str) -> None:
        """Remove a subscription; nothing happens if there is none."""
        with self._statements() as connection:
            connection.execute(delete(SUBSCRIPTION).where(*_of(client_id, name)))


def _checked(url: str) -> URL:
    try:
        found = make_url(url)
    except (SQLAlchemyError, ValueError) as error:  # the latter for a port that is no number
        raise UnsupportedStoreError(f"the database's URL cannot be read: {error}") from error
    if found.get_backend_name() != "postgresql":
        raise UnsupportedStoreError(
            "a cluster needs a database of PostgreSQL; write postgresql+psycopg://USER@HOST/DATABASE"
        )
    return found


def _numbers(values: Collection[int]) -> ColumnElement[Any]:
    return cast(sorted(values), ARRAY(Integer))


def _texts(values: Collection[str]) -> ColumnElement[Any]:
    return cast(sorted(values), ARRAY(Text))


def _of(client_id: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return SUBSCRIPTION.c.client_id == client_id, SUBSCRIPTION.c.name == name


def _milliseconds(moment: ColumnElement[Any]) -> ColumnElement[int]:
    return cast(func.floor(extract("epoch", moment) * 1000), BigInteger)


def _milliseconds_since(moment: ColumnElement[Any]) -> ColumnElement[int]:
    return cast(func.floor(extract("epoch", func.clock_timestamp() - moment) * 1000), BigInteger)


_STARTED: Final = func.greatest(
    func.pg_postmaster_start_time(),
    # Started again when the server ends all sessions, as one of its processes has crashed.
    select(func.max(_SESSIONS.c.backend_start)).where(_SESSIONS.c.backend_type == "checkpointer").scalar_subquery(),
)
"""Since when the server has had sessions without interruption."""


def _is_among(value: ColumnElement[Any], found: Select[Any], kind: type[BigInteger | Text]) -> ColumnElement[bool]:
    # An array, which the server reads once for all members.
    return value == any_(func.array(found.scalar_subquery(), type_=ARRAY(kind)))


_IS_LOCKED: Final = _is_among(
    MEMBER.c.lock_key,
    select(
        cast(_LOCKS.c.classid, BigInteger)
        .bitwise_lshift(literal_column("32"))
        .bitwise_or(cast(_LOCKS.c.objid, BigInteger))
    ).where(
        _LOCKS.c.locktype == "advisory",
        _LOCKS.c.objsubid == 1,
        _LOCKS.c.granted,
        _LOCKS.c.database
        == select(_DATABASES.c.oid).where(_DATABASES.c.datname == func.current_database()).scalar_subquery(),
    ),
    BigInteger,
)
_AGE_MS: Final = _milliseconds_since(func.greatest(MEMBER.c.heartbeat, _STARTED))
_HAS_SESSIONS: Final = _is_among(
    MEMBER.c.application,
    select(_SESSIONS.c.application_name).where(_SESSIONS.c.datname == func.current_database()),
    Text,
)
_IS_ALIVE: Final = case(
    (MEMBER.c.lease_ms < _AGE_MS, False), else_=or_(_IS_LOCKED, _HAS_SESSIONS, MEMBER.c.heartbeat < _STARTED)
)
_MEMBERS: Final = select(
    MEMBER.c.name,
    MEMBER.c.incarnation,
    MEMBER.c.run_id,
    MEMBER.c.address,
    MEMBER.c.version,
    MEMBER.c.format,
    _milliseconds(MEMBER.c.joined).label("joined_ms"),
    _milliseconds_since(MEMBER.c.heartbeat).label("heartbeat_age_ms"),
    MEMBER.c.leaving.label("is_leaving"),
    _IS_ALIVE.label("is_alive"),
    (MEMBER.c.heartbeat >= _STARTED).label("beats_here"),
).order_by(MEMBER.c.name)
_SHARDS: Final = select(
    SHARD.c.number,
    SHARD.c.leader,
    _milliseconds(SHARD.c.since).label("since_ms"),
    _milliseconds_since(SHARD.c.since).label("age_ms"),
    SHARD.c.terms,
    SHARD.c.restoring,
    SHARD.c.pinned,
    SHARD.c.consumers,
).order_by(SHARD.c.number)


_VIEW: Final = as_text(
    select(
        as_json(_MEMBERS, "each_member"),
        as_json(_SHARDS, "each_shard"),
        CLUSTER.c.format,
        select(func.count()).select_from(DECISION).scalar_subquery(),
    )
)
_END_SESSIONS: Final = select(func.pg_terminate_backend(_SESSIONS.c.pid)).where(
    _SESSIONS.c.pid != func.pg_backend_pid(), _SESSIONS.c.datname == func.current_database()
)
