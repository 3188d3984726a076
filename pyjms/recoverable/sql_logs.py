"""Data of client and server in a database: the client's log, and the server's replies to processed requests."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError, TimeoutError

from pyjms.recoverable.client_log import ClientLog, ClientLogException, LogEntry
from pyjms.spi.clock import Clock, SystemClock

_metadata = sa.MetaData()
_entries = sa.Table(
    "pyjms_client_log",
    _metadata,
    sa.Column("client", sa.Unicode(200), primary_key=True),
    sa.Column("session", sa.Unicode(40), nullable=False),
    sa.Column("registered", sa.Boolean, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("request_id", sa.Unicode(40), nullable=False),
    sa.Column("request", sa.UnicodeText, nullable=False),
    sa.Column("attempted", sa.Boolean, nullable=False),
    sa.Column("device_state", sa.UnicodeText),
    sa.Column("reply_id", sa.Unicode(40), nullable=False),
    sa.Column("notes", sa.UnicodeText, nullable=False),
)
_NAMES = [field.name for field in fields(LogEntry)]


class SqlClientLog(ClientLog):
    """Stores entries in the table ``pyjms_client_log``, one row per client.

    url: a database URL of SQLAlchemy: ``sqlite:///desk-7.db``. A SQLite file is forced to the disk at each write.
    Raises `ClientLogException` when it cannot be opened.
    """

    def __init__(self, url: str) -> None:
        try:
            self._engine = sa.create_engine(url)
            if self._engine.dialect.name == "sqlite":
                # An entry must survive a power failure from the moment that write returns; builds of SQLite differ in
                # what they force by default.
                sa.event.listen(self._engine, "connect", _force_writes)
            _metadata.create_all(self._engine)
        except (SQLAlchemyError, ImportError) as error:
            raise ClientLogException(
                f"the client's log cannot be opened: {error}. Name a database that this program may write to, such as "
                "sqlite:///client.db"
            ) from error

    def read(self, client: str) -> LogEntry | None:
        query = sa.select(*(_entries.c[name] for name in _NAMES)).where(_entries.c.client == client)
        try:
            with self._engine.connect() as connection:
                row = connection.execute(query).mappings().one_or_none()
        except SQLAlchemyError as error:
            raise ClientLogException(f"the client's log cannot be read: {error}") from error
        return None if row is None else LogEntry(**row)

    def write(self, entry: LogEntry) -> None:
        values = asdict(entry)
        # Update first, insert if there is no row: no UPSERT works on all databases, and one client has one writer.
        change = sa.update(_entries).where(_entries.c.client == entry.client).values(values)
        try:
            with self._engine.begin() as connection:
                if not connection.execute(change).rowcount:
                    connection.execute(sa.insert(_entries).values(values))
        except SQLAlchemyError as error:
            raise ClientLogException(
                f"the client's log cannot be written: {error}. Nothing was sent or acknowledged; call recover() when it can"
            ) from error

    def close(self) -> None:
        self._engine.dispose()


def _force_writes(connection: object, _record: object) -> None:
    connection.execute("PRAGMA synchronous=FULL")  # type: ignore[attr-defined]
    connection.execute("PRAGMA busy_timeout=5000")  # type: ignore[attr-defined]


# Raised by drivers when the server is unreachable, the file is locked or the pool is exhausted; an IntegrityError is
# none of them.
_TROUBLES = (InterfaceError, OperationalError, TimeoutError)

_replies_metadata = sa.MetaData()
_replies = sa.Table(
    "pyjms_replies",
    _replies_metadata,
    sa.Column("request", sa.Unicode(300), primary_key=True),
    sa.Column("reply", sa.UnicodeText, nullable=False),
    sa.Column("done_ms", sa.BigInteger, nullable=False, index=True),
)


class SqlReplies:
    """The table ``pyjms_replies``. Its rows are written in the application's transactions.

    Rows are needed until a request cannot be redelivered: `forget` removes old ones.
    """

    def __init__(self, engine: Any, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._engine = engine
        _replies_metadata.create_all(engine)

    @staticmethod
    def is_trouble(error: BaseException | None) -> bool:
        """Say whether `error` comes from the database and may be temporary: it is unreachable, locked, or has no more
        connections.
        """
        return isinstance(error, _TROUBLES)

    def why_away(self) -> str | None:
        """Return why the database is unreachable; None if it is not."""
        try:
            with self._engine.connect() as connection:
                connection.execute(sa.select(sa.literal(1)))
        except _TROUBLES as error:
            return str(error)
        return None

    def find(self, connection: Any, request: str) -> str | None:
        """Return the reply to `request` ("" for none), or None if it has not been processed."""
        query = sa.select(_replies.c.reply).where(_replies.c.request == request)
        found: str | None = connection.execute(query).scalar_one_or_none()
        return found

    def keep(self, connection: Any, request: str, reply: str) -> None:
        """Store the reply; a second server that processes the same request at the same time fails here."""
        row = {"request": request, "reply": reply, "done_ms": self._clock.time_ms()}
        connection.execute(sa.insert(_replies).values(row))

    def forget(self, connection: Any, before_ms: int) -> int:
        """Remove replies older than `before_ms`, milliseconds since 1970 UTC; return their number."""
        removed: int = connection.execute(sa.delete(_replies).where(_replies.c.done_ms < before_ms)).rowcount
        return removed
