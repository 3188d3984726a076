"""A message that may come in, what is held for it until it has, and how long its sender waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyjms.spi.clock import Signal
from pyjms_provider.core.queue.queue import Queue

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address, Envelope
    from pyjms_provider.core.host.doorkeeper import Doorkeeper
    from pyjms_provider.core.journal.journal import DuplicateMark
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.duplicates import DuplicateWindow
    from pyjms_provider.core.queue.limits import RoomRequest
    from pyjms_provider.core.topic.topic import Topic
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

__all__ = ["Admission", "DuplicateClaim", "Patience"]


class Patience:
    """How long a sender waits for room: until somebody says that it is over."""

    __slots__ = ("is_over", "signal")

    def __init__(self) -> None:
        self.signal = Signal()
        self.is_over = False

    def end(self) -> None:
        """End every wait, now and later. Any thread."""
        self.is_over = True
        self.signal.set()


class DuplicateClaim:
    """The id of one message that is on its way; its end must be told, once or more often."""

    __slots__ = ("_doorkeeper", "address", "channel", "duplicate_id", "is_kept", "mark", "window")

    def __init__(
        self,
        doorkeeper: Doorkeeper,
        duplicate_id: str,
        address: Address,
        channel: Queue | Topic,
        *,
        is_kept: bool,
    ) -> None:
        """`channel`: where the message goes, at `address`; `is_kept`: it is PERSISTENT, so a journal keeps its id, too."""
        self._doorkeeper = doorkeeper
        self.duplicate_id = duplicate_id
        self.address = address
        self.channel = channel
        self.is_kept = is_kept
        self.window: DuplicateWindow | None = None
        """What remembers the ids of its destination; the doorkeeper's lock guards it. None: the id is not claimed yet."""
        self.mark: DuplicateMark | None = None
        """What a journal writes together with the message; None: it is in a transaction that has not begun to commit."""

    def mark_commit(self) -> DuplicateMark | None:
        """Return what a journal writes with a commit that begins now; None: nothing, as the message is not kept, or its queue has ended.

        Anew each time: who decides about a branch may do so again much later.
        """
        if not self.is_kept:
            return None
        if not isinstance(self.channel, Queue):
            return self._doorkeeper.mark(self, None)
        kept = self.channel.kept
        return None if kept is None else self._doorkeeper.mark(self, kept.number)

    def end(self, *, arrived: bool) -> None:
        """Hear whether the message has arrived. May be repeated, with the same answer."""
        self._doorkeeper.end_claim(self, arrived)


@dataclass(slots=True)
class Admission:
    """A message that may come in."""

    envelope: Envelope
    deliver_at_ms: int
    duplicate: DuplicateClaim | None
    room: tuple[Queue, RoomRequest] | None
    """The queue that holds room for it, and for whom."""
    has_arrived: bool = False
    """Whether its channel has taken it; a journal then keeps it, if it is kept, or it is in its transaction."""

    @property
    def mark(self) -> DuplicateMark | None:
        """What a journal must keep together with the message."""
        return None if self.duplicate is None else self.duplicate.mark

    def hand_over(
        self, channel: Queue | Topic, reference: MessageReference, transaction: UnitOfWork | None = None
    ) -> None:
        """Have `channel` take the message over, into the room that was held for it. Raises as `Channel.take_over`."""
        if self.room is None:
            channel.take_over(reference, transaction)
        else:
            queue, request = self.room
            queue.take_over(reference, transaction, request)
            self.room = None
        self.has_arrived = True

    def end(self, transaction: UnitOfWork | None) -> None:
        """Give back what is still held for the message, as it has come in, or does not come. May be repeated.

        Whether what came in has arrived is the transaction's affair, if there is one.
        """
        if self.room is not None:
            queue, request = self.room
            queue.unclaim_room(request)
        if self.duplicate is None:
            return
        if self.has_arrived and transaction is not None:
            transaction.add_duplicate(self.duplicate)
        else:
            self.duplicate.end(arrived=self.has_arrived)
