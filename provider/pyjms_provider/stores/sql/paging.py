"""Messages that need not survive, on the disk for as long as memory is short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import InDoubtError
from pyjms_provider.stores.errors import StoreError
from pyjms_provider.stores.group_commit import CommitRequest, GroupCommit
from pyjms_provider.stores.sql.batch import Batch

if TYPE_CHECKING:
    from pyjms_provider.core.message.reference import ReferenceId
    from pyjms_provider.stores.sql.database import Database

_PURGE: Final = 512
"""How many forgotten messages are deleted at once."""


class Paging:
    """A table of payloads, made empty by whoever opens it."""

    def __init__(self, database: Database, remove: Callable[[], None]) -> None:
        """`remove` removes what is left of the table after it was closed."""
        self._database = database
        self._remove = remove
        self._group: GroupCommit[Batch] = GroupCommit(self._commit)
        self._lock = Lock()
        self._count = 0
        self._dropped: dict[ReferenceId, None] = {}

    def add(self, rows: Sequence[tuple[ReferenceId, bytes]]) -> None:
        """Keep payloads. Raises `StoreError`."""
        self._purge_many()  # first, as it makes room
        try:
            self._add(rows)
        except StoreError:
            if not self._dropped:
                raise
            self._purge()  # it may be for want of room
            self._add(rows)

    def _add(self, rows: Sequence[tuple[ReferenceId, bytes]]) -> None:
        batch = Batch()
        batch.others.append((self._database.statements.add_paged, rows))
        self._group.submit(batch, force=False)
        with self._lock:
            self._count += len(rows)

    def fetch(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        """Return the payloads of those that are there. Raises `StoreError`."""
        if not self._count:
            return {}
        found = self._database.fetch_from(self._database.statements.read_paged, ids)
        self._purge_many()
        return found

    def drop(self, ids: Sequence[ReferenceId]) -> None:
        """Forget payloads, sooner or later. Does not wait. May be repeated."""
        with self._lock:
            self._dropped.update(dict.fromkeys(ids))

    def _purge_many(self) -> None:
        """Delete what was forgotten, if it is much. It is done by who waits for the disk anyway."""
        if len(self._dropped) >= _PURGE:
            self._purge()

    def _purge(self) -> None:
        with self._lock:
            dropped, self._dropped = self._dropped, {}
            self._count -= len(dropped)
        batch = Batch()
        batch.others.append((self._database.statements.drop_paged, [(each,) for each in dropped]))
        try:
            self._group.submit(batch, force=False)
        except (StoreError, InDoubtError):
            with self._lock:  # it was only tidying up: another time, as what has gone may be forgotten once more
                self._dropped.update(dropped)
                self._count += len(dropped)

    def _commit(self, requests: Sequence[CommitRequest[Batch]]) -> None:
        for request in requests:
            try:
                self._database.commit(request.work, force=False)
            except (StoreError, InDoubtError) as error:
                request.error = error
            else:
                request.error = None

    def interrupt(self) -> None:
        """Have nobody wait who reads for others, from now on. Any thread."""
        self._database.interrupt()

    def close(self) -> None:
        """Let go of the disk."""
        self._database.close()
        with suppress(OSError):  # a disk that is read-only now: who opens the table next makes it empty
            self._remove()
