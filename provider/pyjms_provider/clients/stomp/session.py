"""A session at a broker: what it sent and holds, and how that is settled or given back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.spi.errors import (
    CapabilityError,
    ClosedError,
    DestinationError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
)
from pyjms.spi.provider import ProviderSession, SubscribeRequest
from pyjms.spi.selector import Selector
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.stomp.held_message import HeldMessage, Transaction, begin_settlement, flush
from pyjms_provider.clients.stomp.physical_connection import (
    ConnectionLostInCallError,
    PhysicalConnection,
    Request,
    UnansweredError,
    lost_while_sent,
)
from pyjms_provider.clients.stomp.subscription import Subscription
from pyjms_provider.protocols.stomp.dialects import NackMeaning
from pyjms_provider.protocols.stomp.frames import Frame

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock, Signal
    from pyjms_provider.clients.stomp.connection import StompConnection

_log = logging.getLogger("pyjms.stomp")

_PERSISTENT = 2


class StompSession(ProviderSession):
    """A session of a `StompConnection`."""

    def __init__(self, connection: StompConnection, name: str, *, transacted: bool) -> None:
        self._connection = connection
        self._link = connection.link
        self._dialect = connection.dialect
        self._name = name
        self._transacted = transacted
        self._transaction: Transaction | None = None
        self._transaction_numbers = count(1)
        self._lock = Lock()
        self._held: dict[HeldMessage, None] = {}
        self._subscriptions: dict[Subscription, None] = {}
        self._closed = False
        self._ending = CloseOnce()

    # Sending

    def send(self, envelope: Envelope) -> None:
        self._check_open()
        frame = self._connection.frame_of(envelope)
        physical = self._link.current()
        try:
            if self._transacted:
                transaction = self._open_transaction(physical)
                transaction.check()
                frame.headers["transaction"] = transaction.name
                transaction.physical.post(frame)
            elif envelope.delivery_mode == _PERSISTENT:
                physical.request(frame)
            else:
                physical.post(frame)
        except ConnectionLostInCallError as error:
            self._check_open()
            if self._transaction is not None:
                raise RolledBackError(f"the transaction was rolled back: the connection was lost: {error}") from error
            raise lost_while_sent(error) from error
        except UnansweredError as error:
            raise InDoubtError(error.reason) from error

    def _open_transaction(self, physical: PhysicalConnection) -> Transaction:
        """Return the transaction; begin one in `physical` if there is none. Raises `ConnectionLostInCallError`."""
        transaction = self._transaction
        if transaction is None:
            name = f"{self._name}-{next(self._transaction_numbers)}"
            transaction = self._transaction = Transaction(name, physical)
        return transaction

    def commit(self) -> None:
        self._check_open()
        self._check_transacted()
        transaction = self._transaction
        if transaction is None:
            return
        try:
            transaction.commit()
        except InDoubtError:
            self._let_go(transaction.acknowledged)
            self._transaction = None
            raise
        except ProviderError:
            self._transaction = None
            raise
        self._let_go(transaction.acknowledged)
        self._transaction = None

    def rollback(self) -> None:
        self._check_open()
        self._check_transacted()
        transaction = self._transaction
        if transaction is not None:
            transaction.abort()
            self._transaction = None

    def doom(self, reason: str) -> None:
        """Let the open transaction end in a rollback only: the broker has refused a part of it. Any thread."""
        transaction = self._transaction
        if transaction is not None:
            transaction.doom(reason)

    def _check_transacted(self) -> None:
        if not self._transacted:
            raise CapabilityError("the session is not transacted")

    # Receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> Subscription:
        self._check_open()
        subscription = self._connection.subscribe(self, request, on_ready)
        with self._lock:
            is_open = not self._closed
            if is_open and subscription.is_open:
                self._subscriptions[subscription] = None
        if not is_open:
            subscription.close()
            self._check_open()
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Let go of a consumer that closes."""
        with self._lock:
            self._subscriptions.pop(subscription, None)

    def hold(self, held: HeldMessage) -> bool:
        """Take a message that a consumer polls; return False if the session was closed meanwhile and has given it back."""
        with self._lock:
            is_open = not self._closed
            if is_open:
                self._held[held] = None
                held.session = self
        if not is_open:
            held.subscription.give_back([held])
        return is_open

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        for held in _held_of(deliveries):
            former = held.session
            if former is not None:
                former.let_go_of(held)
            self.hold(held)

    def let_go_of(self, held: HeldMessage) -> None:
        """Hear that another session has taken it over."""
        with self._lock:
            self._held.pop(held, None)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        self._check_open()
        if address.kind is not AddressKind.QUEUE:
            raise DestinationError("only queues can be browsed")
        return self._connection.browse(address, selector)

    # Settling

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        if not deliveries:
            return
        held = _held_of(deliveries)
        if self._transacted:
            self._acknowledge_in_transaction(held)
            return
        live = self._live(held)
        if live:
            self._settle(live, self._connection.ack)  # which may wait for another connection
        number = self._link.physical_number
        if any(each.physical != number for each in held):
            # What an earlier call has said whose answer was lost: they are settled again if they come again.
            self._connection.redeliveries.acknowledged(
                each for each in held if each.physical != number and each.settlement
            )
        self._forget_held(held)

    def _acknowledge_in_transaction(self, held: list[HeldMessage]) -> None:
        physical = self._link.current()
        try:
            transaction = self._open_transaction(physical)
            live = [each for each in held if each.physical == transaction.physical.number]
            if len(live) < len(held):
                transaction.doom("the connection was lost meanwhile, and what was received before comes again")
            live = [each for each in live if not each.is_settled(transaction)]
            if transaction.failure is None and live:
                settlement = begin_settlement(live, transaction)
                frames = [self._connection.ack(each, transaction.name) for each in live]
                transaction.physical.post(*frames, sent=settlement)
                transaction.acknowledged += live
        except ConnectionLostInCallError:
            if self._transaction is None:
                raise RolledBackError("the transaction was rolled back: the connection was lost") from None

    def discard(self, held: HeldMessage) -> bool:
        """Settle a message that no client gets: expired, not selected, sent by this connection itself. Never waits, as who polls must not.

        Return False if it comes again, and is to be discarded again.
        """
        physical = self._link.newest
        if held.physical != physical.number:
            return False  # there its id names nothing, or another message
        try:
            physical.post(self._connection.ack(held), needs_room=False, sent=begin_settlement([held]))
        except ConnectionLostInCallError:
            return False
        held.subscription.settled([held])
        return True

    def reject(self, delivery: Delivery, reason: str) -> None:
        self._check_open()
        (held,) = _held_of([delivery])
        if self._live([held]):
            _log.warning("a message is kept aside in the dead letters of %s: %s", self._dialect.title, reason)
            if self._dialect.nack in (NackMeaning.REJECTS, NackMeaning.RETRIES):
                self._settle([held], self._connection.nack)
            else:
                if not held.is_settled():
                    self._bury(held, self._connection.dead_letter(delivery.envelope, reason))
                self._settle([held], self._connection.ack)
        self._forget_held([held])

    def _bury(self, held: HeldMessage, copy: Frame) -> None:
        """Have a copy of a message sent that is to be kept aside, once however often the broker did not answer. In no transaction with its
        acknowledgement: not all brokers have that in one. So where the connection is lost between the two, it comes again, and is kept twice.
        """
        burial = held.burial
        if burial is None:
            physical = self._link.current()
            if held.physical != physical.number:
                return  # lost at this very moment: it comes again
            burial = held.burial = Request(physical, held.ack_id)
        try:
            burial.physical.request_idempotent(burial, copy)
        except UnansweredError:
            raise  # whoever tries again waits for the answer
        except ConnectionLostInCallError as error:
            held.burial = None
            raise ResourceError(f"the connection was lost while a message was kept aside: {error}") from error
        except ProviderError:
            held.burial = None
            raise

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        self._give_back(_held_of(deliveries))

    def _settle(self, held: list[HeldMessage], frame_of: Callable[[HeldMessage], Frame]) -> None:
        """Tell the broker; wait for its answer if the URL asks for that. Raises what the broker answers."""
        fresh = [each for each in held if not each.is_settled()]  # a call that was not answered has said the others
        frames = [frame_of(each) for each in fresh]
        physical = self._link.current()
        live = [each for each in held if each.physical == physical.number]
        if len(live) < len(held):
            return  # lost at this very moment
        settlement = begin_settlement(fresh)
        try:
            if self._connection.settings.confirm_acknowledge:
                if frames:
                    physical.request(*frames, sent=settlement)
                else:
                    flush(physical)
            elif frames:  # else there is nothing to say: over WebSocket it would be an empty message
                physical.post(*frames, sent=settlement)
        except ConnectionLostInCallError:
            self._connection.redeliveries.acknowledged(held)  # if they come again, they are settled again
        except UnansweredError:
            self._check_open()
            raise
        except ProviderError:
            settlement.is_sent = False
            self._check_open()  # closed meanwhile: the messages are back at the broker
            raise
        else:
            for subscription, messages in _by_subscription(held).items():
                subscription.settled(messages)

    def _live(self, held: list[HeldMessage]) -> list[HeldMessage]:
        """Return those of the newest physical connection. The others are the broker's again: what is said of them is dropped."""
        number = self._link.physical_number
        live = [each for each in held if each.physical == number]
        if len(live) < len(held):
            _log.warning(
                "PYJMS-EPOCH %d messages were settled after the connection that they came by was lost; they come again",
                len(held) - len(live),
            )
        return live

    def _let_go(self, held: list[HeldMessage]) -> None:
        """Hear that a transaction has settled these, for all that is known."""
        for subscription, messages in _by_subscription(held).items():
            subscription.settled(messages)
        self._forget_held(held)

    def _give_back(self, held: list[HeldMessage]) -> None:
        number = self._link.physical_number
        self._connection.redeliveries.seen(each for each in held if each.physical != number)
        for subscription, messages in _by_subscription(each for each in held if each.physical == number).items():
            subscription.give_back(messages)
        self._forget_held(held)

    def _forget_held(self, held: Iterable[HeldMessage]) -> None:
        with self._lock:
            for each in held:
                self._held.pop(each, None)

    def interrupted(self, number: int) -> None:
        """Hear that the physical connection `number` has ended: what the client still holds of it comes again."""
        with self._lock:
            held = [each for each in self._held if each.physical <= number]
        self._connection.redeliveries.seen(held)

    # CloseOnce

    def end_waits(self) -> None:
        with self._lock:
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.end_waits()

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        return self._link.wait

    def close(self) -> None:
        self._ending.do(self._shut_down)

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            held, subscriptions = list(self._held), list(self._subscriptions)
        transaction = self._transaction  # once: a commit on another thread takes it away
        if transaction is not None:
            if not transaction.has_ended:
                transaction.doom("the session was closed meanwhile")  # first: no COMMIT may follow the ABORT
            transaction.abort()
        steps: list[Callable[[], None]] = [subscription.close for subscription in subscriptions]
        steps.append(partial(self._give_back, held))
        for step in steps:
            try:
                step()
            except ProviderError as error:  # whatever the broker minds: the others are to end, and the connection
                _log.warning("a session could not be closed in order: %s", error.reason)
        self._connection.forget_session(self)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"session {self._name} is closed")
        self._link.check_open()

    def unsubscribe(self, name: str) -> None:
        self._check_open()
        self._connection.unsubscribe(name)


def _held_of(deliveries: Sequence[Delivery]) -> list[HeldMessage]:
    held = []
    for delivery in deliveries:
        assert isinstance(delivery.tag, HeldMessage), "deliveries of browsers cannot be settled"
        held.append(delivery.tag)
    return held


def _by_subscription(held: Iterable[HeldMessage]) -> dict[Subscription, list[HeldMessage]]:
    found: dict[Subscription, list[HeldMessage]] = {}
    for each in held:
        found.setdefault(each.subscription, []).append(each)
    return found
