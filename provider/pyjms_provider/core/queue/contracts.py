"""What a queue's collaborators may know of it: its lock, its parts, and the steps that it takes with the lock held."""

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
    from pyjms_provider.core.queue.entry_list import QueueEntryList
    from pyjms_provider.core.queue.queue_rules import QueueRules
    from pyjms_provider.core.queue.scheduled_messages import ExpiryIndex
    from pyjms_provider.core.store import MessageStore


class ExpiryListener(Protocol):
    """Hears of messages that expire."""

    @property
    def is_on(self) -> bool:
        """Whether anybody wants to hear of them now."""


class Paging(Protocol):
    """What pages a queue's messages: `Pager`."""

    def page_out(self, reference: MessageReference, *, is_coming: bool = False) -> None:
        """Let a message that is in the queue leave memory, if the policy limits how many stay there. The lock is held."""

    def page_in(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        """Bring messages into memory, in place of others if the policy limits how many stay there; at least the first one is read."""

    def load(self, reference: MessageReference) -> None:
        """Bring a message into memory, and those that come after it here. Waits for a disk. Raises `ResourceError`."""

    def matcher(self, selector: Selector | None) -> Callable[[QueueEntry], bool] | None:
        """Return what evaluates a selector: it raises `NotInMemoryError` for a message that is not in memory."""

    def make_delivery(self, reference: MessageReference, count: int, tag: QueueEntry | None) -> Delivery:
        """Return a delivery whose message may have to be fetched without the lock, which is held."""


class DeadLetters(Protocol):
    """What moves a queue's dead letters: `DeadLetterPolicy`."""

    @property
    def leaves_expired(self) -> bool:
        """Whether the timer alone removes expired messages that nobody holds, as that takes its time."""

    def exceeded_redeliveries(self, delivery_count: int, *, failed: bool) -> bool:
        """Return whether a message that was delivered so often, and `failed` the last time, is not to come again."""

    def stays_while_held(self, entry: QueueEntry) -> bool:
        """Return whether an expired message must not be taken from the client that has it: it may be consumed yet, else it is moved when it is released."""

    def remove_as_exhausted(self, entry: QueueEntry, reason: str | None) -> None:
        """Remove a message that was delivered too often; `reason` as in `DeadEntry.leaving`. The lock is held."""

    def flush(self) -> None:
        """Have the messages moved that have left. The lock is not held."""


class Times(Protocol):
    """What does in a queue what is due: `Schedule`."""

    expiry: ExpiryIndex

    def ask_for_delayed(self) -> None:
        """Have the timer come when the next delayed message is due."""

    def follow_clock(self) -> None:
        """Have delayed redeliveries stay away for no less and no more, though the clock was set. The lock is held."""


class QueueCore(EntryQueue, Protocol):
    """A queue as its collaborators see it. The lock is held where a method says so."""

    watch: ExpiryListener | None
    rules: QueueRules | None
    ordering: QueueEntryList
    store: MessageStore
    back_off_ms: int
    has_receivers: bool

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
        """What pages its messages."""

    @property
    def times(self) -> Times:
        """What does what is due."""

    @property
    def dead_letters(self) -> DeadLetters:
        """What moves its dead letters."""

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""

    def schedule(self, at_ms: int | None) -> None:
        """Ask the timer to come at that time; None: not at all. No lock is held."""

    def choose(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Return whom to wake for a message that is available. The lock is held."""

    def push_or_choose(self, entry: QueueEntry) -> None:
        """Offer a message that has just become available to receivers, then to consumers. No lock is held."""

    def announce(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Drop what a message that has become available displaces; return whom to wake for it. The lock is held."""

    def place(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Make a NEW message available, now or when it is due; return whom to wake. The lock is held."""

    def displace(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Remove what a message that has come displaces; return whom to wake for what is free now. The lock is held."""

    def expire(self, entry: QueueEntry) -> None:
        """Remove a message that has expired, and is no longer in the index of those that will. The lock is held."""

    def remove(self, entry: QueueEntry, event: MessageEvent, cause: Happening | None = None) -> None:
        """Take a message out, and have the journal and the store let go of it. The lock is held."""

    def forget(self, entry: QueueEntry) -> None:
        """Let go of the message of an entry that has just become ABSENT. The lock is held."""

    def remove_if_expired(self, entry: QueueEntry) -> bool:
        """Return whether a message has expired, and is out. The lock is held."""
