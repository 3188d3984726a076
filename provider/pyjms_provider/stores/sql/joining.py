"""Writing through the application's own transaction, so that its tables and the broker's change in one step."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

from sqlalchemy import Connection, Transaction
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError
from pyjms_provider.core.journal.journal import JoinedTransaction
from pyjms_provider.stores.sql.batch import PagedRows, make_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyjms_provider.core.journal.journal import Changes
    from pyjms_provider.stores.sql.batch import Batch
    from pyjms_provider.stores.sql.database import Database

_IN_TRANSACTION: Final = 2
"""PostgreSQL's PQTRANS_INTRANS: the transaction is open, and no statement is on its way."""


def transaction_of(connection: object) -> tuple[Connection, Transaction]:
    """Return an SQLAlchemy connection and its open transaction. Raises `ResourceError` that says what is wrong."""
    if not isinstance(connection, Connection):
        raise ResourceError(
            f"{type(connection).__name__} is no sqlalchemy.Connection; with an ORM session pass session.connection()"
        )
    transaction = connection.get_transaction()
    if transaction is None or not transaction.is_active:
        raise ResourceError("the SQLAlchemy connection has no open transaction; begin one: with connection.begin(): …")
    return connection, transaction


class DeferringWriter(Protocol):
    """The journal's side: what it has deferred is to be written before an application's transaction."""

    def flush_deferred(self) -> None:
        """Have written what was deferred, or is being written. Raises as `Journal.write`."""

    def lend_deferred(self) -> AbstractContextManager[Sequence[Batch]]:
        """Lend what was deferred to the caller, which writes it in a transaction of its own; all others wait meanwhile."""


class JoinedWriter(JoinedTransaction):
    """Takes a journal's place for one commit: writes changes on the application's connection, and commits that.

    What is written becomes true with the application's commit, and with nothing else: if the process dies before, neither
    has happened, and if it dies after, both have.
    """

    def __init__(
        self, connection: object, opening: tuple[object, ...], database: Database, deferring: DeferringWriter
    ) -> None:
        """`opening`: what tells this opening of the store `database` from all others; the application's connection must see the same.

        `deferring`: the journal of that store, which may have deferred what is to be written first.

        Raises `ResourceError` when the connection has no transaction, or one that has failed, or leads to another store.
        """
        self._connection, self._transaction = transaction_of(connection)
        self._opening = opening
        self._database = database
        self._deferring = deferring
        try:
            found = database.opening_of(self._connection)
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise ResourceError(
                "the SQLAlchemy connection does not lead to the broker's store, or its transaction has failed: "
                f"{cause}; name the same database in store=, with ?pyjms_shared=true at the end of its URL"
            ) from error
        if found != opening:
            raise ResourceError(
                "the SQLAlchemy connection leads to another store than the broker's; name the same database in store="
            )

    def write(self, changes: Changes, *, force: bool) -> None:
        """Write `changes`, and commit. Raises `ResourceError` when nothing of it is true, and `InDoubtError` when nobody knows.

        What a hook of the application's engine raises passes through: then `may_be_committed` says whether nobody knows. `force` changes nothing here: how safe the commit is was chosen with the application's connection.
        """
        try:
            self._write_and_commit(changes)
        except Exception:  # also what a hook of the application's engine raises
            if not self.may_be_committed:
                self._roll_back()
            raise

    def _write_and_commit(self, changes: Changes) -> None:
        with self._deferred_first() as deferred:
            try:
                for batch in (*deferred, make_batch(changes)):
                    steps = batch.steps(self._database)
                    self._database.check_space(self._connection, steps)
                    for statement, rows in steps:
                        for some in rows.portions() if isinstance(rows, PagedRows) else (list(rows),):
                            if some:
                                self._connection.exec_driver_sql(statement, some)
                # Last, so that a broker that takes the store over waits for the commit alone, and then finds it done.
                is_ours = self._database.lock_opening(self._connection) == self._opening
            except (SQLAlchemyError, ProviderError) as error:
                raise _not_written(error) from error
            if not is_ours:
                raise ResourceError("another broker has taken the store over; neither messages nor tables were changed")
            self.commit()

    @contextmanager
    def _deferred_first(self) -> Iterator[Sequence[Batch]]:
        """Have the journal write what it has deferred to be written before anything else; or yield it, to be written first in this transaction.

        Of a queue whose end was in doubt, for example, the store must know that before it has a message of the next one of its name.
        It is yielded where one transaction at a time can write: from here on that is the application's, so the journal cannot.
        """
        with ExitStack() as lent:
            deferred: list[Batch] = []
            try:
                if self._database.has_one_writer:
                    # It changes nothing, but from now on nobody else writes.
                    self._connection.exec_driver_sql(self._database.statements.raise_next_queue, (0, 0))
                    self._database.detect_failed_checkpoint()
                    self._database.repair_log()
                    deferred += lent.enter_context(self._deferring.lend_deferred())
                else:
                    self._deferring.flush_deferred()
            except (SQLAlchemyError, ProviderError) as error:
                raise _not_written(error) from error
            yield deferred

    def commit(self) -> None:
        """Commit the application's transaction. Raises as `write`."""
        self.may_be_committed = True
        try:
            self._transaction.commit()
            self._database.detect_failed_checkpoint()  # SQLite may have carried its log over within the commit
        except DBAPIError as error:
            if error.connection_invalidated:
                raise InDoubtError(
                    "the connection to the database broke while the transaction was committed"
                ) from error
            self._roll_back()
            if self._database.leaves_doubt(error.orig):
                raise InDoubtError(f"the disk failed while the transaction was committed: {error}") from error
            raise ResourceError(f"the application's transaction could not be committed: {error}") from error
        except SQLAlchemyError as error:
            self._roll_back()
            raise ResourceError(f"the application's transaction could not be committed: {error}") from error
        except Exception:  # a hook of the engine: before the database commits, or later
            self.may_be_committed = not self._is_open()
            self._roll_back()
            raise

    def _is_open(self) -> bool:
        """Whether the database certainly has the transaction open, so that it has not been committed."""
        with suppress(SQLAlchemyError):
            driver = self._connection.connection.driver_connection
            if self._database.has_one_writer:
                return getattr(driver, "in_transaction", False) is True
            return getattr(getattr(driver, "info", None), "transaction_status", None) == _IN_TRANSACTION
        return False

    def _roll_back(self) -> None:
        """Have nothing open on the application's connection. May be repeated."""
        if self._connection.get_transaction() is self._transaction:
            self._transaction.rollback()  # also when it has failed: it must be ended before another one can begin
        with suppress(SQLAlchemyError, self._connection.dialect.loaded_dbapi.Error):
            # A commit that failed before it reached the database leaves there what SQLAlchemy holds to be ended.
            self._connection.connection.rollback()


def _not_written(error: Exception) -> ResourceError:
    cause = error.reason if isinstance(error, ProviderError) else error
    return ResourceError(f"the messages could not be written in the application's transaction: {cause}")
