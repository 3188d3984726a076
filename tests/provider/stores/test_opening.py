"""Opening a store: which URLs, whose databases, which versions; on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.event import listens_for

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import UrlError
from pyjms_provider.core.journal.journal import (
    Changes,
    ClientChanges,
    ClientRecord,
    PipelineChanges,
    QueueNumber,
    QueueRecord,
    Removal,
    SubscriptionKey,
)
from pyjms_provider.settings import Acknowledge, StandBy, StoreSettings, Synchronous
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    HeldStoreError,
    NewerStoreError,
    StoreError,
    UnsupportedStoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.sql import SqlJournal, open_journal
from pyjms_provider.stores.sql import schema as schema_module
from pyjms_provider.stores.sql import sqlite_files as log_index
from pyjms_provider.stores.sql.schema import VERSION
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.needs.declaring import needing
from tests.provider.cost import nearest
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.log_lock import keep_out, let_in, open_index


def opened(url: str) -> SqlJournal:
    return open_journal(StoreSettings(url=url), "test", SystemClock())


@pytest.fixture(params=["sqlite", needing("postgresql")])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}"
    made: str = request.getfixturevalue("postgresql").make_store()
    return made


Change = Callable[..., None]


@contextmanager
def change_of(url: str) -> Iterator[Change]:
    """Yields what runs statements on the database, as somebody else."""
    engine = create_engine(make_url(url))

    def run(*statements: str) -> None:
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))

    yield run
    engine.dispose()


@pytest.fixture
def change(url: str) -> Iterator[Change]:
    """Run statements on the database, as somebody else."""
    with change_of(url) as run:
        yield run


@pytest.mark.parametrize(
    "wrong",
    ["mysql://localhost/shop", "oracle+oracledb://x", "postgresql+psycopg2://localhost/x", "postgresql://localhost/x"],
)
def test_databases_that_were_not_tested_are_refused_by_name(wrong: str) -> None:
    with pytest.raises(UnsupportedStoreError, match=make_url(wrong).drivername.replace("+", r"\+") + " was not tested"):
        opened(wrong)


@pytest.mark.parametrize("wrong", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=true"])
def test_a_store_in_memory_is_refused(wrong: str) -> None:
    with pytest.raises(UnsupportedStoreError, match="needs a file"):
        opened(wrong)


def test_an_option_that_sqlite_does_not_have_here_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(UnsupportedStoreError, match="timeout"):
        opened(f"sqlite:///{tmp_path_factory.mktemp('x')}/x.db?timeout=3")


@pytest.mark.parametrize(
    "url", ["sqlite:///x.db?", "postgresql+psycopg://shop:secret@127.0.0.1:1/shop?connect_timeout=1&"]
)
@pytest.mark.parametrize("option", ["synchronous=normal", "memory=1GiB", "max_bytes=10MB"])
def test_an_option_of_the_broker_in_the_url_of_its_store_is_told_where_it_belongs(url: str, option: str) -> None:
    name = option.partition("=")[0]
    with pytest.raises(
        UrlError, match=f"^{name}= .*vm://shop\\?store=sqlite:///shop.db&{name}=.*virtual host"
    ) as caught:
        opened(url + option)
    assert "secret" not in caught.value.reason


@pytest.mark.parametrize("wrong", ["shop.db", "", "://", "sqlite:///x.db?pyjms_shared=maybe"])
def test_what_is_no_url_is_refused(wrong: str) -> None:
    with pytest.raises(UrlError):
        opened(wrong)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("sqlite://data/shop.db", r"three slashes .*write sqlite:///data/shop\.db$"),
        ("sqlite://shop.db", r"three slashes .*write sqlite:///shop\.db$"),
        ("sqlite://ann:secret@/shop.db", r"no users.*write sqlite:///shop\.db$"),
        ("sqlite:///shop\0.db", "null character"),
    ],
)
def test_a_file_that_is_named_wrongly_is_refused_before_anything_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UrlError, match=says) as caught:
        opened(wrong)
    assert "secret" not in caught.value.reason
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UnusableStoreError, match=r"not a file, but a directory"):
        opened(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_a_name_that_is_too_long_for_the_files_beside_it_is_refused(tmp_path: Path, letter: str) -> None:
    """SQLite would say that it cannot be opened, or that a file is left over that cannot be removed."""
    long = "x" + letter * (240 // len(letter.encode()))
    opened(f"sqlite:///{tmp_path / long}").close(clean=True)
    with pytest.raises(UnusableStoreError, match=r"the name has 24[23] bytes, and 241 is the most.*Choose a shorter"):
        opened(f"sqlite:///{tmp_path / long}{letter}")


def test_a_path_that_is_too_long_for_the_files_beside_it_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 200) / ("e" * 100)
    directory.mkdir(parents=True)
    name = "x" * (498 - len(os.fsencode(directory)) - 1)
    opened(f"sqlite:///{directory / name}").close(clean=True)
    with pytest.raises(UnusableStoreError, match=r"the path has 499 bytes, and 498 is the most.*Choose a shorter"):
        opened(f"sqlite:///{directory / name}x")


@pytest.mark.parametrize("driver", ["psycopg", "msgspec", "sqlalchemy"])
def test_a_missing_library_is_named_with_what_to_install(driver: str) -> None:
    program = f"""
import sys
sys.modules[{driver!r}] = None
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ProviderError
from pyjms_provider.core.journal.journal import Changes, ClientChanges, ClientRecord, PipelineChanges, Removal
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.opening import open_store
try:
    open_store(StoreSettings(url="postgresql+psycopg://localhost/x"), "test", SystemClock(), on_lost=print)
except ProviderError as error:
    print(error.reason)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'pyjms-messaging[" in done.stdout, done


def test_a_database_of_others_is_refused_unless_it_may_be_shared(url: str, change: Change) -> None:
    change("CREATE TABLE customers (name TEXT)", "INSERT INTO customers VALUES ('Ada')")
    with pytest.raises(ForeignStoreError, match=r"customers.*pyjms_shared=true"):
        opened(url)
    shared = f"{url}{'&' if '?' in url else '?'}pyjms_shared=true"
    home = JournalHome(lambda _: opened(shared))
    world = World(home)
    sent = world.add(world.message()).reference
    assert world.reopen().ids == [(sent.id, world.queue)]
    world.journal.close(clean=True)
    opened(url).close(clean=True)  # it is ours now, whoever else is there
    change("DELETE FROM customers WHERE name = 'Ada'")


def test_a_store_of_another_product_is_refused(url: str, change: Change) -> None:
    opened(url).close(clean=True)
    change("UPDATE pyjms_meta SET product = 'other'")
    with pytest.raises(ForeignStoreError, match="other"):
        opened(url)


def test_a_newer_schema_is_refused(url: str, change: Change) -> None:
    opened(url).close(clean=True)
    change("UPDATE pyjms_meta SET version = 99")
    with pytest.raises(NewerStoreError, match=r"schema 99.*newer"):
        opened(url)


def test_a_store_that_lost_its_meta_data_is_refused(url: str, change: Change) -> None:
    opened(url).close(clean=True)
    change("DELETE FROM pyjms_meta")
    with pytest.raises(DamagedStoreError, match=r"pyjms_meta.*backup"):
        opened(url)
    change("DROP TABLE pyjms_meta")
    with pytest.raises(ForeignStoreError, match=r"not pyjms_meta.*backup"):
        opened(url)


def test_a_refused_store_is_not_held(url: str, change: Change) -> None:
    opened(url).close(clean=True)
    change("UPDATE pyjms_meta SET version = 99")
    with pytest.raises(NewerStoreError):
        opened(url)
    change(f"UPDATE pyjms_meta SET version = {VERSION}")
    opened(url).close(clean=True)


PIPELINES = ("pyjms_group", "pyjms_reserved", "pyjms_stage", "pyjms_stage_marker")
CLIENTS = ("pyjms_client", "pyjms_branch_client")
UNSHARED = "ALTER TABLE pyjms_queue DROP COLUMN shared"
"""Makes the table of queues that of a version before the fifth."""


def test_a_store_of_the_first_version_gets_the_tables_of_pipelines_and_keeps_its_messages(
    url: str, change: Change
) -> None:
    world = World(JournalHome(lambda _: opened(url)))
    sent = world.add(world.message()).reference
    world.journal.close(clean=True)
    change(*(f"DROP TABLE {name}" for name in (*PIPELINES, *CLIENTS)), UNSHARED, "UPDATE pyjms_meta SET version = 1")
    world = World(JournalHome(lambda _: opened(url)))
    assert [entry.reference.id for entry in world.found.entries] == [sent.id]
    world.journal.write(Changes(pipelines=PipelineChanges(markers=[("sink", 7)])), force=True)
    assert world.reopen().recovery.stage_markers == [("sink", 7)]
    world.journal.close(clean=True)


def test_a_store_of_the_third_version_gets_the_tables_of_clients_and_keeps_all_it_has(url: str, change: Change) -> None:
    """That of 0.1.0, with messages in a queue and in a prepared branch, and with duplicate ids."""
    world = World(JournalHome(lambda _: opened(url)))
    sent, prepared = world.add(world.message()).reference, world.message()
    world.prepare(1, prepared, removals=[Removal(world.queue, sent)])
    world.remember("d", 2**62)
    world.journal.close(clean=True)
    change(*(f"DROP TABLE {name}" for name in CLIENTS), UNSHARED, "UPDATE pyjms_meta SET version = 3")
    world = World(JournalHome(lambda _: opened(url)))
    assert [entry.reference.id for entry in world.found.entries] == [sent.id]
    assert [mark.duplicate_id for mark in world.found.recovery.duplicates] == ["d"]
    (branch,) = world.found.recovery.branches
    assert ([reference.id for _, reference in branch.messages], list(branch.clients)) == ([prepared.reference.id], [])
    world.decide(1, commit=True)
    client = ClientRecord(name="desk", generation="g", incarnation=1, owner="", registered_ms=1, request_tag="7")
    world.journal.write(Changes(clients=ClientChanges(put=[client])), force=True)
    assert list(world.reopen().recovery.clients) == [client]
    assert [entry.reference.id for entry in world.found.entries] == [prepared.reference.id]
    world.journal.close(clean=True)


def test_a_store_of_the_fourth_version_keeps_its_subscriptions_which_are_not_shared(url: str, change: Change) -> None:
    world, topic = World(JournalHome(lambda _: opened(url))), Address(AddressKind.TOPIC, "news")
    record = QueueRecord(number=QueueNumber(0), address=topic, subscription=SubscriptionKey("desk", "all"))
    number = world.journal.define_queue(record)
    sent = world.add(world.message(number)).reference
    world.journal.close(clean=True)
    change(UNSHARED, "UPDATE pyjms_meta SET version = 4")
    world = World(JournalHome(lambda _: opened(url)))
    assert [each for each in world.found.recovery.queues if each.subscription] == [replace(record, number=number)]
    assert [(entry.queue, entry.reference.id) for entry in world.found.entries] == [(number, sent.id)]
    anonymous = replace(record, subscription=SubscriptionKey("", "all"), is_shared=True)
    anonymous = replace(anonymous, number=world.journal.define_queue(anonymous))
    found = [each for each in world.reopen().recovery.queues if each.subscription]
    assert found == [replace(record, number=number), anonymous]
    world.journal.close(clean=True)


def make_second_version(change: Change) -> None:
    """Have a store that is of the present version, and closed, be of the second one, with three ids."""
    names = "kind SMALLINT, name TEXT, temporary BOOLEAN, duplicate_id TEXT, until_ms BIGINT"
    change(
        *(f"DROP TABLE {name}" for name in CLIENTS),
        UNSHARED,
        "DROP TABLE pyjms_duplicate",
        f"CREATE TABLE pyjms_duplicate ({names}, PRIMARY KEY (kind, name, temporary, duplicate_id))",
        *(
            f"INSERT INTO pyjms_duplicate VALUES (1, 'orders', FALSE, '{identity}', {2**61 + until})"
            for identity, until in (("b", 1), ("a", 3), ("c", 2))
        ),
        "UPDATE pyjms_meta SET version = 2",
    )


def test_a_store_of_the_second_version_keeps_the_ids_of_producers_in_their_order(url: str, change: Change) -> None:
    opened(url).close(clean=True)
    make_second_version(change)
    world = World(JournalHome(lambda _: opened(url)))
    found = sorted(world.found.recovery.duplicates, key=lambda mark: mark.serial)
    assert [(mark.duplicate_id, mark.until_ms, mark.serial) for mark in found] == [
        *(("b", 2**61 + 1, 1), ("c", 2**61 + 2, 2), ("a", 2**61 + 3, 3)),
    ]
    world.remember("d", 2**62, found[0].address, serial=4, below=3)
    assert {mark.duplicate_id for mark in world.reopen().recovery.duplicates} == {"a", "d"}
    world.journal.close(clean=True)


def test_the_upgrade_needs_no_right_to_make_temporary_tables(postgresql: PostgresqlServer) -> None:
    """Taking that right from all is usual on servers of several applications."""
    url = make_url(postgresql.make_store())
    name = str(url.query["options"]).rpartition("=")[2]
    with postgresql.connect() as connection:
        for statement in (
            f"CREATE ROLE {name} LOGIN",
            f"CREATE DATABASE {name} OWNER {name}",
            f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC, {name}",
        ):
            connection.execute(statement.encode())
    url = url.set(username=name, database=name, query={})
    shown = url.render_as_string()
    opened(shown).close(clean=True)
    with change_of(shown) as change:
        make_second_version(change)
    world = World(JournalHome(lambda _: opened(shown)))
    assert {mark.duplicate_id for mark in world.found.recovery.duplicates} == {"a", "b", "c"}
    world.journal.close(clean=True)


def test_an_older_schema_is_brought_to_the_present_version_step_by_step(
    url: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(url).close(clean=True)
    change(
        "ALTER TABLE pyjms_message DROP COLUMN deliver_at",
        "UPDATE pyjms_meta SET version = -1",
    )
    seen: list[int] = []

    def first(connection: Connection) -> None:
        seen.append(-1)
        connection.execute(text("ALTER TABLE pyjms_message ADD COLUMN later BIGINT"))

    def second(connection: Connection) -> None:
        seen.append(0)
        connection.execute(text("ALTER TABLE pyjms_message RENAME COLUMN later TO deliver_at"))

    later = dict.fromkeys(range(1, VERSION), lambda _: None)
    monkeypatch.setattr(schema_module, "MIGRATIONS", {-1: first, 0: second, **later})
    monkeypatch.setattr(schema_module, "FIRST", -1)
    world = World(JournalHome(lambda _: opened(url)))
    assert seen == [-1, 0]
    sent = world.add(world.message(deliver_at_ms=5)).reference
    assert world.reopen().reference(sent.id).deliver_at_ms == 5
    world.journal.close(clean=True)


def test_a_migration_that_fails_changes_nothing(url: str, change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(url).close(clean=True)
    change("UPDATE pyjms_meta SET version = 0")

    def broken(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE pyjms_queue ADD COLUMN half BIGINT"))
        connection.execute(text("ALTER TABLE no_such_table ADD COLUMN half BIGINT"))

    monkeypatch.setattr(schema_module, "MIGRATIONS", {0: broken, 1: broken, 2: broken, 3: broken})
    monkeypatch.setattr(schema_module, "FIRST", -1)
    with pytest.raises(StoreError, match="no_such_table"):
        opened(url)
    change("ALTER TABLE pyjms_queue ADD COLUMN half BIGINT", f"UPDATE pyjms_meta SET version = {VERSION}")
    opened(url).close(clean=True)


def test_a_schema_that_is_too_old_is_refused(url: str, change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(url).close(clean=True)
    change("UPDATE pyjms_meta SET version = 1")
    monkeypatch.setattr(schema_module, "MIGRATIONS", {})
    with pytest.raises(NewerStoreError, match=r"schema 1.*older pyjms"):
        opened(url)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE pyjms_meta SET version = 0", "schema 0, which there never was"),
        ("DELETE FROM pyjms_meta", "has lost its row in pyjms_meta"),
    ],
)
def test_meta_data_that_there_never_were_are_damage(url: str, change: Change, damage: str, told: str) -> None:
    opened(url).close(clean=True)
    change(damage)
    with pytest.raises(DamagedStoreError, match=f"{told}.*backup.*pyjms broker salvage"):
        opened(url)


def test_the_password_is_in_no_error() -> None:
    with pytest.raises(StoreError) as caught:
        opened("postgresql+psycopg://shop:secret@127.0.0.1:1/shop?connect_timeout=1")
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" in caught.value.reason


LEVELS = {
    (Synchronous.FULL, Acknowledge.WRITTEN): (2, 1),
    (Synchronous.FULL, Acknowledge.FORCED): (2, 2),
    (Synchronous.NORMAL, Acknowledge.FORCED): (1, 1),
    (Synchronous.OFF, Acknowledge.WRITTEN): (0, 0),
}


@pytest.mark.parametrize("chosen", LEVELS)
def test_writes_are_forced_as_far_as_was_chosen(
    tmp_path_factory: pytest.TempPathFactory, chosen: tuple[Synchronous, Acknowledge]
) -> None:
    synchronous, acknowledge = chosen
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}"
    settings = StoreSettings(url=url, synchronous=synchronous, acknowledge=acknowledge)
    world = World(JournalHome(lambda holder: open_journal(settings, holder, SystemClock())))
    levels = []
    for _ in range(2):
        sent = world.add(world.message()).reference
        levels.append(_level(world))
        world.remove((world.queue, sent))
        levels.append(_level(world))
    assert tuple(levels) == LEVELS[chosen] * 2
    world.journal.close(clean=True)


def _level(world: World) -> int:
    level: int = nearest(world.journal, sqlite3.Connection).execute("PRAGMA synchronous").fetchone()[0]
    return level


def test_a_file_of_others_that_is_refused_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE customer (name)")
    before = path.read_bytes()
    with pytest.raises(ForeignStoreError, match="has tables of others"):
        opened(f"sqlite:///{path}")
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"theirs.db", "theirs.db.lock"}


@pytest.mark.parametrize("is_clean", [True, False])
def test_tables_of_an_application_are_sorted_by_what_only_its_program_knows(tmp_path: Path, is_clean: bool) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.create_collation("german", lambda one, other: (one > other) - (one < other))
        connection.execute("CREATE TABLE customer (name TEXT COLLATE german)")
        connection.execute("CREATE INDEX by_name ON customer (name)")
        connection.execute("INSERT INTO customer VALUES ('Meier')")
    settings = StoreSettings(url=f"sqlite:///{path}?pyjms_shared=true")
    for _ in range(2):
        open_journal(settings, "test", SystemClock()).close(clean=is_clean)
    opened(f"sqlite:///{path}").close(clean=is_clean)  # once without the option


def test_rows_that_break_the_rules_of_an_application_are_its_own_affair(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    opened(f"sqlite:///{path}").close(clean=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE customer (age CHECK (age > 0))")
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute("INSERT INTO customer VALUES (-1)")
    opened(f"sqlite:///{path}").close(clean=True)


def test_an_application_may_write_while_its_file_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    opened(f"sqlite:///{path}").close(clean=True)
    checks: list[str] = []
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as application:
        application.execute("CREATE TABLE customer (name)")

        @listens_for(Engine, "after_cursor_execute")
        def write_beside(_1: Any, _2: Any, statement: str, *_: Any) -> None:
            if "quick_check" in statement:
                application.execute("INSERT INTO customer VALUES ('Meier')")
                checks.append(statement)

        try:
            opened(f"sqlite:///{path}?pyjms_shared=true").close(clean=True)
        finally:
            event.remove(Engine, "after_cursor_execute", write_beside)
    assert checks


@pytest.fixture
def ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Leave a store as after a kill, while an application carries its log over; the call ends that."""
    path = tmp_path / "store.db"
    world = World(JournalHome(lambda holder: open_journal(_shared(path), holder, SystemClock())))
    world.add(world.message())
    with closing(sqlite3.connect(path)) as application:
        application.execute("SELECT count(*) FROM pyjms_message").fetchone()
        world.journal.close(clean=False)
        monkeypatch.setattr(log_index, "_ATTEMPTS", 2)
        index = open_index(path)
        assert keep_out(index)
        yield partial(let_in, index)
        os.close(index)


def _shared(path: Path, stand_by: StandBy = StandBy.REFUSE) -> StoreSettings:
    return StoreSettings(url=f"sqlite:///{path}?pyjms_shared=true", stand_by=stand_by)


def test_a_log_that_another_program_carries_over_is_no_failure_of_the_disk(
    tmp_path: Path, ends: Callable[[], None]
) -> None:
    with pytest.raises(
        HeldStoreError, match=r"or the store was not closed, and somebody .*another program.* Try again, or end that"
    ):
        open_journal(_shared(tmp_path / "store.db"), "test", SystemClock())
    ends()
    open_journal(_shared(tmp_path / "store.db"), "test", SystemClock()).close(clean=True)


def test_who_stands_by_waits_until_another_program_has_carried_the_log_over(
    tmp_path: Path, ends: Callable[[], None]
) -> None:
    class Ending(SystemClock):
        def wait(self, signal: Signal, until_ms: float | None) -> bool:
            waits.append(until_ms)
            ends()
            return super().wait(signal, until_ms)

    waits: list[float | None] = []
    open_journal(_shared(tmp_path / "store.db", StandBy.WAIT), "test", Ending()).close(clean=True)
    assert len(waits) == 1
