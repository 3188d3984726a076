"""Takes the store of a single broker into a new cluster: all of it into one shard, to which its destinations are moved.

So all that concerns several tables of a store stays together: prepared branches, reader groups, staged units, duplicate ids. What a cluster looks for by
its name goes where it looks: registered clients into the shard of their name, and the markers of sinks into all shards, which promote together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import insert, select, update

from pyjms.spi.envelope import AddressKind
from pyjms_provider.settings import StandBy, StoreSettings
from pyjms_provider.stores.errors import UnusableStoreError
from pyjms_provider.stores.sql import schema as t
from pyjms_provider.stores.sql.cluster import PLACEMENT, SUBSCRIPTION, ClusterDatabase
from pyjms_provider.stores.sql.journal import open_journal

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from pyjms.spi.clock import Clock
    from pyjms_provider.stores.sql.journal import SqlJournal

_SHARD: Final = 0
_CHUNK: Final = 1_000
_ANSWER_MS: Final = 600_000.0
_SPREAD: Final = (t.META, t.CLIENT, t.STAGE_MARKER)
"""The tables whose rows do not just go to the one shard."""
_COPIED: Final = [table for table in t.SCHEMA.sorted_tables if table not in _SPREAD]
_KINDS: Final = {AddressKind.QUEUE.value: "queue", AddressKind.TOPIC.value: "topic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """What a cluster has got."""

    shard: int
    """The shard that has it."""
    messages: int
    destinations: int
    subscriptions: int
    branches: int
    """Prepared branches."""
    clients: int
    """Registered clients."""


def adopt_store(
    store: str,
    database: str,
    clock: Clock,
    *,
    cluster: str,
    virtual_host: str,
    shards: int,
    shard_of_registered: Callable[[str], int],
) -> Adopted:
    """Copy the store of a single broker, which has stopped, into a cluster that does not exist yet.

    Nothing is written to the old store, but that it is opened, and migrated to the present schema if it is of an older one.

    Args:
        store: The URL of the old store.
        database: That of the cluster's database.
        clock: For timeouts.
        cluster: The name of the cluster.
        virtual_host: The name of its virtual host.
        shards: The number of its shards.
        shard_of_registered: Returns the shard of a registered client's name.

    Raises:
        UrlError: A URL cannot be read.
        StoreError: A broker works with the old store, the cluster exists already, or a database cannot be used. Nothing was made.
    """
    journal = open_journal(StoreSettings(url=store, stand_by=StandBy.REFUSE), "pyjms broker adopt", clock)
    try:
        target = ClusterDatabase(database, cluster, clock, answer_ms=_ANSWER_MS)
        try:
            with journal.reading() as old, target.adopting(shards, virtual_host) as new:
                return _Adoption(old, new, target, shards, shard_of_registered).run(journal)
        finally:
            target.close()
    finally:
        journal.close(clean=journal.was_closed)


class _Adoption:
    """The copying, in one transaction of each database."""

    def __init__(
        self,
        old: Connection,
        new: Connection,
        target: ClusterDatabase,
        shards: int,
        shard_of_registered: Callable[[str], int],
    ) -> None:
        self._old = old
        self._new = new
        self._target = target
        self._shards = range(shards)
        self._shard_of_registered = shard_of_registered

    def run(self, journal: SqlJournal) -> Adopted:
        """Copy everything. Raises `UnusableStoreError` for what cannot be in a cluster."""
        if self._old.execute(select(t.BRANCH_CLIENT).limit(1)).first() is not None:
            raise UnusableStoreError(
                "a prepared branch of the store changes a registered client, which a cluster may have in another shard: "
                "start the broker again, and have the branch committed or rolled back"
            )
        for number in self._shards:
            self._make_store(number)
        copied = {table.name: self._copy(table) for table in _COPIED}
        clients = self._copy(t.CLIENT, lambda row: [self._shard_of_registered(row["name"])])
        self._copy(t.STAGE_MARKER, lambda _: self._shards)
        destinations, subscriptions = self._place()
        with self._at(_SHARD) as new:
            meta = self._old.execute(select(t.META.c.next_queue, t.META.c.epoch)).one()
            new.execute(update(t.META).values(next_queue=meta.next_queue, epoch=meta.epoch, clean=journal.was_closed))
        return Adopted(
            shard=_SHARD,
            messages=copied[t.MESSAGE.name],
            destinations=destinations,
            subscriptions=subscriptions,
            branches=copied[t.BRANCH.name],
            clients=clients,
        )

    def _make_store(self, number: int) -> None:
        with self._at(number) as new:
            t.create_schema(new)

    def _copy(self, table: Table, shards_of: Callable[[Mapping[str, Any]], Collection[int]] | None = None) -> int:
        """Copy the rows of a table; return their number. `shards_of`: the shards that a row goes to; None: to the one for all."""
        count = 0
        for rows in self._rows(table):
            wanted: dict[int, list[Mapping[str, Any]]] = {}
            for row in rows:
                for number in [_SHARD] if shards_of is None else shards_of(row):
                    wanted.setdefault(number, []).append(row)
            for number, chosen in wanted.items():
                with self._at(number) as new:
                    new.execute(insert(table), chosen)
            count += len(rows)
        return count

    def _rows(self, table: Table) -> Iterator[list[Mapping[str, Any]]]:
        found = self._old.execute(select(table).execution_options(yield_per=_CHUNK)).mappings()
        for rows in found.partitions():
            yield [dict(row) for row in rows]

    @contextmanager
    def _at(self, number: int) -> Iterator[Connection]:
        """Give the new connection, for the tables of the store of one shard."""
        own = self._new.get_execution_options().get("schema_translate_map")
        self._new.execution_options(schema_translate_map={None: self._target.schema_of(number)})
        try:
            yield self._new
        finally:
            self._new.execution_options(schema_translate_map=own)

    def _place(self) -> tuple[int, int]:
        """Move the destinations to the shard, and enter the subscriptions; return how many there are of both."""
        queues = t.QUEUE.c
        found = self._old.execute(select(queues.kind, queues.name).where(~queues.temporary).distinct()).all()
        duplicates = t.DUPLICATE.c
        sent_to = select(duplicates.kind, duplicates.name).where(~duplicates.temporary).distinct()
        places = {(_KINDS[row.kind], row.name) for row in (*found, *self._old.execute(sent_to).all())}
        if places:
            rows = [{"kind": kind, "name": name, "shard": _SHARD} for kind, name in sorted(places)]
            self._new.execute(insert(PLACEMENT), rows)
        subscribed = self._old.execute(
            select(queues.client_id, queues.subscription, queues.name).where(queues.subscription.is_not(None))
        ).all()
        if subscribed:
            rows = [
                {"client_id": row.client_id or "", "name": row.subscription, "topic": row.name} for row in subscribed
            ]
            self._new.execute(insert(SUBSCRIPTION), rows)
        return len(places), len(subscribed)
