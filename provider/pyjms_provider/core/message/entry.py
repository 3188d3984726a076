"""A message in a channel: its state, its holder, and the interfaces of its queue, session and unit of work.

Queues, sessions and units of work belong to higher layers of the core; the parts that an entry uses are `Protocol`s here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from threading import Lock

    from pyjms.spi.envelope import Envelope
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.message.message_state import MessageState
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.message.trace_events import Happening
    from pyjms_provider.core.policy import QueuePolicy


ReceiverId = NewType("ReceiverId", str)


class Holder(Protocol):
    """A holder of unsettled messages: the session of a consumer."""

    receiver_id: ReceiverId
    is_delivering: bool
    """Whether it receives messages: its connection is started."""
    is_closed: bool


class Transaction(Protocol):
    """A unit of work, as queues see it."""

    @property
    def unit_id(self) -> str:
        """Its name in the log."""

    expired_rolls_back: bool
    """Whether a message that expires before the commit rolls all back (True), or is merely left out."""

    @property
    def is_committing(self) -> bool:
        """Whether the unit is being written, so that its messages must be left alone. Read without the lock."""

    @property
    def is_prepared(self) -> bool:
        """Whether a coordinator decides, so that not even expiry changes its messages. Read without the lock."""

    def add_sent(self, entry: QueueEntry) -> bool:
        """Add a NOT_COMMITTED message; return False if the unit has ended and the message must go."""

    def add_settled(self, settled: Sequence[tuple[QueueEntry, int]]) -> None:
        """Add the acknowledgements of pulled messages, each with the number of its delivery."""

    def add_acknowledgement(self, entry: QueueEntry, receiver_id: ReceiverId) -> None:
        """Add the acknowledgement of a message that was pushed to `receiver_id`."""

    def expire(self) -> None:
        """Prevent its commit, as a message in it expired (§5.1.3); the session gets the error when it commits."""


class EntryQueue(Protocol):
    """The queue of an entry, as the holders of the entry see it."""

    journal: QueueJournal | None
    policy: QueuePolicy

    @property
    def name(self) -> str:
        """The name of this queue in errors."""

    @property
    def lock(self) -> Lock:
        """The one lock of the queue: held for a few steps, and never while waiting."""

    @property
    def subscription_name(self) -> str | None:
        """The name of the channel between a topic and one subscriber; None: this is a queue."""

    def message_of(self, reference: MessageReference) -> Envelope | None:
        """Return a message of this queue; None if it has left, or is damaged. Waits for a disk. Raises `ResourceError`."""

    def uncommitted_messages(
        self, entries: Iterable[QueueEntry], *, with_transient: bool
    ) -> Sequence[tuple[MessageReference, Envelope | None]]:
        """Return the PERSISTENT messages, or all, of NOT_COMMITTED entries; not those that have expired, or if the queue was closed.

        Messages that were paged out come without their envelopes.
        """

    def rollback(self, entry: QueueEntry) -> None:
        """Remove a message if it is NOT_COMMITTED (§5.1.3)."""

    def commit(self, entries: Iterable[QueueEntry]) -> None:
        """Make NOT_COMMITTED messages available, in this order, and deliver them if possible (§2.2.1)."""

    def settle(self, entry: QueueEntry, delivery_count: int, session: Holder) -> bool:
        """Remove a pulled message for good; return False if `session` no longer holds this delivery."""

    def settle_in(self, unit: Transaction, deliveries: Sequence[tuple[QueueEntry, int]], session: Holder) -> bool:
        """Have pulled messages settled when `unit` commits; return False if `session` no longer holds one of them (§6.2.1)."""

    def settle_committed(self, settled: Iterable[tuple[QueueEntry, int]], session: Holder) -> None:
        """Remove pulled messages whose acknowledgements have been committed, and written. The caller then calls `wake_freed`, without a lock."""

    def wake_freed(self) -> None:
        """Wake consumers for messages that were just freed: an ownership has ended, or a delayed message has left. The lock is not held."""

    def give_back(
        self,
        deliveries: Iterable[tuple[QueueEntry, int]],
        session: Holder,
        reason: str | None = None,
        *,
        unseen: bool = False,
    ) -> None:
        """Make messages available again, in their old places, if the session still holds these deliveries."""

    def change_holder(self, entry: QueueEntry, delivery_count: int, session: Holder, heir: Holder) -> bool:
        """Let `heir` settle a delivery in place of `session`; return False if `session` no longer holds it."""

    def hold(self, entry: QueueEntry, unit: Transaction, holder: Holder) -> None:
        """Assign a restored message, received in `unit`, to `holder`; before the channel is used."""

    def drop_acknowledgement(self, entry: QueueEntry, unit: Transaction) -> None:
        """Undo an acknowledgement, of a pushed or pulled message, whose unit of work rolls back (§6.2.1)."""

    def reinstate(self, entry: QueueEntry) -> None:
        """Restore a message that was settled, and whose removal could not be written; it is redelivered, flagged."""

    def take_out(self, entry: QueueEntry, taken: list[QueueEntry], cause: Happening | None = None) -> bool:
        """Remove a message that is not held, so that the caller can move or delete it; return False if it is held, or has left."""

    def take_out_held(self, entry: QueueEntry, delivery_count: int, session: Holder, taken: list[QueueEntry]) -> bool:
        """Remove an unacknowledged message so that the caller can move it; return False if `session` no longer holds this delivery."""

    def release_removed(self, entry: QueueEntry) -> None:
        """Release the message of an entry that was taken out. The lock is not held."""

    def held_count(self, session: Holder) -> int:
        """Return how many unsettled messages of this queue `session` has."""

    def apply_acknowledgements(self, acknowledged: Iterable[tuple[QueueEntry, ReceiverId]]) -> None:
        """Apply acknowledgements of pushed messages whose unit of work commits (§6.2.1)."""

    def run_due(self, now_ms: int) -> int | None:
        """Remove expired messages, make due messages available; return when to call again, None: when asked."""

    def give_back_all(self, session: Holder) -> None:
        """Release all messages that `session` pulled and has not settled."""


class Acknowledgements:
    """The acknowledgements of the receivers to which a channel pushed one message (§5.3.1, §5.3.4)."""

    __slots__ = ("negative", "positive", "under_way")

    def __init__(self) -> None:
        self.negative: set[ReceiverId] = set()
        """Receivers that took the message and still owe the positive acknowledgement."""
        self.positive: set[ReceiverId] = set()
        """Receivers whose positive acknowledgement came before their negative one."""
        self.under_way = 0
        """How many deliveries are under way: only meanwhile can an acknowledgement be early."""


class QueueEntry:
    """The state of one message in one channel. There is one for each queued message, so it is kept small.

    Changed only under the lock of its queue. A cancelled delivery returns the entry to its old `sequence`.
    """

    __slots__ = (
        "acknowledgements",
        "delivery_count",
        "holder",
        "queue",
        "reference",
        "sequence",
        "state",
        "transaction",
    )

    def __init__(self, queue: EntryQueue, reference: MessageReference, state: MessageState) -> None:
        self.queue = queue
        self.reference = reference
        self.state = state
        self.sequence = 0
        """The place in the queue's order, given when the message becomes NEW."""
        self.delivery_count = 0
        """How often the message was delivered; also identifies one of its deliveries."""
        self.holder: Holder | None = None
        """The session that pulled the message and has not settled it."""
        self.transaction: Transaction | None = None
        """The unit of work that will commit the message, or its acknowledgement (§5.1.1, §5.3.1)."""
        self.acknowledgements: Acknowledgements | None = None
        """Made when the message is first pushed to a receiver; a pulled message needs none."""

    @property
    def redelivered(self) -> bool:
        """Whether the message was delivered before the delivery that is under way (JMS 1.1 §3.4.7)."""
        return self.delivery_count > 1

    @property
    def outstanding(self) -> frozenset[ReceiverId]:
        """The ids of all receivers that owe a positive acknowledgement (§5.3.1)."""
        pushed = self.acknowledgements.negative if self.acknowledgements else frozenset[ReceiverId]()
        return frozenset(pushed) if self.holder is None else frozenset({*pushed, self.holder.receiver_id})

    def has_early(self, receiver_id: ReceiverId) -> bool:
        """Return whether an acknowledgement of that receiver is stored, which has overtaken its delivery (§5.3.4)."""
        return self.acknowledgements is not None and receiver_id in self.acknowledgements.positive

    def __repr__(self) -> str:
        return f"<QueueEntry {self.sequence} {self.state.name} of {self.reference!r}>"
