"""What passes between a queue and the journal that keeps its messages: those that are found again, or could not be removed.

Restoring happens before anybody uses the queue, reinstating at any time. Either way the message is given its place as if it
had been there all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.queue.delays import redelivery_delay_ms
from pyjms_provider.core.queue.expiry import is_expired
from pyjms_provider.core.queue.policed_queue import PolicedQueue
from pyjms_provider.core.store.store import NotInMemoryError

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope
    from pyjms_provider.core.journal.recovered_runs import RecoveredRun
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

__all__ = ["NEWEST", "RestorableQueue"]

_RETRY_MS: Final = 1000
"""How long an expired message waits that could not be set aside."""
NEWEST: Final = 1000
"""More do not come between a message that was handed over and the look whether it has arrived."""


class RestorableQueue(PolicedQueue):
    """The part of a queue that takes messages back, and says what a journal has to write of a unit of work."""

    def restore(
        self,
        reference: MessageReference,
        delivery_count: int,
        unit: UnitOfWork | None = None,
        *,
        is_held: bool = False,
    ) -> QueueEntry | None:
        """Take in a message that the journal has kept, or that `unit`, in doubt, has sent; before the queue is used.

        Returns None, and lets go of it, if the rules ask for a message that cannot be read: the journal has set it aside.
        Raises `ResourceError`. `is_held`: `hold` follows. A message that a client had before stays away for the delay that it had then, from now
        on: when it was given back is not known.
        """
        read = self._reader_for(reference)
        if read is None:
            self._store.release(reference)
            return None
        with self._lock:
            if unit is None:
                entry = self._state.make(self, reference)  # type: ignore[arg-type]  # `Queue` alone completes this class
            else:
                entry = self._state.add_in_transaction(self, reference, unit)  # type: ignore[arg-type]  # as before
            entry.delivery_count = delivery_count
            if self._rules is not None:
                self._rules.accept(entry, read)
                self._shelve(reference)
            if unit is None:
                self._place_again(entry, is_held=is_held)
            due = bool(reference.expiration_ms) and self._expiry.add(entry)
        if due and self._on_due is not None:
            self._on_due(self, reference.expiration_ms)
        if self._state.delays:
            self._ask_for_delayed()
        if unit is not None:
            unit.add_sent(entry)
        return entry

    def restore_run(self, run: RecoveredRun) -> bool:
        """Take in messages that the journal has kept; return False, having done nothing, if they must come one by one."""
        with self._lock:
            return self._rules is None and self._state.restore_run(self, run)  # type: ignore[arg-type]  # as before

    def hold(self, entry: QueueEntry, unit: UnitOfWork, holder: ConsumerSession) -> None:
        super().hold(entry, unit, holder)
        with self._lock:
            if self._rules is not None:
                self._rules.restored(entry, holder)
            self._supersede(entry)  # which did not become available, and may be the older one when it is given back

    def bury_spent(self) -> None:
        """Set aside what was delivered too often before the broker started, as it may be what ended the last one."""
        with self._lock:
            for entry in self._state.awake():
                if entry.delivery_count and self.is_spent(entry.delivery_count, failed=False):
                    self._die_spent(entry, None)
        self._bury()

    def took(self, reference: MessageReference, transaction: UnitOfWork | None = None) -> bool:
        """Return whether a message that came a moment ago was taken. For who was interrupted while handing it over: it looks at what is held.

        What is here in `transaction`, and not in that, is there afterwards.
        """
        if not reference.holders:  # it has gone already
            return True
        if transaction is not None:
            return self._took_in(transaction, reference)
        with self._lock:
            held = self._state.entries(MessageState.DELIVERED)
            places = (self._state.ordering.newest(NEWEST), self._state.delays, held)
            is_pushed = self._state.pushed(reference.id) is not None
            return is_pushed or any(entry.reference.id == reference.id for entries in places for entry in entries)

    def _took_in(self, transaction: UnitOfWork, reference: MessageReference) -> bool:
        with self._lock:
            waiting = self._state.entries(MessageState.NOT_COMMITTED)
            entry = next((each for each in waiting if each.reference is reference), None)
        if entry is None:
            return False
        if entry not in transaction.sent() and not transaction.add_sent(entry):
            with self._lock:  # it has been rolled back meanwhile, as in `take_over`
                if entry.state is MessageState.NOT_COMMITTED:
                    self._remove(entry, MessageEvent.ROLLBACK)
        return True

    def reinstate(self, entry: QueueEntry) -> None:
        """Take back a message that was settled, and whose removal could not be written; it comes again, flagged, when it is its time.

        One that has expired is tried again later, by the housekeeper; one that cannot be read any more has been set aside.
        """
        read = self._reader_for(entry.reference)
        with self._lock:
            if read is None or self._closed:
                self._store.release(entry.reference)
                return
            if self._rules is not None:
                self._rules.accept(entry, read)
                self._shelve(entry.reference)
            self._state.reinstate(entry)
            if self.kept is not None:
                self.kept.note_returned([entry])
            now_ms = self._clock.time_ms()
            is_late = self._leaves_expired and is_expired(entry.reference, now_ms)
            if is_late:
                self._follow_clock()
                self._state.delays.add(entry, now_ms + _RETRY_MS)
                self._expiry.put_back([entry])
            is_next = not is_late and entry.reference.expiration_ms > 0 and self._expiry.add(entry)
            woken = () if is_late else self._place_again(entry)
        if self._state.delays:
            self._ask_for_delayed()
        if is_next and self._on_due is not None:
            self._on_due(self, entry.reference.expiration_ms)
        for consumer in woken:
            consumer.notify_work()

    def _place_again(self, entry: QueueEntry, *, is_held: bool = False) -> Sequence[Consumer]:
        """Make a message available that was restored, or taken back, now or later; return whom to wake. The lock is held."""
        count = entry.delivery_count
        delay_ms = redelivery_delay_ms(self.policy, count, self.back_off_ms) if count else 0
        if is_held or delay_ms:
            self._state.place(entry)  # for the place that it will come back to
            self._ordering.discard(entry)
        if is_held:
            return ()
        if delay_ms:
            self._follow_clock()
            self._state.delays.add(entry, max(entry.reference.deliver_at_ms, self._clock.time_ms() + delay_ms))
            if self._rules is not None:
                self._rules.delayed([entry], self._ordering)
            self._supersede(entry)  # now, as a newer one may come and go before it is due
            self._drop_surplus()
            return self._wake_freed()
        return self._place(entry)

    def _reader_for(self, reference: MessageReference) -> Callable[[MessageReference], Envelope] | None:
        """Return what the rules read a message with, without waiting; None: it cannot be read.

        Waits for a disk if they ask for it. Raises `ResourceError`.
        """
        rules = self._rules
        is_measured = bool(self.policy.max_bytes) and not reference.size
        if rules is None or not (rules.reads_messages or is_measured):
            return self._store.retrieve
        envelope = self.message_of(reference)
        return None if envelope is None else lambda _: envelope

    def uncommitted_messages(
        self, entries: Iterable[QueueEntry], *, with_transient: bool
    ) -> Sequence[tuple[MessageReference, Envelope | None]]:
        """Return the PERSISTENT messages, or all, of NOT_COMMITTED entries; not those that have expired, or if the queue was closed.

        Without their envelopes those that were paged out.
        """
        found: list[tuple[MessageReference, Envelope | None]] = []
        with self._lock:
            retrieve = self._store.retrieve
            for entry in entries:
                if entry.state is MessageState.NOT_COMMITTED and (with_transient or entry.reference.reliable):
                    try:
                        found.append((entry.reference, retrieve(entry.reference)))
                    except NotInMemoryError:
                        found.append((entry.reference, None))
        return found
