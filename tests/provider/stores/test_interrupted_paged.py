"""The main thread is interrupted while it writes what was paged out: all of it is written or nothing, and who writes next is not in its way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pyjms.spi.clock import SystemClock
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import SqlJournal, open_journal
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World, without_envelope
from tests.needs.declaring import needing
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.postgresql import PostgresqlServer

FILES = ("sql/message_rows.py", "sql/paging.py", "sql/readers.py", "sql/sqlite.py", "sql/postgresql.py")


@pytest.fixture(params=["sqlite", needing("postgresql")])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        url = server.make_store()
    home = JournalHome(lambda holder: open_journal(StoreSettings(url=url), holder, SystemClock()))
    yield World(home)
    home.close()


def test_all_of_it_is_written_or_nothing(world: World) -> None:
    assert isinstance(world.journal, SqlJournal)
    database, outcomes = world.journal._database, set[int]()

    def attempt(interruption: Interruption) -> None:
        sent = [world.message(text=f"{number}{'x' * 1000}") for number in range(3)]
        for each in sent:
            each.reference.size = 600_000  # so that they are read two and two
        world.page_out(*sent)
        with suppress(KeyboardInterrupt), interruption():
            world.journal.write(Changes(messages=[without_envelope(each) for each in sent]), force=True)
        after = world.add(world.message())
        outcomes.add(len(database.fetch([each.reference.id for each in sent])))
        assert outcomes <= {0, 3}, interruption.where
        assert database.fetch([after.reference.id]), interruption.where

    assert each_interruption(attempt, *FILES) > 20
    assert outcomes == {0, 3}
