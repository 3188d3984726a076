"""From an older schema to the present one, version by version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from sqlalchemy import Column, MetaData, Table, column, func, insert, inspect, select, table, text

from pyjms_provider.stores.sql import tables as t

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["BROUGHT", "FIRST", "MIGRATIONS", "Migration", "make_lost"]

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
