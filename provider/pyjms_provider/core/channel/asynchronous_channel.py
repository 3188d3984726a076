"""The channel that stores what it cannot deliver at once (JBoss Messaging Core §2, §7): its state, and expiry.

`PushingChannel` adds receivers, `Queue` how messages come in and the consumers that pull. Locking: decisions are taken under the channel's one lock;
receivers are called, consumers woken and units of work rolled back after it is released. Lock order: `docs/design/threads.md`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Clock
from pyjms.spi.envelope import Envelope
from pyjms_provider.core.channel.channel import Channel, Filter
from pyjms_provider.core.channel.channel_state import ChannelState
from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.queue.entry import QueueEntry
from pyjms_provider.core.queue.expiry import ExpiryIndex, is_expired
from pyjms_provider.core.store.store import MessageStore

if TYPE_CHECKING:
    from pyjms_provider.core.host.expiry_watch import ExpiryWatch
    from pyjms_provider.core.journal.queue_journal import KeptQueue
    from pyjms_provider.core.queue.consumer import ConsumerSession
    from pyjms_provider.core.queue.queue_rules import QueueRules
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

__all__ = ["AT_ONCE", "AsynchronousChannel"]

AT_ONCE: Final = 256
"""So many messages become available, or expire, before the lock is let go of: about a millisecond."""


class AsynchronousChannel(Channel):
    """A channel with a state of its own."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        state: ChannelState,
        clock: Clock,
        *,
        on_due: Callable[[AsynchronousChannel, int], None] | None,
        kept: KeptQueue | None,
    ) -> None:
        """Make an empty channel. `kept`: how it is kept in a journal; None: not at all.

        `on_due(channel, at_ms)` asks for a call of `do_what_is_due` at that wall-clock time; it is called without a
        lock. None: expired messages are found only when their turn comes.
        """
        super().__init__(name, store)
        self._state = state
        self._ordering = state.ordering
        self._clock = clock
        self._on_due = on_due
        self._refuses_reliable = state.refuses_reliable
        self._lock = Lock()
        self._expiry = ExpiryIndex()
        self._closed = False
        self._rules: QueueRules | None = None
        self.kept = kept
        self.was_kept: KeptQueue | None = None
        """How it was kept, once it has ended: messages that were being written then are to be forgotten."""
        self.watch: ExpiryWatch | None = None
        """Who is told of what expires here; set before the channel is used."""

    # What it is

    @property
    def is_synchronous(self) -> bool:
        return False

    @property
    def is_reliable(self) -> bool:
        return self._state.is_reliable

    @property
    def is_transactional(self) -> bool:
        return self._state.is_transactional

    @property
    def is_storing_undeliverable(self) -> bool:
        return True

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def accept(self, reference: MessageReference) -> bool:
        """Return whether the message would be taken: the channel is open and need not refuse it (§2.1)."""
        return not self._closed and not (reference.reliable and self._refuses_reliable)

    # Looking

    def browse(self, message_filter: Filter | None = None) -> list[Envelope]:
        now_ms = self._clock.time_ms()
        with self._lock:
            waiting = [entry.reference for entry in self._ordering if not is_expired(entry.reference, now_ms)]
        found: list[Envelope] = []
        for reference in waiting:
            self._read([reference])
            with suppress(KeyError):  # it was taken meanwhile
                if message_filter is not None and not message_filter.accept(reference):
                    continue
            envelope = self._store.fetch(reference)
            if envelope is not None:
                found.append(envelope)
        return found

    def _read(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        """Bring messages into memory; return those that cannot be read. Waits for a disk. Raises `ResourceError`."""
        return self._store.load(references)

    def has_messages(self, state: MessageState) -> bool:
        return self.count(state) > 0

    def count(self, state: MessageState) -> int:
        """Return how many messages are in `state`."""
        with self._lock:
            return self._state.count(state)

    def get_messages(self, state: MessageState) -> list[MessageReference]:
        with self._lock:
            return [entry.reference for entry in self._state.entries(state)]

    # Units of work

    def drop_acknowledgement(self, entry: QueueEntry, unit: UnitOfWork) -> None:
        """Forget an acknowledgement, of a pushed or pulled message, whose unit of work rolls back (§6.2.1)."""
        with self._lock:
            if entry.transaction is unit and entry.state is MessageState.DELIVERED:
                self._state.drop_acknowledgement(entry)

    def hold(self, entry: QueueEntry, unit: UnitOfWork, holder: ConsumerSession) -> None:
        """Let `holder` have received, in `unit`, a message that was restored; before the channel is used."""
        with self._lock:
            entry.delivery_count -= 1  # it was counted when the branch was prepared
            count = self._state.deliver(entry, holder)
            self._state.record_acknowledgement(entry, unit)
        unit.add_settled([(entry, count)])

    # Ending

    @abstractmethod
    def do_what_is_due(self, now_ms: int) -> int | None:
        """Do as `HasTimes` says."""

    def _purge_expired(self, now_ms: int) -> int | None:
        """Remove what has expired at `now_ms`; return when something expires next, None: nothing does.

        What a prepared branch has sent or received stays until its coordinator has decided, however late it is; and what
        is being committed, until that is written.
        """
        with self._lock:
            self._expiry.look_again()
        while self._purge_some(now_ms):
            pass
        with self._lock:
            return self._expiry.due_ms

    def _purge_some(self, now_ms: int) -> bool:
        """Remove so many of them as keep the lock for a moment only; return whether there may be more."""
        doomed: list[UnitOfWork] = []
        staying: list[QueueEntry] = []
        with self._lock:
            expired = self._expiry.take_expired(now_ms, AT_ONCE)
            for entry in expired:
                unit = entry.transaction
                if self._stays_while_held(entry) or (unit is not None and (unit.is_prepared or unit.is_committing)):
                    staying.append(entry)
                    continue
                if entry.state is MessageState.NOT_COMMITTED and unit is not None and unit.expired_rolls_back:
                    doomed.append(unit)
                self._expire(entry)
            self._expiry.put_back(staying)
        for unit in doomed:
            unit.expire()  # §5.1.3: the expiry of one message rolls its transaction back
        return len(expired) == AT_ONCE

    def let_go_of_expired(self, entry: QueueEntry) -> None:
        """Let go of a message that was taken out as it had expired, and then told of."""
        with self._lock:
            self._release(entry)

    @property
    def last_place(self) -> int:
        """The last place in the order that a message has been given."""
        return self._ordering.last_place

    def note_refused(self, reference: MessageReference) -> None:
        """Have the journal forget a message that was written for this channel, which has not taken it. Does not wait."""
        kept = self.kept or self.was_kept
        if kept is not None:
            kept.note_removed(reference)

    def close(self) -> None:
        """Let go of all messages, save those that a client has pulled: they go when they are settled or given back."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for entry in self._state.clear_available():
                self._forget(entry)
            for state in (MessageState.NEW, MessageState.NOT_COMMITTED, MessageState.DELIVERED):
                for entry in self._state.entries(state):
                    if entry.holder is None:
                        self._remove(entry, MessageEvent.REMOVE, Happening.CLOSED)

    @property
    def _is_watched(self) -> bool:
        return self.watch is not None and self.watch.is_on

    # With the lock held

    @abstractmethod
    def _stays_while_held(self, entry: QueueEntry) -> bool:
        """Return whether a message must not be taken from the client that has it, although it has expired."""

    def _expire(self, entry: QueueEntry) -> None:
        """Take out a message that has expired, and is no longer in the index of those that will."""
        self._state.remove(entry, MessageEvent.EXPIRE)
        self._let_go(entry)

    def _remove_if_expired(self, entry: QueueEntry) -> bool:
        if not entry.reference.expiration_ms or not is_expired(entry.reference, self._clock.time_ms()):
            return False
        if entry.state is not MessageState.ABSENT:
            self._remove(entry, MessageEvent.EXPIRE)
        return True

    def _remove(self, entry: QueueEntry, event: MessageEvent, cause: Happening | None = None) -> None:
        self._state.remove(entry, event, cause)
        self._forget(entry)

    def _forget(self, entry: QueueEntry) -> None:
        """Let go of the message of an entry that has just become ABSENT."""
        if entry.reference.expiration_ms:
            self._expiry.forget_one()
        self._let_go(entry)

    def _let_go(self, entry: QueueEntry) -> None:
        if self._rules is not None:
            self._rules.gone(entry)
        self._release(entry)

    def _release(self, entry: QueueEntry) -> None:
        """Have the journal and the store let go of a message that has left."""
        if self.kept is not None:
            self.kept.note_removed(entry.reference)
        elif self.was_kept is not None:
            self.was_kept.note_late(entry)
        self._store.release(entry.reference)
