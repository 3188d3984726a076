"""How often this process has delivered messages that a broker is going to deliver again, as not all brokers mark or count that."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address, Envelope

_KEPT_MAX: Final = 10_000
_Key: TypeAlias = "tuple[str, Address, str]"


class DeliveryCounts:
    """Counts by JMSMessageID, destination and durable subscription. Any thread.

    The table is bounded; a message that was dropped from it is delivered with the broker's count alone.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: OrderedDict[_Key, int] = OrderedDict()

    def record(self, envelope: Envelope, owner: str, count: int) -> None:
        """Remember how often a message was delivered. `owner`: the durable subscription that it belongs to; empty: none."""
        if envelope.message_id is None or not count:
            return
        with self._lock:
            self._counts[envelope.message_id, envelope.destination, owner] = count
            # The oldest go first: their messages have most likely come again, or never will.
            while len(self._counts) > _KEPT_MAX:
                self._counts.popitem(last=False)

    def take(self, envelope: Envelope, owner: str) -> int:
        """Return how often a message was delivered before it went back, and forget it."""
        # Called for each message, and the table is mostly empty: then without the lock.
        if not self._counts or envelope.message_id is None:
            return 0
        with self._lock:
            return self._counts.pop((envelope.message_id, envelope.destination, owner), 0)


COUNTS: Final = DeliveryCounts()
"""The counts of this process: a client that connects again gets its messages marked, too."""
