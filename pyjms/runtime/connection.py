"""A connection: credentials, client identifier, start, stop, close, and the exception listener (JMS 1.1 §4.3)."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache, partial
from itertools import chain, count
from threading import RLock
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from pyjms.api.base import Enumeration
from pyjms.api.connection import (
    Connection,
    ConnectionConsumer,
    ConnectionMetaData,
    ExceptionListenerLike,
    ServerSessionPool,
)
from pyjms.api.destination import Destination, Topic
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import IllegalStateException, InvalidClientIDException, JMSException
from pyjms.messages.destinations import JmsQueue, JmsTopic
from pyjms.runtime.checks import (
    check_durable,
    check_implementation,
    check_shared,
    check_shared_durable,
    exception_callback,
    session_mode,
    subscribe_request,
)
from pyjms.runtime.error_mapping import ErrorCollector, close_made, mapped_errors, to_jms
from pyjms.runtime.machines import Event, State, next_state
from pyjms.runtime.server_sessions import JmsConnectionConsumer
from pyjms.runtime.session import JmsSession
from pyjms.runtime.temporaries import Temporaries
from pyjms.runtime.waiting import CloseOnce, EventThread
from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock
from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.spi.errors import CapabilityError, ConnectionLostError, ProgramEndsError, ProviderError
from pyjms.spi.interrupts import REASON, Poisoned, close_later, defers_signals
from pyjms.spi.provider import ConnectRequest, Provider, ProviderConnection, ProviderInfo
from pyjms.spi.sessions import PersistentSessions


class JmsConnectionMetaData(ConnectionMetaData):
    """Names and versions of the API and of the provider."""

    __slots__ = ("_info", "_major", "_minor")

    def __init__(self, info: ProviderInfo) -> None:
        self._info = info
        # A provider's version may have letters, as in 2.0rc1: a program that asks for a number gets
        # 0 there, not an error.
        digits = [int(part) if part.isdecimal() else 0 for part in info.version.split(".")[:2]]
        self._major, self._minor = (*digits, 0, 0)[:2]

    @property
    def jms_version(self) -> str:
        return "2.0"

    @property
    def jms_major_version(self) -> int:
        return 2

    @property
    def jms_minor_version(self) -> int:
        return 0

    @property
    def jms_provider_name(self) -> str:
        return self._info.name

    @property
    def provider_version(self) -> str:
        return self._info.version

    @property
    def provider_major_version(self) -> int:
        return self._major

    @property
    def provider_minor_version(self) -> int:
        return self._minor

    @property
    def jmsx_property_names(self) -> Enumeration[str]:
        return Enumeration(self._info.jmsx_property_names)


_log = logging.getLogger("pyjms.runtime")

_Session = TypeVar("_Session", bound=JmsSession)

_Part: TypeAlias = JmsSession | JmsConnectionConsumer

_KEPT_MAX, _KEPT_LENGTH_MAX = 1024, 256
"""The most destinations of received messages that a connection caches, and the greatest length of their names: senders choose them."""


class JmsConnection(Connection):
    """The connection of the common interfaces; the domains derive from it. Safe to use from any thread."""

    session_type: type[JmsSession] = JmsSession

    def __init__(
        self,
        provider: Provider,
        request: ConnectRequest,
        trusted: frozenset[str],
        max_unacknowledged: int = 0,
        consumer_priority: int = 0,
    ) -> None:
        """Connect. Raises the errors of `Provider.connect`, mapped."""
        self.clock: Clock = request.clock
        self.trusted = trusted
        self.max_unacknowledged = max_unacknowledged
        self.consumer_priority = consumer_priority
        self._lock = RLock()
        self._state = State.STOPPED
        self._used = False
        self._client_id = request.client_id
        # Linked lists with a look-up: of thousands each one is removed as quickly, and the last one is found at once.
        self._sessions: OrderedDict[JmsSession, None] = OrderedDict()
        self._consumers: OrderedDict[JmsConnectionConsumer, None] = OrderedDict()
        self._numbers = count(1)
        self._exception_listener: ExceptionListenerLike | None = None
        self.lost: ConnectionLostError | None = None
        self._closing = CloseOnce()
        self._destinations: dict[Address, Destination] = {}
        self._recent: tuple[Address, Destination] | None = None
        self._events = EventThread(f"pyjms-exceptions-{request.url.host}")
        with mapped_errors:
            self._provider: ProviderConnection = provider.connect(request, self)
        self.connection_id: ConnectionId = self._provider.connection_id
        self.capabilities: Capability = self._provider.capabilities
        self.temporaries = Temporaries(self._provider)

    # Settings

    @property
    def client_id(self) -> str | None:
        self._check_open()
        return self._client_id

    @client_id.setter
    @defers_signals()
    def client_id(self, client_id: str) -> None:
        with self._lock:
            self._check_open()
            if self._client_id is not None:
                raise IllegalStateException(f"the client id is {self._client_id!r} already; it cannot be changed")
            if self._used:
                # JMS 1.1 §4.3.2: set it before any other action on the connection
                raise IllegalStateException("set client_id right after creating the connection, before using it")
            if not isinstance(client_id, str) or not client_id:
                raise InvalidClientIDException(f"{client_id!r} is no client id: use a non-empty string")
            self._client_id = client_id  # so that no other thread sets one meanwhile
        # The lock is released, as the provider may wait for its broker.
        try:
            with mapped_errors:
                self._provider.set_client_id(client_id)
        # A client id that was refused, as another connection has it, allows another attempt.
        except Exception:
            self._client_id = None
            raise

    @property
    def configured_client_id(self) -> str | None:
        """The client id, without a check; for sessions."""
        return self._client_id

    @property
    def meta_data(self) -> ConnectionMetaData:
        self._check_open()
        return JmsConnectionMetaData(self._provider.info)

    @property
    def exception_listener(self) -> ExceptionListenerLike | None:
        self._check_open()
        return self._exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListenerLike | None) -> None:
        self._use()
        # The call is made for its checks: an object that cannot be called raises here, not on the
        # thread that reports a problem.
        if listener is not None:
            exception_callback(listener)
        self._exception_listener = listener

    # Sessions

    def create_session(self, *arguments: Any, **named: Any) -> JmsSession:
        return self.open_session(self.session_type, *arguments, **named)

    @defers_signals(undo=close_made)
    def open_session(self, kind: type[_Session], *arguments: Any, **named: Any) -> _Session:
        """Open a session of the class `kind`, started if the connection is; the other arguments are those of `create_session`."""
        self._use()
        mode = session_mode(*arguments, **named)
        if mode is AcknowledgeMode.SESSION_TRANSACTED:
            self.require(Capability.TRANSACTIONS, "transacted sessions")
        with mapped_errors:
            provider_session = self._provider.open_session(transacted=mode is AcknowledgeMode.SESSION_TRANSACTED)
        try:
            session = kind(self, mode, provider_session)
        except Exception:
            with suppress(ProviderError):  # the original error says more
                provider_session.close()
            raise
        # The session is in the list before it begins to deliver: a stop between the two finds it.
        self._add_part(session, self._sessions)
        session.begin_delivery()
        return session

    def create_connection_consumer(
        self,
        destination: Destination,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        return self._connection_consumer(destination, message_selector, session_pool, max_messages)

    def create_durable_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        self._use()
        check_durable(self, topic, subscription_name, "a durable connection consumer")
        return self._connection_consumer(
            topic, message_selector, session_pool, max_messages, durable_name=subscription_name
        )

    def create_shared_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        self._use()
        check_shared(self, topic, subscription_name)
        return self._connection_consumer(
            topic, message_selector, session_pool, max_messages, shared_name=subscription_name
        )

    def create_shared_durable_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        self._use()
        check_shared_durable(self, topic, subscription_name)
        return self._connection_consumer(
            topic, message_selector, session_pool, max_messages, durable_name=subscription_name, is_shared=True
        )

    @defers_signals(undo=close_made)
    def _connection_consumer(
        self,
        destination: Destination,
        selector: str | None,
        pool: ServerSessionPool,
        max_messages: int,
        **terms: Any,
    ) -> ConnectionConsumer:
        """Make a connection consumer; `terms` are the keyword arguments of `subscribe_request`."""
        self._use()
        self.require(Capability.CONNECTION_CONSUMERS, "connection consumers")
        if not isinstance(pool, ServerSessionPool):
            raise JMSException(f"a connection consumer needs a ServerSessionPool, not {_described(pool)}")
        check_implementation(pool)
        if isinstance(max_messages, bool) or not isinstance(max_messages, int) or max_messages < 1:
            raise JMSException(f"{max_messages!r} is no number of messages a server session can load: use 1 or more")
        request = subscribe_request(self, destination, selector, **terms)
        with mapped_errors:
            provider_session = self._provider.open_session(transacted=False)
            consumer = JmsConnectionConsumer(self, provider_session, pool, max_messages)
            try:
                consumer.subscribe(request)
                self._add_part(consumer, self._consumers)
                consumer.begin_delivery()
            except Exception:
                with suppress(JMSException):  # the original error says more
                    consumer.shut_down()
                raise
        return consumer

    def _add_part(self, part: _Part, parts: OrderedDict[Any, None]) -> None:
        """Add a new part to the others of its kind. Raises IllegalStateException, and ends it, if the connection was closed meanwhile."""
        with self._lock:
            is_late = self._state is State.CLOSED
            if not is_late:
                parts[part] = None
        # The shutdown runs without the lock: it may wait for a listener that needs the lock to continue.
        if is_late:
            part.shut_down()
            self._check_open()

    # Start, stop, close

    @defers_signals()
    def start(self) -> None:
        self._use()
        with self._lock:
            was_started = self.is_started
            self._state = next_state(self._state, Event.START, "connection")
            sessions, consumers = list(self._sessions), list(self._consumers)
        # The provider is started first: if it refuses, no session has let a message through.
        try:
            self._tell_provider()
        except JMSException:
            if not was_started:
                with suppress(IllegalStateException):  # closed meanwhile
                    self._halt()  # a call that fails must have no effect, even on sessions made meanwhile
            raise
        for session in sessions:
            session.begin_delivery()
        for consumer in consumers:
            consumer.begin_delivery()
        note_start(self)

    @defers_signals()
    def stop(self) -> None:
        self._use()
        self._refuse_in_listener("stop")
        # The gates are shut before the provider is told: messages that it still delivers meanwhile do not pass them.
        sessions = self._halt()
        try:
            self._tell_provider()
        # The wait is needed even if the call of the provider failed: no listener runs any more when stop
        # has returned (§4.3.4).
        finally:
            for session in sessions:
                session.wait_for_listeners()

    def _tell_provider(self) -> None:
        """Start or stop the provider's delivery, according to the connection's state."""
        with mapped_errors:
            while True:
                is_started = self.is_started
                if is_started:
                    self._provider.start()
                else:
                    self._provider.stop()
                # Another thread may have changed the state during the call: its own call may have been
                # earlier, and this one would win.
                if is_started is self.is_started:
                    return

    def _halt(self) -> list[JmsSession]:
        """Stop letting messages through; return the sessions. Raises IllegalStateException when the connection is closed."""
        with self._lock:
            self._state = next_state(self._state, Event.STOP, "connection")
            sessions, consumers = list(self._sessions), list(self._consumers)
        # Connection consumers first, as they load messages into the sessions.
        for consumer in consumers:
            consumer.pause_delivery()
        for session in sessions:
            session.pause_delivery()
        return sessions

    @defers_signals()
    def close(self) -> None:
        self._refuse_in_listener("close")
        with self._lock:
            self._state = next_state(self._state, Event.CLOSE, "connection")
        self._closing.do(self._shut_down)

    def _shut_down(self) -> None:
        errors = ErrorCollector()
        self._complete_sends()
        self._end_delivery()
        seen: set[_Part] = set()
        while (part := self._next_to_close(seen)) is not None:
            seen.add(part)
            with errors:
                part.shut_down()
        self._events.end()
        with errors, mapped_errors:
            self._provider.close()
        errors.raise_first()

    def _complete_sends(self) -> None:
        """Wait until the asynchronous sends of all sessions are complete (JMS 2.0 §7.3)."""
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.complete_sends()

    def _end_delivery(self) -> None:
        """Stop letting messages through, and wait for all listeners: until then every session serves them (§4.3.5)."""
        with self._lock:
            sessions, consumers = list(self._sessions), list(self._consumers)
        for consumer in consumers:
            consumer.pause_delivery()
        # All gates are shut before the first wait: a listener may run for long, and the other
        # sessions must not start one.
        for session in sessions:
            session.end_delivery()
        for session in sessions:
            session.gate.wait_until_quiet()

    def _next_to_close(self, seen: AbstractSet[_Part]) -> _Part | None:
        """Return a part that is still open, which leaves the lists by itself; None when all parts, and so the connection, are closed."""
        with self._lock:
            parts: chain[_Part] = chain(reversed(self._consumers), reversed(self._sessions))
            for part in parts:
                # A part that was seen and is still in a list is being closed by this very thread: a signal's
                # handler closes the connection meanwhile.
                if part not in seen:
                    return part
            # The state changes in the same hold of the lock that found nothing: a session that is opened
            # later finds the connection closed (`_add_part`).
            self._state = next_state(self._state, Event.FINISH, "connection")
            return None

    def _refuse_in_listener(self, what: str) -> None:
        with self._lock:
            sessions = list(self._sessions)
        if any(session.gate.runs_listener_here() for session in sessions):
            # it would wait for the listener that calls it
            raise IllegalStateException(f"a listener cannot {what} its own connection: it would wait for itself")
        if what == "close":
            for session in sessions:
                session.refuse_in_completion("close its own connection")

    # Notifications of the provider

    def on_exception(self, error: ProviderError) -> None:
        """Wake all waiting threads, then call the exception listener on its own thread (§4.3.8)."""
        if isinstance(error, ConnectionLostError):
            # The loss is noted before any thread is woken: a receive that wakes checks it.
            self.lost = error
            with self._lock:
                sessions = list(self._sessions)
            for session in sessions:
                session.async_sends.fail(error)
                session.wake_all()
            if isinstance(error, ProgramEndsError):
                return
        # The listener runs on a thread of its own: the provider's thread must neither run nor wait for application code.
        self._events.call(lambda: self._report(error))

    def poison(self) -> None:
        """Give up the provider's connection: a signal has interrupted a call of it half way (decision 0230). Takes no lock."""
        provider: ProviderConnection | None = getattr(self, "_provider", None)  # none before it is connected
        if provider is None or self.lost is not None or provider.abort():
            return
        self.lost = error = ConnectionLostError(REASON)
        refuses: Any = Poisoned(error, provider)
        self._provider = refuses
        self.temporaries.poison(refuses)
        # No lock is taken, as the interrupted thread may hold it; `list` copies in one step.
        for session in list(self._sessions):
            session.replace_provider(refuses, refuses)
        for consumer in list(self._consumers):
            consumer.replace_provider(refuses, refuses)
        # Another thread closes: `close` may wait for a system that does not answer, and the handler must return.
        close_later(provider, partial(self.on_exception, error))

    def check_not_lost(self) -> None:
        """Raise JMSException when the provider has reported that the connection is lost for good."""
        if self.lost is not None:
            # Each call raises an error of its own: a shared one would collect the tracebacks of all threads.
            raise to_jms(ConnectionLostError(self.lost.reason)) from self.lost

    def report(self, error: ProviderError) -> None:
        """Call the exception listener for a problem that the client's side found."""
        self._events.call(lambda: self._report(error))

    def _report(self, error: ProviderError) -> None:
        listener = self._exception_listener
        if listener is None:
            _log.warning("%s %s (no exception listener is set)", error.code, error.reason)
        else:
            exception_callback(listener)(to_jms(error))

    # For sessions

    def destination_of(self, address: Address) -> Destination:
        """Return the API's object for `address`."""
        # Address and destination are one tuple, read once: other threads replace it in one step.
        recent = self._recent
        if recent is not None and recent[0] is address:
            return recent[1]  # one client's messages share their addresses
        destination = self._find_destination(address)
        self._recent = address, destination
        return destination

    def _find_destination(self, address: Address) -> Destination:
        destination = self._destinations.get(address)
        if destination is None:
            if address.temporary:
                return self.temporaries.seen(address)
            destination = JmsQueue(address.name) if address.kind is AddressKind.QUEUE else JmsTopic(address.name)
            if len(address.name) <= _KEPT_LENGTH_MAX:
                # The table is cleared whole: finding the least used name would cost each look-up, and names
                # in use are entered again at once.
                if len(self._destinations) >= _KEPT_MAX:
                    self._destinations.clear()
                self._destinations[address] = destination
        return destination

    @property
    def resource_manager(self) -> tuple[str, str]:
        """The resource manager that keeps the branches of distributed transactions: connections with equal values can share a branch."""
        return self._provider.info.name, self._provider.resource_manager

    @property
    def state(self) -> str:
        """The state of the connection: ``connected``, ``reconnecting``, ``lost`` or ``closed``.

        For health checks: an extra, which JMS 1.1 does not have. Any thread, at any time.
        """
        if self._state is State.CLOSED:
            return "closed"
        return "lost" if self.lost is not None else self._provider.state

    @property
    def is_started(self) -> bool:
        """Whether messages may be delivered now."""
        return self._state is State.STARTED

    @property
    def is_listening(self) -> bool:
        """Whether the connection is started and delivers messages to listeners. Takes no lock."""
        if not self.is_started or self.lost is not None:
            return False
        return bool(self._consumers) or any(session.has_listeners for session in list(self._sessions))

    def next_number(self) -> int:
        """Return a number that is unique among the sessions of this connection."""
        return next(self._numbers)

    def require(self, capability: Capability, what: str) -> None:
        """Raise JMSException when the provider lacks `capability`, naming both."""
        if capability not in self.capabilities:
            lack = f"{self._provider.info.name} has no {what} (Capability.{capability.name})"
            advice = self._provider.advice(capability)
            raise to_jms(CapabilityError(f"{lack}; {advice}" if advice else lack))

    def persistent_sessions(self) -> PersistentSessions:
        """Return the registered clients of the provider. Raises `ProviderError`."""
        return self._provider.persistent_sessions()

    def forget_session(self, session: JmsSession) -> None:
        """Remove a closed session."""
        with self._lock:
            self._sessions.pop(session, None)

    def forget_consumer(self, consumer: JmsConnectionConsumer) -> None:
        """Remove a closed connection consumer."""
        with self._lock:
            self._consumers.pop(consumer, None)

    def _use(self) -> None:
        self._check_open()
        self._used = True

    def _check_open(self) -> None:
        if self._state is State.CLOSED:
            raise IllegalStateException("the connection is closed")


def _described(given: object) -> str:
    return f"the class {given.__name__}: give an object of it" if isinstance(given, type) else type(given).__name__


class Listening(Protocol):
    """An object that may be listening: a connection."""

    @property
    def is_listening(self) -> bool:
        """Whether it is started, open, and has listeners. Takes no lock: at the end of a program others may hold any."""


_started: WeakValueDictionary[tuple[int, int], Listening] = WeakValueDictionary()

"""Connections that were started, by process and identity. Its references are listed in one step, unaffected by other threads."""


def note_start(connection: Listening) -> None:
    """Check `connection` when the program ends. Any thread; may be repeated."""
    # The process is part of the key: a forked child inherits the table, but none of the threads that listen.
    _started[os.getpid(), id(connection)] = connection
    _be_called()


@cache
def _be_called() -> None:
    # Registered later than an embedded broker, and so called earlier: the broker's end closes the connection.
    atexit.register(_warn)


def _warn() -> None:
    process = os.getpid()
    listening = [
        connection
        for reference in _started.valuerefs()
        if reference.key[0] == process and (connection := reference()) is not None and connection.is_listening
    ]
    _started.clear()  # two threads that both start the first connection may have registered this twice
    # `last_value` exists when an exception has ended the main thread, whose traceback suffices, and
    # `ps1` in an interactive session.
    if listening and getattr(sys, "last_value", None) is None and not hasattr(sys, "ps1"):
        _log.warning(
            "PYJMS-ENDED the program ends while %d connection(s) with listeners are open: threads of pyjms keep no program alive. To go on "
            "listening, have the main thread wait, as by threading.Event().wait(); otherwise close connections before the end, so that "
            "listeners finish what they do",
            len(listening),
        )
