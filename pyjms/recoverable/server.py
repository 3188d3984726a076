"""The server's side: dequeue, work and enqueue as one unit, including the application's database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyjms.api.destination import TemporaryQueue, TemporaryTopic
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import (
    IllegalStateException,
    JMSException,
    ResourceAllocationException,
    TransactionRolledBackException,
)
from pyjms.joining import joined
from pyjms.recoverable.requestor import CLIENT, NUMBER
from pyjms.recoverable.stored_message import envelope_of, message_of, read_message, write_message
from pyjms.spi.clock import BackOff, Delays

if TYPE_CHECKING:
    from pyjms.api.connection import Connection
    from pyjms.api.consumer import MessageConsumer
    from pyjms.api.message import Message
    from pyjms.api.session import Session
    from pyjms.messages.base import MessageContext
    from pyjms.runtime.factory import ConnectionFactory
    from pyjms.runtime.session import JmsSession


_log = logging.getLogger("pyjms.recoverable")


class Database(Protocol):
    """The part of `sqlalchemy.Engine` that is used here."""

    def connect(self) -> Any:
        """Return a connection, which is a context manager."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit of work: its effects commit together with the request's dequeue, or not at all."""

    session: Session
    """Transacted; messages sent with it are part of the unit. With a `database` that is not `shared` only the reply is
    certain: after a crash between the two commits the work counts as done, and its other messages are lost."""
    connection: Any
    """The `sqlalchemy.Connection`, or None without a database. Its transaction is ended by the server."""
    client: str
    """The name of the client, or "" when the client is no `RecoverableRequestor`."""
    number: int
    """The client's number of this request, or 0."""


Work = Callable[["Message", Unit], "Message | None"]


class RecoverableServer:
    """Serves a queue of requests, one at a time in each `serve` call. Start several for parallel work.

    work: gets the request and the `Unit`, returns the reply or None for none; an error rolls the unit back, and the
    provider delivers the request again as its policies say. The reply goes to the request's JMSReplyTo, with its
    JMSCorrelationID or, without one, its JMSMessageID. A request that cannot be read, or whose reply the provider
    refuses, counts as one whose listener fails: its client's temporary queue no longer exists, or replies to it are
    forbidden. If the reply queue may be full, there are pauses of up to ten seconds in between.

    database: a `sqlalchemy.Engine` of the application; while it is unreachable, no request is received, and it is
    retried with such pauses. Replies are stored in its table ``pyjms_replies``, in the transaction of the work, and a
    repeated request gets the stored reply without being processed again. With `shared`, it is the database of the
    embedded broker's store, and one commit covers all (`pyjms.joining`). Without, it is any database, and its
    transaction commits first: after a crash between the two commits the request is redelivered, and the work is still
    done once.
    """

    def __init__(
        self,
        factory: ConnectionFactory,
        queue: str,
        work: Work,
        *,
        database: Database | None = None,
        shared: bool = False,
        selector: str | None = None,
    ) -> None:
        self._queue = queue
        self._work = work
        self._database = database
        self._shared = shared
        self._selector = selector
        self._stopped = threading.Event()
        self._replies = None if database is None else _reply_table(database)
        self._connection = PresentConnection(factory, self._stopped)

    def serve(self, *, requests: int | None = None, timeout_ms: int = 0) -> int:
        """Serve until `stop`, or `requests` were served, or none arrived for timeout_ms (0: no limit); return the
        number served.

        While the broker is unreachable, at the start or later, reconnects with pauses of up to ten seconds. Raises
        errors of the URL, the login, the queue or the selector.
        """
        served, pauses = 0, Pauses(self._stopped)
        while not self._stopped.is_set() and (requests is None or served < requests):
            try:
                session, consumer = self._open()
            except JMSException as error:
                if self._stopped.is_set():
                    break
                # A wrong URL or password is permanent, and is raised at the first attempt; after a success, errors are
                # taken for temporary.
                if not pauses.may_heal(error):
                    raise
                _log.warning("cannot connect to serve %s: %s", self._queue, error)
                pauses.wait()
                continue
            # Only after the consumer was made: that, too, reports a wrong queue or selector.
            pauses.has_been_well = True
            try:
                while requests is None or served < requests:
                    request = consumer.receive(timeout_ms)
                    if request is None:
                        return served
                    # Only committed requests count: with `requests`, one that was rolled back must be served again.
                    served += self._serve_one(session, request, pauses)
            except JMSException as error:
                if not self._stopped.is_set():
                    _log.warning("%s; what was not committed comes again", error)
                    pauses.wait()
            finally:
                self._connection.close()
        return served

    def stop(self) -> None:
        """End `serve`; an uncommitted unit is rolled back. Any thread; may be repeated."""
        # The flag comes before the close: the thread that serves would take the closed connection for a lost one, and
        # connect again.
        self._stopped.set()
        self._connection.close()

    def _open(self) -> tuple[Session, MessageConsumer]:
        connection = self._connection.open()
        try:
            session = connection.create_session(True, AcknowledgeMode.AUTO_ACKNOWLEDGE)
            consumer = session.create_consumer(session.create_queue(self._queue), self._selector)
            connection.start()
        except Exception:
            # A session without its consumer is useless; each attempt would leave one connection open.
            self._connection.close()
            raise
        return session, consumer

    def _serve_one(self, session: Session, request: Message, pauses: Pauses) -> bool:
        """Serve one request; return whether it was committed. Raises the provider's error when the connection can no
        longer be used.

        A failure of this request is rolled back on this connection, never by closing it: the provider would count no
        failed delivery then, and deliver the same request first for ever.
        """
        cast("JmsSession", session).failure = None  # an error of the work: the queue's policies decide what follows
        try:
            self._serve_as_unit(session, request)
        # This subclass of JMSException means that this unit alone failed; any other one means that the connection
        # cannot be trusted.
        except TransactionRolledBackException as error:
            self._has_failed(request, error, pauses)
            return False
        except JMSException:
            raise
        except Exception as error:
            session.rollback()
            self._has_failed(request, error.__cause__ if isinstance(error, _RequestFailedError) else error, pauses)
            return False
        pauses.reset()
        return True

    def _serve_as_unit(self, session: Session, request: Message) -> None:
        if self._database is None:
            self._answer(session, request, self._do(session, None, request))
            session.commit()
        else:
            with self._database.connect() as connection:
                self._serve_with(session, connection, request)

    def _has_failed(self, request: Message, error: BaseException | None, pauses: Pauses) -> None:
        """Log the failure, and wait if the reply queue may have been full: a commit does not say why it was rolled
        back.
        """
        _log.warning("request %s was not served: rolled back", request.jms_message_id, exc_info=error)
        # An unreachable database is no fault of the request. Its failures are waited out, as each attempt counts as a
        # delivery.
        if self._replies is not None and self._replies.is_trouble(error):
            # A first delivery means a new problem, whose pauses start short; a redelivery continues with the longer
            # ones.
            if not request.jms_redelivered:
                pauses.reset()
            self._await_database(pauses)
            return
        is_ours = isinstance(error, ResourceAllocationException | TransactionRolledBackException)
        # A temporary queue whose client has closed never gets room by waiting; a full named queue may.
        if is_ours and not isinstance(request.jms_reply_to, TemporaryQueue | TemporaryTopic):
            if not request.jms_redelivered:
                pauses.reset()
            pauses.wait()

    def _await_database(self, pauses: Pauses) -> None:
        """Wait until the database is reachable: each attempt without it would count as a delivery, and finally
        dead-letter the request.
        """
        assert self._replies is not None
        pauses.wait()
        while not self._stopped.is_set() and (why := self._replies.why_away()) is not None:
            _log.warning("the database is away, and no request is served: %s", why)
            pauses.wait()

    def _serve_with(self, session: Session, connection: Any, request: Message) -> None:
        if self._shared:
            # One commit covers messages and tables, so no moment between two commits needs a repair.
            with joined(session, connection):
                _begin_on_sqlite(connection, "BEGIN")
                self._answer(session, request, self._work_once(session, connection, request))
        else:
            # The database commits before the queue: after a crash in between, the request is redelivered and finds its
            # reply in the table (decision 0920).
            with connection.begin():
                _begin_on_sqlite(connection, "BEGIN IMMEDIATE")  # two servers check one after the other
                reply = self._work_once(session, connection, request)
            self._answer(session, request, reply)
            session.commit()

    def _do(self, session: Session, connection: Any, request: Message) -> Message | None:
        """Call the application. Its errors, and the request's, are distinguished from the connection's, even when they
        are JMS's.
        """
        try:
            # Reading the properties may fail for a malformed message, which is no failure of the application or of the
            # connection.
            unit = _unit(session, connection, request)
        except JMSException as error:
            raise _failed(session, error) from error
        try:
            return self._work(request, unit)
        except JMSException as error:
            raise _RequestFailedError(str(error)) from error

    def _work_once(self, session: Session, connection: Any, request: Message) -> Message | None:
        """Return the reply: of the work, in one transaction with it, or of the earlier work on the same request."""
        assert self._replies is not None
        # The correlation id stays the same when a client sends its request again; the message id does not.
        key = _key(request)
        known = self._replies.find(connection, key)
        if known is None:
            reply = self._do(session, connection, request)
            # In the transaction of the work. A second server with the same key fails here on the primary key, and its
            # work is rolled back.
            self._replies.keep(connection, key, "" if reply is None else write_message(envelope_of(reply)))
            return reply
        # An empty text means work without a reply; it is not done again either.
        if not known:
            return None
        context = cast("MessageContext", session)
        return message_of(read_message(known), context, correlation_id=key, reply_to=None, properties={})

    def _answer(self, session: Session, request: Message, reply: Message | None) -> None:
        # From here on only the reply or the commit can fail: the provider counts the rollback as a failed delivery.
        cast("JmsSession", session).failure = "its transaction was rolled back"
        target = request.jms_reply_to
        if reply is None or target is None:
            return
        reply.jms_correlation_id = _key(request)
        try:
            producer = session.create_producer(target)
            try:
                producer.send(reply)
            finally:
                producer.close()
        except JMSException as error:  # if the connection was lost, the rollback says so
            raise _failed(session, error) from error


class _RequestFailedError(Exception):
    """Reading, processing or answering this request raised the JMS exception that is the cause."""


def _failed(session: Session, error: JMSException) -> _RequestFailedError:
    """Make the rollback count as a failed delivery; return the exception to raise."""
    cast("JmsSession", session).failure = f"it could not be served: {error}"
    return _RequestFailedError(str(error))


def _begin_on_sqlite(connection: Any, statement: str) -> None:
    """Begin the transaction of a connection to SQLite now, with this statement; do nothing for other databases."""
    # Python's driver begins a transaction only at the first INSERT or similar. A savepoint before that would be a
    # transaction of its own, and would be committed without the rest.
    if connection.dialect.name == "sqlite" and not connection.connection.driver_connection.in_transaction:
        connection.exec_driver_sql(statement)


def _unit(session: Session, connection: Any, request: Message) -> Unit:
    # Any program may send requests; only a RecoverableRequestor sets the two properties.
    known = request.property_exists(CLIENT) and request.property_exists(NUMBER)
    return Unit(
        session=session,
        connection=connection,
        client=(request.get_string_property(CLIENT) or "") if known else "",
        number=request.get_long_property(NUMBER) if known else 0,
    )


def _key(request: Message) -> str:
    return request.jms_correlation_id or request.jms_message_id or ""


def _reply_table(database: Database) -> Any:
    from pyjms.recoverable.sql_logs import SqlReplies

    return SqlReplies(database)


class PresentConnection:
    """At most one connection, and none once `stopped` is set. `open` is for one thread, `close` for any."""

    def __init__(self, factory: ConnectionFactory, stopped: threading.Event) -> None:
        """`stopped`: call `close` after setting it."""
        self._factory = factory
        self._stopped = stopped
        self._guard = threading.Lock()
        self._connection: Connection | None = None

    def open(self) -> Connection:
        """Connect. Raises `IllegalStateException` when it was stopped, also meanwhile; and what `create_connection` does."""
        connection = self._factory.create_connection()
        with self._guard:
            # Stored before the flag is read: stop either finds the connection here, or has set the flag that is read
            # below.
            self._connection = connection
        if self._stopped.is_set():  # stopped in the meantime, so that close found nothing
            self.close()
            raise IllegalStateException("it was stopped, so it connects no more: make another one")
        return connection

    def close(self) -> None:
        """Close the connection, if there is one; uncommitted work is rolled back. May be repeated."""
        with self._guard:
            # Cleared under the lock and closed outside of it: a close may wait for the network, and two threads may
            # call this.
            connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except JMSException as error:
                _log.warning("a connection did not close well: %s", error)


_BACK_OFF = BackOff(first_ms=100, most_ms=10_000, jitter=0.5)


class Pauses:
    """Pauses from 0.1 to 10 seconds, doubled each time, with jitter, and ended by `stopped`."""

    def __init__(self, stopped: threading.Event) -> None:
        self._stopped = stopped
        # Own random numbers: the module's generator may have been seeded by the program.
        self._delays = Delays(_BACK_OFF, Random().random)  # noqa: S311
        self.has_been_well = False
        """Whether there was ever a connection."""

    def may_heal(self, error: JMSException) -> bool:
        """Whether a retry may help: an error before any success may be the caller's mistake, unless the broker is just
        not running yet.
        """
        # A broker that is not running yet raises ResourceAllocationException; programs are often started before it.
        return self.has_been_well or isinstance(error, ResourceAllocationException)

    def reset(self) -> None:
        """Make the next pause short, after a success."""
        self._delays.reset()

    def wait(self) -> None:
        """Wait, and double the next wait."""
        # The event ends the pause at once, so stop does not wait up to ten seconds.
        self._stopped.wait(self._delays.next_ms() / 1000)
