"""Reading and writing in numbered pieces that can be done again: what a data pipeline asks of a message system.

A *reader group* is a durable name that owns a growing, dense sequence of messages of one queue or durable subscription.
Messages are reserved for it, read as often as one likes, and acknowledged up to a number (`Capability.REPLAY`).

A *staged unit* is a transaction that was made safe under a name instead of being committed; a whole epoch of units
becomes visible in one step, once, however often that is asked for (`Capability.STAGE`).
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
    """What one reader group reads."""

    name: str
    """1 to 200 characters, unique among the groups of the message system."""
    address: Address
    """The queue; or the topic of the durable subscription."""
    subscription: str | None = None
    """Topics only: the name of the durable subscription of the connection's client id; made when it is not there."""
    selector: str | None = None
    """Only messages that it selects are reserved; the others stay for other consumers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderGroup:
    """How far one reader group has come. Its messages are numbered from 1, without holes."""

    name: str
    address: Address
    subscription: str | None
    client_id: str | None
    selector: str | None
    generation: str
    """Numbers of different generations have nothing to do with each other: the group was released, or its store replaced."""
    low: int
    """The highest number that is acknowledged; 0: none."""
    high: int
    """The highest number that is reserved; ``high - low`` messages are held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGroup:
    """A reader group in the hands of who opened it last."""

    group: ReaderGroup
    fence: int
    """1 at the first opening of a group, and more with each one after it; calls with an older one raise `FencedError`."""


@fact
class ReservedMessage:
    """One message of a reader group; the same each time it is read."""

    number: int
    envelope: Envelope
    """It may have expired since it was reserved: it was deliverable then, and a repetition must find it again."""
    count: int
    """How often it was handed out when it was reserved, this time included."""
    redelivered: bool


class ReaderGroups(ABC):
    """The verbs of reader groups. Any thread; those of one group come from one planner and any number of readers."""

    @abstractmethod
    def open(self, request: GroupRequest) -> OpenGroup:
        """Make the group or take it over from who had it open before.

        Raises `DestinationError`, `InvalidSelectorError`, `AccessDeniedError`; `GroupError` when the group is there and
        reads something else, or the subscription is and has other terms; `SubscriptionInUseError` when that has a subscriber.
        """

    @abstractmethod
    def reserve(self, opened: OpenGroup, *, after: int, max_messages: int, max_bytes: int | None, wait_ms: int) -> int:
        """Number the next deliverable messages so that at most `max_messages` follow `after`; return the highest number.

        They are the group's from then on, durably: no other consumer gets them. At most `max_bytes` of bodies and
        properties, but one message at least. Waits up to `wait_ms` milliseconds, at most 1,000, when nothing is there.
        Returns ``min(high, after + max_messages)`` without reserving when enough is reserved already.
        Raises `FencedError`; `GroupError` when `after` is not between low and high.
        """

    @abstractmethod
    def read(self, name: str, generation: str, *, after: int, upto: int) -> Sequence[ReservedMessage]:
        """Return messages from ``after + 1``, at most to `upto`, in order: as many as make a page, one at least.

        Empty only when ``after >= upto``. Changes nothing. Raises `GroupError` when the group or generation is not
        there, when `upto` was never reserved, or when ``after + 1`` was acknowledged already; `ResourceError` when that
        message cannot be read, and never will be if the message system has set it aside: acknowledging up to it goes on.
        """

    @abstractmethod
    def acknowledge(self, opened: OpenGroup, upto: int) -> None:
        """Settle all messages up to number `upto`, in one unit of work; those settled before are left alone.

        Raises `FencedError`; `GroupError` when `upto` was never reserved.
        """

    @abstractmethod
    def release(self, name: str) -> int:
        """End the group: what it holds goes back to its place, marked redelivered. Return how many messages that were.

        Raises `GroupError` when there is no such group.
        """

    @abstractmethod
    def groups(self) -> Sequence[ReaderGroup]:
        """Return all groups, by name."""


@dataclass(frozen=True, slots=True, order=True)
class StageName:
    """The name of a staged unit. Two units never have the same name, as each attempt makes its own."""

    sink: str
    """Who writes: 1 to 200 characters, unique among the sinks of the message system."""
    epoch: int
    """0 or more; it only grows."""
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
    """When the message system discards it by itself, in milliseconds since 1970 UTC."""


class Stages(ABC):
    """What is done with units that `ProviderSession.stage` made. Any thread."""

    @abstractmethod
    def promote(self, sink: str, epoch: int, units: Sequence[StageName]) -> bool:
        """Make exactly `units` visible and set the sink's marker to `epoch`, in one unit of work; discard all other
        units of the sink up to this epoch. Do nothing and return False when the marker is `epoch` already, or beyond: also
        when this very call was answered by a connection that was lost, and made again by the provider.

        False also means that a promotion which nobody had answered was finished now, with the units that were named then: those of
        this call wait until they are discarded. An epoch without units only moves the marker. Raises `StageError` when a unit is not there, was staged by
        another sink or for another epoch: nothing is done then.
        """

    @abstractmethod
    def discard(self, units: Sequence[StageName]) -> None:
        """Drop `units`; those that are not there, or were promoted, are left alone."""

    @abstractmethod
    def marker(self, sink: str) -> int | None:
        """Return the last epoch that was promoted, or None."""

    @abstractmethod
    def units(self, sink: str | None = None) -> Sequence[StagedUnit]:
        """Return the units that wait, of one sink or of all, by name."""
