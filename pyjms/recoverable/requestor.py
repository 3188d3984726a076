"""The client's side: one request at a time, which survives any crash."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyjms.api.base import Closeable
from pyjms.api.producer import DeliveryMode
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import IllegalArgumentException, JMSException
from pyjms.messages.destinations import address_of
from pyjms.recoverable.client_log import (
    ClientLog,
    ClientLogException,
    LogEntry,
    RecoveryNeededException,
    State,
    judge,
)
from pyjms.recoverable.registration import registration_of
from pyjms.recoverable.stored_message import envelope_of, message_of, read_message, write_message
from pyjms.types import Long

if TYPE_CHECKING:
    from pyjms.api.connection import Connection
    from pyjms.api.message import Message
    from pyjms.messages.base import MessageContext
    from pyjms.recoverable.client_log import ClientLog
    from pyjms.runtime.factory import ConnectionFactory


CLIENT = "pyjms_client"
NUMBER = "pyjms_request_number"
"""Properties of each request: the client, and the number that makes its processing idempotent (lecture, "Idempotency")."""

_log = logging.getLogger("pyjms.recoverable")


class Device(Protocol):
    """A physical device whose state changes with each operation, such as a printer that counts its pages."""

    def state(self) -> str:
        """Return a text that differs after each operation."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply, as the application's handler gets it."""

    message: Message
    number: int
    """The number of the request, from 1. A handler that does nothing for a number it has seen is idempotent."""
    repeated: bool
    """Whether the handler may have been called for it before, in a run that died."""
    notes: Mapping[str, Any]
    """The notes that `RecoverableRequestor.remember` stored for this request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The result of `recover`."""

    state: State
    number: int
    """The number of the request; 0: there was none."""
    reply: Message | None
    """The reply, if it has been processed now."""


Handler = Callable[[Reply], object]


class RecoverableRequestor(Closeable):
    """Sends requests to a queue and processes each reply once, despite crashes of client, server and broker. For one
    thread.

    factory: of a provider with transactions. client: the name of this persistent session, which one program at a time
    may use. queue: the name of the queue of requests. log: the client's log, or a database URL for it; None:
    ``sqlite:///CLIENT-log.db`` in the current directory (needs ``pip install 'pyjms-messaging[store]'``). device: for
    handlers that cannot be repeated; its state tells whether they ran. replies: the name of this client's own queue of
    replies; None: ``pyjms.replies.CLIENT``. patience_ms: how long to wait for the register, which a dead predecessor's
    connection may still hold.

    Nothing is opened before the first call. After a `JMSException` from any call, call `recover`.
    """

    def __init__(
        self,
        factory: ConnectionFactory,
        client: str,
        queue: str,
        *,
        log: ClientLog | str | None = None,
        device: Device | None = None,
        replies: str | None = None,
        patience_ms: int = 60_000,
    ) -> None:
        # The name becomes part of two queues' names, and the key of a column of 200 characters.
        if not client or not client.isprintable() or len(client) > 200:
            raise IllegalArgumentException("a client's name has 1 to 200 printable characters")
        self._factory = factory
        self._client = client
        self._queue = queue
        self._client_log = _open_log(f"sqlite:///{client}-log.db" if log is None else log)
        # Only a log that was opened here is closed here: an application may share its own between clients.
        self._owns_log = not hasattr(log, "read")
        self._device = device
        self._replies = replies or f"pyjms.replies.{client}"
        self._patience_ms = patience_ms
        self._link: _Link | None = None
        self._entry = LogEntry(client=client, session="")
        self._is_settled = False
        """Whether state D is known to hold."""

    @property
    def number(self) -> int:
        """The number of the last request."""
        return self._entry.number

    def request(self, message: Message, handle: Handler | None = None, timeout_ms: int = 0) -> Message | None:
        """`submit` and then `complete`."""
        self.submit(message)
        return self.complete(handle, timeout_ms)

    def submit(self, message: Message, *, priority: int = 4, time_to_live: int = 0) -> int:
        """Enqueue a request in a transaction of its own; return its number. JMSCorrelationID and JMSReplyTo are set here.

        time_to_live in milliseconds; it starts over if the request is sent again. Raises `RecoveryNeededException` while an
        earlier request is open or in doubt; `JMSException` when the outcome is not known.
        """
        link = self._connected()
        if not self._is_settled:
            raise RecoveryNeededException(
                f"request {self._entry.number} of client {self._client!r} is open or in doubt: complete() or recover() comes first"
            )
        # The register has the number, too: after a loss of the log, numbers must not start again, as servers and
        # handlers know them.
        number = max(self._entry.number, link.registration.register.request_number) + 1
        content = {"message": write_message(envelope_of(message)), "priority": priority, "time_to_live": time_to_live}
        entry = LogEntry(
            client=self._client,
            session=self._entry.session,
            registered=True,
            number=number,
            request_id=str(uuid.uuid4()),
            request=json.dumps(content),
        )
        self._is_settled = False
        # The log first, then the commit at the broker: after a crash in between, recover finds an id that the register
        # lacks (state A), and sends again from the log.
        self._write(entry)
        self._enqueue(link)
        return number

    def complete(self, handle: Handler | None = None, timeout_ms: int = 0) -> Message | None:
        """Dequeue the reply, process it and commit. Return the reply, or None if it did not arrive in time.

        timeout_ms: 0 waits for ever. An error of `handle` rolls back and is raised; the reply stays for `recover`.
        """
        link = self._connected()
        if self._is_settled:
            raise RecoveryNeededException("there is no open request: submit() one first")
        # Otherwise a request that never reached the broker would be waited for endlessly.
        self._must_be_enqueued(link)
        with _Guarded(self):
            reply = link.receive_reply(self._number_id(), timeout_ms)
        return None if reply is None else self._process(link, reply, handle)

    def recover(self, handle: Handler | None = None, timeout_ms: int = 0) -> Recovery:
        """Determine the state of the last request, and act accordingly. Call it first in each run.

        State A: the request is sent again from the log, then as B. B: wait for the reply. C: process the reply again; with a device,
        only if its state is what it was before. D: nothing. timeout_ms: how long to wait for the reply in A and B; 0: for ever.
        Raises `ClientLogException`, `SessionTakenException`, `JMSException`.
        """
        # A new connection: register and reply that an earlier transaction of this process holds are requeued first.
        self._disconnect()
        link = self._connected()
        with _Guarded(self):
            state, reply = self._judge(link)
        if state is State.D:
            self._is_settled = True
            return Recovery(state=state, number=self._entry.number, reply=None)
        if state is State.A:
            self._enqueue(link)
        if reply is None:
            with _Guarded(self):
                reply = link.receive_reply(self._number_id(), timeout_ms)
        processed = None if reply is None else self._process(link, reply, handle)
        return Recovery(state=state, number=self._number(link), reply=processed)

    def remember(self, **notes: Any) -> None:
        """Store `notes` in the log with the open request: what was read, what is about to be done. Values are JSON's."""
        known = json.loads(self._entry.notes or "{}")
        self._write(replace(self._entry, notes=json.dumps(known | notes)))

    def close(self) -> None:
        """Close connection and log; an open request stays for `recover`. May be repeated."""
        self._disconnect()
        if self._owns_log:
            self._client_log.close()

    # Steps

    def _connected(self) -> _Link:
        if self._link is None:
            link = _Link(self._factory, self._client, self._replies, self._queue, self._patience_ms)
            with ExitStack() as undo:
                # Closed unless all succeeds: an open connection would hold the register in its transaction.
                undo.callback(link.close)
                self._entry = link.registration.enter(self._client_log)
                undo.pop_all()
            self._link = link
            # Only a client without any request is settled without recover; if the log was lost, the register shows that
            # there was a request.
            self._is_settled = not self._entry.request_id and not link.registration.register.request_id
        return self._link

    def _judge(self, link: _Link) -> tuple[State, Message | None]:
        """Return the state and, in C, the reply, received in the session's transaction."""
        register = link.registration.register
        state = judge(self._entry, register, reply_is_there=False)
        if state is not State.B:
            return state, None
        # B and C differ only in whether the reply has arrived, so the queue is checked last and without waiting.
        reply = link.receive_reply(self._number_id(), None)
        return judge(self._entry, register, reply_is_there=reply is not None), reply

    def _must_be_enqueued(self, link: _Link) -> None:
        if judge(self._entry, link.registration.register, reply_is_there=False) is State.A:
            raise RecoveryNeededException(f"request {self._entry.number} was not sent for sure: call recover()")

    def _enqueue(self, link: _Link) -> None:
        """Send the logged request and commit (transaction 1)."""
        entry = self._entry
        with _Guarded(self):
            # Request and register are sent in one transaction, so that the register's id always is that of a committed
            # request.
            link.send_request(entry)
            register = link.registration.take()
            link.registration.put(replace(register, request_number=entry.number, request_id=entry.request_id))
            link.commit()

    def _process(self, link: _Link, reply: Message, handle: Handler | None) -> Message:
        """Pass the reply to the application and commit (transaction 3)."""
        number = self._number(link)
        with _Guarded(self):  # its transaction is rolled back, which requeues the reply
            if handle is not None:
                self._handle(handle, reply, number)
            reply_id = str(uuid.uuid4())
            # As with the request, the log has the id before the register can: a log that has another id tells that the
            # commit failed.
            self._write(replace(self._entry, reply_id=reply_id))
            register = link.registration.take()
            link.registration.put(replace(register, reply_number=number, reply_id=reply_id))
            link.commit()
        self._is_settled = True
        return reply

    def _handle(self, handle: Handler, reply: Message, number: int) -> None:
        entry, device = self._entry, self._device
        if device is not None:
            state = device.state()
            # The state was logged before the last attempt: if it has changed since, the handler did its operation, and
            # the crash was between it and the commit.
            if entry.attempted and entry.device_state != state:
                _log.info(
                    "reply %d of client %s was processed before: the device's state has changed", number, self._client
                )
                return
            # Written before the handler is called: a crash within it must leave the state to compare with.
            self._write(replace(entry, attempted=True, device_state=state))
        elif not entry.attempted:
            self._write(replace(entry, attempted=True))
        # With a device it is certain that the handler did not run.
        repeated = entry.attempted and device is None
        handle(Reply(message=reply, number=number, repeated=repeated, notes=json.loads(entry.notes or "{}")))

    def _write(self, entry: LogEntry) -> None:
        # Set after the log: if the write fails, this process must not know more than its successor would.
        self._client_log.write(entry)
        self._entry = entry

    def _number_id(self) -> str:
        """Return the id of the open request: the log's, or the register's when the log was lost."""
        link = self._connected()
        return self._entry.request_id or link.registration.register.request_id

    def _number(self, link: _Link) -> int:
        return self._entry.number or link.registration.register.request_number

    def _disconnect(self) -> None:
        # Cleared before the close, which may be interrupted: the next call connects again in any case.
        link, self._link = self._link, None
        self._is_settled = False
        if link is not None:
            link.close()


class _Guarded:
    """Closes the connection after any error: its transaction is rolled back."""

    def __init__(self, requestor: RecoverableRequestor) -> None:
        self._requestor = requestor

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            # After any exception the transaction may be half done. Closing the connection rolls it back, even if the
            # connection itself has failed.
            self._requestor._disconnect()  # noqa: SLF001 - a part of it


class _Link:
    """One connection with its session, producers and consumers."""

    def __init__(self, factory: ConnectionFactory, client: str, replies: str, queue: str, patience_ms: int) -> None:
        self._connection: Connection = factory.create_connection()
        with ExitStack() as undo:
            undo.callback(self._connection.close)
            self._session = self._connection.create_session(True, AcknowledgeMode.AUTO_ACKNOWLEDGE)
            self._client = client
            self._reply_queue = self._session.create_queue(replies)
            self._replies = self._session.create_consumer(self._reply_queue)
            self._requests = self._session.create_producer(self._session.create_queue(queue))
            self.registration = registration_of(self._session, client, patience_ms)
            self._connection.start()
            undo.pop_all()

    def send_request(self, entry: LogEntry) -> None:
        """Send the logged request in the session's transaction. Raises `ClientLogException` when it cannot be read."""
        try:
            content = json.loads(entry.request)
            envelope = read_message(content["message"])
            options = {name: int(content[name]) for name in ("priority", "time_to_live")}
        # The log is a file of the user's: its content is not trusted.
        except (ValueError, KeyError, TypeError) as error:
            raise ClientLogException(
                f"request {entry.number} in the log of {self._client!r} is damaged: {error!r}"
            ) from error
        message = message_of(
            envelope,
            cast("MessageContext", self._session),
            correlation_id=entry.request_id,
            reply_to=address_of(self._reply_queue),
            properties={CLIENT: self._client, NUMBER: Long(entry.number)},
        )
        self._requests.send(message, delivery_mode=DeliveryMode.PERSISTENT, **options)

    def receive_reply(self, request_id: str, timeout_ms: int | None) -> Message | None:
        """Receive the reply to `request_id` in the session's transaction; None: do not wait. Others are dropped."""
        while True:
            reply = self._replies.receive_no_wait() if timeout_ms is None else self._replies.receive(timeout_ms)
            # A request that was sent again may have two replies, and an abandoned one may have left its own.
            if reply is None or reply.jms_correlation_id == request_id:
                return reply
            _log.warning(
                "client %s drops a reply to %s, which it does not wait for", self._client, reply.jms_correlation_id
            )
            self._session.commit()  # otherwise it would be redelivered again and again

    def commit(self) -> None:
        self.registration.commit()

    def close(self) -> None:
        try:
            self._connection.close()
        except JMSException as error:
            # Not raised: the call that closes has its own outcome, and the broker rolls back a lost connection's work.
            _log.warning("the connection of client %s did not close well: %s", self._client, error)


def _open_log(log: ClientLog | str) -> ClientLog:
    if not isinstance(log, str):
        return log
    try:
        from pyjms.recoverable.sql_logs import SqlClientLog
    except ImportError as error:
        raise ClientLogException(
            f"a client's log in a database needs SQLAlchemy ({error}); install it with: pip install 'pyjms-messaging[store]'"
        ) from error
    return SqlClientLog(log)
