"""What the connections to plain brokers and to the pyjms broker have in common: a link that heals, and sessions that end with them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.errors import ClosedError
from pyjms.spi.provider import ProviderConnection
from pyjms_provider.clients.ending import Ending
from pyjms_provider.protocols.stomp.frames import Frame

if TYPE_CHECKING:
    from pyjms.spi.envelope import ConnectionId
    from pyjms.spi.errors import ConnectionLostError
    from pyjms.spi.provider import ConnectionEvents, ConnectRequest, ProviderSession
    from pyjms_provider.clients.stomp.link import ConnectionInterruptedError, Link
    from pyjms_provider.clients.stomp.options import StompSettings

__all__ = ["LinkedConnection"]


class LinkedConnection(ProviderConnection):
    """Implements half of `LinkOwner`. Whoever derives from it sets what is declared here."""

    link: Link
    _connection_id: ConnectionId

    def __init__(self, settings: StompSettings, request: ConnectRequest, events: ConnectionEvents) -> None:
        self.settings = settings
        self.clock = request.clock
        self.is_started = False
        """Whether messages may be polled."""
        self._events = events
        self._client_id = request.client_id
        self._credentials = {
            name: text
            for name, text in (("login", request.user_name), ("passcode", request.password))
            if text is not None
        }
        self._lock = Lock()
        self._numbers = count(1)
        self._closed = False
        self._ending = Ending()

    def _connect_headers(self) -> dict[str, str]:
        # STOMP 1.2 asks for `host`. Brokers that read it take it for a virtual host, and its absence for the default one.
        headers = {} if self.settings.virtual_host is None else {"host": self.settings.virtual_host}
        headers.update(self._credentials)
        if self._client_id is not None:
            headers["client-id"] = self._client_id
        return headers

    @property
    def connection_id(self) -> ConnectionId:
        return self._connection_id

    @property
    def state(self) -> str:
        """``connected``, ``reconnecting``, ``lost`` or ``closed``."""
        return self.link.state.value

    def abort(self) -> bool:
        self.link.abort()
        return True

    def close(self) -> None:
        self._ending.do(self._shut_down)

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            sessions = self._open_sessions()
        for session in sessions:
            session.close()
        self.link.close(Frame("DISCONNECT", {}))

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the connection is closed")
        self.link.check_open()

    def on_interrupted(self, error: ConnectionInterruptedError) -> None:
        """Forget what the broker has again, and tell the client."""
        self._end_epoch()
        self._events.on_exception(error)

    def on_lost(self, error: ConnectionLostError) -> None:
        """Tell the client."""
        self._end_epoch()
        self._events.on_exception(error)

    @abstractmethod
    def _open_sessions(self) -> Sequence[ProviderSession]:
        """Return the sessions that have not been closed. The lock is held."""

    @abstractmethod
    def _end_epoch(self) -> None:
        """Have sessions and consumers forget what the broker has again."""
