"""A session at a broker in this process: it sends, receives and settles by plain calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Literal

from pyjms.spi.delivery import ELSEWHERE, Delivery, Elsewhere
from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.spi.errors import ClosedError, InDoubtError, ProviderError, TooLateError
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms.spi.selector import Selector
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.vm_transactions import VmTransactions
from pyjms_provider.core.host.admission import SendTimeout
from pyjms_provider.core.message.entry import QueueEntry, ReceiverId
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession, ConsumerTarget
from pyjms_provider.core.queue.pager import is_there
from pyjms_provider.core.store import NotAtOnceError

if TYPE_CHECKING:
    from pyjms.spi.errors import ProviderError
    from pyjms_provider.clients.vm import VmConnection
    from pyjms_provider.core.message.entry import EntryQueue
    from pyjms_provider.core.queue.consumer import ConsumerTarget, DirectConsumer
    from pyjms_provider.core.queue.search import QueueBrowser
    from pyjms_provider.core.topic import Subscription

# What a session of ``vm://NAME`` has received, as its queues know it.


def by_queue(deliveries: Iterable[Delivery]) -> dict[EntryQueue, list[tuple[QueueEntry, int]]]:
    """Return entries and counts of deliveries of consumers, in their order for each queue."""
    found: dict[EntryQueue, list[tuple[QueueEntry, int]]] = {}
    for delivery in deliveries:
        entry: QueueEntry = delivery.tag  # type: ignore[assignment]  # as `entry_of`, without the price of a call
        found.setdefault(entry.queue, []).append((entry, delivery.count))
    return found


def entry_of(delivery: Delivery) -> QueueEntry:
    """Return the entry of a consumer's delivery."""
    entry = delivery.tag
    assert isinstance(entry, QueueEntry), "deliveries of browsers cannot be settled"
    return entry


# A consumer of ``vm://NAME``: it passes calls on to the queue, and the time of its session's transaction begins with it.


class VmConsumer(ProviderConsumer):
    """One consumer at a broker in this process."""

    def __init__(
        self, session: VmSession, target: ConsumerTarget, consumer: Consumer, subscription: Subscription | None
    ) -> None:
        self._session = session
        self._target = target
        self._consumer = consumer
        self._subscription = subscription
        self._deliver = consumer.queue.deliver_single_message
        if session.is_timed:
            self._deliver = self._deliver_in_time
        self._desire = consumer.queue.set_notify_work_desired
        self._is_forked = False

    def _deliver_in_time(self, consumer: Consumer, *, or_wait: bool = False, at_once: bool = False) -> Delivery | None:
        delivery = consumer.queue.deliver_single_message(consumer, or_wait=or_wait, at_once=at_once)
        if delivery is not None:
            self._session.begin_time()
        return delivery

    def hand_over_to(self, taker: DirectConsumer) -> None:
        """Have messages handed to `taker` where they come in, as long as it says so; not while a limit of time begins with each."""
        if not self._session.is_timed:
            self._target.direct = taker

    def poll(self) -> Delivery | None:
        return self._deliver(self._consumer)

    def poll_or_wait(self) -> Delivery | None:
        return self._deliver(self._consumer, or_wait=True)

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        try:
            return self._deliver(self._consumer, or_wait=True, at_once=True)
        except NotAtOnceError:
            return ELSEWHERE

    def set_interested(self, interested: bool) -> None:
        self._desire(self._consumer, interested)

    def forget_broker(self, error: ProviderError) -> None:
        """Fail with `error` when asked for a message, in a child of the broker's process."""

        def refuse(*_: object, **__: object) -> Delivery | None:
            raise error

        def ignore(consumer: Consumer, desired: bool) -> None:
            """Do nothing."""

        self._deliver, self._desire, self._is_forked = refuse, ignore, True

    def close(self) -> None:
        if self._is_forked:
            return
        self._session.end_consumer(self._target, self._subscription)
        self._session.forget(self)


class VmSession(VmTransactions):
    """A session at a broker in this process."""

    def __init__(self, connection: VmConnection, name: str, *, transacted: bool, is_delivering: bool) -> None:
        receiving = ConsumerSession(ReceiverId(name), is_delivering=is_delivering)
        super().__init__(connection.broker.virtual_host, name, receiving, transacted=transacted)
        self._connection = connection
        self._connection_id = connection.connection_id
        self._route = self._host.route
        self._patience = SendTimeout()
        self._ending = CloseOnce()
        self._consumers: dict[VmConsumer, None] = {}

    # Sending

    def send(self, envelope: Envelope) -> None:
        if self._closed:
            raise self._closed_error()
        self._route(envelope, self._connection_id, self._open_unit() if self._transacted else None, self._patience)

    def send_at_once(self, envelope: Envelope) -> None:
        """Send as `send` does, but wait for no room. Raises `QueueFullError` where there is none."""
        if self._closed:
            raise self._closed_error()
        self._route(envelope, self._connection_id, self._open_unit() if self._transacted else None, None)

    def may_wait(self, envelope: Envelope) -> bool:
        return self._host.may_wait(envelope, is_transacted=self._transacted)

    # Receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> VmConsumer:
        if self._closed:
            raise self._closed_error()
        target = self._receiving.add_target(on_ready)
        subscription: Subscription | None = None
        try:
            if request.address.kind is AddressKind.TOPIC:
                subscription = self._host.subscriptions.subscribe(
                    request, self._connection_id, self._connection.client_id, target
                )
                consumer = Consumer(subscription, target, priority=request.priority)
            else:
                queue = self._host.readable_queue(request.address, self._connection_id)
                consumer = Consumer(queue, target, selector=request.selector, priority=request.priority)
            self._receiving.add_consumer(consumer)
            made = VmConsumer(self, target, consumer, subscription)
            self._remember(made)
        except Exception:
            self.end_consumer(target, subscription)
            raise
        return made

    def _remember(self, consumer: VmConsumer) -> None:
        """Keep a new consumer. Raises `ClosedError` if the session was closed meanwhile."""
        with self._lock:
            if self._closed:
                raise self._closed_error()
            self._consumers[consumer] = None

    def end_consumer(self, target: ConsumerTarget, subscription: Subscription | None) -> None:
        """Detach a consumer and end its subscription, if it has one that is not durable. May be repeated."""
        self._receiving.remove_target(target)
        if subscription is not None:
            self._host.subscriptions.end(subscription, target)

    def forget(self, consumer: VmConsumer) -> None:
        """Let go of a consumer that has closed."""
        with self._lock:
            self._consumers.pop(consumer, None)

    def has_destination(self, address: Address) -> bool | None:
        if self._closed:
            raise self._closed_error()
        return self._host.has_destination(address)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        if self._closed:
            raise self._closed_error()
        queue = self._host.readable_queue(address, self._connection_id)
        return self._look(queue.open_browser(selector))

    def _look(self, browser: QueueBrowser) -> Iterator[Delivery]:
        while not self._closed:
            delivery = browser.next()
            if delivery is None:
                return
            if is_there(delivery):
                yield delivery
        raise self._closed_error()

    def unsubscribe(self, name: str) -> None:
        if self._closed:
            raise self._closed_error()
        self._host.subscriptions.unsubscribe(self._connection.client_id, name)

    def set_delivering(self, is_delivering: bool) -> None:
        """Hear that the connection was started or stopped."""
        self._receiving.set_delivering(is_delivering)

    # What was received is settled, or given back

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        if self._closed:
            raise self._closed_error()
        session = self._receiving
        branch = self._branch
        if branch is not None:
            for delivery in deliveries:
                if not branch.take(entry_of(delivery), delivery.count, session) and self._closed:
                    raise self._closed_error()
            return
        if self._transacted:
            if not deliveries:
                return  # as before a commit that is made again
            unit = self._open_unit()
            for queue, received in by_queue(deliveries).items():
                if not queue.settle_in(unit, received, session) and self._closed:
                    raise self._closed_error()  # closed meanwhile: the message is back on its queue
            return
        if len(deliveries) == 1:  # mostly; and what no journal has needs no write
            only: QueueEntry = deliveries[0].tag  # type: ignore[assignment]  # as in `_settle`
            if not only.reference.journaled:
                if not only.queue.settle(only, deliveries[0].count, session):
                    self._tell_missed(deliveries)
                return
        self._host.work(partial(self._settle, deliveries))

    def _settle(self, deliveries: Sequence[Delivery]) -> None:
        session = self._receiving
        settled: list[QueueEntry] = []
        transient: list[Delivery] = []
        is_missing = False
        storage = self._host.storage
        is_mixed = len(deliveries) > 1 and storage is not None
        for delivery in deliveries:
            entry: QueueEntry = delivery.tag  # type: ignore[assignment]  # as `entry_of`, without the price of a call
            if is_mixed and not entry.reference.journaled:
                transient.append(delivery)
            elif entry.queue.settle(entry, delivery.count, session):
                if entry.reference.journaled:
                    settled.append(entry)
            else:
                is_missing = True
        if settled and storage is not None:  # only what a journal keeps is among them
            storage.write_settled(settled)
        for delivery in transient:  # afterwards, so that an acknowledgement that cannot be written settles nothing
            entry = entry_of(delivery)
            if not entry.queue.settle(entry, delivery.count, session):
                is_missing = True
        if is_missing:
            self._tell_missed(deliveries)

    def _tell_missed(self, deliveries: Sequence[Delivery]) -> None:
        """Raise what became of messages that are the session's no more, if they may come again: an earlier call about them failed.

        What that one wrote, and nobody knows whether it is in the store, is written once more.
        Of a message that is in `deliveries` twice, as it went back and came again, the later one counts: that may be settled.
        """
        if self._closed:
            raise self._closed_error()
        storage = self._host.storage
        latest = {entry_of(each): each.count for each in sorted(deliveries, key=attrgetter("count"))}
        # First, as whoever ends a doubt has the message in its queue before.
        is_certain = storage is None or storage.remove_again(latest)
        if any(_comes_again(entry, count) for entry, count in latest.items()):
            raise TooLateError("that a message is settled could not be written: it comes again")
        if not is_certain:
            raise InDoubtError(
                "that a message is settled was written, and the store does not answer whether it was: settle it again, or let it come again"
            )

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._give_back(deliveries)

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._give_back(deliveries, unseen=True)

    def retry(self, delivery: Delivery, reason: str) -> None:
        self._give_back((delivery,), reason)

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        self._give_back(deliveries, reason)

    def _give_back(self, deliveries: Sequence[Delivery], reason: str | None = None, *, unseen: bool = False) -> None:
        if self._closed:
            raise self._closed_error()
        for queue, returned in by_queue(deliveries).items():
            queue.give_back(returned, self._receiving, reason, unseen=unseen)

    def reject(self, delivery: Delivery, reason: str) -> None:
        if self._closed:
            raise self._closed_error()
        self._host.mover.reject(delivery, entry_of(delivery), self._receiving, reason)

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        if self._closed:
            raise self._closed_error()
        for delivery in deliveries:
            entry = entry_of(delivery)
            self._receiving.take_queue(entry.queue)
            holder = entry.holder
            if holder is None and entry.queue.policy.non_destructive:
                continue  # the message has stayed in its queue, and this delivery is nobody's
            if holder is None or not entry.queue.change_holder(entry, delivery.count, holder, self._receiving):
                self.recover(deliveries)  # those that were taken over before; the others are nobody's here
                raise ClosedError("a message was given back, as the consumer that had received it was closed")

    # CloseOnce

    def end_waits(self) -> None:
        self._patience.end()

    def forget_broker(self, error: ProviderError) -> None:
        """Fail with `error` whatever is asked, in a child of the broker's process, where a copy of its queues is."""
        self._lock, self._closed, self._refusal, self._ending = Lock(), True, error, CloseOnce.ended()
        for consumer in self._consumers:
            consumer.forget_broker(error)
        self._consumers = {}

    def close(self) -> None:
        self._patience.end()
        self._ending.do(self._shut_down)

    def _shut_down(self) -> None:
        self._end_work()
        with self._lock:
            consumers = list(self._consumers)  # and there come no more
        for consumer in consumers:
            consumer.close()
        self._receiving.close()
        self._connection.discard(self)


def _comes_again(entry: QueueEntry, count: int) -> bool:
    """Return whether a message went back to its queue after the delivery of that number; else it is settled, or has gone."""
    return entry.state is MessageState.NEW or entry.delivery_count > count
