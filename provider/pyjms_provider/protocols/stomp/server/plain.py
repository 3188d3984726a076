"""The dialogue with plain STOMP clients: ActiveMQ Classic's dialect, so that programs written for it run unchanged.

docs/reference/stomp.md specifies it. All frames of a connection are done in their order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from pyjms.spi.envelope import Envelope, MessageId
from pyjms.spi.errors import DestinationError, ProviderError, ResourceError, RolledBackError
from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.core.queue.plain_selectors import plain_selector
from pyjms_provider.core.queue.policed_queue import QueueFullError
from pyjms_provider.core.queue.stored_delivery import LARGE
from pyjms_provider.protocols.stomp.codec import FRAME_END, encode_head
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import SequenceError, StompError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.profile import to_frame
from pyjms_provider.protocols.stomp.profile.properties import travels
from pyjms_provider.protocols.stomp.server.dialogue import Dialogue
from pyjms_provider.protocols.stomp.server.lane import Act, Lane
from pyjms_provider.protocols.stomp.server.plain_consumers import AckMode, PlainBrowser, PlainSubscription
from pyjms_provider.protocols.stomp.server.plain_messages import read_plain_message
from pyjms_provider.protocols.stomp.server.temporaries import Temporaries
from pyjms_provider.protocols.stomp.server.transactions import Transaction

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderConnection, ProviderSession
    from pyjms_provider.protocols.stomp.server.engine import StompServerEngine
    from pyjms_provider.protocols.stomp.server.hosts import Guard
    from pyjms_provider.protocols.stomp.server.login import Login

__all__ = ["PlainDialogue"]

_log = logging.getLogger(__name__)
_DURABLE_NAMES: Final = ("activemq.subscriptionName", "durable-subscription-name")
_PREFETCH: Final = ("activemq.prefetchSize", "prefetch-count")
_NO_LOCAL: Final = ("activemq.noLocal", "no-local")
_NO_WINDOW: Final = 1_000_000_000


class PlainDialogue(Dialogue):
    """See the module."""

    def __init__(self, engine: StompServerEngine, connection: ProviderConnection, guard: Guard, login: Login) -> None:
        super().__init__(engine, connection, guard)
        self._client_id = login.client_id
        self._settings = engine.service.settings
        self._clock = engine.service.clock
        self._version = login.version
        self._waits = guard.host.writes
        self._session = connection.open_session(transacted=False)
        connection.start()
        self._lane = Lane(engine.conduit, self.perform, engine.fail, self.load)
        self._temporaries = Temporaries(connection, guard, self._settings.temporaries_max)
        self._subscriptions: dict[str, PlainSubscription | PlainBrowser] = {}
        self._acks_by_id = login.version is not Version.V1_2
        """Whether ACK names the message-id of MESSAGE; else its header `ack`."""
        self._have_seen_all: set[str] = set()
        """Names of browsers that have ended by themselves: as at ActiveMQ, UNSUBSCRIBE may yet follow."""
        self._transactions: dict[str, Transaction] = {}
        self._holders: dict[str, PlainSubscription] = {}
        """Of every message that is not acknowledged: whose it is, by its number on the connection."""
        self._written: list[Delivery] = []
        """Messages of subscriptions that acknowledge by themselves, once the wire has them."""
        self._message_prefix = f"ID:{connection.connection_id}-"
        self._numbers = count(1)
        self._ack_numbers = count(1)
        self._handlers: Mapping[str, Callable[[Frame], Act]] = {
            "SEND": self._send,
            "SUBSCRIBE": self._subscribing,
            "UNSUBSCRIBE": self._act(self._unsubscribe),
            "ACK": self._act(self._ack),
            "NACK": self._act(self._nack),
            "BEGIN": self._act(self._begin, waits=False),
            "COMMIT": self._act(self._commit),
            "ABORT": self._act(self._abort),
        }

    @property
    def session(self) -> ProviderSession:
        """Whose consumers its subscriptions are."""
        return self._session

    # Dialogue

    def greeting(self) -> Mapping[str, str]:
        return {"session": str(self.connection.connection_id)}

    def take(self, frame: Frame) -> None:
        if frame.command == "DISCONNECT":
            self.leave(frame, [self._lane], _nothing, may_wait=False)
            return
        handler = self._handlers.get(frame.command)
        if handler is None:
            self.refuse(frame, SequenceError(f"{frame.command[:20]!r} is no command that a client sends here"))
            return
        try:
            act = handler(frame)
        except (ProviderError, StompError) as error:
            self.refuse(frame, error)
            return
        self._lane.add(act)

    def _act(self, do: Callable[[Frame], None], *, waits: bool = True) -> Callable[[Frame], Act]:
        may_wait = waits and self._waits
        return lambda frame: Act(frame, partial(do, frame), may_wait)

    def run(self) -> None:
        self._lane.run()

    def end(self) -> None:
        super().end()
        self._lane.clear()
        for session in (self._session, *(each.session for each in tuple(self._transactions.values()))):
            session.end_waits()

    # Sending

    def _send(self, frame: Frame) -> Act:
        envelope = self._read(frame)
        transaction = frame.headers.get("transaction")
        session = self._session
        if transaction is not None and transaction in self._transactions:
            session = self._transactions[transaction].session
        may_wait = session.may_wait(envelope)
        is_brief = may_wait and self.guard.host.waits_briefly(envelope)
        send = partial(self._send_to, envelope, transaction, for_room=may_wait and not is_brief)
        act = Act(frame, send, may_wait, is_brief)
        if not is_brief and (may_wait or not self._lane.is_idle):
            act.is_patient = self.guard.host.may_lack_room(envelope.destination)
        return act

    def _read(self, frame: Frame) -> Envelope:
        if "," in frame.headers.get("destination", ""):
            raise DestinationError("composite destinations are not served here: send the message to each of them")
        envelope = read_plain_message(frame)
        # A client that does not know the profile leaves these to the broker. Nobody else has the envelope yet.
        if envelope.message_id is None:
            envelope.message_id = MessageId(f"{self._message_prefix}{next(self._numbers)}")  # type: ignore[misc]
        if not envelope.timestamp_ms:
            envelope.timestamp_ms = self._clock.time_ms()  # type: ignore[misc]
        return envelope

    def _send_to(self, envelope: Envelope, transaction: str | None, *, for_room: bool) -> None:
        """`for_room`: it may wait until somebody has taken messages out of the queue."""
        if envelope.destination.temporary:
            destination = self._temporaries.find(envelope.destination)
            if destination is None:
                self._drop(envelope)
                return
            envelope = replace(envelope, destination=destination)
        if envelope.reply_to is not None and envelope.reply_to.temporary:
            envelope = replace(envelope, reply_to=self._temporaries.resolve(envelope.reply_to))
        self.guard.send(envelope)
        session = self._session if transaction is None else self._transaction(transaction).session
        if for_room and self._reads(envelope.destination):
            self._send_or_refuse(envelope, session)
            return
        try:
            session.send(envelope)
        except DestinationError:
            if not envelope.destination.temporary or self.guard.host.has(envelope.destination):
                raise
            self._drop(envelope)  # it has gone at this moment

    def _drop(self, envelope: Envelope) -> None:
        """Forget an answer to who has gone, as it would be if it had come in time: its queue would have gone with it.

        An ERROR would end the connection: whoever asks and goes would cut off the others from the service that answers.
        """
        _log.info("PYJMS-STOMP-5 %s was dropped: %s has gone", envelope.message_id, envelope.destination)

    def _reads(self, address: Address) -> bool:
        return any(
            isinstance(each, PlainSubscription) and each.destination == address for each in self._subscriptions.values()
        )

    def _send_or_refuse(self, envelope: Envelope, session: ProviderSession) -> None:
        """Send without waiting for room in a queue that this connection reads: what makes room are its own frames, which come
        after this one. Raises `ResourceError`.
        """
        try:
            self.guard.host.send_at_once(session, envelope)
        except QueueFullError as error:
            raise ResourceError(
                f"{envelope.destination} is full, and this connection reads it: if its SEND waited for room, so would its "
                "ACK, which makes room; acknowledge before you send, or read the queue with another connection"
            ) from error

    # Consumers

    def _subscribing(self, frame: Frame) -> Act:
        # A long selector takes seconds to be read, so not on the thread of all connections.
        return Act(frame, partial(self._subscribe, frame), self._waits or "selector" in frame.headers)

    def _subscribe(self, frame: Frame) -> None:
        headers = frame.headers
        name = self._name_of(headers)
        if name in self._subscriptions:
            raise SequenceError(f"there is a subscription {name[:80]!r} already: unsubscribe it, or choose another id")
        if len(self._subscriptions) >= self._settings.subscriptions_max:
            raise ResourceError(f"a connection may have {self._settings.subscriptions_max} subscriptions here")
        shown = headers.get("destination", "")
        address = PYJMS.destinations.read(headers)
        if address.temporary:
            address = self._temporaries.resolve(address)
        selector = plain_selector(headers.get("selector"))
        if headers.get("browser") == "true":
            self.guard.browse(address)
            self._begin_browser(name, shown, self._session.browse(address, selector))
            return
        self.guard.read(address)
        durable_name = _first(headers, _DURABLE_NAMES)
        if durable_name is not None:
            if self._client_id is None:
                raise SequenceError("a durable subscription needs a client-id in CONNECT")
            self.guard.subscribe(self._client_id, durable_name)
        subscription = PlainSubscription(
            self,
            name=name,
            destination=address,
            shown_destination=shown,
            mode=_ack_mode(headers),
            window=self._window(headers),
            durable_name=durable_name,
            acks_by_id=self._acks_by_id,
        )
        request = SubscribeRequest(
            address=address,
            selector=selector,
            no_local=_first(headers, _NO_LOCAL) == "true",
            durable_name=durable_name,
            priority=_number(headers, "activemq.priority", 0),
        )
        consumer = self._session.subscribe(request, subscription.on_ready)
        self._subscriptions[name] = subscription
        subscription.begin(consumer)

    def _begin_browser(self, name: str, shown: str, messages: Iterable[Delivery]) -> None:
        browser = PlainBrowser(self, iter(messages), partial(self._write_browsed, name, shown))
        self._subscriptions[name] = browser
        self.turns.want(browser)

    def _window(self, headers: Mapping[str, str]) -> int:
        if _ack_mode(headers) is AckMode.AUTO:
            return _NO_WINDOW  # the wire's own pressure is what holds it back
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
        if subscription is None and durable_name is None and name not in self._have_seen_all:
            raise SequenceError("there is no such subscription: its id is that of SUBSCRIBE")
        self._have_seen_all.discard(name)
        if isinstance(subscription, PlainBrowser):
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
        written = self._written
        if written:
            self._written = []
            act = Act(Frame("ACK", {}), partial(self._session.acknowledge, written), self._waits)
            self._lane.add(act)
            self._lane.run()
        return taken

    def hold(self, subscription: PlainSubscription, delivery: Delivery) -> str:
        """Note what becomes of a delivery; return its number on the connection."""
        number = str(next(self._ack_numbers))
        if subscription.mode is AckMode.AUTO:
            self._written.append(delivery)
        else:
            self._holders[number] = subscription
            subscription.hold(number, delivery)
        return number

    def shown_id(self, delivery: Delivery, number: str) -> str:
        """Return the message-id of a MESSAGE: the JMSMessageID; or `number`, if it has none, or none that a header can carry."""
        message_id = delivery.envelope.message_id
        return message_id if message_id and travels(message_id, self._version) else number

    def write_message(self, subscription: PlainSubscription, delivery: Delivery, number: str) -> Iterable[bytes]:
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

    def _take(self, frame: Frame) -> list[tuple[PlainSubscription, str, Delivery]]:
        ack_id = frame.headers.get("message-id" if self._acks_by_id else "id")
        if ack_id is None:
            wanted = "message-id" if self._acks_by_id else "id, the ack header of MESSAGE"
            raise SequenceError(f"{frame.command} needs the header {wanted}")
        number = self._number_of(ack_id, frame.headers.get("subscription")) if self._acks_by_id else ack_id
        subscription = None if number is None else self._holders.get(number)
        if number is None or subscription is None:
            raise SequenceError(f"{frame.command} names no message that waits for it: {ack_id[:80]!r}")
        taken = subscription.take_up_to(number)
        for each, _ in taken:
            self._holders.pop(each, None)
        return [(subscription, each, delivery) for each, delivery in taken]

    def _number_of(self, message_id: str, subscription: str | None) -> str | None:
        """Return the number of the message that an ACK of STOMP 1.0 or 1.1 names; None: none waits.

        Several subscriptions may have got one message: the header `subscription` says which is meant, else it is the oldest.
        """
        found = [
            each.number_of(message_id)
            for each in tuple(self._subscriptions.values())
            if isinstance(each, PlainSubscription) and subscription in (None, self._shown_name(each.name))
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
        session: ProviderSession = self.connection.open_session(transacted=True)
        self._transactions[name] = Transaction(session, self._session)

    def _commit(self, frame: Frame) -> None:
        transaction = self._end_transaction(frame)
        try:
            transaction.session.commit()
        except RolledBackError:
            self._restore(transaction)
            raise
        finally:
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
        del self._transactions[self._named(frame)]
        return transaction

    def _restore(self, transaction: Transaction) -> None:
        """Make what was acknowledged in it unsettled again: the client still has it (as ActiveMQ Classic does).

        What a subscription had received that is no more goes back to its queue.
        """
        left: list[Delivery] = []
        restored: dict[PlainSubscription, list[tuple[str, Delivery]]] = {}
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
    """Do what DISCONNECT asks for: what came before is done, and RECEIPT says so."""


def _first(headers: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((headers[name] for name in names if name in headers), None)


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
