"""One client's connection to a foreign broker over STOMP; its sessions share it, by subscription ids and transaction names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from uuid import uuid4

from pyjms.spi.capability import Capability
from pyjms.spi.clock import Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import (
    AccessDeniedError,
    DestinationError,
    DestinationInUseError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
    SubscriptionInUseError,
)
from pyjms.spi.provider import (
    ConnectionEvents,
    ConnectRequest,
    ExpiredMessage,
    ProviderInfo,
    SubscribeRequest,
)
from pyjms.spi.selector import Selector
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, UnansweredError, not_restored
from pyjms_provider.clients.stomp.failover import StompConnectionBase, StompFailoverConnection
from pyjms_provider.clients.stomp.foreign.held_message import REDELIVERIES, HeldMessage, begin_settlement, flush
from pyjms_provider.clients.stomp.foreign.session import Browser, ForeignSession, Subscription
from pyjms_provider.clients.stomp.foreign.subscribing import (
    PROBE,
    ForeignTemporaries,
    Subscribing,
    durable_headers,
    place_of,
)
from pyjms_provider.clients.stomp.options import StompSettings
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.protocols.stomp.errors import StompError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.message_properties import quoted
from pyjms_provider.protocols.stomp.messages import to_frame

# How messages of an ended consumer are settled at a broker that keeps them pending, and forgets the consumer (RabbitMQ).
#
# ACK and NACK name a message as ``CONSUMER@@SESSION@@NUMBER``; the numbers are the connection's, and the consumer must be
# subscribed. So one subscription, to a queue of its own with a unique name, lends its consumer name.
#
# For a message that was on its way to a consumer when that ended, RabbitMQ sends an ERROR in its place, and keeps it pending. The
# numbers follow the order of the wire, so they tell which message it was.

_ID = "janitor"


class PendingAckReaper:
    """The subscription whose name settles the messages of ended consumers."""

    def __init__(self, connection_id: str) -> None:
        self._connection_id = connection_id
        self._last = 0  # the number of the last message, delivered or not

    def enter(self, physical: PhysicalConnection, client_id: str | None) -> None:
        """Subscribe. With a client id the queue is named after it, so that no two connections have the same.

        Raises `DuplicateClientIdError`, `ConnectionLostInCallError`, `ProviderError`.
        """
        # A new name each time: that of the last connection may still be in use.
        own = f"connection.{self._connection_id}.{uuid4().hex[:8]}"
        name = own if client_id is None else f"client.{quoted(client_id)}"
        self._last = 0
        headers = {"id": _ID, "destination": f"/queue/pyjms.{name}", "ack": "client-individual"}
        # Only its own connection may use an exclusive queue: RabbitMQ refuses it to a second one (RESOURCE_LOCKED), which shows
        # that the client id is in use.
        headers |= {"durable": "false", "auto-delete": "true", "exclusive": "true"}
        try:
            physical.request(Frame("SUBSCRIBE", headers))
        except UnansweredError:
            # Before `ResourceError`, of which it is a kind: silence says nothing about the client id.
            raise
        except ResourceError as error:
            if client_id is None:
                raise
            raise DuplicateClientIdError(
                f"another connection has the client id {client_id!r}: {error.reason}"
            ) from error

    def record(self, frame: Frame) -> None:
        """Record the number of a delivered message. The I/O thread."""
        number = frame.headers.get("ack", "").rpartition("@@")[2]
        if number.isdecimal():
            self._last = int(number)

    def nack_of_undelivered(self, frame: Frame) -> Frame | None:
        """Return the NACK for the undelivered message in whose place this ERROR came; None: the ERROR is about something else."""
        if "no current subscription with tag" not in bytes(frame.body).decode(errors="replace"):
            return None
        # RabbitMQ has numbered the message that it could not deliver, as it has the others of the connection.
        self._last += 1
        return Frame("NACK", {"id": f"T_{_ID}@@stray@@{self._last}", "requeue": "true"})

    def reaper_ack_id(self, ack_id: str) -> str:
        """Return `ack_id` with the reaper as the consumer."""
        consumer, at, rest = ack_id.partition("@@")
        return f"T_{_ID}{at}{rest}" if at else consumer


_log = logging.getLogger("pyjms.stomp")

_REASON_PROPERTY, _ORIGIN_PROPERTY = "JMS_pyjms_deadReason", "JMS_pyjms_deadDestination"
"""The names that dead letters of our own broker have, so that they are found and sent back in the same way everywhere."""
_REASON_MAX = 1000
_CLIENT_ID_ATTEMPTS = 5
_CLIENT_ID_PAUSE_MS = 100


class ForeignConnection(StompConnectionBase):
    """One connection to a foreign broker; it fails over."""

    def __init__(
        self,
        settings: StompSettings,
        request: ConnectRequest,
        events: ConnectionEvents,
        link: StompFailoverConnection | None = None,
    ) -> None:
        """Connect, or use a new `link` that is connected. Raises as `Provider.connect`."""
        super().__init__(settings, request, events)
        self.redeliveries = REDELIVERIES
        self._on_expired = request.on_expired
        self._connection_id = ConnectionId(uuid4().hex[:20])
        self._sessions: dict[ForeignSession, None] = {}
        self._subscriptions: dict[str, Subscription | Browser] = {}
        if link is None:
            self.link = StompFailoverConnection(settings, self._connect_headers, request.clock, self)
        else:
            self.link = link
            link.hand_over(self._connect_headers, self)
        dialect = self.link.dialect
        assert dialect is not None, "CONNECTED has told it"
        self.dialect = dialect
        self._reaper = None if dialect.unsubscribe_returns_unsettled else PendingAckReaper(self._connection_id)
        # Before `_set_up`, which is the first to ask the broker for anything.
        self.link.takes_unexpected = self.on_unexpected
        self.temporaries = ForeignTemporaries(self._connection_id, dialect)
        try:
            self._set_up(self.link.current())
        except Exception:
            self.link.close(None)
            raise
        # Last: a loss before this raises here, and one after it is healed.
        self.link.begin()

    @property
    def capabilities(self) -> Capability:
        able = self.dialect.capabilities
        if self.settings.best_effort_transactions:
            able |= Capability.TRANSACTIONS
        if self.dialect.delays_if_configured and self.settings.delivery_delay:
            able |= Capability.DELIVERY_DELAY
        return able

    @property
    def info(self) -> ProviderInfo:
        return ProviderInfo(
            name=f"{self.dialect.title} over STOMP",
            version="1.2",
            jmsx_property_names=("JMSXDeliveryCount", "JMSXGroupID", "JMSXGroupSeq"),
        )

    def advice(self, capability: Capability) -> str:
        return self.dialect.reasons.get(capability, "")

    @property
    def client_id(self) -> str | None:
        """The client id, if one was set."""
        return self._client_id

    def set_client_id(self, client_id: str) -> None:
        self._check_open()
        self._client_id = client_id
        try:
            # Only RabbitMQ is tried again: there the name of the connection that was just closed may still be in use.
            for attempts_left in reversed(range(_CLIENT_ID_ATTEMPTS if self._reaper is not None else 1)):
                if self._reopens(is_last=not attempts_left):
                    return
        except ProviderError:
            # Without a client id the connection can go on.
            self._client_id = None
            self._reopen()
            raise

    def _reopens(self, *, is_last: bool) -> bool:
        """Connect again; return False if the client id is in use and should be tried again.

        RabbitMQ frees the names of a closed connection a moment after its DISCONNECT.
        """
        try:
            self._reopen()
        except DuplicateClientIdError:
            if is_last:
                raise
            self.clock.wait(Signal(), self.clock.monotonic_ms() + _CLIENT_ID_PAUSE_MS)
            return False
        return True

    def _reopen(self) -> None:
        """Connect again, since STOMP sends the client id in CONNECT."""
        self.link.reopen(self._set_up)

    def _set_up(self, physical: PhysicalConnection) -> None:
        if self._reaper is not None:
            try:
                self._reaper.enter(physical, self._client_id)
            except ConnectionLostInCallError as error:
                raise ResourceError(f"the connection was lost while it was set up: {error}") from error

    def open_session(self, *, transacted: bool) -> ForeignSession:
        with self._lock:
            # Under the lock that `_shut_down` takes: the session is either in its list or refused.
            self._check_open()
            session = ForeignSession(self, f"{self._connection_id}-{next(self._numbers)}", transacted=transacted)
            self._sessions[session] = None
        return session

    def start(self) -> None:
        self._check_open()
        self.is_started = True
        for subscription in self._all_subscriptions():
            if isinstance(subscription, Subscription):
                subscription.started()

    def stop(self) -> None:
        self._check_open()
        self.is_started = False

    # Temporary destinations

    def create_temporary(self, kind: AddressKind) -> Address:
        self._check_open()
        try:
            return self.temporaries.create(kind, self.link.current())
        except ConnectionLostInCallError as error:
            raise ResourceError(f"the connection was lost: {error}; try again") from error

    def delete_temporary(self, address: Address) -> None:
        self._check_open()
        if any(each.is_open and each.request.address == address for each in self._consumers()):
            raise DestinationInUseError(f"{address} has consumers: close them first")
        # STOMP has no frame that deletes a destination: it is only forgotten here.
        self.temporaries.delete(address)

    def _consumers(self) -> list[Subscription]:
        return [each for each in self._all_subscriptions() if isinstance(each, Subscription)]

    def _all_subscriptions(self) -> list[Subscription | Browser]:
        with self._lock:
            return list(dict.fromkeys(self._subscriptions.values()))

    # Used by sessions

    def forget_session(self, session: ForeignSession) -> None:
        """Remove a session that has closed."""
        with self._lock:
            self._sessions.pop(session, None)

    def forget_subscription(self, subscription: Subscription | Browser) -> None:
        """Remove a consumer that has ended at the broker."""
        with self._lock:
            for each in subscription.ids:
                self._subscriptions.pop(each, None)

    def frame_of(self, envelope: Envelope) -> Frame:
        """Return the SEND that carries `envelope`. Raises `ProviderError` for a message that the broker cannot take."""
        dialect = self.dialect
        destination, reply_to = envelope.destination, envelope.reply_to
        if destination.temporary:
            self.temporaries.check_usable(destination)
        try:
            frame = to_frame(
                envelope,
                dialect,
                now_ms=self.clock.time_ms(),
                connection_id=self._connection_id if dialect.no_local is None else None,
            )
        except StompError as error:
            raise ProviderError(f"the message cannot be sent over STOMP: {error.reason}") from error
        # RabbitMQ makes the queue exclusive by `persistent:false`;
        # without the header a message is not persistent, either.
        if not dialect.writes_non_persistent and frame.headers.get("persistent") == "false":
            del frame.headers["persistent"]
        if not dialect.temporaries:
            if destination.temporary:
                frame.headers.update(self.temporaries.send_headers(destination))
            if reply_to is not None and reply_to.temporary:
                frame.headers["reply-to"] = dialect.destinations.write_reply_to(place_of(reply_to, dialect))
        return frame

    def nack(self, held: HeldMessage) -> Frame:
        """Return the frame that has the broker dead-letter `held`."""
        return Frame("NACK", self.ack(held).headers)

    def ack(self, held: HeldMessage, transaction: str | None = None) -> Frame:
        """Return the frame that settles `held`."""
        ack_id = held.ack_id
        # RabbitMQ looks up the consumer by its name, and has forgotten one that ended; the reaper always exists.
        if self._reaper is not None and not held.subscription.is_open:
            ack_id = self._reaper.reaper_ack_id(ack_id)
        headers = {"id": ack_id}
        if transaction is not None:
            headers["transaction"] = transaction
        return Frame("ACK", headers)

    def return_messages(self, messages: Iterable[HeldMessage]) -> None:
        """Return messages of an ended consumer to a broker that would keep them pending (RabbitMQ), each once."""
        assert self._reaper is not None, "other brokers take them back by themselves"
        # A second ACK or NACK of a message ends the connection at RabbitMQ (decision 0603).
        messages = [each for each in messages if not each.is_settled()]
        frames = [
            Frame("NACK", {"id": self._reaper.reaper_ack_id(held.ack_id), "requeue": "true"}) for held in messages
        ]
        if frames:
            try:
                self.link.newest.request_last(*frames, sent=begin_settlement(messages))
            except ConnectionLostInCallError:
                _log.debug("the connection ended while messages were handed back")  # which returned them, too

    def report_expired(self, envelope: Envelope, address: Address, subscription: str | None) -> None:
        """Report a message that had expired on arrival to the listener, if there is one. Call it with no lock of this provider held."""
        if self._on_expired is not None:
            self._on_expired(
                ExpiredMessage(
                    message_id=envelope.message_id,
                    destination=address,
                    subscription=subscription,
                    expiration_ms=envelope.expiration_ms,
                    at_ms=self.clock.time_ms(),
                )
            )

    def dead_letter(self, envelope: Envelope, reason: str) -> Frame:
        """Return the SEND of a copy to the dead-letter queue, with the reason and the original destination. Raises `ProviderError`."""
        origin, reason = str(envelope.destination), reason[:_REASON_MAX]
        properties = {_ORIGIN_PROPERTY: origin, **envelope.properties, _REASON_PROPERTY: reason}
        dead_letter_queue = Address(AddressKind.QUEUE, self.settings.dead_letter_queue)
        return self.frame_of(
            replace(envelope, destination=dead_letter_queue, properties=properties, expiration_ms=0, delivery_mode=2)
        )

    def flush(self) -> None:
        """Wait until the broker has processed all that was sent, if there is a connection."""
        try:
            flush(self.link.newest)
        except ConnectionLostInCallError:
            _log.debug("the connection ended while it was flushed")

    def _ask_now(self, *frames: Frame) -> None:
        try:
            self.link.current().request(*frames)
        except ConnectionLostInCallError as error:
            raise ResourceError(f"the connection was lost: {error}; try again") from error

    def subscribe(
        self, session: ForeignSession, request: SubscribeRequest, on_ready: Callable[[], None]
    ) -> Subscription:
        """Subscribe; repeat it if the connection is lost meanwhile. Raises `ProviderError`."""
        if request.address.temporary:
            self.temporaries.check_own(request.address)
        else:
            self.temporaries.check_named(request.address)
        subscribing = Subscribing.for_consumer(
            request,
            self.dialect,
            number=next(self._numbers),
            client_id=self._client_id,
            prefetch_messages=self.window_of(request),
        )
        subscription = Subscription(self, session, request, subscribing, on_ready)
        # Before SUBSCRIBE is sent: the first messages may come before its answer.
        self._enter(subscription)
        is_kept = False
        try:
            self._subscribe(subscription, session.check_waiting)
            is_kept = True
        except UnansweredError:  # the broker may still make it
            # It stays in the table until UNSUBSCRIBE is answered, since messages may still come for it.
            subscription.abandon()
            is_kept = True
            raise
        finally:
            if not is_kept:
                self.forget_subscription(subscription)
        return subscription

    def _enter(self, subscription: Subscription) -> None:
        """Route messages to `subscription`. Raises `SubscriptionInUseError`, `ClosedError`."""
        name = subscription.request.durable_name
        with self._lock:
            self._check_open()
            if name is not None and self._is_in_use(name):
                raise SubscriptionInUseError(f"the durable subscription {name!r} has a subscriber")
            self._subscriptions[subscription.id] = subscription

    def window_of(self, request: SubscribeRequest) -> int:
        """Return how many unsettled messages the broker may push to a new consumer."""
        # Subscribers of a topic do not compete for messages, so a large window takes nothing from others.
        is_topic = request.address.kind is AddressKind.TOPIC
        return self.settings.prefetch_topic_messages if is_topic else self.settings.prefetch_messages

    def widen_window(self, subscription: Subscription, physical: int) -> None:
        """Let the broker push more to a consumer whose client settles late, by one more subscription. Never waits.

        STOMP cannot raise a prefetch; and a client may hold as many messages as it likes (JMS 1.1 §4.4.11).
        """
        newest = self.link.newest
        # The connection was replaced since the consumer checked; there its window starts again.
        if newest.number != physical:
            return
        another_id = f"{subscription.id}.{next(self._numbers)}"
        frame = subscription.wider_subscribe(another_id, self.dialect)
        if frame is None:
            return
        with self._lock:
            # Entered before the frame is sent: messages may come under the new id at once.
            self._subscriptions[another_id] = subscription
        try:
            newest.post(frame, needs_room=False)
        except ConnectionLostInCallError:
            _log.debug("the connection ended while a consumer was widened")

    def _is_in_use(self, durable_name: str) -> bool:
        return any(
            isinstance(each, Subscription) and each.request.durable_name == durable_name and not each.is_abandoned
            for each in self._subscriptions.values()
        )

    def _subscribe(self, subscription: Subscription, check: Callable[[], None]) -> None:
        while True:
            physical = self.link.current(check)
            if subscription.physical == physical.number:
                # The healer has subscribed it on this connection already.
                return
            # Before the request: messages of this connection may come before the answer, and others are dropped.
            subscription.begin_physical(physical.number)
            try:
                physical.request(subscription.subscribing.frame())
            except ConnectionLostInCallError:
                subscription.begin_physical(0)
                continue
            subscription.has_been_made(physical)
            return

    def unsubscribe(self, name: str) -> None:
        """End a durable subscription. Raises `UnknownSubscriptionError`, `SubscriptionInUseError`."""
        with self._lock:
            if self._is_in_use(name):
                raise SubscriptionInUseError(f"the durable subscription {name!r} has a subscriber: close it first")
        unsubscribe_id = f"u{next(self._numbers)}"
        headers = durable_headers(self.dialect, self._client_id, name)
        ending = Frame("UNSUBSCRIBE", {"id": unsubscribe_id, **headers})
        # RabbitMQ ends a durable subscription only by its consumer: so one is made, on an unused topic.
        if self.dialect.ends_inactive_durable:
            self._ask_now(ending)
            return
        topic = self.dialect.destinations.headers_for(Address(AddressKind.TOPIC, "pyjms.unsubscribe"))
        begin = Frame("SUBSCRIBE", {"id": unsubscribe_id, "ack": "client-individual", **topic, **headers})
        self._ask_now(begin, ending)

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        """Browse a queue. Raises `CapabilityError`, `ProviderError`."""
        if address.temporary:
            self.temporaries.check_own(address)
        else:
            self.temporaries.check_named(address)
        subscribing = Subscribing.for_browser(address, self.dialect, number=next(self._numbers))
        return Browser(self, address, selector, subscribing).run()

    def enter(self, browser: Browser) -> None:
        """Route messages to `browser`, which removes itself when it ends. Raises `ClosedError`."""
        with self._lock:
            self._check_open()
            self._subscriptions[browser.id] = browser

    # Events of the failover connection

    def on_message(self, physical: PhysicalConnection, frame: Frame) -> None:
        """Pass a message to its consumer. The I/O thread."""
        name = frame.headers.get("subscription", "")
        # Every message counts, also one that no consumer takes: the numbers are the connection's.
        if self._reaper is not None:
            self._reaper.record(frame)
        subscription = self._subscriptions.get(name)
        if subscription is None and name.startswith(PROBE):
            self.temporaries.arrived(frame)
        elif subscription is not None:
            subscription.arrived(physical.number, frame)
        elif self._reaper is None:
            _log.debug("a message came for a consumer that is closed: %r", frame)

    def on_unexpected(self, physical: PhysicalConnection, frame: Frame) -> bool:
        """Return a message that was on its way to a consumer that has ended (RabbitMQ). The I/O thread."""
        nack = None if self._reaper is None else self._reaper.nack_of_undelivered(frame)
        if nack is None:
            return False
        try:
            # Without waiting, as this runs on the thread that would have to read the answer.
            physical.post(nack)
        except (ProviderError, ConnectionLostInCallError) as error:
            _log.warning("a message stays pending until the connection is closed: %s", error)
        return True

    def is_only_waiter(self) -> bool:
        """Return False: waiting threads are not counted here."""
        return False

    def on_broker_error(self, error: ProviderError) -> None:
        """Tell the client, and doom open transactions: they may lack what was refused."""
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.doom(error.reason)
        self._events.on_exception(error)

    def _open_sessions(self) -> list[ForeignSession]:
        return list(self._sessions)

    def _leave_physical(self) -> None:
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.interrupted(self.link.physical_number)
        for subscription in self._all_subscriptions():
            if not subscription.leave_physical():
                self.forget_subscription(subscription)

    def restore(self, physical: PhysicalConnection) -> None:
        """Subscribe all consumers on `physical`. Raises `ConnectionLostInCallError`, `ProviderError`."""
        if self._reaper is not None:
            # In this order: the reaper's queue holds the client id, and consumers need their temporary queues.
            self._reaper.enter(physical, self._client_id)
        self.temporaries.restore(physical)
        for subscription in self._consumers():
            if not subscription.leave_physical():
                # a connection that ended during its restore may have delivered something
                self.forget_subscription(subscription)
            elif not self.temporaries.is_gone(subscription.request.address):
                self._restore_subscription(physical, subscription)

    def _restore_subscription(self, physical: PhysicalConnection, subscription: Subscription) -> None:
        if not subscription.begin_physical(physical.number):
            self.forget_subscription(subscription)
            return
        try:
            physical.request(subscription.subscribing.frame())
            subscription.has_been_made(physical)
        except (AccessDeniedError, DestinationError) as error:
            # The other consumers go on: an error that is raised here would drop the new connection for all of them.
            if not subscription.begin_physical(0):
                self.forget_subscription(subscription)
            self._events.on_exception(not_restored(subscription.request.address, error))
