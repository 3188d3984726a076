"""A consumer at a broker over AMQP: it gives credit while it is interested, and delivers what has come one by one.

Messages that a session recovers are delivered again from here, before later ones, with a higher count: the broker is told of it when they
leave the session (decision 0812).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import (
    CapabilityError,
    ClosedError,
    DestinationError,
    InvalidSelectorError,
    ProviderError,
    ResourceError,
    SubscriptionInUseError,
)
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms_provider.amqp.codec import Described, ULong
from pyjms_provider.amqp.errors import Condition, DecodeError
from pyjms_provider.amqp.jms import read_message
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import (
    RELEASED,
    Attach,
    Error,
    Modified,
    Rejected,
    Source,
    Target,
)
from pyjms_provider.clients.amqp.links import ClientLink, new_name
from pyjms_provider.clients.amqp.profiles import capability_of
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, UnansweredError
from pyjms_provider.clients.network.delivery_counts import COUNTS
from pyjms_provider.protocols.profile.commands import Unsubscribe

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.clients.amqp.contracts import ClientSession
    from pyjms_provider.clients.amqp.physical_connection import PhysicalConnection, Reply
    from pyjms_provider.protocols.amqp.link import IncomingDelivery, Receiver
    from pyjms_provider.protocols.amqp.session import Session

_log = logging.getLogger("pyjms.amqp")

FAILED: Final = Modified(delivery_failed=True)
"""The outcome of a delivery that the application has seen, and has not processed: the broker counts it."""
_OUTCOMES: Final = (
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
)
_SELECTOR: Final = "jms-selector"
_SELECTOR_CODE: Final = ULong(0x0000468C00000004)
_NO_LOCAL: Final = "no-local"
_NO_LOCAL_CODE: Final = ULong(0x0000468C00000003)
_PERSISTENT: Final = 2
_SECOND: Final = 1
"""The settle mode of a receiver that lets the broker settle first, when the outcome is safe (part 2, 2.8.3)."""
_UNSETTLED_STATE: Final = 2
"""`durable` of a source that outlives its link."""


@dataclass(slots=True, eq=False)
class ReceivedMessage:
    """A message that has come: the tag of its deliveries."""

    delivery: IncomingDelivery
    physical: PhysicalConnection
    """The connection that it came on: on another one it cannot be settled."""
    consumer: AmqpConsumer
    serial: int
    """Its place among the messages of its consumer."""
    again: int = 0
    """How often it was delivered from here again, after the first time."""
    is_seen: bool = False
    """Whether the application may have seen it."""
    envelope: Envelope | None = None
    """The message, once it was delivered."""
    count: int = 0
    """How often it was delivered, then."""
    is_persistent: bool = False
    is_sent: bool = False
    """Whether a settlement was told to the broker, or is about to be."""
    is_acknowledged: bool = False
    """Whether it was acknowledged outside of a transaction, and the call has returned: once more changes nothing."""


def remember(tags: Iterable[ReceivedMessage]) -> None:
    """Remember how often messages were delivered that go back: not every broker counts it, and none after a lost connection."""
    for tag in tags:
        if tag.is_seen and tag.envelope is not None:
            COUNTS.record(tag.envelope, tag.consumer.owner, tag.count)


def filters_of(selector: Selector | None, *, no_local: bool) -> dict[str, Described] | None:
    """Return the filters of a source."""
    filters: dict[str, Described] = {}
    if selector is not None:
        filters[_SELECTOR] = Described(_SELECTOR_CODE, selector.text)
    if no_local:
        filters[_NO_LOCAL] = Described(_NO_LOCAL_CODE, "NoLocalFilter{}")
    return filters or None


def check_filters(asked: dict[str, Described] | None, answer: Attach) -> None:
    """Raise `CapabilityError` if the broker has passed over a filter: it says back those that it applies."""
    got = getattr(answer.source, "filter", None) or {}
    for name in asked or ():
        if name not in {str(each) for each in got}:
            raise CapabilityError(f"the broker does not apply the filter {name}: its answer to the attach lacks it")


def refused(
    link: ClientLink, selector: Selector | None, error: ProviderError, *, is_subscription: bool = False
) -> ProviderError:
    """Return the error for a consumer that the broker has refused.

    A selector was checked by the runtime, and brokers differ in what they take; what is locked is a subscription in use, or a destination of
    another connection's.
    """
    if selector is not None and isinstance(error, InvalidSelectorError):
        # The broker may have cut the selector.
        return InvalidSelectorError(error.problem, selector.text, error.position)
    if selector is not None and link.condition == Condition.INVALID_FIELD:
        return InvalidSelectorError(error.reason, selector.text, 0)
    if link.condition == Condition.RESOURCE_LOCKED:
        return (SubscriptionInUseError if is_subscription else DestinationError)(error.reason)
    return error


class _ConsumerLink(ClientLink):
    """The link of a consumer."""

    link: Receiver | None

    def __init__(self, physical: PhysicalConnection, session: Session, consumer: AmqpConsumer) -> None:
        super().__init__(physical, session)
        self._consumer = consumer

    @property
    def has_unsettled(self) -> bool:
        """Whether messages that came on it are held: those that only wait in the client go back with the link."""
        with self.physical.lock:
            return self.has_held()

    def has_held(self) -> bool:
        """Return the same with the lock held."""
        waiting = self._consumer.waiting_deliveries()
        return any(each.link is self.link and each not in waiting for each in self.session.incoming.values())

    def arrived(self, delivery: IncomingDelivery) -> None:
        """A message has come."""
        self._consumer.arrived(self, delivery)

    def drained(self) -> None:
        """The broker has no message for the credit that is left."""
        self._consumer.drained(self)

    def on_lost(self, error: ProviderError) -> None:
        """The broker has ended the link by itself."""
        self._consumer.lost(self, error)


class AmqpConsumer(ProviderConsumer):
    """A consumer. All its fields are guarded by the connection's lock."""

    def __init__(
        self, session: ClientSession, request: SubscribeRequest, on_ready: Callable[[], None], window: int
    ) -> None:
        self.request = request
        self.session = session
        self._connection = session.connection
        self._on_ready = on_ready
        self._window = window
        self.number = 0
        """Its number among the consumers of a shared subscription on this connection; 0: it has none."""
        self._link: _ConsumerLink | None = None
        self._arrived: deque[ReceivedMessage] = deque()
        self._serials = count(1)
        self._is_interested = False
        self._is_revoked = False
        """Whether messages that still come go back, since nothing waits for them."""
        self._is_withdrawn = False
        """Whether older messages go back first, and nothing is received meanwhile."""
        self._draining: Reply | None = None
        """The call that waits until the broker has sent what it has."""
        self._is_closed = False
        self._expired: deque[tuple[str | None, int]] = deque(maxlen=window)
        """The last messages that were given back as expired. One that comes again is delivered: it has not expired by the broker's clock."""

    @property
    def is_open(self) -> bool:
        """Whether it has not been closed."""
        return not self._is_closed

    @property
    def owner(self) -> str:
        """The durable subscription that its messages belong to; empty: none."""
        name = self.request.durable_name
        return "" if name is None else f"{self._connection.client_id}/{name}"

    @property
    def is_waiting(self) -> bool:
        """Whether a thread may wait for messages, and none are here."""
        return self._is_interested and not self._arrived

    def abandon(self) -> None:
        """Mark it as closed: it has no link, and gets none."""
        self._is_closed = True
        self._finish()

    # --------------------------------------------------------------------------------------------------- its link

    def attach(self, physical: PhysicalConnection) -> None:
        """Attach it on a physical connection, unless it is. Raises the broker's refusal, `CapabilityError`, `ConnectionLostInCallError`."""
        link, session = self._link, self.session.amqp_session(physical)
        if link is not None and link.physical is physical:
            return
        link, name = _ConsumerLink(physical, session, self), self._link_name()
        if session.link_named(name, True) is not None:  # a shared and an unshared subscription may have one name
            raise SubscriptionInUseError(
                f"the durable subscription {self.request.durable_name!r} has a consumer already"
            )
        attach = self._attach_performative()
        # First: messages cannot come before credit, but the end of the link can.
        with self._connection.lock:
            self._arrived.clear()
            self._draining, self._is_revoked = None, False
            self._link = link
        try:
            answer = link.attach(name, attach, f"a consumer of {self.request.address}")
            check_filters(attach.source.filter, answer)
        except (ProviderError, ConnectionLostInCallError) as error:
            if isinstance(error, CapabilityError):
                link.detach()
            if self._link is link:  # the healer may have attached it elsewhere meanwhile
                self._link = None
            if isinstance(error, ProviderError):
                is_subscription = bool(self.request.durable_name or self.request.shared_name)
                raise refused(link, self.request.selector, error, is_subscription=is_subscription) from error
            raise
        with self._connection.lock:
            self._grant()
        physical.flush()

    def _link_name(self) -> str:
        """Return the link's name, which is that of a subscription; consumers of a shared one add a number, as Qpid JMS does."""
        request = self.request
        if request.shared_name is not None:
            kind = "volatile" if self._connection.client_id is not None else "global-volatile"
            return f"{request.shared_name}|{kind}{self._number()}"
        if request.durable_name is None:
            return new_name("consumer")
        if not request.is_shared:
            return request.durable_name
        kind, number = "" if self._connection.client_id is not None else "global", self._number()
        suffix = kind if number == 1 else f"{kind}{number}"
        return f"{request.durable_name}|{suffix}" if suffix else request.durable_name

    def _number(self) -> int:
        """Return the consumer's number among those of its shared subscription on this connection."""
        if not self.number:
            self.number = self._connection.take_number(self)
        return self.number

    def _attach_performative(self) -> Attach:
        request, connection = self.request, self._connection
        is_durable = request.durable_name is not None
        capabilities = [capability_of(request.address)]
        if request.is_shared or request.shared_name is not None:
            capabilities += ["shared"] if connection.client_id is not None else ["shared", "global"]
        source = Source(
            connection.to_broker(request.address),
            durable=_UNSETTLED_STATE if is_durable else 0,
            expiry_policy="never" if is_durable else "link-detach",
            distribution_mode="copy" if is_durable else None,
            filter=filters_of(request.selector, no_local=request.no_local),
            default_outcome=FAILED,
            outcomes=_OUTCOMES,
            capabilities=tuple(capabilities),
        )
        return Attach(
            "",
            0,
            True,
            snd_settle_mode=0,
            rcv_settle_mode=_SECOND if connection.confirms else 0,
            source=source,
            target=Target(),
            max_message_size=connection.settings.message_bytes_max,
            properties={"priority": request.priority} if request.priority else None,
        )

    def interrupted(self) -> None:
        """Drop all messages: the physical connection has ended, and the broker has taken back what it had sent."""
        with self._connection.lock:
            self._link = None
            remember(self._arrived)
            self._arrived.clear()
            self._draining = None

    # ------------------------------------------------------------------------------------------- with the lock held

    def arrived(self, link: _ConsumerLink, delivery: IncomingDelivery) -> None:
        """Queue a message, or give it back if it is no longer wanted."""
        goes_back = self._is_closed or self._is_revoked or self._is_withdrawn
        if link is not self._link or (goes_back and not self._connection.profile.keeps_released):
            link.session.update_incoming((delivery,), RELEASED)
            return
        self._arrived.append(ReceivedMessage(delivery, link.physical, self, next(self._serials)))
        if self._is_interested and len(self._arrived) == 1:
            link.physical.later(self._on_ready)
        if self._draining is not None:
            link.physical.settle(self._draining)

    def waiting_deliveries(self) -> set[IncomingDelivery]:
        """Return what has come and was not delivered."""
        return {each.delivery for each in self._arrived}

    def drained(self, link: _ConsumerLink) -> None:
        """End the wait for what the broker has."""
        if link is not self._link:
            return
        self._is_revoked = False
        draining, self._draining = self._draining, None
        link.physical.settle(draining)
        self._grant()

    def lost(self, link: _ConsumerLink, error: ProviderError) -> None:
        """Tell the client that nothing comes any more."""
        if link is not self._link or self._is_closed:
            return
        self._link = None
        self._arrived.clear()
        link.physical.settle(self._draining)
        reason = (
            f"the broker has ended a consumer of {self.request.address}, which receives nothing more: {error.reason}"
        )
        link.physical.later(lambda: self._connection.report(ResourceError(reason)))

    def _grant(self) -> bool:
        """Give credit for the window, when half of it is used; return whether it was given."""
        link = self._link
        if link is None or not self._is_interested or self._is_closed or not self._connection.is_started:
            return False
        if self._is_withdrawn:
            return False
        receiver = link.link
        room = self._window - len(self._arrived)
        if (
            receiver is None
            or receiver.credit * 2 > room
            or not room
            or not receiver.is_attached
            or receiver.is_draining
        ):
            return False
        receiver.give_credit(room)
        return True

    def _revoke(self) -> None:
        """Take the credit back, and give back what has come and was not delivered, where the broker takes it back to its place."""
        link = self._link
        if link is None or link.link is None or not link.link.is_attached:
            return
        self._drain_credit(link)
        if not self._connection.profile.keeps_released:
            self._give_back_arrived(link)

    def _drain_credit(self, link: _ConsumerLink) -> None:
        """Take the credit back; what still comes goes back."""
        receiver = link.link
        if receiver is not None and receiver.credit and not receiver.is_draining:
            receiver.give_credit(receiver.credit, drain=True)
            self._is_revoked = True

    def _give_back_arrived(self, link: _ConsumerLink) -> None:
        """Give back what was not delivered, or was and waits to be delivered again."""
        arrived, self._arrived = list(self._arrived), deque()
        remember(arrived)
        for outcome, is_seen in ((FAILED, True), (RELEASED, False)):
            link.session.update_incoming([each.delivery for each in arrived if each.is_seen is is_seen], outcome)

    def withdraw(self) -> None:
        """Give back what was not delivered, and what still comes, as older messages are about to go back: they would be overtaken.

        Raises as `PhysicalConnection.call`. `go_on` follows.
        """
        with self._connection.lock:
            link = self._link
            if link is None or self._is_closed:
                return
            self._is_withdrawn = True
            self._revoke()

        def ask(reply: Reply) -> None:
            receiver = link.link
            if link is self._link and receiver is not None and receiver.is_attached and receiver.is_draining:
                self._draining = reply
            else:
                link.physical.settle(reply)

        try:
            link.physical.call(ask, "a drain")
        finally:
            self._draining = None

    def go_on(self) -> None:
        """Receive again after `withdraw`."""
        with self._connection.lock:
            self._is_withdrawn = False
            self._grant()

    def put_back(self, messages: Sequence[ReceivedMessage], *, is_seen: bool) -> bool:
        """Have messages delivered again from here, before later ones; return False if that cannot be. The lock is held."""
        if self._link is None or self._is_closed or self._link.error is not None:
            return False
        for message in messages:
            message.is_seen = message.is_seen and is_seen
            message.again += is_seen
        self._arrived = deque(sorted((*messages, *self._arrived), key=attrgetter("serial")))
        if self._is_interested and self._connection.is_started:
            self._link.physical.later(self._on_ready)
        return True

    # ----------------------------------------------------------------------------------------------------- the SPI

    def started(self) -> None:
        """Give credit, and call `on_ready` if there are messages, as the connection was started."""
        with self._connection.lock:
            self._grant()
            is_wanted = self._is_interested and bool(self._arrived)
        if is_wanted:
            self._on_ready()

    def poll(self) -> Delivery | None:
        return self._take(waits=False)

    def poll_or_wait(self) -> Delivery | None:
        return self._take(waits=True)

    def _take(self, *, waits: bool) -> Delivery | None:
        """Return the next message that is here; if it `waits`, set the interest if there is none, and clear it if there is one."""
        connection = self._connection
        while True:
            with connection.lock:
                link = self._link
                if self._is_closed:
                    return None
                found = (
                    self._arrived.popleft() if connection.is_started and link is not None and self._arrived else None
                )
                if found is None:
                    if waits:
                        self._is_interested = True
                else:
                    self.session.hold(found)
                has_granted = self._grant()
                if found is not None and waits:
                    self._is_interested = False
            # Without new credit nothing is urgent: acknowledgements go out together, with the next wait or the next tick.
            if has_granted and link is not None:
                self._flush(link.physical)
            if found is None:
                return None
            # Decoded without the lock, which the thread that reads needs.
            delivery = self._deliver(found)
            if delivery is not None:
                return delivery

    def _flush(self, physical: PhysicalConnection) -> None:
        try:
            physical.flush()
        except ConnectionLostInCallError:
            _log.debug("the connection ended before the broker had heard of credit")

    def _deliver(self, found: ReceivedMessage) -> Delivery | None:
        """Return the delivery of a message; None: it cannot be read, or has expired, and was settled."""
        connection = self._connection
        try:
            message = Message(found.delivery.data)
            envelope = connection.received(
                read_message(
                    message,
                    now_ms=connection.clock.time_ms(),
                    destination=self.request.address,
                    address=connection.profile.from_broker,
                )
            )
            failed = message.header.delivery_count
        except DecodeError as error:
            _log.warning("PYJMS-AMQP a message of %s cannot be read: %s", self.request.address, error.description)
            self._settle(found, Rejected(Error(Condition.DECODE_ERROR, error.description)))
            return None
        if envelope.expiration_ms and not found.is_seen and self._has_expired(envelope):
            self._settle(found, RELEASED)
            return None
        before = max(failed + found.again, COUNTS.take(envelope, self.owner))
        found.is_persistent = envelope.delivery_mode == _PERSISTENT
        found.is_seen, found.envelope, found.count = True, envelope, before + 1
        found.again = before - failed
        return Delivery(envelope, before + 1, before > 0, found)

    def _settle(self, found: ReceivedMessage, outcome: Any) -> None:
        with self._connection.lock:
            self.session.let_go((found,))
            found.delivery.link.session.update_incoming((found.delivery,), outcome)
        self._flush(found.physical)

    def _has_expired(self, envelope: Envelope) -> bool:
        """Return whether it has expired while it waited here (JMS 1.1 §3.4.9). It goes back, and expires at the broker."""
        which = (envelope.message_id, envelope.expiration_ms)
        if envelope.expiration_ms > self._connection.clock.time_ms() or which in self._expired:
            return False
        self._expired.append(which)
        return True

    def set_interested(self, interested: bool) -> None:
        connection = self._connection
        with connection.lock:
            if self._is_closed:
                return
            link = self._link
            self._is_interested = interested
            if interested:
                self._grant()
            else:
                self._revoke()
            is_wanted = interested and bool(self._arrived) and connection.is_started
        if link is not None and link.physical.engine.out_size:
            self._flush(link.physical)
        if is_wanted:
            self._on_ready()

    def catch_up(self) -> None:
        """Fetch what the broker has now, by a drain (an exact `receive_no_wait`)."""
        link = self._link
        if link is None or self._arrived or not self._connection.is_started or link.physical.is_own_thread():
            return
        try:
            # What comes while credit is taken back goes back: that ends first, or a later message would be received before it.
            if self._is_revoked:
                self._drain(link)
            self._drain(link)
        except ConnectionLostInCallError:
            return  # there is nothing until the connection is back

    def _drain(self, link: _ConsumerLink) -> None:
        """Wait until the broker has sent what it has for the credit. Raises as `PhysicalConnection.call`."""

        def ask(reply: Reply) -> None:
            receiver = link.link
            if (
                link is not self._link
                or self._arrived
                or self._is_closed
                or receiver is None
                or not receiver.is_attached
            ):
                link.physical.settle(reply)
                return
            self._draining = reply
            if not receiver.is_draining:
                receiver.give_credit(max(receiver.credit, 1), drain=True)

        try:
            link.physical.call(ask, "a drain")
        finally:
            self._draining = None

    def close(self) -> None:
        with self._connection.lock:
            if self._is_closed:
                return
            # The flag first: `poll` delivers nothing that is about to go back.
            self._is_closed = True
            link = self._link
            is_held = link is not None and link.has_held()
            # With the session all of its consumers end.
            is_commanded = self._connection.has_commands and not self.session.is_closed
            if link is not None:
                link.physical.settle(self._draining)
                if self._connection.profile.keeps_released:
                    remember(self._arrived)  # they go back with the link
                else:
                    self._give_back_arrived(link)
                if is_held:
                    # Else the broker would send it messages that others wait for, again and again as they are released.
                    if is_commanded and link.link is not None:
                        link.link.give_credit(0)
                    else:
                        self._drain_credit(link)
        try:
            if link is not None and is_held:
                # What the session has not settled stays with it, and can be settled on this link alone.
                self.session.keep_link(link, self)
                if is_commanded and link.link is not None:
                    self._unsubscribe(link.physical, link.link.name)
                else:
                    self._flush(link.physical)
            elif link is not None:
                self.end_link(link)
        except (ConnectionLostInCallError, UnansweredError) as error:
            _log.debug("a consumer ended with its connection: %s", error)
        finally:
            self._finish()

    def _unsubscribe(self, physical: PhysicalConnection, name: str) -> None:
        """Have the pyjms broker end the consumer of a link that is kept, so that others may be its queue's exclusive one.

        Raises `ConnectionLostInCallError`, `UnansweredError`.
        """
        try:
            self.session.commands(physical).ask(Unsubscribe(id=name))
        except UnansweredError:
            raise
        except ProviderError as error:
            _log.warning("the broker has not ended a consumer of %s: %s", self.request.address, error.reason)

    def end_link(self, link: _ConsumerLink) -> None:
        """Detach a link of this consumer; a durable subscription stays. Raises as `ClientLink.detach`."""
        link.detach(is_closed=self.request.durable_name is None)

    def _finish(self) -> None:
        self.session.forget(self)
        if self.request.durable_name is not None and not self.request.is_shared:
            self._connection.release(self.request.durable_name)


_WINDOW: Final = 100


class _BrowserLink(ClientLink):
    """The link of a browser, which gets copies."""

    link: Receiver | None

    def __init__(self, physical: PhysicalConnection, session: Session) -> None:
        super().__init__(physical, session)
        self.messages: deque[IncomingDelivery] = deque()
        self.reply: Reply | None = None

    def arrived(self, delivery: IncomingDelivery) -> None:
        """A copy has come."""
        self.messages.append(delivery)
        # A browser is sent settled copies; a broker that waits for an outcome gets it, and its message stays.
        self.session.update_incoming((delivery,), RELEASED)

    def drained(self) -> None:
        """All that the credit was for has come, or there is no more."""
        reply, self.reply = self.reply, None
        self.physical.settle(reply)

    def on_lost(self, error: ProviderError) -> None:
        """The broker has ended the link by itself."""
        self.physical.settle(self.reply, error=error)

    def fetch(self) -> int:
        """Ask for more messages, and return how many have come. Raises as `PhysicalConnection.call`."""
        link = self.link
        assert link is not None

        def ask(reply: Reply) -> None:
            if self.error is not None:
                raise self.error
            self.reply = reply
            link.give_credit(_WINDOW, drain=True)

        self.physical.call(ask, "the messages of a queue")
        return len(self.messages)


def browse(session: ClientSession, address: Address, selector: Selector | None) -> Iterator[Delivery]:
    """Yield the messages of a queue. Raises `ResourceError` when the connection is lost, and the broker's refusal."""
    connection = session.connection
    physical = session.present()
    link = _BrowserLink(physical, session.amqp_session(physical))
    filters = filters_of(selector, no_local=False)
    source = Source(
        connection.to_broker(address),
        expiry_policy="link-detach",
        distribution_mode="copy",
        filter=filters,
        default_outcome=RELEASED,
        outcomes=_OUTCOMES,
        capabilities=(capability_of(address),),
    )
    try:
        answer = link.attach(
            new_name("browser"),
            Attach("", 0, True, snd_settle_mode=1, source=source, target=Target()),
            f"a browser of {address}",
        )
        with physical.browsing(link.detach):
            check_filters(filters, answer)
            while link.fetch():
                while link.messages:
                    message = Message(link.messages.popleft().data)
                    envelope = connection.received(
                        read_message(
                            message,
                            now_ms=connection.clock.time_ms(),
                            destination=address,
                            address=connection.profile.from_broker,
                        )
                    )
                    failed = message.header.delivery_count
                    yield Delivery(envelope, failed + 1, failed > 0, None)
                if session.is_closed:
                    raise ClosedError("the session is closed")
    except ConnectionLostInCallError as error:
        raise ResourceError(f"the connection was lost: {error}; browse the queue again") from error
    except ProviderError as error:
        raise refused(link, selector, error) from error
    except DecodeError as error:
        raise DestinationError(f"a message of {address} cannot be read: {error.description}") from error
