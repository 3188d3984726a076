"""Opening a schema of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, create_engine, delete, event, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from pyjms.spi.errors import UrlError
from pyjms_provider.settings import Synchronous
from pyjms_provider.stores.errors import (
    HeldStoreError,
    StoreError,
    UnavailableStoreError,
    UnsupportedStoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.file_lock import HOW_TO_STAND_BY, acquire, describe_holder
from pyjms_provider.stores.sql import tables as t
from pyjms_provider.stores.sql.database import POOL_OPTIONS
from pyjms_provider.stores.sql.paging import Paging
from pyjms_provider.stores.sql.schema import Meta, OpenRequest, prepare_schema, take

try:
    from psycopg.errors import LockNotAvailable

    from pyjms_provider.stores.sql.postgresql import (
        ANSWER_OPTION,
        DEFAULT_LIMIT_MS,
        AnswerTimeout,
        LockConnection,
        PostgresqlDatabase,
        UnloggedDatabase,
        understand,
        without_timeout,
    )
except ModuleNotFoundError as error:
    raise UnsupportedStoreError(
        f"PostgreSQL needs {error.name}; install it with: pip install 'pyjms-messaging[postgresql]'"
    ) from error

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from pyjms.spi.clock import Clock, Signal
    from pyjms_provider.stores.sql.postgresql import TimeoutConnection

# The server must notice that a holder's machine is gone, and no writer waits for ever for an application's lock. Nothing is probed while an
# answer is on its way that nobody confirms: for that there is a timeout of its own, without which the system tries for a quarter of an hour.
_SESSION: Final = (
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=25000 "
    "-c lock_timeout=5000 -c application_name=pyjms"
)
_CONNECTING: Final = {
    "client_encoding": "utf8",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_SETTINGS: Final = (
    "SELECT current_schema(), count(set_config(name, CASE name WHEN 'synchronous_commit' THEN 'on' ELSE '0' END, false)) "
    "FROM pg_settings WHERE name = 'idle_session_timeout' OR (name = 'synchronous_commit' AND setting = 'off')"
)
"""Whatever the server has for all: an idle holder keeps its lock, and what is forced is forced. Not every version knows both names."""
_LONGEST_S: Final = 86_400
_IS_LOGGED: Final = "SELECT relpersistence <> 'u' FROM pg_class WHERE oid = %s::regclass"
_LOCKING: Final = (
    "SELECT DISTINCT application_name, pid FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "JOIN pg_class ON pg_class.oid = pg_locks.relation "
    "WHERE granted AND pid <> pg_backend_pid() AND pg_stat_activity.datname = current_database() "
    "AND relnamespace = current_schema()::regnamespace AND relname LIKE :prefix ORDER BY pid"
)
"""Who has locks on tables of ours."""


def open_postgresql(request: OpenRequest) -> tuple[PostgresqlDatabase, Paging, Meta]:
    """Return the database, held, and how it was left. Raises as `open_journal`."""
    url = request.url
    where = url.set(password=None, query={}).render_as_string()
    timeout = timeout_of(url, request.clock, request.cancelled)
    engine = make_engine(url, timeout)
    holding = LockConnection(engine, request.clock)
    try:
        meta = acquire(
            lambda: _take_over(holding, engine, where, request),
            request.clock,
            waits=request.waits,
            cancelled=request.cancelled,
        )
        holding.epoch = meta.epoch
        forces = request.synchronous is Synchronous.FULL
        database = PostgresqlDatabase(engine, holding, request.clock, timeout, where=where, forces=forces)
        return database, Paging(UnloggedDatabase(make_engine(url, timeout), where, timeout), lambda: None), meta
    except Exception:
        holding.unlock()
        engine.dispose()
        raise


def timeout_of(url: URL, clock: Clock, cancelled: Signal | None = None) -> AnswerTimeout:
    """Return how long to wait for answers, as a store's URL says; `cancelled` ends its opening. Raises `UrlError`."""
    request = url.query.get(ANSWER_OPTION)
    if request is None:
        return AnswerTimeout(clock, cancelled=cancelled)
    if not isinstance(request, str) or not re.fullmatch("[1-9][0-9]{0,4}", request) or int(request) > _LONGEST_S:
        raise UrlError(
            f"{request!r} is no value of {ANSWER_OPTION}; write seconds, from 1 to {_LONGEST_S}, as {DEFAULT_LIMIT_MS / 1000:.0f}"
        )
    return AnswerTimeout(clock, int(request) * 1000.0, cancelled=cancelled)


def make_engine(url: URL, timeout: AnswerTimeout) -> Engine:
    """Return an engine whose connections notice that the server is gone, or does not answer. Raises `UnsupportedStoreError`."""
    # SQLAlchemy hands everything in `connect_args` to the driver, after what the URL says itself.
    request = {name: value for name, value in _CONNECTING.items() if name not in url.query}
    options = url.query.get("options", "")
    request["options"] = f"{_SESSION} {options if isinstance(options, str) else ' '.join(options)}".strip()
    try:
        engine = create_engine(
            url.difference_update_query(["options", ANSWER_OPTION]),
            paramstyle="format",
            isolation_level="AUTOCOMMIT",
            connect_args=request,
            pool_pre_ping=True,  # who takes one from the pool believes that it is there
            **POOL_OPTIONS,
        )
    except (ArgumentError, SQLAlchemyError) as error:
        raise UnsupportedStoreError(f"PostgreSQL cannot be used as a store: {error}") from error

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> object:
        connection = timeout.connect(*arguments, **{**options, "autocommit": True})
        try:
            _begin_session(connection, url)
        except Exception:
            connection.close()
            raise
        return connection

    return engine


def _begin_session(connection: TimeoutConnection, url: URL) -> None:
    """Have a new connection do what a store needs. Raises `UnusableStoreError`, errors of the driver."""
    (schema, _) = connection.execute(_SETTINGS).fetchone() or (None, 0)
    if schema is None:  # it would have no lock, which looks as if another broker had it
        raise UnusableStoreError(
            f"{url.set(password=None, query={}).render_as_string()} has no schema to keep the store in: "
            "search_path names none that is there, and that this user may use. Make one (CREATE SCHEMA), or name another"
        )


def _take_over(holding: LockConnection, engine: Engine, where: str, request: OpenRequest) -> Meta:
    """Take the lock, and have the schema ready. Raises `StoreError`; another attempt may follow."""
    try:
        _hold(holding, engine, where)
        with (
            engine.connect().execution_options(isolation_level="READ COMMITTED") as connection,
            without_timeout(connection),
            connection.begin(),
        ):
            prepare_schema(connection, where, is_shared=request.is_shared)
            # From here on who takes the lock waits for this transaction; who has taken it before is found now.
            holding.confirm()
            meta = take(connection, describe_holder(request.holder), PostgresqlDatabase.opening_of)
            _empty_paged(connection)
    except PostgresqlDatabase.errors as error:
        holding.unlock()  # closed, it would be held for a moment more, and the next attempt find it held by nobody
        raise _understand(error, engine, where) from error
    return meta


def _hold(holding: LockConnection, engine: Engine, where: str) -> None:
    if not holding.acquire():
        raise HeldStoreError(f"{where} is held by {_holder_of(engine)}; {HOW_TO_STAND_BY}")


def _holder_of(engine: Engine) -> str:
    try:
        with engine.connect() as connection:
            holder: Any = connection.execute(select(t.META.c.holder)).scalar()
    except SQLAlchemyError:
        holder = None
    return str(holder or "another broker")


def _empty_paged(connection: Connection) -> None:
    """Have an empty table for paged-out messages, also while somebody reads it, as `pg_dump` does from its beginning to its end."""
    t.PAGED.create(connection, checkfirst=True)
    if connection.exec_driver_sql(_IS_LOGGED, (t.PAGED.name,)).scalar():
        connection.execute(text(f"ALTER TABLE {t.PAGED.name} SET UNLOGGED"))
    if connection.scalar(select(t.PAGED.c.id).limit(1)) is None:
        return
    try:
        with connection.begin_nested():
            connection.execute(text(f"LOCK TABLE {t.PAGED.name} IN ACCESS EXCLUSIVE MODE NOWAIT"))
            connection.execute(text(f"TRUNCATE {t.PAGED.name}"))  # at once, however much there is
    except DBAPIError as error:
        if not _is_locked(error):
            raise
        connection.execute(delete(t.PAGED))


def _understand(error: Exception, engine: Engine, where: str) -> StoreError:
    """Return what an error means, and if it came of another's locks, who that is."""
    if not _is_locked(error):
        return understand(error, where)
    try:
        with engine.connect() as connection:
            found = connection.execute(text(_LOCKING), {"prefix": f"{t.PREFIX}%"}).all()
    except SQLAlchemyError:
        found = []
    names = ", ".join(f"{name or 'a program without a name'} (process {pid})" for name, pid in found)
    return UnavailableStoreError(
        f"{where} has tables that are locked by {names or 'another program, which has ended by now'}; nothing was written. "
        "Try again when it has ended; pg_locks shows all locks"
    )


def _is_locked(error: Exception) -> bool:
    return isinstance(error, DBAPIError) and isinstance(error.orig, LockNotAvailable)
