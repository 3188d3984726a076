"""One AMQP connection without I/O: bytes in, events out; calls in, bytes out (part 2, 2.4; part 5, 5.3).

The owner feeds `receive` with what it read, answers the events, and writes what `take` returns. The same machine serves clients and the
broker: they differ in who sends the first header, and in the side of SASL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import fact
from pyjms_provider.amqp import performatives
from pyjms_provider.amqp.codec import NESTING_MAX
from pyjms_provider.amqp.errors import (
    AmqpError,
    Condition,
    ConnectionFault,
    FramingError,
    ProtocolMisuseError,
    SessionFault,
)
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Begin,
    Close,
    Disposition,
    Error,
    Flow,
    Open,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from pyjms_provider.protocols.amqp.frames import (
    FRAME_SIZE_MIN,
    Frame,
    FrameDecoder,
    FrameType,
    ProtocolHeader,
    ProtocolId,
    write_frame,
)
from pyjms_provider.protocols.amqp.link import (
    CreditChanged,
    DeliveryReceived,
    Drained,
    IncomingUpdated,
    Link,
    LinkAttached,
    LinkDetached,
    LinkEnded,
    LinkRequested,
    OutgoingUpdated,
    error_of,
)
from pyjms_provider.protocols.amqp.sasl import (
    ClientMechanism,
    Login,
    SaslError,
    ServerMechanism,
    choose,
    server_mechanism,
)
from pyjms_provider.protocols.amqp.session import Session, SessionBegun, SessionEnded
from pyjms_provider.protocols.amqp.states import (
    CONNECTION,
    CONNECTION_DEAF,
    CONNECTION_ENDED,
    OPEN_RECEIVED,
    ConnectionState,
    Input,
    LinkState,
)
from pyjms_provider.security.contracts import ScramKeys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ESTABLISHMENT_FAILED: Final = "amqp:connection-establishment-failed"
"""The property of an open that a close with the reason follows."""


def is_refusal(open_: Open) -> bool:
    """Return whether a server's open refuses the connection, so that a close with the reason follows: Broker-J leaves out the frame size."""
    return open_.max_frame_size < FRAME_SIZE_MIN or bool((open_.properties or {}).get(ESTABLISHMENT_FAILED))


_SASL_ROUNDS_MAX: Final = 8
"""Responses of one negotiation: no mechanism here needs more than three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """What one side of a connection is ready for."""

    frame_size_max: int = 128 * 1024
    """The largest frame that is taken, in bytes."""
    login_frame_size_max: int = 16 * 1024
    """The same until the peer has logged in and opened. The standard has 512; tokens are longer."""
    channel_max: int = 255
    """The highest channel: one session more may be open at a time."""
    handle_max: int = 1023
    """The highest handle in a session: one link more may be attached at a time."""
    incoming_window: int = 2048
    """Transfers of a session that may be under way to this side."""
    idle_time_out_ms: int | None = None
    """How long the peer may be silent, in milliseconds; the peer is told half of it, as the standard asks."""
    session_properties: frozenset[str] = frozenset()
    """Properties of sessions that this side knows: its begin answers those that the peer's has as true."""
    nesting_max: int = NESTING_MAX
    """Levels of lists, maps, arrays and descriptors in a performative."""


@dataclass(frozen=True, slots=True)
class SaslServer:
    """The broker's side of SASL."""

    mechanisms: tuple[str, ...]
    """What is offered, the best one first."""
    keys: Callable[[str], ScramKeys | None] | None = None
    """Returns what is stored of a user's password, for SCRAM."""
    is_required: bool = True
    """Whether a client that skips SASL is refused; else it is nobody in particular."""


@fact
class LoginOffered:
    """The client has said who it is: `Connection.accept_login` or `refuse_login` answers."""

    login: Login


@fact
class LoginEnded:
    """The server has accepted the login: `Connection.open` may be called, and could be before."""


@fact
class ConnectionOpened:
    """The peer's open has come."""

    open: Open


@fact
class ConnectionClosed:
    """The peer has closed the connection, or answered a close of this side; nothing comes any more.

    On the broker's side `Connection.close` answers, unless the connection is over already.
    """

    error: Error | None


@fact
class ConnectionFailed:
    """This side closes the connection, as the peer broke a rule; nothing comes any more."""

    error: AmqpError


_HOLDING_UP: Final = frozenset({LoginOffered, ConnectionOpened, LinkRequested})
"""What the broker answers before it reads on."""

Event = (
    LoginOffered
    | LoginEnded
    | ConnectionOpened
    | ConnectionClosed
    | ConnectionFailed
    | SessionBegun
    | SessionEnded
    | LinkRequested
    | LinkAttached
    | LinkDetached
    | LinkEnded
    | CreditChanged
    | Drained
    | DeliveryReceived
    | OutgoingUpdated
    | IncomingUpdated
)
"""What has happened on a connection: what `Connection.receive` returns, in order."""


class _AcceptedRun:
    """Deliveries in a row whose acceptance is to be told in one disposition."""

    __slots__ = ("channel", "first", "is_settled", "last", "role")

    def __init__(self, channel: int, role: bool, first: int, last: int, is_settled: bool) -> None:
        self.channel = channel
        self.role = role
        self.first = first
        self.last = last
        self.is_settled = is_settled


_MASK: Final = 2**32 - 1
_RUN_SIZE: Final = 32
"""About how many bytes the disposition of a run has."""


class Connection:
    """One end of a connection.

    Args:
        settings: what this side is ready for.
        sasl: the client's mechanisms in the order of preference; none: the layer is skipped. Or the broker's `SaslServer`.
        hostname: what the client asks for, for SASL.
    """

    def __init__(
        self, settings: ConnectionSettings, sasl: Sequence[ClientMechanism] | SaslServer, *, hostname: str | None = None
    ) -> None:
        self.settings = settings
        self.state = ConnectionState.START
        self.remote: Open | None = None
        """The peer's open."""
        self._sasl = sasl
        self._hostname = hostname
        self._mechanism: ServerMechanism | ClientMechanism | None = None
        self._is_login_pending = False
        self._is_in_sasl = not isinstance(sasl, SaslServer) and bool(sasl)
        self._rounds = 0
        self._decoder = FrameDecoder(settings.login_frame_size_max, nesting_max=settings.nesting_max)
        self._events: list[Event] = []
        self._out: list[bytes] = []
        self._out_size = 0
        self._run: _AcceptedRun | None = None
        """What comes behind `_out`, as long as nothing else is written."""
        self._sessions: dict[int, Session] = {}
        self._remote_sessions: dict[int, Session] = {}
        self._frame_size = FRAME_SIZE_MIN
        self._has_written = False
        self._next_tick_ms: float | None = None
        self._is_held_up = False
        self._requested: Link | None = None
        """The link that the client has asked for last."""

    # ------------------------------------------------------------------------------------------------------- this side

    @property
    def is_client(self) -> bool:
        """Whether this is the client's end."""
        return not isinstance(self._sasl, SaslServer)

    @property
    def is_over(self) -> bool:
        """Whether the connection is to be closed as soon as what there is to `take` has been written."""
        return self.state is ConnectionState.ENDED

    @property
    def is_open(self) -> bool:
        """Whether both ends have opened, and none has closed."""
        return self.state is ConnectionState.OPENED

    @property
    def is_waiting(self) -> bool:
        """Whether the broker has to answer a login, an open or an attach before anything else of the client is read."""
        if self.is_client:
            return False
        requested = self._requested
        return (
            self._is_login_pending
            or self.state is OPEN_RECEIVED
            or (requested is not None and requested.state is LinkState.ATTACH_RECEIVED)
        )

    def start(self) -> None:
        """Send the client's first header."""
        if self._is_in_sasl:
            self._write_bytes(bytes(ProtocolHeader(ProtocolId.SASL)))
        else:
            self._send_header()

    def open(self, open_: Open) -> None:
        """Send the open: the client's after `LoginEnded` or at once, the broker's in answer to `ConnectionOpened`.

        Args:
            open_: its frame size, channels and idle time-out are those of the settings, whatever it says.
        """
        self._move(Input.SEND_OPEN)
        settings = self.settings
        open_ = replace(
            open_,
            max_frame_size=settings.frame_size_max,
            channel_max=settings.channel_max,
            idle_time_out=settings.idle_time_out_ms and max(settings.idle_time_out_ms // 2, 1),
        )
        self._write_frame(0, performatives.write(open_))

    def close(self, fault: AmqpError | None = None) -> None:
        """Close the connection, for a reason if something is wrong. May be repeated."""
        if self.state in (
            ConnectionState.CLOSE_SENT,
            ConnectionState.DISCARDING,
            ConnectionState.ENDED,
            ConnectionState.CLOSE_PIPE,
        ):
            return
        if (self.state, Input.SEND_CLOSE) not in CONNECTION:
            # An open has to come before the close that tells the reason (part 2, 2.4.1); without the headers there is nobody to tell.
            if (self.state, Input.SEND_OPEN) not in CONNECTION or self._is_in_sasl:
                if self.state is ConnectionState.START and self._mechanism is None and not self._is_in_sasl:
                    self._write_needed_header()
                self.state = ConnectionState.ENDED
                return
            self.open(Open(""))
        self._move(Input.SEND_CLOSE_WITH_ERROR if fault else Input.SEND_CLOSE)
        self._write_frame(0, performatives.write(Close(error_of(fault) if fault else None)))
        self._forget_sessions()

    def begin(self, properties: Mapping[str, Any] | None = None) -> Session:
        """Ask for a session.

        Args:
            properties: those of the begin.

        Raises:
            ProtocolMisuseError: the connection is not open, or has as many sessions as the peer takes.
        """
        if self.state not in (ConnectionState.OPENED, ConnectionState.OPEN_SENT, ConnectionState.OPEN_PIPE):
            raise ProtocolMisuseError(f"the connection is {self.state.value}: no session can begin")
        session = self._add_session()
        session.begin(properties)
        return session

    def accept_login(self) -> None:
        """Tell the client that it is who it says: the answer to `LoginOffered`.

        Frames that came behind the login wait: `receive`, also without bytes, returns their events.
        """
        if not self._is_login_pending:
            raise ProtocolMisuseError("no login waits for an answer")
        if self.is_over:  # the client has not waited for the answer, and said too much or what is no frame
            return
        self._is_login_pending = False
        additional = self._mechanism.additional_data if isinstance(self._mechanism, ServerMechanism) else None
        self._write_sasl(SaslOutcome(SaslCode.OK, additional))
        self._end_sasl()

    def refuse_login(self, code: SaslCode = SaslCode.AUTH) -> None:
        """Tell the client that its login is refused; the connection is over."""
        self._is_login_pending = False
        self._write_sasl(SaslOutcome(code))
        self.state = ConnectionState.ENDED

    def take(self, size: int | None = None) -> bytes:
        """Return bytes for the wire; nothing: there are none.

        Args:
            size: about how many at most; a frame that is larger comes whole. None: all.
        """
        if self._run is not None:
            self._end_run()
        out = self._out
        if not out:
            return b""
        if size is None or self._out_size <= size:
            data = b"".join(out)
            self._out = []
            self._out_size = 0
            return data
        count = total = 0
        for part in out:
            if count and total + len(part) > size:
                break
            total += len(part)
            count += 1
        data = b"".join(out[:count])
        del out[:count]
        self._out_size -= total
        return data

    @property
    def out_size(self) -> int:
        """How many bytes wait for `take`."""
        return self._out_size

    def next_tick_ms(self, now_ms: float) -> float | None:
        """Return when `tick` wants to be called, on the caller's clock; None: not at all."""
        interval = self._interval_ms
        if interval is None or not self.is_open:
            return None
        if self._next_tick_ms is None:
            self._next_tick_ms = now_ms + interval
        return self._next_tick_ms

    def tick(self, now_ms: float) -> None:
        """Send a sign of life if nothing was sent of late."""
        due = self.next_tick_ms(now_ms)
        if due is None or now_ms < due:
            return
        if not self._has_written:
            self._write_frame(0, b"")
        self._has_written = False
        self._next_tick_ms = now_ms + (self._interval_ms or 0)

    @property
    def _interval_ms(self) -> float | None:
        # Twice in the peer's time-out, and some room for the way.
        return self.remote.idle_time_out / 3 if self.remote and self.remote.idle_time_out else None

    # ------------------------------------------------------------------------------------------------- the peer's side

    def receive(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Take bytes from the wire, and return what has happened. Never raises for what the bytes say.

        The broker's side reads no further than a login, an open or an attach that waits for its answer: `receive` with no bytes goes on.
        So a client may send a message behind its attach, as soon as that is answered with credit.
        """
        self._decoder.feed(data)
        self._is_held_up = self.is_waiting
        try:
            while self.state is not CONNECTION_ENDED and not self._is_held_up:
                found = self._decoder.next()
                if found is None:
                    break
                if isinstance(found, ProtocolHeader):
                    self._received_header(found)
                elif self._is_in_sasl:
                    self._received_sasl(found.performative)
                else:
                    self._received_frame(found)
        except AmqpError as fault:
            self.fail(fault)
        events, self._events = self._events, []
        return events

    def fail(self, fault: AmqpError) -> None:
        """Close the connection, as the peer has broken a rule or this side cannot go on."""
        was_told = self.state in (ConnectionState.DISCARDING, ConnectionState.CLOSE_SENT, ConnectionState.ENDED)
        self.close(fault)
        # Bytes that are no frames have no end that could be found: nothing more is read.
        self.state = ConnectionState.ENDED
        if not was_told:
            self.tell(ConnectionFailed(fault))

    def tell(self, event: Event) -> None:
        """Add an event to those that `receive` returns."""
        if isinstance(event, LinkRequested):
            self._requested = event.link
        if type(event) in _HOLDING_UP and not self.is_client:
            self._is_held_up = True
        self._events.append(event)

    def _received_header(self, header: ProtocolHeader) -> None:
        if header.version != (1, 0, 0) or header.protocol not in (ProtocolId.AMQP, ProtocolId.SASL):
            self._refuse_header(
                f"the peer speaks the protocol {header.protocol} of AMQP {'.'.join(map(str, header.version))}"
            )
        elif header.protocol == ProtocolId.SASL:
            if isinstance(self._sasl, SaslServer):
                if self._mechanism is not None or self.state is not ConnectionState.START or self._is_in_sasl:
                    raise FramingError("the layer of SASL begins twice")
                self._is_in_sasl = True
                self._write_bytes(bytes(header))
                self._write_sasl(SaslMechanisms(self._sasl.mechanisms))
            elif not self._is_in_sasl:
                self._refuse_header("the server asks for a login by SASL")
            self._decoder.kind = FrameType.SASL
        else:
            if isinstance(self._sasl, SaslServer):
                if self._sasl.is_required and self._mechanism is None:
                    self._refuse_header("a login by SASL is needed first")
                    return
            elif self._is_in_sasl:
                self._refuse_header("the server knows no login by SASL: give no credentials")
                return
            self._decoder.kind = FrameType.AMQP
            self._move(Input.RECEIVE_HEADER)
            if (self.state, Input.SEND_HEADER) in CONNECTION:
                self._send_header()

    def _write_needed_header(self) -> None:
        # Part 2, 2.2: a client that speaks something else is told what is spoken here, before the end of the connection.
        if isinstance(self._sasl, SaslServer):
            needed = ProtocolId.SASL if self._sasl.is_required else ProtocolId.AMQP
            self._write_bytes(bytes(ProtocolHeader(needed)))

    def _refuse_header(self, why: str) -> None:
        self._write_needed_header()
        self.state = ConnectionState.ENDED
        self.tell(ConnectionFailed(FramingError(why)))

    def _send_header(self) -> None:
        self._move(Input.SEND_HEADER)
        self._write_bytes(bytes(ProtocolHeader(ProtocolId.AMQP)))

    def _received_sasl(self, performative: Any) -> None:
        try:
            if isinstance(self._sasl, SaslServer):
                self._received_of_client(performative)
            else:
                self._received_of_server(performative)
        except SaslError as error:
            if isinstance(self._sasl, SaslServer):
                self.refuse_login()
            self.state = ConnectionState.ENDED
            self.tell(ConnectionFailed(error))

    def _received_of_client(self, performative: Any) -> None:
        self._rounds += 1
        if self._rounds > _SASL_ROUNDS_MAX:
            raise SaslError("the client says more than its mechanism has")
        sasl = self._sasl
        if isinstance(performative, SaslInit) and self._mechanism is None and isinstance(sasl, SaslServer):
            if performative.mechanism not in sasl.mechanisms:
                raise SaslError(f"the mechanism {performative.mechanism[:40]!r} is not offered")
            self._mechanism = server_mechanism(performative.mechanism, sasl.keys)
            response = performative.initial_response
        elif isinstance(performative, SaslResponse) and self._mechanism is not None:
            response = performative.response
        else:
            # A peer that does not speak SASL as a client is told nothing (part 5, 5.3.1 and 5.3.2).
            raise FramingError(f"{type(performative).__name__} is not what SASL has now")
        assert isinstance(self._mechanism, ServerMechanism)
        answer = self._mechanism.next(response)
        if isinstance(answer, bytes):
            self._write_sasl(SaslChallenge(answer))
        else:
            self._is_login_pending = True
            self.tell(LoginOffered(answer))

    def _received_of_server(self, performative: Any) -> None:
        assert not isinstance(self._sasl, SaslServer)
        mechanism = self._mechanism
        if isinstance(performative, SaslMechanisms) and mechanism is None:
            chosen = choose(performative.mechanisms, self._sasl)
            self._mechanism = chosen
            self._write_sasl(SaslInit(chosen.name, chosen.start(), self._hostname))
        elif isinstance(performative, SaslChallenge) and isinstance(mechanism, ClientMechanism):
            self._rounds += 1
            if self._rounds > _SASL_ROUNDS_MAX:
                raise SaslError("the server challenges without an end")
            self._write_sasl(SaslResponse(mechanism.respond(performative.challenge)))
        elif isinstance(performative, SaslOutcome) and isinstance(mechanism, ClientMechanism):
            if performative.code != SaslCode.OK:
                raise SaslError(f"the server refuses the login by {mechanism.name} (code {performative.code})")
            mechanism.finish(performative.additional_data)
            self._end_sasl()
            self._send_header()
            self.tell(LoginEnded())
        else:
            raise SaslError(f"{type(performative).__name__} is not what SASL has now")

    def _end_sasl(self) -> None:
        self._is_in_sasl = False
        self._decoder.expect_header()

    def _received_frame(self, frame: Frame) -> None:
        performative = frame.performative
        if performative is None:
            return
        kind = type(performative)
        if kind is Open:
            self._received_open(performative, frame.channel)
        elif kind is Close:
            self._received_close(performative)
        elif self.state in CONNECTION_DEAF:
            return
        elif self.remote is None:
            raise ConnectionFault(Condition.ILLEGAL_STATE, f"{kind.__name__} came before open")
        elif kind is Begin:
            self._received_begin(performative, frame.channel)
        else:
            session = self._remote_sessions.get(frame.channel)
            if session is None:
                if self.is_client and kind is Flow:
                    return  # Artemis answers a drain so, on channel 65535, when the session has ended meanwhile
                raise ConnectionFault(Condition.NOT_ALLOWED, f"no session has begun on the channel {frame.channel}")
            try:
                session.received(performative, frame.payload)
            except SessionFault as fault:
                session.fail(fault)

    def _received_open(self, open_: Open, channel: int) -> None:
        if channel:
            raise FramingError(f"open came on the channel {channel}: it belongs on channel 0 (part 2, 2.4.1)")
        if open_.max_frame_size < FRAME_SIZE_MIN and not (self.is_client and is_refusal(open_)):
            raise FramingError(f"max-frame-size is {FRAME_SIZE_MIN} at least")
        self._move_or_fail(Input.RECEIVE_OPEN)
        self.remote = open_
        self._frame_size = max(min(open_.max_frame_size, 2**20), FRAME_SIZE_MIN)
        self._decoder.frame_size_max = self.settings.frame_size_max
        if self.state not in (ConnectionState.CLOSE_SENT, ConnectionState.DISCARDING):
            self.tell(ConnectionOpened(open_))

    def _received_close(self, close: Close) -> None:
        self._move_or_fail(Input.RECEIVE_CLOSE)
        # The broker's side answers by `close`, when it has done what the client had asked before.
        if self.state is ConnectionState.CLOSE_RECEIVED and self.is_client:
            self._move(Input.SEND_CLOSE)
            self._write_frame(0, performatives.write(Close()))
        self._forget_sessions()
        self.tell(ConnectionClosed(close.error))

    def _received_begin(self, begin: Begin, channel: int) -> None:
        if channel > self.settings.channel_max:
            raise ConnectionFault(
                Condition.FRAMING_ERROR,
                f"a session's channel is above the {self.settings.channel_max} that open has told",
            )
        if channel in self._remote_sessions:
            raise ConnectionFault(Condition.NOT_ALLOWED, f"a session has begun on the channel {channel} already")
        if begin.remote_channel is None:
            session = self._add_session()
        else:
            answered = self._sessions.get(begin.remote_channel)
            if answered is None or answered.remote is not None:
                raise ConnectionFault(
                    Condition.NOT_ALLOWED,
                    f"begin answers the channel {begin.remote_channel}, on which nothing was asked",
                )
            session = answered
        self._remote_sessions[channel] = session
        session.received_begin(begin, channel)

    def _add_session(self) -> Session:
        limit = min(self.remote.channel_max, self.settings.channel_max) if self.remote else self.settings.channel_max
        channel = next((number for number in range(limit + 1) if number not in self._sessions), None)
        if channel is None:
            raise ConnectionFault(
                Condition.RESOURCE_LIMIT_EXCEEDED,
                f"the connection has {limit + 1} sessions, which is the most that both sides take",
            )
        session = self._sessions[channel] = Session(self, channel)
        return session

    def unmap(self, session: Session) -> None:
        """Give up a session that has ended."""
        self._sessions.pop(session.channel, None)
        if session.remote_channel is not None:
            self._remote_sessions.pop(session.remote_channel, None)

    def _forget_sessions(self) -> None:
        for session in self._sessions.values():
            session.cut()
        self._sessions.clear()
        self._remote_sessions.clear()

    def _move(self, given: Input) -> None:
        self.state = CONNECTION[self.state, given]

    def _move_or_fail(self, given: Input) -> None:
        if (self.state, given) not in CONNECTION:
            raise ConnectionFault(
                Condition.ILLEGAL_STATE, f"the connection is {self.state.value}: {given.value} is not possible"
            )
        self._move(given)

    # --------------------------------------------------------------------------------------------------------- writing

    @property
    def frame_room(self) -> int:
        """How many bytes a frame to the peer may have behind its header."""
        return self._frame_size - 8

    def frame(self, channel: int, performative: bytes, payload: bytes) -> bytes:
        """Return a frame's bytes."""
        return write_frame(channel, performative, payload)

    def write(self, channel: int, performative: bytes) -> None:
        """Send a performative."""
        self._write_frame(channel, performative)

    def write_frame(self, frame: bytes) -> None:
        """Send a frame."""
        self._write_bytes(frame)

    def write_accepted(self, channel: int, role: bool, first: int, last: int, *, is_settled: bool) -> None:
        """Tell that deliveries are accepted. They share a disposition with those before them if nothing was sent between the two."""
        run = self._run
        if (
            run is not None
            and first == (run.last + 1) & _MASK
            and channel == run.channel
            and role is run.role
            and is_settled is run.is_settled
        ):
            run.last = last
            return
        if run is not None:
            self._end_run()
        self._run = _AcceptedRun(channel, role, first, last, is_settled)
        self._out_size += _RUN_SIZE

    def _end_run(self) -> None:
        run, self._run = self._run, None
        assert run is not None
        self._out_size -= _RUN_SIZE
        last = None if run.last == run.first else run.last
        self._write_frame(
            run.channel, performatives.write(Disposition(run.role, run.first, last, run.is_settled, ACCEPTED))
        )

    def _write_frame(self, channel: int, performative: bytes) -> None:
        self._write_bytes(write_frame(channel, performative))

    def _write_sasl(self, record: Any) -> None:
        self._write_bytes(write_frame(0, performatives.write(record), kind=FrameType.SASL))

    def _write_bytes(self, data: bytes) -> None:
        if self._run is not None:
            self._end_run()
        self._out.append(data)
        self._out_size += len(data)
        self._has_written = True
