"""Contexts for asyncio, with their producers and consumers (JMS 2.0 §2.8)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, ClassVar, Protocol, Self, TypeVar
from weakref import WeakSet

from pyjms.aio.calls import Closing, Listening, Opening, SessionThread, call_on_thread
from pyjms.aio.connection import ExceptionListenerLike, XAResource
from pyjms.aio.consumer import MessageConsumer, MessageListenerLike, QueueBrowser
from pyjms.aio.sessions import AwaitedContext, AwaitedXAContext
from pyjms.api.connection import ConnectionMetaData
from pyjms.api.consumer import QueueBrowser as Browser
from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.api.producer import CompletionListener
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.messages.base import JmsMessage, body_class
from pyjms.messages.bodies import JmsBytesMessage, JmsMapMessage, JmsObjectMessage, JmsStreamMessage, JmsTextMessage
from pyjms.messages.destinations import JmsQueue, JmsTopic
from pyjms.runtime.checks import exception_callback
from pyjms.runtime.context_consumer import BodyReader, JmsConsumer
from pyjms.runtime.context_producer import ProducerSettings
from pyjms.runtime.error_mapping import runtime_errors

T = TypeVar("T")
_Result = TypeVar("_Result")
_Context = TypeVar("_Context", bound="JMSContext")
_Sync = TypeVar("_Sync", bound=AwaitedContext)


class Threads:
    """The threads of the contexts that share a connection. Used on the event loop only."""

    __slots__ = ("_threads",)

    def __init__(self) -> None:
        self._threads: WeakSet[SessionThread] = WeakSet()

    def add(self, thread: SessionThread) -> None:
        """Enter the thread of a new context."""
        self._threads.add(thread)

    @property
    def serve_here(self) -> bool:
        """Whether the present task is a listener's of one of the contexts."""
        return any(thread.serves_here for thread in self._threads)


class JMSProducer(ProducerSettings):
    """A producer of a context. Its settings are those of `pyjms.JMSProducer`, under the same names, and wait for nothing."""

    __slots__ = ("_ended", "_thread")

    def __init__(self, sync: AwaitedContext, thread: SessionThread, ended: EndedSends) -> None:
        """Made by a context."""
        super().__init__(sync)
        self._thread = thread
        self._ended = ended

    async def send(self, *arguments: Any, **named: Any) -> Self:  # type: ignore[override]  # it is awaited
        """Send a message, or a new one with the given body, to `destination`; returns this producer when the provider has the message.

        The send is asynchronous: those of several tasks, as of ``asyncio.gather``, are on the way at the same time, in the order of the
        calls. Takes and raises what `pyjms.JMSProducer.send` does. Leave a message alone meanwhile. If the task is cancelled, the message
        may be sent.
        """
        with runtime_errors:
            self._thread.check_loop()
            send = partial(self.context.send, *self.prepared(arguments, named))
            sending = _Sending(asyncio.get_running_loop(), self._ended, send)
            self._thread.enqueue(sending.run)
            await sending.future
        return self

    def set_async(self, completion_listener: CompletionListener | None) -> Self:
        """Raise UnsupportedOperationException: each send is asynchronous, and its task awaits the end."""
        raise UnsupportedOperationException(
            "await send(): it is asynchronous, and ends when the provider has the message"
        )


class _Sending(CompletionListener):
    """One send: made on the session's thread, and awaited by a task until the provider has told of its end."""

    __slots__ = ("_context", "_ended", "_error", "_send", "future")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ended: EndedSends, send: Callable[[CompletionListener], None]
    ) -> None:
        self._ended = ended
        self._send = send
        self._context = copy_context()  # of the task: a tracer finds its span there
        self._error: Exception | None = None
        self.future: asyncio.Future[None] = loop.create_future()

    def run(self) -> None:
        """Make the send, unless its task was cancelled before. On the thread that may wait."""
        if self.future.cancelled():
            return
        try:
            self._context.run(self._send, self)
        except Exception as error:  # the awaiting task raises it
            self._tell(error)

    def on_completion(self, message: Message) -> None:
        self._tell(None)

    def on_exception(self, message: Message, exception: Exception) -> None:
        self._tell(exception)

    def _tell(self, error: Exception | None) -> None:
        self._error = error
        self._ended.add(self)

    def end(self) -> None:
        """Have the task go on. On the event loop."""
        if self.future.done():
            return
        if self._error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self._error)


class EndedSends:
    """The sends of a context that have ended and whose tasks do not know it yet. The event loop is woken once for many of them."""

    __slots__ = ("_is_woken", "_loop", "_sends")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sends: deque[_Sending] = deque()
        self._is_woken = False

    def add(self, sending: _Sending) -> None:
        """Have the event loop end a send. Any thread; never waits."""
        # Entered before the flag is read, which the event loop lowers before it looks: a send that finds the flag up is seen.
        self._sends.append(sending)
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the event loop was closed, and no task waits
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._is_woken = False
        while self._sends:
            self._sends.popleft().end()


class JMSConsumer(Closing):
    """A consumer of a context, whose messages `receive`, ``async for`` or a listener gets."""

    def __init__(self, sync: JmsConsumer, consumer: MessageConsumer) -> None:
        """Made by a context."""
        self._sync = sync
        self._consumer = consumer

    @property
    def message_selector(self) -> str | None:
        """The selector's text, or None."""
        return self._sync.message_selector

    @property
    def message_listener(self) -> MessageListenerLike | None:
        """The listener, as it was set, or None."""
        with runtime_errors:
            return self._consumer.message_listener

    async def set_message_listener(self, listener: MessageListenerLike | None) -> None:
        """Set the listener, as `MessageConsumer.set_message_listener`."""
        with runtime_errors:
            await self._consumer.set_message_listener(listener)

    async def receive(self, timeout: int = 0) -> Message | None:  # noqa: ASYNC109 - as JMS has it
        """Return the next message, or None when `timeout` milliseconds passed (0: never) or the consumer was closed.

        If the task is cancelled, no message is lost. Raises IllegalStateRuntimeException while another receive of the context waits.
        """
        with runtime_errors:
            return await self._consumer.receive(timeout)

    async def receive_no_wait(self) -> Message | None:
        """Return the next message if there is one now."""
        with runtime_errors:
            return await self._consumer.receive_no_wait()

    async def receive_body(self, c: type[T], timeout: int = 0) -> T | None:  # noqa: ASYNC109 - as JMS has it
        """Return the body of the next message as a `c`, as `pyjms.JMSConsumer.receive_body`."""
        return await self._body(c, partial(self._consumer.receive, timeout))

    async def receive_body_no_wait(self, c: type[T]) -> T | None:
        """Return the body of the next message as a `c` if there is one now."""
        return await self._body(c, self._consumer.receive_no_wait)

    async def _body(self, c: type[T], receive: _Receive) -> T | None:
        body_class(c)  # a class that is none is refused before a message is taken
        reader = BodyReader(c)
        consumer = self._sync.consumer
        with runtime_errors:
            # While another task receives, its message must not be read by this one.
            self._consumer.check_receives_nothing()
            consumer.reads_body = reader.read
            try:
                received = await receive()
            finally:
                consumer.reads_body = None
        return None if received is None else reader.body

    async def __aiter__(self) -> AsyncIterator[Message]:
        with runtime_errors:
            async for message in self._consumer:
                yield message

    async def close(self) -> None:
        """Close; a waiting receive returns None, and a running listener of this consumer is waited for. May be repeated."""
        with runtime_errors:
            await self._consumer.close()


class _Receive(Protocol):
    async def __call__(self) -> Message | None: ...


class JMSContext(Closing):
    """A connection and a session in one. Belongs to the event loop in which it was made.

    Its calls are made one after the other, in the order in which tasks made them; a `receive` that waits holds up none of them. Tasks
    that work independently of each other have a context each, which `create_context` makes on the same connection.
    """

    AUTO_ACKNOWLEDGE: ClassVar = AcknowledgeMode.AUTO_ACKNOWLEDGE
    CLIENT_ACKNOWLEDGE: ClassVar = AcknowledgeMode.CLIENT_ACKNOWLEDGE
    DUPS_OK_ACKNOWLEDGE: ClassVar = AcknowledgeMode.DUPS_OK_ACKNOWLEDGE
    SESSION_TRANSACTED: ClassVar = AcknowledgeMode.SESSION_TRANSACTED

    def __init__(
        self, sync: AwaitedContext, thread: SessionThread, loop: asyncio.AbstractEventLoop, threads: Threads
    ) -> None:
        """Made by a factory, or another context."""
        self._sync = sync
        self._thread = thread
        self._loop = loop
        self._threads = threads
        self._ended_sends = EndedSends(loop)
        self._exception_listener: ExceptionListenerLike | None = None
        threads.add(thread)

    async def _call(self, function: Callable[[], _Result], undo: Callable[[_Result], object] | None = None) -> _Result:
        """Make a call on the session's thread."""
        with runtime_errors:
            return await self._thread.call(function, undo=undo)

    def create_context(self, session_mode: int) -> Opening[JMSContext]:
        """Make a context with a session of its own on the same connection, which the last of its contexts closes."""
        make = partial(self._sync.open_context, AwaitedContext, session_mode)
        return Opening(partial(open_context, JMSContext, make, self._threads))

    def create_producer(self) -> JMSProducer:
        """Return a new producer."""
        self._sync.check_open()
        return JMSProducer(self._sync, self._thread, self._ended_sends)

    # Connection

    @property
    def client_id(self) -> str | None:
        """The identifier of the client's durable subscriptions, or None."""
        return self._sync.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Set the client identifier: at most once, before anything else is done with the context, and not when the factory has set it.

        Raises IllegalStateRuntimeException if it is too late; InvalidClientIDRuntimeException when it is invalid, or in use by another client.
        """
        await self._call(lambda: setattr(self._sync, "client_id", client_id))

    @property
    def meta_data(self) -> ConnectionMetaData:
        """The facts about the connection's provider."""
        return self._sync.meta_data

    @property
    def exception_listener(self) -> ExceptionListenerLike | None:
        """The function or coroutine function called for problems of the connection, one call at a time, on the event loop."""
        # The runtime's context is asked first, as it refuses when it is closed.
        found = self._sync.exception_listener
        return found.listener if isinstance(found, _Problems) else None

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListenerLike | None) -> None:
        self._sync.exception_listener = None if listener is None else _Problems(self._loop, listener)

    @property
    def auto_start(self) -> bool:
        """Whether the connection starts when this context makes a consumer; True at first."""
        return self._sync.auto_start

    @auto_start.setter
    def auto_start(self, auto_start: bool) -> None:
        self._sync.auto_start = auto_start

    async def start(self) -> None:
        """Start, or resume, the delivery of messages to all contexts of the connection."""
        await self._call(self._sync.start)

    async def stop(self) -> None:
        """Pause delivery to all contexts of the connection; returns when running listeners have returned.

        Raises IllegalStateRuntimeException when a listener of one of the contexts awaits it.
        """
        with runtime_errors:
            if self._threads.serve_here:
                raise IllegalStateException("a listener cannot stop its own connection: it would wait for itself")
            self._thread.check_loop()
            await call_on_thread("pyjms-aio-stop", self._sync.stop)

    async def close(self) -> None:
        """Close the context, its consumers and, with the last context of the connection, the connection.

        Waits for running listeners; a waiting `receive` returns None; a transaction in progress is rolled back. Raises
        IllegalStateRuntimeException when a listener of this context awaits it. Continues if the task is cancelled. May be awaited on
        another event loop: the context's may have ended.
        """
        if self._thread.serves_here:
            await self._call(self._sync.close)  # which raises the error
        else:
            # The close has a thread of its own: the session's may be in a send that waits for capacity, which the close ends.
            with runtime_errors:
                await call_on_thread("pyjms-aio-close", self._close)

    def _close(self) -> None:
        try:
            self._sync.close()
        finally:
            self._thread.end()

    # Messages and destinations, which never wait

    def create_bytes_message(self) -> BytesMessage:
        """Return a new, empty, write-only `BytesMessage`."""
        self._sync.check_open()
        return JmsBytesMessage()

    def create_map_message(self) -> MapMessage:
        """Return a new, empty `MapMessage`."""
        self._sync.check_open()
        return JmsMapMessage()

    def create_message(self) -> Message:
        """Return a new message without a body."""
        self._sync.check_open()
        return JmsMessage()

    def create_object_message(self, object: Any = None) -> ObjectMessage:
        """Return a new `ObjectMessage` with a copy of `object`. Raises `MessageFormatRuntimeException` if it has no copy."""
        self._sync.check_open()
        message = JmsObjectMessage()
        if object is not None:
            with runtime_errors:
                message.object = object
        return message

    def create_stream_message(self) -> StreamMessage:
        """Return a new, empty, write-only `StreamMessage`."""
        self._sync.check_open()
        return JmsStreamMessage()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a new `TextMessage` with `text`."""
        self._sync.check_open()
        return JmsTextMessage(text)

    def create_queue(self, queue_name: str) -> Queue:
        """Return the queue that the provider calls `queue_name`."""
        self._sync.check_open()
        with runtime_errors:
            return JmsQueue(queue_name)

    def create_topic(self, topic_name: str) -> Topic:
        """Return the topic that the provider calls `topic_name`."""
        self._sync.check_open()
        with runtime_errors:
            self._sync.require_topics()
            return JmsTopic(topic_name)

    async def create_temporary_queue(self) -> TemporaryQueue:
        """Return a new queue that exists as long as the connection, or until deleted."""
        return await self._call(self._sync.create_temporary_queue, TemporaryQueue.delete)

    async def create_temporary_topic(self) -> TemporaryTopic:
        """Return a new topic that exists as long as the connection, or until deleted."""
        return await self._call(self._sync.create_temporary_topic, TemporaryTopic.delete)

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination now, in place of its own `delete`, which would block the event loop.

        Raises InvalidDestinationRuntimeException for another destination; JMSRuntimeException while it has consumers.
        """
        with runtime_errors:
            if not isinstance(destination, (TemporaryQueue, TemporaryTopic)):
                raise InvalidDestinationException(f"{destination!r} is no temporary destination, so it is not deleted")
            await self._thread.call(destination.delete)

    # Consumers and browsers

    def create_consumer(
        self, destination: Destination, message_selector: str | None = None, no_local: bool = False
    ) -> Opening[JMSConsumer]:
        """Make a consumer, as `pyjms.JMSContext.create_consumer`; the connection starts, unless `auto_start` is False."""
        return self._consumer(partial(self._sync.create_consumer, destination, message_selector, no_local))

    def create_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> Opening[JMSConsumer]:
        """Make a consumer of an unshared durable subscription, as `pyjms.JMSContext.create_durable_consumer`."""
        return self._consumer(partial(self._sync.create_durable_consumer, topic, name, message_selector, no_local))

    def create_shared_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None
    ) -> Opening[JMSConsumer]:
        """Make a consumer of a shared durable subscription, as `pyjms.JMSContext.create_shared_durable_consumer`."""
        return self._consumer(partial(self._sync.create_shared_durable_consumer, topic, name, message_selector))

    def create_shared_consumer(
        self, topic: Topic, shared_subscription_name: str, message_selector: str | None = None
    ) -> Opening[JMSConsumer]:
        """Make a consumer of a shared non-durable subscription, as `pyjms.JMSContext.create_shared_consumer`."""
        make = partial(self._sync.create_shared_consumer, topic, shared_subscription_name, message_selector)
        return self._consumer(make)

    def _consumer(self, make: Callable[[], JmsConsumer]) -> Opening[JMSConsumer]:
        return Opening(partial(self._make_consumer, make))

    async def _make_consumer(self, make: Callable[[], JmsConsumer]) -> JMSConsumer:
        made = await self._call(make, JmsConsumer.close)
        session = self._sync.session
        assert session is not None, "the consumer's"
        return JMSConsumer(made, MessageConsumer(made.consumer, session, self._thread, self._loop))

    def create_browser(self, queue: Queue, message_selector: str | None = None) -> Opening[QueueBrowser]:
        """Make a browser of the messages of `queue` that `message_selector` chooses; None or "": all.

        Raises InvalidDestinationRuntimeException, InvalidSelectorRuntimeException.
        """
        return Opening(partial(self._make_browser, queue, message_selector))

    async def _make_browser(self, queue: Queue, message_selector: str | None) -> QueueBrowser:
        sync = await self._call(partial(self._sync.create_browser, queue, message_selector), Browser.close)
        return QueueBrowser(sync, self._thread)

    async def unsubscribe(self, name: str) -> None:
        """End the durable subscription `name`, as `pyjms.JMSContext.unsubscribe`."""
        await self._call(partial(self._sync.unsubscribe, name))

    # Transactions and acknowledgement

    @property
    def transacted(self) -> bool:
        """Whether sends and receives of this context take effect only with `commit`."""
        return self._sync.transacted

    @property
    def session_mode(self) -> AcknowledgeMode:
        """The mode of the context's session."""
        return self._sync.session_mode

    async def commit(self) -> None:
        """Make the transaction's sends and receives take effect, as `pyjms.JMSContext.commit`.

        Raises IllegalStateRuntimeException while a receive of the context waits. If the task is cancelled, the commit may be made.
        """
        await self._end(self._sync.commit)

    async def rollback(self) -> None:
        """Undo the transaction, as `pyjms.JMSContext.rollback`."""
        await self._end(self._sync.rollback)

    async def recover(self) -> None:
        """Redeliver all unacknowledged messages."""
        await self._end(self._sync.recover)

    async def _end(self, function: Callable[[], None]) -> None:
        with runtime_errors:
            # A receive in progress may take its message before or after the commit: its transaction would be left to chance.
            self._sync.check_receives_nothing()
            await self._thread.call(function)

    async def acknowledge(self) -> None:
        """Acknowledge all messages that the context has delivered so far; does nothing where the mode is not CLIENT_ACKNOWLEDGE."""
        await self._call(self._sync.acknowledge)


class XAJMSContext(JMSContext):
    """A context whose transactions are ended through its `xa_resource` only: `commit` raises TransactionInProgressRuntimeException."""

    @property
    def context(self) -> JMSContext:
        """The context for the application."""
        self._sync.check_open()
        return self

    async def get_xa_resource(self) -> XAResource:
        """Return the resource for a transaction manager. A method, as it may wait: the session is opened when it is first needed."""
        sync = self._sync
        assert isinstance(sync, AwaitedXAContext)
        return XAResource(await self._call(lambda: sync.xa_resource), self._thread)


class _Problems(Listening):
    """An exception listener: called on the event loop."""

    __slots__ = ("listener",)

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: ExceptionListenerLike) -> None:
        super().__init__(loop, exception_callback(listener, awaits=True), None, _nothing)
        self.listener = listener
        """The listener, as it was set."""


def _nothing() -> None:
    """Do nothing: the listener is not called."""


async def open_context(
    kind: Callable[[_Sync, SessionThread, asyncio.AbstractEventLoop, Threads], _Context],
    make: Callable[[], _Sync],
    threads: Threads | None = None,
) -> _Context:
    """Make a context; `threads` are those of the contexts of its connection, None for a new connection."""
    loop = asyncio.get_running_loop()
    with runtime_errors:
        sync = await call_on_thread("pyjms-aio-connect", make, AwaitedContext.close)
        # The connection is open already: without a thread it would never be closed.
        try:
            thread = SessionThread(sync.name_of_thread(), loop)
        except JMSException:
            await call_on_thread("pyjms-aio-close", sync.close)
            raise
    return kind(sync, thread, loop, threads or Threads())
