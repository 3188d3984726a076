"""One name space of destinations, subscriptions and client ids, and the way of a message into it.

Locks: the host's lock guards its tables, and comes first in the lock order. A message on its way takes none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import (
    CapabilityError,
    DestinationError,
    DestinationInUseError,
    DuplicateClientIdError,
    ProviderError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.core.admission import DELIVER_AT
from pyjms_provider.core.branches import Branches
from pyjms_provider.core.channel import Channel
from pyjms_provider.core.channel_state import ChannelState
from pyjms_provider.core.dead_letter_office import DeadLetterOffice
from pyjms_provider.core.doorkeeper import Admission, Doorkeeper, Patience
from pyjms_provider.core.duplicates import DUPLICATE_ID
from pyjms_provider.core.ending import alter_when_written, end_when_written, make_when_written
from pyjms_provider.core.expiry_watch import ExpiryWatch
from pyjms_provider.core.host_policy import ExpiredInTransaction, HostPolicy
from pyjms_provider.core.journal import SubscriptionKey
from pyjms_provider.core.message_state import MessageState
from pyjms_provider.core.pipelines import Pipelines
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.core.queue import Queue
from pyjms_provider.core.shelf import check_disk
from pyjms_provider.core.subscription import Subscription, SubscriptionTerms
from pyjms_provider.core.time_limit import TimeLimit
from pyjms_provider.core.topic import Topic
from pyjms_provider.core.turn import Turns

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.consumer import ConsumerSession
    from pyjms_provider.core.entry import QueueEntry
    from pyjms_provider.core.journal import JoinedTransaction, QueueRecord
    from pyjms_provider.core.keeping import Keeper
    from pyjms_provider.core.kept_queue import KeptQueue
    from pyjms_provider.core.store import MessageStore
    from pyjms_provider.core.timed import HasTimes
    from pyjms_provider.core.unit_of_work import UnitOfWork

__all__ = ["VirtualHost"]


_PERSISTENT = 2
_QUEUE = AddressKind.QUEUE  # looking up a member of an enumeration costs more than a global name


@dataclass(slots=True)
class _Temporary:
    """A temporary destination and the connection that may consume from it."""

    channel: Queue | Topic
    address: Address
    owner: ConnectionId


class VirtualHost:
    """Destinations are made when they are first used. Safe to use from any thread."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        clock: Clock,
        *,
        policy: HostPolicy | None = None,
        on_due: Callable[[HasTimes, int], None] | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """Make an empty host. `on_due` as in `AsynchronousChannel`; `keeper`: how it survives, None: not at all.

        Raises `PolicyError` for a policy that asks for a disk where there is none.
        """
        self.name = name
        self.store = store
        self.clock = clock
        self.policy = policy or HostPolicy()
        for each in self.policy.queues.every():
            check_disk(each, has_disk=not store.keeps_all_in_memory)
        self.keeper = keeper
        self.office = DeadLetterOffice(self)
        self.expiries = ExpiryWatch()
        self.doorkeeper = Doorkeeper(clock)
        self._on_due = on_due
        self.branches = Branches(
            store,
            clock,
            None if keeper is None else keeper.journal,
            doubts=None if keeper is None else keeper.doubts,
            timeout_ms=self.policy.branch_timeout_ms,
            expired_rolls_back=self.policy.expired_in_transaction is ExpiredInTransaction.ROLLBACK,
            on_due=on_due,
        )
        """The branches of distributed transactions."""
        self.pipelines = Pipelines(self, on_due)
        self.time_limit = TimeLimit(clock, self.policy.transaction_timeout_ms, on_due)
        """Of local transactions."""
        self._lock = Lock()
        # By name, because hashing an address costs more than the rest of the look-up.
        self._queues: dict[str, Queue] = {}
        self._topics: dict[str, Topic] = {}
        self._turns = Turns()  # to make, alter and destroy queues
        self._temporaries: dict[str, _Temporary] = {}
        self._durable: dict[SubscriptionKey, Subscription] = {}
        self._changing: set[SubscriptionKey] = set()
        self._client_ids: dict[str, ConnectionId] = {}
        self._numbers = count(1)

    # Messages

    def route(
        self,
        envelope: Envelope,
        origin: ConnectionId | None,
        transaction: UnitOfWork | None,
        patience: Patience | None = None,
    ) -> None:
        """Store a message and pass it to its destination; drop it if it is a duplicate.

        `patience`: how long the sender waits for room in a full queue whose policy is to block; None: not at all. Raises
        `DestinationError`, `ResourceError`, and `ClosedError` if the patience ended.
        """
        address = envelope.destination
        if address.temporary:
            channel: Queue | Topic = self._temporary(address).channel
        elif address.kind is _QUEUE:
            channel = self._queues.get(address.name) or self.queue(address.name)
        else:
            channel = self._topics.get(address.name) or self.topic(address.name)
        store, properties, keeper = self.store, envelope.properties, self.keeper
        if keeper is not None:
            store.relieve()  # first: who finds no room has sent nothing
        admission: Admission | None = None
        if channel.asks_doorkeeper or DELIVER_AT in properties or DUPLICATE_ID in properties:
            admission = self.doorkeeper.admit(channel, envelope, patience, transaction)
            if admission is None:
                return
            envelope = admission.envelope
        try:
            if keeper is not None and transaction is None and envelope.delivery_mode == _PERSISTENT:
                keeper.send(channel, envelope, origin, admission)
            else:
                reference = store.store(envelope, origin)
                try:
                    if admission is None:
                        channel.take_over(reference, transaction)
                    else:
                        reference.deliver_at_ms = admission.deliver_at_ms
                        admission.hand_over(channel, reference, transaction)
                except ProviderError:
                    store.release(reference)
                    raise
        except BaseException:
            if admission is not None:
                admission.end(arrived=False)
            raise
        if admission is not None:
            admission.pass_in(transaction)

    def may_wait(self, envelope: Envelope, *, is_transacted: bool) -> bool:
        """Say whether `route` may wait for the disk or for room."""
        address = envelope.destination
        channel = self._queues.get(address.name) if address.kind is _QUEUE and not address.temporary else None
        if channel is not None and channel.asks_doorkeeper and channel.policy.overflow is Overflow.BLOCK:
            return True
        if self.keeper is None:
            return False
        is_unknown = channel is None and address.kind is _QUEUE and not address.temporary
        return is_unknown or self.store.is_pressed or (envelope.delivery_mode == _PERSISTENT and not is_transacted)

    def plain_queue(self, envelope: Envelope) -> Queue | None:
        """Return the queue of a PERSISTENT message that `Keeper.send_together` takes; None: it is to be sent by `route`."""
        address, properties = envelope.destination, envelope.properties
        if address.temporary or address.kind is not _QUEUE or envelope.delivery_mode != _PERSISTENT:
            return None
        queue = self._queues.get(address.name)
        if queue is None or queue.kept is None or queue.kept.definition is not None or queue.asks_doorkeeper:
            return None
        return None if DELIVER_AT in properties or DUPLICATE_ID in properties else queue

    def finish_commit(self, unit: UnitOfWork) -> None:
        """Make a unit true whose commit was begun. Raises `RolledBackError`, `InDoubtError`."""
        if self.keeper is None:
            unit.finish_commit(None)
        else:
            self.keeper.finish_commit(unit)
            with suppress(ProviderError):  # the unit is true; who sends next is told that there is no room
                self.store.relieve()

    def join(self, transaction: object) -> JoinedTransaction:
        """Return what commits a unit together with the application's transaction. Raises `CapabilityError`."""
        if self.keeper is None:
            raise CapabilityError(f"{self.name} keeps nothing; connect with store= and the application's database")
        return self.keeper.journal.join(transaction)

    def finish_joined(self, unit: UnitOfWork, joined: JoinedTransaction) -> None:
        """Make a unit true whose commit was begun, with the application's transaction. Raises as `finish_commit`."""
        assert self.keeper is not None, "only a host that keeps messages can be joined"
        self.keeper.finish_joined(unit, joined)

    def write_settled(self, settled: list[QueueEntry]) -> None:
        """Have it survive that messages, which the journal keeps, were acknowledged. As `Keeper.write_settled`."""
        assert self.keeper is not None, "only a host that keeps messages has messages that a journal keeps"
        self.keeper.write_settled(settled)

    def reject(self, delivery: Delivery, entry: QueueEntry, session: ConsumerSession, reason: str) -> None:
        """Settle a delivery and keep its message aside, with `reason`; see `DeadLetterOffice`. Raises `ResourceError`."""
        self.office.reject(delivery, entry, session, reason)

    # Destinations

    def queue(self, name: str) -> Queue:
        """Return the queue `name`, made now if there is none."""
        queue = self._queues.get(name)
        if queue is not None:
            return queue
        address = Address(AddressKind.QUEUE, name)
        return self._define_queue(address, None if self.keeper is None else self.keeper.define_later(address), None)[0]

    def create_queue(self, name: str, policy: QueuePolicy | None) -> bool:
        """Make a queue; return False if there is one. `policy` None: what the host says.

        Raises `ResourceError`; `InDoubtError`: it is there nevertheless.
        """
        address = Address(AddressKind.QUEUE, name)
        with self._turns.of(name):
            if name in self._queues:
                return False
            return make_when_written(
                self.keeper, address, policy, lambda kept: self._define_queue(address, kept, policy)[1]
            )

    def _define_queue(self, address: Address, kept: KeptQueue | None, policy: QueuePolicy | None) -> tuple[Queue, bool]:
        with self._lock:
            queue = self._queues.get(address.name)
            if queue is not None:  # another thread was faster
                return queue, False
            return self._add_queue(address, kept, policy), True

    def _add_queue(self, address: Address, kept: KeptQueue | None, policy: QueuePolicy | None) -> Queue:
        """Make a queue that is no temporary one. The lock is held."""
        chosen = self.policy.queues.for_queue(address.name) if policy is None else policy
        queue = self._queues[address.name] = self._make_queue(str(address), chosen, kept)
        return queue

    def restore_queue(self, address: Address, kept: KeptQueue, policy: QueuePolicy | None = None) -> Queue:
        """Make a queue again that the journal has kept."""
        with self._lock:
            return self._add_queue(address, kept, policy)

    def find_queue(self, name: str) -> Queue | None:
        """Return the queue `name` if there is one; none is made."""
        return self._queues.get(name)

    def has_topic(self, name: str) -> bool:
        """Say whether there is a topic `name`; none is made."""
        return name in self._topics

    def queue_names(self) -> list[str]:
        """Return the names of all queues that are not temporary, sorted."""
        with self._lock:
            return sorted(self._queues)

    def alter_queue(self, name: str, **changes: Any) -> bool:
        """Change fields of a queue's policy, which is its own from now on; return False if there is no such queue.

        Who changes others at the same time waits for this, so that nobody undoes it. It is obeyed once it is written.
        Raises `PolicyError`, `DestinationInUseError`, `ResourceError`, `InDoubtError`; then the policy is what it was.
        """
        with self._turns.of(name):
            queue = self._queues.get(name)
            if queue is None:
                return False
            default = self.policy.queues.for_queue(name)
            alter_when_written(queue, self.keeper, Address(_QUEUE, name), queue.policy.altered(**changes), default)
        return True

    def destroy_queue(self, name: str) -> bool:
        """Delete a queue with its messages; return False if there is none.

        Until that is written, it is for everybody as it was. Raises `ResourceError`; `InDoubtError`: it is gone nevertheless.
        """
        with self._turns.of(name):
            queue = self._queues.get(name)
            if queue is None:
                return False
            end_when_written(queue, self.keeper, partial(self._forget_queue, name))
        return True

    def _forget_queue(self, name: str) -> None:
        with self._lock:
            self._queues.pop(name, None)
        self.doorkeeper.forget(Address(AddressKind.QUEUE, name))

    def find_subscription(self, name: str) -> Subscription | None:
        """Return the durable subscription whose channel has that name, as dead letters show it; None: there is none, or there are two."""
        with self._lock:
            found = [each for each in self._durable.values() if each.name == name]
        return found[0] if len(found) == 1 else None

    def topic(self, name: str) -> Topic:
        """Return the topic `name`, made now if there is none."""
        topic = self._topics.get(name)
        if topic is None:
            with self._lock:
                topic = self._topics.get(name)
                if topic is None:
                    policy = self.policy.queues.for_subscription(name)
                    topic = self._topics[name] = Topic(f"topic://{name}", self.store, policy)
        return topic

    def create_temporary(self, kind: AddressKind, owner: ConnectionId) -> Address:
        """Make a destination that only connection `owner` may consume from."""
        with self._lock:
            address = Address(kind, f"{owner}-{next(self._numbers)}", temporary=True)
            if kind is AddressKind.QUEUE:
                channel: Queue | Topic = self._make_queue(str(address), self.policy.queues.default)
            else:
                channel = Topic(str(address), self.store, self.policy.queues.subscriptions)
            self._temporaries[address.name] = _Temporary(channel, address, owner)
        return address

    def owner_of(self, address: Address) -> ConnectionId | None:
        """Return the connection that made a temporary destination; None: there is no such destination."""
        temporary = self._temporaries.get(address.name)
        return None if temporary is None or temporary.address != address else temporary.owner

    def delete_temporary(self, address: Address, owner: ConnectionId) -> None:
        """Delete it with its messages. Raises `DestinationInUseError`, `DestinationError`."""
        temporary = self._owned(address, owner)
        channel = temporary.channel
        users = channel.consumer_count if isinstance(channel, Queue) else len(channel.subscriptions)
        if users:
            raise DestinationInUseError(f"{address} has {users} consumers; close them, then delete it")
        with self._lock:
            self._temporaries.pop(address.name, None)
        self.doorkeeper.forget(address)
        channel.close()

    def end_connection(self, owner: ConnectionId, client_id: str | None) -> None:
        """Delete the temporary destinations of a connection that has closed, and free its client id."""
        with self._lock:
            ended = [temporary for temporary in self._temporaries.values() if temporary.owner == owner]
            for temporary in ended:
                del self._temporaries[temporary.address.name]
            if client_id is not None and self._client_ids.get(client_id) == owner:
                del self._client_ids[client_id]
        for temporary in ended:
            self.doorkeeper.forget(temporary.address)
            temporary.channel.close()

    def readable_queue(self, address: Address, reader: ConnectionId) -> Queue:
        """Return the queue that connection `reader` wants to consume or browse. Raises `DestinationError`."""
        if not address.temporary and address.kind is AddressKind.QUEUE:
            return self.queue(address.name)
        channel = self._owned(address, reader).channel if address.temporary else None
        if not isinstance(channel, Queue):
            raise DestinationError(f"{address} is no queue")
        return channel

    def _temporary(self, address: Address) -> _Temporary:
        temporary = self._temporaries.get(address.name)
        if temporary is None or temporary.address.kind is not address.kind:
            raise DestinationError(f"{address} no longer exists: it was deleted, or its connection was closed")
        return temporary

    def _owned(self, address: Address, owner: ConnectionId) -> _Temporary:
        if not address.temporary:
            raise DestinationError(f"{address} is no temporary destination")
        temporary = self._temporary(address)
        if temporary.owner != owner:
            raise DestinationError(f"{address} belongs to another connection, which alone may consume from it")
        return temporary

    def _make_queue(self, name: str, policy: QueuePolicy, kept: KeptQueue | None = None) -> Queue:
        queue = Queue(
            name,
            self.store,
            self._make_state(),
            self.clock,
            on_due=self._on_due,
            kept=kept,
            policy=policy,
            on_dead=self.office.set_aside,
        )
        queue.watch = self.expiries
        return queue

    def _make_state(self) -> ChannelState:
        persistence = None if self.keeper is None else self.keeper.journal
        return ChannelState(self.store, persistence=persistence, reliability=self.policy.reliability)

    # Subscriptions

    def subscribe(self, request: SubscribeRequest, subscriber: ConnectionId, client_id: str | None) -> Subscription:
        """Return the subscription that a new consumer of a topic shall read.

        Raises `DestinationError`; `SubscriptionInUseError` when a durable one has a subscriber.
        """
        address = request.address
        if not address.temporary:
            topic = self.topic(address.name)
        else:
            channel = self._owned(address, subscriber).channel
            if not isinstance(channel, Topic):
                raise DestinationError(f"{address} is no topic")
            topic = channel
        text = None if request.selector is None else request.selector.text
        terms = SubscriptionTerms(topic=address, selector_text=text, no_local=request.no_local)
        if request.durable_name is None:
            subscription = self._make_subscription(f"{address}#{next(self._numbers)}", request, terms, subscriber)
            topic.add_subscription(subscription)
            return subscription
        if address.temporary:
            raise DestinationError(f"{address} is temporary, so it can have no durable subscription")
        if client_id is None:
            raise ProviderError(f"durable subscription {request.durable_name!r} needs a connection with a client id")
        return self._subscribe_durably(
            SubscriptionKey(client_id, request.durable_name), topic, request, terms, subscriber
        )

    def _subscribe_durably(
        self,
        key: SubscriptionKey,
        topic: Topic,
        request: SubscribeRequest,
        terms: SubscriptionTerms,
        subscriber: ConnectionId,
    ) -> Subscription:
        with self._lock:
            subscription = self._durable.get(key)
            if key in self._changing or (subscription is not None and subscription.is_active):
                raise SubscriptionInUseError(
                    f"durable subscription {key.name!r} has a subscriber; close that one first"
                )
            if subscription is not None and subscription.terms == terms:
                subscription.subscriber = subscriber
                subscription.is_active = True
                return subscription
            self._changing.add(key)
        try:
            if subscription is not None:
                self._drop_durable(key, subscription)  # §6.11.1: other terms make another subscription
            kept = None if self.keeper is None else self.keeper.define_subscription(key, terms)
            made = self._make_subscription(
                f"{request.address}#{key.client_id}/{key.name}", request, terms, subscriber, kept
            )
            with self._lock:
                self._durable[key] = made
            topic.add_subscription(made)
        finally:
            with self._lock:
                self._changing.discard(key)
        return made

    def restore_subscription(
        self, key: SubscriptionKey, record: QueueRecord, selector: Selector | None, kept: KeptQueue
    ) -> Subscription:
        """Make a durable subscription again that the journal has kept; it has no subscriber."""
        topic = self.topic(record.address.name)
        request = SubscribeRequest(
            address=record.address, selector=selector, no_local=record.no_local, durable_name=key.name
        )
        terms = SubscriptionTerms(topic=record.address, selector_text=record.selector_text, no_local=record.no_local)
        name = f"{record.address}#{key.client_id}/{key.name}"
        made = self._make_subscription(name, request, terms, ConnectionId(""), kept)
        made.is_active = False
        with self._lock:
            self._durable[key] = made
        topic.add_subscription(made)
        return made

    def unsubscribe(self, client_id: str | None, name: str) -> None:
        """Delete a durable subscription, which gets what is published until that is written.

        Raises `UnknownSubscriptionError`, `SubscriptionInUseError`, `ResourceError`; `InDoubtError`: it is gone nevertheless.
        """
        if client_id is None:
            raise UnknownSubscriptionError(f"without a client id there is no durable subscription {name!r}")
        key = SubscriptionKey(client_id, name)
        with self._lock:
            subscription = self._durable.get(key)
            if subscription is None:
                raise UnknownSubscriptionError(f"client {client_id!r} has no durable subscription {name!r}")
            if key in self._changing or subscription.is_active:
                raise SubscriptionInUseError(f"durable subscription {name!r} has a subscriber; close that one first")
            self._changing.add(key)
        try:
            self._drop_durable(key, subscription)
        finally:
            with self._lock:
                self._changing.discard(key)

    def _drop_durable(self, key: SubscriptionKey, subscription: Subscription) -> None:
        """Delete a durable subscription without a subscriber; the caller keeps others away from it."""
        unsettled = subscription.count(MessageState.DELIVERED)
        if unsettled:
            raise SubscriptionInUseError(
                f"durable subscription {key.name!r} has {unsettled} messages that were received and neither acknowledged "
                f"nor rolled back; settle them, or close their session"
            )
        end_when_written(subscription, self.keeper, partial(self._forget_subscription, key, subscription))

    def _forget_subscription(self, key: SubscriptionKey, subscription: Subscription) -> None:
        self._topics[subscription.terms.topic.name].remove_subscription(subscription)
        with self._lock:
            del self._durable[key]

    def end_subscription(self, subscription: Subscription) -> None:
        """Let a subscription go whose consumer has closed: a durable one stays, any other ends."""
        with self._lock:
            subscription.is_active = False
            if subscription.is_durable:
                return
        terms = subscription.terms
        if terms.topic.temporary:
            temporary = self._temporaries.get(terms.topic.name)
            topic = None if temporary is None else temporary.channel
        else:
            topic = self._topics.get(terms.topic.name)
        if isinstance(topic, Topic):
            topic.remove_subscription(subscription)
        subscription.close()

    def _make_subscription(
        self,
        name: str,
        request: SubscribeRequest,
        terms: SubscriptionTerms,
        subscriber: ConnectionId,
        kept: KeptQueue | None = None,
    ) -> Subscription:
        made = Subscription(
            name,
            self.store,
            self._make_state(),
            self.clock,
            terms=terms,
            selector=request.selector,
            subscriber=subscriber,
            is_durable=request.durable_name is not None,
            on_due=self._on_due,
            kept=kept,
            policy=self.policy.queues.for_subscription(terms.topic.name),
            on_dead=self.office.set_aside,
        )
        made.watch = self.expiries
        return made

    # Client ids

    def take_client_id(self, client_id: str, owner: ConnectionId) -> None:
        """Let connection `owner` have `client_id`. Raises `DuplicateClientIdError`."""
        if not client_id:
            raise DuplicateClientIdError("a client id must not be empty")
        with self._lock:
            if self._client_ids.setdefault(client_id, owner) != owner:
                raise DuplicateClientIdError(f"client id {client_id!r} is in use by another connection of {self.name}")

    # Ending

    def close(self) -> None:
        """Close all destinations; their messages go from memory, and stay in the journal that keeps them."""
        self.branches.close()
        with self._lock:
            for queue in (*self._queues.values(), *self._durable.values()):
                queue.kept = None
            channels: list[Channel] = [*self._queues.values(), *self._topics.values()]
            channels.extend(temporary.channel for temporary in self._temporaries.values())
            self._durable.clear()
        for channel in channels:
            channel.close()
