"""One physical connection of a failover connection: the engine of AMQP over a socket, from its header to its end.

The engine, and all that sessions and consumers know of their links, is guarded by one lock, the client connection's. A thread that wants
something changes the engine under the lock, leaves it, and writes what the engine has to say; the thread that reads handles the events
under the lock, and calls signals and listeners after it. So what a session knows never differs from what the engine knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.errors import AccessDeniedError, ProviderError, ResourceError
from pyjms.spi.interrupts import deferred
from pyjms.spi.words import said_by_system
from pyjms_provider.amqp.errors import Condition, LinkFault
from pyjms_provider.clients.amqp.refusals import login_refusal, text_of
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, NotSentError, lost_while_sent
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.io_thread import BasePhysicalConnection, IoThread
from pyjms_provider.clients.network.posted_sends import PostedSend, PostedSends
from pyjms_provider.protocols.amqp.connection import (
    Connection,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    ConnectionSettings,
    LoginEnded,
    is_refusal,
)
from pyjms_provider.protocols.amqp.link import (
    CreditChanged,
    DeliveryReceived,
    Drained,
    IncomingUpdated,
    LinkAttached,
    LinkDetached,
    LinkEnded,
    LinkRequested,
    OutgoingUpdated,
)
from pyjms_provider.protocols.amqp.sasl import SaslError
from pyjms_provider.protocols.amqp.session import SessionBegun, SessionEnded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyjms_provider.amqp.performatives import Error, Open
    from pyjms_provider.clients.amqp.options import AmqpSettings
    from pyjms_provider.clients.network.sockets import ClientSocket
    from pyjms_provider.protocols.amqp.connection import Event
    from pyjms_provider.protocols.amqp.sasl import ClientMechanism
    from pyjms_provider.protocols.amqp.session import Session

_log = logging.getLogger("pyjms.amqp")

_BATCH: Final = 256 * 1024
_GRACE_MS: Final = 40.0
"""How long a call that is interrupted still waits for its answer: it nearly always comes, and the call has been done."""
_AT_ONCE: Final = 2
_GATHERED: Final = 32 * 1024
"""Messages that no call waits for: how many are written at once after a pause, and how many bytes of later ones are gathered
(decision 0603)."""
CLOSE_MS: Final = 5_000
"""How long the close of a connection waits for the broker, at most."""


class Reply(Signal):
    """What one call waits for; it is set under the lock, and raised after it."""

    __slots__ = ("error", "is_interrupted", "is_there", "value")

    def __init__(self) -> None:
        super().__init__()
        self.is_there = False
        """Whether the wait is over: with a value, with an error, or by the end of the connection."""
        self.value: Any = None
        self.error: ProviderError | None = None
        self.is_interrupted = False


class PhysicalEvents(Protocol):
    """The callbacks of a physical connection: none may wait."""

    def is_only_waiter(self) -> bool:
        """Return whether no other thread waits for messages."""
        ...

    def on_redirect(self, endpoint: Endpoint) -> None:
        """The broker closes the connection, and names another one."""
        ...

    def on_ended(self, physical: PhysicalConnection, reason: str) -> None:
        """It has ended; called once, as the last event, on its I/O thread."""
        ...


class LinkContext(Protocol):
    """What the owner of a link hears; the lock is held."""

    def attached(self) -> None:
        """The broker has answered the attach."""
        ...

    def detached(self, error: Error | None) -> None:
        """The broker has detached the link."""
        ...

    def ended(self) -> None:
        """The broker has answered the detach of this side."""
        ...


class PhysicalConnection(BasePhysicalConnection):
    """One connection to one broker. Any thread."""

    def __init__(
        self,
        number: int,
        endpoint: Endpoint,
        settings: AmqpSettings,
        clock: Clock,
        lock: Lock,
        events: PhysicalEvents,
        *,
        connect: Callable[[], ClientSocket],
        mechanisms: Sequence[ClientMechanism],
    ) -> None:
        """Connect the socket. Raises `ResourceError`; `open` goes on.

        Args:
            number: grows by one with each connection of the failover connection.
            endpoint: the broker's address.
            settings: the options of the URL.
            clock: for the limits of waits.
            lock: guards the engine, and all that hears of it.
            events: its owner.
            connect: opens the socket.
            mechanisms: the ways to log in, the best one first.
        """
        super().__init__(number, endpoint, clock, IoThread(self, endpoint, connect, protocol="amqp", faults=()))
        self.remote: Open | None = None
        """The broker's open, once it has come."""
        self.redirect: Endpoint | None = None
        """The broker that the peer names in its place."""
        self.lock = lock
        self._settings = settings
        self._events = events
        self._hostname = settings.virtual_host or endpoint.host
        self.engine = Connection(
            ConnectionSettings(
                frame_size_max=settings.frame_bytes_max,
                channel_max=65_535,
                idle_time_out_ms=settings.idle_timeout_ms or None,
            ),
            mechanisms,
            hostname=self._hostname,
        )
        self._open: Open | None = None
        self._opened = Reply()
        self._leaving: Reply | None = None
        self._replies: set[Reply] = set()
        self.posted = PostedSends(lambda: settings.timeout_ms)
        """The messages on their way whose senders hear of the outcome later."""
        self._due: list[Callable[[], None]] = []
        """What is called when the lock is free again."""
        self._is_writing = False
        """Whether some thread is the writer, which goes on until nothing is left."""
        self._rest = b""
        """What the socket did not take, as it carries it."""
        self._received_ms = self._system_clock.monotonic_ms()
        self.has_rest = False
        """Whether the I/O thread is the writer."""
        self._in_a_row = 0
        """How many messages were posted since a thread waited, or since the last round of the I/O thread."""

    def open(self, open_: Open) -> Open:
        """Log in, open, and return the broker's open.

        Raises `AccessDeniedError`, `DuplicateClientIdError`, `ResourceError` for a refusal or no answer in time, `ConnectionLostInCallError`
        when the other side closed the connection.
        """
        self._open = open_
        limit_ms = self._settings.connect_timeout_ms
        self._io.start()
        with self.lock:
            self.engine.start()
        # The thread of the connection may have gone through all of this meanwhile, up to the broker's refusal, which the reply has.
        with suppress(ConnectionLostInCallError):
            self.flush()
        # Real time: the broker's answer does not depend on a virtual clock.
        self._opened.wait(limit_ms / 1000)
        with self.lock:
            opened = self._opened
            if not opened.is_there:
                opened.error = ResourceError(
                    f"{self.endpoint} accepted the connection and did not open it for {limit_ms} ms: does it speak AMQP 1.0 there?"
                )
        if opened.error is not None:
            self.close()
            raise opened.error
        if opened.is_interrupted:
            raise ConnectionLostInCallError(self.reason)
        remote: Open = opened.value
        return remote

    # ----------------------------------------------------------------------------------------------------------- calls

    def call(
        self,
        begin: Callable[[Reply], None],
        what: str,
        *,
        timeout_ms: int | None = None,
        may_last: bool = False,
        is_last: bool = False,
    ) -> Any:
        """Ask the broker for something, and wait for its answer; return the value that the reply gets.

        Args:
            begin: changes the engine under the lock, and sees that the reply is settled.
            what: is asked for, for the text of an error.
            timeout_ms: how long to wait; None: as the URL says.
            may_last: whether the answer may take long, as a full queue makes a sender wait; a deferred signal ends the wait then.
            is_last: whether the answer is only awaited so that it is done: after a silence it is not.

        Raises the broker's error, `UnansweredError`, `NotSentError`, `ConnectionLostInCallError`. On the thread that reads it returns None at
        once, as the answer could not come.
        """
        reply = Reply()
        self.begin(begin, reply)
        if self.is_own_thread():
            self.drop(reply)
            return None
        return self.await_reply(
            reply, what, timeout_ms=0 if is_last and self._is_silent else timeout_ms, may_last=may_last
        )

    def begin(self, begin: Callable[[Reply], None], reply: Reply) -> None:
        """Change the engine under the lock, and write what it says. The reply is failed if the connection ends. Raises `NotSentError`."""
        with self.lock:
            # The engine may have read the broker's close a moment before the connection ends.
            if self.has_ended or self.is_closing or self.engine.is_over:
                raise NotSentError(self.reason or "it was closed")
            self._replies.add(reply)
            begin(reply)
        if self._due:
            self.run_due()
        self.flush()

    def await_reply(self, reply: Reply, what: str, *, timeout_ms: int | None = None, may_last: bool = False) -> Any:
        """Wait for a reply that has begun; raises as `call`."""
        is_main = may_last and get_ident() == deferred.main
        limit_ms = self._settings.timeout_ms if timeout_ms is None else timeout_ms
        until_ms = self._clock.monotonic_ms() + limit_ms
        try:
            if is_main:
                deferred.wake = reply.set
            if not reply.is_there:
                self.wait(reply, until_ms)
            # The wake-up of a deferred signal raises the flag, too.
            if is_main and deferred.pending and not reply.is_there:
                self.wait(reply, min(until_ms, self._clock.monotonic_ms() + _GRACE_MS))
                # The broker makes the caller wait, perhaps for room in a
                # queue: the handler runs now, in the midst of the call.
                if not reply.is_there:
                    deferred.run_handlers()
        finally:
            if is_main:
                deferred.wake = None
            self._replies.discard(reply)
        if reply.error is not None:
            raise reply.error
        if reply.is_interrupted:
            raise ConnectionLostInCallError(self.reason)
        if not reply.is_there:
            raise self.unanswered(what, limit_ms)
        return reply.value

    def await_again(self, reply: Reply, what: str) -> Any:
        """Wait for a reply that has begun, perhaps once more, as an earlier wait has timed out; raises as `call`."""
        with self.lock:
            if not reply.is_there:
                if self.has_ended:
                    reply.is_interrupted = reply.is_there = True
                else:
                    self._replies.add(reply)
        return self.await_reply(reply, what)

    def drop(self, reply: Reply) -> None:
        """Wait for a reply no more."""
        self._replies.discard(reply)

    def settle(self, reply: Reply | None, value: Any = None, error: ProviderError | None = None) -> None:
        """End the wait for a reply; the lock is held."""
        if reply is None or reply.is_there:
            return
        reply.value, reply.error, reply.is_there = value, error, True
        self._due.append(reply.set)

    def posting(self, done: Callable[[ProviderError | None], None]) -> PostedSend:
        """Enter a message that is about to be sent, perhaps after a wait for credit; `done` hears of its outcome."""
        send = PostedSend(done, inf)
        self.posted.add(send)
        return send

    def expect_outcome(self, send: PostedSend) -> None:
        """Have the message's outcome come in time: it was sent."""
        send.sent_ms = self._system_clock.monotonic_ms()
        self._reader.keep_polling()  # the I/O thread looks when it is due

    def later(self, call: Callable[[], None]) -> None:
        """Have something called when the lock is free again, on the thread that reads. The lock is held."""
        self._due.append(call)

    def run_due(self) -> None:
        """Call what became due while this thread had the lock."""
        while self._due:
            with self.lock:
                due, self._due = self._due, []
            for call in due:
                call()

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        """Wait as the clock does, for a signal that this connection sets; see `SocketReader.wait`."""
        self._in_a_row = 0
        try:
            self.flush()
        except ConnectionLostInCallError:
            self._wakeup.set()  # the I/O thread finds out why
        return self._reader.wait(self._clock, signal, until_ms, self._events.is_only_waiter)

    # --------------------------------------------------------------------------------------------------------- writing

    def flush(self) -> None:
        """Write what the engine has to say, unless some thread is writing already. Raises `ConnectionLostInCallError`."""
        engine = self.engine
        if self._is_writing or not engine.out_size:
            return
        if not self._socket.is_shared and get_ident() != self._io.ident:
            self._wakeup.set()  # TLS: OpenSSL's state bears one thread only
            return
        with self.lock:
            if self._is_writing or not engine.out_size:
                return
            self._is_writing = True
            data = self._take()
        self._drain(data)

    def flush_soon(self) -> None:
        """Have it written within some milliseconds, together with what comes until then."""
        self._reader.keep_polling()

    def flush_posted(self) -> None:
        """Have a message written that no call waits for: at once after a pause, or when much has gathered, else with those that follow it.

        Raises `ConnectionLostInCallError`.
        """
        # Counted without a lock: a count that is lost only decides whether one message waits for others.
        self._in_a_row += 1
        if self._in_a_row <= _AT_ONCE or self.engine.out_size >= _GATHERED:
            self.flush()
        else:
            self._reader.keep_polling()

    def _take(self) -> bytes:
        """Return the next bytes for the socket; the lock is held."""
        data = self._rest
        if data:
            self._rest = b""
            return data
        data = self.engine.take(_BATCH)
        return self._socket.frame(data) if data and self._socket.is_framed else data

    def _drain(self, data: bytes) -> None:
        """Write until nothing is left, or the socket takes no more: then the I/O thread goes on. The caller is the writer."""
        try:
            while data:
                written = self._socket.write(data)
                with self.lock:
                    if written < len(data):
                        self._rest = data[written:] + self._rest
                        self.has_rest = True
                        break
                    data = self._take()
                    if not data:
                        self._is_writing = self.has_rest = False
        except OSError as error:
            # The I/O thread finds the error of the socket by itself, and ends the connection because of it.
            self._wakeup.set()
            raise ConnectionLostInCallError(self.reason or said_by_system(error)) from error
        if data and get_ident() != self._io.ident:
            self._wakeup.set()

    # ------------------------------------------------------------------------------------------ the work of the I/O thread

    def read(self) -> None:
        """Handle what has come."""
        socket = self._socket
        while (data := socket.read()) is not None:
            if not data:
                raise ConnectionLostInCallError(self._farewell or "the broker closed the connection")
            self._received_ms = self._system_clock.monotonic_ms()
            self._is_silent = False
            with self.lock:
                for event in self.engine.receive(data):
                    self._handle(event)
                due, self._due = self._due, []
            for call in due:
                call()
            if not socket.has_more:
                break
        answers = b"".join(socket.answers())
        if answers:
            with self.lock:
                # Behind the rest of a frame of the WebSocket; this is the I/O thread, which writes it in this round.
                self._rest += answers
                if not self._is_writing:
                    self._is_writing = self.has_rest = True
        if self.engine.out_size:
            self.flush()
        if self.engine.is_over or self._farewell:
            raise ConnectionLostInCallError(self._farewell or "the broker closed the connection")

    def _take_locked(self) -> bytes:
        with self.lock:
            return self._take()

    def write(self) -> None:
        """Write what the socket did not take, and what waits."""
        self._in_a_row = 0
        if self.has_rest:
            self._drain(self._take_locked())
        else:
            self.flush()

    def wait_ms(self) -> float | None:
        """Return for how many milliseconds no sign of life is due."""
        now_ms = self._system_clock.monotonic_ms()
        waits = []
        with self.lock:
            due_ms = self.engine.next_tick_ms(now_ms)
        if due_ms is not None:
            waits.append(due_ms - now_ms)
        if (answer_ms := self.posted.due_ms()) is not None:
            waits.append(answer_ms - now_ms)
        if self._settings.idle_timeout_ms:
            waits.append(self._received_ms + self._settings.idle_timeout_ms - now_ms + 1)
        return max(0.0, min(waits)) if waits else None

    def keep_time(self) -> None:
        """Send a sign of life if one is due. Raises `ConnectionLostInCallError` if the broker is silent."""
        now_ms = self._system_clock.monotonic_ms()
        idle_ms = self._settings.idle_timeout_ms
        if idle_ms and now_ms - self._received_ms > idle_ms:
            raise ConnectionLostInCallError(f"the broker was silent for {idle_ms} ms, in spite of its promise")
        with self.lock:
            self.engine.tick(now_ms)
        self.posted.expire(now_ms)
        self.flush()

    def stop_writing(self) -> None:
        """Take nothing more."""

    def on_io_ended(self, reason: str) -> None:
        """Fail all calls that wait, and tell the owner."""
        with self.lock:
            self.reason = self._farewell or reason or self.reason or "it was closed"
            # After the reason: a thread that sees the flag reads the reason without the lock.
            self.has_ended = True
            interrupted = [reply for reply in (self._opened, *self._replies) if not reply.is_there]
            self._replies.clear()
            for reply in interrupted:
                reply.is_interrupted = reply.is_there = True
        for reply in interrupted:
            reply.set()
        self.posted.fail(lambda: lost_while_sent(ConnectionLostInCallError(self.reason)))
        self._events.on_ended(self, self.reason)

    # ---------------------------------------------------------------------------------------- events, with the lock held

    def _handle(self, event: Event) -> None:
        match event:
            case OutgoingUpdated():
                for delivery in event.deliveries:
                    if delivery.context is not None:
                        delivery.context(delivery, event.state)
            case DeliveryReceived():
                event.delivery.link.context.arrived(event.delivery)
            case CreditChanged():
                event.link.context.credit_changed()
            case Drained():
                event.link.context.drained()
            case IncomingUpdated():
                for got in event.deliveries:
                    if got.context is not None:
                        got.context(got)
            case LinkAttached():
                event.link.context.attached()
            case LinkDetached():
                event.link.context.detached(event.error)
                if event.failure is None:
                    event.link.detach(is_closed=event.is_closed)
            case LinkEnded():
                event.link.context.ended(event.error)
            case SessionBegun():
                self.settle(event.session.context, event.session)
            case SessionEnded():
                self._session_ended(event)
            case LoginEnded():
                self._send_open()
            case ConnectionOpened():
                self._open_came(event.open)
            case ConnectionClosed():
                self._closed_by_broker(event.error)
            case ConnectionFailed():
                error = event.error
                self._farewell = error.description
                kind = AccessDeniedError if isinstance(error, SaslError) else ResourceError
                self.settle(self._opened, error=kind(f"{self.endpoint}: {error.description}"))
            case LinkRequested():
                event.link.refuse(LinkFault(Condition.NOT_ALLOWED, "a client of JMS asks for all its links itself"))

    def _send_open(self) -> None:
        assert self._open is not None
        self.engine.open(self._open)

    def _open_came(self, opened: Open) -> None:
        self.remote = opened
        if (opened.properties or {}).get("product") == "pyjms":
            self._socket.is_hasty = False  # our broker waits for no segment to be acknowledged
        # A broker that cannot take the connection says so in a close after its open.
        if not is_refusal(opened):
            self.settle(self._opened, opened)

    def _closed_by_broker(self, error: Error | None) -> None:
        self._farewell = text_of(error) if error is not None else "the broker closed the connection"
        if error is not None and error.condition == Condition.CONNECTION_REDIRECT:
            self.redirect = endpoint_in(error.info or {}, self.endpoint.port)
            if self.redirect is not None and self._opened.is_there:
                self._events.on_redirect(self.redirect)
        self.settle(self._opened, error=login_refusal(error))
        self.settle(self._leaving)

    def _session_ended(self, event: SessionEnded) -> None:
        if event.is_answer:
            self.settle(event.session.context)
            return
        # Its links are gone, and with them messages in processing: as after a lost connection, all is made anew.
        self._farewell = f"the broker ended a session: {text_of(event.error)}"

    def begin_session(self, properties: Mapping[str, Any] | None = None) -> Session:
        """Begin a session of AMQP; `properties` are those of the begin. Raises as `call`."""

        def ask(reply: Reply) -> None:
            session = self.engine.begin(properties)
            session.context = reply

        session: Session = self.call(ask, "the begin of a session")
        return session

    def end_session(self, session: Session) -> None:
        """End a session of AMQP, and wait until the broker has heard all that was told on it. Raises as `call`."""
        links: list[Any] = []

        def ask(reply: Reply) -> None:
            links.extend(link.context for link in session.links)
            session.context = reply
            session.end()
            if not self.engine.is_open:
                self.settle(reply)

        try:
            self.call(ask, "the end of a session", is_last=True)
        finally:
            # Another thread may wait for an answer about a link, which is not read behind the end.
            with self.lock:
                for link in links:
                    link.session_ended()
            self.run_due()

    def take_leave(self, timeout_ms: int) -> None:
        """Close the connection in order, and wait for the broker's answer. Raises as `call`."""

        def ask(reply: Reply) -> None:
            self._leaving = reply
            self.engine.close()

        self.call(ask, "the close of the connection", timeout_ms=timeout_ms, is_last=True)

    # --------------------------------------------------------------------------------------------------------- the end

    def forget(self, reason: str) -> None:
        """Mark the connection as ended, in a child of this process, and write nothing: the socket is the parent's."""
        self.reason, self.has_ended, self.is_closing, self._is_writing = reason, True, True, True
        self._io.forget()


def endpoint_in(named: Any, port: int) -> Endpoint | None:
    """Return the address of a broker that another one names, as redirects and lists for failover do; None: there is none."""
    host = named.get("network-host") or named.get("hostname")
    if not isinstance(host, str) or not host:
        return None
    said = named.get("port")
    return Endpoint(str(host), int(said) if isinstance(said, int) and 0 < said < 65_536 else port)
