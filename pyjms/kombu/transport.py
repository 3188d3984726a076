"""kombu's transport and its channels: connections to a URL of pyjms, and kombu's queues in terms of JMS.

A queue is the JMS queue of its name. A queue that ends with its connection (auto-delete or exclusive) and is bound to
an exchange is no queue of the broker: it receives from the topic with the exchange's name, as long as this connection
is open. So a process that dies leaves nothing behind. The table of other bindings is local to this process: it has the
bindings that the process has declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final
from urllib.parse import quote

from kombu.exceptions import ChannelError, ConnectionError
from kombu.message import Message as Received
from kombu.transport import base, virtual
from kombu.transport.virtual import BrokerState
from kombu.transport.virtual.base import queue_declare_ok_t
from kombu.utils.uuid import uuid

from pyjms.kombu.envelopes import ROUTING_KEY, Outgoing, parts_of
from pyjms.kombu.link import Link
from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    ClosedError,
    ConnectionLostError,
    GoneError,
    InDoubtError,
    ProviderError,
    ResourceError,
    TooLateError,
)
from pyjms.spi.interrupts import defers_signals
from pyjms.spi.selector import Selector, compile_selector
from pyjms.spi.url import ProviderUrl
from pyjms.spi.words import installed_version


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Consumer:
    """A consumer of a queue on a channel."""

    tag: str
    queue: str
    no_ack: bool
    callback: Callable[[Received], Any]
    sources: tuple[Source, ...]
    is_bound: bool
    """Whether the sources belong to the queue, which outlives its consumers."""


class Unsettled:
    """Unsettled deliveries by their growing tags. Safe for any thread: each step is one operation of a dictionary."""

    def __init__(self, channel: Channel, prefetch_count: int = 0) -> None:
        """`prefetch_count`: the maximum number of unsettled deliveries; 0: unlimited."""
        self._channel = channel
        self.prefetch_count = prefetch_count
        # Delivery tags begin with 1, as in AMQP. The next one of a counter is taken atomically, so no lock is needed.
        self._tags = count(1)
        self._held: dict[int, Delivery] = {}

    def __len__(self) -> int:
        return len(self._held)

    def can_consume(self) -> bool:
        """Whether another delivery fits the limit."""
        return not self.prefetch_count or len(self._held) < self.prefetch_count

    def can_consume_max_estimate(self) -> int | None:
        """Return how many more deliveries fit the limit; None: unlimited."""
        return max(self.prefetch_count - len(self._held), 0) if self.prefetch_count else None

    def next_tag(self) -> int:
        """Return a tag that this channel has not given."""
        return next(self._tags)

    def hold(self, tag: int, delivery: Delivery) -> None:
        """Add an unsettled delivery."""
        self._held[tag] = delivery

    def take(self, tag: int) -> Delivery | None:
        """Remove and return a delivery; None: it is already settled."""
        return self._held.pop(tag, None)

    def pop_up_to(self, tag: int) -> Sequence[Delivery]:
        """Remove and return all deliveries up to this tag, in the order of their receipt."""
        # Over a copy, and with a default: Celery acknowledges on other threads meanwhile.
        taken = (self._held.pop(each, None) for each in self._held.copy() if each <= tag)
        return [delivery for delivery in taken if delivery is not None]

    def take_all(self) -> Sequence[Delivery]:
        """Remove and return all deliveries, in that order."""
        return self.pop_up_to(max(self._held.copy(), default=0))

    def restore_unacked(self) -> None:
        """Requeue all deliveries."""
        self._channel.basic_recover(requeue=True)

    def restore_unacked_once(self, stderr: object = None) -> None:
        """Requeue all deliveries: after a process has died the broker does it by itself."""
        self.restore_unacked()


class Channel(virtual.Channel):  # type: ignore[misc]  # kombu is not typed
    """One of kombu's channels. It shares the connection, and the two sessions, with the others of its kombu connection."""

    closed: bool
    Message = Received
    # kombu's own class restores unacknowledged messages by republishing them; here the broker redelivers them.
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
        """Declare a queue, which JMS creates by itself. Only `passive` declarations return the number of messages, as
        counting reads each.
        """
        name = queue or f"amq.gen-{uuid()}"
        if (exclusive or auto_delete) and not passive:
            # Its first binding makes it a subscription; without one it is the JMS queue of its name.
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
            # kombu's exchange type decides what the binding matches, as if this were the exchange's only one.
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
        """Remove a binding."""
        source = self._bound.get(queue, {}).pop((exchange or "", routing_key), None)
        if source is None:
            super().queue_unbind(queue, exchange, routing_key, arguments, **options)
        else:
            source.close()

    @defers_signals()
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **options: Any) -> None:
        """Remove the bindings of a queue, and its messages. The queue itself stays: JMS cannot delete one.

        `if_unused`: its messages stay, too, as JMS does not tell whether it has other consumers.
        """
        bindings = self._bound.pop(queue, None)
        for source in (bindings or {}).values():
            source.close()
        # A bound queue that ends with its connection has no messages at the broker: its subscriptions have just been
        # closed.
        if not (bindings or if_unused or (if_empty and self._size(queue))):
            self._purge(queue)
        for exchange, routing_key, arguments in list(self.state.queue_bindings(queue)):
            super().queue_unbind(queue, exchange, routing_key, arguments)
        self.state.queue_bindings_delete(queue)

    def after_reply_message_received(self, queue: str) -> None:
        """Keep the queue: the next reply arrives in it."""

    def _queue_bind(self, *binding: Any) -> None:
        """Do nothing: the table is in this process."""

    @defers_signals()
    def _size(self, queue: str) -> int:
        return self.link.count(_address(queue))

    @defers_signals()
    def _purge(self, queue: str) -> int:
        return self.link.purge(_address(queue))

    # Publishing

    @defers_signals()
    def basic_publish(self, message: Mapping[str, Any], exchange: str, routing_key: str, **options: Any) -> None:
        """Send to the queue that the routing key names; or to the bound queues, as far as this process knows them, and
        to the exchange's topic.
        """
        outgoing = Outgoing(message, exchange or "", routing_key or "")
        if not exchange:
            self.link.send(outgoing, _address(routing_key))
            return
        for queue in self._lookup(exchange, routing_key):
            self.link.send(outgoing, _address(queue))
        # Sent in any case: this process does not know which other processes have bound a queue to the exchange.
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
        """Cancel a consumer. Its deliveries can still be acknowledged."""
        consumer = self._readers.pop(consumer_tag, None)
        if consumer is not None and not consumer.is_bound:
            for source in consumer.sources:
                source.close()

    @defers_signals()
    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Received | None:
        """Return the next message, or None."""
        bindings = self._bound.get(queue)
        sources = tuple(bindings.values()) if bindings else (of_queue(self.link, queue),)
        try:
            for source in sources:
                # A new consumer has fetched nothing: over a network, poll alone would find the queue empty.
                source.catch_up()
                delivery = source.take()
                if delivery is not None:
                    return self._received(delivery, queue, no_ack=no_ack)
        finally:
            if not bindings:
                # Closed at once: otherwise messages would be sent to a consumer that is never polled.
                sources[0].close()
        return None

    def next_delivery(self) -> Callable[[], Any] | None:
        """Take the next message, if there is one within the prefetch limits; return the function that passes it to its
        consumer.
        """
        # A copy: another thread may cancel a consumer meanwhile.
        readers = tuple(self._readers.values())
        if not self.qos.can_consume():
            return None
        for index in range(len(readers)):
            consumer = readers[(self._turn + index) % len(readers)]
            for source in consumer.sources:
                delivery = source.take(waits=True)
                if delivery is not None:
                    # The next search begins with the consumer after this one, so that a full queue does not starve the
                    # others.
                    self._turn += index + 1
                    message = self._received(delivery, consumer.queue, no_ack=consumer.no_ack)
                    if not self.qos.can_consume():
                        # The prefetch limit is reached: prefetched messages go to other consumers instead of waiting
                        # here.
                        self._release_prefetched(readers)
                    return partial(consumer.callback, message)
        return None

    def catch_up(self) -> None:
        """Wait until the messages present now can be taken."""
        if self.qos.can_consume():
            for consumer in tuple(self._readers.values()):
                for source in consumer.sources:
                    source.catch_up()

    def _release_prefetched(self, consumers: tuple[Consumer, ...]) -> None:
        """Release prefetched messages: there is no room for them."""
        for consumer in consumers:
            for source in consumer.sources:
                source.release_prefetched()

    def _received(self, delivery: Delivery, queue: str, *, no_ack: bool) -> Received:
        tag = self.qos.next_tag()
        # As in AMQP, the message is settled before the program has it: it is lost if the program crashes.
        if no_ack:
            try:
                self.link.acknowledge((delivery,))
            except InDoubtError as error:
                if isinstance(error, TooLateError):
                    raise  # it will be redelivered; after other errors it counts as settled, and this is its only copy
        else:
            # Recorded before the callback can run, which may acknowledge it by its tag.
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

    # Settling. Messages received before a connection loss are redelivered, and cannot be settled any more.

    @defers_signals()
    def basic_ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Acknowledge one message, or all up to it."""
        # After a loss the broker has requeued the messages; acknowledging them on a new session would settle nothing,
        # without an error.
        self._check_in_time()
        held = self.qos
        taken = held.pop_up_to(delivery_tag) if multiple else [held.take(delivery_tag)]
        deliveries = [delivery for delivery in taken if delivery is not None]
        try:
            if deliveries:
                self.link.acknowledge(deliveries)
        finally:
            self.link.wake()  # there is room again

    @defers_signals()
    def basic_reject(self, delivery_tag: int, requeue: bool = False) -> None:
        """Requeue a message, or dead-letter it."""
        self._check_in_time()
        delivery = self.qos.take(delivery_tag)
        try:
            if delivery is not None and requeue:
                self.link.requeue((delivery,))
            elif delivery is not None:
                self.link.reject(delivery)
        finally:
            self.link.wake()

    @defers_signals()
    def basic_recover(self, requeue: bool = False) -> None:
        """Requeue all unsettled messages."""
        if not requeue:
            raise NotImplementedError("basic_recover(requeue=False): messages come again to whoever is next")
        deliveries = self.qos.take_all()
        if deliveries:
            self.link.requeue(deliveries)

    def _check_in_time(self) -> None:
        self.link.check()
        if self.closed:
            raise TooLateError("the channel by which the message came is closed: the message comes again")

    @defers_signals()
    def close(self) -> None:
        """Close the consumers, and requeue all unsettled messages."""
        if self.closed:
            return
        # Set first: another thread that settles a message from here on gets the error that it is too late.
        self.closed = True
        try:
            if self.link.is_usable:
                # The consumers close before the messages are requeued; otherwise they would get them again.
                for tag in tuple(self._readers):
                    self.basic_cancel(tag)
                self.basic_recover(requeue=True)
        except ProviderError:
            pass  # the broker requeues its messages
        finally:
            # Even if the connection is lost: the next search must not poll this channel's consumers on a dead session.
            self._readers.clear()
            if self.connection is not None:
                self.connection.close_channel(self)
            self.exchange_types = None


def _address(queue: str) -> Address:
    return Address(AddressKind.QUEUE, queue)


class Source:
    """A consumer of the SPI, with a filter for its messages."""

    def __init__(
        self,
        link: Link,
        address: Address,
        *,
        selector: Selector | None = None,
        is_wanted: Callable[[Delivery], bool] | None = None,
        priority: int = 0,
    ) -> None:
        self._link = link
        self._is_wanted = is_wanted
        self._is_shared = address.kind is AddressKind.QUEUE
        self._consumer = link.subscribe(address, selector, priority)

    def take(self, *, waits: bool = False) -> Delivery | None:
        """Return the next message, or None. With `waits` the link is woken when one arrives."""
        while True:
            try:
                delivery = self._link.poll(self._consumer, waits=waits, is_shared=self._is_shared)
            except GoneError:
                continue  # quarantined, as it cannot be read; the provider tells its owner
            if delivery is None or self._is_wanted is None or self._is_wanted(delivery):
                return delivery
            # A topic's message for another routing key: settled, as it would otherwise stay with this session.
            self._link.acknowledge((delivery,))

    def catch_up(self) -> None:
        """Wait until `take` would return the messages present now."""
        self._link.catch_up(self._consumer)

    def release_prefetched(self) -> None:
        """Release prefetched messages for other consumers."""
        if self._is_shared:
            self._link.release_prefetched(self._consumer)

    def close(self) -> None:
        """Close it."""
        self._link.end(self._consumer)


def of_queue(link: Link, queue: str, priority: int = 0) -> Source:
    """Receive from the queue with this name."""
    return Source(link, Address(AddressKind.QUEUE, queue), priority=priority)


def of_topic(link: Link, exchange: str, binding_key: str, matches: Callable[[str], bool], *, is_exact: bool) -> Source:
    """Receive messages published to an exchange from now on, from the topic with its name, if their routing key
    `matches`.

    `is_exact`: only the binding key itself matches, so a broker with selectors can filter.
    """
    selector = None
    # A selector cannot express the patterns of a topic exchange: * matches one word there, and LIKE knows no words.
    if is_exact and Capability.SELECTORS in link.capabilities and binding_key.isprintable():
        quoted = binding_key.replace("'", "''")
        selector = compile_selector(f"{ROUTING_KEY} = '{quoted}'")
    return Source(
        link,
        Address(AddressKind.TOPIC, exchange),
        selector=selector,
        is_wanted=lambda delivery: matches(str(delivery.envelope.properties.get(ROUTING_KEY) or "")),
    )


_states: Final[dict[str, BrokerState]] = {}
"""By URL, the declarations of this process, on any connection."""


class Transport(virtual.Transport):  # type: ignore[misc]  # kombu is not typed
    """For kombu's connections ``pyjms+URL``, such as ``pyjms+stomp://HOST:PORT`` or ``pyjms+vm://NAME``."""

    Channel = Channel
    can_parse_url = True
    driver_type = "jms"
    driver_name = "pyjms"
    implements = base.Transport.implements.extend(
        # a thread waits: the provider's messages have no file descriptor that an event loop could watch
        asynchronous=False,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,  # the provider sends its own heartbeats
    )
    connection_errors = (ConnectionLostError, ClosedError, InDoubtError, ResourceError, ConnectionError)
    channel_errors = (ProviderError, ChannelError)
    recoverable_connection_errors: ClassVar[tuple[type[BaseException], ...]] = connection_errors
    recoverable_channel_errors: ClassVar[tuple[type[BaseException], ...]] = ()

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        # Before the URL is shown anywhere: celery inspect stats sends it to every caller (decision 0213).
        _take_credentials(client)
        # Shared by the connections of the process: one declares the bindings, and another one publishes by them.
        self.state = _states.setdefault(str(client.hostname), BrokerState())
        self.bound: dict[str, dict[tuple[str, str], Source]] = {}
        """The queues that end with the connection, and their bindings."""
        self._link: Link | None = None
        self._turn = 0

    # Connecting

    @defers_signals()
    def establish_connection(self) -> Transport:
        """Connect. Raises `ProviderError`."""
        if self._link is not None:
            self._link.close()
        client = self.client
        url = ProviderUrl.parse(str(client.hostname))
        defaults = {"prefetch_messages": "1"}  # otherwise a provider prefetches more than kombu has asked for
        if client.connect_timeout:
            defaults["connect_timeout_ms"] = str(max(int(client.connect_timeout * 1000), 1))
        # The subscriptions ended with the old connection.
        self.bound = {}
        # A new link for each connection, while channels keep the old one: so they notice that theirs is closed.
        self._link = Link(url, client.userid or None, client.password or None, defaults)
        return self

    def link_now(self) -> Link:
        """Return the connection. Raises `ClosedError`."""
        if self._link is None:
            raise ClosedError("kombu's connection is closed")
        return self._link

    def verify_connection(self, connection: object) -> bool:
        """Say whether the connection may be used.

        After a loss it says no only once a call has raised the loss: otherwise kombu would reconnect by itself, and
        consumers would wait for ever.
        """
        return self._link is not None and self._link.is_open

    @defers_signals()
    def close_connection(self, connection: object) -> None:
        """Close the connection: all unacknowledged messages are redelivered."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        for channel in list(self.channels):
            channel.close()

    def qos_semantics_matches_spec(self, connection: object) -> bool:
        """Say that a prefetch count holds for the whole channel, and at once for existing consumers: Celery changes it
        for them.
        """
        return False

    def driver_version(self) -> str:
        """Return the version of pyjms."""
        return installed_version()

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Return the URL for display: without the password, and without the values of options, which may be secrets,
        too.
        """
        scheme, _, place = uri.partition("://")
        place, mark, options = place.partition("?")
        if options and not include_password:
            options = "&".join(f"{option.partition('=')[0]}={mask}" for option in options.split("&"))
        user = quote(self.client.userid or "", safe="")
        if self.client.password:
            user += ":" + (quote(str(self.client.password), safe="") if include_password else mask)
        return f"pyjms+{scheme}://{user}{'@' if user else ''}{place}{mark}{options}"

    # Receiving

    def drain_events(self, connection: object, timeout: float | None = None, **options: Any) -> None:
        """Deliver one message. Raises `TimeoutError` after `timeout` seconds without one; `ConnectionLostError`."""
        link = self.link_now()
        until_ms = None if timeout is None else link.clock.monotonic_ms() + timeout * 1000
        try:
            # Without a wait, messages under way on the network would be missed, so the broker is asked first.
            if timeout is not None and timeout <= 0:
                for channel in list(self.channels):
                    channel.catch_up()
            hand_over = self._next_delivery(link)
            while hand_over is None:
                if not link.wait(until_ms):
                    raise TimeoutError("no message has come in time")
                hand_over = self._next_delivery(link)
                # A wake-up may be for a message that another consumer took: many of these must not extend the time-out.
                if hand_over is None and until_ms is not None and link.clock.monotonic_ms() >= until_ms:
                    raise TimeoutError("no message has come in time")
        finally:
            link.end_interest()  # the consumer's work may take long
        # The program's callback runs outside of all guards: its signals and its errors are its own.
        hand_over()

    @defers_signals(undo=lambda hand_over: _give_back(hand_over))  # noqa: PLW0108 - it is defined below
    def _next_delivery(self, link: Link) -> Callable[[], Any] | None:
        """Take a message from one of the channels, in turn."""
        link.check()
        # The program may have closed or renewed the connection on another thread during the wait.
        if link is not self._link:
            raise ClosedError("kombu's connection was closed")
        channels = list(self.channels)
        for channel in channels:
            if channel.link is not link:
                channel.close()
                raise ConnectionLostError("the connection was made anew: so must be channels and consumers")
        for index in range(len(channels)):
            hand_over: Callable[[], Any] | None = channels[(self._turn + index) % len(channels)].next_delivery()
            if hand_over is not None:
                self._turn += index + 1
                return hand_over
        return None


def _give_back(hand_over: Callable[[], Any] | None) -> None:
    """Requeue a message that was not delivered, as a signal's handler has raised."""
    if isinstance(hand_over, partial):
        [message] = hand_over.args
        if not message.acknowledged:
            with suppress(ProviderError):  # then its connection is lost, and the broker redelivers it
                message.requeue()


def _take_credentials(client: Any) -> None:
    """Move user and password from kombu's URL into attributes of the connection: the URL goes into logs, and to other
    programs.
    """
    scheme, mark, place = str(client.hostname).partition("://")
    authority, rest = re.split(r"(?=[/?])|$", place, maxsplit=1)
    _, at, host = authority.rpartition("@")
    if at:
        url = ProviderUrl.parse(f"{scheme}{mark}{authority}")
        client.hostname = f"{scheme}{mark}{host}{rest}"
        client.userid = client.userid or url.user_name
        client.password = client.password or url.password
