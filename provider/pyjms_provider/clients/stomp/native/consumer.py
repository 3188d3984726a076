"""A consumer at the pyjms broker: it asks for as many messages as it has room for, and hands them out one by one.

Interest is credit: a consumer without it is sent nothing, so that what it does not want goes to others. What it was sent
and never handed out goes back as if it had never been delivered.
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
from pyjms_provider.clients.stomp.physical_connection import ConnectionLostInCallError
from pyjms_provider.protocols.stomp import commands
from pyjms_provider.protocols.stomp.commands import delivery_ids
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.messages import from_frame
from pyjms_provider.protocols.stomp.packed import Arrived, unpack_deliveries
from pyjms_provider.stores.codec import decode_plain

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address, Envelope
    from pyjms_provider.clients.stomp.failover import FailoverConnection
    from pyjms_provider.clients.stomp.options import StompSettings
    from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
    from pyjms_provider.protocols.stomp.commands import DeliveryIds
    from pyjms_provider.protocols.stomp.frames import Frame

# What a delivery's tag is of the native driver.


@dataclass(slots=True, eq=False)
class ReceivedMessage:
    """One message that the broker pushed, by the number under which it is settled."""

    number: int
    physical: PhysicalConnection
    """The connection that it came by: on another one its number names another message."""
    is_persistent: bool
    is_sent: bool = False
    """Whether the broker was told, or about to be, that it is settled."""


_log = logging.getLogger("pyjms.stomp")
_PERSISTENT: Final = 2


class ReceivingConnection(Protocol):
    """What consumers and browsers see of a `NativeConnection`."""

    link: FailoverConnection
    clock: Clock
    settings: StompSettings
    is_started: bool

    def at_broker(self, address: Address) -> Address:
        """Return a destination as the broker knows it."""
        ...

    def received(self, envelope: Envelope) -> Envelope:
        """Return a message with own temporary destinations as the client knows them."""
        ...

    def remember(self, receiver: NativeConsumer | NativeBrowser) -> None:
        """Have messages handed to `receiver`."""
        ...

    def forget(self, receiver: NativeConsumer | NativeBrowser) -> None:
        """Let go of a consumer or browser that has ended."""
        ...


class ReceivingSession(Protocol):
    """What consumers and browsers see of a `NativeSession`."""

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
        """Let go of a consumer that closes."""
        ...

    def ending_of(self, name: str) -> Frame:
        """Return the UNSUBSCRIBE of a consumer or browser, in the session's order."""
        ...


class NativeConsumer(ProviderConsumer):
    """The lock is taken alone, and never while anything waits. Frames about credit are queued under it, and sent by one thread at a time."""

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
        # In the order in which it was decided: a CREDIT that an older
        # revocation overtakes would leave the consumer waiting for ever.
        self._to_say: deque[tuple[PhysicalConnection, Frame]] = deque()
        self._is_speaking = False
        self._physical: PhysicalConnection | None = None
        """Where the broker knows the consumer."""
        self._credit = 0
        """What the broker may still push, as far as it is known here."""
        self._is_interested = False
        self._is_revoked = True
        """Whether what still comes goes back: nobody waits for it."""
        self._drains = 0
        self._revocations = 0
        """How many the broker has not answered, and how many times what went back may not be there. What the broker pushes until
        then goes back, and it is given no credit: else what went back would come after what it had overtaken (JMS 1.1 §4.4.10)."""
        self._returned: DeliveryIds = ()
        """What went back last."""
        self._numbers = count(1)
        self._expired: deque[tuple[str | None, int]] = deque(maxlen=window)
        """What went back last as it had expired here. Once it comes again it is handed out: the broker's clock says otherwise."""
        self._is_withdrawn = False
        """Whether what has come is about to go back: nothing is handed out, and no credit given, until `resume`."""
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether it has not been closed."""
        return not self._is_closed

    @property
    def is_waiting(self) -> bool:
        """Whether somebody may wait for messages, and has not been told of any."""
        return self._is_interested and not self._arrived

    def give_up(self) -> None:
        """Be closed, without a word to the broker: who wanted it will not have it."""
        self._is_closed = True

    def is_in(self, physical: PhysicalConnection) -> bool:
        """Say whether the broker knows it in that physical connection."""
        return self._physical is physical

    def command(self) -> commands.Subscribe:
        """Return what makes it at the broker."""
        request = self.request
        return commands.Subscribe(
            session=self._session.name,
            id=self.name,
            address=self._connection.at_broker(request.address),
            selector=None if request.selector is None else request.selector.text,
            no_local=request.no_local,
            durable_name=request.durable_name,
            priority=request.priority,
        )

    # What the connection tells

    def begin(self, physical: PhysicalConnection) -> None:
        """Hear that the broker knows the consumer in this physical connection; what came before comes again."""
        with self._lock:
            if self._physical is not None and self._physical.number > physical.number:
                # That connection has ended, and the healer has reported a newer one before.
                return
            self._physical = physical
            self._arrived.clear()
            # The broker has forgotten the credit, and answers nothing that was asked by the last connection.
            self._credit = self._revocations = 0
            self._grant()
        self._speak()

    def interrupted(self) -> None:
        """Hear that the physical connection has ended: the broker has taken back what it had pushed."""
        with self._lock:
            self._physical = None
            self._arrived.clear()
            self._credit = self._revocations = 0

    def arrived(self, physical: PhysicalConnection, frame: Frame) -> None:
        """Put messages away, or give them back if nobody wants them any more. The I/O thread."""
        arrived: Sequence[Arrived | Frame] = (frame,)
        if frame.command == "MESSAGES":
            arrived = unpack_deliveries(frame.body, int(frame.headers["first"]))  # type: ignore[arg-type]  # as decoded
        with self._lock:
            # A late frame of a lost connection: there its number names a message, here another one.
            if physical is not self._physical:
                return
            self._arrived += arrived
            self._credit -= len(arrived)
            goes_back = self._is_revoked or self._revocations > 0
            # A drain, `resume` and `_let_go` themselves give back the messages that arrive until they are done.
            if goes_back and not (self._drains or self._is_withdrawn or self._is_closed):
                self._return(keep=0)
            is_wanted = self._is_interested and bool(self._arrived)
        if is_wanted:
            # Without the lock: the listener's thread polls at once, and takes the lock.
            self._on_ready()
        else:
            self._speak()

    def _revoked(self, physical: PhysicalConnection) -> None:
        """Hear that the broker pushes nothing more, and that all has come which it had pushed; or that it has what went back.

        The I/O thread.
        """
        with self._lock:
            if physical is not self._physical or not self._revocations:
                return
            self._revocations -= 1
            self._grant()
        self._speak()

    def started(self) -> None:
        """Hear that the connection delivers again."""
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
        """Return the next message that has come; if it `waits`, begin to be interested if there is none, and end it if there is.

        With `keeps` it stays the next one. What has expired here goes back.
        """
        while True:
            with self._lock:
                physical = self._physical
                if self._is_closed:
                    return None
                may_take = physical is not None and not self._is_withdrawn and self._connection.is_started
                found = self._arrived.popleft() if may_take and self._arrived else None
                # Under one lock with the look at what has come: a
                # message that comes next finds the interest, and wakes.
                if found is None and waits:
                    self._is_interested, self._is_revoked = True, False
                # Renewed at half of the window: one CREDIT serves many messages, and the broker need not pause.
                if self._credit <= self._window // 2:
                    self._grant()
                if found is not None and waits:
                    self._is_interested = False
            if self._to_say:
                self._speak()
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
            frame = commands.GiveBack(
                session=self._session.name, ids=delivery_ids([_number_of(found)]), unseen=True
            ).write()
            with self._lock:
                if self._physical is physical:
                    self._to_say.append((physical, frame))
            self._speak()

    def _has_expired(self, envelope: Envelope) -> bool:
        """Whether its time is over, so that it goes back (JMS 1.1 §3.4.9): it was in time when the broker pushed it, and has waited here.

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
        """Ask the broker what there is now (an exact `receive_no_wait`)."""
        if self._arrived and self._take(waits=False, keeps=True) is not None:
            return
        with self._lock:
            physical = self._physical
            if physical is None or self._arrived or self._is_closed or not self._connection.is_started:
                return
            # Credit that is given before the answer to a revocation
            # could bring a message that overtakes one on its way back.
            is_revoking = self._revocations > 0
        try:
            # Messages on their way must be back before any is asked for, or a later one would be received first.
            if is_revoking:
                physical.request(commands.Credit(subscription=self.name, revoke=True).write())
                self._see_returned(physical)
            self._drain(physical)
        except ConnectionLostInCallError:
            return  # there is nothing until the connection is back

    def _see_returned(self, physical: PhysicalConnection) -> None:
        """Wait until the broker has put back what went back: it does such things in order, and passes over what it has."""
        with self._lock:
            returned = self._returned
        if returned:
            physical.request(commands.GiveBack(session=self._session.name, ids=returned, unseen=True).write())

    def _drain(self, physical: PhysicalConnection) -> None:
        with self._lock:
            # Counted, so that `arrived` keeps what the drain brings though no interest is declared.
            self._drains += 1
        try:
            physical.request(commands.Credit(subscription=self.name, credit=1, drain=True).write())
        finally:
            with self._lock:
                self._drains -= 1
                # The broker takes all credit back with the answer to a drain.
                self._credit = 0
                if self._is_interested:
                    self._grant()
                elif self._is_revoked:
                    self._return(keep=1)
            self._speak()

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
        self._speak()
        if is_wanted:
            self._on_ready()

    def withdraw(self, physical: PhysicalConnection) -> list[int]:
        """Let the broker push nothing more, and hand out nothing, until `resume`; return the numbers of what has come till then.

        Raises `ProviderError`, `ConnectionLostInCallError`.
        """
        with self._lock:
            # Without credit and messages nothing can be on its way: that saves a round trip.
            if self._is_closed or self._physical is not physical or (self._credit <= 0 and not self._arrived):
                return []
            self._is_withdrawn = True
        # With the answer all has come that the broker had pushed.
        physical.request(commands.Credit(subscription=self.name, revoke=True).write())
        with self._lock:
            if self._physical is not physical:
                return []
            self._credit = 0
            return [_number_of(each) for each in self._arrived]

    def resume(self, returned: Collection[int]) -> None:
        """Let the broker push again, if it is wanted; `returned`: what has gone back of what had come. May be repeated.

        What has not gone back goes now, and credit is revoked now, if the call that withdrew has failed: it is here until then.
        """
        with self._lock:
            if self._is_withdrawn:
                self._arrived = deque([each for each in self._arrived if _number_of(each) not in returned])
                self._revoke()
            self._is_withdrawn = False
            if self._is_interested:
                self._grant()
        self._speak()

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            # The flag first: `poll` hands out nothing that is about to go back.
            self._is_closed = True
        try:
            self._connection.link.newest.request_last(commands.Unsubscribe(id=self.name).write())
        except ConnectionLostInCallError as error:
            _log.debug("consumer %s ended with its connection: %s", self.name, error)
        finally:
            self._let_go()
        self._wait_for_returned()

    def _let_go(self) -> None:
        """Give back what was not handed out: with the answer to its end all has come that the broker had pushed. Until then it is known here.

        Any thread. May be repeated.
        """
        self._connection.forget(self)
        with self._lock:
            self._return(keep=0)
        self._speak()
        self._session.forget(self)

    def _wait_for_returned(self) -> None:
        """Let no consumer that is made from now on get what follows first."""
        physical = self._physical
        if physical is not None and self._revocations:
            with suppress(
                ConnectionLostInCallError, ClosedError
            ):  # then all of the connection, or of the session, is back
                self._see_returned(physical)

    # Credit: the lock is held

    def _grant(self) -> None:
        """Say what fills the window."""
        if (
            not self._is_interested
            or self._is_closed
            or self._is_withdrawn
            or self._revocations
            or self._physical is None
        ):
            return
        # The credit may be below 0, as a drain's message is taken off without having been added.
        credit = self._window - len(self._arrived) - max(0, self._credit)
        if credit > 0:
            frame = commands.Credit(subscription=self.name, credit=credit).write()
            self._credit += credit
            self._to_say += ((self._physical, frame),)

    def _revoke(self) -> None:
        """Say that nothing more is wanted, and give back what was not handed out."""
        if self._physical is not None and self._credit > 0:
            frame = commands.Credit(subscription=self.name, revoke=True).write(self._receipt())
            self._credit = 0
            self._revocations += 1
            self._to_say += ((self._physical, frame),)
        self._return(keep=0)

    def _receipt(self) -> str:
        return f"v{self.name}.{next(self._numbers)}"

    def _return(self, *, keep: int) -> None:
        """Give back what has come and was not handed out, but for the first `keep`."""
        arrived = list(self._arrived)
        if self._physical is None or len(arrived) <= keep:
            return
        kept, ids = deque(arrived[:keep]), delivery_ids([_number_of(each) for each in arrived[keep:]])
        frame = commands.GiveBack(session=self._session.name, ids=ids, unseen=True).write(self._receipt())
        # Counted like a revocation: no credit is given until the broker has confirmed that the messages are back.
        self._revocations += 1
        self._returned = ids
        self._to_say += ((self._physical, frame),)
        self._arrived = kept

    # The lock is not held

    def _speak(self) -> None:
        """Say what is to be said, unless another thread does so. Never waits for room: a `receive` ends at its own time."""
        if not self._to_say:
            return
        while True:
            with self._lock:
                # The thread that is speaking looks again before it
                # ends, so what was queued meanwhile is not left behind.
                if self._is_speaking or not self._to_say:
                    return
                self._is_speaking = True
                physical, frame = self._to_say.popleft()
            try:
                receipt = frame.headers.get("receipt")
                # Expected before it is written: the answer may come before `post` returns.
                if receipt is not None:
                    physical.expect(receipt, partial(self._revoked, physical))
                physical.post(frame, needs_room=False)
            except ConnectionLostInCallError:
                pass  # what it says has ended with the connection
            finally:
                with self._lock:
                    self._is_speaking = False


def _number_of(found: Arrived | Frame) -> int:
    """Return by which number a delivery is settled."""
    return found.number if isinstance(found, Arrived) else int(found.headers.get("ack", "0"))


# A look at a queue of the pyjms broker.

_WINDOW: Final = 100


class NativeBrowser:
    """Begins at the broker with the first message that is asked for, and ends there with the last."""

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
        """Whether somebody may wait for messages."""
        return True

    def arrived(self, physical: PhysicalConnection, frame: Frame) -> None:
        """Put a message, or the end, away. The I/O thread."""
        if frame.headers.get("browser") == "end":
            self._has_ended = True
        else:
            self._arrived.append(frame)
        self._signal.set()

    def interrupted(self) -> None:
        """Hear that the connection was lost."""
        self._is_interrupted = True
        self._signal.set()
        self._connection.forget(self)  # nothing comes for it any more

    def wake(self) -> None:
        """Look at what has changed. Any thread."""
        self._signal.set()

    def messages(self) -> Iterator[Delivery]:
        """Yield what is in the queue. Raises `ResourceError` when the connection is lost or the broker silent."""
        physical = self._connection.link.current()
        with physical.browsing(partial(self._end, physical)):
            try:
                # Before BROWSE is sent: messages may come before its answer.
                self._connection.remember(self)
                physical.request(self._command().write())
                self._grant(physical, _WINDOW)
                for taken, frame in enumerate(self._frames(), 1):
                    # Renewed at half of the window, so that the broker need not pause.
                    if taken % (_WINDOW // 2) == 0:
                        self._grant(physical, _WINDOW // 2)
                    envelope = self._connection.received(from_frame(frame, PYJMS, self._address))
                    count = int(frame.headers.get("delivery-count", "1"))
                    yield Delivery(envelope, count, frame.headers.get("redelivered") == "true", None)
            except ConnectionLostInCallError as error:
                raise ResourceError(f"the connection was lost: {error}; browse the queue again") from error

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
                # After what has come: messages that arrived before the loss are still shown.
                raise ResourceError("the connection was lost while the queue was browsed; browse it again")
            elif self.session.is_closed:
                raise ClosedError("the session is closed")
            elif not clock.wait(self._signal, clock.monotonic_ms() + timeout_ms):
                raise ResourceError(f"the broker has sent nothing of the queue for {timeout_ms} ms")

    def _grant(self, physical: PhysicalConnection, credit: int) -> None:
        if self._has_ended:
            # The browser of an empty queue ends at once, and the broker no longer knows it.
            return
        physical.post(commands.Credit(subscription=self.name, credit=credit).write())

    def _end(self, physical: PhysicalConnection) -> None:
        self._connection.forget(self)
        if not self._has_ended:
            physical.take_back(self.session.ending_of(self.name))
