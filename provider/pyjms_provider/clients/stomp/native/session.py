"""A session at the pyjms broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import (
    ClosedError,
    InDoubtError,
    ProviderError,
    TooLateError,
)
from pyjms.spi.provider import ProviderSession, SubscribeRequest
from pyjms.spi.xid import Xid
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.network.calls import (
    ConnectionLostInCallError,
    UnansweredError,
    lost_while_sent,
)
from pyjms_provider.clients.network.session_units import BranchCommand, SessionUnit
from pyjms_provider.clients.stomp.native.consumer import NativeBrowser, NativeConsumer, ReceivedMessage
from pyjms_provider.clients.stomp.physical_connection import Request
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import Found
from pyjms_provider.protocols.profile.commands import DeliveryIds, delivery_ids
from pyjms_provider.protocols.stomp.command_frames import command_frame
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.packed import sends_of
from pyjms_provider.repeatable import RepeatableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.replay import StageName
    from pyjms.spi.selector import Selector
    from pyjms.spi.sessions import ClientTags
    from pyjms_provider.clients.stomp.native.connection import NativeConnection
    from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection

_log = logging.getLogger("pyjms.stomp")
_PERSISTENT: Final = 2
_GOOD_MAX: Final = 10_000


class _Channel:
    """How a session's commands reach the broker: implements `CommandChannel`."""

    def __init__(self, session: NativeSession) -> None:
        self._session = session
        self._link = session.connection.link

    def check_open(self) -> None:
        """Raise `ClosedError` or `ConnectionLostError` if the session is over."""
        self._session.check_open()

    def current(self) -> PhysicalConnection:
        """Return the present physical connection."""
        return self._link.current(self._session.check_waiting)

    def ask(
        self, physical: PhysicalConnection, command: commands.Command, late: Callable[[], None] | None = None
    ) -> Mapping[str, str]:
        """Send a command, and return the headers of its RECEIPT."""
        told = None if late is None else lambda _: late()
        return physical.request(command_frame(command), late=told).headers

    def tell(self, physical: PhysicalConnection, command: commands.Command) -> None:
        """Send a command without a receipt."""
        physical.post_soon(command_frame(command), waits=True)

    def request(self, physical: PhysicalConnection, command: BranchCommand) -> Request:
        """Return a request that was not sent yet."""
        return Request(physical, command)

    def ask_once(self, request: Request, command: BranchCommand) -> Mapping[str, str]:
        """Send the command, or wait for its RECEIPT again."""
        return request.physical.request_idempotent(request, command_frame(command)).headers

    def take_back(self, physical: PhysicalConnection, command: commands.Command) -> None:
        """Send a command whose refusal is dropped."""
        physical.take_back(command_frame(command))


class NativeSession(ProviderSession):
    """A session of a `NativeConnection`."""

    def __init__(self, connection: NativeConnection, name: str, *, transacted: bool) -> None:
        self.connection = connection
        self.name = name
        self.transacted = transacted
        self._numbers = count(1)
        self._lock = Lock()
        self._consumers: dict[NativeConsumer, None] = {}
        self._good: set[Address] = set()
        """Destinations to which this session was allowed to send; cleared at each refusal."""
        self.physical: PhysicalConnection | None = None
        """The physical connection on which the broker knows the session."""
        self._ack_head = f"ACK\nsession:{name}\nids:".encode()
        self._unit: SessionUnit[PhysicalConnection, Request] = SessionUnit(
            _Channel(self),
            name,
            transacted=transacted,
            default_timeout_s=lambda: connection.transaction_timeout_s,
            can_prepare=lambda: connection.can_prepare,
        )
        self._closed = self._ends_waits = False
        self._close_once = CloseOnce()

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self._closed

    def abandon(self) -> None:
        """Mark it as closed without a frame to the broker, as the call that was to open it has failed."""
        self._closed = True

    def command(self) -> commands.OpenSession:
        """Return the command that opens it at the broker."""
        return commands.OpenSession(session=self.name, transacted=self.transacted)

    # Sending

    def send(self, envelope: Envelope) -> None:
        # Without a transaction `current` makes this check, so most sends skip it.
        if self._closed or self.transacted:
            self.check_open()
        try:
            if self.transacted:
                physical = self._unit.physical
                if physical is None:
                    physical = self._unit.enter(self.connection.link.current(self.check_waiting))
                self._send_in_unit(physical, envelope)
            elif self._unit.request_tag is not None:
                self._send_tagged(envelope)
            else:
                self._send(envelope)
        except ConnectionLostInCallError as error:
            self.check_open()
            if self.transacted:
                return  # the commit raises the error
            raise lost_while_sent(error) from error
        except UnansweredError as error:
            raise InDoubtError(error.reason) from error

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        # In a transaction no send waits for the broker but the first to its destination, which may be refused.
        if self.transacted or self._unit.request_tag is not None:
            super().send_async(envelope, done)
            return
        self.check_open()
        try:
            physical = self.connection.link.current(self.check_waiting)
            if physical.is_packed:
                frame = sends_of(self.name, self.connection.pack(envelope))
            else:
                frame = self.connection.frame_of(envelope, self.name)
            physical.post_confirmed(frame, done)
        except ConnectionLostInCallError as error:
            self.check_open()
            raise lost_while_sent(error) from error

    def begin_send(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> bool:
        """Send as `send_async` does, at once, unless that would wait; return whether it was sent. Outside of transactions.

        Raises `ProviderError`; then `done` is not called.
        """
        physical = self.connection.link.newest
        # The server knows the session on that connection, and the message goes behind what was sent by it.
        if self._closed or self.transacted or self._unit.request_tag is not None or physical is not self.physical:
            return False
        if physical.is_packed:
            frame = sends_of(self.name, self.connection.pack(envelope))
        else:
            frame = self.connection.frame_of(envelope, self.name)
        return physical.try_to_post(frame, done)

    def _send(self, envelope: Envelope) -> None:
        physical = self.connection.link.current(self.check_waiting)
        # The permission to send there is checked once; then messages that may be lost need no answer.
        is_written = envelope.delivery_mode == _PERSISTENT or physical.persists_all
        if is_written or envelope.destination not in self._good:
            self._send_asking(physical, envelope)
        elif physical.is_packed:
            physical.post_message_soon(self.name, self.connection.pack(envelope))
        else:
            physical.post_soon(self.connection.frame_of(envelope, self.name))

    def _send_tagged(self, envelope: Envelope) -> None:
        """Send a message whose write stores the tag of the request, and wait for the answer."""
        unit = self._unit
        tags, unit.request_tag = unit.request_tag, None
        assert tags is not None, "it is tagged"
        # Both on one connection: if that is lost between the two, the broker drops the tag.
        physical = self.connection.link.current(self.check_waiting)
        physical.request(command_frame(unit.tagging(tags)))
        self._send_asking(physical, envelope)

    def tag(self, tags: ClientTags) -> None:
        self._unit.tag(tags)

    def _send_in_unit(self, physical: PhysicalConnection, envelope: Envelope) -> None:
        """Send a message of a transaction, or of a branch."""
        address = envelope.destination
        # A refusal at the commit would recur with each redelivery, so the first send waits for the answer. A temporary
        # destination may end with its client: so each PERSISTENT message there waits.
        if address not in self._good or (address.temporary and envelope.delivery_mode == _PERSISTENT):
            self._send_asking(physical, envelope)
        elif physical.is_packed:  # it is written with the commit at the latest
            physical.post_message_soon(self.name, self.connection.pack(envelope), waits=True)
        else:
            physical.post_soon(self.connection.frame_of(envelope, self.name), waits=True)

    def _send_asking(self, physical: PhysicalConnection, envelope: Envelope) -> None:
        """Send a message, and wait for the broker's answer. Raises the broker's error, and `ConnectionLostInCallError`."""
        connection = self.connection
        if physical.is_packed:  # packed only now: the names of temporary destinations are the physical connection's
            physical.request(sends_of(self.name, connection.pack(envelope)), may_last=True)
        else:
            physical.request(connection.frame_of(envelope, self.name), may_last=True)
        address = envelope.destination
        if address.temporary and connection.owns(address):
            # The program itself may delete it (JMS 1.1 §4.4.3): then the next send must fail.
            return
        # Bounded: a server that replies to the temporary queue of each client adds one for each.
        if len(self._good) >= _GOOD_MAX:
            self._good.clear()
        self._good.add(address)

    def note_refusal(self) -> None:
        """Make the next message to each destination wait for its answer: the broker has refused something that no call waited for."""
        # The ERROR names no destination, so each is checked again (decision 0603).
        self._good.clear()

    def commit(self) -> None:
        self._unit.commit()

    def prepare(self, xid: Xid) -> bool:
        return self._unit.prepare(xid)

    def stage(self, name: StageName, *, keep_s: int) -> int:
        return self._unit.stage(name, keep_s=keep_s)

    def rollback(self) -> None:
        self._unit.rollback()

    # Receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> NativeConsumer:
        self.check_open()
        name = f"{self.name}.{next(self._numbers)}"
        consumer = NativeConsumer(self, name, request, on_ready, self.connection.settings.prefetch_messages)
        with self._lock:
            # Before SUBSCRIBE is sent: a restore at this moment must find the consumer.
            self._consumers[consumer] = None
        is_made = may_be_made = False
        try:
            self.connection.subscribe(consumer, self.check_waiting)
            is_made = True
        except UnansweredError:
            may_be_made = True
            raise
        finally:
            if not is_made:
                # The flag first: the healer may be about to subscribe the consumer, and then ends it because of the flag.
                consumer.abandon()
                self.forget(consumer)
                if may_be_made:
                    self.connection.link.newest.take_back(self.ending_of(consumer.name))
        # `close` may have listed the session's consumers before this one was made.
        if self._closed:
            consumer.close()
            self.check_open()
        return consumer

    def ending_of(self, name: str) -> Frame:
        """Return the UNSUBSCRIBE of a consumer or browser, to be processed in the session's order, as its SUBSCRIBE may still be queued
        there.
        """
        frame = command_frame(commands.Unsubscribe(id=name))
        frame.headers["session"] = self.name
        return frame

    def has_destination(self, address: Address) -> bool | None:
        if not self.connection.can_find:
            return None
        return Found.read(self._ask(commands.Find(session=self.name, address=address)).headers).is_there

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        self.check_open()
        name = f"{self.name}.{next(self._numbers)}"
        return NativeBrowser(self, name, address, None if selector is None else selector.text).messages()

    def unsubscribe(self, name: str) -> None:
        self._ask(commands.DeleteSubscription(session=self.name, durable_name=name))

    def consumers(self) -> list[NativeConsumer]:
        """Return the open consumers."""
        with self._lock:
            return [consumer for consumer in self._consumers if consumer.is_open]

    def forget(self, consumer: NativeConsumer) -> None:
        """Remove a consumer that closes."""
        with self._lock:
            self._consumers.pop(consumer, None)

    # Settling

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        if (
            (self._unit.reply_tag is not None and deliveries)
            or self.transacted
            or len(deliveries) != 1
            or not self._acknowledge_soon(deliveries[0].tag)
        ):
            self._acknowledge(deliveries)

    def _acknowledge_soon(self, tag: object) -> bool:
        """Acknowledge one message without a wait; return False if it needs `_acknowledge`. Raises `ProviderError`."""
        connection = self.connection
        physical = connection.link.newest
        # Every special case takes the long way, which tells them apart.
        if (
            self._closed
            or not isinstance(tag, ReceivedMessage)
            or tag.physical is not physical
            or physical.has_ended
            or tag.is_sent
        ):
            return False
        # Where NON_PERSISTENT messages outlive the broker, they would come again if it died before it has heard of this.
        if (tag.is_persistent or physical.persists_all) and connection.settings.confirm_acknowledge:
            return False
        tag.is_sent = True
        try:
            physical.acknowledge_soon(self._ack_head, tag.number, tag.number)
        except ConnectionLostInCallError as error:
            raise TooLateError(f"the connection was lost while messages were settled: {error}") from error
        return True

    def _acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.check_open()
        physical, live = self._live(deliveries)
        if self.transacted:
            self._acknowledge_in_unit(physical, live, are_all=len(live) == len(deliveries))
            return
        if len(live) < len(deliveries):
            # One error stands for all of them: a client that rolls back because of it must get each again.
            if physical is not None:
                self._give_back(physical, commands.GiveBack(session=self.name, ids=_ids(live)))
            if _were_settlements_sent(deliveries):
                raise InDoubtError(
                    "the connection that messages came by was lost after it was said that they are settled: it is not known whether they come again"
                )
            raise TooLateError(
                "the connection that messages came by was lost before they were settled; they come again, and what was to be "
                "settled together with them"
            )
        if physical is not None:
            is_sent, is_written = False, physical.persists_all
            for each in live:
                is_sent, is_written = is_sent or each.is_sent, is_written or each.is_persistent
                each.is_sent = True
            unit = self._unit
            tags, unit.reply_tag = unit.reply_tag, None
            # An earlier call may have settled some: then a lost connection leaves open whether they come again.
            lost = InDoubtError if is_sent or tags is not None else TooLateError
            ids = _ids(live)
            try:
                if tags is not None:
                    physical.request(command_frame(unit.tagging(tags)))
                    physical.request(command_frame(commands.Acknowledge(session=self.name, ids=ids)))
                elif is_written and self.connection.settings.confirm_acknowledge:
                    physical.request(command_frame(commands.Acknowledge(session=self.name, ids=ids)))
                else:
                    for numbers in ids:
                        physical.acknowledge_soon(self._ack_head, numbers[0], numbers[-1])
            except ConnectionLostInCallError as error:
                raise lost(f"the connection was lost while messages were settled: {error}") from error
            except UnansweredError as error:
                # The broker may still settle them, so the session must not give them back.
                raise lost(error.reason) from error

    def begin_acknowledge(self, deliveries: Sequence[Delivery], done: Callable[[ProviderError | None], None]) -> bool:
        """Settle messages as `acknowledge` does, with an answer that `done` is told, unless that would wait. Outside of transactions.

        Returns:
            Whether the broker was asked; False: nothing has happened.
        """
        if self._closed or self.transacted or self._unit.reply_tag is not None:
            return False
        physical, live = self._live(deliveries)
        if physical is None or len(live) < len(deliveries) or any(each.is_sent for each in live):
            return False
        is_begun = physical.try_to_post(
            command_frame(commands.Acknowledge(session=self.name, ids=_ids(live))), done, in_doubt=TooLateError
        )
        for each in live:
            each.is_sent = is_begun
        return is_begun

    def _acknowledge_in_unit(
        self, physical: PhysicalConnection | None, live: Sequence[ReceivedMessage], *, are_all: bool
    ) -> None:
        """Have the commit settle the messages."""
        if are_all and not live:
            return  # a repeated commit has nothing more to acknowledge
        # Messages sent in response to ones that come again must not be committed.
        self._unit.is_doomed = self._unit.is_doomed or not are_all
        if (
            physical is not None and self._unit.enter(physical) is physical
        ):  # else the transaction is lost: the commit raises the error
            self._post(physical, commands.Acknowledge(session=self.name, ids=_ids(live)))

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self.check_open()
        physical, live = self._live(deliveries)
        if physical is not None:
            self._give_back(physical, commands.GiveBack(session=self.name, ids=_ids(live)))

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self.check_open()
        physical, live = self._live(deliveries)
        if physical is not None:
            self._give_back(physical, commands.GiveBack(session=self.name, ids=_ids(live), unseen=True))

    def retry(self, delivery: Delivery, reason: str) -> None:
        self.retry_all((delivery,), reason)

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        self.check_open()
        physical, live = self._live(deliveries)
        if physical is not None:
            self._give_back(physical, commands.Retry(session=self.name, ids=_ids(live), reason=reason))

    def _give_back(self, physical: PhysicalConnection, command: commands.Command) -> None:
        """Return messages to their old places: messages fetched after them go back, too, so that the order is kept."""
        consumers, returned = self.consumers(), frozenset[int]()
        try:
            # Credit is revoked first, and fetched messages go back first: they would otherwise overtake the messages that go back
            # to their older places.
            unseen = frozenset([number for consumer in consumers for number in consumer.withdraw(physical)])
            if unseen:
                ids = delivery_ids(sorted(unseen))
                physical.request(command_frame(commands.GiveBack(session=self.name, ids=ids, unseen=True)))
                returned = unseen
            physical.request(command_frame(command))
        except ConnectionLostInCallError:
            _log.debug(
                "the connection ended before the broker had heard %s", command.COMMAND
            )  # the broker has all messages again
        finally:
            # Also after an error: a consumer that stays withdrawn would hand out nothing for ever.
            for consumer in consumers:
                consumer.resume(returned)

    def reject(self, delivery: Delivery, reason: str) -> None:
        self.check_open()
        physical, live = self._live([delivery])
        if physical is not None:
            self._tell(physical, commands.Reject(session=self.name, ids=_ids(live), reason=reason))

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self.check_open()
        physical, live = self._live(deliveries)
        if physical is None:
            return
        if self.physical is not physical:
            # Waits for the restore, after which the broker knows this session in the connection, too.
            self.connection.link.current(self.check_waiting)
        try:
            physical.request(command_frame(commands.Adopt(session=self.name, ids=_ids(live))))
        except ConnectionLostInCallError as error:
            raise RepeatableError(f"the connection was lost: {error}; the messages come again") from error

    def _live(self, deliveries: Sequence[Delivery]) -> tuple[PhysicalConnection | None, list[ReceivedMessage]]:
        """Return the messages of the newest physical connection, and that connection; None: there are none. The broker has taken back the
        others, and delivers them again.

        They are settled on that physical connection or not at all: on the next one their numbers name other messages.
        """
        # Read once: all deliveries are compared with the same connection, even if it is replaced meanwhile.
        physical = self.connection.link.newest
        live = []
        for delivery in deliveries:
            tag = delivery.tag
            if isinstance(tag, ReceivedMessage) and tag.physical is physical and not physical.has_ended:
                live.append(tag)
        if len(live) < len(deliveries):
            _log.warning(
                "PYJMS-EPOCH %d messages were settled after the connection that they came by was lost; they come again",
                len(deliveries) - len(live),
            )
        return (physical if live else None), live

    # Distributed transactions

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        self._unit.xa_start(xid, join=join, resume=resume)

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        self._unit.xa_end(xid, suspend=suspend, fail=fail)

    def xa_prepare(self, xid: Xid) -> bool:
        return self._unit.xa_prepare(xid)

    def xa_prepare_as(self, xid: Xid, name: Xid) -> bool:
        return self._unit.xa_prepare_as(xid, name)

    def xa_note(self, xid: Xid, notes: Collection[str] = ()) -> Collection[str]:
        return self._unit.xa_note(xid, notes)

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self._unit.xa_commit(xid, one_phase=one_phase)

    def xa_rollback(self, xid: Xid) -> None:
        self._unit.xa_rollback(xid)

    def xa_recover(self) -> Sequence[Xid]:
        return self._unit.xa_recover()

    def xa_forget(self, xid: Xid) -> None:
        self._unit.xa_forget(xid)

    def xa_set_timeout(self, seconds: int) -> bool:
        self._unit.xa_set_timeout(seconds)
        return True

    def xa_get_timeout(self) -> int:
        return self._unit.xa_get_timeout()

    # Requests

    def _ask(self, command: commands.Command) -> Frame:
        self.check_open()
        try:
            return self.connection.link.current(self.check_waiting).request(command_frame(command))
        except ConnectionLostInCallError as error:
            raise RepeatableError(f"the connection was lost: {error}; try again") from error

    def _tell(self, physical: PhysicalConnection, command: commands.Command) -> None:
        """Send a request; a lost connection is no error, as the broker then takes back all."""
        try:
            physical.request(command_frame(command))
        except ConnectionLostInCallError:
            _log.debug("the connection ended before the broker had heard %s", command.COMMAND)

    def _post(self, physical: PhysicalConnection, command: commands.Command) -> None:
        """Send without waiting for an answer; a lost connection as in `_tell`."""
        try:
            physical.post_soon(command_frame(command), waits=True)
        except ConnectionLostInCallError:
            _log.debug("the connection ended before the broker had heard %s", command.COMMAND)

    # The end

    def interrupted(self) -> None:
        """Clear the state of the physical connection, which has ended."""
        with self._lock:
            self.physical = None
        # The next connection may lead to another broker, which may refuse what this one accepted.
        self._good.clear()
        self._unit.interrupted()

    def enter(self, physical: PhysicalConnection) -> None:
        """Note that the broker knows the session on this physical connection, unless a newer one was noted before."""
        # This thread and the healer may call this in either order: the newer connection counts.
        with self._lock:
            if self.physical is None or self.physical.number < physical.number:
                self.physical = physical

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        return self.connection.link.wait

    def end_waits(self) -> None:
        # The flag first: a call that waits from now on sees it, and one that waits already is woken.
        self._ends_waits = True
        self.connection.link.wake()
        if not self._closed:
            self.connection.post(command_frame(commands.Interrupt(session=self.name)))

    def close(self) -> None:
        self._close_once.do(self._shut_down)

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            consumers = list(self._consumers)
        self.connection.wake_browsers(self)
        # Consumers first: each returns the messages that it has not delivered.
        for consumer in consumers:
            try:
                consumer.close()
            except ProviderError as error:
                _log.warning("a consumer could not be closed in order: %s", error.reason)
        self.connection.end_session(self)

    def check_waiting(self) -> None:
        """Raise `ClosedError` if calls may not wait for a connection any more, as the session is about to be closed."""
        # What was not sent yet would go out when the client has left, or has sent later messages elsewhere.
        if self._closed or self._ends_waits:
            raise ClosedError(f"session {self.name} is closed")

    def check_open(self) -> None:
        """Raise `ClosedError` or `ConnectionLostError` if it is over."""
        if self._closed:
            raise ClosedError(f"session {self.name} is closed")
        self.connection.link.check_open()


def _were_settlements_sent(deliveries: Sequence[Delivery]) -> bool:
    """Return whether a settlement of one of these was sent, by a call that was refused or got no answer; a second call returns False."""
    tags = [delivery.tag for delivery in deliveries]
    sent = [tag for tag in tags if isinstance(tag, ReceivedMessage) and tag.is_sent]
    for each in sent:
        # Reported once: a repeated call about the same messages would be in doubt for ever.
        each.is_sent = False
    return bool(sent)


def _ids(received: Sequence[ReceivedMessage]) -> DeliveryIds:
    return delivery_ids([each.number for each in received])
