"""Local transactions (part 4): declared and discharged on a coordinator's link, used on any session of the connection."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import RolledBackError
from pyjms_provider.amqp.errors import Condition, LinkFault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.provider import ProviderConnection, ProviderSession
    from pyjms_provider.protocols.amqp.server.work import Work
    from pyjms_provider.protocols.scheduling import SerialExecutor

LOCAL_TRANSACTIONS: Final = "amqp:local-transactions"
SEVERAL_IN_A_SESSION: Final = "amqp:multi-txns-per-ssn"
ACROSS_SESSIONS: Final = "amqp:multi-ssns-per-txn"


_OF_SESSION: Final = b"pyjms:"
"""What an id begins with that names the open transaction of a transacted session, by the client's channel in two bytes."""


def channel_in(txn_id: bytes) -> int | None:
    """Return the channel of the transacted session that an id names; None: it is the id of a coordinator's transaction."""
    if len(txn_id) != len(_OF_SESSION) + 2 or not txn_id.startswith(_OF_SESSION):
        return None
    return int.from_bytes(txn_id[len(_OF_SESSION) :], "big")


@dataclass(frozen=True, slots=True)
class Retired:
    """A delivery whose outcome is the transaction's."""

    receiving: ProviderSession
    """The session that has received it."""
    delivery: Delivery
    restore: Callable[[Delivery], None] | None
    """Has the client hold the delivery again after a rollback; None: the client has settled it, and it goes back to its queue."""


class AcceptedInUnit:
    """What a client has accepted in the open transaction or branch of a transacted session. It has settled all of it."""

    def __init__(self, session: ProviderSession) -> None:
        self._session = session
        self._deliveries: list[Delivery] = []

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """Add deliveries that were accepted."""
        self._deliveries += deliveries

    def committed(self) -> None:
        """Give them up: they were committed, or belong to a branch that goes on without the session."""
        self._deliveries.clear()

    def rolled_back(self) -> None:
        """Give them back to their places: the client does not hold them any more. Raises `ProviderError`."""
        deliveries = list(self._deliveries)
        self._deliveries.clear()
        self._session.recover(deliveries)


class Transaction:
    """A transaction: its sends and retirements are those of a transacted session of its own."""

    def __init__(self, txn_id: bytes, session: ProviderSession, executor: SerialExecutor[Work]) -> None:
        """`executor`: that of the session in which it was declared, which does all its work, in the order in which it came."""
        self.txn_id = txn_id
        self.session = session
        self.executor = executor
        self._retired: list[Retired] = []
        self._held: list[tuple[Callable[[Delivery], None], Delivery]] = []
        self._spoiled: Exception | None = None
        self.is_open = True
        """Whether it was not discharged yet."""
        self.acquired: list[Callable[[], None]] = []
        """Give back what links have acquired in it, if the client holds it still (part 4, 4.4.3). The connection's thread."""
        self._is_rolled_back = False

    def spoil(self, error: Exception) -> None:
        """Have it be rolled back by its commit, as a part of its work has failed."""
        self._spoiled = self._spoiled or error

    def retire(self, retired: Sequence[Retired]) -> None:
        """Settle deliveries when the transaction commits. Any thread; raises `ProviderError`."""
        deliveries = [each.delivery for each in retired]
        # The transaction has a session of its own, which can settle only what it holds.
        self.session.adopt(deliveries)
        self.session.acknowledge(deliveries)
        self._retired += retired

    def commit(self) -> None:
        """Commit. Any thread; raises `ProviderError`: it is rolled back, unless that says that the outcome is unknown."""
        try:
            self._check()
            self.session.commit()
        except RolledBackError:
            self._give_back()
            raise
        finally:
            self.session.close()

    def _check(self) -> None:
        if self._spoiled is not None:
            raise RolledBackError(f"a part of the transaction has failed: {self._spoiled}") from self._spoiled

    def rollback(self) -> None:
        """Roll back. Any thread; raises `ProviderError`."""
        try:
            self._give_back()
        finally:
            self.session.close()

    def _give_back(self) -> None:
        self._is_rolled_back = True
        self.session.rollback()
        self.session.recover([each.delivery for each in self._retired if each.restore is None])
        for each in self._retired:
            if each.restore is not None:
                each.receiving.adopt([each.delivery])
                self._held.append((each.restore, each.delivery))

    def restore(self) -> None:
        """Have the client hold again what it had not settled, after a rollback, and what it acquired given back. The connection's thread."""
        for restore, delivery in self._held:
            restore(delivery)
        self._held.clear()
        acquired, self.acquired = self.acquired, []
        if self._is_rolled_back:
            for give_back in acquired:
                give_back()


class Transactions:
    """The open transactions of one connection, by id. The connection's thread."""

    def __init__(self, most: int) -> None:
        """`most`: how many may be open at a time."""
        self._most = most
        self._numbers = count(1)
        self._open: dict[bytes, Transaction] = {}

    def declare(self, connection: ProviderConnection, executor: SerialExecutor[Work]) -> Transaction:
        """Begin a transaction. Raises `LinkFault`: the connection has as many as it may have; `ProviderError`."""
        most = self._most
        if len(self._open) >= most:
            raise LinkFault(Condition.RESOURCE_LIMIT_EXCEEDED, f"a connection may have {most} open transactions here")
        txn_id = next(self._numbers).to_bytes(4, "big")
        transaction = self._open[txn_id] = Transaction(txn_id, connection.open_session(transacted=True), executor)
        return transaction

    def find(self, txn_id: bytes) -> Transaction:
        """Return an open transaction. Raises `LinkFault`: there is none of that id."""
        found = self._open.get(txn_id)
        if found is None:
            raise LinkFault(Condition.UNKNOWN_TRANSACTION, f"there is no open transaction {txn_id.hex()}")
        return found

    def spoil(self, txn_id: bytes, error: Exception) -> None:
        """Have a transaction be rolled back by its commit, if it is open."""
        found = self._open.get(txn_id)
        if found is not None:
            found.spoil(error)

    def end(self, txn_id: bytes) -> Transaction:
        """Return a transaction that is discharged: nothing more can be done in it. Raises as `find`."""
        found = self.find(txn_id)
        del self._open[txn_id]
        found.is_open = False
        return found

    def end_waits(self) -> None:
        """End all waits for room of open transactions, as the connection has ended."""
        for transaction in self._open.values():
            transaction.session.end_waits()
