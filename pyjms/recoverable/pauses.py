"""Pauses between attempts to connect."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING

from pyjms.errors import ResourceAllocationException
from pyjms.spi.back_off import BackOff, Delays

if TYPE_CHECKING:
    from pyjms.errors import JMSException

_BACK_OFF = BackOff(first_ms=100, most_ms=10_000, jitter=0.5)


class Pauses:
    """From 0.1 to 10 seconds, doubled each time, with jitter, and ended by `stopped`."""

    def __init__(self, stopped: threading.Event) -> None:
        self._stopped = stopped
        self._delays = Delays(_BACK_OFF, Random().random)  # noqa: S311
        self.has_been_well = False
        """Whether there ever was a connection."""

    def may_heal(self, error: JMSException) -> bool:
        """Whether trying again is of use: what never went well may be the caller's mistake, unless nobody is there yet."""
        return self.has_been_well or isinstance(error, ResourceAllocationException)

    def reset(self) -> None:
        """Make the next pause a short one: all is well."""
        self._delays.reset()

    def wait(self) -> None:
        """Wait, and twice as long the next time."""
        self._stopped.wait(self._delays.next_ms() / 1000)
