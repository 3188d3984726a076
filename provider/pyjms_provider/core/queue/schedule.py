"""The timed work of one queue: removing expired messages, and making due messages available."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.scheduled_messages import ExpiryIndex

if TYPE_CHECKING:
    from pyjms_provider.core.message.entry import QueueEntry, Transaction
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.contracts import QueueCore

AT_ONCE: Final = 256
"""How many messages become available, or expire, before the lock is released: about a millisecond."""


class Schedule:
    """The messages of one queue that expire, or are delayed."""

    __slots__ = ("_queue", "expiry")

    def __init__(self, queue: QueueCore) -> None:
        self._queue = queue
        self.expiry = ExpiryIndex()

    def run_due(self, now_ms: int) -> int | None:
        """Remove expired messages, make due messages available; return when to call again, None: when asked."""
        queue = self._queue
        expiry_ms = self._purge_expired(now_ms)
        # Before due messages are taken: the wall clock may have been set since the last call.
        if queue.state.delays:
            with queue.lock:
                self.follow_clock()
        queue.dead_letters.flush()
        # In parts of `AT_ONCE`, so that a client waits for the lock a millisecond, and not until all are placed.
        while self._place_some_due(now_ms):
            pass
        queue.wake_freed()  # expired messages may have been outstanding, or delayed
        with queue.lock:
            delays_ms = queue.state.delays.next_ms
        return min((at_ms for at_ms in (expiry_ms, delays_ms) if at_ms is not None), default=None)

    def ask_for_delayed(self) -> None:
        """Schedule a call of `run_due` for the next delayed message."""
        queue = self._queue
        # Checked without the lock, for the many queues without delayed messages.
        if queue.state.delays:
            with queue.lock:
                next_ms = queue.state.delays.next_ms
            queue.schedule(next_ms)

    def follow_clock(self) -> None:
        """Adjust delayed redeliveries to a changed wall clock, so that they keep their durations. The lock is held."""
        clock = self._queue.clock
        # Delays are durations, measured by the monotonic clock, in an index by wall-clock time (decision 0123).
        self._queue.state.delays.follow(clock.time_ms() - clock.monotonic_ms())

    def _purge_expired(self, now_ms: int) -> int | None:
        """Remove messages that have expired at `now_ms`; return when the next one expires, None: none does.

        Messages that a prepared branch has sent or received stay until its coordinator has decided, however late; and
        messages that are being committed, until that is written.
        """
        with self._queue.lock:
            # Messages that had to stay at the last call may be removed now: released by their holder, or decided by their branch.
            self.expiry.rewind()
        while self._purge_some(now_ms):
            pass
        with self._queue.lock:
            return self.expiry.due_ms

    def _purge_some(self, now_ms: int) -> bool:
        """Remove a bounded number of them, to hold the lock for a moment only; return whether there may be more."""
        queue = self._queue
        expiring_units: list[Transaction] = []
        deferred: list[QueueEntry] = []
        with queue.lock:
            expired = self.expiry.take_expired(now_ms, AT_ONCE)
            for entry in expired:
                unit = entry.transaction
                if (unit is not None and (unit.is_prepared or unit.is_committing)) or (
                    queue.dead_letters.stays_while_held(entry)
                ):
                    # Left alone while something else decides about it: the write of its unit,
                    # a coordinator, or the client that holds it.
                    deferred.append(entry)
                    continue
                if entry.state is MessageState.NOT_COMMITTED and unit is not None and unit.expired_rolls_back:
                    expiring_units.append(unit)
                queue.expire(entry)
            self.expiry.put_back(deferred)
        # Without the queue's lock: the unit's lock comes first, and its rollback takes those of all its queues.
        for unit in expiring_units:
            unit.expire()  # §5.1.3: the expiry of one message rolls its transaction back
        return len(expired) == AT_ONCE

    def _place_some_due(self, now_ms: int) -> bool:
        """Make a bounded number of due messages available, to hold the lock for a moment only; return whether there may be more."""
        queue = self._queue
        woken: list[Consumer] = []
        with queue.lock:
            due = queue.state.delays.take_due(now_ms, AT_ONCE)
            # All are placed before any is announced: a message that is superseded by a later one of these is not announced.
            queue.state.place_all(due)
            if queue.rules is not None:
                for entry in due:
                    woken += queue.rules.due(entry, queue.consumers)
            for entry in due:
                if entry.state is MessageState.NEW:  # not if another one of them supersedes it
                    woken += queue.announce(entry)
            pushable = due if queue.has_receivers else []
        queue.dead_letters.flush()
        for entry in pushable:
            queue.push_or_choose(entry)
        for consumer in woken:
            consumer.notify_work()
        return len(due) == AT_ONCE
