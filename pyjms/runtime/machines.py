"""The pure parts of the runtime, without clock, I/O or threads: the life cycle of its objects as a table, and a session's unacknowledged messages.

`TRANSITIONS` decides which calls are allowed in a state (JMS 1.1 §4.3.3 to §4.3.5). CLOSING is the time in which
`close` waits for running listeners: to them, all facilities stay available.

`UnackedMessages` says which deliveries one acknowledgement covers, by mode (§4.4.11); the session asks for those due and settles them.
AUTO_ACKNOWLEDGE keeps a delivery only while its listener runs; messages that ``receive`` returns are settled at once and never entered.
DUPS_OK_ACKNOWLEDGE keeps up to `DUPS_OK_BATCH`, until a consumer closes. CLIENT_ACKNOWLEDGE keeps everything until a message's
``acknowledge``; a transaction until it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from pyjms.api.session import AcknowledgeMode
from pyjms.errors import IllegalStateException
from pyjms.spi.delivery import Delivery


class State(Enum):
    """The state of an object in its life cycle."""

    STOPPED = auto()
    STARTED = auto()
    CLOSING = auto()
    CLOSED = auto()


class Event(Enum):
    """An event in the life cycle of an object."""

    START = auto()
    STOP = auto()
    CLOSE = auto()
    FINISH = auto()


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.STOPPED, Event.START): State.STARTED,  # §4.3.3
    (State.STARTED, Event.START): State.STARTED,  # §4.3.3: starting a started connection is ignored
    (State.STARTED, Event.STOP): State.STOPPED,  # §4.3.4
    (State.STOPPED, Event.STOP): State.STOPPED,  # §4.3.4: stopping a stopped connection is ignored
    (State.STOPPED, Event.CLOSE): State.CLOSING,  # §4.3.5
    (State.STARTED, Event.CLOSE): State.CLOSING,  # §4.3.5
    (State.CLOSING, Event.CLOSE): State.CLOSING,  # a second closer waits for the first
    (State.CLOSING, Event.FINISH): State.CLOSED,  # §4.3.5: listeners have returned
    (State.CLOSED, Event.CLOSE): State.CLOSED,  # §4.3.5: closing a closed connection is no error
    (State.CLOSED, Event.FINISH): State.CLOSED,
}
"""All allowed transitions. A pair that is missing raises IllegalStateException."""


def next_state(state: State, event: Event, what: str) -> State:
    """Return the state after `event`. Raises IllegalStateException that names `what` (for instance "connection")."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStateException(f"the {what} is {state.name.lower()}: it cannot {event.name.lower()}") from None


DUPS_OK_BATCH = 20
"""The number of deliveries that a DUPS_OK_ACKNOWLEDGE session settles in one call; a crash may redeliver as many."""


class UnackedMessages:
    """The unsettled deliveries of one session, in order of delivery.

    One thread at a time; but `take` and `requeue` may be called at any moment by other threads, which acknowledge a listener's messages.
    """

    __slots__ = ("_limit", "_mode", "committing", "pending_release", "unsettled")

    def __init__(self, mode: AcknowledgeMode, limit: int = 0) -> None:
        """`limit`: the most deliveries that the client may keep unsettled before it gets no more; 0: any number."""
        self._mode = mode
        self._limit = limit
        self.unsettled: list[Delivery] = []
        """The deliveries that the client has, and may settle."""
        self.committing: Sequence[Delivery] = ()
        """The deliveries that are acknowledged in the transaction already, as its commit has begun: not every provider allows that twice."""
        self.pending_release: Sequence[Delivery] = ()
        """The deliveries to be released that the provider has not taken back yet: no acknowledgement covers them."""

    def __len__(self) -> int:
        return len(self.unsettled)

    def delivered(self, delivery: Delivery) -> None:
        """Enter a delivery that is given to the client now."""
        self.unsettled.append(delivery)

    @property
    def is_full(self) -> bool:
        """Whether the client must settle something before it gets more (§4.4.11: client overrun)."""
        return 0 < self._limit <= len(self.unsettled)

    def due(self) -> Sequence[Delivery]:
        """Take out the deliveries to acknowledge now that the client is done with the latest one."""
        if self._mode is AcknowledgeMode.AUTO_ACKNOWLEDGE:
            return self.take()
        if self._mode is AcknowledgeMode.DUPS_OK_ACKNOWLEDGE and len(self.unsettled) >= DUPS_OK_BATCH:
            return self.take()
        return ()

    def take(self) -> Sequence[Delivery]:
        """Take out all deliveries: those that ``acknowledge``, ``commit`` and ``recover`` cover."""
        # The list is replaced, not emptied: `take_one` on the listener's thread may be looking through the old one.
        taken = self.unsettled
        self.unsettled = []
        return taken

    def take_done(self) -> Sequence[Delivery]:
        """Take out all deliveries but the latest, which a listener is processing."""
        done = self.unsettled[:-1]
        del self.unsettled[:-1]
        return done

    def take_one(self, delivery: Delivery) -> bool:
        """Take out `delivery`; return False if it is not there: it was recovered or acknowledged meanwhile."""
        # The search begins at the end, as the delivery is nearly always the latest, and goes by
        # identity, as equality compares bodies.
        unsettled = self.unsettled  # read once: `take` on another thread replaces it with an empty list
        for index in range(len(unsettled) - 1, -1, -1):
            if unsettled[index] is delivery:
                del unsettled[index]
                return True
        return False

    def release_all_later(self) -> Sequence[Delivery]:
        """Add all received deliveries in front of those pending release; return them."""
        received = [*self.committing, *self.unsettled]
        self.pending_release, self.committing, self.unsettled = [*received, *self.pending_release], (), []
        return received

    def keep_all(self, received: Sequence[Delivery]) -> None:
        """Undo a `release_all_later`: the client may settle the deliveries that it returned."""
        number = len(received)
        self.unsettled, self.pending_release = [*received, *self.unsettled], self.pending_release[number:]

    def release_later(self, deliveries: Sequence[Delivery]) -> None:
        """Enter deliveries to be released."""
        self.pending_release = [*self.pending_release, *deliveries]

    def take_pending_release(self) -> Sequence[Delivery]:
        """Take out the deliveries pending release, to release them."""
        taken, self.pending_release = self.pending_release, ()
        return taken

    def requeue(self, deliveries: Sequence[Delivery]) -> None:
        """Enter deliveries again, in front, that were taken out and could not be settled."""
        # In front, as deliveries that were entered meanwhile are later, and `recover`
        # keeps the order of delivery.
        self.unsettled[:0] = deliveries
