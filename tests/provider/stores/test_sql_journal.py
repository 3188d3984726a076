"""How the journal puts writes together and takes them apart again when they fail."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import Mock

import pytest
from sqlalchemy import create_engine, text

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ClosedError, InDoubtError, ProviderError
from pyjms_provider.core.journal.journal import Changes, Removal
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.codec import encode
from pyjms_provider.stores.errors import StoreError, UnavailableStoreError, UnusableStoreError
from pyjms_provider.stores.group_commit import CommitRequest
from pyjms_provider.stores.sql import SqlJournal, open_journal, sqlite
from pyjms_provider.stores.sql.batch import Batch, Row, make_batch, message_row
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import WholeMessage, World, without_envelope
from tests.provider.cost import kept
from tests.provider.stores.parts import SqlStore, group_of
from tests.pyjms.runtime.helpers import Call, eventually


@pytest.fixture
def store(tmp_path: Path) -> SqlStore:
    return SqlStore(f"sqlite:///{tmp_path / 'store.db'}")


@pytest.fixture
def world(store: SqlStore) -> Iterator[World]:
    home = JournalHome(store.open)
    yield World(home)
    home.close()


def journal_of(world: World) -> SqlJournal:
    assert isinstance(world.journal, SqlJournal)
    return world.journal


class Commits:
    """Stands before the database: counts its commits, and refuses those that it is told to."""

    def __init__(self, store: SqlStore) -> None:
        self._database = store.database
        self._commit = self._database.commit
        self._add = self._database.add_messages
        self.sizes: list[int] = []
        self.errors: list[BaseException | None] = []
        self._database.commit = self.commit  # type: ignore[method-assign]  # all writes go through one of them
        self._database.add_messages = self.add_messages  # type: ignore[method-assign]

    def commit(self, batch: Batch, *, force: bool) -> None:
        self._count(len(batch.rows.get("add_message", ())))
        self._commit(batch, force=force)

    def add_messages(self, rows: Sequence[Row]) -> None:
        self._count(len(rows))
        self._add(rows)

    def _count(self, size: int) -> None:
        self.sizes.append(size)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


Unit: TypeAlias = Batch | Row


def requests_for(world: World, *changes: Changes) -> list[CommitRequest[Unit]]:
    return [CommitRequest(make_batch(each), force=True) for each in changes]


def lone(world: World, *messages: WholeMessage) -> list[CommitRequest[Unit]]:
    """Return the requests of threads that each send one of `messages` by itself."""
    return [
        CommitRequest(message_row(each.reference, world.queue, None, encode(each.envelope)), force=True)
        for each in messages
    ]


def run(world: World, requests: list[CommitRequest[Unit]]) -> list[ProviderError | None]:
    """Have a thread for each submit its work while another one writes, so that they are one group; return their errors."""
    journal = journal_of(world)
    group = group_of(journal)
    calls: list[Call[None]] = []
    errors: list[ProviderError | None] = []
    with group.writer_lock:
        for request in requests:
            calls.append(Call(partial(group.submit, request.work, force=request.force)))
            eventually(lambda: len(kept(group, CommitRequest, without=[journal])) == len(calls), "it to wait")
    for call in calls:
        try:
            call.result()
            errors.append(None)
        except ProviderError as error:
            errors.append(error)
    return errors


def test_a_group_is_one_commit(store: SqlStore, world: World) -> None:
    commits = Commits(store)
    requests = requests_for(world, *(Changes(messages=[world.message()]) for _ in range(3)))
    assert run(world, requests) == [None, None, None]
    assert commits.sizes == [3]
    assert len(world.reopen().ids) == 3


@pytest.mark.parametrize("number", [1, 2, 63, 64, 65, 200])
def test_any_number_of_messages_is_added_whole_or_not_at_all(world: World, number: int) -> None:
    """There are ways of their own for one message, for a few and for many."""
    sent = [world.message(text=f"text {index}") for index in range(number)]
    world.add(*sent)
    with pytest.raises(StoreError, match="UNIQUE"):
        world.add(*(world.message() for _ in range(number)), sent[-1])
    assert [message for message, _ in world.reopen().ids] == [each.reference.id for each in sent]
    found = world.journal.read([each.reference.id for each in sent])
    assert [found[each.reference.id] for each in sent] == [each.envelope for each in sent]


def test_a_member_that_cannot_be_written_harms_no_other(store: SqlStore, world: World) -> None:
    there = world.add(world.message())
    commits = Commits(store)
    first, third = world.message(), world.message()
    requests = requests_for(world, Changes(messages=[first]), Changes(messages=[there]), Changes(messages=[third]))
    errors = run(world, requests)
    assert (errors[0], errors[2]) == (None, None)
    assert isinstance(errors[1], StoreError)
    assert "UNIQUE" in errors[1].reason
    assert commits.sizes == [3, 1, 1, 1]
    assert [message for message, _ in world.reopen().ids] == [1, 2, 3]


@pytest.mark.parametrize("number", [1, 2, 64, 65])
def test_messages_that_threads_send_by_themselves_are_one_commit(store: SqlStore, world: World, number: int) -> None:
    sent = [world.message(text=f"text {index}") for index in range(number)]
    commits = Commits(store)
    assert run(world, lone(world, *sent)) == [None] * number
    assert commits.sizes[0] == number
    assert [message for message, _ in world.reopen().ids] == [each.reference.id for each in sent]
    found = world.journal.read([each.reference.id for each in sent])
    assert [found[each.reference.id] for each in sent] == [each.envelope for each in sent]


def test_a_message_sent_by_itself_that_cannot_be_written_harms_no_other(store: SqlStore, world: World) -> None:
    there = world.add(world.message())
    commits = Commits(store)
    errors = run(world, lone(world, world.message(), there, world.message()))
    assert (errors[0], errors[2]) == (None, None)
    assert isinstance(errors[1], StoreError)
    assert "UNIQUE" in errors[1].reason
    assert commits.sizes == [3, 1, 1, 1]
    assert [message for message, _ in world.reopen().ids] == [1, 2, 3]


def test_messages_sent_by_themselves_share_a_commit_with_all_else(store: SqlStore, world: World) -> None:
    there = world.add(world.message()).reference
    commits = Commits(store)
    world.journal.note(Changes(removals=[Removal(world.queue, there)]))
    requests = [
        *lone(world, world.message()),
        *requests_for(world, Changes(messages=[world.message()])),
        *lone(world, world.message()),
    ]
    assert run(world, requests) == [None] * 3
    assert commits.sizes == [3]
    assert [message for message, _ in world.reopen().ids] == [2, 3, 4]


@pytest.mark.parametrize("error", [UnavailableStoreError("locked"), InDoubtError("gone")])
def test_what_is_nobodys_own_fault_is_told_to_all_at_once(store: SqlStore, world: World, error: ProviderError) -> None:
    commits = Commits(store)
    commits.errors = [error, error]
    requests = requests_for(world, *(Changes(messages=[world.message()]) for _ in range(3)))
    assert run(world, requests) == [error] * 3
    assert run(world, lone(world, *(world.message() for _ in range(2)))) == [error] * 2
    assert commits.sizes == [3, 2]


def test_what_was_noted_waits_until_it_can_be_written(store: SqlStore, world: World) -> None:
    sent = world.add(world.message()).reference
    commits = Commits(store)
    commits.errors = [UnavailableStoreError("locked"), InDoubtError("gone")]
    world.journal.note(Changes(removals=[Removal(world.queue, sent)]))
    with pytest.raises(UnavailableStoreError):
        world.add(world.message())
    world.journal.note(Changes(counts=[(world.queue, sent, 1)]))
    with pytest.raises(InDoubtError, match="gone"):
        world.add(world.message())
    kept = world.add(world.message()).reference
    assert world.reopen().ids == [(kept.id, world.queue)]


def test_what_was_noted_and_cannot_be_written_harms_nobody(world: World) -> None:
    there = world.add(world.message())
    world.journal.note(Changes(messages=[there]))
    sent = world.add(world.message()).reference
    assert [message for message, _ in world.reopen().ids] == [there.reference.id, sent.id]


def test_a_journal_is_not_closed_as_clean_without_what_was_noted(
    store: SqlStore, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A message that came back as the broker stopped was delivered: the mark says so until its count does."""
    sent = world.add(world.message()).reference
    mark = (world.queue, sent.priority, sent.id)
    world.journal.write(Changes(marks=[mark]), force=True)
    world.journal.note(Changes(counts=[(world.queue, sent, 1)]))
    commits = Commits(store)
    commits.errors = [StoreError("full"), StoreError("full")]  # with all else, and alone
    recovery = world.reopen(clean=True).recovery
    assert (recovery.was_closed, list(recovery.marks)) == (False, [mark])
    assert "PYJMS-STORE-4" in caplog.text


def test_who_comes_for_what_was_noted_hears_that_it_could_not_be_written(store: SqlStore, world: World) -> None:
    """A purge on a full disk returned, and after a kill all that it had deleted was there again."""
    sent = world.add(world.message()).reference
    world.journal.note(Changes(counts=[(world.queue, sent, 1)]))
    commits = Commits(store)
    commits.errors = [StoreError("full"), StoreError("full")]  # with the empty write, and alone
    with pytest.raises(StoreError, match="full"):
        world.journal.write(Changes(), force=False)
    world.journal.write(Changes(), force=False)
    assert world.reopen(clean=False).counts()[sent.id, world.queue] == 1


def test_who_comes_after_the_close_is_refused_even_if_it_was_on_its_way(world: World) -> None:
    requests = requests_for(world, Changes(messages=[world.message()]))
    world.journal.close(clean=True)
    (error,) = run(world, requests)
    assert isinstance(error, ClosedError)
    assert world.reopen().ids == []


def test_ids_that_have_had_their_time_are_forgotten_with_the_first_write_after_an_opening(world: World) -> None:
    """Those of destinations that nobody sends to any more: no later mark says that they may go."""
    for number in range(3):
        world.remember(f"id {number}", until_ms=1 + 2**62 * (number == 0))
    assert len(world.reopen().recovery.duplicates) == 3
    world.add(world.message())
    assert [mark.duplicate_id for mark in world.reopen().recovery.duplicates] == ["id 0"]


def test_paged_out_messages_that_nobody_reads_leave_the_disk(world: World, tmp_path: Path) -> None:
    """As those do that expire there: no consumer comes, who would make room by the way."""
    for _ in range(5):
        messages = [world.message() for _ in range(512)]
        world.journal.page_out([(each.reference, each.envelope) for each in messages])
        world.journal.drop_paged([each.reference.id for each in messages])
    with closing(sqlite3.connect(tmp_path / "store.db-paged")) as connection:
        assert connection.execute("SELECT count(*) FROM pyjms_paged").fetchone() == (512,)


@pytest.mark.parametrize("error", [UnavailableStoreError("locked"), InDoubtError("gone")])
def test_who_reads_does_not_hear_that_others_could_not_be_tidied_away(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ProviderError
) -> None:
    """That is tried again, with what has been forgotten since."""
    messages = [world.message() for _ in range(513)]
    world.journal.page_out([(each.reference, each.envelope) for each in messages])
    *gone, kept = [each.reference.id for each in messages]
    world.journal.drop_paged(gone)
    with monkeypatch.context() as patched:
        patched.setattr(journal_of(world)._paging._database, "commit", Mock(side_effect=error))
        assert list(world.journal.read([kept])) == [kept]
    world.journal.drop_paged([kept])
    world.journal.page_out([(messages[0].reference, messages[0].envelope)])
    with closing(sqlite3.connect(tmp_path / "store.db-paged")) as connection:
        assert connection.execute("SELECT id FROM pyjms_paged").fetchall() == [(gone[0],)]


def test_a_store_is_let_go_of_though_its_disk_has_become_read_only(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        world.journal.close(clean=True)
        with pytest.raises(
            UnusableStoreError, match=r"db-paged is left .* cannot be removed: Read-only file system; remove it"
        ):
            world.home.open()
    assert (tmp_path / "store.db-paged").exists()
    assert world.reopen().ids == []


def test_a_queue_is_dropped_in_runs_between_which_others_write(
    store: SqlStore, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = world.message(world.queue, world.other)
    world.add(*(world.message() for _ in range(2400)), shared)
    commits = Commits(store)
    kept = world.message(world.other)
    database, queries = store.database, count()
    query = database.query

    def look(statement: str, parameters: Row = ()) -> list[Any]:
        if next(queries) == 2:
            world.add(kept)
        return query(statement, parameters)

    monkeypatch.setattr(database, "query", look)
    world.journal.drop_queue(world.queue)
    assert len(commits.sizes) == 5  # the queue itself, three runs of a thousand or less, and what came between
    found = world.reopen()
    assert found.ids == [(shared.reference.id, world.other), (kept.reference.id, world.other)]
    assert [record.number for record in found.recovery.queues] == [world.other]


def test_a_queue_is_dropped_even_if_its_messages_stay_until_the_next_start(
    store: SqlStore, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    sent = world.add(world.message()).reference
    commits = Commits(store)
    commits.errors = [None, StoreError("full")]
    world.journal.drop_queue(world.queue)
    assert "PYJMS-STORE-6" in caplog.text
    found = world.reopen()
    assert [record.number for record in found.recovery.queues] == [world.other]
    assert found.ids == [(sent.id, world.queue)]  # of a queue that is not there: whoever restores it removes it


def test_a_queue_that_cannot_be_dropped_keeps_its_messages(store: SqlStore, world: World) -> None:
    sent = world.add(world.message()).reference
    commits = Commits(store)
    commits.errors = [StoreError("full")]
    with pytest.raises(StoreError):
        world.journal.drop_queue(world.queue)
    found = world.reopen()
    assert [record.number for record in found.recovery.queues] == [world.queue, world.other]
    assert found.ids == [(sent.id, world.queue)]


def test_what_was_paged_out_and_forgotten_leaves_a_disk_that_is_full(world: World, tmp_path: Path) -> None:
    """However little it is: a transaction that was rolled back, say."""
    gone, next_one = [world.message() for _ in range(3)], world.message()
    world.page_out(*gone)
    world.journal.drop_paged([each.reference.id for each in gone])
    database = journal_of(world)._paging._database
    commit = database.commit
    errors = [StoreError("the disk is full")]

    def full(batch: Batch, *, force: bool) -> None:
        if errors:
            raise errors.pop()
        commit(batch, force=force)

    database.commit = full  # type: ignore[method-assign]
    world.page_out(next_one)
    with closing(sqlite3.connect(tmp_path / "store.db-paged")) as connection:
        assert connection.execute("SELECT id FROM pyjms_paged").fetchall() == [(next_one.reference.id,)]
    errors.append(StoreError("the disk is full"))
    with pytest.raises(StoreError, match="full"):
        world.page_out(world.message())


def test_a_log_that_a_large_transaction_has_made_long_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 5_000_000
    monkeypatch.setattr(sqlite, "_LONGEST_LOG", most)
    settings = StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}")
    home = JournalHome(lambda holder: open_journal(settings, holder, SystemClock()))
    world, log = World(home), tmp_path / "store.db-wal"
    world.add(*(world.message(text="x" * 1_000_000) for _ in range(10)))
    assert log.stat().st_size > 10_000_000
    for _ in range(3000):  # a thread carries it over first
        world.add(world.message())
        if log.stat().st_size <= most:
            break
    assert log.stat().st_size <= most
    home.close()


def test_what_was_paged_out_is_written_while_little_of_it_is_in_memory(store: SqlStore, world: World) -> None:
    sent = [world.message(text=f"{number}{'x' * 400_000}") for number in range(12)]
    sent += [world.message() for _ in range(1000)]
    for each in sent:
        each.reference.size = len(encode(each.envelope))
    world.page_out(*sent)
    database, most = store.database, list[tuple[int, int]]()
    read = database.read_paged

    def reading(ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        found = read(ids)
        most.append((len(found), sum(map(len, found.values()))))
        return found

    database.read_paged = reading
    world.journal.write(Changes(messages=[without_envelope(each) for each in sent]), force=True)
    assert max(number for number, _ in most) <= 256
    assert max(size for _, size in most) < 1_500_000
    assert len(most) < 20, "small messages are read together"
    assert [message for message, _ in world.reopen().ids] == [each.reference.id for each in sent]


def test_what_was_paged_out_and_is_lost_harms_no_other_in_its_group(world: World) -> None:
    lost, sent = world.message(), world.message()
    requests = requests_for(world, Changes(messages=[without_envelope(lost)]), Changes(messages=[sent]))
    errors = run(world, requests)
    assert errors[1] is None
    assert isinstance(errors[0], StoreError)
    assert "left memory before its transaction was committed" in errors[0].reason
    assert [message for message, _ in world.reopen().ids] == [sent.reference.id]


def test_what_was_paged_out_is_written_in_an_applications_transaction(world: World, tmp_path: Path) -> None:
    world.journal.close(clean=True)
    settings = StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}?pyjms_shared=true")
    home = JournalHome(lambda holder: open_journal(settings, holder, SystemClock()))
    joint = World(home)
    sent = [joint.message(text=f"{number}{'x' * 400_000}") for number in range(5)]
    for each in sent:
        each.reference.size = 400_000
    joint.page_out(*sent)
    with create_engine(f"sqlite:///{tmp_path / 'store.db'}").connect() as connection:
        connection.execute(text("UPDATE pyjms_meta SET one = 1"))
        changes = Changes(messages=[without_envelope(each) for each in sent])
        joint.journal.join(connection).write(changes, force=True)
    assert [message for message, _ in joint.reopen().ids] == [each.reference.id for each in sent]
    home.close()
