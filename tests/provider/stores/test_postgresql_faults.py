"""PostgreSQL that dies, comes back, loses connections or is lost to another broker."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError
from pyjms.spi.replay import StageName
from pyjms.testing import VirtualClock
from pyjms_provider.core.journal.journal import (
    BranchOutcome,
    Changes,
    NewMessage,
    PipelineChanges,
    PreparedBranch,
    Removal,
    StageRecord,
)
from pyjms_provider.settings import StoreSettings, Synchronous
from pyjms_provider.stores.errors import LostStoreError, StoreError, UnavailableStoreError, UnusableStoreError
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.sql import postgresql as postgresql_module
from pyjms_provider.stores.sql.postgresql_connections import make_engine
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World, xid
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.unwatched import UnwatchedClock

LONG_S = 30
THREADS = 6


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.make_store()


@pytest.fixture
def lost() -> list[ProviderError]:
    return []


@pytest.fixture
def world(url: str, lost: list[ProviderError]) -> Iterator[World]:
    clock = UnwatchedClock()
    home = JournalHome(lambda holder: open_journal(StoreSettings(url=url), holder, clock, on_lost=lost.append))
    yield World(home)
    home.close()


def test_a_connection_that_was_lost_between_two_writes_is_made_again(
    postgresql: PostgresqlServer, url: str, world: World, lost: list[ProviderError]
) -> None:
    world.add(world.message())
    postgresql.cut_holder(url)
    world.add(world.message())
    postgresql.cut_holder(url)
    world.remove((world.queue, world.message().reference))
    assert [message for message, _ in world.reopen().ids] == [1, 2]
    assert lost == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_user_timeout", "25000")],
)
def test_the_server_notices_that_a_holders_machine_is_gone(url: str, setting: str, value: str) -> None:
    """Also while it waits for the confirmation of an answer: then it sends no probes, and a stand-by broker waited for 15 minutes."""
    clock = SystemClock()
    engine = make_engine(make_url(url), postgresql_module.AnswerTimeout(clock))
    holding = postgresql_module.LockConnection(engine, clock)
    assert holding.acquire()
    assert holding.connection is not None
    assert holding.connection.execute(f"SHOW {setting}".encode()).fetchone() == (value,)
    holding.unlock()
    engine.dispose()


def test_readers_connections_are_made_again(postgresql: PostgresqlServer, world: World) -> None:
    sent = world.add(world.message())
    assert world.bodies(sent.reference.id)
    with postgresql.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE application_name = 'pyjms' AND pid <> pg_backend_pid()"
        )
    assert world.bodies(sent.reference.id) == {sent.reference.id: sent.envelope.body}


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("looks_open", [True, False])
@pytest.mark.parametrize("what", ["message", "branch", "removal"])
def test_a_commit_that_was_cut_off_is_settled_by_looking(
    world: World, monkeypatch: pytest.MonkeyPatch, is_written: bool, looks_open: bool, what: str
) -> None:
    """Twice, as the next connection may break, too; and a connection may be lost that psycopg takes for an open one."""
    old = world.add(world.message())
    real = postgresql_module.write
    cuts: list[int] = []

    def cut(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        if len(cuts) == 2:
            real(connection, steps, force=force)
            return
        cuts.append(1)
        if is_written:
            real(connection, steps, force=force)
        if not looks_open:
            connection.close()
        raise psycopg.OperationalError("cannot exit pipeline mode while busy")

    monkeypatch.setattr(postgresql_module, "write", cut)
    if what == "message":
        world.add(world.message())
        assert len(world.reopen().ids) == 2
    elif what == "branch":
        world.prepare(1)
        assert len(world.reopen().recovery.branches) == 1
    else:
        world.remove((world.queue, old.reference))
        assert world.reopen().ids == []
    assert cuts


def test_a_message_written_without_force_does_not_come_back_when_the_answer_to_its_removal_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, passed_on = world.message(), world.message()
    world.journal.write(Changes(messages=[received]), force=False)
    real, cuts = postgresql_module.write, list[int]()

    def cut(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        real(connection, steps, force=force)
        if not cuts:
            cuts.append(1)
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(postgresql_module, "write", cut)
    world.journal.write(Changes(messages=[passed_on], removals=[Removal(world.queue, received.reference)]), force=True)
    assert cuts
    assert [message for message, _ in world.reopen().ids] == [passed_on.reference.id]


@pytest.mark.parametrize("what", ["branch", "staged unit"])
def test_what_is_kept_anew_by_its_old_name_is_not_taken_for_what_had_it_before(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Nobody answered when it was kept first, so it is to go; and the connection is lost once more when it goes and is kept again."""
    old = world.add(world.message()).reference
    record = StageRecord(name=StageName("sink", 1, 0, "a"), messages=0, staged_ms=5, discarded_after_ms=6)
    if what == "branch":
        world.prepare(1)
        world.journal.note(Changes(outcomes=[BranchOutcome(xid(1), commit=False)]))
        again = Changes(prepared=PreparedBranch(xid(1), 7), removals=[Removal(world.queue, old)])
    else:
        world.journal.write(Changes(pipelines=PipelineChanges(staged=record)), force=True)
        world.journal.note(Changes(pipelines=PipelineChanges(outcomes=[(record.name, False)])))
        again = Changes(pipelines=PipelineChanges(staged=replace(record, staged_ms=7)))
    real, cuts = postgresql_module.write, list[int]()

    def cut(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        if not cuts:
            cuts.append(1)
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        real(connection, steps, force=force)

    monkeypatch.setattr(postgresql_module, "write", cut)
    world.journal.write(again, force=True)
    assert cuts
    recovery = world.reopen().recovery
    if what == "branch":
        assert [(each.prepared_ms, list(each.removals)) for each in recovery.branches] == [(7, [(world.queue, old.id)])]
    else:
        assert [each.record.staged_ms for each in recovery.stages] == [7]


def test_a_connection_that_is_ended_after_the_commit_loses_no_answer(
    postgresql: PostgresqlServer, url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says why it ends the connection, which is no word on the commit that it has done before."""
    real = postgresql_module.write
    ended: list[int] = []

    def be_ended(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        real(connection, steps, force=force)
        if not ended:
            ended.append(1)
            postgresql.cut_holder(url)
            connection.execute("SELECT 1")

    monkeypatch.setattr(postgresql_module, "write", be_ended)
    sent = world.add(world.message()).reference
    assert ended
    assert [message for message, _ in world.reopen().ids] == [sent.id]


def test_who_cannot_look_does_not_say_that_nothing_was_written(
    postgresql: PostgresqlServer, url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has locked the table, so that the server refuses to tell."""
    monkeypatch.setattr(postgresql_module, "SETTLE_MS", 0)
    real = postgresql_module.write
    with postgresql.connect() as administrator:

        def cut(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
            real(connection, steps, force=force)
            lock_table(administrator, url)
            raise psycopg.OperationalError("cannot exit pipeline mode while busy")

        monkeypatch.setattr(postgresql_module, "write", cut)
        with pytest.raises(InDoubtError, match="not known whether"):
            world.add(world.message())
    monkeypatch.setattr(postgresql_module, "write", real)
    assert len(world.reopen().ids) == 1


def lock_table(connection: psycopg.Connection[Any], url: str) -> None:
    """Have nobody read messages until `connection` ends."""
    connection.execute("BEGIN")
    connection.execute(f"LOCK TABLE {url.rpartition('%3D')[2]}.pyjms_message IN ACCESS EXCLUSIVE MODE".encode())


@pytest.mark.parametrize("refusal", ["23505", "53100", "55P03", "22P02"])
def test_what_the_server_refuses_was_not_written(postgresql: PostgresqlServer, refusal: str) -> None:
    with postgresql.connect() as connection, pytest.raises(psycopg.Error) as raised:
        connection.execute(f"DO $$ BEGIN RAISE SQLSTATE '{refusal}'; END $$".encode())
    assert raised.value.sqlstate == refusal
    assert postgresql_module.was_refused(raised.value)


@pytest.mark.parametrize("said", ["08006", "57P01", "08P01"])
def test_what_is_said_of_the_connection_is_no_refusal(postgresql: PostgresqlServer, said: str) -> None:
    with postgresql.connect() as connection, pytest.raises(psycopg.Error) as raised:
        connection.execute(f"DO $$ BEGIN RAISE SQLSTATE '{said}'; END $$".encode())
    assert not postgresql_module.was_refused(raised.value)


@pytest.mark.parametrize("has_ends", [False, True])
def test_another_brokers_take_over_is_noticed_before_the_next_commit(
    postgresql: PostgresqlServer, url: str, world: World, lost: list[ProviderError], has_ends: bool
) -> None:
    """Also where something is looked up before it."""
    postgresql.cut_holder(url)
    if has_ends:
        world.journal.note(Changes(outcomes=[BranchOutcome(xid(1), commit=False)]))
    second = open_journal(StoreSettings(url=url), "second", SystemClock())
    with pytest.raises(LostStoreError if has_ends else InDoubtError, match="another broker has held the store"):
        world.add(world.message())
    with pytest.raises(LostStoreError, match="another broker has held the store"):
        world.add(world.message())
    second.close(clean=True)
    assert [type(error) for error in lost] == [LostStoreError]
    assert open_and_list(url) == []


def open_and_list(url: str) -> list[int]:
    journal = open_journal(StoreSettings(url=url), "looking", SystemClock())
    ids = [int(entry.reference.id) for entry in journal.recover(lambda _: None).entries]
    journal.close(clean=False)
    return ids


def test_a_server_that_dies_in_the_midst_of_commits_loses_nothing_that_was_promised(
    postgresql: PostgresqlServer, world: World
) -> None:
    written: list[int] = []
    refused: list[int] = []
    stop, are_going = Event(), Event()
    batches = [[world.message() for _ in range(5000)] for _ in range(THREADS)]

    def send(number: int) -> None:
        for message in batches[number]:
            if stop.is_set():
                return
            try:
                world.add(message)
            except InDoubtError:
                continue
            except ResourceError:
                refused.append(message.reference.id)
            else:
                written.append(message.reference.id)
                if len(written) > 50:
                    are_going.set()

    threads = [Thread(target=send, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        are_going.clear()
        assert are_going.wait(LONG_S)
        postgresql.stop("immediate")
        postgresql.start()
    are_going.clear()
    assert are_going.wait(LONG_S), "the journal did not go on after the server came back"
    stop.set()
    for thread in threads:
        thread.join(LONG_S)
    found = {message for message, _ in world.reopen().ids}
    assert set(written) <= found
    assert not set(refused) & found


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_messages_written_without_force_are_kept_by_a_server_that_comes_back_and_hold_up_no_other_write(
    postgresql: PostgresqlServer, world: World, mode: str
) -> None:
    """They are written again, as the server may have lost them: an orderly end of it has not."""
    kept, settled = (world.message(), world.message(world.queue, world.other)), world.message()
    world.journal.write(Changes(messages=[*kept, settled]), force=False)
    world.journal.write(_removal(world, settled), force=False)
    postgresql.stop(mode)
    postgresql.start()
    later = world.add(world.message())
    found = world.reopen().ids
    assert found == [
        *((kept[0].reference.id, world.queue), (kept[1].reference.id, world.queue)),
        *((kept[1].reference.id, world.other), (later.reference.id, world.queue)),
    ]


def test_while_the_server_is_away_writes_are_refused_and_afterwards_they_go_on(
    postgresql: PostgresqlServer, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_module, "SETTLE_MS", 50)
    first, second, third = (world.message() for _ in range(3))
    world.add(first)
    postgresql.stop()
    try:
        with pytest.raises(InDoubtError, match="not known whether"):
            world.add(second)
        with pytest.raises(UnavailableStoreError, match="nothing was written"):
            world.add(second)
        with pytest.raises(UnavailableStoreError):
            world.bodies(first.reference.id)
        world.journal.note(_removal(world, first))
    finally:
        postgresql.start()
    world.add(third)
    assert [message for message, _ in world.reopen().ids] == [third.reference.id]


@pytest.mark.parametrize("ends", ["branch", "staged unit"])
def test_an_end_can_be_noted_while_the_server_is_away(
    postgresql: PostgresqlServer, world: World, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Nobody answered when it was prepared, so that it may be there, and its end is noted: which rows that are is found out later."""
    monkeypatch.setattr(postgresql_module, "SETTLE_MS", 50)
    name = StageName("sink", 1, 0, "attempt")
    staged = StageRecord(name=name, messages=0, staged_ms=1, discarded_after_ms=2)
    world.prepare(1)
    world.journal.write(Changes(pipelines=PipelineChanges(staged=staged)), force=True)
    postgresql.stop()
    try:
        if ends == "branch":
            world.journal.note(Changes(outcomes=[BranchOutcome(xid(1), commit=False)]))
        else:
            world.journal.note(Changes(pipelines=PipelineChanges(outcomes=[(name, False)])))
        with pytest.raises(UnavailableStoreError, match="nothing was written"):
            world.prepare(2)
    finally:
        postgresql.start()
    world.prepare(2)
    found = world.reopen().recovery
    left = ([branch.xid for branch in found.branches], [stage.record.name for stage in found.stages])
    assert left == (([xid(2)], [name]) if ends == "branch" else ([xid(1), xid(2)], []))


@pytest.fixture
def writes_look_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have writes find the server gone: the thread that looks may come first, and then a write that finds nobody is refused."""
    monkeypatch.setattr(postgresql_module.PostgresqlDatabase, "look", lambda _: None)


@pytest.mark.usefixtures("writes_look_first")
@pytest.mark.parametrize("deaths", ["after each write", "at the end"])
def test_what_a_server_had_not_forced_when_it_died_is_written_again(
    postgresql: PostgresqlServer, world: World, deaths: str
) -> None:
    messages = [world.message() for _ in range(4)]
    world.add(*messages)
    with postgresql.forgetful() as die:
        for message in messages[:2]:
            world.remove((world.queue, message.reference))
            if deaths == "after each write":
                die()
        world.journal.write(Changes(counts=[(world.queue, messages[3].reference, 7)]), force=False)
        die()
        world.journal.write(Changes(counts=[(world.queue, messages[2].reference, 5)]), force=True)
        found = world.reopen()
    assert [message for message, _ in found.ids] == [each.reference.id for each in messages[2:]]
    assert [found.counts()[each.reference.id, world.queue] for each in messages[2:]] == [5, 7]


class UnwatchedVirtualClock(VirtualClock):
    """By which no broker looks by itself whether it still holds its store."""

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        is_watch = current_thread().name.startswith("pyjms holder")
        return super().wait(signal, None if is_watch else until_ms)


def test_what_a_dying_server_may_forget_is_not_older_than_a_second(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = UnwatchedVirtualClock()
    home = JournalHome(lambda holder: open_journal(StoreSettings(url=url), holder, clock))
    world = World(home)
    real = postgresql_module.write
    forced: list[bool] = []

    def watch(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        forced.append(force)
        real(connection, steps, force=force)

    monkeypatch.setattr(postgresql_module, "write", watch)
    messages = [world.message() for _ in range(8)]
    world.add(*messages)
    for message, passes_ms in zip(messages, [600, 400, 1, 1000, 1, 2000, 0, 0], strict=True):
        world.remove((world.queue, message.reference))
        clock.advance(passes_ms)
    assert forced == [True, False, False, False, True, False, False, True, False]
    home.close()


@pytest.mark.usefixtures("writes_look_first")
def test_a_server_that_dies_again_while_that_is_written_is_waited_for(
    postgresql: PostgresqlServer, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = world.message(), world.message()
    world.add(first, second)
    real = postgresql_module.write
    with postgresql.forgetful() as die:
        world.remove((world.queue, first.reference))
        die()

        def die_first(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
            monkeypatch.setattr(postgresql_module, "write", real)
            die()
            real(connection, steps, force=force)

        monkeypatch.setattr(postgresql_module, "write", die_first)
        world.remove((world.queue, second.reference))
        assert world.reopen().ids == []


@pytest.mark.usefixtures("writes_look_first")
def test_what_was_asked_about_after_a_doubt_is_true_for_good(
    postgresql: PostgresqlServer, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal keeps no write in doubt that a dying server may forget, so the server must not once somebody relies on the answer."""
    real = postgresql_module.write
    sent = world.message()
    world.add(sent)
    with postgresql.forgetful() as die:
        with monkeypatch.context() as cutting, pytest.raises(InDoubtError):

            def refuse(holder: object) -> bool:
                raise psycopg.OperationalError("connection refused")

            def cut(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
                real(connection, steps, force=force)
                cutting.setattr(postgresql_module.LockConnection, "acquire", refuse)
                raise psycopg.OperationalError("server closed the connection unexpectedly")

            cutting.setattr(postgresql_module, "SETTLE_MS", 0)
            cutting.setattr(postgresql_module, "write", cut)
            world.remove((world.queue, sent.reference))
        assert world.journal.holds(world.queue, sent.reference) is False
        die()
        assert world.reopen().ids == []


def _removal(world: World, message: NewMessage) -> Changes:
    return Changes(removals=[Removal(world.queue, message.reference)])


def test_closing_ends_the_wait_for_the_server(postgresql: PostgresqlServer, url: str) -> None:
    waits = Event()

    class Watched(UnwatchedClock):
        def wait(self, signal: Signal, until_ms: float | None) -> bool:
            if current_thread() is thread:
                waits.set()
            return super().wait(signal, until_ms)

    clock = Watched()
    errors: list[ProviderError] = []

    def send() -> None:
        try:
            world.add(world.message())
        except ProviderError as error:
            errors.append(error)

    thread = Thread(target=send)
    world = World(JournalHome(lambda holder: open_journal(StoreSettings(url=url), holder, clock)))
    postgresql.stop()
    try:
        thread.start()
        assert waits.wait(LONG_S)
        world.journal.close(clean=False)
        thread.join(LONG_S)
    finally:
        postgresql.start()
    assert [type(error) for error in errors] == [InDoubtError]


def test_a_write_of_one_member_that_cannot_be_harms_no_other(world: World) -> None:
    good, again = world.message(), world.message()
    world.add(again)
    with pytest.raises(ResourceError, match="duplicate key"):
        world.add(good, again)
    world.add(good)
    assert [message for message, _ in world.reopen().ids] == [good.reference.id, again.reference.id]


def trouble(world: World) -> str | None:
    return world.journal.trouble


def test_a_full_disk_refuses_what_needs_room_and_nothing_else_and_operators_hear_of_it(
    postgresql: PostgresqlServer,
    url: str,
    world: World,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server says so of a statement, and takes the whole transaction back."""
    caplog.set_level(logging.INFO, "pyjms.store")
    old, new, other = world.message(), world.message(), world.message()
    world.add(old)
    reason = trouble(world)
    assert reason is None
    schema = url.rpartition("%3D")[2]
    with postgresql.connect() as administrator:
        administrator.execute(
            f"CREATE FUNCTION {schema}.be_full() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE disk_full USING MESSAGE = 'could not extend file'; END $$".encode()
        )
        administrator.execute(
            f"CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.pyjms_message EXECUTE FUNCTION {schema}.be_full()".encode()
        )
        for messages in ((new,), (new, other)):
            with pytest.raises(StoreError, match=r"the disk of .* is full; nothing was written\. Make room") as refused:
                world.add(*messages)
            assert type(refused.value) is StoreError, "it is the write's fault, and no other's"
            reason = refused.value.reason
        world.remove((world.queue, old.reference))
        assert trouble(world) == reason, "a removal does not show that there is room"
        monkeypatch.setattr(postgresql_module, "_FULL_MS", 0)
        with pytest.raises(StoreError, match="is full"):
            world.add(new)
        assert trouble(world) is None, "after a while it is not known any more"
        administrator.execute(f"DROP TRIGGER full_disk ON {schema}.pyjms_message".encode())
    world.add(new)
    world.add(other)
    assert trouble(world) is None
    told = [each for each in caplog.messages if each.startswith("PYJMS-STORE-7")]
    assert told[0] == f"PYJMS-STORE-7 {reason}"
    assert [each.endswith("has room for messages again") for each in told] == [False, True]
    world.remove((world.queue, other.reference))
    assert [message for message, _ in world.reopen().ids] == [new.reference.id]


def test_a_database_that_is_not_there_is_named(url: str) -> None:
    with pytest.raises(UnusableStoreError, match=r"nowhere.*must exist"):
        open_journal(StoreSettings(url=url.replace("/postgres?", "/nowhere?")), "test", SystemClock())


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(UnavailableStoreError, match=r"127\.0\.0\.1:1/shop cannot be reached"):
        open_journal(StoreSettings(url="postgresql+psycopg://me@127.0.0.1:1/shop"), "test", SystemClock())


@pytest.mark.parametrize("synchronous", Synchronous)
def test_only_forced_writes_wait_for_the_servers_disk(
    url: str, synchronous: Synchronous, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[bool] = []
    real = postgresql_module.write

    def watch(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        forced.append(force)
        real(
            connection,
            [*steps, ("SELECT set_config('pyjms.seen', current_setting('synchronous_commit'), false)", [()])],
            force=force,
        )
        seen.append(connection.execute("SELECT current_setting('pyjms.seen')").fetchone()[0])  # type: ignore[index]

    seen: list[str] = []
    settings = StoreSettings(url=url, synchronous=synchronous)
    world = World(JournalHome(lambda holder: open_journal(settings, holder, SystemClock())))
    monkeypatch.setattr(postgresql_module, "write", watch)
    sent = world.add(world.message()).reference
    world.remove((world.queue, sent))
    expected = ["on", "off"] if synchronous is Synchronous.FULL else ["off", "off"]
    assert seen == expected
    world.journal.close(clean=True)


def _error(text: bytes) -> bytes:
    fields = b"SFATAL\0VFATAL\0C28000\0M" + text + b"\0\0"
    return b"E" + (len(fields) + 4).to_bytes(4, "big") + fields


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"R\0\0\0\x08\0\0\0\x03", "no password supplied"),  # it asks for a password in clear
        (_error(b'no pg_hba.conf entry for host "127.0.0.1"'), "no pg_hba.conf entry"),
        (_error(b'password authentication failed for user "me"'), "authentication failed"),
    ],
    ids=["no password", "no entry", "wrong password"],
)
def test_a_user_who_is_refused_is_told_what_to_see_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: bytes, says: str
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))

    def refuse() -> None:
        with suppress(OSError):  # the test has ended it
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(LONG_S)
                    connection.recv(1024)
                    connection.sendall(answer)
                    connection.recv(1024)

    with socket.create_server(("127.0.0.1", 0)) as server:
        refusing = Thread(target=refuse, daemon=True)
        refusing.start()
        url = f"postgresql+psycopg://me@127.0.0.1:{server.getsockname()[1]}/shop?sslmode=disable&gssencmode=disable"
        with pytest.raises(
            UnusableStoreError, match=rf"{says}.*See that user and password are right.* as store_password"
        ):
            open_journal(StoreSettings(url=url), "test", SystemClock())
        server.shutdown(socket.SHUT_RDWR)
        refusing.join(LONG_S)


def test_an_interrupt_that_is_being_handled_is_not_raised_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program ends by it, and sends its last message, on a connection that is lost just then."""
    real = postgresql_module.write

    def cut(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        monkeypatch.setattr(postgresql_module, "write", real)
        connection.close()
        real(connection, steps, force=force)

    monkeypatch.setattr(postgresql_module, "write", cut)
    message = world.message()
    try:
        raise KeyboardInterrupt  # noqa: TRY301 - what is sent while it is handled must not raise it again
    except KeyboardInterrupt:
        world.add(message)
    assert [each for each, _ in world.reopen().ids] == [message.reference.id]


@pytest.mark.parametrize(
    ("error", "is_refusal"),
    [
        (OverflowError(), True),
        (ValueError(), True),
        (TypeError(), True),
        (SQLAlchemyError(), False),
        (AssertionError(), False),
    ],
)
def test_only_what_a_value_caused_was_refused_by_the_driver(error: Exception, is_refusal: bool) -> None:
    assert postgresql_module.was_refused(error) is is_refusal
