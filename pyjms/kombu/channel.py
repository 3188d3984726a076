"""A channel: what kombu does with queues and exchanges, in terms of JMS.

A queue is the JMS queue of its name. A queue that ends with its connection (auto-delete or exclusive) and is bound to an exchange
is no queue of the broker: its messages come by the topic of the exchange's name, as long as this connection is there. So a
process that dies leaves nothing behind. The table of other bindings is private to this process: it has the bindings that the process has declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kombu.message import Message as Received
from kombu.transport import virtual
from kombu.transport.virtual.base import queue_declare_ok_t
from kombu.utils.uuid import uuid

from pyjms.kombu.envelopes import Outgoing, parts_of
from pyjms.kombu.sources import Source, of_queue, of_topic
from pyjms.kombu.unsettled import Unsettled
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InDoubtError, ProviderError, TooLateError
from pyjms.spi.interrupts import defers_signals

if TYPE_CHECKING:
    from pyjms.kombu.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Consumer:
    """Who consumes from a queue by a channel."""

    tag: str
    queue: str
    no_ack: bool
    callback: Callable[[Received], Any]
    sources: tuple[Source, ...]
    is_bound: bool
    """Whether the sources are the queue's, which outlives its consumers."""


class Channel(virtual.Channel):  # type: ignore[misc]  # kombu is not typed
    """One of kombu's channels. It shares the connection, and the two sessions, with the others of its kombu connection."""

    closed: bool
    Message = Received
    QoS = Unsettled
    supports_fanout = True
    from_transport_options = ()

    def __init__(self, connection: Transport, **options: Any) -> None:
        super().__init__(connection, **options)
        self.link = connection.link_now()
        self._bound = connection.bound
        self._readers: dict[str, Consumer] = {}
        self._turn = 0

    # Queues

    @defers_signals()
    def queue_declare(
        self,
        queue: str | None = None,
        passive: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        **options: Any,
    ) -> Any:
        """Declare a queue, which JMS makes by itself. The number of messages is told of `passive` declarations alone: it takes a look at each."""
        name = queue or f"amq.gen-{uuid()}"
        if (exclusive or auto_delete) and not passive:
            self._bound.setdefault(name, {})
        return queue_declare_ok_t(name, self._size(name) if passive else 0, 0)

    @defers_signals()
    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Bind a queue to an exchange."""
        bindings = self._bound.get(queue)
        if bindings is None or not exchange:
            super().queue_bind(queue, exchange, routing_key, arguments, **options)
        elif (exchange, routing_key) not in bindings:
            kind = self.typeof(exchange)
            table = [kind.prepare_bind(queue, exchange, routing_key, arguments)]
            bindings[exchange, routing_key] = of_topic(
                self.link,
                exchange,
                routing_key,
                lambda key: bool(kind.lookup(table, exchange, key, None)),
                is_exact=kind.type == "direct",
            )

    @defers_signals()
    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Take a binding back."""
        source = self._bound.get(queue, {}).pop((exchange or "", routing_key), None)
        if source is None:
            super().queue_unbind(queue, exchange, routing_key, arguments, **options)
        else:
            source.close()

    @defers_signals()
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **options: Any) -> None:
        """Take back the bindings of a queue, and remove its messages. The queue itself stays: JMS cannot delete one.

        `if_unused`: its messages stay, too, as JMS does not tell who else consumes.
        """
        bindings = self._bound.pop(queue, None)
        for source in (bindings or {}).values():
            source.close()
        if not (bindings or if_unused or (if_empty and self._size(queue))):
            self._purge(queue)
        for exchange, routing_key, arguments in list(self.state.queue_bindings(queue)):
            super().queue_unbind(queue, exchange, routing_key, arguments)
        self.state.queue_bindings_delete(queue)

    def after_reply_message_received(self, queue: str) -> None:
        """Leave the queue: the next reply comes by it."""

    def _queue_bind(self, *binding: Any) -> None:
        """Have nothing to do: the table is kept in the process."""

    @defers_signals()
    def _size(self, queue: str) -> int:
        return self.link.count(_address(queue))

    @defers_signals()
    def _purge(self, queue: str) -> int:
        return self.link.purge(_address(queue))

    # Publishing

    @defers_signals()
    def basic_publish(self, message: Mapping[str, Any], exchange: str, routing_key: str, **options: Any) -> None:
        """Send to the queue that the routing key names; or to the queues that are bound, as far as is known here, and to the exchange's topic."""
        outgoing = Outgoing(message, exchange or "", routing_key or "")
        if not exchange:
            self.link.send(outgoing, _address(routing_key))
            return
        for queue in self._lookup(exchange, routing_key):
            self.link.send(outgoing, _address(queue))
        self.link.send(outgoing, Address(AddressKind.TOPIC, exchange))

    # Consuming

    @defers_signals()
    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Callable[[Received], Any],
        consumer_tag: str,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Consume from a queue, by `Transport.drain_events`; the argument `x-priority` is the consumer's priority."""
        self.basic_cancel(consumer_tag)
        bindings = self._bound.get(queue)
        if bindings:
            sources = tuple(bindings.values())
        else:
            sources = (of_queue(self.link, queue, int((arguments or {}).get("x-priority", 0))),)
        self._readers[consumer_tag] = Consumer(
            tag=consumer_tag, queue=queue, no_ack=no_ack, callback=callback, sources=sources, is_bound=bool(bindings)
        )

    @defers_signals()
    def basic_cancel(self, consumer_tag: str) -> None:
        """Consume no more. What was received stays to be acknowledged."""
        consumer = self._readers.pop(consumer_tag, None)
        if consumer is not None and not consumer.is_bound:
            for source in consumer.sources:
                source.close()

    @defers_signals()
    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Received | None:
        """Return the next message, None: there is none now."""
        bindings = self._bound.get(queue)
        sources = tuple(bindings.values()) if bindings else (of_queue(self.link, queue),)
        try:
            for source in sources:
                source.catch_up()
                delivery = source.take()
                if delivery is not None:
                    return self._received(delivery, queue, no_ack=no_ack)
        finally:
            if not bindings:
                sources[0].close()
        return None

    def next_delivery(self) -> Callable[[], Any] | None:
        """Take the next message, if there is one within the prefetch limits; return the function that passes it to its consumer."""
        readers = tuple(self._readers.values())
        if not self.qos.can_consume():
            return None
        for index in range(len(readers)):
            consumer = readers[(self._turn + index) % len(readers)]
            for source in consumer.sources:
                delivery = source.take(waits=True)
                if delivery is not None:
                    self._turn += index + 1
                    message = self._received(delivery, consumer.queue, no_ack=consumer.no_ack)
                    if not self.qos.can_consume():
                        self._rest(readers)
                    return partial(consumer.callback, message)
        return None

    def catch_up(self) -> None:
        """Wait until what there is for the consumers can be taken."""
        if self.qos.can_consume():
            for consumer in tuple(self._readers.values()):
                for source in consumer.sources:
                    source.catch_up()

    def _rest(self, consumers: tuple[Consumer, ...]) -> None:
        """Have what has been sent ahead go to others: there is no room for it."""
        for consumer in consumers:
            for source in consumer.sources:
                source.rest()

    def _received(self, delivery: Delivery, queue: str, *, no_ack: bool) -> Received:
        tag = self.qos.next_tag()
        if no_ack:
            try:
                self.link.acknowledge((delivery,))
            except InDoubtError as error:
                if isinstance(error, TooLateError):
                    raise  # it comes again; else it is settled, for all that is known, and comes from nowhere else
        else:
            self.qos.hold(tag, delivery)
        parts = parts_of(delivery, queue)
        return Received(
            body=parts.body,
            delivery_tag=tag,
            content_type=parts.content_type,
            content_encoding=parts.content_encoding,
            delivery_info={**parts.delivery_info, "delivery_tag": tag},
            properties={**parts.properties, "delivery_tag": tag},
            headers=parts.headers,
            channel=self,
        )

    # Settling. What was received before a loss comes again, and cannot be settled any more.

    @defers_signals()
    def basic_ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Acknowledge one message, or all up to it."""
        self._check_in_time()
        held = self.qos
        taken = held.take_up_to(delivery_tag) if multiple else [held.take(delivery_tag)]
        deliveries = [delivery for delivery in taken if delivery is not None]
        try:
            if deliveries:
                self.link.acknowledge(deliveries)
        finally:
            self.link.wake()  # there is room again

    @defers_signals()
    def basic_reject(self, delivery_tag: int, requeue: bool = False) -> None:
        """Have a message come again, or go to the dead letters."""
        self._check_in_time()
        delivery = self.qos.take(delivery_tag)
        try:
            if delivery is not None and requeue:
                self.link.give_back((delivery,))
            elif delivery is not None:
                self.link.reject(delivery)
        finally:
            self.link.wake()

    @defers_signals()
    def basic_recover(self, requeue: bool = False) -> None:
        """Have all come again that is not settled."""
        if not requeue:
            raise NotImplementedError("basic_recover(requeue=False): messages come again to whoever is next")
        deliveries = self.qos.take_all()
        if deliveries:
            self.link.give_back(deliveries)

    def _check_in_time(self) -> None:
        self.link.check()
        if self.closed:
            raise TooLateError("the channel by which the message came is closed: the message comes again")

    @defers_signals()
    def close(self) -> None:
        """End the consumers, and have all come again that is not settled."""
        if self.closed:
            return
        self.closed = True
        try:
            if self.link.is_usable:
                for tag in tuple(self._readers):
                    self.basic_cancel(tag)
                self.basic_recover(requeue=True)
        except ProviderError:
            pass  # the broker takes back what is its own
        finally:
            self._readers.clear()
            if self.connection is not None:
                self.connection.close_channel(self)
            self.exchange_types = None


def _address(queue: str) -> Address:
    return Address(AddressKind.QUEUE, queue)
