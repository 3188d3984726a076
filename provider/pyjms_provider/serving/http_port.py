"""Opens ports for operators: REST, and what else is reached by HTTP, on the broker's network."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn

from pyjms.spi.errors import ResourceError
from pyjms_provider.forks import forget_in_children, let_go
from pyjms_provider.management.rest.app import RestSettings, make_app
from pyjms_provider.management.rest.hosts import ANY_HOST
from pyjms_provider.model.port import HttpPort, HttpPortAttributes
from pyjms_provider.serving.admission import log_who_comes_in
from pyjms_provider.serving.http_connection import HttpConnection, LimitedConfig
from pyjms_provider.transport.listener import bind
from pyjms_provider.transport.settings import ListenerKind, ListenerSettingsError
from pyjms_provider.transport.tls import make_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket
    from ssl import SSLContext

    from starlette.applications import Starlette
    from starlette.routing import Route

    from pyjms_provider.management.service import ManagementService
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.transport.service import NetworkService
    from pyjms_provider.transport.settings import ListenerSettings, TlsSettings

_log = logging.getLogger(__name__)
_START_S: Final = 10.0
_GRACE_S: Final = 2


class _Server(uvicorn.Server):
    """Tells when it has started and when it listens no more, limits handshakes, and leaves signals to the command."""

    def __init__(self, config: LimitedConfig) -> None:
        super().__init__(config)
        self._limited = config
        self._sockets: list[socket] = []
        self.ready: Future[None] = Future()
        self.silent: Future[None] = Future()
        forget_in_children(self)

    def forget(self) -> None:
        """Let go of the port and its connections, in a child of this process."""
        for each in self._sockets:
            let_go(each.fileno())
        for connection in self.server_state.connections:
            if not connection.transport.is_closing():  # else the number may be another file's by now
                let_go(connection.transport.get_extra_info("socket").fileno())

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to accept connections."""
        try:
            await super().startup([])  # which would give a handshake of TLS a minute
            await self._listen(sockets or [])
        except (Exception, CancelledError) as error:
            if self.ready.set_running_or_notify_cancel():
                self.ready.set_exception(error)
            raise
        if self.ready.set_running_or_notify_cancel():
            self.ready.set_result(None)
        else:  # it took too long: nobody knows of this server
            self._close_door(sockets)
            self.should_exit = True

    async def reload(self, context: SSLContext) -> None:
        """Accept with another certificate from now on; connections that are open stay.

        A server of asyncio keeps its own, so another one takes over the socket, in which clients wait meanwhile.
        """
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
        """Listen no more, and then wait for the requests that are being answered."""
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
        """Leave the process's signals alone."""
        yield


class HttpListeningPort:
    """Implements `OpenPort` with a uvicorn server on the broker's event loop."""

    def __init__(self, network: NetworkService, settings: ListenerSettings, app: Starlette) -> None:
        """Raises `ListenerSettingsError` if a file cannot be used, `ResourceError` if it cannot listen: then nothing does."""
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
        config.load()
        config.ssl = context
        self._network = network
        self._config = config
        self._server = _Server(config)
        listening = bind(settings)
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self._address = config.address = f"{'http' if context is None else 'https'}://{shown}:{port}"
        try:
            self._ended = network.run(self._server.serve(sockets=[listening]))
            self._await_start()
        except Exception:
            if not self._server.ready.cancelled():  # else the server closes it, as soon as it gets to it
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
        """Where it listens."""
        return (self._address,)

    @property
    def connections(self) -> int:
        """How many connections it has."""
        return len(self._server.server_state.connections)

    def reload_certificates(self, tls: TlsSettings) -> None:
        """Show what `tls` names to who connects from now on. Raises `ListenerSettingsError`: then nothing changes."""
        if self._config.ssl is None:
            raise ListenerSettingsError(f"{self._address} was opened without TLS; restart the port")
        self._network.run(self._server.reload(make_context(tls, ListenerKind.TCP))).result(_START_S)
        _log.info("PYJMS-HTTP-4 other certificates from now on: %s", self._address)

    def close(self, *, lingers: bool = False) -> None:
        """Listen no more; requests that are being answered have a moment to end.

        `lingers`: do not wait for them, as one of them may be what asks for this.
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
    """Return what opens an `HttpPort` on that network; `routes`: what it serves besides REST."""

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
        log_who_comes_in(port)
        return opened

    return opener
