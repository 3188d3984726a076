"""How a channel pushes messages to receivers (JBoss Messaging Core §5 to §8): to each in turn, or to all that accept.

No client of this broker is pushed to: its consumers pull, and a queue without receivers asks no more than whether it has some. What stands
here, and the half of `ChannelState` that it uses, realises that specification, and is held by tests.

No lock is held while a receiver is called.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING

from pyjms_provider.core.channel.channel import NotAcceptedError, Receiver, UnknownDeliveryError
from pyjms_provider.core.message.message_state import MessageState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyjms_provider.core.message.reference import ReferenceId
    from pyjms_provider.core.queue.contracts import QueueCore
    from pyjms_provider.core.queue.entry import QueueEntry, ReceiverId
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

_log = logging.getLogger(__name__)


class PushTo(Enum):
    """To whom a channel pushes a message."""

    FIRST = "to the first receiver that takes it, in turn: point to point"
    ALL = "to all receivers that accept it"


class Pusher:
    """Pushes the messages of one channel to its receivers."""

    __slots__ = ("_channel", "push_to", "receivers")

    def __init__(self, channel: QueueCore) -> None:
        """Make one without receivers."""
        self._channel = channel
        self.push_to = PushTo.FIRST
        self.receivers: tuple[Receiver, ...] = ()

    def add(self, receiver: Receiver) -> None:
        """Connect a receiver."""
        with self._channel.lock:
            self.receivers = (*self.receivers, receiver)
            self._channel.has_receivers = True

    def remove(self, receiver: Receiver) -> None:
        """Disconnect a receiver; what it owes stays."""
        with self._channel.lock:
            self.receivers = tuple(other for other in self.receivers if other is not receiver)
            self._channel.has_receivers = bool(self.receivers)

    def deliver(self) -> bool:
        """Do as `Channel.deliver`."""
        with self._channel.lock:
            waiting = list(self._channel.ordering)
        for entry in waiting:
            self.push(entry)
        with self._channel.lock:
            return not self._channel.state.count(MessageState.NEW)

    def redeliver(self, receiver: Receiver) -> None:
        """Do as `Channel.redeliver`."""
        receiver_id, channel = receiver.receiver_id, self._channel
        with channel.lock:
            owed = channel.state.owed_by(receiver_id)
        for entry in owed:
            with channel.lock:
                begun = channel.state.begin_push_again(entry, receiver_id)
            if begun:
                # A refusal leaves all as it was: the receiver owes what it owed (§8.1.2).
                is_positive = self._offer(receiver, entry) or False
                with channel.lock:
                    channel.state.update(entry, receiver_id, is_positive)
                    self._end_push(entry, handled=True)

    def push(self, entry: QueueEntry) -> None:
        """Offer an available message to the receivers (§5.2.3, §5.3.2)."""
        channel = self._channel
        with channel.lock:
            if channel.remove_if_expired(entry) or channel.state.begin_push(entry) is None:
                return
            receivers = self.receivers
        handled = False
        for receiver in receivers:
            answer = self._offer(receiver, entry)
            if answer is None:
                continue
            handled = True
            with channel.lock:
                channel.state.update(entry, receiver.receiver_id, answer)
                if self.push_to is PushTo.FIRST:
                    # In turn: the receiver that took this message is asked last for the next.
                    self.receivers = (*(other for other in self.receivers if other is not receiver), receiver)
            if self.push_to is PushTo.FIRST:
                break
        with channel.lock:
            self._end_push(entry, handled=handled)

    def _offer(self, receiver: Receiver, entry: QueueEntry) -> bool | None:
        """Return the receiver's acknowledgement, or None if there is none: it does not accept, or is broken."""
        try:
            if not receiver.accept(entry.reference):
                return None
            return receiver.handle(entry.reference, None, entry.redelivered)
        except NotAcceptedError:
            return None
        except Exception:
            # §5.2: a receiver that raises anything else is broken; the message must not be lost with it.
            _log.exception("%s: receiver %s is broken; the message is kept", self._channel.name, receiver.receiver_id)
            return None

    def _end_push(self, entry: QueueEntry, *, handled: bool) -> None:
        """End a delivery. The lock is held."""
        if self._channel.state.end_push(entry, handled=handled):
            self._channel.forget(entry)

    def acknowledge(
        self, message_id: ReferenceId, receiver_id: ReceiverId, transaction: UnitOfWork | None = None
    ) -> None:
        """Do as `Channel.acknowledge`."""
        channel = self._channel
        with channel.lock:
            entry = channel.state.pushed(message_id)
            if entry is None:
                # §5.3.4: without a message that is being delivered there is nothing that could be acknowledged.
                raise UnknownDeliveryError(
                    f"{channel.name} is not delivering message {message_id}, so {receiver_id} cannot acknowledge it; "
                    f"it may have been acknowledged before, or have expired"
                )
            if transaction is None:
                if channel.state.update_later(entry, receiver_id):
                    channel.forget(entry)
                return
            if entry.state is MessageState.DELIVERED:
                channel.state.record_acknowledgement(entry, transaction)
        transaction.add_acknowledgement(entry, receiver_id)

    def apply_acknowledgements(self, acknowledged: Iterable[tuple[QueueEntry, ReceiverId]]) -> None:
        """Apply acknowledgements of pushed messages whose unit of work commits (§6.2.1)."""
        channel = self._channel
        with channel.lock:
            for entry, receiver_id in acknowledged:
                entry.transaction = None
                if channel.state.update_later(entry, receiver_id):
                    channel.forget(entry)
