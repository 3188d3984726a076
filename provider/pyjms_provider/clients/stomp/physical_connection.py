"""One physical connection of a failover connection: the transport over a socket, from CONNECT to its end, and the receipts awaited on it.

Awaited receipts, and the right to acknowledge messages received on it, end with it. stomp.py makes the socket, in `sockets`. The rest of
stomp.py is not used (decision 0810), so that:

- bodies are never decoded, and no content-length is made up;

- names and values of headers are escaped and refused by our encoder, received frames are parsed by our decoder;

- callbacks run on the I/O thread or a waiting one: they only store what they get, and their errors are logged;

- a broker that is silent after CONNECT ends the attempt after `connect_timeout_ms`;

- writes wait for room, with a limit.

One thread owns the socket and its end: it reads, it writes what a caller could not write at once, and it closes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from threading import Lock, get_ident
from typing import Final, Protocol

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.errors import (
    AccessDeniedError,
    ConnectionLostError,
    DestinationError,
    DestinationInUseError,
    DuplicateClientIdError,
    InDoubtError,
    ProviderError,
    ResourceError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms.spi.interrupts import deferred
from pyjms_provider.clients.network.calls import (
    ConnectionLostInCallError,
    NotSentError,
    UnansweredError,
    lost_while_sent,
)
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.io_thread import BasePhysicalConnection, IoThread, WritingEndedError
from pyjms_provider.clients.network.posted_sends import PostedSend, PostedSends
from pyjms_provider.clients.stomp.options import StompSettings
from pyjms_provider.clients.stomp.sockets import connect
from pyjms_provider.clients.stomp.transport import HeartBeat, SentFlag, WriteBuffer
from pyjms_provider.protocols.profile.answers import PERSISTS_ALL
from pyjms_provider.protocols.stomp.codec import FrameDecoder, Limits, encode
from pyjms_provider.protocols.stomp.command_frames import error_of, is_closing
from pyjms_provider.protocols.stomp.errors import EncodingError, StompError
from pyjms_provider.protocols.stomp.frames import Frame, Heartbeat, Version
from pyjms_provider.protocols.stomp.packed import PACKED_HEADER

# The error class of a broker's ERROR, by words in its text.
#
# STOMP has no error codes: the texts were seen from ActiveMQ 5.17 and RabbitMQ 3.10, and read in their sources.

_SHOWN = 400

# The first entry whose words are in the broker's text, in lower case, decides.
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
    # ActiveMQ sends a Java stack trace as the body, of which the lines before the first frame are meant for people.
    body = bytes(frame.body[:4096]).decode(errors="replace").partition("\n\tat ")[0].strip()
    text = ": ".join(dict.fromkeys(part for part in (message.strip(), body) if part)) or "no reason given"
    searched = text.lower()
    kind = next((kind for words, kind in _MEANINGS if words in searched), ProviderError)
    shown = " ".join(text.split())
    return kind(f"the broker refused it: {shown[:_SHOWN]}{'…' if len(shown) > _SHOWN else ''}")


class RefusedError(Exception):
    """The broker answered CONNECT with ERROR."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.headers.get("message", "no reason given"))
        self.frame = frame


class PhysicalConnectionEvents(Protocol):
    """The callbacks of a physical connection, on the thread that reads: none may wait."""

    def on_message(self, physical: PhysicalConnection, frame: Frame) -> None:
        """A MESSAGE came."""
        ...

    def on_unexpected(self, physical: PhysicalConnection, frame: Frame) -> bool:
        """An ERROR came: return whether it is about a message that found no consumer, and so answers no request."""
        ...

    def on_broker_error(self, error: ProviderError) -> None:
        """The broker reported an error that no call waits for."""
        ...

    def is_only_waiter(self) -> bool:
        """Return whether no other thread waits for messages."""
        ...

    def on_ended(self, physical: PhysicalConnection, reason: str) -> None:
        """It has ended; called once, as the last event, on its I/O thread."""
        ...


_log = logging.getLogger("pyjms.stomp")
_GRACE_MS: Final = 40.0
"""How long a send that is interrupted still waits for its answer: it nearly always comes, and the send has been done."""
_MESSAGES: Final = frozenset({"MESSAGE", "MESSAGES"})
_UNWRITTEN_BYTES_MAX: Final = 4 * 1024 * 1024
_HEADERS_MAX: Final = 16 * 1024 * 1024
_VERSION: Final = Version.V1_2
_BEAT: Final = b"\n"
# This many sends after a pause are written at once, so that a single message is not delayed (decision 0603).
_AT_ONCE: Final = 2
_RECEIPT: Final = Frame("RECEIPT", {})
_plain_receipt = re.compile(rb"RECEIPT\nreceipt-id:([A-Za-z0-9.\-]{1,100}+)\n\n\0").fullmatch


class _Answer(Signal):
    """The answer that one request waits for."""

    frame: Frame | None = None
    error: ProviderError | None = None
    is_interrupted = False

    @property
    def is_there(self) -> bool:
        """Whether the wait is over: with a frame, with an error, or by the end of the connection."""
        return self.frame is not None or self.error is not None or self.is_interrupted


class _PostedAnswer(PostedSend):
    """The answer to a message whose sender does not wait for it, in place of an `_Answer`."""

    __slots__ = ("error", "frame", "is_interrupted", "physical")

    def __init__(
        self,
        done: Callable[[ProviderError | None], None],
        sent_ms: float,
        physical: PhysicalConnection,
        in_doubt: type[ProviderError],
    ) -> None:
        super().__init__(done, sent_ms, in_doubt)
        self.physical = physical
        self.frame: Frame | None = None
        self.error: ProviderError | None = None
        self.is_interrupted = False

    @property
    def is_there(self) -> bool:
        """Whether the outcome was told."""
        return self.is_over

    def set(self) -> None:
        """Tell the outcome."""
        lost = ConnectionLostInCallError(self.physical.reason) if self.is_interrupted else None
        self.tell(self.error or (None if lost is None else lost_while_sent(lost, self.in_doubt)))


class Request(SentFlag):
    """A request that must not be done twice: a call whose wait timed out may wait for the answer again."""

    __slots__ = ("answer", "physical", "what")

    def __init__(self, physical: PhysicalConnection, what: object) -> None:
        super().__init__()
        self.physical = physical
        self.what = what
        """Compared with the next request."""
        self.answer = _Answer()

    def is_same(self, physical: PhysicalConnection, what: object) -> bool:
        """Return whether it is the request `what` on `physical`."""
        return self.physical is physical and self.what == what


class PhysicalConnection(BasePhysicalConnection):
    """One connection to one broker. Any thread."""

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
        """Connect the socket. Raises `ResourceError`; `open` goes on."""
        io = IoThread(self, endpoint, lambda: connect(endpoint, settings), protocol="stomp", faults=(StompError,))
        super().__init__(number, endpoint, clock, io)
        self.connected: Frame | None = None
        """The answer to CONNECT, once it was received."""
        self.error_names_receipt = error_names_receipt
        """Whether an ERROR names the receipt that will not come; if not, it fails all that are awaited."""
        self.is_packed = False
        """Whether messages go both ways in the packed form of stores, as CONNECTED says."""
        self.persists_all = False
        """Whether the broker writes NON_PERSISTENT messages as PERSISTENT ones, as CONNECTED says."""
        self.body_max = 0
        """The largest body of a frame, in bytes, as CONNECTED says; 0: the broker does not say."""
        self._settings = settings
        self._events = events
        self._lock = Lock()
        self._receipts = count(1)
        self._answers: dict[str, _Answer | _PostedAnswer] = {}
        self._posted = PostedSends(lambda: settings.timeout_ms)
        self._expected: dict[str, Callable[[], None]] = {}
        self._late: dict[str, Callable[[Frame], None]] = {}
        """Callbacks for a RECEIPT that comes after the wait for it has ended."""
        self._buffer = WriteBuffer(
            _UNWRITTEN_BYTES_MAX,
            self._wakeup.set,
            self._socket.write if self._socket.is_shared else None,
            self._socket.frame,
            self._room_timeout_s,
        )
        limits = Limits(header_line_max=_HEADERS_MAX, header_size_max=_HEADERS_MAX, body_max=settings.frame_bytes_max)
        self._decoder = FrameDecoder(limits)
        self._is_native = False
        self._beats = HeartBeat(0, "", 0.0)
        self._opened = Signal()
        self._in_a_row = 0
        """How many frames that may be delayed were sent since a thread waited, or since the last round of the I/O thread."""

    def open(self, headers: dict[str, str]) -> Frame:
        """Send CONNECT and return CONNECTED.

        Raises `RefusedError`, `ResourceError` when there is no answer in time, `ConnectionLostInCallError` when the other side closed the
        connection.
        """
        period = self._settings.heart_beat_ms
        self._io.start()
        # After the start of the thread: over TLS only that thread may write, and it reads the answer.
        self.post(Frame("CONNECT", {"accept-version": _VERSION.value, "heart-beat": f"{period},{period}", **headers}))
        is_answered = self._opened.wait(self._settings.connect_timeout_ms / 1000)
        connected = self.connected
        if is_answered and connected is not None and connected.command == "CONNECTED":
            if connected.headers.get("version") == _VERSION.value:
                return connected
            self.close()
            raise ResourceError(
                f"{self.endpoint} speaks STOMP {connected.headers.get('version', '1.0')}; this needs 1.2"
            )
        self.close()
        if not is_answered:
            raise ResourceError(
                f"{self.endpoint} accepted the connection and did not answer CONNECT for "
                f"{self._settings.connect_timeout_ms} ms: does it speak STOMP there?"
            )
        # The I/O thread sets the signal at its end, too.
        if connected is None:
            raise ConnectionLostInCallError(self.reason)
        raise RefusedError(connected)

    # Sending

    def post(self, *frames: Frame, needs_room: bool = True, sent: SentFlag | None = None, corked: bool = False) -> None:
        """Write `frames`, one after the other, for which no answer is awaited; return before they are written.

        needs_room: False for small frames, of which the broker has few unread at any time: they get in even when the buffer is full. `sent`
        is set when they are in the buffer; `corked`: see `WriteBuffer.put`. Raises `ProviderError` for a frame that cannot be encoded (then
        none is written), `ResourceError` when the broker does not read, `ConnectionLostInCallError`.
        """
        try:
            # All frames are encoded before the first is put: if one cannot be, none is sent.
            if len(frames) == 1:
                data = encode(frames[0], _VERSION)
            else:
                data = b"".join([encode(frame, _VERSION) for frame in frames])
            if self._socket.is_framed:
                data = self._socket.frame(data)
            self._buffer.put(data, corked=corked, needs_room=needs_room, sent=sent)
        except EncodingError as error:
            raise ProviderError(f"the message cannot be sent over STOMP: {error.reason}") from error
        except (WritingEndedError, OSError) as error:
            raise self._lost(error) from error

    def post_soon(self, *frames: Frame, waits: bool = False) -> None:
        """Write `frames` together with those after them: with the next that cannot wait, when much has gathered, when a thread waits, or
        after some milliseconds. The first ones after a pause are written at once, unless `waits`.

        Raises as `post`.
        """
        # Counted without a lock: a count that is lost only decides whether one frame is corked.
        self._in_a_row += 1
        corked = waits or self._in_a_row > _AT_ONCE
        self.post(*frames, corked=corked)
        # If no thread waits before, the I/O thread writes the frame at its next tick.
        if corked:
            self._reader.keep_polling()

    def post_message_soon(self, session: str, message: bytes, *, waits: bool = False) -> None:
        """Write a packed message as `post_soon` does, in one frame with the messages of the same session that follow it."""
        self._in_a_row += 1
        corked = waits or self._in_a_row > _AT_ONCE
        try:
            # The first message of a frame starts the ticks; those that follow find them running.
            if self._buffer.gather(session, message, corked=corked) and corked:
                self._reader.keep_polling()
        except (WritingEndedError, OSError) as error:
            raise self._lost(error) from error

    def post_confirmed(self, frame: Frame, done: Callable[[ProviderError | None], None]) -> None:
        """Write a message, together with those after it if others are on their way; `done` hears of the outcome: None, the broker's error, or `InDoubtError`, without a lock.

        Raises as `post`; then `done` is not called.
        """
        # The first one is written at once, and those behind it together, when its answer has come or much has gathered.
        self._post_confirmed(frame, done, InDoubtError, corks=True)

    def try_to_post(
        self,
        frame: Frame,
        done: Callable[[ProviderError | None], None],
        in_doubt: type[ProviderError] = InDoubtError,
    ) -> bool:
        """Write a frame at once as `post_confirmed` does, unless there is no room, or the connection has ended; return whether it was written.

        `in_doubt`: the error if no answer comes. Never waits. Raises `ProviderError`; then `done` is not called.
        """
        if self.has_ended or not self._buffer.has_room(len(frame.body)):
            return False
        try:
            self._post_confirmed(frame, done, in_doubt, corks=False)
        except NotSentError:
            return False
        except ConnectionLostInCallError as error:
            raise lost_while_sent(error, in_doubt) from error
        return True

    def _post_confirmed(
        self,
        frame: Frame,
        done: Callable[[ProviderError | None], None],
        in_doubt: type[ProviderError],
        *,
        corks: bool,
    ) -> None:
        receipt = f"r{next(self._receipts)}"
        answer = _PostedAnswer(done, self._system_clock.monotonic_ms(), self, in_doubt)
        frame.headers["receipt"] = receipt
        # As in `request`: registered before anything is written, under the lock of `_end`.
        with self._lock:
            if self.has_ended:
                raise NotSentError(self.reason)
            self._answers[receipt] = answer
        is_alone = self._posted.add(answer)
        try:
            self.post(frame, corked=corks and not is_alone, needs_room=corks)
        except (ProviderError, ConnectionLostInCallError):
            with self._lock:
                self._answers.pop(receipt, None)
            # The end of the connection may have told it already.
            if answer.take_over():
                raise
        # Also for a message that was written at once: the I/O thread looks when the answer is due.
        self._reader.keep_polling()

    def acknowledge_soon(self, head: bytes, first: int, last: int) -> None:
        """Acknowledge deliveries `first` to `last`, both included, as `post_soon` does with `waits`; see `WriteBuffer.acknowledge`."""
        try:
            if self._buffer.acknowledge(head, first, last):
                self._reader.keep_polling()
        except WritingEndedError as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> ConnectionLostInCallError:
        """Return the error for a failed write: with a closed buffer nothing was sent; how much a failing socket took is not known."""
        # The I/O thread finds the error of the socket by itself, and ends the connection because of it.
        self._wakeup.set()
        kind = NotSentError if isinstance(error, WritingEndedError) else ConnectionLostInCallError
        return kind(self.reason or str(error) or "it was closed")

    def _room_timeout_s(self) -> float | None:
        # The I/O thread makes the room itself, and a thread that reads in its place must not stop reading. What they send are
        # replies (credit, returned messages, a pong), so there is little of it, and it would not be sent again.
        return None if self.is_own_thread() else self._settings.timeout_ms / 1000

    # Requests

    def request(
        self,
        *frames: Frame,
        timeout_ms: int | None = None,
        needs_room: bool = True,
        late: Callable[[Frame], None] | None = None,
        sent: SentFlag | None = None,
        may_last: bool = False,
    ) -> Frame:
        """Send `frames` and wait until the broker has done the last; return its RECEIPT. `needs_room`, `sent`: see `post`.

        `may_last`: whether the answer may take long, as a full queue makes a sender wait; a deferred signal ends the wait then.

        `late` is called on the I/O thread with a RECEIPT that comes after the wait.

        Raises the error that the broker answers, `UnansweredError` when it does not answer in time, `ConnectionLostInCallError`.
        """
        me = get_ident()
        if me in (self._reader.reader, self._io.ident):
            # A client may close things in `on_ready`: this thread would wait for an answer that only it can read.
            self.post(*frames, needs_room=needs_room, sent=sent)
            return _RECEIPT
        receipt, answer = f"r{next(self._receipts)}", _Answer()
        is_main = may_last and me == deferred.main
        frames[-1].headers["receipt"] = receipt
        # Registered before anything is written, as the answer may come before `post`
        # returns; and under the lock of `_end`, which fails every answer that it finds.
        with self._lock:
            if self.has_ended:
                raise NotSentError(self.reason)
            self._answers[receipt] = answer
        try:
            self.post(*frames, needs_room=needs_room, sent=sent)
            # Counted from here: the wait for room in the buffer has a time limit of its own.
            limit_ms = self._settings.timeout_ms if timeout_ms is None else timeout_ms
            until_ms = self._clock.monotonic_ms() + limit_ms
            if is_main:
                deferred.wake = answer.set
            self.wait(answer, until_ms)
            # The wake-up of a deferred signal raises the flag, too,
            # but brings no frame: `is_there` tells the two apart.
            if is_main and deferred.pending and not answer.is_there:
                self.wait(answer, min(until_ms, self._clock.monotonic_ms() + _GRACE_MS))
                # The broker makes the sender wait, perhaps for room in a
                # queue: the handler runs now, in the midst of the call.
                if not answer.is_there:
                    deferred.run_handlers()
        finally:
            if is_main:
                deferred.wake = None
            # Under the lock of `_on_receipt`: a late RECEIPT finds either the answer or `late`, never neither.
            with self._lock:
                if self._answers.pop(receipt, None) is not None and late is not None:
                    self._late[receipt] = late
        if answer.frame is not None:
            return answer.frame
        return self._outcome(answer, frames[-1].command, limit_ms)

    def request_idempotent(self, request: Request, frame: Frame) -> Frame:
        """Send as `request` does, or wait for the answer again if `request` was sent already. Not on the I/O thread. Raises as `request`."""
        answer = request.answer
        if not request.is_sent:
            frame.headers["receipt"] = receipt = f"r{next(self._receipts)}"
            try:
                # As in `request`: registered before anything is written, under the lock of `_end`.
                with self._lock:
                    if self.has_ended:
                        raise NotSentError(self.reason)
                    self._answers[receipt] = answer
                self.post(frame, sent=request)
            finally:
                if not request.is_sent:  # an unsent frame gets no answer
                    with self._lock:
                        self._answers.pop(receipt, None)
        limit_ms = self._settings.timeout_ms
        if not answer.is_there:
            self.wait(answer, self._clock.monotonic_ms() + limit_ms)
        return self._outcome(answer, frame.command, limit_ms)

    def _outcome(self, answer: _Answer, command: str, limit_ms: int) -> Frame:
        """Return the answer, or raise its error, or `UnansweredError` if none came in `limit_ms`."""
        if answer.frame is not None:
            return answer.frame
        if answer.error is not None:
            raise answer.error
        if answer.is_interrupted:
            raise ConnectionLostInCallError(self.reason)
        raise self.unanswered(command, limit_ms)

    def request_last(self, *frames: Frame, timeout_ms: int | None = None, sent: SentFlag | None = None) -> Frame:
        """Send a closing request as `request` does; it needs no room.

        If a call has timed out, and the broker has sent nothing since, the request is sent and its answer not waited for: so the parts of a
        connection, which are closed one after the other, wait only once for a broker that does not answer.
        """
        if not self._is_silent:
            return self.request(*frames, timeout_ms=timeout_ms, needs_room=False, sent=sent)
        self.post(*frames, needs_room=False, sent=sent)
        raise UnansweredError(
            f"the broker has answered nothing for so long that {frames[-1].command} is not waited for"
        )

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        """Wait as the clock does, for a signal that this connection sets; see `SocketReader.wait`."""
        self._in_a_row = 0
        try:
            # The caller may be waiting for the answer to a frame that is still corked.
            self._buffer.uncork()
        except OSError:
            self._wakeup.set()  # the I/O thread finds out why
        return self._reader.wait(self._clock, signal, until_ms, self._events.is_only_waiter)

    def take_back(self, frame: Frame, done: Callable[[], None] = lambda: None) -> None:
        """Have the broker end what it may have made, or may still make, for a call that was not answered in time; an ERROR that it does not
        exist is dropped. `done`: see `expect`.
        """
        frame.headers["receipt"] = receipt = f"t{next(self._receipts)}"
        self.expect(receipt, done)
        try:
            self.post(frame, needs_room=False)
        except (ConnectionLostInCallError, ProviderError) as error:
            _log.debug("the broker has not heard %s: %s", frame.command, error)

    def expect(self, receipt: str, done: Callable[[], None]) -> None:
        """Call `done` on the I/O thread when the answer to `receipt` comes; never, if the connection ends first."""
        with self._lock:
            self._expected[receipt] = done

    # The end

    def forget(self, reason: str) -> None:
        """Mark the connection as ended, in a child of this process, and write nothing: the socket is the parent's."""
        # A thread of the parent may have held the lock at the fork; in the child it would stay locked.
        self._lock, self.reason, self.has_ended, self.is_closing = Lock(), reason, True, True
        self._buffer.forget()
        self._io.forget()

    # The work of the I/O thread

    @property
    def has_rest(self) -> bool:
        """Whether the socket did not take all of the buffer."""
        return self._buffer.has_rest

    def write(self) -> None:
        """Write corked data, and what the socket did not take."""
        self._in_a_row = 0
        self._buffer.uncork()
        if self._buffer.has_rest:
            self._buffer.flush(self._socket.write)
            self._beats.sent_ms = self._system_clock.monotonic_ms()

    def wait_ms(self) -> float | None:
        """Return for how many milliseconds no heart-beat is due."""
        now_ms, due_ms = self._system_clock.monotonic_ms(), self._posted.due_ms()
        waits_ms = (self._beats.wait_ms(now_ms), None if due_ms is None else max(0.0, due_ms - now_ms))
        return min((each for each in waits_ms if each is not None), default=None)

    def keep_time(self) -> None:
        """Send a heart-beat if one is due. Raises `ConnectionLostInCallError` if the broker is silent."""
        now_ms = self._system_clock.monotonic_ms()
        if self._beats.is_dead(now_ms):
            raise ConnectionLostInCallError(
                f"the broker was silent for {self._beats.silence_max_ms} ms, in spite of heart-beats"
            )
        if self._beats.is_due(now_ms):
            self._buffer.put(self._socket.frame(_BEAT))
            self._beats.sent_ms = now_ms
        self._posted.expire(now_ms)

    def stop_writing(self) -> None:
        """Close the buffer."""
        self._buffer.close()

    def on_io_ended(self, reason: str) -> None:
        """Fail all calls that wait, and tell the owner."""
        self.reason = reason or self.reason
        self._opened.set()
        self._end(self.reason or "it was closed")

    def _end(self, reason: str) -> None:
        """Fail all calls that wait, and tell the owner."""
        with self._lock:
            self.reason = self._farewell or reason
            # After the reason: a thread that sees the flag reads the reason without the lock.
            self.has_ended = True
            interrupted = list(self._answers.values())
            self._answers.clear()
            for answer in interrupted:
                answer.is_interrupted = True
        for answer in interrupted:
            answer.set()
        self._events.on_ended(self, self.reason)

    # Frames received, on the thread that reads

    def read(self) -> None:
        """Handle the frames that are there."""
        while (data := self._socket.read()) is not None:
            if not data:
                raise ConnectionLostInCallError("the broker closed the connection")
            self._beats.received_ms = self._system_clock.monotonic_ms()
            decoder = self._decoder
            # Most RECEIPTs are a read of their own, and need no decoder.
            receipt = _plain_receipt(data) if self._is_native and decoder.is_between_frames else None
            if receipt is not None:
                self._is_silent = False
                self._on_receipt(receipt[1].decode(), _RECEIPT)
            else:
                decoder.put(data)
                while (event := decoder.next_event()) is not None:
                    if not isinstance(event, Heartbeat):
                        self._take(event)
            # The poll is level-triggered: what is left in the socket ends
            # the next wait. Another `recv` would mostly find nothing.
            if not self._socket.has_more:
                return
        for answer in self._socket.answers():
            self._buffer.put(answer)

    def _take(self, frame: Frame) -> None:
        if self.connected is None:
            self._enter(frame)
            return
        self._is_silent = False
        try:
            if frame.command in _MESSAGES:
                self._events.on_message(self, frame)
            elif frame.command == "RECEIPT":
                self._on_receipt(frame.headers.get("receipt-id", ""), frame)
            elif frame.command == "ERROR":
                self._on_error(frame)
        except Exception:
            # An error that went further would end the connection for all sessions that share it.
            _log.exception("PYJMS-STOMP a frame was not understood: %r", frame)

    def _enter(self, answer: Frame) -> None:
        """Handle the answer to CONNECT."""
        self.connected = answer
        if answer.command == "CONNECTED":
            now_ms = self._system_clock.monotonic_ms()
            self._beats = HeartBeat(self._settings.heart_beat_ms, answer.headers.get("heart-beat", ""), now_ms)
            if "pyjms-profile" in answer.headers:  # then properties are last, and are decoded on first access
                self._is_native = True
                self._decoder.version, self._decoder.lazy = _VERSION, True
                self._socket.is_hasty, self._socket.is_one_stream = False, True
            self.persists_all = answer.headers.get(PERSISTS_ALL) == "true"
            if PACKED_HEADER in answer.headers:  # then headers are in the body
                limits = self._decoder.limits
                self._decoder.limits = replace(limits, body_max=limits.body_max + limits.header_size_max)
        self._opened.set()

    def _on_receipt(self, receipt: str, frame: Frame) -> None:
        with self._lock:
            answer = self._answers.pop(receipt, None)
            late = done = None
            # Set under the lock: a call that stops waiting either finds the frame, or leaves something in `late`.
            if answer is not None:
                answer.frame = frame
            else:
                late, done = self._late.pop(receipt, None), self._expected.pop(receipt, None)
        if answer is not None:
            answer.set()
        elif late is not None:
            late(frame)
        elif done is not None:
            done()

    def _on_error(self, frame: Frame) -> None:
        if not self.error_names_receipt and self._events.on_unexpected(self, frame):
            return
        receipt = frame.headers.get("receipt-id")
        with self._lock:
            done = None if receipt is None else self._expected.pop(receipt, None)
        # The ERROR answers a `take_back`: the object was not there, or is gone already.
        if done is not None:
            done()
            return
        error = refusal(frame)
        if receipt is None and (is_closing(frame) or isinstance(error, ConnectionLostError)):
            self._farewell = error.reason  # the connection ends right after it, with this reason
            return
        with self._lock:
            # An ERROR is an answer, too: the broker has made nothing that `late` would have to undo.
            self._late.pop(receipt or "", None)
            if receipt is not None:
                awaiting = [receipt] if receipt in self._answers else []
            else:
                # An ERROR without a receipt may be the answer to any of the requests.
                awaiting = [] if self.error_names_receipt else list(self._answers)
            refused = [self._answers.pop(each) for each in awaiting]
            for answer in refused:
                answer.error = error
        for answer in refused:
            answer.set()
        if not refused:
            self._events.on_broker_error(error)
