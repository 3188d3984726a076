"""Repeatable reading and writing in numbered units, as data pipelines need it from a message system.

A *reader group* is a durable name that owns a growing, dense sequence of messages of one queue or durable subscription.
Messages are reserved for it, read as often as one likes, and acknowledged up to a number (`Capability.REPLAY`).

A *staged unit* is a transaction that was stored safely under a name instead of being committed; a whole epoch of units
becomes visible in one step, once, even if the request is repeated (`Capability.STAGE`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pyjms.spi.envelope import Address, Envelope, fact

__all__ = [
    "GroupRequest",
    "OpenGroup",
    "ReaderGroup",
    "ReaderGroups",
    "ReservedMessage",
    "StageName",
    "StagedUnit",
    "Stages",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """The source of one reader group."""

    name: str
    """1 to 200 characters, unique among the groups of the message system."""
    address: Address
    """The queue; or the topic of the durable subscription."""
    subscription: str | None = None
    """Topics only: the name of the durable subscription of the connection's client id; created if it does not exist."""
    selector: str | None = None
    """Only messages that it selects are reserved; the others stay for other consumers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderGroup:
    """The progress of one reader group. Its messages are numbered from 1, without gaps."""

    name: str
    address: Address
    subscription: str | None
    client_id: str | None
    selector: str | None
    generation: str
    """Numbers of different generations are unrelated: the group was released, or its store replaced."""
    low: int
    """The highest number that is acknowledged; 0: none."""
    high: int
    """The highest number that is reserved; ``high - low`` messages are held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGroup:
    """A reader group opened by its present owner."""

    group: ReaderGroup
    fence: int
    """1 at the first opening of a group, and greater with each later one; calls with an older one raise `FencedError`."""


@fact
class ReservedMessage:
    """One message of a reader group; the same each time it is read."""

    number: int
    envelope: Envelope
    """It may have expired since it was reserved: it was deliverable then, and a repeated read must return it again."""
    count: int
    """How often it was delivered when it was reserved, this time included."""
    redelivered: bool


class ReaderGroups(ABC):
    """The operations on reader groups. Any thread; those of one group are called by one planner and any number of readers."""

    @abstractmethod
    def open(self, request: GroupRequest) -> OpenGroup:
        """Create the group, or take it over from its present owner.

        Raises `DestinationError`, `InvalidSelectorError`, `AccessDeniedError`; `GroupError` when the group exists and
        reads something else, or the subscription exists with other terms; `SubscriptionInUseError` when that has a subscriber.
        """

    @abstractmethod
    def reserve(self, opened: OpenGroup, *, after: int, max_messages: int, max_bytes: int | None, wait_ms: int) -> int:
        """Number the next deliverable messages so that at most `max_messages` follow `after`; return the highest number.

        They are the group's from then on, durably: no other consumer gets them. At most `max_bytes` of bodies and
        properties, but one message at least. Waits up to `wait_ms` milliseconds, at most 1,000, when there is no message.
        Returns ``min(high, after + max_messages)`` without reserving when enough is reserved already.
        Raises `FencedError`; `GroupError` when `after` is not between low and high.
        """

    @abstractmethod
    def read(self, name: str, generation: str, *, after: int, upto: int) -> Sequence[ReservedMessage]:
        """Return messages from ``after + 1``, at most to `upto`, in order: as many as make a page, one at least.

        Empty only when ``after >= upto``. Changes nothing. Raises `GroupError` when the group or generation does not
        exist, when `upto` was never reserved, or when ``after + 1`` was acknowledged already; `ResourceError` when that
        message cannot be read, and never will be if the message system has quarantined it: acknowledging up to it remains possible.
        """

    @abstractmethod
    def acknowledge(self, opened: OpenGroup, upto: int) -> None:
        """Settle all messages up to number `upto`, in one unit of work; those settled before are left alone.

        Raises `FencedError`; `GroupError` when `upto` was never reserved.
        """

    @abstractmethod
    def release(self, name: str) -> int:
        """End the group: its messages return to their places, marked redelivered. Return how many there were.

        Raises `GroupError` when there is no such group.
        """

    @abstractmethod
    def groups(self) -> Sequence[ReaderGroup]:
        """Return all groups, by name."""


@dataclass(frozen=True, slots=True, order=True)
class StageName:
    """The name of a staged unit. Two units never have the same name, as each attempt makes its own."""

    sink: str
    """The writer: 1 to 200 characters, unique among the sinks of the message system."""
    epoch: int
    """0 or more; it only increases."""
    partition: int
    attempt: str
    """Any text that no other attempt has, 1 to 100 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedUnit:
    """One unit that waits to be promoted or discarded."""

    name: StageName
    messages: int
    staged_ms: int
    """When it was staged, in milliseconds since 1970 UTC."""
    discarded_after_ms: int
    """The time when the message system discards it by itself, in milliseconds since 1970 UTC."""


class Stages(ABC):
    """The operations on units that `ProviderSession.stage` made. Any thread."""

    @abstractmethod
    def promote(self, sink: str, epoch: int, units: Sequence[StageName]) -> bool:
        """Make exactly `units` visible and set the sink's marker to `epoch`, in one unit of work; discard all other
        units of the sink up to this epoch. Do nothing and return False when the marker is `epoch` already, or beyond: also
        when the provider repeats this very call after its connection was lost.

        False also means that an earlier promotion without an answer was finished now, with the units that were named then: those of
        this call wait until they are discarded. An epoch without units only moves the marker. Raises `StageError` when a unit does not exist, or was staged by
        another sink or for another epoch: nothing is done then.
        """

    @abstractmethod
    def discard(self, units: Sequence[StageName]) -> None:
        """Drop `units`; those that do not exist, or were promoted, are skipped."""

    @abstractmethod
    def marker(self, sink: str) -> int | None:
        """Return the last promoted epoch, or None."""

    @abstractmethod
    def units(self, sink: str | None = None) -> Sequence[StagedUnit]:
        """Return the waiting units, of one sink or of all, by name."""
