"""Message references: they stand for stored messages while channels pass them on (JBoss Messaging Core §3); and the total order of a destination (§9.6).

In a total order all receivers see the messages in one and the same order: that in which the destination accepted them, whatever their senders, priorities and
delivery modes. A message's place in it is its reference id, which the journal keeps, so that the order is the same after a restart. Three things could let a
message overtake one before it, and hold it back instead, as Kafka's last stable offset does: an earlier message is still on its way into the queues, which the
destination's `MessageSequencer` knows; it is not committed; or it waits for its redelivery delay. Each queue knows the latter two (`QueueRules`).
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import total_ordering
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Final, NewType, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyjms.spi.envelope import ConnectionId


ReferenceId = NewType("ReferenceId", int)
MESSAGE_OVERHEAD: Final = 600
"""Memory of an envelope, its reference and its entry in bytes, without strings: measured."""


@total_ordering
class MessageReference:
    """A stored message, shared by all channels that hold it; it has the message's attributes, never its body.

    References are ordered by priority, the higher first, then by age (§10). Two references are equal when they are the
    same object. Only the store that made a reference changes `holders`, once a restore from a journal has set it to 0.
    """

    __slots__ = (
        "deliver_at_ms",
        "expiration_ms",
        "holders",
        "id",
        "journaled",
        "origin",
        "priority",
        "reliable",
        "shared",
        "size",
    )

    def __init__(
        self, reference_id: ReferenceId, origin: ConnectionId | None, expiration_ms: int, priority: int, reliable: bool
    ) -> None:
        self.id = reference_id
        """Ascending with every message of the store; unlike a JMS message id it is always set."""
        self.origin = origin
        """The connection that sent the message, for `no_local` (JMS 1.1 §6.11)."""
        self.expiration_ms = expiration_ms
        """Milliseconds since 1970 UTC; 0: never."""
        self.priority = priority
        self.reliable = reliable
        """Whether the message is PERSISTENT (§2.1; JMS 1.1 §3.4.2)."""
        self.deliver_at_ms = 0
        """Milliseconds since 1970 UTC before which the message is not delivered; 0: at once. A journal stores it, like the others."""
        self.size = 0
        """About how many bytes the message takes; 0: not measured yet."""
        self.journaled = False
        """Whether the message is in the journal."""
        self.shared = False
        """Whether the journal has the message for several queues."""
        self.holders = 1
        """How many channels hold the message; the store drops it with the last one."""

    def __lt__(self, other: MessageReference) -> bool:
        return (-self.priority, self.id) < (-other.priority, other.id)

    def __repr__(self) -> str:
        return f"<MessageReference {self.id} priority={self.priority} holders={self.holders}>"


class MessageSequencer:
    """Knows which messages of one destination are on their way into its queues. Safe to use from any thread."""

    __slots__ = ("_last", "_lock", "_on_freed", "_open", "horizon")

    def __init__(self, on_freed: Callable[[], None]) -> None:
        """`on_freed` is called, without a lock, when messages may be delivered that were held back for one on its way."""
        self._on_freed = on_freed
        self._lock = Lock()
        self._open: dict[ReferenceId, None] = {}
        """In ascending order."""
        self._last = 0
        self.horizon: float = inf
        """The lowest id of a message on its way: no message above it may be delivered. May be read at any time."""

    def begin(self, make: Callable[[], MessageReference]) -> MessageReference:
        """Return a new reference, made by `make`, which does not wait; `end` must be called when its queues have the message, or never will."""
        with self._lock:
            # Made under the lock: no later id may be delivered before this one is known.
            reference = make()
            self._open[reference.id] = None
            self._last = reference.id
            self.horizon = min(self.horizon, reference.id)
        return reference

    def end(self, reference: MessageReference) -> None:
        """Record that the message is in its queues, or will not be. Wakes consumers, so no lock is held."""
        with self._lock:
            del self._open[reference.id]
            has_freed = reference.id == self.horizon and self._last > reference.id
            self.horizon = next(iter(self._open), inf)
        if has_freed:
            self._on_freed()


class OrderedDestination(Protocol):
    """A queue, or a topic."""

    @property
    def sequencer(self) -> MessageSequencer | None:
        """Its sequencer; None: it has no total order."""


@contextmanager
def next_place(destination: OrderedDestination, make: Callable[[], MessageReference]) -> Iterator[MessageReference]:
    """Make the reference of a message that is put into the queues of `destination` within the block, at the next place of its total order, if it has one."""
    sequencer = destination.sequencer
    if sequencer is None:
        yield make()
        return
    reference = sequencer.begin(make)
    try:
        yield reference
    finally:
        # Also after an error: nothing behind the message would ever be delivered.
        sequencer.end(reference)
