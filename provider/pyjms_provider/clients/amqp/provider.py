"""The provider of ``amqp://`` and ``amqps://``."""

from __future__ import annotations

import logging
from functools import partial

from pyjms.spi.errors import ResourceError
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, Provider
from pyjms.spi.url import ProviderUrl
from pyjms.spi.words import said_by_system
from pyjms_provider.clients.amqp.connection import AmqpConnection
from pyjms_provider.clients.amqp.options import AmqpSettings, read_url
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.sockets import ClientSocket, no_broker_advice, open_socket, tls_advice

_log = logging.getLogger("pyjms.amqp")


class AmqpProvider(Provider):
    """Connects to brokers over AMQP 1.0; the scheme selects the transport, what the broker says of itself its profile."""

    def check_url(self, url: ProviderUrl) -> None:
        read_url(url)

    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        settings = read_url(url)
        return tuple(f"{settings.scheme}://{str(each).lower()}" for each in settings.endpoints)

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> AmqpConnection:
        settings = read_url(request.url)
        if settings.tls is not None and not settings.tls.verify:
            _log.warning(
                "PYJMS-TLS verify=no: nobody checks that %s is who it says; use ca_file= instead",
                settings.endpoints[0],
            )
        return AmqpConnection(settings, request, events, partial(self._open_told, settings))

    def _open_told(self, settings: AmqpSettings, endpoint: Endpoint) -> ClientSocket:
        """Open a socket. Raises `ResourceError` with advice."""
        try:
            return self.open_socket(settings, endpoint)
        except OSError as error:
            why = said_by_system(error)
            advice = no_broker_advice(why) or self.advice(settings, endpoint, why)
            raise ResourceError(f"no connection to {endpoint}: {why}{advice}") from error

    def open_socket(self, settings: AmqpSettings, endpoint: Endpoint) -> ClientSocket:
        """Open a socket. Raises `OSError`, `ResourceError`."""
        return open_socket(endpoint, settings.tls, settings.connect_timeout_ms)

    def advice(self, settings: AmqpSettings, endpoint: Endpoint, why: str) -> str:
        """Return advice on `why` no socket was opened; empty: there is none."""
        return (
            ""
            if settings.tls is None
            else tls_advice(endpoint, why, settings.scheme.replace("wss", "ws").replace("amqps", "amqp"))
        )
