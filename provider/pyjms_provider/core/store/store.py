"""The contract of message stores (JBoss Messaging Core §3): messages in, references out, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

from pyjms.spi.envelope import ConnectionId, Envelope
from pyjms_provider.core.message.reference import MessageReference


class NotAtOnceError(Exception):
    """What was asked for takes a while. Who may not wait has somebody ask again who may; nothing has come of the call."""


class NotInMemoryError(NotAtOnceError):
    """The message is kept elsewhere. Who holds a lock lets go of it, calls `MessageStore.load`, and tries again."""

    def __init__(self, reference: MessageReference) -> None:
        super().__init__(f"{reference!r} is not in memory")
        self.reference = reference


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
    def refer(self, envelope: Envelope, origin: ConnectionId | None) -> MessageReference:
        """Return a reference to a message of which nothing is kept here until `keep`: `store` by steps."""

    @abstractmethod
    def keep(self, reference: MessageReference, envelope: Envelope) -> None:
        """Keep the message of a reference that `refer` made."""

    @abstractmethod
    def take_back(self, reference: MessageReference) -> None:
        """Forget a message that nobody has taken, if `keep` knows it already."""

    @abstractmethod
    def retrieve(self, reference: MessageReference) -> Envelope:
        """Return the message. Never waits.

        Raises `KeyError` when nobody holds it any more, `NotInMemoryError` when it must be loaded.
        """

    @property
    def keeps_all_in_memory(self) -> bool:
        """Whether no message ever leaves memory, so that nothing need be loaded."""
        return True

    def fetch(self, reference: MessageReference) -> Envelope | None:
        """Return the message, from the disk if it is not in memory, where it need not stay. May wait for a disk.

        None: nobody holds it any more, or it cannot be read. Raises `ResourceError`.
        """
        try:
            return self.retrieve(reference)
        except KeyError:
            return None

    def load(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        """Bring messages into memory that are still held; return those that cannot be read. Raises `ResourceError`.

        May wait for a disk, so it is called without a lock held.
        """
        return ()

    def publish(self, reference: MessageReference) -> None:  # noqa: B027 - a store that keeps all has nothing to do
        """Hear that the message is where it goes to, so that it may leave memory: also before its transaction commits."""

    def drop_copy(self, reference: MessageReference) -> None:  # noqa: B027 - as before
        """Hear that a journal keeps the message from now on: what was written of it to make room is not needed. Never waits."""

    def leave(self, references: Sequence[MessageReference], *, are_coming: bool = False) -> None:  # noqa: B027 - as before
        """Let messages leave memory although there is room: now if they are kept elsewhere, else with the next `relieve`.

        Those that were not published are left alone. `are_coming`: others may look at them before they take them, so
        what several hold leaves when one of these lets go. Never waits.
        """

    @property
    def is_pressed(self) -> bool:
        """Whether `relieve` has something to do, so that it may wait."""
        return False

    def relieve(self, *, of_all: bool = True) -> None:  # noqa: B027
        """Take messages out of memory if they are too many. May wait for a disk, as `load`. Raises `ResourceError`.

        Not `of_all`: only those that were told to `leave`.
        """

    @abstractmethod
    def acquire(self, reference: MessageReference, holders: int) -> None:
        """Add `holders` holders. The caller is a holder itself, so the message is still there."""

    @abstractmethod
    def release(self, reference: MessageReference) -> None:
        """Take one holder away; with the last one the message is forgotten."""

    @abstractmethod
    def release_all(self, references: Iterable[MessageReference]) -> None:
        """Take one holder away from each, as `release` does."""

    @abstractmethod
    def remove(self, reference: MessageReference) -> None:
        """Forget the message, whoever holds it (§3.4). Repeating it changes nothing."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of messages."""
