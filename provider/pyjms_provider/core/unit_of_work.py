"""What must become true together: the messages and acknowledgements of one transaction (§2.2, §5.1, §6.2.1).

A unit is used by its session's thread; two others may end it: the one that closes the session, and the housekeeper when
a message in it expires. So it has a lock, which comes before those of queues in the lock order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, NewType, TypeVar

from pyjms.spi.errors import RolledBackError
from pyjms_provider.core.entry import QueueEntry, ReceiverId
from pyjms_provider.core.expiry import is_expired

if TYPE_CHECKING:
    from pyjms_provider.core.consumer import ConsumerSession
    from pyjms_provider.core.queue import Queue

__all__ = [
    "UNIT_TRANSITIONS",
    "ForbiddenUnitEventError",
    "UnitEvent",
    "UnitId",
    "UnitOfWork",
    "UnitState",
    "next_unit_state",
]

UnitId = NewType("UnitId", str)
_T = TypeVar("_T")


class UnitState(Enum):
    """How far a unit is."""

    OPEN = "takes messages and acknowledgements"
    DOOMED = "rolled back because a message in it expired; its session does not know yet"
    COMMITTED = "has taken effect"
    ROLLED_BACK = "has had no effect"


class UnitEvent(Enum):
    """What ends a unit."""

    COMMIT = "the session commits"
    ROLLBACK = "the session rolls back, or closes"
    EXPIRE = "a message in it expires"


UNIT_TRANSITIONS: Mapping[tuple[UnitState, UnitEvent], UnitState] = MappingProxyType(
    {
        (UnitState.OPEN, UnitEvent.COMMIT): UnitState.COMMITTED,
        (UnitState.OPEN, UnitEvent.ROLLBACK): UnitState.ROLLED_BACK,
        (UnitState.OPEN, UnitEvent.EXPIRE): UnitState.DOOMED,  # §5.1.3
        (UnitState.DOOMED, UnitEvent.COMMIT): UnitState.ROLLED_BACK,
        (UnitState.DOOMED, UnitEvent.ROLLBACK): UnitState.ROLLED_BACK,
        (UnitState.DOOMED, UnitEvent.EXPIRE): UnitState.DOOMED,
        # What ends a unit twice comes from another thread, and the first one counts.
        (UnitState.COMMITTED, UnitEvent.ROLLBACK): UnitState.COMMITTED,
        (UnitState.COMMITTED, UnitEvent.EXPIRE): UnitState.COMMITTED,
        (UnitState.ROLLED_BACK, UnitEvent.COMMIT): UnitState.ROLLED_BACK,
        (UnitState.ROLLED_BACK, UnitEvent.ROLLBACK): UnitState.ROLLED_BACK,
        (UnitState.ROLLED_BACK, UnitEvent.EXPIRE): UnitState.ROLLED_BACK,
    }
)
"""The only forbidden pair is a second COMMIT of a committed unit."""


class ForbiddenUnitEventError(Exception):
    """A unit was ended in a way that its state forbids: a fault of its session, never of a client."""


def next_unit_state(state: UnitState, event: UnitEvent) -> UnitState:
    """Return the state after `event`. Raises `ForbiddenUnitEventError` for a pair that must not happen."""
    try:
        return UNIT_TRANSITIONS[state, event]
    except KeyError:
        raise ForbiddenUnitEventError(f"a unit of work that is {state.name} cannot have {event.name}") from None


class UnitOfWork:
    """The sends and acknowledgements of one local transaction."""

    __slots__ = ("_acknowledged", "_lock", "_sent", "_session", "_settled", "_state", "expired_rolls_back", "unit_id")

    def __init__(self, unit_id: UnitId, session: ConsumerSession, *, expired_rolls_back: bool = True) -> None:
        self.unit_id = unit_id
        self.expired_rolls_back = expired_rolls_back
        """Whether a message that expires before the commit rolls all back (True), or is merely left out."""
        self._session = session
        self._lock = Lock()
        self._state = UnitState.OPEN
        self._sent: list[QueueEntry] = []
        self._settled: list[tuple[QueueEntry, int]] = []
        self._acknowledged: list[tuple[QueueEntry, ReceiverId]] = []

    @property
    def state(self) -> UnitState:
        """How far the unit is."""
        return self._state

    def add_sent(self, entry: QueueEntry) -> bool:
        """Add a NOT_COMMITTED message; return False if the unit has ended and the message must go."""
        with self._lock:
            if self._state is not UnitState.OPEN:
                return False
            self._sent.append(entry)
            return True

    def add_settled(self, entry: QueueEntry, delivery_count: int) -> None:
        """Add the acknowledgement of a pulled message: of its delivery number `delivery_count`."""
        with self._lock:
            if self._state is UnitState.OPEN:
                self._settled.append((entry, delivery_count))

    def add_acknowledgement(self, entry: QueueEntry, receiver_id: ReceiverId) -> None:
        """Add the acknowledgement of a message that was pushed to `receiver_id`."""
        with self._lock:
            if self._state is UnitState.OPEN:
                self._acknowledged.append((entry, receiver_id))

    def commit(self, now_ms: int) -> None:
        """Make all of it true. Raises `RolledBackError` when it was rolled back instead."""
        self.publish(self.decide(now_ms))

    def decide(self, now_ms: int) -> Sequence[QueueEntry]:
        """Do the first half of `commit`: the acknowledgements take effect; return the messages to `publish`.

        From then on the commit cannot be taken back. A session calls this under its lock, so that who closes it gives
        back either nothing or all of what it acknowledged.
        """
        with self._lock:
            sent = self._sent
            if self.expired_rolls_back and any(is_expired(entry.reference, now_ms) for entry in sent):
                self._end(UnitEvent.EXPIRE)
            self._end(UnitEvent.COMMIT)
            if self._state is not UnitState.COMMITTED:
                raise RolledBackError(
                    f"transaction {self.unit_id} was rolled back: a message in it expired before the commit, "
                    f"or its session was closed; give messages a longer time to live, or commit sooner"
                )
        return sent

    @staticmethod
    def publish(sent: Iterable[QueueEntry]) -> None:
        """Do the second half: make the messages available. Without any lock, as consumers are woken."""
        for queue, entries in _by_queue((entry, entry) for entry in sent).items():
            queue.commit([entry for entry, _ in entries])  # in the order sent (§9.2)

    def rollback(self) -> None:
        """Drop all of it. May be repeated."""
        with self._lock:
            self._end(UnitEvent.ROLLBACK)

    def expire(self) -> None:
        """Roll back because a message in it expired (§5.1.3); the session hears of it when it commits."""
        with self._lock:
            self._end(UnitEvent.EXPIRE)

    def _end(self, event: UnitEvent) -> None:
        """Change state, and settle or drop what is in the unit. The lock is held.

        Acknowledgements take effect here, so that a session that is closed by another thread gives back either none or
        all of what it acknowledged.
        """
        before = self._state
        self._state = after = next_unit_state(before, event)
        if before is not UnitState.OPEN:
            return
        if after is UnitState.COMMITTED:
            for queue, settled in _by_queue(self._settled).items():
                queue.settle_committed(settled, self._session)
            for queue, acknowledged in _by_queue(self._acknowledged).items():
                queue.apply_acknowledgements(acknowledged)
        else:
            for entry in self._sent:
                entry.queue.rollback(entry)
            for entry, _ in (*self._settled, *self._acknowledged):
                entry.queue.drop_acknowledgement(entry, self)
        self._sent = []
        self._settled = []
        self._acknowledged = []


def _by_queue(items: Iterable[tuple[QueueEntry, _T]]) -> dict[Queue, list[tuple[QueueEntry, _T]]]:
    answer: dict[Queue, list[tuple[QueueEntry, _T]]] = {}
    for item in items:
        answer.setdefault(item[0].queue, []).append(item)
    return answer
