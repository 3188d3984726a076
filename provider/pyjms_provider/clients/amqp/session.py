"""A session at a broker over AMQP: a session of AMQP, with a link for each destination that it sends to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.capability import Capability
from pyjms.spi.errors import (
    CapabilityError,
    ClosedError,
    DestinationError,
    InDoubtError,
    ProviderError,
    ResourceError,
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
)
from pyjms_provider.clients.amqp.commands import CommandLink, CommandRequest
from pyjms_provider.clients.amqp.consumer import FAILED, AmqpConsumer, ReceivedMessage, browse, remember
from pyjms_provider.clients.amqp.links import ClientLink, SendingLink, new_name
from pyjms_provider.clients.amqp.profiles import capability_of
from pyjms_provider.clients.amqp.refusals import outcome_refusal
from pyjms_provider.clients.amqp.transactions import (
    CommandedTransactions,
    CoordinatedTransactions,
    SessionTransactions,
)
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.network.calls import (
    ConnectionLostInCallError,
    NotSentError,
    UnansweredError,
    lost_while_sent,
)
from pyjms_provider.clients.network.session_units import SessionUnit
from pyjms_provider.protocols.profile.answers import Found
from pyjms_provider.protocols.profile.commands import Find

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.replay import StageName
    from pyjms.spi.selector import Selector
    from pyjms.spi.sessions import ClientTags
    from pyjms.spi.xid import Xid
    from pyjms_provider.clients.amqp.contracts import ClientConnection
    from pyjms_provider.clients.amqp.physical_connection import PhysicalConnection, Reply
    from pyjms_provider.protocols.amqp.link import IncomingDelivery
    from pyjms_provider.protocols.amqp.session import Session

_log = logging.getLogger("pyjms.amqp")

_SENDERS_MAX: Final = 100
"""Links for sending that a session keeps: a server that answers to the temporary queue of each client would have one for each."""
_PERSISTENT: Final = 2


class AmqpSession(ProviderSession):
    """A session of an `AmqpConnection`. What it knows of the present connection is guarded by the connection's lock."""

    def __init__(self, connection: ClientConnection, *, transacted: bool) -> None:
        self.connection = connection
        self.transacted = transacted
        self._consumers: dict[AmqpConsumer, None] = {}
        self._amqp: tuple[PhysicalConnection, Session] | None = None
        self._senders: dict[Address, SendingLink] = {}
        self._commands: CommandLink | None = None
        self._commanded = (
            CommandedTransactions(
                self, transacted=transacted, default_timeout_s=lambda: connection.transaction_timeout_s
            )
            if connection.has_commands
            else None
        )
        """At the pyjms broker, what commands do for the session."""
        self._transactions: SessionTransactions = self._commanded or CoordinatedTransactions(self)
        self._held: dict[ReceivedMessage, None] = {}
        """What it has delivered and not settled, in order."""
        self._kept: dict[AmqpConsumer, ClientLink] = {}
        """Links of closed consumers whose messages are held."""
        self._closed = self._ends_waits = False
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
            self._amqp = physical, physical.begin_session(self._transactions.begin_properties)

    def present(self) -> PhysicalConnection:
        """Return the present physical connection; wait for it while it is being replaced. Raises as `FailoverConnection.current`, and `ClosedError`."""
        return self.connection.failover.current(self._check_waiting)

    def _check_waiting(self) -> None:
        if self._closed or self._ends_waits:
            raise ClosedError("the session is closed")

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
            self._amqp, self._commands = None, None
            self._senders = {}
            self._kept = {}
            held, self._held = self._held, {}
        self._transactions.interrupted()
        remember(held)

    def commands(self, physical: PhysicalConnection) -> CommandLink:
        """Return the link for commands to the pyjms broker. Raises as `ClientLink.attach`; `NotSentError`: the connection is lost."""
        found = self._commands
        if found is not None and found.physical is physical and found.is_usable:
            return found
        try:
            made = CommandLink(physical, self.amqp_session(physical))
            made.ask_for()
        except ConnectionLostInCallError as error:
            raise NotSentError(str(error)) from error  # no command was sent
        with self.connection.lock:
            found = self._commands
            if found is None or found.physical is not physical or not found.is_usable:
                self._commands = made
                return made
        # Another thread has attached one meanwhile.
        made.detach()
        return found

    # --------------------------------------------------------------------------------------------------------- sending

    def send(self, envelope: Envelope) -> None:
        self.check_open()
        data = self._encoded(envelope)
        try:
            if self.transacted:
                self._transactions.send(envelope.destination, data, is_persistent=envelope.delivery_mode == _PERSISTENT)
            else:
                self._send(envelope, data)
        except ConnectionLostInCallError as error:
            self.check_open()
            if self.transacted:
                self._transactions.lose()
                return  # the commit raises the error
            raise lost_while_sent(error) from error
        except UnansweredError as error:
            raise InDoubtError(error.reason) from error

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        unit = self._unit
        # In a transaction no send waits for the outcome: the commit does.
        if self.transacted or (unit is not None and unit.request_tag is not None):
            super().send_async(envelope, done)
            return
        self.check_open()
        data = self._encoded(envelope)
        try:
            if self._commands is None and self._commanded is not None:
                self.commands(self.present())  # for `end_waits`, which must not wait for the link
            self._post(envelope.destination, data, done)
        except ConnectionLostInCallError as error:
            self.check_open()
            raise lost_while_sent(error) from error
        except UnansweredError as error:
            raise ResourceError(error.reason) from error  # it was not sent: the link was not attached

    def _post(self, address: Address, data: bytes, done: Callable[[ProviderError | None], None]) -> None:
        """Send a message, and have `done` hear of its outcome. Raises as `SendingLink.post`; then `done` is not called."""
        link = self.present_sender(address)
        physical = link.physical
        posted = physical.posting(done)

        def on_outcome(outcome: Any) -> None:
            error = outcome if isinstance(outcome, ProviderError) else outcome_refusal(outcome)
            physical.later(partial(posted.tell, error))

        try:
            link.post(data, f"a message to {address}", done=on_outcome)
            physical.expect_outcome(posted)
            physical.flush_posted()
        except (ProviderError, ConnectionLostInCallError):
            # The end of the connection may have told it already.
            if posted.take_over():
                raise

    def _send(self, envelope: Envelope, data: bytes) -> None:
        """Send a message outside of transactions, and wait for its outcome if that tells something (decision 0603)."""
        address = envelope.destination
        link = self.present_sender(address)
        is_tagged = self._send_tag(link.physical)
        if link.is_known and envelope.delivery_mode != _PERSISTENT and not is_tagged:
            link.post(data, f"a message to {address}", done=partial(self._posted, link))
            link.physical.flush_posted()
            return
        outcome = link.send(data, f"a message to {address}")
        error = outcome_refusal(outcome)
        if error is not None:
            raise error
        connection = self.connection
        # A temporary destination of its own the program itself may delete: then the next send must fail (JMS 1.1 §4.4.3).
        link.is_known = (
            outcome is not None
            and connection.profile.posts_non_persistent
            and not (address.temporary and connection.owns(address))
        )

    def _posted(self, link: SendingLink, outcome: Any) -> None:
        """Hear the outcome of a message that no call waits for. The lock is held."""
        error = outcome if isinstance(outcome, ProviderError) else outcome_refusal(outcome)
        if error is None:
            return
        # The end of the link is one event, however many messages were on their way.
        if error is not outcome or link.is_known:
            link.physical.later(partial(self.connection.report, error))
        link.is_known = False

    def _send_tag(self, physical: PhysicalConnection) -> bool:
        """Have the write of the next message store the tag of the request, if there is one; return whether. Raises as `CommandLink.ask`."""
        unit = self._unit
        if unit is None or unit.request_tag is None:
            return False
        tags, unit.request_tag = unit.request_tag, None
        # On the connection of the message: if it is lost between the two, the broker drops the tag.
        self.commands(physical).ask(unit.tagging(tags))
        return True

    def _encoded(self, envelope: Envelope) -> bytes:
        connection = self.connection
        try:
            return write_message(connection.outgoing(envelope), now_ms=connection.clock.time_ms())
        except EncodeError as error:
            raise ProviderError(f"the message cannot be sent over AMQP: {error}") from error

    def present_sender(self, address: Address) -> SendingLink:
        """Return the link for a destination on the present connection; ask again if that is lost meanwhile, as nothing was sent yet."""
        link = self._senders.get(address)
        if link is not None and link.physical is self.present() and link.is_usable:
            return link
        link = self.connection.on_present(lambda physical: self.sender(physical, address), self._check_waiting)
        assert isinstance(link, SendingLink)
        return link

    def sender(self, physical: PhysicalConnection, address: Address) -> SendingLink:
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
        # In a transaction at the pyjms broker most messages are settled.
        mode = 0 if self._commanded is None else 2
        attach = Attach("", 0, False, snd_settle_mode=mode, source=Source(), target=target)
        link.attach(new_name("sender"), attach, f"the destination {address}")
        self._senders[address] = link
        if self._closed or self._ends_waits:
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

    # ---------------------------------------------------------------------------------------------------- transactions

    def commit(self) -> None:
        self._check_transacted()
        try:
            self._transactions.commit()
        finally:
            self._end_kept()

    def rollback(self) -> None:
        self._check_transacted()
        self._transactions.rollback()
        self._end_kept()

    def _check_transacted(self) -> None:
        self.check_open()
        if not self.transacted:
            raise CapabilityError("the session is not transacted")

    @property
    def _unit(self) -> SessionUnit[PhysicalConnection, CommandRequest] | None:
        """At the pyjms broker, the transaction or branch that commands end, and the session's tags."""
        return None if self._commanded is None else self._commanded.unit

    def _present_unit(self) -> SessionUnit[PhysicalConnection, CommandRequest]:
        """Return what commands do for the session. Raises `CapabilityError`: the broker takes none."""
        unit = self._unit
        if unit is None:
            raise CapabilityError("the broker has no commands of pyjms, which this needs")
        return unit

    def prepare(self, xid: Xid) -> bool:
        self._check_transacted()
        if self._commanded is None:
            raise CapabilityError("only the pyjms broker can prepare the transaction of a session")
        try:
            return self._commanded.prepare(xid)
        finally:
            self._end_kept()

    def stage(self, name: StageName, *, keep_s: int) -> int:
        return self._present_unit().stage(name, keep_s=keep_s)

    def tag(self, tags: ClientTags) -> None:
        self._present_unit().tag(tags)

    def has_destination(self, address: Address) -> bool | None:
        if not self.connection.can_find:
            return None
        self.check_open()
        command = Find(session="", address=replace(address, name=self.connection.to_broker(address)))
        try:
            return Found.read(self.commands(self.present()).ask(command)).is_there
        except ConnectionLostInCallError as error:
            raise ResourceError(f"the connection was lost: {error}; try again") from error

    def _branches(self) -> SessionUnit[PhysicalConnection, CommandRequest]:
        """Return what commands do for branches. Raises `CapabilityError`: the broker has none."""
        connection = self.connection
        if Capability.XA not in connection.capabilities:
            raise CapabilityError(
                f"the broker has no distributed transactions (Capability.XA). {connection.advice(Capability.XA)}".rstrip()
            )
        return self._present_unit()

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        self._branches().xa_start(xid, join=join, resume=resume)

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        self._branches().xa_end(xid, suspend=suspend, fail=fail)
        self._end_kept()

    def xa_prepare(self, xid: Xid) -> bool:
        return self._branches().xa_prepare(xid)

    def xa_prepare_as(self, xid: Xid, name: Xid) -> bool:
        return self._branches().xa_prepare_as(xid, name)

    def xa_note(self, xid: Xid, notes: Collection[str] = ()) -> Collection[str]:
        return self._branches().xa_note(xid, notes)

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self._branches().xa_commit(xid, one_phase=one_phase)

    def xa_rollback(self, xid: Xid) -> None:
        self._branches().xa_rollback(xid)

    def xa_recover(self) -> Sequence[Xid]:
        return self._branches().xa_recover()

    def xa_forget(self, xid: Xid) -> None:
        self._branches().xa_forget(xid)

    def xa_set_timeout(self, seconds: int) -> bool:
        self._branches().xa_set_timeout(seconds)
        return True

    def xa_get_timeout(self) -> int:
        return self._branches().xa_get_timeout()

    # ------------------------------------------------------------------------------------------------------- receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> AmqpConsumer:
        self.check_open()
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
            connection.on_present(consumer.attach, self._check_waiting)
        except ProviderError:
            consumer.abandon()
            raise
        # `close` may have listed the session's consumers before this one was made.
        if self._closed:
            consumer.close()
            self.check_open()
        return consumer

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        self.check_open()
        return browse(self, address, selector)

    def unsubscribe(self, name: str) -> None:
        self.check_open()
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
        physical = self.present()
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
        self.check_open()
        physical, live = self._live(deliveries)
        if self.transacted:
            are_all = len(live) == len(deliveries)
            if live or not are_all:  # else a commit is repeated, and has nothing more to acknowledge
                self._transactions.acknowledge(physical, live, are_all=are_all)
            return
        if len(live) < len(deliveries):
            # Those that were acknowledged before stay so.
            deliveries = [each for each in deliveries if not _is_acknowledged(each)]
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
        unit = self._unit
        tags = None if unit is None else unit.reply_tag
        is_sent = any(tag.is_sent for tag in live) or tags is not None
        profile = connection.profile
        # Where NON_PERSISTENT messages outlive the broker, they would come again if it died before it has heard of this.
        are_stored = profile.confirms and not profile.posts_non_persistent
        waits = connection.settings.confirm_acknowledge and (are_stored or any(tag.is_persistent for tag in live))
        for tag in live:
            tag.is_sent = True
        # An earlier call may have settled some: then a lost connection leaves open whether they come again.
        lost = InDoubtError if is_sent else TooLateError
        try:
            if unit is not None and tags is not None:
                unit.reply_tag = None
                self.commands(physical).ask(unit.tagging(tags))
                self._accept_and_wait(physical, live)
            elif not waits or physical.is_own_thread():
                self._accept_soon(physical, live)
            elif profile.confirms:
                self._accept_and_wait(physical, live)
            elif connection.can_confirm_by_transaction and isinstance(self._transactions, CoordinatedTransactions):
                self._transactions.accept_alone(physical, live)
            else:
                self._accept_soon(physical, live)
        except ConnectionLostInCallError as error:
            raise lost(f"the connection was lost while messages were settled: {error}") from error
        except UnansweredError as error:
            raise lost(error.reason) from error
        for tag in live:
            tag.is_acknowledged = True
        if self._kept:
            self._end_kept()

    def _has_given_back(self, live: Sequence[ReceivedMessage]) -> bool:
        """Whether a close on another thread has given messages back that are about to be acknowledged; the lock is held."""
        return self._closed and any(tag.delivery.is_settled for tag in live)

    def _accept_soon(self, physical: PhysicalConnection, live: Sequence[ReceivedMessage]) -> None:
        """Accept messages, and wait for nothing. Raises `ClosedError`."""
        with self.connection.lock:
            if self._has_given_back(live):
                raise ClosedError("the session is closed")
            # What waits already has somebody who writes it.
            is_first = not physical.engine.out_size
            self.let_go(live)
            for session, each in _by_session(live):
                session.update_incoming(each, ACCEPTED)
        if is_first:
            physical.flush_soon()

    def _accept_and_wait(self, physical: PhysicalConnection, live: Sequence[ReceivedMessage]) -> None:
        """Accept messages unsettled: the broker settles them when that is safe. Raises `ClosedError`, and as `PhysicalConnection.call`."""
        left = 0

        def ask(reply: Reply) -> None:
            nonlocal left
            if self._has_given_back(live):
                physical.settle(reply, error=ClosedError("the session is closed"))
                return
            # No answer comes about those that an earlier call has had settled.
            left = sum(not tag.delivery.is_settled for tag in live)
            if not left:
                physical.settle(reply)
                return

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

    def accept(self, live: Sequence[ReceivedMessage], state_in: Callable[[Session], Any]) -> None:
        """Accept messages in a transaction; `state_in` returns the state for those of a session of AMQP."""
        with self.connection.lock:
            self.let_go(live)
            for tag in live:
                tag.is_sent = True
            for session, each in _by_session(live):
                session.update_incoming(each, state_in(session))

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self.check_open()
        self._redeliver(self._live(deliveries)[1], is_seen=True)

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self.check_open()
        self._redeliver(self._live(deliveries)[1], is_seen=False)

    def _redeliver(self, live: Sequence[ReceivedMessage], *, is_seen: bool) -> None:
        """Have the consumers deliver messages again; those of closed ones go back to the broker."""
        by_consumer: dict[AmqpConsumer, list[ReceivedMessage]] = {}
        for tag in live:
            by_consumer.setdefault(tag.consumer, []).append(tag)
        goes_back = []
        withdrawn = self._behind(by_consumer)
        try:
            for consumer in withdrawn:
                self._withdraw(consumer)
            with self.connection.lock:
                for consumer, tags in by_consumer.items():
                    if consumer not in withdrawn and consumer.put_back(tags, is_seen=is_seen):
                        self.let_go(tags)
                    else:
                        goes_back += tags
            if goes_back:
                for tag in goes_back:
                    tag.is_seen = is_seen
                self._return_held(goes_back)
                self._end_kept()
        finally:
            for consumer in withdrawn:
                consumer.go_on()
        physical = self.connection.failover.newest
        physical.run_due()
        self._flush(physical)

    def _behind(self, returning: Collection[AmqpConsumer]) -> list[AmqpConsumer]:
        """Return the open consumers that would get later messages before those that closed ones give back to the pyjms broker."""
        if not self.connection.has_commands:
            return []
        addresses = {consumer.request.address for consumer in returning if not consumer.is_open}
        return [consumer for consumer in self.consumers() if consumer.request.address in addresses]

    def _withdraw(self, consumer: AmqpConsumer) -> None:
        try:
            consumer.withdraw()
        except (ConnectionLostInCallError, UnansweredError) as error:
            _log.debug("what a consumer was sent may overtake what goes back: %s", error)

    def _return_held(self, tags: Sequence[ReceivedMessage]) -> None:
        """Give messages back to the broker, each to its old place."""
        remember(tags)
        with self.connection.lock:
            self.let_go(tags)
            for outcome, is_seen in ((FAILED, True), (RELEASED, False)):
                for session, each in _by_session([tag for tag in tags if tag.is_seen is is_seen]):
                    session.update_incoming(each, outcome)

    def reject(self, delivery: Delivery, reason: str) -> None:
        self.check_open()
        physical, live = self._live([delivery])
        if physical is None:
            return
        with self.connection.lock:
            self.let_go(live)
            for session, each in _by_session(live):
                session.update_incoming(each, Rejected(Error(Condition.PRECONDITION_FAILED, reason)))
        self._flush(physical)

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self.check_open()
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
        # The flag first: a call that waits from now on sees it, and one that waits already is woken.
        self._ends_waits = True
        self.connection.failover.wake()
        with self.connection.lock:
            for link in self._senders.values():
                link.end_waits()
            # The broker keeps what it has taken and has no room for, until it is told.
            if self._commands is not None:
                self._commands.interrupt()
        self.connection.failover.newest.flush_soon()
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
            with self.connection.lock:
                for link in self._sending_links():
                    link.end_waits()
            # The broker does what it was asked before it answers a detach; behind an end its answers would not be read.
            for link in self._sending_links():
                if link.is_awaited:
                    link.detach()
            self._transactions.close()
            self._return_held(tuple(self._held))
            self._end_kept()
            # What another session has adopted can be settled here alone: then the session of AMQP stays.
            # One in whose transaction something may be open ends with it.
            if self._kept and not (self.transacted and self._commanded is not None):
                self.connection.linger(physical, session)
            else:
                physical.end_session(session)
            self.connection.end_lingering(physical)
        except (ConnectionLostInCallError, ProviderError) as error:
            _log.debug("a session ended with its connection: %s", error)
        # A broker that has not answered until now does not any more.
        with self.connection.lock:
            for link in self._sending_links():
                link.on_lost(
                    InDoubtError(
                        "the session was closed before the broker had answered, so it is not known what it did"
                    )
                )
        physical.run_due()

    def _sending_links(self) -> list[SendingLink]:
        """Return the links for messages and commands."""
        links = list(self._senders.values())
        return links if self._commands is None else [*links, self._commands]

    def check_open(self) -> None:
        """Raise `ClosedError` or `ConnectionLostError` if it is over."""
        if self._closed:
            raise ClosedError("the session is closed")
        self.connection.failover.check_open()


def _by_session(tags: Sequence[ReceivedMessage]) -> list[tuple[Any, list[IncomingDelivery]]]:
    """Return the deliveries by the sessions of AMQP that they came by; mostly it is one."""
    found: dict[Any, list[IncomingDelivery]] = {}
    for tag in tags:
        found.setdefault(tag.delivery.link.session, []).append(tag.delivery)
    return list(found.items())


def _is_acknowledged(delivery: Delivery) -> bool:
    return isinstance(delivery.tag, ReceivedMessage) and delivery.tag.is_acknowledged


def _were_settlements_sent(deliveries: Sequence[Delivery]) -> bool:
    """Return whether a settlement of one of these was told by a call that got no answer; a second call returns False."""
    sent = [each.tag for each in deliveries if isinstance(each.tag, ReceivedMessage) and each.tag.is_sent]
    for tag in sent:
        # Reported once: a repeated call about the same messages would be in doubt for ever.
        tag.is_sent = False
    return bool(sent)
