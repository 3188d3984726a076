"""The broker in this process behind a guard, since the broker itself checks no credentials."""

from __future__ import annotations

from dataclasses import replace

from pyjms.spi.errors import AccessDeniedError
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, ProviderConnection
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.vm import VmProvider

__all__ = ["SCHEME", "WRONG", "GuardedProvider"]

SCHEME = "guarded"
WRONG = ("nobody", "wrong")
"""The credentials that it refuses."""


class GuardedProvider(VmProvider):
    """Connects all but one user."""

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        if request.user_name == WRONG[0]:
            raise AccessDeniedError("these credentials are refused")
        return super().connect(replace(request, url=replace(request.url, scheme="vm")), events)

    def stop_broker(self, url: ProviderUrl) -> None:
        super().stop_broker(replace(url, scheme="vm"))
