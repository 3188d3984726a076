"""Tracing: the interface of a tracer of messages, the present tracer, and the producers and consumers that report to it.

A session asks once for each producer and consumer that it makes. Without a tracer it makes classes without tracing code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Final, TypeVar

from pyjms.api.consumer import MessageListenerLike
from pyjms.api.destination import Destination
from pyjms.api.message import Message
from pyjms.messages.destinations import address_of
from pyjms.messages.freeze import carrying
from pyjms.runtime.completions import Callbacks
from pyjms.runtime.consumer import JmsMessageConsumer
from pyjms.runtime.producer import JmsMessageProducer
from pyjms.spi.envelope import Address
from pyjms.spi.interrupts import defers_signals

_Kind = TypeVar("_Kind", bound=JmsMessageProducer | JmsMessageConsumer)


class MessageTracer(ABC):
    """A tracer, which is called for each message. Any thread."""

    @abstractmethod
    def sending(self, address: Address, message: Message) -> AbstractContextManager[Mapping[str, str]]:
        """Return the context manager around a send; it gives the text properties that the message is to carry.

        The header fields that the send sets are known when it is left.
        """

    @abstractmethod
    def begin_sending(
        self, address: Address, message: Message
    ) -> tuple[Mapping[str, str], Callable[[Exception | None], None]]:
        """Begin an asynchronous send; return the text properties that the message is to carry, and what is called with the outcome.

        That is called once, on another thread: with None when the message was sent, and its header fields are known, or with the error.
        """

    @abstractmethod
    def receiving(
        self, address: Address, subscription_name: str | None
    ) -> AbstractContextManager[Callable[[Message | None], None]]:
        """Return the context manager around a receive; it gives a function to be called with the message, or None if there was none.

        `subscription_name`: of the consumer's durable or shared subscription; None: it has none.
        """

    @abstractmethod
    def processing(
        self, address: Address, message: Message, subscription_name: str | None
    ) -> AbstractContextManager[object]:
        """Return the context manager around the call of a message listener; `subscription_name` as in `receiving`."""


_tracers: Final[list[MessageTracer]] = []


def current_tracer() -> MessageTracer | None:
    """Return the present tracer, or None."""
    return _tracers[-1] if _tracers else None


def trace_with(tracer: MessageTracer | None) -> None:
    """Set the tracer of producers and consumers made from now on; None: no tracer."""
    _tracers[:] = [] if tracer is None else [tracer]


def class_in_use(kind: type[_Kind]) -> type[_Kind]:
    """Return `kind`, a class of producers or consumers, or its traced variant if there is a tracer."""
    # The tracer is asked for once, when a producer or consumer is made: without one, sends and
    # receives contain no tracing code.
    if not _tracers:
        return kind
    wanted: Any = kind  # a type variable is not hashable to mypy
    traced: type[_Kind] = _traced(wanted)
    return traced


@cache
def _traced(kind: Any) -> Any:
    mixin = _TracedProducer if issubclass(kind, JmsMessageProducer) else _TracedConsumer
    return type(kind.__name__, (mixin, kind), {"__slots__": (), "__module__": __name__})


class _TracedProducer(JmsMessageProducer):
    """A producer whose sends are traced."""

    __slots__ = ()

    def _send(
        self,
        address: Address,
        destination: Destination | None,
        message: Message,
        mode: int,
        priority: int,
        time_to_live: int,
        delay: int,
        callbacks: Callbacks | None = None,
    ) -> None:
        tracer = current_tracer()
        # An object that is no message is passed to the send itself, which raises the right error.
        if tracer is None or not isinstance(message, Message):
            super()._send(address, destination, message, mode, priority, time_to_live, delay, callbacks)
            return
        if callbacks is not None:
            added, ended = tracer.begin_sending(address, message)
            try:
                with carrying(message, added):
                    super()._send(
                        address, destination, message, mode, priority, time_to_live, delay, _telling(ended, callbacks)
                    )
            except Exception as error:
                ended(error)
                raise
            return
        with tracer.sending(address, message) as added, carrying(message, added):
            super()._send(address, destination, message, mode, priority, time_to_live, delay)


def _telling(ended: Callable[[Exception | None], None], callbacks: Callbacks) -> Callbacks:
    """Return `callbacks` that call `ended` first."""
    on_completion, on_exception = callbacks

    def completed(message: Message) -> None:
        try:
            ended(None)
        finally:  # a tracer that raises must not keep the outcome from the program
            on_completion(message)

    def failed(message: Message, exception: Exception) -> None:
        try:
            ended(exception)
        finally:
            on_exception(message, exception)

    return completed, failed


class _TracedConsumer(JmsMessageConsumer):
    """A consumer whose receives, and whose listener's calls, are traced."""

    __slots__ = ()

    def receive(self, timeout: int = 0) -> Message | None:
        """Return the next message, as without a tracer."""
        return self._traced(lambda: super(_TracedConsumer, self).receive(timeout))

    def receive_no_wait(self) -> Message | None:
        """Return the next message if there is one now, as without a tracer."""
        return self._traced(super().receive_no_wait)

    def receive_or_enlist(self) -> Message | None:
        """Return the next message, or be woken, as without a tracer."""
        return self._traced(super().receive_or_enlist)

    def _traced(self, receive: Callable[[], Message | None]) -> Message | None:
        return self._trace(receive)[1]

    @defers_signals(undo=lambda found: found[0].keep_latest())
    def _trace(self, receive: Callable[[], Message | None]) -> tuple[JmsMessageConsumer, Message | None]:
        tracer, message = current_tracer(), None
        try:
            if tracer is None:
                message = receive()
            else:
                with tracer.receiving(address_of(self._destination), self.subscription_name) as got:
                    message = receive()
                    got(message)
        except Exception:  # the tracer raised
            if message is not None:
                self.keep_latest()
            raise
        # The consumer is returned, too: `undo` gets the result of the call and nothing else.
        return self, message

    def _callback_of(self, listener: MessageListenerLike) -> Callable[[Message], Any]:
        plain, address = super()._callback_of(listener), address_of(self._destination)

        def callback(message: Message) -> None:
            tracer = current_tracer()
            if tracer is None:
                plain(message)
                return
            with tracer.processing(address, message, self.subscription_name):
                plain(message)

        return callback
