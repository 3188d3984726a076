"""The providers of ``stomp://``, ``stomps://`` and ``stomp+ws://``."""

from __future__ import annotations

from pyjms.spi.provider import ConnectionEvents, ConnectRequest, Provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.stomp.foreign.connection import ForeignConnection
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from pyjms_provider.clients.stomp.options import read_url
from pyjms_provider.protocols.stomp.dialects import PYJMS


class StompProvider(Provider):
    """Connects to brokers over STOMP 1.2: the scheme selects the transport, the broker's dialect the native or the foreign driver."""

    def check_url(self, url: ProviderUrl) -> None:
        read_url(url)

    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        settings = read_url(url)
        return tuple(f"{settings.scheme}://{str(each).lower()}" for each in settings.endpoints)

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ForeignConnection | NativeConnection:
        settings = read_url(request.url)
        if settings.dialect not in {None, PYJMS.name}:
            return ForeignConnection(settings, request, events)
        connection = NativeConnection(settings, request, events)
        if connection.is_native:
            return connection
        return ForeignConnection(settings, request, events, connection.link)
