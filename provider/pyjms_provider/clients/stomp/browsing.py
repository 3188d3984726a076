"""A queue browser: a subscription that only looks, until the broker says that it has shown everything."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.clock import Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address
from pyjms.spi.errors import ProviderError, ResourceError
from pyjms.spi.selector import Selector
from pyjms_provider.clients.stomp.epoch import Epoch, InterruptedLinkError
from pyjms_provider.clients.stomp.subscribing import Subscribing
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import from_frame

if TYPE_CHECKING:
    from pyjms_provider.clients.stomp.connection import StompConnection

__all__ = ["Browser"]

_log = logging.getLogger("pyjms.stomp")


class Browser:
    """One look at a queue."""

    def __init__(
        self, connection: StompConnection, address: Address, selector: Selector | None, subscribing: Subscribing
    ) -> None:
        self._connection = connection
        self._address = address
        self._selector = selector
        self._subscribing = subscribing
        self._lock = Lock()
        self._frames: deque[Frame] = deque()
        self._signal = Signal()
        self._has_ended = False
        self._is_interrupted = False

    @property
    def id(self) -> str:
        """Its id at the broker."""
        return self._subscribing.id

    @property
    def ids(self) -> tuple[str, ...]:
        """All its ids there."""
        return (self.id,)

    def arrived(self, epoch: int, frame: Frame) -> None:
        """Put a message away. The I/O thread."""
        with self._lock:
            self._frames.append(frame)
        self._signal.set()

    def end_epoch(self) -> bool:
        """Fail: a browser is not restored."""
        self._is_interrupted = True
        self._signal.set()
        return False

    def run(self) -> Iterator[Delivery]:
        """Yield the messages. Raises `ResourceError` when the broker stops in the middle."""
        epoch = self._connection.link.current()
        with epoch.looking(partial(self._end, epoch)):
            try:
                self._connection.enter(self)
                epoch.ask(self._subscribing.frame())
                while (frame := self._next()) is not None:
                    envelope = from_frame(frame, self._connection.dialect, self._address)
                    is_expired = 0 < envelope.expiration_ms <= self._connection.clock.time_ms()
                    if not is_expired and (self._selector is None or self._selector.matches(envelope)):
                        is_redelivered = frame.headers.get("redelivered") == "true"
                        yield Delivery(envelope, 1 + is_redelivered, is_redelivered, self)
            except InterruptedLinkError as error:
                raise ResourceError(f"the connection was lost while a queue was browsed: {error}") from error

    def _next(self) -> Frame | None:
        clock, settings = self._connection.clock, self._connection.settings
        until_ms = clock.monotonic_ms() + settings.timeout_ms
        while True:
            with self._lock:
                frame = self._frames.popleft() if self._frames else None
            if frame is not None:
                if frame.headers.get("browser") != "end":
                    return frame
                self._has_ended = True
                return None
            if self._is_interrupted:
                raise InterruptedLinkError("the broker may not have shown all")
            if not clock.wait(self._signal, until_ms):
                raise ResourceError(
                    f"the broker has not shown a queue to its end for {settings.timeout_ms} ms: raise timeout_ms"
                )

    def _end(self, epoch: Epoch) -> None:
        """End it at the broker."""
        self._connection.forget_subscription(self)
        if not self._is_interrupted:
            try:
                epoch.ask_last(self._subscribing.end())
            except (InterruptedLinkError, ProviderError) as error:  # what ended it before is told, and not this
                _log.debug("a browser could not be closed in order: %s", error)
