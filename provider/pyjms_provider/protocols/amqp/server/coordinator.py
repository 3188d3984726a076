"""The link to the coordinator, on which a client declares and discharges transactions (part 4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import ProviderError
from pyjms_provider.amqp.errors import AmqpError, Condition, LinkFault
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import (
    Accepted,
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Rejected,
)
from pyjms_provider.protocols.amqp.server.producers import takes_rejected
from pyjms_provider.protocols.amqp.server.refusals import told
from pyjms_provider.protocols.amqp.server.transactions import ACROSS_SESSIONS, LOCAL_TRANSACTIONS, SEVERAL_IN_A_SESSION
from pyjms_provider.protocols.amqp.server.work import Work, do_all

if TYPE_CHECKING:
    from pyjms_provider.protocols.amqp.link import IncomingDelivery, Receiver
    from pyjms_provider.protocols.amqp.server.contracts import LinkSession
    from pyjms_provider.protocols.amqp.server.transactions import Transaction

_CREDIT: Final = 100
_CAPABILITIES: Final = (LOCAL_TRANSACTIONS, SEVERAL_IN_A_SESSION, ACROSS_SESSIONS)


class CoordinatorLink:
    """A client's link to the coordinator. Its open transactions are rolled back with it."""

    def __init__(self, session: LinkSession, link: Receiver) -> None:
        self.link = link
        self._session = session
        self._open: dict[bytes, Transaction] = {}
        remote = link.remote
        assert remote is not None
        target = Coordinator(_CAPABILITIES)
        link.attach(Attach("", 0, False, source=remote.source, target=target))
        link.give_credit(_CREDIT)

    def credit_changed(self) -> None:
        """Receivers give credit here."""

    def received(self, delivery: IncomingDelivery) -> None:
        """Declare or discharge a transaction."""
        if self.link.credit <= _CREDIT // 2:
            self.link.give_credit(_CREDIT)
        try:
            self._do(delivery, Message(delivery.data).record)
        except LinkFault as fault:
            self._session.end_link(self.link, fault)
        except (AmqpError, ProviderError) as error:
            self._refuse(delivery, error)

    def _do(self, delivery: IncomingDelivery, request: Any) -> None:
        match request:
            case Declare(global_id=None):
                self._declare(delivery)
            case Declare():
                raise AmqpError(Condition.NOT_IMPLEMENTED, "transactions are local here: leave the global-id out")
            case Discharge():
                self._discharge(delivery, request)
            case _:
                raise AmqpError(Condition.NOT_IMPLEMENTED, "a coordinator takes declare and discharge")

    def _declare(self, delivery: IncomingDelivery) -> None:
        engine = self._session.engine
        transaction = engine.transactions.declare(engine.connection, self._session.executor)
        self._open[transaction.txn_id] = transaction
        self._session.answer(delivery, Declared(transaction.txn_id))

    def _discharge(self, delivery: IncomingDelivery, discharge: Discharge) -> None:
        transactions = self._session.engine.transactions
        if discharge.txn_id not in self._open:
            # Another link's, or none that is open (part 4, 4.3).
            raise AmqpError(
                Condition.UNKNOWN_TRANSACTION, "no transaction of that id was declared on this link and is open"
            )
        transaction = transactions.end(discharge.txn_id)
        del self._open[discharge.txn_id]
        host, waits = self._session.engine.guard.host, self._session.waits
        transaction.executor.add(
            Work(
                transaction.rollback if discharge.fail else transaction.commit,
                partial(self._discharged, delivery, transaction),
                waits,
                is_brief=waits and host.waits_briefly(None),
            )
        )

    def _discharged(self, delivery: IncomingDelivery, transaction: Transaction, error: Exception | None) -> None:
        transaction.restore()
        if error is None:
            self._session.answer(delivery, Accepted())
        else:
            self._refuse(delivery, error)

    def _refuse(self, delivery: IncomingDelivery, error: Exception) -> None:
        if delivery.is_settled or not takes_rejected(self.link):
            self._session.end_link(self.link, error)
        else:
            self._session.answer(delivery, Rejected(told(error, self._session.session.connection.frame_room)))

    def settled_by_client(self, count: int) -> None:
        """The coordinator settles first."""

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it: open transactions are rolled back."""
        transactions = self._session.engine.transactions
        left = [transactions.end(txn_id) for txn_id in self._open]
        self._open.clear()
        if not left:
            return None

        def roll_back() -> None:
            do_all(transaction.rollback for transaction in left)

        def restore(_: Exception | None) -> None:
            for transaction in left:
                transaction.restore()

        return Work(roll_back, restore, self._session.waits)
