"""Writes whose outcome is unknown, and how they are settled while the broker runs (decision 0197).

A write that only adds is withdrawn at once: the removal of its messages is written before any other change, so that the store
agrees with the broker. A removal stays in doubt: its messages are delivered to nobody until the store answers whether the write was
made, or until the client that requested it asks again, and it is written again.
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
"""The interval at which the store is asked."""


class InDoubtWrite(Protocol):
    """A write without an answer, and its dependent steps."""

    @property
    def changes(self) -> Changes:
        """The changes that may have been written."""
        ...

    def end_doubt(self, now_ms: int, *, is_written: bool) -> None:
        """Complete or undo its dependent steps. May wait for the journal."""
        ...


def is_outcome_unknown(error: Exception) -> bool:
    """Return whether `error` leaves the outcome of a write unknown: the store did not answer, or failed in an unforeseen way."""
    # An unforeseen error may have been raised before the write or after it, so it counts as no answer.
    return isinstance(error, InDoubtError) or not isinstance(error, ProviderError)


class RemovalInDoubt:
    """Messages that were taken out of their queues, but may still be there in the store."""

    def __init__(
        self,
        changes: Changes,
        entries: Sequence[QueueEntry],
        reinstate: Callable[[Sequence[QueueEntry]], None],
        let_go: Callable[[Sequence[QueueEntry]], None] | None = None,
    ) -> None:
        """`let_go`: releases them in memory; None: that is done."""
        self.changes: Final = changes
        self._entries = entries
        self._reinstate = reinstate
        self._let_go = let_go

    def __str__(self) -> str:
        return f"the removal of {counted(len(self._entries), 'message')} from {self._entries[0].queue.name}"

    def concerns(self, entries: Iterable[QueueEntry]) -> bool:
        """Return whether it concerns one of `entries`."""
        return any(entry in self._entries for entry in entries)

    def end_doubt(self, now_ms: int, *, is_written: bool) -> None:
        """Put the messages that are still in the store back; as `InDoubtWrite`."""
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
        """Put the message into the one queue or the other; as `InDoubtWrite`."""
        if not is_written:
            self._reinstate([self._entry])
            return
        self._store.release(self._entry.reference)
        for message in self.changes.messages:
            reference = message.reference
            reference.journaled = True
            # The mover has released the message, and the queue that takes it may read it.
            self._store.adopt(reference, message.envelope)
            try:
                self._target.enqueue(reference)
            except ProviderError:  # the queue was destroyed, with all its messages
                self._store.release(reference)


class InDoubtWrites:
    """The writes in doubt of one host. Safe to use from any thread; the lock is innermost, and not held during I/O."""

    def __init__(self, journal: Journal, clock: Clock, schedule: Callable[[Scheduled, int], None] | None) -> None:
        """`schedule` asks for a call of `run_due`, as in `Queue`."""
        self._journal = journal
        self._clock = clock
        self._schedule = schedule
        # Held while the store is asked: otherwise a thread that has found a write missing could put messages back
        # whose removal another thread writes again.
        self._ask_lock = Lock()
        self._lock = Lock()
        self._waiting: list[InDoubtWrite] = []
        self._unread: list[QueueEntry] = []
        self._has_doubt_until_restart = False

    def add(self, doubt: InDoubtWrite) -> None:
        """Add a write in doubt. Does not wait."""
        with self._lock:
            self._waiting.append(doubt)
        _log.warning("PYJMS-BROKER-15 %s is in doubt, and what it took is held until the store answers", doubt)
        self._ask_soon()

    def remove_again(self, entries: Collection[QueueEntry], *, force: bool) -> bool:
        """Write again that `entries` were taken out of their queues, where the first write is in doubt; return whether none of it is in doubt any more.

        Messages whose removal turned out not to be written are in their queues. Waits for the journal.
        """
        with self._ask_lock:
            with self._lock:
                # A message that has yet to be read is neither settled nor in its queue: it is in doubt, too.
                is_unread = any(entry in self._unread for entry in entries)
                removals = [
                    doubt for doubt in self._waiting if isinstance(doubt, RemovalInDoubt) and doubt.concerns(entries)
                ]
            for doubt in removals:
                try:
                    # The same changes: if the first write was made, they change nothing.
                    self._journal.write(doubt.changes, force=force)
                except ProviderError:
                    return False
                doubt.end_doubt(self._clock.time_ms(), is_written=True)
                with self._lock:
                    # Not earlier: if `end_doubt` fails, the write stays in doubt.
                    self._waiting.remove(doubt)
                _log.warning("PYJMS-BROKER-16 %s has been written, as it was asked for once more", doubt)
            return not is_unread

    def add_unread(self, entry: QueueEntry) -> None:
        """Add a message whose queue must read it to take it back, and cannot now. Does not wait."""
        with self._lock:
            self._unread.append(entry)
        _log.warning("PYJMS-BROKER-17 a message of %r comes back when it can be read", entry.queue.name)
        self._ask_soon()

    def _ask_soon(self) -> None:
        if self._schedule is not None:
            self._schedule(self, self._clock.time_ms() + RETRY_MS)

    def add_unit(self, unit: UnitOfWork) -> None:
        """Add a unit whose write was not answered. Does not wait."""
        # A unit that only sent is withdrawn; one that has received waits, as its messages may be settled in the store.
        changes = unit.withdraw()
        if changes is None:
            self.add(unit)
        else:
            self._journal.note(changes)

    def add_until_restart(self) -> None:
        """Note a doubt that cannot be settled before the next start."""
        # So a stop does not close the journal as clean: delivery marks stay, and messages that were held are flagged.
        self._has_doubt_until_restart = True

    def run_due(self, now_ms: int) -> int | None:
        """Ask the store; return when to call again, in wall-clock ms; None: when asked."""
        self._ask()
        return now_ms + RETRY_MS if self._waiting or self._unread else None

    def settle(self) -> bool:
        """Ask the store; return whether nothing is in doubt any more. Waits for the journal."""
        self._ask()
        return not (self._waiting or self._unread or self._has_doubt_until_restart)

    def _ask(self) -> None:
        with self._ask_lock:
            with self._lock:
                # Copies: other threads may add writes while the store is asked, and each question may wait.
                unread, waiting = list(self._unread), list(self._waiting)
            for entry in unread:
                if self._try_to_end(partial(_is_back, entry), "what is to come back"):
                    with self._lock:
                        self._unread.remove(entry)
            for doubt in waiting:
                # The store does not answer, so the rest is not asked for: each question may take as long.
                if not self._try_to_end(partial(self._settle, doubt), doubt):
                    return
                # Removed after `end_doubt`, so that a write whose end fails stays in doubt.
                with self._lock:
                    self._waiting.remove(doubt)

    def _try_to_end(self, end: Callable[[], bool], subject: object) -> bool:
        """Return the result of `end`; if that fails, leave the subject to the next start, so that the others are settled."""
        try:
            return end()
        except Exception:
            _log.exception("PYJMS-BROKER-18 %s cannot be settled before the next start of the broker", subject)
            self._has_doubt_until_restart = True
            return True

    def _settle(self, doubt: InDoubtWrite) -> bool:
        """Ask about one write, and end its doubt; return False if the store does not answer."""
        try:
            is_written = self._is_written(doubt)
        except ProviderError:
            return False
        doubt.end_doubt(self._clock.time_ms(), is_written=is_written)
        _log.warning("PYJMS-BROKER-16 %s has been found %s", doubt, "written" if is_written else "not to be written")
        return True

    def _is_written(self, doubt: InDoubtWrite) -> bool:
        """Return whether a write was made. Raises `ProviderError` while the store cannot tell."""
        # One message decides for the whole write, as changes are written whole or not at all.
        for queue, reference, is_there in doubt.changes.probes():
            found = self._journal.holds(queue, reference)
            if found is not None:
                return found is is_there
        return False  # all its queues have ended, with their messages


def _is_back(entry: QueueEntry) -> bool:
    try:
        entry.queue.reinstate(entry)
    except ProviderError:
        return False
    return True
