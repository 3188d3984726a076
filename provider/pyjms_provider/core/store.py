"""The contract of message stores (JBoss Messaging Core §3): messages in, references out, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from pyjms.spi.envelope import ConnectionId, Envelope
from pyjms_provider.core.reference import MessageReference

__all__ = ["MessageStore", "PersistenceManager"]


class PersistenceManager(Protocol):
    """What makes stores and channel states reliable (§4); the seed leaves all but this to the implementer."""

    @property
    def is_reliable(self) -> bool:
        """Whether what it keeps survives the process."""
        ...


class MessageStore(ABC):
    """A repository of messages, shared by the channels of one virtual host (§3).

    A reference begins with one holder: whoever stored the message. `acquire` adds holders, `release` takes one away,
    and the message goes with the last. All methods may be called from any thread; none calls back.
    """

    @property
    @abstractmethod
    def store_id(self) -> str:
        """The name of this store (§3.4)."""

    @property
    @abstractmethod
    def is_reliable(self) -> bool:
        """Whether messages survive the process: there is a reliable persistence manager (§3.1)."""

    @property
    @abstractmethod
    def is_transactional(self) -> bool:
        """Whether `store` takes part in transactions (§3.2)."""

    @abstractmethod
    def store(self, envelope: Envelope, origin: ConnectionId | None) -> MessageReference:
        """Keep `envelope`, sent by connection `origin`, and return its reference with one holder."""

    @abstractmethod
    def retrieve(self, reference: MessageReference) -> Envelope:
        """Return the message. Raises `KeyError` when nobody holds it any more."""

    @abstractmethod
    def acquire(self, reference: MessageReference, holders: int) -> None:
        """Add `holders` holders. The caller is a holder itself, so the message is still there."""

    @abstractmethod
    def release(self, reference: MessageReference) -> None:
        """Take one holder away; with the last one the message is forgotten."""

    @abstractmethod
    def remove(self, reference: MessageReference) -> None:
        """Forget the message, whoever holds it (§3.4). Repeating it changes nothing."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of messages."""
