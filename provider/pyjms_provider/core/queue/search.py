"""Finding messages in a queue: for one poll, by a selector or past messages reserved for others; and for browsers (JMS 1.1 §5.9), which leave them there."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.queue.cursor import UNFINISHED, Unfinished
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.queue.scheduled_messages import is_expired
from pyjms_provider.core.store import NotAtOnceError, NotInMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Literal

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.channel import Filter
    from pyjms_provider.core.message.reference import ReferenceId
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.contracts import QueueCore
    from pyjms_provider.core.queue.cursor import Cursor
    from pyjms_provider.core.queue.sorted_entry_list import Place


EVALUATIONS: Final = 256
"""Selector evaluations in one stretch, so that a long backlog does not hold the lock."""
_STRETCHES_AT_ONCE: Final = 16  # some milliseconds: a change of threads costs little beside it
_LOADS_OF_ONE: Final = 16  # how often one poll loads the same message


class Search:
    """The search of one poll, and its budget."""

    __slots__ = ("_at_once", "_consumer", "_loads", "_not_in_memory", "_queue", "_stretches", "exceeds_memory")

    def __init__(self, queue: QueueCore, consumer: Consumer, *, at_once: bool) -> None:
        """`at_once`: whether the poll must not wait for a disk."""
        self._queue = queue
        self._consumer = consumer
        self._at_once = at_once
        self._stretches = 0
        self._loads: dict[ReferenceId, int] = {}
        self._not_in_memory: NotInMemoryError | None = None
        """The message that a selector must evaluate, and that must be loaded first."""
        self.exceeds_memory = False
        """Whether the messages that must be compared do not fit into memory: one of them was paged out again each time before it was checked."""

    def take(self) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the next message for the consumer out of the order; `UNFINISHED`: call `load` without the lock, which is held here."""
        if self.exceeds_memory:
            return None
        try:
            return self._take()
        except NotInMemoryError as error:
            self._not_in_memory = error
            return UNFINISHED

    def load(self) -> None:
        """Load a message that is not in memory. Raises `NotAtOnceError` if the poll must not wait, and that would take a while; `ResourceError`."""
        error, self._not_in_memory = self._not_in_memory, None
        if error is None:
            self._stretches += 1
            if self._at_once and self._stretches == _STRETCHES_AT_ONCE:
                raise NotAtOnceError
        elif self._at_once:
            raise error
        else:
            wanted = error.reference
            self._queue.pager.load(wanted)
            self._loads[wanted.id] = self._loads.get(wanted.id, 0) + 1
            # Loaded too often, and paged out each time before it was checked: the messages that must be compared do not fit
            # into memory. Without this limit the poll would read the disk for ever (decision 0105).
            self.exceeds_memory = self._loads[wanted.id] > _LOADS_OF_ONE

    def _take(self) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        queue, consumer = self._queue, self._consumer
        rules, order, cursor = queue.rules, queue.ordering, consumer.cursor
        if rules is not None and rules.holds_back(consumer):
            return None
        if not consumer.acquires:
            assert cursor is not None
            return order.peek(cursor, EVALUATIONS)
        # A delayed redelivery blocks the messages behind it; only those before its place may be taken.
        if rules is not None and (barrier := rules.barrier) is not None:
            if not rules.is_exclusive and None in queue.consumers.higher_priority(consumer):
                return None  # a consumer of higher priority takes every message
            return self._take_before(barrier)
        # In an exclusive queue only the active consumer takes messages, so the priority of others does not matter.
        higher_priority = [] if rules is not None and rules.is_exclusive else queue.consumers.higher_priority(consumer)
        if rules is not None and rules.has_groups:
            return self._take_permitted(higher_priority, partial(rules.may_take, consumer, higher_priority, order))
        if None in higher_priority:
            return None  # a consumer of higher priority takes every message
        if higher_priority:
            is_wanted = order.is_wanted
            return self._take_permitted(
                higher_priority,
                lambda entry: not any(each is None or is_wanted(each, entry) for each in higher_priority),
            )
        if cursor is None:
            return order.take_first()
        return order.take_matching(cursor, None, EVALUATIONS)

    def _take_before(self, barrier: Place) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the next message of an exclusive queue, or of a total order, if its place is before the barrier."""
        order, cursor = self._queue.ordering, self._consumer.cursor
        # The first message decides: if it is behind the barrier, all are.
        if not any(order.place_of(each) < barrier for each in order.first(1)):
            return None
        if cursor is None:
            return order.take_first()
        return order.take_matching(cursor, lambda entry: order.place_of(entry) < barrier, EVALUATIONS)

    def _take_permitted(
        self, higher_priority: Sequence[Cursor | None], permits: Callable[[QueueEntry], bool]
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the next message that the consumer may take."""
        rules, order, cursor = self._queue.rules, self._queue.ordering, self._consumer.cursor
        if rules is not None:
            # Before the search: all consumers look again at messages of groups that have lost their owner since.
            rules.rewind_freed(order.rewind)
        if cursor is None:
            return order.poll_permitted(self._consumer, higher_priority, permits, EVALUATIONS)
        # Only with groups, where no consumer is woken because another one has found nothing: that wake-up might be useless, too.
        if rules is not None and rules.has_groups and isinstance(order, PriorityQueueEntryList):
            return order.poll_unblocked(self._consumer, cursor, higher_priority, permits, EVALUATIONS)
        return order.take_matching(cursor, permits, EVALUATIONS)


_AT_A_TIME: Final = 64  # messages that are checked while the lock is held
_PASSED_AT_A_TIME: Final = 4096  # messages added since it was opened, in a sorted queue: more than are added meanwhile


class QueueBrowser:
    """One client's iteration over the messages that were in the queue when it was opened."""

    __slots__ = ("_queue", "cursor")

    def __init__(self, queue: QueueCore, selector: Selector | None) -> None:
        self._queue = queue
        with queue.lock:
            self.cursor = queue.ordering.new_cursor(queue.pager.matcher(selector))
            # Without this bound a browser would not end in a queue that is filled meanwhile.
            self.cursor.last = queue.ordering.last_place

    def next(self) -> Delivery | None:
        """Return the next message, which stays in the queue; None at the end. May wait for a disk. Raises `ResourceError`."""
        queue = self._queue
        while True:
            try:
                with queue.lock:
                    found = queue.ordering.peek(self.cursor, EVALUATIONS)
                    if found is None:
                        return None
                    # Expired messages are skipped, and left to the timer: a browser removes nothing.
                    if found is not UNFINISHED and not is_expired(found.reference, queue.clock.time_ms()):
                        return queue.pager.make_delivery(found.reference, found.delivery_count + 1, None)
            except NotInMemoryError as error:
                queue.pager.load(error.reference)


def browse(queue: QueueCore, message_filter: Filter | None) -> list[Envelope]:
    """Return the waiting messages that the filter accepts, in order (JBoss Messaging Core §7.6)."""
    now_ms = queue.clock.time_ms()
    with queue.lock:
        waiting = [entry.reference for entry in queue.ordering if not is_expired(entry.reference, now_ms)]
    found: list[Envelope] = []
    for reference in waiting:
        # Without the lock, and one by one: the whole queue need not fit into memory.
        queue.pager.page_in([reference])
        with suppress(KeyError):  # it was taken meanwhile
            if message_filter is not None and not message_filter.accept(reference):
                continue
        envelope = queue.store.fetch(reference)
        if envelope is not None:
            found.append(envelope)
    return found


def keep_cursor(queue: QueueCore, selector: Selector | None) -> Callable[[], None]:
    """Remember what a selector has seen while consumers with it come and go, until the returned function is called."""
    matches = queue.pager.matcher(selector)
    if selector is None or matches is None:
        return lambda: None
    text = selector.text
    with queue.lock:
        ordering = queue.ordering
        ordering.open_cursor(text, matches, queue.pager.equalities_of(selector))

    def close() -> None:
        with queue.lock:
            ordering.close_cursor(text)

    return close


def waiting_entries(queue: QueueCore) -> Iterator[QueueEntry]:
    """Return the messages that are not held, in order, then those that are delayed. Messages added from now on are left out.

    Of a long backlog only those are materialized that the iteration reaches.
    """
    with queue.lock:
        delayed = dict.fromkeys(queue.state.delays)
        # Both in one step: a delayed message that becomes due afterwards is still found, and found once.
        cursor = queue.ordering.new_cursor(None)
        cursor.last = queue.ordering.last_place
    return _waiting(queue, cursor, delayed)


def _waiting(queue: QueueCore, cursor: Cursor, delayed: Mapping[QueueEntry, None]) -> Iterator[QueueEntry]:
    """Yield the messages that `cursor` reaches, then the delayed ones, some of which may be due by now."""
    is_more = True
    while is_more:
        found, is_more = _peek_some(queue, cursor)
        # Messages that were delayed at the start come at the end, even if they have become due since.
        yield from (entry for entry in found if entry not in delayed)
    yield from delayed


def _peek_some(queue: QueueCore, cursor: Cursor) -> tuple[list[QueueEntry], bool]:
    """Return some of the next messages for `cursor`, and whether there may be more."""
    found: list[QueueEntry] = []
    with queue.lock:
        while len(found) < _AT_A_TIME:
            entry = queue.ordering.peek(cursor, _PASSED_AT_A_TIME)
            if not isinstance(entry, QueueEntry):
                return found, entry is UNFINISHED
            found.append(entry)
    return found, True
