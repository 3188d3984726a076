"""Temporary destinations of a plain STOMP client: its own names for them, and the broker's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyjms.spi.errors import DestinationError, ResourceError
from pyjms_provider.protocols.stomp.dialects import PYJMS

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.stomp.server.hosts import Guard

__all__ = ["Temporaries"]

_is_brokers_name = re.compile(r".+-[0-9a-f]{12}-[0-9]+-[0-9]+", re.DOTALL).fullmatch
"""Whether a broker has made a destination of this name, now or in an earlier run: what names it is no client's own."""


class Temporaries:
    """A name after ``/temp-queue/`` is the connection's own, unless it is that of another one's destination.

    The connection's lane makes and finds them, one after the other; any thread may ask what is `shown`.
    """

    def __init__(self, connection: ProviderConnection, guard: Guard, most: int) -> None:
        self._connection = connection
        self._guard = guard
        self._most = most
        self._real: dict[Address, Address] = {}
        self._own: dict[Address, Address] = {}

    def resolve(self, named: Address) -> Address:
        """Return the destination that the client means, made now if it is new and the client's own.

        Raises `AccessDeniedError`, `ResourceError`.
        """
        real = self._real.get(named)
        if real is not None:
            return real
        if self._guard.host.has(named) or _is_brokers_name(named.name):
            return named
        if len(self._real) >= self._most:
            raise ResourceError(f"a connection may have {self._most} temporary destinations here")
        self._guard.create(named)
        real = self._real[named] = self._connection.create_temporary(named.kind)
        self._own[real] = named
        return real

    def find(self, named: Address) -> Address | None:
        """Return the destination that a message is for; None: it was another connection's, and has gone.

        Raises `DestinationError`: the client has not made it.
        """
        real = self._real.get(named)
        if real is not None:
            return real
        if self._guard.host.has(named):
            return named
        if _is_brokers_name(named.name):
            return None
        raise DestinationError(
            f"there is no {named}: SUBSCRIBE to it, or name it in reply-to, before anything is sent there"
        )

    def shown(self, real: Address) -> str:
        """Return what the client calls it."""
        return PYJMS.destinations.write_reply_to(self._own.get(real, real))
