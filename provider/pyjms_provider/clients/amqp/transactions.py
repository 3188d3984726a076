"""The transactions of one session: by a coordinator (part 4), as every broker has them, or by commands, at the pyjms broker."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms.spi.errors import InDoubtError, ProviderError, RolledBackError
from pyjms_provider.amqp.capabilities import TRANSACTED
from pyjms_provider.amqp.performatives import ACCEPTED, TransactionalState
from pyjms_provider.clients.amqp.commands import CommandRequest
from pyjms_provider.clients.amqp.links import TransactionLink
from pyjms_provider.clients.amqp.refusals import outcome_refusal
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, UnansweredError, lost_while_ended
from pyjms_provider.clients.network.session_units import BranchCommand, SessionUnit
from pyjms_provider.protocols.profile.commands import Command

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.xid import Xid
    from pyjms_provider.clients.amqp.consumer import ReceivedMessage
    from pyjms_provider.clients.amqp.contracts import TransactedSession
    from pyjms_provider.clients.amqp.links import SendingLink
    from pyjms_provider.clients.amqp.physical_connection import PhysicalConnection, Reply
    from pyjms_provider.protocols.amqp.session import Session

_log = logging.getLogger("pyjms.amqp")
_T = TypeVar("_T")

_IN_FLIGHT_MAX: Final = 4 * 1024 * 1024
"""Bytes of a transaction that may be on their way: then it waits until the broker has taken them."""
_KNOWN_MAX: Final = 10_000
_PERSISTENT: Final = 2
_OF_SESSION: Final = b"pyjms:"
"""What the id of a session's transaction begins with, for deliveries of other sessions: the number of its channel follows."""


class SessionTransactions(ABC):
    """The transactions of one session."""

    @property
    def begin_properties(self) -> Mapping[str, Any] | None:
        """The properties with which its session of AMQP begins."""
        return None

    @abstractmethod
    def send(self, address: Address, data: bytes, *, is_persistent: bool) -> None:
        """Send a message of the transaction. Raises the broker's refusal, and as `PhysicalConnection.call`."""

    @abstractmethod
    def acknowledge(
        self, physical: PhysicalConnection | None, live: Sequence[ReceivedMessage], *, are_all: bool
    ) -> None:
        """Have the commit settle messages.

        Args:
            physical: the connection that they came by; None: there are none.
            live: the messages that can be settled.
            are_all: whether there are no others, which come again.
        """

    @abstractmethod
    def lose(self) -> None:
        """Hear that a message of the transaction was lost with its connection: the commit fails."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the open transaction. Raises as `ProviderSession.commit`."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll the open transaction back. Raises as `ProviderSession.rollback`."""

    @abstractmethod
    def interrupted(self) -> None:
        """Drop the links of the physical connection, which has ended. The connection's lock is not held."""

    @abstractmethod
    def close(self) -> None:
        """Roll back what is open, as the session ends."""


class _Transaction:
    """The open transaction."""

    def __init__(self, physical: PhysicalConnection, txn_id: bytes) -> None:
        self.physical = physical
        self.txn_id = txn_id
        self.pending = 0
        """Messages whose outcome is not known yet."""
        self.in_flight = 0
        """Their bytes, about."""
        self.error: ProviderError | None = None
        """What the broker has refused of it first."""
        self.taken: Reply | None = None
        """The call that waits until nothing is pending."""
        self.is_doomed = False
        """Whether it has acknowledged a message of a lost connection, which comes again."""
        self.is_ending = False
        """Whether the broker is being asked to commit it, or a signal interrupted that call."""


class CoordinatedTransactions(SessionTransactions):
    """Transactions that a coordinator declares and discharges."""

    def __init__(self, session: TransactedSession) -> None:
        self._session = session
        self._link: TransactionLink | None = None
        self._open: _Transaction | None = None
        self._is_lost = False
        """Whether the open transaction ended with its connection."""

    def send(self, address: Address, data: bytes, *, is_persistent: bool) -> None:
        session, open_ = self._session, self._open
        # The link first: a destination that does not exist is no reason to begin a transaction.
        link = session.present_sender(address) if open_ is None else session.sender(open_.physical, address)
        physical = link.physical
        transaction = self._begin(physical)

        def done(outcome: Any) -> None:
            transaction.pending -= 1
            transaction.in_flight -= len(data)
            error = outcome if isinstance(outcome, ProviderError) else outcome_refusal(outcome)
            transaction.error = transaction.error or error
            if not transaction.pending or transaction.in_flight <= _IN_FLIGHT_MAX // 2:
                physical.settle(transaction.taken)

        if transaction.in_flight > _IN_FLIGHT_MAX:
            self._await_taken(transaction, at_most=_IN_FLIGHT_MAX // 2)
        with session.connection.lock:
            transaction.pending += 1
            transaction.in_flight += len(data)
        link.post(data, f"a message to {address}", state=TransactionalState(transaction.txn_id), done=done)
        physical.flush_soon()

    def _await_taken(self, transaction: _Transaction, at_most: int = 0) -> None:
        """Wait until the broker has answered what was sent in the transaction. Raises as `PhysicalConnection.call`."""

        def ask(reply: Reply) -> None:
            if not transaction.pending or (at_most and transaction.in_flight <= at_most):
                transaction.physical.settle(reply)
            else:
                transaction.taken = reply

        transaction.physical.call(ask, "the messages of a transaction", may_last=True)
        transaction.taken = None

    def _begin(self, physical: PhysicalConnection) -> _Transaction:
        """Return the open transaction; one begins on `physical` if there is none. Raises as `TransactionLink.declare`."""
        found = self._open
        if found is None:
            found = self._open = _Transaction(physical, self._coordinator(physical).declare())
        return found

    def _coordinator(self, physical: PhysicalConnection) -> TransactionLink:
        found = self._link
        if found is None or found.physical is not physical or not found.is_usable:
            found = TransactionLink(physical, self._session.amqp_session(physical))
            found.attach()
            self._link = found
        return found

    def acknowledge(
        self, physical: PhysicalConnection | None, live: Sequence[ReceivedMessage], *, are_all: bool
    ) -> None:
        try:
            found = self._open
            if physical is not None and found is None:
                found = self._begin(physical)
            if found is None:
                self._is_lost = True
                return
            # Messages sent in response to ones that come again must not be committed.
            found.is_doomed = found.is_doomed or not are_all or found.physical is not physical
            if found.is_doomed:
                return
            state = TransactionalState(found.txn_id, ACCEPTED)
            self._session.accept(live, lambda _: state)
            found.physical.flush_soon()
        except ConnectionLostInCallError:
            self._is_lost = True  # the commit raises the error

    def accept_alone(self, physical: PhysicalConnection, live: Sequence[ReceivedMessage]) -> None:
        """Accept messages in a transaction of their own, whose end the broker answers (decision 0811). Raises as `PhysicalConnection.call`."""
        coordinator = self._coordinator(physical)
        txn_id = coordinator.declare()
        state = TransactionalState(txn_id, ACCEPTED)
        self._session.accept(live, lambda _: state)
        coordinator.discharge(txn_id)

    def lose(self) -> None:
        self._is_lost = True

    def commit(self) -> None:
        found, is_lost = self._open, self._is_lost
        if found is None and not is_lost:
            return  # nothing was sent or acknowledged: the broker knows of no transaction
        if found is not None and found.is_ending:
            self._leave()
            raise InDoubtError("a signal interrupted the end of the transaction: it is not known whether that was done")
        if found is None or is_lost or found.is_doomed or found.physical.has_ended:
            self.rollback()
            raise RolledBackError("the transaction was rolled back, as the connection was lost in it")
        try:
            self._end(found)
        finally:
            self._leave()

    def _end(self, found: _Transaction) -> None:
        """Have the broker commit the transaction. Raises `RolledBackError`, `InDoubtError`."""
        try:
            if found.pending:
                self._await_taken(found)
        except (ConnectionLostInCallError, UnansweredError) as error:
            self._roll_back(found)
            raise RolledBackError(
                f"the transaction was rolled back, as the broker had not taken all of its messages: {error}"
            ) from error
        if found.error is not None:
            self._roll_back(found)
            raise RolledBackError(f"the transaction was rolled back: {found.error.reason}") from found.error
        # Set before anything is written: if a signal ends this
        # call, the next one must not take the transaction for open.
        found.is_ending = True
        try:
            self._coordinator(found.physical).discharge(found.txn_id)
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise lost_while_ended(error, "committed") from error

    def _roll_back(self, found: _Transaction) -> None:
        try:
            self._coordinator(found.physical).discharge(found.txn_id, fail=True)
        except (ConnectionLostInCallError, ProviderError) as error:
            _log.debug("a transaction ended with its connection: %s", error)

    def rollback(self) -> None:
        found = self._open
        if found is not None and not found.is_ending and not found.physical.has_ended:
            self._roll_back(found)
        self._leave()

    def _leave(self) -> None:
        """Forget the transaction, which has ended."""
        self._open, self._is_lost = None, False

    def interrupted(self) -> None:
        self._link = None

    def close(self) -> None:
        if self._open is not None and not self._open.is_ending:
            self._roll_back(self._open)


class _Channel:
    """How a session's commands reach the broker: implements `CommandChannel`."""

    def __init__(self, session: TransactedSession) -> None:
        self._session = session

    def check_open(self) -> None:
        """Raise `ClosedError` or `ConnectionLostError` if the session is over."""
        self._session.check_open()

    def current(self) -> PhysicalConnection:
        """Return the present physical connection."""
        return self._session.present()

    def ask(
        self, physical: PhysicalConnection, command: Command, late: Callable[[], None] | None = None
    ) -> Mapping[str, str]:
        """Send a command, and return the headers of its answer."""
        return self._session.commands(physical).ask(command, late)

    def tell(self, physical: PhysicalConnection, command: Command) -> None:
        """Send a command that has no answer."""
        self._session.commands(physical).tell(command)

    def request(self, physical: PhysicalConnection, command: BranchCommand) -> CommandRequest:
        """Return a request that was not sent yet."""
        return CommandRequest(physical, command)

    def ask_once(self, request: CommandRequest, command: BranchCommand) -> Mapping[str, str]:
        """Send the command, or wait for its answer again."""
        return self._session.commands(request.physical).ask_once(request, command)

    def take_back(self, physical: PhysicalConnection, command: Command) -> None:
        """Send a command whose refusal is dropped."""
        try:
            self._session.commands(physical).take_back(command)
        except (ConnectionLostInCallError, ProviderError) as error:
            _log.debug("the broker has not heard %s: %s", command.COMMAND, error)


class CommandedTransactions(SessionTransactions):
    """Transactions and branches at the pyjms broker: all that a session sends and accepts belongs to its open one, which commands end."""

    def __init__(self, session: TransactedSession, *, transacted: bool, default_timeout_s: Callable[[], int]) -> None:
        """`default_timeout_s`: the broker's default time limit of branches."""
        self._session = session
        self.unit: SessionUnit[PhysicalConnection, CommandRequest] = SessionUnit(
            _Channel(session),
            "",
            transacted=transacted,
            default_timeout_s=default_timeout_s,
            can_prepare=lambda: session.connection.can_prepare,
        )
        self._known: set[Address] = set()
        """Destinations that have taken a message on the present connection; cleared when a transaction fails."""
        self._unanswered = 0
        """Bytes that were sent since the broker has answered something of this session last, about."""

    @property
    def begin_properties(self) -> Mapping[str, Any] | None:
        return {TRANSACTED: True} if self.unit.transacted else None

    def send(self, address: Address, data: bytes, *, is_persistent: bool) -> None:
        session, unit = self._session, self.unit
        begun = unit.physical
        link = session.present_sender(address) if begun is None else session.sender(begun, address)
        unit.enter(link.physical)
        # A refusal at the commit would recur with each redelivery, so the first send waits for the answer. A temporary
        # destination may end with its client: so each PERSISTENT message there waits.
        # And one of some megabytes waits: the broker has taken those before it then, which otherwise could all be in memory here.
        is_first = address not in self._known or (address.temporary and is_persistent)
        if is_first or self._unanswered > _IN_FLIGHT_MAX:
            self._send_asking(link, address, data)
        else:
            self._unanswered += len(data)
            link.post(data, f"a message to {address}", done=None)
            link.physical.flush_soon()

    def _send_asking(self, link: SendingLink, address: Address, data: bytes) -> None:
        error = outcome_refusal(link.send(data, f"a message to {address}"))
        self._unanswered = 0
        if error is not None:
            raise error
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known.add(address)

    def acknowledge(
        self, physical: PhysicalConnection | None, live: Sequence[ReceivedMessage], *, are_all: bool
    ) -> None:
        unit = self.unit
        # Messages sent in response to ones that come again must not be committed.
        unit.is_doomed = unit.is_doomed or not are_all
        if physical is None or unit.enter(physical) is not physical:
            return  # the transaction is lost: the commit raises the error
        try:
            own = self._session.amqp_session(physical)
        except ConnectionLostInCallError:
            unit.is_doomed = True
            return
        adopted = TransactionalState(_OF_SESSION + own.channel.to_bytes(2, "big"), ACCEPTED)

        def state_in(session: Session) -> Any:
            return ACCEPTED if session is own else adopted

        self._session.accept(live, state_in)
        physical.flush_soon()

    def lose(self) -> None:
        self.unit.is_doomed = True

    def commit(self) -> None:
        self._ended(self.unit.commit)

    def prepare(self, xid: Xid) -> bool:
        """Prepare the open transaction. Raises as `ProviderSession.prepare`."""
        return self._ended(partial(self.unit.prepare, xid))

    def _ended(self, end: Callable[[], _T]) -> _T:
        """End the open transaction, and return the result. Raises as `end`."""
        self._unanswered = 0
        try:
            return end()
        except RolledBackError:
            # It is not said which destination has refused something, so each is asked again.
            self._known.clear()
            raise

    def rollback(self) -> None:
        self.unit.rollback()

    def interrupted(self) -> None:
        # The next connection may lead to another broker, which may refuse what this one accepted.
        self._known.clear()
        self.unit.interrupted()

    def close(self) -> None:
        """Do nothing: the end of the session of AMQP ends its transaction."""
