"""Messages and an application's own tables in one atomic step, without a coordinator.

When the broker's store and the application's tables are in one database, a session's transaction can be a part of the
application's: the messages received, the changes of the tables and the messages sent take effect together, or not at
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pyjms.api.session import Session
from pyjms.errors import IllegalArgumentException, IllegalStateException, JMSException
from pyjms.runtime.session import JmsSession
from pyjms.spi.interrupts import defers_signals

__all__ = ["SqlConnection", "joined"]


class SqlConnection(Protocol):
    """The part of `sqlalchemy.Connection` that is used here."""

    @property
    def connection(self) -> Any:
        """The driver's connection, in the wrapper of its pool."""
        ...

    def begin(self) -> Any:
        """Begin a transaction, and return it."""
        ...

    def get_transaction(self) -> Any:
        """Return the open transaction, or None."""
        ...

    def in_transaction(self) -> bool:
        """Say whether a transaction is open."""
        ...

    def rollback(self) -> None:
        """Roll it back."""
        ...


@contextmanager
def joined(session: Session, connection: SqlConnection) -> Iterator[None]:
    """Make all that `session` receives and sends, and `connection` changes, within the block one atomic step.

    session: transacted, of a connection to an embedded broker whose store is the database of `connection`
    (``vm://shop?store=…``). connection: a `sqlalchemy.Connection`, of an ORM session its ``connection()``; a transaction is
    begun if it has none, and ended in any case.

    Nothing else may end either transaction: within the block `session.commit()`, `session.rollback()` and another `joined` of the session raise
    `IllegalStateException`, and change nothing. An error in the block rolls both back and goes on.

    Raises before the block `IllegalStateException` if the session is not transacted, its listeners' thread controls it,
    or the connection commits each statement by itself (AUTOCOMMIT), `IllegalArgumentException` for an argument that is
    no connection, and `JMSException` when the provider cannot do this; after it `TransactionRolledBackException` when
    neither has taken effect, `IllegalStateException` when the block itself has ended the connection's transaction (then
    the messages are redelivered, whether or not the tables were changed), and `JMSException` for an outcome that is not
    known, or for a connection to another database.
    """
    if not isinstance(session, JmsSession):
        raise JMSException(f"{type(session).__name__} is no session of pyjms, so it can join no other transaction")
    session.check_joins()
    _check_connection(connection)
    transaction = connection.get_transaction() or connection.begin()
    if _commits_by_itself(connection):
        connection.rollback()
        raise IllegalStateException(
            "the connection commits each statement by itself, so nothing could be undone: joined() needs one whose "
            "isolation_level is not AUTOCOMMIT"
        )
    # Flags and not an `except`: an interrupt must roll both back, too, in the block and until the commit has begun.
    is_committing = has_ended = False
    session.is_joined = True
    try:
        yield
        _check_joined(connection, transaction)
        # The mark is removed first: the session refuses to commit and to roll back while it is joined.
        session.is_joined = False
        is_committing = True
        session.commit_with(connection)
        has_ended = True
    except JMSException:
        # Of the commit: the session has ended its half, or reported an unknown outcome.
        has_ended = is_committing
        raise
    finally:
        session.is_joined = False
        if not has_ended:  # also if a hook of the engine failed, perhaps before the session had begun to commit
            _roll_back(session, connection)
        elif connection.in_transaction():  # not after a commit
            connection.rollback()


def _check_connection(connection: object) -> None:
    """Raise `IllegalArgumentException` for objects that resemble a connection of SQLAlchemy, such as an engine."""
    kind = type(connection)
    is_property = isinstance(getattr(kind, "connection", None), property)  # of an ORM session it is a method
    if not is_property or not hasattr(kind, "get_transaction"):
        raise IllegalArgumentException(
            f"joined() needs a sqlalchemy.Connection, not {kind.__module__}.{kind.__qualname__}: "
            "of an ORM session pass session.connection(), of an engine engine.connect()"
        )


def _check_joined(connection: SqlConnection, transaction: object) -> None:
    """Raise `IllegalStateException` if `transaction`, which was joined, is no longer open: SQLAlchemy does not tell how
    it ended.
    """
    if connection.get_transaction() is not transaction:
        raise IllegalStateException(
            "the block has ended the transaction that joined() ends: what it had changed in the tables is committed already, or "
            "rolled back; what it did later, and the messages, are rolled back, and what it received comes again"
        )


@defers_signals()
def _roll_back(session: JmsSession, connection: SqlConnection) -> None:
    try:
        connection.rollback()
    finally:  # also if the database is unreachable: otherwise the next block would commit these sends and receipts
        session.rollback()


def _commits_by_itself(connection: SqlConnection) -> bool:
    """Say whether a connection is in AUTOCOMMIT, where the transactions that SQLAlchemy begins and ends have no effect."""
    driver = connection.connection.driver_connection
    if getattr(driver, "autocommit", False) is True:
        return True
    # sqlite3 begins transactions by itself unless it is configured not to; an application that began one then has
    # executed BEGIN.
    return getattr(driver, "isolation_level", "") is None and getattr(driver, "in_transaction", None) is False
