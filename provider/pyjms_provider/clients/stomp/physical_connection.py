"""One physical connection of a failover connection: a transport, and the receipts that are awaited on it.

What belongs to it ends with it: receipts that were awaited, the right to acknowledge what came by it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Lock, get_ident
from typing import Final, Protocol

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.envelope import Address
from pyjms.spi.errors import (
    AccessDeniedError,
    ConnectionLostError,
    DestinationError,
    DestinationInUseError,
    DuplicateClientIdError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms.spi.interrupts import deferred
from pyjms_provider.clients.stomp.options import Endpoint, StompSettings
from pyjms_provider.clients.stomp.transport import SentFlag, Transport, TransportEndedError, UnsentError
from pyjms_provider.protocols.stomp.answers import error_of, is_closing
from pyjms_provider.protocols.stomp.frames import Frame

__all__ = [
    "ConnectionLostInCallError",
    "NotSentError",
    "PhysicalConnection",
    "PhysicalConnectionEvents",
    "Request",
    "SentFlag",
    "UnansweredError",
    "lost_while_ended",
    "lost_while_sent",
    "not_made_anew",
    "refusal",
]


# What a broker's ERROR means: the error class that fits, by what brokers write there.
#
# STOMP has no codes: what is known of the texts was seen from ActiveMQ 5.17 and RabbitMQ 3.10, and read in the sources.

_SHOWN = 400

# The first words that stand in what the broker wrote, in lower case, decide.
_MEANINGS: tuple[tuple[str, type[ProviderError]], ...] = (
    ("invalidclientidexception", DuplicateClientIdError),
    ("client id", DuplicateClientIdError),
    ("durable consumer is in use", SubscriptionInUseError),
    ("subscription is in use", SubscriptionInUseError),
    ("exclusive use", SubscriptionInUseError),
    ("no durable subscription exists", UnknownSubscriptionError),
    ("no durable subscription", UnknownSubscriptionError),
    ("consumers on the temporary", DestinationInUseError),
    ("user name", AccessDeniedError),
    ("securityexception", AccessDeniedError),
    ("not authorized", AccessDeniedError),
    ("access refused", AccessDeniedError),
    ("access_refused", AccessDeniedError),
    ("security error", AccessDeniedError),
    ("bad connect", AccessDeniedError),
    ("denied", AccessDeniedError),
    ("invaliddestinationexception", DestinationError),
    ("destinationdoesnotexist", DestinationError),
    ("invalid destination", DestinationError),
    ("unknown destination", DestinationError),
    ("not_found", DestinationError),
    ("not found", DestinationError),
    ("resourceallocationexception", ResourceError),
    ("usage manager", ResourceError),
    ("resource", ResourceError),
)


def refusal(frame: Frame) -> ProviderError:
    """Return the error that an ERROR frame stands for; its text is the broker's. The pyjms broker names its class."""
    if frame.headers.get("code", "").startswith("PYJMS"):
        return error_of(frame)
    message = frame.headers.get("message", "")
    body = bytes(frame.body[:4096]).decode(errors="replace").partition("\n\tat ")[0].strip()
    text = ": ".join(dict.fromkeys(part for part in (message.strip(), body) if part)) or "no reason given"
    searched = text.lower()
    kind = next((kind for words, kind in _MEANINGS if words in searched), ProviderError)
    shown = " ".join(text.split())
    return kind(f"the broker refused it: {shown[:_SHOWN]}{'…' if len(shown) > _SHOWN else ''}")


def not_made_anew(address: Address, error: ProviderError) -> ResourceError:
    """Return what a client is told of a consumer that is refused where its connection was made anew: no further attempt cures it, and
    the others shall live.
    """
    return ResourceError(f"a consumer of {address} could not be made anew, and receives nothing more: {error.reason}")


_log = logging.getLogger("pyjms.stomp")


class ConnectionLostInCallError(Exception):
    """The connection ended before the broker answered: nobody knows whether it did what was asked."""


class NotSentError(ConnectionLostInCallError):
    """The connection ended before anything of what was asked was written: the broker has not heard of it."""


class UnansweredError(ResourceError):
    """The broker did not answer in time: nobody knows whether it did what was asked, or is going to."""


def lost_while_sent(error: ConnectionLostInCallError) -> ProviderError:
    """Return what a client hears whose message was being sent when the connection ended."""
    if isinstance(error, NotSentError):
        return ResourceError(f"the connection was lost before the message was sent ({error}): send it again")
    return InDoubtError(
        f"the connection was lost while a message was sent ({error}): it is not known whether it arrived"
    )


def lost_while_ended(error: ConnectionLostInCallError | ResourceError, how: str) -> ProviderError:
    """Return what the client hears of a transaction that was to be committed, or staged, and was not answered, or so."""
    if isinstance(error, NotSentError):
        return RolledBackError(
            f"the transaction was rolled back, as the connection was lost before it was {how}: {error}"
        )
    if isinstance(error, ConnectionLostInCallError):
        return InDoubtError(
            f"the connection was lost while the transaction was {how} ({error}): it is not known whether that was done"
        )
    return InDoubtError(f"it is not known whether the transaction was {how}: {error.reason}")


class PhysicalConnectionEvents(Protocol):
    """What a physical connection tells, from its I/O thread."""

    def on_message(self, epoch: PhysicalConnection, frame: Frame) -> None:
        """A MESSAGE came."""
        ...

    def on_unexpected(self, epoch: PhysicalConnection, frame: Frame) -> bool:
        """An ERROR came: return whether it is about a message that found no consumer, and so is no answer."""
        ...

    def on_broker_error(self, error: ProviderError) -> None:
        """The broker complained about something that no call waits for."""
        ...

    def is_alone(self) -> bool:
        """Return whether nobody waits for what may come, but for the thread that asks."""
        ...

    def on_epoch_end(self, epoch: PhysicalConnection, reason: str) -> None:
        """It has ended; called once."""
        ...


_GRACE_MS: Final = 40.0
"""So long a send that is interrupted still waits for its answer: nearly always it comes, and the send has been done."""
_MESSAGES: Final = frozenset({"MESSAGE", "MESSAGES"})


def _interrupted(error: TransportEndedError) -> ConnectionLostInCallError:
    return (NotSentError if isinstance(error, UnsentError) else ConnectionLostInCallError)(str(error))


class _Receipt:
    """What one `ask` waits for."""

    __slots__ = ("error", "frame", "is_interrupted", "signal")

    def __init__(self) -> None:
        self.signal = Signal()
        self.frame: Frame | None = None
        self.error: ProviderError | None = None
        self.is_interrupted = False

    @property
    def is_there(self) -> bool:
        """Whether it has come, or will not."""
        return self.frame is not None or self.error is not None or self.is_interrupted


class Request(SentFlag):
    """What is asked of a physical connection and must not be done twice: a call that has waited too long may wait for the answer once more."""

    __slots__ = ("answer", "epoch", "what")

    def __init__(self, epoch: PhysicalConnection, what: object) -> None:
        super().__init__()
        self.epoch = epoch
        self.what = what
        """Compared with what is asked next."""
        self.answer = _Receipt()

    def is_about(self, epoch: PhysicalConnection, what: object) -> bool:
        """Return whether it asks just that."""
        return self.epoch is epoch and self.what == what


class PhysicalConnection:
    """One connection, between CONNECTED and its end. Any thread."""

    def __init__(
        self,
        number: int,
        endpoint: Endpoint,
        settings: StompSettings,
        clock: Clock,
        events: PhysicalConnectionEvents,
        *,
        error_names_receipt: bool = True,
    ) -> None:
        """Connect the socket. Raises `ResourceError`."""
        self.number = number
        """Grows by one with each connection that was made."""
        self.has_ended = False
        self.reason = ""
        self._farewell = ""
        """Why the broker is about to end it."""
        self.error_names_receipt = error_names_receipt
        """Whether ERROR tells which receipt will not come; else it fails all that are awaited."""
        self._settings = settings
        self.is_packed = False
        """Whether messages go both ways in the form of stores; the broker says so in CONNECTED."""
        self.body_max = 0
        """Bytes that the body of a frame may have, as CONNECTED says; 0: the broker does not say."""
        self._clock = clock
        self._events = events
        self._is_silent = False
        """Whether a call has waited for the broker in vain, and nothing has come from it since."""
        self._lock = Lock()
        self._receipts = count(1)
        self._answers: dict[str, _Receipt] = {}
        self._expected: dict[str, Callable[[], None]] = {}
        self._late: dict[str, Callable[[Frame], None]] = {}
        """What to do when a RECEIPT comes for which nobody waits any longer."""
        self.wire = Transport(endpoint, settings, self)

    def post(self, *frames: Frame, needs_room: bool = True, said: SentFlag | None = None) -> None:
        """Send `frames`; nobody waits for an answer. `needs_room`: see `Transport.send`; `said` hears when they are.

        Raises `ProviderError`, `ConnectionLostInCallError`.
        """
        try:
            self.wire.send(*frames, needs_room=needs_room, said=said)
        except TransportEndedError as error:
            raise _interrupted(error) from error

    def post_soon(self, *frames: Frame, waits: bool = False) -> None:
        """Send `frames` with what comes after them; see `Transport.send_soon`. Raises as `post`."""
        try:
            self.wire.send_soon(*frames, waits=waits)
        except TransportEndedError as error:
            raise _interrupted(error) from error

    def post_message_soon(self, session: str, message: bytes, *, waits: bool = False) -> None:
        """Send a packed message as `post_soon` does."""
        try:
            self.wire.send_message_soon(session, message, waits=waits)
        except TransportEndedError as error:
            raise _interrupted(error) from error

    def acknowledge_soon(self, head: bytes, first: int, last: int) -> None:
        """Acknowledge deliveries, both ends included, as `post_soon` does that waits; `head`: see `WriteBuffer.acknowledge`."""
        try:
            self.wire.acknowledge_soon(head, first, last)
        except TransportEndedError as error:
            raise _interrupted(error) from error

    def ask(
        self,
        *frames: Frame,
        timeout_ms: int | None = None,
        needs_room: bool = True,
        late: Callable[[Frame], None] | None = None,
        said: SentFlag | None = None,
        may_last: bool = False,
    ) -> Frame:
        """Send `frames` and wait until the broker has done the last; return its RECEIPT. `needs_room`, `said`: see `post`.

        `may_last`: whether the broker may answer as late as it likes, as a full queue makes a sender wait; a deferred signal ends the wait then.

        `late` is called on the I/O thread with a RECEIPT that comes after the wait.

        On the I/O thread, where the answer would be read, it is not waited for: a client may close things when it is told
        of a message (`on_ready`). Raises the error that the broker answers, `UnansweredError` when it does not answer in time,
        `ConnectionLostInCallError`.
        """
        if self.wire.is_own_thread():
            self.post(*frames, needs_room=needs_room, said=said)
            return Frame("RECEIPT", {})
        receipt, answer = f"r{next(self._receipts)}", _Receipt()
        is_main = may_last and get_ident() == deferred.main
        frames[-1].headers["receipt"] = receipt
        with self._lock:
            if self.has_ended:
                raise NotSentError(self.reason)
            self._answers[receipt] = answer
        try:
            self.post(*frames, needs_room=needs_room, said=said)
            limit_ms = self._settings.timeout_ms if timeout_ms is None else timeout_ms
            until_ms = self._clock.monotonic_ms() + limit_ms
            if is_main:
                deferred.wake = answer.signal.set
            self.wire.wait(self._clock, answer.signal, until_ms, self._events.is_alone)
            if is_main and deferred.pending and not answer.is_there:
                self._wait_a_moment(answer, until_ms)
        finally:
            if is_main:
                deferred.wake = None
            with self._lock:
                if self._answers.pop(receipt, None) is not None and late is not None and not answer.is_there:
                    self._late[receipt] = late
        if answer.frame is not None:
            return answer.frame
        return self._heard(answer, frames[-1].command, limit_ms)

    def _wait_a_moment(self, answer: _Receipt, until_ms: float) -> None:
        """Wait for an answer that is nearly always about to come; run the handlers of deferred signals if it does not. Raises what they raise."""
        grace_ms = min(until_ms, self._clock.monotonic_ms() + _GRACE_MS)
        self.wire.wait(self._clock, answer.signal, grace_ms, self._events.is_alone)
        if not answer.is_there:
            deferred.run_handlers()

    def request_idempotent(self, question: Request, frame: Frame) -> Frame:
        """Ask as `ask` does, or wait for the answer if `question` has been asked. Not on the I/O thread. Raises as `ask`."""
        answer = question.answer
        if not question.is_sent:
            frame.headers["receipt"] = receipt = f"r{next(self._receipts)}"
            try:
                with self._lock:
                    if self.has_ended:
                        raise NotSentError(self.reason)
                    self._answers[receipt] = answer
                self.post(frame, said=question)
            finally:
                if not question.is_sent:  # nobody answers what was not said
                    with self._lock:
                        self._answers.pop(receipt, None)
        limit_ms = self._settings.timeout_ms
        if not answer.is_there:
            self.wire.wait(self._clock, answer.signal, self._clock.monotonic_ms() + limit_ms, self._events.is_alone)
        return self._heard(answer, frame.command, limit_ms)

    def leave(self, question: Request) -> None:
        """Wait no more for the answer to `question`: an error is the connection's then, as where nobody waited."""
        answer = question.answer
        with self._lock:
            for receipt in [receipt for receipt, each in self._answers.items() if each is answer]:
                del self._answers[receipt]
        if answer.error is not None:
            self._events.on_broker_error(answer.error)

    def _heard(self, answer: _Receipt, command: str, limit_ms: int) -> Frame:
        """Return, or raise, what came in `limit_ms`."""
        if answer.frame is not None:
            return answer.frame
        if answer.error is not None:
            raise answer.error
        if answer.is_interrupted:
            raise ConnectionLostInCallError(self.reason)
        self._is_silent = True
        raise UnansweredError(
            f"the broker has not answered {command} for {limit_ms} ms, so it is not known whether it did it: "
            "look what holds it up, or raise timeout_ms"
        )

    def ask_last(self, *frames: Frame, timeout_ms: int | None = None, said: SentFlag | None = None) -> Frame:
        """Ask, as `ask`, for what ends something; it needs no room.

        A broker for which a call has waited in vain, and that has said nothing since, is told and not waited for again: so the
        parts of a connection, which are closed one after the other, wait once for a broker that stands still.
        """
        if not self._is_silent:
            return self.ask(*frames, timeout_ms=timeout_ms, needs_room=False, said=said)
        self.post(*frames, needs_room=False, said=said)
        raise UnansweredError(
            f"the broker has answered nothing for so long that {frames[-1].command} is not waited for"
        )

    def call_soon(self, chore: Callable[[], None]) -> None:
        """Have the I/O thread do something; see `Transport.call_soon`."""
        self.wire.call_soon(chore)

    @contextmanager
    def looking(self, end: Callable[[], None]) -> Iterator[None]:
        """Look at a queue, and have `end` called after it: by the I/O thread if it is left half way, perhaps to the garbage collector,
        which runs anywhere, also where a lock is held.
        """
        chore = end
        try:
            yield
        except GeneratorExit:
            chore = partial(self.call_soon, end)
            raise
        finally:
            chore()

    def take_back(self, frame: Frame, done: Callable[[], None] = lambda: None) -> None:
        """Have the broker end what it may have made, or still make, for a call that was not answered in time:
        nobody here has it, so nobody is told if it is not there. `done`: see `expect`.
        """
        frame.headers["receipt"] = receipt = f"t{next(self._receipts)}"
        self.expect(receipt, done)
        try:
            self.post(frame, needs_room=False)
        except (ConnectionLostInCallError, ProviderError) as error:
            _log.debug("the broker has not heard %s: %s", frame.command, error)

    def expect(self, receipt: str, done: Callable[[], None]) -> None:
        """Have `done` called on the I/O thread when the answer comes that names `receipt`; never, if the physical connection ends first."""
        with self._lock:
            self._expected[receipt] = done

    def _take_expected(self, receipt: str | None) -> Callable[[], None] | None:
        with self._lock:
            return None if receipt is None else self._expected.pop(receipt, None)

    def forget(self, reason: str) -> None:
        """Have ended, in a child of this process, which nobody is told."""
        self._lock, self.reason, self.has_ended = Lock(), reason, True
        self.wire.forget()

    # What the wire tells

    def on_frame(self, frame: Frame) -> None:
        """Hand on what came."""
        self._is_silent = False
        if frame.command in _MESSAGES:
            self._events.on_message(self, frame)
        elif frame.command == "RECEIPT":
            receipt = frame.headers.get("receipt-id", "")
            with self._lock:
                answer = self._answers.get(receipt)
                late = self._late.pop(receipt, None)
                if answer is not None:  # now: who gives up waiting finds it, or is found in `late`
                    answer.frame = frame
            if answer is not None:
                answer.signal.set()
                with self._lock:
                    self._answers.pop(receipt, None)
            elif late is not None:
                late(frame)
            elif (done := self._take_expected(frame.headers.get("receipt-id"))) is not None:
                done()
        elif frame.command == "ERROR":
            self._refused(frame)

    def _refused(self, frame: Frame) -> None:
        if not self.error_names_receipt and self._events.on_unexpected(self, frame):
            return
        done = self._take_expected(frame.headers.get("receipt-id"))
        if done is not None:  # what was to be ended is no longer there
            done()
            return
        error = refusal(frame)
        receipt = frame.headers.get("receipt-id")
        if receipt is None and (is_closing(frame) or isinstance(error, ConnectionLostError)):
            self._farewell = error.reason  # the end comes right after it, and is told then
            return
        with self._lock:
            self._late.pop(receipt or "", None)
            awaited = {
                awaiting: answer
                for awaiting, answer in self._answers.items()
                if awaiting == receipt or (receipt is None and not self.error_names_receipt)
            }
            for answer in awaited.values():  # now: who gives up waiting finds it
                answer.error = error
        for awaiting, answer in awaited.items():
            answer.signal.set()
            with self._lock:
                self._answers.pop(awaiting, None)  # as in `on_frame`
        if not awaited:
            self._events.on_broker_error(error)

    def on_end(self, reason: str) -> None:
        """Let nobody wait any longer."""
        with self._lock:
            self.reason = self._farewell or reason
            self.has_ended = True  # after the reason, as who finds this reads that without the lock
            awaited = list(self._answers.values())
            self._answers.clear()
            for answer in awaited:
                answer.is_interrupted = True
        for answer in awaited:
            answer.signal.set()
        self._events.on_epoch_end(self, self.reason)
