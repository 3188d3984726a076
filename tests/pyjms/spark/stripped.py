"""A provider that lacks what another one has: a foreign broker, as far as Spark can tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyjms.spi.capability import Capability
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, Provider, ProviderConnection
from pyjms.spi.registry import find_provider, register_provider
from pyjms.spi.url import ProviderUrl


class _Stripped(Provider):
    def __init__(self, inner_url: str, without: Capability) -> None:
        self._url = ProviderUrl.parse(inner_url)
        self._without = without

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        inner = ConnectRequest(
            url=self._url, user_name=None, password=None, client_id=request.client_id, clock=request.clock
        )
        connection = find_provider(self._url.scheme).connect(inner, events)
        return _strip(connection, connection.capabilities & ~self._without)


def _strip(connection: ProviderConnection, left: Capability) -> ProviderConnection:
    """Return `connection` as one of a class that declares less."""
    kind = type(connection)
    stripped: Any = type(
        f"Stripped{kind.__name__}", (kind,), {"__slots__": (), "capabilities": property(lambda _: left)}
    )
    connection.__class__ = stripped
    return connection


@contextmanager
def foreign(inner_url: str, without: Capability) -> Iterator[str]:
    """Give a URL of the same broker by which it has not the capabilities `without`."""
    register_provider("foreign", _Stripped(inner_url, without))
    try:
        yield "foreign://broker"
    finally:
        register_provider("foreign", None)
