"""A consumer at the pyjms broker: it asks for as many messages as it has room for, and hands them out one by one.

Interest is credit: a consumer without it is sent nothing, so that what it does not want goes to others. What it was sent
and never handed out goes back as if it had never been delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms_provider.clients.stomp.epoch import InterruptedLinkError
from pyjms_provider.clients.stomp.profiled.received import Received
from pyjms_provider.protocols.stomp import verbs
from pyjms_provider.protocols.stomp.delivery_ids import delivery_ids
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.profile import from_frame

if TYPE_CHECKING:
    from pyjms_provider.clients.stomp.epoch import Epoch
    from pyjms_provider.clients.stomp.profiled.session import ProfiledSession
    from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["ProfiledConsumer"]


class ProfiledConsumer(ProviderConsumer):
    """The lock is taken alone, and never while anything waits."""

    def __init__(
        self, session: ProfiledSession, name: str, request: SubscribeRequest, on_ready: Callable[[], None], window: int
    ) -> None:
        self.name = name
        self.request = request
        self._session = session
        self._connection = session.connection
        self._on_ready = on_ready
        self._window = window
        self._lock = Lock()
        self._arrived: deque[Frame] = deque()
        self._epoch = 0
        self._credit = 0
        """What the broker may still push, as far as it is known here."""
        self._is_interested = False
        self._is_withdrawn = False
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether it has not been closed."""
        return not self._is_closed

    def verb(self) -> verbs.Subscribe:
        """Return what makes it at the broker."""
        request = self.request
        return verbs.Subscribe(
            session=self._session.name,
            id=self.name,
            address=self._connection.at_broker(request.address),
            selector=None if request.selector is None else request.selector.text,
            no_local=request.no_local,
            durable_name=request.durable_name,
            priority=request.priority,
        )

    # What the connection tells; the I/O thread

    def begin(self, epoch: Epoch) -> None:
        """Hear that the broker knows the consumer in this epoch; what came before comes again."""
        with self._lock:
            self._epoch = epoch.number
            self._arrived.clear()
            self._credit = 0
            credit = self._credit_to_grant()
        if credit:
            epoch.post(verbs.Credit(subscription=self.name, credit=credit).write())

    def interrupted(self) -> None:
        """Hear that the epoch has ended: the broker has taken back what it had pushed."""
        with self._lock:
            self._epoch = 0
            self._arrived.clear()
            self._credit = 0

    def arrived(self, epoch: Epoch, frame: Frame) -> None:
        """Put a message away."""
        with self._lock:
            if epoch.number != self._epoch or self._is_closed:
                return  # a closed consumer's are given back by the broker, or by `close`
            self._arrived.append(frame)
            self._credit -= 1
            is_wanted = self._is_interested
        if is_wanted:
            self._on_ready()

    def started(self) -> None:
        """Hear that the connection delivers again."""
        with self._lock:
            is_wanted = self._is_interested and bool(self._arrived)
        if is_wanted:
            self._on_ready()

    # The SPI

    def poll(self) -> Delivery | None:
        delivery = self._take(ends_interest=False)
        if delivery is None and not self._is_interested and self._drain():
            delivery = self._take(ends_interest=False)
        return delivery

    def poll_or_wait(self) -> Delivery | None:
        delivery = self._take(ends_interest=True)
        if delivery is None:
            self.set_interested(True)
        return delivery

    def _take(self, *, ends_interest: bool) -> Delivery | None:
        """Return the next message that has come."""
        frame: Frame | None = None
        with self._lock:
            epoch = self._epoch
            if self._arrived and self._connection.is_started and not self._is_closed:
                frame = self._arrived.popleft()
                if ends_interest:
                    self._is_interested = False
            credit = self._credit_to_grant() if frame is not None and self._credit <= self._window // 2 else 0
        if credit:
            self._post(verbs.Credit(subscription=self.name, credit=credit).write())
        return None if frame is None else self._deliver(frame, epoch)

    def _deliver(self, frame: Frame, epoch: int) -> Delivery | None:
        headers = frame.headers
        envelope = self._connection.received(from_frame(frame, PYJMS, self.request.address))
        tag = Received(int(headers["ack"]), epoch, envelope.delivery_mode == 2)
        if not self._session.hold(tag):
            return None
        return Delivery(envelope, int(headers.get("delivery-count", "1")), headers.get("redelivered") == "true", tag)

    def _drain(self) -> bool:
        """Ask the broker what there is now; return whether something has come (an exact `receive_no_wait`)."""
        if self._is_closed or not self._connection.is_started:
            return False
        try:
            self._connection.ask(verbs.Credit(subscription=self.name, credit=1, drain=True))
        except (ProviderError, InterruptedLinkError):
            return False
        with self._lock:
            self._credit = 0
            return bool(self._arrived)

    def set_interested(self, interested: bool) -> None:
        revokes = False
        with self._lock:
            if self._is_closed:
                return
            self._is_interested = interested
            credit = self._credit_to_grant() if interested and self._credit <= self._window // 2 else 0
            if not interested and self._credit > 0:
                revokes, self._credit = True, 0
            is_wanted = interested and bool(self._arrived) and self._connection.is_started
        if credit:
            self._post(verbs.Credit(subscription=self.name, credit=credit).write())
        if revokes:
            self._post(verbs.Credit(subscription=self.name, revoke=True).write(f"v{self.name}"))
            self._return_unseen()
        if is_wanted:
            self._on_ready()

    def withdraw(self) -> list[int]:
        """Let the broker push nothing more; return the numbers of what has come and was not handed out.

        Raises `ProviderError`, `InterruptedLinkError`.
        """
        with self._lock:
            if self._is_closed or not self._epoch or (self._credit <= 0 and not self._arrived):
                return []
            self._is_withdrawn = True
        # With the answer all has come that the broker had pushed.
        self._connection.ask(verbs.Credit(subscription=self.name, revoke=True))
        with self._lock:
            self._credit = 0
            frames, self._arrived = list(self._arrived), deque()
        return [int(frame.headers["ack"]) for frame in frames]

    def resume(self) -> None:
        """Let the broker push again, if it is wanted."""
        with self._lock:
            self._is_withdrawn = False
            credit = self._credit_to_grant()
        if credit:
            self._post(verbs.Credit(subscription=self.name, credit=credit).write())

    def _credit_to_grant(self) -> int:
        """Return what fills the window, and count it as granted. The lock is held."""
        if not self._is_interested or self._is_closed or self._is_withdrawn or not self._epoch:
            return 0
        credit = self._window - len(self._arrived) - max(0, self._credit)
        self._credit += max(0, credit)
        return max(0, credit)

    def _return_unseen(self) -> None:
        """Give back what has come and was not handed out."""
        with self._lock:
            frames, self._arrived = list(self._arrived), deque()
        if frames:
            ids = delivery_ids(int(frame.headers["ack"]) for frame in frames)
            self._post(verbs.GiveBack(session=self._session.name, ids=ids, unseen=True).write())

    def _post(self, frame: Frame) -> None:
        self._connection.post(frame)

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._session.forget(self)
        try:
            self._connection.ask(verbs.Unsubscribe(id=self.name))
        except InterruptedLinkError:
            return  # it ended with the connection
        finally:
            self._connection.forget(self)
            self._return_unseen()
