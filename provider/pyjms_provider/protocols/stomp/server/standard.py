"""The handler of standard STOMP clients: ActiveMQ Classic's dialect, so that programs written for it run unchanged.

docs/reference/stomp.md specifies it. All frames of a connection are done in order. Wrong headers are refused, and headers that the broker
sets are not taken from a client.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import DELIVER_AT, SET_BY_PROVIDERS, Envelope, MessageId
from pyjms.spi.errors import DestinationError, ProviderError, ResourceError, RolledBackError
from pyjms.spi.provider import SubscribeRequest
from pyjms.types import Long
from pyjms_provider.core.host.admission import DUPLICATE_ID
from pyjms_provider.core.queue.pager import LARGE, without_content
from pyjms_provider.core.queue.queue_rules import QueueFullError
from pyjms_provider.core.queue.selectors import plain_selector
from pyjms_provider.protocols.reading_ahead import LOOK_MESSAGES, Browsing, Fetching
from pyjms_provider.protocols.scheduling import PULLS_PER_TURN, SerialExecutor, SessionScheduler
from pyjms_provider.protocols.stomp.codec import FRAME_END, PROFILE_HEADER, encode_head
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import SequenceError, StompError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.message_properties import WireProperties, travels
from pyjms_provider.protocols.stomp.messages import from_frame, to_frame
from pyjms_provider.protocols.stomp.server.contracts import FrameTask, ProtocolHandler

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderConnection, ProviderConsumer, ProviderSession
    from pyjms.spi.selector import Selector
    from pyjms.types import Stored
    from pyjms_provider.protocols.hosts import Guard
    from pyjms_provider.protocols.stomp.server.contracts import Engine
    from pyjms_provider.protocols.stomp.server.login import Login


class AckMode(Enum):
    """The header `ack` of SUBSCRIBE."""

    AUTO = "auto"
    """Acknowledged when written to the wire."""
    CLIENT = "client"
    """An ACK covers all messages up to its own (of this subscription)."""
    CLIENT_INDIVIDUAL = "client-individual"


class StandardSubscription:
    """One subscription of a standard client. The connection's thread pulls; ACK and NACK may be handled on another one."""

    def __init__(
        self,
        handler: StandardHandler,
        *,
        name: str,
        destinations: Sequence[Address],
        shown_destination: str,
        mode: AckMode,
        window: int,
        durable_name: str | None,
        acks_by_id: bool = False,
    ) -> None:
        """`acks_by_id`: an ACK names the message-id of MESSAGE, as in STOMP 1.0 and 1.1, not a number."""
        self.name = name
        self.destinations = destinations
        self.shown_destination = shown_destination
        """The client's name of its only destination, which MESSAGE repeats; empty: it has several, and each message names its own."""
        self.mode = mode
        self.durable_name = durable_name
        self.unsettled: OrderedDict[str, Delivery] = OrderedDict()
        """By their numbers on the connection; oldest first, as an ACK may cover all up to its own."""
        self._numbers_by_id: dict[str, set[str]] | None = {} if acks_by_id else None
        """The numbers of unsettled messages by message-id, where ACK names that; under the lock."""
        self.pulls_per_turn = PULLS_PER_TURN
        self.may_have_more = True
        self._handler = handler
        self._window = window
        self._consumer: ProviderConsumer | None = None
        self._is_full = False
        self._is_closed = False
        self._lock = Lock()
        self._fetching = Fetching(
            handler.engine,
            handler.session,
            ready=self.on_ready,
            lost=self.on_ready,
            none=self._found_none,
            failed=handler.engine.fail,
        )

    def begin(self, consumer: ProviderConsumer) -> None:
        """Start the flow of messages from `consumer`."""
        self._consumer = consumer
        self.on_ready()

    def on_ready(self) -> None:
        """Schedule a pull, as there may be work (any thread)."""
        self._fetching.is_woken = True
        self._handler.consumers.schedule(self)

    def _found_none(self) -> None:
        """Schedule a pull, as a search has found no message: `pull` reports that."""
        self._handler.consumers.schedule(self)

    def pull(self) -> Iterable[bytes] | None:
        """Return one MESSAGE in parts, or None: nothing is there, or the window is full."""
        # Under one lock: a message that is taken is unsettled at once, so that `close` finds it.
        with self._lock:
            consumer, fetching = self._consumer, self._fetching
            if consumer is None or fetching.is_busy or (fetching.has_found_none and fetching.pop_found_none()):
                return None
            delivery = fetching.take()
            if delivery is None and len(self.unsettled) >= self._window:
                # The flag first, then the check: an ACK on another thread between the two has either seen the flag, or is seen by
                # the check.
                self._is_full = True
                # Another consumer may be woken for the messages to come (QCM-25).
                consumer.set_interested(False)
                if len(self.unsettled) >= self._window:
                    return None
                self._is_full = False
            if delivery is None:
                polled = consumer.poll_at_once()
                if polled is None:
                    return None
                if type(polled) is not Delivery:
                    fetching.begin(polled, consumer)
                    return None
                delivery = polled
            # Under the lock: an ACK, or the end of the subscription, finds the message as soon as it can be written.
            number = self._handler.hold(self, delivery)
        return self._handler.write_message(self, delivery, number)

    def hold(self, number: str, delivery: Delivery) -> None:
        """Add an unsettled message. Under the lock."""
        self.unsettled[number] = delivery
        self._index(number, delivery)

    def _index(self, number: str, delivery: Delivery) -> None:
        if self._numbers_by_id is not None:
            self._numbers_by_id.setdefault(self._handler.shown_id(delivery, number), set()).add(number)

    def _forget(self, taken: Iterable[tuple[str, Delivery]]) -> None:
        index = self._numbers_by_id
        if index is None:
            return
        for number, delivery in taken:
            message_id = self._handler.shown_id(delivery, number)
            numbers = index.get(message_id, set())
            numbers.discard(number)
            if not numbers:
                index.pop(message_id, None)

    def number_of(self, message_id: str) -> str | None:
        """Return the number of the oldest unsettled message that was sent with `message_id`; None: there is none."""
        with self._lock:
            numbers = (self._numbers_by_id or {}).get(message_id)
            return min(numbers, key=int) if numbers else None

    def drop_content(self, number: str) -> None:
        """Drop the content of an unsettled message that has been written."""
        # A worker may be closing the subscription.
        with self._lock:
            delivery = self.unsettled.get(number)
            if delivery is not None:
                self.unsettled[number] = without_content(delivery)

    def settled(self) -> None:
        """Go on if the window has room again."""
        if self._is_full and len(self.unsettled) < self._window:
            self._is_full = False
            self.on_ready()

    def take_covered(self, ack_id: str) -> list[tuple[str, Delivery]]:
        """Take the messages that an ACK of `ack_id` covers out of the unsettled ones; empty: it is not one of them."""
        unsettled = self.unsettled
        if self.mode is not AckMode.CLIENT:
            # One step of the interpreter: no lock is needed for a single message.
            delivery = unsettled.pop(ack_id, None)
            if delivery is None:
                return []
            if self._numbers_by_id is not None:
                with self._lock:
                    self._forget([(ack_id, delivery)])
            return [(ack_id, delivery)]
        taken: list[tuple[str, Delivery]] = []
        # The connection's thread may be adding messages.
        with self._lock:
            is_reached = ack_id not in unsettled
            while not is_reached:
                taken.append(unsettled.popitem(last=False))
                is_reached = taken[-1][0] == ack_id
            self._forget(taken)
        return taken

    def put_back(self, taken: Iterable[tuple[str, Delivery]]) -> None:
        """Put messages back among the unsettled ones, in their old places."""
        unsettled, older = self.unsettled, dict(taken)
        with self._lock:
            for number, delivery in older.items():
                self._index(number, delivery)
            if self.mode is not AckMode.CLIENT:
                unsettled.update(older)
                return
            # An ACK covers all messages up to its own, so they must stay sorted by number.
            last = max(map(int, older))
            # Older messages may be there already, put back by another transaction: all are sorted together.
            while unsettled and int(next(iter(unsettled))) < last:
                number, delivery = unsettled.popitem(last=False)
                older[number] = delivery
            unsettled.update(older)
            for number in sorted(older, key=int, reverse=True):
                unsettled.move_to_end(number, last=False)

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._is_closed

    def close(self) -> dict[str, Delivery]:
        """Detach; return the unsettled messages, by the id that ACK names. May be repeated."""
        with self._lock:
            # Under the lock of `pull`: after it nothing more becomes unsettled.
            consumer, self._consumer = self._consumer, None
            self._is_closed = True
        self._fetching.drop()
        if consumer is not None:
            consumer.close()
        left = dict(self.unsettled)
        self.unsettled.clear()
        if self._numbers_by_id is not None:
            self._numbers_by_id.clear()
        return left


class StandardBrowser:
    """A browsing SUBSCRIBE: all messages once, then a marked end."""

    def __init__(
        self,
        handler: StandardHandler,
        messages: Iterator[Delivery],
        write: Callable[[Delivery | None], Iterable[bytes]],
    ) -> None:
        """`write` encodes a message as a frame in parts; with None, the end."""
        self.pulls_per_turn = PULLS_PER_TURN
        self.may_have_more = True
        self._write = write
        self._is_over = False
        self._browsing = Browsing(
            handler.engine, messages, write, lambda: handler.consumers.schedule(self), handler.engine.fail
        )

    def pull(self) -> Iterable[bytes] | None:
        """Return one MESSAGE in parts, the last one being the end; None: the end was sent, or nothing has been found yet."""
        if self._is_over:
            return None
        browsing = self._browsing
        if browsing.has_ended:
            self._is_over = True
            return self._write(None)
        if browsing.is_empty:
            browsing.look(LOOK_MESSAGES)
            return None
        return browsing.take()

    def close(self) -> None:
        """Stop browsing. May be repeated."""
        self._is_over = True
        self._browsing.end()


_LONG_MAX: Final = 2**63 - 1
_INT_MAX: Final = 2**31 - 1
_GROUP_SEQUENCE: Final = "JMSXGroupSeq"
_is_integer = re.compile(r"-?[0-9]{1,10}").fullmatch
_SETTABLE: Final = frozenset({DELIVER_AT, DUPLICATE_ID})


def read_standard_message(frame: Frame) -> Envelope:
    """Return the message of a standard client's SEND. Raises `SequenceError` for a wrong header, `DestinationError`."""
    headers = frame.headers
    if "priority" in headers:
        text = headers["priority"]
        if not (len(text) == 1 and "0" <= text <= "9"):
            raise SequenceError(f"priority is a number from 0 to 9, not {text[:40]!r}")
    if "expires" in headers:
        text = headers["expires"]
        if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= _LONG_MAX):
            raise SequenceError(f"expires is a time in milliseconds since 1970, or 0 for never, not {text[:40]!r}")
    envelope = from_frame(frame, PYJMS, keeps_headers=True)
    properties = envelope.properties
    # Most messages have no such name, and keep their properties without a copy.
    if any(name[:3] == "JMS" for name in properties):
        envelope.properties = _permitted(properties)  # type: ignore[misc]  # not shared yet
    return envelope


def _permitted(properties: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return the properties without those that the broker sets. Raises `SequenceError`."""
    permitted: dict[str, Stored] = {}
    for name, value in properties.items():
        if name in SET_BY_PROVIDERS or (name.startswith(PROFILE_HEADER) and name not in _SETTABLE):
            continue
        read = _READ_AS_NUMBERS.get(name)
        permitted[name] = value if read is None or type(value) is not str else read(value)
    return permitted


def _delivery_time(text: str) -> Long:
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= _LONG_MAX):
        raise SequenceError(f"{DELIVER_AT} is a time in milliseconds since 1970, not {text[:40]!r}")
    return Long(int(text))


def _group_sequence(text: str) -> int:
    if not _is_integer(text) or not -_INT_MAX - 1 <= int(text) <= _INT_MAX:
        raise SequenceError(f"{_GROUP_SEQUENCE} is a whole number of 32 bits, not {text[:40]!r}")
    return int(text)


_READ_AS_NUMBERS: Final[Mapping[str, Callable[[str], Stored]]] = {
    _GROUP_SEQUENCE: _group_sequence,
    DELIVER_AT: _delivery_time,
}
"""Headers that are numbers, though all others of a plain client are texts."""


def without_provider_properties(envelope: Envelope) -> Envelope:
    """Return a client's message without the properties that providers set, such as JMSXUserID."""
    properties = envelope.properties
    # A text search: properties are not parsed for this.
    if type(properties) is WireProperties and not properties.mentions("JMSX"):
        return envelope
    if SET_BY_PROVIDERS.isdisjoint(properties):
        return envelope
    return replace(
        envelope, properties={name: value for name, value in properties.items() if name not in SET_BY_PROVIDERS}
    )


_is_brokers_name = re.compile(r".+-[0-9a-f]{12}-[0-9]+-[0-9]+", re.DOTALL).fullmatch
"""Matches a name that a broker has given, now or in an earlier run: it is no client's own."""


class Temporaries:
    """A name after ``/temp-queue/`` is the connection's own, unless another connection has that destination.

    The connection's executor makes and finds them, one after the other; any thread may call `shown`.
    """

    def __init__(self, connection: ProviderConnection, guard: Guard, most: int) -> None:
        self._connection = connection
        self._guard = guard
        self._most = most
        self._real: dict[Address, Address] = {}
        self._own: dict[Address, Address] = {}

    def resolve(self, named: Address) -> Address:
        """Return the destination that the client means, made now if it is new and the client's own.

        Raises `AccessDeniedError`, `ResourceError`.
        """
        real = self._real.get(named)
        if real is not None:
            return real
        # A name that the broker has given is or was another connection's: it never becomes the client's own.
        if self._guard.host.has(named) or _is_brokers_name(named.name):
            return named
        if len(self._real) >= self._most:
            raise ResourceError(f"a connection may have {self._most} temporary destinations here")
        self._guard.create(named)
        real = self._real[named] = self._connection.create_temporary(named.kind)
        self._own[real] = named
        return real

    def find(self, named: Address) -> Address | None:
        """Return the destination of a message; None: it was another connection's, and no longer exists.

        Raises `DestinationError`: the client has not made it.
        """
        real = self._real.get(named)
        if real is not None:
            return real
        if self._guard.host.has(named):
            return named
        if _is_brokers_name(named.name):
            return None
        raise DestinationError(
            f"there is no {named}: SUBSCRIBE to it, or name it in reply-to, before anything is sent there"
        )

    def shown(self, real: Address) -> str:
        """Return the client's name for it."""
        return PYJMS.destinations.write_reply_to(self._own.get(real, real))


Taken = tuple["StandardSubscription", str, "Delivery"]
"""The message's subscription, the id that ACK named, and the delivery."""


class Transaction:
    """A transaction of the client, from BEGIN to COMMIT or ABORT."""

    __slots__ = ("_receiving", "_taken", "session")

    def __init__(self, session: ProviderSession, receiving: ProviderSession) -> None:
        """`receiving`: the session that received the messages acknowledged here."""
        self.session = session
        self._receiving = receiving
        self._taken: list[Taken] = []

    def acknowledge(self, taken: list[Taken]) -> None:
        """Acknowledge messages when it commits."""
        deliveries = [delivery for _, _, delivery in taken]
        # The transaction has a session of its own, which can settle only what it holds.
        self.session.adopt(deliveries)
        self.session.acknowledge(deliveries)
        self._taken += taken

    def give_back(self) -> list[Taken]:
        """Return adopted deliveries to the session that received them, and to the caller."""
        taken, self._taken = self._taken, []
        self._receiving.adopt([delivery for _, _, delivery in taken])
        return taken


_log = logging.getLogger(__name__)
_DURABLE_NAMES: Final = ("activemq.subscriptionName", "durable-subscription-name")
_PREFETCH: Final = ("activemq.prefetchSize", "prefetch-count")
_NO_LOCAL: Final = ("activemq.noLocal", "no-local")
_NO_WINDOW: Final = 1_000_000_000


class StandardHandler(ProtocolHandler):
    """Handles the frames of one standard client."""

    def __init__(self, engine: Engine, connection: ProviderConnection, guard: Guard, login: Login) -> None:
        super().__init__(engine, connection, guard)
        self._client_id = login.client_id
        self._settings = engine.service.settings
        self._clock = engine.service.clock
        self._version = login.version
        self._waits = guard.host.writes
        self._session = connection.open_session(transacted=False)
        self.consumers = SessionScheduler(self.scheduler)
        """The consumers and browsers of that one session that may have work; any thread may call `schedule`."""
        # STOMP has no START: messages flow from SUBSCRIBE on.
        connection.start()
        self._executor = SerialExecutor(engine.transport, self.perform, engine.fail, self.backlog)
        self._temporaries = Temporaries(connection, guard, self._settings.temporaries_max)
        self._subscriptions: dict[str, StandardSubscription | StandardBrowser] = {}
        self._acks_by_id = login.version is not Version.V1_2
        """Whether ACK names the message-id of MESSAGE, and not its header `ack`."""
        self._have_seen_all: set[str] = set()
        """Names of browsers that have ended by themselves: as with ActiveMQ, UNSUBSCRIBE may still follow."""
        self._transactions: dict[str, Transaction] = {}
        self._holders: dict[str, StandardSubscription] = {}
        """The subscription of each unacknowledged message, by its number on the connection."""
        self._written: list[Delivery] = []
        """Messages of `ack:auto` subscriptions, settled when they are on the wire."""
        self._message_prefix = f"ID:{connection.connection_id}-"
        self._numbers = count(1)
        self._ack_numbers = count(1)
        self._handlers: Mapping[str, Callable[[Frame], FrameTask]] = {
            "SEND": self._send,
            "SUBSCRIBE": self._subscribing,
            "UNSUBSCRIBE": self._task(self._unsubscribe),
            "ACK": self._task(self._ack),
            "NACK": self._task(self._nack),
            "BEGIN": self._task(self._begin, waits=False),
            "COMMIT": self._task(self._commit),
            "ABORT": self._task(self._abort),
        }

    @property
    def session(self) -> ProviderSession:
        """The session that has its consumers."""
        return self._session

    # ProtocolHandler

    def greeting(self) -> Mapping[str, str]:
        return {"session": str(self.connection.connection_id)}

    def take(self, frame: Frame) -> None:
        if frame.command == "DISCONNECT":
            self.leave(frame, [self._executor], _nothing, may_wait=False)
            return
        handler = self._handlers.get(frame.command)
        if handler is None:
            self.refuse(frame, SequenceError(f"{frame.command[:20]!r} is no command that a client sends here"))
            return
        try:
            task = handler(frame)
        except (ProviderError, StompError) as error:
            self.refuse(frame, error)
            return
        self._executor.add(task)

    def _task(self, do: Callable[[Frame], None], *, waits: bool = True) -> Callable[[Frame], FrameTask]:
        may_wait = waits and self._waits
        return lambda frame: FrameTask(frame, partial(do, frame), may_wait)

    def run(self) -> None:
        self._executor.run()

    def end(self) -> None:
        super().end()
        self._executor.clear()
        for session in (self._session, *(each.session for each in tuple(self._transactions.values()))):
            session.end_waits()

    # Sending

    def _send(self, frame: Frame) -> FrameTask:
        envelope = self._read(frame)
        transaction = frame.headers.get("transaction")
        session = self._session
        if transaction is not None and transaction in self._transactions:
            session = self._transactions[transaction].session
        may_wait = session.may_wait(envelope)
        is_brief = may_wait and self.guard.host.waits_briefly(envelope)
        send = partial(self._send_to, envelope, transaction, for_room=may_wait and not is_brief)
        task = FrameTask(frame, send, may_wait, is_brief)
        # A task that does not wait now may have to when its turn comes: the queue may be full by then.
        if not is_brief and (may_wait or not self._executor.is_idle):
            task.is_patient = self.guard.host.may_wait_for_room(envelope.destination)
        return task

    def _read(self, frame: Frame) -> Envelope:
        if "," in frame.headers.get("destination", ""):
            raise DestinationError("composite destinations are not served here: send the message to each of them")
        envelope = read_standard_message(frame)
        # A client that does not know the profile leaves these to the broker. The envelope is not shared yet.
        if envelope.message_id is None:
            envelope.message_id = MessageId(f"{self._message_prefix}{next(self._numbers)}")  # type: ignore[misc]
        if not envelope.timestamp_ms:
            envelope.timestamp_ms = self._clock.time_ms()  # type: ignore[misc]
        return envelope

    def _send_to(self, envelope: Envelope, transaction: str | None, *, for_room: bool) -> None:
        """Send the message, in the transaction if there is one; `for_room`: it may have to wait for room in the queue."""
        if envelope.destination.temporary:
            destination = self._temporaries.find(envelope.destination)
            if destination is None:
                self._drop(envelope)
                return
            envelope = replace(envelope, destination=destination)
        if envelope.reply_to is not None and envelope.reply_to.temporary:
            envelope = replace(envelope, reply_to=self._temporaries.resolve(envelope.reply_to))
        self.guard.send(envelope)
        # Looked up in its turn: BEGIN may have been waiting when the frame was read.
        session = self._session if transaction is None else self._transaction(transaction).session
        if for_room and self._reads(envelope.destination):
            self._send_or_refuse(envelope, session)
            return
        try:
            session.send(envelope)
        except DestinationError:
            # A temporary destination may be deleted between the lookup above and the send.
            if not envelope.destination.temporary or self.guard.host.has(envelope.destination):
                raise
            # The destination was deleted since it was found.
            self._drop(envelope)

    def _drop(self, envelope: Envelope) -> None:
        """Drop a reply to a client that has gone, as if it had come in time: its queue would have been deleted with it.

        An ERROR would end the connection: a client that asks and leaves would cut off all others from the service that replies.
        """
        _log.info("PYJMS-STOMP-5 %s was dropped: %s has gone", envelope.message_id, envelope.destination)

    def _reads(self, address: Address) -> bool:
        return any(
            isinstance(each, StandardSubscription) and address in each.destinations
            for each in self._subscriptions.values()
        )

    def _send_or_refuse(self, envelope: Envelope, session: ProviderSession) -> None:
        """Send without waiting for room in a queue that this connection reads: its own ACKs make room there, and come after this frame.
        Raises `ResourceError`.
        """
        try:
            self.guard.host.send_at_once(session, envelope)
        except QueueFullError as error:
            raise ResourceError(
                f"{envelope.destination} is full, and this connection reads it: if its SEND waited for room, so would its "
                "ACK, which makes room; acknowledge before you send, or read the queue with another connection"
            ) from error

    # Consumers

    def _subscribing(self, frame: Frame) -> FrameTask:
        # A long selector takes seconds to be parsed, so not on the thread of all connections.
        return FrameTask(frame, partial(self._subscribe, frame), self._waits or "selector" in frame.headers)

    def _subscribe(self, frame: Frame) -> None:
        headers = frame.headers
        name = self._name_of(headers)
        if name in self._subscriptions:
            raise SequenceError(f"there is a subscription {name[:80]!r} already: unsubscribe it, or choose another id")
        named = _destinations(headers)
        if self._destination_count() + len(named) > self._settings.subscriptions_max:
            raise ResourceError(
                f"a connection may have {self._settings.subscriptions_max} subscriptions here, of one destination each"
            )
        # SUBSCRIBE makes a temporary destination, as at ActiveMQ.
        addresses = [self._temporaries.resolve(each) if each.temporary else each for each in named]
        shown = headers["destination"] if len(addresses) == 1 else ""
        selector = plain_selector(headers.get("selector"))
        if headers.get("browser") == "true":
            self._browse(name, shown, addresses, selector)
            return
        for address in addresses:
            self.guard.read(address)
        durable_name = _first(headers, _DURABLE_NAMES)
        if durable_name is not None:
            if len(addresses) > 1:
                raise SequenceError(
                    "a durable subscription has one destination: subscribe to each by a name of its own"
                )
            if self._client_id is None:
                raise SequenceError("a durable subscription needs a client-id in CONNECT")
            self.guard.subscribe(self._client_id, durable_name)
        subscription = StandardSubscription(
            self,
            name=name,
            destinations=addresses,
            shown_destination=shown,
            mode=_ack_mode(headers),
            window=self._window(headers),
            durable_name=durable_name,
            acks_by_id=self._acks_by_id,
        )
        requests = [
            SubscribeRequest(
                address=address,
                selector=selector,
                no_local=_first(headers, _NO_LOCAL) == "true",
                durable_name=durable_name,
                priority=_number(headers, "activemq.priority", 0),
            )
            for address in addresses
        ]
        consumer = self.guard.host.subscribe(self._session, requests, subscription.on_ready)
        # Before messages flow, so that an ACK finds it.
        self._subscriptions[name] = subscription
        subscription.begin(consumer)

    def _destination_count(self) -> int:
        """Return how many destinations the subscriptions and browsers have together."""
        return sum(
            len(each.destinations) if isinstance(each, StandardSubscription) else 1
            for each in self._subscriptions.values()
        )

    def _browse(self, name: str, shown: str, addresses: Sequence[Address], selector: Selector | None) -> None:
        if len(addresses) > 1:
            raise SequenceError("a browser has one queue: browse each by a SUBSCRIBE of its own")
        self.guard.browse(addresses[0])
        self._begin_browser(name, shown, self._session.browse(addresses[0], selector))

    def _begin_browser(self, name: str, shown: str, messages: Iterable[Delivery]) -> None:
        browser = StandardBrowser(self, iter(messages), partial(self._write_browsed, name, shown))
        self._subscriptions[name] = browser
        self.consumers.schedule(browser)

    def _window(self, headers: Mapping[str, str]) -> int:
        if _ack_mode(headers) is AckMode.AUTO:
            return _NO_WINDOW  # the back pressure of the wire limits it
        for header in _PREFETCH:
            if header in headers:
                window = _number(headers, header, self._settings.prefetch)
                if window < 0:
                    raise SequenceError(f"{header} is a number from 0, not {window}")
                return window or 1
        return self._settings.prefetch

    def _name_of(self, headers: Mapping[str, str]) -> str:
        name = headers.get("id")
        if name is not None:
            return name
        if self._version is not Version.V1_0:
            raise SequenceError("SUBSCRIBE and UNSUBSCRIBE need an id since STOMP 1.1")
        return "destination=" + headers.get("destination", "")

    def _unsubscribe(self, frame: Frame) -> None:
        headers = frame.headers
        durable_name = _first(headers, _DURABLE_NAMES)
        name = self._name_of(headers)
        subscription = self._subscriptions.pop(name, None)
        # A browser that has ended by itself is no longer in the table, and its UNSUBSCRIBE is no error.
        if subscription is None and durable_name is None and name not in self._have_seen_all:
            raise SequenceError("there is no such subscription: its id is that of SUBSCRIBE")
        self._have_seen_all.discard(name)
        if isinstance(subscription, StandardBrowser):
            subscription.close()
        elif subscription is not None:
            left = subscription.close()
            for ack_id in left:
                self._holders.pop(ack_id, None)
            if left:
                self._session.recover(list(left.values()))
        if durable_name is not None:
            self.guard.subscribe(self._client_id or "", durable_name)
            self._session.unsubscribe(durable_name)

    # Delivering: the connection's thread

    def pull(self, size: int, parts: list[bytes]) -> int:
        taken = super().pull(size, parts)
        # After the messages are on their way: with `ack:auto` writing settles them.
        written = self._written
        if written:
            self._written = []
            task = FrameTask(Frame("ACK", {}), partial(self._session.acknowledge, written), self._waits)
            self._executor.add(task)
            self._executor.run()
        return taken

    def hold(self, subscription: StandardSubscription, delivery: Delivery) -> str:
        """Register a delivery for its settlement; return its number on the connection."""
        number = str(next(self._ack_numbers))
        if subscription.mode is AckMode.AUTO:
            self._written.append(delivery)
        else:
            self._holders[number] = subscription
            subscription.hold(number, delivery)
        return number

    def shown_id(self, delivery: Delivery, number: str) -> str:
        """Return the message-id of a MESSAGE: the JMSMessageID, or `number` if there is none that a header can carry."""
        message_id = delivery.envelope.message_id
        return message_id if message_id and travels(message_id, self._version) else number

    def write_message(self, subscription: StandardSubscription, delivery: Delivery, number: str) -> Iterable[bytes]:
        """Return the MESSAGE frame of a delivery."""
        parts = self._message(subscription.name, subscription.shown_destination, delivery, number)
        if len(parts[1]) > LARGE:
            subscription.drop_content(number)
        return parts

    def _message(self, name: str, shown: str, delivery: Delivery, number: str) -> tuple[bytes, bytes, bytes]:
        envelope = delivery.envelope
        frame = to_frame(envelope, PYJMS, command="MESSAGE", version=self._version, profile=False)
        headers = frame.headers
        if shown:
            headers["destination"] = shown
        elif envelope.destination.temporary:
            headers["destination"] = self._temporaries.shown(envelope.destination)
        if envelope.reply_to is not None and envelope.reply_to.temporary:
            headers["reply-to"] = self._temporaries.shown(envelope.reply_to)
        headers["message-id"] = self.shown_id(delivery, number)
        headers["subscription"] = self._shown_name(name)
        if self._version is Version.V1_2:
            headers["ack"] = number
        if delivery.redelivered:
            headers["redelivered"] = "true"
            headers["JMSXDeliveryCount"] = str(delivery.count)
        return encode_head(frame, self._version), bytes(frame.body), FRAME_END

    def _shown_name(self, name: str) -> str:
        return name.removeprefix("destination=") if self._version is Version.V1_0 else name

    def _write_browsed(self, name: str, shown: str, delivery: Delivery | None) -> Iterable[bytes]:
        if delivery is not None:
            return self._message(name, shown, delivery, str(next(self._ack_numbers)))
        if len(self._have_seen_all) >= self._settings.subscriptions_max:
            self._have_seen_all.clear()
        self._have_seen_all.add(name)
        self._subscriptions.pop(name, None)
        end = Frame(
            "MESSAGE",
            {"subscription": self._shown_name(name), "destination": shown, "browser": "end", "message-id": "end"},
        )
        return (encode_head(end, self._version), FRAME_END)

    # Settling

    def _ack(self, frame: Frame) -> None:
        taken = self._take(frame)
        transaction = frame.headers.get("transaction")
        if transaction is None:
            self._session.acknowledge([delivery for _, _, delivery in taken])
        else:
            self._transaction(transaction).acknowledge(taken)
        for subscription in {subscription for subscription, _, _ in taken}:
            subscription.settled()

    def _nack(self, frame: Frame) -> None:
        taken = self._take(frame)
        self._session.retry_all([delivery for _, _, delivery in taken], "the client sent NACK")
        for subscription in {subscription for subscription, _, _ in taken}:
            subscription.settled()

    def _take(self, frame: Frame) -> list[tuple[StandardSubscription, str, Delivery]]:
        ack_id = frame.headers.get("message-id" if self._acks_by_id else "id")
        if ack_id is None:
            wanted = "message-id" if self._acks_by_id else "id, the ack header of MESSAGE"
            raise SequenceError(f"{frame.command} needs the header {wanted}")
        number = self._number_of(ack_id, frame.headers.get("subscription")) if self._acks_by_id else ack_id
        subscription = None if number is None else self._holders.get(number)
        if number is None or subscription is None:
            raise SequenceError(f"{frame.command} names no message that waits for it: {ack_id[:80]!r}")
        taken = subscription.take_covered(number)
        # With `ack:client` one ACK covers several messages.
        for each, _ in taken:
            self._holders.pop(each, None)
        return [(subscription, each, delivery) for each, delivery in taken]

    def _number_of(self, message_id: str, subscription: str | None) -> str | None:
        """Return the number of the message that an ACK of STOMP 1.0 or 1.1 names; None: there is none.

        Several subscriptions may have got one message: the header `subscription` selects one, else it is the oldest.
        """
        found = [
            each.number_of(message_id)
            for each in tuple(self._subscriptions.values())
            if isinstance(each, StandardSubscription) and subscription in (None, self._shown_name(each.name))
        ]
        return min((number for number in found if number is not None), key=int, default=None)

    # Transactions

    def _transaction(self, name: str) -> Transaction:
        found = self._transactions.get(name)
        if found is None:
            raise SequenceError(f"there is no transaction {name[:80]!r}: BEGIN it first")
        return found

    def _named(self, frame: Frame) -> str:
        name = frame.headers.get("transaction")
        if not name:
            raise SequenceError(f"{frame.command} needs the header transaction")
        return name

    def _begin(self, frame: Frame) -> None:
        name = self._named(frame)
        if name in self._transactions:
            raise SequenceError(f"transaction {name[:80]!r} has begun already")
        if len(self._transactions) >= self._settings.sessions_max:
            raise ResourceError(f"a connection may have {self._settings.sessions_max} open transactions here")
        # One session for each transaction: STOMP lets a client have several open at once.
        session: ProviderSession = self.connection.open_session(transacted=True)
        self._transactions[name] = Transaction(session, self._session)

    def _commit(self, frame: Frame) -> None:
        transaction = self._end_transaction(frame)
        try:
            transaction.session.commit()
        except RolledBackError:
            # The client still holds what it acknowledged in it, and may acknowledge that again.
            self._restore(transaction)
            raise
        finally:
            # Last: `_restore` takes the deliveries back from this session while it is open.
            transaction.session.close()

    def _abort(self, frame: Frame) -> None:
        transaction = self._end_transaction(frame)
        try:
            transaction.session.rollback()
            self._restore(transaction)
        finally:
            transaction.session.close()

    def _end_transaction(self, frame: Frame) -> Transaction:
        transaction = self._transaction(self._named(frame))
        # Removed in any case: the client cannot COMMIT it twice.
        del self._transactions[self._named(frame)]
        return transaction

    def _restore(self, transaction: Transaction) -> None:
        """Make messages that were acknowledged in it unsettled again: the client still has them (as ActiveMQ Classic does).

        Messages of a subscription that has ended go back to their queues.
        """
        left: list[Delivery] = []
        restored: dict[StandardSubscription, list[tuple[str, Delivery]]] = {}
        for subscription, number, delivery in transaction.give_back():
            if subscription.is_closed:
                left.append(delivery)
            else:
                restored.setdefault(subscription, []).append((number, delivery))
                self._holders[number] = subscription
        for subscription, taken in restored.items():
            subscription.put_back(taken)
        if left:
            self._session.recover(left)


def _nothing() -> None:
    """Do nothing for DISCONNECT: the executor has done all earlier frames, and RECEIPT follows."""


def _first(headers: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((headers[name] for name in names if name in headers), None)


_joined = re.compile(r", *(?=/(?:temp-)?(?:queue|topic)/)")
"""Matches between two destinations, as ActiveMQ joins them; any other comma belongs to a name."""


def _destinations(headers: Mapping[str, str]) -> list[Address]:
    """Return the destinations that SUBSCRIBE names, each once, in order. Raises `DestinationError`."""
    texts = _joined.split(headers.get("destination", ""))
    # Mostly there is one, or none: the whole frame is read as that of SEND.
    frames = [headers] if len(texts) == 1 else [{"destination": text} for text in texts]
    return list(dict.fromkeys(map(PYJMS.destinations.read, frames)))


def _number(headers: Mapping[str, str], name: str, default: int) -> int:
    text = headers.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise SequenceError(f"{name} is a number, not {text[:40]!r}") from None


def _ack_mode(headers: Mapping[str, str]) -> AckMode:
    text = headers.get("ack", "auto")
    try:
        return AckMode(text)
    except ValueError:
        raise SequenceError(f"ack is auto, client or client-individual, not {text[:40]!r}") from None
