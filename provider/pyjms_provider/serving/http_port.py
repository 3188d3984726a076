"""Opens ports for operators: REST, console and metrics by HTTP, on the broker's network.

Each connection has limits that uvicorn does not know: for a client that never sends a whole request, and for one that does not
read the answer.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms_provider.forks import forget_in_children, let_go
from pyjms_provider.management.rest.app import ANY_HOST, RestSettings, make_app
from pyjms_provider.model.port import HttpPort, HttpPortAttributes
from pyjms_provider.protocols.engine import RareLines
from pyjms_provider.serving.hosts import log_open_access
from pyjms_provider.transport.listener import KEPT_FROM_OPERATORS, bind, is_kept
from pyjms_provider.transport.reports import RareReports, Report
from pyjms_provider.transport.settings import ListenerKind, ListenerSettingsError
from pyjms_provider.transport.tls import make_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket
    from ssl import SSLContext

    from starlette.applications import Starlette
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pyjms_provider.management.service import ManagementService
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.transport.service import NetworkService
    from pyjms_provider.transport.settings import ListenerSettings, TlsSettings


_log = logging.getLogger(__name__)
_PORTION: Final = 65_536


class InPortions:
    """Sends answers in portions, each when the client has read most of those before: a whole answer would be in the buffers of the
    connection twice, and a client that reads nothing could not be detected.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the application."""

        async def send_portions(message: Message) -> None:
            body = message.get("body", b"") if message["type"] == "http.response.body" else b""
            # The last portion goes with the message itself, whose `more_body` tells whether the answer is complete.
            last = max(0, len(body) - 1) // _PORTION * _PORTION
            # `send` waits while the client reads nothing, so no more than a portion is under way.
            for begin in range(0, last, _PORTION):
                await send({**message, "body": body[begin : begin + _PORTION], "more_body": True})
            await send({**message, "body": body[last:]} if last else message)

        await self._app(scope, receive, send_portions)


class _RareLog(logging.Logger):
    """The log of uvicorn for the connections of one port: messages that strangers can cause are written once in five seconds, errors of the broker always."""

    def __init__(self) -> None:
        super().__init__(_log.name)
        self.parent = _log
        self._clock = SystemClock()
        self._rare = RareLines()

    def isEnabledFor(self, level: int) -> bool:
        """Return the present setting of the package's log: this logger is not notified of changes."""
        return _log.isEnabledFor(level)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written. On the event loop."""
        # uvicorn logs problems caused by clients as warnings; errors are the broker's own.
        if record.levelno != logging.WARNING:
            return True
        missed = self._rare.missed(record.msg, self._clock.monotonic_ms())
        if missed is None:
            return False
        record.msg = f"PYJMS-HTTP-5 {record.msg}{missed}"
        return True


class LimitedConfig(uvicorn.Config):
    """The settings shared by the connections of one port."""

    def __init__(self, app: Any, listener: ListenerSettings, **options: Any) -> None:
        most = listener.max_connections
        # Connections are limited by `HttpConnection`; uvicorn's limit counts requests, even of clients that are gone, and refuses at the limit.
        limit = None if most is None else most + 1
        super().__init__(InPortions(app), http=HttpConnection, limit_concurrency=limit, **options)
        self.listener = listener
        self.per_address: Counter[str] = Counter()
        """The number of connections of each address; on the event loop."""
        self.address = ""
        """The address of the port, once it is known."""
        self.reports = RareReports(SystemClock())
        self.log = _RareLog()


class HttpConnection(H11Protocol):
    """Closes connections of addresses with too many, of clients that take longer for a request than for a log-in, or that do not read an answer."""

    _address: str | None = None
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Count the connection, and close it at once if there are too many."""
        self.logger = self._limited.log
        super().connection_made(transport)
        config = self._limited
        self._address = address = "" if self.client is None else self.client[0]
        # Counted before the check: the limits include the newest connection.
        config.per_address[address] += 1
        refusal = self._refusal(address)
        if refusal is not None:
            config.reports.log(refusal, "%s at %s", address, config.address)
            # Out of the count before the abort, which is finished on a later turn of the loop.
            self.connections.discard(self)  # uvicorn counts these, and would refuse requests of earlier clients
            transport.abort()
            return
        self._await_request()

    def _refusal(self, address: str) -> Report | None:
        """Return why the newest connection is closed; None: it is not."""
        config = self._limited
        found = self.transport.get_extra_info("socket")
        # The last files that the process may open are for its stores:
        # connections that say nothing could hold all of them.
        if found is not None and is_kept(found.fileno(), KEPT_FROM_OPERATORS):
            return Report.FEW_FILES
        most, most_each = config.listener.max_connections, config.listener.max_connections_per_address
        if most is not None and len(self.connections) > most:
            return Report.TOO_MANY
        if most_each is not None and config.per_address[address] > most_each:
            return Report.TOO_MANY_OF_ONE
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the counts."""
        self._stop_waiting()
        self._note_read()
        if self._address is not None:
            self._limited.per_address[self._address] -= 1
            # A count of 0 is removed: otherwise every address that ever connected would stay in memory.
            if not self._limited.per_address[self._address]:
                del self._limited.per_address[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Keep the deadline for the request unless it is complete."""
        super().data_received(data)
        # IDLE: the head is not complete. SEND_BODY: a part of the body is missing.
        if self.conn.their_state in {h11.IDLE, h11.SEND_BODY}:
            self._await_request()
        else:
            self._stop_waiting()

    def pause_writing(self) -> None:
        """Set a deadline for the client to read."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """Continue: the client has read most of the data."""
        self._note_read()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request, or, if there will be none, until the rest of the answer is read."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reading()

    def send_400_response(self, msg: str) -> None:
        """Answer a violation of HTTP, if no answer has begun, and close the connection. The handler of the request must send nothing more."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.close()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            # The handler sees the client as disconnected: data that it still sends would be an
            # error in h11, and a traceback in the log.
            cycle.disconnected = True
            cycle.message_event.set()
        self._await_reading()

    def _unsupported_upgrade_warning(self) -> None:
        """Log the attempt, without uvicorn's hint about missing packages."""
        self.logger.warning("a client asked for another protocol, and is answered in this one")

    def timeout_keep_alive_handler(self) -> None:
        """Close once the last answer is read, with a deadline: the transport alone would wait for ever."""
        super().timeout_keep_alive_handler()
        self._await_reading()

    def shutdown(self) -> None:
        """Close likewise, as the port closes."""
        super().shutdown()
        if self.transport.is_closing():
            self._await_reading()

    @property
    def _limited(self) -> LimitedConfig:
        assert isinstance(self.config, LimitedConfig)
        return self.config

    def _await_request(self) -> None:
        # A running deadline is not moved: a client that sends a byte now and then gains no time by it.
        if self._deadline is None:
            wait_s = self._limited.listener.login_timeout_ms / 1000
            self._deadline = self.loop.call_later(wait_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()

    def _await_reading(self) -> None:
        if self._unread is None:
            wait_ms = self._limited.listener.stalled_timeout_ms
            assert wait_ms is not None, "http ports have a limit"
            self._unread = self.loop.call_later(wait_ms / 1000, self.transport.abort)

    def _note_read(self) -> None:
        unread, self._unread = self._unread, None
        if unread is not None:
            unread.cancel()


_START_S: Final = 10.0
_GRACE_S: Final = 2


class _Server(uvicorn.Server):
    """Reports its start and the end of listening, limits handshakes, and leaves signals to the command."""

    def __init__(self, config: LimitedConfig) -> None:
        super().__init__(config)
        self._limited = config
        self._sockets: list[socket] = []
        self.ready: Future[None] = Future()
        self.silent: Future[None] = Future()
        forget_in_children(self)

    def forget(self) -> None:
        """Release the port and its connections, in a forked child."""
        for each in self._sockets:
            let_go(each.fileno())
        for connection in self.server_state.connections:
            if not connection.transport.is_closing():  # otherwise the number may be another file's by now
                let_go(connection.transport.get_extra_info("socket").fileno())

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to accept connections."""
        try:
            await super().startup([])  # uvicorn itself would allow a TLS handshake a minute
            await self._listen(sockets or [])
        except (Exception, CancelledError) as error:
            # False where `_await_start` has timed out: then no caller waits for the error.
            if self.ready.set_running_or_notify_cancel():
                self.ready.set_exception(error)
            raise
        if self.ready.set_running_or_notify_cancel():
            self.ready.set_result(None)
        else:  # it took too long: nothing refers to this server
            self._close_door(sockets)
            self.should_exit = True

    async def reload(self, context: SSLContext) -> None:
        """Accept with another certificate from now on; open connections stay.

        A server of asyncio keeps its TLS context, so another one takes over the socket, in which clients wait meanwhile.
        """
        # Copies: closing the servers below closes their own sockets.
        sockets = [each.dup() for each in self._sockets]
        before, self.servers = self.servers, []
        self._limited.ssl = context
        await self._listen(sockets)
        for server in before:
            server.close()

    async def _listen(self, sockets: list[socket]) -> None:
        config = self._limited
        limit_s = None if config.ssl is None else config.listener.handshake_timeout_ms / 1000
        self._sockets = sockets
        for each in sockets:
            self.servers.append(
                await asyncio.get_running_loop().create_server(
                    self._connection, sock=each, ssl=config.ssl, ssl_handshake_timeout=limit_s, backlog=config.backlog
                )
            )

    def _connection(self) -> asyncio.Protocol:
        return HttpConnection(self._limited, self.server_state, self.lifespan.state)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Stop listening, and then wait for the requests that are being answered."""
        self._close_door(sockets)
        self.silent.set_result(None)
        await super().shutdown(sockets)

    def _close_door(self, sockets: list[socket] | None) -> None:
        for server in self.servers:
            server.close()
        for each in (*self._sockets, *(sockets or ())):
            each.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not install signal handlers."""
        yield


class HttpListeningPort:
    """Implements `OpenPort` with a uvicorn server on the broker's event loop."""

    def __init__(self, network: NetworkService, settings: ListenerSettings, app: Starlette) -> None:
        """Raises `ListenerSettingsError` if a file cannot be used, `ResourceError` if it cannot listen: then nothing is left open."""
        context = None if settings.tls is None else make_context(settings.tls, ListenerKind.TCP)
        config = LimitedConfig(
            app,
            settings,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any client on this machine could claim another address
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=65_536,
            ws="none",
        )
        # Loaded here: otherwise uvicorn does when it starts, and puts None in place of the TLS context that is set below.
        config.load()
        config.ssl = context
        self._network = network
        self._config = config
        self._server = _Server(config)
        # Bound on the caller's thread: an address that is taken is an error of this call, not a line of the log.
        listening = bind(settings)
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self._address = config.address = f"{'http' if context is None else 'https'}://{shown}:{port}"
        try:
            self._ended = network.run(self._server.serve(sockets=[listening]))
            self._await_start()
        except Exception:
            if not self._server.ready.cancelled():  # otherwise the server closes it later
                listening.close()
            raise
        _log.info("PYJMS-HTTP-1 listening: %s", self._address)

    def _await_start(self) -> None:
        try:
            self._server.ready.result(_START_S)
        except TimeoutError as error:
            if not self._server.ready.cancel():
                return  # just in time
            raise ResourceError(
                f"{self._address} did not begin to listen within {_START_S:g} s: the broker's network is busy; start the port again"
            ) from error

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its addresses, as URLs."""
        return (self._address,)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._server.server_state.connections)

    def reload_certificates(self, tls: TlsSettings) -> None:
        """Use the certificates that `tls` names for connections from now on. Raises `ListenerSettingsError`: then nothing changes."""
        if self._config.ssl is None:
            raise ListenerSettingsError(f"{self._address} was opened without TLS; restart the port")
        self._network.run(self._server.reload(make_context(tls, ListenerKind.TCP))).result(_START_S)
        _log.info("PYJMS-HTTP-4 other certificates from now on: %s", self._address)

    def close(self, *, lingers: bool = False) -> None:
        """Stop listening; requests that are being answered have a moment to end.

        `lingers`: do not wait for them, as one of them may have caused the close.
        """
        self._server.should_exit = True
        futures = (self._server.silent, self._ended) if lingers else (self._ended,)
        done, _ = wait(futures, _GRACE_S + 5.0, FIRST_COMPLETED)
        for each in done:
            each.result()
        _log.info("PYJMS-HTTP-2 listener closed: %s", self._address)


def http_opener(
    network: NetworkService,
    management: Callable[[HttpPort], ManagementService],
    routes: Callable[[HttpPort], list[Route]],
) -> Callable[[ManagedObject], HttpListeningPort]:
    """Return the opener of an `HttpPort` on that network; `routes`: what the port serves besides REST."""

    def opener(port: ManagedObject) -> HttpListeningPort:
        assert isinstance(port, HttpPort)
        chosen = port.chosen
        assert isinstance(chosen, HttpPortAttributes)
        settings = port.listener_settings()
        rest = RestSettings(
            max_request_bytes=chosen.max_request_bytes,
            is_secure=settings.tls is not None,
            allowed_hosts=(chosen.host, *chosen.allowed_hosts),
            metrics=chosen.metrics,
            metrics_queues=chosen.metrics_queues,
            port=port.id,
        )
        if ANY_HOST in chosen.allowed_hosts:
            _log.warning(
                "PYJMS-HTTP-3 %s answers whatever host is asked for, as its allowed_hosts say: pages of any site can use it with the "
                "rights of who reads them; name the hosts instead, or have a proxy check them",
                port.path,
            )
        app = make_app(management(port), port.authenticator(), port.access(), rest, routes(port))
        opened = HttpListeningPort(network, settings, app)
        log_open_access(port)
        return opened

    return opener
