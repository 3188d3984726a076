"""The staged units of a virtual host: transactions that wait under a name until their epoch is promoted (`pyjms.spi.replay`).

A staged unit is a PREPARED unit of work, like that of a branch: its messages are NOT_COMMITTED, and stored with it. One
write commits all units of an epoch, sets the sink's marker, and discards all older units of the sink.

Locks: each sink has a turn, a lock held by one thread while it writes; the table's lock guards the tables, for a few steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import InDoubtError, ProviderError, RolledBackError, StageError
from pyjms.spi.replay import StagedUnit, StageName
from pyjms_provider.core.journal.in_doubt_writes import is_outcome_unknown
from pyjms_provider.core.journal.journal import Changes, PipelineChanges, StageRecord
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.consumer import ConsumerSession
from pyjms_provider.core.queue.recovery import restore_message
from pyjms_provider.core.transaction.reader_groups import GroupTable
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork

if TYPE_CHECKING:
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.scheduled import Scheduled
    from pyjms_provider.core.transaction.reader_groups import PipelineHost

_log = logging.getLogger(__name__)

_SINK_MAX: Final = 200
_ATTEMPT_MAX: Final = 100
_AGAIN_MS: Final = 1000
"""The interval until the timer thread tries a busy sink again."""


@dataclass(slots=True)
class _Staged:
    record: StageRecord
    unit: UnitOfWork
    is_unanswered: bool = False
    """Its promotion was written without an answer: only that can be tried again."""


class _Sink:
    __slots__ = ("claimed", "doubtful", "marker", "staged", "turn")

    def __init__(self) -> None:
        self.marker: int | None = None
        self.turn = Lock()
        self.staged: dict[StageName, _Staged] = {}
        self.claimed: dict[StageName, UnitOfWork] = {}
        """Units that are being staged."""
        self.doubtful: tuple[int, list[tuple[StageName, bool]]] | None = None
        """A promotion without an answer, with its epoch and the outcome of each unit: to be written again before all others."""

    def has_promoted(self, epoch: int) -> bool:
        """Return whether that epoch, or a later one, has been promoted, so that no unit of it can be promoted any more."""
        return self.marker is not None and epoch <= self.marker


class StageTable:
    """All staged units and markers of one host. Safe to use from any thread."""

    def __init__(self, host: PipelineHost, schedule: Callable[[Scheduled, int], None] | None) -> None:
        """`schedule` asks for a call of `run_due`, as in `Queue`."""
        self._host = host
        self._schedule = schedule
        self._lock = Lock()
        self._sinks: dict[str, _Sink] = {}

    # Staging

    def stage(
        self,
        name: StageName,
        keep_s: int,
        unit: UnitOfWork,
        begin_commit: Callable[[], UnitOfWork | None],
    ) -> int:
        """Stage a session's unit of work, as `ProviderSession.stage` says. Waits for the journal.

        `unit`: the work of the transaction; `begin_commit` takes it from the session, so that no other call ends it.
        """
        _check(name)
        if keep_s < 1:
            raise StageError("a staged unit is kept for a second at least")
        if unit.tags is not None:
            raise StageError("the transaction has tags of a registered client, which a staged unit has not: commit it")
        if unit.size[1]:
            raise StageError(
                "messages were received in this transaction; a staged unit only sends: commit, or roll back"
            )
        with self._lock:
            sink = self._sinks.setdefault(name.sink, _Sink())
        try:
            self._claim(sink, name, unit)
            return self._host.work(partial(self._begin, sink, name, begin_commit, keep_s))
        finally:
            with self._lock:
                # Only its own claim: another attempt with the same name was refused, and must not end this one's.
                if sink.claimed.get(name) is unit:
                    del sink.claimed[name]

    def _claim(self, sink: _Sink, name: StageName, unit: UnitOfWork) -> None:
        with self._lock:
            if name in sink.staged or name in sink.claimed:
                raise StageError(f"{_text(name)} is there already: each attempt has a name of its own")
            _check_epoch(name, sink)
            sink.claimed[name] = unit

    def _begin(self, sink: _Sink, name: StageName, begin_commit: Callable[[], UnitOfWork | None], keep_s: int) -> int:
        unit = begin_commit()
        assert unit is not None, "it was opened before"
        return self._keep(sink, name, unit, keep_s)

    def _keep(self, sink: _Sink, name: StageName, unit: UnitOfWork, keep_s: int) -> int:
        host = self._host
        now_ms = host.clock.time_ms()
        messages = sum(entry.state is MessageState.NOT_COMMITTED for entry in unit.sent())  # others have expired
        record = StageRecord(name=name, messages=messages, staged_ms=now_ms, discarded_after_ms=now_ms + keep_s * 1000)
        storage = host.storage
        try:
            unit.stage(record, None if storage is None else storage.journal)
        except RolledBackError:
            raise
        except Exception:  # it may be in the store, but its sender got no promise
            self._note_discarded([name])
            raise
        # The journal has the messages with the unit now, so copies that were paged out while it was open can be dropped.
        for entry in unit.sent():
            host.store.drop_copy(entry.reference)
        with self._lock:
            # The epoch may have been promoted while the unit was written.
            is_late = sink.has_promoted(name.epoch)
            if not is_late:
                sink.staged[name] = _Staged(record, unit)
        if is_late:
            self._note_discarded([name])
            unit.decide(commit=False)
            # No `StageError`: that leaves the transaction open.
            raise RolledBackError(f"{_text(name)} was rolled back, as its epoch was promoted while it was stored")
        self._ask(record)
        with suppress(ProviderError):  # the unit is safe; the next sender gets the error
            host.store.relieve()
        return record.messages

    # Promoting and discarding

    def promote(self, sink_name: str, epoch: int, units: Sequence[StageName]) -> bool:
        """Promote units, as `Stages.promote` says. Waits for the journal."""
        _check(StageName(sink_name, epoch, 0, "-"))
        with self._lock:
            sink = self._sinks.setdefault(sink_name, _Sink())
        with sink.turn:
            is_new = self._host.work(partial(self._promote_in_turn, sink, sink_name, epoch, units))
        if not is_new:
            return False
        with suppress(ProviderError):
            self._host.store.relieve()
        return True

    def _promote_in_turn(self, sink: _Sink, sink_name: str, epoch: int, units: Sequence[StageName]) -> bool:
        if sink.doubtful is not None:
            # An unanswered promotion may be in the store, so no later epoch may overtake it.
            last, outcomes = sink.doubtful
            self._promote(sink, sink_name, last, outcomes)
            # The caller repeats that very promotion, which has just been made.
            if (last, {name for name, is_promoted in outcomes if is_promoted}) == (epoch, set(units)):
                return True
        with self._lock:
            if sink.has_promoted(epoch):
                return False
            chosen = dict.fromkeys(units)
            _check_units(sink, sink_name, epoch, chosen)
            # Older attempts and epochs can never be promoted any more: the marker is beyond them.
            older = [name for name in sink.staged if name.epoch <= epoch and name not in chosen]
        outcomes = [*((name, True) for name in chosen), *((name, False) for name in older)]
        self._promote(sink, sink_name, epoch, outcomes)
        return True

    def _promote(self, sink: _Sink, sink_name: str, epoch: int, outcomes: list[tuple[StageName, bool]]) -> None:
        # One write for all units and the marker: after a crash an epoch is there completely, or not at all (decision 0172).
        self._write_promotion(sink, sink_name, epoch, outcomes)
        with self._lock:
            sink.marker, sink.doubtful = epoch, None
            ended = [(sink.staged.pop(name), is_promoted) for name, is_promoted in outcomes]
        # Discarded units first: they release room in limited queues.
        for staged, is_promoted in sorted(ended, key=lambda each: each[1]):
            if is_promoted:
                self._make_true(staged.unit)
            else:
                staged.unit.decide(commit=False)

    def _write_promotion(self, sink: _Sink, name: str, epoch: int, outcomes: list[tuple[StageName, bool]]) -> None:
        storage = self._host.storage
        if storage is None:
            return
        changes = Changes(pipelines=PipelineChanges(outcomes=outcomes, markers=[(name, epoch)]))
        for unit_name, is_promoted in outcomes:
            if is_promoted:
                changes.duplicates += sink.staged[unit_name].unit.duplicate_marks()
        try:
            storage.journal.write(changes, force=True)
        except Exception as error:
            if is_outcome_unknown(error):
                with self._lock:
                    sink.doubtful = epoch, outcomes
                    for unit_name, _ in outcomes:
                        # Until the write is repeated they must not be discarded: they may be promoted in the store.
                        sink.staged[unit_name].is_unanswered = True
            raise

    def _make_true(self, unit: UnitOfWork) -> None:
        expiring = {entry.queue for entry in unit.sent() if entry.reference.expiration_ms}
        unit.decide(commit=True)
        for queue in expiring:
            queue.run_due(self._host.clock.time_ms())  # while it was staged, expiry left it alone

    def discard(self, units: Iterable[StageName]) -> int:
        """Discard units, as `Stages.discard` says; return how many there were. Waits for the journal."""
        by_sink: dict[str, dict[StageName, None]] = {}
        for name in units:
            by_sink.setdefault(name.sink, {})[name] = None
        discarded = 0
        for sink_name, names in by_sink.items():
            sink = self._sinks.get(sink_name)
            if sink is not None:
                with sink.turn:
                    # One sink at a time: to hold two locks could deadlock with a thread that takes them in the other order.
                    discarded += self._host.work(partial(self._discard, sink, names))
        return discarded

    def _discard(self, sink: _Sink, names: Iterable[StageName]) -> int:
        with self._lock:
            found = {name: sink.staged[name] for name in names if name in sink.staged}
        if any(staged.is_unanswered for staged in found.values()):
            raise InDoubtError(
                "nobody answered when units were promoted, so they cannot be discarded: promote them again"
            )
        storage = self._host.storage
        if found and storage is not None:
            changes = Changes(pipelines=PipelineChanges(outcomes=[(name, False) for name in found]))
            try:
                # Not forced: a unit that reappears after a loss of power is discarded again when its time is over.
                storage.journal.write(changes, force=False)
            except Exception as error:
                # They may be gone from the store, so they are discarded here, too: they cannot be promoted any more.
                if is_outcome_unknown(error):
                    storage.journal.note(changes)
                    self._forget(sink, found)
                raise
        self._forget(sink, found)
        return len(found)

    def _forget(self, sink: _Sink, found: dict[StageName, _Staged]) -> None:
        with self._lock:
            for name in found:
                del sink.staged[name]
        for staged in found.values():
            staged.unit.decide(commit=False)

    # Queries

    def marker(self, sink: str) -> int | None:
        """Return the last promoted epoch of a sink, or None."""
        known = self._sinks.get(sink)
        return None if known is None else known.marker

    def markers(self) -> dict[str, int]:
        """Return the last epoch of each sink that has promoted one."""
        with self._lock:
            return {name: sink.marker for name, sink in sorted(self._sinks.items()) if sink.marker is not None}

    def units(self, sink: str | None = None) -> list[StagedUnit]:
        """Return the waiting units, of one sink or of all, by name."""
        with self._lock:
            sinks = self._sinks.values() if sink is None else [known for known in [self._sinks.get(sink)] if known]
            records = [staged.record for each in sinks for staged in each.staged.values()]
        return [
            StagedUnit(
                name=record.name,
                messages=record.messages,
                staged_ms=record.staged_ms,
                discarded_after_ms=record.discarded_after_ms,
            )
            for record in sorted(records, key=lambda record: record.name)
        ]

    # Timed work

    def run_due(self, now_ms: int) -> int | None:
        """Discard units that were not promoted in time; return when to call again, in wall-clock ms; None: when asked."""
        with self._lock:
            sinks = list(self._sinks.values())
        is_busy = False
        for sink in sinks:
            # The timer thread serves the whole broker, and must not wait for a disk.
            if not sink.turn.acquire(blocking=False):
                is_busy = True
                continue
            try:
                self._discard_late(sink, now_ms)
            finally:
                sink.turn.release()
        with self._lock:
            due = [staged.record.discarded_after_ms for sink in sinks for staged in sink.staged.values()]
        due_ms = min(due, default=None)
        if due_ms is None:
            return None
        return max(due_ms, now_ms + _AGAIN_MS) if is_busy or due_ms <= now_ms else due_ms

    def _discard_late(self, sink: _Sink, now_ms: int) -> None:
        with self._lock:
            late = {
                name: staged
                for name, staged in sink.staged.items()
                if staged.record.discarded_after_ms <= now_ms and not staged.is_unanswered
            }
        if late:
            # Deferred, as the timer thread must not wait for the journal; a crash before that only repeats it.
            self._note_discarded(list(late))
            self._forget(sink, late)
            _log.warning(
                "PYJMS-BROKER-24 %d staged units of sink %r were discarded, as nobody promoted them in time",
                len(late),
                next(iter(late)).sink,
            )

    def _note_discarded(self, names: Sequence[StageName]) -> None:
        storage = self._host.storage
        if storage is not None:
            storage.journal.note(Changes(pipelines=PipelineChanges(outcomes=[(name, False) for name in names])))

    def _ask(self, record: StageRecord) -> None:
        if self._schedule is not None:
            self._schedule(self, record.discarded_after_ms)

    # Restoring from a journal

    def restore_marker(self, sink: str, epoch: int) -> None:
        """Restore the marker of a sink; before the units."""
        self._sinks.setdefault(sink, _Sink()).marker = epoch

    def restore(self, record: StageRecord, sent: Iterable[tuple[Queue, MessageReference]]) -> None:
        """Restore a waiting unit; before the queues are used."""
        name = record.name
        holder = ConsumerSession(ReceiverId(_text(name)), is_delivering=False)
        unit = UnitOfWork(UnitId(_text(name)), holder)
        for queue, reference in sent:
            restore_message(queue, reference, 0, unit)
        # After its messages were added, as a PREPARED unit accepts no more.
        unit.restore_prepared()
        sink = self._sinks.setdefault(name.sink, _Sink())
        if sink.has_promoted(name.epoch):  # it came too late, and the broker died at that moment
            self._note_discarded([name])
            unit.decide(commit=False)
            return
        sink.staged[name] = _Staged(record, unit)
        self._ask(record)


class Pipelines:
    """The reader groups and staged units of a virtual host."""

    def __init__(self, host: PipelineHost, schedule: Callable[[Scheduled, int], None] | None) -> None:
        self.groups = GroupTable(host)
        self.stages = StageTable(host, schedule)


def _text(name: StageName) -> str:
    return f"staged unit {name.sink}/{name.epoch}/{name.partition}/{name.attempt}"


def _check(name: StageName) -> None:
    if not (1 <= len(name.sink) <= _SINK_MAX and 1 <= len(name.attempt) <= _ATTEMPT_MAX):
        raise StageError(f"a sink's name has 1 to {_SINK_MAX} characters, and an attempt's 1 to {_ATTEMPT_MAX}")
    if not (0 <= name.epoch < 1 << 63 and -1 << 31 <= name.partition < 1 << 31):
        raise StageError("an epoch is 0 or more, and a partition a number of 32 bits")


def _check_epoch(name: StageName, sink: _Sink) -> None:
    if sink.has_promoted(name.epoch):
        raise StageError(f"sink {name.sink!r} has promoted epoch {sink.marker}, so {_text(name)} comes too late")


def _check_units(sink: _Sink, sink_name: str, epoch: int, units: Iterable[StageName]) -> None:
    for name in units:
        if (name.sink, name.epoch) != (sink_name, epoch):
            raise StageError(f"{_text(name)} is not of epoch {epoch} of sink {sink_name!r}; nothing was promoted")
        if name not in sink.staged:
            raise StageError(
                f"{_text(name)} is not there: it was never staged, was discarded, or its time was over; nothing was promoted"
            )
