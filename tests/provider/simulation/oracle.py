"""What must be true of every message, whatever happens: the judge of the simulation.

It knows what clients did and what they were told, and nothing of the broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Fate(Enum):
    """What is known of a message on one channel (a queue, or one subscription)."""

    PENDING = "sent in a transaction that has not ended"
    THERE = "sent, and neither consumed nor expired"
    UNKNOWN = "its send, or commit, was never answered"
    NEVER = "its send failed, or was rolled back"
    CONSUMED = "its acknowledgement, or the commit of it, returned"
    PERHAPS_CONSUMED = "its acknowledgement was never answered"
    BURIED = "a dead letter"
    LOST_LAWFULLY = "NON_PERSISTENT, and the broker died"


class ViolationError(AssertionError):
    """The broker broke a promise."""


@dataclass(slots=True)
class Record:
    """One message on one channel."""

    text: str
    channel: str
    sender: int
    number: int
    """Counts the messages of its sender."""
    priority: int
    persistent: bool
    expiration_ms: int
    fate: Fate
    seen: bool = False
    """Whether a client had it."""
    holder: object = None
    """Who has it now."""


@dataclass(slots=True)
class Oracle:
    """All messages, and what has been observed."""

    records: dict[tuple[str, str], Record] = field(default_factory=dict)

    def sent(self, record: Record) -> None:
        """Note a message that is being sent."""
        self.records[record.channel, record.text] = record

    def delivered(self, channel: str, text: str, count: int, now_ms: int, holder: object) -> Record:
        """Judge a delivery that a client has read. Raises `ViolationError`."""
        record = self.records.get((channel, text))
        if record is None:
            raise ViolationError(f"phantom: {text} on {channel} was never sent")
        if record.fate in (Fate.PENDING, Fate.NEVER):
            raise ViolationError(f"uncommitted visible: {text} on {channel} is {record.fate.name}")
        if record.fate is Fate.CONSUMED:
            raise ViolationError(f"duplicated: {text} on {channel} was consumed before")
        if record.fate is Fate.LOST_LAWFULLY:
            raise ViolationError(f"risen: {text} on {channel} was NON_PERSISTENT and the broker died")
        if record.holder is not None:
            raise ViolationError(f"two holders: {text} on {channel}")
        if record.expiration_ms and record.expiration_ms <= now_ms:
            raise ViolationError(f"after expiry: {text} on {channel}")
        if record.seen and count == 1:
            raise ViolationError(f"redelivered without flag: {text} on {channel}")
        record.seen = True
        record.holder = holder
        record.fate = Fate.THERE  # what was in doubt is seen to be there
        return record

    def buried(self, channel: str, text: str) -> None:
        """Judge a dead letter. Raises `ViolationError`."""
        record = self.records.get((channel, text))
        if record is None or record.fate in (Fate.PENDING, Fate.NEVER):
            raise ViolationError(f"phantom: {text} of {channel} is a dead letter and was never sent")
        if record.fate is Fate.CONSUMED:
            raise ViolationError(f"duplicated: {text} of {channel} was consumed, and is a dead letter")
        if record.fate is Fate.BURIED:
            raise ViolationError(f"duplicated: {text} of {channel} is a dead letter twice")
        record.fate = Fate.BURIED

    def broker_died(self) -> None:
        """Note that nobody holds anything now, and that transient messages are gone."""
        for record in self.records.values():
            record.holder = None
            if record.fate is Fate.PENDING:
                record.fate = Fate.NEVER
            elif not record.persistent and record.fate in (Fate.THERE, Fate.UNKNOWN, Fate.PERHAPS_CONSUMED):
                record.fate = Fate.LOST_LAWFULLY

    def finally_drained(self, now_ms: int, drained: list[tuple[str, str]]) -> None:
        """Judge the end: what must be there was found, and in order. Raises `ViolationError`."""
        found = set(drained)
        for (channel, text), record in self.records.items():
            expired = record.expiration_ms and record.expiration_ms <= now_ms
            if record.fate is Fate.THERE and not expired and (channel, text) not in found:
                raise ViolationError(f"lost: {text} on {channel}")
        last: dict[tuple[str, int, int], int] = {}
        for channel, text in drained:
            record = self.records[channel, text]
            key = (channel, record.sender, record.priority)
            if record.fate is Fate.BURIED:
                continue  # dead letters are in the order of their deaths
            if record.number < last.get(key, 0):
                raise ViolationError(f"reordered: {text} on {channel} came after number {last[key]} of its sender")
            last[key] = record.number
