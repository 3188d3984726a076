"""A session for asyncio (JMS 1.1 §4.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from pyjms.aio.calls import Closing, Opening, SessionThread, call_on_thread
from pyjms.aio.consumer import MessageConsumer, QueueBrowser
from pyjms.aio.producer import MessageProducer
from pyjms.aio.sessions import AwaitedSession
from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import InvalidDestinationException
from pyjms.runtime.consumer import JmsMessageConsumer


class Session(Closing):
    """Makes messages, producers and consumers, keeps the order of its messages, and holds its transaction (§4.4).

    Its calls are made one after the other, in the order in which tasks made them; a `receive` that waits holds up none of
    them. Tasks that work independently of each other have a session each, as threads have.
    """

    AUTO_ACKNOWLEDGE: ClassVar = AcknowledgeMode.AUTO_ACKNOWLEDGE
    CLIENT_ACKNOWLEDGE: ClassVar = AcknowledgeMode.CLIENT_ACKNOWLEDGE
    DUPS_OK_ACKNOWLEDGE: ClassVar = AcknowledgeMode.DUPS_OK_ACKNOWLEDGE
    SESSION_TRANSACTED: ClassVar = AcknowledgeMode.SESSION_TRANSACTED

    def __init__(self, sync: AwaitedSession, thread: SessionThread, loop: asyncio.AbstractEventLoop) -> None:
        """Made by a connection."""
        self._sync = sync
        self._thread = thread
        self._loop = loop

    # Messages and destinations, which never wait

    def create_bytes_message(self) -> BytesMessage:
        """Return a new, empty, write-only `BytesMessage`."""
        return self._sync.create_bytes_message()

    def create_map_message(self) -> MapMessage:
        """Return a new, empty `MapMessage`."""
        return self._sync.create_map_message()

    def create_message(self) -> Message:
        """Return a new message without a body."""
        return self._sync.create_message()

    def create_object_message(self, object: Any = None) -> ObjectMessage:
        """Return a new `ObjectMessage` with a copy of `object`. Raises `MessageFormatException` if it has no copy."""
        return self._sync.create_object_message(object)

    def create_stream_message(self) -> StreamMessage:
        """Return a new, empty, write-only `StreamMessage`."""
        return self._sync.create_stream_message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a new `TextMessage` with `text`."""
        return self._sync.create_text_message(text)

    def create_queue(self, queue_name: str) -> Queue:
        """Return the queue that the provider calls `queue_name` (§4.4.4)."""
        return self._sync.create_queue(queue_name)

    def create_topic(self, topic_name: str) -> Topic:
        """Return the topic that the provider calls `topic_name` (§4.4.4)."""
        return self._sync.create_topic(topic_name)

    async def create_temporary_queue(self) -> TemporaryQueue:
        """Return a new queue that exists as long as the connection, or until deleted (§4.4.3)."""
        return await self._thread.call(self._sync.create_temporary_queue, undo=TemporaryQueue.delete)

    async def create_temporary_topic(self) -> TemporaryTopic:
        """Return a new topic that exists as long as the connection, or until deleted (§4.4.3)."""
        return await self._thread.call(self._sync.create_temporary_topic, undo=TemporaryTopic.delete)

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination now, in place of its own `delete`, which would block the event loop.

        Raises InvalidDestinationException for another destination; JMSException while it has consumers.
        """
        # The check is made here: a plain destination has no `delete`, and the error would be an AttributeError.
        if not isinstance(destination, (TemporaryQueue, TemporaryTopic)):
            raise InvalidDestinationException(f"{destination!r} is no temporary destination, so it is not deleted")
        await self._thread.call(destination.delete)

    # Producers, consumers, browsers

    def create_producer(self, destination: Destination | None = None) -> Opening[MessageProducer]:
        """Make a producer for `destination`; None: each `send` names its own (§4.6). Raises InvalidDestinationException."""
        return Opening(partial(self._make_producer, destination))

    async def _make_producer(self, destination: Destination | None) -> MessageProducer:
        sync = await self._thread.call(lambda: self._sync.create_producer(destination), undo=lambda made: made.close())
        return MessageProducer(sync, self._thread)

    def create_consumer(
        self, destination: Destination, message_selector: str | None = None, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """Make a consumer of the messages of `destination` that `message_selector` chooses; None or "": all (§4.5).

        With `no_local`, a topic's consumer gets no messages published by its own connection; queues ignore it.
        Raises InvalidDestinationException, InvalidSelectorException.
        """
        return self._consumer(lambda: self._sync.create_consumer(destination, message_selector, no_local))

    def create_durable_subscriber(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """Make a consumer of the durable subscription `name` of this connection's client identifier (§6.11.1).

        Raises what `pyjms.Session.create_durable_subscriber` raises.
        """
        sync = self._sync
        return self._consumer(lambda: sync.create_durable_subscriber(topic, name, message_selector, no_local))

    def create_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """Make a consumer of the unshared durable subscription `name` of this connection's client identifier (JMS 2.0 §8.3.3).

        Raises what `pyjms.Session.create_durable_consumer` raises.
        """
        sync = self._sync
        return self._consumer(lambda: sync.create_durable_consumer(topic, name, message_selector, no_local))

    def create_shared_consumer(
        self, topic: Topic, shared_subscription_name: str, message_selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """Make a consumer of a shared non-durable subscription, which is created if there is none (JMS 2.0 §8.3.2).

        Raises what `pyjms.Session.create_shared_consumer` raises.
        """
        sync = self._sync
        return self._consumer(lambda: sync.create_shared_consumer(topic, shared_subscription_name, message_selector))

    def create_shared_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """Make a consumer of a shared durable subscription, which is created if there is none (JMS 2.0 §8.3.4).

        Raises what `pyjms.Session.create_shared_durable_consumer` raises.
        """
        return self._consumer(lambda: self._sync.create_shared_durable_consumer(topic, name, message_selector))

    def _consumer(self, make: Callable[[], JmsMessageConsumer]) -> Opening[MessageConsumer]:
        return Opening(partial(self._make_consumer, make))

    async def _make_consumer(self, make: Callable[[], JmsMessageConsumer]) -> MessageConsumer:
        sync = await self._thread.call(make, undo=JmsMessageConsumer.close)
        return MessageConsumer(sync, self._sync, self._thread, self._loop)

    def create_browser(self, queue: Queue, message_selector: str | None = None) -> Opening[QueueBrowser]:
        """Make a browser of the messages of `queue` that `message_selector` chooses; None or "": all (§5.9).

        Raises InvalidDestinationException, InvalidSelectorException.
        """
        return Opening(partial(self._make_browser, queue, message_selector))

    async def _make_browser(self, queue: Queue, message_selector: str | None) -> QueueBrowser:
        sync = await self._thread.call(
            lambda: self._sync.create_browser(queue, message_selector), undo=lambda made: made.close()
        )
        return QueueBrowser(sync, self._thread)

    async def unsubscribe(self, name: str) -> None:
        """End the durable subscription `name` and drop its messages (§6.3). Raises what `pyjms.Session.unsubscribe` raises."""
        await self._thread.call(lambda: self._sync.unsubscribe(name))

    # Transactions and acknowledgement

    @property
    def transacted(self) -> bool:
        """Whether sends and receives of this session take effect only with `commit`."""
        return self._sync.transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """The mode; SESSION_TRANSACTED for a transacted session, which has no other."""
        return self._sync.acknowledge_mode

    async def acknowledge(self, message: Message) -> None:
        """Acknowledge all messages that the session has delivered so far, including `message` (§4.4.11).

        In place of ``message.acknowledge()``, which would block the event loop. Only CLIENT_ACKNOWLEDGE has something to
        do. Raises IllegalStateException when the session is closed.
        """
        await self._thread.call(message.acknowledge)

    async def commit(self) -> None:
        """Make the transaction's sends and receives take effect, and begin the next one (§4.4.7).

        Raises what `pyjms.Session.commit` raises. If the task is cancelled, the commit may be made: the session goes on with the
        next transaction in any case.
        """
        # A receive in progress may take its message before or after the commit: its
        # transaction would be left to chance.
        self._sync.check_receives_nothing()
        await self._thread.call(self._sync.commit)

    async def rollback(self) -> None:
        """Undo the transaction: its sends are dropped, and received messages are redelivered; then begin the next one (§4.4.7)."""
        self._sync.check_receives_nothing()
        await self._thread.call(self._sync.rollback)

    async def recover(self) -> None:
        """Redeliver the messages not yet acknowledged, from the first one on and marked as redelivered (§4.4.11)."""
        self._sync.check_receives_nothing()
        await self._thread.call(self._sync.recover)

    async def close(self) -> None:
        """End the session, its producers and its consumers; a transaction in progress is rolled back (§4.4.1).

        Waits for a running listener; a waiting `receive` returns None. Does not wait for calls that have not begun, and ends the waits
        of sends. Raises IllegalStateException when a listener of the session awaits it. Continues if the task is cancelled. May be awaited on another
        event loop: the connection's may have ended.
        """
        if self._thread.serves_here:
            await self._thread.call(self._sync.close)  # which raises the error
        else:
            # The close has a thread of its own: the session's may be in a send that waits for capacity,
            # which the close ends.
            await call_on_thread("pyjms-aio-close", self._close)

    def _close(self) -> None:
        try:
            self._sync.close()
        finally:
            self._thread.end()
