"""The state of one message in one channel, as a table (JBoss Messaging Core, Revision 1, §5 and §6).

The state of a message is decided here alone; a channel never assigns a state but through
`TRANSITIONS`. Section numbers in the table are those of that specification. Additions that JMS alone needs are
marked "JMS".

Elsewhere by intent: *when* the last outstanding acknowledgement has come (`channel_state.py`: the guard that chooses
between POSITIVE_ACKNOWLEDGEMENT and FINAL_POSITIVE_ACKNOWLEDGEMENT), and where available messages wait (`entry_list.py`).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from pyjms_provider.core.state_machine import StateMachine


class MessageState(Enum):
    """The four states of §5."""

    ABSENT = "not in channel"
    NOT_COMMITTED = "accepted in a transaction that has not ended"
    NEW = "accepted, and delivered to nobody yet"
    DELIVERED = "delivered, with an acknowledgement outstanding"

    __hash__ = object.__hash__  # members are looked up for every message; Enum's own hash is a Python function


class MessageEvent(Enum):
    """An event of a message in a channel."""

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

TRANSITIONS: Final = StateMachine(
    "a message",
    {
        _STATE.ABSENT: {
            _EVENT.ACCEPT: _STATE.NEW,  # §5.2.2
            _EVENT.ACCEPT_IN_TRANSACTION: _STATE.NOT_COMMITTED,  # §5.1.2
        },
        _STATE.NOT_COMMITTED: {
            _EVENT.COMMIT: _STATE.NEW,  # §5.1.3, §5.2.2
            _EVENT.ROLLBACK: _STATE.ABSENT,  # §5.1.3
            _EVENT.EXPIRE: _STATE.ABSENT,  # §5.1.3; the unit of work rolls back
            _EVENT.REMOVE: _STATE.ABSENT,  # §7 close
        },
        _STATE.NEW: {
            _EVENT.REFUSE: _STATE.NEW,  # §5.2.2
            _EVENT.NEGATIVE_ACKNOWLEDGEMENT: _STATE.DELIVERED,  # §5.2.3, §5.3.2, §6.1
            _EVENT.EARLY_POSITIVE_ACKNOWLEDGEMENT: _STATE.DELIVERED,  # §5.3.4, first solution
            _EVENT.FINAL_POSITIVE_ACKNOWLEDGEMENT: _STATE.ABSENT,  # §5.2.3: all receivers, at delivery
            _EVENT.EXPIRE: _STATE.ABSENT,  # §5.2.3
            _EVENT.REMOVE: _STATE.ABSENT,  # §7 close
        },
        _STATE.DELIVERED: {
            _EVENT.REFUSE: _STATE.DELIVERED,  # §8.1.2: refused again is no acknowledgement
            _EVENT.NEGATIVE_ACKNOWLEDGEMENT: _STATE.DELIVERED,  # §6.1
            _EVENT.EARLY_POSITIVE_ACKNOWLEDGEMENT: _STATE.DELIVERED,  # §5.3.4, several receivers
            _EVENT.POSITIVE_ACKNOWLEDGEMENT: _STATE.DELIVERED,  # §5.3.3: others are outstanding
            _EVENT.FINAL_POSITIVE_ACKNOWLEDGEMENT: _STATE.ABSENT,  # §5.3.3
            _EVENT.ACKNOWLEDGE_IN_TRANSACTION: _STATE.DELIVERED,  # §5.3.1, §6.2.1
            _EVENT.ROLLBACK_ACKNOWLEDGEMENT: _STATE.DELIVERED,  # §6.2.1
            _EVENT.CANCEL: _STATE.NEW,  # JMS 1.1 §4.4.11, §4.4.1: available again, redelivered
            _EVENT.EXPIRE: _STATE.ABSENT,  # §5.3.3
            _EVENT.REMOVE: _STATE.ABSENT,  # §7 close; JMS: dead-lettered
        },
    },
)
