"""Whether a database is ours, of which version, and how it was left; makes and migrates the schema."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Column, MetaData, Table, column, func, insert, inspect, select, table, text, update

from pyjms_provider.stores.errors import DamagedStoreError, ForeignStoreError, NewerStoreError
from pyjms_provider.stores.sql import tables as t

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

    from pyjms.spi.clock import Clock, Signal
    from pyjms_provider.settings import Synchronous

# From an older schema to the present one, version by version.

_OF_DUPLICATES: Final = ("kind", "name", "temporary", "duplicate_id", "until_ms")
_NUMBERED: Final = 3  # the version in which they have serials
Migration = Callable[["Connection"], None]
"""Changes the schema and what is in it, within the transaction of the connection."""


def _add_pipelines(connection: Connection) -> None:
    """Make the tables of reader groups and staged units."""
    t.SCHEMA.create_all(connection, tables=[t.GROUP, t.RESERVED, t.STAGE, t.STAGE_MARKER])


def _number_duplicates(connection: Connection) -> None:
    """Give the ids of producers the serials that are their key now: those that are forgotten first have the lowest."""
    name = t.DUPLICATE.name
    kept = _OF_DUPLICATES
    by_age = func.row_number().over(order_by=column("until_ms")).label("serial")
    old = str(select(*map(column, kept), by_age).select_from(table(name)))
    # Not a temporary one: those ask a right of PostgreSQL's users that they often have not, and it ends with the transaction anyway.
    connection.execute(text(f"CREATE TABLE {name}_old AS {old}"))
    connection.execute(text(f"DROP TABLE {name}"))
    t.SCHEMA.create_all(connection, tables=[t.DUPLICATE])
    connection.execute(
        insert(t.DUPLICATE).from_select(
            [*kept, "serial"], select(*map(column, (*kept, "serial"))).select_from(table(f"{name}_old"))
        )
    )
    connection.execute(text(f"DROP TABLE {name}_old"))


def make_lost(connection: Connection, version: int) -> None:
    """Make tables anew, as they were in `version`, that a store may have lost which is being saved, and that migrations change."""
    if version < _NUMBERED and not inspect(connection).has_table(t.DUPLICATE.name):
        columns = (Column(each, t.DUPLICATE.c[each].type) for each in _OF_DUPLICATES)
        Table(t.DUPLICATE.name, MetaData(), *columns).create(connection)


FIRST: Final = 1
"""The first version that there was."""
MIGRATIONS: Final[Mapping[int, Migration]] = {1: _add_pipelines, 2: _number_duplicates}
"""By the version that it starts from; it leads to the next one."""
BROUGHT: Final[Mapping[int, tuple[str, str]]] = {2: (t.GROUP.name, "number"), _NUMBERED: (t.DUPLICATE.name, "serial")}
"""By version, a table and a column that it brought, which tell it of a store whose own note of it is lost."""


# What is wanted of a store that is opened.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """Which store a broker wants, and how."""

    url: URL
    holder: str
    """The broker's name."""
    clock: Clock
    synchronous: Synchronous
    waits: bool
    """Whether to wait while another broker holds it."""
    cancelled: Signal | None
    """What ends that wait; None: nothing."""
    is_shared: bool
    """Whether tables of others may stand beside its own."""
    keep_free_bytes: int
    """How much of its disk is left for acknowledgements; a server's disk is the server's."""


_log = logging.getLogger(__name__)

PRODUCT: Final = "pyjms"
_REMEDY: Final = "Put a backup in its place, or, if it is a file of SQLite, save what can be read with: pyjms broker salvage FILE NEW-FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """How the last holder left the database."""

    epoch: int
    """Of this opening."""
    opening: tuple[object, ...]
    """What tells this opening from all others."""
    next_queue: int
    was_closed: bool


def prepare_schema(
    connection: Connection,
    where: str,
    *,
    is_shared: bool,
) -> bool:
    """Make the schema, or bring it to the present version; return whether it was there and left clean, or is new.

    `where` names the database in errors; `is_shared`: tables of others may stand beside ours. Until the transaction ends, nobody else
    opens the database, nor commits to it together with an application. Raises `ForeignStoreError`, `NewerStoreError`, `DamagedStoreError`.
    """
    names = set(inspect(connection).get_table_names())
    if t.META.name not in names:
        refuse_foreign(names, where, is_shared=is_shared)
        t.SCHEMA.create_all(connection)
        first = {"one": 1, "product": PRODUCT, "version": t.VERSION, "next_queue": 1, "epoch": 0, "clean": True}
        connection.execute(insert(t.META).values(**first, holder=""))
        return True
    # Locked, for who has held it before: an application's transaction may just be writing there that a queue has the next number.
    found = select(t.META.c.product, t.META.c.version, t.META.c.clean).with_for_update()
    row: Any = connection.execute(found).first()
    if row is None:
        raise DamagedStoreError(f"{where} has lost its row in {t.META.name}. {_REMEDY}")
    if row.product != PRODUCT:
        raise ForeignStoreError(f"{where} is a store of {row.product!r}; name another database")
    if row.version > t.VERSION:
        raise NewerStoreError(
            f"{where} has schema {row.version}, and this pyjms knows schema {t.VERSION}: install the pyjms that wrote it, "
            "or a newer one"
        )
    if row.version < FIRST:
        raise DamagedStoreError(f"{where} says that it has schema {row.version}, which there never was. {_REMEDY}")
    _migrate(connection, where, row.version)
    return bool(row.clean)


def refuse_foreign(names: set[str], where: str, *, is_shared: bool) -> None:
    """Raise `ForeignStoreError` if the schema must not be made where there are these tables, of which none has its meta data."""
    ours = sorted(name for name in names if name.startswith(t.PREFIX))
    if ours:
        raise ForeignStoreError(
            f"{where} has tables of pyjms ({', '.join(ours[:3])}) but not {t.META.name}: put a backup in its place, or "
            "name another database"
        )
    if names and not is_shared:
        raise ForeignStoreError(
            f"{where} has tables of others ({', '.join(sorted(names)[:3])}): name another database, or write "
            "?pyjms_shared=true at the end of its URL to have the store's tables beside them"
        )


def _migrate(connection: Connection, where: str, found: int) -> None:
    for step in range(found, t.VERSION):
        migration = MIGRATIONS.get(step)
        if migration is None:
            raise NewerStoreError(
                f"{where} has schema {step}, which this pyjms cannot read any more: open it once with an older pyjms"
            )
        migration(connection)
        connection.execute(update(t.META).values(version=step + 1))
        _log.info("%s: schema %d became schema %d", where, step, step + 1)


def take(connection: Connection, holder: str, opening_of: Callable[[Connection], tuple[object, ...]]) -> Meta:
    """Note that the database is open now, and by whom; return how it was left. `opening_of` is the database's."""
    row: Any = connection.execute(select(t.META.c.next_queue, t.META.c.epoch, t.META.c.clean)).one()
    named = f"{holder}, opening {uuid.uuid4().hex[:12]}"  # as two stores may have been opened equally often
    connection.execute(update(t.META).values(epoch=row.epoch + 1, clean=False, holder=named))
    return Meta(
        epoch=row.epoch + 1,
        opening=opening_of(connection),
        next_queue=row.next_queue,
        was_closed=bool(row.clean),
    )
