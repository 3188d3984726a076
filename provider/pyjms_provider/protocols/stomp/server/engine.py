"""One STOMP connection at the broker: login, order, errors, heart-beats; its handler does the frames.

All of it runs on the connection's thread, except tasks that may wait: those run on another one, while the connection goes on delivering
(`executor`). Both add to a deque of bytes, which needs no lock, and may end the connection.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import AccessDeniedError, ConnectionLostError, ProviderError
from pyjms_provider.protocols.engine import ProtocolEngine
from pyjms_provider.protocols.logins import authenticate, enter, leave
from pyjms_provider.protocols.stomp.codec import BEFORE_LOGIN, LINE_END, FrameDecoder, encode
from pyjms_provider.protocols.stomp.command_frames import error_frame, limits_of
from pyjms_provider.protocols.stomp.errors import EncodingError, SequenceError, StompError, VersionError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.server.login import (
    IdleMonitor,
    Login,
    ServerEvent,
    ServerState,
    credentials_of,
    negotiate,
    next_server_state,
    refusal,
    server_event,
)

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.engine import TransportContext
    from pyjms_provider.protocols.stomp.server.contracts import FastFrames, ProtocolHandler, Service

_log = logging.getLogger(__name__)
_HEART_BEAT: Final = b"\n"
_NAME_ONE: Final = (
    "name one: ?virtual_host=NAME in the URL (header host), or have the operator set default_host of this port"
)
_TLS_HANDSHAKE: Final = b"\x16\x03"
"""The first bytes of a client that speaks TLS (RFC 8446 §5.1)."""
_ORDINARY: Final = frozenset({"SEND", "SENDS", "ACK"})  # most frames; they leave the state as it is
_OPEN: Final = ServerState.OPEN
_SHOWN_MAX: Final = 64
"""Characters of a user name in the log."""
_OVER: Final = ServerState.OVER  # an enumeration's member is looked up in a dozen steps
_TAKES_FRAMES: Final = frozenset({ServerState.NEW, ServerState.OPEN})


class StompServerEngine(ProtocolEngine):
    """The engine of one STOMP connection at the broker."""

    def __init__(self, service: Service, transport: TransportContext) -> None:
        self.service = service
        self.transport = transport
        self.version = Version.V1_2
        self._line_end = LINE_END
        self.handler: ProtocolHandler | None = None
        self._fast_frames: FastFrames | None = None
        self._is_between_frames = True
        self._settings = service.settings
        self._clock: Clock = service.clock
        self._decoder = FrameDecoder(BEFORE_LOGIN)
        self._out: deque[bytes] = deque()
        self._idle_monitor = IdleMonitor(self._clock.monotonic_ms(), self._settings)
        self._connection: ProviderConnection | None = None
        self._trouble: ProviderError | None = None
        self._state = ServerState.NEW
        self._state_lock = Lock()

    # Calls of the transport

    def received(self, data: bytes | bytearray | memoryview) -> None:
        # Only between two frames: then the decoder holds no bytes that come first.
        if self._fast_frames is not None and self._is_between_frames and self._state is _OPEN and type(data) is bytes:
            data = self._fast_frames.take(data)
            if not data:
                self._run()
                return
        if self._state is not _OVER:
            if self.handler is None and self._is_between_frames and bytes(data[:2]) == _TLS_HANDSHAKE:
                self._refuse_tls()  # it would wait for an answer in TLS, and this side for the end of a line
                return
            self._decoder.put(data)
            self._read()

    def _refuse_tls(self) -> None:
        problem = "this port has no TLS, and the client begins with it: it must write stomp://, or the port needs a certificate"
        self._log_rarely(logging.WARNING, "PYJMS-STOMP-6 connection from %s ends: %s", problem)
        self.refuse(None, StompError(problem))

    def _read(self) -> None:
        decoder = self._decoder
        try:
            # Checked before each frame: CONNECT stops the reading until the login is done.
            while self._state in _TAKES_FRAMES:
                event = decoder.next_event()
                if event is None:
                    break
                if isinstance(event, Frame):
                    self._take(event)
        except StompError as error:
            self.refuse(None, error)
        # Noted here, so that `received` need not ask the decoder.
        self._is_between_frames = decoder.is_between_frames
        self._run()

    def _run(self) -> None:
        handler = self.handler
        if handler is not None and handler.backlog.has_waiting:
            handler.backlog.has_waiting = False
            handler.run()

    def _take(self, frame: Frame) -> None:
        # Most frames leave the state as it is, so the table is not consulted.
        if self._state is _OPEN and frame.command in _ORDINARY and self.handler is not None:
            self.handler.take(frame)
            return
        try:
            self._move(server_event(frame.command))
        except SequenceError as error:
            self.refuse(frame, error)
            return
        if self.handler is None:
            self._log_in(frame)
        else:
            self.handler.take(frame)

    def pull(self, size: int) -> bytes | bytearray | memoryview:
        handler = self.handler
        scheduled = handler is not None and handler.scheduler.scheduled
        if not (self._out or scheduled or self._idle_monitor.beat_is_due) and self._trouble is None:
            return b""
        # Set by another thread: ended here, on the connection's own.
        if self._trouble is not None:
            self.refuse(None, self._trouble)
        elif not scheduled and len(self._out) == 1:  # an answer, mostly
            self._idle_monitor.note_write(self._clock.monotonic_ms())
            return self._out.popleft()
        parts: list[bytes] = []
        # Answers come before messages, as calls wait for them.
        taken = self._pull_out(size, parts) if self._out else 0
        if handler is not None and handler.scheduler and taken < size and self._state is not _OVER:
            try:
                taken += handler.pull(size - taken, parts)
            except (ProviderError, StompError) as error:  # the virtual host stops at this moment, say
                self.refuse(None, error)
            if self._out:
                self._pull_out(size - taken, parts)  # answers that follow the messages
        # Any other bytes written serve as a heart-beat.
        if not parts and self._idle_monitor.pop_beat():
            parts.append(_HEART_BEAT)
        if not parts:
            return b""
        self._idle_monitor.note_write(self._clock.monotonic_ms())
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _pull_out(self, size: int, parts: list[bytes]) -> int:
        taken, out = 0, self._out
        while out and taken < size:
            part = out.popleft()
            parts.append(part)
            taken += len(part)
        return taken

    @property
    def is_reading(self) -> bool:
        handler = self.handler
        if self._state not in _TAKES_FRAMES:
            return False
        # Waiting tasks hold their frames in memory: above a limit, further frames stay in the socket.
        return handler is None or handler.backlog.waiting_bytes <= self._settings.waiting_bytes_max

    @property
    def knows_peer(self) -> bool:
        return self.handler is not None

    @property
    def is_over(self) -> bool:
        return self._state is _OVER

    def next_tick_ms(self) -> int | None:
        idle_monitor = self._idle_monitor
        if self._state is _OVER:
            return None
        if idle_monitor.follows_reading:
            idle_monitor.note_reading(self._clock.monotonic_ms(), is_reading=self.is_reading)
        if not idle_monitor.is_awaited:
            return None
        return idle_monitor.next_ms(self.transport.heard_ms)

    def tick(self) -> None:
        if self.is_over:
            return
        problem = self._idle_monitor.look(self._clock.monotonic_ms(), self.transport.heard_ms)
        if problem is not None:
            self._log_rarely(logging.INFO, "PYJMS-STOMP-2 connection from %s ends: %s", problem)
            self.refuse(None, StompError(problem))
        self.transport.wake()

    def stop(self, reason: str) -> None:
        if not self.is_over:
            # A pyjms client takes this class for the loss of its connection, and connects again.
            self.refuse(None, ConnectionLostError(reason))

    def closed(self, error: BaseException | None) -> None:
        self._end(ServerEvent.END)
        # Unwritten output is not kept until the last job ends.
        self._out.clear()
        # The handler and this object refer to each other, so both live until a garbage collection: the unfinished frame is
        # dropped now.
        self._decoder = FrameDecoder(BEFORE_LOGIN)
        self._close_connection()  # a login that still runs ends what it makes

    def _close_connection(self) -> None:
        # Taken at once: the end of the connection and that of its login may both call this.
        connection, self._connection = self._connection, None
        if connection is not None:
            leave(self.transport, connection, self._not_closed)

    def _not_closed(self, error: BaseException) -> None:
        _log.error("PYJMS-STOMP-3 a connection did not close as it should", exc_info=error)

    # Login

    def _log_in(self, frame: Frame) -> None:
        try:
            login = negotiate(frame, self._settings)
        except VersionError as error:
            self._send_last(refusal(error))
            return
        except StompError as error:
            self.refuse(frame, error)
            return
        self.version = login.version
        self._decoder.version = login.version
        # On a worker: checking a password is slow on purpose, and a directory may be asked.
        self.transport.work(partial(self._enter, frame, login), partial(self._entered, frame, login))

    def _enter(self, frame: Frame, login: Login) -> ProtocolHandler:
        """Authenticate the client, and connect it to the virtual host. May wait. Raises `ProviderError`."""
        peer = self.transport.peer
        connection, guard = enter(
            self.service,
            authenticate(self.service, credentials_of(frame, peer), peer),
            virtual_host=login.host or self._settings.default_host,
            advice=_NAME_ONE,
            peer=peer,
            events=self,
            client_id=login.client_id,
        )
        try:
            handler = self.service.make_handler(self, connection, guard, login)
        except Exception:
            connection.close()
            raise
        # Only now: after an error above the connection is closed here, and `closed` must not close it as well.
        self._connection = connection
        return handler

    def _entered(
        self, frame: Frame, login: Login, handler: ProtocolHandler | None, error: BaseException | None
    ) -> None:
        if self.is_over:  # the client has gone meanwhile, or it took too long
            self._close_connection()
            return
        if error is not None:
            if isinstance(error, AccessDeniedError):
                self._log_rarely(logging.WARNING, "PYJMS-STOMP-1 login refused for %s: %s", error.reason)
            self.refuse(frame, error)
            return
        assert handler is not None
        offered = handler.guard.principal.unchecked_login
        if offered is not None:
            self._log_rarely(
                logging.INFO,
                "PYJMS-STOMP-7 login of %s not checked, as its port lets in everybody: %s",
                f"{offered[:_SHOWN_MAX]!a}",
            )
        try:
            connected = login.answer(self._settings, handler.greeting())
        except ProviderError as closed_error:  # the virtual host has ended its connections meanwhile
            self.refuse(frame, self._trouble or closed_error)
            return
        # Lengths are limited far lower before the login (decision 0150).
        own = limits_of(is_packed=login.is_packed)
        self._decoder.limits = own if login.speaks_profile else self._settings.limits
        self._decoder.lazy = login.speaks_profile
        if login.speaks_profile:  # pyjms clients wait for none
            self._line_end = b""
        self.handler = handler
        self._fast_frames = handler.fast_frames
        self._idle_monitor.begin(login.out_ms, login.in_ms, takes_lines=login.version is not Version.V1_0)
        self._move(ServerEvent.ACCEPT)
        self.emit(connected)
        # A client may have sent more frames after CONNECT without waiting for the answer.
        self._read()
        self.transport.wake()

    # Events of the broker, on any thread

    def on_exception(self, error: ProviderError) -> None:
        """Note that the connection to the virtual host has failed, as when that stops."""
        self._trouble = error
        self.transport.wake()

    # Calls of the handler, perhaps on another thread

    def emit(self, frame: Frame) -> None:
        """Have a frame written when the wire can take it. Raises `EncodingError`."""
        data = encode(frame, self.version)
        # Any thread: `append` and `popleft` of a deque need no lock.
        self._out.append(data + self._line_end)

    @property
    def is_free(self) -> bool:
        """Whether `push` may write now, as nothing is pending before it. The connection's thread."""
        return not self._out and self._trouble is None and self._state is _OPEN and self.transport.is_free

    def push(self, data: bytes) -> None:
        """Have frames of STOMP 1.2 written at once, while the connection `is_free`. A heart-beat may still follow, though it is not needed."""
        self.transport.push(data)

    def emit_encoded(self, data: bytes) -> None:
        """Have encoded frames of STOMP 1.2 written."""
        self._out.append(data)

    def refuse(self, frame: Frame | None, error: BaseException) -> None:
        """Answer a frame, or bytes that are no frame, with ERROR; the connection is over (STOMP 1.2, "ERROR")."""
        if self.is_over:
            return
        if not isinstance(error, (ProviderError, StompError)):
            _log.error("PYJMS-STOMP-4 a frame of %s failed", self.transport.peer.address, exc_info=error)
            error = ProviderError("the broker failed to do this; its log says why, at PYJMS-STOMP-4")
        receipt = None if frame is None else frame.headers.get("receipt")
        self._send_last(error_frame(error, receipt, closing=True))

    def _send_last(self, answer: Frame) -> None:
        if self._end(ServerEvent.REFUSE):
            with suppress(EncodingError):
                self.emit(answer)
            self.transport.wake()

    def fail(self, error: BaseException) -> None:
        """End the connection because of an error in the broker."""
        self.refuse(None, error)

    def finish(self) -> None:
        """End the connection because the client asks for it: pending output is still written."""
        self._end(ServerEvent.END)
        self.transport.wake()

    def _log_rarely(self, level: int, text: str, reason: str) -> None:
        """Write a log line about this peer, or count it: a hostile peer must not fill the disk. The audit log counts log-ins."""
        missed = self.service.rare_lines.missed(text, self._clock.monotonic_ms())
        if missed is not None:
            _log.log(level, f"{text}%s", self.transport.peer.address, reason, missed)

    def _move(self, event: ServerEvent) -> None:
        """Go to the next state. Raises `SequenceError`."""
        with self._state_lock:
            self._state = next_server_state(self._state, event)

    def _end(self, event: ServerEvent) -> bool:
        """End the connection; return False if it had ended before."""
        with self._state_lock:
            if self._state is ServerState.OVER:
                return False
            self._state = next_server_state(self._state, event)
        # Without the lock, as the handler ends waits of other threads.
        if self.handler is not None:
            self.handler.end()
        return True
