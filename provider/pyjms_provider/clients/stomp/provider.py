"""The providers of ``stomp://``, ``stomps://`` and ``stomp+ws://``."""

from __future__ import annotations

from pyjms.spi.provider import ConnectionEvents, ConnectRequest, Provider
from pyjms_provider.clients.stomp.connection import StompConnection
from pyjms_provider.clients.stomp.options import read_url

__all__ = ["StompProvider"]


class StompProvider(Provider):
    """Connects to brokers over STOMP 1.2; which kind of connection, the scheme says."""

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> StompConnection:
        return StompConnection(read_url(request.url), request, events)
