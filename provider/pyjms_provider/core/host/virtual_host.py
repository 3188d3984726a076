"""A virtual host: one name space of destinations, subscriptions and client ids, and the routing of messages into it.

Locks: the host's lock guards its tables, those of subscriptions and temporary destinations among them, and comes first in the lock
order. It is not held during writes. Sending a message takes none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms.spi.envelope import DELIVER_AT, Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import (
    CapabilityError,
    DestinationError,
    DuplicateClientIdError,
    ProviderError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.words import counted
from pyjms_provider.core.channel import Channel, ChannelClosedError, UnreliableChannelError
from pyjms_provider.core.host.admission import (
    DUPLICATE_ID,
    AdmissionController,
    IgnoredDeliveryModes,
    SendPermit,
    SendTimeout,
)
from pyjms_provider.core.host.host_policy import ExpiredInTransaction, HostPolicy
from pyjms_provider.core.host.message_mover import ExpiryWatch, MessageMover
from pyjms_provider.core.host.temporaries import TemporaryDestinations, TemporaryEndedError
from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.core.journal.storage_manager import (
    alter_when_written,
    end_at_once,
    end_when_written,
    make_when_written,
    succeed_when_written,
)
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import next_place
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.core.queue.altering import KeyedLock, RetiredQueueError, close_unused
from pyjms_provider.core.queue.channel_state import ChannelState
from pyjms_provider.core.queue.message_trace import MessageTrace
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.queue_rules import check_disk
from pyjms_provider.core.topic import Subscription, SubscriptionTerms, Topic
from pyjms_provider.core.transaction.branches import Branches
from pyjms_provider.core.transaction.registered_clients import RegisteredClients
from pyjms_provider.core.transaction.stages import Pipelines
from pyjms_provider.core.transaction.unit_of_work import TimeLimit

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.journal.journal import JoinedTransaction, QueueRecord
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.journal.storage_manager import RunsWork, StorageManager
    from pyjms_provider.core.message.trace_events import StoryBuffer
    from pyjms_provider.core.scheduled import Scheduled
    from pyjms_provider.core.store import MessageStore
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork


_T = TypeVar("_T")
_PERSISTENT = 2
_QUEUE = AddressKind.QUEUE  # looking up a member of an enumeration costs more than a global name


class VirtualHost:
    """A virtual host, whose destinations are made when they are first used. Safe to use from any thread."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        clock: Clock,
        *,
        policy: HostPolicy | None = None,
        schedule: Callable[[Scheduled, int], None] | None = None,
        storage: StorageManager | None = None,
        stories: StoryBuffer | None = None,
    ) -> None:
        """Make an empty host. `schedule` as in `Queue`; `storage`: its durable storage, None: none; `stories`: where it traces its messages.

        Raises `PolicyError` for a policy that needs a disk where there is none.
        """
        self.name = name
        self.store = store
        self.clock = clock
        self.policy = policy or HostPolicy()
        self.refusal: str | None = None
        """The error text of a host that must not be used, as it is a copy in a process that was forked from the broker's, with the remedy."""
        for each in self.policy.queues.every():
            check_disk(each, has_disk=not store.keeps_all_in_memory)
            each.check_undivided()
        self.storage = storage
        self.work: Final[RunsWork] = _at_once if storage is None else storage.work
        """Returns the result of a function, which may write; the end of the host waits for it. Raises `ClosedError` once the end has begun."""
        self.trace = None if stories is None else MessageTrace(stories, store)
        # Checked for each message and not only by queues: a topic without subscriptions refuses them like one that has some.
        self._is_bounded = not store.keeps_all_in_memory
        """Whether messages may have to leave memory, for a disk."""
        self._refuses_reliable = self._make_state().refuses_reliable
        self.keeps_transient = storage is not None and storage.journal.keeps_transient
        """Whether NON_PERSISTENT messages are written, too."""
        self.expiries = ExpiryWatch()
        self.mover = MessageMover(store, clock, storage, self._queue_of_letters, self.expiries, self.trace)
        self.admission = AdmissionController(
            clock, self.trace, persists_all=self.policy.persist_all, keeps_transient=self.keeps_transient
        )
        self.ignored_modes = IgnoredDeliveryModes(name) if self.policy.persist_all else None
        """Makes all messages PERSISTENT; None: the sender and the queue's policy decide."""
        self._schedule = schedule
        self.clients = RegisteredClients(
            clock,
            None if storage is None else storage.journal,
            self.work,
            clients_max=self.policy.registered_clients_max,
            forget_after_ms=self.policy.forget_clients_ms,
            schedule=schedule,
        )
        """The registered clients, with the tags of their last committed requests and replies."""
        self.branches = Branches(
            store,
            clock,
            None if storage is None else storage.journal,
            clients=self.clients,
            in_doubt_writes=None if storage is None else storage.in_doubt_writes,
            timeout_ms=self.policy.branch_timeout_ms,
            expired_rolls_back=self.policy.expired_in_transaction is ExpiredInTransaction.ROLLBACK,
            schedule=schedule,
        )
        """The branches of distributed transactions."""
        self.pipelines = Pipelines(self, schedule)
        self.time_limit = TimeLimit(clock, self.policy.transaction_timeout_ms, schedule)
        """The time limit of local transactions."""
        self._lock = Lock()
        # By name, because hashing an address costs more than the rest of the look-up.
        self._queues: dict[str, Queue] = {}
        self._topics: dict[str, Topic] = {}
        self._turns = KeyedLock()  # held to make, alter and destroy queues
        self.check_policy: Callable[[str, QueuePolicy], None] | None = None
        """Raises `PolicyError` for a policy that a queue cannot have, as it has other parts elsewhere; None: each may have any. Set before the host is used."""
        self._retired: set[str] = set()
        """The names of queues that are elsewhere, so that nobody may make them here. Guarded by the lock."""
        self.temporaries = TemporaryDestinations(self._lock, self._make_temporary, self.admission.forget)
        self.subscriptions = HostSubscriptions(self, self._lock, self._make_state, schedule)
        self._client_ids: dict[str, ConnectionId] = {}

    # Messages

    def route(
        self,
        envelope: Envelope,
        origin: ConnectionId | None,
        transaction: UnitOfWork | None,
        timeout: SendTimeout | None = None,
    ) -> None:
        """Store a message and pass it to its destination; drop it if it is a duplicate.

        `timeout`: how long the sender waits for room in a full queue whose policy is to block; None: not at all. Raises
        `DestinationError`, `ResourceError`, and `ClosedError` if the wait was ended.
        """
        address = envelope.destination
        # A send never makes a temporary destination: once its connection has closed, no client could receive from it.
        if address.temporary:
            channel: Queue | Topic = self.temporaries.channel_of(address)
        elif address.kind is _QUEUE:
            # Without the lock, on each send: a name that is found is right; one that is missing is looked up under it.
            channel = self._queues.get(address.name) or self.queue(address.name)
        else:
            channel = self._topics.get(address.name) or self.topic(address.name)
        if self.ignored_modes is not None and envelope.delivery_mode != _PERSISTENT:
            envelope = self.ignored_modes.persistent(envelope, origin)
        store, properties, storage = self.store, envelope.properties, self.storage
        if self._is_bounded:
            # Before anything is stored: a full disk then refuses the message, and no part of a send has to be undone.
            store.relieve()
        admission: SendPermit | None = None
        try:
            # Checked here, as most messages need no admission: four look-ups cost less than a call that finds that out.
            if (
                channel.needs_admission
                or envelope.deliver_at_ms
                or DELIVER_AT in properties
                or DUPLICATE_ID in properties
            ):
                admission = self.admission.admit(channel, envelope, timeout, transaction)
                if admission is None:
                    return
                envelope = admission.envelope
            if self._refuses_reliable and envelope.delivery_mode == _PERSISTENT:
                raise UnreliableChannelError(channel.name)
            # A transacted message is written with the commit; one that is NON_PERSISTENT is not, or not forced.
            if (
                storage is not None
                and transaction is None
                and (envelope.delivery_mode == _PERSISTENT or self.keeps_transient)
            ):
                storage.send(channel, envelope, origin, admission)
            elif admission is not None and channel.sequencer is not None:
                self._send_in_order(channel, envelope, origin, admission, transaction)
            else:
                reference = store.store(envelope, origin)
                try:
                    if admission is None:
                        channel.enqueue(reference, transaction)
                    else:
                        reference.deliver_at_ms = admission.deliver_at_ms
                        admission.enqueue(channel, reference, transaction)
                except ProviderError:
                    # The hold that `store` gave passes to the channel only if that enqueues the message.
                    store.release(reference)
                    raise
        except ChannelClosedError as error:
            if address.temporary:  # it has just ended
                raise TemporaryEndedError(error.reason) from error
            if address.name in self._retired:
                raise RetiredQueueError(address.name) from error
            raise
        finally:
            # Also after an error: a remaining claim of room or of a duplicate id would refuse other senders.
            if admission is not None:
                admission.end(transaction)

    def _send_in_order(
        self,
        channel: Queue | Topic,
        envelope: Envelope,
        origin: ConnectionId | None,
        admission: SendPermit,
        transaction: UnitOfWork | None,
    ) -> None:
        """Store a message that is not written now, and pass it to a destination with a total order. Raises as `route`."""
        store = self.store
        with next_place(channel, partial(store.refer, envelope, origin)) as reference:
            store.keep(reference, envelope)
            try:
                admission.enqueue(channel, reference, transaction)
            except ProviderError:
                store.release(reference)
                raise

    def may_wait(self, envelope: Envelope, *, is_transacted: bool) -> bool:
        """Return whether `route` may wait for the disk or for room."""
        address = envelope.destination
        channel = self._queues.get(address.name) if address.kind is _QUEUE and not address.temporary else None
        if channel is not None and channel.needs_admission and channel.policy.overflow is Overflow.BLOCK:
            return True
        if self.storage is None:
            return self._is_bounded and self.store.is_pressed
        # The first message that names a queue has its definition written, too.
        is_unknown = channel is None and address.kind is _QUEUE and not address.temporary
        is_written = envelope.delivery_mode == _PERSISTENT or self.ignored_modes is not None or self.keeps_transient
        return is_unknown or self.store.is_pressed or (is_written and not is_transacted)

    def plain_queue(self, envelope: Envelope) -> Queue | None:
        """Return the queue of a message that is written and that `StorageManager.send_together` accepts; None: it must be sent by `route`."""
        address, properties = envelope.destination, envelope.properties
        if address.temporary or address.kind is not _QUEUE:
            return None
        if envelope.delivery_mode != _PERSISTENT and not self.keeps_transient:
            return None
        queue = self._queues.get(address.name)
        # A queue whose definition is not written yet takes the long way, which writes it with the message.
        if queue is None or queue.journal is None or queue.journal.definition is not None or queue.needs_admission:
            return None
        needs_admission = envelope.deliver_at_ms or DELIVER_AT in properties or DUPLICATE_ID in properties
        return None if needs_admission else queue

    def finish_commit(self, unit: UnitOfWork) -> None:
        """Write and apply a unit whose commit was begun. Raises `RolledBackError`, `InDoubtError`."""
        if unit.tags is not None and unit.client_changes is None:
            self.clients.commit(unit, partial(self.finish_commit, unit))
        elif self.storage is None:
            unit.finish_commit(None)
        else:
            self.storage.finish_commit(unit)
            with suppress(ProviderError):  # the unit is committed; the next sender gets the error
                self.store.relieve()

    def join(self, transaction: object) -> JoinedTransaction:
        """Return an object that commits a unit together with the application's transaction. Raises `CapabilityError`."""
        if self.storage is None:
            raise CapabilityError(f"{self.name} keeps nothing; connect with store= and the application's database")
        return self.storage.journal.join(transaction)

    def finish_joined(self, unit: UnitOfWork, joined: JoinedTransaction) -> None:
        """Write and apply a unit whose commit was begun, with the application's transaction. Raises as `finish_commit`."""
        assert self.storage is not None, "only a host that keeps messages can be joined"
        finish = partial(self.storage.finish_joined, unit, joined)
        if unit.tags is None:
            finish()
        else:
            self.clients.commit(unit, finish)

    # Destinations

    def queue(self, name: str) -> Queue:
        """Return the queue `name`, made now if there is none. Raises `DestinationError`."""
        queue = self._queues.get(name)
        if queue is not None:
            return queue
        check_name(name, "the name of the queue", DestinationError)
        return self._named_queue(name)

    def _queue_of_letters(self, name: str) -> Queue:
        """Return a queue for dead letters, which stay here, wherever clients find the queue of that name."""
        return self._queues.get(name) or self._named_queue(name, may_be_retired=True)

    def _named_queue(self, name: str, *, may_be_retired: bool = False) -> Queue:
        # The definition is written with the queue's first durable message, so naming a queue waits for nothing.
        address = Address(AddressKind.QUEUE, name)
        kept = None if self.storage is None else self.storage.define_later(address)
        return self._define_queue(address, kept, None, may_be_retired=may_be_retired)[0]

    def create_queue(self, name: str, policy: QueuePolicy | None) -> bool:
        """Make a queue; return False if there is one. `policy` None: the host's.

        Raises `DestinationError`, `PolicyError`, `ResourceError`; `InDoubtError`: the queue exists nevertheless.
        """
        check_name(name, "the name of the queue", DestinationError)
        if policy is not None:
            policy.check_for(name)
            self._check_policy(name, policy)
        address = Address(AddressKind.QUEUE, name)
        # Operators take turns by name. A sender that names the queue meanwhile takes no turn, as a send must not wait.
        with self._turns.of(name):
            if name in self._queues:
                return False
            if name in self._retired:
                raise RetiredQueueError(name)
            return make_when_written(
                self.storage, address, policy, lambda kept: self._define_queue(address, kept, policy)[1]
            )

    def _define_queue(
        self,
        address: Address,
        kept: QueueJournal | None,
        policy: QueuePolicy | None,
        *,
        may_be_retired: bool = False,
    ) -> tuple[Queue, bool]:
        with self._lock:
            queue = self._queues.get(address.name)
            # Another thread was faster: the callers have looked without the lock.
            if queue is not None:
                return queue, False
            if address.name in self._retired and not may_be_retired:
                raise RetiredQueueError(address.name)
            self.temporaries.check_free(address.name)
            return self._add_queue(address, kept, policy), True

    def _add_queue(self, address: Address, kept: QueueJournal | None, policy: QueuePolicy | None) -> Queue:
        """Make a queue that is not temporary. The lock is held."""
        chosen = self.policy.queues.for_queue(address.name) if policy is None else policy
        queue = self._queues[address.name] = self._make_queue(str(address), chosen, kept)
        return queue

    def restore_queue(self, address: Address, kept: QueueJournal, policy: QueuePolicy | None = None) -> Queue:
        """Make a queue again that is in the journal."""
        with self._lock:
            return self._add_queue(address, kept, policy)

    def find_queue(self, name: str) -> Queue | None:
        """Return the queue `name` if there is one; none is made."""
        return self._queues.get(name)

    def find_topic(self, name: str) -> Topic | None:
        """Return the topic `name` if there is one; none is made."""
        return self._topics.get(name)

    def has_destination(self, address: Address) -> bool:
        """Return whether there is such a destination; none is made."""
        if address.temporary:
            return self.temporaries.owner_of(address) is not None
        return address.name in (self._queues if address.kind is AddressKind.QUEUE else self._topics)

    def topic_names(self) -> list[str]:
        """Return the names of all topics that are not temporary, sorted."""
        with self._lock:
            return sorted(self._topics)

    def queues(self) -> list[tuple[str, Queue]]:
        """Return the queues that are not temporary, sorted by their names."""
        with self._lock:
            return sorted(self._queues.items())

    def queue_names(self) -> list[str]:
        """Return the names of all queues that are not temporary, sorted."""
        with self._lock:
            return sorted(self._queues)

    def alter_queue(self, name: str, **changes: Any) -> bool:
        """Change fields of a queue's policy, which is its own from now on; return False if there is no such queue.

        Concurrent changes wait for each other, so that none undoes another. The policy applies once it is written.
        Raises `PolicyError`, `DestinationInUseError`, `ResourceError`, `InDoubtError`; then the policy is unchanged.
        """
        # The policy is read under the name's lock: two alterations at once would otherwise undo each other.
        with self._turns.of(name):
            queue = self._queues.get(name)
            if queue is None:
                return False
            default = self.policy.queues.for_queue(name)
            altered = queue.policy.altered(**changes)
            if altered.expiry_queue != queue.policy.expiry_queue:  # that of an older store stays until it is changed
                altered.check_for(name)
            self._check_policy(name, altered)
            alter_when_written(queue, self.storage, Address(_QUEUE, name), altered, default)
        return True

    def _check_policy(self, name: str, policy: QueuePolicy) -> None:
        policy.check_undivided()
        if self.check_policy is not None:
            self.check_policy(name, policy)

    def destroy_queue(self, name: str) -> bool:
        """Delete a queue with its messages; return False if there is none.

        Until that is written, it is unchanged for all. Raises `ResourceError`; `InDoubtError`: it is gone nevertheless.
        """
        with self._turns.of(name):
            queue = self._queues.get(name)
            if queue is None:
                return False
            end_when_written(queue, self.storage, partial(self._forget_queue, name))
        return True

    def retire_queue(self, name: str) -> None:
        """Delete a queue that nobody uses, if there is one, and refuse its name to clients until `admit_queue`. Does not wait for the disk.

        Raises `DestinationInUseError`: it has messages, consumers or reader groups, or a policy of its own, and nothing has changed.
        """
        with self._turns.of(name):
            with self._lock:
                self._retired.add(name)  # first: nobody makes the queue after it was looked for
                queue = self._queues.get(name)
            try:
                if queue is not None:
                    self.pipelines.groups.check_unread(queue)
                    close_unused(queue, self.policy.queues.for_queue(name))
            except ProviderError:
                self.admit_queue(name)
                raise
            if queue is not None:
                end_at_once(queue, self.storage, queue.journal, partial(self._forget_queue, name))

    def admit_queue(self, name: str) -> None:
        """Let clients use a name that was retired. May be repeated."""
        with self._lock:
            self._retired.discard(name)

    @property
    def retired_queues(self) -> frozenset[str]:
        """The names of queues that are refused here."""
        with self._lock:
            return frozenset(self._retired)

    def _forget_queue(self, name: str) -> None:
        with self._lock:
            # From here on a send that names the queue makes another one, with another number in the journal.
            self._queues.pop(name, None)
        self.admission.forget(Address(AddressKind.QUEUE, name))

    def topic(self, name: str) -> Topic:
        """Return the topic `name`, made now if there is none. Raises `DestinationError`."""
        topic = self._topics.get(name)
        if topic is None:
            check_name(name, "the name of the topic", DestinationError)
            # Looked up again under the lock: two topics of one name would each have a part of the subscriptions.
            with self._lock:
                topic = self._topics.get(name)
                if topic is None:
                    self.temporaries.check_free(name)
                    policy = self.policy.queues.for_subscription(name)
                    topic = self._topics[name] = Topic(f"topic://{name}", self.store, policy, self.trace)
        return topic

    def readable_queue(self, address: Address, reader: ConnectionId) -> Queue:
        """Return the queue that connection `reader` wants to consume or browse. Raises `DestinationError`."""
        if not address.temporary and address.kind is AddressKind.QUEUE:
            queue = self._queues.get(address.name) or self.temporaries.named(address, reader)
            return queue if isinstance(queue, Queue) else self.queue(address.name)
        channel = self.temporaries.owned(address, reader) if address.temporary else None
        if not isinstance(channel, Queue):
            raise DestinationError(f"{address} is no queue")
        return channel

    def _make_queue(self, name: str, policy: QueuePolicy, kept: QueueJournal | None = None) -> Queue:
        queue = Queue(
            name,
            self.store,
            self._make_state(),
            self.clock,
            schedule=self._schedule,
            journal=kept,
            policy=policy,
            on_dead=self.mover.dead_letter_all,
        )
        queue.watch, queue.back_off_ms = self.expiries, self.policy.back_off_ms
        return queue

    def _make_temporary(self, address: Address) -> Queue | Topic:
        """Make a temporary destination for `TemporaryDestinations`. The lock is held."""
        if address.kind is AddressKind.QUEUE:
            return self._make_queue(str(address), self.policy.queues.default)
        return Topic(str(address), self.store, self.policy.queues.subscriptions)

    def _make_state(self) -> ChannelState:
        persistence = None if self.storage is None else self.storage.journal
        return ChannelState(self.store, persistence=persistence, reliability=self.policy.reliability, trace=self.trace)

    # Client ids

    def take_client_id(self, client_id: str, owner: ConnectionId) -> None:
        """Assign `client_id` to connection `owner`. Raises `DuplicateClientIdError`."""
        if not client_id:
            raise DuplicateClientIdError("a client id must not be empty")
        check_name(client_id, "the client id", DuplicateClientIdError)
        with self._lock:
            # One step: of two connections that ask for the same id at once only one may get it (JMS 1.1 §4.3.2).
            if self._client_ids.setdefault(client_id, owner) != owner:
                raise DuplicateClientIdError(f"client id {client_id!r} is in use by another connection of {self.name}")

    def owner_of(self, client_id: str) -> ConnectionId | None:
        """Return the connection that has `client_id`, or None. Takes no lock."""
        return self._client_ids.get(client_id)

    # Ending

    def end_connection(self, owner: ConnectionId, client_id: str | None) -> None:
        """Delete the temporary destinations of a closed connection, and free its client id; its registered clients have left."""
        self.temporaries.end_connection(owner)
        if self.ignored_modes is not None:
            self.ignored_modes.forget(owner)
        self.clients.end_connection(owner)
        with self._lock:
            # The call may be repeated, and another connection may have taken the id since.
            if client_id is not None and self._client_ids.get(client_id) == owner:
                del self._client_ids[client_id]

    def close(self) -> None:
        """Close all destinations; their messages are removed from memory, and stay in the journal."""
        # First: the messages that branches release are counted as delivered, in the journal that queues still have.
        self.branches.close()
        with self._lock:
            # Before they are closed: messages that closing removes from memory stay in the journal.
            for queue in (*self._queues.values(), *self.subscriptions.end_all()):
                queue.journal = None
            channels: list[Channel] = [*self._queues.values(), *self._topics.values(), *self.temporaries.channels()]
        for channel in channels:
            channel.close()


def _at_once(act: Callable[[], _T], /) -> _T:
    return act()


class HostSubscriptions:
    """The subscriptions of a host. Safe to use from any thread. Its tables are guarded by the host's lock, which is not held during writes."""

    def __init__(
        self,
        host: VirtualHost,
        lock: Lock,
        make_state: Callable[[], ChannelState],
        schedule: Callable[[Scheduled, int], None] | None,
    ) -> None:
        """`lock`: the host's; `make_state`: makes the state of a subscription; `schedule` as in `Queue`."""
        self._host = host
        self._lock = lock
        self._make_state = make_state
        self._schedule = schedule
        self._durable: dict[SubscriptionKey, Subscription] = {}
        self._shared: dict[SubscriptionKey, Subscription] = {}
        """The shared subscriptions that are not durable, each with consumers."""
        self._turns = KeyedLock()  # held to make, replace and delete a shared durable subscription
        self._changing: set[SubscriptionKey] = set()
        self._numbers = count(1)

    # Queries

    def durable(self) -> dict[SubscriptionKey, Subscription]:
        """Return the durable subscriptions, with a subscriber or without."""
        with self._lock:
            return dict(self._durable)

    def shared(self) -> dict[SubscriptionKey, Subscription]:
        """Return the shared subscriptions that are not durable."""
        with self._lock:
            return dict(self._shared)

    def find(self, name: str) -> Subscription | None:
        """Return the durable subscription whose channel has that name, as dead letters show it; None: there is none, or there are two."""
        with self._lock:
            # Two keys may have one name: the slash that joins its parts may also be in a client id.
            found = [each for each in self._durable.values() if each.name == name]
        return found[0] if len(found) == 1 else None

    # Beginning and ending

    def subscribe(
        self, request: SubscribeRequest, subscriber: ConnectionId, client_id: str | None, user: object
    ) -> Subscription:
        """Return the subscription that a new consumer of a topic shall read; it is in use by `user` until `end` is called.

        A shared subscription may be in use by others, too. Raises `DestinationError`; `SubscriptionInUseError` when a durable one has a
        subscriber, or when a shared one has consumers with other terms.
        """
        address = request.address
        topic = self._readable_topic(address, subscriber)
        if request.shared_name is not None:
            return self._share(topic, request, subscriber, client_id, user)
        if request.durable_name is None:
            subscription = self._make_subscription(f"{address}#{next(self._numbers)}", request, subscriber, user)
            # A topic that ends at this moment refuses the subscription, and no consumer would ever close it.
            try:
                topic.add_subscription(subscription)
            except ProviderError:
                self.end(subscription, user)
                raise
            return subscription
        # A temporary topic ends with its connection, while a durable subscription is for subscribers that reconnect.
        if address.temporary:
            raise DestinationError(f"{address} is temporary, so it can have no durable subscription")
        if client_id is None and not request.is_shared:
            raise ProviderError(f"durable subscription {request.durable_name!r} needs a connection with a client id")
        check_name(request.durable_name, "the name of the subscription", ProviderError)
        key = SubscriptionKey(client_id or "", request.durable_name)
        if not request.is_shared:
            return self._subscribe_durably(key, request, subscriber, user)
        # Two clients that name a new subscription at once both get it: the second waits until it is written.
        with self._turns.of(key):
            return self._subscribe_durably(key, request, subscriber, user)

    def _share(
        self, topic: Topic, request: SubscribeRequest, subscriber: ConnectionId, client_id: str | None, user: object
    ) -> Subscription:
        """Return the shared subscription that is not durable, made now if it has no consumer yet (JMS 2.0 §8.3.2)."""
        assert request.shared_name is not None, "it is shared"
        if request.durable_name is not None:
            raise ProviderError("a consumer names a shared subscription or a durable one, not both")
        check_name(request.shared_name, "the name of the subscription", ProviderError)
        key, terms = SubscriptionKey(client_id or "", request.shared_name), SubscriptionTerms.of(request)
        # In one step: a second consumer finds the subscription only once the topic passes messages to it, and the last one that closes
        # cannot end a subscription that another has just joined.
        with self._lock:
            found = self._shared.get(key)
            if found is None:
                name = f"{_durable_name(key, request.address)}#{next(self._numbers)}"
                found = self._make_subscription(name, request, subscriber, user)
                topic.add_subscription(found)
                self._shared[key] = found
            elif not found.terms.is_same(terms):
                raise SubscriptionInUseError(_has_other_terms("shared subscription", key, found))
            found.users[user] = None
        return found

    def _readable_topic(self, address: Address, subscriber: ConnectionId) -> Topic:
        """Return the topic that connection `subscriber` wants to consume from. Raises `DestinationError`."""
        if not address.temporary:
            own = self._host.temporaries.named(address, subscriber)
            return own if isinstance(own, Topic) else self._host.topic(address.name)
        channel = self._host.temporaries.owned(address, subscriber)
        if not isinstance(channel, Topic):
            raise DestinationError(f"{address} is no topic")
        return channel

    def _subscribe_durably(
        self, key: SubscriptionKey, request: SubscribeRequest, subscriber: ConnectionId, user: object
    ) -> Subscription:
        terms = SubscriptionTerms.of(request)
        with self._lock:
            subscription = self._durable.get(key)
            if subscription is not None and subscription.terms.is_shared != terms.is_shared:
                raise SubscriptionInUseError(_is_of_other_kind(key, is_shared=subscription.terms.is_shared))
            # The journal is written without the lock: `_changing` keeps other threads from the key meanwhile.
            if key in self._changing or (subscription is not None and subscription.is_active and not terms.is_shared):
                raise SubscriptionInUseError(
                    f"durable subscription {key.name!r} has a subscriber; close that one first"
                )
            # The same terms continue the same subscription and its messages; there is nothing to write.
            if subscription is not None and subscription.terms.is_same(terms):
                subscription.subscriber = subscriber
                subscription.users[user] = None
                return subscription
            if subscription is not None and subscription.is_active:
                raise SubscriptionInUseError(_has_other_terms("shared durable subscription", key, subscription))
            self._changing.add(key)
        try:
            if subscription is None:
                return self._make_durable(key, request, subscriber, user)
            # §6.11.1: other terms make another subscription
            made = self._make_successor(key, subscription, request, subscriber)
            with self._lock:
                made.users[user] = None
            return made
        finally:
            # Also after an error: a remaining key would be in use until the next start.
            with self._lock:
                self._changing.discard(key)

    def _make_durable(
        self, key: SubscriptionKey, request: SubscribeRequest, subscriber: ConnectionId, user: object
    ) -> Subscription:
        """Make a durable subscription, or none on failure; the caller prevents concurrent changes of it."""
        storage = self._host.storage
        kept = None if storage is None else storage.define_subscription(key, SubscriptionTerms.of(request))
        made = self._make_subscription(
            _durable_name(key, request.address), request, subscriber, user, kept, key.client_id
        )
        with self._lock:
            self._durable[key] = made
        try:
            self._host.topic(request.address.name).add_subscription(made)
        except ProviderError:
            end_at_once(made, storage, kept, partial(self._forget_subscription, key, made))
            raise
        return made

    def _make_successor(
        self, key: SubscriptionKey, old: Subscription, request: SubscribeRequest, subscriber: ConnectionId
    ) -> Subscription:
        """Replace a durable subscription without a subscriber by a new one; the caller prevents concurrent changes of both.

        Raises `ResourceError`: the old one is unchanged; after any other error the new one is in place nevertheless.
        """
        storage = self._host.storage
        if storage is None or old.journal is None:
            # The old one is not in the journal, so no write can fail between the two steps.
            self._drop_durable(key, old)
            return self._make_durable(key, request, subscriber, None)
        # Messages that a session holds would be acknowledged in a subscription that has ended.
        _check_settled(key, old)
        terms = SubscriptionTerms.of(request)
        kept = storage.succeed_later(key, terms)
        made = self._make_subscription(
            _durable_name(key, request.address), request, subscriber, None, kept, key.client_id
        )

        def exchange() -> None:
            self._host.topic(old.terms.topic.name).remove_subscription(old)
            self._host.topic(terms.topic.name).add_subscription(made)
            with self._lock:
                self._durable[key] = made

        succeed_when_written(old, kept, storage, exchange)
        return made

    def restore(
        self, key: SubscriptionKey, record: QueueRecord, selector: Selector | None, kept: QueueJournal
    ) -> Subscription:
        """Make a durable subscription again that is in the journal; it has no subscriber."""
        request = SubscribeRequest(
            address=record.address,
            selector=selector,
            no_local=record.no_local,
            durable_name=key.name,
            is_shared=record.is_shared,
        )
        made = self._make_subscription(
            _durable_name(key, record.address), request, ConnectionId(""), None, kept, key.client_id
        )
        with self._lock:
            self._durable[key] = made
        self._host.topic(record.address.name).add_subscription(made)
        return made

    def unsubscribe(self, client_id: str | None, name: str) -> None:
        """Delete a durable subscription, which gets published messages until that is written.

        Raises `UnknownSubscriptionError`, `SubscriptionInUseError`, `ResourceError`; `InDoubtError`: it is gone nevertheless.
        """
        key = SubscriptionKey(client_id or "", name)
        # Those who attach to a shared subscription wait for a change of it, so that they find it or make it anew.
        with self._turns.of(key):
            self._unsubscribe(key, name)

    def _unsubscribe(self, key: SubscriptionKey, name: str) -> None:
        with self._lock:
            # §6.11.1: a durable subscription with an active subscriber cannot be deleted.
            subscription = self._durable.get(key)
            if subscription is None:
                whose = f"client {key.client_id!r}" if key.client_id else "a connection without a client id"
                raise UnknownSubscriptionError(f"{whose} has no durable subscription {name!r}")
            if key in self._changing or subscription.is_active:
                raise SubscriptionInUseError(f"durable subscription {name!r} has a subscriber; close that one first")
            self._changing.add(key)
        try:
            self._drop_durable(key, subscription)
        finally:
            with self._lock:
                self._changing.discard(key)

    def _drop_durable(self, key: SubscriptionKey, subscription: Subscription) -> None:
        """Delete a durable subscription without a subscriber; the caller prevents concurrent changes of it."""
        _check_settled(key, subscription)
        end_when_written(subscription, self._host.storage, partial(self._forget_subscription, key, subscription))

    def _forget_subscription(self, key: SubscriptionKey, subscription: Subscription) -> None:
        self._host.topic(subscription.terms.topic.name).remove_subscription(subscription)
        with self._lock:
            self._durable.pop(key, None)

    def end(self, subscription: Subscription, user: object) -> None:
        """Detach the closed consumer `user` from a subscription: a durable one stays, any other ends with its last consumer.

        May be repeated, even if another consumer uses it.
        """
        with self._lock:
            # It may be missing: other consumers may use the subscription since, and this call is a late repetition.
            subscription.users.pop(user, None)
            # A durable subscription continues to collect messages without a subscriber.
            if subscription.is_durable or subscription.users:
                return
            if subscription.terms.is_shared:
                # From here on a consumer of that name makes another one.
                self._shared = {key: each for key, each in self._shared.items() if each is not subscription}
        terms = subscription.terms
        host = self._host
        find = host.temporaries.find if terms.topic.temporary else host.find_topic
        topic = find(terms.topic.name)
        if isinstance(topic, Topic):
            topic.remove_subscription(subscription)
        subscription.close()

    def end_all(self) -> list[Subscription]:
        """Remove and return all durable subscriptions, as the host closes. The lock is held."""
        found = list(self._durable.values())
        self._durable.clear()
        return found

    def _make_subscription(
        self,
        name: str,
        request: SubscribeRequest,
        subscriber: ConnectionId,
        user: object,
        kept: QueueJournal | None = None,
        client_id: str = "",
    ) -> Subscription:
        host, terms = self._host, SubscriptionTerms.of(request)
        made = Subscription(
            name,
            host.store,
            self._make_state(),
            host.clock,
            terms=terms,
            selector=request.selector,
            subscriber=subscriber,
            is_durable=request.durable_name is not None,
            schedule=self._schedule,
            journal=kept,
            policy=host.policy.queues.for_subscription(terms.topic.name),
            on_dead=host.mover.dead_letter_all,
        )
        if client_id:
            made.find_client = partial(host.owner_of, client_id)
        if user is not None:
            made.users[user] = None
        made.watch, made.back_off_ms = host.expiries, host.policy.back_off_ms
        return made


def _check_settled(key: SubscriptionKey, subscription: Subscription) -> None:
    """Raise `SubscriptionInUseError` while a session holds messages of a subscription that is to end."""
    unsettled = subscription.count(MessageState.DELIVERED)
    if unsettled:
        raise SubscriptionInUseError(
            f"durable subscription {key.name!r} has {counted(unsettled, 'message')}, received and neither acknowledged "
            f"nor rolled back; settle that, or close the session"
        )


def _has_other_terms(what: str, key: SubscriptionKey, subscription: Subscription) -> str:
    terms = subscription.terms
    return (
        f"{what} {key.name!r} has {counted(len(subscription.users), 'consumer')} with {terms.topic} and selector "
        f"{terms.selector_text!r}; name the same, or close them first"
    )


def _is_of_other_kind(key: SubscriptionKey, *, is_shared: bool) -> str:
    kind, other = ("shared", "unshared") if is_shared else ("unshared", "shared")
    return f"durable subscription {key.name!r} is {kind}, so it can have no {other} consumer; choose another name, or unsubscribe it first"


def _durable_name(key: SubscriptionKey, topic: Address) -> str:
    """Return the name of a durable subscription's channel, used in dead letters, too."""
    return f"{topic}#{key.client_id}/{key.name}"


def check_name(name: str, what: str, error: type[ProviderError]) -> None:
    """Raise `error` for a name with half of a surrogate pair, which Java's strings may have.

    UTF-8 cannot represent it, so no list, metric or page with the name could be written: one queue would hide all others.
    """
    try:
        name.encode()
    except UnicodeEncodeError as found:
        raise error(
            f"{what} {name!r} has half of a surrogate pair at {found.start}, which cannot be written: choose another name"
        ) from None
