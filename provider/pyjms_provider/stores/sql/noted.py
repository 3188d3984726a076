"""What a journal was told to write before, or with, whatever is written next."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms_provider.stores.errors import UnavailableStoreError
from pyjms_provider.stores.sql.batch import Batch

if TYPE_CHECKING:
    from pyjms_provider.core.journal.journal import Changes

__all__ = ["Noted", "Taken"]

_ABOUT_NAMES: Final = ("drop_queue_duplicates", "put_duplicate", "put_queue_duplicate", "forget_duplicates")


@dataclass(slots=True)
class Taken:
    """What was noted, in the hands of who writes it."""

    batch: Batch
    ends: list[Changes]
    """What ends branches or staged units: which rows that are is read when it is written."""
    is_urgent: bool
    """Whether it goes wrong if something is written before it: what follows may be of the same name. Counts and removals are of messages."""


class Noted:
    """Safe to use from any thread; its lock is taken alone."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ends: list[Changes] = []
        self._urgent_taken = 0
        self.batch: Batch | None = None
        """What is to be written; None: nothing, and no ends."""

    def add(self, batch: Batch) -> None:
        """Add a batch, which nobody else uses, after what was noted before."""
        with self._lock:
            if self.batch is None:
                self.batch = batch
            else:
                self.batch.absorb(batch)

    def add_end(self, changes: Changes) -> None:
        """Add what ends branches or staged units."""
        with self._lock:
            self._ends.append(changes)
            if self.batch is None:
                self.batch = Batch()

    def take(self, *, unless_urgent_is_taken: bool = False) -> Taken | None:
        """Return all of it to who writes it, and then says so to `end`; None: there is nothing.

        `unless_urgent_is_taken`: raises `UnavailableStoreError` while something is taken that must not be written after this.
        """
        with self._lock:
            if unless_urgent_is_taken and self._urgent_taken:
                raise UnavailableStoreError(
                    "the broker is about to write what was in doubt before; nothing was written, so do the transaction again"
                )
            batch, self.batch = self.batch, None
            ends, self._ends = self._ends, []
            if batch is None:
                return None
            is_urgent = bool(ends or batch.others) or any(name in batch.rows for name in _ABOUT_NAMES)
            self._urgent_taken += is_urgent
            return Taken(batch, ends, is_urgent)

    def end(self, taken: Taken, *, was_written: bool) -> None:
        """Hear whether it was written. If not, it is to be written before what was noted since."""
        with self._lock:
            self._urgent_taken -= taken.is_urgent
            if was_written:
                return
            self._ends[:0] = taken.ends
            if self.batch is not None:
                taken.batch.absorb(self.batch)
            self.batch = taken.batch

    @property
    def is_urgent(self) -> bool:
        """Whether there may be something, here or taken, that must be written before all else."""
        with self._lock:
            return self.batch is not None or self._urgent_taken > 0
