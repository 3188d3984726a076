"""A session at a broker over AMQP: a session of AMQP, with a link for each destination that it sends to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import (
    CapabilityError,
    ClosedError,
    DestinationError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
    SubscriptionInUseError,
    TooLateError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import ProviderSession, SubscribeRequest
from pyjms_provider.amqp.errors import Condition, EncodeError
from pyjms_provider.amqp.jms import write_message
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    RELEASED,
    Attach,
    Error,
    Rejected,
    Source,
    Target,
    TransactionalState,
)
from pyjms_provider.clients.amqp.consumer import FAILED, AmqpConsumer, ReceivedMessage, browse, remember
from pyjms_provider.clients.amqp.links import ClientLink, SendingLink, TransactionLink, new_name
from pyjms_provider.clients.amqp.profiles import capability_of
from pyjms_provider.clients.amqp.refusals import outcome_refusal
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.network.calls import (
    ConnectionLostInCallError,
    UnansweredError,
    lost_while_ended,
    lost_while_sent,
)

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.clients.amqp.contracts import ClientConnection
    from pyjms_provider.clients.amqp.physical_connection import PhysicalConnection, Reply
    from pyjms_provider.protocols.amqp.link import IncomingDelivery
    from pyjms_provider.protocols.amqp.session import Session

_log = logging.getLogger("pyjms.amqp")

_SENDERS_MAX: Final = 100
"""Links for sending that a session keeps: a server that answers to the temporary queue of each client would have one for each."""
_IN_FLIGHT_MAX: Final = 4 * 1024 * 1024
"""Bytes of a transaction that may be on their way: then it waits until the broker has taken them."""


class _Unit:
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


class AmqpSession(ProviderSession):
    """A session of an `AmqpConnection`. What it knows of the present connection is guarded by the connection's lock."""

    def __init__(self, connection: ClientConnection, *, transacted: bool) -> None:
        self.connection = connection
        self.transacted = transacted
        self._consumers: dict[AmqpConsumer, None] = {}
        self._amqp: tuple[PhysicalConnection, Session] | None = None
        self._senders: dict[Address, SendingLink] = {}
        self._transactions: TransactionLink | None = None
        self._held: dict[ReceivedMessage, None] = {}
        """What it has delivered and not settled, in order."""
        self._kept: dict[AmqpConsumer, ClientLink] = {}
        """Links of closed consumers whose messages are held."""
        self._unit: _Unit | None = None
        self._is_lost = False
        """Whether the open transaction ended with its connection."""
        self._closed = False
        self._close_once = CloseOnce()

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self._closed

    def abandon(self) -> None:
        """Mark it as closed, as the call that was to open it has failed."""
        self._closed = True

    # ------------------------------------------------------------------------------------- the session of AMQP beneath

    def enter(self, physical: PhysicalConnection) -> None:
        """Begin it on a physical connection, unless it is there. Raises `ProviderError`, `ConnectionLostInCallError`."""
        if self._amqp is None or self._amqp[0] is not physical:
            self._amqp = physical, physical.begin_session()

    def amqp_session(self, physical: PhysicalConnection) -> Session:
        """Return the session of AMQP on a physical connection. Raises `ConnectionLostInCallError`: it is not there, or no longer."""
        amqp = self._amqp
        if amqp is None or amqp[0] is not physical:
            raise ConnectionLostInCallError(physical.reason or "the session is not open on this connection")
        return amqp[1]

    def interrupted(self) -> None:
        """Drop the state of the physical connection, which has ended."""
        for consumer in self.consumers():
            consumer.interrupted()
        with self.connection.lock:
            self._amqp, self._transactions = None, None
            self._senders = {}
            self._kept = {}
            held, self._held = self._held, {}
        remember(held)

    # --------------------------------------------------------------------------------------------------------- sending

    def send(self, envelope: Envelope) -> None:
        self._check_open()
        data = self._encoded(envelope)
        try:
            if self.transacted:
                self._send_in_unit(envelope.destination, data)
            else:
                link = self._present_sender(envelope.destination)
                error = outcome_refusal(link.send(data, f"a message to {envelope.destination}"))
                if error is not None:
                    raise error
        except ConnectionLostInCallError as error:
            self._check_open()
            if self.transacted:
                self._is_lost = True
                return  # the commit raises the error
            raise lost_while_sent(error) from error
        except UnansweredError as error:
            raise InDoubtError(error.reason) from error

    def _encoded(self, envelope: Envelope) -> bytes:
        connection = self.connection
        try:
            return write_message(connection.outgoing(envelope), now_ms=connection.clock.time_ms())
        except EncodeError as error:
            raise ProviderError(f"the message cannot be sent over AMQP: {error}") from error

    def _present_sender(self, address: Address) -> SendingLink:
        """Return the link for a destination on the present connection; ask again if that is lost meanwhile, as nothing was sent yet."""
        link = self._senders.get(address)
        if link is not None and link.physical is self.connection.failover.current() and link.is_usable:
            return link
        link = self.connection.on_present(lambda physical: self._sender(physical, address))
        assert isinstance(link, SendingLink)
        return link

    def _sender(self, physical: PhysicalConnection, address: Address) -> SendingLink:
        """Return the link for a destination. Raises the broker's refusal, `ConnectionLostInCallError`."""
        link = self._senders.get(address)
        if link is not None and link.physical is physical and link.is_usable:
            return link
        session = self.amqp_session(physical)
        if len(self._senders) >= _SENDERS_MAX:
            _, oldest = self._senders.popitem()
            oldest.detach()
        link = SendingLink(physical, session)
        target = Target(self.connection.to_broker(address), capabilities=(capability_of(address),))
        attach = Attach("", 0, False, snd_settle_mode=0, source=Source(), target=target)
        link.attach(new_name("sender"), attach, f"the destination {address}")
        self._senders[address] = link
        if self._closed:
            link.is_ending = True
        return link

    def end_sender(self, address: Address) -> None:
        """End the link for a temporary destination that is about to be deleted: a message on its way would end the whole session at Broker-J."""
        link = self._senders.pop(address, None)
        if link is not None:
            try:
                link.detach()
            except (ConnectionLostInCallError, UnansweredError) as error:
                _log.debug("a link ended with its connection: %s", error)

    def _send_in_unit(self, address: Address, data: bytes) -> None:
        """Send a message of the transaction; the broker's answer is awaited before the commit."""
        # The link first: a destination that does not exist is no reason to begin a transaction.
        link = self._present_sender(address) if self._unit is None else self._sender(self._unit.physical, address)
        physical = link.physical
        unit = self._begin_unit(physical)

        def done(outcome: Any) -> None:
            unit.pending -= 1
            unit.in_flight -= len(data)
            error = outcome if isinstance(outcome, ProviderError) else outcome_refusal(outcome)
            unit.error = unit.error or error
            if not unit.pending or unit.in_flight <= _IN_FLIGHT_MAX // 2:
                physical.settle(unit.taken)

        if unit.in_flight > _IN_FLIGHT_MAX:
            self._await_taken(unit, at_most=_IN_FLIGHT_MAX // 2)
        with self.connection.lock:
            unit.pending += 1
            unit.in_flight += len(data)
        link.post(data, f"a message to {address}", state=TransactionalState(unit.txn_id), done=done)
        physical.flush_soon()

    def _await_taken(self, unit: _Unit, at_most: int = 0) -> None:
        """Wait until the broker has answered what was sent in the transaction. Raises as `PhysicalConnection.call`."""

        def ask(reply: Reply) -> None:
            if not unit.pending or (at_most and unit.in_flight <= at_most):
                unit.physical.settle(reply)
            else:
                unit.taken = reply

        unit.physical.call(ask, "the messages of a transaction", may_last=True)
        unit.taken = None

    def _begin_unit(self, physical: PhysicalConnection) -> _Unit:
        """Return the open transaction; one begins on `physical` if there is none. Raises as `TransactionLink.declare`."""
        unit = self._unit
        if unit is None:
            unit = self._unit = _Unit(physical, self._coordinator(physical).declare())
        return unit

    def _coordinator(self, physical: PhysicalConnection) -> TransactionLink:
        found = self._transactions
        if found is None or found.physical is not physical or not found.is_usable:
            found = TransactionLink(physical, self.amqp_session(physical))
            found.attach()
            self._transactions = found
        return found

    # ---------------------------------------------------------------------------------------------------- transactions

    def commit(self) -> None:
        self._check_transacted()
        unit, is_lost = self._unit, self._is_lost
        if unit is None and not is_lost:
            return  # nothing was sent or acknowledged: the broker knows of no transaction
        if unit is not None and unit.is_ending:
            self._leave_unit()
            raise InDoubtError("a signal interrupted the end of the transaction: it is not known whether that was done")
        if unit is None or is_lost or unit.is_doomed or unit.physical.has_ended:
            self.rollback()
            raise RolledBackError("the transaction was rolled back, as the connection was lost in it")
        try:
            self._end_unit(unit)
        finally:
            self._leave_unit()

    def _end_unit(self, unit: _Unit) -> None:
        """Have the broker commit the transaction. Raises `RolledBackError`, `InDoubtError`."""
        try:
            if unit.pending:
                self._await_taken(unit)
        except (ConnectionLostInCallError, UnansweredError) as error:
            self._roll_back(unit)
            raise RolledBackError(
                f"the transaction was rolled back, as the broker had not taken all of its messages: {error}"
            ) from error
        if unit.error is not None:
            self._roll_back(unit)
            raise RolledBackError(f"the transaction was rolled back: {unit.error.reason}") from unit.error
        # Set before anything is written: if a signal ends this
        # call, the next one must not take the transaction for open.
        unit.is_ending = True
        try:
            self._coordinator(unit.physical).discharge(unit.txn_id)
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise lost_while_ended(error, "committed") from error

    def _roll_back(self, unit: _Unit) -> None:
        try:
            self._coordinator(unit.physical).discharge(unit.txn_id, fail=True)
        except (ConnectionLostInCallError, ProviderError) as error:
            _log.debug("a transaction ended with its connection: %s", error)

    def rollback(self) -> None:
        self._check_transacted()
        unit = self._unit
        if unit is not None and not unit.is_ending and not unit.physical.has_ended:
            self._roll_back(unit)
        self._leave_unit()

    def _leave_unit(self) -> None:
        """Forget the transaction, which has ended."""
        self._unit, self._is_lost = None, False

    def _check_transacted(self) -> None:
        self._check_open()
        if not self.transacted:
            raise CapabilityError("the session is not transacted")

    # ------------------------------------------------------------------------------------------------------- receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> AmqpConsumer:
        self._check_open()
        connection = self.connection
        if request.address.temporary and not connection.owns(request.address):
            raise DestinationError(
                f"{request.address} was deleted, or is another connection's, which alone may consume from it"
            )
        if request.durable_name is not None and not request.is_shared:
            self._end_kept(request.durable_name)
            connection.reserve(request.durable_name)
        consumer = AmqpConsumer(self, request, on_ready, connection.settings.prefetch_messages)
        # Before the attach: a restore at this moment must find the consumer.
        self._consumers[consumer] = None
        connection.remember(consumer)
        try:
            connection.on_present(consumer.attach)
        except ProviderError:
            consumer.abandon()
            raise
        # `close` may have listed the session's consumers before this one was made.
        if self._closed:
            consumer.close()
            self._check_open()
        return consumer

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        self._check_open()
        return browse(self, address, selector)

    def unsubscribe(self, name: str) -> None:
        self._check_open()
        if any(tag.consumer.request.durable_name == name for tag in tuple(self._held)):
            raise SubscriptionInUseError(f"the durable subscription {name!r} has messages that are not settled")
        self.connection.reserve(name)
        try:
            self._delete_subscription(name)
        except ConnectionLostInCallError as error:
            raise ResourceError(f"the connection was lost: {error}; try again") from error
        finally:
            self.connection.release(name)

    def _delete_subscription(self, name: str) -> None:
        physical = self.connection.failover.current()
        link = ClientLink(physical, self.amqp_session(physical))
        # A link without a source looks the subscription up by its name; the answer has its source.
        # One of a client id is named so; one of no client id is a shared one.
        is_global = self.connection.client_id is None
        attach = Attach(
            "", 0, True, source=None, target=Target(), desired_capabilities=("shared", "global") if is_global else ()
        )
        try:
            link.attach(f"{name}|global" if is_global else name, attach, f"the subscription {name}")
            link.detach(is_closed=True)
        except UnansweredError:
            raise
        except ProviderError as error:
            if link.condition == Condition.RESOURCE_LOCKED:
                raise SubscriptionInUseError(error.reason) from error
            raise UnknownSubscriptionError(f"there is no durable subscription {name!r}: {error.reason}") from error

    def consumers(self) -> list[AmqpConsumer]:
        """Return the open consumers."""
        return [consumer for consumer in tuple(self._consumers) if consumer.is_open]

    def forget(self, consumer: AmqpConsumer) -> None:
        """Remove a consumer that closes."""
        self._consumers.pop(consumer, None)
        self.connection.forget_consumer(consumer)

    # -------------------------------------------------------------------------------------------------------- settling

    def hold(self, tag: ReceivedMessage) -> None:
        """Note a message that is delivered; the lock is held."""
        self._held[tag] = None

    def let_go(self, tags: Sequence[ReceivedMessage]) -> None:
        """Forget messages that are settled, or go back; the lock is held."""
        for tag in tags:
            self._held.pop(tag, None)

    def keep_link(self, link: ClientLink, consumer: AmqpConsumer) -> None:
        """End the link of a closed consumer when its messages are settled."""
        self._kept[consumer] = link

    def _end_kept(self, durable_name: str | None = None) -> None:
        """End links of closed consumers of which nothing is held, or those of a durable subscription that gets a new consumer."""
        for consumer, link in tuple(self._kept.items()):
            is_asked = durable_name is not None and consumer.request.durable_name == durable_name
            if is_asked or not link.has_unsettled:
                self._kept.pop(consumer, None)
                if is_asked:
                    self._return_held([tag for tag in tuple(self._held) if tag.consumer is consumer])
                try:
                    link.detach(is_closed=consumer.request.durable_name is None)
                except (ConnectionLostInCallError, UnansweredError) as error:
                    _log.debug("a consumer ended with its connection: %s", error)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        physical, live = self._live(deliveries)
        if self.transacted:
            self._acknowledge_in_unit(physical, live, are_all=len(live) == len(deliveries))
            return
        if len(live) < len(deliveries):
            # One error stands for all of them: a client that rolls back because of it must get each again.
            self._redeliver(live, is_seen=True)
            if _were_settlements_sent(deliveries):
                raise InDoubtError(
                    "the connection that messages came by was lost after it was said that they are settled: it is not known whether they come again"
                )
            raise TooLateError(
                "the connection that messages came by was lost before they were settled; they come again, and what was to be "
                "settled together with them"
            )
        if physical is not None:
            self._settle(physical, live)

    def _settle(self, physical: PhysicalConnection, live: Sequence[ReceivedMessage]) -> None:
        """Accept messages, and wait for the broker where that is asked and it can tell."""
        connection = self.connection
        is_sent = any(tag.is_sent for tag in live)
        waits = connection.settings.confirm_acknowledge and any(tag.is_persistent for tag in live)
        for tag in live:
            tag.is_sent = True
        # An earlier call may have settled some: then a lost connection leaves open whether they come again.
        lost = InDoubtError if is_sent else TooLateError
        try:
            if not waits or physical.is_own_thread():
                self._accept_soon(physical, live)
            elif connection.profile.confirms:
                self._accept_and_wait(physical, live)
            elif connection.can_confirm_by_transaction:
                self._accept_in_transaction(physical, live)
            else:
                self._accept_soon(physical, live)
        except ConnectionLostInCallError as error:
            raise lost(f"the connection was lost while messages were settled: {error}") from error
        except UnansweredError as error:
            raise lost(error.reason) from error
        if self._kept:
            self._end_kept()

    def _accept_soon(self, physical: PhysicalConnection, live: Sequence[ReceivedMessage]) -> None:
        with self.connection.lock:
            # What waits already has somebody who writes it.
            is_first = not physical.engine.out_size
            self.let_go(live)
            for session, each in _by_session(live):
                session.update_incoming(each, ACCEPTED)
        if is_first:
            physical.flush_soon()

    def _accept_and_wait(self, physical: PhysicalConnection, live: Sequence[ReceivedMessage]) -> None:
        """Accept messages unsettled: the broker settles them when that is safe."""
        left = len(live)

        def ask(reply: Reply) -> None:
            def settled(_: IncomingDelivery) -> None:
                nonlocal left
                left -= 1
                if not left:
                    physical.settle(reply)

            self.let_go(live)
            for tag in live:
                tag.delivery.context = settled
            for session, each in _by_session(live):
                session.update_incoming(each, ACCEPTED, is_settled=False)

        physical.call(ask, "an acknowledgement")

    def _accept_in_transaction(self, physical: PhysicalConnection, live: Sequence[ReceivedMessage]) -> None:
        """Accept messages in a transaction of their own, whose end the broker answers (decision 0811)."""
        coordinator = self._coordinator(physical)
        txn_id = coordinator.declare()
        with self.connection.lock:
            self.let_go(live)
            for session, each in _by_session(live):
                session.update_incoming(each, TransactionalState(txn_id, ACCEPTED))
        coordinator.discharge(txn_id)

    def _acknowledge_in_unit(
        self, physical: PhysicalConnection | None, live: Sequence[ReceivedMessage], *, are_all: bool
    ) -> None:
        """Have the commit settle the messages."""
        if are_all and not live:
            return  # a repeated commit has nothing more to acknowledge
        try:
            unit = self._unit
            if physical is not None and unit is None:
                unit = self._begin_unit(physical)
            if unit is None:
                self._is_lost = True
                return
            # Messages sent in response to ones that come again must not be committed.
            unit.is_doomed = unit.is_doomed or not are_all or unit.physical is not physical
            if unit.is_doomed:
                return
            with self.connection.lock:
                self.let_go(live)
                for tag in live:
                    tag.is_sent = True
                for session, each in _by_session(live):
                    session.update_incoming(each, TransactionalState(unit.txn_id, ACCEPTED))
            unit.physical.flush_soon()
        except ConnectionLostInCallError:
            self._is_lost = True  # the commit raises the error

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        self._redeliver(self._live(deliveries)[1], is_seen=True)

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        self._redeliver(self._live(deliveries)[1], is_seen=False)

    def _redeliver(self, live: Sequence[ReceivedMessage], *, is_seen: bool) -> None:
        """Have the consumers deliver messages again; those of closed ones go back to the broker."""
        by_consumer: dict[AmqpConsumer, list[ReceivedMessage]] = {}
        for tag in live:
            by_consumer.setdefault(tag.consumer, []).append(tag)
        goes_back = []
        with self.connection.lock:
            for consumer, tags in by_consumer.items():
                if consumer.put_back(tags, is_seen=is_seen):
                    self.let_go(tags)
                else:
                    goes_back += tags
        if goes_back:
            for tag in goes_back:
                tag.is_seen = is_seen
            self._return_held(goes_back)
            self._end_kept()
        physical = self.connection.failover.newest
        physical.run_due()
        self._flush(physical)

    def _return_held(self, tags: Sequence[ReceivedMessage]) -> None:
        """Give messages back to the broker, each to its old place."""
        remember(tags)
        with self.connection.lock:
            self.let_go(tags)
            for outcome, is_seen in ((FAILED, True), (RELEASED, False)):
                for session, each in _by_session([tag for tag in tags if tag.is_seen is is_seen]):
                    session.update_incoming(each, outcome)

    def reject(self, delivery: Delivery, reason: str) -> None:
        self._check_open()
        physical, live = self._live([delivery])
        if physical is None:
            return
        with self.connection.lock:
            self.let_go(live)
            for session, each in _by_session(live):
                session.update_incoming(each, Rejected(Error(Condition.PRECONDITION_FAILED, reason)))
        self._flush(physical)

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        _, live = self._live(deliveries)
        with self.connection.lock:
            for tag in live:
                tag.consumer.session.let_go((tag,))
                self.hold(tag)

    def _live(self, deliveries: Sequence[Delivery]) -> tuple[PhysicalConnection | None, list[ReceivedMessage]]:
        """Return the messages of the present connection that are not settled, and that connection; None: there are none.

        The broker has taken back the others, and delivers them again.
        """
        physical = self.connection.failover.newest
        live = []
        for delivery in deliveries:
            tag = delivery.tag
            if (
                isinstance(tag, ReceivedMessage)
                and tag.physical is physical
                and not physical.has_ended
                and not tag.delivery.is_settled
            ):
                live.append(tag)
        if any(isinstance(each.tag, ReceivedMessage) and each.tag.physical is not physical for each in deliveries):
            _log.warning(
                "PYJMS-EPOCH messages were settled after the connection that they came by was lost; they come again"
            )
        return (physical if live else None), live

    def _flush(self, physical: PhysicalConnection) -> None:
        try:
            physical.flush()
        except ConnectionLostInCallError:
            _log.debug("the connection ended before the broker had heard of a settlement")

    # --------------------------------------------------------------------------------------------------------- the end

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        return self.connection.failover.wait

    def end_waits(self) -> None:
        if self._closed:
            return
        with self.connection.lock:
            for link in self._senders.values():
                link.end_waits()
        self.connection.failover.newest.run_due()

    def close(self) -> None:
        self._close_once.do(self._shut_down)

    def _shut_down(self) -> None:
        self._closed = True
        for consumer in self.consumers():
            try:
                consumer.close()
            except ProviderError as error:
                _log.warning("a consumer could not be closed in order: %s", error.reason)
        self.connection.forget_session(self)
        amqp = self._amqp
        if amqp is None:
            return
        physical, session = amqp
        try:
            if self._unit is not None and not self._unit.is_ending:
                self._roll_back(self._unit)
            self._return_held(tuple(self._held))
            self._end_kept()
            # What another session has adopted can be settled here alone: then the session of AMQP stays.
            if self._kept:
                self.connection.linger(physical, session)
            else:
                physical.end_session(session)
            self.connection.end_lingering(physical)
        except (ConnectionLostInCallError, ProviderError) as error:
            _log.debug("a session ended with its connection: %s", error)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the session is closed")
        self.connection.failover.check_open()


def _by_session(tags: Sequence[ReceivedMessage]) -> list[tuple[Any, list[IncomingDelivery]]]:
    """Return the deliveries by the sessions of AMQP that they came by; mostly it is one."""
    found: dict[Any, list[IncomingDelivery]] = {}
    for tag in tags:
        found.setdefault(tag.delivery.link.session, []).append(tag.delivery)
    return list(found.items())


def _were_settlements_sent(deliveries: Sequence[Delivery]) -> bool:
    """Return whether a settlement of one of these was told by a call that got no answer; a second call returns False."""
    sent = [each.tag for each in deliveries if isinstance(each.tag, ReceivedMessage) and each.tag.is_sent]
    for tag in sent:
        # Reported once: a repeated call about the same messages would be in doubt for ever.
        tag.is_sent = False
    return bool(sent)
