"""Partitioned queues: which partition gets a message, and one consumer at all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal

from pyjms.spi.delivery import ELSEWHERE
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ProviderConsumer
from pyjms_provider.core.host.admission import DUPLICATE_ID

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery, Elsewhere
    from pyjms.spi.envelope import Envelope
    from pyjms_provider.cluster.placement import Placement

_GROUP: Final = "JMSXGroupID"
_STAY: Final = 16
"""So many messages in a row come from one destination, if it has so many: asking the empty ones costs something, too."""
_random: Final = Random()  # noqa: S311 - it only spreads sessions
_turns: Final[dict[str, count[int]]] = {}
"""By queue, counts the sessions of this process that have chosen a partition of it."""
_turns_lock: Final = Lock()


class PartitionChoice:
    """The partitions that get the messages of one session: one for each queue, save for messages of groups, and with duplicate ids."""

    def __init__(self) -> None:
        self._homes: dict[str, int] = {}
        """The shard of the session's partition, by queue."""

    @property
    def are_used(self) -> bool:
        """Whether the session has sent to a partitioned queue."""
        return bool(self._homes)

    def shard_for(self, placement: Placement, shards: Sequence[int], envelope: Envelope) -> int:
        """Return the shard of the partition that gets a message; the queue has partitions in `shards`."""
        name, properties = envelope.destination.name, envelope.properties
        home = self._homes.get(name)
        # A group's messages are in one partition, whoever sends them; and one that is sent again is recognised where its first copy is.
        key = properties.get(_GROUP)
        if key is None:
            key = properties.get(DUPLICATE_ID)
        if key is not None:
            found = placement.partition_of(shards, str(key))
        elif home is not None and home in shards:
            return home
        else:
            found = shards[_next_turn(name) % len(shards)]
        if home not in shards:
            # Also after a message of a group: a session that sends to one group, and without, keeps its order.
            self._homes[name] = found
        return found


def _next_turn(queue: str) -> int:
    """Return a number that is greater by one for each session that asks, so that sessions are spread evenly."""
    with _turns_lock:
        return next(_turns.setdefault(queue, count(_random.randrange(256))))  # members begin at different ones


class TurnsConsumer(ProviderConsumer):
    """One consumer at several destinations, or partitions, which takes their messages in turn."""

    def __init__(self, consumers: Sequence[ProviderConsumer]) -> None:
        self._consumers = list(consumers)
        self._next = 0
        self._stayed = 0
        self._is_interested = False

    def _in_turn(self) -> list[ProviderConsumer]:
        return [*self._consumers[self._next :], *self._consumers[: self._next]]

    def _found_at(self, consumer: ProviderConsumer) -> None:
        at = self._consumers.index(consumer)
        self._stayed = self._stayed + 1 if at == self._next else 1
        if self._stayed >= _STAY:
            at, self._stayed = (at + 1) % len(self._consumers), 0
        self._next = at

    def poll(self) -> Delivery | None:
        for each in self._in_turn():
            delivery = each.poll()
            if delivery is not None:
                self._found_at(each)
                return delivery
        return None

    def poll_or_wait(self) -> Delivery | None:
        if self._polled is None:
            for each in self._in_turn():
                # Kept until the end, as in the default.
                self._polled = each.poll_or_wait()
                if self._polled is not None:
                    self._found_at(each)
                    break
                self._is_interested = True
            else:
                return None
        return self._end_interest()

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        is_elsewhere = False
        if self._polled is None:
            for each in self._in_turn():
                found = each.poll_at_once()
                if found is ELSEWHERE:
                    is_elsewhere = True
                    continue
                if found is not None:
                    self._polled = found
                    self._found_at(each)
                    break
                self._is_interested = True
            else:
                return ELSEWHERE if is_elsewhere else None
        return self._end_interest()

    def _end_interest(self) -> Delivery | None:
        """Return the message that was polled; nothing else wakes those who wait for another one."""
        if self._is_interested:
            self.set_interested(False)
        polled, self._polled = self._polled, None
        return polled

    def take_unreturned(self) -> Delivery | None:
        found = super().take_unreturned()
        for each in self._consumers:
            found = found or each.take_unreturned()
        return found

    def catch_up(self) -> None:
        for each in self._consumers:
            each.catch_up()

    def set_interested(self, interested: bool) -> None:
        self._is_interested = interested
        for each in self._consumers:
            each.set_interested(interested)

    def close(self) -> None:
        for each in self._consumers:
            with suppress(ProviderError):
                each.close()
