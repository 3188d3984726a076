"""Writing through the application's own transaction, so that its tables and the broker's change in one step."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Transaction, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pyjms.spi.errors import InDoubtError, ResourceError
from pyjms_provider.core.journal import JoinedTransaction
from pyjms_provider.stores.sql import tables as t
from pyjms_provider.stores.sql.batch import make_batch

if TYPE_CHECKING:
    from pyjms_provider.core.journal import Changes
    from pyjms_provider.stores.sql.statements import Statements

__all__ = ["JoinedWriter", "transaction_of"]


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


class JoinedWriter(JoinedTransaction):
    """Takes a journal's place for one commit: writes changes on the application's connection, and commits that.

    What is written becomes true with the application's commit, and with nothing else: if the process dies before, neither
    has happened, and if it dies after, both have.
    """

    def __init__(self, connection: object, epoch: int, statements: Statements) -> None:
        """`epoch`: of the opening of the store, by which the application's database is known to be the store's.

        Raises `ResourceError` when the connection has no transaction, or leads to another database.
        """
        self._connection, self._transaction = transaction_of(connection)
        self._statements = statements
        self.is_committed = False
        try:
            found = self._connection.execute(select(t.META.c.epoch)).scalar()
        except SQLAlchemyError as error:
            raise ResourceError(
                "the SQLAlchemy connection does not lead to the broker's store: it has no tables of pyjms; name the same "
                "database in store=, with ?pyjms_shared=true at the end of its URL"
            ) from error
        if found != epoch:
            raise ResourceError(
                "the SQLAlchemy connection leads to another store than the broker's; name the same database in store="
            )

    def write(self, changes: Changes, *, force: bool) -> None:
        """Write `changes`, and commit. Raises `ResourceError` when nothing was written, `InDoubtError`.

        `force` changes nothing here: how safe the commit is was chosen with the application's connection.
        """
        try:
            for statement, rows in make_batch(changes).steps(self._statements):
                self._connection.exec_driver_sql(statement, list(rows))
        except SQLAlchemyError as error:
            self._roll_back()
            raise ResourceError(
                f"the messages could not be written in the application's transaction: {error}"
            ) from error
        self.commit()

    def commit(self) -> None:
        """Commit the application's transaction. Raises as `write`."""
        try:
            self._transaction.commit()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise InDoubtError(
                    "the connection to the database broke while the transaction was committed"
                ) from error
            self._roll_back()
            raise ResourceError(f"the application's transaction could not be committed: {error}") from error
        except SQLAlchemyError as error:
            self._roll_back()
            raise ResourceError(f"the application's transaction could not be committed: {error}") from error
        self.is_committed = True

    def _roll_back(self) -> None:
        self._transaction.rollback()  # also when it has failed: it must be ended before another one can begin
        with suppress(SQLAlchemyError, self._connection.dialect.loaded_dbapi.Error):
            # A commit that failed before it reached the database leaves there what SQLAlchemy holds to be ended.
            self._connection.connection.rollback()
