"""A configuration store in a database, a file of SQLite or a schema of PostgreSQL, with a row for each object.

The names of its tables begin with ``pyjmsconf_``, so that on PostgreSQL they may share a schema with a journal's. They may not share a
file of SQLite: each store would run checkpoints without knowing which writes of the other one the disk had failed to force. Only the
store that was opened last may write: each change also checks the number of the opening, as a lock may be lost with its connection.

If PostgreSQL does not answer a commit, its outcome is unknown. Changes are idempotent, so the change is repeated until the server
answers. If it does not, the change is reported as in doubt, the model undoes it, and the next change here, or `close`, undoes what may
have been written.
"""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    delete,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import InDoubtError, UrlError
from pyjms_provider.stores.configuration_contract import ConfigurationStore, ObjectId, ObjectRecord
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    HeldStoreError,
    LostStoreError,
    NewerStoreError,
    StoreError,
    UnsupportedStoreError,
)
from pyjms_provider.stores.file_lock import FileLock, describe_holder

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, RowMapping

_VERSION: Final = 1
_PRODUCT: Final = "pyjms configuration"
_LOCK_CLASS: Final = 0x704A4D43  # "pJMC"; the journal's is another
SETTLE_MS: Final = 10_000
"""How long a change without an answer is repeated before it is in doubt."""
_RETRY_MS: Final = 100
_SCHEMA: Final = MetaData()

_META: Final = Table(
    "pyjmsconf_meta",
    _SCHEMA,
    Column("one", SmallInteger, primary_key=True),
    Column("product", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("opening", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
)
"""One row, number 1. `opening` is increased at each opening."""

_OBJECT: Final = Table(
    "pyjmsconf_object",
    _SCHEMA,
    Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True),
    Column("id", String(36), nullable=False, unique=True),
    Column("category", Text, nullable=False),
    Column("parent", String(36)),
    Column("attributes", Text, nullable=False),
    Column("is_stopped", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_by", Text, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
)
"""`number` is the order in which objects were created: parents come before their children."""


class SqlConfigurationStore(ConfigurationStore):
    """A configuration store with a row for each record; a change is one transaction."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        """`url`: a URL of SQLAlchemy, as for stores of messages; `clock` None: the system's. Raises `UrlError`."""
        try:
            self._url = make_url(url)
        except (ArgumentError, ValueError) as error:
            raise UrlError("the store is not an SQLAlchemy URL; write for instance sqlite:///broker.db") from error
        self._clock = clock or SystemClock()
        self._engine: Engine | None = None
        self._opening = 0
        self._rows_before_doubt: dict[str, RowMapping | None] = {}
        """For the ids in changes in doubt: the row before these changes, or None if there was none."""
        self._hasten: Callable[[], None] = _nothing
        self._let_go: Callable[[], None] = _nothing

    @property
    def where(self) -> str:
        return self._url.set(password=None, query={}).render_as_string()

    def open(self, holder: str) -> Sequence[ObjectRecord]:
        engine, let_go = self._hold(describe_holder(holder))
        try:
            # The new opening gets its number in the transaction that reads the records,
            # so no other broker can change them in between.
            with engine.begin() as connection:
                opening = self._prepare(connection, describe_holder(holder))
                rows: Sequence[Any] = connection.execute(select(_OBJECT).order_by(_OBJECT.c.number)).all()
                records = [self._to_record(row) for row in rows]
        except Exception as error:
            let_go()
            engine.dispose()
            if isinstance(error, SQLAlchemyError):
                raise self._understand(error) from error
            raise
        self._engine, self._let_go, self._opening = engine, let_go, opening
        return records

    def _hold(self, holder: str) -> tuple[Engine, Callable[[], None]]:
        """Lock the database; return its engine, and a function that releases it. Raises `UrlError`, `HeldStoreError`, `UnsupportedStoreError`."""
        if self._url.drivername in {"sqlite", "sqlite+pysqlite"}:
            return self._hold_sqlite(holder)
        if self._url.drivername == "postgresql+psycopg":
            return self._hold_postgresql()
        raise UnsupportedStoreError(
            f"{self._url.drivername} was not tested as a store; write sqlite:///FILE, or "
            f"postgresql+psycopg://USER@HOST/DATABASE"
        )

    def _hold_sqlite(self, holder: str) -> tuple[Engine, Callable[[], None]]:
        from pyjms_provider.stores.sql.sqlite import make_engine
        from pyjms_provider.stores.sql.sqlite_files import file_of

        path = file_of(self._url)
        # Erased: attributes may be passwords, which must not remain in free pages of the file.
        engine = make_engine(self._url.set(database=path), synchronous="FULL", erases=True, checkpoints_in_commits=True)
        # A name of its own: PATH.lock is the lock of a store of messages.
        lock = FileLock(f"{path}.configuration.lock", holder)
        try:
            lock.acquire()
        except HeldStoreError as error:
            # Without the advice about stand-by, which configuration stores do not support.
            who = error.reason.partition(" is held by ")[2].partition(";")[0]
            raise HeldStoreError(f"{path} is held by {who}; stop that first, or name another database") from None
        try:
            _refuse_messages(path)
        except Exception as error:
            lock.release()
            if isinstance(error, sqlite3.Error):
                raise self._understand(error) from error
            raise
        return engine, lock.release

    def _hold_postgresql(self) -> tuple[Engine, Callable[[], None]]:
        from pyjms_provider.stores.sql.postgresql import timeout_of
        from pyjms_provider.stores.sql.postgresql_connections import make_engine

        timeout = timeout_of(self._url, self._clock)
        engine = make_engine(self._url, timeout).execution_options(isolation_level="READ COMMITTED")
        try:
            # A connection for the lock alone: one that writes may be lost and replaced.
            held = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            lock = text("SELECT pg_try_advisory_lock(:class, hashtext(current_schema()))")
            is_free = held.execute(lock, {"class": _LOCK_CLASS}).scalar()
        except SQLAlchemyError as error:
            engine.dispose()
            raise self._understand(error) from error
        if not is_free:
            who = _holder_of(held)
            held.close()
            engine.dispose()
            raise HeldStoreError(f"{self.where} is held by {who}; stop that first, or name another database")
        self._hasten = timeout.hasten
        return engine, partial(_unlock, held)

    def _prepare(self, connection: Connection, holder: str) -> int:
        """Create the tables, or check them; return the number of this opening."""
        if _META.name not in inspect(connection).get_table_names():
            _SCHEMA.create_all(connection)
            first = {"one": 1, "product": _PRODUCT, "version": _VERSION, "opening": 1, "holder": holder}
            connection.execute(insert(_META).values(**first))
            return 1
        # The row is locked, so that two brokers that open the store at once get different numbers.
        row: Any = connection.execute(select(_META).with_for_update()).first()
        if row is None:
            raise DamagedStoreError(f"{self.where} has lost its row in {_META.name}; put a backup in its place")
        if row.product != _PRODUCT:
            raise ForeignStoreError(f"{self.where} is a store of {row.product!r}; name another database")
        if row.version > _VERSION:
            raise NewerStoreError(
                f"{self.where} has version {row.version}, and this pyjms knows version {_VERSION}: install the pyjms that "
                f"wrote it, or a newer one"
            )
        connection.execute(update(_META).values(opening=row.opening + 1, holder=holder))
        return int(row.opening) + 1

    def _to_record(self, row: Any) -> ObjectRecord:
        try:
            return ObjectRecord(
                id=ObjectId(UUID(row.id)),
                category=row.category,
                parent=None if row.parent is None else ObjectId(UUID(row.parent)),
                attributes=dict(json.loads(row.attributes)),
                is_stopped=row.is_stopped,
                created_by=row.created_by,
                created_ms=row.created_ms,
                updated_by=row.updated_by,
                updated_ms=row.updated_ms,
                source=f"{self.where}, row {row.number}",
            )
        except (TypeError, ValueError) as error:
            raise DamagedStoreError(
                f"{self.where}: row {row.number} of {_OBJECT.name} is not understood: {error}; correct it, or put a backup "
                f"in its place"
            ) from error

    def update(self, records: Sequence[ObjectRecord], removed: Collection[ObjectId] = ()) -> None:
        engine = self._engine
        if engine is None:
            raise StoreError(f"{self.where} is not open, so nothing can be changed there")
        change = _Change(records, removed)
        try:
            self._write(engine, change)
        except DBAPIError as error:
            # Before the COMMIT is sent nothing can be written; after it, only a refusal proves that nothing was.
            if not change.is_committing or self._was_refused(error):
                raise self._understand(error) from error
            self._settle(engine, change, error)
        except SQLAlchemyError as error:
            raise self._understand(error) from error

    def _write(self, engine: Engine, change: _Change) -> None:
        with engine.begin() as connection:
            # This locks the row of `_META`, and so waits until no commit of a lost connection is under way any more.
            self._check_holder(connection)
            # Before `before` is read, which must not include a change in doubt.
            self._take_back(connection)
            # Read at the first attempt only: a later one might find the rows that the first one has written.
            if change.before is None:
                change.before = _kept_before(connection, change.ids)
            for record in change.records:
                _put(connection, record)
            for gone in change.removed:
                connection.execute(delete(_OBJECT).where(_OBJECT.c.id == str(gone)))
            # The last line before COMMIT, which is sent at the end of the block.
            change.is_committing = True
        # Only now: the rows were restored in the transaction that has just been committed.
        self._rows_before_doubt.clear()

    def _settle(self, engine: Engine, change: _Change, cause: DBAPIError) -> None:
        """Repeat a change until the server answers. Raises `InDoubtError`."""
        until_ms = self._clock.monotonic_ms() + SETTLE_MS
        while True:
            try:
                self._write(engine, change)
            except (SQLAlchemyError, LostStoreError) as error:
                if isinstance(error, LostStoreError) or self._clock.monotonic_ms() >= until_ms:
                    # Rows of older changes win: they are the state before any of the changes in doubt.
                    self._rows_before_doubt = {**(change.before or {}), **self._rows_before_doubt}
                    raise InDoubtError(
                        f"the connection to {self.where} was lost while the configuration was changed, so it is not known whether "
                        f"the change is kept; the broker goes on without it, and the next change takes it back: {cause.orig}"
                    ) from error
                self._clock.wait(Signal(), min(until_ms, self._clock.monotonic_ms() + _RETRY_MS))
            else:
                return

    def _take_back(self, connection: Connection) -> None:
        """Restore the rows from before the changes in doubt, as the broker goes on without these changes."""
        if self._rows_before_doubt:
            connection.execute(delete(_OBJECT).where(_OBJECT.c.id.in_(self._rows_before_doubt)))
            for row in self._rows_before_doubt.values():
                if row is not None:
                    # With the same number: children must come after their parents.
                    connection.execute(insert(_OBJECT).values(**row))

    def _was_refused(self, error: DBAPIError) -> bool:
        """Return whether a failed commit has certainly changed nothing."""
        if self._url.drivername.startswith("sqlite") or not isinstance(error.orig, Exception):
            return True
        from pyjms_provider.stores.sql.postgresql import was_refused

        return was_refused(error.orig)

    def _check_holder(self, connection: Connection) -> None:
        # An update and not a query: it locks the row until the commit, so that
        # no other broker opens the store meanwhile.
        is_ours = update(_META).where(_META.c.opening == self._opening).values(opening=self._opening)
        if connection.execute(is_ours).rowcount != 1:
            raise LostStoreError(f"{self.where} has been opened by another broker meanwhile; nothing was changed there")

    def _understand(self, error: SQLAlchemyError | sqlite3.Error) -> StoreError:
        if self._url.drivername.startswith("sqlite"):
            from pyjms_provider.stores.sql.sqlite import understand as understand_sqlite

            return understand_sqlite(error, self.where, has_messages=False)
        from pyjms_provider.stores.sql.postgresql import understand

        return understand(error, self.where)

    def close(self) -> None:
        engine, self._engine = self._engine, None
        # Shortens the time that a server may be silent.
        self._hasten()
        if engine is not None and self._rows_before_doubt:
            # If this fails, the next opening may find the change: the InDoubtError said that its outcome is unknown.
            with suppress(SQLAlchemyError, StoreError):
                self._write(engine, _Change())
        let_go, self._let_go = self._let_go, _nothing
        let_go()
        if engine is not None:
            engine.dispose()


class _Change:
    """One change, for which `_write` may be called more than once."""

    def __init__(self, records: Sequence[ObjectRecord] = (), removed: Collection[ObjectId] = ()) -> None:
        self.records = records
        self.removed = removed
        self.ids = [*(str(record.id) for record in records), *map(str, removed)]
        self.before: dict[str, RowMapping | None] | None = None
        """The rows of its ids before the change; None: not read yet."""
        self.is_committing = False
        """Whether COMMIT may have been sent, so that the change may have been written."""


def _refuse_messages(path: str) -> None:
    """Check that a file is no store of messages; create it if it does not exist. Raises `ForeignStoreError`, `sqlite3.Error`."""
    from pyjms_provider.stores.sql.schema import META
    from pyjms_provider.stores.sql.sqlite import BUSY_MS
    from pyjms_provider.stores.sql.sqlite_files import connect, table_names

    with closing(connect(path, may_create=True, timeout=BUSY_MS / 1000)) as first:
        if META.name in table_names(first):
            # SQLite would copy the log into the database when this connection closes,
            # and the broker may have to repair it first.
            first.interrupt()
            raise ForeignStoreError(
                f"{path} has the messages of a broker, and its configuration cannot be there, too: name another file for it. "
                f"If it is there, copy it: sqlite3 {shlex.quote(path)} \".dump 'pyjmsconf_%'\" | sqlite3 NEW-FILE"
            )


def _kept_before(connection: Connection, ids: Sequence[str]) -> dict[str, RowMapping | None]:
    rows = connection.execute(select(_OBJECT).where(_OBJECT.c.id.in_(ids))).mappings().all()
    return {**dict.fromkeys(ids), **{row["id"]: row for row in rows}}


def _holder_of(connection: Connection) -> str:
    holder: str | None = None
    # The table may not exist yet: the holder may just be creating it.
    with suppress(SQLAlchemyError):
        holder = connection.execute(select(_META.c.holder)).scalar()
    return holder or "another broker"


def _nothing() -> None:
    """Do nothing, as no database is held."""


def _unlock(held: Connection) -> None:
    from pyjms_provider.stores.sql.postgresql import UNLOCKING_MS

    # If the connection was lost, so was the lock.
    with suppress(SQLAlchemyError):
        driver: Any = held.connection.driver_connection
        driver.limit_ms = UNLOCKING_MS
        held.execute(text("SELECT pg_advisory_unlock_all()"))
    held.close()


def _put(connection: Connection, record: ObjectRecord) -> None:
    values = {
        "category": record.category,
        "parent": None if record.parent is None else str(record.parent),
        "attributes": json.dumps(dict(record.attributes), ensure_ascii=False),
        "is_stopped": record.is_stopped,
        "created_by": record.created_by,
        "created_ms": record.created_ms,
        "updated_by": record.updated_by,
        "updated_ms": record.updated_ms,
    }
    # An update keeps the row's number, and with it the order of objects; INSERT OR REPLACE would give a new one.
    known = connection.execute(update(_OBJECT).where(_OBJECT.c.id == str(record.id)).values(**values))
    if not known.rowcount:
        connection.execute(insert(_OBJECT).values(id=str(record.id), **values))
