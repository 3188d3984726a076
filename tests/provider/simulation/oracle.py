"""What must be true of every message, whatever happens: the judge of the simulation.

It knows what clients did, what they were told, and what was chosen for the queue; nothing of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

ORDERS = "orders"
"""The channel that has a policy."""


class Fate(Enum):
    """What is known of a message on one channel (a queue, or one subscription)."""

    PENDING = "sent in a transaction that has not ended"
    THERE = "sent, and neither consumed nor expired"
    UNKNOWN = "its send, or commit, was never answered"
    NEVER = "its send failed, or was rolled back"
    CONSUMED = "its acknowledgement, or the commit of it, returned"
    PERHAPS_CONSUMED = "its acknowledgement was never answered"
    BURIED = "a dead letter, or set aside as it expired"
    LOST_LAWFULLY = "NON_PERSISTENT, and the broker died"


_GONE = (Fate.NEVER, Fate.CONSUMED, Fate.BURIED, Fate.LOST_LAWFULLY)


class ViolationError(AssertionError):
    """The broker broke a promise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What was chosen for `ORDERS`."""

    ring: int = 0
    """So many messages it holds, and an older one goes for each that comes; 0: it has no such limit."""
    room: int = 0
    """So many messages it holds, and refuses others; 0: it has no such limit."""
    sets_expired_aside: bool = False
    last_value: bool = False
    delay_ms: int = 0
    """How long a message stays away that was given back; twice as long each time."""


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
    key: str | None = None
    """Of a last-value queue."""
    duplicate_id: str | None = None
    not_before_ms: int = 0
    """Nobody may get it earlier: it is scheduled, or stays away for a while."""
    has_no_place: bool = False
    """Whether nobody knows which place it has: it is scheduled, or was sent again."""
    seen: bool = False
    """Whether a client had it."""
    count: int = 0
    """How often a client had it, by what the last one was told."""
    holder: object = None
    """Who has it now."""
    in_doubt: bool = False
    """Whether a branch that may be prepared has sent or received it."""
    was_in_doubt: bool = False
    """Whether nobody knew whether it was consumed, so that nobody knew either whether it took room in its queue."""
    is_withdrawn: bool = False
    """Whether the store has it, or had, and the broker has it removed, as its send was in doubt."""


@dataclass(slots=True)
class Oracle:
    """All messages, and what has been observed."""

    rules: Rules = Rules()
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
        if record.fate in (Fate.CONSUMED, Fate.BURIED):
            raise ViolationError(f"duplicated: {text} on {channel} is {record.fate.name}")
        if record.fate is Fate.LOST_LAWFULLY:
            raise ViolationError(f"risen: {text} on {channel} was NON_PERSISTENT and the broker died")
        if record.holder is not None and not getattr(record.holder, "may_let_go", False):
            raise ViolationError(f"two holders: {text} on {channel}")
        if record.expiration_ms and record.expiration_ms <= now_ms:
            raise ViolationError(f"after expiry: {text} on {channel}")
        if now_ms < record.not_before_ms:
            raise ViolationError(f"too early: {text} on {channel}, by {record.not_before_ms - now_ms} ms")
        if record.seen and count == 1:
            raise ViolationError(f"redelivered without flag: {text} on {channel}")
        record.seen = True
        record.count = count
        record.holder = holder
        record.fate = Fate.THERE  # what was in doubt is seen to be there
        return record

    def given_back(self, records: Iterable[Record], now_ms: int) -> None:
        """Note that nobody holds messages any more, which come again."""
        for record in records:
            record.holder = None
            if record.channel == ORDERS and self.rules.delay_ms:
                delay_ms = self.rules.delay_ms * 2 ** (record.count - 1)
                record.not_before_ms = max(record.not_before_ms, now_ms + delay_ms)

    def come_back(self, records: Iterable[Record], now_ms: int) -> None:
        """Note that messages come again that a transaction has taken which was in doubt."""
        records = list(records)
        for record in records:
            record.fate = Fate.THERE
        self.given_back(records, now_ms)

    def withdrawn(self, records: Iterable[Record]) -> None:
        """Note that messages are in the store, and nowhere else: their removal is the next thing that is written there."""
        for record in records:
            record.is_withdrawn = record.persistent

    def set_aside(self, channel: str, text: str, *, expired: bool, now_ms: int) -> None:
        """Judge a dead letter, or an expired message that was set aside. Raises `ViolationError`."""
        record = self.records.get((channel, text))
        if record is None or record.fate in (Fate.PENDING, Fate.NEVER):
            raise ViolationError(f"phantom: {text} of {channel} was set aside and was never sent")
        if record.fate in (Fate.CONSUMED, Fate.BURIED):
            raise ViolationError(f"duplicated: {text} of {channel} is {record.fate.name}, and was set aside")
        if expired and not 0 < record.expiration_ms <= now_ms:
            raise ViolationError(f"expired too early: {text} of {channel}")
        record.fate = Fate.BURIED

    # Limits

    def accepted(self, record: Record, now_ms: int) -> None:
        """Judge that a queue has taken a message in. Raises `ViolationError`."""
        room = self.rules.room
        if not room or record.channel != ORDERS:
            return
        sure = [each for each in self._of(ORDERS) if not each.was_in_doubt]
        there = [each for each in sure if each.fate is Fate.THERE and not _is_expired(each, now_ms)]
        if len(there) > room:
            raise ViolationError(f"overfull: {record.text} came in beside {len(there) - 1} others")

    def refused(self, record: Record) -> None:
        """Judge that a queue had no room for a message. Raises `ViolationError`."""
        others = [each for each in self._of(record.channel) if each is not record]
        perhaps = [each for each in others if each.fate not in _GONE or each.was_in_doubt]
        if not 0 < self.rules.room <= len(perhaps):
            raise ViolationError(
                f"refused: {record.text}, although {record.channel} has at most {len(perhaps)} messages"
            )

    def _of(self, channel: str) -> list[Record]:
        return [record for record in self.records.values() if record.channel == channel]

    # The end

    def broker_died(self) -> None:
        """Note that only branches that may be prepared hold anything now, and that transient messages are gone."""
        for record in self.records.values():
            if record.in_doubt and record.persistent:
                continue
            record.in_doubt = False
            record.holder = None
            if record.fate is Fate.PENDING:
                record.fate = Fate.NEVER
            elif not record.persistent and record.fate in (Fate.THERE, Fate.UNKNOWN, Fate.PERHAPS_CONSUMED):
                record.fate = Fate.LOST_LAWFULLY

    def withdrawals_failed(self) -> None:
        """Note that the process dies before it may have removed what is withdrawn. An orderly stop removes it."""
        for record in self.records.values():
            if record.is_withdrawn and record.fate is Fate.NEVER:
                record.fate = Fate.UNKNOWN
            record.is_withdrawn = False

    def power_failed(self) -> None:
        """Note that acknowledgements may be undone, as they were not forced. All else stands, the flag too."""
        for record in self.records.values():
            if record.fate is Fate.CONSUMED and record.persistent:
                record.fate = Fate.PERHAPS_CONSUMED

    def finally_drained(self, now_ms: int, drained: list[tuple[str, str]]) -> None:
        """Judge the end: what must be there was found, and in order. Raises `ViolationError`."""
        found = set(drained)
        for (channel, text), record in self.records.items():
            if record.fate is Fate.THERE and (channel, text) not in found and not self._may_be_gone(record, now_ms):
                raise ViolationError(f"lost: {text} on {channel}")
        last: dict[tuple[str, int, int], int] = {}
        for channel, text in drained:
            record = self.records[channel, text]
            key = (channel, record.sender, record.priority)
            if record.fate is Fate.BURIED or record.has_no_place:
                continue  # those that were set aside are in the order in which that happened
            if record.number < last.get(key, 0):
                raise ViolationError(f"reordered: {text} on {channel} came after number {last[key]} of its sender")
            last[key] = record.number

    def _may_be_gone(self, record: Record, now_ms: int) -> bool:
        """Return whether a message that was there needs not be found."""
        rules = self.rules if record.channel == ORDERS else Rules()
        if _is_expired(record, now_ms) and not rules.sets_expired_aside:
            return True
        others = [each for each in self._of(record.channel) if each is not record]
        if rules.last_value:
            return any(each.key == record.key and each.fate is not Fate.NEVER for each in others)
        return 0 < rules.ring <= len(others)


def _is_expired(record: Record, now_ms: int) -> bool:
    return 0 < record.expiration_ms <= now_ms
