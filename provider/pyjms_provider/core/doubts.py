"""Writes of which nobody knows whether they were made, and how that is settled while the broker runs (decision 0197).

What only adds is withdrawn at once: the removal of what may be there is written before anything else, so that the store
has what the broker has. A unit that has received waits: what it holds stays held until the store answers, is asked
whether the unit is in it, and says so.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.clock import Clock
    from pyjms_provider.core.journal import Journal
    from pyjms_provider.core.timed import HasTimes
    from pyjms_provider.core.unit_of_work import UnitOfWork

__all__ = ["RETRY_MS", "Doubts"]

_log = logging.getLogger(__name__)

RETRY_MS: Final = 1000
"""After so long the store is asked again."""


class Doubts:
    """The units in doubt of one host. Safe to use from any thread; the lock is innermost, and not held during I/O."""

    def __init__(self, journal: Journal, clock: Clock, on_due: Callable[[HasTimes, int], None] | None) -> None:
        """`on_due` asks for a call of `purge_expired`, as in `AsynchronousChannel`."""
        self._journal = journal
        self._clock = clock
        self._on_due = on_due
        self._lock = Lock()
        self._units: list[UnitOfWork] = []
        self._has_lasting = False

    def add(self, unit: UnitOfWork) -> None:
        """Take over a unit whose write was not answered. Does not wait."""
        changes = unit.withdraw()
        if changes is not None:
            self._journal.note(changes)
            return
        with self._lock:
            self._units.append(unit)
        _log.warning(
            "PYJMS-BROKER-15 nobody knows whether %s was committed; what it has received is held until the store answers",
            unit.unit_id,
        )
        if self._on_due is not None:
            self._on_due(self, self._clock.time_ms() + RETRY_MS)

    def add_lasting(self) -> None:
        """Note a doubt that nobody settles before the next start."""
        self._has_lasting = True

    def purge_expired(self, now_ms: int) -> int | None:
        """Ask the store; return when to come again, in wall-clock ms; None: when asked."""
        return None if self._settle_units() else now_ms + RETRY_MS

    def settle(self) -> bool:
        """Ask the store; return whether nothing is in doubt any more. Waits for the journal; one thread at a time."""
        return self._settle_units() and not self._has_lasting

    def _settle_units(self) -> bool:
        with self._lock:
            units = list(self._units)
        for unit in units:
            queue, reference, is_there = unit.witness()
            try:
                is_written = self._journal.holds(queue, reference) is is_there
            except ProviderError:
                return False
            with self._lock:
                self._units.remove(unit)
            unit.end_doubt(self._clock.time_ms(), is_written=is_written)
            _log.warning("PYJMS-BROKER-16 %s was %s", unit.unit_id, "committed" if is_written else "rolled back")
        return True
