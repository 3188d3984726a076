"""How much a route takes at once, and what it has counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyjms.forwarding.settings import Guarantee
from pyjms.spi.clock import Clock
from pyjms.spi.routes import RouteState, RouteStatistics

_ALL: Final = 1 << 30


class AdaptiveBatchSize:
    """Halved by each failure, down to one message, and doubled by each success. One thread."""

    def __init__(self) -> None:
        self.most = _ALL
        """Messages of one transaction, for the time being."""

    def succeeded(self) -> None:
        """Hear that so much got in."""
        self.most = min(self.most * 2, _ALL)

    def failed(self, tried: int) -> bool:
        """Hear that so much did not get in; return whether less can be tried."""
        self.most = max(tried // 2, 1)
        return tried > 1


class RouteCounters:
    """Counts since the start. Each number is written by one thread, so that nobody needs a lock to read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.state = RouteState.RUNNING
        self.guarantee: Guarantee | None = None
        """None: not all sites were reached yet."""
        self.has_begun = False
        """Whether it could take messages once; until then, that there are none is not known."""
        self.waiting = 0
        self.details: Mapping[str, int] = {}
        self._forwarded = self._sent = self._undeliverable = self._expired = self._failures = 0
        self._last_error: tuple[str, int] | None = None

    def settled(self, forwarded: int, sent: int, undeliverable: int, expired: int) -> None:
        """Count one batch."""
        self._forwarded += forwarded
        self._sent += sent
        self._undeliverable += undeliverable
        self._expired += expired

    def attempt_failed(self, reason: str) -> None:
        """Hear that something was tried in vain, and will be tried again."""
        self._failures += 1
        self._last_error = (reason, self._clock.time_ms())
        self.state = RouteState.AWAY

    def failed(self, reason: str) -> None:
        """Hear that the route has ended by an error."""
        self._last_error = (reason, self._clock.time_ms())
        self.state = RouteState.FAILED

    def statistics(self) -> RouteStatistics:
        """Return all of it."""
        reason, at_ms = self._last_error or (None, None)
        return RouteStatistics(
            state=self.state,
            guarantee="unknown" if self.guarantee is None else self.guarantee.value,
            forwarded=self._forwarded,
            sent=self._sent,
            undeliverable=self._undeliverable,
            expired=self._expired,
            waiting=self.waiting,
            has_begun=self.has_begun,
            failures=self._failures,
            last_error=reason,
            last_error_at_ms=at_ms,
            details=self.details,
        )
