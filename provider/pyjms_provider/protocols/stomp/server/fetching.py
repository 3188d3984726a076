"""What a consumer has to wait for: a message that is not in memory, or one that its selector has yet to find.

It is read, or looked for, on another thread, and the consumer goes on behind it. A delivery whose message may have to be fetched
is of a class of its own (`pyjms.spi.delivery`), and so is what says that a search takes a while; most deliveries are plain ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Literal

from pyjms.spi.delivery import Delivery, Elsewhere
from pyjms.spi.errors import GoneError, ProviderError

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConsumer, ProviderSession
    from pyjms_provider.protocols.stomp.server.engine import StompServerEngine

__all__ = ["Fetching"]

_log = logging.getLogger(__name__)


class Fetching:
    """One message at a time. The connection's thread calls all but `drop`; nothing is called while the lock is held."""

    def __init__(
        self,
        engine: StompServerEngine,
        session: ProviderSession,
        *,
        ready: Callable[[], None],
        gone: Callable[[], None],
        none: Callable[[], None],
    ) -> None:
        """`ready` is called when `take` has the message; `gone` when there is none: it could not be read, and was set aside; `none`
        when none was found, which `takes_none` says as well.
        """
        self._engine = engine
        self._session = session
        self._ready = ready
        self._gone = gone
        self._none = none
        self._lock = Lock()
        self._found: Delivery | None = None
        self._is_unwanted = False
        self.is_busy = False
        """Whether a message is on its way: nothing may overtake it."""
        self.has_found_none = False
        """Whether a search has ended without any: to be asked for with `takes_none`."""
        self.is_woken = False
        """Set by the consumer when it hears that there may be work: it may have come behind a search that found none."""

    def begin(self, found: Delivery | Literal[Elsewhere.ELSEWHERE], consumer: ProviderConsumer) -> None:
        """Have the message of a delivery read, or one looked for."""
        self.is_busy = True
        self._is_unwanted = self.is_woken = False
        job = partial(_read, found) if isinstance(found, Delivery) else partial(_look, consumer)
        self._engine.conduit.work(job, self._done)

    def take(self) -> Delivery | None:
        """Return the delivery whose message has been read, once."""
        with self._lock:
            found, self._found = self._found, None
        return found

    def takes_none(self) -> bool:
        """Say, once, whether a search has found none, and nothing was heard of since it began."""
        has_found_none, self.has_found_none = self.has_found_none, False
        return has_found_none and not self.is_woken

    def drop(self) -> bool:
        """Give back what has been read and not been taken, or is being read, as if it had never been delivered. Any thread.

        Returns whether there was any, or one was being looked for, and it was wanted until now.
        """
        with self._lock:
            found, self._found = self._found, None
            was_wanted = found is not None or (self.is_busy and not self._is_unwanted)
            self._is_unwanted = True
        if found is not None:
            self._give_back(found)
        return was_wanted

    def _done(self, delivery: Delivery | None, error: BaseException | None) -> None:
        with self._lock:
            is_unwanted = self._is_unwanted
            goes_back = delivery is not None and is_unwanted
            if delivery is not None and not goes_back:
                self._found = delivery
            self.is_busy = goes_back  # as what comes next must not overtake it
        if self._engine.is_over:
            return  # all is given back with the session
        if delivery is not None and goes_back:
            self._engine.conduit.work(partial(self._give_back, delivery), self._given_back)
        elif error is None:
            self.has_found_none = delivery is None and not is_unwanted
            (self._none if self.has_found_none else self._ready)()
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


def _read(delivery: Delivery) -> Delivery:
    """Raises `ProviderError`."""
    assert delivery.envelope is not None
    return delivery


def _look(consumer: ProviderConsumer) -> Delivery | None:
    """Return the next message that can be read, or None: there is none, or the consumer has ended. Raises `ProviderError`."""
    while (delivery := consumer.poll_or_wait()) is not None:
        try:
            return _read(delivery)
        except GoneError:
            continue  # it was damaged: another one takes its place
    return None
