"""The consumer of a context, which also receives bodies alone (JMS 2.0 §8.5 to §8.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyjms.api.consumer import MessageListenerLike
from pyjms.api.context import JMSConsumer
from pyjms.api.message import Message
from pyjms.errors import JMSException, MessageFormatException
from pyjms.messages.base import body_class
from pyjms.runtime.consumer import JmsMessageConsumer
from pyjms.runtime.error_mapping import runtime_errors, to_runtime

T = TypeVar("T")


class JmsConsumer(JMSConsumer):
    """A consumer over a `MessageConsumer` of the context's session."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: JmsMessageConsumer) -> None:
        self.consumer = consumer
        """The session's consumer."""

    @property
    def message_selector(self) -> str | None:
        with runtime_errors:
            return self.consumer.message_selector

    @property
    def message_listener(self) -> MessageListenerLike | None:
        with runtime_errors:
            return self.consumer.message_listener

    @message_listener.setter
    def message_listener(self, listener: MessageListenerLike | None) -> None:
        with runtime_errors:
            self.consumer.message_listener = listener

    def receive(self, timeout: int = 0) -> Message | None:
        try:
            return self.consumer.receive(timeout)
        except JMSException as error:
            raise to_runtime(error) from error

    def receive_no_wait(self) -> Message | None:
        try:
            return self.consumer.receive_no_wait()
        except JMSException as error:
            raise to_runtime(error) from error

    def receive_body(self, c: type[T], timeout: int = 0) -> T | None:
        return self._body(c, lambda: self.consumer.receive(timeout))

    def receive_body_no_wait(self, c: type[T]) -> T | None:
        return self._body(c, self.consumer.receive_no_wait)

    def _body(self, c: type[T], receive: Callable[[], Message | None]) -> T | None:
        body_class(c)  # a class that is none is refused before a message is taken
        reader = BodyReader(c)
        consumer = self.consumer
        consumer.reads_body = reader.read
        try:
            received = receive()
        except JMSException as error:
            raise to_runtime(error) from error
        finally:
            consumer.reads_body = None
        return None if received is None else reader.body

    def close(self) -> None:
        with runtime_errors:
            self.consumer.close()


class BodyReader:
    """Reads the body of the message that a receive takes, as an object of the class `c`."""

    __slots__ = ("_class", "body")

    def __init__(self, c: type[Any]) -> None:
        self._class = c
        self.body: Any = None
        """The body that was read last."""

    def read(self, message: Message) -> None:
        """Read the body. Raises `MessageFormatException` if it is none of the class, and for a message without a body."""
        body = message.get_body(self._class)
        if body is None:
            raise MessageFormatException("the message has no body (JMS 2.0 §8.6)")
        self.body = body
