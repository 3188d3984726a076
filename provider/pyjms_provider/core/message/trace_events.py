"""Events of messages, recorded for the life story of a message. Pure.

Recording is appending to a list: no thread waits, and no lock is taken. If the events are not fetched, further ones are counted
and dropped, so that memory stays bounded. `pyjms_provider.stories` fetches, writes and reads them.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyjms_provider.core.message.message_state import MessageState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Envelope

ACTING: ContextVar[str] = ContextVar("ACTING", default="")
"""The operator who requested what this thread does, if any."""

Told: TypeAlias = "tuple[int, int, Happening, str, tuple[Any, ...]]"
"""The number of the reference (0: there is none), milliseconds since 1970 UTC, the event, the place, and `FACTS`."""


class Happening(Enum):
    """An event of a message. The values are stored in files, and never change."""

    SENT = "sent"
    ACCEPTED = "accepted"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    DELIVERED = "delivered"
    ACKNOWLEDGED = "acknowledged"
    ACKNOWLEDGED_IN_TRANSACTION = "acknowledged_in_transaction"
    ACKNOWLEDGEMENT_ROLLED_BACK = "acknowledgement_rolled_back"
    RETURNED = "returned"
    REINSTATED = "reinstated"
    EXPIRED = "expired"
    DEAD = "dead"
    MOVED = "moved"
    REPLAYED = "replayed"
    DELETED = "deleted"
    OVERFLOWED = "overflowed"
    SUPERSEDED = "superseded"
    UNREADABLE = "unreadable"
    CLOSED = "closed"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    UNWANTED = "unwanted"
    PAGED_OUT = "paged_out"
    PAGED_IN = "paged_in"

    __hash__ = object.__hash__


_IDS: Final = ("message_id", "correlation_id")
_BEGINNING: Final = (*_IDS, "persistent", "kept", "expiration_ms", "connection", "transaction", "properties")

FACTS: Mapping[Happening, tuple[str, ...]] = MappingProxyType(
    {
        Happening.SENT: _BEGINNING,
        Happening.ACCEPTED: _BEGINNING,
        Happening.COMMITTED: (),
        Happening.ROLLED_BACK: _IDS,
        Happening.DELIVERED: ("delivery", "session", "consumer"),
        Happening.ACKNOWLEDGED: ("session",),
        Happening.ACKNOWLEDGED_IN_TRANSACTION: ("session", "transaction"),
        Happening.ACKNOWLEDGEMENT_ROLLED_BACK: ("session", "transaction"),
        Happening.RETURNED: ("session", "delivery"),
        Happening.REINSTATED: (),
        Happening.EXPIRED: _IDS,
        Happening.DEAD: (*_IDS, "reason", "target", "delivery", "session"),
        Happening.MOVED: (*_IDS, "target", "by"),
        Happening.REPLAYED: (*_IDS, "target", "by"),
        Happening.DELETED: (*_IDS, "by"),
        Happening.OVERFLOWED: _IDS,
        Happening.SUPERSEDED: _IDS,
        Happening.UNREADABLE: _IDS,
        Happening.CLOSED: _IDS,
        Happening.DUPLICATE: _IDS,
        Happening.REFUSED: (*_IDS, "reason"),
        Happening.UNWANTED: (*_IDS, "connection"),
        Happening.PAGED_OUT: (),
        Happening.PAGED_IN: (),
    }
)
"""The further facts of each event, in this order."""

STATE_AFTER: Mapping[Happening, MessageState | None] = MappingProxyType(
    {
        Happening.SENT: MessageState.NOT_COMMITTED,  # JBM §5.1.2
        Happening.ACCEPTED: MessageState.NEW,  # §5.2.2
        Happening.COMMITTED: MessageState.NEW,  # §5.1.3
        Happening.ROLLED_BACK: MessageState.ABSENT,  # §5.1.3
        Happening.DELIVERED: MessageState.DELIVERED,  # §5.3.2
        Happening.ACKNOWLEDGED: MessageState.ABSENT,  # §5.3.3
        Happening.ACKNOWLEDGED_IN_TRANSACTION: MessageState.DELIVERED,  # §5.3.1
        Happening.ACKNOWLEDGEMENT_ROLLED_BACK: MessageState.DELIVERED,  # §6.2.1
        Happening.RETURNED: MessageState.NEW,  # JMS 1.1 §4.4.11
        Happening.REINSTATED: MessageState.NEW,
        Happening.EXPIRED: MessageState.ABSENT,
        Happening.DEAD: MessageState.ABSENT,
        Happening.MOVED: MessageState.ABSENT,
        Happening.REPLAYED: MessageState.ABSENT,
        Happening.DELETED: MessageState.ABSENT,
        Happening.OVERFLOWED: MessageState.ABSENT,
        Happening.SUPERSEDED: MessageState.ABSENT,
        Happening.UNREADABLE: MessageState.ABSENT,
        Happening.CLOSED: MessageState.ABSENT,  # §7
        Happening.DUPLICATE: MessageState.ABSENT,
        Happening.REFUSED: MessageState.ABSENT,
        Happening.UNWANTED: MessageState.ABSENT,  # §5.2.4
        Happening.PAGED_OUT: None,
        Happening.PAGED_IN: None,
    }
)
"""The state of the message in that channel after the event; None: unchanged."""


class StoryBuffer:
    """The events that were recorded and not fetched yet. Any thread records; one fetches."""

    def __init__(
        self, clock: Clock, *, everything: bool, properties: tuple[str, ...], most: int, on_some: Callable[[int], None]
    ) -> None:
        """`everything`: each step of each message, not only failures; `properties`: those whose values are recorded.

        `most`: how many events may wait to be fetched; `on_some` is called with the number that waits, at the first one and at half of
        `most`; it must not wait. Until `begin`, nothing is recorded.
        """
        self.everything = everything
        self.properties = properties
        self.lost = 0
        """About how many events were dropped, as they were not fetched in time."""
        self._time_ms = clock.time_ms
        self._on_some = on_some
        self._all = most
        self._half = most // 2
        self._room = 0
        self._is_ended = False
        self._told: deque[Told] = deque()

    def begin(self) -> None:
        """Start recording: the stored messages have been restored."""
        self._room = self._all

    def end(self) -> None:
        """Stop recording: the broker ends, its messages do not."""
        self._is_ended = True
        self._room = 0

    def emit(self, happening: Happening, number: int, where: str, facts: tuple[Any, ...] = ()) -> None:
        """Record an event of the message with that number. Never waits; may be called with a lock held."""
        told = self._told
        waiting = len(told)
        # Bounded: a full disk must neither stop the broker nor fill its memory.
        if waiting >= self._room:
            if self._room:
                self.lost += 1
            return
        told.append((number, self._time_ms(), happening, where, facts))
        # At the first and at the half: one wake-up for each event would cost more than the event.
        if not waiting or waiting == self._half:
            self._on_some(waiting + 1)

    def emit_early(self, happening: Happening, number: int, where: str, facts: tuple[Any, ...]) -> None:
        """Record an event, if need be before `begin`: for messages that are being restored."""
        # Without the room that `begin` gives, but bounded all the same.
        if not self._is_ended and len(self._told) < self._all:
            self._told.append((number, self._time_ms(), happening, where, facts))

    def chosen(self, envelope: Envelope) -> tuple[tuple[str, Any], ...] | None:
        """Return the properties that are recorded."""
        if not self.properties:
            return None
        found = envelope.properties
        return tuple((name, found[name]) for name in self.properties if name in found)

    def fetch(self) -> list[Told]:
        """Remove and return the recorded events, oldest first."""
        told = self._told
        # As many as there were at the start: other threads go on appending, and would keep this one here.
        return [told.popleft() for _ in range(len(told))]
