"""The contract between a broker and the receivers that it pushes messages to (JBoss Messaging Core, Revision 1, §5 to §8).

A client of JMS pulls: its consumer asks for the next message. A receiver lives in the broker's process and is called with each message; it answers at
once, or acknowledges later. An application connects one to an embedded broker (`pyjms_provider.receivers`). A served broker makes
its receivers by the entry-point group ``pyjms.receivers``, whose name is the kind of receiver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self

from pyjms.spi.clock import Clock
from pyjms.spi.envelope import ConnectionId, Envelope
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ConnectionEvents, ProviderConnection
from pyjms.spi.registry import entry_points, make

__all__ = [
    "ENTRY_POINT_GROUP",
    "MessageReceiver",
    "NotAcceptedError",
    "PushTo",
    "PushedMessage",
    "ReceiverError",
    "ReceiverKind",
    "ReceiverRequest",
    "ReceiverTransaction",
    "UnknownDeliveryError",
    "find_receiver_kind",
    "receiver_kinds",
]

ENTRY_POINT_GROUP = "pyjms.receivers"


class ReceiverError(ProviderError):
    """A receiver cannot be connected as it is described; the text says what to change."""

    code = "PYJMS-RECEIVER"


class NotAcceptedError(Exception):
    """A receiver does not want a message that it accepted a moment ago (§8.1.2). It is no acknowledgement: the message is offered to others."""


class UnknownDeliveryError(ProviderError):
    """An acknowledgement came for a message that is not being delivered to the receiver (§5.3.4)."""


class PushTo(Enum):
    """To whom a channel pushes a message."""

    FIRST = "to the first receiver that takes it, in turn: point to point"
    ALL = "to all receivers that accept it"


class ReceiverTransaction(ABC):
    """A transaction of acknowledgements and sends (§2.2, §6.2.1); a context manager that commits, or rolls back after an exception."""

    @abstractmethod
    def send(self, envelope: Envelope) -> None:
        """Send a message when the transaction commits. Raises `ProviderError`."""

    @abstractmethod
    def commit(self) -> None:
        """Make all of it true. Raises `RolledBackError`, `InDoubtError`."""

    @abstractmethod
    def rollback(self) -> None:
        """Drop all of it. May be repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()
        else:
            self.rollback()


class PushedMessage(ABC):
    """One delivery of a message to one receiver."""

    @property
    @abstractmethod
    def envelope(self) -> Envelope:
        """The message."""

    @property
    @abstractmethod
    def is_redelivered(self) -> bool:
        """Whether a receiver or a consumer may have seen it before (JMS 1.1 §3.4.7)."""

    @property
    @abstractmethod
    def origin(self) -> ConnectionId | None:
        """The connection that sent the message, as the broker knows it; None: the message is older than this run of the broker, or the broker's own."""

    @abstractmethod
    def acknowledge(self, transaction: ReceiverTransaction | None = None) -> None:
        """Acknowledge the message positively, from any thread, also before `MessageReceiver.handle` has returned (§5.3.4, §6.2).

        Args:
            transaction: the acknowledgement counts when it commits; None: when the call returns, after which the message does not come again.

        Raises:
            UnknownDeliveryError: the message was acknowledged before, was released, or has expired.
            ResourceError: it could not be written, and the message comes again.
        """


class MessageReceiver(ABC):
    """Receives the messages that a channel pushes to it. Called by one thread at a time; an exception leaves the message in the channel."""

    def accept(self, message: Envelope) -> bool:
        """Return whether `handle` would take the message now (§8). Nothing is delivered by asking."""
        return True

    @abstractmethod
    def handle(self, message: PushedMessage) -> bool:
        """Take a message (§6.1).

        Returns:
            True for a positive acknowledgement: the message is done with. False: `PushedMessage.acknowledge` comes later, and the
            channel keeps the message as DELIVERED until then.

        Raises:
            NotAcceptedError: the receiver does not take it.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of what the receiver uses. Called once, when it gets no more messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverRequest:
    """The receiver that a broker asks a kind of receiver for."""

    name: str
    settings: Mapping[str, object] = field(repr=False)
    """What the kind of receiver asks for, as JSON has it; may hold secrets. The kind checks it."""
    here: Callable[[ConnectionEvents], ProviderConnection]
    """Connects to the broker that asks, for a receiver that also sends."""
    clock: Clock


class ReceiverKind(ABC):
    """Makes receivers of one kind. Made without arguments."""

    @abstractmethod
    def check(self, settings: Mapping[str, object]) -> None:
        """Look whether the settings can be used, without connecting to anything. Raises `ReceiverError`."""

    @abstractmethod
    def make(self, request: ReceiverRequest) -> MessageReceiver:
        """Return a receiver. Raises `ReceiverError`."""


def receiver_kinds() -> tuple[str, ...]:
    """Return the kinds of receivers that are installed, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def find_receiver_kind(kind: str) -> ReceiverKind:
    """Return what makes receivers of a kind. Raises `ReceiverError` when it is not installed, or cannot be made."""
    for point in entry_points(group=ENTRY_POINT_GROUP, name=kind):
        where = f"the kind of receiver {kind!r}"
        return make(point, ReceiverKind, where, ReceiverError, "install what it needs")  # type: ignore[type-abstract]
    raise ReceiverError(f"there is no kind of receiver {kind!r}; there are: {', '.join(receiver_kinds()) or 'none'}")
