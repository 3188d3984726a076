"""Writes of which nobody knows whether they were made, and how that is settled while the broker runs (decision 0197).

What only adds is withdrawn at once: the removal of what may be there is written before anything else, so that the store
has what the broker has. A removal is kept in doubt: nobody gets the messages until the store answers whether the write is in it,
or until whoever asked for it asks again, and it is written once more.
A message that must go back to its queue, but cannot be read yet, waits in the same way.
"""

from __future__ import annotations

import logging
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.spi.errors import InDoubtError, ProviderError
from pyjms.spi.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pyjms.spi.clock import Clock
    from pyjms_provider.core.journal.journal import Changes, Journal
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.scheduled import Scheduled
    from pyjms_provider.core.store import PagingMessageStore
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

_log = logging.getLogger(__name__)

RETRY_MS: Final = 1000
"""After so long the store is asked again."""


class InDoubtWrite(Protocol):
    """A write that was not answered, and what depends on it."""

    @property
    def changes(self) -> Changes:
        """What was written, or was not."""
        ...

    def end_doubt(self, now_ms: int, *, is_written: bool) -> None:
        """Do what depends on it. May wait for the journal."""
        ...


def is_outcome_unknown(error: Exception) -> bool:
    """Return whether the outcome of a write is unknown that ended by `error`: the store did not answer, or it failed in an unforeseen way."""
    # An error that nobody foresaw may have come before the write or after it, so it counts as no answer.
    return isinstance(error, InDoubtError) or not isinstance(error, ProviderError)


class RemovalInDoubt:
    """Messages that were taken out of their queues, and may be there in the store."""

    def __init__(
        self,
        changes: Changes,
        entries: Sequence[QueueEntry],
        reinstate: Callable[[Sequence[QueueEntry]], None],
        let_go: Callable[[Sequence[QueueEntry]], None] | None = None,
    ) -> None:
        """`let_go`: lets go of them in memory; None: that is done."""
        self.changes: Final = changes
        self._entries = entries
        self._reinstate = reinstate
        self._let_go = let_go

    def __str__(self) -> str:
        return f"the removal of {counted(len(self._entries), 'message')} from {self._entries[0].queue.name}"

    def is_about(self, entries: Iterable[QueueEntry]) -> bool:
        """Return whether one of `entries` is one of the messages."""
        return any(entry in self._entries for entry in entries)

    def end_doubt(self, now_ms: int, *, is_written: bool) -> None:
        """Do as `InDoubtWrite` says: give back what is still in the store."""
        if not is_written:
            self._reinstate(self._entries)
        elif self._let_go is not None:
            self._let_go(self._entries)


class MoveInDoubt:
    """A message that was taken out of its queue, and is in the store either there, or in another form in another queue."""

    def __init__(
        self,
        changes: Changes,
        entry: QueueEntry,
        target: Queue,
        store: PagingMessageStore,
        reinstate: Callable[[Sequence[QueueEntry]], None],
    ) -> None:
        self.changes: Final = changes
        self._entry = entry
        self._target = target
        self._store = store
        self._reinstate = reinstate

    def __str__(self) -> str:
        return f"the move of a message from {self._entry.queue.name} to {self._target.name}"

    def end_doubt(self, now_ms: int, *, is_written: bool) -> None:
        """Do as `InDoubtWrite` says: have the one or the other in its queue."""
        if not is_written:
            self._reinstate([self._entry])
            return
        self._store.release(self._entry.reference)
        for message in self.changes.messages:
            reference = message.reference
            reference.journaled = True
            # The mover has let go of the message, and the queue that takes it may read it.
            self._store.adopt(reference, message.envelope)
            try:
                self._target.enqueue(reference)
            except ProviderError:  # the queue was destroyed, with all that it had
                self._store.release(reference)


class InDoubtWrites:
    """What is in doubt in one host. Safe to use from any thread; the lock is innermost, and not held during I/O."""

    def __init__(self, journal: Journal, clock: Clock, schedule: Callable[[Scheduled, int], None] | None) -> None:
        """`schedule` asks for a call of `run_due`, as in `Queue`."""
        self._journal = journal
        self._clock = clock
        self._schedule = schedule
        # A right that is held while the store is asked: otherwise a thread that has found the write missing could give
        # back what another one writes once more.
        self._right = Lock()
        self._lock = Lock()
        self._waiting: list[InDoubtWrite] = []
        self._unread: list[QueueEntry] = []
        self._has_lasting = False

    def add(self, doubt: InDoubtWrite) -> None:
        """Take over what must be asked for. Does not wait."""
        with self._lock:
            self._waiting.append(doubt)
        _log.warning("PYJMS-BROKER-15 %s is in doubt, and what it took is held until the store answers", doubt)
        self._ask_soon()

    def remove_again(self, entries: Collection[QueueEntry], *, force: bool) -> bool:
        """Write once more that `entries` were taken out of their queues, where that is in doubt; return whether nothing of it is any more.

        What has been found not to be written meanwhile is in its queue. Waits for the journal.
        """
        with self._right:
            with self._lock:
                # A message that is yet to be read again is neither settled nor in its queue: it is in doubt, too.
                is_unread = any(entry in self._unread for entry in entries)
                removals = [
                    doubt for doubt in self._waiting if isinstance(doubt, RemovalInDoubt) and doubt.is_about(entries)
                ]
            for doubt in removals:
                try:
                    # The same changes again: if the first write was made, they change nothing.
                    self._journal.write(doubt.changes, force=force)
                except ProviderError:
                    return False
                doubt.end_doubt(self._clock.time_ms(), is_written=True)
                with self._lock:
                    # Only now: if its end fails, the write stays in doubt.
                    self._waiting.remove(doubt)
                _log.warning("PYJMS-BROKER-16 %s has been written, as it was asked for once more", doubt)
            return not is_unread

    def add_unread(self, entry: QueueEntry) -> None:
        """Take over a message that is to be in its queue again, which has to read it first and cannot. Does not wait."""
        with self._lock:
            self._unread.append(entry)
        _log.warning("PYJMS-BROKER-17 a message of %r comes back when it can be read", entry.queue.name)
        self._ask_soon()

    def _ask_soon(self) -> None:
        if self._schedule is not None:
            self._schedule(self, self._clock.time_ms() + RETRY_MS)

    def add_unit(self, unit: UnitOfWork) -> None:
        """Take over a unit whose write was not answered. Does not wait."""
        # A unit that only sent is withdrawn; one that has received waits, as its messages may be settled in the store.
        changes = unit.withdraw()
        if changes is None:
            self.add(unit)
        else:
            self._journal.note(changes)

    def add_until_restart(self) -> None:
        """Note a doubt that nobody settles before the next start."""
        # With this a stop does not close the journal as clean, so delivery marks stay and held messages come flagged.
        self._has_lasting = True

    def run_due(self, now_ms: int) -> int | None:
        """Ask the store; return when to come again, in wall-clock ms; None: when asked."""
        self._ask()
        return now_ms + RETRY_MS if self._waiting or self._unread else None

    def settle(self) -> bool:
        """Ask the store; return whether nothing is in doubt any more. Waits for the journal."""
        self._ask()
        return not (self._waiting or self._unread or self._has_lasting)

    def _ask(self) -> None:
        with self._right:
            with self._lock:
                # Copies: writes of other threads come into doubt while the store is asked, and each question may wait.
                unread, waiting = list(self._unread), list(self._waiting)
            for entry in unread:
                if self._is_over(partial(_is_back, entry), "what is to come back"):
                    with self._lock:
                        self._unread.remove(entry)
            for doubt in waiting:
                # The store does not answer, so it is not asked about the others: each question may take as long.
                if not self._is_over(partial(self._settle, doubt), doubt):
                    return
                # Removed after its end, so that an end that fails leaves the doubt to be settled.
                with self._lock:
                    self._waiting.remove(doubt)

    def _is_over(self, end: Callable[[], bool], subject: object) -> bool:
        """Return what `end` does; if that fails, nobody tries again before the next start, so that all others go on."""
        try:
            return end()
        except Exception:
            _log.exception("PYJMS-BROKER-18 %s cannot be settled before the next start of the broker", subject)
            self._has_lasting = True
            return True

    def _settle(self, doubt: InDoubtWrite) -> bool:
        """Ask about one doubt, and end it; return False if the store does not answer."""
        try:
            is_written = self._is_written(doubt)
        except ProviderError:
            return False
        doubt.end_doubt(self._clock.time_ms(), is_written=is_written)
        _log.warning("PYJMS-BROKER-16 %s has been found %s", doubt, "written" if is_written else "not to be written")
        return True

    def _is_written(self, doubt: InDoubtWrite) -> bool:
        """Return whether a write was made. Raises `ProviderError` while nobody can tell."""
        # One message decides for the whole write, as changes are written whole or not at all.
        for queue, reference, is_there in doubt.changes.witnesses():
            found = self._journal.holds(queue, reference)
            if found is not None:
                return found is is_there
        return False  # all its queues have ended, with what they had


def _is_back(entry: QueueEntry) -> bool:
    try:
        entry.queue.reinstate(entry)
    except ProviderError:
        return False
    return True
