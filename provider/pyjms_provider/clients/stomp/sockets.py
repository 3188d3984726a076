"""Sockets that stomp.py opens for the client: TCP, TLS and WebSocket; and advice when one cannot be opened, or was closed."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import sys
from typing import Any, Final

from stomp.adapter.ws import WSTransport
from stomp.exception import ConnectFailedException
from stomp.transport import Transport
from websocket import WebSocketException

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.words import said_by_system
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.sockets import (
    ClientSocket,
    TlsSocket,
    check_files,
    has_words,
    no_broker_advice,
    tls_advice,
)
from pyjms_provider.clients.network.web_sockets import NO_WEB_SOCKET, BoundedWebSocket, WebSocketSocket
from pyjms_provider.clients.stomp.options import StompSettings

_NO_ANSWER: Final = "before it answered"


def advice(scheme: str, endpoint: Endpoint, why: str) -> str:
    """Return advice on `why` no connection was made, to be appended to it; empty if there is none."""
    if nobody := no_broker_advice(why):
        return nobody
    if scheme == "stomps":
        return tls_advice(endpoint, why, "stomp")
    if scheme == "stomp+ws":
        if has_words(why, NO_WEB_SOCKET):
            return f"; does it open WebSockets there, without TLS? For a port of plain STOMP write stomp://{endpoint}"
    elif _NO_ANSWER in why:
        return f"; does it speak STOMP there, without TLS? For a port with TLS write stomps://{endpoint}"
    return ""


# Connected sockets, with TLS or as a WebSocket, that stomp.py opens and a `PhysicalConnection` then owns.
#
# Only this module uses stomp.py. It uses the part that makes connections, and guards against the rest; docs/decisions has the
# reasons:
#
# - it tries once, at the given endpoint only; with TLS, the socket is checked to be TLS, for exactly that host;
# - the error of a failed attempt is kept when stomp.py drops it, since that only logs it;
# - no host names are looked up at import; TCP_NODELAY is set.

# Before stomp.py is imported: it asks a resolver, which may be slow.
os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")


_log = logging.getLogger("pyjms.stomp")


class _Failures:
    """Keeps the error of a failed attempt, and ends the attempt with it.

    stomp.py only logs the error, which a logger's level or `logging.disable` may suppress, and then computes a pause, with the program's
    random numbers, for an attempt that it does not make. While it handles the error it sets `socket` to None: the setter finds the error.
    """

    failure: BaseException | None = None
    running = False
    _made: Any = None

    @property
    def socket(self) -> Any:
        """The connected socket; None: not yet."""
        return self._made

    @socket.setter
    def socket(self, made: Any) -> None:
        self._made = made
        if made is None and self.running:
            self.failure = sys.exc_info()[1]
            raise ConnectFailedException from self.failure


class _TcpTransport(_Failures, Transport):  # type: ignore[misc]  # stomp.py has no types
    pass


class _WebSocketTransport(_Failures, WSTransport):  # type: ignore[misc]  # stomp.py has no types
    def __init__(self, endpoint: Endpoint, settings: StompSettings) -> None:
        super().__init__(host_and_ports=[(endpoint.host, endpoint.port)], auto_decode=False)
        self._url = f"ws://{endpoint}{settings.path}"
        self._timeout_ms = settings.connect_timeout_ms

    def attempt_connection(self) -> None:
        """Connect, and do the handshake, within the time limit. Raises `ConnectFailedException`."""
        made = BoundedWebSocket()
        made.until_ms = SystemClock().monotonic_ms() + self._timeout_ms
        made.settimeout(self._timeout_ms / 1000)
        try:
            made.connect(self._url, header=["Sec-WebSocket-Protocol: v12.stomp"])  # type: ignore[no-untyped-call]  # it has no types
        except (OSError, WebSocketException) as error:
            self.failure = error
            raise ConnectFailedException from error
        made.unbind()
        self.socket = made


def connect(endpoint: Endpoint, settings: StompSettings) -> ClientSocket:
    """Connect, with the handshakes of TLS and WebSocket. Raises `ResourceError`."""
    transport = _transport(endpoint, settings)
    transport.running = True
    try:
        transport.attempt_connection()
    except ConnectFailedException as error:
        failure = transport.failure or error
        why = said_by_system(failure)
        raise ResourceError(f"no connection to {endpoint}: {why}{advice(settings.scheme, endpoint, why)}") from failure
    return _guarded(transport, endpoint, settings)


def _transport(endpoint: Endpoint, settings: StompSettings) -> Any:
    """Return stomp.py's transport, with its own retries turned off."""
    if settings.scheme == "stomp+ws":
        return _WebSocketTransport(endpoint, settings)
    place = (endpoint.host, endpoint.port)
    arguments: dict[str, Any] = {
        "host_and_ports": [place],
        "prefer_localhost": False,
        "try_loopback_connect": False,  # it would connect to a place for which no TLS was set
        "reconnect_attempts_max": 1,
        "reconnect_sleep_initial": 0,
        "timeout": settings.connect_timeout_ms / 1000,
        "auto_decode": False,
    }
    transport = _TcpTransport(**arguments)
    if settings.tls is not None:
        tls = settings.tls
        if not tls.verify:
            _log.warning("PYJMS-TLS verify=no: nobody checks that %s is who it says; use ca_file= instead", endpoint)
        check_files(tls)  # stomp.py would try again without end, or name no file
        transport.set_ssl(
            for_hosts=[place],
            key_file=tls.key_file,
            cert_file=tls.certificate_file,
            ca_certs=tls.ca_file,
            verify=tls.verify,
        )
    return transport


def _guarded(transport: Any, endpoint: Endpoint, settings: StompSettings) -> ClientSocket:
    """Return the socket that stomp.py made, checked to be of the kind that was asked for. Raises `ResourceError`."""
    made = transport.socket
    if settings.scheme == "stomp+ws":
        connected: ClientSocket = WebSocketSocket(made)
        plain = made.sock
    elif settings.tls is None:
        connected, plain = ClientSocket(made), made
    else:
        if not isinstance(made, ssl.SSLSocket):
            made.close()
            raise ResourceError(f"the connection to {endpoint} is not encrypted though stomps:// asks for it")
        transport.shutdown_queue()
        connected, plain = TlsSocket(made), made
    # Frames are written whole: Nagle's algorithm would only hold back the last part of each.
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
