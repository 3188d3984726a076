"""A session at a foreign broker, with its consumers and browsers: sending, settling and giving back."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import count
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.clock import Signal
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
from pyjms.spi.provider import ProviderConsumer, ProviderSession, SubscribeRequest
from pyjms.spi.selector import Selector
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, UnansweredError, lost_while_sent
from pyjms_provider.clients.stomp.foreign.held_message import (
    HeldMessage,
    MessageSource,
    Transaction,
    begin_settlement,
    flush,
)
from pyjms_provider.clients.stomp.foreign.subscribing import Subscribing, prefetch
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection, Request
from pyjms_provider.protocols.stomp.dialects import Dialect, NackMeaning
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import from_frame, sender_of

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.clients.stomp.foreign.connection import ForeignConnection


_log = logging.getLogger("pyjms.stomp")

_PERSISTENT = 2


class ForeignSession(ProviderSession):
    """A session of a `ForeignConnection`."""

    def __init__(self, connection: ForeignConnection, name: str, *, transacted: bool) -> None:
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
        self._closed = self._ends_waits = False
        self._close_once = CloseOnce()

    # Sending

    def send(self, envelope: Envelope) -> None:
        self._check_open()
        frame = self._connection.frame_of(envelope)
        physical = self._link.current(self.check_waiting)
        try:
            if self._transacted:
                transaction = self._open_transaction(physical)
                # Work in a transaction that can only be rolled back would be lost without notice.
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

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        # In a transaction no send waits for the broker: some answer its messages with the commit alone.
        if self._transacted:
            super().send_async(envelope, done)
            return
        self._check_open()
        frame = self._connection.frame_of(envelope)
        try:
            self._link.current(self.check_waiting).post_confirmed(frame, done)
        except ConnectionLostInCallError as error:
            self._check_open()
            raise lost_while_sent(error) from error

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
            # The broker may have settled them: they must neither be given back nor settled again.
            self._remove_settled(transaction.acknowledged)
            self._transaction = None
            raise
        except ProviderError:
            self._transaction = None
            raise
        self._remove_settled(transaction.acknowledged)
        self._transaction = None

    def rollback(self) -> None:
        self._check_open()
        self._check_transacted()
        transaction = self._transaction
        if transaction is not None:
            transaction.abort()
            self._transaction = None

    def doom(self, reason: str) -> None:
        """Let the open transaction end only with a rollback: the broker has refused a part of it. Any thread."""
        # Read once: the session's thread may end the transaction meanwhile.
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
        # `close` may have listed the session's consumers before this one was made.
        with self._lock:
            is_open = not self._closed
            if is_open and subscription.is_open:
                self._subscriptions[subscription] = None
        if not is_open:
            subscription.close()
            self._check_open()
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Remove a consumer that closes."""
        with self._lock:
            self._subscriptions.pop(subscription, None)

    def hold(self, held: HeldMessage) -> bool:
        """Take a message that a consumer polls; return False if the session was closed meanwhile, and the message was given back."""
        with self._lock:
            is_open = not self._closed
            if is_open:
                self._held[held] = None
                held.session = self
        # Without the session's lock, since the subscription takes its own: locks are taken one at a time.
        if not is_open:
            held.subscription.give_back([held])
        return is_open

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        for held in _held_of(deliveries):
            former = held.session
            if former is not None:
                former.remove_held(held)
            self.hold(held)

    def remove_held(self, held: HeldMessage) -> None:
        """Remove a message that another session has adopted."""
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
            # Messages that an earlier call settled without an answer: if they are delivered again, they are settled again.
            self._connection.redeliveries.record_acknowledged(
                each for each in held if each.physical != number and each.settlement
            )
        self._forget_held(held)

    def _acknowledge_in_transaction(self, held: list[HeldMessage]) -> None:
        physical = self._link.current(self.check_waiting)
        try:
            transaction = self._open_transaction(physical)
            live = [each for each in held if each.physical == transaction.physical.number]
            if len(live) < len(held):
                transaction.doom("the connection was lost meanwhile, and what was received before comes again")
            # A call that is made again must not send ACK twice: that is an
            # error, and ends the connection at RabbitMQ (decision 0603).
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
        """Settle a message that the client does not get: expired, not selected, or sent by this connection itself. Never waits, as a poll
        must not.

        Return False if it will be delivered again, and must be discarded then.
        """
        physical = self._link.newest
        if held.physical != physical.number:
            # The id belongs to the lost connection: on the new one it names another message, or none.
            return False
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
                # The copy first, then the ACK: a loss between the two keeps the message twice, rather than not at all.
                if not held.is_settled():
                    self._send_dead_letter(held, self._connection.dead_letter(delivery.envelope, reason))
                self._settle([held], self._connection.ack)
        self._forget_held([held])

    def _send_dead_letter(self, held: HeldMessage, copy: Frame) -> None:
        """Send a copy of a rejected message to the dead letters, once even if the broker's answer is late. Not in one transaction with the
        acknowledgement, as not all brokers allow ACK there: if the connection is lost between the two, the message is kept twice.
        """
        dead_letter_request = held.dead_letter_request
        if dead_letter_request is None:
            physical = self._link.current(self.check_waiting)
            if held.physical != physical.number:
                return  # the connection was lost just now: the message comes again
            dead_letter_request = held.dead_letter_request = Request(physical, held.ack_id)
        try:
            dead_letter_request.physical.request_idempotent(dead_letter_request, copy)
        except UnansweredError:
            # The request is kept: a call that is repeated waits for this answer.
            raise
        except ConnectionLostInCallError as error:
            held.dead_letter_request = None
            raise ResourceError(f"the connection was lost while a message was kept aside: {error}") from error
        except ProviderError:
            held.dead_letter_request = None
            raise

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        self._give_back(_held_of(deliveries))

    def _settle(self, held: list[HeldMessage], frame_of: Callable[[HeldMessage], Frame]) -> None:
        """Send settlements; wait for the answer if the URL asks for that. Raises the broker's error."""
        # The others were sent by a call that got no answer, and must not be sent twice.
        fresh = [each for each in held if not each.is_settled()]
        frames = [frame_of(each) for each in fresh]
        physical = self._link.current(self.check_waiting)
        live = [each for each in held if each.physical == physical.number]
        if len(live) < len(held):
            return  # the connection was lost just now
        settlement = begin_settlement(fresh)
        try:
            if self._connection.settings.confirm_acknowledge:
                if frames:
                    physical.request(*frames, sent=settlement)
                else:
                    flush(physical)
            elif frames:
                # Without frames there is nothing to send: over a WebSocket that would be an empty message.
                physical.post(*frames, sent=settlement)
        except ConnectionLostInCallError:
            # Remembered: if the broker delivers them again, they are settled without a delivery to the client.
            self._connection.redeliveries.record_acknowledged(held)
        except UnansweredError:
            self._check_open()
            raise
        except ProviderError:
            # A refused ACK had no effect, and may be sent again (decision 0603).
            settlement.is_sent = False
            # If the session was closed meanwhile, the messages are back at the broker, which explains the error.
            self._check_open()
            raise
        else:
            for subscription, messages in _by_subscription(held).items():
                subscription.settled(messages)

    def _live(self, held: list[HeldMessage]) -> list[HeldMessage]:
        """Return the messages of the newest physical connection. The broker has taken back the others: their settlements are dropped."""
        number = self._link.physical_number
        live = [each for each in held if each.physical == number]
        if len(live) < len(held):
            _log.warning(
                "PYJMS-EPOCH %d messages were settled after the connection that they came by was lost; they come again",
                len(held) - len(live),
            )
        return live

    def _remove_settled(self, held: list[HeldMessage]) -> None:
        """Remove messages that a transaction has settled, as far as is known."""
        for subscription, messages in _by_subscription(held).items():
            subscription.settled(messages)
        self._forget_held(held)

    def _give_back(self, held: list[HeldMessage]) -> None:
        number = self._link.physical_number
        # Not all brokers mark or count redeliveries, so this process remembers them.
        self._connection.redeliveries.record_deliveries(each for each in held if each.physical != number)
        for subscription, messages in _by_subscription(each for each in held if each.physical == number).items():
            subscription.give_back(messages)
        self._forget_held(held)

    def _forget_held(self, held: Iterable[HeldMessage]) -> None:
        with self._lock:
            for each in held:
                self._held.pop(each, None)

    def interrupted(self, number: int) -> None:
        """Remember the messages of the ended physical connection `number` that the client still holds: they come again."""
        with self._lock:
            held = [each for each in self._held if each.physical <= number]
        self._connection.redeliveries.record_deliveries(held)

    # The end

    def end_waits(self) -> None:
        # The flag first: a call that waits from now on sees it, and one that waits already is woken.
        self._ends_waits = True
        self._link.wake()
        with self._lock:
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.end_waits()

    def check_waiting(self) -> None:
        """Raise `ClosedError` if calls may not wait for a connection any more, as the session is about to be closed."""
        if self._closed or self._ends_waits:
            raise ClosedError("the session is closed")

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        return self._link.wait

    def close(self) -> None:
        self._close_once.do(self._shut_down)

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            held, subscriptions = list(self._held), list(self._subscriptions)
        # Read once, since a commit on another thread may end the transaction meanwhile.
        transaction = self._transaction
        if transaction is not None:
            if not transaction.has_ended:
                # First: a COMMIT of another thread must not follow the ABORT.
                transaction.doom("the session was closed meanwhile")
            transaction.abort()
        steps: list[Callable[[], None]] = [subscription.close for subscription in subscriptions]
        steps.append(partial(self._give_back, held))
        for step in steps:
            try:
                step()
            except ProviderError as error:
                # The error of one step must not keep the others, and the connection, from ending.
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


def _by_subscription(held: Iterable[HeldMessage]) -> dict[MessageSource, list[HeldMessage]]:
    found: dict[MessageSource, list[HeldMessage]] = {}
    for each in held:
        found.setdefault(each.subscription, []).append(each)
    return found


_place = attrgetter("number")
_WINDOW_MAX = 1_000_000


class _Stage(Enum):
    OPEN = 1
    CLOSING = 2
    """The client has closed it; unsettled messages of its session keep it at the broker."""
    CLOSED = 3


class Subscription(ProviderConsumer):
    """One consumer at a foreign broker."""

    def __init__(
        self,
        connection: ForeignConnection,
        session: ForeignSession,
        request: SubscribeRequest,
        subscribing: Subscribing,
        on_ready: Callable[[], None],
    ) -> None:
        self.subscribing = subscribing
        self.request = request
        durable_name = request.durable_name
        self.identity = "" if durable_name is None else f"{connection.client_id}/{durable_name}"
        """Tells the copies of one message for several durable subscriptions apart."""
        self._connection = connection
        self._session = session
        self._dialect = connection.dialect
        self._on_ready = on_ready
        self._lock = Lock()
        self._arrived_signal = Signal()
        self._stage = _Stage.OPEN
        self._is_ending = False
        self._is_made = False
        """Whether the broker has answered SUBSCRIBE in this physical connection."""
        self.is_abandoned = False
        """Whether it has no owner, as the call that was to make it failed, or it was closed while it was being restored; if the broker has
        made it, it is ended there.
        """
        self._is_interested = False
        self._physical = 0
        self._frames: deque[tuple[int, Frame]] = deque()
        self._returned: list[HeldMessage] = []
        self._numbers = 0
        self._unsettled = 0  # polled, and neither settled nor given back, in this physical connection
        self._unread: dict[HeldMessage, None] = {}
        """The unsettled messages that could not be parsed, so that no session holds them; the next receiver may understand them."""
        self._window = connection.window_of(request)
        self._extra_ids: list[str] = []  # ids of the additional subscriptions

    @property
    def id(self) -> str:
        """Its id at the broker, which MESSAGE repeats."""
        return self.subscribing.id

    @property
    def ids(self) -> tuple[str, ...]:
        """All its ids at the broker."""
        return (self.id, *self._extra_ids)

    def wider_subscribe(self, another_id: str, dialect: Dialect) -> Frame | None:
        """Return the SUBSCRIBE that doubles the window; None: it is as large as it may be, or the consumer is closing."""
        frame = self.subscribing.frame()
        with self._lock:
            if self._window >= _WINDOW_MAX or self._stage is not _Stage.OPEN:
                return None
            frame.headers["id"] = another_id
            frame.headers[dialect.prefetch_header] = str(prefetch(self._window, dialect))
            self._extra_ids.append(another_id)
            # Doubled, as each further subscription costs a frame, and a client may hold any number (JMS 1.1 §4.4.11).
            self._window *= 2
        return frame

    @property
    def physical(self) -> int:
        """The number of the physical connection on which the broker knows it; 0: none yet."""
        return self._physical

    @property
    def is_open(self) -> bool:
        """Whether the client has not closed it."""
        return self._stage is _Stage.OPEN

    def abandon(self) -> None:
        """End it without a wait, as the call that asked for it has timed out."""
        self.is_abandoned = True
        with self._lock:
            # Not CLOSED yet: messages that arrive are kept until the broker has answered UNSUBSCRIBE.
            self._stage = _Stage.CLOSING
            number = self._physical
        physical = self._connection.link.newest
        if physical.number == number:
            physical.take_back(self.subscribing.end(), partial(self._ended_late, number))
        else:
            self._connection.forget_subscription(self)

    def _ended_late(self, number: int) -> None:
        """Return the messages that came before the broker answered UNSUBSCRIBE. The I/O thread."""
        with self._lock:
            self._stage = _Stage.CLOSED
            left = [HeldMessage(self, physical, frame, 0) for physical, frame in self._frames if physical == number]
            self._frames.clear()
        if left and not self._dialect.unsubscribe_returns_unsettled:
            self._connection.return_messages(left)
        self._connection.forget_subscription(self)

    # Events of the failover connection

    def begin_physical(self, number: int) -> bool:
        """Accept messages of this physical connection only; SUBSCRIBE follows, and then `has_been_made`. Return False if the consumer was
        closed: then nothing follows.
        """
        with self._lock:
            if self._stage is not _Stage.OPEN:
                return False
            self._physical = number
            self._is_made = False
            self._frames.clear()
            self._extra_ids.clear()
            self._window = self._connection.window_of(self.request)
        return True

    def has_been_made(self, physical: PhysicalConnection) -> None:
        """Note that the broker has subscribed it on this physical connection; end it there if it was closed meanwhile."""
        with self._lock:
            self._is_made = True
            is_late = self.is_abandoned
        if is_late:
            physical.take_back(self.subscribing.end(), partial(self._ended_late, physical.number))

    def leave_physical(self) -> bool:
        """Drop the messages of the ended physical connection; return whether the consumer is to be restored on the next."""
        with self._lock:
            returned, self._returned = self._returned, []
            self._frames.clear()
            self._unread.clear()
            self._unsettled = 0
            if self._stage is _Stage.CLOSING:
                self._stage = _Stage.CLOSED
            is_open = self._stage is _Stage.OPEN
        self._connection.redeliveries.record_deliveries(returned)
        return is_open

    def arrived(self, physical: int, frame: Frame) -> None:
        """Queue a message, and call `on_ready` if it is wanted. The I/O thread."""
        with self._lock:
            if physical != self._physical or self._stage is _Stage.CLOSED:
                return
            self._frames.append((physical, frame))
            is_wanted = self._is_interested and self._connection.is_started
        # Without the lock: `_on_ready` runs code of the runtime, which may poll at once.
        self._arrived_signal.set()
        if is_wanted:
            self._on_ready()

    def started(self) -> None:
        """Call `on_ready` if there are messages, as the connection was started."""
        with self._lock:
            is_wanted = self._is_interested and self._has_some()
        if is_wanted:
            self._on_ready()

    # The SPI

    def poll(self) -> Delivery | None:
        self._connection.link.check_open()
        if self._connection.temporaries.is_gone(self.request.address):
            raise DestinationError(f"{self.request.address} went with the connection that was lost: make another one")
        while self._connection.is_started:
            held = self._take()
            if held is None:
                self._widen_if_stuck()
                return None
            envelope = self._envelope_of(held)
            if envelope is None:
                continue
            if not self._session.hold(held):
                return None
            held.count += 1
            return Delivery(envelope, held.count, held.is_redelivered, held)
        return None

    def poll_or_wait(self) -> Delivery | None:
        delivery = self.poll()
        # A message that came between the two calls wakes the consumer: `set_interested` checks again.
        self.set_interested(delivery is None)
        return delivery

    def _envelope_of(self, held: HeldMessage) -> Envelope | None:
        """Return the message, or None if the client does not get it."""
        if held.envelope is None:
            try:
                if not self._understand(held):
                    return None
            except ProviderError as error:
                self._leave(held)
                self._connection.on_broker_error(error)
                return None
            except Exception:
                self._leave(held)
                raise
        envelope = held.envelope
        assert envelope is not None
        if 0 < envelope.expiration_ms <= self._connection.clock.time_ms():
            if self._session.discard(held):  # JMS 1.1 §3.4.9: the broker may not have noticed
                self._connection.report_expired(envelope, self.request.address, self.identity or None)
            return None
        return envelope

    def catch_up(self) -> None:
        """Wait until the broker has pushed its messages: one round trip, and then `grace_ms`, as STOMP has no query for that."""
        if not self._connection.is_started or self._stage is not _Stage.OPEN:
            return
        # Clears a flag of an earlier message: only messages from now on end the wait.
        self._arrived_signal.wait(0)
        with self._lock:
            if self._has_some():
                return
        self._connection.flush()
        # A broker answers the flush at once, and pushes messages a little later: STOMP has no drain.
        self._arrived_signal.wait(self._connection.settings.grace_ms / 1000)

    def end_waits(self) -> None:
        """Let `catch_up` return."""
        self._arrived_signal.set()

    def set_interested(self, interested: bool) -> None:
        with self._lock:
            self._is_interested = interested and self._stage is _Stage.OPEN
            is_ready = self._is_interested and self._connection.is_started and self._has_some()
        if is_ready:
            self._on_ready()

    def close(self) -> None:
        with self._lock:
            if self._stage is _Stage.OPEN:
                self._stage = _Stage.CLOSING
            self._is_interested = False
            # At UNSUBSCRIBE such a broker redelivers the messages that the session still holds: so the consumer ends when the
            # last of these is settled.
            waits = self._unsettled > len(self._unread) and self._dialect.unsubscribe_returns_unsettled
        self._arrived_signal.set()
        try:
            if not waits:
                self._finish()
        finally:
            self._session.forget(self)

    # Used by sessions

    def settled(self, messages: Iterable[HeldMessage]) -> None:
        """Remove messages that are settled; one that is no longer counted is ignored."""
        with self._lock:
            self._count_off(messages)
            is_last = self._stage is _Stage.CLOSING and self._unsettled <= len(self._unread)
        if is_last:
            self._finish_late()

    def give_back(self, messages: Iterable[HeldMessage]) -> None:
        """Return messages of the present physical connection to their places, or to the broker if the consumer is closed."""
        messages = list(messages)
        with self._lock:
            self._count_off(messages)
            stays = self._stage is _Stage.OPEN
            if stays:
                for held in messages:
                    held.is_redelivered = True
                    self._return(held)
            is_last = self._stage is _Stage.CLOSING and self._unsettled <= len(self._unread)
            is_wanted = stays and self._is_interested and self._connection.is_started
        if is_wanted:
            self._on_ready()
        if not stays:
            messages = [each for each in messages if not each.is_settled()]
            # Remembered here, since not all brokers mark redeliveries.
            self._connection.redeliveries.record_deliveries(messages)
        if not stays and not self._dialect.unsubscribe_returns_unsettled:
            self._connection.return_messages(messages)
        if is_last:
            self._finish_late()

    # Internals

    def _has_some(self) -> bool:
        return bool(self._returned or self._frames)

    def _widen_if_stuck(self) -> None:
        """Widen the window of a client that holds all messages that may be pushed."""
        if self._unsettled >= self._window and self.request.address.kind is AddressKind.QUEUE:
            self._connection.widen_window(self, self._physical)

    def _take(self) -> HeldMessage | None:
        """Take the next message."""
        with self._lock:
            if self._stage is not _Stage.OPEN:
                return None
            # Returned messages are older than all that the broker has pushed since.
            if self._returned:
                held = self._returned.pop(0)
            elif self._frames:
                physical, frame = self._frames.popleft()
                self._numbers += 1
                held = HeldMessage(self, physical, frame, self._numbers)
            else:
                return None
            held.is_counted = True
            self._unsettled += 1
        return held

    def _return(self, held: HeldMessage) -> None:
        """Insert a returned message in its place, unless it is there. The lock is held."""
        # By number, so that recovered messages come again in their old order.
        place = bisect_left(self._returned, held.number, key=_place)
        if place == len(self._returned) or self._returned[place] is not held:
            self._returned.insert(place, held)

    def _count_off(self, messages: Iterable[HeldMessage]) -> None:
        """Count messages as no longer polled, each once. The lock is held."""
        for held in messages:
            # Calls that race or repeat may report a message both as settled and as given back.
            if held.is_counted and held.physical == self._physical:
                held.is_counted = False
                self._unsettled = self._unsettled - 1 if self._unsettled else 0

    def _leave(self, held: HeldMessage) -> None:
        """Keep, unsettled, a message that could not be parsed: it goes back when the consumer ends."""
        with self._lock:
            is_unsettled = held.is_counted and held.physical == self._physical
            stays = self._stage is _Stage.OPEN
            if is_unsettled and stays:
                self._unread[held] = None
        if is_unsettled and not stays:
            self.give_back([held])

    def _understand(self, held: HeldMessage) -> bool:
        """Parse the message of a frame; return False if it is not for this consumer, and was settled.

        Raises `DestinationError` if it cannot be parsed.
        """
        frame, request = held.frame, self.request
        envelope = from_frame(frame, self._dialect, request.address)
        headers = frame.headers
        held.is_redelivered = headers.get("redelivered") == "true"
        told = headers.get("delivery-count", "")
        # The header counts the delivery that begins now; `poll` adds that one.
        held.count = max(0, int(told) - 1) if told.isdecimal() and told.isascii() else int(held.is_redelivered)
        redeliveries = self._connection.redeliveries
        # The client has settled it, and the answer was lost with the connection.
        if held.is_redelivered and redeliveries.was_acknowledged(envelope, self.identity):
            self._session.discard(held)
            return False
        held.count = max(held.count, redeliveries.count_of(envelope, self.identity))
        held.is_redelivered = held.is_redelivered or held.count > 0
        # The broker has no noLocal: the profile header names the connection that sent the message.
        if request.no_local and self._dialect.no_local is None and sender_of(frame) == self._connection.connection_id:
            self._session.discard(held)
            return False
        if not self._is_selected(held, envelope):
            return False
        held.envelope = envelope
        return True

    def _is_selected(self, held: HeldMessage, envelope: Envelope) -> bool:
        """Apply the selector to the typed properties: the broker compared texts. A queue's message is delivered even if it does not match."""
        selector = self.request.selector
        if selector is None or self._dialect.preserves_headers or selector.matches(envelope):
            return True
        if self.request.address.kind is AddressKind.TOPIC:
            self._session.discard(held)
            return False
        _log.warning(
            "PYJMS-SELECTOR %s delivers a message that the selector %r does not match by the types of its properties: "
            "over STOMP it compares their texts",
            self._dialect.title,
            selector.text,
        )
        return True

    def _finish_late(self) -> None:
        """End it after the session's last settlement; an error of the broker is only logged, as the settlement is done."""
        try:
            self._finish()
        except ProviderError as error:
            _log.warning("a consumer could not be closed in order: %s", error.reason)

    def _finish(self) -> None:
        """End the consumer at the broker, which takes back unsettled messages."""
        with self._lock:
            # `close`, the last settlement and the healer may call this on three threads; the first one ends it.
            if self._is_ending or self.is_abandoned or self._stage is _Stage.CLOSED:
                return
            self._is_ending = True
            physical = self._physical
            if physical and not self._is_made and self._connection.link.newest.number == physical:
                # UNSUBSCRIBE must not overtake the SUBSCRIBE of the healer: `has_been_made` sends it.
                self.is_abandoned = True
                return
            returned = [each for each in self._returned if not each.is_settled()]
        # Recovered messages that were not polled again: the broker does not know that they were delivered.
        self._connection.redeliveries.record_deliveries(returned)
        self._end(physical)

    def _end(self, number: int) -> None:
        """End it on physical connection `number`, unless that has ended. Raises the broker's error: the consumer has ended even then."""
        try:
            newest = self._connection.link.newest
            if newest.number == number:
                self._end_in(newest)
        except ConnectionLostInCallError:
            _log.debug("the connection ended while consumer %s was closed", self.id)  # so did the consumer
        finally:
            self._has_finished()

    def _has_finished(self) -> None:
        self._connection.forget_subscription(self)
        with self._lock:
            self._frames.clear()
            self._returned.clear()
            self._stage = _Stage.CLOSED

    def _end_in(self, physical: PhysicalConnection) -> None:
        try:
            frames = [Frame("UNSUBSCRIBE", {"id": each}) for each in self._extra_ids]
            physical.request_last(*frames, self.subscribing.end())
        except ClosedError:
            return
        if not self._dialect.unsubscribe_returns_unsettled:
            with self._lock:
                # When a consumer ends, RabbitMQ keeps its unsettled messages pending until the connection ends.
                left = [
                    *self._returned,
                    *self._unread,
                    *(HeldMessage(self, number, frame, 0) for number, frame in self._frames),
                ]
                self._returned, self._unread, self._frames = left, {}, deque()
            self._connection.return_messages(left)


# A queue browser: a subscription that does not consume, until the broker says that it has shown everything.


class Browser:
    """One iteration over a queue."""

    def __init__(
        self, connection: ForeignConnection, address: Address, selector: Selector | None, subscribing: Subscribing
    ) -> None:
        self._connection = connection
        self._address = address
        self._selector = selector
        self._subscribing = subscribing
        self._lock = Lock()
        self._frames: deque[Frame] = deque()
        self._signal = Signal()
        self._has_ended = False
        self._is_interrupted = False

    @property
    def id(self) -> str:
        """Its id at the broker."""
        return self._subscribing.id

    @property
    def ids(self) -> tuple[str, ...]:
        """All its ids at the broker."""
        return (self.id,)

    def arrived(self, physical: int, frame: Frame) -> None:
        """Queue a message. The I/O thread."""
        with self._lock:
            self._frames.append(frame)
        self._signal.set()

    def leave_physical(self) -> bool:
        """Fail: a browser is not restored."""
        self._is_interrupted = True
        self._signal.set()
        return False

    def run(self) -> Iterator[Delivery]:
        """Yield the messages. Raises `ResourceError` when the broker stops in the middle."""
        physical = self._connection.link.current()
        with physical.browsing(partial(self._end, physical)):
            try:
                # Before SUBSCRIBE is sent: messages may come before its answer.
                self._connection.enter(self)
                physical.request(self._subscribing.frame())
                while (frame := self._next()) is not None:
                    envelope = from_frame(frame, self._connection.dialect, self._address)
                    is_expired = 0 < envelope.expiration_ms <= self._connection.clock.time_ms()
                    if not is_expired and (self._selector is None or self._selector.matches(envelope)):
                        is_redelivered = frame.headers.get("redelivered") == "true"
                        yield Delivery(envelope, 1 + is_redelivered, is_redelivered, self)
            except ConnectionLostInCallError as error:
                raise ResourceError(f"the connection was lost while a queue was browsed: {error}") from error

    def _next(self) -> Frame | None:
        clock, settings = self._connection.clock, self._connection.settings
        until_ms = clock.monotonic_ms() + settings.timeout_ms
        while True:
            with self._lock:
                frame = self._frames.popleft() if self._frames else None
            if frame is not None:
                if frame.headers.get("browser") != "end":
                    return frame
                self._has_ended = True
                return None
            if self._is_interrupted:
                raise ConnectionLostInCallError("the broker may not have shown all")
            if not clock.wait(self._signal, until_ms):
                raise ResourceError(
                    f"the broker has not shown a queue to its end for {settings.timeout_ms} ms: raise timeout_ms"
                )

    def _end(self, physical: PhysicalConnection) -> None:
        """End the browser at the broker."""
        self._connection.forget_subscription(self)
        if not self._is_interrupted:
            try:
                physical.request_last(self._subscribing.end())
            except (ConnectionLostInCallError, ProviderError) as error:  # the earlier error is raised, and not this one
                _log.debug("a browser could not be closed in order: %s", error)
