"""From an older schema to the present one, version by version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyjms_provider.stores.sql import tables as t

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["MIGRATIONS", "Migration"]

Migration = Callable[["Connection"], None]
"""Changes the schema and what is in it, within the transaction of the connection."""


def _add_pipelines(connection: Connection) -> None:
    """Make the tables of reader groups and staged units."""
    t.SCHEMA.create_all(connection, tables=[t.GROUP, t.RESERVED, t.STAGE, t.STAGE_MARKER])


MIGRATIONS: Final[Mapping[int, Migration]] = {1: _add_pipelines}
"""By the version that it starts from; it leads to the next one. Version 1 is the first."""
