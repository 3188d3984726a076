"""One name space of destinations, subscriptions and client ids, and the way of a message into it.

Locks: the host's lock guards its tables, and comes first in the lock order. A message on its way takes none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import (
    CapabilityError,
    DestinationError,
    DuplicateClientIdError,
    ProviderError,
)
from pyjms_provider.core.channel.channel import Channel, ChannelClosedError
from pyjms_provider.core.host.admission import DELIVER_AT, AdmissionController, SendPermit, SendTimeout
from pyjms_provider.core.host.expiry_watch import ExpiryWatch
from pyjms_provider.core.host.host_policy import ExpiredInTransaction, HostPolicy
from pyjms_provider.core.host.host_subscriptions import HostSubscriptions
from pyjms_provider.core.host.message_mover import MessageMover
from pyjms_provider.core.host.temporaries import TemporaryDestinations, TemporaryEndedError, check_name
from pyjms_provider.core.journal.durable_ddl import alter_when_written, end_when_written, make_when_written
from pyjms_provider.core.queue.capacity import check_disk
from pyjms_provider.core.queue.channel_state import ChannelState
from pyjms_provider.core.queue.duplicates import DUPLICATE_ID
from pyjms_provider.core.queue.message_trace import MessageTrace
from pyjms_provider.core.queue.policy import Overflow, QueuePolicy
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.turn import WritingTurns
from pyjms_provider.core.topic.topic import Topic
from pyjms_provider.core.transaction.branches import Branches
from pyjms_provider.core.transaction.stages import Pipelines
from pyjms_provider.core.transaction.time_limit import TimeLimit

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.delivery import Delivery
    from pyjms_provider.core.journal.journal import JoinedTransaction
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.journal.storage_manager import RunsWork, StorageManager
    from pyjms_provider.core.message.trace_events import StoryBuffer
    from pyjms_provider.core.queue.consumer import ConsumerSession
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.store.store import MessageStore
    from pyjms_provider.core.timed import HasTimes
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

_T = TypeVar("_T")
_PERSISTENT = 2
_QUEUE = AddressKind.QUEUE  # looking up a member of an enumeration costs more than a global name


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
        storage: StorageManager | None = None,
        stories: StoryBuffer | None = None,
    ) -> None:
        """Make an empty host. `on_due` as in `Queue`; `storage`: how it survives, None: not at all; `stories`: where it traces its messages.

        Raises `PolicyError` for a policy that asks for a disk where there is none.
        """
        self.name = name
        self.store = store
        self.clock = clock
        self.policy = policy or HostPolicy()
        self.refusal: str | None = None
        """Why it is not to be used, and what to use instead: it is a copy, in a process that was forked from the broker's."""
        for each in self.policy.queues.every():
            check_disk(each, has_disk=not store.keeps_all_in_memory)
        self.storage = storage
        self.work: Final[RunsWork] = _at_once if storage is None else storage.work
        """Returns what the act returns, which may write; the end of the host waits for it. Raises `ClosedError` once the end has begun."""
        self.trace = None if stories is None else MessageTrace(stories, store)
        self.mover = MessageMover(self)
        self.expiries = ExpiryWatch()
        self.admission = AdmissionController(clock, self.trace)
        self._on_due = on_due
        self.branches = Branches(
            store,
            clock,
            None if storage is None else storage.journal,
            in_doubt_writes=None if storage is None else storage.in_doubt_writes,
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
        self._turns = WritingTurns()  # to make, alter and destroy queues
        self.temporaries = TemporaryDestinations(self._lock, self._make_temporary, self._forget_temporary)
        self.subscriptions = HostSubscriptions(self, self._lock, self._make_state, on_due)
        self._client_ids: dict[str, ConnectionId] = {}

    # Messages

    def route(
        self,
        envelope: Envelope,
        origin: ConnectionId | None,
        transaction: UnitOfWork | None,
        patience: SendTimeout | None = None,
    ) -> None:
        """Store a message and pass it to its destination; drop it if it is a duplicate.

        `patience`: how long the sender waits for room in a full queue whose policy is to block; None: not at all. Raises
        `DestinationError`, `ResourceError`, and `ClosedError` if the patience ended.
        """
        address = envelope.destination
        if address.temporary:
            channel: Queue | Topic = self.temporaries.channel_of(address)
        elif address.kind is _QUEUE:
            channel = self._queues.get(address.name) or self.queue(address.name)
        else:
            channel = self._topics.get(address.name) or self.topic(address.name)
        store, properties, storage = self.store, envelope.properties, self.storage
        if storage is not None:
            store.relieve()  # first: who finds no room has sent nothing
        admission: SendPermit | None = None
        try:
            if channel.needs_admission or DELIVER_AT in properties or DUPLICATE_ID in properties:
                admission = self.admission.admit(channel, envelope, patience, transaction)
                if admission is None:
                    return
                envelope = admission.envelope
            if storage is not None and transaction is None and envelope.delivery_mode == _PERSISTENT:
                storage.send(channel, envelope, origin, admission)
            else:
                reference = store.store(envelope, origin)
                try:
                    if admission is None:
                        channel.enqueue(reference, transaction)
                    else:
                        reference.deliver_at_ms = admission.deliver_at_ms
                        admission.hand_over(channel, reference, transaction)
                except ProviderError:
                    store.release(reference)
                    raise
        except ChannelClosedError as error:
            if address.temporary:  # it ended at this moment
                raise TemporaryEndedError(error.reason) from error
            raise
        finally:
            if admission is not None:
                admission.end(transaction)

    def may_wait(self, envelope: Envelope, *, is_transacted: bool) -> bool:
        """Say whether `route` may wait for the disk or for room."""
        address = envelope.destination
        channel = self._queues.get(address.name) if address.kind is _QUEUE and not address.temporary else None
        if channel is not None and channel.needs_admission and channel.policy.overflow is Overflow.BLOCK:
            return True
        if self.storage is None:
            return False
        is_unknown = channel is None and address.kind is _QUEUE and not address.temporary
        return is_unknown or self.store.is_pressed or (envelope.delivery_mode == _PERSISTENT and not is_transacted)

    def plain_queue(self, envelope: Envelope) -> Queue | None:
        """Return the queue of a PERSISTENT message that `StorageManager.send_together` takes; None: it is to be sent by `route`."""
        address, properties = envelope.destination, envelope.properties
        if address.temporary or address.kind is not _QUEUE or envelope.delivery_mode != _PERSISTENT:
            return None
        queue = self._queues.get(address.name)
        if queue is None or queue.kept is None or queue.kept.definition is not None or queue.needs_admission:
            return None
        return None if DELIVER_AT in properties or DUPLICATE_ID in properties else queue

    def finish_commit(self, unit: UnitOfWork) -> None:
        """Make a unit true whose commit was begun. Raises `RolledBackError`, `InDoubtError`."""
        if self.storage is None:
            unit.finish_commit(None)
        else:
            self.storage.finish_commit(unit)
            with suppress(ProviderError):  # the unit is true; who sends next is told that there is no room
                self.store.relieve()

    def join(self, transaction: object) -> JoinedTransaction:
        """Return what commits a unit together with the application's transaction. Raises `CapabilityError`."""
        if self.storage is None:
            raise CapabilityError(f"{self.name} keeps nothing; connect with store= and the application's database")
        return self.storage.journal.join(transaction)

    def finish_joined(self, unit: UnitOfWork, joined: JoinedTransaction) -> None:
        """Make a unit true whose commit was begun, with the application's transaction. Raises as `finish_commit`."""
        assert self.storage is not None, "only a host that keeps messages can be joined"
        self.storage.finish_joined(unit, joined)

    def reject(self, delivery: Delivery, entry: QueueEntry, session: ConsumerSession, reason: str) -> None:
        """Settle a delivery and keep its message aside, with `reason`; see `MessageMover`. Raises `ResourceError`."""
        self.mover.reject(delivery, entry, session, reason)

    # Destinations

    def queue(self, name: str) -> Queue:
        """Return the queue `name`, made now if there is none. Raises `DestinationError`."""
        queue = self._queues.get(name)
        if queue is not None:
            return queue
        check_name(name, "the name of the queue", DestinationError)
        address = Address(AddressKind.QUEUE, name)
        return self._define_queue(address, None if self.storage is None else self.storage.define_later(address), None)[
            0
        ]

    def create_queue(self, name: str, policy: QueuePolicy | None) -> bool:
        """Make a queue; return False if there is one. `policy` None: what the host says.

        Raises `DestinationError`, `PolicyError`, `ResourceError`; `InDoubtError`: it is there nevertheless.
        """
        check_name(name, "the name of the queue", DestinationError)
        if policy is not None:
            policy.check_for(name)
        address = Address(AddressKind.QUEUE, name)
        with self._turns.of(name):
            if name in self._queues:
                return False
            return make_when_written(
                self.storage, address, policy, lambda kept: self._define_queue(address, kept, policy)[1]
            )

    def _define_queue(
        self, address: Address, kept: QueueJournal | None, policy: QueuePolicy | None
    ) -> tuple[Queue, bool]:
        with self._lock:
            queue = self._queues.get(address.name)
            if queue is not None:  # another thread was faster
                return queue, False
            self.temporaries.check_free(address.name)
            return self._add_queue(address, kept, policy), True

    def _add_queue(self, address: Address, kept: QueueJournal | None, policy: QueuePolicy | None) -> Queue:
        """Make a queue that is no temporary one. The lock is held."""
        chosen = self.policy.queues.for_queue(address.name) if policy is None else policy
        queue = self._queues[address.name] = self._make_queue(str(address), chosen, kept)
        return queue

    def restore_queue(self, address: Address, kept: QueueJournal, policy: QueuePolicy | None = None) -> Queue:
        """Make a queue again that the journal has kept."""
        with self._lock:
            return self._add_queue(address, kept, policy)

    def find_queue(self, name: str) -> Queue | None:
        """Return the queue `name` if there is one; none is made."""
        return self._queues.get(name)

    def find_topic(self, name: str) -> Topic | None:
        """Return the topic `name` if there is one; none is made."""
        return self._topics.get(name)

    def has_topic(self, name: str) -> bool:
        """Say whether there is a topic `name`; none is made."""
        return name in self._topics

    def has_destination(self, address: Address) -> bool:
        """Say whether there is such a destination; none is made."""
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

        Who changes others at the same time waits for this, so that nobody undoes it. It is obeyed once it is written.
        Raises `PolicyError`, `DestinationInUseError`, `ResourceError`, `InDoubtError`; then the policy is what it was.
        """
        with self._turns.of(name):
            queue = self._queues.get(name)
            if queue is None:
                return False
            default = self.policy.queues.for_queue(name)
            altered = queue.policy.altered(**changes)
            if altered.expiry_queue != queue.policy.expiry_queue:  # that of an older store stays until somebody sets it
                altered.check_for(name)
            alter_when_written(queue, self.storage, Address(_QUEUE, name), altered, default)
        return True

    def destroy_queue(self, name: str) -> bool:
        """Delete a queue with its messages; return False if there is none.

        Until that is written, it is for everybody as it was. Raises `ResourceError`; `InDoubtError`: it is gone nevertheless.
        """
        with self._turns.of(name):
            queue = self._queues.get(name)
            if queue is None:
                return False
            end_when_written(queue, self.storage, partial(self._forget_queue, name))
        return True

    def _forget_queue(self, name: str) -> None:
        with self._lock:
            self._queues.pop(name, None)
        self.admission.forget(Address(AddressKind.QUEUE, name))

    def topic(self, name: str) -> Topic:
        """Return the topic `name`, made now if there is none. Raises `DestinationError`."""
        topic = self._topics.get(name)
        if topic is None:
            check_name(name, "the name of the topic", DestinationError)
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
            on_due=self._on_due,
            kept=kept,
            policy=policy,
            on_dead=self.mover.set_aside,
        )
        queue.watch, queue.back_off_ms = self.expiries, self.policy.back_off_ms
        return queue

    def _make_temporary(self, address: Address) -> Queue | Topic:
        """Make it, for the table of those. The lock is held."""
        if address.kind is AddressKind.QUEUE:
            return self._make_queue(str(address), self.policy.queues.default)
        return Topic(str(address), self.store, self.policy.queues.subscriptions)

    def _forget_temporary(self, address: Address) -> None:
        self.admission.forget(address)

    def _make_state(self) -> ChannelState:
        persistence = None if self.storage is None else self.storage.journal
        return ChannelState(self.store, persistence=persistence, reliability=self.policy.reliability, trace=self.trace)

    # Client ids

    def take_client_id(self, client_id: str, owner: ConnectionId) -> None:
        """Let connection `owner` have `client_id`. Raises `DuplicateClientIdError`."""
        if not client_id:
            raise DuplicateClientIdError("a client id must not be empty")
        check_name(client_id, "the client id", DuplicateClientIdError)
        with self._lock:
            if self._client_ids.setdefault(client_id, owner) != owner:
                raise DuplicateClientIdError(f"client id {client_id!r} is in use by another connection of {self.name}")

    # Ending

    def end_connection(self, owner: ConnectionId, client_id: str | None) -> None:
        """Delete the temporary destinations of a connection that has closed, and free its client id."""
        self.temporaries.end_connection(owner)
        with self._lock:
            if client_id is not None and self._client_ids.get(client_id) == owner:
                del self._client_ids[client_id]

    def close(self) -> None:
        """Close all destinations; their messages go from memory, and stay in the journal that keeps them."""
        self.branches.close()
        with self._lock:
            for queue in (*self._queues.values(), *self.subscriptions.end_all()):
                queue.kept = None
            channels: list[Channel] = [*self._queues.values(), *self._topics.values(), *self.temporaries.channels()]
        for channel in channels:
            channel.close()


def _at_once(act: Callable[[], _T], /) -> _T:
    return act()
