"""The consumers of a pyjms client: each is sent as many messages as it has credit for, and no more.

A message that is sent on the loop goes straight to a consumer that waits for it on the same loop (decision 0610): the consumer may take the
message during the send, and it is written after the send, with no lock held. No thread is woken, and no connection is scheduled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Final

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ProviderError
from pyjms.spi.fast_paths import FAST_PATHS
from pyjms_provider.core.queue.pager import LARGE, without_content
from pyjms_provider.protocols.profile.answers import Drained
from pyjms_provider.protocols.reading_ahead import Browsing, Fetching
from pyjms_provider.protocols.scheduling import PULLS_PER_TURN
from pyjms_provider.protocols.stomp.codec import encode_head, escape, shown_id
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import StompError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.messages import to_frame
from pyjms_provider.protocols.stomp.packed import FRAME_BYTES, pack_delivery, pack_one

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConsumer
    from pyjms_provider.protocols.profile.commands import Credit
    from pyjms_provider.protocols.stomp.server.contracts import NativeConnection
    from pyjms_provider.protocols.stomp.server.native_sessions import ServedSession

_END: Final = b"\0"
# After this another consumer has its turn (decision 0150).
_TURN: Final = 32  # messages of one frame


class CreditConsumer(ABC):
    """A consumer or browser that may push as long as it has credit.

    The connection's thread handles CREDIT and pulls messages; other threads begin and end consumers. The lock keeps these apart; nothing
    waits while it is held.
    """

    def __init__(self, handler: NativeConnection, session: ServedSession, name: str) -> None:
        self.session = session
        self.name = name
        self.escaped = escape(name, Version.V1_2)
        self.pulls_per_turn = PULLS_PER_TURN
        self.may_have_more = True
        self._handler = handler
        self._lock = Lock()
        self._credit = 0
        self._drains: list[str] = []
        """Receipts of CREDIT frames that drain."""
        self._is_closed = False

    def on_ready(self) -> None:
        """Schedule a pull, as there may be work (any thread)."""
        self.session.scheduler.schedule(self)

    def add_credit(self, credit: Credit, receipt: str | None) -> None:
        """Handle a CREDIT frame, and answer it; a drain is answered when all messages there are have been pushed."""
        if credit.revoke:
            with self._lock:
                left, self._credit = self._credit + credit.credit, 0
            # Without the lock: `set_interested` takes the queue's, under which direct delivery tries to take this one.
            left += self._end_interest()
            if receipt is not None:
                self._handler.answer(receipt, Drained(left).headers())
            return
        with self._lock:
            drains = credit.drain and not self._is_closed
            if not self._is_closed:
                self._credit += credit.credit
            # Answered by `pull`, after the messages that it finds.
            if drains and receipt is not None:
                self._drains.append(receipt)
        if receipt is not None and not drains:
            self._handler.answer(receipt, Drained(credit.credit).headers() if credit.drain else {})
        self.on_ready()

    @abstractmethod
    def pull(self) -> Iterable[bytes] | None:
        """Return one message in parts, or None."""

    def _end_interest(self) -> int:
        """Stop calls of `on_ready`, which a browser does not get anyway; return the credit that this frees."""
        return 0

    def close(self) -> None:
        """Push no more messages. May be repeated."""
        with self._lock:
            self._is_closed = True
            self._credit = 0
            drains, self._drains = self._drains, []
        # The client waits for the answer to each drain, also from a consumer that ends.
        for receipt in drains:
            self._handler.answer(receipt, Drained(0).headers())


class ServedConsumer(CreditConsumer):
    """A consumer that takes messages. It is known from SUBSCRIBE on, and begins when the broker's consumer exists."""

    def __init__(self, handler: NativeConnection, session: ServedSession, name: str) -> None:
        super().__init__(handler, session, name)
        self._consumer: ProviderConsumer | None = None
        self._is_packed = handler.is_packed
        if self._is_packed:
            self.pulls_per_turn = 1  # of many messages
        self._direct_deliveries = handler.engine.service.direct_deliveries
        self._asks_others = handler.guard.host.asks_others
        self._has_found_all = False
        """Whether the last poll found no more messages."""
        self._fetching = Fetching(
            handler.engine,
            session.session,
            ready=self.on_ready,
            lost=self._lost,
            none=self._found_none,
            failed=handler.engine.fail,
        )

    def on_ready(self) -> None:
        self._fetching.is_woken = True
        self.session.scheduler.schedule(self)

    def begin(self, consumer: ProviderConsumer) -> None:
        """Start with the broker's consumer."""
        # UNSUBSCRIBE, or the end of the session, may have come while the broker's consumer was made.
        with self._lock:
            self._consumer = consumer
            is_closed = self._is_closed
        if is_closed:
            consumer.close()
            return
        # Direct delivery writes packed frames only (decision 0610).
        if self._is_packed:
            self._handler.guard.host.hand_over(consumer, self)
        self.on_ready()

    def pull(self) -> Iterable[bytes] | None:
        consumer, fetching = self._consumer, self._fetching
        # Nothing may overtake the message that a worker is reading for this consumer.
        if consumer is None or fetching.is_busy:
            return None
        drains: list[str] = []
        left = 0
        with self._lock:
            deliveries, parts = self._poll(consumer, fetching)
            # A drain drops all credit, and is done when no more messages are found or the credit is used up.
            if self._drains and not fetching.is_busy and (self._has_found_all or not self._credit):
                drains, self._drains = self._drains, []
                left, self._credit = self._credit, 0
            wants_nothing = not self._credit and not fetching.is_busy
        if wants_nothing:
            # A consumer without credit is not woken, so that others are (QCM-25).
            consumer.set_interested(False)
        for receipt in drains:  # they are written after the messages
            self._handler.answer(receipt, Drained(left).headers())
            left = 0
        if not deliveries:
            return None
        if parts:
            return self._messages(deliveries, parts)
        return self._message(deliveries[0])

    def _poll(self, consumer: ProviderConsumer, fetching: Fetching) -> tuple[list[Delivery], list[bytes]]:
        """Poll the messages for one frame, and pack them if this connection packs. The lock is held."""
        found: list[Delivery] = []
        parts: list[bytes] = []
        size = 0
        delivery = fetching.take()
        self._has_found_all = self.may_have_more = False
        # A worker has just searched to the end: the loop need not search again, and answers the drains.
        if fetching.has_found_none and fetching.pop_found_none():
            self._has_found_all = True
            return found, parts
        while True:
            if delivery is None:
                if not self._credit or self._is_closed:
                    break
                polled = consumer.poll_at_once()
                if polled is None:
                    self._has_found_all = True
                    break
                self._credit -= 1
                # The message is on the disk, or must be searched for: a worker does that, and the order is kept meanwhile.
                if type(polled) is not Delivery:
                    fetching.begin(polled, consumer)
                    break
                delivery = polled
            found.append(delivery)
            if self._is_packed:
                size += pack_delivery(delivery, parts)
            if len(found) == _TURN or size >= FRAME_BYTES or not self._is_packed:
                self.may_have_more = True
                break
            delivery = None
        return found, parts

    def may_take(self) -> bool:
        """Return whether to take a message that is being sent on the connection's thread directly (any thread).

        True if there is credit, and nothing of this consumer or its connection is pending. This spends one credit.
        """
        # Called under the queue's lock, perhaps on another thread: only messages sent on this loop's own thread are taken.
        if self._direct_deliveries.thread != get_ident() or self._drains or self._fetching.is_busy:
            return False
        if self in self.session.scheduler.scheduled:
            return False
        # Never waits for the lock: the thread that holds it may be waiting for the queue's.
        if (
            not FAST_PATHS
            or not self._credit
            or not self._handler.engine.is_free
            or not self._lock.acquire(blocking=False)
        ):
            return False
        try:
            if not self._credit:  # it was closed at this moment, on another thread
                return False
            self._credit -= 1
        finally:
            self._lock.release()
        return True

    def take(self, delivery: Delivery) -> None:
        """Take the message for which `may_take` returned True. It is written after the send."""
        # Written after the send: an error of this client's socket must not become the sender's (decision 0610).
        self._direct_deliveries.taken.append((self, delivery))

    def write(self, delivery: Delivery) -> None:
        """Write a taken message."""
        engine = self._handler.engine
        try:
            engine.push(self._one_message(delivery))
            if not self._credit and self._consumer is not None:
                self._consumer.set_interested(False)  # as in `pull`
        except (ProviderError, StompError) as error:
            engine.refuse(None, error)
        except Exception as error:
            engine.fail(error)

    def _messages(self, deliveries: Sequence[Delivery], parts: list[bytes]) -> Iterable[bytes]:
        """Return the MESSAGES frame of deliveries, with `parts` as its body, and record them as unsettled."""
        if len(deliveries) > 1 and len(parts[-1]) > FRAME_BYTES:
            # it has a frame to itself, as frames are limited
            return *self._messages(deliveries[:-1], parts[:-2]), *self._messages(deliveries[-1:], parts[-2:])
        size = sum(map(len, parts))
        # Unsettled messages are held until they are acknowledged, so large contents are left to the store.
        if size > LARGE:
            deliveries = [without_content(delivery) for delivery in deliveries]
        numbers, unsettled = self._handler.delivery_numbers, self.session.unsettled
        first = number = next(numbers)
        unsettled[number] = deliveries[0]
        for delivery in deliveries[1:]:
            number = next(numbers)
            unsettled[number] = delivery
        head = f"MESSAGES\nsubscription:{self.escaped}\nfirst:{first}\ncontent-length:{size}\n\n"
        return (b"".join((head.encode(), *parts, _END)),)  # as one part, since each part has a cost

    def _one_message(self, delivery: Delivery) -> bytes:
        """Return the MESSAGES frame of one delivery, and record it as unsettled. Raises `CodecError`."""
        body = pack_one(delivery)
        number = next(self._handler.delivery_numbers)
        self.session.unsettled[number] = delivery if len(body) <= LARGE else without_content(delivery)
        head = f"MESSAGES\nsubscription:{self.escaped}\nfirst:{number}\ncontent-length:{len(body)}\n\n"
        return b"%b%b\0" % (head.encode(), body)

    def _message(self, delivery: Delivery) -> Iterable[bytes]:
        """Return the MESSAGE of a delivery, and record it as unsettled."""
        number = next(self._handler.delivery_numbers)
        frame = _message_frame(self.name, delivery, str(number))
        self.session.unsettled[number] = delivery if len(frame.body) <= LARGE else without_content(delivery)
        return _encoded(frame)

    def stopped(self) -> None:
        """Give back fetched messages: the connection delivers nothing from now on."""
        if self._fetching.drop():
            self._lost()

    def _lost(self) -> None:
        """Take another message in place of one that will not be pushed."""
        self._restore_credit()
        self.on_ready()

    def _found_none(self) -> None:
        """Answer drains, as a search has found no message."""
        self._restore_credit()
        self.session.scheduler.schedule(self)

    def _restore_credit(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._credit += 1

    def _end_interest(self) -> int:
        # After the answer nothing more may come. This is the thread of all connections.
        was_wanted = self._fetching.drop(may_wait=not self._asks_others)
        # Now, and not in the next `pull`: after the answer nothing more may come.
        if self._consumer is not None:
            self._consumer.set_interested(False)
        return int(was_wanted)

    def close(self) -> None:
        super().close()
        self._fetching.drop()
        if self._consumer is not None:
            self._consumer.close()

    def await_end(self) -> None:
        """Wait until a message that is being fetched is back, after `close`. Not on the connection's thread."""
        self._fetching.await_end()


class ServedBrowser(CreditConsumer):
    """A browser that sends all messages once, and then the end."""

    def __init__(
        self,
        handler: NativeConnection,
        session: ServedSession,
        name: str,
        messages: Iterator[Delivery],
        on_end: Callable[[ServedBrowser], None],
    ) -> None:
        super().__init__(handler, session, name)
        self._on_end = on_end
        self._browsing = Browsing(handler.engine, messages, self._look, self.on_ready, handler.engine.fail)

    def pull(self) -> Iterable[bytes] | None:
        browsing = self._browsing
        with self._lock:
            if self._is_closed:
                return None
            frame = None
            if self._credit and not browsing.is_empty:
                self._credit -= 1
                frame = browsing.take()
            credit = self._credit
        if browsing.has_ended:  # the end needs no credit
            self.close()
            self._on_end(self)
        elif browsing.is_empty:
            browsing.look(credit)
        return frame

    def close(self) -> None:
        super().close()
        self._browsing.end()

    def _look(self, delivery: Delivery) -> Iterable[bytes]:
        return _encoded(_message_frame(self.name, delivery, None))


def _message_frame(subscription: str, delivery: Delivery, number: str | None) -> Frame:
    """Return the MESSAGE of a delivery; `number` None: for a browser."""
    frame = to_frame(delivery.envelope, PYJMS, command="MESSAGE", version=Version.V1_2)
    headers = frame.headers
    headers["subscription"] = subscription
    if number is not None:
        headers["ack"] = number
    headers["message-id"] = shown_id(delivery.envelope.message_id, number or "0")
    headers["delivery-count"] = str(delivery.count)
    headers["redelivered"] = "true" if delivery.redelivered else "false"
    return frame


def _encoded(frame: Frame) -> Iterable[bytes]:
    return encode_head(frame, Version.V1_2), bytes(frame.body), _END
