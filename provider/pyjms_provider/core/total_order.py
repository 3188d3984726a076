"""Total order: all receivers of a destination see its messages in one and the same order (JBoss Messaging Core §9.6; total order broadcast).

The order is that in which the destination accepted the messages, whatever their senders, priorities and delivery modes. A message's place in it is its
reference id, which the journal keeps, so that the order is the same after a restart. Three things could let a message overtake one before it, and hold it
back instead, as Kafka's last stable offset does: an earlier message is still on its way into the queues, which the destination's `MessageSequencer` knows;
it is not committed; or it waits for its redelivery delay. Each queue knows the latter two (`QueueRules`).
"""

from __future__ import annotations

from contextlib import contextmanager
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyjms_provider.core.message.reference import MessageReference, ReferenceId


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
