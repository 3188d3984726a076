"""The receiving side of queues: consumers, their targets and sessions, and the choice of consumers to wake (Broker-J, consumer-queue interactions).

A *consumer* is one subscription's end at one queue. Its *target* is the broker's representation of the consuming client, with
one consumer for each queue that it reads. Targets belong to a *session*, which holds the pulled messages until they are
settled. A wake-up is passed queue → consumer → target → session; messages are pulled along the same path in reverse. A waiting consumer
may instead be delivered a message directly while that is sent on its own thread (decision 0610).

A consumer that takes messages is in one of three lists. *NotInterested*: it wants no wake-ups. *Interested*: it wants
one. *Notified*: it was woken, and either pulls until a pull yields nothing, or ends its interest. Consumers
that only look are in *NonAcquiring*. Lists are kept for each consumer priority, the highest first.

The invariant behind it: whenever a message is available that an interested consumer wants and may take, one
such consumer has been woken. "Wants": its selector matches; "may take": no consumer of higher priority wants it.

Threads: `ConsumerManager` has no lock: its queue calls it under the queue's own. `notify_work` is called from any thread without a lock, and only passes the call on. Only the
session's own thread pulls.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from enum import Enum
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.spi.errors import ClosedError
from pyjms.spi.selector.headers import UNKNOWN_KEY
from pyjms_provider.core.message.entry import EntryQueue, ReceiverId
from pyjms_provider.core.state_machine import StateMachine
from pyjms_provider.core.store import NotInMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.queue.cursor import Cursor, ValueIndex


class ConsumerList(Enum):
    """The list of a consumer."""

    REMOVED = "of no queue"
    NON_ACQUIRING = "looks at messages and takes none"
    NOT_INTERESTED = "wants no wake-up"
    INTERESTED = "waits for a wake-up"
    NOTIFIED = "was woken, and no pull has found nothing since"

    # Members are looked up for each wake-up, and Enum's own hash is a Python function.
    __hash__ = object.__hash__


class ConsumerEvent(Enum):
    """An event that moves a consumer."""

    ADD = "a consumer that takes messages comes"
    ADD_NON_ACQUIRING = "a consumer that only looks comes"
    INTEREST_BEGINS = "it wants wake-ups"
    INTEREST_ENDS = "it wants none, for instance because its connection is stopped"
    NOTIFY = "it is woken"
    PULLED_NOTHING = "it pulled, and there was nothing for it"
    REMOVE = "it goes"

    __hash__ = object.__hash__


_LIST = ConsumerList
_EVENT = ConsumerEvent

MOVES: Final = StateMachine(
    "a consumer",
    {
        _LIST.REMOVED: {_EVENT.ADD: _LIST.NOT_INTERESTED, _EVENT.ADD_NON_ACQUIRING: _LIST.NON_ACQUIRING},
        _LIST.NON_ACQUIRING: {
            _EVENT.INTEREST_BEGINS: _LIST.NON_ACQUIRING,
            _EVENT.INTEREST_ENDS: _LIST.NON_ACQUIRING,
            _EVENT.NOTIFY: _LIST.NON_ACQUIRING,
            _EVENT.PULLED_NOTHING: _LIST.NON_ACQUIRING,
            _EVENT.REMOVE: _LIST.REMOVED,
        },
        _LIST.NOT_INTERESTED: {
            _EVENT.INTEREST_BEGINS: _LIST.INTERESTED,
            _EVENT.INTEREST_ENDS: _LIST.NOT_INTERESTED,
            _EVENT.PULLED_NOTHING: _LIST.NOT_INTERESTED,  # a consumer may pull without a wake-up
            _EVENT.REMOVE: _LIST.REMOVED,
        },
        _LIST.INTERESTED: {
            _EVENT.INTEREST_BEGINS: _LIST.INTERESTED,
            _EVENT.INTEREST_ENDS: _LIST.NOT_INTERESTED,
            _EVENT.NOTIFY: _LIST.NOTIFIED,
            _EVENT.PULLED_NOTHING: _LIST.INTERESTED,
            _EVENT.REMOVE: _LIST.REMOVED,
        },
        _LIST.NOTIFIED: {
            _EVENT.INTEREST_BEGINS: _LIST.NOTIFIED,
            _EVENT.INTEREST_ENDS: _LIST.NOT_INTERESTED,
            _EVENT.PULLED_NOTHING: _LIST.INTERESTED,  # at the back
            _EVENT.REMOVE: _LIST.REMOVED,
        },
    },
)
"""All other pairs are forbidden: only a waiting consumer can be woken, and only an attached one moved."""

# Looking up a member of an enumeration costs more than a global name.
_REMOVED = ConsumerList.REMOVED
_INTERESTED = ConsumerList.INTERESTED
_NOTIFIED = ConsumerList.NOTIFIED
_WANTING = (_INTERESTED, _NOTIFIED)
_INTEREST_BEGINS = ConsumerEvent.INTEREST_BEGINS
_INTEREST_ENDS = ConsumerEvent.INTEREST_ENDS
_NOTIFY = ConsumerEvent.NOTIFY


_MANY = 64  # up to so many consumers are checked one by one
_ALIKE = 4  # so many, on average, must share a selector to be skipped together


class _WaitingConsumers:
    """Many interested consumers, grouped by selector."""

    __slots__ = ("alone", "by_cursor", "indexes")

    def __init__(self, consumers: Iterable[Consumer]) -> None:
        self.by_cursor: defaultdict[Cursor | None, OrderedDict[Consumer, None]] = defaultdict(OrderedDict)
        """All consumers, by their cursors."""
        self.alone: dict[Cursor | None, None] = {}
        """Cursors without an index, which must be evaluated."""
        self.indexes: Counter[ValueIndex] = Counter()
        """The indexes that find the others, with the number of cursors that each has here."""
        for consumer in consumers:
            self.add(consumer)

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        # By cursor: consumers with the same selector text share one, and the first of them stands for all.
        cursor = consumer.cursor
        if cursor not in self.by_cursor:
            if cursor is None or cursor.index is None:
                self.alone[cursor] = None
            else:
                self.indexes[cursor.index] += 1
        self.by_cursor[cursor][consumer] = None

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        cursor = consumer.cursor
        del self.by_cursor[cursor][consumer]
        if not self.by_cursor[cursor]:
            del self.by_cursor[cursor]
            if cursor is None or cursor.index is None:
                del self.alone[cursor]
            else:
                self.indexes[cursor.index] -= 1
                if not self.indexes[cursor.index]:
                    del self.indexes[cursor.index]

    def firsts(self, of_index: Callable[[ValueIndex], Iterable[Cursor] | None]) -> Iterator[Consumer]:
        """Yield the first consumers of all cursors, save those of indexes for which `of_index` does not name them; None: it names all."""
        for cursor in self.alone:
            yield next(iter(self.by_cursor[cursor]))
        for index in self.indexes:
            named = of_index(index)
            # The index cannot tell which may match, so the first consumer of each of its cursors is asked.
            if named is None:
                named = [each for each in self.by_cursor if each is not None and each.index is index]
            for each in named:
                if each in self.by_cursor:
                    yield next(iter(self.by_cursor[each]))


class _ConsumerSelector:
    """The choice of consumers to wake for one message, with each selector evaluated once however many consumers share it."""

    __slots__ = ("_entry", "_keys", "_mismatch", "guessed", "known")

    def __init__(self, entry: QueueEntry, mismatch: Callable[[Cursor, QueueEntry], None]) -> None:
        self._entry = entry
        self._mismatch = mismatch
        self._keys: dict[ValueIndex, int] = {}
        self.known: dict[Cursor, bool] = {}
        self.guessed = False
        """Whether a wake-up may be needless, as the message is not in memory."""

    def wants(self, consumer: Consumer) -> bool:
        """Return whether a consumer's selector matches the message."""
        cursor = consumer.cursor
        if cursor is None:
            return True
        if cursor in self.known:
            return self.known[cursor]
        # Of cursors with an index only those of the message's own value can match: others are not evaluated.
        if cursor.index is not None and self._key_for(cursor.index) not in {cursor.key, UNKNOWN_KEY}:
            return False
        try:
            is_wanted = cursor.matches is None or cursor.matches(self._entry)
        except NotInMemoryError:
            is_wanted = self.guessed = True  # perhaps needlessly: the woken consumer loads the message and evaluates it
        self.known[cursor] = is_wanted
        # Recorded in the cursor, so that the next poll does not evaluate the message again.
        if not is_wanted:
            self._mismatch(cursor, self._entry)
        return is_wanted

    def cursors_of(self, index: ValueIndex) -> Iterable[Cursor] | None:
        """Return the cursors of an index that may match; None: any of them."""
        key = self._key_for(index)
        return None if key == UNKNOWN_KEY else index.cursors_of(key)

    def _key_for(self, index: ValueIndex) -> int:
        key = self._keys.get(index)
        if key is None:
            # Read once for the message, however many cursors the index has.
            try:
                key = index.key_of(self._entry)
            except NotInMemoryError:
                key = UNKNOWN_KEY
            self._keys[index] = key
        return key


class PriorityGroup:
    """The lists of one consumer priority."""

    __slots__ = ("fruitless", "lists", "priority", "turns", "waiting", "wanting")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        # Ordered dictionaries are linked lists with a look-up: front, back and removal cost O(1).
        self.lists: dict[ConsumerList, OrderedDict[Consumer, None]] = {
            place: OrderedDict() for place in ConsumerList if place is not ConsumerList.REMOVED
        }
        self.waiting: _WaitingConsumers | None = None
        """The consumers in Interested, where many are skipped together; None: that was not useful yet."""
        self.turns = 0
        """How often a consumer was put at the back of Interested."""
        self.fruitless: set[Cursor | None] = set()
        """The selectors (None: none) whose woken consumers have checked all messages and found nothing to take, since these marks were last cleared."""
        self.wanting: dict[Cursor | None, int] | None = None
        """The number of consumers in Interested and Notified by selector; None: not counted yet."""

    @property
    def is_empty(self) -> bool:
        """Whether no consumer has this priority."""
        return not any(self.lists.values())

    def first(self, choice: _ConsumerSelector) -> Consumer | None:
        """Return the first consumer in Interested that wants a message.

        Where many have the same selector, or an index tells which may want it, the others are skipped together.
        """
        interested = self.lists[_INTERESTED]
        waiting = self.waiting
        wants = choice.wants
        if waiting is not None:
            # Few are left: walking over them is cheaper than maintaining a second table.
            if len(interested) <= _MANY:
                self.waiting = waiting = None
            # Only while selectors repeat: where each consumer has its own and no index, all must be evaluated in any case.
            elif len(interested) >= len(waiting.alone) * _ALIKE:
                first = next(iter(interested))
                if wants(first):
                    return first  # mostly: no need to evaluate all the others
                wanting = [each for each in waiting.firsts(choice.cursors_of) if wants(each)]
                # The table has no order between cursors, so the turn decides which has waited longest.
                return min(wanting, key=_by_turn, default=None)
        found: Consumer | None = None
        steps = 0
        for consumer in interested:
            if consumer.cursor is None or wants(consumer):
                found = consumer
                break
            steps += 1
        # Made only after a long walk on which few selectors were evaluated: most queues never need it.
        if waiting is None and steps > _MANY and steps >= len(choice.known) * _ALIKE:
            self.waiting = _WaitingConsumers(interested)
        return found

    def next_consumers(self) -> Iterable[Consumer]:
        """Return, in turn, the consumers in Interested that may have to be woken in place of another one: at least the first of each selector.

        No consumer may be moved during the iteration: mostly only the first of many is needed.
        """
        interested = self.lists[_INTERESTED]
        if len(interested) <= _MANY:
            return interested
        if self.waiting is None:
            if next(iter(interested)).cursor is None:
                return interested
            waiting = _WaitingConsumers(interested)
            if len(waiting.by_cursor) * _ALIKE > len(interested):
                return interested  # most differ, so the table would not help
            self.waiting = waiting
        return sorted(self.waiting.firsts(lambda index: None if index.lags else tuple(index.ready)), key=_by_turn)

    def selectors(self) -> Iterable[Cursor | None]:
        """Return the selectors (None: no selector) of those in Interested and Notified."""
        if self.wanting is None:
            self.wanting = dict(Counter(each.cursor for place in _WANTING for each in self.lists[place]))
        return self.wanting

    def count_wanting(self, cursor: Cursor | None, change: int) -> None:
        """Count one consumer more, or one less, in Interested and Notified for a selector."""
        if self.wanting is not None and change:
            self.wanting[cursor] = self.wanting.get(cursor, 0) + change
            if not self.wanting[cursor]:
                del self.wanting[cursor]


_by_turn = attrgetter("turn")


class ConsumerManager:
    """The consumers of one queue and the choice among them."""

    __slots__ = (
        "_always_searches",
        "_gave_up",
        "_groups",
        "has_priorities",
        "interested_count",
        "needs_search",
        "non_acquiring_count",
    )

    def __init__(self) -> None:
        self._groups: list[PriorityGroup] = []  # of descending priority
        self.interested_count = 0
        """How many are in Interested: without them no consumer need be chosen."""
        self.non_acquiring_count = 0
        self.has_priorities = False
        """Whether the consumers differ in priority, so that a pull must look at `higher_priority`."""
        self._always_searches = False
        self.needs_search = False
        """Whether a pull must check which messages the consumer may take: for priorities, or for the queue's rules."""
        self._gave_up: list[tuple[PriorityGroup, Cursor | None]] = []
        """Consumers that gave up, by priority and selector, and wait for others to look."""

    def __iter__(self) -> Iterator[Consumer]:
        for group in self._groups:
            for consumers in group.lists.values():
                yield from consumers

    def __len__(self) -> int:
        if not self._groups:
            return 0
        return sum(len(consumers) for group in self._groups for consumers in group.lists.values())

    def members(self, place: ConsumerList) -> list[Consumer]:
        """Return the consumers of one list, in the order in which they would be woken."""
        return [consumer for group in self._groups for consumer in group.lists[place]]

    # Moves

    def add(self, consumer: Consumer) -> None:
        """Add a consumer: not interested yet, or one that only looks."""
        consumer.group = self._group_of(consumer.priority)
        self._move(consumer, ConsumerEvent.ADD if consumer.acquires else ConsumerEvent.ADD_NON_ACQUIRING)
        self._note_non_acquiring()

    def remove(self, consumer: Consumer) -> bool:
        """Remove a consumer; return whether it had been woken, so that another one must be."""
        was_notified = consumer.place is _NOTIFIED
        self._move(consumer, ConsumerEvent.REMOVE)
        self._note_non_acquiring()
        # Groups without consumers are removed, so that `has_priorities` is true only while priorities really differ.
        self._groups = [group for group in self._groups if not group.is_empty]
        # The removed consumer may have been the reason why others found nothing.
        self._clear_fruitless()
        self._note_priorities()
        return was_notified

    def begin_interest(self, consumer: Consumer) -> None:
        """Record that `consumer` wants to be woken."""
        self._move(consumer, _INTEREST_BEGINS)

    def end_interest(self, consumer: Consumer) -> bool:
        """Record that `consumer` wants no wake-up; return whether it had one, so that another one must get it."""
        was_notified = consumer.place is _NOTIFIED
        self._move(consumer, _INTEREST_ENDS)
        return was_notified

    def notify(self, consumer: Consumer) -> None:
        """Record that `consumer` is being woken."""
        self._move(consumer, _NOTIFY)

    def pulled_nothing(self, consumer: Consumer) -> None:
        """Put a woken consumer at the back of Interested; others stay where they are."""
        self._move(consumer, ConsumerEvent.PULLED_NOTHING)

    def _move(self, consumer: Consumer, event: ConsumerEvent) -> None:
        before = consumer.place
        after = MOVES[before, event]
        # Mostly: a consumer declares its interest with each receive.
        if before is after:
            return
        group = consumer.group
        assert group is not None, "it has one from ADD on"
        lists, waiting = group.lists, group.waiting
        if before is not _REMOVED:
            del lists[before][consumer]
        if after is not _REMOVED:
            lists[after][consumer] = None
        if after is _INTERESTED:
            self.interested_count += 1
            group.turns += 1
            consumer.turn = group.turns
        elif before is _INTERESTED:
            self.interested_count -= 1
        consumer.place = after
        if waiting is not None:
            if after is _INTERESTED:
                waiting.add(consumer)
            elif before is _INTERESTED:
                waiting.remove(consumer)
        if group.wanting is not None:
            group.count_wanting(consumer.cursor, (after in _WANTING) - (before in _WANTING))

    def _group_of(self, priority: int) -> PriorityGroup:
        """Return the lists of one priority, made now if there are none."""
        for group in self._groups:
            if group.priority == priority:
                return group
        made = PriorityGroup(priority)
        self._groups = sorted([*self._groups, made], key=lambda group: -group.priority)
        self._note_priorities()
        return made

    def _note_non_acquiring(self) -> None:
        self.non_acquiring_count = sum(len(group.lists[ConsumerList.NON_ACQUIRING]) for group in self._groups)

    def _note_priorities(self) -> None:
        self.has_priorities = len(self._groups) > 1
        self.needs_search = self._always_searches or self.has_priorities

    def set_always_searches(self, always_searches: bool) -> None:
        """Set whether every pull must check which messages the consumer may take."""
        self._always_searches = always_searches
        self._note_priorities()

    # Choices

    def choose(self, entry: QueueEntry, mismatch: Callable[[Cursor, QueueEntry], None]) -> Consumer | None:
        """Move to Notified the first interested consumer that wants and may take `entry`; return it.

        `mismatch` is called for selectors that do not match, each evaluated once however many consumers share it.
        """
        if len(self._groups) == 1:
            consumer = next(iter(self._groups[0].lists[_INTERESTED]), None)
            if consumer is not None and consumer.cursor is None:
                self._move(consumer, _NOTIFY)  # no priorities and no selector to check
                return consumer
        choice = _ConsumerSelector(entry, mismatch)
        found: Consumer | None = None
        for group in self._groups:
            found = group.first(choice)
            if found is not None:
                self._move(found, _NOTIFY)
                break
            # It pulls the message or passes the wake-up on; a consumer of lower priority woken now would overtake it.
            if self.has_priorities and any(map(choice.wants, group.lists[_NOTIFIED])):
                break  # a woken consumer of higher priority is going to take it
        if choice.guessed:
            self._clear_fruitless()  # a consumer that finds nothing passes it on, perhaps to one that looked before the message came
        return found

    def next_in_turn(self) -> Consumer | None:
        """Return the interested consumer whose turn it is; None if there is none, or priorities, selectors or rules must decide."""
        if (
            self.needs_search or self.non_acquiring_count or not self._groups
        ):  # a manager without priorities has one group at most
            return None
        return next(iter(self._groups[0].lists[_INTERESTED]), None)

    def move_to_back(self, consumer: Consumer) -> None:
        """Put an interested consumer at the back that was delivered a message without a wake-up."""
        group = consumer.group
        assert group is not None
        # It stays interested: it was given the message without a wake-up, but its turn is over all the same.
        group.lists[_INTERESTED].move_to_end(consumer)
        group.turns += 1
        consumer.turn = group.turns
        if group.waiting is not None:
            group.waiting.by_cursor[consumer.cursor].move_to_end(consumer)

    def choose_next(self, may_have: Callable[[Cursor | None], bool]) -> list[Consumer]:
        """Move to Notified the consumers that must be woken in place of one that will not pull; return them.

        One of the highest priority that may have work is enough if it has no selector. With selectors, one of each text
        is woken, as the messages may differ. `may_have` answers without evaluating a selector; a wake-up may be needless.
        """
        # The cause is not a fruitless poll, so consumers that have found nothing may find something now.
        self._clear_fruitless()
        return self._wake_each(may_have)

    def choose_after_fruitless_pull(
        self, consumer: Consumer, may_have: Callable[[Cursor | None], bool], *, gave_up: bool
    ) -> list[Consumer]:
        """Move to Notified the consumers that must be woken after `consumer`, which was woken and found nothing; return them.

        Not those that have found nothing themselves since one was woken for another reason: the messages are reserved for a consumer of
        higher priority, and they would wake each other until that one pulls. Nor a consumer with the same selector and no
        higher priority: it may take no more. `gave_up`: it has not looked at all, for lack of memory.
        """
        group = consumer.group
        assert group is not None, "it was woken, and has not been removed"
        if gave_up:
            if not self.higher_priority(consumer):
                self._clear_fruitless()  # no other consumer will look for it: those it wakes wake it again
                return self._wake_each(may_have)
            self._gave_up.append((group, consumer.cursor))
        else:
            for other, cursor in self._gave_up:
                other.fruitless.discard(cursor)  # now that another one has looked, it may get further
            self._gave_up = []
        group.fruitless.add(consumer.cursor)
        return self._wake_each(may_have)

    def _clear_fruitless(self) -> None:
        """Clear the marks of consumers that have found nothing, so that all may be woken again."""
        self._gave_up = []
        for group in self._groups:
            group.fruitless.clear()

    def _wake_each(self, may_have: Callable[[Cursor | None], bool]) -> list[Consumer]:
        chosen: list[Consumer] = []
        served: set[Cursor | None] = set()
        for group in self._groups:
            # Consumers that have just found nothing count as served: they would only wake each other.
            served |= group.fruitless
            if None in served:
                break  # all messages are reserved for those of higher priority
            for consumer in group.next_consumers():
                if consumer.cursor not in served and may_have(consumer.cursor):
                    chosen.append(consumer)
                    served.add(consumer.cursor)
                    if consumer.cursor is None:
                        break
            if None in served or group is self._groups[-1]:
                break
            served.update(consumer.cursor for consumer in group.lists[_NOTIFIED])
            if None in served:
                break  # a woken consumer of higher priority takes every message
        # Moved at the end, as moving one changes the lists that are walked above.
        return self.notify_if_interested(chosen)

    def notify_if_interested(self, consumers: Iterable[Consumer]) -> list[Consumer]:
        """Move to Notified those of `consumers` that are in Interested; return them."""
        chosen = [consumer for consumer in consumers if consumer.place is _INTERESTED]
        for consumer in chosen:
            self._move(consumer, _NOTIFY)
        return chosen

    def non_acquiring(self) -> list[Consumer]:
        """Return the interested consumers that only look, which are notified of every message."""
        return [consumer for consumer in self.members(ConsumerList.NON_ACQUIRING) if consumer.wants_work]

    def higher_priority(self, consumer: Consumer) -> list[Cursor | None]:
        """Return the selectors (None: no selector) of interested consumers of higher priority than `consumer`."""
        higher_priority: dict[Cursor | None, None] = {}
        for group in self._groups:
            if group.priority <= consumer.priority:
                break
            # A dictionary as an ordered set: many consumers share a cursor, and each cursor is asked once.
            higher_priority.update(dict.fromkeys(group.selectors()))
        return list(higher_priority)


class ConsumedQueue(EntryQueue, Protocol):
    """The queue of a consumer, as the consumer sees it."""

    def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer; it is not interested yet. Raises `ChannelClosedError`, `ClosedError`."""

    def remove_consumer(self, consumer: Consumer) -> None:
        """Detach a consumer; the messages that it pulled stay with its session. May be repeated."""

    def set_notify_work_desired(self, consumer: Consumer, desired: bool) -> None:
        """Note whether `consumer` wants to be woken. Any thread; ignored for a consumer that has been removed."""

    def review_interest(self, consumer: Consumer) -> None:
        """Check again whether `consumer` wants to be woken, after its connection was started or stopped. Any thread; ignored for a consumer that has been removed."""

    def deliver_single_message(
        self, consumer: Consumer, *, or_wait: bool = False, at_once: bool = False
    ) -> Delivery | None:
        """Assign the next message that `consumer` wants and may take to its session; None when there is none now."""


class Consumer:
    """One client subscription's end at one queue. Its fields are guarded by the queue's lock."""

    __slots__ = (
        "acquires",
        "cursor",
        "group",
        "notify_desired",
        "number",
        "place",
        "priority",
        "queue",
        "selector",
        "session",
        "target",
        "turn",
    )

    def __init__(
        self,
        queue: ConsumedQueue,
        target: ConsumerTarget,
        *,
        selector: Selector | None = None,
        priority: int = 0,
        acquires: bool = True,
    ) -> None:
        self.queue = queue
        self.target = target
        self.session = target.session
        self.selector = selector
        self.priority = priority
        """Consumers of higher priority are served first while they want messages."""
        self.acquires = acquires
        """False: it looks at messages and takes none."""
        self.place = ConsumerList.REMOVED
        self.group: PriorityGroup | None = None
        """The lists of its priority, one of which `place` names."""
        self.turn = 0
        """Its turn while it waits for a wake-up: lower numbers are served first."""
        self.cursor: Cursor | None = None
        """The scan position of its selector; None: it has no selector."""
        self.notify_desired = False
        self.number = 0
        """Its number among all consumers of its session; set when it is attached."""

    @property
    def wants_work(self) -> bool:
        """Whether it is to be woken: the client wants it, and its connection is started."""
        return self.notify_desired and self.session.is_delivering

    def set_interested(self, interested: bool) -> None:
        """Set whether wake-ups are wanted. Any thread; ignored after `close`."""
        self.queue.set_notify_work_desired(self, interested)

    def notify_work(self) -> None:
        """Pass a notification that there may be work on to the target."""
        self.target.notify_work()

    def direct_deliver(self, delivery: Delivery) -> None:
        """Pass a message that the queue has assigned to the session directly on to the waiting client."""
        assert self.target.direct is not None, "the queue delivers directly to such targets only"
        self.target.direct.take(delivery)

    def pull(self, *, or_wait: bool = False, at_once: bool = False) -> Delivery | None:
        """Take the next message from the queue, if there is one for this consumer (`ConsumedQueue.deliver_single_message`)."""
        return self.queue.deliver_single_message(self, or_wait=or_wait, at_once=at_once)

    def close(self) -> None:
        """Detach from the queue; pulled messages stay with the session. May be repeated."""
        self.queue.remove_consumer(self)


class DirectConsumer(Protocol):
    """A client that can be delivered a message directly while that is sent, without a wake-up."""

    def may_take(self) -> bool:
        """Return whether it takes a message now. Any thread; the queue's lock is held, so it takes no other lock, and never waits."""

    def take(self, delivery: Delivery) -> None:
        """Accept the message, after `may_take` has returned True. No lock of the queue is held. Must not raise, or wait."""


class ConsumerTarget:
    """The broker's representation of one consuming client."""

    __slots__ = ("_turn", "consumers", "direct", "on_ready", "session")

    def __init__(self, session: ConsumerSession, on_ready: Callable[[], None]) -> None:
        self.session = session
        self.on_ready = on_ready
        """Called when there may be work."""
        self.direct: DirectConsumer | None = None
        """The client that takes messages directly; None: all are announced, and pulled."""
        self.consumers: tuple[Consumer, ...] = ()
        self._turn = 0
        """The place of the consumer that is asked first by the next pull."""

    def notify_work(self) -> None:
        """Pass a notification that there may be work for a consumer on to the session."""
        self.session.notify_work(self)

    def set_interested(self, interested: bool) -> None:
        """Set whether wake-ups are wanted, for any of the queues. Any thread."""
        for consumer in self.consumers:
            consumer.set_interested(interested)

    def pull(self, *, or_wait: bool = False, at_once: bool = False) -> Delivery | None:
        """Pull one message through one of the consumers, each in its turn (`ConsumedQueue.deliver_single_message`).

        With `or_wait`, a success ends the interest of the consumer that had the message alone: the client pulls again when another one is
        woken.
        """
        consumers = self.consumers
        count = len(consumers)
        # On from where the last pull stopped, so that a full queue does not starve the other queues of this client.
        for place in range(self._turn, self._turn + count):
            # Before the pull: if that has to be repeated where it may wait, as `at_once` says, it begins with the same queue.
            self._turn = place % count
            delivery = consumers[self._turn].pull(or_wait=or_wait, at_once=at_once)
            if delivery is not None:
                self._turn = (place + 1) % count
                return delivery
        return None


class ConsumerSession:
    """The receiving side of one client session: its targets, and the queues of their messages."""

    __slots__ = ("_consumer_count", "_lock", "_queues", "_targets", "is_closed", "is_delivering", "receiver_id")

    def __init__(self, receiver_id: ReceiverId, *, is_delivering: bool) -> None:
        self.receiver_id = receiver_id
        self.is_delivering = is_delivering
        """Whether pulls return messages: the connection is started."""
        self.is_closed = False
        self._lock = Lock()
        self._targets: dict[ConsumerTarget, None] = {}
        self._queues: dict[EntryQueue, dict[Consumer, None]] = {}
        """The queues where it consumes, or holds messages, with its consumers there."""
        self._consumer_count = 0

    def add_target(self, on_ready: Callable[[], None]) -> ConsumerTarget:
        """Make a target without consumers. Raises `ClosedError`."""
        target = ConsumerTarget(self, on_ready)
        with self._lock:
            self._check_open()
            self._targets[target] = None
        return target

    def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer to its queue and its target. Raises `ClosedError`, `ChannelClosedError`."""
        with self._lock:
            self._check_open()
            # Registered before it is attached, so that a concurrent close finds the consumer and its queue.
            self._queues.setdefault(consumer.queue, {})[consumer] = None
            self._consumer_count += 1
            consumer.number = self._consumer_count
            consumer.target.consumers = (*consumer.target.consumers, consumer)
        # Without the session's lock, as the queue takes its own.
        consumer.queue.add_consumer(consumer)

    def remove_target(self, target: ConsumerTarget) -> None:
        """Close the target's consumers and remove it; the messages that they pulled stay here. May be repeated."""
        with self._lock:
            self._targets.pop(target, None)
        for consumer in target.consumers:
            consumer.close()
            with self._lock:
                others = self._queues.get(consumer.queue, {})
                others.pop(consumer, None)
            # Called without the session's lock: the queue's lock is never taken under it.
            if not others and not consumer.queue.held_count(self):
                with self._lock:
                    if not self._queues.get(consumer.queue):  # none was added meanwhile
                        self._queues.pop(consumer.queue, None)

    def take_queue(self, queue: EntryQueue) -> None:
        """Register a queue of which this session took over messages from another one. Raises `ClosedError`."""
        with self._lock:
            self._check_open()
            self._queues.setdefault(queue, {})

    def set_delivering(self, is_delivering: bool) -> None:
        """Let pulls return messages, or not; after it returns with False, no pull returns a message any more."""
        # Set before the queues are called: each reads it under its own lock, so no later pull returns a message.
        self.is_delivering = is_delivering
        with self._lock:
            targets = list(self._targets)
        for target in targets:
            for consumer in target.consumers:
                consumer.queue.review_interest(consumer)

    def notify_work(self, target: ConsumerTarget) -> None:
        """Notify the client of a target that there may be work. A separate step for `trace`, which records all of them."""
        target.on_ready()

    def give_back_all(self) -> None:
        """Release the messages that the consumers pulled and have not settled, marked redelivered; the consumers stay."""
        with self._lock:
            queues = list(self._queues)
        for queue in queues:
            queue.give_back_all(self)

    def close(self) -> None:
        """Detach all consumers and release the messages that they pulled, marked redelivered. May be repeated."""
        with self._lock:
            # Set under the lock: a consumer that is added from here on is refused.
            self.is_closed = True
            targets = list(self._targets)
            queues = list(self._queues)
        # Detached before any message is released: an attached consumer could pull it again.
        for target in targets:
            for consumer in target.consumers:
                consumer.close()
        for queue in queues:
            queue.give_back_all(self)
        with self._lock:
            self._targets.clear()
            self._queues.clear()

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClosedError("the session is closed")
