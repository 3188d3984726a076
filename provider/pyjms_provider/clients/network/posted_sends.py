"""Messages on their way to the broker whose senders do not wait for the outcome: each is told once, also if none comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from threading import Lock

from pyjms.spi.errors import InDoubtError, ProviderError


class PostedSend:
    """One message, or settlement, on its way."""

    __slots__ = ("_done", "in_doubt", "sent_ms")

    def __init__(
        self,
        done: Callable[[ProviderError | None], None],
        sent_ms: float,
        in_doubt: type[ProviderError] = InDoubtError,
    ) -> None:
        """`sent_ms`: when it was sent, by the monotonic clock; infinite: it waits. `in_doubt`: the error if no answer comes."""
        self._done = [done]  # taken out by the first outcome: `pop` is one step, whichever threads tell one
        self.in_doubt = in_doubt
        self.sent_ms = sent_ms

    @property
    def is_over(self) -> bool:
        """Whether the outcome was told."""
        return not self._done

    def take_over(self) -> bool:
        """Have nobody told, as the call itself raises the error; return False if the outcome was told already."""
        try:
            self._done.pop()
        except IndexError:
            return False
        return True

    def tell(self, error: ProviderError | None) -> None:
        """Tell the outcome, unless it was told. Any thread, without a lock."""
        try:
            done = self._done.pop()
        except IndexError:
            return
        done(error)


class PostedSends:
    """The messages on their way in one physical connection, in order. Any thread."""

    def __init__(self, limit_ms: Callable[[], int]) -> None:
        """`limit_ms`: returns how long the broker may take for an answer."""
        self._limit_ms = limit_ms
        self._lock = Lock()
        self._sends: deque[PostedSend] = deque()

    def add(self, send: PostedSend) -> bool:
        """Enter a message, before it is written; return whether it is the only one on its way."""
        sends = self._sends
        with self._lock:
            while sends and sends[0].is_over:
                sends.popleft()
            sends.append(send)
            return len(sends) == 1

    def due_ms(self) -> float | None:
        """Return when the oldest message must be answered; None: there is none, or it waits to be sent."""
        sends = self._sends
        with self._lock:
            while sends and sends[0].is_over:
                sends.popleft()
            return sends[0].sent_ms + self._limit_ms() if sends and sends[0].sent_ms < inf else None

    def expire(self, now_ms: float) -> None:
        """Tell the messages that were not answered in time that they are in doubt."""
        while (due_ms := self.due_ms()) is not None and due_ms <= now_ms:
            first = self._sends[0]
            first.tell(
                first.in_doubt(
                    f"the broker has not answered a message for {self._limit_ms()} ms, so it is not known whether it arrived: "
                    "look what holds it up, or raise timeout_ms"
                )
            )

    def fail(self, error: Callable[[], ProviderError]) -> None:
        """Tell all messages that they have failed; each gets an `error` of its own."""
        with self._lock:
            sends = list(self._sends)
            self._sends.clear()
        for send in sends:
            send.tell(error())
