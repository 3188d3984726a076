"""What a channel has handed out and nobody has settled: kombu's "quality of service"."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from pyjms.spi.delivery import Delivery

if TYPE_CHECKING:
    from pyjms.kombu.channel import Channel


class Unsettled:
    """Deliveries by their tags, which grow. Any thread: each step is one operation of a dictionary."""

    def __init__(self, channel: Channel, prefetch_count: int = 0) -> None:
        """`prefetch_count`: how many there may be at a time; 0: any number."""
        self._channel = channel
        self.prefetch_count = prefetch_count
        self._tags = count(1)
        self._held: dict[int, Delivery] = {}

    def __len__(self) -> int:
        return len(self._held)

    def can_consume(self) -> bool:
        """Whether there is room for one more."""
        return not self.prefetch_count or len(self._held) < self.prefetch_count

    def can_consume_max_estimate(self) -> int | None:
        """Return for how many more there is room; None: for any number."""
        return max(self.prefetch_count - len(self._held), 0) if self.prefetch_count else None

    def next_tag(self) -> int:
        """Return a tag that this channel has not given."""
        return next(self._tags)

    def hold(self, tag: int, delivery: Delivery) -> None:
        """Have it settled later."""
        self._held[tag] = delivery

    def take(self, tag: int) -> Delivery | None:
        """Take one out; None: it is settled already."""
        return self._held.pop(tag, None)

    def take_up_to(self, tag: int) -> Sequence[Delivery]:
        """Take out all up to this tag, in the order in which they came."""
        taken = (self._held.pop(each, None) for each in self._held.copy() if each <= tag)
        return [delivery for delivery in taken if delivery is not None]

    def take_all(self) -> Sequence[Delivery]:
        """Take out all, in that order."""
        return self.take_up_to(max(self._held.copy(), default=0))

    def restore_unacked(self) -> None:
        """Have all come again."""
        self._channel.basic_recover(requeue=True)

    def restore_unacked_once(self, stderr: object = None) -> None:
        """Do so: after a process has died the broker does it by itself."""
        self.restore_unacked()
