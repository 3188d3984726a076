"""The connection of a server of a queue: made by the serving thread, closed by the thread that stops the server."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from pyjms.errors import IllegalStateException, JMSException

if TYPE_CHECKING:
    from pyjms.api.connection import Connection
    from pyjms.runtime.factory import ConnectionFactory

_log = logging.getLogger("pyjms.recoverable")


class PresentConnection:
    """One connection at a time, and none once `stopped` is set. `open` is for one thread, `close` for any."""

    def __init__(self, factory: ConnectionFactory, stopped: threading.Event) -> None:
        """`stopped`: who sets it calls `close` afterwards."""
        self._factory = factory
        self._stopped = stopped
        self._guard = threading.Lock()
        self._connection: Connection | None = None

    def open(self) -> Connection:
        """Connect. Raises `IllegalStateException` when it was stopped, also meanwhile; and what `create_connection` does."""
        connection = self._factory.create_connection()
        with self._guard:
            self._connection = connection
        if self._stopped.is_set():  # in the meantime, so that there was nothing to close
            self.close()
            raise IllegalStateException("it was stopped, so it connects no more: make another one")
        return connection

    def close(self) -> None:
        """Close the connection, if there is one; what is not committed is rolled back. May be repeated."""
        with self._guard:
            connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except JMSException as error:
                _log.warning("a connection did not close well: %s", error)
