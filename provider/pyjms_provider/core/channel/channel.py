"""The contracts of JBoss Messaging Core §7 and §8: filters, receivers, channels.

Where the seed wires parts together with setters, a channel here gets its store, state and persistence when it is made,
and keeps them: none of them may change under messages that are in the channel.

No client of this broker is pushed to: its consumers pull. What pushes, to a `Receiver`, stands in `pushing.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import DestinationError, ProviderError, ResourceError
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.queue.entry import ReceiverId
from pyjms_provider.core.store.store import MessageStore

if TYPE_CHECKING:
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork


class NotAcceptedError(Exception):
    """A receiver no longer wants the message that it is asked to handle (§8.1.2). It is no acknowledgement."""


class UnreliableChannelError(ResourceError):
    """A channel that cannot keep a reliable message safe refuses it (§2.1)."""


class UnknownDeliveryError(ProviderError):
    """An acknowledgement came for a message that is not being delivered to anybody (§5.3.4)."""


class ChannelClosedError(DestinationError):
    """The channel was closed, so it takes no more messages."""


class Filter(ABC):
    """Whoever can say whether a message is wanted (§8)."""

    @abstractmethod
    def accept(self, reference: MessageReference) -> bool:
        """Return whether the message would be handled now. Nothing is delivered by asking."""


class SelectorFilter(Filter):
    """Wants what a selector matches (JMS 1.1 §3.8)."""

    def __init__(self, store: MessageStore, selector: Selector) -> None:
        self._store = store
        self._selector = selector

    def accept(self, reference: MessageReference) -> bool:
        """Return whether the selector holds for the message."""
        return self._selector.matches(self._store.retrieve(reference))


class Receiver(Filter):
    """Whoever a channel pushes messages to (§7, §8)."""

    @property
    @abstractmethod
    def receiver_id(self) -> ReceiverId:
        """The name under which acknowledgements of this receiver are kept."""

    @abstractmethod
    def handle(
        self, reference: MessageReference, transaction: UnitOfWork | None = None, redelivered: bool = False
    ) -> bool:
        """Take the message; return True for a positive acknowledgement, False if that one comes later (§6.1).

        Raises `NotAcceptedError` when the receiver's mind has changed since `accept` (§8.1.2). The caller keeps its
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
        """What errors call this channel."""
        return self._name

    @property
    def receiver_id(self) -> ReceiverId:
        """A channel receives under its own name."""
        return ReceiverId(self._name)

    @property
    @abstractmethod
    def is_synchronous(self) -> bool:
        """Whether the receivers' acknowledgement goes straight back to the sender, and nothing is stored (§2)."""

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
        """Whether a message that nobody takes is kept (True) or discarded (False); both acknowledge it (§5.2.4)."""

    @abstractmethod
    def enqueue(self, reference: MessageReference, transaction: UnitOfWork | None = None) -> bool:
        """Do as `handle`, but the caller's hold on the message passes to the channel.

        Raises `ChannelClosedError`, `UnreliableChannelError`; the hold then stays with the caller.
        """

    def handle(
        self, reference: MessageReference, transaction: UnitOfWork | None = None, redelivered: bool = False
    ) -> bool:
        """Take the message, with a hold of the channel's own; see `enqueue`."""
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
        """Return the messages that wait here, in order; None: all (§7.6)."""

    @abstractmethod
    def acknowledge(
        self, message_id: ReferenceId, receiver_id: ReceiverId, transaction: UnitOfWork | None = None
    ) -> None:
        """Take a positive acknowledgement that comes after delivery, or overtakes it (§6.2, §5.3.4).

        Within a transaction it counts from the commit on. Raises `UnknownDeliveryError`.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of all messages and take no more. May be repeated."""

    @abstractmethod
    def has_messages(self, state: MessageState) -> bool:
        """Return whether a message is in `state`, without looking at each (§7.7)."""

    @abstractmethod
    def get_messages(self, state: MessageState) -> list[MessageReference]:
        """Return the messages in `state` (§7.7)."""
