"""A queue: messages are enqueued, wait in order, and are pulled by consumers (Broker-J, consumer-queue interactions).

The three calls between queue and consumers are `Queue.set_notify_work_desired`, `Consumer.notify_work` and `Queue.deliver_single_message`. All are
safe from any thread; the queue's lock is held for a few steps, never while a consumer is called (decision 0104) or I/O is done.

Collaborators have their own state: `ChannelState` the entries, `ConsumerManager` the consumers, `QueueRules` the policy's rules (capacity,
groups, last values), `Pager` the messages on the disk, `DeadLetterPolicy` those that leave for a dead letter queue, `Pusher` the receivers of JBoss Messaging Core, `QueueJournal` the journal's record.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError, ResourceError
from pyjms.spi.fast_paths import FAST_PATHS
from pyjms_provider.core.channel import Channel, ChannelClosedError, UnreliableChannelError
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.core.queue.altering import change_rules, is_another_kind
from pyjms_provider.core.queue.consumer import ConsumerList, ConsumerManager
from pyjms_provider.core.queue.cursor import UNFINISHED, Unfinished
from pyjms_provider.core.queue.dead_letters import DeadLetterPolicy
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList, make_order
from pyjms_provider.core.queue.pager import Pager
from pyjms_provider.core.queue.pusher import Pusher
from pyjms_provider.core.queue.queue_rules import QueueRules, check_disk, needs_rules
from pyjms_provider.core.queue.recovery import reinstate, uncommitted_messages
from pyjms_provider.core.queue.schedule import Schedule
from pyjms_provider.core.queue.scheduled_messages import is_expired, redelivery_delay_ms
from pyjms_provider.core.queue.search import QueueBrowser, Search, browse
from pyjms_provider.core.queue_types import AnyQueueType, QueueType
from pyjms_provider.core.store import NotInMemoryError

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Sequence
    from typing import Literal

    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.channel import Filter, Receiver
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.message.entry import Holder, ReceiverId, Transaction
    from pyjms_provider.core.message.reference import MessageReference, MessageSequencer, ReferenceId
    from pyjms_provider.core.queue.channel_state import ChannelState
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.contracts import ExpiryListener
    from pyjms_provider.core.queue.dead_letters import DeadEntry
    from pyjms_provider.core.queue.queue_rules import CapacityReservation
    from pyjms_provider.core.store import MessageStore

WITHOUT_LIMITS: Final = QueuePolicy(max_deliveries=0, max_failures=0)
"""The policy of a queue by itself, without a host that handles dead letters."""

# Looking up a member of an enumeration costs more than a global name.
_NEW = MessageState.NEW
_NOT_COMMITTED = MessageState.NOT_COMMITTED
_DELIVERED = MessageState.DELIVERED
_ABSENT = MessageState.ABSENT
_STATES: Final = (_NEW, _NOT_COMMITTED, _DELIVERED)
_REMOVED = ConsumerList.REMOVED
_NOTIFIED = ConsumerList.NOTIFIED


class Queue(Channel):
    """The messages of one destination, or of one subscription."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        state: ChannelState,
        clock: Clock,
        *,
        schedule: Callable[[Queue, int], None] | None = None,
        journal: QueueJournal | None = None,
        policy: QueuePolicy = WITHOUT_LIMITS,
        on_dead: Callable[[deque[DeadEntry]], None] | None = None,
    ) -> None:
        """Make an empty queue. Raises `PolicyError` for a policy that needs a disk where there is none.

        `schedule(queue, at_ms)` asks for a call of `run_due` at that wall-clock time; it is called without a lock. None: expired messages are found only
        when they are pulled. `journal`: its record in the journal; None: it has none. `on_dead`: see `DeadLetterPolicy`.
        """
        super().__init__(name, store)
        self.lock = Lock()
        self.state = state
        self.ordering = state.ordering
        """The available messages in their order; replaced by `alter`."""
        self.clock: Final = clock
        self.rules: QueueRules | None = None
        """The policy's rules for each message; None: there are none."""
        self.journal = journal
        self.ended_journal: QueueJournal | None = None
        """Its record, once the queue has ended: messages that were being written then are to be removed."""
        self.watch: ExpiryListener | None = None
        """Is notified of messages that expire here; set before the queue is used."""
        self.policy = policy
        """Replaced by `alter`; may be read at any time."""
        self.back_off_ms = 0
        """The delay before a message's third delivery, where the policy has no delay; set by the host."""
        self.needs_admission = False
        """Whether the policy requires checks of each incoming message."""
        self._all_in_memory = store.keeps_all_in_memory
        check_disk(policy, has_disk=not self._all_in_memory)
        self._refuses_reliable = state.refuses_reliable
        self._schedule = schedule
        self.is_closed = False
        """Whether `close` was called."""
        self.consumers: Final = ConsumerManager()
        self.pager: Final = Pager(self)
        self.dead_letters: Final = DeadLetterPolicy(self, on_dead)
        self.times: Final = Schedule(self)
        self._expiry = self.times.expiry
        self.has_receivers = False
        """Whether messages are pushed to receivers: all that a pulled queue needs to know about them."""
        self._pusher: Pusher | None = None
        self._obey(policy, QueueType.STANDARD)

    # Properties

    @property
    def is_synchronous(self) -> bool:
        return False

    @property
    def is_reliable(self) -> bool:
        return self.state.is_reliable

    @property
    def is_transactional(self) -> bool:
        return self.state.is_transactional

    @property
    def is_storing_undeliverable(self) -> bool:
        return True

    def accept(self, reference: MessageReference) -> bool:
        """Return whether the queue would accept the message: it is open and need not refuse it (§2.1)."""
        return not self.is_closed and not (reference.reliable and self._refuses_reliable)

    @property
    def sequencer(self) -> MessageSequencer | None:
        """The sequencer of its total order; None: it has none."""
        return None if self.rules is None else self.rules.sequencer

    @property
    def subscription_name(self) -> str | None:
        """The name of the channel between a topic and one subscriber; None: this is a queue."""
        return None

    # Enqueueing

    def enqueue(
        self,
        reference: MessageReference,
        transaction: Transaction | None = None,
        claim: CapacityReservation | None = None,
    ) -> bool:
        """Accept a message: always positively, as it is stored if no receiver takes it (§5.2.4). `claim`: the reservation made by `reserve` that the message uses."""
        if reference.reliable and self._refuses_reliable:
            raise UnreliableChannelError(self._name)
        if (rules := self.rules) is not None and rules.ranks is not None:
            rules.rank(reference, self.store.retrieve)
        due_ms: int | None = None
        woken: Sequence[Consumer] = ()
        handed: tuple[Consumer, Delivery] | None = None
        with self.lock:
            if self.is_closed:
                raise ChannelClosedError(f"{self._name} no longer exists")
            if transaction is not None:
                entry = self.state.add_in_transaction(self, reference, transaction)
                if self.rules is not None:
                    try:
                        self.rules.accept(entry, self.store.retrieve, claim)
                    except NotInMemoryError:
                        self.state.remove(entry, MessageEvent.ROLLBACK)
                        raise
            elif self.rules is not None or reference.deliver_at_ms:
                entry = self.state.make(self, reference)
                if self.rules is not None:
                    self.rules.accept(entry, self.store.retrieve, claim)
                woken = self.place(entry)
                due_ms = self.state.delays.next_ms
            elif self.consumers.interested_count and (handed := self._direct_deliver(reference)) is not None:
                entry = handed[1].tag  # type: ignore[assignment]  # as `entry_of` in `clients`, without a call
            else:
                entry = self.state.add(self, reference)
                if (self.consumers.interested_count or self.consumers.non_acquiring_count) and not self.has_receivers:
                    woken = self.choose(entry)
            if not self._all_in_memory:
                # Once the queue has it: from here on the message may leave memory, even before its transaction commits.
                self.store.publish(reference)
                if self.rules is not None and transaction is None:
                    self.pager.page_out(reference, is_coming=True)
            if reference.expiration_ms and self._expiry.add(entry):
                due_ms = reference.expiration_ms if due_ms is None else min(due_ms, reference.expiration_ms)
        if due_ms is not None:
            self.schedule(due_ms)
        if transaction is not None:
            # Without the queue's lock: the lock of a unit of work comes before those of queues.
            if not transaction.add_sent(entry):
                self.rollback(entry)  # the unit has been rolled back meanwhile
        elif self.has_receivers:
            self.push_or_choose(entry)
        # Outside of the lock: the client's code runs here, and may call the queue.
        if handed is not None:
            handed[0].direct_deliver(handed[1])
        for consumer in woken:
            consumer.notify_work()
        return True

    def commit(self, entries: Iterable[QueueEntry]) -> None:
        """Make NOT_COMMITTED messages available, in this order, and deliver them if possible (§2.2.1)."""
        woken: list[Consumer] = []
        pushable: list[QueueEntry] = []
        late: list[QueueEntry] = []
        with self.lock:
            for entry in entries:
                if entry.state is not _NOT_COMMITTED:  # it expired while it was being written, or the queue was closed
                    self.defer_refused(entry.reference)
                    continue
                woken.extend(self._commit_one(entry))
                if entry.reference.expiration_ms and is_expired(entry.reference, self.clock.time_ms()):
                    late.append(entry)
                if self.has_receivers:
                    pushable.append(entry)
        self.times.ask_for_delayed()
        if late:  # the timer has skipped them while they were being written
            self.schedule(late[0].reference.expiration_ms)
        for entry in pushable:
            self.push_or_choose(entry)
        for consumer in woken:
            consumer.notify_work()

    def _commit_one(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Make a NOT_COMMITTED message available; return the consumers to wake for it. The lock is held."""
        woken: Sequence[Consumer] = ()
        self.state.commit(entry)
        if self.rules is not None or entry.reference.deliver_at_ms:
            woken = self.place(entry)
        else:
            self.ordering.append(entry)
            if (self.consumers.interested_count or self.consumers.non_acquiring_count) and not self.has_receivers:
                woken = self.choose(entry)
        if not self._all_in_memory:
            if entry.reference.journaled:
                self.store.drop_copy(entry.reference)
            if self.rules is not None:
                self.pager.page_out(entry.reference)
        return woken

    def uncommitted_messages(
        self, entries: Iterable[QueueEntry], *, with_transient: bool
    ) -> Sequence[tuple[MessageReference, Envelope | None]]:
        """Return the PERSISTENT messages, or all, of NOT_COMMITTED entries; without the envelopes of those that were paged out."""
        return uncommitted_messages(self, entries, with_transient=with_transient)

    def rollback(self, entry: QueueEntry) -> None:
        """Remove a message if it is NOT_COMMITTED (§5.1.3)."""
        with self.lock:
            if entry.state is _NOT_COMMITTED:
                self.remove(entry, MessageEvent.ROLLBACK)
            has_freed = self.rules is not None and self.rules.has_freed
        if has_freed:  # by the timer: the lock of a unit of work may be held here, under which no consumer is woken
            self.schedule(self.clock.time_ms())

    def defer_refused(self, reference: MessageReference) -> None:
        """Have the journal remove a message that was written for this channel, which has refused it. Does not wait."""
        journal = self.journal or self.ended_journal
        if journal is not None:
            journal.defer_removal(reference)

    # Attaching and detaching consumers

    def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer; it is not interested yet. Raises `ChannelClosedError`, `ClosedError`."""
        with self.lock:
            if self.is_closed:
                raise ChannelClosedError(f"{self._name} no longer exists")
            # Under the lock: a session that closes now is seen closed here, or finds the consumer and detaches it.
            if consumer.session.is_closed:
                raise ClosedError("the session is closed")
            selector = consumer.selector
            consumer.acquires = consumer.acquires and not self.policy.non_destructive
            if self.rules is not None:
                self.rules.add_consumer(consumer)
            if not consumer.acquires:
                consumer.cursor = self.ordering.new_cursor(self.pager.matcher(selector))
            elif selector is not None:
                matches = self.pager.matcher(selector)
                assert matches is not None
                consumer.cursor = self.ordering.open_cursor(selector.text, matches, self.pager.equalities_of(selector))
            self.consumers.add(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Detach a consumer; the messages that it pulled stay with its session. May be repeated."""
        with self.lock:
            woken = self._detach(consumer)
        for other in woken:
            other.notify_work()

    def _detach(self, consumer: Consumer) -> Sequence[Consumer]:
        """Detach a consumer, if that is not done; return the consumers to wake."""
        if consumer.place is _REMOVED:
            return ()
        needs_search = self.rules is not None and self.rules.needs_search
        if self.rules is not None:
            self.rules.remove_consumer(consumer)
        self.ordering.forget_scan(consumer)
        was_notified = self.consumers.remove(consumer)
        if consumer.acquires and consumer.cursor is not None and consumer.selector is not None:
            self.ordering.close_cursor(consumer.selector.text)
            consumer.cursor = None
        return self._next_consumers() if was_notified or needs_search else ()

    def set_notify_work_desired(self, consumer: Consumer, desired: bool) -> None:
        """Note whether `consumer` wants to be woken. Any thread; ignored for a consumer that has been removed."""
        with self.lock:
            consumer.notify_desired = desired
            woken = self._review(consumer)
        for other in woken:
            other.notify_work()

    def review_interest(self, consumer: Consumer) -> None:
        """Check again whether `consumer` wants to be woken, after its connection was started or stopped. Any thread; ignored for a consumer that has been removed."""
        with self.lock:
            woken = self._review(consumer)
        for other in woken:
            other.notify_work()

    def _review(self, consumer: Consumer) -> Sequence[Consumer]:
        if consumer.place is _REMOVED:
            return ()
        manager = self.consumers
        # A consumer whose interest ends will not pull, so its wake-up is passed on.
        if not (consumer.notify_desired and consumer.session.is_delivering):
            return self._next_consumers() if manager.end_interest(consumer) else ()
        manager.begin_interest(consumer)
        # Messages added before the interest began have not woken it.
        if consumer.place is _NOTIFIED or not self.ordering.may_have(consumer.cursor):
            return ()
        manager.notify(consumer)
        return (consumer,)

    # Pulling

    def deliver_single_message(
        self, consumer: Consumer, *, or_wait: bool = False, at_once: bool = False
    ) -> Delivery | None:
        """Assign the next message that `consumer` wants and may take to its session; None when there is none now.

        A woken consumer stays woken while this succeeds; when there is none, it waits for the next wake-up. With `or_wait`, interest begins when
        there is none, and ends on success. With `at_once` it reads nothing from a disk, and evaluates a selector some thousand times at most: then it
        raises `NotAtOnceError`, and the consumer's state is unchanged. It returns None, too, where the answer depends on consumers of higher
        priority which have not looked yet, and on more messages than fit into memory: they will look, and others are woken. Raises `ResourceError`.
        """
        delivery: Delivery | None = None
        woken: Sequence[Consumer] = ()
        found: QueueEntry | Literal[Unfinished.UNFINISHED] | None
        search: Search | None = None
        while True:
            with self.lock:
                session = consumer.session
                if consumer.place is _REMOVED or not session.is_delivering:
                    consumer.notify_desired = consumer.notify_desired or or_wait
                    return None
                if consumer.cursor is None and not self.consumers.needs_search:
                    found = self.ordering.take_first()
                else:
                    search = search or Search(self, consumer, at_once=at_once)
                    found = search.take()
                if found is None:
                    woken = self._found_nothing(consumer, or_wait, search)
                    break
                if found is not UNFINISHED and not (
                    found.reference.expiration_ms and self._drop_if_expired(found, consumer)
                ):
                    tag = found if consumer.acquires else None
                    count = found.delivery_count + 1 if tag is None else self.state.deliver(tag, session, consumer)
                    if self._all_in_memory:
                        delivery = Delivery(self.store.retrieve(found.reference), count, count > 1, tag)
                    else:
                        delivery = self.pager.make_delivery(found.reference, count, tag)
                    if search is not None or (or_wait and consumer.notify_desired):
                        woken = self._note_delivered(consumer, found, delivery, or_wait)
                    break
            # Without the lock: here the disk is read, and others get the lock between two stretches (decision 0104).
            if found is UNFINISHED and search is not None:
                search.load()
        for other in woken:
            other.notify_work()
        return delivery

    def _direct_deliver(self, reference: MessageReference) -> tuple[Consumer, Delivery] | None:
        """Deliver a new message directly to the next consumer in turn, if that is waiting for it; None: the message is enqueued as usual. The lock is held."""
        consumer = self.consumers.next_in_turn()
        if consumer is None or consumer.target.direct is None or consumer.cursor is not None or self.ordering:
            return None
        if self.has_receivers or not consumer.session.is_delivering:
            return None
        if reference.expiration_ms and is_expired(reference, self.clock.time_ms()):
            return None
        # A message that needs a new delivery mark takes the long way, where a worker writes the mark (decision 0610).
        if reference.journaled and self.journal is not None and not self.journal.is_covered(reference, 1):
            return None
        try:
            envelope = self.store.retrieve(reference)
        except NotInMemoryError:
            return None
        # Last: a consumer that agrees has spent its credit on the message.
        if not consumer.target.direct.may_take():
            return None
        entry = self.state.add_delivered(self, reference, consumer.session, consumer)
        self.consumers.move_to_back(consumer)
        return consumer, Delivery(envelope, 1, False, entry)

    def _note_delivered(
        self, consumer: Consumer, entry: QueueEntry, delivery: Delivery, or_wait: bool
    ) -> Sequence[Consumer]:
        """Record the delivery, after which the consumer no longer waits; return further consumers to wake."""
        woken = () if self.rules is None else self._note_taken(consumer, entry, delivery)
        if or_wait and consumer.notify_desired:
            consumer.notify_desired = False
            if self.consumers.end_interest(consumer):
                return [*woken, *self._next_consumers()]
        return woken

    def _note_taken(self, consumer: Consumer, entry: QueueEntry, delivery: Delivery) -> Sequence[Consumer]:
        """Record in the rules that a pull has taken a message; return further consumers to wake. The lock is held."""
        assert self.rules is not None
        if consumer.acquires:
            return self.rules.delivered(consumer, entry, self.consumers, self.ordering)
        if self.policy.non_destructive:
            # Its settlement and release change nothing.
            delivery.tag = QueueEntry(self, entry.reference, _ABSENT)  # type: ignore[misc]
        return ()

    def _found_nothing(self, consumer: Consumer, or_wait: bool, search: Search | None) -> Sequence[Consumer]:
        """Return the consumers to wake because a woken one found nothing while messages remain for others."""
        woken: Sequence[Consumer] = ()
        if consumer.place is _NOTIFIED:
            manager = self.consumers
            if manager.interested_count and self.ordering:
                if self.rules is None or not self.rules.needs_search or self.rules.has_total_order:
                    gave_up = search is not None and search.exceeds_memory
                    woken = manager.choose_after_fruitless_pull(consumer, self.ordering.may_have, gave_up=gave_up)
                elif not self.rules.has_groups:  # otherwise each might be woken needlessly, and wake the next
                    woken = self._next_consumers()
            manager.pulled_nothing(consumer)
        if or_wait and not consumer.notify_desired:
            consumer.notify_desired = True
            self.consumers.begin_interest(consumer)
        return woken

    def _drop_if_expired(self, entry: QueueEntry, consumer: Consumer) -> bool:
        """Return whether a message that was taken has expired, and was removed from the queue."""
        if not is_expired(entry.reference, self.clock.time_ms()):
            return False
        if not consumer.acquires:
            return True  # a consumer that does not acquire merely skips it
        if self.dead_letters.leaves_expired:
            self.state.delays.add(entry, 0)  # not here, as a pull never waits: the timer removes it
        else:
            self.remove(entry, MessageEvent.EXPIRE)
        return True

    # Settling. Each call names the session and the count of its delivery, and does nothing if the session no longer holds that delivery

    def settle(self, entry: QueueEntry, delivery_count: int, session: Holder) -> bool:
        """Remove a pulled message for good; return False if `session` no longer holds this delivery."""
        with self.lock:
            # In line: a call of `_is_held` would double the cost.
            if entry.state is not _DELIVERED or entry.holder is not session or entry.delivery_count != delivery_count:
                return False
            reference, rules = entry.reference, self.rules
            self.state.settle(entry)
            if reference.expiration_ms:
                self._expiry.forget_one()
            if rules is not None:
                rules.remove(entry)
        # After the queue's lock is released: the store has a lock of its own, and consumers of the next message need not wait for it.
        self.store.release(reference)
        if rules is not None:
            self.wake_freed()
        return True

    def take_out_held(self, entry: QueueEntry, delivery_count: int, session: Holder, taken: list[QueueEntry]) -> bool:
        """Remove an unacknowledged message so that the caller can move it; return False if `session` no longer holds this delivery."""
        with self.lock:
            if not _is_held(entry, delivery_count, session):
                return False
            taken.append(entry)
            self.state.settle(entry)
            self.note_out(entry)
        self.wake_freed()
        return True

    def settle_in(self, unit: Transaction, deliveries: Sequence[tuple[QueueEntry, int]], session: Holder) -> bool:
        """Have pulled messages settled when `unit` commits; return False if `session` no longer holds one of them (§6.2.1)."""
        with self.lock:
            held = [each for each in deliveries if _is_held(*each, session)]
            record = self.state.record_acknowledgement
            for entry, _ in held:
                record(entry, unit)
        # Not under the queue's lock: a unit's lock comes before those of queues.
        unit.add_settled(held)
        return len(held) == len(deliveries)

    def settle_committed(self, settled: Iterable[tuple[QueueEntry, int]], session: Holder) -> None:
        """Remove pulled messages whose acknowledgements have been committed, and written. The caller then calls `wake_freed`, without a lock."""
        with self.lock:
            released: list[MessageReference] = []
            rules = self.rules
            for entry, delivery_count in settled:
                # As in `_is_held`.
                if entry.state is _DELIVERED and entry.holder is session and entry.delivery_count == delivery_count:
                    released.append(entry.reference)
                    self.state.settle(entry)
                    entry.transaction = None
                    if entry.reference.expiration_ms:
                        self._expiry.forget_one()
                    if rules is not None:
                        rules.remove(entry)
            self.store.release_all(released)

    def change_holder(self, entry: QueueEntry, delivery_count: int, session: Holder, heir: Holder) -> bool:
        """Let `heir` settle a delivery in place of `session`; return False if `session` no longer holds it."""
        with self.lock:
            if heir.is_closed or not _is_held(entry, delivery_count, session):
                return False
            self.state.change_holder(entry, heir)
            return True

    def held_count(self, session: Holder) -> int:
        """Return how many unsettled messages of this queue `session` has."""
        with self.lock:
            return len(self.state.held_by(session))

    def hold(self, entry: QueueEntry, unit: Transaction, holder: Holder) -> None:
        """Assign a restored message, received in `unit`, to `holder`; before the channel is used."""
        with self.lock:
            entry.delivery_count -= 1  # it was counted when the branch was prepared
            count = self.state.deliver(entry, holder)
            self.state.record_acknowledgement(entry, unit)
            if self.rules is not None:
                self.rules.restored(entry, holder)
            self._supersede(entry)  # it did not become available, and may be the older one on its release
        unit.add_settled([(entry, count)])

    def drop_acknowledgement(self, entry: QueueEntry, unit: Transaction) -> None:
        """Undo an acknowledgement, of a pushed or pulled message, whose unit of work rolls back (§6.2.1)."""
        with self.lock:
            if entry.transaction is unit and entry.state is _DELIVERED:
                self.state.drop_acknowledgement(entry)

    # Releasing

    def give_back(
        self,
        deliveries: Iterable[tuple[QueueEntry, int]],
        session: Holder,
        reason: str | None = None,
        *,
        unseen: bool = False,
    ) -> None:
        """Make messages available again, in their old places, if the session still holds these deliveries.

        At once, or after the redelivery delay; one that was delivered too often is dead-lettered instead. `reason`: why the
        client failed to process it, if known. `unseen`: the client never saw them, so these deliveries do not count.
        """
        with self.lock:
            # Each once: a unit of work lists those twice that were acknowledged twice.
            held = dict.fromkeys(entry for entry, count in deliveries if _is_held(entry, count, session))
            woken = self._cancel(list(held), reason, unseen=unseen)
        self._after_giving_back(woken)

    def give_back_all(self, session: Holder) -> None:
        """Release all messages that `session` pulled and has not settled."""
        with self.lock:
            woken = self._cancel(self.state.held_by(session), None)
        self._after_giving_back(woken)

    def _after_giving_back(self, woken: Sequence[Consumer]) -> None:
        self.times.ask_for_delayed()
        self.dead_letters.flush()
        for consumer in woken:
            consumer.notify_work()
        self.wake_freed()

    def _cancel(self, entries: list[QueueEntry], reason: str | None, *, unseen: bool = False) -> Sequence[Consumer]:
        now_ms = self.clock.time_ms()
        returned: list[QueueEntry] = []
        for entry in entries:
            if entry.transaction is not None and entry.transaction.is_committing:
                continue  # the write under way decides
            if unseen:
                entry.delivery_count -= 1
            if self.is_closed:
                self.remove(entry, MessageEvent.REMOVE, Happening.CLOSED)
            elif is_expired(entry.reference, now_ms):
                self._expiry.forget_one()
                self.expire(entry)
            elif self.rules is not None and self.rules.is_superseded(entry):
                self.remove(entry, MessageEvent.REMOVE, Happening.SUPERSEDED)
            elif not unseen and self.dead_letters.exceeded_redeliveries(
                entry.delivery_count, failed=reason is not None
            ):
                self.dead_letters.remove_as_exhausted(entry, reason)
                if entry.reference.expiration_ms:
                    self._expiry.forget_one()
            else:
                returned.append(entry)
        if self.journal is not None:
            # Without a count no client has had it, and that delivery was not recorded.
            self.journal.defer_counts(
                (e.reference, e.delivery_count) for e in returned if e.delivery_count or not unseen
            )
        policy = self.policy
        # After an error of a listener, at once: few attempts are left, and messages behind it would overtake it.
        back_off_ms = self.back_off_ms if reason is None else 0
        if (policy.redelivery_delay_ms or back_off_ms) and not unseen:
            self.times.follow_clock()

            def due_ms(entry: QueueEntry) -> int:
                delay_ms = redelivery_delay_ms(policy, entry.delivery_count, back_off_ms)
                return now_ms + delay_ms if delay_ms else 0

            self.state.cancel(returned, due_ms)
        else:
            self.state.cancel(returned)
        delayed = [entry for entry in returned if entry in self.state.delays] if self.state.delays else []
        if self.rules is not None:  # all are in their places before the next owner is chosen
            self.rules.delayed(delayed, self.ordering)
            self.rules.released(returned)
        if delayed:
            returned = [entry for entry in returned if entry not in self.state.delays]
        woken: list[Consumer] = []
        for entry in returned:
            if not self.consumers.interested_count:
                break
            woken.extend(self.choose(entry))
        return woken

    def reinstate(self, entry: QueueEntry) -> None:
        """Restore a message that was settled, and whose removal could not be written; it is redelivered, flagged."""
        reinstate(self, entry)

    # Times: expiry and delays

    def schedule(self, at_ms: int | None) -> None:
        """Ask the timer for a call of `run_due` at that time; None: not at all. No lock is held."""
        if at_ms is not None and self._schedule is not None:
            self._schedule(self, at_ms)

    def run_due(self, now_ms: int) -> int | None:
        """Remove expired messages, make due messages available; return when to call again, None: when asked."""
        return self.times.run_due(now_ms)

    def release_removed(self, entry: QueueEntry) -> None:
        """Release the message of an entry that was taken out, after `note_out`."""
        with self.lock:
            self._release(entry)

    # Policy and capacity

    def _obey(self, policy: QueuePolicy, made_for: AnyQueueType | None) -> None:
        """Make rules and order for `policy`, unless the order was made for its type. There are no messages or consumers."""
        rules = QueueRules(policy, self.wake_held_back) if needs_rules(policy) else None
        sort_value = None if rules is None else rules.sort_value
        order = self.ordering if policy.type is made_for else make_order(policy, sort_value)
        self.rules, self.ordering, self.state.ordering, self.policy = rules, order, order, policy
        self._note_policy()

    def _note_policy(self) -> None:
        """Determine the checks on the way of each message."""
        self.consumers.set_always_searches(self.rules is not None and self.rules.needs_search)
        if isinstance(self.ordering, PriorityQueueEntryList):
            self.ordering.may_compact = FAST_PATHS and self.rules is None
        may_refuse = self.policy.is_limited and self.policy.overflow in {Overflow.REJECT, Overflow.BLOCK}
        self.needs_admission = self.policy.changes_messages or may_refuse or self.sequencer is not None

    def alter(self, policy: QueuePolicy, *, only_check: bool = False) -> None:
        """Apply another policy from now on; with `only_check` merely raise the errors of doing so now.

        Raises `DestinationInUseError` for another type, or another way to serve consumers, while the queue has messages
        or consumers; `PolicyError` as the constructor. May wait for a disk.
        """
        check_disk(policy, has_disk=not self._all_in_memory)
        woken: Sequence[Consumer] = ()
        signals: Sequence[Signal] = ()
        with self.lock:
            changes_kind = is_another_kind(self, policy)
            if only_check:
                return
            if self.rules is not None and self.rules.room is not None:
                signals = self.rules.room.all_signals()
            if changes_kind:
                self._obey(policy, None)
            else:
                resumes = self.policy.paused and not policy.paused
                change_rules(self, policy)
                self._note_policy()
                self._drop_surplus()
                woken = self._next_consumers()
                if resumes and policy.non_destructive:  # consumers that only look were paused like the others
                    woken = [*woken, *self.consumers.non_acquiring()]
        for signal in signals:
            signal.set()
        if self.has_receivers:  # a pause may have ended
            self.pusher.offer_all()
        for consumer in woken:
            consumer.notify_work()
        with suppress(ResourceError):  # the policy has changed; the next sender gets the error
            self.store.relieve()

    def reserve(self, waiting: CapacityReservation, *, or_wait: bool = False) -> bool:
        """Reserve room for a sender's message, until `release_reservation`; return False when there is none now.

        With `or_wait` the sender's signal is then set when its turn has come and there is room, or the queue or its
        policy changes; a sender that is waiting already keeps its place. Raises `ChannelClosedError`.
        """
        with self.lock:
            if self.is_closed:
                raise ChannelClosedError(f"{self._name} no longer exists")
            room = None if self.rules is None else self.rules.room
            if room is None or self.policy.overflow in {Overflow.RING, Overflow.FLOW_TO_DISK}:
                return True
            is_claimed = room.claim(waiting)
            if or_wait and not is_claimed:  # in one step, as the capacity may be replaced afterwards
                room.wait(waiting)
            return is_claimed

    def release_reservation(self, waiting: CapacityReservation) -> None:
        """End a claim, as the message has been added, or is not sent."""
        with self.lock:
            if self.rules is not None and self.rules.room is not None:
                self.rules.room.unclaim(waiting)
                self.rules.wake_sender()

    def stop_waiting(self, waiting: CapacityReservation) -> None:
        """Remove a sender that no longer waits. May be repeated."""
        with self.lock:
            if self.rules is not None and self.rules.room is not None:
                self.rules.room.stop_waiting(waiting)
                self.rules.wake_sender()

    # Queries

    def has_messages(self, state: MessageState) -> bool:
        return self.count(state) > 0

    def count(self, state: MessageState) -> int:
        """Return how many messages are in `state`."""
        with self.lock:
            return self.state.count(state)

    def get_messages(self, state: MessageState) -> list[MessageReference]:
        with self.lock:
            return [entry.reference for entry in self.state.entries(state)]

    def browse(self, message_filter: Filter | None = None) -> list[Envelope]:
        return browse(self, message_filter)

    def open_browser(self, selector: Selector | None) -> QueueBrowser:
        """Return a browser of the messages that are in the queue now. It needs no closing."""
        return QueueBrowser(self, selector)

    @property
    def consumer_count(self) -> int:
        """How many consumers are attached."""
        with self.lock:
            return len(self.consumers)

    @property
    def delayed_count(self) -> int:
        """How many messages are delayed."""
        with self.lock:
            return len(self.state.delays)

    @property
    def size(self) -> int:
        """About how many bytes the messages take, as far as they have been measured."""
        with self.lock:
            return self.state.size

    def message_of(self, reference: MessageReference) -> Envelope | None:
        """Return a message of this queue; None if it has left, or is damaged. Waits for a disk. Raises `ResourceError`."""
        return self.store.fetch(reference)  # a consumer that receives an unreadable one skips it

    # Receivers, to which messages are pushed (JBoss Messaging Core)

    @property
    def pusher(self) -> Pusher:
        """The pusher of messages to receivers; made when it is needed."""
        if self._pusher is None:
            self._pusher = Pusher(self)
        return self._pusher

    def add_receiver(self, receiver: Receiver) -> None:
        """Connect a receiver: messages are pushed to it from now on, older ones with the next `deliver`."""
        self.pusher.add(receiver)

    def remove_receiver(self, receiver: Receiver) -> None:
        """Disconnect a receiver; it still owes its acknowledgements, and may ask for redelivery (§7.5)."""
        self.pusher.remove(receiver)

    def deliver(self) -> bool:
        return self.pusher.deliver()

    def redeliver(self, receiver: Receiver) -> None:
        self.pusher.redeliver(receiver)

    def acknowledge(
        self, message_id: ReferenceId, receiver_id: ReceiverId, transaction: Transaction | None = None
    ) -> None:
        self.pusher.acknowledge(message_id, receiver_id, transaction)

    def release_unacknowledged(self, receiver_id: ReceiverId) -> int:
        """Make the messages available again whose acknowledgement a receiver owes, to all receivers, or move them if they came too often; return how many."""
        with self.lock:
            owed = self.state.releasable(receiver_id)
            if (
                self.journal is not None
            ):  # so that they come again flagged, if the broker ends before their receivers have answered
                self.journal.defer_counts((each.reference, each.delivery_count) for each in self.state.under_way())
            woken = self._cancel(owed, None)
        self._after_giving_back(woken)
        for entry in owed if self.has_receivers else ():
            self.push_or_choose(entry)
        return len(owed)

    def apply_acknowledgements(self, acknowledged: Iterable[tuple[QueueEntry, ReceiverId]]) -> None:
        """Apply acknowledgements of pushed messages whose unit of work commits (§6.2.1)."""
        self.pusher.apply_acknowledgements(acknowledged)

    # The end

    def close(self) -> None:
        """Release all messages, save those that a client has pulled: they are removed when they are settled or released."""
        with self.lock:
            if self.is_closed:
                return
            self.is_closed = True
            for entry in self.state.clear_available():
                self.forget(entry)
            for entry in [each for state in _STATES for each in self.state.entries(state) if each.holder is None]:
                self.remove(entry, MessageEvent.REMOVE, Happening.CLOSED)
            for consumer in list(self.consumers):
                self.consumers.remove(consumer)
            signals = [] if self.rules is None or self.rules.room is None else self.rules.room.all_signals()
        for signal in signals:
            signal.set()

    def take_out(self, entry: QueueEntry, taken: list[QueueEntry], cause: Happening | None = None) -> bool:
        """Remove a message that is not held, so that the caller can move or delete it; return False if it is held, or has left.

        The caller removes it from the store and the journal. It is appended to `taken`. `cause`: the reason for the trace, if the caller does not trace it.
        """
        with self.lock:
            if entry.state is not _NEW or entry.acknowledgements is not None:
                return False
            taken.append(entry)
            self.state.remove(entry, MessageEvent.REMOVE, cause)
            self.note_out(entry)
        self.wake_freed()
        return True

    def note_out(self, entry: QueueEntry) -> None:
        """Update expiry and rules for a message that was taken out. The lock is held."""
        if entry.reference.expiration_ms:
            self._expiry.forget_one()
        if self.rules is not None:
            self.rules.remove(entry)

    # With the lock held: messages become available

    def place(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Make a NEW message available, now or when it is due; return the consumers to wake. The lock is held."""
        due_ms = entry.reference.deliver_at_ms
        if due_ms > self.clock.time_ms() and self.sequencer is None:  # none is delayed in a total order
            self.state.delays.add(entry, due_ms)
            self._drop_surplus()
            return self._wake_freed()
        self.state.place(entry)
        return self.announce(entry)

    def announce(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Drop the messages that a newly available one displaces; return the consumers to wake for it. The lock is held."""
        if self.rules is None:
            return () if self.has_receivers else self.choose(entry)
        freed = self.displace(entry)
        if entry.state is _ABSENT or self.has_receivers:
            return freed
        return [*freed, *self.choose(entry)]

    def displace(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Remove the messages that a new one displaces: the older one of its key, the surplus of a ring; return the consumers to wake for freed messages."""
        self._supersede(entry)
        self._drop_surplus()
        return self._wake_freed()

    def _supersede(self, entry: QueueEntry) -> None:
        """Remove the older one of a last-value queue's two messages, unless it is held."""
        older = None if self.rules is None else self.rules.add_available(entry)
        if older is not None and older.state is _NEW:
            self.remove(older, MessageEvent.REMOVE, Happening.SUPERSEDED)

    def push_or_choose(self, entry: QueueEntry) -> None:
        """Offer a message that has just become available to receivers; when none takes it, notify a consumer that may. The lock is not held."""
        self.pusher.offer(entry)

    def _drop_surplus(self) -> None:
        """Drop the surplus messages of a ring. The lock is held."""
        while self.rules is not None and (surplus := self.rules.surplus(self.ordering, self.state.delays)) is not None:
            self.remove(surplus, MessageEvent.REMOVE, Happening.OVERFLOWED)

    def choose(self, entry: QueueEntry) -> Sequence[Consumer]:
        manager = self.consumers
        if self.rules is not None:
            return self.rules.choose(entry, manager, self.ordering)
        if not manager.interested_count:
            return manager.non_acquiring() if manager.non_acquiring_count else ()
        chosen = manager.choose(entry, self.ordering.note_mismatch)
        looking = manager.non_acquiring() if manager.non_acquiring_count else []
        return looking if chosen is None else [chosen, *looking]

    def _next_consumers(self) -> Sequence[Consumer]:
        if not self.consumers.interested_count or not self.ordering:
            return ()
        if self.rules is not None:
            return self.rules.next_consumers(self.consumers, self.ordering)
        return self.consumers.choose_next(self.ordering.may_have)

    def wake_freed(self) -> None:
        """Wake consumers for messages that were just freed: an ownership has ended, or a delayed message has left. The lock is not held."""
        # Checked without the lock: the thread that has freed messages calls this afterwards.
        if self.rules is None or not self.rules.has_freed:
            return
        with self.lock:
            woken = self._wake_freed()
        for consumer in woken:
            consumer.notify_work()

    def wake_held_back(self) -> None:
        """Wake consumers, as messages of a total order may have been freed. No lock is held."""
        if self.rules is not None:
            self.rules.free_held_back()
            self.wake_freed()

    def _wake_freed(self) -> Sequence[Consumer]:
        """Return the consumers to wake for freed messages. The lock is held."""
        rules = self.rules
        return () if rules is None or not rules.has_freed else rules.freed_for(self.consumers, self.ordering)

    # With the lock held: messages leave

    def expire(self, entry: QueueEntry) -> None:
        """Remove a message that has expired, and is no longer in the expiry index."""
        if not self.dead_letters.remove_as_expired(entry):
            self.state.remove(entry, MessageEvent.EXPIRE)
            if self.rules is not None:
                self.rules.remove(entry)
            self._release(entry)

    def remove_if_expired(self, entry: QueueEntry) -> bool:
        if not entry.reference.expiration_ms or not is_expired(entry.reference, self.clock.time_ms()):
            return False
        if entry.state is not _ABSENT:
            self.remove(entry, MessageEvent.EXPIRE)
        return True

    def remove(self, entry: QueueEntry, event: MessageEvent, cause: Happening | None = None) -> None:
        self.state.remove(entry, event, cause)
        self.forget(entry)

    def forget(self, entry: QueueEntry) -> None:
        """Release the message of an entry that has just become ABSENT."""
        self.note_out(entry)
        self._release(entry)

    def _release(self, entry: QueueEntry) -> None:
        """Have the journal and the store release a message that has left."""
        if self.journal is not None:
            self.journal.defer_removal(entry.reference)
        elif self.ended_journal is not None:
            self.ended_journal.defer_late_removal(entry.reference, entry.sequence)
        self.store.release(entry.reference)


def _is_held(entry: QueueEntry, delivery_count: int, session: Holder) -> bool:
    """Return whether `session` holds this delivery, unsettled. The queue's lock is held."""
    return entry.state is _DELIVERED and entry.holder is session and entry.delivery_count == delivery_count
