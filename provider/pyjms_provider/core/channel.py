"""The channel of JBoss Messaging Core: filters, receivers and channels (§7, §8), and how messages are pushed to receivers (§5 to §8).

The specification connects parts with setters; a channel here gets its store, state and persistence from its constructor,
and keeps them: none of them may change under messages that are in the channel.

No client of this broker is pushed to: its consumers pull, and a queue without receivers only checks whether it has some. `Pusher`, and the half of
`ChannelState` that it uses, implement that specification, and are covered by tests.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING

from pyjms.spi.errors import DestinationError, ProviderError, ResourceError
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.message.message_state import MessageState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.message.entry import QueueEntry, Transaction
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId
    from pyjms_provider.core.queue.contracts import QueueCore
    from pyjms_provider.core.store import MessageStore


class NotAcceptedError(Exception):
    """A receiver refuses a message after it had accepted it (§8.1.2). It is no acknowledgement."""


class UnreliableChannelError(ResourceError):
    """A channel that cannot keep a reliable message safe refuses it (§2.1)."""

    code = "PYJMS-NOT-RELIABLE"

    def __init__(self, channel: str) -> None:
        """`channel`: its name."""
        super().__init__(
            f"{channel} would lose the PERSISTENT message when the process ends, as the broker has no store, and its owner has "
            "chosen reliability=strict: send it NON_PERSISTENT, or have the broker started with store="
        )


class UnknownDeliveryError(ProviderError):
    """An acknowledgement for a message that is not being delivered (§5.3.4)."""


class ChannelClosedError(DestinationError):
    """The channel was closed, so it accepts no more messages."""


class Filter(ABC):
    """Decides whether a message is wanted (§8)."""

    @abstractmethod
    def accept(self, reference: MessageReference) -> bool:
        """Return whether the message would be handled now; nothing is delivered."""


class SelectorFilter(Filter):
    """A filter that wants the messages matching a selector (JMS 1.1 §3.8)."""

    def __init__(self, store: MessageStore, selector: Selector) -> None:
        self._store = store
        self._selector = selector

    def accept(self, reference: MessageReference) -> bool:
        """Return whether the selector holds for the message."""
        return self._selector.matches(self._store.retrieve(reference))


class Receiver(Filter):
    """A target to which a channel pushes messages (§7, §8)."""

    @property
    @abstractmethod
    def receiver_id(self) -> ReceiverId:
        """The name under which acknowledgements of this receiver are recorded."""

    @abstractmethod
    def handle(
        self, reference: MessageReference, transaction: Transaction | None = None, redelivered: bool = False
    ) -> bool:
        """Take the message; return True for a positive acknowledgement, False if that one comes later (§6.1).

        Raises `NotAcceptedError` if the receiver refuses it after `accept` (§8.1.2). The caller keeps its
        own hold on the message; a receiver that keeps it longer acquires one.
        """


class Channel(Receiver):
    """Forwards message references to its receivers (§7). Safe to use from any thread."""

    def __init__(self, name: str, store: MessageStore) -> None:
        self._name = name
        self.store = store

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    @property
    def name(self) -> str:
        """The name of this channel in errors."""
        return self._name

    @property
    def receiver_id(self) -> ReceiverId:
        """A channel receives under its own name."""
        return ReceiverId(self._name)

    @property
    @abstractmethod
    def is_synchronous(self) -> bool:
        """Whether the receivers' acknowledgement is returned to the sender at once, and nothing is stored (§2)."""

    @property
    @abstractmethod
    def is_reliable(self) -> bool:
        """Whether reliable messages survive the process here (§7.1)."""

    @property
    @abstractmethod
    def is_transactional(self) -> bool:
        """Whether messages and acknowledgements can be transacted (§7.2)."""

    @property
    @abstractmethod
    def is_storing_undeliverable(self) -> bool:
        """Whether a message without receivers is stored (True) or discarded (False); both acknowledge it (§5.2.4)."""

    @abstractmethod
    def enqueue(self, reference: MessageReference, transaction: Transaction | None = None) -> bool:
        """Handle the message as `handle` does, but take over the caller's hold on it.

        Raises `ChannelClosedError`, `UnreliableChannelError`; the hold then stays with the caller.
        """

    def handle(
        self, reference: MessageReference, transaction: Transaction | None = None, redelivered: bool = False
    ) -> bool:
        """Take the message, with a hold of the channel's own; see `enqueue`."""
        # The caller keeps its own hold, so the channel needs one before the message can be released.
        self.store.acquire(reference, 1)
        try:
            return self.enqueue(reference, transaction)
        except ProviderError:
            self.store.release(reference)
            raise

    @abstractmethod
    def deliver(self) -> bool:
        """Offer every message that is NEW now to the receivers; return False if NEW messages remain (§7.4)."""

    @abstractmethod
    def redeliver(self, receiver: Receiver) -> None:
        """Offer `receiver`, connected or not, all DELIVERED messages whose acknowledgement it owes (§7.5)."""

    @abstractmethod
    def browse(self, message_filter: Filter | None = None) -> list[Envelope]:
        """Return the waiting messages that the filter accepts, in order; None: all (§7.6)."""

    @abstractmethod
    def acknowledge(
        self, message_id: ReferenceId, receiver_id: ReceiverId, transaction: Transaction | None = None
    ) -> None:
        """Accept a positive acknowledgement that comes after delivery, or overtakes it (§6.2, §5.3.4).

        Within a transaction it takes effect with the commit. Raises `UnknownDeliveryError`.
        """

    @abstractmethod
    def close(self) -> None:
        """Release all messages and accept no more. May be repeated."""

    @abstractmethod
    def has_messages(self, state: MessageState) -> bool:
        """Return whether a message is in `state`, without looking at each (§7.7)."""

    @abstractmethod
    def get_messages(self, state: MessageState) -> list[MessageReference]:
        """Return the messages in `state` (§7.7)."""


_log = logging.getLogger(__name__)


class PushTo(Enum):
    """The order in which receivers are offered a message."""

    FIRST = "to the first receiver that takes it, in turn: point to point"
    ALL = "to all receivers that accept it"


class Pusher:
    """Pushes the messages of one channel to its receivers."""

    __slots__ = ("_channel", "push_to", "receivers")

    def __init__(self, channel: QueueCore) -> None:
        """Make a pusher without receivers."""
        self._channel = channel
        self.push_to = PushTo.FIRST
        self.receivers: tuple[Receiver, ...] = ()

    def add(self, receiver: Receiver) -> None:
        """Connect a receiver."""
        with self._channel.lock:
            self.receivers = (*self.receivers, receiver)
            self._channel.has_receivers = True

    def remove(self, receiver: Receiver) -> None:
        """Disconnect a receiver; it still owes its acknowledgements."""
        with self._channel.lock:
            self.receivers = tuple(other for other in self.receivers if other is not receiver)
            self._channel.has_receivers = bool(self.receivers)

    def deliver(self) -> bool:
        """Push as `Channel.deliver` says."""
        with self._channel.lock:
            # A copy: receivers are called without the lock, and may change the order.
            waiting = list(self._channel.ordering)
        for entry in waiting:
            self.push(entry)
        with self._channel.lock:
            return not self._channel.state.count(MessageState.NEW)

    def redeliver(self, receiver: Receiver) -> None:
        """Push again as `Channel.redeliver` says."""
        receiver_id, channel = receiver.receiver_id, self._channel
        with channel.lock:
            owed = channel.state.owed_by(receiver_id)
        for entry in owed:
            with channel.lock:
                # One at a time, under the lock: the receiver may have acknowledged others while it handled this one.
                begun = channel.state.begin_push_again(entry, receiver_id)
            if begun:
                # A refusal changes nothing: the receiver still owes the acknowledgement (§8.1.2).
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
            # A copy: receivers may be added or removed while those here are called, without the lock.
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
                    # In turn: the receiver that took this message is offered the next one last.
                    self.receivers = (*(other for other in self.receivers if other is not receiver), receiver)
            if self.push_to is PushTo.FIRST:
                break
        with channel.lock:
            self._end_push(entry, handled=handled)

    def _offer(self, receiver: Receiver, entry: QueueEntry) -> bool | None:
        """Return the receiver's acknowledgement, or None if there is none: it does not accept, or is broken."""
        try:
            # No lock is held: a receiver may wait here for another thread that uses the channel.
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
        self, message_id: ReferenceId, receiver_id: ReceiverId, transaction: Transaction | None = None
    ) -> None:
        """Acknowledge as `Channel.acknowledge` says."""
        channel = self._channel
        with channel.lock:
            entry = channel.state.pushed(message_id)
            if entry is None:
                # §5.3.4: without a message that is being delivered there is nothing to acknowledge.
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
        # Without the channel's lock, as a unit's comes before it.
        transaction.add_acknowledgement(entry, receiver_id)

    def apply_acknowledgements(self, acknowledged: Iterable[tuple[QueueEntry, ReceiverId]]) -> None:
        """Apply acknowledgements of pushed messages whose unit of work commits (§6.2.1)."""
        channel = self._channel
        with channel.lock:
            for entry, receiver_id in acknowledged:
                entry.transaction = None
                if channel.state.update_later(entry, receiver_id):
                    channel.forget(entry)
