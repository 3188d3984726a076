"""Links on which a client receives: consumers of queues, of topics and of their subscriptions, and browsers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ProviderError, UnknownSubscriptionError
from pyjms.spi.fast_paths import FAST_PATHS
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.selector import selector_or_none
from pyjms_provider.amqp.addresses import GLOBAL, SHARED, capability_of, resolve
from pyjms_provider.amqp.codec import Described
from pyjms_provider.amqp.envelope import write_envelope
from pyjms_provider.amqp.errors import AmqpError, Condition, LinkFault
from pyjms_provider.amqp.performatives import (
    RELEASED,
    Attach,
    Durability,
    SenderSettleMode,
    Source,
    TransactionalState,
)
from pyjms_provider.protocols.amqp.server.producers import create_dynamic
from pyjms_provider.protocols.amqp.server.work import Work, nothing
from pyjms_provider.protocols.reading_ahead import LOOK_MESSAGES, Browsing, Fetching
from pyjms_provider.protocols.scheduling import PULLS_PER_TURN

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConsumer
    from pyjms.spi.selector import Selector
    from pyjms_provider.protocols.amqp.link import IncomingDelivery, OutgoingDelivery, Sender
    from pyjms_provider.protocols.amqp.server.contracts import LinkSession
    from pyjms_provider.protocols.amqp.server.transactions import Transaction

_SELECTORS: Final = frozenset({0x0000468C00000004, "apache.org:selector-filter:string"})
_NO_LOCAL: Final = frozenset({0x0000468C00000003, "apache.org:no-local-filter:list"})
_numbered = re.compile(r"(.+?)\|(?:global|global-volatile|volatile)?\d*", re.DOTALL).fullmatch
"""Matches the name of a link to a shared subscription, as Qpid JMS numbers them: ``news|2``, ``news|global``."""


def attach_consumer(session: LinkSession, link: Sender) -> ConsumerLink | BrowserLink | NamedLink:
    """Attach a link on which the client receives. Raises `LinkFault`: it cannot be."""
    assert link.remote is not None
    source = link.remote.source
    if source is None:
        return NamedLink(session, link)
    if not isinstance(source, Source):
        raise LinkFault(Condition.INVALID_FIELD, "a link of a receiver has a source with an address")
    if source.dynamic:
        return DynamicConsumerLink(session, link, source, Address(AddressKind.QUEUE, ""))
    address = resolve(source.address, source.capabilities, session.engine.guard.host.has)
    if source.distribution_mode == "copy" and address.kind is AddressKind.QUEUE:
        return BrowserLink(session, link, source, address)
    return ConsumerLink(session, link, source, address)


class Filters:
    """The filters of a source that the broker keeps to (part 3, 3.5.8)."""

    def __init__(self, source: Source) -> None:
        """Raises `LinkFault` for a filter that is not known, or has no right value."""
        self.selector: str | None = None
        self.no_local = False
        self.kept: dict[str, Any] = {}
        """What the broker answers with."""
        for name, value in (source.filter or {}).items():
            if not isinstance(value, Described):
                raise LinkFault(Condition.INVALID_FIELD, f"the filter {name!r} is not described")
            if value.descriptor in _SELECTORS:
                if not isinstance(value.value, str):
                    raise LinkFault(Condition.INVALID_FIELD, "a selector is a text")
                self.selector = str(value.value)
            elif value.descriptor in _NO_LOCAL:
                self.no_local = True
            else:
                # A client that asks for some messages must not get all of them.
                raise LinkFault(Condition.NOT_IMPLEMENTED, f"the filter {name!r} is not known here")
            self.kept[name] = value

    def compiled(self) -> Selector | None:
        """Return the selector. May take long; raises `InvalidSelectorError`."""
        return selector_or_none(self.selector)


class _OutgoingLink:
    """What links on which the client receives have in common. The connection's thread."""

    def __init__(self, session: LinkSession, link: Sender, source: Source, address: Address) -> None:
        assert link.remote is not None
        self.link = link
        self.address = address
        self.session = session
        self.source = source
        self.unsettled: dict[int, Delivery] = {}
        """What the client has and has not settled, by the number of the delivery."""
        self.is_attached = False
        self.pulls_per_turn = PULLS_PER_TURN
        self.may_have_more = True
        self._is_presettled = link.remote.snd_settle_mode == SenderSettleMode.SETTLED
        self._tag = 0
        self._acquiring: Transaction | None = None
        """The transaction in which messages are acquired (part 4, 4.4.3)."""

    def on_ready(self) -> None:
        """Have a turn, as there may be work. Any thread."""
        self.session.consumers.schedule(self)

    def pull(self) -> Iterable[bytes] | None:
        """Return one message in parts, or None: nothing is there, or nothing may be sent now."""
        raise NotImplementedError

    def credit_changed(self) -> None:
        """Go on, as the client has given credit, or asks to drain."""
        properties = self.link.properties
        try:
            self._acquiring = (
                self._transaction_of(properties["txn-id"]) if properties and "txn-id" in properties else None
            )
        except LinkFault as fault:
            self.session.end_link(self.link, fault)
            return
        if self.is_attached:
            self.on_ready()

    def _transaction_of(self, txn_id: Any) -> Transaction:
        if not isinstance(txn_id, bytes):
            raise LinkFault(Condition.INVALID_FIELD, "the id of a transaction is binary")
        if self._is_presettled:
            raise LinkFault(Condition.NOT_IMPLEMENTED, "settled messages are not acquired in a transaction here")
        return self.session.engine.transactions.find(txn_id)

    def received(self, delivery: IncomingDelivery) -> None:
        """Senders receive nothing here."""

    def settled_by_client(self, count: int) -> None:
        """Senders receive nothing here."""

    def attach(self, source: Source) -> None:
        """Answer the client's attach."""
        remote = self.link.remote
        assert remote is not None
        self.link.attach(
            Attach(
                "",
                0,
                False,
                snd_settle_mode=SenderSettleMode.SETTLED if self._is_presettled else SenderSettleMode.UNSETTLED,
                rcv_settle_mode=remote.rcv_settle_mode,
                source=source,
                target=remote.target,
            )
        )
        self.is_attached = True
        self.on_ready()

    @property
    def is_open(self) -> bool:
        """Whether messages may go out. A link ends with its session, too, before the work that ends it here has its turn."""
        return self.is_attached and self.link.is_attached

    @property
    def may_send(self) -> bool:
        """Whether a message could go out now; if not, the link has its turn again when that changes."""
        if not self.is_open or self.link.credit <= 0:
            return False
        if not self.session.may_send:
            self.session.held_up.append(self.on_ready)
            return False
        return self._is_presettled or len(self.unsettled) < self.session.engine.service.settings.unsettled_max

    def write(self, delivery: Delivery, *, is_settled: bool) -> Iterable[bytes]:
        """Send a message; return the bytes. Raises `ProviderError` if it cannot be read."""
        self._send(delivery, is_settled=is_settled)
        return (self.session.engine.machine.take(),)

    def _send(self, delivery: Delivery, *, is_settled: bool) -> None:
        engine, link = self.session.engine, self.link
        data = write_envelope(
            delivery.envelope, now_ms=engine.service.clock.time_ms(), delivery_count=delivery.count - 1
        )
        self._tag += 1
        transaction = self._acquiring if self._acquiring is not None and self._acquiring.is_open else None
        state = None if transaction is None else TransactionalState(transaction.txn_id)
        sent = link.send(data, self._tag.to_bytes(8, "big"), is_settled=is_settled, state=state)
        if not is_settled:
            sent.context = self
            self.unsettled[sent.id] = delivery
            if transaction is not None:
                transaction.acquired.append(partial(self._give_back, sent))

    def _give_back(self, sent: OutgoingDelivery) -> None:
        """Give back what was acquired in a transaction that is rolled back, if the client holds it still."""
        delivery = self.take(sent)
        if delivery is not None:
            give_back = partial(self.session.receiving.give_back_unseen, [delivery])
            self.session.add(Work(give_back, partial(self._given_back, sent), self.session.waits))

    def _given_back(self, sent: OutgoingDelivery, error: Exception | None) -> None:
        if error is not None:
            self.session.end_link(self.link, error)
            return
        self.session.session.settle_outgoing(sent, RELEASED)
        self.settled()

    def drained(self) -> Iterable[bytes] | None:
        """Say that there is nothing more, if the client wants to know."""
        if self.is_attached and self.link.is_draining:
            self.link.drained()
            return (self.session.engine.machine.take(),)
        return None

    # Settlement

    def take(self, sent: OutgoingDelivery) -> Delivery | None:
        """Take a delivery that is being settled; None: it has been."""
        return self.unsettled.pop(sent.id, None)

    def put_back(self, sent: OutgoingDelivery, delivery: Delivery) -> None:
        """Have the client hold a delivery again."""
        self.unsettled[sent.id] = delivery

    def settled(self) -> None:
        """Go on, as there may be room for more."""
        if len(self.unsettled) + 1 >= self.session.engine.service.settings.unsettled_max:
            self.on_ready()


class _DirectConsumer:
    """Takes messages for a consumer's link while they are sent on its thread (decision 0610)."""

    def __init__(self, link: ConsumerLink) -> None:
        self._link = link
        self._direct_deliveries = link.session.engine.service.direct_deliveries

    def may_take(self) -> bool:
        """Return whether the link takes a message now: nothing of it or its connection is pending. Any thread."""
        # Called under the queue's lock, perhaps on another thread, which may not look at the machine.
        return FAST_PATHS and self._direct_deliveries.thread == get_ident() and self._link.may_take

    def take(self, delivery: Delivery) -> None:
        """Take the message for which `may_take` returned True. It is written after the send."""
        # An error of this client's socket must not become the sender's.
        self._direct_deliveries.taken.append((self, delivery))

    def write(self, delivery: Delivery) -> None:
        """Write a taken message."""
        self._link.push(delivery)


class ConsumerLink(_OutgoingLink):
    """A consumer of a queue, or of a subscription."""

    def __init__(self, session: LinkSession, link: Sender, source: Source, address: Address) -> None:
        super().__init__(session, link, source, address)
        self._filters = Filters(source)
        self._consumer: ProviderConsumer | None = None
        self._held: Delivery | None = None
        """A message that was taken, and has no credit any more."""
        self._is_ended = False
        self._has_subscribed = False
        self._request: SubscribeRequest | None = None
        engine = session.engine
        self._fetching = Fetching(
            engine,
            session.receiving,
            ready=self.on_ready,
            lost=self.on_ready,
            none=self._found_none,
            failed=self._failed,
        )
        session.add(Work(self._begin, self._begun, session.waits or self._filters.selector is not None))

    def _begin(self) -> None:
        """Subscribe. May wait; raises `ProviderError`."""
        session, guard = self.session, self.session.engine.guard
        self._make_node()
        address = self.address
        if address.temporary and guard.host.has(address) and guard.host.owner_of(address) != guard.connection_id:
            raise LinkFault(Condition.RESOURCE_LOCKED, f"only the connection that made {address} reads it")
        guard.read(address)
        request = self._request = self._requested()
        if request.durable_name is not None or request.shared_name is not None:
            guard.subscribe(self._client_id, request.durable_name or request.shared_name or "")
        self._consumer = guard.host.subscribe(session.receiving, (request,), self._notified, self._client_id)
        self._has_subscribed = True

    def _make_node(self) -> None:
        """Make the node, if the link has one of its own. Raises `ProviderError`."""

    @property
    def _client_id(self) -> str:
        return "" if GLOBAL in self.source.capabilities else self.session.engine.container_id

    def _requested(self) -> SubscribeRequest:
        """Return what the source asks for."""
        source, is_topic = self.source, self.address.kind is AddressKind.TOPIC
        is_shared = is_topic and SHARED in source.capabilities
        if GLOBAL in source.capabilities and not is_shared:
            raise LinkFault(
                Condition.INVALID_FIELD, "a subscription that belongs to no client is a shared one of a topic"
            )
        is_durable = is_topic and (source.durable != Durability.NONE or source.expiry_policy == "never")
        name = subscription_name(self.link.name) if is_shared else self.link.name
        properties = self.link.remote.properties if self.link.remote is not None else None
        priority = (properties or {}).get("priority")
        return SubscribeRequest(
            address=self.address,
            selector=self._filters.compiled(),
            no_local=self._filters.no_local,
            durable_name=name if is_durable else None,
            priority=int(priority) if isinstance(priority, int) else 0,
            shared_name=name if is_shared and not is_durable else None,
            is_shared=is_shared and is_durable,
        )

    def _begun(self, error: Exception | None) -> None:
        if error is not None:
            self.session.refuse(self.link, error)
            return
        self.attach(self._answered())
        if self._consumer is not None and not self._is_presettled:
            self.session.engine.guard.host.hand_over(self._consumer, _DirectConsumer(self))

    def _answered(self) -> Source:
        """Return the source as the broker has it."""
        wanted = self.source.capabilities
        known = {capability_of(self.address), SHARED, GLOBAL}
        return replace(
            self.source,
            filter=self._filters.kept or None,
            capabilities=tuple(each for each in wanted if each in known),
        )

    # Delivering

    def _notified(self) -> None:
        """Have a turn, as a message may have come. Any thread."""
        self._fetching.is_woken = True
        self.on_ready()

    def _found_none(self) -> None:
        self.on_ready()

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, ProviderError):
            self.session.end_consumers((self.link,), error)
        else:
            self.session.engine.fail(error)

    def pull(self) -> Iterable[bytes] | None:
        consumer, fetching = self._consumer, self._fetching
        if consumer is None or not self.is_open or fetching.is_busy:
            return None
        if fetching.has_found_none and fetching.pop_found_none():
            return self.drained()
        delivery, self._held = self._held, None
        if delivery is None:
            delivery = fetching.take()
        if not self.may_send:
            self._held = delivery
            # Another consumer may be woken for the messages to come (QCM-25).
            consumer.set_interested(False)
            # A client may drain with a credit of 0, and waits for the answer.
            return None if self.link.credit else self.drained()
        if delivery is None:
            polled = consumer.poll_at_once()
            if polled is None:
                return self.drained()
            if type(polled) is not Delivery:
                fetching.begin(polled, consumer)
                return None
            delivery = polled
        written = self.write(delivery, is_settled=self._is_presettled)
        if self._is_presettled:
            self.session.written.append(delivery)
        return written

    @property
    def may_take(self) -> bool:
        """Whether a message that is being sent may be taken, as nothing is pending before it."""
        session, link = self.session, self.link
        return (
            link.credit > 0
            and self.is_open
            and not link.is_draining
            and self._held is None
            and self._acquiring is None
            and not self._fetching.is_busy
            and self not in session.consumers.scheduled
            and session.may_send
            and len(self.unsettled) < session.engine.service.settings.unsettled_max
            and session.engine.is_free
        )

    def push(self, delivery: Delivery) -> None:
        """Send a message that was taken, at once. Never raises."""
        engine, consumer = self.session.engine, self._consumer
        if not self.may_send:  # another link of its session has used up the window meanwhile
            self._held = delivery
            self.on_ready()
            return
        try:
            self._send(delivery, is_settled=False)
            engine.push()
            if self.link.credit <= 0 and consumer is not None:
                consumer.set_interested(False)  # as in `pull`
        except (ProviderError, AmqpError) as error:
            self.session.end_link(self.link, error)
        except Exception as error:
            engine.fail(error)

    # The end

    @property
    def is_open(self) -> bool:
        return super().is_open and not self._is_ended

    def stop(self) -> None:
        """Send nothing more, as `end_consumer` follows."""
        self._is_ended = True

    def end_consumer(self) -> None:
        """Close the consumer; the client holds on to what it has not settled, until it detaches the link. May wait; raises `ProviderError`."""
        self._give_back_unseen(self._close_consumer())

    def _close_consumer(self) -> list[Delivery]:
        """Close the consumer, and return what was taken and not sent."""
        consumer, self._consumer = self._consumer, None
        self._fetching.drop()
        if consumer is not None:
            consumer.close()
        if self.session.waits:
            self._fetching.await_end()  # else the session might end first, and the message count as delivered
        held, self._held = self._held, None
        return [] if held is None else [held]

    def _give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self.session.receiving.give_back_unseen(deliveries)

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it. A durable subscription ends with a link that is closed, and stays where it is detached alone."""
        self.is_attached = False
        self._is_ended = True
        return Work(partial(self._end, is_closed=is_closed), nothing, self.session.waits)

    def _end(self, *, is_closed: bool) -> None:
        """Close the consumer, and give back what the client has not settled. May wait; raises `ProviderError`."""
        held = self._close_consumer()
        left = list(self.unsettled.values())
        self.unsettled.clear()
        # A client that has worked on a message says so before it detaches: others count as not delivered, as at Artemis.
        self._give_back_unseen([*left, *held])
        request = self._request
        if is_closed and self._has_subscribed and request is not None and request.durable_name is not None:
            self._unsubscribe(request.durable_name)

    def _unsubscribe(self, name: str) -> None:
        guard = self.session.engine.guard
        guard.subscribe(self._client_id, name)
        guard.host.unsubscribe(self.session.receiving, name, self._client_id)


class DynamicConsumerLink(ConsumerLink):
    """A consumer of a temporary queue or topic of its own, which lives as long as the link."""

    def _make_node(self) -> None:
        self.address = create_dynamic(self.session, self.source)

    def _answered(self) -> Source:
        return replace(super()._answered(), address=self.address.name, capabilities=(capability_of(self.address),))

    def _end(self, *, is_closed: bool) -> None:
        super()._end(is_closed=False)
        if is_closed and self.address.name:
            self.session.engine.connection.delete_temporary(self.address)


class BrowserLink(_OutgoingLink):
    """A browser of a queue: its messages stay there, and their transfers are settled."""

    def __init__(self, session: LinkSession, link: Sender, source: Source, address: Address) -> None:
        super().__init__(session, link, source, address)
        self._filters = Filters(source)
        self._browsing: Browsing | None = None
        session.add(Work(self._begin, self._begun, session.waits or self._filters.selector is not None))

    def _begin(self) -> None:
        """Begin to browse. May wait; raises `ProviderError`."""
        self.session.engine.guard.browse(self.address)
        messages: Iterator[Delivery] = self.session.receiving.browse(self.address, self._filters.compiled())
        self._browsing = Browsing(self.session.engine, messages, self._encoded, self.on_ready, self._failed)

    def _begun(self, error: Exception | None) -> None:
        if error is not None:
            self.session.refuse(self.link, error)
            return
        self.attach(replace(self.source, filter=self._filters.kept or None))

    def _encoded(self, delivery: Delivery) -> Iterable[bytes]:
        now_ms = self.session.engine.service.clock.time_ms()
        return (write_envelope(delivery.envelope, now_ms=now_ms, delivery_count=delivery.count - 1),)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, ProviderError):
            self.session.end_link(self.link, error)
        else:
            self.session.engine.fail(error)

    def pull(self) -> Iterable[bytes] | None:
        browsing = self._browsing
        if browsing is None or not self.is_open:
            return None
        if browsing.has_ended:
            return self.drained()
        if not self.may_send:
            return None
        if browsing.is_empty:
            browsing.look(min(self.link.credit, LOOK_MESSAGES))
            return None
        (data,) = browsing.take()
        self._tag += 1
        self.link.send(data, self._tag.to_bytes(8, "big"), is_settled=True)
        return (self.session.engine.machine.take(),)

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it."""
        self.is_attached = False
        if self._browsing is not None:
            self._browsing.end()
        return None


class NamedLink(_OutgoingLink):
    """A link that names a durable subscription alone, to see whether it is there, and to end it (as Qpid JMS unsubscribes)."""

    def __init__(self, session: LinkSession, link: Sender) -> None:
        super().__init__(session, link, Source(), Address(AddressKind.TOPIC, ""))
        assert link.remote is not None
        # The name alone says it, too: Qpid JMS writes no subscription of its own so.
        is_named_global = link.name.endswith("|global")
        self._is_global = is_named_global or GLOBAL in link.remote.desired_capabilities
        self._is_shared = is_named_global or SHARED in link.remote.desired_capabilities
        self._name = subscription_name(link.name) if self._is_shared else link.name
        self._topic: Address | None = None
        session.add(Work(self._begin, self._begun, may_wait=session.waits))

    @property
    def _client_id(self) -> str:
        return "" if self._is_global else self.session.engine.container_id

    def _begin(self) -> None:
        """Find the subscription. Raises `ProviderError`."""
        engine = self.session.engine
        self._topic = engine.guard.host.topic_of_subscription(self._client_id, self._name)
        if self._topic is None:
            raise UnknownSubscriptionError(f"there is no durable subscription {self._name!r} of this container")

    def _begun(self, error: Exception | None) -> None:
        if error is not None or self._topic is None:
            self.session.refuse(self.link, error or UnknownSubscriptionError(self._name))
            return
        self.attach(
            Source(
                self._topic.name,
                durable=Durability.UNSETTLED_STATE,
                expiry_policy="never",
                distribution_mode="copy",
                capabilities=(
                    "topic",
                    *(("shared",) if self._is_shared else ()),
                    *(("global",) if self._is_global else ()),
                ),
            )
        )

    def pull(self) -> Iterable[bytes] | None:
        return self.drained()

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it: the subscription ends with a link that is closed."""
        self.is_attached = False
        if not is_closed or is_lost or self._topic is None:
            return None
        return Work(self._unsubscribe, nothing, self.session.waits)

    def _unsubscribe(self) -> None:
        guard = self.session.engine.guard
        guard.subscribe(self._client_id, self._name)
        guard.host.unsubscribe(self.session.receiving, self._name, self._client_id)


def subscription_name(link_name: str) -> str:
    """Return the name of the shared subscription to which a link of this name belongs."""
    found = _numbered(link_name)
    return link_name if found is None else found.group(1)
