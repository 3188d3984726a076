"""Restoring messages of a queue: after a restart, or when their removal could not be written.

Restoring happens before the queue is used, `reinstate` at any time. Either way the message gets the place that it
had before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.scheduled_messages import is_expired, redelivery_delay_ms
from pyjms_provider.core.store import NotInMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyjms.spi.envelope import Envelope
    from pyjms_provider.core.journal.journal import RecoveredRun
    from pyjms_provider.core.message.entry import QueueEntry, Transaction
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.contracts import QueueCore

_RETRY_MS: Final = 1000
"""How long an expired message waits that could not be moved."""


def restore_message(
    queue: QueueCore,
    reference: MessageReference,
    delivery_count: int,
    unit: Transaction | None = None,
    *,
    is_held: bool = False,
) -> QueueEntry | None:
    """Restore a message that the journal has stored, or that `unit`, in doubt, has sent; before the queue is used.

    Returns None, and releases it, if the rules need a message that cannot be read: the journal has quarantined it.
    Raises `ResourceError`. `is_held`: `Queue.hold` follows. A redelivery waits for its whole delay from now on: the time of its
    release is not known.
    """
    # Before the lock is taken, as reading waits for the disk.
    read = _reader_for(queue, reference)
    if read is None:
        queue.store.release(reference)
        return None
    if queue.rules is not None:
        queue.rules.rank(reference, read)
    with queue.lock:
        if unit is None:
            entry = queue.state.make(queue, reference)
        else:
            entry = queue.state.add_in_transaction(queue, reference, unit)
        entry.delivery_count = delivery_count
        if queue.rules is not None:
            queue.rules.accept(entry, read)
            # Counted in the queue's memory window, so that the policy's limit holds from the start.
            queue.pager.page_out(reference)
        # A message that a branch has sent gets its place with the commit, as any uncommitted one.
        if unit is None:
            _place_again(queue, entry, is_held=is_held)
        expires_next = bool(reference.expiration_ms) and queue.times.expiry.add(entry)
    if expires_next:
        queue.schedule(reference.expiration_ms)
    queue.times.ask_for_delayed()
    if unit is not None:
        # Without the queue's lock, as the unit's comes before it.
        unit.add_sent(entry)
    return entry


def uncommitted_messages(
    queue: QueueCore, entries: Iterable[QueueEntry], *, with_transient: bool
) -> Sequence[tuple[MessageReference, Envelope | None]]:
    """Return messages as `Queue.uncommitted_messages`."""
    found: list[tuple[MessageReference, Envelope | None]] = []
    with_transient = with_transient or (queue.journal is not None and queue.journal.keeps_transient)
    with queue.lock:
        for entry in entries:
            if entry.state is MessageState.NOT_COMMITTED and (with_transient or entry.reference.reliable):
                try:
                    found.append((entry.reference, queue.store.retrieve(entry.reference)))
                except NotInMemoryError:
                    found.append((entry.reference, None))
    return found


def restore_run(queue: QueueCore, run: RecoveredRun) -> bool:
    """Restore the messages of a run; return False, having done nothing, if they must be restored one by one."""
    with queue.lock:
        return queue.rules is None and queue.state.restore_run(queue, run)


def dead_letter_exhausted(queue: QueueCore) -> None:
    """Dead-letter messages that were delivered too often before the restart, as one of them may have caused it."""
    with queue.lock:
        # Compact messages were never delivered, so they need not be materialized here.
        for entry in queue.state.materialized():
            if entry.delivery_count and queue.dead_letters.exceeded_redeliveries(entry.delivery_count, failed=False):
                queue.dead_letters.remove_as_exhausted(entry, None)
                if entry.reference.expiration_ms:
                    queue.times.expiry.forget_one()
    queue.dead_letters.flush()


def reinstate(queue: QueueCore, entry: QueueEntry) -> None:
    """Restore a message that was settled, and whose removal could not be written; it is redelivered, flagged, when it is due.

    If it has expired, the timer tries again later; if it can no longer be read, it has been quarantined.
    """
    reference = entry.reference
    # Before the lock, as reading may wait for the disk.
    read = _reader_for(queue, reference)
    rules = queue.rules
    if read is not None and rules is not None:
        rules.rank(reference, read)
    with queue.lock:
        # Under the lock: the queue may have been closed while the message was read.
        if read is None or queue.is_closed:
            queue.store.release(reference)
            return
        if queue.rules is not None:
            queue.rules.accept(entry, read)
            queue.pager.page_out(reference)
        queue.state.reinstate(entry)
        if queue.journal is not None:
            # As for any message that is released: its count survives a crash, so that it is flagged.
            queue.journal.defer_counts([(entry.reference, entry.delivery_count)])
        now_ms = queue.clock.time_ms()
        is_late = queue.dead_letters.leaves_expired and is_expired(reference, now_ms)
        if is_late:
            queue.times.follow_clock()
            queue.state.delays.add(entry, now_ms + _RETRY_MS)
            # Listed as expired, so that the timer's next call moves it.
            queue.times.expiry.put_back([entry])
        expires_next = not is_late and reference.expiration_ms > 0 and queue.times.expiry.add(entry)
        woken = () if is_late else _place_again(queue, entry)
        has_receivers = queue.has_receivers
    queue.times.ask_for_delayed()
    if expires_next:
        queue.schedule(reference.expiration_ms)
    if has_receivers:
        queue.push_or_choose(entry)
    for consumer in woken:
        consumer.notify_work()


def _place_again(queue: QueueCore, entry: QueueEntry, *, is_held: bool = False) -> Sequence[Consumer]:
    """Make a restored message available, now or later; return the consumers to wake. The lock is held."""
    count = entry.delivery_count
    delay_ms = redelivery_delay_ms(queue.policy, count, queue.back_off_ms) if count else 0
    if is_held or delay_ms:
        queue.state.place(entry)  # to assign the place to which it will return
        queue.ordering.discard(entry)
    if is_held:
        return ()
    if not delay_ms:
        return queue.place(entry)
    queue.times.follow_clock()
    queue.state.delays.add(entry, max(entry.reference.deliver_at_ms, queue.clock.time_ms() + delay_ms))
    if queue.rules is not None:
        queue.rules.delayed([entry], queue.ordering)
    return queue.displace(entry)  # now, as a newer one may come and be consumed before it is due


def _reader_for(queue: QueueCore, reference: MessageReference) -> Callable[[MessageReference], Envelope] | None:
    """Return the function with which the rules read a message, without waiting; None: it cannot be read.

    Waits for a disk if the rules read messages. Raises `ResourceError`.
    """
    rules = queue.rules
    is_measured = bool(queue.policy.max_bytes) and not reference.size
    if rules is None or not (rules.reads_messages or is_measured):
        return queue.store.retrieve
    envelope = queue.store.fetch(reference)
    # The envelope is in the closure: under the lock it may have left memory again.
    return None if envelope is None else lambda _: envelope
