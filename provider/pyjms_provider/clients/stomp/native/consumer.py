"""A consumer at the pyjms broker: it requests as many messages as it has room for, and delivers them one by one.

Interest is credit: a consumer without interest is sent nothing, so that other consumers get the messages. Messages that were sent to it and
not delivered go back as if they had never been delivered.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError, ResourceError
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms_provider.clients.network.calls import ConnectionLostInCallError
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.commands import delivery_ids
from pyjms_provider.protocols.stomp.command_frames import command_frame
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.messages import from_frame
from pyjms_provider.protocols.stomp.packed import Arrived, unpack_deliveries
from pyjms_provider.repeatable import RepeatableError
from pyjms_provider.stores.codec import decode_plain

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address, Envelope
    from pyjms_provider.clients.stomp.failover import StompFailoverConnection
    from pyjms_provider.clients.stomp.options import StompSettings
    from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
    from pyjms_provider.protocols.profile.commands import DeliveryIds
    from pyjms_provider.protocols.stomp.frames import Frame

# The tag of a delivery in the native driver.


@dataclass(slots=True, eq=False)
class ReceivedMessage:
    """A message that the broker pushed, with the number that settles it."""

    number: int
    physical: PhysicalConnection
    """The connection that it came on: on another one its number names another message."""
    is_persistent: bool
    is_sent: bool = False
    """Whether a settlement was sent to the broker, or is about to be."""


_log = logging.getLogger("pyjms.stomp")
_PERSISTENT: Final = 2


class ReceivingConnection(Protocol):
    """What consumers and browsers use of a `NativeConnection`."""

    link: StompFailoverConnection
    clock: Clock
    settings: StompSettings
    is_started: bool

    def at_broker(self, address: Address) -> Address:
        """Return the broker's name of a destination."""
        ...

    def received(self, envelope: Envelope) -> Envelope:
        """Return a message with the client's names of own temporary destinations."""
        ...

    def remember(self, receiver: NativeConsumer | NativeBrowser) -> None:
        """Route messages to `receiver`."""
        ...

    def forget(self, receiver: NativeConsumer | NativeBrowser) -> None:
        """Remove a consumer or browser that has ended."""
        ...


class ReceivingSession(Protocol):
    """What consumers and browsers use of a `NativeSession`."""

    name: str

    @property
    def connection(self) -> ReceivingConnection:
        """The session's connection."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        ...

    def forget(self, consumer: NativeConsumer) -> None:
        """Remove a consumer that closes."""
        ...

    def ending_of(self, name: str) -> Frame:
        """Return the UNSUBSCRIBE of a consumer or browser, to be processed in the session's order."""
        ...


class NativeConsumer(ProviderConsumer):
    """A consumer with a window of credit. The lock is taken alone, and never held during a wait. Frames about credit are queued under it,
    and sent by one thread at a time.
    """

    def __init__(
        self, session: ReceivingSession, name: str, request: SubscribeRequest, on_ready: Callable[[], None], window: int
    ) -> None:
        self.name = name
        self.request = request
        self._session = session
        self._connection = session.connection
        self._on_ready = on_ready
        self._window = window
        self._lock = Lock()
        self._arrived: deque[Arrived | Frame] = deque()
        # In the order of the decisions: a CREDIT that an older revocation overtook would leave the consumer waiting for ever.
        self._unsent: deque[tuple[PhysicalConnection, Frame]] = deque()
        self._is_sending = False
        self._physical: PhysicalConnection | None = None
        """The physical connection on which the broker knows the consumer."""
        self._credit = 0
        """The credit that the broker still has, as far as is known here."""
        self._is_interested = False
        self._is_revoked = True
        """Whether messages that still come go back, since nothing waits for them."""
        self._drains = 0
        self._revocations = 0
        """How many revocations and returns the broker has not confirmed. What it pushes until then goes back, and it gets no credit:
        otherwise returned messages would come after later ones (JMS 1.1 §4.4.10).
        """
        self._returned: DeliveryIds = ()
        """The messages that were returned last."""
        self._numbers = count(1)
        self._expired: deque[tuple[str | None, int]] = deque(maxlen=window)
        """The last messages that were returned as expired. One that comes again is delivered: it has not expired by the broker's clock."""
        self._is_withdrawn = False
        """Whether the messages here are about to go back: nothing is delivered, and no credit given, until `resume`."""
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether it has not been closed."""
        return not self._is_closed

    @property
    def is_waiting(self) -> bool:
        """Whether a thread may wait for messages, and none are here."""
        return self._is_interested and not self._arrived

    def abandon(self) -> None:
        """Mark it as closed without a frame to the broker, as the call that was to make it has failed."""
        self._is_closed = True

    def is_in(self, physical: PhysicalConnection) -> bool:
        """Return whether the broker knows it on that physical connection."""
        return self._physical is physical

    def command(self) -> commands.Subscribe:
        """Return the command that subscribes it at the broker."""
        request = self.request
        return commands.Subscribe(
            session=self._session.name,
            id=self.name,
            address=self._connection.at_broker(request.address),
            selector=None if request.selector is None else request.selector.text,
            no_local=request.no_local,
            durable_name=request.durable_name,
            shared_name=request.shared_name,
            is_shared=request.is_shared,
            priority=request.priority,
        )

    # Events of the connection

    def begin(self, physical: PhysicalConnection) -> None:
        """Note that the broker knows the consumer on this physical connection; earlier messages come again."""
        with self._lock:
            if self._physical is not None and self._physical.number > physical.number:
                # That connection has ended, and the healer has reported a newer one before.
                return
            self._physical = physical
            self._arrived.clear()
            # The broker has dropped the credit, and answers nothing that was asked on the last connection.
            self._credit = self._revocations = 0
            self._returned = ()  # their numbers name other messages here, which may be with the client
            self._grant()
        self._send_queued()

    def interrupted(self) -> None:
        """Drop all messages and credit: the physical connection has ended, and the broker has taken back what it had pushed."""
        with self._lock:
            self._physical = None
            self._arrived.clear()
            self._credit = self._revocations = 0

    def arrived(self, physical: PhysicalConnection, frame: Frame) -> None:
        """Queue messages, or return them if they are no longer wanted. The I/O thread."""
        arrived: Sequence[Arrived | Frame] = (frame,)
        if frame.command == "MESSAGES":
            arrived = unpack_deliveries(frame.body, int(frame.headers["first"]))  # type: ignore[arg-type]  # as decoded
        with self._lock:
            # A late frame of a lost connection: its number names another message here.
            if physical is not self._physical:
                return
            self._arrived += arrived
            self._credit -= len(arrived)
            goes_back = self._is_revoked or self._revocations > 0
            # A drain, `resume` and `_finish_close` themselves return messages that arrive until they are done.
            if goes_back and not (self._drains or self._is_withdrawn or self._is_closed):
                self._return(keep=0)
            is_wanted = self._is_interested and bool(self._arrived)
        if is_wanted:
            # Without the lock: the listener's thread polls at once, and takes the lock.
            self._on_ready()
        else:
            self._send_queued()

    def _revoked(self, physical: PhysicalConnection) -> None:
        """Handle the answer to a revocation, after which nothing more comes, or to a return.

        The I/O thread.
        """
        with self._lock:
            if physical is not self._physical or not self._revocations:
                return
            self._revocations -= 1
            self._grant()
        self._send_queued()

    def started(self) -> None:
        """Call `on_ready` if there are messages, as the connection was started."""
        with self._lock:
            is_wanted = self._is_interested and bool(self._arrived)
        if is_wanted:
            self._on_ready()

    # The SPI

    def poll(self) -> Delivery | None:
        return self._take(waits=False)

    def poll_or_wait(self) -> Delivery | None:
        return self._take(waits=True)

    def _take(self, *, waits: bool, keeps: bool = False) -> Delivery | None:
        """Return the next message that is here; if it `waits`, set the interest if there is none, and clear it if there is one.

        With `keeps` it stays the next one. Messages that have expired here go back.
        """
        while True:
            with self._lock:
                physical = self._physical
                if self._is_closed:
                    return None
                may_take = physical is not None and not self._is_withdrawn and self._connection.is_started
                found = self._arrived.popleft() if may_take and self._arrived else None
                # Under one lock with the check for messages: one that comes next finds the interest, and wakes the consumer.
                if found is None and waits:
                    self._is_interested, self._is_revoked = True, False
                # Renewed at half of the window: one CREDIT serves many messages, and the broker need not pause.
                if self._credit <= self._window // 2:
                    self._grant()
                if found is not None and waits:
                    self._is_interested = False
            if self._unsent:
                self._send_queued()
            if found is None or physical is None:
                return None
            # Decoded without the lock, which the I/O thread needs for each frame.
            delivery = self._deliver(found, physical)
            if not (delivery.envelope.expiration_ms and self._has_expired(delivery.envelope)):
                if keeps:
                    # Unless the connection was lost meanwhile: then the broker has the message again.
                    with self._lock:
                        if self._physical is physical:
                            self._arrived.appendleft(found)
                return delivery
            frame = command_frame(
                commands.GiveBack(session=self._session.name, ids=delivery_ids([_number_of(found)]), unseen=True)
            )
            with self._lock:
                if self._physical is physical:
                    self._unsent.append((physical, frame))
            self._send_queued()

    def _has_expired(self, envelope: Envelope) -> bool:
        """Return whether it has expired while it waited here, and so goes back (JMS 1.1 §3.4.9).

        The broker settles it, as it does with all that expires there.
        """
        which = (envelope.message_id, envelope.expiration_ms)
        if envelope.expiration_ms > self._connection.clock.time_ms() or which in self._expired:
            return False
        self._expired.append(which)
        return True

    def _deliver(self, found: Arrived | Frame, physical: PhysicalConnection) -> Delivery:
        if isinstance(found, Arrived):
            number, count, redelivered, message = found
            envelope = self._connection.received(decode_plain(message))
        else:
            headers = found.headers
            number, count = _number_of(found), int(headers.get("delivery-count", "1"))
            redelivered = headers.get("redelivered") == "true"
            envelope = self._connection.received(from_frame(found, PYJMS, self.request.address))
        return Delivery(
            envelope, count, redelivered, ReceivedMessage(number, physical, envelope.delivery_mode == _PERSISTENT)
        )

    def catch_up(self) -> None:
        """Fetch the messages that the broker has now (an exact `receive_no_wait`)."""
        if self._arrived and self._take(waits=False, keeps=True) is not None:
            return
        with self._lock:
            physical = self._physical
            if physical is None or self._arrived or self._is_closed or not self._connection.is_started:
                return
            # Credit that is given before the answer to a revocation could bring a message that overtakes one on its way back.
            is_revoking = self._revocations > 0
        try:
            # Messages on their way must be back before the drain, or a later one would be received first.
            if is_revoking:
                physical.request(command_frame(commands.Credit(subscription=self.name, revoke=True)))
                self._see_returned(physical)
            self._drain(physical)
        except ConnectionLostInCallError:
            return  # there is nothing until the connection is back

    def _see_returned(self, physical: PhysicalConnection) -> None:
        """Wait until the broker has put returned messages back: it processes returns in order, and ignores repeated ones."""
        with self._lock:
            returned = self._returned
        if returned:
            physical.request(command_frame(commands.GiveBack(session=self._session.name, ids=returned, unseen=True)))

    def _drain(self, physical: PhysicalConnection) -> None:
        with self._lock:
            # Counted, so that `arrived` keeps the drain's messages though no interest is set.
            self._drains += 1
        try:
            physical.request(command_frame(commands.Credit(subscription=self.name, credit=1, drain=True)))
        finally:
            with self._lock:
                self._drains -= 1
                # With the answer to a drain the broker drops all credit.
                self._credit = 0
                if self._is_interested:
                    self._grant()
                elif self._is_revoked:
                    self._return(keep=1)
            self._send_queued()

    def set_interested(self, interested: bool) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_interested = interested
            self._is_revoked = not interested
            if not interested:
                self._revoke()
            elif self._credit <= self._window // 2:
                self._grant()
            is_wanted = interested and bool(self._arrived) and self._connection.is_started
        self._send_queued()
        if is_wanted:
            self._on_ready()

    def withdraw(self, physical: PhysicalConnection) -> list[int]:
        """Revoke the credit, and deliver nothing until `resume`; return the numbers of the messages that are here then.

        Raises `ProviderError`, `ConnectionLostInCallError`.
        """
        with self._lock:
            # Without credit and messages nothing can be on its way: then no round trip is needed.
            if self._is_closed or self._physical is not physical or (self._credit <= 0 and not self._arrived):
                return []
            self._is_withdrawn = True
        # At the answer, all messages that the broker had pushed are here.
        physical.request(command_frame(commands.Credit(subscription=self.name, revoke=True)))
        with self._lock:
            if self._physical is not physical:
                return []
            self._credit = 0
            return [_number_of(each) for each in self._arrived]

    def resume(self, returned: Collection[int]) -> None:
        """Give credit again if there is interest; `returned`: the messages that have gone back. May be repeated.

        The others go back now, and credit is revoked now, if the call that withdrew has failed: until then they are here.
        """
        with self._lock:
            if self._is_withdrawn:
                self._arrived = deque([each for each in self._arrived if _number_of(each) not in returned])
                self._revoke()
            self._is_withdrawn = False
            if self._is_interested:
                self._grant()
        self._send_queued()

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            # The flag first: `poll` delivers nothing that is about to go back.
            self._is_closed = True
        try:
            self._connection.link.newest.request_last(command_frame(commands.Unsubscribe(id=self.name)))
        except ConnectionLostInCallError as error:
            _log.debug("consumer %s ended with its connection: %s", self.name, error)
        finally:
            self._finish_close()
        self._wait_for_returned()

    def _finish_close(self) -> None:
        """Return undelivered messages, after the answer to UNSUBSCRIBE, when all that the broker had pushed is here; then remove the
        consumer.

        Any thread. May be repeated.
        """
        self._connection.forget(self)
        with self._lock:
            self._return(keep=0)
        self._send_queued()
        self._session.forget(self)

    def _wait_for_returned(self) -> None:
        """Wait for returns to finish, so that a new consumer does not get later messages first."""
        physical = self._physical
        if physical is not None and self._revocations:
            with suppress(
                ConnectionLostInCallError, ClosedError
            ):  # then all of the connection, or of the session, is back
                self._see_returned(physical)

    # Credit: the lock is held

    def _grant(self) -> None:
        """Queue the credit that fills the window."""
        if (
            not self._is_interested
            or self._is_closed
            or self._is_withdrawn
            or self._revocations
            or self._physical is None
        ):
            return
        # The credit may be below 0, as a drain's message is subtracted without having been added.
        credit = self._window - len(self._arrived) - max(0, self._credit)
        if credit > 0:
            frame = command_frame(commands.Credit(subscription=self.name, credit=credit))
            self._credit += credit
            self._unsent += ((self._physical, frame),)

    def _revoke(self) -> None:
        """Queue a revocation of the credit, and return undelivered messages."""
        if self._physical is not None and self._credit > 0:
            frame = command_frame(commands.Credit(subscription=self.name, revoke=True), self._receipt())
            self._credit = 0
            self._revocations += 1
            self._unsent += ((self._physical, frame),)
        self._return(keep=0)

    def _receipt(self) -> str:
        return f"v{self.name}.{next(self._numbers)}"

    def _return(self, *, keep: int) -> None:
        """Return undelivered messages, except the first `keep`."""
        arrived = list(self._arrived)
        if self._physical is None or len(arrived) <= keep:
            return
        kept, ids = deque(arrived[:keep]), delivery_ids([_number_of(each) for each in arrived[keep:]])
        frame = command_frame(commands.GiveBack(session=self._session.name, ids=ids, unseen=True), self._receipt())
        # Counted like a revocation: no credit is given until the broker has confirmed that the messages are back.
        self._revocations += 1
        self._returned = ids
        self._unsent += ((self._physical, frame),)
        self._arrived = kept

    # The lock is not held

    def _send_queued(self) -> None:
        """Send the queued frames, unless another thread is doing so. Never waits for room: a `receive` ends in its own time."""
        if not self._unsent:
            return
        while True:
            with self._lock:
                # The thread that is speaking looks again before it
                # ends, so what was queued meanwhile is not left behind.
                if self._is_sending or not self._unsent:
                    return
                self._is_sending = True
                physical, frame = self._unsent.popleft()
            try:
                receipt = frame.headers.get("receipt")
                # Expected before it is written: the answer may come before `post` returns.
                if receipt is not None:
                    physical.expect(receipt, partial(self._revoked, physical))
                physical.post(frame, needs_room=False)
            except ConnectionLostInCallError:
                pass  # credit ends with the connection
            finally:
                with self._lock:
                    self._is_sending = False


def _number_of(found: Arrived | Frame) -> int:
    """Return the number that settles a delivery."""
    return found.number if isinstance(found, Arrived) else int(found.headers.get("ack", "0"))


# A browser of a queue at the pyjms broker.

_WINDOW: Final = 100


class NativeBrowser:
    """Iterates over a queue: begins at the broker with the first message asked for, and ends there with the last."""

    def __init__(self, session: ReceivingSession, name: str, address: Address, selector: str | None) -> None:
        self.name = name
        self.session = session
        self._connection = session.connection
        self._address = address
        self._selector = selector
        self._signal = Signal()
        self._arrived: deque[Frame] = deque()
        self._has_ended = False
        self._is_interrupted = False

    @property
    def is_waiting(self) -> bool:
        """Whether a thread may wait for messages."""
        return True

    def arrived(self, physical: PhysicalConnection, frame: Frame) -> None:
        """Store a message, or note the end. The I/O thread."""
        if frame.headers.get("browser") == "end":
            self._has_ended = True
        else:
            self._arrived.append(frame)
        self._signal.set()

    def interrupted(self) -> None:
        """Fail: the connection was lost."""
        self._is_interrupted = True
        self._signal.set()
        self._connection.forget(self)  # no more messages come for it

    def wake(self) -> None:
        """Wake the iteration, so that it checks its state. Any thread."""
        self._signal.set()

    def messages(self) -> Iterator[Delivery]:
        """Yield the messages of the queue. Raises `RepeatableError` when the connection is lost, `ResourceError` when the broker is silent."""
        physical = self._connection.link.current()
        with physical.browsing(partial(self._end, physical)):
            try:
                # Before BROWSE is sent: messages may come before its answer.
                self._connection.remember(self)
                physical.request(command_frame(self._command()))
                self._grant(physical, _WINDOW)
                for taken, frame in enumerate(self._frames(), 1):
                    # Renewed at half of the window, so that the broker need not pause.
                    if taken % (_WINDOW // 2) == 0:
                        self._grant(physical, _WINDOW // 2)
                    envelope = self._connection.received(from_frame(frame, PYJMS, self._address))
                    count = int(frame.headers.get("delivery-count", "1"))
                    yield Delivery(envelope, count, frame.headers.get("redelivered") == "true", None)
            except ConnectionLostInCallError as error:
                raise RepeatableError(f"the connection was lost: {error}; browse the queue again") from error

    def _command(self) -> commands.Browse:
        address = self._connection.at_broker(self._address)
        return commands.Browse(session=self.session.name, id=self.name, address=address, selector=self._selector)

    def _frames(self) -> Iterator[Frame]:
        clock, timeout_ms = self._connection.clock, self._connection.settings.timeout_ms
        while True:
            # The flag first: the last message arrives before the end, and must not be missed.
            has_ended = self._has_ended
            if self._arrived:
                yield self._arrived.popleft()
            elif has_ended:
                return
            elif self._is_interrupted:
                # Checked after the messages: those that arrived before the loss are still shown.
                raise RepeatableError("the connection was lost while the queue was browsed; browse it again")
            elif self.session.is_closed:
                raise ClosedError("the session is closed")
            elif not clock.wait(self._signal, clock.monotonic_ms() + timeout_ms):
                raise ResourceError(f"the broker has sent nothing of the queue for {timeout_ms} ms")

    def _grant(self, physical: PhysicalConnection, credit: int) -> None:
        if self._has_ended:
            # The browser of an empty queue ends at once, and the broker no longer knows it.
            return
        physical.post(command_frame(commands.Credit(subscription=self.name, credit=credit)))

    def _end(self, physical: PhysicalConnection) -> None:
        self._connection.forget(self)
        if not self._has_ended:
            physical.take_back(self.session.ending_of(self.name))
