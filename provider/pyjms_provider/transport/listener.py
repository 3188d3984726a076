"""A listener: accepts connections at a port, within limits, and closes them in an orderly way."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final, Protocol

from pyjms.spi.clock import Clock
from pyjms.spi.errors import ResourceError
from pyjms_provider.forks import forget_in_children, let_go
from pyjms_provider.protocols.engine import ProtocolEngine, TransportContext
from pyjms_provider.transport.connection import Connection, Trace
from pyjms_provider.transport.layers import Layer, Stack
from pyjms_provider.transport.reports import RareReports, Report
from pyjms_provider.transport.scheduler import Scheduler, Timers
from pyjms_provider.transport.settings import ListenerKind, ListenerSettings, ListenerSettingsError, TlsSettings
from pyjms_provider.transport.tls import TlsLayer, make_context
from pyjms_provider.transport.workers import WorkerPool

if sys.platform != "win32":  # Windows has no such limit
    import resource


KEPT: Final = 64
"""The number of files that connections of clients leave free; if the limit is small, a quarter of it. The stores of a virtual host need some twenty."""
KEPT_FROM_OPERATORS: Final = 32
"""The number of these files that connections of operators leave free, too."""


def is_kept(descriptor: int, kept: int = KEPT) -> bool:
    """Return whether a new connection uses one of the last files that this process may open. The system assigns the lowest free descriptor."""
    if sys.platform == "win32":
        return False
    # Read each time, as the limit may be changed while the broker runs (setrlimit, prlimit).
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most != resource.RLIM_INFINITY and descriptor >= most - min(kept, most * kept // KEPT // 4)


ChosenLayer = tuple[Layer | None, bool]
"""The layer below the engine, or None, and whether the connection uses TLS."""

_TLS_HANDSHAKE: Final = 22
"""The type of a TLS record that begins a handshake (RFC 8446 §5.1): no letter, so no other protocol begins with it."""


def choose_layer(settings: ListenerSettings, context: SSLContext | None, first: bytes) -> ChosenLayer:
    """Choose the layer below the engine; `first`, the first bytes, matters only if one port serves plain and TLS connections."""
    is_secure = context is not None and (not settings.plain_and_tls or first[:1] == bytes((_TLS_HANDSHAKE,)))
    layer: Layer | None = None
    if settings.kind is ListenerKind.WEB_SOCKET:
        # Imported here, as the library websockets is optional.
        from pyjms_provider.transport.websocket import WebSocketLayer

        layer = WebSocketLayer(settings.websocket)
    if is_secure and context is not None:
        tls = TlsLayer(context)
        layer = tls if layer is None else Stack(tls, layer)
    return layer, is_secure


# Many new clients must not keep the connected ones from their turns.
_ACCEPTS: Final = 32  # in one turn
_BACK_OFF_S: Final = 0.2
_WEB_SOCKET_READ: Final = 8 * 2**10
_GONE: Final = (ConnectionAbortedError, ConnectionResetError)

EngineFactory = Callable[[TransportContext], ProtocolEngine]


class Services(Protocol):
    """The part of the network service that its listeners need."""

    clock: Clock
    scheduler: Scheduler
    timers: Timers
    workers: WorkerPool
    trace: Trace | None

    def begin_close(self, listener: Listener, graceful_s: float) -> Future[None]:
        """Begin to close one of its listeners."""
        ...

    def close(self, listener: Listener, graceful_s: float) -> None:
        """Close one of its listeners."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatistics:
    """Counters of a listener since it was opened."""

    accepted: int
    refused: int
    """Connections closed immediately because there were too many."""
    bytes_in: int
    bytes_out: int


def bind(settings: ListenerSettings) -> socket.socket:
    """Return a listening socket for `settings`. Raises `ResourceError`."""
    where = f"{settings.host}:{settings.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            # A restarted broker must not wait for its old connections in TIME_WAIT.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(settings.backlog)
            listening.setblocking(False)
        except Exception:
            listening.close()
            raise
    except OSError as error:
        raise ResourceError(f"cannot listen at {where}: {error.strerror or error}; {_advice(error)}") from error
    return listening


def is_reached_from_elsewhere(host: str) -> bool:
    """Return whether other machines could reach a listener at `host`; also True if no address is found for it."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        # The safe answer: callers warn of a port that admits everybody, or refuse it.
        return True
    return not all(_is_loopback(str(address[0])) for *_, address in found)


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def _read_size(settings: ListenerSettings) -> int:
    """Return the size of one read."""
    # A WebSocket frame of no or one byte costs some 40 µs: 64 KiB of these would keep the loop busy for 400 ms.
    if settings.kind is ListenerKind.WEB_SOCKET:
        return min(settings.read_buffer_bytes, _WEB_SOCKET_READ)
    return settings.read_buffer_bytes


def _advice(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "write an address of this machine in place of a name that cannot be resolved"
    advice = {
        errno.EADDRINUSE: "another program listens there: stop it, or choose another port, or 0 for any that is free",
        errno.EADDRNOTAVAIL: "this machine has no such address: use one of its own, or 127.0.0.1",
        errno.EACCES: "ports below 1024 need a privilege: choose a higher one",
    }
    return advice.get(error.errno or 0, "choose another address or port")


class Listener:
    """An open port. Created by `NetworkService.open`; its public methods may be called from any thread."""

    def __init__(
        self, settings: ListenerSettings, services: Services, make: EngineFactory, listening: socket.socket
    ) -> None:
        self.settings = settings
        self.clock = services.clock
        self.scheduler = services.scheduler
        self.timers = services.timers
        self.workers = services.workers
        self.trace = services.trace
        self.reports = RareReports(services.clock)
        self.buffer = memoryview(bytearray(_read_size(settings)))
        self.bytes_in = 0
        self.bytes_out = 0
        self._services = services
        self._make = make
        self._socket = listening
        host, port = listening.getsockname()[:2]
        self._port: int = port
        self._host = f"[{host}]" if ":" in host else host
        self._context = None if settings.tls is None else make_context(settings.tls, settings.kind)
        self._connections: dict[Connection, tuple[str, socket.socket]] = {}
        """For each connection the peer's address, and the socket, which the loop closes."""
        self._arriving: set[asyncio.Task[None]] = set()
        self._per_address: Counter[str] = Counter()
        self._accepted = 0
        self._refused = 0
        self._is_closed = False
        self._empty = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # ------------------------------------------------------------------------------------------------- public interface

    @property
    def port(self) -> int:
        """The number of the port; if 0 was configured, the one that the system has chosen."""
        return self._port

    @property
    def url(self) -> str:
        """The URL for clients; if the port serves only TLS, that with TLS."""
        return self.urls[0]

    @property
    def urls(self) -> tuple[str, ...]:
        """All URLs: two if the port serves plain and TLS connections."""
        settings = self.settings
        if settings.tls is None:
            return (self.url_of(is_secure=False),)
        secure = self.url_of(is_secure=True)
        return (self.url_of(is_secure=False), secure) if settings.plain_and_tls else (secure,)

    @property
    def connection_count(self) -> int:
        """The number of connections, including those in their handshake."""
        return len(self._connections)

    @property
    def statistics(self) -> ListenerStatistics:
        """The counters of the listener."""
        return ListenerStatistics(
            accepted=self._accepted, refused=self._refused, bytes_in=self.bytes_in, bytes_out=self.bytes_out
        )

    def reload_tls(self, tls: TlsSettings) -> None:
        """Read certificate, key and trusted authorities again, for new connections.

        Raises `ListenerSettingsError` if that fails, or if the listener was opened without TLS; then nothing changes.
        """
        if self._context is None:
            raise ListenerSettingsError(f"{self.url} was opened without TLS; restart the port")
        self._context = make_context(tls, self.settings.kind)
        Report.CERTIFICATES.log("%s", self.url)

    def begin_close(self, graceful_s: float = 5.0) -> Future[None]:
        """Stop accepting, ask the engines to stop, and close the connections that are still open after `graceful_s` seconds.

        The future is done when all connections have ended. Any thread; never blocks; may be repeated.
        """
        return self._services.begin_close(self, graceful_s)

    def close(self, graceful_s: float = 5.0) -> None:
        """Call `begin_close`, and wait for it, little longer than `graceful_s`. Not on the network's own thread."""
        self._services.close(self, graceful_s)

    # ---------------------------------------------------------------------------------------------------- for connections

    def url_of(self, *, is_secure: bool) -> str:
        """Return the URL for clients with, or without, TLS."""
        settings = self.settings
        scheme = settings.secure_scheme if is_secure else settings.scheme
        path = settings.websocket.path if settings.kind is ListenerKind.WEB_SOCKET else ""
        return f"{scheme}://{self._host}:{self._port}{path}"

    def make_layer(self, first: bytes) -> ChosenLayer:
        """Choose the layer below the engine by the first bytes; return it, and whether the connection uses TLS."""
        return choose_layer(self.settings, self._context, first)

    def make_engine(self, connection: Connection) -> ProtocolEngine:
        """Create the engine of a connection."""
        return self._make(connection)

    def ended(self, connection: Connection) -> None:
        """Remove an ended connection."""
        host, _ = self._connections.pop(connection)
        self._leave(host)

    def forget(self) -> None:
        """Release the port and its connections in a child process."""
        let_go(self._socket.fileno())
        for _, taken in self._connections.values():
            let_go(taken.fileno())

    # ----------------------------------------------------------------------------------------------------- on the loop

    def start(self) -> None:
        """Start accepting connections."""
        forget_in_children(self)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._accept)
        Report.LISTENING.log("%s", " and ".join(self.urls))
        if (self.settings.tls is None or self.settings.plain_and_tls) and not _is_loopback(self._host.strip("[]")):
            Report.UNPROTECTED.log("%s", self.url)

    async def stop(self, graceful_s: float) -> None:
        """Close the listener, as `begin_close` describes."""
        # First, so that no client connects while the others are disconnected.
        self._stop_accepting()
        for connection in list(self._connections):
            connection.stop("the broker closes this port")
        try:
            await asyncio.wait_for(self._until_empty(), graceful_s)
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()
            await self._until_empty()

    def cut(self) -> None:
        """Stop accepting, and end all connections without a word to their clients, as the death of the process does."""
        self._stop_accepting()
        for connection in list(self._connections):
            connection.abort()

    async def _until_empty(self) -> None:
        while self.connection_count:
            self._empty.clear()
            await self._empty.wait()

    def _stop_accepting(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        assert self._loop is not None, "start has been called"
        self._loop.remove_reader(self._socket)
        self._socket.close()
        if self._retry is not None:
            self._retry.cancel()
        Report.CLOSED.log("%s", self.url)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                incoming, address = self._socket.accept()
            except BlockingIOError:
                # The system's backlog is empty; the loop calls again for the next client.
                return
            except _GONE:
                continue  # the client has disconnected in the meantime
            except OSError as error:
                self._back_off(error)
                return
            self._welcome(incoming, address[0], address[1])

    def _back_off(self, error: OSError) -> None:
        """Stop watching the socket for a moment: the loop would immediately report the connection that cannot be accepted now."""
        self.reports.log(Report.ACCEPT_FAILED, "%s: %s", self.url, error)
        loop = self._loop
        assert loop is not None, "connections are accepted only after the start"
        loop.remove_reader(self._socket)
        self._retry = loop.call_later(_BACK_OFF_S, loop.add_reader, self._socket, self._accept)

    def _welcome(self, incoming: socket.socket, host: str, port: int) -> None:
        settings = self.settings
        # First, as even a client within the limits must leave the last files to stores and operators.
        if is_kept(incoming.fileno()):
            self._refused += 1
            self.reports.log(Report.FEW_FILES, "%s at %s", host, self.url)
            incoming.close()
            return
        full = settings.max_connections is not None and self.connection_count >= settings.max_connections
        limit = settings.max_connections_per_address
        if full or (limit is not None and self._per_address[host] >= limit):
            self._refused += 1
            self.reports.log(Report.TOO_MANY if full else Report.TOO_MANY_OF_ONE, "%s at %s", host, self.url)
            incoming.close()
            return
        self._accepted += 1
        self._per_address[host] += 1
        connection = Connection(self, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        self._connections[connection] = host, incoming
        assert self._loop is not None, "connections are accepted only after the start"
        # Stored in a set, as the loop itself has only weak references to its tasks.
        task = self._loop.create_task(self._arrive(connection, incoming))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _arrive(self, connection: Connection, incoming: socket.socket) -> None:
        try:
            incoming.setblocking(False)
            # The engine's bytes are already combined: Nagle's algorithm would only delay the last ones.
            incoming.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Keep-alive detects a vanished peer if no heart-beats were negotiated.
            incoming.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            assert self._loop is not None, "connections are accepted only after the start"
            await self._loop.connect_accepted_socket(lambda: connection, incoming)
        except OSError as error:
            Report.DISCONNECTED.log("a client of %s has gone already: %s", self.url, error)
            # `connection_lost` is not called for a socket that the loop has not accepted.
            incoming.close()
            self.ended(connection)

    def _leave(self, host: str) -> None:
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]
        if not self._connections:
            self._empty.set()
