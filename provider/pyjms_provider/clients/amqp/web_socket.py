"""The provider of ``amqp+ws://`` and ``amqp+wss://``: AMQP over WebSocket (OASIS, AMQP WebSocket Binding 1.0)."""

from __future__ import annotations

from typing import Final

from pyjms_provider.clients.amqp.options import AmqpSettings
from pyjms_provider.clients.amqp.provider import AmqpProvider
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.sockets import ClientSocket, has_words
from pyjms_provider.clients.network.web_sockets import NO_WEB_SOCKET, open_web_socket

_SUBPROTOCOL: Final = "amqp"


class AmqpWebSocketProvider(AmqpProvider):
    """Connects to brokers over AMQP 1.0 in the messages of a WebSocket."""

    def open_socket(self, settings: AmqpSettings, endpoint: Endpoint) -> ClientSocket:
        return open_web_socket(endpoint, settings.path, _SUBPROTOCOL, settings.tls, settings.connect_timeout_ms)

    def advice(self, settings: AmqpSettings, endpoint: Endpoint, why: str) -> str:
        if has_words(why, NO_WEB_SOCKET):
            plain = "amqps" if settings.tls is not None else "amqp"
            return f"; does it open WebSockets at {settings.path}? For a port of plain AMQP write {plain}://{endpoint}"
        return super().advice(settings, endpoint, why)
