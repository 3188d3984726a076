"""How long local transactions may stay open: what one has received is held back from all others.

The housekeeper comes by the wall clock, and the monotonic clock judges, so that a clock that is set rolls nothing back.

Locks: the one lock guards the table, and is innermost; it is not held while a transaction is told that its time is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.errors import RolledBackError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock

_log = logging.getLogger(__name__)


class OpenTransaction:
    """One transaction, from the first message that is sent or received in it to its end."""

    __slots__ = ("deadline_ms", "on_over")

    def __init__(self, deadline_ms: float, on_over: Callable[[OpenTransaction], None]) -> None:
        self.deadline_ms = deadline_ms
        """In monotonic milliseconds."""
        self.on_over = on_over
        """Called without a lock, once, when its time is over; it may have ended at this moment."""


class TimeLimit:
    """The open transactions of one host. Safe to use from any thread."""

    def __init__(self, clock: Clock, timeout_ms: int, on_due: Callable[[TimeLimit, int], None] | None) -> None:
        """`timeout_ms` 0: there is no limit. `on_due` asks for a call of `do_what_is_due`, as in `Queue`."""
        self.timeout_ms = timeout_ms
        self._clock = clock
        self._on_due = on_due
        self._lock = Lock()
        self._open: dict[OpenTransaction, None] = {}  # the oldest first
        self._is_visit_planned = False

    def begin(self, on_over: Callable[[OpenTransaction], None]) -> OpenTransaction:
        """Note that a transaction has begun."""
        with self._lock:
            transaction = OpenTransaction(self._clock.monotonic_ms() + self.timeout_ms, on_over)
            self._open[transaction] = None
            asks, self._is_visit_planned = not self._is_visit_planned, True
        if asks and self._on_due is not None:
            self._on_due(self, self._clock.time_ms() + self.timeout_ms)
        return transaction

    def end(self, transaction: OpenTransaction) -> None:
        """Forget a transaction that has ended. May be repeated."""
        with self._lock:
            self._open.pop(transaction, None)

    def exceeded(self) -> RolledBackError:
        """Return what a client is told that commits too late."""
        return RolledBackError(
            f"the transaction was rolled back, as it was open for more than {self.timeout_ms} ms: commit sooner, or let the "
            f"broker's owner raise transaction_timeout"
        )

    def do_what_is_due(self, now_ms: int) -> int | None:
        """Tell the transactions whose time is over; return when to come again, None: when asked."""
        monotonic_ms = self._clock.monotonic_ms()
        over: list[OpenTransaction] = []
        with self._lock:
            for transaction in self._open:
                if transaction.deadline_ms > monotonic_ms:
                    break
                over.append(transaction)
            for transaction in over:
                del self._open[transaction]
            first = next(iter(self._open), None)
            self._is_visit_planned = first is not None
        for transaction in over:
            transaction.on_over(transaction)
        if over:
            _log.warning("PYJMS-BROKER-14 %d transactions were rolled back, as their time was over", len(over))
        return None if first is None else now_ms + max(1, round(first.deadline_ms - monotonic_ms))
