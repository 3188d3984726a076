"""The journal in an SQL database: opening, group commits, reads by id, paging, recovery, and joined transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Connection, Transaction, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ClosedError, InDoubtError, ProviderError, ResourceError, UrlError
from pyjms_provider.core.journal.journal import Changes, JoinedTransaction, Journal, QueueNumber, QueueRecord, Recovery
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD, MessageReference, ReferenceId
from pyjms_provider.forks import forget_in_children
from pyjms_provider.settings import URL_OPTIONS, Acknowledge, StandBy
from pyjms_provider.stores.errors import (
    CodecError,
    LostStoreError,
    StoreError,
    UnavailableStoreError,
    UnsupportedStoreError,
)
from pyjms_provider.stores.group_commit import CommitRequest, GroupCommit
from pyjms_provider.stores.message_format import decode, encode
from pyjms_provider.stores.sql.batch import (
    Batch,
    PagedRows,
    Row,
    add_branches,
    add_dropped,
    add_pipelines,
    batch_of,
    drop_messages,
    drop_queue,
    make_batch,
    merge,
    message_row,
    next_queue,
    queue_row,
    text_to_column,
)
from pyjms_provider.stores.sql.database import Lease, LeaseMonitor
from pyjms_provider.stores.sql.recovery import Snapshot, read_entries, read_places, read_records
from pyjms_provider.stores.sql.schema import OpenRequest

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address, Envelope
    from pyjms_provider.core.journal.journal import SubscriptionKey
    from pyjms_provider.settings import StoreSettings
    from pyjms_provider.stores.sql.database import Database, Paging
    from pyjms_provider.stores.sql.schema import Meta


_SHARED: Final = "pyjms_shared"


def open_journal(
    settings: StoreSettings,
    holder: str,
    clock: Clock,
    *,
    on_lost: Callable[[ProviderError], None] = lambda _: None,
    cancelled: Signal | None = None,
) -> SqlJournal:
    """Open the database that `settings` names, for a broker called `holder`, and create its schema if it is empty.

    `on_lost` is called once, from any thread, when another broker holds the database, or may hold it. With
    `StandBy.WAIT` this waits while another broker holds it, without end or until `cancelled`.

    Raises `UrlError`, and `StoreError`: `UnsupportedStoreError`, `UnusableStoreError`, `HeldStoreError`,
    `ForeignStoreError`, `NewerStoreError`, `DamagedStoreError`. Each error says what to do.
    """
    url, is_shared = _read_url(settings.url)
    request = OpenRequest(
        url=url,
        holder=holder,
        clock=clock,
        synchronous=settings.synchronous,
        waits=settings.stand_by is StandBy.WAIT,
        cancelled=cancelled,
        is_shared=is_shared,
        keep_free_bytes=settings.keep_free_bytes,
        held_until_s=settings.held_until_s,
    )
    database, paging, meta = _opener(url)(request)
    force_all = settings.acknowledge is Acknowledge.FORCED
    # Only a server's journal has a lease, and pays for a check of it on each delivery.
    kind = SqlJournal if database.lease is None else LeasedJournal
    return kind(database, paging, clock, meta, force_all=force_all, on_lost=on_lost)


def _opener(url: URL) -> Callable[[OpenRequest], tuple[Database, Paging, Meta]]:
    if url.drivername in {"sqlite", "sqlite+pysqlite"}:
        # Each driver is imported on use: psycopg is an optional dependency, which a broker on SQLite does not need.
        from pyjms_provider.stores.sql.sqlite import open_sqlite

        return open_sqlite
    if url.drivername == "postgresql+psycopg":
        from pyjms_provider.stores.sql.postgresql import open_postgresql

        return open_postgresql
    raise UnsupportedStoreError(
        f"{url.drivername} was not tested as a store; write sqlite:///FILE, or postgresql+psycopg://USER@HOST/DATABASE"
    )


def _read_url(text: str) -> tuple[URL, bool]:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise UrlError("the store is not an SQLAlchemy URL; write for instance sqlite:///shop.db") from error
    for name in sorted(URL_OPTIONS & url.query.keys()):
        raise UrlError(
            f"{name}= says what the broker does, and stands in the URL of its store; write it into the broker's own, as in "
            f"vm://shop?store=sqlite:///shop.db&{name}=…, or, where it is served, give it to its virtual host as an attribute"
        )
    shared = url.query.get(_SHARED, "false")
    if shared not in {"true", "false"}:
        raise UrlError(f"{shared!r} is no value of {_SHARED}; write true or false")
    # The option is the broker's own: a database driver would refuse a URL with it.
    return url.difference_update_query([_SHARED]), shared == "true"


# Deferred records: the journal writes them before or with the next write.

_ABOUT_NAMES: Final = ("drop_queue_duplicates", "put_duplicate", "put_queue_duplicate", "forget_duplicates")


@dataclass(slots=True)
class DeferredBatch:
    """The deferred records that a writer has taken from `DeferredRecords`."""

    batch: Batch
    ends: list[Changes]
    """Outcomes of branches or staged units; their rows are read from the database when they are written."""
    is_urgent: bool
    """Whether no later change may be written before these records, as it may concern a queue or branch of the same name. This is not so for counts and removals of messages."""


class DeferredRecords:
    """The deferred records of a journal. Safe to use from any thread; no other lock is taken while its own is held."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ends: list[Changes] = []
        self._urgent_taken = 0
        self.batch: Batch | None = None
        """The records to be written; None: there are none, and no outcomes either."""

    def add(self, batch: Batch) -> None:
        """Append a batch, which is not used elsewhere."""
        with self._lock:
            if self.batch is None:
                self.batch = batch
            else:
                self.batch.absorb(batch)

    def add_end(self, changes: Changes) -> None:
        """Append outcomes of branches or staged units."""
        with self._lock:
            self._ends.append(changes)
            # Writers check only `batch` to see whether anything is deferred,
            # so an outcome without rows needs an empty batch.
            if self.batch is None:
                self.batch = Batch()

    def take(self, *, unless_urgent_is_taken: bool = False) -> DeferredBatch | None:
        """Remove all records and return them to a writer, which then calls `end`; None: there are none.

        `unless_urgent_is_taken`: raises `UnavailableStoreError` while another writer has urgent records, which must be written first.
        """
        with self._lock:
            if unless_urgent_is_taken and self._urgent_taken:
                raise UnavailableStoreError(
                    "the broker is about to write what was in doubt before; nothing was written, so do the transaction again"
                )
            # Taken and cleared under one lock, so that no two commits write the same records.
            batch, self.batch = self.batch, None
            ends, self._ends = self._ends, []
            if batch is None:
                return None
            is_urgent = bool(ends or batch.others) or any(name in batch.rows for name in _ABOUT_NAMES)
            # Counted as long as the writer has them: a joined transaction that started
            # now would be written before these records.
            self._urgent_taken += is_urgent
            return DeferredBatch(batch, ends, is_urgent)

    def end(self, taken: DeferredBatch, *, was_written: bool) -> None:
        """Finish a writer's `take`. If the records were not written, they are deferred again, before all later ones."""
        with self._lock:
            # Under the same lock as the return of the records, so that `is_urgent`
            # never misses records between the two places.
            self._urgent_taken -= taken.is_urgent
            if was_written:
                return
            # Before all records deferred since: of two records of a row the later one must be written last.
            self._ends[:0] = taken.ends
            if self.batch is not None:
                taken.batch.absorb(self.batch)
            self.batch = taken.batch

    @property
    def is_urgent(self) -> bool:
        """Whether there may be records, deferred or taken by a writer, that must be written before all others."""
        with self._lock:
            return self.batch is not None or self._urgent_taken > 0


_log = logging.getLogger(__name__)

_Work = TypeVar("_Work")


class SqlJournal(Journal):
    """A journal in a database that it holds. See `docs/design/stores.md`."""

    def __init__(
        self,
        database: Database,
        paging: Paging,
        clock: Clock,
        meta: Meta,
        *,
        force_all: bool = False,
        on_lost: Callable[[ProviderError], None] = lambda _: None,
    ) -> None:
        """`force_all`: every write is forced, also one with acknowledgements alone."""
        self._database = database
        self._paging = paging
        # A batch reads paged-out bodies while it is written, and has access to the database, but not to the paging table.
        database.read_paged = paging.fetch
        self._clock = clock
        self._meta = meta
        self._force_all = force_all
        self._on_lost = on_lost
        self._group: GroupCommit[Batch | Row] = GroupCommit(
            self._commit_group, thread_name=f"pyjms commits {database.engine.url.database}"
        )
        self._lock = Lock()
        self._deferred = DeferredRecords()
        self._last_batch = Batch()
        self._queue_numbers = count(meta.next_queue)
        # `recover` starts the count again, after the numbers in use.
        self._branch_numbers = count(1)
        self._queues: dict[tuple[Address, SubscriptionKey | None], QueueNumber] = {}
        self._lost: LostStoreError | None = None
        self._is_closed = False
        # A forked child that wrote to the inherited connection would mix its bytes with its parent's.
        forget_in_children(self)
        self._was_held = True
        """Whether the store was held at the last check."""
        self._watch: LeaseMonitor | None = None
        self._lease = database.lease
        if self._lease is not None:
            # An idle broker commits nothing, so it would not learn without this thread that it has lost its store.
            self._watch = LeaseMonitor(self._look, clock, name=database.engine.url.database)
            self._watch.start()

    @property
    def is_local(self) -> bool:
        return self._database.is_local

    @property
    def was_closed(self) -> bool:
        """Whether the last holder closed it cleanly."""
        return self._meta.was_closed

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Provide a connection that sees one snapshot of the database. Raises `StoreError`."""
        with self._database.reading(is_beginning=True) as connection:
            yield connection

    @property
    def trouble(self) -> str | None:
        if self._lost is not None:
            return self._lost.reason
        if not self.is_held:
            return "the connection that holds the store was lost, and is not there again"
        return self._database.trouble

    def recover(self, progress: Callable[[int], None]) -> Recovery:
        database = self._database
        with self._group.writer_lock:
            snapshot = Snapshot(database)
        found = read_records(database, snapshot)
        # A number that is in use again would merge two branches, or a branch and a
        # staged unit: their rows differ by number alone.
        self._branch_numbers = count(found.last_branch + 1)
        statements, forgotten = database.statements, Batch()
        # The messages of a damaged group go back to their queue. Its remaining rows
        # would belong to the next group of that number.
        if found.lost_groups:
            rows = [(number,) for number in found.lost_groups]
            forgotten.others = [(statements.drop_reserved, rows), (statements.drop_group, rows)]
        now_ms = self._clock.time_ms()
        # Expired ids are otherwise deleted by the next send to their destination, which may never happen.
        if any(mark.until_ms < now_ms for mark in found.duplicates):
            forgotten.others.append((statements.drop_old_duplicates, [(now_ms,)]))
        if forgotten.others:
            # Deferred: the first commit writes these rows, so that the opening needs no commit of its own.
            self._deferred.add(forgotten)
        self._queues = {(record.address, record.subscription): record.number for record in found.queues}
        return Recovery(
            queues=found.queues,
            entries=read_entries(database, snapshot.messages, progress, self._set_rows_aside),
            branches=found.branches,
            heuristics=found.heuristics,
            duplicates=found.duplicates,
            marks=found.marks,
            was_closed=self._meta.was_closed,
            last_id=found.last_id,
            groups=found.groups,
            stages=found.stages,
            stage_markers=found.stage_markers,
            clients=found.clients,
        )

    # Writing

    def write(self, changes: Changes, *, force: bool) -> None:
        self._submit(self._batch(changes), force=force)

    def add(self, reference: MessageReference, envelope: Envelope, queue: QueueNumber) -> None:
        payload = encode(envelope)
        # The encoded size is exact, and costs nothing here; memory limits use it from now on.
        reference.size = len(payload) + MESSAGE_OVERHEAD
        row = message_row(reference, queue, None, payload)
        group = self._group
        # No other thread writes now, so one statement is enough, without a request, a batch, or a signal.
        if group.is_free():
            try:
                with group.writer_lock:
                    # Checked with the lock held: deferred records must be written before
                    # this message, which needs a group commit.
                    if self._deferred.batch is None and self._lost is None and not self._is_closed:
                        self._database.add_messages((row,))
                        return
            except (StoreError, InDoubtError) as error:
                self._note_failure(error)
                raise
        # `_commit_group` checks again whether the journal is closed or lost, and then refuses the message.
        group.submit(row, force=True)

    @property
    def can_join(self) -> bool:
        return True

    def join(self, transaction: object) -> JoinedWriter:
        if self._is_closed:
            raise _closed()
        if self._lost is not None:
            raise self._lost
        return JoinedWriter(transaction, self._meta.opening, self._database, self)

    def note(self, changes: Changes) -> None:
        # Callers cannot handle an error here, and a closed journal writes no deferred records.
        if self._is_closed:
            return
        # The rows of an outcome are read from the database, and this method must not wait.
        if changes.outcomes or (changes.pipelines is not None and changes.pipelines.outcomes):
            self._deferred.add_end(changes)
        else:
            self._deferred.add(self._batch(changes))

    def _batch(self, changes: Changes) -> Batch:
        batch = make_batch(changes)
        if changes.prepared is not None or changes.outcomes:
            add_branches(batch, changes, self._database, lambda: next(self._branch_numbers))
        if changes.pipelines is not None:
            add_pipelines(batch, changes, self._database, lambda: next(self._branch_numbers))
        if changes.dropped:
            # From now on `number_of` returns a new number for a queue of this name: rows
            # of the dropped queue's messages may remain.
            self._forget_numbers(changes.dropped)
            add_dropped(batch, self._database.statements, changes.dropped)
        for record in changes.corrected:
            self._define(batch, record)
        return batch

    def _submit(self, batch: Batch, *, force: bool) -> None:
        if self._is_closed:
            raise _closed()
        if self._lost is not None:
            raise self._lost
        self._group.submit(batch, force=force or self._force_all)

    def _commit_group(self, requests: Sequence[CommitRequest[Batch | Row]]) -> None:
        """Write the deferred records and a group in one commit. If that fails, write each alone, so that one bad request harms no other."""
        # Checked again by the committing thread: `close` may have been called while these requests waited.
        if self._is_closed or self._lost is not None:
            requests = self._refuse_if_closed(requests)
        if self._deferred.batch is None:
            rows = [request.work for request in requests if isinstance(request.work, tuple)]
            # The common case when many threads send: single messages only, so no batches are built or merged.
            if len(rows) == len(requests) > 0:
                self._add_messages(requests, rows)
                return
            # The common case when few threads work.
            if len(requests) == 1:
                [request] = requests
                assert isinstance(request.work, Batch)
                # `_attempt` inline: for an acknowledgement its calls would cost as much as making the rows.
                try:
                    self._database.commit(request.work, force=request.force)
                    request.error = None
                except (StoreError, InDoubtError) as error:
                    self._note_failure(error)
                    request.error = error
                return
        deferred = self._deferred.take()
        was_written = False
        try:
            was_written = self._write_all(self._with_outcomes(deferred), requests)
        except ProviderError as error:
            self._note_failure(error)
            # The look-up of outcomes has failed. Nothing is written then: a branch of the same name may be among the
            # requests, and must not be written before the outcome of the older one.
            for request in requests:
                request.error = error
        finally:
            if deferred is not None:
                self._deferred.end(deferred, was_written=was_written)

    def _with_outcomes(self, deferred: DeferredBatch | None) -> Batch | None:
        """Add the rows of deferred outcomes, in their order, to the deferred batch, and return it. Raises `ProviderError`."""
        if deferred is None:
            return None
        if deferred.ends:
            # If the lock was lost, a commit that prepared such a branch may still be under way, and its rows would be
            # invisible. `look` takes the lock again, and waits for that commit.
            self._database.look()
        while deferred.ends:
            deferred.batch.absorb(self._batch(deferred.ends[0]))
            # Removed one by one: if the next look-up fails, `end` defers only
            # the outcomes that are not in the batch yet.
            del deferred.ends[0]
        return deferred.batch

    def flush_deferred(self) -> None:
        """Write the deferred records, and wait for those that another thread is writing; force what was not forced. Raises as `write`."""
        if self._database.has_unforced:
            # Else it might be written again after the caller has removed it. A commit that writes nothing forces nothing.
            forced = Batch()
            forced.others = [(self._database.statements.set_clean, [(False,)])]
            self._submit(forced, force=True)
        elif self._deferred.is_urgent:
            self._submit(Batch(), force=False)

    @contextmanager
    def take_deferred(self) -> Iterator[Sequence[Batch]]:
        """Provide the deferred records to a caller that writes them in its own transaction, and excludes all other writers meanwhile.

        If the block fails, they are deferred again. Raises `UnavailableStoreError` when another thread is about to write urgent
        records, which that transaction would overtake; and as `write`.
        """
        deferred = self._deferred.take(unless_urgent_is_taken=True)
        was_written = False
        try:
            batch = self._with_outcomes(deferred)
            yield () if batch is None else (batch,)
            # Only here, after the caller's commit: after an exception at the `yield` the records are deferred again.
            was_written = True
        finally:
            if deferred is not None:
                self._deferred.end(deferred, was_written=was_written)

    def _refuse_if_closed(self, requests: Sequence[CommitRequest[Batch | Row]]) -> Sequence[CommitRequest[Batch | Row]]:
        """Refuse requests if the journal is closed or lost; return those still to be committed."""
        error = self._lost or (_closed() if self._is_closed else None)
        if error is None:
            return requests
        for request in requests:
            request.error = error
        # `close` submits its own last batch after it has set the closed flag, and that one must be committed.
        return [request for request in requests if request.work is self._last_batch and self._lost is None]

    def _add_messages(self, requests: Sequence[CommitRequest[Batch | Row]], rows: Sequence[Row]) -> None:
        """Write requests that each add one message, while nothing is deferred, and set their errors."""
        error = self._attempt(self._database.add_messages, rows)
        # The exact type: its subclasses mean that the whole store has failed,
        # so single attempts would fail as well.
        if type(error) is StoreError and len(rows) > 1:
            for request, row in zip(requests, rows, strict=True):
                request.error = self._attempt(self._database.add_messages, (row,))
        else:
            for request in requests:
                request.error = error

    def _write_all(self, deferred: Batch | None, requests: Sequence[CommitRequest[Batch | Row]]) -> bool:
        """Write, and set the error of each request; return whether the deferred records are written."""
        batches = [_work_of(request) for request in requests]
        if deferred is not None:
            # First, so that a row of a request replaces a deferred row with the same key, and not the other way round.
            batches.insert(0, deferred)
        error = self._commit(merge(batches), force=any(request.force for request in requests))
        if type(error) is StoreError and len(batches) > 1:
            # Deferred records are written alone, so that an error of a request does not prevent it.
            error = None if deferred is None else self._commit(deferred, force=False)
            for request in requests:
                # The last batch must fail if the deferred records did: a clean end deletes the marks, and relies on
                # the deferred counts. A request without rows is that of a thread that waits for the deferred records.
                work = _work_of(request)
                needs_noted = work is self._last_batch or not (work.rows or work.others)
                request.error = error if error is not None and needs_noted else self._commit(work, force=request.force)
        else:  # written; or there is one batch only; or the whole store has failed
            for request in requests:
                request.error = error
        return error is None

    def _commit(self, batch: Batch, *, force: bool) -> ProviderError | None:
        return self._attempt(lambda work: self._database.commit(work, force=force), batch)

    def _attempt(self, write: Callable[[_Work], None], work: _Work) -> ProviderError | None:
        try:
            write(work)
        except (StoreError, InDoubtError) as error:
            self._note_failure(error)
            return error
        return None

    def _note_failure(self, error: ProviderError) -> None:
        """Count a failed write, and check whether the store is lost."""
        # The virtual host's statistics show this counter.
        self.failed_writes += 1
        self._look_for_loss(error)

    def _look_for_loss(self, error: ProviderError) -> None:
        """If an error says that the store is lost, stop all writes and call `on_lost`."""
        # A loss within a commit is reported as in doubt, with the loss itself as its cause.
        lost = error.__cause__ if isinstance(error, InDoubtError) else error
        if isinstance(lost, LostStoreError):
            self._mark_lost(lost)

    def _mark_lost(self, error: LostStoreError) -> None:
        with self._lock:
            if self._lost is not None:
                return
            # Only once: the listener stops the broker.
            self._lost = error
        # Outside the lock: the listener closes this journal, and `close` takes the same lock.
        _log.error("PYJMS-STORE-3 %s", error.reason)
        self._on_lost(error)

    # The lock of the store

    def _look(self) -> None:
        """Check whether the store is still held. A running commit finds this out itself."""
        if not self._group.is_free():
            if self._lease is not None:
                # A thread commits, which also checks the lock; while this one waited for it the lease would run out.
                self._lease.extend(self._lease.now_s())
        else:
            try:
                # `look` uses the writer's connection, which serves one thread at a time.
                with self._group.writer_lock:
                    if self._lost is None and not self._is_closed:
                        self._database.look()
            except StoreError as error:
                _log.debug("it is not known whether the store is held: %s", error.reason)
                self._look_for_loss(error)
        # Only the monitor's thread sets this, so there is one warning for each loss, without a lock.
        was_held, self._was_held = self._was_held, self._lost is None and self._database.is_held
        if was_held and not self._was_held and self._lost is None and not self._is_closed:
            _log.warning(
                "PYJMS-STORE-9 the connection that holds the store was lost; what is kept is handed out again when it is back"
            )

    def confirm(self) -> None:
        asked = Batch()
        # The commit checks whether the store is still held; an empty batch would not reach the database.
        asked.others = [("SELECT 1", [()])]
        self._submit(asked, force=False)

    # Reading

    def holds(self, queue: QueueNumber, reference: MessageReference) -> bool | None:
        statements = self._database.statements
        # Once this is written, no commit of unknown outcome can complete any more:
        # its connection has certainly ended.
        write = Batch()
        write.others = [(statements.set_clean, [(False,)])]
        # Forced, and with it every earlier commit: a server that dies later must
        # not forget what is reported here as held.
        self._submit(write, force=True)
        if not self._database.query(statements.has_queue, (queue,)):
            return None
        statement = statements.has_entry if reference.shared else statements.has_single
        return bool(self._database.query(statement, (reference.id, queue)))

    def read(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        if self._is_closed:
            raise _closed()
        found = self._database.fetch(ids)
        # Ids that are not in the durable table are those of non-persistent messages that were paged out.
        if len(found) < len(ids):
            found |= self._paging.fetch([each for each in ids if each not in found])
        envelopes: dict[ReferenceId, Envelope] = {}
        for reference_id, payload in found.items():
            try:
                envelope = envelopes[reference_id] = decode(bytes(payload))
                # Most messages are delivered in their encoded form, so the decoded body
                # is dropped, and decoded again on demand.
                envelope.forget()
            except CodecError as error:
                self._set_aside(reference_id, payload, error)
        return envelopes

    def _set_rows_aside(self, ids: Sequence[ReferenceId]) -> None:
        for reference_id, payload in self._database.fetch(ids).items():
            self._set_aside(reference_id, payload, CodecError("its row has values that no message has"))

    def _set_aside(self, reference_id: ReferenceId, payload: bytes, error: CodecError) -> None:
        """Move a message that cannot be decoded to the quarantine table. If that fails, it is tried again at the next read."""
        # Before the rows are deleted: the queues are read from the entries.
        places = self._places(reference_id)
        _log.error(
            "PYJMS-STORE-1 message %d in %s cannot be understood: %s. It is kept in the table pyjms_set_aside, and the others "
            "go on.",
            reference_id,
            places or "no queue that is known",
            error.reason,
        )
        statements = self._database.statements
        batch = Batch()
        # One transaction: the message is copied and deleted together, so it is neither lost nor quarantined twice.
        batch.others = [
            (
                statements.put_set_aside,
                [(reference_id, text_to_column(places), self._clock.time_ms(), error.reason, payload)],
            ),
            (statements.drop_message_entries, [(reference_id,)]),
            (statements.drop_message_removals, [(reference_id,)]),
            (statements.drop_message, [(reference_id,)]),
        ]
        try:
            self._submit(batch, force=False)
        except ProviderError as failure:
            _log.warning("PYJMS-STORE-2 message %d could not be set aside: %s", reference_id, failure.reason)

    def _places(self, reference_id: ReferenceId) -> str:
        """Return the queues of a message, for the operator; empty if they cannot be read either."""
        try:
            # Only for the log and the operator: unreadable queues must not prevent the quarantine.
            with self._database.reading() as connection:
                return read_places(connection, reference_id)
        except ProviderError:
            return ""

    # Paging

    def page_out(self, messages: Sequence[tuple[MessageReference, Envelope]]) -> None:
        if self._is_closed:
            raise _closed()
        self._paging.add([(reference.id, encode(envelope)) for reference, envelope in messages])

    def drop_paged(self, ids: Sequence[ReferenceId]) -> None:
        self._paging.drop(ids)

    # Queues

    def define_queue(self, record: QueueRecord) -> QueueNumber:
        number = self.number_of(record)
        batch = Batch()
        self._define(batch, replace(record, number=number))
        # Forced, as messages with this number are soon committed: at recovery a message without its queue would be lost.
        self._submit(batch, force=True)
        return number

    def _define(self, batch: Batch, record: QueueRecord) -> None:
        # This registers the number for the address, so that later look-ups find it.
        self.number_of(record)
        statements = self._database.statements
        batch.others += [
            (statements.put_queue, [queue_row(record)]),
            (statements.raise_next_queue, [next_queue(record.number)]),
        ]

    def number_of(self, record: QueueRecord, *, anew: bool = False) -> QueueNumber:
        identity = (record.address, record.subscription)
        with self._lock:
            if anew:
                return QueueNumber(next(self._queue_numbers))
            number = record.number or self._queues.get(identity) or QueueNumber(next(self._queue_numbers))
            self._queues[identity] = number
        return number

    def drop_queue(self, number: QueueNumber) -> None:
        # Before the write: a queue of the same name created meanwhile gets a new number, so that its messages are not deleted.
        self._forget_numbers([number])
        self._submit(drop_queue(self._database.statements, number), force=True)
        try:
            for batch in drop_messages(self._database, number):
                self._submit(batch, force=False)
        # The queue's row is deleted, so these messages are unreachable, and the next opening deletes them.
        except ProviderError as error:
            _log.warning("PYJMS-STORE-6 messages of a dropped queue stay until the next start: %s", error.reason)

    def _forget_numbers(self, numbers: Sequence[QueueNumber]) -> None:
        with self._lock:
            # Replaced and not changed, as another thread may iterate over the dictionary.
            self._queues = {identity: known for identity, known in self._queues.items() if known not in numbers}

    # Closing

    def hasten(self) -> None:
        self._database.hasten()

    def close(self, *, clean: bool) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        # Before the last commit: a thread that waits for a server's answer would
        # hold the writer's lock until its timeout.
        self._database.interrupt()
        self._paging.interrupt()
        # Before the last commit and outside the lock: the monitor's thread may
        # be reporting a loss, which takes the lock.
        if self._watch is not None:
            self._watch.stop()
        statements = self._database.statements
        if clean:
            # Delivery marks flag redeliveries after a crash. After a clean end the written
            # counts are complete, and suffice.
            self._last_batch.others = [(statements.drop_marks, [()]), (statements.set_clean, [(True,)])]
        try:
            # Also when it is empty: the call returns after all earlier commits have
            # ended, so the connections can be closed.
            self._group.submit(self._last_batch, force=True)
        except ProviderError as error:
            if self._lost is None:
                _log.warning("PYJMS-STORE-4 the store was not closed cleanly: %s", error.reason)
        self._group.close()
        self._paging.close()
        self._database.close()

    def forget(self) -> None:
        """Disable this journal in a child process: the database, and the connections to it, are the parent's."""
        self._is_closed = True
        # A thread that was writing at the fork does not exist in the child, so its group would block others for ever: with a
        # new group they are refused immediately.
        self._group = GroupCommit(self._commit_group)
        # A thread of the parent may have held these locks at the fork, and would never release them here.
        self._lock, self._deferred = Lock(), DeferredRecords()


class LeasedJournal(SqlJournal):
    """A journal whose database may get another holder while this process lives, so that the lock is known by a lease (decision 0195)."""

    _lease: Lease

    @property
    def is_held(self) -> bool:  # type: ignore[override]  # as an attribute it costs nothing where it never changes
        lease = self._lease
        # `Lease.is_valid` inline, to save a call on each delivery.
        return lease.now_s() < lease.until_s and not lease.is_ended


def _work_of(request: CommitRequest[Batch | Row]) -> Batch:
    return batch_of((request.work,)) if isinstance(request.work, tuple) else request.work


def _closed() -> ClosedError:
    return ClosedError("the broker's store is closed; start the broker again")


# Joined transactions: the broker's changes are written in the application's own transaction, and committed with its tables.

_IN_TRANSACTION: Final = 2
"""PostgreSQL's PQTRANS_INTRANS: the transaction is open, and no statement is on its way."""


def transaction_of(connection: object) -> tuple[Connection, Transaction]:
    """Return an SQLAlchemy connection and its open transaction. Raises `ResourceError` if it has none."""
    if not isinstance(connection, Connection):
        raise ResourceError(
            f"{type(connection).__name__} is no sqlalchemy.Connection; with an ORM session pass session.connection()"
        )
    transaction = connection.get_transaction()
    # SQLAlchemy keeps the object of a failed transaction until it is rolled back, so its presence is not enough.
    if transaction is None or not transaction.is_active:
        raise ResourceError("the SQLAlchemy connection has no open transaction; begin one: with connection.begin(): …")
    return connection, transaction


class JoinedWriter(JoinedTransaction):
    """Replaces the journal for one commit: writes the changes on the application's connection, and commits its transaction.

    The changes and the application's own are atomic: if the process dies, either both were committed or neither.
    """

    def __init__(
        self, connection: object, opening: tuple[object, ...], database: Database, deferring: SqlJournal
    ) -> None:
        """`opening`: the identity of this opening of the store `database`, which the application's connection must see, too.

        `deferring`: the journal of that store, whose deferred records may have to be written first.

        Raises `ResourceError` when the connection has no transaction, or one that has failed, or leads to another store.
        """
        self._connection, self._transaction = transaction_of(connection)
        self._opening = opening
        self._database = database
        self._deferring = deferring
        try:
            # Read through the application's connection: different URLs may name the
            # same store, but epoch and file identify it.
            found = database.opening_of(self._connection)
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise ResourceError(
                "the SQLAlchemy connection does not lead to the broker's store, or its transaction has failed: "
                f"{cause}; name the same database in store=, with ?pyjms_shared=true at the end of its URL"
            ) from error
        if found != opening:
            raise ResourceError(
                "the SQLAlchemy connection leads to another store than the broker's; name the same database in store="
            )

    def write(self, changes: Changes, *, force: bool) -> None:
        """Write `changes`, and commit. Raises `ResourceError` when nothing was written, and `InDoubtError` when the outcome is unknown.

        Errors of hooks of the application's engine pass through: then `may_be_committed` says whether the outcome is unknown. `force`
        has no effect here: the application's connection decides how safe the commit is.
        """
        try:
            self._write_and_commit(changes)
        # Every exception, as a hook of the application's engine may raise any.
        except Exception:
            # After a commit was sent, a rollback would only hide that its outcome is unknown.
            if not self.may_be_committed:
                self._roll_back()
            raise

    def _write_and_commit(self, changes: Changes) -> None:
        with self._deferred_first() as deferred:
            try:
                for batch in (*deferred, make_batch(changes)):
                    steps = batch.steps(self._database)
                    # The journal's own check of the disk does not cover the application's connection.
                    self._database.check_space(self._connection, steps)
                    for statement, rows in steps:
                        # In portions: the paged-out messages of a transaction may be larger than memory.
                        for some in rows.portions() if isinstance(rows, PagedRows) else (list(rows),):
                            if some:
                                self._connection.exec_driver_sql(statement, some)
                # Last, so that a broker that takes the store over waits only for the commit, and then finds it done.
                is_ours = self._database.lock_opening(self._connection) == self._opening
            except (SQLAlchemyError, ProviderError) as error:
                raise _not_written(error) from error
            if not is_ours:
                raise ResourceError("another broker has taken the store over; neither messages nor tables were changed")
            # Inside the block of `_deferred_first`: the records count as written only when this commit has succeeded.
            self.commit()

    @contextmanager
    def _deferred_first(self) -> Iterator[Sequence[Batch]]:
        """Have the journal write its urgent deferred records, or yield all deferred ones, to be written first in this transaction.

        For example, the end of a queue that was in doubt must be written before a message of the next queue of its name.
        The records are yielded for a database with one writer: from here on that is the application's transaction, so the journal
        cannot write them.
        """
        with ExitStack() as lent:
            deferred: list[Batch] = []
            try:
                if self._database.has_one_writer:
                    # Changes nothing, but takes SQLite's write lock: from now on no other
                    # connection writes, so the log can be checked safely.
                    self._connection.exec_driver_sql(self._database.statements.raise_next_queue, (0, 0))
                    self._database.detect_failed_checkpoint()
                    self._database.repair_log()
                    deferred += lent.enter_context(self._deferring.take_deferred())
                else:
                    # PostgreSQL has many writers: the journal commits the records itself,
                    # before this transaction becomes visible.
                    self._deferring.flush_deferred()
            except (SQLAlchemyError, ProviderError) as error:
                raise _not_written(error) from error
            yield deferred

    def commit(self) -> None:
        """Commit the application's transaction. Raises as `write`."""
        # Set first: a second signal may end this thread between the database's commit and the return.
        self.may_be_committed = True
        try:
            self._transaction.commit()
            # SQLite may have run a checkpoint within this commit.
            self._database.detect_failed_checkpoint()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise InDoubtError(
                    "the connection to the database broke while the transaction was committed"
                ) from error
            self._roll_back()
            if self._database.leaves_doubt(error.orig):
                raise InDoubtError(f"the disk failed while the transaction was committed: {error}") from error
            raise ResourceError(f"the application's transaction could not be committed: {error}") from error
        except SQLAlchemyError as error:
            self._roll_back()
            raise ResourceError(f"the application's transaction could not be committed: {error}") from error
        # A hook of the application's engine has failed, before the commit of the database or after it.
        except Exception:
            self.may_be_committed = not self._is_open()
            self._roll_back()
            raise

    def _is_open(self) -> bool:
        """Return whether the transaction is certainly still open in the database, so that it has not been committed."""
        with suppress(SQLAlchemyError):
            driver = self._connection.connection.driver_connection
            # The driver's state: SQLAlchemy's transaction ends with the attempt, whether or not the database has committed.
            if self._database.has_one_writer:
                return getattr(driver, "in_transaction", False) is True
            return getattr(getattr(driver, "info", None), "transaction_status", None) == _IN_TRANSACTION
        return False

    def _roll_back(self) -> None:
        """Roll back the application's transaction if it is open. May be repeated."""
        if self._connection.get_transaction() is self._transaction:
            # Also when the transaction has failed: it must be ended before another one can begin.
            self._transaction.rollback()
        with suppress(SQLAlchemyError, self._connection.dialect.loaded_dbapi.Error):
            # After a commit that failed before it reached the database, the transaction is open there, but ended for SQLAlchemy.
            self._connection.connection.rollback()


def _not_written(error: Exception) -> ResourceError:
    cause = error.reason if isinstance(error, ProviderError) else error
    return ResourceError(f"the messages could not be written in the application's transaction: {cause}")
