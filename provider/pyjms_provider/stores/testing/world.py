"""Helpers of the journal suite: a journal that can be reopened, messages, and the result of recovery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.xid import Xid
from pyjms_provider.core.journal.journal import (
    BranchOutcome,
    Changes,
    DuplicateMark,
    Journal,
    NewMessage,
    PreparedBranch,
    QueueNumber,
    QueueRecord,
    RecoveredEntry,
    Recovery,
    Removal,
)
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.stores.testing import JournalHome

__all__ = [
    "AWKWARD",
    "ORDERS",
    "Found",
    "WholeMessage",
    "World",
    "envelope_of",
    "queue_record",
    "without_envelope",
    "xid",
]

ORDERS = Address(AddressKind.QUEUE, "orders")
AWKWARD = ("a\0b", "\ud800 alone", "back\\slash \\u0041", "😀", "", "x" * 5000, "line\nbreak 'quoted' \"twice\" %s ?")
"""Names that some database, encoding or file system may not accept."""
_PERSISTENT = 2


def envelope_of(text: str, *, priority: int = 4, expiration_ms: int = 0) -> Envelope:
    """Return a message with `text` as its body."""
    return Envelope(
        destination=ORDERS,
        message_id=MessageId(f"ID:{text}"),
        timestamp_ms=1,
        expiration_ms=expiration_ms,
        delivery_mode=_PERSISTENT,
        priority=priority,
        correlation_id=None,
        reply_to=None,
        jms_type=None,
        properties={"text": text},
        body_kind=BodyKind.TEXT,
        body=text,
    )


def queue_record(name: str, number: int = 0) -> QueueRecord:
    """Return the record of a queue."""
    return QueueRecord(number=QueueNumber(number), address=Address(AddressKind.QUEUE, name))


def xid(number: int) -> Xid:
    """Return the xid of a branch."""
    return Xid(number, f"global {number}".encode(), b"\0branch\xff")


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a recovery, with all entries read."""

    recovery: Recovery
    entries: Sequence[RecoveredEntry]

    @property
    def ids(self) -> list[tuple[int, int]]:
        """The message and the queue of each entry."""
        return [(entry.reference.id, entry.queue) for entry in self.entries]

    def counts(self) -> dict[tuple[int, int], int]:
        """The delivery count of each message in each queue."""
        return {(entry.reference.id, entry.queue): entry.delivery_count for entry in self.entries}

    def reference(self, message: int) -> MessageReference:
        """Return the recovered reference of a message."""
        return next(entry.reference for entry in self.entries if entry.reference.id == message)


if TYPE_CHECKING:

    class WholeMessage(NewMessage):
        """A message with its envelope. For type checkers only, as a store may depend on the type of its arguments."""

        envelope: Envelope
else:
    WholeMessage = NewMessage


def without_envelope(message: NewMessage) -> NewMessage:
    """Return a message without its envelope, as a paged-out one is added."""
    # A new object, as the test needs the complete one for comparison.
    return NewMessage(message.reference, None, message.queues)


class World:
    """A journal with two queues, 1 and 2, that can be reopened."""

    def __init__(self, home: JournalHome) -> None:
        self.home = home
        # Counts over all openings, as the core never uses an id twice.
        self._ids = count(1)
        self._serials = count(1)
        self.journal: Journal = home.open()
        self.found = self._recover()
        self.queue = self.journal.define_queue(queue_record("first"))
        self.other = self.journal.define_queue(queue_record("second"))

    def _recover(self) -> Found:
        recovery = self.journal.recover(lambda _: None)
        return Found(recovery, list(recovery.entries))

    def reopen(self, *, clean: bool = False) -> Found:
        """Close the journal, open it again, and return the result of the recovery."""
        # Without `clean`, the closed journal looks like one whose process has died.
        self.journal.close(clean=clean)
        self.journal = self.home.open()
        self.found = self._recover()
        return self.found

    def message(
        self,
        *queues: QueueNumber,
        text: str | None = None,
        priority: int = 4,
        expiration_ms: int = 0,
        deliver_at_ms: int = 0,
    ) -> WholeMessage:
        """Create a message to be added to `queues`, or to the first queue."""
        number = ReferenceId(next(self._ids))
        envelope = envelope_of(text or f"message {number}", priority=priority, expiration_ms=expiration_ms)
        reference = MessageReference(number, None, expiration_ms, priority, reliable=True)
        reference.shared = len(queues) > 1
        reference.deliver_at_ms = deliver_at_ms
        return WholeMessage(reference, envelope, queues or (self.queue,))

    def page_out(self, *messages: WholeMessage) -> None:
        """Page messages out."""
        self.journal.page_out([(each.reference, each.envelope) for each in messages])

    def add(self, *messages: WholeMessage) -> WholeMessage:
        """Write the addition of messages; return the last one."""
        self.journal.write(Changes(messages=list(messages)), force=True)
        return messages[-1]

    def remove(self, *pairs: tuple[QueueNumber, MessageReference]) -> None:
        """Write the removal of messages from queues."""
        self.journal.write(Changes(removals=[Removal(*pair) for pair in pairs]), force=False)

    def prepare(self, number: int, *messages: NewMessage, removals: Sequence[Removal] = ()) -> None:
        """Write a prepared branch."""
        self.journal.write(
            Changes(prepared=PreparedBranch(xid(number), 5), messages=list(messages), removals=list(removals)),
            force=True,
        )

    def decide(self, number: int, *, commit: bool, heuristic: bool = False) -> None:
        """Write the outcome of a prepared branch."""
        self.journal.write(Changes(outcomes=[BranchOutcome(xid(number), commit, heuristic)]), force=True)

    def remember(
        self, duplicate_id: str, until_ms: int, address: Address = ORDERS, *, serial: int | None = None, below: int = 0
    ) -> None:
        """Write a duplicate id, with the next serial if none is given; ids with serials under `below` are deleted."""
        chosen = next(self._serials) if serial is None else serial
        mark = DuplicateMark(address, duplicate_id, until_ms, chosen, forgets_below=below)
        self.journal.write(Changes(duplicates=[mark]), force=True)

    def bodies(self, *ids: int) -> dict[int, object]:
        """Read the bodies of messages."""
        return {
            each: envelope.body for each, envelope in self.journal.read([ReferenceId(each) for each in ids]).items()
        }
