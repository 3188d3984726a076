"""A site whose housekeeper comes when the world says so: in the one thread, so that a seed plays the same again."""

from __future__ import annotations

from threading import current_thread
from unittest.mock import patch

from pyjms.spi.clock import Clock
from pyjms.spi.errors import InDoubtError
from pyjms_provider.housekeeping import ScheduledTasks
from tests.provider.keeping.site import Site
from tests.provider.simulation.power import PoweredJournal, PoweredMedium


class LostAnswerError(InDoubtError):
    """A write was not answered. The world knows what no client knows: whether it was made."""

    def __init__(self, *, is_written: bool) -> None:
        super().__init__("nobody answered")
        self.is_written = is_written


class HandScheduledTasks(ScheduledTasks):
    """Takes note of who asks for a visit, and visits nobody by itself."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name, clock)
        self._thread = current_thread()  # so none is started, and none is waited for


class SimulatedSite(Site):
    """A site without a second thread, whose power may fail."""

    medium: PoweredMedium

    def make_medium(self) -> PoweredMedium:
        return PoweredMedium()

    def make_journal(self) -> PoweredJournal:
        return PoweredJournal(self.medium, self._tap)

    def start(self) -> None:
        with patch("pyjms_provider.broker.ScheduledTasks", HandScheduledTasks):
            super().start()

    def tend(self) -> None:
        """Let the housekeeper do what is due."""
        self.broker._scheduled_tasks._visit(self.clock.time_ms())
