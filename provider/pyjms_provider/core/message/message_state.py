"""The state of one message in one channel, as a table (JBoss Messaging Core, Revision 1, §5 and §6).

Everything that decides which state a message is in stands here; a channel never assigns a state by another way than
`next_state`. Section numbers in the table are those of that specification. What it leaves out, because JMS alone needs
it, is marked "JMS".

Deliberately elsewhere: *when* the last outstanding acknowledgement has come (`channel_state.py`: the guard that chooses
between POSITIVE_ACKNOWLEDGEMENT and FINAL_POSITIVE_ACKNOWLEDGEMENT), and where available messages wait (`entry_list.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class MessageState(Enum):
    """The four states of §5."""

    ABSENT = "not in channel"
    NOT_COMMITTED = "accepted in a transaction that has not ended"
    NEW = "accepted, and delivered to nobody yet"
    DELIVERED = "delivered, with an acknowledgement outstanding"

    __hash__ = object.__hash__  # members are looked up for every message; Enum's own hash is a Python function


class MessageEvent(Enum):
    """What can happen to a message in a channel."""

    ACCEPT = "the channel takes the message over"
    ACCEPT_IN_TRANSACTION = "the same, within a transaction"
    COMMIT = "the transaction of the sender commits"
    ROLLBACK = "the transaction of the sender rolls back"
    REFUSE = "a delivery attempt fails: no receiver accepts, or all are broken"
    NEGATIVE_ACKNOWLEDGEMENT = "a receiver takes the message, and its positive acknowledgement is to come"
    EARLY_POSITIVE_ACKNOWLEDGEMENT = "a later acknowledgement that overtook the delivery's own"
    POSITIVE_ACKNOWLEDGEMENT = "one of several outstanding acknowledgements comes"
    FINAL_POSITIVE_ACKNOWLEDGEMENT = "the last outstanding acknowledgement comes"
    ACKNOWLEDGE_IN_TRANSACTION = "a positive acknowledgement is recorded; it counts when the transaction commits"
    ROLLBACK_ACKNOWLEDGEMENT = "the transaction of the receiver rolls back"
    CANCEL = "the receiver gives the message back, or ends"
    EXPIRE = "the message's time is over"
    REMOVE = "the channel closes, or the message is set aside"

    __hash__ = object.__hash__


_STATE = MessageState
_EVENT = MessageEvent

TRANSITIONS: Mapping[tuple[MessageState, MessageEvent], MessageState] = MappingProxyType(
    {
        (_STATE.ABSENT, _EVENT.ACCEPT): _STATE.NEW,  # §5.2.2
        (_STATE.ABSENT, _EVENT.ACCEPT_IN_TRANSACTION): _STATE.NOT_COMMITTED,  # §5.1.2
        (_STATE.NOT_COMMITTED, _EVENT.COMMIT): _STATE.NEW,  # §5.1.3, §5.2.2
        (_STATE.NOT_COMMITTED, _EVENT.ROLLBACK): _STATE.ABSENT,  # §5.1.3
        (_STATE.NOT_COMMITTED, _EVENT.EXPIRE): _STATE.ABSENT,  # §5.1.3; the unit of work rolls back
        (_STATE.NOT_COMMITTED, _EVENT.REMOVE): _STATE.ABSENT,  # §7 close
        (_STATE.NEW, _EVENT.REFUSE): _STATE.NEW,  # §5.2.2
        (_STATE.NEW, _EVENT.NEGATIVE_ACKNOWLEDGEMENT): _STATE.DELIVERED,  # §5.2.3, §5.3.2, §6.1
        (_STATE.NEW, _EVENT.EARLY_POSITIVE_ACKNOWLEDGEMENT): _STATE.DELIVERED,  # §5.3.4, first solution
        (_STATE.NEW, _EVENT.FINAL_POSITIVE_ACKNOWLEDGEMENT): _STATE.ABSENT,  # §5.2.3: all receivers, at delivery
        (_STATE.NEW, _EVENT.EXPIRE): _STATE.ABSENT,  # §5.2.3
        (_STATE.NEW, _EVENT.REMOVE): _STATE.ABSENT,  # §7 close
        (_STATE.DELIVERED, _EVENT.REFUSE): _STATE.DELIVERED,  # §8.1.2: refused again is no acknowledgement
        (_STATE.DELIVERED, _EVENT.NEGATIVE_ACKNOWLEDGEMENT): _STATE.DELIVERED,  # §6.1
        (_STATE.DELIVERED, _EVENT.EARLY_POSITIVE_ACKNOWLEDGEMENT): _STATE.DELIVERED,  # §5.3.4, several receivers
        (_STATE.DELIVERED, _EVENT.POSITIVE_ACKNOWLEDGEMENT): _STATE.DELIVERED,  # §5.3.3: others are outstanding
        (_STATE.DELIVERED, _EVENT.FINAL_POSITIVE_ACKNOWLEDGEMENT): _STATE.ABSENT,  # §5.3.3
        (_STATE.DELIVERED, _EVENT.ACKNOWLEDGE_IN_TRANSACTION): _STATE.DELIVERED,  # §5.3.1, §6.2.1
        (_STATE.DELIVERED, _EVENT.ROLLBACK_ACKNOWLEDGEMENT): _STATE.DELIVERED,  # §6.2.1
        (_STATE.DELIVERED, _EVENT.CANCEL): _STATE.NEW,  # JMS 1.1 §4.4.11, §4.4.1: available again, redelivered
        (_STATE.DELIVERED, _EVENT.EXPIRE): _STATE.ABSENT,  # §5.3.3
        (_STATE.DELIVERED, _EVENT.REMOVE): _STATE.ABSENT,  # §7 close; JMS: set aside as a dead letter
    }
)

FORBIDDEN: frozenset[tuple[MessageState, MessageEvent]] = frozenset(
    [
        # Nothing but acceptance can happen to a message that the channel does not hold; §5.3.4 names the early
        # acknowledgement without a NEW message as an error.
        *(
            (_STATE.ABSENT, event)
            for event in MessageEvent
            if event not in {_EVENT.ACCEPT, _EVENT.ACCEPT_IN_TRANSACTION}
        ),
        # A channel accepts a message once.
        *(
            (state, event)
            for state in (_STATE.NOT_COMMITTED, _STATE.NEW, _STATE.DELIVERED)
            for event in (_EVENT.ACCEPT, _EVENT.ACCEPT_IN_TRANSACTION)
        ),
        # The sender's transaction has ended.
        *((state, event) for state in (_STATE.NEW, _STATE.DELIVERED) for event in (_EVENT.COMMIT, _EVENT.ROLLBACK)),
        # §5.1: no delivery of what is not committed, so nothing to acknowledge or give back.
        (_STATE.NOT_COMMITTED, _EVENT.REFUSE),
        (_STATE.NOT_COMMITTED, _EVENT.NEGATIVE_ACKNOWLEDGEMENT),
        (_STATE.NOT_COMMITTED, _EVENT.EARLY_POSITIVE_ACKNOWLEDGEMENT),
        (_STATE.NOT_COMMITTED, _EVENT.POSITIVE_ACKNOWLEDGEMENT),
        (_STATE.NOT_COMMITTED, _EVENT.FINAL_POSITIVE_ACKNOWLEDGEMENT),
        (_STATE.NOT_COMMITTED, _EVENT.ACKNOWLEDGE_IN_TRANSACTION),
        (_STATE.NOT_COMMITTED, _EVENT.ROLLBACK_ACKNOWLEDGEMENT),
        (_STATE.NOT_COMMITTED, _EVENT.CANCEL),
        # No acknowledgement is outstanding for a NEW message, so none of several can come, or be taken back.
        (_STATE.NEW, _EVENT.POSITIVE_ACKNOWLEDGEMENT),
        (_STATE.NEW, _EVENT.ACKNOWLEDGE_IN_TRANSACTION),
        (_STATE.NEW, _EVENT.ROLLBACK_ACKNOWLEDGEMENT),
        (_STATE.NEW, _EVENT.CANCEL),
    ]
)
"""The pairs that must not happen; with `TRANSITIONS` they are all pairs that there are."""

_NEXT = dict(TRANSITIONS)


class ForbiddenTransitionError(Exception):
    """A channel did to a message what its state forbids: a fault of the channel, never of a client."""

    def __init__(self, state: MessageState, event: MessageEvent) -> None:
        super().__init__(f"a message that is {state.name} ({state.value}) cannot have {event.name} ({event.value})")
        self.state = state
        self.event = event


def next_state(state: MessageState, event: MessageEvent) -> MessageState:
    """Return the state after `event`. Raises `ForbiddenTransitionError` for a pair that must not happen."""
    try:
        return _NEXT[state, event]
    except KeyError:
        raise ForbiddenTransitionError(state, event) from None
