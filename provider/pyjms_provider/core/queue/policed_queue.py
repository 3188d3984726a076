"""The part of a queue that its policy is about: limits, delays, and what an administrator may do.

It is what the other parts stand on: `Queue` tells how messages come and are pulled, `SettlingQueue` how they are settled or
given back, `RestorableQueue` what a journal has to do with them. All share one lock. Methods say when they need it held; all
others take it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import DestinationInUseError, ResourceError
from pyjms.spi.words import counted
from pyjms_provider.core.channel.asynchronous_channel import AT_ONCE
from pyjms_provider.core.channel.channel import ChannelClosedError
from pyjms_provider.core.message.message_state import MessageEvent, MessageState
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.queue.burying_queue import BuryingQueue
from pyjms_provider.core.queue.consumer_manager import ConsumerManager
from pyjms_provider.core.queue.cursor import UNFINISHED
from pyjms_provider.core.queue.entry import QueueEntry
from pyjms_provider.core.queue.limits import RoomRequest
from pyjms_provider.core.queue.memory_window import check_disk
from pyjms_provider.core.queue.ordering import Ordering
from pyjms_provider.core.queue.policy import Overflow, QueuePolicy, QueueType
from pyjms_provider.core.queue.queue_rules import QueueRules, needs_rules
from pyjms_provider.core.queue.queue_types import make_order

if TYPE_CHECKING:
    from collections import deque

    from pyjms.spi.clock import Clock, Signal
    from pyjms_provider.core.channel.asynchronous_channel import AsynchronousChannel
    from pyjms_provider.core.channel.channel_state import ChannelState
    from pyjms_provider.core.journal.queue_journal import KeptQueue
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.cursor import Cursor
    from pyjms_provider.core.queue.dead_letters import DeadEntry
    from pyjms_provider.core.store.store import MessageStore

__all__ = ["WITHOUT_LIMITS", "PolicedQueue", "QueueFullError"]

WITHOUT_LIMITS: Final = QueuePolicy(max_deliveries=0, max_failures=0)
"""The policy of a queue that stands by itself, without a host that keeps dead letters."""

_FIXED: Final = ("type", "key", "priorities", "exclusive", "groups", "non_destructive")
_AT_A_TIME: Final = 64  # messages that an administrator looks at while the lock is held
_PASSED_AT_A_TIME: Final = 4096  # that have come since he began, in a queue that is sorted: more than come meanwhile
_STATES: Final = (MessageState.NEW, MessageState.NOT_COMMITTED, MessageState.DELIVERED)


class QueueFullError(ResourceError):
    """The queue holds as much as its policy allows."""

    code = "PYJMS-QUEUE-FULL"


class PolicedQueue(BuryingQueue):
    """What a queue is without consumers and a journal."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        state: ChannelState,
        clock: Clock,
        *,
        on_due: Callable[[AsynchronousChannel, int], None] | None = None,
        kept: KeptQueue | None = None,
        policy: QueuePolicy = WITHOUT_LIMITS,
        on_dead: Callable[[deque[DeadEntry]], None] | None = None,
    ) -> None:
        """Make an empty queue; `on_dead` as in `BuryingQueue`. Raises `PolicyError` for a policy that asks for a disk where there is none."""
        super().__init__(name, store, state, clock, on_due=on_due, kept=kept, policy=policy, on_dead=on_dead)
        self._all_in_memory = store.keeps_all_in_memory
        check_disk(policy, has_disk=not self._all_in_memory)
        self._manager = ConsumerManager()
        self.back_off_ms = 0
        """How long a message stays away before its third delivery, where the policy has no delay; set by the host."""
        self.asks_doorkeeper = False
        """Whether the policy says something of each message that comes."""
        self._obey(policy, QueueType.STANDARD)

    def _obey(self, policy: QueuePolicy, made_for: QueueType | None) -> None:
        """Make rules and order for `policy`, unless the order was made for its type. There are no messages or consumers."""
        rules = QueueRules(policy) if needs_rules(policy) else None
        order = self._ordering if policy.type is made_for else make_order(policy, rules)
        self._rules, self._ordering, self._state.ordering, self.policy = rules, order, order, policy
        self._note_policy()

    def _note_policy(self) -> None:
        """Work out what is asked on the way of each message."""
        self._manager.set_always_weighs(self._rules is not None and self._rules.weighs)
        if isinstance(self._ordering, Ordering):
            self._ordering.may_sleep = self._rules is None
        may_refuse = self.policy.is_limited and self.policy.overflow in {Overflow.REJECT, Overflow.BLOCK}
        self.asks_doorkeeper = self.policy.changes_messages or may_refuse

    def alter(self, policy: QueuePolicy, *, only_check: bool = False) -> None:
        """Obey another policy from now on; with `only_check` merely raise what that would raise now.

        Raises `DestinationInUseError` for another type, or another way to serve consumers, while the queue has messages
        or consumers; `PolicyError` as the constructor. May wait for a disk.
        """
        check_disk(policy, has_disk=not self._all_in_memory)
        woken: Sequence[Consumer] = ()
        signals: Sequence[Signal] = ()
        with self._lock:
            changes_kind = self._changes_kind(policy)
            if only_check:
                return
            if self._rules is not None and self._rules.room is not None:
                signals = self._rules.room.all_signals()
            if changes_kind:
                self._obey(policy, None)
            else:
                resumes = self.policy.paused and not policy.paused
                self._change_rules(policy)
                self._drop_surplus()
                woken = self._successors()
                if resumes and policy.non_destructive:  # who only looks succeeds nobody, and waited with the others
                    woken = [*woken, *self._manager.non_acquiring()]
        for signal in signals:
            signal.set()
        for consumer in woken:
            consumer.notify_work()
        with suppress(ResourceError):  # the policy has changed; who sends next is told that there is no room
            self._store.relieve()

    def _changes_kind(self, policy: QueuePolicy) -> bool:
        """Return whether `policy` makes another queue of this one. Raises `DestinationInUseError` if it is used. The lock is held."""
        messages = sum(map(self._state.count, _STATES))
        changed = [name for name in _FIXED if getattr(policy, name) != getattr(self.policy, name)]
        if changed and (messages or len(self._manager)):
            raise DestinationInUseError(
                f"{self._name} has {counted(messages, 'message')} and {counted(len(self._manager), 'consumer')}, so its {changed[0]} "
                f"cannot be altered; empty it and close its consumers first, or create another queue"
            )
        return bool(changed)

    def _change_rules(self, policy: QueuePolicy) -> None:
        """Change what may be changed while messages and consumers are there. The lock is held."""
        if self._rules is None and needs_rules(policy):
            self._rules = QueueRules(policy)
        if self._rules is not None:
            # Limits alone ask for each message. All others stay dormant: a million that wake take as long as to load them.
            states = _STATES if policy.is_limited else ()
            held = [entry.reference for state in states for entry in self._state.entries(state)]
            self._rules.change(policy, held, self._store.retrieve)
            for reference in held:
                self._shelve(reference)
            if not needs_rules(policy):
                self._rules = None
        self.policy = policy
        self._note_policy()

    # Room

    def claim_room(self, waiting: RoomRequest, *, or_wait: bool = False) -> bool:
        """Hold room for a sender's message, until `unclaim_room`; return False when there is none now.

        With `or_wait` the sender's signal is then raised when its turn has come and there is room, or the queue or its
        policy changes; where it waits already, it keeps its place. Raises `ChannelClosedError`.
        """
        with self._lock:
            if self._closed:
                raise ChannelClosedError(f"{self._name} no longer exists")
            room = None if self._rules is None else self._rules.room
            if room is None or self.policy.overflow in {Overflow.RING, Overflow.FLOW_TO_DISK}:
                return True
            is_claimed = room.claim(waiting)
            if or_wait and not is_claimed:  # in one step, as the room may be another one in the next
                room.wait(waiting)
            return is_claimed

    def unclaim_room(self, waiting: RoomRequest) -> None:
        """End a claim, as the message has come in, or does not come."""
        with self._lock:
            if self._rules is not None and self._rules.room is not None:
                self._rules.room.unclaim(waiting)
                self._rules.wake_sender()

    def stop_waiting(self, waiting: RoomRequest) -> None:
        """Let go of a sender that waits no longer. May be repeated."""
        with self._lock:
            if self._rules is not None and self._rules.room is not None:
                self._rules.room.stop_waiting(waiting)
                self._rules.wake_sender()

    # Messages become available

    def _place(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Make a NEW message available, now or when it is due; return whom to wake. The lock is held."""
        due_ms = entry.reference.deliver_at_ms
        if due_ms > self._clock.time_ms():
            self._state.delays.add(entry, due_ms)
            self._drop_surplus()
            return self._wake_freed()
        self._state.place(entry)
        return self._announce(entry)

    def _announce(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Drop what a message that has become available displaces; return whom to wake for it. The lock is held."""
        if self._rules is None:
            return () if self._receivers else self._choose(entry)
        self._supersede(entry)
        self._drop_surplus()
        freed = self._wake_freed()
        if entry.state is MessageState.ABSENT or self._receivers:
            return freed
        return [*freed, *self._choose(entry)]

    def _drop_surplus(self) -> None:
        """Drop what is too much for a ring. The lock is held."""
        while (
            self._rules is not None and (surplus := self._rules.surplus(self._ordering, self._state.delays)) is not None
        ):
            self._remove(surplus, MessageEvent.REMOVE, Happening.OVERFLOWED)

    def _supersede(self, entry: QueueEntry) -> None:
        """Drop the older one of a last-value queue's two messages, unless somebody holds it. The lock is held."""
        older = None if self._rules is None else self._rules.arrived(entry)
        if older is not None and older.state is MessageState.NEW:
            self._remove(older, MessageEvent.REMOVE, Happening.SUPERSEDED)

    def _ask_for_delayed(self) -> None:
        """Have the housekeeper come when the next delayed message is due."""
        with self._lock:
            next_ms = self._state.delays.next_ms
        if next_ms is not None and self._on_due is not None:
            self._on_due(self, next_ms)

    def do_what_is_due(self, now_ms: int) -> int | None:
        """Remove what has expired, make available what is due; return when to come again, None: when asked."""
        expiry_ms = self._purge_expired(now_ms)
        if self._state.delays:
            with self._lock:
                self._follow_clock()
        if self._dead:
            self._bury()
        while self._place_some_due(now_ms):
            pass
        self.wake_freed()  # what has expired may have been outstanding, or delayed
        with self._lock:
            delays_ms = self._state.delays.next_ms
        return min((at_ms for at_ms in (expiry_ms, delays_ms) if at_ms is not None), default=None)

    def _follow_clock(self) -> None:
        """Have those that were given back stay away for no less and no more, though the clock was set. The lock is held."""
        clock = self._clock
        self._state.delays.follow(clock.time_ms() - clock.monotonic_ms())

    def _place_some_due(self, now_ms: int) -> bool:
        """Make so many messages available that are due as keep the lock for a moment only; return whether there may be more."""
        with self._lock:
            due = self._state.delays.take_due(now_ms, AT_ONCE)
            self._state.place_all(due)
            woken = [*self._end_delays(due), *self._announce_all(due)]
            pushable = due if self._receivers else []
        if self._dead:
            self._bury()
        for entry in pushable:
            self._push_or_choose(entry)
        for consumer in woken:
            consumer.notify_work()
        return len(due) == AT_ONCE

    def _end_delays(self, due: Iterable[QueueEntry]) -> list[Consumer]:
        """Let those messages be taken that waited for others which are due; return whom to wake for them. The lock is held."""
        rules = self._rules
        return [] if rules is None else [each for entry in due for each in rules.due(entry, self._manager)]

    def _announce_all(self, placed: Iterable[QueueEntry]) -> list[Consumer]:
        """Do as `_announce` for several, of which one may supersede another. The lock is held."""
        woken: list[Consumer] = []
        for entry in placed:
            if entry.state is MessageState.NEW:
                woken.extend(self._announce(entry))
        return woken

    def wake_freed(self) -> None:
        """Wake consumers for messages that only now anybody may take: an ownership has ended, or a delayed message has left. The lock is not held."""
        if self._rules is None or not self._rules.has_freed:
            return
        with self._lock:
            woken = self._wake_freed()
        for consumer in woken:
            consumer.notify_work()

    def _wake_freed(self) -> Sequence[Consumer]:
        """Do the same with the lock held; return whom to wake."""
        rules = self._rules
        return () if rules is None or not rules.has_freed else rules.freed_for(self._manager, self._ordering)

    @abstractmethod
    def _successors(self) -> Sequence[Consumer]:
        """Return whom to wake as there may be messages that nobody was woken for. The lock is held."""

    def _set_aside(self, reference: MessageReference) -> None:
        super()._set_aside(reference)
        self.wake_freed()

    # For administrators

    def waiting_entries(self) -> Iterator[QueueEntry]:
        """Return the messages that nobody holds, in order; then those that are delayed. What comes from now on is left out.

        Of a long backlog those alone wake that are come to, and the lock is held for a few at a time.
        """
        with self._lock:
            delayed = dict.fromkeys(self._state.delays)
            cursor = self._ordering.new_cursor(None)
            cursor.last = self._ordering.last_place
        return self._waiting(cursor, delayed)

    def _waiting(self, cursor: Cursor, delayed: Mapping[QueueEntry, None]) -> Iterator[QueueEntry]:
        """Yield the messages that `cursor` comes to, then the delayed ones, some of which may be due by now."""
        is_more = True
        while is_more:
            found, is_more = self._look_on(cursor)
            yield from (entry for entry in found if entry not in delayed)
        yield from delayed

    def _look_on(self, cursor: Cursor) -> tuple[list[QueueEntry], bool]:
        """Return some of the next messages for `cursor`, and whether there may be more."""
        found: list[QueueEntry] = []
        with self._lock:
            while len(found) < _AT_A_TIME:
                entry = self._ordering.look(cursor, _PASSED_AT_A_TIME)
                if not isinstance(entry, QueueEntry):
                    return found, entry is UNFINISHED
                found.append(entry)
        return found, True

    @property
    def consumer_count(self) -> int:
        """How many consumers are attached."""
        with self._lock:
            return len(self._manager)

    @property
    def delayed_count(self) -> int:
        """How many messages wait for their time."""
        with self._lock:
            return len(self._state.delays)

    @property
    def size(self) -> int:
        """About how many bytes the messages take, as far as anybody needed to know."""
        with self._lock:
            return self._state.size

    def take_out(self, entry: QueueEntry, taken: list[QueueEntry], cause: Happening | None = None) -> bool:
        """Take a message out that nobody holds, for one who puts it elsewhere, or deletes it; return False if it is held, or has gone.

        The store and the journal do not know of it. Then it is in `taken`. `cause`: what becomes of it, if nobody else tells of that.
        """
        with self._lock:
            if entry.state is not MessageState.NEW or entry.acknowledgements is not None:
                return False
            taken.append(entry)
            self._state.remove(entry, MessageEvent.REMOVE, cause)
            self._note_out(entry)
        self.wake_freed()
        return True

    def _note_out(self, entry: QueueEntry) -> None:
        """Note that a message is out which others know nothing of. The lock is held."""
        if entry.reference.expiration_ms:
            self._expiry.forget_one()
        if self._rules is not None:
            self._rules.gone(entry)
