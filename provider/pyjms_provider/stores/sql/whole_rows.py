"""The rows of small tables at a start. A damaged file of SQLite may have anything in any column, and one such row is not to keep the rest from starting.

So rows are read as the driver has them, text that is no UTF-8 with them, and those with values that pyjms never writes are told and passed over.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Boolean, Integer, LargeBinary, select

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Column, Connection, Row, Table

__all__ = ["UNDECODABLE", "all_rows", "is_whole", "tell_damage", "whole_rows"]

UNDECODABLE: Final = "surrogateescape"
"""How text that is no UTF-8 is read here: what stands for its bytes is never in text that pyjms has written (`text_to_column`)."""
_log = logging.getLogger("pyjms.store")


def whole_rows(connection: Connection, table: Table, *order: Column[Any]) -> Sequence[Row[Any]]:
    """Return the rows that can be understood; all others are told to the log."""
    found = []
    for row in all_rows(connection, table, *order):
        if is_whole(table, row):
            found.append(row)
        else:
            tell_damage(table, row, "it is passed over")
    return found


def all_rows(connection: Connection, table: Table, *order: Column[Any]) -> Iterator[Row[Any]]:
    """Yield all rows, with the values that the driver has."""
    query = select(table).order_by(*order)
    yield from connection.exec_driver_sql(str(query.compile(dialect=connection.dialect)))


def is_whole(table: Table, row: Row[Any]) -> bool:
    """Return whether each value is of its column's type."""
    return all(_fits(column, value) for column, value in zip(table.columns, row, strict=True))


def tell_damage(table: Table, row: Row[Any], what: str) -> None:
    """Tell the log of a row that cannot be understood, and `what` becomes of it."""
    _log.error(
        "PYJMS-STORE-10 a row of %s has values that pyjms never writes, so the file is damaged; %s: %r",
        table.name,
        what,
        tuple(row),
    )


def _fits(column: Column[Any], value: Any) -> bool:
    if value is None:
        return bool(column.nullable)
    kind = column.type
    if isinstance(kind, Boolean):
        return type(value) in {bool, int} and value in {0, 1}
    if isinstance(kind, Integer):
        return type(value) is int
    if isinstance(kind, LargeBinary):
        return isinstance(value, (bytes, memoryview))
    return type(value) is str and not any("\ud800" <= character <= "\udfff" for character in value)
