"""A medium that is given more than its disk has: what was not forced may be gone when the power fails."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import fields
from random import Random

from pyjms_provider.core.journal.journal import Changes, QueueNumber, QueueRecord, Recovery
from pyjms_provider.stores.volatile import Medium, VolatileJournal


class PoweredMedium(Medium):
    """What an operating system was given. What comes to the disk comes there in order."""

    def __init__(self) -> None:
        super().__init__()
        self.unforced: list[Changes] = []
        self._disk = Medium()

    def apply(self, changes: Changes) -> None:
        super().apply(changes)
        self.unforced.append(changes)

    def force(self) -> None:
        """Have the disk know all."""
        for changes in self.unforced:
            self._disk.apply(changes)
        self.unforced.clear()

    def force_whole(self) -> None:
        """Have the disk know all, also what was changed in another way."""
        _copy(self, self._disk)
        self.unforced.clear()

    def lose_power(self, random: Random) -> int:
        """Have only what the disk knows, and some of what came next; return how much is gone."""
        kept = random.randint(0, len(self.unforced))
        lost = len(self.unforced) - kept
        del self.unforced[kept:]
        self.force()
        _copy(self._disk, self)
        self.holder = None
        return lost


def _copy(source: Medium, target: Medium) -> None:
    for field in fields(Medium):
        value = getattr(source, field.name)
        setattr(target, field.name, deepcopy(value) if field.name == "reserved" else copy(value))


class PoweredJournal(VolatileJournal):
    """Forces what it is told to force."""

    _medium: PoweredMedium

    def write(self, changes: Changes, *, force: bool) -> None:
        """Another write may be made before and after this one, at the points of the tap."""
        try:
            super().write(changes, force=force)
        finally:
            if force and any(each is changes for each in self._medium.unforced):
                self._medium.force()

    def recover(self, progress: Callable[[int], None]) -> Recovery:
        try:
            return super().recover(progress)
        finally:
            self._medium.force_whole()

    def define_queue(self, record: QueueRecord) -> QueueNumber:
        try:
            return super().define_queue(record)
        finally:
            self._medium.force_whole()

    def drop_queue(self, number: QueueNumber) -> None:
        try:
            super().drop_queue(number)
        finally:
            self._medium.force_whole()

    def close(self, *, clean: bool) -> None:
        is_open = not self._closed and not self._crashed
        super().close(clean=clean)
        if is_open:
            self._medium.force_whole()
