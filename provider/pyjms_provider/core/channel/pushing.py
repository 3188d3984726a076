"""How a channel pushes messages to receivers (JBoss Messaging Core §5 to §8): to each in turn, or to all that accept.

No client of this broker is pushed to: its consumers pull, and a queue without receivers asks no more than whether it has some. What stands
here, and the half of `ChannelState` that it uses, realises that specification, and is held by tests.

No lock is held while a receiver is called.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from pyjms_provider.core.channel.asynchronous_channel import AsynchronousChannel
from pyjms_provider.core.channel.channel import NotAcceptedError, Receiver, UnknownDeliveryError
from pyjms_provider.core.message.message_state import MessageState

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.core.channel.channel_state import ChannelState
    from pyjms_provider.core.journal.queue_journal import KeptQueue
    from pyjms_provider.core.message.reference import ReferenceId
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.entry import QueueEntry, ReceiverId
    from pyjms_provider.core.store.store import MessageStore
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

__all__ = ["PushTo", "PushingChannel"]

_log = logging.getLogger(__name__)


class PushTo(Enum):
    """To whom a channel pushes a message."""

    FIRST = "to the first receiver that takes it, in turn: point to point"
    ALL = "to all receivers that accept it"


class PushingChannel(AsynchronousChannel):
    """The part of a channel that knows receivers."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        state: ChannelState,
        clock: Clock,
        *,
        on_due: Callable[[AsynchronousChannel, int], None] | None,
        kept: KeptQueue | None,
    ) -> None:
        """Make a channel without receivers. The arguments are those of `AsynchronousChannel`."""
        super().__init__(name, store, state, clock, on_due=on_due, kept=kept)
        self._push_to = PushTo.FIRST
        self._receivers: tuple[Receiver, ...] = ()

    def add_receiver(self, receiver: Receiver) -> None:
        """Connect a receiver: messages are pushed to it from now on, older ones with the next `deliver`."""
        with self._lock:
            self._receivers = (*self._receivers, receiver)

    def remove_receiver(self, receiver: Receiver) -> None:
        """Disconnect a receiver; what it owes stays, and it may still ask for redelivery (§7.5)."""
        with self._lock:
            self._receivers = tuple(other for other in self._receivers if other is not receiver)

    # Messages are pushed

    def deliver(self) -> bool:
        with self._lock:
            waiting = list(self._ordering)
        for entry in waiting:
            self._push(entry)
        return not self.has_messages(MessageState.NEW)

    def redeliver(self, receiver: Receiver) -> None:
        receiver_id = receiver.receiver_id
        with self._lock:
            owed = self._state.owed_by(receiver_id)
        for entry in owed:
            with self._lock:
                begun = self._state.begin_push_again(entry, receiver_id)
            if begun:
                # A refusal leaves all as it was: the receiver owes what it owed (§8.1.2).
                self._end_push(entry, receiver_id, self._offer(receiver, entry) or False)

    def _push(self, entry: QueueEntry) -> None:
        """Offer an available message to the receivers (§5.2.3, §5.3.2)."""
        with self._lock:
            if self._remove_if_expired(entry) or self._state.begin_push(entry) is None:
                return
            receivers = self._receivers
        handled = False
        for receiver in receivers:
            answer = self._offer(receiver, entry)
            if answer is None:
                continue
            handled = True
            with self._lock:
                self._state.update(entry, receiver.receiver_id, answer)
                if self._push_to is PushTo.FIRST:
                    # In turn: who took this message is asked last for the next.
                    self._receivers = (*(other for other in self._receivers if other is not receiver), receiver)
            if self._push_to is PushTo.FIRST:
                break
        with self._lock:
            if self._state.end_push(entry, handled=handled):
                self._forget(entry)

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
            _log.exception("%s: receiver %s is broken; the message is kept", self._name, receiver.receiver_id)
            return None

    def _end_push(self, entry: QueueEntry, receiver_id: ReceiverId, positive: bool) -> None:
        with self._lock:
            self._state.update(entry, receiver_id, positive)
            if self._state.end_push(entry, handled=True):
                self._forget(entry)

    def _push_or_choose(self, entry: QueueEntry) -> None:
        """Push a message that has just become available; when nobody takes it, wake a consumer that may."""
        self._push(entry)
        with self._lock:
            woken = self._choose(entry) if entry.state is MessageState.NEW else ()
        for consumer in woken:
            consumer.notify_work()

    def acknowledge(
        self, message_id: ReferenceId, receiver_id: ReceiverId, transaction: UnitOfWork | None = None
    ) -> None:
        with self._lock:
            entry = self._state.pushed(message_id)
            if entry is None:
                # §5.3.4: without a message that is being delivered there is nothing that could be acknowledged.
                raise UnknownDeliveryError(
                    f"{self._name} is not delivering message {message_id}, so {receiver_id} cannot acknowledge it; "
                    f"it may have been acknowledged before, or have expired"
                )
            if transaction is None:
                if self._state.update_later(entry, receiver_id):
                    self._forget(entry)
                return
            if entry.state is MessageState.DELIVERED:
                self._state.record_acknowledgement(entry, transaction)
        transaction.add_acknowledgement(entry, receiver_id)

    def apply_acknowledgements(self, acknowledged: Iterable[tuple[QueueEntry, ReceiverId]]) -> None:
        """Apply acknowledgements of pushed messages whose unit of work commits (§6.2.1)."""
        with self._lock:
            for entry, receiver_id in acknowledged:
                entry.transaction = None
                if self._state.update_later(entry, receiver_id):
                    self._forget(entry)

    def close(self) -> None:
        super().close()
        with self._lock:
            self._receivers = ()

    # With the lock held

    @abstractmethod
    def _choose(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Return the consumers to wake, after the lock is released, for a message that is available now."""
