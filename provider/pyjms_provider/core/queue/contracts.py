"""The interfaces through which a queue's collaborators see it: its lock, its parts, and the steps that it takes with the lock held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyjms_provider.core.message.entry import EntryQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyjms.spi.clock import Clock
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.message.message_state import MessageEvent
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.message.trace_events import Happening
    from pyjms_provider.core.queue.channel_state import ChannelState
    from pyjms_provider.core.queue.consumer import Consumer, ConsumerManager
    from pyjms_provider.core.queue.cursor import Asked
    from pyjms_provider.core.queue.entry_list import QueueEntryList
    from pyjms_provider.core.queue.queue_rules import QueueRules
    from pyjms_provider.core.queue.scheduled_messages import ExpiryIndex
    from pyjms_provider.core.store import MessageStore


class ExpiryListener(Protocol):
    """Is notified of messages that expire."""

    @property
    def is_on(self) -> bool:
        """Whether a client wants to be notified now."""


class Paging(Protocol):
    """Pages a queue's messages out and in: `Pager`."""

    def page_out(self, reference: MessageReference, *, is_coming: bool = False) -> None:
        """Let a message of the queue leave memory, if the policy limits how many stay there. The lock is held."""

    def page_in(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        """Load messages into memory, in place of others if the policy limits how many stay there; at least the first one is read."""

    def load(self, reference: MessageReference) -> None:
        """Load a message into memory, and those that follow it here. Waits for a disk. Raises `ResourceError`."""

    def matcher(self, selector: Selector | None) -> Callable[[QueueEntry], bool] | None:
        """Return a function that evaluates a selector: it raises `NotInMemoryError` for a message that is not in memory."""

    def equalities_of(self, selector: Selector) -> Asked | None:
        """Return what a selector asks for, if it names values that messages must have."""

    def make_delivery(self, reference: MessageReference, count: int, tag: QueueEntry | None) -> Delivery:
        """Return a delivery whose message may have to be fetched without the lock, which is held."""


class DeadLetters(Protocol):
    """Moves a queue's dead letters: `DeadLetterPolicy`."""

    @property
    def leaves_expired(self) -> bool:
        """Whether only the timer removes expired messages that are not held, as that takes some time."""

    def exceeded_redeliveries(self, delivery_count: int, *, failed: bool) -> bool:
        """Return whether a message with this delivery count, which `failed` the last time, is not to be redelivered."""

    def stays_while_held(self, entry: QueueEntry) -> bool:
        """Return whether an expired message must not be taken from the client that holds it: it may still be consumed, and otherwise is moved on its release."""

    def remove_as_exhausted(self, entry: QueueEntry, reason: str | None) -> None:
        """Remove a message that was delivered too often; `reason` as in `DeadEntry.of_entry`. The lock is held."""

    def flush(self) -> None:
        """Move the messages that have left. The lock is not held."""


class Times(Protocol):
    """Does the timed work of a queue: `Schedule`."""

    expiry: ExpiryIndex

    def ask_for_delayed(self) -> None:
        """Schedule a call of `run_due` for the next delayed message."""

    def follow_clock(self) -> None:
        """Adjust delayed redeliveries to a changed wall clock, so that they keep their durations. The lock is held."""


class QueueCore(EntryQueue, Protocol):
    """A queue as its collaborators see it. The lock is held where a method says so."""

    watch: ExpiryListener | None
    rules: QueueRules | None
    ordering: QueueEntryList
    store: MessageStore
    back_off_ms: int
    has_receivers: bool
    is_closed: bool
    """Whether it accepts nothing any more."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""

    @property
    def state(self) -> ChannelState:
        """Its entries, by their state."""

    @property
    def consumers(self) -> ConsumerManager:
        """Its consumers."""

    @property
    def pager(self) -> Paging:
        """Pages its messages."""

    @property
    def times(self) -> Times:
        """Does its timed work."""

    @property
    def dead_letters(self) -> DeadLetters:
        """Moves its dead letters."""

    def wake_held_back(self) -> None:
        """Wake consumers, as messages of a total order may have been freed. No lock is held."""

    def schedule(self, at_ms: int | None) -> None:
        """Ask the timer for a call of `run_due` at that time; None: not at all. No lock is held."""

    def choose(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Return the consumers to wake for a message that is available. The lock is held."""

    def push_or_choose(self, entry: QueueEntry) -> None:
        """Offer a message that has just become available to receivers, then to consumers. No lock is held."""

    def announce(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Drop the messages that a newly available one displaces; return the consumers to wake for it. The lock is held."""

    def place(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Make a NEW message available, now or when it is due; return the consumers to wake. The lock is held."""

    def displace(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Remove the messages that a new one displaces; return the consumers to wake for freed messages. The lock is held."""

    def expire(self, entry: QueueEntry) -> None:
        """Remove a message that has expired, and is no longer in the expiry index. The lock is held."""

    def remove(self, entry: QueueEntry, event: MessageEvent, cause: Happening | None = None) -> None:
        """Remove a message, also from the journal and the store. The lock is held."""

    def note_out(self, entry: QueueEntry) -> None:
        """Update expiry and rules for a message that has just become ABSENT; `release_removed` follows. The lock is held."""

    def forget(self, entry: QueueEntry) -> None:
        """Release the message of an entry that has just become ABSENT. The lock is held."""

    def remove_if_expired(self, entry: QueueEntry) -> bool:
        """Return whether a message has expired, and was removed. The lock is held."""
