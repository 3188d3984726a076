"""Producers and consumers that tell a tracer what they do. Only imported when there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from pyjms.api.consumer import MessageListenerLike
from pyjms.api.destination import Destination
from pyjms.api.message import Message
from pyjms.messages.destinations import address_of
from pyjms.messages.freeze import carrying
from pyjms.runtime.consumer import JmsMessageConsumer, JmsQueueReceiver, JmsTopicSubscriber
from pyjms.runtime.producer import JmsMessageProducer, JmsQueueSender, JmsTopicPublisher
from pyjms.runtime.tracing import current_tracer
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.interrupts import defers_signals

_Producer = TypeVar("_Producer", bound=JmsMessageProducer)


class TracedProducer(JmsMessageProducer):
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
    ) -> None:
        tracer = current_tracer()
        if tracer is None or not isinstance(message, Message):
            super()._send(address, destination, message, mode, priority, time_to_live)
            return
        with tracer.sending(address, message) as added, carrying(message, added):
            super()._send(address, destination, message, mode, priority, time_to_live)


class _TracedQueueSender(TracedProducer, JmsQueueSender):
    __slots__ = ()


class _TracedTopicPublisher(TracedProducer, JmsTopicPublisher):
    __slots__ = ()


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
                with tracer.receiving(address_of(self._destination)) as got:
                    message = receive()
                    got(message)
        except Exception:  # the tracer raised
            if message is not None:
                self.keep_latest()
            raise
        return self, message

    def _callback_of(self, listener: MessageListenerLike) -> Callable[[Message], Any]:
        plain, address = super()._callback_of(listener), address_of(self._destination)

        def callback(message: Message) -> None:
            tracer = current_tracer()
            if tracer is None:
                plain(message)
                return
            with tracer.processing(address, message):
                plain(message)

        return callback


class TracedQueueReceiver(_TracedConsumer, JmsQueueReceiver):
    """A consumer of a queue."""

    __slots__ = ()


class TracedTopicSubscriber(_TracedConsumer, JmsTopicSubscriber):
    """A consumer of a topic, durable or not."""

    __slots__ = ()


_PRODUCERS: dict[type[JmsMessageProducer], type[TracedProducer]] = {
    JmsMessageProducer: TracedProducer,
    JmsQueueSender: _TracedQueueSender,
    JmsTopicPublisher: _TracedTopicPublisher,
}


def traced_producer_class(kind: type[_Producer]) -> type[_Producer]:
    """Return the traced class that derives from `kind`."""
    return cast("type[_Producer]", _PRODUCERS[kind])


def consumer_class(kind: AddressKind) -> type[JmsMessageConsumer]:
    """Return the class of consumers of queues, or of topics."""
    return TracedQueueReceiver if kind is AddressKind.QUEUE else TracedTopicSubscriber
