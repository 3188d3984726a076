"""The API of `pyjms` over `pyjms.aio`: each call is made on an event loop, beside the caller, who waits for it.

So the conformance suite, which calls and waits, judges what awaits. What `pyjms.aio` does not have is not made through asyncio: the queue
and topic domains, and what application servers call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Thread
from typing import Any, TypeVar

import pyjms
from pyjms import aio
from pyjms.api.base import Enumeration
from pyjms.api.connection import (
    Connection,
    ConnectionConsumer,
    ConnectionMetaData,
    ExceptionListenerLike,
    ServerSessionPool,
)
from pyjms.api.consumer import MessageConsumer, MessageListenerLike, QueueBrowser, TopicSubscriber
from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.api.producer import MessageProducer
from pyjms.api.session import AcknowledgeMode, Session
from pyjms.api.xa import XAConnection, XAResource, XASession, Xid
from pyjms.runtime.checks import exception_callback, message_callback
from pyjms.spi.capability import Capability

__all__ = ["Factory", "XAFactory"]

_Result = TypeVar("_Result")

_LISTENERS_AT_A_TIME = 1000
"""More than any test has: a listener of the suite may wait for another one."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(_LISTENERS_AT_A_TIME))
    Thread(target=loop.run_forever, name="face", daemon=True).start()
    return loop


def _wait(awaitable: Awaitable[_Result]) -> _Result:
    async def result() -> _Result:
        return await awaitable

    # In the caller's context: what a listener calls is made by the thread that serves it.
    return asyncio.run_coroutine_threadsafe(result(), _loop()).result()


def _on_loop(callback: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    async def listen(argument: Any) -> None:
        await asyncio.to_thread(callback, argument)

    return listen


class Factory(pyjms.ConnectionFactory):
    """In place of `pyjms.ConnectionFactory`, of which it keeps the other domains."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        self._aio = aio.ConnectionFactory(url, **options)

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> FaceConnection:  # type: ignore[override]
        return FaceConnection(_wait(self._aio.create_connection(user_name, password)))


class XAFactory(pyjms.XAConnectionFactory):
    """In place of `pyjms.XAConnectionFactory`."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        self._aio = aio.XAConnectionFactory(url, **options)

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> FaceConnection:  # type: ignore[override]
        return FaceConnection(_wait(self._aio.create_connection(user_name, password)))

    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> FaceXAConnection:  # type: ignore[override]
        return FaceXAConnection(_wait(self._aio.create_xa_connection(user_name, password)))


class FaceConnection(Connection):
    """A connection."""

    def __init__(self, connection: aio.Connection) -> None:
        self._aio = connection
        self._listener: ExceptionListenerLike | None = None

    @property
    def capabilities(self) -> Capability:
        """What the provider can do, for the suite."""
        return self._aio._sync.capabilities

    def create_session(self, *arguments: Any, **named: Any) -> FaceSession:
        return FaceSession(_wait(self._aio.create_session(*arguments, **named)))

    @property
    def client_id(self) -> str | None:
        return self._aio.client_id

    @client_id.setter
    def client_id(self, client_id: str) -> None:
        _wait(self._aio.set_client_id(client_id))

    @property
    def meta_data(self) -> ConnectionMetaData:
        return self._aio.meta_data

    @property
    def exception_listener(self) -> ExceptionListenerLike | None:
        return None if self._aio.exception_listener is None else self._listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListenerLike | None) -> None:
        self._aio.exception_listener = None if listener is None else _on_loop(exception_callback(listener))
        self._listener = listener

    def start(self) -> None:
        _wait(self._aio.start())

    def stop(self) -> None:
        _wait(self._aio.stop())

    def close(self) -> None:
        _wait(self._aio.close())

    def create_connection_consumer(
        self,
        destination: Destination,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        return self._aio._sync.create_connection_consumer(destination, message_selector, session_pool, max_messages)

    def create_durable_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        return self._aio._sync.create_durable_connection_consumer(
            topic, subscription_name, message_selector, session_pool, max_messages
        )

    def create_shared_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        return self._aio._sync.create_shared_connection_consumer(
            topic, subscription_name, message_selector, session_pool, max_messages
        )

    def create_shared_durable_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        return self._aio._sync.create_shared_durable_connection_consumer(
            topic, subscription_name, message_selector, session_pool, max_messages
        )


class FaceXAConnection(FaceConnection, XAConnection):
    """An XA connection."""

    def __init__(self, connection: aio.XAConnection) -> None:
        super().__init__(connection)
        self._aio_xa = connection

    def create_xa_session(self) -> FaceXASession:
        return FaceXASession(_wait(self._aio_xa.create_xa_session()))


class FaceSession(Session):
    """A session."""

    def __init__(self, session: aio.Session) -> None:
        self._aio = session

    def create_bytes_message(self) -> BytesMessage:
        return self._aio.create_bytes_message()

    def create_map_message(self) -> MapMessage:
        return self._aio.create_map_message()

    def create_message(self) -> Message:
        return self._aio.create_message()

    def create_object_message(self, object: Any = None) -> ObjectMessage:
        return self._aio.create_object_message(object)

    def create_stream_message(self) -> StreamMessage:
        return self._aio.create_stream_message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        return self._aio.create_text_message(text)

    @property
    def transacted(self) -> bool:
        return self._aio.transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        return self._aio.acknowledge_mode

    def commit(self) -> None:
        _wait(self._aio.commit())

    def rollback(self) -> None:
        _wait(self._aio.rollback())

    def recover(self) -> None:
        _wait(self._aio.recover())

    def close(self) -> None:
        _wait(self._aio.close())

    @property
    def message_listener(self) -> MessageListenerLike | None:
        return self._aio._sync.message_listener

    @message_listener.setter
    def message_listener(self, listener: MessageListenerLike | None) -> None:
        self._aio._sync.message_listener = listener

    def run(self) -> None:
        self._aio._sync.run()

    def create_producer(self, destination: Destination | None = None) -> FaceProducer:
        return FaceProducer(_wait(self._aio.create_producer(destination)))

    def create_consumer(
        self, destination: Destination, message_selector: str | None = None, no_local: bool = False
    ) -> FaceConsumer:
        return FaceConsumer(_wait(self._aio.create_consumer(destination, message_selector, no_local)))

    def create_durable_subscriber(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> FaceSubscriber:
        return FaceSubscriber(_wait(self._aio.create_durable_subscriber(topic, name, message_selector, no_local)))

    def create_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> FaceSubscriber:
        return FaceSubscriber(_wait(self._aio.create_durable_consumer(topic, name, message_selector, no_local)))

    def create_shared_consumer(
        self, topic: Topic, shared_subscription_name: str, message_selector: str | None = None
    ) -> FaceSubscriber:
        return FaceSubscriber(
            _wait(self._aio.create_shared_consumer(topic, shared_subscription_name, message_selector))
        )

    def create_shared_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None
    ) -> FaceSubscriber:
        return FaceSubscriber(_wait(self._aio.create_shared_durable_consumer(topic, name, message_selector)))

    def create_browser(self, queue: Queue, message_selector: str | None = None) -> FaceBrowser:
        return FaceBrowser(_wait(self._aio.create_browser(queue, message_selector)))

    def unsubscribe(self, name: str) -> None:
        _wait(self._aio.unsubscribe(name))

    def create_queue(self, queue_name: str) -> Queue:
        return self._aio.create_queue(queue_name)

    def create_topic(self, topic_name: str) -> Topic:
        return self._aio.create_topic(topic_name)

    def create_temporary_queue(self) -> TemporaryQueue:
        return _wait(self._aio.create_temporary_queue())

    def create_temporary_topic(self) -> TemporaryTopic:
        return _wait(self._aio.create_temporary_topic())


class FaceXASession(FaceSession, XASession):
    """A session that a transaction manager controls."""

    def __init__(self, session: aio.XASession) -> None:
        super().__init__(session)
        self._aio_xa = session

    @property
    def session(self) -> Session:
        _ = self.transacted  # which a closed session refuses
        return self

    @property
    def xa_resource(self) -> XAResource:
        return FaceXAResource(self._aio_xa.xa_resource)


class FaceXAResource(XAResource):
    """What a transaction manager calls."""

    def __init__(self, resource: aio.XAResource) -> None:
        self._aio = resource

    def start(self, xid: Xid, flags: int) -> None:
        _wait(self._aio.start(xid, flags))

    def end(self, xid: Xid, flags: int) -> None:
        _wait(self._aio.end(xid, flags))

    def prepare(self, xid: Xid) -> int:
        return _wait(self._aio.prepare(xid))

    def commit(self, xid: Xid, one_phase: bool) -> None:
        _wait(self._aio.commit(xid, one_phase))

    def rollback(self, xid: Xid) -> None:
        _wait(self._aio.rollback(xid))

    def recover(self, flag: int) -> Sequence[Xid]:
        return _wait(self._aio.recover(flag))

    def forget(self, xid: Xid) -> None:
        _wait(self._aio.forget(xid))

    def is_same_rm(self, xa_resource: XAResource) -> bool:
        other: Any = xa_resource._aio if isinstance(xa_resource, FaceXAResource) else xa_resource
        return self._aio.is_same_rm(other)

    def get_transaction_timeout(self) -> int:
        return _wait(self._aio.get_transaction_timeout())

    def set_transaction_timeout(self, seconds: int) -> bool:
        return _wait(self._aio.set_transaction_timeout(seconds))


class FaceProducer(MessageProducer):
    """A producer."""

    def __init__(self, producer: aio.MessageProducer) -> None:
        self._aio = producer

    @property
    def disable_message_id(self) -> bool:
        return self._aio.disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, value: bool) -> None:
        self._aio.disable_message_id = value

    @property
    def disable_message_timestamp(self) -> bool:
        return self._aio.disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, value: bool) -> None:
        self._aio.disable_message_timestamp = value

    @property
    def delivery_mode(self) -> int:
        return self._aio.delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, delivery_mode: int) -> None:
        self._aio.delivery_mode = delivery_mode

    @property
    def priority(self) -> int:
        return self._aio.priority

    @priority.setter
    def priority(self, default_priority: int) -> None:
        self._aio.priority = default_priority

    @property
    def time_to_live(self) -> int:
        return self._aio.time_to_live

    @time_to_live.setter
    def time_to_live(self, time_to_live: int) -> None:
        self._aio.time_to_live = time_to_live

    @property
    def delivery_delay(self) -> int:
        return self._aio.delivery_delay

    @delivery_delay.setter
    def delivery_delay(self, delivery_delay: int) -> None:
        self._aio.delivery_delay = delivery_delay

    @property
    def destination(self) -> Destination | None:
        return self._aio.destination

    def close(self) -> None:
        _wait(self._aio.close())

    def send(self, *arguments: Any, **named: Any) -> None:
        _wait(self._aio.send(*arguments, **named))


class FaceConsumer(MessageConsumer):
    """A consumer."""

    def __init__(self, consumer: aio.MessageConsumer) -> None:
        self._aio = consumer
        self._listener: MessageListenerLike | None = None

    @property
    def message_selector(self) -> str | None:
        return self._aio.message_selector

    @property
    def message_listener(self) -> MessageListenerLike | None:
        return None if self._aio.message_listener is None else self._listener

    @message_listener.setter
    def message_listener(self, listener: MessageListenerLike | None) -> None:
        called = None if listener is None else _on_loop(message_callback(listener))
        _wait(self._aio.set_message_listener(called))
        self._listener = listener

    def receive(self, timeout: int = 0) -> Message | None:
        return _wait(self._aio.receive(timeout))

    def receive_no_wait(self) -> Message | None:
        return _wait(self._aio.receive_no_wait())

    def close(self) -> None:
        _wait(self._aio.close())


class FaceSubscriber(FaceConsumer, TopicSubscriber):
    """A durable subscriber; what the topic domain adds is asked of what is beneath."""

    @property
    def topic(self) -> Topic:
        topic: Topic = self._aio._sync.topic  # type: ignore[attr-defined]
        return topic

    @property
    def no_local(self) -> bool:
        return bool(self._aio._sync.no_local)  # type: ignore[attr-defined]


class FaceBrowser(QueueBrowser):
    """A browser."""

    def __init__(self, browser: aio.QueueBrowser) -> None:
        self._aio = browser

    @property
    def queue(self) -> Queue:
        return self._aio.queue

    @property
    def message_selector(self) -> str | None:
        return self._aio.message_selector

    @property
    def enumeration(self) -> Enumeration[Message]:
        _ = self._aio.queue  # which a closed browser refuses at once
        return Enumeration(self._messages())

    def _messages(self) -> Iterator[Message]:
        walk = aiter(self._aio)
        while (message := _wait(_next(walk))) is not None:
            yield message

    def close(self) -> None:
        _wait(self._aio.close())


async def _next(walk: Any) -> Message | None:
    message: Message | None = await anext(walk, None)
    return message
