"""Connections to PostgreSQL's server: how they are opened, and how it is seen that one is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import psycopg
from sqlalchemy import URL, ColumnElement, Engine, create_engine, event, func, literal_column, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, SQLAlchemyError

from pyjms_provider.stores.errors import UnsupportedStoreError, UnusableStoreError
from pyjms_provider.stores.sql.database import POOL_OPTIONS

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Select
    from sqlalchemy.pool import ConnectionPoolEntry

    from pyjms.spi.clock import Clock


class Connector(Protocol):
    """Opens connections, each of which ends when the server does not answer in time."""

    def connect(self, *arguments: Any, **options: Any) -> psycopg.Connection[Any]:
        """Connect as psycopg does. Raises its errors."""
        ...


ANSWER_OPTION: Final = "pyjms_answer_timeout"
"""The option of a store's URL for the answer timeout, in seconds."""
_FRESH_MS: Final = 1_000
# With these options the server notices that a holder's machine has vanished, and no writer waits for ever for an
# application's lock. Keep-alive probes are not sent while data is unconfirmed: tcp_user_timeout covers that, without
# which the system retries for a quarter of an hour.
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
    "SELECT current_schema(), "
    "CASE WHEN current_setting('idle_session_timeout', true) <> '0' THEN set_config('idle_session_timeout', '0', false) END, "
    "CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END"
)
"""Overrides the server's defaults, so that an idle holder keeps its lock, and forced writes are forced. Not every version has both settings."""


def make_engine(url: URL, timeout: Connector, *, pings: bool = True) -> Engine:
    """Return an engine whose connections notice that the server is lost or does not answer. Raises `UnsupportedStoreError`.

    `pings`: whether a connection of the pool is asked before it is used, as the server may have ended it meanwhile.
    """
    # SQLAlchemy passes `connect_args` to the driver, and they override options in the URL.
    request = {name: value for name, value in _CONNECTING.items() if name not in url.query}
    # The user's options come last, so that they win over those of `_SESSION`.
    options = url.query.get("options", "")
    request["options"] = f"{_SESSION} {options if isinstance(options, str) else ' '.join(options)}".strip()
    try:
        engine = create_engine(
            url.difference_update_query(["options", ANSWER_OPTION]),
            paramstyle="format",
            isolation_level="AUTOCOMMIT",
            connect_args=request,
            pool_pre_ping=pings,
            use_native_hstore=False,
            **POOL_OPTIONS,
        )
    except (ArgumentError, SQLAlchemyError) as error:
        raise UnsupportedStoreError(f"PostgreSQL cannot be used as a store: {error}") from error
    _ask_once(engine.dialect, url.set(password=None, query={}))

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> object:
        # Autocommit from the beginning: otherwise `_begin_session` would leave a transaction open.
        connection = timeout.connect(*arguments, **{**options, "autocommit": True})
        try:
            _begin_session(connection, url)
        except Exception:
            connection.close()
            raise
        return connection

    return engine


_answers: Final[dict[URL, Mapping[str, object]]] = {}
"""What SQLAlchemy has asked each server for."""


def _ask_once(dialect: Dialect, server: URL) -> None:
    """Have SQLAlchemy ask a server for its version, and the like, only once in this process: each engine would ask it, in five round trips."""
    ask = dialect.initialize

    def initialize(connection: Connection) -> None:
        known = _answers.get(server)
        if known is not None:
            vars(dialect).update(known)
            return
        before = dict(vars(dialect))
        ask(connection)
        found = {name: value for name, value in vars(dialect).items() if name not in before}
        _answers[server] = {name: value for name, value in found.items() if isinstance(value, (bool, str, tuple))}

    dialect.initialize = initialize  # type: ignore[method-assign]


def _begin_session(connection: psycopg.Connection[Any], url: URL) -> None:
    """Apply the settings that a store needs to a new connection, and check its schema. Raises `UnusableStoreError`, errors of the driver."""
    (schema, *_) = connection.execute(_SETTINGS).fetchone() or (None,)
    # Without a schema the key of the lock is NULL, and the lock would seem to be held by another broker.
    if schema is None:
        raise UnusableStoreError(
            f"{url.set(password=None, query={}).render_as_string()} has no schema to keep the store in: "
            "search_path names none that is there, and that this user may use. Make one (CREATE SCHEMA), or name another"
        )


def ask_after_pauses(engine: Engine, clock: Clock) -> None:
    """Have a pooled connection that was not used for a second asked before its next use, and any replaced that is lost: each question is a round trip.

    `engine`: one without pings.
    """

    def note_use(_: object, entry: ConnectionPoolEntry) -> None:
        entry.info["used_ms"] = clock.monotonic_ms()

    def check(connection: Any, entry: ConnectionPoolEntry, _: object) -> None:
        used_ms = entry.info.get("used_ms")
        if used_ms is None:
            return  # it is new
        try:
            if clock.monotonic_ms() - used_ms > _FRESH_MS:
                connection.execute("SELECT 1")
        except psycopg.Error as error:
            raise DisconnectionError(str(error)) from error
        if not is_alive(connection):
            raise DisconnectionError("the server has ended it")

    event.listen(engine, "checkin", note_use)
    event.listen(engine, "checkout", check)


def is_alive(connection: psycopg.Connection[Any]) -> bool:
    """Return False if the server or the system has ended this idle connection. Takes a microsecond, and no round trip."""
    try:
        # Twice: the first read may get the server's last message, and only the second one the end of the connection.
        for _ in range(2):
            connection.pgconn.consume_input()
            connection.pgconn.is_busy()
    except psycopg.Error:
        return False
    return not connection.closed


def with_options(url: URL, options: str) -> URL:
    """Return a URL whose sessions also have these options of the server; they win over the URL's own."""
    own = url.query.get("options", "")
    given = own if isinstance(own, str) else " ".join(own)
    return url.update_query_dict({"options": f"{given} {options}".strip()})


def as_json(rows: Select[Any], name: str) -> ColumnElement[Any]:
    """Return an expression for all rows of a query, as a JSON array of objects; their order is that of the query."""
    array = func.coalesce(func.json_agg(literal_column(f'"{name}"')), func.json_build_array())
    return select(array).select_from(rows.subquery(name)).scalar_subquery()


def as_text(query: Select[Any]) -> str:
    """Return the text of a query without parameters, for the driver; the session's search path has the schema of its tables."""
    return str(query.compile(dialect=make_url("postgresql://").get_dialect()(), compile_kwargs={"literal_binds": True}))
