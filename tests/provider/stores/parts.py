"""A journal on a database that a test can reach, to ask it or to have it fail."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import make_url

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import ProviderError
from pyjms_provider.core.journal.journal import Journal
from pyjms_provider.settings import Synchronous
from pyjms_provider.stores.group_commit import GroupCommit
from pyjms_provider.stores.sql import SqlJournal
from pyjms_provider.stores.sql.batch import Batch, Row
from pyjms_provider.stores.sql.database import Database, Paging
from pyjms_provider.stores.sql.journal import LeasedJournal
from pyjms_provider.stores.sql.schema import Meta, OpenRequest
from pyjms_provider.stores.sql.sqlite_files import Checkpoints, OpenFiles
from tests.provider.cost import nearest

__all__ = ["SqlStore", "checkpoints_of", "files_of", "group_of"]


def files_of(journal: Journal) -> OpenFiles:
    """Return what knows the files of a journal's database in SQLite, and is to hear of failures of its disk."""
    return nearest(journal, OpenFiles)


def checkpoints_of(journal: Journal) -> Checkpoints:
    """Return what has the log of a journal's database in SQLite carried over."""
    return nearest(journal, Checkpoints)


def group_of(journal: Journal) -> GroupCommit[Batch | Row]:
    """Return the group in which a journal's threads commit."""
    return nearest(journal, GroupCommit)


class SqlStore:
    """Opens journals as `open_journal` does, and gives the parts of the last one."""

    journal: SqlJournal
    database: Database
    paging: Paging
    meta: Meta

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        *,
        on_lost: Callable[[ProviderError], None] = lambda _: None,
        cancelled: Signal | None = None,
        is_shared: bool = False,
    ) -> None:
        self._url = make_url(url).difference_update_query(["pyjms_shared"])
        self._clock = clock or SystemClock()
        self._on_lost = on_lost
        self._cancelled = cancelled
        self._is_shared = is_shared

    def open(self, holder: str) -> SqlJournal:
        """Return a journal for the broker of that name."""
        if self._url.drivername == "sqlite":
            from pyjms_provider.stores.sql.sqlite import open_sqlite as open_database
        else:
            from pyjms_provider.stores.sql.postgresql import open_postgresql as open_database  # type: ignore[assignment]
        self.database, self.paging, self.meta = open_database(
            OpenRequest(
                url=self._url,
                holder=holder,
                clock=self._clock,
                synchronous=Synchronous.FULL,
                waits=False,
                cancelled=self._cancelled,
                is_shared=self._is_shared,
                keep_free_bytes=0,
            )
        )
        kind = SqlJournal if self.database.lease is None else LeasedJournal
        self.journal = kind(self.database, self.paging, self._clock, self.meta, on_lost=self._on_lost)
        return self.journal
