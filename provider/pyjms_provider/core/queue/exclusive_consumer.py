"""Which consumer of an exclusive queue is active: it alone gets messages.

A machine without a lock: its queue calls it under the queue's own.

The consumer of the highest priority that came first is active. Its ownership ends when it has been closed *and* none of the
queue's deliveries is outstanding, that is delivered and neither settled nor released: else the next consumer would get later messages before those
that are released after that. Until then only another consumer of the session that the active one belonged to may take its place: what
that session releases goes back into its place together.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from pyjms_provider.core.queue.redelivery_barrier import RedeliveryBarrier

if TYPE_CHECKING:
    from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession
    from pyjms_provider.core.queue.entry import QueueEntry

__all__ = ["ExclusiveConsumer"]


class ExclusiveConsumer:
    """The consumers of a queue that serves one at a time."""

    __slots__ = ("_outstanding", "_session", "_waiting", "active", "barrier", "is_freed")

    def __init__(self) -> None:
        self.active: Consumer | None = None
        self.barrier = RedeliveryBarrier()
        """Delayed redeliveries."""
        self.is_freed = False
        """Whether a consumer may take messages that nobody was woken for: set here, cleared by the rules."""
        self._session: ConsumerSession | None = None
        """The session of the last active consumer, which was closed while deliveries were outstanding."""
        self._outstanding: set[QueueEntry] = set()
        self._waiting: defaultdict[int, OrderedDict[Consumer, None]] = defaultdict(OrderedDict)
        """By priority, the consumers that came first before the others."""

    # Consumers

    def came(self, consumer: Consumer) -> None:
        """Note a new consumer: it is active if it may be, and there is none."""
        if self.active is None and (not self._outstanding or consumer.session is self._session):
            self._activate(consumer)
        else:
            self._waiting[consumer.priority][consumer] = None

    def left(self, consumer: Consumer) -> None:
        """Note that `consumer` has been closed: if it was active, the next one is, as soon as it may be. May be repeated."""
        self._forget(consumer)
        if consumer is self.active:
            self._session, self.active = consumer.session, None
        if self.active is None:
            self._choose()

    def _choose(self) -> None:
        """Activate the next consumer, if there is one that may be active."""
        for priority in sorted(self._waiting, reverse=True):
            waiting = self._waiting[priority]
            if self._outstanding:
                following = next((each for each in waiting if each.session is self._session), None)
            else:
                following = next(iter(waiting), None)
            if following is not None:
                self._activate(following)
                self._forget(following)
                self.is_freed = True
                return

    def _activate(self, consumer: Consumer) -> None:
        self.active = consumer
        self._session = None

    def _forget(self, consumer: Consumer) -> None:
        priority = consumer.priority
        if priority in self._waiting and consumer in self._waiting[priority]:
            del self._waiting[priority][consumer]
            if not self._waiting[priority]:
                del self._waiting[priority]

    # Deliveries

    def delivered(self, entry: QueueEntry) -> None:
        """Note a message that the active consumer takes."""
        self.barrier.remove(entry)
        self._outstanding.add(entry)

    def restored(self, entry: QueueEntry, holder: ConsumerSession) -> None:
        """Note a message that `holder` had received before the broker was started, by a consumer that is no more."""
        self._outstanding.add(entry)
        if (
            self._session is None or holder.is_delivering
        ):  # a branch has no consumers, a reader group goes on with others
            self._session = holder

    def released(self, entry: QueueEntry) -> None:
        """Note that a message was given back, and is in its place, or delayed."""
        self._end_delivery(entry)

    def gone(self, entry: QueueEntry) -> None:
        """Note that a message has left the queue. May be repeated."""
        self._end_delivery(entry)
        if self.barrier.remove(entry):
            self.is_freed = True

    def _end_delivery(self, entry: QueueEntry) -> None:
        self._outstanding.discard(entry)
        if self.active is None and not self._outstanding:
            self._choose()
