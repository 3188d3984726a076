"""A look at a queue of the pyjms broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError, ResourceError
from pyjms_provider.clients.stomp.epoch import InterruptedLinkError
from pyjms_provider.protocols.stomp import verbs
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.messages import from_frame

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms_provider.clients.stomp.epoch import Epoch
    from pyjms_provider.clients.stomp.profiled.session import ProfiledSession
    from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["ProfiledBrowser"]

_WINDOW: Final = 100


class ProfiledBrowser:
    """Begins at the broker with the first message that is asked for, and ends there with the last."""

    def __init__(self, session: ProfiledSession, name: str, address: Address, selector: str | None) -> None:
        self.name = name
        self.session = session
        self._connection = session.connection
        self._address = address
        self._selector = selector
        self._signal = Signal()
        self._arrived: deque[Frame] = deque()
        self._has_ended = False
        self._is_interrupted = False

    @property
    def is_waiting(self) -> bool:
        """Whether somebody may wait for messages."""
        return True

    def arrived(self, epoch: Epoch, frame: Frame) -> None:
        """Put a message, or the end, away. The I/O thread."""
        if frame.headers.get("browser") == "end":
            self._has_ended = True
        else:
            self._arrived.append(frame)
        self._signal.set()

    def interrupted(self) -> None:
        """Hear that the connection was lost."""
        self._is_interrupted = True
        self._signal.set()
        self._connection.forget(self)  # nothing comes for it any more

    def wake(self) -> None:
        """Look at what has changed. Any thread."""
        self._signal.set()

    def messages(self) -> Iterator[Delivery]:
        """Yield what is in the queue. Raises `ResourceError` when the connection is lost or the broker silent."""
        epoch = self._connection.link.current()
        with epoch.looking(partial(self._end, epoch)):
            try:
                self._connection.remember(self)
                epoch.ask(self._verb().write())
                self._grant(epoch, _WINDOW)
                for taken, frame in enumerate(self._frames(), 1):
                    if taken % (_WINDOW // 2) == 0:
                        self._grant(epoch, _WINDOW // 2)
                    envelope = self._connection.received(from_frame(frame, PYJMS, self._address))
                    count = int(frame.headers.get("delivery-count", "1"))
                    yield Delivery(envelope, count, frame.headers.get("redelivered") == "true", None)
            except InterruptedLinkError as error:
                raise ResourceError(f"the connection was lost: {error}; browse the queue again") from error

    def _verb(self) -> verbs.Browse:
        address = self._connection.at_broker(self._address)
        return verbs.Browse(session=self.session.name, id=self.name, address=address, selector=self._selector)

    def _frames(self) -> Iterator[Frame]:
        clock, timeout_ms = self._connection.clock, self._connection.settings.timeout_ms
        while True:
            has_ended = self._has_ended  # looked at first: the last message comes before the end
            if self._arrived:
                yield self._arrived.popleft()
            elif has_ended:
                return
            elif self._is_interrupted:
                raise ResourceError("the connection was lost while the queue was browsed; browse it again")
            elif self.session.is_closed:
                raise ClosedError("the session is closed")
            elif not clock.wait(self._signal, clock.monotonic_ms() + timeout_ms):
                raise ResourceError(f"the broker has sent nothing of the queue for {timeout_ms} ms")

    def _grant(self, epoch: Epoch, credit: int) -> None:
        if self._has_ended:
            return  # the broker has forgotten it: an empty queue ends at once
        epoch.post(verbs.Credit(subscription=self.name, credit=credit).write())

    def _end(self, epoch: Epoch) -> None:
        self._connection.forget(self)
        if not self._has_ended:
            epoch.take_back(self.session.ending_of(self.name))
