"""Which deliveries one acknowledgement covers, by mode: the session's ledger (JMS 1.1 §4.4.11).

Pure book-keeping: nothing here talks to a provider. The session asks what is due and does it.

AUTO_ACKNOWLEDGE keeps a delivery only while its listener runs; what ``receive`` returns is settled at once and never
enters the ledger. DUPS_OK_ACKNOWLEDGE keeps up to `DUPS_OK_BATCH`, until a consumer closes. CLIENT_ACKNOWLEDGE keeps everything until a message's
``acknowledge``; a transaction until it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyjms.api.session import AcknowledgeMode
from pyjms.spi.delivery import Delivery

__all__ = ["DUPS_OK_BATCH", "AcknowledgementLedger"]

DUPS_OK_BATCH = 20
"""So many deliveries a DUPS_OK_ACKNOWLEDGE session settles in one call; a crash may redeliver as many."""


class AcknowledgementLedger:
    """The unsettled deliveries of one session, in order of delivery.

    One thread at a time; but `take` and `put_back` may come at any moment from others, which acknowledge what a listener handed to them.
    """

    __slots__ = ("_limit", "_mode", "committing", "owed", "unsettled")

    def __init__(self, mode: AcknowledgeMode, limit: int = 0) -> None:
        """`limit`: how many deliveries the client may keep unsettled before it gets no more; 0: any number."""
        self._mode = mode
        self._limit = limit
        self.unsettled: list[Delivery] = []
        """What the client has, and may settle."""
        self.committing: Sequence[Delivery] = ()
        """What is acknowledged in the transaction already, as its commit has begun: not every provider takes that twice."""
        self.owed: Sequence[Delivery] = ()
        """What is to come again, and has not been given back yet: no acknowledgement covers it."""

    def __len__(self) -> int:
        return len(self.unsettled)

    def delivered(self, delivery: Delivery) -> None:
        """Enter a delivery that the client gets now."""
        self.unsettled.append(delivery)

    @property
    def is_full(self) -> bool:
        """Whether the client must settle something before it gets more (§4.4.11: client overrun)."""
        return 0 < self._limit <= len(self.unsettled)

    def due(self) -> Sequence[Delivery]:
        """Take out what is to be acknowledged now that the client is done with the latest delivery."""
        if self._mode is AcknowledgeMode.AUTO_ACKNOWLEDGE:
            return self.take()
        if self._mode is AcknowledgeMode.DUPS_OK_ACKNOWLEDGE and len(self.unsettled) >= DUPS_OK_BATCH:
            return self.take()
        return ()

    def take(self) -> Sequence[Delivery]:
        """Take out everything: what ``acknowledge``, ``commit`` and ``recover`` cover."""
        taken = self.unsettled
        self.unsettled = []
        return taken

    def take_done(self) -> Sequence[Delivery]:
        """Take out everything but the latest delivery, which a listener has in hand."""
        done = self.unsettled[:-1]
        del self.unsettled[:-1]
        return done

    def take_one(self, delivery: Delivery) -> bool:
        """Take out `delivery`; return False if it is not there: recovered or acknowledged meanwhile."""
        unsettled = self.unsettled  # asked for once: `take` on another thread puts an empty list in its place
        for index in range(len(unsettled) - 1, -1, -1):
            if unsettled[index] is delivery:
                del unsettled[index]
                return True
        return False

    def owe_all(self) -> Sequence[Delivery]:
        """Have all that was received owed, before what is owed already; return it."""
        received = [*self.committing, *self.unsettled]
        self.owed, self.committing, self.unsettled = [*received, *self.owed], (), []
        return received

    def keep_all(self, received: Sequence[Delivery]) -> None:
        """Take back an `owe_all`: the client may settle what it returned."""
        number = len(received)
        self.unsettled, self.owed = [*received, *self.unsettled], self.owed[number:]

    def owe(self, deliveries: Sequence[Delivery]) -> None:
        """Enter what is to come again."""
        self.owed = [*self.owed, *deliveries]

    def take_owed(self) -> Sequence[Delivery]:
        """Take out what is owed, to give it back."""
        taken, self.owed = self.owed, ()
        return taken

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Enter again, in front, what was taken out and could not be settled."""
        self.unsettled[:0] = deliveries
