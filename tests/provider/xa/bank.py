"""A second resource: a ledger in a SQL database, with two-phase commit by a table of prepared entries.

`LedgerResource` keeps what is prepared in a table of its own, as SQLite knows no PREPARE TRANSACTION; PostgreSQL does,
which `PreparingResource` uses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url

from pyjms import XAException, XAResource, Xid
from pyjms.runtime.xa import RecoveredXid
from pyjms.spi import Xid as XidFact

__all__ = ["Bank", "LedgerResource", "PreparingResource", "open_bank"]


class Bank(XAResource):
    """The ledger, to which work adds entries."""

    def __init__(self, engine: Engine, passing: Callable[[str], None]) -> None:
        self.engine = engine
        self.passing = passing
        self.ended: dict[str, list[str]] = {}
        self.working: str | None = None
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS ledger (entry VARCHAR(80) PRIMARY KEY)"))

    def add(self, entry: str) -> None:
        """Add an entry in the branch that was started."""
        assert self.working is not None
        self.ended[self.working].append(entry)

    def entries(self) -> list[str]:
        """Return what has been committed."""
        with self.engine.connect() as connection:
            return sorted(connection.execute(text("SELECT entry FROM ledger")).scalars())

    def start(self, xid: Xid, flags: int) -> None:
        self.working = name_of(xid)
        self.ended[self.working] = []

    def end(self, xid: Xid, flags: int) -> None:
        self.working = None

    @abstractmethod
    def names_in_doubt(self) -> Sequence[str]:
        """Return the names of what is prepared."""

    def recover(self, flag: int) -> Sequence[Xid]:
        return [RecoveredXid(XidFact.parse(name)) for name in self.names_in_doubt()]

    def forget(self, xid: Xid) -> None:
        raise XAException("the bank decides nothing by itself", XAException.XAER_NOTA)

    def is_same_rm(self, xa_resource: XAResource) -> bool:
        return xa_resource is self

    def get_transaction_timeout(self) -> int:
        return 0

    def set_transaction_timeout(self, seconds: int) -> bool:
        return False


class LedgerResource(Bank):
    """With a table of what is prepared."""

    def __init__(self, engine: Engine, passing: Callable[[str], None]) -> None:
        super().__init__(engine, passing)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS branch (xid VARCHAR(300) PRIMARY KEY)"))
            connection.execute(text("CREATE TABLE IF NOT EXISTS prepared (xid VARCHAR(300), entry VARCHAR(80))"))

    def prepare(self, xid: Xid) -> int:
        name = name_of(xid)
        with self.engine.begin() as connection:
            connection.execute(text("INSERT INTO branch VALUES (:xid)"), {"xid": name})
            for entry in self.ended.pop(name):
                connection.execute(text("INSERT INTO prepared VALUES (:xid, :entry)"), {"xid": name, "entry": entry})
            self.passing("bank prepares")
        return self.XA_OK

    def commit(self, xid: Xid, one_phase: bool) -> None:
        with self.engine.begin() as connection:
            moved = text("INSERT INTO ledger SELECT entry FROM prepared WHERE xid = :xid")
            connection.execute(moved, {"xid": name_of(xid)})
            self.passing("bank commits")
            self._drop(connection, xid)

    def rollback(self, xid: Xid) -> None:
        if self.ended.pop(name_of(xid), None) is None:
            with self.engine.begin() as connection:
                self._drop(connection, xid)

    def _drop(self, connection: Connection, xid: Xid) -> None:
        connection.execute(text("DELETE FROM prepared WHERE xid = :xid"), {"xid": name_of(xid)})
        if connection.execute(text("DELETE FROM branch WHERE xid = :xid"), {"xid": name_of(xid)}).rowcount != 1:
            raise XAException("the bank knows no such branch", XAException.XAER_NOTA)

    def names_in_doubt(self) -> Sequence[str]:
        with self.engine.connect() as connection:
            return list(connection.execute(text("SELECT xid FROM branch")).scalars())


class PreparingResource(Bank):
    """With PREPARE TRANSACTION of PostgreSQL."""

    def prepare(self, xid: Xid) -> int:
        name = name_of(xid)
        with self.engine.connect() as connection:
            for entry in self.ended.pop(name):
                connection.execute(text("INSERT INTO ledger VALUES (:entry)"), {"entry": entry})
            self.passing("bank prepares")
            connection.exec_driver_sql(f"PREPARE TRANSACTION '{name}'")
            connection.commit()
        return self.XA_OK

    def commit(self, xid: Xid, one_phase: bool) -> None:
        self._finish("COMMIT PREPARED", xid)

    def rollback(self, xid: Xid) -> None:
        if self.ended.pop(name_of(xid), None) is None:
            self._finish("ROLLBACK PREPARED", xid)

    def _finish(self, how: str, xid: Xid) -> None:
        if name_of(xid) not in self.names_in_doubt():
            raise XAException("the bank knows no such branch", XAException.XAER_NOTA)
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"{how} '{name_of(xid)}'")

    def names_in_doubt(self) -> Sequence[str]:
        with self.engine.connect() as connection:
            ours = text("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
            return list(connection.execute(ours).scalars())


def name_of(xid: Xid) -> str:
    """Return the branch as text."""
    return str(XidFact(xid.format_id, bytes(xid.global_transaction_id), bytes(xid.branch_qualifier)))


def open_bank(url: str, passing: Callable[[str], None] = lambda step: None) -> Bank:
    """Open the bank in the database at `url`."""
    engine = create_engine(url)
    if make_url(url).get_backend_name() != "sqlite":
        return PreparingResource(engine, passing)

    @event.listens_for(engine, "connect")
    def _be_durable(connection: object, record: object) -> None:
        connection.execute("PRAGMA synchronous=FULL")  # type: ignore[attr-defined]

    return LedgerResource(engine, passing)
