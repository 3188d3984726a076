"""A queue: the asynchronous channel whose messages are pulled by consumers (Broker-J, consumer-queue interactions).

The three calls between queue and consumers are `Queue.set_notify_work_desired`, `Consumer.notify_work` and `Queue.deliver_single_message`. All are
safe from any thread; the queue's lock is held for a few steps, never while a consumer is called (decision 0104).

Here messages come in and are pulled. The other parts of a queue do not know this one: `SettlingQueue`, where pulled messages end or come back;
`RestorableQueue`, which speaks of a journal; and beneath both `PolicedQueue`, what the policy asks for, upon `BuryingQueue`, which sets messages aside, and `PagedQueue`, where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError
from pyjms_provider.core.channel.channel import ChannelClosedError, UnreliableChannelError
from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.queue.consumer_manager import ConsumerList
from pyjms_provider.core.queue.cursor import UNFINISHED, Cursor, Unfinished
from pyjms_provider.core.queue.entry import QueueEntry
from pyjms_provider.core.queue.expiry import is_expired
from pyjms_provider.core.queue.ordering import Ordering
from pyjms_provider.core.queue.restorable_queue import RestorableQueue
from pyjms_provider.core.queue.settling_queue import SettlingQueue
from pyjms_provider.core.store.store import NotAtOnceError, NotInMemoryError

if TYPE_CHECKING:
    from typing import Literal

    from pyjms.spi.selector import Selector
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.limits import RoomRequest
    from pyjms_provider.core.queue.sorted_turns import Place
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

__all__ = ["Queue"]

_EVALUATIONS = 256  # selector evaluations in one stretch, so that a long backlog does not keep the lock
_STRETCHES_AT_ONCE = 16  # some milliseconds: a change of threads is little beside it
_LOADS_OF_ONE = 16  # so often a message is loaded in one pull


# Looking up a member of an enumeration costs more than a global name.
_REMOVED = ConsumerList.REMOVED
_NOTIFIED = ConsumerList.NOTIFIED
_NOT_COMMITTED = MessageState.NOT_COMMITTED


class Queue(RestorableQueue, SettlingQueue):
    """An asynchronous channel with consumers."""

    # Messages come in

    def take_over(
        self, reference: MessageReference, transaction: UnitOfWork | None = None, claim: RoomRequest | None = None
    ) -> bool:
        """Accept a message: always positively, because what nobody takes is stored (§5.2.4).

        `claim`: for whom `claim_room` holds the room that it takes; it is held no longer.
        """
        if reference.reliable and self._refuses_reliable:
            raise UnreliableChannelError(
                f"{self._name} would lose the PERSISTENT message when the process ends; "
                f"send it NON_PERSISTENT, or use a store that is reliable"
            )
        due_ms: int | None = None
        woken: Sequence[Consumer] = ()
        handed: tuple[Consumer, Delivery] | None = None
        with self._lock:
            if self._closed:
                raise ChannelClosedError(f"{self._name} no longer exists")
            if transaction is not None:
                entry = self._state.add_in_transaction(self, reference, transaction)
                if self._rules is not None:
                    try:
                        self._rules.accept(entry, self._store.retrieve, claim)
                    except NotInMemoryError:
                        self._state.remove(entry, MessageEvent.ROLLBACK)
                        raise
            elif self._rules is not None or reference.deliver_at_ms:
                entry = self._state.make(self, reference)
                if self._rules is not None:
                    self._rules.accept(entry, self._store.retrieve, claim)
                woken = self._place(entry)
                due_ms = self._state.delays.next_ms
            elif self._manager.interested_count and (handed := self._hand_over(reference)) is not None:
                entry = handed[1].tag  # type: ignore[assignment]  # as `entry_of` in `clients`, without a call
            else:
                entry = self._state.add(self, reference)
                if (self._manager.interested_count or self._manager.non_acquiring_count) and not self._receivers:
                    woken = self._choose(entry)
            if not self._all_in_memory:
                self._store.publish(reference)
                if self._rules is not None and transaction is None:
                    self._shelve(reference, is_coming=True)
            if reference.expiration_ms and self._expiry.add(entry):
                due_ms = reference.expiration_ms if due_ms is None else min(due_ms, reference.expiration_ms)
        if due_ms is not None and self._on_due is not None:
            self._on_due(self, due_ms)
        if transaction is not None:
            if not transaction.add_sent(entry):
                self.rollback(entry)  # the unit has been rolled back meanwhile
        elif self._receivers:
            self._push_or_choose(entry)
        if handed is not None:
            handed[0].hand_over(handed[1])
        for consumer in woken:
            consumer.notify_work()
        return True

    def commit(self, entries: Iterable[QueueEntry]) -> None:
        """Make NOT_COMMITTED messages available, in this order, and deliver them if that can be (§2.2.1)."""
        woken: list[Consumer] = []
        pushable: list[QueueEntry] = []
        late: list[QueueEntry] = []
        with self._lock:
            for entry in entries:
                if entry.state is not _NOT_COMMITTED:  # it expired while it was written, or the queue was closed
                    self.note_refused(entry.reference)
                    continue
                woken.extend(self._commit_one(entry))
                if entry.reference.expiration_ms and is_expired(entry.reference, self._clock.time_ms()):
                    late.append(entry)
                if self._receivers:
                    pushable.append(entry)
        if self._state.delays:
            self._ask_for_delayed()
        if late and self._on_due is not None:  # the housekeeper was here while they were being written
            self._on_due(self, late[0].reference.expiration_ms)
        for entry in pushable:
            self._push_or_choose(entry)
        for consumer in woken:
            consumer.notify_work()

    def _commit_one(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Make a NOT_COMMITTED message available; return whom to wake for it. The lock is held."""
        woken: Sequence[Consumer] = ()
        self._state.commit(entry)
        if self._rules is not None or entry.reference.deliver_at_ms:
            woken = self._place(entry)
        else:
            self._ordering.append(entry)
            if (self._manager.interested_count or self._manager.non_acquiring_count) and not self._receivers:
                woken = self._choose(entry)
        if not self._all_in_memory:
            if entry.reference.journaled:
                self._store.drop_copy(entry.reference)
            if self._rules is not None:
                self._shelve(entry.reference)
        return woken

    def rollback(self, entry: QueueEntry) -> None:
        """Remove a message if it is NOT_COMMITTED (§5.1.3)."""
        with self._lock:
            if entry.state is MessageState.NOT_COMMITTED:
                self._remove(entry, MessageEvent.ROLLBACK)

    # Consumers come and go

    def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer; it is not interested yet. Raises `ChannelClosedError`, `ClosedError`."""
        with self._lock:
            if self._closed:
                raise ChannelClosedError(f"{self._name} no longer exists")
            if consumer.session.is_closed:
                raise ClosedError("the session is closed")
            selector = consumer.selector
            consumer.acquires = consumer.acquires and not self.policy.non_destructive
            if not consumer.acquires:
                consumer.cursor = self._ordering.new_cursor(self._matcher(selector))
            elif selector is not None:
                matches = self._matcher(selector)
                assert matches is not None
                consumer.cursor = self._ordering.open_cursor(selector.text, matches, self._asked(selector))
            self._manager.add(consumer)
            if self._rules is not None:
                self._rules.came(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Detach a consumer; what it pulled stays with its session. May be repeated."""
        with self._lock:
            woken = self._detach(consumer)
        for other in woken:
            other.notify_work()

    def keep_cursor(self, selector: Selector | None) -> Callable[[], None]:
        """Remember what a selector has seen while consumers with it come and go, until the answer is called."""
        matches = self._matcher(selector)
        if selector is None or matches is None:
            return lambda: None
        text = selector.text
        with self._lock:
            ordering = self._ordering
            ordering.open_cursor(text, matches, self._asked(selector))

        def let_go() -> None:
            with self._lock:
                ordering.close_cursor(text)

        return let_go

    def set_notify_work_desired(self, consumer: Consumer, desired: bool) -> None:
        """Note whether `consumer` wants to be woken. Any thread; ignored for a consumer that has been removed.

        When interest begins and there may be work, it is woken. When interest ends, the wake-up is handed on.
        """
        with self._lock:
            consumer.wants_wake_ups = desired
            woken = self._review(consumer)
        for other in woken:
            other.notify_work()

    def review_interest(self, consumer: Consumer) -> None:
        """Look anew whether `consumer` wants to be woken, after its connection was started or stopped; else as `set_notify_work_desired`."""
        with self._lock:
            woken = self._review(consumer)
        for other in woken:
            other.notify_work()

    # Messages are pulled

    def deliver_single_message(
        self, consumer: Consumer, *, or_wait: bool = False, at_once: bool = False
    ) -> Delivery | None:
        """Hand the next message that `consumer` would and may take to its session; None when there is none now.

        A woken consumer stays woken while this succeeds; when it yields nothing, it waits for the next wake-up. With `or_wait`, interest begins when
        this yields nothing, and ends when it succeeds. With `at_once` it reads nothing from a disk, and evaluates a selector some thousand times at most: then it
        raises `NotAtOnceError`, and the consumer is as it was. It gives up, as if there were none, where it depends on consumers of higher
        priority which have not looked yet, and on more messages than fit into memory: they will look, and others are woken. Raises `ResourceError`.
        """
        delivery: Delivery | None = None
        woken: Sequence[Consumer] = ()
        found: QueueEntry | Literal[Unfinished.UNFINISHED] | None
        search: _Search | None = None
        while True:
            with self._lock:
                session = consumer.session
                if consumer.place is _REMOVED or not session.is_delivering:
                    consumer.wants_wake_ups = consumer.wants_wake_ups or or_wait
                    return None
                if consumer.cursor is None and not self._manager.weighs:
                    found = self._ordering.take_first()
                else:
                    search = search or _Search(self._load, at_once=at_once)
                    found = self._take_on(consumer, search)
                if found is None:
                    woken = self._found_nothing(consumer, or_wait, search)
                    break
                if found is not UNFINISHED and not (
                    found.reference.expiration_ms and self._drop_if_expired(found, consumer)
                ):
                    tag = found if consumer.acquires else None
                    count = found.delivery_count + 1 if tag is None else self._state.deliver(tag, session, consumer)
                    if self._all_in_memory:
                        delivery = Delivery(self._store.retrieve(found.reference), count, count > 1, tag)
                    else:
                        delivery = self._make_delivery(found.reference, count, tag)
                    if search is not None or (or_wait and consumer.wants_wake_ups):
                        woken = self._note_delivered(consumer, found, delivery, or_wait)
                    break
            if found is UNFINISHED and search is not None:
                search.go_on()
        for other in woken:
            other.notify_work()
        return delivery

    def open_browser(self, selector: Selector | None) -> Cursor:
        """Return the place of a browser that has seen nothing yet, for `look`, and will see nothing that comes from now on.

        It needs no closing.
        """
        with self._lock:
            cursor = self._ordering.new_cursor(self._matcher(selector))
            cursor.last = self._ordering.last_place
        return cursor

    def look(self, cursor: Cursor) -> Delivery | None:
        """Return the next message for a browser, which stays in the queue; None at the end (JMS 1.1 §5.9)."""
        while True:
            try:
                with self._lock:
                    found = self._ordering.look(cursor, _EVALUATIONS)
                    if found is None:
                        return None
                    if found is not UNFINISHED and not is_expired(found.reference, self._clock.time_ms()):
                        return self._make_delivery(found.reference, found.delivery_count + 1, None)
            except NotInMemoryError as elsewhere:
                self._load(elsewhere.reference)

    # The end

    def close(self) -> None:
        super().close()
        with self._lock:
            for consumer in list(self._manager):
                self._manager.remove(consumer)
            room = None if self._rules is None else self._rules.room
            signals = [] if room is None else room.all_signals()
        for signal in signals:
            signal.set()

    # With the lock held

    def _hand_over(self, reference: MessageReference) -> tuple[Consumer, Delivery] | None:
        """Give a message that has just come to the consumer whose turn it is, if that waits for it where it comes in.

        Nobody is woken then. None: something is in the way, and the message takes all steps. The lock is held.
        """
        consumer = self._manager.next_in_turn()
        if consumer is None or consumer.target.direct is None or consumer.cursor is not None or self._ordering:
            return None
        if self._receivers or not consumer.session.is_delivering:
            return None
        if reference.expiration_ms and is_expired(reference, self._clock.time_ms()):
            return None
        if reference.journaled and self.kept is not None and not self.kept.knows(reference, 1):
            return None
        try:
            envelope = self._store.retrieve(reference)
        except NotInMemoryError:
            return None
        if not consumer.target.direct.may_take():
            return None
        entry = self._state.add_delivered(self, reference, consumer.session, consumer)
        self._manager.had_turn(consumer)
        return consumer, Delivery(envelope, 1, False, entry)

    def _choose(self, entry: QueueEntry) -> Sequence[Consumer]:
        manager = self._manager
        if self._rules is not None:
            return self._rules.choose(entry, manager, self._ordering)
        if not manager.interested_count:
            return manager.non_acquiring() if manager.non_acquiring_count else ()
        chosen = manager.choose(entry, self._ordering.note_mismatch)
        looking = manager.non_acquiring() if manager.non_acquiring_count else []
        return looking if chosen is None else [chosen, *looking]

    def _successors(self) -> Sequence[Consumer]:
        if not self._manager.interested_count or not self._ordering:
            return ()
        if self._rules is not None:
            return self._rules.successors(self._manager, self._ordering)
        return self._manager.choose_successors(self._ordering.may_have)

    def _detach(self, consumer: Consumer) -> Sequence[Consumer]:
        """Let go of a consumer, if that is not done; return whom to wake."""
        if consumer.place is _REMOVED:
            return ()
        weighs = False
        if self._rules is not None:
            self._rules.left(consumer)
            weighs = self._rules.weighs
        self._ordering.forget_turn(consumer)
        was_notified = self._manager.remove(consumer)
        if consumer.acquires and consumer.cursor is not None and consumer.selector is not None:
            self._ordering.close_cursor(consumer.selector.text)
            consumer.cursor = None
        return self._successors() if was_notified or weighs else ()

    def _review(self, consumer: Consumer) -> Sequence[Consumer]:
        manager = self._manager
        if consumer.place is _REMOVED:
            return ()
        if not (consumer.wants_wake_ups and consumer.session.is_delivering):
            return self._successors() if manager.end_interest(consumer) else ()
        manager.begin_interest(consumer)
        if consumer.place is ConsumerList.NOTIFIED or not self._ordering.may_have(consumer.cursor):
            return ()
        manager.notify(consumer)
        return (consumer,)

    def _note_delivered(
        self, consumer: Consumer, entry: QueueEntry, delivery: Delivery, or_wait: bool
    ) -> Sequence[Consumer]:
        """Note who has got a message, and that it waits no longer; return whom to wake besides."""
        woken = () if self._rules is None else self._note_taken(consumer, entry, delivery)
        return [*woken, *self._end_wait(consumer)] if or_wait and consumer.wants_wake_ups else woken

    def _note_taken(self, consumer: Consumer, entry: QueueEntry, delivery: Delivery) -> Sequence[Consumer]:
        """Note whose message a pull has found; return whom to wake besides. The lock is held."""
        assert self._rules is not None
        if consumer.acquires:
            return self._rules.delivered(consumer, entry, self._manager, self._ordering)
        if self.policy.non_destructive:
            # Settled and given back like any other, and nothing comes of it.
            delivery.tag = QueueEntry(self, entry.reference, MessageState.ABSENT)  # type: ignore[misc]
        return ()

    def _end_wait(self, consumer: Consumer) -> Sequence[Consumer]:
        """Note that a consumer has got what it waited for; return whom to wake in its place."""
        consumer.wants_wake_ups = False
        return self._successors() if self._manager.end_interest(consumer) else ()

    def _found_nothing(self, consumer: Consumer, or_wait: bool, search: _Search | None) -> Sequence[Consumer]:
        """Return whom to wake because a woken consumer found nothing while messages remain for others."""
        woken: Sequence[Consumer] = ()
        gave_up = search is not None and search.is_in_vain
        if consumer.place is _NOTIFIED:
            manager = self._manager
            if manager.interested_count and self._ordering:
                if self._rules is None or not self._rules.weighs:
                    woken = manager.choose_after_vain(consumer, self._ordering.may_have, gave_up=gave_up)
                elif not self._rules.has_groups:  # else each may be woken in vain, and wake the next
                    woken = self._successors()
            manager.pulled_nothing(consumer)
        if or_wait and not consumer.wants_wake_ups:
            consumer.wants_wake_ups = True
            self._manager.begin_interest(consumer)
        return woken

    def _take_on(self, consumer: Consumer, search: _Search) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Do as `_take`; what is not in memory is left to `search`, which goes on without the lock."""
        if search.is_in_vain:
            return None
        try:
            return self._take(consumer)
        except NotInMemoryError as elsewhere:
            search.elsewhere = elsewhere
            return UNFINISHED

    def _take(self, consumer: Consumer) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the next message for a consumer that has a selector, only looks, or has rivals of higher priority."""
        rules = self._rules
        if rules is not None and rules.holds_back(consumer):
            return None
        cursor = consumer.cursor
        if not consumer.acquires:
            assert cursor is not None
            return self._ordering.look(cursor, _EVALUATIONS)
        if rules is not None and (barrier := rules.barrier) is not None:
            return self._take_before(barrier, cursor)
        rivals = [] if rules is not None and rules.is_exclusive else self._manager.rivals(consumer)
        if rules is not None and rules.has_groups:
            return self._take_permitted(consumer, rivals, partial(rules.may_take, consumer, rivals, self._ordering))
        if None in rivals:
            return None  # one of higher priority wants whatever there is
        if rivals:
            is_wanted = self._ordering.is_wanted
            return self._take_permitted(
                consumer, rivals, lambda entry: not any(each is None or is_wanted(each, entry) for each in rivals)
            )
        if cursor is None:
            return self._ordering.take_first()
        return self._ordering.take_matching(cursor, None, _EVALUATIONS)

    def _take_before(self, barrier: Place, cursor: Cursor | None) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the next message for the active consumer of an exclusive queue, if it comes before that place."""
        order = self._ordering
        if not any(order.place_of(each) < barrier for each in order.first(1)):
            return None
        if cursor is None:
            return order.take_first()
        return order.take_matching(cursor, lambda entry: order.place_of(entry) < barrier, _EVALUATIONS)

    def _take_permitted(
        self, consumer: Consumer, rivals: Sequence[Cursor | None], permits: Callable[[QueueEntry], bool]
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the next message that a consumer may take; what it may not is somebody else's."""
        order, cursor = self._ordering, consumer.cursor
        if self._rules is not None:
            self._rules.tell_freed(order.look_again)
        if cursor is None:
            return order.take_permitted(consumer, rivals, permits, _EVALUATIONS)
        # Only where nobody is woken because another one has found nothing: the next one might be woken in vain, too.
        if self._rules is not None and self._rules.has_groups and isinstance(order, Ordering):
            return order.take_in_turn(consumer, cursor, rivals, permits, _EVALUATIONS)
        return order.take_matching(cursor, permits, _EVALUATIONS)

    def _drop_if_expired(self, entry: QueueEntry, consumer: Consumer) -> bool:
        """Return whether a message that was taken has expired, and is out of the queue."""
        if not is_expired(entry.reference, self._clock.time_ms()):
            return False
        if not consumer.acquires:
            return True  # the one that looks merely passes it by
        if self._leaves_expired:
            self._state.delays.add(entry, 0)  # not here, as a pull never waits: the housekeeper comes for it
        else:
            self._remove(entry, MessageEvent.EXPIRE)
        return True


class _Search:
    """What one pull has spent on finding a message by a selector, or the one whose turn it is."""

    __slots__ = ("_at_once", "_load", "_loads", "_stretches", "elsewhere", "is_in_vain")

    def __init__(self, load: Callable[[MessageReference], None], *, at_once: bool) -> None:
        self._load = load
        self._at_once = at_once
        self._stretches = 0
        self._loads: dict[ReferenceId, int] = {}
        self.elsewhere: NotInMemoryError | None = None
        """The message that a selector asks for, and that must be loaded first."""
        self.is_in_vain = False
        """Whether what must be looked at together does not fit into memory: a message has left that each time before it was looked at."""

    def go_on(self) -> None:
        """Have more looked at. Raises `NotAtOnceError` if the pull must not wait, and that would take a while; `ResourceError`."""
        elsewhere, self.elsewhere = self.elsewhere, None
        if elsewhere is None:
            self._stretches += 1
            if self._at_once and self._stretches == _STRETCHES_AT_ONCE:
                raise NotAtOnceError
        elif self._at_once:
            raise elsewhere
        else:
            wanted = elsewhere.reference
            self._load(wanted)
            self._loads[wanted.id] = self._loads.get(wanted.id, 0) + 1
            self.is_in_vain = self._loads[wanted.id] > _LOADS_OF_ONE
