"""Temporary destinations of a plain STOMP client: its own names for them, and the broker's."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.errors import ResourceError
from pyjms_provider.protocols.stomp.dialects import PYJMS

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.stomp.server.hosts import Guard

__all__ = ["Temporaries"]


class Temporaries:
    """A name after ``/temp-queue/`` is the connection's own, unless it is that of another one's destination."""

    def __init__(self, connection: ProviderConnection, guard: Guard, most: int) -> None:
        self._connection = connection
        self._guard = guard
        self._most = most
        self._lock = Lock()
        self._real: dict[Address, Address] = {}
        self._own: dict[Address, Address] = {}

    def resolve(self, named: Address) -> Address:
        """Return the destination that the client means, made now if it is new.

        Raises `AccessDeniedError`, `ResourceError`.
        """
        real = self._real.get(named)
        if real is not None:
            return real
        if self._guard.host.has(named):
            return named
        if len(self._real) >= self._most:
            raise ResourceError(f"a connection may have {self._most} temporary destinations here")
        self._guard.create(named)
        made = self._connection.create_temporary(named.kind)
        with self._lock:
            real = self._real.setdefault(named, made)
            self._own[real] = named
        return real

    def shown(self, real: Address) -> str:
        """Return what the client calls it."""
        return PYJMS.destinations.write_reply_to(self._own.get(real, real))
