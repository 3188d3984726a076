"""The part of a queue that sets messages aside: those that have expired, or were delivered too often.

Under the lock such a message leaves the queue; once that is released, `on_dead` is told, which puts it elsewhere and may wait for I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.queue.dead_letters import DeadEntry, DeadKind
from pyjms_provider.core.queue.paged_queue import PagedQueue

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.core.channel.asynchronous_channel import AsynchronousChannel
    from pyjms_provider.core.channel.channel_state import ChannelState
    from pyjms_provider.core.journal.queue_journal import KeptQueue
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.policy import QueuePolicy
    from pyjms_provider.core.store.store import MessageStore

__all__ = ["BuryingQueue"]


class BuryingQueue(PagedQueue):
    """The part of a queue whose messages die."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        state: ChannelState,
        clock: Clock,
        *,
        on_due: Callable[[AsynchronousChannel, int], None] | None,
        kept: KeptQueue | None,
        policy: QueuePolicy,
        on_dead: Callable[[deque[DeadEntry]], None] | None,
    ) -> None:
        """Make an empty queue.

        `on_dead` sets messages aside that have left the queue for good, and takes each out of what it is given when it answers for it;
        it is called without a lock, and may wait for I/O. None: expired messages are dropped, and others come back however often.
        """
        super().__init__(name, store, state, clock, on_due=on_due, kept=kept)
        self.policy = policy
        """Replaced by `alter`; may be read at any time."""
        self._on_dead = on_dead
        self._dead: deque[DeadEntry] = deque()

    @property
    def _sets_expired_aside(self) -> bool:
        return self._on_dead is not None and self.policy.expiry_queue not in {None, self._own_name}

    @property
    def _leaves_expired(self) -> bool:
        """Whether the housekeeper alone takes out what has expired and may be had, as it takes its time."""
        return self._sets_expired_aside or self._is_watched

    @property
    def _own_name(self) -> str:
        return self._name.partition("://")[2]

    def is_spent(self, delivery_count: int, *, failed: bool) -> bool:
        """Return whether a message that was delivered so often, and `failed` the last time, is not to come again.

        A dead letter always is: its queue is the last one that it comes to.
        """
        policy = self.policy
        too_often = 0 < policy.max_deliveries <= delivery_count or (
            failed and 0 < policy.max_failures <= delivery_count
        )
        return too_often and self._on_dead is not None and not self._is_last

    @property
    def _is_last(self) -> bool:
        return self.policy.dead_letter == self._own_name

    @property
    def subscription_name(self) -> str | None:
        """What names the channel between a topic and one subscriber; None: this is a queue."""
        return None

    def _die(
        self, entry: QueueEntry, kind: DeadKind, event: MessageEvent, reason: str | None, *, is_kept: bool = True
    ) -> None:
        """Take a message out that `_bury` sets aside, once the lock, which is held, is released."""
        now_ms = self._clock.time_ms()
        dead = DeadEntry.leaving(entry, kind, reason, self.subscription_name, now_ms, is_kept=is_kept)
        self._state.remove(entry, event)
        if self._rules is not None:
            self._rules.gone(entry)
        self._dead.append(dead)

    def _die_spent(self, entry: QueueEntry, reason: str | None) -> None:
        """Do the same with a message that was delivered too often; `reason` as in `DeadEntry.leaving`. The lock is held."""
        self._die(entry, DeadKind.DELIVERIES, MessageEvent.REMOVE, reason)
        if entry.reference.expiration_ms:
            self._expiry.forget_one()

    def _stays_while_held(self, entry: QueueEntry) -> bool:
        # It may be consumed yet; else it is set aside when it is given back.
        return self._sets_expired_aside and entry.holder is not None

    def _expire(self, entry: QueueEntry) -> None:
        unit = entry.transaction if entry.state is MessageState.NOT_COMMITTED else None
        is_kept = self._sets_expired_aside and entry.state is not MessageState.NOT_COMMITTED
        is_told = self._is_watched and not (unit is not None and unit.expired_rolls_back)  # then it never was there
        if is_kept or is_told:
            self._die(entry, DeadKind.EXPIRED, MessageEvent.EXPIRE, None, is_kept=is_kept)
        else:
            super()._expire(entry)

    def _expire_early(self, entry: QueueEntry) -> None:
        """Do the same with a message that is still in the index of those that will expire. The lock is held."""
        self._expiry.forget_one()
        self._expire(entry)

    def _bury(self) -> None:
        """Have the messages set aside that have died."""
        with self._lock:
            dead, self._dead = self._dead, deque()
        if not dead or self._on_dead is None:
            return
        try:
            self._on_dead(dead)
        except Exception:  # nobody answers for those that are left: they are tried again
            if dead:
                with self._lock:
                    self._dead.extendleft(reversed(dead))
                if self._on_due is not None:
                    self._on_due(self, self._clock.time_ms())
            raise
