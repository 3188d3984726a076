"""How messages that consumers have pulled are settled, or given back.

Each call names the session and the count of the delivery that it is about, and does nothing to a delivery that is no longer
the session's: the message may have been given back meanwhile, and be another client's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.queue.delays import redelivery_delay_ms
from pyjms_provider.core.queue.expiry import is_expired
from pyjms_provider.core.queue.policed_queue import PolicedQueue

if TYPE_CHECKING:
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

__all__ = ["SettlingQueue"]

# Looking up a member of an enumeration costs more than a global name.
_DELIVERED = MessageState.DELIVERED


class SettlingQueue(PolicedQueue):
    """The part of a queue that what was pulled comes to in the end."""

    # They are settled

    def settle(self, entry: QueueEntry, delivery_count: int, session: ConsumerSession) -> bool:
        """Take a pulled message out for good; return False if that delivery is no longer the session's."""
        with self._lock:
            # As `_is_held`, which a call would double the price of.
            if entry.state is not _DELIVERED or entry.holder is not session or entry.delivery_count != delivery_count:
                return False
            reference, rules = entry.reference, self._rules
            self._state.settle(entry)
            if reference.expiration_ms:
                self._expiry.forget_one()
            if rules is not None:
                rules.gone(entry)
        self._store.release(reference)
        if rules is not None:
            self.wake_freed()
        return True

    def take_out_held(
        self, entry: QueueEntry, delivery_count: int, session: ConsumerSession, taken: list[QueueEntry]
    ) -> bool:
        """Take a pulled message out, for one who puts it elsewhere; return False if that delivery is no longer the session's.

        Else as `take_out`.
        """
        with self._lock:
            if not _is_held(entry, delivery_count, session):
                return False
            taken.append(entry)
            self._state.settle(entry)
            self._note_out(entry)
        self.wake_freed()
        return True

    def settle_in(
        self, unit: UnitOfWork, deliveries: Sequence[tuple[QueueEntry, int]], session: ConsumerSession
    ) -> bool:
        """Have pulled messages settled when `unit` commits; return False if one of them is no longer the session's (§6.2.1)."""
        with self._lock:
            held = [each for each in deliveries if _is_held(*each, session)]
            record = self._state.record_acknowledgement
            for entry, _ in held:
                record(entry, unit)
        unit.add_settled(held)
        return len(held) == len(deliveries)

    def settle_committed(self, settled: Iterable[tuple[QueueEntry, int]], session: ConsumerSession) -> None:
        """Take pulled messages out whose acknowledgements have been committed, and written. The caller then calls `wake_freed`, without a lock."""
        with self._lock:
            released: list[MessageReference] = []
            rules = self._rules
            for entry, delivery_count in settled:
                # As `_is_held`.
                if entry.state is _DELIVERED and entry.holder is session and entry.delivery_count == delivery_count:
                    released.append(entry.reference)
                    self._state.settle(entry)
                    entry.transaction = None
                    if entry.reference.expiration_ms:
                        self._expiry.forget_one()
                    if rules is not None:
                        rules.gone(entry)
            self._store.release_all(released)

    def change_holder(
        self, entry: QueueEntry, delivery_count: int, session: ConsumerSession, heir: ConsumerSession
    ) -> bool:
        """Let `heir` settle a delivery in place of `session`; return False if it is no longer the session's."""
        with self._lock:
            if heir.is_closed or not _is_held(entry, delivery_count, session):
                return False
            self._state.change_holder(entry, heir)
            return True

    def holds_for(self, session: ConsumerSession) -> bool:
        """Return whether `session` has unsettled messages of this queue."""
        with self._lock:
            return bool(self._state.held_by(session))

    # They are given back

    def give_back(
        self,
        deliveries: Iterable[tuple[QueueEntry, int]],
        session: ConsumerSession,
        reason: str | None = None,
        *,
        unseen: bool = False,
    ) -> None:
        """Make messages available again, in their old places, if the deliveries are still the session's.

        At once, or after the redelivery delay; one that was delivered too often is set aside instead. `reason`: why the
        client failed to process it, if it says so. `unseen`: the client never saw them, so these deliveries never were.
        """
        with self._lock:
            # Once each: a unit of work has those twice that were acknowledged twice.
            held = dict.fromkeys(entry for entry, count in deliveries if _is_held(entry, count, session))
            woken = self._cancel(list(held), reason, unseen=unseen)
        self._after_giving_back(woken)

    def give_back_all(self, session: ConsumerSession) -> None:
        """Make all messages available again that `session` pulled and has not settled."""
        with self._lock:
            woken = self._cancel(self._state.held_by(session), None)
        self._after_giving_back(woken)

    def _after_giving_back(self, woken: Sequence[Consumer]) -> None:
        if self._state.delays:
            self._ask_for_delayed()
        if self._dead:
            self._bury()
        for consumer in woken:
            consumer.notify_work()
        self.wake_freed()

    def _cancel(self, entries: list[QueueEntry], reason: str | None, *, unseen: bool = False) -> Sequence[Consumer]:
        now_ms = self._clock.time_ms()
        returned: list[QueueEntry] = []
        for entry in entries:
            if entry.transaction is not None and entry.transaction.is_committing:
                continue  # what is being written now decides
            if unseen:
                entry.delivery_count -= 1
            if self._closed:
                self._remove(entry, MessageEvent.REMOVE, Happening.CLOSED)
            elif is_expired(entry.reference, now_ms):
                self._expire_early(entry)
            elif self._rules is not None and self._rules.is_superseded(entry):
                self._remove(entry, MessageEvent.REMOVE, Happening.SUPERSEDED)
            elif not unseen and self.is_spent(entry.delivery_count, failed=reason is not None):
                self._die_spent(entry, reason)
            else:
                returned.append(entry)
        if self.kept is not None:
            # Without a count no client has had it, and nothing was written of that delivery.
            self.kept.note_returned([entry for entry in returned if entry.delivery_count] if unseen else returned)
        policy = self.policy
        # A listener that raises gets the message again at once: few attempts are left, and those behind it would overtake it.
        back_off_ms = self.back_off_ms if reason is None else 0
        if (policy.redelivery_delay_ms or back_off_ms) and not unseen:
            self._follow_clock()

            def due_ms(entry: QueueEntry) -> int:
                delay_ms = redelivery_delay_ms(policy, entry.delivery_count, back_off_ms)
                return now_ms + delay_ms if delay_ms else 0

            self._state.cancel(returned, due_ms)
        else:
            self._state.cancel(returned)
        delayed = [entry for entry in returned if entry in self._state.delays] if self._state.delays else []
        if self._rules is not None:  # all of them are in their places before the next owner is chosen
            self._rules.delayed(delayed, self._ordering)
            self._rules.released(returned)
        if delayed:
            returned = [entry for entry in returned if entry not in self._state.delays]
        woken: list[Consumer] = []
        for entry in returned:
            if not self._manager.interested_count:
                break
            woken.extend(self._choose(entry))
        return woken


def _is_held(entry: QueueEntry, delivery_count: int, session: ConsumerSession) -> bool:
    """Return whether this very delivery is unsettled, and the session's. The queue's lock is held."""
    return entry.state is MessageState.DELIVERED and entry.holder is session and entry.delivery_count == delivery_count
