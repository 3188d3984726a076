"""What stands in place of a provider's connection, sessions and consumers once a signal has interrupted a call of theirs in its midst."""

from __future__ import annotations

import logging
from _thread import start_new_thread
from collections.abc import Callable
from typing import Any, Final, NoReturn

from pyjms.spi.capability import Capability
from pyjms.spi.errors import ConnectionLostError, ProviderError
from pyjms.spi.provider import ProviderConnection

__all__ = ["REASON", "Poisoned", "close_later"]

_log = logging.getLogger("pyjms.spi")

REASON: Final = (
    "a second signal interrupted a call that did not answer, so this connection was given up: what that call did is not known, "
    "unacknowledged messages come again, and the program has to make another connection"
)


class Poisoned:
    """Raises `ConnectionLostError` for each call of the SPI but those that end something: there is nothing left to end.

    One object stands for the connection, its sessions and its consumers alike.
    """

    def __init__(self, error: ConnectionLostError, connection: ProviderConnection) -> None:
        self._error = error
        self.connection_id = connection.connection_id
        self.capabilities = connection.capabilities
        self.info = connection.info
        self.resource_manager = connection.resource_manager
        self.state = "lost"

    def advice(self, _: Capability) -> str:
        """Advise nothing."""
        return ""

    def close(self) -> None:
        """Do nothing: `close_later` does it."""

    def end_waits(self) -> None:
        """Do nothing: the close ends them."""

    def set_interested(self, _: bool) -> None:
        """Do nothing: nothing comes."""

    def take_unreturned(self) -> None:
        """Return nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ConnectionLostError(self._error.reason) from self._error


def close_later(connection: ProviderConnection, before: Callable[[], object]) -> None:
    """Call `before` and close the provider's connection, in another thread: that waits for as long as the interrupted call would have.

    For the handler of a signal: `Thread.start` takes locks that its own thread may hold.
    """
    start_new_thread(_close, (connection, before))


def _close(connection: ProviderConnection, before: Callable[[], object]) -> None:
    before()
    try:
        connection.close()
    except ProviderError as error:
        _log.warning(
            "%s a connection whose call a signal had interrupted could not be closed: %s", error.code, error.reason
        )
