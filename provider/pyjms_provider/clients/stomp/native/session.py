"""A session at the pyjms broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import (
    BranchError,
    CapabilityError,
    ClosedError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
    TooLateError,
)
from pyjms.spi.provider import ProviderSession, SubscribeRequest
from pyjms.spi.sessions import check_tags
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.network.calls import (
    ConnectionLostInCallError,
    UnansweredError,
    lost_while_ended,
    lost_while_sent,
)
from pyjms_provider.clients.stomp.native.consumer import NativeBrowser, NativeConsumer, ReceivedMessage
from pyjms_provider.clients.stomp.physical_connection import Request
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import Counted, Found, Prepared, Recovered
from pyjms_provider.protocols.profile.commands import DeliveryIds, delivery_ids
from pyjms_provider.protocols.stomp.command_frames import command_frame
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.packed import sends_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.replay import StageName
    from pyjms.spi.selector import Selector
    from pyjms.spi.sessions import ClientTags
    from pyjms_provider.clients.stomp.native.connection import NativeConnection
    from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection

# A session's requests about branches of distributed transactions, each done once even if the call is repeated (decision 0603).

BranchCommand: TypeAlias = (
    commands.EndBranch
    | commands.PrepareBranch
    | commands.CommitBranch
    | commands.RollbackBranch
    | commands.ForgetBranch
)


class BranchRequests:
    """The branch requests of one session. Any thread: a transaction manager may decide several branches through one session."""

    def __init__(self) -> None:
        self._unanswered: dict[tuple[Xid, type[BranchCommand]], Request] = {}
        """The last request of each kind about a branch, if its answer was not received."""

    def request(
        self, physical: PhysicalConnection, command: BranchCommand, read: Callable[[Frame], bool] = lambda _: True
    ) -> bool:
        """Send a command that changes a branch; return what `read` finds in the answer. If the last call of its kind about the branch sent
        the same command and got no answer, wait for that answer: the command is done once, also with other threads. Raises `BranchError`,
        `ProviderError`.
        """
        about = (command.xid, type(command))
        request = self._unanswered.get(about)
        if request is None or not request.is_same(physical, command):
            request = self._unanswered[about] = Request(physical, command)
        try:
            result = read(physical.request_idempotent(request, command_frame(command)))
        except UnansweredError as error:
            # The request is kept: if the call is made again, it waits for this answer.
            # A second END or PREPARE would be refused with XAER_PROTO (decision 0603).
            raise unreachable(error) from error
        except ConnectionLostInCallError as error:
            # No answer comes on another connection.
            self._unanswered.pop(about, None)
            raise unreachable(error) from error
        except ProviderError:
            # A refused command had no effect, and may be sent again.
            self._unanswered.pop(about, None)
            raise
        self._unanswered.pop(about, None)
        return result

    def forget(self, xid: Xid) -> None:
        """Drop the requests about a branch, so that none answers for a later one of the same name."""
        for about in [*self._unanswered]:
            if xid in about:
                self._unanswered.pop(about, None)

    def clear(self) -> None:
        """Drop all requests, as the connection is lost: no answer comes any more."""
        self._unanswered.clear()


def unreachable(error: ConnectionLostInCallError | UnansweredError) -> BranchError:
    """Return XA's error for a branch whose outcome is not known."""
    reason = (
        error.reason
        if isinstance(error, UnansweredError)
        else f"the connection was lost ({error}): it is not known what became of the branch"
    )
    return BranchError(reason, BranchFailure.UNREACHABLE)


_log = logging.getLogger("pyjms.stomp")
_PERSISTENT: Final = 2
_GOOD_MAX: Final = 10_000
_END_MODES: Final = {
    commands.BeginMode.NEW: commands.EndMode.FAIL,
    commands.BeginMode.JOIN: commands.EndMode.SUCCESS,
    commands.BeginMode.RESUME: commands.EndMode.SUSPEND,
}


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
        self._unit: PhysicalConnection | None = None
        """The physical connection on which the open transaction, or the branch, has begun: all its commands must go there."""
        self._is_doomed = False
        """Whether the transaction has acknowledged a message of a lost connection, which comes again."""
        self._is_ending_unit = False
        """Whether the broker is being asked to commit or stage the transaction, or a signal interrupted that call."""
        self._request_tag: ClientTags | None = None
        """Outside of transactions, the tag that the next send stores."""
        self._reply_tag: ClientTags | None = None
        """The tag that the next acknowledgement stores."""
        self._branch_requests = BranchRequests()
        self._timeout_s = 0
        self._closed = False
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
            self._check_open()
        try:
            if self.transacted:
                physical = self._unit
                if physical is None:
                    physical = self._enter_unit(self.connection.link.current())
                self._send_in_unit(physical, envelope)
            elif self._request_tag is not None:
                self._send_tagged(envelope)
            else:
                self._send(envelope)
        except ConnectionLostInCallError as error:
            self._check_open()
            if self.transacted:
                return  # the commit raises the error
            raise lost_while_sent(error) from error
        except UnansweredError as error:
            raise InDoubtError(error.reason) from error

    def _send(self, envelope: Envelope) -> None:
        physical = self.connection.link.current()
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
        tags, self._request_tag = self._request_tag, None
        assert tags is not None, "it is tagged"
        # Both on one connection: if that is lost between the two, the broker drops the tag.
        physical = self.connection.link.current()
        physical.request(command_frame(self._tagging(tags)))
        self._send_asking(physical, envelope)

    def tag(self, tags: ClientTags) -> None:
        self._check_open()
        check_tags(tags)
        if self.transacted:
            # Not answered, as an acknowledgement in a transaction: if it is refused, the commit raises the error.
            self._post(self._enter_unit(self._unit or self.connection.link.current()), self._tagging(tags))
            return
        if tags.request is not None:
            self._request_tag = replace(tags, reply=None)
        if tags.reply is not None:
            self._reply_tag = replace(tags, request=None)

    def _tagging(self, tags: ClientTags) -> commands.TagUnit:
        return commands.TagUnit(
            session=self.name,
            client=tags.name,
            incarnation=tags.incarnation,
            request=tags.request,
            reply=tags.reply,
        )

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

    def _enter_unit(self, physical: PhysicalConnection) -> PhysicalConnection:
        """Return the physical connection of the open transaction; one begins on `physical` if there is none."""
        if self._unit is None:
            self._unit = physical
        return self._unit

    def _leave_unit(self) -> None:
        """Forget the transaction, which has ended."""
        self._unit = None
        self._is_doomed = self._is_ending_unit = False

    def commit(self) -> None:
        self._check_transacted()
        physical = self._unit
        self._check_unit(physical)
        # Nothing was sent or acknowledged: the broker knows of no transaction.
        if physical is None:
            return
        try:
            self._end_unit(physical, commands.CommitTransaction(session=self.name), "committed")
        except ProviderError:
            self._leave_unit()
            raise
        self._leave_unit()

    def _check_unit(self, physical: PhysicalConnection | None) -> None:
        """Raise `RolledBackError` or `InDoubtError` if the open transaction, which began in `physical`, cannot be committed or staged."""
        if self._is_ending_unit:
            self._leave_unit()
            raise InDoubtError("a signal interrupted the end of the transaction: it is not known whether that was done")
        if self._is_doomed or (physical is not None and physical.has_ended):
            self.rollback()
            raise RolledBackError("the transaction was rolled back, as the connection was lost in it")

    def _end_unit(self, physical: PhysicalConnection, command: commands.Command, how: str) -> Frame:
        """Ask the broker to end the open transaction; return its answer. Raises the broker's error, `RolledBackError`, `InDoubtError`."""
        # Set before the frame is written: if a signal ends this
        # call, the next one must not take the transaction for open.
        self._is_ending_unit = True
        try:
            answer = physical.request(command_frame(command))
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise lost_while_ended(error, how) from error
        self._is_ending_unit = False
        return answer

    def stage(self, name: StageName, *, keep_s: int) -> int:
        self._check_transacted()
        physical = self._enter_unit(self._unit or self.connection.link.current())
        self._check_unit(physical)
        command = commands.StageTransaction(
            session=self.name,
            sink=name.sink,
            epoch=name.epoch,
            partition=name.partition,
            attempt=name.attempt,
            keep_s=keep_s,
        )
        try:
            staged = Counted.read(self._end_unit(physical, command, "staged").headers).messages
        except (RolledBackError, InDoubtError):
            self._leave_unit()
            raise
        except ProviderError:  # the transaction is unchanged
            self._is_ending_unit = False
            raise
        self._leave_unit()
        return staged

    def rollback(self) -> None:
        self._check_transacted()
        physical = self._unit
        if physical is not None and not self._is_ending_unit:
            self._tell(physical, commands.AbortTransaction(session=self.name))
        self._leave_unit()

    def _check_transacted(self) -> None:
        self._check_open()
        if not self.transacted:
            raise CapabilityError("the session is not transacted")

    # Receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> NativeConsumer:
        self._check_open()
        name = f"{self.name}.{next(self._numbers)}"
        consumer = NativeConsumer(self, name, request, on_ready, self.connection.settings.prefetch_messages)
        with self._lock:
            # Before SUBSCRIBE is sent: a restore at this moment must find the consumer.
            self._consumers[consumer] = None
        is_made = may_be_made = False
        try:
            self.connection.subscribe(consumer)
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
            self._check_open()
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
        self._check_open()
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
            (self._reply_tag is not None and deliveries)
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
        if tag.is_persistent and connection.settings.confirm_acknowledge:
            return False
        tag.is_sent = True
        try:
            physical.acknowledge_soon(self._ack_head, tag.number, tag.number)
        except ConnectionLostInCallError as error:
            raise TooLateError(f"the connection was lost while messages were settled: {error}") from error
        return True

    def _acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
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
            is_sent = is_persistent = False
            for each in live:
                is_sent, is_persistent = is_sent or each.is_sent, is_persistent or each.is_persistent
                each.is_sent = True
            tags, self._reply_tag = self._reply_tag, None
            # An earlier call may have settled some: then a lost connection leaves open whether they come again.
            lost = InDoubtError if is_sent or tags is not None else TooLateError
            ids = _ids(live)
            try:
                if tags is not None:
                    physical.request(command_frame(self._tagging(tags)))
                    physical.request(command_frame(commands.Acknowledge(session=self.name, ids=ids)))
                elif is_persistent and self.connection.settings.confirm_acknowledge:
                    physical.request(command_frame(commands.Acknowledge(session=self.name, ids=ids)))
                else:
                    for numbers in ids:
                        physical.acknowledge_soon(self._ack_head, numbers[0], numbers[-1])
            except ConnectionLostInCallError as error:
                raise lost(f"the connection was lost while messages were settled: {error}") from error
            except UnansweredError as error:
                # The broker may still settle them, so the session must not give them back.
                raise lost(error.reason) from error

    def _acknowledge_in_unit(
        self, physical: PhysicalConnection | None, live: Sequence[ReceivedMessage], *, are_all: bool
    ) -> None:
        """Have the commit settle the messages."""
        if are_all and not live:
            return  # a repeated commit has nothing more to acknowledge
        # Messages sent in response to ones that come again must not be committed.
        self._is_doomed = self._is_doomed or not are_all
        if (
            physical is not None and self._enter_unit(physical) is physical
        ):  # else the transaction is lost: the commit raises the error
            self._post(physical, commands.Acknowledge(session=self.name, ids=_ids(live)))

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        physical, live = self._live(deliveries)
        if physical is not None:
            self._give_back(physical, commands.GiveBack(session=self.name, ids=_ids(live)))

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        physical, live = self._live(deliveries)
        if physical is not None:
            self._give_back(physical, commands.GiveBack(session=self.name, ids=_ids(live), unseen=True))

    def retry(self, delivery: Delivery, reason: str) -> None:
        self.retry_all((delivery,), reason)

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        self._check_open()
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
        self._check_open()
        physical, live = self._live([delivery])
        if physical is not None:
            self._tell(physical, commands.Reject(session=self.name, ids=_ids(live), reason=reason))

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        physical, live = self._live(deliveries)
        if physical is None:
            return
        if self.physical is not physical:
            # Waits for the restore, after which the broker knows this session in the connection, too.
            self.connection.link.current()
        try:
            physical.request(command_frame(commands.Adopt(session=self.name, ids=_ids(live))))
        except ConnectionLostInCallError as error:
            raise ResourceError(f"the connection was lost: {error}; the messages come again") from error

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
        if join and resume:
            raise BranchError("a session joins a branch or resumes it, not both", BranchFailure.INVALID)
        mode = commands.BeginMode.JOIN if join else commands.BeginMode.RESUME if resume else commands.BeginMode.NEW
        self._check_open()
        physical = self.connection.link.current()
        command = commands.BeginBranch(session=self.name, xid=xid, mode=mode, timeout_s=self._timeout_s)
        # A request about an earlier branch of this name must not answer for the new one.
        self._branch_requests.forget(xid)
        try:
            physical.request(command_frame(command), late=lambda _: self._started_late(physical, command))
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise unreachable(error) from error
        self._unit, self._is_doomed = physical, False

    def _started_late(self, physical: PhysicalConnection, command: commands.BeginBranch) -> None:
        """Leave a branch that a call which timed out has started or joined; a new one ends, any other is left as it was. Any thread."""
        mode = _END_MODES[command.mode]
        physical.take_back(command_frame(commands.EndBranch(session=self.name, xid=command.xid, mode=mode)))
        if command.mode is commands.BeginMode.NEW:
            physical.take_back(command_frame(commands.RollbackBranch(session=self.name, xid=command.xid)))

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        if suspend and fail:
            raise BranchError("work is suspended or has failed, not both", BranchFailure.INVALID)
        if self._unit is not None and self._unit.has_ended:
            # On the next connection the broker knows of no work in the branch that could end.
            raise BranchError(
                "the branch can only be rolled back, as the connection was lost in it", BranchFailure.ROLLED_BACK
            )
        # It stays doomed until the broker has answered: a call without an answer may be repeated.
        fails = fail or self._is_doomed
        mode = commands.EndMode.FAIL if fails else commands.EndMode.SUSPEND if suspend else commands.EndMode.SUCCESS
        try:
            self._branch(commands.EndBranch(session=self.name, xid=xid, mode=mode))
        except BranchError as error:
            if error.failure is not BranchFailure.UNREACHABLE:
                self._unit, self._is_doomed = None, False
            raise
        self._unit, self._is_doomed = None, False

    def xa_prepare(self, xid: Xid) -> bool:
        command = commands.PrepareBranch(session=self.name, xid=xid)
        return self._branch(command, lambda answer: Prepared.read(answer.headers).needs_commit)

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self._branch(commands.CommitBranch(session=self.name, xid=xid, one_phase=one_phase))

    def xa_rollback(self, xid: Xid) -> None:
        self._branch(commands.RollbackBranch(session=self.name, xid=xid))

    def xa_recover(self) -> Sequence[Xid]:
        self._check_open()
        try:
            answer = self.connection.link.current().request(command_frame(commands.RecoverBranches(session=self.name)))
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise unreachable(error) from error
        return Recovered.read(answer.headers).xids

    def xa_forget(self, xid: Xid) -> None:
        self._branch(commands.ForgetBranch(session=self.name, xid=xid))

    def xa_set_timeout(self, seconds: int) -> bool:
        self._timeout_s = seconds
        return True

    def xa_get_timeout(self) -> int:
        return self._timeout_s or self.connection.transaction_timeout_s

    def _branch(self, command: BranchCommand, read: Callable[[Frame], bool] = lambda _: True) -> bool:
        """Send a command that changes a branch; see `BranchRequests.request`."""
        self._check_open()
        return self._branch_requests.request(self.connection.link.current(), command, read)

    # Requests

    def _ask(self, command: commands.Command) -> Frame:
        self._check_open()
        try:
            return self.connection.link.current().request(command_frame(command))
        except ConnectionLostInCallError as error:
            raise ResourceError(f"the connection was lost: {error}; try again") from error

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
        self._branch_requests.clear()

    def enter(self, physical: PhysicalConnection) -> None:
        """Note that the broker knows the session on this physical connection, unless a newer one was noted before."""
        # This thread and the healer may call this in either order: the newer connection counts.
        with self._lock:
            if self.physical is None or self.physical.number < physical.number:
                self.physical = physical

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        return self.connection.link.wait

    def end_waits(self) -> None:
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

    def _check_open(self) -> None:
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
