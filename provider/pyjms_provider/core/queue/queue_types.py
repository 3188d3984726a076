"""The types of queues: one interface for the order of available messages, and who makes which (Broker-J's queue types).

A standard queue and a last-value queue have the same order, `entry_list.py`; what makes the latter special is which messages
stay (`last_values.py`). A priority queue maps the ten priorities of JMS to fewer levels, as Broker-J does: the levels lie
around the default priority 4, so that with two of them 0 to 4 are normal and 5 to 9 are expedited (JMS 1.1 §3.4.10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal, Protocol

from pyjms_provider.core.queue.cursor import PRIORITIES, Cursor, Unfinished
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.queue.policy import QueuePolicy, QueueType
from pyjms_provider.core.queue.sorted_entry_list import SortedQueueEntryList

if TYPE_CHECKING:
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.cursor import Asked
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.queue_rules import QueueRules
    from pyjms_provider.core.queue.sorted_entry_list import Place


class QueueEntryList(Protocol):
    """The available messages of one queue, in the order in which they leave it. Not safe for several threads."""

    def __len__(self) -> int: ...

    def __bool__(self) -> bool: ...

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yield the messages in order; nothing may change meanwhile."""
        ...

    @property
    def last_place(self) -> int:
        """The highest sequence number of all messages that have come."""
        ...

    def oldest(self) -> list[QueueEntry]:
        """Return a few messages, the oldest one among them."""
        ...

    def first(self, most: int) -> list[QueueEntry]:
        """Return up to `most` messages of those that leave first, or some of them."""
        ...

    def newest(self, most: int) -> list[QueueEntry]:
        """Return about `most` messages, or a few times as many, those among them that came last."""
        ...

    def append(self, entry: QueueEntry) -> None:
        """Give a new message its place, and a sequence number."""
        ...

    def assign_sequence(self, entry: QueueEntry) -> None:
        """Give a new message that somebody takes at once the sequence number of the place that it would have had."""
        ...

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Put messages that were taken back into their old places."""
        ...

    def take_first(self) -> QueueEntry | None:
        """Take the first message; None when there is none."""
        ...

    def least(self) -> QueueEntry | None:
        """Return the message that is needed least: a ring queue that is full drops it."""
        ...

    def discard(self, entry: QueueEntry) -> bool:
        """Take out this very message; return whether it was available."""
        ...

    def holds(self, entry: QueueEntry) -> bool:
        """Return whether a message is available."""
        ...

    def place_of(self, entry: QueueEntry) -> Place:
        """Return the place in the order of a message that has had one: lower places come first."""
        ...

    def clear(self) -> list[QueueEntry]:
        """Take out all messages and return them in order."""
        ...

    def following(self, reference: MessageReference, most: int) -> list[MessageReference]:
        """Return up to `most` messages that will probably be wanted after that one."""
        ...

    def new_cursor(self, matches: Callable[[QueueEntry], bool] | None) -> Cursor:
        """Return the place of somebody who has seen nothing yet, for `look`."""
        ...

    def open_cursor(self, text: str, matches: Callable[[QueueEntry], bool], asked: Asked | None = None) -> Cursor:
        """Return the cursor that all users of the selector `text` share; to be closed as often as opened. `asked`: what it asks for, if that is known."""
        ...

    def close_cursor(self, text: str) -> None:
        """Forget the cursor of `text` with its last user."""
        ...

    def may_have(self, cursor: Cursor | None) -> bool:
        """Return whether there may be a message for `cursor` (None: any message), without evaluating anything."""
        ...

    def is_wanted(self, cursor: Cursor, entry: QueueEntry) -> bool:
        """Return whether `entry`, which is available, matches; without evaluating it, if that is known."""
        ...

    def note_mismatch(self, cursor: Cursor, entry: QueueEntry) -> None:
        """Remember, if that helps, that `entry`, just appended, does not match."""
        ...

    def take_matching(
        self, cursor: Cursor, permits: Callable[[QueueEntry], bool] | None, evaluations: int
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that matches `cursor` and that `permits` (None: all) allows."""
        ...

    def poll_permitted(
        self, consumer: object, rivals: Iterable[Cursor | None], permits: Callable[[QueueEntry], bool], looks: int
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that `permits` allows to `consumer`, who has no selector; `rivals`: who comes before it."""
        ...

    def look_again(self, entries: Iterable[QueueEntry]) -> None:
        """Have all consumers ask again for messages that somebody else was to have."""
        ...

    def forget_turn(self, consumer: object) -> None:
        """Have a consumer ask for all again, or be forgotten. May be repeated."""
        ...

    def look(self, cursor: Cursor, evaluations: int) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Return the next message for somebody's own `cursor`, leaving it in its place."""
        ...


def priority_levels(levels: int) -> tuple[int, ...]:
    """Return, by JMS priority, which of so many levels a message is in."""
    lowest = PRIORITIES // 2 - (levels + 1) // 2
    return tuple(min(max(priority - lowest, 0), levels - 1) for priority in range(PRIORITIES))


def make_order(policy: QueuePolicy, rules: QueueRules | None) -> QueueEntryList:
    """Return an empty order of the policy's type; a sorted queue has rules, which know the values."""
    if policy.type is QueueType.SORTED:
        assert rules is not None
        return SortedQueueEntryList(rules.sort_value)
    if policy.type is QueueType.PRIORITY:
        return PriorityQueueEntryList(priority_levels(policy.priorities))
    return PriorityQueueEntryList()
