"""Which layers a connection gets: by its listener's settings and, where one port serves both, by its first byte
(BJ-TLS-1 … 3).
"""

from __future__ import annotations

from ssl import SSLContext
from typing import Final

from pyjms_provider.transport.layers import Layer, Stack
from pyjms_provider.transport.settings import ListenerKind, ListenerSettings
from pyjms_provider.transport.tls import TlsLayer

__all__ = ["ChosenLayer", "choose_layer"]

ChosenLayer = tuple[Layer | None, bool]
"""The layer below the engine, None for nothing, and whether it has TLS."""

_TLS_HANDSHAKE: Final = 22
"""The type of a TLS record that begins a handshake (RFC 8446 §5.1): no letter, so no other protocol begins with it."""


def choose_layer(settings: ListenerSettings, context: SSLContext | None, first: bytes) -> ChosenLayer:
    """Return what to put below the engine; `first` counts only where one port serves plain and TLS."""
    is_secure = context is not None and (not settings.plain_and_tls or first[:1] == bytes((_TLS_HANDSHAKE,)))
    layer: Layer | None = None
    if settings.kind is ListenerKind.WEB_SOCKET:
        from pyjms_provider.transport.websocket import WebSocketLayer

        layer = WebSocketLayer(settings.websocket)
    if is_secure and context is not None:
        tls = TlsLayer(context)
        layer = tls if layer is None else Stack(tls, layer)
    return layer, is_secure
