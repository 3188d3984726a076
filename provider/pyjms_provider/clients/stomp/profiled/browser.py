"""A look at a queue of the pyjms broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError, ResourceError
from pyjms_provider.clients.stomp.epoch import InterruptedLinkError
from pyjms_provider.protocols.stomp import verbs
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.profile import from_frame

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms_provider.clients.stomp.epoch import Epoch
    from pyjms_provider.clients.stomp.profiled.session import ProfiledSession
    from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["ProfiledBrowser"]

_WINDOW: Final = 100


class ProfiledBrowser:
    """Begins at the broker when it is made; its messages are had one by one."""

    def __init__(self, session: ProfiledSession, name: str, address: Address) -> None:
        self.name = name
        self._session = session
        self._connection = session.connection
        self._address = address
        self._lock = Lock()
        self._signal = Signal()
        self._arrived: deque[Frame] = deque()
        self._has_ended = False
        self._is_interrupted = False

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

    def messages(self) -> Iterator[Delivery]:
        """Yield what is in the queue. Raises `ResourceError` when the connection is lost or the broker silent."""
        clock, timeout_ms = self._connection.clock, self._connection.settings.timeout_ms
        self._grant(_WINDOW)
        taken = 0
        try:
            while True:
                if self._arrived:
                    frame = self._arrived.popleft()
                    taken += 1
                    if taken % (_WINDOW // 2) == 0:
                        self._grant(_WINDOW // 2)
                    envelope = self._connection.received(from_frame(frame, PYJMS, self._address))
                    count = int(frame.headers.get("delivery-count", "1"))
                    yield Delivery(envelope, count, frame.headers.get("redelivered") == "true", None)
                elif self._has_ended:
                    return
                elif self._is_interrupted:
                    raise ResourceError("the connection was lost while the queue was browsed; browse it again")
                elif self._session.is_closed:
                    raise ClosedError("the session is closed")
                elif not clock.wait(self._signal, clock.monotonic_ms() + timeout_ms):
                    raise ResourceError(f"the broker has sent nothing of the queue for {timeout_ms} ms")
        finally:
            self.close()

    def _grant(self, credit: int) -> None:
        self._connection.post(verbs.Credit(subscription=self.name, credit=credit).write())

    def close(self) -> None:
        """Look no more. May be repeated."""
        self._connection.forget(self)
        if not self._has_ended:
            self._has_ended = True
            self._connection.post(verbs.Unsubscribe(id=self.name).write())
        self._signal.set()


def begin_browsing(session: ProfiledSession, name: str, address: Address, selector: str | None) -> ProfiledBrowser:
    """Return a browser that the broker knows. Raises `ProviderError`."""
    browser = ProfiledBrowser(session, name, address)
    connection = session.connection
    connection.remember(browser)
    try:
        connection.ask(
            verbs.Browse(session=session.name, id=name, address=connection.at_broker(address), selector=selector)
        )
    except InterruptedLinkError as error:
        connection.forget(browser)
        raise ResourceError(f"the connection was lost: {error}; try again") from error
    except BaseException:
        connection.forget(browser)
        raise
    return browser
