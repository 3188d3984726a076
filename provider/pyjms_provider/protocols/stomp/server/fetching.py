"""The message of a consumer that is not in memory: it is read on another thread, and the consumer goes on behind it.

A delivery whose message may have to be fetched is of a class of its own (`pyjms.spi.delivery`); most are plain ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.errors import GoneError, ProviderError

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.provider import ProviderSession
    from pyjms_provider.protocols.stomp.server.engine import StompServerEngine

__all__ = ["Fetching"]

_log = logging.getLogger(__name__)


class Fetching:
    """One message at a time. The connection's thread calls all but `drop`; nothing is called while the lock is held."""

    def __init__(
        self, engine: StompServerEngine, session: ProviderSession, ready: Callable[[], None], gone: Callable[[], None]
    ) -> None:
        """`ready` is called when `take` has the message; `gone` when there is none: it could not be read, and was set aside."""
        self._engine = engine
        self._session = session
        self._ready = ready
        self._gone = gone
        self._lock = Lock()
        self._found: Delivery | None = None
        self._is_unwanted = False
        self.is_busy = False
        """Whether a message is on its way: nothing may overtake it."""

    def begin(self, delivery: Delivery) -> None:
        """Have the message of `delivery` read."""
        self.is_busy = True
        self._is_unwanted = False
        self._engine.conduit.work(partial(_read, delivery), partial(self._done, delivery))

    def take(self) -> Delivery | None:
        """Return the delivery whose message has been read, once."""
        with self._lock:
            found, self._found = self._found, None
        return found

    def drop(self) -> bool:
        """Give back what has been read and not been taken, or is being read, as if it had never been delivered. Any thread.

        Returns whether there was any.
        """
        with self._lock:
            found, self._found = self._found, None
            self._is_unwanted = True
            is_any = found is not None or self.is_busy
        if found is not None:
            self._give_back(found)
        return is_any

    def _done(self, delivery: Delivery, _: None, error: BaseException | None) -> None:
        with self._lock:
            is_unwanted = self._is_unwanted
            goes_back = error is None and is_unwanted
            if error is None and not goes_back:
                self._found = delivery
        if self._engine.is_over:
            return  # all is given back with the session
        if goes_back:  # and what comes next must not overtake it
            self._engine.conduit.work(partial(self._give_back, delivery), self._given_back)
            return
        self.is_busy = False
        if error is None:
            self._ready()
        elif isinstance(error, GoneError):
            (self._ready if is_unwanted else self._gone)()
        elif isinstance(error, ProviderError):
            self._engine.refuse(None, error)
        else:
            self._engine.fail(error)

    def _given_back(self, _: None, error: BaseException | None) -> None:
        self.is_busy = False
        if error is not None:
            self._engine.fail(error)
        self._ready()

    def _give_back(self, delivery: Delivery) -> None:
        try:
            self._session.give_back_unseen([delivery])
        except ProviderError as error:
            _log.debug("a message went back with its session: %s", error.reason)


def _read(delivery: Delivery) -> None:
    """Raises `ProviderError`."""
    assert delivery.envelope is not None
