"""A client's log in a database; SQLite by default."""

from __future__ import annotations

from dataclasses import asdict, fields

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from pyjms.recoverable.client_log import ClientLog, LogEntry
from pyjms.recoverable.errors import ClientLogException

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
    """Keeps entries in the table ``pyjms_client_log``, one row a client.

    url: of a database, as SQLAlchemy writes it: ``sqlite:///desk-7.db``. A SQLite file is forced to the disk at each write. Raises
    `ClientLogException` when it cannot be opened.
    """

    def __init__(self, url: str) -> None:
        try:
            self._engine = sa.create_engine(url)
            if self._engine.dialect.name == "sqlite":
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
