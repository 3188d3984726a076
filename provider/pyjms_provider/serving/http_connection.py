"""One connection of an http port, within the limits of the port: uvicorn knows none for who never sends a whole request."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from pyjms_provider.transport.settings import ListenerSettings

__all__ = ["HttpConnection", "LimitedConfig"]


class LimitedConfig(uvicorn.Config):
    """What the connections of one port have in common."""

    def __init__(self, app: Any, listener: ListenerSettings, **options: Any) -> None:
        super().__init__(app, http=HttpConnection, **options)
        self.listener = listener
        self.per_address: Counter[str] = Counter()
        """How many connections each address has; on the event loop."""


class HttpConnection(H11Protocol):
    """Hangs up on who comes too often, or takes longer for a whole request than for a log-in."""

    _address: str | None = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Count the connection, and hang up at once if there are too many."""
        super().connection_made(transport)
        config = self._limited
        self._address = "" if self.client is None else self.client[0]
        config.per_address[self._address] += 1
        most, most_each = config.listener.max_connections, config.listener.max_connections_per_address
        if (most is not None and len(self.connections) > most) or (
            most_each is not None and config.per_address[self._address] > most_each
        ):
            transport.abort()
            return
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        if self._address is not None:
            self._limited.per_address[self._address] -= 1
            if not self._limited.per_address[self._address]:
                del self._limited.per_address[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait on if that was not the rest of a request."""
        super().data_received(data)
        if self.conn.their_state in {h11.IDLE, h11.SEND_BODY}:
            self._await_request()
        else:
            self._stop_waiting()

    @property
    def _limited(self) -> LimitedConfig:
        assert isinstance(self.config, LimitedConfig)
        return self.config

    def _await_request(self) -> None:
        if self._deadline is None:
            wait_s = self._limited.listener.login_timeout_ms / 1000
            self._deadline = self.loop.call_later(wait_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()
