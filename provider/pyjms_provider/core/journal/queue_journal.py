"""The journal's record of one durable queue: its number, and the deferred records of its messages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from pyjms_provider.core.journal.journal import Changes, Removal
from pyjms_provider.core.message.reference import MessageReference, ReferenceId

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.core.journal.journal import Journal, QueueNumber, QueueRecord

_PRIORITIES: Final = 10
_STRIDE: Final = 100  # ids that a delivery mark covers at first: one small write for that many deliveries
_STRIDE_MAX: Final = 800
_SHORT_MS: Final = 50  # after a mark that lasted less, the next one covers twice as many
_LONG_MS: Final = 200  # after a mark that lasted longer, the next one covers `_STRIDE` again
_GAPS: Final = 16  # where most ids are other queues', a mark covers this many times the distance between the last marks and the ids that follow them
_GAPS_MAX: Final = 10_000


class QueueJournal:
    """The number of a queue in a journal, and its deferred records and delivery marks.

    After a crash, messages that a client may have seen must be delivered flagged (JMS 1.1 §3.4.7). Writing each
    delivery would cost a write for each; so a *delivery mark*, a high-water mark by queue and priority, is written ahead: no message
    above it has been delivered. Messages below it that are still there are flagged, some of them without need: about as many as
    are delivered in a fraction of a second. A redelivery is rare, and its count decides about dead letters: it is written
    exactly.
    """

    __slots__ = (
        "_clock",
        "_gap",
        "_has_ended",
        "_journal",
        "_last_place",
        "_marked_ms",
        "_marks",
        "_stride",
        "definition",
        "number",
    )

    def __init__(
        self, journal: Journal, clock: Clock, number: QueueNumber, definition: QueueRecord | None = None
    ) -> None:
        self._journal = journal
        self._clock = clock
        self.number = number
        self.definition = definition
        """What must be written together with the queue's first message; None: it has been written."""
        self._has_ended = False
        self._last_place = 0
        # Not restored at a start: marks of the last run serve only to decide which messages clients may have seen.
        self._marks = [0] * _PRIORITIES
        self._stride = _STRIDE
        self._marked_ms = -math.inf
        self._gap = 0

    @property
    def keeps_transient(self) -> bool:
        """Whether NON_PERSISTENT messages are written, too."""
        return self._journal.keeps_transient

    def is_covered(self, reference: MessageReference, count: int) -> bool:
        """Return whether the message may be delivered for the `count`-th time without a write."""
        # A message that is not in the journal does not survive a crash, so its redelivery need not be known.
        if not reference.journaled:
            return True
        # After a pause another broker may hold the store; a write detects that, as it needs the lock (decision 0195).
        return count == 1 and reference.id <= self._marks[reference.priority] and self._journal.is_held

    def is_confirmed(self, reference: MessageReference) -> bool:
        """Return whether a message that stays in its queue may be shown without calling `confirm`."""
        return not reference.journaled or self._journal.is_held

    def confirm(self) -> None:
        """Have the journal check that this broker still holds it. Waits for it. Raises `ResourceError`."""
        self._journal.confirm()

    def cover(self, reference: MessageReference, count: int) -> None:
        """Write a delivery, or a mark that covers it. Waits for the journal. Raises `ResourceError`."""
        if count > 1:
            # Exact, as the count decides about dead letters; a loss of power may cost one more delivery.
            self._journal.write(Changes(counts=[(self.number, reference, count)]), force=False)
            return
        up_to = ReferenceId(reference.id + max(self._next_stride(), self._next_leap(reference)))
        # Forced: a loss of power may undo an acknowledgement, and then the message must be flagged.
        self._journal.write(Changes(marks=[(self.number, reference.priority, up_to)]), force=True)
        # Several threads write marks at once, and the higher one may have been first.
        self._marks[reference.priority] = max(self._marks[reference.priority], up_to)

    def _next_stride(self) -> int:
        """Return how many ids the next mark covers. Several threads may call this at once: the last one sets the stride."""
        now_ms = self._clock.monotonic_ms()
        # Without a lock: a race makes one mark too long or too short, which costs a write or some flags.
        lasted_ms, self._marked_ms = now_ms - self._marked_ms, now_ms
        if lasted_ms > _LONG_MS:
            self._stride = _STRIDE
        elif lasted_ms < _SHORT_MS:
            self._stride = min(2 * self._stride, _STRIDE_MAX)
        return self._stride

    def _next_leap(self, reference: MessageReference) -> int:
        """Return how many ids the next mark must cover to include some messages of this queue, as far as that can be estimated.

        A single message after a long gap proves nothing: many may follow it at once.
        """
        mark = self._marks[reference.priority]
        last, self._gap = self._gap, reference.id - mark if mark else 0
        # The smaller of two gaps: a mark after one long silence would flag thousands of messages without need.
        return min(_GAPS * min(last, self._gap), _GAPS_MAX)

    def add_definition(self, changes: Changes) -> None:
        """Add the queue's definition to the changes, if it is not written yet. Any number of writers may."""
        definition = self.definition
        if definition is not None and definition not in changes.definitions:
            # Each writer adds it until one write has succeeded: defining a queue twice changes nothing.
            changes.definitions.append(definition)

    def was_defined(self) -> None:
        """Note that the definition has been written. Does not wait."""
        self.definition = None
        # A sender's write was under way when the queue ended, and has defined the queue again.
        if self._has_ended:
            self._forget()

    def has_ended(self, *, was_unwritten: bool) -> None:
        """Note that the journal has forgotten the queue. Does not wait.

        `was_unwritten`: whether the definition was not written before; then a sender may have written it since.
        """
        self._has_ended = True  # first: a sender that writes the definition now checks this after `was_defined`
        if was_unwritten and self.definition is None:
            self._forget()

    def _forget(self) -> None:
        self._journal.note(Changes(dropped=[self.number]))

    def defer_removal(self, reference: MessageReference) -> None:
        """Have the journal forget a message that the broker itself has removed. Does not wait."""
        if reference.journaled:
            self._journal.note(Changes(removals=[Removal(self.number, reference)]))

    def is_to_end(self, last_place: int) -> None:
        """Note, before the journal is told to forget the queue, the last sequence number in its order."""
        self._last_place = last_place

    def defer_late_removal(self, reference: MessageReference, sequence: int) -> None:
        """Have the journal forget a message of a queue that it has forgotten, if the message was added after that had begun. Does not wait.

        Earlier messages are removed with the queue.
        """
        # A message with sequence 0 has never been in the order, and may have been written after the queue was dropped.
        if not 0 < sequence <= self._last_place:
            self.defer_removal(reference)

    def defer_counts(self, released: Iterable[tuple[MessageReference, int]]) -> None:
        """Have the journal store the delivery counts of released messages. Does not wait."""
        counts = [(self.number, reference, count) for reference, count in released if reference.journaled]
        if counts:
            self._journal.note(Changes(counts=counts))


class _JournalQueue(Protocol):
    @property
    def journal(self) -> QueueJournal | None: ...


class _RemovedEntry(Protocol):
    reference: MessageReference

    @property
    def queue(self) -> _JournalQueue: ...


def removals_of(entries: Iterable[_RemovedEntry]) -> list[Removal]:
    """Return the removals that a journal must store for messages that were taken out of their queues."""
    return [
        Removal(kept.number, entry.reference)
        for entry in entries
        if (kept := entry.queue.journal) is not None
        and entry.reference.journaled  # read once: a queue may end meanwhile
    ]
