"""A small model of a correct JMS broker: queues, topics, durable subscriptions, redelivery, expiry, dead letters, crashes.

It does what JMS 1.1 allows, not only what is usual: it hands messages to clients in advance, lets NON_PERSISTENT
messages overtake others, ignores priorities at times, and forgets what it may forget when it crashes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

__all__ = ["DEAD_LETTERS", "MAXIMUM_DELIVERIES", "Broker", "Channel", "Copy", "Message"]

DEAD_LETTERS = "queue://DLQ"
MAXIMUM_DELIVERIES = 4

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent."""

    mid: str
    dest: str
    sess: str
    conn: str
    sn: int
    mode: int
    prio: int
    exp_ms: int
    sha: str
    number: int
    """What selectors look at."""


@dataclass(slots=True, eq=False)
class Copy:
    """One message in one channel."""

    message: Message
    arrival: int
    count: int = 0
    flagged: bool = False
    holder: str | None = None
    """The connection that has it, in its hands or in advance."""
    is_handed_out: bool = False
    """Whether the client has got it, not only its library."""


@dataclass(slots=True, eq=False)
class Channel:
    """A queue or a subscription."""

    dest: str
    sub: str | None = None
    is_durable: bool = False
    no_local_conn: str | None = None
    copies: list[Copy] = field(default_factory=list)


class Broker:
    """All channels. Who calls sees to it that one thing happens at a time."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._arrivals = count(1)
        self.queues: dict[str, Channel] = {}
        self.subscriptions: dict[str, Channel] = {}
        self.expired: list[tuple[Channel, Message]] = []
        """What has just expired, and is to be told."""

    def queue(self, dest: str) -> Channel:
        """Return a queue, made when it is first named."""
        return self.queues.setdefault(dest, Channel(dest))

    def channels(self) -> list[Channel]:
        """Return all there are."""
        return [*self.queues.values(), *self.subscriptions.values()]

    def publish(self, message: Message) -> None:
        """Put a message where it belongs."""
        if message.dest.startswith("queue://"):
            found = [self.queue(message.dest)]
        else:
            found = [channel for channel in self.subscriptions.values() if channel.dest == message.dest]
        for channel in found:
            if channel.no_local_conn != message.conn:
                channel.copies.append(Copy(message, next(self._arrivals)))

    def take(self, channel: Channel, conn: str, now_ns: int, least: int) -> Copy | None:
        """Give the next message with a number of at least `least` to a connection."""
        self.expire(channel, now_ns)
        fitting = [each for each in channel.copies if each.holder is None and each.message.number >= least]
        if not fitting:
            return None
        first = min(fitting, key=lambda copy: (-copy.message.prio, copy.arrival))
        if self._rng.random() < 0.2:
            first = self._any_stream(fitting)
        first.holder = conn
        return first

    def _any_stream(self, copies: list[Copy]) -> Copy:
        """Return the oldest of any session, priority and delivery mode: order is promised within these only."""
        heads: dict[tuple[str, int, int], Copy] = {}
        for copy in sorted(copies, key=lambda each: each.arrival):
            heads.setdefault((copy.message.sess, copy.message.prio, copy.message.mode), copy)
        return self._rng.choice(list(heads.values()))

    def expire(self, channel: Channel, now_ns: int) -> None:
        """Drop what has expired and is in nobody's hands."""
        before = channel.copies
        channel.copies = [
            copy
            for copy in channel.copies
            if copy.is_handed_out or not 0 < copy.message.exp_ms * NS_PER_MS <= now_ns or self._rng.random() < 0.01
        ]
        self.expired += [(channel, copy.message) for copy in before if copy not in channel.copies]

    def settle(self, channel: Channel, copy: Copy, conn: str) -> None:
        """Forget a message that its holder acknowledged; a stale acknowledgement does nothing."""
        if copy.holder == conn and copy in channel.copies:
            channel.copies.remove(copy)

    def give_back(self, channel: Channel, copy: Copy, conn: str) -> None:
        """Take a message back; one that was given back too often becomes a dead letter."""
        if copy.holder != conn or copy not in channel.copies:
            return
        copy.holder = None
        copy.flagged = copy.flagged or copy.is_handed_out
        copy.is_handed_out = False
        if copy.count >= MAXIMUM_DELIVERIES and channel.dest != DEAD_LETTERS:
            self.reject(channel, copy)

    def reject(self, channel: Channel, copy: Copy) -> None:
        """Move a message to the dead letters: with its id, and for ever."""
        channel.copies.remove(copy)
        self.queue(DEAD_LETTERS).copies.append(
            Copy(replace(copy.message, exp_ms=0), next(self._arrivals), copy.count, copy.flagged)
        )

    def lose_connection(self, conn: str) -> None:
        """Take back all that a connection held."""
        for channel in self.channels():
            for copy in list(channel.copies):
                self.give_back(channel, copy, conn)

    def crash(self) -> None:
        """Stop and start again: NON_PERSISTENT messages may go, who held what is forgotten."""
        self.subscriptions = {name: each for name, each in self.subscriptions.items() if each.is_durable}
        for channel in self.channels():
            channel.copies = [copy for copy in channel.copies if copy.message.mode == 2 or self._rng.random() < 0.5]
            for copy in channel.copies:
                copy.flagged = copy.flagged or copy.holder is not None
                copy.holder, copy.is_handed_out = None, False
