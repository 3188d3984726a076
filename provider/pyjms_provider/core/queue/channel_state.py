"""The state of one channel: the union of its messages' states (JBoss Messaging Core §2).

Holds references only. There is a container for each state, so counts cost nothing: available NEW messages are in the
`PriorityQueueEntryList`, NOT_COMMITTED and DELIVERED ones in dictionaries, and those that are pushed to receivers are found by id.

No lock of its own: its channel calls it under the channel's. Each method first looks up `TRANSITIONS`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pyjms_provider.core.message.entry import Acknowledgements, QueueEntry, ReceiverId
from pyjms_provider.core.message.message_state import TRANSITIONS, MessageEvent, MessageState
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.queue.scheduled_messages import DelayIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyjms_provider.core.journal.journal import RecoveredRun
    from pyjms_provider.core.message.entry import EntryQueue, Holder, Transaction
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId
    from pyjms_provider.core.message.trace_events import Happening
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.entry_list import QueueEntryList
    from pyjms_provider.core.queue.message_trace import MessageTrace
    from pyjms_provider.core.store import MessageStore, PersistenceManager

# The three steps of every pulled message: looked up once, as a look-up for each message is a tenth of its cost.
_ACCEPTED = TRANSITIONS[MessageState.ABSENT, MessageEvent.ACCEPT]
_PULLED = TRANSITIONS[_ACCEPTED, MessageEvent.NEGATIVE_ACKNOWLEDGEMENT]
_UNCOMMITTED = TRANSITIONS[MessageState.ABSENT, MessageEvent.ACCEPT_IN_TRANSACTION]
_COMMITTED = TRANSITIONS[_UNCOMMITTED, MessageEvent.COMMIT]
_TO_SETTLE = TRANSITIONS[_PULLED, MessageEvent.ACKNOWLEDGE_IN_TRANSACTION]
_SETTLED = TRANSITIONS[_PULLED, MessageEvent.FINAL_POSITIVE_ACKNOWLEDGEMENT]

_FEW_HELD = 64  # up to so many held messages, those of a session are searched for


class Reliability(Enum):
    """How a channel without a reliable persistence manager treats reliable messages."""

    STRICT = "strict"
    """Refuse them (§2.1)."""
    MEMORY = "memory"
    """Accept them: they live as long as the process, and the owner has chosen a broker that ends with it."""

    __hash__ = object.__hash__


class Counts(NamedTuple):
    """The message counts of one queue, at one moment."""

    new: int
    """Messages that are not held, delayed ones included."""
    delayed: int
    held: int
    uncommitted: int
    accepted: int
    """Messages added since the queue was opened."""
    delivered: int
    """Deliveries to consumers since then; a redelivery counts again."""

    @property
    def depth(self) -> int:
        """All its messages."""
        return self.new + self.held + self.uncommitted

    @property
    def departed(self) -> int:
        """Messages that have left since the queue was opened."""
        return self.accepted - self.depth


class ChannelState:
    """The messages of one channel and their states."""

    __slots__ = (
        "_by_holder",
        "_delivered",
        "_persistence",
        "_pushed",
        "_reliability",
        "_steps",
        "_store",
        "_trace",
        "_uncommitted",
        "accepted",
        "delays",
        "delivered",
        "ordering",
    )

    def __init__(
        self,
        store: MessageStore,
        *,
        persistence: PersistenceManager | None = None,
        reliability: Reliability = Reliability.STRICT,
        trace: MessageTrace | None = None,
    ) -> None:
        """`trace` records messages that leave without having been consumed, or, if it is set to, each step."""
        self._store = store
        self._trace = trace
        # Two attributes, so that consumption costs nothing where only other ends are traced.
        self._steps = trace if trace is not None and trace.every_step else None
        self._persistence = persistence
        self._reliability = reliability
        self.ordering: QueueEntryList = PriorityQueueEntryList()
        self.delays = DelayIndex()
        """NEW messages that are not available yet."""
        self._uncommitted: dict[QueueEntry, None] = {}
        self._delivered: dict[QueueEntry, None] = {}
        self._by_holder: defaultdict[Holder, dict[QueueEntry, None]] | None = None
        """The DELIVERED messages of each session, in the order of delivery. None: few are held, or it was not needed yet; so most messages never enter it."""
        self._pushed: dict[ReferenceId, QueueEntry] = {}
        self.delivered = 0
        """How many deliveries to consumers there were since the channel was made."""
        self.accepted = 0
        """How many messages were added since the channel was made, those restored after a restart included."""

    @property
    def is_reliable(self) -> bool:
        """Whether states survive the process: the persistence manager and the store are both reliable (§2.1, §7.1)."""
        return self._persistence is not None and self._persistence.is_reliable and self._store.is_reliable

    @property
    def is_transactional(self) -> bool:
        """States change transactionally: through units of work (§2.2)."""
        return True

    @property
    def refuses_reliable(self) -> bool:
        """Whether reliable messages must be refused (§2.1)."""
        return not self.is_reliable and self._reliability is Reliability.STRICT

    # Queries

    def count(self, state: MessageState) -> int:
        """Return how many messages are in `state` (§7.7)."""
        if state is MessageState.NEW:
            pushed = sum(entry.state is state for entry in self._pushed.values())
            return len(self.ordering) + len(self.delays) + pushed
        if state is MessageState.ABSENT:
            return 0
        return len(self._delivered if state is MessageState.DELIVERED else self._uncommitted)

    def counts(self) -> Counts:
        """Return all counts together: quickly, as monitoring asks each of thousands of queues."""
        delayed = len(self.delays) if self.delays else 0
        new = len(self.ordering) + delayed
        if self._pushed:
            new = self.count(MessageState.NEW)
        return Counts(new, delayed, len(self._delivered), len(self._uncommitted), self.accepted, self.delivered)

    def entries(self, state: MessageState) -> list[QueueEntry]:
        """Return the messages in `state`: NEW ones in order, then delayed ones; the others by age in that state."""
        if state is MessageState.NEW:
            return [*(entry for entry in self._pushed.values() if entry.state is state), *self.ordering, *self.delays]
        if state is MessageState.ABSENT:
            return []
        return list(self._delivered if state is MessageState.DELIVERED else self._uncommitted)

    def held_longest(self, most: int) -> list[QueueEntry]:
        """Return up to `most` held messages, those held longest."""
        return list(islice(self._delivered, most))

    def materialized(self) -> list[QueueEntry]:
        """Return the NEW messages that are not compact; in order, if they have one."""
        order = self.ordering
        pushed = (entry for entry in self._pushed.values() if entry.state is MessageState.NEW)
        return [*pushed, *(order.materialized() if isinstance(order, PriorityQueueEntryList) else order), *self.delays]

    @property
    def size(self) -> int:
        """About how many bytes the messages take, as far as they have been measured."""
        known = sum(entry.reference.size for entry in (*self.materialized(), *self._uncommitted, *self._delivered))
        return known + (self.ordering.compact_size if isinstance(self.ordering, PriorityQueueEntryList) else 0)

    def held_by(self, session: Holder) -> list[QueueEntry]:
        """Return the messages that `session` pulled and has not settled.

        Each session and consumer that ends calls this: the first of them walks over all held messages, not each.
        """
        if len(self._delivered) <= _FEW_HELD:
            # Few are held: walking over them is cheaper than maintaining a second table for each delivery.
            self._by_holder = None
            return [entry for entry in self._delivered if entry.holder is session]
        # Built once for all sessions: a broker that stops ends thousands of them, and a walk over all held messages for each would be quadratic.
        if self._by_holder is None:
            found: defaultdict[Holder, dict[QueueEntry, None]] = defaultdict(dict)
            for entry in self._delivered:
                if entry.holder is not None:
                    found[entry.holder][entry] = None
            self._by_holder = found
        return list(self._by_holder.get(session, ()))

    def pushed(self, message_id: ReferenceId) -> QueueEntry | None:
        """Return the message if it is being pushed to receivers, or was and is not settled."""
        return self._pushed.get(message_id)

    def unacknowledged_by(self, receiver_id: ReceiverId) -> list[QueueEntry]:
        """Return the DELIVERED messages whose acknowledgement `receiver_id` owes, by age."""
        return [
            entry
            for entry in self._pushed.values()
            if entry.acknowledgements is not None and receiver_id in entry.acknowledgements.negative
        ]

    def unacknowledged_counts(self) -> Counter[ReceiverId]:
        """Return how many acknowledgements each receiver owes (§5.3.1)."""
        pushed = (entry.acknowledgements for entry in self._pushed.values())
        return Counter(receiver_id for each in pushed if each is not None for receiver_id in each.negative)

    def releasable(self, receiver_id: ReceiverId) -> list[QueueEntry]:
        """Return those of them that neither a delivery under way nor a unit of work is about."""
        under_way = set(self.under_way())
        return [
            entry
            for entry in self.unacknowledged_by(receiver_id)
            if entry.transaction is None and entry not in under_way
        ]

    def under_way(self) -> list[QueueEntry]:
        """Return the messages that receivers are being asked about just now."""
        return [entry for entry in self._pushed.values() if entry.acknowledgements and entry.acknowledgements.under_way]

    # Adding and removing

    def add(self, queue: EntryQueue, reference: MessageReference) -> QueueEntry:
        """Accept a message: it is NEW and available."""
        self.accepted += 1
        if self._steps is not None:
            self._steps.accepted(queue, reference)
        entry = QueueEntry(queue, reference, _ACCEPTED)
        self.ordering.append(entry)
        return entry

    def make(self, queue: EntryQueue, reference: MessageReference) -> QueueEntry:
        """Accept a message: it is NEW, and has no place in the order yet; see `place` and `delays`."""
        self.accepted += 1
        if self._steps is not None:
            self._steps.accepted(queue, reference)
        return QueueEntry(queue, reference, _ACCEPTED)

    def restore_run(self, queue: EntryQueue, run: RecoveredRun) -> bool:
        """Add recovered messages that are NEW and available; return False, having done nothing, if they must be added one by one."""
        order = self.ordering
        if not isinstance(order, PriorityQueueEntryList) or not order.append_run(
            queue, run.priority, run.ids, run.sizes
        ):
            return False
        self.accepted += len(run.ids)
        return True

    def place(self, entry: QueueEntry) -> None:
        """Make a NEW message available: at the end, or, if it was released, in its old place."""
        if entry.sequence:
            self.ordering.restore([entry])
        else:
            self.ordering.append(entry)

    def place_all(self, entries: Iterable[QueueEntry]) -> None:
        """Make NEW messages available: in their old places, or at the end in this order."""
        returned: list[QueueEntry] = []
        for entry in entries:
            if entry.sequence:
                returned.append(entry)
            else:
                self.ordering.append(entry)
        if returned:
            self.ordering.restore(returned)

    def add_in_transaction(self, queue: EntryQueue, reference: MessageReference, unit: Transaction) -> QueueEntry:
        """Accept a message in a transaction: it is NOT_COMMITTED, and has no place in the order yet (§5.1)."""
        self.accepted += 1
        if self._steps is not None:
            self._steps.accepted(queue, reference, unit.unit_id)
        entry = QueueEntry(queue, reference, _UNCOMMITTED)
        entry.transaction = unit
        self._uncommitted[entry] = None
        return entry

    def commit(self, entry: QueueEntry) -> None:
        """Make a NOT_COMMITTED message NEW (§5.1.3), without a place in the order yet; see `place` and `delays`."""
        # The usual step by identity; any other state is looked up, so that a forbidden one is an error.
        entry.state = _COMMITTED if entry.state is _UNCOMMITTED else TRANSITIONS[entry.state, MessageEvent.COMMIT]
        entry.transaction = None
        del self._uncommitted[entry]
        if self._steps is not None:
            self._steps.committed(entry)

    def remove(self, entry: QueueEntry, event: MessageEvent, cause: Happening | None = None) -> None:
        """Remove a message, whatever its state, because of `event`: rolled back, settled, expired, removed.

        `cause`: the reason for the removal, for the trace.
        """
        before, holder = entry.state, entry.holder
        after = TRANSITIONS[before, event]
        assert after is MessageState.ABSENT
        if before is MessageState.DELIVERED:
            self._forget_holder(entry)
            del self._delivered[entry]
        elif before is MessageState.NOT_COMMITTED:
            del self._uncommitted[entry]
        # A delayed message is in the delays, and not in the order.
        elif entry.acknowledgements is None and not self.delays.discard(entry):
            self.ordering.discard(entry)
        if entry.acknowledgements is not None:
            self._pushed.pop(entry.reference.id, None)
            self.ordering.discard(entry)
            # An entry whose removal cannot be written comes back, as one that was pushed to nobody.
            entry.acknowledgements = None
        entry.state = after
        entry.holder = None
        entry.transaction = None
        if self._trace is not None:
            self._trace.removed(entry, event, cause, holder)

    def clear_available(self) -> list[QueueEntry]:
        """Remove all available messages at once and return them."""
        # All at once: removing them one by one would cost a search for each.
        entries = self.ordering.clear()
        for entry in entries:
            entry.state = TRANSITIONS[entry.state, MessageEvent.REMOVE]
        if self._trace is not None:
            self._trace.closed(entries)
        return entries

    # Pulled messages

    def deliver(self, entry: QueueEntry, session: Holder, consumer: Consumer | None = None) -> int:
        """Assign a message, just taken from the ordering, to `session`; return its delivery count.

        `consumer`: the session's consumer, for the trace.

        Pulling is a delivery with a negative acknowledgement: the positive one follows (§5.3).
        """
        assert entry.state is _ACCEPTED
        # A dictionary keeps the order of delivery, in which messages are released.
        self._delivered[entry] = None
        if self._by_holder is not None:
            self._by_holder[session][entry] = None
        entry.state = _PULLED
        entry.holder = session
        self.delivered += 1
        entry.delivery_count = count = entry.delivery_count + 1
        if self._steps is not None:
            self._steps.delivered(entry, session, consumer)
        return count

    def add_delivered(
        self, queue: EntryQueue, reference: MessageReference, session: Holder, consumer: Consumer
    ) -> QueueEntry:
        """Accept a message and assign it to `session` in one step: no message is before it, and `consumer` waits for it."""
        self.accepted += 1
        self.delivered += 1
        if self._steps is not None:
            self._steps.accepted(queue, reference)
        entry = QueueEntry(queue, reference, _PULLED)
        # It was never in the order, but when it is released it needs the place that it would have had.
        self.ordering.assign_sequence(entry)
        entry.holder = session
        entry.delivery_count = 1
        self._delivered[entry] = None
        if self._by_holder is not None:
            self._by_holder[session][entry] = None
        if self._steps is not None:
            self._steps.delivered(entry, session, consumer)
        return entry

    def settle(self, entry: QueueEntry) -> None:
        """Remove a pulled message after its positive acknowledgement: its only one (§5.3.3)."""
        assert entry.state is _PULLED
        # Checked here, although the method checks, too: it saves a call for each message.
        if self._by_holder is not None:
            self._forget_holder(entry)
        if self._steps is not None:
            self._steps.acknowledged(entry, entry.holder)
        entry.state = _SETTLED
        entry.holder = None
        del self._delivered[entry]

    def change_holder(self, entry: QueueEntry, heir: Holder) -> None:
        """Transfer a pulled message to another session."""
        self._forget_holder(entry)
        if self._by_holder is not None:
            self._by_holder[heir][entry] = None
        entry.holder = heir

    def _forget_holder(self, entry: QueueEntry) -> None:
        """Remove a message from those of its session, which is about to be changed."""
        if self._by_holder is not None and entry.holder is not None:
            held = self._by_holder[entry.holder]
            del held[entry]
            if not held:
                del self._by_holder[entry.holder]

    def reinstate(self, entry: QueueEntry) -> None:
        """Restore a settled message, as its settling could not be made durable: it is NEW; see `place` and `delays`."""
        # As an acceptance, since settling made it ABSENT; `accepted` counts it only once.
        entry.state = TRANSITIONS[entry.state, MessageEvent.ACCEPT]
        if self._trace is not None:
            self._trace.reinstated(entry)

    def record_acknowledgement(self, entry: QueueEntry, unit: Transaction) -> None:
        """Record that `unit` will acknowledge the message when it commits (§5.3.1)."""
        if entry.state is not _TO_SETTLE:
            entry.state = TRANSITIONS[entry.state, MessageEvent.ACKNOWLEDGE_IN_TRANSACTION]
        entry.transaction = unit
        if self._steps is not None:
            self._steps.acknowledged(entry, entry.holder, unit.unit_id)

    def drop_acknowledgement(self, entry: QueueEntry) -> None:
        """Undo the acknowledgement of a unit that rolled back (§6.2.1)."""
        entry.state = TRANSITIONS[entry.state, MessageEvent.ROLLBACK_ACKNOWLEDGEMENT]
        if self._steps is not None:
            unit = entry.transaction
            self._steps.acknowledgement_dropped(entry, None if unit is None else unit.unit_id)
        entry.transaction = None

    def cancel(self, entries: Sequence[QueueEntry], due_ms: Callable[[QueueEntry], int] | None = None) -> None:
        """Make released messages available again, in their old places (JMS 1.1 §4.4.11), at once or each when it is due (0: at once)."""
        for entry in entries:
            self.cancel_one(entry)
        if due_ms is None:
            self.ordering.restore(entries)
            return
        at_once: list[QueueEntry] = []
        for entry in entries:
            if at_ms := due_ms(entry):
                self.delays.add(entry, at_ms)
            else:
                at_once.append(entry)
        # All together: returning them one by one would move the rest of the list for each.
        self.ordering.restore(at_once)

    def cancel_one(self, entry: QueueEntry) -> None:
        """Make a released message NEW again, without a place in the order."""
        after = TRANSITIONS[entry.state, MessageEvent.CANCEL]
        self._forget_holder(entry)
        if self._steps is not None:
            self._steps.returned(entry, entry.holder)
        entry.state = after
        entry.holder = None
        entry.transaction = None
        del self._delivered[entry]
        if entry.acknowledgements is not None:
            del self._pushed[entry.reference.id]
            entry.acknowledgements = None

    # Pushed messages

    def begin_push(self, entry: QueueEntry) -> Acknowledgements | None:
        """Take an available message out of the order to offer it to receivers; None if it is no longer available."""
        # Another thread has pulled or pushed it: only one of them finds it in the order.
        if not self.ordering.discard(entry):
            return None
        entry.acknowledgements = acknowledgements = entry.acknowledgements or Acknowledgements()
        acknowledgements.under_way += 1
        entry.delivery_count += 1
        self._pushed[entry.reference.id] = entry
        if self._steps is not None:
            self._steps.delivered(entry)
        return acknowledgements

    def begin_push_again(self, entry: QueueEntry, receiver_id: ReceiverId) -> bool:
        """Begin a redelivery: the acknowledgement that `receiver_id` owes is open again; False if it no longer owes one (§7.5)."""
        acknowledgements = entry.acknowledgements
        if acknowledgements is None or receiver_id not in acknowledgements.negative:
            return False
        # Removed, so that an acknowledgement that overtakes this delivery's own is stored as early (§5.3.4).
        acknowledgements.negative.discard(receiver_id)
        acknowledgements.under_way += 1
        entry.delivery_count += 1
        return True

    def update(self, entry: QueueEntry, receiver_id: ReceiverId, positive: bool) -> None:
        """Apply the acknowledgement that a receiver gave at delivery (§6.1)."""
        self.delivered += 1
        acknowledgements = entry.acknowledgements
        if acknowledgements is None or entry.state is MessageState.ABSENT:
            return  # expired or closed while the receiver had it
        # The stored early acknowledgement cancels the negative one that comes only now (§5.3.4).
        if positive or receiver_id in acknowledgements.positive:
            acknowledgements.positive.discard(receiver_id)
            acknowledgements.negative.discard(receiver_id)  # §6.1
            return
        acknowledgements.negative.add(receiver_id)
        self._become_delivered(entry, MessageEvent.NEGATIVE_ACKNOWLEDGEMENT)

    def update_later(self, entry: QueueEntry, receiver_id: ReceiverId) -> bool:
        """Apply a positive acknowledgement that was sent separately; return whether the message is settled (§6.2)."""
        acknowledgements = entry.acknowledgements
        if acknowledgements is None or entry.state is MessageState.ABSENT:
            return False
        if receiver_id in acknowledgements.negative:
            acknowledgements.negative.discard(receiver_id)
            # While a delivery is under way, another receiver may still answer.
            if not acknowledgements.negative and not acknowledgements.under_way:
                self.remove(entry, MessageEvent.FINAL_POSITIVE_ACKNOWLEDGEMENT)
                return True
            entry.state = TRANSITIONS[entry.state, MessageEvent.POSITIVE_ACKNOWLEDGEMENT]
        # It has overtaken the delivery's own answer, and is stored until that comes.
        elif acknowledgements.under_way:
            acknowledgements.positive.add(receiver_id)
            self._become_delivered(entry, MessageEvent.EARLY_POSITIVE_ACKNOWLEDGEMENT)
        return False  # otherwise nothing is outstanding, and the acknowledgement is discarded (§6.1)

    def end_push(self, entry: QueueEntry, *, handled: bool) -> bool:
        """End a delivery; `handled`: a receiver took it. Return whether the message is settled."""
        acknowledgements = entry.acknowledgements
        if acknowledgements is None or entry.state is MessageState.ABSENT:
            return False
        acknowledgements.under_way -= 1
        if not handled and entry.state is MessageState.NEW:
            entry.state = TRANSITIONS[entry.state, MessageEvent.REFUSE]
            entry.acknowledgements = None
            # No receiver has had it, so this was no delivery.
            entry.delivery_count -= 1
            del self._pushed[entry.reference.id]
            self.ordering.restore([entry])
            return False
        if acknowledgements.negative or acknowledgements.under_way:
            if not handled:
                entry.state = TRANSITIONS[entry.state, MessageEvent.REFUSE]
            return False
        self.remove(entry, MessageEvent.FINAL_POSITIVE_ACKNOWLEDGEMENT)
        return True

    def _become_delivered(self, entry: QueueEntry, event: MessageEvent) -> None:
        entry.state = TRANSITIONS[entry.state, event]
        self._delivered[entry] = None
