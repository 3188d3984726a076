"""Contexts: a connection, which several contexts may share, and a session of each (JMS 2.0 §2.8, §6)."""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

from pyjms.api.connection import ConnectionMetaData, ExceptionListenerLike
from pyjms.api.consumer import QueueBrowser
from pyjms.api.context import JMSContext, JMSProducer
from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.api.producer import CompletionListener
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.runtime.checks import session_mode
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.consumer import JmsMessageConsumer
from pyjms.runtime.context_consumer import JmsConsumer
from pyjms.runtime.context_producer import DEFAULT_OPTIONS, JmsProducer, SendOptions
from pyjms.runtime.error_mapping import ErrorCollector, close_made, delete_made, runtime_errors
from pyjms.runtime.producer import JmsMessageProducer
from pyjms.runtime.session import JmsSession
from pyjms.runtime.waiting import CloseOnce
from pyjms.spi.capability import Capability
from pyjms.spi.interrupts import defers_signals

_Context = TypeVar("_Context", bound="JmsContext")


class SharedConnection:
    """The connection of one or more contexts, which is closed with the last of them."""

    __slots__ = ("_lock", "_users", "connection", "is_shared")

    def __init__(self, connection: JmsConnection) -> None:
        self.connection = connection
        self.is_shared = False
        """Whether a second context was made: then it is too late for a client identifier."""
        self._users = 1
        self._lock = Lock()

    def share(self) -> SharedConnection:
        """Add a context. The caller's own is open, so the connection is, too."""
        with self._lock:
            self._users += 1
            self.is_shared = True
        return self

    def release(self) -> None:
        """Remove a context, and close the connection with the last one."""
        with self._lock:
            self._users -= 1
            is_last = not self._users
        if is_last:
            self.connection.close()


class JmsContext(JMSContext):
    """A context. Its session is opened when it is first needed, as a client identifier is set before that."""

    session_type: type[JmsSession] = JmsSession

    def __init__(self, shared: SharedConnection, mode: AcknowledgeMode) -> None:
        self._shared = shared
        self._connection = shared.connection
        self._mode = mode
        self._lock = Lock()
        self._session: JmsSession | None = None
        self._is_closed = False
        self._closing = CloseOnce()
        self._auto_start = True
        self._sender: JmsMessageProducer | None = None
        self._options: SendOptions = DEFAULT_OPTIONS
        """The options that `_sender` has."""

    def poison(self) -> None:
        """Give up the connection, as a signal has interrupted a call of this context half way."""
        self._connection.poison()

    def create_context(self, session_mode: int) -> JMSContext:
        return self.open_context(JmsContext, session_mode)

    def open_context(self, kind: type[_Context], session_mode: int) -> _Context:
        """Return a context of the class `kind` on the same connection."""
        with runtime_errors:
            mode = context_mode(session_mode)
            require_mode(self._connection, mode)
            with self._lock:
                self._check_open()
                return kind(self._shared.share(), mode)

    def create_producer(self) -> JMSProducer:
        with runtime_errors:
            self._opened()
        return JmsProducer(self)

    # Connection

    @property
    def client_id(self) -> str | None:
        with runtime_errors:
            self._check_open()
            return self._connection.client_id

    @client_id.setter
    def client_id(self, client_id: str) -> None:
        with runtime_errors:
            self._check_open()
            if self._shared.is_shared:
                raise IllegalStateException("set client_id right after creating the context, before using it")
            self._connection.client_id = client_id

    @property
    def meta_data(self) -> ConnectionMetaData:
        with runtime_errors:
            self._check_open()
            return self._connection.meta_data

    @property
    def exception_listener(self) -> ExceptionListenerLike | None:
        with runtime_errors:
            self._check_open()
            return self._connection.exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListenerLike | None) -> None:
        with runtime_errors:
            self._check_open()
            self._connection.exception_listener = listener

    @property
    def auto_start(self) -> bool:
        self.check_open()
        return self._auto_start

    @auto_start.setter
    def auto_start(self, auto_start: bool) -> None:
        self.check_open()
        self._auto_start = bool(auto_start)

    def start(self) -> None:
        with runtime_errors:
            self._check_open()
            self._connection.start()

    def stop(self) -> None:
        with runtime_errors:
            self._check_open()
            self._connection.stop()

    @defers_signals()
    def close(self) -> None:
        errors = ErrorCollector()
        with runtime_errors:
            with self._lock:
                session = self._session
                # No session is opened from here on. A context with one may refuse: its listener calls.
                if session is None:
                    self._is_closed = True
            if session is not None:
                with errors:
                    session.close()
                if not session.is_closed:
                    errors.raise_first()
                with self._lock:  # a context that another thread makes of this one is counted before, or refused
                    self._is_closed = True
            with errors:
                self._closing.do(self._shared.release)
            errors.raise_first()

    def check_open(self) -> None:
        """Raise `IllegalStateRuntimeException` when the context is closed."""
        with runtime_errors:
            self._check_open()

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalStateException("the context is closed")

    def _opened(self) -> JmsSession:
        """Return the session, which is opened by the first call. Raises `IllegalStateException` when the context is closed."""
        self._check_open()
        return self._session or self._open()

    @defers_signals()
    def _open(self) -> JmsSession:
        session = self._connection.open_session(self.session_type, self._mode)
        # The lock is not held during the call before, as the provider may wait for its broker.
        with self._lock:
            is_late = self._is_closed
            if not is_late:
                self._session = session
        if is_late:
            close_made(session)
            self._check_open()
        return session

    # Transactions and acknowledgement

    @property
    def transacted(self) -> bool:
        self.check_open()
        return self._mode is AcknowledgeMode.SESSION_TRANSACTED

    @property
    def session_mode(self) -> AcknowledgeMode:
        self.check_open()
        return self._mode

    def commit(self) -> None:
        with runtime_errors:
            self._opened().commit()

    def rollback(self) -> None:
        with runtime_errors:
            self._opened().rollback()

    def recover(self) -> None:
        with runtime_errors:
            self._opened().recover()

    def acknowledge(self) -> None:
        with runtime_errors:
            self._opened().acknowledge()

    # Messages

    def create_bytes_message(self) -> BytesMessage:
        with runtime_errors:
            return self._opened().create_bytes_message()

    def create_map_message(self) -> MapMessage:
        with runtime_errors:
            return self._opened().create_map_message()

    def create_message(self) -> Message:
        with runtime_errors:
            return self._opened().create_message()

    def create_object_message(self, object: Any = None) -> ObjectMessage:
        with runtime_errors:
            return self._opened().create_object_message(object)

    def create_stream_message(self) -> StreamMessage:
        with runtime_errors:
            return self._opened().create_stream_message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        with runtime_errors:
            return self._opened().create_text_message(text)

    # Sending, for the context's producers

    def send(
        self,
        destination: Destination,
        message: Message,
        options: SendOptions,
        listener: CompletionListener | None = None,
    ) -> None:
        """Send with the options of one producer; asynchronously, if it has a listener. Raises the exceptions of `MessageProducer.send`."""
        sender = self._sender
        if sender is None:
            # One for all producers of the context, which have no close: they may be many.
            self._sender = sender = self._opened().create_producer()
        # Most programs send with the same options again and again, which are the same object then.
        if options is not self._options:
            sender.delivery_mode = options.delivery_mode
            sender.priority = options.priority
            sender.time_to_live = options.time_to_live
            sender.delivery_delay = options.delivery_delay
            sender.disable_message_id = options.disable_message_id
            sender.disable_message_timestamp = options.disable_message_timestamp
            self._options = options
        if listener is None:
            sender.send(destination, message)
        else:
            sender.send(destination, message, listener)

    def require_delivery_delay(self) -> None:
        """Raise JMSException when the provider has no delivery delay."""
        self._connection.require(Capability.DELIVERY_DELAY, "delivery delay")

    # Consumers and browsers

    @defers_signals(undo=close_made)
    def create_consumer(
        self, destination: Destination, message_selector: str | None = None, no_local: bool = False
    ) -> JmsConsumer:
        with runtime_errors:
            return self._started(self._opened().create_consumer(destination, message_selector, no_local))

    @defers_signals(undo=close_made)
    def create_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> JmsConsumer:
        with runtime_errors:
            return self._started(self._opened().create_durable_consumer(topic, name, message_selector, no_local))

    @defers_signals(undo=close_made)
    def create_shared_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None
    ) -> JmsConsumer:
        with runtime_errors:
            return self._started(self._opened().create_shared_durable_consumer(topic, name, message_selector))

    @defers_signals(undo=close_made)
    def create_shared_consumer(
        self, topic: Topic, shared_subscription_name: str, message_selector: str | None = None
    ) -> JmsConsumer:
        with runtime_errors:
            return self._started(
                self._opened().create_shared_consumer(topic, shared_subscription_name, message_selector)
            )

    def _started(self, consumer: JmsMessageConsumer) -> JmsConsumer:
        """Return the context's consumer over `consumer`; the connection starts, if it has to."""
        if self._auto_start:
            try:
                self._connection.start()
            except JMSException:
                close_made(consumer)
                raise
        return JmsConsumer(consumer)

    def create_browser(self, queue: Queue, message_selector: str | None = None) -> QueueBrowser:
        with runtime_errors:
            return self._opened().create_browser(queue, message_selector)

    def unsubscribe(self, name: str) -> None:
        with runtime_errors:
            self._opened().unsubscribe(name)

    # Destinations

    def create_queue(self, queue_name: str) -> Queue:
        with runtime_errors:
            return self._opened().create_queue(queue_name)

    def create_topic(self, topic_name: str) -> Topic:
        with runtime_errors:
            return self._opened().create_topic(topic_name)

    @defers_signals(undo=delete_made)
    def create_temporary_queue(self) -> TemporaryQueue:
        with runtime_errors:
            return self._opened().create_temporary_queue()

    @defers_signals(undo=delete_made)
    def create_temporary_topic(self) -> TemporaryTopic:
        with runtime_errors:
            return self._opened().create_temporary_topic()


def context_mode(given: object) -> AcknowledgeMode:
    """Return the mode of a context. Raises JMSException for any other value."""
    # True is 1 in Python, and would pass for AUTO_ACKNOWLEDGE.
    if isinstance(given, bool):
        raise JMSException(f"{given!r} is no session mode: use one of JMSContext's four")
    return session_mode(session_mode=given)


def require_mode(connection: JmsConnection, mode: AcknowledgeMode) -> None:
    """Raise JMSException when the provider has no sessions of `mode`: they are opened later, when nobody asks for it."""
    if mode is AcknowledgeMode.SESSION_TRANSACTED:
        connection.require(Capability.TRANSACTIONS, "transacted sessions")


def sort_context_arguments(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[str | None, str | None, AcknowledgeMode]:
    """Distinguish the overloads of `create_context`; return user name, password and mode. Raises JMSException for no mode."""
    is_mode = len(arguments) == 1 and isinstance(arguments[0], int)
    names = ("session_mode",) if is_mode else ("user_name", "password", "session_mode")
    given = dict(zip(names, arguments, strict=False))
    if len(arguments) > len(names) or given.keys() & named.keys():
        raise _wrong_arguments()
    given |= named
    if given.keys() - {"user_name", "password", "session_mode"}:
        raise _wrong_arguments()
    mode = given.get("session_mode")
    return (
        given.get("user_name"),
        given.get("password"),
        AcknowledgeMode.AUTO_ACKNOWLEDGE if mode is None else context_mode(mode),
    )


def _wrong_arguments() -> TypeError:
    return TypeError("create_context() takes (session_mode), or (user_name, password) and a session_mode, or nothing")
