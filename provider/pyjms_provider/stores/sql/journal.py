"""The journal in an SQL database: how one is opened, writes in groups, reads by id, pages out, and finds everything again."""

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
from pyjms_provider.stores.codec import decode, encode
from pyjms_provider.stores.errors import (
    CodecError,
    LostStoreError,
    StoreError,
    UnavailableStoreError,
    UnsupportedStoreError,
)
from pyjms_provider.stores.group_commit import CommitRequest, GroupCommit
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
from pyjms_provider.stores.sql.recovery import read_entries, read_places, read_records
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
    """Open the database that `settings` names, for a broker called `holder`, and make its schema if it is empty.

    `on_lost` hears, once and from any thread, that another broker holds the database now, or may. With
    `StandBy.WAIT` this waits, without end or until `cancelled`, while another broker holds it.

    Raises `UrlError`, and `StoreError`: `UnsupportedStoreError`, `UnusableStoreError`, `HeldStoreError`,
    `ForeignStoreError`, `NewerStoreError`, `DamagedStoreError`; each tells what to do.
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
    )
    database, paging, meta = _opener(url)(request)
    force_all = settings.acknowledge is Acknowledge.FORCED
    # Only a server's journal has a lease, and pays for a check of it on each delivery.
    kind = SqlJournal if database.lease is None else LeasedJournal
    return kind(database, paging, clock, meta, force_all=force_all, on_lost=on_lost)


def _opener(url: URL) -> Callable[[OpenRequest], tuple[Database, Paging, Meta]]:
    if url.drivername in {"sqlite", "sqlite+pysqlite"}:
        # Each driver is imported on use: psycopg is an extra, and a broker on SQLite need not have it installed.
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
    # The option is the broker's own: a database driver would refuse a URL that has it.
    return url.difference_update_query([_SHARED]), shared == "true"


# What a journal was told to write before, or with, whatever is written next.

_ABOUT_NAMES: Final = ("drop_queue_duplicates", "put_duplicate", "put_queue_duplicate", "forget_duplicates")


@dataclass(slots=True)
class DeferredBatch:
    """What was deferred, in the hands of who writes it."""

    batch: Batch
    ends: list[Changes]
    """What ends branches or staged units: which rows that are is read when it is written."""
    is_urgent: bool
    """Whether it goes wrong if something is written before it: what follows may be of the same name. Counts and removals are of messages."""


class DeferredRecords:
    """Safe to use from any thread; its lock is taken alone."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ends: list[Changes] = []
        self._urgent_taken = 0
        self.batch: Batch | None = None
        """What is to be written; None: nothing, and no ends."""

    def add(self, batch: Batch) -> None:
        """Add a batch, which nobody else uses, after what was deferred before."""
        with self._lock:
            if self.batch is None:
                self.batch = batch
            else:
                self.batch.absorb(batch)

    def add_end(self, changes: Changes) -> None:
        """Add what ends branches or staged units."""
        with self._lock:
            self._ends.append(changes)
            # Writers look at `batch` alone to see whether anything is deferred,
            # so an end without rows needs an empty batch.
            if self.batch is None:
                self.batch = Batch()

    def take(self, *, unless_urgent_is_taken: bool = False) -> DeferredBatch | None:
        """Return all of it to who writes it, and then says so to `end`; None: there is nothing.

        `unless_urgent_is_taken`: raises `UnavailableStoreError` while something is taken that must not be written after this.
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
            # Counted while the writer has it: a joined transaction that started
            # now would be written before these records.
            self._urgent_taken += is_urgent
            return DeferredBatch(batch, ends, is_urgent)

    def end(self, taken: DeferredBatch, *, was_written: bool) -> None:
        """Hear whether it was written. If not, it is to be written before what was deferred since."""
        with self._lock:
            # Under the same lock as the return of the records, so that `is_urgent`
            # never misses records between the two places.
            self._urgent_taken -= taken.is_urgent
            if was_written:
                return
            # In front of what was deferred since: a later record of the same row must still be the last one written.
            self._ends[:0] = taken.ends
            if self.batch is not None:
                taken.batch.absorb(self.batch)
            self.batch = taken.batch

    @property
    def is_urgent(self) -> bool:
        """Whether there may be something, here or taken, that must be written before all else."""
        with self._lock:
            return self.batch is not None or self._urgent_taken > 0


_log = logging.getLogger(__name__)

_Work = TypeVar("_Work")


class SqlJournal(Journal):
    """Keeps changes in a database that it holds. See `docs/design/stores.md`."""

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
        """`force_all`: every write survives a loss of power, also those that only acknowledge."""
        self._database = database
        self._paging = paging
        # A batch reads paged-out bodies only while it is written, and knows the database, but not the paging table.
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
        # `recover` starts the count again, behind the numbers that the store has in use.
        self._branch_numbers = count(1)
        self._queues: dict[tuple[Address, SubscriptionKey | None], QueueNumber] = {}
        self._lost: LostStoreError | None = None
        self._is_closed = False
        # A forked child that wrote on the inherited connection would mix its bytes with its parent's.
        forget_in_children(self)
        self._was_held = True
        """Whether it was when that was looked at last."""
        self._watch: LeaseMonitor | None = None
        self._lease = database.lease
        if self._lease is not None:
            # An idle broker commits nothing, so without this thread it would not learn that it has lost its store.
            self._watch = LeaseMonitor(self._look, clock, name=database.engine.url.database)
            self._watch.start()

    @property
    def is_local(self) -> bool:
        return self._database.is_local

    @property
    def trouble(self) -> str | None:
        if self._lost is not None:
            return self._lost.reason
        if not self.is_held:
            return "the connection that holds the store was lost, and is not there again"
        return self._database.trouble

    def recover(self, progress: Callable[[int], None]) -> Recovery:
        database = self._database
        with database.reading(is_beginning=True) as connection:
            found = read_records(connection)
        # A number that is in use again would merge two branches, or a branch and a
        # staged unit: their rows differ by number alone.
        self._branch_numbers = count(found.last_branch + 1)
        statements, forgotten = database.statements, Batch()
        # Messages of a damaged group are their queue's again. Rows that stayed
        # would belong to the next group of that number.
        if found.lost_groups:
            rows = [(number,) for number in found.lost_groups]
            forgotten.others = [(statements.drop_reserved, rows), (statements.drop_group, rows)]
        now_ms = self._clock.time_ms()
        # Expired ids are otherwise deleted by the next send to their destination, which may never come.
        if any(mark.until_ms < now_ms for mark in found.duplicates):
            forgotten.others.append((statements.drop_old_duplicates, [(now_ms,)]))
        if forgotten.others:
            # Deferred: the first commit carries these rows, so that the opening needs no commit of its own.
            self._deferred.add(forgotten)
        self._queues = {(record.address, record.subscription): record.number for record in found.queues}
        return Recovery(
            queues=found.queues,
            entries=read_entries(database, progress, self._set_rows_aside),
            branches=found.branches,
            heuristics=found.heuristics,
            duplicates=found.duplicates,
            marks=found.marks,
            was_closed=self._meta.was_closed,
            last_id=found.last_id,
            groups=found.groups,
            stages=found.stages,
            stage_markers=found.stage_markers,
        )

    # Writing

    def write(self, changes: Changes, *, force: bool) -> None:
        self._submit(self._batch(changes), force=force)

    def add(self, reference: MessageReference, envelope: Envelope, queue: QueueNumber) -> None:
        payload = encode(envelope)
        # The encoded size is exact, and costs nothing here; memory limits count with it from now on.
        reference.size = len(payload) + MESSAGE_OVERHEAD
        row = message_row(reference, queue, None, payload)
        group = self._group
        # No other thread writes now, so one statement is enough: no request, no batch, and no signal to wait for.
        if group.is_free():
            try:
                with group.writer_lock:
                    # Looked at with the lock held: deferred records must be written before
                    # this message, which only a group does.
                    if self._deferred.batch is None and self._lost is None and not self._is_closed:
                        self._database.add_messages((row,))
                        return
            except (StoreError, InDoubtError) as error:
                self._note_failure(error)
                raise
        # The group checks again whether the journal is closed or lost, and refuses the message then.
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
        # Callers cannot handle an error here, and a closed journal keeps nothing that could be written later.
        if self._is_closed:
            return
        # Which rows an end concerns is read from the database, and this method must not wait.
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
            # From now on `number_of` gives a queue of this name a new number: rows
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
        """Write what was deferred and a group in one commit. If that fails, each by itself, so that no other one suffers."""
        # Checked once more by the committing thread: `close` may have come while these requests waited.
        if self._is_closed or self._lost is not None:
            requests = self._admitted(requests)
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
                # This is `_attempt` inline: its calls would cost an acknowledgement as much as making its rows.
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
            was_written = self._write_all(self._look_up(deferred), requests)
        except ProviderError as error:
            self._note_failure(error)
            # The look-up of ends has failed. Nothing is written then: a branch of the same name may be among the
            # requests, and must not be written before the end of the older one.
            for request in requests:
                request.error = error
        finally:
            if deferred is not None:
                self._deferred.end(deferred, was_written=was_written)

    def _look_up(self, deferred: DeferredBatch | None) -> Batch | None:
        """Return what was deferred, with what its ends come to, one after the other. Raises `ProviderError`."""
        if deferred is None:
            return None
        if deferred.ends:
            # What they end may be committed while nobody holds the store, and is seen by nobody until then.
            self._database.look()
        while deferred.ends:
            deferred.batch.absorb(self._batch(deferred.ends[0]))
            # Removed one by one: if the next look-up fails, `end` puts back only
            # the ends that are not in the batch yet.
            del deferred.ends[0]
        return deferred.batch

    def flush_deferred(self) -> None:
        """Have written what was deferred, or is being written. Raises as `write`."""
        if self._deferred.is_urgent:
            self._submit(Batch(), force=False)

    @contextmanager
    def lend_deferred(self) -> Iterator[Sequence[Batch]]:
        """Lend what was deferred, if anything was, to who writes it in a transaction of his own, and keeps all others from writing meanwhile.

        If that fails, it is deferred again. Raises `UnavailableStoreError` when it would be overtaken by that transaction, as another
        thread is about to write it; and as `write`.
        """
        deferred = self._deferred.take(unless_urgent_is_taken=True)
        was_written = False
        try:
            batch = self._look_up(deferred)
            yield () if batch is None else (batch,)
            # Only here, after the borrower's commit: an exception thrown in at the `yield` leaves the records deferred.
            was_written = True
        finally:
            if deferred is not None:
                self._deferred.end(deferred, was_written=was_written)

    def _admitted(self, requests: Sequence[CommitRequest[Batch | Row]]) -> Sequence[CommitRequest[Batch | Row]]:
        """Refuse those who came after the journal was closed, or lost; return the others."""
        error = self._lost or (_closed() if self._is_closed else None)
        if error is None:
            return requests
        for request in requests:
            request.error = error
        # `close` submits its own last batch after it has set the closed flag, and that one must pass.
        return [request for request in requests if request.work is self._last_batch and self._lost is None]

    def _add_messages(self, requests: Sequence[CommitRequest[Batch | Row]], rows: Sequence[Row]) -> None:
        """Write what each request adds, which is one message, where nothing was deferred; tell each how it ended."""
        error = self._attempt(self._database.add_messages, rows)
        # The exact type: its subclasses mean that the whole store has failed,
        # so that single attempts would fail as well.
        if type(error) is StoreError and len(rows) > 1:
            for request, row in zip(requests, rows, strict=True):
                request.error = self._attempt(self._database.add_messages, (row,))
        else:
            for request in requests:
                request.error = error

    def _write_all(self, deferred: Batch | None, requests: Sequence[CommitRequest[Batch | Row]]) -> bool:
        """Write, and tell each request how it ended; return whether what was deferred is written."""
        batches = [_work_of(request) for request in requests]
        if deferred is not None:
            # First, so that a row of a request replaces the deferred row of the same key, and not the other way round.
            batches.insert(0, deferred)
        error = self._commit(merge(batches), force=any(request.force for request in requests))
        if type(error) is StoreError and len(batches) > 1:
            # Deferred records are written by themselves, so that no request's fault keeps them from being written.
            error = None if deferred is None else self._commit(deferred, force=False)
            for request in requests:
                # A journal that ends is not clean without the deferred records: marks are deleted, and counts take
                # their place. A request without rows of its own has come for the deferred ones.
                work = _work_of(request)
                needs_noted = work is self._last_batch or not (work.rows or work.others)
                request.error = error if error is not None and needs_noted else self._commit(work, force=request.force)
        else:  # written, or there is nobody else, or it is the database's fault and nobody's own
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
        """Count a write that failed, and look for loss."""
        # The virtual host's statistics show this counter.
        self.failed_writes += 1
        self._look_for_loss(error)

    def _look_for_loss(self, error: ProviderError) -> None:
        """Write nothing more if an error says that the store is lost."""
        # A loss within a commit is reported as in doubt, with the loss itself as its cause.
        lost = error.__cause__ if isinstance(error, InDoubtError) else error
        if isinstance(lost, LostStoreError):
            self._mark_lost(lost)

    def _mark_lost(self, error: LostStoreError) -> None:
        with self._lock:
            if self._lost is not None:
                return
            # Once only: the listener stops the broker.
            self._lost = error
        # Outside the lock: the listener closes this journal, and `close` takes the same lock.
        _log.error("PYJMS-STORE-3 %s", error.reason)
        self._on_lost(error)

    # Being the holder

    def _look(self) -> None:
        """Find out whether the store is still held. Who commits just now finds out itself."""
        if not self._group.is_free():
            if self._lease is not None:
                # A thread commits, and finds out itself; to wait for it here would let the lease run out.
                self._lease.extend(self._lease.now_s())
        else:
            try:
                # The look uses the writer's connection, which serves one thread at a time.
                with self._group.writer_lock:
                    if self._lost is None and not self._is_closed:
                        self._database.look()
            except StoreError as error:
                _log.debug("it is not known whether the store is held: %s", error.reason)
                self._look_for_loss(error)
        # The monitor's thread alone sets this, so the warning comes once for each loss and needs no lock.
        was_held, self._was_held = self._was_held, self._lost is None and self._database.is_held
        if was_held and not self._was_held and self._lost is None and not self._is_closed:
            _log.warning(
                "PYJMS-STORE-9 the connection that holds the store was lost; what is kept is handed out again when it is back"
            )

    def confirm(self) -> None:
        asked = Batch()
        # The commit asks whether the store is still held; an empty batch would not reach the database.
        asked.others = [("SELECT 1", [()])]
        self._submit(asked, force=False)

    # Reading

    def holds(self, queue: QueueNumber, reference: MessageReference) -> bool | None:
        statements = self._database.statements
        # Once this is written, a commit of unknown outcome cannot complete any
        # more: the lost connection is known to be gone.
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
        # Ids that the durable table lacks are of non-persistent messages, which were paged out.
        if len(found) < len(ids):
            found |= self._paging.fetch([each for each in ids if each not in found])
        envelopes: dict[ReferenceId, Envelope] = {}
        for reference_id, payload in found.items():
            try:
                envelope = envelopes[reference_id] = decode(bytes(payload))
                # Most messages are sent on in the encoded form, so the decoded body
                # is dropped, and decoded again on demand.
                envelope.forget()
            except CodecError as error:
                self._set_aside(reference_id, payload, error)
        return envelopes

    def _set_rows_aside(self, ids: Sequence[ReferenceId]) -> None:
        for reference_id, payload in self._database.fetch(ids).items():
            self._set_aside(reference_id, payload, CodecError("its row has values that no message has"))

    def _set_aside(self, reference_id: ReferenceId, payload: bytes, error: CodecError) -> None:
        """Move a message that cannot be understood out of the way. If that fails it is found again another time."""
        # Before the rows are deleted: the places are read from the entries.
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
        """Return where a message is, so that its reader knows whom to ask; nothing if that cannot be read, either."""
        try:
            # Only for the operator's message: an unreadable place must not keep the message from being quarantined.
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
        # Forced, as messages are soon committed with this number: without its queue a message has no owner at recovery.
        self._submit(batch, force=True)
        return number

    def _define(self, batch: Batch, record: QueueRecord) -> None:
        # This registers the number for the address, so that later look-ups of this queue find it.
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
        # Before the write: a queue of the same name that is created meanwhile gets a new number, whose messages stay.
        self._forget_numbers([number])
        self._submit(drop_queue(self._database.statements, number), force=True)
        try:
            for batch in drop_messages(self._database, number):
                self._submit(batch, force=False)
        # The queue's row is gone, so these messages are unreachable, and the next opening deletes them.
        except ProviderError as error:
            _log.warning("PYJMS-STORE-6 messages of a dropped queue stay until the next start: %s", error.reason)

    def _forget_numbers(self, numbers: Sequence[QueueNumber]) -> None:
        with self._lock:
            # The dictionary is replaced and not changed, so that nobody iterates over one that changes size.
            self._queues = {identity: known for identity, known in self._queues.items() if known not in numbers}

    # The end

    def hasten(self) -> None:
        self._database.hasten()

    def close(self, *, clean: bool) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        # Before the last commit: a thread that waits for a server's answer would
        # hold the writer's lock until its time is up.
        self._database.interrupt()
        self._paging.interrupt()
        # Before the last commit and outside the lock: the monitor's thread may
        # be reporting a loss, which takes the lock.
        if self._watch is not None:
            self._watch.stop()
        statements = self._database.statements
        if clean:
            # Delivery marks flag redeliveries after a crash. After a clean end no delivery
            # is unknown, and written counts suffice.
            self._last_batch.others = [(statements.drop_marks, [()]), (statements.set_clean, [(True,)])]
        try:
            # Also when it is empty: the call returns after every commit before it
            # has ended, so the connections can be closed.
            self._group.submit(self._last_batch, force=True)
        except ProviderError as error:
            if self._lost is None:
                _log.warning("PYJMS-STORE-4 the store was not closed cleanly: %s", error.reason)
        self._group.close()
        self._paging.close()
        self._database.close()

    def forget(self) -> None:
        """Write and read nothing more, in a child of this process: the database, and the connections to it, are its parent's."""
        self._is_closed = True
        # A thread of the parent that was writing does not exist in the child, and would never let others write: with a
        # group of their own they are refused at once.
        self._group = GroupCommit(self._commit_group)
        # A thread of the parent may have held these locks at the fork, and nothing would ever release them here.
        self._lock, self._deferred = Lock(), DeferredRecords()


class LeasedJournal(SqlJournal):
    """One whose database may get another holder while this one lives: it knows for a while only that it is held (decision 0195)."""

    _lease: Lease

    @property
    def is_held(self) -> bool:  # type: ignore[override]  # as an attribute it costs nothing where it never changes
        lease = self._lease
        # This is `Lease.is_valid` inline: each delivery asks, and would pay for one more call.
        return lease.now_s() < lease.until_s and not lease.is_ended


def _work_of(request: CommitRequest[Batch | Row]) -> Batch:
    return batch_of((request.work,)) if isinstance(request.work, tuple) else request.work


def _closed() -> ClosedError:
    return ClosedError("the broker's store is closed; start the broker again")


# Writing through the application's own transaction, so that its tables and the broker's change in one step.

_IN_TRANSACTION: Final = 2
"""PostgreSQL's PQTRANS_INTRANS: the transaction is open, and no statement is on its way."""


def transaction_of(connection: object) -> tuple[Connection, Transaction]:
    """Return an SQLAlchemy connection and its open transaction. Raises `ResourceError` that says what is wrong."""
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
    """Takes a journal's place for one commit: writes changes on the application's connection, and commits that.

    What is written becomes true with the application's commit, and with nothing else: if the process dies before, neither
    has happened, and if it dies after, both have.
    """

    def __init__(
        self, connection: object, opening: tuple[object, ...], database: Database, deferring: SqlJournal
    ) -> None:
        """`opening`: what tells this opening of the store `database` from all others; the application's connection must see the same.

        `deferring`: the journal of that store, which may have deferred what is to be written first.

        Raises `ResourceError` when the connection has no transaction, or one that has failed, or leads to another store.
        """
        self._connection, self._transaction = transaction_of(connection)
        self._opening = opening
        self._database = database
        self._deferring = deferring
        try:
            # Read through the application's connection: a URL tells little, but the
            # epoch and the file say which store this is.
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
        """Write `changes`, and commit. Raises `ResourceError` when nothing of it is true, and `InDoubtError` when nobody knows.

        What a hook of the application's engine raises passes through: then `may_be_committed` says whether nobody knows. `force` changes nothing here: how safe the commit is was chosen with the application's connection.
        """
        try:
            self._write_and_commit(changes)
        # Every exception: also what a hook of the application's engine raises.
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
                    # The application's connection bypasses the journal's own check of the disk.
                    self._database.check_space(self._connection, steps)
                    for statement, rows in steps:
                        # In portions: a transaction's paged-out messages may be larger than memory.
                        for some in rows.portions() if isinstance(rows, PagedRows) else (list(rows),):
                            if some:
                                self._connection.exec_driver_sql(statement, some)
                # Last, so that a broker that takes the store over waits for the commit alone, and then finds it done.
                is_ours = self._database.lock_opening(self._connection) == self._opening
            except (SQLAlchemyError, ProviderError) as error:
                raise _not_written(error) from error
            if not is_ours:
                raise ResourceError("another broker has taken the store over; neither messages nor tables were changed")
            # Within the lent records: they count as written only when this commit has succeeded.
            self.commit()

    @contextmanager
    def _deferred_first(self) -> Iterator[Sequence[Batch]]:
        """Have the journal write what it has deferred to be written before anything else; or yield it, to be written first in this transaction.

        Of a queue whose end was in doubt, for example, the store must know that before it has a message of the next one of its name.
        It is yielded where one transaction at a time can write: from here on that is the application's, so the journal cannot.
        """
        with ExitStack() as lent:
            deferred: list[Batch] = []
            try:
                if self._database.has_one_writer:
                    # Changes nothing, but takes SQLite's write lock: from now on nobody else
                    # writes, so the log can be checked safely.
                    self._connection.exec_driver_sql(self._database.statements.raise_next_queue, (0, 0))
                    self._database.detect_failed_checkpoint()
                    self._database.repair_log()
                    deferred += lent.enter_context(self._deferring.lend_deferred())
                else:
                    # PostgreSQL has many writers: the journal commits the records itself,
                    # before this transaction can be seen.
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
            # SQLite may have run a checkpoint within the commit.
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
        # A hook of the application's engine has failed: before the database commits, or after it.
        except Exception:
            self.may_be_committed = not self._is_open()
            self._roll_back()
            raise

    def _is_open(self) -> bool:
        """Whether the database certainly has the transaction open, so that it has not been committed."""
        with suppress(SQLAlchemyError):
            driver = self._connection.connection.driver_connection
            # The driver's own state, as SQLAlchemy's ends with the attempt, whatever became of it in the database.
            if self._database.has_one_writer:
                return getattr(driver, "in_transaction", False) is True
            return getattr(getattr(driver, "info", None), "transaction_status", None) == _IN_TRANSACTION
        return False

    def _roll_back(self) -> None:
        """Have nothing open on the application's connection. May be repeated."""
        if self._connection.get_transaction() is self._transaction:
            # Also when the transaction has failed: it must be ended before another one can begin.
            self._transaction.rollback()
        with suppress(SQLAlchemyError, self._connection.dialect.loaded_dbapi.Error):
            # A commit that failed before it reached the database leaves there what SQLAlchemy holds to be ended.
            self._connection.connection.rollback()


def _not_written(error: Exception) -> ResourceError:
    cause = error.reason if isinstance(error, ProviderError) else error
    return ResourceError(f"the messages could not be written in the application's transaction: {cause}")
