"""The channel of JBoss Messaging Core: filters, receivers and channels (§7, §8).

Where the specification wires parts together with setters, a channel here gets its store, state and persistence when it is made,
and keeps them: none of them may change under messages that are in the channel. `Pusher` pushes a queue's messages to receivers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pyjms.spi.errors import DestinationError, ProviderError, ResourceError
from pyjms_provider.core.message.entry import ReceiverId

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.message.entry import Transaction
    from pyjms_provider.core.message.message_state import MessageState
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId
    from pyjms_provider.core.store import MessageStore


class UnreliableChannelError(ResourceError):
    """A channel that cannot keep a reliable message safe refuses it (§2.1)."""

    code = "PYJMS-NOT-RELIABLE"

    def __init__(self, channel: str) -> None:
        """`channel`: its name."""
        super().__init__(
            f"{channel} would lose the PERSISTENT message when the process ends, as the broker has no store, and its owner has "
            "chosen reliability=strict: send it NON_PERSISTENT, or have the broker started with store="
        )


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
